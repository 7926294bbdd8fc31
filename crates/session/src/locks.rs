//! The shards of the keyspace that a command locks.

use crate::clock::Clock;
use store::{Full, Keyspace, Tick, View};

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
    /// There is no room, and nothing can be evicted. The shards may have been unlocked meanwhile.
    None(Full),
}

/// Makes room for writes to a database, from the locked shards or from the others.
#[inline]
pub fn make_room<'v>(space: &'v Keyspace, view: &mut View<'v>, locks: &Locks, db: u8) -> Room {
    let Some(full) = view.lacks_room(db) else {
        return Room::Free;
    };
    // Other shards of a database that evicts nothing have no room either.
    if *locks == Locks::All || full == Full::Database && space.is_full_for_good(db) {
        return Room::None(full);
    }
    // Two steps, so that locks are always taken in ascending order. The locked shards are released
    // in between, before anything was changed in them.
    let now = view.now();
    view.exchange(space.lock_many(&[], now));
    let full = space.lock_all(now).lacks_room(db);
    view.exchange(lock(space, locks, now));
    full.map_or(Room::Made, Room::None)
}
