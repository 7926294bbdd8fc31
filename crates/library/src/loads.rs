//! Loads in progress in a shard, so that no load undoes a change of its key.
//!
//! A loader reads its source at some moment between the beginning and the end of the load. If the
//! key changes in between (by an insertion, a removal or a new time to live), the change is newer
//! than anything the loader may have read, so the load must not store its value.
//!
//! A load is *current* from its beginning until its key changes or it ends. The set contains the
//! current loads and is protected by the shard's lock. A change removes its key's loads from the
//! set before it releases the lock, and a load stores its value under the same lock under which it
//! was found in the set. Every stored value was therefore read after the last change of its key.
//! Expiry and eviction do not count as changes, because they say nothing about the source.
//!
//! Keys are compared by their hashes. If two keys have the same hash, a change of one also ends the
//! other's current load, which costs one more load.

use std::collections::BTreeSet;

/// Set of the current loads of a shard.
#[derive(Default)]
pub(crate) struct Loads {
    /// Pairs of a key's hash and a load's number.
    current: BTreeSet<(u64, u64)>,
    /// Number of loads begun so far.
    begun: u64,
}

impl Loads {
    /// Begins a load and returns its number.
    pub(crate) fn begin(&mut self, hash: u64) -> u64 {
        self.begun += 1;
        self.current.insert((hash, self.begun));
        self.begun
    }

    /// Returns true if the key of a load has not changed since the load began.
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

    /// Returns true if no load is current.
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
