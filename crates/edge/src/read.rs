//! Plan of a read: which sub-chunks to request from which servers, and when to use parity or the
//! origin.
//!
//! # Idea
//! A plan is a state machine without a socket or a clock. Its host performs the actions returned by
//! [`Read::step`], and passes the results to [`Read::handle`]. A few stripes are read at a time and
//! served in order. Within each stripe, the data sub-chunks that overlap the range are requested
//! first, because they need no decoding. A further sub-chunk is requested
//! - at once, if a server does not have one or its bytes are corrupt;
//! - if one is late: it takes longer than 1.2 times the time of the stripe's first sub-chunk, and
//!   longer than most requests. It is still used if it arrives.
//!
//! No more sub-chunks are requested than are needed to have K. The origin is used if fewer than K
//! sub-chunks can still be obtained, and only for wanted sub-chunks that cannot. A late sub-chunk
//! counts as obtainable while it may arrive before an answer from the origin or, once the origin
//! has failed, until the request to its server times out.
//!
//! # Source
//! Section 5.4 of J. Yang, *Designing Efficient and Scalable Key-value Cache Management Systems*,
//! CMU 2024: the K data sub-chunks first, parity after 1.2 times the time of the first one. Partial
//! hits fetch the missing sub-chunks.
//!
//! # Departures
//! - Until the first sub-chunk of a stripe arrives, [`ReadTimeouts::first_chunk_us`] replaces its
//!   time.
//! - The first sub-chunk usually comes from the reader's own disk, faster than any network. With
//!   its time alone, nearly every read would request parity. No sub-chunk is therefore late before
//!   [`ReadTimeouts::hedge_min_us`].
//! - A chunk may have several sources, from older maps: [`crate::MapHistory::chunk`].
//!
//! # Bounds
//! There is state for at most [`ReadTimeouts::window`] stripes. Every request ends with an event or
//! a timeout, and no server receives a request for the same sub-chunk twice. Therefore every plan
//! ends.
//!
//! ```
//! use edge::{Event, Layout, Moment, Read, ReadTimeouts, Scheme, ServerId, Step};
//!
//! let scheme = Scheme::coded(2, 1);
//! let layout = Layout::new(&scheme, 200_000);
//! let sources = (0..3).map(|id| vec![ServerId(id)]).collect();
//! let mut read = Read::new(layout, 0..100, sources, ReadTimeouts::default());
//! let Step::Fetch(request) = read.step(Moment(0)) else { panic!("the first sub-chunk") };
//! assert_eq!((request.chunk, request.server), (0, ServerId(0)));
//! assert!(matches!(read.step(Moment(0)), Step::Wait(_)));
//! // The server does not have it: two others reproduce it.
//! read.handle(Moment(300), Event::Missing(request));
//! let Step::Fetch(second) = read.step(Moment(300)) else { panic!("data before parity") };
//! let Step::Fetch(parity) = read.step(Moment(300)) else { panic!("and parity") };
//! assert_eq!((second.chunk, parity.chunk), (1, 2));
//! read.handle(Moment(700), Event::Received(parity));
//! read.handle(Moment(800), Event::Received(second));
//! let Step::Serve(part) = read.step(Moment(800)) else { panic!("the bytes") };
//! assert!(part.missing.has(0));
//! assert_eq!(read.step(Moment(800)), Step::Done);
//! ```

mod stripe;

use crate::chunks::{CHUNKS_MAX, ChunkSet};
use crate::layout::Layout;
use crate::ring::ServerId;
use std::collections::VecDeque;
use std::ops::Range;
use stripe::{Next, Stripe};

/// Time in microseconds, from any origin, of a clock that never decreases.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Moment(pub u64);

impl Moment {
    fn after(self, us: u64) -> Moment {
        Moment(self.0.saturating_add(us))
    }
}

/// Timeouts of a read, and the number of stripes read at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadTimeouts {
    /// Hedge delay in percent of the time that the stripe's first sub-chunk took. A sub-chunk that
    /// takes longer is late.
    pub hedge_percent: u32,
    /// Hedge delay in microseconds while no sub-chunk of the stripe has arrived.
    pub first_chunk_us: u64,
    /// Minimum hedge delay in microseconds, typically the measured 95th percentile of a read from a
    /// server.
    pub hedge_min_us: u64,
    /// Time in microseconds after which the origin is used instead of a late sub-chunk, if no other
    /// sub-chunk can replace it: about the latency of the origin. Other sources of the same chunk
    /// are tried first.
    pub origin_fetch_us: u64,
    /// Timeout of a request to a server, in microseconds.
    pub server_timeout_us: u64,
    /// Timeout of a request to the origin, in microseconds. After it, the origin counts as failed.
    pub origin_timeout_us: u64,
    /// Maximum number of stripes read at a time; the host's memory holds their sub-chunks.
    pub window: usize,
}

