//! Memory limits of single databases. Classes of whole databases set them (`classes.rs`).
//!
//! What evicts from what:
//!
//! - A write to a database over its own maximum evicts from that database, by the database's
//!   policy, and is refused if there is nothing to evict.
//! - While all memory is over its limit, a write evicts from its own database first, and then from
//!   the others in ascending order. A database at or below its minimum loses no entry to that, and
//!   one whose policy is `noeviction` never does.
//!
//! The bytes of a database are summed over its shards. A shard publishes its change when that
//! exceeds a part of the maximum, so that the sum is off by a 64th of the maximum at most.

use crate::memory::SLACK_BYTES;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Part of the maximum by which the sum of a database's bytes may be off.
const SLACK_PART: u64 = 64;

/// Memory limits of a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DbLimits {
    /// Bytes that the database keeps while others grow; 0 for none.
    pub min_bytes: u64,
    /// Maximum number of bytes; 0 means no limit.
    pub max_bytes: u64,
}

/// Why writes to a database are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// All memory is over its limit.
    Memory,
    /// The database is over its own limit.
    Database,
}

impl DbLimits {
    fn is_empty(&self) -> bool {
        *self == DbLimits::default()
    }
}

/// Facts about the limits of a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaFacts {
    /// The limits.
    pub limits: DbLimits,
    /// Bytes of the database: keys and values with their places in tables, indexes and policies.
    pub used_bytes: u64,
    /// Number of commands that were refused because the database was full.
    pub refused: u64,
}

#[derive(Debug, Default)]
struct Quota {
    min_bytes: AtomicU64,
    max_bytes: AtomicU64,
    /// Maximum number of bytes of a value; 0 means no limit.
    value_bytes_max: AtomicU64,
    used_bytes: AtomicU64,
    refused: AtomicU64,
}

/// The limits of all databases.
#[derive(Debug, Default)]
pub(crate) struct Quotas {
    /// By database. Absent until a class sets limits or a policy.
    dbs: OnceLock<Box<[Quota]>>,
    /// Whether the limits do not hold: a replica or the load of a file follows others.
    is_ignored: AtomicBool,
    /// Names of the classes that have set limits, by database.
    names: Mutex<BTreeMap<u8, String>>,
}

impl Quotas {
    /// Whether a class has ever set limits or a policy, so that shards publish the bytes of
    /// databases.
    #[inline]
    pub fn are_kept(&self) -> bool {
        self.dbs.get().is_some()
    }

    #[inline]
    fn kept(&self, db: u8) -> Option<&Quota> {
        self.dbs.get()?.get(usize::from(db))
    }

    #[inline]
    fn in_force(&self, db: u8) -> Option<&Quota> {
        self.kept(db).filter(|_| !self.is_ignored.load(Relaxed))
    }

    pub fn set_ignored(&self, is_ignored: bool) {
        self.is_ignored.store(is_ignored, Relaxed);
    }

    /// Returns the limits of an annex, which limit single values only.
    pub fn annex(&self) -> Quotas {
        let annex = Quotas::default();
        annex.set_ignored(self.is_ignored.load(Relaxed));
        if let Some(dbs) = self.dbs.get() {
            let dbs = dbs.iter().map(|quota| Quota {
                value_bytes_max: AtomicU64::new(quota.value_bytes_max.load(Relaxed)),
                ..Quota::default()
            });
            let _ = annex.dbs.set(dbs.collect());
        }
        annex
    }

    fn names(&self) -> MutexGuard<'_, BTreeMap<u8, String>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the limits of all databases, with the names of their classes. `used_bytes` returns the
    /// bytes of a database, which all shards have published.
    pub fn set(
        &self,
        databases: usize,
        limits: BTreeMap<u8, (String, DbLimits)>,
        used_bytes: impl Fn(u8) -> u64,
    ) {
        if !self.are_kept() && limits.is_empty() {
            return;
        }
        let dbs = self.dbs.get_or_init(|| {
            let dbs = (0..databases).map(|_| Quota::default());
            dbs.collect()
        });
        for (number, quota) in dbs.iter().enumerate() {
            let number = number as u8;
            let own = limits.get(&number).map(|(_, limits)| *limits);
            let own = own.unwrap_or_default();
            quota.used_bytes.store(used_bytes(number), Relaxed);
            quota.min_bytes.store(own.min_bytes, Relaxed);
            quota.max_bytes.store(own.max_bytes, Relaxed);
            quota.value_bytes_max.store(own.max_bytes, Relaxed);
        }
        let named = limits.into_iter().map(|(db, (name, _))| (db, name));
        *self.names() = named.collect();
    }

