//! One run: a trace replayed through a cluster under one scheme, policy and size.

use super::coordination::{Coordination, EvictionOrder};
use super::found::RunResult;
use super::history::History;
use super::latency::LatencyRecorder;
use super::meter::{Meter, check_windows, events};
use super::places::{self, Places, buckets_of};
use super::ring::{HashOrder, Ring};
use super::scheme::Scheme;
use super::servers::{ClusterRequest, Counters, Objects, Servers};
use super::tier::{Tier, tier};
use super::watch::MissTracker;
use crate::Error;
use crate::columns::Columns;
use crate::cpu::thread_cpu_time;
use crate::replay::BytesPerObject;
use edge::{Change, Map, ServerId};
use policy::Tick;
use policy::any::PolicySpec;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use trace::Outage;

/// Maximum number of servers, as many as a trace of outages can name.
pub const SERVERS_MAX: usize = trace::SERVER_MAX as usize + 1;
/// Maximum duration of a trace, a hundred years. A longer duration is taken for a mistake in its
/// times.
const SPAN_MAX_MS: u64 = 100 * 366 * 24 * 3_600_000;
/// Requests between two updates of the progress counter.
const STRIDE: usize = 1 << 16;
/// Estimated bytes per object that servers share: queues and ghosts of all disks, weight, bucket,
/// parts.
const OBJECT_BYTES: u64 = 64;

/// Parameters of all runs of a study.
#[derive(Clone, Debug)]
pub struct ClusterRules {
    /// Number of buckets of the cluster.
    pub buckets: u32,
    /// Objects of at least this many bytes are coded.
    pub coded_from: u32,
    /// Requests at the start that are not counted. Parity is first placed by load when they end.
    pub warm_up: usize,
    /// Length of a result window in milliseconds.
    pub window_ms: u64,
    /// Milliseconds between two requests, instead of the trace's timestamps.
    pub gap_ms: Option<f64>,
    /// Interval at which parity is placed again even if no server fails or recovers.
    pub rebalance_ms: Option<u64>,
    /// Random seed.
    pub seed: u64,
    /// Maximum bytes of memory of a run.
    pub memory_limit: u64,
}

impl Default for ClusterRules {
    fn default() -> Self {
        ClusterRules {
            buckets: 200,
            coded_from: edge::CODED_FROM_BYTES as u32,
            warm_up: 0,
            window_ms: 3_600_000,
            gap_ms: None,
            rebalance_ms: None,
            seed: 1,
            memory_limit: u64::MAX,
        }
    }
}

/// Parameters of one run of a study.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Redundancy scheme.
    pub scheme: Scheme,
    /// Eviction policy of each disk.
    pub policy: PolicySpec,
    /// Relative disk sizes of the servers.
    pub weights: Vec<u32>,
    /// Total bytes of all disks.
    pub capacity: u64,
    /// Memory of each server as a share of its disk.
    pub memory_share: f64,
    /// Coordination between servers.
    pub coordination: Coordination,
    /// Interval in milliseconds in which misses are counted by the servers that keep the object.
    pub watched: Range<u64>,
    /// Outages; any of servers that the cluster does not have are ignored.
    pub outages: Arc<[Outage]>,
    /// Number of requests to replay.
    pub until: usize,
    /// Whether latencies are drawn.
    pub is_timed: bool,
}

/// Time of each request.
pub(super) struct Clock<'a> {
    columns: &'a Columns,
    gap_ms: Option<f64>,
    now_ms: u64,
}

impl<'a> Clock<'a> {
    pub(super) fn new(columns: &'a Columns, rules: &ClusterRules) -> Self {
        Clock {
            columns,
            gap_ms: rules.gap_ms,
            now_ms: 0,
        }
    }

    /// Returns the time of a request. Requests must be passed in order.
    pub(super) fn at(&mut self, index: usize) -> u64 {
        match self.gap_ms {
            Some(gap_ms) => self.now_ms = (index as f64 * gap_ms) as u64,
            None => self.now_ms += self.columns.gap_ms(index),
        }
        self.now_ms
    }
}

