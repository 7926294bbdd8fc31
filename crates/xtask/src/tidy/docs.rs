//! Links, paths and commands in the docs, and the contents of the site.
//!
//! A test of the binary checks that the `mayfly` commands and options in the docs exist.

use super::{Finding, Repository};

/// Folders of the repository. A path in backticks that starts with one must exist.
const FOLDERS: [&str; 4] = ["crates/", "docs/", "tests/", ".ci/"];

/// Subcommands of cargo that the docs may show.
const CARGO: [&str; 14] = [
    "run", "build", "check", "test", "xtask", "doc", "fmt", "clippy", "bench", "install", "fuzz",
    "update", "publish", "yank",
];

/// The table of contents from which the site is built.
const CONTENTS: &str = "docs/SUMMARY.md";

const WHY_SITE: &str =
    "the site has the pages of docs/ only, and a reader finds a page by its contents";
const WHY_LINK: &str = "readers follow links";
const WHY_COMMAND: &str = "readers type commands";

/// Runs this check.
pub fn check(repository: &Repository) -> Vec<Finding> {
    let mut findings = vec![];
    for (path, text) in &repository.texts {
        if path.ends_with(".md") {
            findings.extend(page(repository, path, text));
        }
    }
    findings.extend(site(repository));
    findings
}

/// Reports pages below `docs/` that the site's table of contents lacks, and links that leave the
/// site.
fn site(repository: &Repository) -> Vec<Finding> {
    let Some(contents) = repository.texts.get(CONTENTS) else {
        return vec![];
    };
    let mut findings = vec![];
    for (path, text) in &repository.texts {
        let Some(inside) = path.strip_prefix("docs/") else {
            continue;
        };
        if !path.ends_with(".md") || path == CONTENTS {
            continue;
        }
        if !contents.contains(&format!("]({inside})")) {
            let expected = "a line in docs/SUMMARY.md";
            findings.push(finding(path, 0, inside, expected, WHY_SITE));
        }
        for (n, line) in text.lines().enumerate() {
            for target in links(line) {
                let leaves = !target.contains(':') && !resolve(path, target).starts_with("docs/");
                if leaves && !target.starts_with('#') {
                    let expected = "a link to a page of docs/, or the name in backticks";
                    findings.push(finding(path, n, target, expected, WHY_SITE));
                }
            }
        }
    }
    findings
}

fn finding(path: &str, line: usize, found: &str, expected: &str, why: &'static str) -> Finding {
    Finding {
        path: path.to_string(),
        line: line + 1,
        found: format!("`{found}`"),
        expected: expected.to_string(),
        why,
    }
}

fn page(repository: &Repository, path: &str, text: &str) -> Vec<Finding> {
    let mut findings = vec![];
    let mut in_block = false;
    for (n, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
            continue;
        }
        if in_block {
            let command = line.trim().trim_start_matches("$ ");
            if let Some(expected) = command_fault(repository, command) {
                findings.push(finding(path, n, command, &expected, WHY_COMMAND));
            }
            continue;
        }
        for target in links(line) {
            if !link_leads_somewhere(repository, path, target) {
                let expected = "a file of the repository, with that heading";
                findings.push(finding(path, n, target, expected, WHY_LINK));
            }
        }
        for span in line.split('`').skip(1).step_by(2) {
            if FOLDERS.iter().any(|folder| span.starts_with(folder))
                && !path_exists(repository, span)
            {
                findings.push(finding(path, n, span, "a path that exists", WHY_LINK));
            } else if let Some(expected) = command_fault(repository, span) {
                findings.push(finding(path, n, span, &expected, WHY_COMMAND));
            }
        }
    }
    findings
}

/// Returns the targets of `[text](target)` on a line.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("](").filter_map(|(at, _)| {
        let rest = &line[at + 2..];
        rest.find(')').map(|end| &rest[..end])
    })
}

