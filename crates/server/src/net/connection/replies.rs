//! Replies and messages of a connection: adding them, sending them, and keeping what the socket
//! does not accept.

use super::backlog::{Backlog, Sent};
use super::{BACKPRESSURE_BYTES, Connection, Next, SENT_PER_TURN, Scratch};
use crate::dispatch::Executor;
use session::clock::Moment;
use session::message::Publication;
use session::session::ReplyMode;
use session::{freeing, tracking};
use std::io::ErrorKind;
use std::sync::Arc;
use wire::{Output, Protocol, Reply};

/// Bytes that were not sent.
#[derive(Debug)]
pub struct Replies {
    /// Replies. The bytes from `sent` on are unsent.
    pub(super) output: Output,
    pub(super) sent: usize,
    /// Published messages that follow the output.
    pub(super) backlog: Backlog,
    /// Number of unsent bytes beyond which no further command is executed.
    pub(super) backpressure_bytes: usize,
    /// Time since which the unsent bytes have exceeded the soft limit.
    pub(super) over_since: Option<Moment>,
    /// Whether the socket is registered for writability.
    pub waits_to_write: bool,
}

impl Default for Replies {
    fn default() -> Self {
        Replies {
            output: Output::default(),
            sent: 0,
            backlog: Backlog::default(),
            backpressure_bytes: BACKPRESSURE_BYTES,
            over_since: None,
            waits_to_write: false,
        }
    }
}

/// Maximum number of bytes sent to a client whose connection is about to be closed: as much as a
/// socket usually accepts at once.
const SENT_AT_CLOSE: usize = 4 << 20;

/// Maximum number of unsent bytes that are moved to the front of the output, so that others are not
/// delayed. More than these bytes stop the execution of commands, so that the output does not grow.
const MOVED_BYTES_MAX: usize = 4 * BACKPRESSURE_BYTES;

/// Number of pending bytes up to which a published message is added to the output. Further messages
/// go to the backlog.
const COPIED_BYTES_MAX: usize = 16 << 10;

/// Maximum capacity that a worker's reply buffer keeps, in bytes.
const KEPT_BYTES_MAX: usize = 256 << 10;

impl Connection {
    /// Sends `output` from `sent` on, up to the amount of a turn, and keeps the bytes that remain.
    pub(super) fn send(&mut self, mut output: Output, scratch: &mut Scratch, next: Next) -> Next {
        if output.is_cut_off() {
            self.replies.sent = 0;
            self.replies.output = output;
            return Next::Close;
        }
        if self.awaits_sync() {
            self.replies.output = output;
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
        while self.replies.sent < output.len() {
            if left == 0 {
                self.keep_unsent(output);
                return if is_last { next } else { Next::Again };
            }
            let end = output.len().min(self.replies.sent.saturating_add(left));
            scratch.traffic.writes += 1;
            match self.transmit(&output[self.replies.sent..end], scratch) {
                Ok(len) => {
                    self.replies.sent += len;
                    left -= len;
                    self.account.sent_bytes += len as u64;
                    scratch.traffic.output_bytes += len as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.keep_unsent(output);
                    return next;
                }
                Err(_) => {
                    self.replies.sent = 0;
                    freeing::free(output.take_bytes());
                    return Next::Close;
                }
            }
        }
        self.replies.sent = 0;
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
        } else if self.input.is_stalled && next == Next::Wait && !self.session.is_blocked() {
            Next::Again
        } else {
            next
        }
    }

    /// Keeps unsent output. Sent bytes are removed from the front if they are the larger part and
    /// few bytes have to be moved.
    fn keep_unsent(&mut self, mut output: Output) {
        if self.replies.sent > output.len() / 2
            && output.len() - self.replies.sent <= MOVED_BYTES_MAX
        {
            output.remove_front(self.replies.sent);
            self.replies.sent = 0;
        }
        self.replies.output = output;
    }

    /// Sends pending output, after the socket has become writable or messages were added.
    pub fn flush(&mut self, scratch: &mut Scratch) -> Next {
        let output = std::mem::take(&mut self.replies.output);
        let next = self.send(output, scratch, Next::Wait);
        self.account(scratch);
        next
    }

    /// Adds published messages to the output.
    pub fn deliver(&mut self, publication: &Arc<Publication>) {
        let messages = publication.encoded(self.session.protocol);
        if self.replies.backlog.is_empty()
            && self.replies.output.len() + messages.len() <= COPIED_BYTES_MAX
        {
            self.replies.output.extend_from_slice(messages);
        } else {
            self.replies
                .backlog
                .push(publication, self.session.protocol);
        }
    }

    /// Adds bytes in the client's protocol to the output.
    pub fn append(&mut self, bytes: &[u8]) {
        self.absorb_backlog();
        self.replies.output.extend_from_slice(bytes);
    }

    /// Adds an invalidation of keys that the client caches: an array of keys in RESP, or all keys.
    /// A client with RESP2 receives it only as a message of the channel for invalidations, if
    /// another client redirects its invalidations to this one.
    pub fn invalidate(&mut self, keys: Option<&[u8]>, is_redirected: bool) {
        let protocol = self.session.protocol;
        self.absorb_backlog();
        let mut reply = Reply::new(&mut self.replies.output, protocol);
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
        self.hold_answer(server, &reply);
        let is_free = self.replies.output.is_empty() && !self.replies.output.is_cut_off();
        if is_free && waiter.is_none() && self.session.reply_mode == ReplyMode::On {
            // The reply of a long command is moved, not copied, because it may be large.
            executor.count_error(&reply);
            self.replies.output = reply;
            self.bound_output(&executor.server().config);
        } else {
            let (session, output) = (&mut self.session, &mut self.replies.output);
            executor.reply_late(session, waiter.as_deref(), &reply, output);
        }
    }

    /// Returns the number of unsent bytes.
    pub fn pending_bytes(&self) -> usize {
        let records = self.tls.as_ref().map_or(0, |tls| tls.unsent_bytes());
        self.replies.output.len().saturating_sub(self.replies.sent)
            + self.replies.backlog.bytes()
            + records
    }
}
