//! The entries that a snapshot has not saved yet.
//!
//! A snapshot is a consistent copy of all entries at one instant, made while they change. At that
//! instant, all entries become unsaved, in constant time. The caller then walks them in arena order
//! ([`PackedEntries::next_unsaved`]), and saves an unsaved entry before changing or removing it.
//! Entries inserted later are never unsaved. An unsaved entry may move, through compaction or a
//! change of owner, and stays unsaved in its new slot.
//!
//! ```text
//! page       0 … 6      7 8          9 … last            later
//! bitmap     none       bits         none unless touched none
//! unsaved    nothing    as the bits  every live entry    nothing
//!                       (open)       ^ next_page         ^ end_page
//! ```
//!
//! Without a bitmap, all entries of a page that the walk has not reached are unsaved. A page gets a
//! 4 KiB bitmap when the walk reaches it, or earlier if one of its entries is saved, inserted or
//! moved. The bitmap is freed once the walk has passed. If writes touch every page first, the
//! bitmaps take 1/64 of the arena.

use super::PackedEntries;
use crate::arena::{Arena, PAGE_WORDS};
use crate::value::Outside;
use policy::{Meta, Slot};

/// One bit per granule of a page, set where an unsaved entry starts.
type Bitmap = Box<[u64; PAGE_WORDS]>;

pub(crate) struct Unsaved {
    /// Number that the caller gave to these entries.
    label: u8,
    bitmaps: Vec<Option<Bitmap>>,
    /// Pages that have a bitmap and that the walk has reached.
    open: Vec<u32>,
    /// Word of the last open page's bitmap before which no bit is set.
    word: usize,
    next_page: u32,
    /// Number of pages in the arena at the instant of the snapshot.
    end_page: u32,
}

impl Unsaved {
    fn new(label: u8, pages: u32) -> Unsaved {
        Unsaved {
            label,
            bitmaps: Vec::new(),
            open: Vec::new(),
            word: 0,
            next_page: 0,
            end_page: pages,
        }
    }

    fn is_ahead(&self, page: u32) -> bool {
        (self.next_page..self.end_page).contains(&page)
    }

    /// Returns whether a live entry is unsaved.
    pub fn contains(&self, slot: u32) -> bool {
        let (page, word, bit) = place(slot);
        match self.bitmaps.get(page as usize) {
            Some(Some(bits)) => bits[word] & bit != 0,
            _ => self.is_ahead(page),
        }
    }

    /// Returns the bitmap of a page, creating it if necessary.
    fn bitmap(&mut self, page: u32, arena: &Arena) -> &mut Bitmap {
        let is_ahead = self.is_ahead(page);
        if self.bitmaps.len() <= page as usize {
            self.bitmaps.resize_with(page as usize + 1, || None);
        }
        let bitmap = &mut self.bitmaps[page as usize];
        if bitmap.is_none() && !is_ahead {
            self.open.push(page);
            self.word = 0;
        }
        bitmap.get_or_insert_with(|| {
            let mut bits = Box::new([0; PAGE_WORDS]);
            if let (true, Some(starts)) = (is_ahead, arena.starts(page)) {
                bits.copy_from_slice(starts);
            }
            bits
        })
    }

    /// Marks a live entry as not unsaved, because it was saved or inserted.
    pub fn remove(&mut self, slot: u32, arena: &Arena) {
        if self.contains(slot) {
            let (page, word, bit) = place(slot);
            self.bitmap(page, arena)[word] &= !bit;
        }
    }

    fn insert(&mut self, slot: u32, arena: &Arena) {
        if !self.contains(slot) {
            let (page, word, bit) = place(slot);
            self.bitmap(page, arena)[word] |= bit;
            if self.open.last() == Some(&page) {
                self.word = self.word.min(word);
            }
        }
    }

    /// Handles the move of an entry. The block at `old` must still be live.
    pub fn moved(&mut self, old: u32, new: u32, arena: &Arena) {
        if self.contains(old) {
            self.remove(old, arena);
            self.insert(new, arena);
        } else {
            self.remove(new, arena);
        }
    }

    /// Returns the next unsaved entry; `None` at the end.
    fn next(&mut self, arena: &Arena) -> Option<u32> {
        loop {
            let Some(&page) = self.open.last() else {
                if self.next_page == self.end_page {
                    return None;
                }
                let page = self.next_page;
                self.bitmap(page, arena);
                self.next_page += 1;
                self.open.push(page);
                self.word = 0;
                continue;
            };
            let bitmap = &mut self.bitmaps[page as usize];
            let bits = bitmap.as_ref().expect("an open page has a bitmap");
            match (self.word..PAGE_WORDS).find(|word| bits[*word] != 0) {
                Some(word) => {
                    self.word = word;
                    let granule = word * 64 + bits[word].trailing_zeros() as usize;
                    return Some(Arena::slot(page, granule));
                }
                None => {
                    *bitmap = None;
                    self.open.pop();
                    self.word = 0;
                }
            }
        }
    }
}

/// Returns the page of a slot, and the word and the bit of its bitmap.
fn place(slot: u32) -> (u32, usize, u64) {
    let granule = Arena::granule_of(slot);
    (Arena::page_of(slot), granule / 64, 1 << (granule % 64))
}

impl<O: Outside, M: Meta, L: Meta> PackedEntries<O, M, L> {
    /// Marks all entries as unsaved, in constant time. `label` is a number that the caller gives
    /// them.
    pub fn begin_saving(&mut self, label: u8) {
        let pages = self.blocks.arena.page_count();
        self.unsaved = Some(Box::new(Unsaved::new(label, pages)));
    }

    /// Forgets which entries are unsaved.
    pub fn end_saving(&mut self) {
        self.unsaved = None;
    }

    /// Returns the label of the current snapshot, or `None` if there is none or it has saved all
    /// entries.
    pub fn saving_label(&self) -> Option<u8> {
        self.unsaved.as_ref().map(|unsaved| unsaved.label)
    }

    /// Returns whether a live entry must be saved before it is changed or removed.
    #[inline]
    pub fn is_unsaved(&self, slot: Slot) -> bool {
        debug_assert!(self.blocks.arena.is_live(slot.0));
        let unsaved = self.unsaved.as_deref();
        unsaved.is_some_and(|unsaved| unsaved.contains(slot.0))
    }

    /// Records that a live entry was saved.
    pub fn mark_saved(&mut self, slot: Slot) {
        if let Some(unsaved) = &mut self.unsaved {
            unsaved.remove(slot.0, &self.blocks.arena);
        }
    }

    /// Returns the next unsaved entry, which the caller saves and passes to [`Self::mark_saved`].
    /// Returns `None` at the end, which ends saving.
    pub fn next_unsaved(&mut self) -> Option<Slot> {
        let next = self.unsaved.as_mut()?.next(&self.blocks.arena);
        if next.is_none() {
            self.unsaved = None;
        }
        next.map(Slot)
    }
}
