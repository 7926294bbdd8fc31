//! Conditional requests of clients, and conditional requests that validate stored responses (RFC
//! 9110, section 13; RFC 9111, section 4.3).

use super::dates;
use super::fields::Lines;
use hyper::header::{HeaderMap, HeaderValue, IF_RANGE};

/// Fields that make a request conditional.
pub(super) const FIELDS: [&str; 5] = [
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
];

/// Returns true if a request has conditions that only the origin can decide.
pub fn is_for_origin(request: &HeaderMap) -> bool {
    request.contains_key("if-match") || request.contains_key("if-unmodified-since")
}

/// Removes all conditions, before the cache adds its own.
pub fn remove(request: &mut HeaderMap) {
    for name in FIELDS {
        request.remove(name);
    }
}

/// Adds the conditions that validate a stored response (RFC 9111, section 4.3.1).
pub fn validate(request: &mut HeaderMap, stored: &HeaderMap) {
    if let Some(tag) = stored.get("etag") {
        request.insert("if-none-match", tag.clone());
    }
    if let Some(modified) = stored.get("last-modified") {
        request.insert("if-modified-since", modified.clone());
    }
}

/// Returns true if the client's copy is current, so that the answer is 304 (RFC 9110, section
/// 13.2.2). If If-None-Match is present, it alone decides.
pub fn is_unmodified(request: &HeaderMap, stored: &HeaderMap, received_ms: u64) -> bool {
    if request.contains_key("if-none-match") {
        let stored = stored.get("etag").map(|tag| opaque(tag.as_bytes()));
        let mut lines = request.get_all("if-none-match").iter();
        return lines.any(|line| {
            line.as_bytes().trim_ascii() == b"*"
                || stored
                    .is_some_and(|stored| tags(line.as_bytes()).any(|tag| opaque(tag) == stored))
        });
    }
    let Some(since) = request.get("if-modified-since").and_then(dates::parse) else {
        return false;
    };
    // Without Last-Modified, the date of the response is compared (RFC 9111, section 4.3.2).
    let modified = stored.get("last-modified").or_else(|| stored.get("date"));
    modified.and_then(dates::parse).unwrap_or(received_ms) <= since
}

/// Returns true if a range may be served: If-Range is absent, or its validator equals the stored
/// one by strong comparison (RFC 9110, section 13.1.5).
pub fn permits_range(request: &impl Lines, stored: &HeaderMap) -> bool {
    let Some(condition) = request.lines(&IF_RANGE).next() else {
        return true;
    };
    let is_same = |name: &str| stored.get(name).is_some_and(|value| *value == *condition);
    if condition.ends_with(b"\"") {
        return !condition.starts_with(b"W/") && is_same("etag");
    }
    is_same("last-modified")
}

/// Returns true if the origin's response to the cache's own validation concerns the stored
/// response. A validator that the origin sends must be the stored one (section 4.3.4).
pub fn confirms(stored: &HeaderMap, newer: &HeaderMap) -> bool {
    let same = |a: &HeaderValue, b: &HeaderValue| opaque(a.as_bytes()) == opaque(b.as_bytes());
    match (stored.get("etag"), newer.get("etag")) {
        (Some(stored), Some(newer)) => same(stored, newer),
        _ => true,
    }
}

/// Returns an entity tag without the mark of a weak tag, for weak comparison.
fn opaque(tag: &[u8]) -> &[u8] {
    let tag = tag.trim_ascii();
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

/// Returns the entity tags of a list. Commas inside quotes do not separate.
fn tags(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut is_quoted = false;
    line.split(move |&byte| {
        is_quoted ^= byte == b'"';
        byte == b',' && !is_quoted
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::headers;

    const OLD: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const NEW: &str = "Mon, 07 Nov 1994 08:49:37 GMT";

    #[test]
    fn tags_are_compared_weakly() {
        let stored = headers(&[("etag", "W/\"a,b\"")]);
        let is_same =
            |condition| is_unmodified(&headers(&[("if-none-match", condition)]), &stored, 0);
        assert!(is_same("\"a,b\""));
        assert!(is_same("\"x\", W/\"a,b\""));
        assert!(is_same("*"));
        assert!(!is_same("\"a\""));
        assert!(!is_same("a,b"));
    }

    #[test]
    fn a_tag_decides_alone() {
        let stored = headers(&[("etag", "\"a\""), ("last-modified", OLD)]);
        let request = headers(&[("if-none-match", "\"b\""), ("if-modified-since", NEW)]);
        assert!(!is_unmodified(&request, &stored, 0));
        let request = headers(&[("if-modified-since", NEW)]);
        assert!(is_unmodified(&request, &stored, 0));
        let request = headers(&[("if-modified-since", "yesterday")]);
        assert!(!is_unmodified(&request, &stored, 0));
    }

    #[test]
    fn if_range_is_compared_strongly() {
        let stored = headers(&[("etag", "\"a\""), ("last-modified", OLD)]);
        let permits = |condition| permits_range(&headers(&[("if-range", condition)]), &stored);
        assert!(permits("\"a\""));
        assert!(permits(OLD));
        assert!(!permits("W/\"a\""));
        assert!(!permits(NEW));
        assert!(permits_range(&headers(&[]), &stored));
    }

    #[test]
    fn another_tag_is_no_confirmation() {
        let stored = headers(&[("etag", "\"a\"")]);
        assert!(confirms(&stored, &headers(&[])));
        assert!(confirms(&stored, &headers(&[("etag", "W/\"a\"")])));
        assert!(!confirms(&stored, &headers(&[("etag", "\"b\"")])));
    }
}
