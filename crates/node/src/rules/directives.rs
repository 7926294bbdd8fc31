//! The header field Cache-Control (RFC 9111, section 5.2; RFC 5861; RFC 8246).
//!
//! Parsing is lenient where the specification allows both: unknown directives are skipped, and a
//! directive with a malformed lifetime counts as a lifetime of zero (section 4.2.1). Of repeated
//! directives the first one counts.

use hyper::header::{HeaderMap, HeaderName, HeaderValue};

/// Maximum lifetime in seconds, which represents all longer ones (RFC 9111, section 1.2.2).
pub const SECONDS_MAX: u64 = 1 << 31;
/// Maximum number of field names that `no-cache` and `private` may list. With more of them the
/// directive counts as one without a list, which is stricter.
const FIELDS_MAX: usize = 32;

/// Directives of a request or a response.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Directives {
    /// `max-age` in seconds.
    pub max_age: Option<u64>,
    /// `s-maxage` in seconds.
    pub s_maxage: Option<u64>,
    /// `stale-while-revalidate` in seconds.
    pub stale_while_revalidate: Option<u64>,
    /// `stale-if-error` in seconds.
    pub stale_if_error: Option<u64>,
    /// `min-fresh` of a request in seconds.
    pub min_fresh: Option<u64>,
    /// `max-stale` of a request in seconds; without a value it is [`SECONDS_MAX`].
    pub max_stale: Option<u64>,
    /// Whether `no-store` is present.
    pub has_no_store: bool,
    /// Whether `no-cache` is present without a list of fields.
    pub has_no_cache: bool,
    /// Whether `private` is present without a list of fields.
    pub is_private: bool,
    /// Whether `public` is present.
    pub is_public: bool,
    /// Whether `must-revalidate` is present.
    pub has_must_revalidate: bool,
    /// Whether `proxy-revalidate` is present.
    pub has_proxy_revalidate: bool,
    /// Whether `must-understand` is present.
    pub has_must_understand: bool,
    /// Whether `immutable` is present.
    pub is_immutable: bool,
    /// Whether `only-if-cached` is present.
    pub is_only_if_cached: bool,
    /// Fields that `no-cache` and `private` list. They must not be reused without validation.
    pub listed_fields: Vec<HeaderName>,
}

impl Directives {
    /// Reads all lines of Cache-Control.
    pub fn of(headers: &HeaderMap) -> Self {
        let mut directives = Directives::default();
        for line in headers.get_all("cache-control") {
            directives.read(line.as_bytes());
        }
        directives
    }

    /// Reads the directives of a request. Without Cache-Control, Pragma counts (RFC 9111, section
    /// 5.4).
    pub fn of_request(headers: &HeaderMap) -> Self {
        let mut directives = Directives::of(headers);
        let pragma = headers.get("pragma").map(HeaderValue::as_bytes);
        if pragma == Some(b"no-cache") && !headers.contains_key("cache-control") {
            directives.has_no_cache = true;
        }
        directives
    }

    /// Reads the directives of one line.
    pub fn read(&mut self, line: &[u8]) {
        for (name, argument) in Members(line) {
            self.set(name, argument.as_ref());
        }
    }

    fn set(&mut self, name: &[u8], argument: Option<&Argument>) {
        let mut lower = [0; 24];
        let Some(lower) = lower.get_mut(..name.len()) else {
            return;
        };
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        let first = |seconds: &mut Option<u64>| {
            seconds.get_or_insert_with(|| argument.map_or(0, Argument::seconds));
        };
        match &*lower {
            b"max-age" => first(&mut self.max_age),
            b"s-maxage" => first(&mut self.s_maxage),
            b"stale-while-revalidate" => first(&mut self.stale_while_revalidate),
            b"stale-if-error" => first(&mut self.stale_if_error),
            b"min-fresh" => first(&mut self.min_fresh),
            b"max-stale" => {
                let seconds = argument.map_or(SECONDS_MAX, Argument::seconds);
                self.max_stale.get_or_insert(seconds);
            }
            b"no-store" => self.has_no_store = true,
            b"public" => self.is_public = true,
            b"must-revalidate" => self.has_must_revalidate = true,
            b"proxy-revalidate" => self.has_proxy_revalidate = true,
            b"must-understand" => self.has_must_understand = true,
            b"immutable" => self.is_immutable = true,
            b"only-if-cached" => self.is_only_if_cached = true,
            b"no-cache" => self.has_no_cache |= !self.list(argument),
            b"private" => self.is_private |= !self.list(argument),
            _ => {}
        }
    }

