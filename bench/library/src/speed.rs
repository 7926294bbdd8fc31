//! CPU time per operation.
//!
//! A sample is some thousand operations of each thread, all of which begin together. It counts if
//! no thread was preempted (its CPU time is nearly its wall time) and if the threads overlapped.
//! The contenders take turns, so that other load on the machine affects all of them.

use crate::contenders::{Contender, NAMES, Visit, build};
use crate::draws::{Random, zipf};
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use std::time::Instant;

const KEYS: usize = 1_000_000;
const CAPACITY: usize = 100_000;
const OPERATIONS: usize = 6_000;
const SAMPLES: usize = 40;
const WARM_UP: usize = 3_000;

/// CPU time of this thread.
pub fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

struct Round<'a> {
    draws: &'a [Arc<Vec<u32>>],
    threads: usize,
    round: usize,
}

/// What one contender does in a round: CPU ns per operation of each good sample.
type Runner = Box<dyn Fn(&Round<'_>) -> Vec<f64>>;

struct Make {
    draws: Arc<Vec<u32>>,
}

impl Visit for Make {
    type Output = Runner;
    fn visit<C: Contender + 'static>(self, cache: C) -> Runner {
        let cache = Arc::new(cache);
        for draw in self.draws.iter() {
            let key = u64::from(draw >> 1);
            if cache.get(key).is_none() {
                cache.put(key, key);
            }
        }
        cache.maintain();
        Box::new(move |round| run(&cache, round))
    }
}

#[inline(never)]
fn operate<C: Contender>(cache: &C, draws: &[u32]) {
    for &draw in draws {
        let key = u64::from(draw >> 1);
        if draw & 1 == 1 {
            cache.put(key, key);
        } else if let Some(value) = cache.get(key) {
            assert_eq!(value, key, "a value of another key");
        }
    }
}

/// Operations of [`count`].
const COUNTED: usize = 1_000_000;

struct Count(Vec<u32>);

impl Visit for Count {
    type Output = ();
    fn visit<C: Contender + 'static>(self, cache: C) {
        let (warm_up, counted) = self.0.split_at(COUNTED);
        for draw in warm_up {
            let key = u64::from(draw >> 1);
            if cache.get(key).is_none() {
                cache.put(key, key);
            }
        }
        operate(&cache, counted);
    }
}

/// Fills a cache and makes a million operations, for tools that count instructions:
/// `valgrind --tool=callgrind --toggle-collect='*operate*'`.
pub fn count(name: &str, write_percent: u64) {
    if build(name, CAPACITY, Count(draws(1, write_percent))).is_none() {
        eprintln!(
            "no contender '{name}': expected one of {}",
            NAMES.join(", ")
        );
    }
}

/// Returns the keys of a thread, each with a bit that says whether it is written.
fn draws(thread: u64, write_percent: u64) -> Vec<u32> {
    let mut random = Random(thread * 7_919);
    let ranks = zipf(KEYS, 0.99, 2 * COUNTED, thread * 104_729);
    let draws = ranks
        .into_iter()
        .map(|rank| rank << 1 | u32::from(random.next() % 100 < write_percent));
    draws.collect()
}

/// Beginning, end and CPU time of one thread's part of a sample, in ns.
type Part = (u64, u64, u64);