/// Maximum number of buckets × servers for a max-flow; beyond it, one takes minutes and gigabytes.
const FLOW_PAIRS_MAX: u64 = 1 << 20;

/// Checks that the trace has object sizes.
///
/// # Errors
/// The trace has none.
pub fn check_sizes(columns: &Columns) -> Result<(), Error> {
    match columns.has_sizes() {
        true => Ok(()),
        false => Err(Error::Cluster {
            problem: format!(
                "{} has no object sizes above one byte, but a cluster's load is counted in bytes: use a \
                 trace with sizes",
                columns.name()
            ),
        }),
    }
}

/// Checks that a run is possible, before any work is done.
///
/// # Errors
/// The trace has no sizes, there are too few servers, a server has no capacity, there is no bucket,
/// a policy needs the future, or more memory is needed than allowed.
pub fn check(columns: &Columns, rules: &ClusterRules, setup: &Setup) -> Result<(), Error> {
    let bad = |problem: String| Err(Error::Cluster { problem });
    let servers = setup.weights.len();
    let parts = setup.scheme.parts();
    check_sizes(columns)?;
    if servers == 0 || servers > SERVERS_MAX {
        return bad(format!("{servers} servers: expected 1 to {SERVERS_MAX}"));
    }
    if setup.weights.contains(&0) {
        return bad("server weight 0: expected at least 1".into());
    }
    if parts > servers {
        return bad(format!(
            "{} spreads an object over {parts} servers, but the cluster has {servers}",
            setup.scheme
        ));
    }
    let pairs = servers as u64 * u64::from(rules.buckets);
    if setup.scheme.is_flow() && pairs > FLOW_PAIRS_MAX {
        return bad(format!(
            "{} of {} buckets over {servers} servers: expected at most {FLOW_PAIRS_MAX} buckets × servers for a \
             max-flow",
            setup.scheme, rules.buckets
        ));
    }
    if setup.policy.needs_future() {
        return bad(format!(
            "{} needs future requests, and the requests of a server depend on the other servers",
            setup.policy
        ));
    }
    let smallest = capacities(setup).into_iter().min().unwrap_or(0);
    if smallest == 0 {
        return bad(format!(
            "{} bytes for {servers} servers: expected at least one byte a server",
            setup.capacity
        ));
    }
    let span_ms = columns.span_ms(rules.gap_ms);
    if span_ms > SPAN_MAX_MS {
        return bad(format!(
            "{} spans {} years: expected at most 100; its times are not in \
             milliseconds, or the request rate is too low",
            columns.name(),
            span_ms / (SPAN_MAX_MS / 100)
        ));
    }
    check_windows(span_ms, rules.window_ms)?;
    new_map(rules, setup)?;
    let needed = bytes_needed(columns, setup);
    if needed > rules.memory_limit {
        return bad(format!(
            "{servers} servers and {} objects need {} MiB, but {} MiB are allowed: cut or sample the \
             trace, simulate fewer servers, or raise --memory-limit",
            columns.objects(),
            needed >> 20,
            rules.memory_limit >> 20
        ));
    }
    Ok(())
}

/// Returns an estimate of the maximum memory of a run in bytes: policies and chunk numbers for each
/// server and object, and shared data for each object.
pub(super) fn bytes_needed(columns: &Columns, setup: &Setup) -> u64 {
    let by_policy = |policy: &PolicySpec| policy.visit(BytesPerObject(&crate::Rules::default()));
    let memory = match setup.memory_share > 0.0 {
        true => by_policy(&PolicySpec::Lru(())),
        false => 0,
    };
    let disk = match setup.coordination.order {
        EvictionOrder::Policy => by_policy(&setup.policy),
        EvictionOrder::Hash | EvictionOrder::SharedHash => Ring::OBJECT_BYTES,
    };
    let each = disk + memory + 1;
    (setup.weights.len() as u64 * each + OBJECT_BYTES) * columns.objects() as u64
}

