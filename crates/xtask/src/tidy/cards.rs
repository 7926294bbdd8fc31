//! Checks the card at the start of every policy, admission filter and expiry index: module text
//! with fixed headings.

use super::{Finding, Repository};

/// The folders that hold one algorithm per file.
const FOLDERS: [&str; 4] = [
    "crates/learn/src/evict/",
    "crates/policy/src/admit/",
    "crates/policy/src/evict/",
    "crates/policy/src/expire/",
];

/// Files in these folders that are not algorithms.
const OTHERS: [&str; 2] = ["mod.rs", "any.rs"];

/// The files that list algorithms.
const LISTS: [&str; 4] = ["/any.rs", "/admit.rs", "/evict.rs", "/expire.rs"];

/// The headings of a card, in order.
const HEADINGS: [&str; 7] = [
    "# Idea",
    "# Source",
    "# State",
    "# Cost",
    "# Knobs",
    "# Departures",
    "# Avoid when",
];

const WHY: &str = "a reader who chooses or changes an algorithm needs its card first";
const WHY_LIST: &str = "adding an algorithm takes one file and one line in a list";

/// Whether a file is one of the lists of algorithms.
fn is_list(path: &str) -> bool {
    let is_of_algorithms = ["crates/policy/src/", "crates/learn/src/"];
    is_of_algorithms
        .iter()
        .any(|folder| path.starts_with(folder))
        && LISTS.iter().any(|name| path.ends_with(name))
}

/// Runs this check.
pub fn check(repository: &Repository) -> Vec<Finding> {
    let mut findings = vec![];
    let lists: String = repository
        .texts
        .iter()
        .filter(|(path, _)| is_list(path))
        .map(|(_, text)| text.as_str())
        .collect();
    for (path, source) in &repository.sources {
        let Some(file) = FOLDERS.iter().find_map(|folder| path.strip_prefix(folder)) else {
            continue;
        };
        let is_test = source.is_test.iter().all(|is_test| *is_test);
        if file.contains('/') || OTHERS.contains(&file) || is_test {
            continue;
        }
        findings.extend(check_card(path, &source.text));
        let name = file.trim_end_matches(".rs");
        if !lists.contains(&format!("{name}::")) {
            findings.push(Finding {
                path: path.clone(),
                line: 1,
                found: format!("`{name}` in no list"),
                expected: format!("`{name}::…` in the list of its folder's module or in any.rs"),
                why: WHY_LIST,
            });
        }
    }
    findings
}

/// Checks the module text of one algorithm.
fn check_card(path: &str, text: &str) -> Vec<Finding> {
    let finding = |line: usize, found: String, expected: String| Finding {
        path: path.to_string(),
        line: line + 1,
        found,
        expected,
        why: WHY,
    };
    let mut findings = vec![];
    let card: Vec<&str> = text
        .lines()
        .map_while(|line| line.strip_prefix("//!"))
        .map(str::trim)
        .collect();
    let headings: Vec<(usize, &str)> = card
        .iter()
        .enumerate()
        .filter(|(_, line)| line.starts_with("# "))
        .map(|(n, line)| (n, *line))
        .collect();
    let names: Vec<&str> = headings.iter().map(|(_, name)| *name).collect();
    if names != HEADINGS {
        let line = headings.first().map_or(0, |(n, _)| *n);
        let expected = format!("{HEADINGS:?} in this order");
        return vec![finding(line, format!("headings {names:?}"), expected)];
    }
    for (i, (n, name)) in headings.iter().enumerate() {
        let end = headings.get(i + 1).map_or(card.len(), |(next, _)| *next);
        let body = card[n + 1..end].join(" ");
        if body.trim().is_empty() {
            let found = format!("nothing below `{name}`");
            findings.push(finding(*n, found, "a sentence, at least \"None.\"".into()));
        } else if *name == "# State" && !body.contains("byte") && !body.contains("bit") {
            let expected = "bytes or bits per entry and bytes besides".into();
            findings.push(finding(*n, "a state without its size".into(), expected));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(card: &str) -> Vec<Finding> {
        check(&Repository::of(&[
            ("crates/policy/src/evict/clock.rs", card),
            ("crates/policy/src/any.rs", "clock::Clock"),
        ]))
    }

    fn card() -> String {
        let body = |name: &&str| format!("//! {name}\n//! 2 bits an entry.\n");
        HEADINGS.iter().map(body).collect()
    }

    #[test]
    fn a_whole_card_passes() {
        assert_eq!(findings(&format!("//! CLOCK.\n//!\n{}", card())), []);
    }

    #[test]
    fn missing_swapped_and_empty_headings_are_reported() {
        assert_eq!(findings("fn f() {}\n").len(), 1);
        assert_eq!(findings(&card().replace("# Cost", "# Price")).len(), 1);
        let swapped = card()
            .replace("# Idea", "# X")
            .replace("# Source", "# Idea")
            .replace("# X", "# Source");
        assert_eq!(findings(&swapped).len(), 1);
        let empty = card().replace("# Knobs\n//! 2 bits an entry.", "# Knobs\n//!");
        assert_eq!(findings(&empty)[0].line, 9);
        let vague = card().replacen("# State\n//! 2 bits an entry.", "# State\n//! Little.", 1);
        assert_eq!(findings(&vague).len(), 1);
    }

    #[test]
    fn an_algorithm_stands_in_a_list() {
        let repository = Repository::of(&[("crates/policy/src/expire/wheel.rs", &card())]);
        assert_eq!(check(&repository)[0].why, WHY_LIST);
    }

    #[test]
    fn parts_and_tests_of_an_algorithm_need_no_card() {
        let repository = Repository::of(&[
            ("crates/policy/src/expire.rs", "mod wheel;"),
            ("crates/policy/src/expire/wheel/chunks.rs", "fn f() {}"),
            ("crates/policy/src/expire/wheel_tests.rs", "fn f() {}"),
        ]);
        assert_eq!(check(&repository), []);
    }
}
