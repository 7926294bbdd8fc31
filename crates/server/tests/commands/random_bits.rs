//! Random commands on bitmaps and HyperLogLogs, compared with Redis.

use crate::random::{Random, compare_random};
use crate::redis::{Redis, RedisClient, now};
use crate::script::{Bench, words};
use wire::Protocol;

/// Number of commands per protocol version.
const STEPS: usize = 6_000;

fn offset(rng: &mut Random) -> String {
    match rng.below(30) {
        0 => rng
            .of(&["-1", "x", "", "4294967296", "9223372036854775807", "#1"])
            .to_string(),
        1..=3 => (rng.below(2000)).to_string(),
        _ => rng.below(70).to_string(),
    }
}

/// A bound of a range. Invalid numbers are left to the tables, because Redis 7.0 checks them only
/// if the key exists.
fn bound(rng: &mut Random) -> String {
    match rng.below(20) {
        0 => rng
            .of(&["9223372036854775807", "-9223372036854775808"])
            .to_string(),
        _ => (rng.below(160) as i64 - 80).to_string(),
    }
}

fn unit(rng: &mut Random, words: &mut Vec<String>) {
    if rng.below(2) == 0 {
        words.push(rng.of(&["BIT", "byte", "bit", "BYTE"]).to_string());
    }
}

fn field(rng: &mut Random, can_write: bool, words: &mut Vec<String>) {
    let action = match rng.below(20) {
        0 => "nonsense",
        1..=5 => "GET",
        6..=8 => "OVERFLOW",
        _ if !can_write && rng.below(9) > 0 => "get",
        9..=13 => "SET",
        _ => "INCRBY",
    };
    words.push(action.to_string());
    if action == "OVERFLOW" {
        words.push(
            rng.of(&["WRAP", "sat", "FAIL", "SAT", "fail", "x"])
                .to_string(),
        );
        return;
    }
    words.push(match rng.below(25) {
        0 => rng
            .of(&["u64", "i65", "u0", "i", "x8", "", "u8x"])
            .to_string(),
        _ if rng.below(2) == 0 => format!("i{}", 1 + rng.below(64)),
        _ => format!("u{}", 1 + rng.below(63)),
    });
    let hash = if rng.below(3) == 0 { "#" } else { "" };
    words.push(format!("{hash}{}", offset(rng)));
    if action == "SET" || action == "INCRBY" {
        let number = rng.integer();
        // Redis saturates a large negative number to the greatest number, because its own sum
        // overflows.
        let is_great = number
            .parse::<i64>()
            .is_ok_and(|number| number < i64::MIN / 2);
        words.push(if is_great { "-1".to_string() } else { number });
    }
}

fn bits(rng: &mut Random) -> Vec<String> {
    let name = rng.of(&[
        "SETBIT",
        "SETBIT",
        "SETBIT",
        "GETBIT",
        "BITCOUNT",
        "BITPOS",
        "BITOP",
        "BITOP",
        "BITFIELD",
        "BITFIELD",
        "BITFIELD_RO",
        "GET",
        "SET",
        "DEL",
        "STRLEN",
        "APPEND",
    ]);
    let mut words = vec![name.to_string()];
    match name {
        "SETBIT" => {
            words.extend([rng.key(), offset(rng)]);
            words.push(rng.of(&["0", "1", "1", "0", "1", "2", "x"]).to_string());
        }
        "GETBIT" => words.extend([rng.key(), offset(rng)]),
        "BITCOUNT" => {
            words.push(rng.key());
            if rng.below(4) > 0 {
                words.extend([bound(rng), bound(rng)]);
                unit(rng, &mut words);
            }
        }
        "BITPOS" => {
            words.extend([rng.key(), rng.of(&["0", "1", "0", "1", "2"]).to_string()]);
            for _ in 0..rng.below(3) {
                words.push(bound(rng));
            }
            if words.len() == 5 {
                unit(rng, &mut words);
            }
        }
        "BITOP" => {
            words.push(
                rng.of(&["AND", "or", "XOR", "not", "AND", "OR", "xor", "x"])
                    .to_string(),
            );
            words.push(rng.key());
            let sources = if words[1] == "not" {
                rng.below(8) / 7
            } else {
                rng.below(4)
            };
            for _ in 0..=sources {
                words.push(rng.key());
            }
        }
        "BITFIELD" | "BITFIELD_RO" => {
            words.push(rng.key());
            for _ in 0..rng.below(5) {
                field(rng, name == "BITFIELD", &mut words);
            }
        }
        "SET" | "APPEND" => words.extend([rng.key(), rng.value()]),
        _ => words.push(rng.key()),
    }
    words
}

