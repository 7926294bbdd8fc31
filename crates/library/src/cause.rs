//! Causes of an entry's removal.

/// Cause for which an entry has left the cache, as passed to the listener.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Cause {
    /// The entry's time to live or idle time has ended.
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
