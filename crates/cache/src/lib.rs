//! Where entries live, and the one host of eviction policies and expiry indexes.
//!
//! [`Shard`] joins four parts that know nothing of each other: the entries (here [`PackedEntries`]: a table
//! of tagged slots over an arena of blocks), an eviction policy, an expiry index, and the memory they
//! cost. Everything runs under the caller's lock and the caller's clock.
//!
//! Deliberately absent: locks, time, commands, data types (what is too large for a block is an
//! [`Outside`] object that the caller defines). Start reading with `packed.rs`, where the layout of
//! an entry is drawn, then `shard.rs`.
#![deny(unsafe_code)]

pub mod arena;
mod block;
mod blocks;
mod cells;
pub mod entries;
pub mod packed;
pub mod shard;
pub mod value;

pub mod prefetch;
pub mod table;

pub use arena::Arena;
pub use block::{INLINE_KEY_MAX, INLINE_VALUE_MAX, Shape, TAG_MAX};
pub use entries::{Entries, Owner};
pub use packed::PackedEntries;
pub use shard::{Scope, Shard};
pub use table::{Position as TablePosition, Table};
pub use value::{NewValue, Outside, Value};
