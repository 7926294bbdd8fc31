//! The hash table: chains of cache lines, read without locks, growing by one chain at a time.
//!
//! Lines are taken from segments of the heap, a *piece* of some hundred lines at a time, for the first lines
//! of chains; the further lines of chains one by one. Memory that the table has taken it keeps.
//!
//! # Growth
//! Linear hashing: with `n` chains, `p` the largest power of two up to `n`, a key's chain is its hash modulo
//! `2p`, or modulo `p` where that chain is not there yet. When there are more than [`LOAD`] objects a chain,
//! chain `n - p` is split in two. So the table never doubles at once, and no number of objects costs more
//! than its neighbour. A split inserts the objects in their new chain, publishes `n + 1`, and then clears
//! them in the old one: a reader who has not found a key looks whether its chain is another one by now.
//!
//! # Why a reader finds what is there
//! An object changes its slot only when a chain is prolonged (slot 7 of the last line becomes the way to the
//! next line, which holds the object already), when a chain is split, and when the last line is emptied into
//! earlier ones (`chain.rs`). After the latter two a reader who found nothing sees that he must look again:
//! the key belongs to another chain, or the chain's `cas` has gone up. A line leaves a chain only from its
//! end, and empty; a reader who is still in it goes on in whatever chain it belongs to next, and meets objects
//! of strangers, whose keys differ.

use crate::storage::chain::{CHAIN_MAX, Chain};
use crate::storage::heap::{Heap, Place};
use crate::storage::hint::prefetch;
use crate::storage::line::{
    ACCESS_MASK, ACCESS_SHIFT, CAS_SHIFT, COUNTED, LAST, LOCK, Line, SLOTS, Slot, first_of, likely,
    slots_of,
};
use crate::storage::words::LINE;
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{AtomicU64, fence};
use crate::sync::{Mutex, MutexGuard, spin_loop};
use std::sync::PoisonError;

/// Objects in a chain, the mean at which the table grows. Bytes of the table by object are 64 / LOAD times
/// the lines of a chain, which is 12.3 at 10 and nearly flat around it; a hit looks at 1.4 lines.
const LOAD: u64 = 10;
/// Lines in a piece of the directory of chains.
const PIECE_LINES: u32 = 256;

/// A slot of a line that was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell<'t> {
    pub(crate) line: &'t Line,
    pub(crate) index: usize,
    pub(crate) slot: Slot,
}

impl Cell<'_> {
    /// What it holds by now.
    #[inline(always)]
    pub(crate) fn reload(&self) -> Slot {
        Slot(self.line[self.index].load(Acquire))
    }

    /// The second in which an object of this line was last asked for, without what does not fit.
    #[inline(always)]
    pub(crate) fn accessed(&self) -> u16 {
        (self.line[0].load(Relaxed) >> ACCESS_SHIFT) as u16
    }

    /// Counts a request, once a second.
    #[inline(always)]
    pub(crate) fn count(
        &self,
        second: u64,
        frequency_after: impl FnOnce(u8) -> Option<u8>,
    ) -> bool {
        let info = self.line[0].load(Relaxed);
        let access = second << ACCESS_SHIFT & ACCESS_MASK;
        let bit = 1 << self.index;
        let is_this_second = info & ACCESS_MASK == access;
        if is_this_second && info & bit != 0 {
            return false;
        }
        let counted = if is_this_second { info & COUNTED } else { 0 };
        let next = info & !(ACCESS_MASK | COUNTED) | access | counted | bit;
        // Who loses a race loses a count: nothing waits here.
        let won = self.line[0].compare_exchange(info, next, Relaxed, Relaxed);
        if won.is_ok()
            && let Some(frequency) = frequency_after(self.slot.frequency())
        {
            let next = self.slot.with_frequency(frequency).0;
            let _lost = self.line[self.index].compare_exchange(self.slot.0, next, Relaxed, Relaxed);
        }
        won.is_ok()
    }
}

/// A reader's way through the chain of a hash: the objects with its tag, without a lock.
#[derive(Debug)]
pub(crate) struct Search<'h> {
    table: &'h Table,
    heap: &'h Heap,
    hash: u64,
    chain: u64,
    first: &'h Line,
    /// What the chain's `cas` was before any object was looked at.
    pub(crate) cas: u32,
    line: &'h Line,
    /// The slots of the line that are still to be looked at.
    likely: u32,
    /// Lines that were left behind.
    lines: usize,
}

