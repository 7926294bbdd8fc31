//! Tests of the feed, of replicas and of stops, on a worker that is stepped by hand.

use super::*;
use crate::dispatch::apply::Applier;
use crate::effects;
use crate::replication::role;
use durability::saving::HoldsWrites;
use session::feed::Taken;
use store::Tick;
use wire::{Args, Limits, Parsed, Parser};

const MEMBERS: usize = 20_000;
/// More than a turn of the loop may remove for one command.
const REMOVED_MAX: u64 = 1100;

/// Begins the feed and returns a reader.
pub(super) fn begin_feed(server: &Server) -> u64 {
    let mut view = server.data.keyspace.lock_all(Tick(NOW));
    effects::set_feed(server, &mut view, true);
    server.feed.add_reader(0).expect("the beginning")
}

pub(super) fn read_feed(server: &Server, reader: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Taken::Bytes(_) = server.feed.read(reader, &mut bytes, Duration::ZERO) {}
    bytes
}

pub(super) fn apply(applier: &mut Applier<'_>, line: &str, now: u64) {
    let mut input = Vec::new();
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    session::feed::put_command(&mut input, words.into_iter());
    let (mut parser, mut spans) = (Parser::new(Limits::default()), Vec::new());
    let parsed = parser.parse(&mut input, &mut spans).expect("a command");
    assert!(matches!(parsed, Parsed::Command { .. }));
    let applied = applier.apply(Args::new(&input, &spans), Tick(now));
    applied.expect("it is not refused");
}

#[test]
fn a_command_waits_while_many_expired_elements_are_removed_in_steps() {
    // Regression: while the feed was on, the first command that met the collection removed all
    // expired elements in one step.
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let (mut client, mut other) = (bench.client(), bench.client());
    for chunk in 0..MEMBERS / 1000 {
        let members: Vec<String> = (0..1000)
            .map(|i| format!("m{}", chunk * 1000 + i))
            .collect();
        let line = format!(
            "SADDEX s PXAT {} MEMBERS 1000 {}\r\n",
            NOW + 100,
            members.join(" ")
        );
        bench.send(&mut client, &line, ":1000\r\n");
    }
    bench.send(&mut client, "SADD s stays\r\n", ":1\r\n");
    let reader = begin_feed(&server);
    // Only the commands remove elements.
    server.data.keyspace.set_active_expiry(false);
    bench.worker.server.clock.set_ms(NOW + 102);
    client
        .write_all(b"SADD s m5 later\r\n")
        .expect("there is room");
    let removed = || server.data.keyspace.counters().expired_elements;
    let (mut before, mut turns, mut served) = (0, 0, 0);
    let mut reply = [0; 64];
    loop {
        bench.turn();
        let now = removed();
        assert!(now - before <= REMOVED_MAX, "{} in one turn", now - before);
        before = now;
        turns += 1;
        assert!(turns < 10 * TURNS_MAX, "the command is not served");
        if let Ok(len) = client.read(&mut reply) {
            assert_eq!(&reply[..len], b":2\r\n");
            break;
        }
        if before < MEMBERS as u64 {
            bench.send(&mut other, "PING\r\n", "+PONG\r\n");
            before = removed();
            served += 1;
        }
    }
    assert_eq!(removed(), MEMBERS as u64);
    assert!(served > 3, "others were served {served} times meanwhile");
    bench.send(&mut client, "SCARD s\r\n", ":3\r\n");
    let feed = String::from_utf8_lossy(&read_feed(&server, reader)).into_owned();
    let (deletion, addition) = (feed.find("$4\r\nSREM"), feed.rfind("$4\r\nsadd"));
    assert!(
        deletion.is_some() && deletion < addition,
        "deletions come first"
    );
    assert_eq!(
        feed.matches("\r\nm5\r\n").count(),
        2,
        "removed and added again"
    );
    assert!(!server.workers.long.is_active(), "nobody waits");
}

