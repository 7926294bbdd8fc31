//! Classes of keys: hits, misses and the rules for TTLs.

use super::{NewDeadline, View};
use crate::classes::{ClassSums, Classes, TtlRules};
use crate::journal::{Lost, Removed};
use crate::keyspace::Keyspace;
use crate::shared::{Db, Key};
use crate::soft::{Soft, soft_of};
use policy::{Slot, Tick};
use std::sync::Arc;

/// A hit renews a deadline if it moves by at least this part of the TTL, so that not every read is
/// a change.
const RENEWED_PART: u64 = 64;

impl View<'_> {
    /// Completes a look-up that found a key while classes are defined.
    #[inline(never)]
    pub(super) fn look_up_in_class(&mut self, key: &Key<'_>, slot: Slot) -> (&mut Db, Slot) {
        self.parts(key).2.counters.hits += 1;
        let (now, slot) = (self.now, self.class_hit(key, slot));
        let db = self.db(key);
        cache::Entries::begin(&mut db.entries, now);
        db.read(slot);
        (db, slot)
    }

    /// Counts a hit in the class of a key, and renews the deadline if the class says so. Returns
    /// the slot.
    #[inline]
    pub(super) fn class_hit(&mut self, key: &Key<'_>, slot: Slot) -> Slot {
        let Some(classes) = &mut self.parts(key).2.classes else {
            return slot;
        };
        let class = classes.hit(key.db, key.bytes);
        match classes.classes.is_any_sliding() {
            true => self.renew(key, slot, class),
            false => slot,
        }
    }

    /// Sets the deadline of a key that was read, if it has one and its class slides, to that of a
    /// new key.
    fn renew(&mut self, key: &Key<'_>, slot: Slot, class: usize) -> Slot {
        let now = self.now;
        let Some(classes) = &self.parts(key).2.classes else {
            return slot;
        };
        let rules = classes.classes.rules().get(class).map(|rule| rule.ttl);
        let Some(rules) = rules.filter(|rules| rules.is_sliding && self.decides_deadlines()) else {
            return slot;
        };
        // A read makes no stale or negative value fresh.
        if soft_of(self.db(key), slot) != Soft::default() {
            return slot;
        }
        let own = self.db(key).entries.own_deadline(slot);
        let (Some(own), Some(wanted)) = (own, rules.deadline(key.bytes, None, now)) else {
            return slot;
        };
        let ttl = wanted.0.saturating_sub(now.0);
        let moves = wanted.0.saturating_sub(own.0) >= (ttl / RENEWED_PART).max(1);
        if !moves || self.parts(key).2.is_unsaved_large(key.db, slot) {
            return slot;
        }
        self.record_deadline(key, wanted);
        let (slot, filed) = self.place_deadline(key, slot, Some(wanted));
        let (space, shard, locked) = self.parts(key);
        locked.account(key.db, space.shared());
        if filed.is_some() {
            space.publish_deadline(shard, key.db, locked);
        }
        slot
    }

    /// Whether this keyspace decides when keys expire, and the view runs a command of a client.
    /// Replicas and commands from a feed take the deadlines that the primary has decided.
    #[inline]
    fn decides_deadlines(&self) -> bool {
        let shared = self.space.shared();
        self.horizon == self.now && !shared.is_frozen() && !self.space.has_removal_limit()
    }

    /// Returns the rules for a key's TTL, if a class has some that hold for this command.
    #[inline]
    fn ttl_rules(&mut self, key: &Key<'_>) -> Option<TtlRules> {
        let classes = self.parts(key).2.classes.as_ref()?;
        if !classes.classes.has_ttl_rules() {
            return None;
        }
        let class = classes.classes.of(key.db, key.bytes);
        let rules = classes.classes.rules().get(class)?.ttl;
        (!rules.is_empty() && self.decides_deadlines()).then_some(rules)
    }

    /// Returns the deadline that a key gets according to the rules of its class. `found` is its
    /// entry before the command.
    #[inline]
    pub(super) fn ruled(
        &mut self,
        key: &Key<'_>,
        found: Option<Slot>,
        wanted: NewDeadline,
    ) -> NewDeadline {
        let now = self.now;
        let Some(rules) = self.ttl_rules(key) else {
            return wanted;
        };
        let given = match wanted {
            NewDeadline::Keep if found.is_some() => return wanted,
            NewDeadline::Keep | NewDeadline::Clear => None,
            NewDeadline::At(at) => Some(at),
        };
        let ruled = rules.deadline(key.bytes, given, now);
        self.decided(key, given, ruled)
            .map_or(wanted, NewDeadline::At)
    }

    /// Returns the deadline of a present key that a command sets or removes. A key that may keep
    /// its value for ever does not get the default.
    pub(super) fn ruled_change(&mut self, key: &Key<'_>, wanted: Option<Tick>) -> Option<Tick> {
        let now = self.now;
        let Some(rules) = self.ttl_rules(key) else {
            return wanted;
        };
        let rules = TtlRules {
            default_ms: None,
            ..rules
        };
        let ruled = rules.deadline(key.bytes, wanted, now);
        self.decided(key, wanted, ruled)
    }

    /// Returns the deadline of a key that gets another key's value with its deadline.
    pub(super) fn ruled_move(&mut self, key: &Key<'_>, own: Option<Tick>) -> Option<Tick> {
        let now = self.now;
        let Some(rules) = self.ttl_rules(key) else {
            return own;
        };
        let ruled = rules.moved(key.bytes, own, now);
        self.decided(key, own, ruled)
    }

    /// Returns the deadline of a new key that was stored without one, and counts its TTL.
    pub(super) fn ruled_new(&mut self, key: &Key<'_>) -> Option<Tick> {
        let (own, now) = (self.ruled_move(key, None)?, self.now);
        self.parts(key).2.note_ttl(key, own, now);
        Some(own)
    }

    /// Returns the deadline of a key that a command has changed in an annex, where no rules hold.
    /// `found` is its entry before, which still has the deadline of then.
    pub(super) fn ruled_in_annex(
        &mut self,
        key: &Key<'_>,
        found: Option<Slot>,
        own: Option<Tick>,
    ) -> Option<Tick> {
        if found.is_some_and(|slot| self.db(key).entries.own_deadline(slot) == own) {
            return own;
        }
        let given = own.map_or(NewDeadline::Clear, NewDeadline::At);
        match self.ruled(key, None, given) {
            NewDeadline::At(deadline) => Some(deadline),
            NewDeadline::Clear | NewDeadline::Keep => None,
        }
    }

    /// Returns the deadline by the rules, and records it if it is not the one of the command.
    fn decided(&mut self, key: &Key<'_>, given: Option<Tick>, ruled: Option<Tick>) -> Option<Tick> {
        if let Some(deadline) = ruled.filter(|_| ruled != given) {
            self.record_deadline(key, deadline);
        }
        ruled
    }

    /// Records a deadline that the command does not name, for replicas and files.
    fn record_deadline(&mut self, key: &Key<'_>, deadline: Tick) {
        if let Some(journal) = &mut self.parts(key).2.journal {
            journal.push(Removed {
                db: key.db,
                key: key.bytes.to_vec(),
                lost: Lost::NewDeadline(deadline),
            });
        }
    }
}

