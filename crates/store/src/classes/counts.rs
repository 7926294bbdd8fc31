//! Statistics of classes in one shard.
//!
//! Numbers of keys and bytes are exact: each change of an entry is added to the class of its key
//! ([`ShardClasses::changed`], [`ShardClasses::removed`]). When classes are defined, the present
//! entries are counted in steps. The count goes through the tables in the order of a scan. An entry
//! before its position was counted, so that its changes count; the others will be.

use super::recent::Recent;
use super::{Classes, Gone, OTHER};
use crate::lifetimes::Spans;
use crate::quotas::QuotaFacts;
use crate::shared::Db;
use cache::TablePosition;
use policy::Tick;
use std::sync::Arc;

/// Names of the causes of misses, the indices of [`ClassCounts::misses`].
pub const MISS_CAUSES: [&str; 5] = [
    "never_stored",
    "expired",
    "evicted",
    "deleted",
    "invalidated",
];

/// What happened to the keys of a class since the last reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCounts {
    /// Number of reads that found a key.
    pub hits: u64,
    /// Number of reads that found no key, by cause.
    pub misses: [u64; MISS_CAUSES.len()],
    /// Number of keys that have expired.
    pub expired: u64,
    /// Number of keys that were evicted.
    pub evicted: u64,
    /// Number of keys that a command has deleted.
    pub deleted: u64,
    /// Number of keys that were removed because of a tag.
    pub invalidated: u64,
    /// Sum of the milliseconds from the deadlines of expired keys to their removal.
    pub late_ms_sum: u64,
    /// Maximum of these milliseconds.
    pub late_ms_max: u64,
    /// TTLs of keys when their deadline was set.
    pub ttls: Spans,
}

impl ClassCounts {
    fn add(&mut self, other: &ClassCounts) {
        self.hits += other.hits;
        for (sum, count) in self.misses.iter_mut().zip(other.misses) {
            *sum += count;
        }
        self.expired += other.expired;
        self.evicted += other.evicted;
        self.deleted += other.deleted;
        self.invalidated += other.invalidated;
        self.late_ms_sum += other.late_ms_sum;
        self.late_ms_max = self.late_ms_max.max(other.late_ms_max);
        self.ttls.add(&other.ttls);
    }
}

/// Facts about one class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassFacts {
    /// Name of the class, or [`OTHER`] for the keys that belong to none.
    pub name: String,
    /// Number of keys, among them expired ones that are not removed yet.
    pub keys: u64,
    /// Number of bytes of their entries, without their places in tables and indexes.
    pub bytes: u64,
    /// What happened to its keys.
    pub counts: ClassCounts,
    /// Memory limits of a class of a whole database, if it has some.
    pub quota: Option<QuotaFacts>,
}

/// Facts about all classes, summed over shards.
#[derive(Clone, Debug, Default)]
pub struct ClassSums {
    classes: Option<Arc<Classes>>,
    facts: Vec<ClassFacts>,
    is_counting: bool,
}

impl ClassSums {
    /// Returns the facts about each class in the order of definition, and then those about the keys
    /// of no class. Empty if no class is defined.
    pub fn facts(&self) -> &[ClassFacts] {
        &self.facts
    }

    /// Adds the facts about memory limits, which shards have published.
    pub(crate) fn add_quotas(&mut self, facts_of: impl Fn(u8) -> Option<QuotaFacts>) {
        if let Some(classes) = &self.classes {
            for (rule, facts) in classes.rules().iter().zip(&mut self.facts) {
                facts.quota = rule.whole_db().and_then(&facts_of);
            }
        }
    }

    /// Whether the present keys are still being counted, because classes were defined a moment ago.
    pub fn is_counting(&self) -> bool {
        self.is_counting
    }

