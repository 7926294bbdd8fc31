//! Rules that a machine can check. Each check is one file. A finding states where the violation is,
//! what was found, what is expected, and why.

mod arrows;
mod calls;
mod cards;
mod circles;
mod docs;
mod hygiene;
mod sizes;
mod voice;

use crate::source::Source;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::Path;

/// One violation of a rule.
#[derive(Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file, relative to the root.
    pub path: String,
    /// The line, from 1.
    pub line: usize,
    /// The text or fact that violates the rule.
    pub found: String,
    /// The text or fact that the rule expects.
    pub expected: String,
    /// Reason for the rule.
    pub why: &'static str,
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{}:{}: found {}; expected {} ({})",
            self.path, self.line, self.found, self.expected, self.why
        )
    }
}

/// Result of running all checks.
pub struct Report {
    /// Violations: any of them fails the run.
    pub findings: Vec<Finding>,
    /// Number of files that were read.
    pub file_count: usize,
}

/// The repository as the checks see it: text files by path relative to the root, `/` between parts.
#[derive(Default)]
pub struct Repository {
    /// Text files by path.
    pub texts: BTreeMap<String, String>,
    /// The Rust files among them.
    pub sources: BTreeMap<String, Source>,
    /// Paths of all files, also of binary ones.
    pub paths: BTreeSet<String>,
}

/// Folders without files of the project.
const SKIPPED: [&str; 6] = [
    ".git",
    ".venv",
    "target",
    "__pycache__",
    ".pytest_cache",
    "node_modules",
];

impl Repository {
    /// Reads everything below `root` except build output.
    pub fn read(root: &Path) -> io::Result<Repository> {
        let mut repository = Repository::default();
        repository.read_folder(root, "")?;
        repository.scan();
        Ok(repository)
    }

    /// Creates a repository of a few files, for the tests of the checks.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Repository {
        let mut repository = Repository::default();
        for (path, text) in files {
            repository.paths.insert(path.to_string());
            repository.texts.insert(path.to_string(), text.to_string());
        }
        repository.scan();
        repository
    }

    fn read_folder(&mut self, folder: &Path, prefix: &str) -> io::Result<()> {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let kind = entry.file_type()?;
            let is_output = SKIPPED.contains(&name.as_str()) || name.starts_with("target-");
            if is_output || kind.is_symlink() {
                continue;
            }
            let path = format!("{prefix}{name}");
            if kind.is_dir() {
                self.read_folder(&entry.path(), &format!("{path}/"))?;
                continue;
            }
            // Binary files, such as compressed traces and pictures, are not checked.
            if let Ok(text) = String::from_utf8(std::fs::read(entry.path())?) {
                self.texts.insert(path.clone(), text);
            }
            self.paths.insert(path);
        }
        Ok(())
    }

    /// Prepares the Rust files. Files of test code are recognised by name or by their declaration.
    fn scan(&mut self) {
        let rust: Vec<&String> = self.texts.keys().filter(|p| p.ends_with(".rs")).collect();
        let mut sources = BTreeMap::new();
        let mut declared = vec![];
        for path in rust {
            let source = Source::new(self.texts[path].clone(), is_test_path(path));
            for name in source.test_modules() {
                declared.push(format!("{}{name}", module_folder(path)));
            }
            sources.insert(path.clone(), source);
        }
        for (path, source) in &mut sources {
            let is_declared = declared.iter().any(|module| {
                path.strip_prefix(module.as_str())
                    .is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
            });
            if is_declared {
                source.is_test.fill(true);
            }
        }
        self.sources = sources;
    }

    /// Returns the files of one crate's folder with their sources.
    pub fn sources_of(&self, crate_name: &str) -> impl Iterator<Item = (&String, &Source)> {
        let prefix = format!("crates/{crate_name}/");
        self.sources
            .iter()
            .filter(move |(path, _)| path.starts_with(&prefix))
    }

    /// Returns the names of the crates' folders.
    pub fn crates(&self) -> BTreeSet<&str> {
        self.texts
            .keys()
            .filter_map(|p| p.strip_prefix("crates/")?.strip_suffix("/Cargo.toml"))
            .filter(|name| !name.contains('/'))
            .collect()
    }
}

/// Returns the folder of a module's child files: `a/b/` for `a/b.rs`, and `a/` for `a/lib.rs`,
/// `a/main.rs` and `a/mod.rs`.
fn module_folder(path: &str) -> String {
    let stem = path.strip_suffix(".rs").unwrap_or(path);
    for root in ["mod", "lib", "main"] {
        if let Some(folder) = stem.strip_suffix(&format!("/{root}")) {
            return format!("{folder}/");
        }
    }
    format!("{stem}/")
}

/// Whether a path is test code by its name: a folder of tests or benches, or a file of tests.
fn is_test_path(path: &str) -> bool {
    let mut parts = path.split('/').rev();
    let file = parts.next().unwrap_or(path);
    let is_test_file = file == "tests.rs" || file.ends_with("_tests.rs");
    is_test_file || parts.any(|p| ["tests", "benches", "examples", "fuzz"].contains(&p))
}

/// Runs every check on the repository at `root`.
pub fn run(root: &Path) -> io::Result<Report> {
    let repository = Repository::read(root)?;
    let mut findings = vec![];
    findings.extend(arrows::check(&repository));
    findings.extend(circles::check(&repository));
    findings.extend(sizes::check(&repository));
    findings.extend(cards::check(&repository));
    findings.extend(calls::check(&repository));
    findings.extend(hygiene::check(&repository));
    findings.extend(docs::check(&repository));
    findings.extend(voice::check(&repository));
    findings.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    Ok(Report {
        findings,
        file_count: repository.paths.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the checks on the repository itself as a part of `cargo test`.
    #[test]
    fn the_repository_is_tidy() {
        let report = run(&crate::root()).expect("the repository can be read");
        let text: Vec<_> = report.findings.iter().map(ToString::to_string).collect();
        assert!(text.is_empty(), "\n{}\n", text.join("\n"));
    }

    #[test]
    fn declared_test_files_are_test_code() {
        let repository = Repository::of(&[
            ("crates/a/src/lib.rs", "#[cfg(test)]\nmod model;\nmod b;"),
            ("crates/a/src/model.rs", "fn x() {}"),
            ("crates/a/src/b.rs", "#[cfg(test)] mod probe;"),
            ("crates/a/src/b/probe.rs", "fn x() {}"),
            ("crates/a/tests/all.rs", "fn x() {}"),
        ]);
        let is_test = |path: &str| repository.sources[path].is_test[0];
        assert!(is_test("crates/a/src/model.rs") && is_test("crates/a/src/b/probe.rs"));
        assert!(is_test("crates/a/tests/all.rs"));
        assert!(!repository.sources["crates/a/src/lib.rs"].is_test[2]);
    }
}
