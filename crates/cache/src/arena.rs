//! An arena of blocks measured in 8-byte granules. A 4-byte slot names a block.
//!
//! ```text
//! slot (32 bits)   page number (17) | granule within the page (15)
//! page             256 KiB of granules, and one bit per granule: "a live block starts here"
//! free block       granules << 4 (u32) | next free block (u32) | previous free block (u32)
//!                  its low 4 bits, which hold the kind of a live entry, are 0
//! ```
//!
//! Free blocks are kept in one list per size in granules. A new block is taken from the list of its
//! own size, else from the end of the open page, else split off a larger free block, else from a
//! new page. A page without live blocks is returned to the allocator.
//!
//! Free neighbours are not merged. When more than a tenth of the arena is free,
//! [`Arena::close_sparsest`] chooses a page, and the host moves its blocks elsewhere. A
//! general-purpose allocator cannot do this, because it cannot move what it has allocated.
//!
//! [`Arena::is_live`] accepts any `u32`, so that stale references can be detected.

/// Bytes in a granule.
pub const GRANULE: usize = 8;
/// Size of the smallest block in granules. A free block needs 12 bytes for its list links.
pub const BLOCK_MIN: usize = 2;
/// Size of the largest block in granules (2 KiB). Larger values are stored outside the arena.
pub const BLOCK_MAX: usize = 256;
const PAGE_BITS: u32 = 15;
const PAGE_GRANULES: usize = 1 << PAGE_BITS;
/// Bytes in a page.
pub const PAGE_BYTES: usize = PAGE_GRANULES * GRANULE;
/// Number of 64-bit words with one bit per granule of a page.
pub(crate) const PAGE_WORDS: usize = PAGE_GRANULES / 64;
const NONE: u32 = u32::MAX;

struct Page {
    /// Memory of the page, `PAGE_BYTES` long; empty while the page number is unused.
    bytes: Box<[u8]>,
    starts: Box<[u64]>,
    live_granules: u32,
    /// Number of granules allocated from the front of the page so far, live or free.
    opened: u32,
    /// Whether the page is being emptied. Nothing is allocated in a closed page.
    is_closed: bool,
}

/// Blocks of 2 to 256 granules in pages of 256 KiB, with exact accounting of live and free bytes.
pub struct Arena {
    pages: Vec<Page>,
    vacant: Vec<u32>,
    open: Option<u32>,
    lists: Box<[u32; BLOCK_MAX + 1]>,
    /// Bit `n` is set if the list of blocks of `n` granules is not empty.
    non_empty: [u64; BLOCK_MAX / 64 + 1],
    live_granules: u64,
    opened_granules: u64,
}

impl Default for Arena {
    fn default() -> Self {
        Arena {
            pages: Vec::new(),
            vacant: Vec::new(),
            open: None,
            lists: Box::new([NONE; BLOCK_MAX + 1]),
            non_empty: [0; BLOCK_MAX / 64 + 1],
            live_granules: 0,
            opened_granules: 0,
        }
    }
}

#[inline]
fn split(slot: u32) -> (usize, usize) {
    (
        (slot >> PAGE_BITS) as usize,
        slot as usize & (PAGE_GRANULES - 1),
    )
}

impl Arena {
    /// Returns the number of granules that `bytes` need.
    #[inline]
    pub fn granules(bytes: usize) -> usize {
        bytes.div_ceil(GRANULE).max(BLOCK_MIN)
    }

    /// Returns whether a live block starts at `slot`, which may be any number.
    #[inline]
    pub fn is_live(&self, slot: u32) -> bool {
        let (page, granule) = split(slot);
        self.pages
            .get(page)
            .and_then(|p| p.starts.get(granule / 64))
            .is_some_and(|word| word >> (granule % 64) & 1 == 1)
    }

    /// Returns the bytes from the start of a block to the end of its page.
    #[inline]
    pub fn from(&self, slot: u32) -> &[u8] {
        debug_assert!((slot >> PAGE_BITS) < self.pages.len() as u32);
        let (page, granule) = split(slot);
        &self.pages[page].bytes[granule * GRANULE..]
    }

    /// Returns the bytes from the start of a block to the end of its page, for writing.
    #[inline]
    pub fn from_mut(&mut self, slot: u32) -> &mut [u8] {
        let (page, granule) = split(slot);
        &mut self.pages[page].bytes[granule * GRANULE..]
    }

