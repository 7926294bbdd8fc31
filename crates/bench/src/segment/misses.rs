//! Round 1: miss ratios at equal memory, and memory at equal miss ratios.
//!
//! Servers run in real time. If objects expire within the trace, its time and all TTLs are divided
//! by one factor. The engines are then replayed concurrently, because each of them mostly waits. If
//! no object expires, requests are sent as fast as replies come, to one engine after the other.

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

/// Minimum TTL in seconds of real time. Results with shorter TTLs would be inexact, because
/// memcached's clock ticks once a second.
const TTL_SECONDS_MIN: f64 = 2.0;

/// Results of one engine with one size.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub lifetimes: String,
    pub engine: Engine,
    pub version: String,
    /// Memory limit of the server in bytes.
    pub memory_bytes: u64,
    /// Resident memory at the end, minus the empty server's, in bytes.
    pub resident_bytes: f64,
    pub miss_ratio: f64,
    pub counts: Counts,
    pub seconds: f64,
    pub cpu_us_per_operation: f64,
}

/// Parameters of the replays with one set of TTLs.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Replayed {
    pub lifetimes: String,
    /// Shortest TTL in seconds of trace time.
    pub shortest_seconds: Option<f64>,
    /// Seconds of the replay for each second of the trace; `None` if no object expires.
    pub scale: Option<f64>,
}

/// Memory that an engine needs to reach the baseline's miss ratio.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Relative {
    pub lifetimes: String,
    pub engine: Engine,
    /// Memory of the baseline in bytes.
    pub memory_bytes: u64,
    /// Miss ratio of the baseline with this memory.
    pub miss_ratio: f64,
    /// Memory limit that the engine needs, relative to the baseline's; `None` if no measured size
    /// reaches the miss ratio.
    pub given: Option<Needed>,
    /// Resident memory that the engine needs, relative to the baseline's; `None` if no measured
    /// size reaches the miss ratio.
    pub resident: Option<Needed>,
}

/// Replays the trace with one set of TTLs at every size.
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

/// Refuses TTLs that are shorter than a few seconds of real time, because memcached's clock ticks
/// once a second.
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

/// Returns the memory that each engine needs to reach the baseline's miss ratio, at each size of
/// the baseline.
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

/// Returns the baseline: memcached with its default settings if it takes part, otherwise the first
/// engine.
pub(super) fn baseline(rows: &[Row]) -> Option<Engine> {
    let mut engines = rows.iter().map(|row| row.engine);
    let memcached = engines.clone().find(|engine| *engine == Engine::Memcached);
    memcached.or_else(|| engines.next())
}
