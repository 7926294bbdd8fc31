//! Content that is read from chunks on several nodes.
//!
//! A task carries out the plan of [`edge::Read`]: it requests sub-chunks, verifies them, decodes
//! missing data, and passes the bytes on in order. It ends when its reader does.
//!
//! # Bounds
//! A read holds the sub-chunks of two stripes (at most 2 (K + P) sub-chunks) and a few pieces that
//! its reader has not taken yet. Each request ends within [`SERVER_TIME`].

use super::message::{self, Part};
use super::relay::{Arriving, Rest, strong_tag};
use super::{Cluster, call_of};
use crate::budget::{Budget, Charge};
use crate::coded::{Coded, Position};
use crate::disk::key_hash;
use crate::object::{Extent, Head, Pieces};
use crate::rules::key::Key;
use crate::rules::ranges::Range;
use bytes::Bytes;
use edge::{
    ChunkRequest, Event, Layout, Moment, Part as StripePart, Read, ReadTimeouts, Step,
    StripeDecoder,
};
use hyper::header::{HeaderMap, HeaderValue};
use hyper::{Method, StatusCode};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

/// Number of stripes that are read at a time.
const WINDOW: usize = 2;
/// Maximum number of pieces that wait for the reader.
const PIECES_MAX: usize = 2;
/// Timeout for a sub-chunk. A slower node counts as not having it.
const SERVER_TIME: Duration = Duration::from_secs(3);

/// Content that is stored in chunks on several nodes.
#[derive(Clone)]
pub struct CodedExtent {
    cluster: Arc<Cluster>,
    key: Key,
    head: Arc<Head>,
    coded: Coded,
    client: Option<IpAddr>,
}

impl std::fmt::Debug for CodedExtent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CodedExtent({}, {:?})", self.key, self.coded)
    }
}

impl CodedExtent {
    /// Creates the content of an object for a client's address. Without a client, the content is
    /// read for a repair, which does not use the origin.
    pub fn new(
        cluster: Arc<Cluster>,
        key: Key,
        head: Arc<Head>,
        coded: Coded,
        client: Option<IpAddr>,
    ) -> Self {
        CodedExtent {
            cluster,
            key,
            head,
            coded,
            client,
        }
    }
}

impl Extent for CodedExtent {
    fn read(&self, range: Range) -> Box<dyn Pieces> {
        let (sender, receiver) = mpsc::channel(PIECES_MAX);
        if self.client.is_some() {
            self.cluster.counts.reads.fetch_add(1, Relaxed);
        }
        let reading = Reading::new(self.clone(), range, sender);
        tokio::spawn(reading.run());
        Box::new(Arriving(receiver))
    }
}

/// Returns the time limits and the window of a read, which is smaller if memory is short.
fn timeouts(budget: &Budget) -> ReadTimeouts {
    let us = SERVER_TIME.as_micros() as u64;
    ReadTimeouts {
        // The origin replaces data that no node has, but never data that is late.
        origin_fetch_us: us,
        server_timeout_us: us,
        window: if budget.is_full() { 1 } else { WINDOW },
        ..ReadTimeouts::default()
    }
}

/// A request for a sub-chunk, its result, the bytes, and whether the node has lost the chunk.
type Fetched = (ChunkRequest, Event, Option<Bytes>, bool);

/// State of a read in progress.
struct Reading {
    extent: CodedExtent,
    layout: Layout,
    range: Range,
    /// Offset in the object up to which bytes were passed on.
    at: u64,
    /// Number of the next stripe to pass on.
    next_stripe: u64,
    name_hash: u64,
    plan: Read,
    started: Instant,
    fetches: JoinSet<Fetched>,
    /// Sub-chunks of the stripes in the window.
    held: BTreeMap<u64, Vec<Option<Bytes>>>,
    /// Chunks that their home nodes have lost.
    lost: BTreeSet<usize>,
    /// Entry of the sub-chunks in the account of memory.
    charge: Arc<Charge>,
    sender: mpsc::Sender<io::Result<Bytes>>,
}

