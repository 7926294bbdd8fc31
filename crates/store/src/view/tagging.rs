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
use crate::soft::{Soft, deadline_of, soft_of};
use crate::tagging::{Labels, encode_labels};
use policy::{Slot, Tick};

/// Number of bytes that a tag adds to a small entry, for the eviction that makes room for it.
const BYTES_PER_TAG: usize = 16;

impl View<'_> {
    /// Returns the tags of a live key; `None` if there is no such key. Does not count the access.
    pub fn tags(&mut self, key: &Key<'_>) -> Option<Vec<Vec<u8>>> {
        Some(self.labels(key)?.tags)
    }

    /// Returns the tags and the freshness of a live key; `None` if there is no such key.
    pub fn labels(&mut self, key: &Key<'_>) -> Option<Labels<Vec<u8>>> {
        let slot = self.live_or_dead(key, super::Purpose::Read).ok()?;
        Some(self.labels_at(key, slot))
    }

    /// Returns the tags and the freshness of an entry.
    pub(super) fn labels_at(&mut self, key: &Key<'_>, slot: Slot) -> Labels<Vec<u8>> {
        let mut tags = Vec::new();
        let each = &mut |name: &[u8]| tags.push(name.to_vec());
        let db = self.db(key);
        db.each_group(slot, each);
        let soft = soft_of(db, slot);
        Labels { tags, soft }
    }

    /// Returns the tags and the freshness of a live key as [`crate::decode_labels`] reads them;
    /// nothing if it has none. Does not count the access.
    pub fn encoded_labels(&mut self, key: &Key<'_>) -> Vec<u8> {
        match self.live_or_dead(key, super::Purpose::Read) {
            Ok(slot) => {
                let db = self.db(key);
                encode_labels(db, slot, db.soft_until(slot).is_some())
            }
            Err(_) => Vec::new(),
        }
    }

    /// Gives a live key these tags and no others; those beyond [`crate::TAGS_MAX`] are left out. It
    /// counts as a change, but not as one of the value, so that watchers are not notified. Returns
    /// whether there is such a key.
    pub fn set_tags<T: AsRef<[u8]>>(&mut self, key: &Key<'_>, tags: &[T]) -> bool {
        let soft = self.soft(key).unwrap_or_default();
        let tags = tags.iter().map(AsRef::as_ref).collect();
        self.set_labels(key, &Labels { tags, soft })
    }

    /// Like [`View::set_tags`], for the tags and the freshness.
    pub fn set_labels<T: AsRef<[u8]>>(&mut self, key: &Key<'_>, labels: &Labels<T>) -> bool {
        let Some(mut slot) = self.live(key) else {
            return false;
        };
        if self.db(key).soft_until(slot).is_some() {
            // The entry leaves the groups by which it is stale until an instant.
            let until = deadline_of(self.db(key), slot);
            self.set_deadline(key, until);
            match self.live(key) {
                Some(at) => slot = at,
                None => return false,
            }
        }
        self.set_labels_at(key, slot, labels);
        let locked = self.parts(key).2;
        locked.changes += 1;
        self.changes += 1;
        true
    }

    /// Gives an entry these tags and no others, and this freshness. Returns its slot after the
    /// change.
    fn set_labels_at<T: AsRef<[u8]>>(
        &mut self,
        key: &Key<'_>,
        slot: Slot,
        labels: &Labels<T>,
    ) -> Slot {
        let Labels { tags, soft } = labels;
        let now = self.now;
        let (space, _, locked) = self.parts(key);
        let shared = space.shared();
        locked.preserve(key.db, slot, shared);
        let db = self.db(key);
        cache::Entries::begin(&mut db.entries, now);
        let names = tags.iter().take(crate::TAGS_MAX).map(AsRef::as_ref);
        let slot = db.set_groups(slot, names, soft.note());
        let locked = self.parts(key).2;
        locked.note_change(key, false);
        locked.account(key.db, shared);
        if !tags.is_empty() {
            let room = Room::written(tags.len() * BYTES_PER_TAG);
            locked.make_room(key.db, room, shared);
        }
        slot
    }

    /// Removes the tags and the freshness of an entry whose value is replaced as a whole. Returns
    /// its slot after the change.
    #[inline]
    pub(super) fn without_tags(&mut self, key: &Key<'_>, found: Option<Slot>) -> Option<Slot> {
        let slot = found?;
        match self.db(key).has_groups() {
            true => Some(self.set_labels_at(key, slot, &Labels::<&[u8]>::default())),
            false => found,
        }
    }

    /// Like [`View::without_tags`], unless the deadline is kept. A key with a new value does not
    /// say that there is none.
    #[inline]
    pub(super) fn retagged(
        &mut self,
        key: &Key<'_>,
        found: Option<Slot>,
        deadline: NewDeadline,
    ) -> Option<Slot> {
        match deadline {
            NewDeadline::Keep if found.is_some_and(|slot| self.is_negative(key, slot)) => {
                self.set_soft(key, Soft::default());
                self.live(key)
            }
            NewDeadline::Keep => found,
            _ => self.without_tags(key, found),
        }
    }

    #[inline]
    fn is_negative(&mut self, key: &Key<'_>, slot: Slot) -> bool {
        Soft::of(self.db(key).note(slot)).is_negative
    }

    /// Gives the key that was just stored the tags and the freshness of another one.
    pub(super) fn pass_labels(&mut self, key: &Key<'_>, labels: &Labels<Vec<u8>>) {
        if let Some(slot) = self.find(key)
            && (!labels.is_empty() || self.db(key).has_groups())
        {
            self.set_labels_at(key, slot, labels);
        }
    }

    /// Makes the keys of a database that have any of these tags disappear for all following
    /// commands, or after an instant until which they are stale. Returns their number; a key that
    /// had two of the tags counts twice. Needs all shards.
    pub fn invalidate(&mut self, db: u8, tags: &[&[u8]], soft_until: Option<Tick>) -> u64 {
        let (space, now) = (self.space, self.now);
        let (mut keys, mut is_changed) = (0, false);
        for (shard, locked) in self.all().iter_mut().enumerate() {
            let (count, has_changed) =
                locked.invalidate_tags(db, tags, soft_until, now, space.shared());
            if has_changed {
                space.publish_due(shard, locked);
                locked.changes += count.max(1);
            }
            keys += count;
            is_changed |= has_changed;
        }
        self.changes += u64::from(is_changed);
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