fn new_map(rules: &ClusterRules, setup: &Setup) -> Result<Map, Error> {
    let config = places::config(setup.scheme, rules.buckets, rules.coded_from, rules.seed);
    let weights = setup.weights.iter().enumerate();
    let members: Vec<_> = weights
        .map(|(id, weight)| (ServerId(id as u32), *weight))
        .collect();
    Map::new(config, &members).map_err(|error| Error::Cluster {
        problem: error.to_string(),
    })
}

/// Disk capacity of each server in bytes.
fn capacities(setup: &Setup) -> Vec<u64> {
    let total: u64 = setup.weights.iter().map(|weight| u64::from(*weight)).sum();
    let share =
        |weight: &u32| u128::from(setup.capacity) * u128::from(*weight) / u128::from(total.max(1));
    setup
        .weights
        .iter()
        .map(|weight| share(weight) as u64)
        .collect()
}

/// Disks of the servers, in the order of their numbers.
fn disks<'t>(setup: &Setup, weights: &'t [u32], seed: u64) -> Vec<Box<dyn Tier + 't>> {
    let capacities = capacities(setup).into_iter();
    if setup.coordination.order == EvictionOrder::Policy {
        let disk = |(at, capacity)| tier(&setup.policy, weights, capacity, seed ^ at as u64);
        return capacities.enumerate().map(disk).collect();
    }
    let order = Rc::new(HashOrder::new(weights.len()));
    let shares_hand = setup.coordination.order == EvictionOrder::SharedHash;
    let disk = |capacity| Ring::new(Rc::clone(&order), weights, capacity, shares_hand);
    capacities
        .map(|capacity| Box::new(disk(capacity)) as Box<dyn Tier + 't>)
        .collect()
}

/// Replays the trace through a cluster; `done` counts requests.
///
/// # Errors
/// Returns the errors of [`check`].
pub fn run(
    columns: &Columns,
    rules: &ClusterRules,
    setup: &Setup,
    done: &AtomicU64,
) -> Result<RunResult, Error> {
    check(columns, rules, setup)?;
    let coded_from = match setup.scheme.code() {
        Some(_) => u64::from(rules.coded_from.max(1)),
        None => u64::MAX,
    };
    let weights: Vec<u32> = match setup.scheme.code() {
        Some((data, _)) => columns
            .sizes
            .iter()
            .map(|&size| match u64::from(size) >= coded_from {
                true => size.div_ceil(data as u32),
                false => size,
            })
            .collect(),
        None => Vec::new(),
    };
    let objects = Objects {
        weights: if weights.is_empty() {
            &columns.sizes
        } else {
            &weights
        },
        sizes: &columns.sizes,
        coded_from,
    };
    let mut run = Run::new(columns, rules, setup, objects)?;
    let before = thread_cpu_time();
    run.replay(done);
    let cpu_time = thread_cpu_time().saturating_sub(before);
    #[cfg(debug_assertions)]
    run.servers.check(&run.history);
    Ok(RunResult {
        cpu_time,
        ..run.found()
    })
}

/// State of a run.
struct Run<'a> {
    columns: &'a Columns,
    rules: &'a ClusterRules,
    setup: &'a Setup,
    servers: Servers<'a>,
    map: Map,
    buckets: Arc<[u32]>,
    history: History,
    /// Time and server of each event, and whether the server comes up, in the order of time.
    events: Vec<(u64, u32, bool)>,
    next_event: usize,
    rebalance_at: u64,
    meter: Meter,
    /// Set at the first request of the watched interval.
    watch: Option<MissTracker>,
    maps: u64,
    moved: u64,
}

