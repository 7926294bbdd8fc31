//! `bench expiry platform`: the experiments in section 4 of G. Xie, Y.-C. Chung, "Bucket-Based
//! Expiration Algorithm", MEMSYS 2020, with our server under each index and with peers.
//!
//! Clients run a YCSB workload in which an EXPIRE follows each write, with a TTL drawn from a small
//! set. A monitor polls memory until one TTL after the last operation. The server starts empty, and
//! an update of a missing key inserts it. All times and counts are those of the paper divided by
//! one factor (`scale.rs`), so that a run takes seconds.
//!
//! Every run restarts its server. Servers take turns within a group, which is one workload, size,
//! set of TTLs and number of clients. Each server is compared with the reference of its group.

mod clients;
mod living;
mod monitor;
mod page;
mod plan;
mod scale;
mod summary;
mod workload;

use super::{Contestant, contestants};
use crate::contestant::{Contest, Server, Settings};
use crate::error::{Error, Result};
use crate::load::{Load, Shape};
use crate::machine::{self, Machine};
use crate::report::Files;
use clients::{Clients, Shared};
use monitor::{Look, Monitor};
use plan::Group;
use scale::Scale;
use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use summary::{BesidePeer, Change, Overall, Summary, best};
use workload::{Stream, Workload};

/// Bytes of a key.
const KEY_BYTES: usize = 8;

/// Arguments of `bench expiry platform`.
#[derive(clap::Args, Debug)]
pub(super) struct Platform {
    #[command(flatten)]
    contest: Contest,
    /// Indexes of our server, with the paper's times. The reference is the first whose name begins
    /// with sampled; its parameter shards makes our eight shards share the cycles of one server
    #[arg(long, value_delimiter = ',', default_value = plan::INDEXES)]
    index: Vec<String>,
    /// Factor that divides all times and numbers of operations; BASE / factor must be whole
    /// milliseconds
    #[arg(long, default_value_t = 20, conflicts_with = "paper_scale")]
    factor: u32,
    /// Use the paper's own times and numbers of operations, which takes hours
    #[arg(long)]
    paper_scale: bool,
    /// Expiry cycles per second of `sampled` and of peers. They are not scaled, because rates are
    /// not
    #[arg(long, default_value_t = scale::HZ, value_parser = clap::value_parser!(u32).range(1..=500))]
    hz: u32,
    /// Run every workload, size, set of TTLs and number of clients with every server
    #[arg(long)]
    full: bool,
    /// Run only these groups, such as a-large-60-4: workload, size, TTLs joined by +, clients
    #[arg(long, value_delimiter = ',', conflicts_with = "full")]
    group: Vec<Group>,
    /// Maximum number of operations per second, like YCSB's -target, so that memory is compared at
    /// equal load [default: as fast as replies come]
    #[arg(long, value_name = "RATE")]
    target: Option<f64>,
    /// Operations of every run, not scaled [default: by the size of the group]
    #[arg(long, value_parser = units::count)]
    operations: Option<u64>,
    /// Time limit of every run, not scaled [default: 11 s in the chosen series, otherwise none]
    #[arg(long, value_parser = units::span)]
    limit: Option<Duration>,
    /// Number of keys in the workloads a and f, before scaling
    #[arg(long, default_value = "10m", value_parser = units::count)]
    records: u64,
    /// Bytes of a value
    #[arg(long, default_value_t = 1000)]
    value_size: usize,
    /// Random seed of keys, operations and TTLs
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    files: Files,
}

/// Results of one server in one group.
#[derive(Clone, Debug, Serialize)]
struct Run {
    group: String,
    workload: Workload,
    /// Number of planned operations. A run with a time limit may have done fewer.
    operations: u64,
    operations_done: u64,
    ttls_seconds: Vec<u64>,
    clients: usize,
    contestant: String,
    /// Index as passed to the server.
    index: Option<String>,
    version: String,
    summary: Summary,
    /// Change relative to the group's reference.
    change: Option<Change>,
    latencies: crate::latency::Percentiles,
    looks: Vec<Look>,
}

/// All results.
#[derive(Debug, Serialize)]
struct Report {
    command: String,
    machine: Machine,
    factor: u32,
    hz: u32,
    target: Option<f64>,
    records: u64,
    value_bytes: usize,
    reference: Option<String>,
    limit_seconds: Option<f64>,
    overall: Vec<Overall>,
    beside_peers: Vec<BesidePeer>,
    /// Name of the bucket index that saves the most memory while throughput falls by at most 10 %.
    best_buckets: Option<String>,
    runs: Vec<Run>,
}

