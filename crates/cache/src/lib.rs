//! Storage of entries, and the host of eviction policies and expiry indexes.
//!
//! [`Shard`] joins independent parts: entries (here [`PackedEntries`], a table of tagged slots over
//! an arena of blocks), an eviction policy, an expiry index, groups of entries that are removed at
//! one instant, and the accounting of their memory. All of it runs under the caller's lock and on
//! the caller's clock.
//!
//! The crate has no locks, no time, no commands and no data types. A value that is too large for a
//! block is an [`Outside`] object of the caller's type.
//!
//! Start reading with `block.rs`, where the layout of an entry is drawn, then `packed.rs` and
//! `shard.rs`.
#![deny(unsafe_code)]

pub mod arena;
mod block;
mod blocks;
mod cells;
pub mod entries;
pub mod groups;
pub mod packed;
pub mod shard;
pub mod value;

pub mod prefetch;
pub mod table;

pub use arena::Arena;
pub use block::{INLINE_KEY_MAX, INLINE_VALUE_MAX, MARKS_MAX, Shape, TAG_MAX};
pub use entries::{Entries, OWNERS, Owner, PROTECTED};
pub use groups::{GroupFacts, Marks};
pub use packed::PackedEntries;
pub use shard::{Scope, Shard};
pub use table::{Position as TablePosition, Table};
pub use value::{NewValue, Outside, Value};
