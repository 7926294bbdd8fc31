//! Client of a look-aside cache: a read and, after a miss, a write of the missed object.
//!
//! Many requests are in flight at a time, but requests for one key keep their order. If a read is
//! sent while the missed object of its key is about to be written, it would be a hit in a
//! sequential replay. If it misses, it therefore counts as a hit, and the object is not written
//! again. The report gives the number of such reads.

use super::workload::{TraceRequest, Workload};
use crate::error::{Error, Result};
use crate::load::{Driver, Next};
use crate::protocol::{Answer, Protocol};
use serde::Serialize;
use std::collections::HashMap;
use std::time::{Duration, Instant};
use trace::Lifetimes;
use trace::Op;

/// Maximum time by which a request may be sent early, so that a loader can sleep instead of
/// polling.
const EARLY: Duration = Duration::from_millis(1);

/// Schedule of requests, and the factor from trace time to real time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    pub start: Instant,
    /// Seconds of the replay for each second of the trace.
    pub scale: f64,
}

/// Counters of a replay.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Counts {
    /// Number of reads.
    pub reads: u64,
    pub misses: u64,
    /// Number of reads that count as hits because the missed object was about to be written.
    pub overtaken: u64,
    pub writes: u64,
    /// Number of writes that the server refused.
    pub refused: u64,
    /// Maximum delay of a request past its due time, in milliseconds.
    pub late_ms_max: f64,
}

/// Request in flight.
pub(super) struct Token {
    index: usize,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Read { is_alone: bool },
    Write,
    Delete,
}

pub(super) struct LookAside<'a> {
    workload: &'a Workload,
    lifetimes: &'a Lifetimes,
    seed: u64,
    protocol: Protocol,
    pace: Option<Pace>,
    next: usize,
    under_way: HashMap<u64, u32>,
    key: Vec<u8>,
    /// Bytes from which values are cut. It grows to the size of the largest object.
    value: Vec<u8>,
    counts: Counts,
    problem: Option<String>,
}

impl<'a> LookAside<'a> {
    pub(super) fn new(
        workload: &'a Workload,
        lifetimes: &'a Lifetimes,
        seed: u64,
        protocol: Protocol,
        pace: Option<Pace>,
    ) -> Self {
        LookAside {
            workload,
            lifetimes,
            seed,
            protocol,
            pace,
            next: 0,
            under_way: HashMap::new(),
            key: Vec::new(),
            value: Vec::new(),
            counts: Counts::default(),
            problem: None,
        }
    }

    /// Returns the counts of the replay.
    pub(super) fn finish(self, label: &str) -> Result<Counts> {
        match self.problem {
            Some(text) => Err(Error::server(label, format!("it answered {text}"))),
            None => Ok(self.counts),
        }
    }

    fn write(&mut self, asked: &TraceRequest, out: &mut Vec<u8>) {
        let size = asked.value_size();
        if self.value.len() < size {
            self.value.resize(size, b'v');
        }
        let scale = self.pace.map_or(1.0, |pace| pace.scale);
        let ttl = asked.lifetime_ms(self.lifetimes, self.seed);
        // memcached counts TTLs in whole seconds, so that the other servers get whole seconds, too.
        let ttl = ttl.map(|ttl_ms| (ttl_ms as f64 * scale / 1000.0).round() as u64);
        asked.key(&mut self.key);
        let value = &self.value[..size];
        self.protocol.set(out, &self.key, value, ttl);
        self.counts.writes += 1;
    }

    fn leave(&mut self, key: u64) {
        if let Some(count) = self.under_way.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                self.under_way.remove(&key);
            }
        }
    }

    fn is_refusal(&self, answer: Answer, kind: Kind) -> bool {
        // A full server may refuse a write, but never a read.
        answer == Answer::Refused && kind != Kind::Write
    }
}

