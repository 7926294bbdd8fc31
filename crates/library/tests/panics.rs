//! Panics of the caller's code, and calls back into the cache.

mod support;

use mayfly::{Cache, Cause, Clock, ManualClock, Op};
use std::cell::Cell;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use support::{Census, Counted};

thread_local! {
    /// The part that panics next, and the number of calls until then; 0 for never.
    static FUSE: Cell<(Part, u32)> = const { Cell::new((Part::Nothing, 0)) };
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Nothing,
    Hash,
    Eq,
    Drop,
    Clone,
    Weigher,
    Listener,
    Decide,
}

fn reach(part: Part) {
    let (wanted, left) = FUSE.get();
    if wanted == part && left > 0 {
        FUSE.set((wanted, left - 1));
        if left == 1 && !std::thread::panicking() {
            std::panic::panic_any(part);
        }
    }
}

/// A key or value that may panic in any of its methods.
struct Brittle {
    counted: Counted,
}

impl Hash for Brittle {
    fn hash<H: Hasher>(&self, state: &mut H) {
        reach(Part::Hash);
        self.counted.number.hash(state);
    }
}
impl PartialEq for Brittle {
    fn eq(&self, other: &Self) -> bool {
        reach(Part::Eq);
        self.counted.number == other.counted.number
    }
}
impl Eq for Brittle {}
impl Drop for Brittle {
    fn drop(&mut self) {
        reach(Part::Drop);
    }
}
impl Clone for Brittle {
    fn clone(&self) -> Self {
        reach(Part::Clone);
        Brittle {
            counted: self.counted.clone(),
        }
    }
}

#[test]
fn a_panic_anywhere_leaves_the_cache_whole() {
    std::panic::set_hook(Box::new(|_| {}));
    for part in [
        Part::Hash,
        Part::Eq,
        Part::Drop,
        Part::Clone,
        Part::Weigher,
        Part::Listener,
        Part::Decide,
    ] {
        // Miri interprets, some thousand times as slowly.
        for policy in &["s3fifo", "lru", "w-tinylfu"][..if cfg!(miri) { 1 } else { 3 }] {
            let (census, clock) = (Census::default(), ManualClock::new());
            let cache: Cache<Brittle, Brittle> = Cache::builder(60)
                .policy_named(policy)
                .shards(1)
                .expected_entries(1)
                .weigher(|_, _| {
                    reach(Part::Weigher);
                    1
                })
                .clock(Clock::Manual(clock.clone()))
                .ttl(Duration::from_millis(40))
                .listener(|_, _, _| reach(Part::Listener))
                .build()
                .expect("the settings are valid");
            let brittle = |number| Brittle {
                counted: census.value(number),
            };
            let mut panics = 0;
            for round in 0..if cfg!(miri) { 24 } else { 600_u64 } {
                FUSE.set((part, 1 + round as u32 % 7));
                let act = || match round % 6 {
                    0 | 1 => cache.insert(brittle(round % 90), brittle(round)),
                    2 => drop(cache.get(&brittle(round % 90))),
                    3 => drop(cache.remove(&brittle(round % 90))),
                    4 => {
                        cache.compute(brittle(round % 90), |_| {
                            reach(Part::Decide);
                            Op::Put(brittle(round))
                        });
                    }
                    _ => {
                        clock.advance(Duration::from_millis(1));
                        cache.expire();
                    }
                };
                panics += u32::from(catch_unwind(AssertUnwindSafe(act)).is_err());
                FUSE.set((Part::Nothing, 0));
                cache.check();
            }
            assert!(
                panics > 10 || cfg!(miri),
                "{part:?} panicked {panics} times"
            );
            drop(cache);
            assert_eq!(census.count(), 0, "{part:?}: {} leak", census.count());
        }
    }
    drop(std::panic::take_hook());
}

