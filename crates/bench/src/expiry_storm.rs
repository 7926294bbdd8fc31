//! `bench expiry-storm`: millions of keys with one deadline, and the latency of other clients.
//!
//! One client sends GETs of persistent keys on a fixed schedule, regardless of outstanding replies.
//! Its latency before the deadline shows the delay of the machine itself. Meanwhile, memory is
//! polled. The report gives the time from the deadline until all keys are reclaimed, and until
//! `used_memory` and resident memory have returned to their values before the expiring keys were
//! loaded (within a tenth of the memory that these keys took).

use crate::clock;
use crate::contestant::{Contest, Server, Settings};
use crate::error::{Error, Result};
use crate::keys::{self, Template};
use crate::latency::Percentiles;
use crate::noise::Noise;
use crate::open_loop;
use crate::process;
use ::report::{Cell, Column, Table};
use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use trace::Random;
use units::show::span;

const QUIET: Duration = Duration::from_secs(3);
const POLL_PAUSE: Duration = Duration::from_millis(20);
/// Minimum time in milliseconds for which GETs continue after the deadline.
const GETS_MS_MIN: u64 = 2000;
/// Maximum share of the expired keys' memory that may remain for the memory to count as freed.
const LEFT_OVER: f64 = 0.1;

/// Arguments of `bench expiry-storm`.
#[derive(clap::Args, Debug)]
pub struct ExpiryStorm {
    #[command(flatten)]
    contest: Contest,
    /// Number of keys with the same deadline
    #[arg(long, default_value = "2m", value_parser = units::count)]
    dying: u64,
    /// Number of persistent keys
    #[arg(long, default_value = "1m", value_parser = units::count)]
    others: u64,
    /// GETs per second of the other client
    #[arg(long, default_value_t = 2000)]
    rate: u64,
    /// Maximum time to wait for memory after the deadline
    #[arg(long, default_value = "30s", value_parser = units::span)]
    patience: Duration,
    /// Data threads of our server
    #[arg(long)]
    threads: Option<usize>,
}

#[derive(Debug, Serialize)]
struct Row {
    server: String,
    version: String,
    used_memory_floor: f64,
    used_memory_peak: f64,
    resident_floor: f64,
    resident_peak: f64,
    resident_after: f64,
    /// Milliseconds after the deadline until all keys were reclaimed; `None` if that exceeded the
    /// time limit.
    keys_gone_ms: Option<u64>,
    used_memory_back_ms: Option<u64>,
    resident_back_ms: Option<u64>,
    /// CPU time of the server in seconds, from the deadline until keys and `used_memory` were
    /// freed.
    cpu_seconds: f64,
    quiet: Percentiles,
    storm: Percentiles,
    /// Delays with which threads sleeping for a millisecond at a time woke, before and after the
    /// deadline.
    machine: Percentiles,
}

/// Memory values read by one poll.
struct Sight {
    after_ms: u64,
    keys: u64,
    used: f64,
    resident: f64,
}

impl ExpiryStorm {
    /// Runs the experiment and prints its report.
    pub(crate) fn run(&self) -> Result<()> {
        if !(1..=100_000).contains(&self.rate) || self.others == 0 || self.dying == 0 {
            return Err(Error::Usage(
                "--others and --dying must be above 0, --rate from 1 to 100000".into(),
            ));
        }
        let mut rows = Vec::new();
        let entrants = self.contest.begin()?;
        let progress = crate::progress::steps(entrants.len() as u64);
        for entrant in entrants {
            progress.set_message(entrant.label.clone());
            let settings = Settings {
                threads: self.threads.filter(|_| entrant.is_ours),
                ..Settings::default()
            };
            rows.push(self.measure(&entrant.start(&settings)?)?);
            progress.inc(1);
        }
        progress.finish_and_clear();
        self.report(&rows)
    }

