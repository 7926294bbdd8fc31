//! Random operations on a [`Shard`] of packed entries, compared with a plain map. The policy and
//! the index audit their host: every call must name an entry of which they were notified, no call
//! may be missing, and their bits in an entry must be unchanged.

use cache::{NewValue, Outside, PROTECTED, PackedEntries, Scope, Shard, Value};
use policy::{Admit, Budget, Cells, Due, Eviction, ExpiryIndex, Facts, OnHit, Policy, Slot, Tick};
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// FIFO as a plain list. Its bits are a stamp that is compared at every call.
struct AuditPolicy {
    order: Vec<(Slot, u8)>,
    weights: HashMap<Slot, u32>,
    next: u8,
    mask: u8,
}
impl AuditPolicy {
    fn at(&self, slot: Slot) -> usize {
        self.order
            .iter()
            .position(|e| e.0 == slot)
            .expect("the host names an entry it notified of")
    }
}
impl Policy for AuditPolicy {
    type Meta = u64;
    type Config = u8;
    const NAME: &'static str = "audit";
    const ON_HIT: OnHit = OnHit::Reorder;
    fn new(_: u64, mask: &u8, _: u64) -> Self {
        AuditPolicy {
            order: vec![],
            weights: HashMap::new(),
            next: 1,
            mask: *mask,
        }
    }
    fn resize(&mut self, _: u64) {}
    fn miss(&mut self, _: &impl Facts, _: u64, _: u32) -> Admit {
        Admit::Yes
    }
    fn insert(&mut self, cells: &mut impl Cells<u64>, slot: Slot) {
        assert!(self.order.iter().all(|e| e.0 != slot));
        assert_eq!(cells.get(slot), 0, "a newcomer's bits are zero");
        self.next = self.next.wrapping_add(1);
        cells.set(slot, u64::from(self.next & self.mask));
        self.order.push((slot, self.next & self.mask));
        self.weights.insert(slot, cells.weight(slot));
    }
    fn reorder(&mut self, cells: &mut impl Cells<u64>, slot: Slot) {
        assert_eq!(cells.get(slot), u64::from(self.order[self.at(slot)].1));
    }
    fn reweigh(&mut self, cells: &mut impl Cells<u64>, slot: Slot, old: u32) {
        assert_eq!(self.weights.insert(slot, cells.weight(slot)), Some(old));
    }
    fn moved(&mut self, cells: &mut impl Cells<u64>, old: Slot, new: Slot) {
        let at = self.at(old);
        assert_eq!(
            cells.get(new),
            u64::from(self.order[at].1),
            "bits move along"
        );
        self.order[at].0 = new;
        let weight = self.weights.remove(&old).expect("it was notified of");
        self.weights.insert(new, weight);
    }
    fn remove(&mut self, cells: &mut impl Cells<u64>, slot: Slot) {
        assert_eq!(cells.get(slot), u64::from(self.order[self.at(slot)].1));
        let at = self.at(slot);
        self.order.remove(at);
        self.weights.remove(&slot);
    }
    fn evict(&mut self, cells: &mut impl Cells<u64>, budget: &mut Budget) -> Eviction {
        match self.order.first() {
            None => Eviction::Empty,
            Some(_) if !budget.spend() => Eviction::Again,
            Some((slot, _)) => {
                let slot = *slot;
                self.remove(cells, slot);
                Eviction::Victim(slot)
            }
        }
    }
    fn heap_bytes(&self) -> usize {
        0
    }
    fn check(&self, cells: &impl Cells<u64>) {
        assert_eq!(cells.len(), self.order.len());
        for (slot, stamp) in &self.order {
            assert!(cells.is_live(*slot));
            assert_eq!(cells.get(*slot), u64::from(*stamp));
            assert_eq!(cells.weight(*slot), self.weights[slot]);
        }
    }
}

