//! The plan of a read: which sub-chunks to ask of which servers, when to ask for parity, when the origin.
//!
//! # Idea
//! A state machine without a socket or a clock. Its host does what [`Read::step`] says, and tells it with [`Read::hear`]
//! what came of it. Stripes are read a few at a time and served in order. Of each stripe the data sub-chunks that overlap the
//! range are asked for first: they need no decoding. Others are asked for when
//! - a server does not have one, or its bytes are wrong: at once;
//! - one takes longer than 1.2 times what the stripe's first took, and longer than servers mostly do: then it is late, and
//!   another takes its place. Should it come all the same, it is welcome.
//!
//! As many are asked for as are missing to K, no more. The origin is asked when fewer than K sub-chunks can still be
//! obtainable for, and for nothing but the wanted ones that cannot. A late one is obtainable for as long as it may be sooner than the
//! origin, or, once the origin has failed, until it is given up.
//!
//! # Source
//! Section 5.4 of J. Yang, *Designing Efficient and Scalable Key-value Cache Management Systems*, CMU 2024: K data
//! sub-chunks first, parity after a fifth more than the first one took; partial hits fetch what is missing.
//!
//! # Departures
//! - As long as none of a stripe has come, there is no first time to go by: [`ReadTimeouts::first_chunk_us`] stands for it.
//! - The first one mostly comes from the reader's own disk, sooner than the best of networks brings the next. Going by that
//!   alone, nearly each read would ask for parity: no sub-chunk is late before [`ReadTimeouts::hedge_min_us`].
//! - A chunk may have several sources, the older ones from older maps: [`crate::MapHistory::chunk`].
//!
//! # Bounds
//! State for at most [`ReadTimeouts::window`] stripes. Every ask ends by an event or by time, no server is asked for a sub-chunk
//! twice, and so every plan ends.
//!
//! ```
//! use edge::{Event, Layout, Moment, ReadTimeouts, Read, Scheme, ServerId, Step};
//!
//! let scheme = Scheme::coded(2, 1);
//! let layout = Layout::new(&scheme, 200_000);
//! let sources = (0..3).map(|id| vec![ServerId(id)]).collect();
//! let mut read = Read::new(layout, 0..100, sources, ReadTimeouts::default());
//! let Step::Fetch(ask) = read.step(Moment(0)) else { panic!("the first sub-chunk") };
//! assert_eq!((ask.chunk, ask.server), (0, ServerId(0)));
//! assert!(matches!(read.step(Moment(0)), Step::Wait(_)));
//! // It is not there: any two others make it.
//! read.handle(Moment(300), Event::Missing(ask));
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

/// An instant in microseconds, of a clock that never goes back, since any beginning.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Moment(pub u64);

impl Moment {
    fn after(self, us: u64) -> Moment {
        Moment(self.0.saturating_add(us))
    }
}

/// How long a read waits, and how much of it is under way at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadTimeouts {
    /// A sub-chunk is late after so many hundredths of the time that the stripe's first one took.
    pub hedge_percent: u32,
    /// A sub-chunk of which none of the stripe has come is late after so many microseconds.
    pub first_chunk_us: u64,
    /// None is late before so many microseconds: what a server takes in 95 of 100 cases, say, which the host measures.
    pub hedge_min_us: u64,
    /// One that is late is not waited for any more after so many microseconds, if otherwise the origin would be asked: about
    /// what the origin takes. Other sources of the same chunk are then asked before it.
    pub origin_fetch_us: u64,
    /// A sub-chunk is given up after so many microseconds.
    pub server_timeout_us: u64,
    /// The origin has failed if it takes so many microseconds.
    pub origin_timeout_us: u64,
    /// Stripes under way at a time; what has come of them waits in the host's memory.
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

/// A sub-chunk asked of a server.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ChunkRequest {
    /// The stripe.
    pub stripe: u64,
    /// The chunk.
    pub chunk: usize,
    /// The server.
    pub server: ServerId,
}

/// What became of what was asked for. Bytes that come late, or that nobody asked for, are taken if their stripe is under way;
/// other news that nobody waits for does no harm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A sub-chunk came, and its checksum is right.
    Received(ChunkRequest),
    /// A sub-chunk came, and its checksum is wrong: this one is lost, others of its chunk may be good.
    Corrupt(ChunkRequest),
    /// The server does not have the chunk, or cannot be reached: no other sub-chunk of it is asked of that server.
    Missing(ChunkRequest),
    /// Data sub-chunks of a stripe came from the origin.
    FromOrigin(u64, ChunkSet),
    /// The origin does not have it, or cannot be reached.
    OriginFailed(u64),
}

/// Bytes that can be served.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// The stripe.
    pub stripe: u64,
    /// The object's bytes: the next ones of the range.
    pub bytes: Range<u64>,
    /// The sub-chunks that came.
    pub received: ChunkSet,
    /// The data sub-chunks that are to be made of them; there is a [`crate::Reconstruction`] for that.
    pub missing: ChunkSet,
}

/// What the host is to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Fetch a server for a sub-chunk.
    Fetch(ChunkRequest),
    /// Fetch the origin for some of the object's bytes, in which these data sub-chunks lie.
    Origin {
        /// The stripe.
        stripe: u64,
        /// The data sub-chunks.
        chunks: ChunkSet,
        /// The object's bytes from the first to the last of them.
        bytes: Range<u64>,
    },
    /// Serve bytes.
    Serve(Part),
    /// Wait for an event, or for this moment.
    Wait(Moment),
    /// All was served.
    Done,
    /// Neither the origin nor enough servers gave this stripe; what came before was served.
    Failed(u64),
}

/// Who may have the chunks.
#[derive(Clone, Debug)]
struct Sources {
    /// By chunk: the servers, in the order in which to ask them.
    servers: Vec<Vec<ServerId>>,
    /// By chunk: which of them turned out not to have it, a bit each.
    lacking: Vec<u64>,
}

/// The most sources of a chunk that are asked.
const SOURCES_MAX: usize = u64::BITS as usize - 1;

/// The plan of one read.
#[derive(Clone, Debug)]
pub struct Read {
    layout: Layout,
    range: Range<u64>,
    sources: Sources,
    timeouts: ReadTimeouts,
    /// Under way, ascending.
    stripes: VecDeque<Stripe>,
    /// Not begun.
    rest: Range<u64>,
    failed: Option<u64>,
}

impl Read {
    /// A read of what there is of a range of an object's bytes; `sources` tells for each of the K + P chunks who may
    /// have it, each server once, of which the first 63 are asked. A chunk without sources is lost.
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

    /// What to do next; the host asks until it is told to wait, or the read is done or has failed.
    pub fn step(&mut self, now: Moment) -> Step {
        self.expire_requests(now);
        if let Some(stripe) = self.failed {
            return Step::Failed(stripe);
        }
        loop {
            if self.stripes.front().is_some_and(Stripe::is_complete) {
                let stripe = self.stripes.pop_front().expect("there is a first");
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

    /// Hears what became of something.
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

    /// The stripe that waits for an answer to an ask.
    fn waiting(&mut self, request: ChunkRequest) -> Option<&mut Stripe> {
        let stripe = self.stripe(request.stripe)?;
        stripe
            .is_requested(request.chunk, request.server)
            .then_some(stripe)
    }

    /// A server does not have a chunk: neither for this stripe nor for those that have not asked yet.
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

    /// The next thing to ask for, of the first stripe that lacks something.
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
        Step::Wait(
            moments
                .min()
                .expect("something was asked for, or there would be no stripe"),
        )
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
