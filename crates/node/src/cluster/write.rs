//! Cutting of objects into chunks, and distribution of the chunks to the nodes of the map.
//!
//! # Bounds
//! Few objects are cut at a time, and few wait; further objects stay whole on the node that fetched
//! them. While an object is cut, it takes (2 K + P) / K times its length.

use super::message::{self, Part};
use super::{Cluster, call_of};
use crate::coded::Coded;
use crate::disk::key_hash;
use crate::object::{Head, Object};
use crate::rules::key::Key;
use crate::rules::ranges::Range;
use bytes::Bytes;
use edge::ServerId;
use hyper::header::HeaderMap;
use hyper::{Method, StatusCode};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant as StdInstant};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Timeout within which a node must take a chunk.
const PUT_TIME: Duration = Duration::from_secs(10);

/// Object whose chunks are being distributed.
pub(super) struct Cut {
    pub key: Key,
    /// Head with the identity of the coded object.
    pub head: Arc<Head>,
    /// Time from the beginning of the fetch to `made`.
    pub age: Duration,
    pub made: Instant,
}

impl Cluster {
    /// Cuts an object into chunks in the background if it is large enough. Once enough nodes have
    /// taken a chunk, the stub replaces the object in the store.
    pub fn offer(self: &Arc<Self>, key: &Key, object: &Object, fetch_began: StdInstant) {
        let is_whole = object.head.part.is_none() && object.head.coded.is_none();
        let is_plain = object.head.status == StatusCode::OK && object.extent.is_none();
        let is_large = object.length >= self.config.coded_bytes_min;
        if !is_whole || !is_plain || !is_large || !self.view().is_coding() {
            let bucket = self.view().bucket_of(key_hash(key));
            self.loads.add_whole(bucket, object.length);
            self.counts.taken_bytes.fetch_add(object.length, Relaxed);
            return;
        }
        let Ok(place) = self.cuts_waiting.clone().try_acquire_owned() else {
            self.counts.objects_whole.fetch_add(1, Relaxed);
            return;
        };
        let (cluster, key, object) = (self.clone(), key.clone(), object.clone());
        tokio::spawn(async move {
            cluster.cut(key, object, fetch_began).await;
            drop(place);
        });
    }

    async fn cut(self: Arc<Self>, key: Key, object: Object, fetch_began: StdInstant) {
        let Ok(_permit) = self.cuts.acquire().await else {
            return;
        };
        let name_hash = key_hash(&key);
        let (cutting, content) = (self.clone(), object.chunks.clone());
        let made =
            tokio::task::spawn_blocking(move || cutting.coding.cut(name_hash, &content)).await;
        let Ok((coded, chunks)) = made else {
            return;
        };
        let head = Head {
            coded: Some(coded),
            ..Head::clone(&object.head)
        };
        let cut = Arc::new(Cut {
            key,
            head: Arc::new(head),
            age: fetch_began.elapsed(),
            made: Instant::now(),
        });
        let taken = self.distribute(&cut, chunks).await;
        if taken < self.coding.k() {
            self.counts.objects_whole.fetch_add(1, Relaxed);
            return;
        }
        self.counts.objects_coded.fetch_add(1, Relaxed);
        if taken < self.coding.chunks() {
            self.counts.objects_unprotected.fetch_add(1, Relaxed);
        }
        let stub = Object::stub(cut.head.clone());
        self.store.put_stub(&cut.key, &object.head, &stub);
    }

    /// Sends each chunk to its node. Returns the number of chunks that were stored.
    async fn distribute(self: &Arc<Self>, cut: &Arc<Cut>, chunks: Vec<Bytes>) -> usize {
        let view = self.view();
        let targets = view.targets(view.bucket_of(key_hash(&cut.key)));
        let mut puts = JoinSet::new();
        for (chunk, (bytes, target)) in chunks.into_iter().zip(targets).enumerate() {
            let Some(server) = *target else { continue };
            let (cluster, cut) = (self.clone(), cut.clone());
            puts.spawn(async move { cluster.put(&cut, server, chunk, bytes).await });
        }
        let mut taken = 0;
        while let Some(put) = puts.join_next().await {
            taken += usize::from(put.ok().flatten().is_some());
        }
        taken
    }

    /// Sends a chunk to a node. Returns `None` if it was not stored.
    pub(super) async fn put(
        &self,
        cut: &Cut,
        server: ServerId,
        chunk: usize,
        bytes: Bytes,
    ) -> Option<()> {
        let age = cut.age + cut.made.elapsed();
        let coded = cut.head.coded?;
        if server == self.config.own {
            let is_stored = self.take_chunk(&cut.key, &cut.head, chunk, bytes, age);
            return is_stored.then_some(());
        }
        let mut call = call_of(Method::PUT, "/v1/chunk", &cut.key)?;
        let part = Part {
            version: coded.version,
            chunk,
            range: Range {
                start: 0,
                end: bytes.len() as u64,
            },
        };
        call.headers.insert(message::PART, part.value());
        let mut description = vec![];
        message::put(&mut description, &cut.head, self.clock.now_ms(), age);
        call.body = vec![description.into(), bytes];
        let reply = self.call(server, call, 1 << 10, PUT_TIME).await.ok()?;
        (reply.status == StatusCode::OK).then_some(())
    }

