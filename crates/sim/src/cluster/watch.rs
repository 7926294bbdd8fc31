//! Misses in an interval, by the servers that kept parts of the missed objects when it began.
//!
//! A failed server affects all objects of which it kept a part, regardless of which server receives
//! their requests. With K + P chunks per object, these are a larger share of the requests than with
//! two copies.

use super::history::row_of;
use super::places::{NONE, Places};

/// Misses by bucket during the watched interval.
pub(super) struct MissTracker {
    places: Places,
    /// Misses of each bucket: of objects kept whole, and of coded ones.
    missed: [Vec<u64>; 2],
}

impl MissTracker {
    pub(super) fn new(places: Places) -> MissTracker {
        let missed = [(); 2].map(|()| vec![0; places.buckets() as usize]);
        MissTracker { places, missed }
    }

    pub(super) fn count(&mut self, bucket: u32, is_coded: bool) {
        self.missed[usize::from(is_coded)][bucket as usize] += 1;
    }

    /// Returns groups of servers, with the misses for objects whose parts they kept. Groups without
    /// misses are left out.
    pub(super) fn found(&self) -> Vec<(Vec<u16>, u64)> {
        let mut found = Vec::new();
        for is_coded in [false, true] {
            let missed = (0..).zip(&self.missed[usize::from(is_coded)]);
            for (bucket, &missed) in missed.filter(|(_, missed)| **missed > 0) {
                let row = row_of(&self.places, is_coded, bucket).iter().copied();
                found.push((row.filter(|server| *server != NONE).collect(), missed));
            }
        }
        found
    }
}
