//! What is remembered of single objects: all of them while they are few, a uniform sample of the
//! keys when they are many.
//!
//! An object is in the sample when some bits of its key's hash are zero; each time the table fills
//! up, one more bit must be. So the sample is of keys, not of requests, an object is followed from its
//! first request on or not at all, and everything counted of the sample stands for 2^bits times as
//! much (spatial sampling as in Waldspurger, Park, Garthwaite, Ahmad, "Efficient MRC Construction with
//! SHARDS", FAST 2015).

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Where the bits lie that decide about the sample: neither the lowest nor the highest, which the
/// map below uses.
const SAMPLE_SHIFT: u32 = 24;
/// The rarest sample: one in a million.
const BITS_MAX: u32 = 20;

/// A hash of a number in which every bit depends on every bit, and which has an inverse: equal hashes
/// mean equal keys. (The finisher of MurmurHash3, Austin Appleby, public domain.)
#[inline]
pub(crate) fn hash_of(key: u64) -> u64 {
    let mut bits = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    bits = (bits ^ (bits >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    bits ^ (bits >> 33)
}

/// Passes hashes through.
#[derive(Default)]
pub(crate) struct Plain(u64);

impl Hasher for Plain {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("only hashes are keys here");
    }
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// A map from [`hash_of`] a key.
pub(crate) type HashMapOf<T> = HashMap<u64, T, BuildHasherDefault<Plain>>;

/// The life that an object lives since it was last written.
#[derive(Clone, Copy, Default)]
pub(crate) struct Life {
    pub written_ms: u64,
    /// 0: it has no deadline.
    pub deadline_ms: u64,
    pub last_read_ms: u64,
    pub reads: u32,
    pub is_live: bool,
}

/// One object of the sample: two cache lines, never three.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
pub(crate) struct Object {
    pub hash: u64,
    pub key: u64,
    pub first_ms: u64,
    pub last_ms: u64,
    /// The number of its last request.
    pub last_number: u64,
    pub life: Life,
    /// The last TTL that it was given; 0: none.
    pub ttl_ms: u64,
    pub requests: u32,
    pub size: u32,
    /// Some bits of the hash of the key that was asked for after it.
    pub successor: u32,
    pub has_successor: bool,
    pub changed_size: bool,
}

/// The sample.
pub(crate) struct Objects {
    index: HashMapOf<u32>,
    pub list: Vec<Object>,
    limit: usize,
    /// One in 2^bits objects is in the sample.
    pub bits: u32,
}

impl Objects {
    /// Room for `limit` objects.
    pub fn new(limit: usize) -> Self {
        assert!(limit > 0);
        assert!(u32::try_from(limit).is_ok());
        Objects {
            index: HashMapOf::default(),
            list: Vec::new(),
            limit,
            bits: 0,
        }
    }

    /// How many objects each one stands for.
    #[inline]
    pub fn weight(&self) -> u64 {
        1 << self.bits
    }

    /// Whether every object is followed.
    pub fn is_exact(&self) -> bool {
        self.bits == 0
    }

    #[inline]
    fn is_sampled(&self, hash: u64) -> bool {
        hash >> SAMPLE_SHIFT & (self.weight() - 1) == 0
    }

    /// Where the object of this hash is, if it is in the sample already.
    #[inline]
    pub fn find(&self, hash: u64) -> Option<u32> {
        if !self.is_sampled(hash) {
            return None;
        }
        self.index.get(&hash).copied()
    }

    /// The index of an object of the sample, and whether it is new; `None` when it is not in the
    /// sample. A new one is blank but for key and hash. `found` is what [`Objects::find`] said before,
    /// possibly before others came.
    #[inline]
    pub fn visit(&mut self, key: u64, hash: u64, found: Option<u32>) -> Option<(usize, bool)> {
        if let Some(at) = found {
            return Some((at as usize, false));
        }
        if !self.is_sampled(hash) {
            return None;
        }
        let next = self.list.len() as u32;
        let index = *self.index.entry(hash).or_insert(next);
        if index != next {
            return Some((index as usize, false));
        }
        self.list.push(Object {
            hash,
            key,
            ..Object::default()
        });
        Some((index as usize, true))
    }

    /// Whether the sample must be thinned before the next object comes.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.list.len() >= self.limit && self.bits < BITS_MAX
    }

    /// Halves the sample; told of each object that leaves it.
    pub fn thin(&mut self, mut leaves: impl FnMut(&Object)) {
        self.bits += 1;
        let mut list = std::mem::take(&mut self.list);
        list.retain(|object| {
            let stays = self.is_sampled(object.hash);
            if !stays {
                leaves(object);
            }
            stays
        });
        self.list = list;
        self.index.clear();
        let pairs = self.list.iter().enumerate();
        self.index.extend(pairs.map(|(at, o)| (o.hash, at as u32)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_is_halved_and_stays_uniform() {
        let mut objects = Objects::new(1000);
        for round in 0..3 {
            for key in 0..64_000u64 {
                if objects.is_full() {
                    objects.thin(|_| {});
                }
                let hash = hash_of(key);
                if let Some((at, is_new)) = objects.visit(key, hash, None) {
                    assert!(!is_new || round == 0, "followed from the first on or never");
                    objects.list[at].requests += 1;
                }
            }
        }
        assert!(objects.list.len() <= 1000);
        let estimate = objects.list.len() as f64 * objects.weight() as f64;
        assert!((estimate / 64_000.0 - 1.0).abs() < 0.15, "{estimate}");
        assert!(objects.list.iter().all(|o| o.requests == 3));
    }

    #[test]
    fn no_two_keys_share_a_hash() {
        let mut hashes: Vec<u64> = (0..100_000).map(hash_of).collect();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), 100_000);
    }
}
