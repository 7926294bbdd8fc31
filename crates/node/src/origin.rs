//! Requests to origins.

mod circuit;

use crate::body::Content;
use crate::clock::Clock;
use crate::config::{Config, Invalid, Origin};
use crate::metrics::{Failure, Metrics, OriginFacts};
use crate::rules::fields::is_compressed;
use crate::rules::freshness::is_failure;
use crate::rules::key::Key;
use circuit::Circuit;
pub use circuit::RETRY_MS;
use hyper::body::{Body, Incoming};
use hyper::header::{HOST, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, Uri, Version};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::time::timeout;

/// Maximum number of idle connections per origin.
const IDLE_MAX: usize = 64;
/// Time for which an idle connection is kept.
const IDLE_TIME: Duration = Duration::from_secs(15);
/// Size of a connection's read buffer, and maximum of a response's head, in bytes.
const READ_BYTES: usize = 64 << 10;

/// Clients of all origins.
pub struct Origins {
    client: Client<HttpsConnector<HttpConnector>, Content>,
    rules: Vec<(Origin, Arc<Circuit>)>,
    via: HeaderValue,
    head_time: Duration,
    idle: Duration,
    clock: Clock,
    metrics: Arc<Metrics>,
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
    /// Prepares the clients. No connection is made.
    ///
    /// # Errors
    /// Returns an error if an origin needs TLS and the system's certificates cannot be read.
    pub fn new(config: &Config, metrics: Arc<Metrics>) -> Result<Self, Invalid> {
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_connect_timeout(Some(config.limits.connect_time));
        let needs_tls = config
            .origins
            .iter()
            .any(|origin| origin.url.scheme_str() == Some("https"));
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
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIME)
            .pool_max_idle_per_host(IDLE_MAX)
            .http1_read_buf_exact_size(READ_BYTES)
            .http1_max_headers(config.limits.fields * 2)
            .build(connector);
        let via = HeaderValue::from_str(&format!("1.1 {}", config.name))
            .map_err(|_| Invalid(format!("name '{}': expected a token", config.name)))?;
        Ok(Origins {
            client,
            rules: with_circuits(&config.origins),
            via,
            head_time: config.limits.origin_head_time,
            idle: config.limits.origin_idle,
            clock: config.clock.clone(),
            metrics,
        })
    }

    /// Returns the time limit for the head of a response.
    pub fn head_time(&self) -> Duration {
        self.head_time
    }

    /// Returns the maximum time between two parts of a response.
    pub fn idle(&self) -> Duration {
        self.idle
    }

    /// Returns the origin of a host.
    pub fn of(&self, host: &str) -> Option<&Uri> {
        self.rule(host).map(|(rule, _)| &rule.url)
    }

    fn rule(&self, host: &str) -> Option<&(Origin, Arc<Circuit>)> {
        let exact = |(rule, _): &&(Origin, _)| rule.host.as_deref() == Some(host);
        let other = |(rule, _): &&(Origin, _)| rule.host.is_none();
        let found = self.rules.iter().find(exact);
        found.or_else(|| self.rules.iter().find(other))
    }

    /// Returns true if the last request to the origin of a host failed or took too long.
    pub fn is_doubtful(&self, host: &str) -> bool {
        let rule = self.rule(host);
        rule.is_some_and(|(_, circuit)| circuit.is_doubtful())
    }

    /// Notes that a request to the origin of a host takes too long.
    pub fn doubt(&self, host: &str) {
        if let Some((_, circuit)) = self.rule(host) {
            circuit.doubt();
        }
    }

    /// Returns the states of all origins.
    pub fn facts(&self) -> Vec<OriginFacts> {
        let now_ms = self.clock.now_ms();
        let facts = self.rules.iter().map(|(rule, circuit)| OriginFacts {
            rule: rule.clone(),
            down: circuit
                .down_since_ms()
                .map(|since_ms| Duration::from_millis(now_ms.saturating_sub(since_ms))),
        });
        facts.collect()
    }

    /// Sends a request and returns the head of the response.
    ///
    /// # Errors
    /// Returns the kind of failure if there is no response. The failure has already been counted.
    pub async fn send(&self, outgoing: Outgoing<'_>) -> Result<Response<Incoming>, Failure> {
        let key = outgoing.key;
        let (origin, circuit) = self.rule(key.host()).ok_or(Failure::Connection)?;
        let has_content = !outgoing.body.is_end_stream();
        let request = self.request(outgoing, &origin.url);
        let request = request.ok_or(Failure::Connection)?;
        let sent_ms = self.clock.now_ms();
        if !circuit.admit(sent_ms) {
            self.metrics.failure(Failure::Down);
            return Err(Failure::Down);
        }
        self.metrics.origin_requests.fetch_add(1, Relaxed);
        let result = timeout(self.head_time, self.client.request(request)).await;
        let now_ms = self.clock.now_ms();
        let (failure, reason, is_of_origin) = match result {
            Ok(Ok(response)) if is_compressed(response.headers()) => {
                let reason = "content that is compressed by a transfer coding".to_owned();
                (Failure::Connection, reason, false)
            }
            Ok(Ok(response)) => {
                if let Some(down_ms) = circuit.answered(now_ms) {
                    let seconds = Duration::from_millis(down_ms).as_secs_f32();
                    log::info!(
                        "origin {}: it answers again after {seconds:.1} s",
                        origin.url
                    );
                }
                let status = response.status();
                if is_failure(status) {
                    self.metrics.failure(Failure::Status);
                    log_failure(
                        &origin.url,
                        circuit,
                        now_ms,
                        key,
                        &format!("status {status}"),
                    );
                }
                return Ok(response);
            }
            Ok(Err(error)) => (Failure::Connection, cause(&error), error.is_connect()),
            Err(_) => {
                let reason = format!("no response within {} s", self.head_time.as_secs_f32());
                // A client that does not send its content may be the reason.
                (Failure::Timeout, reason, !has_content)
            }
        };
        self.metrics.failure(failure);
        let is_down = is_of_origin && circuit.failed(sent_ms, now_ms);
        log_failure(&origin.url, circuit, now_ms, key, &reason);
        if is_down {
            log::warn!("origin {}: it counts as down until it answers", origin.url);
        }
        Err(failure)
    }

    fn request(&self, outgoing: Outgoing<'_>, origin: &Uri) -> Option<Request<Content>> {
        let uri = Uri::builder()
            .scheme(origin.scheme()?.clone())
            .authority(origin.authority()?.clone())
            .path_and_query(outgoing.key.target())
            .build()
            .ok()?;
        let mut request = Request::new(outgoing.body);
        *request.method_mut() = outgoing.method;
        *request.version_mut() = Version::HTTP_11;
        *request.uri_mut() = uri;
        let mut headers = outgoing.headers;
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
        *request.headers_mut() = headers;
        Some(request)
    }
}

/// Returns the rules with a state for each origin. Rules with the same origin share its state.
fn with_circuits(rules: &[Origin]) -> Vec<(Origin, Arc<Circuit>)> {
    let mut all: Vec<(Origin, Arc<Circuit>)> = vec![];
    for rule in rules {
        let same = all.iter().find(|(other, _)| other.url == rule.url);
        let circuit = same.map(|(_, circuit)| circuit.clone());
        all.push((rule.clone(), circuit.unwrap_or_default()));
    }
    all
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
