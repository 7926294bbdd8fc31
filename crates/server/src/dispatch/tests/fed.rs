//! Effects of commands in the feed.

use super::*;
use session::feed::Taken;
use std::time::Duration;

/// Runs commands with the feed on. Returns what they added, one command per line.
fn fed(lines: &[&str]) -> String {
    let mut bench = Bench::new();
    effects::set_feed(
        &bench.server,
        &mut bench.server.data.keyspace.lock_all(Tick(NOW)),
        true,
    );
    for line in lines {
        let reply = bench.say(line);
        assert!(!reply.starts_with('-'), "{line}: {reply}");
    }
    let reader = bench.server.feed.add_reader(0).expect("the beginning");
    let mut bytes = Vec::new();
    while let Taken::Bytes(_) = bench.server.feed.read(reader, &mut bytes, Duration::ZERO) {}
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let mut commands: Vec<String> = Vec::new();
    for word in text.split("\r\n").filter(|word| !word.starts_with('$')) {
        match word.strip_prefix('*') {
            Some(_) => commands.push(String::new()),
            None => {
                let command = commands.last_mut().expect("a command has begun");
                *command = format!("{command} {word}").trim().to_owned();
            }
        }
    }
    let is_frame = |line: &String| ["SELECT 0", "MULTI", "EXEC"].contains(&&line[..]);
    commands.retain(|line| !is_frame(line));
    commands.join("\n")
}

/// Regression: an entry that a command expired was deleted twice, and absent elements were deleted.
#[test]
fn a_deletion_is_fed_once_and_only_if_something_was_there() {
    let at = NOW + 100_000;
    for (lines, expected) in [
        (&["SET k v", "EXPIRE k -1"][..], "set k v\nDEL k"),
        (&["SET k v PXAT 1"], "DEL k"),
        (&["SET k v", "GETEX k PXAT 1"], "set k v\nDEL k"),
        (
            &["SET k v", "MULTI", "EXPIRE k -1", "DEL k", "EXEC"],
            "set k v\nDEL k",
        ),
        (
            &["SET k v", "MULTI", "DEL k", "DEL k", "EXEC"],
            "set k v\ndel k",
        ),
        (&["HSET h f v", "HDEL h absent"], "hset h f v"),
        (
            &["HSET h f v g w", "HPEXPIRE h 0 FIELDS 2 f absent"],
            "hset h f v g w\nHDEL h f",
        ),
        (
            &["HSET h f v", "HPEXPIRE h 0 FIELDS 1 f"],
            "hset h f v\nDEL h",
        ),
        (
            &["HSET h f v", "HPEXPIRE h 100000 FIELDS 2 f absent"],
            &format!("hset h f v\nHPEXPIREAT h {at} FIELDS 1 f"),
        ),
        (
            &["HSET h f v g w", "HGETDEL h FIELDS 2 f absent"],
            "hset h f v g w\nHDEL h f",
        ),
        (
            &["HSET h f v", "HSETEX h PXAT 1 FIELDS 1 g w"],
            "hset h f v\nHDEL h g",
        ),
        (
            &["HSET h f v", "HGETEX h PX 100000 FIELDS 2 f absent"],
            &format!("hset h f v\nHPEXPIREAT h {at} FIELDS 1 f"),
        ),
        (
            &["SADD s a b", "SPEXPIRE s 0 MEMBERS 2 a absent"],
            "sadd s a b\nSREM s a",
        ),
        (
            &["SADD s a", "SADDEX s PXAT 1 MEMBERS 1 b"],
            "sadd s a\nSREM s b",
        ),
        (
            &["ZADD z 1 a 2 b", "ZPEXPIRE z 0 MEMBERS 2 a absent"],
            "zadd z 1 a 2 b\nZREM z a",
        ),
    ] {
        let added = fed(lines);
        let lower = |text: &str| text.to_ascii_lowercase();
        assert_eq!(lower(&added), lower(expected), "{lines:?}");
    }
}

/// Regression: Redis 6.2 does not know XDELEX, the newer operations of BITOP, and ENTRIESREAD of
/// XGROUP.
#[test]
fn bits_and_removed_entries_and_groups_are_fed_in_forms_that_older_servers_know() {
    for (lines, expected) in [
        (
            &["SET a abc", "BITOP NOT d a"][..],
            "SET a abc\nBITOP NOT d a",
        ),
        (
            &["SET a abc", "SET b abd", "BITOP ONE d a b x"],
            "SET d \0\0\u{7}",
        ),
        (&["SET d abc", "BITOP DIFF d x y"], "SET d abc\nDEL d"),
        (
            &["XADD s 1-1 f v", "XADD s 2-1 f v", "XDELEX s IDS 2 1-1 9-9"],
            "\nXDEL s 1-1",
        ),
        (
            &["XADD s 1-1 f v", "XDELEX s DELREF IDS 1 1-1"],
            "\nXDELEX s DELREF IDS 1 1-1",
        ),
        (
            &["XGROUP CREATE s g 5-5 ENTRIESREAD 3 MKSTREAM"],
            "XGROUP CREATE s g 5-5 MKSTREAM\nXGROUP SETID s g 5-5 ENTRIESREAD 3",
        ),
        (
            &[
                "XGROUP CREATE s g 0 MKSTREAM",
                "XGROUP SETID s g 1-1 ENTRIESREAD 2",
            ],
            "\nXGROUP SETID s g 1-1\nXGROUP SETID s g 1-1 ENTRIESREAD 2",
        ),
    ] {
        let added = fed(lines).to_ascii_lowercase();
        let expected = expected.to_ascii_lowercase();
        assert!(added.ends_with(&expected), "{lines:?}: {added}");
    }
}

/// Regression: Redis 6.2 does not know LMPOP and ZMPOP, nor ENTRIESREAD.
#[test]
fn what_was_popped_and_delivered_is_fed_in_forms_that_older_servers_know() {
    for (lines, expected) in [
        (
            &["RPUSH l a b c", "LMPOP 2 k l LEFT COUNT 2"][..],
            "LPOP l 2",
        ),
        (&["RPUSH l a b c", "LMPOP 1 l RIGHT"], "RPOP l 1"),
        (&["ZADD z 1 a 2 b", "ZMPOP 1 z MIN COUNT 9"], "ZPOPMIN z 2"),
        (&["ZADD z 1 a 2 b", "ZMPOP 1 z MAX"], "ZPOPMAX z 1"),
        (
            &["RPUSH l a b c", "BLMPOP 0 2 k l LEFT COUNT 2"],
            "LPOP l 2",
        ),
        (
            &[
                "XADD s 1-1 f v",
                "XGROUP CREATE s g 0",
                "XREADGROUP GROUP g c NOACK STREAMS s >",
            ],
            "XGROUP SETID s g 1-1\nXGROUP SETID s g 1-1 ENTRIESREAD 1",
        ),
    ] {
        let added = fed(lines);
        assert!(added.ends_with(expected), "{lines:?}: {added}");
    }
}
