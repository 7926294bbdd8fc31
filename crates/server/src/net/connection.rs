//! One client's socket with its buffers and its session.
//!
//! Input is read into the worker's buffer and parsed there. Only an incomplete command at its end
//! moves to the connection's own buffer. Replies are written to the worker's buffer and sent with
//! one system call; only the bytes that the socket does not accept stay with the connection. An
//! idle connection therefore holds no buffers, and a request costs one read and one write.

mod aside;
mod backlog;
mod encrypted;
mod memcached;
mod memory;
mod replica;

use self::aside::Aside;
use self::backlog::{Backlog, Sent};
use crate::command;
use crate::dispatch::{BATCH_CALLS_MAX, Call, Executor, Outcome};
use crate::net::batch_item::BatchItem;
use crate::net::tls::TlsStream;
use crate::replication::primary;
use crate::state::Observability;
use durability::aof::AppendOnly;
use session::clients::flag;
use session::clock::{Clock, Moment};
use session::feed::Feed;
use session::message::Publication;
use session::notices::Kind;
use session::session::{ReplyMode, Session};
use session::socket::Stream;
use session::{freeing, tracking};
use settings::Id;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use wire::{Limits, Output, Parsed, Parser, Protocol, Reply, Span};

/// Number of unsent reply bytes beyond which no further command of the client is executed. Half of
/// the client's output limit if that is less, so that a pipeline of short replies does not exceed
/// the limit.
pub const BACKPRESSURE_BYTES: usize = 1 << 20;
/// Maximum number of bytes per read.
const SCRATCH_BYTES: usize = 64 << 10;
/// Number of pending bytes up to which a published message is added to the output. Further messages
/// go to the backlog.
const COPIED_BYTES_MAX: usize = 16 << 10;
/// Number of bytes sent to one client after which other connections are served.
pub(super) const SENT_PER_TURN: usize = 256 << 10;
/// Maximum number of bytes sent to a client whose connection is about to be closed: as much as a
/// socket usually accepts at once.
const SENT_AT_CLOSE: usize = 4 << 20;
/// Maximum number of unsent bytes that are moved to the front of the output, so that others are not
/// delayed. More than these bytes stop the execution of commands, so that the output does not grow.
const MOVED_BYTES_MAX: usize = 4 * BACKPRESSURE_BYTES;
/// Maximum time that a connection that is about to be closed waits for the append-only file.
const SYNC_WAIT_MAX: Duration = Duration::from_secs(1);
/// Time between two looks at the append-only file in that wait.
const SYNC_POLL: Duration = Duration::from_micros(200);
/// Maximum capacity of the spans of a batch that is kept for the next one.
const SPANS_KEPT_MAX: usize = 16 << 10;
/// Maximum capacity that a worker's reply buffer keeps, in bytes.
const KEPT_BYTES_MAX: usize = 256 << 10;

/// Event that a connection waits for after it was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// More input, or space in the socket.
    Wait,
    /// The next iteration of the event loop, because there may be more to read.
    Again,
    /// The end of CLIENT PAUSE.
    Held,
    /// Delayed until this time, after failed authentications from the same address.
    Delayed(Moment),
    /// The reply of a blocked command.
    Blocked,
    /// The end of a long command of another client.
    Waits,
    /// The connection must be closed.
    Close,
}

/// Traffic of a worker since it was last added to the worker's counters.
#[derive(Debug, Default)]
pub struct Traffic {
    /// Bytes read.
    pub input_bytes: u64,
    /// Bytes written.
    pub output_bytes: u64,
    /// Number of reads.
    pub reads: u64,
    /// Number of writes.
    pub writes: u64,
    /// Change of the bytes allocated for the connections' buffers.
    pub held_bytes: i64,
}

/// Buffers that a worker lends to the connection it serves.
pub struct Scratch {
    input: Vec<u8>,
    /// Encrypted records; empty until a connection uses TLS.
    records: Vec<u8>,
    output: Output,
    spans: Vec<Span>,
    calls: Vec<Call>,
    requests: Vec<BatchItem>,
    /// Traffic since the last update of the counters.
    pub traffic: Traffic,
}

