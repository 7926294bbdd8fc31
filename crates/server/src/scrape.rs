//! The census of the keyspace for the thread of metrics.
//!
//! A worker holds its shards nearly all the time under load, and a mutex is not fair: another
//! thread could wait long for them, and each attempt would cost the worker a system call. The first
//! worker therefore takes the census, in slices between requests, and the metrics thread is woken
//! when it is complete.

use mio::Waker;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use store::{Census, Keyspace, Tick};

/// Maximum duration of one slice. The last shard of a slice may exceed it by some 50 µs.
const SLICE: Duration = Duration::from_micros(100);

/// A complete census.
#[derive(Clone)]
pub struct Taken {
    /// Facts about the keyspace.
    pub census: Arc<Census>,
    /// Time at which the census was completed.
    pub at: Instant,
}

/// Requests for a census, and the last result.
#[derive(Default)]
pub struct Scrape {
    is_wanted: AtomicBool,
    last: Mutex<Option<Taken>>,
    waker: OnceLock<Waker>,
}

impl Scrape {
    /// Sets the waker of the thread of metrics, once.
    pub fn set_waker(&self, waker: Waker) {
        assert!(self.waker.set(waker).is_ok(), "one thread of metrics");
    }

    /// Wakes the thread of metrics, if there is one.
    pub fn wake(&self) {
        if let Some(waker) = self.waker.get() {
            // If the eventfd is full, the thread wakes anyway.
            let _ = waker.wake();
        }
    }

    /// Requests a census. The caller wakes the first worker.
    pub fn request(&self) {
        self.is_wanted.store(true, Ordering::Release);
    }

    /// Whether a census is requested.
    #[inline]
    pub fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Relaxed)
    }

    /// Returns the last complete census.
    pub fn last(&self) -> Option<Taken> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.clone()
    }

    /// Continues a census for one slice. Stores it when it is complete. The caller must not hold
    /// the lock of any shard.
    pub fn take(&self, unfinished: &mut Option<Box<Census>>, keyspace: &Keyspace, now: Tick) {
        let start = Instant::now();
        let census = unfinished.get_or_insert_default();
        while keyspace.census_step(census, now) {
            if start.elapsed() >= SLICE {
                return;
            }
        }
        let Some(census) = unfinished.take() else {
            return;
        };
        // A request that arrives from now on is for another census.
        self.is_wanted.store(false, Ordering::Release);
        let taken = Taken {
            census: Arc::from(census),
            at: Instant::now(),
        };
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(taken);
        self.wake();
    }
}
