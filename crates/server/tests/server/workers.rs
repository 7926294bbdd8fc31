//! Several workers: isolation of transactions, and deadlines in shards of other workers.

use crate::client::Bench;
use std::collections::BTreeSet;

#[test]
fn transactions_are_isolated_from_other_clients() {
    let bench = Bench::start(&[("threads", "2")]);
    let rounds = 2_000;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let mut client = bench.client();
            scope.spawn(move || {
                for _ in 0..rounds {
                    client.send(b"multi\r\nincr a\r\nincr b\r\nget a\r\nexec\r\n");
                    for _ in 0..4 {
                        client.reply();
                    }
                    let reply = client.reply();
                    let numbers = reply.trim_matches(['*', '[', ']']).replace(':', "");
                    let numbers: BTreeSet<&str> = numbers.split(' ').collect();
                    assert_eq!(numbers.len(), 1, "{reply}");
                }
            });
        }
    });
    let expected = (4 * rounds).to_string();
    bench.client().check("get a", &expected);
    bench.client().check("get b", &expected);
}

#[test]
fn a_transaction_fails_if_another_client_changes_a_watched_key() {
    let bench = Bench::start(&[("threads", "2")]);
    let (mut one, mut two) = (bench.client(), bench.client());
    one.check("watch a b", "+OK");
    two.check("set b 1", "+OK");
    one.check("multi", "+OK");
    one.check("set a 1", "+QUEUED");
    one.check("exec", "nil");
    one.check("multi", "+OK");
    one.check("set a 1", "+QUEUED");
    one.check("exec", "*[+OK]");
    // An expired key counts as changed.
    two.check("set c 1", "+OK");
    one.check("watch c", "+OK");
    two.check("pexpire c 20", ":1");
    while two.request("exists c") == ":1" {}
    one.check("multi", "+OK");
    one.check("exec", "nil");
}

#[test]
fn concurrent_increments_add_up() {
    let bench = Bench::start(&[("threads", "2")]);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let mut client = bench.client();
            scope.spawn(move || {
                for _ in 0..200 {
                    client.send(&b"incr n\r\n".repeat(50));
                    for _ in 0..50 {
                        client.reply();
                    }
                }
            });
        }
    });
    bench.client().check("get n", "40000");
}

#[test]
fn deadlines_set_by_any_worker_are_expired_by_the_shards_owner() {
    let bench = Bench::start(&[("threads", "2"), ("notify-keyspace-events", "Ex")]);
    let mut listener = bench.client();
    listener.check(
        "subscribe __keyevent@0__:expired",
        "*[subscribe __keyevent@0__:expired :1]",
    );
    let mut clients: Vec<_> = (0..4).map(|_| bench.client()).collect();
    // A distant deadline first, so that the workers plan a long sleep; then near ones from all
    // clients.
    clients[0].check("set far 1 ex 3600", "+OK");
    let mut expected = BTreeSet::new();
    for number in 0..200 {
        let key = format!("k{number}");
        let line = format!("set {key} 1 px {}", 1 + number % 60);
        clients[number % 4].check(&line, "+OK");
        expected.insert(format!("*[message __keyevent@0__:expired {key}]"));
    }
    while !expected.is_empty() {
        let message = listener.reply();
        assert!(expected.remove(&message), "{message}");
    }
    clients[1].check("dbsize", ":1");
    let info = clients[2].request("info expiry");
    assert!(info.contains("expiry_lag_samples:200\r\n"), "{info}");
}

#[test]
fn connections_are_distributed_over_the_workers() {
    let bench = Bench::start(&[("threads", "2")]);
    let mut clients: Vec<_> = (0..8).map(|_| bench.client()).collect();
    for client in &mut clients {
        client.check("ping", "+PONG");
    }
    let list = clients[0].request("client list");
    assert_eq!(list.matches("io-thread=0").count(), 4, "{list}");
    assert_eq!(list.matches("io-thread=1").count(), 4, "{list}");
}
