//! Targeted cache control (RFC 9213): CDN-Cache-Control, a dictionary of structured fields
//! (RFC 9651) that replaces Cache-Control, Expires and Pragma for caches like this one.
//!
//! Unlike Cache-Control the field is parsed strictly: if any part is malformed, or a directive's
//! value has a wrong type, the whole field is ignored.

use super::directives::{Directives, SECONDS_MAX};
use hyper::header::{HeaderMap, HeaderName};

/// Name of the field.
pub const FIELD: &str = "cdn-cache-control";

/// Maximum number of bytes of all lines together. A longer field is ignored.
const BYTES_MAX: usize = 4_096;

/// Value of a dictionary member.
#[derive(Clone, PartialEq, Debug)]
enum Item {
    Integer(i64),
    Boolean(bool),
    String(String),
    /// A value of a type that no directive has: a decimal, a token, bytes, a date, or a list.
    Other,
}

/// Returns the directives of CDN-Cache-Control; `None` if the field is absent, empty or malformed.
pub fn directives(headers: &HeaderMap) -> Option<Directives> {
    let mut text = vec![];
    for line in headers.get_all(FIELD) {
        if !text.is_empty() {
            text.extend_from_slice(b", ");
        }
        text.extend_from_slice(line.as_bytes());
        if text.len() > BYTES_MAX {
            return None;
        }
    }
    let members = Parser(&text).dictionary()?;
    if members.is_empty() {
        return None;
    }
    let mut directives = Directives::default();
    for (name, item) in members {
        set(&mut directives, &name, &item)?;
    }
    Some(directives)
}

/// Applies a member. If a name is repeated, its last member counts, as in every dictionary. Returns
/// `None` if the value has the wrong type.
fn set(directives: &mut Directives, name: &str, item: &Item) -> Option<()> {
    let seconds = || match item {
        Item::Integer(number) => Some(u64::try_from(*number).unwrap_or(0).min(SECONDS_MAX)),
        _ => None,
    };
    let flag = || match item {
        Item::Boolean(is_set) => Some(*is_set),
        _ => None,
    };
    match name {
        "max-age" => directives.max_age = Some(seconds()?),
        "s-maxage" => directives.s_maxage = Some(seconds()?),
        "stale-while-revalidate" => directives.stale_while_revalidate = Some(seconds()?),
        "stale-if-error" => directives.stale_if_error = Some(seconds()?),
        "no-store" => directives.has_no_store = flag()?,
        "public" => directives.is_public = flag()?,
        "must-revalidate" => directives.has_must_revalidate = flag()?,
        "proxy-revalidate" => directives.has_proxy_revalidate = flag()?,
        "must-understand" => directives.has_must_understand = flag()?,
        "immutable" => directives.is_immutable = flag()?,
        "no-cache" => directives.has_no_cache = flag_or_list(directives, item)?,
        "private" => directives.is_private = flag_or_list(directives, item)?,
        _ => {}
    }
    Some(())
}

/// Returns true if the directive concerns the whole response. A string lists fields instead.
fn flag_or_list(directives: &mut Directives, item: &Item) -> Option<bool> {
    match item {
        Item::Boolean(is_set) => Some(*is_set),
        Item::String(list) => {
            let names: Option<Vec<HeaderName>> = list
                .split(',')
                .map(|name| name.trim().parse().ok())
                .collect();
            directives.listed_fields.extend(names?);
            Some(false)
        }
        _ => None,
    }
}

/// Parser with the rest of the text.
struct Parser<'a>(&'a [u8]);

