//! Processor time of gets and sets in the engine alone, in nanoseconds, and bytes per object.
//! `cargo bench -p mayfly-cache-segment [-- KEYS…] [ROW] [draws=N]`; run as a test, it uses few
//! keys. Instructions are counted by
//! `valgrind --tool=callgrind --toggle-collect='*engine::run*' BENCH 100000 gets draws=200000`,
//! over five rounds. ROW may also be `aside-rent` or `aside-merge`: gets in a tenth of the memory
//! that the keys need, where each miss is followed by a set, which evicts as much as it must.
//!
//! The mix is 95 gets to 5 sets, with keys by Zipf 0.99 and objects of 16 + 79 bytes plus metadata;
//! one by one, and in batches of 32 whose cache lines are prefetched, as a server does with a
//! pipeline. The loop without the engine has its own rows and is not subtracted from the others.
//! Each row shows the median of several rounds, and the lowest.

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
const ROUNDS: usize = 5;

fn mix(x: u64) -> u64 {
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

fn unit(x: u64) -> f64 {
    (mix(x) >> 11) as f64 / (1u64 << 53) as f64
}

/// Returns a name of sixteen bytes without touching memory that a server would not touch.
fn name_of(number: u64) -> [u8; 16] {
    let mut name = *b"key:000000000000";
    name[8..].copy_from_slice(&number.to_be_bytes());
    name
}

/// Returns key numbers drawn by Zipf's law, after J. Gray and others, *Quickly generating
/// billion-record synthetic databases*, SIGMOD 1994; popular keys are spread over all numbers.
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

/// Returns this thread's processor time in nanoseconds. In a test nothing is timed, because tools
/// that count instructions have no such clock.
fn cpu_ns() -> u64 {
    if !std::env::args().any(|argument| argument == "--bench") {
        return 0;
    }
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
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

/// The cost of memory access alone: reads a cache line of a table, and copies an object at the
/// place that the line names. There are as many lines and objects as in the engine, but nothing is
/// compared.
struct Floor {
    lines: Vec<[u64; 8]>,
    objects: Vec<[u64; 13]>,
}

impl Floor {
    fn new(keys: u64) -> Self {
        let count = keys as usize;
        Floor {
            // Written, so that each page has its own memory.
            lines: vec![[1; 8]; count / 5],
            objects: vec![[1; 13]; count],
        }
    }

    fn run(&self, draws: &[u32]) -> f64 {
        let begin = cpu_ns();
        for &draw in draws {
            let line = &self.lines[mix(u64::from(draw)) as usize % self.lines.len()];
            let index = (u64::from(draw) + line[(draw % 7) as usize] - 1) as usize;
            black_box(self.objects[index]);
        }
        (cpu_ns() - begin) as f64 / draws.len() as f64
    }
}

/// Operation of a round on each key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Row {
    /// No operation, to measure the cost of the loop.
    Loop,
    /// Computation of the hash.
    Hash,
    /// Gets only.
    Gets,
    /// Sets only.
    Sets,
    /// The mix of gets and sets, one by one.
    Mix,
    /// The mix of gets and sets, prefetched in batches.
    Batches,
}

const ROWS: [(&str, Row); 6] = [
    ("loop", Row::Loop),
    ("hash", Row::Hash),
    ("gets", Row::Gets),
    ("sets", Row::Sets),
    ("95/5", Row::Mix),
    ("95/5-batches", Row::Batches),
];

/// Runs one round and returns nanoseconds per operation. It is not inlined, so that profiles show
/// it separately.
#[inline(never)]
fn run(
    cache: &Segcache,
    writer: &mut Writer,
    draws: &[u32],
    value: &[u8],
    row: Row,
    round: usize,
) -> f64 {
    let mut out = Vec::with_capacity(256);
    let begin = cpu_ns();
    for (number, batch) in draws.chunks_exact(BATCH).enumerate() {
        // Two million operations a second.
        let now = Tick(NOW.0 + (round * draws.len() / 2000 + number * BATCH / 2000) as u64);
        let mut names = [[0; 16]; BATCH];
        for (name, &draw) in names.iter_mut().zip(batch) {
            *name = name_of(u64::from(draw));
        }
        black_box(&names);
        if row == Row::Loop {
            continue;
        }
        let keys = names.each_ref().map(|name| cache.key(&name[..]));
        black_box(&keys);
        if row == Row::Hash {
            continue;
        }
        if row == Row::Batches {
            keys.iter().for_each(|key| cache.prefetch(key));
            keys.iter().for_each(|key| cache.prefetch_object(key));
        }
        for (index, key) in keys.iter().enumerate() {
            let is_set = match row {
                Row::Gets => false,
                Row::Sets => true,
                _ => (number * BATCH + index).is_multiple_of(20),
            };
            if is_set {
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

/// Evictions compared in the look-aside rows.
const ASIDES: [(&str, Eviction); 2] = [
    ("aside-rent", Eviction::Rent),
    ("aside-merge", Eviction::Merge),
];

/// Runs one look-aside round. Returns the nanoseconds per get, including the set after a miss, and
/// the number of misses.
#[inline(never)]
fn run_aside(cache: &Segcache, writer: &mut Writer, draws: &[u32], round: usize) -> (f64, u64) {
    let mut out = Vec::with_capacity(256);
    let value = [7; 79];
    let mut misses = 0;
    let begin = cpu_ns();
    for (number, &draw) in draws.iter().enumerate() {
        // A thousand a second, each of which may be counted.
        let now = Tick(NOW.0 + (round * draws.len() + number) as u64);
        let name = name_of(u64::from(draw));
        let key = cache.key(&name[..]);
        out.clear();
        if cache.get(&key, now, &mut out).is_none() {
            misses += 1;
            let value = Value::plain(&value);
            let stored = cache.set(writer, &key, value, None, Condition::Always, now);
            assert!(stored.is_ok());
        }
    }
    ((cpu_ns() - begin) as f64 / draws.len() as f64, misses)
}

fn aside(keys: u64, draws: usize, name: &str, eviction: Eviction) {
    let draws = zipf(keys, draws, 1);
    let config = Config {
        memory_bytes: (keys * 12).max(1 << 20),
        segment_bytes: 16 << 10,
        eviction,
        ..Config::default()
    };
    let cache: Segcache = Segcache::new(&config).expect("valid");
    let mut writer = cache.writer().expect("the first");
    let mut misses = 0;
    let times = (0..ROUNDS).map(|round| {
        let (ns, missed) = run_aside(&cache, &mut writer, &draws, round);
        misses += missed;
        ns
    });
    print_row(&format!("{keys} keys: {name}"), times);
    let kept = cache.stats().kept;
    let requests = (ROUNDS * draws.len()) as u64;
    println!("{keys} keys: {name} {misses} sets of {requests}, {kept} objects kept by merges");
}

/// Prints the median of several times, and the lowest.
fn print_row(what: &str, times: impl Iterator<Item = f64>) {
    let mut times: Vec<f64> = times.collect();
    times.sort_by(f64::total_cmp);
    let (median, lowest) = (times[times.len() / 2], times[0]);
    println!("{what} {median:.1} ns, lowest {lowest:.1}");
}

fn mixes(keys: u64, draws: usize, only: Option<Row>) {
    let value = [7; 79];
    let draws = zipf(keys, draws, 1);
    let cache = engine(keys * 150 + (64 << 20), 1, Eviction::Merge);
    let mut writer = cache.writer().expect("the first");
    let set_ns = fill(&cache, &mut writer, keys, &value);
    println!("{keys} keys: set, new {set_ns:.1} ns");
    if only.is_none_or(|only| only == Row::Loop) {
        let floor = Floor::new(keys);
        print_row(
            &format!("{keys} keys: floor"),
            (0..ROUNDS).map(|_| floor.run(&draws)),
        );
    }
    for (name, row) in ROWS
        .into_iter()
        .filter(|row| only.is_none_or(|only| only == row.1))
    {
        let times = (0..ROUNDS).map(|round| run(&cache, &mut writer, &draws, &value, row, round));
        print_row(&format!("{keys} keys: {name}"), times);
    }
    if only.is_some() {
        return;
    }
    // A tenth of the memory that the keys would need: every set evicts a little.
    let small = engine((keys * 15).max(16 << 20), 1, Eviction::Merge);
    let mut writer = small.writer().expect("the first");
    let times = (0..ROUNDS).map(|_| fill(&small, &mut writer, keys, &value));
    print_row(&format!("{keys} keys: set, evicting"), times);
    println!("{keys} keys: {} merges", small.stats().merges);
    for (name, eviction) in ASIDES {
        aside(keys, draws.len(), name, eviction);
    }
}

/// Measures all rows on 1 to n threads at once, and prints the processor time per operation and the
/// throughput of all threads divided by that of one thread.
fn threads(keys: u64, draws: usize) {
    let value = [7; 79];
    let most = thread::available_parallelism().map_or(1, |count| count.get().min(64));
    // Each writer fills a segment, and may need a target for merges.
    let room = (64 + 4 * most as u64) << 20;
    let cache = engine(keys * 150 + room, most as u16 + 1, Eviction::Merge);
    let mut writer = cache.writer().expect("the first");
    fill(&cache, &mut writer, keys, &value);
    let draws: Vec<Vec<u32>> = (0..most as u64)
        .map(|number| zipf(keys, draws, number * 77))
        .collect();
    for (name, row) in [("gets", Row::Gets), ("95/5", Row::Mix)] {
        let mut alone = 0.0;
        for count in 1..=most {
            let times =
                (0..ROUNDS).map(|round| together(&cache, &draws[..count], &value, row, round));
            let mut times: Vec<f64> = times.collect();
            times.sort_by(f64::total_cmp);
            let (median, lowest) = (times[times.len() / 2], times[0]);
            if count == 1 {
                alone = lowest;
            }
            println!(
                "{keys} keys: {name} by {count} threads {median:.1} ns, lowest {lowest:.1}: {:.2} of linear",
                alone / lowest
            );
        }
    }
}

/// Runs a round on several threads at once. Returns their mean processor time per operation.
fn together(cache: &Segcache, draws: &[Vec<u32>], value: &[u8], row: Row, round: usize) -> f64 {
    let times: Vec<f64> = thread::scope(|scope| {
        let spawn = |draws: &'_ Vec<u32>| {
            let draws = draws.clone();
            scope.spawn(move || {
                let mut writer = cache.writer().expect("one of those configured");
                let ns = run(cache, &mut writer, &draws, value, row, round);
                cache.close(writer);
                ns
            })
        };
        let running: Vec<_> = draws.iter().map(spawn).collect();
        let joined = running.into_iter().map(|one| one.join().expect("no panic"));
        joined.collect()
    });
    times.iter().sum::<f64>() / times.len() as f64
}

/// Prints the bytes of memory taken from the system per object of 16 + 3 bytes.
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
    let given = arguments
        .iter()
        .filter_map(|argument| argument.parse().ok());
    let mut sizes: Vec<u64> = given.collect();
    if sizes.is_empty() {
        sizes = if is_bench {
            vec![100_000, 1_000_000]
        } else {
            vec![5_000]
        };
    }
    let named = |row: &(&str, Row)| arguments.iter().any(|argument| argument == row.0);
    let only = ROWS.into_iter().find(named).map(|row| row.1);
    let drawn = arguments
        .iter()
        .find_map(|argument| argument.strip_prefix("draws="));
    let draws = if is_bench { 2_000_000 } else { 20_000 };
    let draws = drawn.map_or(draws, |drawn| drawn.parse().expect("a number of draws"));
    let is_alone = |name: &str| arguments.iter().any(|argument| argument == name);
    let alone = ASIDES.into_iter().find(|(name, _)| is_alone(name));
    for keys in sizes {
        if let Some((name, eviction)) = alone {
            aside(keys, draws, name, eviction);
            continue;
        }
        mixes(keys, draws, only);
        if only.is_none() {
            memory(keys);
            threads(keys, draws);
        }
    }
}
