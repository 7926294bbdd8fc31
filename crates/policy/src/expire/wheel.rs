//! `wheel`: a hierarchical timing wheel, exact to the millisecond, O(1), about four bytes per
//! deadline. The default.
//!
//! # Idea
//! A timing wheel of eight levels of 64 buckets. The bucket of a deadline is given by the highest
//! base-64 digit in which it differs from the time reached, so every possible deadline has a
//! bucket, and a word of 64 bits per level shows which bucket is next. A bucket is a queue of
//! 4-byte slots in chunks. When its time comes its entries move down a level (a *cascade*); at
//! level 0 they are returned.
//!
//! The wheel is *lazy*: a deadline that moves later leaves its reference where it is, and is filed
//! again when that reference comes up, so a session that every request refreshes costs nothing. A
//! deadline that moves earlier is filed at once and leaves a stale reference, as does an entry that
//! is removed early or relocated. An entry's own 16 bits name the bucket in which it is filed. A
//! stale reference is dropped when it comes up: its slot is vacant, has no deadline, or names
//! another place. When stale references outnumber the entries, a *sweep* over all buckets drops
//! them, a few with each insertion or in the time left over after expiry.
//!
//! Up to 64 entries it is a sorted array instead.
//!
//! # Source
//! G. Varghese, T. Lauck: Hashed and Hierarchical Timing Wheels: Data Structures for the Efficient
//! Implementation of a Timer Facility, SOSP 1987, <https://doi.org/10.1145/41457.37504> (scheme 7).
//! Levels by the highest differing digit: the radix heap of R. Ahuja, K. Mehlhorn, J. Orlin, R.
//! Tarjan: Faster Algorithms for the Shortest Path Problem, JACM 37(2), 1990,
//! <https://doi.org/10.1145/77600.77615>.
//!
//! # State
//! Per entry: 16 bits in the deadline's word, and 4.06 to 4.6 bytes of references in long buckets
//! (in short ones 32 bytes for up to 7). Besides: 256 bytes for each level in use, pages of 1 KiB
//! of which a sixteenth may be free, half a KiB. Stale references: at most one per entry + 64, and
//! those added while a sweep looks at 16 for each; those that removals leave go with the next calls
//! of `pop_expired`. An array of up to 64 entries: 12 bytes each and up to a quarter to spare.
//!
//! `cargo bench -p mayfly-cache-policy --bench expiry` prints bytes and times. With TTLs of 10 s,
//! 1 h and 30 d over 16 indexes, filled and after a turnover: 10 k entries 7.5 to 8.7 and 8.7 to
//! 9.8 bytes, 100 k 4.5 to 4.9 and 5.0 to 5.2, 5 M 4.1 to 4.2 and 4.2 to 4.3.
//!
//! # Cost
//! Insert, update and remove O(1), without reading other entries (except 16 of them per insertion
//! while a sweep runs): 9 to 19, 10 to 53 and 17 ns. An entry is read once at each level that it
//! passes, at most eight times, and once more when it is returned: 14 ns in a crowd on one
//! millisecond, 70 to 280 ns alone. Every call is bounded by its budget, of which a step is a
//! reference read: none of 500 steps took 0.4 ms.
//!
//! # Knobs
//! None.
//!
//! # Departures
//! Time moves from occupied bucket to occupied bucket; ticks are not walked. Cascades are budgeted,
//! and the bucket that is cascaded takes insertions into its range at its end in the meantime, so
//! that entries of one millisecond are returned in the order of insertion. There are exceptions to
//! that order. An entry whose deadline was changed is ordered by the time at which its reference
//! was filed, or filed again, in the bucket of its new deadline; so is a relocated entry. Where a
//! slot left a former reference in the same bucket, its new entry may (once in 15) take that
//! reference's place. When the clock jumps back, a deadline before the time reached gets a wheel of
//! its own (an *era*), up to seven on top of each other, and all stays exact. An eighth jump back
//! before the clock has caught up with any of them delays the deadlines before all of them: such
//! entries are returned when the clock reaches the earliest of them.
//!
//! # Avoid when
//! Slots are shared by several indexes, because an index treats any live entry that names one of
//! its places as its own. `Slot(u32::MAX)` is reserved.

mod era;
mod few;
mod many;
mod pass;
mod pool;
mod sweep;
#[cfg(test)]
mod tests;

pub use era::Link;

use crate::{Budget, Cells, Due, ExpiryIndex, Slot, Tick};
use alloc::boxed::Box;
use alloc::vec::Vec;
use few::Few;
use many::{Found, Many, look};

/// Maximum number of entries kept in a sorted array.
const FEW_MAX: usize = 64;
/// Number of entries at which a wheel becomes a sorted array again.
const FEW_AGAIN: usize = 16;
/// Maximum number of references that are read to make a sorted array. If there are more, a sweep is
/// made first.
const FEW_AGAIN_REFS: usize = 128;

/// The default index; see the [module](self).
pub struct Wheel {
    entries: Entries,
}

enum Entries {
    Few(Few),
    Many(Box<Many>),
}

impl Wheel {
    /// Moves the entries of the sorted array to a wheel.
    #[cold]
    fn grow(&mut self, cells: &mut impl Cells<Link>) {
        let Entries::Few(few) = &self.entries else {
            return;
        };
        let earliest = few
            .first()
            .map_or(cells.now(), |first| first.min(cells.now()));
        let mut many = Many::new(earliest);
        for (deadline, slot) in few.iter() {
            many.len += 1;
            many.file(cells, slot, deadline.0);
        }
        self.entries = Entries::Many(Box::new(many));
    }

