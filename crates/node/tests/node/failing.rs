//! Origins that fail: stale responses are used, errors are not kept, and recovery costs one
//! request.

use crate::support::{Origin, Received, Site, receive, response};
use node::Reply;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

const WINDOW: &str = "Cache-Control: max-age=10, stale-if-error=300\r\nETag: \"a\"\r\n";

/// Origin that sends a good response first, and then errors with these fields.
fn failing_after_one(status: &'static str, fields: &'static str) -> Origin {
    Origin::start(move |_, number, stream| {
        let text = match number {
            1 => response("200 OK", WINDOW, "good"),
            _ => response(status, fields, "sorry"),
        };
        let _ = stream.write_all(text.as_bytes());
    })
}

/// Regression: an error with a validator or a lifetime replaced the stale response, so that only
/// the first request after it was answered with that response.
#[test]
fn errors_do_not_replace_a_response_that_may_be_used_when_the_origin_fails() {
    for (status, fields) in [
        ("503 Service Unavailable", "ETag: \"e\"\r\n"),
        (
            "502 Bad Gateway",
            "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n",
        ),
        ("500 Internal Server Error", "Cache-Control: max-age=1\r\n"),
        (
            "504 Gateway Timeout",
            "Cache-Control: max-age=60, stale-if-error=60\r\n",
        ),
    ] {
        let origin = failing_after_one(status, fields);
        let site = Site::new(&origin);
        assert_eq!(site.get("/x").content, "good");
        for _ in 0..4 {
            site.clock.advance(Duration::from_secs(11));
            let stale = site.get("/x");
            assert_eq!((stale.status, &*stale.content), (200, "good"), "{status}");
            assert!(
                stale.cache().contains("stale-if-error"),
                "{}",
                stale.cache()
            );
        }
        assert_eq!(site.running.node.replies(Reply::StaleOnError), 4);
    }
}

/// Regression: an error without Vary was selected before older responses with Vary.
#[test]
fn an_error_does_not_hide_a_response_to_other_request_fields() {
    let origin = Origin::start(|_, number, stream| {
        let fields = "Cache-Control: max-age=60\r\nVary: X-Word\r\n";
        let text = match number {
            1 => response("200 OK", fields, "good"),
            _ => response(
                "503 Service Unavailable",
                "Cache-Control: max-age=60\r\n",
                "",
            ),
        };
        let _ = stream.write_all(text.as_bytes());
    });
    let site = Site::new(&origin);
    assert_eq!(site.get_with("/x", "X-Word: a\r\n").content, "good");
    assert_eq!(site.get_with("/x", "X-Word: b\r\n").status, 503);
    let hit = site.get_with("/x", "X-Word: a\r\n");
    assert_eq!((&*hit.content, hit.cache()), ("good", "hit; ttl=60"));
}

/// Regression: an error was kept for revalidation because it had a validator.
#[test]
fn an_error_without_a_lifetime_is_not_stored() {
    let origin = Origin::start(|_, _, stream| {
        let text = response("503 Service Unavailable", "ETag: \"e\"\r\n", "sorry");
        let _ = stream.write_all(text.as_bytes());
    });
    let site = Site::new(&origin);
    for _ in 0..2 {
        let error = site.get("/x");
        assert_eq!((error.status, error.cache()), (503, "fwd=uri-miss"));
    }
    assert!(!origin.heads()[1].contains("if-none-match"));
}

/// Regression: after one error, requests for its URL did not share fetches for two minutes.
#[test]
fn an_error_does_not_end_the_sharing_of_fetches() {
    const CLIENTS: usize = 20;
    let waiting = Arc::new(AtomicUsize::new(0));
    let arrived = waiting.clone();
    let origin = Origin::start(move |_, number, stream| {
        let text = match number {
            1 => response("503 Service Unavailable", "", "sorry"),
            _ => {
                // All clients have connected before the response, and have sent their requests or
                // are about to.
                while arrived.load(Relaxed) < CLIENTS {
                    std::thread::yield_now();
                }
                response("200 OK", "Cache-Control: max-age=60\r\n", "good")
            }
        };
        let _ = stream.write_all(text.as_bytes());
    });
    let site = Site::new(&origin);
    assert_eq!(site.get("/x").status, 503);
    request_together(&site, CLIENTS, &waiting, |reply| {
        assert_eq!(reply.content, "good")
    });
    assert_eq!(origin.heads().len(), 2);
}

