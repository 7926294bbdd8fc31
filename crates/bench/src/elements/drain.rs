//! Round 3: all elements expire at one instant, while the latency of other clients is measured.
//!
//! It has three parts, each with a fresh server:
//!
//! - The elements expire, and no client writes.
//! - A loader fills another collection over one connection with 200 requests in flight.
//! - The loader starts at the instant when the elements expire.
//!
//! In each part, another client sends PINGs on a fixed schedule.

use super::data::Data;
use super::{Elements, LeftOut, Round};
use crate::client::Client;
use crate::clock;
use crate::contestant::{Entrant, Server, Settings};
use crate::error::{Error, Result};
use crate::latency::Percentiles;
use crate::load::{Load, Shape};
use crate::noise::Noise;
use crate::open_loop;
use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// One connection with 200 requests in flight, like `memtier_benchmark -t 1 -c 1 --pipeline 200` in
/// the source.
const LOADER: Shape = Shape {
    connections: 1,
    pipeline: 200,
    is_stream: false,
};
/// Time in milliseconds during which PINGs are sent before the deadline, and minimum time after it.
const QUIET_MS: u64 = 2000;
const PINGS_MS_MIN: u64 = 1000;
/// Maximum time in milliseconds to wait for the memory to be freed after the elements are removed.
const MEMORY_MS_MAX: u64 = 2000;
/// Number of keys that the loader writes.
const BESIDE: u64 = 1;
/// Maximum share of the elements' memory that may remain for the memory to count as freed.
const LEFT_OVER: f64 = 0.1;
const POLL_PAUSE: Duration = Duration::from_millis(10);
/// Time limits for setting the deadlines, as multiples of the time for adding the elements. If one
/// is too short, the next is tried.
const ALLOWANCES: [u64; 3] = [2, 6, 20];
const ALLOWANCE_MS: u64 = 500;

/// Values read by one poll.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Look {
    /// Milliseconds after the deadline.
    pub after_ms: u64,
    pub keys: u64,
    pub used_bytes: f64,
    /// Number of expired elements according to the server's counter; `None` if it has none.
    pub reclaimed: Option<u64>,
    /// CPU time used by the server since its start.
    pub cpu_ns: u64,
}

/// Results of the part in which elements expire without other writes.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Alone {
    /// Milliseconds after the deadline until all elements were removed; `None` if that exceeded the
    /// time limit.
    pub gone_ms: Option<u64>,
    pub memory_back_ms: Option<u64>,
    /// CPU seconds from the deadline to the last poll, including PINGs and polls. The last poll is
    /// not before the end of the PINGs, because a server may unlink a key whose elements are all
    /// dead and free its memory afterwards.
    pub cpu_seconds: f64,
    pub quiet: Percentiles,
    pub pings: Percentiles,
    /// Delays with which threads sleeping for a millisecond at a time woke, before and after the
    /// deadline.
    pub machine: Percentiles,
    pub looks: Vec<Look>,
}

/// Results of one run of the loader.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Loaded {
    pub seconds: f64,
    pub cpu_seconds: f64,
    /// Milliseconds until the expired elements were removed; `None` if none were to expire.
    pub gone_ms: Option<u64>,
    pub pings: Percentiles,
    pub machine: Percentiles,
}

/// Results of one round for one server.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub data: Data,
    pub server: String,
    pub version: String,
    pub elements: u64,
    /// Number of elements that the loader writes.
    pub loaded: u64,
    pub alone: Alone,
    pub loader: Loaded,
    pub loader_beside: Loaded,
}