#[test]
fn the_effects_of_one_large_script_are_several_steps() {
    // Regression: the effects of a transaction or a script were collected without a bound.
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let mut client = bench.client();
    let reader = begin_feed(&server);
    let script =
        "local v = string.rep('x', 65536) for i = 1, 600 do redis.call('set', i % 7, v) end";
    let line = format!(
        "*3\r\n$4\r\nEVAL\r\n${}\r\n{script}\r\n$1\r\n0\r\n",
        script.len()
    );
    bench.send(&mut client, &line, "$-1\r\n");
    assert_eq!(server.feed.parts(), 1);
    let bytes = read_feed(&server, reader);
    let count = |word: &[u8]| bytes.windows(word.len()).filter(|w| *w == word).count();
    assert_eq!((count(b"$5\r\nMULTI"), count(b"$4\r\nEXEC")), (2, 2));
    assert_eq!(count(b"$65536\r\n"), 600);
}

#[test]
fn entries_that_xclaim_leaves_to_their_owner_are_not_in_the_feed() {
    // Regression: all entries that XCLAIM names were the claimer's after a restart and on replicas.
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let mut client = bench.client();
    for id in ["1-0", "2-0"] {
        let reply = format!("$3\r\n{id}\r\n");
        bench.send(&mut client, &format!("XADD s {id} f v\r\n"), &reply);
    }
    bench.send(&mut client, "XGROUP CREATE s g 0\r\n", "+OK\r\n");
    let read = "XREADGROUP GROUP g c1 COUNT 1 STREAMS s >\r\n";
    let reply = |id: &str| {
        format!("*1\r\n*2\r\n$1\r\ns\r\n*1\r\n*2\r\n$3\r\n{id}\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n")
    };
    bench.send(&mut client, read, &reply("1-0"));
    bench.pass(500);
    bench.send(&mut client, read, &reply("2-0"));
    let reader = begin_feed(&server);
    let line = "XCLAIM s g c2 400 1-0 2-0 JUSTID\r\n";
    bench.send(&mut client, line, "*1\r\n$3\r\n1-0\r\n");
    let feed = String::from_utf8_lossy(&read_feed(&server, reader)).into_owned();
    let claim = feed.split("$6\r\nXCLAIM\r\n").nth(1).expect("a claim");
    let claim = claim.split("\r\nLASTID").next().expect("its beginning");
    assert!(
        claim.contains("\r\n1-0\r\n") && !claim.contains("2-0"),
        "{feed}"
    );
}

#[test]
fn what_sort_stores_is_in_the_feed_beside_patterns_named_store() {
    // Regression: the key behind the last word STORE was taken for the destination.
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let mut client = bench.client();
    bench.send(&mut client, "RPUSH l 3 1 2\r\n", ":3\r\n");
    let reader = begin_feed(&server);
    let line = "SORT l STORE dst GET # GET store ASC\r\n";
    bench.send(&mut client, line, ":6\r\n");
    let feed = String::from_utf8_lossy(&read_feed(&server, reader)).into_owned();
    assert!(feed.contains("$3\r\ndst\r\n"), "{feed}");
}

#[test]
fn a_replica_removes_what_no_command_of_the_primary_can_need() {
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let mut client = bench.client();
    role::follow(&server, "127.0.0.1", 1);
    let mut applier = Applier::new(&server);
    for (name, deadline) in [("early", NOW + 10), ("late", NOW + 20)] {
        apply(
            &mut applier,
            &format!("SET {name} 1 PXAT {deadline}"),
            NOW - HOUR_MS,
        );
    }
    let keys = || server.data.keyspace.lock_all(Tick(1)).len(0);
    bench.pass(100);
    assert_eq!(keys(), 2, "hidden, but not removed");
    bench.send(&mut client, "GET early\r\nGET late\r\n", "$-1\r\n$-1\r\n");
    // Regression: the end of a pause allowed expiry by the replica's clock.
    bench.send(&mut client, "CLIENT PAUSE 10 WRITE\r\n", "+OK\r\n");
    bench.pass(100);
    assert_eq!(keys(), 2);
    server.data.keyspace.set_removal_limit(Some(Tick(NOW + 15)));
    for _ in 0..10 {
        bench.turn();
    }
    assert_eq!(keys(), 1);
    // The primary's clock may be behind: it has found this key alive.
    apply(&mut applier, "INCR late", NOW - HOUR_MS);
    apply(&mut applier, "PERSIST late", NOW - HOUR_MS);
    apply(&mut applier, "DEL early", NOW - HOUR_MS);
    bench.send(&mut client, "GET late\r\n", "$1\r\n2\r\n");
    apply(&mut applier, "PEXPIREAT late 1700000000050", NOW - HOUR_MS);
    role::promote(&server);
    for _ in 0..10 {
        bench.turn();
    }
    assert_eq!(keys(), 0, "a primary removes by its own clock");
}

