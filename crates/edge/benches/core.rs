//! Speed of the code, and time, balance and moves of the placements:
//! `cargo bench -p mayfly-cache-edge [-- code | placement]`. Run as a test, it uses small sizes.
//!
//! Code: gigabytes of object data per second of processor time, on stripes of 64 KiB sub-chunks
//! that stay in the L2 cache, as the best of several runs. Decoding reconstructs as many lost data
//! chunks as the code allows. Placement: medians over the seeds of the time, of the imbalance (max
//! - min) / min, and of the number of parities that move when a server fails.

#![expect(
    clippy::disallowed_methods,
    reason = "a bench reads its arguments and the processor time"
)]

use edge::placement::{Placement, Problem, greedy, max_flow};
use edge::{
    BucketWrites, Change, ChunkSet, Code, Config, Event, Layout, Map, Moment, Read, ReadTimeouts,
    Reconstruction, SUB_CHUNK_BYTES, Scheme, ServerId, Step, StripeDecoder, SubChunkId, checksum,
    encode_stripe, mix,
};
use std::hint::black_box;

/// Returns this thread's processor time in nanoseconds.
fn cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns the minimum time of a call in nanoseconds, over some runs of many calls each.
fn least_ns(runs: usize, calls: usize, mut call: impl FnMut()) -> f64 {
    let run = |_| {
        let begin = cpu_ns();
        (0..calls).for_each(|_| call());
        (cpu_ns() - begin) as f64 / calls as f64
    };
    (0..runs).map(run).fold(f64::INFINITY, f64::min)
}

type Run = fn(&Reconstruction, &[&[u8]], &mut [&mut [u8]]) -> Result<(), edge::CodeError>;

fn gigabytes(reconstruction: &Reconstruction, run: Run, (runs, calls): (usize, usize)) -> f64 {
    let len = SUB_CHUNK_BYTES as usize;
    let k = reconstruction.from().count();
    // The distance is a little more than a power of two; otherwise all sources would share the same
    // sets of the L1 cache.
    let memory: Vec<u8> = (0..k * (len + 192))
        .map(|at| mix(at as u64) as u8)
        .collect();
    let sources: Vec<&[u8]> = memory
        .chunks(len + 192)
        .map(|chunk| &chunk[..len])
        .collect();
    let mut made = vec![0; reconstruction.makes().count() * (len + 192)];
    let mut made: Vec<&mut [u8]> = made
        .chunks_mut(len + 192)
        .map(|made| &mut made[..len])
        .collect();
    let ns = least_ns(runs, calls, || {
        run(reconstruction, black_box(&sources), black_box(&mut made)).expect("equally long");
    });
    (k * len) as f64 / ns
}

fn code(size: (usize, usize)) {
    let portable = (size.0, size.1.div_ceil(10));
    println!("code     encode   portable     decode   portable     reconstruction");
    for (k, p) in [(3, 1), (3, 2), (3, 3), (10, 1), (10, 4)] {
        let code = Code::new(k, p).expect("allowed");
        let (k, p) = (usize::from(k), usize::from(p));
        let lost = ChunkSet::between(0, p.min(k));
        let present = ChunkSet::between(0, k + p).without(lost);
        let decoder = code.reconstruction(present, lost).expect("enough");
        let recipe_ns = least_ns(size.0, size.1, || {
            let _ = black_box(code.reconstruction(black_box(present), lost));
        });
        println!(
            "({k}, {p})  {:8.1}   {:8.1}   {:8.1}   {:8.1} GB/s  {recipe_ns:5.0} ns",
            gigabytes(code.encoder(), Reconstruction::run, size),
            gigabytes(code.encoder(), Reconstruction::run_portable, portable),
            gigabytes(&decoder, Reconstruction::run, size),
            gigabytes(&decoder, Reconstruction::run_portable, portable),
        );
    }
}

/// Measures the checksum of a sub-chunk.
fn sums((runs, calls): (usize, usize)) {
    let bytes: Vec<u8> = (0..SUB_CHUNK_BYTES as u64)
        .map(|at| mix(at) as u8)
        .collect();
    let place = SubChunkId {
        object: 1,
        chunk: 2,
        stripe: 3,
    };
    let ns = least_ns(runs, calls, || {
        black_box(checksum(black_box(place), black_box(&bytes)));
    });
    println!("checksum  {:7.1} GB/s", bytes.len() as f64 / ns);
}

