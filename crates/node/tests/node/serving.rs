//! Behaviour of a node towards well-behaved clients and origins.

use crate::support::{Origin, Site, response};
use node::Reply;
use std::io::{Read, Write};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

const FRESH: &str = "Cache-Control: max-age=60\r\n";

#[test]
fn a_stored_response_is_served_without_the_origin() {
    let origin = Origin::plain(FRESH, "content");
    let site = Site::new(&origin);
    let first = site.get("/x");
    assert_eq!((first.status, &*first.content), (200, "content"));
    assert_eq!(first.cache(), "fwd=uri-miss; stored; ttl=60");
    assert_eq!(first.field("via"), "1.1 mayfly");
    site.clock.advance(Duration::from_secs(7));
    let second = site.get("/x");
    assert_eq!((second.status, &*second.content), (200, "content"));
    assert_eq!(second.cache(), "hit; ttl=53");
    assert_eq!(second.field("age"), "7");
    assert_eq!(origin.heads().len(), 1);
    assert_eq!(site.get("/y").cache(), "fwd=uri-miss; stored; ttl=60");
}

#[test]
fn a_response_leaves_memory_at_the_end_of_its_usable_time() {
    let origin = Origin::plain("Cache-Control: max-age=60, stale-if-error=5\r\n", "content");
    let site = Site::new(&origin);
    site.get("/x");
    let store = &site.running.node.store;
    site.clock.advance(Duration::from_secs(64));
    assert_eq!((store.expire(), store.stats().len), (0, 1));
    site.clock.advance(Duration::from_secs(2));
    assert_eq!((store.expire(), store.stats().len), (1, 0));
}

#[test]
fn clients_share_one_fetch_and_read_while_it_arrives() {
    // Passed when the second half is to be sent.
    let gate = Arc::new(Barrier::new(2));
    let at_origin = gate.clone();
    let origin = Origin::start(move |_, _, stream| {
        let text = response("200 OK", FRESH, "first half, second half");
        let (begin, end) = text.split_at(text.len() - 11);
        stream.write_all(begin.as_bytes()).expect("loopback works");
        at_origin.wait();
        stream.write_all(end.as_bytes()).expect("loopback works");
    });
    let site = Site::new(&origin);
    let mut clients = vec![];
    for _ in 0..8 {
        let mut stream = site.connect();
        let request = b"GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        stream.write_all(request).expect("loopback works");
        let mut text = vec![];
        let mut byte = [0];
        // Each client has the first half before the origin sends the second.
        while !text.ends_with(b"first half,") {
            stream.read_exact(&mut byte).expect("loopback works");
            text.push(byte[0]);
        }
        clients.push(stream);
    }
    gate.wait();
    for mut stream in clients {
        let mut rest = String::new();
        stream.read_to_string(&mut rest).expect("loopback works");
        assert_eq!(rest, " second half");
    }
    assert_eq!(origin.heads().len(), 1);
    assert!(
        site.admin("GET", "/metrics", "")
            .content
            .contains("mayfly_edge_collapsed_total 7\n")
    );
}

#[test]
fn a_stale_response_is_validated() {
    let origin = Origin::start(|head, _, stream| {
        let fields = "Cache-Control: max-age=10\r\nETag: \"v\"\r\n";
        let text = if head.contains("if-none-match: \"v\"") {
            response("304 Not Modified", &format!("{fields}X-New: 1\r\n"), "")
        } else {
            response("200 OK", fields, "content")
        };
        stream.write_all(text.as_bytes()).expect("loopback works");
    });
    let site = Site::new(&origin);
    site.get("/x");
    site.clock.advance(Duration::from_secs(11));
    let validated = site.get("/x");
    assert_eq!((validated.status, &*validated.content), (200, "content"));
    assert_eq!(validated.field("x-new"), "1");
    assert_eq!(
        validated.cache(),
        "fwd=stale; fwd-status=304; stored; ttl=10"
    );
    assert_eq!(site.get("/x").cache(), "hit; ttl=10");
    let unmodified = site.get_with("/x", "If-None-Match: \"u\", W/\"v\"\r\n");
    assert_eq!((unmodified.status, &*unmodified.content), (304, ""));
    assert_eq!(origin.heads().len(), 2);
}

