//! What a command works with, and the type of its code.

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

/// What a command gets to work with.
pub struct Ctx<'a, 'v> {
    /// The shards that the command's keys need, locked; `now` is in it.
    pub view: &'a mut View<'v>,
    /// The client.
    pub session: &'a mut Session,
    /// Everything shared.
    pub server: &'v Server,
    /// Where the reply goes: exactly one per command.
    pub reply: Reply<'a>,
    /// Which shards `view` holds.
    pub locks: &'a Locks,
    /// All commands.
    pub table: &'static Table,
    /// The first key's hash, when the batch has computed it already.
    pub memo: Option<KeyMemo>,
}

/// A key that has been hashed before its command runs: where its bytes stand, and the hash.
#[derive(Clone, Copy, Debug)]
pub struct KeyMemo {
    /// Where its bytes begin: compared, never followed.
    pub address: usize,
    /// How many bytes.
    pub len: usize,
    /// Of which database.
    pub db: u8,
    /// `Key::hash`.
    pub hash: u64,
}

impl KeyMemo {
    /// Remembers where a key's bytes stand.
    pub fn of(key: &Key<'_>) -> KeyMemo {
        KeyMemo {
            address: key.bytes.as_ptr() as usize,
            len: key.bytes.len(),
            db: key.db,
            hash: key.hash,
        }
    }

    /// Whether these are the bytes that were hashed.
    #[inline]
    pub fn names(&self, db: u8, bytes: &[u8]) -> bool {
        self.address == bytes.as_ptr() as usize && self.len == bytes.len() && self.db == db
    }

    /// The key; `bytes` are those that were hashed.
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
    /// The key that these bytes name in the session's database.
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        self.key_in(self.session.db, bytes)
    }

    /// The key that these bytes name in any database.
    pub fn key_in<'k>(&self, db: u8, bytes: &'k [u8]) -> Key<'k> {
        match self.memo {
            Some(memo) if memo.names(db, bytes) => memo.key(bytes),
            _ => self.server.keyspace.key(db, bytes),
        }
    }

    /// Runs `work` with no shard locked, for what takes the keyspace's locks itself (INFO, CONFIG
    /// SET maxmemory); afterwards the same shards are locked again. In between another worker may
    /// have changed them.
    pub fn unlocked<R>(&mut self, work: impl FnOnce(&'v Server) -> R) -> R {
        let now = self.view.now();
        let space = &self.server.keyspace;
        self.view.exchange(space.lock_many(&[], now));
        let result = work(self.server);
        self.view.exchange(lock(space, self.locks, now));
        result
    }
}

/// Runs a command that may be refused. What it had replied by then is taken back, so that there is
/// exactly one reply.
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
    /// Tells listeners that a read found nothing under this key.
    #[inline]
    pub fn missed(&mut self, key: &Key<'_>) {
        self.view.notify(Class::KeyMiss, "keymiss", key);
    }

    /// Tells listeners of an edit: the key's birth, the event, the key's end.
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

    /// Whether a write of this key should tell listeners that it is new. Looks it up only when
    /// anybody listens at all.
    #[inline]
    pub fn is_news(&mut self, key: &Key<'_>) -> bool {
        self.view.notifies() && self.view.kind(key).is_none()
    }
}