    /// Adds the fields that a directive lists. Returns false if it has no usable list, so that the
    /// directive concerns the whole response.
    fn list(&mut self, argument: Option<&Argument>) -> bool {
        let Some(argument) = argument else {
            return false;
        };
        let names: Result<Vec<_>, _> = argument
            .0
            .split(|&byte| byte == b',')
            .map(<[u8]>::trim_ascii)
            .filter(|name| !name.is_empty())
            .map(HeaderName::from_bytes)
            .collect();
        match names {
            Ok(names)
                if !names.is_empty() && self.listed_fields.len() + names.len() <= FIELDS_MAX =>
            {
                self.listed_fields.extend(names);
                true
            }
            _ => false,
        }
    }
}

/// Parses a number of seconds, which must consist of digits. Numbers above [`SECONDS_MAX`] become
/// that number.
pub fn seconds(text: &[u8]) -> Option<u64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |sum: u64, digit: &u8| (sum * 10 + u64::from(digit - b'0')).min(SECONDS_MAX);
    Some(text.iter().fold(0, add))
}

/// Parses the field Age (RFC 9111, section 5.1): the first member of the first line. Anything but a
/// number of seconds is ignored.
pub fn age(headers: &HeaderMap) -> Option<u64> {
    let line: &HeaderValue = headers.get("age")?;
    let first = line.as_bytes().split(|&byte| byte == b',').next()?;
    seconds(first.trim_ascii())
}

/// Argument of a directive, without quotes and escapes.
struct Argument(Vec<u8>);

impl Argument {
    /// Returns the lifetime; zero if it is malformed, so that the response is stale.
    fn seconds(&self) -> u64 {
        seconds(&self.0).unwrap_or(0)
    }
}

/// Iterator over the members of a line: names with their arguments. Members with malformed names
/// are skipped up to the next comma outside of quotes.
struct Members<'a>(&'a [u8]);

impl<'a> Iterator for Members<'a> {
    type Item = (&'a [u8], Option<Argument>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let start = self
                .0
                .iter()
                .position(|byte| !matches!(byte, b' ' | b'\t' | b','))?;
            self.0 = &self.0[start..];
            let name_end = self.0.iter().position(|byte| !is_token(*byte));
            let (name, rest) = self.0.split_at(name_end.unwrap_or(self.0.len()));
            self.0 = rest;
            let argument = match self.0.first() {
                Some(b'=') => {
                    self.0 = &self.0[1..];
                    Some(self.argument())
                }
                _ => None,
            };
            let is_whole = self.skip_to_comma();
            if !name.is_empty() && is_whole {
                return Some((name, argument));
            }
        }
    }
}

impl Members<'_> {
    fn argument(&mut self) -> Argument {
        if self.0.first() != Some(&b'"') {
            let end = self.0.iter().position(|byte| !is_token(*byte));
            let (text, rest) = self.0.split_at(end.unwrap_or(self.0.len()));
            self.0 = rest;
            return Argument(text.to_vec());
        }
        let mut text = vec![];
        let mut at = 1;
        while let Some(&byte) = self.0.get(at) {
            match byte {
                b'"' => break,
                b'\\' => {
                    at += 1;
                    text.extend(self.0.get(at));
                }
                byte => text.push(byte),
            }
            at += 1;
        }
        self.0 = self.0.get(at + 1..).unwrap_or_default();
        Argument(text)
    }

    /// Moves past the next comma outside of quotes. Returns false if it skips anything but white
    /// space.
    fn skip_to_comma(&mut self) -> bool {
        let mut is_whole = true;
        let mut is_quoted = false;
        let mut at = 0;
        while let Some(&byte) = self.0.get(at) {
            match byte {
                b',' if !is_quoted => break,
                b'\\' if is_quoted => at += 1,
                b'"' => is_quoted = !is_quoted,
                _ => {}
            }
            is_whole &= matches!(byte, b' ' | b'\t');
            at += 1;
        }
        self.0 = self.0.get(at..).unwrap_or_default();
        is_whole
    }
}

