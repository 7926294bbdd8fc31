//! Random commands on sorted sets, the same for equal seeds, put to Redis beside us. Small sets and large
//! ones: the bound between them is moved low enough that both come up all the time.
//!
//! Scores are quarters: Redis 7.0 prints others with more digits than the shortest text needs.

use crate::random::Chance;
use crate::redis::{DIALECTS, Peer, Redis, compare, now};
use crate::script::{Bench, words};

/// Members of this key all have the score 0, so that intervals of members mean something.
const LEX: &str = "lex";

fn key(chance: &mut Chance) -> String {
    let keys = [
        "a", "b", "c", "d", "a", "b", "c", LEX, "text", "none", "set",
    ];
    chance.of(&keys).to_string()
}

/// A key that may be written.
fn target(chance: &mut Chance) -> String {
    let keys = ["a", "b", "c", "d", "a", "b", "c", "text"];
    chance.of(&keys).to_string()
}

fn member(chance: &mut Chance) -> String {
    match chance.below(10) {
        0 => String::new(),
        1 => "long".repeat(1 + chance.below(20)),
        _ => chance.text("abc", 3),
    }
}

fn score(chance: &mut Chance) -> String {
    match chance.below(40) {
        0 => chance.of(&["inf", "-inf", "+inf"]).to_string(),
        1 => chance.of(&["x", "", "nan", "1e", "1e400"]).to_string(),
        2 => chance.of(&["0", "0", "1e3", "2.5e-1"]).to_string(),
        _ => format!("{}", (chance.below(40) as f64 - 20.0) / 4.0),
    }
}

/// Never one that makes a zero negative: whether Redis shows its sign depends on the size of the set.
fn weight(chance: &mut Chance) -> String {
    chance
        .of(&["1", "2", "0.5", "1.5", "3", "inf", "x", "nan"])
        .to_string()
}

fn score_edge(chance: &mut Chance) -> String {
    let open = chance.of(&["", "", "("]);
    match chance.below(12) {
        0 => chance.of(&["-inf", "+inf", "(inf", "x", "("]).to_string(),
        _ => format!("{open}{}", score(chance)),
    }
}

fn member_edge(chance: &mut Chance) -> String {
    match chance.below(4) {
        0 => chance.of(&["-", "+", "-", "+", "x", ""]).to_string(),
        _ => format!("{}{}", chance.of(&["[", "("]), member(chance)),
    }
}

fn rank(chance: &mut Chance) -> String {
    match chance.below(30) {
        0 => chance
            .of(&["x", "9223372036854775807", "-9223372036854775808"])
            .to_string(),
        _ => (chance.below(40) as i64 - 20).to_string(),
    }
}

fn limit(chance: &mut Chance, words: &mut Vec<String>) {
    if chance.below(2) == 0 {
        words.extend(["LIMIT".to_string(), rank(chance), rank(chance)]);
    }
}

fn option(chance: &mut Chance, choices: &[&str], words: &mut Vec<String>) {
    if chance.below(2) == 0 {
        words.push(chance.of(choices).to_string());
    }
}

fn sets(chance: &mut Chance, words: &mut Vec<String>) -> usize {
    let count = chance.below(4);
    words.push(count.to_string());
    for _ in 0..count.max(1) {
        words.push(key(chance));
    }
    count
}

fn combination(chance: &mut Chance, weighs: bool, tells: bool, words: &mut Vec<String>) {
    let count = sets(chance, words);
    if weighs && chance.below(2) == 0 {
        words.push("WEIGHTS".to_string());
        for _ in 0..count {
            words.push(weight(chance));
        }
    }
    if weighs && chance.below(2) == 0 {
        let how = chance.of(&["SUM", "MIN", "max", "sum", "nonsense"]);
        words.extend(["AGGREGATE".to_string(), how.to_string()]);
    }
    if tells {
        option(chance, &["WITHSCORES", "withscores"], words);
    }
}

