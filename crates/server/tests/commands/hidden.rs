//! Every command with keys is run where expired entries are hidden but not removed: on a replica,
//! and while nothing may be removed. Replies, events and keys must equal those of a server without
//! the entries.

use crate::effects::keys_of;
use crate::script::{Bench, START, expand_instants, words};
use server::command;
use session::spec::{Keys, flag};
use std::collections::BTreeSet;
use store::Tick;
use wire::Protocol;

/// Commands with keys that have no row: they select, watch or report, regardless of the keys.
const WITHOUT_ROW: [&str; 13] = [
    // The servers here are no cluster; `tables/cluster.txt` has keys that expire.
    "cluster",
    // Hidden keys are counted.
    "dbsize",
    // The result is random.
    "randomkey",
    "reset",
    "debug",
    "evalsha",
    "evalsha_ro",
    "fcall",
    "fcall_ro",
    "exec",
    "discard",
    "watch",
    "unwatch",
];

/// What has expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expired {
    /// Keys.
    Keys,
    /// All elements of the collections.
    Elements,
    /// Some elements of the collections.
    Some,
}

/// Way in which removal is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hold {
    Frozen,
    Replica,
}

const LIVE: &str = "SET live_s 7
SADD live a k
ZADD zlive 9 a 8 k
RPUSH names a b k
HIMPORT PREPARE fields a";
const KEYS: &str = "SET s 7
SET n 7
RPUSH l a b";
const COLLECTIONS: &str = "HSET h a 1 b 2
SADD t a b
ZADD z 1 a 2 b
GEOADD g 13 38 m1 14 38 m2
PFADD p a b
XADD x 1-0 a b
XADD x 2-0 a b
XGROUP CREATE x gr 0
XREADGROUP GROUP gr c COUNT 1 STREAMS x >";
const KEPT: &str = "HSET h k 1
SADD t k
ZADD z 3 k
GEOADD g 100 38 k";
const EXPIRE_ELEMENTS: &str = "HPEXPIRE h 10 FIELDS 2 a b
SPEXPIRE t 10 MEMBERS 2 a b
ZPEXPIRE z 10 MEMBERS 2 a b
ZPEXPIRE g 10 MEMBERS 2 m1 m2";

fn run_all(bench: &mut Bench, rows: &str) {
    for row in rows.lines() {
        let reply = bench.run(&words(row));
        assert!(!reply.starts_with('-'), "{row}: {reply}");
    }
}

/// Returns a server with or without the expired entry, while removal is held.
fn bench(expired: Expired, hold: Hold, exists: bool) -> Bench {
    let mut bench = Bench::new(Protocol::Resp2, START, 1);
    run_all(&mut bench, LIVE);
    let timed = match expired {
        Expired::Keys => [KEYS, COLLECTIONS].join("\n"),
        // A stream exists without entries, and the others have no deadlines of elements.
        _ => COLLECTIONS.lines().take(4).collect::<Vec<_>>().join("\n"),
    };
    if expired == Expired::Some {
        run_all(&mut bench, KEPT);
    }
    if exists {
        run_all(&mut bench, &timed);
        match expired {
            Expired::Keys => {
                for key in ["s", "n", "l", "h", "t", "z", "g", "p", "x"] {
                    run_all(&mut bench, &format!("PEXPIRE {key} 10"));
                }
            }
            _ => run_all(&mut bench, EXPIRE_ELEMENTS),
        }
    }
    match hold {
        Hold::Frozen => bench.server.data.keyspace.set_frozen(true),
        Hold::Replica => bench.server.data.keyspace.set_removal_limit(Some(Tick(1))),
    }
    bench.events(true);
    bench.now.0 += 100;
    bench
}

fn rows() -> impl Iterator<Item = Vec<Vec<u8>>> {
    let rows = include_str!("hidden.txt").lines();
    let rows = rows.filter(|row| !row.is_empty() && !row.starts_with("# "));
    rows.map(|row| words(&expand_instants(row, START)))
}

/// Returns the reply and the events of a row, without expiry events.
fn outcome(bench: &mut Bench, expired: Expired, row: &[Vec<u8>]) -> (String, Vec<String>) {
    let mut reply = bench.run(row);
    if row[0] == b"SCAN" || row[0] == b"KEYS" {
        reply = crate::script::sorted(&reply);
    }
    let mut events = Vec::new();
    let mut emptied = String::new();
    for event in bench.last_events() {
        let (name, key) = event.split_once(' ').expect("a name and a key");
        if name.ends_with("expired") {
            // With its last element, a key is deleted.
            emptied = format!("g.del {key}");
        } else if expired == Expired::Some || *event != std::mem::take(&mut emptied) {
            events.push(event.clone());
        }
    }
    (reply, events)
}

fn compare(expired: Expired, hold: Hold, is_compared: impl Fn(&[Vec<u8>]) -> bool) {
    let mut failures = Vec::new();
    for row in rows().filter(|row| is_compared(row)) {
        let text = String::from_utf8_lossy(&row.join(&b' ')).into_owned();
        let (mut hidden, mut absent) = (bench(expired, hold, true), bench(expired, hold, false));
        let (got, wanted) = (
            outcome(&mut hidden, expired, &row),
            outcome(&mut absent, expired, &row),
        );
        if got != wanted {
            failures.push(format!("{text}: {got:?} instead of {wanted:?}"));
        }
        let (got, wanted) = (keys_of(&hidden), keys_of(&absent));
        let all: BTreeSet<_> = got.keys().chain(wanted.keys()).collect();
        for key in all
            .into_iter()
            .filter(|key| got.get(*key) != wanted.get(*key))
        {
            let (got, wanted) = (got.get(key), wanted.get(key));
            failures.push(format!("{text}: {key:?} is {got:?} instead of {wanted:?}"));
        }
    }
    assert!(
        failures.is_empty(),
        "{expired:?} {hold:?}\n{}",
        failures.join("\n")
    );
}

fn writes(row: &[Vec<u8>]) -> bool {
    let index = command::table().lookup(&row[0]).expect("a command");
    let flags = command::table()[index as usize].flags;
    flags & (flag::WRITE | flag::MAY_WRITE) != 0
}

#[test]
fn reads_find_nothing_that_is_hidden_while_nothing_is_removed() {
    // Regression: SUNION, SINTER, SDIFF and their relatives found hidden sets.
    for expired in [Expired::Keys, Expired::Elements, Expired::Some] {
        compare(expired, Hold::Frozen, |row| !writes(row));
    }
}

#[test]
fn clients_of_a_writable_replica_find_nothing_that_is_hidden() {
    // Regression: writes used the values of hidden keys.
    for expired in [Expired::Keys, Expired::Elements, Expired::Some] {
        compare(expired, Hold::Replica, |_| true);
    }
}

#[test]
fn every_command_with_keys_has_a_row() {
    let named: BTreeSet<String> = rows()
        .map(|row| String::from_utf8_lossy(&row[0]).to_ascii_lowercase())
        .collect();
    let with_keys = command::table().iter();
    let with_keys = with_keys.filter(|spec| !matches!(spec.keys, Keys::None));
    for spec in with_keys {
        let name = spec.name.split('|').next().unwrap_or_default();
        assert!(
            named.contains(name) || WITHOUT_ROW.contains(&name),
            "{} is not tested on hidden keys; add a row to crates/server/tests/commands/hidden.txt",
            spec.name
        );
    }
}
