//! Blocked clients on running workers: every element is delivered exactly once.

use crate::client::{Bench, Client};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const PRODUCERS: usize = 4;
const CONSUMERS: usize = 6;
const ELEMENTS: usize = 3_000;
/// Keys of several shards. Consumers read the last key last; the elements that stop the consumers
/// are added to it.
const KEYS: &str = "k0 k1 k2 k3 k4 k5 k6 k7";

/// Returns the elements that a consumer got until its end. `again` is called when it got nothing.
fn consume(client: &mut Client, command: &str) -> Vec<String> {
    let mut got = Vec::new();
    loop {
        let reply = client.request(command);
        if reply == "nil" || reply.starts_with("-UNBLOCKED") {
            continue;
        }
        let element = reply.trim_matches(['*', '[', ']']).split_once(' ');
        let (_, element) = element.unwrap_or_else(|| panic!("a key and an element: {reply}"));
        if element == "end" {
            return got;
        }
        got.push(element.to_string());
    }
}

fn produce(client: &mut Client, producer: usize) {
    for number in 0..ELEMENTS {
        let key = (number * 7 + producer) % 8;
        client.request(&format!("rpush k{key} {producer}:{number}"));
    }
}

/// Runs producers, and consumers with the given command. Calls `meanwhile` until all elements are
/// consumed.
fn check_handed_over_once(
    bench: &Bench,
    command: &str,
    meanwhile: impl FnOnce(&AtomicBool) + Send,
) {
    let is_done = AtomicBool::new(false);
    let all = std::thread::scope(|scope| {
        let consumers: Vec<_> = (0..CONSUMERS)
            .map(|_| {
                let mut client = bench.client();
                scope.spawn(move || consume(&mut client, command))
            })
            .collect();
        let producers: Vec<_> = (0..PRODUCERS)
            .map(|producer| {
                let mut client = bench.client();
                scope.spawn(move || produce(&mut client, producer))
            })
            .collect();
        scope.spawn(|| meanwhile(&is_done));
        for producer in producers {
            producer.join().expect("it has pushed all");
        }
        let mut last = bench.client();
        for _ in 0..CONSUMERS {
            last.request("rpush k7 end");
        }
        let got = consumers
            .into_iter()
            .flat_map(|c| c.join().expect("it ends"));
        let all: Vec<String> = got.collect();
        is_done.store(true, Relaxed);
        all
    });
    assert_eq!(all.len(), PRODUCERS * ELEMENTS);
    let distinct: BTreeSet<&String> = all.iter().collect();
    assert_eq!(distinct.len(), all.len());
    let mut client = bench.client();
    client.check("dbsize", ":0");
    let info = client.request("info clients");
    assert!(info.contains("blocked_clients:0\r\n"), "{info}");
    assert!(info.contains("total_blocking_keys:0\r\n"), "{info}");
}

#[test]
fn every_element_is_delivered_to_one_blocked_client() {
    let bench = Bench::start(&[("threads", "2")]);
    check_handed_over_once(&bench, &format!("blpop {KEYS} 0"), |_| {});
}

#[test]
fn no_element_is_lost_when_a_wait_times_out_during_a_push() {
    let bench = Bench::start(&[("threads", "2")]);
    let mut client = bench.client();
    let unblock = |is_done: &AtomicBool| {
        while !is_done.load(Relaxed) {
            for id in 1..20 {
                client.request(&format!("client unblock {id} error"));
            }
        }
    };
    check_handed_over_once(&bench, &format!("blpop {KEYS} 0.001"), unblock);
}

#[test]
fn elements_keep_their_order_through_a_chain_of_moves() {
    let bench = Bench::start(&[("threads", "2")]);
    let stages = 3;
    std::thread::scope(|scope| {
        for stage in 0..stages {
            let mut mover = bench.client();
            scope.spawn(move || {
                let command = format!("blmove s{stage} s{} left right 0", stage + 1);
                while mover.request(&command) != "end" {}
            });
        }
        let mut producer = bench.client();
        scope.spawn(move || {
            for number in 0..ELEMENTS {
                producer.request(&format!("rpush s0 {number}"));
            }
            producer.request("rpush s0 end");
        });
        let got = consume(&mut bench.client(), &format!("blpop s{stages} 0"));
        let wanted: Vec<String> = (0..ELEMENTS).map(|number| number.to_string()).collect();
        assert_eq!(got, wanted);
    });
}

#[test]
fn a_server_stops_while_clients_are_blocked() {
    let bench = Bench::start(&[("threads", "2")]);
    let mut clients: Vec<_> = (0..4).map(|_| bench.client()).collect();
    for client in &mut clients {
        client.send(b"blpop a b c 0\r\n");
    }
    let mut other = bench.client();
    while !other
        .request("info clients")
        .contains("blocked_clients:4\r\n")
    {}
    drop(bench);
    for client in clients {
        assert_eq!(client.rest(), "");
    }
}
