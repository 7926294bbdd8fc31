//! Requests to origins.

use crate::body::Content;
use crate::config::{Config, Invalid, Origin};
use crate::metrics::{Failure, Metrics};
use crate::rules::key::Key;
use hyper::body::Incoming;
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
/// Maximum bytes of a response's head.
const HEAD_BYTES_MAX: usize = 128 << 10;

/// Clients of all origins.
pub struct Origins {
    client: Client<HttpsConnector<HttpConnector>, Content>,
    rules: Vec<Origin>,
    via: HeaderValue,
    head_time: Duration,
    idle: Duration,
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
            .http1_max_buf_size(HEAD_BYTES_MAX)
            .http1_max_headers(config.limits.fields * 2)
            .build(connector);
        let via = HeaderValue::from_str(&format!("1.1 {}", config.name))
            .map_err(|_| Invalid(format!("name '{}': expected a token", config.name)))?;
        Ok(Origins {
            client,
            rules: config.origins.clone(),
            via,
            head_time: config.limits.origin_head_time,
            idle: config.limits.origin_idle,
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
        let exact = self
            .rules
            .iter()
            .find(|rule| rule.host.as_deref() == Some(host));
        let rule = exact.or_else(|| self.rules.iter().find(|rule| rule.host.is_none()));
        rule.map(|rule| &rule.url)
    }

    /// Sends a request and returns the head of the response.
    ///
    /// # Errors
    /// Returns the kind of failure if there is no response. The failure has already been counted.
    pub async fn send(&self, outgoing: Outgoing<'_>) -> Result<Response<Incoming>, Failure> {
        let request = self.request(outgoing).ok_or(Failure::Connection)?;
        self.metrics.origin_requests.fetch_add(1, Relaxed);
        let failure = match timeout(self.head_time, self.client.request(request)).await {
            Ok(Ok(response)) => return Ok(response),
            Ok(Err(error)) => {
                log::debug!("the origin failed: {error:?}");
                Failure::Connection
            }
            Err(_) => Failure::Timeout,
        };
        self.metrics.failure(failure);
        Err(failure)
    }

    fn request(&self, outgoing: Outgoing<'_>) -> Option<Request<Content>> {
        let origin = self.of(outgoing.key.host())?;
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
