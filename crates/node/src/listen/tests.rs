use super::*;
use crate::clock::{Clock, ManualClock};
use crate::object::{Head, Object};
use crate::rules::freshness::Terms;
use crate::rules::key::Key;
use crate::rules::vary::Selection;
use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{HeaderMap, HeaderValue};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::JoinHandle;
use tokio::time::Instant;

const NOW_MS: u64 = 1_700_000_000_000;

/// Returns a node with some responses, and an origin that refuses connections.
fn node(is_direct: bool) -> Arc<Node> {
    let config = Config {
        listen: vec!["127.0.0.1:0".parse().expect("the text is valid")],
        origins: vec!["http://127.0.0.1:1".parse().expect("the text is valid")],
        clock: Clock::Manual(ManualClock::new(NOW_MS)),
        is_direct,
        ..Config::default()
    };
    let node = Arc::new(Node::new(config).expect("the settings are valid"));
    put(&node, "/x", "content x");
    put(&node, "/y", "content of y");
    put(&node, "/large", &"0123456789".repeat(1_500));
    node
}

fn put(node: &Node, path: &str, content: &str) {
    let mut headers = HeaderMap::new();
    headers.insert("etag", HeaderValue::from_static("\"v\""));
    headers.insert(
        "date",
        HeaderValue::from_static("Tue, 14 Nov 2023 22:13:20 GMT"),
    );
    let head = Head {
        status: StatusCode::OK,
        headers,
        terms: Terms {
            received_ms: NOW_MS,
            initial_age_ms: 5_000,
            fresh_ms: 60_000,
            revalidate_ms: 0,
            error_ms: 0,
            keep_ms: 0,
            is_always_validated: false,
            must_revalidate: false,
        },
        selection: Selection::default(),
        part: None,
        tags: [].into(),
        coded: None,
    };
    let object = Object::new(Arc::new(head), vec![Bytes::from(content.to_owned())]);
    let key = Key::parse(&format!("http://a{path}")).expect("the text is valid");
    assert!(node.store.put(&key, &object, node.store.purge_count()));
}

type Served = JoinHandle<Result<(), Failure>>;

/// Connects a client, by a pipe with room for a number of bytes in each direction.
fn connect(node: &Arc<Node>, room: usize) -> (DuplexStream, Served, watch::Sender<bool>) {
    let (near, far) = duplex(room);
    let (stop, stopped) = watch::channel(false);
    let node = node.clone();
    let client = Client {
        address: [127, 0, 0, 1].into(),
        is_tls: false,
        is_peer: false,
    };
    let served = tokio::spawn(async move { serve_client(&node, near, client, stopped).await });
    (far, served, stop)
}

/// Sends bytes, and returns everything received until the end of the connection.
async fn replies(node: &Arc<Node>, room: usize, bytes: &[u8]) -> String {
    let (far, served, _stop) = connect(node, room);
    let (mut from, mut to) = tokio::io::split(far);
    let mut received = vec![];
    let write = async {
        // The node may close before it has read everything.
        let _ = to.write_all(bytes).await;
    };
    let read = async {
        let _ = from.read_to_end(&mut received).await;
    };
    tokio::join!(write, read);
    let _ = served.await.expect("no panic");
    let text = String::from_utf8(received).expect("the contents are text");
    let lines = text.split_inclusive("\r\n");
    lines.filter(|line| !line.starts_with("date: ")).collect()
}

const LAST: &str = "GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
const HIT: &str = "GET /x HTTP/1.1\r\nHost: a\r\n\r\n";
const HIT_Y: &str = "GET /y HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n";
const HEAD: &str = "HEAD /y HTTP/1.1\r\nHost: a\r\n\r\n";
const LARGE: &str = "GET /large HTTP/1.1\r\nHost: a\r\n\r\n";
const MISS: &str = "GET /miss HTTP/1.1\r\nHost: a\r\n\r\n";
const RANGE: &str = "GET /x HTTP/1.1\r\nHost: a\r\nRange: bytes=1-3\r\n\r\n";
const SAME: &str = "GET /x HTTP/1.1\r\nHost: a\r\nIf-None-Match: \"v\"\r\n\r\n";
const POST: &str = "POST /y HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nGET /";