    fn measure(&self, server: &Server) -> Result<Row> {
        let mut client = server.client()?;
        let plain = Template::new(&[b"SET", b"{key}", b"xxx"]);
        keys::send_each(server, &plain, 0..self.others, |_| 0)?;
        let floor = self.look(server, &mut client, 0)?;
        let allowance_ms = clock::fill_allowance_ms(self.dying) + QUIET.as_millis() as u64 + 1500;
        let deadline_ms = clock::wall_ms() + allowance_ms;
        let dying = Template::new(&[b"SET", b"{key}", b"xxx", b"PXAT", b"0000000000000"]);
        keys::send_each(
            server,
            &dying,
            self.others..self.others + self.dying,
            |_| deadline_ms,
        )?;
        let quiet_until_ms = deadline_ms - 300;
        if clock::wall_ms() + QUIET.as_millis() as u64 > quiet_until_ms {
            return Err(Error::server(
                &server.label,
                "loading took longer than allowed",
            ));
        }
        let peak = self.look(server, &mut client, 0)?;
        let noise = Noise::start(&server.cpus);
        let is_over = AtomicBool::new(false);
        clock::sleep_until_ms(quiet_until_ms - QUIET.as_millis() as u64);
        let quiet_left = Duration::from_millis(quiet_until_ms.saturating_sub(clock::wall_ms()));
        let quiet = self.get(server, Instant::now() + quiet_left, &is_over)?;

        let give_up = Duration::from_millis(deadline_ms - clock::wall_ms()) + self.patience;
        let give_up = Instant::now() + give_up;
        let (storm, sights) = std::thread::scope(|scope| {
            let getting = scope.spawn(|| self.get(server, give_up, &is_over));
            let ends = [&floor, &peak];
            let sights = self.watch(server, deadline_ms, ends, &is_over, give_up);
            is_over.store(true, Ordering::Relaxed);
            let storm = getting.join().expect("the client does not panic");
            Ok::<_, Error>((storm?, sights?))
        })?;
        let machine = noise.finish();
        let (sights, cpu_ns) = sights;
        let first = |is_so: &dyn Fn(&Sight) -> bool| {
            sights
                .iter()
                .find(|sight| is_so(sight))
                .map(|sight| sight.after_ms)
        };
        let used_limit = limit(floor.used, peak.used);
        let resident_limit = limit(floor.resident, peak.resident);
        Ok(Row {
            server: server.label.clone(),
            version: server.version.clone(),
            used_memory_floor: floor.used,
            used_memory_peak: peak.used,
            resident_floor: floor.resident,
            resident_peak: peak.resident,
            resident_after: sights.last().map_or(0.0, |sight| sight.resident),
            keys_gone_ms: first(&|sight| sight.keys <= self.others),
            used_memory_back_ms: first(&|sight| sight.used <= used_limit),
            resident_back_ms: first(&|sight| sight.resident <= resident_limit),
            cpu_seconds: cpu_ns as f64 / 1e9,
            quiet,
            storm,
            machine,
        })
    }

    fn look(
        &self,
        server: &Server,
        client: &mut crate::client::Client,
        after_ms: u64,
    ) -> Result<Sight> {
        let memory = client.info("memory")?;
        let field = |name: &str| memory.get(name).and_then(|value| value.parse::<f64>().ok());
        let resident = match server.pid {
            Some(pid) => process::resident_bytes(pid)? as f64,
            None => field("used_memory_rss").unwrap_or(0.0),
        };
        let used = field("used_memory");
        Ok(Sight {
            after_ms,
            keys: client.integer(&["DBSIZE"])?.max(0) as u64,
            used: used.ok_or_else(|| Error::server(&server.label, "INFO lacks used_memory"))?,
            resident,
        })
    }

