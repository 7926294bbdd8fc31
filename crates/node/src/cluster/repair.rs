//! Repair of lost chunks: a chunk is restored from K others and written to its home, the node that
//! stores it according to the current map.
//!
//! A read that finds a chunk missing or damaged on its home reports it. A node that comes back may
//! have lost everything. Each other node then goes through its stubs and checks the objects for
//! which it is the first owner, not counting the returned node. A repair reads the object without
//! the origin, cuts it again, compares the content with the object's version, and sends the missing
//! chunks.
//!
//! # Bounds
//! A node repairs one object at a time, and one more after a node has come back. Pauses limit the
//! bytes per second that are read for it, here and on homes, to a configured rate. A chunk is
//! repaired at most once per [`RECENT_TIME`], so that a chunk that cannot be repaired costs little.
//! At most [`WAITING_MAX`] objects wait; further ones are found by their next read. The memory of a
//! repair is one stripe and the missing chunks.
//!
//! A chunk that the verification finds damaged is reported only once, because it has left the
//! index. If it cannot be repaired then, for instance because fewer than K nodes answer or none has
//! the head, it is reported again after [`RETRY_TIME`], and then after twice the previous wait, up
//! to [`RETRIES_MAX`] times. At most [`WAITING_MAX`] chunks wait for that, until the node stops.
//!
//! # Limits
//! When a node comes back, 65,536 heads in memory and all heads on disk are compared with the list
//! of its chunks, but not with their content, because it would otherwise read its whole disk after
//! each restart. Other lost chunks are found by reads, and damaged ones by the verification of the
//! disk tier ([`crate::scrub`]), which also finds parity that no read needs. Parity that was lost
//! without damage or a restart is found with the first lost data chunk of the same object, because
//! all chunks of the object are then read.
//!
//! A home refuses chunks of objects that a purge may concern: objects purged since their fetch and,
//! after more than a thousand purges, all objects older than the recorded ones.

use super::message::Part;
use super::read::CodedExtent;
use super::write::Cut;
use super::{Cluster, PART_BYTES_MAX, PROBE_TIME, call_of};
use crate::cluster::message;
use crate::coded::Coded;
use crate::config::Invalid;
use crate::disk::key_hash;
use crate::object::{Extent, Head};
use crate::rules::key::Key;
use crate::rules::ranges::Range;
use bytes::Bytes;
use edge::{ServerId, mix};
use hyper::{Method, StatusCode};
use library::Cache;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::future::poll_fn;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, sleep_until};

/// Maximum number of objects waiting for repair.
const WAITING_MAX: usize = 1_024;
/// Maximum number of stubs that wait while a node's chunks are checked.
const STUBS_MAX: usize = 64;
/// Maximum number of objects remembered as recently repaired or not repairable.
const RECENT_MAX: u64 = 16_384;
/// Time for which such an object is remembered.
const RECENT_TIME: Duration = Duration::from_secs(60);
/// Time before a damaged chunk that was not repaired is first reported again.
const RETRY_TIME: Duration = Duration::from_secs(120);
/// Maximum number of repeated reports. The last one follows after 34 hours.
const RETRIES_MAX: u32 = 10;

/// Object that may have lost chunks.
struct Damaged {
    key: Key,
    head: Arc<Head>,
    /// Chunks known to be lost.
    lost: BTreeSet<usize>,
    /// Node whose chunks are checked; `None` for all nodes.
    of: Option<ServerId>,
    /// Number of earlier reports of the lost chunk; `None` if it is not reported again when the
    /// repair fails.
    tries: Option<u32>,
}

/// Report of a damaged chunk in the disk tier whose home is this node.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Report {
    /// Key of the chunk.
    key: Key,
    versions: Vec<u64>,
    /// Number of earlier reports of this chunk.
    tries: u32,
}

/// Reports to be repeated, ordered by time.
#[derive(Default)]
struct Retries {
    reports: BTreeMap<(Instant, u64), Report>,
    /// Number of the next report, which distinguishes reports of the same instant.
    next: u64,
}

