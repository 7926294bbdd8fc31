//! Detects writes that have drifted from the nodes' weights, so that parity must be placed again
//! although no node has failed, returned, joined, left or changed its weight.
//!
//! At the end of each period, the bytes written to each bucket are distributed in two ways: by the
//! current map, and by a map computed from *earlier* periods. A new map is due if, for [`PERIODS`]
//! consecutive periods, the current map was more uneven than [`IMBALANCE_MAX`] and the other map
//! would have left at most half of that imbalance. Because a map computed from the past cannot
//! anticipate chance, chance alone hardly ever causes a new map, however few writes a period has.
//!
//! If a node does not answer at the end of a period, the period is judged together with the next
//! one, because the bytes of whole responses are a sum over all nodes.
//!
//! After a map for any reason, at least [`PAUSE_PERIODS`] periods pass before this module causes
//! another one, because each map moves parity, and nodes look for chunks under the last eight maps
//! only.
//!
//! Deliberately absent: a clock, and the collection of the nodes' counts.

use edge::{BucketWrites, Map, MapId};

/// Imbalance of writes by weight, (max - min) / min, above which a map is uneven. Nodes whose
/// writes differ from their weights by at most two percent are below it.
pub const IMBALANCE_MAX: f64 = 0.04;
/// Number of consecutive uneven periods after which parity is placed again.
pub const PERIODS: u32 = 5;
/// Minimum number of periods between a map and one caused by this module.
pub const PAUSE_PERIODS: u32 = 12;
/// Maximum share of the imbalance that another map may leave.
const REST_MAX: f64 = 0.5;

/// Writes under the current map, as known by the node that makes maps.
#[derive(Debug, Default)]
pub struct Balance {
    map: Option<MapId>,
    /// Number of periods under this map.
    age: u32,
    /// Counts at the end of the last period.
    counts: Vec<BucketWrites>,
    /// Bytes written in the previous uneven periods or, if there are none, in the last period.
    past: Vec<BucketWrites>,
    /// Number of consecutive uneven periods.
    uneven: u32,
}

impl Balance {
    /// Judges a period by the counts of all nodes at its end, or `None` if a node did not answer.
    /// Returns the writes for which parity must be placed again, if that is due.
    pub fn judge(
        &mut self,
        map: &Map,
        counts: Option<Vec<BucketWrites>>,
    ) -> Option<Vec<BucketWrites>> {
        let is_new = self.map != Some(map.id());
        if is_new {
            self.map = Some(map.id());
            self.age = 0;
            // A new map halves all counts. The next counts are the first under it.
            (self.counts, self.past, self.uneven) = (vec![], vec![], 0);
        }
        self.age = self.age.saturating_add(1);
        let counts = counts?;
        let written = written(&self.counts, &counts);
        self.counts = counts;
        let Some(written) = written else {
            // A node has restarted its counts, or they were halved.
            (self.past, self.uneven) = (vec![], 0);
            return None;
        };
        if written.iter().all(|one| one.chunk_bytes == 0) {
            return None;
        }
        if self.is_uneven(map, &written) {
            self.uneven += 1;
            add(&mut self.past, &written);
        } else {
            (self.past, self.uneven) = (written, 0);
        }
        let is_due = self.uneven >= PERIODS && self.age > PAUSE_PERIODS;
        is_due.then(|| self.past.clone())
    }

    /// Returns true if a map computed from the past would have distributed the writes better.
    fn is_uneven(&self, map: &Map, written: &[BucketWrites]) -> bool {
        if self.past.is_empty() {
            return false;
        }
        let Ok(other) = map.next(&[], &self.past) else {
            return false;
        };
        let problem = map.problem(written);
        let present = problem.imbalance(&map.placed());
        present > IMBALANCE_MAX && problem.imbalance(&other.placed()) <= present.min(1e9) * REST_MAX
    }
}

/// Returns the bytes written between two counts. Returns `None` if the counts cannot be compared:
/// there were none, or a node has restarted its counts or halved them for a new map.
fn written(before: &[BucketWrites], after: &[BucketWrites]) -> Option<Vec<BucketWrites>> {
    if before.is_empty() || before.len() != after.len() {
        return None;
    }
    let pairs = after.iter().zip(before);
    let differences = pairs.map(|(after, before)| {
        Some(BucketWrites {
            chunk_bytes: after.chunk_bytes.checked_sub(before.chunk_bytes)?,
            whole_bytes: after.whole_bytes.checked_sub(before.whole_bytes)?,
        })
    });
    differences.collect()
}

