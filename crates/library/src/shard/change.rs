//! Changes of one entry: insertion, replacement, removal, and a new deadline.

use super::{KeysOf, Leaving, Shard, Writer};
use crate::cause::Cause;
use crate::core::{deadline_in, word_of};
use crate::rows::Rows;
use policy::Tick;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Number of due entries that an insertion removes itself if the cache has no timer.
const BESIDES: u32 = 16;

/// Deadlines and weight with which an entry is stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub deadline: Option<Tick>,
    /// Latest deadline that reads can set; used only by caches with idle times.
    pub limit: Option<Tick>,
    /// Weight of the entry, at least 1.
    pub weight: u32,
}

/// Result of [`Shard::insert`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Inserted {
    New,
    Replaced,
    /// The entry was not stored.
    Rejected,
    /// The expected entry is no longer there. Nothing has changed.
    Conflict,
}

/// Entry that a change expects to find under its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Expect {
    Anything,
    /// No live entry.
    Nothing,
    /// The pair in this slot, which a pinned thread has read.
    Slot(u32),
    /// The entry that was there when the load with this number began; see [`Loads`].
    Unchanged(u64),
}

/// Result of [`Shard::remove`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Removed {
    Entry,
    /// The key has no live entry.
    Nothing,
    /// The expected entry is no longer there. Nothing has changed.
    Conflict,
}

impl<K, V> Shard<K, V> {
    /// Inserts or replaces an entry.
    #[expect(clippy::too_many_arguments, reason = "the parts of one change")]
    pub(crate) fn insert<H: Fn(&K) -> u64>(
        &self,
        hash: u64,
        key: K,
        value: V,
        terms: Terms,
        expect: Expect,
        now: Tick,
        hash_of: &H,
        leaving: &mut Leaving<K, V>,
    ) -> (Inserted, Option<(K, V)>)
    where
        K: Eq,
    {
        let mut guard = self.writer();
        let writer = &mut *guard;
        let found = self
            .map
            .find_held(&writer.map_state, hash, |other| *other == key)
            .map(|found| (found.position, found.slot));
        let is_expected = match (expect, found) {
            (Expect::Anything, _) => true,
            (Expect::Nothing, None) => true,
            (Expect::Nothing, Some((_, slot))) => self.is_dead(slot, now),
            (Expect::Slot(expected), found) => found.is_some_and(|(_, slot)| slot == expected),
            (Expect::Unchanged(load), _) => writer.loads.is_current(hash, load),
        };
        if !is_expected {
            return (Inserted::Conflict, Some((key, value)));
        }
        if found.is_none() {
            // The caller's hash function may panic here, before any entry has left.
            self.grow(writer, hash_of, now);
        }
        self.replay(writer, hash_of, now);
        writer.core.begin();
        if self.due.load(Relaxed) <= now.0 {
            // The present entry of the key may be due itself. Then it counts as absent.
            self.expire_some(writer, now, BESIDES, hash_of, leaving);
        }
        let found = found.filter(|&(position, slot)| {
            self.map.tables(&writer.map_state).slot_at(position) == Some(slot)
        });
        if found.is_none() && matches!(expect, Expect::Slot(_)) {
            self.publish(writer);
            return (Inserted::Conflict, Some((key, value)));
        }
        writer.loads.changed(hash);
        let found = found.map(|(position, _)| position);
        let inserted = self.place(
            writer,
            hash,
            (key, value),
            terms,
            found,
            now,
            hash_of,
            leaving,
        );
        self.map
            .reclaim(&mut writer.map_state, false, &mut leaving.garbage);
        self.publish(writer);
        (inserted, None)
    }