impl Reading {
    fn new(extent: CodedExtent, range: Range, sender: mpsc::Sender<io::Result<Bytes>>) -> Self {
        let cluster = &extent.cluster;
        let layout = cluster.coding.layout(extent.coded.length);
        let name_hash = key_hash(&extent.key);
        let view = cluster.view();
        let mut sources = view.sources(view.bucket_of(name_hash));
        // A node without a map knows no sources.
        sources.resize(cluster.coding.chunks(), vec![]);
        let bytes = range.start..range.end;
        let budget = cluster.store.budget();
        Reading {
            charge: Charge::new(budget),
            layout,
            at: range.start,
            next_stripe: layout.stripes_of(&bytes).start,
            name_hash,
            plan: Read::new(layout, bytes, sources, timeouts(budget)),
            started: Instant::now(),
            fetches: JoinSet::new(),
            held: BTreeMap::new(),
            lost: BTreeSet::new(),
            sender,
            range,
            extent,
        }
    }

    fn now(&self) -> Moment {
        Moment(self.started.elapsed().as_micros() as u64)
    }

    async fn run(mut self) {
        let is_served = self.serve().await;
        if !is_served {
            return self.fail().await;
        }
        let CodedExtent {
            cluster, key, head, ..
        } = &self.extent;
        if self.extent.client.is_some() {
            cluster.report(key, head, std::mem::take(&mut self.lost));
        }
    }

    /// Carries out the plan until everything was passed on or the reader has gone. Returns false if
    /// too few chunks were found.
    async fn serve(&mut self) -> bool {
        let cluster = self.extent.cluster.clone();
        let mut decoder = StripeDecoder::new(cluster.coding.code(), self.layout);
        loop {
            // Finished requests are handled before the plan checks the time, because the reader may
            // have been slow.
            while let Some(fetched) = self.fetches.try_join_next() {
                self.received(fetched.ok());
            }
            if self.sender.is_closed() {
                return true;
            }
            match self.plan.step(self.now()) {
                Step::Fetch(request) => self.fetch(request),
                // Pending requests to other nodes are awaited. Then the rest comes from the origin
                // as one request.
                Step::Origin { stripe, .. } => {
                    self.plan.handle(self.now(), Event::OriginFailed(stripe));
                }
                Step::Serve(part) => {
                    let Some(pieces) = self.pieces(&mut decoder, &part) else {
                        return false;
                    };
                    for piece in pieces {
                        self.at += piece.len() as u64;
                        if self.sender.send(Ok(piece)).await.is_err() {
                            return true;
                        }
                    }
                }
                Step::Wait(until) => {
                    let until = self.started + Duration::from_micros(until.0);
                    tokio::select! {
                        Some(fetched) = self.fetches.join_next() => self.received(fetched.ok()),
                        () = sleep_until(until) => {}
                        () = self.sender.closed() => return true,
                    }
                }
                Step::Done => return true,
                Step::Failed(_) => return false,
            }
        }
    }

    fn fetch(&mut self, request: ChunkRequest) {
        let span = self
            .extent
            .cluster
            .coding
            .span(&self.layout, request.stripe);
        let part = Part {
            version: self.extent.coded.version,
            chunk: request.chunk,
            range: Range {
                start: span.start,
                end: span.end,
            },
        };
        let (extent, name_hash) = (self.extent.clone(), self.name_hash);
        self.fetches.spawn(async move {
            let cluster = &extent.cluster;
            let bytes = match cluster.part(&extent.key, request, &part).await {
                Ok(bytes) => bytes,
                Err(absence) => {
                    cluster.counts.sub_chunks_missing.fetch_add(1, Relaxed);
                    let is_lost = absence == Absence::Lost;
                    return (request, Event::Missing(request), None, is_lost);
                }
            };
            let position = Position {
                name_hash,
                chunk: request.chunk,
                stripe: request.stripe,
            };
            match cluster.coding.verified(&extent.coded, position, &bytes) {
                Some(bytes) => (request, Event::Received(request), Some(bytes), false),
                None => {
                    cluster.counts.sub_chunks_corrupt.fetch_add(1, Relaxed);
                    log::warn!(
                        "{}: {} has sent a damaged chunk",
                        extent.key,
                        request.server
                    );
                    (request, Event::Corrupt(request), None, true)
                }
            }
        });
    }

