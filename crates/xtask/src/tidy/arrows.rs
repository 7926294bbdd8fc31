//! Allowed imports between crates, and lines that every manifest must contain.

use super::{Finding, Repository};

/// A crate's level, its name, and the crates of the project that it may import.
pub struct CrateRule {
    /// Level of the crate. It may import only crates of lower levels.
    pub level: u8,
    /// Name of the folder below `crates/` and of the library.
    pub name: &'static str,
    /// The allowed imports.
    pub imports: &'static [&'static str],
}

const fn rule(level: u8, name: &'static str, imports: &'static [&'static str]) -> CrateRule {
    CrateRule {
        level,
        name,
        imports,
    }
}

/// Allowed imports, as ARCHITECTURE.md draws them. A new crate needs a line here.
pub const CRATES: [CrateRule; 24] = [
    rule(0, "policy", &[]),
    rule(0, "wire", &[]),
    rule(0, "trace", &[]),
    rule(0, "units", &[]),
    rule(0, "cluster", &[]),
    rule(1, "report", &["units"]),
    rule(1, "cache", &["policy"]),
    rule(1, "library", &["policy"]),
    rule(1, "segment", &["policy"]),
    rule(1, "learn", &["policy"]),
    rule(1, "script", &["wire"]),
    rule(2, "store", &["cache", "policy"]),
    rule(2, "edge", &[]),
    rule(3, "membership", &["cluster"]),
    rule(3, "settings", &["policy", "store", "units", "wire"]),
    rule(4, "session", &["script", "settings", "store", "wire"]),
    rule(
        5,
        "engine",
        &["learn", "segment", "session", "settings", "store", "wire"],
    ),
    rule(
        5,
        "durability",
        &["session", "settings", "store", "units", "wire"],
    ),
    rule(
        6,
        "server",
        &[
            "cluster",
            "durability",
            "engine",
            "learn",
            "membership",
            "policy",
            "script",
            "segment",
            "session",
            "settings",
            "store",
            "units",
            "wire",
        ],
    ),
    rule(
        4,
        "node",
        &["library", "edge", "membership", "policy", "units"],
    ),
    rule(3, "bench", &["wire", "trace", "report", "policy", "units"]),
    rule(
        3,
        "sim",
        &[
            "cache", "segment", "edge", "learn", "policy", "report", "trace", "units",
        ],
    ),
    rule(
        7,
        "cli",
        &[
            "cluster",
            "membership",
            "server",
            "settings",
            "session",
            "durability",
            "bench",
            "sim",
            "node",
            "policy",
            "report",
            "trace",
            "units",
        ],
    ),
    rule(4, "xtask", &[]),
];

/// Crates without external dependencies, except for tests.
const BARE: [&str; 4] = ["policy", "wire", "cluster", "xtask"];

/// Dependencies that only one crate may have, with that crate.
const KEPT: [(&str, &str); 3] = [
    ("anyhow", "cli"),
    ("mimalloc", "cli"),
    ("tikv-jemallocator", "cli"),
];

const WHY_ARROW: &str = "imports point down only, along the arrows of ARCHITECTURE.md";
const WHY_BARE: &str = "these crates are pure: they are read, published or tested alone";
const WHY_KEPT: &str = "untyped errors and the choice of the allocator belong to the binary";
const WHY_SHARED: &str = "lints, edition and minimum Rust are decided once, in the workspace";

/// Runs this check.
pub fn check(repository: &Repository) -> Vec<Finding> {
    let mut findings = vec![];
    for name in repository.crates() {
        let path = format!("crates/{name}/Cargo.toml");
        match CRATES.iter().find(|rule| rule.name == name) {
            Some(rule) => check_manifest(rule, &path, &repository.texts[&path], &mut findings),
            None => findings.push(Finding {
                path,
                line: 1,
                found: format!("crate `{name}` without a rule"),
                expected: "a line in CRATES of crates/xtask/src/tidy/arrows.rs".into(),
                why: "an unchecked boundary does not last",
            }),
        }
    }
    findings
}

/// Kind of the manifest table that a line belongs to.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Table {
    Dependencies,
    DevDependencies,
    Other,
}

/// Returns the kind of table that a header opens, and the dependency that the header names, as in
/// `[dependencies.name]` or `[target.'cfg(unix)'.dependencies]`.
fn table(header: &str) -> (Table, Option<&str>) {
    let inside = header.trim_start_matches('[').trim_end_matches(']');
    for (word, kind) in [
        ("dev-dependencies", Table::DevDependencies),
        ("build-dependencies", Table::Dependencies),
        ("dependencies", Table::Dependencies),
    ] {
        if inside == word || inside.ends_with(&format!(".{word}")) {
            return (kind, None);
        }
        if let Some(at) = inside.find(&format!("{word}."))
            && (at == 0 || inside[..at].ends_with('.'))
        {
            return (kind, Some(&inside[at + word.len() + 1..]));
        }
    }
    (Table::Other, None)
}