fn link_leads_somewhere(repository: &Repository, from: &str, target: &str) -> bool {
    if target.starts_with("http:") || target.starts_with("https:") {
        return true;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let file = if file.is_empty() {
        from.to_string()
    } else {
        resolve(from, file)
    };
    let is_there = path_exists(repository, &file);
    let has_anchor = |text: &String| text.lines().any(|line| anchor_of(line) == anchor);
    is_there && (anchor.is_empty() || repository.texts.get(&file).is_some_and(has_anchor))
}

/// Converts a path relative to the folder of the page `from` to a path relative to the root.
fn resolve(from: &str, target: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    parts.join("/")
}

/// Whether a path names a file or folder. It may contain `*` or end in `:line`.
fn path_exists(repository: &Repository, path: &str) -> bool {
    let path = path.split([':', ' ']).next().unwrap_or(path);
    let path = path.trim_end_matches('/');
    let star = path.find(['*', '<', '{']).unwrap_or(path.len());
    let is_whole = star == path.len();
    repository
        .paths
        .iter()
        .any(|known| match known.strip_prefix(&path[..star]) {
            Some(rest) => !is_whole || rest.is_empty() || rest.starts_with('/'),
            None => false,
        })
}

/// Returns the anchor of a heading; empty if the line is not a heading.
fn anchor_of(line: &str) -> String {
    let title = line.trim_start_matches('#');
    if title.len() == line.len() || !title.starts_with(' ') {
        return String::new();
    }
    title
        .trim()
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

/// Returns the expected command if a command in the docs is wrong. Returns `None` if it is right or
/// not one of the project's commands.
fn command_fault(repository: &Repository, command: &str) -> Option<String> {
    let mut words = command.split_whitespace();
    let first = words.next()?;
    if let Some(script) = first.strip_prefix("./") {
        let is_output = script.starts_with("target/");
        let is_there = is_output || repository.paths.contains(script);
        return (!is_there).then(|| "a script of the repository".to_string());
    }
    if first != "cargo" {
        return None;
    }
    let chore = words.find(|word| !word.starts_with(['+', '-']))?;
    if !CARGO.contains(&chore) {
        return Some(format!("one of {CARGO:?}"));
    }
    if chore == "xtask" {
        let name = words.next().unwrap_or("");
        let is_known = crate::CHORES.iter().any(|(known, _)| *known == name);
        return (!is_known).then(|| "a chore of xtask".to_string());
    }
    let package = words.by_ref().skip_while(|word| *word != "-p").nth(1)?;
    let is_known = repository.crates().iter().any(|name| {
        let manifest = &repository.texts[&format!("crates/{name}/Cargo.toml")];
        manifest.contains(&format!("name = \"{package}\""))
    });
    (!is_known).then(|| "a package of the workspace".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(page: &str) -> Vec<String> {
        let repository = Repository::of(&[
            ("docs/a.md", page),
            ("docs/b.md", "# Two words, one\n"),
            ("test", ""),
            ("crates/wire/Cargo.toml", "name = \"mayfly-cache-wire\""),
            ("crates/wire/src/lib.rs", ""),
        ]);
        check(&repository).into_iter().map(|f| f.found).collect()
    }

    #[test]
    fn links_lead_to_files_and_headings() {
        let good = "[b](b.md) [h](b.md#two-words-one) [up](../test) [web](https://example.org)\n\
            # Here\n[self](#here)\n";
        assert_eq!(found(good), [""; 0]);
        assert_eq!(found("[x](c.md)"), ["`c.md`"]);
        assert_eq!(found("[x](b.md#three)"), ["`b.md#three`"]);
    }

    #[test]
    fn pages_of_the_site_are_in_its_contents_and_link_to_each_other_only() {
        let repository = Repository::of(&[
            ("docs/SUMMARY.md", "[a](a.md)"),
            (
                "docs/a.md",
                "[up](../README.md) [web](https://example.org) [self](#x)\n# x\n",
            ),
            ("docs/b.md", ""),
            ("README.md", ""),
        ]);
        let found: Vec<String> = check(&repository).into_iter().map(|f| f.path).collect();
        assert_eq!(found, ["docs/a.md", "docs/b.md"]);
    }

    #[test]
    fn paths_in_backticks_exist() {
        let good = "`crates/wire/src/lib.rs:12`, `crates/wire/`, `docs/*.md`, `a/b`";
        assert_eq!(found(good), [""; 0]);
        assert_eq!(found("see `crates/wire/src/gone.rs`").len(), 1);
    }

    #[test]
    fn commands_can_be_typed() {
        let good = "```\n$ ./test --full\ncargo run --release\ncargo test -p mayfly-cache-wire\n\
            cargo xtask tidy\n[no](link.md)\n```\n";
        assert_eq!(found(good), [""; 0]);
        for bad in [
            "./tset",
            "cargo tets",
            "cargo xtask sweep",
            "cargo test -p mayfly-wir",
        ] {
            assert_eq!(found(&format!("```\n{bad}\n```")).len(), 1, "{bad}");
            assert_eq!(found(&format!("run `{bad}`")).len(), 1, "{bad}");
        }
    }
}
