//! Requests to another node over HTTP/2, bounded in number, bytes and time.
//!
//! There are two connections to each node: one for calls, whose short replies are read immediately,
//! and one for relays, which clients read at their own pace. A slow client therefore delays no
//! chunk. For the same reason, the windows of all streams fit in the window of their connection.

use super::tls::Credentials;
use crate::body::Content;
use crate::config::{Invalid, Server};
use crate::socket::Socket;
use bytes::Bytes;
use edge::ServerId;
use hyper::body::{Body, Incoming};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper::header::HeaderMap;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_rustls::rustls::pki_types::ServerName;

/// Maximum number of concurrent calls to a node.
const CALLS_MAX: u32 = 64;
/// Flow-control window of a call in bytes.
const CALL_WINDOW_BYTES: u32 = 128 << 10;
/// Maximum number of concurrent relays from a node.
const RELAYS_MAX: u32 = 512;
/// Flow-control window of a relay in bytes.
const RELAY_WINDOW_BYTES: u32 = 64 << 10;
/// Maximum number of bytes of a request that wait to be sent.
const SEND_BYTES_MAX: usize = 128 << 10;
/// Timeout for a connection, including its handshakes.
const CONNECT_TIME: Duration = Duration::from_secs(2);
/// Interval between two pings, and timeout for the answer. A connection without an answer is
/// closed, which ends all of its requests.
const PING_TIME: Duration = Duration::from_secs(2);

/// Reason why a node has not answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PeerFailure {
    /// No connection can be made, or it broke.
    Unreachable,
    /// The node did not answer in time.
    Timeout,
    /// Too many requests to the node are in progress.
    Busy,
    /// The reply is longer than expected.
    TooLong,
}

impl PeerFailure {
    /// Returns true if the failure indicates that the node is down.
    pub fn is_of_node(self) -> bool {
        matches!(self, PeerFailure::Unreachable | PeerFailure::Timeout)
    }
}

/// Request to a node whose reply is read immediately.
#[derive(Clone, Debug)]
pub struct Call {
    /// HTTP method.
    pub method: Method,
    /// Path, which selects the operation.
    pub path: &'static str,
    /// Header fields.
    pub headers: HeaderMap,
    /// Body of the request.
    pub body: Vec<Bytes>,
}

/// Reply to a [`Call`].
#[derive(Clone, Debug)]
pub struct CallReply {
    /// Status code.
    pub status: StatusCode,
    /// Body of the reply.
    pub body: Bytes,
}

/// Another node.
pub struct Peer {
    /// Number of the node.
    pub id: ServerId,
    address: SocketAddr,
    name: ServerName<'static>,
    credentials: Arc<Credentials>,
    calls: Link,
    relays: Link,
    /// Number of requests so far.
    sent: AtomicU64,
}

/// Connection that is made on demand.
struct Link {
    sender: Mutex<Option<SendRequest<Content>>>,
    permits: Arc<Semaphore>,
    streams: u32,
    window_bytes: u32,
}

impl Link {
    fn new(streams: u32, window_bytes: u32) -> Self {
        Link {
            sender: Mutex::new(None),
            permits: Arc::new(Semaphore::new(streams as usize)),
            streams,
            window_bytes,
        }
    }

    async fn handshake<S>(&self, stream: S) -> Result<SendRequest<Content>, PeerFailure>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut builder = Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .initial_stream_window_size(self.window_bytes)
            .initial_connection_window_size(self.window_bytes * self.streams)
            .max_send_buf_size(SEND_BYTES_MAX)
            .max_concurrent_reset_streams(self.streams as usize)
            .keep_alive_interval(PING_TIME)
            .keep_alive_timeout(PING_TIME)
            // hyper begins to ping an idle connection only if it is polled after a request was
            // counted, and without this setting that may not happen until data arrives.
            .keep_alive_while_idle(true);
        let connected = builder.handshake(TokioIo::new(stream)).await;
        let (sender, connection) = connected.map_err(|_| PeerFailure::Unreachable)?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                log::debug!("a connection to a node has ended: {error}");
            }
        });
        Ok(sender)
    }
}

impl Peer {
    /// Prepares requests to a node. No connection is made.
    ///
    /// # Errors
    /// Returns an error if the name for the node's certificate is malformed.
    pub fn new(server: &Server, credentials: Arc<Credentials>) -> Result<Self, Invalid> {
        let name = match &server.name {
            None => ServerName::IpAddress(server.address.ip().into()),
            Some(name) => ServerName::try_from(name.clone())
                .map_err(|_| Invalid(format!("name '{name}': expected a DNS name")))?,
        };
        Ok(Peer {
            id: server.id,
            address: server.address,
            name,
            credentials,
            calls: Link::new(CALLS_MAX, CALL_WINDOW_BYTES),
            relays: Link::new(RELAYS_MAX, RELAY_WINDOW_BYTES),
            sent: AtomicU64::new(0),
        })
    }

    /// Returns the number of requests to the node so far.
    pub fn sent(&self) -> u64 {
        self.sent.load(Relaxed)
    }

