//! TTLs: their distribution, which objects are unexpired, and how long objects are read.
//!
//! A lifetime starts with the request that writes the object: a write, or, in a trace of look-ups,
//! the first read with a TTL while the object is not live. It ends at the deadline, the next write
//! or a delete.

use super::distribution::{Distribution, Quantiles};
use super::objects::{Lifetime, Object};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use trace::{Op, Request};

/// Maximum number of distinct TTLs that are counted one by one.
const DISTINCT_MAX: usize = 1 << 16;
/// Maximum number of TTLs in the list of the most frequent ones.
const LISTED: usize = 20;
/// Maximum number of seconds whose deadlines are counted one by one.
const SECONDS_MAX: usize = 1 << 20;
/// Number of equal parts into which a TTL is divided for the distribution of last reads.
const PARTS: usize = 20;
/// Minimum ratio of the deadlines in one second to the mean that counts as a burst.
const HERD: f64 = 10.0;

/// A TTL and its frequency.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TtlShare {
    /// TTL in milliseconds.
    pub ttl_ms: u64,
    /// Share of the writes with this TTL.
    pub share: f64,
}

/// Results about TTLs and lifetimes.
#[derive(Clone, Debug, Serialize)]
pub struct Ttls {
    /// Share of writes (and filling reads) with a TTL.
    pub with_ttl: f64,
    /// TTLs of writes in milliseconds.
    pub ttl_ms: Quantiles,
    /// Number of distinct TTLs, a lower bound if it is 65,536.
    pub distinct: usize,
    /// Largest TTL divided by the smallest.
    pub range: f64,
    /// Most frequent TTLs.
    pub common: Vec<TtlShare>,
    /// Share of the ended lifetimes that ended at their deadline.
    pub expired_share: f64,
    /// Share of the expired lifetimes without a read.
    pub unread_share: f64,
    /// Share of the ended lifetimes that were overwritten or deleted without a read.
    pub overwritten_unread_share: f64,
    /// For expired lifetimes with reads: share whose last read came before each twentieth of the
    /// TTL.
    pub last_read_curve: Vec<f64>,
    /// Share of bytes × time of expired lifetimes that comes after the last read, if each ended
    /// exactly at its deadline.
    pub idle_share: f64,
    /// Number of deadlines in the second that has the most.
    pub herd_peak: u64,
    /// Mean number of deadlines over the seconds that have at least one.
    pub herd_mean: f64,
    /// Start of the second with the most deadlines, in milliseconds from the start of the trace.
    pub herd_at_ms: u64,
    /// Whether adding jitter to the TTLs would help: one second has more than ten times the mean
    /// and more than a thousandth of all deadlines.
    pub jitter_would_help: bool,
}

/// Reason why a lifetime ended.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Expired,
    Replaced,
}

/// Collects TTLs and lifetimes.
pub(crate) struct Lifetimes {
    writes: u64,
    with_ttl: u64,
    ttls: Distribution,
    distinct: HashMap<u64, u64>,
    expired: u64,
    expired_unread: u64,
    replaced: u64,
    replaced_unread: u64,
    /// Expired lifetimes with reads, by the part of the TTL in which the last read came.
    last_reads: [u64; PARTS],
    byte_ms: f64,
    idle_byte_ms: f64,
    /// Deadlines by second.
    seconds: HashMap<u64, u64>,
    deadlines: u64,
    live: Live,
}

/// Unexpired objects and bytes of the sample, with their deadlines.
#[derive(Default)]
struct Live {
    objects: i64,
    bytes: i64,
    /// Objects and bytes by deadline, in units of 2^shift ms.
    due: BTreeMap<u64, (i64, i64)>,
    shift: u32,
}

/// Maximum number of distinct deadlines; above it the unit is doubled.
const DUE_MAX: usize = 8192;

impl Live {
    fn change(&mut self, object: &Object, sign: i64) {
        let bytes = sign * i64::from(object.size);
        self.objects += sign;
        self.bytes += bytes;
        if object.lifetime.deadline_ms > 0 {
            let due = self.due.entry(object.lifetime.deadline_ms >> self.shift);
            let due = due.or_default();
            due.0 += sign;
            due.1 += bytes;
            if self.due.len() > DUE_MAX {
                self.coarsen();
            }
        }
    }

