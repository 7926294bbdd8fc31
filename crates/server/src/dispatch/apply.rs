//! Executes the commands of a feed, from an append-only file or a primary.
//!
//! They were executed before, so they are not checked again: no rights, no memory limit, no pause,
//! no script limit. Two instants determine their effect. TTLs, IDs and idle times count from the
//! time passed by the caller. The horizon precedes all deadlines, because commands of the feed
//! itself delete expired entries.
//!
//! The feed ends at a command that cannot be executed as before: it is unknown or malformed, or it
//! was refused, although only commands that have changed something are in a feed. A script that
//! fails does not end the feed: its effects until then are the same here, and it may have failed
//! before, too.

use super::long::needs;
use super::shards::{LockedShards, lock_for, wake_owners};
use super::{context, publish};
use crate::command::{self, tracking, transaction};
use crate::context::Chosen;
use crate::effects::ITEM_MARK;
use crate::state::Server;
use crate::{blocking, timing};
use durability::replication::EARLIEST;
use session::locks::lock;
use session::session::Session;
use session::spec::flag;
use std::time::{Duration, Instant};
use store::{Event, ItemHead, NewDeadline, Tick};
use wire::{Args, Output, Reply};

/// Time between two attempts to run a command that needs a key of a long one.
const RETRY_PAUSE: Duration = Duration::from_millis(1);

/// Executes the commands of one feed.
pub struct Applier<'s> {
    server: &'s Server,
    session: Session,
    held: LockedShards<'s>,
    out: Output,
    events: Vec<Event>,
}

impl<'s> Applier<'s> {
    /// Creates the state at the beginning of an append-only file. Its commands are not counted.
    pub fn new(server: &'s Server) -> Self {
        Applier::with(server, Session::of_feed(usize::MAX))
    }

    /// Creates the state at the beginning of a primary's feed. Its commands count as the first
    /// worker's.
    pub fn of_primary(server: &'s Server) -> Self {
        Applier::with(server, Session::of_feed(0))
    }

    fn with(server: &'s Server, session: Session) -> Self {
        Applier {
            server,
            session,
            held: LockedShards::default(),
            out: Output::default(),
            events: Vec::new(),
        }
    }

    /// Returns the selected database.
    pub fn db(&self) -> u8 {
        self.session.db
    }

    /// Selects a database. A number that does not exist is ignored.
    pub fn select(&mut self, db: u8) {
        if usize::from(db) < self.server.data.keyspace.databases() {
            self.session.db = db;
        }
    }

    /// Whether a transaction has begun and not ended.
    pub fn is_in_transaction(&self) -> bool {
        self.session.transaction.is_some()
    }

    /// Forgets a transaction that has not ended.
    pub fn discard_transaction(&mut self) {
        self.session.end_transaction();
    }

    /// Executes one command at a time. The caller holds no shard.
    ///
    /// # Errors
    /// The command cannot be executed as before. The message names it.
    pub fn apply(&mut self, args: Args<'_>, now: Tick) -> Result<(), String> {
        let chosen = choose(args)?;
        let worker = self.session.info.worker;
        if worker == usize::MAX || self.queues(chosen) {
            return self.run(chosen, args, now);
        }
        let start = Instant::now();
        let result = self.run(chosen, args, now);
        let nanos = Some(start.elapsed().as_nanos() as u64);
        let counted = chosen.counted().unwrap_or(chosen.index);
        timing::count_alone(
            &self.server.observability,
            &self.server.config,
            worker,
            counted,
            nanos,
            result.is_err(),
        );
        result
    }

    /// Whether a command waits for the end of a transaction.
    fn queues(&self, chosen: Chosen) -> bool {
        self.session.transaction.is_some() && !chosen.spec.has(flag::NO_QUEUE)
    }

