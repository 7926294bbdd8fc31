//! What explains a miss ratio: how fast and how rightly newcomers are demoted, how often evicted
//! entries had been asked for, on whom space is spent, and the ratio over time.
//!
//! After J. Yang, *Design and Implementation of Efficient and Scalable Key-Value Caches*, dissertation,
//! chapters 7.4 (resources), 8.2 (frequency at eviction), 8.5.1 (demotion) and 9.4 (over time). Age is
//! counted in requests.
//!
//! Departure: the source watches the small queue of each algorithm. A host sees no queues, and many
//! algorithms have none; here a *demotion* is the eviction of an entry that was not asked for again
//! since it was inserted, whatever structure it left.

use crate::columns::Columns;
use crate::rules::Unit;
use policy::Slot;
use std::collections::BTreeMap;

/// Classes of counts, by powers of two: 0, 1, 2–3, 4–7, and so on; the last takes the rest.
pub const CLASSES: usize = 8;
/// Into how many parts the requests that count are cut.
pub const PARTS: usize = 20;

/// What was seen of a replay. Means of nothing are `None`.
#[derive(Clone, Debug, PartialEq)]
pub struct Explained {
    /// Requests that a demoted entry spent in the cache, the mean.
    pub demotion_age: Option<f64>,
    /// The age at which LRU evicts at this size, by how long a demoted entry stayed: the speed of
    /// demotion, 1 for LRU.
    pub demotion_speed: Option<f64>,
    /// The share of demotions that were right: the object is asked for again later than a cache of this
    /// size turns over (size / miss ratio), or never.
    pub demotion_precision: Option<f64>,
    /// Requests between the last hit and the eviction, the mean.
    pub idle_age: Option<f64>,
    /// Evictions by hits since the insertion, in [`CLASSES`].
    pub evictions_by_hits: [u64; CLASSES],
    /// The share of space and time spent on objects that would not be in a cache of this size filled
    /// with those asked for most often in the whole trace.
    pub unpopular_resources: Option<f64>,
    /// The miss ratio of each of [`PARTS`] parts of the requests that count.
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

/// What the observer keeps of an entry, by object.
#[derive(Clone, Copy, Debug, Default)]
struct Stay {
    inserted: u32,
    last: u32,
    hits: u32,
}

/// Looks on while a trace is replayed.
#[derive(Debug)]
pub(crate) struct Observer<'a> {
    columns: &'a Columns,
    next: &'a [u32],
    unit: Unit,
    stays: Vec<Stay>,
    /// Objects asked for less often are unpopular.
    popular_from: u32,
    counts: &'a [u32],
    warm_up: usize,
    demotions: Mean,
    idle: Mean,
    /// Of each demotion, how many requests later the object is asked for; `u32::MAX`: never.
    returns: Vec<u32>,
    evictions_by_hits: [u64; CLASSES],
    /// Weight times requests: on all objects, on unpopular ones.
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
            returns: Vec::new(),
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

    /// A request, whether it counts or not.
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

    /// An entry is evicted by the request of this number.
    pub(crate) fn evicted(&mut self, index: usize, slot: Slot, weight: u32) {
        self.left(index, slot, weight);
        if index < self.warm_up {
            return;
        }
        let stay = self.stays[slot.0 as usize];
        self.idle.add(index as u32 - stay.last);
        self.evictions_by_hits[class(stay.hits)] += 1;
        if stay.hits == 0 {
            self.demotions.add(index as u32 - stay.inserted);
            // It was not asked for since: the request after its insertion is the next one.
            self.returns.push(match self.next[stay.last as usize] {
                u32::MAX => u32::MAX,
                next => next - index as u32,
            });
        }
    }

    /// An entry left, for whatever reason, or the trace ended.
    pub(crate) fn left(&mut self, index: usize, slot: Slot, weight: u32) {
        let from = (self.stays[slot.0 as usize].inserted as usize).max(self.warm_up);
        let spent = u128::from(weight) * index.saturating_sub(from) as u128;
        let is_unpopular = self.counts[slot.0 as usize] < self.popular_from;
        self.resources[0] += spent;
        self.resources[1] += if is_unpopular { spent } else { 0 };
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.stays.capacity() * size_of::<Stay>() + self.returns.capacity() * 4
    }

    /// What it saw, in a cache that turns over in so many requests.
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
            .returns
            .iter()
            .filter(|&&later| later == u32::MAX || f64::from(later) > turnover);
        let share = |part: f64, whole: f64| (whole > 0.0).then(|| part / whole);
        let parts = self.misses.iter().zip(self.requests);
        Explained {
            demotion_age: self.demotions.value(),
            demotion_speed: None,
            demotion_precision: share(right.count() as f64, self.returns.len() as f64),
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

/// The lowest count whose objects, with all those asked for more often, fit the cache.
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
