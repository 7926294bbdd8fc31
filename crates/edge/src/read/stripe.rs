//! One stripe of a read: the choice of its next request.

use super::{Moment, ReadTimeouts, Sources};
use crate::chunks::ChunkSet;
use crate::ring::ServerId;
use std::ops::Range;

/// State of one sub-chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// The sub-chunk was not requested, or is not available from the servers tried so far.
    Idle,
    /// The sub-chunk was requested from a server at this time.
    Requested(ServerId, Moment),
    /// The sub-chunk arrived with the correct checksum.
    Received,
}

/// State of a sub-chunk, and the sources tried so far.
#[derive(Clone, Copy, Debug)]
struct SubChunk {
    state: State,
    /// Bit set of the sources tried so far.
    tried: u64,
    /// Time of the request to the origin, which may be outstanding together with a request to a
    /// slow server.
    origin: Option<Moment>,
}

/// A stripe being read.
#[derive(Clone, Debug)]
pub(super) struct Stripe {
    pub(super) number: u64,
    /// Data sub-chunks in the requested range.
    pub(super) wanted: ChunkSet,
    k: usize,
    sub_chunks: Vec<SubChunk>,
    /// Time that the first sub-chunk took, from its request to its arrival.
    first_chunk_us: Option<u64>,
    /// Whether the origin failed, so that only servers can provide the stripe.
    has_origin_failed: bool,
}

/// Next request of a stripe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    /// Request the sub-chunk with the first number from its source with the second number.
    Fetch(usize, usize),
    /// Request these data sub-chunks from the origin.
    Origin(ChunkSet),
    /// Report a failure: neither the servers nor the origin can provide the stripe.
    Fail,
}

/// Sub-chunks of a stripe by their availability. A sub-chunk in none of the sets is lost, or is so
/// slow that it is read from the origin.
struct Progress {
    received: ChunkSet,
    /// Requested sub-chunks that are not late.
    coming: ChunkSet,
    /// Late sub-chunks that may still arrive before an answer from the origin.
    late: ChunkSet,
    idle: ChunkSet,
}

impl Stripe {
    /// Creates a stripe of `chunks` sub-chunks, of which the range needs `wanted`.
    pub(super) fn new(number: u64, wanted: ChunkSet, k: usize, chunks: usize) -> Stripe {
        let sub_chunk = SubChunk {
            state: State::Idle,
            tried: 0,
            origin: None,
        };
        Stripe {
            number,
            wanted,
            k,
            sub_chunks: vec![sub_chunk; chunks],
            first_chunk_us: None,
            has_origin_failed: false,
        }
    }

    /// Returns the index of the next source of a chunk, if any is left.
    fn source(&self, chunk: usize, sources: &Sources) -> Option<usize> {
        let tried = self.sub_chunks[chunk].tried | sources.lacking[chunk];
        let next = tried.trailing_ones() as usize;
        (next < sources.servers[chunk].len()).then_some(next)
    }

    fn progress(&self, now: Moment, sources: &Sources, timeouts: &ReadTimeouts) -> Progress {
        let of = |is: &dyn Fn(usize, &SubChunk) -> bool| -> ChunkSet {
            let sub_chunks = self.sub_chunks.iter().enumerate();
            sub_chunks
                .filter(|(chunk, sub_chunk)| is(*chunk, sub_chunk))
                .map(|(chunk, _)| chunk)
                .collect()
        };
        let is_late = |since: Moment| now > since.after(self.wait_us(timeouts));
        // After a failure of the origin, servers are awaited until their timeout.
        let is_awaited =
            |since: Moment| self.has_origin_failed || now <= since.after(timeouts.origin_fetch_us);
        Progress {
            received: of(&|_, sub_chunk| sub_chunk.state == State::Received),
            coming: of(&|_, sub_chunk| match sub_chunk.state {
                State::Requested(_, since) => sub_chunk.origin.is_some() || !is_late(since),
                State::Idle => sub_chunk.origin.is_some(),
                State::Received => false,
            }),
            late: of(
                &|_, sub_chunk| matches!(sub_chunk.state, State::Requested(_, since) if is_late(since) && is_awaited(since)),
            ),
            idle: of(&|chunk, sub_chunk| {
                let is_free = match sub_chunk.state {
                    State::Idle => true,
                    // Another source is preferred to the origin.
                    State::Requested(_, since) => is_late(since) && !is_awaited(since),
                    State::Received => false,
                };
                is_free && sub_chunk.origin.is_none() && self.source(chunk, sources).is_some()
            }),
        }
    }

