//! The port for other nodes of the cluster: HTTP/2, with TLS and certificates on both sides.
//!
//! | request | reply |
//! |---|---|
//! | `GET /v1/health` | 200 while the node serves, with a text that is different after each start |
//! | `GET /v1/chunk` | part of a chunk (`mayfly-key`, `mayfly-part`), or 404 |
//! | `GET /v1/check` | the status of the same, without content |
//! | `PUT /v1/chunk` | stores a chunk and the head of its object, which precedes it |
//! | `GET /v1/stub` | heads of the objects under a key whose chunks are on nodes |
//! | `PUT /v1/stub` | moves the deadline of the chunks of an object to that of a newer head |
//! | `GET /v1/loads` | bytes written to each bucket, as JSON |
//! | `POST /v1/purge` | removes what is stored here (`mayfly-purge`); see [`message::MISSED`] |
//! | `GET /v1/missed` | purges that the sender (`mayfly-node`) has missed, one a line |
//! | `GET` or `HEAD /v1/forward` | answers a client's request as the owner of its key |
//!
//! A node with a certificate of the cluster's authority is trusted with the store. Sizes, numbers
//! and times are bounded as for clients.

use crate::body::Content;
use crate::cluster::message::{self, CLIENT, COPY, KEY, PART, PURGE, Part, STUB};
use crate::cluster::{Cluster, peer};
use crate::config::{Config, Invalid};
use crate::listen;
use crate::object::{Head, Object};
use crate::proxy::{Client, Node};
use crate::purge::Purge;
use crate::rules::key::Key;
use crate::socket::Socket;
use crate::stream::Watched;
use bytes::Bytes;
use hyper::body::{Body, Incoming};
use hyper::header::HeaderMap;
use hyper::server::conn::http2::Builder;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// Maximum number of connections.
const CONNECTIONS_MAX: usize = 1_024;
/// Maximum number of concurrent requests on a connection.
const STREAMS_MAX: u32 = 1_024;
/// Maximum number of bytes of a reply waiting to be sent.
const SEND_BYTES_MAX: usize = 128 << 10;
/// Maximum number of chunks that are received at a time.
const PUTS_MAX: usize = 16;
/// Time limit for receiving a chunk.
const PUT_TIME: Duration = Duration::from_secs(10);

/// Binds the configured cluster port, if there is one.
///
/// # Errors
/// Returns an error if the address cannot be bound.
pub fn bind(config: &Config) -> Result<Option<TcpListener>, Invalid> {
    let Some(cluster) = &config.cluster else {
        return Ok(None);
    };
    let address = cluster
        .listen
        .or_else(|| cluster.own().map(|own| own.address));
    let address = address.ok_or_else(|| Invalid("cluster: no address".into()))?;
    listen::bind(address).map(Some)
}

