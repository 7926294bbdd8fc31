//! Nanoseconds per parsed command and per encoded reply, the minimum of several rounds: `cargo
//! bench -p mayfly-cache-wire`. As a test (`cargo test --benches`) it runs one short round.
#![expect(
    clippy::disallowed_methods,
    reason = "a bench reads the clock, and cargo's arguments distinguish it from a test"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};
use wire::LongDouble;
use wire::number::parse_i64;
use wire::{Output, Parsed, Parser, Protocol, Reply, ReplyScanner, encode_command};

const ROUNDS: usize = 15;
const BATCH: usize = 512;

/// Runs `work`, which performs `operations` operations, and prints the minimum time of one.
fn measure(name: &str, operations: usize, mut work: impl FnMut()) {
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let (rounds, repeats) = if is_bench { (ROUNDS, 400) } else { (1, 1) };
    let mut best = Duration::MAX;
    for _ in 0..rounds {
        let start = Instant::now();
        for _ in 0..repeats {
            work();
        }
        best = best.min(start.elapsed());
    }
    let nanoseconds = best.as_nanos() as f64 / (repeats * operations) as f64;
    println!("{name:<36} {nanoseconds:8.1} ns");
}

fn parse(name: &str, command: &[&[u8]]) {
    let mut input = Vec::new();
    for _ in 0..BATCH {
        encode_command(&mut input, command);
    }
    parse_stream(name, input, BATCH);
}

fn parse_stream(name: &str, mut input: Vec<u8>, commands: usize) {
    let (mut parser, mut spans) = (Parser::default(), Vec::new());
    measure(name, commands, || {
        spans.clear();
        let mut at = 0;
        let mut found = 0;
        while let Ok(Parsed::Command { consumed }) =
            parser.parse(black_box(&mut input[at..]), &mut spans)
        {
            at += consumed;
            found += 1;
        }
        assert_eq!(found, commands);
        black_box(&spans);
    });
}

fn encode(name: &str, mut one: impl FnMut(&mut Reply<'_>, usize)) {
    let mut out = Output::default();
    measure(name, BATCH, || {
        out.clear();
        let mut reply = Reply::new(&mut out, Protocol::Resp3);
        for index in 0..BATCH {
            one(&mut reply, black_box(index));
        }
        black_box(&out[..]);
    });
}

fn main() {
    let key: &[u8] = b"key:000000123456";
    parse("parse GET, key of 16", &[b"GET", key]);
    parse("parse SET, 16 + 3", &[b"SET", key, b"abc"]);
    parse(
        "parse SET EX, 16 + 100",
        &[b"SET", key, &[b'x'; 100], b"EX", b"3600"],
    );
    let keys: Vec<&[u8]> = vec![key; 101];
    parse("parse MGET of 100", &keys);
    let mut input = Vec::new();
    for _ in 0..BATCH {
        input.extend_from_slice(b"GET key:000000123456\r\n");
    }
    parse_stream("parse inline GET", input, BATCH);

    encode("encode +OK", |reply, _| reply.ok());
    encode("encode null", |reply, _| reply.null());
    encode("encode bulk of 3", |reply, _| reply.bulk(b"abc"));
    encode("encode bulk of 100", |reply, _| reply.bulk(&[b'x'; 100]));
    encode("encode bulk of 1,000", |reply, _| reply.bulk(&[b'x'; 1000]));
    encode("encode integer below 10", |reply, index| {
        reply.integer(index as i64 % 10)
    });
    encode("encode integer of 10 digits", |reply, index| {
        reply.integer(index as i64 + 1_234_567_890);
    });
    encode("encode counter as bulk", |reply, index| {
        reply.bulk_integer(index as i64 + 1_234_567_890);
    });
    encode("encode double 10.6", |reply, _| {
        reply.double(black_box(10.6))
    });
    encode("encode error", |reply, _| reply.error("ERR syntax error"));

    measure("read i64 of 10 digits", BATCH, || {
        for _ in 0..BATCH {
            black_box(parse_i64(black_box(b"1234567890")));
        }
    });
    measure("INCRBYFLOAT 10.5 + 0.1, to text", 64, || {
        let mut out = Vec::new();
        for _ in 0..64 {
            let a = LongDouble::parse(black_box(b"10.5")).expect("a number");
            let b = LongDouble::parse(black_box(b"0.1")).expect("a number");
            out.clear();
            a.plus(b).expect("in range").push_decimal(&mut out);
        }
        black_box(&out);
    });

    let mut replies = Output::default();
    for _ in 0..BATCH {
        Reply::new(&mut replies, Protocol::Resp3).bulk(b"abc");
    }
    measure("scan reply, bulk of 3", BATCH, || {
        let (mut scanner, mut at) = (ReplyScanner::default(), 0);
        while let Ok(Some(len)) = scanner.scan(black_box(&replies[at..])) {
            at += len;
        }
        assert_eq!(at, replies.len());
    });
}
