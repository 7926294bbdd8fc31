//! Random commands on sets, compared with Redis.

use crate::random::{Random, compare_random};

/// Number of commands per protocol version.
const STEPS: usize = 6_000;

fn member(rng: &mut Random) -> String {
    match rng.below(12) {
        0 => rng.integer(),
        1 => rng.text("ab \u{0}", 90),
        2..=4 => rng.text("abc", 2),
        _ => (rng.below(30) as i64 - 10).to_string(),
    }
}

fn members(rng: &mut Random, words: &mut Vec<String>) {
    // Sometimes more members than the packed form holds.
    let count = match rng.below(40) {
        0 => 700,
        1 => 150,
        _ => rng.below(6),
    };
    for _ in 0..=count {
        words.push(if count < 10 {
            member(rng)
        } else {
            rng.below(2000).to_string()
        });
    }
}

fn keys(rng: &mut Random, words: &mut Vec<String>) {
    for _ in 0..=rng.below(4) {
        words.push(rng.key());
    }
}

fn command(rng: &mut Random) -> Vec<String> {
    let name = rng.of(&[
        "SADD",
        "SADD",
        "SADD",
        "SADD",
        "SADD",
        "SREM",
        "SREM",
        "SMOVE",
        "SMOVE",
        "SISMEMBER",
        "SMISMEMBER",
        "SCARD",
        "SMEMBERS",
        "SINTER",
        "SUNION",
        "SDIFF",
        "SINTERSTORE",
        "SUNIONSTORE",
        "SDIFFSTORE",
        "SINTERCARD",
        "SPOP",
        "SRANDMEMBER",
        "DEL",
        "SET",
        "TYPE",
        "RENAME",
        "COPY",
        "EXISTS",
    ]);
    let mut words = vec![name.to_string()];
    match name {
        "SADD" | "SREM" | "SMISMEMBER" => {
            words.push(rng.key());
            members(rng, &mut words);
        }
        "SMOVE" => words.extend([rng.key(), rng.key(), member(rng)]),
        "SISMEMBER" => words.extend([rng.key(), member(rng)]),
        "SINTERCARD" => {
            words.push(
                rng.of(&["1", "2", "3", "2", "1", "3", "0", "x"])
                    .to_string(),
            );
            keys(rng, &mut words);
            if rng.below(2) == 0 {
                let limit = rng.of(&["1", "3", "0", "2", "-1", "x"]);
                words.extend(["LIMIT".to_string(), limit.to_string()]);
            }
        }
        // All members or none, because random replies cannot be compared.
        "SPOP" | "SRANDMEMBER" => {
            words.push(rng.key());
            words.push(rng.of(&["0", "10000", "10000", "x"]).to_string());
        }
        "SET" if rng.below(3) == 0 => words.extend([rng.key(), rng.value()]),
        "SET" => words = vec!["TYPE".to_string(), rng.key()],
        "RENAME" => words.extend([rng.key(), rng.key()]),
        "COPY" => words.extend([rng.key(), rng.key(), "REPLACE".to_string()]),
        "DEL" | "TYPE" | "SCARD" | "SMEMBERS" => words.push(rng.key()),
        _ => keys(rng, &mut words),
    }
    words
}

#[test]
fn redis_gives_the_same_replies_on_sets() {
    const LISTS: [&str; 6] = [
        "SMEMBERS",
        "SINTER",
        "SUNION",
        "SDIFF",
        "SPOP",
        "SRANDMEMBER",
    ];
    compare_random(STEPS, |rng, _, _| {
        let words = command(rng);
        let is_unordered = LISTS.contains(&words[0].as_str());
        (
            words.into_iter().map(String::into_bytes).collect(),
            is_unordered,
        )
    });
}
