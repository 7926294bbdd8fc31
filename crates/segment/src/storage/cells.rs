//! Words of a chunk of memory, either allocated or mapped from a file.
//!
//! A restart finds the memory of a file again, in a time that does not depend on the values in it.
//! Safe code cannot share memory with a file: it would read the file into an allocation at the
//! start and write it back at the stop, and meanwhile need twice the memory. With 1.4 GB of values
//! of 100 kB in a file in memory, a start takes 0.18 s of CPU time; one copy takes 0.8 s.
//!
//! To the language, the words of a mapping are atomic words like all others in this crate. Any bits
//! are valid values, whatever else changes the file. The caller locks the file, so that no other
//! server changes it. If a file is truncated while it is mapped, the process is ended by a signal.
#![expect(
    unsafe_code,
    reason = "the memory of a file is a raw address, which the system returns"
)]

use super::words::WORD;
use crate::sync::{AtomicU64, zeroed};
use std::ops::Deref;
use std::ptr::{NonNull, slice_from_raw_parts_mut};
use std::slice;

/// Returns a number of words in its stored form of half a word, so that [`Cells`] are as large as a
/// box.
fn len(count: usize) -> u32 {
    u32::try_from(count).expect("a chunk has at most 2^23 words and a few")
}

/// Owned words, like the contents of a box.
#[derive(Debug)]
pub(crate) struct Cells {
    /// First of `count` words, which this value owns.
    first: NonNull<AtomicU64>,
    count: u32,
    /// Whether the words are a mapping, which is unmapped at the end, instead of an allocation.
    is_mapped: bool,
}

// SAFETY: a box of atomic words may be sent to another thread, and this is one, whatever the source
// of its memory.
unsafe impl Send for Cells {}
// SAFETY: shared access is to atomic words alone.
unsafe impl Sync for Cells {}

impl Cells {
    /// Allocates zeroed words. The system provides memory only for pages that are touched.
    pub(crate) fn zeroed(count: usize) -> Cells {
        let words = NonNull::from(Box::leak(zeroed(count)));
        Cells {
            first: words.cast(),
            count: len(count),
            is_mapped: false,
        }
    }

    /// Maps words of a file. The file must have all of them and keep them while this value is used.
    /// `offset` is in bytes and must be a multiple of the page size.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    #[cfg(all(target_os = "linux", not(any(loom, miri))))]
    pub(crate) fn map(
        file: impl rustix::fd::AsFd,
        offset: u64,
        count: usize,
    ) -> std::io::Result<Cells> {
        use rustix::mm::{MapFlags, ProtFlags, mmap};
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let (anywhere, bytes) = (std::ptr::null_mut(), count * WORD);
        // SAFETY: the system chooses an address that is not in use, so that no memory of the
        // program is replaced.
        let start = unsafe { mmap(anywhere, bytes, access, MapFlags::SHARED, file, offset) }?;
        Ok(Cells {
            first: NonNull::new(start.cast()).ok_or(std::io::ErrorKind::OutOfMemory)?,
            count: len(count),
            is_mapped: true,
        })
    }
}

impl Deref for Cells {
    type Target = [AtomicU64];

    #[inline(always)]
    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: `first` is the first of `count` initialised words, which are aligned and stay in
        // place until this value is dropped. They are changed by atomic operations only.
        unsafe { slice::from_raw_parts(self.first.as_ptr(), self.count as usize) }
    }
}

impl Drop for Cells {
    fn drop(&mut self) {
        #[cfg(all(target_os = "linux", not(any(loom, miri))))]
        if self.is_mapped {
            let bytes = self.count as usize * WORD;
            // SAFETY: the range is one mapping of this length, and nothing refers to it any more.
            let unmapped = unsafe { rustix::mm::munmap(self.first.as_ptr().cast(), bytes) };
            debug_assert!(unmapped.is_ok());
            return;
        }
        debug_assert!(!self.is_mapped && self.count > 0);
        let words = slice_from_raw_parts_mut(self.first.as_ptr(), self.count as usize);
        // SAFETY: the words were a box of this length, which was leaked.
        drop(unsafe { Box::from_raw(words) });
    }
}
