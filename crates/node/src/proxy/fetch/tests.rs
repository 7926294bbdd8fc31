//! Tests of the order in which a response is stored and its end is shown, with a body supplied by
//! hand.

use super::*;
use crate::body::tests::Fed;
use crate::budget::Budget;
use crate::clock::{Clock, ManualClock};
use crate::config::{Config, Origin};
use crate::rules::freshness::Grace;
use crate::rules::status::Forward;
use hyper::header::HeaderValue;
use std::future::Future;
use std::task::{Context, Waker};
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

const NOW_MS: u64 = 1_700_000_000_000;

fn fed() -> (UnboundedSender<Bytes>, Fed) {
    let (sender, receiver) = unbounded_channel();
    (sender, Fed(receiver))
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("the input is valid")
}

fn node() -> Arc<Node> {
    let url = "http://127.0.0.1:1".parse::<Origin>();
    let config = Config {
        listen: vec!["127.0.0.1:0".parse().expect("the text is valid")],
        origins: vec![url.expect("the text is valid")],
        clock: Clock::Manual(ManualClock::new(NOW_MS)),
        ..Config::default()
    };
    Arc::new(Node::new(config).expect("the input is valid"))
}

fn storing(length: Option<u64>) -> Storing {
    let mut headers = HeaderMap::new();
    let control = HeaderValue::from_static("max-age=60");
    headers.insert("cache-control", control);
    let asked = Asked {
        method: &Method::GET,
        has_authorization: false,
        sent_ms: NOW_MS,
    };
    let judged = judge(asked, StatusCode::OK, &headers, NOW_MS, Grace::default());
    let (terms, _) = judged.expect("it has a lifetime");
    let head = Head {
        status: StatusCode::OK,
        headers,
        terms,
        selection: Selection::default(),
        part: None,
        tags: Box::default(),
        coded: None,
    };
    Storing {
        key: Key::new(false, "a", "/x").expect("the input is valid"),
        head: Arc::new(head),
        fill: Fill::new(1_024, Duration::from_secs(60), &Budget::new(1 << 20)),
        length,
        purge_count: 0,
        began: Instant::now(),
        is_stored: true,
    }
}

/// Regression: a client could request a response again, or end its connection and so permit a stop,
/// before the response was stored.
#[test]
fn the_last_bytes_of_a_known_length_come_when_the_response_is_stored() {
    let runtime = runtime();
    let _context = runtime.enter();
    let mut context = Context::from_waker(Waker::noop());
    for length in [Some(6), None] {
        let (node, storing, (sender, body)) = (node(), storing(length), fed());
        let (key, fill) = (storing.key.clone(), storing.fill.clone());
        let mut reader = fill.reader().expect("nothing was dropped");
        let mut pump = Box::pin(node.clone().pump(storing, body, None));
        for chunk in ["abc", "def"] {
            sender
                .send(Bytes::from_static(chunk.as_bytes()))
                .expect("the pump reads");
        }
        assert!(pump.as_mut().poll(&mut context).is_pending());
        assert_eq!(reader.try_next(), Some(Ok(Bytes::from_static(b"abc"))));
        if length.is_none() {
            // The end is what clients wait for.
            assert_eq!(reader.try_next(), Some(Ok(Bytes::from_static(b"def"))));
        }
        assert_eq!(reader.try_next(), None);
        assert!(node.store.get(&key).is_none());
        drop(sender);
        assert!(pump.as_mut().poll(&mut context).is_ready());
        let stored = node.store.get(&key).expect("it is complete");
        assert_eq!(stored.variants[0].length, 6);
        if length.is_some() {
            assert_eq!(reader.try_next(), Some(Ok(Bytes::from_static(b"def"))));
        }
        assert_eq!(reader.try_next(), Some(Err(End::Complete)));
    }
}

/// Clients see the end of empty content with the head, which they receive as soon as `begin`
/// returns.
#[test]
fn a_response_without_content_is_stored_before_its_head_is_passed_on() {
    let runtime = runtime();
    let _context = runtime.enter();
    let (node, storing, (_sender, body)) = (node(), storing(Some(0)), fed());
    let (key, fill) = (storing.key.clone(), storing.fill.clone());
    node.clone().begin(storing, body, None);
    assert!(node.store.get(&key).is_some());
    let mut reader = fill.reader().expect("nothing was dropped");
    assert_eq!(reader.try_next(), Some(Err(End::Complete)));
}

#[test]
fn content_that_is_not_as_long_as_announced_is_not_stored() {
    let runtime = runtime();
    for content in ["abc", "abcdefg"] {
        let (node, storing, (sender, body)) = (node(), storing(Some(6)), fed());
        let (key, fill) = (storing.key.clone(), storing.fill.clone());
        let mut reader = fill.reader().expect("nothing was dropped");
        sender
            .send(Bytes::from_static(content.as_bytes()))
            .expect("the pump reads");
        drop(sender);
        runtime.block_on(node.clone().pump(storing, body, None));
        assert!(node.store.get(&key).is_none(), "{content}");
        let end = std::iter::from_fn(|| reader.try_next()).find_map(Result::err);
        assert_eq!(end, Some(End::Failed), "{content}");
    }
}

/// Regression: after a fetch failed, each client that had waited for it began its own fetch and
/// waited again.
#[test]
fn a_request_that_waits_for_a_fetch_that_fails_is_answered_with_the_stale_response() {
    let (runtime, node) = (runtime(), node());
    let lookup = Lookup::plain;
    let Joined::Lead(lead) = node.join(&lookup()) else {
        panic!("nothing is fetched yet");
    };
    let mut stale = Head::clone(&storing(None).head);
    stale.terms.fresh_ms = 0;
    stale.terms.error_ms = 1_000;
    let stored = Object::new(Arc::new(stale), vec![Bytes::from_static(b"stale")]);
    let _context = runtime.enter();
    let answer = node
        .clone()
        .fetch_or_follow(lookup(), Some(stored), Forward::Stale);
    let mut answer = std::pin::pin!(answer);
    let mut context = Context::from_waker(Waker::noop());
    assert!(answer.as_mut().poll(&mut context).is_pending());
    lead.publish(Progress::Failed(Failure::Timeout));
    drop(lead);
    let answer = runtime.block_on(answer);
    assert_eq!(answer.response.status(), StatusCode::OK);
    assert_eq!(answer.reply, crate::metrics::Reply::StaleOnError);
    assert_eq!(node.metrics.origin_requests.load(Relaxed), 0);
}
