//! The one line of unsafe code in this crate: asking the processor for a cache line early.
//!
//! All else, the segments' memory included, is safe: see `words.rs`. In batches of 32 whose lines are asked for
//! first, 95 gets and 5 sets of a hundred took 329 ns each at a million keys, one by one 515 (`cargo bench -p
//! mayfly-segment`, on a machine with much else to do); plain early loads stop the processor where its queue of
//! unfinished work is full.
#![expect(unsafe_code, reason = "the prefetch instruction has no safe form")]

/// Asks for the cache line that holds `target`.
#[inline(always)]
pub(crate) fn prefetch<T>(target: &T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch reads nothing that the program can see and cannot fault; SSE is part of
    // every x86-64.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(target).cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = target;
}
