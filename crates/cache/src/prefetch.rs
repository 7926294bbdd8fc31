//! The one line of unsafe code in this crate: asking the processor for a cache line early.
//!
//! Plain loads in a batch do not do: each shard's lock is a locked instruction, which waits for
//! every load before it, so the misses of a batch would be taken one after the other.
#![expect(unsafe_code, reason = "the prefetch instruction has no safe form")]

/// Asks for the cache line that holds `target`.
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
