//! What clients see while something happens to a cluster: writes, reads of keys with deadlines, and
//! expired events.

use super::nodes::Cluster;
use super::router::Router;
use crate::client::Client;
use crate::clock;
use crate::error::Result;
use crate::latency::{Latencies, Percentiles};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use trace::Random;

/// Pause between two writes and between two reads.
const PAUSE: Duration = Duration::from_millis(1);
/// Time limit of one write or read.
const PATIENCE: Duration = Duration::from_secs(60);
/// Maximum time until a subscriber sees that the trial is over.
const WAIT: Duration = Duration::from_millis(100);
/// Time after the last deadline, and after the action, in which events are awaited.
const GRACE_MS: u64 = 1500;
/// Commands in flight while keys are filled.
const BATCH: u64 = 500;

/// Keys with deadlines that are spread evenly over a time.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// Hash tag of all keys.
    pub tag: String,
    pub keys: u64,
    /// First deadline in milliseconds since the Unix epoch.
    pub begin_ms: u64,
    pub span_ms: u64,
}

impl Plan {
    fn prefix(&self) -> String {
        format!("{{{}}}:e:", self.tag)
    }

    pub(super) fn deadline_ms(&self, key: u64) -> u64 {
        self.begin_ms + key * self.span_ms / self.keys
    }

    /// Writes the keys to the node that owns them.
    pub(super) fn fill(&self, client: &mut Client) -> Result<()> {
        let prefix = self.prefix();
        for start in (0..self.keys).step_by(BATCH as usize) {
            let batch = start..self.keys.min(start + BATCH);
            for key in batch.clone() {
                let name = format!("{prefix}{key}");
                let deadline = self.deadline_ms(key).to_string();
                let words = ["SET", &name, "v", "PXAT", &deadline];
                client.queue(&words.map(str::as_bytes));
            }
            client.flush()?;
            for _ in batch {
                client.receive()?;
            }
        }
        Ok(())
    }

    /// Sleeps until all deadlines have passed and their events have had time to arrive.
    fn sleep_until_over(&self) {
        let last_ms = self.begin_ms + self.span_ms;
        clock::sleep_until_ms(last_ms.max(clock::wall_ms()) + GRACE_MS);
    }
}

/// A write that was acknowledged.
struct Written {
    begun: Instant,
    ended: Instant,
}

/// What was seen.
pub(super) struct Observation {
    plan: Plan,
    written: Vec<Written>,
    pub reads: u64,
    /// Reads that returned a value although its deadline had passed before they were sent.
    pub late_reads: u64,
    /// Times at which `expired` events of each key arrived, in microseconds since the epoch.
    events: Vec<Vec<u64>>,
}

/// Observes a cluster from before `action` until all deadlines of the plan have passed.
pub(super) fn observe<T>(
    cluster: &mut Cluster,
    plan: &Plan,
    action: impl FnOnce(&mut Cluster) -> Result<T>,
) -> Result<(T, Observation)> {
    let owner = cluster.owner(wire::slot::slot(plan.tag.as_bytes()))?;
    let (label, addresses) = (cluster.label.clone(), cluster.addresses());
    for at in 0..addresses.len() {
        cluster
            .client(at)?
            .configure("notify-keyspace-events", "Ex")?;
    }
    let is_over = AtomicBool::new(false);
    let router = |at| Router::new(&label, addresses.clone(), at);
    let (is_over, plan) = (&is_over, plan);
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| write(router(owner.primary), plan, is_over));
        let reading = scope.spawn(|| read(router(owner.primary), plan, is_over, 1));
        let reading_replica = owner.replica.map(|replica| {
            let reader = router(replica).of_replicas();
            scope.spawn(move || read(reader, plan, is_over, 2))
        });
        let listening: Vec<_> = addresses
            .iter()
            .map(|address| scope.spawn(|| listen(&label, *address, plan, is_over)))
            .collect();
        let result = action(cluster);
        if result.is_ok() {
            plan.sleep_until_over();
        }
        is_over.store(true, Relaxed);
        let written = writing.join().expect("the writer does not panic");
        let readers = [Some(reading), reading_replica].into_iter().flatten();
        let (mut reads, mut late_reads) = (0, 0);
        for reader in readers {
            let (all, late) = reader.join().expect("a reader does not panic");
            reads += all;
            late_reads += late;
        }
        let mut events = vec![Vec::new(); plan.keys as usize];
        for listener in listening {
            for (key, at_us) in listener.join().expect("a listener does not panic") {
                events[key as usize].push(at_us);
            }
        }
        let observation = Observation {
            plan: plan.clone(),
            written,
            reads,
            late_reads,
            events,
        };
        result.map(|value| (value, observation))
    })
}

fn written_key(tag: &str, number: usize) -> String {
    format!("{{{tag}}}:w:{number}")
}

