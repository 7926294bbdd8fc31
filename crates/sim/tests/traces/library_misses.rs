//! Miss ratios of the library compared with those of the simulator, for the same policy and size.
//! Both are hosts of one implementation, so the ratios must agree.
//!
//! The library has one shard here, and hashes keys as the simulator does, because filters, ghosts
//! and sketches depend on hashes.

use library::{Cache, Clock, ManualClock};
use policy::parts::chance::scramble;
use sim::{Columns, Configuration, Interner, Interning, Rules, Spec, sweep};
use std::collections::HashMap;
use std::fs::File;
use std::hash::{BuildHasher, Hasher};
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use trace::{Generator, GeneratorOptions, PatternMix};

/// Policies for every kind of hit. `hyperbolic` is not among them: it counts requests in one line
/// that all lock-free readers would have to write; in the library it counts insertions.
const POLICIES: [&str; 22] = [
    "fifo",
    "sieve",
    "clock",
    "clock:2",
    "s3fifo",
    "s3fifo-d",
    "s3fifo-w",
    "clock2q-plus",
    "s3-sieve",
    "sampled-lru",
    "lru",
    "slru",
    "arc",
    "twoq",
    "lfu",
    "w-tinylfu",
    "lirs",
    "lru-k",
    "mq",
    "lhd",
    "car",
    "clock-pro",
];
/// Largest difference of two miss ratios.
const ALLOWED: f64 = 0.0001;
/// Like [`ALLOWED`], for policies that sample positions, which the two hosts number
/// differently.
const ALLOWED_SAMPLED: f64 = 0.005;
const SAMPLED: [&str; 2] = ["sampled-lru", "lhd"];

/// Largest number of requests that are replayed of one trace.
const REQUESTS: usize = 2_000_000;
const SMALL: [&str; 4] = [
    "web07.txt.zst",
    "lirs_multi3.trc.zst",
    "lirs_sprite.trc.zst",
    "cloudphysics.oracleGeneral.bin.zst",
];
const LARGE: [&str; 5] = [
    "arc_oltp.lis.zst",
    "ecommerce_recs.txt.zst",
    "gradle_build_cache.txt.zst",
    "hdfs_fb2010.csv.zst",
    "orm_busy.txt.zst",
];

/// The simulator's hash of an object's number.
#[derive(Clone, Copy, Default)]
struct Scramble(u64);

impl BuildHasher for Scramble {
    type Hasher = Scramble;
    fn build_hasher(&self) -> Scramble {
        Scramble(0)
    }
}

impl Hasher for Scramble {
    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are numbers");
    }
    fn write_u64(&mut self, number: u64) {
        self.0 = scramble(number + 1);
    }
    fn finish(&self) -> u64 {
        self.0
    }
}

/// Miss ratio of the library, cache-aside. The clock advances by a millisecond per request, so that
/// policies that stamp entries with the time distinguish requests as the simulator does.
fn in_library(policy: &str, capacity: u64, keys: &[u64], has_expiry: bool) -> f64 {
    let clock = ManualClock::new();
    let mut builder = Cache::builder(capacity)
        .hasher(Scramble::default())
        .policy_named(policy)
        .shards(1)
        .clock(Clock::Manual(clock.clone()));
    if !has_expiry {
        builder = builder.without_expiry();
    }
    let cache = builder.build().expect("the policy is served");
    let mut misses = 0_u64;
    for &key in keys {
        clock.advance(Duration::from_millis(1));
        if cache.get(&key).is_none() {
            misses += 1;
            cache.insert(key, ());
        }
    }
    cache.check();
    misses as f64 / keys.len() as f64
}

