//! Random commands on strings as bits and as sketches, put to Redis beside us.

use crate::random::{Chance, compare_random};
use crate::redis::{Peer, Redis, now};
use crate::script::{Bench, words};
use wire::Protocol;

/// Commands in each dialect.
const STEPS: usize = 6_000;

fn offset(chance: &mut Chance) -> String {
    match chance.below(30) {
        0 => chance
            .of(&["-1", "x", "", "4294967296", "9223372036854775807", "#1"])
            .to_string(),
        1..=3 => (chance.below(2000)).to_string(),
        _ => chance.below(70).to_string(),
    }
}

/// Where a part begins or ends. What is no number is left to the tables: Redis 7.0 looks at it only if
/// there is such a key.
fn bound(chance: &mut Chance) -> String {
    match chance.below(20) {
        0 => chance
            .of(&["9223372036854775807", "-9223372036854775808"])
            .to_string(),
        _ => (chance.below(160) as i64 - 80).to_string(),
    }
}

fn unit(chance: &mut Chance, words: &mut Vec<String>) {
    if chance.below(2) == 0 {
        words.push(chance.of(&["BIT", "byte", "bit", "BYTE"]).to_string());
    }
}

fn field(chance: &mut Chance, can_write: bool, words: &mut Vec<String>) {
    let action = match chance.below(20) {
        0 => "nonsense",
        1..=5 => "GET",
        6..=8 => "OVERFLOW",
        _ if !can_write && chance.below(9) > 0 => "get",
        9..=13 => "SET",
        _ => "INCRBY",
    };
    words.push(action.to_string());
    if action == "OVERFLOW" {
        words.push(
            chance
                .of(&["WRAP", "sat", "FAIL", "SAT", "fail", "x"])
                .to_string(),
        );
        return;
    }
    words.push(match chance.below(25) {
        0 => chance
            .of(&["u64", "i65", "u0", "i", "x8", "", "u8x"])
            .to_string(),
        _ if chance.below(2) == 0 => format!("i{}", 1 + chance.below(64)),
        _ => format!("u{}", 1 + chance.below(63)),
    });
    let hash = if chance.below(3) == 0 { "#" } else { "" };
    words.push(format!("{hash}{}", offset(chance)));
    if action == "SET" || action == "INCRBY" {
        let number = chance.integer();
        // Redis saturates a great negative number to the greatest one: its own sum wraps.
        let is_great = number
            .parse::<i64>()
            .is_ok_and(|number| number < i64::MIN / 2);
        words.push(if is_great { "-1".to_string() } else { number });
    }
}

fn bits(chance: &mut Chance) -> Vec<String> {
    let name = chance.of(&[
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
            words.extend([chance.key(), offset(chance)]);
            words.push(chance.of(&["0", "1", "1", "0", "1", "2", "x"]).to_string());
        }
        "GETBIT" => words.extend([chance.key(), offset(chance)]),
        "BITCOUNT" => {
            words.push(chance.key());
            if chance.below(4) > 0 {
                words.extend([bound(chance), bound(chance)]);
                unit(chance, &mut words);
            }
        }
        "BITPOS" => {
            words.extend([
                chance.key(),
                chance.of(&["0", "1", "0", "1", "2"]).to_string(),
            ]);
            for _ in 0..chance.below(3) {
                words.push(bound(chance));
            }
            if words.len() == 5 {
                unit(chance, &mut words);
            }
        }
        "BITOP" => {
            words.push(
                chance
                    .of(&["AND", "or", "XOR", "not", "AND", "OR", "xor", "x"])
                    .to_string(),
            );
            words.push(chance.key());
            let sources = if words[1] == "not" {
                chance.below(8) / 7
            } else {
                chance.below(4)
            };
            for _ in 0..=sources {
                words.push(chance.key());
            }
        }
        "BITFIELD" | "BITFIELD_RO" => {
            words.push(chance.key());
            for _ in 0..chance.below(5) {
                field(chance, name == "BITFIELD", &mut words);
            }
        }
        "SET" | "APPEND" => words.extend([chance.key(), chance.value()]),
        _ => words.push(chance.key()),
    }
    words
}

#[test]
fn redis_answers_random_commands_on_bits_alike() {
    compare_random(STEPS, |chance, _, _| {
        let words = bits(chance);
        (words.into_iter().map(String::into_bytes).collect(), false)
    });
}

fn sketches(chance: &mut Chance) -> Vec<String> {
    let name = chance.of(&[
        "PFADD", "PFADD", "PFADD", "PFADD", "PFCOUNT", "PFCOUNT", "PFMERGE", "DEL", "SET", "EXISTS",
    ]);
    let mut words = vec![name.to_string(), chance.key()];
    match name {
        "PFADD" => {
            // Mostly few, sometimes enough for the dense form.
            let count = match chance.below(40) {
                0 => 3000,
                1..=4 => 300,
                _ => chance.below(4),
            };
            for _ in 0..count {
                let len = chance.below(20);
                let number = chance.below(100_000);
                words.push(format!("{number:0len$}"));
            }
        }
        "PFCOUNT" | "PFMERGE" => {
            for _ in 0..chance.below(4) {
                words.push(chance.key());
            }
        }
        "SET" => {
            // What is no sketch at all, or but the head of one.
            let value = chance.of(&["", "x", "HYLL", "HYLL\u{1}\0\0\0\0\0\0\0\0\0\0\0"]);
            words.push(value.to_string());
            if chance.below(3) > 0 {
                words[0] = "EXISTS".to_string();
                words.pop();
            }
        }
        _ => {}
    }
    words
}

#[test]
fn redis_answers_random_commands_on_sketches_alike() {
    compare_random(2_000, |chance, _, _| {
        (
            sketches(chance)
                .into_iter()
                .map(String::into_bytes)
                .collect(),
            false,
        )
    });
}

#[test]
fn sketches_travel_to_redis_and_back() {
    let Some(redis) = Redis::start() else { return };
    let (mut chance, mut dense) = (Chance::new(3), 0);
    let mut peer = Peer::new(&redis, Protocol::Resp2);
    let mut bench = Bench::new(Protocol::Resp2, now(), 1);
    for round in 0..60 {
        for _ in 0..1 + chance.below(4) {
            let mut command = words("PFADD k");
            let bound = 10 << (round / 6);
            for _ in 0..chance.below(bound) {
                command.push(chance.below(1 << 20).to_string().into_bytes());
            }
            assert_eq!(bench.say(&command), peer.ask(&command));
        }
        // Each counts what the other has made.
        let (ours, theirs) = (bench.say(&words("GET k")), peer.ask(&words("GET k")));
        dense += usize::from(ours.starts_with("\"HYLL\\x00"));
        assert_eq!(bench.say(&words(&format!("SET t {theirs}"))), "+OK");
        assert_eq!(peer.ask(&words(&format!("SET t {ours}"))), "+OK");
        let counts = ["PFCOUNT t", "PFCOUNT k", "PFCOUNT k t"].map(words);
        let told: Vec<String> = counts.iter().map(|count| bench.say(count)).collect();
        assert_eq!(told, counts.map(|count| peer.ask(&count)));
        assert!(told.iter().all(|count| *count == told[0]), "{told:?}");
        if round % 6 == 5 {
            assert_eq!(bench.say(&words("DEL k")), peer.ask(&words("DEL k")));
        }
    }
    assert!(dense > 5, "{dense}");
}
