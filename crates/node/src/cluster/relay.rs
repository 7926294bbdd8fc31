//! Replies of other nodes that this node forwards to its clients. If such a reply ends early, the
//! rest comes from the origin, provided that a strong entity tag shows that the content is the
//! same.

use super::message::{self, CLIENT, COPY, STUB};
use super::peer::{PeerFailure, collect};
use super::{Cluster, call_of};
use crate::body::Content;
use crate::object::Pieces;
use crate::origin::Outgoing;
use crate::rules::key::Key;
use crate::rules::ranges::{Range, content_range};
use bytes::Bytes;
use edge::ServerId;
use hyper::body::{Body, Incoming};
use hyper::header::{HeaderMap, HeaderValue};
use hyper::{Method, Response, StatusCode};
use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::timeout;

/// Maximum number of pieces that wait for the reader.
const PIECES_MAX: usize = 2;
/// Timeout for a stub that another node sends instead of content.
const STUB_TIME: Duration = Duration::from_secs(5);

/// Timeout for a small response that is sent to be copied.
const COPY_TIME: Duration = Duration::from_secs(5);

/// Content that a task passes on as it arrives.
pub struct Arriving(pub mpsc::Receiver<io::Result<Bytes>>);

impl Pieces for Arriving {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        self.0.poll_recv(context)
    }
}

/// Data that is needed to fetch the rest of a reply that ended early.
#[derive(Clone, Debug)]
pub struct Rest {
    /// URL of the content.
    pub key: Key,
    /// Header fields of the request, without conditions and ranges.
    pub headers: HeaderMap,
    /// Strong entity tag of the content.
    pub tag: HeaderValue,
    /// Range that is missing.
    pub range: Range,
    /// Length of the whole content.
    pub whole: u64,
    /// Address of the client.
    pub client: IpAddr,
}

/// Returns the entity tag of a response if it is strong.
pub fn strong_tag(headers: &HeaderMap) -> Option<HeaderValue> {
    let tag = headers.get("etag")?;
    tag.as_bytes().starts_with(b"\"").then(|| tag.clone())
}

impl Rest {
    /// Passes the rest on from the origin. Returns true if it was complete.
    pub async fn pass(&self, cluster: &Cluster, to: &mpsc::Sender<io::Result<Bytes>>) -> bool {
        let Range { start, end } = self.range;
        if start >= end {
            return true;
        }
        let mut headers = self.headers.clone();
        crate::rules::conditional::remove(&mut headers);
        let range = format!("bytes={start}-{}", end - 1);
        let Ok(range) = HeaderValue::from_str(&range) else {
            return false;
        };
        headers.insert("range", range);
        headers.insert("if-range", self.tag.clone());
        let sent = cluster.origins.send(Outgoing {
            method: Method::GET,
            key: &self.key,
            headers,
            body: Content::empty(),
            client: self.client,
        });
        let Ok(response) = sent.await else {
            return false;
        };
        let is_same = response.status() == StatusCode::PARTIAL_CONTENT
            && response.headers().get("etag") == Some(&self.tag)
            && content_range(response.headers()) == Some((self.range, self.whole));
        if !is_same {
            return false;
        }
        cluster.counts.rests_from_origin.fetch_add(1, Relaxed);
        let mut left = self.range.len();
        let passed = pass(response.into_body(), cluster, &mut left, to).await;
        passed == Passed::End && left == 0
    }
}

/// Outcome of passing content on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Passed {
    /// The sender has sent everything.
    End,
    /// The sender or the connection failed.
    Broken,
    /// The reader has gone.
    Abandoned,
}

/// Passes a body on, at most `left` bytes of it.
async fn pass(
    mut body: Incoming,
    cluster: &Cluster,
    left: &mut u64,
    to: &mpsc::Sender<io::Result<Bytes>>,
) -> Passed {
    let idle = cluster.origins.idle();
    loop {
        let frame = timeout(
            idle,
            poll_fn(|context| Pin::new(&mut body).poll_frame(context)),
        );
        let frame = tokio::select! {
            frame = frame => frame,
            () = to.closed() => return Passed::Abandoned,
        };
        match frame {
            Ok(None) => return Passed::End,
            Ok(Some(Ok(frame))) => {
                let Ok(data) = frame.into_data() else {
                    continue;
                };
                let Some(rest) = left.checked_sub(data.len() as u64) else {
                    return Passed::Broken;
                };
                *left = rest;
                if to.send(Ok(data)).await.is_err() {
                    return Passed::Abandoned;
                }
            }
            Ok(Some(Err(_))) | Err(_) => return Passed::Broken,
        }
    }
}

/// Answer of another node.
pub enum Relayed {
    /// Response whose content follows.
    Response(Box<Response<Content>>),
    /// Stub of an object whose chunks this node can read itself.
    Stub(Box<message::Message>),
    /// A small response to be copied.
    Copy(Box<message::Message>, Bytes),
}

/// Request that is forwarded to another node.
pub struct Forwarded<'a> {
    /// HTTP method: GET or HEAD.
    pub method: Method,
    /// URL of the request.
    pub key: &'a Key,
    /// Header fields.
    pub headers: HeaderMap,
    /// Address of the client.
    pub client: IpAddr,
    /// Whether the answer may be a stub.
    pub accepts_stub: bool,
    /// Whether the answer may be a response to be copied.
    pub accepts_copy: bool,
}

