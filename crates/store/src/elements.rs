//! Elements of collections: packed into one byte array if they are few and short, otherwise in
//! pages.
//!
//! # Many elements
//!
//! [`Elements`] is a hash table with linear hashing. Its buckets are pages of 12 to about 60
//! elements. It grows and shrinks by one page at a time, in the order of page numbers. No step
//! touches more than two pages, and there is no directory to double. Bytes for a member of 14 bytes
//! and a value of 3:
//!
//! ```text
//! 17   member and value                1    their lengths
//! 3    tag and place in the page       0.3  header of the page
//! 0.7  handle of the page              3.6  rounding of the allocator, and room to grow
//! ```
//!
//! A [`Slot`] names an element: page number · 256 + index in the page. It stays the same until the
//! page is split or merged. Then [`Elements::take_move`] moves the elements one by one and returns
//! their old and new slots. Long elements are stored outside, and the page holds their number.
//!
//! The page is chosen by a keyed hash, so that clients cannot choose members that gather in one
//! page. With 24 elements per page on average, and 48 in a page just before its split, more than
//! 255 elements do not meet in one page by chance.

mod chunked;
pub(crate) mod packed;
mod page;
mod resize;
mod walk;

use crate::elements::packed::{Parts, Tail, write_element};
use cache::prefetch::prefetch;
use chunked::Chunked;
use page::{HAS_DEADLINE, IS_OUTSIDE, NUMBER, Page, PageKind};
use policy::{Slot, Tick};
use resize::PendingMoves;
use siphasher::sip::SipHasher13;

/// Average number of elements per page above which a page is split.
const LOAD: usize = 24;
/// Average number of elements per page below which the last page is merged.
const LOAD_MIN: usize = LOAD / 2;
/// Maximum number of pages, because slots must be below [`Slot::LIMIT`]. It is reached at 200
/// million elements; then pages become fuller, up to about 10^9 elements.
const PAGES_MAX: usize = 1 << 23;
/// Length of the longest element that is stored in its page.
const INLINE_MAX: usize = 128;

/// Elements that are found by name or by slot.
#[derive(Clone, Debug)]
pub(crate) struct Elements {
    pages: Chunked<Page>,
    outside: Chunked<Option<Box<[u8]>>>,
    outside_vacant: Vec<u32>,
    /// Number of bytes of the pages and of the elements outside them.
    held_bytes: usize,
    len: usize,
    deadline_count: usize,
    /// Upper bound of the number of indexes of any page.
    indexes_max: usize,
    hash_key: [u64; 2],
    kind: PageKind,
    /// Elements that must be moved between two pages.
    pending_moves: Option<PendingMoves>,
    scratch: Vec<u8>,
}

#[inline(always)]
fn slot_of(page: usize, index: usize) -> Slot {
    Slot((page << 8 | index) as u32)
}

#[inline(always)]
fn split_slot(slot: Slot) -> (usize, usize) {
    (slot.0 as usize >> 8, slot.0 as usize & 255)
}

/// Returns the byte of a hash that the page stores as the tag of an element.
#[inline(always)]
fn tag_of(hash: u64) -> u8 {
    ((hash >> 56) as u8).max(1)
}

/// Returns the number of the page to which a hash belongs.
#[inline(always)]
fn page_of(hash: u64, pages: usize) -> usize {
    let mask = pages.next_power_of_two() - 1;
    let page = hash as usize & mask;
    if page < pages { page } else { page & mask >> 1 }
}

/// Returns the number of hash bits that select this page. It differs by one between pages that have
/// been split in the current round and those that have not.
fn depth_of(page: usize, pages: usize) -> u32 {
    let full = pages.next_power_of_two();
    let is_split = page >= full / 2 || page + full / 2 < pages;
    full.trailing_zeros() - u32::from(!is_split)
}

impl Elements {
    /// Creates a table without elements. `hash_key` is secret. `link_bits` is the number of bits
    /// that the index of deadlines needs per element.
    pub fn new(tail: Tail, hash_key: [u64; 2], link_bits: u32) -> Elements {
        let wide = match link_bits {
            0..=16 => 0,
            17..=32 => 4,
            _ => 8,
        };
        let kind = PageKind { tail, wide };
        let mut elements = Elements {
            pages: Chunked::default(),
            outside: Chunked::default(),
            outside_vacant: Vec::new(),
            held_bytes: 0,
            len: 0,
            deadline_count: 0,
            indexes_max: 0,
            hash_key,
            kind,
            pending_moves: None,
            scratch: Vec::new(),
        };
        elements.push_page(Page::new(kind, 0, 0));
        elements
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the number of elements with a deadline.
    pub fn deadline_count(&self) -> usize {
        self.deadline_count
    }

    /// Returns the number of bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.held_bytes
            + self.pages.heap_bytes()
            + self.outside.heap_bytes()
            + self.outside_vacant.capacity() * size_of::<u32>()
            + self.scratch.capacity()
    }

