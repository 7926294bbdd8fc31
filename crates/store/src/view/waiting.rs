//! Those who wait for keys to be written, as commands see them. Waiters are numbers of the caller's.

use super::{Guards, View};
use crate::shared::Key;
use crate::waiting::Ready;

impl View<'_> {
    /// From now on, the waiter is in the key's queue, behind those that are in it.
    pub fn wait(&mut self, key: &Key<'_>, waiter: u64) {
        let waiting = &mut self.parts(key).2.waiting;
        waiting.add(key.db, key.bytes, waiter);
    }

    /// Takes a waiter out of the key's queue.
    pub fn cancel_wait(&mut self, key: &Key<'_>, waiter: u64) {
        let waiting = &mut self.parts(key).2.waiting;
        waiting.remove(key.db, key.bytes, waiter);
    }

    /// Who waits for the key as the first, the second …
    pub fn waiter(&mut self, key: &Key<'_>, index: usize) -> Option<u64> {
        self.parts(key).2.waiting.at(key.db, key.bytes, index)
    }

    /// Exchanges the shards at hand for others: what was written through this view is not forgotten.
    pub fn exchange(&mut self, other: Self) {
        let has_ready = self.has_ready;
        *self = other;
        self.has_ready |= has_ready;
    }

    /// Whether [`View::take_ready`] has anything to tell.
    #[inline]
    pub fn has_ready(&self) -> bool {
        self.has_ready
    }

    /// The keys that were written through this view while somebody waited for them, with their
    /// databases, in the order of the first write since they were last told.
    pub fn take_ready(&mut self, into: &mut Vec<(u8, Box<[u8]>)>) {
        if !std::mem::take(&mut self.has_ready) {
            return;
        }
        let mut ready = Ready::new();
        match &mut self.guards {
            Guards::One(_, guard) => guard.waiting.take_ready(&mut ready),
            Guards::Some(guards) => guards
                .iter_mut()
                .for_each(|g| g.1.waiting.take_ready(&mut ready)),
            Guards::All(guards) => guards
                .iter_mut()
                .for_each(|g| g.waiting.take_ready(&mut ready)),
        }
        ready.sort_unstable_by_key(|(number, _)| *number);
        into.extend(ready.into_iter().map(|(_, key)| key));
    }
}
