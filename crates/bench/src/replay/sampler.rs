//! Sampler that polls the memory of a server during a replay.

use crate::client::Client;
use crate::contestant::Server;
use crate::error::{Error, Result};
use crate::process;
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

const PAUSE: Duration = Duration::from_millis(100);

/// Measurements over time, in bytes.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Series {
    pub mean: f64,
    pub peak: f64,
    pub last: f64,
}

/// Memory of a server during a replay.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Memory {
    pub looks: usize,
    pub used: Series,
    pub resident: Series,
    /// Bytes held beyond their deadline, estimated as described in the module `replay`.
    pub beyond_deadline: Series,
    /// Backlog reported by the server itself; `None` if it reports none.
    pub backlog: Option<Series>,
}

impl Memory {
    /// Returns the series with their names.
    pub(super) fn named(&self) -> Vec<(&'static str, Series)> {
        let mut named = vec![
            ("used", self.used),
            ("resident", self.resident),
            ("beyond its deadline (estimate)", self.beyond_deadline),
        ];
        named.extend(
            self.backlog
                .map(|backlog| ("backlog as the server reports it", backlog)),
        );
        named
    }
}

#[derive(Clone, Copy)]
struct Look {
    used: f64,
    resident: f64,
    beyond_deadline: f64,
    backlog: Option<f64>,
}

/// A thread that polls until it is stopped.
pub(super) struct Sampler {
    living: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<Vec<Look>>>>,
}

struct Watcher {
    client: Client,
    label: String,
    pid: Option<u32>,
    empty_used: f64,
    living: Arc<AtomicU64>,
}

impl Sampler {
    /// Starts to poll a server, which must be empty.
    pub(super) fn start(server: &Server) -> Result<Sampler> {
        let mut client = server.client()?;
        let living = Arc::new(AtomicU64::new(0));
        let is_over = Arc::new(AtomicBool::new(false));
        let mut watcher = Watcher {
            empty_used: client.info_number("memory", "used_memory")?,
            client,
            label: server.label.clone(),
            pid: server.pid,
            living: living.clone(),
        };
        let ends = is_over.clone();
        let thread = std::thread::spawn(move || {
            let mut looks = Vec::new();
            loop {
                let is_last = ends.load(Ordering::Relaxed);
                looks.push(watcher.look()?);
                if is_last {
                    return Ok(looks);
                }
                std::thread::park_timeout(PAUSE);
            }
        });
        Ok(Sampler {
            living,
            is_over,
            thread: Some(thread),
        })
    }

    /// Returns the counter in which the client stores the number of unexpired keys.
    pub(super) fn living(&self) -> Arc<AtomicU64> {
        self.living.clone()
    }

    /// Polls a last time and returns all measurements.
    pub(super) fn finish(&mut self) -> Result<Memory> {
        self.is_over.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("it is finished once");
        thread.thread().unpark();
        let looks = thread.join().expect("the sampler does not panic")?;
        let has_backlog = looks.iter().all(|look| look.backlog.is_some());
        Ok(Memory {
            looks: looks.len(),
            used: series(&looks, |look| look.used),
            resident: series(&looks, |look| look.resident),
            beyond_deadline: series(&looks, |look| look.beyond_deadline),
            backlog: has_backlog.then(|| series(&looks, |look| look.backlog.unwrap_or(0.0))),
        })
    }
}

impl Watcher {
    fn look(&mut self) -> Result<Look> {
        let memory = self.client.info("memory")?;
        let field = |name: &str| memory.get(name).and_then(|value| value.parse::<f64>().ok());
        let used = field("used_memory");
        let used = used.ok_or_else(|| Error::server(&self.label, "INFO lacks used_memory"))?;
        let resident = match self.pid {
            Some(pid) => process::resident_bytes(pid)? as f64,
            None => field("used_memory_rss").unwrap_or(0.0),
        };
        let living_before = self.living.load(Ordering::Relaxed);
        let held = self.client.integer(&["DBSIZE"])?.max(0) as u64;
        // The number of keys changes between the two reads. The larger one is used, so that the
        // estimate of dead keys remains a lower bound.
        let living = living_before.max(self.living.load(Ordering::Relaxed));
        let dead = held.saturating_sub(living) as f64;
        let key_bytes = (used - self.empty_used).max(0.0) / held.max(1) as f64;
        let expiry = self.client.info("expiry")?;
        let backlog = expiry
            .get("expired_backlog_bytes")
            .and_then(|value| value.parse().ok());
        Ok(Look {
            used,
            resident,
            beyond_deadline: dead * key_bytes,
            backlog,
        })
    }
}

fn series(looks: &[Look], value: impl Fn(&Look) -> f64) -> Series {
    let values: Vec<f64> = looks.iter().map(value).collect();
    Series {
        mean: values.iter().sum::<f64>() / values.len().max(1) as f64,
        peak: values.iter().copied().fold(0.0, f64::max),
        last: values.last().copied().unwrap_or(0.0),
    }
}