    fn push_page(&mut self, page: Page) {
        self.held_bytes += page.heap_bytes();
        self.pages.push(page);
    }

    /// Changes a page and updates the count of bytes.
    #[inline]
    fn change_page<R>(&mut self, number: usize, change: impl FnOnce(&mut Page) -> R) -> R {
        let page = self.pages.at_mut(number);
        let before = page.heap_bytes();
        let result = change(page);
        self.held_bytes = self.held_bytes + page.heap_bytes() - before;
        self.indexes_max = self.indexes_max.max(page.indexes());
        result
    }

    #[inline]
    fn hash(&self, member: &[u8]) -> u64 {
        SipHasher13::new_with_keys(self.hash_key[0], self.hash_key[1]).hash(member)
    }

    /// Returns the bytes of a live element after its deadline.
    #[inline]
    fn body<'a>(&'a self, page: &'a Page, index: usize) -> &'a [u8] {
        let body = page.body(index);
        if page.flags(index) & IS_OUTSIDE == 0 {
            return body;
        }
        let number = u32::from_le_bytes(body[..NUMBER].try_into().expect("four bytes"));
        self.outside
            .at(number as usize)
            .as_deref()
            .expect("the number names an element")
    }

    /// Prefetches the handle of a member's page. Returns the member's hash for the next two steps.
    /// Call each of these once the previous step's data is in the cache.
    #[inline]
    pub fn prefetch_handle(&self, member: &[u8]) -> u64 {
        let hash = self.hash(member);
        prefetch(self.page_for(hash));
        hash
    }

    /// Prefetches the tags and places of a page.
    #[inline]
    pub fn prefetch_page(&self, hash: u64) {
        self.page_for(hash).prefetch();
    }

    /// Prefetches an element. It should be called when its page is in the processor's cache.
    #[inline]
    pub fn prefetch_element(&self, hash: u64) {
        self.page_for(hash).prefetch_payload(tag_of(hash));
    }

    #[inline]
    fn page_for(&self, hash: u64) -> &Page {
        self.pages.at(page_of(hash, self.pages.len()))
    }

    /// Returns the slot of a member.
    #[inline]
    pub fn find(&self, member: &[u8]) -> Option<Slot> {
        let hash = self.hash(member);
        let number = page_of(hash, self.pages.len());
        let page = self.pages.at(number);
        let index = page.find(tag_of(hash), |index| {
            let body = self.body(page, index);
            let parts = Parts::of(body, 0, self.kind.tail);
            &body[parts.member_at..parts.tail_at] == member
        })?;
        Some(slot_of(number, index))
    }

    /// Returns whether `slot` names an element. Any number may be given.
    #[inline]
    pub fn is_live(&self, slot: Slot) -> bool {
        let (page, index) = split_slot(slot);
        self.pages
            .get(page)
            .is_some_and(|page| index < page.indexes() && page.tag(index) != 0)
    }

    #[inline]
    fn parts(&self, slot: Slot) -> (&[u8], Parts) {
        debug_assert!(self.is_live(slot));
        let (page, index) = split_slot(slot);
        let body = self.body(self.pages.at(page), index);
        (body, Parts::of(body, 0, self.kind.tail))
    }

    /// Returns a live element's member, and its value or the bytes of its score.
    pub fn element(&self, slot: Slot) -> (&[u8], &[u8]) {
        let (body, parts) = self.parts(slot);
        let member = &body[parts.member_at..parts.tail_at];
        (member, &body[parts.tail_at..parts.end])
    }

    /// Returns a live element's member.
    pub fn member(&self, slot: Slot) -> &[u8] {
        let (body, parts) = self.parts(slot);
        &body[parts.member_at..parts.tail_at]
    }

    /// Returns a live element's value or the bytes of its score.
    pub fn value(&self, slot: Slot) -> &[u8] {
        let (body, parts) = self.parts(slot);
        &body[parts.tail_at..parts.end]
    }

    /// Returns the hash of a live element's member.
    pub fn hash_of(&self, slot: Slot) -> u64 {
        self.hash(self.member(slot))
    }

    /// Returns the deadline of a live element.
    #[inline]
    pub fn deadline(&self, slot: Slot) -> Option<Tick> {
        #[cfg(test)]
        tests::LOOKS.set(tests::LOOKS.get() + 1);
        let (page, index) = split_slot(slot);
        self.pages.at(page).deadline(index)
    }