#[test]
fn redis_gives_the_same_replies_on_bitmaps() {
    compare_random(STEPS, |rng, _, _| {
        let words = bits(rng);
        (words.into_iter().map(String::into_bytes).collect(), false)
    });
}

fn sketches(rng: &mut Random) -> Vec<String> {
    let name = rng.of(&[
        "PFADD", "PFADD", "PFADD", "PFADD", "PFCOUNT", "PFCOUNT", "PFMERGE", "DEL", "SET", "EXISTS",
    ]);
    let mut words = vec![name.to_string(), rng.key()];
    match name {
        "PFADD" => {
            // Mostly few elements, sometimes enough for the dense form.
            let count = match rng.below(40) {
                0 => 3000,
                1..=4 => 300,
                _ => rng.below(4),
            };
            for _ in 0..count {
                let len = rng.below(20);
                let number = rng.below(100_000);
                words.push(format!("{number:0len$}"));
            }
        }
        "PFCOUNT" | "PFMERGE" => {
            for _ in 0..rng.below(4) {
                words.push(rng.key());
            }
        }
        "SET" => {
            // A value that is no sketch, or only the header of one.
            let value = rng.of(&["", "x", "HYLL", "HYLL\u{1}\0\0\0\0\0\0\0\0\0\0\0"]);
            words.push(value.to_string());
            if rng.below(3) > 0 {
                words[0] = "EXISTS".to_string();
                words.pop();
            }
        }
        _ => {}
    }
    words
}

#[test]
fn redis_gives_the_same_replies_on_hyperloglogs() {
    compare_random(2_000, |rng, _, _| {
        (
            sketches(rng).into_iter().map(String::into_bytes).collect(),
            false,
        )
    });
}

#[test]
fn hyperloglogs_can_be_copied_to_redis_and_back() {
    let redis = Redis::start();
    let (mut rng, mut dense) = (Random::new(3), 0);
    let mut peer = RedisClient::new(&redis, Protocol::Resp2);
    let mut bench = Bench::new(Protocol::Resp2, now(), 1);
    for round in 0..60 {
        for _ in 0..1 + rng.below(4) {
            let mut command = words("PFADD k");
            let bound = 10 << (round / 6);
            for _ in 0..rng.below(bound) {
                command.push(rng.below(1 << 20).to_string().into_bytes());
            }
            assert_eq!(bench.run(&command), peer.run(&command));
        }
        // Each server counts the sketch that the other has made.
        let (ours, theirs) = (bench.run(&words("GET k")), peer.run(&words("GET k")));
        dense += usize::from(ours.starts_with("\"HYLL\\x00"));
        assert_eq!(bench.run(&words(&format!("SET t {theirs}"))), "+OK");
        assert_eq!(peer.run(&words(&format!("SET t {ours}"))), "+OK");
        let counts = ["PFCOUNT t", "PFCOUNT k", "PFCOUNT k t"].map(words);
        let replies: Vec<String> = counts.iter().map(|count| bench.run(count)).collect();
        assert_eq!(replies, counts.map(|count| peer.run(&count)));
        assert!(
            replies.iter().all(|count| *count == replies[0]),
            "{replies:?}"
        );
        if round % 6 == 5 {
            assert_eq!(bench.run(&words("DEL k")), peer.run(&words("DEL k")));
        }
    }
    assert!(dense > 5, "{dense}");
}
