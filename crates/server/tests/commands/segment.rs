//! Commands on the segment engine under a manual clock, in Redis's and memcached's protocols,
//! without sockets.

use super::memcached::answers_at;
use server::dispatch::{Call, Executor};
use server::expiry::ExpiryDriver;
use server::{Server, command, exec};
use session::Session;
use session::clock::Clock;
use settings::Config;
use std::time::Duration;
use store::Tick;
use wire::{Output, Span};

const NOW: u64 = 1_700_000_000_000;

fn configured(settings: &[(&str, &str)]) -> Result<Server, String> {
    let config = Config::default();
    let engine = [("engine", "segment"), ("threads", "1")];
    for (name, value) in engine.iter().chain(settings) {
        let param = settings::find(name).expect("a setting of this name");
        config.set(param, value).expect("a value that fits");
    }
    Server::new(config, Clock::manual(NOW))
}

/// A server with its clock.
struct Bench {
    server: Server,
    session: Session,
}

impl Bench {
    fn new() -> Bench {
        Bench::with(&[("maxmemory", "16mb")])
    }

    /// Creates a server with enough segments for many TTLs.
    fn with_many_segments() -> Bench {
        Bench::with(&[("maxmemory", "16mb"), ("segment-size", "64kb")])
    }

    fn with(settings: &[(&str, &str)]) -> Bench {
        Bench {
            server: configured(settings).expect("valid settings"),
            session: Session::new(),
        }
    }

    fn now(&self) -> Tick {
        self.server.clock.now()
    }

    /// Returns the reply to a command, with blanks instead of line ends.
    fn ask(&mut self, line: &str) -> String {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        self.ask_words(&words)
    }

    fn ask_words(&mut self, words: &[&[u8]]) -> String {
        let (mut out, now) = (vec![], self.now());
        exec(&self.server, &mut self.session, words, now, &mut out);
        let text = String::from_utf8_lossy(&out).into_owned();
        text.trim_end().replace("\r\n", " ")
    }

    fn script(&mut self, lines: &[(&str, &str)]) {
        for (line, reply) in lines {
            assert_eq!(self.ask(line), *reply, "{line}");
        }
    }

    fn memcached(&self, input: &str) -> String {
        answers_at(&self.server, input.as_bytes(), self.now())
    }
}

#[test]
fn a_cluster_of_one_node_answers_but_lists_no_keys() {
    let mut bench = Bench::with(&[("maxmemory", "16mb"), ("cluster-enabled", "emulated")]);
    assert_eq!(bench.ask("CLUSTER KEYSLOT a"), ":15495");
    assert!(
        bench
            .ask("CLUSTER SLOTS")
            .starts_with("*1 *3 :0 :16383 *4 ")
    );
    for command in [
        "CLUSTER COUNTKEYSINSLOT 1",
        "CLUSTER GETKEYSINSLOT 1 1",
        "CLUSTER SLOT-STATS SLOTSRANGE 0 1",
    ] {
        let reply = bench.ask(command);
        assert!(
            reply.contains("is not served by the segment engine"),
            "{reply}"
        );
    }
}

#[test]
fn strings_are_stored_only_if_their_condition_holds() {
    Bench::new().script(&[
        ("GET k", "$-1"),
        ("SET k v", "+OK"),
        ("GET k", "$1 v"),
        ("SET k w NX", "$-1"),
        ("SET k w XX", "+OK"),
        ("SET none w XX", "$-1"),
        ("SET k x GET", "$1 w"),
        ("SET none x XX GET", "$-1"),
        ("EXISTS k none k", ":2"),
        ("SET k y IFEQ x", "+OK"),
        ("SET k z IFEQ x", "$-1"),
        ("GETSET k a", "$1 y"),
        ("GETSET new a", "$-1"),
        ("APPEND k bc", ":3"),
        ("APPEND fresh bc", ":2"),
        ("STRLEN k", ":3"),
        ("GETDEL k", "$3 abc"),
        ("GETDEL k", "$-1"),
        ("SETNX k 1", ":1"),
        ("SETNX k 2", ":0"),
        ("MSET a 1 b 2 c 3", "+OK"),
        ("MGET a none c", "*3 $1 1 $-1 $1 3"),
        ("TYPE a", "+string"),
        ("TYPE none", "+none"),
        ("TOUCH a b none", ":2"),
        ("DEL a b none", ":2"),
        ("UNLINK c", ":1"),
        ("DBSIZE", ":3"),
        ("SET k v EX 0", "-ERR invalid expire time in 'set' command"),
        ("SET k v EX", "-ERR syntax error"),
        ("GET", "-ERR wrong number of arguments for 'get' command"),
        ("SELECT 0", "+OK"),
        (
            "SELECT 1",
            "-ERR DB index is out of range: the segment engine has only database 0; select 0, for example with a URL that ends in /0, or start the server with --engine slab",
        ),
        ("FLUSHALL", "+OK"),
        ("DBSIZE", ":0"),
        ("GET k", "$-1"),
        ("SET k v", "+OK"),
        ("FLUSHDB ASYNC", "+OK"),
        ("EXISTS k", ":0"),
        ("FLUSHALL NOW", "-ERR syntax error"),
    ]);
}

