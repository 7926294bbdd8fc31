//! Clusters compared with a simple model, and invariants that hold for any parameters.

use edge::placement::Placement;
use edge::{BucketId, BucketWrites, Change, Map, ServerId};
use policy::any::PolicySpec;
use sim::cluster::{
    ClusterRules, Coordination, Notifications, RunResult, Scheme, Setup, Study, check, run,
};
use sim::{Columns, Configuration, Interner, Interning, Unit};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use trace::{CDN_LARGEST_BYTES, Cdn, Content, Outage, Request};

fn made(content: Content, requests: u64, seed: u64) -> Columns {
    let trace = Cdn::new(content, requests, CDN_LARGEST_BYTES, seed).expect("it is large enough");
    Interner::all("made", Interning::default(), trace.map(Ok)).expect("it is well-formed")
}

fn of_sizes(requests: &[(u64, u32)]) -> Columns {
    let requests = requests.iter().enumerate();
    let requests =
        requests.map(|(at, (key, size))| Ok(Request::new(at as u64 * 1000, *key, *size)));
    Interner::all("sizes", Interning::default(), requests).expect("it is well-formed")
}

fn setup(scheme: &str, servers: usize, capacity: u64) -> Setup {
    Setup {
        scheme: scheme.parse().expect("it is a scheme"),
        policy: PolicySpec::Fifo(()),
        weights: vec![1; servers],
        capacity,
        memory_share: 0.0,
        coordination: Coordination::default(),
        watched: 0..0,
        outages: Arc::new([]),
        until: usize::MAX,
        is_timed: false,
    }
}

fn go(columns: &Columns, rules: &ClusterRules, setup: &Setup) -> RunResult {
    run(columns, rules, setup, &AtomicU64::new(0)).expect("it can be run")
}

fn share(columns: &Columns, percent: u64) -> u64 {
    columns.footprint_bytes() * percent / 100
}

/// FIFO queue of objects with the chunk number of each.
#[derive(Default)]
struct Queue {
    order: VecDeque<u64>,
    chunks: HashMap<u64, usize>,
    held: u64,
}

/// Model of a cluster: FIFO queues, one request after the other, every look-up a linear search.
struct Plain<'a> {
    setup: &'a Setup,
    /// Newest first.
    maps: VecDeque<Map>,
    queues: Vec<Queue>,
    down: Vec<bool>,
    sizes: HashMap<u64, u64>,
    /// Bytes of whole objects and of chunks, by bucket.
    loads: Vec<[u64; 2]>,
    misses: u64,
    partial: u64,
    origin_bytes: u64,
    written: Vec<u64>,
}

const CODED_FROM: u64 = 128 << 10;

