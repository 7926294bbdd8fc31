//! Client of etcd's HTTP gateway (`/v3/…`, JSON), for the few requests that membership needs.
//!
//! One endpoint is used at a time; after a failure, the next one is used. Each request except a
//! watch has a time limit, and each answer a size limit. The gateway does not derive a user from a
//! client certificate: certificates protect the connection, and a name and a password grant
//! permissions.
//!
//! A token of a user ends after some minutes without a request, and with a change of its rights.
//! etcd refuses requests with such a token before it performs anything, so that they are sent once
//! more with a new one.
//!
//! Departures from etcd's own client: no load balancing and no other retries within a request. The
//! caller begins a new session instead.

use crate::access::Access;
use crate::kv::{Changes, Entry, Event, Failure, Guard, Kv, Snapshot, Write};
use crate::{Invalid, pem};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde_json::{Value, json};
use std::fmt::Display;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;
use tokio::time::timeout;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Time limit for a connection.
const CONNECT_TIME: Duration = Duration::from_secs(2);
/// Prefix of the error text for a token that is no longer valid.
const TOKEN_ENDED: &str = "etcdserver: invalid auth token";
/// Prefix of the error text for a token that was issued before users or rights changed.
const TOKEN_OLD: &str = "etcdserver: revision of auth store is old";
/// Time for which an idle connection is kept.
const IDLE_TIME: Duration = Duration::from_secs(30);
/// Maximum size in bytes of an answer, and of an event of a watch.
const ANSWER_BYTES_MAX: usize = 8 << 20;

/// A client.
pub struct Etcd {
    access: Access,
    credentials: RwLock<Arc<Credentials>>,
    current: AtomicUsize,
    token: Mutex<Option<HeaderValue>>,
}

/// Contents of the files that an access names.
struct Credentials {
    /// Connections with the certificates of the files.
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    /// User name and password.
    user: Option<(String, String)>,
}

impl Credentials {
    fn read(config: &Access) -> Result<Self, Invalid> {
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_connect_timeout(Some(CONNECT_TIME));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls(config)?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(http);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIME)
            .build(connector);
        let user = match &config.user {
            None => None,
            Some((name, path)) => {
                let password = std::fs::read_to_string(path)
                    .map_err(|error| Invalid(format!("password {}: {error}", path.display())))?;
                Some((name.clone(), password.trim().to_owned()))
            }
        };
        Ok(Credentials { client, user })
    }
}

impl Etcd {
    /// Prepares a client. No connection is made.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read.
    pub fn new(config: &Access) -> Result<Self, Invalid> {
        Ok(Etcd {
            access: config.clone(),
            credentials: RwLock::new(Arc::new(Credentials::read(config)?)),
            current: AtomicUsize::new(0),
            token: Mutex::new(None),
        })
    }

    /// Reads certificates and password again, for further connections and tokens. A watch that is
    /// open keeps its connection.
    ///
    /// # Errors
    /// Returns an error if a file cannot be used. The previous contents stay in use.
    pub fn reload(&self) -> Result<(), Invalid> {
        let credentials = Arc::new(Credentials::read(&self.access)?);
        let slot = self.credentials.write();
        *slot.unwrap_or_else(PoisonError::into_inner) = credentials;
        Ok(())
    }

