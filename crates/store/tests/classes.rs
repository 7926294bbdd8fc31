//! Random operations on keys in classes against a plain model: the keys, the reason why each absent
//! one is absent, and the counts of each class. `Keyspace::check` compares the bytes of each class
//! with those of the present entries.

use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use store::{
    Class, ClassRule, Classes, Event, Keyspace, Lost, NewDeadline, OTHER, Options, Removed, Tick,
    TtlRules, View,
};

const START: u64 = 1_700_000_000_000;
const DBS: u8 = 2;

/// Causes of misses: their indices in `store::MISS_CAUSES`.
const NEVER: usize = 0;
const EXPIRED: usize = 1;
const EVICTED: usize = 2;
const DELETED: usize = 3;
const INVALIDATED: usize = 4;

#[derive(Clone, Debug)]
enum Op {
    Set(u8, usize, Option<u64>),
    Append(u8, usize),
    Field(u8, u8, Option<u64>),
    DeleteField(u8, u8),
    Tag(u8, u8),
    Protect(u8, bool),
    Deadline(u8, Option<u64>),
    Delete(u8),
    Read(u8),
    Copy(u8, u8),
    Rename(u8, u8),
    Invalidate(u8),
    Advance(u64),
    Expire(u32),
    Tend(u32),
    Policy(usize),
    Memory(u64),
    Flush(u8),
    Swap,
    Define(usize),
}

const POLICIES: [&str; 4] = [
    "noeviction",
    "allkeys-s3fifo",
    "volatile-lru",
    "allkeys-arc",
];

/// Sets of classes, as names, prefixes and databases.
const CLASSES: [&[(&str, &str, Option<u8>)]; 4] = [
    &[("unused", "unused", None)],
    &[("a", "a", None), ("ab", "ab", None), ("one", "", Some(1))],
    &[("ab", "ab", Some(0)), ("all", "", None), ("a", "a", None)],
    &[("b", "b", Some(1))],
];

fn op() -> impl Strategy<Value = Op> {
    let key = || 0..48u8;
    let len = || prop_oneof![8 => 0..40usize, 2 => 490..530usize, 1 => 1690..2100usize, 1 => 66_000..67_000usize];
    let ttl = || prop::option::of(1..400u64);
    prop_oneof![
        10 => (key(), len(), ttl()).prop_map(|(k, n, t)| Op::Set(k, n, t)),
        3 => (key(), 1..900usize).prop_map(|(k, n)| Op::Append(k, n)),
        6 => (key(), 0..4u8, ttl()).prop_map(|(k, f, t)| Op::Field(k, f, t)),
        3 => (key(), 0..4u8).prop_map(|(k, f)| Op::DeleteField(k, f)),
        3 => (key(), 0..4u8).prop_map(|(k, t)| Op::Tag(k, t)),
        2 => (key(), any::<bool>()).prop_map(|(k, p)| Op::Protect(k, p)),
        3 => (key(), ttl()).prop_map(|(k, t)| Op::Deadline(k, t)),
        3 => key().prop_map(Op::Delete),
        12 => key().prop_map(Op::Read),
        2 => (key(), key()).prop_map(|(a, b)| Op::Copy(a, b)),
        2 => (key(), key()).prop_map(|(a, b)| Op::Rename(a, b)),
        2 => (0..4u8).prop_map(Op::Invalidate),
        4 => (0..100u64).prop_map(Op::Advance),
        4 => (1..20u32).prop_map(Op::Expire),
        6 => (1..30u32).prop_map(Op::Tend),
        1 => (0..POLICIES.len()).prop_map(Op::Policy),
        1 => prop_oneof![Just(0u64), 30_000..120_000u64].prop_map(Op::Memory),
        1 => (0..DBS).prop_map(Op::Flush),
        1 => Just(Op::Swap),
        2 => (0..CLASSES.len()).prop_map(Op::Define),
    ]
}

