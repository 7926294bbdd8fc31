//! Development tasks of the project.
//!
//! `cargo xtask tidy` checks rules that the compiler does not: imports between crates, import
//! circles, lengths, algorithm cards, forbidden calls, words, and the links and commands in the
//! docs.
//!
//! It deliberately lacks dependencies, so that it builds in seconds and can check all other crates.
//! Start reading with `tidy.rs`, the list of checks.
#![forbid(unsafe_code)]

mod source;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Tasks by name, for the usage text and for the check of commands in the docs.
const CHORES: [(&str, &str); 1] = [(
    "tidy",
    "check the rules of the repository (arrows, circles, lengths, cards, calls, words, docs)",
)];

fn main() -> ExitCode {
    let chore = std::env::args().nth(1).unwrap_or_default();
    match chore.as_str() {
        "tidy" => tidy(),
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

fn tidy() -> ExitCode {
    let report = match tidy::run(&root()) {
        Ok(report) => report,
        Err(error) => {
            eprintln!("tidy: cannot read the repository: {error}");
            return ExitCode::from(2);
        }
    };
    for hint in &report.hints {
        println!("hint: {hint}");
    }
    for finding in &report.findings {
        println!("{finding}");
    }
    let (files, found) = (report.file_count, report.findings.len());
    println!(
        "tidy: {files} files, {found} findings, {} hints",
        report.hints.len()
    );
    if report.findings.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