/// An exact index made of plain maps. Its bits are a stamp.
struct AuditIndex {
    by_slot: RefCell<HashMap<Slot, (Tick, u64)>>,
    next: u64,
    mask: u64,
}
impl ExpiryIndex for AuditIndex {
    type Link = u64;
    type Config = u64;
    const NAME: &'static str = "audit";
    fn new(_: Tick, mask: &u64, _: u64) -> Self {
        AuditIndex {
            by_slot: RefCell::default(),
            next: 0,
            mask: *mask,
        }
    }
    fn granularity(&self) -> Option<u64> {
        Some(0)
    }
    fn insert(&mut self, cells: &mut impl Cells<u64>, slot: Slot) {
        assert_eq!(cells.get(slot), 0, "a newcomer's bits are zero");
        self.next += 1;
        cells.set(slot, self.next & self.mask);
        let notified = (
            cells.deadline(slot).expect("it has one"),
            self.next & self.mask,
        );
        assert!(self.by_slot.get_mut().insert(slot, notified).is_none());
    }
    fn remove(&mut self, cells: &mut impl Cells<u64>, slot: Slot) {
        let notified = self
            .by_slot
            .get_mut()
            .remove(&slot)
            .expect("it was notified of");
        assert_eq!(
            (cells.deadline(slot), cells.get(slot)),
            (Some(notified.0), notified.1)
        );
    }
    fn update(&mut self, cells: &mut impl Cells<u64>, slot: Slot, old: Tick) {
        let notified = self
            .by_slot
            .get_mut()
            .get_mut(&slot)
            .expect("it was notified of");
        assert_eq!((notified.0, notified.1), (old, cells.get(slot)));
        notified.0 = cells.deadline(slot).expect("it has one");
    }
    fn moved(&mut self, cells: &mut impl Cells<u64>, old: Slot, new: Slot) {
        let notified = self
            .by_slot
            .get_mut()
            .remove(&old)
            .expect("it was notified of");
        assert_eq!(cells.get(new), notified.1, "bits move along");
        assert!(self.by_slot.get_mut().insert(new, notified).is_none());
    }
    fn pop_expired(&mut self, cells: &mut impl Cells<u64>, now: Tick, budget: &mut Budget) -> Due {
        let due = self.by_slot.get_mut().iter().map(|(s, t)| (t.0, *s)).min();
        match due {
            Some((deadline, slot)) if deadline < now => {
                if !budget.spend() {
                    return Due::Again;
                }
                self.remove(cells, slot);
                Due::Slot(slot)
            }
            _ => Due::Nothing,
        }
    }
    fn next_due(&self) -> Option<Tick> {
        self.by_slot
            .borrow()
            .values()
            .map(|t| Tick(t.0.0 + 1))
            .min()
    }
    fn backlog(&self, now: Tick) -> usize {
        self.by_slot.borrow().values().filter(|t| t.0 < now).count()
    }
    fn len(&self) -> usize {
        self.by_slot.borrow().len()
    }
    fn heap_bytes(&self) -> usize {
        0
    }
    fn check(&self, cells: &impl Cells<u64>) {
        for (slot, notified) in self.by_slot.borrow().iter() {
            assert_eq!(
                (cells.deadline(*slot), cells.get(*slot)),
                (Some(notified.0), notified.1)
            );
        }
    }
}

struct Large(Vec<u8>);
impl Outside for Large {
    fn heap_bytes(&self) -> usize {
        self.0.len()
    }
    fn embedded_deadline(value: &Value<'_, Large>) -> Option<Option<Tick>> {
        match value {
            Value::Inline(tag, bytes) => kept(bytes.len()).filter(|_| *tag > 1),
            Value::Outside(large) => kept(large.0.len()),
        }
    }
}

/// Returns the embedded deadline of a value of this length. Some lengths represent values whose
/// parts have deadlines, and some of these also embed the entry's own deadline.
fn kept(len: usize) -> Option<Option<Tick>> {
    match len % 8 {
        3 | 5 => Some(None),
        7 => Some(Some(Tick(9000))),
        _ => None,
    }
}

/// Returns the indexed deadline of an entry with a value of this length. The parts' deadline comes
/// soon.
fn filed(len: usize, own: Option<u64>) -> Option<u64> {
    own.or(kept(len).map(|_| 2000))
}
type Subject = Shard<PackedEntries<Large, u64, u64>, AuditPolicy, AuditIndex>;

