//! Client of a look-aside cache: it sends a GET and, after a miss, a SET with a TTL.

use crate::clock;
use crate::error::{Error, Result};
use crate::latency::{Latencies, Percentiles};
use crate::load::{Driver, Next};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use trace::Requests;

/// Rule that determines when requests are sent.
pub(super) enum Pace {
    Closed,
    Open { start: Instant, pause_ns: f64 },
}

/// Request in flight.
pub(super) enum Token {
    Get {
        key: u64,
        size: u32,
        since: Instant,
    },
    Set {
        key: u64,
        ttl_ms: Option<u64>,
        since: Instant,
    },
}

pub(super) struct CacheAside<'a, F> {
    requests: Requests<'a>,
    ttl_ms: F,
    pace: Pace,
    sent: u64,
    hits: u64,
    misses: u64,
    gets: Latencies,
    sets: Latencies,
    /// Bytes from which values are cut. It grows to the size of the largest object.
    value: Vec<u8>,
    living: LiveKeys,
    problem: Option<Problem>,
}

enum Problem {
    Trace(trace::Error),
    Reply(String),
}

/// Counters of a replay.
pub(super) struct Counts {
    pub hits: u64,
    pub misses: u64,
    pub gets: Percentiles,
    pub sets: Percentiles,
}

impl<'a, F: Fn(u64) -> Option<u64>> CacheAside<'a, F> {
    /// Creates the client. `ttl_ms` returns a key's TTL; the number of unexpired keys is stored in
    /// `published`.
    pub(super) fn new(
        requests: Requests<'a>,
        ttl_ms: F,
        pace: Pace,
        published: Arc<AtomicU64>,
    ) -> Self {
        CacheAside {
            requests,
            ttl_ms,
            pace,
            sent: 0,
            hits: 0,
            misses: 0,
            gets: Latencies::new(),
            sets: Latencies::new(),
            value: Vec::new(),
            living: LiveKeys::new(published),
            problem: None,
        }
    }

    pub(super) fn finish(self, label: &str) -> Result<Counts> {
        match self.problem {
            Some(Problem::Trace(error)) => return Err(error.into()),
            Some(Problem::Reply(text)) => {
                return Err(Error::server(label, format!("it answered {text}")));
            }
            None => {}
        }
        Ok(Counts {
            hits: self.hits,
            misses: self.misses,
            gets: self.gets.percentiles(),
            sets: self.sets.percentiles(),
        })
    }

    /// Appends a SET of a value of `size` bytes.
    fn encode_set(&mut self, out: &mut Vec<u8>, key: u64, size: u32, ttl_ms: Option<u64>) {
        let size = size as usize;
        if self.value.len() < size {
            self.value.resize(size, b'v');
        }
        let key = format!("key:{key:012}");
        let value = &self.value[..size];
        match ttl_ms {
            Some(ttl_ms) => {
                let ttl = ttl_ms.to_string();
                wire::encode_command(out, &[b"SET", key.as_bytes(), value, b"PX", ttl.as_bytes()]);
            }
            None => wire::encode_command(out, &[b"SET", key.as_bytes(), value]),
        }
    }
}

impl<F: Fn(u64) -> Option<u64>> Driver for CacheAside<'_, F> {
    type Token = Token;

    fn next(&mut self, now: Instant, out: &mut Vec<u8>) -> Next<Token> {
        let since = match self.pace {
            Pace::Closed => now,
            Pace::Open { start, pause_ns } => {
                start + Duration::from_nanos((self.sent as f64 * pause_ns) as u64)
            }
        };
        if self.problem.is_some() {
            return Next::End;
        }
        if since > now {
            return Next::NotBefore(since);
        }
        match self.requests.next() {
            Some(Ok(request)) => {
                self.sent += 1;
                let key = format!("key:{:012}", request.key);
                wire::encode_command(out, &[b"GET", key.as_bytes()]);
                Next::Request(Token::Get {
                    key: request.key,
                    size: request.value_size,
                    since,
                })
            }
            Some(Err(error)) => {
                self.problem = Some(Problem::Trace(error));
                Next::End
            }
            None => Next::End,
        }
    }

    fn reply(&mut self, token: Token, reply: &[u8], out: &mut Vec<u8>) -> Option<Token> {
        let now = Instant::now();
        if reply[0] == b'-' {
            let text = String::from_utf8_lossy(reply).trim_end().to_string();
            self.problem.get_or_insert(Problem::Reply(text));
        }
        match token {
            Token::Get { key, size, since } => {
                self.gets.record(now - since);
                if !(reply.starts_with(b"$-1") || reply[0] == b'_') {
                    self.hits += 1;
                    return None;
                }
                self.misses += 1;
                let ttl_ms = (self.ttl_ms)(key);
                self.encode_set(out, key, size, ttl_ms);
                self.living.set_sent();
                Some(Token::Set {
                    key,
                    ttl_ms,
                    since: now,
                })
            }
            Token::Set { key, ttl_ms, since } => {
                self.sets.record(now - since);
                self.living.set_done(key, ttl_ms, clock::wall_ms());
                None
            }
        }
    }
}

/// Counter of the keys that have a deadline in the future, or none.
struct LiveKeys {
    /// Deadline of each key; `u64::MAX` for none.
    deadlines: HashMap<u64, u64>,
    /// Deadlines in ascending order. Some belong to keys whose deadline has since been replaced.
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    in_flight: u64,
    published: Arc<AtomicU64>,
}

impl LiveKeys {
    fn new(published: Arc<AtomicU64>) -> LiveKeys {
        LiveKeys {
            deadlines: HashMap::new(),
            queue: BinaryHeap::new(),
            in_flight: 0,
            published,
        }
    }

    fn set_sent(&mut self) {
        self.in_flight += 1;
        self.publish();
    }

    fn set_done(&mut self, key: u64, ttl_ms: Option<u64>, now_ms: u64) {
        self.in_flight -= 1;
        let deadline_ms = ttl_ms.map_or(u64::MAX, |ttl_ms| now_ms.saturating_add(ttl_ms));
        self.deadlines.insert(key, deadline_ms);
        if deadline_ms != u64::MAX {
            self.queue.push(Reverse((deadline_ms, key)));
        }
        while let Some(&Reverse((deadline_ms, key))) = self.queue.peek() {
            if deadline_ms >= now_ms {
                break;
            }
            self.queue.pop();
            if self.deadlines.get(&key) == Some(&deadline_ms) {
                self.deadlines.remove(&key);
            }
        }
        self.publish();
    }

    fn publish(&self) {
        let count = self.deadlines.len() as u64 + self.in_flight;
        self.published.store(count, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_live_until_their_last_deadline_has_passed() {
        let published = Arc::new(AtomicU64::new(0));
        let mut living = LiveKeys::new(published.clone());
        let mut set = |key, ttl_ms, now_ms| {
            living.set_sent();
            living.set_done(key, ttl_ms, now_ms);
            published.load(Ordering::Relaxed)
        };
        assert_eq!(set(1, Some(100), 0), 1);
        assert_eq!(set(2, None, 50), 2);
        // Key 1 gets a later deadline before its first one passes.
        assert_eq!(set(1, Some(100), 60), 2);
        assert_eq!(set(3, Some(1), 160), 3);
        assert_eq!(set(4, Some(1), 162), 2);
    }
}
