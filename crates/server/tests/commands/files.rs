//! Snapshot files: those of Redis, and those that are made here.

use crate::random::Random;
use crate::redis::{self, Redis, RedisClient};
use crate::script::{Bench, START, sorted, words};
use server::loading::file::load;
use std::io::Read;
use wire::Protocol;
use wire::dump::{Element, Encoding};
use wire::rdb::{Framing, ITEM_FIELD, Writer};

fn bench() -> Bench {
    Bench::new(Protocol::Resp2, START, 1)
}

/// Returns a file with the items that `write` writes.
fn file(write: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut writer = Writer::default();
    write(&mut writer);
    let mut framing = Framing::default();
    framing.add(writer.bytes());
    let ending = framing.end(writer.version());
    [&ending.header[..], writer.bytes(), &ending.tail].concat()
}

fn named(name: &str) -> Element<'_> {
    Element {
        name: name.as_bytes(),
        ..Element::default()
    }
}

fn string(writer: &mut Writer, key: &str, value: &str, deadline: Option<u64>) {
    writer.begin(key.as_bytes(), deadline, Encoding::String, 1);
    writer.put(&named(value));
}

fn loaded(file: &[u8]) -> Bench {
    let bench = bench();
    load(&bench.server, "a file", file, file.len() as u64).expect("a sound file");
    bench.server.keyspace.check();
    bench
}

fn check(bench: &mut Bench, rows: &[(&str, &str)]) {
    for (command, reply) in rows {
        assert_eq!(bench.run(&words(command)), *reply, "{command}");
    }
}

#[test]
fn values_are_loaded_with_their_deadlines() {
    let late = START.0 + 10_000;
    let file = file(|writer| {
        string(writer, "s", "value", None);
        string(writer, "t", "value", Some(late));
        string(writer, "expired", "value", Some(START.0 - 1));
        writer.begin(b"h", Some(late), Encoding::RedisHash { first: late }, 2);
        writer.put(&Element {
            value: b"v",
            deadline: Some(late),
            ..named("f")
        });
        writer.put(&Element {
            value: b"w",
            ..named("g")
        });
        writer.begin(b"m", None, Encoding::SetWithDeadlines, 2);
        writer.put(&named("a"));
        writer.put(&Element {
            deadline: Some(START.0 - 1),
            ..named("b")
        });
        writer.begin(b"gone", None, Encoding::SetWithDeadlines, 1);
        writer.put(&Element {
            deadline: Some(START.0 - 1),
            ..named("b")
        });
        writer.database(3);
        string(writer, "s", "other", None);
        writer.library(b"#!lua name=l\nredis.register_function('f', function() return 7 end)");
    });
    let mut bench = loaded(&file);
    check(
        &mut bench,
        &[
            ("GET s", "\"value\""),
            ("PTTL t", "10000"),
            ("EXISTS expired gone", "0"),
            ("HPTTL h FIELDS 2 f g", "[10000 -1]"),
            ("PTTL h", "10000"),
            ("SMEMBERS m", "[\"a\"]"),
            ("DBSIZE", "4"),
            ("FCALL f 0", "7"),
            ("SELECT 3", "+OK"),
            ("GET s", "\"other\""),
        ],
    );
    let loading = &bench.server.loading;
    let [keys, expired] = [&loading.keys, &loading.expired]
        .map(|count| count.load(std::sync::atomic::Ordering::Relaxed));
    assert_eq!((keys, expired), (5, 2));
}

#[test]
fn a_key_that_exists_is_replaced() {
    let mut bench = bench();
    bench.run(&words("RPUSH s a b"));
    bench.run(&words("SET other 1"));
    let file = file(|writer| string(writer, "s", "value", None));
    load(&bench.server, "a file", &file[..], 0).expect("a sound file");
    check(
        &mut bench,
        &[("GET s", "\"value\""), ("GET other", "\"1\"")],
    );
}

