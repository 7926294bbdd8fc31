//! Connections in memcached's protocol: parses batches of requests, prefetches their keys, and
//! executes them.

use super::{Connection, Scratch, Stop};
use crate::config::Id;
use crate::dispatch::{BATCH_CALLS_MAX, Executor, Outcome};
use crate::memcached::refuse;
use crate::net::batch_item::{BatchItem, Content};
use wire::memcached::text::line;
use wire::memcached::{Limits, Parsed, Parser};
use wire::{Output, Span};

/// Error while a password is set, because this protocol has no command to send it.
const NO_PASSWORD: &str =
    "CLIENT_ERROR unauthenticated: a password is set, and memcached's protocol cannot send one";

impl Connection {
    /// Executes the complete requests at the front of `input`. Returns the number of consumed
    /// bytes.
    pub(super) fn run_memcached(
        &mut self,
        input: &[u8],
        executor: &mut Executor<'_>,
        scratch: &mut Scratch,
        output: &mut Output,
    ) -> (usize, Stop) {
        let mut spans = std::mem::take(&mut scratch.spans);
        let mut requests = std::mem::take(&mut scratch.requests);
        let mut used = 0;
        let stop = loop {
            spans.clear();
            requests.clear();
            let end = self.parse_batch(input, used, executor, &mut spans, &mut requests);
            let stop = self.execute(input, &spans, &requests, executor, output);
            executor.end_batch();
            if let Some((stop, at)) = stop {
                used = at;
                break stop;
            }
            used = end;
            if requests.len() < BATCH_CALLS_MAX {
                break Stop::Exhausted;
            }
        };
        scratch.spans = spans;
        scratch.requests = requests;
        if stop == Stop::Closing {
            used = input.len();
        }
        (used, stop)
    }

    /// Parses a batch of requests from `at` on. Returns the offset of the rest.
    fn parse_batch(
        &mut self,
        input: &[u8],
        mut at: usize,
        executor: &Executor<'_>,
        spans: &mut Vec<Span>,
        requests: &mut Vec<BatchItem>,
    ) -> usize {
        let config = &executor.server().config;
        let parser = self
            .memcached
            .as_mut()
            .expect("the connection uses memcached");
        parser.set_limits(Limits {
            value_bytes_max: config.number(Id::MemcachedItemMax) as usize,
        });
        while requests.len() < BATCH_CALLS_MAX && at < input.len() {
            let (consumed, content) = match parser.parse(&input[at..], spans) {
                Parsed::Incomplete => break,
                Parsed::Skipped { consumed } => {
                    at += consumed;
                    continue;
                }
                Parsed::Request { consumed, request } => (consumed, Content::Request(request)),
                Parsed::Refused { consumed, refusal } => (consumed, Content::Refused(refusal)),
            };
            requests.push(BatchItem { at, content });
            at += consumed;
        }
        at
    }

    /// Executes parsed requests. If it stops early, returns the reason and the offset of the first
    /// request that was not executed.
    fn execute(
        &mut self,
        input: &[u8],
        spans: &[Span],
        requests: &[BatchItem],
        executor: &mut Executor<'_>,
        output: &mut Output,
    ) -> Option<(Stop, usize)> {
        let keys = requests.iter().flat_map(|item| {
            let keys = match &item.content {
                Content::Request(request) => request.keys(spans),
                Content::Refused(_) => &[],
            };
            let here = &input[item.at..];
            keys.iter().map(|key| &here[key.range()])
        });
        executor.prepare_keys(keys);
        for item in requests {
            if output.len() - self.sent > self.backpressure_bytes {
                return Some(self.stop_before(Stop::Backpressure, item));
            }
            let here = &input[item.at..];
            match &item.content {
                _ if !self.session.may_pass(executor.server().needs_password()) => {
                    line(output, NO_PASSWORD);
                    self.session.is_closing = true;
                }
                Content::Request(request) => {
                    let keys = request.keys(spans);
                    let session = &mut self.session;
                    let outcome = executor.run_memcached(session, request, keys, here, output);
                    if outcome == Outcome::Held {
                        return Some(self.stop_before(Stop::Held, item));
                    }
                }
                Content::Refused(refusal) => {
                    if let Some(stale) = refusal.stale {
                        executor.drop_stale(&here[stale.range()]);
                    }
                    refuse(refusal, output);
                    self.session.is_closing |= refusal.is_fatal;
                }
            }
            self.command_count += 1;
            if self.session.is_closing || output.is_cut_off() {
                return Some((Stop::Closing, input.len()));
            }
        }
        None
    }

    /// Stops before a request. The requests from there on are parsed again later by a new parser.
    fn stop_before(&mut self, stop: Stop, item: &BatchItem) -> (Stop, usize) {
        self.memcached = self.memcached.map(|parser| Parser::new(parser.limits()));
        (stop, item.at)
    }
}