impl<'h> Search<'h> {
    #[inline(always)]
    pub(crate) fn new(table: &'h Table, heap: &'h Heap, hash: u64) -> Self {
        let chain = Table::chain_of(hash, table.chains.load(Acquire));
        let first = table.first_line(heap, chain);
        let cas = Table::cas_of(first);
        Search {
            table,
            heap,
            hash,
            chain,
            first,
            cas,
            line: first,
            likely: likely(first, hash),
            lines: 0,
        }
    }

    /// The object of a slot was no longer there: the slot is looked at once more.
    pub(crate) fn again(&mut self, cell: &Cell<'_>) {
        self.likely |= 1 << (cell.index - SLOTS.start);
        spin_loop();
    }

    /// Comes to the next line with a slot to look at; false at the end.
    #[inline]
    fn advance(&mut self) -> bool {
        while self.likely == 0 {
            let next = Slot(self.line[LAST].load(Acquire)).next_line();
            if let Some(next) = next
                && self.lines < CHAIN_MAX
            {
                self.line = self.table.line(self.heap, next);
                self.likely = likely(self.line, self.hash);
                self.lines += 1;
                continue;
            }
            // Where a split has moved it meanwhile, or the chain was shortened, or went on into another's
            // lines, it is looked for again.
            let chain = Table::chain_of(self.hash, self.table.chains.load(Acquire));
            let is_same = chain == self.chain && Table::cas_of(self.first) == self.cas;
            if next.is_none() && is_same {
                return false;
            }
            *self = Search::new(self.table, self.heap, self.hash);
        }
        true
    }
}

impl<'h> Iterator for Search<'h> {
    type Item = Cell<'h>;

    #[inline(always)]
    fn next(&mut self) -> Option<Cell<'h>> {
        loop {
            if self.likely == 0 && !self.advance() {
                return None;
            }
            let (line, index) = (self.line, first_of(self.likely));
            self.likely &= self.likely - 1;
            let slot = Slot(line[index].load(Acquire));
            if slot.has_tag_of(self.hash) {
                return Some(Cell { line, index, slot });
            }
        }
    }
}

/// Lines that belong to no chain.
#[derive(Debug, Default)]
struct Pool {
    /// How many segments the table has, and lines of the last that nobody has.
    segments: u32,
    unused: u32,
    /// Lines given back, linked as a chain is: a reader who is still in one finds nothing, and an end.
    free_first: Option<u32>,
    free_count: u32,
    /// A piece that was begun for single lines: the next one, and how many.
    single_next: u32,
    single_count: u32,
}

/// The table.
#[derive(Debug)]
pub(crate) struct Table {
    /// How many chains there are.
    chains: AtomicU64,
    /// By piece of the directory of chains, the number of its first word; 0 where it is not there yet.
    pieces: Box<[AtomicU64]>,
    /// The numbers of the first words of the segments whose lines these are.
    segments: Box<[AtomicU64]>,
    /// Held by whoever splits a chain.
    split: Mutex<()>,
    pool: Mutex<Pool>,
    piece_bits: u32,
    segment_bits: u32,
}

impl Table {
    /// A table of as many chains as fit a piece; `None` when the heap has no segment for it.
    pub(crate) fn new(heap: &Heap) -> Option<Self> {
        let segment_lines = heap.capacity / LINE as u32;
        debug_assert!(segment_lines.is_power_of_two());
        let piece_lines = PIECE_LINES.min(segment_lines);
        let pieces = u64::from(heap.count()) * u64::from(segment_lines / piece_lines);
        let zeros = |count: u64| (0..count).map(|_| AtomicU64::new(0)).collect();
        let table = Table {
            chains: AtomicU64::new(0),
            pieces: zeros(pieces),
            segments: zeros(u64::from(heap.count())),
            split: Mutex::new(()),
            pool: Mutex::default(),
            piece_bits: piece_lines.trailing_zeros(),
            segment_bits: segment_lines.trailing_zeros(),
        };
        let first = table.take_piece(heap, &mut table.pool())?;
        table.pieces[0].store(table.number_of(first), Relaxed);
        table.chains.store(u64::from(piece_lines), Release);
        Some(table)
    }

    /// Bytes of the directory.
    pub(crate) fn directory_bytes(&self) -> usize {
        (self.pieces.len() + self.segments.len()) * size_of::<AtomicU64>()
    }

    /// How many chains there are.
    pub(crate) fn chain_count(&self) -> u64 {
        self.chains.load(Acquire)
    }

    /// Segments that the table has taken.
    pub(crate) fn segment_count(&self) -> u32 {
        self.pool().segments
    }

