//! Random commands on sorted sets, compared with Redis. Equal seeds give equal commands. The limit
//! between packed and large sets is set low, so that both forms occur often.
//!
//! Scores are multiples of a quarter, because Redis 7.0 prints others with more digits than the
//! shortest text needs.

use crate::random::Random;
use crate::redis::{PROTOCOLS, Redis, RedisClient, compare, now};
use crate::script::{Bench, words};

/// Key whose members all have the score 0, so that lexicographical ranges are defined.
const LEX: &str = "lex";

fn key(rng: &mut Random) -> String {
    let keys = [
        "a", "b", "c", "d", "a", "b", "c", LEX, "text", "none", "set",
    ];
    rng.of(&keys).to_string()
}

/// A key for a command that writes.
fn target(rng: &mut Random) -> String {
    let keys = ["a", "b", "c", "d", "a", "b", "c", "text"];
    rng.of(&keys).to_string()
}

fn member(rng: &mut Random) -> String {
    match rng.below(10) {
        0 => String::new(),
        1 => "long".repeat(1 + rng.below(20)),
        _ => rng.text("abc", 3),
    }
}

fn score(rng: &mut Random) -> String {
    match rng.below(40) {
        0 => rng.of(&["inf", "-inf", "+inf"]).to_string(),
        1 => rng.of(&["x", "", "nan", "1e", "1e400"]).to_string(),
        2 => rng.of(&["0", "0", "1e3", "2.5e-1"]).to_string(),
        _ => format!("{}", (rng.below(40) as f64 - 20.0) / 4.0),
    }
}

/// A weight that never makes a zero negative, because it depends on the set's size whether Redis
/// shows the sign.
fn weight(rng: &mut Random) -> String {
    rng.of(&["1", "2", "0.5", "1.5", "3", "inf", "x", "nan"])
        .to_string()
}

fn score_edge(rng: &mut Random) -> String {
    let open = rng.of(&["", "", "("]);
    match rng.below(12) {
        0 => rng.of(&["-inf", "+inf", "(inf", "x", "("]).to_string(),
        _ => format!("{open}{}", score(rng)),
    }
}

fn member_edge(rng: &mut Random) -> String {
    match rng.below(4) {
        0 => rng.of(&["-", "+", "-", "+", "x", ""]).to_string(),
        _ => format!("{}{}", rng.of(&["[", "("]), member(rng)),
    }
}

fn rank(rng: &mut Random) -> String {
    match rng.below(30) {
        0 => rng
            .of(&["x", "9223372036854775807", "-9223372036854775808"])
            .to_string(),
        _ => (rng.below(40) as i64 - 20).to_string(),
    }
}

fn limit(rng: &mut Random, words: &mut Vec<String>) {
    if rng.below(2) == 0 {
        words.extend(["LIMIT".to_string(), rank(rng), rank(rng)]);
    }
}

fn option(rng: &mut Random, choices: &[&str], words: &mut Vec<String>) {
    if rng.below(2) == 0 {
        words.push(rng.of(choices).to_string());
    }
}

fn sets(rng: &mut Random, words: &mut Vec<String>) -> usize {
    let count = rng.below(4);
    words.push(count.to_string());
    for _ in 0..count.max(1) {
        words.push(key(rng));
    }
    count
}

fn combination(rng: &mut Random, weighs: bool, replies: bool, words: &mut Vec<String>) {
    let count = sets(rng, words);
    if weighs && rng.below(2) == 0 {
        words.push("WEIGHTS".to_string());
        for _ in 0..count {
            words.push(weight(rng));
        }
    }
    if weighs && rng.below(2) == 0 {
        let how = rng.of(&["SUM", "MIN", "max", "sum", "nonsense"]);
        words.extend(["AGGREGATE".to_string(), how.to_string()]);
    }
    if replies {
        option(rng, &["WITHSCORES", "withscores"], words);
    }
}

/// A range of ZRANGE or ZRANGESTORE.
fn any_range(rng: &mut Random, replies: bool, words: &mut Vec<String>) {
    match rng.below(3) {
        0 => words.extend([key(rng), rank(rng), rank(rng)]),
        1 => {
            words.extend([key(rng), score_edge(rng), score_edge(rng)]);
            words.push("BYSCORE".to_string());
            limit(rng, words);
        }
        _ => {
            words.extend([LEX.to_string(), member_edge(rng), member_edge(rng)]);
            words.push("BYLEX".to_string());
            limit(rng, words);
        }
    }
    option(rng, &["REV", "rev", "nonsense"], words);
    if replies {
        option(rng, &["WITHSCORES"], words);
    }
}

