//! Lifetimes: times to live and to idle, hooks, jitter, timers, and clocks that misbehave.

use mayfly::{BuildError, Cache, CacheBuilder, Cause, Clock, Expiry, ManualClock, Timer};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);

fn built<K, V>(builder: CacheBuilder<K, V>) -> Cache<K, V>
where
    K: std::hash::Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    builder.build().expect("the settings are valid")
}

fn manual(capacity: u64) -> (CacheBuilder<u32, u32>, ManualClock) {
    let clock = ManualClock::new();
    (
        Cache::builder(capacity).clock(Clock::Manual(clock.clone())),
        clock,
    )
}

#[test]
fn an_idle_time_starts_again_with_each_read() {
    let (builder, clock) = manual(100);
    let cache = built(builder.tti(1_000 * MS));
    cache.insert(1, 1);
    for _ in 0..10 {
        clock.advance(1_000 * MS);
        cache.expire();
        assert_eq!(cache.get(&1), Some(1), "it is read within its idle time");
    }
    clock.advance(900 * MS);
    assert_eq!(cache.peek(&1), Some(1), "a peek extends nothing");
    clock.advance(117 * MS);
    assert_eq!(cache.get(&1), None, "a 64th later it is gone");
    assert_eq!(cache.expire(), 1);
}

#[test]
fn the_earlier_of_both_times_ends_an_entry() {
    let (builder, clock) = manual(100);
    let cache = built(builder.tti(100 * MS).ttl(250 * MS));
    cache.insert(1, 1);
    cache.insert(2, 2);
    for _ in 0..2 {
        clock.advance(100 * MS);
        assert_eq!(cache.get(&1), Some(1));
    }
    assert_eq!(cache.get(&2), None, "it was idle");
    clock.advance(51 * MS);
    assert_eq!(cache.get(&1), None, "reads do not extend the TTL");
    cache.insert_with_ttl(3, 3, 1_000 * MS);
    assert!(cache.set_ttl(&3, Some(150 * MS)));
    clock.advance(100 * MS);
    assert_eq!(cache.get(&3), Some(3));
    clock.advance(51 * MS);
    assert_eq!(cache.get(&3), None, "a TTL that was changed ends it, too");
    cache.expire();
    assert!(cache.is_empty());
    cache.check();
}

#[test]
fn entries_that_are_read_all_the_time_cost_the_index_nothing() {
    let (builder, clock) = manual(10_000);
    let cache = built(builder.tti(100 * MS));
    (0..1_000).for_each(|key| cache.insert(key, key));
    for _ in 0..100 {
        clock.advance(50 * MS);
        (0..1_000).for_each(|key| assert_eq!(cache.get(&key), Some(key)));
        assert_eq!(cache.expire(), 0);
        cache.check();
    }
    clock.advance(102 * MS);
    assert_eq!(cache.expire(), 1_000);
}

/// Hook with lifetimes by value; reads halve the lifetime of odd keys and double that of even ones.
struct ByValue;

impl Expiry<u32, u32> for ByValue {
    fn after_insert(&self, _: &u32, value: &u32, ttl: Option<Duration>) -> Option<Duration> {
        ttl.or((*value > 0).then(|| *value * MS))
    }
    fn after_update(
        &self,
        _: &u32,
        value: &u32,
        _: Option<Duration>,
        remaining: Option<Duration>,
    ) -> Option<Duration> {
        remaining.map(|remaining| remaining + *value * MS)
    }
    fn has_reads(&self) -> bool {
        true
    }
    fn after_read(&self, key: &u32, _: &u32, remaining: Option<Duration>) -> Option<Duration> {
        match key {
            0 => None,
            1 => Some(remaining? / 2),
            2 => Some(remaining? * 2),
            _ => remaining,
        }
    }
}

#[test]
fn a_hook_decides_at_insertion_update_and_read() {
    let (builder, clock) = manual(100);
    let cache = built(builder.expiry(ByValue));
    for key in 0..4 {
        cache.insert(key, 100);
        assert_eq!(cache.time_to_live(&key), Some(100 * MS));
    }
    cache.insert(9, 0);
    assert_eq!(cache.time_to_live(&9), None);
    cache.insert_with_ttl(8, 0, 7 * MS);
    assert_eq!(cache.time_to_live(&8), Some(7 * MS));
    for key in 0..4 {
        cache.get(&key);
    }
    let times: Vec<_> = (0..4).map(|key| cache.time_to_live(&key)).collect();
    assert_eq!(times, [None, Some(50 * MS), Some(200 * MS), Some(100 * MS)]);
    cache.insert(3, 11);
    assert_eq!(cache.time_to_live(&3), Some(111 * MS));
    clock.advance(51 * MS);
    assert_eq!(cache.expire(), 2);
    clock.advance(10_000 * MS);
    assert_eq!(cache.expire(), 2);
    assert_eq!((cache.get(&0), cache.get(&9)), (Some(100), Some(0)));
    cache.check();
}