/// Returns the miss ratio of the single-threaded variant.
fn in_unsync(policy: &str, capacity: u64, keys: &[u64]) -> f64 {
    let clock = ManualClock::new();
    let settings = library::unsync::Settings {
        policy: policy.parse().expect("a policy"),
        clock: Clock::Manual(clock.clone()),
        ..library::unsync::Settings::new(capacity)
    };
    let built = settings.build_with(Scramble::default());
    let mut cache = built.expect("the policy is served");
    let mut misses = 0_u64;
    for &key in keys {
        clock.advance(Duration::from_millis(1));
        if cache.get(&key).is_none() {
            misses += 1;
            cache.insert(key, ());
        }
    }
    misses as f64 / keys.len() as f64
}

/// Replays a trace of keys in both hosts, and returns a line for each difference that is too large.
fn compare(name: &str, columns: &Columns, keys: &[u64], capacities: &[u64]) -> Vec<String> {
    let mut found = Vec::new();
    for &capacity in capacities {
        let configurations: Vec<Configuration> = POLICIES
            .iter()
            .map(|policy| Configuration {
                policy: policy.parse::<Spec>().expect("a policy"),
                capacity,
            })
            .collect();
        let progress = AtomicU64::new(0);
        let results = sweep(columns, &Rules::default(), &configurations, 1, &progress);
        let results = results.expect("the policies can be replayed");
        for (policy, result) in POLICIES.iter().zip(results) {
            let expected = result.counts.misses as f64 / result.counts.requests as f64;
            let ratios = [
                in_library(policy, capacity, keys, true),
                in_library(policy, capacity, keys, false),
                in_unsync(policy, capacity, keys),
            ];
            println!("{name} {capacity:>7} {policy:14} {expected:.4} {ratios:.4?}");
            let allowed = match SAMPLED.contains(policy) {
                true => ALLOWED_SAMPLED,
                false => ALLOWED,
            };
            if ratios
                .iter()
                .any(|ratio| (ratio - expected).abs() > allowed)
            {
                found.push(format!(
                    "{name}, {capacity} entries, {policy}: simulator {expected:.4}; library with \
                     expiry, without, for one thread {ratios:.4?}: more than {allowed} apart"
                ));
            }
        }
    }
    found
}

/// Reads requests as look-ups: no sizes, deadlines or writes. Keys are numbered as the simulator
/// numbers them, in the order of their first requests.
fn read(name: &str, requests: impl Iterator<Item = trace::Request>) -> (Columns, Vec<u64>) {
    let mut interner = Interner::new(name, Interning::default());
    let (mut numbers, mut keys) = (HashMap::new(), Vec::new());
    for request in requests.take(REQUESTS) {
        let look_up = trace::Request {
            op: trace::Op::Get,
            ttl_ms: 0,
            size: 1,
            key_size: 0,
            value_size: 1,
            ..request
        };
        interner.push(&look_up).expect("it fits");
        let next = numbers.len() as u64;
        keys.push(*numbers.entry(request.key).or_insert(next));
    }
    (interner.finish().expect("it fits"), keys)
}

pub fn the_library_misses_as_often_as_the_simulator() {
    let mut found = Vec::new();
    for (mix, objects) in [("zipf:0.99", 20_000), ("zipf:0.8@9+scan:300", 20_000)] {
        let options = GeneratorOptions {
            mix: PatternMix::parse(mix, objects).expect("a mix of patterns"),
            ..GeneratorOptions::default()
        };
        let (columns, keys) = read(mix, Generator::new(options).take(200_000));
        found.extend(compare(mix, &columns, &keys, &[200, 2_000]));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

pub fn the_library_misses_as_often_on_real_traces(shared: &Path) {
    let has_all = std::env::var_os("MAYFLY_TRACES").is_some();
    let large: &[&str] = if has_all { &LARGE } else { &[] };
    let mut found = Vec::new();
    for name in SMALL.iter().chain(large) {
        let file = File::open(shared.join("traces").join(name)).expect("the trace can be opened");
        let requests = trace::read(name, file).expect("the format is known");
        let requests = requests.map(|request| request.expect("the trace is whole"));
        let (columns, keys) = read(name, requests);
        let objects = columns.objects() as u64;
        let capacities = [(objects / 100).max(10), objects / 10];
        found.extend(compare(name, &columns, &keys, &capacities));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}
