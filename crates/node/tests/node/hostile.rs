//! Clients and origins that misbehave.

use crate::support::{Origin, Received, Site, response};
use std::io::{Read, Write};
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::Duration;

const FRESH: &str = "Cache-Control: max-age=60\r\n";

#[test]
fn ambiguous_framing_does_not_reach_the_origin() {
    let origin = Origin::plain("", "content");
    let site = Site::new(&origin);
    let begin = "POST /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n";
    let hidden = "GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n";
    let shapes = [
        format!("{begin}Content-Length: 5\r\nContent-Length: 6\r\n\r\n{hidden}"),
        format!("{begin}Content-Length: 5, 6\r\n\r\n{hidden}"),
        format!("{begin}Content-Length: +5\r\n\r\n{hidden}"),
        format!("{begin}Content-Length: 0x5\r\n\r\n{hidden}"),
        format!("{begin}Content-Length: -1\r\n\r\n{hidden}"),
        format!("{begin}Content-Length : 5\r\n\r\n{hidden}"),
        format!("{begin}Content-Length: 99999999999999999999999\r\n\r\n{hidden}"),
        format!("{begin}Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n{hidden}"),
        format!("{begin}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n{hidden}"),
        format!("{begin}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n{hidden}"),
        format!("{begin} Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n{hidden}"),
        format!("{begin}Transfer-Encoding\r\n : chunked\r\n\r\n0\r\n\r\n{hidden}"),
        format!("{begin}X: y\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{hidden}"),
        format!("{begin}X: y\0\r\n\r\n{hidden}"),
        format!("POST /x HTTP/1.1\r\nConnection: close\r\n\r\n{hidden}"),
        format!("POST /x HTTP/1.1\r\nHost: a\r\nHost: b\r\nConnection: close\r\n\r\n{hidden}"),
        format!("POST http://b/x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n{hidden}"),
    ];
    for shape in &shapes {
        let received = site.raw(shape.as_bytes());
        assert_eq!(received.status, 400, "{shape:?}: {received:?}");
    }
    assert_eq!(origin.heads(), Vec::<String>::new());
    // hyper lets the chunks win. What is forwarded has one framing, and one request.
    let both =
        format!("{begin}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{hidden}");
    site.raw(both.as_bytes());
    for head in origin.heads() {
        assert!(head.starts_with("post /x "), "{head}");
        let framings =
            head.matches("content-length:").count() + head.matches("transfer-encoding:").count();
        assert!(framings <= 1, "{head}");
    }
}

#[test]
fn malformed_chunks_end_the_connection() {
    let origin = Origin::start(|_, _, stream| {
        let mut rest = vec![];
        let _ = stream.read_to_end(&mut rest);
        let _ = stream.write_all(response("200 OK", "", &format!("{}", rest.len())).as_bytes());
    });
    let site = Site::new(&origin);
    for chunks in [
        "zz\r\nabc\r\n0\r\n\r\n",
        "-1\r\n\r\n",
        "ffffffffffffffffff\r\n",
        "3\r\nabcd\r\n0\r\n\r\n",
    ] {
        let text = format!(
            "POST /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}"
        );
        let received = site.raw(text.as_bytes());
        assert!(
            matches!(received.status, 0 | 400 | 502),
            "{chunks:?}: {received:?}"
        );
    }
}

#[test]
fn oversized_heads_are_refused() {
    let origin = Origin::plain(FRESH, "content");
    let site = Site::new(&origin);
    let long = "a".repeat(64 << 10);
    assert_eq!(site.get_with("/x", &format!("X: {long}\r\n")).status, 431);
    assert_eq!(site.get(&format!("/{}", &long[..10_000])).status, 414);
    let many: String = (0..200).map(|n| format!("X-{n}: 1\r\n")).collect();
    assert_eq!(site.get_with("/x", &many).status, 431);
    let listed = vec!["x"; 100].join(",");
    assert_eq!(
        site.get_with("/x", &format!("Connection: {listed}\r\n"))
            .status,
        400
    );
    assert_eq!(origin.heads().len(), 0);
}

#[test]
fn fields_outside_of_the_key_are_not_forwarded() {
    let origin = Origin::plain(FRESH, "content");
    let site = Site::new(&origin);
    let fields = "X-Forwarded-Host: evil\r\nX-Original-URL: /evil\r\nX-Rewrite-URL: /evil\r\n\
        X-HTTP-Method-Override: POST\r\nForwarded: host=evil\r\nX-Forwarded-Scheme: evil\r\n\
        X-Forwarded-For: evil\r\nX-Host: evil\r\n";
    site.get_with("/x", fields);
    let head = origin.heads().remove(0);
    assert!(!head.contains("evil"), "{head}");
    assert!(head.contains("x-forwarded-for: 127.0.0.1\r\n"), "{head}");
}

