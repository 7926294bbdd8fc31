//! `lazy`: no index. A dead entry stays until it is requested.
//!
//! # Idea
//! The host checks each entry's deadline when a command reads it and drops it if it is dead:
//! *deletion on access*. Nothing else happens. This has the lowest cost and wastes the most memory.
//!
//! # Source
//! *Lazy expiration* in J. Yang: Designing Efficient and Scalable Key-value Cache Management
//! Systems, PhD thesis, Carnegie Mellon University 2024, section 4.1.1 and Table 4.2.
//!
//! # State
//! Per entry: 0 bytes. Besides: 16 bytes, a count and the earliest deadline ever noted.
//!
//! # Cost
//! None.
//!
//! # Knobs
//! None.
//!
//! # Departures
//! None.
//!
//! # Avoid when
//! Entries are not requested again: they stay, and no `expired` event is sent. Only an eviction
//! policy then frees their memory.

use crate::{Budget, Cells, Due, ExpiryIndex, Slot, Tick};

/// An index that records nothing; see the [module](self).
pub struct Lazy {
    len: usize,
    /// Lower bound of all deadlines.
    earliest: Tick,
}

impl Lazy {
    fn note(&mut self, cells: &impl Cells<()>, slot: Slot) {
        let deadline = cells
            .deadline(slot)
            .expect("an entry in the index has a deadline");
        self.earliest = self.earliest.min(deadline);
    }
}

impl ExpiryIndex for Lazy {
    type Link = ();
    type Config = ();
    const NAME: &'static str = "lazy";
    const ALIASES: &'static [&'static str] = &["passive"];

    fn new(_now: Tick, _config: &(), _seed: u64) -> Self {
        Lazy {
            len: 0,
            earliest: Tick(u64::MAX),
        }
    }

    fn granularity(&self) -> Option<u64> {
        None
    }

    fn insert(&mut self, cells: &mut impl Cells<()>, slot: Slot) {
        self.len += 1;
        self.note(cells, slot);
    }

    fn remove(&mut self, _cells: &mut impl Cells<()>, _slot: Slot) {
        self.len = self
            .len
            .checked_sub(1)
            .expect("only what was inserted is removed");
        if self.len == 0 {
            self.earliest = Tick(u64::MAX);
        }
    }

    fn update(&mut self, cells: &mut impl Cells<()>, slot: Slot, _old: Tick) {
        self.note(cells, slot);
    }

    fn moved(&mut self, _cells: &mut impl Cells<()>, _old: Slot, _new: Slot) {}

    fn pop_expired(
        &mut self,
        _cells: &mut impl Cells<()>,
        _now: Tick,
        _budget: &mut Budget,
    ) -> Due {
        Due::Nothing
    }

    fn next_due(&self) -> Option<Tick> {
        None
    }

    /// Returns the number of all entries once the earliest deadline may have passed; 0 before.
    fn backlog(&self, now: Tick) -> usize {
        if self.earliest < now { self.len } else { 0 }
    }

    fn len(&self) -> usize {
        self.len
    }

    fn heap_bytes(&self) -> usize {
        0
    }

    fn check(&self, cells: &impl Cells<()>) {
        assert_eq!(self.len, cells.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::index_suite!(never reclaims Lazy);
}
