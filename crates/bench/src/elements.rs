//! `bench elements`: elements with their own TTLs, that is, fields of hashes and members of sets
//! and sorted sets.
//!
//! The first three rounds are from "Hash field expiration – Architecture and Benchmarks" (Redis's
//! blog, on Redis 7.4): memory, throughput by command and case, and active expiry while a loader
//! writes. The fourth round measures the delay of the events of expired elements. A peer that lacks
//! a command skips the tests that use it, and the report lists what was skipped. Operations per
//! second would depend on the load generator, which runs on the same machine, so round 2 compares
//! the server's CPU time instead.

mod data;
mod drain;
mod lag;
mod memory;
mod page;
mod throughput;

use crate::contestant::{Contest, Entrant, Server};
use crate::error::{Error, Result};
use crate::machine::{self, Machine};
use crate::progress::Progress;
use crate::report::Files;
use data::{Data, Kind, Layout};
use serde::Serialize;
use std::time::Duration;

/// Maximum number of elements, because an element's number has nine digits.
const ELEMENTS_MAX: u64 = 100_000_000;

/// Arguments of `bench elements`.
#[derive(clap::Args, Debug)]
pub struct Elements {
    #[command(flatten)]
    contest: Contest,
    /// Rounds to run
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "memory,throughput,drain,lag"
    )]
    round: Vec<Round>,
    /// Types of the collections
    #[arg(long = "type", value_delimiter = ',', default_value = "hash,set,zset")]
    kind: Vec<Kind>,
    /// Whether all elements are in one key, or each in its own
    #[arg(long, value_delimiter = ',', default_value = "one,many")]
    layout: Vec<Layout>,
    /// Expiry indexes of our server [default: its default]
    #[arg(long, value_delimiter = ',')]
    index: Vec<String>,
    /// Number of elements
    #[arg(long, default_value = "1m", value_parser = units::count)]
    elements: u64,
    /// Repetitions of the throughput and drain rounds; the report gives medians
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Connections of the throughput round
    #[arg(long, default_value_t = 50)]
    clients: usize,
    /// Requests in flight on each connection in the throughput round
    #[arg(long, default_value_t = 32)]
    pipeline: usize,
    /// Elements that the loader writes in the drain round [default: 1.5 times those that expire]
    #[arg(long, value_parser = units::count)]
    loaded: Option<u64>,
    /// PINGs per second while elements expire
    #[arg(long, default_value_t = 2000)]
    rate: u64,
    /// Number of elements whose events are measured
    #[arg(long, default_value_t = 1000)]
    probes: u64,
    /// Maximum time to wait after the deadline for elements to be removed and for events
    #[arg(long, default_value = "60s", value_parser = units::span)]
    patience: Duration,
    /// Maximum time to wait for memory to settle
    #[arg(long, default_value = "10s", value_parser = units::span)]
    settle: Duration,
    /// Data threads of our server
    #[arg(long)]
    threads: Option<usize>,
    #[command(flatten)]
    files: Files,
}

/// A group of measurements.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Round {
    /// Bytes per element, with and without TTLs
    Memory,
    /// The server's CPU time per operation, by command and case
    Throughput,
    /// All elements expire at one instant: duration, and latency of other clients
    Drain,
    /// Delay of the events of expired elements
    Lag,
}

impl Round {
    /// All rounds and the headings of their results.
    const ALL: [(Round, &str); 4] = [
        (Round::Memory, "Memory"),
        (Round::Throughput, "CPU time per operation"),
        (Round::Drain, "Active expiry"),
        (Round::Lag, "Lag of events"),
    ];

    /// Returns the name under which a Markdown document marks the round's place.
    fn place(self) -> String {
        format!("elements {self:?}").to_lowercase()
    }
}

/// A measurement that was omitted because a server lacks a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct LeftOut {
    server: String,
    version: String,
    round: Round,
    /// Command that the server lacks.
    command: String,
    what: String,
}

impl LeftOut {
    fn new(server: &Server, round: Round, command: &str, what: &str) -> LeftOut {
        LeftOut {
            server: server.label.clone(),
            version: server.version.clone(),
            round,
            command: command.into(),
            what: what.into(),
        }
    }

    fn line(&self) -> String {
        let LeftOut {
            server,
            version,
            command,
            what,
            ..
        } = self;
        format!("{server} ({version}) lacks {command}: left out of {what}")
    }
}

/// Results of all rounds.
#[derive(Debug, Serialize)]
struct Report {
    command: String,
    machine: Machine,
    elements: u64,
    memory: Vec<memory::Row>,
    throughput: Vec<throughput::Row>,
    drain: Vec<drain::Row>,
    lag: Vec<lag::Row>,
    left_out: Vec<LeftOut>,
}

