//! Allocator of the program: jemalloc, and anonymous mappings for large blocks, which grow without
//! copying.
//!
//! A buffer that grows to 400 MB, such as an input with one large value, is moved by its last
//! reallocation. jemalloc copies it, and all clients of the thread wait 100 ms for that; `mremap`
//! only moves the entries of the page table.
#![expect(unsafe_code, reason = "an allocator hands out raw memory")]

use std::alloc::{GlobalAlloc, Layout};
use tikv_jemallocator::Jemalloc;

/// Minimum size in bytes of a block that gets its own mapping. A smaller block that grows is
/// copied, which takes about a millisecond including the page faults. Values up to 1 MB, which are
/// common, stay with jemalloc, which does not make a system call for each of them.
const MAPPED_BYTES_MIN: usize = 2 << 20;
/// Maximum alignment of a mapping: the smallest page size of the platforms.
const MAPPED_ALIGN_MAX: usize = 4096;

/// Allocator of the program. The layout of a block determines whether jemalloc or a mapping
/// provides it.
pub struct Allocator;

fn is_mapped(layout: Layout) -> bool {
    cfg!(target_os = "linux")
        && layout.size() >= MAPPED_BYTES_MIN
        && layout.align() <= MAPPED_ALIGN_MAX
}

// SAFETY: a layout determines which allocator a block is from, `realloc` included, and both fulfil
// the contract of the trait.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_mapped(layout) {
            return mapping::create(layout.size());
        }
        // SAFETY: the caller's layout is passed on.
        unsafe { Jemalloc.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_mapped(layout) {
            return mapping::create(layout.size());
        }
        // SAFETY: the caller's layout is passed on.
        unsafe { Jemalloc.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if is_mapped(layout) {
            // SAFETY: the block was allocated with this layout, so it is a mapping of these bytes.
            return unsafe { mapping::remove(block, layout.size()) };
        }
        // SAFETY: the block was allocated with this layout, so it is jemalloc's.
        unsafe { Jemalloc.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: the caller promises a size that is not 0 and does not overflow with the
        // alignment.
        let new = unsafe { Layout::from_size_align_unchecked(bytes, layout.align()) };
        if !is_mapped(layout) && !is_mapped(new) {
            // SAFETY: the block is jemalloc's, and the caller's arguments are passed on.
            return unsafe { Jemalloc.realloc(block, layout, bytes) };
        }
        if is_mapped(layout) && is_mapped(new) {
            // SAFETY: the block is a mapping of these bytes.
            let moved = unsafe { mapping::resize(block, layout.size(), bytes) };
            if !moved.is_null() {
                return moved;
            }
            // The system cannot move a mapping if a part of it has other attributes (`madvise`).
        }
        // SAFETY: the size is not 0.
        let moved = unsafe { self.alloc(new) };
        if !moved.is_null() {
            let len = layout.size().min(bytes);
            // SAFETY: both blocks have `len` bytes, and a new block overlaps no other.
            unsafe { std::ptr::copy_nonoverlapping(block, moved, len) };
            // SAFETY: the block was allocated with this layout.
            unsafe { self.dealloc(block, layout) };
        }
        moved
    }
}

/// Private anonymous mappings. Sizes are in bytes and need not be multiples of a page; the system
/// rounds them up.
#[cfg(target_os = "linux")]
mod mapping {
    use rustix::mm::{MapFlags, MremapFlags, ProtFlags, mmap_anonymous, mremap, munmap};
    use std::ptr::null_mut;

    /// Returns zeroed memory, or null if there is none.
    pub fn create(bytes: usize) -> *mut u8 {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: without an address the mapping overlaps no other.
        let mapped = unsafe { mmap_anonymous(null_mut(), bytes, access, MapFlags::PRIVATE) };
        mapped.map_or(null_mut(), <*mut _>::cast)
    }

    /// Removes a mapping.
    ///
    /// # Safety
    /// `block` is a mapping of `bytes`, and is no longer used.
    pub unsafe fn remove(block: *mut u8, bytes: usize) {
        // SAFETY: as above. An error is impossible for a whole mapping, except where removing it
        // would split a joined one beyond the system's limit of mappings; the memory then stays.
        let _ = unsafe { munmap(block.cast(), bytes) };
    }

    /// Resizes a mapping. Returns its new address, or null if it could not be resized and is
    /// unchanged.
    ///
    /// # Safety
    /// `block` is a mapping of `bytes`.
    pub unsafe fn resize(block: *mut u8, bytes: usize, new_bytes: usize) -> *mut u8 {
        // SAFETY: as above, and the caller gives up the old place if the call succeeds.
        let moved = unsafe { mremap(block.cast(), bytes, new_bytes, MremapFlags::MAYMOVE) };
        moved.map_or(null_mut(), <*mut _>::cast)
    }
}

/// Replacement on systems that cannot move a mapping. There jemalloc provides all blocks.
#[cfg(not(target_os = "linux"))]
mod mapping {
    pub fn create(_: usize) -> *mut u8 {
        unreachable!("all blocks are jemalloc's")
    }

    /// # Safety
    /// Never called.
    pub unsafe fn remove(_: *mut u8, _: usize) {
        unreachable!("all blocks are jemalloc's")
    }

    /// # Safety
    /// Never called.
    pub unsafe fn resize(_: *mut u8, _: usize, _: usize) -> *mut u8 {
        unreachable!("all blocks are jemalloc's")
    }
}

#[cfg(test)]
mod tests {
    use super::MAPPED_BYTES_MIN;

    /// Tests run with the program's allocator. Content survives growing and shrinking of each kind,
    /// across the minimum size of mappings.
    #[test]
    fn content_survives_growing_and_shrinking() {
        let sizes = [
            1,
            MAPPED_BYTES_MIN - 1,
            MAPPED_BYTES_MIN,
            MAPPED_BYTES_MIN + 1,
            3 * MAPPED_BYTES_MIN,
        ];
        for from in sizes {
            for to in sizes {
                let byte = |index: usize| (index % 251) as u8;
                let mut block: Vec<u8> = (0..from).map(byte).collect();
                block.shrink_to_fit();
                block.truncate(to);
                block.shrink_to_fit();
                block.reserve_exact(to - block.len());
                block.extend((block.len()..to).map(byte));
                assert!(
                    block
                        .iter()
                        .enumerate()
                        .all(|(index, &found)| found == byte(index)),
                    "from {from} to {to} bytes"
                );
            }
        }
    }

    #[test]
    fn zeroed_memory_is_zeroed() {
        for size in [MAPPED_BYTES_MIN - 1, MAPPED_BYTES_MIN] {
            drop(vec![1u8; size]);
            assert!(vec![0u8; size].iter().all(|&byte| byte == 0));
        }
    }

    #[test]
    fn an_impossible_size_is_an_error() {
        let mut block = vec![7u8; MAPPED_BYTES_MIN];
        assert!(
            block
                .try_reserve_exact(isize::MAX as usize - 4096 - MAPPED_BYTES_MIN)
                .is_err()
        );
        assert!(block.iter().all(|&byte| byte == 7));
    }
}