    fn coarsen(&mut self) {
        self.shift += 1;
        for (at, (objects, bytes)) in std::mem::take(&mut self.due) {
            let due = self.due.entry(at >> 1).or_default();
            due.0 += objects;
            due.1 += bytes;
        }
    }

    /// Returns the objects and bytes that are unexpired at `now`. Entries of `due` are not removed
    /// when they expire: they stay until the next request for their object, and the sum of those
    /// before now is what has expired meanwhile.
    fn at(&self, now_ms: u64) -> (f64, f64) {
        let (mut objects, mut bytes) = (self.objects, self.bytes);
        for (_, due) in self.due.range(..now_ms >> self.shift) {
            objects -= due.0;
            bytes -= due.1;
        }
        (objects as f64, bytes as f64)
    }
}

impl Default for Lifetimes {
    fn default() -> Self {
        Lifetimes {
            writes: 0,
            with_ttl: 0,
            ttls: Distribution::default(),
            distinct: HashMap::new(),
            expired: 0,
            expired_unread: 0,
            replaced: 0,
            replaced_unread: 0,
            last_reads: [0; PARTS],
            byte_ms: 0.0,
            idle_byte_ms: 0.0,
            seconds: HashMap::new(),
            deadlines: 0,
            live: Live::default(),
        }
    }
}

impl Lifetimes {
    /// Adds a request for a sampled object, whose size is still the one before the request, and
    /// sets its size.
    #[inline]
    pub fn push(&mut self, object: &mut Object, request: &Request, now_ms: u64, weight: u64) {
        let lifetime = object.lifetime;
        let is_over = lifetime.is_live && lifetime.deadline_ms > 0 && now_ms > lifetime.deadline_ms;
        if is_over {
            self.live.change(object, -1);
            self.end(object, End::Expired, weight);
            object.lifetime.is_live = false;
        }
        let is_live = object.lifetime.is_live;
        if request.op == Op::Delete {
            if is_live {
                self.live.change(object, -1);
                self.end(object, End::Replaced, weight);
                object.lifetime.is_live = false;
            }
            return;
        }
        if request.op.is_read() && is_live {
            object.lifetime.last_read_ms = now_ms;
            object.lifetime.reads = object.lifetime.reads.saturating_add(1);
            if request.size != object.size {
                self.resize(object, request.size);
            }
            return;
        }
        if is_live {
            self.live.change(object, -1);
            self.end(object, End::Replaced, weight);
        }
        object.size = request.size;
        object.ttl_ms = request.ttl_ms;
        object.lifetime = Lifetime {
            written_ms: now_ms,
            deadline_ms: match request.ttl_ms {
                0 => 0,
                ttl => now_ms.saturating_add(ttl),
            },
            is_live: true,
            ..Lifetime::default()
        };
        self.live.change(object, 1);
        self.written(object, weight);
    }

    fn resize(&mut self, object: &mut Object, size: u32) {
        self.live.change(object, -1);
        object.size = size;
        self.live.change(object, 1);
    }

    fn written(&mut self, object: &Object, weight: u64) {
        self.writes += weight;
        if object.ttl_ms == 0 {
            return;
        }
        self.with_ttl += weight;
        self.ttls.record(object.ttl_ms, weight);
        let is_room = self.distinct.len() < DISTINCT_MAX;
        match self.distinct.get_mut(&object.ttl_ms) {
            Some(count) => *count += weight,
            None if is_room => {
                self.distinct.insert(object.ttl_ms, weight);
            }
            None => {}
        }
        let second = object.lifetime.deadline_ms / 1000;
        let is_room = self.seconds.len() < SECONDS_MAX;
        match self.seconds.get_mut(&second) {
            Some(count) => *count += weight,
            None if is_room => {
                self.seconds.insert(second, weight);
            }
            None => return,
        }
        self.deadlines += weight;
    }

