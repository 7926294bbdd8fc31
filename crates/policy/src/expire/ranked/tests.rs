//! Promises of ranks beyond the suite of all indexes.

use super::*;
use crate::suite::host::Host;
use core::cell::Cell;
use proptest::prelude::*;
use std::collections::BTreeSet;

const START: Tick = Tick(1_763_640_000_123);

/// A host that counts the entries that are read.
struct Looks<'a> {
    host: &'a Host<()>,
    count: Cell<usize>,
}

impl Facts for Looks<'_> {
    crate::delegate_facts!(host: now requests is_live weight key_hash len sample);
    fn deadline(&self, slot: Slot) -> Option<Tick> {
        self.count.set(self.count.get() + 1);
        self.host.deadline(slot)
    }
}

struct Trial {
    host: Host<()>,
    index: Ranked,
    model: BTreeSet<Place>,
}

impl Trial {
    fn new() -> Trial {
        Trial {
            host: Host::new(START),
            index: Ranked::default(),
            model: BTreeSet::new(),
        }
    }

    fn insert(&mut self, deadline: Tick) -> Slot {
        let slot = self.host.add(0, 1, Some(deadline));
        self.host.hold(slot);
        self.index.insert(&mut self.host, slot);
        self.model.insert((deadline, slot));
        slot
    }

    fn update(&mut self, slot: Slot, deadline: Tick) {
        let old = self.host.set_deadline(slot, Some(deadline));
        let old = old.expect("it had one");
        self.index.update(&mut self.host, slot, old);
        self.model.remove(&(old, slot));
        self.model.insert((deadline, slot));
    }

    fn remove(&mut self, slot: Slot) {
        self.index.remove(&mut self.host, slot);
        self.model.remove(&place_of(&self.host, slot));
        self.host.free(slot);
    }

    fn looks(&self) -> Looks<'_> {
        let count = Cell::new(0);
        let host = &self.host;
        Looks { host, count }
    }

    /// Returns the rank of a deadline, reading at most one leaf's entries.
    fn rank(&self, deadline: Tick) -> usize {
        let looks = self.looks();
        let rank = self.index.rank(&looks, deadline);
        assert!(looks.count.get() <= LEAF_MAX);
        assert!(self.index.backlog(deadline) >= rank);
        rank
    }

    fn check(&self, around: u64) {
        self.index.check(&self.host);
        let places: Vec<Place> = self.model.iter().copied().collect();
        for deadline in (0..8).map(|step| Tick(START.0 + around * step / 7)) {
            let rank = places.partition_point(|place| place.0 < deadline);
            assert_eq!(self.rank(deadline), rank);
            let (mut found, looks) = (vec![], self.looks());
            self.index.walk(&looks, rank, &mut |deadline, slot| {
                found.push((deadline, slot));
                found.len() < 5
            });
            assert!(looks.count.get() <= found.len() + 2 * LEAF_MAX);
            assert_eq!(
                found,
                places[rank..].iter().copied().take(5).collect::<Vec<_>>()
            );
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Insert(u64),
    /// Adds this number of entries, with deadlines at this distance from each other.
    Fill(u16, u64),
    Update(u16, u64),
    Remove(u16),
    /// Removes this number of entries: those that expire first if true, else arbitrary ones.
    Thin(u16, bool),
    Pop(u64, u16),
}

fn op() -> impl Strategy<Value = Op> {
    let ttl = || prop_oneof![Just(500), 0..1000u64];
    prop_oneof![
        4 => ttl().prop_map(Op::Insert),
        2 => (0..800u16, 0..3u64).prop_map(|(n, step)| Op::Fill(n, step)),
        4 => (any::<u16>(), ttl()).prop_map(|(at, t)| Op::Update(at, t)),
        4 => any::<u16>().prop_map(Op::Remove),
        1 => (0..600u16, any::<bool>()).prop_map(|(n, first)| Op::Thin(n, first)),
        1 => (0..1000u64, 0..500u16).prop_map(|(now, n)| Op::Pop(now, n)),
    ]
}

fn run(trial: &mut Trial, op: Op) {
    let mut slots: Vec<Slot> = trial.model.iter().map(|place| place.1).collect();
    let pick = |at: u16| slots.get(at as usize % slots.len().max(1)).copied();
    match op {
        Op::Insert(ttl) => {
            trial.insert(Tick(START.0 + ttl));
        }
        Op::Fill(count, step) => (0..u64::from(count)).for_each(|number| {
            trial.insert(Tick(START.0 + number * step % 1000));
        }),
        Op::Update(at, ttl) => {
            if let Some(slot) = pick(at) {
                trial.update(slot, Tick(START.0 + ttl));
            }
        }
        Op::Remove(at) => {
            if let Some(slot) = pick(at) {
                trial.remove(slot);
            }
        }
        Op::Thin(count, is_first) => {
            if !is_first {
                slots.sort_unstable();
            }
            for slot in slots.into_iter().take(count.into()) {
                trial.remove(slot);
            }
        }
        Op::Pop(after, count) => {
            let now = Tick(START.0 + after);
            for _ in 0..count {
                let due = trial
                    .index
                    .pop_expired(&mut trial.host, now, &mut Budget(1));
                let first = trial.model.pop_first();
                match due {
                    Due::Slot(slot) => {
                        assert_eq!(first, Some(place_of(&trial.host, slot)));
                        trial.host.free(slot);
                    }
                    _ => {
                        assert!(first.is_none_or(|first| first.0 >= now));
                        trial.model.extend(first);
                        break;
                    }
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn ranks_and_walks_are_those_of_a_sorted_set(ops in prop::collection::vec(op(), 0..40)) {
        let mut trial = Trial::new();
        for op in ops {
            run(&mut trial, op);
            trial.check(1000);
        }
    }
}

/// There are enough entries for several branches, on one deadline and on distinct ones, filled in
/// order and at random.
#[test]
fn a_rank_reads_one_leaf_among_many() {
    const COUNT: u64 = 60_000;
    for (factor, spread) in [(1, 1), (1, COUNT), (7_919, COUNT)] {
        let mut trial = Trial::new();
        for number in 0..COUNT {
            trial.insert(Tick(START.0 + number * factor % spread));
        }
        assert!(trial.index.branches.len() > 3);
        trial.check(COUNT);
        let bytes = trial.index.heap_bytes() as f64 / COUNT as f64;
        assert!(bytes < 6.0, "{bytes} bytes an entry");
        // Moving entries to other slots and removing many of them must keep the order.
        let slots: Vec<Slot> = trial.model.iter().map(|place| place.1).collect();
        for slot in slots.into_iter().step_by(3) {
            trial.remove(slot);
        }
        trial.check(COUNT);
    }
}

mod conformance {
    use super::Ranked;

    crate::index_suite!(Ranked);
}