#[derive(Clone, Debug)]
enum Op {
    Set {
        key: u16,
        value: usize,
        deadline: Option<u64>,
    },
    Deadline {
        key: u16,
        deadline: Option<u64>,
    },
    Delete(u16),
    Get(u16),
    Grow(u16),
    Evict,
    Expire {
        now: u64,
        budget: u32,
    },
    Switch {
        bits: u32,
        scope: u8,
    },
    Drain(u32),
    Compact(u32),
    Protect {
        key: u16,
        is_protected: bool,
    },
}
fn op() -> impl Strategy<Value = Op> {
    let value = prop_oneof![5 => 0..40usize, 2 => 0..600usize, 1 => 1600..3000usize];
    let deadline = || prop::option::of(0..5000u64);
    prop_oneof![
        12 => (0..300u16, value, deadline()).prop_map(|(key, value, deadline)| Op::Set { key, value, deadline }),
        4 => (0..300u16, deadline()).prop_map(|(key, deadline)| Op::Deadline { key, deadline }),
        4 => (0..300u16).prop_map(Op::Delete),
        3 => (0..300u16).prop_map(Op::Get),
        1 => (0..300u16).prop_map(Op::Grow),
        2 => Just(Op::Evict),
        1 => (0..6000u64, 0..50u32).prop_map(|(now, budget)| Op::Expire { now, budget }),
        1 => (prop::sample::select(vec![0u32, 8, 24, 32, 64]), 0..3u8).prop_map(|(bits, scope)| Op::Switch { bits, scope }),
        2 => (1..200u32).prop_map(Op::Drain),
        2 => (1..100u32).prop_map(Op::Compact),
        2 => (0..300u16, any::<bool>()).prop_map(|(key, is_protected)| Op::Protect { key, is_protected }),
    ]
}

/// Returns the bytes of a key. Some keys are longer than a block can hold.
fn key_bytes(key: u16) -> Vec<u8> {
    let mut bytes = format!("key:{key}").into_bytes();
    if key.is_multiple_of(11) {
        bytes.resize(240 + key as usize % 40, b'k');
    }
    bytes
}

struct Run {
    shard: Subject,
    model: BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)>,
    protected: BTreeSet<Vec<u8>>,
    drain_at: Option<u32>,
    stamp: u8,
}

impl Run {
    fn set(&mut self, key: u16, len: usize, deadline: Option<u64>) {
        let key = key_bytes(key);
        self.stamp = self.stamp.wrapping_add(1);
        let bytes = vec![self.stamp; len];
        let value = if Subject::must_be_outside(&key, len) {
            NewValue::Outside(Large(bytes.clone()))
        } else {
            NewValue::Inline(2 + (len % 13) as u8, &bytes)
        };
        let deadline = filed(len, deadline);
        let hash = self.shard.entries.hash(&key);
        match self.shard.find(hash, &key) {
            Some(slot) => {
                self.shard.change(slot, value, deadline.map(Tick));
            }
            None => {
                self.shard.admit(hash, len as u32, deadline.map(Tick));
                self.shard.insert(hash, &key, value, deadline.map(Tick));
            }
        }
        self.model.insert(key, (bytes, deadline));
    }

    fn find(&self, key: u16) -> Option<(Slot, Vec<u8>)> {
        let key = key_bytes(key);
        let slot = self.shard.find(self.shard.entries.hash(&key), &key);
        assert_eq!(slot.is_some(), self.model.contains_key(&key));
        slot.map(|slot| (slot, key))
    }

    fn step(&mut self, op: Op) {
        match op {
            Op::Set {
                key,
                value,
                deadline,
            } => self.set(key, value, deadline),
            Op::Deadline { key, deadline } => {
                if let Some((slot, key)) = self.find(key) {
                    let entry = self.model.get_mut(&key).expect("both hold it");
                    entry.1 = filed(entry.0.len(), deadline);
                    self.shard.change(slot, NewValue::Same, entry.1.map(Tick));
                }
            }
            Op::Delete(key) => {
                if let Some((slot, key)) = self.find(key) {
                    self.shard.delete(slot);
                    self.model.remove(&key);
                    self.protected.remove(&key);
                }
            }
            Op::Get(key) => {
                if let Some((slot, _)) = self.find(key) {
                    self.shard.hit(slot);
                }
            }
            Op::Grow(key) => {
                if let Some((slot, key)) = self.find(key)
                    && self
                        .shard
                        .edit_outside(slot, |large| large.0.extend(b"more"))
                        .is_some()
                {
                    let entry = self.model.get_mut(&key).expect("both hold it");
                    entry.0.extend(b"more");
                    entry.1 = filed(entry.0.len(), entry.1);
                    self.shard.change(slot, NewValue::Same, entry.1.map(Tick));
                }
            }
            Op::Evict => {
                if let Eviction::Victim(slot) = self.shard.evict(&mut Budget(5)) {
                    let key = self.shard.entries.key(slot).to_vec();
                    self.shard.remove_evicted(slot);
                    assert!(self.model.remove(&key).is_some());
                    assert!(!self.protected.contains(&key));
                }
            }
            Op::Expire { now, budget } => self.expire(now, budget),
            Op::Switch { bits, scope } => {
                if !self.shard.is_draining() {
                    let mask = if bits == 0 { 0 } else { 0xff };
                    let policy = (AuditPolicy::new(0, &mask, 0), bits);
                    let scope = [Scope::Nothing, Scope::All, Scope::Volatile][scope as usize];
                    self.shard
                        .set_policy((scope != Scope::Nothing).then_some(policy), scope);
                    self.drain_at = Some(0);
                }
            }
            Op::Drain(steps) => {
                if let Some(at) = self.drain_at {
                    self.drain_at = self.shard.drain(at, steps);
                }
            }
            Op::Compact(steps) => {
                self.shard.compact(steps);
            }
            Op::Protect { key, is_protected } => {
                if let Some((slot, key)) = self.find(key) {
                    self.shard.protect(slot, is_protected);
                    match is_protected {
                        true => self.protected.insert(key),
                        false => self.protected.remove(&key),
                    };
                }
            }
        }
    }

