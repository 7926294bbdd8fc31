//! Entries one after the other, or by chance.

use super::PackedEntries;
use crate::arena::Arena;
use crate::blocks::OutsideEntry;
use crate::table::Position;
use crate::value::{EmbeddedCounts, Outside};
use policy::{Meta, Slot};

impl<O: Outside, M: Meta, L: Meta> PackedEntries<O, M, L> {
    /// About `count` live entries from `cursor` on, told to `each`; the next cursor, `None` at the
    /// end. Every entry that is there throughout a scan is told at least once, whatever else comes
    /// and goes.
    pub fn scan(
        &self,
        mut at: Position,
        count: usize,
        mut each: impl FnMut(Slot),
    ) -> Option<Position> {
        let (mut told, mut buckets) = (0, 0);
        // A bucket holds twelve at most; sparse ones are passed quickly but not without end.
        while told < count && buckets < count.saturating_mul(10) {
            let home = at.bucket as usize;
            at = self.table.scan(at, |slot| {
                if self.table.home(self.blocks.key_hash(slot)) == home {
                    told += 1;
                    each(slot);
                }
            })?;
            buckets += 1;
        }
        Some(at)
    }

    /// One look, at a place chosen by the random bits: the entry there, if there is one.
    pub(crate) fn probe(&self, random: u64) -> Option<Slot> {
        self.table.sample(random)
    }

    /// A live entry that `is_wanted`, uniformly by the random bits. Where few are, 64 tries may find
    /// none: then the next one of a walk that goes on from call to call, 512 entries at a time.
    pub(crate) fn sample_where(
        &self,
        random: u64,
        is_wanted: impl Fn(Slot) -> bool,
    ) -> Option<Slot> {
        let mut state = random;
        for _ in 0..64 {
            if let Some(slot) = self.table.sample(state)
                && is_wanted(slot)
            {
                return Some(slot);
            }
            // The step of a 64-bit linear congruential generator (Knuth's MMIX constants).
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            state ^= state >> 32;
        }
        for _ in 0..512 {
            let slot = self.walk(self.walked.get());
            self.walked.set(slot.map_or(0, |slot| slot.0 + 1));
            if slot.is_some_and(&is_wanted) {
                return slot;
            }
        }
        None
    }

    /// The first live entry at or after `from` in the order of the arena, and where to go on; `None`
    /// at the end. For work that must meet every entry; entries that move meanwhile may be missed.
    pub fn walk(&self, from: u32) -> Option<Slot> {
        let mut at = from;
        loop {
            if let Some(slot) = self.blocks.arena.next_live(at) {
                return Some(Slot(slot));
            }
            at = self.blocks.arena.page_start(Arena::page_of(at) + 1)?;
        }
    }

    /// Panics when the structure contradicts itself. Walks everything.
    pub fn check(&self) {
        self.blocks
            .arena
            .check(|block| self.blocks.widths.layout(block).granules());
        self.table.check(|slot| self.blocks.key_hash(slot));
        let (mut at, mut owned, mut deadlines) = (0, [0; 3], 0);
        let mut embedded = EmbeddedCounts::default();
        while let Some(slot) = self.walk(at) {
            let layout = self.blocks.parts(slot).1;
            owned[layout.owner() as usize] += 1;
            deadlines += usize::from(layout.has_deadline());
            let kept = O::embedded_deadline(&self.value(slot));
            assert!(kept.is_none() || layout.has_deadline());
            embedded.count(kept, None);
            at = slot.0 + 1;
        }
        assert_eq!(embedded, self.embedded);
        assert_eq!((owned, deadlines), (self.owned, self.deadlines));
        assert_eq!(self.table.len(), owned.iter().sum::<usize>());
        let held: u64 = self
            .blocks
            .outside
            .iter()
            .flatten()
            .map(OutsideEntry::heap_bytes)
            .sum();
        assert_eq!(held, self.blocks.outside_bytes);
    }
}
