//! Random commands on few keys, compared with Redis. Equal seeds give equal commands. Most are
//! valid, some are not. Options that Redis 7.0 lacks, and random replies, are left out.

use crate::redis::{PROTOCOLS, Redis, RedisClient, compare, now};
use crate::script::{Bench, sorted};
use policy::parts::chance::Chance;

/// A random generator with the same sequence on every machine.
pub struct Random(Chance);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(Chance::new(seed))
    }

    pub fn next(&mut self) -> u64 {
        self.0.bits()
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub fn of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }

    pub fn key(&mut self) -> String {
        self.of(&["a", "b", "ab", "ba", "a*b", "abc", "[x]", "-", "b\\a"])
            .to_string()
    }

    pub fn text(&mut self, letters: &str, len_max: usize) -> String {
        let letters: Vec<char> = letters.chars().collect();
        (0..self.below(len_max + 1))
            .map(|_| letters[self.below(letters.len())])
            .collect()
    }

    pub fn value(&mut self) -> String {
        match self.below(6) {
            0 => self.integer(),
            1 => self.decimal(),
            2 => String::new(),
            3 => self.text("01", 70),
            _ => self.text("abcX \u{0}", 12),
        }
    }

    pub fn integer(&mut self) -> String {
        match self.below(12) {
            0 => self
                .of(&[
                    "9223372036854775807",
                    "-9223372036854775808",
                    "9223372036854775808",
                ])
                .to_string(),
            1 => self
                .of(&["x", "", "01", "+1", "-0", " 1", "1.0"])
                .to_string(),
            2 => (self.next() as i64).to_string(),
            _ => (self.below(200) as i64 - 100).to_string(),
        }
    }

    fn decimal(&mut self) -> String {
        let digits = self.text("0123456789", 18);
        let fraction = self.text("0123456789", 18);
        let sign = self.of(&["", "-", "+", ""]);
        match self.below(8) {
            0 => self
                .of(&["inf", "nan", "1e", ".", "1e400", "-1e-400"])
                .to_string(),
            1 => format!("{sign}{digits}e{}", self.below(40) as i64 - 20),
            2 => format!("{sign}{digits}"),
            _ => format!("{sign}{digits}.{fraction}"),
        }
    }

    pub fn offset(&mut self) -> String {
        match self.below(20) {
            0 => self.integer(),
            _ => (self.below(30) as i64 - 12).to_string(),
        }
    }

    /// A TTL in seconds or milliseconds that is long enough that a slow machine changes no reply,
    /// or past, or invalid. It never exceeds 48 bits of milliseconds, where replies differ
    /// intentionally.
    pub fn span(&mut self, per_second: u64) -> String {
        match self.below(12) {
            0 => self
                .of(&["x", "", "+1", "9223372036854775807", "-9223372036854775808"])
                .to_string(),
            1 => self.of(&["0", "-1", "-1000000"]).to_string(),
            _ => ((1 + self.next() % 9) * 10_000 * per_second).to_string(),
        }
    }

    pub fn lifetime(&mut self, start: u64, words: &mut Vec<String>) {
        let (option, number) = match self.below(6) {
            0 => ("EX", self.span(1)),
            1 => ("px", self.span(1000)),
            2 => ("EXAT", self.instant(start / 1000, 1)),
            3 => ("PXAT", self.instant(start, 1000)),
            _ => return,
        };
        words.push(option.to_string());
        // A few options lack their number.
        if self.below(30) > 0 {
            words.push(number);
        }
    }

    /// Returns a point in time, but never one that Redis would keep although it is past.
    fn instant(&mut self, start: u64, per_second: u64) -> String {
        match self.below(12) {
            0 => self
                .of(&["x", "0", "-5", "9223372036854775807000"])
                .to_string(),
            _ => {
                (start + (1 + self.next() % 9) * 10_000 * per_second + 500 * per_second).to_string()
            }
        }
    }

    pub fn command(&mut self, start: u64) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        let name = self.of(NAMES);
        words.push(name.to_string());
        match name {
            "GET" | "GETDEL" | "STRLEN" | "INCR" | "DECR" | "TYPE" | "TTL" | "PTTL" | "PERSIST"
            | "EXPIRETIME" | "PEXPIRETIME" => words.push(self.key()),
            "OBJECT" => words.extend(["FREQ".to_string(), self.key()]),
            "SET" => {
                words.extend([self.key(), self.value()]);
                for _ in 0..self.below(3) {
                    let option = self.of(&["NX", "xx", "GET", "KEEPTTL", "GET", "nonsense"]);
                    words.push(option.to_string());
                }
                self.lifetime(start, &mut words);
            }
            "GETEX" => {
                words.push(self.key());
                if self.below(3) == 0 {
                    words.push("PERSIST".to_string());
                }
                self.lifetime(start, &mut words);
            }
            "SETNX" | "GETSET" | "APPEND" => words.extend([self.key(), self.value()]),
            "SETEX" => words.extend([self.key(), self.span(1), self.value()]),
            "PSETEX" => words.extend([self.key(), self.span(1000), self.value()]),
            "MGET" | "DEL" | "UNLINK" | "EXISTS" | "TOUCH" => {
                for _ in 0..=self.below(3) {
                    words.push(self.key());
                }
            }
            "MSET" | "MSETNX" => {
                for _ in 0..=self.below(3) {
                    words.extend([self.key(), self.value()]);
                }
                if self.below(20) == 0 {
                    words.pop();
                }
            }
            "GETRANGE" | "SUBSTR" => words.extend([self.key(), self.offset(), self.offset()]),
            "SETRANGE" => words.extend([self.key(), self.offset(), self.value()]),
            "INCRBY" | "DECRBY" => words.extend([self.key(), self.integer()]),
            "INCRBYFLOAT" => words.extend([self.key(), self.decimal()]),
            "LCS" => {
                words.extend([self.key(), self.key()]);
                for _ in 0..self.below(3) {
                    let option = self.of(&["IDX", "LEN", "WITHMATCHLEN", "nonsense"]);
                    words.push(option.to_string());
                }
                if self.below(3) == 0 {
                    words.extend(["MINMATCHLEN".to_string(), self.offset()]);
                }
            }
            "RENAME" | "RENAMENX" => words.extend([self.key(), self.key()]),
            "COPY" => {
                words.extend([self.key(), self.key()]);
                if self.below(2) == 0 {
                    words.push("REPLACE".to_string());
                }
                if self.below(3) == 0 {
                    words.extend(["DB".to_string(), self.database()]);
                }
            }
            "MOVE" => words.extend([self.key(), self.database()]),
            "SELECT" => words.push(self.below(3).to_string()),
            "SWAPDB" => words.extend([self.database(), self.database()]),
            "EXPIRE" => self.expire(start, 1, false, &mut words),
            "PEXPIRE" => self.expire(start, 1000, false, &mut words),
            "EXPIREAT" => self.expire(start, 1, true, &mut words),
            "PEXPIREAT" => self.expire(start, 1000, true, &mut words),
            "KEYS" => words.push(self.text("ab*?[]^-\\cx", 6)),
            "WATCH" => words.push(self.key()),
            "DBSIZE" | "FLUSHDB" | "MULTI" | "EXEC" | "DISCARD" | "UNWATCH" => {}
            other => unreachable!("{other} has no arguments here"),
        }
        words
    }

    fn expire(&mut self, start: u64, per_second: u64, is_instant: bool, words: &mut Vec<String>) {
        words.push(self.key());
        if is_instant {
            let start = start / 1000 * per_second;
            words.push(self.instant(start, per_second));
            // Conditions are used only with points in time, because TTLs begin at each server's own
            // current time.
            for _ in 0..self.below(3) {
                let option = self.of(&["NX", "XX", "GT", "lt", "GT", "LT", "nonsense"]);
                words.push(option.to_string());
            }
        } else {
            words.push(self.span(per_second));
        }
    }

    fn database(&mut self) -> String {
        self.of(&["0", "1", "2", "1", "2", "16", "-1", "x"])
            .to_string()
    }
}

