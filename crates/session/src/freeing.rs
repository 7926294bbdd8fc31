//! Frees large blocks of memory outside of the workers: values, requests and replies of many
//! megabytes.
//!
//! The allocator returns such a block to the operating system immediately, which takes about 80 ms
//! for 512 MB. That is too long for a worker, and much longer than starting a thread (30 µs).

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::Builder;

/// Minimum size in bytes of a block that is freed by a thread. Freeing a smaller one takes less
/// than a millisecond.
const BLOCK_BYTES_MIN: usize = 4 << 20;
/// Maximum number of threads at a time. The caller frees any further blocks itself, which bounds
/// the memory waiting to be freed.
const THREADS_MAX: usize = 4;
/// Stack of a thread, in bytes. The allocator needs most of it where it is built without
/// optimization.
const STACK_BYTES: usize = 256 << 10;

static THREADS: Threads = Threads(AtomicUsize::new(0));

/// Number of threads that run.
struct Threads(AtomicUsize);

/// Right to run one thread.
struct Place(&'static Threads);

impl Threads {
    fn take_place(&'static self) -> Option<Place> {
        let more = |count: usize| (count < THREADS_MAX).then(|| count + 1);
        let taken = self.0.fetch_update(Relaxed, Relaxed, more);
        taken.ok().map(|_| Place(self))
    }

    fn free<T: Send + 'static>(&'static self, block: Vec<T>) {
        if block.capacity() * size_of::<T>() < BLOCK_BYTES_MIN {
            return;
        }
        let Some(place) = self.take_place() else {
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
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Relaxed);
    }
}

/// Frees a block: immediately if it is small, and on its own thread otherwise.
pub fn free<T: Send + 'static>(block: Vec<T>) {
    THREADS.free(block);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limited_number_of_threads_frees_large_blocks() {
        // Other tests free blocks, too.
        static OWN: Threads = Threads(AtomicUsize::new(0));
        let mut places: Vec<Place> = std::iter::from_fn(|| OWN.take_place()).collect();
        // Regression: an attempt without success lowered the number of threads.
        assert_eq!(
            (places.len(), OWN.0.load(Relaxed)),
            (THREADS_MAX, THREADS_MAX)
        );
        // Without a place and below the size, the block is freed here.
        OWN.free(vec![1; BLOCK_BYTES_MIN]);
        places.clear();
        OWN.free(vec![1; 10]);
        assert_eq!(OWN.0.load(Relaxed), 0);
        for _ in 0..100 {
            OWN.free(vec![1; BLOCK_BYTES_MIN]);
            assert!(OWN.0.load(Relaxed) <= THREADS_MAX);
        }
        while OWN.0.load(Relaxed) > 0 {
            std::thread::yield_now();
        }
    }
}
