//! Loads: one at a time per key, by threads and tasks, regardless of what happens to the loader.

use mayfly::{Cache, Clock, ManualClock};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

/// Runs a future on this thread, as a minimal runtime.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// A gate that opens once.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn open(&self) {
        *self.0.0.lock().expect("no panic") = true;
        self.0.1.notify_all();
    }
    fn pass(&self) {
        let guard = self.0.0.lock().expect("no panic");
        let _open = self
            .0
            .1
            .wait_while(guard, |is_open| !*is_open)
            .expect("no panic");
    }
}

#[test]
fn one_of_many_callers_loads() {
    let cache: Cache<u32, u32> = Cache::new(100);
    let (loads, start) = (Arc::new(AtomicU32::new(0)), Arc::new(Barrier::new(8)));
    let gate = Gate::default();
    let threads: Vec<_> = (0..8)
        .map(|number| {
            let (cache, loads) = (cache.clone(), loads.clone());
            let (start, gate) = (start.clone(), gate.clone());
            thread::spawn(move || {
                start.wait();
                let load = || {
                    gate.pass();
                    loads.fetch_add(1, SeqCst) + 41
                };
                if number % 2 == 0 {
                    cache.get_with(7, load)
                } else {
                    block_on(cache.get_with_async(7, async { load() }))
                }
            })
        })
        .collect();
    gate.open();
    let values: Vec<u32> = threads
        .into_iter()
        .map(|t| t.join().expect("no panic"))
        .collect();
    assert_eq!(values, [41; 8]);
    assert_eq!(loads.load(SeqCst), 1);
    assert_eq!(cache.stats().loads, 1);
}

#[test]
fn another_caller_loads_after_a_panic() {
    let cache: Cache<u32, u32> = Cache::new(100);
    let (gate, begun) = (Gate::default(), Gate::default());
    let (failing, opened, reached) = (cache.clone(), gate.clone(), begun.clone());
    let first = thread::spawn(move || {
        catch_unwind(AssertUnwindSafe(|| {
            failing.get_with(1, || {
                reached.open();
                opened.pass();
                panic!("the loader fails")
            })
        }))
        .is_err()
    });
    begun.pass();
    let waiting = cache.clone();
    let second = thread::spawn(move || waiting.get_with(1, || 5));
    gate.open();
    assert!(first.join().expect("the panic was caught"));
    assert_eq!(second.join().expect("no panic"), 5);
    let stats = cache.stats();
    assert_eq!((stats.loads, stats.failed_loads), (1, 1));
}

#[test]
fn another_task_loads_when_a_future_is_dropped() {
    let cache: Cache<u32, u32> = Cache::new(100);
    let mut first = Box::pin(cache.get_with_async(1, std::future::pending()));
    assert!(poll_once(first.as_mut()).is_pending());
    let mut second = Box::pin(cache.get_with_async(1, async { 6 }));
    assert!(
        poll_once(second.as_mut()).is_pending(),
        "it waits for the first"
    );
    drop(first);
    assert_eq!(poll_once(second.as_mut()), Poll::Ready(6));
    assert_eq!(cache.get(&1), Some(6));
}

#[test]
fn an_error_is_shared_and_not_stored() {
    let cache: Cache<u32, u32> = Cache::new(100);
    let (gate, begun) = (Gate::default(), Gate::default());
    let (failing, opened, reached) = (cache.clone(), gate.clone(), begun.clone());
    let first = thread::spawn(move || {
        failing.try_get_with(1, || {
            reached.open();
            opened.pass();
            Err::<u32, String>("no".into())
        })
    });
    begun.pass();
    let mut same =
        Box::pin(cache.try_get_with_async(1, async { Err::<u32, String>("own".into()) }));
    let mut other = Box::pin(cache.try_get_with_async(1, async { Ok::<u32, u8>(3) }));
    assert!(poll_once(same.as_mut()).is_pending());
    assert!(poll_once(other.as_mut()).is_pending());
    gate.open();
    let error = first
        .join()
        .expect("no panic")
        .expect_err("the loader failed");
    assert_eq!(*error, "no");
    assert_eq!(block_on(same).expect_err("shared"), error);
    assert_eq!(cache.get(&1), None);
    assert_eq!(
        block_on(other),
        Ok(3),
        "an error of another type is no answer"
    );
}

