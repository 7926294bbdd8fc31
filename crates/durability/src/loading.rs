//! Loading of a snapshot file into the keyspace, while the workers answer `-LOADING`.
//!
//! One thread reads the file and collects keys of the same shard in batches (`batch.rs`). Alone, it
//! builds the values and stores them, too (`storing.rs`). With others (`load-threads`), it copies
//! values as they are, after a check of their structure, and the others build and store them
//! (`threads.rs`).
//!
//! The workers go on with expiry and eviction: a key whose deadline passes during the load is
//! removed as usual, and one that had expired before is not stored. If `maxmemory` is reached, the
//! policy evicts; under `noeviction` the rest is loaded nevertheless and later writes are refused,
//! as in Redis.
//!
//! Only the slab engine loads files.
//!
//! `file.rs` loads a file; this module is the state that others read.

pub mod batch;

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use store::Key;

/// Maximum number of skipped keys that a load names in the log.
const SKIPPED_NAMED_MAX: u64 = 10;
/// Maximum number of bytes of such a key in the log.
const SKIPPED_NAME_BYTES: usize = 100;

/// State of a load, for dispatch and INFO.
#[derive(Debug, Default)]
pub struct Loading {
    is_on: AtomicBool,
    is_cancelled: AtomicBool,
    /// Whether the keys come from the snapshot file.
    pub is_from_file: AtomicBool,
    /// Start of the load in seconds since 1970.
    pub started: AtomicU64,
    /// Size of the file in bytes.
    pub total_bytes: AtomicU64,
    /// Number of bytes read.
    pub loaded_bytes: AtomicU64,
    /// Memory in use when the file was written, in bytes, as the file says.
    pub used_bytes: AtomicU64,
    /// Number of keys that the last load has stored.
    pub keys: AtomicU64,
    /// Database that the primary's feed has selected, as the snapshot says.
    pub stream_db: AtomicU8,
    /// Number of keys that had expired before the last load.
    pub expired: AtomicU64,
    /// Number of keys that the last load has skipped, because their collections have no elements.
    pub empty: AtomicU64,
}

impl Loading {
    /// Whether a load is in progress.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Relaxed)
    }

    /// Begins a load at `started` seconds since 1970. From now on, commands on keys are refused.
    pub fn begin(&self, started: u64) {
        for counter in [
            &self.total_bytes,
            &self.loaded_bytes,
            &self.used_bytes,
            &self.keys,
            &self.expired,
            &self.empty,
        ] {
            counter.store(0, Relaxed);
        }
        self.started.store(started, Relaxed);
        self.is_cancelled.store(false, Relaxed);
        self.is_on.store(true, Relaxed);
    }

    /// Counts a key whose collection has no elements, and names it in the log.
    pub fn skip_empty(&self, key: &Key<'_>) {
        if self.empty.fetch_add(1, Relaxed) < SKIPPED_NAMED_MAX {
            let name = &key.bytes[..key.bytes.len().min(SKIPPED_NAME_BYTES)];
            let (name, db) = (name.escape_ascii(), key.db);
            log::warn!("key '{name}' in database {db} is skipped: its collection is empty");
        }
    }

    /// Requests that the load ends with an error.
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Relaxed);
    }

    /// Whether the load was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Relaxed)
    }

    /// Ends a load.
    pub fn end(&self) {
        self.is_on.store(false, Relaxed);
    }
}
