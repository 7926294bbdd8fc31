//! Which shards of the keyspace a command holds.

use store::{Keyspace, Tick, View};

/// Which shards a view holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Locks {
    /// All of them.
    All,
    /// These, ascending.
    Some(Vec<usize>),
}

/// Locks these shards.
pub fn lock<'s>(space: &'s Keyspace, locks: &Locks, now: Tick) -> View<'s> {
    match locks {
        Locks::All => space.lock_all(now),
        Locks::Some(shards) => match &shards[..] {
            [shard] => space.lock_one(*shard, now),
            shards => space.lock_many(shards, now),
        },
    }
}

/// Whether memory is full and nothing may be evicted: from the shards at hand, nor from any other.
pub fn has_no_room<'v>(space: &'v Keyspace, view: &mut View<'v>, locks: &Locks) -> bool {
    if !view.is_out_of_memory() {
        return false;
    }
    if *locks == Locks::All {
        return true;
    }
    // In two steps, so that locks are always taken in ascending order. The keys' shards are free in
    // between, but nothing has been done to them yet.
    let now = view.now();
    view.exchange(space.lock_many(&[], now));
    let is_full = space.lock_all(now).is_out_of_memory();
    view.exchange(lock(space, locks, now));
    is_full
}
