//! Local keys: those that clients of a replica have written last.
//!
//! A replica removes expired entries when its primary says so. The primary does not know local
//! keys; they are removed by the replica's clock. A key that the primary writes is no longer local.

use policy::Tick;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Local keys of one database in one shard, with the deadline under which the expiry index holds
/// their entries. A key without a deadline is not included, so there are at most as many as
/// entries.
///
/// Trees, because a hash table that grows delays a write by milliseconds.
#[derive(Default)]
pub(crate) struct LocalKeys {
    by_key: BTreeMap<Arc<[u8]>, Tick>,
    by_deadline: BTreeSet<(Tick, Arc<[u8]>)>,
    /// Number of bytes of both trees and of the names.
    bytes: u64,
}

/// Returns the bytes of a key: its name with two counters, and its place in both trees, whose nodes
/// are two thirds full on average.
fn bytes_of(key: &[u8]) -> u64 {
    let places = size_of::<(Tick, Arc<[u8]>)>() + size_of::<(Arc<[u8]>, Tick)>();
    (key.len() + 2 * size_of::<usize>() + places * 3 / 2) as u64
}

impl LocalKeys {
    /// Returns the key with the earliest deadline.
    pub fn first(&self) -> Option<&(Tick, Arc<[u8]>)> {
        self.by_deadline.first()
    }

    /// Returns the number of bytes of the keys and their deadlines.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Sets the deadline at which a key is due.
    pub fn insert(&mut self, key: &[u8], deadline: Tick) {
        self.remove(key);
        self.bytes += bytes_of(key);
        let key: Arc<[u8]> = key.into();
        self.by_key.insert(Arc::clone(&key), deadline);
        self.by_deadline.insert((deadline, key));
    }

    /// Removes a key, if it is there.
    pub fn remove(&mut self, key: &[u8]) {
        if let Some((key, deadline)) = self.by_key.remove_entry(key) {
            self.bytes -= bytes_of(&key);
            self.by_deadline.remove(&(deadline, key));
        }
    }

    /// Panics if the trees differ or the number of bytes is wrong.
    pub fn check(&self) {
        let pairs = self.by_key.iter();
        let pairs: BTreeSet<_> = pairs.map(|(key, at)| (*at, Arc::clone(key))).collect();
        assert_eq!(pairs, self.by_deadline);
        let bytes = self.by_key.keys().map(|key| bytes_of(key));
        assert_eq!(bytes.sum::<u64>(), self.bytes);
    }
}
