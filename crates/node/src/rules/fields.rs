//! Header fields that a proxy removes or never forwards.

use hyper::header::{CONNECTION, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING};

/// Access to a request's fields for the rules about hits. A parser's result need not be converted
/// to a [`HeaderMap`] for it.
pub trait Lines {
    /// Returns the values of all lines with this name, in their order.
    fn lines(&self, name: &HeaderName) -> impl Iterator<Item = &[u8]>;
}

impl Lines for HeaderMap {
    fn lines(&self, name: &HeaderName) -> impl Iterator<Item = &[u8]> {
        self.get_all(name).iter().map(HeaderValue::as_bytes)
    }
}

/// Fields that concern a single connection (RFC 9110, section 7.6.1), and fields for proxies that
/// must not be stored (RFC 9111, section 3.1).
pub(super) const HOP_BY_HOP: [&str; 11] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
];

/// Compressions that are registered as transfer codings.
const COMPRESSIONS: [&[u8]; 5] = [b"gzip", b"x-gzip", b"deflate", b"compress", b"x-compress"];

/// Returns true if a message has no transfer coding other than the one that is implemented,
/// `chunked`.
pub fn is_coding_known(headers: &HeaderMap) -> bool {
    let mut lines = headers.get_all(TRANSFER_ENCODING).iter();
    lines.all(|line| {
        line.as_bytes()
            .trim_ascii()
            .eq_ignore_ascii_case(b"chunked")
    })
}

/// Returns true if a message is compressed by a transfer coding. Its bytes must not be passed on
/// without that coding (RFC 9112, section 7).
pub fn is_compressed(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(TRANSFER_ENCODING).iter();
    let mut codings = lines.flat_map(|line| line.as_bytes().split(|&byte| byte == b','));
    codings.any(|coding| {
        let is_named = |name: &&[u8]| coding.trim_ascii().eq_ignore_ascii_case(name);
        COMPRESSIONS.iter().any(is_named)
    })
}

/// Fields by which programs choose a response although they are not part of the cache's key. They
/// are removed, because a client could otherwise use them to store a response under the key of
/// another one. `proxy` is in the list because CGI programs take it for the name of their own
/// proxy.
pub(super) const UNKEYED: [&str; 25] = [
    "forwarded",
    "front-end-https",
    "proxy",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-path",
    "x-forwarded-port",
    "x-forwarded-prefix",
    "x-forwarded-proto",
    "x-forwarded-protocol",
    "x-forwarded-scheme",
    "x-forwarded-server",
    "x-forwarded-ssl",
    "x-forwarded-uri",
    "x-host",
    "x-http-host-override",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-host",
    "x-original-uri",
    "x-original-url",
    "x-real-ip",
    "x-rewrite-url",
    "x-url-scheme",
];

/// Maximum number of field names in Connection that are removed. A message with more is refused.
const LISTED_MAX: usize = 32;

/// Returns true if a field concerns a single connection.
pub fn is_hop_by_hop(name: &str) -> bool {
    HOP_BY_HOP.contains(&name)
}

/// Returns true if programs may choose a response by this field although it is not part of the key.
/// That includes all names with an underscore: programs that receive fields as variables (CGI, WSGI
/// and similar interfaces) do not distinguish it from a hyphen. For them, such a field can replace
/// another one, such as a field in `UNKEYED` or one that the response lists in Vary.
pub fn is_unkeyed(name: &str) -> bool {
    UNKEYED.contains(&name) || name.contains('_')
}

/// Removes the fields of a single connection, and the fields that Connection lists. Returns false
/// if it lists too many.
pub fn remove_hop_by_hop(headers: &mut HeaderMap) -> bool {
    let mut listed = vec![];
    for line in headers.get_all(CONNECTION) {
        for name in line.as_bytes().split(|&byte| byte == b',') {
            if listed.len() == LISTED_MAX {
                return false;
            }
            listed.extend(HeaderName::from_bytes(name.trim_ascii()));
        }
    }
    for name in listed {
        headers.remove(name);
    }
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
    true
}

/// Removes the fields by which programs choose a response outside of the key.
pub fn remove_unkeyed(headers: &mut HeaderMap) {
    let is_removed = |name: &&HeaderName| is_unkeyed(name.as_str());
    let names: Vec<HeaderName> = headers.keys().filter(is_removed).cloned().collect();
    for name in names {
        headers.remove(name);
    }
}

/// Removes fields and returns them.
pub fn take(headers: &mut HeaderMap, names: &[HeaderName]) -> HeaderMap {
    let mut taken = HeaderMap::new();
    for name in names {
        if let hyper::header::Entry::Occupied(entry) = headers.entry(name) {
            let (name, values) = entry.remove_entry_mult();
            for value in values {
                taken.append(name.clone(), value);
            }
        }
    }
    taken
}

/// Copies the fields of a newer response over the fields of a stored one (RFC 9111, section 3.2).
/// Fields that describe the length and the range of the stored content stay unchanged.
pub fn update(stored: &mut HeaderMap, newer: &HeaderMap) {
    for name in newer.keys() {
        if matches!(name.as_str(), "content-length" | "content-range") {
            continue;
        }
        stored.remove(name);
        for value in newer.get_all(name) {
            stored.append(name, value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::headers;

    #[test]
    fn listed_fields_are_removed() {
        let mut fields = headers(&[
            ("connection", "a, b"),
            ("a", "1"),
            ("b", "2"),
            ("c", "3"),
            ("te", "x"),
        ]);
        assert!(remove_hop_by_hop(&mut fields));
        assert_eq!(fields, headers(&[("c", "3")]));
    }

    #[test]
    fn a_list_beyond_the_maximum_is_refused() {
        let list = vec!["a"; LISTED_MAX + 1].join(",");
        let mut fields = HeaderMap::new();
        fields.insert(
            CONNECTION,
            HeaderValue::from_str(&list).expect("the input is valid"),
        );
        assert!(!remove_hop_by_hop(&mut fields));
    }

    #[test]
    fn an_update_replaces_all_lines_of_a_field() {
        let mut stored = headers(&[("a", "1"), ("a", "2"), ("b", "3"), ("content-length", "5")]);
        update(
            &mut stored,
            &headers(&[("a", "4"), ("content-length", "0")]),
        );
        assert_eq!(
            stored,
            headers(&[("b", "3"), ("content-length", "5"), ("a", "4")])
        );
    }
}
