//! Loading of a snapshot file into the keyspace, while the workers answer `-LOADING`.
//!
//! One thread reads the file and collects keys of the same shard in batches (`batch.rs`). If it is
//! the only thread, it also builds and stores the values (`storing.rs`). With more threads
//! (`load-threads`), it checks the structure of values and copies them, and the other threads build
//! and store them (`threads.rs`).
//!
//! Workers keep expiring and evicting. A key whose deadline passes during the load is removed as
//! usual; a key that had already expired is not stored. At `maxmemory`, the policy evicts. Under
//! `noeviction`, the rest is still loaded and later writes are refused, as in Redis.
//!
//! Only the slab engine loads files.
//!
//! This module holds the state that other modules read. In the server, `file.rs` loads a file.

pub mod batch;

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use store::Key;

/// Maximum number of skipped keys that are logged by name during a load.
const SKIPPED_NAMED_MAX: u64 = 10;
/// Maximum number of bytes of such a key in a log line.
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
    /// Memory in use when the file was written, in bytes, as recorded in the file.
    pub used_bytes: AtomicU64,
    /// Number of keys stored by the last load.
    pub keys: AtomicU64,
    /// Database selected by the primary's feed, as recorded in the snapshot.
    pub stream_db: AtomicU8,
    /// Number of keys skipped by the last load because they had expired.
    pub expired: AtomicU64,
    /// Number of keys skipped by the last load because their collections are empty.
    pub empty: AtomicU64,
}

impl Loading {
    /// Whether a load is in progress.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Relaxed)
    }

    /// Begins a load at `started`, in seconds since 1970. Commands on keys are refused until it
    /// ends.
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

    /// Counts a key whose collection is empty and logs its name.
    pub fn skip_empty(&self, key: &Key<'_>) {
        if self.empty.fetch_add(1, Relaxed) < SKIPPED_NAMED_MAX {
            let name = &key.bytes[..key.bytes.len().min(SKIPPED_NAME_BYTES)];
            let (name, db) = (name.escape_ascii(), key.db);
            log::warn!("key '{name}' in database {db} is skipped: its collection is empty");
        }
    }

    /// Requests that the load end with an error.
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
