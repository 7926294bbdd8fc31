//! Reads over a simulated network. Servers answer soon, late or never, lack chunks or have corrupt
//! ones, and the origin may fail. In all cases a read ends, serves the right bytes or none,
//! requests no more than it needs, and uses the origin only if fewer than K sub-chunks of a stripe
//! are left.

use edge::{
    ChunkRequest, ChunkSet, Code, Event, Layout, Moment, Part, Read, ReadTimeouts, Scheme,
    ServerId, Step, StripeDecoder, SubChunkId, checksum, encode_stripe,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

const OBJECT: u64 = 99;

/// Answer of a server to a request.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Answer {
    After(u64),
    /// Corrupt bytes for stripes whose number has this remainder modulo 3, after a delay.
    BadAfter(u64, u64),
    MissingAfter(u64),
    Never,
}

#[derive(Clone, Debug)]
struct World {
    k: u8,
    p: u8,
    sub_chunk_bytes: u32,
    object: Vec<u8>,
    range: Range<u64>,
    /// Sources of each chunk, with their answers.
    sources: Vec<Vec<Answer>>,
    /// Delay of the origin in microseconds; `None` if it fails.
    origin: Option<u64>,
    timeouts: ReadTimeouts,
}

/// A message in transit: the event for the host.
#[derive(Clone, Debug)]
enum Message {
    Bytes(ChunkRequest, Vec<u8>, u64),
    Missing(ChunkRequest),
    Origin(u64, ChunkSet, Option<Range<u64>>),
}

struct Host<'a> {
    world: &'a World,
    code: Code,
    layout: Layout,
    now: u64,
    /// Messages by their time of arrival and a number.
    network: BTreeMap<(u64, usize), Message>,
    sent: usize,
    /// Correct sub-chunks that arrived, by stripe.
    received: HashMap<u64, BTreeMap<usize, Vec<u8>>>,
    asked: Vec<(u64, ChunkRequest)>,
    ended: Vec<(u64, ChunkRequest, bool)>,
    at_origin: Vec<(u64, ChunkSet)>,
    /// Outstanding requests to the origin: stripe and time.
    origin_out: Vec<(u64, u64)>,
    origin_failed: BTreeSet<u64>,
    /// Time that the first sub-chunk took, by stripe.
    first_chunk_us: HashMap<u64, u64>,
    served: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum End {
    Done,
    Failed,
}

fn server(chunk: usize, source: usize) -> ServerId {
    ServerId((chunk * 10 + source) as u32)
}

impl<'a> Host<'a> {
    fn new(world: &'a World) -> (Host<'a>, Read) {
        let mut scheme = Scheme::coded(world.k, world.p);
        scheme.sub_chunk_bytes = world.sub_chunk_bytes;
        let layout = Layout::new(&scheme, world.object.len() as u64);
        let sources = world.sources.iter().enumerate().map(|(chunk, answers)| {
            (0..answers.len())
                .map(|source| server(chunk, source))
                .collect()
        });
        let read = Read::new(
            layout,
            world.range.clone(),
            sources.collect(),
            world.timeouts,
        );
        let code = Code::new(world.k, world.p).expect("allowed");
        let host = Host {
            world,
            code,
            layout,
            now: 0,
            network: BTreeMap::new(),
            sent: 0,
            received: HashMap::new(),
            asked: vec![],
            ended: vec![],
            at_origin: vec![],
            origin_out: vec![],
            origin_failed: BTreeSet::new(),
            first_chunk_us: HashMap::new(),
            served: vec![],
        };
        (host, read)
    }

    fn send(&mut self, after: u64, message: Message) {
        self.sent += 1;
        self.network.insert((self.now + after, self.sent), message);
    }

    /// Returns the sub-chunks of a stripe as they were stored.
    fn stored(&self, stripe: u64) -> Vec<Vec<u8>> {
        let span = self.layout.stripe(stripe);
        let bytes = &self.world.object[span.start as usize..span.end as usize];
        let mut out = vec![];
        encode_stripe(&self.code, &self.layout, stripe, bytes, &mut out);
        out.chunks(self.layout.sub_chunk_bytes(stripe) as usize)
            .map(<[u8]>::to_vec)
            .collect()
    }

