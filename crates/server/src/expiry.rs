//! The expiry cycle of a worker: removes expired keys from the worker's shards in time slices
//! between requests, and measures the lag.
//!
//! A worker sleeps until the earliest deadline of its shards. Expired keys are removed in slices of
//! 0.2 ms, and the sockets are polled between slices. Under load, the cycle runs after each
//! millisecond of requests. It gets a fifth of the time, and more the later it is, up to half.
//! Otherwise the backlog would grow without bound when clients write keys that expire faster than a
//! fifth of the time suffices to remove. A slice lasts at most a millisecond.
//!
//! The lag counts from the deadline. A key expires one millisecond after its deadline, so that the
//! lag is never below 1 ms.

mod segment;

use crate::state::{Data, Server};
use crate::{blocking, command, effects, notify};
use session::freeing;
use session::locks::Locks;
use session::slice::{Steps, slice};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use store::{Event, Keyspace, Tick};

/// Number of steps per call of background work.
const BACKGROUND_STEPS: u32 = 256;

/// Expiry of a worker's keys in the storage engine.
pub enum ExpiryDriver {
    /// Expiry of the keyspace's shards.
    Shards(Cycle),
    /// Expiry of the segment engine.
    Segments(segment::Cycle),
}

impl ExpiryDriver {
    /// Creates the expiry driver of the worker with this index.
    pub fn new(server: &Server, worker: usize) -> ExpiryDriver {
        match server.data.segments {
            Some(_) => ExpiryDriver::Segments(segment::Cycle::new(worker)),
            None => ExpiryDriver::Shards(Cycle::new(server, worker)),
        }
    }

    /// Returns the earliest time at which [`ExpiryDriver::run`] has work.
    pub fn earliest(&self, data: &Data) -> Option<Tick> {
        match self {
            ExpiryDriver::Shards(cycle) => {
                cycle.earliest(&data.keyspace).map(|earliest| earliest.0)
            }
            ExpiryDriver::Segments(cycle) => cycle.earliest(data),
        }
    }

    /// Whether the last call found nothing although something was due, so that the caller pauses
    /// before the next call.
    pub fn found_nothing(&self) -> bool {
        match self {
            ExpiryDriver::Shards(cycle) => cycle.found_nothing,
            // After a call that found nothing, the segment engine reports a later time.
            ExpiryDriver::Segments(_) => false,
        }
    }

    /// Requests that the next [`ExpiryDriver::run`] also does one round of background work.
    pub fn request_background_work(&mut self) {
        match self {
            ExpiryDriver::Shards(cycle) => cycle.request_background_work(),
            ExpiryDriver::Segments(cycle) => cycle.ask(),
        }
    }

    /// Whether a round of background work would evict, because the memory is over its limit.
    pub fn must_evict(&self, keyspace: &Keyspace) -> bool {
        match self {
            ExpiryDriver::Shards(cycle) => keyspace.must_evict(&cycle.shards),
            // A write to the segment engine waits until it has room.
            ExpiryDriver::Segments(_) => false,
        }
    }

    /// Whether a requested round of background work is not complete.
    pub fn has_background_work(&self) -> bool {
        match self {
            ExpiryDriver::Shards(cycle) => cycle.background_left > 0,
            // Each call of the segment engine completes its round.
            ExpiryDriver::Segments(_) => false,
        }
    }

    /// Expires keys for one time slice. `turn` is the duration of the preceding iteration of the
    /// event loop; a longer iteration allows a longer slice. Returns whether more keys are due.
    pub fn run(&mut self, server: &Server, turn: Duration) -> bool {
        match self {
            ExpiryDriver::Shards(cycle) => cycle.run(server, turn),
            ExpiryDriver::Segments(cycle) => cycle.run(server, turn),
        }
    }
}

/// Expiry cycle of one worker over its shards.
pub struct Cycle {
    worker: usize,
    shards: Vec<usize>,
    steps: Steps,
    background_next: usize,
    background_left: usize,
    events: Vec<Event>,
    /// Deadlines that the last call reported, each with the number of keys and elements that had
    /// it.
    deadlines: Vec<(Tick, u64)>,
    /// Shards that another thread had locked in the last call.
    locked: Vec<usize>,
    /// Whether the shard with the earliest deadline was due but had nothing to expire or was
    /// locked.
    pub found_nothing: bool,
}

impl Cycle {
    /// Creates the cycle over the shards that this worker owns.
    pub fn new(server: &Server, worker: usize) -> Cycle {
        let shards: Vec<usize> = (worker..server.data.keyspace.shard_count())
            .step_by(server.workers.count)
            .collect();
        Cycle {
            worker,
            shards,
            steps: Steps::default(),
            background_next: 0,
            background_left: 0,
            events: Vec::new(),
            deadlines: Vec::new(),
            locked: Vec::new(),
            found_nothing: false,
        }
    }

