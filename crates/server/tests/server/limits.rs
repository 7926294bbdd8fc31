//! Limits: too many clients, slow readers, clients that disconnect, large values.

use crate::client::Bench;
use std::io::Write;

#[test]
fn a_client_beyond_maxclients_gets_an_error() {
    let bench = Bench::start(&[("maxclients", "2")]);
    let (mut first, mut second) = (bench.client(), bench.client());
    first.check("ping", "+PONG");
    second.check("ping", "+PONG");
    assert_eq!(
        bench.client().rest(),
        "-ERR max number of clients reached\r\n"
    );
    second.send(b"quit\r\n");
    assert_eq!(second.rest(), "+OK\r\n");
    // The connection is released once the server has seen its end, which happens before its next
    // reply.
    first.check("ping", "+PONG");
    bench.client().check("ping", "+PONG");
}

#[test]
fn a_client_that_does_not_read_is_paused_and_then_served() {
    let bench = Bench::start(&[]);
    let (mut slow, mut other) = (bench.client(), bench.client());
    let value = "x".repeat(100_000);
    other.check(&format!("set a {}", &value[..60_000]), "+OK");
    let count = 2_000;
    let mut writer = slow.stream.try_clone().expect("a socket");
    let thread = std::thread::spawn(move || {
        writer
            .write_all(&b"get a\r\n".repeat(count))
            .expect("the server reads in the end");
    });
    // The replies amount to 120 MB; the server keeps only a bounded part of them.
    for _ in 0..50 {
        let info = other.request("info memory");
        let buffers = info
            .lines()
            .find_map(|line| line.strip_prefix("mem_clients_normal:"))
            .and_then(|text| text.trim().parse::<u64>().ok())
            .expect("a number");
        assert!(buffers < 8 << 20, "{buffers}");
    }
    for _ in 0..count {
        assert_eq!(slow.reply().len(), 60_000);
    }
    thread.join().expect("it wrote all");
}

#[test]
fn a_subscriber_that_does_not_read_is_disconnected() {
    let bench = Bench::start(&[("client-output-buffer-limit", "pubsub 1mb 0 0")]);
    let (mut slow, mut other) = (bench.client(), bench.client());
    slow.check("subscribe news", "*[subscribe news :1]");
    let message = "x".repeat(60_000);
    let mut receivers = 1;
    let mut tries = 0;
    // Publishes until the socket's own buffers are full and the limit is reached.
    while receivers == 1 {
        receivers = match other.request(&format!("publish news {message}")).as_str() {
            ":1" => 1,
            ":0" => 0,
            reply => panic!("{reply}"),
        };
        tries += 1;
        assert!(tries < 10_000, "it is not disconnected");
    }
    let info = other.request("info stats");
    assert!(
        info.contains("client_output_buffer_limit_disconnections:1\r\n"),
        "{info}"
    );
}

#[test]
fn a_soft_limit_with_the_longest_duration_disconnects_no_client() {
    // Regression: the conversion of the seconds to milliseconds overflowed 64 bits, which panicked
    // with overflow checks.
    let limit = "pubsub 0 1 9223372036854775807";
    let bench = Bench::start(&[("client-output-buffer-limit", limit)]);
    let (mut slow, mut other) = (bench.client(), bench.client());
    slow.check("subscribe news", "*[subscribe news :1]");
    let message = "x".repeat(60_000);
    for _ in 0..300 {
        other.check(&format!("publish news {message}"), ":1");
    }
    let info = other.request("client list type pubsub");
    assert!(
        !info.contains(" omem=0 "),
        "what is unsent was looked at: {info}"
    );
}

#[test]
fn disconnected_clients_are_removed() {
    let bench = Bench::start(&[]);
    let mut other = bench.client();
    for round in 0..50 {
        let mut client = bench.client();
        client.send(b"subscribe news\r\n");
        client.reply();
        let mut client = bench.client();
        client.send(b"watch a\r\nmulti\r\nset a 1\r\n");
        let cut = [
            &b"*3\r\n$3\r\nSET\r\n$1\r\n"[..],
            b"*2\r\n$3\r\nGET\r\n$100000\r\nabc",
            b"exec\r\nget",
        ];
        client.send(cut[round % cut.len()]);
    }
    // Each connection is closed when the server sees its end.
    let is_alone = |info: &str| info.contains("connected_clients:1\r\n");
    let mut tries = 0;
    while !is_alone(&other.request("info clients")) {
        tries += 1;
        assert!(tries < 100_000, "a client was not removed in time");
    }
    other.check("publish news x", ":0");
    other.check("pubsub channels", "*[]");
}

/// Regression: if a client disconnected while a part of its replies was sent, the count of the rest
/// wrapped around.
#[test]
fn a_disconnect_during_a_reply_keeps_the_counters_correct() {
    let bench = Bench::start(&[]);
    let mut other = bench.client();
    other.check(&format!("set a {}", "x".repeat(10_000)), "+OK");
    for _ in 0..100 {
        let mut client = bench.client();
        client.send(&b"get a\r\n".repeat(500));
    }
    let mut tries = 0;
    while !other
        .request("info clients")
        .contains("connected_clients:1\r\n")
    {
        tries += 1;
        assert!(tries < 100_000, "a client was not removed in time");
    }
    other.check("strlen a", ":10000");
}

#[test]
fn a_large_value_can_be_written_read_and_deleted() {
    let bench = Bench::start(&[]);
    let mut client = bench.client();
    let len = 40_000_000;
    let mut writer = client.stream.try_clone().expect("a socket");
    let thread = std::thread::spawn(move || {
        let head = format!("*3\r\n$3\r\nSET\r\n$1\r\na\r\n${len}\r\n");
        writer.write_all(head.as_bytes()).expect("the server reads");
        writer
            .write_all(&vec![b'x'; len])
            .expect("the server reads");
        writer.write_all(b"\r\n").expect("the server reads");
    });
    assert_eq!(client.reply(), "+OK");
    thread.join().expect("it wrote all");
    client.check("strlen a", &format!(":{len}"));
    assert_eq!(client.request("get a").len(), len);
    client.check("del a", ":1");
}

#[test]
fn killed_clients_are_disconnected() {
    let bench = Bench::start(&[("threads", "2")]);
    let mut killer = bench.client();
    let victims: Vec<_> = (0..6)
        .map(|number| {
            let mut client = bench.client();
            client.check(&format!("client setname victim{number}"), "+OK");
            client
        })
        .collect();
    killer.check("client kill type pubsub", ":0");
    killer.check(
        "client kill id 0",
        "-ERR client-id should be greater than 0",
    );
    killer.check("client kill 1.2.3.4:5", "-ERR No such client");
    killer.check("client kill type normal skipme yes", ":6");
    for victim in victims {
        assert_eq!(victim.rest(), "");
    }
    killer.check("ping", "+PONG");
}
