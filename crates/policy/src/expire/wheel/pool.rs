//! The memory of the wheel's references: chunks of 7, 15 or 63 of them, cut from pages of 1 KiB.
//!
//! A chunk is a run of 1, 2 or 8 *cells* of 8 words, aligned to its size:
//!
//! ```text
//! word 0        bits 0–25 the next chunk of the chain, bits 26–29 this chunk's ordinal
//! words 1..     references; the chunk is filled from its last word down to word 1
//! ```
//!
//! The *ordinal* is the position in its chain at which the chunk was added, up to [`ORDINAL_MAX`],
//! and determines its size: a bucket with few references pays 32 bytes, one with thousands 4.06
//! bytes per reference. Chunks are taken from the lowest page with room, so that pages at the end
//! fall empty. An empty page is returned to the allocator at once, except one that a large pool
//! keeps against thrashing.

use alloc::boxed::Box;
use alloc::vec::Vec;

/// Words of a cell.
const CELL_WORDS: usize = 8;
/// Cells per page: one bit each in a word.
const PAGE_CELLS: usize = 32;
/// Number of words in a page.
const PAGE_WORDS: usize = CELL_WORDS * PAGE_CELLS;
/// Bytes of a page.
const PAGE_BYTES: usize = PAGE_WORDS * size_of::<u32>();
/// With at least this number of pages, an additional empty page is kept.
const KEEPS_EMPTY: usize = 32;

/// Value of a word that holds no reference.
pub(super) const HOLE: u32 = u32::MAX;
/// Number of bits in a chunk's name.
pub(super) const CHUNK_BITS: u32 = 26;
/// Ordinal of a chunk in its chain; this value stands for all from the tenth on.
pub(super) const ORDINAL_MAX: u32 = 9;

/// Number of references in the largest chunk.
pub(super) const CAPACITY_MAX: u32 = 8 * CELL_WORDS as u32 - 1;

const NEXT_MASK: u32 = (1 << CHUNK_BITS) - 1;
const _: () = assert!(ORDINAL_MAX < 1 << (32 - CHUNK_BITS));

type Page = [u32; PAGE_WORDS];

/// The sizes of chunks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Size {
    Small,
    Middle,
    Large,
}

impl Size {
    /// Returns the size of a chunk: the first chunks of a chain are small. A larger size is used
    /// when it is at most half of the chain.
    fn of(ordinal: u32) -> Size {
        debug_assert!(ordinal <= ORDINAL_MAX);
        match ordinal {
            0 => Size::Small,
            ORDINAL_MAX => Size::Large,
            _ => Size::Middle,
        }
    }

    fn cells(self) -> u32 {
        match self {
            Size::Small => 1,
            Size::Middle => 2,
            Size::Large => 8,
        }
    }

    /// Returns the first cells of the free aligned runs of this size.
    fn runs(self, free: u32) -> u32 {
        let pairs = free & (free >> 1) & 0x5555_5555;
        match self {
            Size::Small => free,
            Size::Middle => pairs,
            Size::Large => {
                let fours = pairs & (pairs >> 2);
                fours & (fours >> 4) & 0x0101_0101
            }
        }
    }

    /// Returns the run to take. It prefers a run whose use does not split a larger one.
    fn best(self, free: u32) -> u32 {
        let runs = self.runs(free);
        let within_larger = match self {
            Size::Small => Size::Middle.runs(free) * 0b11,
            Size::Middle => Size::Large.runs(free) * 0b0101_0101,
            Size::Large => 0,
        };
        let apart = runs & !within_larger;
        (if apart == 0 { runs } else { apart }).trailing_zeros()
    }
}

/// Returns the number of references that a chunk of this ordinal holds.
#[inline]
pub(super) fn capacity(ordinal: u32) -> u32 {
    Size::of(ordinal).cells() * CELL_WORDS as u32 - 1
}

/// A set of page numbers that finds its smallest member quickly.
#[derive(Default)]
struct PageSet {
    words: Vec<u64>,
    /// Index of the first word that may have a bit set.
    lowest: usize,
}

impl PageSet {
    fn put(&mut self, page: usize, is_member: bool) {
        let (word, bit) = (page / 64, 1 << (page % 64));
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        if is_member {
            self.words[word] |= bit;
            self.lowest = self.lowest.min(word);
        } else {
            self.words[word] &= !bit;
        }
    }

    fn least(&mut self) -> Option<usize> {
        while let Some(&word) = self.words.get(self.lowest) {
            if word != 0 {
                return Some(self.lowest * 64 + word.trailing_zeros() as usize);
            }
            self.lowest += 1;
        }
        None
    }
}

