//! What operators see: the port for them, the access log, metrics, and HEAD.

use crate::support::{Origin, Site, TOKEN, response};
use node::LogFormat;
use node::admin::client::{Place, status};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const FRESH: &str = "Cache-Control: max-age=60\r\n";

/// Folder that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("mayfly-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("the folder can be written");
        Folder(folder)
    }

    /// Writes a new certificate for `localhost` and its key.
    fn certify(&self) -> (PathBuf, PathBuf) {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]);
        let made = made.expect("the input is valid");
        let (certificate, key) = (self.0.join("certificate.pem"), self.0.join("key.pem"));
        std::fs::write(&certificate, made.cert.pem()).expect("the folder can be written");
        std::fs::write(&key, made.signing_key.serialize_pem()).expect("the folder can be written");
        (certificate, key)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Regression: the response to HEAD was not stored, so that each HEAD of a new URL went to the
/// origin.
#[test]
fn a_head_request_stores_the_response_to_a_get() {
    let origin = Origin::plain(FRESH, "content");
    let site = Site::new(&origin);
    for expected in ["fwd=uri-miss; stored; ttl=60", "hit; ttl=60"] {
        let head = site.request("HEAD", "/x", "");
        assert_eq!((head.status, &*head.content), (200, ""));
        assert_eq!(
            (head.field("content-length"), head.cache()),
            ("7", expected)
        );
        // The content arrives after the head.
        while site.running.node.store.stats().len == 0 {
            std::thread::yield_now();
        }
    }
    let get = site.get("/x");
    assert_eq!((&*get.content, get.cache()), ("content", "hit; ttl=60"));
    assert_eq!(origin.heads().len(), 1);
    assert!(origin.heads()[0].starts_with("get /x "));
}

#[test]
fn a_head_request_for_what_is_never_stored_has_no_content_sent() {
    let origin = Origin::plain("Cache-Control: no-store\r\n", "content");
    let site = Site::new(&origin);
    let first = site.request("HEAD", "/x", "");
    assert_eq!(first.cache(), "fwd=uri-miss; detail=no-store");
    assert_eq!((first.field("content-length"), &*first.content), ("7", ""));
    assert_eq!(site.request("HEAD", "/x", "").cache(), "fwd=bypass");
    let heads = origin.heads();
    assert!(
        heads[0].starts_with("get ") && heads[1].starts_with("head "),
        "{heads:?}"
    );
}

/// Regression: Cache-Status did not say why a response was not stored.
#[test]
fn the_reason_for_not_storing_is_in_the_reply() {
    let origin = Origin::start(|head, _, stream| {
        let fields = match head.split(' ').nth(1) {
            Some("/private") => "Cache-Control: private\r\n",
            Some("/vary") => "Cache-Control: max-age=9\r\nVary: *\r\n",
            Some("/long") => "Cache-Control: max-age=9\r\nETag: \"1\"\r\n",
            _ => "",
        };
        let content = "x".repeat(if head.contains("/long ") { 9 << 20 } else { 1 });
        let _ = stream.write_all(response("200 OK", fields, &content).as_bytes());
    });
    let site = Site::new(&origin);
    for (path, reason) in [
        ("/private", "private"),
        ("/vary", "vary-star"),
        ("/long", "length"),
        ("/none", "no-lifetime"),
    ] {
        let expected = format!("fwd=uri-miss; detail={reason}");
        assert_eq!(site.get(path).cache(), expected);
    }
}

#[test]
fn the_port_for_operators_has_tls_and_a_token() {
    let folder = Folder::new("admin-tls");
    let (certificate, key) = folder.certify();
    let origin = Origin::plain(FRESH, "content");
    let site = Site::with(&origin, |config| {
        config.admin_certificate = Some((certificate.clone(), key));
        config.admin_token = Some("fedcba9876543210".into());
    });
    let place = |token: &str, authorities: &Path| Place {
        address: site.running.admin.expect("it is configured"),
        token: Some(token.into()),
        tls: Some((authorities.into(), Some("localhost".into()))),
    };
    let text = status(&place("fedcba9876543210", &certificate)).expect("the node answers");
    assert!(text.starts_with("Replies\n"), "{text}");
    let refused = status(&place(TOKEN, &certificate)).expect_err("the token is wrong");
    assert!(refused.contains("demands its token"), "{refused}");
    let other = Folder::new("admin-other");
    let (unknown, _) = other.certify();
    let refused = status(&place("fedcba9876543210", &unknown)).expect_err("it is unknown");
    assert!(refused.contains("certificate"), "{refused}");
    // Regression: a reload replaced the certificate for clients only.
    folder.certify();
    assert_eq!(site.running.reload(), Ok(true));
    let again = status(&place("fedcba9876543210", &certificate));
    assert!(again.is_ok(), "{again:?}");
}

/// Answers requests over TLS with a revision, each connection with the certificate of that time.
async fn gateway(listener: tokio::net::TcpListener, files: (PathBuf, PathBuf)) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    loop {
        let (stream, _) = listener.accept().await.expect("loopback works");
        let acceptor = node::listen::tls(&files.0, &files.1).expect("the files are valid");
        // The client may refuse the certificate.
        let Ok(mut stream) = acceptor.accept(stream).await else {
            continue;
        };
        let mut received = vec![];
        while !received.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
            let mut bytes = [0; 1_024];
            let count = stream.read(&mut bytes).await.expect("the client writes");
            received.extend_from_slice(&bytes[..count]);
        }
        let answer = r#"{"header":{"revision":"7"}}"#;
        let length = answer.len();
        let head =
            format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
        let _ = stream.write_all(format!("{head}{answer}").as_bytes()).await;
        let _ = stream.shutdown().await;
    }
}

