//! Removal of expired entries on time, by a thread that all caches of the process share, or by a
//! task of the caller's runtime.
//!
//! The waiting side publishes the instant that it waits for, and then checks once more for earlier
//! deadlines. The inserting side publishes its deadline first, and then compares it with that
//! instant. Therefore one side sees the other, and no deadline is missed.

use crate::clock::{system_now, system_wait};
use crate::sync::lock;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Mechanism that removes expired entries. Expired entries are never returned, whichever is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Timer {
    /// A thread that all caches of the process share.
    ///
    /// The thread starts with the first deadline, or with the first removed value that cannot be
    /// dropped immediately. It sleeps until something is due, and ends when no cache is left. A
    /// forked process does not have its parent's threads, so a cache in it needs another timer.
    #[default]
    Thread,
    /// A task that the program spawns with [`Cache::expiry_task`](crate::Cache::expiry_task).
    Task,
    /// Calls of [`Cache::expire`](crate::Cache::expire). In addition, each insertion removes a few
    /// expired entries.
    Manual,
}

/// Interface of a cache for the timer.
pub(crate) trait Timed: Send + Sync {
    /// Returns the earliest instant at which there is work, or `u64::MAX` if there is none.
    fn due(&self) -> u64;
    /// Removes a bounded number of due entries. Returns true if more are due.
    fn run_some(self: Arc<Self>) -> bool;
}

/// Alarm of a waiter: the instant until which it sleeps, and the means to wake it earlier.
pub(crate) struct Alarm {
    wake_at: AtomicU64,
    waiter: Mutex<Waiter>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiter {
    is_rung: bool,
    waker: Option<Waker>,
}

impl Alarm {
    pub(crate) const fn new() -> Self {
        Alarm {
            wake_at: AtomicU64::new(u64::MAX),
            waiter: Mutex::new(Waiter {
                is_rung: false,
                waker: None,
            }),
            changed: Condvar::new(),
        }
    }

    /// Wakes the waiter if it would sleep beyond `due`. The caller must already have published
    /// `due`.
    #[inline]
    pub(crate) fn notify(&self, due: u64) {
        if due < self.wake_at.load(SeqCst) && due < self.wake_at.fetch_min(due, SeqCst) {
            self.ring();
        }
    }

    #[cold]
    fn ring(&self) {
        let mut waiter = lock(&self.waiter);
        waiter.is_rung = true;
        let waker = waiter.waker.take();
        drop(waiter);
        self.changed.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Publishes the next instant of work, and returns it. `due` returns the earliest known one.
    fn set(&self, due: impl Fn() -> u64) -> u64 {
        loop {
            let next = due();
            self.wake_at.store(next, SeqCst);
            let again = due();
            if again >= next {
                return next;
            }
        }
    }
}

struct Shared {
    caches: Mutex<Caches>,
    alarm: Alarm,
}

struct Caches {
    list: Vec<Weak<dyn Timed>>,
    is_running: bool,
}

static SHARED: Shared = Shared {
    caches: Mutex::new(Caches {
        list: Vec::new(),
        is_running: false,
    }),
    alarm: Alarm::new(),
};

/// Adds a cache to those that the shared thread serves.
pub(crate) fn register(cache: Weak<dyn Timed>) {
    let mut caches = lock(&SHARED.caches);
    caches.list.push(cache);
    if !caches.is_running {
        let builder = std::thread::Builder::new().name("mayfly-expiry".into());
        // Without a thread, only insertions and calls remove expired entries.
        caches.is_running = builder.spawn(serve).is_ok();
    }
}

/// Wakes the shared thread if it would sleep beyond `due`.
#[inline]
pub(crate) fn notify_thread(due: u64) {
    SHARED.alarm.notify(due);
}

/// Returns the caches that still exist, or `None` if no cache is left and the thread must end.
fn caches() -> Option<Vec<Arc<dyn Timed>>> {
    let mut caches = lock(&SHARED.caches);
    caches.list.retain(|cache| cache.strong_count() > 0);
    caches.is_running = !caches.list.is_empty();
    let list = caches.list.iter().filter_map(Weak::upgrade).collect();
    caches.is_running.then_some(list)
}

/// Calls `act` so that a panic of a listener or a destructor ends neither the thread nor the
/// service of other caches. Returns `None` after a panic.
fn shielded<R>(act: impl FnOnce() -> R) -> Option<R> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(act)).ok()
}