    fn request(&mut self, request: ChunkRequest) {
        assert!(
            self.asked.iter().all(|(_, other)| *other != request),
            "{request:?} twice"
        );
        self.check_need(request);
        self.asked.push((self.now, request));
        let bytes = self.stored(request.stripe).swap_remove(request.chunk);
        let sum = checksum(place(request), &bytes);
        let source = request.server.0 as usize % 10;
        match self.world.sources[request.chunk][source] {
            Answer::BadAfter(us, rest) if request.stripe % 3 == rest => {
                let mut bad = bytes;
                let at = (request.stripe as usize * 31 + request.chunk) % bad.len();
                bad[at] ^= 1 << (at % 8);
                self.send(us, Message::Bytes(request, bad, sum));
            }
            Answer::After(us) | Answer::BadAfter(us, _) => {
                self.send(us, Message::Bytes(request, bytes, sum))
            }
            Answer::MissingAfter(us) => self.send(us, Message::Missing(request)),
            Answer::Never => {}
        }
    }

    /// Asserts that a request is needed: the sub-chunks received and expected are neither K nor all
    /// the wanted ones.
    fn check_need(&self, request: ChunkRequest) {
        let wanted = self.layout.chunks_of(&self.world.range, request.stripe);
        let received: ChunkSet = self
            .received
            .get(&request.stripe)
            .into_iter()
            .flatten()
            .map(|(chunk, _)| *chunk)
            .collect();
        let out = self.asked.iter().filter(|(since, other)| {
            let has_ended = self.ended.iter().any(|(_, ended, _)| ended == other);
            other.stripe == request.stripe && !has_ended && !self.is_late(*since, request.stripe)
        });
        let coming: ChunkSet = out.map(|(_, other)| other.chunk).collect();
        let at_origin = self
            .at_origin
            .iter()
            .filter(|(stripe, _)| *stripe == request.stripe && !self.has_origin_failed(*stripe));
        let sure = at_origin.fold(received.or(coming), |sure, (_, chunks)| sure.or(*chunks));
        assert!(
            !sure.has_all(wanted),
            "{request:?}: all wanted is coming, {sure:?}"
        );
        assert!(
            sure.count() < usize::from(self.world.k),
            "{request:?}: enough is coming, {sure:?}"
        );
    }

    fn is_late(&self, since: u64, stripe: u64) -> bool {
        let timeouts = &self.world.timeouts;
        let wait = match self.first_chunk_us.get(&stripe) {
            Some(first) => first * u64::from(timeouts.hedge_percent) / 100,
            None => timeouts.first_chunk_us,
        };
        self.now > since + wait.max(timeouts.hedge_min_us)
            || self.now > since + timeouts.server_timeout_us
    }

    /// Returns true if another source has received a request for the sub-chunk since then.
    fn is_replaced(&self, request: ChunkRequest) -> bool {
        self.asked.iter().any(|(_, other)| {
            let is_same = other.stripe == request.stripe && other.chunk == request.chunk;
            is_same && other.server > request.server
        })
    }

    fn measure(&mut self, request: ChunkRequest) {
        let (since, _) = self
            .asked
            .iter()
            .find(|(_, other)| *other == request)
            .expect("asked");
        let took = self.now - since;
        let is_first = self
            .received
            .get(&request.stripe)
            .is_none_or(|received| !received.contains_key(&request.chunk));
        if is_first && took <= self.world.timeouts.server_timeout_us && !self.is_replaced(request) {
            self.first_chunk_us.entry(request.stripe).or_insert(took);
        }
    }

    fn has_origin_failed(&self, stripe: u64) -> bool {
        let origin_timeout_us = self.world.timeouts.origin_timeout_us;
        let mut own = self.origin_out.iter().filter(|out| out.0 == stripe);
        self.origin_failed.contains(&stripe) || own.any(|out| self.now >= out.1 + origin_timeout_us)
    }