impl Default for Scratch {
    fn default() -> Self {
        Scratch {
            input: vec![0; SCRATCH_BYTES],
            records: Vec::new(),
            output: Output::default(),
            spans: Vec::new(),
            calls: Vec::new(),
            requests: Vec::new(),
            traffic: Traffic::default(),
        }
    }
}

/// Reason why the execution of the input stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// There is no complete command left.
    Exhausted,
    /// Too many reply bytes are unsent.
    Backpressure,
    /// CLIENT PAUSE.
    Held,
    /// An attempt to authenticate waits until this time.
    Delayed(Moment),
    /// The last command blocks on a key, or runs on the thread for long commands.
    Blocked,
    /// A long command of another client.
    Waits,
    /// A command has more steps, there are commands after a long one, or the commands so far have
    /// taken long enough for one turn.
    Continues,
    /// The last command is a long one. Its position is in `long_call`.
    IsLong,
    /// The connection is closing.
    Closing,
}

impl Stop {
    /// Whether complete commands may be left in the input.
    fn leaves_commands(self) -> bool {
        !matches!(self, Stop::Exhausted | Stop::Closing)
    }
}

/// A client's connection.
pub struct Connection {
    /// The socket, registered with the worker's poll.
    pub stream: Stream,
    /// Encryption, if the connection uses TLS.
    tls: Option<Box<TlsStream>>,
    /// The client's session.
    pub session: Session,
    /// Commands that were received but not executed, from `executed` on. The last one may be
    /// incomplete.
    input: Vec<u8>,
    /// Number of bytes at the front of `input` that were executed already. They are removed when
    /// they are the larger part, so that removing them takes linear time in total.
    executed: usize,
    parser: Parser,
    /// Parser of memcached's protocol, if the connection uses it.
    memcached: Option<wire::memcached::Parser>,
    /// Position from which the first memcached request of `input` continues, because part of its
    /// reply was already written; otherwise 0.
    resumed_at: u64,
    /// Replies. The bytes from `sent` on are unsent.
    output: Output,
    sent: usize,
    /// Published messages that follow the output.
    backlog: Backlog,
    /// Number of unsent bytes beyond which no further command is executed.
    backpressure_bytes: usize,
    /// A long command that was parsed last, until it is taken out of the input.
    long_call: Option<(Call, Vec<Span>)>,
    /// A command that was taken out of the input and is not complete.
    aside: Option<Aside>,
    /// Whether `input` may contain complete commands.
    is_stalled: bool,
    /// Whether the client has closed its sending side.
    is_hung_up: bool,
    /// Whether the handshake has just ended and the client has a certificate.
    has_new_certificate: bool,
    /// Whether the last read filled its buffer, so that the socket may hold more input without
    /// another event.
    pub may_have_more: bool,
    /// Whether CLIENT PAUSE holds a command of the client.
    is_held: bool,
    /// Whether the socket is registered for writability.
    pub waits_to_write: bool,
    /// Whether the connection is in the worker's list of connections to serve again.
    pub is_listed: bool,
    /// Whether the connection is in the worker's list of leaving connections.
    pub is_leaving: bool,
    /// Whether the connection is closed without executing its further commands.
    pub is_cut_off: bool,
    /// Whether the connection is in the worker's list of those that wait for a long command.
    pub is_waiting: bool,
    /// Feed position up to which the append-only file must be on disk before replies are sent,
    /// while they are held for it.
    sync_at: Option<u64>,
    /// Whether the connection is in the worker's list of those whose replies are held.
    pub is_syncing: bool,
    /// Whether the connection is in the worker's list of replicas.
    pub is_fed: bool,
    /// Number of bytes of the snapshot that were sent to a replica, once it has begun.
    snapshot_sent: Option<u64>,
    /// Time since which the unsent replies have exceeded the soft limit.
    over_since: Option<Moment>,
    held_bytes: usize,
    received_bytes: u64,
    sent_bytes: u64,
    command_count: u64,
}