    /// Returns the link of a live element for the index of deadlines; 0 without a deadline.
    #[inline]
    pub fn link(&self, slot: Slot) -> u64 {
        let (page, index) = split_slot(slot);
        self.pages.at(page).link(index).unwrap_or(0)
    }

    /// Sets the link of a live element with a deadline.
    #[inline]
    pub fn set_link(&mut self, slot: Slot, link: u64) {
        debug_assert!(self.is_live(slot));
        let (page, index) = split_slot(slot);
        self.pages.at_mut(page).set_link(index, link);
    }

    /// Sets or removes the deadline of a live element. The link is kept if there was a deadline,
    /// else it is 0.
    pub fn set_deadline(&mut self, slot: Slot, deadline: Option<Tick>) {
        debug_assert!(self.is_live(slot));
        let (number, index) = split_slot(slot);
        let page = self.pages.at_mut(number);
        let old = page.deadline_word(index);
        let word =
            deadline.map(|deadline| deadline.min(Tick::MAX).0 << 16 | old.unwrap_or(0) & 0xffff);
        match (old, word) {
            (Some(_), Some(word)) => page.set_deadline_word(index, word),
            (None, None) => {}
            _ => {
                let mut payload = std::mem::take(&mut self.scratch);
                payload.clear();
                if let Some(word) = word {
                    payload.extend_from_slice(&word.to_le_bytes());
                    payload.resize(page.before(HAS_DEADLINE), 0);
                }
                let start = page.before(page.flags(index));
                let len = page.payload_len(index);
                payload.extend_from_slice(&page.payload(index)[start..len]);
                let flags = page.flags(index) & IS_OUTSIDE;
                let flags = flags | if word.is_some() { HAS_DEADLINE } else { 0 };
                self.put_payload(slot, &payload, flags);
                self.scratch = payload;
                self.deadline_count += usize::from(word.is_some());
                self.deadline_count -= usize::from(old.is_some());
            }
        }
    }

    /// Replaces the payload of a live element. If the page has no room, the element moves out of
    /// the page and the page holds its number.
    fn put_payload(&mut self, slot: Slot, payload: &[u8], flags: u16) {
        let (number, index) = split_slot(slot);
        if self.change_page(number, |page| page.replace(index, payload, flags)) {
            return;
        }
        assert!(
            flags & IS_OUTSIDE == 0,
            "255 numbers with deadlines fit a page"
        );
        let (payload, flags) = self.move_outside(payload, flags);
        let is_done = self.change_page(number, |page| page.replace(index, &payload, flags));
        assert!(is_done, "255 numbers with deadlines fit a page");
    }

    /// Moves the element of a payload out of the page, into its own allocation. Returns the payload
    /// that remains in the page, which contains the allocation's number, and its flags.
    fn move_outside(&mut self, payload: &[u8], flags: u16) -> (Vec<u8>, u16) {
        let start = self.pages.at(0).before(flags);
        let number = self.hold(payload[start..].into());
        let payload = [&payload[..start], &number.to_le_bytes()].concat();
        (payload, flags | IS_OUTSIDE)
    }

    fn hold(&mut self, body: Box<[u8]>) -> u32 {
        self.held_bytes += body.len();
        match self.outside_vacant.pop() {
            Some(number) => {
                *self.outside.at_mut(number as usize) = Some(body);
                number
            }
            None => {
                self.outside.push(Some(body));
                self.outside.len() as u32 - 1
            }
        }
    }

    /// Frees the allocation of a live element that is stored outside its page; does nothing for any
    /// other element.
    fn release_outside(&mut self, slot: Slot) {
        let (page, index) = split_slot(slot);
        let page = self.pages.at(page);
        if page.flags(index) & IS_OUTSIDE == 0 {
            return;
        }
        let number = &page.body(index)[..NUMBER];
        let number = u32::from_le_bytes(number.try_into().expect("four bytes"));
        let body = self.outside.at_mut(number as usize).take();
        self.held_bytes -= body.expect("the number names an element").len();
        self.outside_vacant.push(number);
    }

    /// Sets the value or score of a live element. Deadline and slot stay the same.
    pub fn set_value(&mut self, slot: Slot, value: &[u8]) {
        debug_assert!(self.is_live(slot));
        let (number, index) = split_slot(slot);
        let page = self.pages.at(number);
        let (flags, body) = (page.flags(index), self.body(page, index));
        let parts = Parts::of(body, 0, self.kind.tail);
        let start = page.before(flags);
        if flags & IS_OUTSIDE == 0 && parts.end - parts.tail_at == value.len() {
            let range = start + parts.tail_at..start + parts.end;
            self.pages.at_mut(number).payload_mut(index)[range].copy_from_slice(value);
            return;
        }
        let mut payload = Vec::with_capacity(start + parts.tail_at + value.len() + 10);
        payload.extend_from_slice(&page.payload(index)[..start]);
        let member = &body[parts.member_at..parts.tail_at];
        write_element(&mut payload, member, value, self.kind.tail);
        self.release_outside(slot);
        let mut flags = flags & HAS_DEADLINE;
        if payload.len() - start > INLINE_MAX {
            (payload, flags) = self.move_outside(&payload, flags);
        }
        self.put_payload(slot, &payload, flags);
    }