impl Retries {
    /// Schedules another attempt for a report whose repair failed. Returns false if there is no
    /// room or all attempts are used up.
    fn push(&mut self, mut report: Report, now: Instant) -> bool {
        if self.reports.len() >= WAITING_MAX || report.tries >= RETRIES_MAX {
            return false;
        }
        let at = now + RETRY_TIME * 2_u32.pow(report.tries);
        report.tries += 1;
        self.reports.insert((at, self.next), report);
        self.next += 1;
        true
    }
}

/// State of the repairs of a node.
pub(super) struct Repairs {
    /// Number that changes at each start, by which other nodes notice a restart.
    instance: Bytes,
    bytes_per_second: u64,
    waiting: mpsc::Sender<Damaged>,
    receiver: Mutex<Option<mpsc::Receiver<Damaged>>>,
    recent: Cache<u64, ()>,
    retries: Mutex<Retries>,
    /// Notified when a report is added to `retries`.
    retried: Notify,
    /// Nodes that have come back and whose chunks have not been checked yet.
    returned: Mutex<BTreeSet<ServerId>>,
    change: Notify,
    instances: Mutex<BTreeMap<ServerId, Bytes>>,
    /// Instant at which further bytes may be read.
    pace: tokio::sync::Mutex<Instant>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poison| poison.into_inner())
}

impl Repairs {
    /// Prepares repairs that read at most `bytes_per_second`; 0 turns them off.
    pub fn new(bytes_per_second: u64) -> Result<Self, Invalid> {
        let (waiting, receiver) = mpsc::channel(WAITING_MAX);
        let recent = Cache::builder(RECENT_MAX).ttl(RECENT_TIME).build();
        let instance = RandomState::new().hash_one(0);
        Ok(Repairs {
            instance: format!("{instance:016x}").into(),
            bytes_per_second,
            waiting,
            receiver: Mutex::new(Some(receiver)),
            recent: recent.map_err(|error| Invalid(error.to_string()))?,
            retries: Mutex::default(),
            retried: Notify::new(),
            returned: Mutex::default(),
            change: Notify::new(),
            instances: Mutex::default(),
            pace: tokio::sync::Mutex::new(Instant::now()),
        })
    }

    /// Registers that a node answers again or has restarted.
    pub fn returned(&self, server: ServerId) {
        if self.bytes_per_second > 0 {
            locked(&self.returned).insert(server);
            self.change.notify_one();
        }
    }

    /// Registers the instance number that a node sent in its answer to a probe.
    pub fn saw(&self, server: ServerId, instance: &Bytes) {
        let before = locked(&self.instances).insert(server, instance.clone());
        if before.is_some_and(|before| before != *instance) {
            self.returned(server);
        }
    }

    /// Returns true if a name was registered recently. In any case, it is registered now.
    fn is_recent(&self, name: u64) -> bool {
        let is_recent = self.recent.contains_key(&name);
        if !is_recent {
            self.recent.insert(name, ());
        }
        is_recent
    }

    /// Schedules another attempt for a report.
    fn retry(&self, report: Report) -> bool {
        let is_kept = locked(&self.retries).push(report, Instant::now());
        self.retried.notify_one();
        is_kept
    }

    /// Waits until a report is due for repetition, and returns it.
    async fn next_retry(&self) -> Report {
        loop {
            let first = { locked(&self.retries).reports.keys().next().copied() };
            let Some((at, _)) = first else {
                self.retried.notified().await;
                continue;
            };
            if at > Instant::now() {
                tokio::select! {
                    () = sleep_until(at) => {}
                    () = self.retried.notified() => {}
                }
                continue;
            }
            if let Some((_, report)) = { locked(&self.retries).reports.pop_first() } {
                return report;
            }
        }
    }

    /// Waits until the rate permits reading this many bytes.
    async fn wait_for(&self, bytes: u64) {
        let mut pace = self.pace.lock().await;
        let us = bytes.saturating_mul(1_000_000) / self.bytes_per_second.max(1);
        *pace = (*pace).max(Instant::now()) + Duration::from_micros(us);
        let until = *pace;
        drop(pace);
        sleep_until(until).await;
    }
}

impl Cluster {
    /// Returns the instance number of this start.
    pub fn instance(&self) -> Bytes {
        self.repairs.instance.clone()
    }