#[test]
fn items_of_memcached_keep_their_flags() {
    let file = file(|writer| {
        // Has flags; cas 9; flags 7.
        writer.field(ITEM_FIELD, b"\x01\x09\0\0\0\0\0\0\0\x07\0\0\0");
        string(writer, "s", "value", None);
        string(writer, "t", "value", None);
    });
    let mut bench = loaded(&file);
    check(&mut bench, &[("GET s", "\"value\"")]);
    let space = &bench.server.keyspace;
    let flags = |key: &[u8]| {
        let key = space.key(0, key);
        let mut view = space.lock_all(bench.now);
        let (head, value) = view.item(&key).expect("a string").expect("a key");
        assert_eq!(value, b"value");
        (head.client_flags, view.next_cas(&key))
    };
    assert_eq!(flags(b"s"), (7, 10));
    assert_eq!(flags(b"t").0, 0);
}

#[test]
fn what_cannot_be_loaded_is_named_with_its_offset() {
    let error = |file: &[u8]| {
        let bench = bench();
        let result = load(&bench.server, "a file", file, 0);
        bench.server.keyspace.check();
        assert!(!bench.server.loading.is_on());
        result.expect_err("it is refused")
    };
    let twice = file(|writer| {
        writer.begin(b"m", None, Encoding::Set, 2);
        writer.put(&named("a"));
        writer.put(&named("a"));
    });
    let far = file(|writer| writer.database(16));
    let library = file(|writer| writer.library(b"#!lua name=l\nreturn 1"));
    let item = file(|writer| writer.field(ITEM_FIELD, b"\x01"));
    for (file, expected) in [
        (
            &twice[..],
            "a file: offset 12: expected distinct elements, found two of one name, in the value of \
             key 'm' in database 0",
        ),
        (
            &far,
            "a file: offset 9: database 16: there are 16 (databases)",
        ),
        (&library, "a file: offset 9: ERR No functions registered"),
        (&item, "a file: offset 9: expected the head of an item"),
        (
            b"REDIS0009\x00\x01k",
            "a file: offset 12: expected a string (type 0), the value of key 'k' in database 0, \
             found the end of the file",
        ),
        (
            b"REDIS0009\x07\x01k\x81\0\0\0\0\0\0\x04\x01\x00",
            "a file: offset 9: data of module 'AAAAAAAAB': modules are not supported",
        ),
        (
            b"MAYFLY009",
            "a file: offset 0: expected a header such as REDIS0009, VALKEY080 or MAYFLY001, found \
             'MAYFLY009'",
        ),
    ] {
        assert_eq!(error(file), expected);
    }
}

#[test]
fn commands_on_keys_are_refused_during_a_load() {
    const LOADING: &str = "-LOADING Redis is loading the dataset in memory";
    let mut bench = bench();
    check(&mut bench, &[("MULTI", "+OK"), ("SET k v", "+QUEUED")]);
    bench.server.loading.begin(START.0 / 1000);
    check(
        &mut bench,
        &[
            ("EXEC", LOADING),
            ("DISCARD", "+OK"),
            ("GET k", LOADING),
            ("SET k v", LOADING),
            ("EVAL \"return 1\" 0", LOADING),
            ("PING", LOADING),
            ("SELECT 1", "+OK"),
        ],
    );
    let info = bench.run(&words("INFO persistence"));
    for field in [
        "loading:1",
        "loading_total_bytes:0",
        "loading_loaded_perc:0.00",
    ] {
        assert!(info.contains(field), "{field} in {info}");
    }
    bench.server.loading.end();
    check(&mut bench, &[("GET k", "nil")]);
}

/// Returns a command that fills a key.
fn filling(rng: &mut Random, at: u64) -> String {
    let key = format!(
        "{}{}",
        rng.of(&["s", "l", "m", "z", "h", "x"]),
        rng.below(12)
    );
    let (text, number) = (rng.text("abcde", 12), rng.below(100_000));
    let long = "y".repeat(1 + rng.below(400));
    match (key.as_bytes()[0], rng.below(12)) {
        (_, 0) => format!("PEXPIREAT {key} {at}"),
        (_, 1) => format!("SELECT {}", rng.of(&["0", "0", "9"])),
        (b's', 2..6) => format!("SET {key} {number}"),
        (b's', _) => format!("SET {key} a{text}{long}"),
        (b'l', 2..9) => format!("RPUSH {key} {number} a{text} -{number} {long}"),
        (b'l', _) => format!("LPUSH {key} {}", "a12 900 ".repeat(100)),
        (b'm', 2..5) => format!("SADD {key} {number} {}", rng.below(1 << 40)),
        (b'm', _) => format!("SADD {key} a{text} {long}{number}"),
        (b'z', 2..9) => format!("ZADD {key} {number} a{text} 1.5 b{text} -inf c"),
        (b'z', _) => format!("ZADD {key} {number} {long}{text}"),
        (b'h', 2..9) => format!("HSET {key} a{text} {number} f{number} a{text}"),
        (b'h', _) => format!("HSET {key} {number} {long}"),
        (_, 2..8) => format!("XADD {key} * a {number} b {long}"),
        (_, 8) => format!("XGROUP CREATE {key} g 0"),
        (_, 9) => format!(
            "XREADGROUP GROUP g c{} COUNT 3 STREAMS {key} >",
            rng.below(3)
        ),
        _ => format!("XTRIM {key} MAXLEN 5"),
    }
}

