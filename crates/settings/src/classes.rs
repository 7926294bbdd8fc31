//! Classes of keys as text: `name prefix P db N ttl-default T …`, separated by `;`.
//!
//! A prefix is a word without blanks, quotes and semicolons. `\xHH` in it is the byte with this
//! number, so that every prefix can be written.

use store::{ClassRule, Classes, DATABASES_MAX, PolicyChoice};

/// Maximum length of a name.
const NAME_BYTES_MAX: usize = 64;
/// Maximum of a TTL in milliseconds: a hundred years.
const TTL_MS_MAX: u64 = 100 * 365 * 24 * 3_600_000;
/// Maximum jitter in percent.
const JITTER_MAX: u8 = 90;
/// Minimum of a memory limit in bytes. The tables of a database's shards need a part of it.
const MEMORY_MIN: u64 = 1 << 20;
/// Word between two classes.
pub(crate) const SEPARATOR: &str = " ; ";

/// Parses the value of the setting `class`.
///
/// # Errors
/// Returns a message for the user.
pub fn parse(text: &str) -> Result<Classes, String> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let parts = words.split(|word| *word == ";");
    let rules = parts.filter(|words| !words.is_empty()).map(rule_of);
    Classes::new(rules.collect::<Result<Vec<ClassRule>, String>>()?)
}

/// Returns the text of classes in its canonical form.
pub fn show(classes: &Classes) -> String {
    let texts: Vec<String> = classes.rules().iter().map(show_rule).collect();
    texts.join(SEPARATOR)
}

/// Adds a class to the text of all classes, or replaces the class of the same name. Returns the new
/// text.
///
/// # Errors
/// A text defines no valid class, or two classes contradict each other.
pub fn with(text: &str, class: &str) -> Result<String, String> {
    let words: Vec<&str> = class.split_ascii_whitespace().collect();
    let rule = rule_of(&words)?;
    let mut rules = parse(text)?.rules().to_vec();
    match rules.iter_mut().find(|old| old.name == rule.name) {
        Some(old) => *old = rule,
        None => rules.push(rule),
    }
    Ok(show(&Classes::new(rules)?))
}

/// Returns the text of the classes without one; `None` if there is no such class.
pub fn without(text: &str, name: &str) -> Option<String> {
    let mut rules = parse(text).ok()?.rules().to_vec();
    let before = rules.len();
    rules.retain(|rule| rule.name != name);
    let classes = Classes::new(rules).ok()?;
    (classes.rules().len() < before).then(|| show(&classes))
}

fn rule_of(words: &[&str]) -> Result<ClassRule, String> {
    let (name, options) = words.split_first().ok_or("a class needs a name")?;
    check_name(name)?;
    let mut rule = ClassRule {
        name: (*name).to_owned(),
        ..ClassRule::default()
    };
    let wrong = |message: String| format!("class {name}: {message}");
    let (pairs, rest) = options.as_chunks::<2>();
    let mut seen: Vec<String> = Vec::new();
    for [option, value] in pairs {
        let option = option.to_ascii_lowercase();
        set_option(&mut rule, &option, value).map_err(wrong)?;
        if seen.contains(&option) {
            return Err(wrong(format!("{option} is given twice")));
        }
        seen.push(option);
    }
    if let [option] = rest {
        return Err(wrong(format!("'{option}' needs a value")));
    }
    if rule.prefix.is_empty() && rule.db.is_none() {
        return Err(wrong("a prefix or a database (db) is needed".to_owned()));
    }
    if rule.ttl.is_sliding && rule.ttl.default_ms.is_none() {
        return Err(wrong(
            "sliding needs ttl-default, the TTL after a read".to_owned(),
        ));
    }
    Ok(rule)
}

fn check_name(name: &str) -> Result<(), String> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_name = (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_allowed);
    if !is_name || name == store::OTHER {
        return Err(format!(
            "'{name}' is no name of a class: expected 1 to {NAME_BYTES_MAX} letters, digits, '-', '_' or '.', and not '{}'",
            store::OTHER
        ));
    }
    Ok(())
}