/// A range of ZRANGE, ZRANGESTORE.
fn any_range(chance: &mut Chance, tells: bool, words: &mut Vec<String>) {
    match chance.below(3) {
        0 => words.extend([key(chance), rank(chance), rank(chance)]),
        1 => {
            words.extend([key(chance), score_edge(chance), score_edge(chance)]);
            words.push("BYSCORE".to_string());
            limit(chance, words);
        }
        _ => {
            words.extend([LEX.to_string(), member_edge(chance), member_edge(chance)]);
            words.push("BYLEX".to_string());
            limit(chance, words);
        }
    }
    option(chance, &["REV", "rev", "nonsense"], words);
    if tells {
        option(chance, &["WITHSCORES"], words);
    }
}

fn zadd(chance: &mut Chance, words: &mut Vec<String>) {
    let is_lex = chance.below(4) == 0;
    words.push(if is_lex {
        LEX.to_string()
    } else {
        target(chance)
    });
    let choices = ["NX", "XX", "GT", "LT", "CH", "CH"];
    option(chance, &choices, words);
    option(chance, &choices, words);
    let is_counting = !is_lex && chance.below(6) == 0;
    if is_counting {
        words.push("INCR".to_string());
    }
    let count = if is_counting { 0 } else { chance.below(6) };
    for _ in 0..=count {
        let score = if is_lex {
            "0".to_string()
        } else {
            score(chance)
        };
        words.extend([score, member(chance)]);
    }
}

fn command(chance: &mut Chance) -> Vec<String> {
    let name = chance.of(NAMES);
    let mut words = vec![name.to_string()];
    match name {
        "ZADD" => zadd(chance, &mut words),
        "ZINCRBY" => words.extend([target(chance), score(chance), member(chance)]),
        "ZCARD" => words.push(key(chance)),
        "ZSCORE" | "ZRANK" | "ZREVRANK" => words.extend([key(chance), member(chance)]),
        "ZMSCORE" | "ZREM" => {
            words.push(key(chance));
            for _ in 0..=chance.below(4) {
                words.push(member(chance));
            }
        }
        "ZCOUNT" | "ZREMRANGEBYSCORE" => {
            words.extend([key(chance), score_edge(chance), score_edge(chance)]);
        }
        "ZLEXCOUNT" | "ZREMRANGEBYLEX" => {
            words.extend([LEX.to_string(), member_edge(chance), member_edge(chance)]);
        }
        "ZREMRANGEBYRANK" => words.extend([key(chance), rank(chance), rank(chance)]),
        "ZRANGE" => any_range(chance, true, &mut words),
        "ZRANGESTORE" => {
            words.push(target(chance));
            any_range(chance, false, &mut words);
        }
        "ZREVRANGE" => {
            words.extend([key(chance), rank(chance), rank(chance)]);
            option(chance, &["WITHSCORES"], &mut words);
        }
        "ZRANGEBYSCORE" | "ZREVRANGEBYSCORE" => {
            words.extend([key(chance), score_edge(chance), score_edge(chance)]);
            option(chance, &["WITHSCORES"], &mut words);
            limit(chance, &mut words);
        }
        "ZRANGEBYLEX" | "ZREVRANGEBYLEX" => {
            words.extend([LEX.to_string(), member_edge(chance), member_edge(chance)]);
            limit(chance, &mut words);
        }
        "ZPOPMIN" | "ZPOPMAX" => {
            words.push(key(chance));
            option(chance, &["0", "1", "2", "3", "50", "-1", "x"], &mut words);
        }
        "ZMPOP" => {
            sets(chance, &mut words);
            words.push(chance.of(&["MIN", "max", "MAX", "nonsense"]).to_string());
            if chance.below(2) == 0 {
                let count = chance.of(&["1", "2", "3", "0", "x"]);
                words.extend(["COUNT".to_string(), count.to_string()]);
            }
        }
        "ZUNION" | "ZINTER" => combination(chance, true, true, &mut words),
        "ZDIFF" => combination(chance, false, true, &mut words),
        "ZUNIONSTORE" | "ZINTERSTORE" => {
            words.push(target(chance));
            combination(chance, true, false, &mut words);
        }
        "ZDIFFSTORE" => {
            words.push(target(chance));
            combination(chance, false, false, &mut words);
        }
        "ZINTERCARD" => {
            sets(chance, &mut words);
            if chance.below(2) == 0 {
                words.extend(["LIMIT".to_string(), rank(chance)]);
            }
        }
        "ZRANDMEMBER" => words.extend([key(chance), "1000".to_string()]),
        "SADD" => words.extend(["set".to_string(), member(chance), member(chance)]),
        "SET" => words.extend(["text".to_string(), "x".to_string()]),
        "DEL" | "TYPE" => words.push(key(chance)),
        "RENAME" => words.extend([target(chance), target(chance)]),
        "COPY" => words.extend([key(chance), target(chance), "REPLACE".to_string()]),
        other => unreachable!("{other} has no arguments here"),
    }
    words
}