/// Measures all three parts.
pub(super) fn measure(
    options: &Elements,
    entrant: &Entrant,
    data: Data,
) -> Result<std::result::Result<Row, LeftOut>> {
    let drain = Drain { options, data };
    let server = drain.start(entrant)?;
    if let Some(command) = data.lacks_expire_at(&mut server.client()?)? {
        return Ok(Err(LeftOut::new(&server, Round::Drain, command, "drain")));
    }
    let alone = drain.alone(&server)?;
    let (label, version) = (server.label.clone(), server.version.clone());
    drop(server);
    let loader = drain.load(&drain.start(entrant)?, false)?;
    let loader_beside = drain.load(&drain.start(entrant)?, true)?;
    Ok(Ok(Row {
        data,
        server: label,
        version,
        elements: options.elements,
        loaded: options.loaded(),
        alone,
        loader,
        loader_beside,
    }))
}

struct Drain<'a> {
    options: &'a Elements,
    data: Data,
}

impl Drain<'_> {
    fn start(&self, entrant: &Entrant) -> Result<Server> {
        entrant.start(&Settings {
            threads: self.options.threads_of(entrant),
            ..Settings::default()
        })
    }

    /// Adds the elements and sets one deadline for all of them, far enough ahead to measure a quiet
    /// phase first. Returns the deadline.
    fn add_dying(&self, server: &Server) -> Result<u64> {
        let count = self.options.elements;
        for allowance in ALLOWANCES {
            let start = Instant::now();
            self.data.fill(server, 0..count)?;
            let allowed_ms = allowance * start.elapsed().as_millis() as u64 + ALLOWANCE_MS;
            let given_until_ms = clock::wall_ms() + allowed_ms;
            let deadline_ms = given_until_ms + QUIET_MS;
            let given = self.data.expire_at(server, 0..count, |_| deadline_ms);
            if clock::wall_ms() <= given_until_ms {
                return given.map(|()| deadline_ms);
            }
            server.client()?.call(&["FLUSHALL"])?;
        }
        let text = "giving deadlines takes many times as long as adding the elements";
        Err(Error::server(&server.label, text))
    }

    fn ping(&self, server: &Server, until: Instant, is_over: &AtomicBool) -> Result<Percentiles> {
        open_loop::requests(server, self.options.rate, until, is_over, |request| {
            wire::encode_command(request, &["PING"]);
        })
    }

    fn give_up(&self, deadline_ms: u64) -> Instant {
        let ahead = Duration::from_millis(deadline_ms.saturating_sub(clock::wall_ms()));
        Instant::now() + ahead + self.options.patience
    }

    fn alone(&self, server: &Server) -> Result<Alone> {
        let mut client = server.client()?;
        let floor = look(server, &mut client, u64::MAX)?.used_bytes;
        let deadline_ms = self.add_dying(server)?;
        let peak = look(server, &mut client, u64::MAX)?.used_bytes;
        let used_limit = floor + (peak - floor).max(0.0) * LEFT_OVER;
        let noise = Noise::start(&server.cpus);
        let is_over = AtomicBool::new(false);
        let quiet_ms = deadline_ms.saturating_sub(clock::wall_ms() + 100);
        let quiet_end = Instant::now() + Duration::from_millis(quiet_ms);
        let quiet = self.ping(server, quiet_end, &is_over)?;
        let give_up = self.give_up(deadline_ms);
        let (pings, looks, cpu_ns) = std::thread::scope(|scope| {
            let pinging = scope.spawn(|| self.ping(server, give_up, &is_over));
            clock::sleep_until_ms(deadline_ms);
            let cpu_ns = server.cpu_ns();
            let looks = watch(server, deadline_ms, 0, used_limit, give_up);
            is_over.store(true, Ordering::Relaxed);
            let pings = pinging.join().expect("the client does not panic")?;
            Ok::<_, Error>((pings, looks?, cpu_ns?))
        })?;
        let gone = looks.iter().find(|look| look.keys == 0);
        let is_over = |look: &&Look| look.keys == 0 && look.used_bytes <= used_limit;
        let back = looks.iter().find(is_over);
        let end_ns = looks.last().map_or(cpu_ns, |look| look.cpu_ns);
        Ok(Alone {
            gone_ms: gone.map(|look| look.after_ms),
            memory_back_ms: back.map(|look| look.after_ms),
            cpu_seconds: end_ns.saturating_sub(cpu_ns) as f64 / 1e9,
            quiet,
            pings,
            machine: noise.finish(),
            looks,
        })
    }

    /// Runs the loader, either while elements expire or alone.
    fn load(&self, server: &Server, is_beside: bool) -> Result<Loaded> {
        let deadline_ms = match is_beside {
            true => self.add_dying(server)?,
            false => clock::wall_ms() + 500,
        };
        let mut load = Load::connect(&server.label, server.address, LOADER)?;
        let noise = Noise::start(&server.cpus);
        let is_over = AtomicBool::new(false);
        let give_up = self.give_up(deadline_ms);
        // The loader's key exists from the start, so that a change of the number of keys is due to
        // the others.
        self.data.fill_beside(&mut load, server, 0..1)?;
        clock::sleep_until_ms(deadline_ms);
        let (pings, looks, seconds, cpu_ns) = std::thread::scope(|scope| {
            let pinging = scope.spawn(|| {
                let longest = Instant::now() + Duration::from_secs(3600);
                self.ping(server, longest, &is_over)
            });
            let watching = scope.spawn(|| match is_beside {
                true => watch(server, deadline_ms, BESIDE, f64::INFINITY, give_up),
                false => Ok(Vec::new()),
            });
            let (cpu, start) = (server.cpu_ns(), Instant::now());
            let rest = 1..self.options.loaded() + 1;
            let written = self.data.fill_beside(&mut load, server, rest);
            let (seconds, cpu_end) = (start.elapsed().as_secs_f64(), server.cpu_ns());
            let looks = watching.join().expect("looking does not panic");
            is_over.store(true, Ordering::Relaxed);
            let pings = pinging.join().expect("the client does not panic")?;
            written?;
            Ok::<_, Error>((pings, looks?, seconds, cpu_end?.saturating_sub(cpu?)))
        })?;
        let gone = looks.iter().find(|look| look.keys <= BESIDE);
        Ok(Loaded {
            seconds,
            cpu_seconds: cpu_ns as f64 / 1e9,
            gone_ms: gone.map(|look| look.after_ms),
            pings,
            machine: noise.finish(),
        })
    }
}

