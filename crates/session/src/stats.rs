//! Counters. Each worker has its own set, so that no two workers write to the same cache line;
//! readers add them up.

mod prefixes;

use crate::histogram::{Histogram, Summary};
use crate::spec::COMMANDS_MAX;
pub use prefixes::{PrefixCounts, PrefixEvent, Prefixes};
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters of one command on one worker.
#[derive(Default)]
pub struct CommandStats {
    /// Number of finished calls.
    pub calls: AtomicU64,
    /// Total duration of the calls in nanoseconds.
    pub nanos: AtomicU64,
    /// Number of calls refused before they ran.
    pub rejected: AtomicU64,
    /// Number of calls that returned an error.
    pub failed: AtomicU64,
    /// Distribution of the duration in microseconds. Short calls that ran in one batch are recorded
    /// with the batch's mean.
    pub micros: Histogram,
}

/// Counters of one worker for requests in memcached's protocol.
#[derive(Debug, Default)]
pub struct Counts {
    /// Number of requests.
    pub requests: AtomicU64,
    /// Number of keys in read requests.
    pub gets: AtomicU64,
    /// Number of those keys that were found.
    pub get_hits: AtomicU64,
    /// Number of storage commands.
    pub sets: AtomicU64,
    /// Number of deleted keys.
    pub delete_hits: AtomicU64,
    /// Number of deletions of missing keys.
    pub delete_misses: AtomicU64,
    /// Number of increments.
    pub incr_hits: AtomicU64,
    /// Number of increments of missing keys.
    pub incr_misses: AtomicU64,
    /// Number of decrements.
    pub decr_hits: AtomicU64,
    /// Number of decrements of missing keys.
    pub decr_misses: AtomicU64,
    /// Number of values stored under a CAS number.
    pub cas_hits: AtomicU64,
    /// Number of storage commands with a CAS number for missing keys.
    pub cas_misses: AtomicU64,
    /// Number of storage commands whose CAS number was not the item's.
    pub cas_badval: AtomicU64,
    /// Number of stored values.
    pub stored: AtomicU64,
    /// Number of values refused because of their length.
    pub too_large: AtomicU64,
    /// Number of values refused because memory was full.
    pub no_memory: AtomicU64,
    /// Number of keys in requests that set a deadline and may also read.
    pub touches: AtomicU64,
    /// Number of touched keys.
    pub touch_hits: AtomicU64,
    /// Number of `flush_all` requests.
    pub flushes: AtomicU64,
    /// Number of meta requests.
    pub metas: AtomicU64,
    /// Number of authentications.
    pub auths: AtomicU64,
    /// Number of failed authentications.
    pub auth_errors: AtomicU64,
}

impl Counts {
    /// Sets all counters to 0.
    fn reset(&self) {
        for counter in [
            &self.gets,
            &self.get_hits,
            &self.sets,
            &self.delete_hits,
            &self.delete_misses,
            &self.incr_hits,
            &self.incr_misses,
            &self.decr_hits,
            &self.decr_misses,
            &self.cas_hits,
            &self.cas_misses,
            &self.cas_badval,
            &self.stored,
            &self.too_large,
            &self.no_memory,
            &self.touches,
            &self.touch_hits,
            &self.flushes,
            &self.metas,
            &self.auths,
            &self.auth_errors,
        ] {
            counter.store(0, Relaxed);
        }
    }
}