#[test]
fn a_get_with_a_body_is_not_stored() {
    let origin = Origin::plain(FRESH, "content");
    let site = Site::new(&origin);
    let text = "GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc";
    assert_eq!(site.raw(text.as_bytes()).cache(), "fwd=method");
    assert!(site.get("/x").cache().starts_with("fwd=uri-miss"));
}

#[test]
fn a_loop_is_detected() {
    let origin = Origin::plain(FRESH, "content");
    let site = Site::new(&origin);
    assert_eq!(
        site.get_with("/x", "Via: 1.1 other, 1.1 mayfly\r\n").status,
        508
    );
    assert_eq!(site.get_with("/x", "Via: 1.1 other\r\n").status, 200);
}

#[test]
fn a_client_that_does_not_finish_its_head_is_cut_off() {
    let origin = Origin::plain(FRESH, "content");
    let site = Site::with(&origin, |config| {
        config.limits.head_time = Duration::from_millis(50);
    });
    // The connection ends although the client keeps it open.
    let received = site.raw(b"GET /x HTTP/1.1\r\nHost: a\r\nX: ");
    assert!(matches!(received.status, 0 | 408), "{received:?}");
    assert_eq!(origin.heads().len(), 0);
}

/// Returns a frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0, 0, payload.len() as u8, kind, flags, 0, 0, 0, stream];
    frame.extend_from_slice(payload);
    frame
}

/// Regression: flushes of the server counted as progress, so that the connection stayed open.
#[test]
fn a_silent_client_of_http2_is_cut_off() {
    let origin = Origin::plain(FRESH, "content");
    let site = Site::with(&origin, |config| {
        config.limits.client_idle = Duration::from_millis(400);
    });
    const BEGIN: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let silent = [BEGIN, &frame(4, 0, 0, &[])].concat();
    // SETTINGS_INITIAL_WINDOW_SIZE 0, and a request whose content never has a window.
    let settings = frame(4, 0, 0, &[0, 4, 0, 0, 0, 0]);
    let request = frame(1, 5, 1, &[0x82, 0x86, 0x84, 0x41, 1, b'a']);
    let stalled = [BEGIN, &settings, &request].concat();
    for bytes in [silent, stalled] {
        let mut stream = site.connect();
        stream.write_all(&bytes).expect("loopback works");
        let mut received = vec![];
        // The connection ends although the client keeps it open.
        let read = stream.read_to_end(&mut received);
        read.expect("the node closes the connection");
        assert!(!received.is_empty());
    }
    assert_eq!(origin.heads().len(), 1);
}

#[test]
fn a_client_that_does_not_read_is_cut_off() {
    let (ended, has_ended) = channel::<()>();
    let ended = Mutex::new(ended);
    let origin = Origin::start(move |_, _, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
        while stream.write_all(&[b'x'; 65_536]).is_ok() {}
        ended
            .lock()
            .expect("no thread panics")
            .send(())
            .expect("the other side waits");
    });
    let site = Site::with(&origin, |config| {
        config.limits.client_idle = Duration::from_millis(100);
    });
    let mut stream = site.connect();
    stream
        .write_all(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
        .expect("loopback works");
    // The origin's connection ends because the client's did.
    has_ended.recv().expect("the other side waits");
    drop(stream);
}

#[test]
fn an_origin_that_stalls_is_given_up() {
    let (release, released) = channel::<()>();
    let released = Mutex::new(released);
    let origin = Origin::start(move |_, _, _| {
        let _ = released.lock().expect("no thread panics").recv();
    });
    let site = Site::with(&origin, |config| {
        config.limits.origin_head_time = Duration::from_millis(50);
    });
    assert_eq!(site.get("/x").status, 504);
    drop(release);
}

#[test]
fn an_origin_that_stalls_in_its_content_is_given_up() {
    let (release, released) = channel::<()>();
    let released = Mutex::new(released);
    let origin = Origin::start(move |_, _, stream| {
        let text = response("200 OK", FRESH, "0123456789");
        stream
            .write_all(&text.as_bytes()[..text.len() - 5])
            .expect("loopback works");
        let _ = released.lock().expect("no thread panics").recv();
    });
    let site = Site::with(&origin, |config| {
        config.limits.origin_idle = Duration::from_millis(50);
    });
    assert!(site.get("/x").content.len() < 10);
    assert_eq!(site.running.node.store.stats().len, 0);
    drop(release);
}

#[test]
fn truncated_content_is_neither_completed_nor_stored() {
    let origin = Origin::start(|_, number, stream| {
        let text = response("200 OK", FRESH, "0123456789");
        let cut = if number == 1 {
            text.len() - 5
        } else {
            text.len()
        };
        stream
            .write_all(&text.as_bytes()[..cut])
            .expect("loopback works");
    });
    let site = Site::new(&origin);
    let cut = site.get("/x");
    // The connection may be cut before the bytes that came, or even the head, are sent.
    assert!("01234".starts_with(&cut.content), "{cut:?}");
    assert!(
        cut.text.is_empty() || cut.field("content-length") == "10",
        "{cut:?}"
    );
    assert_eq!(site.get("/x").content, "0123456789");
    assert!(site.get("/x").cache().starts_with("hit"));
    assert_eq!(origin.heads().len(), 2);
}