#[test]
fn a_stale_response_is_used_when_the_origin_fails() {
    let origin = Origin::start(|_, number, stream| {
        let text = match number {
            1 => response(
                "200 OK",
                "Cache-Control: max-age=10, stale-if-error=60\r\n",
                "content",
            ),
            2 => response("503 Service Unavailable", "", "error"),
            // The connection ends without a response.
            _ => String::new(),
        };
        stream.write_all(text.as_bytes()).expect("loopback works");
    });
    let site = Site::new(&origin);
    site.get("/x");
    site.clock.advance(Duration::from_secs(11));
    for _ in 0..2 {
        let stale = site.get("/x");
        assert_eq!((stale.status, &*stale.content), (200, "content"));
        assert!(
            stale.cache().ends_with("; detail=stale-if-error"),
            "{}",
            stale.cache()
        );
        assert!(
            stale.cache().starts_with("fwd=stale; "),
            "{}",
            stale.cache()
        );
        site.clock.advance(Duration::from_secs(1));
    }
    assert_eq!(site.running.node.replies(Reply::StaleOnError), 2);
    site.clock.advance(Duration::from_secs(60));
    assert_eq!(site.get("/x").status, 502);
}

#[test]
fn a_response_is_served_while_it_is_revalidated() {
    let (fetched, was_fetched) = channel();
    let fetched = Mutex::new(fetched);
    let origin = Origin::start(move |_, number, stream| {
        let fields = "Cache-Control: max-age=10, stale-while-revalidate=60\r\n";
        let text = response("200 OK", fields, &format!("version {number}"));
        stream.write_all(text.as_bytes()).expect("loopback works");
        fetched
            .lock()
            .expect("no thread panics")
            .send(number)
            .expect("the other side waits");
    });
    let site = Site::new(&origin);
    assert_eq!(site.get("/x").content, "version 1");
    site.clock.advance(Duration::from_secs(11));
    assert_eq!(site.get("/x").content, "version 1");
    assert_eq!((was_fetched.recv(), was_fetched.recv()), (Ok(1), Ok(2)));
    // The new version is stored soon after the origin has sent it.
    while site
        .get_with("/x", "Cache-Control: only-if-cached\r\n")
        .content
        != "version 2"
    {
        std::thread::yield_now();
    }
    assert_eq!(origin.heads().len(), 2);
}

#[test]
fn ranges_are_cut_from_the_stored_response() {
    let origin = Origin::plain(FRESH, "0123456789");
    let site = Site::new(&origin);
    site.get("/x");
    let get = |range: &str| site.get_with("/x", &format!("Range: bytes={range}\r\n"));
    let part = get("2-4");
    assert_eq!((part.status, &*part.content), (206, "234"));
    assert_eq!(part.field("content-range"), "bytes 2-4/10");
    assert_eq!(get("-1").content, "9");
    let parts = get("0-1, 8-");
    assert_eq!(parts.status, 206);
    assert!(
        parts
            .field("content-type")
            .starts_with("multipart/byteranges; boundary=")
    );
    assert!(parts.content.contains("bytes 0-1/10\r\n\r\n01\r\n"));
    assert!(parts.content.contains("bytes 8-9/10\r\n\r\n89\r\n"));
    let beyond = get("10-20");
    assert_eq!(
        (beyond.status, beyond.field("content-range")),
        (416, "bytes */10")
    );
    let many = vec!["0-0"; 1_000].join(",");
    let all = get(&many);
    assert_eq!((all.status, &*all.content), (200, "0123456789"));
    assert_eq!(origin.heads().len(), 1);
}

#[test]
fn a_part_is_stored_as_a_part() {
    let origin = Origin::start(|head, _, stream| {
        assert!(head.contains("range: bytes=2-5\r\n"), "{head}");
        let fields = format!("{FRESH}Content-Range: bytes 2-5/10\r\n");
        let text = response("206 Partial Content", &fields, "2345");
        stream.write_all(text.as_bytes()).expect("loopback works");
    });
    let site = Site::new(&origin);
    assert_eq!(site.get_with("/x", "Range: bytes=2-5\r\n").content, "2345");
    let inner = site.get_with("/x", "Range: bytes=3-4\r\n");
    assert_eq!((inner.status, &*inner.content), (206, "34"));
    assert_eq!(inner.field("content-range"), "bytes 3-4/10");
    assert_eq!(origin.heads().len(), 1);
}

