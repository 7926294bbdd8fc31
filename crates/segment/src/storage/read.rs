//! What a reader does: finds an object without a lock, takes what it wants of it, and counts the request.

use crate::engine::{Key, Receipt, Segcache, told};
use crate::storage::content::Objects;
use crate::storage::counter;
use crate::storage::heap::Stamp;
use crate::storage::table::{Cell, Search};
use crate::sync::Ordering::{Acquire, Relaxed};
use crate::sync::fence;
use policy::Tick;

/// An object of a key, as a reader met it: what is read in `view` counts only if the generation is still the same
/// afterwards.
struct Found<'c, V> {
    view: V,
    cell: Cell<'c>,
    stamp: &'c Stamp,
    generation: u64,
    /// What the chain's `cas` was before.
    cas: u32,
}

impl<C: Objects> Segcache<C> {
    /// Looks for a live object without a lock. `take` reads what it wants at a place that may be given away
    /// meanwhile, and is then asked again: it begins by dropping what it took before. `counts` tells whether
    /// that is a request for the object.
    #[inline(always)]
    pub(crate) fn read<R>(
        &self,
        key: &Key<C::Key<'_>>,
        now: Tick,
        counts: bool,
        mut take: impl FnMut(C::View<'_>, Receipt) -> Option<R>,
    ) -> Option<R> {
        loop {
            let Some(found) = self.find(key) else {
                if counts {
                    self.tell(key.hash, now);
                }
                return None;
            };
            let deadline = found.stamp.deadline();
            let receipt = Receipt {
                cas: found.cas,
                deadline: told(deadline),
            };
            let taken = match now <= deadline {
                true => take(found.view, receipt),
                false => None,
            };
            fence(Acquire);
            if found.stamp.generation.load(Relaxed) == found.generation {
                if counts && taken.is_some() {
                    self.count(&found.cell, key.hash, now);
                } else if counts {
                    self.tell(key.hash, now);
                }
                return taken;
            }
        }
    }

    /// The object of a key, dead or alive. By itself, since it needs all registers that there are.
    #[inline(never)]
    fn find(&self, key: &Key<C::Key<'_>>) -> Option<Found<'_, C::View<'_>>> {
        let mut search = Search::new(&self.table, &self.heap, key.hash);
        while let Some(cell) = search.next() {
            let place = cell.slot.place();
            let stamp = self.heap.stamp(place.segment);
            // The order of these four, of which `read` does the last once more, is what the text of `heap.rs` proves.
            let generation = stamp.generation.load(Acquire);
            if !cell.reload().is_same(cell.slot) {
                search.again(&cell);
                continue;
            }
            if let Some(view) = self.content.view(&self.heap, place)
                && self.content.has_key(view, key.key)
            {
                return Some(Found {
                    view,
                    cell,
                    stamp,
                    generation,
                    cas: search.cas,
                });
            }
            fence(Acquire);
            if stamp.generation.load(Relaxed) != generation {
                search.again(&cell);
            }
        }
        None
    }

    /// Counts a request for an object, at most once a second.
    #[inline(always)]
    fn count(&self, cell: &Cell<'_>, hash: u64, now: Tick) {
        let second = now.0 / 1000;
        let seed = self.config.seed;
        let is_counted = cell.count(second, |frequency| {
            counter::counted(frequency, counter::draw(hash, second, seed))
        });
        if is_counted {
            let segment = self.heap.segment(cell.slot.place().segment);
            segment.uses.fetch_add(1, Relaxed);
            if cell.slot.frequency() == 0 {
                segment.known.requested.fetch_add(1, Relaxed);
            }
            self.tell(hash, now);
        }
    }

    /// A request that a sampled segment may be waiting for, whether its object is still there or not.
    #[inline(always)]
    fn tell(&self, hash: u64, now: Tick) {
        let watch = &self.learning.watch;
        if watch.covers(hash) {
            watch.asked(hash, now);
        }
    }

    /// Whether a key is there; that counts as a request.
    #[inline]
    pub fn contains(&self, key: &Key<C::Key<'_>>, now: Tick) -> bool {
        self.read(key, now, true, |_, _| Some(())).is_some()
    }
}