impl<'a> Plain<'a> {
    fn new(setup: &'a Setup, rules: &ClusterRules) -> Plain<'a> {
        let count = setup.weights.len();
        let (scheme, placement) = match setup.scheme {
            Scheme::Coded {
                data,
                parity,
                placement: Placement::Greedy,
            } => (
                edge::Scheme::coded(data as u8, parity as u8),
                Placement::Greedy,
            ),
            Scheme::Coded { data, parity, .. } => (
                edge::Scheme::coded(data as u8, parity as u8),
                Placement::Ring,
            ),
            Scheme::Replicas(count) => (edge::Scheme::replicated(count as u8), Placement::Ring),
            Scheme::Popular => unreachable!("it is not modelled"),
        };
        let config = edge::Config {
            buckets: rules.buckets,
            seed: rules.seed,
            placement,
            ..edge::Config::new(scheme)
        };
        let members: Vec<_> = (0..count as u32).map(|id| (ServerId(id), 1)).collect();
        let map = Map::new(config, &members).expect("the cluster can be");
        Plain {
            setup,
            maps: VecDeque::from([map]),
            queues: (0..count).map(|_| Queue::default()).collect(),
            down: vec![false; count],
            sizes: HashMap::new(),
            loads: vec![[0; 2]; rules.buckets as usize],
            misses: 0,
            partial: 0,
            origin_bytes: 0,
            written: vec![0; count],
        }
    }

    fn weight(&self, object: u64) -> u64 {
        match self.setup.scheme {
            Scheme::Coded { data, .. } if self.sizes[&object] >= CODED_FROM => {
                self.sizes[&object].div_ceil(data as u64)
            }
            _ => self.sizes[&object],
        }
    }

    fn change(&mut self, changes: &[Change]) {
        let (parts, copies) = match self.setup.scheme {
            Scheme::Coded { data, parity, .. } => (data + parity, parity + 1),
            _ => (1, 1),
        };
        let load = |written: &[u64; 2]| BucketWrites {
            whole_bytes: written[0] / copies as u64,
            chunk_bytes: written[1] / parts as u64,
        };
        let mut loads: Vec<BucketWrites> = self.loads.iter().map(load).collect();
        if self.loads.iter().all(|written| *written == [0; 2]) {
            loads.clear();
        }
        let next = self.maps[0].next(changes, &loads);
        self.maps.push_front(next.expect("the servers are members"));
        self.maps.truncate(9);
        self.loads
            .iter_mut()
            .flatten()
            .for_each(|bytes| *bytes /= 2);
    }

    fn chunk(&self, server: ServerId, object: u64) -> Option<usize> {
        let at = server.0 as usize;
        let chunk = self.queues[at].chunks.get(&object).copied();
        chunk.filter(|_| !self.down[at])
    }

    fn write(&mut self, server: ServerId, object: u64, chunk: usize, bucket: BucketId) {
        let at = server.0 as usize;
        let capacity = self.setup.capacity / self.setup.weights.len() as u64;
        let weight = self.weight(object);
        if weight > capacity || self.queues[at].chunks.contains_key(&object) {
            return;
        }
        while self.queues[at].held + weight > capacity {
            let victim = self.queues[at].order.pop_front().expect("it is full");
            let freed = self.weight(victim);
            self.queues[at].chunks.remove(&victim);
            self.queues[at].held -= freed;
        }
        let queue = &mut self.queues[at];
        queue.order.push_back(object);
        queue.chunks.insert(object, chunk);
        queue.held += weight;
        self.written[at] += weight;
        let is_coded =
            matches!(self.setup.scheme, Scheme::Coded { .. }) && self.sizes[&object] >= CODED_FROM;
        self.loads[bucket.0 as usize][usize::from(is_coded)] += weight;
    }

    fn request(&mut self, object: u64, size: u64, bucket: BucketId) {
        self.sizes.insert(object, size);
        if self.maps[0].lead(bucket).is_none() {
            self.misses += 1;
            self.origin_bytes += size;
            return;
        }
        match self.setup.scheme {
            Scheme::Coded { data, .. } if size >= CODED_FROM => {
                self.coded(object, size, bucket, data)
            }
            _ => self.whole(object, size, bucket),
        }
    }

    fn whole(&mut self, object: u64, size: u64, bucket: BucketId) {
        let row: Vec<ServerId> = self.maps[0].replicas(bucket).collect();
        let all: Vec<ServerId> = (self.maps.iter())
            .flat_map(|map| map.replicas(bucket))
            .collect();
        let asked = match self.setup.coordination.no_peer_probe {
            true => 1,
            false => all.len(),
        };
        if all
            .iter()
            .take(asked)
            .any(|server| self.chunk(*server, object).is_some())
        {
            self.write(row[0], object, 0, bucket);
            return;
        }
        self.misses += 1;
        self.origin_bytes += size;
        row.into_iter()
            .for_each(|server| self.write(server, object, 0, bucket));
    }

    fn coded(&mut self, object: u64, size: u64, bucket: BucketId, data: usize) {
        let row = self.maps[0].chunks(bucket).to_vec();
        if row.iter().flatten().count() < data {
            self.misses += 1;
            self.origin_bytes += size;
            return;
        }
        let mut found: Vec<usize> = Vec::new();
        let lead = self.maps[0].lead(bucket).expect("somebody is up");
        let is_asked_for =
            !self.setup.coordination.no_peer_probe || self.chunk(lead, object).is_some();
        for server in self
            .maps
            .iter()
            .flat_map(|map| map.chunks(bucket))
            .flatten()
            .filter(|_| is_asked_for)
        {
            if let Some(chunk) = self.chunk(*server, object)
                && found.len() < data
                && !found.contains(&chunk)
            {
                found.push(chunk);
            }
        }
        let is_hit = found.len() == data;
        if !is_hit {
            self.misses += 1;
            self.partial += u64::from(!found.is_empty());
            let weight = self.weight(object);
            self.origin_bytes += ((data - found.len()) as u64 * weight).min(size);
        }
        let mut kept: Vec<usize> = row
            .iter()
            .flatten()
            .filter_map(|s| self.chunk(*s, object))
            .collect();
        for (seat, server) in row.iter().enumerate() {
            let is_mended = !is_hit || seat < data;
            let Some(server) =
                server.filter(|server| is_mended && self.chunk(*server, object).is_none())
            else {
                continue;
            };
            let free = (0..row.len()).find(|chunk| !kept.contains(chunk));
            let chunk = if kept.contains(&seat) {
                free.unwrap_or(seat)
            } else {
                seat
            };
            kept.push(chunk);
            self.write(server, object, chunk, bucket);
        }
    }
}

/// Servers fail and recover at random times while a generated trace is replayed.
fn against_the_plainest(
    scheme: &str,
    servers: usize,
    percent: u64,
    no_peer_probe: bool,
    seed: u64,
) {
    let columns = made(Content::Video, 6_000, seed);
    let span_ms = columns.span_ms(None);
    let mut chance = trace::Random::new(seed);
    let outages: Vec<Outage> = (0..8)
        .map(|number| {
            let from_ms = chance.below(span_ms) / 8 * 8 + number % 8;
            Outage {
                from_ms,
                until_ms: from_ms + 1 + chance.below(span_ms / 4),
                server: number as u32 % servers as u32,
            }
        })
        .collect();
    let rules = ClusterRules {
        buckets: 40,
        warm_up: 0,
        seed,
        ..ClusterRules::default()
    };
    let setup = Setup {
        outages: outages.clone().into(),
        coordination: Coordination {
            no_peer_probe,
            ..Coordination::default()
        },
        ..setup(scheme, servers, share(&columns, percent))
    };
    let found = go(&columns, &rules, &setup);
    let mut plain = Plain::new(&setup, &rules);
    if matches!(
        setup.scheme,
        Scheme::Coded {
            placement: Placement::Greedy,
            ..
        }
    ) {
        // The end of the warm-up, which is the first request.
        plain.change(&[]);
    }
    let down_at = |server: usize, now_ms: u64| {
        let own = outages
            .iter()
            .filter(|outage| outage.server as usize == server);
        own.into_iter()
            .any(|outage| (outage.from_ms..outage.until_ms).contains(&now_ms))
    };
    let moments = outages.iter().map(|one| [one.from_ms, one.until_ms]);
    let mut moments: Vec<u64> = moments.flatten().collect();
    moments.sort_unstable();
    let mut last = vec![false; servers];
    let (mut ids, mut now_ms, mut first_ms) = (HashMap::new(), 0, None);
    for request in Cdn::new(Content::Video, 6_000, CDN_LARGEST_BYTES, seed).expect("as before") {
        let first_ms = *first_ms.get_or_insert(request.time_ms);
        now_ms = now_ms.max(request.time_ms - first_ms);
        let due = moments.partition_point(|moment| *moment <= now_ms);
        for moment in moments.drain(..due) {
            let mut changes = Vec::new();
            for (server, last) in last.iter_mut().enumerate() {
                let is_down = down_at(server, moment);
                if std::mem::replace(last, is_down) != is_down {
                    let id = ServerId(server as u32);
                    changes.push(match is_down {
                        true => Change::Down(id),
                        false => Change::Up(id),
                    });
                }
            }
            plain.down.clone_from(&last);
            if !changes.is_empty() {
                plain.change(&changes);
            }
        }
        let fresh = ids.len() as u32;
        let id = *ids.entry(request.key).or_insert(fresh);
        let bucket = sim::cluster::bucket_of(id, rules.buckets);
        plain.request(request.key, u64::from(request.size), BucketId(bucket));
    }
    assert_eq!(
        found.total.misses, plain.misses,
        "{scheme} on {servers}, seed {seed}"
    );
    assert_eq!(found.total.partial_hits, plain.partial);
    assert_eq!(found.total.origin_bytes, plain.origin_bytes);
    assert_eq!(found.written_bytes, plain.written);
}

#[test]
fn a_cluster_matches_the_model_while_servers_fail_and_recover() {
    for seed in 1..=3 {
        for scheme in [
            "none",
            "replicas:2",
            "norebal:3:1",
            "c2dn:3:1",
            "c2dn:2:2",
            "c2dn:1:1",
        ] {
            against_the_plainest(scheme, 6, 20, seed == 2, seed);
            against_the_plainest(scheme, 4, 60, seed == 3, seed);
        }
    }
}

#[test]
fn one_server_without_copies_is_a_cache() {
    let columns = made(Content::Web, 20_000, 1);
    let capacity = share(&columns, 10);
    for policy in ["fifo", "lru", "s3fifo", "sieve", "lhd"] {
        let policy: PolicySpec = policy.parse().expect("it is a policy");
        let own = Setup {
            policy: policy.clone(),
            ..setup("none", 1, capacity)
        };
        let found = go(&columns, &ClusterRules::default(), &own);
        let rules = sim::Rules {
            unit: Unit::Bytes,
            ..sim::Rules::default()
        };
        let configuration = [Configuration {
            policy: policy.into(),
            capacity,
        }];
        let alone = sim::sweep(&columns, &rules, &configuration, 1, &AtomicU64::new(0));
        let alone = alone.expect("it can be replayed");
        assert_eq!(found.total.misses, alone[0].counts.misses);
        assert_eq!(found.total.origin_bytes, alone[0].counts.missed_weight);
    }
}

#[test]
fn with_notifications_of_evictions_chunks_are_evicted_together() {
    let columns = made(Content::Video, 20_000, 1);
    for policy in ["fifo", "s3fifo", "sieve", "lru"] {
        let apart = Setup {
            policy: policy.parse().expect("it is a policy"),
            ..setup("norebal:3:1", 10, share(&columns, 15))
        };
        let together = Setup {
            coordination: Coordination {
                notifications: Notifications::Evictions,
                ..Coordination::default()
            },
            ..apart.clone()
        };
        let rules = ClusterRules::default();
        let (apart, together) = (
            go(&columns, &rules, &apart),
            go(&columns, &rules, &together),
        );
        assert!(
            apart.co_residency < Some(0.99),
            "{policy}: {:?}",
            apart.co_residency
        );
        // A chunk that its disk does not take counts as missing.
        assert!(
            together.co_residency > Some(0.999),
            "{policy}: {:?}",
            together.co_residency
        );
        assert_eq!(together.total.partial_hits, 0);
        assert!(together.messages > 0);
    }
}

#[test]
fn parity_placed_by_load_balances_writes() {
    let trace = Cdn::new(Content::Video, 100_000, 20_000_000, 1).expect("it is large enough");
    let columns = Interner::all("made", Interning::default(), trace.map(Ok));
    let columns = columns.expect("it is well-formed");
    let rules = ClusterRules {
        warm_up: columns.len() / 3,
        ..ClusterRules::default()
    };
    let uneven = |scheme: &str, weights: &[u32]| {
        let setup = Setup {
            weights: weights.to_vec(),
            ..setup(scheme, weights.len(), share(&columns, 15))
        };
        let found = go(&columns, &rules, &setup);
        let total: u64 = found.written_bytes.iter().sum();
        let weight: u32 = weights.iter().sum();
        // Relative to the mean, by weight.
        let shares =
            found.written_bytes.iter().zip(weights).map(|(bytes, own)| {
                *bytes as f64 * f64::from(weight) / f64::from(*own) / total as f64
            });
        let ends = shares.fold((f64::MAX, 0.0f64), |(low, high), at| {
            (low.min(at), high.max(at))
        });
        ends.1 / ends.0 - 1.0
    };
    // The trace is short, so that one large object is a percent of a server's writes.
    let alike = [1; 10];
    let by_ring = uneven("norebal:3:1", &alike);
    assert!(by_ring > 0.2);
    assert!(uneven("c2dn:3:1", &alike) < by_ring / 2.0);
    let two_sizes = [1, 1, 1, 1, 1, 1, 2, 2, 2, 2];
    assert!(uneven("c2dn:3:1", &two_sizes) < 0.25);
}

#[test]
fn while_every_server_is_down_nothing_is_served() {
    let columns = of_sizes(&[
        (1, 500_000),
        (1, 500_000),
        (2, 10),
        (1, 500_000),
        (1, 500_000),
    ]);
    let down = |server| Outage {
        from_ms: 2_000,
        until_ms: 4_000,
        server,
    };
    for scheme in ["none", "replicas:2", "popular", "c2dn:3:1"] {
        let setup = Setup {
            outages: (0..5).map(down).collect(),
            memory_share: 0.1,
            ..setup(scheme, 5, 10_000_000)
        };
        let found = go(&columns, &ClusterRules::default(), &setup);
        // The first request misses, two find no server, and the last finds what the disk kept.
        assert_eq!(found.unserved, 2, "{scheme}");
        assert_eq!(found.total.misses, 3, "{scheme}");
    }
}

#[test]
fn fewer_servers_than_data_chunks_keep_no_large_object_and_serve_on() {
    let columns = of_sizes(&[(1, 500_000), (1, 500_000), (1, 500_000), (2, 10), (2, 10)]);
    let down = |server| Outage {
        from_ms: 0,
        until_ms: 2_000,
        server,
    };
    let setup = Setup {
        outages: (0..2).map(down).collect(),
        ..setup("c2dn:3:1", 4, 10_000_000)
    };
    let found = go(&columns, &ClusterRules::default(), &setup);
    // Two misses while two servers are up; the third miss fills the cluster, and the small object
    // hits.
    assert_eq!((found.total.misses, found.unserved), (4, 0));
}

#[test]
fn empty_and_huge_objects_are_served() {
    let columns = of_sizes(&[(1, 0), (1, 0), (2, u32::MAX), (2, u32::MAX), (3, 1), (3, 1)]);
    for scheme in ["replicas:2", "c2dn:3:1"] {
        let found = go(
            &columns,
            &ClusterRules::default(),
            &setup(scheme, 4, 1 << 30),
        );
        // The huge object fits no disk and misses twice.
        assert_eq!(found.total.misses, 4, "{scheme}");
        assert!(found.refused > 0, "{scheme}");
        let found = go(
            &columns,
            &ClusterRules::default(),
            &setup(scheme, 4, 1 << 40),
        );
        assert_eq!((found.total.misses, found.refused), (3, 0), "{scheme}");
    }
}

#[test]
fn popular_objects_get_a_second_copy() {
    let requests = [(1, 1_000); 8];
    let columns = of_sizes(&requests);
    let down = Outage {
        from_ms: 6_000,
        until_ms: u64::MAX,
        server: 0,
    };
    for server in 0..3 {
        let setup = Setup {
            outages: [Outage { server, ..down }].into(),
            ..setup("popular", 3, 1 << 20)
        };
        let found = go(&columns, &ClusterRules::default(), &setup);
        assert_eq!(found.total.misses, 1, "server {server} goes");
        assert_eq!(
            found
                .written_bytes
                .iter()
                .filter(|bytes| **bytes > 0)
                .count(),
            2
        );
    }
}

fn study(columns: &Columns) -> Study {
    Study {
        rules: ClusterRules {
            warm_up: columns.len() / 3,
            window_ms: 6 * 3_600_000,
            ..ClusterRules::default()
        },
        schemes: ["replicas:2", "norebal:3:1", "c2dn:3:1"]
            .map(|s| s.parse().expect("known"))
            .into(),
        clusters: vec![vec![1; 10], vec![1; 5]],
        sizes: vec![
            ("5%".into(), share(columns, 5)),
            ("18%".into(), share(columns, 18)),
        ],
        base: 1,
        policy: PolicySpec::Fifo(()),
        memory_share: 0.01,
        policies: vec!["sieve".parse().expect("known")],
        code: (3, 1),
        has_failures: true,
        coordination: Coordination::default(),
        outages: trace::draw_outages(10, columns.span_ms(None), 1).expect("a short span"),
    }
}

#[test]
fn a_study_is_the_same_on_any_number_of_threads_and_counts_its_requests() {
    let columns = made(Content::Video, 10_000, 1);
    let study = study(&columns);
    let text = |jobs| {
        let done = AtomicU64::new(0);
        let mut findings = study.run(&columns, jobs, &done).expect("it can be run");
        assert_eq!(done.into_inner(), study.request_count(&columns));
        findings.requests_per_second = 0.0;
        let html = findings.page().to_html();
        assert!(html.contains("Are chunks evicted together?"));
        let text = findings.text();
        for part in [
            "after servers failed",
            "Under the given outages",
            "hash order, shared hand",
        ] {
            assert!(text.contains(part), "{part}");
        }
        (
            serde_json::to_string(&findings).expect("it is data"),
            findings.text(),
            html,
        )
    };
    assert!(text(1) == text(3));
}

#[test]
fn impossible_studies_are_refused_before_the_first_run() {
    let columns = made(Content::Web, 2_000, 1);
    let unsized_trace = of_sizes(&[(1, 1), (2, 1)]);
    let good = setup("c2dn:3:1", 10, 1 << 30);
    let refusal = |columns: &Columns, rules: &ClusterRules, setup: Setup| {
        let error = check(columns, rules, &setup).expect_err("it cannot be");
        error.to_string()
    };
    let rules = ClusterRules::default();
    assert!(check(&columns, &rules, &good).is_ok());
    assert!(refusal(&unsized_trace, &rules, good.clone()).contains("has no object sizes"));
    let few = setup("c2dn:3:1", 3, 1 << 30);
    assert!(refusal(&columns, &rules, few).contains("over 4 servers, but the cluster has 3"));
    assert!(refusal(&columns, &rules, setup("none", 0, 1 << 30)).contains("0 servers"));
    assert!(refusal(&columns, &rules, setup("none", 10, 9)).contains("at least one byte a server"));
    let mut idle = good.clone();
    idle.weights[3] = 0;
    assert!(refusal(&columns, &rules, idle).contains("weight 0"));
    let clairvoyant = Setup {
        policy: "belady".parse().expect("known"),
        ..good.clone()
    };
    assert!(refusal(&columns, &rules, clairvoyant).contains("needs future requests"));
    let no_bucket = ClusterRules {
        buckets: 0,
        ..ClusterRules::default()
    };
    assert!(refusal(&columns, &no_bucket, good.clone()).contains("0 buckets"));
    let no_memory = ClusterRules {
        memory_limit: 1000,
        ..ClusterRules::default()
    };
    assert!(refusal(&columns, &no_memory, good).contains("--memory-limit"));
}