#[test]
fn a_loader_that_requests_its_own_key_panics_instead_of_waiting_forever() {
    let cache: Cache<u32, u32> = Cache::new(100);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        cache.get_with(1, || cache.get_with(1, || 2))
    }));
    assert!(outcome.is_err());
    assert_eq!(cache.get_with(1, || 3), 3, "the key is usable afterwards");
}

#[test]
fn a_stale_value_is_served_while_one_caller_loads() {
    let clock = ManualClock::new();
    let cache: Cache<u32, u32> = Cache::builder(100)
        .ttl(Duration::from_secs(60))
        .refresh_ahead(Duration::from_secs(30))
        .clock(Clock::Manual(clock.clone()))
        .build()
        .expect("the settings are valid");
    cache.insert(1, 10);
    assert_eq!(cache.get_with(1, || unreachable!("it is fresh")), 10);
    clock.advance(Duration::from_secs(40));
    let mut leader = Box::pin(cache.get_with_async(1, std::future::pending()));
    assert!(poll_once(leader.as_mut()).is_pending());
    assert_eq!(cache.get_with(1, || unreachable!("another loads")), 10);
    drop(leader);
    assert_eq!(cache.get_with(1, || 11), 11);
    assert_eq!(cache.get_with(1, || unreachable!("it is fresh again")), 11);
    clock.advance(Duration::from_secs(40));
    let kept = cache.try_get_with(1, || Err::<u32, &str>("down"));
    assert_eq!(kept, Ok(11), "a stale value is better than an error");
    clock.advance(Duration::from_secs(40));
    assert_eq!(
        cache.try_get_with(1, || Err::<u32, &str>("down")).ok(),
        None
    );
    assert!(cache.stats().stale_hits >= 2);
}

#[test]
fn the_right_to_load_is_handed_on_or_given_back() {
    let clock = ManualClock::new();
    let cache: Cache<u32, u32> = Cache::builder(100)
        .clock(Clock::Manual(clock.clone()))
        .build()
        .expect("the settings are valid");
    let mut right = None;
    assert_eq!(
        cache.get_or_refresh(1, |loading| right = Some(loading)),
        None
    );
    assert_eq!(cache.get_or_refresh(1, |_| unreachable!("one loads")), None);
    let loading = right.take().expect("nobody loads");
    assert_eq!(loading.key(), &1);
    let mut waiting = Box::pin(cache.get_with_async(1, std::future::ready(9)));
    assert!(poll_once(waiting.as_mut()).is_pending());
    thread::spawn(move || loading.complete_with_ttl(5, Duration::from_secs(1)))
        .join()
        .expect("no panic");
    assert_eq!(poll_once(waiting.as_mut()), Poll::Ready(5));
    assert_eq!(cache.time_to_live(&1), Some(Duration::from_secs(1)));
    clock.advance(Duration::from_secs(2));
    assert_eq!(cache.get_or_refresh(1, drop), None);
    assert_eq!(
        cache.get_with(1, || 6),
        6,
        "the right that was dropped is free again"
    );
    let stats = cache.stats();
    assert_eq!((stats.loads, stats.failed_loads), (2, 1));
}

