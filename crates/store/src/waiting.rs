//! Queues of clients blocked on keys. They are kept in the key's shard, so that reading a key,
//! writing it and waiting for it are ordered by the shard's lock.

use std::collections::{HashMap, VecDeque};

/// A key by its database and its bytes.
pub(crate) type DbKey = (u8, Box<[u8]>);

/// Keys that were written or removed while clients were blocked on them. The number orders the
/// writes of all shards.
pub(crate) type Ready = Vec<(u64, DbKey)>;

/// Clients blocked on one key, in the order of their arrival.
#[derive(Debug, Default)]
struct WaitQueue {
    waiters: VecDeque<u64>,
    /// Whether the key was written since the last [`WaitQueues::take_ready`].
    is_ready: bool,
}

/// Wait queues of the keys of one shard.
#[derive(Debug, Default)]
pub(crate) struct WaitQueues {
    queues: HashMap<DbKey, WaitQueue>,
    ready: Ready,
}

impl WaitQueues {
    /// Returns whether a key was written on which a client is blocked.
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Returns whether no client is blocked.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// Returns the number of keys on which clients are blocked.
    pub fn len(&self) -> usize {
        self.queues.len()
    }

    /// Adds a waiter at the end of a key's queue. Does nothing if the waiter is already the last
    /// one.
    pub fn add(&mut self, db: u8, key: &[u8], waiter: u64) {
        let queue = self.queues.entry((db, key.into())).or_default();
        if queue.waiters.back() != Some(&waiter) {
            queue.waiters.push_back(waiter);
        }
    }

    /// Removes a waiter from a key's queue.
    pub fn remove(&mut self, db: u8, key: &[u8], waiter: u64) {
        let name = (db, Box::from(key));
        let Some(queue) = self.queues.get_mut(&name) else {
            return;
        };
        if let Some(at) = queue.waiters.iter().position(|at| *at == waiter) {
            queue.waiters.remove(at);
        }
        if queue.waiters.is_empty() {
            self.queues.remove(&name);
            self.ready.retain(|(_, at)| *at != name);
        }
    }

    /// Returns the waiter at an index of a key's queue.
    pub fn at(&self, db: u8, key: &[u8], index: usize) -> Option<u64> {
        let queue = self.queues.get(&(db, Box::from(key)))?;
        queue.waiters.get(index).copied()
    }

    /// Marks a key as written or removed. `number` is called only if a client is blocked on it and
    /// the key is not marked yet.
    pub fn mark_ready(&mut self, db: u8, key: &[u8], number: impl FnOnce() -> u64) {
        if self.queues.is_empty() {
            return;
        }
        let name = (db, Box::from(key));
        if let Some(queue) = self.queues.get_mut(&name)
            && !queue.is_ready
        {
            queue.is_ready = true;
            self.ready.push((number(), name));
        }
    }

    /// Marks all keys of two databases as written, after these were swapped.
    pub fn mark_all_ready(&mut self, dbs: [u8; 2], mut number: impl FnMut() -> u64) {
        for (name, queue) in &mut self.queues {
            if dbs.contains(&name.0) && !queue.is_ready {
                queue.is_ready = true;
                self.ready.push((number(), name.clone()));
            }
        }
    }

    /// Moves the marked keys into `into` and clears their marks.
    pub fn take_ready(&mut self, into: &mut Ready) {
        debug_assert!(self.ready.is_sorted_by_key(|(number, _)| *number));
        for (_, name) in &self.ready {
            if let Some(queue) = self.queues.get_mut(name) {
                queue.is_ready = false;
            }
        }
        into.append(&mut self.ready);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_key_is_marked_once_until_it_is_taken() {
        let mut waiting = WaitQueues::default();
        waiting.mark_ready(0, b"k", || unreachable!("nobody waits"));
        waiting.add(0, b"k", 7);
        waiting.add(0, b"k", 7);
        waiting.add(0, b"k", 8);
        waiting.mark_ready(1, b"k", || unreachable!("in another database"));
        waiting.mark_ready(0, b"k", || 2);
        waiting.mark_ready(0, b"k", || unreachable!("it is marked"));
        let mut ready = Ready::new();
        waiting.take_ready(&mut ready);
        assert_eq!(ready, [(2, (0, Box::from(*b"k")))]);
        assert!(!waiting.has_ready());
        waiting.mark_ready(0, b"k", || 4);
    }

    #[test]
    fn a_queue_keeps_its_order_and_is_removed_when_empty() {
        let mut waiting = WaitQueues::default();
        for waiter in [7, 8, 9] {
            waiting.add(0, b"k", waiter);
            waiting.add(3, b"j", waiter);
        }
        waiting.remove(0, b"k", 8);
        waiting.remove(0, b"k", 8);
        assert_eq!(
            (waiting.at(0, b"k", 0), waiting.at(0, b"k", 1)),
            (Some(7), Some(9))
        );
        assert_eq!(waiting.at(0, b"k", 2), None);
        waiting.mark_all_ready([0, 1], || 1);
        waiting.remove(0, b"k", 7);
        waiting.remove(0, b"k", 9);
        assert_eq!((waiting.len(), waiting.has_ready()), (1, false));
        assert!(!waiting.is_empty());
    }
}