#[test]
fn positive_and_negative_numbers_are_incremented() {
    Bench::new().script(&[
        ("INCR n", ":1"),
        ("INCRBY n 41", ":42"),
        ("GET n", "$2 42"),
        ("DECRBY n 50", ":-8"),
        ("INCR n", ":-7"),
        ("INCRBY n 9", ":2"),
        ("DECR n", ":1"),
        ("STRLEN n", ":1"),
        ("DECR fresh", ":-1"),
        ("SET n 9223372036854775807", "+OK"),
        ("INCR n", "-ERR increment or decrement would overflow"),
        ("GET n", "$19 9223372036854775807"),
        ("SET n 007", "+OK"),
        ("INCR n", "-ERR value is not an integer or out of range"),
        ("INCRBY n x", "-ERR value is not an integer or out of range"),
        ("SET n 5 EX 800", "+OK"),
        ("INCR n", ":6"),
        ("TTL n", ":800"),
        ("INCR n", ":7"),
        ("TTL n", ":800"),
    ]);
}

#[test]
fn ttl_returns_the_deadline_that_was_rounded_down() {
    let mut bench = Bench::with_many_segments();
    bench.script(&[
        ("SET k v EX 100", "+OK"),
        ("TTL k", ":96"),
        ("PTTL k", ":96000"),
        ("EXPIRETIME k", ":1700000096"),
        ("PEXPIRETIME k", ":1700000096000"),
        ("TTL none", ":-2"),
        ("EXPIRE k 200 NX", ":0"),
        ("EXPIRE k 200 LT", ":0"),
        ("EXPIRE k 200 GT", ":1"),
        ("TTL k", ":200"),
        // The stored deadline would not be later, although the requested one is.
        ("EXPIRE k 207 GT", ":0"),
        ("EXPIRE k 207 LT", ":0"),
        ("PERSIST k", ":1"),
        ("PERSIST k", ":0"),
        ("TTL k", ":-1"),
        ("EXPIRE k 8 XX", ":0"),
        ("EXPIRE k 10 NX", ":1"),
        ("TTL k", ":10"),
        ("SET k w KEEPTTL", "+OK"),
        ("TTL k", ":10"),
        ("GETEX k EX 16", "$1 w"),
        ("TTL k", ":16"),
        ("GETEX k PERSIST", "$1 w"),
        ("TTL k", ":-1"),
        ("SETEX k 24 v", "+OK"),
        ("PSETEX p 1520 v", "+OK"),
        ("PTTL p", ":1500"),
        ("EXPIRE k -1", ":1"),
        ("EXISTS k", ":0"),
        ("EXPIRE none 5", ":0"),
        ("SET k v PXAT 1", "+OK"),
        ("GET k", "$-1"),
    ]);
    // A value that is replaced with KEEPTTL keeps its deadline, which is already a multiple of 8 s.
    bench.script(&[("SET k v EX 100", "+OK"), ("SET n 5 EX 100", "+OK")]);
    bench.server.clock.set_ms(NOW + 1500);
    bench.script(&[
        ("APPEND k w", ":2"),
        ("APPEND k x", ":3"),
        ("INCR n", ":6"),
        ("SET n -5 KEEPTTL", "+OK"),
        ("INCR n", ":-4"),
        ("PTTL k", ":94500"),
        ("PTTL n", ":94500"),
    ]);
    assert_eq!(bench.ask("EXISTS p"), ":1");
    bench.server.clock.set_ms(NOW + 1501);
    assert_eq!(bench.ask("EXISTS p"), ":0");
    assert_eq!(bench.ask("DBSIZE"), ":2");
}

