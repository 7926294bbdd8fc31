//! Local keys: those that clients of a replica have written last.
//!
//! A replica removes expired entries when its primary says so. The primary does not know local
//! keys; they are removed by the replica's clock. A key that the primary writes is no longer local.

use super::{IndexState, Locked};
use crate::shared::Shared;
use policy::{Budget, Tick};
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

impl Locked {
    /// Records that a client of a replica has written a key that is due at a deadline.
    pub fn insert_local(&mut self, db: u8, key: &[u8], deadline: Tick, shared: &Shared) {
        if self.local.len() <= db as usize {
            self.local.resize_with(db as usize + 1, LocalKeys::default);
        }
        self.local[db as usize].insert(key, deadline);
        self.account(db, shared);
    }

    /// Returns the bytes that record which keys of a database clients of a replica have written.
    pub fn local_bytes(&self, db: usize) -> u64 {
        self.local.get(db).map_or(0, LocalKeys::bytes)
    }

    /// Forgets which keys of a database clients of a replica have written.
    pub fn forget_local(&mut self, db: u8) {
        if let Some(local) = self.local.get_mut(db as usize) {
            *local = LocalKeys::default();
        }
    }

    /// Returns the earliest deadline of the keys that clients of a replica have written.
    pub fn next_local(&self) -> Option<Tick> {
        let firsts = self.local.iter().filter_map(LocalKeys::first);
        firsts.map(|(deadline, _)| *deadline).min()
    }

    /// Removes due keys, and due elements of keys, that clients of a replica have written. Returns
    /// true if the budget was used up.
    pub fn expire_local(
        &mut self,
        now: Tick,
        budget: &mut Budget,
        shared: &Shared,
        report: &mut dyn FnMut(Tick, u32),
    ) -> bool {
        for db in 0..self.local.len() {
            let is_due = |first: &&(Tick, Arc<[u8]>)| first.0 < now;
            while let Some((_, name)) = self.local[db].first().filter(is_due).cloned() {
                if !budget.spend() {
                    return true;
                }
                self.local[db].remove(&name);
                self.account(db as u8, shared);
                let key = shared.key(db as u8, &name);
                let Some(data) = &mut self.dbs[db] else {
                    continue;
                };
                let Some(slot) = data.find(key.hash, &name) else {
                    continue;
                };
                let (kept, db) = (IndexState::Indexed, key.db);
                if let Some(slot) = self.expire_due(db, slot, kept, now, budget, shared, report)
                    && let Some(data) = self.db(db)
                    && let Some(next) = data.entries.shape(slot).deadline
                {
                    // With budget left, what is due waits for the index or for a snapshot.
                    let next = if budget.0 > 0 { next.max(now) } else { next };
                    self.insert_local(db, &name, next, shared);
                }
            }
        }
        false
    }
}
