//! Slots that move while clients write to them as fast as they can.

use super::nodes::{Cluster, Owner};
use super::router::{Router, redirection};
use crate::client::Client;
use crate::error::{Error, Result};
use crate::latency::{Latencies, Percentiles};
use serde::Serialize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use trace::Random;

/// Bytes of a value.
pub(super) const VALUE_LEN: usize = 1000;
/// Maximum time of a move.
const MOVE_LIMIT: Duration = Duration::from_secs(600);
/// Time limit of one read.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL_PAUSE: Duration = Duration::from_millis(20);
/// Pause between two reads of other slots.
const READ_PAUSE: Duration = Duration::from_micros(500);
/// Writes in flight on each of the loading connections.
const PIPELINE: usize = 16;
/// Commands in flight while keys are filled.
const FILL_BATCH: usize = 500;

/// Slots of a shard, and their keys.
pub(super) struct Slots {
    ranges: Vec<(u16, u16)>,
    /// Numbers of the keys.
    keys: Vec<u64>,
}

fn name(key: u64) -> String {
    format!("b:{key}")
}

impl Slots {
    /// Writes values of this number of bytes in all to the slots of a node, except its first one:
    /// Valkey makes a primary without slots a replica of another.
    pub(super) fn fill(cluster: &Cluster, primary: usize, bytes: u64) -> Result<Slots> {
        let ranges = cluster.ranges(primary)?.into_iter();
        let ranges = ranges.filter(|(_, owner)| owner.primary == primary);
        let mut ranges: Vec<_> = ranges.map(|(range, _)| range).collect();
        if let Some((first, _)) = ranges.first_mut() {
            *first += 1;
        }
        let has = |key: u64| {
            let slot = wire::slot::slot(name(key).as_bytes());
            ranges
                .iter()
                .any(|(first, last)| (*first..=*last).contains(&slot))
        };
        let count = (bytes / VALUE_LEN as u64) as usize;
        let keys: Vec<u64> = (0..).filter(|key| has(*key)).take(count).collect();
        let value = crate::keys::value(VALUE_LEN);
        let mut client = cluster.client(primary)?;
        for batch in keys.chunks(FILL_BATCH) {
            for key in batch {
                client.queue(&[b"SET", name(*key).as_bytes(), &value]);
            }
            client.flush()?;
            for _ in batch {
                client.receive()?;
            }
        }
        Ok(Slots { ranges, keys })
    }

    /// Returns the number of keys that a node has not.
    pub(super) fn lost(&self, client: &mut Client) -> Result<u64> {
        let mut lost = 0;
        for batch in self.keys.chunks(FILL_BATCH) {
            for key in batch {
                client.queue(&[b"EXISTS", name(*key).as_bytes()]);
            }
            client.flush()?;
            for _ in batch {
                lost += u64::from(client.receive()?.as_integer() != Some(1));
            }
        }
        Ok(lost)
    }

    /// Moves the slots from one node to another. Returns the time until all nodes of both shards
    /// know it.
    pub(super) fn relocate(&self, cluster: &Cluster, from: usize, to: usize) -> Result<Duration> {
        let target = cluster.text(to, &["CLUSTER", "MYID"])?;
        let numbers: Vec<String> = self
            .ranges
            .iter()
            .flat_map(|(first, last)| [first.to_string(), last.to_string()])
            .collect();
        let mut command = vec!["CLUSTER", "MIGRATESLOTS", "SLOTSRANGE"];
        command.extend(numbers.iter().map(String::as_str));
        command.extend(["NODE", &target]);
        let begun = Instant::now();
        cluster.client(from)?.call(&command)?;
        let end = begun + MOVE_LIMIT;
        while !(self.belong_to(cluster, from, to)? && self.belong_to(cluster, to, to)?) {
            if Instant::now() >= end {
                let moves = cluster.client(from)?;
                return Err(failed(cluster, moves));
            }
            std::thread::sleep(POLL_PAUSE);
        }
        Ok(begun.elapsed())
    }

    /// Whether a node knows another as the owner of all slots.
    fn belong_to(&self, cluster: &Cluster, node: usize, owner: usize) -> Result<bool> {
        let ranges = cluster.ranges(node)?;
        let has = |slot: u16| {
            let mut ranges = ranges.iter();
            ranges.any(|((first, last), one): &((u16, u16), Owner)| {
                (*first..=*last).contains(&slot) && one.primary == owner
            })
        };
        let mut borders = self.ranges.iter();
        Ok(borders.all(|(first, last)| has(*first) && has(*last)))
    }
}

