//! `bench memory`: bytes per key.
//!
//! Resident memory is counted page by page for the process, minus the empty server's. `used_memory`
//! is the server's own count, also minus that of the empty server. Each figure comes from a
//! separate server, once its resident memory no longer changes. The figure for one number of keys
//! depends on how recently the hash table doubled, so the report also gives the worst of several.

use crate::client::Client;
use crate::contestant::{Contest, Entrant, Server, Settings};
use crate::error::{Error, Result};
use crate::keys::{self, Template};
use ::report::{Column, Table};
use serde::Serialize;
use std::time::{Duration, Instant};

/// TTLs in milliseconds, up to a day. All have eight digits.
const TTL_MS: std::ops::Range<u64> = 10_000_000..86_400_000;
/// Maximum share by which memory may change within [`SETTLED_SPAN`] to count as settled.
const SETTLED_CHANGE: f64 = 0.002;
const SETTLED_SPAN: Duration = Duration::from_secs(2);
const LOOK_PAUSE: Duration = Duration::from_millis(200);
/// Number of keys inserted under an eviction policy, as a multiple of the keys that fit.
const TURNOVER: u64 = 3;
/// Size of values in bytes before and after they shrink.
const LARGE_BYTES: usize = 100;
const SMALL_BYTES: usize = 10;

/// Arguments of `bench memory`.
#[derive(clap::Args, Debug)]
pub struct Memory {
    #[command(flatten)]
    contest: Contest,
    /// Numbers of keys
    #[arg(long, value_delimiter = ',', default_value = "3m,4m,5m,6m,8m", value_parser = units::count)]
    keys: Vec<u64>,
    /// Cases to measure
    #[arg(long, value_delimiter = ',', default_value = "plain,ttl")]
    case: Vec<Case>,
    /// Bytes of a value, except in the case `shrink`
    #[arg(long, default_value_t = 3)]
    value_size: usize,
    /// Our eviction policy in the case `policy` (peers use allkeys-lru)
    #[arg(long, default_value = "allkeys-s3fifo")]
    policy: String,
    /// Maximum time to wait for memory to settle
    #[arg(long, default_value = "30s", value_parser = units::span)]
    settle: Duration,
    /// Data threads of our server
    #[arg(long)]
    threads: Option<usize>,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Case {
    /// No TTL
    Plain,
    /// Distinct TTLs, from three hours to a day
    Ttl,
    /// As many keys as fit into the memory that they take without a policy, after three times as
    /// many were inserted under a policy
    Policy,
    /// Values shrink from 100 to 10 bytes and every other key is deleted; the result is compared
    /// with the same keys in a fresh server
    Shrink,
}

/// Memory of one server in one case with one number of keys.
#[derive(Clone, Debug, Serialize)]
struct Row {
    case: &'static str,
    server: String,
    version: String,
    keys: u64,
    resident_per_key: f64,
    used_per_key: f64,
    /// In the case `shrink`: resident bytes divided by those of the same keys in a fresh server.
    over_fresh: Option<f64>,
}

/// Increase of memory over an empty server.
#[derive(Clone, Copy)]
pub(crate) struct Taken {
    pub resident: f64,
    pub used: f64,
}

/// Server under measurement, and its memory when it was empty.
pub(crate) struct Subject {
    pub server: Server,
    pub client: Client,
    empty: Taken,
}

impl Memory {
    /// Runs the experiment and prints its report.
    pub(crate) fn run(&self) -> Result<()> {
        if self.keys.iter().any(|keys| *keys < 2) {
            return Err(Error::Usage("--keys must be at least 2".into()));
        }
        let mut rows = Vec::new();
        let entrants = self.contest.begin()?;
        let steps = entrants.len() * self.case.len() * self.keys.len();
        let progress = crate::progress::steps(steps as u64);
        for &case in &self.case {
            for entrant in &entrants {
                for &keys in &self.keys {
                    progress.set_message(format!("{case:?} {} {keys}", entrant.label));
                    match case {
                        Case::Plain | Case::Ttl => rows.push(self.fill(entrant, case, keys)?),
                        Case::Policy => rows.push(self.turn_over(entrant, keys)?),
                        Case::Shrink => rows.push(self.shrink(entrant, keys)?),
                    }
                    progress.inc(1);
                }
            }
        }
        progress.finish_and_clear();
        self.report(&rows)
    }

    fn start(&self, entrant: &Entrant, settings: Settings) -> Result<Subject> {
        let threads = self.threads.filter(|_| entrant.is_ours);
        let server = entrant.start(&Settings {
            threads,
            ..settings
        })?;
        Subject::new(server)
    }

    fn fill(&self, entrant: &Entrant, case: Case, keys: u64) -> Result<Row> {
        let mut subject = self.start(entrant, Settings::default())?;
        let value = keys::value(self.value_size);
        if case == Case::Ttl {
            let template = Template::new(&[b"SET", b"{key}", &value, b"PX", b"00000000"]);
            let spread = TTL_MS.end - TTL_MS.start;
            let ttl_ms = |key: u64| TTL_MS.start + trace::Random::of_key(1, key).below(spread);
            keys::send_each(&subject.server, &template, 0..keys, ttl_ms)?;
        } else {
            let template = Template::new(&[b"SET", b"{key}", &value]);
            keys::send_each(&subject.server, &template, 0..keys, |_| 0)?;
        }
        let taken = subject.settle(self.settle)?;
        subject.expect_keys(keys)?;
        let case = if case == Case::Ttl {
            "distinct TTLs"
        } else {
            "no TTL"
        };
        Ok(subject.row(case, keys, taken))
    }