fn look(server: &Server, client: &mut Client, deadline_ms: u64) -> Result<Look> {
    let keys = client.integer(&["DBSIZE"])?.max(0) as u64;
    let after_ms = clock::wall_ms().saturating_sub(deadline_ms);
    let memory = client.info("memory")?;
    let used: Option<f64> = memory.get("used_memory").and_then(|text| text.parse().ok());
    let stats = client.info("stats")?;
    // Redis and Mayfly use the first name, Valkey the second.
    let names = ["expired_subkeys", "expired_fields"];
    let mut counts = names
        .iter()
        .filter_map(|name| stats.get(*name)?.parse().ok());
    Ok(Look {
        after_ms,
        keys,
        used_bytes: used.ok_or_else(|| Error::server(&server.label, "INFO lacks used_memory"))?,
        reclaimed: counts.next(),
        cpu_ns: server.cpu_ns()?,
    })
}

/// Polls from the deadline until only `kept` keys remain and memory is freed, or until the time
/// limit.
fn watch(
    server: &Server,
    deadline_ms: u64,
    kept: u64,
    used_limit: f64,
    give_up: Instant,
) -> Result<Vec<Look>> {
    let mut client = server.client()?;
    let mut looks: Vec<Look> = Vec::new();
    let mut gone_ms = None;
    while Instant::now() < give_up {
        let seen = look(server, &mut client, deadline_ms)?;
        looks.push(seen);
        if seen.keys <= kept {
            let waited_ms = seen.after_ms - *gone_ms.get_or_insert(seen.after_ms);
            let is_settled = seen.used_bytes <= used_limit || waited_ms > MEMORY_MS_MAX;
            if is_settled && seen.after_ms >= PINGS_MS_MIN {
                break;
            }
        }
        std::thread::sleep(POLL_PAUSE);
    }
    Ok(looks)
}
