//! Settings of operators: several servers, rules for hosts and paths, proxies before the node, and
//! connections that leave HTTP.

use crate::support::{Origin, Site, TOKEN, response};
use node::{File, Health};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::time::Duration;

const FRESH: &str = "Cache-Control: max-age=60\r\n";

/// Returns an address on which nothing listens.
fn unused() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback works");
    listener.local_addr().expect("loopback works")
}

/// Starts a node with the tables of a configuration file. `ORIGIN` stands for the origin's address.
fn site(origin: &Origin, tables: &str) -> Site {
    let file = File::parse(&tables.replace("ORIGIN", &origin.address.to_string()));
    let file = file.expect("the text is valid");
    Site::with(origin, |config| {
        if !file.origins.is_empty() {
            config.origins = file.origins;
        }
        config.rules = file.rules;
    })
}

/// Starts an origin that sends the target and the cookies of each request.
fn echo(fields: &'static str) -> Origin {
    Origin::start(move |head, _, stream| {
        let target = head.split(' ').nth(1).unwrap_or_default();
        let cookies = head.lines().find(|line| line.starts_with("cookie: "));
        let content = format!("{target} {}", cookies.unwrap_or_default());
        let _ = stream.write_all(response("200 OK", fields, &content).as_bytes());
    })
}

#[test]
fn another_server_answers_if_one_cannot_be_reached() {
    let origin = Origin::plain(FRESH, "hello");
    let tables = format!(
        "[[origin]]\nservers = [\"http://{}\", \"http://ORIGIN\"]",
        unused()
    );
    let site = site(&origin, &tables);
    for path in ["/1", "/2", "/3", "/4", "/5", "/6", "/7", "/8"] {
        assert_eq!(site.get(path).status, 200);
    }
    assert_eq!(origin.heads().len(), 8);
    let status = site.admin("GET", "/status", "").content;
    assert!(status.contains("down for 0 s"), "{status}");
    // A POST is no probe, so that the server that is down does not receive it.
    let post = site.request("POST", "/", "Content-Length: 0\r\n");
    assert_eq!(post.status, 200);
}

#[test]
fn a_request_with_content_is_sent_to_one_server_only() {
    let origin = Origin::plain(FRESH, "hello");
    let (one, other) = (unused(), unused());
    let tables = format!("[[origin]]\nservers = [\"http://{one}\", \"http://{other}\"]");
    let site = site(&origin, &tables);
    let requests = "mayfly_edge_origin_requests_total ";
    let count = || {
        let metrics = site.admin("GET", "/metrics", "").content;
        let line = metrics.lines().find(|line| line.starts_with(requests));
        line.expect("the metric").to_owned()
    };
    assert_eq!(count(), format!("{requests}0"));
    let mut stream = site.connect();
    let post = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx";
    stream.write_all(post).expect("loopback works");
    let mut status = [0; 12];
    stream.read_exact(&mut status).expect("the node answers");
    assert_eq!(&status, b"HTTP/1.1 502");
    assert_eq!(count(), format!("{requests}1"));
}

#[test]
fn a_server_whose_health_check_fails_receives_no_requests() {
    let good = Origin::plain(FRESH, "good");
    let sick = Origin::start(|head, _, stream| {
        let status = match head.starts_with("get /health ") {
            true => "503 sick",
            false => "200 OK",
        };
        let _ = stream.write_all(response(status, FRESH, "sick").as_bytes());
    });
    let site = Site::with(&good, |config| {
        let sick = format!("http://{}", sick.address).parse();
        let origin = &mut config.origins[0];
        origin.servers.push(sick.expect("the text is valid"));
        origin.health = Some(Health {
            path: "/health".into(),
            interval: Duration::from_millis(100),
        });
    });
    // The checks are the only requests until the state is known.
    while !site
        .admin("GET", "/status", "")
        .content
        .contains("unhealthy")
    {
        std::thread::yield_now();
    }
    for path in ["/1", "/2", "/3", "/4"] {
        assert_eq!(site.get(path).content, "good");
    }
}

