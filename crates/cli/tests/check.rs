//! `mayfly check` on sound and damaged files.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

/// A file in the temporary folder that is removed at the end of its test.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str, bytes: &[u8]) -> Temporary {
        let name = format!("mayfly-check-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, bytes).expect("the temporary folder is writable");
        Temporary(path)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn check(file: &Temporary, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mayfly"));
    let output = command.arg("check").arg(&file.0).args(more).output();
    output.expect("the program was built for this test")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A file of Redis without checksum: a string with a deadline in 1970, a hash, and data of a
/// module.
const FILE: &[u8] = b"REDIS0010\xFA\x09redis-ver\x067.0.15\xFE\x02\
    \xFC\x05\0\0\0\0\0\0\0\x00\x01s\x05value\x04\x01h\x02\x01f\x01v\x01g\x01w\
    \x07\x01m\x81\0\0\0\0\0\0\x04\x01\x00\xFF\0\0\0\0\0\0\0\0";

#[test]
fn the_contents_of_a_file_are_reported() {
    let file = Temporary::new("sound", FILE);
    let output = check(&file, &[]);
    // The data of a module keeps a server from loading it.
    assert!(!output.status.success());
    let report = text(&output.stdout) + &text(&output.stderr);
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
    let damaged = Temporary::new("damaged", &FILE[..FILE.len() - 10]);
    let output = check(&damaged, &[]);
    assert_eq!(output.status.code(), Some(1));
    let error = text(&output.stderr);
    assert!(error.contains("found the end of the file"), "{error}");
    let repaired = Temporary::new("repaired", b"");
    let new = repaired.0.display().to_string();
    let refused = check(&damaged, &["--repair", &new]);
    assert_eq!(
        refused.status.code(),
        Some(1),
        "an existing file is not overwritten"
    );
    fs::remove_file(&repaired.0).expect("it exists");
    let output = check(&damaged, &["--repair", &new]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report = text(&check(&repaired, &[]).stdout);
    assert!(report.contains("2 keys, 1 with a TTL"), "{report}");
    assert!(report.contains("the file is not damaged"), "{report}");
}

#[test]
fn another_file_is_refused() {
    let file = Temporary::new("other", b"another file\n");
    let output = check(&file, &[]);
    assert_eq!(output.status.code(), Some(1));
    let error = text(&output.stderr);
    assert!(error.contains("offset 0: expected a header"), "{error}");
}

/// A file without checksum: three strings, one with a long TTL.
const STRINGS: &[u8] = b"REDIS0009\xFE\0\x00\x06user:1\x05value\x00\x06user:2\x03abc\
    \xFC\xFF\xFF\xFF\xFF\xFF\x7F\0\0\x00\x04long\x01x\xFF\0\0\0\0\0\0\0\0";

#[test]
fn the_contents_are_reported_as_json_and_as_a_page() {
    let file = Temporary::new("strings", STRINGS);
    let html = Temporary::new("page.html", b"");
    let output = check(&file, &["--json", "--html", &html.0.display().to_string()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let contents: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
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
    let report = text(&check(&file, &[]).stdout);
    let prefixes = "largest prefixes: user: (2 keys, 20 B), (without a colon) (1 keys, 5 B)";
    assert!(report.contains(prefixes), "{report}");
}

#[test]
fn json_is_refused_for_a_file_of_commands() {
    let file = Temporary::new("commands", b"*1\r\n$4\r\nPING\r\n");
    let output = check(&file, &["--json"]);
    assert_eq!(output.status.code(), Some(1));
    let error = text(&output.stderr);
    assert!(
        error.contains("expected a snapshot file, found commands"),
        "{error}"
    );
}
