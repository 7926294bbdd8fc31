//! Checks for unsafe code outside of the listed files, meaningless names, tests that sleep or are
//! disabled, unfinished work, and paths of one machine.

use super::{Finding, Repository};
use crate::source::{Source, line_of, words};

/// Files that may hold unsafe code. Each has a `SAFETY:` note on every block.
const UNSAFE_FILES: [&str; 24] = [
    "crates/cache/src/prefetch.rs",
    "crates/cli/src/allocator.rs",
    "crates/cli/src/serve/fatal.rs",
    "crates/cli/src/serve/program_pages.rs",
    "crates/edge/src/code/avx2.rs",
    "crates/library/src/clock.rs",
    "crates/library/src/lines.rs",
    "crates/library/src/map.rs",
    "crates/library/src/rows.rs",
    "crates/library/src/table.rs",
    "crates/script/src/direct.rs",
    "crates/script/src/lend.rs",
    "crates/segment/src/storage/cells.rs",
    "crates/segment/src/storage/hint.rs",
    "python/src/arrow_in.rs",
    "python/src/arrow_out.rs",
    "python/src/arrow_types.rs",
    "python/src/cache.rs",
    "python/src/call.rs",
    "python/src/direct.rs",
    "python/src/interpreter.rs",
    "python/src/numbers.rs",
    "python/src/reads.rs",
    "python/src/search.rs",
];

/// Names of modules that do not describe their content.
const EMPTY_NAMES: [&str; 5] = ["common", "util", "utils", "helpers", "misc"];

const WHY_UNSAFE: &str = "unsafe code is allowed in the files that tidy lists only";
const WHY_NAME: &str = "a file's name is the noun of the one question that it answers";
const WHY_LAYOUT: &str = "a reader finds every module and its tests in the same way";
const WHY_TEST: &str = "a test always runs, states what it expects, and does not wait";
const WHY_DONE: &str = "work is finished before it is committed; the docs name what is missing";
const WHY_EXPECT: &str =
    "the compiler reports an `expect` whose reason no longer holds, and keeps an `allow`";
const WHY_PLACE: &str = "a file of the project means the same on every machine";

