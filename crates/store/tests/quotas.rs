//! Random operations on databases with memory limits and policies of their own against a plain
//! model: the keys that must be there, because nothing may evict them.

use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use store::{
    ClassRule, Classes, DbLimits, Full, Keyspace, NewDeadline, Options, PolicyChoice, Tick,
};

const START: u64 = 1_700_000_000_000;
const MB: u64 = 1 << 20;
const SHARDS: usize = 4;
const DBS: u8 = 4;
/// Databases, by the classes that [`classes`] defines.
const CACHE: u8 = 0;
const QUEUE: u8 = 1;
const OWN: u8 = 2;
const KEPT: u8 = 3;

#[derive(Clone, Debug)]
enum Op {
    Set(u8, u16, usize),
    Delete(u8, u16),
    Background,
    Memory(u64),
    Classes(bool),
    Swap(u8, u8),
    Flush(u8),
}

fn op() -> impl Strategy<Value = Op> {
    let size = prop_oneof![3 => 10..200usize, 2 => 1_000..20_000usize, 1 => 50_000..200_000usize];
    prop_oneof![
        60 => (0..DBS, 0..200u16, size).prop_map(|(db, key, size)| Op::Set(db, key, size)),
        8 => (0..DBS, 0..200u16).prop_map(|(db, key)| Op::Delete(db, key)),
        6 => Just(Op::Background),
        2 => prop_oneof![Just(0), 3 * MB..8 * MB].prop_map(Op::Memory),
        2 => any::<bool>().prop_map(Op::Classes),
        1 => (0..DBS, 0..DBS).prop_map(|(one, other)| Op::Swap(one, other)),
        1 => (0..DBS).prop_map(Op::Flush),
    ]
}

fn classes() -> Classes {
    let rule = |name: &str, db, min_bytes, max_bytes, policy: Option<&str>| ClassRule {
        name: name.to_owned(),
        db: Some(db),
        limits: DbLimits {
            min_bytes,
            max_bytes,
        },
        policy: policy.map(|name| PolicyChoice::parse(name).expect("it exists")),
        ..ClassRule::default()
    };
    let rules = vec![
        rule("queue", QUEUE, 0, MB, Some("noeviction")),
        rule("own", OWN, 0, MB, Some("allkeys-s3fifo")),
        rule("kept", KEPT, MB, 2 * MB, None),
    ];
    Classes::new(rules).expect("they are possible")
}

fn space() -> Keyspace {
    let options = Options {
        shards: SHARDS,
        policy: "allkeys-lru".to_owned(),
        expiry: "wheel".to_owned(),
        maxmemory: 0,
        hash_key: [7, 9],
        seed: 3,
    };
    Keyspace::new(&options, Tick(START)).expect("valid")
}

/// A keyspace with its model.
struct Bench {
    space: Keyspace,
    /// Sizes of the values that were stored, by database and key.
    stored: [BTreeMap<u16, usize>; DBS as usize],
    has_classes: bool,
    /// Whether a policy that may evict from the queue can still have its keys.
    was_evictable: bool,
}

impl Bench {
    fn name(number: u16) -> Vec<u8> {
        format!("key:{number}").into_bytes()
    }

    /// Writes as a command does: all shards may be locked to make room.
    fn set(&mut self, db: u8, number: u16, size: usize) -> Option<Full> {
        let name = Bench::name(number);
        let key = self.space.key(db, &name);
        let mut view = self.space.lock_all(Tick(START));
        if let Some(full) = view.lacks_room(db) {
            return Some(full);
        }
        view.set(&key, &vec![b'v'; size], NewDeadline::Clear);
        self.stored[usize::from(db)].insert(number, size);
        None
    }

    fn background(&self) {
        for _ in 0..10_000 {
            let step = |shard| {
                self.space
                    .background_step(shard, Tick(START), 64, &mut Vec::new())
            };
            let more = (0..SHARDS).map(step).fold(false, |all, one| all | one);
            let shards: Vec<usize> = (0..SHARDS).collect();
            if !more && !self.space.must_evict(&shards) {
                return;
            }
        }
        panic!("background work does not end");
    }

