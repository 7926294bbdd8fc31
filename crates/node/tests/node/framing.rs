//! Framing that two programs could read in two ways, in requests and in responses.

use crate::support::{Origin, Site, response};
use std::io::Write;

const FRESH: &str = "Cache-Control: max-age=60\r\n";
const BEGIN: &str = "POST /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n";
const HIDDEN: &str = "GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n";

/// Whatever the reply is, the origin receives at most one request, with one framing, and never the
/// bytes that were meant to be read as a second one.
#[test]
fn hidden_requests_do_not_reach_the_origin() {
    // Behind hits, and by hyper alone.
    for (is_direct, before) in [(true, 0), (true, 2), (false, 2)] {
        send_hidden_requests(is_direct, before);
    }
}

/// Sends each shape after a number of requests for stored responses.
fn send_hidden_requests(is_direct: bool, before: usize) {
    let origin = Origin::plain(FRESH, "content");
    let site = Site::with(&origin, |config| config.is_direct = is_direct);
    site.get("/stored");
    let hits = "GET /stored HTTP/1.1\r\nHost: a\r\n\r\n".repeat(before);
    let shapes = [
        // Two framings, in both orders and with variations of the name and the value.
        format!(
            "{BEGIN}Content-Length: {}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{HIDDEN}",
            HIDDEN.len() + 5
        ),
        format!("{BEGIN}Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n{HIDDEN}"),
        format!("{BEGIN}Transfer-Encoding: Chunked\r\n\r\n0\r\n\r\n{HIDDEN}"),
        format!(
            "{BEGIN}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{HIDDEN}"
        ),
        format!(
            "{BEGIN}Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n{HIDDEN}"
        ),
        format!("{BEGIN}Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n{HIDDEN}"),
        format!("{BEGIN}Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n{HIDDEN}"),
        format!("{BEGIN}Transfer-Encoding:\tchunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n{HIDDEN}"),
        format!(
            "{BEGIN}Transfer-Encoding: \"chunked\"\r\nContent-Length: 5\r\n\r\n0\r\n\r\n{HIDDEN}"
        ),
        format!("{BEGIN}Transfer_Encoding: chunked\r\nContent-Length: 0\r\n\r\n{HIDDEN}"),
        format!(
            "POST /x HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{HIDDEN}"
        ),
        // Lengths.
        format!("{BEGIN}Content-Length: 0\r\nContent-Length: 0\r\n\r\n{HIDDEN}"),
        format!("{BEGIN}Content-Length: 0, 0\r\n\r\n{HIDDEN}"),
        format!("{BEGIN}Content-Length: 00\r\n\r\n{HIDDEN}"),
        format!("{BEGIN}Content-Length: 0_0\r\n\r\n{HIDDEN}"),
        format!("{BEGIN}Content-Length: 0 \r\n\r\n{HIDDEN}"),
        format!("{BEGIN}Content-Length:\r\n\r\n{HIDDEN}"),
        // Ends of lines, and folded lines.
        format!("{BEGIN}X: y\r\n folded\r\nContent-Length: 0\r\n\r\n{HIDDEN}"),
        format!("{BEGIN}Content-Length: 0\r\n\t5\r\n\r\n{HIDDEN}"),
        format!("{BEGIN}X: y\nContent-Length: 0\r\n\r\n{HIDDEN}"),
        format!("{BEGIN}Content-Length: 0\n\n{HIDDEN}"),
        format!("{BEGIN}Content-Length: 0\r\r\n\r\n{HIDDEN}"),
        format!("{BEGIN}X: y\r\n\rContent-Length: 0\r\n\r\n{HIDDEN}"),
        // Chunks.
        format!("{BEGIN}Transfer-Encoding: chunked\r\n\r\n0\n\n{HIDDEN}"),
        format!("{BEGIN}Transfer-Encoding: chunked\r\n\r\n0;a\nb\r\n\r\n{HIDDEN}"),
        format!("{BEGIN}Transfer-Encoding: chunked\r\n\r\n0;a=\"\r\n\r\n\"{HIDDEN}"),
        format!("{BEGIN}Transfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n{HIDDEN}"),
        format!("{BEGIN}Transfer-Encoding: chunked\r\n\r\n00000000000000000000000\r\n\r\n{HIDDEN}"),
        format!("{BEGIN}Transfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n\r\n{HIDDEN}"),
        format!("{BEGIN}Transfer-Encoding: chunked\r\n\r\n1\r\na0\r\n\r\n{HIDDEN}"),
        format!("{BEGIN}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\n0\r\n\r\n{HIDDEN}"),
        // Other protocols.
        format!(
            "{BEGIN}Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nContent-Length: 0\r\n\r\n{HIDDEN}"
        ),
        format!(
            "{BEGIN}Upgrade: websocket\r\nSec-WebSocket-Version: 777\r\nContent-Length: 0\r\n\r\n{HIDDEN}"
        ),
        format!("{BEGIN}Expect: 100-continue\r\nContent-Length: 0\r\n\r\n{HIDDEN}"),
    ];
    // A path for each shape: the node may reply before the origin has read the request.
    let path = |number: usize| format!("/x{number}");
    for (number, shape) in shapes.iter().enumerate() {
        let shape = shape.replacen("/x", &path(number), 1);
        site.raw(format!("{hits}{shape}").as_bytes());
    }
    site.stop();
    let mut heads = origin.settled_heads();
    heads.retain(|head| !head.starts_with("get /stored "));
    for (number, shape) in shapes.iter().enumerate() {
        let begin = format!("post {} http/1.1\r\n", path(number));
        let of_shape: Vec<_> = heads
            .extract_if(.., |head| head.starts_with(&begin))
            .collect();
        assert!(of_shape.len() <= 1, "{shape:?}: {of_shape:?}");
        for head in of_shape {
            let lengths = head.matches("content-length").count();
            let codings = head.matches("transfer-encoding").count();
            assert!(lengths + codings <= 1, "{shape:?}: {head}");
            assert!(!head.contains("upgrade"), "{shape:?}: {head}");
            assert!(!head.contains("\r\n "), "{shape:?}: {head}");
        }
    }
    assert!(heads.is_empty(), "requests that nobody has sent: {heads:?}");
}

