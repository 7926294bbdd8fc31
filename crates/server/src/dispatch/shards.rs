//! The shards that a command needs: determines and locks them.

use crate::command;
use crate::context::{KeyMemo, Spec};
use crate::state::{Data, Workers};
use session::locks::Locks;
use session::session::Session;
use session::spec::Keys;
use session::watches::AT_ONCE_MAX;
use store::{Keyspace, Tick, View};
use wire::Args;

/// Shards locked by a worker.
pub(crate) struct LockedShards<'s> {
    /// View of all shards, kept from one command to the next; `None` while they are not all locked.
    pub(super) whole: Option<View<'s>>,
    /// Shards of the last command if it did not need all of them.
    pub(super) locks: Locks,
}

impl Default for LockedShards<'_> {
    fn default() -> Self {
        LockedShards {
            whole: None,
            locks: Locks::Some(Vec::new()),
        }
    }
}

impl<'s> LockedShards<'s> {
    /// Locks all shards until [`super::Executor::finish`] if there is only one worker.
    pub(super) fn lock_whole(&mut self, data: &'s Data, workers: &Workers, now: Tick) {
        if workers.count == 1 {
            let whole = || data.keyspace.lock_all(now);
            self.whole.get_or_insert_with(whole);
        }
    }
}

/// Determines the shards of a command's keys.
pub(super) fn lock_for(
    keyspace: &Keyspace,
    held: &mut LockedShards<'_>,
    session: &Session,
    spec: &Spec,
    args: Args<'_>,
    memo: Option<&KeyMemo>,
) {
    let mut shards = spare(&mut held.locks);
    if collect(keyspace, session, spec, args, memo, &mut shards) {
        return;
    }
    if shards.len() > 1 {
        shards.sort_unstable();
        shards.dedup();
    }
    held.locks = Locks::Some(shards);
}

/// Wakes the workers that expire the written shards if a shard has an earlier deadline than its
/// worker is going to wait for.
pub(super) fn wake_owners(data: &Data, workers: &Workers, worker: usize, locks: &Locks) {
    let wake = |shard: usize| {
        let owner = shard % workers.count;
        if owner != worker
            && let Some(due) = data.keyspace.next_due(shard)
        {
            workers.inboxes[owner].wake_by(due.0);
        }
    };
    match locks {
        Locks::All => (0..data.keyspace.shard_count()).for_each(wake),
        Locks::Some(shards) => shards.iter().copied().for_each(wake),
    }
}

/// Empties the list of the last command's shards and returns it, so that its allocation is reused.
/// Until the caller puts it back, `locks` is set to all shards.
pub(super) fn spare(locks: &mut Locks) -> Vec<usize> {
    let mut shards = match std::mem::replace(locks, Locks::All) {
        Locks::All => Vec::new(),
        Locks::Some(shards) => shards,
    };
    shards.clear();
    shards
}

/// Adds the shards of a command's keys to a list. Returns true if the command needs all shards.
fn collect(
    keyspace: &Keyspace,
    session: &Session,
    spec: &Spec,
    args: Args<'_>,
    memo: Option<&KeyMemo>,
    shards: &mut Vec<usize>,
) -> bool {
    let space = keyspace;
    match spec.keys {
        Keys::None => {}
        keys if keys.reach_beyond(args) => return true,
        Keys::Queued | Keys::Watched => {
            // The keys of that many are in all shards, and hashing them takes long.
            if session.watched.len() > AT_ONCE_MAX {
                return true;
            }
            for (db, bytes) in &session.watched {
                shards.push(space.shard_of(&space.key(*db, bytes)));
            }
            if spec.keys == Keys::Queued
                && let Some(transaction) = &session.transaction
            {
                return transaction.iter().any(|(index, args)| {
                    let spec = command::table()[index as usize];
                    collect(keyspace, session, spec, args, None, shards)
                });
            }
        }
        _ => spec.keys.each(args, |index| {
            let bytes = &args[index];
            let key = match memo {
                Some(memo) if memo.names(session.db, bytes) => memo.key(bytes),
                _ => space.key(session.db, bytes),
            };
            shards.push(space.shard_of(&key));
        }),
    }
    false
}