    /// Adds a shard. If classes were defined since the first shard was added, the others add
    /// nothing.
    pub(crate) fn add(&mut self, shard: &ShardClasses) {
        let classes = self
            .classes
            .get_or_insert_with(|| Arc::clone(&shard.classes));
        if !Arc::ptr_eq(classes, &shard.classes) {
            self.is_counting = true;
            return;
        }
        if self.facts.is_empty() {
            let names = classes.rules().iter().map(|rule| rule.name.as_str());
            let names = names.chain([OTHER]).map(|name| ClassFacts {
                name: name.to_owned(),
                ..ClassFacts::default()
            });
            self.facts = names.collect();
        }
        self.is_counting |= shard.recount.is_some();
        for (index, facts) in self.facts.iter_mut().enumerate() {
            for db in &shard.dbs {
                facts.keys += db.sizes[index].keys;
                facts.bytes += db.sizes[index].bytes;
            }
            facts.counts.add(&shard.counts[index]);
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Size {
    keys: u64,
    bytes: u64,
}

/// Sizes of the classes in one database.
#[derive(Debug)]
struct DbSizes {
    sizes: Vec<Size>,
    /// Bytes of all entries at the end of the last change.
    seen_bytes: u64,
}

/// Position of the count of present entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    db: usize,
    at: TablePosition,
}

/// Classes and their statistics in one shard.
pub(crate) struct ShardClasses {
    pub classes: Arc<Classes>,
    /// Counts by class, and at the end those of the keys of no class.
    counts: Vec<ClassCounts>,
    dbs: Vec<DbSizes>,
    /// Entries before this place are counted; `None` if all are.
    recount: Option<Place>,
    recent: Recent,
}

impl ShardClasses {
    /// Creates statistics. Those of a class with the same name as before continue.
    pub fn new(
        classes: &Arc<Classes>,
        databases: usize,
        before: Option<ShardClasses>,
    ) -> ShardClasses {
        let mut counts = vec![ClassCounts::default(); classes.rules().len() + 1];
        let mut recent = Recent::new();
        if let Some(before) = before {
            for (rule, counts) in classes.rules().iter().zip(&mut counts) {
                let mut old = before.classes.rules().iter().zip(&before.counts);
                if let Some((_, old)) = old.find(|(old, _)| old.name == rule.name) {
                    *counts = *old;
                }
            }
            counts[classes.rules().len()] = before.counts[before.classes.rules().len()];
            recent = before.recent;
        }
        ShardClasses {
            classes: Arc::clone(classes),
            counts,
            dbs: (0..databases)
                .map(|_| DbSizes {
                    sizes: vec![Size::default(); classes.rules().len() + 1],
                    seen_bytes: 0,
                })
                .collect(),
            recount: None,
            recent,
        }
    }

    /// Returns the number of bytes of the statistics.
    pub fn bytes(&self) -> u64 {
        let sizes = self.dbs.len() * self.counts.len() * size_of::<Size>();
        (self.recent.bytes() + self.counts.len() * size_of::<ClassCounts>() + sizes) as u64
    }

    /// Begins to count the present entries, if there are some.
    pub fn restart<'d>(&mut self, dbs: impl Iterator<Item = Option<&'d Db>>) {
        let mut has_entries = false;
        for (sizes, db) in self.dbs.iter_mut().zip(dbs.chain(std::iter::repeat(None))) {
            sizes.sizes.fill(Size::default());
            sizes.seen_bytes = db.map_or(0, |db| db.entries.entry_bytes());
            has_entries |= sizes.seen_bytes > 0;
        }
        let at = TablePosition::default();
        self.recount = has_entries.then_some(Place { db: 0, at });
    }

    /// Counts about `steps` entries more. Returns whether there are others.
    pub fn count_present<'d>(
        &mut self,
        steps: u32,
        db_of: impl Fn(usize) -> Option<Option<&'d Db>>,
    ) -> bool {
        let Some(place) = self.recount else {
            return false;
        };
        let Some(db) = db_of(place.db) else {
            self.recount = None;
            return false;
        };
        let mut next = None;
        if let Some(db) = db {
            let classes = Arc::clone(&self.classes);
            let sizes = &mut self.dbs[place.db];
            next = db.entries.scan(place.at, steps.max(1) as usize, |slot| {
                let key = db.entries.key(slot);
                // A merge of tables brings entries before the place together with others.
                if db.entries.position_of(db.entries.hash(key)) >= place.at {
                    let size = &mut sizes.sizes[classes.of(place.db as u8, key)];
                    size.keys += 1;
                    size.bytes += db.entries.bytes_of(slot);
                }
            });
        }
        self.recount = Some(match next {
            Some(at) => Place { at, ..place },
            None => Place {
                db: place.db + 1,
                at: TablePosition::default(),
            },
        });
        true
    }

    /// Whether an entry is counted.
    fn is_counted(&self, db: u8, hash: u64, data: &Db) -> bool {
        self.recount.is_none_or(|place| {
            let at = data.entries.position_of(hash);
            (Place { db: db.into(), at }) < place
        })
    }

