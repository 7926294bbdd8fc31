//! Facts about the keyspace for INFO, OBJECT, MEMORY and DEBUG.

use policy::Tick;

/// Type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A byte string. A number is stored as a string, too.
    String,
    /// Sequence of byte strings.
    List,
    /// Distinct byte strings.
    Set,
    /// Distinct byte strings in the order of their scores.
    SortedSet,
    /// Fields with values.
    Hash,
    /// Entries in the order of their IDs.
    Stream,
}

/// Form in which a value is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// A string as plain bytes.
    Bytes,
    /// A collection of few elements in one byte array.
    Packed,
    /// A set of integers in one byte array.
    Integers,
    /// A collection of many elements in a structure on the heap.
    Large,
}

/// Facts about one entry.
#[derive(Clone, Copy, Debug)]
pub struct EntryFacts {
    /// Type of the value.
    pub kind: Kind,
    /// Form of the value.
    pub encoding: Encoding,
    /// Number of bytes of the entry: its block, its outside object, and its places in the table and
    /// in the expiry index.
    pub bytes: usize,
    /// Milliseconds since the last access; `None` if the policy does not record it.
    pub idle_ms: Option<u64>,
    /// Number of accesses as the policy counts them; `None` if the policy does not count them.
    pub frequency: Option<u32>,
    /// The key's own deadline.
    pub deadline: Option<Tick>,
}

/// Counters since the start or the last CONFIG RESETSTAT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Number of reads that found a live key.
    pub hits: u64,
    /// Number of reads that found no live key.
    pub misses: u64,
    /// Number of misses whose key was present but had expired.
    pub expiration_misses: u64,
    /// Number of keys removed because their deadline had passed.
    pub expired_keys: u64,
    /// Number of elements of collections removed because their deadline had passed.
    pub expired_elements: u64,
    /// Number of keys removed because memory was needed.
    pub evicted_keys: u64,
    /// Number of keys removed because one of their tags was invalidated.
    pub invalidated_keys: u64,
    /// Number of leases that clients got.
    pub leases: u64,
    /// Number of leases that ended early because a shard had too many.
    pub displaced_leases: u64,
    /// Number of values that were not stored because their token was not valid.
    pub refused_tokens: u64,
    /// Number of large values and keys of flushed databases that were dropped in the background.
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
        self.invalidated_keys += other.invalidated_keys;
        self.leases += other.leases;
        self.displaced_leases += other.displaced_leases;
        self.refused_tokens += other.refused_tokens;
        self.dropped_objects += other.dropped_objects;
    }
}

/// Facts about one database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DbFacts {
    /// Number of keys, among them expired ones that are not removed yet.
    pub keys: u64,
    /// Number of keys with their own deadline.
    pub with_deadline: u64,
    /// Number of keys with elements that have deadlines.
    pub with_element_deadlines: u64,
    /// Mean TTL of the keys in milliseconds, estimated from a sample in a large database.
    pub mean_ttl_ms: u64,
}

/// Memory in bytes, summed over all shards and databases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryFacts {
    /// Number of bytes in use: entries, tables, policies, expiry indexes and tags.
    pub used_bytes: u64,
    /// Number of bytes of live blocks and outside objects.
    pub entry_bytes: u64,
    /// Number of bytes of the hash tables.
    pub table_bytes: u64,
    /// Number of bytes of the eviction policies' structures, such as queues and ghosts.
    pub policy_bytes: u64,
    /// Number of bytes of the expiry indexes' structures, and on a replica of the record of keys
    /// that clients have written.
    pub expiry_bytes: u64,
    /// Number of bytes of the tags' names and of the lists of their keys. The numbers of a key's
    /// tags are part of its entry.
    pub tag_bytes: u64,
    /// Number of bytes of the statistics of classes.
    pub class_bytes: u64,
    /// Number of free bytes inside the arenas.
    pub arena_free_bytes: u64,
    /// Number of large values, and of keys in flushed databases, that wait to be dropped.
    pub pending_objects: u64,
    /// Number of bytes of these values. They are not part of `used_bytes`.
    pub pending_bytes: u64,
}

/// Tags of keys, summed over all shards and databases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TagFacts {
    /// Number of tags. A tag counts once in each shard in which it has keys.
    pub names: u64,
    /// Number of pairs of a key and one of its tags.
    pub pairs: u64,
    /// Number of pairs of a key and an invalidated tag. The keys are hidden and not removed yet.
    pub invalidated_pairs: u64,
    /// Number of keys that become stale before they expire, or that stand for no value.
    pub soft_keys: u64,
    /// Number of leases, among them some that have ended.
    pub leases: u64,
}

/// State of the expiry indexes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpiryFacts {
    /// Number of keys with their own deadline.
    pub keys_with_ttl: u64,
    /// Upper bound of the number of expired keys that are not removed yet.
    pub backlog_keys: u64,
    /// Number of bytes of these expired keys, estimated from the mean size of an entry.
    pub backlog_bytes: u64,
    /// Maximum time in milliseconds by which the index may return a key late; `None` if it has no
    /// bound.
    pub granularity_ms: Option<u64>,
    /// Number of bytes of the indexes.
    pub index_bytes: u64,
}

/// Result of one call of [`crate::Keyspace::expire`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expired {
    /// Number of keys removed.
    pub keys: u32,
    /// Number of expired keys and elements removed.
    pub count: u32,
    /// Number of bytes freed.
    pub bytes: u64,
    /// Whether more keys or elements are due now, so that the caller should call again soon.
    pub more: bool,
    /// Whether the shard was locked, so that nothing was done.
    pub is_locked: bool,
    /// Instant at which the next call is needed if `more` is false; `None` if nothing has a
    /// deadline.
    pub next_due: Option<Tick>,
}
