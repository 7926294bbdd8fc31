//! The shards of the keyspace that a command locks.

use crate::clock::Clock;
use store::{Keyspace, Tick, View};

/// Shards locked by a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Locks {
    /// All shards.
    All,
    /// Given shards, in ascending order.
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

/// Locks the shards for a client's command that was received at `now`. If another thread held one
/// of them, the command runs at the current instant instead, so that it returns nothing that has
/// expired while it waited.
pub fn lock_now<'s>(space: &'s Keyspace, clock: &Clock, locks: &Locks, now: Tick) -> View<'s> {
    let mut view = lock(space, locks, now);
    if view.has_waited() {
        view.set_now(clock.now());
    }
    view
}

/// Room for a command's writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// There is room.
    Free,
    /// There is room. The shards were released and locked again, so that what held before must be
    /// checked again.
    Made,
    /// Memory is full and nothing can be evicted. The shards may have been unlocked meanwhile.
    None,
}

/// Makes room, from the locked shards or from the others.
#[inline]
pub fn make_room<'v>(space: &'v Keyspace, view: &mut View<'v>, locks: &Locks) -> Room {
    if !view.is_out_of_memory() {
        return Room::Free;
    }
    if *locks == Locks::All {
        return Room::None;
    }
    // Two steps, so that locks are always taken in ascending order. The locked shards are released
    // in between, before anything was changed in them.
    let now = view.now();
    view.exchange(space.lock_many(&[], now));
    let is_full = space.lock_all(now).is_out_of_memory();
    view.exchange(lock(space, locks, now));
    match is_full {
        true => Room::None,
        false => Room::Made,
    }
}