impl Report {
    /// Appends a row, or records why it was omitted.
    fn keep<R>(
        &mut self,
        measured: std::result::Result<R, LeftOut>,
        rows: fn(&mut Report) -> &mut Vec<R>,
    ) {
        match measured {
            Ok(row) => rows(self).push(row),
            Err(left_out) => self.leave_out([left_out]),
        }
    }

    fn leave_out(&mut self, all: impl IntoIterator<Item = LeftOut>) {
        for left_out in all {
            if !self.left_out.contains(&left_out) {
                self.left_out.push(left_out);
            }
        }
    }
}

impl Elements {
    /// Runs the experiment and prints its report.
    pub(crate) fn run(&self) -> Result<()> {
        self.check()?;
        let entrants = self.entrants()?;
        let progress = crate::progress::steps(self.steps(entrants.len()) as u64);
        let mut report = Report {
            command: machine::command(),
            machine: Machine::here(),
            elements: self.elements,
            memory: Vec::new(),
            throughput: Vec::new(),
            drain: Vec::new(),
            lag: Vec::new(),
            left_out: Vec::new(),
        };
        for &round in &self.round {
            for data in self.data() {
                self.measure(round, data, &entrants, &progress, &mut report)?;
            }
        }
        progress.finish_and_clear();
        self.write_report(&report)
    }

    fn check(&self) -> Result<()> {
        let is_sound = (1..=ELEMENTS_MAX).contains(&self.elements)
            && (1..=ELEMENTS_MAX).contains(&self.loaded())
            && self.rounds > 0
            && self.clients > 0
            && self.pipeline > 0
            && (1..=100_000).contains(&self.rate)
            && (1..=1_000_000).contains(&self.probes);
        if is_sound {
            return Ok(());
        }
        let text = "--elements and --loaded must be from 1 to 100m, --rounds, --clients and --pipeline above 0, --rate from 1 to 100000, --probes from 1 to 1000000";
        Err(Error::Usage(text.into()))
    }

    /// Returns all servers to compare, including ours once for each index.
    fn entrants(&self) -> Result<Vec<Entrant>> {
        let mut all = Vec::new();
        for entrant in self.contest.begin()? {
            if self.index.is_empty() || !entrant.takes_index() {
                all.push(entrant);
                continue;
            }
            let labelled = |index: &String| {
                let label = format!("{} {index}", entrant.label);
                entrant.with_index(&label, index, true)
            };
            all.extend(self.index.iter().map(labelled));
        }
        Ok(all)
    }

    fn data(&self) -> Vec<Data> {
        let kinds = self.kind.iter();
        let both = kinds.flat_map(|&kind| self.layout.iter().map(move |&layout| (kind, layout)));
        both.map(|(kind, layout)| Data { kind, layout }).collect()
    }

    fn steps(&self, entrants: usize) -> usize {
        let of_data = |data: Data| -> usize {
            let of_round = |round: &Round| match round {
                Round::Memory => 2,
                Round::Throughput => self.rounds * data.kind.tests().len(),
                Round::Drain => self.rounds,
                Round::Lag => 1,
            };
            self.round.iter().map(of_round).sum()
        };
        entrants * self.data().into_iter().map(of_data).sum::<usize>()
    }

    fn measure(
        &self,
        round: Round,
        data: Data,
        entrants: &[Entrant],
        progress: &Progress,
        report: &mut Report,
    ) -> Result<()> {
        let announce = |entrant: &Entrant| {
            progress.set_message(format!("{round:?}: {}, {}", entrant.label, data.name()));
        };
        match round {
            Round::Memory => {
                for (entrant, has_ttls) in pairs(entrants, &[false, true]) {
                    announce(entrant);
                    let row = memory::measure(self, entrant, data, *has_ttls)?;
                    report.keep(row, |report| &mut report.memory);
                    progress.inc(1);
                }
            }
            Round::Throughput => {
                let (rows, left_out) = throughput::measure(self, entrants, data, progress)?;
                report.throughput.extend(rows);
                report.leave_out(left_out);
            }
            Round::Drain => {
                // Each round runs all servers before the next one, so that a slow minute affects
                // all of them.
                for _ in 0..self.rounds {
                    for entrant in entrants {
                        announce(entrant);
                        let row = drain::measure(self, entrant, data)?;
                        report.keep(row, |report| &mut report.drain);
                        progress.inc(1);
                    }
                }
            }
            Round::Lag => {
                for entrant in entrants {
                    announce(entrant);
                    let row = lag::measure(self, entrant, data)?;
                    report.keep(row, |report| &mut report.lag);
                    progress.inc(1);
                }
            }
        }
        Ok(())
    }

    fn threads_of(&self, entrant: &Entrant) -> Option<usize> {
        self.threads.filter(|_| entrant.is_ours)
    }

