//! Clients of a node of a cluster that loses or holds slots, or whose fence ends.

use super::*;
use crate::cluster::install::{hold, install, release};
use crate::cluster::sample::{THIRDS, name, three};
use ::cluster::{Instant as Fence, Owned};

const MOVED: &str = "-MOVED 3300 10.0.0.1:7002\r\n";
const ALL_ELSEWHERE: [Owned; 1] = [(0..=16_383, 1)];

pub(super) fn routed(settings: &[(&str, &str)]) -> (Arc<Server>, Listeners) {
    let all: Vec<_> = settings
        .iter()
        .chain(&[("cluster-enabled", "yes")])
        .copied()
        .collect();
    let (server, listeners) = server(&all);
    server.cluster.set_fence(Fence(u64::MAX));
    server.cluster.seat.is_connected.store(true, Relaxed);
    put(&server, 1, &THIRDS);
    (server, listeners)
}

fn put(server: &Server, version: u64, ranges: &[Owned]) {
    install(server, three(version, ranges), name("1")).expect("a newer topology");
}

#[test]
fn blocked_clients_are_led_to_the_new_owner() {
    let (server, listeners) = routed(&[]);
    let mut bench = Bench::new(&server, listeners);
    let (mut client, mut other) = (bench.client(), bench.client());
    bench.send(&mut client, "BLPOP b 0\r\n", "");
    bench.send(&mut other, "BLPOP f 0\r\n", "");
    put(&server, 2, &[(3168..=3168, 0), (3300..=3300, 1)]);
    bench.expect_output(&mut client, MOVED);
    bench.expect_output(&mut other, "");
    assert_eq!(server.clients.blocking.len(), 1);
    bench.send(
        &mut client,
        "RPUSH f 1\r\nBLPOP b 0\r\n",
        &format!(":1\r\n{MOVED}"),
    );
    bench.expect_output(&mut other, "*2\r\n$1\r\nf\r\n$1\r\n1\r\n");
    assert_eq!(server.data.keyspace.waited_keys(), 0);
}

#[test]
fn subscriptions_to_shard_channels_end_with_their_slot() {
    let (server, listeners) = routed(&[]);
    let mut bench = Bench::new(&server, listeners);
    let mut client = bench.client();
    let message = |kind: &str, channel: &str, count: u32| {
        let (kinds, channels) = (kind.len(), channel.len());
        format!("*3\r\n${kinds}\r\n{kind}\r\n${channels}\r\n{channel}\r\n:{count}\r\n")
    };
    for (count, channel) in [(1, "f"), (2, "b"), (3, "{b}x")] {
        let expected = message("ssubscribe", channel, count);
        bench.send(&mut client, &format!("SSUBSCRIBE {channel}\r\n"), &expected);
    }
    bench.send(
        &mut client,
        "SUBSCRIBE b\r\n",
        &message("subscribe", "b", 1),
    );
    put(&server, 2, &[(3168..=3168, 0), (3300..=3300, 1)]);
    let ends = message("sunsubscribe", "b", 2) + &message("sunsubscribe", "{b}x", 1);
    bench.expect_output(&mut client, &ends);
    assert_eq!(server.clients.pubsub.counts(), (1, 0, 1));
    put(&server, 3, &ALL_ELSEWHERE);
    bench.expect_output(&mut client, &message("sunsubscribe", "f", 0));
    assert_eq!(server.clients.pubsub.counts(), (1, 0, 0));
}

#[test]
fn cached_keys_are_invalidated_when_slots_are_lost() {
    let (server, listeners) = routed(&[]);
    let mut bench = Bench::new(&server, listeners);
    let mut client = bench.client();
    client.write_all(b"HELLO 3\r\n").expect("there is room");
    let mut chunk = [0; 4096];
    while client.read(&mut chunk).is_err() {
        bench.turn();
    }
    bench.send(
        &mut client,
        "CLIENT TRACKING ON\r\nGET b\r\n",
        "+OK\r\n_\r\n",
    );
    put(&server, 2, &THIRDS);
    bench.expect_output(&mut client, "");
    put(&server, 3, &ALL_ELSEWHERE);
    bench.expect_output(&mut client, ">2\r\n$10\r\ninvalidate\r\n_\r\n");
}