    fn used_bytes(&self, name: &str) -> u64 {
        let sums = self.space.class_sums();
        let mut facts = sums.facts().iter();
        let facts = facts.find(|facts| facts.name == name).expect("the class");
        facts.quota.expect("it has limits").used_bytes
    }

    /// Compares what must be there, and forgets what was evicted.
    fn compare(&mut self) {
        let mut view = self.space.lock_all(Tick(START));
        for db in 0..DBS {
            let stored = &mut self.stored[usize::from(db)];
            let len = stored.len();
            stored.retain(|number, size| {
                let name = Bench::name(*number);
                let value = view.get(&self.space.key(db, &name)).expect("a string");
                assert!(value.is_none_or(|value| value.len() == *size));
                value.is_some()
            });
            assert_eq!(view.len(db), stored.len());
            if db == QUEUE && self.has_classes && !self.was_evictable {
                assert_eq!(stored.len(), len, "a key of the queue was evicted");
            }
        }
    }

    fn run(&mut self, op: Op) {
        match op {
            Op::Set(db, number, size) => {
                let full = self.set(db, number, size);
                if full == Some(Full::Database) {
                    assert!(db == QUEUE && self.has_classes, "the others can evict");
                }
            }
            Op::Delete(db, number) => {
                let name = Bench::name(number);
                let key = self.space.key(db, &name);
                self.space.lock_all(Tick(START)).delete(&key);
                self.stored[usize::from(db)].remove(&number);
            }
            Op::Background => self.background(),
            Op::Memory(bytes) => self.space.set_maxmemory(bytes),
            Op::Classes(on) => {
                let classes = if on { classes() } else { Classes::default() };
                self.space.set_classes(&Arc::new(classes));
                self.was_evictable |= !on;
                self.has_classes = on;
                // So that the policies of before have no keys any more.
                self.background();
                self.compare();
                self.was_evictable = false;
            }
            Op::Swap(one, other) => {
                self.space.lock_all(Tick(START)).swap(one, other);
                self.stored.swap(one.into(), other.into());
                self.was_evictable = true;
                self.background();
                self.compare();
                self.was_evictable = false;
            }
            Op::Flush(db) => {
                self.space.lock_all(Tick(START)).flush(db);
                self.stored[usize::from(db)].clear();
            }
        }
        self.compare();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 2_000, ..ProptestConfig::with_cases(24) })]
    #[test]
    fn databases_keep_their_limits_and_their_keys(ops in prop::collection::vec(op(), 50..400)) {
        let mut bench = Bench {
            space: space(),
            stored: Default::default(),
            has_classes: false,
            was_evictable: false,
        };
        bench.run(Op::Classes(true));
        for op in ops {
            bench.run(op);
        }
        bench.run(Op::Classes(true));
        bench.background();
        // The last value is stored whole, and the sums are off by a 64th at most.
        let most = |max: u64| max + 200_000 + max / 64 + 4096;
        prop_assert!(bench.used_bytes("own") <= most(MB), "{}", bench.used_bytes("own"));
        prop_assert!(bench.used_bytes("kept") <= most(2 * MB), "{}", bench.used_bytes("kept"));
        bench.space.check();
    }
}

