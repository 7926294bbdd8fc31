//! Fuzz target of commands: random commands on a whole server without sockets, compared with a
//! model, under a simulated clock.
//!
//! The bytes determine everything: the protocol, the threads, the expiry index, each command and
//! its arguments, how far the clock moves, and when and with what budget keys expire. After each
//! step the reply must be the model's, an `expired` event must be due, and no shard may sleep
//! beyond a deadline. At the end no event may be missing. Half of the servers have little memory.
//! There a key may be evicted, but an `evicted` event must report it, and the remaining keys must
//! be right.

use crate::model::Model;
use server::dispatch::exec;
use server::state::Server;
use session::clock::Clock;
use session::session::Session;
use settings::Config;
use std::fmt::Write;
use store::{Class, Event, Tick};
use wire::{Protocol, Value};

const START_MS: i64 = 1_700_000_000_000;
const STEPS_MAX: usize = 400;
const SHARDS: usize = 4;
/// Memory limit of a bounded server in bytes: enough for some keys, not for all.
const ROOM_BYTES: u64 = 20_000;
/// Bytes that the shards may hold beyond the limit before they exchange their usage.
const SLACK_BYTES: u64 = 2048 * SHARDS as u64;
/// Maximum product of two lengths for LCS, which is slow beyond.
const LCS_CELLS_MAX: usize = 1_000_000;

/// Commands with their arguments; `Source::argument` defines the letters.
const COMMANDS: &[(&str, &str)] = &[
    ("set", "kvo"),
    ("set", "kvo"),
    ("set", "kv"),
    ("get", "k"),
    ("get", "k"),
    ("setnx", "kv"),
    ("setex", "ksv"),
    ("psetex", "kpv"),
    ("getset", "kv"),
    ("getdel", "k"),
    ("getex", "ko"),
    ("mget", "K"),
    ("mset", "P"),
    ("msetnx", "P"),
    ("msetex", "NPo"),
    ("append", "kv"),
    ("strlen", "k"),
    ("getrange", "knn"),
    ("substr", "knn"),
    ("setrange", "kmv"),
    ("incr", "k"),
    ("decr", "k"),
    ("incrby", "kn"),
    ("decrby", "kn"),
    ("incrbyfloat", "kf"),
    ("delex", "kc"),
    ("lcs", "kkl"),
    ("del", "K"),
    ("unlink", "K"),
    ("exists", "K"),
    ("touch", "K"),
    ("type", "k"),
    ("rename", "kk"),
    ("renamenx", "kk"),
    ("copy", "kkr"),
    ("move", "kd"),
    ("expire", "ksx"),
    ("pexpire", "kpx"),
    ("expireat", "kSx"),
    ("pexpireat", "kQx"),
    ("ttl", "k"),
    ("pttl", "k"),
    ("expiretime", "k"),
    ("pexpiretime", "k"),
    ("persist", "k"),
    ("dbsize", ""),
    ("keys", "*"),
    ("randomkey", ""),
    ("select", "d"),
    ("swapdb", "dd"),
    ("flushdb", "a"),
    ("flushall", "a"),
];

const KEYS: &[&[u8]] = &[
    b"a",
    b"b",
    b"c",
    b"key:000000000001",
    b"",
    b"\0\xff\r\n",
    b"d",
    b"e",
];
const VALUES: &[&[u8]] = &[
    b"",
    b"x",
    b"10",
    b"-1",
    b"abc",
    b"hello world",
    b"9223372036854775807",
    b"3.5",
    b"\0\xff\r\n",
    b"1e5",
    b"-9223372036854775808",
    b"01",
    b" 1",
    b"inf",
    &[b'v'; 70],
    &[b'w'; 3000],
];
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "5",
    "-5",
    "100",
    "1000",
    "-100",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775",
    "9223372036854775808",
    "x",
    "",
    "01",
    "1.5",
    "+1",
];
const FLOATS: &[&str] = &[
    "0.1", "-0.1", "3", "5.0e3", "1e-17", "1e4932", "inf", "nan", "x", "", "-3.5", "1e18",
];
const SPANS: &[i64] = &[
    0,
    1,
    2,
    10,
    500,
    999,
    1000,
    1001,
    1500,
    5_000,
    60_000,
    100_000,
    3_600_000,
    90_000_000,
    40_000_000_000,
    300_000_000_000_000,
];
const OPTIONS: &[&str] = &[
    "NX", "XX", "GET", "KEEPTTL", "PERSIST", "EX", "PX", "EXAT", "PXAT", "IFEQ", "IFNE", "what",
];

