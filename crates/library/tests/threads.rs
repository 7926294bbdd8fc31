//! Many threads on one cache, checked against what one register per key permits.

mod support;

use mayfly::{Cache, Op, PolicySpec, Timer};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;
use support::{Census, Counted};

const KEYS: usize = 64;
/// Divisor of the number of rounds, which is greater under Miri because Miri is slow.
const FEWER: u64 = if cfg!(miri) { 100 } else { 1 };

/// Numbers of writes that have begun and ended, per key.
struct Register {
    begun: AtomicU64,
    ended: AtomicU64,
}

/// One writer per key replaces its value by ever greater numbers while others read. A read must
/// return a number that was current at some moment of the read: at least the last number completely
/// written when it began, and at most the last one begun when it ended. No thread's reads may go
/// back.
fn reads_are_linearizable(policy: &str, grows: bool) {
    let capacity = 1 << 20;
    let mut builder = Cache::builder(capacity).policy_named(policy).shards(2);
    if grows {
        // The table starts small, and other keys make it grow during the reads.
        builder = builder
            .weigher(|_: &u64, _: &Arc<u64>| 1)
            .expected_entries(1);
    } else {
        builder = builder.expected_entries(10_000);
    }
    let cache = builder.build().expect("the settings are valid");
    let registers: Arc<Vec<Register>> = Arc::new(
        (0..KEYS)
            .map(|_| Register {
                begun: AtomicU64::new(0),
                ended: AtomicU64::new(0),
            })
            .collect(),
    );
    for key in 0..KEYS as u64 {
        cache.insert(key, Arc::new(0));
    }
    let (done, start) = (Arc::new(AtomicBool::new(false)), Arc::new(Barrier::new(4)));
    let writers: Vec<_> = (0..2)
        .map(|writer| {
            let (cache, registers, start) = (cache.clone(), registers.clone(), start.clone());
            thread::spawn(move || {
                start.wait();
                for number in 1..1_500 / FEWER {
                    for key in (writer..KEYS).step_by(2) {
                        registers[key].begun.store(number, SeqCst);
                        cache.insert(key as u64, Arc::new(number));
                        registers[key].ended.store(number, SeqCst);
                    }
                    // Other keys, which make tables grow.
                    let other = 1_000 + number * 2 + writer as u64;
                    cache.insert(other, Arc::new(other));
                }
            })
        })
        .collect();
    let readers: Vec<_> = (0..2)
        .map(|reader| {
            let (cache, registers, start) = (cache.clone(), registers.clone(), start.clone());
            let done = done.clone();
            thread::spawn(move || {
                start.wait();
                let mut last = vec![0; KEYS];
                let mut at = reader;
                while !done.load(SeqCst) {
                    at = (at * 5 + 1) % KEYS;
                    let least = registers[at].ended.load(SeqCst);
                    let value = cache.get(&(at as u64)).expect("the key is never absent");
                    let most = registers[at].begun.load(SeqCst);
                    assert!(
                        (least..=most).contains(&value),
                        "{least} <= {value} <= {most}"
                    );
                    assert!(*value >= last[at], "a read went back");
                    last[at] = *value;
                }
            })
        })
        .collect();
    writers
        .into_iter()
        .for_each(|thread| thread.join().expect("a writer panicked"));
    done.store(true, SeqCst);
    readers
        .into_iter()
        .for_each(|thread| thread.join().expect("a reader panicked"));
    cache.check();
}

#[test]
fn reads_are_linearizable_under_lazy_promotion() {
    reads_are_linearizable("s3fifo", false);
}

#[test]
fn reads_are_linearizable_while_the_table_grows() {
    reads_are_linearizable("sieve", true);
}

#[test]
fn reads_are_linearizable_with_buffered_hits() {
    reads_are_linearizable("lru", true);
}

#[test]
fn computations_of_several_threads_are_one_step_each() {
    let cache: Cache<u64, u64> = Cache::new(100);
    let rounds = 2_000 / FEWER;
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let cache = cache.clone();
            thread::spawn(move || {
                for round in 0..rounds {
                    let add = |present: Option<&u64>| Op::Put(present.map_or(1, |sum| sum + 1));
                    assert!(cache.compute(1, add));
                    cache.entry(2).and_modify(|sum| sum + 1).or_insert(0);
                    // An entry that comes and goes: each removal follows one insertion.
                    cache.compute(3, |present| match present {
                        Some(_) => Op::Remove,
                        None => Op::Put(round),
                    });
                }
            })
        })
        .collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().expect("no panic"));
    assert_eq!(cache.get(&1), Some(4 * rounds));
    // Those that found no entry stored 0 and added nothing.
    assert!(cache.get(&2).is_some_and(|sum| sum >= 4 * rounds - 4));
    assert_eq!(cache.get(&3), None, "the number of changes is even");
    let stats = cache.stats();
    assert_eq!(stats.removed, 2 * rounds);
}

