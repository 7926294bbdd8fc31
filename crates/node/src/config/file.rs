//! Configuration file: options of the program, origins and rules, in TOML.
//!
//! Keys at the top are options of `mayfly edge serve` under their names there; this module only
//! splits them, with their lines. `[[origin]]` and `[[rule]]` are read completely. Every error of
//! this module names the line; `Config::check` finds errors between tables, which have none.

use super::{Health, Invalid, Origin, server};
use crate::rules::coding::Coding;
use crate::rules::operator::{Pattern, Rule};
use std::time::Duration;
use toml::de::{DeTable, DeValue};

/// Maximum number of origins and of rules, because each request compares them in order.
const TABLES_MAX: usize = 1_000;
/// Maximum number of entries of a list, because each request may compare them in order.
const LIST_MAX: usize = 1_000;
/// Maximum length of a text in a list in bytes, because a pattern is searched for in each request.
const TEXT_BYTES_MAX: usize = 1_024;
/// Default of [`Health::interval`].
const HEALTH_INTERVAL: Duration = Duration::from_secs(5);

/// Content of a configuration file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct File {
    /// Options in the order of their names.
    pub options: Vec<Setting>,
    /// Origins.
    pub origins: Vec<Origin>,
    /// Rules, first match first.
    pub rules: Vec<Rule>,
}

/// Option in a configuration file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting {
    /// Number of the line, from 1.
    pub line: usize,
    /// Name of the option without the hyphens before it.
    pub name: String,
    /// Values as text; none for a flag that is off.
    pub values: Vec<Value>,
}

/// Value of an option.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    /// Text or a number.
    Text(String),
    /// A flag that is on.
    On,
}

/// Key and value of a table, with the key's line.
struct Field<'t, 'i> {
    line: usize,
    name: &'t str,
    value: &'t DeValue<'i>,
}

impl File {
    /// Parses the text of a file.
    ///
    /// # Errors
    /// Returns the first error, with its line.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let lines = Lines::of(text);
        let table = DeTable::parse(text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start);
            Invalid(format!("line {}: {}", lines.line(start), error.message()))
        })?;
        let mut file = File::default();
        for field in fields(&lines, table.get_ref()) {
            match field.name {
                "origin" => {
                    for table in field.tables()? {
                        file.origins.push(origin(&lines, &field, table)?);
                    }
                }
                "rule" => {
                    for table in field.tables()? {
                        file.rules.push(rule(&lines, table)?);
                    }
                }
                _ => file.options.push(field.setting()?),
            }
        }
        Ok(file)
    }
}

/// Offsets of the line ends of a text, so that the line of each key costs a binary search.
struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Self {
        let bytes = text.bytes().enumerate();
        let ends = bytes.filter(|(_, byte)| *byte == b'\n');
        Lines(ends.map(|(at, _)| at).collect())
    }

    /// Returns the number of the line that contains an offset, from 1.
    fn line(&self, at: usize) -> usize {
        1 + self.0.partition_point(|end| *end < at)
    }
}

fn fields<'t, 'i>(lines: &Lines, table: &'t DeTable<'i>) -> Vec<Field<'t, 'i>> {
    let fields = table.iter().map(|(name, value)| Field {
        line: lines.line(name.span().start),
        name: name.get_ref(),
        value: value.get_ref(),
    });
    let mut fields: Vec<_> = fields.collect();
    fields.sort_by_key(|field| field.line);
    fields
}

impl<'t, 'i> Field<'t, 'i> {
    fn invalid(&self, expected: &str) -> Invalid {
        Invalid(format!(
            "line {}: {}: expected {expected}",
            self.line, self.name
        ))
    }

    fn tables(&self) -> Result<Vec<&'t DeTable<'i>>, Invalid> {
        let tables = self.value.as_array().filter(|all| all.len() <= TABLES_MAX);
        let tables = tables.map(|all| all.iter().map(|table| table.get_ref().as_table()));
        let tables: Option<Vec<_>> = tables.and_then(Iterator::collect);
        let name = self.name;
        tables.ok_or_else(|| self.invalid(&format!("at most {TABLES_MAX} tables [[{name}]]")))
    }

