//! Atomics of the code that takes no locks: those of the standard library, or with `--cfg loom`
//! those of Loom, which explores every order that the language allows.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex whose data is consistent even if a thread has panicked while it held the lock.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