    /// Returns the sub-chunks that arrived or may still arrive from a server. A late one counts for
    /// `late_us`.
    fn left(&self, stripe: u64, late_us: u64) -> ChunkSet {
        let is_lost = |chunk: usize, source: usize| {
            let of_source = self.asked.iter().filter(|(_, request)| {
                request.chunk == chunk && request.server == server(chunk, source)
            });
            let mut losses = of_source.map(|(since, request)| {
                let answer = self.ended.iter().find(|(_, ended, _)| ended == request);
                let is_own = request.stripe == stripe;
                let give_up = since + self.world.timeouts.server_timeout_us;
                match answer {
                    // A server that lacks a chunk lacks it for all stripes; a corrupt sub-chunk
                    // proves only itself.
                    Some((at, _, false)) => {
                        let answer = self.world.sources[chunk][source];
                        is_own || *at > give_up || matches!(answer, Answer::MissingAfter(_))
                    }
                    Some((at, _, true)) => *at > give_up,
                    None => {
                        let is_late = is_own && self.is_late(*since, stripe);
                        let is_replaced = is_own && self.is_replaced(*request);
                        let is_hopeless = is_late && self.now > since + late_us;
                        is_replaced || is_hopeless || self.now > give_up
                    }
                }
            });
            losses.any(|is_lost| is_lost)
        };
        let received = self.received.get(&stripe).into_iter().flatten();
        let mut left: ChunkSet = received.map(|(chunk, _)| *chunk).collect();
        for (chunk, sources) in self.world.sources.iter().enumerate() {
            if !(0..sources.len()).all(|source| is_lost(chunk, source)) {
                left.add(chunk);
            }
        }
        left
    }

    /// Asserts that the origin is needed: fewer than K sub-chunks arrived or may arrive, and the
    /// requested ones are wanted.
    fn origin(&mut self, stripe: u64, chunks: ChunkSet, bytes: Range<u64>) {
        let wanted = self.layout.chunks_of(&self.world.range, stripe);
        assert!(wanted.has_all(chunks));
        assert!(!chunks.is_empty());
        assert!(!self.has_origin_failed(stripe));
        let left = self.left(stripe, self.world.timeouts.origin_fetch_us);
        let from_origin = self.at_origin.iter().filter(|(other, _)| *other == stripe);
        let left = from_origin.fold(left, |left, (_, chunks)| left.or(*chunks));
        assert!(
            left.count() < usize::from(self.world.k),
            "stripe {stripe}: {left:?} are left"
        );
        assert!(
            left.and(chunks).is_empty(),
            "stripe {stripe}: {left:?} are left, {chunks:?} asked"
        );
        self.at_origin.push((stripe, chunks));
        self.origin_out.push((stripe, self.now));
        let answer = self.world.origin.map(|_| bytes);
        let after = self.world.origin.unwrap_or(5);
        self.send(after, Message::Origin(stripe, chunks, answer));
    }

    fn handle(&mut self, message: Message) -> Event {
        match message {
            Message::Bytes(request, bytes, sum) => {
                let is_good = checksum(place(request), &bytes) == sum;
                self.ended.push((self.now, request, is_good));
                if is_good {
                    self.measure(request);
                    self.received
                        .entry(request.stripe)
                        .or_default()
                        .insert(request.chunk, bytes);
                    Event::Received(request)
                } else {
                    Event::Corrupt(request)
                }
            }
            Message::Missing(request) => {
                self.ended.push((self.now, request, false));
                Event::Missing(request)
            }
            Message::Origin(stripe, _, None) => {
                self.origin_failed.insert(stripe);
                Event::OriginFailed(stripe)
            }
            Message::Origin(stripe, chunks, Some(_)) => {
                // Answers arrive in the order of requests; one that arrives exactly at the timeout
                // is in time.
                let own = self.origin_out.iter().position(|out| out.0 == stripe);
                let (_, since) = self.origin_out.remove(own.expect("asked"));
                if self.now > since + self.world.timeouts.origin_timeout_us {
                    self.origin_failed.insert(stripe);
                }
                let len = self.layout.sub_chunk_bytes(stripe) as usize;
                for chunk in chunks.iter() {
                    let span = self.layout.sub_chunk(stripe, chunk);
                    let mut bytes =
                        self.world.object[span.start as usize..span.end as usize].to_vec();
                    bytes.resize(len, 0);
                    self.received
                        .entry(stripe)
                        .or_default()
                        .insert(chunk, bytes);
                }
                Event::FromOrigin(stripe, chunks)
            }
        }
    }