impl Connection {
    /// Creates a connection for an accepted socket.
    pub fn new(stream: Stream, session: Session) -> Connection {
        Connection {
            stream,
            tls: None,
            session,
            input: Vec::new(),
            executed: 0,
            parser: Parser::default(),
            memcached: None,
            resumed_at: 0,
            output: Output::default(),
            sent: 0,
            backlog: Backlog::default(),
            backpressure_bytes: BACKPRESSURE_BYTES,
            long_call: None,
            aside: None,
            is_stalled: false,
            is_hung_up: false,
            has_new_certificate: false,
            may_have_more: false,
            is_held: false,
            waits_to_write: false,
            is_listed: false,
            is_leaving: false,
            is_cut_off: false,
            is_waiting: false,
            sync_at: None,
            is_fed: false,
            snapshot_sent: None,
            is_syncing: false,
            over_since: None,
            held_bytes: 0,
            received_bytes: 0,
            sent_bytes: 0,
            command_count: 0,
        }
    }

    /// Switches the connection to memcached's protocol.
    pub fn use_memcached(&mut self) {
        let limits = wire::memcached::Limits { value_bytes_max: 0 };
        self.memcached = Some(wire::memcached::Parser::new(limits));
    }

    /// Records that the client has closed its sending side.
    pub fn hang_up(&mut self) {
        self.is_hung_up = true;
    }

    /// Makes the connection close without executing further commands. Output that the socket
    /// accepts immediately is sent first.
    pub fn cut_off(&mut self) {
        self.is_cut_off = true;
        self.session.is_closing = true;
    }

    /// Executes pending commands, reads once, executes the commands read, and sends the replies.
    pub fn serve(&mut self, executor: &mut Executor<'_>, scratch: &mut Scratch) -> Next {
        if self.sync_at.is_some() {
            // The worker serves the connection again when the replies were released.
            return Next::Wait;
        }
        let position = executor.server().feed.end();
        if !self.backlog.is_empty() {
            if self.pending_bytes() > self.backpressure_bytes {
                return self.flush(scratch);
            }
            // Replies follow the messages.
            self.bound_output(&executor.server().config);
            self.absorb_backlog();
        }
        executor.begin_turn();
        let mut output = if self.output.is_empty() {
            std::mem::take(&mut scratch.output)
        } else {
            std::mem::take(&mut self.output)
        };
        let unsent_max = executor.server().config.output_max(self.session.class());
        output.set_max(unsent_max.saturating_add(self.sent));
        self.backpressure_bytes = BACKPRESSURE_BYTES.min(unsent_max / 2);
        let next = self.read_and_run(executor, scratch, &mut output);
        self.note_held(next == Next::Held, executor);
        self.hold_replies(
            &executor.server().persistence.aof,
            &executor.server().feed,
            position,
            next,
        );
        let next = self.send(output, scratch, next);
        self.update_info(executor, scratch);
        next
    }

    /// Holds the replies until the append-only file is on the disk, if `appendfsync` says so and a
    /// change was added to the feed since `position`.
    fn hold_replies(&mut self, aof: &AppendOnly, feed: &Feed, position: u64, next: Next) {
        let end = feed.end();
        if !aof.holds_replies() || end == position || end <= aof.synced() {
            return;
        }
        self.sync_at = Some(end);
        if next == Next::Close {
            // The connection cannot outlast this call.
            let start = Instant::now();
            while !self.is_synced(aof) && start.elapsed() < SYNC_WAIT_MAX {
                std::thread::sleep(SYNC_POLL);
            }
            if self.is_synced(aof) {
                self.sync_at = None;
            }
        }
    }

    /// Whether the replies are held for the append-only file.
    pub fn awaits_sync(&self) -> bool {
        self.sync_at.is_some()
    }

    /// Whether replies need not be held any longer.
    pub fn is_synced(&self, aof: &AppendOnly) -> bool {
        let is_done = |at: u64| aof.synced() >= at || !aof.holds_replies();
        self.sync_at.is_none_or(is_done)
    }

