//! Connections that leave HTTP, such as WebSockets: the node passes on the request, and after the
//! origin's consent all bytes in both directions.

use super::reply::{self, Answer};
use super::{Client, Node};
use crate::body::Content;
use crate::metrics::Reply;
use crate::origin::Outgoing;
use crate::rules::fields;
use crate::rules::key::Key;
use crate::rules::status::{CacheStatus, Forward};
use crate::stream::Watched;
use hyper::header::{CONNECTION, CONTENT_LENGTH, HeaderMap, HeaderValue, UPGRADE};
use hyper::http::request::Parts;
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Response, StatusCode, Version};
use hyper_util::rt::TokioIo;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use tokio::io::copy_bidirectional;

/// Returns the protocol that a request wants to use instead of HTTP.
pub(super) fn wanted(parts: &Parts) -> Option<HeaderValue> {
    let is_usual = parts.method == Method::GET && parts.version == Version::HTTP_11;
    protocol(&parts.headers).filter(|_| is_usual)
}

/// Returns the protocol in Upgrade if Connection lists that field.
fn protocol(headers: &HeaderMap) -> Option<HeaderValue> {
    let lines = headers.get_all(CONNECTION).iter();
    let mut names = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    let is_listed = names.any(|name| name.trim_ascii().eq_ignore_ascii_case(b"upgrade"));
    // HTTP/2 without TLS is not offered to origins.
    let is_http = |value: &&HeaderValue| {
        let mut names = value.as_bytes().split(|byte| *byte == b',');
        names.any(|name| name.trim_ascii().eq_ignore_ascii_case(b"h2c"))
    };
    headers
        .get(UPGRADE)
        .filter(|value| is_listed && !is_http(value))
        .cloned()
}

fn set(headers: &mut HeaderMap, protocol: HeaderValue) {
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, protocol);
}

impl Node {
    /// Forwards a request for another protocol. `headers` are without fields of a single
    /// connection.
    pub(super) async fn upgrade(
        self: Arc<Self>,
        mut headers: HeaderMap,
        protocol: HeaderValue,
        key: Key,
        client: Client,
        upgrade: OnUpgrade,
    ) -> Answer {
        let cache = CacheStatus {
            forward: Some(Forward::Request),
            ..CacheStatus::default()
        };
        let Ok(permit) = self.tunnels.clone().try_acquire_owned() else {
            let text = "too many connections use other protocols";
            return self.refuse(StatusCode::SERVICE_UNAVAILABLE, text);
        };
        // It says 0 at most, because the request has no content.
        headers.remove(CONTENT_LENGTH);
        set(&mut headers, protocol);
        let outgoing = Outgoing {
            method: Method::GET,
            key: &key,
            headers,
            body: Content::empty(),
            client: client.address,
        };
        let mut response = match self.origins.send(outgoing).await {
            Ok(response) => response,
            Err(failure) => return reply::failed(failure, cache),
        };
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return self.passed(response, cache, false, None);
        }
        let Some(protocol) = self::protocol(response.headers()) else {
            let text = "the origin has changed to a protocol that it does not name";
            return self.refuse(StatusCode::BAD_GATEWAY, text);
        };
        let to_origin = hyper::upgrade::on(&mut response);
        let node = self.clone();
        tokio::spawn(async move {
            let _permit = permit;
            let (Ok(client), Ok(origin)) = tokio::join!(upgrade, to_origin) else {
                return;
            };
            // The client's connection is watched already. A side that has ended is no longer
            // polled, so that the other one needs a time limit of its own.
            let idle = node.config.limits.client_idle;
            let mut origin = Watched::new(TokioIo::new(origin), idle);
            let mut client = TokioIo::new(client);
            node.metrics.tunnels_open.fetch_add(1, Relaxed);
            let _ = copy_bidirectional(&mut client, &mut origin).await;
            node.metrics.tunnels_open.fetch_sub(1, Relaxed);
        });
        let (mut parts, _) = response.into_parts();
        fields::remove_hop_by_hop(&mut parts.headers);
        set(&mut parts.headers, protocol);
        Answer {
            response: Response::from_parts(parts, Content::empty()),
            reply: Reply::Miss,
            cache,
        }
    }
}