    /// Returns a text or a number as text.
    fn scalar(value: &DeValue<'_>) -> Option<String> {
        match value {
            DeValue::String(text) => Some(text.to_string()),
            DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str().to_owned()),
            _ => None,
        }
    }

    fn setting(&self) -> Result<Setting, Invalid> {
        let values = match self.value {
            DeValue::Boolean(is_on) => Some(is_on.then_some(Value::On).into_iter().collect()),
            DeValue::Array(values) => {
                self.check_length(values.len())?;
                let texts = values.iter().map(|value| Self::scalar(value.get_ref()));
                texts.map(|text| text.map(Value::Text)).collect()
            }
            value => Self::scalar(value).map(|text| vec![Value::Text(text)]),
        };
        let expected = "a text, a whole number, true, false, or a list of texts";
        Ok(Setting {
            line: self.line,
            name: self.name.to_owned(),
            values: values.ok_or_else(|| self.invalid(expected))?,
        })
    }

    fn text(&self) -> Result<&'t str, Invalid> {
        self.value.as_str().ok_or_else(|| self.invalid("a text"))
    }

    fn flag(&self) -> Result<bool, Invalid> {
        self.value
            .as_bool()
            .ok_or_else(|| self.invalid("true or false"))
    }

    fn texts(&self) -> Result<Vec<&'t str>, Invalid> {
        let all = self.value.as_array();
        let all = all.ok_or_else(|| self.invalid("a list of texts"))?;
        self.check_length(all.len())?;
        let texts = all.iter().map(|text| text.get_ref().as_str());
        let texts: Option<Vec<_>> = texts.collect();
        let texts = texts.ok_or_else(|| self.invalid("a list of texts"))?;
        match texts.iter().all(|text| text.len() <= TEXT_BYTES_MAX) {
            true => Ok(texts),
            false => Err(self.invalid(&format!("texts of at most {TEXT_BYTES_MAX} bytes"))),
        }
    }

    fn check_length(&self, length: usize) -> Result<(), Invalid> {
        match length <= LIST_MAX {
            true => Ok(()),
            false => Err(self.invalid(&format!("at most {LIST_MAX} entries"))),
        }
    }

    fn patterns(&self) -> Result<Vec<Pattern>, Invalid> {
        let texts = self.texts()?;
        Ok(texts.into_iter().map(Pattern::new).collect())
    }

    /// Returns a list of hosts in lower case.
    fn hosts(&self) -> Result<Vec<String>, Invalid> {
        let hosts = self.texts()?;
        let is_host = |host: &&str| !host.is_empty() && !host.contains(['/', '@', ' ']);
        match hosts.iter().all(is_host) {
            true => Ok(hosts.iter().map(|host| host.to_ascii_lowercase()).collect()),
            false => Err(self.invalid("a list of hosts such as \"www.example.org\"")),
        }
    }

    fn span(&self) -> Result<Duration, Invalid> {
        self.span_of(self.value)
    }

    fn span_of(&self, value: &DeValue<'_>) -> Result<Duration, Invalid> {
        let text = Self::scalar(value).unwrap_or_default();
        let invalid = |error| Invalid(format!("line {}: {}: {error}", self.line, self.name));
        units::span(&text).map_err(invalid)
    }

    fn unknown(&self, table: &str, names: &str) -> Invalid {
        let Field { line, name, .. } = self;
        Invalid(format!(
            "line {line}: {name}: expected a key of [[{table}]]: {names}"
        ))
    }
}

fn origin(lines: &Lines, at: &Field<'_, '_>, table: &DeTable<'_>) -> Result<Origin, Invalid> {
    const NAMES: &str = "hosts, servers, health or health-interval";
    let mut origin = Origin {
        hosts: vec![],
        servers: vec![],
        health: None,
    };
    let (mut path, mut interval, mut last) = (None, None, at.line);
    for field in fields(lines, table) {
        last = field.line;
        match field.name {
            "hosts" => origin.hosts = field.hosts()?,
            "servers" => {
                let servers = field.texts()?.into_iter().map(server);
                origin.servers = servers.collect::<Option<_>>().ok_or_else(|| {
                    field.invalid("a list of servers such as \"http://10.0.0.1:3000\"")
                })?;
            }
            "health" => {
                let is_path = |path: &&str| path.starts_with('/') && !path.contains(' ');
                let given = Some(field.text()?).filter(is_path);
                let given = given.ok_or_else(|| field.invalid("a path such as \"/health\""))?;
                path = Some(given.to_owned());
            }
            "health-interval" => {
                let given = field.span()?;
                if given < Duration::from_millis(100) {
                    return Err(field.invalid("at least 100ms"));
                }
                interval = Some((field.line, given));
            }
            _ => return Err(field.unknown("origin", NAMES)),
        }
    }
    if origin.servers.is_empty() {
        return Err(Invalid(format!(
            "line {last}: servers: expected at least one"
        )));
    }
    origin.health = match (path, interval) {
        (Some(path), interval) => Some(Health {
            path,
            interval: interval.map_or(HEALTH_INTERVAL, |(_, interval)| interval),
        }),
        (None, Some((line, _))) => {
            return Err(Invalid(format!(
                "line {line}: health-interval: expected health, too"
            )));
        }
        (None, None) => None,
    };
    Ok(origin)
}

