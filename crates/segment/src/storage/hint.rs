//! Hints to the processor and to the system, which change nothing that a program can see.
//!
//! Apart from these and `cells.rs`, which maps a file, the crate is safe code. What each hint
//! gains, by `cargo bench -p mayfly-cache-segment` at a million keys on a busy machine: a mix of 95
//! gets and 5 sets takes 130 ns a request in batches of 32 whose lines are prefetched, and 270 ns
//! one by one. Plain early loads instead of prefetches stop the processor when its queue of
//! unfinished work is full. Without large pages gets take 433 to 464 ns instead of 289 to 312, and
//! the batches 168 to 179 instead of 131 to 145.
#![expect(unsafe_code, reason = "neither hint has a safe form")]

use crate::sync::AtomicU64;

/// Size of a large page on nearly all processors, and a multiple of every small page.
const LARGE_PAGE: usize = 2 << 20;

/// Prefetches the cache line that holds `target`.
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

/// Permits the system to back these words by large pages, where they fill whole ones. The system
/// may decline.
pub(crate) fn large_pages(words: &[AtomicU64]) {
    let bytes = size_of_val(words);
    let first = words.as_ptr().cast::<u8>();
    let before = first.align_offset(LARGE_PAGE).min(bytes);
    let whole = (bytes - before) / LARGE_PAGE * LARGE_PAGE;
    #[cfg(all(target_os = "linux", not(any(miri, loom))))]
    if whole > 0 {
        use rustix::mm::{Advice, madvise};
        let begin = first.wrapping_add(before).cast_mut().cast();
        // SAFETY: the range lies within memory that is borrowed here, begins with a page, and keeps
        // what it holds: the advice is about what backs it.
        let _declined = unsafe { madvise(begin, whole, Advice::LinuxHugepage) };
    }
    #[cfg(not(all(target_os = "linux", not(any(miri, loom)))))]
    let _ = whole;
}
