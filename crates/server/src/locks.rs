//! The shards of the keyspace that a command locks.

use store::{Keyspace, Tick, View};

/// Shards that a view has locked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Locks {
    /// All shards.
    All,
    /// These shards, in ascending order.
    Some(Vec<usize>),
}

/// Locks the shards.
pub fn lock<'s>(space: &'s Keyspace, locks: &Locks, now: Tick) -> View<'s> {
    match locks {
        Locks::All => space.lock_all(now),
        Locks::Some(shards) => match &shards[..] {
            [shard] => space.lock_one(*shard, now),
            shards => space.lock_many(shards, now),
        },
    }
}

/// Whether memory is full and nothing can be evicted, neither from the locked shards nor from the
/// others.
pub fn has_no_room<'v>(space: &'v Keyspace, view: &mut View<'v>, locks: &Locks) -> bool {
    if !view.is_out_of_memory() {
        return false;
    }
    if *locks == Locks::All {
        return true;
    }
    // Two steps, so that locks are always taken in ascending order. The locked shards are released
    // in between, before anything was changed in them.
    let now = view.now();
    view.exchange(space.lock_many(&[], now));
    let is_full = space.lock_all(now).is_out_of_memory();
    view.exchange(lock(space, locks, now));
    is_full
}
