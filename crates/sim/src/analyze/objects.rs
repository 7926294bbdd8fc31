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
/// The index is at most half full, and has at most 2^32 places.
const OBJECTS_MAX: usize = 1 << 31;
/// Places of an empty index, as a power of two.
const FIRST_ORDER: u32 = 10;

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

/// Where objects lie, by hash: places tried one after the other, at most half of them taken. A place takes
/// four bytes, so that a look-up waits for one cache line here, and can begin before the one before
/// it is done.
///
/// ```text
/// place    tag, 32 − order bits | number of the object + 1, order bits; 0 for none
/// ```
///
/// Tag and place come from the same 32 bits of the hash: a wrong object is looked at once in 2^(32 − order)
/// taken places.
struct Index {
    places: Vec<u32>,
    /// There are 2^order places.
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

    /// Where the search for a hash begins, and the tag of its objects.
    #[inline]
    fn start(&self, hash: u64) -> (usize, u32) {
        let mixed = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let place = mixed >> (32 - self.order);
        // What is shifted out at the top is the place.
        (place as usize, (mixed << self.order) as u32)
    }

    /// The number of the object that a place may stand for.
    #[inline]
    fn number(&self, place: u32) -> u32 {
        let mask = (1u64 << self.order) - 1;
        (place & mask as u32).wrapping_sub(1)
    }

    /// The number of the object for which `is_it`, or the free place where it would go.
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

    /// Enters an object where a search ended.
    #[inline]
    fn enter(&mut self, at: usize, hash: u64, number: u32) {
        debug_assert!(self.places[at] == 0);
        self.places[at] = self.start(hash).1 | (number + 1);
    }

    /// An index of these objects, of which no two are equal.
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

/// The sample.
pub(crate) struct Objects {
    index: Index,
    pub list: Vec<Object>,
    limit: usize,
    /// One in 2^bits objects is in the sample.
    pub bits: u32,
}

impl Objects {
    /// Room for `limit` objects.
    pub fn new(limit: usize) -> Self {
        assert!(limit > 0);
        Objects {
            index: Index::new(FIRST_ORDER),
            list: Vec::new(),
            limit: limit.min(OBJECTS_MAX),
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

    /// Brings what the look-ups of these hashes will need into the processor's caches. Nothing here
    /// depends on the look-up before, so that many wait for memory at once.
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

    /// The index of an object of the sample, and whether it is new; `None` when it is not in the
    /// sample. A new one is blank but for key and hash.
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
        // Of every order, also the largest, which leaves no room for a tag.
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
