//! One stripe of a read: which of its sub-chunks to ask for next, of whom.

use super::{Moment, Patience, Sources};
use crate::chunks::Chunks;
use crate::ring::ServerId;
use std::ops::Range;

/// What is known of one sub-chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Not asked for, or not there where it was asked for.
    Idle,
    /// Asked of a server.
    Out(ServerId, Moment),
    /// It came, and its bytes are right.
    Here,
}

/// A sub-chunk.
#[derive(Clone, Copy, Debug)]
struct Seat {
    state: State,
    /// Which of its sources have been asked, a bit each.
    asked: u64,
    /// Since when it is asked of the origin, perhaps besides a server that takes too long.
    origin: Option<Moment>,
}

/// A stripe that is being read.
#[derive(Clone, Debug)]
pub(super) struct Stripe {
    pub(super) number: u64,
    /// The data sub-chunks that the reader asked for.
    pub(super) wanted: Chunks,
    k: usize,
    seats: Vec<Seat>,
    /// How long the first of its sub-chunks took, since it was asked for.
    first_us: Option<u64>,
    /// Whether the origin failed: what servers may still send is then all there is.
    has_origin_failed: bool,
}

/// What is to be asked for next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    /// A sub-chunk, of the source at this place in its order.
    Ask(usize, usize),
    /// Data sub-chunks, of the origin.
    Origin(Chunks),
    /// Nothing: neither servers nor the origin will give what is wanted.
    Fail,
}

/// The sub-chunks of a stripe by what can be hoped of them. Those in none of the sets are lost, or so late that the origin
/// is asked as if they were.
struct Hopes {
    here: Chunks,
    /// Asked for, and not late.
    coming: Chunks,
    /// Late, and still worth to wait for.
    late: Chunks,
    idle: Chunks,
}

impl Stripe {
    /// A stripe of which `wanted` was asked for, in so many chunks.
    pub(super) fn new(number: u64, wanted: Chunks, k: usize, chunks: usize) -> Stripe {
        let seat = Seat {
            state: State::Idle,
            asked: 0,
            origin: None,
        };
        Stripe {
            number,
            wanted,
            k,
            seats: vec![seat; chunks],
            first_us: None,
            has_origin_failed: false,
        }
    }

    /// The next source of a chunk to be asked, by its place in the order, if one is left.
    fn source(&self, chunk: usize, sources: &Sources) -> Option<usize> {
        let asked = self.seats[chunk].asked | sources.lacking[chunk];
        let next = asked.trailing_ones() as usize;
        (next < sources.servers[chunk].len()).then_some(next)
    }

    fn hopes(&self, now: Moment, sources: &Sources, patience: &Patience) -> Hopes {
        let of = |is: &dyn Fn(usize, &Seat) -> bool| -> Chunks {
            let seats = self.seats.iter().enumerate();
            seats
                .filter(|(chunk, seat)| is(*chunk, seat))
                .map(|(chunk, _)| chunk)
                .collect()
        };
        let is_late = |since: Moment| now > since.after(self.wait_us(patience));
        // With the origin gone, servers are waited for until they are given up.
        let is_hoped =
            |since: Moment| self.has_origin_failed || now <= since.after(patience.origin_after_us);
        Hopes {
            here: of(&|_, seat| seat.state == State::Here),
            coming: of(&|_, seat| match seat.state {
                State::Out(_, since) => seat.origin.is_some() || !is_late(since),
                State::Idle => seat.origin.is_some(),
                State::Here => false,
            }),
            late: of(
                &|_, seat| matches!(seat.state, State::Out(_, since) if is_late(since) && is_hoped(since)),
            ),
            idle: of(&|chunk, seat| {
                let is_free = match seat.state {
                    State::Idle => true,
                    // Another source rather than the origin.
                    State::Out(_, since) => is_late(since) && !is_hoped(since),
                    State::Here => false,
                };
                is_free && seat.origin.is_none() && self.source(chunk, sources).is_some()
            }),
        }
    }

    /// How long a sub-chunk may take before others are asked for in its stead.
    fn wait_us(&self, patience: &Patience) -> u64 {
        let wait = match self.first_us {
            Some(first) => first.saturating_mul(u64::from(patience.hedge_percent)) / 100,
            None => patience.first_us,
        };
        wait.max(patience.least_us)
    }

    /// What has come.
    pub(super) fn here(&self) -> Chunks {
        let seats = self.seats.iter().enumerate();
        seats
            .filter(|(_, seat)| seat.state == State::Here)
            .map(|(chunk, _)| chunk)
            .collect()
    }

    /// Whether the wanted bytes can be told by what has come.
    pub(super) fn is_complete(&self) -> bool {
        let here = self.here();
        here.has_all(self.wanted) || here.count() >= self.k
    }