/// Regression: a client that continued a download of an old version got a part of the new one.
#[test]
fn a_stored_part_is_not_sent_for_another_version() {
    let origin = Origin::start(|head, _, stream| {
        let tag = "ETag: \"2\"\r\n";
        let text = match head.contains("range: bytes=2-5") {
            true => {
                let fields = format!("{FRESH}{tag}Content-Range: bytes 2-5/10\r\n");
                response("206 Partial Content", &fields, "2345")
            }
            false => response("200 OK", &format!("{FRESH}{tag}"), "0123456789"),
        };
        stream.write_all(text.as_bytes()).expect("loopback works");
    });
    let site = Site::new(&origin);
    assert_eq!(site.get_with("/x", "Range: bytes=2-5\r\n").status, 206);
    let same = site.get_with("/x", "Range: bytes=3-4\r\nIf-Range: \"2\"\r\n");
    assert_eq!((same.status, &*same.content), (206, "34"));
    let other = site.get_with("/x", "Range: bytes=3-4\r\nIf-Range: \"1\"\r\n");
    assert_eq!((other.status, &*other.content), (200, "0123456789"));
    assert_eq!(other.cache(), "fwd=partial; stored; ttl=60");
}

/// Regression: `no-cache="set-cookie"` forbids using the field for other requests. The client whose
/// request was forwarded did not get it either.
#[test]
fn fields_that_are_not_stored_reach_the_client_that_was_forwarded() {
    let origin = Origin::start(|head, number, stream| {
        let fields = "Cache-Control: max-age=10, private=\"set-cookie, x-own\"\r\nETag: \"v\"\r\n";
        let own = format!("{fields}Set-Cookie: a={number}\r\nX-Own: {number}\r\n");
        let text = match head.contains("if-none-match") {
            true => response("304 Not Modified", &own, ""),
            false => response("200 OK", &own, "content"),
        };
        stream.write_all(text.as_bytes()).expect("loopback works");
    });
    let site = Site::new(&origin);
    let seen = || {
        let got = site.get("/x");
        let text = |name| got.field(name).to_owned();
        (got.content.clone(), text("set-cookie"), text("x-own"))
    };
    let expected = |cookie: &str, own: &str| ("content".into(), cookie.into(), own.into());
    assert_eq!(seen(), expected("a=1", "1"));
    assert_eq!(seen(), expected("", ""));
    site.clock.advance(Duration::from_secs(11));
    assert_eq!(seen(), expected("a=2", "2"));
    assert_eq!(seen(), expected("", ""));
    assert_eq!(origin.heads().len(), 2);
}

#[test]
fn variants_are_stored_side_by_side() {
    let origin = Origin::start(|head, _, stream| {
        let language = if head.contains("accept-language: de") {
            "de"
        } else {
            "en"
        };
        let text = response(
            "200 OK",
            &format!("{FRESH}Vary: Accept-Language\r\n"),
            language,
        );
        stream.write_all(text.as_bytes()).expect("loopback works");
    });
    let site = Site::new(&origin);
    for _ in 0..2 {
        assert_eq!(site.get_with("/x", "Accept-Language: de\r\n").content, "de");
        assert_eq!(site.get_with("/x", "Accept-Language: en\r\n").content, "en");
    }
    assert_eq!(origin.heads().len(), 2);
}

/// Regression: each personal response removed the one stored for everyone else, and for two
/// minutes, requests for it were sent to the origin one by one.
#[test]
fn personal_responses_do_not_displace_those_for_everyone() {
    let origin = Origin::start(|head, _, stream| {
        let has = |name: &str| head.contains(&format!("\r\n{name}: "));
        let text = match has("cookie") {
            true => response(
                "200 OK",
                "Cache-Control: private\r\nVary: Cookie\r\n",
                "own",
            ),
            false => response("200 OK", &format!("{FRESH}Vary: Cookie\r\n"), "all"),
        };
        stream.write_all(text.as_bytes()).expect("loopback works");
    });
    let site = Site::new(&origin);
    assert_eq!(site.get("/x").content, "all");
    let personal = [
        "Cookie: user=1\r\n",
        "Authorization: Basic x\r\nCache-Control: no-cache\r\n",
    ];
    for fields in personal {
        for _ in 0..2 {
            site.get_with("/x", fields);
            assert_eq!(site.get("/x").cache(), "hit; ttl=60", "{fields}");
        }
    }
    assert_eq!(origin.heads().len(), 5);
    // The others share their fetches as before.
    site.clock.advance(Duration::from_secs(61));
    site.get_with("/x", personal[0]);
    assert!(!site.get("/x").cache().contains("bypass"));
    // What the origin sends to everyone replaces what is stored.
    let origin = Origin::start(|_, number, stream| {
        let fields = if number == 1 {
            FRESH
        } else {
            "Cache-Control: no-store\r\n"
        };
        let text = response("200 OK", fields, "all");
        stream.write_all(text.as_bytes()).expect("loopback works");
    });
    let site = Site::new(&origin);
    site.get("/x");
    site.get_with("/x", "Cache-Control: no-cache\r\n");
    assert_eq!(site.get("/x").cache(), "fwd=bypass; detail=no-store");
}

