//! The YCSB clients. Each sends one command and waits for its reply before the next.

use super::living::LiveKeys;
use super::workload::{Operation, Stream};
use crate::latency::{Latencies, Percentiles};
use crate::load::{Driver, Next};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// State shared by clients and the monitor.
#[derive(Clone)]
pub(super) struct Shared {
    pub start: Instant,
    pub operations: Arc<AtomicU64>,
    living: Arc<Mutex<LiveKeys>>,
}

impl Shared {
    pub(super) fn new() -> Shared {
        Shared {
            start: Instant::now(),
            operations: Arc::default(),
            living: Arc::default(),
        }
    }

    /// Updates or reads the number of unexpired keys at the given instant.
    fn living<T>(&self, action: impl FnOnce(&mut LiveKeys, u64) -> T) -> T {
        let mut living = self.living.lock().expect("nobody panics with the lock");
        let now_ms = self.start.elapsed().as_millis() as u64;
        action(&mut living, now_ms)
    }

    /// Returns the number of unexpired keys.
    pub(super) fn living_count(&self) -> u64 {
        self.living(|living, now_ms| living.count(now_ms))
    }
}

/// Command of an operation that awaits its reply.
#[derive(Clone, Copy)]
enum Stage {
    Get,
    Set,
    Expire,
}

pub(super) struct Step {
    operation: Operation,
    key: u64,
    ttl_ms: u64,
    stage: Stage,
    sent: Instant,
}

/// Driver that sends operations from a stream.
pub(super) struct Clients {
    stream: Stream,
    left: u64,
    /// Time at which the next operation is due, and the interval between two; `None` sends as fast
    /// as replies come.
    pace: Option<(Instant, Duration)>,
    /// Time after which no new operation begins.
    end: Option<Instant>,
    value: Vec<u8>,
    shared: Shared,
    latencies: Latencies,
    reads: u64,
    misses: u64,
    error: Option<String>,
}

/// Counts of operations and replies.
pub(super) struct Seen {
    pub latencies: Percentiles,
    pub hit_ratio: f64,
    pub error: Option<String>,
}

impl Clients {
    pub(super) fn new(
        stream: Stream,
        operations: u64,
        value_size: usize,
        shared: Shared,
    ) -> Clients {
        Clients {
            stream,
            left: operations,
            pace: None,
            end: None,
            value: crate::keys::value(value_size),
            shared,
            latencies: Latencies::new(),
            reads: 0,
            misses: 0,
            error: None,
        }
    }

    /// Limits the rate to this many operations per second, like YCSB's `-target`.
    pub(super) fn paced(mut self, target: Option<f64>) -> Clients {
        let pause = target.map(|target| Duration::from_secs_f64(1.0 / target));
        self.pace = pause.map(|pause| (self.shared.start, pause));
        self
    }

    /// Limits the duration, even if operations remain.
    pub(super) fn limited(mut self, limit: Option<Duration>) -> Clients {
        self.end = limit.map(|limit| self.shared.start + limit);
        self
    }

    pub(super) fn finish(self) -> Seen {
        let hits = self.reads - self.misses;
        Seen {
            latencies: self.latencies.percentiles(),
            hit_ratio: hits as f64 / self.reads.max(1) as f64,
            error: self.error,
        }
    }

    fn send(&self, step: Step, out: &mut Vec<u8>) -> Step {
        // A key has eight bytes, as in the paper.
        let key = format!("{:08}", step.key);
        let ttl = step.ttl_ms.to_string();
        let args: &[&[u8]] = match step.stage {
            Stage::Get => &[b"GET", key.as_bytes()],
            Stage::Set => &[b"SET", key.as_bytes(), &self.value],
            Stage::Expire => &[b"PEXPIRE", key.as_bytes(), ttl.as_bytes()],
        };
        wire::encode_command(out, args);
        step
    }
}

impl Driver for Clients {
    type Token = Step;

    fn next(&mut self, now: Instant, out: &mut Vec<u8>) -> Next<Step> {
        if self.left == 0 || self.end.is_some_and(|end| now >= end) {
            return Next::End;
        }
        if let Some((due, pause)) = &mut self.pace {
            if now < *due {
                return Next::NotBefore(*due);
            }
            *due += *pause;
        }
        self.left -= 1;
        let (operation, key, ttl_ms) = self.stream.next().expect("the stream is endless");
        let stage = match operation {
            Operation::Read | Operation::ReadModifyWrite => Stage::Get,
            Operation::Update | Operation::Insert => Stage::Set,
        };
        let step = Step {
            operation,
            key,
            ttl_ms,
            stage,
            sent: now,
        };
        Next::Request(self.send(step, out))
    }

