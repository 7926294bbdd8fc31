//! Repair: chunks that a node has lost are made again from K others and written to their home, the
//! node that has them by the present map.
//!
//! A read that finds a chunk missing or damaged on its home reports it. A node that comes back may
//! have lost everything: the other nodes then go through their stubs, each through those whose
//! first owner it is apart from that node. A repair reads the object without the origin, cuts it
//! again, compares the content with the object's version, and sends what is missing.
//!
//! # Bounds
//! A node repairs one object at a time, and one more after a node has come back, with pauses such
//! that at most a configured number of bytes per second is read for it, here and on homes. An
//! object is repaired at most once in [`RECENT_TIME`], so that one that cannot be repaired costs
//! little. At most [`WAITING_MAX`] objects wait; further ones are found by their next read. The
//! memory of a repair is a stripe and the chunks that are missing.
//!
//! # Limits
//! When a node comes back, 65,536 heads in memory and all on disk are compared with what it has,
//! not with its content, because it would otherwise read all of its disk after each restart. Other
//! lost chunks are found by reads, and damaged ones by the verification of the disk tier
//! ([`crate::scrub`]), which also finds parity that no read needs. Parity that was lost without
//! damage or a restart is found with the first lost data chunk of the same object, whose other
//! chunks are then read, too.
//!
//! A home refuses chunks of objects that a purge may concern: one that was purged since its fetch,
//! and, after more than a thousand purges, every object that is older than them.

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

/// Objects that wait to be repaired.
const WAITING_MAX: usize = 1_024;
/// Stubs that wait while a node's chunks are looked for.
const STUBS_MAX: usize = 64;
/// Objects of which is remembered that they were repaired, or could not be.
const RECENT_MAX: u64 = 16_384;
/// Time for which it is remembered.
const RECENT_TIME: Duration = Duration::from_secs(60);

/// An object of which chunks may be lost.
struct Damaged {
    key: Key,
    head: Arc<Head>,
    /// Chunks that are known to be lost.
    lost: BTreeSet<usize>,
    /// The node whose chunks are looked for; `None` for all nodes.
    of: Option<ServerId>,
}

/// State of the repairs of a node.
pub(super) struct Repairs {
    /// Number that is different after each start, by which others notice it.
    instance: Bytes,
    bytes_per_second: u64,
    waiting: mpsc::Sender<Damaged>,
    receiver: Mutex<Option<mpsc::Receiver<Damaged>>>,
    recent: Cache<u64, ()>,
    /// Nodes that have come back, whose chunks are not looked for yet.
    returned: Mutex<BTreeSet<ServerId>>,
    change: Notify,
    instances: Mutex<BTreeMap<ServerId, Bytes>>,
    /// When the next bytes may be read.
    pace: tokio::sync::Mutex<Instant>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poison| poison.into_inner())
}

