//! The cache against the plainest model: a map that follows the removal listener.
//!
//! The policy chooses which entries are evicted, so the model is notified of them. It predicts
//! everything else: which values are returned, when they expire, the cause of each removal, and
//! that every stored value is reported once.

mod support;

use mayfly::{Cache, Cause, Clock, ManualClock, Op, PolicySpec};
use policy::any::POLICIES;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{Census, Counted};

type Events = Arc<Mutex<Vec<(u8, u64, Cause)>>>;

/// An entry of the model: the number of its value, and its deadline in ms since the start.
type Stored = (u64, Option<u64>);

struct Trial {
    cache: Cache<u8, Counted>,
    clock: ManualClock,
    now: u64,
    stored: BTreeMap<u8, Stored>,
    events: Events,
    census: Census,
    numbers: u64,
    ttl: Option<u64>,
    is_weighed: bool,
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

impl Trial {
    fn new(
        policy: &PolicySpec,
        capacity: u64,
        shards: usize,
        ttl: Option<u64>,
        is_weighed: bool,
    ) -> Self {
        let (clock, events) = (ManualClock::new(), Events::default());
        let sink = events.clone();
        let mut builder = Cache::builder(capacity)
            .policy(policy.clone())
            .shards(shards)
            .clock(Clock::Manual(clock.clone()))
            .listener(move |key: &u8, value: &Counted, cause| {
                sink.lock()
                    .expect("no panic")
                    .push((*key, value.number, cause));
            });
        if is_weighed {
            builder = builder.weigher(|key, _| u32::from(*key % 4));
        }
        if let Some(ttl) = ttl {
            builder = builder.ttl(ms(ttl));
        }
        Trial {
            cache: builder.build().expect("the settings are valid"),
            clock,
            now: 0,
            stored: BTreeMap::new(),
            events,
            census: Census::default(),
            numbers: 0,
            ttl,
            is_weighed,
        }
    }

    fn live(&self, key: u8) -> Option<u64> {
        let (number, deadline) = self.stored.get(&key)?;
        deadline
            .is_none_or(|deadline| self.now <= deadline)
            .then_some(*number)
    }

    /// Applies the listener's events. `removed` and `replaced` say which key may leave for that
    /// reason.
    fn follow(
        &mut self,
        removed: Option<u8>,
        replaced: Option<u8>,
        inserted: Option<(u8, Stored)>,
    ) {
        let events = std::mem::take(&mut *self.events.lock().expect("no panic"));
        let mut inserted = inserted;
        for (key, number, cause) in events {
            let own = inserted.is_some_and(|(_, (new, _))| new == number);
            let (stored, deadline) = match self.stored.get(&key) {
                Some(entry) if !own => *entry,
                _ => {
                    let (_, entry) = inserted.take().expect("only stored values leave");
                    // The new value itself was rejected, evicted or dead.
                    assert_ne!(cause, Cause::Replaced);
                    entry
                }
            };
            assert_eq!(stored, number, "key {key} left with another value");
            let is_dead = deadline.is_some_and(|deadline| deadline < self.now);
            match cause {
                Cause::Expired => assert!(is_dead, "key {key} expired early"),
                Cause::Evicted => {}
                Cause::Removed => assert_eq!((removed, is_dead), (Some(key), false)),
                Cause::Replaced => assert_eq!((replaced, is_dead), (Some(key), false)),
            }
            if !own {
                self.stored.remove(&key);
            }
        }
        if let Some((key, entry)) = inserted {
            let before = self.stored.insert(key, entry);
            assert_eq!(before, None, "a replaced value is reported");
        }
    }

    fn insert(&mut self, key: u8, ttl: Option<u64>) {
        self.numbers += 1;
        let value = self.census.value(self.numbers);
        let ttl = match ttl {
            Some(ttl) => {
                self.cache.insert_with_ttl(key, value, ms(ttl));
                Some(ttl)
            }
            None => {
                self.cache.insert(key, value);
                self.ttl
            }
        };
        let deadline = self.deadline(ttl);
        self.follow(None, Some(key), Some((key, (self.numbers, deadline))));
    }

    fn deadline(&self, ttl: Option<u64>) -> Option<u64> {
        // After no time at all an entry is dead at once. The model's time is shifted by one, so
        // that the instant before the first one can be written.
        ttl.map(|ttl| {
            if ttl == 0 {
                self.now - 1
            } else {
                self.now + ttl
            }
        })
    }