/// Regression: such a request reached the origin with its length and without its content, so that
/// the origin took the beginning of the next request for the content.
#[test]
fn a_request_with_content_does_not_leave_http() {
    let origin = Origin::plain(FRESH, "content");
    let site = Site::new(&origin);
    let fields = "Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 3\r\n";
    site.raw(format!("GET /x HTTP/1.1\r\nHost: a\r\n{fields}\r\nabc").as_bytes());
    site.stop();
    let heads = origin.settled_heads();
    assert_eq!(heads.len(), 1, "{heads:?}");
    assert!(heads[0].contains("content-length: 3\r\n"), "{heads:?}");
    assert!(!heads[0].contains("upgrade"), "{heads:?}");
}

#[test]
fn connection_does_not_remove_the_fields_of_the_node() {
    let origin = Origin::plain(FRESH, "content");
    let site = Site::new(&origin);
    let listed = "Connection: close, X-Forwarded-For, Via, Host, Cache-Control\r\n";
    let text = format!("GET /x HTTP/1.1\r\nHost: a\r\n{listed}\r\n");
    site.raw(text.as_bytes());
    let head = origin.heads().remove(0);
    for field in [
        "host: a\r\n",
        "via: 1.1 mayfly\r\n",
        "x-forwarded-for: 127.0.0.1\r\n",
    ] {
        assert!(head.contains(field), "{head}");
    }
}

#[test]
fn bytes_behind_the_length_are_no_response() {
    // The origin keeps its connection open and sends more than it has announced.
    let origin = Origin::start(|_, _, stream| {
        let poison = format!("HTTP/1.1 200 OK\r\n{FRESH}Content-Length: 6\r\n\r\npoison");
        let text = format!("HTTP/1.1 200 OK\r\n{FRESH}Content-Length: 3\r\n\r\nabc{poison}");
        let _ = stream.write_all(text.as_bytes());
    });
    let site = Site::new(&origin);
    for path in ["/1", "/2", "/3"] {
        for _ in 0..2 {
            assert_eq!(site.get(path).content, "abc", "{path}");
        }
    }
    assert_eq!(origin.heads().len(), 3);
}

