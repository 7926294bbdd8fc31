//! Monitor that polls a server's memory at regular intervals until one TTL after the last
//! operation.

use super::clients::Shared;
use crate::client::Client;
use crate::contestant::Server;
use crate::error::{Error, Result};
use crate::process;
use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// Values read by one poll.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Look {
    pub seconds: f64,
    /// Memory in bytes, as counted by the server.
    pub used_bytes: f64,
    pub resident_bytes: f64,
    /// Number of keys in memory.
    pub keys: u64,
    /// Number of unexpired keys.
    pub living: u64,
    /// Number of operations so far.
    pub operations: u64,
}

impl Look {
    /// Returns the number of dead keys in memory.
    pub(super) fn dead(&self) -> u64 {
        self.keys.saturating_sub(self.living)
    }
}

/// A thread that polls until it is stopped.
pub(super) struct Monitor<'scope> {
    thread: ScopedJoinHandle<'scope, Result<Vec<Look>>>,
    is_over: &'scope AtomicBool,
}

impl<'scope> Monitor<'scope> {
    pub(super) fn start<'env>(
        scope: &'scope Scope<'scope, 'env>,
        server: &'scope Server,
        shared: Shared,
        pause: Duration,
        is_over: &'scope AtomicBool,
    ) -> Monitor<'scope> {
        let thread = scope.spawn(move || watch(server, &shared, pause, is_over));
        Monitor { thread, is_over }
    }

    /// Stops the thread and returns its polls.
    pub(super) fn finish(self) -> Result<Vec<Look>> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        self.thread.join().expect("the monitor does not panic")
    }
}

fn watch(
    server: &Server,
    shared: &Shared,
    pause: Duration,
    is_over: &AtomicBool,
) -> Result<Vec<Look>> {
    let mut client = server.client()?;
    let mut looks = Vec::new();
    loop {
        let is_last = is_over.load(Ordering::Relaxed);
        looks.push(look(server, shared, &mut client)?);
        if is_last {
            return Ok(looks);
        }
        // Polls are due at whole multiples of the interval. A missed poll is not repeated.
        let elapsed = shared.start.elapsed();
        let past = (elapsed.as_nanos() / pause.as_nanos().max(1)) as u32;
        let due = shared.start + pause * (past + 1);
        std::thread::park_timeout(due.saturating_duration_since(Instant::now()));
    }
}

fn look(server: &Server, shared: &Shared, client: &mut Client) -> Result<Look> {
    let memory = client.info("memory")?;
    let field = |name: &str| memory.get(name).and_then(|value| value.parse::<f64>().ok());
    let used = field("used_memory");
    let used_bytes = used.ok_or_else(|| Error::server(&server.label, "INFO lacks used_memory"))?;
    let resident_bytes = match server.pid {
        Some(pid) => process::resident_bytes(pid)? as f64,
        None => field("used_memory_rss").unwrap_or(0.0),
    };
    // The number of keys changes between the two reads. The larger one is used, so that dead keys
    // are not overestimated.
    let before = shared.living_count();
    let keys = client.integer(&["DBSIZE"])?.max(0) as u64;
    let living = before.max(shared.living_count());
    Ok(Look {
        seconds: shared.start.elapsed().as_secs_f64(),
        used_bytes,
        resident_bytes,
        keys,
        living,
        operations: shared.operations.load(Ordering::Relaxed),
    })
}
