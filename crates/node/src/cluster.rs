//! The cluster of a node: which node answers for a key, and how large objects are stored in chunks.
//!
//! ```text
//! request -> own store -> owner of the key (another node) -> its store, or the origin
//!                '-> head of a coded object -> read/ chunks of K nodes -> client
//! object from the origin -> write/ K + P chunks -> nodes of the map
//! ```
//!
//! The owner of a large object fetches it whole and then cuts it into chunks. Each node with a
//! chunk also has the object's head without its content: a *stub*. Any of these nodes can therefore
//! answer when the owner is down. Chunks and stubs are ordinary entries of the store, with the
//! object's deadline.
//!
//! `view.rs` computes which nodes are responsible, `message.rs` defines the messages between nodes,
//! `peer.rs` sends them, and `read.rs` and `relay.rs` return content from other nodes. `repair.rs`
//! restores lost chunks. `members.rs` lists the nodes, from the cluster file or from
//! [`crate::membership`], and `loads.rs` counts the bytes written to each bucket.
//! [`crate::peer_port`] is the receiving side.
//!
//! Deliberately absent: agreement among nodes, which [`crate::membership`] leaves to etcd. Nodes
//! with different views find fewer chunks, and fetch more from the origin. They never serve wrong
//! bytes, because the checksum of each sub-chunk covers its version and position.

mod loads;
mod members;
pub mod message;
pub mod peer;
mod popular;
mod purge;
mod read;
mod relay;
mod repair;
pub mod tls;
pub mod view;
mod write;

use crate::clock::Clock;
use crate::coded::Coding;
use crate::config::{ClusterConfig, Config, Invalid};
use crate::disk::key_hash;
use crate::metrics::{ClusterCounts, ClusterFacts};
use crate::object::{Head, Object, read_all};
use crate::origin::Origins;
use crate::rules::key::Key;
use crate::store::Store;
use bytes::Bytes;
use edge::ServerId;
use hyper::header::{HeaderMap, HeaderValue};
use hyper::{Method, StatusCode};
use loads::Loads;
use members::Members;
use message::{Message, Part};
use peer::{Call, CallReply, PeerFailure};
use popular::Popularity;
use purge::Missed;
use read::CodedExtent;
use repair::Repairs;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;
use view::{Liveness, View};

pub use relay::{Forwarded, Relayed};

/// Time between two probes of a node.
const PROBE_PAUSE: Duration = Duration::from_millis(500);
/// Timeout of a probe and of other short requests.
const PROBE_TIME: Duration = Duration::from_secs(2);
/// Timeout of a request to other nodes for a stub.
const STUB_TIME: Duration = Duration::from_secs(1);
/// Maximum number of objects that are cut at a time.
const CUTS_MAX: usize = 2;
/// Maximum number of objects waiting to be cut. Further objects stay whole.
const CUTS_WAITING_MAX: usize = 64;
/// Maximum number of bytes of a chunk that are read at a time.
const PART_BYTES_MAX: u64 = 1 << 20;

/// The cluster as one node sees it.
pub struct Cluster {
    config: ClusterConfig,
    coding: Coding,
    view: watch::Sender<Arc<View>>,
    liveness: Mutex<Liveness>,
    missed: Mutex<Missed>,
    members: Members,
    loads: Loads,
    store: Arc<Store>,
    origins: Arc<Origins>,
    clock: Clock,
    object_bytes_max: u64,
    cuts: Arc<Semaphore>,
    cuts_waiting: Arc<Semaphore>,
    counts: ClusterCounts,
    repairs: Repairs,
    popularity: Mutex<Popularity>,
    started: Instant,
}

impl Cluster {
    /// Prepares the configured cluster, if there is one. No connection is made.
    ///
    /// # Errors
    /// Returns an error if a setting is invalid.
    pub fn new(
        config: &Config,
        store: &Arc<Store>,
        origins: &Arc<Origins>,
    ) -> Result<Option<Arc<Self>>, Invalid> {
        let Some(cluster) = &config.cluster else {
            return Ok(None);
        };
        let members = Members::new(cluster)?;
        let view = match &cluster.etcd {
            None => View::new(cluster.map()?),
            Some(_) => View::without_map(cluster.buckets),
        };
        let coding = Coding::new(cluster.scheme());
        Ok(Some(Arc::new(Cluster {
            view: watch::Sender::new(Arc::new(view)),
            missed: Mutex::default(),
            liveness: Mutex::new(Liveness::new(members.peers().keys().copied())),
            coding: coding.map_err(|error| Invalid(error.to_string()))?,
            members,
            loads: Loads::new(cluster.buckets),
            store: store.clone(),
            origins: origins.clone(),
            clock: config.clock.clone(),
            object_bytes_max: config.object_bytes_max,
            cuts: Arc::new(Semaphore::new(CUTS_MAX)),
            cuts_waiting: Arc::new(Semaphore::new(CUTS_WAITING_MAX)),
            counts: ClusterCounts::default(),
            repairs: Repairs::new(cluster.repair_bytes_per_second)?,
            popularity: Mutex::new(Popularity::new()),
            started: Instant::now(),
            config: cluster.clone(),
        })))
    }

