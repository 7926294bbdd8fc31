//! Round 1: miss ratios at equal memory, and the memory that an equal miss ratio takes.
//!
//! Servers run in real time. Where objects expire within the trace, its time and all lifetimes are
//! divided by one factor, and the engines are replayed side by side, since each of them waits most
//! of the time; where none does, requests go out as fast as replies come, one engine after the
//! other.

use super::Segment;
use super::cast::{Engine, Player};
use super::curve::{Needed, memory_for};
use super::look_aside::{Counts, LookAside, Pace};
use super::workload::Workload;
use crate::contestant::Server;
use crate::error::{Error, Result};
use crate::load::{Load, Shape};
use crate::process;
use crate::progress::Progress;
use serde::Serialize;
use std::thread;
use std::time::Instant;
use trace::Lifetimes;

/// Lifetimes shorter than this in real time say little: memcached's clock ticks once a second.
const TTL_SECONDS_MIN: f64 = 2.0;

/// One engine with one size.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub lifetimes: String,
    pub engine: Engine,
    pub version: String,
    /// Memory limit of the server.
    pub memory_bytes: u64,
    /// What it took at the end, above what it took when empty.
    pub resident_bytes: f64,
    pub miss_ratio: f64,
    pub counts: Counts,
    pub seconds: f64,
    pub cpu_us_per_operation: f64,
}

/// What one set of lifetimes was replayed with.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Replayed {
    pub lifetimes: String,
    /// The shortest life, in the time of the trace.
    pub shortest_seconds: Option<f64>,
    /// Seconds of the replay for one of the trace; none where nothing expires.
    pub scale: Option<f64>,
}

/// The memory that an engine needs for the miss ratio that the baseline has with its own.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Relative {
    pub lifetimes: String,
    pub engine: Engine,
    /// The baseline's, and what it misses with it.
    pub memory_bytes: u64,
    pub miss_ratio: f64,
    /// Of the memory given; none where no size does.
    pub given: Option<Needed>,
    /// The same for resident memory.
    pub resident: Option<Needed>,
}

/// One set of lifetimes at every size.
pub(super) fn measure(
    options: &Segment,
    players: &[Player],
    workload: &Workload,
    lifetimes: &Lifetimes,
    sizes: &[u64],
    progress: &Progress,
) -> Result<(Replayed, Vec<Row>)> {
    let shortest_ms = workload.shortest_ttl_ms(lifetimes, options.seed);
    let expires = shortest_ms.is_some_and(|ttl_ms| ttl_ms < workload.span_ms);
    let scale = (expires || options.paced)
        .then(|| options.span().as_secs_f64() * 1e3 / workload.span_ms as f64);
    if let (Some(scale), Some(ttl_ms), true) = (scale, shortest_ms, expires) {
        check_resolution(lifetimes, ttl_ms as f64 / 1e3 * scale)?;
    }
    let replay = |player: &Player, memory_bytes| {
        let replay = Replay {
            options,
            workload,
            lifetimes,
            scale,
        };
        replay.run(player, memory_bytes)
    };
    let mut rows = Vec::new();
    for &memory_bytes in sizes {
        progress.set_message(format!("{lifetimes}, {} MiB", memory_bytes >> 20));
        let of_size: Vec<Result<Row>> = match scale {
            Some(_) => thread::scope(|scope| {
                let replay = &replay;
                let start = |player| scope.spawn(move || replay(player, memory_bytes));
                let running: Vec<_> = players.iter().map(start).collect();
                let joined = running.into_iter().map(|thread| thread.join());
                joined
                    .map(|row| row.expect("a replay does not panic"))
                    .collect()
            }),
            None => players
                .iter()
                .map(|player| replay(player, memory_bytes))
                .collect(),
        };
        for row in of_size {
            rows.push(row?);
            progress.inc(1);
        }
    }
    let replayed = Replayed {
        lifetimes: lifetimes.to_string(),
        shortest_seconds: shortest_ms.map(|ttl_ms| ttl_ms as f64 / 1e3),
        scale,
    };
    Ok((replayed, rows))
}