/// Writes keys one after the other, each until it is acknowledged.
fn write(mut router: Router, plan: &Plan, is_over: &AtomicBool) -> Vec<Written> {
    let mut written = Vec::new();
    while !is_over.load(Relaxed) {
        let name = written_key(&plan.tag, written.len());
        let begun = Instant::now();
        let command = [b"SET", name.as_bytes(), b"v"];
        if router.persist(&command, begun + PATIENCE).is_none() {
            break;
        }
        let ended = Instant::now();
        written.push(Written { begun, ended });
        std::thread::sleep(PAUSE);
    }
    written
}

/// Reads random keys of the plan. Returns the number of reads and of those that returned a value
/// after its deadline.
fn read(mut router: Router, plan: &Plan, is_over: &AtomicBool, seed: u64) -> (u64, u64) {
    let (mut random, mut reads, mut late) = (Random::new(seed), 0, 0);
    let prefix = plan.prefix();
    while !is_over.load(Relaxed) {
        let key = random.below(plan.keys);
        let name = format!("{prefix}{key}");
        let sent_ms = clock::wall_ms();
        let command = [b"GET".as_slice(), name.as_bytes()];
        if let Some(answer) = router.persist(&command, Instant::now() + PATIENCE) {
            reads += 1;
            late += u64::from(!answer.reply.is_null() && sent_ms > plan.deadline_ms(key));
        }
        std::thread::sleep(PAUSE);
    }
    (reads, late)
}

/// Returns the keys of `expired` events of a node with the times of their arrival. A node that
/// dies sends no more.
fn listen(label: &str, address: SocketAddr, plan: &Plan, is_over: &AtomicBool) -> Vec<(u64, u64)> {
    let mut events = Vec::new();
    let prefix = plan.prefix();
    let Ok(mut client) = Client::connect(label, address) else {
        return events;
    };
    client.queue(&[b"SUBSCRIBE", b"__keyevent@0__:expired"]);
    if client.flush().is_err() {
        return events;
    }
    while !is_over.load(Relaxed) {
        let message = match client.receive_within(WAIT) {
            Ok(Some(message)) => message,
            Ok(None) => continue,
            Err(_) => break,
        };
        let at_us = clock::wall_us();
        let name = message.as_list().and_then(|parts| parts.get(2)?.as_bytes());
        let name = name.and_then(|name| std::str::from_utf8(name).ok());
        let key = name.and_then(|name| name.strip_prefix(&prefix)?.parse().ok());
        if let Some(key) = key {
            events.push((key, at_us));
        }
    }
    events
}

impl Observation {
    pub(super) fn writes(&self) -> u64 {
        self.written.len() as u64
    }

    /// Returns the longest time that a write took.
    pub(super) fn longest_write(&self) -> Duration {
        let times = self.written.iter().map(|one| one.ended - one.begun);
        times.max().unwrap_or_default()
    }

    /// Returns the number of acknowledged writes that the cluster does not have.
    pub(super) fn lost_writes(&self, cluster: &Cluster) -> u64 {
        let mut router = Router::new(&cluster.label, cluster.addresses(), 0);
        let mut lost = 0;
        for number in 0..self.written.len() {
            let name = written_key(&self.plan.tag, number);
            let command = [b"EXISTS".as_slice(), name.as_bytes()];
            let answer = router.persist(&command, Instant::now() + PATIENCE);
            lost += u64::from(answer.is_none_or(|answer| answer.reply.as_integer() != Some(1)));
        }
        lost
    }

    /// Returns the number of keys without an event.
    pub(super) fn missing(&self) -> u64 {
        self.events.iter().filter(|times| times.is_empty()).count() as u64
    }

    /// Returns the number of events beyond the first of each key.
    pub(super) fn duplicates(&self) -> u64 {
        let beyond = self.events.iter().map(|times| times.len().max(1) - 1);
        beyond.sum::<usize>() as u64
    }

    /// Returns percentiles of the time from deadlines to events.
    pub(super) fn lateness(&self) -> Percentiles {
        let mut latencies = Latencies::new();
        for (key, times) in self.events.iter().enumerate() {
            if let Some(first) = times.iter().min() {
                let deadline_us = self.plan.deadline_ms(key as u64) * 1000;
                latencies.record(Duration::from_micros(first.saturating_sub(deadline_us)));
            }
        }
        latencies.percentiles()
    }

    /// Returns the time from an instant until the last event of keys whose deadlines had passed
    /// by then.
    pub(super) fn overdue_gone(&self, at_us: u64) -> Duration {
        let overdue = self.events.iter().enumerate().filter_map(|(key, times)| {
            let is_overdue = self.plan.deadline_ms(key as u64) * 1000 < at_us;
            times.iter().min().filter(|_| is_overdue)
        });
        let last = overdue.max().copied().unwrap_or(at_us);
        Duration::from_micros(last.saturating_sub(at_us))
    }
}