#[test]
fn a_delayed_flush_of_memcached_does_not_empty_a_replica() {
    // Regression: the replica lacked all keys afterwards, at the same position as its primary.
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    server.data.flush_at_ms.store(NOW + 200, Relaxed);
    role::follow(&server, "127.0.0.1", 1);
    apply(&mut Applier::new(&server), "SET a 1", NOW - HOUR_MS);
    bench.pass(500);
    bench.worker.flush_at(&mut bench.executor);
    assert_eq!(server.data.keyspace.lock_all(Tick(1)).len(0), 1);
    assert_eq!(server.data.flush_at_ms.load(Relaxed), 0);
}

#[test]
fn transactions_of_the_primary_are_executed_on_a_read_only_replica() {
    // Regression: EXEC was refused with READONLY, so that a replica lacked every transaction. The
    // limit of the work of a transaction refused others, there and in the append-only file.
    let (server, listeners) = server(&[("atomic-work-limit", "1")]);
    let mut bench = Bench::new(&server, listeners);
    let mut client = bench.client();
    role::follow(&server, "127.0.0.1", 1);
    let mut applier = Applier::new(&server);
    for line in ["MULTI", "SET a 1", "INCR a", "RPUSH l 1 2 3", "EXEC"] {
        apply(&mut applier, line, NOW - HOUR_MS);
    }
    bench.send(&mut client, "GET a\r\nLLEN l\r\n", "$1\r\n2\r\n:3\r\n");
    let refused = "-READONLY You can't write against a read only replica.\r\n";
    bench.send(&mut client, "SET a 3\r\n", refused);
}

#[test]
fn transactions_of_a_feed_are_not_limited_by_the_query_buffer() {
    // Regression: a transaction beyond the limit was acknowledged, and refused by replicas and
    // after a restart.
    let (server, listeners) = server(&[("client-query-buffer-limit", "1mb")]);
    let mut bench = Bench::new(&server, listeners);
    let mut client = bench.client();
    role::follow(&server, "127.0.0.1", 1);
    let mut applier = Applier::new(&server);
    let value = "v".repeat(700_000);
    apply(&mut applier, "MULTI", NOW - HOUR_MS);
    for name in ["a", "b", "c", "d"] {
        apply(&mut applier, &format!("SET {name} {value}"), NOW - HOUR_MS);
    }
    apply(&mut applier, "EXEC", NOW - HOUR_MS);
    bench.send(&mut client, "STRLEN d\r\nDBSIZE\r\n", ":700000\r\n:4\r\n");
}

#[test]
fn values_of_a_feed_may_exceed_maxmemory() {
    // A value that a primary has stored is not refused, or the replica would lack it.
    let settings = [("maxmemory", "1mb"), ("replica-ignore-maxmemory", "no")];
    let (server, listeners) = server(&settings);
    let mut bench = Bench::new(&server, listeners);
    let mut client = bench.client();
    let refused = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
    bench.send(&mut client, "SETRANGE k 2000000 x\r\n", refused);
    role::follow(&server, "127.0.0.1", 1);
    let mut applier = Applier::new(&server);
    let value = "v".repeat(700_000);
    for line in [
        "SETRANGE k 2000000 x",
        "MULTI",
        "SETBIT k 24000000 1",
        "EXEC",
    ] {
        apply(&mut applier, line, NOW - HOUR_MS);
    }
    for _ in 0..3 {
        apply(&mut applier, &format!("APPEND l {value}"), NOW - HOUR_MS);
    }
    bench.send(
        &mut client,
        "STRLEN k\r\nSTRLEN l\r\n",
        ":3000001\r\n:2100000\r\n",
    );
}

