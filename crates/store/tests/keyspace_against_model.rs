//! Random operations on a keyspace against plain maps, with a simulated clock that also jumps.

use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use store::{Class, Event, Keyspace, NewDeadline, Options, Tick, View};

type Map = BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)>;

#[derive(Clone, Debug)]
enum Op {
    Set {
        key: u16,
        len: usize,
        deadline: u8,
        ttl: u64,
    },
    Append(u16, usize),
    Truncate(u16),
    Deadline {
        key: u16,
        ttl: Option<u64>,
    },
    Delete(u16),
    ExpireNow(u16),
    Get(u16),
    Copy(u16, u16, u8),
    Rename(u16, u16),
    Advance(u64),
    Back(u64),
    Expire(u32),
    Tend(u32),
    Flush,
    Swap(u8, u8),
    Select(u8),
    Scan(usize),
    Policy(usize),
    Watch(u16),
}

const POLICIES: [&str; 6] = [
    "noeviction",
    "allkeys-s3fifo",
    "volatile-fifo",
    "allkeys-lru",
    "volatile-random",
    "allkeys-sieve",
];

fn op() -> impl Strategy<Value = Op> {
    let key = || 0..400u16;
    let len = || prop_oneof![6 => 0..40usize, 2 => 400..700usize, 1 => 1500..4000usize];
    let ttl = || prop_oneof![4 => 1..2000u64, 1 => 1..4_000_000u64, 1 => Just(1u64 << 50)];
    prop_oneof![
        14 => (key(), len(), 0..3u8, ttl()).prop_map(|(key, len, deadline, ttl)| Op::Set { key, len, deadline, ttl }),
        2 => (key(), len()).prop_map(|(k, n)| Op::Append(k, n)),
        1 => key().prop_map(Op::Truncate),
        5 => (key(), prop::option::of(ttl())).prop_map(|(key, ttl)| Op::Deadline { key, ttl }),
        4 => key().prop_map(Op::Delete),
        1 => key().prop_map(Op::ExpireNow),
        5 => key().prop_map(Op::Get),
        2 => (key(), key(), 0..3u8).prop_map(|(a, b, db)| Op::Copy(a, b, db)),
        2 => (key(), key()).prop_map(|(a, b)| Op::Rename(a, b)),
        4 => (0..700u64).prop_map(Op::Advance),
        1 => (0..4_000_000u64).prop_map(Op::Advance),
        1 => (0..5000u64).prop_map(Op::Back),
        4 => (1..60u32).prop_map(Op::Expire),
        3 => (1..60u32).prop_map(Op::Tend),
        1 => Just(Op::Flush),
        1 => (0..3u8, 0..3u8).prop_map(|(a, b)| Op::Swap(a, b)),
        1 => (0..3u8).prop_map(Op::Select),
        1 => (1..50usize).prop_map(Op::Scan),
        1 => (0..POLICIES.len()).prop_map(Op::Policy),
        2 => key().prop_map(Op::Watch),
    ]
}

fn key_bytes(key: u16) -> Vec<u8> {
    let mut bytes = format!("k{key}").into_bytes();
    if key.is_multiple_of(17) {
        bytes.resize(250 + key as usize % 20, b'+');
    }
    bytes
}

struct Run {
    space: Keyspace,
    dbs: Vec<Map>,
    now: u64,
    db: u8,
    watched: Option<(Vec<u8>, u8, Arc<AtomicBool>)>,
    /// Number of keys that the model removed as expired, compared with the number that the keyspace
    /// reports.
    dead: usize,
    expired_events: usize,
}