#[test]
fn purges_concern_urls_prefixes_and_tags() {
    let origin = Origin::plain(
        "Cache-Control: max-age=60\r\nSurrogate-Key: red blue\r\nETag: \"v\"\r\n",
        "content",
    );
    let site = Site::new(&origin);
    let fill = || {
        for path in ["/a/1", "/a/2", "/b"] {
            let stored = site.get(path);
            assert_eq!(stored.field("surrogate-key"), "");
        }
    };
    fill();
    assert_eq!(site.purge("url=http://a/a/1"), 1);
    assert_eq!(site.purge("url=http://a/a/1"), 0);
    assert!(site.get("/a/1").cache().starts_with("fwd=uri-miss"));
    assert!(site.get("/a/2").cache().starts_with("hit"));
    assert_eq!(site.purge("prefix=http://a/a/"), 2);
    fill();
    assert_eq!(site.purge("tag=blue"), 3);
    assert_eq!(site.purge("tag=green"), 0);
    fill();
    assert_eq!(site.purge("tag=red&soft=1"), 3);
    assert!(site.get("/b").cache().starts_with("fwd=stale"));
}

/// Regression: tags beyond the 64th were ignored.
#[test]
fn a_response_with_many_tags_is_purged_by_each_of_them() {
    let origin = Origin::start(|_, _, stream| {
        let tags: Vec<String> = (0..2_000).map(|tag| format!("t{tag}")).collect();
        let fields = format!("{FRESH}Surrogate-Key: {}\r\n", tags.join(" "));
        let text = response("200 OK", &fields, "content");
        stream.write_all(text.as_bytes()).expect("loopback works");
    });
    let site = Site::new(&origin);
    for tag in ["t0", "t63", "t64", "t1999"] {
        site.get("/x");
        assert_eq!(site.purge(&format!("tag={tag}")), 1, "{tag}");
    }
    assert_eq!(site.purge("tag=t2000"), 0);
}

/// Keys have a host in lower case and without the usual port.
#[test]
fn purges_accept_each_spelling_of_a_host() {
    let origin = Origin::plain(FRESH, "content");
    let site = Site::new(&origin);
    for target in [
        "prefix=http://A/x",
        "prefix=HTTP://a:80/x",
        "prefix=http://A",
        "url=http://A:80/x",
        "url=HTTP://a/x",
        "url=http://a/x%23part",
    ] {
        site.get("/x");
        assert_eq!(site.purge(target), 1, "{target}");
    }
    site.get("/X");
    assert_eq!(site.purge("prefix=http://a/x"), 0);
    let token = format!("Authorization: Bearer {}\r\n", crate::support::TOKEN);
    for path in [
        "/purge?url=http://a/%2",
        "/purge?url=http://a/%+1",
        "/purge?prefix=ftp://a/",
    ] {
        assert_eq!(site.admin("POST", path, &token).status, 400, "{path}");
    }
}

#[test]
fn a_purge_needs_the_token() {
    let origin = Origin::plain(FRESH, "content");
    let site = Site::new(&origin);
    site.get("/x");
    let path = "/purge?url=http://a/x";
    assert_eq!(site.admin("POST", path, "").status, 403);
    assert_eq!(
        site.admin("POST", path, "Authorization: Bearer 0123456789abcdeF\r\n")
            .status,
        403
    );
    assert_eq!(site.admin("GET", path, "").status, 405);
    assert!(site.get("/x").cache().starts_with("hit"));
}