/// memcached's clock ticks once a second: lifetimes must last a few of them.
fn check_resolution(lifetimes: &Lifetimes, seconds: f64) -> Result<()> {
    if seconds >= TTL_SECONDS_MIN {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "--ttl-mix {lifetimes}: the shortest life would last {seconds:.2} s of the replay, and memcached counts whole seconds: raise the factor behind @, or --span"
    )))
}

struct Replay<'a> {
    options: &'a Segment,
    workload: &'a Workload,
    lifetimes: &'a Lifetimes,
    scale: Option<f64>,
}

impl Replay<'_> {
    fn run(&self, player: &Player, memory_bytes: u64) -> Result<Row> {
        let server = player.start(memory_bytes, 1)?;
        let empty_bytes = resident_bytes(&server)?;
        let shape = Shape {
            connections: self.options.clients,
            pipeline: self.options.pipeline,
            is_stream: self.scale.is_some(),
        };
        let mut load = Load::speaking(server.protocol, &server.label, server.address, shape)?;
        let start = Instant::now();
        let pace = self.scale.map(|scale| Pace { start, scale });
        let (seed, protocol) = (self.options.seed, server.protocol);
        let mut client = LookAside::new(self.workload, self.lifetimes, seed, protocol, pace);
        let cpu_start = server.cpu_ns()?;
        load.run(&mut client)?;
        let cpu_ns = server.cpu_ns()?.saturating_sub(cpu_start);
        let seconds = start.elapsed().as_secs_f64();
        let resident_bytes = resident_bytes(&server)? - empty_bytes;
        let counts = client.finish(&server.label)?;
        let operations = (counts.reads + counts.writes).max(1) as f64;
        Ok(Row {
            lifetimes: self.lifetimes.to_string(),
            engine: player.engine,
            version: server.version.clone(),
            memory_bytes,
            resident_bytes,
            miss_ratio: counts.misses as f64 / counts.reads.max(1) as f64,
            counts,
            seconds,
            cpu_us_per_operation: cpu_ns as f64 / 1e3 / operations,
        })
    }
}

fn resident_bytes(server: &Server) -> Result<f64> {
    let pid = server.pid.expect("it was started here");
    Ok(process::resident_bytes_exact(pid)? as f64)
}

/// What each engine needs to miss as much as the baseline, at each of its sizes.
pub(super) fn relative(rows: &[Row]) -> Vec<Relative> {
    let Some(baseline) = baseline(rows) else {
        return Vec::new();
    };
    let curve = |lifetimes: &str, engine: Engine, memory: fn(&Row) -> f64| -> Vec<(f64, f64)> {
        let own = rows
            .iter()
            .filter(|row| row.lifetimes == lifetimes && row.engine == engine);
        own.map(|row| (memory(row), row.miss_ratio)).collect()
    };
    let mut all = Vec::new();
    for base in rows.iter().filter(|row| row.engine == baseline) {
        let is_other = |row: &&Row| {
            let is_alike = row.lifetimes == base.lifetimes && row.memory_bytes == base.memory_bytes;
            is_alike && row.engine != baseline
        };
        for row in rows.iter().filter(is_other) {
            let needed = |memory: fn(&Row) -> f64| {
                let curve = curve(&row.lifetimes, row.engine, memory);
                let needed = memory_for(&curve, base.miss_ratio)?;
                Some(needed.over(memory(base)))
            };
            all.push(Relative {
                lifetimes: row.lifetimes.clone(),
                engine: row.engine,
                memory_bytes: base.memory_bytes,
                miss_ratio: base.miss_ratio,
                given: needed(|row| row.memory_bytes as f64),
                resident: needed(|row| row.resident_bytes),
            });
        }
    }
    all
}

/// Whom others are compared with: memcached as it starts by itself, else the first.
pub(super) fn baseline(rows: &[Row]) -> Option<Engine> {
    let mut engines = rows.iter().map(|row| row.engine);
    let memcached = engines.clone().find(|engine| *engine == Engine::Memcached);
    memcached.or_else(|| engines.next())
}