#[test]
fn the_error_for_an_unsupported_command_names_the_engine() {
    let mut bench = Bench::new();
    for line in [
        "HSET h f v",
        "MULTI",
        "MSETNX a 1 b 2",
        "SCAN 0",
        "WATCH k",
        "LPUSH l 1",
    ] {
        let name = line.split(' ').next().unwrap_or_default();
        let wanted =
            format!("-ERR '{name}' is not served by the segment engine; start with --engine slab");
        assert_eq!(bench.ask(line), wanted);
    }
    bench.script(&[
        ("PING", "+PONG"),
        ("COMMAND INFO hset", "*1 *-1"),
        ("COMMAND DOCS hset", "*0"),
        ("CONFIG GET engine", "*2 $6 engine $7 segment"),
        ("CONFIG GET maxmemory", "*2 $9 maxmemory $8 16777216"),
    ]);
    assert!(
        bench
            .ask("CONFIG SET engine slab")
            .contains("can't set immutable config")
    );
    bench.script(&[
        ("CONFIG SET segment-eviction s3fifo", "+OK"),
        (
            "CONFIG GET segment-eviction",
            "*2 $16 segment-eviction $6 s3fifo",
        ),
        ("CONFIG SET segment-eviction rent", "+OK"),
    ]);
    for setting in [
        "maxmemory 1gb",
        "maxmemory-policy allkeys-lru",
        "notify-keyspace-events KEA",
    ] {
        let refused = bench.ask(&format!("CONFIG SET {setting}"));
        assert!(refused.contains("segment engine"), "{refused}");
    }
    assert_eq!(
        bench.ask("CONFIG GET maxmemory-policy"),
        "*2 $16 maxmemory-policy $10 noeviction"
    );
    let info = bench.ask("INFO");
    for field in [
        "engine:segment",
        "expiry_index:segments",
        "maxmemory_policy:rent",
    ] {
        assert!(info.contains(field), "{field}");
    }
}

#[test]
fn a_value_larger_than_a_segment_is_refused() {
    let mut bench = Bench::new();
    let (large, key) = (vec![b'v'; 1 << 20], vec![b'k'; 256]);
    assert_eq!(bench.ask("SET k v"), "+OK");
    let refused = bench.ask_words(&[b"SET", b"k", &large]);
    assert_eq!(
        refused,
        "-ERR the value is larger than a segment (segment-size)"
    );
    let refused = bench.ask_words(&[b"MSET", b"a", b"1", b"k", &large]);
    assert_eq!(
        refused,
        "-ERR the value is larger than a segment (segment-size)"
    );
    let refused = bench.ask_words(&[b"SET", &key, b"v"]);
    let wanted = "-ERR the key is longer than the 255 bytes that the segment engine takes";
    assert_eq!(refused, wanted);
    assert_eq!(bench.ask_words(&[b"GET", &key]), "$-1");
    assert_eq!(bench.ask("MGET a k"), "*2 $-1 $1 v");
    // memcached deletes an item that it could not replace.
    let value = String::from_utf8(large).expect("letters");
    let set = format!("set k 0 0 {}\r\n{value}\r\nget k\r\n", value.len());
    let wanted = "SERVER_ERROR object too large for cache\r\nEND\r\n";
    assert_eq!(bench.memcached(&set), wanted);
}

#[test]
fn incompatible_settings_are_refused_at_startup() {
    let refused = |settings| match configured(settings) {
        Ok(_) => panic!("{settings:?}"),
        Err(error) => error,
    };
    let small = refused(&[("maxmemory", "4mb")]);
    assert!(
        small.contains("4.00M is too little for 1 data thread and segments of 1.00M"),
        "{small}"
    );
    assert!(refused(&[("maxmemory-policy", "allkeys-lru")]).contains("segment-eviction"));
    assert!(refused(&[("expiry", "buckets")]).contains("slab engine's"));
    assert!(refused(&[("notify-keyspace-events", "Ex")]).contains("no event"));
    assert!(refused(&[("segment-size", "5000")]).contains("power of two"));
    let server = configured(&[]).expect("64 MB where none are given");
    assert_eq!(server.config.number(settings::Id::MaxMemory), 64 << 20);
}