    /// Returns the settings of the cluster.
    pub fn config(&self) -> &ClusterConfig {
        &self.config
    }

    /// Returns the counters.
    pub fn counts(&self) -> &ClusterCounts {
        &self.counts
    }

    /// Returns the state that operators see.
    pub fn facts(&self) -> ClusterFacts<'_> {
        ClusterFacts {
            counts: &self.counts,
            nodes: self.members.peers().len() + 1,
            copy_bytes: self.store.copy_bytes(),
            nodes_down: self.view().down().len(),
            purges_missed: self.missed().len(),
            code: (self.config.data, self.config.parity),
            membership: self.membership_facts(),
        }
    }

    /// Returns the current view.
    pub fn view(&self) -> Arc<View> {
        self.view.borrow().clone()
    }

    /// Returns the nodes that should answer for a key before this one, in the order in which to try
    /// them. The list is empty if this node is the owner.
    pub fn owners_before(&self, key: &Key) -> Vec<ServerId> {
        let view = self.view();
        let owners = view.owners(view.bucket_of(key_hash(key)));
        let before = owners.into_iter().take_while(|id| *id != self.config.own);
        before.collect()
    }

    /// Returns an object whose content is read from chunks for a client, or `None` if its head does
    /// not permit that.
    pub fn open(self: &Arc<Self>, key: &Key, head: &Arc<Head>, client: IpAddr) -> Option<Object> {
        let coded = head.coded?;
        if coded.length == 0 || coded.length > self.object_bytes_max {
            return None;
        }
        let extent = CodedExtent::new(self.clone(), key.clone(), head.clone(), coded, Some(client));
        Some(Object::on_disk(
            head.clone(),
            Arc::new(extent),
            coded.length,
        ))
    }

    /// Counts a forwarded request. Returns true if the URL is so popular that a small response must
    /// be copied.
    pub fn is_popular(&self, key: &Key) -> bool {
        let mut popularity = self
            .popularity
            .lock()
            .unwrap_or_else(|poison| poison.into_inner());
        popularity.count(key_hash(key), self.started.elapsed())
    }

    /// Returns true if other nodes may copy an object, because it is whole, small and in memory.
    pub fn is_copied(&self, object: &Object) -> bool {
        let head = &object.head;
        let is_whole = head.part.is_none() && head.coded.is_none() && object.extent.is_none();
        is_whole && object.length < self.config.coded_bytes_min
    }

    /// Stores a copy of the owner's response to a URL if there is room, and returns it.
    pub fn store_copy(&self, key: &Key, message: Message, content: Bytes) -> Object {
        let copy = Object::copy(Arc::new(message.head), content);
        if self.is_copied(&copy) && self.store.put_copy(key, &copy, message.age) {
            self.counts.copies.fetch_add(1, Relaxed);
        } else {
            self.counts.copies_refused.fetch_add(1, Relaxed);
        }
        copy
    }

    /// Returns a part of a chunk that this node stores.
    pub async fn own_part(&self, key: &Key, part: &Part) -> Option<Bytes> {
        if part.range.len() > PART_BYTES_MAX {
            return None;
        }
        let resource = self.store.get_anywhere(&key.chunk(part.chunk)?).await?;
        let chunk = resource.chunk(part.version)?;
        if part.range.end > chunk.length {
            return None;
        }
        let mut pieces = match &chunk.extent {
            Some(extent) => read_all(extent.read(part.range)).await.ok()?,
            None => chunk.slice(part.range),
        };
        match pieces.len() {
            1 => pieces.pop(),
            _ => Some(pieces.concat().into()),
        }
    }

    /// Sends a request to a node, and records whether the node answered.
    async fn call(
        &self,
        server: ServerId,
        call: Call,
        bytes_max: usize,
        time: Duration,
    ) -> Result<CallReply, PeerFailure> {
        let Some(peer) = self.members.peer(server) else {
            return Err(PeerFailure::Unreachable);
        };
        let mut call = call;
        self.mark(&mut call.headers);
        let reply = peer.call(call, bytes_max, time).await;
        self.note(server, reply.as_ref().err().copied());
        reply
    }

    /// Records the result of a request. If the node went down or came up, the view changes.
    fn note(&self, server: ServerId, failure: Option<PeerFailure>) {
        let mut liveness = self.liveness();
        let has_changed = match failure {
            // It serves what was purged meanwhile.
            None if liveness.down().contains(&server) && self.missed().has(server) => false,
            None => liveness.answered(server),
            Some(failure) if failure.is_of_node() => liveness.failed(server),
            Some(_) => false,
        };
        if !has_changed {
            return;
        }
        let down = liveness.down();
        let state = if down.contains(&server) { "down" } else { "up" };
        log::warn!("{server} is {state}");
        // The lock of the liveness is held, so that views are installed in the order of the
        // changes.
        self.set_view(self.view().with_down(&down));
        if !down.contains(&server) {
            self.repairs.returned(server);
        }
    }

    fn liveness(&self) -> MutexGuard<'_, Liveness> {
        self.liveness
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }

    fn set_view(&self, view: View) {
        self.view.send_replace(Arc::new(view));
    }

    /// Probes the other nodes until `stop` changes.
    pub async fn probe(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        let mut changes = self.members.subscribe();
        let mut probes = JoinSet::new();
        let mut handles: BTreeMap<ServerId, AbortHandle> = BTreeMap::new();
        loop {
            let peers = self.members.peers();
            handles.retain(|server, handle| {
                let is_there = peers.contains_key(server);
                if !is_there {
                    handle.abort();
                }
                is_there
            });
            for &server in peers.keys() {
                let start = || probes.spawn(self.clone().probe_one(server));
                handles.entry(server).or_insert_with(start);
            }
            tokio::select! {
                _ = changes.changed() => {}
                _ = stop.changed() => return,
                // A probe ends only when it is aborted.
                Some(_) = probes.join_next() => {}
            }
        }
    }

    /// Probes a node forever. If the node has missed purges, they are sent instead of a probe.
    async fn probe_one(self: Arc<Self>, server: ServerId) {
        loop {
            if !self.send_missed(server).await {
                let _ = self.is_healthy(server).await;
                sleep(PROBE_PAUSE).await;
            }
        }
    }

    async fn is_healthy(&self, server: ServerId) -> bool {
        let health = Call {
            method: Method::GET,
            path: "/v1/health",
            headers: HeaderMap::new(),
            body: vec![],
        };
        let reply = self.call(server, health, 1 << 10, PROBE_TIME).await;
        if let Ok(reply) = &reply {
            self.repairs.saw(server, &reply.body);
        }
        reply.is_ok()
    }

    /// Requests the stubs of a URL from the nodes that may have a chunk of it, and returns the
    /// first answer that is not empty.
    pub async fn find_stubs(self: &Arc<Self>, key: &Key) -> Vec<Message> {
        let view = self.view();
        let holders = view.holders(view.bucket_of(key_hash(key)));
        let mut calls = JoinSet::new();
        for server in holders.into_iter().filter(|id| *id != self.config.own) {
            let cluster = self.clone();
            let Some(call) = call_of(Method::GET, "/v1/stub", key) else {
                return vec![];
            };
            calls.spawn(async move {
                cluster
                    .call(server, call, message::MESSAGES_BYTES_MAX, STUB_TIME)
                    .await
            });
        }
        while let Some(reply) = calls.join_next().await {
            let Ok(Ok(reply)) = reply else { continue };
            let messages = message::read_all(&reply.body, self.clock.now_ms());
            let mut messages = messages.unwrap_or_default();
            messages.retain(|message| message.head.coded.is_some());
            if reply.status == StatusCode::OK && !messages.is_empty() {
                return messages;
            }
        }
        vec![]
    }

    /// Stores the stub in a message, and returns its head unless a purge concerns it.
    pub fn store_stub(&self, key: &Key, message: Message) -> Option<Arc<Head>> {
        let head = Arc::new(message.head);
        let stub = Object::stub(head.clone());
        let is_stored = self.store.put_stub_of_peer(key, &stub, message.age);
        is_stored.then_some(head)
    }
}

/// Creates a request that concerns a key, or returns `None` if the key cannot be the value of a
/// header field.
fn call_of(method: Method, path: &'static str, key: &Key) -> Option<Call> {
    let mut headers = HeaderMap::new();
    headers.insert(
        message::KEY,
        HeaderValue::from_bytes(key.as_str().as_bytes()).ok()?,
    );
    Some(Call {
        method,
        path,
        headers,
        body: vec![],
    })
}