fn add(sum: &mut [BucketWrites], more: &[BucketWrites]) {
    for (one, more) in sum.iter_mut().zip(more) {
        one.chunk_bytes = one.chunk_bytes.saturating_add(more.chunk_bytes);
        one.whole_bytes = one.whole_bytes.saturating_add(more.whole_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edge::{Config, Scheme, ServerId, mix};

    const BUCKETS: u64 = 200;

    fn map() -> Map {
        let servers: Vec<_> = (0..10).map(|id| (ServerId(id), 1 + id % 3)).collect();
        let mut config = Config::new(Scheme::coded(3, 1));
        config.buckets = BUCKETS as u32;
        Map::new(config, &servers).expect("the input is valid")
    }

    /// Adds the writes of a period.
    fn write(counts: &mut Vec<BucketWrites>, bytes: impl Fn(u64) -> u64) {
        counts.resize(BUCKETS as usize, BucketWrites::default());
        for (bucket, one) in counts.iter_mut().enumerate() {
            one.chunk_bytes += bytes(bucket as u64);
        }
    }

    /// Returns the bytes written to a bucket: some buckets receive ten times as many as others.
    fn skewed(seed: u64) -> impl Fn(u64) -> u64 {
        move |bucket| 1_000_000 * (1 + mix(bucket ^ (seed << 32)) % 10)
    }

    /// Returns the number of the first period, of fifty, in which a map is due.
    fn first(balance: &mut Balance, map: &Map, bytes: impl Fn(u64, u64) -> u64) -> Option<u64> {
        let mut counts = vec![];
        write(&mut counts, |_| 0);
        (0..50).find(|&period| {
            write(&mut counts, |bucket| bytes(period, bucket));
            balance.judge(map, Some(counts.clone())).is_some()
        })
    }

    /// Regression: if a node missed a request for its counts, all counts started again, and when it
    /// returned, everything that it had ever counted was attributed to a single period.
    #[test]
    fn a_node_that_does_not_answer_delays_a_map_by_a_period() {
        let map = map();
        for missed in [2, PAUSE_PERIODS, PAUSE_PERIODS + 1] {
            let (mut balance, mut counts) = (Balance::default(), vec![]);
            let due = (0..50).find(|&period| {
                write(&mut counts, skewed(1));
                let answered = (period != missed).then(|| counts.clone());
                balance.judge(&map, answered).is_some()
            });
            let delay = u32::from(missed == PAUSE_PERIODS);
            assert_eq!(due, Some(PAUSE_PERIODS + delay));
        }
    }

    #[test]
    fn constant_uneven_writes_make_a_map_after_the_pause() {
        let map = map();
        let constant = |_, bucket| skewed(1)(bucket);
        let mut balance = Balance::default();
        let pause = u64::from(PAUSE_PERIODS);
        assert_eq!(first(&mut balance, &map, constant), Some(pause));
    }

    #[test]
    fn the_next_map_is_even_and_stays() {
        let map = map();
        let mut balance = Balance::default();
        let mut counts = vec![];
        let mut loads = None;
        while loads.is_none() {
            write(&mut counts, skewed(1));
            loads = balance.judge(&map, Some(counts.clone()));
        }
        let next = map.next(&[], &loads.expect("the loop has ended"));
        let next = next.expect("the input is valid");
        let problem = next.problem(&counts);
        let imbalance = problem.imbalance(&next.placed());
        assert!(imbalance < problem.imbalance_min() + IMBALANCE_MAX);
        let constant = |_, bucket| skewed(1)(bucket);
        assert_eq!(first(&mut balance, &next, constant), None);
    }

    #[test]
    fn writes_that_change_make_a_map_some_periods_later() {
        let map = map().next(&[], &{
            let mut counts = vec![];
            write(&mut counts, skewed(1));
            counts
        });
        let map = map.expect("the input is valid");
        let drifting = |period, bucket| skewed(1 + u64::from(period >= 20))(bucket);
        // The first period with the new writes has no earlier period for comparison.
        let expected = 20 + u64::from(PERIODS);
        assert_eq!(
            first(&mut Balance::default(), &map, drifting),
            Some(expected)
        );
    }

    #[test]
    fn chance_makes_no_map() {
        let map = map();
        for seed in 0..20_u64 {
            // In each period, a few large objects are written to other buckets.
            let chance = |period, bucket| {
                let random: u64 = mix(bucket ^ ((period + 1) << 20) ^ (seed << 40));
                if random.is_multiple_of(20) {
                    1_000_000
                } else {
                    0
                }
            };
            let due = first(&mut Balance::default(), &map, chance);
            assert_eq!(due, None, "seed {seed}");
        }
    }

    #[test]
    fn without_writes_there_is_no_map() {
        assert_eq!(first(&mut Balance::default(), &map(), |_, _| 0), None);
    }

    #[test]
    fn counts_that_begin_again_begin_the_periods_again() {
        let map = map();
        let mut balance = Balance::default();
        let mut counts = vec![];
        for period in 0..40 {
            if period % u64::from(PERIODS) == 0 {
                counts
                    .iter_mut()
                    .for_each(|one: &mut BucketWrites| one.chunk_bytes /= 2);
            }
            write(&mut counts, skewed(1));
            let due = balance.judge(&map, Some(counts.clone()));
            // At first a count can exceed the value before it was halved.
            assert!(
                due.is_none() || period < 2 * u64::from(PAUSE_PERIODS),
                "{period}"
            );
        }
        assert!(balance.judge(&map, Some(vec![])).is_none());
        assert!(balance.judge(&map, Some(counts)).is_none());
    }
}
