//! Random commands on sets, put to Redis beside us.

use crate::random::{Chance, compare_random};

/// Commands in each dialect.
const STEPS: usize = 6_000;

fn member(chance: &mut Chance) -> String {
    match chance.below(12) {
        0 => chance.integer(),
        1 => chance.text("ab \u{0}", 90),
        2..=4 => chance.text("abc", 2),
        _ => (chance.below(30) as i64 - 10).to_string(),
    }
}

fn members(chance: &mut Chance, words: &mut Vec<String>) {
    // Sometimes more than is packed.
    let count = match chance.below(40) {
        0 => 700,
        1 => 150,
        _ => chance.below(6),
    };
    for _ in 0..=count {
        words.push(if count < 10 {
            member(chance)
        } else {
            chance.below(2000).to_string()
        });
    }
}

fn keys(chance: &mut Chance, words: &mut Vec<String>) {
    for _ in 0..=chance.below(4) {
        words.push(chance.key());
    }
}

fn command(chance: &mut Chance) -> Vec<String> {
    let name = chance.of(&[
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
            words.push(chance.key());
            members(chance, &mut words);
        }
        "SMOVE" => words.extend([chance.key(), chance.key(), member(chance)]),
        "SISMEMBER" => words.extend([chance.key(), member(chance)]),
        "SINTERCARD" => {
            words.push(
                chance
                    .of(&["1", "2", "3", "2", "1", "3", "0", "x"])
                    .to_string(),
            );
            keys(chance, &mut words);
            if chance.below(2) == 0 {
                let limit = chance.of(&["1", "3", "0", "2", "-1", "x"]);
                words.extend(["LIMIT".to_string(), limit.to_string()]);
            }
        }
        // All of it, or nothing: what is left to chance cannot be compared.
        "SPOP" | "SRANDMEMBER" => {
            words.push(chance.key());
            words.push(chance.of(&["0", "10000", "10000", "x"]).to_string());
        }
        "SET" if chance.below(3) == 0 => words.extend([chance.key(), chance.value()]),
        "SET" => words = vec!["TYPE".to_string(), chance.key()],
        "RENAME" => words.extend([chance.key(), chance.key()]),
        "COPY" => words.extend([chance.key(), chance.key(), "REPLACE".to_string()]),
        "DEL" | "TYPE" | "SCARD" | "SMEMBERS" => words.push(chance.key()),
        _ => keys(chance, &mut words),
    }
    words
}

#[test]
fn redis_answers_random_commands_on_sets_alike() {
    const LISTS: [&str; 6] = [
        "SMEMBERS",
        "SINTER",
        "SUNION",
        "SDIFF",
        "SPOP",
        "SRANDMEMBER",
    ];
    compare_random(STEPS, |chance, _, _| {
        let words = command(chance);
        let is_unordered = LISTS.contains(&words[0].as_str());
        (
            words.into_iter().map(String::into_bytes).collect(),
            is_unordered,
        )
    });
}
