//! Marks of entries: the numbers of the groups that an entry belongs to, and the caller's note, in
//! its block.

use super::PackedEntries;
use crate::block::{MARK_BYTES, NOTE, OUTSIDE, Parts, read_u32};
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
            match read_u32(bytes, at) {
                note if note & NOTE != 0 => marks.set_note(note & !NOTE),
                number => drop(marks.push(number)),
            }
        }
        marks
    }

    /// Whether a live entry has marks.
    #[inline]
    pub fn has_marks(&self, slot: Slot) -> bool {
        let block = self.blocks.arena.from(slot.0);
        !self.blocks.widths.marks(block).is_empty()
    }

    /// Returns the note of a live entry; 0 if it has none.
    #[inline]
    pub fn note(&self, slot: Slot) -> u32 {
        let block = self.blocks.arena.from(slot.0);
        let at = self.blocks.widths.marks(block);
        if at.is_empty() {
            return 0;
        }
        match read_u32(block, at.start) {
            note if note & NOTE != 0 => note & !NOTE,
            _ => 0,
        }
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
        let note = (marks.note() != 0).then_some(marks.note() | NOTE);
        let numbers = note.iter().chain(marks.as_slice());
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
