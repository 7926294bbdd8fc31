//! Statistics that explain a miss ratio: how fast and how precisely new entries are demoted, how
//! often evicted entries had been accessed, how much space unpopular objects take, and the ratio
//! over time.
//!
//! Source: J. Yang, *Design and Implementation of Efficient and Scalable Key-Value Caches*,
//! dissertation, chapters 7.4 (resources), 8.2 (frequency at eviction), 8.5.1 (demotion) and 9.4
//! (over time). Age is measured in requests.
//!
//! Departure: the source observes the small queue of each algorithm. A host does not see queues,
//! and many algorithms have none. Here a *demotion* is the eviction of an entry that was not
//! accessed since its insertion, whichever structure it was in.

use crate::columns::Columns;
use crate::rules::Unit;
use policy::Slot;
use std::collections::BTreeMap;

/// Number of classes of access counts, by powers of two: 0, 1, 2–3, 4–7, and so on; the last class
/// is open.
pub const CLASSES: usize = 8;
/// Number of equal parts into which the counted requests are divided.
pub const PARTS: usize = 20;

/// Statistics of one replay. Means without samples are `None`.
#[derive(Clone, Debug, PartialEq)]
pub struct Explained {
    /// Mean number of requests that a demoted entry spent in the cache.
    pub demotion_age: Option<f64>,
    /// Age at which LRU evicts at this size divided by the demotion age: the speed of demotion, 1
    /// for LRU.
    pub demotion_speed: Option<f64>,
    /// Share of correct demotions: the object is not requested again, or only after a cache of this
    /// size has turned over (size / miss ratio).
    pub demotion_precision: Option<f64>,
    /// Mean number of requests between the last hit and the eviction.
    pub idle_age: Option<f64>,
    /// Evictions by number of hits since insertion, in [`CLASSES`].
    pub evictions_by_hits: [u64; CLASSES],
    /// Share of space × time that unpopular objects occupied. An object is unpopular if it would
    /// not be in a cache of this size that is filled with the most requested objects of the whole
    /// trace.
    pub unpopular_resources: Option<f64>,
    /// Miss ratio of each of [`PARTS`] parts of the counted requests.
    pub over_time: Vec<f64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: u128,
    count: u64,
}

impl Mean {
    fn add(&mut self, value: u32) {
        self.sum += u128::from(value);
        self.count += 1;
    }

    fn value(self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }
}

/// State of an object between its insertion and its removal.
#[derive(Clone, Copy, Debug, Default)]
struct Stay {
    inserted: u32,
    last: u32,
    hits: u32,
}

/// Collects the statistics during a replay.
#[derive(Debug)]
pub(crate) struct Observer<'a> {
    columns: &'a Columns,
    next: &'a [u32],
    unit: Unit,
    stays: Vec<Stay>,
    /// Minimum number of requests of a popular object.
    popular_from: u32,
    counts: &'a [u32],
    warm_up: usize,
    demotions: Mean,
    idle: Mean,
    /// Number of requests between each demotion and the object's next request; `u32::MAX` if there
    /// is none.
    reuse_distances: Vec<u32>,
    evictions_by_hits: [u64; CLASSES],
    /// Weight × requests held, of all objects and of unpopular ones.
    resources: [u128; 2],
    misses: [u64; PARTS],
    requests: [u64; PARTS],
}

impl<'a> Observer<'a> {
    pub(crate) fn new(columns: &'a Columns, unit: Unit, capacity: u64, warm_up: usize) -> Self {
        let counts = columns.request_counts();
        Observer {
            columns,
            next: columns.next_accesses(),
            unit,
            stays: vec![Stay::default(); columns.objects()],
            popular_from: popular_from(columns, counts, unit, capacity),
            counts,
            warm_up,
            demotions: Mean::default(),
            idle: Mean::default(),
            reuse_distances: Vec::new(),
            evictions_by_hits: [0; CLASSES],
            resources: [0; 2],
            misses: [0; PARTS],
            requests: [0; PARTS],
        }
    }

    pub(crate) fn inserted(&mut self, index: usize, slot: Slot) {
        let index = index as u32;
        self.stays[slot.0 as usize] = Stay {
            inserted: index,
            last: index,
            hits: 0,
        };
    }

