//! Chooses the servers of parity chunks so that all servers write the same number of bytes.
//!
//! Consistent hashing determines the servers of data chunks, which loads servers unequally. A
//! parity chunk may be on any server without another chunk of its bucket, and this choice evens out
//! the total. There are two algorithms. [`max_flow`] is the source's. [`greedy`] is our own and the
//! default, because it balances better and moves fewer chunks.
//!
//! Source of the problem: section 5.3.2 of J. Yang, *Designing Efficient and Scalable Key-value
//! Cache Management Systems*, CMU 2024.

mod greedy;
mod max_flow;
mod network;

pub use greedy::{TOLERANCE, greedy};
pub use max_flow::max_flow;

/// A server that may take parity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServerShare {
    /// Weight of the server, to which its share of all writes should be proportional. A server of
    /// weight 0 takes nothing.
    pub weight: u32,
    /// Number of data bytes written to the server, as data chunks and replicas; `l` in the source.
    /// The sum of all data and parity in a problem fits in 64 bits.
    pub data_bytes: u64,
}

/// Bucket whose parity must be placed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BucketParity {
    /// Size of each of its P parity chunks in bytes; `s` in the source.
    pub parity_bytes: u64,
    /// Indexes of the servers with its data chunks, which may not take its parity.
    pub holders: Vec<u32>,
}

/// Parity to be placed, and the servers that may take it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// Servers that are up. Indexes of servers refer to this list.
    pub servers: Vec<ServerShare>,
    /// Buckets.
    pub buckets: Vec<BucketParity>,
    /// Number of parity chunks per bucket, to be placed on distinct servers.
    pub p: usize,
}

/// Indexes of the servers of all parity chunks: chunk `j` of bucket `b` is at `b * p + j`. `None`
/// means that every server already has another chunk of the bucket.
pub type Placed = Vec<Option<u32>>;

/// Algorithm that places parity.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Placement {
    /// Places the largest parity first on the least loaded server, then exchanges parity until the
    /// loads are even.
    #[default]
    Greedy,
    /// Computes a maximum flow and rounds it, as in the source.
    MaxFlow,
    /// Uses the next servers on the bucket's walk of the ring, without balancing (C2DN-NoRebal).
    /// Only [`crate::Map`] can do it, because it needs the ring.
    Ring,
}

impl Problem {
    /// Returns true if parity of `bucket` may be placed on `server`, considering only the bucket's
    /// data.
    fn may(&self, bucket: usize, server: usize) -> bool {
        let has_weight = self.servers[server].weight > 0;
        has_weight && !self.buckets[bucket].holders.contains(&(server as u32))
    }

    /// Returns the bytes of data and parity on each server.
    pub fn loads(&self, placed: &[Option<u32>]) -> Vec<u64> {
        assert_eq!(placed.len(), self.buckets.len() * self.p);
        let mut loads: Vec<u64> = self.servers.iter().map(|share| share.data_bytes).collect();
        for (number, server) in placed.iter().enumerate() {
            if let Some(server) = server {
                loads[*server as usize] += self.buckets[number / self.p].parity_bytes;
            }
        }
        loads
    }

    /// Returns the write imbalance (max - min) / min of the loads by weight. Servers without weight
    /// are ignored. The result is zero for fewer than two servers or without load, and infinite if
    /// a server writes nothing while others write.
    pub fn imbalance(&self, placed: &[Option<u32>]) -> f64 {
        let loads = self.loads(placed);
        let with_weight = self
            .servers
            .iter()
            .zip(loads)
            .filter(|(share, _)| share.weight > 0);
        let by_weight = with_weight.map(|(share, load)| load as f64 / f64::from(share.weight));
        let (min, max) = by_weight.fold((f64::INFINITY, 0.0f64), |(min, max), load| {
            (min.min(load), max.max(load))
        });
        if max == 0.0 { 0.0 } else { (max - min) / min }
    }

