//! `bench throughput` and `bench threads`: the server's CPU time per operation.
//!
//! Operations per second would show the speed of the load generator, which saturates first on two
//! CPUs. Instead, the server's CPU time according to the scheduler is divided by the operations
//! answered in the same span of time. This figure is steady even if other programs use the machine.
//! The servers take turns within each round, and ratios are taken within a round, so that a slow
//! minute affects all of them.

use crate::contestant::{Contest, Entrant, Server, Settings};
use crate::error::{Error, Result};
use crate::keys::{self, Template};
use crate::load::{Load, Shape};
use ::report::{Column, Table, median};
use serde::Serialize;
use std::time::{Duration, Instant};
use units::show::short;

/// Duration of the load before each measurement, so that caches and branch predictors are warm.
const WARM_UP: Duration = Duration::from_millis(200);
/// TTLs of the `setex` test in seconds: an hour ± ten minutes, so that deadlines differ.
const TTL_SECONDS: std::ops::Range<u64> = 3000..4200;

/// Arguments of `bench throughput`.
#[derive(clap::Args, Debug)]
pub struct Throughput {
    #[command(flatten)]
    contest: Contest,
    #[command(flatten)]
    workload: Workload,
    /// Data threads of our server
    #[arg(long)]
    threads: Option<usize>,
}

/// Arguments of `bench threads`.
#[derive(clap::Args, Debug)]
pub struct Threads {
    #[command(flatten)]
    contest: Contest,
    #[command(flatten)]
    workload: Workload,
    /// Numbers of data threads to compare; the first is the reference
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    threads: Vec<usize>,
}

#[derive(clap::Args, Debug)]
struct Workload {
    /// Requests in flight on each connection
    #[arg(long, value_delimiter = ',', default_value = "1,32")]
    pipeline: Vec<usize>,
    /// Commands to send: get, set, setex, incr, ping
    #[arg(long, value_delimiter = ',', default_value = "get,set,setex")]
    tests: Vec<Test>,
    /// Connections
    #[arg(long, default_value_t = 50)]
    clients: usize,
    /// Number of keys; each request picks one at random
    #[arg(long, default_value = "1m", value_parser = units::count)]
    keys: u64,
    /// Bytes of a value
    #[arg(long, default_value_t = 3)]
    value_size: usize,
    /// Rounds of measurements; the report gives medians
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Test {
    Get,
    Set,
    Setex,
    Incr,
    Ping,
}

/// Contents that the keys must have for a test.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Empty,
    Plain,
    WithTtl,
    Numbers,
}

impl Test {
    fn template(self, value: &[u8]) -> Template {
        match self {
            Test::Get => Template::new(&[b"GET", b"{key}"]),
            Test::Set => Template::new(&[b"SET", b"{key}", value]),
            Test::Setex => Template::new(&[b"SET", b"{key}", value, b"EX", b"0000"]),
            Test::Incr => Template::new(&[b"INCR", b"{key}"]),
            Test::Ping => Template::new(&[b"PING", b"{key}"]),
        }
    }

    fn state(self) -> State {
        match self {
            Test::Get | Test::Set => State::Plain,
            Test::Setex => State::WithTtl,
            Test::Incr => State::Numbers,
            Test::Ping => State::Empty,
        }
    }
}

/// Operations and CPU time of one measurement.
#[derive(Clone, Debug, Serialize)]
struct Sample {
    cpu_us_per_operation: f64,
    operations_per_second: f64,
}

/// Medians over all rounds for one test on one server.
#[derive(Debug, Serialize)]
struct Row {
    test: Test,
    pipeline: usize,
    server: String,
    version: String,
    samples: Vec<Sample>,
    cpu_us_median: f64,
    cpu_us_min: f64,
    cpu_us_max: f64,
    operations_per_second_median: f64,
    /// CPU time of the first server divided by that of this server: the median over the rounds.
    first_over_this: f64,
    /// CPU time of this server divided by that of the first server: the median over the rounds.
    this_over_first: f64,
}

struct Player {
    server: Server,
    state: State,
    loads: Vec<Load<()>>,
}