impl Platform {
    /// Runs the experiment and prints its report.
    pub(super) fn run(&self) -> Result<()> {
        let scale = Scale::new(if self.paper_scale { 1 } else { self.factor })?;
        let is_sound = self.records >= u64::from(scale.factor()) && self.value_size <= 1 << 20;
        let has_time = self.limit.is_none_or(|limit| !limit.is_zero());
        let has_pace = self
            .target
            .is_none_or(|target| (1.0..=1e7).contains(&target));
        if !is_sound || !has_pace || !has_time || self.operations == Some(0) {
            let text = "--records must be at least the factor, --value-size at most 1 MiB, --operations and --limit above 0, --target from 1 to 10m";
            return Err(Error::Usage(text.into()));
        }
        let contestants = contestants(&self.contest, &self.index, |spec| {
            scale.index(spec, self.hz)
        })?;
        let groups = plan::groups(self.full, &self.group);
        let plan: Vec<(&Group, &Contestant)> = groups
            .iter()
            .flat_map(|group| contestants.iter().map(move |one| (group, one)))
            .filter(|(group, one)| self.takes_part(group, one))
            .collect();
        let progress = crate::progress::steps(plan.len() as u64);
        let mut runs = Vec::new();
        for (group, contestant) in plan {
            progress.set_message(format!("{group} {}", contestant.name));
            runs.push(self.measure(group, contestant, scale)?);
            progress.inc(1);
        }
        progress.finish_and_clear();
        self.write_report(self.compare(runs, scale))
    }

    /// Returns true if the run consists of the chosen series: neither all groups nor groups named
    /// by the user.
    fn is_chosen_series(&self) -> bool {
        !self.full && self.group.is_empty()
    }

    fn takes_part(&self, group: &Group, contestant: &Contestant) -> bool {
        let is_ours = contestant.index.is_some();
        !self.is_chosen_series() || plan::is_chosen(group, &contestant.name, is_ours)
    }

    /// Returns the time limit of a run.
    fn limit(&self) -> Option<Duration> {
        let is_bounded = self.is_chosen_series() && !self.paper_scale;
        self.limit.or(is_bounded.then_some(plan::CHOSEN_LIMIT))
    }

    fn shape(&self, group: &Group) -> Shape {
        Shape {
            connections: group.clients,
            pipeline: 1,
            is_stream: self.target.is_some(),
        }
    }

    fn measure(&self, group: &Group, contestant: &Contestant, scale: Scale) -> Result<Run> {
        let server = contestant.entrant.start(&Settings {
            hz: Some(self.hz),
            ..Settings::default()
        })?;
        let operations = self
            .operations
            .unwrap_or(scale.count(group.size.operations()));
        let ttls_ms: Vec<u64> = group
            .ttls_seconds
            .iter()
            .map(|s| scale.ttl_ms(*s))
            .collect();
        let longest = ttls_ms.iter().copied().max().unwrap_or(0);
        let records = scale.count(self.records);
        let stream = Stream::new(group.workload, records, ttls_ms, self.seed);
        let empty_bytes = server.client()?.info_number("memory", "used_memory")?;
        let mut load = Load::connect(&server.label, server.address, self.shape(group))?;
        let shared = Shared::new();
        let clients = Clients::new(stream, operations, self.value_size, shared.clone());
        let mut clients = clients.paced(self.target).limited(self.limit());
        let is_over = AtomicBool::new(false);
        let (cpu_start, user_start) = (server.cpu_ns()?, server.user_ns()?);
        let (seconds, cpu_end, user_end, looks) = std::thread::scope(|scope| {
            let pause = scale.look_pause();
            let monitor = Monitor::start(scope, &server, shared.clone(), pause, &is_over);
            let start = Instant::now();
            let result = load.run(&mut clients);
            let seconds = start.elapsed().as_secs_f64();
            let (cpu_end, user_end) = (server.cpu_ns(), server.user_ns());
            if result.is_ok() {
                std::thread::sleep(Duration::from_millis(longest));
            }
            let looks = monitor.finish();
            result?;
            Ok::<_, Error>((seconds, cpu_end?, user_end?, looks?))
        })?;
        let done = shared.operations.load(Ordering::Relaxed);
        let per_operation =
            |start: u64, end: u64| end.saturating_sub(start) as f64 / 1e3 / done.max(1) as f64;
        let seen = clients.finish();
        if let Some(text) = seen.error {
            return Err(Error::server(&server.label, format!("it answered {text}")));
        }
        let mut summary = self.summarise(&server, &looks, empty_bytes)?;
        summary.seconds = seconds;
        summary.operations_per_second = done as f64 / seconds;
        summary.cpu_us_per_operation = per_operation(cpu_start, cpu_end);
        let user = user_start.zip(user_end);
        summary.user_us_per_operation = user.map(|(start, end)| per_operation(start, end));
        summary.cpu_seconds = server.cpu_ns()?.saturating_sub(cpu_start) as f64 / 1e9;
        summary.hit_ratio = seen.hit_ratio;
        Ok(Run {
            group: group.to_string(),
            workload: group.workload,
            operations,
            operations_done: done,
            ttls_seconds: group.ttls_seconds.clone(),
            clients: group.clients,
            contestant: contestant.name.clone(),
            index: contestant.index.clone(),
            version: server.version.clone(),
            summary,
            change: None,
            latencies: seen.latencies,
            looks,
        })
    }

