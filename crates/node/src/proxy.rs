//! How a request is answered: from the store, by another request's fetch, or by the origin.
//!
//! `proxy.rs` decides, `proxy/follow.rs` shares fetches, `proxy/fetch.rs` fetches and stores, and
//! `proxy/reply.rs` makes replies from stored or arriving responses. `proxy/pass.rs` forwards
//! requests without a look-up, and `proxy/direct.rs` answers plain requests for responses in
//! memory.

mod direct;
mod fetch;
mod follow;
mod head;
mod lookup;
mod pass;
mod peers;
mod reply;
mod site;
mod upgrade;

use crate::access_log::{AccessLog, Entry, Record, Request as Logged};
use crate::body::Content;
use crate::cluster::Cluster;
use crate::config::{Config, Invalid};
use crate::flights::Flights;
use crate::metrics::{Metrics, Reply, Tier};
use crate::object::{Found, Object, Resource};
use crate::origin::Origins;
use crate::rules::coding::Wanted;
use crate::rules::directives::Directives;
use crate::rules::key::{Invalid as InvalidKey, Key};
use crate::rules::operator::Rule;
use crate::rules::present::Present;
use crate::rules::ranges::Requested;
use crate::rules::status::{self, CacheStatus, Forward};
use crate::rules::{conditional, fields};
use crate::store::Store;
pub(crate) use direct::{Direct, Looked};
use head::Signature;
use hyper::body::{Body, Incoming};
use hyper::header::HeaderValue;
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use library::Cache;
pub(crate) use lookup::Lookup;
use lookup::{Usability, usability};
use reply::Answer;
use std::net::IpAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Maximum number of URLs remembered as having responses that could not be stored or fetched.
const PASSED_MAX: u64 = 65_536;
/// Time for which such a URL is remembered.
const PASSED_TIME: Duration = Duration::from_secs(120);
/// Maximum number of members in the field Via. A request with more is in a loop.
const VIA_MAX: usize = 32;

/// A node: its store, its origins, its counters.
pub struct Node {
    pub(crate) config: Config,
    /// Stored responses.
    pub store: Arc<Store>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) origins: Arc<Origins>,
    pub(crate) cluster: Option<Arc<Cluster>>,
    flights: Arc<Flights>,
    /// URLs whose responses could not be stored ([`Lookup::passed_name`]). Requests for them do not
    /// wait for each other.
    passed: Cache<String, ()>,
    /// Instants at which fetches failed while a stale response could be used, by
    /// [`Lookup::flight`].
    failed: Cache<String, u64>,
    /// Rules of the operator. A reload replaces them.
    rules: RwLock<Vec<Arc<Rule>>>,
    /// Permits for connections that use another protocol.
    tunnels: Arc<Semaphore>,
    log: Option<AccessLog>,
    /// Member that this node adds to Via.
    via: HeaderValue,
}

/// Origin of a request.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    /// Address of the client.
    pub address: IpAddr,
    /// Whether the connection uses TLS.
    pub is_tls: bool,
    /// Whether another node of the cluster forwarded the request.
    pub is_peer: bool,
}

impl Node {
    /// Creates a node.
    ///
    /// # Errors
    /// Returns an error if a setting is invalid.
    pub fn new(config: Config) -> Result<Self, Invalid> {
        config.check()?;
        let metrics = Arc::new(Metrics::default());
        let log = match &config.access_log {
            Some(path) => {
                let log = AccessLog::open(path, config.access_log_format.clone());
                let invalid = |error| Invalid(format!("access log {}: {error}", path.display()));
                Some(log.map_err(invalid)?)
            }
            None => None,
        };
        let via = HeaderValue::from_str(&format!("1.1 {}", config.name));
        let via = via.expect("the check admits tokens only");
        let store = Arc::new(Store::new(&config)?);
        let origins = Arc::new(Origins::new(&config, metrics.clone())?);
        Ok(Node {
            cluster: Cluster::new(&config, &store, &origins)?,
            store,
            origins,
            metrics,
            flights: Arc::default(),
            passed: Cache::builder(PASSED_MAX)
                .ttl(PASSED_TIME)
                .build()
                .map_err(|error| Invalid(error.to_string()))?,
            failed: Cache::builder(PASSED_MAX)
                .ttl(PASSED_TIME)
                .build()
                .map_err(|error| Invalid(error.to_string()))?,
            rules: RwLock::new(config.rules.iter().cloned().map(Arc::new).collect()),
            tunnels: Arc::new(Semaphore::new(config.limits.connections)),
            log,
            via,
            config,
        })
    }

