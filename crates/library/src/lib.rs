//! A concurrent cache for Rust programs in which entries expire on time.
//!
//! ```
//! use mayfly::Cache;
//! use std::time::Duration;
//!
//! let cache: Cache<String, u32> = Cache::new(10_000);
//! cache.insert("answer".into(), 42);
//! cache.insert_with_ttl("session".into(), 7, Duration::from_secs(60));
//! assert_eq!(cache.get("answer"), Some(42));
//!
//! // At most one caller per key loads; the others wait for its value.
//! let length = cache.get_with("text".into(), || 4);
//! assert_eq!(length, 4);
//! ```
//!
//! - **Expiry on time.** Each entry may have a time to live and a time to idle. A thread that all
//!   caches of the process share removes what is due and calls the removal listener, within
//!   milliseconds and without any traffic. Instead of the thread, a task of any runtime or the
//!   program itself can do it ([`Timer`]). [`Stats`] reports how late removals were.
//! - **Reads without locks.** A look-up takes no lock. With policies that promote lazily, such as
//!   the default S3-FIFO-W, it writes shared memory only when it marks an entry that was not
//!   marked.
//! - **Any policy.** The eviction policies of the Mayfly server and simulator run here unchanged:
//!   [`CacheBuilder::policy_named`].
//! - **Loading**, once per key at a time, by threads and by tasks: [`Cache::get_with`],
//!   [`Cache::try_get_with_async`], with reloads ahead of time ([`CacheBuilder::refresh_ahead`]),
//!   and remembering absent values ([`CacheBuilder::negative_ttl`]).
//! - [`unsync::Cache`] is a variant for one thread, without atomic operations on values.
//!
//! # How it works
//!
//! A cache is split by the key's hash into shards. The part of a shard that readers use is a table
//! of cache lines with twelve tagged slots each (`table.rs`), and rows of entries (`rows.rs`).
//! Behind a lock are the policy, the expiry index, and lists of slots.
//!
//! ```text
//! bytes per entry of two u64          S3-FIFO    SIEVE
//!   row: pair 16, policy 1, distance 1     18       18
//!   table: 5⅓, at 75 to 87 % full    6.1 to 7.1   the same
//!   policy: queue, ghosts                 9.5        5
//!   a deadline, and its reference     8 + 4.3   8 + 4.3
//! ```
//!
//! - **A read** pins its thread (two plain stores to its own cache line), finds the slot, compares
//!   the deadline with the clock if there is one, clones the value, and marks the entry by a
//!   compare-and-swap if the policy's rule changes its bits.
//! - **Pairs are immutable.** An insertion under a present key writes a new pair to another slot
//!   and stores that slot in the entry's place in the table. The place, not the slot, is the
//!   entry's name for policy and index, so that neither notices the replacement.
//! - **Slots are reused after a grace period** (`epoch.rs`). Its barrier is executed by the writer
//!   for all threads (`membarrier`), once per 32 or 128 entries that left, or sooner for values
//!   that own something.
//! - **Policies that change their structure at a hit** (LRU, ARC, W-TinyLFU …) receive hits through
//!   small buffers that may lose some.
//! - **Extending an idle time** costs a compare-and-swap, because the index reads the later
//!   deadline when it reaches the entry.
//!
//! # What calls may do
//!
//! Weighers, hooks, loaders, listeners, and closures are called without locks and may use the
//! cache. `Hash` and `Eq` of keys run under a shard's lock and must not use the same cache. A panic
//! of any of them leaves the cache consistent. A listener or a destructor is not called within
//! another one, but after it ([`CacheBuilder::listener`]).
//!
//! Keys and values of entries that have left are dropped without locks, once no thread can see
//! them. A call that makes a single entry leave usually drops it before it returns: once in some
//! milliseconds, it waits for the grace period. Entries that leave in between are dropped with the
//! next 32 removals of the shard, or by the timer after at most 10 ms. A thread within a closure of
//! [`Cache::read`] or [`Cache::for_each`] delays that until the closure has returned, and under
//! [`Timer::Manual`] it waits for [`Cache::expire`].
//!
//! # Limits
//!
//! - The capacity is divided evenly among shards, so that the cache may hold a few entries less
//!   than its capacity when keys are distributed unevenly.
//! - A table grows step by step: each insertion moves at most twelve entries to the larger table,
//!   and meanwhile a look-up that misses reads both. Caches with a capacity in entries have
//!   full-size tables from the start; with a weigher, [`CacheBuilder::expected_entries`] has the
//!   same effect.
//! - While a closure of [`Cache::read`], [`Cache::compute`], [`Cache::for_each`] or
//!   [`Cache::invalidate_if`] runs, memory that leaves any cache of the process is kept.
#![deny(unsafe_code)]
#![cfg_attr(loom, expect(dead_code, reason = "the models use a part of the crate"))]
#![warn(missing_docs)]

#[cfg(not(loom))]
mod builder;
#[cfg(not(loom))]
mod cache;
mod cause;
#[cfg(not(loom))]
mod clock;
#[cfg(not(loom))]
mod core;
#[cfg(not(loom))]
mod delivery;
#[cfg(not(loom))]
mod entry;
mod epoch;
#[cfg(not(loom))]
mod expiry;
#[cfg(not(loom))]
mod flight;
#[cfg(not(loom))]
mod hits;
#[cfg(not(loom))]
mod inner;
#[cfg(not(loom))]
mod lag;
#[cfg(not(loom))]
mod lines;
#[cfg(not(loom))]
mod load;
#[cfg(not(loom))]
mod loads;
#[cfg(not(loom))]
mod map;
#[cfg(all(loom, test))]
mod model;
#[cfg(not(loom))]
mod pace;
#[cfg(not(loom))]
mod rows;
#[cfg(all(feature = "serde", not(loom)))]
mod save;
#[cfg(not(loom))]
mod shard;
#[cfg(not(loom))]
mod stats;
mod sync;
mod table;
#[cfg(not(loom))]
mod timer;
#[cfg(not(loom))]
pub mod unsync;

#[cfg(not(loom))]
pub use builder::{BuildError, CacheBuilder, RandomState};
#[cfg(not(loom))]
pub use cache::Cache;
pub use cause::Cause;
#[cfg(not(loom))]
pub use clock::{Clock, ManualClock};
#[cfg(not(loom))]
pub use entry::{Entry, Op};
#[cfg(not(loom))]
pub use expiry::Expiry;
#[cfg(not(loom))]
pub use load::Loading;
pub use policy::any::PolicySpec;
#[cfg(all(feature = "serde", not(loom)))]
pub use save::Saved;
#[cfg(not(loom))]
pub use stats::Stats;
#[cfg(not(loom))]
pub use timer::Timer;

/// The examples of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The examples of the guide, which belongs to the project's documentation site, are tests, too.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/library.md")]
#[doc = include_str!("../../../docs/guide/library-from-others.md")]
struct Guide;