/// Returns true if a byte may be part of a token (RFC 9110, section 5.6.2).
pub fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(line: &str) -> Directives {
        let mut directives = Directives::default();
        directives.read(line.as_bytes());
        directives
    }

    #[test]
    fn names_are_read_in_any_case() {
        let read = of("No-StOrE, MAX-age=7");
        assert!(read.has_no_store);
        assert_eq!(read.max_age, Some(7));
    }

    #[test]
    fn an_argument_may_be_quoted() {
        assert_eq!(of(r#"max-age="3600""#).max_age, Some(3_600));
        assert_eq!(of(r#"x="max-age=3600", max-age=1"#).max_age, Some(1));
        assert_eq!(of(r#"max-age=1, x="a, max-age=3600""#).max_age, Some(1));
        assert_eq!(of(r#"x="a\", max-age=9", max-age=1"#).max_age, Some(1));
        assert_eq!(of(r#"x="max-age=9"#).max_age, None);
    }

    #[test]
    fn malformed_lifetimes_count_as_zero() {
        for line in ["'3600'", "3600a", "a3600", "3600.0", "-1", "", "\"\""] {
            assert_eq!(of(&format!("max-age={line}")).max_age, Some(0), "{line}");
        }
        assert_eq!(of("max-age").max_age, Some(0));
        assert_eq!(
            of("max-age= 3600").max_age,
            None,
            "white space is not allowed"
        );
        assert_eq!(
            of("max-age =3600").max_age,
            None,
            "white space is not allowed"
        );
    }

    #[test]
    fn long_lifetimes_have_a_maximum() {
        assert_eq!(of("max-age=003600").max_age, Some(3_600));
        assert_eq!(
            of("max-age=99999999999999999999999").max_age,
            Some(SECONDS_MAX)
        );
    }

    #[test]
    fn the_first_of_repeated_directives_counts() {
        assert_eq!(of("max-age=1800, max-age=1").max_age, Some(1_800));
        assert_eq!(of("max-stale").max_stale, Some(SECONDS_MAX));
        assert_eq!(of("max-stale=5").max_stale, Some(5));
    }

    #[test]
    fn no_cache_and_private_may_list_fields() {
        let read = of(r#"no-cache="a, B", private="c""#);
        assert!(!read.has_no_cache && !read.is_private);
        assert_eq!(read.listed_fields, ["a", "b", "c"]);
        assert!(of("no-cache").has_no_cache);
        assert!(of(r#"no-cache="""#).has_no_cache);
        assert!(of(r#"private="not a name""#).is_private);
        let many: Vec<String> = (0..100).map(|n| format!("f{n}")).collect();
        assert!(of(&format!("private=\"{}\"", many.join(","))).is_private);
    }

    #[test]
    fn the_first_age_counts() {
        let read = |lines: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append("age", HeaderValue::from_static(line));
            }
            age(&headers)
        };
        assert_eq!(read(&["7200, 0"]), Some(7_200));
        assert_eq!(read(&["0", "7200"]), Some(0));
        assert_eq!(read(&["2147483649"]), Some(SECONDS_MAX));
        for line in ["abc", "-7200", "7200.0", "7200;foo=1", ""] {
            assert_eq!(read(&[line]), None, "{line}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut directives = Directives::default();
            directives.read(&line);
            prop_assert!(directives.listed_fields.len() <= FIELDS_MAX);
        }

        #[test]
        fn directives_are_found_between_others(
            before in r#"[a-z]{1,5}(=("[ a-z,=\\\\]*"|[a-z0-9]*))?"#,
            seconds in 0..SECONDS_MAX,
        ) {
            // A backslash before the closing quote would escape it.
            prop_assume!(!before.contains('\\') && !before.starts_with("max-age"));
            let read = of(&format!("{before} , max-age={seconds}"));
            prop_assert_eq!(read.max_age, Some(seconds));
        }
    }
}