    fn received(&mut self, fetched: Option<Fetched>) {
        let Some((request, event, bytes, is_lost)) = fetched else {
            // The task was ended. The plan waits for the timeout of its request.
            return;
        };
        let ChunkRequest {
            stripe,
            chunk,
            server,
        } = request;
        let CodedExtent { cluster, key, .. } = &self.extent;
        if is_lost && cluster.is_home(key, chunk, server) {
            self.lost.insert(chunk);
        }
        if let Some(bytes) = bytes
            && stripe >= self.next_stripe
        {
            let chunks = cluster.coding.chunks();
            let held = self.held.entry(stripe);
            let bytes = self.charge.count_as_is(bytes);
            held.or_insert_with(|| vec![None; chunks])[chunk] = Some(bytes);
        }
        self.plan.handle(self.now(), event);
    }

    /// Returns the bytes of a stripe. The result is never `None`, because the plan has all that is
    /// needed.
    fn pieces(&mut self, decoder: &mut StripeDecoder<'_>, part: &StripePart) -> Option<Vec<Bytes>> {
        let held = self.held.remove(&part.stripe)?;
        self.next_stripe = part.stripe + 1;
        if !part.missing.is_empty() {
            let counts = &self.extent.cluster.counts;
            counts.stripes_decoded.fetch_add(1, Relaxed);
            let chunks: Vec<Option<&[u8]>> = held.iter().map(|chunk| chunk.as_deref()).collect();
            let mut out = vec![];
            decoder
                .join(part.stripe, &chunks, &part.bytes, &mut out)
                .ok()?;
            return Some(vec![out.into()]);
        }
        let wanted = self.layout.chunks_of(&part.bytes, part.stripe);
        let piece = |chunk: usize| {
            let span = self.layout.sub_chunk(part.stripe, chunk);
            let from = part.bytes.start.max(span.start) - span.start;
            let to = part.bytes.end.min(span.end) - span.start;
            let bytes = held[chunk].as_ref()?;
            Some(bytes.slice(from as usize..to as usize))
        };
        wanted.iter().map(piece).collect()
    }

    /// Ends a read that found fewer than K chunks. If a part was already passed on, the rest comes
    /// from the origin; otherwise the caller fetches the whole object.
    async fn fail(mut self) {
        if self.extent.client.is_some() {
            let counts = &self.extent.cluster.counts;
            counts.reads_failed.fetch_add(1, Relaxed);
        }
        self.fetches.abort_all();
        let head = &self.extent.head;
        if let Some(client) = self.extent.client
            && self.at > self.range.start
            && let Some(tag) = strong_tag(&head.headers)
        {
            let mut headers = HeaderMap::new();
            for (name, value) in head.selection.fields() {
                if let Some(Ok(value)) = value.as_deref().map(HeaderValue::from_bytes) {
                    headers.insert(name, value);
                }
            }
            let rest = Rest {
                key: self.extent.key.clone(),
                headers,
                tag,
                range: Range {
                    start: self.at,
                    end: self.range.end,
                },
                whole: self.layout.object_bytes(),
                client,
            };
            if rest.pass(&self.extent.cluster, &self.sender).await {
                return;
            }
        }
        let error = io::Error::other("fewer chunks than needed are there");
        let _ = self.sender.send(Err(error)).await;
    }
}

/// Reason why a sub-chunk is missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Absence {
    /// The node answered that it does not have the sub-chunk.
    Lost,
    /// The node did not answer in time, or cannot answer now.
    Unanswered,
}

impl Cluster {
    /// Returns a sub-chunk with its checksum from this node or another one.
    async fn part(&self, key: &Key, request: ChunkRequest, part: &Part) -> Result<Bytes, Absence> {
        if request.server == self.config.own {
            return self.own_part(key, part).await.ok_or(Absence::Lost);
        }
        let call = call_of(Method::GET, "/v1/chunk", key);
        let mut call = call.ok_or(Absence::Unanswered)?;
        call.headers.insert(message::PART, part.value());
        let bytes_max = part.range.len() as usize;
        let reply = self
            .call(request.server, call, bytes_max, SERVER_TIME)
            .await;
        match reply {
            Ok(reply) if reply.status == StatusCode::OK => Ok(reply.body),
            Ok(reply) if reply.status == StatusCode::NOT_FOUND => Err(Absence::Lost),
            _ => Err(Absence::Unanswered),
        }
    }
}
