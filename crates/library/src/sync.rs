//! Atomics of the lock-free code: from the standard library, or with `--cfg loom` from Loom, which
//! explores every memory order that the language allows.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex whose data stays consistent even if a thread panics while it holds the lock.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