    /// Prefetches the first cache line of a block, and the next one if a small block may reach into
    /// it.
    #[inline]
    pub fn prefetch(&self, slot: u32) {
        let (page, granule) = split(slot);
        if let Some(page) = self.pages.get(page) {
            let at = granule * GRANULE;
            for at in [at, at + 24] {
                page.bytes
                    .get(at)
                    .into_iter()
                    .for_each(crate::prefetch::prefetch);
            }
        }
    }

    /// Allocates a block of `granules`, with undefined content. Returns `None` when no slot is left
    /// (32 GiB).
    pub fn allocate(&mut self, granules: usize) -> Option<u32> {
        assert!((BLOCK_MIN..=BLOCK_MAX).contains(&granules));
        let slot = match self.lists[granules] {
            NONE => self.allocate_elsewhere(granules)?,
            slot => {
                self.unlist(slot, granules);
                slot
            }
        };
        let (page, granule) = split(slot);
        let page = &mut self.pages[page];
        page.starts[granule / 64] |= 1 << (granule % 64);
        page.live_granules += granules as u32;
        self.live_granules += granules as u64;
        Some(slot)
    }

    fn allocate_elsewhere(&mut self, granules: usize) -> Option<u32> {
        if let Some(slot) = self.take_from_open(granules) {
            return Some(slot);
        }
        if let Some(size) = self.list_from(granules + 1) {
            let slot = self.lists[size];
            self.unlist(slot, size);
            self.list_free(slot + granules as u32, size - granules);
            return Some(slot);
        }
        self.open_page()?;
        self.take_from_open(granules)
    }

    fn take_from_open(&mut self, granules: usize) -> Option<u32> {
        debug_assert!((BLOCK_MIN..=BLOCK_MAX).contains(&granules));
        let number = self.open?;
        let page = &mut self.pages[number as usize];
        let at = page.opened;
        let left = PAGE_GRANULES - at as usize;
        if left >= granules {
            page.opened += granules as u32;
            self.opened_granules += granules as u64;
            return Some(number << PAGE_BITS | at);
        }
        // What is left of the page is smaller than the largest block and becomes a free block.
        page.opened = PAGE_GRANULES as u32;
        self.opened_granules += left as u64;
        self.open = None;
        if left > 0 {
            self.list_free(number << PAGE_BITS | at, left);
        }
        self.release_if_empty(number);
        None
    }

    fn open_page(&mut self) -> Option<()> {
        assert!(self.open.is_none(), "the open page must be used up first");
        let number = match self.vacant.pop() {
            Some(number) => number,
            None if self.pages.len() < 1 << (32 - PAGE_BITS) => {
                self.pages.push(Page {
                    bytes: Box::default(),
                    starts: Box::default(),
                    live_granules: 0,
                    opened: 0,
                    is_closed: false,
                });
                self.pages.len() as u32 - 1
            }
            None => return None,
        };
        self.pages[number as usize] = Page {
            // Zeroed memory is not resident until it is written, so an unused part of a page costs
            // nothing.
            bytes: vec![0; PAGE_BYTES].into_boxed_slice(),
            starts: vec![0; PAGE_WORDS].into_boxed_slice(),
            live_granules: 0,
            opened: 0,
            is_closed: false,
        };
        self.open = Some(number);
        Some(())
    }

    /// Frees a live block of `granules`.
    pub fn free(&mut self, slot: u32, granules: usize) {
        debug_assert!(self.is_live(slot));
        debug_assert!((BLOCK_MIN..=BLOCK_MAX).contains(&granules));
        let (number, granule) = split(slot);
        let page = &mut self.pages[number];
        page.starts[granule / 64] &= !(1 << (granule % 64));
        page.live_granules -= granules as u32;
        self.live_granules -= granules as u64;
        if page.is_closed {
            self.write_free(slot, granules);
        } else {
            self.list_free(slot, granules);
        }
        self.release_if_empty(number as u32);
    }