impl Cluster {
    /// Forwards a request to a node.
    ///
    /// # Errors
    /// Returns the reason if the node does not answer.
    pub async fn forward(
        self: &Arc<Self>,
        server: ServerId,
        forwarded: &Forwarded<'_>,
    ) -> Result<Relayed, PeerFailure> {
        let peer = self.members.peer(server);
        let peer = peer.ok_or(PeerFailure::Unreachable)?;
        let mut call = call_of(forwarded.method.clone(), "/v1/forward", forwarded.key)
            .ok_or(PeerFailure::Busy)?;
        let mut headers = forwarded.headers.clone();
        headers.remove("host");
        // The client may have sent this field. The other fields of this protocol are overwritten
        // below.
        headers.remove(STUB);
        headers.remove(COPY);
        let own = std::mem::replace(&mut call.headers, headers);
        call.headers.extend(own);
        let client = HeaderValue::from_str(&forwarded.client.to_string());
        call.headers
            .insert(CLIENT, client.map_err(|_| PeerFailure::Busy)?);
        if forwarded.accepts_stub {
            call.headers.insert(STUB, HeaderValue::from_static("1"));
        }
        if forwarded.accepts_copy {
            call.headers.insert(COPY, HeaderValue::from_static("1"));
        }
        self.mark(&mut call.headers);
        // The other node has its own timeout for the origin, and answers with 504 after it.
        let head_time = self.origins.origin_head_time() + Duration::from_secs(10);
        let relayed = peer.relay(&call, head_time).await;
        self.note(server, relayed.as_ref().err().copied());
        let (response, permit) = relayed?;
        if response.headers().contains_key(STUB) {
            let body = collect(response.into_body(), message::MESSAGES_BYTES_MAX);
            let body = timeout(STUB_TIME, body)
                .await
                .unwrap_or(Err(PeerFailure::Timeout))?;
            let messages = message::read_all(&body, self.clock.now_ms());
            let message = messages.unwrap_or_default().pop();
            let message = message.ok_or(PeerFailure::TooLong)?;
            return Ok(Relayed::Stub(Box::new(message)));
        }
        if response.headers().contains_key(COPY) {
            let small = usize::try_from(self.config.coded_bytes_min).unwrap_or(usize::MAX);
            let bytes_max = message::MESSAGES_BYTES_MAX.saturating_add(small);
            let body = timeout(COPY_TIME, collect(response.into_body(), bytes_max)).await;
            let mut body = body.unwrap_or(Err(PeerFailure::Timeout))?;
            let message = message::read(&body, self.clock.now_ms());
            let (message, length) = message.ok_or(PeerFailure::TooLong)?;
            let content = body.split_off(length);
            return Ok(Relayed::Copy(Box::new(message), content));
        }
        self.counts.relayed.fetch_add(1, Relaxed);
        let response = self.relay(forwarded, response, permit);
        Ok(Relayed::Response(Box::new(response)))
    }

    /// Returns a response whose content a task passes on.
    fn relay(
        self: &Arc<Self>,
        forwarded: &Forwarded<'_>,
        response: Response<Incoming>,
        permit: OwnedSemaphorePermit,
    ) -> Response<Content> {
        let rest = rest(forwarded, &response);
        let (mut parts, body) = response.into_parts();
        crate::rules::fields::remove_hop_by_hop(&mut parts.headers);
        if forwarded.method == Method::HEAD || body.is_end_stream() {
            return Response::from_parts(parts, Content::empty());
        }
        let length = body.size_hint().exact();
        let (sender, receiver) = mpsc::channel(PIECES_MAX);
        let cluster = self.clone();
        tokio::spawn(async move {
            let _permit = permit;
            let total = length.unwrap_or(u64::MAX);
            let mut left = total;
            let passed = pass(body, &cluster, &mut left, &sender).await;
            let is_complete = passed == Passed::End && (length.is_none() || left == 0);
            if is_complete || passed == Passed::Abandoned {
                return;
            }
            if let Some(mut rest) = rest {
                rest.range.start += total - left;
                if rest.pass(&cluster, &sender).await {
                    return;
                }
            }
            let error = io::Error::other("a node has not sent all of the content");
            let _ = sender.send(Err(error)).await;
        });
        let content = Content::relayed(Box::new(Arriving(receiver)), length);
        Response::from_parts(parts, content)
    }
}

/// Returns the data that is needed to fetch the rest of a response from the origin.
fn rest(forwarded: &Forwarded<'_>, response: &Response<Incoming>) -> Option<Rest> {
    let length = response.body().size_hint().exact()?;
    let (range, whole) = match response.status() {
        StatusCode::OK => {
            let range = Range {
                start: 0,
                end: length,
            };
            (range, length)
        }
        StatusCode::PARTIAL_CONTENT => {
            let (range, whole) = content_range(response.headers())?;
            (range.len() == length).then_some((range, whole))?
        }
        _ => return None,
    };
    Some(Rest {
        key: forwarded.key.clone(),
        headers: forwarded.headers.clone(),
        tag: strong_tag(response.headers())?,
        range,
        whole,
        client: forwarded.client,
    })
}