/// Bytes that determine the choices; zeros when they are used up.
struct Source<'a>(&'a [u8]);

impl Source<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        first
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::from(self.byte()) % bound
    }

    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    fn command(&mut self, now: i64) -> Vec<Vec<u8>> {
        let (name, shape) = self.pick(COMMANDS);
        let variation = self.byte();
        let mut args = vec![name.as_bytes().to_vec()];
        if variation & 1 == 1 {
            args[0].make_ascii_uppercase();
        }
        for letter in shape.bytes() {
            self.argument(letter, now, &mut args);
        }
        // In some cases one argument too many or too few.
        match variation {
            250.. => args.push(b"more".to_vec()),
            240..250 if args.len() > 1 => drop(args.pop()),
            _ => {}
        }
        // Only the length is compared, because several subsequences may be right; LCS has tests of
        // its own.
        if name == "lcs" && args.len() > 2 {
            args.truncate(3);
            args.push(b"LEN".to_vec());
        }
        args
    }

    fn argument(&mut self, letter: u8, now: i64, args: &mut Vec<Vec<u8>>) {
        match letter {
            b'k' => args.push(self.key()),
            b'v' => args.push(self.pick(VALUES).to_vec()),
            b'n' => args.push(self.pick(NUMBERS).into()),
            // An offset. A large one would make a large value.
            b'm' => args.push(
                self.pick(&["0", "1", "5", "70", "-1", "x", "536870912"])
                    .into(),
            ),
            b'f' => args.push(self.pick(FLOATS).into()),
            b'd' => args.push(self.pick(&["0", "1", "2", "15", "16", "-1", "x"]).into()),
            b's' => args.push(self.span(1000, 0)),
            b'p' => args.push(self.span(1, 0)),
            b'S' => args.push(self.span(1000, now)),
            b'Q' => args.push(self.span(1, now)),
            b'K' => {
                let count = self.count();
                args.extend(self.keys(count));
            }
            b'P' => {
                let count = self.count();
                let value = self.pick(VALUES);
                for key in self.keys(count) {
                    args.extend([key, value.to_vec()]);
                }
            }
            b'N' => args.push(
                self.pick(&["1", "2", "3", "0", "-1", "x", "2147483648"])
                    .into(),
            ),
            b'o' => (0..self.below(4)).for_each(|_| self.option(now, args)),
            b'x' => {
                for _ in 0..self.below(3) {
                    args.push(self.pick(&["NX", "xx", "GT", "lt", "what"]).into());
                }
            }
            b'c' => {
                if self.below(2) == 1 {
                    args.push(self.pick(&["IFEQ", "ifne", "what"]).into());
                    self.argument(b'v', now, args);
                }
            }
            b'r' => {
                for _ in 0..self.below(3) {
                    let word = self.pick(&["REPLACE", "db", "what"]);
                    args.push(word.into());
                    if word == "db" {
                        self.argument(b'd', now, args);
                    }
                }
            }
            b'a' => {
                if self.below(3) == 1 {
                    args.push(self.pick(&["ASYNC", "sync", "what"]).into());
                }
            }
            other => args.push(vec![other]),
        }
    }

    /// Returns one of a few keys, so that commands meet, or one of many.
    fn key(&mut self) -> Vec<u8> {
        match self.byte() {
            choice @ 0..230 => KEYS[usize::from(choice) % KEYS.len()].to_vec(),
            _ => numbered_key(usize::from(self.byte())),
        }
    }

    /// Returns a few random keys, or many consecutive ones, so that tables grow and shrink.
    fn keys(&mut self, count: usize) -> Vec<Vec<u8>> {
        if count <= 3 {
            return (0..count).map(|_| self.key()).collect();
        }
        let first = usize::from(self.byte());
        (first..first + count).map(numbered_key).collect()
    }

    fn count(&mut self) -> usize {
        match self.byte() {
            choice @ 0..235 => usize::from(choice) % 3 + 1,
            choice => usize::from(choice - 230) * 10,
        }
    }

    /// Returns a number of seconds or milliseconds, from `base` on; in some cases an invalid one.
    fn span(&mut self, factor: i64, base: i64) -> Vec<u8> {
        let choice = self.byte();
        if choice >= 230 {
            return self.pick(NUMBERS).into();
        }
        let span = SPANS[usize::from(choice) % SPANS.len()];
        let sign = if choice >= 200 { -1 } else { 1 };
        ((base + sign * span) / factor).to_string().into_bytes()
    }

    fn option(&mut self, now: i64, args: &mut Vec<Vec<u8>>) {
        let word = self.pick(OPTIONS);
        args.push(word.into());
        match word {
            "EX" => args.push(self.span(1000, 0)),
            "PX" => args.push(self.span(1, 0)),
            "EXAT" => args.push(self.span(1000, now)),
            "PXAT" => args.push(self.span(1, now)),
            "IFEQ" | "IFNE" => self.argument(b'v', now, args),
            _ => {}
        }
    }
}