#[test]
fn commands_on_held_slots_run_after_the_release() {
    let (server, listeners) = routed(&[]);
    let mut bench = Bench::new(&server, listeners);
    let (mut client, mut other) = (bench.client(), bench.client());
    hold(&server, 0, &[3300..=3300]);
    bench.send(&mut client, "SET b 1\r\nGET f\r\n", "");
    bench.send(&mut other, "GET f\r\n", "$-1\r\n");
    bench.settle();
    let is_awake = bench.worker.timeout(&mut bench.executor).is_zero();
    assert!(!is_awake, "the worker sleeps during the hold");
    release(&server, 0, &[3300..=3300]);
    bench.expect_output(&mut client, "+OK\r\n$-1\r\n");
    // A hold that ends with the loss of the slot.
    hold(&server, 0, &[3300..=3300]);
    bench.send(&mut client, "GET b\r\n", "");
    put(&server, 2, &ALL_ELSEWHERE);
    release(&server, 0, &[3300..=3300]);
    bench.expect_output(&mut client, MOVED);
}

#[test]
fn a_command_gets_an_error_if_the_hold_is_long() {
    let (server, listeners) = routed(&[]);
    let mut bench = Bench::new(&server, listeners);
    let mut client = bench.client();
    hold(&server, 0, &[3300..=3300]);
    bench.send(&mut client, "SET b 1\r\n", "");
    server.clock.pass_ms(1000);
    let expected = "-TRYAGAIN Slot 3300 is about to move to another node\r\n";
    bench.expect_output(&mut client, expected);
}

#[test]
fn a_blocked_command_is_not_served_on_a_held_slot() {
    let (server, listeners) = routed(&[]);
    let mut bench = Bench::new(&server, listeners);
    let (mut client, mut other) = (bench.client(), bench.client());
    bench.send(&mut client, "BLPOP b 0.05\r\n", "");
    hold(&server, 0, &[3300..=3300]);
    bench.send(&mut other, "RPUSH b 1\r\n", "");
    bench.pass(51);
    bench.expect_output(&mut client, "*-1\r\n");
    release(&server, 0, &[3300..=3300]);
    bench.expect_output(&mut other, ":1\r\n");
}

#[test]
fn a_late_reply_to_a_blocked_command_closes_the_connection() {
    let (server, listeners) = routed(&[]);
    let mut bench = Bench::new(&server, listeners);
    let (mut client, mut other) = (bench.client(), bench.client());
    bench.send(&mut client, "BLPOP b 0\r\n", "");
    let id = server.clients.blocking.list()[0].info.id;
    bench.send(&mut other, "PING\r\n", "+PONG\r\n");
    server.cluster.set_fence(Fence(5));
    let slot = server.clients.blocking.list()[0].info.slot;
    server.clock.pass_ms(5);
    // The reply arrives when the fence has ended.
    crate::blocking::end_wait(&server, id).expect("it is blocked");
    let mut reply = wire::Output::default();
    reply.extend_from_slice(b"*2\r\n$1\r\nb\r\n$1\r\n1\r\n");
    server.workers.inboxes[0].push(0, Message::Answer(slot, id, reply));
    bench.expect_output(&mut client, CLOSED);
    bench.send(
        &mut other,
        "GET b\r\n",
        "-CLUSTERDOWN The cluster is down\r\n",
    );
    assert_eq!(server.cluster.counts.late.load(Relaxed), 1);
}

#[test]
fn memcached_requests_are_refused_with_the_owner() {
    let (server, listeners) = routed(&[]);
    let mut bench = Bench::new(&server, listeners);
    let mut client = bench.client();
    bench.send(&mut client, "PING\r\n", "+PONG\r\n");
    let slot = server.clients.registry.list()[0].slot;
    bench.worker.connections[slot]
        .as_mut()
        .expect("it is connected")
        .use_memcached();
    let moved = "SERVER_ERROR MOVED 15495 10.0.0.1:7003\r\n";
    bench.send(&mut client, "set b 0 0 1\r\n1\r\n", "STORED\r\n");
    bench.send(&mut client, "get b f\r\n", "VALUE b 0 1\r\n1\r\nEND\r\n");
    bench.send(&mut client, "get b a\r\n", moved);
    bench.send(&mut client, "mg a v\r\n", moved);
    bench.send(&mut client, "set a 0 0 1\r\n1\r\n", moved);
    hold(&server, 0, &[3300..=3300]);
    bench.send(&mut client, "incr b 1\r\n", "");
    release(&server, 0, &[3300..=3300]);
    bench.expect_output(&mut client, "2\r\n");
    server.cluster.set_fence(Fence(0));
    bench.send(
        &mut client,
        "get b\r\n",
        "SERVER_ERROR CLUSTERDOWN The cluster is down\r\n",
    );
    bench.send(&mut client, "flush_all\r\n", "OK\r\n");
}
