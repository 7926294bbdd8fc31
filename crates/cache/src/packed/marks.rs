//! Marks of entries: the numbers of the groups that an entry belongs to, in its block.

use super::PackedEntries;
use crate::block::{MARK_BYTES, OUTSIDE, Parts, read_u32};
use crate::groups::Marks;
use crate::value::Outside;
use policy::{Meta, Slot};

impl<O: Outside, M: Meta, L: Meta> PackedEntries<O, M, L> {
    /// Returns the marks of a live entry.
    pub fn marks(&self, slot: Slot) -> Marks {
        let block = self.blocks.arena.from(slot.0);
        let bytes = &block[self.blocks.widths.marks(block)];
        let mut marks = Marks::default();
        for at in (0..bytes.len()).step_by(MARK_BYTES) {
            marks.push(read_u32(bytes, at));
        }
        marks
    }

    /// Replaces the marks of a live entry. Returns the entry's slot after the change.
    pub fn set_marks(&mut self, slot: Slot, marks: &Marks) -> Slot {
        debug_assert!(self.blocks.arena.is_live(slot.0));
        let shape = self.shape(slot);
        let (policy_bits, link) = self.kept_bits(slot, shape, shape);
        let (bytes, layout) = self.blocks.parts(slot);
        let mut old = std::mem::take(&mut self.rewritten);
        old.clear();
        old.extend_from_slice(&bytes[layout.key_at..layout.value_at() + layout.value_len]);
        let (key, value) = old.split_at(layout.value_at() - layout.key_at);
        debug_assert!(layout.kind() != OUTSIDE || value.len() == 4);
        let numbers = marks.as_slice().iter();
        let numbers: Vec<u8> = numbers.flat_map(|number| number.to_le_bytes()).collect();
        let parts = Parts {
            kind: layout.kind(),
            policy_bits,
            link,
            key_len: layout.header >> 15 & 0xff,
            marks: &numbers,
            key,
            value,
        };
        let mut block = std::mem::take(&mut self.scratch);
        self.blocks.widths.write(&mut block, &parts, shape);
        let slot = self.rewrite(slot, layout.granules(), &block);
        self.scratch = block;
        self.rewritten = old;
        debug_assert_eq!(self.shape(slot), shape);
        slot
    }
}
