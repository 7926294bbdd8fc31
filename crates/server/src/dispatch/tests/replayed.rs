//! Commands of a primary or of an append-only file.

use super::apply::Applier;
use super::*;
use crate::replication::role;
use settings::find;

/// Executes commands of a feed at the server's current time, up to the first that cannot be
/// executed.
fn apply(bench: &Bench, lines: &[&str]) -> Result<(), String> {
    let mut applier = Applier::of_primary(&bench.server);
    for line in lines {
        // A text in backticks is one argument.
        let mut words: Vec<&str> = Vec::new();
        for (at, part) in line.split('`').enumerate() {
            match at % 2 {
                0 => words.extend(part.split(' ').filter(|word| !word.is_empty())),
                _ => words.push(part),
            }
        }
        let (mut input, mut spans) = (Vec::new(), Vec::new());
        for word in words {
            let (start, len) = (input.len() as u32, word.len() as u32);
            spans.push(Span { start, len });
            input.extend_from_slice(word.as_bytes());
        }
        applier.apply(Args::new(&input, &spans), bench.server.clock.now())?;
    }
    Ok(())
}

/// Starts a replica without a connection to its primary, whose clients may only read.
fn replica() -> Bench {
    let bench = Bench::new();
    role::follow(&bench.server, "127.0.0.1", 1);
    bench
}

fn set(bench: &Bench, name: &str, text: &str) {
    let option = find(name).expect("an option");
    let set = bench.server.config.set(option, text);
    set.expect("a valid value");
}

/// Regression: they counted from an instant long ago, so that all of these keys and elements were
/// lost.
#[test]
fn ttls_of_a_feed_count_from_the_time_of_their_execution() {
    let key = "PEXPIRETIME k";
    let hash = "HPEXPIRETIME k FIELDS 1 f";
    for (lines, question, ttl_ms) in [
        (&["SETEX k 100 v"][..], key, 100_000),
        (&["PSETEX k 1500 v"], key, 1500),
        (&["SET k v EX 100"], key, 100_000),
        (&["SET k v PX 1500"], key, 1500),
        (&["SET k v", "EXPIRE k 100"], key, 100_000),
        (&["SET k v", "PEXPIRE k 1500 NX"], key, 1500),
        (&["SET k v", "GETEX k PX 1500"], key, 1500),
        (&["MSETEX 1 k v PX 1500"], key, 1500),
        (&["INCREX k PX 1500"], key, 1500),
        (&["MULTI", "SET k v", "EXPIRE k 100", "EXEC"], key, 100_000),
        (
            &["EVAL `redis.call('setex', KEYS[1], 100, 'v')` 1 k"],
            key,
            100_000,
        ),
        (&["HSET k f v", "HEXPIRE k 100 FIELDS 1 f"], hash, 100_000),
        (&["HSET k f v", "HPEXPIRE k 1500 FIELDS 1 f"], hash, 1500),
        (&["HSETEX k PX 1500 FIELDS 1 f v"], hash, 1500),
        (&["HSET k f v", "HGETEX k PX 1500 FIELDS 1 f"], hash, 1500),
        (&["HSET k f v", "EXPIREMEMBER k f 100"], hash, 100_000),
        (&["SADDEX k 100 m"], "SPEXPIRETIME k MEMBERS 1 m", 100_000),
        (
            &["SADD k m", "SPEXPIRE k 1500 MEMBERS 1 m"],
            "SPEXPIRETIME k MEMBERS 1 m",
            1500,
        ),
        (
            &["ZADD k 1 m", "ZPEXPIRE k 1500 MEMBERS 1 m"],
            "ZPEXPIRETIME k MEMBERS 1 m",
            1500,
        ),
        (
            &["XADD k PX 1500 1-1 f v"],
            "XPEXPIRETIME k IDS 1 1-1",
            1500,
        ),
        (
            &["XADD k 1-1 f v", "XPEXPIRE k 1500 IDS 1 1-1"],
            "XPEXPIRETIME k IDS 1 1-1",
            1500,
        ),
    ] {
        let mut bench = replica();
        apply(&bench, lines).expect("they are executed");
        let reply = bench.say(question);
        let time = format!(":{}\r\n", NOW + ttl_ms);
        assert!(reply.ends_with(&time), "{lines:?}: {reply}");
    }
}

