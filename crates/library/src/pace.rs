//! Detection of tasks that load a value but are no longer polled.
//!
//! A caller's future may be polled once and then kept without being polled or dropped, for example
//! by a loop that waits for something else first. All callers waiting for its value would wait for
//! just as long. The duration of a load is no indication of this, because a future that waits for
//! the network is not polled either. The load is therefore polled with its own waker, which stores
//! the instant and wakes the task. If the task is not polled within [`STALL_MS`] after that, its
//! load is *stalled*, and one of the waiting callers loads, too.

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

/// Time in milliseconds within which a woken task must be polled before another caller loads. If a
/// runtime is busy for longer, the key is loaded twice.
pub(crate) const STALL_MS: u64 = 500;

/// Schedule of the checks for stalled loads of a cache.
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

    /// Returns the next instant at which a load may be stalled, or `u64::MAX` if no task was woken.
    pub(crate) fn check_at(&self) -> u64 {
        self.check_at.load(SeqCst)
    }

    /// Returns true if loads must be checked now. The caller then checks all of them.
    pub(crate) fn is_due(&self) -> bool {
        let at = self.check_at.load(Relaxed);
        at != u64::MAX && at <= self.now() && self.check_at.swap(u64::MAX, SeqCst) != u64::MAX
    }

    /// Schedules a check for the instant at which a load that was woken at `woken_at` may be
    /// stalled.
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

/// Progress of one task's load.
pub(crate) struct Pace {
    watch: Arc<Watch>,
    /// Instant at which the task was woken, or 0 if it has been polled since then.
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

    /// Returns true if the load could have gone on for [`STALL_MS`], so that another caller loads.
    pub(crate) fn is_stalled(&self) -> bool {
        match self.woken_at.load(SeqCst) {
            0 => false,
            woken_at => woken_at.saturating_add(STALL_MS) <= self.watch.now(),
        }
    }

    /// Registers that another caller waits for the load. Either this call sees that the task was
    /// woken, or the waker sees that a caller waits.
    pub(crate) fn expect_waiters(&self) {
        self.has_waiters.store(true, SeqCst);
        self.check_later();
    }

    /// Schedules another check of the load if its task was woken.
    pub(crate) fn check_later(&self) {
        let woken_at = self.woken_at.load(SeqCst);
        if woken_at != 0 {
            self.watch.expect(woken_at);
        }
    }

    /// Runs a load, and records when its task is woken and polled.
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
        // The waker is stored before the load is polled, so that no wake-up is lost.
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
