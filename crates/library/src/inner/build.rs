//! Construction of a cache: the number and sizes of its shards.

use super::{Inner, Negative, Quick};
use crate::builder::CacheBuilder;
use crate::clock::ms_of;
use crate::epoch;
use crate::flight::Flights;
use crate::pace::Watch;
use crate::rows::Columns;
use crate::shard::{Shard, buckets_for, entries_for};
use crate::stats::Counters;
use crate::timer::{Alarm, Timer};
use policy::any::{AnyPolicy, PolicySpec};
use policy::{Marker, OnHit, Policy};
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread;
use std::time::Duration;

/// Capacity in entries below which a cache has one shard by default.
const FEW: u64 = 4_096;
/// Buckets per shard if the program sets no number of shards. Together with the number of shards it
/// makes tables seven eighths full.
const BUCKETS: usize = 4_096;
/// Capacity in entries above which tables start small and grow.
const MANY: u64 = 1 << 26;
/// Number of entries that a shard makes room for if the expected number is unknown.
const UNKNOWN: usize = 64;
/// Assumed number of entries of a weighed cache if the expected number is unknown.
const ENTRIES_WEIGHED: u64 = 10_240;

/// Returns the number of shards, and the number of entries for which each shard makes room.
///
/// A weighed cache has one shard by default, so that an entry may weigh as much as the capacity.
/// Because look-ups take no lock, only writers contend for it.
fn plan(
    capacity: u64,
    is_weighed: bool,
    expected: Option<usize>,
    given: Option<usize>,
) -> (usize, usize) {
    let threads = thread::available_parallelism().map_or(4, usize::from);
    let entries = match expected {
        Some(expected) => Some((expected as u64).min(MANY)),
        None => (!is_weighed && capacity <= MANY).then_some(capacity),
    };
    let given = given.or(is_weighed.then_some(1));
    let Some(entries) = entries else {
        return (given.unwrap_or(4 * threads), UNKNOWN);
    };
    if let Some(count) = given {
        return (count, entries.div_ceil(count as u64) as usize);
    }
    if entries < FEW {
        return (1, entries as usize);
    }
    let least = (4 * threads as u64).min(entries / 1_024).max(1);
    // Half of the buckets that the fewest shards would need, so that tables are well filled.
    let buckets = buckets_for(entries.div_ceil(least) as usize) / 2;
    let buckets = buckets.clamp(1, BUCKETS);
    let count = entries.div_ceil(entries_for(buckets) as u64).max(least) as usize;
    (count, entries.div_ceil(count as u64) as usize)
}

/// Returns the maximum number of remembered keys without a value. The capacity of a weighed cache
/// does not determine its number of entries.
pub(crate) fn absent_capacity(capacity: u64, is_weighed: bool, expected: Option<usize>) -> u64 {
    let entries = match is_weighed {
        true => capacity.min(expected.map_or(ENTRIES_WEIGHED, |expected| expected as u64)),
        false => capacity,
    };
    (entries / 10).max(16)
}

/// Returns the part of `whole` that belongs to shard `number` of `count`.
pub(crate) fn part(whole: u64, count: u64, number: u64) -> u64 {
    whole / count + u64::from(number < whole % count)
}

impl<K, V, S> Inner<K, V, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher + Clone + Send + Sync + 'static,
{
    /// Builds a cache from settings that have been checked.
    pub(crate) fn build(builder: CacheBuilder<K, V, S>, policy: &PolicySpec) -> Arc<Self> {
        epoch::prepare();
        let capacity = builder.capacity;
        let (count, expected) = plan(
            capacity,
            builder.weigher.is_some(),
            builder.expected,
            builder.shards,
        );
        let build = |capacity, seed| {
            AnyPolicy::build(policy, capacity, seed).expect("the builder has checked the policy")
        };
        let first = build(1, 1);
        let columns = Columns {
            has_deadlines: builder.has_deadlines,
            has_limits: builder.tti.is_some(),
            has_weights: builder.weigher.is_some(),
            policy_bits: first.meta_bits(),
        };
        let now = builder.clock.now();
        let shards = (0..count as u64).map(|number| {
            let own = part(capacity, count as u64, number);
            // A policy needs a capacity of at least one unit for its queues.
            let policy = build(own.max(1), number + 1);
            let expected = match columns.has_weights {
                false => expected.min(own as usize),
                true => expected,
            };
            Shard::new(columns, policy, own, expected, now)
        });
        let timer = builder.timer_in_use();
        let negative = builder
            .negative_ttl
            .map(|ttl| Self::absent(&builder, ttl, timer));
        let has_read_hook = builder.expiry.as_ref().is_some_and(|hook| hook.has_reads());
        let quick = match first.on_hit() {
            OnHit::Mark if builder.tti.is_none() && !has_read_hook => Quick::of(&first),
            _ => None,
        };
        let alarm = Arc::new(Alarm::new());
        let watch = Watch::new(builder.clock.clone(), timer, alarm.clone());
        Arc::new(Inner {
            has_quick: quick.is_some(),
            quick: quick.unwrap_or_default(),
            shards: shards.collect(),
            on_hit: first.on_hit(),
            marker: first.marker(),
            has_deadlines: columns.has_deadlines,
            has_time: columns.has_deadlines || first.marker() == Marker::Stamp,
            tti: builder.tti_ms(),
            has_read_hook,
            refresh_ahead: builder.refresh_ahead.map(ms_of),
            timer,
            counters: builder.has_statistics.then(Counters::new),
            ttl: builder.ttl,
            jitter: builder.jitter,
            expiry: builder.expiry,
            weigher: builder.weigher,
            listener: builder.listener,
            flights: Arc::new(Flights::new(watch)),
            negative,
            alarm,
            is_registered: AtomicBool::new(false),
            capacity: AtomicU64::new(capacity),
            reached: AtomicU64::new(now.0),
            clock: builder.clock,
            hasher: builder.hasher,
        })
    }

    /// Builds the cache of keys that have no value.
    fn absent(builder: &CacheBuilder<K, V, S>, ttl: Duration, timer: Timer) -> Negative<K, S> {
        let capacity = absent_capacity(
            builder.capacity,
            builder.weigher.is_some(),
            builder.expected,
        );
        let mut settings = CacheBuilder::new(capacity).ttl(ttl);
        settings.clock = builder.clock.clone();
        settings.timer = timer;
        settings.has_statistics = false;
        let settings = settings.hasher(builder.hasher.clone());
        (ttl, Inner::build(settings, &PolicySpec::default()))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn tables_of_any_capacity_are_well_filled() {
        for capacity in [
            4_096, 10_000, 50_000, 100_000, 333_333, 1_000_000, 5_000_000,
        ] {
            let (count, expected) = plan(capacity, false, None, None);
            let ways = buckets_for(expected) * crate::table::WAYS;
            let filled = expected as f64 / ways as f64;
            assert!(
                (0.75..=0.876).contains(&filled),
                "{capacity}: {count} shards, {filled} full"
            );
            assert!(count as u64 * expected as u64 >= capacity);
        }
        assert_eq!(plan(100, false, None, None), (1, 100));
        assert_eq!(plan(100, false, None, Some(3)), (3, 34));
        assert_eq!(plan(1 << 40, true, None, Some(8)), (8, UNKNOWN));
        assert_eq!(plan(1 << 40, true, None, None), (1, UNKNOWN));
        assert_eq!(plan(1 << 40, true, Some(1 << 20), None), (1, 1 << 20));
        assert_eq!(
            (0..3).map(|n| part(100, 3, n)).collect::<Vec<_>>(),
            [34, 33, 33]
        );
    }
}
