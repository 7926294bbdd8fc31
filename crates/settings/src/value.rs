//! Parsers from setting texts to values.

use super::classes;
use super::table::Kind;
use crate::points::SavePoint;
use policy::names::is_same;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use store::{Keyspace, PolicyChoice};

/// Error for a text that is neither a number of bytes nor a percentage.
const BYTES_OR_PERCENT: &str =
    "argument must be a memory or percent value such as 104857600, 100mb or 80%";

/// Maximum length of a password in bytes, which bounds the time taken by AUTH.
pub const PASSWORD_BYTES_MAX: usize = 4096;

/// Maximum length of a host name in bytes, as in DNS.
const HOST_BYTES_MAX: usize = 255;

/// A checked value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number, a boolean as 0 or 1, a choice's index, or event bits.
    Number(i64),
    /// A text.
    Text(String),
    /// For each named class, its index, hard bytes, soft bytes and seconds.
    OutputLimits(Vec<(usize, [i64; 3])>),
}

/// Parses and checks the text of a setting.
///
/// # Errors
/// Returns a message that says what is wrong, in Redis's words where Redis has such an error.
pub fn parse(kind: Kind, text: &str) -> Result<Value, String> {
    match kind {
        Kind::Bool => match text.to_ascii_lowercase().as_str() {
            "yes" => Ok(Value::Number(1)),
            "no" => Ok(Value::Number(0)),
            _ => Err("argument must be 'yes' or 'no'".into()),
        },
        Kind::Int(low, high) => {
            let number = text
                .parse::<i64>()
                .map_err(|_| "argument couldn't be parsed into an integer".to_owned())?;
            within(number, low, high)
        }
        Kind::Bytes(low, high) => {
            let number = bytes(text).ok_or(
                "argument must be a memory value, a number of bytes such as 104857600 or 100mb",
            )?;
            within(number, low, high)
        }
        Kind::BytesOrPercent => match text.strip_suffix('%') {
            Some(percent) => percent
                .parse::<i64>()
                .ok()
                .filter(|percent| (1..=100).contains(percent))
                .map(|percent| Value::Number(-percent))
                .ok_or_else(|| BYTES_OR_PERCENT.into()),
            None => bytes(text)
                .map(Value::Number)
                .ok_or_else(|| BYTES_OR_PERCENT.into()),
        },
        Kind::Choice(words) => words
            .iter()
            .position(|word| word.eq_ignore_ascii_case(text))
            .map(|place| Value::Number(place as i64))
            .ok_or_else(|| one_of(words.iter().copied())),
        Kind::Permissions => permissions(text),
        Kind::Secret if text.len() > PASSWORD_BYTES_MAX => Err(format!(
            "argument must have at most {PASSWORD_BYTES_MAX} bytes"
        )),
        Kind::Text | Kind::Secret => Ok(Value::Text(text.to_owned())),
        Kind::Host => host(text).map(|()| Value::Text(text.to_owned())),
        Kind::FileName => file_name(text).map(|_| Value::Text(text.to_owned())),
        Kind::Address => address(text).map(|_| Value::Text(text.to_owned())),
        Kind::SavePoints => {
            let text = if text == "\"\"" { "" } else { text.trim() };
            SavePoint::parse_all(text).map(|_| Value::Text(text.to_owned()))
        }
        Kind::Policy => PolicyChoice::parse(text).map(|choice| Value::Text(choice.name)),
        Kind::Index => index(text),
        Kind::Events => super::events::parse(text.as_bytes())
            .map(|bits| Value::Number(i64::from(bits)))
            .ok_or_else(|| {
                "Invalid event class character. Use 'Ag$lshzxeKEtmdnocSTIV'.".to_owned()
            }),
        Kind::OutputLimits => output_limits(text),
        Kind::Classes => {
            let text = if text == "\"\"" { "" } else { text };
            classes::parse(text).map(|classes| Value::Text(classes::show(&classes)))
        }
        Kind::Percentiles => percentiles(text).map(|_| Value::Text(text.trim().to_owned())),
        Kind::Fixed(allowed) => fixed(allowed, text),
    }
}

/// Checks the text of a setting that accepts some words only.
fn fixed(allowed: &[&str], text: &str) -> Result<Value, String> {
    if !allowed.iter().any(|word| word.eq_ignore_ascii_case(text)) {
        let only = allowed[0];
        return Err(format!(
            "not supported: the only accepted value is '{only}'"
        ));
    }
    let text = if text == "\"\"" { "" } else { text };
    Ok(Value::Text(text.to_ascii_lowercase()))
}

