//! Listeners and client connections: HTTP/1.1 and HTTP/2, with and without TLS.

pub mod socket;

use crate::config::{Config, Invalid, Limits};
use crate::http1::{self, Failure, Rest};
use crate::proxy::{Client, Node};
use crate::rules::forwarded::is_trusted;
use crate::socket::Socket;
use crate::stream::Watched;
use ::membership::pem;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1::Builder as Http1Builder;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use socket::{Listener, read_client};
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

/// Pause after accepting a connection has failed, mostly for lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Maximum number of bytes of requests that wait in one HTTP/2 connection until an origin takes
/// them.
const RECEIVE_BYTES: u32 = 256 << 10;
/// Maximum number of bytes that wait to be sent in one HTTP/2 stream, beyond a single chunk.
const SEND_BYTES_MAX: usize = 128 << 10;

/// Binds an address with options that let it be bound again immediately after a stop.
///
/// # Errors
/// Returns an error if the address cannot be bound.
pub fn bind(address: SocketAddr) -> Result<TcpListener, Invalid> {
    let listen = || -> io::Result<TcpListener> {
        let domain = socket2::Domain::for_address(address);
        let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None)?;
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(1_024)?;
        TcpListener::from_std(socket.into())
    };
    listen().map_err(|error| Invalid(format!("address {address}: {error}")))
}

/// Reads the certificate and its key.
///
/// # Errors
/// Returns an error if a file cannot be read, or the key does not belong to the certificate.
pub fn tls(certificate: &Path, key: &Path) -> Result<TlsAcceptor, Invalid> {
    let (chain, secret) = (pem::certificates(certificate)?, pem::key(key)?);
    let provider = Arc::new(tokio_rustls::rustls::crypto::aws_lc_rs::default_provider());
    let mut server = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|server| server.with_no_client_auth().with_single_cert(chain, secret))
        .map_err(|error| Invalid(format!("{}: {error}", certificate.display())))?;
    server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(server)))
}

