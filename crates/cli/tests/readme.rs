//! Every `mayfly` command that a page shows exists, with the options that it shows.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the pages of the repository, with their texts.
fn pages() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut paths = vec![];
    for folder in ["", "docs", "docs/guide", "docs/reference", "docs/lab"] {
        let entries = std::fs::read_dir(root.join(folder)).expect("the repository can be read");
        paths.extend(entries.map(|entry| entry.expect("an entry can be read").path()));
    }
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    paths.sort();
    paths
        .into_iter()
        .map(|path| {
            let text = std::fs::read_to_string(&path).expect("a page is text");
            (path, text)
        })
        .collect()
}

/// Returns the commands of a page that start with `mayfly`, with the line at which their paragraph
/// starts: lines of blocks and spans between backticks. Tables written by a command are left out,
/// because they record the command as it was at that time.
fn commands(page: &str) -> Vec<(usize, String)> {
    let mut found = vec![];
    let (mut is_block, mut is_written) = (false, false);
    let mut paragraph = (1, String::new());
    for (n, line) in page.lines().chain([""]).enumerate() {
        if line.trim_start().starts_with("```") {
            is_block = !is_block;
        } else if line.starts_with("<!--") {
            is_written = line.contains("begin");
        } else if is_block {
            found.push((n + 1, line.trim().trim_start_matches("$ ").to_string()));
        } else if line.is_empty() {
            let spans = paragraph.1.split('`').skip(1).step_by(2);
            found.extend(spans.map(|span| (paragraph.0, span.to_string())));
            paragraph = (n + 2, String::new());
        } else if !is_written {
            paragraph.1 += line;
            paragraph.1.push(' ');
        }
    }
    let ours = found.into_iter().map(|(n, command)| {
        let command = command
            .strip_prefix("./target/release/")
            .unwrap_or(&command);
        (n, command.replace("cargo run --release --", "mayfly"))
    });
    ours.filter(|(_, command)| command.starts_with("mayfly "))
        .collect()
}

/// Returns the output of `mayfly WORDS --help`; `None` if the words are unknown.
fn help(words: &[&str]) -> Option<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_mayfly"))
        .args(words)
        .arg("--help")
        .output()
        .expect("mayfly can be run");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then_some(text)
}

#[test]
fn commands_in_the_pages_exist_with_their_options() {
    let mut faults = vec![];
    let mut count = 0;
    for (path, text) in pages() {
        for (line, command) in commands(&text) {
            count += 1;
            let place = format!("{}:{line}: `{command}`", path.display());
            let words: Vec<&str> = command
                .split_whitespace()
                .skip(1)
                .take_while(|word| word.chars().all(|c| c.is_ascii_lowercase() || c == '-'))
                .take_while(|word| !word.starts_with('-'))
                .collect();
            let Some(help) = help(&words) else {
                faults.push(format!("{place}: no such command"));
                continue;
            };
            let options = command
                .split_whitespace()
                .filter(|word| word.starts_with("--") && word.len() > 2)
                .map(|word| word.split('=').next().unwrap_or(word));
            // The help of `serve` shows a few settings, and each is an option.
            let is_setting =
                |option: &str| words == ["serve"] && settings::find(&option[2..]).is_some();
            for option in options.filter(|option| !help.contains(option) && !is_setting(option)) {
                faults.push(format!("{place}: no option {option}"));
            }
        }
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
    assert!(count > 0, "the README shows how to run mayfly");
}