    /// Sends a request and reads the reply, which must have at most `bytes_max` bytes and arrive
    /// within the time limit.
    ///
    /// # Errors
    /// Returns the reason if there is no such reply.
    pub async fn call(
        &self,
        call: Call,
        bytes_max: usize,
        time: Duration,
    ) -> Result<CallReply, PeerFailure> {
        let reply = async {
            let acquired = self.calls.permits.acquire().await;
            let _permit = acquired.map_err(|_| PeerFailure::Busy)?;
            let response = self.send(&self.calls, &call).await?;
            let status = response.status();
            let body = collect(response.into_body(), bytes_max).await?;
            Ok(CallReply { status, body })
        };
        timeout(time, reply)
            .await
            .unwrap_or(Err(PeerFailure::Timeout))
    }

    /// Sends a request, and returns the reply's head with a permit. The caller drops the permit
    /// after it has read the body.
    ///
    /// # Errors
    /// Returns the reason if no head arrives within the time limit.
    pub async fn relay(
        &self,
        call: &Call,
        head_time: Duration,
    ) -> Result<(Response<Incoming>, OwnedSemaphorePermit), PeerFailure> {
        let permit = self.relays.permits.clone().try_acquire_owned();
        let permit = permit.map_err(|_| PeerFailure::Busy)?;
        let response = timeout(head_time, self.send(&self.relays, call)).await;
        let response = response.unwrap_or(Err(PeerFailure::Timeout))?;
        Ok((response, permit))
    }

    async fn send(&self, link: &Link, call: &Call) -> Result<Response<Incoming>, PeerFailure> {
        self.sent.fetch_add(1, Relaxed);
        // A connection that was kept open may have ended. The second attempt uses a new one.
        for is_last in [false, true] {
            let (mut sender, is_new) = self.sender(link).await?;
            let uri = format!("http://peer{}", call.path);
            let mut request = Request::new(Content::chunks(call.body.clone()));
            *request.method_mut() = call.method.clone();
            *request.uri_mut() = uri.parse().map_err(|_| PeerFailure::Unreachable)?;
            *request.headers_mut() = call.headers.clone();
            match sender.send_request(request).await {
                Ok(response) => return Ok(response),
                Err(error) if is_last || is_new => {
                    log::debug!("{}: {error}", self.id);
                    break;
                }
                Err(_) => {}
            }
        }
        Err(PeerFailure::Unreachable)
    }

    /// Returns the connection, and whether it was made just now.
    async fn sender(&self, link: &Link) -> Result<(SendRequest<Content>, bool), PeerFailure> {
        let mut slot = link.sender.lock().await;
        if let Some(sender) = slot.as_ref().filter(|sender| !sender.is_closed()) {
            return Ok((sender.clone(), false));
        }
        *slot = None;
        let connected = timeout(CONNECT_TIME, self.connect(link)).await;
        let sender = connected.unwrap_or(Err(PeerFailure::Timeout))?;
        *slot = Some(sender.clone());
        Ok((sender, true))
    }

    async fn connect(&self, link: &Link) -> Result<SendRequest<Content>, PeerFailure> {
        let unreachable = |error: std::io::Error| {
            log::debug!("{}: {error}", self.id);
            PeerFailure::Unreachable
        };
        let stream = TcpStream::connect(self.address)
            .await
            .map_err(unreachable)?;
        stream.set_nodelay(true).map_err(unreachable)?;
        let stream = match self.credentials.connector() {
            None => Socket::Plain(stream),
            Some(tls) => {
                let stream = tls.connect(self.name.clone(), stream).await;
                Socket::tls(stream.map_err(unreachable)?)
            }
        };
        link.handshake(stream).await
    }
}

/// Reads a body of at most `bytes_max` bytes.
///
/// # Errors
/// Returns the reason if the body is longer or the connection broke.
pub async fn collect(mut body: Incoming, bytes_max: usize) -> Result<Bytes, PeerFailure> {
    let length = body.size_hint().exact().unwrap_or(0);
    let length = usize::try_from(length).unwrap_or(0).min(bytes_max);
    let mut first = Bytes::new();
    let mut all: Vec<u8> = vec![];
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let frame = frame.map_err(|_| PeerFailure::Unreachable)?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if first.len() + all.len() + data.len() > bytes_max {
            return Err(PeerFailure::TooLong);
        }
        if first.is_empty() && all.is_empty() {
            first = data;
            continue;
        }
        if all.is_empty() {
            // The whole length is reserved at once, because a buffer that grows is copied several
            // times.
            all.reserve_exact(length.max(first.len() + data.len()));
            all.extend_from_slice(&first);
            first.clear();
        }
        all.extend_from_slice(&data);
    }
    Ok(if all.is_empty() { first } else { all.into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::duplex;
    use tokio::time::sleep;

    /// Regression: a request to a node that had stopped, and therefore answered no ping, waited for
    /// the timeout of the whole reply.
    #[tokio::test(start_paused = true)]
    async fn a_connection_to_a_node_that_is_silent_ends() {
        let (near, _far) = duplex(1 << 16);
        let link = Link::new(RELAYS_MAX, RELAY_WINDOW_BYTES);
        let sender = link.handshake(near).await.expect("the other side is open");
        assert!(!sender.is_closed());
        sleep(3 * PING_TIME).await;
        assert!(sender.is_closed());
    }
}
