//! Fetches from the origin: conditions, coalescing and storing.

use super::{Lookup, Node};
use crate::body::Content;
use crate::encode::{Encoded, Encoder};
use crate::fill::{End, Fill, Reader};
use crate::flights::{Flight, Joined, Lead, Progress};
use crate::metrics::Failure;
use crate::object::{Head, Object, take_tags};
use crate::origin::{Outgoing, RETRY_MS};
use crate::rules::directives::Directives;
use crate::rules::freshness::{Asked, Refusal, Terms, is_failure, is_of_request, judge};
use crate::rules::key::Key;
use crate::rules::ranges::{Range, content_range};
use crate::rules::vary::Selection;
use crate::rules::{coding, conditional, dates, fields};
use bytes::Bytes;
use hyper::body::{Body, Incoming};
use hyper::header::HeaderMap;
use hyper::{Method, Response, StatusCode};
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::time::timeout_at;

/// Result of a fetch.
pub(super) enum Fetched {
    /// A response that is passed on to a single client, and the reason why it is not stored.
    Passed(Response<Incoming>, Option<Refusal>),
    /// A response that may be stored and is arriving.
    Filling {
        /// Head of the response.
        head: Arc<Head>,
        /// Content of the response.
        fill: Arc<Fill>,
        /// Length of the content, if the origin announced it.
        length: Option<u64>,
        /// Reader of the request that fetches, created before any content can be dropped.
        first: Option<Reader>,
        /// Fields for the client of this request, which are not stored.
        own: HeaderMap,
        /// Whether the response is stored when it is complete. An error that may not be stored is
        /// shared by the requests that already wait for it.
        is_stored: bool,
    },
    /// The origin has confirmed the stored response. The fields are for the client of this request
    /// and are not stored.
    Confirmed(Object, HeaderMap),
}

/// Response that is being fetched, with the data needed to store it.
struct Storing {
    key: Key,
    head: Arc<Head>,
    fill: Arc<Fill>,
    length: Option<u64>,
    purge_count: u64,
    began: Instant,
    is_stored: bool,
}

/// Head of a response that can be shared, with the facts about its content.
struct Sharable {
    head: Head,
    /// Length of the content, if the origin announced it.
    length: Option<u64>,
    /// Fields for the client of this request, which are not stored.
    own: HeaderMap,
    is_stored: bool,
    encoder: Option<Encoder>,
}

impl Node {
    /// Joins a fetch that began after all purges of the URL, or begins one.
    pub(super) fn join(&self, lookup: &Lookup) -> Joined {
        let is_outdated = |purge_count| self.store.is_purged(purge_count, &lookup.key, &[]);
        let purge_count = self.store.purge_count();
        self.flights.join(lookup.flight(), purge_count, is_outdated)
    }

    /// Revalidates a response in the background, unless that is already in progress.
    pub(super) fn refresh(self: Arc<Self>, lookup: &Lookup, stored: &Object) {
        if self.has_failed_now(lookup) || self.store.budget().is_overrun() {
            return;
        }
        if let Joined::Lead(lead) = self.join(lookup) {
            // The result reaches the store, and nobody waits for it.
            drop(self.fetch_apart(lookup.clone(), stored.clone(), lead));
        }
    }

    /// Fetches a response in a task of its own, which continues if the client leaves. A stored
    /// response is validated.
    pub(super) fn fetch_apart(
        self: Arc<Self>,
        lookup: Lookup,
        stored: Object,
        lead: Lead,
    ) -> oneshot::Receiver<Result<Fetched, Failure>> {
        let (sender, receiver) = oneshot::channel();
        tokio::spawn(async move {
            let fetched = self.fetch(&lookup, Some(&stored), Some(lead)).await;
            // The client may have left, or have received a stale response.
            let _ = sender.send(fetched);
        });
        receiver
    }