#[test]
fn an_absent_value_is_remembered_for_its_time() {
    let clock = ManualClock::new();
    let cache: Cache<u32, u32> = Cache::builder(100)
        .negative_ttl(Duration::from_secs(5))
        .clock(Clock::Manual(clock.clone()))
        .build()
        .expect("the settings are valid");
    assert_eq!(cache.optionally_get_with(1, || None), None);
    assert_eq!(
        block_on(cache.optionally_get_with_async(1, async { Some(1) })),
        None
    );
    clock.advance(Duration::from_secs(6));
    assert_eq!(
        block_on(cache.optionally_get_with_async(1, async { Some(1) })),
        Some(1)
    );
    let stats = cache.stats();
    assert_eq!(
        (stats.negative_hits, stats.loads, stats.failed_loads),
        (1, 1, 1)
    );
}

/// Returns a future that is pending once, wakes its task immediately, and is ready when polled
/// again.
fn turn() -> impl Future<Output = ()> {
    let mut was_polled = false;
    std::future::poll_fn(move |context| {
        if std::mem::replace(&mut was_polled, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
}

/// A waker that counts its calls.
#[derive(Default)]
struct Bell(AtomicU32);
impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

fn manual() -> (Cache<u32, u32>, ManualClock) {
    let clock = ManualClock::new();
    let cache = Cache::builder(100).clock(Clock::Manual(clock.clone()));
    (cache.build().expect("the settings are valid"), clock)
}

#[test]
fn a_future_that_is_kept_blocks_others_for_a_bounded_time() {
    // Regression: callers waited as long as the future of the one that loaded was kept without
    // being polled.
    let (cache, clock) = manual();
    let mut kept = Box::pin(cache.get_with_async(1, async {
        turn().await;
        1
    }));
    assert!(poll_once(kept.as_mut()).is_pending());
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(bell.clone());
    let mut waiting = Box::pin(cache.get_with_async(1, async { 2 }));
    let mut context = Context::from_waker(&waker);
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    clock.advance(Duration::from_millis(499));
    cache.expire();
    assert_eq!(bell.0.load(SeqCst), 0);
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    clock.advance(Duration::from_millis(1));
    cache.expire();
    assert_eq!(bell.0.load(SeqCst), 1);
    let polled = waiting.as_mut().poll(&mut context);
    assert_eq!(polled, Poll::Ready(2));
    assert_eq!(poll_once(kept.as_mut()), Poll::Ready(1), "its own value");
    assert_eq!(cache.get(&1), Some(2), "the first value is stored");
    cache.check();
}

#[test]
fn a_load_that_takes_long_is_not_begun_again() {
    let (cache, clock) = manual();
    let mut leader = Box::pin(cache.get_with_async(1, async {
        turn().await;
        std::future::pending::<()>().await;
        1
    }));
    assert!(poll_once(leader.as_mut()).is_pending());
    let mut waiting = Box::pin(cache.get_with_async(1, async { 2 }));
    assert!(poll_once(waiting.as_mut()).is_pending());
    // It was polled when it could go on, and now waits for something else.
    assert!(poll_once(leader.as_mut()).is_pending());
    clock.advance(Duration::from_secs(3_600));
    cache.expire();
    assert!(poll_once(waiting.as_mut()).is_pending());
    drop(leader);
    assert_eq!(poll_once(waiting.as_mut()), Poll::Ready(2));
}

#[test]
fn one_of_those_that_wait_loads_beside_a_stalled_load() {
    let (cache, clock) = manual();
    let kept = || {
        let load = async {
            turn().await;
            Err::<u32, u32>(1)
        };
        Box::pin(cache.try_get_with_async(1, load))
    };
    let (mut first, mut second, mut third) = (kept(), kept(), kept());
    assert!(poll_once(first.as_mut()).is_pending());
    assert!(poll_once(second.as_mut()).is_pending());
    assert!(poll_once(third.as_mut()).is_pending());
    clock.advance(Duration::from_secs(1));
    assert!(poll_once(second.as_mut()).is_pending(), "it loads now");
    assert!(poll_once(third.as_mut()).is_pending(), "one is enough");
    // The failure of the first does not concern those that wait for the second.
    assert_eq!(poll_once(first.as_mut()), Poll::Ready(Err(Arc::new(1))));
    assert!(poll_once(third.as_mut()).is_pending());
    clock.advance(Duration::from_secs(1));
    let found = cache.try_get_with(1, || Ok::<u32, u32>(7));
    assert_eq!(found, Ok(7), "the second is stalled, too");
    assert_eq!(poll_once(third.as_mut()), Poll::Ready(Ok(7)));
    drop(second);
    assert_eq!(cache.get(&1), Some(7));
    let stats = cache.stats();
    assert_eq!((stats.loads, stats.failed_loads), (1, 2));
}

#[test]
fn those_that_wait_have_the_failure_of_a_leader_beside_a_stalled_one() {
    // Regression: they waited for the first leader, which may be kept for ever.
    let (cache, clock) = manual();
    let load = |result: Result<u32, u32>| {
        let load = async move {
            turn().await;
            result
        };
        Box::pin(cache.try_get_with_async(1, load))
    };
    let mut kept = load(Ok(1));
    let (mut second, mut third) = (load(Err(2)), load(Ok(3)));
    assert!(poll_once(kept.as_mut()).is_pending());
    assert!(poll_once(second.as_mut()).is_pending());
    clock.advance(Duration::from_millis(500));
    assert!(poll_once(second.as_mut()).is_pending(), "it loads now");
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(bell.clone());
    let mut context = Context::from_waker(&waker);
    assert!(third.as_mut().poll(&mut context).is_pending());
    assert_eq!(poll_once(second.as_mut()), Poll::Ready(Err(Arc::new(2))));
    assert_eq!(bell.0.load(SeqCst), 1);
    assert_eq!(poll_once(third.as_mut()), Poll::Ready(Err(Arc::new(2))));
    // The same for a leader that leaves without a result.
    let (mut second, mut third) = (load(Ok(4)), load(Ok(5)));
    assert!(poll_once(second.as_mut()).is_pending());
    clock.advance(Duration::from_millis(500));
    assert!(poll_once(third.as_mut()).is_pending(), "it loads now");
    let mut last = load(Ok(6));
    assert!(last.as_mut().poll(&mut context).is_pending());
    drop(third);
    assert_eq!(bell.0.load(SeqCst), 2);
    assert!(poll_once(last.as_mut()).is_pending(), "it leads");
    assert_eq!(poll_once(last.as_mut()), Poll::Ready(Ok(6)));
    assert_eq!(cache.get(&1), Some(6));
    drop((kept, second));
    cache.check();
}

#[test]
fn the_task_of_the_timer_is_woken_without_locks() {
    // Regression: the waker was called under the lock that a load of the same key takes, too.
    struct Enters(Cache<u32, u32>, AtomicU32);
    impl Wake for Enters {
        fn wake(self: Arc<Self>) {
            let (sender, receiver) = std::sync::mpsc::channel();
            let entering = self.clone();
            thread::spawn(move || {
                let mut waiting = Box::pin(entering.0.get_with_async(1, async { 3 }));
                _ = sender.send(poll_once(waiting.as_mut()).is_pending());
            });
            let waited = receiver.recv_timeout(Duration::from_secs(60));
            self.1.fetch_add(u32::from(waited == Ok(true)), SeqCst);
        }
    }
    let cache: Cache<u32, u32> = Cache::builder(100)
        .timer(mayfly::Timer::Task)
        .build()
        .expect("the settings are valid");
    let enters = Arc::new(Enters(cache.clone(), AtomicU32::new(0)));
    let waker = Waker::from(enters.clone());
    let mut task = Box::pin(cache.expiry_task(|_| std::future::pending()));
    assert!(
        task.as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    let mut kept = Box::pin(cache.get_with_async(1, async {
        turn().await;
        1
    }));
    assert!(poll_once(kept.as_mut()).is_pending());
    let mut waiting = Box::pin(cache.get_with_async(1, async { 2 }));
    assert!(poll_once(waiting.as_mut()).is_pending());
    assert_eq!(enters.1.load(SeqCst), 1);
}

#[test]
fn a_change_during_a_stalled_load_is_not_undone() {
    let (cache, clock) = manual();
    let kept = |value| {
        let load = async move {
            turn().await;
            value
        };
        Box::pin(cache.get_with_async(1, load))
    };
    let (mut first, mut second) = (kept(1), kept(2));
    assert!(poll_once(first.as_mut()).is_pending());
    clock.advance(Duration::from_secs(1));
    assert!(poll_once(second.as_mut()).is_pending(), "it loads, too");
    cache.remove(&1);
    assert_eq!(poll_once(first.as_mut()), Poll::Ready(1));
    assert_eq!(poll_once(second.as_mut()), Poll::Ready(2));
    assert_eq!(cache.get(&1), None);
}

#[test]
fn the_timer_wakes_threads_that_wait_for_a_stalled_load() {
    let cache: Cache<u32, u32> = Cache::new(100);
    let mut kept = Box::pin(cache.get_with_async(1, async {
        turn().await;
        1
    }));
    assert!(poll_once(kept.as_mut()).is_pending());
    let waiting = cache.clone();
    let thread = thread::spawn(move || waiting.get_with(1, || 2));
    assert_eq!(thread.join().expect("no panic"), 2);
    let mut again = Box::pin(cache.get_with_async(1, async { 3 }));
    assert_eq!(poll_once(again.as_mut()), Poll::Ready(2));
}

#[test]
fn callers_that_stop_waiting_are_forgotten() {
    // Regression: the waker of a future that was dropped was kept until the load ended.
    struct Idle;
    impl Wake for Idle {
        fn wake(self: Arc<Self>) {}
    }
    let cache: Cache<u32, u32> = Cache::new(100);
    let mut leader = Box::pin(cache.get_with_async(1, std::future::pending()));
    assert!(poll_once(leader.as_mut()).is_pending());
    let idle = Arc::new(Idle);
    let waker = Waker::from(idle.clone());
    for _ in 0..3 {
        let wait = || Box::pin(cache.get_with_async(1, std::future::ready(1)));
        let (mut waiting, mut other) = (wait(), wait());
        let mut context = Context::from_waker(&waker);
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        assert!(other.as_mut().poll(&mut context).is_pending());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        assert_eq!(Arc::strong_count(&idle), 4, "one for each that waits");
        drop(waiting);
        assert_eq!(Arc::strong_count(&idle), 3);
    }
    drop(waker);
    assert_eq!(Arc::strong_count(&idle), 1);
}

#[test]
fn the_absent_keys_of_a_weighed_cache_are_bounded_in_number() {
    // Regression: as many were remembered as a tenth of the capacity in weight, which may be bytes.
    let cache: Cache<u32, Vec<u8>> = Cache::builder(1 << 30)
        .weigher(|_, value: &Vec<u8>| value.len() as u32)
        .negative_ttl(Duration::from_secs(3_600))
        .build()
        .expect("the settings are valid");
    for key in 0..50_000 {
        assert_eq!(cache.optionally_get_with(key, || None), None);
    }
    for key in 0..50_000 {
        let _ = cache.optionally_get_with(key, || None);
    }
    let hits = cache.stats().negative_hits;
    assert!((1..=1_024).contains(&hits), "{hits} of 1,024 keys");
}

#[test]
fn the_futures_can_move_between_threads() {
    fn is_send<T: Send>(value: T) -> T {
        value
    }
    let cache: Cache<u32, String> = Cache::new(100);
    drop(is_send(cache.get_with_async(1, async { String::new() })));
    drop(is_send(
        cache.try_get_with_async(1, async { Err::<String, u8>(1) }),
    ));
    drop(is_send(cache.optionally_get_with_async(1, async { None })));
    drop(is_send(cache.expiry_task(|_| std::future::pending())));
}