#[test]
fn a_full_database_refuses_writes_and_the_others_go_on() {
    let mut bench = Bench {
        space: space(),
        stored: Default::default(),
        has_classes: true,
        was_evictable: false,
    };
    bench.space.set_classes(&Arc::new(classes()));
    let mut number = 0;
    while bench.set(QUEUE, number, 10_000).is_none() {
        number += 1;
    }
    let used = bench.used_bytes("queue");
    assert!((MB..MB + 50_000).contains(&used), "{used}");
    assert_eq!(bench.set(QUEUE, number, 1), Some(Full::Database));
    assert_eq!(bench.space.refuse_full(QUEUE).as_deref(), Some("queue"));
    for number in 0..1_000 {
        assert_eq!(bench.set(CACHE, number, 10_000), None);
        assert_eq!(bench.set(OWN, number, 10_000), None);
    }
    bench.compare();
    assert_eq!(bench.stored[usize::from(CACHE)].len(), 1_000);
    let left = bench.stored[usize::from(OWN)].len();
    assert!((60..105).contains(&left), "{left}");
    // The memory of all is over its limit now: the queue loses nothing, and no other database what
    // it keeps.
    (0..50).for_each(|number| assert_eq!(bench.set(KEPT, number, 10_000), None));
    bench.space.set_maxmemory(4 * MB);
    bench.background();
    bench.compare();
    assert_eq!(bench.stored[usize::from(QUEUE)].len(), usize::from(number));
    assert_eq!(bench.stored[usize::from(KEPT)].len(), 50);
    assert!(bench.stored[usize::from(CACHE)].len() < 400);
    bench.space.set_maxmemory(MB);
    bench.background();
    bench.compare();
    assert_eq!(bench.stored[usize::from(QUEUE)].len(), usize::from(number));
    assert_eq!(bench.stored[usize::from(KEPT)].len(), 50);
    assert!(bench.stored[usize::from(CACHE)].is_empty());
    assert_eq!(bench.set(CACHE, 0, 1), Some(Full::Memory));
    bench.space.set_maxmemory(4 * MB);
    // A limit below what the database holds evicts in the background.
    let mut rules = classes().rules().to_vec();
    rules[2].limits = DbLimits {
        min_bytes: 0,
        max_bytes: MB / 4,
    };
    bench
        .space
        .set_classes(&Arc::new(Classes::new(rules).expect("valid")));
    bench.background();
    bench.compare();
    assert!(bench.stored[usize::from(KEPT)].len() < 30);
    assert!(!bench.space.can_hold(KEPT, MB as usize, 0));
    bench.space.check();
}

#[test]
fn a_database_that_gets_other_keys_keeps_its_policy() {
    let mut bench = Bench {
        space: space(),
        stored: Default::default(),
        has_classes: true,
        was_evictable: false,
    };
    bench.space.set_classes(&Arc::new(classes()));
    (0..20).for_each(|number| assert_eq!(bench.set(CACHE, number, 10_000), None));
    // Regression: shards in which the queue had no keys kept the policy of the cache.
    bench.run(Op::Swap(CACHE, QUEUE));
    bench.space.set_maxmemory(MB);
    for number in 0..500 {
        let _ = bench.set(OWN, number, 10_000);
    }
    bench.background();
    bench.compare();
    assert_eq!(bench.stored[usize::from(QUEUE)].len(), 20);
}

#[test]
fn a_lower_limit_takes_keys_from_all_shards() {
    let mut bench = Bench {
        space: space(),
        stored: Default::default(),
        has_classes: true,
        was_evictable: false,
    };
    bench.space.set_classes(&Arc::new(Classes::default()));
    // A step of background work evicts up to 128 keys.
    (0..30_000).for_each(|number| assert_eq!(bench.set(OWN, number, 100), None));
    bench.space.set_classes(&Arc::new(classes()));
    bench.background();
    bench.compare();
    let mut left = [0; SHARDS];
    for number in bench.stored[usize::from(OWN)].keys() {
        let name = Bench::name(*number);
        left[bench.space.shard_of(&bench.space.key(OWN, &name))] += 1;
    }
    let most = left.iter().max().expect("four shards");
    assert!(left.iter().all(|keys| keys + 300 > *most), "{left:?}");
}

#[test]
fn limits_that_are_impossible_are_refused() {
    let rule = |prefix: &str, min_bytes, max_bytes| ClassRule {
        name: "one".to_owned(),
        prefix: prefix.as_bytes().to_vec(),
        db: Some(1),
        limits: DbLimits {
            min_bytes,
            max_bytes,
        },
        ..ClassRule::default()
    };
    let error = |rule| Classes::new(vec![rule]).expect_err("it is refused");
    assert!(error(rule("a", 0, MB)).contains("class of a whole database"));
    assert!(error(rule("", 2 * MB, MB)).contains("minmemory exceeds maxmemory"));
    assert!(Classes::new(vec![rule("", MB, MB)]).is_ok());
}