    fn run(&mut self, chosen: Chosen, args: Args<'_>, now: Tick) -> Result<(), String> {
        let (spec, flags) = (chosen.spec, chosen.flags());
        let is_of_feed = flags & (flag::WRITE | flag::MAY_WRITE) != 0
            || matches!(
                spec.name,
                "select" | "multi" | "exec" | "discard" | "script" | "pfcount"
            );
        match spec.name {
            "ping" | "replconf" => return Ok(()),
            "publish" | "spublish" => {
                self.publish(spec.name == "spublish", args);
                return Ok(());
            }
            "echo" => {
                self.take_message(&args[1], now);
                return Ok(());
            }
            _ if is_of_feed => {}
            // It would change nothing.
            _ if flags & flag::READONLY != 0 => return Ok(()),
            _ => return Err(format!("'{}' does not belong there", spec.name)),
        }
        self.out.clear();
        let server = self.server;
        let (space, long) = (&server.data.keyspace, &server.workers.long);
        if self.queues(chosen) {
            let mut reply = Reply::new(&mut self.out, self.session.protocol);
            let queued = (chosen.index, spec);
            transaction::queue(&server.config, &mut self.session, queued, args, &mut reply);
            return self.result(spec.name);
        }
        loop {
            lock_for(space, &mut self.held, &self.session, spec, args, None);
            let mut view = lock(space, &self.held.locks, now);
            view.set_horizon(EARLIEST);
            let session = &mut self.session;
            if long.is_active() && long.blocks(|is_leased| needs(spec, session, args, is_leased)) {
                drop(view);
                std::thread::sleep(RETRY_PAUSE);
                if server.lifecycle.stops() {
                    return Err(format!("'{}' waits, and the server stops", spec.name));
                }
                continue;
            }
            let reply = Reply::new(&mut self.out, session.protocol);
            let locks = &self.held.locks;
            let mut ctx = context(server, space, &mut view, locks, session, None, reply);
            (spec.run.slab)(&mut ctx, args);
            // Clients are served at the present time.
            view.set_now(server.clock.now());
            if view.has_invalidated() {
                tracking::send(&server.clients, &server.workers.inboxes, &mut view, 0);
            }
            if view.has_ready() {
                blocking::serve(server, command::table(), &mut view, &mut self.held.locks);
            }
            publish(server, &mut view, &mut self.events);
            break;
        }
        wake_owners(&server.data, &server.workers, usize::MAX, &self.held.locks);
        self.result(spec.name)
    }

    /// Sends a message of a primary's client to the subscribers of this server.
    fn publish(&self, is_sharded: bool, args: Args<'_>) {
        let (pubsub, inboxes) = (&self.server.clients.pubsub, &self.server.workers.inboxes);
        match is_sharded {
            true => pubsub.publish_sharded(inboxes, &args[1], &args[2]),
            false => pubsub.publish(inboxes, &args[1], &args[2]),
        };
    }

    /// If the last command, or one that it ran, was not executed, returns the reason.
    fn result(&mut self, name: &str) -> Result<(), String> {
        self.session.note_feed_reply(name, &self.out);
        let feed = self.session.feed.as_mut();
        let failure = feed.and_then(|feed| feed.take_failure());
        failure.map_or(Ok(()), Err)
    }

    /// Gives a string the head of a memcached item.
    fn take_message(&mut self, message: &[u8], now: Tick) {
        let Some((len, rest)) = message
            .strip_prefix(ITEM_MARK)
            .and_then(<[u8]>::split_first)
        else {
            return;
        };
        let Some((head, name)) = rest.split_at_checked(usize::from(*len)) else {
            return;
        };
        let Some(head) = ItemHead::decode(head) else {
            return;
        };
        let space = &self.server.data.keyspace;
        let key = space.key(self.session.db, name);
        let mut view = space.lock_one(space.shard_of(&key), now);
        view.set_horizon(EARLIEST);
        if let Ok(Some(value)) = view.peek(&key) {
            let value = value.to_vec();
            view.put_item(&key, &head, &value, NewDeadline::Keep);
            view.pass_cas(&key, head.cas);
        }
    }
}

/// Returns the command that the arguments name.
///
/// # Errors
/// There is no such command, or the number of arguments is wrong.
fn choose(args: Args<'_>) -> Result<Chosen, String> {
    let table = command::table();
    let unknown = |what| format!("there is no {what} '{}'", name_of(args));
    let index = table.lookup_own(args.name());
    let chosen = table.choose(index.ok_or_else(|| unknown("command"))?, args);
    match chosen {
        _ if chosen.is_unknown => Err(unknown("subcommand")),
        _ if !chosen.accepts(args.len()) => {
            Err(format!("wrong number of arguments for '{}'", name_of(args)))
        }
        _ => Ok(chosen),
    }
}

/// Longest part of a name in a message.
const NAME_BYTES_MAX: usize = 128;

/// Returns the name of a command, with the name of a subcommand, for messages.
fn name_of(args: Args<'_>) -> String {
    let is_container = |index| command::table()[index as usize].has(flag::CONTAINER);
    let has_word = command::table()
        .lookup_own(args.name())
        .is_some_and(is_container);
    let words = args.iter().take(1 + usize::from(has_word));
    let shown = words.map(|word| &word[..word.len().min(NAME_BYTES_MAX)]);
    let shown: Vec<String> = shown.map(|word| word.escape_ascii().to_string()).collect();
    shown.join(" ").to_ascii_lowercase()
}