    /// Lines given to chains.
    pub(crate) fn line_count(&self) -> u64 {
        let pool = self.pool();
        let taken = u64::from(pool.segments) << self.segment_bits;
        taken - u64::from(pool.unused + pool.free_count + pool.single_count)
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline(always)]
    pub(crate) fn line<'h>(&self, heap: &'h Heap, line: u32) -> &'h Line {
        heap.memory().line(self.number_of(line))
    }

    /// The chain of a hash when there are this many.
    #[inline(always)]
    fn chain_of(hash: u64, chains: u64) -> u64 {
        let mask = u64::MAX >> (chains | 1).leading_zeros();
        let chain = hash & mask;
        if chain < chains {
            chain
        } else {
            chain & (mask >> 1)
        }
    }

    #[inline(always)]
    fn first_line<'h>(&self, heap: &'h Heap, chain: u64) -> &'h Line {
        let piece = self.pieces[(chain >> self.piece_bits) as usize].load(Relaxed);
        let within = chain & ((1 << self.piece_bits) - 1);
        heap.memory().line(piece + within * LINE as u64)
    }

    /// The number of a line's first word.
    #[inline(always)]
    fn number_of(&self, line: u32) -> u64 {
        let segment = self.segments[(line >> self.segment_bits) as usize].load(Relaxed);
        let within = line & ((1 << self.segment_bits) - 1);
        segment + u64::from(within) * LINE as u64
    }

    /// The first line of a key's chain: to ask for it early.
    #[inline(always)]
    pub(crate) fn line_of<'h>(&self, heap: &'h Heap, hash: u64) -> &'h Line {
        self.first_line(heap, Table::chain_of(hash, self.chains.load(Acquire)))
    }

    /// Where the first line of a chain has an object with the tag of this hash: to ask for it early.
    #[inline(always)]
    pub(crate) fn likely_in(line: &Line, hash: u64) -> Option<Place> {
        let mut slots = slots_of(likely(line, hash)).map(|index| Slot(line[index].load(Relaxed)));
        slots.find(|slot| slot.has_tag_of(hash)).map(Slot::place)
    }

    /// The next line of the chain of which this is one, where there is one: to ask for it early.
    #[inline(always)]
    pub(crate) fn line_after<'h>(&self, heap: &'h Heap, line: &Line) -> Option<&'h Line> {
        let next = Slot(line[LAST].load(Acquire)).next_line()?;
        Some(self.line(heap, next))
    }

    /// The number that a chain's `cas` is at; taken before its objects are read.
    #[inline(always)]
    pub(crate) fn cas_of(line: &Line) -> u32 {
        (line[0].load(Acquire) >> CAS_SHIFT) as u32
    }

    /// Locks the chain of a hash against other writers.
    pub(crate) fn lock<'t>(&'t self, heap: &'t Heap, hash: u64) -> Chain<'t> {
        loop {
            let number = Table::chain_of(hash, self.chains.load(Acquire));
            let chain = self.lock_chain(heap, number);
            if Table::chain_of(hash, self.chains.load(Acquire)) == number {
                return chain;
            }
        }
    }

    fn lock_chain<'t>(&'t self, heap: &'t Heap, number: u64) -> Chain<'t> {
        let first = self.first_line(heap, number);
        loop {
            let info = first[0].load(Relaxed);
            let is_free = info & LOCK == 0;
            if is_free
                && first[0]
                    .compare_exchange_weak(info, info | LOCK, Acquire, Relaxed)
                    .is_ok()
            {
                break;
            }
            spin_loop();
        }
        Chain::locked(self, heap, first)
    }

    /// Whether there are too many objects for the chains.
    #[inline]
    pub(crate) fn is_crowded(&self, items: u64) -> bool {
        items > LOAD * self.chains.load(Relaxed)
    }

    /// Splits one chain, unless somebody does already or there is no memory for it.
    pub(crate) fn grow(&self, heap: &Heap, hash_at: impl Fn(Slot) -> u64) -> bool {
        let Ok(_guard) = self.split.try_lock() else {
            return false;
        };
        let chains = self.chains.load(Acquire);
        let Some(new_first) = self.line_of_new(heap, chains) else {
            return false;
        };
        let old_number = chains - (1 << chains.ilog2());
        let mut old = self.lock_chain(heap, old_number);
        // A later `cas` than any that was told for the objects that move.
        let cas = u64::from(old.cas().wrapping_add(1));
        // Whom of the line the last request was for is not known: for either part it may have been.
        let access = self.first_line(heap, old_number)[0].load(Relaxed) & ACCESS_MASK;
        new_first[0].store(cas << CAS_SHIFT | access | LOCK, Release);
        let mut new = Chain::locked(self, heap, new_first);
        // All objects are asked for before the first key is hashed again: none is waited for by itself.
        let objects = old.cells().filter_map(|cell| heap.words(cell.slot.place()));
        objects.for_each(|words| prefetch(&words[0]));
        let mut moving = [None; CHAIN_MAX * SLOTS.end];
        let mut count = 0;
        let mut is_whole = true;
        for cell in old.cells() {
            if Table::chain_of(hash_at(cell.slot), chains + 1) == chains {
                is_whole &= new.insert(cell.slot);
                moving[count] = Some(cell);
                count += 1;
            }
        }
        if !is_whole {
            // No line for the new chain: it is taken down again, and nobody has seen it.
            let cells: Vec<Cell<'_>> = new.cells().collect();
            cells.into_iter().for_each(|cell| new.clear(cell));
            new.shorten();
            return false;
        }
        drop(new);
        self.chains.store(chains + 1, Release);
        for cell in moving.into_iter().flatten() {
            old.clear(cell);
        }
        old.shorten();
        true
    }

    /// The zeroed first line of the chain of this number, where memory can be had.
    fn line_of_new<'h>(&self, heap: &'h Heap, chain: u64) -> Option<&'h Line> {
        let piece = (chain >> self.piece_bits) as usize;
        let begins = self.pieces.get(piece)?;
        if begins.load(Relaxed) == 0 {
            let first = self.take_piece(heap, &mut self.pool())?;
            begins.store(self.number_of(first), Relaxed);
        }
        Some(self.first_line(heap, chain))
    }

    /// Zeroed lines side by side.
    fn take_piece(&self, heap: &Heap, pool: &mut Pool) -> Option<u32> {
        if pool.unused == 0 {
            let slot = self.segments.get(pool.segments as usize)?;
            let segment = {
                let mut chains = heap.chains();
                let segment = chains.take_for_table()?;
                heap.tell_free(&chains);
                segment
            };
            heap.memory().reserve(segment);
            slot.store(heap.memory().number(segment, 0), Relaxed);
            pool.segments += 1;
            pool.unused = 1 << self.segment_bits;
        }
        let first = (pool.segments << self.segment_bits) - pool.unused;
        pool.unused -= 1 << self.piece_bits;
        // Who still reads objects here sees that the segment was given back, before he sees zeros.
        fence(Release);
        for line in first..first + (1 << self.piece_bits) {
            self.line(heap, line)
                .iter()
                .for_each(|word| word.store(0, Relaxed));
        }
        Some(first)
    }

    /// One zeroed line that continues a chain.
    pub(crate) fn take_line(&self, heap: &Heap) -> Option<u32> {
        let mut pool = self.pool();
        if let Some(number) = pool.free_first {
            let line = self.line(heap, number);
            pool.free_first = Slot(line[LAST].load(Relaxed)).next_line();
            pool.free_count -= 1;
            line[0].store(0, Relaxed);
            line[LAST].store(Slot::VACANT.0, Release);
            return Some(number);
        }
        if pool.single_count == 0 {
            pool.single_next = self.take_piece(heap, &mut pool)?;
            pool.single_count = 1 << self.piece_bits;
        }
        pool.single_count -= 1;
        pool.single_next += 1;
        Some(pool.single_next - 1)
    }

    /// Takes back a line that is in no chain any more and holds no object.
    pub(crate) fn give_line(&self, heap: &Heap, number: u32) {
        let mut pool = self.pool();
        let next = pool.free_first.map_or(Slot::VACANT, Slot::chain);
        self.line(heap, number)[LAST].store(next.0, Release);
        pool.free_first = Some(number);
        pool.free_count += 1;
    }

    /// The number of a hash's chain.
    pub(crate) fn chain_number(&self, hash: u64) -> u64 {
        Table::chain_of(hash, self.chain_count())
    }

    /// All locks but those of the chains.
    #[cfg(test)]
    pub(crate) fn held(&self) -> impl Sized + '_ {
        (self.split.lock(), self.pool())
    }

    /// Every chain, locked in turn: for checks.
    pub(crate) fn locked_chains<'t>(&'t self, heap: &'t Heap) -> impl Iterator<Item = Chain<'t>> {
        (0..self.chain_count()).map(move |number| self.lock_chain(heap, number))
    }
}