fn set_option(rule: &mut ClassRule, option: &str, value: &str) -> Result<(), String> {
    let expected = |what: &str| format!("{option} '{value}': expected {what}");
    match option {
        "prefix" => {
            rule.prefix = bytes_of(value).ok_or_else(|| {
                expected(
                    "a prefix without blanks, quotes and semicolons, such as session: or a\\x20b",
                )
            })?;
        }
        "db" => {
            let db = value.parse::<usize>().ok().filter(|db| *db < DATABASES_MAX);
            let db = db.ok_or_else(|| expected("the number of a database"))?;
            rule.db = Some(db as u8);
        }
        "ttl-default" | "ttl-max" => {
            let ttl = units::span_ms(value).ok();
            let ttl = ttl.filter(|ms| (1..=TTL_MS_MAX).contains(ms));
            let ttl =
                ttl.ok_or_else(|| expected("a time from 1ms to 36500d, such as 90s, 1h or 7d"))?;
            match option {
                "ttl-max" => rule.ttl.max_ms = Some(ttl),
                _ => rule.ttl.default_ms = Some(ttl),
            }
        }
        "ttl-jitter" => {
            let percent = value
                .strip_suffix('%')
                .and_then(|text| text.parse::<u8>().ok());
            let percent = percent.filter(|percent| *percent <= JITTER_MAX);
            rule.ttl.jitter_percent = percent.ok_or_else(|| expected("0% to 90%"))?;
        }
        "maxmemory" | "minmemory" => {
            let bytes = units::bytes(value)
                .ok()
                .filter(|bytes| *bytes >= MEMORY_MIN);
            let bytes = bytes.ok_or_else(|| expected("1mb or more, such as 200mb or 2gb"))?;
            match option {
                "maxmemory" => rule.limits.max_bytes = bytes,
                _ => rule.limits.min_bytes = bytes,
            }
        }
        "policy" => {
            let policy = PolicyChoice::parse(value);
            rule.policy = Some(policy.map_err(|error| format!("policy '{value}': {error}"))?);
        }
        "sliding" => {
            rule.ttl.is_sliding = match value.to_ascii_lowercase().as_str() {
                "yes" => true,
                "no" => false,
                _ => return Err(expected("yes or no")),
            }
        }
        _ => {
            return Err(format!(
                "unknown option '{option}': expected prefix, db, ttl-default, ttl-max, ttl-jitter, sliding, maxmemory, minmemory or policy"
            ));
        }
    }
    Ok(())
}

/// Returns the bytes of a prefix.
fn bytes_of(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'"' | b'\'' | b';' | 0..=b' ' | 0x7f => return None,
            b'\\' => {
                let digits = after.strip_prefix(b"x")?.get(..2)?;
                let is_hex = digits.iter().all(u8::is_ascii_hexdigit);
                let digits = std::str::from_utf8(digits).ok().filter(|_| is_hex)?;
                bytes.push(u8::from_str_radix(digits, 16).ok()?);
                rest = &after[3..];
            }
            _ => bytes.push(byte),
        }
    }
    (!bytes.is_empty()).then_some(bytes)
}

fn show_prefix(prefix: &[u8]) -> String {
    let show = |byte: &u8| match byte {
        b'"' | b'\'' | b';' | b'\\' => format!("\\x{byte:02x}"),
        byte if byte.is_ascii_graphic() => char::from(*byte).to_string(),
        byte => format!("\\x{byte:02x}"),
    };
    prefix.iter().map(show).collect()
}

/// Returns the text of one class in its canonical form.
pub fn show_rule(rule: &ClassRule) -> String {
    let mut text = rule.name.clone();
    let mut add = |option: &str, value: Option<String>| {
        if let Some(value) = value {
            text.push_str(&format!(" {option} {value}"));
        }
    };
    let ttl = &rule.ttl;
    add(
        "prefix",
        (!rule.prefix.is_empty()).then(|| show_prefix(&rule.prefix)),
    );
    add("db", rule.db.map(|db| db.to_string()));
    add("ttl-default", ttl.default_ms.map(show_span));
    add("ttl-max", ttl.max_ms.map(show_span));
    add(
        "ttl-jitter",
        (ttl.jitter_percent > 0).then(|| format!("{}%", ttl.jitter_percent)),
    );
    add("sliding", ttl.is_sliding.then(|| "yes".to_owned()));
    let shown = |bytes: u64| (bytes > 0).then(|| show_bytes(bytes));
    add("maxmemory", shown(rule.limits.max_bytes));
    add("minmemory", shown(rule.limits.min_bytes));
    let policy = rule.policy.as_ref();
    add("policy", policy.map(|policy| policy.name.clone()));
    text
}

