//! Tags of keys, by which keys are invalidated together.
//!
//! [`View::invalidate`] makes all keys of a tag stale at one instant, in a time that does not
//! depend on their number (`cache/src/groups.rs`). Every look-up treats a stale key as one that has
//! expired and removes it; the others are removed by [`Keyspace::expire`], in steps. A removal is
//! an `invalidated` event.
//!
//! A key has its tags until it is removed, or its value is replaced as a whole with a new deadline
//! or none. What keeps the deadline keeps the tags.

use super::{NewDeadline, View};
#[cfg(doc)]
use crate::Keyspace;
use crate::shard::Room;
use crate::shared::Key;
use policy::Slot;

/// Number of bytes that a tag adds to a small entry, for the eviction that makes room for it.
const BYTES_PER_TAG: usize = 16;

impl View<'_> {
    /// Returns the tags of a live key; `None` if there is no such key. Does not count the access.
    pub fn tags(&mut self, key: &Key<'_>) -> Option<Vec<Vec<u8>>> {
        let slot = self.live_or_dead(key, super::Purpose::Read).ok()?;
        Some(self.tags_at(key, slot))
    }

    /// Returns the tags of an entry.
    pub(super) fn tags_at(&mut self, key: &Key<'_>, slot: Slot) -> Vec<Vec<u8>> {
        let mut tags = Vec::new();
        let each = &mut |name: &[u8]| tags.push(name.to_vec());
        self.db(key).each_group(slot, each);
        tags
    }

    /// Gives a live key these tags and no others; those beyond [`crate::TAGS_MAX`] are left out. It
    /// counts as a change, but not as one of the value, so that watchers are not notified. Returns
    /// whether there is such a key.
    pub fn set_tags<T: AsRef<[u8]>>(&mut self, key: &Key<'_>, tags: &[T]) -> bool {
        let Some(slot) = self.live(key) else {
            return false;
        };
        self.set_tags_at(key, slot, tags);
        let locked = self.parts(key).2;
        locked.changes += 1;
        self.changes += 1;
        true
    }

    /// Gives an entry these tags and no others. Returns its slot after the change.
    pub(super) fn set_tags_at<T: AsRef<[u8]>>(
        &mut self,
        key: &Key<'_>,
        slot: Slot,
        tags: &[T],
    ) -> Slot {
        let now = self.now;
        let (space, _, locked) = self.parts(key);
        let shared = space.shared();
        locked.preserve(key.db, slot, shared);
        let db = self.db(key);
        cache::Entries::begin(&mut db.entries, now);
        let slot = db.set_groups(slot, tags.iter().map(AsRef::as_ref));
        let locked = self.parts(key).2;
        locked.account(key.db, shared);
        if !tags.is_empty() {
            let room = Room::written(tags.len() * BYTES_PER_TAG);
            locked.make_room(key.db, room, shared);
        }
        slot
    }

    /// Removes the tags of an entry whose value is replaced as a whole. Returns its slot after the
    /// change.
    #[inline]
    pub(super) fn without_tags(&mut self, key: &Key<'_>, found: Option<Slot>) -> Option<Slot> {
        let slot = found?;
        match self.db(key).has_groups() {
            true => Some(self.set_tags_at::<&[u8]>(key, slot, &[])),
            false => found,
        }
    }

    /// Like [`View::without_tags`], unless the deadline is kept.
    #[inline]
    pub(super) fn retagged(
        &mut self,
        key: &Key<'_>,
        found: Option<Slot>,
        deadline: NewDeadline,
    ) -> Option<Slot> {
        match deadline {
            NewDeadline::Keep => found,
            _ => self.without_tags(key, found),
        }
    }

    /// Gives the key that was just stored the tags of another one.
    pub(super) fn pass_tags(&mut self, key: &Key<'_>, tags: &[Vec<u8>]) {
        if let Some(slot) = self.find(key)
            && (!tags.is_empty() || self.db(key).has_groups())
        {
            self.set_tags_at(key, slot, tags);
        }
    }

    /// Makes the keys of a database that have any of these tags disappear for all following
    /// commands. Returns their number; a key that had two of the tags counts twice. Needs all
    /// shards.
    pub fn invalidate(&mut self, db: u8, tags: &[&[u8]]) -> u64 {
        let (space, now) = (self.space, self.now);
        let mut keys = 0;
        for (shard, locked) in self.all().iter_mut().enumerate() {
            let count = locked.invalidate_tags(db, tags, now, space.shared());
            if count > 0 {
                space.publish_due(shard, locked);
                locked.changes += count;
            }
            keys += count;
        }
        self.changes += u64::from(keys > 0);
        keys
    }

    /// Passes at most `max` keys that have a tag to `each`, in no order. Needs all shards.
    pub fn each_tagged(&mut self, db: u8, tag: &[u8], max: usize, each: &mut dyn FnMut(&[u8])) {
        let now = self.horizon();
        let mut left = max;
        for locked in self.all().iter() {
            let Some(data) = locked.db(db) else { continue };
            data.each_of_group(tag, left, &mut |slot| {
                if left > 0 && !crate::shard::is_dead(data, slot, now) {
                    left -= 1;
                    each(data.entries.key(slot));
                }
            });
        }
    }

    /// Returns the number of keys that have a tag, among them expired ones that are not removed
    /// yet. Needs all shards.
    pub fn tagged_len(&mut self, db: u8, tag: &[u8]) -> usize {
        let dbs = self.all().iter().filter_map(|locked| locked.db(db));
        dbs.map(|data| data.group_len(tag)).sum()
    }
}
