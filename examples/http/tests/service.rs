//! The service's caches, with a clock that the tests move.

use axum::body::Body;
use axum::routing::get;
use axum::{Router, response::Response};
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use mayfly::{Clock, ManualClock};
use mayfly_http_example::Service;
use mayfly_http_example::layer::HttpCache;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use tower::ServiceExt;

async fn send(router: &Router, request: Request<Body>) -> (StatusCode, Option<String>, String) {
    let response: Response = router.clone().oneshot(request).await.expect("infallible");
    let status = response.status();
    let age = response
        .headers()
        .get("age")
        .map(|age| age.to_str().expect("text").to_owned());
    let body = response
        .into_body()
        .collect()
        .await
        .expect("a body")
        .to_bytes();
    (status, age, String::from_utf8(body.to_vec()).expect("text"))
}

fn request(method: Method, path: &str, fields: &[(&str, &str)]) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request.body(Body::empty()).expect("a request")
}

async fn body_of(router: &Router, path: &str) -> String {
    send(router, request(Method::GET, path, &[])).await.2
}

#[tokio::test]
async fn a_report_is_computed_once_until_it_expires() {
    let clock = ManualClock::new();
    let service = Service::new(Clock::Manual(clock.clone())).expect("the settings are valid");
    let router = service.clone().router();
    let (first, second) =
        tokio::join!(body_of(&router, "/report/7"), body_of(&router, "/report/7"));
    assert_eq!(first, "the square of 7 is 49\n");
    assert_eq!((first, service.computed.load(SeqCst)), (second, 1));
    clock.advance(Duration::from_secs(61));
    service.expire();
    assert_eq!(service.expired.load(SeqCst), 1, "the listener is called");
    body_of(&router, "/report/7").await;
    assert_eq!(service.computed.load(SeqCst), 2);
    let metrics = body_of(&router, "/metrics").await;
    assert!(
        metrics.contains("cache_expired_total{cache=\"reports\"} 1\n"),
        "{metrics}"
    );
    assert!(
        metrics.contains("cache_loads_total{cache=\"reports\"} 2\n"),
        "{metrics}"
    );
}

#[tokio::test]
async fn a_page_is_cached_while_it_is_fresh() {
    let clock = ManualClock::new();
    let service = Service::new(Clock::Manual(clock.clone())).expect("the settings are valid");
    let router = service.router();
    let first = send(&router, request(Method::GET, "/page", &[])).await;
    assert_eq!(first, (StatusCode::OK, None, "page 0\n".into()));
    clock.advance(Duration::from_secs(10));
    let second = send(&router, request(Method::GET, "/page", &[])).await;
    assert_eq!(
        second,
        (StatusCode::OK, Some("10".into()), "page 0\n".into())
    );
    clock.advance(Duration::from_secs(21));
    assert_eq!(body_of(&router, "/page").await, "page 1\n");
    let fields = [("cache-control", "no-cache")];
    assert_eq!(
        send(&router, request(Method::GET, "/page", &fields))
            .await
            .2,
        "page 2\n"
    );
    assert_eq!(
        body_of(&router, "/page").await,
        "page 2\n",
        "the new response was stored"
    );
    assert!(
        body_of(&router, "/metrics")
            .await
            .contains("cache_hits_total{cache=\"pages\"} 2\n")
    );
}

/// A service that counts calls and answers with a header of the test's choice.
fn counting(field: (&'static str, &'static str)) -> (Router, Arc<AtomicU64>) {
    let calls = Arc::new(AtomicU64::new(0));
    let count = calls.clone();
    let handle = move || {
        count.fetch_add(1, SeqCst);
        async move { ([field], "body") }
    };
    let layer = HttpCache::new(1 << 20, Clock::Manual(ManualClock::new())).expect("valid");
    let router = Router::new()
        .route("/", get(handle.clone()).post(handle))
        .layer(layer);
    (router, calls)
}

#[tokio::test]
async fn only_what_may_be_stored_is_stored() {
    const FRESH: (&str, &str) = ("cache-control", "max-age=60");
    for (field, request_field, method, expected) in [
        (FRESH, ("accept", "*/*"), Method::GET, 1),
        (
            ("cache-control", "no-store"),
            ("accept", "*/*"),
            Method::GET,
            2,
        ),
        (
            ("content-type", "text/plain"),
            ("accept", "*/*"),
            Method::GET,
            2,
        ),
        (FRESH, ("authorization", "Basic YTpi"), Method::GET, 2),
        (FRESH, ("range", "bytes=0-1"), Method::GET, 2),
        (FRESH, ("cache-control", "no-store"), Method::GET, 2),
        (FRESH, ("accept", "*/*"), Method::POST, 2),
    ] {
        let (router, calls) = counting(field);
        for _ in 0..2 {
            let (status, _, body) =
                send(&router, request(method.clone(), "/", &[request_field])).await;
            assert_eq!((status, body.as_str()), (StatusCode::OK, "body"));
        }
        assert_eq!(
            calls.load(SeqCst),
            expected,
            "{field:?} {request_field:?} {method}"
        );
    }
}

#[tokio::test]
async fn a_stored_response_answers_conditions_and_limits_of_age() {
    let (calls, clock) = (Arc::new(AtomicU64::new(0)), ManualClock::new());
    let count = calls.clone();
    let handle = move || {
        count.fetch_add(1, SeqCst);
        let fields = [
            ("cache-control", "max-age=60"),
            ("age", "5"),
            ("etag", "\"one\""),
            ("content-type", "text/plain"),
        ];
        async move { (fields, "body") }
    };
    let layer = HttpCache::new(1 << 20, Clock::Manual(clock.clone())).expect("valid");
    let router = Router::new().route("/", get(handle)).layer(layer);
    body_of(&router, "/").await;
    clock.advance(Duration::from_secs(10));
    for (field, status, expected) in [
        (("if-none-match", "\"one\""), StatusCode::NOT_MODIFIED, 1),
        (("if-none-match", "\"two\""), StatusCode::OK, 1),
        (("cache-control", "max-age=15"), StatusCode::OK, 1),
        (("cache-control", "min-fresh=45"), StatusCode::OK, 1),
        // Each of these stores another response.
        (("cache-control", "max-age=14"), StatusCode::OK, 2),
        (("cache-control", "min-fresh=56"), StatusCode::OK, 3),
        (("if-match", "\"one\""), StatusCode::OK, 4),
    ] {
        let answer = send(&router, request(Method::GET, "/", &[field])).await;
        let body = if status == StatusCode::OK { "body" } else { "" };
        assert_eq!((answer.0, answer.2.as_str()), (status, body), "{field:?}");
        assert_eq!(calls.load(SeqCst), expected, "{field:?}");
    }
}

#[tokio::test]
async fn a_change_removes_the_stored_response() {
    let (router, calls) = counting(("cache-control", "max-age=60"));
    body_of(&router, "/").await;
    send(&router, request(Method::POST, "/", &[])).await;
    body_of(&router, "/").await;
    assert_eq!(calls.load(SeqCst), 3);
    let fields = [("cache-control", "only-if-cached")];
    assert_eq!(
        send(&router, request(Method::GET, "/", &fields)).await.0,
        StatusCode::OK
    );
    let absent = send(&router, request(Method::GET, "/?other", &fields))
        .await
        .0;
    assert_eq!(absent, StatusCode::GATEWAY_TIMEOUT);
}
