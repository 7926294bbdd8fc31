//! State of each object: of all objects while there are few, and of a uniform sample of the keys if
//! there are many.
//!
//! An object is in the sample if certain bits of its key's hash are zero. Each time the table is
//! full, one more bit must be zero. Keys are sampled, not requests: an object is tracked from its
//! first request on or not at all, and each sampled object represents 2^bits objects (spatial
//! sampling as in Waldspurger, Park, Garthwaite, Ahmad, "Efficient MRC Construction with SHARDS",
//! FAST 2015).

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Position of the hash bits that select the sample: neither the lowest nor the highest bits, which
/// the hash map uses.
const SAMPLE_SHIFT: u32 = 24;
/// Maximum number of bits, which gives the smallest sample: one in a million objects.
const BITS_MAX: u32 = 20;
/// The index is at most half full and has at most 2^32 places.
const OBJECTS_MAX: usize = 1 << 31;
/// Size of an empty index, as a power of two.
const FIRST_ORDER: u32 = 10;

/// A hash in which every bit depends on every bit of the number. It is invertible, so that equal
/// hashes mean equal keys. (The finisher of MurmurHash3, Austin Appleby, public domain.)
#[inline]
pub(crate) fn hash_of(key: u64) -> u64 {
    let mut bits = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    bits = (bits ^ (bits >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    bits ^ (bits >> 33)
}

/// Hasher that returns the hash it is given.
#[derive(Default)]
pub(crate) struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("keys are hashes");
    }
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// Map keyed by [`hash_of`] a key.
pub(crate) type HashMapOf<T> = HashMap<u64, T, BuildHasherDefault<IdentityHasher>>;

/// Current lifetime of an object, since it was last written.
#[derive(Clone, Copy, Default)]
pub(crate) struct Lifetime {
    pub written_ms: u64,
    /// Deadline in milliseconds; 0 for none.
    pub deadline_ms: u64,
    pub last_read_ms: u64,
    pub reads: u32,
    pub is_live: bool,
}

/// A sampled object, in two cache lines.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
pub(crate) struct Object {
    pub hash: u64,
    pub key: u64,
    pub first_ms: u64,
    pub last_ms: u64,
    /// Number of the object's last request.
    pub last_number: u64,
    pub lifetime: Lifetime,
    /// Last TTL given; 0 for none.
    pub ttl_ms: u64,
    pub requests: u32,
    pub size: u32,
    /// Bits of the hash of the key that was requested directly after this object.
    pub successor: u32,
    pub has_successor: bool,
    pub changed_size: bool,
}

/// Hash index of the objects with linear probing, at most half full. A place takes four bytes, so
/// that a look-up waits for one cache line of the index and can start before the previous one has
/// finished.
///
/// ```text
/// place    tag, 32 − order bits | number of the object + 1, order bits; 0 for none
/// ```
///
/// Tag and place come from the same 32 bits of the hash. Only one in 2^(32 − order) occupied places
/// has the tag of another object and needs a comparison with it.
struct Index {
    places: Vec<u32>,
    /// The index has 2^order places.
    order: u32,
}

impl Index {
    fn new(order: u32) -> Self {
        assert!(order <= 32);
        Index {
            places: vec![0; 1 << order],
            order,
        }
    }

    /// First place of the search for a hash, and the tag of its objects.
    #[inline]
    fn start(&self, hash: u64) -> (usize, u32) {
        let mixed = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let place = mixed >> (32 - self.order);
        // The bits shifted out at the top select the place.
        (place as usize, (mixed << self.order) as u32)
    }

    /// Number of the object that a place may refer to.
    #[inline]
    fn number(&self, place: u32) -> u32 {
        let mask = (1u64 << self.order) - 1;
        (place & mask as u32).wrapping_sub(1)
    }

    /// Returns the number of the object that matches `is_it`, or the free place where it would be
    /// inserted.
    #[inline]
    fn search(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Result<u32, usize> {
        let (mut at, tag) = self.start(hash);
        loop {
            let place = self.places[at];
            if place == 0 {
                return Err(at);
            }
            let number = self.number(place);
            if place ^ tag == number + 1 && is_it(number) {
                return Ok(number);
            }
            at = (at + 1) & (self.places.len() - 1);
        }
    }

    /// Inserts an object at the place where a search ended.
    #[inline]
    fn enter(&mut self, at: usize, hash: u64, number: u32) {
        debug_assert!(self.places[at] == 0);
        self.places[at] = self.start(hash).1 | (number + 1);
    }

    /// Builds an index of distinct objects.
    fn of(list: &[Object], order: u32) -> Self {
        let mut index = Index::new(order);
        for (number, object) in list.iter().enumerate() {
            if let Err(at) = index.search(object.hash, |_| false) {
                index.enter(at, object.hash, number as u32);
            }
        }
        index
    }
}

/// Sample of objects.
pub(crate) struct Objects {
    index: Index,
    pub list: Vec<Object>,
    limit: usize,
    /// One in 2^bits objects is in the sample.
    pub bits: u32,
}

impl Objects {
    /// Creates a sample of at most `limit` objects.
    pub fn new(limit: usize) -> Self {
        assert!(limit > 0);
        Objects {
            index: Index::new(FIRST_ORDER),
            list: Vec::new(),
            limit: limit.min(OBJECTS_MAX),
            bits: 0,
        }
    }

    /// Number of objects that each sampled object represents.
    #[inline]
    pub fn weight(&self) -> u64 {
        1 << self.bits
    }

    /// Whether every object is in the sample.
    pub fn is_exact(&self) -> bool {
        self.bits == 0
    }

    #[inline]
    fn is_sampled(&self, hash: u64) -> bool {
        hash >> SAMPLE_SHIFT & (self.weight() - 1) == 0
    }

    /// Prefetches the memory that look-ups of these hashes need. The accesses do not depend on each
    /// other, so that they wait for memory in parallel.
    pub fn touch(&self, hashes: &[u64]) {
        let start = |hash: &u64| match self.is_sampled(*hash) {
            true => self.index.start(*hash).0,
            false => 0,
        };
        let places = hashes.iter().map(|hash| self.index.places[start(hash)]);
        let numbers = places.map(|place| self.index.number(place));
        // One field of each of an object's two cache lines.
        let objects = numbers.filter_map(|number| self.list.get(number as usize));
        std::hint::black_box(objects.map(|o| o.hash ^ u64::from(o.size)).max());
    }

    /// Returns the index of a sampled object and whether it is new; `None` if it is not in the
    /// sample. In a new object, only key and hash are set.
    #[inline]
    pub fn visit(&mut self, key: u64, hash: u64) -> Option<(usize, bool)> {
        if !self.is_sampled(hash) {
            return None;
        }
        let found = self
            .index
            .search(hash, |number| self.list[number as usize].hash == hash);
        let at = match found {
            Ok(number) => return Some((number as usize, false)),
            Err(at) => at,
        };
        let number = self.list.len();
        self.index.enter(at, hash, number as u32);
        self.list.push(Object {
            hash,
            key,
            ..Object::default()
        });
        if 2 * self.list.len() > self.index.places.len() {
            self.index = Index::of(&self.list, self.index.order + 1);
        }
        Some((number, true))
    }

    /// Whether the sample must be thinned before the next object.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.list.len() >= self.limit && self.bits < BITS_MAX
    }

    /// Halves the sample, and calls `removed` for each object that is removed.
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
        self.index = Index::of(&self.list, self.index.order);
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
                if let Some((at, is_new)) = objects.visit(key, hash) {
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
    fn an_index_finds_each_object_and_no_other() {
        let mut objects = Objects::new(5000);
        for key in 0..5000u64 {
            let (at, is_new) = objects.visit(key, hash_of(key)).expect("all are followed");
            assert_eq!((at as u64, is_new), (key, true));
        }
        objects.touch(&[hash_of(1), hash_of(99_999)]);
        for key in (0..5000u64).rev() {
            assert_eq!(
                objects.visit(key, hash_of(key)),
                Some((key as usize, false))
            );
        }
        // Every order, including the largest, which leaves no bits for a tag.
        for order in [13, 20, 32] {
            let (place, tag) = Index {
                places: Vec::new(),
                order,
            }
            .start(u64::MAX / 3);
            assert!((place as u64) < 1 << order);
            assert_eq!(u64::from(tag) & ((1 << order) - 1), 0);
        }
    }

    #[test]
    fn no_two_keys_share_a_hash() {
        let mut hashes: Vec<u64> = (0..100_000).map(hash_of).collect();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), 100_000);
    }
}
