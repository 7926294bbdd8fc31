//! `mayfly check` on sound and damaged files.

use super::{TemporaryFile, refusal, run, stdout};
use std::fs;
use std::process::Output;

fn check(file: &TemporaryFile, more: &str) -> Output {
    run(&format!("check {file} {more}"))
}

/// A file of Redis without checksum: a string with a deadline in 1970, a hash, and data of a
/// module.
const FILE: &[u8] = b"REDIS0010\xFA\x09redis-ver\x067.0.15\xFE\x02\
    \xFC\x05\0\0\0\0\0\0\0\x00\x01s\x05value\x04\x01h\x02\x01f\x01v\x01g\x01w\
    \x07\x01m\x81\0\0\0\0\0\0\x04\x01\x00\xFF\0\0\0\0\0\0\0\0";

#[test]
fn the_contents_of_a_file_are_reported() {
    let file = TemporaryFile::new("sound", FILE);
    let output = check(&file, "");
    // The data of a module keeps a server from loading it.
    assert!(!output.status.success());
    let [report, errors] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    let report = report + &errors;
    for part in [
        "Redis's version 10, written by redis 7.0.15",
        "3 keys, 1 with a TTL, 1 expired, 0 function libraries",
        "databases: 2 (3 keys)",
        "data of modules, which cannot be loaded: AAAAAAAAB (1)",
        "the file is not damaged",
    ] {
        assert!(report.contains(part), "{part} in {report}");
    }
    let row = report.lines().find(|line| line.starts_with("hash"));
    let columns: Vec<&str> = row.expect("a row").split_whitespace().collect();
    assert_eq!(
        columns,
        [
            "hash", "1", "0", "0", "2", "0", "5", "B", "4", "B", "in", "'h'"
        ]
    );
}

#[test]
fn the_part_before_the_damage_is_repaired() {
    // The module's data ends early.
    let damaged = TemporaryFile::new("damaged", &FILE[..FILE.len() - 10]);
    let output = check(&damaged, "");
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("found the end of the file"), "{error}");
    let repaired = TemporaryFile::new("repaired", b"");
    let repair = format!("--repair {repaired}");
    let refused = check(&damaged, &repair);
    assert_eq!(
        refused.status.code(),
        Some(1),
        "an existing file is not overwritten"
    );
    fs::remove_file(&repaired.0).expect("it exists");
    stdout(check(&damaged, &repair));
    let report = stdout(check(&repaired, ""));
    assert!(report.contains("2 keys, 1 with a TTL"), "{report}");
    assert!(report.contains("the file is not damaged"), "{report}");
}

#[test]
fn another_file_is_refused() {
    let file = TemporaryFile::new("other", b"another file\n");
    let error = refusal(check(&file, ""));
    assert!(error.contains("offset 0: expected a header"), "{error}");
}

/// A file without checksum: three strings, one with a long TTL.
const STRINGS: &[u8] = b"REDIS0009\xFE\0\x00\x06user:1\x05value\x00\x06user:2\x03abc\
    \xFC\xFF\xFF\xFF\xFF\xFF\x7F\0\0\x00\x04long\x01x\xFF\0\0\0\0\0\0\0\0";

#[test]
fn the_contents_are_reported_as_json_and_as_a_page() {
    let file = TemporaryFile::new("strings", STRINGS);
    let html = TemporaryFile::new("page.html", b"");
    let json = stdout(check(&file, &format!("--json --html {html}")));
    let contents: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let share = |name: &str, keys: u64, bytes: u64| serde_json::json!({"name": name, "keys": keys, "bytes": bytes});
    assert_eq!(contents["types"][0]["keys"], 3);
    assert_eq!(contents["prefixes"][0], share("user:", 2, 20));
    assert_eq!(contents["prefixes"][1], share("(without a colon)", 1, 5));
    assert_eq!(contents["ttls"][0], share("longer", 1, 5));
    assert_eq!(contents["ttls"][1], share("none", 2, 20));
    assert_eq!(contents["largest"][0]["key"], "user:1");
    let page = fs::read_to_string(&html.0).expect("the page was written");
    for part in ["Largest keys", "user:", "(without a colon)", "<svg"] {
        assert!(page.contains(part), "{part}");
    }
    let report = stdout(check(&file, ""));
    let prefixes = "largest prefixes: user: (2 keys, 20 B), (without a colon) (1 keys, 5 B)";
    assert!(report.contains(prefixes), "{report}");
}

#[test]
fn json_is_refused_for_a_file_of_commands() {
    let file = TemporaryFile::new("commands", b"*1\r\n$4\r\nPING\r\n");
    let error = refusal(check(&file, "--json"));
    assert!(
        error.contains("expected a snapshot file, found commands"),
        "{error}"
    );
}
