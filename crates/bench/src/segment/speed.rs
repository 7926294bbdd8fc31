//! Round 2: the server's CPU time per operation, and operations per second, with one and with more
//! data threads.
//!
//! Engines take turns within a round, so that a slow minute affects all of them. With one data
//! thread, server and load have a CPU each. With more, there are as many loaders as data threads,
//! and the system chooses the CPUs of all of them.

use super::Segment;
use super::cast::{Engine, Player};
use crate::contestant::Server;
use crate::error::{Error, Result};
use crate::keys::{self, Template};
use crate::load::{Load, Shape};
use crate::process::Cpus;
use crate::progress::Progress;
use ::report::median;
use serde::Serialize;
use std::thread;
use std::time::{Duration, Instant};

/// Duration of the load before each measurement, so that caches and branch predictors are warm.
const WARM_UP: Duration = Duration::from_millis(100);
/// Memory limit of each server in bytes, enough for all keys.
const MEMORY_BYTES: u64 = 4 << 30;
/// Upper bound on the memory that any server needs for a key and its metadata, in bytes.
const OVERHEAD_BYTES: u64 = 250;

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Test {
    Get,
    Set,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Sample {
    pub cpu_us_per_operation: f64,
    pub operations_per_second: f64,
}

/// Medians over all rounds for one engine.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub test: Test,
    pub pipeline: usize,
    pub threads: usize,
    pub engine: Engine,
    pub version: String,
    pub samples: Vec<Sample>,
    pub cpu_us_median: f64,
    pub cpu_us_min: f64,
    pub cpu_us_max: f64,
    pub operations_per_second_median: f64,
    /// CPU time of this engine divided by that of memcached: the median over the rounds.
    pub over_memcached: Option<f64>,
}

struct Running {
    engine: Engine,
    server: Server,
    threads: usize,
}

/// Checks that all keys fit into the memory of a server.
pub(super) fn check(options: &Segment) -> Result<()> {
    let bytes = options
        .keys
        .saturating_mul(options.value_size as u64 + OVERHEAD_BYTES);
    if (1..=MEMORY_BYTES).contains(&bytes) && options.value_size <= 1 << 19 {
        return Ok(());
    }
    let text = "--keys and --value-size: at least one key, and 4 GiB together with 250 bytes for each; values up to 512 KiB";
    Err(Error::Usage(text.into()))
}

/// Runs each test with a number of data threads.
pub(super) fn measure(
    options: &Segment,
    players: &[Player],
    threads: usize,
    progress: &Progress,
) -> Result<Vec<Row>> {
    let value = keys::value(options.value_size);
    let mut running = Vec::new();
    for player in players {
        if threads > 1 && !player.engine.has_threads() {
            continue;
        }
        let server = player.start(MEMORY_BYTES, threads)?;
        let template = Template::of_key(server.protocol, Some(&value));
        keys::send_each(&server, &template, 0..options.keys, |_| 0)?;
        running.push(Running {
            engine: player.engine,
            server,
            threads,
        });
    }
    let mut rows = Vec::new();
    for pipeline in options.pipelines() {
        for test in [Test::Get, Test::Set] {
            let mut samples = vec![Vec::new(); running.len()];
            for round in 0..options.rounds() {
                for turn in 0..running.len() {
                    let index = (turn + round) % running.len();
                    let one = &running[index];
                    progress.set_message(format!(
                        "{} {test:?}, pipeline {pipeline}",
                        one.engine.name()
                    ));
                    let template = match test {
                        Test::Get => Template::of_key(one.server.protocol, None),
                        Test::Set => Template::of_key(one.server.protocol, Some(&value)),
                    };
                    samples[index].push(one.sample(options, pipeline, &template, round as u64)?);
                    progress.inc(1);
                }
            }
            let memcached = running
                .iter()
                .position(|one| one.engine == Engine::Memcached);
            let memcached = memcached.map(|index| samples[index].clone());
            for (one, samples) in running.iter().zip(samples) {
                rows.push(one.row(test, pipeline, samples, memcached.as_deref()));
            }
        }
    }
    Ok(rows)
}

impl Running {
    fn sample(
        &self,
        options: &Segment,
        pipeline: usize,
        template: &Template,
        seed: u64,
    ) -> Result<Sample> {
        let shape = Shape {
            connections: options.connections.div_ceil(self.threads),
            pipeline,
            is_stream: false,
        };
        let connect = |_| {
            let server = &self.server;
            Load::speaking(server.protocol, &server.label, server.address, shape)
        };
        let mut loads: Vec<Load<()>> = (0..self.threads).map(connect).collect::<Result<_>>()?;
        self.send(&mut loads, options, template, WARM_UP, seed)?;
        let (cpu, start) = (self.server.cpu_ns()?, Instant::now());
        let count = self.send(&mut loads, options, template, options.seconds(), !seed)?;
        let (cpu_end, seconds) = (self.server.cpu_ns()?, start.elapsed().as_secs_f64());
        Ok(Sample {
            cpu_us_per_operation: cpu_end.saturating_sub(cpu) as f64 / 1e3 / count,
            operations_per_second: count / seconds,
        })
    }

    /// Sends requests over all loaders at once for some time, and returns the number of replies.
    fn send(
        &self,
        loads: &mut [Load<()>],
        options: &Segment,
        template: &Template,
        span: Duration,
        seed: u64,
    ) -> Result<f64> {
        let label = &self.server.label;
        let send = |load: &mut Load<()>, seed| {
            let sent = keys::send_random(load, label, template, options.keys, 0..1, span, seed)?;
            match sent.nils {
                0 => Ok(sent.replies as f64),
                lost => Err(Error::server(label, format!("{lost} keys were lost"))),
            }
        };
        if let [load] = loads {
            return send(load, seed);
        }
        thread::scope(|scope| {
            let send = &send;
            let start = |(number, load)| {
                let pinned = options.hosting.load_cpu.clone();
                scope.spawn(move || {
                    pinned.unwrap_or_else(Cpus::all).pin()?;
                    send(load, seed.wrapping_mul(1000).wrapping_add(number))
                })
            };
            let running: Vec<_> = (0..).zip(loads).map(start).collect();
            let joined = running.into_iter().map(|thread| thread.join());
            joined
                .map(|count| count.expect("a load does not panic"))
                .sum()
        })
    }

    fn row(
        &self,
        test: Test,
        pipeline: usize,
        samples: Vec<Sample>,
        memcached: Option<&[Sample]>,
    ) -> Row {
        let cpu: Vec<f64> = samples.iter().map(|s| s.cpu_us_per_operation).collect();
        let rates: Vec<f64> = samples.iter().map(|s| s.operations_per_second).collect();
        let over_memcached = memcached.map(|memcached| {
            let pairs = memcached.iter().zip(&cpu);
            let ratios: Vec<f64> = pairs
                .map(|(memcached, cpu)| cpu / memcached.cpu_us_per_operation)
                .collect();
            median(&ratios)
        });
        Row {
            test,
            pipeline,
            threads: self.threads,
            engine: self.engine,
            version: self.server.version.clone(),
            cpu_us_median: median(&cpu),
            cpu_us_min: cpu.iter().copied().fold(f64::INFINITY, f64::min),
            cpu_us_max: cpu.iter().copied().fold(0.0, f64::max),
            operations_per_second_median: median(&rates),
            over_memcached,
            samples,
        }
    }
}
