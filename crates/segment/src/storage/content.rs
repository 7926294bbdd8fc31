//! What a segment holds: the one thing in which a server's engine and a simulator's differ.

use crate::storage::heap::{Heap, Place, SegmentId};

/// How objects lie in segments.
///
/// An object is written once, by the one writer of its segment, before the table names it; from then on it
/// stays, but for the few words that are changed under its chain's lock.
pub trait Content: Sized {
    /// What an object is found by.
    type Key<'k>: Copy;
    /// What an object is made of, besides its key.
    type Value<'v>: Copy;

    /// Whether objects fill the segments' memory.
    const FILLS: bool;

    /// Contents of a heap of this many segments.
    fn new(segments: u32, hash_key: [u64; 2]) -> Self;
    /// The hash of a key: 64 good bits.
    fn hash(&self, key: Self::Key<'_>) -> u64;
    /// How many words an object takes; `None` when no segment could hold it.
    fn words(key: Self::Key<'_>, value: Self::Value<'_>) -> Option<u32>;
    /// Bytes on the heap besides the segments.
    fn heap_bytes(&self) -> usize;
}

/// What only the engine calls.
pub trait Objects: Content {
    /// An object as a reader finds it.
    type View<'h>: Copy;

    /// Writes an object of as many words as [`Content::words`] said.
    fn write(
        &self,
        heap: &Heap,
        place: Place,
        words: u32,
        key: Self::Key<'_>,
        value: Self::Value<'_>,
    );
    /// How many words the object here takes.
    fn words_at(&self, heap: &Heap, place: Place) -> u32;
    /// The hash of the key of the object here.
    fn hash_at(&self, heap: &Heap, place: Place) -> u64;
    /// What is here; `None` where it cannot be an object. A reader's memory may have been given away: then any
    /// answer will do, here and in what is asked of it.
    fn view<'h>(&self, heap: &'h Heap, place: Place) -> Option<Self::View<'h>>;
    /// Whether the object has this key.
    fn has_key(&self, view: Self::View<'_>, key: Self::Key<'_>) -> bool;
    /// Copies an object; `to` is not in the table yet.
    fn copy(&self, heap: &Heap, from: Place, to: Place, words: u32);
    /// Copies what may have changed since, with the chain locked.
    fn copy_changes(&self, heap: &Heap, from: Place, to: Place);
    /// A segment was taken, and is to be filled from its beginning.
    fn taken(&self, heap: &Heap, segment: SegmentId);
    /// The object written last was taken back.
    fn unwritten(&self, place: Place);
}
