//! Context in which a command runs, and the types of functions that execute commands.

use crate::state::Server;
use engine::Strings;
use engine::refusal::Answer;
use engine::segment::Handle;
use engine::slab::Slab;
use session::locks::{Room, lock};
use session::pubsub::Space;
use session::session::Session;
use session::spec;
use session::waiting::BlockingState;
use store::{Class, Edited, Full, Key, Keyspace, Kind, View};
use wire::{Args, Reply};

/// Function that executes a command on the slab engine, or a command that uses no keys.
pub type OnSlab = fn(&mut Ctx<'_, '_>, Args<'_>);
/// Function that executes a command on the segment engine.
pub type OnSegment = fn(&mut Ctx<'_, '_, &mut Handle<'_>>, Args<'_>);

/// Functions that execute a command on the storage engines.
#[derive(Clone, Copy)]
pub struct Run {
    /// Function for the slab engine.
    pub slab: OnSlab,
    /// Function for the segment engine, if that supports the command.
    pub segment: Segment,
    /// Amount of work, if it can be large.
    pub work: Work,
    /// Steps of the command in the segment engine, if it runs in steps there.
    pub segment_steps: Option<SegmentSteps>,
    /// Position of the first element among the arguments of a command on a collection. `None` if it
    /// follows the key, or FIELDS or MEMBERS and their number.
    pub element: Option<u8>,
}

/// Steps in which the segment engine, which has no transactions, runs a command on many keys or
/// with many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentSteps {
    /// The command returns the value of each of its keys.
    Read,
    /// The command sets each of its keys to the argument after it.
    Write,
}

/// Amount of work of a command. The unit is an element, or 512 bytes of a string.
#[derive(Clone, Copy)]
pub enum Work {
    /// Never much.
    Short,
    /// One unit for each argument, and for the bytes of all of them.
    ByArguments,
    /// The command works on each of its keys separately and replies with a sum. On many keys it
    /// runs in steps.
    InSteps,
    /// The command uses no keys and confirms each of its names by a message. With many names it
    /// runs in steps.
    Confirmed,
    /// Like [`Work::Confirmed`]; without names, it removes all subscriptions of a namespace.
    Unsubscribes(Space),
    /// The command removes all of the client's subscriptions. It runs in steps if there are many.
    Resets,
    /// The command lists all names of a database. It runs in steps if there are many.
    Names,
    /// Some subcommands examine all names of a database (CLUSTER). They run in steps if the names
    /// are many.
    Slots,
    /// The lengths of the strings under the keys, once a string is long enough to matter.
    Strings,
    /// Like [`Work::Strings`]; these strings are the reply.
    RepliedStrings,
    /// The length of the value in the second argument, if it is a mebibyte or longer.
    Value,
    /// The result of this function. Because it is called for every command, it checks first
    /// whatever needs no look-up.
    Estimated(Estimate),
}