#[test]
fn a_panic_of_hash_during_growth_loses_no_expired_entry() {
    // Regression: an insertion removed due entries and then moved entries to the larger table. A
    // panic of `Hash` there left the removed ones unreported and their memory lost.
    let (census, clock) = (Census::default(), ManualClock::new());
    let reported = Arc::new(AtomicU64::new(0));
    let count = reported.clone();
    let cache: Cache<Brittle, Brittle> = Cache::builder(1 << 20)
        .weigher(|_, _| 1)
        .expected_entries(1)
        .shards(1)
        .clock(Clock::Manual(clock.clone()))
        .listener(move |_, _, cause| {
            count.fetch_add(u64::from(cause == Cause::Expired), SeqCst);
        })
        .build()
        .expect("the settings are valid");
    let brittle = |number| Brittle {
        counted: census.value(number),
    };
    let (mut panics, mut mortal) = (0, 0);
    for number in 0..if cfg!(miri) { 60 } else { 4_000_u64 } {
        // The first call is that for the new key, the next ones are those for keys that move.
        FUSE.set((Part::Hash, 2 + number as u32 % 3));
        let ttl = Duration::from_millis(if number % 3 == 0 { 1 << 40 } else { 2 });
        let insert = || cache.insert_with_ttl(brittle(number), brittle(number), ttl);
        match catch_unwind(AssertUnwindSafe(insert)) {
            Ok(()) => mortal += u64::from(number % 3 != 0),
            Err(_) => panics += 1,
        }
        FUSE.set((Part::Nothing, 0));
        clock.advance(Duration::from_millis(1));
    }
    assert!(panics > 0, "no panic during a growth");
    clock.advance(Duration::from_secs(1));
    cache.expire();
    cache.check();
    assert_eq!(reported.load(SeqCst), mortal, "{panics} panics");
    drop(cache);
    assert_eq!(census.count(), 0);
}

#[test]
fn a_listener_may_use_the_cache() {
    let own: Arc<OnceLock<Cache<u32, u32>>> = Arc::default();
    let (inner, calls) = (own.clone(), Arc::new(AtomicU64::new(0)));
    let count = calls.clone();
    let cache = Cache::builder(10)
        .shards(1)
        .listener(move |key: &u32, _: &u32, cause| {
            count.fetch_add(1, SeqCst);
            if let Some(cache) = inner.get()
                && cause == Cause::Evicted
                && *key < 1_000
            {
                assert!(!cache.contains_key(key));
                cache.insert(key + 1_000, 0);
                cache.remove(&(key + 1_000));
                cache.len();
            }
        })
        .build()
        .expect("the settings are valid");
    own.set(cache.clone()).expect("it is set once");
    for key in 0..100 {
        cache.insert(key, key);
    }
    assert!(calls.load(SeqCst) >= 90 * 2);
    cache.check();
}

#[test]
fn loaders_weighers_and_closures_may_use_the_cache() {
    let own: Arc<OnceLock<Cache<u32, u32>>> = Arc::default();
    let inner = own.clone();
    let cache = Cache::builder(1_000)
        .weigher(move |key: &u32, _: &u32| {
            // A weigher that looks into the cache.
            inner
                .get()
                .map_or(1, |cache| 1 + u32::from(cache.contains_key(&(key + 1))))
        })
        .build()
        .expect("the settings are valid");
    own.set(cache.clone()).expect("it is set once");
    let value = cache.get_with(1, || cache.get_with(2, || cache.get_with(3, || 7) + 1) + 1);
    assert_eq!(value, 9);
    cache.read(&1, |value| {
        cache.insert(1, value + 1);
        cache.invalidate_if(|key, _| *key == 2);
    });
    assert_eq!((cache.get(&1), cache.get(&2)), (Some(10), None));
    cache.compute(1, |present| {
        // The entry changes under the closure once, so that it runs again.
        if present == Some(&10) {
            cache.insert(1, 20);
        }
        Op::Put(present.copied().unwrap_or(0) + 1)
    });
    assert_eq!(cache.get(&1), Some(21));
}

