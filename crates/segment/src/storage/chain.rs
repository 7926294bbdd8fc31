//! Locked chain of lines, and the changes that writers make to its slots.

use super::heap::Heap;
use super::line::{
    CAS_ONE, CAS_SHIFT, COUNT_ONE, LAST, LOCK, SLOTS, SlotRef, SlotWord, matching, slots_of,
};
use super::lines::{Lines, TakeSegment};
use super::words::Line;
use crate::sync::Ordering::{Acquire, Relaxed, Release};

/// Maximum number of lines in a chain. An object that does not fit replaces another one.
pub(super) const CHAIN_MAX: usize = 16;

/// A chain, locked until this value is dropped.
///
/// Readers continue meanwhile: every store to a slot publishes the object that it refers to. If a
/// reader counts a request between a writer's load and store of a slot, that count is lost.
pub(super) struct Chain<'t> {
    lines: &'t Lines,
    heap: &'t Heap,
    source: &'t dyn TakeSegment,
    first: &'t Line,
    /// Difference that is added to the line information when the lock is released.
    delta: u64,
}

impl Drop for Chain<'_> {
    fn drop(&mut self) {
        // Added, not stored, because readers count requests in the same word meanwhile.
        let before = self.first[0].fetch_add(self.delta.wrapping_sub(LOCK), Release);
        debug_assert!(before & LOCK != 0);
    }
}

impl<'t> Chain<'t> {
    /// Creates the guard of the chain that begins with this line. The caller must have set the lock
    /// bit.
    pub(super) fn locked(
        lines: &'t Lines,
        heap: &'t Heap,
        source: &'t dyn TakeSegment,
        first: &'t Line,
    ) -> Self {
        debug_assert!(first[0].load(Relaxed) & LOCK != 0);
        Chain {
            lines,
            heap,
            source,
            first,
            delta: 0,
        }
    }

    fn all_lines(&self) -> impl Iterator<Item = &'t Line> + use<'t> {
        let (lines, heap) = (self.lines, self.heap);
        let next = move |line: &&'t Line| lines.after(heap, line);
        std::iter::successors(Some(self.first), next)
    }

    /// Returns all slots that refer to an object.
    pub(super) fn slots(&self) -> impl Iterator<Item = SlotRef<'t>> + use<'t> {
        self.all_lines().flat_map(|line| {
            SLOTS.filter_map(move |index| {
                let word = SlotWord(line[index].load(Acquire));
                word.is_object().then_some(SlotRef { line, index, word })
            })
        })
    }