#[test]
fn what_was_fetched_before_a_purge_is_not_stored_after_it() {
    // Passed when the request is at the origin, and when it is to be answered.
    let gate = Arc::new(Barrier::new(2));
    let at_origin = gate.clone();
    let origin = Origin::start(move |_, number, stream| {
        if number == 1 {
            at_origin.wait();
            at_origin.wait();
        }
        let text = response("200 OK", FRESH, &format!("version {number}"));
        stream.write_all(text.as_bytes()).expect("loopback works");
    });
    let site = Arc::new(Site::new(&origin));
    let client = std::thread::spawn({
        let site = site.clone();
        move || site.get("/x").content
    });
    gate.wait();
    site.purge("prefix=http://a/");
    gate.wait();
    assert_eq!(
        client.join().expect("the thread does not panic"),
        "version 1"
    );
    assert_eq!(site.get("/x").content, "version 2");
    assert_eq!(site.get("/x").content, "version 2");
}

/// Regression: a request after a purge shared a fetch that had begun before it.
#[test]
fn a_request_after_a_purge_is_not_answered_by_an_older_fetch() {
    for purge in ["url=http://a/x", "prefix=http://a/", "tag=t"] {
        let gate = Arc::new(Barrier::new(2));
        let at_origin = gate.clone();
        let origin = Origin::start(move |_, number, stream| {
            if number == 1 {
                at_origin.wait();
                at_origin.wait();
            }
            let fields = format!("{FRESH}Cache-Tag: t\r\n");
            let text = response("200 OK", &fields, &format!("version {number}"));
            let (begin, end) = text.split_at(text.len() - 4);
            stream.write_all(begin.as_bytes()).expect("loopback works");
            if number == 1 {
                at_origin.wait();
                at_origin.wait();
            }
            stream.write_all(end.as_bytes()).expect("loopback works");
        });
        let site = Arc::new(Site::new(&origin));
        let client = std::thread::spawn({
            let site = site.clone();
            move || site.get("/x").content
        });
        gate.wait();
        if purge != "tag=t" {
            // The tags are not known yet.
            site.purge(purge);
            assert_eq!(site.get("/x").content, "version 2", "{purge}");
        }
        gate.wait();
        gate.wait();
        site.purge(purge);
        assert_ne!(site.get("/x").content, "version 1", "{purge}");
        gate.wait();
        let content = client.join().expect("the thread does not panic");
        assert_eq!(content, "version 1");
        assert!(site.get("/x").cache().starts_with("hit"));
    }
}

#[test]
fn a_successful_unsafe_request_invalidates_its_url() {
    let origin = Origin::plain(FRESH, "content");
    let site = Site::new(&origin);
    site.get("/x");
    let posted = site.request("POST", "/x", "Content-Length: 0\r\n");
    assert_eq!(posted.cache(), "fwd=method");
    assert!(site.get("/x").cache().starts_with("fwd=uri-miss"));
}

#[test]
fn a_head_request_is_answered_from_the_stored_response() {
    let origin = Origin::plain(FRESH, "content");
    let site = Site::new(&origin);
    site.get("/x");
    let head = site.request("HEAD", "/x", "");
    assert_eq!((head.status, &*head.content), (200, ""));
    assert_eq!(head.field("content-length"), "7");
    assert_eq!(origin.heads().len(), 1);
}

#[test]
fn http_2_is_served_over_tls() {
    use hyper_util::client::legacy::Client;
    use hyper_util::rt::TokioExecutor;
    use tokio_rustls::rustls::pki_types::CertificateDer;
    use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs::default_provider};

    let made =
        rcgen::generate_simple_self_signed(vec!["localhost".into()]).expect("the input is valid");
    let folder = std::env::temp_dir().join(format!("mayfly-node-tls-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the folder can be written");
    let (certificate, key) = (folder.join("certificate.pem"), folder.join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).expect("the folder can be written");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("the folder can be written");
    let origin = Origin::plain(FRESH, "content");
    let site = Site::with(&origin, |config| {
        config.listen.clear();
        config.listen_tls = vec!["127.0.0.1:0".parse().expect("the text is valid")];
        config.certificate = Some((certificate.clone(), key.clone()));
    });
    std::fs::remove_dir_all(&folder).expect("the folder can be written");
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from(made.cert.der().to_vec()))
        .expect("the input is valid");
    let tls = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the input is valid")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = hyper_rustls::HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_only()
        .enable_http2()
        .build();
    let port = site.running.addresses[0].port();
    site.runtime.block_on(async {
        let client: Client<_, node::body::Content> =
            Client::builder(TokioExecutor::new()).build(connector);
        let url: hyper::Uri = format!("https://localhost:{port}/x")
            .parse()
            .expect("the text is valid");
        for expected in [
            "mayfly; fwd=uri-miss; stored; ttl=60",
            "mayfly; hit; ttl=60",
        ] {
            let request = hyper::Request::get(url.clone()).body(node::body::Content::empty());
            let response = client
                .request(request.expect("the input is valid"))
                .await
                .expect("the node answers");
            assert_eq!(response.version(), hyper::Version::HTTP_2);
            assert_eq!(response.headers()["cache-status"], expected);
            let content = http_body_util::BodyExt::collect(response.into_body()).await;
            assert_eq!(content.expect("the node answers").to_bytes(), "content");
        }
    });
    assert!(origin.heads()[0].contains("x-forwarded-proto: https\r\n"));
}