impl Run {
    fn view(&self) -> View<'_> {
        self.space.lock_all(Tick(self.now))
    }

    /// Returns the model's map of a database without expired keys.
    fn map(&mut self, db: u8) -> &mut Map {
        let now = self.now;
        let map = &mut self.dbs[db as usize];
        let before = map.len();
        map.retain(|_, v| v.1.is_none_or(|d| d >= now));
        self.dead += before - map.len();
        map
    }

    fn collect(&mut self, events: Vec<Event>) {
        self.expired_events += events.iter().filter(|e| e.class == Class::Expired).count();
    }

    fn changed(&mut self, db: u8, key: &[u8]) {
        if let Some((watched, of, flag)) = &self.watched
            && watched == key
            && *of == db
        {
            assert!(flag.load(Ordering::Relaxed), "a watched key changed");
            self.watched = None;
        }
    }

    fn set(&mut self, key: u16, len: usize, how: u8, ttl: u64) {
        let (bytes, now, db) = (key_bytes(key), self.now, self.db);
        let value = vec![(ttl % 251) as u8; len];
        let deadline = match how {
            0 => NewDeadline::Keep,
            1 => NewDeadline::Clear,
            _ => NewDeadline::At(Tick(now + ttl)),
        };
        self.view()
            .set(&self.space.key(db, &bytes), &value, deadline);
        let map = self.map(db);
        let old = map.get(&bytes).and_then(|v| v.1);
        let at = match how {
            0 => old,
            1 => None,
            _ => Some((now + ttl).min(Tick::MAX.0)),
        };
        map.insert(bytes.clone(), (value, at));
        self.changed(db, &bytes);
    }

    fn copy(&mut self, from: u16, to: u16, to_db: u8, moves: bool) {
        let (from, to, db) = (key_bytes(from), key_bytes(to), self.db);
        if (&from, db) == (&to, to_db) {
            return;
        }
        let (a, b) = (self.space.key(db, &from), self.space.key(to_db, &to));
        let mut view = self.view();
        let done = if moves {
            view.rename(&a, &b)
        } else {
            view.copy(&a, &b)
        };
        drop(view);
        let held = self.map(db).get(&from).cloned();
        assert_eq!(done, held.is_some());
        if let Some(held) = held {
            self.map(to_db).insert(to.clone(), held);
            if moves {
                self.map(db).remove(&from);
                self.changed(db, &from);
            }
            self.changed(to_db, &to);
        }
    }

    fn step(&mut self, op: Op) {
        let db = self.db;
        match op {
            Op::Set {
                key,
                len,
                deadline,
                ttl,
            } => self.set(key, len, deadline, ttl),
            Op::Append(key, len) => {
                let bytes = key_bytes(key);
                let more = vec![b'a'; len];
                let edited = self
                    .view()
                    .edit(&self.space.key(db, &bytes), |v| v.extend(&more));
                assert!(edited.is_ok());
                let map = self.map(db);
                if map.contains_key(&bytes) || len > 0 {
                    map.entry(bytes.clone()).or_default().0.extend(&more);
                    self.changed(db, &bytes);
                }
            }
            Op::Truncate(key) => {
                let bytes = key_bytes(key);
                assert!(
                    self.view()
                        .edit(&self.space.key(db, &bytes), |v| v.truncate(3))
                        .is_ok()
                );
                if let Some(held) = self.map(db).get_mut(&bytes) {
                    held.0.truncate(3);
                    self.changed(db, &bytes);
                }
            }
            Op::Deadline { key, ttl } => {
                let (bytes, now) = (key_bytes(key), self.now);
                let at = ttl.map(|t| now + t);
                let done = self
                    .view()
                    .set_deadline(&self.space.key(db, &bytes), at.map(Tick));
                let held = self.map(db).get_mut(&bytes);
                assert_eq!(done, held.is_some());
                if let Some(held) = held {
                    held.1 = at.map(|d| d.min(Tick::MAX.0));
                    self.changed(db, &bytes);
                }
            }
            Op::Delete(key) => {
                let bytes = key_bytes(key);
                let done = self.view().delete(&self.space.key(db, &bytes));
                assert_eq!(done, self.map(db).remove(&bytes).is_some());
                if done {
                    self.changed(db, &bytes);
                }
            }
            Op::ExpireNow(key) => {
                let bytes = key_bytes(key);
                let done = self.view().expire_now(&self.space.key(db, &bytes));
                assert_eq!(done, self.map(db).remove(&bytes).is_some());
                self.dead += usize::from(done);
            }
            Op::Get(key) => {
                let bytes = key_bytes(key);
                let expected = self.map(db).get(&bytes).map(|v| v.0.clone());
                let mut view = self.view();
                let key = self.space.key(db, &bytes);
                assert_eq!(
                    view.get(&key).expect("a string").map(<[u8]>::to_vec),
                    expected
                );
            }
            Op::Copy(from, to, to_db) => self.copy(from, to, to_db, false),
            Op::Rename(from, to) => self.copy(from, to, db, true),
            Op::Advance(ms) => self.now += ms,
            // The keyspace removes what has expired before the clock goes back, because expired
            // keys stay removed in the model.
            Op::Back(ms) => {
                self.expire_all();
                self.now -= ms.min(self.now);
            }
            other => self.step_rarely(other),
        }
    }

    fn step_rarely(&mut self, op: Op) {
        let db = self.db;
        match op {
            Op::Expire(steps) => {
                for shard in 0..self.space.shard_count() {
                    let (mut events, mut deadlines) = (vec![], vec![]);
                    let now = Tick(self.now);
                    let report = &mut |d: Tick, _| deadlines.push(d);
                    self.space.expire(shard, now, steps, &mut events, report);
                    assert!(deadlines.is_sorted() && deadlines.iter().all(|d| *d < now));
                    self.collect(events);
                }
            }
            Op::Tend(steps) => {
                for shard in 0..self.space.shard_count() {
                    let mut events = vec![];
                    self.space
                        .background_step(shard, Tick(self.now), steps, &mut events);
                    self.collect(events);
                }
            }
            Op::Flush => {
                self.expire_all();
                self.view().flush(db);
                self.map(db).clear();
                self.watched = None;
            }
            Op::Swap(a, b) => {
                self.view().swap(a, b);
                self.dbs.swap(a as usize, b as usize);
                self.watched = None;
            }
            Op::Select(db) => self.db = db,
            Op::Scan(count) => {
                let (mut seen, mut cursor) = (BTreeSet::new(), 0);
                let mut view = self.view();
                loop {
                    cursor = view.scan(db, cursor, count, &mut |k, _| {
                        seen.insert(k.to_vec());
                    });
                    if cursor == 0 {
                        break;
                    }
                }
                let chance = (count as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let random = view.random_key(db, chance);
                drop(view);
                let map = self.map(db);
                assert!(seen.iter().eq(map.keys()));
                assert_eq!(random.is_some(), !map.is_empty());
                assert!(random.is_none_or(|key| map.contains_key(&key)));
            }
            Op::Policy(which) => {
                self.space.set_policy(POLICIES[which]).expect("it exists");
            }
            Op::Watch(key) => {
                let (bytes, flag) = (key_bytes(key), Arc::new(AtomicBool::new(false)));
                self.view().watch(&self.space.key(db, &bytes), &flag);
                self.watched = Some((bytes, db, flag));
            }
            _ => unreachable!("the others are above"),
        }
    }

    /// Runs expiry until nothing expired is left.
    fn expire_all(&mut self) {
        for shard in 0..self.space.shard_count() {
            let mut events = vec![];
            while self
                .space
                .expire(shard, Tick(self.now), 7, &mut events, &mut |_, _| ())
                .more
            {}
            let due = self.space.next_due(shard);
            assert!(
                due.is_none_or(|d| d.0 > self.now),
                "{due:?} at {}",
                self.now
            );
            self.collect(events);
        }
        (0..3).for_each(|db| {
            self.map(db);
        });
    }

    fn compare(&mut self) {
        let mut events = vec![];
        self.view().take_events(&mut events);
        self.collect(events);
        self.expire_all();
        self.space.check();
        assert_eq!(self.expired_events, self.dead, "each dead key says so once");
        assert_eq!(self.space.counters().expired_keys as usize, self.dead);
        for db in 0..3u8 {
            let map = self.map(db).clone();
            let mut view = self.view();
            assert_eq!(view.len(db), map.len());
            for (key, (value, deadline)) in &map {
                let key = self.space.key(db, key);
                assert_eq!(view.deadline(&key), Some(deadline.map(Tick)));
                assert_eq!(view.peek(&key), Ok(Some(&value[..])));
                assert!(view.facts(&key).is_some_and(|f| f.bytes >= value.len()));
            }
        }
    }
}

