//! Connections in RESP: parses batches of commands, prefetches their keys, and executes them.

use super::dialect::Dialect;
use super::{Connection, SPANS_KEPT_MAX, Scratch, Stop};
use crate::command;
use crate::dispatch::{BATCH_CALLS_MAX, Call, Executor, Outcome};
use crate::replication::primary;
use settings::Id;
use wire::{Limits, Output, Parsed, Parser, Reply, Span};

/// Result of parsing a batch.
struct ParseEnd {
    at: usize,
    /// Whether there is no complete command after `at`.
    is_exhausted: bool,
    error: Option<wire::ProtocolError>,
}

/// Lines of inline commands with quotes as the client has sent them, with their offsets in the
/// input. The parser unescapes them in place, and what follows the command at which a batch stops
/// is parsed again.
type Quoted = Vec<(usize, Vec<u8>)>;

impl Connection {
    /// Executes the complete commands at the front of `input`. Returns the number of consumed
    /// bytes.
    pub(super) fn run(
        &mut self,
        input: &mut [u8],
        executor: &mut Executor<'_>,
        scratch: &mut Scratch,
        output: &mut Output,
    ) -> (usize, Stop) {
        if let Dialect::Memcached { .. } = self.dialect {
            return self.run_memcached(input, executor, scratch, output);
        }
        let mut spans = std::mem::take(&mut scratch.spans);
        let mut calls = std::mem::take(&mut scratch.calls);
        let mut quoted = Quoted::new();
        let mut used = 0;
        let stop = loop {
            spans.clear();
            calls.clear();
            quoted.clear();
            let into = (&mut spans, &mut calls, &mut quoted);
            let end = self.parse(input, used, executor, into);
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
                for (start, line) in quoted.iter().filter(|(start, _)| *start >= at) {
                    input[*start..][..line.len()].copy_from_slice(line);
                }
                let parser = self.dialect.resp();
                *parser = Parser::new(*parser.limits());
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
        (spans, calls, quoted): (&mut Vec<Span>, &mut Vec<Call>, &mut Quoted),
    ) -> ParseEnd {
        let server = executor.server();
        let may_pass = self.session.may_pass(server.auth.needs_password());
        // Before authentication, each command may authenticate the client, which changes the
        // parser's limits.
        let calls_max = if may_pass { BATCH_CALLS_MAX } else { 1 };
        let bulk_bytes_max = server.config.number(Id::ProtoMaxBulkLen) as usize;
        let parser = self.dialect.resp();
        let limits = parser.limits();
        if limits.is_authenticated != may_pass || limits.bulk_bytes_max != bulk_bytes_max {
            parser.set_limits(Limits {
                is_authenticated: may_pass,
                bulk_bytes_max,
                ..*limits
            });
        }
        while calls.len() < calls_max && at < input.len() {
            let first = spans.len();
            let parsed = parser.parse(&mut input[at..], spans);
            if let Some(line) = parser.take_quoted() {
                quoted.push((at, line));
            }
            match parsed {
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
            if output.len() - self.replies.sent > self.replies.backpressure_bytes {
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
                    self.account.command_count += 1;
                    return (Some(Stop::IsLong), call.start + call.len);
                }
            }
            self.account.command_count += 1;
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
}
