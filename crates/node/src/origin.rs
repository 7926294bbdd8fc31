//! Requests to origins.

mod circuit;
mod servers;

use crate::body::Content;
use crate::clock::Clock;
use crate::config::{Config, Invalid, Limits, Origin};
use crate::metrics::{Failure, Metrics, OriginFacts};
use crate::rules::fields::is_compressed;
use crate::rules::freshness::is_failure;
use crate::rules::key::Key;
use circuit::Circuit;
pub use circuit::RETRY_MS;
use hyper::body::{Body, Incoming};
use hyper::header::{HOST, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, Uri};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use servers::{OriginClient, Route, Server};
use std::net::IpAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Maximum number of idle connections per origin.
const IDLE_MAX: usize = 64;
/// Time for which an idle connection is kept.
const IDLE_TIME: Duration = Duration::from_secs(15);
/// Size of a connection's read buffer, and maximum of a response's head, in bytes.
const READ_BYTES: usize = 64 << 10;

/// Clients of all origins.
pub struct Origins {
    /// Servers by host. A reload replaces them.
    routes: RwLock<Arc<Routes>>,
    via: HeaderValue,
    limits: Limits,
    clock: Clock,
    metrics: Arc<Metrics>,
}

struct Routes {
    client: OriginClient,
    all: Vec<Arc<Route>>,
    /// Health checks, which end with the routes.
    _checks: JoinSet<()>,
}

/// Request to an origin.
pub struct Outgoing<'a> {
    /// Method.
    pub method: Method,
    /// URL of the client's request.
    pub key: &'a Key,
    /// Fields.
    pub headers: HeaderMap,
    /// Body.
    pub body: Content,
    /// Address of the client.
    pub client: IpAddr,
}

impl Origins {
    /// Prepares the clients, and starts health checks on the current runtime if there are any.
    ///
    /// # Errors
    /// Returns an error if an origin needs TLS and the system's certificates cannot be read.
    pub fn new(config: &Config, metrics: Arc<Metrics>) -> Result<Self, Invalid> {
        let via = HeaderValue::from_str(&format!("1.1 {}", config.name))
            .map_err(|_| Invalid(format!("name '{}': expected a token", config.name)))?;
        let routes = Routes::new(&config.origins, &[], &config.limits, &config.clock)?;
        Ok(Origins {
            routes: RwLock::new(Arc::new(routes)),
            via,
            limits: config.limits.clone(),
            clock: config.clock.clone(),
            metrics,
        })
    }

    /// Replaces all origins. Servers that remain keep their state.
    ///
    /// # Errors
    /// Returns an error if the origins cannot be used. The previous ones stay in use.
    pub fn replace(&self, origins: &[Origin]) -> Result<(), Invalid> {
        let previous = self.routes();
        let routes = Routes::new(origins, &previous.all, &self.limits, &self.clock)?;
        *self.routes.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(routes);
        Ok(())
    }

