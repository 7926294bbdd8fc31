//! Object remembered by the policy, and its features.

use policy::Slot;
use policy::parts::lookup::Keyed;
use policy::parts::pool::{Chained, Links};

/// Number of remembered distances between requests.
pub(super) const GAPS: usize = 3;
/// Number of features per row: age, gaps, weight and requests.
pub(super) const WIDTH: usize = GAPS + 3;

#[derive(Clone, Copy, Debug)]
pub(super) struct Object {
    pub key_hash: u64,
    /// Number of the object's last request; 0 before the first one.
    pub last: u64,
    /// Number of the request at which the object was sampled; 0 if it was not sampled since its
    /// last request.
    pub sampled_at: u64,
    /// Number of the request that last inserted the object.
    pub inserted: u64,
    /// Index in `cached` of a cached object, or the number of a remembered object in the history,
    /// counted from the beginning.
    pub place: u64,
    /// Distances between consecutive requests, most recent first.
    gaps: [u32; GAPS],
    pub weight: u32,
    pub slot: Slot,
    /// Current prediction; NaN if there is none.
    pub prediction: f32,
    links: Links,
    chain: u32,
    pub requests: u16,
    pub is_cached: bool,
    /// Whether the object can be found by its hash.
    pub is_indexed: bool,
}

const _: () = assert!(size_of::<Object>() == 80);

impl Object {
    pub fn new(key_hash: u64) -> Object {
        Object {
            key_hash,
            last: 0,
            sampled_at: 0,
            inserted: 0,
            place: 0,
            gaps: [u32::MAX; GAPS],
            weight: 0,
            slot: Slot(0),
            prediction: f32::NAN,
            links: Links::default(),
            chain: 0,
            requests: 0,
            is_cached: false,
            is_indexed: true,
        }
    }

    /// Counts a request with number `now`.
    pub fn request(&mut self, now: u64) {
        if self.last > 0 {
            self.gaps.rotate_right(1);
            self.gaps[0] = (now - self.last).min(u64::from(u32::MAX - 1)) as u32;
        }
        self.last = now;
        self.requests = self.requests.saturating_add(1);
    }

    /// Returns the features at the request with number `at`, which must not be before the last one.
    pub fn features(&self, at: u64) -> [f32; WIDTH] {
        let gap = |gap: u32| match gap {
            u32::MAX => f32::INFINITY,
            gap => gap as f32,
        };
        let [first, second, third] = self.gaps.map(gap);
        [
            (at - self.last) as f32,
            first,
            second,
            third,
            self.weight as f32,
            f32::from(self.requests),
        ]
    }
}

impl Chained for Object {
    #[inline]
    fn links(&self) -> Links {
        self.links
    }
    #[inline]
    fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }
}

impl Keyed for Object {
    #[inline]
    fn key_hash(&self) -> u64 {
        self.key_hash
    }
    #[inline]
    fn chain(&self) -> u32 {
        self.chain
    }
    #[inline]
    fn chain_mut(&mut self) -> &mut u32 {
        &mut self.chain
    }
}