/// Requests `/x` from several threads at once, counts the requests that were sent, and passes each
/// reply to a check.
fn request_together(
    site: &Site,
    clients: usize,
    sent: &AtomicUsize,
    check: impl Fn(Received) + Sync,
) {
    std::thread::scope(|scope| {
        for _ in 0..clients {
            scope.spawn(|| {
                let mut stream = site.connect();
                let request = b"GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
                stream.write_all(request).expect("loopback works");
                sent.fetch_add(1, Relaxed);
                check(receive(&mut stream));
            });
        }
    });
}

/// Keeps a connection until the other side closes it, without an answer.
fn hang(stream: &mut TcpStream) {
    let _ = stream.read(&mut [0]);
}

/// Regression: while an origin accepted requests without answering, each request waited 30 s for
/// it although a stale response could be used.
#[test]
fn a_stale_response_does_not_wait_for_an_origin_that_hangs() {
    let origin = Origin::start(|_, number, stream| match number {
        1 => drop(stream.write_all(response("200 OK", WINDOW, "good").as_bytes())),
        _ => hang(stream),
    });
    let site = Site::with(&origin, |config| {
        config.limits.origin_head_time = Duration::from_hours(1);
        config.limits.stale_wait = Duration::from_millis(10);
    });
    site.get("/x");
    site.clock.advance(Duration::from_secs(11));
    for _ in 0..5 {
        let stale = site.get("/x");
        assert_eq!((stale.status, &*stale.content), (200, "good"));
        assert_eq!(stale.cache(), "fwd=stale; ttl=-1; detail=stale-if-error");
    }
    // The origin may read a request after the reply to the client.
    let begun = Instant::now();
    while origin.heads().len() < 2 && begun.elapsed() < Duration::from_secs(60) {
        std::thread::yield_now();
    }
    // The first request was also the only probe.
    assert_eq!(origin.heads().len(), 2);
}

/// Regression: each of several clients sent its own request to an origin that did not answer.
#[test]
fn the_failure_of_a_fetch_is_that_of_all_requests_that_wait_for_it() {
    const CLIENTS: usize = 20;
    let waiting = Arc::new(AtomicUsize::new(0));
    let arrived = waiting.clone();
    let origin = Origin::start(move |_, _, _| {
        while arrived.load(Relaxed) < CLIENTS {
            std::thread::yield_now();
        }
        // The connection ends without an answer.
    });
    let site = Site::new(&origin);
    request_together(&site, CLIENTS, &waiting, |reply| {
        assert_eq!(reply.status, 502)
    });
    // A request that arrives after the failure fetches again.
    assert!(
        origin.heads().len() < CLIENTS / 2,
        "{}",
        origin.heads().len()
    );
}