    /// Returns the fetch of the whole response, if there is one.
    pub(super) fn whole_flight(&self, lookup: &Lookup) -> Option<Flight> {
        let is_outdated = |purge_count| self.store.is_purged(purge_count, &lookup.key, &[]);
        self.flights.get(lookup.key.as_str(), is_outdated)
    }

    /// Returns true if a fetch of this response has failed so recently that another one is not
    /// worth its cost while a stale response can be used.
    pub(super) fn has_failed_now(&self, lookup: &Lookup) -> bool {
        let failed_ms = self.failed.get(&lookup.flight());
        failed_ms.is_some_and(|failed_ms| self.now_ms() < failed_ms.saturating_add(RETRY_MS))
    }

    /// Notes the outcome of a fetch for which a stale response can be used.
    fn note_outcome(&self, lookup: &Lookup, has_failed: bool) {
        let name = lookup.flight();
        match has_failed {
            true => self.failed.insert(name, self.now_ms()),
            false => _ = self.failed.remove(&name),
        }
    }

    /// Fetches a response. If a stored response has a validator, it is validated.
    pub(super) async fn fetch(
        self: Arc<Self>,
        lookup: &Lookup,
        stored: Option<&Object>,
        lead: Option<Lead>,
    ) -> Result<Fetched, Failure> {
        let fetched = self.clone().exchange(lookup, stored, lead).await;
        if stored.is_some() {
            self.note_outcome(lookup, fetched.is_err());
        }
        fetched
    }

    async fn exchange(
        self: Arc<Self>,
        lookup: &Lookup,
        stored: Option<&Object>,
        lead: Option<Lead>,
    ) -> Result<Fetched, Failure> {
        let purge_count = self.store.purge_count();
        let sent_ms = self.now_ms();
        let mut headers = lookup.headers.clone();
        conditional::remove(&mut headers);
        headers.remove("range");
        if let Some(range) = lookup.range() {
            headers.insert("range", range.clone());
        }
        // A part is not validated, because a confirmation would concern the whole.
        let validated = stored.filter(|object| object.head.part.is_none());
        if let Some(object) = validated {
            headers.remove("range");
            conditional::validate(&mut headers, &object.head.headers);
        }
        let is_conditional = ["if-none-match", "if-modified-since"]
            .iter()
            .any(|name| headers.contains_key(*name));
        let sent = self.origins.send(self.outgoing(lookup, headers.clone()));
        let mut response = match (sent.await, &lead) {
            (Ok(response), _) => response,
            (Err(failure), lead) => {
                if let Some(lead) = lead {
                    lead.publish(Progress::Failed(failure));
                }
                return Err(failure);
            }
        };
        if response.status() == StatusCode::NOT_MODIFIED && is_conditional {
            if let Some(object) = validated
                && conditional::confirms(&object.head.headers, response.headers())
            {
                let (object, own) =
                    self.confirm(lookup, object, response.headers(), sent_ms, purge_count);
                if let Some(lead) = lead {
                    lead.publish(Progress::Confirmed(object.clone()));
                }
                return Ok(Fetched::Confirmed(object, own));
            }
            // The confirmation is for another response, so that the request is repeated without
            // conditions.
            conditional::remove(&mut headers);
            response = self.origins.send(self.outgoing(lookup, headers)).await?;
        }
        if is_failure(response.status()) {
            let now_ms = self.now_ms();
            let is_usable = |object: &Object| object.head.terms.is_usable_when_failing(now_ms);
            if stored.is_some_and(is_usable) {
                if let Some(lead) = lead {
                    lead.publish(Progress::Failed(Failure::Status));
                }
                return Err(Failure::Status);
            }
        }
        Ok(self.receive(lookup, response, sent_ms, purge_count, lead))
    }