fn run<C: Contender + 'static>(cache: &Arc<C>, round: &Round<'_>) -> Vec<f64> {
    let barrier = Arc::new(Barrier::new(round.threads));
    let arrived: Arc<Vec<AtomicUsize>> =
        Arc::new((0..SAMPLES).map(|_| AtomicUsize::new(0)).collect());
    let (start, count) = (Instant::now(), round.threads);
    let threads: Vec<_> = (0..count)
        .map(|number| {
            let (cache, draws) = (cache.clone(), round.draws[number].clone());
            let (barrier, arrived) = (barrier.clone(), arrived.clone());
            let mut at = round.round * 50_021 % (draws.len() - 2 * SAMPLES * OPERATIONS);
            std::thread::spawn(move || {
                let mut cpus = CpuSet::new();
                cpus.set(number);
                // Where it fails, the system places the threads.
                let _ = sched_setaffinity(None, &cpus);
                barrier.wait();
                (0..SAMPLES)
                    .map(|sample| {
                        operate(&*cache, &draws[at..at + WARM_UP]);
                        at += WARM_UP;
                        arrived[sample].fetch_add(1, SeqCst);
                        let mut spins = 0u32;
                        while arrived[sample].load(SeqCst) < count {
                            spins += 1;
                            if spins % 100_000 == 0 {
                                std::thread::yield_now();
                            }
                            std::hint::spin_loop();
                        }
                        let (wall, cpu) = (start.elapsed().as_nanos() as u64, cpu_ns());
                        operate(&*cache, &draws[at..at + OPERATIONS]);
                        at += OPERATIONS;
                        let cpu = cpu_ns() - cpu;
                        (wall, start.elapsed().as_nanos() as u64, cpu)
                    })
                    .collect::<Vec<Part>>()
            })
        })
        .collect();
    let parts: Vec<Vec<Part>> = threads
        .into_iter()
        .map(|thread| thread.join().expect("the operations do not panic"))
        .collect();
    (0..SAMPLES)
        .filter_map(|sample| good(&parts, sample))
        .collect()
}

/// Returns the CPU ns per operation of a sample, if it is a good one.
fn good(parts: &[Vec<Part>], sample: usize) -> Option<f64> {
    let parts: Vec<Part> = parts.iter().map(|parts| parts[sample]).collect();
    let undisturbed = parts
        .iter()
        .all(|(from, to, cpu)| *cpu as f64 > 0.97 * (to - from) as f64);
    let first_end = parts.iter().map(|part| part.1).min()?;
    let last_start = parts.iter().map(|part| part.0).max()?;
    let longest = parts.iter().map(|(from, to, _)| to - from).max()?;
    let overlap = first_end.saturating_sub(last_start) as f64 / longest as f64;
    let cpu: u64 = parts.iter().map(|part| part.2).sum();
    (undisturbed && overlap > 0.9).then(|| cpu as f64 / (parts.len() * OPERATIONS) as f64)
}

/// Measures the named contenders in turn and prints a table.
pub fn measure(names: &[String], rounds: usize, write_percent: u64) {
    let names: Vec<&str> = if names.is_empty() {
        NAMES.to_vec()
    } else {
        names.iter().map(String::as_str).collect()
    };
    let draws: Vec<Arc<Vec<u32>>> = (1..=2)
        .map(|thread| Arc::new(draws(thread, write_percent)))
        .collect();
    let mut runners: Vec<(&str, Runner, [Vec<f64>; 2])> = vec![];
    for name in names {
        let make = Make {
            draws: draws[0].clone(),
        };
        match build(name, CAPACITY, make) {
            Some(runner) => runners.push((name, runner, Default::default())),
            None => eprintln!(
                "no contender '{name}': expected one of {}",
                NAMES.join(", ")
            ),
        }
    }
    for round in 0..rounds {
        for (_, runner, results) in &mut runners {
            for threads in 1..=2 {
                let round = Round {
                    draws: &draws,
                    threads,
                    round,
                };
                results[threads - 1].extend(runner(&round));
            }
        }
    }
    println!(
        "CPU ns per operation, {write_percent} % writes: minimum, lower quartile, median (samples)"
    );
    println!("{:14} {:>30} {:>30}", "", "1 thread", "2 threads");
    for (name, _, mut results) in runners {
        let cells: Vec<String> = results.iter_mut().map(|samples| summary(samples)).collect();
        println!("{name:14} {:>30} {:>30}", cells[0], cells[1]);
    }
}

fn summary(samples: &mut [f64]) -> String {
    samples.sort_by(f64::total_cmp);
    match samples.len() {
        0 => "no good sample".into(),
        count => format!(
            "{:.1} / {:.1} / {:.1} ({count})",
            samples[0],
            samples[count / 4],
            samples[count / 2]
        ),
    }
}
