//! Executes the commands of a feed: those of an append-only file or of a primary.
//!
//! They were executed before, so that they are not checked again: no rights, no memory limit, no
//! pause. They run at a given instant that precedes all deadlines that were in force, because what
//! has expired is deleted by commands of the feed itself.

use super::long::needs;
use super::shards::{LockedShards, lock_for, wake_owners};
use super::{context, publish};
use crate::blocking;
use crate::command::effects::ITEM_MARK;
use crate::command::{self, tracking, transaction};
use crate::locks::lock;
use crate::session::Session;
use crate::spec::{SpecIndex, flag};
use crate::state::Server;
use std::collections::HashMap;
use std::time::Duration;
use store::{Event, ItemHead, NewDeadline, Tick};
use wire::{Args, Output, Reply};

/// Time between two attempts to run a command that needs a key of a long one.
const RETRY_PAUSE: Duration = Duration::from_millis(1);

/// Executes the commands of one feed.
pub struct Applier<'s> {
    server: &'s Server,
    session: Session,
    /// Commands by their own names, whatever `rename-command` says.
    commands: HashMap<&'static str, SpecIndex>,
    held: LockedShards<'s>,
    out: Output,
    events: Vec<Event>,
}

impl<'s> Applier<'s> {
    /// Creates the state at the beginning of a feed.
    pub fn new(server: &'s Server) -> Self {
        let all = command::table().iter().enumerate();
        Applier {
            server,
            session: Session::of_feed(),
            commands: all
                .map(|(index, spec)| (spec.name, index as SpecIndex))
                .collect(),
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
        if usize::from(db) < self.server.keyspace.databases() {
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

    /// Executes one command at an instant. The caller holds no shard.
    ///
    /// # Errors
    /// The command does not exist or was refused. The message is for the log.
    pub fn apply(&mut self, args: Args<'_>, now: Tick) -> Result<(), String> {
        let name = args.name().to_ascii_lowercase();
        let known = std::str::from_utf8(&name).ok();
        let index = known.and_then(|name| self.commands.get(name)).copied();
        let Some(index) = index else {
            return Err(format!("there is no command '{}'", name.escape_ascii()));
        };
        let chosen = command::table().choose(index, args);
        let spec = chosen.spec;
        if !chosen.accepts(args.len()) || chosen.is_unknown {
            return Err(format!("wrong number of arguments for '{}'", spec.name));
        }
        let is_of_feed = chosen.flags() & (flag::WRITE | flag::MAY_WRITE) != 0
            || matches!(
                spec.name,
                "select" | "multi" | "exec" | "script" | "pfcount"
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
            _ => return Err(format!("'{}' does not belong there", spec.name)),
        }
        self.out.clear();
        let server = self.server;
        if self.session.transaction.is_some() && !spec.has(flag::NO_QUEUE) {
            let mut reply = Reply::new(&mut self.out, self.session.protocol);
            transaction::queue(server, &mut self.session, (index, spec), args, &mut reply);
            return self.result(spec.name);
        }
        loop {
            lock_for(server, &mut self.held, &self.session, spec, args, None);
            let mut view = lock(&server.keyspace, &self.held.locks, now);
            let session = &mut self.session;
            if server.long.is_active()
                && server
                    .long
                    .blocks(|is_leased| needs(spec, session, args, is_leased))
            {
                drop(view);
                std::thread::sleep(RETRY_PAUSE);
                if server.stops() {
                    return Ok(());
                }
                continue;
            }
            let reply = Reply::new(&mut self.out, session.protocol);
            let (space, locks) = (&server.keyspace, &self.held.locks);
            let mut ctx = context(server, space, &mut view, locks, session, None, reply);
            (spec.run.slab)(&mut ctx, args);
            if view.has_invalidated() {
                tracking::send(server, &mut view, 0);
            }
            if view.has_ready() {
                blocking::serve(server, command::table(), &mut view, &mut self.held.locks);
            }
            publish(server, &mut view, &mut self.events);
            break;
        }
        wake_owners(server, usize::MAX, &self.held.locks);
        self.result(spec.name)
    }

    /// Sends a message of a primary's client to the subscribers of this server.
    fn publish(&self, is_sharded: bool, args: Args<'_>) {
        let (pubsub, inboxes) = (&self.server.pubsub, &self.server.inboxes);
        match is_sharded {
            true => pubsub.publish_sharded(inboxes, &args[1], &args[2]),
            false => pubsub.publish(inboxes, &args[1], &args[2]),
        };
    }

    fn result(&self, name: &str) -> Result<(), String> {
        match self.out.strip_prefix(b"-") {
            None => Ok(()),
            Some(error) => Err(format!(
                "'{name}' was refused: {}",
                String::from_utf8_lossy(error).trim_end()
            )),
        }
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
        let space = &self.server.keyspace;
        let key = space.key(self.session.db, name);
        let mut view = space.lock_one(space.shard_of(&key), now);
        if let Ok(Some(value)) = view.peek(&key) {
            let value = value.to_vec();
            view.put_item(&key, &head, &value, NewDeadline::Keep);
            view.pass_cas(&key, head.cas);
        }
    }
}
