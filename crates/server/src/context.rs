//! Context in which a command runs, and the type of its code.

use crate::command::refusal::Answer;
use crate::locks::{Locks, lock};
use crate::session::Session;
use crate::spec;
use crate::state::Server;
use store::{Class, Edited, Key, View};
use wire::{Args, Reply};

/// The code of a command.
pub type Run = fn(&mut Ctx<'_, '_>, Args<'_>);
/// A command with its code.
pub type Spec = spec::Spec<Run>;
/// All commands with their code.
pub type Table = spec::Table<Run>;

/// Context of a running command.
pub struct Ctx<'a, 'v> {
    /// The locked shards that the command's keys need, with the current time.
    pub view: &'a mut View<'v>,
    /// Session of the client.
    pub session: &'a mut Session,
    /// State shared by all workers.
    pub server: &'v Server,
    /// Reply buffer. A command writes exactly one reply.
    pub reply: Reply<'a>,
    /// Shards that `view` has locked.
    pub locks: &'a Locks,
    /// Table of all commands.
    pub table: &'static Table,
    /// Hash of the first key, if the batch has computed it already.
    pub memo: Option<KeyMemo>,
}

/// Hash of a key that was computed before its command runs.
#[derive(Clone, Copy, Debug)]
pub struct KeyMemo {
    /// Address of the key's bytes. It is only compared, never dereferenced.
    pub address: usize,
    /// Length of the key in bytes.
    pub len: usize,
    /// Database of the key.
    pub db: u8,
    /// `Key::hash`.
    pub hash: u64,
}

impl KeyMemo {
    /// Records the hash and the position of a key.
    pub fn of(key: &Key<'_>) -> KeyMemo {
        KeyMemo {
            address: key.bytes.as_ptr() as usize,
            len: key.bytes.len(),
            db: key.db,
            hash: key.hash,
        }
    }

    /// Whether the hash belongs to these bytes.
    #[inline]
    pub fn names(&self, db: u8, bytes: &[u8]) -> bool {
        self.address == bytes.as_ptr() as usize && self.len == bytes.len() && self.db == db
    }

    /// Returns the key. `bytes` must be the bytes that were hashed.
    #[inline]
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        Key {
            bytes,
            hash: self.hash,
            db: self.db,
        }
    }
}

impl<'v> Ctx<'_, 'v> {
    /// Returns the key with this name in the session's database.
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        self.key_in(self.session.db, bytes)
    }

    /// Returns the key with this name in the given database.
    pub fn key_in<'k>(&self, db: u8, bytes: &'k [u8]) -> Key<'k> {
        match self.memo {
            Some(memo) if memo.names(db, bytes) => memo.key(bytes),
            _ => self.server.keyspace.key(db, bytes),
        }
    }

    /// Runs `work` while no shard is locked, because it takes the keyspace's locks itself (INFO,
    /// CONFIG SET maxmemory). Locks the same shards again afterwards. Other workers may change them
    /// in between.
    pub fn unlocked<R>(&mut self, work: impl FnOnce(&'v Server) -> R) -> R {
        let now = self.view.now();
        let space = &self.server.keyspace;
        self.view.exchange(space.lock_many(&[], now));
        let result = work(self.server);
        self.view.exchange(lock(space, self.locks, now));
        result
    }
}

/// Runs a command that may be refused. If it is, the partial reply is replaced by the error, so
/// that there is exactly one reply.
pub fn settle(
    ctx: &mut Ctx<'_, '_>,
    args: Args<'_>,
    work: impl FnOnce(&mut Ctx<'_, '_>, Args<'_>) -> Answer,
) {
    let start = ctx.reply.position();
    if let Err(refusal) = work(ctx, args) {
        ctx.reply.truncate(start);
        refusal.write(&mut ctx.reply);
    }
}

impl Ctx<'_, '_> {
    /// Publishes a `keymiss` event for a read that found nothing.
    #[inline]
    pub fn missed(&mut self, key: &Key<'_>) {
        self.view.notify(Class::KeyMiss, "keymiss", key);
    }

    /// Publishes the events of an edit: `new` if the key was created, the given event, and `del` if
    /// the key was removed.
    #[inline]
    pub fn edited<R>(
        &mut self,
        key: &Key<'_>,
        edited: &Edited<R>,
        class: Class,
        name: &'static str,
    ) {
        if edited.is_new {
            self.view.notify(Class::New, "new", key);
        }
        self.view.notify(class, name, key);
        if edited.is_deleted {
            self.view.notify(Class::Generic, "del", key);
        }
    }

    /// Whether a write to this key should publish a `new` event. Looks the key up only if events
    /// are enabled.
    #[inline]
    pub fn is_news(&mut self, key: &Key<'_>) -> bool {
        self.view.notifies() && self.view.kind(key).is_none()
    }
}
