//! Random operations on keys with tags and stale times against a plain map, with snapshots in
//! between. A key of the model has its value, its deadline, its tags and its stale time; to
//! invalidate a tag is to remove its keys at once.

use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use store::{
    Batch, Class, Event, Keyspace, NewDeadline, Options, Record, RecordValue, SnapshotSink,
    SnapshotStep, Soft, TAGS_MAX, TagFacts, Tick, View, WINDOW_MS_MAX, decode_labels,
};

const START: u64 = 1_700_000_000_000;
const DB: u8 = 1;

/// Length of a value, deadline, tags, stale time, and the end of the time for which an invalidated
/// tag makes it stale.
type Held = (usize, Option<u64>, BTreeSet<u8>, u64, Option<u64>);
type Model = BTreeMap<u8, Held>;

#[derive(Clone, Debug)]
enum Op {
    Set(u8, usize, Option<u64>),
    KeepTtl(u8, usize),
    Append(u8, usize),
    Tag(u8, Vec<u8>),
    Untag(u8),
    Soft(u8, u64),
    Deadline(u8, Option<u64>),
    Delete(u8),
    Copy(u8, u8),
    Rename(u8, u8),
    Invalidate(u8),
    Soften(u8, u64),
    Advance(u64),
    Expire(u32),
    Tend(u32),
    Policy(usize),
    Flush,
    Swap,
    Begin,
    Walk(u32),
}

const POLICIES: [&str; 4] = [
    "noeviction",
    "allkeys-s3fifo",
    "volatile-lru",
    "allkeys-arc",
];

fn op() -> impl Strategy<Value = Op> {
    let key = || 0..60u8;
    let tag = || 0..8u8;
    let len = || prop_oneof![8 => 0..40usize, 2 => 490..530usize, 1 => 1690..2100usize, 1 => 66_000..67_000usize];
    let ttl = || prop::option::of(1..400u64);
    prop_oneof![
        10 => (key(), len(), ttl()).prop_map(|(k, n, t)| Op::Set(k, n, t)),
        2 => (key(), len()).prop_map(|(k, n)| Op::KeepTtl(k, n)),
        3 => (key(), 1..40usize).prop_map(|(k, n)| Op::Append(k, n)),
        12 => (key(), prop::collection::vec(tag(), 1..5)).prop_map(|(k, t)| Op::Tag(k, t)),
        2 => key().prop_map(Op::Untag),
        5 => (key(), prop_oneof![Just(0), 1..900u64, Just(1 << 33)]).prop_map(|(k, ms)| Op::Soft(k, ms)),
        3 => (key(), ttl()).prop_map(|(k, t)| Op::Deadline(k, t)),
        3 => key().prop_map(Op::Delete),
        2 => (key(), key()).prop_map(|(a, b)| Op::Copy(a, b)),
        2 => (key(), key()).prop_map(|(a, b)| Op::Rename(a, b)),
        4 => tag().prop_map(Op::Invalidate),
        4 => (tag(), 1..301u64).prop_map(|(tag, ms)| Op::Soften(tag, ms)),
        3 => (0..100u64).prop_map(Op::Advance),
        4 => (1..20u32).prop_map(Op::Expire),
        3 => (1..60u32).prop_map(Op::Tend),
        1 => (0..POLICIES.len()).prop_map(Op::Policy),
        1 => Just(Op::Flush),
        1 => Just(Op::Swap),
        2 => Just(Op::Begin),
        6 => (1..30u32).prop_map(Op::Walk),
    ]
}

/// Returns the instant at which a key is removed.
fn deadline(held: &Held) -> Option<u64> {
    held.1.into_iter().chain(held.4).min()
}

/// Makes the end of the time in which a key is stale its deadline.
fn fold(held: &mut Held) {
    if held.4.is_some() {
        held.1 = deadline(held);
        (held.3, held.4) = (WINDOW_MS_MAX, None);
    }
}

fn name(key: u8) -> Vec<u8> {
    let mut name = format!("key:{key}").into_bytes();
    if key.is_multiple_of(11) {
        name.resize(250 + usize::from(key) / 11, b'+');
    }
    name
}

fn tag(number: u8) -> Vec<u8> {
    format!("tag:{number}").into_bytes()
}

/// Contents of a snapshot: length of the value, deadline, tags and stale time, by key.
type Saved = BTreeMap<Vec<u8>, (usize, Option<u64>, BTreeSet<Vec<u8>>, u64)>;