/// Hook that gives new entries 1,000 ms to live, and adds 7 ms at each update.
struct Kinds;

impl Expiry<u32, u32> for Kinds {
    fn after_insert(&self, _: &u32, _: &u32, _: Option<Duration>) -> Option<Duration> {
        Some(1_000 * MS)
    }
    fn after_update(
        &self,
        _: &u32,
        _: &u32,
        _: Option<Duration>,
        remaining: Option<Duration>,
    ) -> Option<Duration> {
        remaining.map(|remaining| remaining + 7 * MS)
    }
}

#[test]
fn an_idle_entry_that_has_expired_is_inserted_for_the_hook_and_not_updated() {
    // Regression: the hook's update was called for an entry whose idle time had ended, because only
    // its time to live was looked at.
    let (builder, clock) = manual(100);
    let cache = built(builder.tti(64 * MS).expiry(Kinds));
    cache.insert(1, 1);
    clock.advance(66 * MS);
    assert_eq!(cache.get(&1), None, "it was idle");
    cache.insert(1, 2);
    for _ in 0..20 {
        clock.advance(50 * MS);
        assert_eq!(cache.get(&1), Some(2), "it has the time of an insertion");
    }
    clock.advance(MS);
    assert_eq!(cache.get(&1), None);
}

/// Hook that changes the entry's time to live during a read, as another thread could.
struct Meddling(std::sync::Arc<std::sync::OnceLock<Cache<u32, u32>>>);

impl Expiry<u32, u32> for Meddling {
    fn has_reads(&self) -> bool {
        true
    }
    fn after_read(&self, key: &u32, _: &u32, remaining: Option<Duration>) -> Option<Duration> {
        if let Some(cache) = self.0.get() {
            cache.set_ttl(key, Some(30 * MS));
        }
        remaining
    }
}

#[test]
fn a_read_does_not_undo_a_change_of_the_time_to_live() {
    // Regression: a read in a cache with idle times wrote back the time to live that it had seen.
    let own = std::sync::Arc::new(std::sync::OnceLock::new());
    let (builder, clock) = manual(100);
    let settings = builder.tti(1_000 * MS).ttl(500 * MS);
    let cache = built(settings.expiry(Meddling(own.clone())));
    cache.insert(1, 1);
    clock.advance(MS);
    own.set(cache.clone()).expect("it is set once");
    assert_eq!(cache.get(&1), Some(1));
    assert_eq!(cache.time_to_live(&1), Some(30 * MS));
    clock.advance(31 * MS);
    assert_eq!(cache.get(&1), None);
    cache.check();
}

#[test]
fn clear_removes_expired_entries_as_well() {
    let (builder, clock) = manual(100);
    let cache = built(builder.negative_ttl(MS));
    cache.insert_with_ttl(1, 1, MS);
    cache.insert(2, 2);
    clock.advance(2 * MS);
    cache.clear();
    assert_eq!(cache.len(), 0);
    let stats = cache.stats();
    assert_eq!((stats.expired, stats.removed), (1, 1));
}

#[test]
fn jitter_spreads_deadlines_and_makes_none_later() {
    let (builder, clock) = manual(100_000);
    let cache = built(builder.ttl(1_000 * MS).jitter(0.2));
    (0..10_000).for_each(|key| cache.insert(key, key));
    clock.advance(800 * MS);
    assert_eq!(cache.expire(), 0);
    for tenth in 1..=20 {
        clock.advance(10 * MS);
        let count = cache.expire();
        assert!(
            (300..=700).contains(&count) || tenth == 20,
            "{count} in one twentieth"
        );
    }
    clock.advance(MS);
    cache.expire();
    assert!(cache.is_empty());
}

#[test]
fn times_of_zero_and_beyond_all_bounds() {
    let (builder, clock) = manual(100);
    let cache = built(builder);
    cache.insert_with_ttl(1, 1, Duration::ZERO);
    assert_eq!((cache.get(&1), cache.len()), (None, 0));
    cache.insert(1, 1);
    cache.insert_with_ttl(1, 2, Duration::ZERO);
    assert_eq!(
        (cache.get(&1), cache.len()),
        (None, 0),
        "it removes the present value"
    );
    cache.insert_with_ttl(2, 2, Duration::MAX);
    clock.advance(Duration::MAX);
    cache.expire();
    assert_eq!(
        cache.get(&2),
        Some(2),
        "the latest deadline is the end of time"
    );
    cache.insert_with_ttl(3, 3, MS);
    assert_eq!(cache.get(&3), Some(3), "time has ended and passes no more");
    assert!(cache.set_ttl(&3, Some(Duration::ZERO)));
    assert_eq!(cache.get(&3), None);
    cache.check();
}