const NAMES: &[&str] = &[
    "GET",
    "GET",
    "SET",
    "SET",
    "SET",
    "SET",
    "GETDEL",
    "GETEX",
    "STRLEN",
    "INCR",
    "DECR",
    "TYPE",
    "TTL",
    "PTTL",
    "EXPIRETIME",
    "PEXPIRETIME",
    "PERSIST",
    "OBJECT",
    "SETNX",
    "GETSET",
    "APPEND",
    "SETEX",
    "PSETEX",
    "MGET",
    "DEL",
    "UNLINK",
    "EXISTS",
    "TOUCH",
    "MSET",
    "MSETNX",
    "GETRANGE",
    "SUBSTR",
    "SETRANGE",
    "INCRBY",
    "DECRBY",
    "INCRBYFLOAT",
    "INCRBYFLOAT",
    "LCS",
    "RENAME",
    "RENAMENX",
    "COPY",
    "MOVE",
    "SELECT",
    "SWAPDB",
    "EXPIRE",
    "PEXPIRE",
    "EXPIREAT",
    "PEXPIREAT",
    "EXPIREAT",
    "PEXPIREAT",
    "KEYS",
    "KEYS",
    "DBSIZE",
    "FLUSHDB",
    "MULTI",
    "EXEC",
    "EXEC",
    "DISCARD",
    "WATCH",
    "UNWATCH",
];

