//! The source's side of a move of slots: a thread for each move sends the states of keys to the
//! target's primary.
//!
//! A walk over all keys finds those of the slots; a reader of the feed finds those that change
//! meanwhile. When few are left, or keys change as fast as they are sent, the thread holds the
//! slots (`exporting/hold.rs`): no command on them runs, and the rest is sent. If that is complete
//! within a slice of time, the host gives a mark (`host/moves.rs`), which is sent last.
//!
//! Each message is a command of the target, `CLUSTER SYNCSLOTS word link …` (`importing.rs`), whose
//! reply is awaited: at most [`BATCH_BYTES`] and one key are on their way.

mod changes;
mod hold;
pub(crate) mod state;

use crate::movement::Leaving;
use crate::notify;
use crate::replica::stream::{Stream, line, send, wrong};
use crate::state::Server;
use changes::Changes;
use durability::replication::EARLIEST;
use hold::Pace;
use session::feed::put_command;
use settings::Id;
use state::{KeyState, state_of};
use std::collections::HashSet;
use std::io::{self, BufReader, Write};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use wire::number::Text;
use wire::slot::slot;

/// Number of bytes that are sent before their replies are awaited.
const BATCH_BYTES: usize = 128 << 10;
/// Number of keys that one step of the walk examines.
const KEYS_PER_STEP: usize = 512;
/// Maximum number of keys whose states are read under one lock, some 0.2 ms.
const KEYS_PER_LOCK: usize = 128;
/// Number of times that changed keys are taken for one batch: those that a long command works on
/// come again.
const ROUNDS_PER_BATCH: u32 = 2;
/// Number of steps of the walk between two batches.
const STEPS_MAX: usize = 16;
/// Number of keys that may be left when the hold begins: small ones take about a millisecond.
const READY_KEYS: usize = 128;
/// Number of changed keys beyond which the slots are held while they are sent. From half of it on,
/// they are sent during the walk.
const CHANGED_MAX: usize = 1 << 20;
/// Number of changed keys beyond which the attempt is given up. It is reached only while the slots
/// cannot be held, because etcd is away, or while the maximum rate requires a long pause.
const CHANGED_LIMIT: usize = 4 * CHANGED_MAX;
/// Maximum number of bytes of the feed that are examined between two batches.
const FEED_BYTES: usize = 8 << 20;
/// Time between two attempts.
const PAUSE: Duration = Duration::from_millis(100);
/// Time between two looks when nothing has changed.
const IDLE_PAUSE: Duration = Duration::from_millis(1);
/// Time between two looks at the feed while the maximum rate requires a pause.
const THROTTLE_SLICE: Duration = Duration::from_millis(10);
/// Time limit for a reply.
const REPLY_TIME: Duration = Duration::from_secs(10);
/// Error for a value that no command can carry.
const TOO_LARGE: &str = "the state of a key is larger than proto-max-bulk-len";
/// Beginnings of errors that a further attempt gets, too.
const PERMANENT: [&str; 9] = [
    TOO_LARGE,
    "-OOM",
    "-NOAUTH",
    "-WRONGPASS",
    "-NOPERM",
    "-ERR unknown",
    "-ERR syntax error",
    "-ERR Bad data format",
    "-ERR DB index",
];

/// A key with its database.
type Named = (u8, Box<[u8]>);

/// Sends the keys of a move until it has ended.
pub fn run(server: &Server, leaving: &Leaving) {
    let mut last_error = String::new();
    while !has_ended(server, leaving) {
        let done = Sender::open(server, leaving).and_then(|mut sender| sender.run());
        leaving.reader.store(0, Relaxed);
        let Err(error) = done else {
            break;
        };
        let text = error.to_string();
        if PERMANENT.iter().any(|start| text.starts_with(start)) {
            let why = match &text[..] {
                text if text.starts_with("-OOM") => "the target has no memory for the keys".into(),
                text if text.starts_with('-') => format!("the target refuses the keys: {text}"),
                text => text.to_owned(),
            };
            leaving.change(|exchange| exchange.failure = Some(why));
        }
        // The target may not have read the record of the move yet.
        if text != last_error && !text.contains("no such move") {
            log::warn!("cluster: move {}: {text}; it begins again", leaving.id);
        }
        last_error = text;
        leaving.wait(PAUSE);
    }
}

fn has_ended(server: &Server, leaving: &Leaving) -> bool {
    leaving.exchange().is_over || server.lifecycle.stops()
}