    /// Counts the end of a lifetime.
    fn end(&mut self, object: &Object, why: End, weight: u64) {
        let lifetime = object.lifetime;
        let is_unread = lifetime.reads == 0;
        match why {
            End::Expired => {
                self.expired += weight;
                self.expired_unread += weight * u64::from(is_unread);
            }
            End::Replaced => {
                self.replaced += weight;
                self.replaced_unread += weight * u64::from(is_unread);
            }
        }
        if lifetime.deadline_ms == 0 {
            return;
        }
        let ttl = (lifetime.deadline_ms - lifetime.written_ms).max(1);
        let used = match is_unread {
            true => 0,
            false => lifetime
                .last_read_ms
                .saturating_sub(lifetime.written_ms)
                .min(ttl),
        };
        if why == End::Expired {
            let weight_bytes = f64::from(object.size) * weight as f64;
            self.byte_ms += weight_bytes * ttl as f64;
            self.idle_byte_ms += weight_bytes * (ttl - used) as f64;
            if !is_unread {
                let part = (used as f64 / ttl as f64 * PARTS as f64) as usize;
                self.last_reads[part.min(PARTS - 1)] += weight;
            }
        }
    }

    /// Unexpired objects and bytes of the sample at a time.
    pub fn live_at(&self, now_ms: u64) -> (f64, f64) {
        self.live.at(now_ms)
    }

    /// Removes an object that is no longer in the sample.
    pub fn forget(&mut self, object: &Object) {
        if object.lifetime.is_live {
            self.live.change(object, -1);
        }
    }