/// All pages.
#[derive(Default)]
pub(super) struct Pool {
    pages: Vec<Option<Box<Page>>>,
    /// Free cells of each page; all ones for a page that was returned.
    free: Vec<u32>,
    /// Pages that have a free run of each size.
    with_run: [PageSet; 3],
    /// Numbers of the returned pages.
    returned: PageSet,
    page_count: usize,
    empty_count: usize,
    cell_count: usize,
    /// Number of cells that were ever freed.
    given_count: usize,
}

impl Pool {
    /// Takes a chunk of this ordinal. Its words are not cleared.
    pub(super) fn take(&mut self, ordinal: u32) -> u32 {
        let size = Size::of(ordinal);
        let page = match self.with_run[size as usize].least() {
            Some(page) => page,
            None => self.add_page(),
        };
        let free = self.free[page];
        let cell = size.best(free);
        let mask = (u32::MAX >> (32 - size.cells())) << cell;
        debug_assert!(free & mask == mask);
        self.empty_count -= usize::from(free == u32::MAX);
        self.cell_count += size.cells() as usize;
        self.set_free(page, free & !mask);
        let chunk = (page * PAGE_CELLS) as u32 + cell;
        self.set_header(chunk, chunk, ordinal);
        chunk
    }

    /// Frees a chunk.
    pub(super) fn give(&mut self, chunk: u32) {
        let cells = Size::of(self.ordinal(chunk)).cells();
        let (page, cell) = (chunk as usize / PAGE_CELLS, chunk % PAGE_CELLS as u32);
        let mask = (u32::MAX >> (32 - cells)) << cell;
        debug_assert!(self.free[page] & mask == 0, "given back twice");
        self.cell_count -= cells as usize;
        self.given_count += cells as usize;
        self.set_free(page, self.free[page] | mask);
        if self.free[page] == u32::MAX {
            if self.empty_count == 0 && self.page_count >= KEEPS_EMPTY {
                self.empty_count = 1;
            } else {
                self.return_page(page);
            }
        }
    }

    /// Moves a chunk to a lower page, if one has room, and returns its new name.
    pub(super) fn lower(&mut self, chunk: u32) -> Option<u32> {
        let ordinal = self.ordinal(chunk);
        let page = self.with_run[Size::of(ordinal) as usize].least()?;
        if page >= chunk as usize / PAGE_CELLS {
            return None;
        }
        let new = self.take(ordinal);
        for index in 0..=capacity(ordinal) {
            self.set_word(new, index, self.word(chunk, index));
        }
        self.give(chunk);
        Some(new)
    }

    fn set_free(&mut self, page: usize, free: u32) {
        let old = core::mem::replace(&mut self.free[page], free);
        for size in [Size::Small, Size::Middle, Size::Large] {
            let has_run = size.runs(free) != 0;
            if has_run != (size.runs(old) != 0) {
                self.with_run[size as usize].put(page, has_run);
            }
        }
    }

    fn add_page(&mut self) -> usize {
        let page = match self.returned.least() {
            Some(page) => {
                self.returned.put(page, false);
                page
            }
            None => {
                grow_by_eighth(&mut self.pages);
                grow_by_eighth(&mut self.free);
                self.pages.push(None);
                self.free.push(u32::MAX);
                self.pages.len() - 1
            }
        };
        assert!(
            page < 1 << (CHUNK_BITS - 5),
            "an index of over 400 million references"
        );
        self.pages[page] = Some(Box::new([0; PAGE_WORDS]));
        for set in &mut self.with_run {
            set.put(page, true);
        }
        self.page_count += 1;
        self.empty_count += 1;
        page
    }

    fn return_page(&mut self, page: usize) {
        self.pages[page] = None;
        self.page_count -= 1;
        for set in &mut self.with_run {
            set.put(page, false);
        }
        self.returned.put(page, true);
        while let Some(None) = self.pages.last() {
            self.pages.pop();
            self.free.pop();
            self.returned.put(self.pages.len(), false);
        }
        if self.pages.capacity() > 4 * self.pages.len() + 64 {
            self.pages.shrink_to(2 * self.pages.len());
            self.free.shrink_to(2 * self.pages.len());
        }
    }

    #[inline]
    fn page(&self, chunk: u32) -> &Page {
        self.pages[chunk as usize / PAGE_CELLS]
            .as_ref()
            .expect("a chunk that is in use lies in a page that is held")
    }

    #[inline]
    fn page_mut(&mut self, chunk: u32) -> &mut Page {
        self.pages[chunk as usize / PAGE_CELLS]
            .as_mut()
            .expect("a chunk that is in use lies in a page that is held")
    }