    /// Records a request, counted or not.
    pub(crate) fn requested(&mut self, index: usize, slot: Slot, is_miss: bool, counts: bool) {
        if !is_miss {
            let stay = &mut self.stays[slot.0 as usize];
            stay.last = index as u32;
            stay.hits += 1;
        }
        if counts && let Some(number) = index.checked_sub(self.warm_up) {
            let part = number * PARTS / (self.columns.len() - self.warm_up);
            self.requests[part] += 1;
            self.misses[part] += u64::from(is_miss);
        }
    }

    /// Records an eviction during the request of this number.
    pub(crate) fn evicted(&mut self, index: usize, slot: Slot, weight: u32) {
        self.removed(index, slot, weight);
        if index < self.warm_up {
            return;
        }
        let stay = self.stays[slot.0 as usize];
        self.idle.add(index as u32 - stay.last);
        self.evictions_by_hits[class(stay.hits)] += 1;
        if stay.hits == 0 {
            self.demotions.add(index as u32 - stay.inserted);
            // The entry had no hits, so the next request of its object is the one after its
            // insertion.
            self.reuse_distances
                .push(match self.next[stay.last as usize] {
                    u32::MAX => u32::MAX,
                    next => next - index as u32,
                });
        }
    }

    /// Records that an entry was removed for any reason, or that the trace ended.
    pub(crate) fn removed(&mut self, index: usize, slot: Slot, weight: u32) {
        let from = (self.stays[slot.0 as usize].inserted as usize).max(self.warm_up);
        let spent = u128::from(weight) * index.saturating_sub(from) as u128;
        let is_unpopular = self.counts[slot.0 as usize] < self.popular_from;
        self.resources[0] += spent;
        self.resources[1] += if is_unpopular { spent } else { 0 };
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.stays.capacity() * size_of::<Stay>() + self.reuse_distances.capacity() * 4
    }

    /// Computes the statistics for a cache of this capacity and miss ratio.
    pub(crate) fn explained(&self, capacity: u64, miss_ratio: f64) -> Explained {
        let held = match self.unit {
            Unit::Objects => capacity as f64,
            Unit::Bytes => {
                capacity as f64 * self.columns.objects() as f64
                    / self.columns.footprint_bytes() as f64
            }
        };
        let turnover = held / miss_ratio;
        let right = self
            .reuse_distances
            .iter()
            .filter(|&&later| later == u32::MAX || f64::from(later) > turnover);
        let share = |part: f64, whole: f64| (whole > 0.0).then(|| part / whole);
        let parts = self.misses.iter().zip(self.requests);
        Explained {
            demotion_age: self.demotions.value(),
            demotion_speed: None,
            demotion_precision: share(right.count() as f64, self.reuse_distances.len() as f64),
            idle_age: self.idle.value(),
            evictions_by_hits: self.evictions_by_hits,
            unpopular_resources: share(self.resources[1] as f64, self.resources[0] as f64),
            over_time: parts
                .map(|(&misses, requests)| misses as f64 / requests.max(1) as f64)
                .collect(),
        }
    }
}

fn class(count: u32) -> usize {
    let bits = u32::BITS - count.leading_zeros();
    (bits as usize).min(CLASSES - 1)
}

/// Smallest request count whose objects fit the cache together with all objects of larger counts.
fn popular_from(columns: &Columns, counts: &[u32], unit: Unit, capacity: u64) -> u32 {
    let mut weights: BTreeMap<u32, u64> = BTreeMap::new();
    for (&count, &size) in counts.iter().zip(&columns.sizes) {
        *weights.entry(count).or_default() += match unit {
            Unit::Objects => 1,
            Unit::Bytes => u64::from(size),
        };
    }
    let mut total = 0;
    let mut lowest = u32::MAX;
    for (count, weight) in weights.into_iter().rev() {
        total += weight;
        if total > capacity {
            break;
        }
        lowest = count;
    }
    lowest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_powers_of_two() {
        assert_eq!(
            [0, 1, 2, 3, 4, 7, 8, 63, 64, u32::MAX].map(class),
            [0, 1, 2, 2, 3, 3, 4, 6, 7, 7]
        );
    }
}
