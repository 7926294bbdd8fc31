//! Account of content in memory outside the store: of fetches in progress, and of replies whose
//! response has left the store.
//!
//! A fetch keeps what it receives as long as the account permits; beyond it, the fetch passes
//! content on as its clients take it, so that the origin is read no faster, and does not store the
//! response. The store gives way to the account ([`crate::store::Store::fit`]), so that both
//! together stay within the memory that the operator has set.
//!
//! Each chunk carries its entry in the account: it ends with the last reference to the bytes,
//! wherever that is. Content in the store counts there, and moves back to the account if it leaves
//! the store while a reply still has it.
//!
//! Content from disk, from other nodes and of replies that are not kept enters the account when it
//! is passed on to a connection. While the account is full, a reply has one chunk at a time there.
//! Beyond `OVERRUN_BYTES`, no further request goes to an origin or the disk.

use bytes::Bytes;
use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Divisor of the memory that gives the maximum of the account.
const PART: u64 = 2;
/// Maximum number of bytes beyond the account's maximum, for the single chunks of replies whose
/// clients are slow. At this number, requests that need an origin or the disk are refused.
const OVERRUN_BYTES: u64 = 16 << 20;

/// Divisor of the account's maximum that gives the maximum that compressors may hold.
const HELD_PART: u64 = 4;

/// Account of the bytes outside the store.
#[derive(Debug)]
pub struct Budget {
    /// Bytes in the account. It is briefly negative if content leaves before it is counted.
    bytes: AtomicI64,
    bytes_max: u64,
    /// Part of these bytes that compressors hold.
    held_bytes: AtomicU64,
}

/// Bytes of working memory in the account, until they are dropped.
#[derive(Debug)]
pub struct Held {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.budget.held_bytes.fetch_sub(self.bytes, Relaxed);
        self.budget.subtract(self.bytes);
    }
}

impl Budget {
    /// Creates the account of a node with this much memory.
    pub fn new(memory_bytes: u64) -> Arc<Self> {
        Arc::new(Budget {
            bytes: AtomicI64::new(0),
            bytes_max: memory_bytes / PART,
            held_bytes: AtomicU64::new(0),
        })
    }

    /// Returns the number of bytes in the account.
    pub fn bytes(&self) -> u64 {
        u64::try_from(self.bytes.load(Relaxed)).unwrap_or(0)
    }

    /// Returns true if the account admits nothing.
    pub fn is_full(&self) -> bool {
        self.bytes() >= self.bytes_max
    }

    /// Returns true if even the single chunks of further replies are too much.
    pub fn is_overrun(&self) -> bool {
        self.bytes() >= self.bytes_max + OVERRUN_BYTES
    }

    /// Adds working memory to the account; `None` if the account is full, or too much is held.
    pub fn hold(self: &Arc<Self>, bytes: u64) -> Option<Held> {
        let limit = self.bytes_max / HELD_PART;
        let add = |held: u64| held.checked_add(bytes).filter(|sum| *sum <= limit);
        if self.is_full() || self.held_bytes.fetch_update(Relaxed, Relaxed, add).is_err() {
            return None;
        }
        self.add(bytes);
        Some(Held {
            budget: self.clone(),
            bytes,
        })
    }

    fn add(&self, bytes: u64) {
        self.bytes.fetch_add(bytes as i64, Relaxed);
    }

    fn subtract(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes as i64, Relaxed);
    }
}

/// Entry of one response's content in the account.
pub struct Charge {
    budget: Arc<Budget>,
    /// Number of the store's values that contain the response. A replaced value and its successor
    /// are both counted for a moment.
    stored: AtomicU32,
    /// Number of chunks in use, and the task that waits until there is none.
    used: Mutex<(u64, Option<Waker>)>,
}

impl fmt::Debug for Charge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Charge")
            .field("stored", &self.stored)
            .finish_non_exhaustive()
    }
}

/// Bytes with their entry in the account.
struct Charged {
    bytes: Bytes,
    charge: Arc<Charge>,
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Charged {
    fn drop(&mut self) {
        // The store has references to what it contains.
        if self.charge.stored.load(Relaxed) == 0 {
            self.charge.budget.subtract(self.bytes.len() as u64);
        }
        self.charge.release();
    }
}

impl Charge {
    /// Creates an entry without content.
    pub fn new(budget: &Arc<Budget>) -> Arc<Self> {
        Arc::new(Charge {
            budget: budget.clone(),
            stored: AtomicU32::new(0),
            used: Mutex::default(),
        })
    }

    fn used(&self) -> MutexGuard<'_, (u64, Option<Waker>)> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn release(&self) {
        let mut used = self.used();
        used.0 -= 1;
        let waiting = if used.0 == 0 { used.1.take() } else { None };
        drop(used);
        if let Some(task) = waiting {
            task.wake();
        }
    }

    /// Returns `Pending` while the account is full and a chunk of the entry is in use. The release
    /// of the last chunk wakes the task; room in the account does not.
    pub fn poll_room(&self, context: &Context<'_>) -> Poll<()> {
        if !self.is_full() {
            return Poll::Ready(());
        }
        let mut used = self.used();
        if used.0 == 0 {
            return Poll::Ready(());
        }
        used.1 = Some(context.waker().clone());
        Poll::Pending
    }

    /// Returns true if the account admits nothing.
    pub fn is_full(&self) -> bool {
        self.budget.is_full()
    }

