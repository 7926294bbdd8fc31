//! Maximum lengths of files and functions.
//!
//! Lines of test code do not count, nor do files that consist of one table.

use super::{Finding, Repository};
use crate::source::Source;

/// Number of lines above which a file gets a hint, because it may serve more than one purpose.
const FILE_HINT: usize = 600;
/// Maximum lines of a file.
const FILE_LIMIT: usize = 1_000;
/// Maximum lines of a function: one screen.
const FUNCTION_LIMIT: usize = 70;

/// Files that consist of one table.
const TABLES: [&str; 0] = [];

const WHY_FILE: &str = "a file answers one question; test code and tables are not counted";
const WHY_FUNCTION: &str = "a function fits on a screen; test code is not counted";

/// Returns the number of lines that count.
fn own_length(source: &Source) -> usize {
    source.own_lines().count()
}

fn long_files(repository: &Repository, over: usize, up_to: usize) -> Vec<Finding> {
    let mut findings = vec![];
    for (path, source) in &repository.sources {
        let length = own_length(source);
        if TABLES.contains(&path.as_str()) || length <= over || length > up_to {
            continue;
        }
        findings.push(Finding {
            path: path.clone(),
            line: 1,
            found: format!("{length} lines"),
            expected: format!("at most {over}"),
            why: WHY_FILE,
        });
    }
    findings
}

/// Returns hints for files with lengths between the hint and the limit.
pub fn hints(repository: &Repository) -> Vec<Finding> {
    long_files(repository, FILE_HINT, FILE_LIMIT)
}

/// Runs this check.
pub fn check(repository: &Repository) -> Vec<Finding> {
    let mut findings = long_files(repository, FILE_LIMIT, usize::MAX);
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
    fn files_are_hinted_at_then_refused_and_tests_do_not_count() {
        let long = lines(601);
        let repository = Repository::of(&[("crates/a/src/a.rs", &long)]);
        assert_eq!((check(&repository).len(), hints(&repository).len()), (0, 1));
        let longer = lines(1_001);
        let repository = Repository::of(&[("crates/a/src/a.rs", &longer)]);
        assert_eq!((check(&repository).len(), hints(&repository).len()), (1, 0));
        let tested = format!("fn f() {{}}\n#[cfg(test)]\nmod tests {{\n{longer}}}\n");
        let repository = Repository::of(&[
            ("crates/a/src/a.rs", &tested),
            ("crates/a/tests/b.rs", &longer),
        ]);
        assert_eq!((check(&repository).len(), hints(&repository).len()), (0, 0));
    }
}