    /// Polls from the deadline until resident memory is freed. Once the keys are reclaimed and
    /// `used_memory` is freed, it ends the GETs and reads the server's CPU time.
    fn watch(
        &self,
        server: &Server,
        deadline_ms: u64,
        ends: [&Sight; 2],
        is_over: &AtomicBool,
        give_up: Instant,
    ) -> Result<(Vec<Sight>, u64)> {
        let mut client = server.client()?;
        let [floor, peak] = ends;
        clock::sleep_until_ms(deadline_ms);
        let cpu_before = server.cpu_ns()?;
        let mut cpu_after = None;
        let mut sights: Vec<Sight> = Vec::new();
        while Instant::now() < give_up {
            let after_ms = clock::wall_ms().saturating_sub(deadline_ms);
            let sight = self.look(server, &mut client, after_ms)?;
            let is_used_back = sight.used <= limit(floor.used, peak.used);
            let is_resident_back = sight.resident <= limit(floor.resident, peak.resident);
            if sight.keys <= self.others && is_used_back && cpu_after.is_none() {
                cpu_after = Some(server.cpu_ns()?);
            }
            if cpu_after.is_some() && after_ms >= GETS_MS_MIN {
                is_over.store(true, Ordering::Relaxed);
            }
            sights.push(sight);
            if is_resident_back && is_over.load(Ordering::Relaxed) {
                break;
            }
            std::thread::sleep(POLL_PAUSE);
        }
        is_over.store(true, Ordering::Relaxed);
        let cpu_after = match cpu_after {
            Some(cpu_ns) => cpu_ns,
            None => server.cpu_ns()?,
        };
        Ok((sights, cpu_after.saturating_sub(cpu_before)))
    }

    /// Sends GETs of persistent keys on schedule until stopped.
    fn get(&self, server: &Server, until: Instant, is_over: &AtomicBool) -> Result<Percentiles> {
        let template = Template::new(&[b"GET", b"{key}"]);
        let mut random = Random::new(1);
        open_loop::requests(server, self.rate, until, is_over, |request| {
            template.encode(request, random.below(self.others), 0);
        })
    }

    fn report(&self, rows: &[Row]) -> Result<()> {
        if self.contest.json {
            return crate::report::json(&rows);
        }
        let late = |ms: Option<u64>| match ms {
            Some(ms) => Cell::Number(ms as f64),
            None => format!("> {}", span(self.patience.as_secs_f64() * 1e3)).into(),
        };
        let table = Table::of(rows)
            .column(Column::text("server"), |row| &row.server)
            .column(Column::text("version"), |row| &row.version)
            .column(Column::span("keys gone"), |row| late(row.keys_gone_ms))
            .column(Column::span("used back"), |row| {
                late(row.used_memory_back_ms)
            })
            .column(Column::span("resident back"), |row| {
                late(row.resident_back_ms)
            })
            .column(Column::number("CPU s"), |row| row.cpu_seconds)
            .column(Column::mebibytes("used before"), |row| {
                row.used_memory_floor
            })
            .column(Column::mebibytes("used peak"), |row| row.used_memory_peak)
            .column(Column::mebibytes("resident before"), |row| {
                row.resident_floor
            })
            .column(Column::mebibytes("resident peak"), |row| row.resident_peak)
            .column(Column::mebibytes("resident after"), |row| {
                row.resident_after
            })
            .finish();
        println!(
            "{} keys on one deadline beside {} persistent ones; times after the deadline\n",
            self.dying, self.others
        );
        println!("{}", table.to_text());
        print!("{}", latency_table(rows).to_text());
        Ok(())
    }
}

/// Returns a table of the other client's latencies before and during the expiry, and of the
/// machine's delays.
fn latency_table(rows: &[Row]) -> Table {
    let parts = rows.iter().flat_map(|row| {
        [
            (row, "before", &row.quiet),
            (row, "meanwhile", &row.storm),
            (row, "the machine's own delay", &row.machine),
        ]
    });
    let table = Table::of(parts)
        .column(Column::text("server"), |(row, ..)| &row.server)
        .column(Column::text("GETs of another client"), |(_, when, _)| when);
    crate::latency::columns(table, |(.., percentiles)| percentiles).finish()
}

/// Returns the threshold in bytes at or below which memory counts as freed.
fn limit(floor: f64, peak: f64) -> f64 {
    floor + (peak - floor).max(0.0) * LEFT_OVER
}