    fn routes(&self) -> Arc<Routes> {
        self.routes
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Returns the time limit for the head of a response.
    pub fn origin_head_time(&self) -> Duration {
        self.limits.origin_head_time
    }

    /// Returns the maximum time between two parts of a response.
    pub fn idle(&self) -> Duration {
        self.limits.origin_idle
    }

    /// Returns true if a host has an origin.
    pub fn has(&self, host: &str) -> bool {
        let routes = self.routes.read().unwrap_or_else(PoisonError::into_inner);
        routes.of(host).is_some()
    }

    /// Returns true if the last requests to all servers of a host failed or took too long.
    pub fn is_doubtful(&self, host: &str) -> bool {
        let routes = self.routes();
        let is_doubtful = |server: &Arc<Server>| server.circuit.is_doubtful();
        let route = routes.of(host);
        route.is_some_and(|route| route.servers.iter().all(is_doubtful))
    }

    /// Notes that a request to the origin of a host takes too long.
    pub fn doubt(&self, host: &str) {
        if let Some(route) = self.routes().of(host) {
            route
                .servers
                .iter()
                .for_each(|server| server.circuit.doubt());
        }
    }

    /// Returns the states of all servers.
    pub fn facts(&self) -> Vec<OriginFacts> {
        let now_ms = self.clock.now_ms();
        let mut facts = vec![];
        for route in &self.routes().all {
            let hosts = match route.hosts.is_empty() {
                true => "all other hosts".to_owned(),
                false => route.hosts.join(", "),
            };
            for server in &route.servers {
                let since_ms = server.circuit.down_since_ms();
                facts.push(OriginFacts {
                    hosts: hosts.clone(),
                    url: server.url.clone(),
                    load: server.load(),
                    is_unhealthy: route.is_out(server),
                    down: since_ms
                        .map(|since_ms| Duration::from_millis(now_ms.saturating_sub(since_ms))),
                });
            }
        }
        facts
    }

    /// Sends a request and returns the head of the response. If a server cannot be reached, or if
    /// one that was down does not answer a GET or HEAD, another one receives the request, provided
    /// that it has no content.
    ///
    /// # Errors
    /// Returns the kind of failure if there is no response. The failure has already been counted.
    pub async fn send(&self, outgoing: Outgoing<'_>) -> Result<Response<Incoming>, Failure> {
        let routes = self.routes();
        let key = outgoing.key;
        let route = routes.of(key.host()).ok_or(Failure::Connection)?;
        let has_content = !outgoing.body.is_end_stream();
        let method = outgoing.method.clone();
        let is_safe = matches!(method, Method::GET | Method::HEAD);
        let headers = self.headers(&outgoing).ok_or(Failure::Connection)?;
        let mut body = outgoing.body;
        let may_probe = is_safe && !has_content && route.servers.len() > 1;
        let (mut tried, mut failure) = (vec![], None);
        loop {
            let now_ms = self.clock.now_ms();
            let Some(server) = route.choose(now_ms, &tried, may_probe) else {
                return Err(failure.unwrap_or_else(|| {
                    self.metrics.failure(Failure::Down);
                    Failure::Down
                }));
            };
            let is_probe = may_probe && server.is_down();
            let mut request = Request::new(std::mem::replace(&mut body, Content::empty()));
            *request.method_mut() = method.clone();
            *request.uri_mut() = address(&server.url, key).ok_or(Failure::Connection)?;
            *request.headers_mut() = headers.clone();
            match self.send_to(server, &routes.client, request, key).await {
                Ok(response) => return Ok(response),
                // A server that was down and accepts connections may still not answer.
                Err((reason, is_unreached)) if !has_content && (is_unreached || is_probe) => {
                    failure = Some(reason);
                }
                Err((reason, _)) => return Err(reason),
            }
            tried.push(server.clone());
        }
    }

    /// Sends a request to a server. The error says whether no connection was made.
    async fn send_to(
        &self,
        server: &Arc<Server>,
        client: &OriginClient,
        request: Request<Content>,
        key: &Key,
    ) -> Result<Response<Incoming>, (Failure, bool)> {
        let Server { url, circuit, .. } = &**server;
        let has_content = !request.body().is_end_stream();
        let sent_ms = self.clock.now_ms();
        self.metrics.origin_requests.fetch_add(1, Relaxed);
        let open = server.begin();
        let head_time = self.limits.origin_head_time;
        let began = Instant::now();
        let result = timeout(head_time, client.request(request)).await;
        self.metrics.origin_times.observe(began.elapsed());
        drop(open);
        let now_ms = self.clock.now_ms();
        let mut is_unreached = false;
        let (failure, reason, is_of_origin) = match result {
            Ok(Ok(response)) if is_compressed(response.headers()) => {
                let reason = "content that is compressed by a transfer coding".to_owned();
                (Failure::Connection, reason, false)
            }
            Ok(Ok(response)) => {
                if let Some(down_ms) = circuit.answered(now_ms) {
                    let seconds = Duration::from_millis(down_ms).as_secs_f32();
                    log::info!("origin {url}: it answers again after {seconds:.1} s");
                }
                let status = response.status();
                if is_failure(status) {
                    self.metrics.failure(Failure::Status);
                    log_failure(url, circuit, now_ms, key, &format!("status {status}"));
                }
                return Ok(response);
            }
            Ok(Err(error)) => {
                is_unreached = error.is_connect();
                (Failure::Connection, cause(&error), is_unreached)
            }
            Err(_) => {
                let reason = format!("no response within {} s", head_time.as_secs_f32());
                // A client that does not send its content may be the reason.
                (Failure::Timeout, reason, !has_content)
            }
        };
        self.metrics.failure(failure);
        let is_down = is_of_origin && circuit.failed(sent_ms, now_ms);
        log_failure(url, circuit, now_ms, key, &reason);
        if is_down {
            log::warn!("origin {url}: it counts as down until it answers");
        }
        Err((failure, is_unreached))
    }

    /// Returns the fields of a request to an origin.
    fn headers(&self, outgoing: &Outgoing<'_>) -> Option<HeaderMap> {
        let mut headers = outgoing.headers.clone();
        headers.insert(HOST, HeaderValue::from_str(outgoing.key.host()).ok()?);
        headers.append("via", self.via.clone());
        let client = HeaderValue::from_str(&outgoing.client.to_string()).ok()?;
        headers.insert("x-forwarded-for", client);
        let scheme = if outgoing.key.is_tls() {
            "https"
        } else {
            "http"
        };
        headers.insert("x-forwarded-proto", HeaderValue::from_static(scheme));
        Some(headers)
    }
}

impl Routes {
    /// Prepares the routes of these origins. Servers that `previous` has are taken from there.
    fn new(
        origins: &[Origin],
        previous: &[Arc<Route>],
        limits: &Limits,
        clock: &Clock,
    ) -> Result<Self, Invalid> {
        let client = client(origins, limits)?;
        let known = previous.iter().flat_map(|route| &route.servers);
        let mut servers: Vec<Arc<Server>> = known.cloned().collect();
        let mut all = vec![];
        let mut checks = JoinSet::new();
        for origin in origins {
            let mut own = vec![];
            for url in &origin.servers {
                let same = servers.iter().find(|server| server.url == *url).cloned();
                let server = same.unwrap_or_else(|| Arc::new(Server::new(url.clone())));
                servers.push(server.clone());
                own.push(server);
            }
            let route = Arc::new(Route::new(origin, own));
            servers::check(&route, &client, clock, &mut checks);
            all.push(route);
        }
        Ok(Routes {
            client,
            all,
            _checks: checks,
        })
    }

