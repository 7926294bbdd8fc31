//! Parser of settings from a file in the format of redis.conf and from the command line.
//!
//! A line is `name value…`. Quotes protect blanks, a line that begins with `#` is a comment, and
//! `include` reads another file. Settings of Redis that have no effect here are accepted with a
//! warning. An unknown setting is an error that names the line and the most similar setting.

use super::table::{IGNORED, Param, REFUSED, TABLE};
use super::{Config, find};
use crate::glob;
use policy::names::did_you_mean;
use std::path::Path;

/// Maximum depth of nested includes.
const INCLUDE_DEPTH_MAX: usize = 8;

/// Reads the settings of a file into `config` and appends warnings to `warnings`.
///
/// # Errors
/// The first error, with file and line.
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
        return Err(format!(
            "{}: more than {INCLUDE_DEPTH_MAX} nested includes",
            path.display()
        ));
    }
    let text =
        std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    for (number, line) in text.lines().enumerate() {
        let place = format!("{}:{}", path.display(), number + 1);
        let Some(mut words) = words(line).map_err(|error| format!("{place}: {error}"))? else {
            continue;
        };
        if words[0].eq_ignore_ascii_case("include") {
            let [_, file] = &words[..] else {
                return Err(format!("{place}: include: expected one file name"));
            };
            let file = path.parent().unwrap_or(Path::new(".")).join(file);
            read_nested(config, &file, warnings, depth + 1)?;
            continue;
        }
        if words[0].eq_ignore_ascii_case("user") {
            words[0].make_ascii_lowercase();
            config.add_user_line((place, words));
            continue;
        }
        let value = words[1..].join(" ");
        match set(config, &words[0], &value) {
            Ok(None) => {}
            Ok(Some(warning)) => warnings.push(format!("{place}: {warning}")),
            Err(error) => return Err(format!("{place}: {error}")),
        }
    }
    Ok(())
}

/// Whether a setting of this name is supported, ignored or refused, as opposed to unknown.
pub fn is_known(name: &str) -> bool {
    let matches = |pattern: &str| glob::matches(pattern.as_bytes(), name.as_bytes(), true);
    find(name).is_some()
        || name.eq_ignore_ascii_case("user")
        || IGNORED.iter().any(|pattern| matches(pattern))
        || REFUSED.iter().any(|(pattern, _)| matches(pattern))
}

/// Whether a setting of Redis has no effect here, so that every value is accepted.
pub fn is_ignored(name: &str) -> bool {
    let matches = |pattern: &str| glob::matches(pattern.as_bytes(), name.as_bytes(), true);
    find(name).is_none() && IGNORED.iter().any(|pattern| matches(pattern))
}

/// Sets one setting by name. Returns a warning if the setting is ignored.
///
/// # Errors
/// The name is unknown or refused, or the value is invalid. The message suggests a similar name.
pub fn set(config: &Config, name: &str, value: &str) -> Result<Option<String>, String> {
    if let Some(param) = find(name) {
        return config
            .set(param, value)
            .map(|()| None)
            .map_err(|error| format!("{} {}: {error}", param.name, shown(param, value)));
    }
    let lower = name.to_ascii_lowercase();
    let matches = |pattern: &str| glob::matches(pattern.as_bytes(), lower.as_bytes(), true);
    if let Some((_, reason)) = REFUSED.iter().find(|(pattern, _)| matches(pattern)) {
        return Err(format!("{lower}: {reason}"));
    }
    if is_ignored(&lower) {
        return Ok(Some(format!(
            "{lower} is ignored: it has no effect in Mayfly"
        )));
    }
    let similar = did_you_mean(name, TABLE.iter().map(|param| param.name));
    let separator = if similar.is_empty() { "" } else { "; " };
    Err(format!("unknown setting '{name}'{separator}{similar}"))
}

fn shown(param: &Param, value: &str) -> String {
    if param.kind == super::Kind::Secret {
        "(hidden)".into()
    } else {
        format!("'{value}'")
    }
}

/// Splits a line into words. Returns `None` for an empty line or a comment.
fn words(line: &str) -> Result<Option<Vec<String>>, String> {
    let mut words = Vec::new();
    let mut chars = line.trim().chars().peekable();
    if matches!(chars.peek(), None | Some('#')) {
        return Ok(None);
    }
    while chars.peek().is_some() {
        while chars.next_if(|char| char.is_whitespace()).is_some() {}
        let Some(first) = chars.peek().copied() else {
            break;
        };
        let mut word = String::new();
        if first == '"' || first == '\'' {
            chars.next();
            quoted(&mut chars, first, &mut word)?;
        } else {
            while let Some(letter) = chars.next_if(|letter| !letter.is_whitespace()) {
                word.push(letter);
            }
        }
        words.push(word);
    }
    Ok(Some(words))
}

fn quoted(
    chars: &mut std::iter::Peekable<std::str::Chars<'_>>,
    quote: char,
    word: &mut String,
) -> Result<(), String> {
    loop {
        match chars.next() {
            None => return Err("missing closing quote".into()),
            Some(letter) if letter == quote => {
                return match chars.peek() {
                    Some(next) if !next.is_whitespace() => {
                        Err("a closing quote must be followed by a blank".into())
                    }
                    _ => Ok(()),
                };
            }
            Some('\\') => match chars.next() {
                Some('n') if quote == '"' => word.push('\n'),
                Some('r') if quote == '"' => word.push('\r'),
                Some('t') if quote == '"' => word.push('\t'),
                Some(other) if quote == '"' || other == '\'' => word.push(other),
                Some(other) => word.extend(['\\', other]),
                None => return Err("missing closing quote".into()),
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
    fn settings_are_accepted_ignored_or_refused() {
        let config = Config::default();
        assert_eq!(set(&config, "MaxMemory", "100mb"), Ok(None));
        assert_eq!(config.number(Id::MaxMemory), 100 << 20);
        assert!(matches!(set(&config, "rdbcompression", "yes"), Ok(Some(_))));
        assert_eq!(set(&config, "save", ""), Ok(None));
        assert_eq!(set(&config, "appendonly", "no"), Ok(None));
        for (name, value, part) in [
            ("appendonly", "yes", "not supported: the only"),
            ("save", "900 1", "not supported: the only"),
            ("replicaof", "host 1", "replication is not supported"),
            ("maxmemmory", "1", "did you mean 'maxmemory'"),
            ("port", "70000", "between 0 and 65535"),
            ("zzzzzzzzzzzzz", "1", "unknown setting"),
        ] {
            let error = set(&config, name, value).expect_err(name);
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_password_is_not_shown() {
        let param = find("requirepass").expect("the setting exists");
        assert_eq!(shown(param, "secret"), "(hidden)");
    }
}