/// Counters of one worker.
#[repr(align(128))]
#[derive(Default)]
pub struct WorkerStats {
    /// Counters of each command, by `SpecIndex`.
    pub commands: Vec<CommandStats>,
    /// Bytes read from clients.
    pub input_bytes: AtomicU64,
    /// Bytes written to clients.
    pub output_bytes: AtomicU64,
    /// Number of iterations of the event loop.
    pub turns: AtomicU64,
    /// Number of reads from sockets.
    pub reads: AtomicU64,
    /// Number of writes to sockets.
    pub writes: AtomicU64,
    /// Distribution of the time from a key's deadline to its removal by the expiry cycle, in
    /// microseconds.
    pub expiry_lag_us: Histogram,
    /// Number of keys that the expiry cycle removed.
    pub expired_keys: AtomicU64,
    /// Total time spent in the expiry cycle in microseconds.
    pub expiry_micros: AtomicU64,
    /// Longest single call of the expiry cycle in microseconds.
    pub expiry_slice_us_max: AtomicU64,
    /// Number of the thread in the operating system.
    pub thread_id: AtomicU64,
    /// Time of the last periodic task in milliseconds of a [`Moment`](crate::clock::Moment); 0
    /// before the first.
    pub alive_ms: AtomicU64,
    /// Number of open connections of the worker.
    pub connections: AtomicU64,
    /// Requests in memcached's protocol.
    pub memcached: Counts,
    /// Number of reads that found a key in the segment engine.
    pub segment_hits: AtomicU64,
    /// Number of reads that did not find a key in the segment engine.
    pub segment_misses: AtomicU64,
}

/// Counters of all workers, and shared counters that change rarely.
pub struct Stats {
    /// Counters of each worker.
    pub workers: Vec<WorkerStats>,
    /// Number of accepted connections.
    pub connections_received: AtomicU64,
    /// Number of connections refused because of `maxclients`.
    pub connections_rejected: AtomicU64,
    /// Number of clients disconnected because of their output buffer.
    pub output_limit_disconnections: AtomicU64,
    /// Number of clients disconnected because of `maxmemory-clients`.
    pub evicted_clients: AtomicU64,
    /// Number of clients disconnected because no memory for their buffers could be allocated.
    pub allocation_failure_disconnections: AtomicU64,
    /// Number of clients disconnected because of their query buffer.
    pub query_limit_disconnections: AtomicU64,
    /// Number of error replies.
    pub error_replies: AtomicU64,
    /// Number of requests for unknown commands.
    pub unexpected_commands: AtomicU64,
    /// Counters of memcached requests by prefix of their keys.
    pub prefixes: Prefixes,
    /// Highest memory use observed, in bytes.
    pub peak_bytes: AtomicU64,
    /// Time of this observation in seconds since 1970.
    pub peak_seconds: AtomicU64,
    /// Number of error replies by error code, which is the first word of the reply.
    errors: Mutex<HashMap<String, u64>>,
    rates: Mutex<Rates>,
}

/// Maximum number of error codes counted separately. Later codes count only towards the total, as
/// in Redis.
const ERROR_CODES_MAX: usize = 128;
/// Number of samples that a rate is averaged over. A sample is taken every 100 ms.
const RATE_SAMPLES: usize = 16;

#[derive(Default)]
struct Rates {
    last: [u64; 5],
    last_us: u64,
    samples: [[u64; 5]; RATE_SAMPLES],
    next: usize,
}

/// Recent rates per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RatesNow {
    /// Executed commands.
    pub commands: u64,
    /// Bytes received.
    pub input_bytes: u64,
    /// Bytes sent.
    pub output_bytes: u64,
    /// Expired keys.
    pub expired_keys: u64,
    /// Iterations of the event loops.
    pub turns: u64,
}

impl Stats {
    /// Creates the counters for the given number of workers.
    pub fn new(threads: usize) -> Stats {
        let worker = || WorkerStats {
            commands: std::iter::repeat_with(CommandStats::default)
                .take(COMMANDS_MAX)
                .collect(),
            ..WorkerStats::default()
        };
        Stats {
            workers: (0..threads).map(|_| worker()).collect(),
            connections_received: AtomicU64::new(0),
            connections_rejected: AtomicU64::new(0),
            output_limit_disconnections: AtomicU64::new(0),
            evicted_clients: AtomicU64::new(0),
            allocation_failure_disconnections: AtomicU64::new(0),
            query_limit_disconnections: AtomicU64::new(0),
            error_replies: AtomicU64::new(0),
            unexpected_commands: AtomicU64::new(0),
            prefixes: Prefixes::default(),
            peak_bytes: AtomicU64::new(0),
            peak_seconds: AtomicU64::new(0),
            errors: Mutex::new(HashMap::new()),
            rates: Mutex::new(Rates::default()),
        }
    }

