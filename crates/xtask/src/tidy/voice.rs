//! The words and widths of comments, docs, help texts, errors and test names, by the page Voice of
//! CONVENTIONS.md.

use super::{Finding, Repository};
use crate::source::Source;

/// Maximum width in columns of a line with a comment.
const WIDTH_MAX: usize = 100;

/// Words that the page Voice replaces, each with what to write instead. A word matches as a whole,
/// in any case; a space matches any white space.
const WORDS: [(&str, &str); 24] = [
    ("tell", "return, report, pass or distinguish"),
    ("tells", "returns, reports, passes or distinguishes"),
    ("told", "returned, reported or notified"),
    ("telling", "returning, reporting or passing"),
    ("asked for", "requested or accessed"),
    ("asks for", "requests or needs"),
    ("asking for", "requesting"),
    ("ask for", "request or need"),
    ("so many", "a number, or `this many` before one"),
    ("so much", "an amount"),
    ("so late", "a lateness"),
    ("heed", "apply or respect"),
    ("heeds", "applies or respects"),
    ("heeded", "applied or respected"),
    ("in vain", "without success"),
    ("anew", "again"),
    ("kin", "similar, or the name of the type"),
    ("whoever", "the caller, client or thread that"),
    ("whom", "the caller, client or thread that"),
    ("lives", "exists, is stored, or TTLs"),
    ("stands in for", "replaces or represents"),
    ("let go of", "released or dropped"),
    ("in their stead", "for them"),
    ("in its stead", "for it"),
];

/// Nouns for persons, which "who" may follow. Other nouns are followed by "that" or "which".
const PERSONS: [&str; 26] = [
    "person",
    "people",
    "user",
    "users",
    "reader",
    "readers",
    "engineer",
    "engineers",
    "operator",
    "operators",
    "researcher",
    "researchers",
    "somebody",
    "someone",
    "anyone",
    "anybody",
    "those",
    "author",
    "authors",
    "developer",
    "developers",
    "administrator",
    "administrators",
    "newcomer",
    "everyone",
    "nobody",
];

const WHY_WORD: &str = "the page Voice of CONVENTIONS.md: plain technical English";
const WHY_WIDTH: &str = "comments wrap where code does";

/// Pages that quote other texts or list these words.
const QUOTES: [&str; 2] = ["CONVENTIONS.md", "crates/xtask/src/tidy/voice.rs"];

/// Runs this check.
pub fn check(repository: &Repository) -> Vec<Finding> {
    let mut findings = vec![];
    for (path, text) in &repository.texts {
        if QUOTES.contains(&path.as_str()) {
            continue;
        }
        match repository.sources.get(path) {
            Some(source) => findings.extend(rust(path, source)),
            None if path.ends_with(".md") => {
                findings.extend(words(path, &prose_of_markdown(text)));
            }
            None if [".py", ".toml", ".yml", ".sh"]
                .iter()
                .any(|end| path.ends_with(end)) =>
            {
                findings.extend(words(path, &hash_comments(text)));
            }
            None => {}
        }
    }
    findings
}

fn rust(path: &str, source: &Source) -> Vec<Finding> {
    let mut findings = words(path, &source.prose());
    let lines = source.text.lines().zip(source.comment_lines());
    for (n, (line, has_comment)) in lines.enumerate() {
        let width = line.chars().count();
        // A link cannot be wrapped.
        let is_link = line.contains("://") && line.split_whitespace().count() <= 2;
        if has_comment && width > WIDTH_MAX && !is_link {
            findings.push(Finding {
                path: path.to_string(),
                line: n + 1,
                found: format!("a comment of {width} columns"),
                expected: format!("at most {WIDTH_MAX}"),
                why: WHY_WIDTH,
            });
        }
    }
    findings
}

/// Returns the lines of a Markdown page with code blocks and code spans blanked.
fn prose_of_markdown(text: &str) -> Vec<String> {
    let mut in_block = false;
    let blank_line = |line: &str| {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
            return String::new();
        }
        if in_block {
            String::new()
        } else {
            without_code(line)
        }
    };
    text.lines().map(blank_line).collect()
}

/// Returns a line without its parts in backticks.
fn without_code(line: &str) -> String {
    let parts = line.split('`').enumerate();
    let prose: Vec<&str> = parts
        .map(|(n, part)| if n % 2 == 0 { part } else { "_" })
        .collect();
    prose.concat()
}

/// Returns the text after `#` on each line.
fn hash_comments(text: &str) -> Vec<String> {
    let comment = |line: &str| {
        line.split_once('#')
            .map_or("", |(_, rest)| rest)
            .to_string()
    };
    text.lines().map(comment).collect()
}

