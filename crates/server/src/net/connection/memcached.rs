//! Connections in memcached's protocol: parses batches of requests, prefetches their keys, and
//! executes them.

use super::{Connection, SPANS_KEPT_MAX, Scratch, Stop};
use crate::dispatch::{BATCH_CALLS_MAX, Executor};
use crate::memcached::{Progress, refuse, refuse_unauthenticated};
use crate::net::batch_item::{BatchItem, Content};
use settings::Id;
use wire::memcached::{Complaint, Limits, Parsed, Refusal, Request, Verb};
use wire::{Output, Span};

/// Maximum length of a value read from a client that is not authenticated. Its only useful request
/// is the authentication, whose length the parser limits.
const STRANGER_VALUE_BYTES_MAX: usize = 1024;
/// Number of keys of a client's requests after which other clients are served.
const KEYS_PER_TURN: usize = 8192;

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
        let (mut used, mut keys_left) = (0, KEYS_PER_TURN);
        let stop = loop {
            spans.clear();
            requests.clear();
            let (end, is_full) = self.parse_batch(input, used, executor, &mut spans, &mut requests);
            let batch = (&spans[..], &requests[..]);
            let stop = self.execute(input, batch, &mut keys_left, executor, output);
            executor.end_batch(&self.session, None);
            if let Some((stop, at)) = stop {
                used = at;
                break stop;
            }
            used = end;
            if !is_full {
                break Stop::Exhausted;
            }
        };
        spans.clear();
        spans.shrink_to(SPANS_KEPT_MAX);
        scratch.spans = spans;
        scratch.requests = requests;
        if stop == Stop::Closing {
            used = input.len();
        }
        (used, stop)
    }

    /// Parses a batch of requests from `at` on. Returns the offset of the rest, and whether the
    /// batch is full.
    fn parse_batch(
        &mut self,
        input: &[u8],
        mut at: usize,
        executor: &Executor<'_>,
        spans: &mut Vec<Span>,
        requests: &mut Vec<BatchItem>,
    ) -> (usize, bool) {
        let server = executor.server();
        let (parser, _) = self.dialect.memcached();
        self.session.refresh(&server.auth.acl);
        let may_pass = self.session.has_all_rights(&server.auth.acl);
        parser.set_limits(Limits {
            value_bytes_max: match may_pass {
                true => server.config.number(Id::MemcachedItemMax) as usize,
                false => STRANGER_VALUE_BYTES_MAX,
            },
        });
        // An authentication changes the limits.
        let requests_max = if may_pass { BATCH_CALLS_MAX } else { 1 };
        while requests.len() < requests_max && at < input.len() {
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
        (at, requests.len() == requests_max)
    }

    /// Executes parsed requests while `keys_left` is not 0. If it stops early, returns the reason
    /// and the offset of the first request that was not executed.
    fn execute(
        &mut self,
        input: &[u8],
        (spans, requests): (&[Span], &[BatchItem]),
        keys_left: &mut usize,
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
            let here = &input[item.at..];
            match &item.content {
                content if !self.is_known(content, executor) => {
                    refuse_unauthenticated(content.request(), output);
                    self.session.is_closing = true;
                }
                Content::Request(request) => {
                    if output.len() - self.replies.sent > self.replies.backpressure_bytes {
                        return Some(self.stop_before(Stop::Backpressure, item.at, request));
                    }
                    let resumed;
                    let now = match *self.dialect.memcached().1 {
                        0 => request,
                        position => {
                            resumed = request.resumed(position);
                            &resumed
                        }
                    };
                    if *keys_left == 0 {
                        return Some(self.stop_before(Stop::Continues, item.at, request));
                    }
                    let keys = now.keys(spans);
                    *keys_left = keys_left.saturating_sub(keys.len());
                    let session = &mut self.session;
                    let progress = executor.run_memcached(session, now, keys, here, output);
                    let (_, resumed_at) = self.dialect.memcached();
                    match progress {
                        Progress::Done => *resumed_at = 0,
                        Progress::Partial(position) => *resumed_at = position,
                        _ => {}
                    }
                    if let Some(stop) = stop_of(progress) {
                        return Some(self.stop_before(stop, item.at, request));
                    }
                }
                Content::Refused(refusal) => {
                    if let Some(stop) = self.refuse(refusal, here, executor, output) {
                        return Some((stop, item.at));
                    }
                }
            }
            self.account.command_count += 1;
            if self.session.is_closing || output.is_cut_off() {
                return Some((Stop::Closing, input.len()));
            }
        }
        None
    }

    /// Refuses a request. If that must wait, returns the reason to stop before the request, which
    /// is parsed again later.
    fn refuse(
        &mut self,
        refusal: &Refusal,
        here: &[u8],
        executor: &mut Executor<'_>,
        output: &mut Output,
    ) -> Option<Stop> {
        if let Some(stale) = refusal.stale
            && let Some(stop) = stop_of(executor.drop_stale(&here[stale.range()]))
        {
            self.dialect.memcached().0.rewind_refused();
            return Some(stop);
        }
        if refusal.complaint == Complaint::Http {
            self.warn_of_http(&executor.server().observability, &executor.server().clock);
        }
        refuse(refusal, executor.memcached_counts(), output);
        self.session.is_closing |= refusal.is_fatal;
        None
    }

    /// Whether the client's user has all rights, or the client requests something it needs to
    /// authenticate. Requests have no rows in the table of commands, so rights on single commands
    /// do not apply to them.
    fn is_known(&self, content: &Content, executor: &Executor<'_>) -> bool {
        self.session.has_all_rights(&executor.server().auth.acl)
            || content.request().is_some_and(|request| {
                request.binary.is_some()
                    && matches!(
                        request.verb,
                        Verb::SaslList | Verb::SaslAuth | Verb::Version | Verb::Quit
                    )
            })
    }

    /// Stops before a request. The requests from there on are parsed again later.
    fn stop_before(&mut self, stop: Stop, at: usize, request: &Request) -> (Stop, usize) {
        self.dialect.memcached().0.rewind(request);
        (stop, at)
    }
}

/// Returns the reason to stop before a request that was executed this far; `None` if it is done.
fn stop_of(progress: Progress) -> Option<Stop> {
    match progress {
        Progress::Done => None,
        Progress::Held => Some(Stop::Held),
        Progress::Waits => Some(Stop::Waits),
        Progress::Delayed(until) => Some(Stop::Delayed(until)),
        Progress::Partial(_) => Some(Stop::Backpressure),
    }
}