    fn release_if_empty(&mut self, number: u32) {
        let page = &self.pages[number as usize];
        if page.live_granules > 0 || self.open == Some(number) || page.bytes.is_empty() {
            return;
        }
        if !page.is_closed {
            self.unlist_page(number, |_| unreachable!("no block of this page is live"));
        }
        let page = &mut self.pages[number as usize];
        self.opened_granules -= u64::from(page.opened);
        page.bytes = Box::default();
        page.starts = Box::default();
        page.opened = 0;
        page.is_closed = false;
        self.vacant.push(number);
    }

    fn word(&self, slot: u32, index: usize) -> u32 {
        let bytes = &self.from(slot)[index * 4..index * 4 + 4];
        u32::from_le_bytes(bytes.try_into().expect("four bytes"))
    }

    fn set_word(&mut self, slot: u32, index: usize, value: u32) {
        self.from_mut(slot)[index * 4..index * 4 + 4].copy_from_slice(&value.to_le_bytes());
    }

    fn write_free(&mut self, slot: u32, granules: usize) {
        self.set_word(slot, 0, (granules as u32) << 4);
    }

    fn list_free(&mut self, slot: u32, granules: usize) {
        debug_assert!(!self.is_live(slot));
        debug_assert!(granules <= BLOCK_MAX);
        self.write_free(slot, granules);
        if granules < BLOCK_MIN {
            return; // A lone granule waits until its page is emptied.
        }
        let head = self.lists[granules];
        self.set_word(slot, 1, head);
        self.set_word(slot, 2, NONE);
        if head != NONE {
            self.set_word(head, 2, slot);
        }
        self.lists[granules] = slot;
        self.non_empty[granules / 64] |= 1 << (granules % 64);
    }

    fn unlist(&mut self, slot: u32, granules: usize) {
        debug_assert!(!self.is_live(slot));
        debug_assert!(granules >= BLOCK_MIN);
        let (next, previous) = (self.word(slot, 1), self.word(slot, 2));
        if next != NONE {
            self.set_word(next, 2, previous);
        }
        if previous != NONE {
            self.set_word(previous, 1, next);
        } else {
            self.lists[granules] = next;
            if next == NONE {
                self.non_empty[granules / 64] &= !(1 << (granules % 64));
            }
        }
    }

    /// Returns the smallest size of at least `granules` whose list is not empty.
    fn list_from(&self, granules: usize) -> Option<usize> {
        if granules > BLOCK_MAX {
            return None;
        }
        let mut word = granules / 64;
        let mut bits = self.non_empty[word] & (!0 << (granules % 64));
        loop {
            if bits != 0 {
                return Some(word * 64 + bits.trailing_zeros() as usize);
            }
            word += 1;
            bits = *self.non_empty.get(word)?;
        }
    }

    /// Removes the free blocks of a page from the lists, at most 16 Ki of them. `size_of` returns
    /// the size of a live block in granules.
    fn unlist_page(&mut self, number: u32, size_of: impl Fn(&[u8]) -> usize) {
        let mut granule = 0;
        while granule < self.pages[number as usize].opened {
            let slot = number << PAGE_BITS | granule;
            let granules = if self.is_live(slot) {
                size_of(self.from(slot))
            } else {
                let granules = (self.word(slot, 0) >> 4) as usize;
                if granules >= BLOCK_MIN {
                    self.unlist(slot, granules);
                }
                granules
            };
            assert!(granules > 0, "blocks follow each other without a gap");
            granule += granules as u32;
        }
    }

    /// Returns whether there is enough free memory for emptying a page: more than a tenth of the
    /// arena and more than two pages.
    pub fn is_sparse(&self) -> bool {
        let free = self.opened_granules - self.live_granules;
        free > self.opened_granules / 10 && free > 2 * PAGE_GRANULES as u64
    }

    /// Chooses the page with the fewest live granules, closes it for allocation so that the host
    /// can empty it, and returns its number. Returns `None` if more than seven eighths are live,
    /// because moving the blocks would then cost more than it frees.
    ///
    /// Costs a check of one counter per page (256 KiB each) and a walk through one page.
    pub fn close_sparsest(&mut self, size_of: impl Fn(&[u8]) -> usize) -> Option<u32> {
        let candidates = self.pages.iter().enumerate();
        let (number, _) = candidates
            .filter(|(i, p)| !p.bytes.is_empty() && !p.is_closed && self.open != Some(*i as u32))
            .min_by_key(|(_, p)| p.live_granules)
            .filter(|(_, p)| p.live_granules <= p.opened / 8 * 7)?;
        let number = number as u32;
        assert_ne!(self.open, Some(number));
        self.unlist_page(number, size_of);
        self.pages[number as usize].is_closed = true;
        Some(number)
    }