    /// Sends the replies that were held.
    pub fn release_replies(&mut self, scratch: &mut Scratch) -> Next {
        self.sync_at = None;
        self.flush(scratch)
    }

    fn read_and_run(
        &mut self,
        executor: &mut Executor<'_>,
        scratch: &mut Scratch,
        output: &mut Output,
    ) -> Next {
        if self.session.is_blocked() {
            // The client of a long command is served again at its end, even if it has hung up.
            return match self.session.waiter() {
                Some(_) => self.read_ahead(executor, scratch),
                None => Next::Blocked,
            };
        }
        // Its worker has not received the message yet.
        self.session.is_closing |= self.session.info.is_killed();
        if self.session.is_closing || output.len() - self.sent > self.backpressure_bytes {
            return Next::Wait;
        }
        if let Some(aside) = self.aside.take() {
            let stop = self.resume(aside, executor, output);
            return self.next_of(stop);
        }
        if self.is_stalled {
            match self.run_stored(executor, scratch, output) {
                Stop::Exhausted => {}
                stop => return self.next_of(stop),
            }
        }
        let mut input = std::mem::take(&mut scratch.input);
        scratch.traffic.reads += 1;
        let result = self.receive(
            &executor.server().observability,
            &executor.server().clock,
            &mut input,
            scratch,
        );
        self.log_in_by_certificate(executor.server());
        let next = match result {
            Ok(0) => Next::Close,
            Ok(len) => {
                scratch.traffic.input_bytes += len as u64;
                self.received_bytes += len as u64;
                self.may_have_more = self.may_have_more(len == input.len());
                let (stop, is_kept) = self.take_input(&mut input[..len], executor, scratch, output);
                match self.next_of(stop) {
                    _ if !is_kept => Next::Close,
                    Next::Wait
                        if stop == Stop::Exhausted && (self.may_have_more || self.is_hung_up) =>
                    {
                        Next::Again
                    }
                    next => next,
                }
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock => Next::Wait,
                ErrorKind::Interrupted => Next::Again,
                _ => Next::Close,
            },
        };
        scratch.input = input;
        next
    }

    /// Executes the commands in the bytes read, with those received before them, and keeps the
    /// rest. Returns false if there is no memory for the rest.
    fn take_input(
        &mut self,
        input: &mut [u8],
        executor: &mut Executor<'_>,
        scratch: &mut Scratch,
        output: &mut Output,
    ) -> (Stop, bool) {
        let server = executor.server();
        if !self.input.is_empty() {
            return match self.keep_input(input, &server.observability, &server.clock) {
                true => (self.run_stored(executor, scratch, output), true),
                false => (Stop::Closing, false),
            };
        }
        let (used, stop) = self.run(input, executor, scratch, output);
        let is_kept = self.keep_input(&input[used..], &server.observability, &server.clock);
        match stop {
            Stop::IsLong => (self.begin_copied(input, executor, output), is_kept),
            stop => (stop, is_kept),
        }
    }

    /// Reads input of a blocked client without executing it. Otherwise a client that sends more
    /// than the socket buffers hold and disconnects would stay blocked, because its FIN arrives
    /// only after the bytes before it were read.
    fn read_ahead(&mut self, executor: &Executor<'_>, scratch: &mut Scratch) -> Next {
        if self.is_hung_up {
            return Next::Close;
        }
        let mut input = std::mem::take(&mut scratch.input);
        scratch.traffic.reads += 1;
        let result = self.receive(
            &executor.server().observability,
            &executor.server().clock,
            &mut input,
            scratch,
        );
        self.may_have_more = false;
        let next = match result {
            Ok(0) => Next::Close,
            Ok(len) => {
                scratch.traffic.input_bytes += len as u64;
                self.received_bytes += len as u64;
                self.may_have_more = self.may_have_more(len == input.len());
                let server = executor.server();
                let is_kept = self.keep_input(&input[..len], &server.observability, &server.clock);
                if !is_kept || self.is_over_query_limit(executor) {
                    Next::Close
                } else {
                    Next::Blocked
                }
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock => Next::Blocked,
                ErrorKind::Interrupted => {
                    self.may_have_more = true;
                    Next::Blocked
                }
                _ => Next::Close,
            },
        };
        scratch.input = input;
        next
    }

