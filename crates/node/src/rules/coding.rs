//! Content codings that the node applies: which one a client receives, which responses are
//! compressed, and how their fields change.
//!
//! Under a rule with codings, the client's Accept-Encoding is replaced by the single coding that
//! the client receives, or by `identity`. The origin receives this value, too, and Vary selects by
//! it, so that there is one stored response for each coding that clients use.

use super::fields::Lines;
use hyper::StatusCode;
use hyper::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG,
    HeaderMap, HeaderName, HeaderValue, VARY,
};
use std::str::FromStr;

/// Length of content in bytes from which on it is compressed: a smaller one fits in a packet.
const LENGTH_MIN: u64 = 1_024;

/// Value of Accept-Encoding of requests whose client receives no coding.
const IDENTITY: &str = "identity";

/// Content coding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Coding {
    /// Gzip (RFC 1952).
    Gzip,
    /// Brotli (RFC 7932).
    Brotli,
    /// Zstandard (RFC 8878).
    Zstd,
}

impl Coding {
    /// All codings, in the order of their numbers.
    pub const ALL: [Coding; 3] = [Coding::Gzip, Coding::Brotli, Coding::Zstd];

    /// Returns the name in header fields.
    pub fn name(self) -> &'static str {
        match self {
            Coding::Gzip => "gzip",
            Coding::Brotli => "br",
            Coding::Zstd => "zstd",
        }
    }

    /// Returns the first of the operator's codings that a client accepts.
    pub fn choose(offered: &[Coding], request: &impl Lines) -> Option<Coding> {
        let mut offered = offered.iter().copied();
        offered.find(|coding| is_accepted(request, coding.name()))
    }
}

/// Coding that a client receives under a rule with codings, or none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted(pub Option<Coding>);

impl Wanted {
    /// Chooses among the codings that a rule offers; `None` if it offers none. A range is always
    /// one of content without a coding, because two compressions may differ in their bytes.
    pub fn choose(offered: &[Coding], request: &impl Lines, has_range: bool) -> Option<Self> {
        let choose = || Coding::choose(offered, request).filter(|_| !has_range);
        (!offered.is_empty()).then(|| Wanted(choose()))
    }

    /// Chooses a coding, and replaces Accept-Encoding of the request.
    pub fn replace(offered: &[Coding], request: &mut HeaderMap, has_range: bool) -> Option<Self> {
        let wanted = Wanted::choose(offered, request, has_range)?;
        request.insert(ACCEPT_ENCODING, HeaderValue::from_static(wanted.name()));
        Some(wanted)
    }

    /// Returns the value that replaces the client's Accept-Encoding.
    pub fn name(self) -> &'static str {
        self.0.map_or(IDENTITY, Coding::name)
    }
}

impl FromStr for Coding {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut all = Coding::ALL.into_iter();
        let found = all.find(|coding| coding.name() == text);
        found.ok_or_else(|| "expected br, zstd or gzip".to_owned())
    }
}

/// Returns true if a client accepts a coding (RFC 9110, section 12.5.3). A member that names the
/// coding has precedence over `*`.
fn is_accepted(request: &impl Lines, wanted: &str) -> bool {
    let mut by_star = false;
    for line in request.lines(&ACCEPT_ENCODING) {
        for member in line.split(|&byte| byte == b',') {
            let mut parts = member.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
            let name = parts.next().unwrap_or_default();
            let is_zero = parts.any(is_zero_weight);
            if name.eq_ignore_ascii_case(wanted.as_bytes()) {
                return !is_zero;
            }
            by_star |= name == b"*" && !is_zero;
        }
    }
    by_star
}

/// Returns true for `q=0`, `q=0.0` and so on.
fn is_zero_weight(parameter: &[u8]) -> bool {
    let value = match parameter {
        [b'q' | b'Q', b'=', value @ ..] => value,
        _ => return false,
    };
    !value.is_empty() && value.iter().all(|byte| matches!(byte, b'0' | b'.'))
}

/// Request whose Accept-Encoding is replaced.
pub struct Replaced<'a, L> {
    /// Request of the client.
    pub request: &'a L,
    /// Coding that replaces Accept-Encoding, if a rule offers any.
    pub wanted: Option<Wanted>,
}

