//! Port for operators: status, metrics, health checks and purges.
//!
//! | request | reply |
//! |---|---|
//! | `GET /` | page with the status of the node |
//! | `GET /status` | the same as text |
//! | `GET /metrics` | counters for Prometheus |
//! | `GET /health` | 200 while the node serves |
//! | `POST /purge?url=…`, `?prefix=…`, `?tag=…`, with `&soft=1` | number of purged URLs |
//!
//! A purge needs `Authorization: Bearer TOKEN` with the token of purges. If a token for operators
//! is configured, all others but `/health` need it, as a bearer token or as a password.

pub mod client;

use crate::body::Content;
use crate::listen::{Tls, accept, exchange};
use crate::metrics::{Facts, table};
use crate::proxy::Node;
use crate::purge::{Target, is_equal, is_permitted};
use crate::rules::key::Key;
use crate::socket::Socket;
use crate::status;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use std::convert::Infallible;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

/// Maximum number of connections.
const CONNECTIONS_MAX: usize = 32;
const TEXT: &str = "text/plain; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
/// Content-Security-Policy of the status page, which loads and runs nothing.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'";
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Serves operators until `stop` changes.
pub async fn serve(
    node: Arc<Node>,
    listener: TcpListener,
    tls: Option<Tls>,
    stop: watch::Receiver<bool>,
) {
    let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    accept(&listener, connections, stop.clone(), |stream, _| {
        let (node, stop) = (node.clone(), stop.clone());
        let tls = tls.as_ref().map(|tls| tls.borrow().clone());
        async move {
            let limits = node.config.limits.clone();
            let stream = match tls {
                None => Socket::Plain(stream),
                Some(tls) => match timeout(limits.handshake_time, tls.accept(stream)).await {
                    Ok(Ok(stream)) => Socket::tls(stream),
                    _ => return,
                },
            };
            let answer = move |request: Request<Incoming>| {
                let node = node.clone();
                async move { Ok::<_, Infallible>(answer(&node, &request).await) }
            };
            let _ = exchange(stream, &limits, answer, stop).await;
        }
    })
    .await;
}

async fn answer(node: &Arc<Node>, request: &Request<Incoming>) -> Response<Content> {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let path = request.uri().path();
    if let Some(token) = &node.config.admin_token
        && !matches!(path, "/health" | "/purge")
        && !has_token(token, request.headers())
    {
        let text = "expected the token as Authorization: Bearer, or as a password\n";
        let mut refusal = reply(StatusCode::UNAUTHORIZED, TEXT, text.into());
        let basic = HeaderValue::from_static("Basic realm=\"mayfly\"");
        refusal.headers_mut().insert("www-authenticate", basic);
        return refusal;
    }
    match path {
        "/metrics" if is_read => reply(StatusCode::OK, METRICS, table::page(&facts(node))),
        "/" if is_read => {
            let mut page = reply(StatusCode::OK, HTML, status::html(&facts(node)));
            let policy = HeaderValue::from_static(POLICY);
            page.headers_mut().insert("content-security-policy", policy);
            page
        }
        "/status" if is_read => reply(StatusCode::OK, TEXT, status::text(&facts(node))),
        "/health" if is_read => reply(StatusCode::OK, TEXT, "the node serves\n".into()),
        "/purge" if request.method() == Method::POST => purge(node, request).await,
        "/" | "/status" | "/metrics" | "/health" | "/purge" => {
            let text = "the method is not served here\n";
            reply(StatusCode::METHOD_NOT_ALLOWED, TEXT, text.into())
        }
        _ => reply(
            StatusCode::NOT_FOUND,
            TEXT,
            "expected /, /status, /metrics, /health or /purge\n".into(),
        ),
    }
}

/// Returns true if a request has the token: as a bearer token, or as the password of any user,
/// because browsers have a dialogue for passwords only.
fn has_token(token: &str, headers: &HeaderMap) -> bool {
    if is_permitted(Some(token), headers) {
        return true;
    }
    let given = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
    let given = given.and_then(|given| given.strip_prefix(b"Basic "));
    let pair = given.and_then(|given| BASE64.decode(given).ok());
    let pair = pair.unwrap_or_default();
    let mut parts = pair.splitn(2, |byte| *byte == b':');
    parts.nth(1).is_some_and(|given| is_equal(token, given))
}

