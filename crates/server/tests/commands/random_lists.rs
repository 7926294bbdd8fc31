//! Random commands on lists, put to Redis beside us. Those that may wait only where they do not: within
//! MULTI. Lists become long at times, so that both forms meet every command.

use crate::random::{Chance, compare_random};

/// Commands in each dialect.
const STEPS: usize = 12_000;

fn key(chance: &mut Chance) -> String {
    chance.of(&["a", "b", "c", "d", "string"]).to_string()
}

/// Few values, so that equal ones meet; some of them long.
fn value(chance: &mut Chance) -> String {
    match chance.below(12) {
        0 => chance.integer(),
        1 => chance.value(),
        2 => "long".repeat(30 + chance.below(4) * 100),
        3 => "longer".repeat(chance.below(3) * 700),
        _ => chance.of(&["x", "y", "z", "1", "22"]).to_string(),
    }
}

fn index(chance: &mut Chance) -> String {
    match chance.below(25) {
        0 => chance.integer(),
        1..=6 => (chance.below(800) as i64 - 400).to_string(),
        _ => (chance.below(12) as i64 - 6).to_string(),
    }
}

fn count(chance: &mut Chance) -> String {
    match chance.below(12) {
        0 => chance.integer(),
        1 => chance.below(600).to_string(),
        _ => (chance.below(7) as i64 - 1).to_string(),
    }
}

fn end(chance: &mut Chance) -> String {
    match chance.below(40) {
        0 => "UP".to_string(),
        _ => chance.of(&["LEFT", "right", "RIGHT", "left"]).to_string(),
    }
}

fn demand(chance: &mut Chance, words: &mut Vec<String>) {
    let keys = 1 + chance.below(3);
    words.push(match chance.below(20) {
        0 => chance.integer(),
        _ => keys.to_string(),
    });
    words.extend((0..keys).map(|_| key(chance)));
    words.push(end(chance));
    if chance.below(2) == 0 {
        words.extend(["COUNT".to_string(), count(chance)]);
    }
}

fn search(chance: &mut Chance, words: &mut Vec<String>) {
    words.extend([key(chance), value(chance)]);
    for _ in 0..chance.below(4) {
        let option = chance.of(&["RANK", "count", "COUNT", "MAXLEN", "rank", "nonsense"]);
        // Redis 7.0 takes the least of all for a rank.
        let number = Some(index(chance)).filter(|text| *text != i64::MIN.to_string());
        words.extend([option.to_string(), number.unwrap_or("-7".to_string())]);
    }
    if chance.below(30) == 0 {
        words.pop();
    }
}

fn command(chance: &mut Chance) -> Vec<String> {
    let name = chance.of(NAMES);
    let mut words = vec![name.to_string()];
    match name {
        "LPUSH" | "RPUSH" | "LPUSHX" | "RPUSHX" => {
            words.push(key(chance));
            let count = match chance.below(12) {
                0 => 300,
                _ => 1 + chance.below(4),
            };
            words.extend((0..count).map(|_| value(chance)));
        }
        "LPOP" | "RPOP" => {
            words.push(key(chance));
            if chance.below(2) == 0 {
                words.push(count(chance));
            }
        }
        "LLEN" | "DEL" | "TYPE" => words.push(key(chance)),
        "LINDEX" => words.extend([key(chance), index(chance)]),
        "LRANGE" | "LTRIM" => words.extend([key(chance), index(chance), index(chance)]),
        "LSET" => words.extend([key(chance), index(chance), value(chance)]),
        "LREM" => words.extend([key(chance), index(chance), value(chance)]),
        "LINSERT" => {
            let place = chance.of(&["BEFORE", "after", "AFTER", "before", "beside"]);
            words.extend([key(chance), place.to_string(), value(chance), value(chance)]);
        }
        "LPOS" => search(chance, &mut words),
        "LMOVE" => words.extend([key(chance), key(chance), end(chance), end(chance)]),
        "RPOPLPUSH" | "RENAME" => words.extend([key(chance), key(chance)]),
        "COPY" => words.extend([key(chance), key(chance), "REPLACE".to_string()]),
        "LMPOP" => demand(chance, &mut words),
        "MULTI" | "EXEC" => {}
        other => unreachable!("{other} has no arguments here"),
    }
    words
}

/// One that would wait outside of MULTI.
fn patient(chance: &mut Chance) -> Vec<String> {
    let timeout = |chance: &mut Chance| match chance.below(12) {
        0 => chance.of(&["-1", "x", "", "-0.5"]).to_string(),
        _ => chance.of(&["0", "1", "0.5"]).to_string(),
    };
    let name = chance.of(&["BLPOP", "BRPOP", "BLMPOP", "BLMOVE", "BRPOPLPUSH"]);
    let mut words = vec![name.to_string()];
    match name {
        "BLPOP" | "BRPOP" => {
            words.extend((0..=chance.below(3)).map(|_| key(chance)));
            words.push(timeout(chance));
        }
        "BLMPOP" => {
            words.push(timeout(chance));
            demand(chance, &mut words);
        }
        "BLMOVE" => words.extend([
            key(chance),
            key(chance),
            end(chance),
            end(chance),
            timeout(chance),
        ]),
        _ => words.extend([key(chance), key(chance), timeout(chance)]),
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
fn redis_answers_random_commands_on_lists_alike() {
    compare_random(STEPS, |chance, _, bench| {
        let queues = bench.session.transaction.is_some();
        let words = match chance.below(6) {
            0 if queues => patient(chance),
            1 if queues => vec!["EXEC".to_string()],
            0 if chance.below(10) == 0 => ["SET", "string", "x"].map(str::to_string).to_vec(),
            // Cut down at times, so that short lists are common.
            2 if chance.below(3) == 0 => {
                let key = key(chance);
                vec![
                    "LTRIM".into(),
                    key,
                    "0".into(),
                    chance.below(20).to_string(),
                ]
            }
            _ => command(chance),
        };
        (words.into_iter().map(String::into_bytes).collect(), false)
    });
}