    /// Returns whether a slot lies in a page that is being emptied.
    pub fn is_closed(&self, slot: u32) -> bool {
        let (page, _) = split(slot);
        self.pages.get(page).is_some_and(|page| page.is_closed)
    }

    /// Frees up to `count` pages with all their blocks, and returns whether any pages are left. The
    /// arena must not be used for anything else afterwards.
    pub fn dismantle(&mut self, count: usize) -> bool {
        let keep = self.pages.len().saturating_sub(count);
        self.pages.truncate(keep);
        keep > 0
    }

    /// Returns the first live block of a page at or after `slot`; `None` at the end of the page.
    pub fn next_live(&self, slot: u32) -> Option<u32> {
        let (number, granule) = split(slot);
        let page = self.pages.get(number)?;
        let mut word = granule / 64;
        let mut bits = *page.starts.get(word)? & (!0 << (granule % 64));
        while bits == 0 {
            word += 1;
            bits = *page.starts.get(word)?;
        }
        let granule = word * 64 + bits.trailing_zeros() as usize;
        Some((number << PAGE_BITS | granule) as u32)
    }

    /// Returns the first slot of page `number`; `None` past the last page.
    pub fn page_start(&self, number: u32) -> Option<u32> {
        ((number as usize) < self.pages.len()).then_some(number << PAGE_BITS)
    }

    /// Returns the page number of a slot.
    pub fn page_of(slot: u32) -> u32 {
        slot >> PAGE_BITS
    }

    /// Returns the granule within its page at which a slot's block starts.
    pub(crate) fn granule_of(slot: u32) -> usize {
        split(slot).1
    }

    /// Returns the slot of a granule in a page.
    pub(crate) fn slot(page: u32, granule: usize) -> u32 {
        page << PAGE_BITS | granule as u32
    }

    /// Returns the number of pages, including unused ones.
    pub(crate) fn page_count(&self) -> u32 {
        self.pages.len() as u32
    }

    /// Returns one bit per granule of a page, set where a live block starts. Returns `None` for an
    /// unused page.
    pub(crate) fn starts(&self, page: u32) -> Option<&[u64]> {
        let page = self.pages.get(page as usize)?;
        (!page.starts.is_empty()).then_some(&page.starts[..])
    }

    /// Copies the bytes of one block to another.
    pub fn copy(&mut self, from: u32, to: u32, granules: usize) {
        debug_assert_ne!(from, to);
        debug_assert!(self.is_live(from));
        debug_assert!(self.is_live(to));
        let bytes = granules * GRANULE;
        let ((a, i), (b, j)) = (split(from), split(to));
        let (i, j) = (i * GRANULE, j * GRANULE);
        if a == b {
            self.pages[a].bytes.copy_within(i..i + bytes, j);
        } else if let Ok([a, b]) = self.pages.get_disjoint_mut([a, b]) {
            b.bytes[j..j + bytes].copy_from_slice(&a.bytes[i..i + bytes]);
        }
    }

    /// Returns whether seven eighths of all page numbers are in use.
    pub fn is_nearly_full(&self) -> bool {
        self.pages.len() - self.vacant.len() > 7 << (32 - PAGE_BITS - 3)
    }

    /// Returns the number of bytes in live blocks.
    pub fn live_bytes(&self) -> u64 {
        self.live_granules * GRANULE as u64
    }

    /// Returns the number of bytes of free blocks, which the arena keeps for reuse.
    pub fn free_bytes(&self) -> u64 {
        (self.opened_granules - self.live_granules) * GRANULE as u64
    }

