//! Iteration over elements: page by page, by a scan cursor, and at random.

use super::{Elements, depth_of, page_of, slot_of};
use policy::Slot;

/// Number of random tries of `sample_where`. If they all fail, it searches pages in order.
const SAMPLE_TRIES: u32 = 256;

impl Elements {
    /// Returns all elements, page by page.
    pub fn iter(&self) -> impl Iterator<Item = Slot> {
        (0..self.pages.len()).flat_map(|number| self.iter_page(number))
    }

    pub(super) fn iter_page(&self, number: usize) -> impl Iterator<Item = Slot> {
        let page = self.pages.at(number);
        (0..page.indexes())
            .filter(|index| page.tag(*index) != 0)
            .map(move |index| slot_of(number, index))
    }

    /// Passes elements, beginning at a cursor, to `each`, page by page, until at least `count` are
    /// passed. Returns the next cursor, 0 at the end. An element that is present during the whole
    /// scan is passed at least once.
    ///
    /// The cursor is a position in the order of the bit-reversed hashes. In this order a page is a
    /// range of positions, a split divides the range in two, and a merge joins two ranges.
    pub fn scan(&self, cursor: u64, count: usize, each: &mut dyn FnMut(Slot)) -> u64 {
        let (mut at, mut passed) = (cursor, 0);
        while passed < count.max(1) {
            let Ok(reversed) = u32::try_from(at) else {
                return 0;
            };
            let number = page_of(u64::from(reversed.reverse_bits()), self.pages.len());
            for slot in self.iter_page(number) {
                passed += 1;
                each(slot);
            }
            let depth = depth_of(number, self.pages.len());
            let start = u64::from((number as u32).reverse_bits());
            at = start + (1 << (32 - depth));
        }
        if at >= 1 << 32 { 0 } else { at }
    }

    /// Returns a random element for which `is_wanted` returns true. All such elements are equally
    /// likely, unless all random tries fail because there are few of them. In that case, it
    /// searches a number of pages beginning at a random one, and returns `None` if it finds none.
    pub fn sample_where(&self, random: u64, is_wanted: impl Fn(Slot) -> bool) -> Option<Slot> {
        if self.len == 0 {
            return None;
        }
        let below =
            |random: u64, bound: usize| ((u128::from(random) * bound as u128) >> 64) as usize;
        let mut state = random;
        for _ in 0..SAMPLE_TRIES {
            let page = below(state, self.pages.len());
            // The step of a 64-bit linear congruential generator (Knuth's MMIX constants).
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let slot = slot_of(page, below(state.rotate_left(32), self.indexes_max));
            state ^= state >> 32;
            if self.is_live(slot) && is_wanted(slot) {
                return Some(slot);
            }
        }
        let start = below(state, self.pages.len());
        let pages = (start..self.pages.len()).chain(0..start);
        pages
            .take(SAMPLE_TRIES as usize)
            .flat_map(|page| self.iter_page(page))
            .find(|slot| is_wanted(*slot))
    }
}
