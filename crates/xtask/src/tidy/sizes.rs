//! Maximum lengths of files and functions.
//!
//! Lines of test code do not count.

use super::{Finding, Repository};
use crate::source::Source;

/// Maximum lines of a file. A longer one may serve more than one purpose.
const FILE_LIMIT: usize = 600;
/// Maximum lines of a function: one screen.
const FUNCTION_LIMIT: usize = 70;

/// Files that cannot be divided: the methods of a Python class stand in one block, which cannot be
/// spread over files.
const UNDIVIDED: [&str; 1] = ["python/src/cache.rs"];

const WHY_FILE: &str = "a file answers one question; test code is not counted";
const WHY_FUNCTION: &str = "a function fits on a screen; test code is not counted";

/// Returns the number of lines that count.
fn own_length(source: &Source) -> usize {
    source.own_lines().count()
}

fn long_files(repository: &Repository) -> Vec<Finding> {
    let mut findings = vec![];
    for (path, source) in &repository.sources {
        let length = own_length(source);
        if UNDIVIDED.contains(&path.as_str()) || length <= FILE_LIMIT {
            continue;
        }
        findings.push(Finding {
            path: path.clone(),
            line: 1,
            found: format!("{length} lines"),
            expected: format!("at most {FILE_LIMIT}"),
            why: WHY_FILE,
        });
    }
    findings
}

/// Runs this check.
pub fn check(repository: &Repository) -> Vec<Finding> {
    let mut findings = long_files(repository);
    for (path, source) in &repository.sources {
        for function in source.functions() {
            let length = function.last - function.first + 1;
            let is_test = source.is_test.get(function.first).copied().unwrap_or(false);
            if length <= FUNCTION_LIMIT || is_test {
                continue;
            }
            findings.push(Finding {
                path: path.clone(),
                line: function.first + 1,
                found: format!("`fn {}` of {length} lines", function.name),
                expected: format!("at most {FUNCTION_LIMIT}"),
                why: WHY_FUNCTION,
            });
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(count: usize) -> String {
        "    step();\n".repeat(count)
    }

    #[test]
    fn a_function_of_seventy_lines_passes_and_one_more_does_not() {
        let good = format!("fn f() {{\n{}}}\n", lines(68));
        let bad = format!("\nfn f() {{\n{}}}\n", lines(69));
        assert_eq!(check(&Repository::of(&[("crates/a/src/a.rs", &good)])), []);
        let found = check(&Repository::of(&[("crates/a/src/a.rs", &bad)]));
        assert_eq!((found.len(), found[0].line), (1, 2));
    }

    #[test]
    fn braces_in_strings_and_comments_do_not_end_a_function() {
        let bad = format!("fn f() {{\n    let a = \"}}\"; // }}\n{}}}\n", lines(69));
        assert_eq!(
            check(&Repository::of(&[("crates/a/src/a.rs", &bad)])).len(),
            1
        );
    }

    #[test]
    fn a_file_of_six_hundred_lines_passes_and_one_more_does_not_and_tests_do_not_count() {
        let (good, bad) = (lines(600), lines(601));
        let count = |files: &[(&str, &str)]| check(&Repository::of(files)).len();
        assert_eq!(count(&[("crates/a/src/a.rs", &good)]), 0);
        assert_eq!(count(&[("crates/a/src/a.rs", &bad)]), 1);
        let tested = format!("fn f() {{}}\n#[cfg(test)]\nmod tests {{\n{bad}}}\n");
        let tests = [
            ("crates/a/src/a.rs", &tested[..]),
            ("crates/a/tests/b.rs", &bad),
        ];
        assert_eq!(count(&tests), 0);
    }
}