impl Throughput {
    /// Runs the experiment and prints its report.
    pub(crate) fn run(&self) -> Result<()> {
        let entrants = self.contest.begin()?;
        let threads = self.threads;
        let settings = |entrant: &Entrant| Settings {
            threads: threads.filter(|_| entrant.is_ours),
            ..Settings::default()
        };
        let starts = entrants
            .iter()
            .map(|entrant| (entrant.clone(), settings(entrant)));
        let rows = self.workload.measure(starts.collect())?;
        report(
            &rows,
            self.contest.json,
            &self.workload,
            Ratio::FirstOverThis,
        )
    }
}

impl Threads {
    /// Runs the experiment and prints its report.
    pub(crate) fn run(&self) -> Result<()> {
        let mut starts = Vec::new();
        for entrant in self.contest.begin_unpinned()? {
            if !entrant.is_ours {
                starts.push((entrant, Settings::default()));
                continue;
            }
            for &threads in &self.threads {
                let mut entrant = entrant.clone();
                entrant.label = format!("{} --threads {threads}", entrant.label);
                let threads = Some(threads);
                starts.push((
                    entrant,
                    Settings {
                        threads,
                        ..Settings::default()
                    },
                ));
            }
        }
        let rows = self.workload.measure(starts)?;
        report(
            &rows,
            self.contest.json,
            &self.workload,
            Ratio::ThisOverFirst,
        )
    }
}

impl Workload {
    fn check(&self) -> Result<()> {
        let is_sound = self.clients > 0
            && self.keys > 0
            && self.rounds > 0
            && self.pipeline.iter().all(|pipeline| *pipeline > 0)
            && self.seconds > 0.0
            && self.seconds <= 3600.0;
        if is_sound {
            return Ok(());
        }
        let text = "--clients, --keys, --rounds, --pipeline and --seconds must be above 0 (--seconds up to 3600)";
        Err(Error::Usage(text.into()))
    }

    fn measure(&self, starts: Vec<(Entrant, Settings)>) -> Result<Vec<Row>> {
        self.check()?;
        let mut players = Vec::new();
        for (entrant, settings) in starts {
            let server = entrant.start(&settings)?;
            let shapes = self.pipeline.iter().map(|&pipeline| Shape {
                connections: self.clients,
                pipeline,
                is_stream: false,
            });
            let loads: Result<_> = shapes
                .map(|shape| Load::connect(&server.label, server.address, shape))
                .collect();
            players.push(Player {
                loads: loads?,
                server,
                state: State::Empty,
            });
        }
        let mut rows = Vec::new();
        let steps = self.rounds * self.tests.len() * self.pipeline.len() * players.len();
        let progress = crate::progress::steps(steps as u64);
        for &test in &self.tests {
            let mut samples = vec![vec![Vec::new(); players.len()]; self.pipeline.len()];
            for round in 0..self.rounds {
                for (shape_index, samples) in samples.iter_mut().enumerate() {
                    for turn in 0..players.len() {
                        // The order rotates, so that no server always follows the fastest one.
                        let index = (turn + round) % players.len();
                        let player = &mut players[index];
                        progress.set_message(format!("{test:?} {}", player.server.label));
                        samples[index].push(self.sample(
                            player,
                            test,
                            shape_index,
                            round as u64,
                        )?);
                        progress.inc(1);
                    }
                }
            }
            for (shape_index, samples) in samples.into_iter().enumerate() {
                let first = samples[0].clone();
                for (player, samples) in players.iter().zip(samples) {
                    rows.push(row(
                        test,
                        self.pipeline[shape_index],
                        &player.server,
                        samples,
                        &first,
                    ));
                }
            }
        }
        progress.finish_and_clear();
        Ok(rows)
    }

    fn sample(
        &self,
        player: &mut Player,
        test: Test,
        shape_index: usize,
        seed: u64,
    ) -> Result<Sample> {
        let value = keys::value(self.value_size);
        self.prepare(player, test, &value)?;
        let template = test.template(&value);
        let load = &mut player.loads[shape_index];
        let server = &player.server;
        let mut send = |span, seed| {
            keys::send_random(
                load,
                &server.label,
                &template,
                self.keys,
                TTL_SECONDS,
                span,
                seed,
            )
        };
        send(WARM_UP, seed * 2)?;
        let (cpu_before, start) = (server.cpu_ns()?, Instant::now());
        let tally = send(Duration::from_secs_f64(self.seconds), seed * 2 + 1)?;
        let (cpu_after, span) = (server.cpu_ns()?, start.elapsed());
        if test == Test::Get && tally.nils > 0 {
            return Err(Error::server(
                &server.label,
                format!("{} keys were lost", tally.nils),
            ));
        }
        let replies = tally.replies as f64;
        Ok(Sample {
            cpu_us_per_operation: cpu_after.saturating_sub(cpu_before) as f64 / 1e3 / replies,
            operations_per_second: replies / span.as_secs_f64(),
        })
    }