/// Function that estimates the work of a command.
pub type Estimate = fn(&mut Probe<'_, '_>, Args<'_>) -> u64;

/// Access to the sizes of values, for estimates.
pub struct Probe<'a, 'v> {
    /// The locked shards.
    pub view: &'a mut View<'v>,
    /// The keyspace that the shards belong to.
    pub space: &'v Keyspace,
    /// Name of the command in the table. Its first argument may differ by `rename-command`.
    pub name: &'static str,
    /// Positions of the command's keys.
    pub keys: spec::Keys,
    /// Selected database of the client.
    pub db: u8,
    /// Work below which a command is not long, so that a more exact estimate is useless.
    pub threshold: u64,
}

/// Support of a command by the segment engine.
#[derive(Clone, Copy)]
pub enum Segment {
    /// The command is refused.
    Refused,
    /// The command uses no keys and runs the function of the slab engine.
    Keyless,
    /// The command runs this function.
    Own(OnSegment),
}

impl Run {
    /// Whether the segment engine serves the command.
    pub fn is_on_segment(&self) -> bool {
        !matches!(self.segment, Segment::Refused)
    }

    /// Creates the [`Run`] of a command that only the slab engine supports.
    pub const fn slab(run: OnSlab) -> Run {
        let segment = Segment::Refused;
        Run::of(run, segment)
    }

    /// Creates the [`Run`] of a command that uses no keys, which both engines support.
    pub const fn any(run: OnSlab) -> Run {
        let segment = Segment::Keyless;
        Run::of(run, segment)
    }

    /// Creates the [`Run`] of a command that both engines support with separate functions.
    pub const fn both(slab: OnSlab, own: OnSegment) -> Run {
        let segment = Segment::Own(own);
        Run::of(slab, segment)
    }

    const fn of(slab: OnSlab, segment: Segment) -> Run {
        let work = Work::Short;
        Run {
            slab,
            segment,
            work,
            segment_steps: None,
            element: None,
        }
    }

    /// Adds the estimate of a command whose work depends on the size of values.
    pub const fn estimated(self, estimate: Estimate) -> Run {
        let work = Work::Estimated(estimate);
        Run { work, ..self }
    }

    /// Declares that a command's work is the lengths of the strings under its keys.
    pub const fn of_strings(self) -> Run {
        let work = Work::Strings;
        Run { work, ..self }
    }

    /// Declares that a command replies with the strings under its keys, whose lengths are its work.
    pub const fn of_replied_strings(self) -> Run {
        let work = Work::RepliedStrings;
        Run { work, ..self }
    }

    /// Declares that the segment engine reads many keys in steps.
    pub const fn read_in_steps_on_segment(self) -> Run {
        let segment_steps = Some(SegmentSteps::Read);
        Run {
            segment_steps,
            ..self
        }
    }

    /// Declares that the segment engine writes many keys in steps.
    pub const fn written_in_steps_on_segment(self) -> Run {
        let segment_steps = Some(SegmentSteps::Write);
        Run {
            segment_steps,
            ..self
        }
    }

    /// Declares the position of the first element in the arguments of a command on a collection.
    pub const fn with_element_at(self, position: u8) -> Run {
        let element = Some(position);
        Run { element, ..self }
    }

    /// Declares that a command's work is the length of the value that is its second argument.
    pub const fn of_value(self) -> Run {
        let work = Work::Value;
        Run { work, ..self }
    }

    /// Declares that a command on many keys runs in steps.
    pub const fn in_steps(self) -> Run {
        let work = Work::InSteps;
        Run { work, ..self }
    }

    /// Declares that a command uses no keys and confirms each of its names by a message.
    pub const fn confirmed(self) -> Run {
        let work = Work::Confirmed;
        Run { work, ..self }
    }

    /// Declares that a command confirms each of its names by a message, and that it removes all
    /// subscriptions of a namespace without them.
    pub const fn unsubscribes(self, space: Space) -> Run {
        let work = Work::Unsubscribes(space);
        Run { work, ..self }
    }

    /// Declares that a command removes all subscriptions of the client.
    pub const fn resets(self) -> Run {
        let work = Work::Resets;
        Run { work, ..self }
    }

    /// Declares that a command lists all names of a database.
    pub const fn names(self) -> Run {
        let work = Work::Names;
        Run { work, ..self }
    }

    /// Declares that some subcommands examine all names of a database.
    pub const fn slots(self) -> Run {
        let work = Work::Slots;
        Run { work, ..self }
    }

    /// Declares that the work of a command is proportional to the number and the length of its
    /// arguments.
    pub const fn by_arguments(self) -> Run {
        let work = Work::ByArguments;
        Run { work, ..self }
    }
}

/// Creates the [`Run`] of a command that both engines serve with the same generic code.
macro_rules! on_both {
    ($work:path) => {
        $crate::context::Run::both(
            |ctx, args| $crate::context::settle(ctx, args, $work),
            |ctx, args| $crate::context::settle(ctx, args, $work),
        )
    };
}
pub(crate) use on_both;

/// A command with its functions.
pub type Spec = spec::Spec<Run>;
/// A command with the subcommand that its arguments select.
pub type Chosen = spec::Chosen<Run>;
/// All commands with their functions.
pub type Table = spec::Table<Run>;

/// Context of a running command.
pub struct Ctx<'a, 'v, E = Slab<'a, 'v>> {
    /// Access to the engine: the locked shards of the command's keys, or the segment engine.
    pub view: E,
    /// Session of the client.
    pub session: &'a mut Session,
    /// State shared by all workers.
    pub server: &'v Server,
    /// Reply buffer. A command writes exactly one reply.
    pub reply: Reply<'a>,
    /// Table of all commands.
    pub table: &'static Table,
    /// Hash of the first key, if it was computed when the batch was prefetched.
    pub memo: Option<&'a KeyMemo>,
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
    /// Hash of the key, as in [`Key`].
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

    /// Whether the hash was computed for these bytes (at the same address) in this database.
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

impl<E: Strings> Ctx<'_, '_, E> {
    /// Returns the key with this name in the session's database.
    #[inline]
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        self.key_in(self.session.db, bytes)
    }

    /// Returns the key with this name in the given database.
    #[inline]
    pub fn key_in<'k>(&self, db: u8, bytes: &'k [u8]) -> Key<'k> {
        match self.memo {
            Some(memo) if memo.names(db, bytes) => memo.key(bytes),
            _ => self.view.key(db, bytes),
        }
    }
}

