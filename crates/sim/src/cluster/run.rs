//! One run: a trace through a cluster under one scheme, one policy, one size.

use super::coordination::{Coordination, Order};
use super::found::Found;
use super::history::History;
use super::latency::Stopwatch;
use super::meter::{Meter, check_windows, events};
use super::places::{self, Places, buckets_of};
use super::ring::{HashOrder, Ring};
use super::scheme::Scheme;
use super::servers::{Asked, Objects, Servers, Work};
use super::tier::{Tier, tier};
use super::watch::Watch;
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

/// The most servers of a cluster: as many as a trace of outages can name.
pub const SERVERS_MAX: usize = trace::SERVER_MAX as usize + 1;
/// The longest trace, a hundred years: above it, times are a mistake.
const SPAN_MAX_MS: u64 = 100 * 366 * 24 * 3_600_000;
/// Requests between two reports of progress.
const STRIDE: usize = 1 << 16;
/// Bytes by object: queues and ghosts of all disks together, weight, bucket, parts.
const OBJECT_BYTES: u64 = 64;

/// What holds for all runs of a study.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Buckets of the cluster.
    pub buckets: u32,
    /// Objects of at least so many bytes are coded.
    pub coded_from: u32,
    /// Requests at the start that count for nothing. Parity is placed by load when they are over.
    pub warm_up: usize,
    /// How long a window of the results is.
    pub window_ms: u64,
    /// Milliseconds from one request to the next, instead of what the trace tells.
    pub gap_ms: Option<f64>,
    /// Parity is placed anew so often, also where no server comes or goes.
    pub rebalance_ms: Option<u64>,
    /// Determines what chance decides.
    pub seed: u64,
    /// Bytes that a run may use.
    pub memory_limit: u64,
}

