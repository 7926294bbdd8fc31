//! Settings at their limits, keys that break their contracts, and threads that come and go.

mod support;

use mayfly::{Cache, CacheBuilder, Clock, ManualClock};
use policy::any::POLICIES;
use policy::parts::chance::Chance;
use std::cell::RefCell;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::Duration;
use support::{Census, Counted};

const MS: Duration = Duration::from_millis(1);

fn pick<T: Copy>(random: &mut Chance, from: &[T]) -> T {
    from[random.bits() as usize % from.len()]
}

fn extreme_operations(cache: &Cache<u64, u64>, clock: &ManualClock, capacity: u64, seed: u64) {
    let mut random = Chance::new(seed);
    for number in 0..300 {
        let key = random.bits() % 60;
        let weight = pick(&mut random, &[0, 1, 2, 5, u64::from(u32::MAX)]);
        match random.bits() % 10 {
            0..4 => cache.insert(key, weight),
            4 => {
                let ttl = pick(&mut random, &[Duration::ZERO, Duration::MAX, MS, 77 * MS]);
                cache.insert_with_ttl(key, weight, ttl);
            }
            5 => _ = cache.remove(&key),
            6 => {
                let times = [Duration::ZERO, Duration::MAX, 3_000 * MS, number * MS];
                clock.set(pick(&mut random, &times));
                cache.expire();
            }
            7 if number % 9 == 0 => {
                cache.set_capacity(pick(&mut random, &[0, 1, 5, u64::MAX, 1 << 40, capacity]));
            }
            _ => _ = cache.get(&key),
        }
    }
    cache.check();
    cache.clear();
    assert_eq!(cache.len(), 0);
}

#[test]
fn every_policy_accepts_any_capacity_weight_and_time() {
    // Regression: twice a capacity of u64::MAX exceeded its type in CAR, CART and ARC.
    for about in POLICIES.iter().filter(|about| about.meta_bits.is_some()) {
        let most = if cfg!(miri) { 1 } else { 8 };
        let capacities = [u64::MAX, 0, 1, 2, 17, u64::from(u32::MAX), u64::MAX / 2, 3];
        for capacity in &capacities[..most] {
            let clock = ManualClock::new();
            let builder: CacheBuilder<u64, u64> = Cache::builder(*capacity)
                .policy_named(about.name)
                .shards(1 + *capacity as usize % 7)
                .weigher(|_, weight| *weight as u32)
                .clock(Clock::Manual(clock.clone()));
            let cache = builder.build().expect("the settings are valid");
            extreme_operations(&cache, &clock, *capacity, *capacity ^ 7);
        }
    }
}

#[test]
fn an_entry_may_weigh_as_much_as_the_capacity() {
    // Regression: with a weigher there were four shards per processor, and an entry heavier than
    // the part of one was not stored: none of 200 KiB in a cache of 1 MiB on two processors.
    let kib = 1 << 10;
    let mib = kib << 10;
    for expected in [None, Some(10), Some(100_000)] {
        for (capacity, weight, fit) in [
            (mib, 200 * kib, 5),
            (mib, mib, 1),
            (64 * mib, 9 * mib, 7),
            (64 * mib, 64 * mib, 1),
            (1 << 40, u32::MAX.into(), 256),
        ] {
            let mut builder: CacheBuilder<u64, u64> =
                Cache::builder(capacity).weigher(move |_, _| weight as u32);
            if let Some(expected) = expected {
                builder = builder.expected_entries(expected);
            }
            let cache = builder.build().expect("the settings are valid");
            for key in 0..fit {
                cache.insert(key, key);
            }
            assert_eq!(cache.len() as u64, fit, "{weight} of {capacity}");
            cache.insert(fit, fit);
            let least = fit.min(capacity / weight);
            assert!(cache.len() as u64 >= least, "{weight} of {capacity}");
            assert_eq!(cache.stats().rejected, 0);
        }
    }
}

