//! Arrays of zeroed cache lines, for tables.
//!
//! The system provides large zeroed blocks without touching them, so that a table of any size is
//! created in microseconds and its pages are faulted in one by one. The standard library's
//! allocation with an alignment of 64 writes the zeros itself, which takes 2 to 4 ms for 8 MB.

#![expect(unsafe_code, reason = "raw memory; tidy lists this file")]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;

/// Types for which zero bytes are a valid value.
///
/// # Safety
/// All bytes of the type may be zero, and values need no drop.
pub(crate) unsafe trait Zeroed {}

/// An array whose values are zero bytes at first.
pub(crate) struct Lines<T: Zeroed> {
    memory: NonNull<u8>,
    layout: Layout,
    first: NonNull<T>,
    count: usize,
    owns: PhantomData<T>,
}

// SAFETY: the array owns its values.
unsafe impl<T: Zeroed + Send> Send for Lines<T> {}
// SAFETY: shared access to the array is shared access to its values.
unsafe impl<T: Zeroed + Sync> Sync for Lines<T> {}

impl<T: Zeroed> Lines<T> {
    /// Allocates `count` values, at least one.
    pub(crate) fn new(count: usize) -> Self {
        assert!(count > 0);
        const { assert!(size_of::<T>() >= align_of::<T>()) };
        // The block has room for one more value than needed, so that the first value can be
        // aligned.
        let bytes = (count + 1).checked_mul(size_of::<T>());
        let layout = bytes.and_then(|bytes| Layout::from_size_align(bytes, 16).ok());
        let layout = layout.expect("the array fits in the address space");
        // SAFETY: the layout is not empty, because the block holds at least one value, and values
        // are not zero-sized.
        let memory = unsafe { alloc_zeroed(layout) };
        let Some(memory) = NonNull::new(memory) else {
            handle_alloc_error(layout)
        };
        let skipped = memory.align_offset(align_of::<T>());
        assert!(skipped <= size_of::<T>());
        // SAFETY: the offset is within the block, as the assertion says.
        let first = unsafe { memory.add(skipped) }.cast();
        Lines {
            memory,
            layout,
            first,
            count,
            owns: PhantomData,
        }
    }
}

impl<T: Zeroed> Deref for Lines<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        let slice = NonNull::slice_from_raw_parts(self.first, self.count);
        // SAFETY: the block holds this many aligned values, initialized with zero bytes, which are
        // valid.
        unsafe { slice.as_ref() }
    }
}

impl<T: Zeroed> Drop for Lines<T> {
    fn drop(&mut self) {
        // SAFETY: `new` allocated the block with this layout. The values need no drop.
        unsafe { dealloc(self.memory.as_ptr(), self.layout) }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    #[repr(align(64))]
    struct Line([AtomicU64; 8]);
    // SAFETY: integers of zero bytes are valid.
    unsafe impl Zeroed for Line {}

    #[test]
    fn lines_are_zero_and_aligned() {
        for count in [1, 2, 7, 1_000] {
            let lines = Lines::<Line>::new(count);
            assert_eq!(lines.len(), count);
            assert_eq!(lines.as_ptr().align_offset(64), 0);
            for (number, line) in lines.iter().enumerate() {
                assert!(line.0.iter().all(|word| word.load(Relaxed) == 0));
                line.0[7].store(number as u64, Relaxed);
            }
            let sum: u64 = lines.iter().map(|line| line.0[7].load(Relaxed)).sum();
            assert_eq!(sum, (0..count as u64).sum());
        }
    }
}