    /// Returns the result; `None` if no request had a TTL. A lifetime whose deadline is before the
    /// end of the trace counts as ended.
    pub fn finish(mut self, objects: &[Object], now_ms: u64, weight: u64) -> Option<Ttls> {
        for object in objects {
            let lifetime = object.lifetime;
            if lifetime.is_live && lifetime.deadline_ms > 0 && now_ms > lifetime.deadline_ms {
                self.end(object, End::Expired, weight);
            }
        }
        let ttl_ms = self.ttls.summary()?;
        let mut common: Vec<TtlShare> = self
            .distinct
            .iter()
            .map(|(ttl_ms, count)| TtlShare {
                ttl_ms: *ttl_ms,
                share: *count as f64 / self.writes as f64,
            })
            .collect();
        common.sort_unstable_by(|a, b| b.share.total_cmp(&a.share).then(a.ttl_ms.cmp(&b.ttl_ms)));
        let smallest = common.iter().map(|t| t.ttl_ms).min().unwrap_or(1);
        let largest = common.iter().map(|t| t.ttl_ms).max().unwrap_or(1);
        common.truncate(LISTED);
        let ended = (self.expired + self.replaced).max(1) as f64;
        let read: u64 = self.last_reads.iter().sum();
        let mut so_far = 0;
        let last_read_curve = self.last_reads.map(|count| {
            so_far += count;
            so_far as f64 / read.max(1) as f64
        });
        let peak = self
            .seconds
            .iter()
            .max_by_key(|(at, count)| (**count, std::cmp::Reverse(**at)));
        let (herd_second, herd_peak) = peak.map_or((0, 0), |(at, count)| (*at, *count));
        let herd_mean = self.deadlines as f64 / self.seconds.len().max(1) as f64;
        Some(Ttls {
            with_ttl: self.with_ttl as f64 / self.writes.max(1) as f64,
            ttl_ms,
            distinct: self.distinct.len(),
            range: largest as f64 / smallest.max(1) as f64,
            common,
            expired_share: self.expired as f64 / ended,
            unread_share: self.expired_unread as f64 / self.expired.max(1) as f64,
            overwritten_unread_share: self.replaced_unread as f64 / ended,
            last_read_curve: last_read_curve.to_vec(),
            idle_share: self.idle_byte_ms / self.byte_ms.max(1.0),
            herd_peak,
            herd_mean,
            herd_at_ms: herd_second * 1000,
            jitter_would_help: herd_peak as f64 > HERD * herd_mean
                && herd_peak as f64 > self.deadlines as f64 / 1000.0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(op: Op, ttl_ms: u64) -> Request {
        Request {
            op,
            ttl_ms,
            size: 10,
            ..Request::default()
        }
    }

    fn run(steps: &[(u64, Op, u64)], end_ms: u64) -> (Lifetimes, Object) {
        let mut lifetimes = Lifetimes::default();
        let mut object = Object::default();
        for (at, op, ttl) in steps {
            lifetimes.push(&mut object, &request(*op, *ttl), *at, 1);
        }
        let _ = end_ms;
        (lifetimes, object)
    }

    #[test]
    fn a_life_ends_by_its_deadline_read_or_not() {
        let steps = [
            (0, Op::Set, 100),
            (50, Op::Get, 0),
            (101, Op::Get, 100),
            (500, Op::Set, 100),
        ];
        let (lifetimes, object) = run(&steps, 1000);
        assert_eq!(lifetimes.live_at(600).0, 1.0);
        let ttls = lifetimes
            .finish(&[object], 1000, 1)
            .expect("there are TTLs");
        assert_eq!(ttls.expired_share, 1.0);
        // The lifetime that starts at 0 is read in its middle; those from 101 (a filling read) and
        // 500 are not read.
        assert_eq!(ttls.unread_share, 2.0 / 3.0);
        assert_eq!(ttls.last_read_curve[9], 0.0);
        assert_eq!(ttls.last_read_curve[10], 1.0);
        assert!((ttls.idle_share - 2.5 / 3.0).abs() < 1e-9);
        assert_eq!((ttls.distinct, ttls.range), (1, 1.0));
    }

    #[test]
    fn a_read_exactly_at_the_deadline_finds_it() {
        let (lifetimes, object) = run(&[(0, Op::Set, 100), (100, Op::Get, 0)], 200);
        let ttls = lifetimes.finish(&[object], 200, 1).expect("there are TTLs");
        assert_eq!((ttls.expired_share, ttls.unread_share), (1.0, 0.0));
    }

    #[test]
    fn unexpired_objects_are_counted_without_visiting_them() {
        let mut lifetimes = Lifetimes::default();
        for n in 0..20_000u64 {
            let mut object = Object::default();
            lifetimes.push(&mut object, &request(Op::Set, 1000 + n), 0, 1);
        }
        for now in [0u64, 5000, 12_000, 22_000] {
            let live = (1000..21_000u64).filter(|ttl| now <= *ttl).count() as f64;
            let (objects, bytes) = lifetimes.live_at(now);
            assert!((objects - live).abs() < 20.0, "{now}: {objects} of {live}");
            assert_eq!(bytes, objects * 10.0);
        }
    }

    #[test]
    fn deletes_and_overwrites_end_lifetimes() {
        let steps = [
            (0, Op::Set, 100),
            (10, Op::Set, 100),
            (20, Op::Get, 0),
            (30, Op::Delete, 0),
        ];
        let (lifetimes, object) = run(&steps, 1000);
        assert_eq!(lifetimes.live_at(31).0, 0.0);
        let ttls = lifetimes
            .finish(&[object], 1000, 1)
            .expect("there are TTLs");
        assert_eq!(
            (ttls.expired_share, ttls.overwritten_unread_share),
            (0.0, 0.5)
        );
    }

    #[test]
    fn a_herd_is_seen() {
        let mut lifetimes = Lifetimes::default();
        for n in 0..10_000u64 {
            let mut object = Object::default();
            let ttl = if n % 10 == 0 { 500_000 - n } else { 3_600_000 };
            lifetimes.push(&mut object, &request(Op::Set, ttl), n, 1);
        }
        let ttls = lifetimes.finish(&[], 10_000, 1).expect("there are TTLs");
        assert!(!ttls.jitter_would_help);
        let mut lifetimes = Lifetimes::default();
        for n in 0..10_000u64 {
            let mut object = Object::default();
            let ttl = if n % 2 == 0 {
                5_000_000 - n * 100
            } else {
                1_000_000 + n * 120
            };
            lifetimes.push(&mut object, &request(Op::Set, ttl), n * 100, 1);
        }
        let ttls = lifetimes.finish(&[], 10_000, 1).expect("there are TTLs");
        assert!(
            ttls.jitter_would_help,
            "{} {}",
            ttls.herd_peak, ttls.herd_mean
        );
        assert_eq!(ttls.herd_at_ms, 5_000_000);
    }
}