fn numbered_key(index: usize) -> Vec<u8> {
    format!("n{index}").into_bytes()
}

/// A server and its model.
struct Pair {
    server: Server,
    session: Session,
    model: Model,
    /// Whether keys may be evicted.
    is_bounded: bool,
    /// Steps so far, to be printed when a check fails.
    log: String,
}

/// Runs the target.
pub fn run(data: &[u8]) {
    let mut source = Source(data);
    let mut pair = Pair::new(source.byte());
    let mut steps = 0;
    while !source.0.is_empty() && steps < STEPS_MAX {
        steps += 1;
        match source.byte() {
            // The longest span is left out, because it would move the clock beyond the largest
            // deadline.
            0..40 => pair.advance(source.pick(&SPANS[..SPANS.len() - 1])),
            40..55 => pair.expire(u32::from(source.byte()) + 1),
            55..60 => pair.rewind(source.pick(&SPANS[..SPANS.len() - 1])),
            60..66 => pair.scan(source.below(12) + 1),
            66..70 => pair.set_policy(source.byte()),
            70..78 => pair.run_background(u32::from(source.byte()) + 1),
            _ => {
                let args = source.command(pair.model.now);
                pair.command(&args);
            }
        }
        if steps % 4 == 0 {
            pair.check_next_due();
        }
    }
    pair.advance(1);
    pair.expire(64);
    for db in 0..16 {
        pair.command(&[b"select".to_vec(), db.to_string().into_bytes()]);
        pair.scan(50);
    }
    pair.run_background(1000);
    pair.server.data.keyspace.check();
}

/// Indexes that guarantee what `check_next_due` requires. Others sample, crawl, round up, or act
/// only when called.
const EXACT_INDEXES: &[&str] = &["wheel", "ordered"];

impl Pair {
    fn new(choice: u8) -> Pair {
        let clock = Clock::manual(START_MS as u64);
        let mut indexes = store::Keyspace::expiry_names();
        indexes.retain(|name| EXACT_INDEXES.contains(&name.as_str()));
        let mut policies = store::Keyspace::policy_names();
        let options = store::Options {
            shards: SHARDS,
            policy: policies.swap_remove(usize::from(choice >> 3) % policies.len()),
            expiry: indexes.swap_remove(usize::from(choice >> 3) % indexes.len()),
            maxmemory: 0,
            hash_key: [7, 11],
            seed: u64::from(choice),
        };
        let is_bounded = choice & 4 == 4;
        let threads = if choice & 1 == 0 { 1 } else { 2 };
        let config = Config::default();
        let server = Server::with_store(config, &options, threads, clock).expect("valid options");
        server.data.keyspace.set_notify(true);
        if is_bounded {
            server.data.keyspace.set_maxmemory(ROOM_BYTES);
        }
        let is_resp3 = choice & 2 == 2;
        let mut session = Session::new();
        if is_resp3 {
            session.protocol = Protocol::Resp3;
        }
        Pair {
            server,
            session,
            model: Model::new(START_MS, is_resp3),
            is_bounded,
            log: String::new(),
        }
    }

    fn now(&self) -> Tick {
        Tick(self.model.now as u64)
    }

    fn note(&mut self, text: &str) {
        writeln!(self.log, "{text}").expect("strings take any text");
    }

    /// Fails with all steps so far if a check fails.
    fn ensure(&self, is_right: bool, what: &str) {
        assert!(is_right, "{}=> {what}", self.log);
    }

    fn advance(&mut self, span: i64) {
        self.note(&format!("the clock moves by {span} ms"));
        self.model.advance(span);
        self.server.clock.set_ms(self.model.now as u64);
    }

    /// Sets the clock back. Keys that are dead by then are removed first; otherwise they would be
    /// live again or not, depending on whether they were accessed.
    fn rewind(&mut self, span: i64) {
        self.expire(64);
        self.note(&format!("the clock moves back by {span} ms"));
        self.model.now = (self.model.now - span).max(START_MS);
        self.server.clock.set_ms(self.model.now as u64);
        self.check_next_due();
    }