impl<L: Lines> Lines for Replaced<'_, L> {
    fn lines(&self, name: &HeaderName) -> impl Iterator<Item = &[u8]> {
        let wanted = self.wanted.filter(|_| *name == ACCEPT_ENCODING);
        let lines = self.request.lines(name);
        let lines = lines.filter(move |_| wanted.is_none());
        let replaced = wanted.map(|wanted| wanted.name().as_bytes());
        replaced.into_iter().chain(lines)
    }
}

/// Returns true if content of this kind is worth compressing, and may be.
pub fn is_compressible(status: StatusCode, headers: &HeaderMap) -> bool {
    let has_content = matches!(status.as_u16(), 200 | 203 | 404 | 410);
    let is_text = headers.get(CONTENT_TYPE).is_some_and(is_text);
    let mut rules = headers.get_all(CACHE_CONTROL).iter();
    has_content && is_text && !rules.any(|line| has_word(line, "no-transform"))
}

/// Returns true if content of this length is worth compressing.
pub fn is_long_enough(length: Option<u64>) -> bool {
    length.is_none_or(|length| length >= LENGTH_MIN)
}

fn has_word(line: &HeaderValue, word: &str) -> bool {
    let mut members = line.as_bytes().split(|&byte| byte == b',');
    members.any(|member| member.trim_ascii().eq_ignore_ascii_case(word.as_bytes()))
}

/// Returns true for media types of text, and of formats without a compression of their own. Events
/// are not in the list, because each must reach the client at once.
fn is_text(kind: &HeaderValue) -> bool {
    let kind = kind.to_str().unwrap_or_default().split(';').next();
    let kind = kind.unwrap_or_default().trim().to_ascii_lowercase();
    let (class, name) = kind.split_once('/').unwrap_or_default();
    match (class, name) {
        ("text", "event-stream") => false,
        ("text", _) => true,
        (_, name) if name.ends_with("+json") || name.ends_with("+xml") => true,
        ("application", name) => matches!(
            name,
            "javascript"
                | "x-javascript"
                | "json"
                | "x-ndjson"
                | "xml"
                | "wasm"
                | "vnd.ms-fontobject"
        ),
        ("font", name) => matches!(name, "ttf" | "otf"),
        ("image", name) => matches!(name, "bmp" | "x-icon" | "vnd.microsoft.icon"),
        _ => false,
    }
}

/// Changes the fields of a response whose content is compressed here. Its entity tag becomes weak,
/// because the bytes are not those of the origin.
pub fn mark(headers: &mut HeaderMap, coding: Coding) {
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
    headers.remove(CONTENT_LENGTH);
    for name in [
        "accept-ranges",
        "content-digest",
        "content-md5",
        "digest",
        "repr-digest",
    ] {
        headers.remove(name);
    }
    let tag = headers.get(ETAG).map(HeaderValue::as_bytes);
    if let Some(tag) = tag.filter(|tag| tag.starts_with(b"\"")) {
        match HeaderValue::from_bytes(&[b"W/", tag].concat()) {
            Ok(weak) => _ = headers.insert(ETAG, weak),
            Err(_) => _ = headers.remove(ETAG),
        }
    }
}

/// Adds Accept-Encoding to the fields that select a response, unless it is there.
pub fn add_vary(headers: &mut HeaderMap) {
    let mut lines = headers.get_all(VARY).iter();
    if !lines.any(|line| has_word(line, "accept-encoding") || has_word(line, "*")) {
        headers.append(VARY, HeaderValue::from_static("accept-encoding"));
    }
}