    /// Adds the change of a database's bytes, which is that of one entry, to the class of its key.
    #[inline]
    pub fn changed(&mut self, (db, hash, key): (u8, u64, &[u8]), is_new: bool, data: &Db) {
        let bytes = data.entries.entry_bytes();
        let sizes = &mut self.dbs[usize::from(db)];
        let before = std::mem::replace(&mut sizes.seen_bytes, bytes);
        if (bytes != before || is_new) && self.is_counted(db, hash, data) {
            let class = self.classes.of(db, key);
            let size = &mut self.dbs[usize::from(db)].sizes[class];
            size.keys += u64::from(is_new);
            size.bytes = size.bytes + bytes - before;
        }
    }

    /// Notes that an entry will be removed.
    pub fn removed(
        &mut self,
        (db, hash, key): (u8, u64, &[u8]),
        bytes: u64,
        gone: Gone,
        data: &Db,
    ) {
        // The removal of the last element of a collection has changed the entry, too.
        self.changed((db, hash, key), false, data);
        let class = self.classes.of(db, key);
        let is_counted = self.is_counted(db, hash, data);
        let sizes = &mut self.dbs[usize::from(db)];
        sizes.seen_bytes -= bytes;
        if is_counted {
            let size = &mut sizes.sizes[class];
            size.keys -= 1;
            size.bytes -= bytes;
        }
        let counts = &mut self.counts[class];
        match gone {
            Gone::Unknown => {}
            Gone::Expired => counts.expired += 1,
            Gone::Evicted => counts.evicted += 1,
            Gone::Deleted => counts.deleted += 1,
            Gone::Invalidated => counts.invalidated += 1,
        }
        self.recent.note(db, hash, gone);
    }

    /// Counts the lateness of a removal.
    pub fn expired_late(&mut self, db: u8, key: &[u8], late_ms: u64) {
        let class = self.classes.of(db, key);
        let counts = &mut self.counts[class];
        counts.late_ms_sum = counts.late_ms_sum.saturating_add(late_ms);
        counts.late_ms_max = counts.late_ms_max.max(late_ms);
    }

    /// Notes that a database was emptied. Its keys count as deleted, but not for later misses.
    pub fn flushed(&mut self, db: u8) {
        let sizes = &mut self.dbs[usize::from(db)];
        for (size, counts) in sizes.sizes.iter_mut().zip(&mut self.counts) {
            counts.deleted += std::mem::take(size).keys;
        }
        sizes.seen_bytes = 0;
    }

    /// Moves entries to another policy, as [`cache::Shard::drain`] does, which may change their
    /// sizes.
    pub fn drain(&mut self, db: u8, data: &mut Db, mut at: u32, steps: u32) -> Option<u32> {
        for _ in 0..steps {
            let slot = data.entries.walk(at);
            let key = slot.map(|slot| data.entries.key(slot).to_vec());
            at = data.drain(at, 1)?;
            if let Some(key) = key {
                self.changed((db, data.entries.hash(&key), &key), false, data);
            }
        }
        Some(at)
    }

    /// Counts a read that found a key. Returns the class.
    #[inline]
    pub fn hit(&mut self, db: u8, key: &[u8]) -> usize {
        let class = self.classes.of(db, key);
        self.counts[class].hits += 1;
        class
    }

    /// Counts a read that found no key.
    pub fn missed(&mut self, db: u8, hash: u64, key: &[u8], has_expired: bool) {
        let cause = match has_expired {
            true => Gone::Expired,
            false => self.recent.reason(db, hash),
        };
        let class = self.classes.of(db, key);
        self.counts[class].misses[cause as usize] += 1;
    }

    /// Counts the TTL of a key whose deadline is set.
    pub fn deadline_set(&mut self, db: u8, key: &[u8], deadline: Tick, now: Tick) {
        let class = self.classes.of(db, key);
        self.counts[class]
            .ttls
            .count(deadline.0.saturating_sub(now.0));
    }

    /// Sets all counts to 0. Keys and bytes stay, and the reasons of removals.
    pub fn reset(&mut self) {
        self.counts.fill(ClassCounts::default());
    }

    /// Panics if the sizes are not those of the present entries.
    pub fn check<'d>(&self, dbs: impl Iterator<Item = Option<&'d Db>>) {
        for (number, db) in dbs.enumerate() {
            let mut expected = vec![Size::default(); self.counts.len()];
            let mut at = 0;
            while let Some((db, slot)) = db.and_then(|db| Some((db, db.entries.walk(at)?))) {
                let key = db.entries.key(slot);
                if self.is_counted(number as u8, db.entries.hash(key), db) {
                    let size = &mut expected[self.classes.of(number as u8, key)];
                    size.keys += 1;
                    size.bytes += db.entries.bytes_of(slot);
                }
                at = slot.0 + 1;
            }
            assert_eq!(self.dbs[number].sizes, expected, "database {number}");
        }
    }
}
