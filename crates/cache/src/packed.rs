//! Entries packed into an arena and found through a table: the server's storage.
//!
//! The bytes of an entry are drawn in `block.rs`. Values that do not fit a block of 2 KiB, and keys
//! of 255 bytes or more, are stored on the heap in an [`Outside`] object. The block then holds the
//! object's 4-byte number.
//!
//! All changes of an entry go through [`PackedEntries::reshape`]. It returns the entry's slot after
//! the change, and the caller notifies the algorithms.

mod dismantle;
mod marks;
mod owners;
mod unsaved;
mod walk;

use crate::arena::Arena;
use crate::block::{
    INLINE_KEY_MAX, INLINE_VALUE_MAX, KEY_OUTSIDE, LENGTH_FOLLOWS, Layout, MARK_BYTES, MARKS_MAX,
    OUTSIDE, Parts, Shape, TAG_MAX, Widths, length_word, read_u64, width,
};
use crate::blocks::{Blocks, OutsideEntry};
use crate::entries::OWNERS;
use crate::table::Table;
use crate::value::{EmbeddedCounts, NewValue, Outside, Value};
use policy::{Meta, Slot, Tick};
use siphasher::sip::SipHasher13;
use std::cell::Cell;
use std::marker::PhantomData;

/// Entries by slot and by key. `M` and `L` are the types of the state that the policy and the
/// expiry index keep in each entry.
pub struct PackedEntries<O, M, L> {
    pub(crate) table: Table,
    pub(crate) blocks: Blocks<O>,
    /// Buffer for the key and value of a block that is being rewritten.
    rewritten: Vec<u8>,
    pub(crate) owned: [usize; OWNERS],
    /// Number of protected entries with their own deadline.
    protected_deadlines: usize,
    pub(crate) deadlines: usize,
    embedded: EmbeddedCounts,
    pub(crate) now: Tick,
    pub(crate) requests: u64,
    /// Next slot to move out of the page that compaction is emptying.
    emptying: Option<u32>,
    scratch: Vec<u8>,
    /// Hash of the most recently removed key.
    removed_hash: u64,
    /// Entries that the current snapshot has not saved; `None` without a snapshot.
    unsaved: Option<Box<unsaved::Unsaved>>,
    /// Slot at which `sample_where` continues its search through all entries.
    walked: Cell<u32>,
    types: PhantomData<fn() -> (M, L)>,
}

/// Compares two keys, eight bytes at a time. For short keys, calling the library's comparison costs
/// as much as the comparison itself.
#[inline(always)]
fn is_same(a: &[u8], b: &[u8]) -> bool {
    let word = |bytes: &[u8], at: usize| read_u64(bytes, at);
    match (a.len() == b.len(), a.len()) {
        (false, _) => false,
        (true, 8..=32) => {
            let last = a.len() - 8;
            let is_alike = |at: usize| word(a, at.min(last)) == word(b, at.min(last));
            is_alike(0) && is_alike(8) && is_alike(16) && is_alike(last)
        }
        (true, _) => a == b,
    }
}

impl<O: Outside, M: Meta, L: Meta> PackedEntries<O, M, L> {
    /// Creates storage without entries. See [`Table::new`] for `stagger`. `hash_key` is secret, so
    /// that clients cannot choose keys that collide. `link_bits` is the number of bits that the
    /// expiry index needs.
    pub fn new(stagger: f64, hash_key: [u64; 2], link_bits: u32) -> Self {
        PackedEntries {
            table: Table::new(stagger),
            blocks: Blocks {
                arena: Arena::default(),
                outside: Vec::new(),
                outside_vacant: Vec::new(),
                outside_bytes: 0,
                hasher: SipHasher13::new_with_keys(hash_key[0], hash_key[1]),
                widths: Widths {
                    policy: [0; OWNERS],
                    link: width(link_bits, 16),
                },
            },
            rewritten: Vec::new(),
            owned: [0; OWNERS],
            protected_deadlines: 0,
            deadlines: 0,
            embedded: EmbeddedCounts::default(),
            now: Tick(0),
            requests: 0,
            emptying: None,
            scratch: Vec::new(),
            removed_hash: 0,
            unsaved: None,
            walked: Cell::new(0),
            types: PhantomData,
        }
    }