    fn serve(&mut self, part: &Part) {
        let next = self.world.range.start + self.served.len() as u64;
        assert_eq!(part.bytes.start, next, "in order, without a gap");
        let received = &self.received[&part.stripe];
        let has = |chunk: usize| {
            part.received
                .has(chunk)
                .then(|| received.get(&chunk).map(|bytes| &bytes[..]))
                .flatten()
        };
        let chunks: Vec<Option<&[u8]>> = (0..self.world.sources.len()).map(has).collect();
        let wanted = self.layout.chunks_of(&self.world.range, part.stripe);
        assert_eq!(part.missing, wanted.without(part.received));
        let begin = self.served.len();
        let mut decoder = StripeDecoder::new(&self.code, self.layout);
        let joined = decoder.join(part.stripe, &chunks, &self.world.range, &mut self.served);
        joined.expect("what the plan says is enough");
        assert_eq!(
            (self.served.len() - begin) as u64,
            part.bytes.end - part.bytes.start
        );
    }

    fn run(&mut self, read: &mut Read) -> End {
        for _ in 0..100_000 {
            match read.step(Moment(self.now)) {
                Step::Fetch(request) => self.request(request),
                Step::Origin {
                    stripe,
                    chunks,
                    bytes,
                } => self.origin(stripe, chunks, bytes),
                Step::Serve(part) => self.serve(&part),
                Step::Done => return End::Done,
                Step::Failed(stripe) => {
                    let left = self.left(stripe, u64::MAX / 2);
                    assert!(self.has_origin_failed(stripe));
                    assert!(
                        left.count() < usize::from(self.world.k),
                        "{left:?} are left"
                    );
                    return End::Failed;
                }
                Step::Wait(until) => {
                    assert!(until.0 >= self.now, "a moment that has passed");
                    let first = self.network.first_key_value().map(|((at, _), _)| *at);
                    match first.filter(|at| *at <= until.0) {
                        Some(at) => {
                            self.now = at;
                            let (_, message) = self.network.pop_first().expect("a message");
                            let event = self.handle(message);
                            read.handle(Moment(self.now), event);
                        }
                        None => {
                            assert!(until.0 > self.now, "time that does not pass");
                            self.now = until.0;
                        }
                    }
                }
            }
        }
        panic!("it does not end");
    }
}

fn place(request: ChunkRequest) -> SubChunkId {
    SubChunkId {
        object: OBJECT,
        chunk: request.chunk as u32,
        stripe: request.stripe,
    }
}

fn object(len: usize) -> Vec<u8> {
    (0..len as u64)
        .map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8)
        .collect()
}

/// Returns a world of ten stripes with a (3, 1) code and without failures.
fn well() -> World {
    World {
        k: 3,
        p: 1,
        sub_chunk_bytes: 16,
        object: object(470),
        range: 0..470,
        sources: vec![vec![Answer::After(100)]; 4],
        origin: Some(5_000),
        timeouts: ReadTimeouts {
            first_chunk_us: 1_000,
            server_timeout_us: 20_000,
            ..ReadTimeouts::default()
        },
    }
}

fn run(world: &World) -> (End, Vec<ChunkRequest>, Vec<(u64, ChunkSet)>, u64) {
    let (mut host, mut read) = Host::new(world);
    let end = host.run(&mut read);
    let range = world.range.start as usize..world.range.end.min(world.object.len() as u64) as usize;
    let expected = world.object.get(range).unwrap_or(&[]);
    assert!(expected.starts_with(&host.served), "wrong bytes");
    if end == End::Done {
        assert_eq!(host.served.len(), expected.len(), "too few bytes");
    }
    let asked = host.asked.iter().map(|(_, request)| *request).collect();
    (end, asked, host.at_origin, host.now)
}