    /// Returns a lower bound on the imbalance. A server whose data alone exceeds its share cannot
    /// be relieved, and the others share the rest at best as evenly as if bytes could be placed
    /// anywhere.
    pub fn imbalance_min(&self) -> f64 {
        let by_weight = |share: &ServerShare| share.data_bytes as f64 / f64::from(share.weight);
        let mut shares: Vec<&ServerShare> = self
            .servers
            .iter()
            .filter(|share| share.weight > 0)
            .collect();
        shares.sort_by(|a, b| by_weight(b).total_cmp(&by_weight(a)));
        let parity = self.buckets.iter().map(|need| need.parity_bytes as f64);
        let data = shares.iter().map(|share| share.data_bytes as f64);
        let mut bytes = parity.sum::<f64>() * self.p as f64 + data.sum::<f64>();
        let mut weight: f64 = shares.iter().map(|share| f64::from(share.weight)).sum();
        let max = shares.first().map_or(0.0, |share| by_weight(share));
        for share in shares {
            if by_weight(share) <= bytes / weight {
                break;
            }
            bytes -= share.data_bytes as f64;
            weight -= f64::from(share.weight);
        }
        let min = if weight > 0.0 { bytes / weight } else { max };
        if max <= min { 0.0 } else { (max - min) / min }
    }

    /// Asserts that a placement is valid: no two chunks of a bucket on one server, no parity on a
    /// server that may not take it, and no parity without a server while one could take it.
    pub fn check(&self, placed: &[Option<u32>]) {
        assert_eq!(placed.len(), self.buckets.len() * self.p);
        for bucket in 0..self.buckets.len() {
            let own = &placed[bucket * self.p..][..self.p];
            for (j, server) in own.iter().enumerate() {
                if let Some(server) = server {
                    assert!(
                        self.may(bucket, *server as usize),
                        "bucket {bucket} on {server}"
                    );
                    assert!(
                        !own[..j].contains(&Some(*server)),
                        "bucket {bucket} twice on {server}"
                    );
                }
            }
            let free = (0..self.servers.len())
                .filter(|&server| self.may(bucket, server))
                .count();
            let count = own.iter().flatten().count();
            assert_eq!(
                count,
                free.min(self.p),
                "bucket {bucket} has {count} of {}",
                self.p
            );
        }
    }
}

/// Loads of the servers while parity is being placed.
struct ServerLoads<'a> {
    problem: &'a Problem,
    bytes: Vec<u64>,
}