    fn of(&self, host: &str) -> Option<&Arc<Route>> {
        let is_named = |route: &&Arc<Route>| route.hosts.iter().any(|name| name == host);
        let is_other = |route: &&Arc<Route>| route.hosts.is_empty();
        let named = self.all.iter().find(is_named);
        named.or_else(|| self.all.iter().find(is_other))
    }
}

/// Creates a client for all origins. No connection is made.
fn client(origins: &[Origin], limits: &Limits) -> Result<OriginClient, Invalid> {
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_connect_timeout(Some(limits.connect_time));
    let mut servers = origins.iter().flat_map(|origin| &origin.servers);
    let needs_tls = servers.any(|url| url.scheme_str() == Some("https"));
    let connector = HttpsConnectorBuilder::new();
    let connector = if needs_tls {
        let roots = connector.with_native_roots();
        roots.map_err(|error| Invalid(format!("the system's certificates: {error}")))?
    } else {
        let provider = Arc::new(tokio_rustls::rustls::crypto::aws_lc_rs::default_provider());
        let tls = tokio_rustls::rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Invalid(error.to_string()))?
            .with_root_certificates(tokio_rustls::rustls::RootCertStore::empty())
            .with_no_client_auth();
        connector.with_tls_config(tls)
    };
    let connector = connector
        .https_or_http()
        .enable_http1()
        .wrap_connector(http);
    Ok(Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIME)
        .pool_max_idle_per_host(IDLE_MAX)
        .http1_read_buf_exact_size(READ_BYTES)
        .http1_max_headers(limits.fields * 2)
        .build(connector))
}

/// Returns the address of a URL on a server.
fn address(server: &Uri, key: &Key) -> Option<Uri> {
    let uri = Uri::builder()
        .scheme(server.scheme()?.clone())
        .authority(server.authority()?.clone())
        .path_and_query(key.target());
    uri.build().ok()
}

/// Writes a line about a failure to the log, unless there was one a short time ago.
fn log_failure(origin: &Uri, circuit: &Circuit, now_ms: u64, key: &Key, reason: &str) {
    match circuit.log(now_ms) {
        None => {}
        Some(0) => log::warn!("origin {origin}: {reason}, for {key}"),
        Some(left_out) => {
            log::warn!("origin {origin}: {reason}, for {key}; {left_out} other failures before");
        }
    }
}

/// Returns the innermost cause of an error, which names what failed.
fn cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
