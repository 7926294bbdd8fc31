//! Leases: FETCH … LEASE, SET … TOKEN and UNLEASE, whose replies contain numbers that differ.

use crate::script::{Bench, START, words};
use wire::Protocol;

fn bench() -> Bench {
    Bench::new(Protocol::Resp2, START, 1)
}

impl Bench {
    /// Runs commands and compares their replies.
    fn all(&mut self, rows: &[(&str, &str)]) {
        for (command, wanted) in rows {
            assert_eq!(&self.run(&words(command)), wanted, "{command}");
        }
    }

    /// Takes a lease. Returns the reply before the token, and the token.
    fn lease(&mut self, key: &str, ms: u64) -> (String, String) {
        let reply = self.run(&words(&format!("FETCH {key} LEASE {ms}")));
        let (head, token) = reply.rsplit_once(' ').expect("an array of four");
        let token = token.trim_matches(|sign| sign == '"' || sign == ']');
        (format!("{head}]"), token.to_owned())
    }

    /// Takes a lease of a key without a value.
    fn token(&mut self, key: &str) -> String {
        let (head, token) = self.lease(key, 1_000);
        assert_eq!(head, "[nil \"missing\" 1000]");
        assert_eq!(token.len(), 16);
        token
    }

    fn set(&mut self, key: &str, token: &str, more: &str) -> String {
        self.run(&words(&format!("SET {key} v TOKEN {token} {more}")))
    }
}

#[test]
fn one_client_has_the_lease_of_a_missing_key() {
    let mut bench = bench();
    let token = bench.token("k");
    bench.now.0 += 300;
    bench.all(&[
        ("FETCH k LEASE 5000", "[nil \"pending\" 700 nil]"),
        ("FETCH k", "[nil \"pending\" 700 nil]"),
    ]);
    assert_eq!(bench.set("k", &token, "PX 50 PSTALE 100"), "+OK");
    assert_eq!(bench.set("k", &token, ""), "nil", "a token is used once");
    bench.all(&[("FETCH k LEASE 9", "[\"v\" \"fresh\" 50 nil]")]);
    bench.now.0 += 51;
    let (head, token) = bench.lease("k", 20);
    assert_eq!(head, "[\"v\" \"stale\" 99]");
    bench.all(&[("FETCH k LEASE 9", "[\"v\" \"stale\" 99 nil]")]);
    bench.now.0 += 20;
    bench.all(&[("FETCH k LEASE 9", "[\"v\" \"stale\" 79 nil]")]);
    bench.now.0 += 1;
    let (_, second) = bench.lease("k", 500);
    assert_ne!(token, second);
    assert_eq!(bench.set("k", &token, ""), "nil", "its lease has ended");
    // The key expires while its value is computed.
    bench.now.0 += 100;
    bench.all(&[("FETCH k", "[nil \"pending\" 400 nil]")]);
    assert_eq!(bench.set("k", &second, "EX 9"), "+OK");
}

#[test]
fn a_value_is_not_stored_after_a_change_of_its_key() {
    let mut bench = bench();
    let changes = [
        "SET k x",
        "SET k x KEEPTTL",
        "DEL k",
        "UNLINK k",
        "GETDEL k",
        "DELEX k",
        "MSET k x",
        "SETEX k 5 x",
        "INCR k",
        "APPEND k x",
        "LPUSH k x",
        "SUNIONSTORE k live",
        "RENAME live k",
        "COPY live k REPLACE",
        "PEXPIRE k 0",
        "MOVE k 1",
        "FLUSHDB",
        "FLUSHALL",
        "SWAPDB 0 5",
        "SWAPDB 5 0",
    ];
    for is_present in [false, true] {
        for change in changes {
            // These refuse a string, or do nothing to a key that does not exist.
            let is_excluded = match change {
                "LPUSH k x" => is_present,
                "PEXPIRE k 0" | "MOVE k 1" => !is_present,
                _ => false,
            };
            if is_excluded {
                continue;
            }
            bench.run(&words("FLUSHALL"));
            bench.run(&words("SADD live 1"));
            if is_present {
                bench.run(&words("SET k 1 PX 1 PSTALE 10000"));
                bench.now.0 += 2;
            }
            let (_, token) = bench.lease("k", 1_000);
            let reply = bench.run(&words(change));
            assert!(!reply.starts_with('-'), "{change}: {reply}");
            let present = bench.run(&words("EXISTS k"));
            assert_eq!(bench.set("k", &token, ""), "nil", "{change}, {is_present}");
            assert_eq!(bench.run(&words("EXISTS k")), present, "{change}");
        }
    }
    let refused = bench.run(&words("INFO stats"));
    assert!(refused.contains("refused_tokens:"), "{refused}");
}