fn zadd(rng: &mut Random, words: &mut Vec<String>) {
    let is_lex = rng.below(4) == 0;
    words.push(if is_lex { LEX.to_string() } else { target(rng) });
    let choices = ["NX", "XX", "GT", "LT", "CH", "CH"];
    option(rng, &choices, words);
    option(rng, &choices, words);
    let is_counting = !is_lex && rng.below(6) == 0;
    if is_counting {
        words.push("INCR".to_string());
    }
    let count = if is_counting { 0 } else { rng.below(6) };
    for _ in 0..=count {
        let score = if is_lex { "0".to_string() } else { score(rng) };
        words.extend([score, member(rng)]);
    }
}

fn command(rng: &mut Random) -> Vec<String> {
    let name = rng.of(NAMES);
    let mut words = vec![name.to_string()];
    match name {
        "ZADD" => zadd(rng, &mut words),
        "ZINCRBY" => words.extend([target(rng), score(rng), member(rng)]),
        "ZCARD" => words.push(key(rng)),
        "ZSCORE" | "ZRANK" | "ZREVRANK" => words.extend([key(rng), member(rng)]),
        "ZMSCORE" | "ZREM" => {
            words.push(key(rng));
            for _ in 0..=rng.below(4) {
                words.push(member(rng));
            }
        }
        "ZCOUNT" | "ZREMRANGEBYSCORE" => {
            words.extend([key(rng), score_edge(rng), score_edge(rng)]);
        }
        "ZLEXCOUNT" | "ZREMRANGEBYLEX" => {
            words.extend([LEX.to_string(), member_edge(rng), member_edge(rng)]);
        }
        "ZREMRANGEBYRANK" => words.extend([key(rng), rank(rng), rank(rng)]),
        "ZRANGE" => any_range(rng, true, &mut words),
        "ZRANGESTORE" => {
            words.push(target(rng));
            any_range(rng, false, &mut words);
        }
        "ZREVRANGE" => {
            words.extend([key(rng), rank(rng), rank(rng)]);
            option(rng, &["WITHSCORES"], &mut words);
        }
        "ZRANGEBYSCORE" | "ZREVRANGEBYSCORE" => {
            words.extend([key(rng), score_edge(rng), score_edge(rng)]);
            option(rng, &["WITHSCORES"], &mut words);
            limit(rng, &mut words);
        }
        "ZRANGEBYLEX" | "ZREVRANGEBYLEX" => {
            words.extend([LEX.to_string(), member_edge(rng), member_edge(rng)]);
            limit(rng, &mut words);
        }
        "ZPOPMIN" | "ZPOPMAX" => {
            words.push(key(rng));
            option(rng, &["0", "1", "2", "3", "50", "-1", "x"], &mut words);
        }
        "ZMPOP" => {
            sets(rng, &mut words);
            words.push(rng.of(&["MIN", "max", "MAX", "nonsense"]).to_string());
            if rng.below(2) == 0 {
                let count = rng.of(&["1", "2", "3", "0", "x"]);
                words.extend(["COUNT".to_string(), count.to_string()]);
            }
        }
        "ZUNION" | "ZINTER" => combination(rng, true, true, &mut words),
        "ZDIFF" => combination(rng, false, true, &mut words),
        "ZUNIONSTORE" | "ZINTERSTORE" => {
            words.push(target(rng));
            combination(rng, true, false, &mut words);
        }
        "ZDIFFSTORE" => {
            words.push(target(rng));
            combination(rng, false, false, &mut words);
        }
        "ZINTERCARD" => {
            sets(rng, &mut words);
            if rng.below(2) == 0 {
                words.extend(["LIMIT".to_string(), rank(rng)]);
            }
        }
        "ZRANDMEMBER" => words.extend([key(rng), "1000".to_string()]),
        "SADD" => words.extend(["set".to_string(), member(rng), member(rng)]),
        "SET" => words.extend(["text".to_string(), "x".to_string()]),
        "DEL" | "TYPE" => words.push(key(rng)),
        "RENAME" => words.extend([target(rng), target(rng)]),
        "COPY" => words.extend([key(rng), target(rng), "REPLACE".to_string()]),
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

/// Number of recent commands that a failure shows.
const RECENT: usize = 30;
/// Number of commands per protocol version and limit.
const STEPS: usize = 5_000;

#[test]
fn redis_gives_the_same_replies_on_sorted_sets() {
    let redis = Redis::start();
    for (seed, (protocol, bound)) in
        (1..).zip(PROTOCOLS.into_iter().flat_map(|p| [(p, 4), (p, 128)]))
    {
        let mut rng = Random::new(seed);
        let mut bench = Bench::new(protocol, now(), 1);
        let mut peer = RedisClient::new(&redis, protocol);
        let set = format!("CONFIG SET zset-max-listpack-entries {bound}");
        assert_eq!(bench.run(&words(&set)), peer.run(&words(&set)));
        // The setting of the server would disable events, because there are no subscribers.
        bench.server.data.keyspace.set_notify(true);
        let mut recent = Vec::new();
        for step in 0..STEPS {
            let command = command(&mut rng);
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