/// Checks the name of a file in `dir`. Each file is a single line in a manifest, so line breaks are
/// refused.
fn file_name(text: &str) -> Result<(), String> {
    if text.is_empty() || text.contains('/') {
        return Err("the file name can't be a path, just a filename".into());
    }
    match text.contains(char::is_control) {
        true => Err("the file name can't contain control characters".into()),
        false => Ok(()),
    }
}

/// Checks a host name or an address. It becomes a part of lines in which blanks, commas and `@` are
/// separators.
fn host(text: &str) -> Result<(), String> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:%".contains(&byte);
    if text.len() > HOST_BYTES_MAX {
        return Err(format!("argument must have at most {HOST_BYTES_MAX} bytes"));
    }
    match text.bytes().all(is_allowed) {
        true => Ok(()),
        false => Err("argument must be a host name or an address, without a port".into()),
    }
}

/// Parses an address with a port: `127.0.0.1:9379`, `[::1]:9379`, `localhost:9379`, `*:9379`, or
/// `9379` for this machine only. Returns `None` for an empty text.
///
/// # Errors
/// Returns a message that says what was expected.
pub fn address(text: &str) -> Result<Option<SocketAddr>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let (host, port) = text.rsplit_once(':').unwrap_or(("localhost", text));
    let ip: Option<IpAddr> = match host {
        "localhost" => Some(Ipv4Addr::LOCALHOST.into()),
        "*" => Some(Ipv4Addr::UNSPECIFIED.into()),
        host => match host
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            Some(inner) => inner.parse().ok().map(IpAddr::V6),
            None => host.parse().ok().map(IpAddr::V4),
        },
    };
    match (ip, port.parse()) {
        (Some(ip), Ok(port)) => Ok(Some(SocketAddr::new(ip, port))),
        _ => Err("argument must be an address and a port such as 127.0.0.1:9379 or [::1]:9379, or a port".into()),
    }
}

fn within(number: i64, low: i64, high: i64) -> Result<Value, String> {
    if (low..=high).contains(&number) {
        Ok(Value::Number(number))
    } else {
        Err(format!(
            "argument must be between {low} and {high} inclusive"
        ))
    }
}

fn permissions(text: &str) -> Result<Value, String> {
    match i64::from_str_radix(text, 8) {
        Ok(bits @ 0..=0o777) => Ok(Value::Number(bits)),
        _ => Err("argument must be an octal number between 0 and 777".into()),
    }
}

fn one_of<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let words: Vec<&str> = words.collect();
    format!(
        "argument(s) must be one of the following: {}",
        words.join(", ")
    )
}

/// Parses the name of an expiry index with optional parameters after colons, such as
/// `sampled:effort=10`. Case, `-` and `_` in the name are ignored.
fn index(text: &str) -> Result<Value, String> {
    let (name, parameters) = text.split_at(text.find(':').unwrap_or(text.len()));
    let names = Keyspace::expiry_names();
    let known = names.iter().find(|known| is_same(known, name));
    let known = known.ok_or_else(|| one_of(names.iter().map(String::as_str)))?;
    let text = format!("{known}{}", parameters.to_ascii_lowercase());
    Keyspace::check_expiry(&text).map(|()| Value::Text(text))
}

/// Parses numbers between 0 and 100, separated by blanks.
///
/// # Errors
/// A word is not a number or is out of range.
pub fn percentiles(text: &str) -> Result<Vec<f64>, String> {
    text.split_ascii_whitespace()
        .map(|word| match word.parse::<f64>() {
            Ok(number) if (0.0..=100.0).contains(&number) => Ok(number),
            _ => Err("latency-tracking-info-percentiles parameter must be a percentage".into()),
        })
        .collect()
}

/// Parses bytes with an optional unit: `1k` is 1,000, `1kb` is 1,024, and so on to `tb`.
pub fn bytes(text: &str) -> Option<i64> {
    i64::try_from(units::bytes(text).ok()?).ok()
}