    fn outgoing<'a>(&self, lookup: &'a Lookup, headers: HeaderMap) -> Outgoing<'a> {
        Outgoing {
            method: Method::GET,
            key: &lookup.key,
            headers,
            body: Content::empty(),
            client: lookup.client,
        }
    }

    /// Updates a stored response with a confirmation (RFC 9111, section 4.3.4). Also returns the
    /// fields that are not stored.
    fn confirm(
        &self,
        lookup: &Lookup,
        stored: &Object,
        newer: &HeaderMap,
        sent_ms: u64,
        purge_count: u64,
    ) -> (Object, HeaderMap) {
        let now_ms = self.now_ms();
        let mut newer = newer.clone();
        fields::remove_hop_by_hop(&mut newer);
        let tags = take_tags(&mut newer);
        let mut head = Head::clone(&stored.head);
        // The confirmation resets the age of the stored response.
        head.headers.remove("age");
        if !newer.contains_key("date") {
            newer.insert("date", dates::format(now_ms));
        }
        fields::update(&mut head.headers, &newer);
        if newer.contains_key("vary")
            && let Some(rule) = &lookup.rule
        {
            rule.add_vary(&mut head.headers);
        }
        if lookup.wanted_coding.is_some() {
            coding::keep(&stored.head.headers, &mut head.headers);
        }
        if !tags.is_empty() {
            head.tags = tags;
        }
        let judged = self.judge(lookup, head.status, &head.headers, sent_ms, now_ms);
        let selection = Selection::of(&lookup.headers, &head.headers);
        let mut object = stored.clone();
        let mut own = HeaderMap::new();
        match (judged, selection) {
            (Ok((terms, rules)), Some(selection)) => {
                own = fields::take(&mut head.headers, &rules.listed_fields);
                head.terms = terms;
                head.selection = selection;
                object.head = Arc::new(head);
                if self.store.put(&lookup.key, &object.stored(), purge_count)
                    && let Some(cluster) = &self.cluster
                    && object.head.coded.is_some()
                {
                    cluster.renew(&lookup.key, &object.head);
                }
            }
            _ => {
                object.head = Arc::new(head);
                self.store.remove_for(&lookup.key, &lookup.headers);
            }
        }
        (object, own)
    }

    fn judge(
        &self,
        lookup: &Lookup,
        status: StatusCode,
        headers: &HeaderMap,
        sent_ms: u64,
        now_ms: u64,
    ) -> Result<(Terms, Directives), Refusal> {
        let asked = Asked {
            method: &Method::GET,
            has_authorization: lookup.headers.contains_key("authorization"),
            sent_ms,
        };
        let mut grace = self.config.grace;
        if let Some(rule) = &lookup.rule {
            grace = rule.grace(status, headers, grace);
        }
        judge(asked, status, headers, now_ms, grace)
    }

    /// Decides how a response is handled, once its head has arrived.
    fn receive(
        self: Arc<Self>,
        lookup: &Lookup,
        response: Response<Incoming>,
        sent_ms: u64,
        purge_count: u64,
        lead: Option<Lead>,
    ) -> Fetched {
        let sharable = match self.sharable(lookup, &response, sent_ms) {
            Ok(sharable) => sharable,
            Err(refusal) => {
                self.metrics.refusal(refusal);
                // The stored response is no longer what the origin sends, but it remains usable if
                // the origin fails. A refusal of this request alone, or a response to its
                // credentials, says nothing about either. The next response after an error may be
                // stored again, so that requests for it still share a fetch.
                let status = response.status();
                if !is_of_request(status) && !status.is_server_error() {
                    if refusal != Refusal::Authorization {
                        self.store.remove_for(&lookup.key, &lookup.headers);
                    }
                    self.passed.insert(lookup.passed_name(), ());
                }
                if let Some(lead) = lead {
                    lead.publish(Progress::Alone);
                }
                return Fetched::Passed(response, Some(refusal));
            }
        };
        let Sharable {
            head,
            length,
            own,
            is_stored,
            encoder,
        } = sharable;
        let kept = usize::try_from(self.config.object_bytes_max).unwrap_or(usize::MAX);
        let storing = Storing {
            key: lookup.key.clone(),
            head: Arc::new(head),
            fill: Fill::new(kept, self.config.limits.client_idle, self.store.budget()),
            length,
            purge_count,
            began: began(sent_ms, self.now_ms()),
            is_stored,
        };
        let (head, fill) = (storing.head.clone(), storing.fill.clone());
        let first = fill.reader();
        self.begin(storing, Encoded::new(response.into_body(), encoder), lead);
        Fetched::Filling {
            head,
            fill,
            length,
            first,
            own,
            is_stored,
        }
    }

    /// Begins to read the content. From now on, other requests follow the fetch.
    fn begin<B>(self: Arc<Self>, storing: Storing, body: B, lead: Option<Lead>)
    where
        B: Body<Data = Bytes> + Unpin + Send + 'static,
        B::Error: fmt::Display + Send,
    {
        if storing.length == Some(0) {
            // Clients see the end of empty content together with the head.
            self.finish(&storing, End::Complete, None);
        }
        if let Some(lead) = &lead {
            let (head, fill) = (storing.head.clone(), storing.fill.clone());
            lead.publish(Progress::Head(head, fill, storing.length));
        }
        if storing.length != Some(0) {
            tokio::spawn(async move { self.pump(storing, body, lead).await });
        }
    }

    /// Returns the head of a response that other requests may use, or the reason why there is none.
    fn sharable(
        &self,
        lookup: &Lookup,
        response: &Response<Incoming>,
        sent_ms: u64,
    ) -> Result<Sharable, Refusal> {
        let now_ms = self.now_ms();
        let status = response.status();
        let mut headers = response.headers().clone();
        if !fields::remove_hop_by_hop(&mut headers) {
            return Err(Refusal::Status);
        }
        let length = response.body().size_hint().exact();
        if length.is_some_and(|length| length > self.config.object_bytes_max) {
            return Err(Refusal::Length);
        }
        if let Some(rule) = &lookup.rule {
            rule.add_vary(&mut headers);
        }
        let judged = self.judge(lookup, status, &headers, sent_ms, now_ms);
        let (terms, rules, is_stored) = match judged {
            // A stored response is not hidden by an error.
            Ok((terms, rules)) => {
                let is_kept = is_failure(status) && self.store.outlasts_failure(&lookup.key);
                (terms, rules, !is_kept)
            }
            Err(Refusal::Useless) if is_failure(status) && lookup.is_impersonal(&headers) => {
                self.metrics.refusal(Refusal::Useless);
                let terms = Terms::of_single_use(now_ms);
                (terms, Directives::of(&headers), false)
            }
            Err(refusal) => return Err(refusal),
        };
        // A response that is not shared is compressed when it is passed on.
        Selection::of(&lookup.headers, &headers).ok_or(Refusal::VaryStar)?;
        let encoder = self.encoder(lookup.wanted_coding, status, &mut headers, length);
        let length = length.filter(|_| encoder.is_none());
        let selection = Selection::of(&lookup.headers, &headers);
        let selection = selection.ok_or(Refusal::VaryStar)?;
        let part = match status {
            StatusCode::PARTIAL_CONTENT => Some(part(&headers, length).ok_or(Refusal::Status)?),
            _ => None,
        };
        let tags = take_tags(&mut headers);
        let own = fields::take(&mut headers, &rules.listed_fields);
        if !headers.contains_key("date") {
            headers.insert("date", dates::format(now_ms));
        }
        headers.remove("age");
        let head = Head {
            status,
            headers,
            terms,
            selection,
            part,
            tags,
            coded: None,
        };
        Ok(Sharable {
            head,
            length,
            own,
            is_stored,
            encoder,
        })
    }

    /// Reads the content, and stores the response when it is complete. Other requests follow the
    /// fetch while `lead` exists.
    async fn pump<B>(self: Arc<Self>, storing: Storing, mut body: B, lead: Option<Lead>)
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: fmt::Display,
    {
        let fill = &storing.fill;
        let mut lead = lead;
        let mut received = 0;
        // If the length is known, clients see the end of the content with its last bytes. Therefore
        // these bytes are held back until the response is stored.
        let mut last = None;
        let limits = &self.config.limits;
        let total = limits.origin_total.map(|total| storing.began + total);
        let end = loop {
            if total.is_some_and(|total| Instant::now() >= total) {
                self.metrics.failure(Failure::Timeout);
                break End::Failed;
            }
            if fill.wait_for_room().await.is_err() {
                break End::Failed;
            }
            let frame = poll_fn(|context| Pin::new(&mut body).poll_frame(context));
            let idle = Instant::now() + limits.origin_idle;
            let until = total.map_or(idle, |total| total.min(idle));
            match timeout_at(until.into(), frame).await {
                Ok(None) => break End::Complete,
                Ok(Some(Ok(frame))) => {
                    let Ok(chunk) = frame.into_data() else {
                        continue;
                    };
                    received += chunk.len() as u64;
                    self.metrics
                        .origin_bytes
                        .fetch_add(chunk.len() as u64, Relaxed);
                    if storing.length.is_some_and(|length| received >= length) {
                        last = last.or_else(|| Some(fill.charge().count(chunk)));
                        continue;
                    }
                    fill.push(chunk);
                    self.store.fit();
                    if fill.is_streamed() && lead.take().is_some() {
                        self.note_streamed(&storing);
                    }
                }
                Ok(Some(Err(error))) => {
                    log::debug!("{}: the content is not complete: {error}", storing.key);
                    self.metrics.failure(Failure::Truncated);
                    break End::Failed;
                }
                Err(_) => {
                    self.metrics.failure(Failure::Timeout);
                    break End::Failed;
                }
            }
        };
        let is_right = storing.length.is_none_or(|length| length == received);
        let end = if is_right { end } else { End::Failed };
        self.finish(&storing, end, last);
        drop(lead);
    }

    /// Notes that a response is too long to be stored, or that memory is too short for it.
    fn note_streamed(&self, storing: &Storing) {
        if storing.fill.is_refused() {
            self.metrics.refusal(Refusal::Memory);
            return;
        }
        // Later requests cannot follow this fetch, and must not wait for each other.
        self.metrics.refusal(Refusal::Length);
        self.passed.insert(storing.key.as_str().to_owned(), ());
    }

    /// Ends the content. A complete response is stored before clients see its end, so that the next
    /// request is a hit, and a stop saves the response.
    fn finish(&self, storing: &Storing, end: End, last: Option<Bytes>) {
        let fill = &storing.fill;
        let is_stored = storing.is_stored && end == End::Complete;
        let whole = fill.whole().filter(|_| is_stored);
        if let Some(mut chunks) = whole {
            chunks.extend(last.clone());
            let object = Object::charged(storing.head.clone(), chunks, fill.charge());
            let is_stored = self.store.put(&storing.key, &object, storing.purge_count);
            if is_stored && let Some(cluster) = &self.cluster {
                cluster.offer(&storing.key, &object, storing.began);
            }
        }
        fill.end(last, end);
        self.store.fit();
    }
}

/// Returns the part that a response contains, and the length of the whole. A part is stored only if
/// its length is the announced one.
fn part(headers: &HeaderMap, length: Option<u64>) -> Option<(Range, u64)> {
    content_range(headers).filter(|(part, _)| length == Some(part.len()))
}

/// Returns the instant at which a fetch began that was sent at `sent_ms` of the node's clock.
fn began(sent_ms: u64, now_ms: u64) -> Instant {
    let now = Instant::now();
    let since = Duration::from_millis(now_ms.saturating_sub(sent_ms));
    now.checked_sub(since).unwrap_or(now)
}

#[cfg(test)]
mod tests;