fn options(policy: &str, maxmemory: u64) -> Options {
    Options {
        shards: 4,
        policy: policy.into(),
        expiry: "wheel".into(),
        maxmemory,
        hash_key: [11, 13],
        seed: 17,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_keyspace_holds_what_plain_maps_hold(
        ops in prop::collection::vec(op(), 1..700),
        expiry in prop::sample::select(vec!["wheel", "wheel", "ordered"]),
    ) {
        let now = 1_700_000_000_000;
        let options = Options { expiry: expiry.into(), ..options("noeviction", 0) };
        let space = Keyspace::new(&options, Tick(now)).expect("valid");
        space.set_notify(true);
        let dbs = vec![Map::new(); 3];
        let mut run = Run { space, dbs, now, db: 0, watched: None, dead: 0, expired_events: 0 };
        for (i, op) in ops.into_iter().enumerate() {
            run.step(op);
            if i % 64 == 63 {
                run.compare();
            }
        }
        run.compare();
    }
}

#[test]
fn memory_stays_below_its_limit_and_evictions_are_notified() {
    for policy in Keyspace::policy_names()
        .iter()
        .filter(|p| p.starts_with("allkeys"))
    {
        let now = Tick(1_700_000_000_000);
        let space = Keyspace::new(&options(policy, 2 << 20), now).expect("valid");
        space.set_notify(true);
        let mut events = vec![];
        for i in 0..60_000u32 {
            let bytes = format!("key:{i:012}");
            let key = space.key(0, bytes.as_bytes());
            let mut view = space.lock_one(space.shard_of(&key), now);
            assert!(view.lacks_room(0).is_none(), "{policy}");
            view.set(&key, &[b'v'; 40], NewDeadline::Clear);
            view.take_events(&mut events);
        }
        space.check();
        let used = space.memory_facts().used_bytes;
        assert!(
            (1 << 20..(2 << 20) + (64 << 10)).contains(&used),
            "{policy}: {used} bytes used"
        );
        let evicted = events.iter().filter(|e| e.class == Class::Evicted).count();
        assert_eq!(evicted as u64, space.counters().evicted_keys);
        assert_eq!(evicted + space.lock_all(now).len(0), 60_000, "{policy}");
    }
}

#[test]
fn without_a_policy_writes_over_the_limit_are_refused() {
    let now = Tick(1_700_000_000_000);
    let space = Keyspace::new(&options("noeviction", 1 << 20), now).expect("valid");
    let mut stored = 0u32;
    loop {
        let bytes = format!("key:{stored:012}");
        let key = space.key(0, bytes.as_bytes());
        let mut view = space.lock_one(space.shard_of(&key), now);
        if view.lacks_room(0).is_some() {
            break;
        }
        view.set(&key, &[b'v'; 40], NewDeadline::Clear);
        stored += 1;
        assert!(stored < 100_000);
    }
    assert!(stored > 5_000);
    assert_eq!(space.lock_all(now).len(0), stored as usize);
    assert_eq!(space.counters().evicted_keys, 0);
}

#[test]
fn a_volatile_policy_evicts_only_keys_with_a_deadline() {
    // Regression: the old policy of all keys chose victims until the last of them had been moved.
    let now = Tick(1_700_000_000_000);
    for old in ["allkeys-s3fifo", "allkeys-random", "allkeys-sieve"] {
        let space = Keyspace::new(&options(old, 0), now).expect("valid");
        let set = |prefix: &str, i: u32, deadline| {
            let bytes = format!("{prefix}:{i:012}");
            let key = space.key(0, bytes.as_bytes());
            let shard = space.shard_of(&key);
            space.lock_one(shard, now).set(&key, &[b'v'; 40], deadline);
        };
        (0..20_000).for_each(|i| set("stays", i, NewDeadline::Clear));
        let soon = NewDeadline::At(Tick(now.0 + 3_600_000));
        (0..5_000).for_each(|i| set("may go", i, soon));
        space.set_maxmemory(space.memory_facts().used_bytes);
        space.set_policy("volatile-clock").expect("it exists");
        (5_000..10_000).for_each(|i| set("may go", i, soon));
        assert!(space.counters().evicted_keys > 0, "{old}");
        while (0..4).any(|shard| space.background_step(shard, now, 100, &mut vec![])) {}
        space.check();
        let facts = space.db_facts(0, now);
        assert_eq!(facts.keys - facts.with_deadline, 20_000, "{old}");
    }
}

#[test]
fn a_lowered_limit_and_a_changed_policy_take_effect_in_steps() {
    let now = Tick(1_700_000_000_000);
    let space = Keyspace::new(&options("noeviction", 0), now).expect("valid");
    for i in 0..40_000u32 {
        let bytes = format!("key:{i:012}");
        let key = space.key(0, bytes.as_bytes());
        space
            .lock_one(space.shard_of(&key), now)
            .set(&key, &[b'v'; 40], NewDeadline::Clear);
    }
    let before = space.memory_facts().used_bytes;
    space.set_policy("allkeys-s3fifo").expect("it exists");
    space.set_maxmemory(before / 2);
    let mut turns = 0;
    while (0..4).any(|shard| space.background_step(shard, now, 100, &mut vec![])) {
        turns += 1;
        assert!(turns < 100_000, "it ends");
    }
    space.check();
    let used = space.memory_facts().used_bytes;
    assert!(used <= before / 2 + (16 << 10), "{used} of {before}");
    space.set_policy("noeviction").expect("it exists");
    while (0..4).any(|shard| space.background_step(shard, now, 100, &mut vec![])) {}
    space.check();
}

#[test]
fn a_sampling_index_removes_all_expired_keys_eventually() {
    let start = Tick(1_700_000_000_000);
    let options = Options {
        expiry: "sampled:effort=10".into(),
        ..options("noeviction", 0)
    };
    let space = Keyspace::new(&options, start).expect("valid");
    for i in 0..20_000u32 {
        let bytes = format!("key:{i:012}");
        let key = space.key(0, bytes.as_bytes());
        let ttl = if i % 2 == 0 { 1000 } else { 3_600_000 };
        let deadline = NewDeadline::At(Tick(start.0 + ttl));
        space
            .lock_one(space.shard_of(&key), start)
            .set(&key, b"v", deadline);
    }
    let mut now = start;
    for _ in 0..3000 {
        now.0 += 10;
        for shard in 0..space.shard_count() {
            if space.next_due(shard).is_some_and(|due| due <= now) {
                space.expire(shard, now, 500, &mut vec![], &mut |_, _| ());
            }
        }
    }
    space.check();
    let left = space.lock_all(now).len(0);
    assert!((10_000..12_000).contains(&left), "{left} keys left");
    assert_eq!(space.expiry_facts(now).granularity_ms, None);
}

/// Regression: references that removed keys left in the wheel were cleaned up only when another key
/// with an early deadline was set, because the wheel's next run was not published.
#[test]
fn what_deleted_keys_leave_in_the_index_is_removed() {
    let now = Tick(1_700_000_000_000);
    let space = Keyspace::new(&options("noeviction", 0), now).expect("valid");
    let names: Vec<String> = (0..40_000).map(|i| format!("key:{i:012}")).collect();
    for (i, name) in (0..).zip(&names) {
        let key = space.key(0, name.as_bytes());
        let deadline = NewDeadline::At(Tick(now.0 + 2_000_000_000 + i * 977));
        let shard = space.shard_of(&key);
        space.lock_one(shard, now).set(&key, b"v", deadline);
    }
    let index_bytes = || space.expiry_facts(now).index_bytes;
    let full = index_bytes();
    for name in &names[2000..] {
        let key = space.key(0, name.as_bytes());
        assert!(space.lock_one(space.shard_of(&key), now).delete(&key));
    }
    for shard in 0..space.shard_count() {
        while space.background_step(shard, now, 100, &mut vec![]) {}
        while space.next_due(shard).is_some_and(|due| due <= now) {
            space.expire(shard, now, 500, &mut vec![], &mut |_, _| ());
        }
    }
    space.check();
    assert!(index_bytes() < full / 4, "{} of {full}", index_bytes());
}

/// Indexes that share the cycles of one server take turns by the shard's number, which must be
/// passed to them.
#[test]
fn indexes_that_share_cycles_take_turns_by_shard() {
    let now = Tick(1_700_000_000_000);
    let options = Options {
        expiry: "sampled:shards=4".into(),
        ..options("noeviction", 0)
    };
    let space = Keyspace::new(&options, now).expect("valid");
    for i in 0..200 {
        let name = format!("key:{i}");
        let key = space.key(0, name.as_bytes());
        let deadline = NewDeadline::At(Tick(now.0 + 60_000));
        space
            .lock_one(space.shard_of(&key), now)
            .set(&key, b"v", deadline);
    }
    let turns = (0..space.shard_count()).filter_map(|shard| space.next_due(shard));
    let turns: BTreeSet<Tick> = turns.collect();
    assert_eq!((space.shard_count(), turns.len()), (4, 4), "{turns:?}");
}

/// Regression: indexes that run at intervals waited until the clock reached its earlier value
/// again.
#[test]
fn an_index_keeps_running_after_the_clock_went_forward_and_back() {
    const DECADE_MS: u64 = 10 * 365 * 86_400_000;
    for name in Keyspace::expiry_names() {
        let start = Tick(1_700_000_000_000);
        let options = Options {
            expiry: name.clone(),
            ..options("noeviction", 0)
        };
        let space = Keyspace::new(&options, start).expect("valid");
        for i in 0..2_000 {
            let key = format!("key:{i}");
            let key = space.key(0, key.as_bytes());
            let deadline = NewDeadline::At(Tick(start.0 + 10_000 + i));
            let shard = space.shard_of(&key);
            space.lock_one(shard, start).set(&key, b"v", deadline);
        }
        let shards = 0..space.shard_count();
        let later = Tick(start.0 + DECADE_MS);
        for shard in shards.clone() {
            space.expire(shard, later, 10, &mut vec![], &mut |_, _| ());
            space.background_step(shard, start, 100, &mut vec![]);
        }
        let mut now = start;
        while now.0 < start.0 + 120_000 {
            now.0 += 50;
            for shard in shards.clone() {
                if space.next_due(shard).is_some_and(|due| due <= now) {
                    space.expire(shard, now, 5_000, &mut vec![], &mut |_, _| ());
                }
            }
        }
        space.check();
        let left = space.lock_all(now).len(0);
        let is_deleted = left <= 200 || name == "lazy";
        assert!(is_deleted, "{name}: {left} keys left");
    }
}

#[test]
fn the_error_for_an_unknown_name_lists_known_names() {
    let mut bad = options("allkeys-nonsense", 0);
    assert!(Keyspace::new(&bad, Tick(0)).is_err_and(|e| e.contains("allkeys-nonsense")));
    bad.policy = "noeviction".into();
    bad.expiry = "hourglass".into();
    assert!(Keyspace::new(&bad, Tick(0)).is_err_and(|e| e.contains("hourglass")));
    let reported = Keyspace::check_expiry("buckets:0x1").expect_err("a ring has buckets");
    assert_eq!(reported.matches("buckets:").count(), 1, "{reported}");
}

#[test]
fn few_volatile_keys_among_many_others_are_evicted() {
    for policy in Keyspace::policy_names()
        .iter()
        .filter(|p| p.starts_with("volatile"))
    {
        let now = Tick(1_700_000_000_000);
        let space = Keyspace::new(&options(policy, 0), now).expect("valid");
        for i in 0..20_000u32 {
            let bytes = format!("key:{i:012}");
            let key = space.key(0, bytes.as_bytes());
            let deadline = match i % 2000 {
                0 => NewDeadline::At(Tick(now.0 + 60_000)),
                _ => NewDeadline::Clear,
            };
            space
                .lock_one(space.shard_of(&key), now)
                .set(&key, b"v", deadline);
        }
        space.set_maxmemory(1 << 16);
        let mut refused = 0;
        for _ in 0..2000 {
            for shard in 0..4 {
                refused += usize::from(space.lock_one(shard, now).lacks_room(0).is_some());
            }
        }
        assert_eq!(space.counters().evicted_keys, 10, "{policy}");
        assert!(refused > 0, "{policy}: nothing is left to evict");
        space.check();
    }
}

/// Stores a value without a deadline. Returns false if there is no room.
fn put(space: &Keyspace, key: &str, len: usize) -> bool {
    let now = Tick(1_700_000_000_000);
    let key = space.key(0, key.as_bytes());
    let mut view = space.lock_one(space.shard_of(&key), now);
    let has_room = view.lacks_room(0).is_none();
    if has_room {
        view.set(&key, &vec![b'v'; len], NewDeadline::Clear);
    }
    has_room
}

#[test]
fn large_values_over_many_small_ones_stay_below_the_limit() {
    // Regression: a write evicted at most 128 entries, so large values accumulated until the small
    // ones were evicted.
    let now = Tick(1_700_000_000_000);
    for policy in ["allkeys-s3fifo", "allkeys-fifo", "allkeys-random"] {
        let max = 8 << 20;
        let space = Keyspace::new(&options(policy, max), now).expect("valid");
        (0..120_000).for_each(|i| assert!(put(&space, &format!("key:{i:012}"), 3)));
        for i in 0..64 {
            assert!(put(&space, &format!("large:{i}"), 256 << 10));
            let used = space.memory_facts().used_bytes;
            assert!(used < max + (2 << 20), "{policy}: {used} after {i}");
        }
    }
}

#[test]
fn nothing_is_evicted_after_noeviction_is_set() {
    // Regression: the old policy chose victims as long as its entries were being moved.
    let now = Tick(1_700_000_000_000);
    let space = Keyspace::new(&options("allkeys-fifo", 4 << 20), now).expect("valid");
    (0..20_000).for_each(|i| assert!(put(&space, &format!("key:{i:012}"), 40)));
    space.set_policy("noeviction").expect("it exists");
    (0..4).for_each(|shard| {
        space.background_step(shard, now, 1, &mut vec![]);
    });
    let (before, mut i) = (space.counters().evicted_keys, 0);
    while put(&space, &format!("new:{i:012}"), 400) {
        i += 1;
        assert!(i < 100_000);
    }
    assert_eq!(space.counters().evicted_keys, before);
}

#[test]
fn a_flushed_database_is_freed_in_steps() {
    // Regression: all of it was dropped in one call.
    let now = Tick(1_700_000_000_000);
    let space = Keyspace::new(&options("noeviction", 0), now).expect("valid");
    (0..8_000).for_each(|i| assert!(put(&space, &format!("key:{i:012}"), 2_000)));
    space.lock_all(now).flush(0);
    assert_eq!(space.lock_all(now).len(0), 0);
    for shard in 0..4 {
        let mut turns = 1;
        while space.background_step(shard, now, 100, &mut vec![]) {
            turns += 1;
        }
        assert!((15..40).contains(&turns), "{turns} turns");
    }
    space.check();
}