    /// Panics if the lists, bits and counters disagree. Takes time proportional to the size of the
    /// arena.
    pub fn check(&self, size_of: impl Fn(&[u8]) -> usize) {
        let (mut live, mut opened, mut listable) = (0, 0, [0usize; BLOCK_MAX + 1]);
        for (number, page) in self
            .pages
            .iter()
            .enumerate()
            .filter(|(_, p)| !p.bytes.is_empty())
        {
            let (mut granule, mut page_live) = (0, 0);
            while granule < page.opened {
                let slot = (number as u32) << PAGE_BITS | granule;
                let granules = if self.is_live(slot) {
                    page_live += size_of(self.from(slot)) as u32;
                    size_of(self.from(slot))
                } else {
                    let granules = (self.word(slot, 0) >> 4) as usize;
                    if !page.is_closed && granules >= BLOCK_MIN {
                        listable[granules] += 1;
                    }
                    granules
                };
                assert!(granules > 0);
                granule += granules as u32;
            }
            assert_eq!(granule, page.opened);
            assert_eq!(page_live, page.live_granules);
            live += u64::from(page_live);
            opened += u64::from(page.opened);
        }
        assert_eq!((live, opened), (self.live_granules, self.opened_granules));
        for (size, expected) in listable.iter().enumerate().skip(BLOCK_MIN) {
            let (mut slot, mut count) = (self.lists[size], 0);
            while slot != NONE {
                assert!(!self.is_live(slot));
                assert_eq!((self.word(slot, 0) >> 4) as usize, size);
                (slot, count) = (self.word(slot, 1), count + 1);
            }
            assert_eq!(count, *expected, "the list of {size} granules");
            assert_eq!(count > 0, self.non_empty[size / 64] >> (size % 64) & 1 == 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Writes a block that holds its size in the upper bits of its first word, as entries do.
    fn write(arena: &mut Arena, slot: u32, granules: usize, stamp: u8) {
        let bytes = arena.from_mut(slot);
        bytes[..4].copy_from_slice(&((granules as u32) << 4 | 1).to_le_bytes());
        bytes[4..granules * GRANULE].fill(stamp);
    }
    fn size_of(bytes: &[u8]) -> usize {
        (u32::from_le_bytes(bytes[..4].try_into().expect("four")) >> 4) as usize
    }

    #[derive(Clone, Debug)]
    enum Op {
        Allocate(usize),
        Free(usize),
        Evacuate,
    }
    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            6 => (BLOCK_MIN..=BLOCK_MAX).prop_map(Op::Allocate),
            2 => (BLOCK_MIN..6usize).prop_map(Op::Allocate),
            5 => any::<usize>().prop_map(Op::Free),
            1 => Just(Op::Evacuate),
        ]
    }

    fn evacuate(arena: &mut Arena, held: &mut [(u32, usize, u8)]) {
        let Some(page) = arena.close_sparsest(size_of) else {
            return;
        };
        let mut at = arena.page_start(page).expect("it exists");
        while let Some(slot) = arena.next_live(at) {
            let entry = held
                .iter_mut()
                .find(|e| e.0 == slot)
                .expect("the model holds it");
            let new = arena.allocate(entry.1).expect("there is room");
            write(arena, new, entry.1, entry.2);
            arena.free(slot, entry.1);
            entry.0 = new;
            at = slot;
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn live_blocks_keep_their_bytes(ops in prop::collection::vec(op(), 1..600)) {
            let mut arena = Arena::default();
            let mut held: Vec<(u32, usize, u8)> = Vec::new();
            for (stamp, op) in ops.into_iter().enumerate() {
                match op {
                    Op::Allocate(granules) => {
                        let slot = arena.allocate(granules).expect("there is room");
                        write(&mut arena, slot, granules, stamp as u8);
                        held.push((slot, granules, stamp as u8));
                    }
                    Op::Free(i) if !held.is_empty() => {
                        let (slot, granules, _) = held.swap_remove(i % held.len());
                        arena.free(slot, granules);
                    }
                    Op::Evacuate => evacuate(&mut arena, &mut held),
                    _ => {}
                }
            }
            arena.check(size_of);
            for (slot, granules, stamp) in &held {
                prop_assert!(arena.is_live(*slot));
                let bytes = &arena.from(*slot)[4..granules * GRANULE];
                prop_assert!(bytes.iter().all(|b| b == stamp));
            }
            for (slot, granules, _) in held {
                arena.free(slot, granules);
            }
            prop_assert_eq!(arena.live_bytes(), 0);
        }
    }

    #[test]
    fn a_number_that_names_no_block_is_not_live() {
        let mut arena = Arena::default();
        let slot = arena.allocate(3).expect("there is room");
        assert!(arena.is_live(slot) && !arena.is_live(slot + 1) && !arena.is_live(u32::MAX));
    }
}