/// Returns the findings in lines of prose. A phrase may continue on the next line.
fn words(path: &str, lines: &[String]) -> Vec<Finding> {
    let mut findings = vec![];
    // Words in lower case, each with its line.
    let mut all: Vec<(usize, String)> = vec![];
    for (n, line) in lines.iter().enumerate() {
        let split = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        all.extend(
            split
                .filter(|w| !w.is_empty())
                .map(|w| (n, w.to_lowercase())),
        );
    }
    for (at, (n, word)) in all.iter().enumerate() {
        let next = all.get(at + 1..).unwrap_or_default();
        let is_phrase = |phrase: &str| {
            let mut parts = phrase.split(' ');
            parts.next() == Some(word)
                && parts.zip(0..).all(|(part, k)| {
                    next.get(k)
                        .is_some_and(|(line, w)| w == part && line - n <= 1)
                })
        };
        let before = at.checked_sub(1).map_or("", |before| &all[before].1);
        for (phrase, instead) in WORDS {
            // A half-life is a term.
            if is_phrase(phrase) && !(word == "lives" && before == "half") {
                findings.push(finding(path, *n, phrase, instead));
            }
        }
        if word == "who" && !PERSONS.contains(&before) {
            findings.push(finding(
                path,
                *n,
                "who",
                "that or which, unless a person precedes",
            ));
        }
    }
    findings
}

fn finding(path: &str, line: usize, found: &str, expected: &str) -> Finding {
    Finding {
        path: path.to_string(),
        line: line + 1,
        found: format!("\"{found}\""),
        expected: expected.to_string(),
        why: WHY_WORD,
    }
}

impl Source {
    /// Returns for each line whether it has a comment or a part of one.
    fn comment_lines(&self) -> Vec<bool> {
        let lines = self.text.lines().zip(self.code.lines());
        let has_comment = |(text, code): (&str, &str)| {
            let marks = ["//", "/*"];
            marks.iter().any(|mark| {
                text.match_indices(mark)
                    .any(|(at, _)| code.as_bytes()[at] == b' ' && is_outside_text(code, at))
            })
        };
        lines.map(has_comment).collect()
    }

    /// Returns the prose of each line: comments, the contents of strings, and names of test
    /// functions as words. Code spans in backticks are omitted.
    fn prose(&self) -> Vec<String> {
        let mut prose = vec![];
        for (n, (text, code)) in self.text.lines().zip(self.code.lines()).enumerate() {
            let shown = code.as_bytes();
            let hidden: Vec<u8> = text
                .bytes()
                .enumerate()
                .map(|(at, byte)| if shown[at] == b' ' { byte } else { b' ' })
                .collect();
            let mut line = without_code(&String::from_utf8_lossy(&hidden));
            if self.is_test.get(n).copied().unwrap_or(false)
                && let Some((_, rest)) = code.split_once("fn ")
            {
                let name: String = rest
                    .chars()
                    .take_while(|c| c.is_alphanumeric() || *c == '_')
                    .collect();
                line = format!("{line} {}", name.replace('_', " "));
            }
            prose.push(line);
        }
        prose
    }
}

/// Whether the blanked byte at `at` is outside of all strings that are open on this line.
fn is_outside_text(code: &str, at: usize) -> bool {
    code[..at].bytes().filter(|byte| *byte == b'"').count() % 2 == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<(usize, String)> {
        let findings = check(&Repository::of(&[(path, text)]));
        findings.into_iter().map(|f| (f.line, f.found)).collect()
    }

    #[test]
    fn refused_words_are_found_in_comments_strings_and_test_names() {
        let path = "crates/a/src/b.rs";
        let refused = format!("t{}", "old");
        let comment = format!("/// What it was {refused}.\nfn f() {{}}");
        assert_eq!(found(path, &comment), [(1, format!("\"{refused}\""))]);
        let text = format!("fn f() -> &'static str {{ \"{refused}\" }}");
        assert_eq!(found(path, &text).len(), 1);
        let test = format!("#[test]\nfn it_is_{refused}() {{}}");
        assert_eq!(found(path, &test).len(), 1);
        let code = format!("fn {refused}() {{}} // see `{refused}`");
        assert_eq!(found(path, &code), []);
    }

    #[test]
    fn a_phrase_may_continue_on_the_next_line() {
        let page = format!("It was asked{}\nfor twice.", "");
        assert_eq!(found("docs/a.md", &page).len(), 1);
        assert_eq!(found("docs/a.md", "It was asked.\n\nFour. For"), []);
    }

    #[test]
    fn who_is_a_person() {
        assert_eq!(found("docs/a.md", "users who read"), []);
        assert_eq!(found("docs/a.md", "an entry who waits").len(), 1);
    }

    #[test]
    fn code_in_pages_is_not_prose() {
        assert_eq!(found("docs/a.md", "```\ntell\n```\n`tell`"), []);
    }

    #[test]
    fn wide_comments_are_found_and_wide_strings_are_not() {
        let path = "crates/a/src/b.rs";
        let wide = "x".repeat(WIDTH_MAX);
        assert_eq!(found(path, &format!("// {wide}")).len(), 1);
        assert_eq!(found(path, &format!("// <https://{wide}>,")), []);
        assert_eq!(found(path, &format!("const A: &str = \"//{wide}\";")), []);
    }
}
