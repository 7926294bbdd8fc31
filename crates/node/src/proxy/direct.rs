//! Replies to plain requests for responses in memory, without hyper.
//!
//! The same functions as in `proxy.rs` decide: the key, Vary, freshness. The reply equals hyper's
//! byte for byte, except for the Date of a response that has none.

use super::head::{Signature, write_head};
use super::{Client, Node, Usability, usability};
use crate::access_log::{AccessLog, Entry, Record, Request as Logged};
use crate::metrics::{Reply, Tier};
use crate::object::{Found, Object, Resource};
use crate::rules::directives::Directives;
use crate::rules::fields::Lines;
use crate::rules::key::Key;
use crate::rules::plain::Plain;
use crate::rules::status::CacheStatus;
use bytes::Bytes;
use hyper::{StatusCode, Version};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// Maximum length of content that is copied after the head, so that one buffer is sent. A
/// connection keeps room for it.
const COPIED_BYTES_MAX: usize = 4 << 10;

/// Result of [`Node::direct`].
pub(crate) enum Direct {
    /// The reply is the head that was written, followed by this content.
    Reply(Bytes),
    /// hyper passes the request to [`Node::serve`], together with the result of the look-up, if
    /// there was one.
    Other(Option<Looked>),
}

/// Result of a look-up. It is passed on so that a request is counted only once and its key is made
/// only once.
pub(crate) struct Looked {
    /// Key of the request.
    pub key: Key,
    /// Responses to the URL in memory.
    pub resource: Option<Arc<Resource>>,
}

impl Node {
    /// Answers a plain request if a response in memory is fresh and in one piece. Appends the head
    /// of the reply to `out`, followed by the content if it is short.
    pub(crate) fn direct(
        &self,
        plain: &Plain<'_, '_>,
        client: Client,
        out: &mut Vec<u8>,
    ) -> Direct {
        let Ok(key) = Key::of_path(client.is_tls, plain.path, plain) else {
            return Direct::Other(None);
        };
        let is_admitted =
            self.origins.has(key.host()) && plain.field_count() <= self.config.limits.fields;
        let Some(request) = self.unchanged(&key, plain).filter(|_| is_admitted) else {
            return Direct::Other(None);
        };
        let started = Instant::now();
        let now_ms = self.now_ms();
        let found = self.store.read(&key, |resource| {
            let object = usable(resource, &request, now_ms).ok_or_else(|| resource.clone())?;
            let mut cache = CacheStatus::default();
            cache.set_ttl(&object.head.terms, now_ms);
            let signature = Signature {
                via: &self.via,
                cache: &cache,
                name: &self.config.name,
            };
            let start = out.len();
            if !write_head(out, object, now_ms, &signature) {
                out.truncate(start);
                return Err(resource.clone());
            }
            let bytes = if plain.is_head { 0 } else { object.length };
            let content = match &object.chunks[0] {
                _ if bytes == 0 => Bytes::new(),
                chunk if chunk.len() > COPIED_BYTES_MAX => chunk.clone(),
                chunk => {
                    out.extend_from_slice(chunk);
                    Bytes::new()
                }
            };
            Ok((content, bytes, cache, object.head.status, object.is_copy))
        });
        let (content, bytes, cache, status, is_copy) = match found {
            Some(Ok(found)) => found,
            other => {
                let resource = other.and_then(Result::err);
                return Direct::Other(Some(Looked { key, resource }));
            }
        };
        self.count_hit(Tier::Memory, is_copy);
        self.metrics.reply(Reply::Hit, started.elapsed());
        let entry = self.log.as_ref().map(|log| {
            let mut entry = entry(log, (now_ms, started), client, &key, plain);
            // Writing to a string cannot fail.
            let _ = cache.write(&self.config.name, &mut entry.cache);
            entry.status = status.as_u16();
            entry
        });
        match entry {
            None => self.metrics.sent(bytes, false),
            entry => drop(Record {
                bytes,
                is_cut: false,
                metrics: self.metrics.clone(),
                entry,
            }),
        }
        Direct::Reply(content)
    }

    /// Counts a hit.
    pub(super) fn count_hit(&self, tier: Tier, is_copy: bool) {
        self.metrics.hit(tier);
        if let Some(cluster) = self.cluster.as_ref().filter(|_| is_copy) {
            cluster.counts().copy_hits.fetch_add(1, Relaxed);
        }
    }
}

/// Begins the entry of a request in the log.
fn entry(
    log: &AccessLog,
    arrival: (u64, Instant),
    client: Client,
    key: &Key,
    plain: &Plain<'_, '_>,
) -> Box<Entry> {
    let logged = Logged {
        method: if plain.is_head { "HEAD" } else { "GET" },
        url: key.to_string(),
        protocol: Version::HTTP_11,
        headers: plain,
    };
    let mut entry = Entry::new(log, arrival, client.address, logged);
    entry.source = Reply::Hit.name();
    entry
}

/// Returns the response for a plain request, if it can be sent exactly as stored.
fn usable<'a>(resource: &'a Resource, request: &impl Lines, now_ms: u64) -> Option<&'a Object> {
    let Found::Object(object) = resource.find(request, None) else {
        return None;
    };
    let is_whole = object.head.part.is_none() && object.head.coded.is_none();
    let is_one_piece = object.extent.is_none() && object.chunks.len() == 1 && object.length > 0;
    let is_usual = is_whole && is_one_piece && has_usual_content(object.head.status);
    let is_fresh = || usability(object, &Directives::default(), now_ms) == Usability::Fresh;
    (is_usual && is_fresh()).then_some(object)
}

/// Returns true if responses with this status have content and a length in the usual way.
fn has_usual_content(status: StatusCode) -> bool {
    let code = status.as_u16();
    code >= 200 && !matches!(code, 204..=206 | 304) && status.canonical_reason().is_some()
}