impl Keyspace {
    /// Defines the classes of keys. Background work counts the present keys.
    pub fn set_classes(&self, classes: &Arc<Classes>) {
        // All at once, so that no command finds two definitions.
        let (mut view, shared) = (self.lock_all(Tick(0)), self.shared());
        let own = classes.policies();
        let has_changed = shared.change_policies(|policies, number| policies.set_own(number, own));
        let mut used_bytes = vec![0; self.databases()];
        for (db, sum) in used_bytes.iter_mut().enumerate() {
            let shards = view.all().iter_mut();
            *sum = shards.map(|locked| locked.take_db_bytes(db as u8)).sum();
        }
        let used_bytes = |db: u8| used_bytes[usize::from(db)];
        shared
            .quotas
            .set(self.databases(), classes.limits(), used_bytes);
        for (shard, locked) in view.all().iter_mut().enumerate() {
            locked.set_classes(classes, shared);
            if has_changed {
                self.apply_new_settings(shard, locked);
            }
            locked.resize_policies(shared);
            self.publish_evictable(shard, locked);
        }
    }

    /// Returns the classes of keys with their statistics.
    pub fn class_sums(&self) -> ClassSums {
        let mut sums = ClassSums::default();
        for shard in 0..self.shard_count() {
            if let Some(classes) = &self.guard(shard).classes {
                sums.add(classes);
            }
        }
        sums.add_quotas(|db| self.shared().quotas.facts(db));
        sums
    }
}