    /// Returns the number of replies of this kind.
    pub fn replies(&self, reply: Reply) -> u64 {
        self.metrics.replies(reply)
    }

    /// Returns the settings with which the node was started.
    pub fn settings(&self) -> &Config {
        &self.config
    }

    /// Returns the cluster that the node belongs to.
    pub fn cluster(&self) -> Option<&Arc<Cluster>> {
        self.cluster.as_ref()
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.config.clock.now_ms()
    }

    /// Answers a request. `looked` is the result of an earlier look-up, if there was one.
    pub(crate) async fn serve(
        self: Arc<Self>,
        request: Request<Incoming>,
        client: Client,
        looked: Option<Looked>,
    ) -> Response<Content> {
        let client = self.client_of(client, request.headers());
        let (key, looked) = match looked {
            Some(looked) => (Ok(looked.key), Some(looked.resource)),
            None => {
                let key = Key::of(&request, client.is_tls);
                (key.map(|key| self.normalised(key)), None)
            }
        };
        self.serve_key(request, key, client, looked).await
    }

    /// Answers a request with its key, or with the reason why it has none. `looked` is the result
    /// of a look-up in memory, if there was one.
    pub(crate) async fn serve_key(
        self: Arc<Self>,
        request: Request<Incoming>,
        key: Result<Key, InvalidKey>,
        client: Client,
        looked: Option<Option<Arc<Resource>>>,
    ) -> Response<Content> {
        let started = Instant::now();
        let at_ms = self.now_ms();
        let entry = self.log.as_ref().map(|log| {
            let logged = Logged {
                method: request.method().as_str(),
                url: match &key {
                    Ok(key) => key.to_string(),
                    Err(_) => request.uri().to_string(),
                },
                protocol: request.version(),
                headers: request.headers(),
            };
            Entry::new(log, (at_ms, started), client.address, logged)
        });
        let answer = match key {
            Ok(key) => {
                let node = self.clone();
                node.answer(request, key, client, at_ms, looked).await
            }
            Err(InvalidKey::Length) => self.refuse(StatusCode::URI_TOO_LONG, "the URL is too long"),
            Err(InvalidKey::Host) => self.refuse(
                StatusCode::BAD_REQUEST,
                "Host: expected exactly one host, the same as in the request's target",
            ),
            Err(InvalidKey::Target) => {
                self.refuse(StatusCode::BAD_REQUEST, "target: expected a path")
            }
        };
        let Answer {
            mut response,
            reply,
            cache,
        } = answer;
        self.metrics.reply(reply, started.elapsed());
        if let Some(forward) = cache.forward {
            self.metrics.forward(forward);
        }
        if cache.is_collapsed {
            self.metrics.collapsed.fetch_add(1, Relaxed);
        }
        let origin_time = cache.origin_time;
        let cache = self.sign(&mut response, reply, &cache);
        let entry = entry.map(|mut entry| {
            entry.status = response.status().as_u16();
            entry.source = reply.name();
            entry.cache = cache.unwrap_or_default();
            entry.origin_time = origin_time;
            entry
        });
        let record = Record {
            bytes: 0,
            is_cut: false,
            metrics: self.metrics.clone(),
            entry,
        };
        response.body_mut().account(self.store.budget());
        response.body_mut().record(record);
        response
    }

    /// Adds Via and Cache-Status, which a response of another node already has. Returns
    /// Cache-Status if it is logged.
    fn sign(
        &self,
        response: &mut Response<Content>,
        reply: Reply,
        cache: &CacheStatus,
    ) -> Option<String> {
        let is_logged = self.log.is_some();
        let text = |value: &HeaderValue| value.to_str().unwrap_or_default().to_owned();
        if reply == Reply::Peer
            && let Some(cache) = response.headers().get(status::FIELD)
        {
            return is_logged.then(|| text(cache));
        }
        let signature = Signature {
            via: &self.via,
            cache,
            name: &self.config.name,
        };
        let cache = signature.add(response.headers_mut(), reply != Reply::Refused);
        is_logged.then(|| text(&cache))
    }

