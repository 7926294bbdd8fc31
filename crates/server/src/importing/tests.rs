use super::*;
use crate::cluster::install::{hold, install, release};
use crate::cluster::sample::{THIRDS, name, routed, three};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;
use store::Event;
use wire::Span;

const NOW: u64 = 1_700_000_000_000;
const LINK: u64 = 77;

/// Returns a node that has the first third of the slots, to which those of the second third move.
fn target() -> Arc<Server> {
    let server = Arc::new(routed(&[("notify-keyspace-events", "Ex")], NOW));
    server.data.apply_notifications(&server.config);
    install(&server, three(1, &THIRDS), name("1")).expect("the first one");
    let one = Arriving {
        slots: [5461..=10_922].into(),
        link: 0,
        phase: Phase::Clearing,
        mark: None,
    };
    server.cluster.moves.arriving().insert(name("a"), one);
    server
}

/// Begins an attempt on an empty node.
fn begin(server: &Server) {
    let id = name("a");
    assert_eq!(start(server, id.as_bytes(), LINK), Ok(false));
    sweep(server);
    assert_eq!(start(server, id.as_bytes(), LINK), Ok(true));
}

fn message(server: &Server, words: &[&[u8]]) -> Result<(), String> {
    let input = words.concat();
    let mut at = 0;
    let spans: Vec<Span> = words
        .iter()
        .map(|word| {
            at += word.len();
            Span {
                start: (at - word.len()) as u32,
                len: word.len() as u32,
            }
        })
        .collect();
    receive(server, Args::new(&input, &spans))
}

fn send_key(
    server: &Server,
    link: &str,
    key: &str,
    value: &str,
    deadline: u64,
) -> Result<(), String> {
    let payload = {
        let space = &server.data.keyspace;
        let annex = space.annex();
        let named = annex.key(0, b"value");
        let mut view = annex.lock_all(Tick(NOW));
        view.set(&named, value.as_bytes(), NewDeadline::Clear);
        let payload = durability::dump::payload_of(&mut view, &named, false);
        payload.expect("a string").expect("it exists")
    };
    let deadline = deadline.to_string();
    let words: [&[u8]; 9] = [
        b"key",
        link.as_bytes(),
        b"0",
        key.as_bytes(),
        deadline.as_bytes(),
        &payload,
        b"",
        b"0",
        b"",
    ];
    message(server, &words)
}

fn get(server: &Server, key: &str) -> Option<Vec<u8>> {
    let space = &server.data.keyspace;
    let key = space.key(0, key.as_bytes());
    let mut view = space.lock_one(space.shard_of(&key), server.clock.now());
    view.peek(&key).expect("a string").map(<[u8]>::to_vec)
}

/// Removes what is due, and returns the published events.
fn expire(server: &Server) -> Vec<Event> {
    let (space, mut events) = (&server.data.keyspace, Vec::new());
    for shard in 0..space.shard_count() {
        space.expire(
            shard,
            server.clock.now(),
            1_000,
            &mut events,
            &mut |_, _| {},
        );
    }
    events
}

#[test]
fn keys_are_accepted_from_one_connection_after_an_earlier_attempt_was_removed() {
    let server = target();
    let id = name("a");
    assert!(
        start(&server, b"x", LINK).is_err() && start(&server, name("b").as_bytes(), LINK).is_err()
    );
    assert!(
        send_key(&server, "77", "c", "1", 0).is_err(),
        "it has not begun"
    );
    begin(&server);
    send_key(&server, "77", "c", "1", 0).expect("it is expected");
    assert_eq!(get(&server, "c").as_deref(), Some(&b"1"[..]));
    for key in ["a", "b"] {
        let error = send_key(&server, "77", key, "1", 0).expect_err("it does not move");
        assert!(error.contains("not in a slot of the move"), "{error}");
    }
    // Another connection begins again.
    assert_eq!(start(&server, id.as_bytes(), 78), Ok(false));
    assert_eq!(
        send_key(&server, "77", "g", "1", 0),
        Err(NOT_EXPECTED.to_owned())
    );
    sweep(&server);
    assert_eq!(get(&server, "c"), None);
    assert_eq!(start(&server, id.as_bytes(), 78), Ok(true));
    send_key(&server, "78", "c", "2", 0).expect("it is expected");
    message(&server, &[b"del", b"78", b"0", b"c"]).expect("it is expected");
    assert_eq!(get(&server, "c"), None);
}

