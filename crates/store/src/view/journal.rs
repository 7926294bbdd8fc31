//! Recording of removals by expiry and eviction.

use super::View;
use crate::journal::Removed;
use crate::keyspace::Keyspace;
use crate::shard::{IndexState, Locked};
use crate::shared::{Db, Key};
use cache::Value;
use policy::Budget;
use std::sync::atomic::Ordering;

/// Maximum number of expired elements that [`View::purge_some`] removes.
pub const PURGED_MAX: u32 = 1024;

impl View<'_> {
    /// Sets whether removals by expiry and eviction are recorded. What was recorded and not taken
    /// is dropped with the end of recording. Needs all shards.
    pub fn set_recording(&mut self, on: bool) {
        for locked in self.all() {
            match on {
                true => drop(locked.journal.get_or_insert_default()),
                false => locked.journal = None,
            }
        }
    }

    /// Whether removals are recorded in the locked shards.
    pub fn records(&mut self) -> bool {
        let mut records = false;
        self.each_locked(|locked| records |= locked.journal.is_some());
        records
    }

    /// Records removals, if removals are recorded.
    pub fn record(&mut self, removed: impl IntoIterator<Item = Removed>) {
        for one in removed {
            let key = self.space.key(one.db, &one.key);
            if let Some(journal) = &mut self.parts(&key).2.journal {
                journal.push(one);
            }
        }
    }

    /// Moves the recorded removals of the locked shards to `into`. Those of one key are in their
    /// order.
    pub fn take_removed(&mut self, into: &mut Vec<Removed>) {
        self.each_locked(|locked| {
            if let Some(journal) = &mut locked.journal
                && !journal.is_empty()
            {
                into.append(journal);
            }
        });
    }

    /// Whether removals of the locked shards were recorded and not taken.
    pub fn has_removed(&mut self) -> bool {
        let mut has_some = false;
        self.each_locked(|locked| {
            has_some |= locked
                .journal
                .as_ref()
                .is_some_and(|journal| !journal.is_empty());
        });
        has_some
    }

    /// Whether a large collection with deadlines of elements was ever stored.
    #[inline]
    pub fn has_timed_collections(&self) -> bool {
        self.space
            .shared()
            .has_timed_collections
            .load(Ordering::Relaxed)
    }

    /// Removes at most `PURGED_MAX` expired elements of a large collection. Returns whether more
    /// are left. The next access to the collection would remove all of them, because removals are
    /// recorded.
    pub fn purge_some(&mut self, key: &Key<'_>) -> bool {
        let now = self.horizon;
        let (space, shard, locked) = self.parts(key);
        let shared = space.shared();
        let Some(db) = locked.dbs.get_mut(key.db as usize).and_then(Option::as_mut) else {
            return false;
        };
        let is_due = |db: &Db, slot| db.entries.shape(slot).deadline.is_some_and(|at| now > at);
        let Some(slot) = db
            .find(key.hash, key.bytes)
            .filter(|slot| is_due(db, *slot))
        else {
            return false;
        };
        let is_large =
            matches!(db.value(slot), Value::Outside(object) if object.deadlines().is_some());
        let has_own = db.entries.own_deadline(slot).is_some_and(|own| now > own);
        if !is_large
            || has_own
            || locked.journal.is_none()
            || shared.removal_instant(now) < now
            || locked.is_unsaved_large(key.db, slot)
        {
            return false;
        }
        let (kept, mut budget) = (IndexState::Indexed, Budget(PURGED_MAX));
        let slot = locked.expire_due(key.db, slot, kept, now, &mut budget, shared, &mut |_, _| {});
        space.publish_deadline(shard, key.db, locked);
        slot.is_some_and(|slot| {
            let db = locked.db(key.db).expect("the database holds the slot");
            is_due(db, slot)
        })
    }

    /// Counts that pending entries of a stream were delivered again. Readers of the record repeat
    /// it. As in Redis, the key does not count as written: watchers and clients that cache it are
    /// not notified.
    pub fn count_redelivery(&mut self) {
        self.changes += 1;
    }

    /// Returns the number of changes by commands through this view. Shards that it has released and
    /// locked again count.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes
    }
}

impl Keyspace {
    /// Whether removals of a shard were recorded and not taken. Does not wait: the answer for a
    /// locked shard is no, because its next command takes them.
    pub fn has_removed(&self, shard: usize) -> bool {
        let has_some = |locked: &Locked| locked.journal.as_ref().is_some_and(|j| !j.is_empty());
        self.try_guard(shard)
            .is_some_and(|locked| has_some(&locked))
    }
}