#[test]
fn replaced_tables_are_freed_by_later_insertions() {
    // Regression: a cache that only inserts kept each table that a larger one had replaced.
    // With weights, the number of entries is not known before, so that the table begins small.
    let build = || {
        let settings = Cache::<u64, u64>::builder(100_000)
            .weigher(|_, _| 1)
            .shards(1)
            .timer(Timer::Manual);
        settings.build().expect("the settings are valid")
    };
    let (inserts_only, expires) = (build(), build());
    let next = AtomicU64::new(0);
    let insert = || {
        let key = next.fetch_add(1, SeqCst);
        inserts_only.insert(key, key);
        expires.insert(key, key);
    };
    (0..100_000).for_each(|_| insert());
    // Readers of all caches of the process delay the release, those of other tests too.
    let is_freed = (0..1_000_000).any(|_| {
        thread::yield_now();
        insert();
        expires.expire();
        let bytes = |cache: &Cache<u64, u64>| cache.stats().bytes;
        // The table replaced last takes 256 KiB; lists of slots may differ a little.
        bytes(&inserts_only).abs_diff(bytes(&expires)) < 64 << 10
    });
    assert!(is_freed, "a replaced table is kept");
}

/// Yields to other threads until `is_done`, at most for a bounded number of turns.
fn wait(what: &str, is_done: &dyn Fn() -> bool) {
    let mut turns = 0_u64;
    while !is_done() {
        thread::yield_now();
        turns += 1;
        assert!(turns < 100_000_000, "{what}");
    }
}

/// All operations by several threads on few keys; each value must be dropped exactly once.
fn values_are_dropped_once(policy: &PolicySpec) {
    let census = Census::default();
    let events = Arc::new(AtomicU64::new(0));
    let seen = events.clone();
    let cache: Cache<u64, Counted> = Cache::builder(200)
        .policy(policy.clone())
        .shards(2)
        .tti(Duration::from_millis(3))
        .listener(move |key: &u64, value: &Counted, _| {
            assert_eq!(*key, value.number >> 32);
            seen.fetch_add(1, SeqCst);
        })
        .build()
        .expect("the settings are valid");
    let threads: Vec<_> = (0..4u64)
        .map(|thread| {
            let (cache, census) = (cache.clone(), census.clone());
            thread::spawn(move || {
                let mut random = policy::parts::chance::Chance::new(thread);
                let mut inserted = 0;
                for number in 0..4_000 / FEWER {
                    let key = random.bits() % 300;
                    match random.bits() % 16 {
                        0..6 => {
                            cache.insert(key, census.value(key << 32 | number));
                            inserted += 1;
                        }
                        6 => {
                            cache.remove(&key);
                        }
                        7 => {
                            let ttl = Duration::from_millis(random.bits() % 3);
                            cache.insert_with_ttl(key, census.value(key << 32 | number), ttl);
                            inserted += 1;
                        }
                        8 => {
                            cache.expire();
                        }
                        9 if number % 500 == 0 => cache.clear(),
                        10 if number % 100 == 0 => cache.set_capacity(random.bits() % 200),
                        _ => {
                            let found = cache.get(&key);
                            assert!(found.is_none_or(|value| value.number >> 32 == key));
                        }
                    }
                }
                inserted
            })
        })
        .collect();
    let inserted: u64 = threads
        .into_iter()
        .map(|t| t.join().expect("no panic"))
        .sum();
    cache.check();
    cache.clear();
    // The timer may be reporting values that it has removed, or hold the cache for a moment.
    wait("each value is reported", &|| {
        events.load(SeqCst) == inserted
    });
    drop(cache);
    wait("no value leaks", &|| census.count() == 0);
    assert_eq!(events.load(SeqCst), inserted, "no value is reported twice");
}

#[test]
fn values_are_dropped_once_under_lazy_promotion() {
    values_are_dropped_once(&PolicySpec::default());
}

#[test]
fn values_are_dropped_once_with_buffered_hits() {
    values_are_dropped_once(&"w-tinylfu".parse().expect("a policy"));
    values_are_dropped_once(&"sampled-lru".parse().expect("a policy"));
}

