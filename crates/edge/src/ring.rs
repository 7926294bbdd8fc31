//! Consistent hashing of buckets to servers.
//!
//! # Idea
//! Every server has points on a ring of 64-bit numbers, a fixed number for each unit of its weight.
//! A bucket has one point. A walk from the bucket's point reaches the servers in an order specific
//! to the bucket. The caller skips servers that are down. A failed server thus passes each of its
//! buckets to the next server on the bucket's walk, and nothing else changes.
//!
//! # Source
//! D. Karger and others, *Consistent hashing and random trees*, STOC 1997. Routing by buckets, a
//! few hundred in a cluster of ten servers: section 5.1 of J. Yang, *Designing Efficient and
//! Scalable Key-value Cache Management Systems*, CMU 2024.
//!
//! # Cost
//! 16 bytes per point. Building a ring takes one sort; a walk is a binary search and then one step
//! per point.
//!
//! # Departures
//! The number of a server's points depends only on its own weight. A server that joins, leaves or
//! changes its weight therefore moves no points of other servers.

use std::fmt;

/// Number of a server. It is unique while the server is a member, and is not reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ServerId(pub u32);

impl fmt::Display for ServerId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "server {}", self.0)
    }
}

/// Number of a bucket, a group of objects with the same servers. It is less than the cluster's
/// number of buckets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BucketId(pub u32);

impl BucketId {
    /// Returns the bucket of an object among `buckets`, given a hash of its name that is evenly
    /// distributed over 64 bits.
    pub fn of(name_hash: u64, buckets: u32) -> BucketId {
        let high = (u128::from(name_hash) * u128::from(buckets)) >> 64;
        BucketId(high as u32)
    }
}

/// Points of servers, in ascending order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ring {
    points: Vec<(u64, ServerId)>,
    servers: usize,
    seed: u64,
}

/// Constant that separates the points of buckets from the points of servers.
const OF_BUCKETS: u64 = 0x6275_636b_6574_7321;
const OF_SERVERS: u64 = 0x7365_7276_6572_7321;

/// Mixes the bits of a number: the finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
pub fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

impl Ring {
    /// Creates a ring with `virtual_nodes` points per unit of a server's weight. A server of weight
    /// 0 has no points and takes nothing. The order of the servers does not matter.
    pub fn new(
        servers: impl IntoIterator<Item = (ServerId, u32)>,
        virtual_nodes: u32,
        seed: u64,
    ) -> Ring {
        let mut points = Vec::new();
        let mut count = 0;
        for (server, weight) in servers {
            let own = mix(seed ^ OF_SERVERS).wrapping_add(u64::from(server.0) << 32);
            let last = u64::from(virtual_nodes) * u64::from(weight);
            points.extend((0..last).map(|point| (mix(mix(own) ^ mix(point)), server)));
            count += usize::from(last > 0);
        }
        points.sort_unstable();
        Ring {
            points,
            servers: count,
            seed,
        }
    }

    /// Returns the servers in the order of a bucket's walk, each once.
    pub fn walk(&self, bucket: BucketId) -> Walk<'_> {
        let at = mix(mix(self.seed ^ OF_BUCKETS) ^ u64::from(bucket.0));
        Walk {
            ring: self,
            next: self.points.partition_point(|&(point, _)| point < at),
            left: self.points.len(),
            met: Vec::new(),
        }
    }
}

/// Iterator over the servers of a bucket's walk, each once. See [`Ring::walk`].
#[derive(Clone, Debug)]
pub struct Walk<'a> {
    ring: &'a Ring,
    next: usize,
    left: usize,
    met: Vec<ServerId>,
}

impl Iterator for Walk<'_> {
    type Item = ServerId;

    fn next(&mut self) -> Option<ServerId> {
        while self.left > 0 && self.met.len() < self.ring.servers {
            let at = self.next % self.ring.points.len();
            self.next = at + 1;
            self.left -= 1;
            let server = self.ring.points[at].1;
            if !self.met.contains(&server) {
                self.met.push(server);
                return Some(server);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUCKETS: u32 = 2_000;

    fn ring(servers: &[(u32, u32)]) -> Ring {
        let servers = servers.iter().map(|&(id, weight)| (ServerId(id), weight));
        Ring::new(servers, 100, 7)
    }

    fn leads(ring: &Ring) -> Vec<ServerId> {
        let lead = |bucket| ring.walk(BucketId(bucket)).next().expect("a server");
        (0..BUCKETS).map(lead).collect()
    }

    fn even(count: u32) -> Vec<(u32, u32)> {
        (0..count).map(|id| (id, 1)).collect()
    }

    #[test]
    fn a_walk_meets_every_server_once() {
        let ring = ring(&even(10));
        for bucket in 0..BUCKETS {
            let mut met: Vec<u32> = ring.walk(BucketId(bucket)).map(|server| server.0).collect();
            met.sort_unstable();
            assert_eq!(met, (0..10).collect::<Vec<u32>>());
        }
    }

    #[test]
    fn a_joining_server_takes_its_share_and_moves_nothing_between_others() {
        let (before, after) = (leads(&ring(&even(10))), leads(&ring(&even(11))));
        let moved: Vec<_> = before.iter().zip(&after).filter(|(a, b)| a != b).collect();
        assert!(moved.iter().all(|(_, server)| **server == ServerId(10)));
        let share = moved.len() as f64 / f64::from(BUCKETS);
        assert!((0.05..0.14).contains(&share), "{share}");
    }

    #[test]
    fn a_leaving_server_passes_its_buckets_to_the_next_on_each_walk() {
        let all = ring(&even(10));
        let mut rest = even(10);
        rest.remove(3);
        let without = ring(&rest);
        for bucket in 0..BUCKETS {
            let walk = all.walk(BucketId(bucket));
            let passed_over: Vec<_> = walk.filter(|&server| server != ServerId(3)).collect();
            let walk: Vec<_> = without.walk(BucketId(bucket)).collect();
            assert_eq!(passed_over, walk);
        }
    }

    #[test]
    fn leads_follow_weights_and_a_weight_of_zero_takes_nothing() {
        let leads = leads(&ring(&[(0, 1), (1, 3), (2, 0)]));
        let of = |id| leads.iter().filter(|lead| **lead == ServerId(id)).count() as f64;
        assert_eq!(of(2), 0.0);
        let ratio = of(1) / of(0);
        assert!((2.3..3.9).contains(&ratio), "{ratio}");
        assert_eq!(ring(&[(2, 0)]).walk(BucketId(0)).next(), None);
        assert_eq!(ring(&[]).walk(BucketId(0)).next(), None);
    }

    #[test]
    fn buckets_are_numbered_from_zero_to_the_last() {
        assert_eq!(BucketId::of(0, 7), BucketId(0));
        assert_eq!(BucketId::of(u64::MAX, 7), BucketId(6));
        assert_eq!(BucketId::of(u64::MAX, u32::MAX), BucketId(u32::MAX - 1));
        assert_eq!(BucketId::of(1 << 63, 8), BucketId(4));
    }
}
