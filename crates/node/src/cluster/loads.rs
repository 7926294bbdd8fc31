//! Bytes written to each bucket, which determine the placement of parity.
//!
//! Every node counts what it stores: the bytes of chunks, and those of responses that stay whole.
//! All nodes with chunks of a bucket store the same number of its bytes, because each stores one
//! chunk of every object. The bytes of the bucket's chunks are therefore the *maximum* count of any
//! node, and the counts of a node that is down are not needed. Whole responses are stored only by
//! their owner, so their bytes are the sum of all counts.
//!
//! `edge::Map` assumes that whole responses are stored on P + 1 nodes. It therefore overestimates
//! their bytes on all of these nodes except the owner.
//!
//! Each new map halves all counts, so that old writes lose weight, as in the simulator.

use edge::{BucketId, BucketWrites};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters of one node.
#[derive(Debug)]
pub struct Loads(Vec<[AtomicU64; 2]>);

impl Loads {
    /// Creates counters for a number of buckets.
    pub fn new(buckets: u32) -> Self {
        Loads((0..buckets).map(|_| Default::default()).collect())
    }

    /// Counts the bytes of a chunk.
    pub fn add_chunk(&self, bucket: BucketId, bytes: u64) {
        self.add(bucket, 0, bytes);
    }

    /// Counts the bytes of a response that stays whole.
    pub fn add_whole(&self, bucket: BucketId, bytes: u64) {
        self.add(bucket, 1, bytes);
    }

    fn add(&self, bucket: BucketId, kind: usize, bytes: u64) {
        if let Some(counts) = self.0.get(bucket.0 as usize) {
            counts[kind].fetch_add(bytes, Relaxed);
        }
    }

    /// Halves all counts. A count that is added at the same time may or may not be halved.
    pub fn halve(&self) {
        for count in self.0.iter().flatten() {
            let bytes = count.load(Relaxed);
            count.fetch_sub(bytes - bytes / 2, Relaxed);
        }
    }

    /// Returns the counts of all buckets.
    pub fn counts(&self) -> Vec<BucketWrites> {
        let counts = self.0.iter().map(|[chunk, whole]| BucketWrites {
            chunk_bytes: chunk.load(Relaxed),
            whole_bytes: whole.load(Relaxed),
        });
        counts.collect()
    }
}

/// Encodes counts as JSON: for each bucket, the bytes of chunks and of whole responses.
pub fn encode(counts: &[BucketWrites]) -> String {
    let pairs = counts.iter().map(|one| (one.chunk_bytes, one.whole_bytes));
    serde_json::to_string(&pairs.collect::<Vec<_>>()).unwrap_or_default()
}

/// Adds the counts of another node. Returns false and adds nothing if the text is malformed or has
/// another number of buckets.
pub fn add(sum: &mut [BucketWrites], text: &[u8]) -> bool {
    let Ok(pairs) = serde_json::from_slice::<Vec<(u64, u64)>>(text) else {
        return false;
    };
    if pairs.len() != sum.len() {
        return false;
    }
    for (one, (chunk_bytes, whole_bytes)) in sum.iter_mut().zip(pairs) {
        one.chunk_bytes = one.chunk_bytes.max(chunk_bytes);
        one.whole_bytes = one.whole_bytes.saturating_add(whole_bytes);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_nodes_are_one_load_for_each_bucket() {
        let (one, other) = (Loads::new(3), Loads::new(3));
        for node in [&one, &other] {
            node.add_chunk(BucketId(1), 100);
            node.add_whole(BucketId(1), 7);
        }
        other.add_chunk(BucketId(1), 1);
        other.add_chunk(BucketId(9), 1);
        let mut sum = one.counts();
        assert!(add(&mut sum, encode(&other.counts()).as_bytes()));
        let loads = sum.iter().map(|one| (one.chunk_bytes, one.whole_bytes));
        assert_eq!(loads.collect::<Vec<_>>(), [(0, 0), (101, 14), (0, 0)]);
        let before = sum.clone();
        for text in ["", "[]", "[[1,2]]", "[[1],[2],[3]]", "[[-1,0],[0,0],[0,0]]"] {
            assert!(!add(&mut sum, text.as_bytes()));
        }
        assert_eq!(sum, before);
        other.halve();
        assert_eq!(other.counts()[1].chunk_bytes, 50);
        assert_eq!(other.counts()[1].whole_bytes, 3);
    }
}
