//! Input of a connection: reading it, executing what is complete, and keeping the rest.

use super::{Connection, Next, Scratch, Stop};
use crate::dispatch::Executor;
use session::freeing;
use session::notices::Kind;
use settings::Id;
use std::io::ErrorKind;
use std::sync::atomic::Ordering::Relaxed;
use wire::Output;

/// Bytes that were received but not executed.
#[derive(Debug, Default)]
pub struct Input {
    /// Commands that were received but not executed, from `executed` on. The last one may be
    /// incomplete.
    pub(super) bytes: Vec<u8>,
    /// Number of bytes at the front that were executed already. They are removed when they are the
    /// larger part, so that removing them takes linear time in total.
    pub(super) executed: usize,
    /// Whether the bytes may contain complete commands.
    pub(super) is_stalled: bool,
    /// Whether the last read filled its buffer, so that the socket may hold more input without
    /// another event.
    pub may_have_more: bool,
    /// Whether the client has closed its sending side.
    pub(super) is_hung_up: bool,
}

impl Connection {
    pub(super) fn read_and_run(
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
        if self.session.is_closing
            || output.len() - self.replies.sent > self.replies.backpressure_bytes
        {
            return Next::Wait;
        }
        if let Some(aside) = self.aside.take() {
            let stop = self.resume(aside, executor, output);
            return self.next_of(stop);
        }
        if self.input.is_stalled {
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
                self.account.received_bytes += len as u64;
                self.input.may_have_more = self.may_have_more(len == input.len());
                let (stop, is_kept) = self.take_input(&mut input[..len], executor, scratch, output);
                match self.next_of(stop) {
                    _ if !is_kept => Next::Close,
                    Next::Wait
                        if stop == Stop::Exhausted
                            && (self.input.may_have_more || self.input.is_hung_up) =>
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
        if !self.input.bytes.is_empty() {
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
        if self.input.is_hung_up {
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
        self.input.may_have_more = false;
        let next = match result {
            Ok(0) => Next::Close,
            Ok(len) => {
                scratch.traffic.input_bytes += len as u64;
                self.account.received_bytes += len as u64;
                self.input.may_have_more = self.may_have_more(len == input.len());
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
                    self.input.may_have_more = true;
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
        if self.input.bytes.len() - self.input.executed <= limit {
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
        self.input.is_stalled = stop.leaves_commands();
        match stop {
            Stop::Exhausted | Stop::Closing => Next::Wait,
            Stop::Backpressure => Next::Wait,
            Stop::Held => Next::Held,
            Stop::Delayed(at) => Next::Delayed(at),
            Stop::Blocked if self.input.is_hung_up && self.session.waiter().is_some() => {
                Next::Close
            }
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
        let mut input = std::mem::take(&mut self.input.bytes);
        let (used, mut stop) =
            self.run(&mut input[self.input.executed..], executor, scratch, output);
        self.input.executed += used;
        if stop == Stop::IsLong {
            stop = self.begin_moved(&mut input, executor, output);
        } else if self.input.executed == input.len() {
            freeing::free(std::mem::take(&mut input));
            self.input.executed = 0;
        } else if self.input.executed > input.len() / 2 {
            input.drain(..self.input.executed);
            self.input.executed = 0;
        }
        self.input.bytes = input;
        self.input.is_stalled = stop.leaves_commands();
        if stop == Stop::Exhausted && self.is_over_query_limit(executor) {
            self.session.is_closing = true;
            return Stop::Closing;
        }
        stop
    }
}
