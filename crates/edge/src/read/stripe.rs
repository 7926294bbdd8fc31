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
    /// Asked of the origin.
    OutAtOrigin(Moment),
    /// It came, and its bytes are right.
    Here,
}

/// A sub-chunk and which of its sources have been asked, a bit each.
#[derive(Clone, Copy, Debug)]
struct Seat {
    state: State,
    asked: u64,
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
}

/// What is to be asked for next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    /// A sub-chunk, of the source at this place in its order.
    Ask(usize, usize),
    /// Data sub-chunks, of the origin.
    Origin(Chunks),
}

/// The sub-chunks of a stripe by what can be hoped of them. Those in none of the sets are lost.
struct Hopes {
    here: Chunks,
    /// Asked for, and not late.
    coming: Chunks,
    late: Chunks,
    idle: Chunks,
}

impl Stripe {
    /// A stripe of which `wanted` was asked for, in so many chunks.
    pub(super) fn new(number: u64, wanted: Chunks, k: usize, chunks: usize) -> Stripe {
        let seat = Seat {
            state: State::Idle,
            asked: 0,
        };
        Stripe {
            number,
            wanted,
            k,
            seats: vec![seat; chunks],
            first_us: None,
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
        Hopes {
            here: of(&|_, seat| seat.state == State::Here),
            coming: of(&|_, seat| match seat.state {
                State::Out(_, since) => !is_late(since),
                State::OutAtOrigin(_) => true,
                State::Idle | State::Here => false,
            }),
            late: of(&|_, seat| matches!(seat.state, State::Out(_, since) if is_late(since))),
            idle: of(&|chunk, seat| {
                seat.state == State::Idle && self.source(chunk, sources).is_some()
            }),
        }
    }

    /// How long a sub-chunk may take before others are asked for in its stead.
    fn wait_us(&self, patience: &Patience) -> u64 {
        match self.first_us {
            Some(first) => first.saturating_mul(u64::from(patience.hedge_percent)) / 100,
            None => patience.first_us,
        }
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
    /// does not count as coming, but is hoped for when nothing else is left.
    pub(super) fn next(&self, now: Moment, sources: &Sources, patience: &Patience) -> Option<Next> {
        let hopes = self.hopes(now, sources, patience);
        let sure = hopes.here.or(hopes.coming);
        let missing = self.wanted.without(sure);
        if missing.is_empty() || sure.count() >= self.k {
            return None;
        }
        let hoped = sure.or(hopes.late).or(hopes.idle);
        if hoped.count() < self.k && !hoped.has_all(self.wanted) {
            return Some(Next::Origin(self.wanted.without(hoped)));
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
                    self.seats[chunk].state = State::OutAtOrigin(now);
                }
            }
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

    /// Whether the origin has been asked for something.
    pub(super) fn is_at_origin(&self) -> bool {
        self.seats
            .iter()
            .any(|seat| matches!(seat.state, State::OutAtOrigin(_)))
    }

    /// What was asked of the origin came.
    pub(super) fn came_from_origin(&mut self, chunks: Chunks) {
        for (chunk, seat) in self.seats.iter_mut().enumerate() {
            if chunks.has(chunk) && matches!(seat.state, State::OutAtOrigin(_)) {
                seat.state = State::Here;
            }
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
            .any(|seat| matches!(seat.state, State::OutAtOrigin(since) if is_overdue(since)))
    }

    /// When time alone will change something.
    pub(super) fn wake(&self, now: Moment, patience: &Patience) -> Option<Moment> {
        let of = |seat: &Seat| match seat.state {
            State::Out(_, since) => {
                let late = since.after(self.wait_us(patience)).after(1);
                let given_up = since.after(patience.give_up_us).after(1);
                Some(if late > now {
                    late.min(given_up)
                } else {
                    given_up
                })
            }
            State::OutAtOrigin(since) => Some(since.after(patience.origin_us)),
            State::Idle | State::Here => None,
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