#[test]
fn a_reader_in_a_closure_keeps_what_it_reads() {
    let census = Census::default();
    let cache: Cache<u64, Counted> = Cache::new(8);
    cache.insert(1, census.value(1));
    cache.read(&1, |value| {
        // Far more replacements than are retired in one batch.
        for number in 0..1_000 / FEWER.min(10) {
            cache.insert(1, census.value(2 + number));
        }
        cache.remove(&1);
        assert_eq!(value.number, 1);
    });
    // Readers of all caches of the process delay the release, those of other tests too.
    wait("afterwards nothing is kept", &|| {
        cache.expire();
        census.count() == 0
    });
}

/// Returns caches that values leave without any further operation.
fn idle_caches() -> Vec<(&'static str, Cache<u64, Counted>)> {
    let settings = [
        ("default", Cache::builder(1_000)),
        ("ttl", Cache::builder(1_000).ttl(Duration::from_secs(3_600))),
        ("without expiry", Cache::builder(1_000).without_expiry()),
        ("listener", Cache::builder(1_000).listener(|_, _, _| {})),
        ("lru", Cache::builder(100_000).policy_named("lru")),
    ];
    let built = settings.map(|(name, settings)| {
        let cache = settings.build();
        (name, cache.expect("the settings are valid"))
    });
    built.into()
}

#[test]
fn values_that_leave_are_dropped_though_nothing_else_leaves() {
    // Regression: a removed or replaced value was dropped with the 32nd of its shard, and never if
    // no other value left and no deadline was due.
    for (name, cache) in idle_caches() {
        let census = Census::default();
        for key in 0..10 {
            cache.insert(key, census.value(key));
        }
        cache.remove(&0);
        wait(name, &|| census.count() == 9);
        for key in 1..10 {
            cache.insert(key, census.value(key));
        }
        wait(name, &|| census.count() == 9);
        for key in 1..9 {
            assert!(cache.take(&key).is_some());
        }
        wait(name, &|| census.count() == 1);
        cache.compute(9, |_| Op::Remove);
        wait(name, &|| census.count() == 0);
    }
}

#[test]
fn a_value_that_leaves_while_a_thread_reads_is_dropped_when_the_reader_has_left() {
    let (census, other) = (Census::default(), Cache::new(10));
    other.insert(1, census.value(0));
    let (begun, may_end) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicBool::new(false)),
    );
    let reader = {
        let (begun, may_end) = (begun.clone(), may_end.clone());
        thread::spawn(move || {
            other.read(&1, |_| {
                begun.store(true, SeqCst);
                wait("the end", &|| may_end.load(SeqCst));
            });
        })
    };
    wait("the reader", &|| begun.load(SeqCst));
    let caches = idle_caches();
    for (_, cache) in &caches {
        cache.insert(1, census.value(1));
        cache.insert(1, census.value(2));
        cache.remove(&1);
        cache.expire();
    }
    let kept = 2 * caches.len() as i64;
    assert_eq!(census.count(), 1 + kept, "a reader may see each of them");
    may_end.store(true, SeqCst);
    reader.join().expect("no panic");
    wait("the values are dropped", &|| census.count() == 0);
}

#[test]
fn a_cache_without_a_timer_drops_values_when_it_is_called() {
    let census = Census::default();
    let cache: Cache<u64, Counted> = Cache::builder(100)
        .timer(Timer::Manual)
        .build()
        .expect("the settings are valid");
    for key in 0..5 {
        cache.insert(key, census.value(key));
        cache.remove(&key);
    }
    // Readers of other tests delay the drops.
    wait("the values are dropped", &|| {
        cache.expire();
        census.count() == 0
    });
}

#[test]
fn entries_that_stay_are_visited_once_while_the_table_grows() {
    let cache: Cache<u64, u64> = Cache::builder(1 << 20)
        .weigher(|_, _| 1)
        .expected_entries(1)
        .shards(1)
        .build()
        .expect("the settings are valid");
    let (stays, most) = if cfg!(miri) {
        (60, 600)
    } else {
        (1_000, 30_000)
    };
    for key in 0..stays {
        cache.insert(key, 0);
    }
    let mut visits = vec![0; stays as usize];
    let mut next = stays;
    cache.for_each(|key, _| {
        if let Some(count) = visits.get_mut(*key as usize) {
            *count += 1;
        }
        // The table doubles several times during the visit.
        for _ in 0..if next < most { 40 } else { 0 } {
            cache.insert(next, 0);
            next += 1;
        }
    });
    assert!(next >= most);
    assert_eq!(visits, vec![1; stays as usize]);
    cache.check();
    assert_eq!(cache.invalidate_if(|key, _| *key % 2 == 0), cache.len());
}