    /// What to ask for next, if anything; it is then [`Stripe::asked`].
    ///
    /// Nothing is asked for as long as what is here and what is coming will do: all that is wanted, or any K. What is late
    /// does not count as coming, but is hoped for when nothing else is left, for as long as that is sooner than the origin.
    pub(super) fn next(&self, now: Moment, sources: &Sources, patience: &Patience) -> Option<Next> {
        let hopes = self.hopes(now, sources, patience);
        let sure = hopes.here.or(hopes.coming);
        let missing = self.wanted.without(sure);
        if missing.is_empty() || sure.count() >= self.k {
            return None;
        }
        let hoped = sure.or(hopes.late).or(hopes.idle);
        if hoped.count() < self.k && !hoped.has_all(self.wanted) {
            return Some(match self.has_origin_failed {
                true => Next::Fail,
                false => Next::Origin(self.wanted.without(hoped)),
            });
        }
        // What is missing itself, if that takes no more asks than to make it of others.
        let is_direct = hopes.idle.has_all(missing) && missing.count() <= self.k - sure.count();
        let candidates = if is_direct { missing } else { hopes.idle };
        let sourced = candidates
            .iter()
            .filter_map(|chunk| Some((self.source(chunk, sources)?, chunk)));
        let (source, chunk) = sourced.min()?;
        Some(Next::Ask(chunk, source))
    }

    pub(super) fn asked(&mut self, next: Next, sources: &Sources, now: Moment) {
        match next {
            Next::Ask(chunk, source) => {
                let server = sources.servers[chunk][source];
                self.seats[chunk].state = State::Out(server, now);
                self.seats[chunk].asked |= 1 << source;
            }
            Next::Origin(chunks) => {
                for chunk in chunks.iter() {
                    self.seats[chunk].origin = Some(now);
                }
            }
            Next::Fail => {}
        }
    }

    /// Whether a sub-chunk was asked of a server and has not been answered.
    pub(super) fn is_out(&self, chunk: usize, server: ServerId) -> bool {
        let state = self.seats.get(chunk).map(|seat| seat.state);
        matches!(state, Some(State::Out(of, _)) if of == server)
    }

    /// A sub-chunk came. One that was given up meanwhile is welcome, too, but says nothing about how long others take.
    pub(super) fn came(
        &mut self,
        chunk: usize,
        server: ServerId,
        now: Moment,
        patience: &Patience,
    ) {
        let Some(seat) = self.seats.get_mut(chunk) else {
            return;
        };
        if let State::Out(of, since) = seat.state
            && of == server
            && now <= since.after(patience.give_up_us)
        {
            self.first_us.get_or_insert(now.0.saturating_sub(since.0));
        }
        seat.state = State::Here;
    }

    /// What was asked of the origin came, be it after the origin was held for failed.
    pub(super) fn came_from_origin(&mut self, chunks: Chunks) {
        for (chunk, seat) in self.seats.iter_mut().enumerate() {
            if chunks.has(chunk) {
                seat.state = State::Here;
            }
        }
    }

    /// The origin does not give what it was asked for, if it was.
    pub(super) fn origin_failed(&mut self) {
        for seat in &mut self.seats {
            self.has_origin_failed |= seat.origin.take().is_some();
        }
    }

    /// A source does not have a sub-chunk, or a bad one.
    pub(super) fn failed(&mut self, chunk: usize) {
        self.seats[chunk].state = State::Idle;
    }

    /// A sub-chunk that has been asked for so long that it is given up.
    pub(super) fn overdue(&self, now: Moment, patience: &Patience) -> Option<(usize, ServerId)> {
        self.seats
            .iter()
            .enumerate()
            .find_map(|(chunk, seat)| match seat.state {
                State::Out(server, since) if now > since.after(patience.give_up_us) => {
                    Some((chunk, server))
                }
                _ => None,
            })
    }

    /// Whether the origin has been asked for too long.
    pub(super) fn is_origin_overdue(&self, now: Moment, patience: &Patience) -> bool {
        let is_overdue = |since: Moment| now >= since.after(patience.origin_us);
        self.seats
            .iter()
            .any(|seat| seat.state != State::Here && seat.origin.is_some_and(is_overdue))
    }

    /// When time alone will change something.
    pub(super) fn wake(&self, now: Moment, patience: &Patience) -> Option<Moment> {
        let of = |seat: &Seat| -> Option<Moment> {
            if seat.state == State::Here {
                return None;
            }
            let origin = seat.origin.map(|since| since.after(patience.origin_us));
            let State::Out(_, since) = seat.state else {
                return origin;
            };
            let spans = [
                self.wait_us(patience),
                patience.origin_after_us,
                patience.give_up_us,
            ];
            let ends = spans.map(|span| since.after(span).after(1));
            let next = ends.into_iter().filter(|end| *end > now).min();
            next.into_iter().chain(origin).min()
        };
        self.seats.iter().filter_map(of).min()
    }

    /// The object's bytes between the first and the last of some data sub-chunks.
    pub(super) fn hull(chunks: Chunks, of: impl Fn(usize) -> Range<u64>) -> Range<u64> {
        let mut parts = chunks.iter().map(of);
        let first = parts.next().unwrap_or(0..0);
        parts.fold(first, |hull, part| {
            hull.start.min(part.start)..hull.end.max(part.end)
        })
    }
}
