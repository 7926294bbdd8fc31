//! Loads under way in a shard, so that none of them undoes a change of its key.
//!
//! A loader reads its source at some moment between the beginning and the end of the load. A change
//! of the key in between (an insertion, a removal, a new time to live) is newer than what the
//! loader may have read, so that the load must not store its value.
//!
//! A load is *current* from its beginning until its key is changed, or until it ends. The set has
//! the current loads. It is part of what the shard's lock protects: a change takes the loads of its
//! key out of the set before the lock is released, and a load stores its value under the same lock
//! under which it was found in the set. So whatever a load stores was read after the last change of
//! the key. Expiry and eviction are no changes, because they say nothing about the source.
//!
//! Keys are compared by their hashes. Of two keys with one hash, a change of one ends the other's
//! current load, too, which costs one more load.

use std::collections::BTreeSet;

/// Current loads of a shard.
#[derive(Default)]
pub(crate) struct Loads {
    /// Hash of the key, and number of the load.
    current: BTreeSet<(u64, u64)>,
    /// Number of loads that have begun.
    begun: u64,
}

impl Loads {
    /// Begins a load and returns its number.
    pub(crate) fn begin(&mut self, hash: u64) -> u64 {
        self.begun += 1;
        self.current.insert((hash, self.begun));
        self.begun
    }

    /// Whether the key of a load has not been changed since the load began.
    pub(crate) fn is_current(&self, hash: u64, number: u64) -> bool {
        self.current.contains(&(hash, number))
    }

    /// Ends a load.
    pub(crate) fn end(&mut self, hash: u64, number: u64) {
        self.current.remove(&(hash, number));
    }

    /// Registers a change of a key.
    #[inline]
    pub(crate) fn changed(&mut self, hash: u64) {
        if !self.current.is_empty() {
            self.changed_slowly(hash);
        }
    }

    #[cold]
    fn changed_slowly(&mut self, hash: u64) {
        let of_key = (hash, 0)..=(hash, u64::MAX);
        while let Some(&load) = self.current.range(of_key.clone()).next() {
            self.current.remove(&load);
        }
    }

    /// Whether no load is current.
    pub(crate) fn is_empty(&self) -> bool {
        self.current.is_empty()
    }

    /// Registers a change of every key.
    pub(crate) fn all_changed(&mut self) {
        self.current.clear();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_change_ends_the_current_loads_of_its_key_only() {
        let mut loads = Loads::default();
        let [first, second, other] = [7, 7, 8].map(|hash| loads.begin(hash));
        loads.end(7, second);
        assert!(loads.is_current(7, first));
        assert!(!loads.is_current(7, second));
        loads.changed(7);
        assert!(!loads.is_current(7, first));
        assert!(loads.is_current(8, other));
        let last = loads.begin(7);
        assert_ne!(last, first);
        loads.all_changed();
        assert!(!loads.is_current(7, last) && !loads.is_current(8, other));
        assert!(loads.is_empty());
    }
}