/// Returns the database and the name of a key.
fn name(key: u8) -> (u8, Vec<u8>) {
    let prefix = ["a", "ab", "b", "c"][usize::from(key / DBS) % 4];
    let mut name = format!("{prefix}{key}").into_bytes();
    if key.is_multiple_of(11) {
        name.resize(250 + usize::from(key) / 11, b'+');
    }
    (key % DBS, name)
}

fn rules(number: usize) -> Vec<ClassRule> {
    let rule = |(name, prefix, db): &(&str, &str, Option<u8>)| ClassRule {
        name: (*name).to_owned(),
        prefix: prefix.as_bytes().to_vec(),
        db: *db,
        ..ClassRule::default()
    };
    CLASSES[number].iter().map(rule).collect()
}

/// A key of the model.
#[derive(Clone, Debug, Default)]
struct Held {
    at: Option<u64>,
    /// Deadlines of fields; `None` for a string.
    fields: Option<BTreeMap<u8, Option<u64>>>,
    tags: Vec<u8>,
}

type Keys = BTreeMap<(u8, Vec<u8>), Held>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Counted {
    hits: u64,
    misses: [u64; 5],
}

struct Run {
    space: Keyspace,
    keys: Keys,
    reasons: BTreeMap<(u8, Vec<u8>), usize>,
    classes: Arc<Classes>,
    counts: BTreeMap<String, Counted>,
    now: u64,
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
            keys: Keys::new(),
            reasons: BTreeMap::new(),
            classes: Arc::default(),
            counts: BTreeMap::new(),
            now: START,
        }
    }

    fn on<R>(&self, key: u8, work: impl FnOnce(&mut View<'_>, &store::Key<'_>) -> R) -> R {
        let (db, name) = name(key);
        let mut view = self.space.lock_all(Tick(self.now));
        work(&mut view, &self.space.key(db, &name))
    }

    fn lose(&mut self, key: &(u8, Vec<u8>), reason: usize) -> bool {
        let existed = self.keys.remove(key).is_some();
        if existed {
            self.reasons.insert(key.clone(), reason);
        }
        existed
    }

    /// Removes what has expired from the model.
    fn bury(&mut self) {
        let now = self.now;
        let is_dead = |at: Option<u64>| at.is_some_and(|at| at < now);
        let mut dead = Vec::new();
        for (key, held) in &mut self.keys {
            if let Some(fields) = &mut held.fields {
                fields.retain(|_, at| !is_dead(*at));
            }
            let is_empty = held.fields.as_ref().is_some_and(BTreeMap::is_empty);
            if is_dead(held.at) || is_empty {
                dead.push(key.clone());
            }
        }
        for key in dead {
            self.lose(&key, EXPIRED);
        }
    }

    /// Removes evicted keys from the model.
    fn take(&mut self, events: &[Event]) {
        for event in events.iter().filter(|event| event.class == Class::Evicted) {
            let key = (event.db, event.key.clone());
            // It may have expired, but then another part of the server has not noticed.
            self.keys.remove(&key);
            self.reasons.insert(key, EVICTED);
        }
    }

    fn take_events(&mut self) {
        let mut events = Vec::new();
        self.space.lock_all(Tick(self.now)).take_events(&mut events);
        self.take(&events);
    }

    fn class_of(&self, (db, name): &(u8, Vec<u8>)) -> String {
        let rules = self.classes.rules();
        let class = rules.get(self.classes.of(*db, name));
        class.map_or(OTHER, |rule| &rule.name).to_owned()
    }

    fn read(&mut self, key: u8) {
        let is_hit = self.on(key, |view, key| view.touch(key));
        let name = name(key);
        assert_eq!(is_hit, self.keys.contains_key(&name));
        let reason = self.reasons.get(&name).copied().unwrap_or(NEVER);
        let counted = self.counts.entry(self.class_of(&name)).or_default();
        match is_hit {
            true => counted.hits += 1,
            false => counted.misses[reason] += 1,
        }
    }

    fn define(&mut self, number: usize) {
        let rules = rules(number);
        let counts = &mut self.counts;
        counts.retain(|name, _| name == OTHER || rules.iter().any(|rule| rule.name == *name));
        self.classes = Arc::new(Classes::new(rules).expect("valid classes"));
        self.space.set_classes(&self.classes);
    }

    fn field(&mut self, key: u8, field: u8, ttl: Option<u64>) {
        let at = ttl.map(|ttl| self.now + ttl);
        let text = [b'f', field];
        let edited = self.on(key, |view, key| {
            view.edit_hash(key, true, |hash, scene| {
                hash.set(&text, &[b'v'; 30], scene);
                hash.set_deadline(&text, at.map(Tick), scene);
                Some(())
            })
        });
        let is_string = self
            .keys
            .get(&name(key))
            .is_some_and(|held| held.fields.is_none());
        assert_eq!(edited.is_err(), is_string);
        if !is_string {
            let held = self.keys.entry(name(key)).or_default();
            held.fields.get_or_insert_default().insert(field, at);
        }
    }

    fn delete_field(&mut self, key: u8, field: u8) {
        let text = [b'f', field];
        let _ = self.on(key, |view, key| {
            view.edit_hash(key, false, |hash, scene| {
                hash.remove(&text, scene).then_some(())
            })
        });
        let held = self.keys.get_mut(&name(key));
        if let Some(fields) = held.and_then(|held| held.fields.as_mut()) {
            fields.remove(&field);
            if fields.is_empty() {
                self.lose(&name(key), DELETED);
            }
        }
    }

    /// Copies or renames a key within its database.
    fn carry(&mut self, from: u8, to: u8, moves: bool) {
        let to = to - to % DBS + from % DBS;
        if from == to {
            return;
        }
        let (db, to_name) = name(to);
        let to_key = self.space.key(db, &to_name);
        let is_done = self.on(from, |view, from| match moves {
            true => view.rename(from, &to_key),
            false => view.copy(from, &to_key),
        });
        let held = self.keys.get(&name(from)).cloned();
        assert_eq!(is_done, held.is_some());
        if let Some(held) = held {
            if moves {
                self.lose(&name(from), DELETED);
            }
            self.keys.insert(name(to), held);
        }
    }

    fn step(&mut self, op: Op) {
        self.bury();
        match op {
            Op::Set(key, len, ttl) => {
                let at = ttl.map(|ttl| self.now + ttl);
                let deadline = at.map_or(NewDeadline::Clear, |at| NewDeadline::At(Tick(at)));
                self.on(key, |view, key| view.set(key, &vec![b'v'; len], deadline));
                let held = Held {
                    at,
                    ..Held::default()
                };
                self.keys.insert(name(key), held);
            }
            Op::Append(key, len) => {
                let added = vec![b'v'; len];
                let edit = |bytes: &mut Vec<u8>| bytes.extend_from_slice(&added);
                if self.on(key, |view, key| view.edit(key, edit)).is_ok() {
                    self.keys.entry(name(key)).or_default();
                }
            }
            Op::Field(key, field, ttl) => self.field(key, field, ttl),
            Op::DeleteField(key, field) => self.delete_field(key, field),
            Op::Tag(key, tag) => {
                self.on(key, |view, key| view.set_tags(key, &[[b't', tag]]));
                if let Some(held) = self.keys.get_mut(&name(key)) {
                    held.tags = vec![tag];
                }
            }
            Op::Protect(key, is_protected) => {
                self.on(key, |view, key| view.protect(key, is_protected));
            }
            Op::Deadline(key, ttl) => {
                let at = ttl.map(|ttl| self.now + ttl);
                self.on(key, |view, key| view.set_deadline(key, at.map(Tick)));
                self.keys.entry(name(key)).and_modify(|held| held.at = at);
            }
            Op::Delete(key) => {
                let existed = self.on(key, |view, key| view.delete(key));
                assert_eq!(existed, self.lose(&name(key), DELETED));
            }
            Op::Read(key) => self.read(key),
            Op::Copy(from, to) => self.carry(from, to, false),
            Op::Rename(from, to) => self.carry(from, to, true),
            Op::Invalidate(tag) => self.invalidate(tag),
            Op::Advance(ms) => self.now += ms,
            Op::Define(number) => self.define(number),
            other => self.step_rarely(other),
        }
        self.take_events();
        self.space.check();
    }

    fn invalidate(&mut self, tag: u8) {
        for db in 0..DBS {
            let mut view = self.space.lock_all(Tick(self.now));
            view.invalidate(db, &[&[b't', tag]], None);
        }
        let tagged = self
            .keys
            .iter()
            .filter(|(_, held)| held.tags.contains(&tag));
        for key in tagged.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.lose(&key, INVALIDATED);
        }
    }

    fn step_rarely(&mut self, op: Op) {
        let now = Tick(self.now);
        let mut events = Vec::new();
        match op {
            Op::Expire(steps) => {
                for shard in 0..self.space.shard_count() {
                    let mut report = |_, _| {};
                    self.space
                        .expire(shard, now, steps, &mut events, &mut report);
                }
            }
            Op::Tend(steps) => {
                for shard in 0..self.space.shard_count() {
                    self.space.background_step(shard, now, steps, &mut events);
                }
            }
            Op::Policy(number) => self.space.set_policy(POLICIES[number]).expect("a policy"),
            Op::Memory(bytes) => self.space.set_maxmemory(bytes),
            Op::Flush(db) => {
                self.remove_due();
                self.space.lock_all(now).flush(db);
                self.keys.retain(|key, _| key.0 != db);
            }
            Op::Swap => {
                self.remove_due();
                self.space.lock_all(now).swap(0, 1);
                let keys = std::mem::take(&mut self.keys);
                let swapped = keys
                    .into_iter()
                    .map(|((db, name), held)| ((1 - db, name), held));
                self.keys = swapped.collect();
            }
            other => unreachable!("{other:?} is handled by the caller"),
        }
        self.take(&events);
    }

    /// Removes what has expired and what was invalidated.
    fn remove_due(&mut self) {
        let mut events = Vec::new();
        for shard in 0..self.space.shard_count() {
            let (now, mut report) = (Tick(self.now), |_, _| {});
            while self
                .space
                .expire(shard, now, 100, &mut events, &mut report)
                .more
            {}
        }
        self.take(&events);
    }

    /// Removes what is due, counts the present entries, and compares all sums.
    fn finish(&mut self) {
        self.remove_due();
        for shard in 0..self.space.shard_count() {
            let (now, mut events) = (Tick(self.now), Vec::new());
            while self.space.background_step(shard, now, 100, &mut events) {}
            self.take(&events);
        }
        self.bury();
        self.space.check();
        let sums = self.space.class_sums();
        assert!(!sums.is_counting());
        for facts in sums.facts() {
            let is_own = |key: &&(u8, Vec<u8>)| self.class_of(key) == facts.name;
            let keys = self.keys.keys().filter(is_own).count() as u64;
            assert_eq!(facts.keys, keys, "keys of {}", facts.name);
            let counted = Counted {
                hits: facts.counts.hits,
                misses: facts.counts.misses,
            };
            let expected = self.counts.get(&facts.name).cloned().unwrap_or_default();
            assert_eq!(counted, expected, "counts of {}", facts.name);
        }
        let bytes: u64 = sums.facts().iter().map(|facts| facts.bytes).sum();
        assert_eq!(bytes, self.space.memory_facts().entry_bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn classes_count_what_a_plain_model_counts(ops in prop::collection::vec(op(), 1..200)) {
        let mut run = Run::new();
        run.define(1);
        for op in ops {
            run.step(op);
        }
        run.finish();
    }
}

fn ruled(ttl: TtlRules) -> Keyspace {
    let space = Keyspace::new(&options(), Tick(START)).expect("valid");
    let rule = ClassRule {
        name: "session".to_owned(),
        prefix: b"s:".to_vec(),
        ttl,
        ..ClassRule::default()
    };
    let classes = Arc::new(Classes::new(vec![rule]).expect("valid"));
    space.set_classes(&classes);
    space.lock_all(Tick(START)).set_recording(true);
    space
}

fn recorded(view: &mut View<'_>) -> Vec<Lost> {
    let mut removed: Vec<Removed> = Vec::new();
    view.take_removed(&mut removed);
    removed.into_iter().map(|one| one.lost).collect()
}

fn at(ttl: u64) -> Tick {
    Tick(START + ttl)
}

#[test]
fn a_class_gives_limits_and_records_deadlines() {
    let space = ruled(TtlRules {
        default_ms: Some(100),
        max_ms: Some(1_000),
        ..TtlRules::default()
    });
    let mut view = space.lock_all(Tick(START));
    let (key, other) = (space.key(0, b"s:1"), space.key(0, b"other"));
    view.set(&key, b"v", NewDeadline::Clear);
    assert_eq!(view.deadline(&key), Some(Some(at(100))));
    view.set(&key, b"v", NewDeadline::At(at(5_000)));
    assert_eq!(view.deadline(&key), Some(Some(at(1_000))));
    view.set(&key, b"v", NewDeadline::At(at(50)));
    assert_eq!(
        recorded(&mut view),
        [Lost::NewDeadline(at(100)), Lost::NewDeadline(at(1_000))]
    );
    // What keeps the deadline keeps it.
    view.set(&key, b"w", NewDeadline::Keep);
    assert_eq!(view.deadline(&key), Some(Some(at(50))));
    // PERSIST and EXPIRE.
    view.set_deadline(&key, None);
    assert_eq!(view.deadline(&key), Some(Some(at(1_000))));
    view.set_deadline(&key, Some(at(9_000)));
    assert_eq!(view.deadline(&key), Some(Some(at(1_000))));
    // A collection, and a value that moves into the class and out of it.
    let hash = space.key(0, b"s:hash");
    let set = view.edit_hash(&hash, true, |hash, scene| Some(hash.set(b"f", b"v", scene)));
    assert!(set.is_ok());
    assert_eq!(view.deadline(&hash), Some(Some(at(100))));
    view.rename(&hash, &other);
    assert_eq!(view.deadline(&other), Some(Some(at(100))));
    view.set(&other, b"v", NewDeadline::At(at(4_000)));
    assert_eq!(view.deadline(&other), Some(Some(at(4_000))));
    view.copy(&other, &key);
    assert_eq!(view.deadline(&key), Some(Some(at(1_000))));
    drop(view);
    space.check();
}

#[test]
fn a_feed_and_a_replica_take_the_deadlines_of_the_primary() {
    let ttl = TtlRules {
        default_ms: Some(100),
        is_sliding: true,
        ..TtlRules::default()
    };
    let space = ruled(ttl);
    let key = space.key(0, b"s:1");
    let mut view = space.lock_all(Tick(START));
    view.set_horizon(Tick(0));
    view.set(&key, b"v", NewDeadline::Clear);
    assert_eq!(view.deadline(&key), Some(None));
    drop(view);
    space.set_removal_limit(Some(Tick(START)));
    let mut view = space.lock_all(Tick(START));
    view.set(&key, b"v", NewDeadline::At(at(20)));
    assert!(view.touch(&key));
    assert_eq!(view.deadline(&key), Some(Some(at(20))));
    assert_eq!(recorded(&mut view), []);
}

#[test]
fn a_hit_renews_a_sliding_deadline() {
    let ttl = TtlRules {
        default_ms: Some(6_400),
        is_sliding: true,
        ..TtlRules::default()
    };
    let space = ruled(ttl);
    let key = space.key(0, b"s:1");
    space
        .lock_all(Tick(START))
        .set(&key, b"v", NewDeadline::Clear);
    // After less than a 64th of the TTL, the deadline stays.
    let mut view = space.lock_all(at(99));
    assert!(view.touch(&key));
    assert_eq!(view.deadline(&key), Some(Some(at(6_400))));
    drop(view);
    let mut view = space.lock_all(at(100));
    assert!(view.touch(&key));
    assert_eq!(view.deadline(&key), Some(Some(at(6_500))));
    let all = [6_400, 6_500].map(|ttl| Lost::NewDeadline(at(ttl)));
    assert_eq!(recorded(&mut view), all);
    drop(view);
    // A key without a deadline, and a collection whose fields have some.
    let hash = space.key(0, b"s:hash");
    let mut view = space.lock_all(at(200));
    let set = view.edit_hash(&hash, true, |hash, scene| {
        hash.set(b"f", b"v", scene);
        Some(hash.set_deadline(b"f", Some(at(90_000)), scene))
    });
    assert!(set.is_ok());
    view.set_deadline(&key, None);
    drop(view);
    let mut view = space.lock_all(at(3_000));
    assert!(view.touch(&hash));
    assert_eq!(view.deadline(&hash), Some(Some(at(9_400))));
    assert!(view.touch(&key));
    assert_eq!(view.deadline(&key), Some(None));
    drop(view);
    space.check();
}

#[test]
fn lateness_and_ttls_are_counted() {
    let space = ruled(TtlRules::default());
    for (name, ttl) in [(b"s:1", 10), (b"s:2", 50)] {
        let key = space.key(0, name);
        space
            .lock_all(Tick(START))
            .set(&key, b"v", NewDeadline::At(at(ttl)));
    }
    for shard in 0..space.shard_count() {
        let mut report = |_, _| {};
        while space
            .expire(shard, at(60), 100, &mut Vec::new(), &mut report)
            .more
        {}
    }
    let sums = space.class_sums();
    let counts = sums.facts()[0].counts;
    assert_eq!(counts.expired, 2);
    assert_eq!((counts.late_ms_sum, counts.late_ms_max), (60, 50));
    assert_eq!((counts.ttls.total(), counts.ttls.sum_ms), (2, 60));
    space.reset_counters();
    assert_eq!(
        space.class_sums().facts()[0].counts,
        store::ClassCounts::default()
    );
    let used = (space.memory_facts().used_bytes, space.published_bytes());
    space.set_classes(&Arc::default());
    assert_eq!(space.class_sums().facts(), []);
    let (facts, published) = (space.memory_facts().used_bytes, space.published_bytes());
    assert!(used.0 - facts > 4 * 8192, "the statistics were counted");
    assert_eq!(used.0 - facts, used.1 - published);
}

#[test]
fn many_present_entries_are_counted_in_steps_while_they_change() {
    let space = Keyspace::new(&options(), Tick(START)).expect("valid");
    let set = |number: u32, now: Tick| {
        let name = format!("s:{number}");
        let key = space.key(0, name.as_bytes());
        space
            .lock_all(now)
            .set(&key, &[b'v'; 20], NewDeadline::Clear);
    };
    (0..30_000).for_each(|number| set(number, Tick(START)));
    let rule = rules(1).remove(0);
    let rule = ClassRule {
        prefix: b"s".to_vec(),
        ..rule
    };
    let classes = Arc::new(Classes::new(vec![rule]).expect("valid"));
    space.set_classes(&classes);
    assert!(space.class_sums().is_counting());
    let mut steps = 0;
    while space.class_sums().is_counting() {
        for shard in 0..space.shard_count() {
            space.background_step(shard, Tick(START), 100, &mut Vec::new());
        }
        // Tables split and merge meanwhile.
        let first = 30_000 + steps * 400;
        (first..first + 400).for_each(|number| set(number, Tick(START)));
        for number in steps * 100..(steps + 1) * 100 {
            let name = format!("s:{number}");
            space
                .lock_all(Tick(START))
                .delete(&space.key(0, name.as_bytes()));
        }
        steps += 1;
    }
    assert!(steps > 20, "{steps} steps");
    space.check();
    let keys = space.lock_all(Tick(START)).len(0) as u64;
    assert_eq!(space.class_sums().facts()[0].keys, keys);
}
