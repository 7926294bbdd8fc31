//! The expiry cycle of one worker: forgets what is due in its shards, in slices that leave room for
//! requests, and measures how late it is.
//!
//! A worker sleeps until the earliest deadline of its shards. What is due goes in slices of 0.2 ms;
//! between two slices the sockets are asked. Under load it works after each millisecond of requests, for a fifth of the
//! time, so that a stream of requests cannot starve it, and for more the later it is, up to half: writers whose keys
//! die faster than a fifth of the time can forget them are slowed down, or the backlog would grow for as long as
//! they write. A slice lasts a millisecond at most; only single commands that take several get away with less. The lag is counted from the deadline itself: a key is dead from one millisecond after it on, so
//! no lag is below 1 ms.

mod segment;

use crate::notify;
use crate::slice::{Steps, slice};
use crate::state::Server;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use store::{Event, Tick};

/// Steps of background work at once.
const TEND_STEPS: u32 = 256;

/// What keeps a worker's deadlines, by the engine that holds the keys.
pub enum ExpiryDriver {
    /// Shards of the keyspace.
    Shards(Cycle),
    /// The segment engine.
    Segments(segment::Cycle),
}

impl ExpiryDriver {
    /// What this worker keeps.
    pub fn new(server: &Server, worker: usize) -> ExpiryDriver {
        match server.segments {
            Some(_) => ExpiryDriver::Segments(segment::Cycle::new(worker)),
            None => ExpiryDriver::Shards(Cycle::new(server, worker)),
        }
    }

    /// When it wants to run.
    pub fn earliest(&self, server: &Server) -> Option<Tick> {
        match self {
            ExpiryDriver::Shards(cycle) => cycle.earliest(server).map(|earliest| earliest.0),
            ExpiryDriver::Segments(cycle) => cycle.earliest(server),
        }
    }

    /// What was due had nothing: do not ask it again at once.
    pub fn is_shard_busy(&self) -> bool {
        match self {
            ExpiryDriver::Shards(cycle) => cycle.is_shard_busy,
            // What was looked at in vain is due later from then on.
            ExpiryDriver::Segments(_) => false,
        }
    }

    /// Asks for one round of background work.
    pub fn ask_tending(&mut self) {
        match self {
            ExpiryDriver::Shards(cycle) => cycle.ask_tending(),
            ExpiryDriver::Segments(cycle) => cycle.ask(),
        }
    }

    /// Works for a slice, longer after a turn that took long; whether there is more to do now.
    pub fn run(&mut self, server: &Server, turn: Duration) -> bool {
        match self {
            ExpiryDriver::Shards(cycle) => cycle.run(server, turn),
            ExpiryDriver::Segments(cycle) => cycle.run(server, turn),
        }
    }
}

/// One worker's cycle over its shards.
pub struct Cycle {
    worker: usize,
    shards: Vec<usize>,
    steps: Steps,
    tend_next: usize,
    tend_left: usize,
    events: Vec<Event>,
    /// With how many had each.
    deadlines: Vec<(Tick, u64)>,
    /// The earliest shard said that it is due and had nothing: do not ask it again at once.
    pub is_shard_busy: bool,
}

impl Cycle {
    /// The cycle over the shards that this worker owns.
    pub fn new(server: &Server, worker: usize) -> Cycle {
        let shards: Vec<usize> = (worker..server.keyspace.shard_count())
            .step_by(server.threads)
            .collect();
        Cycle {
            worker,
            shards,
            steps: Steps::default(),
            tend_next: 0,
            tend_left: 0,
            events: Vec::new(),
            deadlines: Vec::new(),
            is_shard_busy: false,
        }
    }

    /// The shard with the earliest deadline, and when that is due.
    pub fn earliest(&self, server: &Server) -> Option<(Tick, usize)> {
        self.shards
            .iter()
            .filter_map(|&shard| server.keyspace.next_due(shard).map(|due| (due, shard)))
            .min()
    }

    /// The shard to call next, if one is due: the one with the earliest moment; but after a call that
    /// found no dead key, as while an index clears up, the next in turn, so that none is kept waiting.
    fn next(&self, server: &Server, now: Tick, idle: Option<usize>) -> Option<usize> {
        let is_due = |shard: usize| {
            server
                .keyspace
                .next_due(shard)
                .is_some_and(|due| due <= now)
        };
        let Some(idle) = idle else {
            let (due, shard) = self.earliest(server)?;
            return (due <= now).then_some(shard);
        };
        let (before, after) = self
            .shards
            .split_at(self.shards.partition_point(|s| *s <= idle));
        after
            .iter()
            .chain(before)
            .copied()
            .find(|shard| is_due(*shard))
    }

    /// Asks for one round of background work over all shards.
    pub fn ask_tending(&mut self) {
        self.tend_left = self.shards.len();
    }

