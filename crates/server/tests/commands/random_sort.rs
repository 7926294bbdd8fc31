//! Random SORT commands on lists, sets and sorted sets, compared with Redis.

use crate::random::{Random, compare_random};

/// Number of commands per protocol version.
const STEPS: usize = 4_000;

fn element(rng: &mut Random) -> String {
    match rng.below(30) {
        0 => rng.text("ab*", 2),
        // No number beyond the range of a double, because Redis 7.0 would refuse all numbers from
        // then on.
        1 => format!(
            "{}.{}e{}",
            rng.below(9),
            rng.below(99),
            rng.below(40) as i64 - 20
        ),
        _ => (rng.below(40) as i64 - 10).to_string(),
    }
}

/// Returns a key of one of the types, a weight, or a destination.
fn key(rng: &mut Random) -> String {
    rng.of(&["l", "s", "z", "l", "s", "z", "d", "w_1", "none"])
        .to_string()
}

fn option(rng: &mut Random, words: &mut Vec<String>) {
    let option = match rng.below(8) {
        0 => vec!["LIMIT".to_string(), rng.offset(), rng.offset()],
        1 => vec!["ALPHA".to_string()],
        2 => vec![rng.of(&["ASC", "desc", "DESC"]).to_string()],
        3 | 4 => {
            let pattern = rng.of(&["#", "w_*", "h_*->f", "x", "w_*->f", "h_*", "*", "h_*->"]);
            vec!["GET".to_string(), pattern.to_string()]
        }
        5 => vec![
            "STORE".to_string(),
            rng.of(&["d", "d", "l", "s"]).to_string(),
        ],
        6 => vec!["nonsense".to_string()],
        _ => return,
    };
    words.extend(option);
}

fn command(rng: &mut Random) -> Vec<String> {
    let name = rng.of(&[
        "SORT", "SORT", "SORT", "SORT_RO", "RPUSH", "SADD", "ZADD", "DEL", "SET", "HSET", "LRANGE",
    ]);
    let mut words = vec![name.to_string()];
    let number = rng.below(40) as i64 - 10;
    match name {
        "RPUSH" => words.extend(["l".to_string(), element(rng), element(rng)]),
        "SADD" => words.extend(["s".to_string(), element(rng), element(rng)]),
        "ZADD" => words.extend(["z".to_string(), rng.below(9).to_string(), element(rng)]),
        "SET" => words.extend([format!("w_{number}"), element(rng)]),
        "HSET" => words.extend([format!("h_{number}"), "f".to_string(), element(rng)]),
        "LRANGE" => words.extend(["d", "0", "-1"].map(String::from)),
        "DEL" => words.push(key(rng)),
        _ => {
            words.push(key(rng));
            for _ in 0..rng.below(5) {
                option(rng, &mut words);
            }
            // Elements with equal sort keys have no defined order with ALPHA, and a set has no
            // order of its own.
            let has_order = !words.iter().any(|word| word == "ALPHA");
            if has_order && rng.below(3) == 0 {
                let pattern = match words[1].as_str() {
                    "l" | "z" => rng.of(&["w_*", "h_*->f", "nosort"]),
                    _ => rng.of(&["w_*", "h_*->f"]),
                };
                words.extend(["BY".to_string(), pattern.to_string()]);
            }
        }
    }
    words
}

#[test]
fn redis_sorts_random_elements_in_the_same_order() {
    compare_random(STEPS, |rng, _, _| {
        (
            command(rng).into_iter().map(String::into_bytes).collect(),
            false,
        )
    });
}