fn rule(lines: &Lines, table: &DeTable<'_>) -> Result<Rule, Invalid> {
    const NAMES: &str = "hosts, paths, bypass, bypass-cookies, arguments, ignore-arguments, \
        cookies, lifetime, lifetimes, stale-if-error, keep or compress";
    let mut rule = Rule::default();
    let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    for field in fields(lines, table) {
        match field.name {
            "hosts" => rule.hosts = field.hosts()?.into_iter().map(Pattern::new).collect(),
            "paths" => rule.paths = field.patterns()?,
            "bypass" => rule.is_bypassed = field.flag()?,
            "bypass-cookies" => rule.bypass_cookies = field.patterns()?,
            "arguments" => rule.arguments = Some(field.patterns()?),
            "ignore-arguments" => rule.ignored_arguments = field.patterns()?,
            "cookies" => rule.cookies = Some(field.patterns()?),
            "lifetime" => rule.lifetime_ms = Some(millis(field.span()?)),
            "lifetimes" => {
                let expected = "a table of statuses and times such as { 404 = \"10s\" }";
                let table = field.value.as_table();
                for (status, span) in table.ok_or_else(|| field.invalid(expected))? {
                    let digits = status.get_ref();
                    let status = digits.parse().ok().filter(|_| digits.len() == 3);
                    let status = status.filter(|status| (200..600).contains(status));
                    let status = status.ok_or_else(|| field.invalid(expected))?;
                    let span = field.span_of(span.get_ref())?;
                    rule.lifetimes_ms.push((status, millis(span)));
                }
            }
            "stale-if-error" => rule.error_ms = Some(millis(field.span()?)),
            "keep" => rule.keep_ms = Some(millis(field.span()?)),
            "compress" => {
                let codings = field.texts()?.into_iter().map(str::parse::<Coding>);
                let codings: Result<Vec<Coding>, String> = codings.collect();
                let invalid = || field.invalid("a list of \"br\", \"zstd\" and \"gzip\"");
                rule.codings = codings.map_err(|_| invalid())?;
            }
            _ => return Err(field.unknown("rule", NAMES)),
        }
    }
    Ok(rule)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = r#"
# A comment.
listen = ["0.0.0.0:80", "[::]:80"]
memory = "4gb"
threads = 2
peer-plain = false
standalone = true

[[origin]]
hosts = ["WWW.example.org"]
servers = ["http://10.0.0.1:3000", "https://b"]
health = "/health"

[[origin]]
servers = ["http://c"]

[[rule]]
hosts = ["*.example.org"]
paths = ["/static/*"]
ignore-arguments = ["utm_*"]
lifetime = "1d"
lifetimes = { 404 = "10s", 301 = 60 }
cookies = []
compress = ["br", "gzip"]

[[rule]]
bypass = true
"#;

    #[test]
    fn a_file_is_read_with_its_lines() {
        let file = File::parse(TEXT).expect("the text is valid");
        let text = |text: &str| Value::Text(text.into());
        let options: Vec<_> = file
            .options
            .iter()
            .map(|setting| (setting.line, setting.name.as_str(), setting.values.clone()))
            .collect();
        let expected = [
            (3, "listen", vec![text("0.0.0.0:80"), text("[::]:80")]),
            (4, "memory", vec![text("4gb")]),
            (5, "threads", vec![text("2")]),
            (6, "peer-plain", vec![]),
            (7, "standalone", vec![Value::On]),
        ];
        assert_eq!(options, expected);
        assert_eq!(file.origins[0].hosts, ["www.example.org"]);
        assert_eq!(file.origins[0].servers.len(), 2);
        let health = file.origins[0].health.as_ref().expect("it is set");
        assert_eq!(
            (&*health.path, health.interval),
            ("/health", HEALTH_INTERVAL)
        );
        assert!(file.origins[1].hosts.is_empty() && file.origins[1].health.is_none());
        let rule = &file.rules[0];
        assert_eq!(rule.lifetime_ms, Some(86_400_000));
        assert_eq!(rule.cookies, Some(vec![]));
        assert_eq!(rule.codings, [Coding::Brotli, Coding::Gzip]);
        let mut lifetimes = rule.lifetimes_ms.clone();
        lifetimes.sort_unstable();
        assert_eq!(lifetimes, [(301, 60_000), (404, 10_000)]);
        assert!(file.rules[1].is_bypassed);
    }

    #[test]
    fn errors_name_the_line_and_what_was_expected() {
        for (text, expected) in [
            ("a = 1\na = 2", "line 2: "),
            ("a = ", "line 1: "),
            ("\na = 1.5", "line 2: a: expected a text"),
            ("a = [[1]]", "line 1: a: expected a text"),
            ("origin = 1", "line 1: origin: expected at most 1000 tables"),
            (
                "[[origin]]\nhosts = [\"a\"]",
                "line 2: servers: expected at least one",
            ),
            (
                "[[origin]]\nservers = [\"a\"]",
                "line 2: servers: expected a list of servers",
            ),
            (
                "[[origin]]\nservers = [\"http://a/b\"]",
                "line 2: servers: expected a list",
            ),
            (
                "[[origin]]\nserver = \"http://a\"",
                "line 2: server: expected a key of [[origin]]",
            ),
            (
                "[[origin]]\nservers = [\"http://a\"]\nhealth = \"x\"",
                "line 3: health: expected a path",
            ),
            (
                "[[origin]]\nservers = [\"http://a\"]\nhealth-interval = 5",
                "line 3: health-interval: expected health, too",
            ),
            (
                "[[rule]]\nhosts = [\"a/b\"]",
                "line 2: hosts: expected a list of hosts",
            ),
            ("[[rule]]\n\nlifetime = \"1x\"", "line 3: lifetime: "),
            (
                "[[rule]]\nlifetimes = { x = 1 }",
                "line 2: lifetimes: expected a table",
            ),
            (
                "[[rule]]\nbypass = 1",
                "line 2: bypass: expected true or false",
            ),
            (
                "[[rule]]\ncompress = [\"deflate\"]",
                "line 2: compress: expected a list of \"br\", \"zstd\" and \"gzip\"",
            ),
            (
                "[[rule]]\nbypas = true",
                "line 2: bypas: expected a key of [[rule]]: hosts",
            ),
        ] {
            let error = File::parse(text).expect_err(text).to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }

    /// Regression: lists had no limit, and the time to read a file grew with the square of its
    /// size.
    #[test]
    fn lists_and_their_texts_have_limits() {
        let list = |count: usize, text: &str| {
            let texts = vec![format!("\"{text}\""); count].join(", ");
            File::parse(&format!("[[rule]]\npaths = [{texts}]")).map_err(|error| error.0)
        };
        assert!(list(LIST_MAX, &"x".repeat(TEXT_BYTES_MAX)).is_ok());
        let error = list(LIST_MAX + 1, "x").expect_err("the list is too long");
        assert_eq!(error, "line 2: paths: expected at most 1000 entries");
        let long = "x".repeat(TEXT_BYTES_MAX + 1);
        let error = list(1, &long).expect_err("the text is too long");
        assert_eq!(error, "line 2: paths: expected texts of at most 1024 bytes");
        let listen = vec!["\"x\""; LIST_MAX + 1].join(", ");
        let error = File::parse(&format!("listen = [{listen}]"));
        assert!(error.is_err_and(|error| error.0.contains("at most 1000 entries")));
    }

    proptest! {
        #[test]
        fn lines_are_found_as_by_counting(text in "[a\n]{0,40}", at in 0_usize..45) {
            let before = text.as_bytes().get(..at).unwrap_or(text.as_bytes());
            let expected = 1 + before.iter().filter(|byte| **byte == b'\n').count();
            prop_assert_eq!(Lines::of(&text).line(at), expected);
        }

        #[test]
        fn damaged_files_are_refused_or_read(at in 0..TEXT.len(), byte in 0_u8..128) {
            let mut bytes = TEXT.as_bytes().to_vec();
            bytes[at] = byte;
            let text = String::from_utf8(bytes).expect("all bytes are ASCII");
            let _ = File::parse(&text);
        }
    }
}
