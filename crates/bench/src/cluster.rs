//! `bench cluster`: what clients of a cluster see while a primary dies, hands over, and while slots
//! move; and what becomes of deadlines meanwhile.
//!
//! Three shards with a replica each run on this machine, ours beside a peer's. A client writes one
//! key after the other to one slot, each until it is acknowledged. Keys of the same slot have
//! deadlines that pass meanwhile: their events are counted, and clients read them from the primary
//! and from its replica, to see whether a value outlives its deadline.

mod moving;
mod nodes;
mod observation;
mod router;

use crate::clock;
use crate::contestant::{Hosting, peer_program};
use crate::error::{Error, Result};
use crate::latency::Percentiles;
use crate::process::Cpus;
use ::report::{Cell, Column, Table};
use moving::{Load, Slots, VALUE_LEN};
use nodes::Cluster;
use observation::{Observation, Plan, observe};
use router::Router;
use serde::Serialize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Hash tag of the keys that are written and that expire.
const TAG: &str = "bench";
/// Time between the beginning of the observation and the first deadline, in milliseconds.
const LEAD_MS: u64 = 500;
/// Maximum time until a write succeeds after a failure.
const PATIENCE: Duration = Duration::from_secs(120);
/// Time of the load before slots move.
const BEFORE: Duration = Duration::from_secs(3);

/// Arguments of `bench cluster`.
#[derive(clap::Args, Debug)]
pub struct ClusterBench {
    /// Also measure the cluster of this server in the same run: NAME=PROGRAM or `valkey`. Slots
    /// move by CLUSTER MIGRATESLOTS, which Valkey has since 9.0
    #[arg(long, value_name = "PEER")]
    peer: Option<String>,
    #[command(flatten)]
    hosting: Hosting,
    /// Kills and planned failovers of each cluster
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Keys with deadlines in each trial
    #[arg(long, default_value = "100k", value_parser = units::count)]
    keys: u64,
    /// Time over which these deadlines are spread
    #[arg(long, default_value = "4s", value_parser = units::span)]
    span: Duration,
    /// Bytes of values in the slots that move
    #[arg(long, default_value = "100mb", value_parser = units::bytes)]
    bytes: u64,
    /// Connections that write to the slots that move, with 16 commands in flight each
    #[arg(long, default_value_t = 2)]
    writers: usize,
    /// Lease time of our primaries in milliseconds
    #[arg(long, value_name = "MS")]
    lease_ms: Option<u64>,
    /// Strength of our cluster: async or sync
    #[arg(long, value_name = "WORD")]
    strength: Option<String>,
    /// Print JSON to stdout
    #[arg(long)]
    json: bool,
}

/// One trial.
#[derive(Debug, Serialize)]
struct Row {
    server: String,
    version: String,
    trial: &'static str,
    /// Time from the kill to the first write that another node accepted; time of the failover or of
    /// the move.
    seconds: f64,
    writes: u64,
    longest_write_ms: f64,
    /// Acknowledged writes that the cluster does not have afterwards.
    lost_writes: u64,
    deadlines: u64,
    /// Deadlines without an event.
    missing: u64,
    /// Events beyond the first of a key.
    duplicates: u64,
    reads: u64,
    late_reads: u64,
    lateness: Percentiles,
    /// Milliseconds from the first accepted write until keys were gone whose deadlines had passed.
    overdue_gone_ms: Option<f64>,
}

/// A move of all slots of a shard.
#[derive(Debug, Serialize)]
struct Move {
    server: String,
    bytes: u64,
    /// Without load.
    quiet_seconds: f64,
    /// CPU seconds of all nodes per GB of values, without load.
    quiet_cpu_per_gb: f64,
    /// With load.
    seconds: f64,
    /// Keys that the target has not afterwards.
    lost_keys: u64,
    #[serde(flatten)]
    load: Load,
}

#[derive(Debug, Serialize)]
struct Report {
    trials: Vec<Row>,
    moves: Vec<Move>,
}

