//! One client's socket with its buffers and its session.
//!
//! Input is read into the worker's buffer and parsed there. Only an incomplete command at its end
//! moves to the connection's own buffer. Replies are written to the worker's buffer and sent with
//! one system call; only the bytes that the socket does not accept stay with the connection. An
//! idle connection therefore holds no buffers, and a request costs one read and one write.

mod aside;
mod backlog;
mod dialect;
mod encrypted;
mod input;
mod memcached;
mod memory;
mod replica;
mod replies;
mod resp;
pub(crate) mod sync;

use self::aside::Aside;
use self::dialect::Dialect;
use self::input::Input;
use self::memory::Account;
use self::replica::Feeding;
use self::replies::Replies;
use self::sync::SyncWait;
use crate::dispatch::{Call, Executor};
use crate::net::batch_item::BatchItem;
use crate::net::tls::TlsStream;
use crate::state::Observability;
use session::clients::flag;
use session::clock::{Clock, Moment};
use session::notices::Kind;
use session::session::Session;
use session::socket::Stream;
use std::sync::atomic::Ordering::Relaxed;
use wire::{Output, Parser, Span};

/// Number of unsent reply bytes beyond which no further command of the client is executed. Half of
/// the client's output limit if that is less, so that a pipeline of short replies does not exceed
/// the limit.
pub const BACKPRESSURE_BYTES: usize = 1 << 20;
/// Maximum number of bytes per read.
const SCRATCH_BYTES: usize = 64 << 10;
/// Number of bytes sent to one client after which other connections are served.
pub(super) const SENT_PER_TURN: usize = 256 << 10;
/// Maximum capacity of the spans of a batch that is kept for the next one.
const SPANS_KEPT_MAX: usize = 16 << 10;

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

/// Lists of the worker in which a connection is.
#[derive(Debug, Default)]
pub struct Lists {
    /// Whether it is among the connections to serve again.
    pub is_in_again: bool,
    /// Whether it is among the leaving connections.
    pub is_in_leaving: bool,
    /// Whether it is among those that wait for a long command.
    pub is_in_waiting: bool,
}

/// A client's connection.
pub struct Connection {
    /// The socket, registered with the worker's poll.
    pub stream: Stream,
    /// Encryption, if the connection uses TLS.
    tls: Option<Box<TlsStream>>,
    /// The client's session.
    pub session: Session,
    dialect: Dialect,
    /// Bytes that were received but not executed.
    pub input: Input,
    /// Bytes that were not sent.
    pub replies: Replies,
    /// A long command that was parsed last, until it is taken out of the input.
    long_call: Option<(Call, Vec<Span>)>,
    /// A command that was taken out of the input and is not complete.
    aside: Option<Aside>,
    /// Lists of the worker in which the connection is.
    pub lists: Lists,
    /// Whether CLIENT PAUSE holds a command of the client.
    is_held: bool,
    /// Whether the connection is closed without executing its further commands.
    pub is_cut_off: bool,
    sync: SyncWait,
    /// What the connection sends, if its client is a replica.
    feeding: Option<Feeding>,
    account: Account,
}

impl Connection {
    /// Creates a connection for an accepted socket.
    pub fn new(stream: Stream, session: Session) -> Connection {
        Connection {
            stream,
            tls: None,
            session,
            dialect: Dialect::Resp(Parser::default()),
            input: Input::default(),
            replies: Replies::default(),
            long_call: None,
            aside: None,
            lists: Lists::default(),
            is_held: false,
            is_cut_off: false,
            sync: SyncWait::None,
            feeding: None,
            account: Account::default(),
        }
    }

    /// Switches the connection to memcached's protocol.
    pub fn use_memcached(&mut self) {
        let limits = wire::memcached::Limits { value_bytes_max: 0 };
        self.dialect = Dialect::Memcached {
            parser: wire::memcached::Parser::new(limits),
            resumed_at: 0,
        };
    }

    /// Records that the client has closed its sending side.
    pub fn hang_up(&mut self) {
        self.input.is_hung_up = true;
    }

    /// Makes the connection close without executing further commands. Output that the socket
    /// accepts immediately is sent first.
    pub fn cut_off(&mut self) {
        self.is_cut_off = true;
        self.session.is_closing = true;
    }

    /// Executes pending commands, reads once, executes the commands read, and sends the replies.
    pub fn serve(&mut self, executor: &mut Executor<'_>, scratch: &mut Scratch) -> Next {
        if self.awaits_sync() {
            // The worker serves the connection again when the replies were released.
            return Next::Wait;
        }
        let position = executor.server().feed.end();
        if !self.replies.backlog.is_empty() {
            if self.pending_bytes() > self.replies.backpressure_bytes {
                return self.flush(scratch);
            }
            // Replies follow the messages.
            self.bound_output(&executor.server().config);
            self.absorb_backlog();
        }
        executor.begin_turn();
        executor.begin_connection();
        let is_whole = self.pending_bytes() == 0;
        let mut output = if self.replies.output.is_empty() {
            std::mem::take(&mut scratch.output)
        } else {
            std::mem::take(&mut self.replies.output)
        };
        let unsent_max = executor.server().config.output_max(self.session.class());
        output.set_max(unsent_max.saturating_add(self.replies.sent));
        self.replies.backpressure_bytes = BACKPRESSURE_BYTES.min(unsent_max / 2);
        let mut next = self.read_and_run(executor, scratch, &mut output);
        if executor.is_beyond_fence() {
            output.clear();
            self.replies.sent = 0;
            next = Next::Close;
        }
        self.note_held(next == Next::Held, executor);
        next = self.hold_replies(executor, position, (&output, is_whole), next);
        let next = self.send(output, scratch, next);
        self.update_info(executor, scratch);
        next
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

    /// Whether a command was taken out of the input and is not complete.
    #[cfg(test)]
    pub fn has_aside(&self) -> bool {
        self.aside.is_some()
    }

    /// Returns the number of bytes that were sent.
    pub fn sent_bytes(&self) -> u64 {
        self.account.sent_bytes
    }

    /// Updates the client's record, which other workers read.
    fn update_info(&mut self, executor: &Executor<'_>, scratch: &mut Scratch) {
        let info = &self.session.info;
        info.active_ms.store(executor.moment().0, Relaxed);
        info.db.store(self.session.db, Relaxed);
        info.received_bytes
            .store(self.account.received_bytes, Relaxed);
        info.sent_bytes.store(self.account.sent_bytes, Relaxed);
        info.commands.store(self.account.command_count, Relaxed);
        let unread = self.input.bytes.len() - self.input.executed;
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