    fn step(&mut self, kind: u8, key: u8, number: u16) {
        let ttl = [0, 1, 5, 50, 5_000, u64::MAX / 4][number as usize % 6];
        match kind {
            0..20 => self.insert(key, None),
            20..35 => self.insert(key, Some(ttl)),
            35..60 => {
                let found = self.cache.get(&key).map(|value| value.number);
                assert_eq!(found, self.live(key));
            }
            60..64 => {
                let found = self.cache.peek(&key).map(|value| value.number);
                assert_eq!(found, self.live(key));
                assert_eq!(self.cache.contains_key(&key), found.is_some());
            }
            64..70 => {
                let was_live = self.live(key).is_some();
                assert_eq!(self.cache.remove(&key), was_live);
                self.follow(Some(key), None, None);
            }
            70..74 => self.set_ttl(key, (!number.is_multiple_of(5)).then_some(ttl.max(1))),
            74..84 => {
                self.now += u64::from(number % 97);
                self.clock.advance(ms(u64::from(number % 97)));
            }
            84..86 => {
                self.now = 1 + u64::from(number);
                self.clock.set(ms(u64::from(number)));
            }
            86..92 => {
                self.cache.expire();
                self.follow(None, None, None);
                let is_dead = |(_, deadline): &Stored| deadline.is_some_and(|at| at < self.now);
                assert!(!self.stored.values().any(is_dead), "expired entries leave");
            }
            92..94 => {
                let expected = self.live(key);
                self.numbers += 1;
                let value = self.census.value(self.numbers);
                let put = !number.is_multiple_of(3);
                let changed = self.cache.compute(key, |present| {
                    assert_eq!(present.map(|value| value.number), expected);
                    if put {
                        Op::Put(value.clone())
                    } else {
                        Op::Remove
                    }
                });
                assert_eq!(changed, put || expected.is_some());
                let new = (key, (self.numbers, self.deadline(self.ttl)));
                self.follow(
                    (!put).then_some(key),
                    put.then_some(key),
                    put.then_some(new),
                );
            }
            94..96 => {
                let expected: Vec<_> = [key, key ^ 1].map(|key| self.live(key)).into();
                let found = self.cache.get_many([&key, &(key ^ 1)]);
                let found: Vec<_> = found.iter().map(|v| v.as_ref().map(|v| v.number)).collect();
                assert_eq!(found, expected);
            }
            96..98 => {
                let mut seen = BTreeMap::new();
                self.cache.for_each(|key, value| {
                    assert_eq!(
                        seen.insert(*key, value.number),
                        None,
                        "an entry is seen once"
                    );
                });
                let live = self
                    .stored
                    .keys()
                    .filter_map(|key| Some((*key, self.live(*key)?)));
                assert_eq!(seen, live.collect());
            }
            _ => {
                self.cache.set_capacity(u64::from(number % 300));
                self.follow(None, None, None);
            }
        }
        assert_eq!(self.cache.len(), self.stored.len());
        assert!(self.cache.stats().weight <= self.cache.capacity());
        if !self.is_weighed {
            assert!(self.cache.len() as u64 <= self.cache.capacity());
        }
    }

    fn set_ttl(&mut self, key: u8, ttl: Option<u64>) {
        let is_live = self.live(key).is_some();
        assert_eq!(self.cache.set_ttl(&key, ttl.map(ms)), is_live);
        if is_live {
            let deadline = self.deadline(ttl);
            self.stored.get_mut(&key).expect("it is live").1 = deadline;
            let left = self.cache.time_to_live(&key);
            let expected = deadline.map(|deadline| ms(deadline - self.now));
            // The latest deadline is bounded.
            assert!(
                left == expected || ttl > Some(1 << 48),
                "{left:?} {expected:?}"
            );
        }
    }
}

fn run(policy: &PolicySpec, steps: &[(u8, u8, u16)], capacity: u64, shape: u8) {
    let ttl = [None, Some(20), Some(1_000)][shape as usize % 3];
    let shards = 1 + shape as usize / 3 % 3;
    let mut trial = Trial::new(policy, capacity, shards, ttl, shape % 2 == 1);
    trial.now = 1;
    for &(kind, key, number) in steps {
        trial.step(kind, key, number);
    }
    trial.cache.check();
    let census = trial.census.clone();
    drop(trial);
    assert_eq!(census.count(), 0, "{} values leak", census.count());
}

/// Returns the policies that the number of random histories covers.
fn served() -> Vec<PolicySpec> {
    let served = POLICIES.iter().filter(|about| about.meta_bits.is_some());
    let specs = served.map(|about| about.name.parse().expect("a name is a specification"));
    specs.collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn every_policy_behaves_as_the_model(
        steps in prop::collection::vec((0..99_u8, any::<u8>(), any::<u16>()), 0..600),
        capacity in 0..200_u64,
        shape in 0..18_u8,
    ) {
        for policy in served() {
            run(&policy, &steps, capacity, shape);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn the_default_policy_behaves_as_the_model(
        steps in prop::collection::vec((0..99_u8, any::<u8>(), any::<u16>()), 0..1_500),
        capacity in 0..300_u64,
        shape in 0..18_u8,
    ) {
        run(&PolicySpec::default(), &steps, capacity, shape);
    }
}