/// Number of recent commands that a failure shows.
const RECENT: usize = 40;
/// Number of commands per protocol version.
const STEPS: usize = 10_000;

/// Sends random commands to both servers in each protocol version, also with commands that run as
/// long ones, and panics at the first difference. `next` returns a command and whether its reply
/// has no order.
pub fn compare_random(
    steps: usize,
    next: impl Fn(&mut Random, u64, &Bench) -> (Vec<Vec<u8>>, bool),
) {
    let redis = Redis::start();
    let benches = [(0, 1, false), (1, 3, false), (0, 3, true), (1, 1, true)];
    for (seed, (protocol, threads, is_long)) in (1..).zip(benches) {
        let protocol = PROTOCOLS[protocol];
        let start = now();
        let mut rng = Random::new(seed);
        let mut bench = Bench::new(protocol, start, threads);
        if is_long {
            bench = bench.with_long_commands();
        }
        let mut peer = RedisClient::new(&redis, protocol);
        let mut recent = Vec::new();
        for step in 0..steps {
            let (args, is_unordered) = next(&mut rng, start.0, &bench);
            let shown = args.iter().map(|arg| String::from_utf8_lossy(arg));
            recent.push(format!("{:?}", shown.collect::<Vec<_>>()));
            if recent.len() > RECENT {
                recent.remove(0);
            }
            if let Some(difference) = compare(&mut bench, &mut peer, &args, is_unordered) {
                let recent = recent.join("\n");
                panic!("{protocol:?}, seed {seed}, step {step}, after\n{recent}\n{difference}");
            }
        }
    }
}

#[test]
fn redis_gives_the_same_replies_to_random_commands() {
    compare_random(STEPS, |rng, start, bench| {
        let mut command = rng.command(start);
        if command[0] == "FLUSHDB" && rng.below(10) > 0 {
            command = vec!["DBSIZE".to_string()];
        }
        // Replies without order or that depend on the clock cannot be compared within the reply of
        // EXEC.
        let is_loose = ["KEYS", "TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME"];
        if bench.session.transaction.is_some() && is_loose.contains(&command[0].as_str()) {
            command = vec!["GET".to_string(), rng.key()];
        }
        let is_unordered = command[0] == "KEYS";
        (
            command.into_iter().map(String::into_bytes).collect(),
            is_unordered,
        )
    });
}

#[test]
fn a_reply_without_order_is_sorted() {
    assert_eq!(sorted("[\"b\" \"a\"]"), "[\"a\" \"b\"]");
}