    /// Repairs reported objects until `stop` changes.
    pub async fn repair(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        let receiver = locked(&self.repairs.receiver).take();
        let Some(mut receiver) = receiver.filter(|_| self.repairs.bytes_per_second > 0) else {
            return;
        };
        let reported = async {
            while let Some(damaged) = receiver.recv().await {
                let is_repaired = self.repair_one(&damaged).await;
                if !is_repaired && let Some(tries) = damaged.tries {
                    self.retry_damaged(&damaged, tries);
                }
            }
        };
        let retried = async {
            loop {
                let report = self.repairs.next_retry().await;
                self.report_chunk(report).await;
            }
        };
        let returned = async {
            loop {
                self.repairs.change.notified().await;
                while let Some(server) = { locked(&self.repairs.returned).pop_first() } {
                    self.repair_node(server).await;
                }
            }
        };
        tokio::select! {
            () = reported => {}
            () = returned => {}
            () = retried => {}
            _ = stop.changed() => {}
        }
    }

    /// Reports that homes of an object have lost these chunks.
    pub(super) fn report(&self, key: &Key, head: &Arc<Head>, mut lost: BTreeSet<usize>) {
        if lost.is_empty() || self.repairs.bytes_per_second == 0 {
            return;
        }
        let version = head.coded.map_or(0, |coded| coded.version);
        let object = key_hash(key) ^ version;
        lost.retain(|chunk| !self.repairs.is_recent(chunk_name(object, *chunk)));
        if lost.is_empty() {
            return;
        }
        let damaged = Damaged {
            key: key.clone(),
            head: head.clone(),
            lost,
            of: None,
            tries: None,
        };
        match self.repairs.waiting.try_send(damaged) {
            Ok(()) => {}
            Err(_) => _ = self.counts.repairs_dropped.fetch_add(1, Relaxed),
        }
    }

    /// Reports a lost chunk of the disk tier if this node is its home and does not have it in
    /// memory. Waits if too many objects wait.
    pub async fn report_lost(self: &Arc<Self>, chunk_key: &Key, versions: &[u64]) {
        let report = Report {
            key: chunk_key.clone(),
            versions: versions.to_vec(),
            tries: 0,
        };
        self.report_chunk(report).await;
    }

    async fn report_chunk(self: &Arc<Self>, report: Report) {
        let Some((key, chunk)) = report.key.of_chunk() else {
            return;
        };
        if self.repairs.bytes_per_second == 0
            || report.versions.is_empty()
            || !self.is_home(&key, chunk, self.config.own)
        {
            return;
        }
        // The chunk is stored again, in memory or, at a later attempt, on disk.
        if let Some(resource) = self.store.get_anywhere(&report.key).await
            && report
                .versions
                .iter()
                .all(|version| resource.chunk(*version).is_some())
        {
            return;
        }
        let mut heads = self.heads_here(&key, &report.versions).await;
        if heads.is_empty() {
            for message in self.find_stubs(&key).await {
                heads.extend(self.store_stub(&key, message));
            }
            heads.retain(|head| is_of(head, &report.versions));
        }
        if heads.is_empty() {
            self.keep(report);
            return;
        }
        for head in heads {
            let version = head.coded.map_or(0, |coded| coded.version);
            if self
                .repairs
                .is_recent(chunk_name(key_hash(&key) ^ version, chunk))
            {
                self.keep(Report {
                    versions: vec![version],
                    ..report.clone()
                });
                continue;
            }
            let damaged = Damaged {
                key: key.clone(),
                head,
                lost: BTreeSet::from([chunk]),
                of: None,
                tries: Some(report.tries),
            };
            // Sending fails only when the node stops.
            let _ = self.repairs.waiting.send(damaged).await;
        }
    }

    /// Returns the heads of these versions of an object that this node stores.
    async fn heads_here(&self, key: &Key, versions: &[u64]) -> Vec<Arc<Head>> {
        let resource = self.store.get_anywhere(key).await;
        let objects = resource.iter().flat_map(|resource| &resource.variants);
        let heads = objects.map(|object| object.head.clone());
        heads.filter(|head| is_of(head, versions)).collect()
    }

    /// Schedules another attempt for a report, or counts it as dropped.
    fn keep(&self, report: Report) {
        if !self.repairs.retry(report) {
            self.counts.repairs_dropped.fetch_add(1, Relaxed);
        }
    }