/// Returns an error with what the source says of the move.
fn failed(cluster: &Cluster, mut source: Client) -> Error {
    let moves = source.call(&["CLUSTER", "GETSLOTMIGRATIONS"]);
    let text = format!("slots have not moved within {MOVE_LIMIT:?}: {moves:?}");
    Error::server(&cluster.label, text)
}

/// Reads of another shard's slots, and the load on those that move.
#[derive(Debug, Serialize)]
pub(super) struct Load {
    pub writes_per_second: f64,
    pub others_before: Percentiles,
    pub others_meanwhile: Percentiles,
}

/// Writes with `threads` connections to the slots as fast as their owner takes it, first for a
/// while and then until `action` ends.
pub(super) fn under_load<T>(
    cluster: &mut Cluster,
    slots: &Slots,
    (threads, other): (usize, usize),
    before: Duration,
    action: impl FnOnce(&mut Cluster) -> Result<T>,
) -> Result<(T, Load)> {
    let (label, addresses) = (cluster.label.clone(), cluster.addresses());
    let first = cluster.owner(slots.ranges[0].0)?.primary;
    // A key of the other shard, which need not exist.
    let key = (0..).map(|number| format!("other:{number}"));
    let range = cluster.ranges(other)?.into_iter();
    let mut range = range.filter(|(_, owner)| owner.primary == other);
    let ((low, high), _) = range
        .next()
        .ok_or_else(|| Error::server(&label, "a shard has no slots"))?;
    let mut key = key.filter(|name| (low..=high).contains(&wire::slot::slot(name.as_bytes())));
    let key = key.next().expect("every slot has keys");
    let (is_over, is_begun) = (AtomicBool::new(false), AtomicBool::new(false));
    let count = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for seed in 0..threads as u64 {
            let (label, addresses) = (&label, &addresses);
            let (is_over, count) = (&is_over, &count);
            scope.spawn(move || {
                let at = (label.as_str(), addresses.as_slice(), first);
                write(at, slots, (seed, is_over, count));
            });
        }
        let reading = scope.spawn(|| {
            let router = Router::new(&label, addresses.clone(), other);
            read(router, &key, &is_begun, &is_over)
        });
        std::thread::sleep(before);
        is_begun.store(true, Relaxed);
        let (begun, count_before) = (Instant::now(), count.load(Relaxed));
        let result = action(cluster);
        let seconds = begun.elapsed().as_secs_f64();
        let written = count.load(Relaxed) - count_before;
        is_over.store(true, Relaxed);
        let [others_before, others_meanwhile] = reading.join().expect("the reader does not panic");
        let load = Load {
            writes_per_second: written as f64 / seconds,
            others_before,
            others_meanwhile,
        };
        result.map(|value| (value, load))
    })
}

/// Writes random keys of the slots in batches, to the node that owns them.
fn write(
    (label, addresses, first): (&str, &[std::net::SocketAddr], usize),
    slots: &Slots,
    (seed, is_over, count): (u64, &AtomicBool, &AtomicU64),
) {
    let (mut random, mut at) = (Random::new(seed), first);
    let value = crate::keys::value(VALUE_LEN);
    let mut client = None;
    while !is_over.load(Relaxed) {
        if client.is_none() {
            client = Client::connect(label, addresses[at]).ok();
        }
        let Some(connected) = &mut client else {
            std::thread::sleep(POLL_PAUSE);
            continue;
        };
        for _ in 0..PIPELINE {
            let key = slots.keys[random.below(slots.keys.len() as u64) as usize];
            connected.queue(&[b"SET", name(key).as_bytes(), &value]);
        }
        let mut is_lost = connected.flush().is_err();
        let mut moved = None;
        for _ in 0..PIPELINE {
            match connected.receive_within(PATIENCE) {
                Ok(Some(reply)) if reply.as_error().is_none() => {
                    count.fetch_add(1, Relaxed);
                }
                Ok(Some(refusal)) => moved = redirection(&refusal, addresses).or(moved),
                _ => {
                    is_lost = true;
                    break;
                }
            }
        }
        if let Some(owner) = moved {
            at = owner;
        }
        if is_lost || moved.is_some() {
            client = None;
        }
    }
}

/// Returns the latencies of reads before and after something has begun.
fn read(
    mut router: Router,
    key: &str,
    is_begun: &AtomicBool,
    is_over: &AtomicBool,
) -> [Percentiles; 2] {
    let mut latencies = [Latencies::new(), Latencies::new()];
    while !is_over.load(Relaxed) {
        let sent = Instant::now();
        let command = [b"GET".as_slice(), key.as_bytes()];
        if router.persist(&command, sent + PATIENCE).is_some() {
            latencies[usize::from(is_begun.load(Relaxed))].record(sent.elapsed());
        }
        std::thread::sleep(READ_PAUSE);
    }
    latencies.map(|one| one.percentiles())
}
