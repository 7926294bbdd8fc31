//! Snapshot files: from Redis, and made here.

use crate::random::Random;
use crate::redis::{self, Redis, RedisClient};
use crate::script::{Bench, START, sorted, words};
use server::Server;
use server::command::scripting::functions::load_library;
use server::loading::file::{self, Origin};
use std::io::Read;
use std::sync::atomic::Ordering;
use wire::Protocol;
use wire::dump::{Element, Encoding, StreamForm, StreamNumbers, StreamWriter};
use wire::rdb::{Framing, ITEM_FIELD, PROTECTED_FIELD, TAGS_FIELD, Writer};

/// Numbers of threads that load a file.
const THREADS: [&str; 2] = ["1", "3"];

fn bench(threads: &str) -> Bench {
    let bench = Bench::new(Protocol::Resp2, START, 1);
    set_threads(&bench, threads);
    bench
}

fn set_threads(bench: &Bench, threads: &str) {
    let setting = settings::find("load-threads").expect("the setting exists");
    let set = bench.server.config.set(setting, threads);
    set.expect("a valid value");
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

fn load(server: &Server, name: &str, file: impl Read, bytes: u64) -> Result<(), String> {
    file::load(server, name, file, bytes, Origin::Other, load_library)
}

fn loaded(file: &[u8], threads: &str) -> Bench {
    let bench = bench(threads);
    load(&bench.server, "a file", file, file.len() as u64).expect("a sound file");
    bench.server.data.keyspace.check();
    bench
}

fn check(bench: &mut Bench, rows: &[(&str, &str)]) {
    for (command, reply) in rows {
        assert_eq!(bench.run(&words(command)), *reply, "{command}");
    }
}

/// Regression: the limit of FUNCTION LOAD, then 500 ms of wall time, was the same for files, the
/// append-only file and primaries. A library that a client had loaded could keep a slower or busier
/// machine from starting.
#[test]
fn a_library_that_takes_long_is_refused_from_a_client_only() {
    let mut bench = bench("1");
    let mut rounds = 64_000_000_u64;
    let code = loop {
        let code = format!(
            "#!lua name=l\nfor i = 1, {rounds} do end\nredis.register_function('f', function() return 7 end)"
        );
        let reply = bench.run(&["FUNCTION", "LOAD", "REPLACE", &code].map(Into::into));
        if reply.contains("FUNCTION LOAD timeout") {
            break code;
        }
        assert_eq!(reply, "\"l\"");
        rounds *= 2;
    };
    let file = file(|writer| writer.library(code.as_bytes()));
    // The thread of the call loads it again.
    check(&mut loaded(&file, "1"), &[("FCALL f 0", "7")]);
    bench.session.feed = Some(Box::default());
    let reply = bench.run(&["FUNCTION", "LOAD", "REPLACE", &code].map(Into::into));
    assert_eq!(reply, "\"l\"");
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
    for threads in THREADS {
        let mut bench = loaded(&file, threads);
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
        assert_eq!(counts(&bench), (5, 2), "{threads} threads");
    }
}

/// Returns the numbers of keys that the last load has stored and that had expired before.
fn counts(bench: &Bench) -> (u64, u64) {
    let loading = &bench.server.persistence.loading;
    (
        loading.keys.load(Ordering::Relaxed),
        loading.expired.load(Ordering::Relaxed),
    )
}

/// Returns a file of a version that contains the given raw items, followed by a string.
fn raw_file(header: &[u8; 9], items: &[&[u8]]) -> Vec<u8> {
    [
        header,
        &items.concat()[..],
        b"\x00\x04last\x04here\xFF\0\0\0\0\0\0\0\0",
    ]
    .concat()
}

/// Faults of Redis before 7.0 have left collections without elements in files. One of them refused
/// the whole file, whereas Redis skips them.
#[test]
fn empty_collections_are_skipped_and_counted() {
    let listpack = b"\x07\x07\0\0\0\0\0\xFF";
    let ziplist = b"\x0B\x0B\0\0\0\x0A\0\0\0\0\0\xFF";
    let items: &[&[u8]] = &[
        b"\x01\x01a\0\x02\x01b\0\x03\x01c\0\x04\x01d\0\x05\x01e\0",
        b"\x0E\x01f\0\x12\x01g\0\x12\x01h\x01\x02",
        listpack,
        b"\x10\x01i",
        listpack,
        b"\x11\x01j",
        listpack,
        b"\x14\x01k",
        listpack,
        b"\x0A\x01l",
        ziplist,
        b"\x0C\x01m",
        ziplist,
        b"\x0D\x01n",
        ziplist,
        b"\x18\x01o\0\0\0\0\0\0\0\0\0",
        b"\x19\x01p\0\0\0\0\0\0\0\0",
        listpack,
    ];
    for threads in THREADS {
        let mut bench = loaded(&raw_file(b"REDIS0012", items), threads);
        check(&mut bench, &[("DBSIZE", "1"), ("GET last", "\"here\"")]);
        assert_eq!(counts(&bench), (1, 0), "{threads} threads");
        let info = bench.run(&words("INFO persistence"));
        assert!(info.contains("rdb_last_load_keys_empty:16"), "{info}");
    }
}

/// Trimming in early versions of Redis 5 stored wrong lengths, which refused the whole file.
#[test]
fn a_stream_whose_length_is_wrong_has_the_entries_of_the_file() {
    for (len, last_id) in [(0, (1, 2)), (1, (1, 2)), (5, (1, 2)), (2, (1, 1))] {
        let file = file(|writer| {
            for form in [StreamForm::Plain, StreamForm::Timed] {
                let mut stream = StreamWriter::new(form);
                for number in [1, 2] {
                    stream.entry((1, number), [(&b"f"[..], &b"v"[..])].into_iter());
                }
                let numbers = StreamNumbers {
                    len,
                    last_id,
                    entries_added: Some(len),
                    ..StreamNumbers::default()
                };
                stream.numbers(&numbers, 0);
                writer.stream(&[b'0' + form as u8], None, stream);
            }
        });
        for threads in THREADS {
            let mut bench = loaded(&file, threads);
            for key in [StreamForm::Plain, StreamForm::Timed].map(|form| form as u8) {
                check(
                    &mut bench,
                    &[
                        (&format!("XLEN {key}"), "2"),
                        (&format!("XADD {key} 1-2 f v"), TOO_SMALL),
                        (&format!("XADD {key} 1-3 f v"), "\"1-3\""),
                        (
                            &format!("XRANGE {key} 1-2 1-2"),
                            "[[\"1-2\" [\"f\" \"v\"]]]",
                        ),
                    ],
                );
            }
        }
    }
}

const TOO_SMALL: &str =
    "-ERR The ID specified in XADD is equal or smaller than the target stream top item";

/// Types 22 and 23 refused the whole file.
#[test]
fn hashes_of_release_candidates_of_redis_7_4_are_loaded() {
    let at = (START.0 + 10_000).to_be_bytes();
    let packed = b"\x1F\x1F\0\0\0\x06\0\x81f\x02\x81v\x02\xF4";
    let items: &[&[u8]] = &[
        b"\x16\x01h\x02\x81",
        &at,
        b"\x01f\x01v\0\x01g\x01w",
        b"\x17\x01p",
        packed,
        &(START.0 + 10_000).to_le_bytes(),
        b"\x09\x81g\x02\x81w\x02\0\x01\xFF",
    ];
    let items = items.concat();
    for threads in THREADS {
        let mut bench = loaded(&raw_file(b"REDIS0012", &[&items]), threads);
        for key in ["h", "p"] {
            check(
                &mut bench,
                &[
                    (&format!("HMGET {key} f g"), "[\"v\" \"w\"]"),
                    (&format!("HPTTL {key} FIELDS 2 f g"), "[10000 -1]"),
                ],
            );
        }
        check(&mut bench, &[("GET last", "\"here\"")]);
    }
}

#[test]
fn a_key_that_exists_is_replaced() {
    let file = file(|writer| string(writer, "s", "value", None));
    for threads in THREADS {
        let mut bench = bench(threads);
        bench.run(&words("RPUSH s a b"));
        bench.run(&words("SET other 1"));
        load(&bench.server, "a file", &file[..], 0).expect("a sound file");
        check(
            &mut bench,
            &[("GET s", "\"value\""), ("GET other", "\"1\"")],
        );
    }
}

#[test]
fn items_of_memcached_keep_their_flags() {
    let file = file(|writer| {
        // Has flags; cas 9; flags 7.
        writer.field(ITEM_FIELD, b"\x01\x09\0\0\0\0\0\0\0\x07\0\0\0");
        string(writer, "s", "value", None);
        string(writer, "t", "value", None);
    });
    let mut bench = loaded(&file, "1");
    check(&mut bench, &[("GET s", "\"value\"")]);
    let space = &bench.server.data.keyspace;
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
fn keys_keep_their_tags_and_their_freshness() {
    let file = file(|writer| {
        writer.field(TAGS_FIELD, b"\x01\0a\x02\0\0\xff");
        string(writer, "s", "value", None);
        string(writer, "plain", "value", None);
        writer.field(TAGS_FIELD, b"\x01\0a");
        writer.begin(b"m", None, Encoding::Set, 1);
        writer.put(&named("member"));
        writer.field(TAGS_FIELD, b"\0\0\x58\x02\0\0\x01\0t");
        string(writer, "soft", "value", Some(START.0 + 500));
        writer.field(TAGS_FIELD, b"\0\0\0\0\0\x40");
        string(writer, "absent", "", Some(START.0 + 500));
        // Tags of a key that has expired are not those of the next one.
        writer.field(TAGS_FIELD, b"\x01\0a");
        string(writer, "gone", "value", Some(START.0 - 1));
        string(writer, "next", "value", None);
    });
    for threads in ["1", "4"] {
        let mut bench = loaded(&file, threads);
        check(
            &mut bench,
            &[
                ("FETCH soft", "[\"value\" \"stale\" 500 nil]"),
                ("TAGS soft", "[\"t\"]"),
                ("FETCH absent", "[\"\" \"negative\" 500 nil]"),
                ("TAGS s", "[\"a\" \"\\x00\\xff\"]"),
                ("TAGS plain", "[]"),
                ("TAGS m", "[\"a\"]"),
                ("TAGS next", "[]"),
                ("INVALIDATE 1 a", "2"),
                ("EXISTS s plain m next", "2"),
            ],
        );
    }
}

#[test]
fn keys_stay_protected_from_eviction() {
    let file = file(|writer| {
        writer.field(PROTECTED_FIELD, b"");
        string(writer, "s", "value", None);
        string(writer, "plain", "value", None);
        writer.field(TAGS_FIELD, b"\x01\0a");
        writer.field(PROTECTED_FIELD, b"");
        writer.begin(b"m", None, Encoding::Set, 1);
        writer.put(&named("member"));
        writer.field(PROTECTED_FIELD, b"");
        string(writer, "gone", "value", Some(START.0 - 1));
        string(writer, "next", "value", None);
    });
    for threads in ["1", "4"] {
        let mut bench = loaded(&file, threads);
        check(
            &mut bench,
            &[
                ("BLESS GET s", "[\"NO-EVICT\"]"),
                ("BLESS GET plain", "[]"),
                ("BLESS GET m", "[\"NO-EVICT\"]"),
                ("TAGS m", "[\"a\"]"),
                ("BLESS GET next", "[]"),
            ],
        );
    }
}

#[test]
fn what_cannot_be_loaded_is_named_with_its_offset() {
    let error = |file: &[u8], threads: &str| {
        let bench = bench(threads);
        let result = load(&bench.server, "a file", file, 0);
        bench.server.data.keyspace.check();
        assert!(!bench.server.persistence.loading.is_on());
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
    let tags = file(|writer| writer.field(TAGS_FIELD, b"\0\0"));
    for (file, expected) in [
        (&tags[..], "a file: offset 9: expected the tags of a key"),
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
        for threads in THREADS {
            assert_eq!(error(file, threads), expected, "{threads} threads");
        }
    }
}

#[test]
fn commands_on_keys_are_refused_during_a_load() {
    const LOADING: &str = "-LOADING Redis is loading the dataset in memory";
    let mut bench = bench("1");
    check(&mut bench, &[("MULTI", "+OK"), ("SET k v", "+QUEUED")]);
    bench.server.persistence.loading.begin(START.0 / 1000);
    check(
        &mut bench,
        &[
            (
                "EXEC",
                "-EXECABORT Transaction discarded because of: LOADING Redis is loading the dataset in memory",
            ),
            ("DISCARD", "-ERR DISCARD without MULTI"),
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
    bench.server.persistence.loading.end();
    check(&mut bench, &[("GET k", "nil")]);
}

/// Returns a stream with a group, a consumer and a pending entry, which the group need not have.
fn stream(has_entry: bool) -> StreamWriter {
    let mut writer = StreamWriter::new(StreamForm::Timed);
    let field = |value: &'static [u8]| [(&b"f"[..], value)].into_iter();
    writer.entry((1, 1), field(b"v"));
    writer.entry((1, 2), field(b"12"));
    let numbers = StreamNumbers {
        len: 2,
        last_id: (1, 2),
        first_id: (1, 1),
        max_deleted_id: (0, 0),
        entries_added: Some(2),
    };
    writer.numbers(&numbers, 1);
    writer.group(b"g", (1, 2), Some(2));
    writer.count(1);
    writer.pending((1, 1), 1000, 3);
    writer.count(1);
    writer.consumer(b"c", 1000, Some(1000));
    writer.count(1);
    writer.owned((1, if has_entry { 1 } else { 2 }));
    writer
}

/// Returns a file with keys of all types, some of which occur twice. It is sound unless
/// `contradicts` is true, in which case some values contradict themselves.
fn random_file(rng: &mut Random, contradicts: bool) -> Vec<u8> {
    file(|writer| {
        for _ in 0..rng.below(400) {
            let key = format!("k{}", rng.below(200));
            let deadline = match rng.below(4) {
                0 => Some(START.0 - 1000 + rng.below(100_000) as u64),
                _ => None,
            };
            let is_wrong = contradicts && rng.below(100) == 0;
            // Some strings and lists are longer than what batches hold.
            let long = match rng.below(60) {
                0 => 70_000,
                1 => 400_000,
                _ => rng.below(40),
            };
            match rng.below(9) {
                0 => writer.database(rng.below(16) as u64),
                1 if rng.below(4) == 0 => {
                    writer.field(ITEM_FIELD, b"\x01\x09\0\0\0\0\0\0\0\x07\0\0\0");
                    string(writer, &key, "item", deadline);
                }
                1..4 => string(writer, &key, &"v".repeat(long), deadline),
                4 => writer.stream(key.as_bytes(), deadline, stream(!is_wrong)),
                5 => {
                    let count = 2 + long / 40;
                    writer.begin(key.as_bytes(), deadline, Encoding::List, count);
                    (0..count).for_each(|_| writer.put(&named(&"e".repeat(40))));
                }
                6 => {
                    let count = 2 + rng.below(600);
                    let form = Encoding::SetWithDeadlines;
                    writer.begin(key.as_bytes(), deadline, form, count);
                    for at in 0..count {
                        let name = if is_wrong { 0 } else { at };
                        writer.put(&Element {
                            deadline: (rng.below(3) == 0).then_some(START.0 - 5 + at as u64),
                            ..named(&name.to_string())
                        });
                    }
                }
                kind => {
                    let count = 1 + rng.below(100);
                    let form = match kind {
                        7 => Encoding::Hash,
                        _ => Encoding::SortedSet,
                    };
                    writer.begin(key.as_bytes(), deadline, form, count);
                    for at in 0..count {
                        let name = if is_wrong { 0 } else { at };
                        let value = if kind == 7 { &b"value"[..] } else { b"" };
                        writer.put(&Element {
                            value,
                            score: if kind == 7 { 0.0 } else { at as f64 },
                            ..named(&name.to_string())
                        });
                    }
                }
            }
        }
    })
}

/// Returns all keys with their values and deadlines.
fn contents(bench: &mut Bench) -> Vec<String> {
    let mut all = Vec::new();
    for database in 0..16 {
        bench.run(&words(&format!("SELECT {database}")));
        for number in 0..200 {
            for command in ["DUMP", "PEXPIRETIME", "TYPE"] {
                all.push(bench.run(&words(&format!("{command} k{number}"))));
            }
        }
    }
    all
}

/// Loads a file with a number of threads. Returns the result, the numbers of loaded and of expired
/// keys, and the contents if the file was accepted.
fn outcome(file: &[u8], threads: &str) -> (Result<(), String>, (u64, u64), Vec<String>) {
    let mut bench = bench(threads);
    let result = load(&bench.server, "a file", file, 0);
    bench.server.data.keyspace.check();
    assert!(!bench.server.persistence.loading.is_on());
    match result {
        Ok(()) => (Ok(()), counts(&bench), contents(&mut bench)),
        error => (error, (0, 0), Vec::new()),
    }
}

#[test]
fn several_threads_load_what_one_thread_loads() {
    let mut accepted = 0;
    for seed in 1..=60 {
        let mut rng = Random::new(seed);
        let file = random_file(&mut rng, seed % 3 == 0);
        let alone = outcome(&file, "1");
        accepted += usize::from(alone.0.is_ok());
        for threads in ["2", "4"] {
            let several = outcome(&file, threads);
            assert_eq!(alone.0, several.0, "seed {seed}, {threads} threads");
            assert!(alone == several, "seed {seed}, {threads} threads");
        }
    }
    assert!(accepted >= 40, "{accepted} files were accepted");
}

#[test]
fn several_threads_refuse_a_damaged_file_as_one_thread_does() {
    let mut refused = 0;
    for seed in 1..=40 {
        let mut rng = Random::new(seed);
        let sound = random_file(&mut rng, false);
        for _ in 0..6 {
            let mut file = sound.clone();
            let at = rng.below(file.len());
            match rng.below(3) {
                0 => file.truncate(at),
                1 => file[at] ^= 1 << rng.below(8),
                _ => file[at] = rng.next() as u8,
            }
            let (alone, several) = (outcome(&file, "1"), outcome(&file, "3"));
            refused += usize::from(alone.0.is_err());
            assert_eq!(alone.0, several.0, "seed {seed}, byte {at}");
            assert!(alone == several, "seed {seed}, byte {at}");
        }
    }
    assert!(refused >= 200, "{refused} files were refused");
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

/// Returns the commands that read all parts of a key.
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
    let redis = Redis::start();
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
        set_threads(&ours, THREADS[seed as usize / 3 % 2]);
        load(&ours.server, "a file of Redis", &file[..], 0).expect("a sound file");
        ours.server.data.keyspace.check();
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