    fn turn_over(&self, entrant: &Entrant, keys: u64) -> Result<Row> {
        let value = keys::value(self.value_size);
        let template = Template::new(&[b"SET", b"{key}", &value]);
        let mut free = self.start(entrant, Settings::default())?;
        keys::send_each(&free.server, &template, 0..keys, |_| 0)?;
        let memory_max = free.settle(self.settle)?.used + free.empty.used;
        drop(free);
        let settings = Settings {
            memory_max: Some(memory_max as u64),
            policy: Some(self.policy.clone()),
            ..Settings::default()
        };
        let mut subject = self.start(entrant, settings)?;
        keys::send_each(&subject.server, &template, 0..keys * TURNOVER, |_| 0)?;
        let taken = subject.settle(self.settle)?;
        let held = subject.client.integer(&["DBSIZE"])?.max(1) as u64;
        let case = if entrant.is_ours {
            "under the policy"
        } else {
            "under allkeys-lru"
        };
        Ok(subject.row(case, held, taken))
    }

    fn shrink(&self, entrant: &Entrant, keys: u64) -> Result<Row> {
        let large = Template::new(&[b"SET", b"{key}", &keys::value(LARGE_BYTES)]);
        let small = Template::new(&[b"SET", b"{key}", &keys::value(SMALL_BYTES)]);
        let delete = Template::new(&[b"DEL", b"{key}"]);
        let kept = || (0..keys).step_by(2);
        let mut fresh = self.start(entrant, Settings::default())?;
        keys::send_each(&fresh.server, &small, kept(), |_| 0)?;
        let fresh_taken = fresh.settle(self.settle)?;
        drop(fresh);
        let mut subject = self.start(entrant, Settings::default())?;
        keys::send_each(&subject.server, &large, 0..keys, |_| 0)?;
        keys::send_each(&subject.server, &small, 0..keys, |_| 0)?;
        keys::send_each(&subject.server, &delete, (1..keys).step_by(2), |_| 0)?;
        let taken = subject.settle(self.settle)?;
        let kept = keys.div_ceil(2);
        subject.expect_keys(kept)?;
        let mut row = subject.row("shrunk", kept, taken);
        row.over_fresh = Some(taken.resident / fresh_taken.resident);
        Ok(row)
    }

    fn report(&self, rows: &[Row]) -> Result<()> {
        if self.contest.json {
            return crate::report::json(&rows);
        }
        let mut all = Vec::new();
        for group in rows.chunk_by(|a, b| a.case == b.case && a.server == b.server) {
            all.extend(group.iter().map(|row| (row.clone(), row.keys.to_string())));
            if group.len() > 1 {
                all.push((worst(group), "worst".into()));
            }
        }
        let table = Table::of(&all)
            .column(Column::text("case"), |(row, _)| row.case)
            .column(Column::text("server"), |(row, _)| &row.server)
            .column(Column::text("version"), |(row, _)| &row.version)
            .column(Column::count("keys"), |(_, keys)| keys)
            .column(Column::number("resident/key"), |(row, _)| {
                row.resident_per_key
            })
            .column(Column::number("used/key"), |(row, _)| row.used_per_key)
            .column(Column::number("÷ fresh"), |(row, _)| row.over_fresh)
            .finish();
        println!(
            "Bytes per key: 16-byte keys, values of {} bytes, above the empty server\n",
            self.value_size
        );
        print!("{}", table.to_text());
        Ok(())
    }
}

/// Returns the largest value of each column.
fn worst(rows: &[Row]) -> Row {
    let largest = |figure: &dyn Fn(&Row) -> f64| rows.iter().map(figure).fold(0.0, f64::max);
    Row {
        resident_per_key: largest(&|row| row.resident_per_key),
        used_per_key: largest(&|row| row.used_per_key),
        over_fresh: rows
            .iter()
            .filter_map(|row| row.over_fresh)
            .reduce(f64::max),
        ..rows[0].clone()
    }
}

impl Subject {
    /// Measures the memory of an empty server.
    pub(crate) fn new(server: Server) -> Result<Subject> {
        let mut client = server.client()?;
        let empty = Taken {
            resident: server.resident_bytes(&mut client)?,
            used: client.info_number("memory", "used_memory")?,
        };
        Ok(Subject {
            server,
            client,
            empty,
        })
    }

    /// Waits until resident memory settles, or until the time limit.
    pub(crate) fn settle(&mut self, limit: Duration) -> Result<Taken> {
        let start = Instant::now();
        let mut since = start;
        let mut reference = self.server.resident_bytes(&mut self.client)?;
        while since.elapsed() < SETTLED_SPAN && start.elapsed() < limit {
            std::thread::sleep(LOOK_PAUSE);
            let resident = self.server.resident_bytes(&mut self.client)?;
            if (resident - reference).abs() > reference * SETTLED_CHANGE {
                reference = resident;
                since = Instant::now();
            }
        }
        Ok(Taken {
            resident: self.server.resident_bytes(&mut self.client)? - self.empty.resident,
            used: self.client.info_number("memory", "used_memory")? - self.empty.used,
        })
    }

    fn expect_keys(&mut self, keys: u64) -> Result<()> {
        let held = self.client.integer(&["DBSIZE"])?;
        if held == keys as i64 {
            return Ok(());
        }
        Err(Error::server(
            &self.server.label,
            format!("it holds {held} keys of {keys}"),
        ))
    }

    fn row(&self, case: &'static str, keys: u64, taken: Taken) -> Row {
        Row {
            case,
            server: self.server.label.clone(),
            version: self.server.version.clone(),
            keys,
            resident_per_key: taken.resident / keys as f64,
            used_per_key: taken.used / keys as f64,
            over_fresh: None,
        }
    }
}