fn earliest() -> u64 {
    let due = || {
        // A cache may have been added since the last check. This may be the last reference to one.
        let caches = caches().unwrap_or_default();
        caches.iter().map(|cache| cache.due()).min()
    };
    shielded(due).flatten().unwrap_or(u64::MAX)
}

/// Removes a bounded number of entries from each cache that has due entries.
fn serve_each(caches: Vec<Arc<dyn Timed>>, now: u64) {
    for cache in caches {
        shielded(|| cache.due() <= now && cache.clone().run_some());
        // This may be the last reference to the cache, whose values are then dropped here.
        shielded(|| drop(cache));
    }
}

fn serve() {
    while let Some(caches) = caches() {
        // Caches with more due entries are served again at once, after all others.
        serve_each(caches, system_now().0);
        let next = SHARED.alarm.set(earliest);
        // Dropping a cache does not wake the thread, which therefore checks at least once a minute.
        let wait = system_wait(next).min(Duration::from_secs(60));
        let mut waiter = lock(&SHARED.alarm.waiter);
        if !waiter.is_rung && !wait.is_zero() {
            let wait = SHARED.alarm.changed.wait_timeout(waiter, wait);
            waiter = wait.unwrap_or_else(PoisonError::into_inner).0;
        }
        waiter.is_rung = false;
    }
}

/// Runs the expiry of one cache until the cache is dropped. `alarm` belongs to this cache.
pub(crate) async fn run_task<F, Sleep>(cache: Weak<dyn Timed>, alarm: Arc<Alarm>, sleep: F)
where
    F: Fn(Duration) -> Sleep,
    Sleep: Future<Output = ()>,
{
    loop {
        let wait = {
            let Some(cache) = cache.upgrade() else { return };
            if shielded(|| cache.clone().run_some()) == Some(true) {
                drop(cache);
                // Other tasks of the runtime go first.
                YieldNow::default().await;
                continue;
            }
            let next = alarm.set(|| cache.due());
            system_wait(next).min(Duration::from_secs(3600))
        };
        SleepOrAlarm {
            sleep: Box::pin(sleep(wait)),
            alarm: &alarm,
        }
        .await;
    }
}

/// Future that returns to the runtime once, and is ready when it is polled again.
#[derive(Default)]
struct YieldNow {
    was_polled: bool,
}

impl Future for YieldNow {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.was_polled, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Future that ends when the sleep ends or the alarm wakes it.
struct SleepOrAlarm<'a, Sleep> {
    sleep: Pin<Box<Sleep>>,
    alarm: &'a Alarm,
}

impl<Sleep: Future<Output = ()>> Future for SleepOrAlarm<'_, Sleep> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        {
            let mut waiter = lock(&self.alarm.waiter);
            if std::mem::take(&mut waiter.is_rung) {
                return Poll::Ready(());
            }
            waiter.waker = Some(context.waker().clone());
        }
        self.sleep.as_mut().poll(context)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Cache with this many slices of due entries. It panics at some of them.
    struct Busy {
        slices: AtomicU64,
        fails: bool,
    }

    impl Timed for Busy {
        fn due(&self) -> u64 {
            match self.slices.load(SeqCst) {
                0 => u64::MAX,
                _ => 5,
            }
        }
        fn run_some(self: Arc<Self>) -> bool {
            let left = self.slices.fetch_sub(1, SeqCst) - 1;
            assert!(!self.fails, "a listener fails");
            left > 0
        }
    }

    #[test]
    fn a_cache_with_many_due_entries_does_not_keep_the_others_waiting() {
        // Regression: all entries of one cache were removed before the next cache was served.
        std::panic::set_hook(Box::new(|_| {}));
        let busy = |slices, fails| {
            Arc::new(Busy {
                slices: AtomicU64::new(slices),
                fails,
            })
        };
        let caches = [busy(3, false), busy(2, true), busy(1, false)];
        let list = || {
            caches
                .iter()
                .map(|cache| cache.clone() as Arc<dyn Timed>)
                .collect()
        };
        let left = || caches.each_ref().map(|cache| cache.slices.load(SeqCst));
        serve_each(list(), 4);
        assert_eq!(left(), [3, 2, 1], "nothing is due yet");
        serve_each(list(), 5);
        assert_eq!(left(), [2, 1, 0]);
        serve_each(list(), 5);
        assert_eq!(left(), [1, 0, 0]);
        drop(std::panic::take_hook());
    }
}