#[test]
fn a_mark_counts_until_the_next_key() {
    let server = target();
    begin(&server);
    message(&server, &[b"mark", b"77", b"5", b"6", b"7"]).expect("it is expected");
    let mark = || server.cluster.moves.arriving()[&name("a")].mark;
    let (found, _) = mark().expect("it was sent");
    assert_eq!(
        (found.map, found.source, found.movement),
        (Revision(5), Revision(6), Revision(7))
    );
    send_key(&server, "77", "c", "1", 0).expect("it is expected");
    assert_eq!(mark(), None);
    for words in [
        &[&b"mark"[..], b"77", b"5", b"6"][..],
        &[b"mark", b"0"],
        &[b"nothing", b"77", b"0", b"c"],
        &[b"key", b"77", b"999", b"c"],
    ] {
        assert!(message(&server, words).is_err());
    }
}

#[test]
fn events_of_arriving_keys_are_published_with_the_commit() {
    let server = target();
    begin(&server);
    for key in ["c", "g", "k"] {
        send_key(&server, "77", key, "1", NOW + 5).expect("it is expected");
    }
    server.clock.set_ms(NOW + 10);
    assert!(expire(&server).is_empty(), "the source publishes them");
    assert_eq!(get(&server, "c"), None);
    // The source has published one of them, and has extended another.
    message(&server, &[b"del", b"77", b"0", b"c"]).expect("it is expected");
    send_key(&server, "77", "g", "2", NOW + 900).expect("it is expected");
    let withheld = {
        let mut view = server.data.keyspace.lock_all(Tick(NOW));
        view.take_withheld(|_, _| true)
    };
    let names: Vec<&[u8]> = withheld.iter().map(|event| &event.key[..]).collect();
    assert_eq!(names, [b"k"]);
    assert_eq!(get(&server, "g").as_deref(), Some(&b"2"[..]));
    install(&server, three(2, &[(0..=16_383, 0)]), name("1")).expect("a newer one");
    server.clock.set_ms(NOW + 1_000);
    let events = expire(&server);
    assert_eq!(
        events
            .iter()
            .map(|event| &event.key[..])
            .collect::<Vec<_>>(),
        [b"g"]
    );
}

#[test]
fn a_state_that_has_expired_is_stored_because_the_source_decides() {
    let server = target();
    begin(&server);
    send_key(&server, "77", "c", "1", NOW - 5).expect("it is expected");
    let len = server.data.keyspace.lock_all(Tick(NOW)).len(0);
    assert_eq!((get(&server, "c"), len), (None, 1));
}

#[test]
fn a_sweep_removes_keys_of_other_shards_only() {
    let server = target();
    begin(&server);
    send_key(&server, "77", "c", "1", 0).expect("it is expected");
    let space = &server.data.keyspace;
    for key in ["b", "a"] {
        let key = space.key(0, key.as_bytes());
        space
            .lock_one(space.shard_of(&key), Tick(NOW))
            .set(&key, b"v", NewDeadline::Clear);
    }
    sweep(&server);
    let found = ["b", "c", "a"].map(|key| get(&server, key).is_some());
    assert_eq!(found, [true, true, false], "own, arriving, foreign");
    server.cluster.moves.arriving().clear();
    sweep(&server);
    assert!(get(&server, "b").is_some() && get(&server, "c").is_none());
}

#[test]
fn events_of_held_keys_are_published_if_the_commit_is_void() {
    let server = target();
    let space = &server.data.keyspace;
    let key = space.key(0, b"b");
    let deadline = NewDeadline::At(Tick(NOW + 5));
    space
        .lock_one(space.shard_of(&key), Tick(NOW))
        .set(&key, b"v", deadline);
    let slots = [slot(b"b")..=slot(b"b")];
    hold(&server, 1, &slots);
    server.clock.set_ms(NOW + 10);
    assert!(expire(&server).is_empty());
    release(&server, 1, &slots);
    let mut view = space.lock_all(Tick(NOW));
    let withheld = view.take_withheld(|db, name| db == 0 && name == b"b");
    assert_eq!((withheld.len(), withheld[0].name), (1, "expired"));
}

#[test]
fn a_message_that_takes_long_does_not_delay_the_host() {
    // Regression: the host waited for the end of a message, and its fence ended.
    let server = target();
    begin(&server);
    let space = &server.data.keyspace;
    let shard = space.shard_of(&space.key(0, b"c"));
    let running = space.lock_one(shard, Tick(NOW));
    let message = thread::spawn({
        let server = Arc::clone(&server);
        move || send_key(&server, "77", "c", "1", 0)
    });
    while server.cluster.moves.received_keys.load(Relaxed) == 0 {
        thread::yield_now();
    }
    let (sender, receiver) = channel();
    let host = thread::spawn({
        let server = Arc::clone(&server);
        move || sender.send(server.cluster.moves.arriving().len())
    });
    // The limit only separates a hang from a slow machine.
    assert_eq!(receiver.recv_timeout(Duration::from_secs(60)), Ok(1));
    drop(running);
    host.join().expect("no panic").expect("it is received");
    message.join().expect("no panic").expect("it is expected");
    assert_eq!(get(&server, "c").as_deref(), Some(&b"1"[..]));
}