    /// Schedules another attempt for an object that was not repaired.
    fn retry_damaged(&self, damaged: &Damaged, tries: u32) {
        let version = damaged.head.coded.map_or(0, |coded| coded.version);
        for key in damaged
            .lost
            .iter()
            .filter_map(|chunk| damaged.key.chunk(*chunk))
        {
            self.keep(Report {
                key,
                versions: vec![version],
                tries,
            });
        }
    }

    /// Reports lost chunks of which only the key hashes are known. They are looked up among the
    /// objects whose heads this node stores.
    pub async fn report_unnamed(self: &Arc<Self>, hashes: HashSet<u64>) {
        let (sender, mut receiver) = mpsc::channel(STUBS_MAX);
        let (store, chunks) = (self.store.clone(), self.coding.chunks());
        let stubs = tokio::task::spawn_blocking(move || {
            store.for_each_stub(&mut |key, head| {
                let is_lost = |chunk: &usize| {
                    let key = key.chunk(*chunk);
                    key.is_some_and(|key| hashes.contains(&key_hash(&key)))
                };
                let lost: Vec<usize> = (0..chunks).filter(is_lost).collect();
                lost.is_empty() || sender.blocking_send((key.clone(), head, lost)).is_ok()
            });
        });
        while let Some((key, head, lost)) = receiver.recv().await {
            let versions: Vec<u64> = head.coded.iter().map(|coded| coded.version).collect();
            for chunk in lost.into_iter().filter_map(|chunk| key.chunk(chunk)) {
                self.report_lost(&chunk, &versions).await;
            }
        }
        let _ = stubs.await;
    }

    /// Returns true if this chunk of an object belongs on this node.
    pub(super) fn is_home(&self, key: &Key, chunk: usize, server: ServerId) -> bool {
        let view = self.view();
        let targets = view.targets(view.bucket_of(key_hash(key)));
        targets.get(chunk) == Some(&Some(server))
    }

    /// Checks the chunks of a node that has come back, and restores the lost ones.
    async fn repair_node(self: &Arc<Self>, server: ServerId) {
        let (sender, mut receiver) = mpsc::channel(STUBS_MAX);
        let store = self.store.clone();
        let stubs = tokio::task::spawn_blocking(move || {
            store.for_each_stub(&mut |key, head| sender.blocking_send((key, head)).is_ok());
        });
        while let Some((key, head)) = receiver.recv().await {
            if self.is_responsible(&key, server) {
                let damaged = Damaged {
                    key,
                    head,
                    lost: BTreeSet::new(),
                    of: Some(server),
                    tries: None,
                };
                self.repair_one(&damaged).await;
            }
        }
        let _ = stubs.await;
    }

    /// Returns true if this node is the first owner of a key, not counting another node.
    fn is_responsible(&self, key: &Key, server: ServerId) -> bool {
        let view = self.view();
        let owners = view.owners(view.bucket_of(key_hash(key)));
        let first = owners.into_iter().find(|owner| *owner != server);
        first == Some(self.config.own)
    }

    /// Repairs an object. Returns true if nothing is left to do.
    async fn repair_one(self: &Arc<Self>, damaged: &Damaged) -> bool {
        let Some(coded) = damaged.head.coded else {
            return true;
        };
        if coded.length == 0
            || coded.length > self.object_bytes_max
            || damaged.head.terms.usable_ms(self.clock.now_ms()) == 0
        {
            return true;
        }
        let homes = self.lost(damaged, coded).await;
        let object = key_hash(&damaged.key) ^ coded.version;
        let is_recent = |of: ServerId| self.repairs.is_recent(object ^ mix(u64::from(of.0) + 1));
        if homes.is_empty() || damaged.of.is_some_and(is_recent) {
            return true;
        }
        let stored = self.restore(damaged, &homes).await;
        let (stored, failed) = (stored as u64, (homes.len() - stored) as u64);
        self.counts.chunks_repaired.fetch_add(stored, Relaxed);
        self.counts.chunks_not_repaired.fetch_add(failed, Relaxed);
        failed == 0
    }