    /// Returns the number of entries in the expiry index: those with their own deadline, and those
    /// whose value has parts with deadlines.
    pub fn deadlines(&self) -> usize {
        self.deadlines
    }

    /// Returns the number of entries with their own deadline.
    pub fn own_deadlines(&self) -> usize {
        self.deadlines - self.embedded.without
    }

    /// Returns the number of entries that have parts with deadlines.
    pub fn with_part_deadlines(&self) -> usize {
        self.embedded.all
    }

    /// Returns the number of bytes in live blocks, outside objects and outside keys.
    pub fn entry_bytes(&self) -> u64 {
        self.blocks.arena.live_bytes() + self.blocks.outside_bytes
    }

    /// Returns the number of bytes in the table and the list of outside objects.
    pub fn table_bytes(&self) -> u64 {
        let held = self.blocks.outside.capacity() * size_of::<Option<OutsideEntry<O>>>();
        let vacant = self.blocks.outside_vacant.capacity() * 4;
        (self.table.heap_bytes() + held + vacant) as u64
    }

    /// Returns the number of free bytes inside the arena.
    pub fn free_bytes(&self) -> u64 {
        self.blocks.arena.free_bytes()
    }

    /// Returns whether nearly all slot numbers are in use. The caller must not insert in that case.
    pub fn is_full(&self) -> bool {
        self.blocks.arena.is_nearly_full()
    }

    /// Returns the key of a live entry.
    #[inline]
    pub fn key(&self, slot: Slot) -> &[u8] {
        self.blocks.key(slot)
    }

