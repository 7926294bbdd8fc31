//! Keys whose tag was invalidated: hiding them at one instant, and removing them in steps.

use super::{Locked, Removal, WATCHED_LOOKUPS_MAX};
use crate::shared::Shared;
use crate::waiting::DbKey;
use policy::{Budget, Tick};
use std::sync::atomic::Ordering;

impl Locked {
    /// Removes keys with invalidated tags, one in each step of the budget, among them those that
    /// were stale until an instant before `until`. Returns true if the budget was used up.
    pub fn remove_invalidated(
        &mut self,
        until: Tick,
        budget: &mut Budget,
        shared: &Shared,
    ) -> bool {
        for db in 0..self.dbs.len() {
            if let Some(data) = &mut self.dbs[db] {
                data.end_soft(until, &mut budget.0);
            }
            while let Some(data) = self.dbs[db].as_mut().filter(|data| data.has_stale()) {
                if budget.0 == 0 {
                    return true;
                }
                let Some(slot) = data.next_stale(&mut budget.0) else {
                    if budget.0 == 0 {
                        return true;
                    }
                    break;
                };
                budget.0 -= 1;
                self.remove_entry(db as u8, slot, Removal::Invalidated, shared);
                self.account(db as u8, shared);
            }
        }
        self.stale_since = None;
        false
    }

    /// Makes the keys of tags disappear, and fails the transactions that watch them; or makes them
    /// stale until an instant, after which they disappear. Returns the number of keys, and whether
    /// there is a change; a key that had two of the tags counts twice.
    pub fn invalidate_tags(
        &mut self,
        db: u8,
        tags: &[&[u8]],
        soft_until: Option<Tick>,
        now: Tick,
        shared: &Shared,
    ) -> (u64, bool) {
        if let Some(leases) = &mut self.leases {
            tags.iter().for_each(|tag| leases.invalidated(db, tag));
        }
        let Some(Some(data)) = self.dbs.get_mut(db as usize) else {
            return (0, false);
        };
        if let Some(until) = soft_until {
            return tags.iter().fold((0, false), |(keys, has_changed), tag| {
                let (members, are_shorter) = data.soften(tag, until);
                (keys + members, has_changed | are_shorter | (members > 0))
            });
        }
        let keys: u64 = tags.iter().map(|tag| data.dissolve(tag)).sum();
        if keys > 0 {
            self.stale_since.get_or_insert(now);
            self.mark_stale_watchers(db, shared);
        }
        (keys, keys > 0)
    }

    /// Fails the transactions that watch keys with invalidated tags. After [`WATCHED_LOOKUPS_MAX`]
    /// look-ups they fail without one.
    fn mark_stale_watchers(&self, db: u8, shared: &Shared) {
        let of_db = self.watched.range::<DbKey, _>((db, Box::default())..);
        let of_db = of_db.take_while(|(name, _)| name.0 == db);
        for (lookups, ((_, bytes), flags)) in of_db.enumerate() {
            let hash = shared.key(db, bytes).hash;
            let is_stale = || {
                let data = self.db(db)?;
                Some(data.is_stale(data.find(hash, bytes)?))
            };
            if lookups >= WATCHED_LOOKUPS_MAX as usize || is_stale() == Some(true) {
                for flag in flags {
                    flag.store(true, Ordering::Relaxed);
                }
            }
        }
    }
}
