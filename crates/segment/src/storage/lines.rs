//! Lines of the hash table: their places in memory, and the lines that belong to no chain.
//!
//! Lines are taken from segments of the heap, a *piece* of up to 256 lines at a time. The first
//! lines of chains are adjacent in pieces; further lines of chains are taken one by one. The table
//! never returns memory to the heap.

use super::cursor::SavedWords;
use super::heap::Heap;
use super::line::{LAST, SLOTS, SlotWord};
use super::lists::{SegmentLists, State};
use super::location::SegmentId;
use super::words::{LINE, Line};
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{AtomicU64, Mutex, MutexGuard, fence};
use std::fmt::Debug;
use std::sync::PoisonError;

/// Maximum number of lines in a piece.
const PIECE_LINES: u32 = 256;

/// Source of segments for the table.
pub(crate) trait TakeSegment: Debug {
    /// Takes a free segment, which is never returned. `None` if none may be taken.
    fn take_for_table(&self) -> Option<SegmentId>;
}

/// Lines that belong to no chain.
#[derive(Debug, Default)]
struct Pool {
    /// Number of segments taken.
    segments: u32,
    /// Number of unused lines in the segment taken last.
    unused: u32,
    /// First of the freed lines, which are linked like a chain, so that a reader still in one of
    /// them finds no object and reaches an end.
    free_first: Option<u32>,
    free_count: u32,
    /// Next line in the piece that supplies further lines for chains. `single_count` is the number
    /// of lines left in it.
    single_next: u32,
    single_count: u32,
}

/// All lines of the table.
#[derive(Debug)]
pub(super) struct Lines {
    /// Number of the first word of each segment of the table.
    segments: Box<[AtomicU64]>,
    pool: Mutex<Pool>,
    piece_bits: u32,
    segment_bits: u32,
}

impl Lines {
    pub(super) fn new(heap: &Heap) -> Self {
        let segment_lines = heap.capacity() / LINE as u32;
        debug_assert!(segment_lines.is_power_of_two());
        let piece_lines = PIECE_LINES.min(segment_lines);
        Lines {
            segments: (0..heap.count()).map(|_| AtomicU64::new(0)).collect(),
            pool: Mutex::default(),
            piece_bits: piece_lines.trailing_zeros(),
            segment_bits: segment_lines.trailing_zeros(),
        }
    }

    /// Appends the numbers of the segments that hold lines and of the lines that belong to no
    /// chain.
    pub(super) fn save(&self, saved: &mut Vec<u64>) {
        let pool = self.pool();
        saved.extend([
            u64::from(pool.segments),
            u64::from(pool.unused),
            pool.free_first.map_or(u64::MAX, u64::from),
            u64::from(pool.free_count),
            u64::from(pool.single_next),
            u64::from(pool.single_count),
        ]);
        let segments = self.segments.iter().take(pool.segments as usize);
        saved.extend(segments.map(|word| word.load(Relaxed)));
    }

    /// Restores saved lines, and removes their segments from the lists. Returns `None` if the
    /// segments are in use or the numbers are impossible.
    pub(super) fn restore(
        heap: &Heap,
        saved: &mut SavedWords<'_>,
        lists: &mut SegmentLists,
    ) -> Option<Self> {
        let lines = Lines::new(heap);
        let pool = Pool {
            segments: saved.small()?,
            unused: saved.small()?,
            free_first: match saved.next()? {
                u64::MAX => None,
                line => Some(u32::try_from(line).ok()?),
            },
            free_count: saved.small()?,
            single_next: saved.small()?,
            single_count: saved.small()?,
        };
        for index in 0..pool.segments {
            let word = saved.next()?;
            let id = SegmentId(u32::try_from(word / u64::from(heap.capacity())).ok()?);
            lists.check_unused(id)?;
            if word != heap.memory().number(id, 0) {
                return None;
            }
            lists.set_state(id, State::Table);
            heap.memory().reserve(id);
            lines.segments.get(index as usize)?.store(word, Relaxed);
        }
        // Only a part of the last segment is unused.
        let all = u64::from(pool.segments) << lines.segment_bits;
        let is_part = pool.unused < 1 << lines.segment_bits && u64::from(pool.unused) <= all;
        let is_whole = pool.unused.is_multiple_of(1 << lines.piece_bits);
        if !is_part || !is_whole || u32::try_from(all).is_err() {
            return None;
        }
        *lines.pool() = pool;
        Some(lines)
    }

    /// Returns the number of lines in pieces that were taken.
    pub(super) fn taken_count(&self) -> u32 {
        let pool = self.pool();
        (pool.segments << self.segment_bits) - pool.unused
    }