#[derive(Default)]
struct Sink(Mutex<Saved>);

impl Sink {
    fn add(&self, record: &Record<'_>) {
        let RecordValue::String(value) = record.value else {
            panic!("{:?} is no string", record.value)
        };
        let labels = decode_labels(record.labels).expect("encoded tags");
        let tags = labels.tags.into_iter().map(<[u8]>::to_vec).collect();
        let deadline = record.deadline.map(|at| at.0);
        let saved = (value.len(), deadline, tags, labels.soft.window_ms);
        let before = self
            .0
            .lock()
            .expect("no panic")
            .insert(record.key.to_vec(), saved);
        assert!(before.is_none(), "an entry is passed once");
    }
}

impl SnapshotSink for Sink {
    fn put(&self, batch: Batch) -> Batch {
        batch.each(&mut |record| self.add(record));
        Batch::default()
    }
}

struct Run {
    space: Keyspace,
    model: Model,
    other: Model,
    now: u64,
    invalidated: usize,
    invalidated_events: usize,
    /// Snapshot in progress, what it must contain, and the next shard.
    saving: Option<(Arc<Sink>, Saved, usize)>,
}

fn options() -> Options {
    Options {
        shards: 4,
        policy: "noeviction".into(),
        expiry: "wheel".into(),
        maxmemory: 0,
        hash_key: [11, 13],
        seed: 17,
    }
}

impl Run {
    fn new() -> Run {
        let space = Keyspace::new(&options(), Tick(START)).expect("valid");
        space.set_notify(true);
        Run {
            space,
            model: Model::new(),
            other: Model::new(),
            now: START,
            invalidated: 0,
            invalidated_events: 0,
            saving: None,
        }
    }

    fn on<R>(&self, key: u8, work: impl FnOnce(&mut View<'_>, &store::Key<'_>) -> R) -> R {
        let name = name(key);
        let mut view = self.space.lock_all(Tick(self.now));
        work(&mut view, &self.space.key(DB, &name))
    }

    fn bury(&mut self) {
        let now = self.now;
        self.model
            .retain(|_, held| deadline(held).is_none_or(|at| at >= now));
        self.other
            .retain(|_, held| deadline(held).is_none_or(|at| at >= now));
    }

    fn count(&mut self, events: &[Event]) {
        let invalidated = events
            .iter()
            .filter(|event| event.class == Class::Invalidated);
        self.invalidated_events += invalidated.count();
    }

    fn take_events(&mut self) {
        let mut events = Vec::new();
        self.space.lock_all(Tick(self.now)).take_events(&mut events);
        self.count(&events);
    }

    fn set(&mut self, key: u8, len: usize, ttl: Option<u64>) {
        let at = ttl.map(|ttl| self.now + ttl);
        let deadline = at.map_or(NewDeadline::Clear, |at| NewDeadline::At(Tick(at)));
        self.on(key, |view, key| view.set(key, &vec![b'v'; len], deadline));
        self.model.insert(key, (len, at, BTreeSet::new(), 0, None));
    }

    fn tag(&mut self, key: u8, new: &[u8]) {
        let held = self.model.get_mut(&key).map(|held| {
            fold(held);
            let tags = &mut held.2;
            tags.extend(new);
            tags.iter().map(|number| tag(*number)).collect::<Vec<_>>()
        });
        let tags = held.clone().unwrap_or_else(|| vec![tag(0)]);
        let is_done = self.on(key, |view, key| view.set_tags(key, &tags));
        assert_eq!(is_done, held.is_some());
    }

    fn invalidate(&mut self, number: u8) {
        let before = self.model.len();
        let tagged = |held: &Held| held.2.contains(&number);
        let keys = self.model.values().filter(|held| tagged(held)).count();
        self.model.retain(|_, held| !tagged(held));
        self.invalidated += before - self.model.len();
        let reply = self
            .space
            .lock_all(Tick(self.now))
            .invalidate(DB, &[&tag(number)], None);
        assert!(reply >= keys as u64, "expired keys may count, too");
    }

    fn soften(&mut self, number: u8, ms: u64) {
        let until = self.now + ms;
        for held in self.model.values_mut() {
            if held.2.contains(&number) {
                held.4 = Some(held.4.map_or(until, |at| at.min(until)));
            }
        }
        self.space
            .lock_all(Tick(self.now))
            .invalidate(DB, &[&tag(number)], Some(Tick(until)));
    }

