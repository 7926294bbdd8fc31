//! Methods for clients that block on keys. The caller assigns the numbers of the waiters.

use super::View;
use crate::shared::Key;
use crate::waiting::Ready;

impl View<'_> {
    /// Adds a waiter to the end of the key's queue.
    pub fn wait(&mut self, key: &Key<'_>, waiter: u64) {
        let waiting = &mut self.parts(key).2.waiting;
        waiting.add(key.db, key.bytes, waiter);
    }

    /// Removes a waiter from the key's queue.
    pub fn cancel_wait(&mut self, key: &Key<'_>, waiter: u64) {
        let waiting = &mut self.parts(key).2.waiting;
        waiting.remove(key.db, key.bytes, waiter);
    }

    /// Returns the waiter at an index of the key's queue.
    pub fn waiter(&mut self, key: &Key<'_>, index: usize) -> Option<u64> {
        self.parts(key).2.waiting.at(key.db, key.bytes, index)
    }

    /// Replaces the locked shards with another view's. Keeps the horizon, and whether a command has
    /// written a key on which clients are blocked.
    pub fn exchange(&mut self, other: Self) {
        let (has_ready, has_invalidated) = (self.has_ready, self.has_invalidated);
        let (changes, horizon) = (self.changes, self.horizon);
        *self = other;
        self.horizon = horizon;
        self.has_ready |= has_ready;
        self.has_invalidated |= has_invalidated;
        self.changes += changes;
    }

    /// Looks for keys on which clients are blocked and which have expired or were evicted since the
    /// last [`View::take_ready`]. Returns whether there are any.
    pub fn find_ready(&mut self) -> bool {
        let mut has_ready = false;
        self.each_locked(|locked| has_ready |= locked.waiting.has_ready());
        self.has_ready |= has_ready;
        self.has_ready
    }

    /// Returns whether [`View::take_ready`] has keys to return.
    #[inline]
    pub fn has_ready(&self) -> bool {
        self.has_ready
    }

    /// Appends the keys that were written while clients were blocked on them, with their databases,
    /// in the order of their first write since the last call.
    pub fn take_ready(&mut self, into: &mut Vec<(u8, Box<[u8]>)>) {
        if !std::mem::take(&mut self.has_ready) {
            return;
        }
        let mut ready = Ready::new();
        self.each_locked(|locked| locked.waiting.take_ready(&mut ready));
        ready.sort_unstable_by_key(|(number, _)| *number);
        into.extend(ready.into_iter().map(|(_, key)| key));
    }
}
