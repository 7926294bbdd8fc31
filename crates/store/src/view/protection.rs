//! Protection of keys from eviction (BLESS).
//!
//! A key is protected until it is removed: a new value does not end the protection, and a rename
//! takes it along. A protected entry costs no byte (`cache/src/shard/protection.rs`).

use super::{Purpose, View};
use crate::shared::Key;
use policy::Slot;

impl View<'_> {
    /// Returns whether a live key is protected from eviction; `None` if there is no such key. Does
    /// not count the access.
    pub fn is_protected(&mut self, key: &Key<'_>) -> Option<bool> {
        let slot = self.live_or_dead(key, Purpose::Read).ok()?;
        Some(self.db(key).is_protected(slot))
    }

    /// Protects a live key from eviction, or ends the protection. Returns whether that is a change;
    /// `None` if there is no such key. It does not count as a change of the value, so that watchers
    /// are not notified.
    pub fn protect(&mut self, key: &Key<'_>, is_protected: bool) -> Option<bool> {
        let slot = self.live(key)?;
        if self.db(key).is_protected(slot) == is_protected {
            return Some(false);
        }
        self.protect_at(key, slot, is_protected);
        self.parts(key).2.changes += 1;
        self.changes += 1;
        Some(true)
    }

    /// Gives the key that was just stored the protection of another one.
    pub(super) fn pass_protection(&mut self, key: &Key<'_>, is_protected: bool) {
        if let Some(slot) = self.find(key)
            && self.db(key).is_protected(slot) != is_protected
        {
            self.protect_at(key, slot, is_protected);
        }
    }

    fn protect_at(&mut self, key: &Key<'_>, slot: Slot, is_protected: bool) {
        let now = self.now;
        let (space, _, locked) = self.parts(key);
        let shared = space.shared();
        locked.preserve(key.db, slot, shared);
        let db = self.db(key);
        cache::Entries::begin(&mut db.entries, now);
        db.protect(slot, is_protected);
        let locked = self.parts(key).2;
        locked.note_change(key, false);
        locked.account(key.db, shared);
    }

    /// Passes the protected keys of a database among about `count` keys, beginning at `cursor`, to
    /// `each`. Returns the next cursor, 0 at the end. Needs all shards.
    pub fn scan_protected(
        &mut self,
        db: u8,
        cursor: u64,
        count: usize,
        each: &mut dyn FnMut(&[u8]),
    ) -> u64 {
        self.scan_slots(db, cursor, count, &mut |data, slot| {
            if data.is_protected(slot) {
                each(data.entries.key(slot));
            }
        })
    }
}
