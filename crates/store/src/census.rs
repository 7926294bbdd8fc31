//! Facts about the keyspace: each separately, which locks every shard once, or all together in a
//! [`Census`], one shard at a time, so that the caller can serve requests in between.
//!
//! Counts are exact. TTLs and sizes are estimated from a sample of the entries of each shard.

use crate::classes::ClassSums;
use crate::facts::{Counters, DbFacts, ExpiryFacts, MemoryFacts, TagFacts};
use crate::keyspace::Keyspace;
use crate::lifetimes::Spans;
use crate::shard::Locked;
use crate::shared::Db;
use crate::sizes::{SizeHistograms, SizeSums};
use policy::{ExpiryIndex, Facts, Tick};

/// Number of bins of a histogram of remaining TTLs.
pub const TTL_BINS: usize = 40;
/// Number of entries per shard and database whose TTLs are read for a mean.
const MEAN_SAMPLE: usize = 64;
/// Number of entries per shard and database whose TTLs are read for a histogram.
const HISTOGRAM_SAMPLE: usize = 256;
/// Number of entries per database, over all shards, whose TTLs are read for a census.
const CENSUS_TTLS: usize = 256;
/// Number of entries per database, over all shards, whose sizes are read for a census.
const CENSUS_SIZES: usize = 256;
/// Minimum number of entries that a census reads in each shard and database.
const CENSUS_MIN: usize = 4;

/// Sums over one database, with the mean TTL not yet divided.
#[derive(Clone, Copy, Debug, Default)]
struct DbSums {
    facts: DbFacts,
    ttl_ms: u128,
    ttls: u64,
}

impl DbSums {
    /// Adds the part of a database that is in one shard. `ttls` adds its remaining TTLs.
    fn add(&mut self, db: &Db, now: Tick, sample: usize, ttls: Option<&mut TtlSums>) {
        self.facts.keys += db.entries.len() as u64;
        self.facts.with_deadline += db.entries.own_deadlines() as u64;
        self.facts.with_element_deadlines += db.entries.with_part_deadlines() as u64;
        let mut seconds = Vec::with_capacity(sample);
        db.entries.sample_deadlines(sample, |deadline| {
            let left_ms = deadline.0.saturating_sub(now.0);
            self.ttl_ms += u128::from(left_ms);
            self.ttls += 1;
            seconds.push(left_ms / 1000);
        });
        if let Some(ttls) = ttls {
            ttls.add(db.entries.own_deadlines(), &seconds);
        }
    }

    fn complete(mut self) -> DbFacts {
        if let Some(mean) = self.ttl_ms.checked_div(u128::from(self.ttls)) {
            self.facts.mean_ttl_ms = mean as u64;
        }
        self.facts
    }
}

/// Estimated numbers of keys by remaining TTL.
#[derive(Clone, Copy, Debug)]
struct TtlSums([f64; TTL_BINS]);

impl Default for TtlSums {
    fn default() -> Self {
        TtlSums([0.0; TTL_BINS])
    }
}

impl TtlSums {
    /// Adds a sample of TTLs in seconds of `count` keys.
    fn add(&mut self, count: usize, sample: &[u64]) {
        let each = count as f64 / sample.len().max(1) as f64;
        for seconds in sample {
            let bin = (u64::BITS - seconds.leading_zeros()) as usize;
            self.0[bin.min(TTL_BINS - 1)] += each;
        }
    }

    fn rounded(&self) -> [u64; TTL_BINS] {
        self.0.map(|count| count.round() as u64)
    }
}

