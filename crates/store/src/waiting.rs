//! Who waits for a key to appear: kept in the key's shard, so that whoever looks at the key and whoever
//! writes it agree, under the shard's lock, on who comes first.

use std::collections::{HashMap, VecDeque};

/// A key by its database and its bytes.
pub(crate) type DbKey = (u8, Box<[u8]>);

/// Keys that were written while somebody waits for them, each with its number among all such writes.
pub(crate) type Ready = Vec<(u64, DbKey)>;

/// Those who wait for one key, the first first.
#[derive(Debug, Default)]
struct WaitQueue {
    waiters: VecDeque<u64>,
    /// Noted as written, and not asked for since.
    is_ready: bool,
}

/// One shard's.
#[derive(Debug, Default)]
pub(crate) struct WaitQueues {
    queues: HashMap<DbKey, WaitQueue>,
    ready: Ready,
}

impl WaitQueues {
    /// Whether keys were written that somebody waits for.
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether nobody waits for anything.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// How many keys are waited for.
    pub fn len(&self) -> usize {
        self.queues.len()
    }

    /// Adds one at the end of a key's queue, where it may be already.
    pub fn add(&mut self, db: u8, key: &[u8], waiter: u64) {
        let queue = self.queues.entry((db, key.into())).or_default();
        if queue.waiters.back() != Some(&waiter) {
            queue.waiters.push_back(waiter);
        }
    }

    /// Takes one out of a key's queue: mostly the first.
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

    /// One of a key's queue.
    pub fn at(&self, db: u8, key: &[u8], index: usize) -> Option<u64> {
        let queue = self.queues.get(&(db, Box::from(key)))?;
        queue.waiters.get(index).copied()
    }

    /// A key was written; whether anybody waits for it who has not been told.
    pub fn mark_ready(&mut self, db: u8, key: &[u8], number: impl FnOnce() -> u64) -> bool {
        let name = (db, Box::from(key));
        match self.queues.get_mut(&name) {
            Some(queue) if !queue.is_ready => {
                queue.is_ready = true;
                self.ready.push((number(), name));
                true
            }
            _ => false,
        }
    }

    /// All keys of these databases may be others now.
    pub fn mark_all_ready(&mut self, dbs: [u8; 2], mut number: impl FnMut() -> u64) {
        for (name, queue) in &mut self.queues {
            if dbs.contains(&name.0) && !queue.is_ready {
                queue.is_ready = true;
                self.ready.push((number(), name.clone()));
            }
        }
    }

    /// Takes the keys noted since it was last asked.
    pub fn take_ready(&mut self, into: &mut Ready) {
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
    fn a_written_key_is_told_once_until_it_is_asked_for() {
        let mut waiting = WaitQueues::default();
        assert!(!waiting.mark_ready(0, b"k", || 1), "nobody waits");
        waiting.add(0, b"k", 7);
        waiting.add(0, b"k", 7);
        waiting.add(0, b"k", 8);
        assert!(!waiting.mark_ready(1, b"k", || 1), "in another database");
        assert!(waiting.mark_ready(0, b"k", || 2));
        assert!(!waiting.mark_ready(0, b"k", || 3));
        let mut ready = Ready::new();
        waiting.take_ready(&mut ready);
        assert_eq!(ready, [(2, (0, Box::from(*b"k")))]);
        assert!(!waiting.has_ready());
        assert!(waiting.mark_ready(0, b"k", || 4));
    }

    #[test]
    fn a_queue_keeps_its_order_and_ends_with_its_last() {
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
