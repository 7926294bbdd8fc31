//! A `tower` layer that caches responses for as long as their headers say that they are fresh.
//!
//! Responses to GET are stored under their URI; HEAD is not answered from them. A request that
//! changes its resource removes the stored response (RFC 9111, 4.4). Conditions on tags and dates
//! are answered from the store ([`conditions`](crate::conditions)), and the request's limits of age
//! are kept. A response of unknown or large size passes through as it is.

use crate::conditions::{fields_of_304, is_not_modified, needs_origin};
use crate::freshness::{Directives, age, lifetime};
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::header::{AGE, AUTHORIZATION, HOST};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use http_body::Body as _;
use http_body_util::BodyExt;
use mayfly::{BuildError, Cache, Clock, Stats};
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};
use tower_layer::Layer;
use tower_service::Service;

/// Largest body that is stored, as a share of the capacity.
const SHARE: u64 = 64;

/// A response as it is stored.
struct Stored {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
    /// Lifetime when it was stored.
    lifetime: Duration,
    /// Age when it was stored.
    age: Duration,
}

/// The cache, shared by all services that the layer makes.
#[derive(Clone)]
pub struct HttpCache {
    stored: Cache<String, Arc<Stored>>,
    largest: u64,
}

impl HttpCache {
    /// Creates a cache of this many bytes.
    pub fn new(capacity_bytes: u64, clock: Clock) -> Result<Self, BuildError> {
        let weigh = |key: &String, stored: &Arc<Stored>| {
            let headers = stored.headers.iter();
            let headers: usize = headers
                .map(|(name, value)| name.as_str().len() + value.len())
                .sum();
            u32::try_from(key.len() + stored.body.len() + headers).unwrap_or(u32::MAX)
        };
        Ok(HttpCache {
            stored: Cache::builder(capacity_bytes)
                .weigher(weigh)
                .clock(clock)
                .build()?,
            largest: capacity_bytes / SHARE,
        })
    }

    /// Returns counts.
    pub fn stats(&self) -> Stats {
        self.stored.stats()
    }

    /// Returns a stored response that is fresh, and as young as is wanted.
    fn find(&self, key: &str, wanted: Directives, request: &HeaderMap) -> Option<Response> {
        let stored = self.stored.get(key)?;
        let rest = self.stored.time_to_live(key).unwrap_or_default();
        let age = stored.age + stored.lifetime.saturating_sub(rest);
        let is_too_old = wanted.max_age.is_some_and(|most| age.as_secs() > most);
        let is_ending = wanted.min_fresh.is_some_and(|least| rest.as_secs() < least);
        if is_too_old || is_ending {
            return None;
        }
        let mut response = Response::new(Body::empty());
        if is_not_modified(request, stored.status, &stored.headers) {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            *response.headers_mut() = fields_of_304(&stored.headers);
        } else {
            *response.body_mut() = Body::from(stored.body.clone());
            *response.status_mut() = stored.status;
            *response.headers_mut() = stored.headers.clone();
        }
        response
            .headers_mut()
            .insert(AGE, HeaderValue::from(age.as_secs()));
        Some(response)
    }

    /// Stores a response if it may be stored, and returns it.
    async fn keep(&self, key: String, response: Response) -> Response {
        let size = response.body().size_hint().exact();
        let now = SystemTime::now();
        let lifetime = lifetime(response.status(), response.headers(), now);
        let (Some(lifetime), Some(size)) = (lifetime, size) else {
            return response;
        };
        if size > self.largest {
            return response;
        }
        let (parts, body) = response.into_parts();
        let Ok(body) = body.collect().await else {
            let mut failed = Response::new(Body::empty());
            *failed.status_mut() = StatusCode::BAD_GATEWAY;
            return failed;
        };
        let body = body.to_bytes();
        let stored = Stored {
            status: parts.status,
            headers: parts.headers.clone(),
            body: body.clone(),
            lifetime,
            age: age(&parts.headers, now),
        };
        self.stored.insert_with_ttl(key, Arc::new(stored), lifetime);
        Response::from_parts(parts, Body::from(body))
    }
}

impl<S> Layer<S> for HttpCache {
    type Service = Cached<S>;

    fn layer(&self, inner: S) -> Cached<S> {
        Cached {
            cache: self.clone(),
            inner,
        }
    }
}

/// A service behind the cache.
#[derive(Clone)]
pub struct Cached<S> {
    cache: HttpCache,
    inner: S,
}

/// Returns the name under which responses to a request are stored: host, path and query.
fn key_of<B>(request: &Request<B>) -> String {
    let host = request
        .headers()
        .get(HOST)
        .and_then(|host| host.to_str().ok());
    let host = request
        .uri()
        .authority()
        .map_or(host.unwrap_or(""), |authority| authority.as_str());
    let path = request
        .uri()
        .path_and_query()
        .map_or("/", |path| path.as_str());
    format!("{}{path}", host.to_ascii_lowercase())
}

impl<S> Service<Request<Body>> for Cached<S>
where
    S: Service<Request<Body>, Response = Response, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        // The service that was polled ready is the one that is called.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let cache = self.cache.clone();
        let key = key_of(&request);
        let fields = request.headers().clone();
        let wanted = Directives::read(&fields);
        let is_plain = request.method() == Method::GET
            && !request.headers().contains_key(AUTHORIZATION)
            && !needs_origin(request.headers());
        let is_safe = request.method().is_safe();
        Box::pin(async move {
            if is_plain
                && !wanted.no_cache
                && !wanted.no_store
                && let Some(found) = cache.find(&key, wanted, &fields)
            {
                return Ok(found);
            }
            if is_plain && wanted.only_if_cached {
                let mut absent = Response::new(Body::empty());
                *absent.status_mut() = StatusCode::GATEWAY_TIMEOUT;
                return Ok(absent);
            }
            let response = inner.call(request).await?;
            let has_failed =
                response.status().is_client_error() || response.status().is_server_error();
            if !is_safe && !has_failed {
                cache.stored.remove(&key);
            }
            if is_plain && !wanted.no_store {
                return Ok(cache.keep(key, response).await);
            }
            Ok(response)
        })
    }
}