    /// Changes the eviction policy, for evictions from now on.
    fn set_policy(&mut self, choice: u8) {
        let names = store::Keyspace::policy_names();
        let name = &names[usize::from(choice) % names.len()];
        self.note(&format!("the policy is {name}"));
        let changed = self.server.data.keyspace.set_policy(name);
        self.ensure(changed.is_ok(), "a policy refuses its own name");
    }

    /// Runs background work until it is complete.
    fn run_background(&mut self, steps: u32) {
        self.note(&format!("background work by {steps} steps"));
        let (now, mut events) = (self.now(), Vec::new());
        for shard in 0..SHARDS {
            let mut calls = 0;
            while self
                .server
                .data
                .keyspace
                .background_step(shard, now, steps, &mut events)
            {
                calls += 1;
                assert!(
                    calls < 1_000_000,
                    "{}=> background work does not end",
                    self.log
                );
            }
        }
        self.settle(events);
        let space = &self.server.data.keyspace;
        if self.is_bounded && space.policy().name.starts_with("allkeys-") {
            let entry_bytes = space.memory_facts().entry_bytes;
            self.ensure(
                entry_bytes < ROOM_BYTES + SLACK_BYTES,
                "entries hold too much",
            );
        }
    }

    /// Runs a command through the server's own dispatch.
    fn run(&mut self, args: &[Vec<u8>]) -> Value {
        let mut out = Vec::new();
        let words: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let now = self.now();
        exec(&self.server, &mut self.session, &words, now, &mut out);
        match Value::decode(&out) {
            Ok(Some((value, len))) if len == out.len() => value,
            other => panic!("{}=> no single reply: {other:?}", self.log),
        }
    }

    fn command(&mut self, args: &[Vec<u8>]) {
        let words: Vec<String> = args
            .iter()
            .map(|arg| arg.escape_ascii().to_string())
            .collect();
        self.note(&words.join(" "));
        let name = words[0].to_lowercase();
        if name == "lcs" && args.len() > 2 {
            let mut len = |key: &Vec<u8>| self.model.keys().get(key).map_or(0, |e| e.value.len());
            if len(&args[1]) * len(&args[2]) > LCS_CELLS_MAX {
                return;
            }
        }
        self.make_room();
        let reply = self.run(args);
        let is_refused = reply
            .as_error()
            .is_some_and(|text| text.starts_with(b"OOM "));
        // A command can evict only from the shards of its own keys, which may be empty.
        self.ensure(
            !is_refused || self.is_bounded,
            "refused although memory is free",
        );
        if is_refused {
            return self.settle_events();
        }
        let expected = self.model.exec(args);
        let is_right = match (name.as_str(), &reply) {
            // The count may include keys that are dead and not removed yet.
            ("dbsize", &Value::Integer(count)) => {
                let dead = self
                    .model
                    .owed
                    .iter()
                    .filter(|(db, _)| *db == self.model.db)
                    .count();
                let live = self.model.keys().len() as i64;
                (live..=live + dead as i64).contains(&count)
            }
            ("randomkey", Value::Bulk(key)) => self.model.keys().contains_key(key),
            ("keys", Value::Array(_)) => sorted(reply.clone()) == expected,
            _ => reply == expected,
        };
        self.ensure(is_right, &format!("reply {reply:?}, expected {expected:?}"));
        self.settle_events();
    }

    /// Removes all expired keys in all shards, a number of steps at a time. Afterwards no event is
    /// due.
    fn expire(&mut self, steps: u32) {
        self.note(&format!("keys expire by {steps} steps"));
        let (now, mut events) = (self.now(), Vec::new());
        for shard in 0..SHARDS {
            let mut calls = 0;
            let mut is_late = true;
            let report = &mut |deadline: Tick, _: u32| is_late &= deadline < now;
            while self
                .server
                .data
                .keyspace
                .expire(shard, now, steps, &mut events, report)
                .more
            {
                calls += 1;
                assert!(calls < 1_000_000, "{}=> expiry does not end", self.log);
            }
            self.ensure(is_late, "a key expired before its time");
        }
        self.settle(events);
        self.settle_events();
        let owed = format!("not expired after their deadlines: {:?}", self.model.owed);
        self.ensure(self.model.owed.is_empty(), &owed);
    }

