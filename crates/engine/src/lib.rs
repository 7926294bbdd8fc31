//! The interface between commands and storage engines.
//!
//! Commands on strings and keys are written once, against the trait [`Strings`], and memcached's
//! requests against the trait [`items::Items`]. Both traits have two implementations:
//! [`slab::Slab`], which is the locked shards of the keyspace, and [`segment::Handle`], which is a
//! worker's access to the segment engine. Each method is atomic to other clients: the slab engine
//! has locked the key's shard, and the segment engine repeats a change if another client has
//! changed the value in the meantime. The engine is a type parameter of the commands, so that no
//! call is virtual.
//!
//! Commands on other types exist only on the slab engine. [`Facts`] provides what INFO, `stats` and
//! the workers need from either engine.
#![forbid(unsafe_code)]

pub mod condition;
pub mod items;
pub mod lifetime;
pub mod refusal;
pub mod segment;
pub mod slab;

use crate::lifetime::{Conditions, DeadlineChange, When};
use crate::refusal::Refusal;
use condition::Condition;
use session::stats::Stats;
use settings::Config;
use store::{Counters, DbFacts, Instants, Key, Kind, MemoryFacts, Soft, Tick};
use wire::Reply;

/// Number of bytes after which a step of MGET or MSET ends on the segment engine. A step exceeds it
/// by at most one value, which is smaller than a segment. The first write to the pages of a segment
/// or a reply costs more than the copy: 2.5 ms per MiB in a virtual machine.
pub const STEP_BYTES: usize = 256 << 10;

/// Commands on strings, and commands on keys of any type.
pub trait Strings {
    /// Number of reply bytes after which a command that reads many values pauses, so that other
    /// clients are served before the rest. Only an engine whose commands need not be atomic has
    /// such a limit.
    const REPLY_STEP_BYTES: usize = usize::MAX;

    /// Returns the time at which the current requests run.
    fn now(&self) -> Tick;

    /// Returns that time and the instant that decides which keys have expired.
    #[inline]
    fn instants(&self) -> Instants {
        Instants::from(self.now())
    }