/// Returns a cache of 100 entries whose listener inserts evicted entries into another cache, or
/// into the same one.
fn returning(own: &Arc<OnceLock<Cache<u32, u32>>>, calls: &Arc<AtomicU64>) -> Cache<u32, u32> {
    let (target, calls) = (own.clone(), calls.clone());
    let listener = move |key: &u32, value: &u32, cause| {
        calls.fetch_add(1, SeqCst);
        if let (Some(cache), Cause::Evicted) = (target.get(), cause) {
            cache.insert(*key, *value);
        }
    };
    let builder = Cache::builder(100).listener(listener);
    builder.build().expect("the settings are valid")
}

#[test]
fn a_listener_that_puts_evicted_entries_back_neither_recurs_nor_goes_on_for_ever() {
    // Regression: each insertion of the listener evicted another entry, whose listener was called
    // within, until the stack overflowed.
    let (own, calls) = (Arc::default(), Arc::default());
    let cache = returning(&own, &calls);
    own.set(cache.clone()).expect("it is set once");
    for key in 0..200 {
        cache.insert(key, key);
    }
    assert_eq!(cache.len(), 100);
    let stats = cache.stats();
    let left = stats.inserted + stats.rejected - stats.len;
    assert_eq!(calls.load(SeqCst) + stats.unreported, left);
    assert_eq!(stats.unreported, 100, "one for each chain");
    assert_eq!(calls.load(SeqCst), 100 * 101);
    cache.check();
}

#[test]
fn listeners_that_insert_into_each_others_caches_do_not_recur() {
    let (first_own, second_own, calls) = (Arc::default(), Arc::default(), Arc::default());
    let first = returning(&second_own, &calls);
    let second = returning(&first_own, &calls);
    first_own.set(first.clone()).expect("it is set once");
    second_own.set(second.clone()).expect("it is set once");
    for key in 0..1_000 {
        first.insert(key, key);
    }
    assert_eq!((first.len(), second.len()), (100, 100));
    assert!(calls.load(SeqCst) > 800);
}

#[test]
fn entries_that_leave_by_calls_of_a_listener_are_reported() {
    // Each entry that is removed takes its neighbour with it, which is reported, too.
    let own: Arc<OnceLock<Cache<u32, u32>>> = Arc::default();
    let (inner, calls) = (own.clone(), Arc::new(AtomicU64::new(0)));
    let count = calls.clone();
    let cache = Cache::builder(10_000)
        .listener(move |key: &u32, _: &u32, _| {
            count.fetch_add(1, SeqCst);
            if let Some(cache) = inner.get() {
                cache.remove(&(key ^ 1));
            }
        })
        .build()
        .expect("the settings are valid");
    own.set(cache.clone()).expect("it is set once");
    (0..1_000).for_each(|key| cache.insert(key, key));
    cache.remove(&0);
    assert_eq!((cache.len(), calls.load(SeqCst)), (998, 2));
    cache.invalidate_if(|key, _| key % 2 == 0);
    assert_eq!((cache.len(), calls.load(SeqCst)), (0, 1_000));
    assert_eq!(cache.stats().unreported, 0);
}

#[test]
fn a_chain_of_destructors_needs_no_stack() {
    // Each value removes the next one when it is dropped.
    struct Link(u32, Arc<OnceLock<Cache<u32, Arc<Link>>>>);
    impl Drop for Link {
        fn drop(&mut self) {
            if let Some(cache) = self.1.get() {
                cache.remove(&(self.0 + 1));
            }
        }
    }
    let own: Arc<OnceLock<Cache<u32, Arc<Link>>>> = Arc::default();
    let most = if cfg!(miri) { 200 } else { 50_000 };
    let cache = Cache::builder(100_000)
        .shards(1)
        .build()
        .expect("the settings are valid");
    own.set(cache.clone()).expect("it is set once");
    (0..most).for_each(|key| cache.insert(key, Arc::new(Link(key, own.clone()))));
    cache.remove(&0);
    // Readers of other tests delay the drops.
    let mut turns = 0_u64;
    while !cache.is_empty() {
        cache.expire();
        std::thread::yield_now();
        turns += 1;
        assert!(turns < 100_000_000, "values are kept");
    }
}
