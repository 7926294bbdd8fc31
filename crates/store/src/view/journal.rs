//! Recording of removals by expiry and eviction.

use super::{Guards, View};
use crate::journal::Removed;
use crate::keyspace::Keyspace;
use crate::shard::Locked;

impl View<'_> {
    fn each_locked(&mut self, mut each: impl FnMut(&mut Locked)) {
        match &mut self.guards {
            Guards::One(_, guard) => each(guard),
            Guards::Some(guards) => guards.iter_mut().for_each(|guard| each(&mut guard.1)),
            Guards::All(guards) => guards.iter_mut().for_each(|guard| each(guard)),
        }
    }

    /// Sets whether removals by expiry and eviction are recorded. What was recorded and not taken
    /// is dropped with the end of recording. Needs all shards.
    pub fn set_recording(&mut self, on: bool) {
        for locked in self.all() {
            match on {
                true => drop(locked.journal.get_or_insert_default()),
                false => locked.journal = None,
            }
        }
    }

    /// Whether removals are recorded in the locked shards.
    pub fn records(&mut self) -> bool {
        let mut records = false;
        self.each_locked(|locked| records |= locked.journal.is_some());
        records
    }

    /// Moves the recorded removals of the locked shards to `into`. Those of one key are in their
    /// order.
    pub fn take_removed(&mut self, into: &mut Vec<Removed>) {
        self.each_locked(|locked| {
            if let Some(journal) = &mut locked.journal
                && !journal.is_empty()
            {
                into.append(journal);
            }
        });
    }

    /// Whether removals of the locked shards were recorded and not taken.
    pub fn has_removed(&mut self) -> bool {
        let mut has_some = false;
        self.each_locked(|locked| {
            has_some |= locked
                .journal
                .as_ref()
                .is_some_and(|journal| !journal.is_empty());
        });
        has_some
    }

    /// Returns the number of changes by commands through this view. Shards that it has released and
    /// locked again count.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes
    }
}

impl Keyspace {
    /// Whether removals of a shard were recorded and not taken. Does not wait: the answer for a
    /// locked shard is no, because its next command takes them.
    pub fn has_removed(&self, shard: usize) -> bool {
        let has_some = |locked: &Locked| locked.journal.as_ref().is_some_and(|j| !j.is_empty());
        self.try_guard(shard)
            .is_some_and(|locked| has_some(&locked))
    }
}
