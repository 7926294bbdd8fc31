//! Causes of an entry's removal.

/// Cause for which an entry has left the cache, as a removal listener receives it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Cause {
    /// The time to live or the idle time of the entry has ended.
    Expired,
    /// The cache was full, or the policy did not admit the entry.
    Evicted,
    /// Another value was inserted under the same key.
    Replaced,
    /// A call removed the entry.
    Removed,
}

impl Cause {
    /// Number of causes.
    pub(crate) const COUNT: usize = 4;
}