    fn expire(&mut self, now: u64, budget: u32) {
        let mut budget = Budget(budget);
        loop {
            match self.shard.pop_expired(Tick(now), &mut budget) {
                Due::Slot(slot) => {
                    let key = self.shard.entries.key(slot).to_vec();
                    self.shard.remove_expired(slot);
                    let gone = self.model.remove(&key).expect("both hold it");
                    self.protected.remove(&key);
                    assert!(gone.1.expect("it had a deadline") < now);
                }
                Due::Again => return,
                Due::Nothing => break,
            }
        }
        assert!(self.model.values().all(|v| v.1.is_none_or(|d| d >= now)));
    }

    fn compare(&mut self) {
        self.shard.check();
        // After a drain every entry has its owner, and no change may undo that.
        assert!(self.drain_at.is_some() || !self.shard.needs_drain());
        assert_eq!(self.shard.entries.len(), self.model.len());
        let own = |(bytes, deadline): &(Vec<u8>, Option<u64>)| {
            let deadline = deadline.map(Tick);
            kept(bytes.len()).unwrap_or(deadline)
        };
        let mut owns: Vec<Tick> = self.model.values().filter_map(own).collect();
        assert_eq!(self.shard.entries.own_deadlines(), owns.len());
        let parted = self.model.values().filter(|(b, _)| kept(b.len()).is_some());
        assert_eq!(self.shard.entries.with_part_deadlines(), parted.count());
        let mut notified = vec![];
        self.shard
            .entries
            .sample_deadlines(300, |deadline| notified.push(deadline));
        owns.sort_unstable();
        notified.sort_unstable();
        assert_eq!(notified, owns);
        for (key, (bytes, deadline)) in &self.model {
            let slot = self
                .shard
                .find(self.shard.entries.hash(key), key)
                .expect("both hold it");
            let is_protected = self.shard.entries.shape(slot).owner == PROTECTED;
            assert_eq!(is_protected, self.protected.contains(key));
            match self.shard.value(slot) {
                Value::Inline(tag, inline) => {
                    assert_eq!(inline, bytes);
                    assert_eq!(tag as usize, 2 + bytes.len() % 13);
                }
                Value::Outside(large) => assert_eq!(&large.0, bytes),
            }
            assert_eq!(
                self.shard.entries.shape(slot).deadline.map(|d| d.0),
                *deadline
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn a_shard_holds_what_a_plain_map_holds(
        ops in prop::collection::vec(op(), 1..500),
        link_bits in prop::sample::select(vec![0u32, 16, 32, 48]),
    ) {
        let mask = if link_bits == 0 { 0 } else { 0xff };
        let entries = PackedEntries::new(0.3, [1, 2], link_bits);
        let shard = Shard::new(entries, AuditIndex::new(Tick(0), &mask, 0));
        let mut run = Run { shard, model: BTreeMap::new(), protected: BTreeSet::new(), drain_at: None, stamp: 0 };
        for (i, op) in ops.into_iter().enumerate() {
            run.step(op);
            if i % 32 == 0 {
                run.compare();
            }
        }
        run.compare();
    }
}

#[test]
fn memory_is_freed_after_values_shrink_and_half_the_keys_are_deleted() {
    let shard = Shard::new(
        PackedEntries::new(0.0, [3, 4], 16),
        AuditIndex::new(Tick(0), &0xff, 0),
    );
    let mut run: Run = Run {
        shard,
        model: BTreeMap::new(),
        protected: BTreeSet::new(),
        drain_at: None,
        stamp: 0,
    };
    let keys: Vec<Vec<u8>> = (0..60_000u32)
        .map(|i| format!("{i:016}").into_bytes())
        .collect();
    let put = |shard: &mut Subject, key: &[u8], len: usize| {
        let hash = shard.entries.hash(key);
        let value = vec![7; len];
        match shard.find(hash, key) {
            Some(slot) => {
                shard.change(slot, NewValue::Inline(1, &value), None);
            }
            None => {
                shard.insert(hash, key, NewValue::Inline(1, &value), None);
            }
        }
    };
    for key in &keys {
        put(&mut run.shard, key, 100);
    }
    for key in &keys {
        put(&mut run.shard, key, 10);
    }
    for key in keys.iter().step_by(2) {
        let slot = run
            .shard
            .find(run.shard.entries.hash(key), key)
            .expect("it was put");
        run.shard.delete(slot);
    }
    while run.shard.compact(100) {}
    run.shard.check();
    let (live, free) = (
        run.shard.entries.entry_bytes(),
        run.shard.entries.free_bytes(),
    );
    assert_eq!(live, 30_000 * 32);
    assert!(
        free < live / 2 + (1 << 19),
        "{free} bytes free beside {live} live"
    );
}

#[test]
fn a_scan_returns_every_key() {
    let mut shard: Subject = Shard::new(
        PackedEntries::new(0.9, [5, 6], 16),
        AuditIndex::new(Tick(0), &0, 0),
    );
    for i in 0..5000u32 {
        let key = i.to_le_bytes();
        let hash = shard.entries.hash(&key);
        shard.insert(hash, &key, NewValue::Inline(1, b""), None);
    }
    let (mut seen, mut at) = (BTreeSet::new(), Some(Default::default()));
    while let Some(position) = at {
        at = shard.entries.scan(position, 10, |slot| {
            assert!(
                seen.insert(slot),
                "without changes every key is notified once"
            );
        });
    }
    assert_eq!(seen.len(), 5000);
}

/// Creates a shard without a policy that holds these keys, each with a value of `len` bytes.
fn filled(keys: impl Iterator<Item = u32>, len: usize) -> Subject {
    let mut shard = Shard::new(
        PackedEntries::new(0.0, [7, 8], 16),
        AuditIndex::new(Tick(0), &0xff, 0),
    );
    keys.for_each(|key| put_plain(&mut shard, key, len, None));
    shard
}

fn put_plain(shard: &mut Subject, key: u32, len: usize, deadline: Option<Tick>) {
    let (key, value) = (format!("{key:016}").into_bytes(), vec![7; len]);
    let hash = shard.entries.hash(&key);
    shard.insert(hash, &key, NewValue::Inline(1, &value), deadline);
}

#[test]
fn a_page_that_was_reopened_is_not_emptied() {
    // Regression: the page being emptied lost its last entries by deletion and its number was used
    // again. Then the new entries of that page were moved without need.
    const PER_PAGE: u32 = 32_768 / 3;
    let mut shard = filled(0..6 * PER_PAGE, 3);
    let delete = |shard: &mut Subject, key: u32| {
        let key = format!("{key:016}").into_bytes();
        let slot = shard
            .find(shard.entries.hash(&key), &key)
            .expect("it was put");
        shard.delete(slot);
    };
    (10..PER_PAGE).for_each(|key| delete(&mut shard, key));
    (PER_PAGE..5 * PER_PAGE)
        .filter(|key| key % 4 > 0)
        .for_each(|key| delete(&mut shard, key));
    let (old, _) = shard.entries.compact().expect("there are sparse pages");
    assert_eq!(old.0, 0, "the first page is the sparsest");
    (0..10).for_each(|key| delete(&mut shard, key));
    (0..3000).for_each(|key| put_plain(&mut shard, 1_000_000 + key, 100, None));
    let (old, _) = shard.entries.compact().expect("others are sparse");
    assert!(
        old.0 >= 32_768,
        "{old:?} lies in the page that is open again"
    );
}

#[test]
fn sampling_few_deadlines_among_many_entries_is_bounded() {
    // Regression: each of 256 samples searched through all other entries.
    let mut shard = filled(0..50_000, 3);
    for key in 0..8 {
        put_plain(&mut shard, 1_000_000 + key, 3, Some(Tick(5)));
    }
    let mut notified = 0;
    shard.entries.sample_deadlines(256, |deadline| {
        assert_eq!(deadline, Tick(5));
        notified += 1;
    });
    assert!((1..16).contains(&notified), "{notified} samples");
}