impl Parser<'_> {
    fn dictionary(mut self) -> Option<Vec<(String, Item)>> {
        let mut members = vec![];
        self.skip(b" ");
        while !self.0.is_empty() {
            let name = self.key()?;
            let item = if self.take(b'=') {
                self.item_or_list()?
            } else {
                self.parameters()?;
                Item::Boolean(true)
            };
            members.push((name, item));
            self.skip(b" \t");
            if self.0.is_empty() {
                return Some(members);
            }
            if !self.take(b',') {
                return None;
            }
            self.skip(b" \t");
            // The text must not end with a comma.
            self.0.first()?;
        }
        Some(members)
    }

    fn key(&mut self) -> Option<String> {
        let first = *self.0.first()?;
        if !first.is_ascii_lowercase() && first != b'*' {
            return None;
        }
        let is_part = |byte: &u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(byte)
        };
        Some(self.while_true(is_part))
    }

    fn item_or_list(&mut self) -> Option<Item> {
        if !self.take(b'(') {
            let item = self.bare_item()?;
            self.parameters()?;
            return Some(item);
        }
        loop {
            self.skip(b" ");
            if self.take(b')') {
                self.parameters()?;
                return Some(Item::Other);
            }
            self.bare_item()?;
            self.parameters()?;
            if !matches!(self.0.first(), Some(b' ' | b')')) {
                return None;
            }
        }
    }

    fn parameters(&mut self) -> Option<()> {
        while self.take(b';') {
            self.skip(b" ");
            self.key()?;
            if self.take(b'=') {
                self.bare_item()?;
            }
        }
        Some(())
    }

    fn bare_item(&mut self) -> Option<Item> {
        match *self.0.first()? {
            b'-' | b'0'..=b'9' => self.number(),
            b'"' => self.string().map(Item::String),
            b'?' => {
                self.0 = &self.0[1..];
                let is_true = self.take(b'1');
                (is_true || self.take(b'0')).then_some(Item::Boolean(is_true))
            }
            b'@' => {
                self.0 = &self.0[1..];
                matches!(self.number()?, Item::Integer(_)).then_some(Item::Other)
            }
            b':' => {
                self.0 = &self.0[1..];
                let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=".contains(byte);
                self.while_true(is_part);
                self.take(b':').then_some(Item::Other)
            }
            byte if byte.is_ascii_alphabetic() || byte == b'*' => {
                let is_part =
                    |byte: &u8| super::directives::is_token(*byte) || b":/".contains(byte);
                self.while_true(is_part);
                Some(Item::Other)
            }
            _ => None,
        }
    }

    /// Parses a number of at most 15 digits: up to 12 before a decimal point and up to 3 after it.
    fn number(&mut self) -> Option<Item> {
        let is_negative = self.take(b'-');
        let digits = self.while_true(u8::is_ascii_digit);
        if self.take(b'.') {
            let decimals = self.while_true(u8::is_ascii_digit);
            let is_right = (1..=12).contains(&digits.len()) && (1..=3).contains(&decimals.len());
            return is_right.then_some(Item::Other);
        }
        if digits.len() > 15 {
            return None;
        }
        let number: i64 = digits.parse().ok()?;
        Some(Item::Integer(if is_negative { -number } else { number }))
    }

    fn string(&mut self) -> Option<String> {
        let mut text = String::new();
        let mut at = 1;
        loop {
            match *self.0.get(at)? {
                b'"' => break,
                b'\\' => {
                    at += 1;
                    let escaped = *self.0.get(at)?;
                    if escaped != b'"' && escaped != b'\\' {
                        return None;
                    }
                    text.push(char::from(escaped));
                }
                byte @ 0x20..=0x7e => text.push(char::from(byte)),
                _ => return None,
            }
            at += 1;
        }
        self.0 = &self.0[at + 1..];
        Some(text)
    }

    fn while_true(&mut self, is_part: impl Fn(&u8) -> bool) -> String {
        let end = self.0.iter().position(|byte| !is_part(byte));
        let (text, rest) = self.0.split_at(end.unwrap_or(self.0.len()));
        self.0 = rest;
        text.iter().copied().map(char::from).collect()
    }

    fn take(&mut self, byte: u8) -> bool {
        let is_next = self.0.first() == Some(&byte);
        if is_next {
            self.0 = &self.0[1..];
        }
        is_next
    }

    fn skip(&mut self, bytes: &[u8]) {
        let end = self.0.iter().position(|byte| !bytes.contains(byte));
        self.0 = &self.0[end.unwrap_or(self.0.len())..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;
    use proptest::prelude::*;

    fn read(line: &str) -> Option<Directives> {
        let mut headers = HeaderMap::new();
        headers.insert(
            FIELD,
            HeaderValue::from_str(line).expect("the input is valid"),
        );
        directives(&headers)
    }

    #[test]
    fn lifetimes_and_flags_are_read() {
        let read = read("foobar, max-age=3600;x=1, private=?0, no-store , public=?1")
            .expect("the input is valid");
        assert_eq!(read.max_age, Some(3_600));
        assert!(read.has_no_store && read.is_public && !read.is_private);
    }

    #[test]
    fn lists_of_fields_are_strings() {
        let read = read(r#"no-cache="a, b", other=("x" y;z 1.5)"#).expect("the input is valid");
        assert!(!read.has_no_cache);
        assert_eq!(read.listed_fields, ["a", "b"]);
    }

    #[test]
    fn a_malformed_part_voids_the_field() {
        for line in [
            "max-age=10000, &&&&&",
            r#"max-age="10000""#,
            "max-age =100",
            "max-age= 100",
            "MaX-aGe=3600",
            "max-age=1,",
            "max-age=1 no-store",
            "max-age=1.5555",
            "max-age=10.",
            "max-age=1234567890123456",
            "no-store=1",
            "x=(a",
            "x=\"a",
            "x=?2",
            "",
            ",",
        ] {
            assert_eq!(read(line), None, "{line}");
        }
    }

    #[test]
    fn negative_lifetimes_are_stale_and_long_ones_have_a_maximum() {
        assert_eq!(
            read("max-age=-5").expect("the input is valid").max_age,
            Some(0)
        );
        assert_eq!(
            read("max-age=99999999999")
                .expect("the input is valid")
                .max_age,
            Some(SECONDS_MAX)
        );
    }

    #[test]
    fn lines_are_joined() {
        let mut headers = HeaderMap::new();
        headers.append(FIELD, HeaderValue::from_static("max-age=1"));
        headers.append(FIELD, HeaderValue::from_static("must-revalidate"));
        let read = directives(&headers).expect("the input is valid");
        assert_eq!(read.max_age, Some(1));
        assert!(read.has_must_revalidate);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(line in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = Parser(&line).dictionary();
        }

        #[test]
        fn text_of_the_alphabet_is_read_without_a_panic(line in r#"[a-z0-9"\\=;,?@:(). *-]{0,60}"#) {
            let _ = Parser(line.as_bytes()).dictionary();
        }
    }
}
