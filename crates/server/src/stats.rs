//! Counters: one set per worker, so that no two write to the same cache line; summed when asked.

use crate::command;
use crate::histogram::{Histogram, Summary};
use crate::memcached::Counts;
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What one command did on one worker.
#[derive(Default)]
pub struct CommandStats {
    /// Finished calls.
    pub calls: AtomicU64,
    /// Their time in nanoseconds.
    pub nanos: AtomicU64,
    /// Refused before they ran.
    pub rejected: AtomicU64,
    /// Answered with an error.
    pub failed: AtomicU64,
    /// Microseconds per call; short ones that ran in a row share the row's mean.
    pub micros: Histogram,
}

/// One worker's counters.
#[repr(align(128))]
#[derive(Default)]
pub struct WorkerStats {
    /// By `SpecIndex`.
    pub commands: Vec<CommandStats>,
    /// Bytes read from clients.
    pub input_bytes: AtomicU64,
    /// Bytes written to clients.
    pub output_bytes: AtomicU64,
    /// Bytes held in clients' buffers now.
    pub buffer_bytes: AtomicU64,
    /// Turns of the loop.
    pub turns: AtomicU64,
    /// Reads and writes of sockets.
    pub reads: AtomicU64,
    /// See `reads`.
    pub writes: AtomicU64,
    /// Microseconds from a key's deadline to its removal by the expiry cycle.
    pub expiry_lag_us: Histogram,
    /// Keys that the expiry cycle removed.
    pub expired_keys: AtomicU64,
    /// Microseconds spent on it.
    pub expiry_micros: AtomicU64,
    /// The longest one call of it took, in microseconds.
    pub expiry_slice_us_max: AtomicU64,
    /// Connections it serves.
    pub connections: AtomicU64,
    /// Requests in memcached's protocol.
    pub memcached: Counts,
    /// Reads that found a key in the segment engine.
    pub segment_hits: AtomicU64,
    /// Reads that did not.
    pub segment_misses: AtomicU64,
}

/// All workers' counters, and those that are touched rarely.
pub struct Stats {
    /// By worker.
    pub workers: Vec<WorkerStats>,
    /// Connections accepted.
    pub connections_received: AtomicU64,
    /// Connections refused for `maxclients`.
    pub connections_rejected: AtomicU64,
    /// Clients cut off for their output buffers.
    pub output_limit_disconnections: AtomicU64,
    /// Clients cut off for their query buffers.
    pub query_limit_disconnections: AtomicU64,
    /// Error replies.
    pub error_replies: AtomicU64,
    /// Commands that do not exist.
    pub unexpected_commands: AtomicU64,
    /// AUTH that failed.
    pub authentication_failures: AtomicU64,
    /// The most bytes in use seen.
    pub peak_bytes: AtomicU64,
    /// By the error's first word.
    errors: Mutex<HashMap<String, u64>>,
    rates: Mutex<Rates>,
}

/// The most error codes told apart; later ones are only counted in sum, as in Redis.
const ERROR_CODES_MAX: usize = 128;
/// Samples that an instantaneous rate is the mean of, one each tick of 100 ms.
const RATE_SAMPLES: usize = 16;

#[derive(Default)]
struct Rates {
    last: [u64; 4],
    last_us: u64,
    samples: [[u64; 4]; RATE_SAMPLES],
    next: usize,
}

/// What `Stats::rates` tells, per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RatesNow {
    /// Commands.
    pub commands: u64,
    /// Bytes in.
    pub input_bytes: u64,
    /// Bytes out.
    pub output_bytes: u64,
    /// Keys expired.
    pub expired_keys: u64,
}

impl Stats {
    /// Counters for so many workers.
    pub fn new(threads: usize) -> Stats {
        let worker = || WorkerStats {
            commands: command::table()
                .iter()
                .map(|_| CommandStats::default())
                .collect(),
            ..WorkerStats::default()
        };
        Stats {
            workers: (0..threads).map(|_| worker()).collect(),
            connections_received: AtomicU64::new(0),
            connections_rejected: AtomicU64::new(0),
            output_limit_disconnections: AtomicU64::new(0),
            query_limit_disconnections: AtomicU64::new(0),
            error_replies: AtomicU64::new(0),
            unexpected_commands: AtomicU64::new(0),
            authentication_failures: AtomicU64::new(0),
            peak_bytes: AtomicU64::new(0),
            errors: Mutex::new(HashMap::new()),
            rates: Mutex::new(Rates::default()),
        }
    }

