//! The simulator: replays traces through eviction policies and expiry indexes, in the host that
//! serves.
//!
//! [`read`] reads a trace once and turns it into [`Columns`], in which each key is a dense id; a
//! prepared trace already has these columns. From then on, an id is a slot: [`sweep`] replays the
//! trace for each policy and size through [`cache::Shard`] over arrays, without hashing a key
//! again. Hits, misses, evictions and expirations run the same shard code as in the server.
//!
//! Deliberately absent: files, formats, arguments, printing; opinions about policies. Start reading
//! with `replay.rs`, then `dense.rs`.
#![forbid(unsafe_code)]

pub mod advise;
pub mod analyze;
pub mod cluster;
mod columns;
mod contestant;
mod cpu;
pub mod curve;
mod dense;
mod error;
pub mod experiments;
mod explain;
pub mod flash;
mod foresight;
pub mod headlines;
mod intern;
mod learned;
mod never;
mod replay;
pub mod report;
mod result;
mod rules;
pub mod segments;
mod size;
mod sweep;

pub use columns::{Columns, REQUESTS_MAX};
pub use contestant::{BadContestant, Contestant};
pub use error::Error;
pub use explain::{CLASSES, Explained, PARTS};
pub use intern::{Interner, Interning, read};
pub use learn::any::Spec;
pub use learn::evict::gl_cache::feature_names;
pub use learned::Learned;
pub use replay::STOPPED;
pub use result::{Counts, ReplayResult};
pub use rules::{Foresight, Rules, Unit};
pub use size::{BadSize, Size, scaled};
pub use sweep::{Configuration, replay_count, replay_policy, sweep};