/// Measures encoding and decoding of a stripe, with no and with as many lost chunks as the code
/// allows.
fn stripes((runs, calls): (usize, usize)) {
    for (k, p) in [(3, 1), (3, 3)] {
        let code = Code::new(k, p).expect("allowed");
        let len = usize::from(k) * SUB_CHUNK_BYTES as usize;
        let layout = Layout::new(&Scheme::coded(k, p), len as u64);
        let bytes: Vec<u8> = (0..len as u64).map(|at| mix(at) as u8).collect();
        let mut out = vec![];
        let cut_ns = least_ns(runs, calls, || {
            encode_stripe(&code, &layout, 0, black_box(&bytes), &mut out)
        });
        let mut chunks: Vec<Option<&[u8]>> =
            out.chunks(SUB_CHUNK_BYTES as usize).map(Some).collect();
        let mut decoder = StripeDecoder::new(&code, layout);
        let mut served = Vec::with_capacity(len);
        let mut join = |chunks: &[Option<&[u8]>]| {
            least_ns(runs, calls, || {
                served.clear();
                let joined = decoder.join(0, black_box(chunks), &(0..u64::MAX), &mut served);
                joined.expect("enough");
            })
        };
        let join_ns = join(&chunks);
        chunks[..usize::from(p)].fill(None);
        let make_ns = join(&chunks);
        let [cut, join, make] = [cut_ns, join_ns, make_ns].map(|ns| len as f64 / ns);
        println!(
            "({k}, {p}) with copies: cut {cut:.1}, join {join:.1}, join with {p} lost {make:.1} GB/s"
        );
    }
}

