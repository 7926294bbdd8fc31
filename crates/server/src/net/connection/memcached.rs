//! A connection in memcached's protocol: finds requests, has their keys brought near, carries them out.

use super::{BACKPRESSURE_BYTES, Connection, Scratch, Stop};
use crate::config::Id;
use crate::dispatch::{BATCH_CALLS_MAX, Executor, Outcome};
use crate::memcached::refuse;
use crate::net::found::{Found, What};
use wire::Span;
use wire::memcached::text::line;
use wire::memcached::{Limits, Parsed, Parser};

/// What clients are told while a password is set: this protocol has no way to give it here.
const NO_PASSWORD: &str = "CLIENT_ERROR unauthenticated: this server has a password, which only Redis's protocol can give";

impl Connection {
    /// Runs the whole requests at the front of `input`; how many bytes they took.
    pub(super) fn run_memcached(
        &mut self,
        input: &[u8],
        executor: &mut Executor<'_>,
        scratch: &mut Scratch,
        output: &mut Vec<u8>,
    ) -> (usize, Stop) {
        let mut spans = std::mem::take(&mut scratch.spans);
        let mut requests = std::mem::take(&mut scratch.requests);
        let mut used = 0;
        let stop = loop {
            spans.clear();
            requests.clear();
            let end = self.find(input, used, executor, &mut spans, &mut requests);
            let stop = self.carry_out(input, &spans, &requests, executor, output);
            executor.end_batch();
            if let Some((stop, at)) = stop {
                used = at;
                break stop;
            }
            used = end;
            if requests.len() < BATCH_CALLS_MAX {
                break Stop::Dry;
            }
        };
        scratch.spans = spans;
        scratch.requests = requests;
        if stop == Stop::Closing {
            used = input.len();
        }
        (used, stop)
    }

    /// Finds requests from `at` on, as many as a batch takes; where the rest begins.
    fn find(
        &mut self,
        input: &[u8],
        mut at: usize,
        executor: &Executor<'_>,
        spans: &mut Vec<Span>,
        requests: &mut Vec<Found>,
    ) -> usize {
        let config = &executor.server().config;
        let parser = self.memcached.as_mut().expect("its caller has asked");
        parser.set_limits(Limits {
            value_bytes_max: config.number(Id::MemcachedItemMax) as usize,
        });
        while requests.len() < BATCH_CALLS_MAX && at < input.len() {
            let (consumed, what) = match parser.parse(&input[at..], spans) {
                Parsed::Incomplete => break,
                Parsed::Skipped { consumed } => {
                    at += consumed;
                    continue;
                }
                Parsed::Request { consumed, request } => (consumed, What::Request(request)),
                Parsed::Refused { consumed, refusal } => (consumed, What::Refused(refusal)),
            };
            requests.push(Found { at, what });
            at += consumed;
        }
        at
    }

    /// Carries out what was found; why and before which byte it stopped, if it did.
    fn carry_out(
        &mut self,
        input: &[u8],
        spans: &[Span],
        requests: &[Found],
        executor: &mut Executor<'_>,
        output: &mut Vec<u8>,
    ) -> Option<(Stop, usize)> {
        let keys = requests.iter().flat_map(|found| {
            let keys = match &found.what {
                What::Request(request) => request.keys(spans),
                What::Refused(_) => &[],
            };
            let here = &input[found.at..];
            keys.iter().map(|key| &here[key.range()])
        });
        executor.prepare_keys(keys);
        for found in requests {
            if output.len() - self.sent > BACKPRESSURE_BYTES {
                return Some(self.stop_before(Stop::Full, found));
            }
            let here = &input[found.at..];
            match &found.what {
                _ if !self.session.may_pass(executor.server().needs_password()) => {
                    line(output, NO_PASSWORD);
                    self.session.is_closing = true;
                }
                What::Request(request) => {
                    let keys = request.keys(spans);
                    let session = &mut self.session;
                    let outcome = executor.run_memcached(session, request, keys, here, output);
                    if outcome == Outcome::Held {
                        return Some(self.stop_before(Stop::Held, found));
                    }
                }
                What::Refused(refusal) => {
                    if let Some(stale) = refusal.stale {
                        executor.drop_stale(&here[stale.range()]);
                    }
                    refuse(refusal, output);
                    self.session.is_closing |= refusal.is_fatal;
                }
            }
            self.command_count += 1;
            if self.session.is_closing {
                return Some((Stop::Closing, input.len()));
            }
        }
        None
    }

    /// What was found behind the last request that ran is found again later, by a parser that has seen
    /// nothing.
    fn stop_before(&mut self, stop: Stop, found: &Found) -> (Stop, usize) {
        self.memcached = self.memcached.map(|parser| Parser::new(parser.limits()));
        (stop, found.at)
    }
}