    /// Returns the hedge delay: the time after which a sub-chunk is late.
    fn wait_us(&self, timeouts: &ReadTimeouts) -> u64 {
        let wait = match self.first_chunk_us {
            Some(first) => first.saturating_mul(u64::from(timeouts.hedge_percent)) / 100,
            None => timeouts.first_chunk_us,
        };
        wait.max(timeouts.hedge_min_us)
    }

    /// Returns the sub-chunks that arrived.
    pub(super) fn received(&self) -> ChunkSet {
        let sub_chunks = self.sub_chunks.iter().enumerate();
        sub_chunks
            .filter(|(_, sub_chunk)| sub_chunk.state == State::Received)
            .map(|(chunk, _)| chunk)
            .collect()
    }

    /// Returns true if the wanted bytes arrived or can be decoded.
    pub(super) fn is_complete(&self) -> bool {
        let received = self.received();
        received.has_all(self.wanted) || received.count() >= self.k
    }

    /// Returns the next request, if one is needed; the caller passes it to [`Stripe::requested`].
    ///
    /// Nothing is requested while the received and pending sub-chunks suffice: all wanted ones, or
    /// any K. A late sub-chunk is not pending. It is awaited when nothing else is left, for as long
    /// as it may arrive before an answer from the origin.
    pub(super) fn next(
        &self,
        now: Moment,
        sources: &Sources,
        timeouts: &ReadTimeouts,
    ) -> Option<Next> {
        let progress = self.progress(now, sources, timeouts);
        let sure = progress.received.or(progress.coming);
        let missing = self.wanted.without(sure);
        if missing.is_empty() || sure.count() >= self.k {
            return None;
        }
        let obtainable = sure.or(progress.late).or(progress.idle);
        if obtainable.count() < self.k && !obtainable.has_all(self.wanted) {
            return Some(match self.has_origin_failed {
                true => Next::Fail,
                false => Next::Origin(self.wanted.without(obtainable)),
            });
        }
        // The missing sub-chunks themselves are requested if that takes no more requests than
        // decoding them.
        let is_direct = progress.idle.has_all(missing) && missing.count() <= self.k - sure.count();
        let candidates = if is_direct { missing } else { progress.idle };
        let sourced = candidates
            .iter()
            .filter_map(|chunk| Some((self.source(chunk, sources)?, chunk)));
        let (source, chunk) = sourced.min()?;
        Some(Next::Fetch(chunk, source))
    }

    pub(super) fn requested(&mut self, next: Next, sources: &Sources, now: Moment) {
        match next {
            Next::Fetch(chunk, source) => {
                let server = sources.servers[chunk][source];
                self.sub_chunks[chunk].state = State::Requested(server, now);
                self.sub_chunks[chunk].tried |= 1 << source;
            }
            Next::Origin(chunks) => {
                for chunk in chunks.iter() {
                    self.sub_chunks[chunk].origin = Some(now);
                }
            }
            Next::Fail => {}
        }
    }

    /// Returns true if a request to a server for a sub-chunk is outstanding.
    pub(super) fn is_requested(&self, chunk: usize, server: ServerId) -> bool {
        let state = self.sub_chunks.get(chunk).map(|sub_chunk| sub_chunk.state);
        matches!(state, Some(State::Requested(of, _)) if of == server)
    }