#[test]
fn a_primary_that_becomes_a_replica_ends_all_waits() {
    // Regression: blocked clients stayed blocked. A push or an instant then made their commands
    // change the replica.
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let mut clients = [(); 4].map(|()| bench.client());
    let [popper, reader, waiting, other] = &mut clients;
    bench.send(other, "XGROUP CREATE s g 0 MKSTREAM\r\n", "+OK\r\n");
    bench.send(popper, "BLPOP q 0\r\n", "");
    let line = "XREADGROUP GROUP g c BLOCK 0 CLAIM 50 STREAMS s >\r\n";
    bench.send(reader, line, "");
    bench.send(waiting, "WAIT 1 0\r\n", "");
    role::follow(&server, "127.0.0.1", 1);
    let error = "-UNBLOCKED force unblock from blocking operation, instance state changed \
                 (master -> replica?)\r\n";
    for client in [popper, reader, waiting] {
        bench.expect_output(client, error);
    }
    assert!(server.clients.blocking.is_empty() && server.replication.waits.is_empty());
    assert_eq!(server.data.keyspace.waited_keys(), 0);
    let mut applier = Applier::new(&server);
    apply(&mut applier, "RPUSH q one", NOW - HOUR_MS);
    bench.send(other, "LLEN q\r\n", ":1\r\n");
}

#[test]
fn commands_that_block_do_not_write_to_a_read_only_replica() {
    let (server, listeners) = server(&[("replica-read-only", "no")]);
    let mut bench = Bench::new(&server, listeners);
    let mut clients = [(); 3].map(|()| bench.client());
    let [popper, reader, other] = &mut clients;
    role::follow(&server, "127.0.0.1", 1);
    bench.send(popper, "BLPOP q 0\r\n", "");
    bench.send(reader, "XREAD BLOCK 0 STREAMS s 0\r\n", "");
    bench.send(other, "CONFIG SET replica-read-only yes\r\n", "+OK\r\n");
    let mut applier = Applier::new(&server);
    apply(&mut applier, "RPUSH q one", NOW - HOUR_MS);
    apply(&mut applier, "XADD s 1-1 f v", NOW - HOUR_MS);
    bench.send(other, "LLEN q\r\n", ":1\r\n");
    let entry = "*1\r\n*2\r\n$1\r\ns\r\n*1\r\n*2\r\n$3\r\n1-1\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n";
    bench.expect_output(reader, entry);
    bench.expect_output(popper, "");
}

#[test]
fn a_replica_takes_over_only_what_it_has_received() {
    // Regression: it promoted itself before it looked at the position, and the primary took its
    // snapshot for a refusal.
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let mut client = bench.client();
    role::follow(&server, "127.0.0.1", 1);
    server.feed.restart_at(100);
    let id = server.replication.ids().0;
    let line = format!("PSYNC {id} 102 FAILOVER\r\n");
    let refused = "-ERR PSYNC FAILOVER offset is beyond what this replica has received.\r\n";
    bench.send(&mut client, &line, refused);
    assert!(server.replication.is_replica());
    let line = format!("PSYNC {id} 102 FAILOVER FORCE\r\n");
    bench.send(&mut client, &line, "");
    assert!(!server.replication.is_replica());
}