/// Accepts connections until `stop` changes, each once a permit is available, and serves each in
/// its own task.
pub async fn accept<L, F>(
    listener: &L,
    connections: Arc<Semaphore>,
    mut stop: watch::Receiver<bool>,
    serve: impl Fn(L::Stream, IpAddr) -> F,
) where
    L: Listener,
    F: Future<Output = ()> + Send + 'static,
{
    loop {
        let accept = async {
            let permit = connections.clone().acquire_owned().await;
            (permit, listener.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            accepted = accept => accepted,
            _ = stop.changed() => return,
        };
        let Ok((stream, address)) = accepted else {
            sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let served = serve(stream, address);
        tokio::spawn(async move {
            served.await;
            drop(permit);
        });
    }
}

/// Serves the clients of one address until `stop` changes.
pub async fn serve<L>(
    node: Arc<Node>,
    listener: L,
    tls: Option<Tls>,
    connections: Arc<Semaphore>,
    stop: watch::Receiver<bool>,
) where
    L: Listener<Stream: Into<Socket>>,
{
    accept(&listener, connections, stop.clone(), |stream, address| {
        node.metrics.connections_accepted.fetch_add(1, Relaxed);
        node.metrics.connections_open.fetch_add(1, Relaxed);
        let tls = tls.as_ref().map(|tls| tls.borrow().clone());
        let (node, stop, stream) = (node.clone(), stop.clone(), stream.into());
        async move {
            if let Err(error) = connection(&node, stream, address, tls, stop).await {
                log::debug!("{address}: {error}");
            }
            node.metrics.connections_open.fetch_sub(1, Relaxed);
        }
    })
    .await;
}

async fn connection(
    node: &Arc<Node>,
    mut stream: Socket,
    mut address: IpAddr,
    tls: Option<TlsAcceptor>,
    stop: watch::Receiver<bool>,
) -> Result<(), Failure> {
    let limits = &node.config.limits;
    if node.config.has_proxy_header {
        if !is_trusted(&node.config.trusted, address) {
            return Err("the peer is not a trusted balancer".into());
        }
        let client = timeout(limits.head_time, read_client(&mut stream)).await??;
        address = client.unwrap_or(address);
    }
    let client = Client {
        address,
        is_tls: tls.is_some(),
        is_peer: false,
    };
    let stream = match (tls, stream) {
        (Some(tls), Socket::Plain(stream)) => {
            let accept = tls.accept(stream);
            Socket::tls(timeout(limits.handshake_time, accept).await??)
        }
        (_, stream) => stream,
    };
    serve_client(node, stream, client, stop).await
}

async fn serve_client<S>(
    node: &Arc<Node>,
    stream: S,
    client: Client,
    stop: watch::Receiver<bool>,
) -> Result<(), Failure>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let limits = &node.config.limits;
    let answer = {
        let node = node.clone();
        move |request: Request<Incoming>| {
            let node = node.clone();
            async move { Ok::<_, Infallible>(node.serve(request, client, None).await) }
        }
    };
    if !node.config.is_direct {
        return exchange(stream, limits, answer, stop).await;
    }
    let stream = Watched::new(stream, limits.client_idle);
    match http1::serve(node, client, stream, stop.clone()).await? {
        Some(rest) => by_hyper(rest, limits, answer, stop).await,
        None => Ok(()),
    }
}

/// Reads the requests of a connection and writes the replies until either side closes it.
pub async fn exchange<S, F, A, B>(
    stream: S,
    limits: &Limits,
    answer: F,
    stop: watch::Receiver<bool>,
) -> Result<(), Failure>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Fn(Request<Incoming>) -> A,
    A: Future<Output = Result<Response<B>, Infallible>> + Send + 'static,
    B: Body<Data = bytes::Bytes, Error = io::Error> + Send + 'static,
{
    let stream = Watched::new(stream, limits.client_idle);
    by_hyper(Rest::new(Vec::new(), stream, false), limits, answer, stop).await
}

/// Lets hyper serve a connection whose progress is already being watched, and whose version may be
/// known.
async fn by_hyper<S, F, A, B>(
    stream: Rest<S>,
    limits: &Limits,
    answer: F,
    mut stop: watch::Receiver<bool>,
) -> Result<(), Failure>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Fn(Request<Incoming>) -> A,
    A: Future<Output = Result<Response<B>, Infallible>> + Send + 'static,
    B: Body<Data = bytes::Bytes, Error = io::Error> + Send + 'static,
{
    let is_http1 = stream.is_http1;
    let stream = TokioIo::new(stream);
    if is_http1 {
        // The builder for both versions would accept the beginning of HTTP/2 here.
        let mut builder = Http1Builder::new();
        builder
            .timer(TokioTimer::new())
            // hyper counts the time from the end of the previous reply on, so that a shorter one
            // would end idle connections.
            .header_read_timeout(limits.head_time.max(limits.client_idle))
            .max_buf_size(http1::head_bytes_max(limits))
            .max_headers(limits.fields);
        let connection = builder.serve_connection(stream, service_fn(answer));
        let mut connection = pin!(connection.with_upgrades());
        tokio::select! {
            biased;
            result = connection.as_mut() => return Ok(result?),
            _ = stop.changed() => connection.as_mut().graceful_shutdown(),
        }
        return Ok(timeout(limits.stop_time, connection).await??);
    }
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_time)
        .max_buf_size(http1::head_bytes_max(limits))
        .max_headers(limits.fields);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(limits.head_bytes).unwrap_or(u32::MAX))
        .initial_stream_window_size(RECEIVE_BYTES)
        .initial_connection_window_size(RECEIVE_BYTES)
        .max_send_buf_size(SEND_BYTES_MAX)
        .max_concurrent_streams(limits.streams);
    let mut connection = pin!(builder.serve_connection_with_upgrades(stream, service_fn(answer)));
    tokio::select! {
        // The fixed order avoids drawing a random number for each request.
        biased;
        result = connection.as_mut() => return result,
        _ = stop.changed() => connection.as_mut().graceful_shutdown(),
    }
    timeout(limits.stop_time, connection).await?
}

/// Acceptor for new TLS connections. It changes when the certificate is read again.
pub type Tls = watch::Receiver<TlsAcceptor>;

/// Binds all client addresses of a configuration. Addresses for TLS get the acceptor.
///
/// # Errors
/// Returns an error if an address cannot be bound.
pub fn bind_all(
    config: &Config,
    tls: Option<Tls>,
) -> Result<Vec<(TcpListener, Option<Tls>)>, Invalid> {
    let mut listeners = vec![];
    for address in &config.listen {
        listeners.push((bind(*address)?, None));
    }
    if let Some(tls) = tls {
        for address in &config.listen_tls {
            listeners.push((bind(*address)?, Some(tls.clone())));
        }
    }
    Ok(listeners)
}

#[cfg(test)]
mod tests;
