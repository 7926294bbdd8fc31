//! The two lines of unsafe code in this crate: hints to the processor and to the system, which change nothing
//! that a program can see.
//!
//! All else, the segments' memory included, is safe: see `words.rs`. What each gains, as `cargo bench -p
//! mayfly-segment` tells at a million keys, on a machine with much else to do: 95 gets and 5 sets of a hundred take
//! 130 ns each in batches of 32 whose lines are asked for first, one by one 270; plain early loads stop the processor
//! where its queue of unfinished work is full. Without large pages gets take 433 to 464 ns instead of 289 to 312, and
//! the batches 168 to 179 instead of 131 to 145.
#![expect(unsafe_code, reason = "neither hint has a safe form")]

use crate::sync::AtomicU64;

/// What processors have of large pages, nearly all of them: also a multiple of every small one.
const LARGE_PAGE: usize = 2 << 20;

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

/// Tells the system that large pages may back these words, as far as whole ones lie among them. A system that
/// declines gives small ones.
pub(crate) fn large_pages(words: &[AtomicU64]) {
    let bytes = size_of_val(words);
    let first = words.as_ptr().cast::<u8>();
    let before = first.align_offset(LARGE_PAGE).min(bytes);
    let whole = (bytes - before) / LARGE_PAGE * LARGE_PAGE;
    #[cfg(all(target_os = "linux", not(any(miri, loom))))]
    if whole > 0 {
        use rustix::mm::{Advice, madvise};
        let begin = first.wrapping_add(before).cast_mut().cast();
        // SAFETY: the range lies within memory that is borrowed here, begins with a page, and keeps what it
        // holds: the advice is about what backs it.
        let _declined = unsafe { madvise(begin, whole, Advice::LinuxHugepage) };
    }
    #[cfg(not(all(target_os = "linux", not(any(miri, loom)))))]
    let _ = whole;
}