    /// Returns the slot of the object that has this hash's tag and for which `is_it` returns true.
    #[inline]
    pub(super) fn find(
        &self,
        hash: u64,
        mut is_it: impl FnMut(SlotWord) -> bool,
    ) -> Option<SlotRef<'t>> {
        let mut line = self.first;
        loop {
            for index in slots_of(matching(line, hash)) {
                let word = SlotWord(line[index].load(Acquire));
                if word.has_tag_of(hash) && is_it(word) {
                    return Some(SlotRef { line, index, word });
                }
            }
            line = self.lines.after(self.heap, line)?;
        }
    }

    /// Returns the `cas` of the chain, including the changes made under this lock.
    pub(super) fn cas(&self) -> u32 {
        (self.first[0].load(Relaxed).wrapping_add(self.delta) >> CAS_SHIFT) as u32
    }

    /// Records that a value has changed, which increases `cas`.
    pub(super) fn changed(&mut self) {
        self.delta = self.delta.wrapping_add(CAS_ONE);
    }

    /// Replaces the object of a slot by another. `frequency` decides whether it moves to the first
    /// line.
    #[inline]
    pub(super) fn replace(&mut self, cell: SlotRef<'t>, slot: SlotWord, frequency: u8) {
        debug_assert!(slot.is_object());
        if std::ptr::eq(cell.line, self.first) || !self.put_first(cell, slot, frequency) {
            cell.line[cell.index].store(slot.0, Release);
        }
    }

    /// Moves a frequently requested object to the first line, where a hit reads one cache line and
    /// predicts all branches. If another line has a vacant slot, the least frequent object of the
    /// first line moves there. It is stored in the vacant slot before it is replaced in the first
    /// line. So a reader that does not find it at its old place finds it later at its new one. The
    /// replaced object, in a later line, stays until the new one is in the first line and `cas` has
    /// increased, as in [`Chain::empty`].
    #[cold]
    fn put_first(&mut self, cell: SlotRef<'t>, slot: SlotWord, frequency: u8) -> bool {
        let vacant = self.all_lines().skip(1).find_map(|line| {
            let index = SLOTS
                .into_iter()
                .find(|&index| line[index].load(Relaxed) == 0)?;
            Some(&line[index])
        });
        // The last slot is not considered, because it is a link.
        let cells = (SLOTS.start..LAST).map(|index| SlotWord(self.first[index].load(Relaxed)));
        let weakest = (SLOTS.start..LAST)
            .zip(cells)
            .min_by_key(|(_, slot)| slot.frequency());
        let (Some(vacant), Some((index, weakest))) = (vacant, weakest) else {
            return false;
        };
        if weakest.is_object() {
            if weakest.frequency() >= frequency {
                return false;
            }
            vacant.store(weakest.0, Release);
        }
        self.first[index].store(slot.0, Release);
        self.first[0].fetch_add(CAS_ONE, Release);
        cell.line[cell.index].store(SlotWord::VACANT.0, Release);
        true
    }

    /// Adds an object. Returns false and changes nothing if there is no room.
    pub(super) fn insert(&mut self, slot: SlotWord) -> bool {
        let mut last = self.first;
        for (number, line) in self.all_lines().enumerate() {
            let vacant = SLOTS
                .into_iter()
                .find(|&index| line[index].load(Relaxed) == 0);
            if let Some(index) = vacant {
                line[index].store(slot.0, Release);
                self.delta = self.delta.wrapping_add(COUNT_ONE);
                return true;
            }
            if number + 1 == CHAIN_MAX {
                return false;
            }
            last = line;
        }
        let Some(number) = self.lines.take(self.heap, self.source) else {
            return false;
        };
        let line = self.lines.line(self.heap, number);
        // A reader that follows the link finds there the object that was in the link's slot before.
        line[1].store(last[LAST].load(Relaxed), Release);
        line[2].store(slot.0, Release);
        last[LAST].store(SlotWord::link(number).0, Release);
        self.delta = self.delta.wrapping_add(COUNT_ONE);
        true
    }

    /// Clears a slot.
    pub(super) fn clear(&mut self, cell: SlotRef<'t>) {
        cell.line[cell.index].store(SlotWord::VACANT.0, Release);
        self.delta = self.delta.wrapping_sub(COUNT_ONE);
    }

    /// Clears a slot, and frees lines that are no longer needed.
    pub(super) fn remove(&mut self, cell: SlotRef<'t>) {
        self.clear(cell);
        self.shorten();
    }

    /// Frees lines at the end while the other lines have room for their objects.
    pub(super) fn shorten(&mut self) {
        loop {
            let mut before_last = None;
            let mut last = self.first;
            let mut lines = 1;
            while let Some(next) = SlotWord(last[LAST].load(Relaxed)).next_line() {
                before_last = Some((last, next));
                last = self.lines.line(self.heap, next);
                lines += 1;
            }
            let Some((before, number)) = before_last else {
                return;
            };
            // The last slot of each other line is a link.
            if self.object_count() > (lines - 1) * (SLOTS.len() as u64 - 1) {
                return;
            }
            self.empty(last);
            before[LAST].store(SlotWord::VACANT.0, Release);
            self.lines.give_back(self.heap, number);
        }
    }

    /// Moves the objects of the last line to earlier lines. Each object is first stored at the new
    /// place as well, then `cas` increases, then the old places are cleared. Suppose that a reader
    /// finds an object at neither place. Then it read the new place before the object was stored
    /// there, hence before `cas` increased, and it read the old place after that. It therefore sees
    /// that `cas` has changed, and searches again.
    fn empty(&mut self, last: &'t Line) {
        let mut vacant = self.all_lines().flat_map(|line| {
            let slots = SLOTS.start..LAST;
            slots.filter_map(move |index| (line[index].load(Relaxed) == 0).then_some(&line[index]))
        });
        let mut is_moved = false;
        for cell in last.get(SLOTS).into_iter().flatten() {
            let slot = cell.load(Relaxed);
            if slot != 0 {
                let place = vacant.next().expect("the others have room");
                place.store(slot, Release);
                is_moved = true;
            }
        }
        if is_moved {
            self.first[0].fetch_add(CAS_ONE, Release);
        }
        for cell in last.get(SLOTS).into_iter().flatten() {
            if cell.load(Relaxed) != 0 {
                cell.store(SlotWord::VACANT.0, Release);
            }
        }
    }

    /// Returns the slot of the object with the lowest frequency.
    pub(super) fn weakest(&self) -> Option<SlotRef<'t>> {
        self.slots().min_by_key(|cell| cell.word.frequency())
    }

    /// Returns the number of lines, and the number of objects according to the line information.
    pub(super) fn extent(&self) -> (usize, u64) {
        (self.all_lines().count(), self.object_count())
    }

    fn object_count(&self) -> u64 {
        let info = self.first[0].load(Relaxed).wrapping_add(self.delta);
        info >> COUNT_ONE.trailing_zeros() & 0xff
    }
}
