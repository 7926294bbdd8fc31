//! Large sets of keys that a client no longer watches: after EXEC, UNWATCH, or the end of its
//! connection. Removing 100,000 of them takes tens of milliseconds, so a worker does it in steps.
//!
//! Until then, the keys set a flag that no session uses any longer.

use std::collections::{BTreeSet, VecDeque, btree_set};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use store::{Keyspace, Tick};

/// Maximum number of watched keys that a session removes itself.
pub const AT_ONCE_MAX: usize = 256;
/// Number of keys removed per step.
const STEP_KEYS: usize = 256;

/// Keys of one session.
struct Forgotten {
    keys: btree_set::IntoIter<(u8, Vec<u8>)>,
    /// Next key, whose shard another thread had locked.
    next: Option<(u8, Vec<u8>)>,
    is_dirty: Arc<AtomicBool>,
}

/// Watched keys waiting to be removed from the keyspace.
#[derive(Default)]
pub struct Watches {
    queue: Mutex<VecDeque<Forgotten>>,
    count: AtomicUsize,
}

impl Watches {
    /// Adds the keys of a session, which register this flag.
    pub fn forget(&self, keys: BTreeSet<(u8, Vec<u8>)>, is_dirty: &Arc<AtomicBool>) {
        let forgotten = Forgotten {
            keys: keys.into_iter(),
            next: None,
            is_dirty: Arc::clone(is_dirty),
        };
        let mut queue = self.queue.lock().expect("the lock is not poisoned");
        queue.push_back(forgotten);
        self.count.store(queue.len(), Relaxed);
    }

    /// Whether no keys are waiting to be removed.
    pub fn is_empty(&self) -> bool {
        self.count.load(Relaxed) == 0
    }

    /// Removes some keys. The caller holds no shard.
    pub fn step(&self, space: &Keyspace, now: Tick) {
        let mut queue = self.queue.lock().expect("the lock is not poisoned");
        let Some(first) = queue.front_mut() else {
            return;
        };
        for _ in 0..STEP_KEYS {
            let Some((db, bytes)) = first.next.take().or_else(|| first.keys.next()) else {
                queue.pop_front();
                self.count.store(queue.len(), Relaxed);
                return;
            };
            let key = space.key(db, &bytes);
            match space.try_lock_one(space.shard_of(&key), now) {
                Some(mut view) => view.unwatch(&key, &first.is_dirty),
                None => {
                    first.next = Some((db, bytes));
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::{NewDeadline, Options};

    #[test]
    fn forgotten_keys_are_removed_in_steps_that_wait_for_no_shard() {
        const NOW: Tick = Tick(1_700_000_000_000);
        let options = Options {
            shards: 8,
            policy: "noeviction".to_owned(),
            expiry: "wheel".to_owned(),
            maxmemory: 0,
            hash_key: [1, 2],
            seed: 3,
        };
        let space = &Keyspace::new(&options, NOW).expect("valid options");
        let watches = Watches::default();
        let [old, new] = [const { AtomicBool::new(false) }; 2].map(Arc::new);
        let names: Vec<Vec<u8>> = (0..2_000u32).map(|i| format!("{i}").into_bytes()).collect();
        let mut view = space.lock_all(NOW);
        for name in &names {
            view.watch(&space.key(0, name), &old);
        }
        // A later session watches the last one.
        view.watch(&space.key(0, &names[1_999]), &new);
        drop(view);
        watches.forget(names.iter().map(|name| (0, name.clone())).collect(), &old);
        watches.forget(BTreeSet::new(), &old);
        let held = space.lock_one(0, NOW);
        for _ in 0..20 {
            watches.step(space, NOW);
        }
        assert!(!watches.is_empty());
        drop(held);
        for _ in 0..20 {
            watches.step(space, NOW);
        }
        assert!(watches.is_empty());
        let mut view = space.lock_all(NOW);
        for name in &names {
            view.set(&space.key(0, name), b"v", NewDeadline::Clear);
        }
        assert!(!old.load(Relaxed));
        assert!(new.load(Relaxed));
    }
}