#[test]
fn content_of_responses_without_content_is_ignored() {
    let origin = Origin::start(|_, number, stream| {
        let status = ["204 No Content", "304 Not Modified"][number % 2];
        let text = format!("HTTP/1.1 {status}\r\n{FRESH}Content-Length: 3\r\n\r\nabc");
        let _ = stream.write_all(text.as_bytes());
    });
    let site = Site::new(&origin);
    for path in ["/1", "/2"] {
        assert_eq!(site.get(path).content, "", "{path}");
    }
}

#[test]
fn heads_of_responses_are_bounded() {
    let origin = Origin::start(|head, _, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n");
        if head.starts_with("get /one ") {
            let _ = stream.write_all(b"X: ");
        }
        // Until the node closes the connection.
        while stream.write_all(b"X-Y: aaaaaaaaaaaaaaaa\r\n").is_ok() {}
    });
    let site = Site::new(&origin);
    for path in ["/one", "/many"] {
        assert_eq!(site.get(path).status, 502, "{path}");
    }
    assert_eq!(site.running.node.store.stats().len, 0);
}

#[test]
fn ranges_by_the_thousand_cost_no_more_than_the_whole() {
    let origin = Origin::plain(FRESH, "0123456789");
    let site = Site::new(&origin);
    let many = |count: usize, range: &str| {
        let ranges = vec![range; count].join(",");
        format!("Range: bytes={ranges}\r\n")
    };
    for fields in [many(2_000, "0-"), many(2_000, "0-0"), many(17, "9-9")] {
        let received = site.get_with("/x", &fields);
        assert_eq!((received.status, &*received.content), (200, "0123456789"));
    }
    for fields in [many(16, "0-"), many(16, "-10")] {
        let received = site.get_with("/x", &fields);
        assert_eq!((received.status, &*received.content), (206, "0123456789"));
    }
    for range in ["10-", "10-20", "99999999999999999999-", "-0"] {
        let received = site.get_with("/x", &format!("Range: bytes={range}\r\n"));
        assert_eq!(received.status, 416, "{range}");
        assert_eq!(received.field("content-range"), "bytes */10");
    }
    for range in ["5-4", "a-b", "--1", "1-2-3", "", "0-0;1-1"] {
        let received = site.get_with("/x", &format!("Range: bytes={range}\r\n"));
        assert_eq!((received.status, &*received.content), (200, "0123456789"));
    }
    assert_eq!(origin.heads().len(), 1);
}

#[test]
fn a_part_that_contradicts_itself_is_not_stored() {
    let parts = [
        ("bytes 0-4/10", "0123"),
        ("bytes 0-3/10", "01234"),
        ("bytes 3-0/10", "0123"),
        ("bytes 0-3/2", "0123"),
        ("bytes 0-3/*", "0123"),
        ("bytes 0-18446744073709551615/18446744073709551615", "0123"),
        ("lines 0-3/10", "0123"),
    ];
    let origin = Origin::start(move |_, number, stream| {
        let (range, content) = parts[number - 1];
        let fields = format!("{FRESH}Content-Range: {range}\r\n");
        let text = response("206 Partial Content", &fields, content);
        let _ = stream.write_all(text.as_bytes());
    });
    let site = Site::new(&origin);
    for number in 0..parts.len() {
        site.get_with(&format!("/{number}"), "Range: bytes=0-3\r\n");
    }
    assert_eq!(site.running.node.store.stats().len, 0);
}

/// Regression: content that the origin had compressed as a transfer coding was passed on without
/// the name of that coding.
#[test]
fn transfer_codings_other_than_chunked_are_refused() {
    for coding in ["gzip, chunked", "gzip"] {
        let origin = Origin::start(move |_, _, stream| {
            let text = format!(
                "HTTP/1.1 200 OK\r\n{FRESH}Connection: close\r\nTransfer-Encoding: {coding}\r\n\r\n\
                 3\r\nabc\r\n0\r\n\r\n"
            );
            let _ = stream.write_all(text.as_bytes());
        });
        let site = Site::new(&origin);
        assert_eq!(site.get("/x").status, 502, "{coding}");
    }
    let origin = Origin::plain(FRESH, "content");
    let site = Site::new(&origin);
    let shape = format!("{BEGIN}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n");
    assert_eq!(site.raw(shape.as_bytes()).status, 501);
    assert_eq!(origin.heads(), Vec::<String>::new());
}