#[test]
fn rules_give_lifetimes_and_remove_arguments_and_cookies() {
    let origin = echo("");
    let site = site(
        &origin,
        "[[rule]]\npaths = [\"/s/*\"]\nlifetime = \"1m\"\nignore-arguments = [\"utm_*\"]\n\
         cookies = [\"lang\"]\n[[rule]]\npaths = [\"/b/*\"]\nbypass = true\n\
         [[rule]]\nlifetime = \"1m\"\nbypass-cookies = [\"session*\"]",
    );
    assert_eq!(site.get("/s/x?utm_a=1&b=2").content, "/s/x?b=2 ");
    let hit = site.get("/s/x?b=2&utm_b=3");
    assert_eq!(
        (hit.content.as_str(), hit.cache()),
        ("/s/x?b=2 ", "hit; ttl=60")
    );
    // Removed cookies select no response, and the listed one does.
    assert!(
        site.get_with("/s/x?b=2", "Cookie: z=1\r\n")
            .cache()
            .starts_with("hit")
    );
    let english = site.get_with("/s/x?b=2", "Cookie: z=1; lang=en\r\n");
    assert_eq!(english.content, "/s/x?b=2 cookie: lang=en");
    assert_eq!(english.field("vary"), "cookie");
    let again = site.get_with("/s/x?b=2", "Cookie: lang=en; y=2\r\n");
    assert!(again.cache().starts_with("hit") && again.content.ends_with("lang=en"));
    for _ in 0..2 {
        assert_eq!(site.get("/b/x").cache(), "fwd=bypass");
    }
    assert!(site.get("/x").cache().contains("stored"));
    assert_eq!(
        site.get_with("/x", "Cookie: session_1=y\r\n").cache(),
        "fwd=bypass"
    );
    assert!(
        site.get_with("/x", "Cookie: a=b\r\n")
            .cache()
            .starts_with("hit")
    );
    // A purge concerns the URL without what is removed.
    assert_eq!(site.purge("url=http://a/s/x?b=2%26utm_c=1"), 1);
    assert!(site.get("/s/x?b=2").cache().starts_with("fwd=uri-miss"));
}

#[test]
fn origins_and_rules_are_replaced_while_the_node_serves() {
    let (old, new) = (Origin::plain(FRESH, "old"), Origin::plain("", "new"));
    let site = site(&old, "[[rule]]\npaths = [\"/b\"]\nbypass = true");
    assert_eq!(site.get("/a").content, "old");
    let mut config = site.running.node.settings().clone();
    config.origins = vec![
        format!("http://{}", new.address)
            .parse()
            .expect("the text is valid"),
    ];
    config.rules = File::parse("[[rule]]\nlifetime = 9")
        .expect("the text is valid")
        .rules;
    let replaced = site
        .runtime
        .block_on(async { site.running.replace(config.clone()) });
    assert_eq!(replaced, Ok(()));
    assert_eq!(site.get("/a").content, "old");
    assert_eq!(site.get("/b").content, "new");
    assert_eq!(site.get("/b").cache(), "hit; ttl=9");
    config.origins.clear();
    let refused = site
        .runtime
        .block_on(async { site.running.replace(config) });
    assert!(refused.is_err_and(|error| error.contains("no origin")));
    assert_eq!(site.get("/c").content, "new");
}

#[test]
fn the_purge_method_needs_the_token() {
    let origin = Origin::plain(FRESH, "hello");
    let site = Site::new(&origin);
    site.get("/x");
    assert_eq!(site.request("PURGE", "/x", "").status, 403);
    assert!(site.get("/x").cache().starts_with("hit"));
    let token = format!("Authorization: Bearer {TOKEN}\r\n");
    let purged = site.request("PURGE", "/x", &token);
    assert_eq!((purged.status, purged.content.as_str()), (200, "1\n"));
    assert!(site.get("/x").cache().starts_with("fwd=uri-miss"));
    let without = Site::with(&origin, |config| config.purge_token = None);
    // Without a token the method has no meaning here.
    assert_eq!(without.request("PURGE", "/x", "").cache(), "fwd=method");
}

#[test]
fn a_trusted_proxy_names_the_client() {
    let origin = Origin::plain("", "hello");
    let with = |trusted: &str| {
        let trusted = vec![trusted.parse().expect("the text is valid")];
        Site::with(&origin, |config| config.trusted = trusted)
    };
    let fields = "X-Forwarded-For: 9.9.9.9, 192.0.2.7\r\nX-Forwarded-Proto: https\r\n";
    with("127.0.0.0/8").get_with("/", fields);
    with("10.0.0.0/8").get_with("/", fields);
    let heads = origin.heads();
    assert!(
        heads[0].contains("x-forwarded-for: 192.0.2.7\r\n"),
        "{heads:?}"
    );
    assert!(
        heads[0].contains("x-forwarded-proto: https\r\n"),
        "{heads:?}"
    );
    assert!(
        heads[1].contains("x-forwarded-for: 127.0.0.1\r\n"),
        "{heads:?}"
    );
    assert!(
        heads[1].contains("x-forwarded-proto: http\r\n"),
        "{heads:?}"
    );
}

