//! Which engine holds the keys, for those who ask both the same: INFO, `stats`, the worker's chores.
//!
//! A request meets its engine in `dispatch`; deadlines meet theirs in `expiry`.

pub mod segment;

use crate::state::Server;
use store::{Counters, DATABASES, DbFacts, MemoryFacts, Tick};

impl Server {
    /// Bytes.
    pub fn memory_facts(&self) -> MemoryFacts {
        match &self.segments {
            Some(segments) => segments.memory_facts(),
            None => self.keyspace.memory_facts(),
        }
    }

    /// Bytes of the keys and all that finds them; cheap enough to be asked often.
    pub fn engine_bytes(&self) -> u64 {
        match &self.segments {
            Some(segments) => segments.cache.memory_bytes(),
            None => self.keyspace.memory_facts().used_bytes,
        }
    }

    /// The keys of a database.
    pub fn db_facts(&self, db: u8, now: Tick) -> DbFacts {
        match &self.segments {
            Some(segments) if db == 0 => segments.db_facts(now),
            Some(_) => DbFacts::default(),
            None => self.keyspace.db_facts(db, now),
        }
    }

    /// Keys of all databases.
    pub fn key_count(&self, now: Tick) -> u64 {
        let keys = |db| self.db_facts(db, now).keys;
        (0..DATABASES as u8).map(keys).sum()
    }

    /// What happened since the start or CONFIG RESETSTAT.
    pub fn counters(&self) -> Counters {
        match &self.segments {
            Some(segments) => segments.counters(&self.stats),
            None => self.keyspace.counters(),
        }
    }

    /// Counters begin at 0 again.
    pub fn reset_counters(&self) {
        match &self.segments {
            Some(segments) => segments.reset_counters(),
            None => self.keyspace.reset_counters(),
        }
    }

    /// What decides which keys go when memory is full.
    pub fn eviction_name(&self) -> String {
        match &self.segments {
            Some(_) => crate::info::segment::eviction(self).to_owned(),
            None => self.keyspace.policy().name,
        }
    }

    /// Empties a database, with no shard locked.
    pub fn flush(&self, db: u8, now: Tick) {
        match &self.segments {
            Some(segments) => segments.cache.clear(),
            None => self.keyspace.lock_all(now).flush(db),
        }
    }
}
