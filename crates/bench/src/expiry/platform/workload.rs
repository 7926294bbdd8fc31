//! The workloads: YCSB's a and f, and i with mostly insertions. Each write is followed by a TTL
//! drawn at random.
//!
//! Source of a and f: B. F. Cooper, A. Silberstein, E. Tam, R. Ramakrishnan, R. Sears,
//! "Benchmarking cloud serving systems with YCSB", SoCC 2010,
//! <https://doi.org/10.1145/1807128.1807152>; of i and the TTLs: G. Xie, Y.-C. Chung, MEMSYS 2020,
//! tables 2 and 3.
//!
//! Keys are drawn by Zipf's law with YCSB's skew. YCSB scatters popular keys over the key space,
//! which makes no difference for a hash table. The paper does not state the number of records (a
//! and f), nor which keys i reads. Here the most recently inserted keys are the likeliest, as in
//! YCSB's d.

use serde::Serialize;
use trace::{Random, Zipf};

/// YCSB's skew.
pub(super) const SKEW: f64 = 0.99;

/// Mix of operations.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Workload {
    /// Half reads, half updates (sessions)
    A,
    /// Half reads, half read-modify-writes (records of users)
    F,
    /// One tenth reads, the rest insertions of new keys
    I,
}

/// An operation. Each except a read ends with an EXPIRE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Read,
    Update,
    Insert,
    ReadModifyWrite,
}

impl Workload {
    pub(super) fn name(self) -> &'static str {
        match self {
            Workload::A => "a",
            Workload::F => "f",
            Workload::I => "i",
        }
    }

    /// Returns the share of reads, and the other operation.
    fn mix(self) -> (f64, Operation) {
        match self {
            Workload::A => (0.5, Operation::Update),
            Workload::F => (0.5, Operation::ReadModifyWrite),
            Workload::I => (0.1, Operation::Insert),
        }
    }
}

/// An endless stream of operations, keys and TTLs, determined by its seed.
pub(super) struct Stream {
    workload: Workload,
    ttls_ms: Vec<u64>,
    ranks: Zipf,
    random: Random,
    inserted: u64,
}

impl Stream {
    pub(super) fn new(workload: Workload, records: u64, ttls_ms: Vec<u64>, seed: u64) -> Stream {
        assert!(!ttls_ms.is_empty());
        Stream {
            workload,
            ttls_ms,
            ranks: Zipf::new(records, SKEW, seed),
            random: Random::new(!seed),
            inserted: 0,
        }
    }
}

impl Iterator for Stream {
    /// The operation, its key and, for writes, the TTL in milliseconds.
    type Item = (Operation, u64, u64);

    fn next(&mut self) -> Option<(Operation, u64, u64)> {
        let (reads, other) = self.workload.mix();
        let operation = if self.random.fraction() < reads {
            Operation::Read
        } else {
            other
        };
        let rank = self.ranks.next().expect("the stream of ranks is endless");
        let key = match (self.workload, operation) {
            (_, Operation::Insert) => {
                self.inserted += 1;
                self.inserted - 1
            }
            (Workload::I, _) => self.inserted.saturating_sub(1 + rank),
            _ => rank,
        };
        let ttl_ms = self.ttls_ms[self.random.below(self.ttls_ms.len() as u64) as usize];
        Some((operation, key, ttl_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNT: usize = 100_000;

    fn share(stream: Stream, is_wanted: impl Fn(&(Operation, u64, u64)) -> bool) -> f64 {
        stream.take(COUNT).filter(is_wanted).count() as f64 / COUNT as f64
    }

    #[test]
    fn mixes_are_those_of_the_tables() {
        // Five standard deviations of a share of one half among 100,000 are 0.008.
        let cases = [
            (Workload::A, Operation::Update, 0.5),
            (Workload::F, Operation::ReadModifyWrite, 0.5),
            (Workload::I, Operation::Insert, 0.9),
        ];
        for (workload, operation, wanted) in cases {
            let stream = || Stream::new(workload, 1000, vec![60], 1);
            let found = share(stream(), |drawn| drawn.0 == operation);
            assert!((found - wanted).abs() < 0.008, "{workload:?} {found}");
            let found = share(stream(), |drawn| drawn.0 == Operation::Read);
            assert!(
                (found - (1.0 - wanted)).abs() < 0.008,
                "{workload:?} {found}"
            );
        }
    }

    #[test]
    fn keys_follow_zipfs_law_and_ttls_are_equally_likely() {
        let stream = || Stream::new(Workload::A, 1000, vec![15, 30, 45, 60], 3);
        let weights: Vec<f64> = (1..=1000).map(|k| f64::from(k).powf(-SKEW)).collect();
        let total: f64 = weights.iter().sum();
        for key in [0, 1, 9] {
            let found = share(stream(), |drawn| drawn.1 == key);
            let wanted = weights[key as usize] / total;
            assert!(
                (found - wanted).abs() < 0.006,
                "{key}: {found} for {wanted}"
            );
        }
        for ttl in [15, 30, 45, 60] {
            let found = share(stream(), |drawn| drawn.2 == ttl);
            assert!((found - 0.25).abs() < 0.007, "{ttl}: {found}");
        }
    }

    #[test]
    fn insertions_are_new_and_reads_look_at_the_newest() {
        let mut inserted = 0;
        let mut near = 0;
        let mut reads = 0;
        for (operation, key, _) in Stream::new(Workload::I, 1000, vec![60], 5).take(COUNT) {
            if operation == Operation::Insert {
                assert_eq!(key, inserted);
                inserted += 1;
            } else {
                assert!(key < inserted.max(1));
                reads += 1;
                near += u32::from(inserted - key.min(inserted) <= 10);
            }
        }
        assert!(near * 3 > reads, "{near} of {reads}");
    }
}