const NAMES: &[&str] = &[
    "ZADD",
    "ZADD",
    "ZADD",
    "ZADD",
    "ZADD",
    "ZADD",
    "ZADD",
    "ZADD",
    "ZADD",
    "ZADD",
    "ZADD",
    "ZADD",
    "ZINCRBY",
    "ZINCRBY",
    "ZCARD",
    "ZSCORE",
    "ZRANK",
    "ZREVRANK",
    "ZMSCORE",
    "ZREM",
    "ZREM",
    "ZCOUNT",
    "ZREMRANGEBYSCORE",
    "ZLEXCOUNT",
    "ZREMRANGEBYLEX",
    "ZREMRANGEBYRANK",
    "ZRANGE",
    "ZRANGE",
    "ZRANGE",
    "ZRANGE",
    "ZRANGESTORE",
    "ZREVRANGE",
    "ZRANGEBYSCORE",
    "ZREVRANGEBYSCORE",
    "ZRANGEBYLEX",
    "ZREVRANGEBYLEX",
    "ZPOPMIN",
    "ZPOPMAX",
    "ZMPOP",
    "ZUNION",
    "ZINTER",
    "ZDIFF",
    "ZUNIONSTORE",
    "ZINTERSTORE",
    "ZDIFFSTORE",
    "ZINTERCARD",
    "ZRANDMEMBER",
    "SET",
    "SADD",
    "DEL",
    "TYPE",
    "RENAME",
    "COPY",
];

/// Commands that a failure shows.
const RECENT: usize = 30;
/// Commands in each dialect with each bound.
const STEPS: usize = 5_000;

#[test]
fn redis_answers_random_commands_on_sorted_sets_alike() {
    let Some(redis) = Redis::start() else { return };
    for (seed, (protocol, bound)) in
        (1..).zip(DIALECTS.into_iter().flat_map(|p| [(p, 4), (p, 128)]))
    {
        let mut chance = Chance::new(seed);
        let mut bench = Bench::new(protocol, now(), 1);
        let mut peer = Peer::new(&redis, protocol);
        let set = format!("CONFIG SET zset-max-listpack-entries {bound}");
        assert_eq!(bench.say(&words(&set)), peer.ask(&words(&set)));
        // The setting takes over what the configuration says of events: nobody listens.
        bench.server.keyspace.set_notify(true);
        let mut recent = Vec::new();
        for step in 0..STEPS {
            let command = command(&mut chance);
            let is_unordered = command[0] == "ZRANDMEMBER";
            let args: Vec<Vec<u8>> = command.iter().map(|w| w.clone().into_bytes()).collect();
            recent.push(format!("{command:?}"));
            if recent.len() > RECENT {
                recent.remove(0);
            }
            if let Some(difference) = compare(&mut bench, &mut peer, &args, is_unordered) {
                let recent = recent.join("\n");
                panic!(
                    "{protocol:?}, bound {bound}, seed {seed}, step {step}, after\n{recent}\n{difference}"
                );
            }
        }
    }
}