fn facts(node: &Node) -> Facts<'_> {
    Facts {
        config: &node.config,
        metrics: &node.metrics,
        memory: node.store.stats(),
        tagged: node.store.tagged(),
        outside_bytes: node.store.budget().bytes(),
        disk: node.store.disk_stats(),
        cluster: node.cluster().map(|cluster| cluster.facts()),
        origins: node.origins.facts(),
    }
}

async fn purge(node: &Arc<Node>, request: &Request<Incoming>) -> Response<Content> {
    if !is_permitted(node.config.purge_token.as_deref(), request.headers()) {
        let text = "a purge needs Authorization: Bearer with the purge token\n";
        return reply(StatusCode::FORBIDDEN, TEXT, text.into());
    }
    match parse_purge(request.uri().query().unwrap_or_default()) {
        Ok((target, is_soft)) => {
            let Some(count) = node.purge(target, is_soft).await else {
                let text = "the purge has failed\n";
                return reply(StatusCode::INTERNAL_SERVER_ERROR, TEXT, text.into());
            };
            reply(StatusCode::OK, TEXT, format!("{count}\n"))
        }
        Err(text) => reply(StatusCode::BAD_REQUEST, TEXT, format!("{text}\n")),
    }
}

/// Parses the arguments of a purge: its target, and whether it is soft.
fn parse_purge(query: &str) -> Result<(Target, bool), &'static str> {
    let expected = "expected exactly one of url=, prefix= and tag=, and optionally soft=1";
    let mut target = None;
    let mut is_soft = false;
    for pair in query.split('&') {
        let (name, value) = pair.split_once('=').ok_or(expected)?;
        let value = decoded(value).ok_or("expected percent-encoded UTF-8")?;
        let new = match name {
            "soft" if matches!(&*value, "0" | "1") => {
                is_soft = value == "1";
                continue;
            }
            "url" => Target::Url(url(&value).ok_or("url: expected http://HOST/PATH")?),
            "prefix" => {
                let prefix = Key::prefix(&value).ok_or("prefix: expected http://HOST/PATH")?;
                Target::Prefix(prefix)
            }
            "tag" if !value.is_empty() => Target::tag(&value),
            _ => return Err(expected),
        };
        if target.replace(new).is_some() {
            return Err(expected);
        }
    }
    target.map(|target| (target, is_soft)).ok_or(expected)
}

/// Parses a URL in any spelling, without its fragment, because requests have none.
fn url(text: &str) -> Option<Key> {
    let text = Key::prefix(text.split('#').next()?)?;
    Key::parse(&text)
}

/// Decodes percent-encoding.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = vec![];
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = rest.get(..2)?;
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        let digits = std::str::from_utf8(digits).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).ok()
}

fn reply(status: StatusCode, kind: &'static str, text: String) -> Response<Content> {
    let mut response = Response::new(Content::text(text));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert("content-type", kind);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_a_bearer_token_or_a_password() {
        let mut headers = HeaderMap::new();
        assert!(!has_token("secret", &headers));
        // The user is `any`, and the password `secret`, `secre`, `secret:` or absent.
        for (given, expected) in [
            ("Bearer secret", true),
            ("Basic YW55OnNlY3JldA==", true),
            ("Basic YW55OnNlY3Jl", false),
            ("Basic YW55OnNlY3JldDo=", false),
            ("Basic YW55", false),
            ("Basic !", false),
            ("secret", false),
        ] {
            headers.insert(AUTHORIZATION, HeaderValue::from_static(given));
            assert_eq!(has_token("secret", &headers), expected, "{given}");
        }
    }

    #[test]
    fn the_arguments_of_a_purge_are_read() {
        let url =
            parse_purge("url=http%3A%2F%2FA%3A80%2Fx%3Fy&soft=1").expect("the input is valid");
        assert_eq!(
            url,
            (
                Target::Url(Key::new(false, "a", "/x?y").expect("the input is valid")),
                true
            )
        );
        assert_eq!(
            parse_purge("tag=a%20b").expect("the input is valid"),
            (Target::tag("a b"), false)
        );
        let prefix = Target::Prefix("http://a/x/".into());
        assert_eq!(
            parse_purge("prefix=http://a/x/")
                .expect("the input is valid")
                .0,
            prefix
        );
        for query in [
            "",
            "url=/x",
            "tag=",
            "tag=a&tag=b",
            "prefix=a",
            "tag=%zz",
            "tag=%f",
            "soft=1",
            "other=1",
        ] {
            assert!(parse_purge(query).is_err(), "{query}");
        }
    }
}
