//! A page of elements: one allocation in which elements are found by a byte of their hash.
//!
//! ```text
//! page      indexes 1 │ live 1 │ used 2 │ garbage 2 │ kind 1 │ tag 1 × indexes │ place 2 × indexes
//!           │ free │ payloads
//! kind      data behind members 4 │ width of a wide link 4
//! tag       0 if the index is vacant, else a byte of the member's hash
//! place     distance 14 │ has a deadline 1 │ is outside 1
//!           distance    from the end of the page back to the first byte of the payload
//! payload   deadline 48 bits + link 16 bits │ wide link 0|4|8, if the element has a deadline
//!           │ element, or its number 4 if it is outside
//! ```
//!
//! Payloads grow towards the front. A removed payload becomes garbage. If a new payload finds no
//! room, the page is written again without garbage in the next size of the allocator. An element
//! keeps its index until it leaves the page.

use super::packed::{Parts, Tail};
use cache::prefetch::prefetch;
use policy::Tick;

/// Number of bytes before the tags.
const HEADER: usize = 7;
/// Number of bytes per index: one tag and one place.
const PER_INDEX: usize = 3;
/// Maximum number of indexes of a page.
pub(super) const INDEX_MAX: usize = 255;
/// Maximum length of a page in bytes, because distances have 14 bits.
const PAGE_MAX: usize = 1 << 14;
/// Maximum bytes of payloads of two pages that are merged.
pub(super) const MERGED_MAX: usize = PAGE_MAX / 2;
/// Minimum length of a page in bytes.
const PAGE_MIN: usize = 64;
/// Length of a deadline together with a link of 16 bits.
const WORD: usize = 8;
/// Length of the number that stands for an element outside the page.
pub(super) const NUMBER: usize = 4;
/// Flag of an element whose payload begins with its deadline.
pub(super) const HAS_DEADLINE: u16 = 1 << 14;
/// Flag of an element that is stored outside the page.
pub(super) const IS_OUTSIDE: u16 = 1 << 15;
const DISTANCE: u16 = (1 << 14) - 1;

/// Properties shared by all pages of a collection.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageKind {
    /// Data stored after each member.
    pub tail: Tail,
    /// Length in bytes of a link that does not fit in 16 bits; 0 if links fit.
    pub wide: u8,
}

/// A page: one allocation in the layout above.
#[derive(Clone, Debug)]
pub(super) struct Page(Box<[u8]>);

/// Returns the size that the allocator reserves for `bytes`: four sizes per doubling, as in
/// jemalloc.
fn allocated(bytes: usize) -> usize {
    let step = (bytes.max(PAGE_MIN).next_power_of_two() / 8).max(16);
    bytes.max(PAGE_MIN).next_multiple_of(step)
}

impl Page {
    /// Creates an empty page with room for `count` payloads of `bytes` in total.
    pub fn new(kind: PageKind, count: usize, bytes: usize) -> Page {
        let mut bytes = vec![0; allocated(HEADER + PER_INDEX * count + bytes)];
        bytes[6] = kind.tail as u8 | kind.wide << 4;
        Page(bytes.into())
    }

    /// Returns the number of bytes that the deadline and its link take before an element: 0 without
    /// a deadline.
    #[inline(always)]
    pub fn before(&self, flags: u16) -> usize {
        if flags & HAS_DEADLINE == 0 {
            return 0;
        }
        WORD + (self.0[6] >> 4) as usize
    }

    fn kind(&self) -> PageKind {
        PageKind {
            tail: self.tail(),
            wide: self.0[6] >> 4,
        }
    }

    #[inline(always)]
    fn tail(&self) -> Tail {
        match self.0[6] & 15 {
            0 => Tail::Nothing,
            1 => Tail::Value,
            _ => Tail::Score,
        }
    }

    /// Returns the length of a live element's payload.
    pub fn payload_len(&self, index: usize) -> usize {
        let (flags, payload) = (self.flags(index), self.payload(index));
        let before = self.before(flags);
        if flags & IS_OUTSIDE != 0 {
            return before + NUMBER;
        }
        Parts::of(payload, before, self.tail()).end
    }