    /// Whether more input is buffered than `client-query-buffer-limit` allows. If it is, counts and
    /// logs the disconnection, which is up to the caller.
    fn is_over_query_limit(&self, executor: &Executor<'_>) -> bool {
        let server = executor.server();
        let limit = server.config.number(Id::QueryBufferLimit) as usize;
        if self.input.len() - self.executed <= limit {
            return false;
        }
        let stats = &server.observability.stats;
        stats.query_limit_disconnections.fetch_add(1, Relaxed);
        self.warn_of_closing(
            &server.observability,
            &server.clock,
            Kind::Closed,
            "its query buffer exceeds client-query-buffer-limit",
        );
        true
    }

    fn next_of(&mut self, stop: Stop) -> Next {
        self.is_stalled = stop.leaves_commands();
        match stop {
            Stop::Exhausted | Stop::Closing => Next::Wait,
            Stop::Backpressure => Next::Wait,
            Stop::Held => Next::Held,
            Stop::Delayed(at) => Next::Delayed(at),
            Stop::Blocked if self.is_hung_up && self.session.waiter().is_some() => Next::Close,
            Stop::Blocked => Next::Blocked,
            Stop::Waits => Next::Waits,
            Stop::Continues => Next::Again,
            // It was begun or waits.
            Stop::IsLong => unreachable!("a long command is taken out of the input"),
        }
    }

    /// Executes the commands in the connection's own buffer.
    fn run_stored(
        &mut self,
        executor: &mut Executor<'_>,
        scratch: &mut Scratch,
        output: &mut Output,
    ) -> Stop {
        let mut input = std::mem::take(&mut self.input);
        let (used, mut stop) = self.run(&mut input[self.executed..], executor, scratch, output);
        self.executed += used;
        if stop == Stop::IsLong {
            stop = self.begin_moved(&mut input, executor, output);
        } else if self.executed == input.len() {
            freeing::free(std::mem::take(&mut input));
            self.executed = 0;
        } else if self.executed > input.len() / 2 {
            input.drain(..self.executed);
            self.executed = 0;
        }
        self.input = input;
        self.is_stalled = stop.leaves_commands();
        if stop == Stop::Exhausted && self.is_over_query_limit(executor) {
            self.session.is_closing = true;
            return Stop::Closing;
        }
        stop
    }

    /// Executes the complete commands at the front of `input`. Returns the number of consumed
    /// bytes.
    fn run(
        &mut self,
        input: &mut [u8],
        executor: &mut Executor<'_>,
        scratch: &mut Scratch,
        output: &mut Output,
    ) -> (usize, Stop) {
        if self.memcached.is_some() {
            return self.run_memcached(input, executor, scratch, output);
        }
        let mut spans = std::mem::take(&mut scratch.spans);
        let mut calls = std::mem::take(&mut scratch.calls);
        let mut used = 0;
        let stop = loop {
            spans.clear();
            calls.clear();
            let end = self.parse(input, used, executor, &mut spans, &mut calls);
            let (stop, at) = self.run_batch(input, &spans, &mut calls, executor, output);
            let only = match &calls[..] {
                [call] => call.index.map(|index| (index, call.args(input, &spans))),
                _ => None,
            };
            executor.end_batch(&self.session, only);
            if let Some(stop) = stop {
                if let Some((call, own)) = &mut self.long_call {
                    // There may be a million, for which new memory would take milliseconds.
                    *own = std::mem::take(&mut spans);
                    own.drain(..call.first);
                    own.truncate(call.count);
                }
                // Commands parsed after the last executed one are parsed again later.
                let limits = *self.parser.limits();
                self.parser = Parser::new(limits);
                used = at;
                break stop;
            }
            used = end.at;
            if let Some(error) = end.error {
                let text = format!("ERR {error}");
                Reply::new(output, self.session.protocol).error(&text);
                executor
                    .server()
                    .observability
                    .stats
                    .count_error(text.as_bytes());
                self.session.is_closing = true;
                break Stop::Closing;
            }
            if end.is_exhausted {
                break Stop::Exhausted;
            }
        };
        spans.clear();
        spans.shrink_to(SPANS_KEPT_MAX);
        scratch.spans = spans;
        scratch.calls = calls;
        if stop == Stop::Closing {
            used = input.len();
        }
        (used, stop)
    }

