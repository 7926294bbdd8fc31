//! Lock-free reads: finding an object, copying the data that the caller needs, and counting the
//! request.

use super::content::Objects;
use super::frequency;
use super::header::Stamp;
use super::line::SlotRef;
use super::plan::EvictionPlan;
use super::request::{Key, Receipt};
use super::search::Search;
use super::store::Storage;
use policy::Tick;

/// A key's object, as found without a lock. Data read through `view` is valid only if the segment's
/// generation is unchanged afterwards.
struct Found<'c, V> {
    view: V,
    slot: SlotRef<'c>,
    stamp: &'c Stamp,
    generation: u64,
    /// The chain's `cas` before the object was read.
    cas: u32,
}

impl<C: Objects, P: EvictionPlan> Storage<C, P> {
    /// Reads an unexpired object without a lock. `take` copies the data that the caller needs. It
    /// is called again if the segment was freed meanwhile, and must then drop its earlier copy
    /// first.
    ///
    /// If `counts`, this is a request for the object, which counts into its frequency at most once
    /// a second. Returns the result of `take`, and whether a hit was counted or a counting request
    /// missed.
    #[inline(always)]
    pub(crate) fn read<R>(
        &self,
        key: &Key<C::Key<'_>>,
        now: Tick,
        counts: bool,
        mut take: impl FnMut(C::View<'_>, Receipt) -> Option<R>,
    ) -> (Option<R>, bool) {
        loop {
            let Some(found) = self.find(key) else {
                return (None, counts);
            };
            let deadline = found.stamp.deadline();
            let taken = match now <= deadline {
                true => take(found.view, Receipt::new(found.cas, deadline)),
                false => None,
            };
            if found.stamp.is_still(found.generation) {
                let is_counted =
                    counts && (taken.is_none() || self.count(&found.slot, key.hash, now));
                return (taken, is_counted);
            }
        }
    }

    /// Returns the object of a key, expired or not. It is not inlined, because it needs all
    /// registers.
    #[inline(never)]
    fn find(&self, key: &Key<C::Key<'_>>) -> Option<Found<'_, C::View<'_>>> {
        let mut search = Search::new(self.table(), self.heap(), key.hash);
        while let Some(slot) = search.next() {
            let location = slot.word.location();
            let stamp = self.heap().stamp(location.segment);
            // The module text of `heap.rs` proves that this order of steps is right. `read` does
            // the last step.
            let generation = stamp.generation();
            if !slot.reload().is_same(slot.word) {
                search.again(&slot);
                continue;
            }
            if let Some(view) = self.content().view(self.heap(), location)
                && self.content().has_key(view, key.key)
            {
                return Some(Found {
                    view,
                    slot,
                    stamp,
                    generation,
                    cas: search.cas,
                });
            }
            if !stamp.is_still(generation) {
                search.again(&slot);
            }
        }
        None
    }

    /// Counts a request for an object, at most once a second. Returns true if it was counted.
    #[inline(always)]
    fn count(&self, slot: &SlotRef<'_>, hash: u64, now: Tick) -> bool {
        let second = now.0 / 1000;
        let is_counted = slot.count(second, |frequency| {
            frequency::after_request(frequency, frequency::draw(hash, second, self.seed))
        });
        if is_counted {
            let header = self.heap().header(slot.word.location().segment);
            header.usage.count_hit(slot.word.frequency() == 0);
        }
        is_counted
    }
}
