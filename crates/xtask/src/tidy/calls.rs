//! Calls that are forbidden on levels 0 to 2: clock, randomness, environment, threads, sockets,
//! files.
//!
//! Test code is exempt. `clippy.toml` forbids the same calls by type instead of by text.

use super::{Finding, Repository};
use crate::source::Source;

/// The crates of levels 0 to 2, except `library`, which has a clock, random seeds and a thread.
const PURE: [&str; 12] = [
    "policy", "wire", "trace", "units", "cluster", "cache", "segment", "learn", "report", "script",
    "store", "edge",
];

/// A forbidden path and the reason.
struct Ban {
    path: &'static str,
    what: &'static str,
}

const fn ban(path: &'static str, what: &'static str) -> Ban {
    Ban { path, what }
}

/// Forbidden paths, including everything below them.
const BANS: [Ban; 19] = [
    ban("std::time::Instant", "the clock"),
    ban("std::time::SystemTime", "the clock"),
    ban("std::time::UNIX_EPOCH", "the clock"),
    ban("Instant::now", "the clock"),
    ban("SystemTime::now", "the clock"),
    ban("std::hash::RandomState", "chance"),
    ban("RandomState::new", "chance"),
    ban("rand", "chance"),
    ban("fastrand", "chance"),
    ban("getrandom", "chance"),
    ban("std::env", "the environment"),
    ban("std::process", "processes"),
    ban("std::thread", "threads"),
    ban("std::net", "sockets"),
    ban("std::os", "the operating system"),
    ban("mio", "sockets"),
    ban("libc", "the operating system"),
    ban("std::fs", "files"),
    ban("File", "files"),
];

/// Macros that print.
const PRINTERS: [&str; 5] = ["println!", "eprintln!", "print!", "eprint!", "dbg!"];

const EXPECTED: &str = "an argument (`now: Tick`, a seed, bytes) from the host";
const WHY: &str = "on levels 0 to 2, any run can be replayed and tests of time do not sleep";
const WHY_HASH: &str = "its order differs from run to run, and equal seeds give equal decisions";

/// Runs this check.
pub fn check(repository: &Repository) -> Vec<Finding> {
    let mut findings = vec![];
    for name in PURE {
        for (path, source) in repository.sources_of(name) {
            for (line, found) in offences(source) {
                findings.push(Finding {
                    path: path.clone(),
                    line: line + 1,
                    found: format!("`{found}`"),
                    expected: EXPECTED.into(),
                    why: WHY,
                });
            }
            if name == "policy" {
                findings.extend(random_order(path, source));
            }
        }
    }
    findings
}

/// Returns the lines and names of forbidden calls in one file.
fn offences(source: &Source) -> Vec<(usize, String)> {
    let mut found = vec![];
    for (line, path) in source.uses() {
        let is_test = source.is_test.get(line).copied().unwrap_or(false);
        let hit = BANS.iter().find(|b| is_below(&path, b.path));
        if let (Some(ban), false) = (hit, is_test) {
            found.push((line, format!("{path}, {}", ban.what)));
        }
    }
    for (n, line) in source.own_lines() {
        if line.trim_start().starts_with("use ") {
            continue;
        }
        for path in paths(line) {
            if let Some(ban) = BANS
                .iter()
                .find(|b| is_below(path, b.path) && path.contains("::"))
            {
                found.push((n, format!("{path}, {}", ban.what)));
            }
        }
        if let Some(printer) = PRINTERS.iter().find(|p| has_macro(line, p)) {
            found.push((n, printer.to_string()));
        }
    }
    found
}

/// Whether `path` is `banned` or a path below it.
fn is_below(path: &str, banned: &str) -> bool {
    path.strip_prefix(banned)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// Returns the paths on a line of code: runs of identifiers and `::`.
fn paths(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'))
        .map(|part| part.trim_matches(':'))
        .filter(|part| !part.is_empty())
}

/// Whether a macro of this name is called on this line.
fn has_macro(line: &str, name: &str) -> bool {
    line.match_indices(name).any(|(at, _)| {
        !line[..at]
            .chars()
            .next_back()
            .is_some_and(|c| c.is_alphanumeric() || c == '_')
    })
}

/// Reports hash tables of the standard library, whose order is random, in `policy`.
fn random_order(path: &str, source: &Source) -> Vec<Finding> {
    let uses = source.uses().into_iter().filter(|(line, path)| {
        let is_table = path.ends_with("::HashMap") || path.ends_with("::HashSet");
        is_table && !source.is_test.get(*line).copied().unwrap_or(false)
    });
    uses.map(|(line, found)| Finding {
        path: path.to_string(),
        line: line + 1,
        found: format!("`{found}`"),
        expected: "a table of our own, or a BTreeMap".into(),
        why: WHY_HASH,
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        let found = check(&Repository::of(&[(path, text)]));
        found.into_iter().map(|f| f.line).collect()
    }

    #[test]
    fn banned_calls_are_found_however_they_are_written() {
        for text in [
            "use std::time::Instant;",
            "use std::time::{Duration, SystemTime};",
            "use std::{fs, mem};",
            "fn f() { let t = std::time::Instant::now(); }",
            "fn f() { ::std::env::var(\"X\"); }",
            "fn f() { std::thread::spawn(g); }",
            "use std::net::TcpStream;",
            "use rand::random;",
            "fn f() { println!(\"x\"); }",
            "fn f() { File::open(p); }",
        ] {
            assert_eq!(lines("crates/store/src/a.rs", text), [1], "{text}");
        }
    }

    #[test]
    fn what_only_looks_like_a_banned_call_passes() {
        let text = "//! Never std::time::Instant.\nuse std::time::Duration;\nuse crate::rand::Rng;\n\
            fn f() { let rand = 1; let s = \"std::env\"; my_println!(); }\nstruct Instant;\n\
            #[cfg(test)]\nmod tests { use std::time::Instant; }\n";
        assert_eq!(lines("crates/store/src/a.rs", text), []);
        assert_eq!(lines("crates/store/tests/a.rs", "use std::fs;"), []);
    }

    #[test]
    fn above_the_wall_it_is_allowed() {
        assert_eq!(
            lines("crates/server/src/a.rs", "use std::time::Instant;"),
            []
        );
        assert_eq!(lines("crates/trace/src/a.rs", "use std::fs::File;"), [1]);
        assert_eq!(lines("crates/trace/src/a.rs", "use std::thread;"), [1]);
    }

    #[test]
    fn policies_have_no_tables_of_random_order() {
        let text = "use std::collections::HashMap;";
        assert_eq!(lines("crates/policy/src/a.rs", text), [1]);
        assert_eq!(lines("crates/store/src/a.rs", text), []);
    }
}