fn add_memory(locked: &Locked, facts: &mut MemoryFacts) {
    facts.pending_objects += locked.pending_objects();
    facts.pending_bytes += locked.pending_bytes();
    facts.class_bytes += locked.class_bytes();
    for (number, db) in locked.dbs.iter().enumerate() {
        let Some(db) = db else { continue };
        let (policies, index) = db.algorithm_bytes();
        facts.entry_bytes += db.entries.entry_bytes();
        facts.table_bytes += db.entries.table_bytes();
        facts.policy_bytes += policies;
        facts.expiry_bytes += index + locked.local_bytes(number);
        facts.tag_bytes += db.group_bytes();
        facts.arena_free_bytes += db.entries.free_bytes();
    }
    facts.used_bytes = facts.entry_bytes
        + facts.table_bytes
        + facts.policy_bytes
        + facts.expiry_bytes
        + facts.tag_bytes
        + facts.class_bytes;
}

fn add_tags(db: &Db, facts: &mut TagFacts) {
    let groups = db.group_facts();
    facts.names += groups.groups;
    facts.pairs += groups.pairs;
    facts.invalidated_pairs += groups.stale_pairs;
    facts.soft_keys += groups.noted;
}

fn add_expiry(db: &Db, now: Tick, facts: &mut ExpiryFacts) {
    let backlog = db.expiry().backlog(now) as u64;
    facts.keys_with_ttl += db.entries.own_deadlines() as u64;
    facts.backlog_keys += backlog;
    let keys = db.entries.len() as u64;
    if let Some(mean) = db.entries.entry_bytes().checked_div(keys) {
        facts.backlog_bytes += backlog * mean;
    }
    facts.index_bytes += db.expiry().heap_bytes() as u64;
    facts.granularity_ms = db.expiry().granularity();
}

/// Expiry indexes without keys are exact.
const NO_EXPIRY: ExpiryFacts = ExpiryFacts {
    keys_with_ttl: 0,
    backlog_keys: 0,
    backlog_bytes: 0,
    granularity_ms: Some(0),
    index_bytes: 0,
};

/// Facts about the shards that were visited. Different shards are visited at different instants.
#[derive(Clone, Debug)]
pub struct Census {
    /// Counters since the start or the last CONFIG RESETSTAT.
    pub counters: Counters,
    /// Memory by purpose.
    pub memory: MemoryFacts,
    /// State of the expiry indexes.
    pub expiry: ExpiryFacts,
    /// Number of tags and of their keys.
    pub tags: TagFacts,
    /// Classes of keys with their statistics.
    pub classes: ClassSums,
    /// Number of keys on which clients are blocked.
    pub waited_keys: usize,
    /// Number of keys that clients cache, and number of pairs of such a key and a client.
    pub tracked: (usize, usize),
    /// TTLs of keys when their deadline was set.
    pub written_ttls: Spans,
    /// Ages of keys when they expired, for a sample.
    pub expired_ages: Spans,
    /// Ages of keys when they were evicted, for a sample.
    pub evicted_ages: Spans,
    dbs: Vec<DbSums>,
    ttls: TtlSums,
    sizes: SizeSums,
    shards_visited: usize,
}

impl Default for Census {
    fn default() -> Self {
        Census {
            counters: Counters::default(),
            memory: MemoryFacts::default(),
            expiry: NO_EXPIRY,
            tags: TagFacts::default(),
            classes: ClassSums::default(),
            waited_keys: 0,
            tracked: (0, 0),
            written_ttls: Spans::default(),
            expired_ages: Spans::default(),
            evicted_ages: Spans::default(),
            dbs: Vec::new(),
            ttls: TtlSums::default(),
            sizes: SizeSums::default(),
            shards_visited: 0,
        }
    }
}

impl Census {
    /// Returns facts about one database.
    pub fn db_facts(&self, db: u8) -> DbFacts {
        let sums = self.dbs.get(db as usize).copied().unwrap_or_default();
        sums.complete()
    }

    /// Returns the numbers of keys by remaining TTL, with the bins of
    /// [`Keyspace::ttl_histogram`].
    pub fn ttl_histogram(&self) -> [u64; TTL_BINS] {
        self.ttls.rounded()
    }

    /// Returns histograms of value sizes in all databases.
    pub fn size_histograms(&self) -> SizeHistograms {
        self.sizes.rounded()
    }
}

