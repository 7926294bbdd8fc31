//! Interface to the objects in a segment's memory. The engines of the server and of the simulator
//! implement it differently.

use super::heap::Heap;
use super::location::{Location, SegmentId};

/// The kind of objects that an engine stores: bytes ([`Stored`](crate::Stored)), or only their
/// sizes ([`Sizes`](crate::Sizes)).
pub trait Content: Sized {
    /// Key that identifies an object.
    type Key<'k>: Copy;
    /// Object without its key.
    type Value<'v>: Copy;

    /// Whether objects occupy the memory of the segments.
    const FILLS: bool;

    /// Creates the contents of a heap of this many segments.
    fn new(segments: u32, hash_key: [u64; 2]) -> Self;
    /// Returns the hash of a key: 64 evenly distributed bits.
    fn hash(&self, key: Self::Key<'_>) -> u64;
    /// Returns the size of an object in words of 8 bytes; `None` if it is too large for any
    /// segment.
    fn words(key: Self::Key<'_>, value: Self::Value<'_>) -> Option<u32>;
    /// Returns the heap memory outside of the segments, in bytes.
    fn heap_bytes(&self) -> usize;
}

/// Access to the objects, for the engine alone.
///
/// The owner of a segment writes an object once, before the table refers to it. After that only a
/// few words of the object change, while its chain is locked.
pub trait Objects: Content {
    /// Object as a reader sees it. It may be invalid if the segment was freed.
    type View<'h>: Copy;

    /// Writes an object of as many words as [`Content::words`] returned.
    fn write(
        &self,
        heap: &Heap,
        location: Location,
        words: u32,
        key: Self::Key<'_>,
        value: Self::Value<'_>,
    );
    /// Returns the number of words of the object at a location.
    fn words_at(&self, heap: &Heap, location: Location) -> u32;
    /// Returns the key hash of the object at a location.
    fn hash_at(&self, heap: &Heap, location: Location) -> u64;
    /// Returns the object at a location, or `None` if no object can be there. If the segment was
    /// freed while a reader used it, this function and those that receive the view may return
    /// anything. The reader discards the result.
    fn view<'h>(&self, heap: &'h Heap, location: Location) -> Option<Self::View<'h>>;
    /// Returns true if the object has this key.
    fn has_key(&self, view: Self::View<'_>, key: Self::Key<'_>) -> bool;
    /// Copies an object to a location that the table does not refer to yet.
    fn copy(&self, heap: &Heap, from: Location, to: Location, words: u32);
    /// Copies again the words that may have changed since [`Objects::copy`]. The chain is locked.
    fn copy_changes(&self, heap: &Heap, from: Location, to: Location);
    /// Prepares an empty segment to be filled from its beginning.
    fn prepare(&self, heap: &Heap, segment: SegmentId);
    /// Removes the object written last, to which the table never referred.
    fn undo(&self, location: Location);
}