/// Returns the writes of buckets: between half and one and a half times the mean or, with a tail,
/// from a Pareto distribution of shape 2.
fn loads(buckets: u32, seed: u64, has_tail: bool) -> Vec<BucketWrites> {
    let load = |bucket: u32| {
        let unit = (mix(seed ^ mix(u64::from(bucket))) >> 11) as f64 / (1u64 << 53) as f64;
        let part = if has_tail {
            0.5 / (1.0 - unit).sqrt()
        } else {
            0.5 + unit
        };
        BucketWrites {
            chunk_bytes: (1e9 * part) as u64,
            whole_bytes: (1e8 * part) as u64,
        }
    };
    (0..buckets).map(load).collect()
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

fn cluster(buckets: u32, servers: u32, p: u8, placement: Placement, seed: u64) -> Map {
    let servers: Vec<_> = (0..servers).map(|id| (ServerId(id), 1)).collect();
    let config = Config {
        buckets,
        placement,
        seed,
        ..Config::new(Scheme::coded(3, p))
    };
    Map::new(config, &servers).expect("enough servers")
}

fn placement(buckets: u32, servers: u32, p: u8, has_tail: bool, seeds: u64) {
    let tail = if has_tail { ", with a tail" } else { "" };
    println!("\n{buckets} buckets x {servers} servers, (3, {p}){tail}; {seeds} seeds");
    let mut rows = vec![];
    for (name, placement) in [
        ("ring", Placement::Ring),
        ("max-flow", Placement::MaxFlow),
        ("greedy", Placement::Greedy),
    ] {
        let (mut times, mut imbalances, mut moves) = (vec![], vec![], vec![]);
        let (mut floors, mut within) = (vec![], 0);
        for seed in 0..seeds {
            let loads = loads(buckets, seed, has_tail);
            let map = cluster(buckets, servers, p, placement, seed);
            let map = map.next(&[], &loads).expect("members");
            let problem = map.problem(&loads);
            let place: fn(&Problem) -> Vec<Option<u32>> = match placement {
                Placement::MaxFlow => max_flow,
                _ => |problem| greedy(problem, None),
            };
            times.push(least_ns(1, 20, || {
                drop(black_box(place(black_box(&problem))))
            }));
            imbalances.push(problem.imbalance(&map.placed()));
            floors.push(problem.imbalance_min());
            within +=
                u64::from(problem.imbalance(&map.placed()) <= 0.005 + problem.imbalance_min());
            let lead = Change::Down(ServerId((seed % u64::from(servers)) as u32));
            let next = map.next(&[lead], &loads).expect("a member");
            let rows = (0..buckets).flat_map(|bucket| {
                let bucket = edge::BucketId(bucket);
                map.chunks(bucket)[3..]
                    .iter()
                    .zip(&next.chunks(bucket)[3..])
            });
            moves.push(rows.filter(|(a, b)| a != b).count() as f64);
        }
        let imbalance = median(imbalances) * 100.0;
        let (time, moved) = (median(times) / 1e3, median(moves));
        rows.push(format!(
            "{name:8}  {time:9.1} us   {imbalance:7.3} %   {within:3} of {seeds}   {moved:5} of {} move",
            buckets * u32::from(p)
        ));
        if placement == Placement::Greedy {
            let even = floors.iter().filter(|floor| **floor == 0.0).count();
            println!("perfectly even is possible in {even} of {seeds}");
        }
    }
    println!("            time       imbalance    <= 0.5 %   of the possible; a server down");
    rows[0].replace_range(10..22, "         -  ");
    rows.iter().for_each(|row| println!("{row}"));
}

/// Measures how often perfectly even writes are possible, by the number of seeds tried for the
/// ring.
fn rings(seeds: u64) {
    println!("\nperfect balance possible, 200 buckets x 10 servers, (3, 1), of {seeds} rings:");
    println!("the best of   loads not known   loads known   with a tail: not known   known");
    let servers: Vec<_> = (0..10).map(|id| (ServerId(id), 1)).collect();
    for tries in [1, 4, 16] {
        let is_even = |seed: u64, has_tail: bool, is_known: bool| {
            let loads = loads(200, seed, has_tail);
            let config = Config {
                seed: seed * 1_000,
                ..Config::new(Scheme::coded(3, 1))
            };
            let given = if is_known { &loads[..] } else { &[] };
            let config = config
                .with_best_seed(&servers, given, tries)
                .expect("enough servers");
            let map = Map::new(config, &servers).expect("enough servers");
            map.problem(&loads).imbalance_min() == 0.0
        };
        let count = |has_tail, is_known| {
            (0..seeds)
                .filter(|&seed| is_even(seed, has_tail, is_known))
                .count()
        };
        println!(
            "{tries:11}   {:15}   {:11}   {:22}   {:5}",
            count(false, false),
            count(false, true),
            count(true, false),
            count(true, true)
        );
    }
}

/// Measures making the next version of a map, and planning a read of four stripes without failures.
fn steps((runs, calls): (usize, usize)) {
    let calls = calls.div_ceil(100);
    for (buckets, servers) in [(200, 10), (1_000, 100)] {
        let map = cluster(buckets, servers, 1, Placement::Greedy, 1);
        let loads = loads(buckets, 1, false);
        let down = [Change::Down(ServerId(3))];
        let ns = least_ns(runs, calls, || {
            drop(black_box(map.next(black_box(&down), &loads)))
        });
        println!(
            "a server goes down, {buckets} buckets x {servers} servers: {:.0} us",
            ns / 1e3
        );
    }
    let layout = Layout::new(&Scheme::coded(3, 1), 4 * 3 * u64::from(SUB_CHUNK_BYTES));
    let sources: Vec<_> = (0..4).map(|id| vec![ServerId(id)]).collect();
    let ns = least_ns(runs, calls * 100, || {
        let mut read = Read::new(
            layout,
            0..u64::MAX,
            sources.clone(),
            ReadTimeouts::default(),
        );
        let (mut now, mut asked) = (Moment(0), vec![]);
        loop {
            match read.step(now) {
                Step::Fetch(request) => asked.push(request),
                Step::Wait(_) => {
                    now.0 += 100;
                    asked
                        .drain(..)
                        .for_each(|request| read.handle(now, Event::Received(request)));
                }
                Step::Done => break,
                step => drop(black_box(step)),
            }
        }
    });
    println!("the plan of a read of 4 stripes of (3, 1): {ns:.0} ns");
}

fn main() {
    let has = |word: &str| std::env::args().any(|argument| argument == word);
    let is_bench = has("--bench");
    if !has("placement") {
        let size = if is_bench { (9, 3_000) } else { (1, 2) };
        code(size);
        sums(size);
        stripes(size);
    }
    if has("code") {
        return;
    }
    steps(if is_bench { (9, 3_000) } else { (1, 2) });
    let seeds = if is_bench { 25 } else { 1 };
    rings(seeds * 2);
    placement(200, 10, 1, false, seeds);
    placement(200, 10, 1, true, seeds);
    placement(200, 10, 3, false, seeds);
    if is_bench {
        placement(1_000, 100, 1, false, seeds);
    }
}