/// Returns all dependencies of a manifest: line, name, and whether for tests only.
fn dependencies(text: &str) -> Vec<(usize, String, bool)> {
    let mut found = vec![];
    let mut current = Table::Other;
    for (n, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim();
        if line.starts_with('[') {
            let (kind, named) = table(line);
            if let (Some(name), true) = (named, kind != Table::Other) {
                found.push((n, name.to_string(), kind == Table::DevDependencies));
            }
            current = if named.is_some() { Table::Other } else { kind };
        } else if let (true, Some((key, _))) = (current != Table::Other, line.split_once('=')) {
            let name = key
                .split('.')
                .next()
                .unwrap_or(key)
                .trim()
                .trim_matches('"');
            found.push((n, name.to_string(), current == Table::DevDependencies));
        }
    }
    found
}

fn check_manifest(rule: &CrateRule, path: &str, text: &str, findings: &mut Vec<Finding>) {
    for (n, name, is_dev) in dependencies(text) {
        let name = name.strip_prefix("mayfly-").unwrap_or(&name);
        if let Some((expected, why)) = judge(rule, name, is_dev) {
            findings.push(Finding {
                path: path.to_string(),
                line: n + 1,
                found: format!("`{}` importing `{name}`", rule.name),
                expected,
                why,
            });
        }
    }
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    for wanted in [
        "version.workspace = true",
        "edition.workspace = true",
        "rust-version.workspace = true",
        "license.workspace = true",
        "workspace = true",
    ] {
        if !lines.contains(&wanted) {
            findings.push(Finding {
                path: path.to_string(),
                line: 1,
                found: format!("no line `{wanted}`"),
                expected: "it (the last one below `[lints]`)".into(),
                why: WHY_SHARED,
            });
        }
    }
}

/// Returns the expected import and the reason if an import is not allowed, otherwise `None`.
fn judge(rule: &CrateRule, name: &str, is_dev: bool) -> Option<(String, &'static str)> {
    if let Some(other) = CRATES.iter().find(|r| r.name == name) {
        let is_own_suite = is_dev && other.name == rule.name;
        let is_fine = if is_dev {
            is_own_suite || other.level < rule.level
        } else {
            rule.imports.contains(&name)
        };
        let expected = format!("one of {:?}", rule.imports);
        return (!is_fine).then_some((expected, WHY_ARROW));
    }
    if is_dev {
        return None;
    }
    if BARE.contains(&rule.name) {
        return Some(("no dependency".into(), WHY_BARE));
    }
    KEPT.iter()
        .find(|(kept, owner)| *kept == name && *owner != rule.name)
        .map(|(_, owner)| (format!("it in `{owner}` only"), WHY_KEPT))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARED: &str = "version.workspace = true\nedition.workspace = true\n\
        rust-version.workspace = true\nlicense.workspace = true\n[lints]\nworkspace = true\n";

    fn findings(name: &str, tail: &str) -> Vec<usize> {
        let text = format!("{SHARED}{tail}");
        let repository = Repository::of(&[(&format!("crates/{name}/Cargo.toml"), &text)]);
        check(&repository).into_iter().map(|f| f.line).collect()
    }

    #[test]
    fn the_list_itself_points_down() {
        for rule in CRATES {
            for name in rule.imports {
                let other = CRATES.iter().find(|r| r.name == *name).expect("listed");
                assert!(other.level < rule.level, "{} -> {name}", rule.name);
            }
        }
    }

    #[test]
    fn arrows_down_pass_and_arrows_up_or_aside_do_not() {
        assert_eq!(
            findings(
                "store",
                "[dependencies]\ncache.workspace = true\nlog = \"0.4\"\n"
            ),
            []
        );
        assert_eq!(
            findings("cache", "[dependencies]\nstore.workspace = true\n"),
            [8]
        );
        assert_eq!(
            findings(
                "server",
                "[dependencies]\nbench = { path = \"../bench\" }\n"
            ),
            [8]
        );
        assert_eq!(
            findings("edge", "[dependencies.policy]\nworkspace = true\n"),
            [7]
        );
    }

    #[test]
    fn every_way_to_write_a_dependency_is_seen() {
        assert_eq!(
            findings(
                "policy",
                "[target.'cfg(unix)'.dependencies]\nlibc = \"1\"\n"
            ),
            [8]
        );
        assert_eq!(
            findings("policy", "[build-dependencies]\ncc = \"1\"\n"),
            [8]
        );
        assert_eq!(
            findings("wire", "[dependencies]\n\"memchr\" = \"2\" # fast\n"),
            [8]
        );
        assert_eq!(findings("wire", "[features]\nx = []\n"), []);
    }

    #[test]
    fn tests_may_use_what_lies_below_and_anything_from_outside() {
        assert_eq!(
            findings("policy", "[dev-dependencies]\nproptest = \"1\"\n"),
            []
        );
        assert_eq!(
            findings("store", "[dev-dependencies]\nwire.workspace = true\n"),
            []
        );
        assert_eq!(
            findings("wire", "[dev-dependencies]\nstore.workspace = true\n"),
            [8]
        );
    }

    #[test]
    fn kept_dependencies_stay_in_their_room() {
        assert_eq!(findings("cli", "[dependencies]\nanyhow = \"1\"\n"), []);
        assert_eq!(findings("server", "[dependencies]\nanyhow = \"1\"\n"), [8]);
    }

    #[test]
    fn a_crate_without_a_rule_is_reported() {
        assert_eq!(findings("attic", ""), [1]);
    }

    #[test]
    fn a_manifest_takes_what_the_workspace_decides() {
        let repository = Repository::of(&[("crates/wire/Cargo.toml", "[package]\n")]);
        assert_eq!(check(&repository).len(), 5);
    }
}