impl Keyspace {
    /// Adds the next shard to a census. Returns whether there are more.
    pub fn census_step(&self, census: &mut Census, now: Tick) -> bool {
        let (shard, count) = (census.shards_visited, self.shard_count());
        if shard >= count {
            return false;
        }
        census.shards_visited += 1;
        let share = |all: usize| (all / count).max(CENSUS_MIN);
        let locked = self.guard(shard);
        census.counters.add(&locked.counters);
        census.waited_keys += locked.waiting.len();
        if let Some(tracked) = locked.tracked.as_deref() {
            census.tracked.0 += tracked.key_count();
            census.tracked.1 += tracked.reader_count();
        }
        let lifetimes = &locked.lifetimes;
        census.written_ttls.add(&lifetimes.written_ttls);
        census.expired_ages.add(&lifetimes.expired_ages);
        census.evicted_ages.add(&lifetimes.evicted_ages);
        add_memory(&locked, &mut census.memory);
        census.tags.leases += locked.lease_count();
        if let Some(classes) = &locked.classes {
            census.classes.add(classes);
        }
        if census.dbs.len() < locked.dbs.len() {
            census.dbs.resize_with(locked.dbs.len(), DbSums::default);
        }
        for (db, sums) in locked.dbs.iter().zip(&mut census.dbs) {
            let Some(db) = db else { continue };
            sums.add(db, now, share(CENSUS_TTLS), Some(&mut census.ttls));
            add_expiry(db, now, &mut census.expiry);
            add_tags(db, &mut census.tags);
            census
                .sizes
                .add(db, self.shared(), now, share(CENSUS_SIZES));
        }
        census.shards_visited < count
    }

    /// Returns the counters summed over all shards.
    pub fn counters(&self) -> Counters {
        let mut sum = Counters::default();
        for shard in 0..self.shard_count() {
            sum.add(&self.guard(shard).counters);
        }
        sum
    }

    /// Resets the counters to zero.
    pub fn reset_counters(&self) {
        self.shared().quotas.reset();
        for shard in 0..self.shard_count() {
            let mut locked = self.guard(shard);
            locked.counters = Counters::default();
            locked.lifetimes.reset();
            if let Some(classes) = &mut locked.classes {
                classes.reset();
            }
        }
    }

    /// Returns facts about one database.
    pub fn db_facts(&self, db: u8, now: Tick) -> DbFacts {
        let mut sums = DbSums::default();
        for shard in 0..self.shard_count() {
            if let Some(data) = self.guard(shard).db(db) {
                sums.add(data, now, MEAN_SAMPLE, None);
            }
        }
        sums.complete()
    }

    /// Returns the memory used, by purpose.
    pub fn memory_facts(&self) -> MemoryFacts {
        let mut facts = MemoryFacts::default();
        for shard in 0..self.shard_count() {
            add_memory(&self.guard(shard), &mut facts);
        }
        facts
    }

    /// Returns the state of the expiry indexes.
    pub fn expiry_facts(&self, now: Tick) -> ExpiryFacts {
        let mut facts = NO_EXPIRY;
        for shard in 0..self.shard_count() {
            for db in self.guard(shard).dbs.iter().flatten() {
                add_expiry(db, now, &mut facts);
            }
        }
        facts
    }

    /// Returns the numbers of tags and of their keys.
    pub fn tag_facts(&self) -> TagFacts {
        let mut facts = TagFacts::default();
        for shard in 0..self.shard_count() {
            let locked = self.guard(shard);
            facts.leases += locked.lease_count();
            for db in locked.dbs.iter().flatten() {
                add_tags(db, &mut facts);
            }
        }
        facts
    }

    /// Returns a histogram of the TTLs of keys with their own deadline. Bin 0 counts TTLs below one
    /// second, bin `i` those in [2^(i−1), 2^i) seconds. It is estimated from 256 samples per shard
    /// and database.
    pub fn ttl_histogram(&self, now: Tick) -> [u64; TTL_BINS] {
        let mut ttls = TtlSums::default();
        for shard in 0..self.shard_count() {
            for db in self.guard(shard).dbs.iter().flatten() {
                let sums = &mut DbSums::default();
                sums.add(db, now, HISTOGRAM_SAMPLE, Some(&mut ttls));
            }
        }
        ttls.rounded()
    }

