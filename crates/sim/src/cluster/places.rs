//! A version of the cluster map, flattened: the servers of each bucket's copies and chunks.

use super::scheme::Scheme;
use crate::dense::hash_of;
use edge::{BucketId, Map, ServerId};
use policy::Slot;
use std::sync::Arc;

/// Marks a missing server, because too few are up.
pub(super) const NONE: u16 = u16::MAX;

/// Servers of a bucket, in the order of chunks or of copies.
pub(super) type ServerList<'a> = &'a [u16];

/// Servers of all buckets in one version of the map.
#[derive(Clone, Debug)]
pub(super) struct Places {
    count: u32,
    /// Bucket of each object.
    buckets: Arc<[u32]>,
    copies: Vec<u16>,
    /// Copies of a bucket; fewer than the scheme's while few servers are up.
    copies_each: usize,
    chunks: Vec<u16>,
    chunks_each: usize,
}

/// Bucket of an object, by a hash of its id in [`crate::Columns`]. A router hashes the object's
/// name instead.
pub fn bucket_of(object: u32, buckets: u32) -> u32 {
    BucketId::of(hash_of(Slot(object)), buckets).0
}

/// Bucket of each object.
pub(super) fn buckets_of(objects: usize, buckets: u32) -> Arc<[u32]> {
    let objects = 0..objects as u32;
    objects.map(|object| bucket_of(object, buckets)).collect()
}

impl Places {
    pub(super) fn of(map: &Map, buckets: &Arc<[u32]>) -> Places {
        let count = map.config().buckets;
        let number = |server: ServerId| server.0 as u16;
        let copies_each = map.replicas(BucketId(0)).count();
        let chunks_each = map.chunks(BucketId(0)).len();
        let mut places = Places {
            count,
            buckets: Arc::clone(buckets),
            copies: Vec::with_capacity(count as usize * copies_each),
            copies_each,
            chunks: Vec::with_capacity(count as usize * chunks_each),
            chunks_each,
        };
        for bucket in (0..count).map(BucketId) {
            places.copies.extend(map.replicas(bucket).map(number));
            let chunks = map.chunks(bucket).iter();
            places
                .chunks
                .extend(chunks.map(|server| server.map_or(NONE, number)));
        }
        assert_eq!(places.copies.len(), count as usize * copies_each);
        places
    }

    /// Number of buckets.
    pub(super) fn buckets(&self) -> u32 {
        self.count
    }

    pub(super) fn bucket_of(&self, object: u32) -> u32 {
        self.buckets[object as usize]
    }

    /// Server that receives the requests of a bucket; `None` if all are down.
    pub(super) fn lead(&self, bucket: u32) -> Option<u16> {
        self.copies(bucket).first().copied()
    }

    pub(super) fn copies(&self, bucket: u32) -> ServerList<'_> {
        &self.copies[bucket as usize * self.copies_each..][..self.copies_each]
    }

    /// Servers of the chunks, data chunks first.
    pub(super) fn chunks(&self, bucket: u32) -> ServerList<'_> {
        &self.chunks[bucket as usize * self.chunks_each..][..self.chunks_each]
    }

    /// Number of parity chunks that a bucket keeps on another server than in `before`.
    pub(super) fn moved(&self, before: &Places, data: usize) -> u64 {
        let rows = |places: &Places| -> Vec<Vec<u16>> {
            let rows = places.chunks.chunks(places.chunks_each.max(1));
            rows.map(|row| row[data.min(row.len())..].to_vec())
                .collect()
        };
        let pairs = rows(self)
            .into_iter()
            .flatten()
            .zip(rows(before).into_iter().flatten());
        pairs.filter(|(now, then)| now != then).count() as u64
    }
}

/// Map configuration of a scheme.
pub(super) fn config(scheme: Scheme, buckets: u32, coded_from: u32, seed: u64) -> edge::Config {
    let code = match scheme {
        Scheme::Coded { data, parity, .. } => edge::Scheme {
            coded_from_bytes: Some(u64::from(coded_from)),
            ..edge::Scheme::coded(data as u8, parity as u8)
        },
        _ => edge::Scheme::replicated(scheme.copies() as u8),
    };
    edge::Config {
        buckets,
        seed,
        placement: scheme.placement(),
        ..edge::Config::new(code)
    }
}