#[test]
fn a_balancer_names_the_client_before_the_first_byte() {
    let origin = Origin::plain("", "hello");
    let with = |trusted: &str| {
        let trusted = vec![trusted.parse().expect("the text is valid")];
        Site::with(&origin, |config| {
            config.trusted = trusted;
            config.has_proxy_header = true;
        })
    };
    let site = with("127.0.0.1");
    let request = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let line = b"PROXY TCP4 192.0.2.7 10.0.0.1 5000 80\r\n";
    let binary = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x08\x0a\0\0\x01\0\x09\0\x50";
    for (header, client) in [(&line[..], "192.0.2.7"), (&binary[..], "192.0.2.8")] {
        assert_eq!(site.raw(&[header, request].concat()).status, 200);
        let wanted = format!("x-forwarded-for: {client}\r\n");
        assert!(
            origin
                .heads()
                .last()
                .is_some_and(|head| head.contains(&wanted))
        );
    }
    assert_eq!(site.raw(request).status, 0);
    assert_eq!(
        with("10.0.0.1").raw(&[&line[..], request].concat()).status,
        0
    );
}

#[test]
fn clients_connect_to_a_unix_socket() {
    let origin = Origin::plain(FRESH, "hello");
    let path = std::env::temp_dir().join(format!("mayfly-sites-{}", std::process::id()));
    for _ in 0..2 {
        // The socket of the first node is still there.
        let site = Site::with(&origin, |config| config.listen_unix = vec![path.clone()]);
        let mut stream = UnixStream::connect(&path).expect("the node listens");
        let request = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        stream.write_all(request).expect("the node listens");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("the node answers");
        assert!(text.ends_with("hello"), "{text}");
        site.stop();
    }
    std::fs::remove_file(&path).expect("the socket is there");
}

/// Regression: the field Upgrade was dropped, so that WebSockets failed.
#[test]
fn a_connection_that_leaves_http_is_passed_through() {
    let origin = Origin::start(|head, _, stream| {
        if !head.contains("upgrade: websocket\r\n") || head.starts_with("get /no ") {
            let _ = stream.write_all(response("400 no", "", "").as_bytes());
            return;
        }
        let agreed = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
            Upgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n";
        let _ = stream.write_all(agreed.as_bytes());
        let mut bytes = [0; 5];
        while stream.read_exact(&mut bytes).is_ok() {
            bytes.reverse();
            let _ = stream.write_all(&bytes);
        }
    });
    let site = Site::new(&origin);
    let request = |path: &str| {
        format!(
            "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Key: k\r\n\r\n"
        )
    };
    let mut stream = site.connect();
    // Bytes may follow the request at once.
    let first = format!("{}abcde", request("/yes"));
    stream.write_all(first.as_bytes()).expect("loopback works");
    let mut received = vec![];
    while !received.ends_with(b"edcba") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("the origin answers");
        received.push(byte[0]);
    }
    let text = String::from_utf8_lossy(&received);
    assert!(text.starts_with("HTTP/1.1 101 "), "{text}");
    assert!(text.contains("sec-websocket-accept: x\r\n"), "{text}");
    assert!(text.contains("upgrade: websocket\r\n"), "{text}");
    stream.write_all(b"12345").expect("loopback works");
    let mut bytes = [0; 5];
    stream.read_exact(&mut bytes).expect("the origin answers");
    assert_eq!(&bytes, b"54321");
    let metrics = site.admin("GET", "/metrics", "").content;
    assert!(
        metrics.contains("mayfly_edge_tunnels_open 1\n"),
        "{metrics}"
    );
    drop(stream);
    let mut stream = site.connect();
    stream
        .write_all(request("/no").as_bytes())
        .expect("loopback works");
    let mut status = [0; 12];
    stream.read_exact(&mut status).expect("the origin answers");
    assert_eq!(&status, b"HTTP/1.1 400");
}