    /// Parses a batch of commands from `at` on.
    fn parse(
        &mut self,
        input: &mut [u8],
        mut at: usize,
        executor: &Executor<'_>,
        spans: &mut Vec<Span>,
        calls: &mut Vec<Call>,
    ) -> ParseEnd {
        let server = executor.server();
        let may_pass = self.session.may_pass(server.auth.needs_password());
        // Before authentication, each command may authenticate the client, which changes the
        // parser's limits.
        let calls_max = if may_pass { BATCH_CALLS_MAX } else { 1 };
        let bulk_bytes_max = server.config.number(Id::ProtoMaxBulkLen) as usize;
        let limits = self.parser.limits();
        if limits.is_authenticated != may_pass || limits.bulk_bytes_max != bulk_bytes_max {
            self.parser.set_limits(Limits {
                is_authenticated: may_pass,
                bulk_bytes_max,
                ..*limits
            });
        }
        while calls.len() < calls_max && at < input.len() {
            let first = spans.len();
            match self.parser.parse(&mut input[at..], spans) {
                Ok(Parsed::Command { consumed }) => {
                    let mut call = Call {
                        start: at,
                        len: consumed,
                        first,
                        count: spans.len() - first,
                        index: None,
                        memo: None,
                    };
                    call.index = command::table().lookup(call.args(input, spans).name());
                    calls.push(call);
                    at += consumed;
                }
                Ok(Parsed::Blank { consumed }) => {
                    if self.session.is_replica {
                        primary::hear(&server.replication, self.session.info.id);
                    }
                    at += consumed;
                }
                Ok(Parsed::Incomplete { .. }) => {
                    return ParseEnd {
                        at,
                        is_exhausted: true,
                        error: None,
                    };
                }
                Err(error) => {
                    return ParseEnd {
                        at,
                        is_exhausted: true,
                        error: Some(error),
                    };
                }
            }
        }
        ParseEnd {
            at,
            is_exhausted: at == input.len(),
            error: None,
        }
    }

    /// Executes parsed commands. If it stops early, returns the reason and the offset of the first
    /// byte that was not executed.
    fn run_batch(
        &mut self,
        input: &[u8],
        spans: &[Span],
        calls: &mut [Call],
        executor: &mut Executor<'_>,
        output: &mut Output,
    ) -> (Option<Stop>, usize) {
        executor.prepare(calls, input, spans, self.session.db);
        for call in calls.iter() {
            if output.len() - self.sent > self.backpressure_bytes {
                return (Some(Stop::Backpressure), call.start);
            }
            let args = call.args(input, spans);
            if call.index.is_none() && args.is_http() {
                self.warn_of_http(&executor.server().observability, &executor.server().clock);
                self.session.is_closing = true;
                return (Some(Stop::Closing), input.len());
            }
            match executor.run(&mut self.session, args, call, output) {
                Outcome::Done => {}
                Outcome::Held => return (Some(Stop::Held), call.start),
                Outcome::Delayed(at) => return (Some(Stop::Delayed(at)), call.start),
                Outcome::Waits => return (Some(Stop::Waits), call.start),
                Outcome::IsLong => {
                    self.long_call = Some((*call, Vec::new()));
                    self.command_count += 1;
                    return (Some(Stop::IsLong), call.start + call.len);
                }
            }
            self.command_count += 1;
            self.session.is_closing |= self.session.info.is_killed();
            if self.session.is_closing || output.is_cut_off() {
                return (Some(Stop::Closing), input.len());
            }
            if self.session.is_blocked() {
                return (Some(Stop::Blocked), call.start + call.len);
            }
            if executor.is_turn_spent() {
                return (Some(Stop::Continues), call.start + call.len);
            }
        }
        (None, input.len())
    }