/// Regression: RESTORE has a payload of bytes, and lost the key, too.
#[test]
fn the_ttl_of_a_restored_value_counts_from_the_time_of_its_execution() {
    let mut bench = replica();
    let mut source = Bench::new();
    source.say("SET k v");
    let mut dump = Vec::new();
    exec(
        &source.server,
        &mut source.session,
        &[b"DUMP", b"k"],
        Tick(NOW),
        &mut dump,
    );
    let from = dump
        .iter()
        .position(|byte| *byte == b'\n')
        .expect("a length")
        + 1;
    let payload = &dump[from..dump.len() - 2];
    let words: [&[u8]; 4] = [b"RESTORE", b"k", b"1500", payload];
    let (mut input, mut spans) = (Vec::new(), Vec::new());
    for word in words {
        let (start, len) = (input.len() as u32, word.len() as u32);
        spans.push(Span { start, len });
        input.extend_from_slice(word);
    }
    let applied = Applier::new(&bench.server).apply(Args::new(&input, &spans), Tick(NOW));
    applied.expect("it is executed");
    bench.table(&[("PTTL k", ":1500")]);
}

/// Regression: XADD * gave 1-0, and entries were idle for decades.
#[test]
fn ids_and_idle_times_of_a_feed_are_those_of_its_execution() {
    let mut bench = replica();
    let lines = [
        "XADD s * f v",
        "XGROUP CREATE s g 0",
        "XREADGROUP GROUP g c STREAMS s >",
        "XADD t 7-7 f v",
        "XGROUP CREATE t g 0",
        "XCLAIM t g c 0 7-7 IDLE 1000 FORCE JUSTID",
        "SET k v",
    ];
    apply(&bench, &lines).expect("they are executed");
    bench.server.clock.set_ms(NOW + 500);
    let entry = format!("{NOW}-0");
    let reply = bench.say("XRANGE s - +");
    assert!(reply.contains(&entry), "{reply}");
    for (stream, id, idle) in [("s", &entry[..], 500), ("t", "7-7", 1500)] {
        let reply = bench.say(&format!("XPENDING {stream} g - + 10"));
        assert!(reply.contains(id), "{reply}");
        assert!(reply.contains(&format!("\r\n:{idle}\r\n")), "{reply}");
    }
}

#[test]
fn a_feed_finds_what_has_expired_until_it_deletes_it() {
    let mut bench = replica();
    let past = NOW - 1000;
    let lines = [
        &format!("SET k 7 PXAT {past}")[..],
        "INCR k",
        "HSET h f 7",
        &format!("HPEXPIREAT h {past} FIELDS 1 f"),
        "HINCRBY h f 1",
        "SET gone v PX 10",
    ];
    apply(&bench, &lines).expect("they are executed");
    bench.table(&[("GET k", "$-1"), ("HGET h f", "$-1")]);
    apply(&bench, &["PERSIST k", "HPERSIST h FIELDS 1 f"]).expect("they are executed");
    bench.table(&[("GET k", "$1 8"), ("HGET h f", "$1 8")]);
    bench.server.clock.set_ms(NOW + 11);
    bench.table(&[("GET gone", "$-1")]);
    apply(&bench, &["PERSIST gone"]).expect("it is executed");
    bench.table(&[("GET gone", "$1 v")]);
}

/// Regression: scripts were refused with READONLY, OOM or MASTERDOWN, and ended by limits.
#[test]
fn scripts_of_a_feed_are_executed_on_a_full_replica_without_a_primary() {
    let mut bench = replica();
    for (name, text) in [
        ("maxmemory", "1"),
        ("maxmemory-policy", "noeviction"),
        ("replica-ignore-maxmemory", "no"),
        ("replica-serve-stale-data", "no"),
        ("script-time-limit", "1"),
        ("atomic-work-limit", "1"),
    ] {
        set(&bench, name, text);
    }
    bench.server.apply_maxmemory();
    let loop_to = "for i = 1, 3000000 do end ";
    let lines = [
        &format!("EVAL `{loop_to}return redis.call('set', KEYS[1], ARGV[1])` 1 a 1")[..],
        "SCRIPT LOAD `return redis.call('incr', KEYS[1])`",
        "EVALSHA 2bab3b661081db58bd2341920e0ba7cf5dc77b25 1 a",
        "MULTI",
        "EVAL `#!lua\nredis.call('rpush', 'l', 'x')` 0",
        "EXEC",
        "EVAL `local t = {} for i = 1, 100 do t[i] = string.rep('x', 1048576) .. i end` 0",
        // It fails where it ran first, too, after its first write.
        "EVAL `redis.call('set', 'b', '1') redis.call('incr', 'l')` 0",
        "EVAL `redis.call('set', 'c', '1') error('no')` 0",
        "MULTI",
        "EVAL `redis.call('set', 'd', '1') return redis.error_reply('no')` 0",
        "EXEC",
    ];
    apply(&bench, &lines).expect("they are executed");
    set(&bench, "replica-serve-stale-data", "yes");
    bench.table(&[("MGET a b c d", "*4 $1 2 $1 1 $1 1 $1 1"), ("LLEN l", ":1")]);
}