impl Repairs {
    /// Prepares repairs that read at most a number of bytes per second; none with 0.
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
            returned: Mutex::default(),
            change: Notify::new(),
            instances: Mutex::default(),
            pace: tokio::sync::Mutex::new(Instant::now()),
        })
    }

    /// Notes that a node answers again, or has started again.
    pub fn returned(&self, server: ServerId) {
        if self.bytes_per_second > 0 {
            locked(&self.returned).insert(server);
            self.change.notify_one();
        }
    }

    /// Notes the instance of a node that has answered a probe.
    pub fn saw(&self, server: ServerId, instance: &Bytes) {
        let before = locked(&self.instances).insert(server, instance.clone());
        if before.is_some_and(|before| before != *instance) {
            self.returned(server);
        }
    }

    /// Waits until a number of bytes may be read.
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
    /// Number of this start of the node.
    pub fn instance(&self) -> Bytes {
        self.repairs.instance.clone()
    }

    /// Repairs what is reported until `stop` changes.
    pub async fn repair(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        let receiver = locked(&self.repairs.receiver).take();
        let Some(mut receiver) = receiver.filter(|_| self.repairs.bytes_per_second > 0) else {
            return;
        };
        let reported = async {
            while let Some(damaged) = receiver.recv().await {
                self.repair_one(&damaged).await;
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
            _ = stop.changed() => {}
        }
    }

    /// Reports that chunks of an object are lost on their homes.
    pub(super) fn report(&self, key: &Key, head: &Arc<Head>, lost: BTreeSet<usize>) {
        if lost.is_empty() || self.repairs.bytes_per_second == 0 {
            return;
        }
        let damaged = Damaged {
            key: key.clone(),
            head: head.clone(),
            lost,
            of: None,
        };
        if self.is_recent(&damaged) {
            return;
        }
        match self.repairs.waiting.try_send(damaged) {
            Ok(()) => {}
            Err(_) => _ = self.counts.repairs_dropped.fetch_add(1, Relaxed),
        }
    }

    /// Reports a chunk of the disk tier that is lost, if this node is its home and does not have it
    /// in memory. Waits if too many objects wait.
    pub async fn report_lost(&self, chunk_key: &Key, versions: &[u64]) {
        let Some((key, chunk)) = chunk_key.of_chunk() else {
            return;
        };
        if self.store.is_in_memory(chunk_key) || !self.is_home(&key, chunk, self.config.own) {
            return;
        }
        let Some(resource) = self.store.get_anywhere(&key).await else {
            return;
        };
        for object in &resource.variants {
            let version = object.head.coded.map(|coded| coded.version);
            if version.is_some_and(|version| versions.contains(&version)) {
                self.wait_to_report(&key, &object.head, chunk).await;
            }
        }
    }

    /// Reports lost chunks of which only the hashes of their keys are known: they are looked for
    /// among the objects whose heads are here.
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

    async fn wait_to_report(&self, key: &Key, head: &Arc<Head>, chunk: usize) {
        let damaged = Damaged {
            key: key.clone(),
            head: head.clone(),
            lost: BTreeSet::from([chunk]),
            of: None,
        };
        if self.repairs.bytes_per_second > 0 && !self.is_recent(&damaged) {
            // An error is the end of the node.
            let _ = self.repairs.waiting.send(damaged).await;
        }
    }

    /// Whether an object was reported a moment ago, with the same node. It counts as reported from
    /// now on.
    fn is_recent(&self, damaged: &Damaged) -> bool {
        let version = damaged.head.coded.map_or(0, |coded| coded.version);
        let of = damaged.of.map_or(0, |of| mix(u64::from(of.0) + 1));
        let name = key_hash(&damaged.key) ^ version ^ of;
        let is_recent = self.repairs.recent.contains_key(&name);
        if !is_recent {
            self.repairs.recent.insert(name, ());
        }
        is_recent
    }

    /// Whether a chunk that the reader has found lost has its home on a node.
    pub(super) fn is_home(&self, key: &Key, chunk: usize, server: ServerId) -> bool {
        let view = self.view();
        let targets = view.targets(view.bucket_of(key_hash(key)));
        targets.get(chunk) == Some(&Some(server))
    }

    /// Looks for the chunks of a node that has come back, and makes again what is lost.
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
                };
                self.repair_one(&damaged).await;
            }
        }
        let _ = stubs.await;
    }

    /// Whether this node is the first owner of a key apart from another node.
    fn is_responsible(&self, key: &Key, server: ServerId) -> bool {
        let view = self.view();
        let owners = view.owners(view.bucket_of(key_hash(key)));
        let first = owners.into_iter().find(|owner| *owner != server);
        first == Some(self.config.own)
    }

    async fn repair_one(self: &Arc<Self>, damaged: &Damaged) {
        let Some(coded) = damaged.head.coded else {
            return;
        };
        if coded.length == 0
            || coded.length > self.object_bytes_max
            || damaged.head.terms.usable_ms(self.clock.now_ms()) == 0
        {
            return;
        }
        let homes = self.lost(damaged, coded).await;
        if homes.is_empty() || (damaged.of.is_some() && self.is_recent(damaged)) {
            return;
        }
        let stored = self.restore(damaged, &homes).await;
        let (stored, failed) = (stored as u64, (homes.len() - stored) as u64);
        self.counts.chunks_repaired.fetch_add(stored, Relaxed);
        self.counts.chunks_not_repaired.fetch_add(failed, Relaxed);
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

    /// Whether a node answers that it does not have a chunk. If a read has found another chunk of
    /// the object lost, the node reads this one, part by part, and lacks it if it is damaged.
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

    /// Whether a node has a part of a chunk; `None` without an answer.
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

    /// Makes chunks again and sends them to their homes. Returns how many were stored.
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

    /// Makes chunks again; `None` if the object cannot be read, or is another one.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_node_that_has_started_again_is_noticed() {
        let repairs = Repairs::new(1).expect("the settings are constants");
        let returned = || std::mem::take(&mut *locked(&repairs.returned));
        let (one, other) = (ServerId(1), ServerId(2));
        repairs.saw(one, &"a".into());
        repairs.saw(other, &"b".into());
        repairs.saw(one, &"a".into());
        assert_eq!(returned(), BTreeSet::new());
        repairs.saw(one, &"c".into());
        assert_eq!(returned(), BTreeSet::from([one]));
        repairs.returned(other);
        repairs.returned(other);
        assert_eq!(returned(), BTreeSet::from([other]));
        let without = Repairs::new(0).expect("the settings are constants");
        without.returned(one);
        assert_eq!(*locked(&without.returned), BTreeSet::new());
        let instances = [&repairs, &without].map(|repairs| repairs.instance.clone());
        assert_ne!(instances[0], instances[1]);
    }
}
