//! What the keyspace tells of itself.

use policy::Tick;

/// A type of value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes.
    String,
    /// A list.
    List,
    /// A set.
    Set,
    /// A sorted set.
    SortedSet,
    /// A hash.
    Hash,
}

/// How a value is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// A string's bytes.
    Bytes,
    /// Few elements, in one run of bytes.
    Packed,
    /// A set of integers in one run of bytes.
    Integers,
    /// Many elements, in a structure of their own.
    Large,
}

/// One entry, for OBJECT, MEMORY USAGE and DEBUG.
#[derive(Clone, Copy, Debug)]
pub struct EntryFacts {
    /// Its type.
    pub kind: Kind,
    /// How it is held.
    pub encoding: Encoding,
    /// All bytes that it costs: its block, what it holds outside, its share of table and indexes.
    pub bytes: usize,
    /// Milliseconds since it was last asked for; `None` where the policy in force does not keep it.
    pub idle_ms: Option<u64>,
    /// How often it was asked for, as the policy in force counts; `None` where it does not.
    pub frequency: Option<u32>,
    /// When it dies.
    pub deadline: Option<Tick>,
}

/// Counters since the start or CONFIG RESETSTAT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Reads that found a live key.
    pub hits: u64,
    /// Reads that did not.
    pub misses: u64,
    /// Those of the misses whose key was held but dead.
    pub expiration_misses: u64,
    /// Keys that left because their deadline had passed.
    pub expired_keys: u64,
    /// Elements of collections that left because their deadline had passed.
    pub expired_elements: u64,
    /// Keys that left because memory was needed.
    pub evicted_keys: u64,
    /// Large values, and keys of flushed databases, that were dropped in the background.
    pub dropped_objects: u64,
}

impl Counters {
    pub(crate) fn add(&mut self, other: &Counters) {
        self.hits += other.hits;
        self.misses += other.misses;
        self.expiration_misses += other.expiration_misses;
        self.expired_keys += other.expired_keys;
        self.expired_elements += other.expired_elements;
        self.evicted_keys += other.evicted_keys;
        self.dropped_objects += other.dropped_objects;
    }
}

/// One database in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DbFacts {
    /// Its keys; a dead one is counted no longer than the expiry lag.
    pub keys: u64,
    /// Those with a deadline of their own.
    pub with_deadline: u64,
    /// Those with elements that have deadlines.
    pub with_element_deadlines: u64,
    /// Mean of the keys' remaining time in milliseconds, estimated from a sample where there are many.
    pub mean_ttl_ms: u64,
}

/// Bytes, summed over all shards and databases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryFacts {
    /// All of the following but the free room, and the fixed parts.
    pub used_bytes: u64,
    /// Live blocks and what they hold outside.
    pub entry_bytes: u64,
    /// Tables.
    pub table_bytes: u64,
    /// Eviction policies: queues, ghosts.
    pub policy_bytes: u64,
    /// Expiry indexes.
    pub expiry_bytes: u64,
    /// Free room inside the arenas.
    pub arena_free_bytes: u64,
    /// Large values that are no more part of any key and wait to be dropped, and the keys of flushed
    /// databases that are not yet taken apart.
    pub pending_objects: u64,
}

/// What the expiry indexes know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpiryFacts {
    /// Keys with a deadline of their own.
    pub keys_with_ttl: u64,
    /// Dead keys still held: an upper bound, without looking at any.
    pub backlog_keys: u64,
    /// Their bytes, estimated from the mean entry.
    pub backlog_bytes: u64,
    /// How late in ms the index may report; `None`: without a bound.
    pub granularity_ms: Option<u64>,
    /// Bytes of the indexes.
    pub index_bytes: u64,
}

/// What one call of [`crate::Keyspace::expire`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expired {
    /// Keys removed.
    pub keys: u32,
    /// Keys and elements that were dead and are gone.
    pub count: u32,
    /// Their bytes.
    pub bytes: u64,
    /// More is due now: call again soon.
    pub more: bool,
    /// When to call again otherwise.
    pub next_due: Option<Tick>,
}