/// Regression: the default user's rights decided what a replica and an append-only file executed.
#[test]
fn the_rights_of_the_default_user_do_not_concern_a_feed() {
    for rules in ["off", "on nopass ~no:* -@all +ping"] {
        let bench = replica();
        let mut words = vec!["ACL", "SETUSER", "default", "resetkeys"];
        words.extend(rules.split(' '));
        let mut admin = Bench {
            session: Session::new(),
            ..bench
        };
        assert_eq!(admin.run(&words), "+OK\r\n");
        let lines = [
            "SET a 1",
            "MULTI",
            "SET b 1",
            "EXEC",
            "EVAL `redis.call('set', 'c', '1') if redis.acl_check_cmd('set', 'd', '1') then redis.call('set', 'd', '1') end` 0",
            "RPUSH list 1",
            "SORT list GET a STORE e",
        ];
        apply(&admin, &lines).expect("they are executed");
        assert!(admin.server.auth.acl.log.newest(1).is_empty());
        assert_eq!(admin.server.data.keyspace.lock_all(Tick(NOW)).len(0), 6);
    }
}

/// Regression: a command that could not be executed was skipped, and the rest was executed.
#[test]
fn what_cannot_be_executed_ends_a_feed() {
    for (line, why) in [
        ("JSON.SET k $ 1", "there is no command 'json.set'"),
        ("GEOADD k", "wrong number of arguments for 'geoadd'"),
        (
            "INCR text",
            "'incr' was refused: ERR value is not an integer",
        ),
        ("LPUSH text 1", "'lpush' was refused: WRONGTYPE"),
        (
            "EVALSHA 0000000000000000000000000000000000000000 0",
            "'evalsha' was refused: NOSCRIPT",
        ),
        (
            "EVAL `this is no code` 0",
            "'eval' was refused: ERR Error compiling",
        ),
        (
            "EVAL `redis.call('set', 'a', '1') redis.call('json.set', 'k', '$')` 0",
            "a script calls 'json.set'",
        ),
        (
            "EVAL `redis.pcall('json.set', 'k', '$')` 0",
            "a script calls 'json.set'",
        ),
        (
            "FCALL missing 0",
            "'fcall' was refused: ERR Function not found",
        ),
        ("SELECT 99", "'select' was refused: ERR DB index"),
        ("CONFIG SET maxmemory 1", "'config' does not belong there"),
        ("EXEC", "'exec' was refused: ERR EXEC without MULTI"),
    ] {
        let bench = replica();
        apply(&bench, &["SET text t"]).expect("it is executed");
        let error = apply(&bench, &[line]).expect_err(line);
        assert!(error.starts_with(why), "{line}: {error}");
        let error = apply(&bench, &["MULTI", line, "EXEC"]).expect_err(line);
        let is_nested = line == "EXEC";
        assert!(is_nested || error.starts_with(why), "{line}: {error}");
    }
}

#[test]
fn commands_of_a_primary_are_counted() {
    // Regression: commandstats of a replica did not contain them.
    let mut bench = replica();
    let lines = ["SET a 1", "SET b 1", "MULTI", "INCR a", "EXEC", "PING"];
    apply(&bench, &lines).expect("they are executed");
    let info = bench.say("INFO commandstats");
    for (name, calls) in [
        ("set", 2),
        ("multi", 1),
        ("incr", 1),
        ("exec", 1),
        ("ping", 1),
    ] {
        let line = format!("cmdstat_{name}:calls={calls},");
        assert!(info.contains(&line), "{name}: {info}");
    }
}