    /// Returns a key with its hash.
    fn key<'k>(&self, db: u8, bytes: &'k [u8]) -> Key<'k>;

    /// Prefetches the part of the hash table in which a key is looked up.
    fn prefetch(&self, key: &Key<'_>);

    /// Prefetches the value of a key. Call it once the key's part of the table is in the CPU cache.
    fn prefetch_value(&self, key: &Key<'_>);

    /// Publishes a `keymiss` event for a read that found no value.
    fn missed(&mut self, _key: &Key<'_>) {}

    /// Replies with the value or null. Returns whether there was a value. Counts a hit or a miss.
    ///
    /// # Errors
    /// The key holds another type.
    fn reply_value(&mut self, key: &Key<'_>, reply: &mut Reply<'_>) -> Result<bool, Refusal>;

    /// Returns the length of the value in bytes; `None` for a missing key.
    ///
    /// # Errors
    ///
    /// The key holds another type.
    fn value_len(&mut self, key: &Key<'_>) -> Result<Option<usize>, Refusal>;

    /// Checks that a key and a value are not too large to be stored. A command that stores several
    /// values checks all of them before it stores the first one.
    ///
    /// # Errors
    ///
    /// The key or the value is too large.
    fn check_size(&self, _key: &[u8], _value: &[u8]) -> Result<(), Refusal> {
        Ok(())
    }

    /// Stores a value if `condition` holds. Returns whether it was stored. Replies with the old
    /// value if `old` is given.
    ///
    /// # Errors
    ///
    /// There is no room, the key or the value is too large, or the key holds another type and its
    /// old value is needed.
    fn put(
        &mut self,
        key: &Key<'_>,
        value: &[u8],
        expiration: DeadlineChange,
        condition: &Condition<'_>,
        old: Option<&mut Reply<'_>>,
    ) -> Result<bool, Refusal>;

    /// Returns an error unless keys can have tags.
    ///
    /// # Errors
    ///
    /// The engine has none.
    fn check_tags(&self) -> Result<(), Refusal> {
        Err(Refusal::Message("ERR the segment engine has no tags"))
    }

    /// Gives a key these tags and no others, if it exists.
    fn set_tags(&mut self, _key: &Key<'_>, _tags: &[&[u8]]) {}

    /// Returns an error unless keys can be stale or negative, and have leases.
    ///
    /// # Errors
    ///
    /// The engine has no such keys.
    fn check_soft(&self) -> Result<(), Refusal> {
        Err(Refusal::Message(
            "ERR the segment engine has no stale or negative values and no leases",
        ))
    }

    /// Whether the value of a key is stale.
    fn is_stale(&mut self, _key: &Key<'_>) -> bool {
        false
    }

    /// Sets the freshness of a key, if it exists.
    fn set_soft(&mut self, _key: &Key<'_>, _soft: Soft) {}

    /// Whether a client with this token may store a value with these tags.
    fn permits(&mut self, _key: &Key<'_>, _token: u64, _tags: Option<&[&[u8]]>) -> bool {
        false
    }

    /// Appends to a value and returns its new length.
    ///
    /// # Errors
    ///
    /// There is no room, the value becomes too large, or the key holds another type.
    fn append(&mut self, key: &Key<'_>, value: &[u8]) -> Result<usize, Refusal>;

    /// Replies with the value or null and deletes the key.
    ///
    /// # Errors
    /// The key holds another type.
    fn take(&mut self, key: &Key<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal>;

    /// Replies with the value or null and changes the deadline. `expiration` is called only if
    /// there is a value.
    ///
    /// # Errors
    ///
    /// The key holds another type, there is no room, or `expiration` fails.
    fn reply_and_expire(
        &mut self,
        key: &Key<'_>,
        reply: &mut Reply<'_>,
        expiration: impl Fn() -> Result<DeadlineChange, Refusal>,
    ) -> Result<(), Refusal>;

    /// Adds to the integer that a key holds; a missing key counts as 0. Returns the sum.
    ///
    /// # Errors
    ///
    /// The value is not an integer, the sum overflows, there is no room, or the key holds another
    /// type.
    fn add(&mut self, key: &Key<'_>, increment: i64) -> Result<i64, Refusal>;

    /// Deletes a key. Returns whether it existed.
    fn remove(&mut self, key: &Key<'_>) -> bool;

    /// Whether a key exists. Counts as an access, and as a hit or a miss.
    fn contains(&mut self, key: &Key<'_>) -> bool;

    /// Returns the type of a key's value; `None` for a missing key.
    fn kind(&mut self, key: &Key<'_>) -> Option<Kind>;

    /// Returns the deadline of a key: `None` for a missing key, `Some(None)` for a key without a
    /// deadline.
    fn deadline(&mut self, key: &Key<'_>) -> Option<Option<Tick>>;

    /// Sets the deadline of a key if the conditions hold. A deadline in the past deletes the key.
    /// Returns whether anything changed.
    ///
    /// # Errors
    ///
    /// There is no room.
    fn expire(
        &mut self,
        key: &Key<'_>,
        when: When,
        conditions: &Conditions,
    ) -> Result<bool, Refusal>;

    /// Removes the deadline of a key. Returns whether it had one.
    ///
    /// # Errors
    ///
    /// There is no room.
    fn persist(&mut self, key: &Key<'_>) -> Result<bool, Refusal>;

    /// Returns the number of keys in a database.
    fn len(&mut self, db: u8) -> usize;

    /// Deletes all keys of a database.
    fn flush(&mut self, db: u8);
}

/// Facts about an engine as a whole, and operations on it.
pub trait Facts {
    /// Returns the number of databases.
    fn databases(&self) -> usize;

    /// Returns the memory used, by purpose.
    fn memory_facts(&self) -> MemoryFacts;

    /// Returns the number of bytes of the keys and all indexes. May wait for other workers.
    fn used_bytes(&self) -> u64;

    /// Returns an approximation of [`Facts::used_bytes`] without waiting for other workers. For
    /// periodic tasks.
    fn published_bytes(&self) -> u64;

    /// Returns the number of keys in a database and facts about their TTLs.
    fn db_facts(&self, db: u8, now: Tick) -> DbFacts;

    /// Returns the counters since the start or the last CONFIG RESETSTAT.
    fn counters(&self, stats: &Stats) -> Counters;

    /// Sets the counters to 0.
    fn reset_counters(&self);

    /// Returns the name of the eviction policy.
    fn eviction_name(&self, config: &Config) -> String;

    /// Returns a short description of the engine for the log.
    fn describe(&self, config: &Config) -> String;

    /// Returns a warning for the log if the engine is too small for this number of threads.
    fn warning(&self, threads: usize) -> Option<String>;

    /// Deletes all keys of a database. The caller must not hold the lock of any shard.
    fn clear(&self, db: u8, now: Tick);

    /// Whether the memory limit and the notifications can be changed at run time.
    ///
    /// # Errors
    ///
    /// The engine reads them when it is created only.
    fn allow_change(&self) -> Result<(), String>;

    /// Makes `maxmemory-policy` the eviction policy.
    ///
    /// # Errors
    ///
    /// The engine does not have this policy, or has none.
    fn change_policy(&self, config: &Config) -> Result<(), String>;

    /// Makes `segment-eviction` the rule that chooses segments, if the engine has segments.
    ///
    /// # Errors
    ///
    /// The rule needs more segments than there are.
    fn change_eviction(&self, config: &Config) -> Result<(), String>;
}