    /// Records the arrival of a sub-chunk. One that arrives after its timeout is used, but its time
    /// does not count as the measure for others.
    pub(super) fn receive(
        &mut self,
        chunk: usize,
        server: ServerId,
        now: Moment,
        timeouts: &ReadTimeouts,
    ) {
        let Some(sub_chunk) = self.sub_chunks.get_mut(chunk) else {
            return;
        };
        if let State::Requested(of, since) = sub_chunk.state
            && of == server
            && now <= since.after(timeouts.server_timeout_us)
        {
            self.first_chunk_us
                .get_or_insert(now.0.saturating_sub(since.0));
        }
        sub_chunk.state = State::Received;
    }

    /// Records the arrival of sub-chunks from the origin, even if it was considered failed.
    pub(super) fn receive_from_origin(&mut self, chunks: ChunkSet) {
        for (chunk, sub_chunk) in self.sub_chunks.iter_mut().enumerate() {
            if chunks.has(chunk) {
                sub_chunk.state = State::Received;
            }
        }
    }

    /// Records that the origin failed, if a request to it is outstanding.
    pub(super) fn origin_failed(&mut self) {
        for sub_chunk in &mut self.sub_chunks {
            self.has_origin_failed |= sub_chunk.origin.take().is_some();
        }
    }

    /// Records that a source does not have a sub-chunk, or has a corrupt one.
    pub(super) fn failed(&mut self, chunk: usize) {
        self.sub_chunks[chunk].state = State::Idle;
    }

    /// Returns a sub-chunk whose request has timed out.
    pub(super) fn overdue(
        &self,
        now: Moment,
        timeouts: &ReadTimeouts,
    ) -> Option<(usize, ServerId)> {
        self.sub_chunks
            .iter()
            .enumerate()
            .find_map(|(chunk, sub_chunk)| match sub_chunk.state {
                State::Requested(server, since)
                    if now > since.after(timeouts.server_timeout_us) =>
                {
                    Some((chunk, server))
                }
                _ => None,
            })
    }

    /// Returns true if the request to the origin timed out.
    pub(super) fn is_origin_overdue(&self, now: Moment, timeouts: &ReadTimeouts) -> bool {
        let is_overdue = |since: Moment| now >= since.after(timeouts.origin_timeout_us);
        self.sub_chunks.iter().any(|sub_chunk| {
            sub_chunk.state != State::Received && sub_chunk.origin.is_some_and(is_overdue)
        })
    }

    /// Returns the next time at which a timeout changes the state.
    pub(super) fn wake(&self, now: Moment, timeouts: &ReadTimeouts) -> Option<Moment> {
        let of = |sub_chunk: &SubChunk| -> Option<Moment> {
            if sub_chunk.state == State::Received {
                return None;
            }
            let origin = sub_chunk
                .origin
                .map(|since| since.after(timeouts.origin_timeout_us));
            let State::Requested(_, since) = sub_chunk.state else {
                return origin;
            };
            let spans = [
                self.wait_us(timeouts),
                timeouts.origin_fetch_us,
                timeouts.server_timeout_us,
            ];
            let ends = spans.map(|span| since.after(span).after(1));
            let next = ends.into_iter().filter(|end| *end > now).min();
            next.into_iter().chain(origin).min()
        };
        self.sub_chunks.iter().filter_map(of).min()
    }

    /// Returns the range of the object's bytes from the first to the last of some data sub-chunks.
    pub(super) fn hull(chunks: ChunkSet, of: impl Fn(usize) -> Range<u64>) -> Range<u64> {
        let mut parts = chunks.iter().map(of);
        let first = parts.next().unwrap_or(0..0);
        parts.fold(first, |hull, part| {
            hull.start.min(part.start)..hull.end.max(part.end)
        })
    }
}
