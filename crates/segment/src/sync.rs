//! Atomics and locks: from the standard library, or with `--cfg loom` from Loom, which explores the
//! models of `model.rs` in every order that the language allows.

#[cfg(loom)]
pub(crate) use loom::{
    hint::spin_loop,
    sync::atomic::{AtomicU32, AtomicU64, Ordering, fence},
    sync::{Mutex, MutexGuard},
};
#[cfg(not(loom))]
pub(crate) use std::{
    hint::spin_loop,
    sync::atomic::{AtomicU32, AtomicU64, Ordering, fence},
    sync::{Mutex, MutexGuard},
};

/// Allocates zeroed words. The system provides memory only for pages that are touched.
pub(crate) fn zeroed(words: usize) -> Box<[AtomicU64]> {
    #[cfg(not(loom))]
    return bytemuck::zeroed_slice_box(words);
    #[cfg(loom)]
    return (0..words).map(|_| AtomicU64::new(0)).collect();
}

/// Explores a model with as many preemptions as `LOOM_MAX_PREEMPTIONS` allows, 2 by default.
#[cfg(all(loom, test))]
pub(crate) fn explore(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(2));
    builder.max_branches = 1_000_000;
    builder.check(model);
}
