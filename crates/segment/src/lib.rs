//! Mayfly's segment engine, an implementation of Segcache: a cache that keeps objects in *segments*
//! instead of one by one.
//!
//! Source: J. Yang, Y. Yue, R. Vinayak, *Segcache: a memory-efficient and scalable in-memory
//! key-value cache for small objects*, NSDI 2021; chapter 4 of J. Yang, *Designing Efficient and
//! Scalable Key-value Cache Management Systems*, CMU 2024.
//!
//! # The idea
//! Memory is divided into segments of equal size, 1 MiB by default. A writer appends objects to a
//! segment until it is full, and then seals it. All objects of a segment have about the same TTL,
//! because TTLs are divided into *TTL buckets*, each with its own segments in a list, the oldest
//! first. Each object's TTL is rounded down to its bucket's, so that
//!
//! - an object stores no deadline and no pointers of a queue: 5 bytes of metadata instead of some
//!   50;
//! - expiry looks at the heads of the lists alone, and removes a whole segment at once;
//! - eviction *merges* some segments of a list into fewer, which keep the objects most frequently
//!   requested for their size. The others are evicted. Nothing is evicted object by object.
//!
//! A hash table of cache lines finds objects. It stores a 12-bit tag, a frequency and the location
//! of each object, and it lies in segments itself.
//!
//! ```text
//! TTL bucket 8 s    oldest [ segment 7 ]──[ segment 3 ]──[ segment 9 ] being filled
//! TTL bucket 16 s          [ segment 4 ]──[ segment 1 ]
//! …
//! hash table               [ segment 2 ]
//!
//! a segment         [ object | object | object | ……… free ]      its two headers: `header.rs`
//! an object         [ metadata 5 | key | value ]                 `stored.rs`
//! a line            [ information | 7 slots ]                    `line.rs`
//! ```
//!
//! # Where to read
//! ```text
//! engine.rs     requests of all kinds of content    values.rs    requests of an engine of bytes
//! allocate.rs   room for new objects, work ahead    writer.rs    a writing thread's state
//! config.rs     configuration                       stats.rs     sizes and counts
//! groups.rs     the engine as a learner sees it (experimental)
//!
//! storage/      what holds objects and finds them
//!   heap.rs       segments, and the proof for readers
//!   header.rs     a segment's headers, with usage.rs
//!   directory.rs  the one lock; lists.rs: free segments and those of each TTL bucket
//!   plan.rs       the trait between the two rooms
//!   open.rs       which segment an object is written to, with ttl.rs
//!   table.rs      the hash table, with line.rs, lines.rs, chain.rs, search.rs
//!   store.rs      the steps of writes; read.rs: reads
//!   saved.rs      what an engine in a file (cells.rs) needs beside its segments
//!   content.rs    kinds of content: stored.rs for bytes, sizes.rs for simulations
//!
//! eviction/     what removes objects, a segment at a time
//!   begin.rs      expiry, and which way of choosing is used
//!   choice.rs     what evictions choose from; one file for each way of choosing:
//!                 rent.rs, in_turn.rs, compact.rs, single.rs, ranked.rs
//!   merge.rs      what a merge keeps
//!   job.rs        segments being removed; step.rs: the steps of that
//!   evictor.rs    state, and the change to another eviction
//!   gl_cache.rs   experimental: learned ranking, with learning.rs and watch.rs
//! ```
//! Start with `storage/heap.rs`, which proves that a reader never returns another object's bytes.
//! Storage does not know how segments are chosen: it reports changes of its lists through one small
//! trait, `EvictionPlan`. Ways of choosing see segments, not objects. Imports point down: engine,
//! eviction, storage.
//!
//! # Memory and time
//! Bytes of an object with a 16-byte key and a 3-byte value:
//! ```text
//! object      24     5 of metadata, key and value, rounded up to a multiple of 8
//! table       12.3   64 bytes a line; 1.9 lines a chain of 10 objects, chains half to fully split
//! segments    0.1    unused tails, headers, directories
//! ```
//! A get that hits waits for memory twice: for its line of the table, and for its object. It reads
//! 1.5 lines of the table if all keys are requested equally (a second line for the objects after
//! the first six or seven), and nearly 1 if some are requested more often, because writes and
//! merges move those to the first line; a quarter of a line for the segment's stamp, which the
//! nearest cache usually has (16 bytes a segment); and the lines of the object. Two small
//! directories, of pieces of the table and of chunks of memory, are read first. A prefetched batch
//! waits for neither. A miss reads the lines of its chain, and one object in 450 misses, because a
//! tag has 12 bits. A set writes its object behind the last one, and the line.
//!
//! # Bounds
//! - A read takes no lock and waits for no thread. It starts again if the segment was freed while
//!   it copied, which only another thread's progress can cause.
//! - A chain has at most 16 lines. A write locks one chain, and scans it; some writes also split a
//!   chain, one insertion at most two.
//! - A set that finds no free memory reads the objects of a few segments (those of a merge). With
//!   32 or more segments this is avoided: one segment is kept free, and each set does a part of the
//!   work, in proportion to its bytes. [`Segcache::maintain`] takes a budget of objects.
//! - A segment's memory is taken from the system when it is first used, and zeroed a page at a time
//!   (2 MiB where large pages back it). It is never given back.
//!
//! # Duties of the caller
//! The caller passes the time in each call. Each writing thread has a [`Writer`] and calls
//! [`Segcache::maintain`] now and then, even if it writes nothing: it may have begun an eviction,
//! and this is where expired objects are removed.
//!
//! # Departures from the source
//! - Segments and table share one budget: the table lies in segments and grows by linear hashing.
//!   The source's has a fixed size.
//! - Offsets count words of 8 bytes. An object wastes 3.5 bytes on average, and a segment may have
//!   8 MiB.
//! - Whether an object was counted in the current second is kept for each slot, in spare bits of
//!   the lock's byte. With one time of access for a whole line, a popular key would keep its
//!   neighbours from being counted.
//! - Readers keep no reference count of a segment. They copy, and then check whether it was freed.
//! - Values changed by `incr` become numbers of 64 bits, so that a change in place is one store.
//! - The default eviction chooses segments by age and charges rent (`rent.rs`) instead of taking
//!   buckets in turn: the segments of all buckets wait in one order, and frequencies pay for room
//!   instead of being reset to 0.
//! - Merges in turn proceed in rounds over all buckets: segments created in a round wait for the
//!   next.
//! - A merge of nearly empty segments takes further ones of the list as long as all objects fit. If
//!   no list has two segments to merge, segments of several TTLs whose objects all fit into one are
//!   merged (`compact.rs`).
//! - Short TTLs have finer buckets, of 25 and 500 ms, so that rounding does not halve them. An
//!   object goes to any open segment with a suitable deadline, not to that of its bucket alone, and
//!   a writer with many open segments opens fewer (`open.rs`). Otherwise widely spread TTLs would
//!   fill memory with nearly empty segments.
//! - If an object is written again and keeps its deadline, the deadline itself is rounded, once,
//!   instead of the remaining TTL.
//!
//! This crate has no clock, threads, protocols or data types.
#![deny(unsafe_code)]

/// The example of the README, compiled and run as a test of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

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
pub use engine::{FileSizes, Segcache};
pub use eviction::SegmentName;
pub use stats::{Census, Stats};
pub use storage::{
    Condition, Content, KEY_MAX, Key, MARKS_MAX, Payload, Receipt, Refused, Sizes, Stored,
    VALUE_MAX, Value, decimal,
};
pub use values::{Item, Unchanged};
pub use writer::Writer;