/// Formats a time span exactly, in the largest unit of which it is a whole number.
fn show_span(ms: u64) -> String {
    let units = [
        (86_400_000, "d"),
        (3_600_000, "h"),
        (60_000, "m"),
        (1_000, "s"),
        (1, "ms"),
    ];
    let fits = units.iter().find(|(unit, _)| ms.is_multiple_of(*unit));
    let (unit, name) = fits.expect("every span is a number of milliseconds");
    format!("{}{name}", ms / unit)
}

/// Formats a number of bytes exactly, in the largest unit of which it is a whole number.
fn show_bytes(bytes: u64) -> String {
    let units = [(1 << 30, "gb"), (1 << 20, "mb"), (1 << 10, "kb"), (1, "b")];
    let fits = units.iter().find(|(unit, _)| bytes.is_multiple_of(*unit));
    let (unit, name) = fits.expect("every size is a number of bytes");
    format!("{}{name}", bytes / unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        show(&parse(text).expect("valid classes"))
    }

    #[test]
    fn classes_are_shown_as_they_are_read() {
        let text = "session prefix session: ttl-default 1h ttl-max 1d ttl-jitter 10% sliding yes ; queue db 3 ; x prefix a\\x20\\xff\\x3b db 0";
        assert_eq!(shown(text), text);
        assert_eq!(shown(""), "");
        let canonical = "a prefix b ttl-default 90s ttl-max 1500ms";
        let given = " a  PREFIX b TTL-Default 1.5m ttl-max 1500ms sliding no ttl-jitter 0% ;";
        assert_eq!(shown(given), canonical);
        let parsed = parse("a prefix \\x00Z\\x5c").expect("valid");
        assert_eq!(parsed.rules()[0].prefix, b"\0Z\\");
    }

    #[test]
    fn a_class_is_defined_replaced_and_removed() {
        let one = with("", "a prefix a:").expect("valid");
        let two = with(&one, "b db 1 ttl-max 1d").expect("valid");
        assert_eq!(two, "a prefix a: ; b db 1 ttl-max 1d");
        let other = with(&two, "a prefix aa:").expect("valid");
        assert_eq!(other, "a prefix aa: ; b db 1 ttl-max 1d");
        assert!(with(&two, "c prefix a:").is_err());
        assert_eq!(without(&two, "a").as_deref(), Some("b db 1 ttl-max 1d"));
        assert_eq!(without(&two, "c"), None);
    }

    #[test]
    fn wrong_classes_are_refused_with_their_place() {
        for (text, part) in [
            ("a", "class a: a prefix or a database"),
            ("a prefix", "'prefix' needs a value"),
            ("a prefix x prefix y", "prefix is given twice"),
            ("a prefix x;y", "without blanks"),
            ("a prefix \\x2", "without blanks"),
            ("a prefix \\xzz", "without blanks"),
            ("a db 256", "db '256': expected the number of a database"),
            ("a db x", "expected the number"),
            (
                "a db 1 ttl-max 0s",
                "ttl-max '0s': expected a time from 1ms",
            ),
            ("a db 1 ttl-default 36501d", "expected a time"),
            ("a db 1 ttl-jitter 10", "expected 0% to 90%"),
            ("a db 1 ttl-jitter 91%", "expected 0% to 90%"),
            ("a db 1 sliding maybe", "expected yes or no"),
            ("a db 1 sliding yes", "sliding needs ttl-default"),
            ("a db 1 quota 5", "unknown option 'quota': expected prefix"),
            ("a/b db 1", "'a/b' is no name of a class"),
            ("other db 1", "and not 'other'"),
            ("a db 1 ; a db 2", "two classes 'a'"),
            ("a db 1 ; b db 1", "same prefix and database"),
        ] {
            let error = parse(text).map(|_| ()).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