    /// Counts a chunk if the account permits it.
    ///
    /// # Errors
    /// Returns the chunk if the account is full.
    pub fn admit(self: &Arc<Self>, chunk: Bytes) -> Result<Bytes, Bytes> {
        match self.budget.bytes() + chunk.len() as u64 <= self.budget.bytes_max {
            true => Ok(self.count(chunk)),
            false => Err(chunk),
        }
    }

    /// Counts a chunk in any case. The chunk is copied, because it may be a small part of a buffer
    /// that it would keep in memory.
    pub fn count(self: &Arc<Self>, chunk: Bytes) -> Bytes {
        self.count_as_is(Bytes::copy_from_slice(&chunk))
    }

    /// Counts a chunk that uses all of its buffer.
    pub fn count_as_is(self: &Arc<Self>, bytes: Bytes) -> Bytes {
        self.budget.add(bytes.len() as u64);
        self.used().0 += 1;
        let charge = self.clone();
        Bytes::from_owner(Charged { bytes, charge })
    }

    /// Moves content of this length, all of it referred to by the caller, to the store's account.
    pub fn enter_store(&self, bytes: u64) {
        if self.stored.fetch_add(1, Relaxed) == 0 {
            self.budget.subtract(bytes);
        }
    }

    /// Moves the content back after it has left the store, while the caller still refers to it.
    pub fn leave_store(&self, bytes: u64) {
        if self.stored.fetch_sub(1, Relaxed) == 1 {
            self.budget.add(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MEMORY: u64 = 1 << 20;

    #[test]
    fn a_chunk_counts_until_its_last_reference_is_gone() {
        let budget = Budget::new(MEMORY);
        let charge = Charge::new(&budget);
        for length in [10, 100_000] {
            let chunk = charge.admit(vec![7; length].into()).expect("it has room");
            let part = chunk.slice(3..5);
            drop(chunk);
            assert_eq!((budget.bytes(), &*part), (length as u64, &[7, 7][..]));
            drop(part);
            assert_eq!(budget.bytes(), 0);
        }
    }

    #[test]
    fn a_full_account_admits_nothing_but_counts_what_must_be_kept() {
        let budget = Budget::new(MEMORY);
        let charge = Charge::new(&budget);
        let half = vec![0; (MEMORY / PART) as usize];
        let first = charge.admit(half.into()).expect("it has room");
        let refused = charge.admit(Bytes::from_static(b"x"));
        assert_eq!(refused, Err(Bytes::from_static(b"x")));
        let second = charge.count(Bytes::from_static(b"x"));
        assert_eq!(budget.bytes(), MEMORY / PART + 1);
        drop((first, second));
        assert!(charge.admit(Bytes::from_static(b"x")).is_ok());
    }

    /// A task that waits for room continues when its own chunks are gone, or the account has room.
    #[test]
    fn a_reply_has_one_chunk_at_a_time_while_the_account_is_full() {
        let budget = Budget::new(MEMORY);
        let (other, own) = (Charge::new(&budget), Charge::new(&budget));
        let half = other.count(vec![0; (MEMORY / PART) as usize].into());
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(woken.clone());
        let context = Context::from_waker(&waker);
        assert!(own.poll_room(&context).is_ready());
        let chunk = own.count(Bytes::from_static(b"x"));
        assert!(own.poll_room(&context).is_pending());
        drop(chunk.clone());
        assert_eq!(woken.0.load(Relaxed), 0);
        drop(chunk);
        assert_eq!(woken.0.load(Relaxed), 1);
        assert!(own.poll_room(&context).is_ready());
        let _chunk = own.count(Bytes::from_static(b"x"));
        drop(half);
        assert!(own.poll_room(&context).is_ready());
        assert!(!budget.is_overrun());
        let _all = other.count(vec![0; (MEMORY / PART + OVERRUN_BYTES) as usize].into());
        assert!(budget.is_overrun());
    }

    #[derive(Default)]
    struct Woken(AtomicU32);

    impl std::task::Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    proptest! {
        /// Content moves between the two accounts in random order; the model adds up what is
        /// referred to outside the store.
        #[test]
        fn the_account_is_the_sum_of_what_is_outside_the_store(
            steps in proptest::collection::vec((0_usize..4, 0_usize..4, 1_usize..40_000), 1..80),
        ) {
            let budget = Budget::new(1 << 30);
            let charges: Vec<Arc<Charge>> = (0..4).map(|_| Charge::new(&budget)).collect();
            let mut chunks: Vec<Vec<Bytes>> = vec![vec![]; 4];
            let mut stored = [0_u32; 4];
            for (index, kind, length) in steps {
                let bytes: u64 = chunks[index].iter().map(|chunk| chunk.len() as u64).sum();
                match kind {
                    0 if stored[index] == 0 => {
                        let chunk = charges[index].admit(vec![0; length].into());
                        chunks[index].push(chunk.expect("it has room"));
                    }
                    1 => {
                        charges[index].enter_store(bytes);
                        stored[index] += 1;
                    }
                    2 if stored[index] > 0 => {
                        charges[index].leave_store(bytes);
                        stored[index] -= 1;
                    }
                    3 if stored[index] == 0 => _ = chunks[index].pop(),
                    _ => {}
                }
                let outside = (0..4).filter(|index| stored[*index] == 0);
                let lengths = outside.flat_map(|index| &chunks[index]).map(Bytes::len);
                prop_assert_eq!(budget.bytes(), lengths.sum::<usize>() as u64);
            }
        }
    }
}