    fn warn_of_http(&self, observability: &Observability, clock: &Clock) {
        let why = "it sent an HTTP request, possibly caused by a malicious web page";
        self.warn_of_closing(observability, clock, Kind::Http, why);
    }

    /// Logs the reason why the connection is closed.
    fn warn_of_closing(&self, observability: &Observability, clock: &Clock, kind: Kind, why: &str) {
        let (id, address) = (self.session.info.id, &self.session.info.address);
        observability.notices.warn(
            kind,
            clock.moment(),
            format_args!("closing client {id} ({address}): {why}"),
        );
    }

    /// Sends `output` from `sent` on, up to the amount of a turn, and keeps the bytes that remain.
    fn send(&mut self, mut output: Output, scratch: &mut Scratch, next: Next) -> Next {
        if output.is_cut_off() {
            self.sent = 0;
            self.output = output;
            return Next::Close;
        }
        if self.sync_at.is_some() {
            self.output = output;
            return next;
        }
        // A client that is cut off receives what its socket accepts at once.
        let next = if self.is_cut_off { Next::Close } else { next };
        let is_last = next == Next::Close;
        let mut left = if is_last {
            SENT_AT_CLOSE
        } else {
            SENT_PER_TURN
        };
        while self.sent < output.len() {
            if left == 0 {
                self.keep_unsent(output);
                return if is_last { next } else { Next::Again };
            }
            let end = output.len().min(self.sent.saturating_add(left));
            scratch.traffic.writes += 1;
            match self.transmit(&output[self.sent..end], scratch) {
                Ok(len) => {
                    self.sent += len;
                    left -= len;
                    self.sent_bytes += len as u64;
                    scratch.traffic.output_bytes += len as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.keep_unsent(output);
                    return next;
                }
                Err(_) => {
                    self.sent = 0;
                    freeing::free(output.take_bytes());
                    return Next::Close;
                }
            }
        }
        self.sent = 0;
        output.clear();
        if output.capacity() > KEPT_BYTES_MAX {
            freeing::free(output.take_bytes());
        } else if output.capacity() > scratch.output.capacity() {
            scratch.output = output;
        }
        match self.send_backlog(scratch) {
            Sent::All => {}
            Sent::Blocked => return next,
            Sent::Some => return Next::Again,
            Sent::Failed => return Next::Close,
        }
        match self.flush_records() {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return next,
            Err(_) => return Next::Close,
        }
        if self.session.is_closing {
            Next::Close
        } else if self.is_stalled && next == Next::Wait && !self.session.is_blocked() {
            Next::Again
        } else {
            next
        }
    }

    /// Keeps unsent output. Sent bytes are removed from the front if they are the larger part and
    /// few bytes have to be moved.
    fn keep_unsent(&mut self, mut output: Output) {
        if self.sent > output.len() / 2 && output.len() - self.sent <= MOVED_BYTES_MAX {
            output.remove_front(self.sent);
            self.sent = 0;
        }
        self.output = output;
    }

    /// Sends pending output, after the socket has become writable or messages were added.
    pub fn flush(&mut self, scratch: &mut Scratch) -> Next {
        let output = std::mem::take(&mut self.output);
        let next = self.send(output, scratch, Next::Wait);
        self.account(scratch);
        next
    }

    /// Adds published messages to the output.
    pub fn deliver(&mut self, publication: &Arc<Publication>) {
        let messages = publication.encoded(self.session.protocol);
        if self.backlog.is_empty() && self.output.len() + messages.len() <= COPIED_BYTES_MAX {
            self.output.extend_from_slice(messages);
        } else {
            self.backlog.push(publication, self.session.protocol);
        }
    }

