//! The least work that a server on hyper and Tokio can do for a request, for
//! `tests/measure/edge.py --floor`: the same reply to everything, with the fields and the content
//! of a hit, on one thread.
//!
//! ```text
//! cargo run --release -p mayfly-node --example hyper_floor -- 127.0.0.1:8081 1024
//! ```

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{HeaderMap, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response, body::Incoming};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;

type Failure = Box<dyn std::error::Error>;

fn fields() -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("content-type", "application/octet-stream"),
        ("cache-control", "max-age=86400"),
        ("server", "BaseHTTP/0.6 Python/3.11.2"),
        ("date", "Thu, 26 Nov 2026 00:00:00 GMT"),
        ("age", "1234"),
        ("via", "1.1 mayfly"),
        ("cache-status", "mayfly; hit; ttl=85166"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, bytes] = &arguments[..] else {
        return Err("expected ADDRESS CONTENT-BYTES".into());
    };
    let content = Bytes::from(vec![b'x'; bytes.parse()?]);
    let headers = fields();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(address).await?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let (content, headers) = (content.clone(), headers.clone());
            tokio::spawn(async move {
                let answer = |_: Request<Incoming>| {
                    let mut response = Response::new(Full::new(content.clone()));
                    *response.headers_mut() = headers.clone();
                    async { Ok::<_, Infallible>(response) }
                };
                let connection = hyper::server::conn::http1::Builder::new();
                // An error is the end of the connection.
                let _ = connection
                    .serve_connection(TokioIo::new(stream), service_fn(answer))
                    .await;
            });
        }
    })
}