    /// Adds an element for an absent member and returns its slot. Moves may be pending afterwards,
    /// also of this element.
    pub fn insert(&mut self, member: &[u8], value: &[u8]) -> Slot {
        debug_assert!(self.find(member).is_none());
        debug_assert!(
            self.pending_moves.is_none(),
            "pending moves must be taken first"
        );
        let hash = self.hash(member);
        let mut payload = std::mem::take(&mut self.scratch);
        payload.clear();
        write_element(&mut payload, member, value, self.kind.tail);
        let number = page_of(hash, self.pages.len());
        let slot = if payload.len() > INLINE_MAX {
            let (payload, flags) = self.move_outside(&payload, 0);
            self.place(number, tag_of(hash), &payload, flags)
        } else {
            self.place(number, tag_of(hash), &payload, 0)
        };
        if payload.capacity() <= 2 * INLINE_MAX {
            self.scratch = payload;
        }
        self.len += 1;
        if self.len > self.pages.len() * LOAD && self.pages.len() < PAGES_MAX {
            self.split();
        }
        slot
    }

    /// Stores an element in a page. If the page has no room, the element gets its own allocation
    /// and the page holds its number.
    fn place(&mut self, number: usize, tag: u8, payload: &[u8], flags: u16) -> Slot {
        let inserted = self.change_page(number, |page| page.insert(tag, payload, flags));
        let index = inserted.unwrap_or_else(|| {
            let is_inline = flags & IS_OUTSIDE == 0;
            let (payload, flags) = if is_inline {
                self.move_outside(payload, flags)
            } else {
                (payload.to_vec(), flags)
            };
            self.change_page(number, |page| page.insert(tag, &payload, flags))
                .expect("a page has room for 255 numbers, and no more come together")
        });
        slot_of(number, index)
    }

    /// Removes an element. Pages are not merged; see [`Elements::is_sparse`].
    pub fn remove(&mut self, slot: Slot) {
        debug_assert!(self.is_live(slot));
        debug_assert!(
            self.pending_moves.is_none(),
            "pending moves must be taken first"
        );
        self.release_outside(slot);
        self.deadline_count -= usize::from(self.deadline(slot).is_some());
        let (number, index) = split_slot(slot);
        self.change_page(number, |page| page.remove(index));
        self.len -= 1;
    }

    /// Frees up to `steps` pages and long elements, and returns whether any are left. The table
    /// must not be used for anything else afterwards.
    pub fn dismantle(&mut self, steps: u32) -> bool {
        for _ in 0..steps {
            if let Some(body) = self.outside.pop() {
                self.held_bytes -= body.map_or(0, |body| body.len());
                continue;
            }
            let Some(page) = self.pages.pop() else {
                return false;
            };
            self.held_bytes -= page.heap_bytes();
        }
        true
    }

    /// Panics if pages, outside elements and counts disagree. Takes time proportional to the number
    /// of elements.
    pub fn check(&self) {
        assert!(self.pending_moves.is_none());
        let (mut len, mut bytes, mut deadlines, mut numbers) = (0, 0, 0, 0);
        for number in 0..self.pages.len() {
            let page = self.pages.at(number);
            page.check();
            bytes += page.heap_bytes();
            assert!(page.indexes() <= self.indexes_max);
            for slot in self.iter_page(number) {
                let hash = self.hash_of(slot);
                assert_eq!(page_of(hash, self.pages.len()), number);
                let (_, index) = split_slot(slot);
                assert_eq!(page.tag(index), tag_of(hash));
                numbers += usize::from(page.flags(index) & IS_OUTSIDE != 0);
                deadlines += usize::from(self.deadline(slot).is_some());
                len += 1;
            }
        }
        let held = (0..self.outside.len()).filter_map(|i| self.outside.at(i).as_ref());
        let held: Vec<usize> = held.map(|body| body.len()).collect();
        assert_eq!(held.len(), numbers);
        assert_eq!(self.outside.len(), numbers + self.outside_vacant.len());
        bytes += held.iter().sum::<usize>();
        assert_eq!(
            (len, deadlines, bytes),
            (self.len, self.deadline_count, self.held_bytes)
        );
    }
}

#[cfg(test)]
pub(crate) mod tests;