    /// Puts all keys into the state that the test needs.
    fn prepare(&self, player: &mut Player, test: Test, value: &[u8]) -> Result<()> {
        let needed = test.state();
        if player.state == needed || needed == State::Empty {
            return Ok(());
        }
        let template = match needed {
            State::Numbers => Template::new(&[b"SET", b"{key}", b"1"]),
            State::WithTtl => Test::Setex.template(value),
            State::Plain | State::Empty => Test::Set.template(value),
        };
        let spread = TTL_SECONDS.end - TTL_SECONDS.start;
        let ttl = |key| TTL_SECONDS.start + key % spread;
        keys::send_each(&player.server, &template, 0..self.keys, ttl)?;
        player.state = needed;
        Ok(())
    }
}

fn row(
    test: Test,
    pipeline: usize,
    server: &Server,
    samples: Vec<Sample>,
    first: &[Sample],
) -> Row {
    let cpu: Vec<f64> = samples
        .iter()
        .map(|sample| sample.cpu_us_per_operation)
        .collect();
    let rates: Vec<f64> = samples
        .iter()
        .map(|sample| sample.operations_per_second)
        .collect();
    let pairs = first.iter().zip(&cpu);
    let ratios: Vec<f64> = pairs
        .map(|(first, cpu)| first.cpu_us_per_operation / cpu)
        .collect();
    let inverse: Vec<f64> = ratios.iter().map(|ratio| 1.0 / ratio).collect();
    Row {
        test,
        pipeline,
        server: server.label.clone(),
        version: server.version.clone(),
        cpu_us_median: median(&cpu),
        cpu_us_min: cpu.iter().copied().fold(f64::INFINITY, f64::min),
        cpu_us_max: cpu.iter().copied().fold(0.0, f64::max),
        operations_per_second_median: median(&rates),
        first_over_this: median(&ratios),
        this_over_first: median(&inverse),
        samples,
    }
}

/// Direction of the ratios in a report.
#[derive(Clone, Copy)]
enum Ratio {
    FirstOverThis,
    ThisOverFirst,
}

fn report(rows: &[Row], json: bool, workload: &Workload, ratio: Ratio) -> Result<()> {
    if json {
        return crate::report::json(&rows);
    }
    let first = rows
        .first()
        .map(|row| row.server.clone())
        .unwrap_or_default();
    let title = match ratio {
        Ratio::FirstOverThis => format!("{first} ÷ this"),
        Ratio::ThisOverFirst => format!("this ÷ {first}"),
    };
    let table = Table::of(rows)
        .column(Column::text("test"), |row| {
            format!("{:?}", row.test).to_uppercase()
        })
        .column(Column::count("pipeline"), |row| row.pipeline)
        .column(Column::text("server"), |row| &row.server)
        .column(Column::text("version"), |row| &row.version)
        .column(Column::number("CPU").unit("µs/op"), |row| {
            row.cpu_us_median
        })
        .column(Column::text("min–max"), |row| {
            format!("{}–{}", short(row.cpu_us_min), short(row.cpu_us_max))
        })
        .column(Column::number(&title), |row| match ratio {
            Ratio::FirstOverThis => row.first_over_this,
            Ratio::ThisOverFirst => row.this_over_first,
        })
        .column(Column::number("kops/s"), |row| {
            row.operations_per_second_median / 1e3
        })
        .finish();
    println!(
        "Server CPU time per operation: {} connections, {} keys of 16 bytes, values of {} bytes, medians of {} rounds\n",
        workload.clients, workload.keys, workload.value_size, workload.rounds
    );
    print!("{}", table.to_text());
    Ok(())
}