    async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        key: Key,
        client: Client,
        now_ms: u64,
        looked: Option<Option<Arc<Resource>>>,
    ) -> Answer {
        let (mut parts, body) = request.into_parts();
        let protocol = upgrade::wanted(&parts);
        let present = Present::of(&parts.headers);
        if let Err((status, text)) = self.admit(&parts, &key, present) {
            return self.refuse(status, text);
        }
        if present.has(Present::HOP_BY_HOP) && !fields::remove_hop_by_hop(&mut parts.headers) {
            return self.refuse(StatusCode::BAD_REQUEST, "Connection: too many names");
        }
        if present.has(Present::UNKEYED) {
            fields::remove_unkeyed(&mut parts.headers);
        }
        // A request with content is forwarded as HTTP.
        if body.is_end_stream()
            && let (Some(protocol), Some(upgrade)) = (protocol, parts.extensions.remove())
        {
            let (node, headers) = (self.clone(), parts.headers);
            return Box::pin(node.upgrade(headers, protocol, key, client, upgrade)).await;
        }
        if parts.method.as_str() == "PURGE" && self.config.purge_token.is_some() {
            return Box::pin(self.purge_url(&parts.headers, key)).await;
        }
        let is_lookup = matches!(parts.method, Method::GET | Method::HEAD);
        if !is_lookup || !body.is_end_stream() {
            return Box::pin(self.pass(parts, body, key, client, Forward::Method)).await;
        }
        let rule = self.rule(&key);
        if let Some(rule) = &rule {
            if rule.bypasses(&parts.headers) {
                return Box::pin(self.pass(parts, body, key, client, Forward::Bypass)).await;
            }
            rule.take_cookies(&mut parts.headers);
        }
        // Range applies to GET only.
        let is_head = parts.method == Method::HEAD;
        let has_range = present.has(Present::RANGE) && !is_head;
        let codings = rule.as_ref().map_or(&[][..], |rule| &rule.codings);
        let wanted_coding = Wanted::replace(codings, &mut parts.headers, has_range);
        let directives = match present.has(Present::CACHE) {
            true => Directives::of_request(&parts.headers),
            false => Directives::default(),
        };
        let has_condition = present.has(Present::CONDITION);
        if directives.has_no_store || (has_condition && conditional::is_for_origin(&parts.headers))
        {
            return Box::pin(self.pass(parts, body, key, client, Forward::Request)).await;
        }
        let lookup = Lookup {
            key,
            is_head,
            wanted: has_range.then(|| Requested::of(&parts.headers)).flatten(),
            headers: parts.headers,
            has_condition,
            directives,
            client: client.address,
            is_peer: client.is_peer,
            rule,
            wanted_coding,
        };
        self.look_up(lookup, now_ms, looked).await
    }

    /// Refuses requests that must not be forwarded.
    fn admit(
        &self,
        parts: &Parts,
        key: &Key,
        present: Present,
    ) -> Result<(), (StatusCode, &'static str)> {
        if matches!(parts.method, Method::CONNECT | Method::TRACE) {
            return Err((StatusCode::METHOD_NOT_ALLOWED, "the method is not served"));
        }
        if !self.origins.has(key.host()) {
            return Err((StatusCode::MISDIRECTED_REQUEST, "no origin for this host"));
        }
        if parts.headers.len() > self.config.limits.fields {
            let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
            return Err((status, "too many fields"));
        }
        let has_length =
            present.has(Present::FRAMING) && parts.headers.contains_key("content-length");
        if has_length && parts.headers.contains_key("transfer-encoding") {
            let text = "Content-Length and Transfer-Encoding: expected one of them";
            return Err((StatusCode::BAD_REQUEST, text));
        }
        if present.has(Present::FRAMING) && !fields::is_coding_known(&parts.headers) {
            let text = "Transfer-Encoding: expected chunked";
            return Err((StatusCode::NOT_IMPLEMENTED, text));
        }
        if !present.has(Present::VIA) {
            return Ok(());
        }
        let mut members = 0;
        for line in parts.headers.get_all("via") {
            for member in line.as_bytes().split(|&byte| byte == b',') {
                members += 1;
                let name = member.trim_ascii().rsplit(|&byte| byte == b' ').next();
                if name == Some(self.config.name.as_bytes()) || members > VIA_MAX {
                    return Err((
                        StatusCode::LOOP_DETECTED,
                        "the request has passed this node",
                    ));
                }
            }
        }
        Ok(())
    }

    /// Looks up a response. All futures except for a hit in memory are boxed, because hyper moves
    /// the future of a request, which has room for all of its parts.
    async fn look_up(
        self: Arc<Self>,
        lookup: Lookup,
        now_ms: u64,
        looked: Option<Option<Arc<Resource>>>,
    ) -> Answer {
        let resource = looked.unwrap_or_else(|| self.store.get(&lookup.key));
        let (found, tier) = match resource {
            Some(resource) => {
                let found = resource.select(&lookup.headers, lookup.wanted.as_ref());
                (self.opened(&lookup, found).await, Tier::Memory)
            }
            None => Box::pin(self.find_on_disk(&lookup)).await,
        };
        let (mut forward, mut stored) = match found {
            None => (Forward::UriMiss, None),
            Some(Found::OtherVariant) => (Forward::VaryMiss, None),
            Some(Found::OtherPart) => (Forward::Partial, None),
            Some(Found::Object(object)) => (Forward::Stale, Some(object)),
        };
        let mut reply = None;
        let is_owner = lookup.is_peer || self.is_owner(&lookup.key);
        if let Some(object) = &stored {
            match usability(object, &lookup.directives, now_ms) {
                Usability::Fresh => reply = Some(Reply::Hit),
                Usability::StaleAccepted if is_owner => reply = Some(Reply::Stale),
                Usability::StaleMeanwhile if is_owner => {
                    self.clone().refresh(&lookup, object);
                    reply = Some(Reply::Stale);
                }
                // The owner may have a newer response.
                _ => {}
            }
        }
        let is_on_disk = stored
            .as_ref()
            .is_some_and(|object| object.extent.is_some());
        if is_on_disk && let Some(answer) = self.refuse_overrun() {
            return answer;
        }
        if let Some((object, reply)) = stored.as_ref().zip(reply) {
            let mut answer = reply::hit(&lookup, object, now_ms, reply);
            if answer.response.body_mut().prepare().await.is_ok() {
                self.count_hit(tier, object.is_copy);
                return answer;
            }
            // The data that was read from disk is damaged.
            (forward, stored) = (Forward::UriMiss, None);
        }
        if !is_owner && let Some(answer) = Box::pin(self.by_owner(&lookup)).await {
            let is_demanded =
                |object: &Object| object.is_copy && object.head.terms.is_fresh(now_ms);
            if stored.as_ref().is_some_and(is_demanded) {
                // The client demanded a newer response, which the owner may have received.
                self.store.remove_copies(&lookup.key);
            }
            return answer;
        }
        if lookup.directives.is_only_if_cached {
            return self.refuse(StatusCode::GATEWAY_TIMEOUT, "not in the cache");
        }
        let is_forced = stored
            .as_ref()
            .is_some_and(|object| object.head.terms.is_fresh(now_ms));
        let forward = if is_forced { Forward::Request } else { forward };
        if lookup.is_head && stored.is_none() && self.passed.contains_key(&lookup.passed_name()) {
            return Box::pin(self.pass_head(lookup, Forward::Bypass)).await;
        }
        Box::pin(self.fetch_or_follow(lookup, stored, forward)).await
    }

    /// Selects a response on disk. Its content is read into memory, unless it is large and the
    /// response can be used without the origin.
    async fn find_on_disk(&self, lookup: &Lookup) -> (Option<Found>, Tier) {
        let select = |resource: &Resource| resource.select(&lookup.headers, lookup.wanted.as_ref());
        let Some(resource) = self.store.get_from_disk(&lookup.key).await else {
            return (None, Tier::Memory);
        };
        let found = select(&resource);
        if !resource
            .variants
            .iter()
            .any(|object| object.extent.is_some())
        {
            return (self.opened(lookup, found).await, Tier::Disk);
        }
        if let Found::Object(object) = &found
            && self.can_be_read_in_pieces(lookup, object)
        {
            return (Some(found), Tier::Disk);
        }
        // Revalidation, other variants and several ranges need everything in memory.
        let loaded = self.store.load(&lookup.key, &resource).await;
        let Some(loaded) = loaded else {
            return (None, Tier::Disk);
        };
        (self.opened(lookup, select(&loaded)).await, Tier::Disk)
    }

    fn can_be_read_in_pieces(&self, lookup: &Lookup, object: &Object) -> bool {
        let usability = usability(object, &lookup.directives, self.now_ms());
        let is_simple = lookup.wanted.as_ref().is_none_or(Requested::is_single);
        is_simple && matches!(usability, Usability::Fresh | Usability::StaleAccepted)
    }

    /// Refuses a request if slow clients have taken all memory, so that not even a chunk of another
    /// reply has room.
    fn refuse_overrun(&self) -> Option<Answer> {
        self.store.budget().is_overrun().then(|| {
            let text = "slow clients have taken all memory";
            let mut answer = self.refuse(StatusCode::SERVICE_UNAVAILABLE, text);
            let headers = answer.response.headers_mut();
            headers.insert("retry-after", HeaderValue::from_static("1"));
            answer
        })
    }

    fn refuse(&self, status: StatusCode, text: &'static str) -> Answer {
        let cache = CacheStatus {
            forward: None,
            detail: Some("refused"),
            ..CacheStatus::default()
        };
        reply::refused(status, text, cache)
    }
}
