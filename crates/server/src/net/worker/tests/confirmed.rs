//! Replies of a primary that wait until its replica has the writes.

use super::durable::begin_feed;
use super::slots::routed;
use super::*;
use crate::cluster::sample::name;
use crate::seat::{Numbers, Place};
use ::cluster::{Action, Instant as Fence, Member, Record, Revision, Start, Timing, Versioned};
use membership::records::Strength;

const PATIENCE_MS: u64 = 1_000;
const UNCONFIRMED: &str = "-UNCONFIRMED not every replica that may become the primary has confirmed the commands: they have been executed here, and a failover may undo them; read the keys before you repeat a command\r\n";

/// A primary whose in-sync replica has not acknowledged anything.
fn synchronous() -> (Arc<Server>, Listeners) {
    let (server, listeners) = routed(&[]);
    let mut numbers = Numbers::default();
    let (primary, replica) = (numbers.of(name("1")), numbers.of(name("4")));
    let value = Record {
        epoch: 7,
        primary,
        in_sync: [replica].into(),
    };
    let start = Start {
        is_complete: true,
        epoch: 7,
        offset: 0,
    };
    let timing = Timing::new(2_000, 100).expect("it covers the drift");
    let revision = Revision(1);
    let record = Versioned { value, revision };
    let mut member = Member::new(primary, timing, start, record, Revision(1), Fence(1));
    let actions = member.tick(Fence(2));
    let [Action::Send(resume)] = &actions[..] else {
        panic!("expected the beginning of a term, found {actions:?}");
    };
    member.applied(resume, Revision(2), 0, Fence(3));
    let seat = &server.cluster.seat;
    *seat.place() = Some(Place::new(name("d"), member, numbers));
    assert!(seat.set_strength(Strength::Sync, PATIENCE_MS));
    begin_feed(&server);
    (server, listeners)
}

/// Acknowledges everything up to a position.
fn acknowledge(server: &Server, position: u64) {
    let seat = &server.cluster.seat;
    seat.received(name("4").as_str(), position, server.feed.end());
}

fn acknowledge_all(server: &Server) {
    acknowledge(server, server.feed.end());
}

/// Sends commands that get no reply now.
fn send_silently(bench: &mut Bench<'_>, socket: &mut Socket, commands: &str) {
    socket
        .write_all(commands.as_bytes())
        .expect("there is room");
    (0..3).for_each(|_| bench.turn());
    bench.expect_output(socket, "");
}

#[test]
fn the_reply_to_a_write_waits_for_the_replica_and_disturbs_no_other_client() {
    let (server, listeners) = synchronous();
    let mut bench = Bench::new(&server, listeners);
    let (mut client, mut reader, mut other) = (bench.client(), bench.client(), bench.client());
    send_silently(&mut bench, &mut client, "SET b 1\r\nGET b\r\n");
    bench.send(&mut other, "PING\r\n", "+PONG\r\n");
    // A value that may still be lost is not shown to another client.
    send_silently(&mut bench, &mut reader, "GET b\r\n");
    send_silently(&mut bench, &mut client, "PING\r\n");
    acknowledge(&server, server.feed.end() - 1);
    (0..2).for_each(|_| bench.turn());
    bench.expect_output(&mut client, "");
    acknowledge_all(&server);
    bench.expect_output(&mut client, "+OK\r\n$1\r\n1\r\n+PONG\r\n");
    bench.expect_output(&mut reader, "$1\r\n1\r\n");
    bench.send(&mut reader, "GET b\r\n", "$1\r\n1\r\n");
    assert!(bench.worker.syncing.is_empty());
}

#[test]
fn replies_of_transactions_scripts_blocked_pops_and_commands_without_keys_wait() {
    let (server, listeners) = synchronous();
    let mut bench = Bench::new(&server, listeners);
    let (mut client, mut blocked) = (bench.client(), bench.client());
    bench.send(&mut client, "MULTI\r\nINCR b\r\n", "+OK\r\n+QUEUED\r\n");
    send_silently(&mut bench, &mut client, "EXEC\r\n");
    acknowledge_all(&server);
    bench.expect_output(&mut client, "*1\r\n:1\r\n");
    let script = "EVAL \"return redis.call('incr', KEYS[1])\" 1 b\r\n";
    send_silently(&mut bench, &mut client, script);
    acknowledge_all(&server);
    bench.expect_output(&mut client, ":2\r\n");
    send_silently(&mut bench, &mut blocked, "BLPOP f 0\r\n");
    send_silently(&mut bench, &mut client, "RPUSH f 1\r\n");
    (0..3).for_each(|_| bench.turn());
    bench.expect_output(&mut blocked, "");
    acknowledge_all(&server);
    bench.expect_output(&mut client, ":1\r\n");
    bench.expect_output(&mut blocked, "*2\r\n$1\r\nf\r\n$1\r\n1\r\n");
    send_silently(&mut bench, &mut client, "FLUSHALL\r\n");
    acknowledge_all(&server);
    bench.expect_output(&mut client, "+OK\r\n");
    // What expires is a change that a reader has seen.
    send_silently(&mut bench, &mut client, "SET b 1 PX 50\r\n");
    acknowledge_all(&server);
    bench.expect_output(&mut client, "+OK\r\n");
    server.clock.set_ms(NOW + 51);
    send_silently(&mut bench, &mut client, "GET b\r\n");
    acknowledge_all(&server);
    bench.expect_output(&mut client, "$-1\r\n");
}

