//! Nanoseconds of processor time of gets and sets in the engine alone, and its bytes by object.
//! `cargo bench -p mayfly-segment [-- KEYS]`; as a test it runs with few keys.
//!
//! The mix is 95 gets and 5 sets of a hundred, keys by Zipf 0.99, objects of 16 + 79 bytes and the header; one by one, and in
//! batches of 32 whose cache lines are asked for first, as a server does with a pipeline.

#![expect(
    clippy::disallowed_methods,
    reason = "a bench reads its arguments and the processor time"
)]

use policy::Tick;
use segment::{Condition, Config, Eviction, Segcache, Value, Writer};
use std::hint::black_box;
use std::thread;

const BATCH: usize = 32;
const NOW: Tick = Tick(1_700_000_000_000);
const SKEW: f64 = 0.99;
const ROUNDS: usize = 3;

fn mix(x: u64) -> u64 {
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

fn unit(x: u64) -> f64 {
    (mix(x) >> 11) as f64 / (1u64 << 53) as f64
}

/// Sixteen bytes, made without touching memory that a server would not touch.
fn name_of(number: u64) -> [u8; 16] {
    let mut name = *b"key:000000000000";
    name[8..].copy_from_slice(&number.to_be_bytes());
    name
}

/// Numbers of keys by Zipf, after J. Gray and others, *Quickly generating billion-record synthetic
/// databases*, SIGMOD 1994; popular keys lie anywhere.
fn zipf(keys: u64, count: usize, seed: u64) -> Vec<u32> {
    let zeta = |n: u64| (1..=n).map(|rank| (rank as f64).powf(-SKEW)).sum::<f64>();
    let (all, two) = (zeta(keys), zeta(2));
    let alpha = 1.0 / (1.0 - SKEW);
    let eta = (1.0 - (2.0 / keys as f64).powf(1.0 - SKEW)) / (1.0 - two / all);
    let rank = |index: usize| {
        let u = unit(seed ^ index as u64);
        match u * all {
            below if below < 1.0 => 0,
            below if below < two => 1,
            _ => (keys as f64 * (eta * u - eta + 1.0).powf(alpha)) as u64,
        }
    };
    (0..count)
        .map(|index| (mix(rank(index).min(keys - 1)) % keys) as u32)
        .collect()
}

/// Nanoseconds of processor time that this thread has had.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = text.split(' ').next();
    first.and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn engine(memory_bytes: u64, writers: u16, eviction: Eviction) -> Segcache {
    let config = Config {
        memory_bytes,
        writers,
        eviction,
        ..Config::default()
    };
    Segcache::new(&config).expect("valid")
}

fn fill(cache: &Segcache, writer: &mut Writer, keys: u64, value: &[u8]) -> f64 {
    let begin = cpu_ns();
    for number in 0..keys {
        let name = name_of(number);
        let value = Value::plain(value);
        let stored = cache.set(
            writer,
            &cache.key(&name),
            value,
            None,
            Condition::Always,
            NOW,
        );
        assert!(stored.is_ok());
    }
    (cpu_ns() - begin) as f64 / keys as f64
}

/// The mix, key by key; tells nanoseconds an operation.
fn run(
    cache: &Segcache,
    writer: &mut Writer,
    draws: &[u32],
    value: &[u8],
    is_batched: bool,
) -> f64 {
    let mut out = Vec::with_capacity(256);
    let begin = cpu_ns();
    for (number, batch) in draws.chunks_exact(BATCH).enumerate() {
        let now = Tick(NOW.0 + number as u64 / 64);
        let mut names = [[0; 16]; BATCH];
        for (name, &draw) in names.iter_mut().zip(batch) {
            *name = name_of(u64::from(draw));
        }
        let keys = names.each_ref().map(|name| cache.key(&name[..]));
        if is_batched {
            keys.iter().for_each(|key| cache.prefetch(key));
            keys.iter().for_each(|key| cache.prefetch_object(key));
        }
        for (index, key) in keys.iter().enumerate() {
            if (number * BATCH + index).is_multiple_of(20) {
                let value = Value::plain(value);
                let _full = cache.set(writer, key, value, None, Condition::Always, now);
                continue;
            }
            out.clear();
            black_box(cache.get(key, now, &mut out));
        }
        black_box(&out);
    }
    (cpu_ns() - begin) as f64 / draws.len() as f64
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn mixes(keys: u64, draws: usize) {
    let value = [7; 79];
    let draws = zipf(keys, draws, 1);
    let cache = engine(keys * 150 + (64 << 20), 1, Eviction::Merge);
    let mut writer = cache.writer().expect("the first");
    let set_ns = fill(&cache, &mut writer, keys, &value);
    println!("{keys} keys: set, new {set_ns:.1} ns");
    for (how, is_batched) in [("one by one", false), ("in batches of 32", true)] {
        let times = (0..ROUNDS).map(|_| run(&cache, &mut writer, &draws, &value, is_batched));
        let ns = median(times.collect());
        println!("{keys} keys: 95/5 {how} {ns:.1} ns");
    }
    // A tenth of the memory that the keys would need: every set evicts a little.
    let small = engine((keys * 15).max(16 << 20), 1, Eviction::Merge);
    let mut writer = small.writer().expect("the first");
    let times = (0..ROUNDS).map(|_| fill(&small, &mut writer, keys, &value));
    let ns = median(times.collect());
    let stats = small.stats();
    println!(
        "{keys} keys: set, evicting {ns:.1} ns, {} merges",
        stats.merges
    );
}

/// The same mix by two threads at once: processor time an operation of both.
fn threads(keys: u64, draws: usize) {
    let value = [7; 79];
    let cache = engine(keys * 150 + (64 << 20), 3, Eviction::Merge);
    let mut writer = cache.writer().expect("the first");
    fill(&cache, &mut writer, keys, &value);
    for count in [1, 2] {
        let times = (0..ROUNDS).map(|round| {
            thread::scope(|scope| {
                let spawn = |number: u64| {
                    let (cache, value) = (&cache, &value);
                    scope.spawn(move || {
                        let draws = zipf(keys, draws, number * 77 + round as u64);
                        let mut writer = cache.writer().expect("one of three");
                        let ns = run(cache, &mut writer, &draws, value, false);
                        cache.close(writer);
                        ns
                    })
                };
                let running: Vec<_> = (0..count).map(spawn).collect();
                let times = running.into_iter().map(|one| one.join().expect("no panic"));
                times.sum::<f64>() / count as f64
            })
        });
        let ns = median(times.collect());
        println!("{keys} keys: 95/5 by {count} threads {ns:.1} ns");
    }
}

/// Bytes by object of 16 + 3 bytes: what was taken from the system.
fn memory(keys: u64) {
    let cache = engine(keys * 60 + (64 << 20), 1, Eviction::Merge);
    let mut writer = cache.writer().expect("the first");
    let ns = fill(&cache, &mut writer, keys, b"abc");
    let stats = cache.stats();
    let bytes = stats.memory_bytes as f64 / stats.items as f64;
    let lines = stats.table_lines as f64 * 64.0 / stats.items as f64;
    println!(
        "{keys} keys of 16 + 3: {bytes:.2} bytes each, the table's lines {lines:.2}; set, new {ns:.1} ns"
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_bench = arguments.iter().any(|argument| argument == "--bench");
    let given = arguments.iter().find_map(|argument| argument.parse().ok());
    let sizes: Vec<u64> = match given {
        Some(keys) => vec![keys],
        None if is_bench => vec![100_000, 1_000_000],
        None => vec![5_000],
    };
    let draws = if is_bench { 4_000_000 } else { 20_000 };
    for keys in sizes {
        memory(keys);
        mixes(keys, draws);
        threads(keys, draws);
    }
}
