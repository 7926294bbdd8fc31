//! Causes for which entries leave a cache.

/// Cause for which an entry has left the cache, as a removal listener receives it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Cause {
    /// Its time to live or its idle time has ended.
    Expired,
    /// The cache was full, or did not admit the entry at all.
    Evicted,
    /// An entry with the same key has replaced it.
    Replaced,
    /// It was removed by a call.
    Removed,
}

impl Cause {
    /// Number of causes.
    pub(crate) const COUNT: usize = 4;
}