    fn begin(&mut self) {
        if self.saving.is_none() {
            let sink = Arc::new(Sink::default());
            let dynamic: Arc<dyn SnapshotSink> = Arc::<Sink>::clone(&sink);
            self.space.lock_all(Tick(self.now)).begin_snapshot(&dynamic);
            let all = self.model.iter().map(|(key, held)| {
                let mut held = held.clone();
                fold(&mut held);
                let (len, at, tags, window, _) = held;
                let tags = tags.iter().map(|number| tag(*number)).collect();
                // The keys of both databases have different names.
                (name(*key), (len, at, tags, window))
            });
            self.saving = Some((sink, all.collect(), 0));
        }
    }

    fn walk(&mut self, steps: u32) {
        let Some((sink, wanted, shard)) = &mut self.saving else {
            return;
        };
        match self.space.snapshot_step(*shard, steps) {
            SnapshotStep::More => {}
            SnapshotStep::Locked => panic!("no other thread holds a shard"),
            SnapshotStep::Large(db, key) => {
                let key = self.space.key(db, &key);
                let mut view = self.space.lock_all(Tick(self.now));
                let loan = view.lend_unsaved(&key).expect("a large value");
                sink.add(&loan.record());
                view.take_loan_back(loan);
            }
            SnapshotStep::Done if *shard + 1 < self.space.shard_count() => *shard += 1,
            SnapshotStep::Done => {
                assert_eq!(*sink.0.lock().expect("no panic"), *wanted);
                self.saving = None;
            }
        }
    }

    fn step(&mut self, op: Op) {
        self.bury();
        match op {
            Op::Set(key, len, ttl) => self.set(key, len, ttl),
            Op::KeepTtl(key, len) => {
                self.on(key, |view, key| {
                    view.set(key, &vec![b'v'; len], NewDeadline::Keep)
                });
                self.model.entry(key).or_default().0 = len;
            }
            Op::Append(key, len) => {
                let added = vec![b'v'; len];
                let edit = |bytes: &mut Vec<u8>| bytes.extend_from_slice(&added);
                self.on(key, |view, key| view.edit(key, edit))
                    .expect("a string");
                self.model.entry(key).or_default().0 += len;
            }
            Op::Tag(key, tags) => self.tag(key, &tags),
            Op::Untag(key) => {
                self.on(key, |view, key| view.set_tags::<Vec<u8>>(key, &[]));
                self.model.entry(key).and_modify(|held| {
                    fold(held);
                    held.2.clear();
                });
            }
            Op::Soft(key, ms) => {
                self.on(key, |view, key| view.set_soft(key, Soft::window(ms)));
                let kept = if ms == 1 << 33 { 8_589_935_000 } else { ms };
                self.model.entry(key).and_modify(|held| {
                    fold(held);
                    held.3 = kept;
                });
            }
            Op::Deadline(key, ttl) => {
                let at = ttl.map(|ttl| self.now + ttl);
                self.on(key, |view, key| view.set_deadline(key, at.map(Tick)));
                self.model.entry(key).and_modify(|held| held.1 = at);
            }
            Op::Delete(key) => {
                let existed = self.on(key, |view, key| view.delete(key));
                assert_eq!(existed, self.model.remove(&key).is_some());
            }
            Op::Copy(from, to) | Op::Rename(from, to) if from == to => {}
            Op::Copy(from, to) => {
                let (space, to_name) = (&self.space, name(to));
                let to_key = space.key(DB, &to_name);
                let is_done = self.on(from, |view, from| view.copy(from, &to_key));
                let held = self.model.get(&from).cloned();
                assert_eq!(is_done, held.is_some());
                held.into_iter().for_each(|mut held| {
                    fold(&mut held);
                    self.model.insert(to, held);
                });
            }
            Op::Rename(from, to) => {
                let (space, to_name) = (&self.space, name(to));
                let to_key = space.key(DB, &to_name);
                let is_done = self.on(from, |view, from| view.rename(from, &to_key));
                let held = self.model.remove(&from);
                assert_eq!(is_done, held.is_some());
                held.into_iter().for_each(|mut held| {
                    fold(&mut held);
                    self.model.insert(to, held);
                });
            }
            Op::Invalidate(number) => self.invalidate(number),
            // While a snapshot is made, the end of a time that has begun must not change.
            Op::Soften(number, ms) if self.saving.is_none() || ms == 300 => {
                self.soften(number, ms);
            }
            Op::Soften(..) => {}
            Op::Advance(ms) => self.now += ms,
            other => self.step_rarely(other),
        }
        self.take_events();
    }

