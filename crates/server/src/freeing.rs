//! Frees large blocks of memory beside the workers: values, requests and replies of many megabytes.
//!
//! The allocator returns such a block to the operating system at once, which takes about 80 ms for
//! 512 MB. That is too long for a worker, and much longer than starting a thread (30 µs).

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::Builder;

/// Size in bytes from which a block is freed by a thread. A smaller one takes less than a
/// millisecond.
const BLOCK_BYTES_MIN: usize = 4 << 20;
/// Maximum number of threads at a time. The caller frees further blocks itself, so that the memory
/// that waits to be freed is bounded.
const THREADS_MAX: usize = 4;
/// Stack of a thread, in bytes.
const STACK_BYTES: usize = 64 << 10;

static THREADS: AtomicUsize = AtomicUsize::new(0);

/// Right to run one thread.
struct Place;

impl Place {
    fn take() -> Option<Place> {
        let more = |count: usize| (count < THREADS_MAX).then_some(count + 1);
        let taken = THREADS.fetch_update(Relaxed, Relaxed, more);
        taken.is_ok().then_some(Place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        THREADS.fetch_sub(1, Relaxed);
    }
}

/// Frees a block: at once if it is small, and otherwise on a thread of its own.
pub fn free(block: Vec<u8>) {
    if block.capacity() < BLOCK_BYTES_MIN {
        return;
    }
    let Some(place) = Place::take() else {
        return;
    };
    let thread = Builder::new().name("free".to_owned());
    // If no thread can be started, the block is dropped here with the closure.
    let started = thread.stack_size(STACK_BYTES).spawn(move || {
        drop(block);
        drop(place);
    });
    drop(started);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limited_number_of_threads_frees_large_blocks() {
        let places: Vec<Place> = std::iter::from_fn(Place::take).collect();
        assert_eq!(places.len(), THREADS_MAX);
        // Without a place and below the size, the block is freed here.
        free(vec![1; BLOCK_BYTES_MIN]);
        drop(places);
        free(vec![1; 10]);
        assert_eq!(THREADS.load(Relaxed), 0);
        for _ in 0..100 {
            free(vec![1; BLOCK_BYTES_MIN]);
            assert!(THREADS.load(Relaxed) <= THREADS_MAX);
        }
        while THREADS.load(Relaxed) > 0 {
            std::thread::yield_now();
        }
    }
}
