//! Commands whose shards are released and locked again because memory is full.

use super::*;
use crate::cluster::install::{hold, install};
use crate::cluster::sample::{name, routed, three};
use durability::saving::HoldsWrites;
use session::clients::{ClientInfo, Endpoint};
use session::message::{Message, Subscriber};
use session::waiting::BlockingState;
use settings::find;
use std::sync::mpsc::channel;
use wire::slot::slot;

const NOW: u64 = 1_700_000_000_000;

/// Runs a command as a client does.
fn run(server: &Server, session: &mut Session, words: &[&str]) -> (Outcome, Vec<u8>) {
    let (mut input, mut spans) = (Vec::new(), Vec::new());
    for word in words {
        spans.push(Span {
            start: input.len() as u32,
            len: word.len() as u32,
        });
        input.extend_from_slice(word.as_bytes());
    }
    let args = Args::new(&input, &spans);
    let call = Call {
        start: 0,
        len: input.len(),
        first: 0,
        count: words.len(),
        index: command::table().lookup(args.name()),
        memo: None,
    };
    let mut out = Output::default();
    let mut executor = Executor::new(server, 0, Tick(NOW));
    executor.begin_work();
    let outcome = executor.run(session, args, &call, &mut out);
    (outcome, out.to_vec())
}

/// Changes the server while a command that found memory full has released its shards and waits for
/// all of them. Room is made meanwhile. Returns the command's result and its reply.
fn run_late(
    server: &Server,
    session: &mut Session,
    words: &[&str],
    change: impl FnOnce(&Server),
) -> (Outcome, Vec<u8>) {
    let own = server
        .data
        .keyspace
        .shard_of(&server.data.keyspace.key(0, b"a"));
    let shards: Vec<usize> = (0..server.data.keyspace.shard_count())
        .filter(|shard| *shard != own)
        .collect();
    let [other, .., last] = shards[..] else {
        panic!("there are several shards");
    };
    server.data.keyspace.set_maxmemory(1);
    let view = server.data.keyspace.lock_one(last, Tick(NOW));
    std::thread::scope(|scope| {
        let running = scope.spawn(|| run(server, session, words));
        // It has locked all shards before this one.
        while server
            .data
            .keyspace
            .try_lock_one(other, Tick(NOW))
            .is_some()
            && !running.is_finished()
        {
            std::thread::yield_now();
        }
        // It takes effect at once, and then waits for each shard.
        scope.spawn(|| server.data.keyspace.set_maxmemory(0));
        while server.data.keyspace.maxmemory() != 0 {
            std::thread::yield_now();
        }
        change(server);
        drop(view);
        running.join().expect("no panic")
    })
}

/// A server with two threads and one key, and a client.
fn start() -> (Server, Session) {
    let config = Config::default();
    let threads = find("threads").expect("a setting");
    config.set(threads, "2").expect("a value that fits");
    let server = Server::new(config, Clock::manual(NOW)).expect("valid settings");
    start_on(server)
}

fn start_on(server: Server) -> (Server, Session) {
    let info = ClientInfo::new(1, Endpoint::default(), Moment::default());
    let mut session = Session::of(Arc::new(info));
    session.blocking_state = BlockingState::MayBlock;
    let filler = "f".repeat(1000);
    run(&server, &mut session, &["SET", "filler", &filler]);
    (server, session)
}

const SCRIPT: &str = "return redis.call('set', KEYS[1], 1)";

/// Commands that write `a`, with those that come before them.
const WRITES: [(&[&[&str]], &[&str]); 4] = [
    (&[], &["SET", "a", "1"]),
    (&[&["MULTI"], &["SET", "a", "1"]], &["EXEC"]),
    (&[], &["EVAL", SCRIPT, "1", "a"]),
    (&[&["MULTI"], &["EVAL", SCRIPT, "1", "a"]], &["EXEC"]),
];

#[test]
fn a_write_is_held_if_a_stop_begins_while_it_makes_room() {
    // Regression: it ran, so that it was acknowledged and missing in the snapshot of the stop.
    for (before, words) in WRITES {
        let (server, mut session) = start();
        for line in before {
            run(&server, &mut session, line);
        }
        let change = |server: &Server| server.data.hold_for_stop(true);
        let (outcome, reply) = run_late(&server, &mut session, words, change);
        assert_eq!(
            (outcome, &reply[..]),
            (Outcome::Held, &b""[..]),
            "{words:?}"
        );
        assert_eq!(
            server.data.keyspace.lock_all(Tick(NOW)).len(0),
            1,
            "{words:?}"
        );
        server.data.hold_for_stop(false);
        let (outcome, _) = run(&server, &mut session, words);
        assert_eq!(outcome, Outcome::Done, "{words:?}");
        assert_eq!(
            server.data.keyspace.lock_all(Tick(NOW)).len(0),
            2,
            "{words:?}"
        );
    }
}