    fn credentials(&self) -> Arc<Credentials> {
        let credentials = self.credentials.read();
        credentials.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sends a request as the user, and returns the answer. If the token has ended, the request is
    /// sent once more with a new one.
    async fn ask(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        let used = self.current.load(Relaxed);
        self.authenticate().await?;
        let answer = self.answer(path, body).await;
        let answer = match answer {
            Err(failure) if self.has_ended(&failure) => {
                self.set_token(None);
                self.authenticate().await?;
                self.answer(path, body).await
            }
            answer => answer,
        };
        answer.map_err(|failure| self.failed(path, &failure, used))
    }

    /// Whether a request was refused because of its token.
    fn has_ended(&self, failure: &Failure) -> bool {
        let is_of_token = |text| failure.0.starts_with(text);
        self.access.user.is_some() && [TOKEN_ENDED, TOKEN_OLD].into_iter().any(is_of_token)
    }

    /// Sends a request and returns the answer.
    async fn call(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        let used = self.current.load(Relaxed);
        let answer = self.answer(path, body).await;
        answer.map_err(|failure| self.failed(path, &failure, used))
    }

    async fn answer(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        let answer = async {
            let stream = self.send(path, body).await?;
            let mut lines = Lines::new(stream);
            let line = lines.next().await?;
            line.ok_or_else(|| Failure("the answer is empty".into()))
        };
        let answer = timeout(self.access.request_time, answer).await;
        answer.unwrap_or_else(|_| Err(Failure("no answer in time".into())))
    }

    /// Sends a request, and returns the body of the answer if its status is 200.
    async fn send(&self, path: &str, body: &Value) -> Result<Incoming, Failure> {
        let response = self.request(path, body).await?;
        if response.status() == StatusCode::OK {
            return Ok(response.into_body());
        }
        let failure = match Lines::new(response.into_body()).next().await {
            Ok(Some(answer)) => error_of(&answer).unwrap_or_else(|| "an error".into()),
            _ => "an error without a text".into(),
        };
        Err(Failure(failure))
    }

    async fn request(
        &self,
        path: &str,
        body: &Value,
    ) -> Result<hyper::Response<Incoming>, Failure> {
        let endpoint =
            &self.access.endpoints[self.current.load(Relaxed) % self.access.endpoints.len()];
        let uri = Uri::builder()
            .scheme(endpoint.scheme_str().unwrap_or("http"))
            .authority(
                endpoint
                    .authority()
                    .map_or("", |authority| authority.as_str()),
            )
            .path_and_query(path)
            .build()
            .map_err(failure)?;
        let mut request = Request::new(Full::new(Bytes::from(body.to_string())));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri;
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(token) = self.token() {
            headers.insert(AUTHORIZATION, token);
        }
        let credentials = self.credentials();
        credentials.client.request(request).await.map_err(|error| {
            // The innermost cause is more specific than "client error (Connect)".
            let mut cause: &dyn std::error::Error = &error;
            while let Some(source) = cause.source() {
                cause = source;
            }
            failure(cause)
        })
    }

    /// Requests a token if a user is configured and there is no token.
    async fn authenticate(&self) -> Result<(), Failure> {
        let credentials = self.credentials();
        let user = credentials.user.as_ref();
        let Some((name, password)) = user.filter(|_| self.token().is_none()) else {
            return Ok(());
        };
        let body = json!({"name": name, "password": password});
        let answer = self.call("/v3/auth/authenticate", &body).await?;
        let token = answer["token"].as_str().unwrap_or_default();
        let mut token = HeaderValue::from_str(token).map_err(failure)?;
        token.set_sensitive(true);
        self.set_token(Some(token));
        Ok(())
    }

    fn name_of(&self, number: usize) -> String {
        let endpoint = &self.access.endpoints[number % self.access.endpoints.len()];
        endpoint.to_string().trim_end_matches('/').to_owned()
    }

    fn token(&self) -> Option<HeaderValue> {
        let token = self.token.lock();
        token.unwrap_or_else(|poison| poison.into_inner()).clone()
    }

    fn set_token(&self, token: Option<HeaderValue>) {
        *self
            .token
            .lock()
            .unwrap_or_else(|poison| poison.into_inner()) = token;
    }

    /// Switches to the next endpoint after a failure of the one that was `used`, and drops the
    /// token. Of requests that fail together, the first one switches.
    fn failed(&self, path: &str, failure: &Failure, used: usize) -> Failure {
        let endpoint = self.name_of(used);
        let next = used.wrapping_add(1);
        let current = self.current.compare_exchange(used, next, Relaxed, Relaxed);
        if current.is_ok() {
            self.set_token(None);
        }
        Failure(format!("{endpoint}{path}: {failure}"))
    }

    /// Returns the first name below the prefix and the end of the range, as etcd expects them.
    fn range(&self) -> (String, String) {
        let mut end = self.access.prefix.clone().into_bytes();
        // The prefix ends with '/'.
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        (BASE64.encode(&self.access.prefix), BASE64.encode(end))
    }

    fn key(&self, key: &str) -> String {
        BASE64.encode(format!("{}{key}", self.access.prefix))
    }
}

fn failure(error: impl Display) -> Failure {
    Failure(error.to_string())
}

fn tls(config: &Access) -> Result<ClientConfig, Invalid> {
    let provider = Arc::new(tokio_rustls::rustls::crypto::aws_lc_rs::default_provider());
    let invalid = |error: &dyn Display| Invalid(format!("TLS to etcd: {error}"));
    let needs_tls = config
        .endpoints
        .iter()
        .any(|endpoint| endpoint.scheme_str() == Some("https"));
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| invalid(&error))?;
    let builder = match &config.authorities {
        Some(path) => builder.with_root_certificates(pem::authorities(path)?),
        None if needs_tls => {
            use hyper_rustls::ConfigBuilderExt;
            builder
                .with_native_roots()
                .map_err(|error| invalid(&error))?
        }
        None => builder.with_root_certificates(RootCertStore::empty()),
    };
    match &config.certificate {
        None => Ok(builder.with_no_client_auth()),
        Some((certificate, key)) => builder
            .with_client_auth_cert(pem::certificates(certificate)?, pem::key(key)?)
            .map_err(|error| invalid(&error)),
    }
}