/// Returns scripts of requests, each of which ends its connection.
fn scripts() -> Vec<String> {
    let scripts: [&[&str]; 9] = [
        &[LAST],
        &[HIT, HIT_Y, LAST],
        &[HIT, MISS, HIT, MISS, LAST],
        &[HEAD, RANGE, HIT, SAME, HEAD, LAST],
        &[LARGE, HIT, LARGE, LAST],
        &[HIT, "GET /x HTTP/1.0\r\nHost: a\r\n\r\n"],
        &[HIT, "GET /x HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", LAST],
        &[HIT, "GET /x HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n"],
        &[HIT, "\r\nGET /x HTTP/1.1\nHost: a\n\n", LAST],
    ];
    scripts.iter().map(|parts| parts.concat()).collect()
}

#[tokio::test]
async fn replies_are_the_same_with_hyper_alone_wherever_bytes_are_split() {
    for script in scripts() {
        let (by_hyper, direct) = (node(false), node(true));
        for room in (1..20).chain([33, 100, 1 << 20]) {
            let expected = replies(&by_hyper, room, script.as_bytes()).await;
            assert!(expected.starts_with("HTTP/1.1 200 OK\r\n"), "{expected}");
            let received = replies(&direct, room, script.as_bytes()).await;
            assert_eq!(received, expected, "{room} bytes at once: {script:?}");
        }
    }
}

/// Sent in one part only, because the arrival time of unwanted content decides whether hyper reads
/// it.
#[tokio::test]
async fn requests_that_follow_content_are_answered() {
    let script = [HIT, POST, HIT, LAST].concat();
    let expected = replies(&node(false), 1 << 20, script.as_bytes()).await;
    assert_eq!(expected.matches("HTTP/1.1 200 OK\r\n").count(), 3);
    let received = replies(&node(true), 1 << 20, script.as_bytes()).await;
    assert_eq!(received, expected);
}

#[tokio::test]
async fn a_request_is_counted_once() {
    let script = [HIT, MISS, RANGE, HIT_Y, POST, LAST].concat();
    let mut pages = vec![];
    for is_direct in [false, true] {
        let node = node(is_direct);
        replies(&node, 1 << 20, script.as_bytes()).await;
        let stats = node.store.stats();
        let page = format!("{:?}", node.metrics);
        pages.push((stats.hits, stats.misses(), page));
    }
    assert_eq!(pages[0], pages[1]);
    assert_eq!(pages[0].0, 4);
}