    /// Summarises the polls and the server's own statistics.
    fn summarise(&self, server: &Server, looks: &[Look], empty_bytes: f64) -> Result<Summary> {
        let mut client = server.client()?;
        let expired = client.info_number("stats", "expired_keys")?;
        let entry_bytes = (KEY_BYTES + self.value_size) as f64;
        let mut summary = Summary::of(looks, empty_bytes, entry_bytes, expired);
        // Other servers lack this section.
        let reported = client.info("expiry").unwrap_or_default();
        let field = |name: &str| reported.get(name).and_then(|value| value.parse().ok());
        summary.lag_p99_us = field("expiry_lag_us_p99");
        summary.lag_max_us = field("expiry_lag_us_max");
        Ok(summary)
    }

    /// Compares each run with its group's reference.
    fn compare(&self, mut runs: Vec<Run>, scale: Scale) -> Report {
        let is_reference = |run: &Run| run.index.is_some() && run.contestant.starts_with("sampled");
        let reference = runs
            .iter()
            .find(|run| is_reference(run))
            .map(|run| run.contestant.clone());
        let references: Vec<Run> = runs
            .iter()
            .filter(|run| Some(&run.contestant) == reference.as_ref())
            .cloned()
            .collect();
        for run in &mut runs {
            let found = references
                .iter()
                .find(|reference| reference.group == run.group);
            run.change = found.map(|reference| Change::between(&run.summary, &reference.summary));
        }
        let mut names: Vec<&str> = Vec::new();
        for run in &runs {
            if !names.contains(&run.contestant.as_str())
                && Some(&run.contestant) != reference.as_ref()
            {
                names.push(&run.contestant);
            }
        }
        let changes = |name: &str| -> Vec<Change> {
            let of_name = runs.iter().filter(|run| run.contestant == name);
            of_name.filter_map(|run| run.change).collect()
        };
        let overall: Vec<Overall> = names
            .iter()
            .filter_map(|name| Overall::of(name, &changes(name)))
            .collect();
        let buckets: Vec<Overall> = overall
            .iter()
            .filter(|overall| overall.contestant.starts_with("buckets:"))
            .cloned()
            .collect();
        Report {
            command: machine::command(),
            machine: Machine::here(),
            factor: scale.factor(),
            hz: self.hz,
            target: self.target,
            records: scale.count(self.records),
            value_bytes: self.value_size,
            reference,
            limit_seconds: self.limit().map(|limit| limit.as_secs_f64()),
            beside_peers: beside_peers(&runs),
            best_buckets: best(&buckets).map(|overall| overall.contestant.clone()),
            overall,
            runs,
        }
    }

    fn write_report(&self, report: Report) -> Result<()> {
        self.files
            .write_report(&report, page::page(&report), self.contest.json)
    }
}

/// Compares the default index with each peer of its group.
fn beside_peers(runs: &[Run]) -> Vec<BesidePeer> {
    const OURS: &str = "wheel";
    let mut all = Vec::new();
    for ours in runs.iter().filter(|run| run.contestant == OURS) {
        let is_peer = |run: &&Run| run.index.is_none() && run.group == ours.group;
        for peer in runs.iter().filter(is_peer) {
            all.push(BesidePeer {
                group: ours.group.clone(),
                contestant: ours.contestant.clone(),
                peer: peer.contestant.clone(),
                ..BesidePeer::between(&ours.summary, &peer.summary)
            });
        }
    }
    all
}