/// Returns the commands that read a key in all its parts.
fn readings(key: &str) -> Vec<String> {
    let words: &[&str] = match key.as_bytes()[0] {
        b's' => &["GET {}", "PEXPIRETIME {}"],
        b'l' => &["LRANGE {} 0 -1", "PEXPIRETIME {}"],
        b'm' => &["SMEMBERS {}", "PEXPIRETIME {}"],
        b'z' => &["ZRANGE {} 0 -1 WITHSCORES", "PEXPIRETIME {}"],
        b'h' => &["HGETALL {}", "PEXPIRETIME {}"],
        _ => &[
            "XRANGE {} - +",
            "XINFO GROUPS {}",
            "XPENDING {} g",
            "XPENDING {} g - + 100",
            "PEXPIRETIME {}",
        ],
    };
    words.iter().map(|word| word.replace("{}", key)).collect()
}

#[test]
fn a_file_of_redis_is_loaded_with_all_its_values() {
    let Some(redis) = Redis::start() else { return };
    let mut theirs = RedisClient::new(&redis, Protocol::Resp2);
    let now = redis::now();
    for seed in 1..=6 {
        println!("seed {seed}");
        let mut rng = Random::new(seed);
        theirs.run(&words("FLUSHALL"));
        // Half of the files contain packed forms only.
        let entries = if seed % 2 == 0 { "4" } else { "10000" };
        for name in ["hash", "zset", "set"] {
            theirs.run(&words(&format!(
                "CONFIG SET {name}-max-listpack-entries {entries}"
            )));
        }
        for _ in 0..600 {
            let at = now.0 + 100_000 + rng.below(100_000) as u64;
            theirs.run(&words(&filling(&mut rng, at)));
        }
        let code = "\"#!lua name=l\\nredis.register_function('f', function() return 7 end)\"";
        theirs.run(&words(&format!("FUNCTION LOAD REPLACE {code}")));
        assert_eq!(theirs.run(&words("SAVE")), "+OK");
        let mut file = Vec::new();
        let opened = std::fs::File::open(redis.snapshot());
        let read = opened.and_then(|mut opened| opened.read_to_end(&mut file));
        read.expect("SAVE has written a file");
        let mut ours = Bench::new(Protocol::Resp2, now, 1);
        load(&ours.server, "a file of Redis", &file[..], 0).expect("a sound file");
        ours.server.keyspace.check();
        for database in ["0", "9"] {
            let select = format!("SELECT {database}");
            let keys: Vec<String> = ["s", "l", "m", "z", "h", "x"]
                .iter()
                .flat_map(|kind| (0..12).map(move |number| format!("{kind}{number}")))
                .collect();
            let commands = keys.iter().flat_map(|key| readings(key));
            for command in [select, "DBSIZE".into(), "FCALL f 0".into()]
                .into_iter()
                .chain(commands)
            {
                let (own, their) = (ours.run(&words(&command)), theirs.run(&words(&command)));
                let is_ordered =
                    !command.starts_with("SMEMBERS") && !command.starts_with("HGETALL");
                // Idle times differ.
                if command.starts_with("XPENDING") && command.ends_with("100") {
                    assert_eq!(
                        own.split(' ').count(),
                        their.split(' ').count(),
                        "{command}"
                    );
                } else if is_ordered {
                    assert_eq!(own, their, "{command}");
                } else {
                    assert_eq!(sorted(&own), sorted(&their), "{command}");
                }
            }
        }
    }
}