    /// Stores a chunk on this node. Returns true if it was stored.
    fn take_chunk(
        &self,
        key: &Key,
        head: &Arc<Head>,
        chunk: usize,
        bytes: Bytes,
        age: Duration,
    ) -> bool {
        let Some(chunk_key) = key.chunk(chunk) else {
            return false;
        };
        let bucket = self.view().bucket_of(key_hash(key));
        self.loads.add_chunk(bucket, bytes.len() as u64);
        let taken = &self.counts.taken_bytes;
        taken.fetch_add(bytes.len() as u64, Relaxed);
        let chunk = Object::new(Arc::new(chunk_head(head)), vec![bytes]);
        self.store.put_from_peer(key, &chunk_key, &chunk, age)
    }

    /// Stores a chunk that another node has sent, together with the stub of its object. Returns
    /// true if it was stored.
    pub fn take(&self, key: &Key, part: &Part, body: &Bytes) -> bool {
        let Some((message, length)) = message::read(body, self.clock.now_ms()) else {
            return false;
        };
        let bytes = body.slice(length..);
        let is_right = message
            .head
            .coded
            .is_some_and(|coded| self.is_right(&coded, part, bytes.len() as u64));
        if !is_right {
            return false;
        }
        let head = Arc::new(message.head);
        let is_stored = self.take_chunk(key, &head, part.chunk, bytes, message.age);
        is_stored && {
            let stub = Object::stub(head);
            self.store.put_from_peer(key, key, &stub, message.age)
        }
    }

    /// Returns true if a chunk has the right length and number.
    fn is_right(&self, coded: &Coded, part: &Part, bytes: u64) -> bool {
        let is_known = part.version == coded.version && part.chunk < self.coding.chunks();
        let is_bounded = coded.length > 0 && coded.length <= self.object_bytes_max;
        is_known && is_bounded && self.coding.chunk_bytes(coded.length) == bytes
    }

    /// Returns the maximum size in bytes of a chunk with its description.
    pub fn put_bytes_max(&self) -> usize {
        let chunk = self.coding.chunk_bytes(self.object_bytes_max.max(1));
        usize::try_from(chunk).unwrap_or(usize::MAX) + message::MESSAGES_BYTES_MAX
    }

    /// Extends the deadline of an object that the origin has confirmed, on all nodes that have a
    /// chunk of it.
    pub fn renew(self: &Arc<Self>, key: &Key, head: &Arc<Head>) {
        let view = self.view();
        let holders = view.holders(view.bucket_of(key_hash(key)));
        let mut description = vec![];
        message::put(&mut description, head, self.clock.now_ms(), Duration::ZERO);
        for server in holders {
            let (cluster, key, head) = (self.clone(), key.clone(), head.clone());
            let description = Bytes::from(description.clone());
            tokio::spawn(async move {
                if server == cluster.config.own {
                    cluster.renew_own(&key, &head).await;
                } else if let Some(mut call) = call_of(Method::PUT, "/v1/stub", &key) {
                    call.body = vec![description];
                    let _ = cluster.call(server, call, 1 << 10, PUT_TIME).await;
                }
            });
        }
    }

    /// Extends the deadline of the chunks of an object that this node stores.
    pub async fn renew_own(&self, key: &Key, head: &Arc<Head>) {
        let chunk_head = Arc::new(chunk_head(head));
        for chunk in (0..self.coding.chunks()).filter_map(|chunk| key.chunk(chunk)) {
            self.store.renew_chunk(&chunk, &chunk_head).await;
        }
    }

    /// Renews an object according to another node's message. Returns false if the message is
    /// malformed.
    pub async fn take_renewal(&self, key: &Key, body: &Bytes) -> bool {
        let Some((message, _)) = message::read(body, self.clock.now_ms()) else {
            return false;
        };
        if message.head.coded.is_none() {
            return false;
        }
        let head = Arc::new(message.head);
        self.renew_own(key, &head).await;
        let stub = Object::stub(head);
        self.store.put_from_peer(key, key, &stub, message.age)
    }
}

/// Returns the head that is stored with the chunks of an object: its times, and no fields for
/// clients.
fn chunk_head(head: &Head) -> Head {
    Head {
        headers: HeaderMap::new(),
        ..head.clone()
    }
}
