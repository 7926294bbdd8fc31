//! Batches of commands while the feed is on: their effects are added to it together, and the feed
//! is the same as if the commands had run one by one.

use super::*;
use crate::feed::{Taken, put_command};
use policy::parts::chance::Chance;
use std::time::Duration;
use wire::{Parsed, Parser};

/// Returns a server with one data thread whose feed is on.
fn start() -> Server {
    let options = store::Options {
        shards: 8,
        policy: "noeviction".into(),
        expiry: "wheel".into(),
        maxmemory: 0,
        hash_key: [1, 2],
        seed: 3,
    };
    let server = Server::with_store(Config::default(), &options, 1, Clock::manual(NOW));
    let server = server.expect("valid options");
    let mut view = server.keyspace.lock_all(Tick(NOW));
    effects::set_feed(&server, &mut view, true);
    drop(view);
    server
}

/// Returns random commands, among them some that are added to the feed in another form, together
/// with others, or not at all.
fn commands(chance: &mut Chance) -> Vec<String> {
    let mut below = |bound: u64| chance.bits() % bound;
    let mut all = Vec::new();
    for _ in 0..300 {
        let (key, value) = (format!("k{}", below(12)), below(1000));
        let next = match below(22) {
            0..6 => format!("SET {key} {value}"),
            6 => format!("SET {key} {}", "v".repeat(below(6000) as usize + 1)),
            7 => format!("SETEX {key} 100 {value}"),
            8 => format!("GET {key}"),
            9 => format!("DEL {key} k1"),
            10 => format!("INCR {key}"),
            11 => format!("RPUSH l{key} a b {value}"),
            12 => format!("LPOP l{key}"),
            13 => format!("HSET h{key} f {value} g 1"),
            14 => format!("PEXPIREAT {key} {}", NOW - 1 + below(3)),
            15 => format!("SELECT {}", below(3)),
            16 => format!("APPEND {key} x"),
            17 => "PING".to_owned(),
            18 => format!("EVAL return\tredis.call('set',KEYS[1],{value}) 1 {key}"),
            19 if below(8) == 0 => "FLUSHDB".to_owned(),
            20 => format!("PFADD p{key} {value}"),
            _ => {
                let (set, incr) = (format!("SET {key} {value}"), format!("INCR {key}"));
                all.extend(["MULTI".to_owned(), set, incr]);
                "EXEC".to_owned()
            }
        };
        all.push(next);
    }
    all
}

fn words(line: &str) -> Vec<&[u8]> {
    line.split(' ').map(str::as_bytes).collect()
}

/// Runs commands in batches of random lengths. Returns their replies.
fn run_in_batches(server: &Server, lines: &[String], chance: &mut Chance) -> Vec<u8> {
    let mut session = Session::new();
    let mut executor = Executor::new(server, 0, Tick(NOW));
    let (mut out, mut rest, mut pending_count) = (Output::default(), lines, 0);
    while !rest.is_empty() {
        let count = (1 + chance.bits() as usize % 20).min(rest.len());
        let (batch, later) = rest.split_at(count);
        rest = later;
        let mut input = Vec::new();
        for line in batch {
            put_command(&mut input, words(line).into_iter());
        }
        let (mut parser, mut spans, mut calls) = (Parser::default(), Vec::new(), Vec::new());
        let mut at = 0;
        while at < input.len() {
            let first = spans.len();
            let Ok(Parsed::Command { consumed }) = parser.parse(&mut input[at..], &mut spans)
            else {
                panic!("the commands are complete");
            };
            let mut call = Call {
                start: at,
                len: consumed,
                first,
                count: spans.len() - first,
                index: None,
                memo: None,
            };
            call.index = command::table().lookup(call.args(&input, &spans).name());
            calls.push(call);
            at += consumed;
        }
        executor.prepare(&mut calls, &input, &spans, session.db);
        for call in &calls {
            let args = call.args(&input, &spans);
            assert_eq!(
                executor.run(&mut session, args, call, &mut out),
                Outcome::Done
            );
            pending_count += usize::from(!executor.pending.is_empty());
        }
        executor.end_batch(&session, None);
        assert!(executor.pending.is_empty());
        executor.finish();
    }
    assert!(pending_count > 0, "some effects were pending");
    out.take_bytes()
}

/// Returns the bytes of the feed.
fn feed(server: &Server) -> String {
    let reader = server.feed.add_reader(0).expect("the feed has all bytes");
    let mut bytes = Vec::new();
    while let Taken::Bytes(_) = server.feed.read(reader, &mut bytes, Duration::ZERO) {}
    String::from_utf8(bytes).expect("text")
}

#[test]
fn the_feed_of_batches_is_that_of_single_commands() {
    for seed in 1..=30 {
        let mut chance = Chance::new(seed);
        let lines = commands(&mut chance);
        let (one, other) = (start(), start());
        // The feed keeps what no reader has taken.
        one.feed.set_backlog(1 << 30);
        other.feed.set_backlog(1 << 30);
        let mut session = Session::new();
        let mut replies = Vec::new();
        for line in &lines {
            exec(&one, &mut session, &words(line), Tick(NOW), &mut replies);
        }
        let batched = run_in_batches(&other, &lines, &mut chance);
        assert!(replies == batched, "seed {seed}: the replies differ");
        assert_eq!(feed(&one), feed(&other), "seed {seed}");
    }
}