/// A connection to the target, and what is known of the keys since it began.
struct Sender<'s> {
    server: &'s Server,
    leaving: &'s Leaving,
    connection: BufReader<Stream>,
    link: String,
    /// Number under which this thread holds slots.
    holder: u64,
    changes: Changes,
    /// Database and position of the walk; `None` at its end.
    walk: Option<(u8, u64)>,
    /// Keys to be sent next.
    pending: Vec<Named>,
    /// Keys that have changed.
    changed: HashSet<Named>,
    pace: Pace,
    batch: Vec<u8>,
    /// Number of commands in the batch.
    calls: usize,
    begun: Instant,
    sent_keys: u64,
    sent_bytes: u64,
}

impl Drop for Sender<'_> {
    fn drop(&mut self) {
        if self.changes.reader > 0 {
            self.server.feed.remove_reader(self.changes.reader);
        }
    }
}

impl<'s> Sender<'s> {
    fn open(server: &'s Server, leaving: &'s Leaving) -> io::Result<Sender<'s>> {
        let (host, port) = (&leaving.target.0[..], leaving.target.1);
        let is_wanted = || !has_ended(server, leaving);
        let stream = Stream::open(&server.config, (host, port), REPLY_TIME, is_wanted)?;
        let link = u64::from(settings::random::chance(0x5107) as u32) + 1;
        let mut sender = Sender {
            server,
            leaving,
            connection: BufReader::new(stream),
            link: link.to_string(),
            holder: link,
            changes: Changes::default(),
            walk: Some((0, 0)),
            pending: Vec::new(),
            changed: HashSet::new(),
            pace: Pace::new(),
            batch: Vec::new(),
            calls: 0,
            begun: Instant::now(),
            sent_keys: 0,
            sent_bytes: 0,
        };
        if let Some(words) = Stream::login(&server.config) {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            send(&mut sender.connection, &words)?;
            line(&mut sender.connection)?;
        }
        Ok(sender)
    }

    /// Sends keys until the move has ended.
    fn run(&mut self) -> io::Result<()> {
        self.start()?;
        self.follow_feed()?;
        while !has_ended(self.server, self.leaving) {
            self.read_feed(FEED_BYTES)?;
            self.fill()?;
            let sent = self.flush()?;
            self.report();
            self.measure();
            if self.may_hold() {
                if self.hold()? {
                    return Ok(());
                }
                continue;
            }
            match sent {
                0 => self.leaving.wait(IDLE_PAUSE),
                sent => self.throttle(sent)?,
            }
        }
        Ok(())
    }

    /// Number of keys that must be sent, as far as is known.
    fn left(&self) -> usize {
        self.pending.len() + self.changed.len()
    }

    /// Waits until the target has removed what is left of an earlier attempt.
    fn start(&mut self) -> io::Result<()> {
        let id = self.leaving.id.to_string();
        while !has_ended(self.server, self.leaving) {
            send(
                &mut self.connection,
                &["CLUSTER", "SYNCSLOTS", "START", &id, &self.link],
            )?;
            if line(&mut self.connection)? == "+OK" {
                break;
            }
            self.leaving.wait(IDLE_PAUSE);
        }
        Ok(())
    }

    /// Adds a message about a database to the batch.
    fn add<'a>(&mut self, word: &str, db: u8, rest: impl Iterator<Item = &'a [u8]>) {
        let number = db.to_string();
        let head = ["CLUSTER", "SYNCSLOTS", word, &self.link, &number].map(str::as_bytes);
        let mut words: Vec<&[u8]> = head.to_vec();
        for one in rest {
            words.push(one);
        }
        put_command(&mut self.batch, words.into_iter());
        self.calls += 1;
    }

    /// Adds keys to the batch until it is full or there are none.
    ///
    /// # Errors
    /// A value is too large to be sent.
    fn fill(&mut self) -> io::Result<()> {
        let (mut steps, mut rounds) = (0, 0);
        while self.batch.len() < BATCH_BYTES {
            let are_many = self.changed.len() > CHANGED_MAX / 2;
            if !self.pending.is_empty() {
                self.add_states()?;
            } else if self.walk.is_some() && steps < STEPS_MAX && !are_many {
                steps += 1;
                self.step();
            } else if (self.walk.is_none() || are_many)
                && !self.changed.is_empty()
                && rounds < ROUNDS_PER_BATCH
            {
                rounds += 1;
                self.pending = self.changed.drain().collect();
            } else {
                break;
            }
        }
        Ok(())
    }

    /// Walks a few keys.
    fn step(&mut self) {
        let Some((db, cursor)) = self.walk else {
            return;
        };
        let space = &self.server.data.keyspace;
        let (leaving, pending, changed) = (self.leaving, &mut self.pending, &self.changed);
        let mut view = space.lock_all(self.server.clock.now());
        view.set_horizon(EARLIEST);
        let next = view.scan(db, cursor, KEYS_PER_STEP, &mut |name, _| {
            let named = (db, Box::from(name));
            // Changed keys are sent after the walk.
            if leaving.has(slot(name)) && !changed.contains(&named) {
                pending.push(named);
            }
        });
        self.walk = match next {
            0 if usize::from(db) + 1 < space.databases() => Some((db + 1, 0)),
            0 => None,
            next => Some((db, next)),
        };
    }

    /// Adds the states of some pending keys to the batch, under one lock: a thread that locks for
    /// each key waits for a turn of a busy worker each time.
    fn add_states(&mut self) -> io::Result<()> {
        let server = self.server;
        let space = &server.data.keyspace;
        let mut added: HashSet<Named> = HashSet::new();
        let mut view = space.lock_all(server.clock.now());
        for _ in 0..KEYS_PER_LOCK {
            let Some(named) = self.pending.pop() else {
                break;
            };
            // It is sent later, as it is then.
            if self.changed.contains(&named) {
                continue;
            }
            let (db, name) = named;
            // A long command works on its keys without locks.
            if server.workers.long.uses(|used| *used == *name) {
                self.changed.insert((db, name));
                continue;
            }
            let key = space.key(db, &name);
            let state = state_of(&mut view, &key);
            self.add_state(db, &name, state)?;
            added.insert((db, name));
            if self.batch.len() >= BATCH_BYTES {
                break;
            }
        }
        // The target forgets its events of a key whose state it receives.
        let mut events = view.take_withheld(|db, name| added.contains(&(db, Box::from(name))));
        drop(view);
        notify::publish(server, &mut events);
        Ok(())
    }

    fn add_state(&mut self, db: u8, name: &[u8], state: Option<KeyState>) -> io::Result<()> {
        let Some(state) = state else {
            self.add("DEL", db, [name].into_iter());
            return Ok(());
        };
        let limit = self.server.config.number(Id::ProtoMaxBulkLen) as usize;
        if state.payload.len() > limit {
            return Err(wrong(TOO_LARGE));
        }
        let deadline = Text::unsigned(state.deadline);
        let protection: &[u8] = if state.is_protected { b"1" } else { b"0" };
        let head = [
            name,
            deadline.as_bytes(),
            &state.payload,
            &state.head,
            protection,
            &state.labels,
        ];
        self.add("KEY", db, head.into_iter());
        Ok(())
    }

    /// Sends the batch and awaits the replies. Returns the number of bytes.
    fn flush(&mut self) -> io::Result<usize> {
        let sent = self.batch.len();
        if sent == 0 {
            return Ok(0);
        }
        self.connection.get_mut().write_all(&self.batch)?;
        for _ in 0..self.calls {
            line(&mut self.connection)?;
        }
        self.leaving.sent_keys.fetch_add(self.calls as u64, Relaxed);
        self.leaving.sent_bytes.fetch_add(sent as u64, Relaxed);
        let total = &self.server.cluster.moves.sent_bytes;
        total.fetch_add(sent as u64, Relaxed);
        self.sent_keys += self.calls as u64;
        self.sent_bytes += sent as u64;
        self.batch.clear();
        self.batch.shrink_to(2 * BATCH_BYTES);
        self.calls = 0;
        Ok(sent)
    }

    fn report(&self) {
        self.leaving.left_keys.store(self.left() as u64, Relaxed);
        let space = &self.server.data.keyspace;
        let (shards, databases) = (space.shard_count() as u64, space.databases() as u64);
        let percent = self.walk.map_or(100, |(db, cursor)| {
            (u64::from(db) * shards + (cursor >> 48)) * 100 / (shards * databases)
        });
        self.leaving.walked_percent.store(percent, Relaxed);
        let elapsed_ms = self.begun.elapsed().as_millis().max(1) as u64;
        let rate = self.sent_bytes.saturating_mul(1000) / elapsed_ms;
        self.leaving.rate_bytes.store(rate, Relaxed);
    }

    /// Pauses as long as the maximum rate requires after some bytes. The feed is read meanwhile,
    /// because it would grow.
    fn throttle(&mut self, sent: usize) -> io::Result<()> {
        let rate = self.server.config.number(Id::ClusterMoveRate) as u64;
        let nanos = (sent as u64)
            .saturating_mul(1_000_000_000)
            .checked_div(rate);
        let end = Instant::now() + Duration::from_nanos(nanos.unwrap_or_default());
        while !has_ended(self.server, self.leaving) {
            let pause = end.saturating_duration_since(Instant::now());
            if pause.is_zero() {
                break;
            }
            self.leaving.wait(pause.min(THROTTLE_SLICE));
            self.read_feed(FEED_BYTES)?;
        }
        Ok(())
    }
}
