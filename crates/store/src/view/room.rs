//! Whether there is room for writes: eviction from the locked shards.

use super::{Guards, View};
use crate::quotas::Full;
use crate::shard::{Locked, Room};
use cache::Scope;

impl View<'_> {
    /// Evicts entries if memory is over its limit, or the database over its own. Returns the reason
    /// if writes to the database must be refused: there is nothing more to evict in these shards.
    pub fn lacks_room(&mut self, db: u8) -> Option<Full> {
        if self.is_out_of_memory(db) {
            return Some(Full::Memory);
        }
        self.is_db_full(db).then_some(Full::Database)
    }

    /// Evicts entries of a database if it is over its own limit. Returns whether writes to it must
    /// be refused.
    fn is_db_full(&mut self, db: u8) -> bool {
        let shared = self.space.shared();
        if !shared.quotas.lacks(db, 0) {
            return false;
        }
        let refuses = |locked: &mut Locked| !locked.make_room_in(db, shared);
        match &mut self.guards {
            Guards::One(_, guard) => refuses(guard),
            Guards::Some(guards) => guards.iter_mut().all(|guard| refuses(&mut guard.1)),
            Guards::All(guards) => {
                let start = shared.next_turn() % guards.len();
                let (before, after) = guards.split_at_mut(start);
                after.iter_mut().chain(before).all(|guard| refuses(guard))
            }
        }
    }

    /// Evicts entries if the memory is over its limit, those of the database `first` before others.
    /// Returns true if writes must be refused: the memory is over its limit afterwards and these
    /// shards have nothing more to evict, or an arena of any shard is nearly full.
    fn is_out_of_memory(&mut self, first: u8) -> bool {
        let shared = self.space.shared();
        if shared.memory.has_full_shard() {
            return true;
        }
        if !shared.memory.is_over() {
            return false;
        }
        let refuses = |locked: &mut Locked| !locked.make_room(first, Room::default(), shared);
        match &mut self.guards {
            Guards::One(_, guard) => refuses(guard),
            Guards::Some(guards) => guards.iter_mut().all(|g| refuses(&mut g.1)),
            // The shard with the most evictable bytes loses entries first. If each call began at
            // another one instead, the sizes of small shards would drift apart, and with them their
            // miss ratios. Values that cannot be evicted do not count, because the other keys of
            // their shard would be evicted out of proportion. Only if that shard has nothing to
            // evict does each call begin at another one.
            Guards::All(guards) => {
                // Where all keys can be evicted, the sums that are at hand are good enough.
                let scope = guards.iter().find_map(|guard| guard.scope());
                let bytes = |at: &usize| match scope {
                    Some(Scope::All) if !shared.quotas.are_kept() => guards[*at].used_bytes(),
                    _ => guards[*at].evictable_bytes(shared),
                };
                let largest = (0..guards.len()).max_by_key(bytes);
                if largest.is_some_and(|largest| !refuses(&mut guards[largest])) {
                    return false;
                }
                let start = shared.next_turn() % guards.len();
                let (before, after) = guards.split_at_mut(start);
                let mut turn = after.iter_mut().chain(before);
                turn.all(|g| refuses(g))
            }
        }
    }
}
