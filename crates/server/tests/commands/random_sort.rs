//! Random SORTs of lists, sets and sorted sets, put to Redis beside us.

use crate::random::{Chance, compare_random};

/// Commands in each dialect.
const STEPS: usize = 4_000;

fn element(chance: &mut Chance) -> String {
    match chance.below(30) {
        0 => chance.text("ab*", 2),
        // None beyond what a double holds: Redis 7.0 would refuse all numbers from then on.
        1 => format!(
            "{}.{}e{}",
            chance.below(9),
            chance.below(99),
            chance.below(40) as i64 - 20
        ),
        _ => (chance.below(40) as i64 - 10).to_string(),
    }
}

/// A key of one of the types, of the weights, or of the destinations.
fn key(chance: &mut Chance) -> String {
    chance
        .of(&["l", "s", "z", "l", "s", "z", "d", "w_1", "none"])
        .to_string()
}

fn option(chance: &mut Chance, words: &mut Vec<String>) {
    let option = match chance.below(8) {
        0 => vec!["LIMIT".to_string(), chance.offset(), chance.offset()],
        1 => vec!["ALPHA".to_string()],
        2 => vec![chance.of(&["ASC", "desc", "DESC"]).to_string()],
        3 | 4 => {
            let pattern = chance.of(&["#", "w_*", "h_*->f", "x", "w_*->f", "h_*", "*", "h_*->"]);
            vec!["GET".to_string(), pattern.to_string()]
        }
        5 => vec![
            "STORE".to_string(),
            chance.of(&["d", "d", "l", "s"]).to_string(),
        ],
        6 => vec!["nonsense".to_string()],
        _ => return,
    };
    words.extend(option);
}

fn command(chance: &mut Chance) -> Vec<String> {
    let name = chance.of(&[
        "SORT", "SORT", "SORT", "SORT_RO", "RPUSH", "SADD", "ZADD", "DEL", "SET", "HSET", "LRANGE",
    ]);
    let mut words = vec![name.to_string()];
    let number = chance.below(40) as i64 - 10;
    match name {
        "RPUSH" => words.extend(["l".to_string(), element(chance), element(chance)]),
        "SADD" => words.extend(["s".to_string(), element(chance), element(chance)]),
        "ZADD" => words.extend([
            "z".to_string(),
            chance.below(9).to_string(),
            element(chance),
        ]),
        "SET" => words.extend([format!("w_{number}"), element(chance)]),
        "HSET" => words.extend([format!("h_{number}"), "f".to_string(), element(chance)]),
        "LRANGE" => words.extend(["d", "0", "-1"].map(String::from)),
        "DEL" => words.push(key(chance)),
        _ => {
            words.push(key(chance));
            for _ in 0..chance.below(5) {
                option(chance, &mut words);
            }
            // By the bytes of another key, equal ones come in any order; a set's own order is none.
            let has_order = !words.iter().any(|word| word == "ALPHA");
            if has_order && chance.below(3) == 0 {
                let pattern = match words[1].as_str() {
                    "l" | "z" => chance.of(&["w_*", "h_*->f", "nosort"]),
                    _ => chance.of(&["w_*", "h_*->f"]),
                };
                words.extend(["BY".to_string(), pattern.to_string()]);
            }
        }
    }
    words
}

#[test]
fn redis_sorts_random_elements_alike() {
    compare_random(STEPS, |chance, _, _| {
        (
            command(chance)
                .into_iter()
                .map(String::into_bytes)
                .collect(),
            false,
        )
    });
}