#[test]
fn a_long_command_that_ends_on_a_replica_is_refused() {
    // Regression: it changed the keys of the replica, and its client got an acknowledgement.
    let (server, listeners) = server(&[("long-command-threshold", "6")]);
    let mut bench = Bench::new(&server, listeners);
    let (mut client, mut reader) = (bench.client(), bench.client());
    let elements = ["c", "b", "a"].map(|letter| letter.repeat(40)).join(" ");
    bench.send(&mut client, &format!("RPUSH l {elements}\r\n"), ":3\r\n");
    let id = server.replication.ids().0;
    let mut finish = |bench: &mut Bench<'_>, line: &str, reply: &str| {
        bench.send(&mut reader, line, "");
        role::follow(&server, "127.0.0.1", 1);
        let task = server
            .workers
            .long
            .try_next()
            .expect("a long command was begun");
        crate::dispatch::long::perform(&server, task);
        bench.expect_output(&mut reader, reply);
        bench.turn();
        while let Some(task) = server.workers.long.try_next() {
            crate::dispatch::long::perform(&server, task);
        }
    };
    // What only reads is served.
    let sorted = ["a", "b", "c"].map(|letter| format!("$40\r\n{}\r\n", letter.repeat(40)));
    finish(
        &mut bench,
        "SORT l ALPHA\r\n",
        &format!("*3\r\n{}", sorted.concat()),
    );
    assert_eq!(server.replication.ids().0, id);
    role::promote(&server);
    let id = server.replication.ids().0;
    let refused = "-READONLY You can't write against a read only replica.\r\n";
    finish(&mut bench, "SORT l ALPHA STORE d\r\n", refused);
    assert_ne!(server.replication.ids().0, id, "it requests a snapshot");
}

#[test]
fn maxmemory_does_not_evict_on_a_replica() {
    // Regression: CONFIG SET maxmemory set the limit on a replica.
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let mut client = bench.client();
    role::follow(&server, "127.0.0.1", 1);
    bench.send(&mut client, "CONFIG SET maxmemory 1mb\r\n", "+OK\r\n");
    assert_eq!(server.data.keyspace.maxmemory(), 0);
    bench.send(
        &mut client,
        "CONFIG SET replica-ignore-maxmemory no\r\n",
        "+OK\r\n",
    );
    assert_eq!(server.data.keyspace.maxmemory(), 1 << 20);
    bench.send(
        &mut client,
        "CONFIG SET replica-ignore-maxmemory yes\r\n",
        "+OK\r\n",
    );
    assert_eq!(server.data.keyspace.maxmemory(), 0);
    role::promote(&server);
    assert_eq!(server.data.keyspace.maxmemory(), 1 << 20);
}

#[test]
fn a_replica_without_its_primary_may_refuse_to_serve() {
    let (server, listeners) = server(&[("replica-serve-stale-data", "no")]);
    let mut bench = Bench::new(&server, listeners);
    let mut client = bench.client();
    role::follow(&server, "127.0.0.1", 1);
    let error =
        "-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n";
    bench.send(&mut client, "GET a\r\n", error);
    // As in Redis, so that a health check does not take it for a server that answers.
    bench.send(&mut client, "PING\r\n", error);
    // Subcommands have flags of their own.
    let digest = "$40\r\ne0e1f9fabfc9d4800c877a703b823ac0578ff8db\r\n";
    bench.send(&mut client, "SCRIPT LOAD 'return 1'\r\n", digest);
    bench.send(&mut client, "SCRIPT EXISTS a\r\n", error);
    // Regression: scripts and functions read the keys.
    let get = r#"EVAL "return redis.pcall('get', 'a')" 0"#;
    bench.send(&mut client, &format!("{get}\r\n"), error);
    let stale = r##"EVAL "#!lua flags=allow-stale,no-writes\nreturn redis.pcall('get', 'a')" 0"##;
    let denied = "-ERR Can not execute the command on a stale replica\r\n";
    bench.send(&mut client, &format!("{stale}\r\n"), denied);
    let one = r##"EVAL "#!lua flags=allow-stale,no-writes\nreturn 1" 0"##;
    bench.send(&mut client, &format!("{one}\r\n"), ":1\r\n");
    bench.send(&mut client, "MULTI\r\n", "+OK\r\n");
    bench.send(&mut client, &format!("{get}\r\n"), "+QUEUED\r\n");
    bench.send(&mut client, "EXEC\r\n", &format!("*1\r\n{error}"));
    bench.send(&mut client, "REPLICAOF NO ONE\r\n", "+OK\r\n");
    bench.send(&mut client, &format!("{get}\r\n"), "$-1\r\n");
    bench.send(&mut client, "PING\r\n", "+PONG\r\n");
    bench.send(&mut client, "GET a\r\n", "$-1\r\n");
}

