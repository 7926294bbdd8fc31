//! Requests that are forwarded without a look-up, and responses that are passed on without being
//! stored.

use super::fetch::Fetched;
use super::reply::{self, Answer};
use super::{Client, Lookup, Node};
use crate::body::{Content, PassedLimits};
use crate::metrics::Reply;
use crate::origin::Outgoing;
use crate::purge::{Target, is_permitted};
use crate::rules::coding::Wanted;
use crate::rules::fields;
use crate::rules::key::Key;
use crate::rules::status::{CacheStatus, Forward};
use hyper::body::{Body, Incoming};
use hyper::header::HeaderMap;
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use std::sync::Arc;
use std::time::Instant as StdInstant;
use tokio::time::Instant;

impl Node {
    /// Forwards a request without a look-up.
    pub(super) async fn pass(
        self: Arc<Self>,
        parts: Parts,
        body: Incoming,
        key: Key,
        client: Client,
        forward: Forward,
    ) -> Answer {
        let cache = CacheStatus {
            forward: Some(forward),
            ..CacheStatus::default()
        };
        let limits = &self.config.limits;
        if body.size_hint().lower() > limits.request_bytes {
            return self.refuse(StatusCode::PAYLOAD_TOO_LARGE, "the body is too long");
        }
        if let Some(answer) = self.refuse_overrun() {
            return answer;
        }
        let rule = self.rule(&key);
        let wanted = rule.and_then(|rule| Wanted::choose(&rule.codings, &parts.headers, false));
        let is_safe = parts.method.is_safe();
        let is_head = parts.method == Method::HEAD;
        let body = if body.is_end_stream() {
            Content::empty()
        } else {
            let limits = PassedLimits {
                bytes_max: limits.request_bytes,
                idle: limits.client_idle,
                end: None,
            };
            Content::passed(body, limits)
        };
        let outgoing = Outgoing {
            method: parts.method,
            key: &key,
            headers: parts.headers,
            body,
            client: client.address,
        };
        let sent = StdInstant::now();
        let answer = match self.origins.send(outgoing).await {
            Ok(response) => {
                // RFC 9111, section 4.4.
                let status = response.status();
                if !is_safe && (status.is_success() || status.is_redirection()) {
                    self.invalidate(&key, response.headers());
                }
                self.passed(response, cache, is_head, wanted)
            }
            Err(failure) => reply::failed(failure, cache),
        };
        answer.after_origin(sent)
    }

    /// Purges a URL at the request of a client that has the token.
    pub(super) async fn purge_url(self: Arc<Self>, headers: &HeaderMap, key: Key) -> Answer {
        if !is_permitted(self.config.purge_token.as_deref(), headers) {
            let text = "PURGE needs Authorization: Bearer with the purge token";
            return self.refuse(StatusCode::FORBIDDEN, text);
        }
        let Some(count) = self.purge(Target::Url(key), false).await else {
            return self.refuse(StatusCode::INTERNAL_SERVER_ERROR, "the purge has failed");
        };
        let cache = CacheStatus {
            detail: Some("purged"),
            ..CacheStatus::default()
        };
        reply::text(StatusCode::OK, format!("{count}\n"), Reply::Purged, cache)
    }

    /// Forwards HEAD for a URL whose responses could not be stored. With GET, the origin would send
    /// content that nobody uses.
    pub(super) async fn pass_head(self: Arc<Self>, lookup: Lookup, forward: Forward) -> Answer {
        let sent = StdInstant::now();
        let fetched = self.origins.send(Outgoing {
            method: Method::HEAD,
            key: &lookup.key,
            headers: lookup.headers.clone(),
            body: Content::empty(),
            client: lookup.client,
        });
        let fetched = fetched.await;
        let fetched = fetched.map(|response| Fetched::Passed(response, None));
        let answer = self.conclude(&lookup, None, forward, fetched);
        answer.after_origin(sent)
    }

    /// Removes the responses that an unsafe request has invalidated: those for its own URL, and for
    /// URLs on the same host that the response names.
    fn invalidate(&self, key: &Key, response: &HeaderMap) {
        let mut keys = vec![key.clone()];
        for name in ["location", "content-location"] {
            let reference = response.get(name).and_then(|value| value.to_str().ok());
            let named = reference.and_then(|reference| key.sibling(reference));
            keys.extend(named.map(|key| self.normalised(key)));
        }
        for key in keys {
            let target = Target::Url(key);
            // The purge also prevents fetches in progress from storing their responses.
            self.store.purge(&target, false);
            if let Some(cluster) = self.cluster.clone() {
                tokio::spawn(async move { cluster.purge_others(&target, false).await });
            }
        }
    }

    /// Passes on a response that is not stored. `wanted` is the coding that the client receives, if
    /// a rule offers any.
    pub(super) fn passed(
        &self,
        response: Response<Incoming>,
        cache: CacheStatus,
        is_head: bool,
        wanted: Option<Wanted>,
    ) -> Answer {
        let (mut parts, body) = response.into_parts();
        fields::remove_hop_by_hop(&mut parts.headers);
        crate::object::take_tags(&mut parts.headers);
        let has_content = !is_head && !body.is_end_stream();
        let length = body.size_hint().exact();
        let wanted = wanted.filter(|_| has_content);
        let encoder = self.encoder(wanted, parts.status, &mut parts.headers, length);
        let content = if !has_content {
            Content::empty()
        } else {
            let limits = &self.config.limits;
            let limits = PassedLimits {
                bytes_max: u64::MAX,
                idle: limits.origin_idle,
                end: limits.origin_total.map(|total| Instant::now() + total),
            };
            Content::passed(body, limits)
        };
        let content = match encoder {
            Some(encoder) => content.encoded(encoder),
            None => content,
        };
        let mut response = Response::new(content);
        *response.status_mut() = parts.status;
        *response.headers_mut() = parts.headers;
        Answer {
            response,
            reply: Reply::Miss,
            cache,
        }
    }
}