    /// Adds bytes in the client's protocol to the output.
    pub fn append(&mut self, bytes: &[u8]) {
        self.absorb_backlog();
        self.output.extend_from_slice(bytes);
    }

    /// Adds an invalidation of keys that the client caches: an array of keys in RESP, or all keys.
    /// A client with RESP2 receives it only as a message of the channel for invalidations, if
    /// another client redirects its invalidations to this one.
    pub fn invalidate(&mut self, keys: Option<&[u8]>, is_redirected: bool) {
        let protocol = self.session.protocol;
        self.absorb_backlog();
        let mut reply = Reply::new(&mut self.output, protocol);
        if protocol == Protocol::Resp3 {
            reply.push(2);
            reply.bulk(b"invalidate");
        } else if is_redirected && self.session.is_subscriber() {
            reply.push(3);
            reply.bulk(b"message");
            reply.bulk(tracking::CHANNEL);
        } else {
            return;
        }
        match keys {
            Some(keys) => reply.raw(keys),
            None => reply.null(),
        }
    }

    /// Adds the reply of a blocked command to the output and unblocks the session.
    pub fn answer(&mut self, reply: Output, executor: &Executor<'_>) {
        let waiter = self.session.end_wait();
        let server = executor.server();
        self.bound_output(&server.config);
        self.absorb_backlog();
        let end = server.feed.end();
        if server.persistence.aof.holds_replies() && end > server.persistence.aof.synced() {
            self.sync_at = Some(end);
        }
        let is_free = self.output.is_empty() && !self.output.is_cut_off();
        if is_free && waiter.is_none() && self.session.reply_mode == ReplyMode::On {
            // The reply of a long command is moved, not copied, because it may be large.
            executor.count_error(&reply);
            self.output = reply;
            self.bound_output(&executor.server().config);
        } else {
            let (session, output) = (&mut self.session, &mut self.output);
            executor.reply_late(session, waiter.as_deref(), &reply, output);
        }
    }

    /// Whether a command was taken out of the input and is not complete.
    #[cfg(test)]
    pub fn has_aside(&self) -> bool {
        self.aside.is_some()
    }

    /// Returns the number of bytes that were sent.
    pub fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    /// Returns the number of unsent bytes.
    pub fn pending_bytes(&self) -> usize {
        let records = self.tls.as_ref().map_or(0, |tls| tls.unsent_bytes());
        self.output.len().saturating_sub(self.sent) + self.backlog.bytes() + records
    }

    /// Updates the client's record, which other workers read.
    fn update_info(&mut self, executor: &Executor<'_>, scratch: &mut Scratch) {
        let info = &self.session.info;
        info.active_ms.store(executor.moment().0, Relaxed);
        info.db.store(self.session.db, Relaxed);
        info.received_bytes.store(self.received_bytes, Relaxed);
        info.sent_bytes.store(self.sent_bytes, Relaxed);
        info.commands.store(self.command_count, Relaxed);
        let unread = self.input.len() - self.executed;
        info.input_bytes.store(unread as u64, Relaxed);
        if self.session.is_closing {
            self.session.set_flag(flag::CLOSING, true);
        }
        self.account(scratch);
    }

    /// Counts a client that CLIENT PAUSE holds among the blocked ones, as Redis does.
    fn note_held(&mut self, is_held: bool, executor: &Executor<'_>) {
        if is_held == std::mem::replace(&mut self.is_held, is_held) {
            return;
        }
        self.session
            .set_flag(flag::BLOCKED, is_held || self.session.is_blocked());
        let held = &executor.server().clients.held;
        if is_held {
            held.fetch_add(1, Relaxed);
        } else {
            held.fetch_sub(1, Relaxed);
        }
    }
}

/// Result of parsing a batch.
struct ParseEnd {
    at: usize,
    /// Whether there is no complete command after `at`.
    is_exhausted: bool,
    error: Option<wire::ProtocolError>,
}