impl<'a> ServerLoads<'a> {
    fn new(problem: &'a Problem) -> ServerLoads<'a> {
        let bytes = problem
            .servers
            .iter()
            .map(|share| share.data_bytes)
            .collect();
        ServerLoads { problem, bytes }
    }

    /// Returns a server's load divided by its weight.
    fn by_weight(&self, server: usize) -> f64 {
        self.bytes[server] as f64 / f64::from(self.problem.servers[server].weight)
    }

    fn least(&self, servers: impl Iterator<Item = usize>) -> Option<usize> {
        servers.min_by(|&a, &b| self.by_weight(a).total_cmp(&self.by_weight(b)))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::ring::{BucketId, Ring, ServerId, mix};
    use proptest::prelude::*;

    /// Returns a problem whose data is placed by consistent hashing; the chunks of a bucket have
    /// between half and one and a half gigabytes.
    pub(crate) fn example(buckets: u32, servers: u32, k: usize, p: usize, seed: u64) -> Problem {
        let ring = Ring::new((0..servers).map(|id| (ServerId(id), 1)), 100, seed);
        let mut problem = Problem {
            servers: vec![
                ServerShare {
                    weight: 1,
                    data_bytes: 0
                };
                servers as usize
            ],
            buckets: vec![],
            p,
        };
        for bucket in 0..buckets {
            let unit = (mix(seed ^ mix(u64::from(bucket))) >> 11) as f64 / (1u64 << 53) as f64;
            let parity_bytes = (1e9 * (0.5 + unit)) as u64;
            let holders: Vec<u32> = ring.walk(BucketId(bucket)).take(k).map(|id| id.0).collect();
            for &holder in &holders {
                problem.servers[holder as usize].data_bytes += parity_bytes;
            }
            problem.buckets.push(BucketParity {
                parity_bytes,
                holders,
            });
        }
        problem
    }

    #[test]
    fn greedy_balances_the_imbalance_of_consistent_hashing() {
        let mut even = 0;
        for seed in 0..20 {
            let problem = example(200, 10, 3, 1, seed);
            let placed = greedy(&problem, None);
            problem.check(&placed);
            let (imbalance, least) = (problem.imbalance(&placed), problem.imbalance_min());
            assert!(
                imbalance <= least + TOLERANCE,
                "seed {seed}: {imbalance}, {least}"
            );
            even += usize::from(least == 0.0);
        }
        // In the other cases, one server's data alone exceeds its share of all writes.
        assert!(even >= 15, "{even} of 20");
    }

    #[test]
    fn servers_write_in_proportion_to_their_weights() {
        let mut problem = example(300, 6, 3, 1, 5);
        for share in &mut problem.servers[..2] {
            share.weight = 0;
            share.data_bytes = 0;
        }
        problem.servers[5].weight = 2;
        for need in &mut problem.buckets {
            need.holders.clear();
        }
        for placed in [greedy(&problem, None), max_flow(&problem)] {
            problem.check(&placed);
            assert!(
                problem.imbalance(&placed) < 0.05,
                "{}",
                problem.imbalance(&placed)
            );
            assert_eq!(problem.loads(&placed)[0], 0);
        }
    }

    #[test]
    fn without_servers_nothing_is_placed() {
        let mut problem = example(20, 10, 3, 2, 1);
        problem.servers.clear();
        problem
            .buckets
            .iter_mut()
            .for_each(|need| need.holders.clear());
        assert_eq!(greedy(&problem, None), vec![None; 40]);
        assert_eq!(max_flow(&problem), vec![None; 40]);
        assert_eq!(problem.imbalance(&greedy(&problem, None)), 0.0);
        problem.buckets.clear();
        assert_eq!(max_flow(&problem), vec![]);
    }

    #[test]
    fn placement_ends_if_balance_is_impossible() {
        // One server has more data than its share, and thousands of parities could be exchanged
        // between the others.
        let mut problem = example(6_000, 5, 1, 1, 9);
        problem.servers[0].data_bytes *= 4;
        let placed = greedy(&problem, None);
        problem.check(&placed);
        assert!(problem.imbalance_min() > 0.5);
        assert!(problem.imbalance(&placed) < problem.imbalance_min() * 1.01);
    }

    #[test]
    fn parity_that_may_stay_stays() {
        let before = example(200, 10, 3, 1, 3);
        let placed = greedy(&before, None);
        assert_eq!(greedy(&before, Some(&placed)), placed);
        // With a tenth more written to some buckets, few chunks move.
        let mut after = before.clone();
        for need in after.buckets.iter_mut().step_by(7) {
            need.parity_bytes += need.parity_bytes / 10;
            for &holder in &need.holders {
                after.servers[holder as usize].data_bytes += need.parity_bytes / 11;
            }
        }
        let again = greedy(&after, Some(&placed));
        after.check(&again);
        let moved = placed.iter().zip(&again).filter(|(a, b)| a != b).count();
        assert!(after.imbalance(&again) <= TOLERANCE);
        assert!(moved < 60, "{moved} of 200");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn every_placement_is_valid(
            servers in prop::collection::vec((0u32..4, 0u64..1_000), 0..8),
            buckets in prop::collection::vec((0u64..500, prop::collection::vec(0u32..8, 0..4)), 0..20),
            p in 1usize..4,
            old in prop::collection::vec(prop::option::of(0u32..9), 60),
        ) {
            let count = servers.len() as u32;
            let share = |(weight, data_bytes)| ServerShare { weight, data_bytes };
            let need = |(parity_bytes, holders): (u64, Vec<u32>)| BucketParity {
                parity_bytes,
                holders: holders.into_iter().filter(|&holder| holder < count).collect(),
            };
            let problem = Problem {
                servers: servers.into_iter().map(share).collect(),
                buckets: buckets.into_iter().map(need).collect(),
                p,
            };
            let old = &old[..problem.buckets.len() * p];
            problem.check(&greedy(&problem, None));
            problem.check(&greedy(&problem, Some(old)));
            problem.check(&max_flow(&problem));
        }
    }
}