    fn step_rarely(&mut self, op: Op) {
        match op {
            Op::Expire(steps) => self.expire(steps),
            Op::Tend(steps) => {
                for shard in 0..self.space.shard_count() {
                    let mut events = Vec::new();
                    self.space
                        .background_step(shard, Tick(self.now), steps, &mut events);
                    self.count(&events);
                }
            }
            Op::Policy(number) => {
                // A replaced policy is drained in steps, which move entries.
                self.space.set_policy(POLICIES[number]).expect("a policy");
            }
            Op::Flush => {
                self.space.lock_all(Tick(self.now)).flush(DB);
                // Flushed keys are no longer removed one by one.
                self.invalidated = self.invalidated_events;
                self.model.clear();
            }
            Op::Swap if self.saving.is_none() => {
                self.space.lock_all(Tick(self.now)).swap(DB, DB + 1);
                std::mem::swap(&mut self.model, &mut self.other);
            }
            Op::Begin if self.other.is_empty() => self.begin(),
            Op::Walk(steps) => self.walk(steps),
            _ => {}
        }
    }

    fn expire(&mut self, steps: u32) {
        for shard in 0..self.space.shard_count() {
            let mut events = Vec::new();
            let now = Tick(self.now);
            self.space
                .expire(shard, now, steps, &mut events, &mut |_, _| {});
            self.count(&events);
        }
    }