/// Regression: such a script ran until its first write.
#[test]
fn a_script_that_may_write_is_refused_where_writes_are() {
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let mut client = bench.client();
    role::follow(&server, "127.0.0.1", 1);
    let read_only = "-READONLY You can't write against a read only replica.\r\n";
    for (flags, expected) in [("", read_only), (" flags=no-writes", ":1\r\n")] {
        let line = format!("EVAL \"#!lua{flags}\\nreturn 1\" 0\r\n");
        bench.send(&mut client, &line, expected);
    }
    bench.send(&mut client, "EVAL \"return 1\" 0\r\n", ":1\r\n");
}

/// Regression: the replicas were counted every second only, so that writes were accepted in the
/// first second after a start and after CONFIG SET.
#[test]
fn writes_are_refused_without_replicas_from_the_start() {
    let (server, listeners) = server(&[("min-replicas-to-write", "1")]);
    let mut bench = Bench::new(&server, listeners);
    let mut client = bench.client();
    let error = "-NOREPLICAS Not enough good replicas to write.\r\n";
    bench.send(&mut client, "SET a 1\r\n", error);
    for (value, reply) in [("0", "+OK\r\n"), ("2", error)] {
        let line = format!("CONFIG SET min-replicas-to-write {value}\r\n");
        bench.send(&mut client, &line, "+OK\r\n");
        bench.send(&mut client, "SET a 1\r\n", reply);
    }
    role::follow(&server, "127.0.0.1", 1);
    bench.send(
        &mut client,
        "CONFIG SET replica-read-only no\r\n",
        "+OK\r\n",
    );
    bench.send(&mut client, "SET a 1\r\n", "+OK\r\n");
    role::promote(&server);
    bench.send(&mut client, "SET a 1\r\n", error);
}

#[test]
fn function_load_is_held_by_a_stop() {
    // Regression: the flags of subcommands were not considered, so that an acknowledged library
    // could be missing from the snapshot of the stop.
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let mut client = bench.client();
    server.data.hold_for_stop(true);
    let code = "#!lua name=l\nredis.register_function('f', function() return 1 end)";
    let line = format!(
        "*3\r\n$8\r\nFUNCTION\r\n$4\r\nLOAD\r\n${}\r\n{code}\r\n",
        code.len()
    );
    bench.send(&mut client, &line, "");
    for _ in 0..5 {
        bench.turn();
    }
    assert_eq!(server.clients.held.load(Relaxed), 1);
    server.data.hold_for_stop(false);
    bench.expect_output(&mut client, "$1\r\nl\r\n");
}

#[test]
fn no_item_is_read_once_the_delay_of_a_flush_has_passed() {
    // Regression: items were flushed by a task that runs every 100 ms, so that the first requests
    // after the delay still read them.
    for engine in ["slab", "segment"] {
        let (server, listeners) = server(&[("engine", engine), ("maxmemory", "64mb")]);
        let mut bench = Bench::new(&server, listeners);
        let mut client = bench.client();
        bench.send(&mut client, "SET k 1\r\n", "+OK\r\n");
        server.data.flush_at_ms.store(NOW + 2000, Relaxed);
        server.clock.pass_ms(1999);
        bench.send(&mut client, "GET k\r\n", "$1\r\n1\r\n");
        server.clock.pass_ms(1);
        bench.send(&mut client, "GET k\r\nSET k 2\r\n", "$-1\r\n+OK\r\n");
        bench.send(&mut client, "GET k\r\n", "$1\r\n2\r\n");
    }
}