    /// Counts a refused write to a database. Returns the name of the class that limits it.
    pub fn refuse(&self, db: u8) -> Option<String> {
        if let Some(quota) = self.kept(db) {
            quota.refused.fetch_add(1, Relaxed);
        }
        self.names().get(&db).cloned()
    }

    /// Whether a database would exceed its maximum with this many more bytes.
    #[inline]
    pub fn lacks(&self, db: u8, more_bytes: u64) -> bool {
        self.in_force(db).is_some_and(|quota| {
            let max = quota.max_bytes.load(Relaxed);
            max > 0 && quota.used_bytes.load(Relaxed).saturating_add(more_bytes) > max
        })
    }

    /// Whether a database holds at most its minimum, so that others must not evict from it.
    #[inline]
    pub fn spares(&self, db: u8) -> bool {
        self.in_force(db).is_some_and(|quota| {
            let min = quota.min_bytes.load(Relaxed);
            min > 0 && quota.used_bytes.load(Relaxed) <= min
        })
    }

    /// Whether a database can hold a value of this many bytes.
    #[inline]
    pub fn can_hold(&self, db: u8, bytes: u64) -> bool {
        self.in_force(db).is_none_or(|quota| {
            let max = quota.value_bytes_max.load(Relaxed);
            max == 0 || bytes <= max
        })
    }

    /// Returns the bytes that entries of a shard can have, of which a database has `bytes` now, if
    /// all its shards grow in proportion. `None` without a maximum.
    pub fn capacity(&self, db: u8, bytes: u64) -> Option<u64> {
        let quota = self.in_force(db)?;
        let max = Some(quota.max_bytes.load(Relaxed)).filter(|max| *max > 0)?;
        let used = quota.used_bytes.load(Relaxed).max(bytes).max(1);
        Some((u128::from(max) * u128::from(bytes) / u128::from(used)) as u64)
    }

    /// Returns the published bytes of a database.
    pub fn used_bytes(&self, db: u8) -> u64 {
        self.kept(db)
            .map_or(0, |quota| quota.used_bytes.load(Relaxed))
    }

    /// Returns the change of a database's bytes that one of `shards` shards need not publish.
    pub fn slack_bytes(&self, db: u8, shards: usize) -> u64 {
        match self.kept(db).map(|quota| quota.max_bytes.load(Relaxed)) {
            None | Some(0) => SLACK_BYTES,
            Some(max) => SLACK_BYTES.min(max / SLACK_PART / shards as u64),
        }
    }

    /// Publishes that the bytes of a database in one shard have changed.
    pub fn publish(&self, db: u8, old: u64, new: u64) {
        if let Some(quota) = self.kept(db) {
            // The addition wraps, as in `Memory::publish`.
            quota.used_bytes.fetch_add(new.wrapping_sub(old), Relaxed);
        }
    }

    /// Returns facts about a database; `None` if it has no limits.
    pub fn facts(&self, db: u8) -> Option<QuotaFacts> {
        let quota = self.kept(db)?;
        let limits = DbLimits {
            min_bytes: quota.min_bytes.load(Relaxed),
            max_bytes: quota.max_bytes.load(Relaxed),
        };
        (!limits.is_empty()).then(|| QuotaFacts {
            limits,
            used_bytes: quota.used_bytes.load(Relaxed),
            refused: quota.refused.load(Relaxed),
        })
    }

    /// Sets the counts of refused commands to 0.
    pub fn reset(&self) {
        for quota in self.dbs.get().into_iter().flatten() {
            quota.refused.store(0, Relaxed);
        }
    }
}
