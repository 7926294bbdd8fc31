//! Settings from a file in redis.conf's form and from the command line.
//!
//! A line is `name value…`; quotes hold blanks, `#` at its front makes a comment, `include` reads
//! another file. What Redis knows and we do otherwise is passed over with a warning; what we do not
//! know is an error that names the line and the nearest name.

use super::table::{IGNORED, Param, REFUSED, TABLE};
use super::{Config, find};
use crate::glob;
use std::fmt::Write as _;
use std::path::Path;

/// Files within files, at most.
const INCLUDE_DEPTH_MAX: usize = 8;

/// Reads a file's settings into `config`; warnings are added to `warnings`.
///
/// # Errors
/// The first thing that is wrong, with file and line.
pub fn read(config: &Config, path: &Path, warnings: &mut Vec<String>) -> Result<(), String> {
    read_nested(config, path, warnings, 0)
}

fn read_nested(
    config: &Config,
    path: &Path,
    warnings: &mut Vec<String>,
    depth: usize,
) -> Result<(), String> {
    if depth > INCLUDE_DEPTH_MAX {
        return Err(format!("{}: includes are nested too deep", path.display()));
    }
    let text =
        std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    for (number, line) in text.lines().enumerate() {
        let place = format!("{}:{}", path.display(), number + 1);
        let Some(words) = words(line).map_err(|why| format!("{place}: {why}"))? else {
            continue;
        };
        if words[0].eq_ignore_ascii_case("include") {
            let [_, file] = &words[..] else {
                return Err(format!("{place}: include takes one file"));
            };
            let file = path.parent().unwrap_or(Path::new(".")).join(file);
            read_nested(config, &file, warnings, depth + 1)?;
            continue;
        }
        let value = words[1..].join(" ");
        match set(config, &words[0], &value) {
            Ok(None) => {}
            Ok(Some(warning)) => warnings.push(format!("{place}: {warning}")),
            Err(why) => return Err(format!("{place}: {why}")),
        }
    }
    Ok(())
}

/// Whether this is a setting's name, be it ours or one of Redis that we pass over or refuse.
pub fn is_known(name: &str) -> bool {
    let is_in = |pattern: &str| glob::matches(pattern.as_bytes(), name.as_bytes(), true);
    find(name).is_some()
        || IGNORED.iter().any(|pattern| is_in(pattern))
        || REFUSED.iter().any(|(pattern, _)| is_in(pattern))
}

/// Sets one setting by name; a warning when it is one that is passed over.
///
/// # Errors
/// A name that does not exist (with the nearest one), or what is wrong with the value.
pub fn set(config: &Config, name: &str, value: &str) -> Result<Option<String>, String> {
    if let Some(param) = find(name) {
        return config
            .set(param, value)
            .map(|()| None)
            .map_err(|why| format!("{} {}: {why}", param.name, shown(param, value)));
    }
    let lower = name.to_ascii_lowercase();
    let is_in = |pattern: &str| glob::matches(pattern.as_bytes(), lower.as_bytes(), true);
    if let Some((_, why)) = REFUSED.iter().find(|(pattern, _)| is_in(pattern)) {
        return Err(format!("{lower}: {why}"));
    }
    if IGNORED.iter().any(|pattern| is_in(pattern)) {
        return Ok(Some(format!("{lower} has no effect here")));
    }
    let mut text = format!("there is no setting '{name}'");
    if let Some(nearest) = nearest(&lower) {
        let _ = write!(text, "; did you mean '{nearest}'?");
    }
    Err(text)
}

fn shown(param: &Param, value: &str) -> String {
    if param.kind == super::Kind::Secret {
        "(hidden)".into()
    } else {
        format!("'{value}'")
    }
}

/// The setting whose name takes the fewest edits, if they are few.
fn nearest(name: &str) -> Option<&'static str> {
    TABLE
        .iter()
        .map(|param| (edits(name.as_bytes(), param.name.as_bytes()), param.name))
        .min()
        .filter(|(edits, found)| *edits <= 2 + found.len() / 4)
        .map(|(_, found)| found)
}

/// Levenshtein's distance.
fn edits(from: &[u8], to: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let substituted = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

/// A line's words; none for an empty one or a comment.
fn words(line: &str) -> Result<Option<Vec<String>>, String> {
    let mut words = Vec::new();
    let mut letters = line.trim().chars().peekable();
    if matches!(letters.peek(), None | Some('#')) {
        return Ok(None);
    }
    while letters.peek().is_some() {
        while letters.next_if(|letter| letter.is_whitespace()).is_some() {}
        let Some(first) = letters.peek().copied() else {
            break;
        };
        let mut word = String::new();
        if first == '"' || first == '\'' {
            letters.next();
            quoted(&mut letters, first, &mut word)?;
        } else {
            while let Some(letter) = letters.next_if(|letter| !letter.is_whitespace()) {
                word.push(letter);
            }
        }
        words.push(word);
    }
    Ok(Some(words))
}

fn quoted(
    letters: &mut std::iter::Peekable<std::str::Chars<'_>>,
    quote: char,
    word: &mut String,
) -> Result<(), String> {
    loop {
        match letters.next() {
            None => return Err("a quote is not closed".into()),
            Some(letter) if letter == quote => {
                return match letters.peek() {
                    Some(next) if !next.is_whitespace() => {
                        Err("a closing quote must be followed by a blank".into())
                    }
                    _ => Ok(()),
                };
            }
            Some('\\') => match letters.next() {
                Some('n') if quote == '"' => word.push('\n'),
                Some('r') if quote == '"' => word.push('\r'),
                Some('t') if quote == '"' => word.push('\t'),
                Some(other) if quote == '"' || other == '\'' => word.push(other),
                Some(other) => word.extend(['\\', other]),
                None => return Err("a quote is not closed".into()),
            },
            Some(letter) => word.push(letter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Id;

    fn split(line: &str) -> Vec<String> {
        words(line).expect("valid").unwrap_or_default()
    }

    #[test]
    fn lines_split_into_words() {
        assert_eq!(split("port 6380"), ["port", "6380"]);
        assert_eq!(
            split("  requirepass \"a b\\\"c\" "),
            ["requirepass", "a b\"c"]
        );
        assert_eq!(split("logfile ''"), ["logfile", ""]);
        assert!(split("# port 6380").is_empty());
        assert!(split("").is_empty());
        assert!(words("a \"b").is_err());
        assert!(words("a \"b\"c").is_err());
    }

    #[test]
    fn settings_are_taken_passed_over_or_refused() {
        let config = Config::default();
        assert_eq!(set(&config, "MaxMemory", "100mb"), Ok(None));
        assert_eq!(config.number(Id::MaxMemory), 100 << 20);
        assert!(matches!(set(&config, "rdbcompression", "yes"), Ok(Some(_))));
        assert_eq!(set(&config, "save", ""), Ok(None));
        assert_eq!(set(&config, "appendonly", "no"), Ok(None));
        for (name, value, part) in [
            ("appendonly", "yes", "does not do that"),
            ("save", "900 1", "does not do that"),
            ("replicaof", "host 1", "no replication"),
            ("maxmemmory", "1", "did you mean 'maxmemory'"),
            ("port", "70000", "between 0 and 65535"),
            ("zzzzzzzzzzzzz", "1", "there is no setting"),
        ] {
            let error = set(&config, name, value).expect_err(name);
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_password_is_not_shown() {
        let param = find("requirepass").expect("it exists");
        assert_eq!(shown(param, "secret"), "(hidden)");
    }
}