impl ClusterBench {
    /// Runs the experiment and prints its report.
    pub(crate) fn run(&self) -> Result<()> {
        if self.keys == 0 || self.bytes < VALUE_LEN as u64 || self.span.is_zero() {
            return Err(Error::Usage(format!(
                "expected --keys and --span above 0, and --bytes of at least {VALUE_LEN}"
            )));
        }
        let peer = self.peer.as_deref().map(peer_program).transpose()?;
        let cpus = self.hosting.server_cpu.clone().unwrap_or_else(Cpus::all);
        let mut report = Report {
            trials: Vec::new(),
            moves: Vec::new(),
        };
        let peers = peer.iter().map(Some).chain([None]);
        // Ours is the last, so that an error of the peer is seen early.
        for peer in peers {
            let mut cluster = self.start(peer, &cpus)?;
            for round in 0..self.rounds {
                eprintln!("{}: kill {} of {}", cluster.label, round + 1, self.rounds);
                report.trials.push(self.crash(&mut cluster)?);
                eprintln!(
                    "{}: failover {} of {}",
                    cluster.label,
                    round + 1,
                    self.rounds
                );
                report.trials.push(self.failover(&mut cluster)?);
            }
            eprintln!("{}: slots move", cluster.label);
            let (row, moved) = self.relocate(&mut cluster)?;
            report.trials.push(row);
            report.moves.push(moved);
        }
        self.print(&report)
    }

    fn start(&self, peer: Option<&(String, PathBuf)>, cpus: &Cpus) -> Result<Cluster> {
        if let Some((name, program)) = peer {
            return Cluster::peer(name, program, cpus);
        }
        let mut args = Vec::new();
        if let Some(lease_ms) = self.lease_ms {
            args.extend(["--lease-ms".into(), lease_ms.to_string()]);
        }
        if let Some(strength) = &self.strength {
            args.extend(["--strength".into(), strength.clone()]);
        }
        Cluster::ours(&self.hosting.program()?, &args, cpus)
    }

    /// Fills keys whose deadlines begin soon.
    fn plan(&self, cluster: &Cluster) -> Result<Plan> {
        let owner = cluster.owner(wire::slot::slot(TAG.as_bytes()))?;
        let mut client = cluster.client(owner.primary)?;
        let plan = Plan {
            tag: TAG.into(),
            keys: self.keys,
            begin_ms: clock::wall_ms() + clock::fill_allowance_ms(self.keys) + LEAD_MS,
            span_ms: self.span.as_millis() as u64,
        };
        plan.fill(&mut client)?;
        Ok(plan)
    }

    fn crash(&self, cluster: &mut Cluster) -> Result<Row> {
        let killed = cluster.owner(wire::slot::slot(TAG.as_bytes()))?.primary;
        let plan = self.plan(cluster)?;
        let ((downtime, promoted_us), seen) = observe(cluster, &plan, |cluster| {
            clock::sleep_until_ms(plan.begin_ms);
            cluster.kill(killed)?;
            let begun = Instant::now();
            let mut probe = Router::new(&cluster.label, cluster.addresses(), killed);
            let key = format!("{{{TAG}}}:probe");
            let written = probe.persist(&[b"SET", key.as_bytes(), b"v"], begun + PATIENCE);
            let downtime = begun.elapsed();
            match written {
                Some(answer) if answer.node != killed => Ok((downtime, clock::wall_us())),
                _ => Err(Error::server(&cluster.label, "no other node took over")),
            }
        })?;
        let lost = seen.lost_writes(cluster);
        cluster.revive(killed)?;
        let overdue = seen.overdue_gone(promoted_us);
        let mut row = self.row(cluster, "kill -9", downtime, &seen, lost);
        row.overdue_gone_ms = Some(overdue.as_secs_f64() * 1e3);
        Ok(row)
    }

    fn failover(&self, cluster: &mut Cluster) -> Result<Row> {
        let slot = wire::slot::slot(TAG.as_bytes());
        let owner = cluster.owner(slot)?;
        let replica = owner
            .replica
            .ok_or_else(|| Error::server(&cluster.label, "a shard has no replica"))?;
        let plan = self.plan(cluster)?;
        let (took, seen) = observe(cluster, &plan, |cluster| {
            clock::sleep_until_ms(plan.begin_ms + plan.span_ms / 4);
            let begun = Instant::now();
            cluster.client(replica)?.call(&["CLUSTER", "FAILOVER"])?;
            cluster.until(|| match cluster.owner(slot)?.primary == replica {
                true => Ok(()),
                false => Err(Error::server(&cluster.label, "no failover")),
            })?;
            Ok(begun.elapsed())
        })?;
        cluster.await_whole()?;
        let lost = seen.lost_writes(cluster);
        Ok(self.row(cluster, "planned failover", took, &seen, lost))
    }

