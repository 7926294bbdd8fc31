//! One stripe of a read: which of its sub-chunks to ask for next, of whom.

use super::{Moment, ReadTimeouts, Sources};
use crate::chunks::ChunkSet;
use crate::ring::ServerId;
use std::ops::Range;

/// What is known of one sub-chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Not asked for, or not there where it was asked for.
    Idle,
    /// Asked of a server.
    Requested(ServerId, Moment),
    /// It came, and its bytes are right.
    Received,
}

/// A sub-chunk.
#[derive(Clone, Copy, Debug)]
struct SubChunk {
    state: State,
    /// Which of its sources have been asked, a bit each.
    tried: u64,
    /// Since when it is asked of the origin, perhaps besides a server that takes too long.
    origin: Option<Moment>,
}

/// A stripe that is being read.
#[derive(Clone, Debug)]
pub(super) struct Stripe {
    pub(super) number: u64,
    /// The data sub-chunks that the reader asked for.
    pub(super) wanted: ChunkSet,
    k: usize,
    sub_chunks: Vec<SubChunk>,
    /// How long the first of its sub-chunks took, since it was asked for.
    first_chunk_us: Option<u64>,
    /// Whether the origin failed: what servers may still send is then all there is.
    has_origin_failed: bool,
}

/// What is to be asked for next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    /// A sub-chunk, of the source at this place in its order.
    Fetch(usize, usize),
    /// Data sub-chunks, of the origin.
    Origin(ChunkSet),
    /// Nothing: neither servers nor the origin will give what is wanted.
    Fail,
}

/// The sub-chunks of a stripe by what can be obtainable of them. Those in none of the sets are lost, or so late that the origin
/// is asked as if they were.
struct Progress {
    received: ChunkSet,
    /// Asked for, and not late.
    coming: ChunkSet,
    /// Late, and still worth to wait for.
    late: ChunkSet,
    idle: ChunkSet,
}

impl Stripe {
    /// A stripe of which `wanted` was asked for, in so many chunks.
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

    /// The next source of a chunk to be asked, by its place in the order, if one is left.
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
        // With the origin gone, servers are waited for until they are given up.
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
                    // Another source rather than the origin.
                    State::Requested(_, since) => is_late(since) && !is_awaited(since),
                    State::Received => false,
                };
                is_free && sub_chunk.origin.is_none() && self.source(chunk, sources).is_some()
            }),
        }
    }

    /// How long a sub-chunk may take before others are asked for in its stead.
    fn wait_us(&self, timeouts: &ReadTimeouts) -> u64 {
        let wait = match self.first_chunk_us {
            Some(first) => first.saturating_mul(u64::from(timeouts.hedge_percent)) / 100,
            None => timeouts.first_chunk_us,
        };
        wait.max(timeouts.hedge_min_us)
    }

    /// What has come.
    pub(super) fn received(&self) -> ChunkSet {
        let sub_chunks = self.sub_chunks.iter().enumerate();
        sub_chunks
            .filter(|(_, sub_chunk)| sub_chunk.state == State::Received)
            .map(|(chunk, _)| chunk)
            .collect()
    }

    /// Whether the wanted bytes can be told by what has come.
    pub(super) fn is_complete(&self) -> bool {
        let received = self.received();
        received.has_all(self.wanted) || received.count() >= self.k
    }

    /// What to ask for next, if anything; it is then [`Stripe::requested`].
    ///
    /// Nothing is asked for as long as what is here and what is coming will do: all that is wanted, or any K. What is late
    /// does not count as coming, but is obtainable for when nothing else is left, for as long as that is sooner than the origin.
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
        // What is missing itself, if that takes no more asks than to make it of others.
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

    /// Whether a sub-chunk was asked of a server and has not been answered.
    pub(super) fn is_requested(&self, chunk: usize, server: ServerId) -> bool {
        let state = self.sub_chunks.get(chunk).map(|sub_chunk| sub_chunk.state);
        matches!(state, Some(State::Requested(of, _)) if of == server)
    }

    /// A sub-chunk came. One that was given up meanwhile is welcome, too, but says nothing about how long others take.
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

    /// What was asked of the origin came, be it after the origin was held for failed.
    pub(super) fn receive_from_origin(&mut self, chunks: ChunkSet) {
        for (chunk, sub_chunk) in self.sub_chunks.iter_mut().enumerate() {
            if chunks.has(chunk) {
                sub_chunk.state = State::Received;
            }
        }
    }

    /// The origin does not give what it was asked for, if it was.
    pub(super) fn origin_failed(&mut self) {
        for sub_chunk in &mut self.sub_chunks {
            self.has_origin_failed |= sub_chunk.origin.take().is_some();
        }
    }

    /// A source does not have a sub-chunk, or a bad one.
    pub(super) fn failed(&mut self, chunk: usize) {
        self.sub_chunks[chunk].state = State::Idle;
    }

    /// A sub-chunk that has been asked for so long that it is given up.
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

    /// Whether the origin has been asked for too long.
    pub(super) fn is_origin_overdue(&self, now: Moment, timeouts: &ReadTimeouts) -> bool {
        let is_overdue = |since: Moment| now >= since.after(timeouts.origin_timeout_us);
        self.sub_chunks.iter().any(|sub_chunk| {
            sub_chunk.state != State::Received && sub_chunk.origin.is_some_and(is_overdue)
        })
    }

    /// When time alone will change something.
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

    /// The object's bytes between the first and the last of some data sub-chunks.
    pub(super) fn hull(chunks: ChunkSet, of: impl Fn(usize) -> Range<u64>) -> Range<u64> {
        let mut parts = chunks.iter().map(of);
        let first = parts.next().unwrap_or(0..0);
        parts.fold(first, |hull, part| {
            hull.start.min(part.start)..hull.end.max(part.end)
        })
    }
}
