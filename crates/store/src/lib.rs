//! The keyspace: sixteen databases of keys with deadlines, cut into shards behind short locks.
//!
//! A [`Keyspace`] is shared by all workers; a [`View`] is some of its shards, locked, at one instant,
//! and commands run on it. Each shard holds its part of every database: a [`cache::Shard`] with its
//! own table, arena, policy and expiry index.
//!
//! Collections are values of their own (`types/`): few elements are packed into one run of bytes, many
//! lie in pages (`elements/`). Each element may have a deadline; the entry that holds a collection is
//! filed under the earliest of them and of its own.
//!
//! Deliberately absent: sockets, protocol, clock, threads. The server hands in `now`, drives
//! [`Keyspace::expire`] and [`Keyspace::background_step`], and takes out [`Event`]s.
//!
//! Start reading with `keyspace.rs`, then `view.rs`.
#![forbid(unsafe_code)]

mod collection;
mod element_ttl;
mod elements;
mod event;
mod eviction;
mod facts;
pub mod hyperloglog;
mod item;
mod keyspace;
mod limits;
mod memory;
mod object;
mod order;
mod shard;
mod shared;
mod tags;
mod types;
mod view;
mod waiting;

pub use collection::Scene;
pub use event::{Class, Event};
pub use eviction::PolicyChoice;
pub use facts::{Counters, DbFacts, Encoding, EntryFacts, Expired, ExpiryFacts, Kind, MemoryFacts};
pub use item::{ItemHead, WrongType};
pub use keyspace::{Keyspace, Options};
pub use limits::Limits;
pub use policy::Tick;
pub use shared::{DATABASES, Key};
pub use types::{End, Hash, Interval, List, Set, SortedSet};
pub use view::{Edited, NewDeadline, Pages, View};