#[test]
fn truncated_chunks_are_not_ended_properly() {
    let origin = Origin::start(|_, _, stream| {
        let text =
            format!("HTTP/1.1 200 OK\r\n{FRESH}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
        stream.write_all(text.as_bytes()).expect("loopback works");
    });
    let site = Site::new(&origin);
    let cut = site.get("/x");
    // The last chunk would say that the content is complete.
    assert!(!cut.content.ends_with("0\r\n\r\n"), "{cut:?}");
    assert_eq!(site.running.node.store.stats().len, 0);
}

#[test]
fn endless_content_is_streamed_and_ends_with_its_client() {
    let (ended, has_ended) = channel::<()>();
    let ended = Mutex::new(ended);
    let origin = Origin::start(move |_, _, stream| {
        let head = format!("HTTP/1.1 200 OK\r\n{FRESH}Connection: close\r\n\r\n");
        let _ = stream.write_all(head.as_bytes());
        while stream.write_all(&[b'x'; 65_536]).is_ok() {}
        ended
            .lock()
            .expect("no thread panics")
            .send(())
            .expect("the other side waits");
    });
    let site = Site::with(&origin, |config| config.object_bytes_max = 1 << 20);
    let mut stream = site.connect();
    stream
        .write_all(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
        .expect("loopback works");
    // Four times what may be stored.
    let mut bytes = vec![0; 4 << 20];
    stream.read_exact(&mut bytes).expect("loopback works");
    drop(stream);
    has_ended.recv().expect("the other side waits");
    assert_eq!(site.running.node.store.stats().len, 0);
}

#[test]
fn responses_with_ambiguous_framing_are_refused() {
    let heads = [
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
        "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nabcdef",
        "HTTP/1.1 99 OK\r\n\r\n",
        "HTTP/9.1 200 OK\r\n\r\n",
        "nonsense\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX\r\n\r\n",
    ];
    let origin = Origin::start(move |head, _, stream| {
        let number: usize = head
            .split(['/', ' '])
            .nth(2)
            .expect("the input is valid")
            .parse()
            .expect("the text is valid");
        let _ = stream.write_all(heads[number].as_bytes());
    });
    let site = Site::new(&origin);
    for (number, head) in heads.into_iter().enumerate() {
        let Received { status, .. } = site.get(&format!("/{number}"));
        assert_eq!(status, 502, "{head}");
    }
    assert_eq!(site.running.node.store.stats().len, 0);
}

/// A range beyond the end was answered with 416, which was stored and sent to clients that had
/// requested no range.
#[test]
fn a_refused_range_is_not_sent_to_others() {
    let origin = Origin::start(|head, _, stream| {
        let text = match head.contains("range: bytes=500-") {
            true => {
                let fields = format!("{FRESH}Content-Range: bytes */7\r\n");
                response("416 Range Not Satisfiable", &fields, "")
            }
            false => response("200 OK", FRESH, "content"),
        };
        stream.write_all(text.as_bytes()).expect("loopback works");
    });
    let site = Site::new(&origin);
    let far = "Range: bytes=500-\r\n";
    assert_eq!(site.get_with("/x", far).status, 416);
    let whole = site.get("/x");
    assert_eq!((whole.status, &*whole.content), (200, "content"));
    assert!(whole.cache().starts_with("fwd=uri-miss; stored"));
    assert_eq!(site.get_with("/x", far).status, 416);
    assert!(site.get("/x").cache().starts_with("hit"));
}

/// Programs with the interface CGI, WSGI or similar ones read `X_Forwarded_Host` as
/// `X-Forwarded-Host`, and `Proxy` as the address of a proxy.
#[test]
fn fields_that_programs_read_as_others_do_not_reach_the_origin() {
    let origin = Origin::plain(FRESH, "content");
    let site = Site::new(&origin);
    let names = [
        "X_Forwarded_Host",
        "X-Forwarded_Host",
        "Accept_Encoding",
        "A_name_that_is_longer_than_all_of_those_with_a_kind",
        "Proxy",
        "X-Forwarded-Ssl",
        "Front-End-Https",
        "X-Original-Uri",
    ];
    for (index, name) in names.iter().enumerate() {
        let path = format!("/{index}");
        site.get_with(&path, &format!("{name}: evil\r\n"));
    }
    let heads = origin.heads();
    assert_eq!(heads.len(), names.len());
    for head in heads {
        assert!(!head.contains("evil"), "{head}");
    }
}
