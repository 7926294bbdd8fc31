//! Commands on a whole database. They require that all shards are locked.

use super::View;
use crate::facts::Kind;
use crate::object::kind_of;
use crate::shard::is_dead;
use crate::shared::Db;
use cache::TablePosition;
use policy::{Facts, Slot};

/// Number of keys examined at once in the search for a live one.
const KEYS_PER_SCAN: usize = 64;
/// Maximum number of such steps, about a millisecond.
const SCANS_MAX: usize = 128;

impl View<'_> {
    /// Returns the number of keys of one database, among them expired ones that are not removed
    /// yet. Needs all shards.
    pub fn len(&mut self, db: u8) -> usize {
        self.all()
            .iter()
            .filter_map(|l| l.db(db))
            .map(|d| d.entries.len())
            .sum()
    }

    /// Passes about `count` live keys, beginning at `cursor`, to `each`. Returns the next cursor, 0
    /// at the end. A key that is present during the whole scan is passed at least once. Needs all
    /// shards.
    pub fn scan(
        &mut self,
        db: u8,
        cursor: u64,
        count: usize,
        each: &mut dyn FnMut(&[u8], Kind),
    ) -> u64 {
        self.scan_slots(db, cursor, count, &mut |data, slot| {
            each(data.entries.key(slot), kind_of(&data.value(slot)));
        })
    }

    /// Like [`View::scan`], but passes the entries.
    pub(super) fn scan_slots(
        &mut self,
        db: u8,
        cursor: u64,
        count: usize,
        each: &mut dyn FnMut(&Db, Slot),
    ) -> u64 {
        let now = self.horizon();
        let guards = self.all();
        let mut reported = 0;
        let mut shard = (cursor >> 48) as usize;
        let mut at = TablePosition {
            bucket: (cursor >> 32) as u16,
            prefix: cursor as u32,
        };
        while let Some(locked) = guards.get(shard) {
            if let Some(data) = locked.db(db) {
                let next = data
                    .entries
                    .scan(at, count.saturating_sub(reported), |slot| {
                        if !is_dead(data, slot, now) {
                            reported += 1;
                            each(data, slot);
                        }
                    });
                if let Some(next) = next {
                    return (shard as u64) << 48
                        | u64::from(next.bucket) << 32
                        | u64::from(next.prefix);
                }
            }
            (shard, at) = (shard + 1, TablePosition::default());
            if reported >= count && shard < guards.len() {
                return (shard as u64) << 48;
            }
        }
        0
    }

    /// Returns a random live key; `None` if there is none. All are equally likely, unless nearly
    /// all keys have expired. In that case up to some thousand keys are searched from a random
    /// position on, and the result is `None` if all of them have expired. Needs all shards.
    pub fn random_key(&mut self, db: u8, random: u64) -> Option<Vec<u8>> {
        let len = self.len(db) as u64;
        let now = self.horizon();
        let mut state = random;
        for _ in 0..if len > 0 { 100 } else { 0 } {
            // The step of a 64-bit linear congruential generator (Knuth's MMIX constants).
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let mut index = ((u128::from(state) * u128::from(len)) >> 64) as usize;
            let mut dbs = self.all().iter().filter_map(|l| l.db(db));
            let data = dbs.find(|d| {
                let is_here = index < d.entries.len();
                index = index.wrapping_sub(if is_here { 0 } else { d.entries.len() });
                is_here
            })?;
            if let Some(slot) = data.entries.sample(state.rotate_left(32))
                && !is_dead(data, slot, now)
            {
                return Some(data.entries.key(slot).to_vec());
            }
        }
        // Nearly all keys have expired.
        let shards = self.all().len() as u64;
        let mut found = None;
        let mut cursor = (random % shards) << 48 | state >> 32;
        for _ in 0..if len > 0 { SCANS_MAX } else { 0 } {
            cursor = self.scan(db, cursor, KEYS_PER_SCAN, &mut |key, _| {
                found.get_or_insert_with(|| key.to_vec());
            });
            if found.is_some() {
                break;
            }
        }
        found
    }

    /// Removes all keys of one database. Their memory is freed in the background. Needs all shards.
    pub fn flush(&mut self, db: u8) {
        let space = self.space;
        let mut has_ready = false;
        for (shard, locked) in self.all().iter_mut().enumerate() {
            locked.mark_db_watchers(db, None, space.shared());
            locked.flushes += 1;
            locked.lifetimes.forget_all();
            locked.forget_local(db);
            locked.revoke_leases(db);
            let number = || space.shared().next_event();
            locked.waiting.mark_all_ready([db, db], number);
            has_ready |= locked.waiting.has_ready();
            if let Some(data) = locked.dbs.get_mut(db as usize).and_then(Option::take) {
                locked.changes += data.entries.len() as u64;
                if let Some(classes) = &mut locked.classes {
                    classes.flushed(db);
                }
                locked.defer_database(data, space.shared());
                locked.account(db, space.shared());
                space.publish_due(shard, locked);
            }
        }
        self.forget_tracked();
        self.has_ready |= has_ready;
        self.changes += 1;
    }

    /// Swaps two databases. Needs all shards.
    pub fn swap(&mut self, a: u8, b: u8) {
        let space = self.space;
        let mut has_ready = false;
        for (shard, locked) in self.all().iter_mut().enumerate() {
            locked.swap(a, b, space.shared());
            space.apply_new_settings(shard, locked);
            has_ready |= locked.waiting.has_ready();
        }
        self.all()[0].changes += 1;
        self.has_ready |= has_ready;
        self.forget_tracked();
        self.changes += 1;
    }
}