#[test]
fn memcached_text_commands_are_answered() {
    let bench = Bench::new();
    for (request, answer) in [
        ("get k\r\n", "END\r\n"),
        ("set k 7 100 5\r\nhello\r\n", "STORED\r\n"),
        ("get k\r\n", "VALUE k 7 5\r\nhello\r\nEND\r\n"),
        ("add k 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
        ("replace none 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
        ("append k 0 0 1\r\n!\r\n", "STORED\r\n"),
        ("prepend k 0 0 1\r\n>\r\n", "STORED\r\n"),
        ("gat 50 k\r\n", "VALUE k 7 7\r\n>hello!\r\nEND\r\n"),
        ("touch k 60\r\n", "TOUCHED\r\n"),
        ("touch none 60\r\n", "NOT_FOUND\r\n"),
        (
            "incr k 1\r\n",
            "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n",
        ),
        ("set n 3 0 2\r\n10\r\n", "STORED\r\n"),
        ("decr n 1\r\n", "9\r\n"),
        ("incr n 18446744073709551615\r\n", "8\r\n"),
        ("decr n 9\r\n", "0\r\n"),
        ("get n\r\n", "VALUE n 3 1\r\n0\r\nEND\r\n"),
        ("set n 0 0 4\r\n12 x\r\nincr n 1\r\n", "STORED\r\n13\r\n"),
        ("incr none 1\r\n", "NOT_FOUND\r\n"),
        ("cas n 0 0 1 999999\r\nx\r\n", "EXISTS\r\n"),
        ("cas none 0 0 1 9\r\nx\r\n", "NOT_FOUND\r\n"),
        ("set gone 0 -1 1\r\nx\r\nget gone\r\n", "STORED\r\nEND\r\n"),
        ("delete k\r\ndelete k\r\n", "DELETED\r\nNOT_FOUND\r\n"),
        ("flush_all\r\nget n\r\n", "OK\r\nEND\r\n"),
    ] {
        assert_eq!(bench.memcached(request), answer, "{request}");
    }
    let reply = bench.memcached("set c 0 0 1\r\n1\r\ngets c\r\n");
    let cas = reply.split_ascii_whitespace().nth(5).expect("a number");
    let change = format!("cas c 0 0 1 {cas}\r\n2\r\ncas c 0 0 1 {cas}\r\n3\r\nget c\r\n");
    let wanted = "STORED\r\nEXISTS\r\nVALUE c 0 1\r\n2\r\nEND\r\n";
    assert_eq!(bench.memcached(&change), wanted);
}

#[test]
fn memcached_meta_commands_are_answered() {
    let mut bench = Bench::new();
    for (request, answer) in [
        ("mg k v\r\n", "EN\r\n"),
        ("ms k 2 T96 F5\r\nhi\r\n", "HD\r\n"),
        ("mg k v f h t k\r\n", "VA 2 f5 h0 t96 kk\r\nhi\r\n"),
        ("mg k s h\r\n", "HD s2 h1\r\n"),
        // Stale item: one client wins, the others are notified.
        ("md k I\r\n", "HD\r\n"),
        (
            "mg k v\r\nmg k v\r\n",
            "VA 2 X W\r\nhi\r\nVA 2 Z X\r\nhi\r\n",
        ),
        ("ms k 2\r\nho\r\nmg k v\r\n", "HD\r\nVA 2\r\nho\r\n"),
        // A miss creates an empty item, and the requesting client wins.
        ("mg new N40 v t\r\n", "VA 0 t40 W\r\n\r\n"),
        ("mg new N40 v\r\n", "VA 0 Z\r\n\r\n"),
        (
            "ms r 1 T16\r\nx\r\nmg r R30 v\r\nmg r R30 v\r\n",
            "HD\r\nVA 1 W\r\nx\r\nVA 1 Z\r\nx\r\n",
        ),
        // A cas number chosen by the client.
        ("ms e 5 E77 c\r\nvalue\r\n", "HD c77\r\n"),
        ("mg e v c s\r\n", "VA 5 c77 s5\r\nvalue\r\n"),
        ("ms e 1 C76\r\nx\r\n", "EX\r\n"),
        (
            "ms e 1 C77 E78 MA c\r\n!\r\nmg e v c\r\n",
            "HD c78\r\nVA 6 c78\r\nvalue!\r\n",
        ),
        ("get e\r\n", "VALUE e 0 6\r\nvalue!\r\nEND\r\n"),
        ("mg e E79 c\r\nmg e c\r\n", "HD c78\r\nHD c78\r\n"),
        ("md e C1\r\nmd e C78\r\nmg e\r\n", "EX\r\nHD\r\nEN\r\n"),
        (
            "ma n\r\nma n N0 J5 v\r\nma n D3 v\r\n",
            "NF\r\nVA 1\r\n5\r\nVA 1\r\n8\r\n",
        ),
        (
            "ma n MD D9 v t\r\nma n E5 c v\r\n",
            "VA 1 t-1\r\n0\r\nVA 1 c5\r\n1\r\n",
        ),
        ("ma n v\r\nma n C60000 v\r\n", "VA 1\r\n2\r\nEX\r\n"),
        ("me none\r\n", "EN\r\n"),
        ("mn\r\n", "MN\r\n"),
    ] {
        assert_eq!(bench.memcached(request), answer, "{request}");
    }
    assert!(
        bench
            .memcached("me k\r\n")
            .starts_with("ME k exp=-1 la=0 cas=")
    );
    // Redis clients see the same values.
    bench.memcached("ms e 5 E77\r\nvalue\r\n");
    bench.script(&[
        ("GET e", "$5 value"),
        ("STRLEN e", ":5"),
        ("APPEND e !", ":6"),
        ("GET e", "$6 value!"),
    ]);
    bench.script(&[("GET n", "$1 2"), ("INCR n", ":3")]);
}

#[test]
fn a_batch_is_answered_in_order() {
    let bench = Bench::new();
    let (mut sets, mut gets, mut values) = (String::new(), String::new(), String::new());
    for number in 0..300 {
        sets += &format!("set key{number} {number} 0 1\r\n1\r\n");
        gets += &format!("get key{number}\r\n");
        values += &format!("VALUE key{number} {number} 1\r\n1\r\nEND\r\n");
    }
    assert_eq!(bench.memcached(&sets), "STORED\r\n".repeat(300));
    assert_eq!(bench.memcached(&gets), values);
}

/// A deadline is rounded down only once, however many clients append and however often.
#[test]
fn repeated_appends_round_the_deadline_down_only_once() {
    let mut bench = Bench::with_many_segments();
    for number in 0..20 {
        bench.server.clock.set_ms(NOW + number * 1_000);
        bench.ask(&format!("SET other{number} v EX {}", 60 + number * 400));
    }
    assert_eq!(bench.ask("SET log x EX 3600"), "+OK");
    let reply = |bench: &mut Bench| -> i64 {
        let reply = bench.ask("PEXPIRETIME log");
        reply.trim_start_matches(':').parse().expect("a number")
    };
    let first = reply(&mut bench);
    assert_eq!(bench.ask("APPEND log x"), ":2");
    let kept = reply(&mut bench);
    assert!(
        (first - 512_000..=first).contains(&kept),
        "{kept} of {first}"
    );
    for number in 0..3_000 {
        bench.server.clock.set_ms(NOW + 20_000 + number);
        bench.ask("APPEND log x");
    }
    let kept = reply(&mut bench);
    assert!(
        (first - 128_000..=first).contains(&kept),
        "{kept} of {first}"
    );
    assert_eq!(bench.ask("SET log -1 KEEPTTL"), "+OK");
    assert_eq!(bench.ask("INCR log"), ":0");
    assert_eq!(reply(&mut bench), kept);
    bench.server.clock.set_ms(kept as u64 + 1);
    assert_eq!(bench.ask("GET log"), "$-1");
}

/// Flushed objects do not count as expired or late.
#[test]
fn flushed_objects_do_not_count_as_expired() {
    let mut bench = Bench::new();
    let mut expiry_driver = ExpiryDriver::new(&bench.server, 0);
    for number in 0..1_000 {
        bench.ask(&format!("SET k{number} v EX 100"));
    }
    assert_eq!(bench.ask("FLUSHALL"), "+OK");
    while expiry_driver.run(&bench.server, Duration::ZERO) {}
    let info = bench.ask("INFO");
    for field in [
        "objects_flushed:1000",
        "expired_keys:0",
        "expiry_lag_samples:0",
        "expired_backlog_keys:0",
    ] {
        assert!(info.contains(field), "{field} in {info}");
    }
}

/// Expired segments are freed when the worker runs, and the worker sleeps until then.
#[test]
fn a_worker_frees_expired_segments_when_they_are_due() {
    let mut bench = Bench::new();
    let mut expiry_driver = ExpiryDriver::new(&bench.server, 0);
    assert_eq!(expiry_driver.earliest(&bench.server.data), None);
    for number in 0..2000 {
        assert_eq!(bench.ask(&format!("SET k{number} v PX 20000")), "+OK");
    }
    let due = expiry_driver
        .earliest(&bench.server.data)
        .expect("the segments expire");
    assert_eq!(due, Tick(NOW + 20_001));
    bench.server.clock.set_ms(due.0 - 1);
    assert!(!expiry_driver.run(&bench.server, Duration::ZERO));
    assert_eq!(
        bench
            .server
            .data
            .engine()
            .counters(&bench.server.observability.stats)
            .expired_keys,
        0
    );
    bench.server.clock.set_ms(due.0);
    while expiry_driver.run(&bench.server, Duration::ZERO) {}
    assert_eq!(
        bench
            .server
            .data
            .engine()
            .counters(&bench.server.observability.stats)
            .expired_keys,
        2000
    );
    assert_eq!(expiry_driver.earliest(&bench.server.data), None);
    let info = bench.ask("INFO expiry");
    for field in [
        "expired_backlog_keys:0",
        "keys_with_ttl:0",
        "expired_keys:2000",
    ] {
        assert!(info.contains(field), "{field} in {info}");
    }
    // No other worker wakes for it.
    assert_eq!(
        ExpiryDriver::new(&bench.server, 1).earliest(&bench.server.data),
        None
    );
}

/// Several threads, each with its own writer.
#[test]
fn concurrent_increments_on_the_segment_engine_add_up() {
    const EACH: usize = 500;
    let server = configured(&[("maxmemory", "16mb"), ("threads", "4")]).expect("valid settings");
    let add = &|worker: usize| {
        let mut executor = Executor::new(&server, worker, Tick(NOW));
        let (mut session, mut out) = (Session::new(), Output::default());
        for _ in 0..EACH {
            for words in [&[&b"INCR"[..], b"n"][..], &[b"APPEND", b"s", b"x"]] {
                run_words(&mut executor, &mut session, words, &mut out);
            }
            executor.finish();
        }
        assert!(!out.contains(&b'-'));
    };
    std::thread::scope(|scope| {
        let adders: Vec<_> = (0..4)
            .map(|worker| scope.spawn(move || add(worker)))
            .collect();
        for adder in adders {
            adder.join().expect("it does not panic");
        }
    });
    let mut out = vec![];
    let (mut session, now) = (Session::new(), Tick(NOW));
    exec(&server, &mut session, &[b"GET", b"n"], now, &mut out);
    exec(&server, &mut session, &[b"STRLEN", b"s"], now, &mut out);
    assert_eq!(String::from_utf8_lossy(&out), "$4\r\n2000\r\n:2000\r\n");
}

fn run_words(
    executor: &mut Executor<'_>,
    session: &mut Session,
    words: &[&[u8]],
    out: &mut Output,
) {
    let (mut input, mut spans) = (vec![], vec![]);
    for word in words {
        spans.push(Span {
            start: input.len() as u32,
            len: word.len() as u32,
        });
        input.extend_from_slice(word);
    }
    let call = Call {
        start: 0,
        len: input.len(),
        first: 0,
        count: words.len(),
        index: command::table().lookup(words[0]),
        memo: None,
    };
    executor.run(session, call.args(&input, &spans), &call, out);
}

#[test]
fn many_values_are_written_and_read_in_steps_with_the_same_replies() {
    // Regression: MGET and MSET were one step, whatever the number of their keys.
    let mut bench = Bench::new();
    let names: Vec<String> = (0..1500).map(|i| format!("k{i:04}")).collect();
    let pairs: Vec<String> = names.iter().map(|name| format!("{name} v{name}")).collect();
    assert_eq!(bench.ask(&format!("MSET {}", pairs.join(" "))), "+OK");
    let expected: String = names.iter().map(|name| format!("$6 v{name} ")).collect();
    let reply = bench.ask(&format!("MGET {}", names.join(" ")));
    assert_eq!(reply, format!("*1500 {expected}").trim_end());
    // A key without a value is refused before the first one is stored.
    let reply = bench.ask(&format!("MSET k0000 new {} k", pairs.join(" ")));
    assert_eq!(reply, "-ERR wrong number of arguments for 'mset' command");
    assert_eq!(bench.ask("GET k0000"), "$6 vk0000");
    let calls = |bench: &mut Bench| {
        bench
            .ask("INFO commandstats")
            .contains("cmdstat_mget:calls=1,")
    };
    assert!(calls(&mut bench));
}