    /// Returns the chunks that are lost, with their homes.
    async fn lost(&self, damaged: &Damaged, coded: Coded) -> BTreeMap<usize, ServerId> {
        let view = self.view();
        let targets = view.targets(view.bucket_of(key_hash(&damaged.key)));
        let mut lost = BTreeMap::new();
        for (chunk, target) in targets.iter().enumerate() {
            let Some(server) = *target else { continue };
            if damaged.of.is_some_and(|of| of != server) {
                continue;
            }
            let is_lost =
                damaged.lost.contains(&chunk) || self.lacks(server, damaged, coded, chunk).await;
            if is_lost {
                lost.insert(chunk, server);
            }
        }
        lost
    }

    /// Returns true if a node answers that it does not have a chunk. If a read has found another
    /// chunk of the object lost, the node is made to read this chunk part by part, and damage
    /// counts as a loss.
    async fn lacks(&self, server: ServerId, damaged: &Damaged, coded: Coded, chunk: usize) -> bool {
        let length = match damaged.of {
            None => self.coding.chunk_bytes(coded.length),
            Some(_) => 0,
        };
        let mut start = 0;
        loop {
            let end = length.min(start + PART_BYTES_MAX);
            let part = Part {
                version: coded.version,
                chunk,
                range: Range { start, end },
            };
            self.repairs.wait_for(end - start).await;
            match self.has_part(server, &damaged.key, &part).await {
                Some(true) if end < length => start = end,
                has_part => return has_part == Some(false),
            }
        }
    }

    /// Returns whether a node has a part of a chunk; `None` if it does not answer.
    async fn has_part(&self, server: ServerId, key: &Key, part: &Part) -> Option<bool> {
        if server == self.config.own {
            return Some(self.own_part(key, part).await.is_some());
        }
        let mut call = call_of(Method::GET, "/v1/check", key)?;
        call.headers.insert(message::PART, part.value());
        let reply = self.call(server, call, 1 << 10, PROBE_TIME).await.ok()?;
        match reply.status {
            StatusCode::OK => Some(true),
            StatusCode::NOT_FOUND => Some(false),
            _ => None,
        }
    }

    /// Restores chunks and sends them to their homes. Returns how many were stored.
    async fn restore(
        self: &Arc<Self>,
        damaged: &Damaged,
        homes: &BTreeMap<usize, ServerId>,
    ) -> usize {
        let Some(made) = self.make(damaged, homes.keys().copied().collect()).await else {
            return 0;
        };
        let since_ms = self
            .clock
            .now_ms()
            .saturating_sub(damaged.head.terms.received_ms);
        let cut = Cut {
            key: damaged.key.clone(),
            head: damaged.head.clone(),
            age: Duration::from_millis(since_ms),
            made: Instant::now(),
        };
        let mut stored = 0;
        for ((&chunk, &server), bytes) in homes.iter().zip(made) {
            stored += usize::from(self.put(&cut, server, chunk, bytes).await.is_some());
        }
        stored
    }

    /// Recomputes chunks. Returns `None` if the object cannot be read or has changed.
    async fn make(self: &Arc<Self>, damaged: &Damaged, chunks: Vec<usize>) -> Option<Vec<Bytes>> {
        let coded = damaged.head.coded?;
        let (key, head) = (damaged.key.clone(), damaged.head.clone());
        let mut cutter = self.coding.cutter(key_hash(&key), coded, chunks);
        let extent = CodedExtent::new(self.clone(), key, head, coded, None);
        let mut pieces = extent.read(Range {
            start: 0,
            end: coded.length,
        });
        while let Some(piece) = poll_fn(|context| pieces.poll(context)).await {
            let piece = piece.ok()?;
            cutter.push(&piece);
            let bytes = piece.len() as u64;
            self.counts.repair_bytes.fetch_add(bytes, Relaxed);
            self.repairs.wait_for(bytes).await;
        }
        cutter.finish()
    }
}

/// Returns the name under which a recently repaired chunk is registered. It differs from all names
/// of nodes.
fn chunk_name(object: u64, chunk: usize) -> u64 {
    object ^ mix((chunk as u64 + 1) << 32)
}

fn is_of(head: &Head, versions: &[u64]) -> bool {
    let version = head.coded.map(|coded| coded.version);
    version.is_some_and(|version| versions.contains(&version))
}

#[cfg(test)]
mod tests;