impl Kv for Etcd {
    type Changes = Watch;

    async fn read(&self) -> Result<Snapshot, Failure> {
        let (key, end) = self.range();
        let body = json!({"key": key, "range_end": end});
        let answer = self.ask("/v3/kv/range", &body).await?;
        let entries = answer["kvs"].as_array().into_iter().flatten();
        let entries: Option<Vec<Entry>> =
            entries.map(|kv| entry(kv, &self.access.prefix)).collect();
        Ok(Snapshot {
            revision: number(&answer["header"]["revision"]),
            entries: entries.ok_or_else(|| Failure("a value has another form".into()))?,
        })
    }

    async fn watch(&self, from: i64) -> Result<Watch, Failure> {
        self.authenticate().await?;
        let (key, end) = self.range();
        let create = json!({"key": key, "range_end": end, "start_revision": from.to_string()});
        let body = json!({"create_request": create});
        let used = self.current.load(Relaxed);
        let stream = timeout(self.access.request_time, self.send("/v3/watch", &body)).await;
        let stream = stream.unwrap_or_else(|_| Err(Failure("no answer in time".into())));
        let stream = stream.map_err(|failure| self.failed("/v3/watch", &failure, used))?;
        Ok(Watch {
            lines: Lines::new(stream),
            prefix: self.access.prefix.clone(),
        })
    }

    async fn commit(&self, guards: Vec<Guard>, writes: Vec<Write>) -> Result<Option<i64>, Failure> {
        let compare = |guard: &Guard| match guard {
            Guard::Revision(key, revision) => json!({
                "key": self.key(key), "target": "MOD", "result": "EQUAL",
                "mod_revision": revision.to_string(),
            }),
            Guard::Lease(key, lease) => json!({
                "key": self.key(key), "target": "LEASE", "result": "EQUAL",
                "lease": lease.to_string(),
            }),
        };
        let write = |write: &Write| match write {
            Write::Put(key, value, lease) => json!({"request_put": {
                "key": self.key(key), "value": BASE64.encode(value),
                "lease": lease.unwrap_or(0).to_string(),
            }}),
            Write::Delete(key) => json!({"request_delete_range": {"key": self.key(key)}}),
        };
        let compare: Vec<Value> = guards.iter().map(compare).collect();
        let success: Vec<Value> = writes.iter().map(write).collect();
        let body = json!({"compare": compare, "success": success});
        let answer = self.ask("/v3/kv/txn", &body).await?;
        let has_written = answer["succeeded"].as_bool() == Some(true);
        Ok(has_written.then(|| number(&answer["header"]["revision"])))
    }

    async fn grant(&self, time: Duration) -> Result<i64, Failure> {
        let body = json!({"TTL": time.as_secs().to_string()});
        let answer = self.ask("/v3/lease/grant", &body).await?;
        match number(&answer["ID"]) {
            0 => Err(Failure("etcd has made no lease".into())),
            lease => Ok(lease),
        }
    }