    /// Moves all slots of a shard to another, and back while clients write to them.
    fn relocate(&self, cluster: &mut Cluster) -> Result<(Row, Move)> {
        let source = cluster.owner(wire::slot::slot(TAG.as_bytes()))?.primary;
        let mut others: Vec<usize> = cluster.primaries()?;
        others.retain(|primary| *primary != source);
        let (target, other) = (others[0], others[1]);
        let slots = Slots::fill(cluster, source, self.bytes)?;
        let cpu_before = cluster.cpu_ns()?;
        let quiet = slots.relocate(cluster, source, target)?;
        let quiet_cpu = (cluster.cpu_ns()? - cpu_before) as f64 / 1e9;
        let load = (self.writers, other);
        let ((took, seen), load) = moving::under_load(cluster, &slots, load, BEFORE, |cluster| {
            let plan = self.plan(cluster)?;
            observe(cluster, &plan, |cluster| {
                slots.relocate(cluster, target, source)
            })
        })?;
        let lost = seen.lost_writes(cluster);
        let moved = Move {
            server: cluster.label.clone(),
            bytes: self.bytes,
            quiet_seconds: quiet.as_secs_f64(),
            quiet_cpu_per_gb: quiet_cpu / (self.bytes as f64 / 1e9),
            seconds: took.as_secs_f64(),
            lost_keys: slots.lost(&mut cluster.client(source)?)?,
            load,
        };
        Ok((self.row(cluster, "move", took, &seen, lost), moved))
    }

    fn row(
        &self,
        cluster: &Cluster,
        trial: &'static str,
        took: Duration,
        seen: &Observation,
        lost_writes: u64,
    ) -> Row {
        Row {
            server: cluster.label.clone(),
            version: cluster.version.clone(),
            trial,
            seconds: took.as_secs_f64(),
            writes: seen.writes(),
            longest_write_ms: seen.longest_write().as_secs_f64() * 1e3,
            lost_writes,
            deadlines: self.keys,
            missing: seen.missing(),
            duplicates: seen.duplicates(),
            reads: seen.reads,
            late_reads: seen.late_reads,
            lateness: seen.lateness(),
            overdue_gone_ms: None,
        }
    }

    fn print(&self, report: &Report) -> Result<()> {
        if self.json {
            return crate::report::json(report);
        }
        let table = Table::of(&report.trials)
            .column(Column::text("server"), |row| &row.version)
            .column(Column::text("trial"), |row| row.trial)
            .column(Column::span("took"), |row| row.seconds * 1e3)
            .column(Column::span("longest write"), |row| row.longest_write_ms)
            .column(Column::count("writes"), |row| row.writes)
            .column(Column::count("lost"), |row| row.lost_writes)
            .column(Column::count("without event"), |row| row.missing)
            .column(Column::count("twice"), |row| row.duplicates)
            .column(Column::count("reads"), |row| row.reads)
            .column(Column::count("late reads"), |row| row.late_reads)
            .column(Column::span("late p50"), |row| row.lateness.p50_ms)
            .column(Column::span("late p99"), |row| row.lateness.p99_ms)
            .column(Column::span("late max"), |row| row.lateness.max_ms)
            .column(Column::span("overdue gone"), |row| {
                row.overdue_gone_ms.map_or_else(|| "".into(), Cell::Number)
            })
            .finish();
        println!(
            "{} shards with a replica each; {} deadlines over {:?} in each trial\n",
            nodes::SHARDS,
            self.keys,
            self.span
        );
        println!("{}", table.to_text());
        let table = Table::of(&report.moves)
            .column(Column::text("server"), |row| &row.server)
            .column(Column::mebibytes("moved"), |row| row.bytes as f64)
            .column(Column::span("quiet"), |row| row.quiet_seconds * 1e3)
            .column(Column::number("CPU s/GB"), |row| row.quiet_cpu_per_gb)
            .column(Column::span("under load"), |row| row.seconds * 1e3)
            .column(Column::number("writes/s"), |row| row.load.writes_per_second)
            .column(Column::count("lost keys"), |row| row.lost_keys)
            .column(Column::span("others p99.9 before"), |row| {
                row.load.others_before.p999_ms
            })
            .column(Column::span("meanwhile"), |row| {
                row.load.others_meanwhile.p999_ms
            })
            .finish();
        print!("{}", table.to_text());
        Ok(())
    }
}
