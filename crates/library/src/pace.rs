//! Whether a task that loads is polled when its load can go on.
//!
//! The future of a caller that loads may be polled once and then kept, neither polled again nor
//! dropped: by a loop that waits for something else first, for example. Those that wait for its
//! value would wait as long. That a load takes long is no sign of this, because a future that waits
//! for the network is not polled either. So the load is polled with a waker of its own, which notes
//! the instant and wakes the task. If the task is not polled for [`STALL_MS`] after that, its load
//! is *stalled*, and one of those that wait loads, too.

use crate::clock::Clock;
use crate::sync::lock;
use crate::timer::{self, Alarm, Timer};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

/// Time in milliseconds for which a task that was woken may not be polled, before another caller
/// loads. A runtime that is busy for longer costs a second load of the same key.
pub(crate) const STALL_MS: u64 = 500;

/// When the loads of a cache are to be looked at.
pub(crate) struct Watch {
    check_at: AtomicU64,
    clock: Clock,
    timer: Timer,
    alarm: Arc<Alarm>,
}

impl Watch {
    pub(crate) fn new(clock: Clock, timer: Timer, alarm: Arc<Alarm>) -> Self {
        Watch {
            check_at: AtomicU64::new(u64::MAX),
            clock,
            timer,
            alarm,
        }
    }

    pub(crate) fn now(&self) -> u64 {
        self.clock.now().0
    }

    /// Instant at which a load may be stalled; `u64::MAX` if no load is about to.
    pub(crate) fn check_at(&self) -> u64 {
        self.check_at.load(SeqCst)
    }

    /// Whether loads are to be looked at now. The caller looks at all of them.
    pub(crate) fn is_due(&self) -> bool {
        let at = self.check_at.load(Relaxed);
        at != u64::MAX && at <= self.now() && self.check_at.swap(u64::MAX, SeqCst) != u64::MAX
    }

    /// Makes sure that loads are looked at when one that was woken at an instant may be stalled.
    fn expect(&self, woken_at: u64) {
        let at = woken_at.saturating_add(STALL_MS);
        self.check_at.fetch_min(at, SeqCst);
        match self.timer {
            Timer::Manual => {}
            Timer::Task => self.alarm.notify(at),
            Timer::Thread => timer::notify_thread(at),
        }
    }
}

/// The load of one task.
pub(crate) struct Pace {
    watch: Arc<Watch>,
    /// Instant at which the task was woken; 0 if it was polled since.
    woken_at: AtomicU64,
    has_waiters: AtomicBool,
    task: Mutex<Option<Waker>>,
}

impl Pace {
    pub(crate) fn new(watch: Arc<Watch>) -> Self {
        Pace {
            watch,
            woken_at: AtomicU64::new(0),
            has_waiters: AtomicBool::new(false),
            task: Mutex::new(None),
        }
    }

    /// Whether the load could have gone on for so long that another caller loads.
    pub(crate) fn is_stalled(&self) -> bool {
        match self.woken_at.load(SeqCst) {
            0 => false,
            woken_at => woken_at.saturating_add(STALL_MS) <= self.watch.now(),
        }
    }

    /// Registers that somebody waits for the load. Either this sees that the task was woken, or the
    /// waker sees that somebody waits.
    pub(crate) fn expect_waiters(&self) {
        self.has_waiters.store(true, SeqCst);
        self.check_later();
    }

    /// Makes sure that the load is looked at again, if its task was woken.
    pub(crate) fn check_later(&self) {
        let woken_at = self.woken_at.load(SeqCst);
        if woken_at != 0 {
            self.watch.expect(woken_at);
        }
    }

    /// Runs a load.
    pub(crate) async fn run<F: Future>(self: &Arc<Self>, load: F) -> F::Output {
        let mut load = pin!(load);
        let waker = Waker::from(self.clone());
        std::future::poll_fn(|context| self.poll(load.as_mut(), &waker, context)).await
    }

    fn poll<F: Future>(
        &self,
        load: Pin<&mut F>,
        waker: &Waker,
        context: &mut Context<'_>,
    ) -> Poll<F::Output> {
        // Before the load is polled, so that no wake-up is lost.
        let before = lock(&self.task).replace(context.waker().clone());
        drop(before);
        self.woken_at.store(0, SeqCst);
        let polled = load.poll(&mut Context::from_waker(waker));
        if polled.is_ready() {
            let task = lock(&self.task).take();
            drop(task);
        }
        polled
    }
}

impl Wake for Pace {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let now = self.watch.now();
        let _ = self.woken_at.compare_exchange(0, now, SeqCst, SeqCst);
        if self.has_waiters.load(SeqCst) {
            self.check_later();
        }
        let task = lock(&self.task).clone();
        if let Some(task) = task {
            task.wake();
        }
    }
}
