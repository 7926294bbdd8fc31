//! Data structures that several algorithms are built from. A structure moves here when a third
//! algorithm needs it.
//!
//! Start with [`queue`], the FIFO of entries, and its building blocks: [`ring`], a compact FIFO of
//! slots, and [`epochs`], which makes it safe to leave references in a queue when their entries
//! leave the cache.

pub mod array;
pub mod bloom;
pub mod chance;
pub mod chunks;
pub mod epochs;
#[cfg(any(test, not(feature = "std")))]
pub mod float;
pub mod frequencies;
pub mod ghost;
pub mod heap;
pub mod history;
pub mod list;
pub mod lookup;
pub mod pool;
pub mod queue;
pub mod radix_tree;
pub mod ring;
pub mod shelf;
pub mod sketch;
