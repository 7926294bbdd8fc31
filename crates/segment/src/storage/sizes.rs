//! Objects without content, for the simulator: only their sizes are stored. The heap, the table and
//! the eviction are the same as for bytes, and memory is full at the same moment.

use super::content::{Content, Objects};
use super::heap::Heap;
use super::location::{Location, SegmentId};
use super::stored::METADATA_BYTES;
use super::words::WORD;
use policy::parts::chance::scramble;
use std::cell::RefCell;

#[derive(Clone, Copy, Debug)]
struct Record {
    offset: u32,
    words: u32,
    key: u32,
}

/// Objects as sizes. A key is a number, and a value is the number of bytes of key and value
/// together.
#[derive(Debug)]
pub struct Sizes {
    /// Objects written to each segment, in order of their offsets.
    records: Box<[RefCell<Vec<Record>>]>,
    seed: u64,
}

impl Sizes {
    fn at(&self, location: Location) -> Record {
        let records = self.records[location.segment.0 as usize].borrow();
        let found = records.binary_search_by_key(&location.offset, |record| record.offset);
        records[found.expect("an object begins at the location")]
    }

    fn push(&self, location: Location, words: u32, key: u32) {
        let mut records = self.records[location.segment.0 as usize].borrow_mut();
        debug_assert!(
            records
                .last()
                .is_none_or(|last| last.offset < location.offset)
        );
        records.push(Record {
            offset: location.offset,
            words,
            key,
        });
    }
}

impl Content for Sizes {
    type Key<'k> = u32;
    type Value<'v> = u32;

    const FILLS: bool = false;

    fn new(segments: u32, hash_key: [u64; 2]) -> Self {
        Sizes {
            records: (0..=segments).map(|_| RefCell::default()).collect(),
            seed: hash_key[0],
        }
    }

    #[inline]
    fn hash(&self, key: u32) -> u64 {
        scramble(u64::from(key) ^ self.seed)
    }

    fn words(_key: u32, size: u32) -> Option<u32> {
        let bytes = u64::from(size) + METADATA_BYTES as u64;
        u32::try_from(bytes.div_ceil(WORD as u64)).ok()
    }

    fn heap_bytes(&self) -> usize {
        let records = self
            .records
            .iter()
            .map(|records| records.borrow().capacity());
        records.sum::<usize>() * size_of::<Record>()
    }
}

impl Objects for Sizes {
    type View<'h> = u32;

    fn write(&self, _heap: &Heap, location: Location, words: u32, key: u32, _size: u32) {
        self.push(location, words, key);
    }

    fn words_at(&self, _heap: &Heap, location: Location) -> u32 {
        self.at(location).words
    }

    fn hash_at(&self, _heap: &Heap, location: Location) -> u64 {
        self.hash(self.at(location).key)
    }

    fn view(&self, _heap: &Heap, location: Location) -> Option<u32> {
        Some(self.at(location).key)
    }

    fn has_key(&self, view: u32, key: u32) -> bool {
        view == key
    }

    fn copy(&self, _heap: &Heap, from: Location, to: Location, words: u32) {
        self.push(to, words, self.at(from).key);
    }

    fn copy_changes(&self, _heap: &Heap, _from: Location, _to: Location) {}

    fn prepare(&self, _heap: &Heap, segment: SegmentId) {
        self.records[segment.0 as usize].borrow_mut().clear();
    }

    fn undo(&self, location: Location) {
        let mut records = self.records[location.segment.0 as usize].borrow_mut();
        let last = records.pop();
        debug_assert!(last.is_none_or(|last| last.offset == location.offset));
    }
}