    /// Works for a slice, longer after a turn that took long; whether there is more to do now.
    pub fn run(&mut self, server: &Server, turn: Duration) -> bool {
        let mut now = server.clock.now();
        let due = self.earliest(server).filter(|(due, _)| *due <= now);
        self.is_shard_busy = false;
        if due.is_none() && self.tend_left == 0 {
            return false;
        }
        let start = Instant::now();
        let late_ms = due.map_or(0, |(due, _)| now.0.saturating_sub(due.0));
        let limit = slice(turn, late_ms);
        let mut expired = 0u64;
        let mut bounced_count = 0;
        let mut next = due.map(|(_, shard)| shard);
        while let Some(shard) = next {
            let before = Instant::now();
            let deadlines = &mut self.deadlines;
            let report = &mut |deadline, count| deadlines.push((deadline, u64::from(count)));
            let (space, events) = (&server.keyspace, &mut self.events);
            let did = space.expire(shard, now, self.steps.count, events, report);
            expired += u64::from(did.keys);
            self.measure(server);
            self.steps.adapt(before.elapsed().as_micros(), did.more);
            // Shards whose earliest moment does not move although nothing was found there must not
            // hold this thread up.
            let has_bounced = did.count == 0 && !did.more;
            bounced_count = if has_bounced { bounced_count + 1 } else { 0 };
            self.is_shard_busy = bounced_count > self.shards.len();
            if self.is_shard_busy || start.elapsed() >= limit {
                break;
            }
            now = server.clock.now();
            next = self.next(server, now, (did.count == 0).then_some(shard));
        }
        self.tend(server, now, start, limit);
        self.report(server, expired, start.elapsed());
        let is_due = self.next(server, server.clock.now(), None).is_some();
        self.tend_left > 0 || (is_due && !self.is_shard_busy)
    }

    /// Notes how late each key and element of the last call was, and publishes their events in the order of their
    /// deadlines.
    fn measure(&mut self, server: &Server) {
        let now_us = server.clock.now_us();
        let stats = &server.stats.workers[self.worker];
        let mut at = 0;
        while at < self.deadlines.len() {
            let deadline = self.deadlines[at].0;
            let same = self.deadlines[at..]
                .iter()
                .take_while(|other| other.0 == deadline);
            let (run, count) = same.fold((0, 0), |sum, other| (sum.0 + 1, sum.1 + other.1));
            let lag_us = now_us.saturating_sub(deadline.0.saturating_mul(1000));
            stats.expiry_lag_us.record(lag_us, count);
            at += run;
        }
        self.deadlines.clear();
        notify::publish(server, &mut self.events);
    }

    fn tend(&mut self, server: &Server, now: Tick, start: Instant, limit: Duration) {
        while self.tend_left > 0 && start.elapsed() < limit {
            let shard = self.shards[self.tend_next % self.shards.len()];
            let has_more =
                server
                    .keyspace
                    .background_step(shard, now, TEND_STEPS, &mut self.events);
            notify::publish(server, &mut self.events);
            if !has_more {
                self.tend_next = (self.tend_next + 1) % self.shards.len();
                self.tend_left -= 1;
            }
        }
    }

    fn report(&self, server: &Server, expired: u64, took: Duration) {
        let stats = &server.stats.workers[self.worker];
        let micros = took.as_micros() as u64;
        stats.expired_keys.fetch_add(expired, Relaxed);
        stats.expiry_micros.fetch_add(micros, Relaxed);
        stats.expiry_slice_us_max.fetch_max(micros, Relaxed);
        let threshold = server
            .config
            .number(crate::config::Id::LatencyMonitorThreshold);
        if threshold > 0 && micros / 1000 >= threshold as u64 {
            server
                .latency
                .add("expire-cycle", micros / 1000, server.clock.now().0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::config::Config;
    use store::NewDeadline;

    #[test]
    fn an_index_that_clears_up_keeps_no_other_shard_waiting() {
        // It was called until it had done, before any shard with dead keys.
        const NOW: u64 = 1_700_000_000_000;
        let server = Server::new(Config::default(), Clock::manual(NOW)).expect("valid options");
        let space = &server.keyspace;
        let names = (0..4_000_000u32).map(|i| format!("key:{i}"));
        let of_first = names.filter(|name| space.shard_of(&space.key(0, name.as_bytes())) == 0);
        let names: Vec<String> = of_first.take(100_000).collect();
        let mut view = space.lock_all(Tick(NOW));
        for name in &names {
            let deadline = NewDeadline::At(Tick(NOW + 3_600_000));
            view.set(&space.key(0, name.as_bytes()), b"v", deadline);
        }
        for name in &names {
            view.delete(&space.key(0, name.as_bytes()));
        }
        let other = (0..100u32)
            .map(|i| format!("due:{i}"))
            .find(|name| space.shard_of(&space.key(0, name.as_bytes())) == 1)
            .expect("one in a few");
        let due = space.key(0, other.as_bytes());
        view.set(&due, b"v", NewDeadline::At(Tick(NOW + 1)));
        drop(view);
        let mut cycle = Cycle::new(&server, 0);
        // The first call tells that the index wants to clear up; then the other's deadline passes.
        assert_eq!(
            space
                .expire(0, Tick(NOW), 1, &mut vec![], &mut |_, _| {})
                .keys,
            0
        );
        server.clock.set_ms(NOW + 3);
        cycle.run(&server, Duration::ZERO);
        assert!(
            space.next_due(0).is_some_and(|due| due.0 < NOW),
            "it has not done yet"
        );
        assert_eq!(space.counters().expired_keys, 1);
    }
}