#[test]
fn without_failures_only_data_is_requested() {
    let world = well();
    let (end, asked, origin, _) = run(&world);
    assert_eq!((end, asked.len(), origin.len()), (End::Done, 30, 0));
    assert!(asked.iter().all(|request| request.chunk < 3));
    let part = World {
        range: 20..40,
        ..world
    };
    let asked = run(&part).1;
    assert_eq!(
        asked
            .iter()
            .map(|request| request.chunk)
            .collect::<Vec<_>>(),
        [1, 2]
    );
}

#[test]
fn parity_is_requested_after_a_fifth_more_than_the_first_took() {
    let mut world = well();
    world.range = 0..48;
    world.sources[1] = vec![Answer::After(900)];
    world.timeouts.hedge_min_us = 0;
    let (mut host, mut read) = Host::new(&world);
    assert_eq!(host.run(&mut read), End::Done);
    let parity = host
        .asked
        .iter()
        .find(|(_, request)| request.chunk == 3)
        .expect("parity");
    assert_eq!(parity.0, 121);
    assert_eq!(host.now, 221);
    assert_eq!(host.served, world.object[..48]);
}

/// Regression: a sub-chunk was late by the time of the first one only, so that one read from the
/// reader's own disk made every peer late.
#[test]
fn a_peer_of_usual_speed_is_not_late_although_the_own_disk_is_faster() {
    let mut world = well();
    world.sources = vec![vec![Answer::After(500)]; 4];
    for own in [0, 200] {
        world.sources[0] = vec![Answer::After(own)];
        let asked = run(&world).1;
        assert!(asked.iter().all(|request| request.chunk < 3), "{own} us");
    }
}

/// Regression: a lost and a late sub-chunk added up to K until the late one timed out, which took a
/// second.
#[test]
fn a_late_and_a_lost_chunk_lead_to_the_origin() {
    let mut world = well();
    world.range = 0..48;
    world.timeouts = ReadTimeouts::default();
    world.origin = Some(80_000);
    world.sources[1] = vec![Answer::MissingAfter(300)];
    world.sources[2] = vec![Answer::Never];
    let (end, _, origin, now) = run(&world);
    assert_eq!((end, origin.len()), (End::Done, 1));
    assert!(now < 150_000, "{now} us");
    // If the origin fails, a late sub-chunk is used.
    world.sources[2] = vec![Answer::After(200_000)];
    world.origin = None;
    let (end, _, origin, now) = run(&world);
    assert_eq!((end, origin.len(), now), (End::Done, 1, 200_000));
}

#[test]
fn a_server_that_never_answers_receives_one_request() {
    let mut world = well();
    world.sources[0] = vec![Answer::Never];
    world.timeouts.server_timeout_us = 150;
    let (end, asked, origin, _) = run(&world);
    assert_eq!((end, origin.len()), (End::Done, 0));
    // The four stripes being read requested it before its timeout.
    assert_eq!(asked.iter().filter(|request| request.chunk == 0).count(), 4);
}

#[test]
fn lost_chunks_are_decoded_or_fetched_from_the_origin() {
    let mut world = well();
    world.sources[2] = vec![Answer::MissingAfter(50)];
    assert_eq!(run(&world).2, []);
    world.sources[0] = vec![Answer::MissingAfter(50)];
    let (end, _, origin, _) = run(&world);
    assert_eq!((end, origin.len()), (End::Done, 10));
    assert!(
        origin
            .iter()
            .all(|(_, chunks)| *chunks == ChunkSet::from_iter([0, 2]))
    );
    world.origin = None;
    assert_eq!(run(&world).0, End::Failed);
}

#[test]
fn an_older_source_is_preferred_to_other_chunks() {
    let mut world = well();
    world.sources[2] = vec![Answer::MissingAfter(50), Answer::After(100)];
    let (end, asked, origin, _) = run(&world);
    assert_eq!((end, origin.len()), (End::Done, 0));
    assert!(asked.iter().all(|request| request.chunk < 3));
    // Once the newer source is known to lack the chunk, it receives no more requests.
    assert_eq!(
        asked
            .iter()
            .filter(|request| request.server == server(2, 0))
            .count(),
        4
    );
}

