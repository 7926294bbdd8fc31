//! Hit buffers for policies that change their structure on a hit.
//!
//! A reader appends the hit, without a lock, to a buffer that it shares with few other threads. The
//! next thread that holds the shard's lock passes the hits to the policy. A reader that fills a
//! buffer tries to take the lock, and drops the buffer's hits if another thread holds it. Hits are
//! also lost when two threads append to one buffer at the same time. A lost hit makes a decision of
//! the policy slightly worse and has no other effect.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Number of buffers per shard.
const STRIPES: usize = 8;
/// Number of hits in a buffer, chosen so that the hits and their count fill two cache lines.
const HITS: usize = 15;

#[repr(align(128))]
#[derive(Default)]
struct Stripe {
    len: AtomicU32,
    /// Each word holds a position in the high 32 bits and a slot in the low 32 bits.
    hits: [AtomicU64; HITS],
}

/// Hit buffers of one shard.
#[derive(Default)]
pub(crate) struct HitBuffers {
    stripes: [Stripe; STRIPES],
}

impl HitBuffers {
    /// Appends a hit, and returns false if the buffer is now full.
    #[inline]
    pub(crate) fn push(&self, thread: usize, position: u32, slot: u32) -> bool {
        let stripe = &self.stripes[thread % STRIPES];
        let len = stripe.len.load(Relaxed);
        if let Some(hit) = stripe.hits.get(len as usize) {
            hit.store(u64::from(position) << 32 | u64::from(slot), Relaxed);
            stripe.len.store(len + 1, Relaxed);
        }
        len as usize + 1 < HITS
    }

    /// Drops all hits of the buffer that a thread uses.
    pub(crate) fn forget(&self, thread: usize) {
        self.stripes[thread % STRIPES].len.store(0, Relaxed);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.stripes
            .iter()
            .all(|stripe| stripe.len.load(Relaxed) == 0)
    }

    /// Calls `see` with the position and slot of each hit, and empties the buffers.
    pub(crate) fn drain(&self, mut see: impl FnMut(u32, u32)) {
        for stripe in &self.stripes {
            let len = stripe.len.swap(0, Relaxed) as usize;
            for hit in &stripe.hits[..len.min(HITS)] {
                let hit = hit.load(Relaxed);
                see((hit >> 32) as u32, hit as u32);
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn hits_come_out_once_and_in_order() {
        let hits = HitBuffers::default();
        assert!(hits.is_empty());
        for number in 0..HITS as u32 {
            let has_room = hits.push(3, number, 100 + number);
            assert_eq!(has_room, number + 1 < HITS as u32);
        }
        assert!(!hits.push(3, 99, 99), "a full buffer takes nothing");
        hits.push(4, 50, 150);
        let mut seen = vec![];
        hits.drain(|position, slot| seen.push((position, slot)));
        assert_eq!(seen.len(), HITS + 1);
        assert_eq!((seen[0], seen[HITS]), ((0, 100), (50, 150)));
        assert!(hits.is_empty());
    }
}