    fn reply(&mut self, step: Step, reply: &[u8], out: &mut Vec<u8>) -> Option<Step> {
        if reply[0] == b'-' && self.error.is_none() {
            self.error = Some(String::from_utf8_lossy(reply).trim_end().into());
        }
        let stage = match step.stage {
            Stage::Get => {
                self.reads += 1;
                self.misses += u64::from(reply.starts_with(b"$-1") || reply[0] == b'_');
                (step.operation == Operation::ReadModifyWrite).then_some(Stage::Set)
            }
            Stage::Set => {
                self.shared
                    .living(|living, now_ms| living.set(step.key, now_ms));
                Some(Stage::Expire)
            }
            Stage::Expire => {
                let expire =
                    |living: &mut LiveKeys, now_ms| living.expire(step.key, step.ttl_ms, now_ms);
                self.shared.living(expire);
                None
            }
        };
        if let Some(stage) = stage {
            return Some(self.send(Step { stage, ..step }, out));
        }
        self.latencies.record(step.sent.elapsed());
        self.shared.operations.fetch_add(1, Ordering::Relaxed);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::workload::Workload;
    use super::*;

    /// Runs one operation, replying to each command, and returns the commands.
    fn commands(workload: Workload) -> (Vec<String>, Clients) {
        let stream = Stream::new(workload, 10, vec![60_000], 1);
        let mut clients = Clients::new(stream, 40, 10, Shared::new());
        let mut sent = Vec::new();
        let mut out = Vec::new();
        while let Next::Request(step) = clients.next(Instant::now(), &mut out) {
            let mut line = String::new();
            let mut step = Some(step);
            while let Some(waiting) = step {
                let words = String::from_utf8_lossy(&out).into_owned();
                line += words.lines().nth(2).unwrap_or_default();
                line += " ";
                out.clear();
                step = clients.reply(waiting, b"$-1\r\n", &mut out);
            }
            sent.push(line.trim_end().to_owned());
        }
        (sent, clients)
    }

    #[test]
    fn paced_operations_are_not_sent_before_they_are_due() {
        let shared = Shared::new();
        let start = shared.start;
        let stream = Stream::new(Workload::A, 10, vec![60_000], 1);
        let mut clients = Clients::new(stream, 3, 10, shared).paced(Some(10.0));
        let mut sends = |ms| {
            let now = start + Duration::from_millis(ms);
            matches!(clients.next(now, &mut Vec::new()), Next::Request(_))
        };
        assert_eq!(
            [0, 50, 99, 100, 150, 200].map(&mut sends),
            [true, false, false, true, false, true]
        );
    }

    #[test]
    fn a_run_ends_at_its_limit() {
        let shared = Shared::new();
        let start = shared.start;
        let stream = Stream::new(Workload::A, 10, vec![60_000], 1);
        let clients = Clients::new(stream, 3, 10, shared);
        let mut clients = clients.limited(Some(Duration::from_secs(1)));
        let mut next = |ms| clients.next(start + Duration::from_millis(ms), &mut Vec::new());
        assert!(matches!(next(999), Next::Request(_)));
        assert!(matches!(next(1_000), Next::End));
    }

    #[test]
    fn every_write_is_followed_by_its_expire() {
        let cases = [
            (Workload::A, vec!["GET", "SET PEXPIRE"]),
            (Workload::F, vec!["GET", "GET SET PEXPIRE"]),
            (Workload::I, vec!["GET", "SET PEXPIRE"]),
        ];
        for (workload, wanted) in cases {
            let (sent, clients) = commands(workload);
            assert_eq!(sent.len(), 40);
            assert!(
                sent.iter().all(|line| wanted.contains(&line.as_str())),
                "{sent:?}"
            );
            assert!(
                wanted
                    .iter()
                    .all(|line| sent.iter().any(|sent| sent == line))
            );
            assert_eq!(clients.shared.operations.load(Ordering::Relaxed), 40);
            assert!(clients.shared.living_count() > 0);
            let seen = clients.finish();
            assert_eq!((seen.hit_ratio, seen.latencies.count), (0.0, 40));
        }
    }
}