impl Default for ReadTimeouts {
    fn default() -> ReadTimeouts {
        ReadTimeouts {
            hedge_percent: 120,
            first_chunk_us: 20_000,
            hedge_min_us: 1_000,
            origin_fetch_us: 50_000,
            server_timeout_us: 1_000_000,
            origin_timeout_us: 30_000_000,
            window: 4,
        }
    }
}

/// Request for a sub-chunk from a server.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ChunkRequest {
    /// Number of the stripe.
    pub stripe: u64,
    /// Number of the chunk.
    pub chunk: usize,
    /// Server that receives the request.
    pub server: ServerId,
}

/// Result of a request. Bytes that arrive late or without a request are used if their stripe is
/// being read. Other events without a request have no effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A sub-chunk arrived with the correct checksum.
    Received(ChunkRequest),
    /// A sub-chunk arrived with a wrong checksum. Only this sub-chunk is lost, not the others of
    /// its chunk.
    Corrupt(ChunkRequest),
    /// The server does not have the chunk, or is unreachable. It receives no further request for
    /// this chunk.
    Missing(ChunkRequest),
    /// Data sub-chunks of a stripe arrived from the origin.
    FromOrigin(u64, ChunkSet),
    /// The origin does not have the bytes of a stripe, or is unreachable.
    OriginFailed(u64),
}

/// Bytes that can be served.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// Number of the stripe.
    pub stripe: u64,
    /// Next range of the object's bytes to be served.
    pub bytes: Range<u64>,
    /// Sub-chunks that have arrived.
    pub received: ChunkSet,
    /// Data sub-chunks that must be decoded from the received ones, with a
    /// [`crate::Reconstruction`].
    pub missing: ChunkSet,
}

/// Next action of the host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Request a sub-chunk from a server.
    Fetch(ChunkRequest),
    /// Request a range of the object from the origin, which contains these data sub-chunks.
    Origin {
        /// Number of the stripe.
        stripe: u64,
        /// Data sub-chunks in the range.
        chunks: ChunkSet,
        /// Range of the object's bytes from the first to the last of these sub-chunks.
        bytes: Range<u64>,
    },
    /// Serve bytes.
    Serve(Part),
    /// Wait for an event, at most until this time.
    Wait(Moment),
    /// The whole range was served.
    Done,
    /// Neither the origin nor enough servers provided this stripe. The stripes before it were
    /// served.
    Failed(u64),
}

/// Servers that may have the chunks.
#[derive(Clone, Debug)]
struct Sources {
    /// Servers of each chunk, in the order in which to try them.
    servers: Vec<Vec<ServerId>>,
    /// For each chunk, a bit set of the servers found not to have it.
    lacking: Vec<u64>,
}

/// Maximum number of sources of a chunk that are tried.
const SOURCES_MAX: usize = u64::BITS as usize - 1;

/// Plan of one read.
#[derive(Clone, Debug)]
pub struct Read {
    layout: Layout,
    range: Range<u64>,
    sources: Sources,
    timeouts: ReadTimeouts,
    /// Stripes being read, in ascending order.
    stripes: VecDeque<Stripe>,
    /// Stripes not yet begun.
    rest: Range<u64>,
    failed: Option<u64>,
}

impl Read {
    /// Creates a plan for the part of a range that lies within the object. `sources` has the
    /// servers that may have each of the K + P chunks, each server once; the first 63 are tried. A
    /// chunk without sources is lost.
    pub fn new(
        layout: Layout,
        range: Range<u64>,
        mut sources: Vec<Vec<ServerId>>,
        timeouts: ReadTimeouts,
    ) -> Read {
        let chunks = sources.len();
        assert!(chunks >= layout.k(), "data chunks and perhaps parity");
        assert!(chunks <= CHUNKS_MAX, "no more than a code has");
        sources
            .iter_mut()
            .for_each(|servers| servers.truncate(SOURCES_MAX));
        let range = layout.clip(&range);
        Read {
            rest: layout.stripes_of(&range),
            layout,
            range,
            sources: Sources {
                lacking: vec![0; chunks],
                servers: sources,
            },
            timeouts,
            stripes: VecDeque::new(),
            failed: None,
        }
    }

