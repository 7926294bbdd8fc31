//! The Segcache engine: objects of like lives side by side in segments, found by a table of cache lines, expired
//! and evicted a segment at a time.
//!
//! Source: J. Yang, Y. Yue, R. Vinayak, *Segcache: a memory-efficient and scalable in-memory key-value cache
//! for small objects*, NSDI 2021; chapter 4 of J. Yang, *Designing Efficient and Scalable Key-value Cache
//! Management Systems*, CMU 2024. What differs is told at the end.
//!
//! # The parts
//! ```text
//! engine.rs   what a write does                   heap.rs     segments: generations, seals, live counts
//! read.rs     what a read does                    hash.rs     the keys' hash
//! bytes.rs    values, numbers, marks              chains.rs   which are free, and in which TTL's chain
//! evict.rs    expiry and eviction, in jobs        ttl.rs      the 1,313 TTL buckets
//! table.rs    the table: readers, growth          stored.rs   an object as bytes, as in a server
//! chain.rs    a chain of lines under its lock     sizes.rs    an object as a size, as in the simulator
//! line.rs     a line, bit by bit                  memory.rs   the segments' memory, in chunks
//! counter.rs  how often an object was asked for   words.rs    bytes in words that any thread may read
//! open.rs     which segment an object goes to     compact.rs  merges of several TTLs' nearly empty segments
//! merge.rs    merges: what is kept, and where         rent.rs     which segments are merged by default
//! ages.rs     how long segments wait for that         room.rs     room for what is written, and work ahead
//! switch.rs   another eviction at run time             learned.rs  segments ranked by what is learned of them
//! watch.rs    what sampled segments turn out to be worth
//! ```
//! Start reading with `heap.rs`, whose text proves that a reader never sees another key's bytes.
//!
//! # The sum on paper
//! Bytes of an object of a 16-byte key and a 3-byte value:
//! ```text
//! object      24     5 of metadata, key, value, to the next multiple of 8
//! table       12.3   64 bytes a line; at 10 objects a chain 1.9 lines, and chains between half and fully split
//! segments    0.1    tails that no object fit in, headers, directories
//! ```
//! Cache lines of a get that hits: 1.5 of the table where all keys are asked for alike (one, and a second for the
//! objects behind the first six or seven), nearly 1 where some are asked for more than others, since those move to the
//! first line when they are written or merged; a quarter of one for the segment's stamp (16 bytes a
//! megabyte: in the nearest cache already); and those of the object. Two small directories, one of pieces of the
//! table and one of chunks of memory, lie before the first. So a get waits for memory twice, one after the other:
//! for its line, and for its object. A batch that is asked for early waits for neither. A miss reads the
//! lines of its chain and as many objects as 12 bits of tag let pass: one in 450. A set writes its object behind the
//! last one, and the line.
//!
//! # Bounds
//! - A read takes no lock and waits for nobody; it starts again when what it read was given away meanwhile,
//!   which somebody's progress has caused.
//! - A chain has at most 16 lines. A write locks one chain; what it does with it locked is a scan of these, and
//!   for some writes splitting a chain, of which one insertion causes two at most.
//! - A set that finds memory short goes through the objects of a few segments (N of a merge). As long as
//!   there are 32 segments, it does not come to that: one segment is kept free, and each set does a part of the
//!   work, in proportion to its bytes. [`Segcache::maintain`] takes a budget of objects.
//! - A segment's memory is taken from the system as it is first used, which fills it with zeros, a page at
//!   a time (2 MiB, where it backs it by large ones); nothing is ever given back.
//!
//! # What the caller owes
//! The time, in each call. A [`Writer`] for each writing thread, and [`Segcache::maintain`] now and then on each,
//! also when it writes nothing: it may have begun an eviction, and what is over is removed there.
//!
//! # Departures
//! - Segments, table and all are one budget: the table lives in segments and grows by linear hashing. The paper's
//!   has a fixed size.
//! - Offsets count words of 8 bytes. A header of 5 bytes and a key of 16 leave no more to waste than 3.5 bytes
//!   on the average, and a segment may have 8 MiB.
//! - The count of a second is kept by slot in the bits that the lock's byte has left. With one time of access
//!   for a whole line alone, a popular key would keep its neighbours from ever being counted.
//! - Readers keep no reference count of a segment; they copy, and look whether it was given away.
//! - Values that are changed by `incr` become numbers of 64 bits, so that a change in place is one store.
//! - Evicted by default is by age and by rent (`rent.rs`) instead of in turn: the buckets' segments wait in one order, and a
//!   frequency pays for room instead of being set to 0.
//! - Merges in turn go round in rounds that all buckets share: what was created in this one waits for the next.
//! - A merge of segments that are nearly empty takes further ones of the chain as long as they fit altogether; where
//!   no chain has two to merge, those of several TTLs that fit altogether go together.
//! - Short lives have finer TTL buckets, of 25 and 500 ms, so that lives are not halved by rounding. An object goes to
//!   any open segment that ends as it should, not to that of its bucket alone, and a writer with many open segments
//!   opens fewer: else TTLs spread wide would fill memory with nearly empty segments.
//! - A deadline that is kept when an object is written anew is rounded itself, not what is left of it: once.
//!
//! Deliberately absent: a clock, threads, protocols, data types.
#![deny(unsafe_code)]

mod allocate;
mod config;
mod engine;
mod eviction;
mod groups;
#[cfg(all(loom, test))]
mod model;
mod stats;
mod storage;
mod sync;
mod values;
mod writer;

pub use policy::{Budget, Tick};

pub use config::{
    Config, ConfigError, Eviction, MERGED, MERGED_MAX, SEGMENT_BYTES, SEGMENT_BYTES_MAX,
    SEGMENT_BYTES_MIN, UnknownEviction,
};
pub use engine::Segcache;
pub use eviction::SegmentName;
pub use stats::{Census, Stats};
pub use storage::{
    Condition, Content, KEY_MAX, Key, MARKS_MAX, Payload, Receipt, Refused, Sizes, Stored,
    VALUE_MAX, Value, decimal,
};
pub use values::{Item, Unchanged};
pub use writer::Writer;