impl<'a> Run<'a> {
    fn new(
        columns: &'a Columns,
        rules: &'a ClusterRules,
        setup: &'a Setup,
        objects: Objects<'a>,
    ) -> Result<Self, Error> {
        let capacities = capacities(setup);
        let disks = disks(setup, objects.weights, rules.seed);
        let memory = |(at, &capacity): (usize, &u64)| {
            let capacity = (capacity as f64 * setup.memory_share) as u64;
            tier(
                &PolicySpec::Lru(()),
                objects.sizes,
                capacity.max(1),
                rules.seed ^ at as u64,
            )
        };
        let memories = match setup.memory_share > 0.0 {
            true => capacities.iter().enumerate().map(memory).collect(),
            false => Vec::new(),
        };
        let map = new_map(rules, setup)?;
        let buckets = buckets_of(columns.objects(), rules.buckets);
        let places = Places::of(&map, &buckets);
        let how = (setup.scheme, setup.coordination);
        Ok(Run {
            columns,
            rules,
            setup,
            servers: Servers::new(objects, how, disks, memories, rules.buckets as usize),
            map,
            buckets,
            history: History::new(places),
            events: events(&setup.outages, setup.weights.len()),
            next_event: 0,
            rebalance_at: u64::MAX,
            meter: Meter::new(setup.is_timed.then(|| LatencyRecorder::new(rules.seed))),
            watch: None,
            maps: 0,
            moved: 0,
        })
    }

    fn replay(&mut self, done: &AtomicU64) {
        let mut clock = Clock::new(self.columns, self.rules);
        let until = self.setup.until.min(self.columns.len());
        for index in 0..until {
            let now_ms = clock.at(index);
            if index == self.rules.warm_up {
                self.start_counting(now_ms);
            }
            let is_watched = self.setup.watched.contains(&now_ms);
            if is_watched && self.watch.is_none() {
                self.watch = Some(MissTracker::new(self.history.now().clone()));
            }
            self.advance_time(now_ms);
            let object = self.columns.ids[index];
            let request = ClusterRequest {
                object,
                bucket: self.history.now().bucket_of(object),
                now: Tick(now_ms),
                is_timed: self.meter.is_timed(index as u64),
            };
            let answer = self.servers.serve(request, &self.history);
            if let Some(watch) = self
                .watch
                .as_mut()
                .filter(|_| is_watched && answer.is_miss())
            {
                watch.count(request.bucket, self.servers.objects.is_coded(object));
            }
            if index >= self.rules.warm_up {
                let size = self.columns.sizes[object as usize];
                self.meter.count(
                    index as u64,
                    answer,
                    size,
                    self.rules.coded_from,
                    self.setup.scheme,
                );
            }
            if index % STRIDE == STRIDE - 1 {
                done.fetch_add(STRIDE as u64, Ordering::Relaxed);
            }
        }
        done.fetch_add((until % STRIDE) as u64, Ordering::Relaxed);
        self.close_window();
    }

    fn start_counting(&mut self, now_ms: u64) {
        self.change_map(&[]);
        self.meter.start = Some(self.servers.counters.clone());
        self.meter.window_ends_ms = now_ms.checked_add(self.rules.window_ms);
        if let Some(rebalance_ms) = self.rules.rebalance_ms {
            self.rebalance_at = now_ms.saturating_add(rebalance_ms);
        }
    }

    /// Closes windows and applies failures and recoveries in the order of time, then places parity
    /// again if that is due.
    fn advance_time(&mut self, now_ms: u64) {
        let maps = self.maps;
        loop {
            let window_ends = self.meter.window_ends_ms.filter(|at| *at <= now_ms);
            let event = self.events.get(self.next_event);
            let event_at = event.map(|event| event.0).filter(|at| *at <= now_ms);
            match (window_ends, event_at) {
                // An event at the end of a window belongs to the next window.
                (Some(end), at) if at.is_none_or(|at| end <= at) => {
                    self.close_window();
                    self.meter.open_window(self.rules.window_ms);
                }
                (_, Some(at)) => self.apply_events(at),
                (_, None) => break,
            }
        }
        if now_ms >= self.rebalance_at && self.maps == maps {
            self.change_map(&[]);
            let rebalance_ms = self.rules.rebalance_ms.unwrap_or(u64::MAX);
            self.rebalance_at = now_ms.saturating_add(rebalance_ms);
        }
    }