    /// Returns the value of a live entry.
    #[inline]
    pub fn value(&self, slot: Slot) -> Value<'_, O> {
        let (block, layout) = self.blocks.parts(slot);
        let kind = layout.kind();
        if kind == OUTSIDE {
            return Value::Outside(&self.blocks.outside_entry(block, &layout).object);
        }
        Value::Inline(
            kind as u8,
            &block[layout.value_at()..layout.value_at() + layout.value_len],
        )
    }

    /// Changes the outside object of a live entry in place. Returns `None` if its value is inline.
    pub fn edit_outside<R>(&mut self, slot: Slot, edit: impl FnOnce(&mut O) -> R) -> Option<R> {
        debug_assert!(self.blocks.arena.is_live(slot.0));
        debug_assert!(!self.is_unsaved(slot));
        let (block, layout) = self.blocks.parts(slot);
        if layout.kind() != OUTSIDE {
            return None;
        }
        let number = Blocks::<O>::number(block, &layout);
        let was_counted = self.is_protected_with_deadline(slot);
        let held = self.blocks.outside[number]
            .as_mut()
            .expect("its number names an object");
        let before = held.heap_bytes();
        let kept = O::embedded_deadline(&Value::Outside(&held.object));
        let result = edit(&mut held.object);
        let after = held.heap_bytes();
        let keeps = O::embedded_deadline(&Value::Outside(&held.object));
        self.embedded.count(keeps, kept);
        self.blocks.outside_bytes = self.blocks.outside_bytes + after - before;
        self.count_protected(slot, was_counted);
        Some(result)
    }

    /// Returns the keyed hash of a key.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> u64 {
        self.blocks.hasher.hash(key)
    }

    /// Returns the keyed hash of the most recently removed key, which saves the caller from
    /// computing it again; 0 before the first removal.
    #[inline]
    pub fn removed_hash(&self) -> u64 {
        self.removed_hash
    }

    /// Returns the instant of the last request.
    #[inline]
    pub fn now(&self) -> Tick {
        self.now
    }

    /// Merges sparse parts of the table. Examines up to `steps` parts and merges at most two.
    /// Returns whether another call may merge more.
    pub fn shrink_table(&mut self, steps: u32) -> bool {
        let blocks = &self.blocks;
        self.table.shrink(steps, |slot| blocks.key_hash(slot))
    }

    /// Prefetches the bucket of a hash.
    #[inline]
    pub fn prefetch_bucket(&self, hash: u64) {
        self.table.prefetch(hash);
    }

    /// Prefetches the entries whose tag matches a hash. Call it once the hash's bucket is in the
    /// CPU cache.
    #[inline]
    pub fn prefetch_entry(&self, hash: u64) {
        self.table.find(hash, |slot| {
            self.blocks.arena.prefetch(slot.0);
            false
        });
    }

    /// Returns the slot of a key.
    #[inline]
    pub fn find(&self, hash: u64, key: &[u8]) -> Option<Slot> {
        self.table
            .find(hash, |slot| is_same(self.blocks.key(slot), key))
    }

    /// Adds an entry for an absent key, with zero as the state of policy and index. A key longer
    /// than [`INLINE_KEY_MAX`] requires a value that is an outside object.
    pub fn insert(&mut self, hash: u64, key: &[u8], value: NewValue<'_, O>, shape: Shape) -> Slot {
        debug_assert_eq!(hash, self.hash(key));
        debug_assert!(self.find(hash, key).is_none());
        let is_key_outside = key.len() > INLINE_KEY_MAX;
        self.embedded.count(value.embedded_deadline(), None);
        let (kind, number);
        let bytes: &[u8] = match value {
            NewValue::Inline(tag, bytes) if !is_key_outside => {
                debug_assert!(tag > 0 && tag <= TAG_MAX && bytes.len() <= INLINE_VALUE_MAX);
                kind = u32::from(tag);
                bytes
            }
            NewValue::Outside(object) => {
                let key = is_key_outside.then(|| key.into());
                number = self.blocks.hold(OutsideEntry { key, object }).to_le_bytes();
                kind = OUTSIDE;
                &number
            }
            _ => unreachable!("a new entry has a value, outside when its key is"),
        };
        let key_len = if is_key_outside {
            KEY_OUTSIDE
        } else {
            key.len() as u32
        };
        let key = if is_key_outside { &[] } else { key };
        let parts = Parts {
            kind,
            policy_bits: 0,
            link: 0,
            key_len,
            marks: &[],
            key,
            value: bytes,
        };
        let mut block = std::mem::take(&mut self.scratch);
        self.blocks.widths.write(&mut block, &parts, shape);
        let slot = self.blocks.arena.allocate(Arena::granules(block.len()));
        let slot = slot.expect("the host checks is_full before it inserts");
        self.blocks.arena.from_mut(slot)[..block.len()].copy_from_slice(&block);
        self.scratch = block;
        if let Some(unsaved) = &mut self.unsaved {
            unsaved.remove(slot, &self.blocks.arena);
        }
        self.owned[shape.owner as usize] += 1;
        self.deadlines += usize::from(shape.deadline.is_some());
        let blocks = &self.blocks;
        self.table.insert(
            hash,
            Slot(slot),
            |other| blocks.key_hash(other),
            |other| blocks.arena.prefetch(other.0),
        );
        Slot(slot)
    }

    /// Returns a live entry's own deadline, which may differ from the one in the expiry index.
    #[inline]
    pub fn own_deadline(&self, slot: Slot) -> Option<Tick> {
        O::embedded_deadline(&self.value(slot)).unwrap_or_else(|| self.indexed_deadline(slot))
    }

    /// Returns the deadline under which the expiry index holds a live entry.
    #[inline]
    pub(crate) fn indexed_deadline(&self, slot: Slot) -> Option<Tick> {
        self.blocks.deadline(slot)
    }

    /// Returns the indexed deadline and the owner of a live entry.
    #[inline]
    pub fn shape(&self, slot: Slot) -> Shape {
        let (block, layout) = self.blocks.parts(slot);
        let deadline = layout
            .has_deadline()
            .then(|| Tick(read_u64(block, layout.deadline_at) >> 16));
        Shape {
            deadline,
            owner: layout.owner(),
        }
    }

    /// Changes the value, deadline or owner of a live entry. Returns the entry's slot after the
    /// change, and the outside object that it no longer holds.
    ///
    /// The policy's state in the entry is kept if the owner stays the same. The index's state is
    /// kept if the entry had a deadline and still has one. Otherwise they become zero.
    pub fn reshape(
        &mut self,
        slot: Slot,
        value: NewValue<'_, O>,
        shape: Shape,
    ) -> (Slot, Option<O>) {
        debug_assert!(self.blocks.arena.is_live(slot.0));
        debug_assert!(matches!(value, NewValue::Same) || !self.is_unsaved(slot));
        let was_counted = self.is_protected_with_deadline(slot);
        if !matches!(value, NewValue::Same) {
            let kept = O::embedded_deadline(&self.value(slot));
            self.embedded.count(value.embedded_deadline(), kept);
        }
        let (slot, dropped) = match self.reshape_in_place(slot, &value, shape) {
            Some(slot) => (slot, None),
            None => self.rebuild(slot, value, shape),
        };
        self.count_protected(slot, was_counted);
        (slot, dropped)
    }

    /// Writes the block of an entry again, for a change that does not keep its layout.
    fn rebuild(&mut self, slot: Slot, value: NewValue<'_, O>, shape: Shape) -> (Slot, Option<O>) {
        let old_shape = self.shape(slot);
        let (policy_bits, link) = self.kept_bits(slot, old_shape, shape);
        self.owned[old_shape.owner as usize] -= 1;
        self.owned[shape.owner as usize] += 1;
        self.deadlines -= usize::from(old_shape.deadline.is_some());
        self.deadlines += usize::from(shape.deadline.is_some());

        let (block, layout) = self.blocks.parts(slot);
        let (old_granules, key_len) = (layout.granules(), layout.header >> 15 & 0xff);
        let mut old = std::mem::take(&mut self.rewritten);
        old.clear();
        let marks_at = self.blocks.widths.marks(block);
        let mut kept_marks = [0; MARK_BYTES * MARKS_MAX];
        let marks = &mut kept_marks[..marks_at.len()];
        marks.copy_from_slice(&block[marks_at]);
        old.extend_from_slice(&block[layout.key_at..layout.value_at() + layout.value_len]);
        let (key, same) = old.split_at(layout.value_at() - layout.key_at);
        let (kind, number, mut dropped) = (layout.kind(), Self::number_of(block, &layout), None);
        let stored;
        let (kind, bytes): (u32, &[u8]) = match value {
            NewValue::Same => (kind, same),
            NewValue::Inline(tag, bytes) if key_len != KEY_OUTSIDE => {
                dropped = number.map(|n| self.blocks.release_outside(n).object);
                (u32::from(tag), bytes)
            }
            NewValue::Inline(..) => unreachable!("a key outside has its value outside"),
            NewValue::Outside(object) => {
                let held = number.map(|n| self.blocks.release_outside(n));
                let (key, old) = held.map_or((None, None), |h| (h.key, Some(h.object)));
                dropped = old;
                stored = self.blocks.hold(OutsideEntry { key, object }).to_le_bytes();
                (OUTSIDE, &stored)
            }
        };
        let parts = Parts {
            kind,
            policy_bits,
            link,
            key_len,
            marks,
            key,
            value: bytes,
        };
        let mut block = std::mem::take(&mut self.scratch);
        self.blocks.widths.write(&mut block, &parts, shape);
        let slot = self.rewrite(slot, old_granules, &block);
        self.scratch = block;
        self.rewritten = old;
        debug_assert_eq!(self.shape(slot), shape);
        (slot, dropped)
    }

    /// Returns the bits of policy and expiry index that an entry keeps when its shape changes from
    /// `old` to `new`.
    fn kept_bits(&self, slot: Slot, old: Shape, new: Shape) -> (u64, u64) {
        let (widths, bytes) = (&self.blocks.widths, self.blocks.arena.from(slot.0));
        let (mut policy_bits, mut link) = (0, 0);
        if new.owner == old.owner {
            policy_bits = widths.policy_bits(bytes);
        }
        if old.deadline.is_some() && new.deadline.is_some() {
            link = widths.link_bits(bytes);
        }
        (policy_bits, link)
    }

    /// Handles the common case in which the block keeps its size and layout, because only a
    /// deadline or an inline value changes.
    #[inline]
    fn reshape_in_place(
        &mut self,
        slot: Slot,
        value: &NewValue<'_, O>,
        shape: Shape,
    ) -> Option<Slot> {
        let block = self.blocks.arena.from(slot.0);
        let layout = self.blocks.widths.layout(block);
        let is_alike =
            layout.owner() == shape.owner && layout.has_deadline() == shape.deadline.is_some();
        let (tag, new_len) = match value {
            NewValue::Same => (layout.kind(), layout.value_len),
            NewValue::Inline(tag, bytes) => (u32::from(*tag), bytes.len()),
            NewValue::Outside(_) => return None,
        };
        let is_new = matches!(value, NewValue::Inline(..));
        let marks_len = match layout.has_length_word() {
            true => self.blocks.widths.marks(block).len(),
            false => 0,
        };
        let has_length_word = new_len >= LENGTH_FOLLOWS || marks_len > 0;
        if !is_alike
            || is_new && layout.kind() == OUTSIDE
            || has_length_word != layout.has_length_word()
            || Arena::granules(layout.value_at() + new_len) != layout.granules()
        {
            return None;
        }
        let block = self.blocks.arena.from_mut(slot.0);
        if let Some(deadline) = shape.deadline {
            let link = read_u64(block, layout.deadline_at) & 0xffff;
            let word = (deadline.0 << 16 | link).to_le_bytes();
            block[layout.deadline_at..layout.deadline_at + 8].copy_from_slice(&word);
        }
        if let NewValue::Inline(_, bytes) = value {
            let length = match has_length_word {
                true => LENGTH_FOLLOWS,
                false => new_len,
            };
            let header = layout.header & 0x007f_fff0 | tag | (length as u32) << 23;
            block[..4].copy_from_slice(&header.to_le_bytes());
            if has_length_word {
                let at = layout.key_at - marks_len - 2;
                let word = length_word(new_len, marks_len / MARK_BYTES);
                block[at..at + 2].copy_from_slice(&word);
            }
            let at = layout.value_at();
            block[at..at + new_len].copy_from_slice(bytes);
        }
        Some(slot)
    }

    /// Stores a rewritten block, in place if its number of granules is unchanged.
    fn rewrite(&mut self, slot: Slot, old_granules: usize, block: &[u8]) -> Slot {
        debug_assert!(self.blocks.arena.is_live(slot.0));
        let granules = Arena::granules(block.len());
        if granules == old_granules {
            self.blocks.arena.from_mut(slot.0)[..block.len()].copy_from_slice(block);
            return slot;
        }
        let hash = self.blocks.key_hash(slot);
        let new = self
            .blocks
            .arena
            .allocate(granules)
            .expect("the host checks is_full before");
        self.blocks.arena.from_mut(new)[..block.len()].copy_from_slice(block);
        if let Some(unsaved) = &mut self.unsaved {
            unsaved.moved(slot.0, new, &self.blocks.arena);
        }
        self.blocks.arena.free(slot.0, old_granules);
        self.table.replace(hash, slot, Slot(new));
        Slot(new)
    }

    /// Removes a live entry. Returns its outside object, so that the caller can drop it without
    /// holding a lock.
    pub fn remove(&mut self, slot: Slot) -> Option<O> {
        debug_assert!(self.blocks.arena.is_live(slot.0));
        debug_assert!(!self.is_unsaved(slot));
        let kept = O::embedded_deadline(&self.value(slot));
        self.embedded.count(None, kept);
        self.protected_deadlines -= usize::from(self.is_protected_with_deadline(slot));
        let hash = self.blocks.key_hash(slot);
        self.removed_hash = hash;
        let blocks = &self.blocks;
        self.table
            .remove(hash, slot, |other| blocks.key_hash(other));
        let (block, layout) = self.blocks.parts(slot);
        let (granules, number) = (layout.granules(), Self::number_of(block, &layout));
        self.owned[layout.owner() as usize] -= 1;
        self.deadlines -= usize::from(layout.has_deadline());
        self.blocks.arena.free(slot.0, granules);
        number.map(|n| self.blocks.release_outside(n).object)
    }

    fn number_of(block: &[u8], layout: &Layout) -> Option<usize> {
        (layout.kind() == OUTSIDE).then(|| Blocks::<O>::number(block, layout))
    }

    /// Moves one live entry out of the sparsest page and returns its old and new slot. Returns
    /// `None` if too little memory is free for compaction to be worthwhile.
    pub fn compact(&mut self) -> Option<(Slot, Slot)> {
        loop {
            if let Some(from) = self.emptying {
                // If the page became empty in the meantime, its number may name a new, open page.
                let is_closed = self.blocks.arena.is_closed(from);
                if let Some(slot) = self.blocks.arena.next_live(from).filter(|_| is_closed) {
                    self.emptying = Some(slot);
                    return Some((Slot(slot), self.relocate(Slot(slot))));
                }
                self.emptying = None;
            }
            if !self.blocks.arena.is_sparse() {
                return None;
            }
            let Blocks { arena, widths, .. } = &mut self.blocks;
            let page = arena.close_sparsest(|block| widths.layout(block).granules())?;
            self.emptying = arena.page_start(page);
        }
    }

    fn relocate(&mut self, slot: Slot) -> Slot {
        debug_assert!(self.blocks.arena.is_closed(slot.0));
        let hash = self.blocks.key_hash(slot);
        let granules = self.blocks.granules(self.blocks.arena.from(slot.0));
        let new = self
            .blocks
            .arena
            .allocate(granules)
            .expect("emptying a page needs less than it frees");
        self.blocks.arena.copy(slot.0, new, granules);
        if let Some(unsaved) = &mut self.unsaved {
            unsaved.moved(slot.0, new, &self.blocks.arena);
        }
        self.blocks.arena.free(slot.0, granules);
        self.table.replace(hash, slot, Slot(new));
        Slot(new)
    }
}