#[test]
fn entries_that_are_too_heavy_are_counted_and_reported() {
    let reported = Arc::new(AtomicU64::new(0));
    let sum = reported.clone();
    let cache: Cache<u64, u64> = Cache::builder(100)
        .weigher(|_, weight| *weight as u32)
        .shards(4)
        .listener(move |_, weight, _| _ = sum.fetch_add(*weight, SeqCst))
        .build()
        .expect("the settings are valid");
    cache.insert(1, 25);
    cache.insert(1, 26);
    assert_eq!(cache.get(&1), None, "the older value does not stay");
    assert_eq!(reported.load(SeqCst), 51);
    let stats = cache.stats();
    assert_eq!((stats.too_heavy, stats.rejected, stats.len), (1, 1, 0));
}

thread_local! {
    static WHIM: RefCell<Chance> = RefCell::new(Chance::new(5));
}

fn whim() -> u64 {
    WHIM.with_borrow_mut(|chance| chance.bits())
}

/// A key whose hash and equality change from call to call.
struct Fickle(Counted);

impl Hash for Fickle {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.0.number % 3 + whim() % 7).hash(state);
    }
}
impl PartialEq for Fickle {
    fn eq(&self, other: &Self) -> bool {
        whim().is_multiple_of(3) || self.0.number == other.0.number
    }
}
impl Eq for Fickle {}

#[test]
fn keys_that_break_their_contracts_lose_entries_and_nothing_else() {
    let (clock, census) = (ManualClock::new(), Census::default());
    let reported = Arc::new(AtomicU64::new(0));
    let count = reported.clone();
    let cache: Cache<Fickle, Counted> = Cache::builder(500)
        .weigher(|_, value: &Counted| (value.number % 9) as u32)
        .shards(2)
        .clock(Clock::Manual(clock.clone()))
        .listener(move |_, _, _| _ = count.fetch_add(1, SeqCst))
        .build()
        .expect("the settings are valid");
    let mut random = Chance::new(11);
    let mut inserted = 0;
    for number in 0..if cfg!(miri) { 300 } else { 20_000 } {
        let key = Fickle(census.value(random.bits() % 300));
        match random.bits() % 8 {
            0..4 => {
                cache.insert(key, census.value(number));
                inserted += 1;
            }
            4 => {
                cache.insert_with_ttl(key, census.value(number), (random.bits() % 50) as u32 * MS);
                inserted += 1;
            }
            5 => _ = cache.remove(&key),
            6 => _ = cache.get(&key),
            _ => {
                clock.advance((random.bits() % 3) as u32 * MS);
                cache.expire();
                if number % 700 == 0 {
                    cache.set_capacity(random.bits() % 900);
                    cache.invalidate_if(|_, _| whim().is_multiple_of(2));
                }
            }
        }
    }
    assert_eq!(reported.load(SeqCst), inserted - cache.len() as u64);
    drop(cache);
    assert_eq!(census.count(), 0, "no value leaks or is dropped twice");
}

#[test]
fn threads_that_come_and_go_leave_nothing_behind() {
    let census = Census::default();
    let cache: Cache<u64, Counted> = Cache::builder(500)
        .tti(3 * MS)
        .build()
        .expect("the settings are valid");
    let (rounds, at_once) = if cfg!(miri) { (2, 4) } else { (20, 60) };
    for round in 0..rounds {
        let threads = (0..at_once).map(|thread| {
            let (cache, census) = (cache.clone(), census.clone());
            thread::spawn(move || {
                for number in 0..20 {
                    let key = (thread * 31 + number * 7 + round) % 700;
                    if cache.get(&key).is_none() {
                        cache.insert(key, census.value(key));
                    }
                    if number % 9 == 0 {
                        cache.remove(&key);
                    }
                }
            })
        });
        let threads: Vec<_> = threads.collect();
        for thread in threads {
            thread.join().expect("no panic");
        }
    }
    cache.check();
    cache.clear();
    assert!(cache.is_empty());
    drop(cache);
    let mut turns = 0_u64;
    // The timer may hold the cache for a moment.
    while census.count() > 0 {
        thread::yield_now();
        turns += 1;
        assert!(turns < 100_000_000, "values leak");
    }
}