    /// Scans a whole database and checks that it returns every key and no other.
    fn scan(&mut self, count: usize) {
        let count = count.max(self.model.keys().len() / 8);
        self.note(&format!("scan by {count}"));
        let (mut cursor, mut found, mut calls) = (b"0".to_vec(), Vec::new(), 0);
        loop {
            let args = [
                b"scan".to_vec(),
                cursor,
                b"COUNT".to_vec(),
                count.to_string().into(),
            ];
            let Value::Array(reply) = self.run(&args) else {
                panic!("{}=> no array", self.log);
            };
            let [Value::Bulk(next), Value::Array(keys)] = &reply[..] else {
                panic!("{}=> {reply:?} is not a reply to SCAN", self.log);
            };
            found.extend(keys.iter().cloned());
            cursor = next.clone();
            calls += 1;
            assert!(calls < 100_000, "{}=> the scan does not end", self.log);
            if cursor == b"0" {
                break;
            }
        }
        let Value::Array(mut found) = sorted(Value::Array(found)) else {
            return;
        };
        found.dedup();
        let expected = self.model.list();
        self.ensure(
            Value::Array(found.clone()) == expected,
            &format!("found {found:?}, expected {expected:?}"),
        );
        self.settle_events();
    }

    /// Evicts before a command, as its dispatch would, so that the model knows the remaining keys.
    fn make_room(&mut self) {
        if !self.is_bounded {
            return;
        }
        let mut evicted_keys = None;
        while evicted_keys != Some(self.server.data.keyspace.counters().evicted_keys) {
            evicted_keys = Some(self.server.data.keyspace.counters().evicted_keys);
            for shard in 0..SHARDS {
                self.server
                    .data
                    .keyspace
                    .lock_one(shard, self.now())
                    .lacks_room(0);
            }
        }
        self.settle_events();
    }

    fn settle_events(&mut self) {
        let mut events = Vec::new();
        self.server
            .data
            .keyspace
            .lock_all(self.now())
            .take_events(&mut events);
        self.settle(events);
        self.model.forgiven.clear();
    }

    /// Checks events. Every `expired` event was due, and is not due again. An evicted key is
    /// absent, or was written again by the same command.
    fn settle(&mut self, events: Vec<Event>) {
        let mut evicted = Vec::new();
        for event in events {
            let key = (usize::from(event.db), event.key);
            match event.class {
                Class::Expired => {
                    let model = &mut self.model;
                    let is_owed = take(&mut model.owed, &key) || take(&mut model.forgiven, &key);
                    self.ensure(is_owed, &format!("said that {key:?} expired"));
                }
                Class::Evicted => evicted.push(key),
                _ => {}
            }
        }
        // One command may write a key, evict it, write it again and evict it again.
        evicted.sort();
        evicted.dedup();
        evicted.into_iter().for_each(|key| self.evicted(key));
    }

    fn evicted(&mut self, key: (usize, Vec<u8>)) {
        self.ensure(self.is_bounded, "a key was evicted without need");
        self.note(&format!("{key:?} was evicted"));
        let mut view = self.server.data.keyspace.lock_all(self.now());
        let name = self.server.data.keyspace.key(key.0 as u8, &key.1);
        let held = view
            .peek(&name)
            .expect("only strings are stored")
            .map(<[u8]>::to_vec);
        drop(view);
        // A dead key that is evicted before it expires is reported as evicted.
        let was_owed = take(&mut self.model.owed, &key);
        let keys = &mut self.model.databases[key.0];
        let is_right = match held {
            Some(value) => keys.get(&key.1).is_some_and(|entry| entry.value == value),
            None => keys.remove(&key.1).is_some() || was_owed,
        };
        self.ensure(
            is_right,
            "an evicted key did not exist, or has another value",
        );
    }

    /// Checks that a worker, which sleeps until `next_due`, never sleeps beyond the first deadline.
    fn check_next_due(&self) {
        for (db, keys) in self.model.databases.iter().enumerate() {
            for (name, entry) in keys {
                let Some(deadline) = entry.deadline else {
                    continue;
                };
                let key = self.server.data.keyspace.key(db as u8, name);
                let shard = self.server.data.keyspace.shard_of(&key);
                let next_due = self.server.data.keyspace.next_due(shard);
                self.ensure(
                    next_due.is_some_and(|due| due.0 <= deadline as u64 + 1),
                    &format!(
                        "{name:?} expires after {deadline}, its shard sleeps until {next_due:?}"
                    ),
                );
            }
        }
    }
}

fn take<T: PartialEq>(list: &mut Vec<T>, item: &T) -> bool {
    let found = list.iter().position(|known| known == item);
    found.map(|index| list.swap_remove(index)).is_some()
}

/// Sorts the elements by their bytes.
fn sorted(list: Value) -> Value {
    let Value::Array(mut values) = list else {
        return list;
    };
    values.sort_by_key(|value| value.as_bytes().map(<[u8]>::to_vec));
    Value::Array(values)
}