/// Formats a number of bytes like INFO: `1.50M`.
pub fn bytes_for_people(bytes: u64) -> String {
    let number = bytes as f64;
    for (unit, letter) in [
        (1u64 << 40, 'T'),
        (1 << 30, 'G'),
        (1 << 20, 'M'),
        (1 << 10, 'K'),
    ] {
        if bytes >= unit {
            return format!("{:.2}{letter}", number / unit as f64);
        }
    }
    format!("{bytes}B")
}

fn output_limits(text: &str) -> Result<Value, String> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    if words.is_empty() || !words.len().is_multiple_of(4) {
        return Err("Wrong number of arguments in buffer limit configuration.".into());
    }
    let mut limits = Vec::new();
    for group in words.chunks(4) {
        let class = match group[0].to_ascii_lowercase().as_str() {
            "normal" => 0,
            "slave" | "replica" => 1,
            "pubsub" => 2,
            _ => {
                return Err("Invalid client class specified in buffer limit configuration.".into());
            }
        };
        let wrong = || {
            "Error in hard, soft or soft_seconds setting in buffer limit configuration.".to_owned()
        };
        let hard = bytes(group[1]).ok_or_else(wrong)?;
        let soft = bytes(group[2]).ok_or_else(wrong)?;
        let seconds = group[3].parse::<i64>().ok().filter(|number| *number >= 0);
        limits.push((class, [hard, soft, seconds.ok_or_else(wrong)?]));
    }
    Ok(Value::OutputLimits(limits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_accept_units() {
        for (text, expected) in [
            ("0", Some(0)),
            ("100", Some(100)),
            ("1k", Some(1_000)),
            ("1Kb", Some(1_024)),
            ("100mb", Some(104_857_600)),
            ("1gb", Some(1 << 30)),
            ("1g", Some(1_000_000_000)),
            ("-1", None),
            ("1x", None),
            ("", None),
            ("99999999999gb", None),
        ] {
            assert_eq!(bytes(text), expected, "{text}");
        }
        assert_eq!(bytes_for_people(512), "512B");
        assert_eq!(bytes_for_people(1_572_864), "1.50M");
    }

    #[test]
    fn a_limit_may_be_bytes_or_a_percentage() {
        let number = |text| parse(Kind::BytesOrPercent, text);
        assert_eq!(number("0"), Ok(Value::Number(0)));
        assert_eq!(number("64mb"), Ok(Value::Number(64 << 20)));
        assert_eq!(number("5%"), Ok(Value::Number(-5)));
        assert_eq!(number("100%"), Ok(Value::Number(-100)));
        let permissions = |text| parse(Kind::Permissions, text);
        assert_eq!(permissions("770"), Ok(Value::Number(0o770)));
        for wrong in ["", "8", "1000", "-1", "rwx"] {
            assert!(permissions(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "%", "0%", "-5%", "101%", "5 %", "x%", "-1", "5.5%"] {
            assert!(number(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn policies_and_indexes_accept_parameters() {
        let text = |text: &str| Ok(Value::Text(text.to_owned()));
        assert_eq!(
            parse(Kind::Policy, "allkeys-CLOCK:2"),
            text("allkeys-clock:2")
        );
        assert_eq!(
            parse(Kind::Policy, "allkeys-S3-FIFO"),
            text("allkeys-s3fifo")
        );
        assert_eq!(
            parse(Kind::Index, "sampled:effort=10"),
            text("sampled:effort=10")
        );
        let error = |kind, text: &str| parse(kind, text).expect_err("it is not valid");
        assert!(error(Kind::Policy, "allkeys-clock:9").contains("1 to 3"));
        assert!(error(Kind::Index, "sampled:effort=99").contains("1 to 10"));
        assert!(error(Kind::Index, "hourglass").contains("one of the following: wheel"));
        let refused = error(Kind::Policy, "allkeys-clock2");
        assert!(
            refused.contains("did you mean 'allkeys-clock'"),
            "{refused}"
        );
        assert!(refused.len() < 400, "{refused}");
    }

    #[test]
    fn output_limits_may_name_only_some_classes() {
        assert_eq!(
            parse(Kind::OutputLimits, "pubsub 1mb 0 10"),
            Ok(Value::OutputLimits(vec![(2, [1 << 20, 0, 10])]))
        );
        for wrong in [
            "",
            "pubsub 1",
            "nobody 0 0 0",
            "normal x 0 0",
            "normal 0 0 -1",
        ] {
            assert!(parse(Kind::OutputLimits, wrong).is_err(), "{wrong}");
        }
    }
}