    #[inline(always)]
    fn word(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.0[at], self.0[at + 1]])
    }

    #[inline(always)]
    fn set_word(&mut self, at: usize, word: u16) {
        self.0[at..at + 2].copy_from_slice(&word.to_le_bytes());
    }

    /// Returns the number of bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.0.len()
    }

    /// Returns the number of indexes, vacant ones too.
    #[inline(always)]
    pub fn indexes(&self) -> usize {
        self.0[0] as usize
    }

    /// Returns the number of elements.
    #[inline(always)]
    pub fn live(&self) -> usize {
        self.0[1] as usize
    }

    /// Returns the number of bytes of payloads and of garbage.
    #[inline(always)]
    fn used(&self) -> usize {
        self.word(2) as usize
    }

    #[inline(always)]
    fn garbage(&self) -> usize {
        self.word(4) as usize
    }

    /// Returns the number of bytes of payloads, without garbage.
    pub fn live_bytes(&self) -> usize {
        self.used() - self.garbage()
    }

    /// Returns the hash byte of the element at an index; 0 if there is none.
    #[inline(always)]
    pub fn tag(&self, index: usize) -> u8 {
        self.0[HEADER + index]
    }

    #[inline(always)]
    fn place_at(&self, index: usize) -> usize {
        HEADER + self.indexes() + 2 * index
    }

    /// Returns the flags of a live element.
    #[inline(always)]
    pub fn flags(&self, index: usize) -> u16 {
        self.word(self.place_at(index)) & !DISTANCE
    }

    /// Returns the position of a live element's payload.
    #[inline(always)]
    fn payload_at(&self, index: usize) -> usize {
        self.0.len() - (self.word(self.place_at(index)) & DISTANCE) as usize
    }

    /// Returns the bytes from a live element's payload to the end of the page.
    #[inline(always)]
    pub fn payload(&self, index: usize) -> &[u8] {
        &self.0[self.payload_at(index)..]
    }

    /// Returns the bytes from a live element's payload to the end of the page, for changes.
    pub fn payload_mut(&mut self, index: usize) -> &mut [u8] {
        let at = self.payload_at(index);
        &mut self.0[at..]
    }

    /// Returns the bytes from a live element to the end of the page, without its deadline.
    #[inline(always)]
    pub fn body(&self, index: usize) -> &[u8] {
        let place = self.word(self.place_at(index));
        let before = self.before(place);
        &self.0[self.0.len() - (place & DISTANCE) as usize + before..]
    }

    /// Returns the link of a live element with a deadline.
    pub fn link(&self, index: usize) -> Option<u64> {
        let word = self.deadline_word(index)?;
        let wide = &self.payload(index)[WORD..self.before(HAS_DEADLINE)];
        if wide.is_empty() {
            return Some(word & 0xffff);
        }
        let mut link = [0; 8];
        link[..wide.len()].copy_from_slice(wide);
        Some(u64::from_le_bytes(link))
    }

    /// Sets the link of a live element with a deadline.
    pub fn set_link(&mut self, index: usize, link: u64) {
        let end = self.before(HAS_DEADLINE);
        let payload = self.payload_mut(index);
        let link = link.to_le_bytes();
        if end == WORD {
            payload[..2].copy_from_slice(&link[..2]);
        } else {
            payload[WORD..end].copy_from_slice(&link[..end - WORD]);
        }
    }

    /// Returns the deadline and the narrow link of a live element as one word; `None` without a
    /// deadline.
    #[inline(always)]
    pub fn deadline_word(&self, index: usize) -> Option<u64> {
        if self.flags(index) & HAS_DEADLINE == 0 {
            return None;
        }
        let word = &self.payload(index)[..WORD];
        Some(u64::from_le_bytes(word.try_into().expect("eight bytes")))
    }

    /// Sets the deadline and the narrow link of a live element with a deadline.
    pub fn set_deadline_word(&mut self, index: usize, word: u64) {
        debug_assert!(self.flags(index) & HAS_DEADLINE != 0);
        self.payload_mut(index)[..WORD].copy_from_slice(&word.to_le_bytes());
    }

    /// Returns the deadline of a live element.
    #[inline(always)]
    pub fn deadline(&self, index: usize) -> Option<Tick> {
        self.deadline_word(index).map(|word| Tick(word >> 16))
    }

    /// Returns the first index with a tag for which `is_it` returns true.
    #[inline(always)]
    pub fn find(&self, tag: u8, is_it: impl Fn(usize) -> bool) -> Option<usize> {
        const LOW: u64 = 0x0101_0101_0101_0101;
        const HIGH: u64 = 0x8080_8080_8080_8080;
        let tags = &self.0[HEADER..HEADER + self.indexes()];
        let wanted = u64::from(tag) * LOW;
        let mut groups = tags.chunks_exact(8);
        let mut base = 0;
        for group in &mut groups {
            let word = u64::from_le_bytes(group.try_into().expect("eight bytes")) ^ wanted;
            // Marks the bytes that are zero, and possibly bytes behind one, which the comparison
            // rejects.
            let mut zeros = word.wrapping_sub(LOW) & !word & HIGH;
            while zeros != 0 {
                let index = base + (zeros.trailing_zeros() / 8) as usize;
                if tags[index] == tag && is_it(index) {
                    return Some(index);
                }
                zeros &= zeros - 1;
            }
            base += 8;
        }
        let mut rest = groups.remainder().iter().zip(base..);
        rest.find(|(other, index)| **other == tag && is_it(*index))
            .map(|(_, index)| index)
    }

    /// Prefetches the cache lines in which most pages have their tags and places.
    #[inline]
    pub fn prefetch(&self) {
        const LINE: usize = 64;
        self.0.iter().step_by(LINE).take(3).for_each(prefetch);
    }

    /// Prefetches the payloads of the elements with a tag. It should be called when the tags are in
    /// the processor's cache.
    #[inline]
    pub fn prefetch_payload(&self, tag: u8) {
        let _ = self.find(tag, |index| {
            prefetch(&self.payload(index)[0]);
            false
        });
    }

    fn free(&self) -> usize {
        self.0.len() - HEADER - PER_INDEX * self.indexes() - self.used()
    }

    /// Makes room for a payload of `bytes`, in place or by moving the page into a larger
    /// allocation. Returns false if the page would exceed its maximum length.
    fn make_room(&mut self, bytes: usize) -> bool {
        if self.free() >= bytes {
            return true;
        }
        let total = HEADER + PER_INDEX * self.indexes() + self.live_bytes() + bytes;
        if total >= PAGE_MAX {
            return false;
        }
        self.rewrite(allocated(total));
        true
    }

    /// Copies the page without garbage into an allocation of `bytes`.
    fn rewrite(&mut self, bytes: usize) {
        debug_assert!(bytes >= HEADER + PER_INDEX * self.indexes() + self.live_bytes());
        let mut new = vec![0; bytes].into_boxed_slice();
        let front = HEADER + PER_INDEX * self.indexes();
        new[..front].copy_from_slice(&self.0[..front]);
        if self.garbage() == 0 {
            let used = self.used();
            new[bytes - used..].copy_from_slice(&self.0[self.0.len() - used..]);
            self.0 = new;
            return;
        }
        let old = std::mem::replace(self, Page(new));
        let mut distance = 0;
        for index in (0..old.indexes()).filter(|index| old.tag(*index) != 0) {
            let payload = old.payload(index);
            let len = old.payload_len(index);
            distance += len;
            let at = bytes - distance;
            self.0[at..at + len].copy_from_slice(&payload[..len]);
            let place = self.place_at(index);
            self.set_word(place, old.flags(index) | distance as u16);
        }
        self.set_word(2, distance as u16);
        self.set_word(4, 0);
    }

    /// Writes a payload into the free room and sets the place of its index.
    fn write(&mut self, index: usize, payload: &[u8], flags: u16) {
        debug_assert!(self.free() >= payload.len());
        let distance = self.used() + payload.len();
        let at = self.0.len() - distance;
        self.0[at..at + payload.len()].copy_from_slice(payload);
        self.set_word(2, distance as u16);
        let place = self.place_at(index);
        self.set_word(place, flags | distance as u16);
    }

    /// Adds an element and returns its index; `None` if the page has no room.
    pub fn insert(&mut self, tag: u8, payload: &[u8], flags: u16) -> Option<usize> {
        debug_assert!(tag != 0);
        let vacant = if self.live() < self.indexes() {
            self.find(0, |_| true)
        } else {
            None
        };
        let count = self.indexes();
        let more = if vacant.is_some() { 0 } else { PER_INDEX };
        if (vacant.is_none() && count == INDEX_MAX) || !self.make_room(payload.len() + more) {
            return None;
        }
        let index = vacant.unwrap_or_else(|| {
            let places = HEADER + count..HEADER + PER_INDEX * count;
            self.0.copy_within(places, HEADER + count + 1);
            self.0[0] += 1;
            count
        });
        self.0[HEADER + index] = tag;
        self.0[1] += 1;
        self.write(index, payload, flags);
        Some(index)
    }

    /// Replaces a live element's payload. Returns false if the page has no room.
    pub fn replace(&mut self, index: usize, payload: &[u8], flags: u16) -> bool {
        debug_assert!(self.tag(index) != 0);
        let old = self.payload_len(index);
        if self.free() < payload.len() {
            let total = HEADER + PER_INDEX * self.indexes() + self.live_bytes() - old;
            if total + payload.len() >= PAGE_MAX {
                return false;
            }
            // The element is omitted from the rewritten page, so that its old payload is omitted,
            // too.
            let tag = std::mem::take(&mut self.0[HEADER + index]);
            self.add_garbage(old);
            self.rewrite(allocated(total + payload.len()));
            self.0[HEADER + index] = tag;
        } else {
            self.add_garbage(old);
        }
        self.write(index, payload, flags);
        true
    }

    fn add_garbage(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.live_bytes());
        self.set_word(4, (self.garbage() + bytes) as u16);
    }

    /// Removes a live element. Shrinks the page if more than half of it is garbage.
    pub fn remove(&mut self, index: usize) {
        debug_assert!(self.tag(index) != 0);
        let old = self.payload_len(index);
        self.0[HEADER + index] = 0;
        self.0[1] -= 1;
        self.add_garbage(old);
        if self.live() == 0 {
            *self = Page::new(self.kind(), 0, 0);
        } else if self.garbage() * 2 > self.0.len() {
            self.shrink();
        }
    }

    /// Removes garbage, vacant indexes at the end, and unused bytes.
    pub fn shrink(&mut self) {
        let mut count = self.indexes();
        while count > 0 && self.tag(count - 1) == 0 {
            count -= 1;
        }
        let places = HEADER + self.indexes()..HEADER + self.indexes() + 2 * count;
        self.0.copy_within(places, HEADER + count);
        self.0[0] = count as u8;
        let bytes = allocated(HEADER + PER_INDEX * count + self.live_bytes());
        if bytes < self.0.len() {
            self.rewrite(bytes);
        }
    }

    /// Panics if the page is inconsistent.
    pub fn check(&self) {
        let live = (0..self.indexes()).filter(|index| self.tag(*index) != 0);
        let mut ranges: Vec<(usize, usize)> = live
            .map(|index| {
                let at = self.payload_at(index);
                (at, at + self.payload_len(index))
            })
            .collect();
        assert_eq!(ranges.len(), self.live());
        ranges.sort_unstable();
        assert!(ranges.is_sorted_by(|a, b| a.1 <= b.0), "payloads overlap");
        let bytes: usize = ranges.iter().map(|(at, end)| end - at).sum();
        assert_eq!(bytes, self.live_bytes());
        let front = HEADER + PER_INDEX * self.indexes();
        assert!(
            ranges
                .first()
                .is_none_or(|(at, _)| *at >= self.0.len() - self.used())
        );
        assert!(front + self.used() <= self.0.len());
    }
}
