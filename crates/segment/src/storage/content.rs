//! What a segment's memory holds: the one difference between a server's engine and a simulator's.

use super::heap::Heap;
use super::location::{Location, SegmentId};

/// The kind of objects that an engine stores: [`Stored`](crate::Stored) bytes or mere
/// [`Sizes`](crate::Sizes).
pub trait Content: Sized {
    /// Identifies an object.
    type Key<'k>: Copy;
    /// An object without its key.
    type Value<'v>: Copy;

    /// Whether objects occupy the memory of the segments.
    const FILLS: bool;

    /// Contents of a heap of this many segments.
    fn new(segments: u32, hash_key: [u64; 2]) -> Self;
    /// Hash of a key: 64 evenly distributed bits.
    fn hash(&self, key: Self::Key<'_>) -> u64;
    /// Words of 8 bytes that an object takes; `None` if it is too large for any segment.
    fn words(key: Self::Key<'_>, value: Self::Value<'_>) -> Option<u32>;
    /// Bytes on the heap outside the segments.
    fn heap_bytes(&self) -> usize;
}

/// Access to the objects, for the engine alone.
///
/// The owner of a segment writes an object once, before the table names it. From then on nothing
/// changes but the few words that are changed while the object's chain is locked.
pub trait Objects: Content {
    /// An object as a reader finds it.
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
    /// Number of words of the object at a location.
    fn words_at(&self, heap: &Heap, location: Location) -> u32;
    /// Hash of the key of the object at a location.
    fn hash_at(&self, heap: &Heap, location: Location) -> u64;
    /// The object at a location; `None` if there can be none. A reader's segment may have been
    /// freed meanwhile: then any result will do, of this function and of those that take the view.
    fn view<'h>(&self, heap: &'h Heap, location: Location) -> Option<Self::View<'h>>;
    /// Whether the object has this key.
    fn has_key(&self, view: Self::View<'_>, key: Self::Key<'_>) -> bool;
    /// Copies an object to a location that the table does not name yet.
    fn copy(&self, heap: &Heap, from: Location, to: Location, words: u32);
    /// Copies what may have changed since [`Objects::copy`], with the chain locked.
    fn copy_changes(&self, heap: &Heap, from: Location, to: Location);
    /// Prepares an empty segment to be filled from its beginning.
    fn prepare(&self, heap: &Heap, segment: SegmentId);
    /// Takes back the object written last.
    fn undo(&self, location: Location);
}
