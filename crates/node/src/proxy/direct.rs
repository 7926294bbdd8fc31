//! Replies to plain requests for responses in memory, without hyper.
//!
//! The same functions as in `proxy.rs` decide: the key, Vary, freshness. The reply equals hyper's
//! byte for byte, except for the Date of a response that has none.

use super::head::{Signature, write_head};
use super::{Client, Node, Usability, usability};
use crate::metrics::{Reply, Tier};
use crate::object::{Found, Object, Resource};
use crate::rules::directives::Directives;
use crate::rules::key::Key;
use crate::rules::plain::Plain;
use crate::rules::status::CacheStatus;
use bytes::Bytes;
use hyper::StatusCode;
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
        let has_origin = self.origins.has(key.host());
        if !has_origin
            || !self.is_unchanged(&key, plain)
            || plain.field_count() > self.config.limits.fields
        {
            return Direct::Other(None);
        }
        let started = self.log.as_ref().map(|_| Instant::now());
        let now_ms = self.now_ms();
        let found = self.store.read(&key, |resource| {
            let object = usable(resource, plain, now_ms).ok_or_else(|| resource.clone())?;
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
            Some(Err(resource)) => {
                let resource = Some(resource);
                return Direct::Other(Some(Looked { key, resource }));
            }
            None => {
                let resource = None;
                return Direct::Other(Some(Looked { key, resource }));
            }
        };
        self.count_hit(Tier::Memory, is_copy);
        self.metrics.reply(Reply::Hit);
        let Some(started) = started else {
            self.metrics.sent(bytes, false);
            return Direct::Reply(content);
        };
        let mut record = self.record(now_ms, started, client);
        let method = if plain.is_head { "HEAD" } else { "GET" };
        method.clone_into(&mut record.method);
        key.as_str().clone_into(&mut record.url);
        // Writing to a string cannot fail.
        let _ = cache.write(&self.config.name, &mut record.cache);
        record.status = status.as_u16();
        record.bytes = bytes;
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

/// Returns the response for a plain request, if it can be sent exactly as stored.
fn usable<'a>(resource: &'a Resource, plain: &Plain<'_, '_>, now_ms: u64) -> Option<&'a Object> {
    let Found::Object(object) = resource.find(plain, None) else {
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