    /// Stores a pair at the position of its key or as a new entry, or rejects it.
    #[expect(clippy::too_many_arguments, reason = "the parts of one change")]
    fn place<H: Fn(&K) -> u64>(
        &self,
        writer: &mut Writer,
        hash: u64,
        (key, value): (K, V),
        terms: Terms,
        found: Option<u32>,
        now: Tick,
        hash_of: &H,
        leaving: &mut Leaving<K, V>,
    ) -> Inserted {
        let is_too_heavy = u64::from(terms.weight) > writer.core.capacity;
        let is_dead = terms.deadline.is_some_and(|deadline| deadline < now);
        writer.core.departures.too_heavy += u64::from(is_too_heavy);
        match found {
            Some(position) if is_too_heavy || is_dead => {
                let slot = self.map.tables(&writer.map_state).slot_at(position);
                let cause = match slot.is_some_and(|slot| self.is_dead(slot, now)) {
                    true => Cause::Expired,
                    false => Cause::Replaced,
                };
                self.remove_at(writer, position, cause, hash_of, now, leaving);
                let cause = if is_dead {
                    Cause::Expired
                } else {
                    Cause::Evicted
                };
                self.reject(writer, key, value, cause, leaving);
                Inserted::Rejected
            }
            Some(position) => {
                self.replace(writer, position, key, value, terms, hash_of, now, leaving);
                self.make_room(writer, 0, hash_of, now, leaving);
                Inserted::Replaced
            }
            None if is_too_heavy || is_dead || !self.admits(writer, hash, terms, hash_of, now) => {
                let cause = if is_dead {
                    Cause::Expired
                } else {
                    Cause::Evicted
                };
                self.reject(writer, key, value, cause, leaving);
                Inserted::Rejected
            }
            None => {
                self.make_room(writer, u64::from(terms.weight), hash_of, now, leaving);
                self.add(writer, hash, key, value, terms, hash_of, now);
                Inserted::New
            }
        }
    }

    fn admits<H: Fn(&K) -> u64>(
        &self,
        writer: &mut Writer,
        hash: u64,
        terms: Terms,
        hash_of: &H,
        now: Tick,
    ) -> bool {
        view!(view = self, writer, hash_of, now);
        writer.core.admits(&view, hash, terms.weight)
    }

