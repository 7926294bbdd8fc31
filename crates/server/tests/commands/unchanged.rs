//! A command that leaves all keys unchanged does not count as a change: it fails no watching
//! transaction, invalidates no cached key, and adds nothing to the feed. The rows of all tables are
//! run.

use crate::script::{Bench, START, Step, parse};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use store::{Soft, Tick};
use wire::Protocol;

/// Commands that count as changes even if they store the same value again, as in Redis.
const ALWAYS: [&str; 18] = [
    "append",
    "copy",
    "expire",
    "expireat",
    "hgetex",
    "hpexpireat",
    "hsetex",
    "incrbyfloat",
    "increx",
    "lmove",
    "pexpire",
    "pexpireat",
    "pexpirememberat",
    "psetex",
    "set",
    "setex",
    "setrange",
    "swapdb",
];

/// Each key with its payload, its deadline and its freshness.
type Keys = BTreeMap<(u8, Vec<u8>), (Vec<u8>, Option<Tick>, Option<Soft>)>;

fn keys(bench: &Bench) -> Keys {
    let mut names = Vec::new();
    for db in 0..16 {
        let mut view = bench.server.data.keyspace.lock_all(bench.now);
        let end = view.scan(db, 0, usize::MAX, &mut |key, _| {
            names.push((db, key.to_vec()))
        });
        assert_eq!(end, 0, "one step lists all keys");
    }
    let mut session = session::Session::new();
    let mut keys = Keys::new();
    for (db, name) in names {
        session.db = db;
        let mut payload = Vec::new();
        for words in [&[&b"DUMP"[..]][..], &[b"TAGS"], &[b"BLESS", b"GET"]] {
            let command = crate::renamed::sent_name(words[0]);
            let args = [&[&command[..]], &words[1..], &[&name[..]]].concat();
            server::exec(&bench.server, &mut session, &args, bench.now, &mut payload);
        }
        let space = &bench.server.data.keyspace;
        let mut view = space.lock_all(bench.now);
        let key = space.key(db, &name);
        let (deadline, soft) = (view.deadline(&key), view.soft(&key));
        drop(view);
        keys.insert((db, name), (payload, deadline.flatten(), soft));
    }
    keys
}

/// Returns the rows of a table that counted as changes without one.
fn run(name: &str, text: &str) -> Vec<String> {
    let mut bench = Bench::new(Protocol::Resp2, START, 1);
    let mut before = keys(&bench);
    let mut failures = Vec::new();
    for row in parse(text, START) {
        let args = match row.step {
            Step::Advance(ms) => {
                bench.now.0 += ms;
                before = keys(&bench);
                continue;
            }
            Step::Events(_) => continue,
            Step::Command { args, .. } => args,
        };
        let flag = Arc::new(AtomicBool::new(false));
        let space = &bench.server.data.keyspace;
        let named = args.iter().map(|arg| (bench.session.db, arg.clone()));
        let watched: Vec<_> = before.keys().cloned().chain(named).collect();
        for (db, name) in &watched {
            space
                .lock_all(bench.now)
                .watch(&space.key(*db, name), &flag);
        }
        let changes = space.changes();
        bench.run(&args);
        let is_changed = bench.server.data.keyspace.changes() != changes;
        let after = keys(&bench);
        let word = String::from_utf8_lossy(&args[0]).to_ascii_lowercase();
        let is_touched = is_changed || flag.load(Ordering::Relaxed);
        if before == after && is_touched && !ALWAYS.contains(&word.as_str()) {
            let text = String::from_utf8_lossy(&args.join(&b' ')).into_owned();
            failures.push(format!("{name}:{}: {text}", row.line));
        }
        for (db, name) in &watched {
            let space = &bench.server.data.keyspace;
            space
                .lock_all(bench.now)
                .unwatch(&space.key(*db, name), &flag);
        }
        before = after;
    }
    failures
}

#[test]
fn a_command_without_effect_is_no_change() {
    // Regression: XAUTOCLAIM, XCLAIM, XACKDEL, XDELEX, XSETID and XGROUP SETID without an effect
    // were changes, as were LTRIM and BITFIELD.
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/commands/tables");
    let mut failures = Vec::new();
    for file in std::fs::read_dir(folder).expect("the folder of the tables") {
        let path = file.expect("an entry").path();
        let text = std::fs::read_to_string(&path).expect("a text");
        let name = path.file_name().expect("a name").to_string_lossy();
        failures.extend(run(&name, &text));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