    /// Sets the counters of memcached's requests to 0.
    pub fn reset_memcached(&self) {
        for worker in &self.workers {
            worker.memcached.reset();
        }
        self.prefixes.reset();
    }

    /// Records the memory in use if it is a new peak.
    pub fn note_peak(&self, bytes: u64, now_seconds: u64) {
        if bytes > self.peak_bytes.fetch_max(bytes, Relaxed) {
            self.peak_seconds.store(now_seconds, Relaxed);
        }
    }

    /// Returns the sum of one counter over all workers.
    pub fn sum(&self, counter: impl Fn(&WorkerStats) -> &AtomicU64) -> u64 {
        self.workers
            .iter()
            .map(|worker| counter(worker).load(Relaxed))
            .sum()
    }

    /// Returns the number of executed commands and memcached requests.
    pub fn commands_processed(&self) -> u64 {
        let of = |worker: &WorkerStats| -> u64 {
            let calls = worker.commands.iter().map(|stats| &stats.calls);
            let calls = calls.chain([&worker.memcached.requests]);
            calls.map(|calls| calls.load(Relaxed)).sum()
        };
        self.workers.iter().map(of).sum()
    }

    /// Returns the distribution of the expiry lag over all workers.
    pub fn expiry_lag(&self) -> Summary {
        Summary::of(self.workers.iter().map(|worker| &worker.expiry_lag_us))
    }

    /// Returns the distribution of one command's duration over all workers.
    pub fn latency(&self, index: usize) -> Summary {
        Summary::of(
            self.workers
                .iter()
                .map(|worker| &worker.commands[index].micros),
        )
    }

    /// Counts an error reply under its first word.
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
        let mut errors = self.errors.lock().expect("the lock is not poisoned");
        if let Some(count) = errors.get_mut(code) {
            *count += 1;
        } else if errors.len() < ERROR_CODES_MAX {
            errors.insert(code.to_owned(), 1);
        }
    }

    /// Returns the number of error replies by code, sorted by code.
    pub fn errors(&self) -> Vec<(String, u64)> {
        let errors = self.errors.lock().expect("the lock is not poisoned");
        let mut all: Vec<_> = errors
            .iter()
            .map(|(code, count)| (code.clone(), *count))
            .collect();
        all.sort();
        all
    }

    /// Records one sample of the rates. Called about every 100 ms.
    pub fn sample_rates(&self, now_us: u64) {
        let current = [
            self.commands_processed(),
            self.sum(|worker| &worker.input_bytes),
            self.sum(|worker| &worker.output_bytes),
            self.sum(|worker| &worker.expired_keys),
            self.sum(|worker| &worker.turns),
        ];
        let mut rates = self.rates.lock().expect("the lock is not poisoned");
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

    /// Returns the mean rates of the recent samples.
    pub fn rates(&self) -> RatesNow {
        let rates = self.rates.lock().expect("the lock is not poisoned");
        let count = rates.next.clamp(1, RATE_SAMPLES) as u64;
        let mean = |at: usize| rates.samples.iter().map(|sample| sample[at]).sum::<u64>() / count;
        RatesNow {
            commands: mean(0),
            input_bytes: mean(1),
            output_bytes: mean(2),
            expired_keys: mean(3),
            turns: mean(4),
        }
    }

    /// Sets the counters to zero, as CONFIG RESETSTAT requires.
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
            &self.evicted_clients,
            &self.allocation_failure_disconnections,
            &self.query_limit_disconnections,
            &self.error_replies,
            &self.unexpected_commands,
        ] {
            counter.store(0, Relaxed);
        }
        self.errors
            .lock()
            .expect("the lock is not poisoned")
            .clear();
        *self.rates.lock().expect("the lock is not poisoned") = Rates::default();
    }
}