    /// Returns word `index` of a chunk; 0 is its header.
    #[inline]
    pub(super) fn word(&self, chunk: u32, index: u32) -> u32 {
        self.page(chunk)[offset(chunk, index)]
    }

    /// Stores word `index` of a chunk.
    #[inline]
    pub(super) fn set_word(&mut self, chunk: u32, index: u32, word: u32) {
        self.page_mut(chunk)[offset(chunk, index)] = word;
    }

    /// Returns the chunk after this one in its ring.
    #[inline]
    pub(super) fn next(&self, chunk: u32) -> u32 {
        self.word(chunk, 0) & NEXT_MASK
    }

    #[inline]
    pub(super) fn ordinal(&self, chunk: u32) -> u32 {
        self.word(chunk, 0) >> CHUNK_BITS
    }

    #[inline]
    pub(super) fn set_next(&mut self, chunk: u32, next: u32) {
        self.set_header(chunk, next, self.ordinal(chunk));
    }

    #[inline]
    fn set_header(&mut self, chunk: u32, next: u32, ordinal: u32) {
        debug_assert!(next <= NEXT_MASK);
        self.set_word(chunk, 0, next | ordinal << CHUNK_BITS);
    }

    /// Number of cells in use.
    pub(super) fn cell_count(&self) -> usize {
        self.cell_count
    }

    /// Number of cells that were ever freed.
    pub(super) fn given_count(&self) -> usize {
        self.given_count
    }

    /// Whether the chunks would fit in fewer pages, with a sixteenth to spare.
    pub(super) fn is_sparse(&self) -> bool {
        (self.cell_count + self.cell_count / 16).div_ceil(PAGE_CELLS) < self.page_count
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let sets = self.with_run.iter().chain([&self.returned]);
        self.page_count * PAGE_BYTES
            + self.pages.capacity() * size_of::<Option<Box<Page>>>()
            + self.free.capacity() * size_of::<u32>()
            + sets
                .map(|set| set.words.capacity() * size_of::<u64>())
                .sum::<usize>()
    }

    /// Panics if the counts are inconsistent with the pages.
    pub(super) fn check(&self) {
        let held = self.pages.iter().filter(|page| page.is_some()).count();
        assert_eq!(held, self.page_count);
        let used = self
            .free
            .iter()
            .map(|free| free.count_zeros() as usize)
            .sum::<usize>();
        assert_eq!(used, self.cell_count);
        let mut empty = 0;
        for (page, held) in self.pages.iter().enumerate() {
            assert!(held.is_some() || self.free[page] == u32::MAX);
            empty += usize::from(held.is_some() && self.free[page] == u32::MAX);
        }
        assert_eq!(empty, self.empty_count);
        assert!(empty <= 1, "at most one empty page is kept");
    }
}

#[inline]
fn offset(chunk: u32, index: u32) -> usize {
    (chunk as usize * CELL_WORDS + index as usize) % PAGE_WORDS
}

/// Makes room for one more item without the doubling that would leave half of the directory unused.
fn grow_by_eighth<T>(items: &mut Vec<T>) {
    if items.len() == items.capacity() {
        items.reserve_exact(items.len() / 8 + 4);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_do_not_overlap_and_empty_pages_are_freed() {
        let mut pool = Pool::default();
        let mut random = 1_u64;
        let mut held: Vec<u32> = Vec::new();
        for round in 0..20_000_u32 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let pick = (random >> 33) as usize;
            let grows = (round / 4_000).is_multiple_of(2);
            if held.is_empty() || pick % 10 < if grows { 7 } else { 3 } {
                let chunk = pool.take((pick / 10) as u32 % (ORDINAL_MAX + 1));
                for index in 1..=capacity(pool.ordinal(chunk)) {
                    pool.set_word(chunk, index, chunk);
                }
                held.push(chunk);
            } else {
                let chunk = held.swap_remove(pick % held.len());
                for index in 1..=capacity(pool.ordinal(chunk)) {
                    assert_eq!(pool.word(chunk, index), chunk, "another chunk wrote here");
                }
                pool.give(chunk);
            }
            if round % 64 == 0 {
                pool.check();
            }
        }
        held.drain(..).for_each(|chunk| pool.give(chunk));
        pool.check();
        assert!(pool.page_count <= 1);
    }

    #[test]
    fn small_chunks_fill_gaps_before_they_break_runs() {
        let mut pool = Pool::default();
        let small = pool.take(0);
        let large = pool.take(ORDINAL_MAX);
        let middle = pool.take(1);
        assert_eq!((small, large, middle), (0, 8, 2));
        assert_eq!(pool.take(0), 1);
        pool.give(large);
        assert_eq!(pool.take(1), 4, "not within the free run of eight");
    }
}
