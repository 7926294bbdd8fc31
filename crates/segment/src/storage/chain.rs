//! A locked chain of lines: what writers do to slots.

use super::heap::Heap;
use super::line::{
    CAS_ONE, CAS_SHIFT, COUNT_ONE, LAST, LOCK, SLOTS, SlotRef, SlotWord, matching, slots_of,
};
use super::lines::{Lines, TakeSegment};
use super::words::Line;
use crate::sync::Ordering::{Acquire, Relaxed, Release};

/// Maximum number of lines in a chain. An object that does not fit replaces another.
pub(super) const CHAIN_MAX: usize = 16;

/// A chain, locked until it is dropped.
///
/// Readers go on meanwhile: every store to a slot publishes the object that it names. A frequency
/// that a reader counts between is lost.
pub(super) struct Chain<'t> {
    lines: &'t Lines,
    heap: &'t Heap,
    source: &'t dyn TakeSegment,
    first: &'t Line,
    /// Added to the line information when the lock is given up.
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
    /// The chain that begins with this line. The caller has set its lock bit.
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

    /// All slots that name an object.
    pub(super) fn slots(&self) -> impl Iterator<Item = SlotRef<'t>> + use<'t> {
        self.all_lines().flat_map(|line| {
            SLOTS.filter_map(move |index| {
                let word = SlotWord(line[index].load(Acquire));
                word.is_object().then_some(SlotRef { line, index, word })
            })
        })
    }

    /// Finds the object with the tag of this hash for which `is_it` holds.
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

    /// The `cas` of the chain, with the changes made under this lock.
    pub(super) fn cas(&self) -> u32 {
        (self.first[0].load(Relaxed).wrapping_add(self.delta) >> CAS_SHIFT) as u32
    }

    /// Notes that a value has changed, which increases `cas`.
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

    /// Puts a frequently requested object into the first line, where a hit reads one cache line and
    /// predicts all branches. The least frequent object there makes room if there is a vacant slot
    /// in another line. It is stored there first, so that a reader that does not find it at its old
    /// place finds it later at its new one. The replaced object, in a later line, stays until its
    /// successor stands in the first line and `cas` has gone up, as in [`Chain::empty`].
    #[cold]
    fn put_first(&mut self, cell: SlotRef<'t>, slot: SlotWord, frequency: u8) -> bool {
        let vacant = self.all_lines().skip(1).find_map(|line| {
            let index = SLOTS
                .into_iter()
                .find(|&index| line[index].load(Relaxed) == 0)?;
            Some(&line[index])
        });
        // The last slot is a link.
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

    /// Adds an object. Returns false if there is no room, and changes nothing then.
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
        // A reader that follows the link finds the object that stood in the link's place.
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

    /// Clears a slot, and gives back lines that are no longer needed.
    pub(super) fn remove(&mut self, cell: SlotRef<'t>) {
        self.clear(cell);
        self.shorten();
    }

    /// Gives back the last line, as often as the others have room for its objects.
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
            // The last slots of the others are links.
            if self.object_count() > (lines - 1) * (SLOTS.len() as u64 - 1) {
                return;
            }
            self.empty(last);
            before[LAST].store(SlotWord::VACANT.0, Release);
            self.lines.give_back(self.heap, number);
        }
    }

    /// Moves the objects of the last line to earlier ones: first they are stored at both places,
    /// then `cas` goes up, then they are cleared here. A reader that finds an object at neither
    /// place read its new place before the object was stored there, hence before `cas` went up, and
    /// read the old place after that. So it sees that `cas` has changed, and starts again.
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

    /// The object with the lowest frequency.
    pub(super) fn weakest(&self) -> Option<SlotRef<'t>> {
        self.slots().min_by_key(|cell| cell.word.frequency())
    }

    /// Number of lines, and of objects by the line information.
    pub(super) fn extent(&self) -> (usize, u64) {
        (self.all_lines().count(), self.object_count())
    }

    fn object_count(&self) -> u64 {
        let info = self.first[0].load(Relaxed).wrapping_add(self.delta);
        info >> COUNT_ONE.trailing_zeros() & 0xff
    }
}
