//! Tests of the feed during long commands: a second server that executes the feed gets the same
//! keys, regardless of what happens to the keys of a long command while it runs.

use super::super::durable::{apply, begin_feed, read_feed};
use super::*;
use crate::dispatch::apply::Applier;
use crate::replication::role;
use store::Tick;
use wire::{Args, Limits, Parsed, Parser};

/// Time at which the second server executes the feed. It precedes all deadlines.
const READER_MS: u64 = NOW - HOUR_MS;
/// Time in milliseconds that passes after the long command. The short deadlines pass in it.
const REST_MS: u64 = 500;

/// Sends a command and returns its reply with those of earlier commands.
fn ask(bench: &mut Bench<'_>, socket: &mut Socket, line: &str) -> String {
    let bytes = format!("{line}\r\nPING\r\n");
    socket.write_all(bytes.as_bytes()).expect("there is room");
    let (mut got, mut chunk) = (Vec::new(), [0; 4096]);
    for _ in 0..TURNS_MAX {
        match socket.read(&mut chunk) {
            Ok(len) => got.extend_from_slice(&chunk[..len]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => bench.turn(),
            Err(error) => panic!("{error}"),
        }
        if let Some(reply) = got.strip_suffix(b"+PONG\r\n") {
            return String::from_utf8_lossy(reply).into_owned();
        }
    }
    panic!("'{line}' gets no reply");
}

/// Returns the texts in a reply, sorted.
fn texts(reply: &str) -> Vec<String> {
    let is_text = |line: &&str| !line.starts_with(['$', '*', ':']);
    let mut texts: Vec<String> = reply.lines().filter(is_text).map(String::from).collect();
    texts.sort();
    texts
}

/// Returns a line for each key of the first two databases: its name, deadline, type and value.
fn contents(bench: &mut Bench<'_>) -> Vec<String> {
    let mut client = bench.client();
    let mut lines = Vec::new();
    for db in 0..2 {
        ask(bench, &mut client, &format!("SELECT {db}"));
        let names = ask(bench, &mut client, "KEYS *");
        for name in texts(&names) {
            let kind = ask(bench, &mut client, &format!("TYPE {name}"));
            let deadline = ask(bench, &mut client, &format!("PEXPIRETIME {name}"));
            let value = match kind.trim() {
                "+string" => format!("GET {name}"),
                "+list" => format!("LRANGE {name} 0 -1"),
                "+set" => format!("SMEMBERS {name}"),
                "+zset" => format!("ZRANGE {name} 0 -1 WITHSCORES"),
                "+hash" => format!("HGETALL {name}"),
                "+stream" => format!("XRANGE {name} - +"),
                kind => panic!("{kind}"),
            };
            let reply = ask(bench, &mut client, &value);
            assert!(!reply.starts_with('-'), "{value}: {reply}");
            let value = match kind.trim() {
                "+set" | "+hash" => texts(&reply).join(" "),
                _ => reply.replace("\r\n", " "),
            };
            lines.push(format!("{db} {name} {} {kind} {value}", deadline.trim()));
        }
    }
    lines
}

/// Executes a feed on a second server and returns the contents of that.
fn replayed(mut feed: Vec<u8>) -> Vec<String> {
    let (server, listeners) = server(&[]);
    server.clock.set_ms(READER_MS);
    let mut applier = Applier::new(&server);
    let (mut parser, mut spans, mut at) = (Parser::new(Limits::default()), Vec::new(), 0);
    while at < feed.len() {
        spans.clear();
        let parsed = parser.parse(&mut feed[at..], &mut spans);
        let Ok(Parsed::Command { consumed }) = parsed else {
            panic!("{parsed:?}");
        };
        let applied = applier.apply(Args::new(&feed[at..], &spans), Tick(READER_MS));
        applied.expect("it is not refused");
        at += consumed;
    }
    contents(&mut Bench::new(&server, listeners))
}

/// Runs a long command after others, and calls `beside` while it runs. Compares the final keys with
/// those of a second server that has executed the feed.
fn compare(setup: &[&str], long: &str, beside: &dyn Fn(&mut Bench<'_>, &mut Socket)) {
    // The shortest value that makes a command long.
    let long = &long.replace("TEXT", &"text".repeat(150));
    let (server, listeners) = server(&[("maxmemory-policy", "allkeys-lru")]);
    let mut bench = Bench::new(&server, listeners);
    let (mut client, mut other) = (bench.client(), bench.client());
    let reader = begin_feed(&server);
    for line in setup {
        let reply = ask(&mut bench, &mut client, line);
        assert!(!reply.starts_with('-'), "{line}: {reply}");
    }
    ask(
        &mut bench,
        &mut other,
        "CONFIG SET long-command-threshold 0",
    );
    bench.send(&mut client, &format!("{long}\r\n"), "");
    for _ in 0..TURNS_MAX {
        if server.workers.long.is_running() {
            break;
        }
        bench.turn();
    }
    assert!(server.workers.long.is_running(), "{long}");
    beside(&mut bench, &mut other);
    perform_tasks(&mut bench, &mut other);
    assert!(!server.workers.long.is_active(), "{long}");
    ask(
        &mut bench,
        &mut other,
        "CONFIG SET long-command-threshold -1",
    );
    let reply = ask(&mut bench, &mut client, "PING");
    assert!(!reply.starts_with('-'), "{long}: {reply}");
    bench.pass(REST_MS);
    // Nothing may be evicted after the feed is read.
    ask(&mut bench, &mut other, "CONFIG SET maxmemory 0");
    turn(&mut bench, &mut other);
    let feed = read_feed(&server, reader);
    let text = String::from_utf8_lossy(&feed).into_owned();
    assert_eq!(replayed(feed), contents(&mut bench), "{long}: {text}");
    server.data.keyspace.check();
}

/// Runs iterations that do not sleep.
fn turn(bench: &mut Bench<'_>, other: &mut Socket) {
    (0..3).for_each(|_| drop(ask(bench, other, "PING")));
}

/// Performs the tasks of the thread for long commands.
fn perform_tasks(bench: &mut Bench<'_>, other: &mut Socket) {
    let server = Arc::clone(&bench.worker.server);
    while let Some(task) = server.workers.long.try_next() {
        perform(&server, task);
        turn(bench, other);
    }
}

/// A deadline passes, and the entry is removed in the background.
fn expire(bench: &mut Bench<'_>, other: &mut Socket) {
    bench.pass(60);
    turn(bench, other);
}

/// A deadline passes, and the entry is found expired when the values are put back.
fn expire_unnoticed(bench: &mut Bench<'_>, other: &mut Socket) {
    let server = Arc::clone(&bench.worker.server);
    server.data.keyspace.set_active_expiry(false);
    bench.pass(60);
    perform_tasks(bench, other);
    server.data.keyspace.set_active_expiry(true);
}

/// A deadline passes while no key is removed.
fn expire_in_a_pause(bench: &mut Bench<'_>, other: &mut Socket) {
    ask(bench, other, "CLIENT PAUSE 100 WRITE");
    bench.pass(60);
    turn(bench, other);
}

/// All keys are evicted.
fn evict(bench: &mut Bench<'_>, other: &mut Socket) {
    let server = Arc::clone(&bench.worker.server);
    ask(bench, other, "CONFIG SET maxmemory 1");
    let keys = || server.data.keyspace.db_facts(0, server.clock.now()).keys;
    for _ in 0..TURNS_MAX {
        if keys() == 0 {
            break;
        }
        bench.turn();
    }
    assert_eq!(keys(), 0);
    ask(bench, other, "CONFIG SET maxmemory 0");
}

const SET: &str = "SADD src a b c";
const SORTED: &str = "ZADD src 1 a 2 b 3 c";
const LIST: &str = "RPUSH src a b c b";
const EXPIRES: &str = "PEXPIRE src 50";

#[test]
fn a_source_that_is_lost_meanwhile_was_read_by_the_command() {
    // Regression: the deletion was in the feed before the command that had read the key, so that
    // replicas and the append-only file got another result.
    let commands: &[(&[&str], &str)] = &[
        (&[SET], "SUNIONSTORE dst src"),
        (&[SET, "SADD dst old"], "SUNIONSTORE dst src dst"),
        (&[SET, "SADD dst a b c d"], "SDIFFSTORE dst dst src"),
        (&[SET, "SADD dst a"], "SDIFFSTORE dst dst src"),
        (&[SORTED], "ZUNIONSTORE dst 2 src none"),
        (&[SORTED], "ZRANGESTORE dst src 1 2"),
        (&["SET src abc"], "BITOP NOT dst src"),
        (&["PFADD src a b c", "PFADD dst d"], "PFMERGE dst src"),
        (&[SET], "COPY src dst"),
        (&[SET, "SADD dst old"], "COPY src dst REPLACE"),
        (&[SET], "COPY src dst DB 1"),
        (&[LIST], "SORT src ALPHA STORE dst"),
        (&[LIST], "SORT src ALPHA"),
    ];
    for (setup, long) in commands {
        let timed = [*setup, &[EXPIRES]].concat();
        compare(&timed, long, &expire);
        compare(&timed, long, &expire_unnoticed);
        compare(&timed, long, &expire_in_a_pause);
        compare(setup, long, &evict);
    }
}

#[test]
fn a_key_that_is_lost_meanwhile_and_written_is_stored_as_a_whole_or_not_at_all() {
    // Regression: the deletion was in the feed first, so that a reader had only what the command
    // had added, or kept a value that the command would have replaced.
    let commands: &[(&str, &str)] = &[
        (SET, "SADD src d e"),
        (SET, "SREM src a d"),
        (SET, "SREM src a b c"),
        (SET, "SPOP src 2"),
        (SORTED, "ZREMRANGEBYRANK src 0 1"),
        (SORTED, "ZADD src 5 a 6 d"),
        (LIST, "LREM src 0 b"),
        (LIST, "LINSERT src BEFORE b x"),
        ("HSET src f 1 g 2", "HSET src h 3"),
        ("SET src value", "SETRANGE src 2 TEXT"),
        ("SET src value", "SET src TEXT"),
        ("SET src value", "GETEX src PX 100000"),
        ("SET src value", "SETEX src 100 TEXT"),
    ];
    for (setup, long) in commands {
        compare(&[setup, EXPIRES], long, &expire);
        compare(&[setup, EXPIRES], long, &expire_unnoticed);
        compare(&[setup, EXPIRES], long, &expire_in_a_pause);
        compare(&[setup], long, &evict);
        // What is put back is evicted again, at once or soon.
        compare(&[setup, "SADD src2 a"], long, &|bench, other| {
            evict(bench, other);
            ask(bench, other, "CONFIG SET maxmemory 1");
        });
        compare(&[setup, "PEXPIRE src 40"], long, &|bench, other| {
            evict(bench, other);
            expire(bench, other);
        });
    }
}

#[test]
fn elements_that_expire_meanwhile_were_there_for_the_command() {
    let commands: &[(&[&str], &str)] = &[
        (
            &["SADDEX src PX 50 MEMBERS 2 d e", SET],
            "SUNIONSTORE dst src",
        ),
        (&["SADDEX src PX 50 MEMBERS 2 d e", SET], "COPY src dst"),
        (&["SADDEX src PX 50 MEMBERS 2 d e"], "COPY src dst DB 1"),
        (&["SADDEX src PX 50 MEMBERS 2 d e"], "SREM src d"),
        (
            &["HSETEX src PX 50 FIELDS 1 f 1", "HSET src g 2"],
            "HSET src h 3",
        ),
        (&[SET], "SADDEX src PX 30 MEMBERS 2 a f"),
        (&["HSET src f 1 g 2"], "HSETEX src PX 30 FIELDS 2 f 3 h 4"),
        (&["HSET src f 1 g 2"], "HPEXPIRE src 30 FIELDS 2 f g"),
        (&["SET src value"], "SET src TEXT PX 30"),
    ];
    for (setup, long) in commands {
        compare(setup, long, &expire);
        compare(setup, long, &expire_unnoticed);
        compare(setup, long, &evict);
    }
}

#[test]
fn references_to_entries_that_expire_meanwhile_are_removed_by_the_reader() {
    let setup: &[&str] = &[
        "XADD src PX 50 1-0 f v",
        "XADD src 2-0 f v",
        "XADD src 3-0 f v",
        "XGROUP CREATE src g 0",
        "XREADGROUP GROUP g c STREAMS src >",
    ];
    for long in ["XTRIM src MAXLEN = 2 DELREF", "XTRIM src MAXLEN = 3 ACKED"] {
        compare(setup, long, &expire);
        compare(setup, long, &expire_unnoticed);
    }
}

#[test]
fn a_value_that_expires_on_a_replica_meanwhile_is_put_back() {
    // Regression: the value was dropped, and an entry without a value stayed, because a replica
    // hides what has expired and does not remove it.
    let (server, listeners) = server(LONG);
    let (mut bench, [mut client, mut other, ..]) = prepare(&server, listeners);
    role::follow(&server, "127.0.0.1", 1);
    let mut applier = Applier::new(&server);
    apply(
        &mut applier,
        &format!("PEXPIREAT l {}", NOW + 50),
        READER_MS,
    );
    bench.send(&mut client, "SORT_RO l ALPHA\r\n", "");
    bench.pass(60);
    bench.perform_all();
    bench.expect_output(&mut client, &sorted());
    bench.send(&mut other, "EXISTS l\r\n", ":0\r\n");
    // The primary has executed it before the deadline.
    apply(&mut applier, "PERSIST l", READER_MS);
    apply(&mut applier, "RPUSH l d", READER_MS);
    bench.send(&mut other, "LLEN l\r\n", ":4\r\n");
    server.data.keyspace.check();
}

#[test]
fn a_long_command_is_refused_if_a_snapshot_of_the_new_primary_has_replaced_its_keys() {
    // Regression: its client got an acknowledgement, although nothing was written.
    let (server, listeners) = server(LONG);
    let (mut bench, [mut client, mut other, ..]) = prepare(&server, listeners);
    bench.send(&mut client, &format!("LREM l 0 {}\r\n", element("b")), "");
    role::follow(&server, "127.0.0.1", 1);
    // As the snapshot does.
    server.data.engine().clear(0, server.clock.now());
    apply(&mut Applier::new(&server), "RPUSH x 1", READER_MS);
    let id = server.replication.ids().0;
    bench.perform_all();
    let refused = "-READONLY You can't write against a read only replica.\r\n";
    bench.expect_output(&mut client, refused);
    assert_eq!(server.replication.ids().0, id, "the snapshot is complete");
    bench.send(&mut other, "EXISTS l x\r\n", ":1\r\n");
    server.data.keyspace.check();
}

#[test]
fn memcached_empties_its_database_after_a_long_command() {
    // Regression: flush_all did not wait. The values of keys in other databases were lost then, and
    // entries without a value stayed.
    for is_delayed in [false, true] {
        let (server, listeners) = server(LONG);
        let mut bench = Bench::new(&server, listeners);
        let mut flusher = bench.client();
        while bench.worker.connections.iter().flatten().count() == 0 {
            bench.turn();
        }
        for connection in bench.worker.connections.iter_mut().flatten() {
            connection.use_memcached();
        }
        let (mut client, mut other) = (bench.client(), bench.client());
        let reader = begin_feed(&server);
        bench.send(&mut other, "SET x 1\r\nSELECT 1\r\n", "+OK\r\n+OK\r\n");
        let select = format!("SELECT 1\r\n{}", list());
        bench.send(&mut client, &select, "+OK\r\n:3\r\n");
        if is_delayed {
            bench.send(&mut flusher, "flush_all 1\r\n", "OK\r\n");
        }
        let long = format!("LREM l 0 {}\r\n", element("b"));
        bench.send(&mut client, &long, "");
        assert!(server.workers.long.is_running());
        if !is_delayed {
            bench.send(&mut flusher, "flush_all\r\n", "");
        }
        bench.pass(2000);
        // A delayed one is among the tasks of each 100 ms.
        let keys = || server.data.keyspace.db_facts(0, server.clock.now()).keys;
        for _ in 0..TURNS_MAX {
            if server.workers.long.waiting() > 0 {
                break;
            }
            bench.turn();
        }
        assert_eq!((server.workers.long.waiting(), keys()), (1, 1), "it waits");
        bench.perform_all();
        bench.expect_output(&mut client, ":1\r\n");
        if !is_delayed {
            bench.expect_output(&mut flusher, "OK\r\n");
        }
        for _ in 0..TURNS_MAX {
            if keys() == 0 {
                break;
            }
            bench.turn();
        }
        assert_eq!(keys(), 0);
        bench.send(&mut other, "LLEN l\r\n", ":2\r\n");
        assert!(!server.workers.long.is_active(), "nobody waits");
        let feed = read_feed(&server, reader);
        assert_eq!(replayed(feed), contents(&mut bench));
    }
}
