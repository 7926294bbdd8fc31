//! Types of requests to the engine and of their results.

use super::ttl::NEVER;
use policy::Tick;

/// A key with its hash, which is computed once.
#[derive(Clone, Copy, Debug)]
pub struct Key<K> {
    pub(crate) key: K,
    pub(crate) hash: u64,
}

impl<K> Key<K> {
    /// Combines a key with a hash that [`Key::hash`] returned before, in the same engine.
    #[inline(always)]
    pub fn hashed(key: K, hash: u64) -> Self {
        Key { key, hash }
    }

    /// Returns the hash. It depends on the engine's secret, so that it is valid in this engine
    /// only.
    #[inline(always)]
    pub fn hash(&self) -> u64 {
        self.hash
    }
}

/// Condition for storing or removing an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Condition {
    /// No condition.
    Always,
    /// The key is absent.
    Absent,
    /// The key is present.
    Present,
    /// The key is present, and no value in its hash chain has changed since the read or write that
    /// returned this number as `cas`.
    Unchanged(u32),
}

impl Condition {
    /// Checks the condition. `present` is the chain's `cas` if the key is present and unexpired.
    pub(crate) fn check(self, present: Option<u32>) -> Result<(), Refused> {
        match (self, present) {
            (Condition::Absent, Some(_)) => Err(Refused::IsPresent),
            (Condition::Present | Condition::Unchanged(_), None) => Err(Refused::IsAbsent),
            (Condition::Unchanged(cas), Some(now)) if cas != now => Err(Refused::IsChanged),
            _ => Ok(()),
        }
    }
}

/// Reason why an object was not stored or removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// The object is larger than a segment, or its key is longer than allowed.
    TooLarge,
    /// No memory is free, and nothing can be evicted.
    Full,
    /// The key is present.
    IsPresent,
    /// The key is absent.
    IsAbsent,
    /// The key, or another key of its hash chain, has changed.
    IsChanged,
}

/// Version and deadline of a stored object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Receipt {
    /// Version, for [`Condition::Unchanged`].
    pub cas: u32,
    /// Time at which the object expires, which may be earlier than requested; `None` means never.
    pub deadline: Option<Tick>,
}

impl Receipt {
    /// Creates the receipt of an object in a segment that expires at `deadline`.
    #[inline(always)]
    pub(crate) fn new(cas: u32, deadline: Tick) -> Receipt {
        Receipt {
            cas,
            deadline: (deadline != NEVER).then_some(deadline),
        }
    }
}