#[test]
fn a_write_is_refused_if_the_server_becomes_a_replica_while_it_makes_room() {
    // Regression: it ran, so that the replica had a key that its primary lacks.
    for (before, words) in WRITES {
        let (server, mut session) = start();
        for line in before {
            run(&server, &mut session, line);
        }
        let change = |server: &Server| server.replication.is_replica.store(true, Relaxed);
        let (outcome, mut reply) = run_late(&server, &mut session, words, change);
        if outcome == Outcome::Held {
            let (outcome, again) = run(&server, &mut session, words);
            assert_eq!(outcome, Outcome::Done, "{words:?}");
            reply = again;
        }
        let text = String::from_utf8_lossy(&reply);
        assert!(text.contains("READONLY"), "{words:?} {text}");
        assert_eq!(
            server.data.keyspace.lock_all(Tick(NOW)).len(0),
            1,
            "{words:?}"
        );
    }
}

#[test]
fn a_hold_of_slots_waits_for_a_write_that_makes_room() {
    // Regression: it waited for the locks of the shards only, so that the write came after the last
    // key that a move had sent, and was lost.
    for (before, words) in WRITES {
        let (server, mut session) = start_on(routed(&[("threads", "2")], NOW));
        install(&server, three(1, &[(0..=16_383, 0)]), name("1")).expect("the first one");
        run(&server, &mut session, &["SET", "filler", &"f".repeat(1000)]);
        for line in before {
            run(&server, &mut session, line);
        }
        let is_script = [before, &[words]].concat().concat().contains(&"EVAL");
        let (sender, receiver) = channel();
        std::thread::scope(|scope| {
            let server = &server;
            let holding = scope.spawn(move || {
                receiver.recv().expect("the write makes room");
                hold(server, 1, &[slot(b"a")..=slot(b"a")]);
                server.data.keyspace.lock_all(Tick(NOW)).len(0)
            });
            let change = |server: &Server| {
                sender.send(()).expect("it is received");
                while server.cluster.routes().holds.is_empty() {
                    std::thread::yield_now();
                }
            };
            let (outcome, reply) = run_late(server, &mut session, words, change);
            let text = String::from_utf8_lossy(&reply);
            assert!(!text.contains('-'), "{words:?} {text}");
            // A script needs all shards from its start, and is routed again when it has them.
            let expected = match outcome {
                Outcome::Done => 2,
                _ => 1,
            };
            assert!(expected == 2 || text.is_empty() && is_script, "{words:?}");
            assert_eq!(holding.join().expect("no panic"), expected, "{words:?}");
        });
    }
}

#[test]
fn a_script_of_a_transaction_does_not_release_its_shards() {
    // Regression: a script made room by releasing the shards between two commands of a transaction.
    let (server, mut session) = start();
    for line in [
        &["MULTI"][..],
        &["SET", "a", "1"],
        &["EVAL", SCRIPT, "1", "a"],
    ] {
        run(&server, &mut session, line);
    }
    let change = |server: &Server| server.data.hold_for_stop(true);
    let (outcome, _) = run_late(&server, &mut session, &["EXEC"], change);
    assert_eq!(outcome, Outcome::Held);
    server.data.hold_for_stop(false);
    let (outcome, reply) = run(&server, &mut session, &["EXEC"]);
    assert_eq!(
        (outcome, &reply[..]),
        (Outcome::Done, &b"*2\r\n+OK\r\n+OK\r\n"[..])
    );
}

#[test]
fn a_held_write_is_shown_once_to_monitoring_clients() {
    // Regression: a command was shown when it was held after it had released its shards, and again
    // when it ran.
    let expected: [&[&str]; 4] = [
        &["SET"],
        &["MULTI", "SET", "EXEC"],
        &["EVAL", "set"],
        &["MULTI", "EVAL", "set", "EXEC"],
    ];
    for ((before, words), expected) in WRITES.into_iter().zip(expected) {
        let (server, mut session) = start();
        let monitor = Subscriber {
            worker: 0,
            slot: 9,
            client: 99,
        };
        server.clients.monitors.add(monitor);
        for line in before {
            run(&server, &mut session, line);
        }
        let change = |server: &Server| server.data.hold_for_stop(true);
        let (outcome, _) = run_late(&server, &mut session, words, change);
        assert_eq!(outcome, Outcome::Held, "{words:?}");
        server.data.hold_for_stop(false);
        run(&server, &mut session, words);
        run(&server, &mut session, &["GET", "a"]);
        let mut messages = Vec::new();
        server.workers.inboxes[0].take(&mut messages);
        let shown = messages.into_iter().filter_map(|message| match message {
            Message::Monitor(_, line) => Some(String::from_utf8_lossy(&line).into_owned()),
            _ => None,
        });
        let names: Vec<String> = shown
            .map(|line| line.split('"').nth(1).expect("a name").to_owned())
            .collect();
        assert_eq!(names, [expected, &["GET"]].concat(), "{words:?}");
    }
}