/// Reads until the head and the content of a reply to `HIT` have come.
async fn read_hit(client: &mut DuplexStream) {
    let mut text = vec![];
    while !text.ends_with(b"content x") {
        text.push(client.read_u8().await.expect("the connection is open"));
    }
    assert!(text.starts_with(b"HTTP/1.1 200 OK\r\n"));
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_ends_after_the_time_without_a_byte() {
    for is_direct in [false, true] {
        let node = node(is_direct);
        // hyper alone counts the time from the end of a reply on.
        let limits = &node.config.limits;
        let limit = match is_direct {
            true => limits.client_idle,
            false => limits.head_time,
        };
        let (mut client, served, _stop) = connect(&node, 1 << 20);
        for part in [0, 1, 0] {
            client.write_all(HIT.as_bytes()).await.expect("it is open");
            read_hit(&mut client).await;
            // Less than the limit, which begins again.
            sleep(limit * part * 2 / 3).await;
        }
        let start = Instant::now();
        let _ = served.await.expect("no panic");
        assert!(start.elapsed() >= limit * 99 / 100, "{:?}", start.elapsed());
        assert!(start.elapsed() <= limit * 5 / 4, "{:?}", start.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_head_in_small_parts_has_no_more_time() {
    for is_direct in [false, true] {
        let node = node(is_direct);
        let limit = node.config.limits.head_time;
        let (mut client, mut served, _stop) = connect(&node, 1 << 20);
        let start = Instant::now();
        let send = async {
            for byte in HIT.as_bytes() {
                // An error is the end of the connection.
                let _ = client.write_u8(*byte).await;
                sleep(limit / 8).await;
            }
        };
        tokio::select! {
            () = send => panic!("the connection is open"),
            result = &mut served => assert!(result.expect("no panic").is_err()),
        }
        assert!(start.elapsed() >= limit, "{:?}", start.elapsed());
        assert!(start.elapsed() <= limit * 5 / 4, "{:?}", start.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_nothing_is_cut_off() {
    for is_direct in [false, true] {
        let node = node(is_direct);
        let limit = node.config.limits.client_idle;
        let (mut client, served, _stop) = connect(&node, 100);
        let start = Instant::now();
        client
            .write_all(LARGE.as_bytes())
            .await
            .expect("it is open");
        let result = served.await.expect("no panic");
        assert!(result.is_err(), "the reply is not sent");
        assert!(start.elapsed() >= limit, "{:?}", start.elapsed());
        assert!(start.elapsed() <= limit * 5 / 4, "{:?}", start.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_idle_connections_at_once() {
    for is_direct in [false, true] {
        let node = node(is_direct);
        let (mut client, served, stop) = connect(&node, 1 << 20);
        client.write_all(HIT.as_bytes()).await.expect("it is open");
        read_hit(&mut client).await;
        let start = Instant::now();
        stop.send(true).expect("the connection is open");
        let _ = served.await.expect("no panic");
        assert_eq!(start.elapsed(), Duration::ZERO);
        assert!(client.read_u8().await.is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_a_reply_that_is_being_sent_and_for_a_head_that_has_begun() {
    for is_direct in [false, true] {
        let node = node(is_direct);
        let (mut client, served, stop) = connect(&node, 100);
        client
            .write_all(LARGE.as_bytes())
            .await
            .expect("it is open");
        let mut received = vec![client.read_u8().await.expect("it is open")];
        stop.send(true).expect("the connection is open");
        sleep(node.config.limits.stop_time / 2).await;
        client.read_to_end(&mut received).await.expect("it ends");
        assert!(received.ends_with(b"0123456789"));
        assert!(received.len() > 15_000);
        served.await.expect("no panic").expect("the reply is sent");
        // The head began before the stop.
        let (mut client, served, stop) = connect(&node, 1 << 20);
        client.write_all(HIT.as_bytes()).await.expect("it is open");
        read_hit(&mut client).await;
        client
            .write_all(&HIT.as_bytes()[..9])
            .await
            .expect("it is open");
        // The node reads the bytes before the timer ends.
        sleep(Duration::from_millis(1)).await;
        stop.send(true).expect("the connection is open");
        if is_direct {
            // hyper closes such a connection at once.
            sleep(Duration::from_millis(1)).await;
            client
                .write_all(&HIT.as_bytes()[9..])
                .await
                .expect("it is open");
            let mut text = String::new();
            client.read_to_string(&mut text).await.expect("it ends");
            assert!(text.contains("connection: close\r\n"), "{text}");
            assert!(text.ends_with("content x"), "{text}");
        }
        let _ = served.await.expect("no panic");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_longer_than_its_time() {
    for is_direct in [false, true] {
        let node = node(is_direct);
        let (mut client, served, stop) = connect(&node, 100);
        client
            .write_all(LARGE.as_bytes())
            .await
            .expect("it is open");
        client.read_u8().await.expect("it is open");
        let start = Instant::now();
        stop.send(true).expect("the connection is open");
        let result = served.await.expect("no panic");
        assert!(result.is_err(), "the reply is not sent");
        assert_eq!(
            start.elapsed().as_secs(),
            node.config.limits.stop_time.as_secs()
        );
    }
}