/// Regression: an origin that did not answer got all requests, and each waited for its time limit.
#[test]
fn an_origin_that_is_down_gets_probes_only_until_it_answers() {
    let origin = Origin::start(|head, _, stream| match head.contains("/up") {
        true => {
            let text = response("200 OK", "Cache-Control: no-store\r\n", "up");
            let _ = stream.write_all(text.as_bytes());
        }
        false => hang(stream),
    });
    let site = Site::with(&origin, |config| {
        // Long enough for an answer on a busy machine.
        config.limits.origin_head_time = Duration::from_secs(1);
    });
    for number in 0..3 {
        assert_eq!(site.get(&format!("/{number}")).status, 504);
    }
    let refused = site.get("/4");
    assert_eq!((refused.status, refused.field("retry-after")), (503, "1"));
    assert_eq!(origin.heads().len(), 3);
    let metrics = site.admin("GET", "/metrics", "").content;
    assert!(
        metrics.contains("mayfly_edge_origins_down 1\n"),
        "{metrics}"
    );
    let failures = "mayfly_edge_origin_failures_total{kind=\"down\"} 1\n";
    assert!(metrics.contains(failures), "{metrics}");
    let status = site.admin("GET", "/status", "").content;
    assert!(status.contains(", down for 0 s"), "{status}");
    site.clock.advance(Duration::from_secs(1));
    assert_eq!(site.get("/5").status, 504);
    assert_eq!(site.get("/up").status, 503);
    site.clock.advance(Duration::from_secs(1));
    for _ in 0..2 {
        assert_eq!(site.get("/up").status, 200);
    }
    assert_eq!(origin.heads().len(), 6);
}

/// Regression: with a stale response, an origin that answered with errors got each request.
#[test]
fn an_origin_with_errors_gets_one_request_a_second_for_a_stale_response() {
    let origin = failing_after_one("503 Service Unavailable", "");
    let site = Site::new(&origin);
    site.get("/x");
    for seconds in [11, 1] {
        site.clock.advance(Duration::from_secs(seconds));
        for _ in 0..10 {
            assert_eq!(site.get("/x").content, "good");
        }
    }
    assert_eq!(origin.heads().len(), 3);
}

#[test]
fn a_response_that_takes_longer_than_its_time_in_total_is_cut() {
    let ended = Arc::new(AtomicUsize::new(0));
    for fields in [
        "Cache-Control: max-age=60\r\n",
        "Cache-Control: no-store\r\n",
    ] {
        let cut = ended.clone();
        let origin = Origin::start(move |_, _, stream| {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n{fields}\r\n");
            let _ = stream.write_all(head.as_bytes());
            // Each part is in time.
            while stream.write_all(b"x").is_ok() {
                std::thread::yield_now();
            }
            cut.fetch_add(1, Relaxed);
        });
        let site = Site::with(&origin, |config| {
            config.limits.origin_total = Some(Duration::from_secs(2));
        });
        assert_eq!(site.get("/x").status, 200);
        site.stop();
        assert!(origin.settled_heads().len() == 1);
    }
    assert_eq!(ended.load(Relaxed), 2);
}

/// Regression: each range of a response that was being fetched was requested from the origin.
#[test]
fn ranges_of_a_response_that_is_being_fetched_come_from_that_fetch() {
    const CLIENTS: usize = 10;
    let waiting = Arc::new(AtomicUsize::new(0));
    let arrived = waiting.clone();
    let origin = Origin::start(move |_, _, stream| {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 40\r\nCache-Control: max-age=60\r\n\r\n";
        let _ = stream.write_all(head.as_bytes());
        while arrived.load(Relaxed) < CLIENTS {
            std::thread::yield_now();
        }
        let _ = stream.write_all(&[b'a'; 40]);
    });
    let site = Site::new(&origin);
    let mut whole = site.connect();
    let request = "GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n";
    let sent = whole.write_all(format!("{request}\r\n").as_bytes());
    sent.expect("loopback works");
    // The fetch has begun once its head is here.
    whole.read_exact(&mut [0; 12]).expect("loopback works");
    std::thread::scope(|scope| {
        for first in 0..CLIENTS {
            let (waiting, site) = (&waiting, &site);
            scope.spawn(move || {
                let mut stream = site.connect();
                let range = format!("{request}Range: bytes={first}-{}\r\n\r\n", first + 2);
                stream.write_all(range.as_bytes()).expect("loopback works");
                waiting.fetch_add(1, Relaxed);
                let part = receive(&mut stream);
                assert_eq!((part.status, &*part.content), (206, "aaa"));
            });
        }
    });
    assert_eq!(origin.heads().len(), 1);
}