impl Default for Rules {
    fn default() -> Self {
        Rules {
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

/// What distinguishes a run from the others of a study.
#[derive(Clone, Debug)]
pub struct Setup {
    /// How objects are kept.
    pub scheme: Scheme,
    /// Each disk's policy.
    pub policy: PolicySpec,
    /// How large servers are, in proportion to each other.
    pub weights: Vec<u32>,
    /// Bytes of all disks together.
    pub capacity: u64,
    /// The share of its disk that each server has as memory besides.
    pub memory_share: f64,
    /// How servers work together.
    pub coordination: Coordination,
    /// The milliseconds of which is told whose objects were missed.
    pub watched: Range<u64>,
    /// When servers are down; of servers that the cluster does not have, nothing.
    pub outages: Arc<[Outage]>,
    /// The number of requests that are replayed.
    pub until: usize,
    /// Whether requests are timed.
    pub is_timed: bool,
}

/// When each request comes.
pub(super) struct Clock<'a> {
    columns: &'a Columns,
    gap_ms: Option<f64>,
    now_ms: u64,
}

impl<'a> Clock<'a> {
    pub(super) fn new(columns: &'a Columns, rules: &Rules) -> Self {
        Clock {
            columns,
            gap_ms: rules.gap_ms,
            now_ms: 0,
        }
    }

    /// The time of this request; they must be asked for in order.
    pub(super) fn at(&mut self, index: usize) -> u64 {
        match self.gap_ms {
            Some(gap_ms) => self.now_ms = (index as f64 * gap_ms) as u64,
            None => self.now_ms += self.columns.gap_ms(index),
        }
        self.now_ms
    }
}

/// Arcs of a max-flow, which takes minutes and gigabytes beyond.
const FLOW_PAIRS_MAX: u64 = 1 << 20;

/// Whether the trace tells sizes.
///
/// # Errors
/// It does not.
pub fn check_sizes(columns: &Columns) -> Result<(), Error> {
    match columns.has_sizes() {
        true => Ok(()),
        false => Err(Error::Cluster {
            problem: format!(
                "{} tells no sizes of objects, or none above a byte, and a cluster's load is counted in bytes: \
                 give a trace with sizes",
                columns.name()
            ),
        }),
    }
}

/// Whether this run can be, before any work is done.
///
/// # Errors
/// What is wrong, in words: a trace without sizes, too few servers, one without size, no bucket, a
/// policy that must know the future, more memory than may be used.
pub fn check(columns: &Columns, rules: &Rules, setup: &Setup) -> Result<(), Error> {
    let bad = |problem: String| Err(Error::Cluster { problem });
    let servers = setup.weights.len();
    let parts = setup.scheme.parts();
    check_sizes(columns)?;
    if servers == 0 || servers > SERVERS_MAX {
        return bad(format!("{servers} servers: expected 1 to {SERVERS_MAX}"));
    }
    if setup.weights.contains(&0) {
        return bad("a server of weight 0 keeps nothing: leave it out".into());
    }
    if parts > servers {
        return bad(format!(
            "{} spreads an object over {parts} servers, and there are {servers}",
            setup.scheme
        ));
    }
    let pairs = servers as u64 * u64::from(rules.buckets);
    if setup.scheme.is_flow() && pairs > FLOW_PAIRS_MAX {
        return bad(format!(
            "{} of {} buckets over {servers} servers: buckets times servers are at most {FLOW_PAIRS_MAX} for a \
             max-flow",
            setup.scheme, rules.buckets
        ));
    }
    if setup.policy.needs_future() {
        return bad(format!(
            "{} must know the future, and what a server is asked for depends on the others",
            setup.policy
        ));
    }
    let smallest = capacities(setup).into_iter().min().unwrap_or(0);
    if smallest == 0 {
        return bad(format!(
            "{} bytes for {servers} servers leave one with nothing",
            setup.capacity
        ));
    }
    let span_ms = columns.span_ms(rules.gap_ms);
    if span_ms > SPAN_MAX_MS {
        return bad(format!(
            "{} takes {} years from the first request to the last, and 100 are the most: its times are no \
             milliseconds, or the rate is too low",
            columns.name(),
            span_ms / (SPAN_MAX_MS / 100)
        ));
    }
    check_windows(span_ms, rules.window_ms)?;
    new_map(rules, setup)?;
    let needed = bytes_needed(columns, setup);
    if needed > rules.memory_limit {
        return bad(format!(
            "{servers} servers and {} objects need {} MiB, and {} may be used: cut or sample the \
             trace, simulate fewer servers, or raise --memory-limit",
            columns.objects(),
            needed >> 20,
            rules.memory_limit >> 20
        ));
    }
    Ok(())
}

/// The most bytes that a run takes, as a rule: by server and object what the policies keep, which chunk
/// there is, and by object what is kept once.
pub(super) fn bytes_needed(columns: &Columns, setup: &Setup) -> u64 {
    let by_policy = |policy: &PolicySpec| policy.visit(BytesPerObject(&crate::Rules::default()));
    let memory = match setup.memory_share > 0.0 {
        true => by_policy(&PolicySpec::Lru(())),
        false => 0,
    };
    let disk = match setup.coordination.order {
        Order::Policy => by_policy(&setup.policy),
        Order::Hash | Order::SharedHash => Ring::OBJECT_BYTES,
    };
    let each = disk + memory + 1;
    (setup.weights.len() as u64 * each + OBJECT_BYTES) * columns.objects() as u64
}

fn new_map(rules: &Rules, setup: &Setup) -> Result<Map, Error> {
    let config = places::config(setup.scheme, rules.buckets, rules.coded_from, rules.seed);
    let weights = setup.weights.iter().enumerate();
    let members: Vec<_> = weights
        .map(|(id, weight)| (ServerId(id as u32), *weight))
        .collect();
    Map::new(config, &members).map_err(|error| Error::Cluster {
        problem: error.to_string(),
    })
}

/// Each server's disk in bytes.
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

/// The servers' disks, in the order of their numbers.
fn disks<'t>(setup: &Setup, weights: &'t [u32], seed: u64) -> Vec<Box<dyn Tier + 't>> {
    let capacities = capacities(setup).into_iter();
    if setup.coordination.order == Order::Policy {
        let disk = |(at, capacity)| tier(&setup.policy, weights, capacity, seed ^ at as u64);
        return capacities.enumerate().map(disk).collect();
    }
    let order = Rc::new(HashOrder::new(weights.len()));
    let is_told = setup.coordination.order == Order::SharedHash;
    let disk = |capacity| Ring::new(Rc::clone(&order), weights, capacity, is_told);
    capacities
        .map(|capacity| Box::new(disk(capacity)) as Box<dyn Tier + 't>)
        .collect()
}

/// Replays the trace through a cluster; `done` counts requests.
///
/// # Errors
/// Those of [`check`].
pub fn run(
    columns: &Columns,
    rules: &Rules,
    setup: &Setup,
    done: &AtomicU64,
) -> Result<Found, Error> {
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
    if cfg!(debug_assertions) {
        run.servers.check(&run.history);
    }
    Ok(Found {
        cpu_time,
        ..run.found()
    })
}

/// A cluster on its way through a trace.
struct Run<'a> {
    columns: &'a Columns,
    rules: &'a Rules,
    setup: &'a Setup,
    servers: Servers<'a>,
    map: Map,
    buckets: Arc<[u32]>,
    history: History,
    /// Time, server, whether it comes; in the order of time.
    events: Vec<(u64, u32, bool)>,
    next_event: usize,
    rebalance_at: u64,
    meter: Meter,
    /// From the first request on that is watched.
    watch: Option<Watch>,
    maps: u64,
    moved: u64,
}

