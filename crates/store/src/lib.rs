//! The keyspace: sixteen databases of keys with deadlines, cut into shards behind short locks.
//!
//! A [`Keyspace`] is shared by all workers; a [`View`] is some of its shards, locked, at one instant,
//! and commands run on it. Each shard holds its part of every database: a [`cache::Shard`] with its
//! own table, arena, policy and expiry index.
//!
//! Deliberately absent: sockets, protocol, clock, threads. The server hands in `now`, drives
//! [`Keyspace::expire`] and [`Keyspace::tend`], and takes out [`Event`]s.
//!
//! Start reading with `keyspace.rs`, then `view.rs`.
#![forbid(unsafe_code)]

mod event;
mod eviction;
mod facts;
pub mod hyperloglog;
mod keyspace;
mod memory;
mod object;
mod shard;
mod view;
mod whole;

pub use event::{Class, Event};
pub use facts::{Counters, DbFacts, EntryFacts, Expired, ExpiryFacts, Kind, MemoryFacts};
pub use keyspace::{DATABASES, Keyspace, Options};
pub use policy::Tick;
pub use view::{Key, NewDeadline, View, WrongType};