    async fn keep_alive(&self, lease: i64) -> Result<bool, Failure> {
        let body = json!({"ID": lease.to_string()});
        let used = self.current.load(Relaxed);
        let answer = self.ask("/v3/lease/keepalive", &body).await?;
        if let Some(error) = error_of(&answer) {
            return Err(self.failed("/v3/lease/keepalive", &Failure(error), used));
        }
        Ok(number(&answer["result"]["TTL"]) > 0)
    }

    fn endpoint(&self) -> String {
        self.name_of(self.current.load(Relaxed))
    }
}

/// Stream of changes from etcd.
pub struct Watch {
    lines: Lines,
    prefix: String,
}

impl Changes for Watch {
    async fn next(&mut self) -> Result<Vec<Event>, Failure> {
        let line = self.lines.next().await?;
        let line = line.ok_or_else(|| Failure("the watch has ended".into()))?;
        events(&line, &self.prefix)
    }
}

/// Parses a message of a watch.
fn events(line: &Value, prefix: &str) -> Result<Vec<Event>, Failure> {
    if let Some(error) = error_of(line) {
        return Err(Failure(format!("the watch has ended: {error}")));
    }
    let result = &line["result"];
    let compacted = number(&result["compact_revision"]);
    if compacted > 0 {
        let text = format!("the changes before revision {compacted} were compacted");
        return Err(Failure(text));
    }
    if result["canceled"].as_bool() == Some(true) {
        let reason = result["cancel_reason"]
            .as_str()
            .unwrap_or("no reason given");
        return Err(Failure(format!("the watch was cancelled: {reason}")));
    }
    let events = result["events"].as_array().into_iter().flatten();
    let event = |event: &Value| {
        let entry = entry(&event["kv"], prefix)?;
        Some(match event["type"].as_str() {
            Some("DELETE") => Event::Delete(entry.key),
            _ => Event::Put(entry),
        })
    };
    let events: Option<Vec<Event>> = events.map(event).collect();
    events.ok_or_else(|| Failure("an event has another form".into()))
}

/// Parses a value; `None` if it is malformed. 64-bit numbers are encoded as texts, and zeros are
/// omitted.
fn entry(kv: &Value, prefix: &str) -> Option<Entry> {
    let bytes = |value: &Value| BASE64.decode(value.as_str().unwrap_or_default()).ok();
    let key = String::from_utf8(bytes(&kv["key"])?).ok()?;
    Some(Entry {
        key: key.strip_prefix(prefix)?.to_owned(),
        value: bytes(&kv["value"])?,
        created: number(&kv["create_revision"]),
        revision: number(&kv["mod_revision"]),
    })
}

fn number(value: &Value) -> i64 {
    match value {
        Value::String(text) => text.parse().unwrap_or(0),
        value => value.as_i64().unwrap_or(0),
    }
}

/// Returns the text of an error. Within a stream, the error is an object.
fn error_of(answer: &Value) -> Option<String> {
    let error = answer.get("error")?;
    let text = error.as_str().or_else(|| error["message"].as_str());
    Some(text.unwrap_or("an error").to_owned())
}

/// Sequence of JSON values in a body.
struct Lines {
    body: Incoming,
    bytes: Vec<u8>,
}

impl Lines {
    fn new(body: Incoming) -> Self {
        Lines {
            body,
            bytes: vec![],
        }
    }

    /// Returns the next value; `None` at the end. The future can be dropped without losing data.
    async fn next(&mut self) -> Result<Option<Value>, Failure> {
        loop {
            if let Some(value) = first_value(&mut self.bytes)? {
                return Ok(Some(value));
            }
            let body = &mut self.body;
            let frame = poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await;
            let Some(frame) = frame else {
                return Ok(None);
            };
            if let Ok(data) = frame.map_err(failure)?.into_data() {
                self.bytes.extend_from_slice(&data);
            }
        }
    }
}