impl<'a> Run<'a> {
    fn new(
        columns: &'a Columns,
        rules: &'a Rules,
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
            meter: Meter::new(setup.is_timed.then(|| Stopwatch::new(rules.seed))),
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
                self.watch = Some(Watch::new(self.history.now().clone()));
            }
            self.pass_time(now_ms);
            let object = self.columns.ids[index];
            let asked = Asked {
                object,
                bucket: self.history.now().bucket_of(object),
                now: Tick(now_ms),
                is_timed: self.meter.is_timed(index as u64),
            };
            let answer = self.servers.serve(asked, &self.history);
            if let Some(watch) = self
                .watch
                .as_mut()
                .filter(|_| is_watched && answer.is_miss())
            {
                watch.count(asked.bucket, self.servers.objects.is_coded(object));
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
        self.meter.start = Some(self.servers.work.clone());
        self.meter.window_ends_ms = now_ms.checked_add(self.rules.window_ms);
        if let Some(rebalance_ms) = self.rules.rebalance_ms {
            self.rebalance_at = now_ms.saturating_add(rebalance_ms);
        }
    }

    /// Windows end and servers come and go, in the order of time; then parity is placed anew.
    fn pass_time(&mut self, now_ms: u64) {
        let maps = self.maps;
        loop {
            let window_ends = self.meter.window_ends_ms.filter(|at| *at <= now_ms);
            let event = self.events.get(self.next_event);
            let event_at = event.map(|event| event.0).filter(|at| *at <= now_ms);
            match (window_ends, event_at) {
                // What happens at the end of a window belongs to the next.
                (Some(end), at) if at.is_none_or(|at| end <= at) => {
                    self.close_window();
                    self.meter.open_window(self.rules.window_ms);
                }
                (_, Some(at)) => self.come_and_go(at),
                (_, None) => break,
            }
        }
        if now_ms >= self.rebalance_at && self.maps == maps {
            self.change_map(&[]);
            let rebalance_ms = self.rules.rebalance_ms.unwrap_or(u64::MAX);
            self.rebalance_at = now_ms.saturating_add(rebalance_ms);
        }
    }

    /// All that happens at one moment makes one map.
    fn come_and_go(&mut self, now_ms: u64) {
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
        self.servers.reach(&reach, &self.history);
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

    fn found(&mut self) -> Found {
        let meter = &self.meter;
        let work = &self.servers.work;
        let zero = Work {
            read_bytes: vec![0; work.read_bytes.len()],
            written_bytes: vec![0; work.read_bytes.len()],
            between_bytes: 0,
            mended_bytes: 0,
            messages: 0,
            refused: 0,
        };
        let start = meter.start.as_ref().unwrap_or(&zero);
        let since = |now: &[u64], then: &[u64]| -> Vec<u64> {
            now.iter().zip(then).map(|(now, then)| now - then).collect()
        };
        Found {
            scheme: self.setup.scheme,
            weights: self.setup.weights.clone(),
            total: meter.total,
            memory_hits: meter.memory_hits,
            peer_hits: meter.peer_hits,
            decoded_hits: meter.decoded_hits,
            unserved: meter.unserved,
            refused: work.refused - start.refused,
            between_bytes: work.between_bytes - start.between_bytes,
            mended_bytes: work.mended_bytes - start.mended_bytes,
            salvaged_bytes: meter.salvaged_bytes,
            missed_by_row: self.watch.as_ref().map_or(Vec::new(), Watch::found),
            messages: work.messages - start.messages,
            read_bytes: since(&work.read_bytes, &start.read_bytes),
            written_bytes: since(&work.written_bytes, &start.written_bytes),
            windows: meter.windows.clone(),
            window_ms: self.rules.window_ms,
            unprotected: meter.shares.1 / meter.shares.0.max(1) as f64,
            filled: meter.filled / meter.windows.len().max(1) as f64,
            together: (meter.pairs.1 > 0.0).then(|| meter.pairs.0 / meter.pairs.1),
            latencies: meter.stopwatch.as_ref().map(Stopwatch::found),
            maps: self.maps,
            moved: self.moved,
            replayed: self.setup.until.min(self.columns.len()) as u64,
            cpu_time: std::time::Duration::ZERO,
        }
    }
}
