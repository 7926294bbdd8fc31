//! The keyspace: sixteen databases of keys with deadlines, divided into shards behind short locks.
//!
//! A [`Keyspace`] is shared by all workers. A [`View`] is one or more of its shards, locked, at one
//! instant; commands run on it. Each shard holds its part of every database: a [`cache::Shard`]
//! with its own table, arena, policy and expiry index.
//!
//! Collections (`types/`) are independent of keys and locks. Few elements are packed into one run
//! of bytes; many are stored in pages (`elements/`). Each element may have a deadline. The expiry
//! index holds the entry of such a collection under the earliest of these deadlines and the key's
//! own.
//!
//! The crate has no sockets, no protocol, no clock and no threads. The server passes `now`, calls
//! [`Keyspace::expire`] and [`Keyspace::background_step`], and takes out the [`Event`]s.
//!
//! Start reading with `keyspace.rs`, then `view.rs`.
#![forbid(unsafe_code)]

mod census;
mod classes;
mod collection;
mod element_ttl;
mod elements;
mod event;
mod eviction;
mod facts;
pub mod hyperloglog;
mod item;
mod journal;
mod keyspace;
mod leases;
mod lent;
mod lifetimes;
mod limits;
mod memory;
mod object;
mod order;
mod quotas;
mod saving;
mod shard;
mod shared;
mod sizes;
mod snapshot;
mod soft;
mod tagging;
mod tags;
mod tracking;
mod types;
mod view;
mod waiting;

pub use census::{Census, TTL_BINS};
pub use classes::{
    CLASSES_MAX, ClassCounts, ClassFacts, ClassRule, ClassSums, Classes, MISS_CAUSES, OTHER,
    PREFIX_BYTES_MAX, TtlRules,
};
pub use collection::Scene;
pub use event::{Class, Event};
pub use eviction::PolicyChoice;
pub use facts::{
    Counters, DbFacts, Encoding, EntryFacts, Expired, ExpiryFacts, Kind, MemoryFacts, TagFacts,
};
pub use item::{ItemHead, WrongType};
pub use journal::{Lost, Removed};
pub use keyspace::{Keyspace, Options, SHARDS_MAX};
pub use leases::Leased;
pub use lifetimes::{SPAN_BINS, Spans};
pub use limits::Limits;
pub use policy::Tick;
pub use quotas::{DbLimits, Full, QuotaFacts};
pub use saving::{Batch, PackedRecord, Record, RecordValue, SnapshotSink};
pub use shared::{Condition, DATABASES_MAX, Key};
pub use sizes::{SIZE_BINS, SizeHistograms};
pub use snapshot::{Loan, SnapshotStep};
pub use soft::{Soft, WINDOW_MS_MAX};
pub use tagging::{Labels, TAG_BYTES_MAX, TAGS_MAX, decode_labels};
pub use tracking::{Invalidation, InvalidationCause};
/// Streams and their parts.
pub mod stream {
    pub use crate::types::{
        AutoClaimed, Claim, Claimed, Consumer, ConsumerIndex, Delivery, Entry, Expired, Fields,
        Group, IDEMPOTENCE_SECONDS, IDEMPOTENCE_SIZE, IdempotenceFacts, NewFields, Pending,
        References, Removed, StreamFacts, StreamId, Trim, TrimTo, Trimmed,
    };
}
pub use types::{End, Hash, Interval, List, Set, SortedSet, Stream};
pub use view::{
    AnyCollection, Edited, Extent, Freshness, Instants, Lease, NewDeadline, Pages, Tracking, View,
};