/// Serves other nodes until `stop` changes.
pub async fn serve(
    node: Arc<Node>,
    cluster: Arc<Cluster>,
    listener: TcpListener,
    stop: watch::Receiver<bool>,
) {
    let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let port = Arc::new(Port {
        node,
        cluster,
        puts: Semaphore::new(PUTS_MAX),
    });
    listen::accept(&listener, connections, stop.clone(), |stream, address| {
        let tls = port.cluster.credentials().acceptor();
        let (port, stop) = (port.clone(), stop.clone());
        async move {
            if let Err(error) = port.connection(stream, tls, stop).await {
                log::debug!("node at {address}: {error}");
            }
        }
    })
    .await;
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

struct Port {
    node: Arc<Node>,
    cluster: Arc<Cluster>,
    puts: Semaphore,
}

impl Port {
    async fn connection(
        self: Arc<Self>,
        stream: TcpStream,
        tls: Option<TlsAcceptor>,
        stop: watch::Receiver<bool>,
    ) -> Result<(), Failure> {
        let stream = match tls {
            None => Socket::Plain(stream),
            Some(tls) => {
                let time = self.node.config.limits.handshake_time;
                Socket::tls(timeout(time, tls.accept(stream)).await??)
            }
        };
        self.exchange(stream, stop).await
    }

    async fn exchange(
        self: Arc<Self>,
        stream: Socket,
        mut stop: watch::Receiver<bool>,
    ) -> Result<(), Failure> {
        let limits = self.node.config.limits.clone();
        let stream = TokioIo::new(Watched::new(stream, limits.client_idle));
        let answer = move |request: Request<Incoming>| {
            let port = self.clone();
            async move { Ok::<_, Infallible>(port.answer(request).await) }
        };
        let mut builder = Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .max_header_list_size(u32::try_from(limits.head_bytes * 2).unwrap_or(u32::MAX))
            .max_concurrent_streams(STREAMS_MAX)
            // A reader cancels requests that it no longer needs, often before they are handled.
            .max_pending_accept_reset_streams(STREAMS_MAX as usize)
            .max_send_buf_size(SEND_BYTES_MAX);
        let mut connection = pin!(builder.serve_connection(stream, service_fn(answer)));
        tokio::select! {
            result = connection.as_mut() => return Ok(result?),
            _ = stop.changed() => connection.as_mut().graceful_shutdown(),
        }
        Ok(timeout(limits.stop_time, connection).await??)
    }

    async fn answer(self: Arc<Self>, mut request: Request<Incoming>) -> Response<Content> {
        self.cluster.counts().peer_requests.fetch_add(1, Relaxed);
        // Requests under other maps are answered, too.
        self.cluster.note_map(request.headers_mut());
        let path = request.uri().path();
        if path == "/v1/health" {
            return Response::new(Content::text(self.cluster.instance()));
        }
        if path == "/v1/purge" && request.method() == Method::POST {
            return self.purge(request.headers()).await;
        }
        if path == "/v1/missed" {
            return Response::new(Content::text(self.cluster.missed_by(request.headers())));
        }
        if path == "/v1/loads" {
            return Response::new(Content::text(self.cluster.own_loads()));
        }
        let Some(key) = key(request.headers()) else {
            return plain(StatusCode::BAD_REQUEST);
        };
        match (request.method(), path) {
            (&Method::GET, "/v1/chunk") => self.chunk(&key, request.headers()).await,
            (&Method::GET, "/v1/check") => {
                let mut response = self.chunk(&key, request.headers()).await;
                *response.body_mut() = Content::empty();
                response
            }
            (&Method::PUT, "/v1/chunk") => self.put(&key, request).await,
            (&Method::GET, "/v1/stub") => self.stubs(&key).await,
            (&Method::PUT, "/v1/stub") => self.renew(&key, request).await,
            (&Method::GET | &Method::HEAD, "/v1/forward") => self.forward(key, request).await,
            _ => plain(StatusCode::NOT_FOUND),
        }
    }

    async fn chunk(&self, key: &Key, headers: &HeaderMap) -> Response<Content> {
        let Some(part) = headers.get(PART).and_then(Part::parse) else {
            return plain(StatusCode::BAD_REQUEST);
        };
        match self.cluster.own_part(key, &part).await {
            Some(bytes) => Response::new(Content::text(bytes)),
            None => plain(StatusCode::NOT_FOUND),
        }
    }

    async fn put(&self, key: &Key, request: Request<Incoming>) -> Response<Content> {
        let Some(part) = request.headers().get(PART).and_then(Part::parse) else {
            return plain(StatusCode::BAD_REQUEST);
        };
        let bytes_max = self.cluster.put_bytes_max();
        if request.body().size_hint().lower() > bytes_max as u64 {
            return plain(StatusCode::PAYLOAD_TOO_LARGE);
        }
        let Some(body) = self.body(request, bytes_max).await else {
            return plain(StatusCode::SERVICE_UNAVAILABLE);
        };
        match self.cluster.take(key, &part, &body) {
            true => plain(StatusCode::OK),
            false => plain(StatusCode::CONFLICT),
        }
    }

    /// Reads the body of a request; `None` if it is too long or takes too long, or memory is short.
    async fn body(&self, request: Request<Incoming>, bytes_max: usize) -> Option<Bytes> {
        if self.node.store.budget().is_overrun() {
            return None;
        }
        let receive = async {
            let _permit = self.puts.acquire().await.ok()?;
            peer::collect(request.into_body(), bytes_max).await.ok()
        };
        timeout(PUT_TIME, receive).await.ok()?
    }

    async fn stubs(&self, key: &Key) -> Response<Content> {
        let Some(resource) = self.node.store.get_anywhere(key).await else {
            return plain(StatusCode::NOT_FOUND);
        };
        let mut bytes = vec![];
        for object in &resource.variants {
            if object.head.coded.is_some() {
                self.put_message(&mut bytes, &object.head);
            }
        }
        let mut response = Response::new(Content::text(bytes));
        if response.body().is_end_stream() {
            *response.status_mut() = StatusCode::NOT_FOUND;
        }
        response
    }

    fn put_message(&self, bytes: &mut Vec<u8>, head: &Head) {
        let now_ms = self.node.now_ms();
        let age_ms = now_ms.saturating_sub(head.terms.received_ms);
        message::put(bytes, head, now_ms, Duration::from_millis(age_ms));
    }

    async fn renew(&self, key: &Key, request: Request<Incoming>) -> Response<Content> {
        let Some(body) = self.body(request, message::MESSAGES_BYTES_MAX).await else {
            return plain(StatusCode::BAD_REQUEST);
        };
        match self.cluster.take_renewal(key, &body).await {
            true => plain(StatusCode::OK),
            false => plain(StatusCode::CONFLICT),
        }
    }

    async fn forward(&self, key: Key, mut request: Request<Incoming>) -> Response<Content> {
        let headers = request.headers_mut();
        let address = headers.remove(CLIENT);
        let address = address.and_then(|value| value.to_str().ok()?.parse().ok());
        let Some(address) = address else {
            return plain(StatusCode::BAD_REQUEST);
        };
        let accepts_stub = headers.remove(STUB).is_some();
        let accepts_copy = headers.remove(COPY).is_some();
        headers.remove(KEY);
        let client = Client {
            address,
            is_tls: key.is_tls(),
            is_peer: true,
        };
        if (accepts_stub || accepts_copy)
            && let Some(object) = self.node.fresh_object(&key, request.headers()).await
        {
            if accepts_stub && object.is_stub() {
                return self.message(&object, STUB);
            }
            if accepts_copy && self.cluster.is_copied(&object) {
                return self.message(&object, COPY);
            }
        }
        let mut response = self
            .node
            .clone()
            .serve_key(request, Ok(key), client, None)
            .await;
        // The origin may have sent this field.
        response.headers_mut().remove(STUB);
        response.headers_mut().remove(COPY);
        response
    }

    /// Returns a stored response as a message. If its content is in memory, the message includes
    /// it, and `field` says so.
    fn message(&self, object: &Object, field: &'static str) -> Response<Content> {
        let mut bytes = vec![];
        self.put_message(&mut bytes, &object.head);
        let mut chunks = vec![bytes.into()];
        chunks.extend(object.chunks.iter().cloned());
        let mut response = Response::new(Content::chunks(chunks));
        let one = hyper::header::HeaderValue::from_static("1");
        response.headers_mut().insert(field, one);
        response
    }

    async fn purge(&self, headers: &HeaderMap) -> Response<Content> {
        let text = headers
            .get(PURGE)
            .map(|value| std::str::from_utf8(value.as_bytes()));
        let text = text.and_then(Result::ok);
        let Some(purge) = text.and_then(Purge::parse) else {
            return plain(StatusCode::BAD_REQUEST);
        };
        self.cluster.keep_missed(headers);
        let node = self.node.clone();
        let purged = tokio::task::spawn_blocking(move || {
            node.store.purge(&purge.target, purge.is_soft);
            node.store.sync_removals();
        });
        match purged.await {
            Ok(()) => plain(StatusCode::OK),
            Err(_) => plain(StatusCode::INTERNAL_SERVER_ERROR),
        }
    }
}

fn key(headers: &HeaderMap) -> Option<Key> {
    Key::parse(std::str::from_utf8(headers.get(KEY)?.as_bytes()).ok()?)
}

fn plain(status: StatusCode) -> Response<Content> {
    let mut response = Response::new(Content::empty());
    *response.status_mut() = status;
    response
}