    /// Returns to the sorted array when few entries are left.
    fn shrink(&mut self, cells: &mut impl Cells<Link>) {
        let Entries::Many(many) = &self.entries else {
            return;
        };
        if many.len > FEW_AGAIN || many.ref_count > FEW_AGAIN_REFS || many.is_draining() {
            return;
        }
        let mut few = Few::default();
        let mut filed = Vec::with_capacity(many.len);
        // In the order from the latest era to the earliest and from the lowest level to the
        // highest. Within one deadline this is the order of filing.
        many.each_ref(|place, index, slot| {
            if let Found::Filed(deadline) = look(cells, slot, place, index) {
                filed.push((Tick(deadline), Slot(slot)));
            }
        });
        for (deadline, slot) in filed {
            // A stale reference that was mistaken for the entry's own is visited as well.
            if cells.get(slot) != Link::default() {
                cells.set(slot, Link::default());
                few.insert(deadline, slot);
            }
        }
        assert_eq!(few.len(), many.len);
        self.entries = Entries::Few(few);
    }
}

/// Returns a dead entry of the sorted array. An entry whose deadline has moved later is filed
/// again.
#[inline]
fn pop_few(few: &mut Few, cells: &mut impl Cells<Link>, now: Tick, budget: &mut Budget) -> Due {
    while let Some(filed) = few.first()
        && filed < now
    {
        if !budget.spend() {
            return Due::Again;
        }
        let slot = few.pop().expect("the array has a first item");
        match cells.deadline(slot) {
            Some(deadline) if deadline > filed => few.insert(deadline, slot),
            _ => return Due::Slot(slot),
        }
    }
    Due::Nothing
}

impl ExpiryIndex for Wheel {
    type Link = Link;
    type Config = ();
    const NAME: &'static str = "wheel";
    const ALIASES: &'static [&'static str] = &["timing-wheel", "timer-wheel"];
    const LATER_IS_FREE: bool = true;

    fn new(_now: Tick, _config: &(), _seed: u64) -> Self {
        Wheel {
            entries: Entries::Few(Few::default()),
        }
    }

    fn granularity(&self) -> Option<u64> {
        Some(0)
    }

    #[inline]
    fn insert(&mut self, cells: &mut impl Cells<Link>, slot: Slot) {
        match &mut self.entries {
            Entries::Many(many) => many.insert(cells, slot),
            Entries::Few(few) => {
                let deadline = cells
                    .deadline(slot)
                    .expect("an entry is inserted with its deadline");
                few.insert(deadline, slot);
                if few.len() > FEW_MAX {
                    self.grow(cells);
                }
            }
        }
    }

    #[inline]
    fn remove(&mut self, cells: &mut impl Cells<Link>, slot: Slot) {
        match &mut self.entries {
            // The entry's reference becomes stale as soon as the host has cleared the entry's
            // deadline.
            Entries::Many(many) => many.len -= 1,
            Entries::Few(few) => {
                let deadline = cells
                    .deadline(slot)
                    .expect("a removed entry still has its deadline");
                few.remove(deadline, slot);
            }
        }
    }

    #[inline]
    fn update(&mut self, cells: &mut impl Cells<Link>, slot: Slot, old: Tick) {
        match &mut self.entries {
            Entries::Many(many) => many.update(cells, slot),
            Entries::Few(few) => {
                let deadline = cells
                    .deadline(slot)
                    .expect("an updated entry has a deadline");
                if deadline != old {
                    few.remove(old, slot);
                    few.insert(deadline, slot);
                }
            }
        }
    }

    fn moved(&mut self, cells: &mut impl Cells<Link>, old: Slot, new: Slot) {
        match &mut self.entries {
            Entries::Many(many) => many.moved(cells, new),
            Entries::Few(few) => {
                let deadline = cells
                    .deadline(new)
                    .expect("an entry that moved kept its deadline");
                few.moved(deadline, old, new);
            }
        }
    }

    #[inline]
    fn pop_expired(&mut self, cells: &mut impl Cells<Link>, now: Tick, budget: &mut Budget) -> Due {
        match &mut self.entries {
            Entries::Many(many) => {
                let due = many.pop_expired(cells, now, budget);
                if due == Due::Nothing {
                    self.shrink(cells);
                }
                due
            }
            Entries::Few(few) => pop_few(few, cells, now, budget),
        }
    }

    fn next_due(&self) -> Option<Tick> {
        match &self.entries {
            Entries::Many(many) if many.wants_sweep() => Some(Tick(0)),
            Entries::Many(many) => many.front().map(|front| Tick(many.due_of(front))),
            Entries::Few(few) => few.first().map(|first| Tick(first.0 + 1)),
        }
    }

    fn backlog(&self, now: Tick) -> usize {
        match &self.entries {
            Entries::Many(many) => many.backlog(now),
            Entries::Few(few) => few.dead_count(now),
        }
    }

    fn len(&self) -> usize {
        match &self.entries {
            Entries::Many(many) => many.len,
            Entries::Few(few) => few.len(),
        }
    }

    fn heap_bytes(&self) -> usize {
        match &self.entries {
            Entries::Many(many) => size_of::<Many>() + many.heap_bytes(),
            Entries::Few(few) => few.heap_bytes(),
        }
    }

    fn check(&self, cells: &impl Cells<Link>) {
        match &self.entries {
            Entries::Many(many) => many.check(cells),
            Entries::Few(few) => {
                let deadlines: Vec<_> = few.iter().collect();
                assert!(deadlines.is_sorted_by_key(|&(deadline, _)| deadline));
                for (filed, slot) in deadlines {
                    assert!(
                        cells
                            .deadline(slot)
                            .is_some_and(|deadline| deadline >= filed)
                    );
                }
            }
        }
    }
}

#[cfg(test)]
mod conformance {
    use super::*;

    crate::index_suite!(Wheel);
}