    /// Returns the next action. The host calls it until it returns [`Step::Wait`], [`Step::Done`]
    /// or [`Step::Failed`].
    pub fn step(&mut self, now: Moment) -> Step {
        self.expire_requests(now);
        if let Some(stripe) = self.failed {
            return Step::Failed(stripe);
        }
        loop {
            if self.stripes.front().is_some_and(Stripe::is_complete) {
                let stripe = self.stripes.pop_front().expect("the deque is not empty");
                return Step::Serve(self.part(&stripe));
            }
            if let Some(step) = self.next_request(now) {
                return step;
            }
            let has_room = self.stripes.len() < self.timeouts.window.max(1);
            if has_room && let Some(number) = self.rest.next() {
                let wanted = self.layout.chunks_of(&self.range, number);
                let chunks = self.sources.servers.len();
                let stripe = Stripe::new(number, wanted, self.layout.k(), chunks);
                self.stripes.push_back(stripe);
            } else if self.stripes.is_empty() {
                return Step::Done;
            } else {
                return self.wait(now);
            }
        }
    }

    /// Processes the result of a request.
    pub fn handle(&mut self, now: Moment, event: Event) {
        match event {
            Event::Received(request) => {
                let timeouts = self.timeouts;
                if let Some(stripe) = self.stripe(request.stripe) {
                    stripe.receive(request.chunk, request.server, now, &timeouts);
                }
            }
            Event::Corrupt(request) => {
                if let Some(stripe) = self.waiting(request) {
                    stripe.failed(request.chunk);
                }
            }
            Event::Missing(request) => self.mark_missing(request),
            Event::FromOrigin(number, chunks) => {
                if let Some(stripe) = self.stripe(number) {
                    stripe.receive_from_origin(chunks);
                }
            }
            Event::OriginFailed(number) => {
                if let Some(stripe) = self.stripe(number) {
                    stripe.origin_failed();
                }
            }
        }
    }

    fn stripe(&mut self, number: u64) -> Option<&mut Stripe> {
        self.stripes
            .iter_mut()
            .find(|stripe| stripe.number == number)
    }

    /// Returns the stripe in which this request is outstanding.
    fn waiting(&mut self, request: ChunkRequest) -> Option<&mut Stripe> {
        let stripe = self.stripe(request.stripe)?;
        stripe
            .is_requested(request.chunk, request.server)
            .then_some(stripe)
    }

    /// Records that a server does not have a chunk, for this stripe and for those that have not
    /// requested it yet.
    fn mark_missing(&mut self, request: ChunkRequest) {
        let Some(stripe) = self.waiting(request) else {
            return;
        };
        stripe.failed(request.chunk);
        let servers = self.sources.servers[request.chunk].iter();
        for (at, _) in servers
            .enumerate()
            .filter(|(_, server)| **server == request.server)
        {
            self.sources.lacking[request.chunk] |= 1 << at;
        }
    }

    fn expire_requests(&mut self, now: Moment) {
        for at in 0..self.stripes.len() {
            while let Some((chunk, server)) = self.stripes[at].overdue(now, &self.timeouts) {
                let stripe = self.stripes[at].number;
                self.mark_missing(ChunkRequest {
                    stripe,
                    chunk,
                    server,
                });
            }
            if self.stripes[at].is_origin_overdue(now, &self.timeouts) {
                self.stripes[at].origin_failed();
            }
        }
    }

    /// Returns the next request of the first stripe that needs one.
    fn next_request(&mut self, now: Moment) -> Option<Step> {
        for stripe in &mut self.stripes {
            let Some(next) = stripe.next(now, &self.sources, &self.timeouts) else {
                continue;
            };
            stripe.requested(next, &self.sources, now);
            let number = stripe.number;
            return Some(match next {
                Next::Fetch(chunk, source) => Step::Fetch(ChunkRequest {
                    stripe: number,
                    chunk,
                    server: self.sources.servers[chunk][source],
                }),
                Next::Origin(chunks) => Step::Origin {
                    stripe: number,
                    chunks,
                    bytes: Stripe::hull(chunks, |chunk| self.layout.sub_chunk(number, chunk)),
                },
                Next::Fail => {
                    self.failed = Some(number);
                    Step::Failed(number)
                }
            });
        }
        None
    }

    fn wait(&self, now: Moment) -> Step {
        let moments = self
            .stripes
            .iter()
            .filter_map(|stripe| stripe.wake(now, &self.timeouts));
        Step::Wait(moments.min().expect("a stripe has an outstanding request"))
    }

    fn part(&self, stripe: &Stripe) -> Part {
        let span = self.layout.stripe(stripe.number);
        let received = stripe.received();
        Part {
            stripe: stripe.number,
            bytes: span.start.max(self.range.start)..span.end.min(self.range.end),
            received,
            missing: stripe.wanted.without(received),
        }
    }
}