    /// One counter, over all workers.
    pub fn sum(&self, counter: impl Fn(&WorkerStats) -> &AtomicU64) -> u64 {
        self.workers
            .iter()
            .map(|worker| counter(worker).load(Relaxed))
            .sum()
    }

    /// Commands that have run.
    pub fn commands_processed(&self) -> u64 {
        let of = |worker: &WorkerStats| -> u64 {
            let calls = worker.commands.iter().map(|stats| &stats.calls);
            let calls = calls.chain([&worker.memcached.requests]);
            calls.map(|calls| calls.load(Relaxed)).sum()
        };
        self.workers.iter().map(of).sum()
    }

    /// How late keys were removed, over all workers.
    pub fn expiry_lag(&self) -> Summary {
        Summary::of(self.workers.iter().map(|worker| &worker.expiry_lag_us))
    }

    /// How long one command's calls took, over all workers.
    pub fn latency(&self, index: usize) -> Summary {
        Summary::of(
            self.workers
                .iter()
                .map(|worker| &worker.commands[index].micros),
        )
    }

    /// Counts an error reply by its first word.
    pub fn count_error(&self, reply: &[u8]) {
        self.error_replies.fetch_add(1, Relaxed);
        let text = reply.strip_prefix(b"-").unwrap_or(reply);
        let end = text
            .iter()
            .position(|byte| byte.is_ascii_whitespace())
            .unwrap_or(text.len())
            .min(64);
        let Ok(code) = std::str::from_utf8(&text[..end]) else {
            return;
        };
        let mut errors = self.errors.lock().expect("no holder panics");
        if let Some(count) = errors.get_mut(code) {
            *count += 1;
        } else if errors.len() < ERROR_CODES_MAX {
            errors.insert(code.to_owned(), 1);
        }
    }

    /// Error replies by code, sorted.
    pub fn errors(&self) -> Vec<(String, u64)> {
        let errors = self.errors.lock().expect("no holder panics");
        let mut all: Vec<_> = errors
            .iter()
            .map(|(code, count)| (code.clone(), *count))
            .collect();
        all.sort();
        all
    }

    /// Takes one sample of the rates; called about every 100 ms.
    pub fn sample_rates(&self, now_us: u64) {
        let current = [
            self.commands_processed(),
            self.sum(|worker| &worker.input_bytes),
            self.sum(|worker| &worker.output_bytes),
            self.sum(|worker| &worker.expired_keys),
        ];
        let mut rates = self.rates.lock().expect("no holder panics");
        let span_us = now_us.saturating_sub(rates.last_us);
        if rates.last_us != 0 && span_us > 0 {
            let slot = rates.next % RATE_SAMPLES;
            for (at, current) in current.iter().enumerate() {
                let grown = current.saturating_sub(rates.last[at]);
                rates.samples[slot][at] = grown * 1_000_000 / span_us;
            }
            rates.next += 1;
        }
        rates.last = current;
        rates.last_us = now_us;
    }

    /// Means of the last samples.
    pub fn rates(&self) -> RatesNow {
        let rates = self.rates.lock().expect("no holder panics");
        let count = rates.next.clamp(1, RATE_SAMPLES) as u64;
        let mean = |at: usize| rates.samples.iter().map(|sample| sample[at]).sum::<u64>() / count;
        RatesNow {
            commands: mean(0),
            input_bytes: mean(1),
            output_bytes: mean(2),
            expired_keys: mean(3),
        }
    }

    /// CONFIG RESETSTAT.
    pub fn reset(&self) {
        for worker in &self.workers {
            for stats in &worker.commands {
                for counter in [&stats.calls, &stats.nanos, &stats.rejected, &stats.failed] {
                    counter.store(0, Relaxed);
                }
                stats.micros.reset();
            }
            for counter in [
                &worker.input_bytes,
                &worker.output_bytes,
                &worker.turns,
                &worker.reads,
                &worker.writes,
                &worker.expired_keys,
                &worker.expiry_micros,
                &worker.expiry_slice_us_max,
                &worker.segment_hits,
                &worker.segment_misses,
            ] {
                counter.store(0, Relaxed);
            }
            worker.expiry_lag_us.reset();
        }
        for counter in [
            &self.connections_received,
            &self.connections_rejected,
            &self.output_limit_disconnections,
            &self.query_limit_disconnections,
            &self.error_replies,
            &self.unexpected_commands,
            &self.authentication_failures,
        ] {
            counter.store(0, Relaxed);
        }
        self.errors.lock().expect("no holder panics").clear();
        *self.rates.lock().expect("no holder panics") = Rates::default();
    }
}