    /// Returns the earliest deadline and its shard.
    pub fn earliest(&self, keyspace: &Keyspace) -> Option<(Tick, usize)> {
        self.shards
            .iter()
            .filter_map(|&shard| keyspace.next_due(shard).map(|due| (due, shard)))
            .min()
    }

    /// Returns the next due shard to call, if any. It is the shard with the earliest deadline. If
    /// the last call of shard `idle` expired nothing, for example because an index is being
    /// reorganized, it is the next due shard in numerical order, so that no shard delays the
    /// others. Shards found locked are skipped until the next call of `run`.
    fn next(&self, keyspace: &Keyspace, now: Tick, idle: Option<usize>) -> Option<usize> {
        let due = |shard: usize| {
            let due = keyspace.due(shard, now)?;
            (!self.locked.contains(&shard)).then_some(due)
        };
        let is_due = |shard: usize| due(shard).is_some();
        let Some(idle) = idle else {
            let all = self.shards.iter();
            let earliest = all.filter_map(|&shard| Some((due(shard)?, shard))).min();
            return earliest.map(|(_, shard)| shard);
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

    /// Requests one round of background work over all shards.
    pub fn request_background_work(&mut self) {
        self.background_left = self.shards.len();
    }

    /// Expires keys for one time slice. `turn` is the duration of the preceding iteration of the
    /// event loop; a longer iteration allows a longer slice. Returns whether more keys are due.
    pub fn run(&mut self, server: &Server, turn: Duration) -> bool {
        let mut now = server.clock.now();
        self.found_nothing = false;
        self.locked.clear();
        let due = self.next(&server.data.keyspace, now, None);
        let due = due.and_then(|shard| Some((server.data.keyspace.due(shard, now)?, shard)));
        if due.is_none() && self.background_left == 0 {
            return false;
        }
        let start = Instant::now();
        let late_ms = due.map_or(0, |(due, _)| now.0.saturating_sub(due.0));
        let limit = slice(turn, late_ms);
        let mut expired = 0u64;
        let mut idle_count = 0;
        let mut next = due.map(|(_, shard)| shard);
        while let Some(shard) = next {
            let before = Instant::now();
            let deadlines = &mut self.deadlines;
            let report = &mut |deadline, count| deadlines.push((deadline, u64::from(count)));
            let (space, events) = (&server.data.keyspace, &mut self.events);
            let did = space.expire(shard, now, self.steps.count, events, report);
            expired += u64::from(did.keys);
            if did.is_locked {
                self.locked.push(shard);
            }
            self.measure(server);
            invalidate(server, shard);
            effects::add_removals(&server.data.keyspace, &server.feed, shard, now);
            serve_blocked(server, shard, now);
            self.steps.adapt(before.elapsed().as_micros(), did.more);
            // Shards whose deadline does not change although nothing expired must not keep this
            // thread busy.
            let is_idle = did.count == 0 && !did.more;
            idle_count = if is_idle { idle_count + 1 } else { 0 };
            self.found_nothing = idle_count > self.shards.len();
            if self.found_nothing || start.elapsed() >= limit {
                break;
            }
            now = server.clock.now();
            next = self.next(
                &server.data.keyspace,
                now,
                (did.count == 0).then_some(shard),
            );
        }
        self.run_background_work(server, now, start, limit);
        for block in server.data.keyspace.take_large_blocks() {
            freeing::free(block);
        }
        self.report(server, expired, start.elapsed());
        let is_due = self
            .next(&server.data.keyspace, server.clock.now(), None)
            .is_some();
        // The caller pauses before it tries the locked shards again.
        self.found_nothing |= !is_due && !self.locked.is_empty();
        self.background_left > 0 || (is_due && !self.found_nothing)
    }

    /// Records the lag of each key and element of the last call and publishes their events in the
    /// order of the deadlines.
    fn measure(&mut self, server: &Server) {
        let now_us = server.clock.now_us();
        let stats = &server.observability.stats.workers[self.worker];
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

    fn run_background_work(&mut self, server: &Server, now: Tick, start: Instant, limit: Duration) {
        while self.background_left > 0 && start.elapsed() < limit {
            let shard = self.shards[self.background_next % self.shards.len()];
            let has_more = server.data.keyspace.background_step(
                shard,
                now,
                BACKGROUND_STEPS,
                &mut self.events,
            );
            notify::publish(server, &mut self.events);
            invalidate(server, shard);
            effects::add_removals(&server.data.keyspace, &server.feed, shard, now);
            serve_blocked(server, shard, now);
            if !has_more {
                self.background_next = (self.background_next + 1) % self.shards.len();
                self.background_left -= 1;
            }
        }
    }

    fn report(&self, server: &Server, expired: u64, took: Duration) {
        let stats = &server.observability.stats.workers[self.worker];
        let micros = took.as_micros() as u64;
        stats.expired_keys.fetch_add(expired, Relaxed);
        stats.expiry_micros.fetch_add(micros, Relaxed);
        stats.expiry_slice_us_max.fetch_max(micros, Relaxed);
        let threshold = server.config.number(settings::Id::LatencyMonitorThreshold);
        if threshold > 0 && micros / 1000 >= threshold as u64 {
            server
                .observability
                .latency
                .add("expire-cycle", micros / 1000, server.clock.now().0);
        }
    }
}

/// Notifies the clients that cache keys of this shard which have expired or were evicted.
fn invalidate(server: &Server, shard: usize) {
    if !server.clients.tracking.is_on() {
        return;
    }
    let mut invalidations = Vec::new();
    server
        .data
        .keyspace
        .take_invalidations(shard, &mut invalidations);
    if !invalidations.is_empty() {
        let (inboxes, clients) = (&server.workers.inboxes, &server.clients.registry);
        server
            .clients
            .tracking
            .send(inboxes, clients, &invalidations, 0);
    }
}

/// Serves the clients blocked on keys of this shard that have expired or were evicted. If another
/// worker has locked the shard, the next round of background work does so.
fn serve_blocked(server: &Server, shard: usize, now: Tick) {
    if server.clients.blocking.is_empty() {
        return;
    }
    if let Some(mut view) = server.data.keyspace.try_lock_one(shard, now)
        && view.find_ready()
    {
        let mut locks = Locks::Some(vec![shard]);
        blocking::serve(server, command::table(), &mut view, &mut locks);
        effects::add_all_removals(&server.data.keyspace, &server.feed, &mut view);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use session::clock::Clock;
    use settings::{Config, find};
    use store::NewDeadline;

    fn with_one_worker(now: u64) -> Server {
        let config = Config::default();
        let threads = find("threads").expect("a setting of this name");
        config.set(threads, "1").expect("a value that fits");
        Server::new(config, Clock::manual(now)).expect("valid options")
    }

    #[test]
    fn a_shard_that_another_thread_has_locked_is_expired_later() {
        // Regression: a worker waited for the lock of a long command on another worker and served
        // none of its clients meanwhile.
        const NOW: u64 = 1_700_000_000_000;
        let server = with_one_worker(NOW);
        let space = &server.data.keyspace;
        let mut view = space.lock_all(Tick(NOW));
        for name in 0..1_000u32 {
            let name = format!("{name}");
            let deadline = NewDeadline::At(Tick(NOW + 1));
            view.set(&space.key(0, name.as_bytes()), b"v", deadline);
        }
        drop(view);
        server.clock.set_ms(NOW + 3);
        let expired = || {
            server.observability.stats.workers[0]
                .expired_keys
                .load(Relaxed)
        };
        let mut cycle = Cycle::new(&server, 0);
        let held = space.lock_one(0, Tick(NOW));
        for _ in 0..100 {
            cycle.request_background_work();
            cycle.run(&server, Duration::from_millis(1));
        }
        // The worker's task of every 100 ms waited as well.
        server.sample_peak();
        assert!(server.observability.stats.peak_bytes.load(Relaxed) > 0);
        assert!(expired() > 0, "the other shards are expired");
        assert!(expired() < 1_000);
        assert!(
            cycle.found_nothing,
            "the worker pauses before the next attempt"
        );
        drop(held);
        while cycle.run(&server, Duration::from_millis(1)) {}
        assert_eq!(expired(), 1_000);
        assert!(!cycle.found_nothing);
    }

    #[test]
    fn reorganizing_one_index_does_not_delay_other_shards() {
        // Regression: the shard was called until its index was reorganized, before any shard with
        // expired keys.
        const NOW: u64 = 1_700_000_000_000;
        let server = with_one_worker(NOW);
        let space = &server.data.keyspace;
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
            .expect("one of the first names is in shard 1");
        let due = space.key(0, other.as_bytes());
        view.set(&due, b"v", NewDeadline::At(Tick(NOW + 1)));
        drop(view);
        let mut cycle = Cycle::new(&server, 0);
        // After the first call the index is due for reorganization; then the other key's deadline
        // passes.
        assert_eq!(
            space
                .expire(0, Tick(NOW), 1, &mut vec![], &mut |_, _| {})
                .keys,
            0
        );
        server.clock.set_ms(NOW + 3);
        // A call ends after a time, within which a slow machine may not reach the second shard.
        while space.counters().expired_keys == 0 {
            cycle.run(&server, Duration::ZERO);
            assert!(
                space.next_due(0).is_some_and(|due| due.0 < NOW),
                "the index is still being reorganized"
            );
        }
        assert_eq!(space.counters().expired_keys, 1);
    }
}
