//! Iteration over packed entries: by table position, in the order of the arena, and at random.

use super::PackedEntries;
use crate::arena::Arena;
use crate::blocks::OutsideEntry;
use crate::entries::OWNERS;
use crate::table::Position;
use crate::value::{EmbeddedCounts, Outside};
use policy::{Facts, Meta, Slot, Tick};

/// Number of buckets that one call of a scan may always visit, about 10 µs, regardless of its
/// count.
const SCAN_BUCKETS_MIN: usize = 1024;
/// Number of random entries examined per requested deadline. More than one is needed because an
/// entry may have no deadline.
const LOOKS_PER_SAMPLE: u64 = 4;

impl<O: Outside, M: Meta, L: Meta> PackedEntries<O, M, L> {
    /// Passes about `count` live entries, beginning at position `at`, to `each`. Returns the next
    /// position, or `None` at the end. An entry present during the whole scan is returned at least
    /// once, regardless of what is inserted or removed meanwhile.
    pub fn scan(
        &self,
        mut at: Position,
        count: usize,
        mut each: impl FnMut(Slot),
    ) -> Option<Position> {
        let (mut passed, mut buckets) = (0, 0);
        // A bucket holds at most twelve slots. The bound on buckets limits the work where they are
        // sparse. It exceeds the size of the smallest tables, so that one call passes few entries
        // completely.
        let buckets_max = count.saturating_mul(10).max(SCAN_BUCKETS_MIN);
        while passed < count && buckets < buckets_max {
            let home = at.bucket as usize;
            at = self.table.scan(at, |slot| {
                if self.table.home(self.blocks.key_hash(slot)) == home {
                    passed += 1;
                    each(slot);
                }
            })?;
            buckets += 1;
        }
        Some(at)
    }

    /// Returns the position at which a scan returns the entry with this hash of its key. All
    /// entries before the position that [`PackedEntries::scan`] returned were passed, and no entry
    /// after it since the scan began.
    pub fn position_of(&self, hash: u64) -> Position {
        self.table.position_of(hash)
    }

    /// Returns a random live entry for which `is_wanted` returns true. All such entries are equally
    /// likely, unless 64 tries fail because there are few of them. In that case it searches the
    /// next 512 entries in the order of the arena. Later calls continue that search. Returns `None`
    /// if it finds none.
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

    /// Passes the own deadlines of up to `count` entries to `each`. Examines all entries if there
    /// are at most `count`, and a uniform sample otherwise. If few entries have a deadline, the
    /// sample is smaller than `count`, but it has at least one deadline if the search finds any.
    pub fn sample_deadlines(&self, count: usize, mut each: impl FnMut(Tick)) {
        if self.own_deadlines() == 0 {
            return;
        }
        if self.len() <= count {
            let mut at = 0;
            while let Some(slot) = self.walk(at) {
                let own = self.own_deadline(slot);
                own.into_iter().for_each(&mut each);
                at = slot.0 + 1;
            }
            return;
        }
        // Multiples of SplitMix64's increment are spread evenly enough for a sample.
        let randoms =
            (0..count as u64 * LOOKS_PER_SAMPLE).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let own = |slot| self.own_deadline(slot);
        let mut found = 0;
        for random in randoms {
            if let Some(deadline) = self.table.sample(random).and_then(own) {
                each(deadline);
                found += 1;
                if found == count {
                    return;
                }
            }
        }
        if found == 0
            && let Some(slot) = self.sample_where(0, |slot| own(slot).is_some())
        {
            own(slot).into_iter().for_each(each);
        }
    }

    /// Returns the first live entry at or after slot `from` in arena order, or `None` at the end.
    /// For work on every entry. An entry that moves meanwhile may be missed.
    pub fn walk(&self, from: u32) -> Option<Slot> {
        let mut at = from;
        loop {
            if let Some(slot) = self.blocks.arena.next_live(at) {
                return Some(Slot(slot));
            }
            at = self.blocks.arena.page_start(Arena::page_of(at) + 1)?;
        }
    }

    /// Panics if table, arena and counters disagree. Takes time proportional to the number of
    /// entries.
    pub fn check(&self) {
        self.blocks
            .arena
            .check(|block| self.blocks.widths.layout(block).granules());
        self.table.check(|slot| self.blocks.key_hash(slot));
        let (mut at, mut owned, mut deadlines) = (0, [0; OWNERS], 0);
        let (mut embedded, mut protected) = (EmbeddedCounts::default(), 0);
        while let Some(slot) = self.walk(at) {
            let layout = self.blocks.parts(slot).1;
            owned[layout.owner() as usize] += 1;
            deadlines += usize::from(layout.has_deadline());
            let kept = O::embedded_deadline(&self.value(slot));
            assert!(kept.is_none() || layout.has_deadline());
            embedded.count(kept, None);
            protected += usize::from(self.is_protected_with_deadline(slot));
            at = slot.0 + 1;
        }
        assert_eq!(embedded, self.embedded);
        assert_eq!(protected, self.protected_deadlines);
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