    /// Returns histograms of value sizes in one database. Examines at most 512 keys of each shard.
    pub fn size_histograms(&self, db: u8, now: Tick) -> SizeHistograms {
        let mut sums = SizeSums::default();
        for shard in 0..self.shard_count() {
            if let Some(data) = self.guard(shard).db(db) {
                sums.add(data, self.shared(), now, crate::sizes::SAMPLE);
            }
        }
        sums.rounded()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Key, NewDeadline, Options};

    fn keyspace(shards: usize) -> Keyspace {
        let options = Options {
            shards,
            policy: "allkeys-lru".into(),
            expiry: "wheel".into(),
            maxmemory: 0,
            hash_key: [1, 2],
            seed: 3,
        };
        Keyspace::new(&options, Tick(1)).expect("valid options")
    }

    fn census(space: &Keyspace, now: Tick) -> Census {
        let mut census = Census::default();
        while space.census_step(&mut census, now) {}
        census
    }

    fn fill(space: &Keyspace, now: Tick, count: u32) {
        let mut view = space.lock_all(now);
        for number in 0..count {
            let (name, deadline) = (format!("{number}"), Tick(now.0 + 5_000));
            let key: Key<'_> = space.key((number % 2) as u8, name.as_bytes());
            view.set(&key, b"value", NewDeadline::At(deadline));
        }
    }

    #[test]
    fn a_census_has_the_facts_that_are_returned_one_by_one() {
        let (space, now) = (keyspace(8), Tick(1_000));
        fill(&space, now, 200);
        let all = census(&space, now);
        assert_eq!(all.counters, space.counters());
        assert_eq!(all.memory, space.memory_facts());
        assert_eq!(all.expiry, space.expiry_facts(now));
        assert_eq!(all.ttl_histogram(), space.ttl_histogram(now));
        for db in 0..3 {
            assert_eq!(all.db_facts(db), space.db_facts(db, now));
        }
        let sizes = [0, 1].map(|db| space.size_histograms(db, now)[0].1[3]);
        assert_eq!(all.size_histograms()[0].1[3], sizes[0] + sizes[1]);
        assert_eq!(all.written_ttls.total(), 200);
        assert_eq!(all.written_ttls.sum_ms, 200 * 5_000);
    }

    #[test]
    fn ages_are_recorded_when_keys_expire() {
        let (space, now) = (keyspace(1), Tick(1_000));
        fill(&space, now, 10_000);
        let later = Tick(7_000);
        while space
            .expire(0, later, 1 << 20, &mut vec![], &mut |_, _| {})
            .more
        {}
        let all = census(&space, later);
        assert_eq!(all.counters.expired_keys, 10_000);
        let ages = all.expired_ages;
        // All cells follow a key: 10,000 hashes reach each of them.
        assert!((25..=32).contains(&ages.total()), "{ages:?}");
        assert_eq!(ages.sum_ms, u128::from(ages.total()) * 6_000);
        assert_eq!(all.evicted_ages.total(), 0);
        space.reset_counters();
        assert_eq!(census(&space, later).expired_ages.total(), 0);
    }

    #[test]
    fn ages_are_recorded_when_keys_are_evicted() {
        let (space, now) = (keyspace(1), Tick(1_000));
        fill(&space, now, 10_000);
        space.set_maxmemory(200_000);
        let later = Tick(3_000);
        while space.background_step(0, later, 1 << 20, &mut vec![]) {}
        let all = census(&space, later);
        assert!(all.counters.evicted_keys > 5_000, "{:?}", all.counters);
        let ages = all.evicted_ages;
        assert!(ages.total() > 10, "{ages:?}");
        assert_eq!(ages.sum_ms, u128::from(ages.total()) * 2_000);
    }
}
