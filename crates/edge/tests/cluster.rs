//! A small cluster. Objects are written under one map and read under later ones, while servers
//! fail, stop answering, join and leave, and chunks are evicted and damaged. One node gets every
//! map immediately and another gets them late. An object's model is its bytes.

use edge::{
    BucketId, Change, ChunkRequest, Code, Config, Event, Layout, Map, MapHistory, Moment, Part,
    Read, ReadTimeouts, Redundancy, Scheme, ServerId, Step, StripeDecoder, SubChunkId, checksum,
    encode_stripe,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

const OLDER_MAPS_MAX: usize = 3;
const SERVERS: u32 = 7;

#[derive(Clone, Debug)]
enum Happens {
    Put(usize),
    Get(usize, u64, u64, bool),
    Change(Change),
    Silent(u32),
    Speaks(u32),
    Evicted(u32, usize),
    Damaged(u32, usize),
    /// The late node gets the current map.
    UpdateLate,
}

/// An object as it was written.
struct Written {
    bytes: Vec<u8>,
    bucket: BucketId,
    redundancy: Redundancy,
    /// Servers of the object's chunks or replicas.
    at: Vec<ServerId>,
    version: u64,
    /// Servers whose chunk or replica was evicted or damaged.
    damaged: BTreeSet<ServerId>,
}

/// Sub-chunks with their checksums; a whole object is stripe 0 of chunk 0.
type Stored = HashMap<(ServerId, usize, usize, u64), (Vec<u8>, u64)>;

struct Cluster {
    code: Code,
    scheme: Scheme,
    maps: MapHistory,
    late: MapHistory,
    stored: Stored,
    written: Vec<Written>,
    silent: BTreeSet<ServerId>,
}

fn name_hash(object: usize) -> u64 {
    (object as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn place(object: usize, chunk: usize, stripe: u64) -> SubChunkId {
    SubChunkId {
        object: name_hash(object),
        chunk: chunk as u32,
        stripe,
    }
}

impl Cluster {
    fn new(k: u8, p: u8) -> Cluster {
        let mut scheme = Scheme::coded(k, p);
        (scheme.coded_from_bytes, scheme.sub_chunk_bytes) = (Some(40), 16);
        let config = Config {
            buckets: 6,
            virtual_nodes: 10,
            ..Config::new(scheme)
        };
        let servers: Vec<_> = (0..SERVERS).map(|id| (ServerId(id), 1)).collect();
        let maps = MapHistory::new(
            Map::new(config, &servers).expect("enough servers"),
            OLDER_MAPS_MAX,
        );
        Cluster {
            code: Code::new(k, p).expect("allowed"),
            scheme,
            late: maps.clone(),
            maps,
            stored: HashMap::new(),
            written: vec![],
            silent: BTreeSet::new(),
        }
    }

    fn put(&mut self, len: usize) {
        let object = self.written.len();
        let bytes: Vec<u8> = (0..len)
            .map(|at| (at * 7 + object * 131) as u8 ^ (at >> 5) as u8)
            .collect();
        let map = self.maps.current();
        let bucket = map.bucket_of(name_hash(object));
        let redundancy = map.redundancy(len as u64);
        let mut at: Vec<ServerId> = map.replicas(bucket).collect();
        if redundancy == Redundancy::Coded {
            at.clear();
            let layout = Layout::new(&self.scheme, len as u64);
            for (chunk, server) in map.chunks(bucket).iter().enumerate() {
                let Some(server) = *server else { continue };
                at.push(server);
                for stripe in 0..layout.stripes() {
                    let span = layout.stripe(stripe);
                    let mut out = vec![];
                    let bytes = &bytes[span.start as usize..span.end as usize];
                    encode_stripe(&self.code, &layout, stripe, bytes, &mut out);
                    let len = layout.sub_chunk_bytes(stripe) as usize;
                    let bytes = out[chunk * len..][..len].to_vec();
                    let sum = checksum(place(object, chunk, stripe), &bytes);
                    self.stored
                        .insert((server, object, chunk, stripe), (bytes, sum));
                }
            }
        } else {
            for &server in &at {
                let sum = checksum(place(object, 0, 0), &bytes);
                self.stored
                    .insert((server, object, 0, 0), (bytes.clone(), sum));
            }
        }
        let version = map.id().version;
        self.written.push(Written {
            bytes,
            bucket,
            redundancy,
            at,
            version,
            damaged: BTreeSet::new(),
        });
    }

    /// Returns a server's answer, or `None` if it does not answer.
    fn answer(
        &self,
        server: ServerId,
        object: usize,
        chunk: usize,
        stripe: u64,
    ) -> Option<Option<&(Vec<u8>, u64)>> {
        let is_there = self.maps.current().is_up(server) && !self.silent.contains(&server);
        is_there.then(|| self.stored.get(&(server, object, chunk, stripe)))
    }

    fn good(&self, server: ServerId, object: usize, chunk: usize, stripe: u64) -> Option<&[u8]> {
        let (bytes, sum) = self.answer(server, object, chunk, stripe)??;
        (checksum(place(object, chunk, stripe), bytes) == *sum).then_some(&bytes[..])
    }

    /// Returns true if the object must be found, because no failure or eviction explains a miss.
    fn must_be_found(&self, object: usize, is_late: bool) -> bool {
        let written = &self.written[object];
        let maps = if is_late { &self.late } else { &self.maps };
        let is_known = maps
            .all()
            .iter()
            .any(|map| map.id().version == written.version);
        let left = written.at.iter().filter(|server| {
            let is_there = self.maps.current().is_up(**server) && !self.silent.contains(server);
            // A late node does not use a server that it considers unavailable.
            is_there && maps.current().is_up(**server) && !written.damaged.contains(server)
        });
        let needed = if written.redundancy == Redundancy::Coded {
            usize::from(self.scheme.k)
        } else {
            1
        };
        is_known && left.count() >= needed
    }

    fn get(&self, object: usize, range: &Range<u64>, is_late: bool) {
        let maps = if is_late { &self.late } else { &self.maps };
        let written = &self.written[object];
        if written.redundancy == Redundancy::Replicated {
            let servers = maps.whole(written.bucket);
            let found = servers
                .iter()
                .find_map(|&server| self.good(server, object, 0, 0));
            assert!(
                found.is_none_or(|found| found == written.bytes),
                "wrong bytes"
            );
            assert!(
                found.is_some() || !self.must_be_found(object, is_late),
                "it is there"
            );
            return;
        }
        let chunks = self.scheme.chunks();
        let sources: Vec<_> = (0..chunks)
            .map(|chunk| maps.chunk(written.bucket, chunk))
            .collect();
        let layout = Layout::new(&self.scheme, written.bytes.len() as u64);
        let timeouts = ReadTimeouts {
            server_timeout_us: 200,
            first_chunk_us: 50,
            hedge_min_us: 0,
            ..ReadTimeouts::default()
        };
        let mut read = Read::new(layout, range.clone(), sources.clone(), timeouts);
        let mut decoder = StripeDecoder::new(&self.code, layout);
        let mut received: BTreeMap<(u64, usize), Vec<u8>> = BTreeMap::new();
        let mut coming: Vec<ChunkRequest> = vec![];
        let (mut now, mut served) = (Moment(0), vec![]);
        loop {
            match read.step(now) {
                Step::Fetch(request) => coming.push(request),
                Step::Origin {
                    stripe,
                    chunks: lost,
                    ..
                } => {
                    assert!(!self.must_be_found(object, is_late), "it is there");
                    let is_left = |chunk: &usize| {
                        sources[*chunk]
                            .iter()
                            .any(|&server| self.good(server, object, *chunk, stripe).is_some())
                    };
                    let left = (0..chunks).filter(is_left).count();
                    assert!(
                        left < usize::from(self.scheme.k),
                        "{left} chunks of stripe {stripe} are left"
                    );
                    for chunk in lost.iter() {
                        let span = layout.sub_chunk(stripe, chunk);
                        let mut bytes =
                            written.bytes[span.start as usize..span.end as usize].to_vec();
                        bytes.resize(layout.sub_chunk_bytes(stripe) as usize, 0);
                        received.insert((stripe, chunk), bytes);
                    }
                    read.handle(now, Event::FromOrigin(stripe, lost));
                }
                Step::Serve(Part {
                    stripe,
                    received: came,
                    ..
                }) => {
                    let part = |chunk| came.has(chunk).then(|| &received[&(stripe, chunk)][..]);
                    let parts: Vec<Option<&[u8]>> = (0..chunks).map(part).collect();
                    decoder
                        .join(stripe, &parts, range, &mut served)
                        .expect("enough");
                }
                Step::Wait(until) => {
                    now = Moment(now.0 + 10);
                    let answers = coming.len();
                    for request in std::mem::take(&mut coming) {
                        let event = match self.answer(
                            request.server,
                            object,
                            request.chunk,
                            request.stripe,
                        ) {
                            None => continue,
                            Some(None) => Event::Missing(request),
                            Some(Some(_)) => {
                                match self.good(
                                    request.server,
                                    object,
                                    request.chunk,
                                    request.stripe,
                                ) {
                                    None => Event::Corrupt(request),
                                    Some(bytes) => {
                                        received.insert(
                                            (request.stripe, request.chunk),
                                            bytes.to_vec(),
                                        );
                                        Event::Received(request)
                                    }
                                }
                            }
                        };
                        read.handle(now, event);
                    }
                    if answers == 0 {
                        now = now.max(until);
                    }
                }
                Step::Done => break,
                Step::Failed(stripe) => panic!("the origin does not fail, at stripe {stripe}"),
            }
        }
        let range = layout.clip(range);
        assert_eq!(
            served,
            written.bytes[range.start as usize..range.end as usize]
        );
    }

    fn spoil(&mut self, server: ServerId, object: usize, is_damage: bool) {
        let keys: Vec<_> = self
            .stored
            .keys()
            .copied()
            .filter(|key| (key.0, key.1) == (server, object))
            .collect();
        for key in keys {
            self.written[object].damaged.insert(server);
            match self.stored.get_mut(&key) {
                Some((bytes, _)) if is_damage => {
                    if let Some(byte) = bytes.first_mut() {
                        *byte = !*byte;
                    }
                }
                _ => drop(self.stored.remove(&key)),
            }
        }
    }

    fn happens(&mut self, happens: Happens) {
        let count = self.written.len().max(1);
        match happens {
            Happens::Put(len) => self.put(len),
            Happens::Get(object, begin, len, is_late) => {
                if let Some(at) = (!self.written.is_empty()).then_some(object % count) {
                    self.get(at, &(begin..begin + len), is_late);
                }
            }
            Happens::Change(change) => {
                if let Ok(map) = self.maps.current().next(&[change], &[]) {
                    self.maps.offer(map);
                    if let Change::Leave(server) = change {
                        self.stored.retain(|key, _| key.0 != server);
                        for written in self
                            .written
                            .iter_mut()
                            .filter(|written| written.at.contains(&server))
                        {
                            written.damaged.insert(server);
                        }
                    }
                }
            }
            Happens::Silent(server) => drop(self.silent.insert(ServerId(server))),
            Happens::Speaks(server) => drop(self.silent.remove(&ServerId(server))),
            Happens::Evicted(server, object) if !self.written.is_empty() => {
                self.spoil(ServerId(server), object % count, false);
            }
            Happens::Damaged(server, object) if !self.written.is_empty() => {
                self.spoil(ServerId(server), object % count, true);
            }
            Happens::Evicted(..) | Happens::Damaged(..) => {}
            Happens::UpdateLate => drop(self.late.offer(self.maps.current().clone())),
        }
    }
}

fn happens() -> impl Strategy<Value = Happens> {
    let server = 0..SERVERS + 2;
    let change = (0u8..8, server.clone()).prop_map(|(kind, id)| match kind {
        0 => Change::Join(ServerId(id), 1),
        1 => Change::Leave(ServerId(id)),
        2 => Change::Reweigh(ServerId(id), 2),
        3..=4 => Change::Down(ServerId(id)),
        _ => Change::Up(ServerId(id)),
    });
    prop_oneof![
        3 => (0usize..200).prop_map(Happens::Put),
        6 => (any::<usize>(), 0u64..150, 0u64..200, any::<bool>())
            .prop_map(|(object, begin, len, is_late)| Happens::Get(object, begin, len, is_late)),
        2 => change.prop_map(Happens::Change),
        1 => server.clone().prop_map(Happens::Silent),
        2 => server.clone().prop_map(Happens::Speaks),
        1 => (server.clone(), any::<usize>()).prop_map(|(server, object)| Happens::Evicted(server, object)),
        1 => (server, any::<usize>()).prop_map(|(server, object)| Happens::Damaged(server, object)),
        1 => Just(Happens::UpdateLate),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn objects_are_found_under_any_map_while_enough_chunks_are_left(
        k in 1u8..4, p in 1u8..4, all in prop::collection::vec(happens(), 1..60),
    ) {
        let mut cluster = Cluster::new(k, p);
        for happens in all {
            cluster.happens(happens);
        }
    }
}