/// Removes the first JSON value from the bytes; `None` if it is incomplete.
fn first_value(bytes: &mut Vec<u8>) -> Result<Option<Value>, Failure> {
    let mut values = serde_json::Deserializer::from_slice(bytes).into_iter::<Value>();
    let value = match values.next() {
        Some(Ok(value)) => value,
        Some(Err(error)) if !error.is_eof() => return Err(failure(error)),
        _ if bytes.len() > ANSWER_BYTES_MAX => {
            return Err(Failure("the answer is too long".into()));
        }
        _ => return Ok(None),
    };
    let length = values.byte_offset();
    bytes.drain(..length);
    Ok(Some(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write as _};
    use std::net::TcpListener;
    use std::thread::JoinHandle;

    fn value(text: &str) -> Value {
        serde_json::from_str(text).expect("the input is valid")
    }

    #[test]
    fn values_are_taken_one_after_the_other_in_any_pieces() {
        let text = b"{\"result\":{}}\n{\"a\":\"}\\\"\"}\n".as_slice();
        for cut in 0..text.len() {
            let mut bytes = text[..cut].to_vec();
            let mut found = vec![];
            while let Some(value) = first_value(&mut bytes).expect("the input is valid") {
                found.push(value);
            }
            bytes.extend_from_slice(&text[cut..]);
            while let Some(value) = first_value(&mut bytes).expect("the input is valid") {
                found.push(value);
            }
            assert_eq!(found, [json!({"result": {}}), json!({"a": "}\""})], "{cut}");
        }
        assert!(first_value(&mut b"<html>".to_vec()).is_err());
        let mut long = b"[".to_vec();
        long.resize(ANSWER_BYTES_MAX + 1, b' ');
        assert!(first_value(&mut long).is_err());
    }

    #[test]
    fn messages_of_a_watch_are_read() {
        let created = value(r#"{"result":{"header":{"revision":"3"},"created":true}}"#);
        assert_eq!(events(&created, "/a/"), Ok(vec![]));
        let changes = value(
            r#"{"result":{"events":[
                {"kv":{"key":"L2EveA==","create_revision":"2","mod_revision":"4","value":"aGk="}},
                {"type":"DELETE","kv":{"key":"L2EveA==","mod_revision":"5"}}]}}"#,
        );
        let put = Event::Put(Entry {
            key: "x".into(),
            value: b"hi".to_vec(),
            created: 2,
            revision: 4,
        });
        let found = events(&changes, "/a/");
        assert_eq!(found, Ok(vec![put, Event::Delete("x".into())]));
        for (text, expected) in [
            (
                r#"{"result":{"canceled":true,"compact_revision":"9"}}"#,
                "revision 9",
            ),
            (
                r#"{"result":{"canceled":true,"cancel_reason":"x"}}"#,
                "cancelled: x",
            ),
            (
                r#"{"error":{"message":"no leader","grpc_code":14}}"#,
                "no leader",
            ),
            (r#"{"error":"denied","code":7}"#, "denied"),
            (
                r#"{"result":{"events":[{"kv":{"key":"?"}}]}}"#,
                "another form",
            ),
            (
                r#"{"result":{"events":[{"kv":{"key":"L2IveA=="}}]}}"#,
                "another form",
            ),
        ] {
            let found = events(&value(text), "/a/").expect_err("the input is invalid");
            assert!(found.0.contains(expected), "{found}");
        }
    }

    /// Answers one request for each pair: the expected token, and the body of the answer. An answer
    /// about an error has the status 401. Returns the paths.
    fn gateway(
        answers: Vec<(Option<&'static str>, &'static str)>,
    ) -> (Uri, JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let serve = move || {
            let answer = |(token, body): (Option<&str>, &str)| {
                let (mut stream, _) = listener.accept().expect("a connection");
                let mut lines = BufReader::new(stream.try_clone().expect("a socket")).lines();
                let mut head = || lines.next().expect("a line").expect("it is text");
                let path = head().split(' ').nth(1).expect("a path").to_owned();
                let head: Vec<String> = std::iter::repeat_with(head)
                    .take_while(|l| !l.is_empty())
                    .collect();
                let sent = head
                    .iter()
                    .find_map(|line| line.strip_prefix("authorization: "));
                assert_eq!(sent, token, "{path}");
                let status = if body.contains("error") {
                    "401 Unauthorized"
                } else {
                    "200 OK"
                };
                let head = format!("HTTP/1.1 {status}\r\nconnection: close\r\n");
                let head = format!("{head}content-length: {}\r\n\r\n", body.len());
                stream
                    .write_all((head + body).as_bytes())
                    .expect("it is sent");
                path
            };
            answers.into_iter().map(answer).collect()
        };
        let uri = format!("http://{address}").parse().expect("it is valid");
        (uri, std::thread::spawn(serve))
    }

    fn wait<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.expect("a runtime").block_on(future)
    }

    #[test]
    fn a_token_that_has_ended_is_renewed() {
        let (endpoint, gateway) = gateway(vec![
            (None, r#"{"token":"first"}"#),
            (Some("first"), r#"{"header":{"revision":"7"}}"#),
            (
                Some("first"),
                r#"{"error":"etcdserver: invalid auth token","code":16}"#,
            ),
            (None, r#"{"token":"second"}"#),
            (
                Some("second"),
                r#"{"header":{"revision":"8"},"succeeded":true}"#,
            ),
            (
                Some("second"),
                r#"{"error":"etcdserver: permission denied","code":7}"#,
            ),
        ]);
        let mut access = Access::new("/a");
        access.endpoints.push(endpoint);
        let password = password("token");
        access.user = Some(("user".into(), password.clone()));
        let etcd = Etcd::new(&access).expect("the file is there");
        std::fs::remove_file(password).expect("the file is there");
        wait(async {
            assert_eq!(etcd.read().await.map(|found| found.revision), Ok(7));
            assert_eq!(etcd.commit(vec![], vec![]).await, Ok(Some(8)));
            let failure = etcd
                .commit(vec![], vec![])
                .await
                .expect_err("it is refused");
            assert!(
                failure
                    .0
                    .ends_with("/v3/kv/txn: etcdserver: permission denied"),
                "{failure}"
            );
        });
        let paths = gateway.join().expect("no panic");
        let expected = ["/v3/auth/authenticate", "/v3/kv/range", "/v3/kv/txn"];
        let expected: Vec<&str> = expected
            .into_iter()
            .chain(["/v3/auth/authenticate", "/v3/kv/txn", "/v3/kv/txn"])
            .collect();
        assert_eq!(paths, expected);
    }

    /// Writes a password to a file of the test with this name.
    fn password(name: &str) -> std::path::PathBuf {
        let file = format!("mayfly-etcd-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(file);
        std::fs::write(&path, "first\n").expect("the folder is writable");
        path
    }

    /// Regression: a password that was changed in etcd needed a restart of the node.
    #[test]
    fn a_reload_reads_the_password_again() {
        let path = password("reload");
        let mut access = Access::new("/a");
        access.user = Some(("user".into(), path.clone()));
        let etcd = Etcd::new(&access).expect("the file is there");
        let known = || {
            etcd.credentials()
                .user
                .clone()
                .map(|(_, password)| password)
        };
        std::fs::write(&path, "second").expect("the file is there");
        assert_eq!(known().as_deref(), Some("first"));
        assert_eq!(etcd.reload(), Ok(()));
        assert_eq!(known().as_deref(), Some("second"));
        std::fs::remove_file(&path).expect("the file is there");
        assert!(etcd.reload().is_err());
        assert_eq!(known().as_deref(), Some("second"));
    }

    #[test]
    fn the_next_endpoint_is_used_after_a_failure() {
        let (endpoint, gateway) = gateway(vec![(None, r#"{"header":{"revision":"7"}}"#)]);
        let closed = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let nothing = closed.local_addr().expect("it is bound");
        drop(closed);
        let mut access = Access::new("/a");
        access
            .add_endpoint(&format!("http://{nothing}"))
            .expect("it is valid");
        access.endpoints.push(endpoint.clone());
        let etcd = Etcd::new(&access).expect("nothing is read");
        wait(async {
            let failure = etcd.read().await.expect_err("nothing listens");
            assert!(
                failure
                    .0
                    .starts_with(&format!("http://{nothing}/v3/kv/range: ")),
                "{failure}"
            );
            assert_eq!(etcd.read().await.map(|found| found.revision), Ok(7));
        });
        assert_eq!(etcd.endpoint(), endpoint.to_string().trim_end_matches('/'));
        gateway.join().expect("no panic");
    }
}
