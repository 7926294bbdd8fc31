//! The only unsafe code of this crate: prefetching a cache line.
//!
//! An ordinary load cannot replace it. Taking a shard's lock is a locked instruction, which waits
//! for all earlier loads, so a batch's cache misses would be served one after the other.
#![expect(unsafe_code, reason = "the prefetch instruction has no safe form")]

/// Prefetches the cache line that holds `target`.
#[inline(always)]
pub fn prefetch<T>(target: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing that the program can see and cannot fault; SSE is part of
    // every x86-64.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(target).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = target;
}
