//! Storage of objects: segments, the hash table that finds objects in them, and reads without
//! locks.

mod cells;
mod chain;
mod check;
mod content;
mod cursor;
mod directory;
mod frequency;
mod hash;
mod header;
mod heap;
mod hint;
mod line;
mod lines;
mod lists;
mod location;
mod memory;
#[cfg(all(loom, test))]
mod model;
mod open;
mod plan;
mod read;
mod request;
mod saved;
mod search;
mod sizes;
mod store;
mod stored;
mod table;
mod ttl;
mod usage;
mod words;

pub use content::{Content, Objects};
pub(crate) use directory::{Directory, Entries, LockedDirectory};
pub(crate) use frequency::draw;
pub(crate) use heap::{Heap, heap_bytes_of_segment};
pub(crate) use line::{SEGMENT_WORDS_MAX, SEGMENTS_MAX, SlotRef};
pub(crate) use lists::{SegmentLists, State};
pub use location::{Location, SegmentId};
pub(crate) use open::{Lifetime, OPEN_MAX, OpenSegments, Placement};
pub(crate) use plan::{Age, EvictionPlan};
pub use request::{Condition, Key, Receipt, Refused};
pub(crate) use saved::saved_words_max;
pub use sizes::Sizes;
pub(crate) use store::{ScannedObject, Storage};
pub use stored::{KEY_MAX, MARKS_MAX, Payload, Stored, VALUE_MAX, Value, decimal};
pub(crate) use stored::{METADATA_BYTES, ObjectView, decimal_len};
pub(crate) use ttl::{BUCKETS, FLUSHED, NEVER, TtlBucket};
pub(crate) use usage::{SharedRates, UsageValues};
pub(crate) use words::{LINE, WORD};