    fn compare(&mut self) {
        self.bury();
        self.space.check();
        let mut view = self.space.lock_all(Tick(self.now));
        let mut scanned = BTreeSet::new();
        let mut cursor = 0;
        loop {
            cursor = view.scan(DB, cursor, 10, &mut |key, _| {
                scanned.insert(key.to_vec());
            });
            if cursor == 0 {
                break;
            }
        }
        assert_eq!(scanned, self.model.keys().map(|key| name(*key)).collect());
        for number in 0..8 {
            let mut found = BTreeSet::new();
            let each = &mut |key: &[u8]| assert!(found.insert(key.to_vec()));
            view.each_tagged(DB, &tag(number), usize::MAX, each);
            let of = self
                .model
                .iter()
                .filter(|(_, held)| held.2.contains(&number));
            assert_eq!(found, of.map(|(key, _)| name(*key)).collect());
        }
        for key in 0..60 {
            let name = name(key);
            let at = self.space.key(DB, &name);
            let held = self.model.get(&key);
            let value = view.peek(&at).expect("a string");
            assert_eq!(value.map(<[u8]>::len), held.map(|held| held.0));
            assert_eq!(
                view.deadline(&at).map(|at| at.map(|at| at.0)),
                held.map(deadline)
            );
            let tags = view
                .tags(&at)
                .map(|tags| tags.into_iter().collect::<BTreeSet<_>>());
            let soft = view.soft(&at).map(|soft| soft.window_ms);
            let window = held.map(|held| held.4.map_or(held.3, |_| WINDOW_MS_MAX));
            assert_eq!(soft, window);
            let wanted = held.map(|held| held.2.iter().map(|number| tag(*number)).collect());
            assert_eq!(tags, wanted);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn keys_with_tags_behave_like_a_map(ops in prop::collection::vec(op(), 1..400)) {
        let mut run = Run::new();
        for (index, op) in ops.into_iter().enumerate() {
            run.step(op);
            if index % 64 == 63 {
                run.compare();
            }
        }
        run.compare();
        while run.saving.is_some() {
            run.walk(1_000);
        }
        run.now += 1_000;
        (0..8).for_each(|number| run.invalidate(number));
        run.bury();
        run.take_events();
        run.expire(1 << 20);
        run.compare();
        // Keys that have expired before their removal are reported as invalidated, too.
        prop_assert!(run.invalidated_events >= run.invalidated);
        prop_assert!(run.model.values().all(|held| held.2.is_empty()));
        for held in run.model.values() {
            let is_plain = held.3 == 0;
            prop_assert!(is_plain || run.space.tag_facts().soft_keys > 0);
        }
        if run.other.is_empty() && run.model.values().all(|held| held.3 == 0) {
            prop_assert_eq!(run.space.tag_facts(), TagFacts::default());
            prop_assert_eq!(run.space.memory_facts().tag_bytes, 0);
        }
    }
}

#[test]
fn expired_and_evicted_keys_leave_nothing_behind() {
    let space = Keyspace::new(&options(), Tick(START)).expect("valid");
    let fill = |ttl: u64| {
        let mut view = space.lock_all(Tick(START));
        for number in 0..20_000u32 {
            let name = format!("key:{number}");
            let key = space.key(0, name.as_bytes());
            view.set(&key, b"value", NewDeadline::At(Tick(START + ttl)));
            let tags = [format!("of:{}", number % 7), format!("one:{number}")];
            assert!(view.set_tags(&key, &tags));
        }
    };
    fill(10);
    assert_eq!(space.tag_facts().pairs, 40_000);
    assert!(space.memory_facts().tag_bytes > 0);
    for shard in 0..4 {
        let later = Tick(START + 100);
        let done = space.expire(shard, later, 1 << 20, &mut Vec::new(), &mut |_, _| {});
        assert!(!done.more);
    }
    assert_eq!(space.tag_facts(), TagFacts::default());
    assert_eq!(space.memory_facts().tag_bytes, 0);
    fill(10_000);
    space.set_policy("allkeys-sieve").expect("a policy");
    space.set_maxmemory(1);
    for _ in 0..10_000 {
        let step = |shard| space.background_step(shard, Tick(START), 1 << 16, &mut Vec::new());
        if !(0..4).map(step).fold(false, |more, one| more | one) {
            break;
        }
    }
    assert_eq!(space.lock_all(Tick(START)).len(0), 0);
    assert_eq!(space.tag_facts(), TagFacts::default());
    space.check();
}

#[test]
fn a_tag_takes_at_most_eight_bytes_per_key() {
    let space = Keyspace::new(&options(), Tick(START)).expect("valid");
    let count = 200_000u32;
    let names: Vec<String> = (0..count)
        .map(|number| format!("key:{number:012}"))
        .collect();
    let mut view = space.lock_all(Tick(START));
    let mut used = Vec::new();
    for name in &names {
        view.set(&space.key(0, name.as_bytes()), b"value", NewDeadline::Clear);
    }
    drop(view);
    used.push(space.memory_facts());
    let tags = ["a", "b", "c", "d"];
    for until in 1..=tags.len() {
        let mut view = space.lock_all(Tick(START));
        for name in &names {
            view.set_tags(&space.key(0, name.as_bytes()), &tags[..until]);
        }
        drop(view);
        used.push(space.memory_facts());
    }
    let each = |bytes: u64| (bytes - used[0].used_bytes) as f64 / f64::from(count);
    for (number, facts) in used.iter().enumerate().skip(1) {
        let bytes = each(facts.used_bytes) / number as f64;
        println!("{number} tags: {bytes:.2} bytes per key and tag");
        assert!(bytes <= 8.0, "{bytes} bytes with {number} tags");
    }
}

#[test]
fn more_tags_than_fit_are_left_out() {
    let space = Keyspace::new(&options(), Tick(START)).expect("valid");
    let mut view = space.lock_all(Tick(START));
    let key = space.key(0, b"key");
    view.set(&key, &[b'v'; 1_700], NewDeadline::At(Tick(START + 5)));
    let tags: Vec<String> = (0..20).map(|number| format!("tag:{number}")).collect();
    view.set_tags(&key, &tags);
    assert_eq!(view.tags(&key).expect("it is there").len(), TAGS_MAX);
    assert_eq!(
        view.peek(&key).expect("a string").map(<[u8]>::len),
        Some(1_700)
    );
    drop(view);
    space.check();
    assert_eq!(space.tag_facts().pairs, TAGS_MAX as u64);
}

#[test]
fn a_watched_key_is_changed_by_the_invalidation_of_its_tag() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let space = Keyspace::new(&options(), Tick(START)).expect("valid");
    let mut view = space.lock_all(Tick(START));
    let flags = ["with", "without"].map(|name| {
        let key = space.key(0, name.as_bytes());
        view.set(&key, b"v", NewDeadline::Clear);
        let flag = Arc::new(AtomicBool::new(false));
        view.watch(&key, &flag);
        flag
    });
    view.set_tags(&space.key(0, b"with"), &["t"]);
    assert!(!flags[0].load(Ordering::Relaxed));
    assert_eq!(view.invalidate(0, &[b"t"], None), 1);
    assert_eq!(
        flags.map(|flag| flag.load(Ordering::Relaxed)),
        [true, false]
    );
}