/// Restores in a confirmed response what the origin's confirmation does not contain, because the
/// content was compressed here: the weak tag, and the selection by Accept-Encoding.
pub fn keep(stored: &HeaderMap, confirmed: &mut HeaderMap) {
    let tag = |headers: &HeaderMap| headers.get(ETAG).map(|tag| tag.as_bytes().to_vec());
    if let (Some(old), Some(new)) = (tag(stored), tag(confirmed))
        && old.strip_prefix(b"W/") == Some(&new[..])
    {
        confirmed.insert(ETAG, stored[ETAG].clone());
    }
    let mut lines = stored.get_all(VARY).iter();
    if lines.any(|line| has_word(line, "accept-encoding")) {
        add_vary(confirmed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::headers;
    use proptest::prelude::*;

    #[test]
    fn a_client_receives_the_operators_first_coding_that_it_accepts() {
        let offered = [Coding::Brotli, Coding::Zstd, Coding::Gzip];
        for (accepted, expected) in [
            ("gzip, deflate, br, zstd", Some("br")),
            ("gzip, zstd", Some("zstd")),
            ("GZIP;q=0.5", Some("gzip")),
            ("br;q=0, *", Some("zstd")),
            ("br;q=0.000, gzip; q=0, zstd ; Q=0.0", None),
            ("identity;q=1, *;q=0", None),
            ("deflate", None),
            ("x-gzip-2", None),
            ("", None),
        ] {
            let request = headers(&[("accept-encoding", accepted)]);
            let chosen = Coding::choose(&offered, &request).map(Coding::name);
            assert_eq!(chosen, expected, "{accepted}");
        }
        assert_eq!(Coding::choose(&offered, &headers(&[])), None);
        let request = headers(&[("accept-encoding", "gzip"), ("accept-encoding", "br")]);
        let wanted = |has_range| Wanted::choose(&offered, &request, has_range).map(Wanted::name);
        assert_eq!(
            (wanted(false), wanted(true)),
            (Some("br"), Some("identity"))
        );
        assert_eq!(Wanted::choose(&[], &request, false), None);
    }

    #[test]
    fn texts_are_compressible() {
        for (kind, expected) in [
            ("text/html; charset=utf-8", true),
            ("Text/CSS", true),
            ("application/json", true),
            ("application/ld+json", true),
            ("image/svg+xml", true),
            ("text/event-stream", false),
            ("image/png", false),
            ("application/octet-stream", false),
            ("video/mp4", false),
            ("", false),
        ] {
            let response = headers(&[("content-type", kind)]);
            assert_eq!(
                is_compressible(StatusCode::OK, &response),
                expected,
                "{kind}"
            );
        }
        let text = headers(&[("content-type", "text/plain")]);
        for code in [StatusCode::PARTIAL_CONTENT, StatusCode::NO_CONTENT] {
            assert!(!is_compressible(code, &text));
        }
        let fixed = [
            ("content-type", "text/plain"),
            ("cache-control", "a, No-Transform"),
        ];
        assert!(!is_compressible(StatusCode::OK, &headers(&fixed)));
        assert!(
            is_long_enough(None) && is_long_enough(Some(1_024)) && !is_long_enough(Some(1_023))
        );
    }

    #[test]
    fn the_fields_of_compressed_content_do_not_describe_the_origins() {
        let fields = [
            ("etag", "\"a\""),
            ("content-length", "5"),
            ("accept-ranges", "bytes"),
            ("content-md5", "x"),
            ("vary", "cookie"),
        ];
        let mut response = headers(&fields);
        mark(&mut response, Coding::Gzip);
        add_vary(&mut response);
        add_vary(&mut response);
        let expected = headers(&[
            ("etag", "W/\"a\""),
            ("vary", "cookie"),
            ("vary", "accept-encoding"),
            ("content-encoding", "gzip"),
        ]);
        assert_eq!(response, expected);
        // A confirmation has the origin's fields.
        let mut confirmed = headers(&[("etag", "\"a\""), ("vary", "cookie")]);
        keep(&response, &mut confirmed);
        assert_eq!(confirmed[ETAG], "W/\"a\"");
        assert_eq!(confirmed.get_all(VARY).iter().count(), 2);
        let mut plain = headers(&[("etag", "\"a\"")]);
        keep(&headers(&[("etag", "\"a\"")]), &mut plain);
        assert_eq!(plain, headers(&[("etag", "\"a\"")]));
    }

    proptest! {
        /// Compares the choice with a naive reading of a list without weights other than 0 and 1.
        #[test]
        fn members_are_read_as_by_a_naive_reader(
            members in prop::collection::vec(("gzip|br|zstd|x|\\*", any::<bool>()), 0..6),
        ) {
            let texts: Vec<String> = members
                .iter()
                .map(|(name, is_zero)| format!("{name}{}", if *is_zero { ";q=0" } else { "" }))
                .collect();
            let mut request = HeaderMap::new();
            let value = HeaderValue::from_str(&texts.join(" , ")).expect("it is ASCII");
            request.insert(ACCEPT_ENCODING, value);
            for coding in Coding::ALL {
                let named = members.iter().find(|(name, _)| name == coding.name());
                let star = members.iter().any(|(name, is_zero)| name == "*" && !is_zero);
                let expected = named.map_or(star, |(_, is_zero)| !is_zero);
                prop_assert_eq!(is_accepted(&request, coding.name()), expected);
            }
        }
    }
}