#[test]
fn a_lease_outlasts_what_changes_no_value() {
    let mut bench = bench();
    bench.run(&words("SET k 1 PX 1 PSTALE 10000 TAGS 1 t"));
    bench.now.0 += 2;
    let (_, token) = bench.lease("k", 1_000);
    for command in [
        "GET k",
        "GETEX k PX 10000",
        "PEXPIRE k 9000",
        "PERSIST k",
        "PEXPIRE k 9000",
        "STALE k 9001",
        "TAG k u",
        "UNTAG k u",
        "OBJECT ENCODING k",
        "DEL other",
        "SET other 1",
        "SET k 2 NX",
        "INVALIDATE 1 other",
        "SELECT 1",
        "FLUSHDB",
        "SELECT 0",
    ] {
        let reply = bench.run(&words(command));
        assert!(!reply.starts_with('-'), "{command}: {reply}");
    }
    assert_eq!(bench.set("k", &token, "NX"), "nil", "another condition");
    assert_eq!(bench.set("k", &token, ""), "+OK");
}

#[test]
fn a_value_is_not_stored_after_an_invalidation_of_its_tags() {
    let mut bench = bench();
    // The tag of a key that exists, and of the new value of one that does not.
    bench.run(&words("SET k 1 PX 1 PSTALE 10000 TAGS 2 a b"));
    bench.now.0 += 2;
    let (_, old) = bench.lease("k", 1_000);
    let new = bench.token("new");
    let other = bench.token("other");
    bench.run(&words("INVALIDATE 1 b"));
    assert_eq!(bench.set("k", &old, ""), "nil");
    assert_eq!(bench.set("new", &new, "TAGS 2 a b"), "nil");
    // The refusal has ended the lease.
    assert_eq!(bench.set("other", &other, "TAGS 1 a"), "+OK");
    let later = bench.token("new");
    assert_ne!(new, later);
    assert_eq!(bench.set("new", &later, "TAGS 2 a b"), "+OK");
}

#[test]
fn a_token_is_that_of_one_key_in_one_database_of_one_start() {
    let mut bench = bench();
    let (one, two) = (bench.token("one"), bench.token("two"));
    assert_ne!(one, two);
    assert_eq!(bench.set("one", &two, ""), "nil");
    bench.all(&[("SELECT 1", "+OK")]);
    assert_eq!(bench.set("two", &two, ""), "nil");
    bench.all(&[("SELECT 0", "+OK")]);
    let upper = one.to_uppercase();
    assert_eq!(bench.set("one", &upper, ""), "+OK");
    assert_eq!(bench.set("two", &two, ""), "+OK");
    let third = bench.token("three");
    let mut restarted = self::bench();
    restarted.now.0 += 1;
    assert_eq!(restarted.set("three", &third, ""), "nil");
    let again: Vec<String> = (0..3).map(|at| restarted.token(&format!("{at}"))).collect();
    assert!(![one, two, third].iter().any(|token| again.contains(token)));
}

#[test]
fn a_lease_can_be_returned() {
    let mut bench = bench();
    let token = bench.token("k");
    bench.all(&[
        ("UNLEASE other 0123456789abcdef", "0"),
        ("UNLEASE k 0123456789abcdef", "0"),
        (&format!("UNLEASE other {token}"), "0"),
        (&format!("UNLEASE k {token}"), "1"),
        (&format!("UNLEASE k {token}"), "0"),
    ]);
    assert_eq!(bench.set("k", &token, ""), "nil");
    bench.token("k");
}

#[test]
fn transactions_and_scripts_have_leases_too() {
    let mut bench = bench();
    let token = bench.token("k");
    let script = format!(
        "EVAL \"return {{redis.call('FETCH', 'k', 'LEASE', 5)[2], redis.call('SET', 'k', 'v', 'TOKEN', '{token}')}}\" 1 k"
    );
    bench.all(&[
        (&script, "[\"pending\" +OK]"),
        ("MULTI", "+OK"),
        ("DEL k", "+QUEUED"),
        ("FETCH k LEASE 10", "+QUEUED"),
        ("FETCH k LEASE 10", "+QUEUED"),
        ("FLUSHDB", "+QUEUED"),
        ("FETCH k", "+QUEUED"),
    ]);
    let reply = bench.run(&words("EXEC"));
    assert!(reply.starts_with("[1 [nil \"missing\" 10 \""), "{reply}");
    let end = "] [nil \"pending\" 10 nil] +OK [nil \"missing\" 0 nil]]";
    assert!(reply.ends_with(end), "{reply}");
}

#[test]
fn a_replica_gives_no_lease() {
    let bench = &mut bench();
    bench.run(&words("SET k v"));
    server::replication::role::follow(&bench.server, "127.0.0.1", 1);
    bench.all(&[
        ("FETCH k LEASE 5", "[\"v\" \"fresh\" -1 nil]"),
        ("FETCH none", "[nil \"missing\" 0 nil]"),
        ("FETCH none LEASE 5", "-READONLY A replica gives no leases."),
    ]);
}