    fn loaded(&self) -> u64 {
        self.loaded.unwrap_or(self.elements.div_ceil(2) * 3)
    }

    fn write_report(&self, report: &Report) -> Result<()> {
        self.files
            .write_report(report, page::page(report), self.contest.json)
    }
}

fn pairs<'a, A, B>(first: &'a [A], second: &'a [B]) -> impl Iterator<Item = (&'a A, &'a B)> {
    let all = first.iter();
    all.flat_map(move |a| second.iter().map(move |b| (a, b)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expiry_lag::lateness::Lateness;
    use crate::latency::Latencies;

    fn drain(server: &str, gone_ms: Option<u64>, seconds: f64) -> drain::Row {
        let none = Latencies::new().percentiles();
        let loaded = |seconds| drain::Loaded {
            seconds,
            cpu_seconds: 1.0,
            gone_ms,
            pings: none.clone(),
            machine: none.clone(),
        };
        drain::Row {
            data: HASH,
            server: server.into(),
            version: "1".into(),
            elements: 10,
            loaded: 15,
            alone: drain::Alone {
                gone_ms,
                memory_back_ms: gone_ms,
                cpu_seconds: 1.0,
                quiet: none.clone(),
                pings: none.clone(),
                machine: none.clone(),
                looks: Vec::new(),
            },
            loader: loaded(2.0),
            loader_beside: loaded(seconds),
        }
    }

    const HASH: Data = Data {
        kind: Kind::Hash,
        layout: Layout::One,
    };

    fn report() -> Report {
        let memory = |server: &str, has_ttls| memory::Row {
            data: HASH,
            has_ttls,
            server: server.into(),
            version: "1".into(),
            elements: 10,
            used_per_element: 30.0,
            resident_per_element: 31.0,
        };
        let throughput = |server: &str| throughput::Row {
            data: HASH,
            case: "HSET",
            server: server.into(),
            version: "1".into(),
            samples: Vec::new(),
            cpu_us_median: 0.5,
            operations_per_second_median: 1e6,
            over_first: None,
        };
        let lag = lag::Row {
            data: HASH,
            server: "mayfly".into(),
            version: "1".into(),
            others: 10,
            events: Lateness::new(vec![5], 2),
            memory: Lateness::new(vec![], 2),
            machine: Latencies::new().percentiles(),
        };
        Report {
            command: "mayfly".into(),
            machine: Machine::here(),
            elements: 10,
            memory: vec![memory("mayfly", false), memory("<b>", true)],
            throughput: vec![throughput("mayfly"), throughput("<b>")],
            drain: vec![
                drain("mayfly", Some(4), 2.2),
                drain("<b>", None, 3.0),
                drain("mayfly", Some(2), 2.1),
                drain("mayfly", Some(3), 9.0),
            ],
            lag: vec![lag],
            left_out: vec![LeftOut {
                server: "redis".into(),
                version: "Redis 7".into(),
                round: Round::Drain,
                command: "HEXPIRE".into(),
                what: "drain".into(),
            }],
        }
    }

    #[test]
    fn medians_are_those_of_a_servers_own_rounds() {
        let report = report();
        let groups = page::rounds_of(&report.drain);
        assert_eq!(groups.iter().map(Vec::len).collect::<Vec<_>>(), [3, 1]);
        let gone = |rows| page::middle(rows, |row| row.alone.gone_ms.map(|ms| ms as f64));
        assert_eq!(gone(&groups[0]), Some(3.0));
        assert_eq!(gone(&groups[1]), None);
    }

    #[test]
    fn page_and_tables_contain_every_round_and_name_omissions() {
        let mut report = report();
        let html = page::page(&report).to_html();
        assert_eq!(html.matches("<figure>").count(), 3);
        assert!(html.contains("<td>&lt;b&gt;</td>"));
        let line = "redis (Redis 7) lacks HEXPIRE: left out of drain";
        assert!(html.contains(line));
        let text = page::page(&report).to_text();
        assert!(text.contains(&format!("- {line}\n")));
        assert!(text.contains(" 1.10 "), "the median of three ratios");
        assert!(text.contains("not in time"));
        let tables = |report: &Report| {
            let parts = page::page(report).to_markdown();
            let count = |text: &str| text.lines().filter(|line| line.starts_with("|---")).count();
            parts
                .iter()
                .map(|(_, text)| count(text))
                .collect::<Vec<_>>()
        };
        assert_eq!(tables(&report), [1, 1, 2, 1]);
        report.drain.clear();
        report.lag.clear();
        assert_eq!(tables(&report), [1, 1, 0]);
    }

    #[test]
    fn a_refusal_is_reported_once() {
        let mut report = report();
        let again = report.left_out[0].clone();
        report.keep(Err(again), |report| &mut report.drain);
        assert_eq!((report.left_out.len(), report.drain.len()), (1, 4));
    }
}
