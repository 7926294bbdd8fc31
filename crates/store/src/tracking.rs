//! Keys of one shard that clients have read and may cache (CLIENT TRACKING), and the invalidations
//! to be sent to these clients.
//!
//! The table refers to keys by their bytes and ignores the database, as Redis does: a client is
//! notified of a change of the key in any database. A key leaves the table when it is invalidated,
//! so that a client is notified once for all changes since its last read.

use std::collections::HashMap;
use std::sync::Arc;

/// Cause of an invalidation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidationCause {
    /// A command changed the key. The client that sent it may have requested not to be notified.
    Command,
    /// The key or one of its elements expired, the key was evicted, or the table was full.
    Server,
}

/// A changed key with the clients that may cache it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalidation {
    /// Bytes of the key; `None` means all keys, after a database was flushed or swapped.
    pub key: Option<Arc<[u8]>>,
    /// Ids of the clients that have read the key since its last invalidation.
    pub readers: Vec<u64>,
    /// Cause of the change.
    pub cause: InvalidationCause,
}

/// Minimum number of readers of a key at which, whenever the number has doubled, disconnected
/// readers are removed.
const READERS_BEFORE_PRUNING: usize = 16;

#[derive(Debug)]
struct TrackedKey {
    key: Arc<[u8]>,
    readers: Vec<u64>,
}

/// Tracked keys of one shard.
#[derive(Debug, Default)]
pub(crate) struct Tracked {
    /// Whether a client receives invalidations of keys that it has not read (BCAST).
    pub is_broadcasting: bool,
    keys: Vec<TrackedKey>,
    index: HashMap<Arc<[u8]>, u32>,
    pending: Vec<Invalidation>,
    /// Position of the next key that is removed because the table is full.
    next_victim: usize,
}

impl Tracked {
    /// Returns the number of tracked keys.
    pub fn key_count(&self) -> usize {
        self.keys.len()
    }

    /// Returns the number of pairs of a key and a client.
    pub fn reader_count(&self) -> usize {
        self.keys.iter().map(|key| key.readers.len()).sum()
    }

    /// Returns whether [`Tracked::take`] has invalidations to return.
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Records that a client has read a key. If the table then has more than `keys_max` keys,
    /// another key is removed and invalidated. `is_connected` is queried from time to time in order
    /// to remove readers that are gone.
    pub fn add(
        &mut self,
        key: &[u8],
        reader: u64,
        keys_max: usize,
        is_connected: &dyn Fn(u64) -> bool,
    ) {
        if let Some(at) = self.index.get(key) {
            let readers = &mut self.keys[*at as usize].readers;
            if readers.contains(&reader) {
                return;
            }
            if readers.len() >= READERS_BEFORE_PRUNING && readers.len().is_power_of_two() {
                readers.retain(|reader| is_connected(*reader));
            }
            readers.push(reader);
            return;
        }
        let others_max = keys_max.clamp(1, u32::MAX as usize) - 1;
        self.limit(others_max, usize::MAX);
        let name: Arc<[u8]> = Arc::from(key);
        self.index.insert(Arc::clone(&name), self.keys.len() as u32);
        self.keys.push(TrackedKey {
            key: name,
            readers: vec![reader],
        });
    }

    /// Removes and invalidates keys, at most `budget`, while there are more than `keys_max`.
    pub fn limit(&mut self, keys_max: usize, budget: usize) {
        let excess = self.keys.len().saturating_sub(keys_max);
        for _ in 0..excess.min(budget) {
            self.next_victim = (self.next_victim + 1) % self.keys.len();
            self.invalidate_at(self.next_victim, InvalidationCause::Server);
        }
    }

    /// Removes a changed key and queues its invalidation, if any client should be notified.
    pub fn invalidate(&mut self, key: &[u8], cause: InvalidationCause) {
        if let Some(at) = self.index.get(key) {
            self.invalidate_at(*at as usize, cause);
        } else if self.is_broadcasting {
            self.pending.push(Invalidation {
                key: Some(Arc::from(key)),
                readers: Vec::new(),
                cause,
            });
        }
    }

    fn invalidate_at(&mut self, at: usize, cause: InvalidationCause) {
        let TrackedKey { key, readers } = self.keys.swap_remove(at);
        self.index.remove(&key);
        if let Some(moved) = self.keys.get(at)
            && let Some(index) = self.index.get_mut(&moved.key)
        {
            *index = at as u32;
        }
        self.pending.push(Invalidation {
            key: Some(key),
            readers,
            cause,
        });
    }

    /// Returns the keys without the rest of the state, to be freed in steps.
    pub fn discard(&mut self) -> Discarded {
        Discarded {
            keys: std::mem::take(&mut self.keys),
            index: std::mem::take(&mut self.index),
        }
    }

    /// Removes all keys and returns them, to be freed in steps. If `is_first` is set, queues an
    /// invalidation of all keys, which one shard does for all.
    pub fn clear(&mut self, is_first: bool) -> Discarded {
        self.pending = Vec::new();
        if is_first {
            self.pending.push(Invalidation {
                key: None,
                readers: Vec::new(),
                cause: InvalidationCause::Server,
            });
        }
        self.discard()
    }

    /// Moves the queued invalidations to `into`.
    pub fn take(&mut self, into: &mut Vec<Invalidation>) {
        into.append(&mut self.pending);
    }

    /// Panics if the table contradicts itself.
    pub fn check(&self) {
        assert_eq!(self.keys.len(), self.index.len());
        for (at, tracked) in self.keys.iter().enumerate() {
            assert_eq!(self.index.get(&tracked.key), Some(&(at as u32)));
            assert!(!tracked.readers.is_empty());
        }
    }
}

/// Keys that are no longer tracked. Freeing a million of them at once takes tens of milliseconds.
#[derive(Debug, Default)]
pub(crate) struct Discarded {
    keys: Vec<TrackedKey>,
    index: HashMap<Arc<[u8]>, u32>,
}

impl Discarded {
    /// Frees up to `steps` keys. Returns whether there are more.
    pub fn free(&mut self, steps: u32) -> bool {
        for _ in 0..steps {
            let Some(tracked) = self.keys.pop() else {
                return false;
            };
            self.index.remove(&tracked.key);
        }
        !self.keys.is_empty()
    }
}

#[cfg(test)]
mod tests;
