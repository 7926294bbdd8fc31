//! Statistics of classes: what a shard notes about its entries while classes are defined.

use super::Locked;
use crate::classes::{Classes, Gone, ShardClasses};
use crate::shared::{Db, Key, Shared};
use policy::{Slot, Tick};
use std::sync::Arc;

fn each_db(dbs: &[Option<Box<Db>>]) -> impl Iterator<Item = Option<&Db>> {
    dbs.iter().map(Option::as_deref)
}

impl Locked {
    /// Defines the classes. The present entries are counted by background work.
    pub fn set_classes(&mut self, classes: &Arc<Classes>, shared: &Shared) {
        let before = self.classes.take();
        let before_bytes = before.as_ref().map_or(0, |one| one.bytes());
        if !classes.rules().is_empty() {
            self.classes = Some(Box::new(ShardClasses::new(
                classes,
                shared.databases,
                before.map(|one| *one),
            )));
            self.recount_classes();
        }
        shared.memory.publish(before_bytes, self.class_bytes());
    }

    /// Returns the bytes of the statistics of classes.
    pub fn class_bytes(&self) -> u64 {
        self.classes.as_ref().map_or(0, |classes| classes.bytes())
    }

    /// Counts the present entries again, after changes of many entries that were not noted.
    pub fn recount_classes(&mut self) {
        if let Some(classes) = &mut self.classes {
            classes.restart(each_db(&self.dbs));
        }
    }

    /// Counts some of the present entries. Returns whether there are more.
    pub fn count_classes(&mut self, steps: u32) -> bool {
        let dbs = &self.dbs;
        self.classes.as_mut().is_some_and(|classes| {
            classes.count_present(steps, |db| dbs.get(db).map(Option::as_deref))
        })
    }

    /// Adds the change of an entry's bytes, or a new entry, to the class of its key.
    #[inline(always)]
    pub fn note_change(&mut self, key: &Key<'_>, is_new: bool) {
        if self.classes.is_some() {
            self.note_change_in_class(key, is_new);
        }
    }

    #[inline(never)]
    fn note_change_in_class(&mut self, key: &Key<'_>, is_new: bool) {
        if let (Some(classes), Some(Some(data))) =
            (&mut self.classes, self.dbs.get(key.db as usize))
        {
            classes.changed((key.db, key.hash, key.bytes), is_new, data);
        }
    }

    /// Like [`Locked::note_change`], for the entry in a slot.
    pub fn note_change_at(&mut self, db: u8, slot: Slot) {
        if let (Some(classes), Some(Some(data))) = (&mut self.classes, self.dbs.get(db as usize)) {
            let key = data.entries.key(slot);
            classes.changed((db, data.entries.hash(key), key), false, data);
        }
    }

    /// Notes that an entry will be removed for this reason.
    #[inline(always)]
    pub fn note_removal(&mut self, db: u8, slot: Slot, gone: Gone) {
        if self.classes.is_some() {
            self.note_removal_in_class(db, slot, gone);
        }
    }

    #[inline(never)]
    fn note_removal_in_class(&mut self, db: u8, slot: Slot, gone: Gone) {
        if let (Some(classes), Some(Some(data))) = (&mut self.classes, self.dbs.get(db as usize)) {
            let key = data.entries.key(slot);
            let name = (db, data.entries.hash(key), key);
            classes.removed(name, data.entries.bytes_of(slot), gone, data);
        }
    }

    /// Counts the TTL of a key whose deadline is set.
    #[inline]
    pub fn note_ttl(&mut self, key: &Key<'_>, deadline: Tick, now: Tick) {
        self.lifetimes.deadline_set(deadline, now);
        if let Some(classes) = &mut self.classes {
            classes.deadline_set(key.db, key.bytes, deadline, now);
        }
    }

    /// Notes that an entry whose own deadline has passed will be removed at `now`.
    pub fn note_lateness(&mut self, db: u8, slot: Slot, now: Tick) {
        if let (Some(classes), Some(Some(data))) = (&mut self.classes, self.dbs.get(db as usize))
            && let Some(deadline) = data.entries.own_deadline(slot)
        {
            let late_ms = now.0.saturating_sub(deadline.0);
            classes.expired_late(db, data.entries.key(slot), late_ms);
        }
    }

    /// Panics if the statistics of classes are not those of the present entries.
    pub fn check_classes(&self) {
        if let Some(classes) = &self.classes {
            classes.check(each_db(&self.dbs));
        }
    }
}