impl<O: Outside, M: Meta, L: Meta> PackedEntries<O, M, L> {
    /// Returns the total number of bytes in a live entry's block, outside object and outside key,
    /// as far as it fits into 32 bits.
    pub fn weight_of(&self, slot: Slot) -> u32 {
        u32::try_from(self.bytes_of(slot)).unwrap_or(u32::MAX)
    }

    /// Returns the total number of bytes in a live entry's block, outside object and outside key.
    pub fn bytes_of(&self, slot: Slot) -> u64 {
        let (block, layout) = self.blocks.parts(slot);
        let inline = (layout.granules() * crate::arena::GRANULE) as u64;
        let outside = Self::number_of(block, &layout).map_or(0, |_| {
            self.blocks.outside_entry(block, &layout).heap_bytes()
        });
        inline + outside
    }
}

#[cfg(test)]
mod tests {
    use super::is_same;

    #[test]
    fn keys_are_equal_if_every_byte_is() {
        for len in 0..70 {
            let a: Vec<u8> = (0..len).collect();
            assert!(is_same(&a, &a.clone()));
            for i in 0..a.len() {
                let mut b = a.clone();
                b[i] ^= 1;
                assert!(!is_same(&a, &b), "byte {i} of {len}");
                assert!(!is_same(&a, &a[..i]));
            }
        }
    }
}
