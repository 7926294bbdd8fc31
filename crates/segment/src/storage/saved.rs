//! State of a storage outside of its segments, as words: the data that an engine needs to continue
//! with segments in a file.
//!
//! ```text
//! objects, objects crowded out
//! segments of the table   lines.rs
//! chains                  table.rs
//! segments of objects     lists.rs
//! ```
//! The saved words and the segments may be damaged. Everything is checked before it is used: the
//! words against each other, the lines of the table, and the objects of each segment against the
//! table, one after the other. A restored engine is therefore consistent. Keys are hashed with the
//! hash secret, so that an object whose key has changed is not found in its chain. Values are not
//! checked, because that would mean reading all of them.

use super::content::Objects;
use super::cursor::SavedWords;
use super::directory::Directory;
use super::heap::Heap;
use super::line::with_tag;
use super::location::Location;
use super::plan::EvictionPlan;
use super::store::{ScannedObject, Storage};
use super::table::Table;

/// Returns the maximum number of saved words of a heap with this many segments of this many words.
pub(crate) fn saved_words_max(count: u32, capacity: u32) -> u64 {
    // Each segment holds objects, or up to a piece of lines per 2,048 words.
    const FIXED: u64 = 64;
    let by_table = 1 + u64::from(capacity).div_ceil(1 << 11);
    FIXED + u64::from(count) * by_table.max(7)
}

impl<C: Objects, P: EvictionPlan> Storage<C, P> {
    /// Returns the state outside of the segments, or `None` while a segment is being written or
    /// evicted. No thread may write.
    pub(crate) fn save(&self) -> Option<Vec<u64>> {
        let mut saved = vec![self.item_count(), self.crowded_out()];
        self.table().save(&mut saved);
        let directory = self.directory().lock();
        directory.lists.save(self.heap(), &mut saved)?;
        Some(saved)
    }

    /// Continues with the segments and the state of an earlier storage. The directory must be the
    /// directory of a new storage. Returns `None` if they do not match.
    pub(crate) fn restore(
        heap: Heap,
        directory: Directory<P>,
        hash_key: [u64; 2],
        seed: u64,
        saved: &[u64],
    ) -> Option<Self> {
        let mut saved = SavedWords::new(saved);
        let counts = (saved.next()?, saved.next()?);
        let mut locked = directory.lock();
        let table = Table::restore(&heap, &mut saved, &mut locked.lists)?;
        let taken_count = locked.lists.restore(&heap, &mut saved)?;
        locked.lists.restore_free(taken_count)?;
        saved.is_at_end().then_some(())?;
        locked.restored(&heap);
        drop(locked);
        let content = C::new(heap.count(), hash_key);
        let storage = Storage::of_parts(heap, directory, table, content, counts, seed);
        storage.verify()?;
        Some(storage)
    }

    /// Checks a restored storage, whose memory may contain anything. Returns `None` if it is
    /// damaged.
    fn verify(&self) -> Option<()> {
        let (heap, directory) = (self.heap(), self.directory().lock());
        let is_there = |location: Location| {
            let id = location.segment;
            id.0 <= heap.count()
                && directory.lists.is_held(id)
                && location.offset < heap.header(id).used()
        };
        let objects = self.table().verify(heap, is_there)?;
        let mut found = 0;
        for id in directory.lists.all() {
            let header = heap.header(id);
            let (mut offset, mut live) = (0, (0, 0));
            while offset < header.used() {
                let location = Location {
                    segment: id,
                    offset,
                };
                let words = self.content().words_at(heap, location);
                offset = offset
                    .checked_add(words)
                    .filter(|end| *end <= header.used())?;
                // The key is within the words of the object.
                let object = ScannedObject {
                    location,
                    words,
                    hash: with_tag(self.content().hash_at(heap, location)),
                };
                if self.slot_of(&object).is_some() {
                    live = (live.0 + 1, live.1 + words);
                }
            }
            (header.live() == live).then_some(())?;
            found += u64::from(live.0);
        }
        (found == objects && objects == self.item_count()).then_some(())
    }
}
