//! Growth and shrinkage of the table by one page, and the moves of elements that follow.

use super::page::{self, Page};
use super::{Elements, LOAD_MIN, slot_of};
use policy::Slot;

/// A split or merge in progress.
#[derive(Clone, Debug)]
pub(super) struct PendingMoves {
    from: usize,
    to: usize,
    /// Indexes of the elements that remain to be moved. They are taken from the end of the list.
    remaining: Vec<u8>,
}

impl Elements {
    /// Adds a page, and prepares the moves of the elements that belong there.
    pub(super) fn split(&mut self) {
        let new = self.pages.len();
        let old = new - (new + 1).next_power_of_two() / 2;
        let mask = (new + 1).next_power_of_two() - 1;
        let page = self.pages.at(old);
        let remaining: Vec<u8> = (0..page.indexes())
            .rev()
            .filter(|index| page.tag(*index) != 0)
            .filter(|index| self.hash_of(slot_of(old, *index)) as usize & mask == new)
            .map(|index| index as u8)
            .collect();
        let sizes = remaining
            .iter()
            .map(|index| page.payload_len(*index as usize));
        let fresh = Page::new(self.kind, remaining.len(), sizes.sum());
        self.push_page(fresh);
        let (from, to) = (old, new);
        self.pending_moves = Some(PendingMoves {
            from,
            to,
            remaining,
        });
    }

    /// Moves the next element and returns its old and its new slot. Moves are returned one by one,
    /// so that the caller can update its references. All must be taken before the next change.
    pub fn take_move(&mut self) -> Option<(Slot, Slot)> {
        let PendingMoves {
            from,
            to,
            remaining,
        } = self.pending_moves.as_mut()?;
        let (from, to) = (*from, *to);
        let Some(index) = remaining.pop() else {
            self.pending_moves = None;
            if from + 1 == self.pages.len() {
                let gone = self.pages.pop().expect("there is a last page");
                self.held_bytes -= gone.heap_bytes();
            } else {
                self.change_page(from, Page::shrink);
            }
            return None;
        };
        let index = index as usize;
        let page = self.pages.at(from);
        let (tag, flags, len) = (page.tag(index), page.flags(index), page.payload_len(index));
        let mut payload = std::mem::take(&mut self.scratch);
        payload.clear();
        payload.extend_from_slice(&page.payload(index)[..len]);
        let slot = self.place(to, tag, &payload, flags);
        self.scratch = payload;
        self.change_page(from, |page| page.remove(index));
        Some((slot_of(from, index), slot))
    }

    /// Returns the last page and the page from which it was split.
    fn last_two(&self) -> (usize, usize) {
        let last = self.pages.len() - 1;
        (last, last - (last + 1).next_power_of_two() / 2)
    }

    /// Returns whether there are more pages than needed and the last one fits into the page from
    /// which it was split.
    pub fn is_sparse(&self) -> bool {
        let count = self.pages.len();
        if count <= 1 || self.len >= count * LOAD_MIN {
            return false;
        }
        let (last, to) = self.last_two();
        let (page, other) = (self.pages.at(last), self.pages.at(to));
        page.live() + other.live() <= page::INDEX_MAX
            && page.live_bytes() + other.live_bytes() <= page::MERGED_MAX
    }

    /// Prepares the moves of the last page's elements into the page from which it was split, if
    /// [`Elements::is_sparse`].
    pub fn merge(&mut self) {
        debug_assert!(
            self.pending_moves.is_none(),
            "pending moves must be taken first"
        );
        if !self.is_sparse() {
            return;
        }
        let (from, to) = self.last_two();
        let page = self.pages.at(from);
        let remaining: Vec<u8> = (0..page.indexes())
            .rev()
            .filter(|index| page.tag(*index) != 0)
            .map(|index| index as u8)
            .collect();
        self.pending_moves = Some(PendingMoves {
            from,
            to,
            remaining,
        });
    }
}