    fn reject(
        &self,
        writer: &mut Writer,
        key: K,
        value: V,
        cause: Cause,
        leaving: &mut Leaving<K, V>,
    ) {
        writer.core.departures.rejected += 1;
        leaving.rejected = Some((key, value, cause));
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one change")]
    fn add<H: Fn(&K) -> u64>(
        &self,
        writer: &mut Writer,
        hash: u64,
        key: K,
        value: V,
        terms: Terms,
        hash_of: &H,
        now: Tick,
    ) {
        let prepare = |rows: &Rows, slot| store_terms(rows, slot, terms, 0);
        let (position, _) = self
            .map
            .insert(&mut writer.map_state, hash, key, value, prepare);
        view!(view = self, writer, hash_of, now);
        writer.core.inserted(&mut view, position);
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one change")]
    fn replace<H: Fn(&K) -> u64>(
        &self,
        writer: &mut Writer,
        position: u32,
        key: K,
        value: V,
        terms: Terms,
        hash_of: &H,
        now: Tick,
        leaving: &mut Leaving<K, V>,
    ) {
        if terms.deadline.is_none() {
            view!(view = self, writer, hash_of, now);
            writer.core.unfile(&mut view, position);
        }
        let mut old = (None, 1);
        let prepare = |rows: &Rows, from: u32, to: u32| {
            let word = match rows.columns().has_deadlines {
                true => rows.deadline(from).load(Acquire),
                false => 0,
            };
            old = (
                deadline_in(word),
                rows.weight(from).map_or(1, |w| w.load(Relaxed)),
            );
            // The entry stays in the index where it is filed.
            store_terms(rows, to, terms, word & 0xffff);
        };
        let (_, loose) = self
            .map
            .replace(&mut writer.map_state, position, key, value, prepare);
        let (deadline, weight) = old;
        let cause = match deadline {
            Some(deadline) if deadline < now => Cause::Expired,
            _ => Cause::Replaced,
        };
        {
            view!(view = self, writer, hash_of, now);
            if terms.deadline.is_some() {
                writer.core.refiled(&mut view, position, deadline);
            }
            writer.core.reweighed(&mut view, position, weight);
            writer.core.hit(&mut view, position);
        }
        writer.core.departures.by_cause[cause as usize] += 1;
        writer.core.departures.inserted += 1;
        self.depart(writer, loose, cause, leaving);
    }

    /// Removes the entry of a key if it is the expected one.
    pub(crate) fn remove<H: Fn(&K) -> u64>(
        &self,
        hash: u64,
        is_key: impl FnMut(&K) -> bool,
        expect: Expect,
        now: Tick,
        hash_of: &H,
        leaving: &mut Leaving<K, V>,
    ) -> Removed {
        let mut guard = self.writer();
        let writer = &mut *guard;
        let found = self
            .map
            .find_held(&writer.map_state, hash, is_key)
            .map(|found| (found.position, found.slot));
        let is_expected = match expect {
            Expect::Anything => true,
            Expect::Nothing => found.is_none_or(|(_, slot)| self.is_dead(slot, now)),
            Expect::Slot(expected) => found.is_some_and(|(_, slot)| slot == expected),
            Expect::Unchanged(load) => writer.loads.is_current(hash, load),
        };
        if !is_expected {
            return Removed::Conflict;
        }
        writer.loads.changed(hash);
        let Some((position, slot)) = found else {
            return Removed::Nothing;
        };
        let is_dead = self.is_dead(slot, now);
        let cause = if is_dead {
            Cause::Expired
        } else {
            Cause::Removed
        };
        self.remove_at(writer, position, cause, hash_of, now, leaving);
        self.map
            .reclaim(&mut writer.map_state, false, &mut leaving.garbage);
        self.publish(writer);
        if is_dead {
            Removed::Nothing
        } else {
            Removed::Entry
        }
    }

    pub(super) fn remove_at<H: Fn(&K) -> u64>(
        &self,
        writer: &mut Writer,
        position: u32,
        cause: Cause,
        hash_of: &H,
        now: Tick,
        leaving: &mut Leaving<K, V>,
    ) {
        {
            view!(view = self, writer, hash_of, now);
            writer.core.forget(&mut view, position);
            writer.core.unfile(&mut view, position);
        }
        self.unlink(writer, position, cause, leaving);
    }

    /// Sets the deadline of an entry that the caller found while pinned. Returns false if the entry
    /// has left meanwhile.
    pub(crate) fn set_deadline<H: Fn(&K) -> u64>(
        &self,
        position: u32,
        slot: u32,
        deadline: Option<Tick>,
        limit: Option<Tick>,
        hash_of: &H,
        now: Tick,
    ) -> bool {
        let mut guard = self.writer();
        let writer = &mut *guard;
        if self.map.tables(&writer.map_state).slot_at(position) != Some(slot) {
            return false;
        }
        view!(view = self, writer, hash_of, now);
        let rows = self.map.rows();
        if let Some(word) = rows.limit(slot) {
            word.store(word_of(limit), Release);
        }
        if deadline.is_none() {
            writer.core.unfile(&mut view, position);
            rows.deadline(slot).store(0, Release);
        } else {
            let mut old = None;
            let _ = rows.deadline(slot).fetch_update(Release, Acquire, |word| {
                old = deadline_in(word);
                Some(word_of(deadline) | word & 0xffff)
            });
            writer.core.refiled(&mut view, position, old);
        }
        self.publish(writer);
        true
    }
}

fn store_terms(rows: &Rows, slot: u32, terms: Terms, link: u64) {
    if rows.columns().has_deadlines {
        rows.deadline(slot)
            .store(word_of(terms.deadline) | link, Relaxed);
    }
    if let Some(word) = rows.limit(slot) {
        word.store(word_of(terms.limit), Relaxed);
    }
    if let Some(word) = rows.weight(slot) {
        word.store(terms.weight, Relaxed);
    }
}
