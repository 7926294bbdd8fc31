//! Search for the objects with the tag of a hash, without a lock.

use super::chain::CHAIN_MAX;
use super::heap::Heap;
use super::line::{LAST, SLOTS, SlotRef, SlotWord, first_of, matching};
use super::table::{Table, cas_of};
use super::words::Line;
use crate::sync::Ordering::Acquire;
use crate::sync::spin_loop;

/// Iterates over the slots of one chain whose tag matches a hash. `table.rs` proves that it misses
/// no object.
#[derive(Debug)]
pub(super) struct Search<'h> {
    table: &'h Table,
    heap: &'h Heap,
    hash: u64,
    chain: u64,
    first: &'h Line,
    /// The chain's `cas` before any object was read.
    pub(super) cas: u32,
    line: &'h Line,
    /// Bit set of the matching slots in the current line that were not returned yet.
    matching: u32,
    /// Number of lines searched before the current one.
    lines: usize,
}

impl<'h> Search<'h> {
    #[inline(always)]
    pub(super) fn new(table: &'h Table, heap: &'h Heap, hash: u64) -> Self {
        let chain = table.chain_of(hash);
        let first = table.first_line(heap, chain);
        let cas = cas_of(first);
        Search {
            table,
            heap,
            hash,
            chain,
            first,
            cas,
            line: first,
            matching: matching(first, hash),
            lines: 0,
        }
    }

    /// Makes the search return a slot once more, because its object was moved or removed while it
    /// was being read.
    pub(super) fn again(&mut self, slot: &SlotRef<'_>) {
        self.matching |= 1 << (slot.index - SLOTS.start);
        spin_loop();
    }

    /// Continues with the next line that has a matching slot. Returns false at the end of the
    /// chain.
    #[inline]
    fn advance(&mut self) -> bool {
        while self.matching == 0 {
            let next = SlotWord(self.line[LAST].load(Acquire)).next_line();
            if let Some(next) = next
                && self.lines < CHAIN_MAX
            {
                self.line = self.table.line(self.heap, next);
                self.matching = matching(self.line, self.hash);
                self.lines += 1;
                continue;
            }
            // The search starts again if the chain was split or shortened meanwhile, or if a link
            // led to a line that now belongs to another chain.
            let chain = self.table.chain_of(self.hash);
            let is_same = chain == self.chain && cas_of(self.first) == self.cas;
            if next.is_none() && is_same {
                return false;
            }
            *self = Search::new(self.table, self.heap, self.hash);
        }
        true
    }
}

impl<'h> Iterator for Search<'h> {
    type Item = SlotRef<'h>;

    #[inline(always)]
    fn next(&mut self) -> Option<SlotRef<'h>> {
        loop {
            if self.matching == 0 && !self.advance() {
                return None;
            }
            let (line, index) = (self.line, first_of(self.matching));
            self.matching &= self.matching - 1;
            let word = SlotWord(line[index].load(Acquire));
            if word.has_tag_of(self.hash) {
                return Some(SlotRef { line, index, word });
            }
        }
    }
}