#[cfg(test)]
mod tests {
    use crate::{Keyspace, NewDeadline, Options};
    use policy::Tick;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_flush_looks_up_a_limited_number_of_watched_keys() {
        // Regression: all were looked up, also those of other databases, once per database.
        let now = Tick(1_700_000_000_000);
        let options = Options {
            shards: 1,
            policy: "noeviction".into(),
            expiry: "wheel".into(),
            maxmemory: 0,
            hash_key: [1, 2],
            seed: 3,
        };
        let space = Keyspace::new(&options, now).expect("valid options");
        let mut view = space.lock_all(now);
        view.set(&space.key(0, b"held"), b"v", NewDeadline::Clear);
        let mut watch = |db: u8, name: &str, count: u32| {
            let flag = Arc::new(AtomicBool::new(false));
            for number in 0..count {
                let name = format!("{name}:{number}");
                view.watch(&space.key(db, name.as_bytes()), &flag);
            }
            flag
        };
        let (few, other) = (watch(0, "few", 10), watch(1, "held", 10));
        let many = watch(0, "many", 5_000);
        let held = Arc::new(AtomicBool::new(false));
        view.watch(&space.key(0, b"held"), &held);
        view.flush(1);
        assert!(!many.load(Ordering::Relaxed), "the database is empty");
        view.flush(0);
        let is_failed = [&few, &other, &many, &held].map(|flag| flag.load(Ordering::Relaxed));
        assert_eq!(is_failed, [false, false, true, true]);
    }

    #[test]
    fn a_random_key_is_searched_in_bounded_time_if_nearly_all_have_expired() {
        // Regression: all keys were searched.
        let now = Tick(1_700_000_000_000);
        let options = Options {
            shards: 2,
            policy: "noeviction".into(),
            expiry: "wheel".into(),
            maxmemory: 0,
            hash_key: [1, 2],
            seed: 3,
        };
        let space = Keyspace::new(&options, now).expect("valid options");
        let mut view = space.lock_all(now);
        let fill = |view: &mut crate::View<'_>, keys: std::ops::Range<u32>| {
            for number in keys {
                let name = format!("key:{number}");
                let deadline = NewDeadline::At(Tick(now.0 + 1));
                view.set(&space.key(0, name.as_bytes()), b"v", deadline);
            }
        };
        fill(&mut view, 0..2_000);
        view.set(&space.key(0, b"live"), b"v", NewDeadline::Clear);
        view.set_now(Tick(now.0 + 10));
        for random in 0..50u64 {
            let random = random.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            assert_eq!(view.random_key(0, random), Some(b"live".to_vec()));
        }
        view.delete(&space.key(0, b"live"));
        assert_eq!(view.random_key(0, 7), None);
        assert_eq!(view.random_key(1, 7), None);
        // Most searches among many expired keys end without having examined all.
        view.set_now(now);
        fill(&mut view, 2_000..100_000);
        view.set(&space.key(0, b"live"), b"v", NewDeadline::Clear);
        view.set_now(Tick(now.0 + 10));
        let found = (0..50u64).filter_map(|random| {
            let random = random.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            view.random_key(0, random)
        });
        assert!(found.count() < 25);
    }
}