/// Regression: a renewed certificate was used only after a restart.
#[test]
fn a_renewed_certificate_is_used_after_a_reload() {
    use tokio_rustls::TlsConnector;
    use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
    use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs::default_provider};

    let folder = std::env::temp_dir().join(format!("mayfly-node-renewal-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the folder can be written");
    let (certificate, key) = (folder.join("certificate.pem"), folder.join("key.pem"));
    let renew = || {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]);
        let made = made.expect("the input is valid");
        std::fs::write(&certificate, made.cert.pem()).expect("the folder can be written");
        let text = made.signing_key.serialize_pem();
        std::fs::write(&key, text).expect("the folder can be written");
        CertificateDer::from(made.cert.der().to_vec())
    };
    let first = renew();
    let origin = Origin::plain(FRESH, "content");
    let site = Site::with(&origin, |config| {
        config.listen.clear();
        config.listen_tls = vec!["127.0.0.1:0".parse().expect("the text is valid")];
        config.certificate = Some((certificate.clone(), key.clone()));
    });
    let is_used = |trusted: &CertificateDer<'static>| {
        let mut roots = RootCertStore::empty();
        roots.add(trusted.clone()).expect("the input is valid");
        let tls = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the input is valid")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").expect("the text is valid");
        site.runtime.block_on(async {
            let address = site.running.addresses[0];
            let stream = tokio::net::TcpStream::connect(address).await;
            let stream = stream.expect("loopback works");
            let connected = TlsConnector::from(Arc::new(tls)).connect(name, stream);
            connected.await.is_ok()
        })
    };
    assert!(is_used(&first));
    let second = renew();
    assert!(is_used(&first) && !is_used(&second));
    assert_eq!(site.running.reload(), Ok(true));
    assert!(is_used(&second) && !is_used(&first));
    std::fs::write(&key, "-----BEGIN PRIVATE KEY-----\nMC4").expect("the folder can be written");
    assert!(site.running.reload().is_err());
    assert!(is_used(&second));
    std::fs::remove_dir_all(&folder).expect("the folder can be written");
}

#[test]
fn a_stop_waits_for_open_requests() {
    // Passed when the request is at the origin, and when it is to be answered.
    let gate = Arc::new(Barrier::new(2));
    let at_origin = gate.clone();
    let origin = Origin::start(move |_, _, stream| {
        at_origin.wait();
        at_origin.wait();
        let _ = stream.write_all(response("200 OK", FRESH, "content").as_bytes());
    });
    let Site {
        runtime, running, ..
    } = Site::new(&origin);
    let mut stream = std::net::TcpStream::connect(running.addresses[0]).expect("loopback works");
    stream
        .write_all(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
        .expect("loopback works");
    gate.wait();
    let stopping = runtime.spawn(running.stop());
    gate.wait();
    let received = crate::support::receive(&mut stream);
    assert_eq!((received.status, &*received.content), (200, "content"));
    runtime.block_on(stopping).expect("the node answers");
}

#[test]
fn operators_read_the_status() {
    let origin = Origin::plain("Cache-Control: max-age=60\r\n", "content");
    let site = Site::new(&origin);
    site.get("/x");
    site.get("/x");
    let text = site.admin("GET", "/status", "");
    assert!(text.content.contains("from memory  1 (50.0 %)"), "{text:?}");
    let page = site.admin("GET", "/", "");
    assert_eq!(page.field("content-type"), "text/html; charset=utf-8");
    assert!(page.content.contains(&origin.address.to_string()));
    assert_eq!(site.admin("POST", "/", "").status, 405);
    assert_eq!(site.admin("GET", "/other", "").status, 404);
}