#[test]
fn a_corrupt_sub_chunk_counts_as_lost() {
    let mut world = well();
    world.sources[1] = vec![Answer::BadAfter(100, 0)];
    let (end, asked, origin, _) = run(&world);
    assert_eq!((end, origin.len()), (End::Done, 0));
    let parity: BTreeSet<u64> = asked
        .iter()
        .filter(|request| request.chunk == 3)
        .map(|request| request.stripe)
        .collect();
    assert_eq!(parity, BTreeSet::from([0, 3, 6, 9]));
}

#[test]
fn empty_ranges_and_objects_are_done_at_once() {
    for (range, len) in [(0..0, 470), (470..500, 470), (0..10, 0), (7..7, 0)] {
        let world = World {
            range,
            object: object(len),
            ..well()
        };
        let (end, asked, ..) = run(&world);
        assert_eq!((end, asked.len()), (End::Done, 0));
    }
}

#[test]
fn a_range_at_the_end_of_a_hundred_gigabytes_requests_what_it_overlaps() {
    let bytes = 100_000_000_000;
    let layout = Layout::new(&Scheme::coded(3, 1), bytes);
    let sources = (0..4).map(|chunk| vec![server(chunk, 0)]).collect();
    // From the last byte but one of the last whole stripe to beyond the end.
    let last = layout.stripes() - 1;
    let from = layout.stripe(last).start - 2;
    let mut read = Read::new(layout, from..u64::MAX, sources, ReadTimeouts::default());
    let (mut asked, mut served) = (vec![], vec![]);
    loop {
        match read.step(Moment(0)) {
            Step::Fetch(request) => {
                asked.push((request.stripe, request.chunk));
                read.handle(Moment(0), Event::Received(request));
            }
            Step::Serve(part) => served.push(part.bytes),
            Step::Done => break,
            other => panic!("{other:?}"),
        }
    }
    let wanted = (0..3).map(|chunk| (last, chunk));
    let wanted: Vec<_> = wanted
        .filter(|at| !layout.sub_chunk(last, at.1).is_empty())
        .collect();
    assert_eq!(asked, [vec![(last - 1, 2)], wanted].concat());
    assert_eq!(served, [from..from + 2, from + 2..bytes]);
}

fn answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        5 => (0u64..400).prop_map(Answer::After),
        1 => (400u64..3_000).prop_map(Answer::After),
        1 => (0u64..400, 0u64..3).prop_map(|(us, rest)| Answer::BadAfter(us, rest)),
        2 => (0u64..400).prop_map(Answer::MissingAfter),
        1 => Just(Answer::Never),
    ]
}

fn world() -> impl Strategy<Value = World> {
    let sizes = (1u8..6, 1u8..4, 1u32..20, 0usize..400, 0u64..420, 0u64..420);
    let waits = (
        prop::option::weighted(0.8, 0u64..2_000),
        0u64..500,
        0u64..300,
        0u64..2_500,
        100u64..2_500,
        1usize..6,
    );
    (sizes, waits).prop_flat_map(|((k, p, sub_chunk_bytes, len, begin, bytes), waits)| {
        let (origin, first_chunk_us, hedge_min_us, origin_fetch_us, server_timeout_us, window) =
            waits;
        let sources =
            prop::collection::vec(prop::collection::vec(answer(), 0..3), usize::from(k + p));
        sources.prop_map(move |sources| World {
            k,
            p,
            sub_chunk_bytes,
            object: object(len),
            range: begin..begin + bytes,
            sources,
            origin,
            timeouts: ReadTimeouts {
                first_chunk_us,
                hedge_min_us,
                origin_fetch_us,
                server_timeout_us,
                window,
                origin_timeout_us: 1_500,
                ..ReadTimeouts::default()
            },
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]
    #[test]
    fn any_network_leads_to_the_right_bytes_or_to_none(world in world()) {
        let (end, asked, origin, _) = run(&world);
        // It fails only if the origin does.
        if end == End::Failed {
            prop_assert!(!origin.is_empty());
            prop_assert!(world.origin.is_none_or(|us| us >= world.timeouts.origin_timeout_us));
        }
        let stripes: BTreeSet<u64> = asked.iter().map(|request| request.stripe).collect();
        let all = usize::from(world.k) + usize::from(world.p);
        prop_assert!(asked.len() <= stripes.len() * all * 2);
    }
}