/// Error: writes are held.
#[derive(Debug)]
pub struct Held;

impl<'v> Ctx<'_, 'v> {
    /// Makes room for the writes of a transaction or a script to a database. Returns why they are
    /// refused, if they are.
    ///
    /// # Errors
    /// A stop or FAILOVER has begun to hold writes while the shards were released. The command must
    /// end without an effect, and runs again later.
    pub fn make_room(&mut self, db: u8) -> Result<Option<Full>, Held> {
        let is_of_client = self.session.info.id != 0;
        // Between two commands of a transaction the shards are not released.
        if is_of_client && matches!(self.session.blocking_state, BlockingState::MustReply) {
            return Ok(self.view.view.lacks_room(db));
        }
        let room = self.view.make_room(db);
        if room == Room::Made
            && is_of_client
            && self
                .server
                .data
                .pause
                .holds(true, self.server.clock.moment())
        {
            self.session.is_held_late = true;
            return Err(Held);
        }
        match room {
            Room::None(full) => Ok(Some(full)),
            Room::Free | Room::Made => Ok(None),
        }
    }

    /// Runs `work` while no shard is locked, because it takes the keyspace's locks itself (INFO,
    /// CONFIG SET maxmemory). Locks the same shards again afterwards. Other workers may change them
    /// in between.
    pub fn unlocked<R>(&mut self, work: impl FnOnce(&'v Server) -> R) -> R {
        let now = self.view.now();
        let space = &self.server.data.keyspace;
        self.view.exchange(space.lock_many(&[], now));
        let result = work(self.server);
        let again = lock(space, self.view.locks, now);
        self.view.exchange(again);
        result
    }
}

/// Runs a command that may be refused. If it is refused, its partial reply is replaced by the
/// error, so that there is exactly one reply.
#[inline]
pub fn settle<'a, 'v, E>(
    ctx: &mut Ctx<'a, 'v, E>,
    args: Args<'_>,
    work: impl FnOnce(&mut Ctx<'a, 'v, E>, Args<'_>) -> Answer,
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

    /// Returns the type of the value that a command is about to replace, for
    /// `View::notify_stored`. Looks the key up only if events are enabled.
    #[inline]
    pub fn replaced_kind(&mut self, key: &Key<'_>) -> Option<Kind> {
        match self.view.notifies() {
            true => self.view.kind(key),
            false => None,
        }
    }

    /// Whether a write to this key should publish a `new` event. Looks the key up only if events
    /// are enabled.
    #[inline]
    pub fn publishes_new(&mut self, key: &Key<'_>) -> bool {
        self.view.notifies() && self.view.kind(key).is_none()
    }
}