#[test]
fn an_expired_entry_that_a_rejected_one_displaces_is_reported_as_expired() {
    // Regression: it was reported as replaced. The insertion itself removes only a few due entries.
    let (builder, clock) = manual(1_000);
    let (sender, events) = mpsc::channel();
    let cache = built(
        builder
            .shards(1)
            .listener(move |key: &u32, value: &u32, cause| _ = sender.send((*key, *value, cause))),
    );
    (0..100).for_each(|key| cache.insert_with_ttl(key, 0, 5 * MS));
    clock.advance(6 * MS);
    for key in 0..100 {
        cache.insert_with_ttl(key, 1, Duration::ZERO);
    }
    assert!(cache.is_empty());
    let causes: Vec<Cause> = events.try_iter().map(|(_, _, cause)| cause).collect();
    assert_eq!(causes, [Cause::Expired; 200]);
}

#[test]
fn a_clock_may_stand_and_go_back() {
    let (builder, clock) = manual(1_000);
    let cache = built(builder.ttl(100 * MS));
    clock.set(Duration::from_secs(1_000));
    (0..500).for_each(|key| cache.insert(key, key));
    assert_eq!(cache.expire(), 0);
    clock.set(Duration::from_secs(1));
    assert_eq!(cache.expire(), 0);
    (500..900).for_each(|key| cache.insert(key, key));
    clock.advance(101 * MS);
    assert_eq!(cache.expire(), 400, "deadlines after the jump hold");
    assert_eq!(cache.get(&7), Some(7), "those before it hold, too");
    clock.set(Duration::from_secs(1_000) + 101 * MS);
    assert_eq!(cache.expire(), 500);
    cache.check();
}

#[test]
fn the_shared_thread_removes_entries_without_traffic() {
    let (sender, receiver) = mpsc::channel();
    let caches: Vec<Cache<u32, u32>> = (0..3)
        .map(|number| {
            let sender = sender.clone();
            built(
                Cache::builder(1_000).listener(move |key: &u32, _: &u32, cause| {
                    let _ = sender.send((number, *key, cause));
                }),
            )
        })
        .collect();
    // A later deadline first, so that the thread must be woken for the earlier one.
    caches[0].insert_with_ttl(1, 1, Duration::from_secs(3_600));
    caches[1].insert_with_ttl(2, 2, 40 * MS);
    caches[2].insert_with_ttl(3, 3, 5 * MS);
    let hang = Duration::from_secs(60);
    // A thread that wakes late removes both, in the order of the caches.
    let mut removed = [(); 2].map(|()| receiver.recv_timeout(hang).expect("an event"));
    removed.sort_by_key(|(number, ..)| *number);
    assert_eq!(removed, [(1, 2, Cause::Expired), (2, 3, Cause::Expired)]);
    assert_eq!(caches[1].len(), 0);
    assert_eq!(caches[1].stats().expired, 1);
    drop(caches);
    assert!(receiver.try_recv().is_err());
}