/// Runs this check.
pub fn check(repository: &Repository) -> Vec<Finding> {
    let mut findings = vec![];
    for path in &repository.paths {
        findings.extend(name(path));
        findings.extend(layout(path));
    }
    for (path, source) in &repository.sources {
        findings.extend(unsafe_code(path, source));
        findings.extend(patterns(path, source));
    }
    for (path, text) in &repository.texts {
        findings.extend(places(path, text));
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

fn name(path: &str) -> Option<Finding> {
    let is_empty = |part: &str| EMPTY_NAMES.contains(&part.split('.').next().unwrap_or(part));
    let part = path.split('/').find(|part| is_empty(part))?;
    let expected = "a noun for the contents, next to the main user";
    Some(finding(path, 0, part, expected, WHY_NAME))
}

/// Reports a module with children that is not laid out as `x.rs` beside `x/`.
fn layout(path: &str) -> Option<Finding> {
    let is_second =
        path.starts_with("crates/") && path.contains("/src/") && path.ends_with("/mod.rs");
    is_second.then(|| {
        finding(
            path,
            0,
            "mod.rs",
            "`x.rs` beside the folder `x/`",
            WHY_LAYOUT,
        )
    })
}

/// Whether a path is the root file of a crate or of a binary.
fn is_crate_root(path: &str) -> bool {
    let mut parts = path.split('/').skip(2);
    match (parts.next(), parts.next(), parts.next()) {
        (Some("src"), Some("lib.rs" | "main.rs"), None) => path.starts_with("crates/"),
        (Some("src"), Some("bin"), Some(_)) => true,
        _ => false,
    }
}

fn unsafe_code(path: &str, source: &Source) -> Vec<Finding> {
    let mut findings = vec![];
    if is_crate_root(path) {
        let folder = path.split("src/").next().unwrap_or(path);
        let has_unsafe = UNSAFE_FILES.iter().any(|file| file.starts_with(folder));
        let wanted = if has_unsafe {
            "#![deny(unsafe_code)]"
        } else {
            "#![forbid(unsafe_code)]"
        };
        if !source.code.contains(wanted) {
            findings.push(finding(path, 0, "no attribute", wanted, WHY_UNSAFE));
        }
    }
    if UNSAFE_FILES.contains(&path) {
        return findings;
    }
    for (at, word) in words(&source.code) {
        if word == "unsafe" {
            let line = line_of(&source.code, at);
            let expected = "safe code, or a line in UNSAFE_FILES of tidy with its bench";
            findings.push(finding(path, line, "unsafe", expected, WHY_UNSAFE));
        }
    }
    findings
}

/// Text that Rust code may not contain: the text, what to write instead, the reason, and whether
/// the rule is for tests only.
const PATTERNS: [(&str, &str, &str, bool); 10] = [
    (
        "#[path",
        "tests in the file or in `x/tests.rs`",
        WHY_LAYOUT,
        false,
    ),
    ("#[ignore", "a test that runs", WHY_TEST, false),
    (
        "#[should_panic",
        "an assertion on what is returned",
        WHY_TEST,
        false,
    ),
    (
        "thread::sleep",
        "a wait for the event itself, or a clock as argument",
        WHY_TEST,
        true,
    ),
    ("todo!(", "the code", WHY_DONE, false),
    ("unimplemented!(", "the code", WHY_DONE, false),
    (".unwrap()", "expect(\"why it holds\")", WHY_UNWRAP, false),
    (
        "#[allow(",
        "#[expect(…, reason = \"…\")]",
        WHY_EXPECT,
        false,
    ),
    (
        "#![allow(",
        "#![expect(…, reason = \"…\")]",
        WHY_EXPECT,
        false,
    ),
    (
        "Box<dyn Error",
        "a small enum (anyhow in cli)",
        WHY_TYPE,
        false,
    ),
];

const WHY_UNWRAP: &str = "a reader cannot guess why it holds";
const WHY_TYPE: &str = "a caller can handle only an error that has a type";

fn patterns(path: &str, source: &Source) -> Vec<Finding> {
    let mut findings = vec![];
    let macros = source.macros();
    for (n, (line, text)) in source.code.lines().zip(source.text.lines()).enumerate() {
        let is_test = source.is_test.get(n).copied().unwrap_or(false);
        for (pattern, expected, why, in_tests_only) in PATTERNS {
            // Some expansions of a macro may not cause the lint, so that `expect` would fail.
            let is_in_macro = macros.iter().any(|(from, to)| (*from..=*to).contains(&n));
            // The bodies of fuzz targets are shared with the tests of several crates.
            let is_fuzz_body = why == WHY_LAYOUT && text.contains("bodies/");
            let is_fine = (why == WHY_EXPECT && is_in_macro) || is_fuzz_body;
            if line.contains(pattern) && (is_test || !in_tests_only) && !is_fine {
                findings.push(finding(path, n, pattern, expected, why));
            }
        }
    }
    findings
}

/// Paths on one machine and names of hosts, each split in two so that this file passes.
const PLACES: [[&str; 2]; 9] = [
    ["/wo", "rk/"],
    ["/ro", "ot/"],
    ["/ho", "me/"],
    ["py", "pi.org"],
    ["files.python", "hosted"],
    ["static.crates", ".io"],
    ["index.crates", ".io"],
    ["deb.deb", "ian.org"],
    ["registry.npm", "js"],
];

/// Marks of unfinished work or of an unfinished merge, each split in two for the same reason.
const MARKS: [[&str; 2]; 5] = [
    ["TO", "DO"],
    ["FIX", "ME"],
    ["XX", "X:"],
    ["<<<<", "<<< "],
    [">>>>", ">>> "],
];

fn places(path: &str, text: &str) -> Vec<Finding> {
    // Cargo writes the lock file, and the licence is a fixed text.
    if path.ends_with(".lock") || path == "LICENSE" {
        return vec![];
    }
    let mut findings = vec![];
    for (n, line) in text.lines().enumerate() {
        for halves in PLACES {
            let place = halves.concat();
            if line
                .match_indices(&place)
                .any(|(at, _)| starts_a_path(line, at, &place))
            {
                let expected = "a path relative to the repository, or the plain name of the thing";
                findings.push(finding(path, n, &place, expected, WHY_PLACE));
            }
        }
        for halves in MARKS {
            let mark = halves.concat();
            if line.contains(&mark) {
                findings.push(finding(path, n, &mark, "finished work", WHY_DONE));
            }
        }
    }
    findings
}

/// Whether the match of `place` at `at` starts an absolute path, instead of being in the middle of
/// a longer path.
fn starts_a_path(line: &str, at: usize, place: &str) -> bool {
    let before = line[..at].chars().next_back();
    !place.starts_with('/') || !before.is_some_and(|c| c.is_alphanumeric() || "./_-)}".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whys(path: &str, text: &str) -> Vec<&'static str> {
        let found = check(&Repository::of(&[(path, text)]));
        found.into_iter().map(|f| f.why).collect()
    }

    #[test]
    fn crate_roots_forbid_unsafe() {
        let root = "crates/a/src/lib.rs";
        assert_eq!(whys(root, "#![forbid(unsafe_code)]\n"), [""; 0]);
        assert_eq!(whys(root, "// #![forbid(unsafe_code)]\n"), [WHY_UNSAFE]);
        assert_eq!(
            whys("crates/a/src/b.rs", "fn f() { unsafe { g() } }"),
            [WHY_UNSAFE]
        );
        assert_eq!(
            whys("crates/a/src/b.rs", "// unsafe\nfn unsafely() {}"),
            [""; 0]
        );
    }

    #[test]
    fn meaningless_names_are_reported() {
        assert_eq!(whys("crates/a/src/utils.rs", ""), [WHY_NAME]);
        assert_eq!(whys("crates/common/README.md", ""), [WHY_NAME]);
        assert_eq!(whys("crates/a/src/utility_bill.rs", ""), [""; 0]);
    }

    #[test]
    fn modules_follow_one_layout() {
        assert_eq!(whys("crates/a/src/b/mod.rs", ""), [WHY_LAYOUT]);
        let text = "#[path = \"b_tests.rs\"]\nmod tests;";
        assert_eq!(whys("crates/a/src/b.rs", text), [WHY_LAYOUT]);
        assert_eq!(whys("crates/a/tests/b/mod.rs", ""), [""; 0]);
    }

    #[test]
    fn tests_do_not_sleep_skip_or_panic_on_purpose() {
        let test = "#[test]\n#[ignore]\nfn f() { std::thread::sleep(d); }";
        assert_eq!(whys("crates/a/src/b.rs", test), [WHY_TEST, WHY_TEST]);
        let code = "fn f() { std::thread::sleep(d); }";
        assert_eq!(whys("crates/a/src/b.rs", code), [""; 0]);
    }

    #[test]
    fn lints_are_expected_not_allowed() {
        let text = "#[allow(dead_code)]\nfn f() {}";
        assert_eq!(whys("crates/a/src/b.rs", text), [WHY_EXPECT]);
        let text = "macro_rules! m { () => {\n#[allow(dead_code)]\nfn f() {} } }";
        assert_eq!(whys("crates/a/src/b.rs", text), [""; 0]);
        let text = "#[expect(dead_code, reason = \"x\")]\nfn f() {}";
        assert_eq!(whys("crates/a/src/b.rs", text), [""; 0]);
    }

    #[test]
    fn paths_of_one_machine_are_reported_and_parts_of_paths_are_not() {
        let place = PLACES[0].concat();
        assert_eq!(whys("docs/a.md", &format!("see {place}x")), [WHY_PLACE]);
        assert_eq!(whys("docs/a.md", &format!("see docs{place}x")), [""; 0]);
        assert_eq!(
            whys("docs/a.md", &format!("{}: later", MARKS[0].concat())),
            [WHY_DONE]
        );
    }
}