#[test]
fn a_reply_that_no_replica_confirms_becomes_an_error() {
    let (server, listeners) = synchronous();
    let mut bench = Bench::new(&server, listeners);
    let (mut client, mut other) = (bench.client(), bench.client());
    send_silently(&mut bench, &mut client, "SET b 1\r\nGET b\r\n");
    server.clock.pass_ms(PATIENCE_MS - 1);
    send_silently(&mut bench, &mut other, "SET f 1\r\n");
    server.clock.pass_ms(1);
    bench.expect_output(&mut client, &format!("{UNCONFIRMED}{CLOSED}"));
    bench.expect_output(&mut other, "");
    // The other one's time has not passed, but the node is no longer the primary.
    if let Some(place) = server.cluster.seat.place().as_mut() {
        let mut value = place.member.record().value.clone();
        (value.epoch, value.primary) = (9, place.numbers.of(name("4")));
        value.in_sync.clear();
        let revision = Revision(9);
        let record = Versioned { value, revision };
        place.member.read(record, revision, 0, Fence(4));
    }
    bench.expect_output(&mut other, &format!("{UNCONFIRMED}{CLOSED}"));
    assert_eq!(server.cluster.seat.unconfirmed.load(Relaxed), 2);
}

#[test]
fn a_client_that_ends_gets_its_replies_once_they_are_confirmed() {
    let (server, listeners) = synchronous();
    let mut bench = Bench::new(&server, listeners);
    let (mut client, mut ends) = (bench.client(), bench.client());
    send_silently(&mut bench, &mut client, "SET b 1\r\nQUIT\r\n");
    ends.write_all(b"SET f 1\r\n").expect("there is room");
    ends.shutdown(std::net::Shutdown::Write)
        .expect("it is open");
    (0..3).for_each(|_| bench.turn());
    acknowledge_all(&server);
    bench.expect_output(&mut client, "+OK\r\n+OK\r\n(closed)");
    bench.expect_output(&mut ends, "+OK\r\n(closed)");
}

#[test]
fn without_a_member_and_with_async_nothing_waits() {
    let (server, listeners) = synchronous();
    let mut bench = Bench::new(&server, listeners);
    let mut client = bench.client();
    send_silently(&mut bench, &mut client, "SET b 1\r\n");
    let seat = &server.cluster.seat;
    assert!(seat.set_strength(Strength::Async, PATIENCE_MS));
    bench.expect_output(&mut client, "+OK\r\n");
    bench.send(&mut client, "SET b 2\r\n", "+OK\r\n");
    assert!(seat.set_strength(Strength::Sync, PATIENCE_MS));
    send_silently(&mut bench, &mut client, "GET b\r\n");
    if let Some(place) = seat.place().as_mut() {
        let replica = place.numbers.of(name("4"));
        let actions = place.member.leave(replica, Fence(10));
        let [Action::Send(leave)] = &actions[..] else {
            panic!("expected the removal, found {actions:?}");
        };
        place.member.applied(leave, Revision(3), 0, Fence(11));
    }
    bench.expect_output(&mut client, "$1\r\n2\r\n");
    bench.send(&mut client, "SET b 3\r\n", "+OK\r\n");
}

#[test]
fn requests_of_memcached_wait_and_become_its_errors() {
    let (server, listeners) = synchronous();
    let mut bench = Bench::new(&server, listeners);
    let mut client = bench.client();
    bench.send(&mut client, "PING\r\n", "+PONG\r\n");
    let connection = bench.worker.connection(0).expect("it is the first");
    connection.use_memcached();
    send_silently(&mut bench, &mut client, "set b 0 0 1\r\n1\r\n");
    acknowledge_all(&server);
    bench.expect_output(&mut client, "STORED\r\n");
    send_silently(&mut bench, &mut client, "flush_all\r\n");
    server.clock.pass_ms(PATIENCE_MS);
    let error = UNCONFIRMED.replacen('-', "SERVER_ERROR ", 1);
    bench.expect_output(&mut client, &format!("{error}{CLOSED}"));
}