#[test]
fn a_task_of_any_runtime_removes_entries() {
    let cache: Cache<u32, u32> = built(Cache::builder(100).timer(Timer::Task));
    let (sender, naps) = mpsc::channel();
    let mut task = pin!(cache.expiry_task(move |time| {
        let _ = sender.send(time);
        let start = Instant::now();
        poll_fn(move |_| match start.elapsed() >= time {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
    }));
    let mut poll = || task.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(poll().is_pending());
    let long = Duration::from_secs(60);
    assert!(
        naps.recv().is_ok_and(|time| time >= long),
        "there is no deadline"
    );
    cache.insert_with_ttl(1, 1, long / 2);
    assert!(poll().is_pending());
    assert!(
        naps.recv().is_ok_and(|time| time < long),
        "the insertion rang"
    );
    cache.insert_with_ttl(1, 1, 3 * MS);
    while !cache.is_empty() {
        assert!(poll().is_pending());
    }
    drop(cache);
    // It looks for the cache after its next sleep at the latest.
    let _ = poll();
}

#[test]
fn a_listener_that_panics_does_not_end_the_task() {
    let cache: Cache<u32, u32> = built(
        Cache::builder(100)
            .timer(Timer::Task)
            .listener(|key: &u32, _: &u32, _| assert_ne!(*key, 1, "the listener fails")),
    );
    let mut task = pin!(cache.expiry_task(|_| {
        let mut was_polled = false;
        poll_fn(move |_| match std::mem::replace(&mut was_polled, true) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
    }));
    let mut context = Context::from_waker(Waker::noop());
    std::panic::set_hook(Box::new(|_| {}));
    for key in 1..3 {
        cache.insert_with_ttl(key, key, MS);
        while !cache.is_empty() {
            assert!(task.as_mut().poll(&mut context).is_pending());
        }
    }
    drop(std::panic::take_hook());
    assert_eq!(cache.stats().expired, 2);
}

#[test]
fn capacities_and_weights_at_their_limits() {
    let cache: Cache<u32, u32> = Cache::new(0);
    cache.insert(1, 1);
    assert_eq!(
        (cache.get(&1), cache.get_with(1, || 2), cache.len()),
        (None, 2, 0)
    );
    cache.check();

    let weigh = |_: &u32, weight: &u32| *weight;
    let cache = built(Cache::builder(10).shards(1).weigher(weigh));
    (0..100).for_each(|key| cache.insert(key, 0));
    assert_eq!(
        (cache.len(), cache.stats().weight),
        (10, 10),
        "a weight of 0 counts as 1"
    );
    cache.insert(7, u32::MAX);
    assert_eq!(cache.get(&7), None, "too heavy");
    cache.insert(500, 10);
    assert_eq!((cache.get(&500), cache.len()), (Some(10), 1));
    cache.insert(500, 3);
    cache.insert(9, 7);
    assert_eq!(cache.stats().weight, 10);
    cache.check();

    let cache = built(Cache::builder(u64::MAX).shards(2).weigher(weigh));
    (0..100).for_each(|key| cache.insert(key, u32::MAX));
    assert_eq!(cache.stats().weight, 100 * u64::from(u32::MAX));
    let huge = Cache::builder(u64::MAX).weigher(weigh);
    let cache = built(huge.expected_entries(usize::MAX));
    cache.insert(1, 1);
    assert_eq!(cache.get(&1), Some(1), "the expected number is a hint");
    let cache: Cache<u32, u32> = Cache::new(u64::MAX);
    (0..10_000).for_each(|key| cache.insert(key, key));
    assert_eq!(cache.len(), 10_000);
    cache.set_capacity(100);
    assert!(cache.len() <= 100);
    cache.check();
}

#[test]
fn wrong_settings_are_errors_with_clear_texts() {
    let error = |builder: CacheBuilder<u32, u32>| {
        let error: BuildError = builder.build().expect_err("a wrong setting");
        error.to_string()
    };
    let builder = || Cache::builder(10);
    assert_eq!(
        error(builder().policy_named("lur")),
        "no eviction policy is called 'lur': did you mean 'lru'? docs/reference/policies.md lists all names"
    );
    assert_eq!(
        error(builder().policy_named("belady")),
        "policy 'belady' runs in the simulator only: expected a policy that needs at most 64 bits per \
         entry and no future requests"
    );
    assert_eq!(
        error(builder().jitter(1.5)),
        "jitter 1.5: expected a share between 0 and 1"
    );
    assert_eq!(
        error(builder().jitter(f64::NAN)),
        "jitter NaN: expected a share between 0 and 1"
    );
    assert_eq!(error(builder().shards(0)), "shards 0: expected 1 to 65536");
    assert_eq!(
        error(builder().without_expiry().ttl(MS)),
        "without_expiry: expected no TTL, idle time, negative TTL or expiry hook"
    );
    assert_eq!(
        error(builder().without_expiry().refresh_ahead(MS)),
        "refresh_ahead: expected a cache whose entries have deadlines"
    );
}

#[test]
fn the_statistics_say_why() {
    let (builder, clock) = manual(10);
    let cache = built(builder.shards(1));
    (0..12).for_each(|key| cache.insert(key, key));
    cache.insert_with_ttl(20, 20, 5 * MS);
    cache.insert_with_ttl(20, 21, 5 * MS);
    cache.get(&20);
    clock.advance(10 * MS);
    cache.get(&20);
    cache.get(&99);
    let kept = (0..12)
        .find(|key| cache.contains_key(key))
        .expect("some are kept");
    cache.remove(&kept);
    cache.expire();
    let stats = cache.stats();
    assert_eq!(
        (stats.hits, stats.misses_expired, stats.misses_absent),
        (1, 1, 1)
    );
    assert_eq!((stats.inserted, stats.evicted), (14, 3));
    assert_eq!((stats.replaced, stats.removed, stats.expired), (1, 1, 1));
    assert_eq!(stats.len, 8);
    assert_eq!(stats.hit_ratio(), Some(1.0 / 3.0));
    assert_eq!(stats.lag_max(), 4 * MS, "due after 5 ms, removed after 10");
    assert_eq!(stats.lag_quantile(0.5), 4 * MS);
}
