//! Development tasks of the project.
//!
//! `cargo xtask tidy` checks rules that the compiler does not: imports between crates, import
//! circles, lengths, algorithm cards, forbidden calls, words, and the links and commands in the
//! docs. `cargo xtask dist` makes packages.
//!
//! It deliberately lacks dependencies, so that it builds in seconds and can check all other crates.
//! Start reading with `tidy.rs`, the list of checks, and `dist.rs`, the list of packages.
#![forbid(unsafe_code)]

mod dist;
mod source;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Tasks by name, for the usage text and for the check of commands in the docs.
const CHORES: [(&str, &str); 2] = [
    (
        "tidy",
        "check the rules of the repository (arrows, circles, lengths, cards, calls, words, docs)",
    ),
    (
        "dist",
        "make packages (archive, Debian package, container image, bill of materials)",
    ),
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.first().map(String::as_str) {
        Some("tidy") => tidy(),
        Some("dist") => dist(&words[1..]),
        _ => {
            eprintln!("usage: cargo xtask CHORE");
            for (name, what) in CHORES {
                eprintln!("  {name}  {what}");
            }
            ExitCode::from(2)
        }
    }
}

/// Returns the repository's root, two levels above this crate.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("crates/xtask lies two levels below the root")
        .to_path_buf()
}

/// Makes the packages and prints their paths.
fn dist(words: &[String]) -> ExitCode {
    match dist::run(&root(), words) {
        Ok(made) => {
            for path in made {
                println!("{}", path.display());
            }
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("dist: {why}");
            ExitCode::FAILURE
        }
    }
}

fn tidy() -> ExitCode {
    let report = match tidy::run(&root()) {
        Ok(report) => report,
        Err(error) => {
            eprintln!("tidy: cannot read the repository: {error}");
            return ExitCode::from(2);
        }
    };
    for finding in &report.findings {
        println!("{finding}");
    }
    let (files, found) = (report.file_count, report.findings.len());
    println!("tidy: {files} files, {found} findings");
    if report.findings.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