    /// Marks the lines that belong to no chain in `seen`, after a restore. Returns `None` if one
    /// was marked before, does not exist, or holds something.
    pub(super) fn mark_unused(&self, heap: &Heap, seen: &mut [bool]) -> Option<()> {
        let pool = self.pool();
        let mut mark = |number: u32| {
            let seen = seen.get_mut(number as usize)?;
            (!std::mem::replace(seen, true)).then(|| self.line(heap, number))
        };
        let end = pool.single_next.checked_add(pool.single_count)?;
        for number in pool.single_next..end {
            let line = mark(number)?;
            line.iter()
                .all(|word| word.load(Relaxed) == 0)
                .then_some(())?;
        }
        let (mut next, mut count) = (pool.free_first, 0);
        while let Some(number) = next {
            let line = mark(number)?;
            let slots = &line[SLOTS.start..LAST];
            slots
                .iter()
                .all(|word| word.load(Relaxed) == 0)
                .then_some(())?;
            let last = SlotWord(line[LAST].load(Relaxed));
            next = last.next_line();
            (next.is_some() || last == SlotWord::VACANT).then_some(())?;
            count += 1;
        }
        (count == pool.free_count).then_some(())
    }

    /// Returns the binary logarithm of the number of lines in a piece.
    #[inline(always)]
    pub(super) fn piece_bits(&self) -> u32 {
        self.piece_bits
    }

    /// Returns the maximum number of pieces.
    pub(super) fn pieces_max(&self) -> usize {
        self.segments.len() << (self.segment_bits - self.piece_bits)
    }

    pub(super) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.segments)
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of segments that the table has taken.
    pub(super) fn segment_count(&self) -> u32 {
        self.pool().segments
    }

    /// Returns the number of lines in chains, and in pieces for first lines of chains to come.
    pub(super) fn used_count(&self) -> u64 {
        let pool = self.pool();
        let taken = u64::from(pool.segments) << self.segment_bits;
        taken - u64::from(pool.unused + pool.free_count + pool.single_count)
    }

    /// Returns the number of a line's first word.
    #[inline(always)]
    pub(super) fn first_word(&self, line: u32) -> u64 {
        let segment = self.segments[(line >> self.segment_bits) as usize].load(Relaxed);
        let within = line & ((1 << self.segment_bits) - 1);
        segment + u64::from(within) * LINE as u64
    }

    #[inline(always)]
    pub(super) fn line<'h>(&self, heap: &'h Heap, line: u32) -> &'h Line {
        heap.memory().line(self.first_word(line))
    }

    /// Returns the next line of a chain.
    #[inline(always)]
    pub(super) fn after<'h>(&self, heap: &'h Heap, line: &Line) -> Option<&'h Line> {
        let next = SlotWord(line[LAST].load(Acquire)).next_line()?;
        Some(self.line(heap, next))
    }

    /// Takes adjacent zeroed lines, and returns the number of the first.
    pub(super) fn take_piece(&self, heap: &Heap, source: &dyn TakeSegment) -> Option<u32> {
        self.take_piece_from(heap, source, &mut self.pool())
    }

    fn take_piece_from(
        &self,
        heap: &Heap,
        source: &dyn TakeSegment,
        pool: &mut Pool,
    ) -> Option<u32> {
        if pool.unused == 0 {
            let first_word = self.segments.get(pool.segments as usize)?;
            let segment = source.take_for_table()?;
            heap.memory().reserve(segment);
            first_word.store(heap.memory().number(segment, 0), Relaxed);
            pool.segments += 1;
            pool.unused = 1 << self.segment_bits;
        }
        let first = (pool.segments << self.segment_bits) - pool.unused;
        pool.unused -= 1 << self.piece_bits;
        // A reader that still copies objects from here must see that the segment was freed before
        // it sees zeros.
        fence(Release);
        for line in first..first + (1 << self.piece_bits) {
            let words = self.line(heap, line);
            words.iter().for_each(|word| word.store(0, Relaxed));
        }
        Some(first)
    }

    /// Takes one zeroed line, which extends a chain.
    pub(super) fn take(&self, heap: &Heap, source: &dyn TakeSegment) -> Option<u32> {
        let mut pool = self.pool();
        if let Some(number) = pool.free_first {
            let line = self.line(heap, number);
            pool.free_first = SlotWord(line[LAST].load(Relaxed)).next_line();
            pool.free_count -= 1;
            line[0].store(0, Relaxed);
            line[LAST].store(SlotWord::VACANT.0, Release);
            return Some(number);
        }
        if pool.single_count == 0 {
            pool.single_next = self.take_piece_from(heap, source, &mut pool)?;
            pool.single_count = 1 << self.piece_bits;
        }
        pool.single_count -= 1;
        pool.single_next += 1;
        Some(pool.single_next - 1)
    }

    /// Frees a line that is in no chain and holds no object.
    pub(super) fn give_back(&self, heap: &Heap, number: u32) {
        let mut pool = self.pool();
        let next = pool.free_first.map_or(SlotWord::VACANT, SlotWord::link);
        self.line(heap, number)[LAST].store(next.0, Release);
        pool.free_first = Some(number);
        pool.free_count += 1;
    }

    /// Locks the pool. The caller holds the returned guard.
    #[cfg(test)]
    pub(super) fn held(&self) -> impl Sized + '_ {
        self.pool()
    }
}