    /// Applies all failures and recoveries of one moment with one change of the map.
    fn apply_events(&mut self, now_ms: u64) {
        let mut changes = Vec::new();
        while let Some(&(at_ms, server, is_up)) = self.events.get(self.next_event)
            && at_ms <= now_ms
        {
            self.next_event += 1;
            self.servers.set_up(server as u16, is_up, &self.history);
            let id = ServerId(server);
            changes.push(match is_up {
                true => Change::Up(id),
                false => Change::Down(id),
            });
        }
        self.change_map(&changes);
    }

    fn change_map(&mut self, changes: &[Change]) {
        if changes.is_empty() && !self.setup.scheme.is_balanced() {
            return;
        }
        let next = self.map.next(changes, &self.servers.loads());
        self.map = next.expect("the cluster has these servers and buckets");
        let places = Places::of(&self.map, &self.buckets);
        let data = self.setup.scheme.code().map_or(0, |(data, _)| data);
        self.moved += places.moved(self.history.now(), data);
        self.maps += 1;
        let reach = self.history.push(places);
        self.servers.update_reach(&reach, &self.history);
        self.servers.halve_loads();
    }

    fn close_window(&mut self) {
        let presence = &self.servers.presence;
        let sum = |parts: &[u64]| parts.iter().sum::<u64>();
        let data = self.setup.scheme.code().map_or(0, |(data, _)| data);
        self.meter.window.held = sum(&presence.whole) + sum(&presence.coded);
        self.meter.window.unprotected = presence.whole[1] + sum(&presence.coded[..=data]);
        let down = self.servers.is_up.iter().filter(|is_up| !**is_up);
        self.meter.window.down = down.count() as u32;
        if let Some((_, all)) = self.setup.scheme.code() {
            for (parts, &objects) in presence.coded.iter().enumerate() {
                let parts = parts.min(all) as f64;
                let objects = objects as f64;
                self.meter.pairs.0 += objects * parts * (parts - 1.0);
                self.meter.pairs.1 += objects * parts * (all - 1) as f64;
            }
        }
        let held = self.servers.disks.iter().map(|disk| disk.held_bytes());
        let filled = held.sum::<u64>() as f64 / self.setup.capacity as f64;
        self.meter.close_window(filled);
    }

    fn found(&mut self) -> RunResult {
        let meter = &self.meter;
        let counters = &self.servers.counters;
        let zero = Counters {
            read_bytes: vec![0; counters.read_bytes.len()],
            written_bytes: vec![0; counters.read_bytes.len()],
            between_bytes: 0,
            repaired_bytes: 0,
            messages: 0,
            refused: 0,
        };
        let start = meter.start.as_ref().unwrap_or(&zero);
        let since = |now: &[u64], then: &[u64]| -> Vec<u64> {
            now.iter().zip(then).map(|(now, then)| now - then).collect()
        };
        RunResult {
            scheme: self.setup.scheme,
            weights: self.setup.weights.clone(),
            total: meter.total,
            memory_hits: meter.memory_hits,
            peer_hits: meter.peer_hits,
            decoded_hits: meter.decoded_hits,
            unserved: meter.unserved,
            refused: counters.refused - start.refused,
            between_bytes: counters.between_bytes - start.between_bytes,
            repaired_bytes: counters.repaired_bytes - start.repaired_bytes,
            partial_hit_bytes: meter.partial_hit_bytes,
            missed_by_row: self.watch.as_ref().map_or(Vec::new(), MissTracker::found),
            messages: counters.messages - start.messages,
            read_bytes: since(&counters.read_bytes, &start.read_bytes),
            written_bytes: since(&counters.written_bytes, &start.written_bytes),
            windows: meter.windows.clone(),
            window_ms: self.rules.window_ms,
            unprotected: meter.shares.1 / meter.shares.0.max(1) as f64,
            filled: meter.filled / meter.windows.len().max(1) as f64,
            co_residency: (meter.pairs.1 > 0.0).then(|| meter.pairs.0 / meter.pairs.1),
            latencies: meter.recorder.as_ref().map(LatencyRecorder::found),
            maps: self.maps,
            moved: self.moved,
            replayed: self.setup.until.min(self.columns.len()) as u64,
            cpu_time: std::time::Duration::ZERO,
        }
    }
}
