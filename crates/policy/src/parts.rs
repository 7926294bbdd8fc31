//! Parts that several algorithms are built from. A part moves here at its third use.
//!
//! Start with [`queue`], the FIFO of entries, and what it is built from: [`ring`], the FIFO of
//! slots without slack, and [`epochs`], which makes it safe to leave references behind when an
//! entry leaves.

pub mod array;
pub mod bloom;
pub mod chance;
pub mod chunks;
pub mod epochs;
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
