//! Random commands on lists, compared with Redis. Blocking commands run only within MULTI, where
//! they do not block. Some lists become long, so that both representations are tested with every
//! command.

use crate::random::{Random, compare_random};

/// Number of commands per protocol version.
const STEPS: usize = 12_000;

fn key(rng: &mut Random) -> String {
    rng.of(&["a", "b", "c", "d", "string"]).to_string()
}

/// One of few values, so that equal elements occur; some values are long.
fn value(rng: &mut Random) -> String {
    match rng.below(12) {
        0 => rng.integer(),
        1 => rng.value(),
        2 => "long".repeat(30 + rng.below(4) * 100),
        3 => "longer".repeat(rng.below(3) * 700),
        _ => rng.of(&["x", "y", "z", "1", "22"]).to_string(),
    }
}

fn index(rng: &mut Random) -> String {
    match rng.below(25) {
        0 => rng.integer(),
        1..=6 => (rng.below(800) as i64 - 400).to_string(),
        _ => (rng.below(12) as i64 - 6).to_string(),
    }
}

fn count(rng: &mut Random) -> String {
    match rng.below(12) {
        0 => rng.integer(),
        1 => rng.below(600).to_string(),
        _ => (rng.below(7) as i64 - 1).to_string(),
    }
}

fn end(rng: &mut Random) -> String {
    match rng.below(40) {
        0 => "UP".to_string(),
        _ => rng.of(&["LEFT", "right", "RIGHT", "left"]).to_string(),
    }
}

fn demand(rng: &mut Random, words: &mut Vec<String>) {
    let keys = 1 + rng.below(3);
    words.push(match rng.below(20) {
        0 => rng.integer(),
        _ => keys.to_string(),
    });
    words.extend((0..keys).map(|_| key(rng)));
    words.push(end(rng));
    if rng.below(2) == 0 {
        words.extend(["COUNT".to_string(), count(rng)]);
    }
}

fn search(rng: &mut Random, words: &mut Vec<String>) {
    words.extend([key(rng), value(rng)]);
    for _ in 0..rng.below(4) {
        let option = rng.of(&["RANK", "count", "COUNT", "MAXLEN", "rank", "nonsense"]);
        // Redis 7.0 accepts the smallest integer as a rank.
        let number = Some(index(rng)).filter(|text| *text != i64::MIN.to_string());
        words.extend([option.to_string(), number.unwrap_or("-7".to_string())]);
    }
    if rng.below(30) == 0 {
        words.pop();
    }
}

fn command(rng: &mut Random) -> Vec<String> {
    let name = rng.of(NAMES);
    let mut words = vec![name.to_string()];
    match name {
        "LPUSH" | "RPUSH" | "LPUSHX" | "RPUSHX" => {
            words.push(key(rng));
            let count = match rng.below(12) {
                0 => 300,
                _ => 1 + rng.below(4),
            };
            words.extend((0..count).map(|_| value(rng)));
        }
        "LPOP" | "RPOP" => {
            words.push(key(rng));
            if rng.below(2) == 0 {
                words.push(count(rng));
            }
        }
        "LLEN" | "DEL" | "TYPE" => words.push(key(rng)),
        "LINDEX" => words.extend([key(rng), index(rng)]),
        "LRANGE" | "LTRIM" => words.extend([key(rng), index(rng), index(rng)]),
        "LSET" => words.extend([key(rng), index(rng), value(rng)]),
        "LREM" => words.extend([key(rng), index(rng), value(rng)]),
        "LINSERT" => {
            let place = rng.of(&["BEFORE", "after", "AFTER", "before", "beside"]);
            words.extend([key(rng), place.to_string(), value(rng), value(rng)]);
        }
        "LPOS" => search(rng, &mut words),
        "LMOVE" => words.extend([key(rng), key(rng), end(rng), end(rng)]),
        "RPOPLPUSH" | "RENAME" => words.extend([key(rng), key(rng)]),
        "COPY" => words.extend([key(rng), key(rng), "REPLACE".to_string()]),
        "LMPOP" => demand(rng, &mut words),
        "MULTI" | "EXEC" => {}
        other => unreachable!("{other} has no arguments here"),
    }
    words
}

/// A command that would block outside MULTI.
fn blocking_command(rng: &mut Random) -> Vec<String> {
    let timeout = |rng: &mut Random| match rng.below(12) {
        0 => rng.of(&["-1", "x", "", "-0.5"]).to_string(),
        _ => rng.of(&["0", "1", "0.5"]).to_string(),
    };
    let name = rng.of(&["BLPOP", "BRPOP", "BLMPOP", "BLMOVE", "BRPOPLPUSH"]);
    let mut words = vec![name.to_string()];
    match name {
        "BLPOP" | "BRPOP" => {
            words.extend((0..=rng.below(3)).map(|_| key(rng)));
            words.push(timeout(rng));
        }
        "BLMPOP" => {
            words.push(timeout(rng));
            demand(rng, &mut words);
        }
        "BLMOVE" => words.extend([key(rng), key(rng), end(rng), end(rng), timeout(rng)]),
        _ => words.extend([key(rng), key(rng), timeout(rng)]),
    }
    words
}

const NAMES: &[&str] = &[
    "LPUSH",
    "LPUSH",
    "RPUSH",
    "RPUSH",
    "RPUSH",
    "LPUSHX",
    "RPUSHX",
    "LPOP",
    "RPOP",
    "LLEN",
    "LINDEX",
    "LINDEX",
    "LRANGE",
    "LRANGE",
    "LTRIM",
    "LSET",
    "LSET",
    "LREM",
    "LREM",
    "LINSERT",
    "LINSERT",
    "LPOS",
    "LPOS",
    "LMOVE",
    "RPOPLPUSH",
    "LMPOP",
    "RENAME",
    "COPY",
    "DEL",
    "TYPE",
    "MULTI",
    "EXEC",
];

#[test]
fn redis_gives_the_same_replies_on_lists() {
    compare_random(STEPS, |rng, _, bench| {
        let queues = bench.session.transaction.is_some();
        let words = match rng.below(6) {
            0 if queues => blocking_command(rng),
            1 if queues => vec!["EXEC".to_string()],
            0 if rng.below(10) == 0 => ["SET", "string", "x"].map(str::to_string).to_vec(),
            // Lists are sometimes trimmed, so that short lists are frequent.
            2 if rng.below(3) == 0 => {
                let key = key(rng);
                vec!["LTRIM".into(), key, "0".into(), rng.below(20).to_string()]
            }
            _ => command(rng),
        };
        (words.into_iter().map(String::into_bytes).collect(), false)
    });
}
