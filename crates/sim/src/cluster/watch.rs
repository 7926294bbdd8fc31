//! Whose objects are missed for a while: counted by the servers that keep parts of them when the watch begins.
//!
//! A server that goes is missed by all objects of which it kept a part, whoever is asked for them first: of a code
//! with K + P chunks that is a larger share of the requests than of two copies.

use super::history::row_of;
use super::places::{NONE, Places};

/// See the module text.
pub(super) struct Watch {
    places: Places,
    /// Misses, by bucket; of objects kept whole, and of coded ones.
    missed: [Vec<u64>; 2],
}

impl Watch {
    pub(super) fn new(places: Places) -> Watch {
        let missed = [(); 2].map(|()| vec![0; places.buckets() as usize]);
        Watch { places, missed }
    }

    pub(super) fn count(&mut self, bucket: u32, is_coded: bool) {
        self.missed[usize::from(is_coded)][bucket as usize] += 1;
    }

    /// Servers, and the misses of what they keep together; only where there are any.
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