impl Driver for LookAside<'_> {
    type Token = Token;

    fn next(&mut self, now: Instant, out: &mut Vec<u8>) -> Next<Token> {
        let index = self.next;
        let found = self.workload.requests.get(index);
        let Some(&asked) = found.filter(|_| self.problem.is_none()) else {
            return Next::End;
        };
        if let Some(pace) = self.pace {
            let due = pace.start + Duration::from_secs_f64(asked.time_ms as f64 / 1e3 * pace.scale);
            if due > now + EARLY {
                return Next::NotBefore(due);
            }
            let late_ms = now.saturating_duration_since(due).as_secs_f64() * 1e3;
            self.counts.late_ms_max = self.counts.late_ms_max.max(late_ms);
        }
        self.next += 1;
        let kind = match asked.op {
            Op::Delete => Kind::Delete,
            op if op.is_read() => Kind::Read {
                is_alone: !self.under_way.contains_key(&asked.key),
            },
            _ => Kind::Write,
        };
        *self.under_way.entry(asked.key).or_insert(0) += 1;
        match kind {
            Kind::Write => self.write(&asked, out),
            Kind::Read { .. } | Kind::Delete => {
                asked.key(&mut self.key);
                match kind {
                    Kind::Delete => self.protocol.delete(out, &self.key),
                    _ => self.protocol.get(out, &self.key),
                }
            }
        }
        Next::Request(Token { index, kind })
    }

    fn reply(&mut self, token: Token, reply: &[u8], out: &mut Vec<u8>) -> Option<Token> {
        let answer = self.protocol.answer(reply);
        let asked = self.workload.requests[token.index];
        if self.is_refusal(answer, token.kind) {
            let text = String::from_utf8_lossy(reply).trim_end().to_owned();
            self.problem.get_or_insert(text);
        }
        match token.kind {
            Kind::Read { is_alone } => {
                self.counts.reads += 1;
                if answer == Answer::Nothing && is_alone {
                    self.counts.misses += 1;
                    self.write(&asked, out);
                    return Some(Token {
                        kind: Kind::Write,
                        ..token
                    });
                }
                self.counts.overtaken += u64::from(answer == Answer::Nothing);
            }
            Kind::Write => self.counts.refused += u64::from(answer == Answer::Refused),
            Kind::Delete => {}
        }
        self.leave(asked.key);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::workload::toy;
    use trace::Request;

    fn request(op: Op, key: u64) -> Request {
        Request {
            op,
            ..Request::new(key, key, 20)
        }
    }

    /// Sends all requests at once, then replies to them in order with the results of `answer`.
    fn replay(requests: &[Request], mut answer: impl FnMut(&str) -> &'static str) -> Counts {
        let workload = toy(requests);
        let lifetimes = "2s:1".parse().expect("a mix");
        let mut client = LookAside::new(&workload, &lifetimes, 1, Protocol::Memcached, None);
        let mut waiting = std::collections::VecDeque::new();
        let now = Instant::now();
        loop {
            let mut out = Vec::new();
            match client.next(now, &mut out) {
                Next::Request(token) => waiting.push_back((token, out)),
                Next::NotBefore(_) => panic!("there is no pace"),
                Next::End => break,
            }
        }
        while let Some((token, sent)) = waiting.pop_front() {
            let reply = answer(&String::from_utf8_lossy(&sent));
            let mut out = Vec::new();
            if let Some(token) = client.reply(token, reply.as_bytes(), &mut out) {
                waiting.push_back((token, out));
            }
        }
        assert!(client.under_way.is_empty());
        client
            .finish("toy")
            .expect("nothing was refused that may not be")
    }

    #[test]
    fn a_miss_is_written_once_however_many_ask_meanwhile() {
        let get = |key| request(Op::Get, key);
        let mut writes = Vec::new();
        let counts = replay(&[get(1), get(1), get(2), get(1)], |sent| {
            if sent.starts_with("set") {
                writes.push(sent.to_owned());
                return "STORED\r\n";
            }
            match sent.ends_with("2\r\n") {
                true => "VALUE k 0 1\r\nv\r\nEND\r\n",
                false => "END\r\n",
            }
        });
        assert_eq!(writes, ["set 0000000000000001 0 2 4\r\nvvvv\r\n"]);
        let reported = [counts.reads, counts.misses, counts.overtaken, counts.writes];
        assert_eq!(reported, [4, 1, 2, 1]);
    }

    #[test]
    fn writes_and_deletes_of_a_trace_are_sent_and_are_no_reads() {
        let requests = [
            request(Op::Set, 1),
            request(Op::Delete, 2),
            request(Op::Get, 3),
        ];
        let counts = replay(&requests, |sent| match &sent[..3] {
            "set" => "SERVER_ERROR out of memory storing object\r\n",
            "del" => "NOT_FOUND\r\n",
            _ => "END\r\n",
        });
        let reported = [counts.reads, counts.misses, counts.writes, counts.refused];
        assert_eq!(reported, [1, 1, 2, 2]);
    }

    #[test]
    fn a_server_that_refuses_to_read_ends_the_replay() {
        let workload = toy(&[request(Op::Get, 1), request(Op::Get, 2)]);
        let lifetimes = "none".parse().expect("a name");
        let mut client = LookAside::new(&workload, &lifetimes, 1, Protocol::Memcached, None);
        let mut out = Vec::new();
        let Next::Request(token) = client.next(Instant::now(), &mut out) else {
            panic!("there is a request");
        };
        assert!(client.reply(token, b"ERROR\r\n", &mut out).is_none());
        assert!(matches!(client.next(Instant::now(), &mut out), Next::End));
        let error = client.finish("toy").expect_err("it failed");
        assert_eq!(error.to_string(), "toy: it answered ERROR");
    }

    #[test]
    fn requests_wait_for_their_time_and_ttls_shrink_with_it() {
        let late = Request::new(4000, 2, 20);
        let workload = toy(&[Request::new(0, 1, 20), late]);
        let lifetimes = "40s:1".parse().expect("a mix");
        let start = Instant::now();
        let pace = Some(Pace { start, scale: 0.1 });
        let mut client = LookAside::new(&workload, &lifetimes, 1, Protocol::Resp, pace);
        let mut out = Vec::new();
        let Next::Request(token) = client.next(start, &mut out) else {
            panic!("the first is due");
        };
        out.clear();
        assert!(client.reply(token, b"$-1\r\n", &mut out).is_some());
        assert!(out.ends_with(b"$2\r\nEX\r\n$1\r\n4\r\n"));
        let due = start + Duration::from_millis(400);
        assert!(matches!(client.next(start, &mut out), Next::NotBefore(at) if at == due));
        assert!(matches!(client.next(due, &mut out), Next::Request(_)));
    }
}
