//! The consistency check of a shard, for tests.

use super::local::LocalKeys;
use super::{Locked, edit};
use cache::Outside;

impl Locked {
    /// Panics if a structure is inconsistent.
    pub fn check(&mut self) {
        if let Some(tracked) = &self.tracked {
            tracked.check();
        }
        if let Some(leases) = &self.leases {
            leases.check();
        }
        for (db, bytes) in self.dbs.iter_mut().zip(&self.db_bytes) {
            if let Some(db) = db {
                db.check();
                edit::check(db);
            } else {
                assert_eq!(*bytes, 0);
            }
        }
        assert_eq!(self.db_bytes.iter().sum::<u64>(), self.used_bytes);
        self.local.iter().for_each(LocalKeys::check);
        self.check_classes();
        let small = self.deferred.iter().map(|o| o.heap_bytes() as u64);
        let large = self.deferred_large.iter().map(|waste| waste.bytes);
        let flushed = self.flushed.iter().map(|waste| waste.bytes);
        let pending: u64 = small.chain(large).chain(flushed).sum();
        assert_eq!(pending, self.pending_bytes);
    }
}
