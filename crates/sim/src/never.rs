//! Expiry index for replays in which nothing expires. It costs nothing.

use policy::{Budget, Cells, Due, ExpiryIndex, Slot, Tick};

/// Index without deadlines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Never;

impl ExpiryIndex for Never {
    type Link = ();
    type Config = ();
    const NAME: &'static str = "never";

    fn new(_now: Tick, _config: &(), _seed: u64) -> Self {
        Never
    }
    fn granularity(&self) -> Option<u64> {
        Some(0)
    }
    fn insert(&mut self, _cells: &mut impl Cells<()>, _slot: Slot) {
        unreachable!("no entry of this replay has a deadline");
    }
    fn remove(&mut self, _cells: &mut impl Cells<()>, _slot: Slot) {
        unreachable!("no entry of this replay has a deadline");
    }
    fn update(&mut self, _cells: &mut impl Cells<()>, _slot: Slot, _old: Tick) {
        unreachable!("no entry of this replay has a deadline");
    }
    fn moved(&mut self, _cells: &mut impl Cells<()>, _old: Slot, _new: Slot) {
        unreachable!("no entry of this replay moves");
    }
    fn pop_expired(&mut self, _: &mut impl Cells<()>, _: Tick, _: &mut Budget) -> Due {
        Due::Nothing
    }
    fn next_due(&self) -> Option<Tick> {
        None
    }
    fn backlog(&self, _now: Tick) -> usize {
        0
    }
    fn len(&self) -> usize {
        0
    }
    fn heap_bytes(&self) -> usize {
        0
    }
    fn check(&self, cells: &impl Cells<()>) {
        assert_eq!(cells.len(), 0);
    }
}