/// Regression: renewed certificates for etcd needed a restart of the node.
#[test]
fn certificates_for_etcd_are_read_again() {
    use membership::access::Access;
    use membership::etcd::Etcd;
    use membership::kv::Kv;

    let folder = Folder::new("etcd-tls");
    let files = folder.certify();
    let known = folder.0.join("known.pem");
    std::fs::copy(&files.0, &known).expect("the folder can be written");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("the input is valid").block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("loopback works");
        let port = listener.local_addr().expect("loopback works").port();
        tokio::spawn(gateway(listener, files.clone()));
        let mut access = Access::new("/a");
        let endpoint = format!("https://localhost:{port}");
        access.add_endpoint(&endpoint).expect("it is valid");
        access.authorities = Some(known.clone());
        let etcd = Arc::new(Etcd::new(&access).expect("the file is valid"));
        assert_eq!(etcd.read().await.map(|found| found.revision), Ok(7));
        folder.certify();
        assert!(etcd.read().await.is_err());
        std::fs::write(&known, "damaged").expect("the folder can be written");
        assert!(etcd.reload().is_err());
        std::fs::copy(&files.0, &known).expect("the folder can be written");
        assert_eq!(etcd.reload(), Ok(()));
        assert_eq!(etcd.read().await.map(|found| found.revision), Ok(7));
    });
}

#[test]
fn operators_need_their_token_except_for_health_checks() {
    let origin = Origin::plain(FRESH, "content");
    let site = Site::with(&origin, |config| {
        config.admin_token = Some("fedcba9876543210".into());
    });
    let bearer = "Authorization: Bearer fedcba9876543210\r\n";
    for path in ["/", "/status", "/metrics", "/other"] {
        let refused = site.admin("GET", path, "");
        assert_eq!(refused.status, 401, "{path}");
        assert_eq!(refused.field("www-authenticate"), "Basic realm=\"mayfly\"");
        let status = site.admin("GET", path, bearer).status;
        assert_eq!(status, if path == "/other" { 404 } else { 200 });
    }
    assert_eq!(site.admin("GET", "/health", "").status, 200);
    // A purge needs its own token.
    assert_eq!(site.admin("POST", "/purge?tag=a", bearer).status, 403);
    assert_eq!(site.purge("tag=a"), 0);
}

#[test]
fn the_access_log_has_the_time_of_the_origin_and_the_fields_of_the_client() {
    let folder = Folder::new("access-log");
    let path = folder.0.join("log");
    let origin = Origin::plain(FRESH, "content");
    let lines = |format: LogFormat| {
        let _ = std::fs::remove_file(&path);
        let site = Site::with(&origin, |config| {
            config.access_log = Some(path.clone());
            config.access_log_format = format;
        });
        let fields = "User-Agent: test \"1\"\r\nReferer: http://a/\r\n";
        site.get_with("/x", fields);
        site.get_with("/x", fields);
        // Not answered without hyper, because of the condition.
        site.get_with("/x", "If-None-Match: \"a\"\r\n");
        site.stop();
        // The thread writes the rest when the last sender is gone.
        loop {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            if text.lines().count() == 3 {
                return text.lines().map(str::to_owned).collect::<Vec<_>>();
            }
            std::thread::yield_now();
        }
    };
    let json: Vec<serde_json::Value> = lines(LogFormat::default())
        .iter()
        .map(|line| serde_json::from_str(line).expect("the line is JSON"))
        .collect();
    let sources: Vec<_> = json.iter().map(|line| line["source"].as_str()).collect();
    assert_eq!(sources, [Some("miss"), Some("hit"), Some("hit")]);
    assert!(json[0]["origin_microseconds"].is_u64() && json[1]["origin_microseconds"].is_null());
    assert_eq!(json[1]["user_agent"], "test \"1\"");
    assert_eq!(json[1]["referer"], "http://a/");
    assert_eq!(json[1]["protocol"], "HTTP/1.1");
    let combined = lines(LogFormat::Combined);
    let expected = "127.0.0.1 - - [14/Nov/2023:22:13:20 +0000] \"GET /x HTTP/1.1\" 200 7 \
        \"http://a/\" \"test \\x221\\x22\"";
    assert_eq!(combined[..2], [expected, expected]);
    assert!(combined[2].ends_with(" 200 7 \"-\" \"-\""), "{combined:?}");
}

#[test]
fn times_of_replies_and_of_the_origin_are_in_the_metrics() {
    let origin = Origin::plain(FRESH, "content");
    let site = Site::new(&origin);
    site.get("/x");
    site.get("/x");
    let page = site.admin("GET", "/metrics", "").content;
    for line in [
        "mayfly_edge_reply_seconds_count{source=\"hit\"} 1",
        "mayfly_edge_reply_seconds_bucket{source=\"miss\",le=\"+Inf\"} 1",
        "mayfly_edge_origin_seconds_count 1",
    ] {
        assert!(page.lines().any(|other| other == line), "{line}: {page}");
    }
}
