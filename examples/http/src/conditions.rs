//! Conditions of requests that a cache evaluates itself (RFC 9111, 4.3.2; RFC 9110, 13).

use crate::freshness::date;
use http::header::{
    CACHE_CONTROL, CONTENT_LOCATION, DATE, ETAG, EXPIRES, IF_MATCH, IF_MODIFIED_SINCE,
    IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, LAST_MODIFIED, RANGE,
};
use http::{HeaderMap, HeaderName, StatusCode};

/// Fields of a response that a 304 repeats (RFC 9110, 15.4.5).
const KEPT: [HeaderName; 6] = [
    CACHE_CONTROL,
    CONTENT_LOCATION,
    DATE,
    ETAG,
    EXPIRES,
    LAST_MODIFIED,
];

/// Whether only the origin server may evaluate the request's conditions, or a part is requested.
pub fn needs_origin(request: &HeaderMap) -> bool {
    let fields = [IF_MATCH, IF_UNMODIFIED_SINCE, IF_RANGE, RANGE];
    fields.iter().any(|field| request.contains_key(field))
}

/// Whether the client has the stored response already, so that 304 is the answer.
pub fn is_not_modified(request: &HeaderMap, status: StatusCode, stored: &HeaderMap) -> bool {
    if status != StatusCode::OK {
        return false;
    }
    if request.contains_key(IF_NONE_MATCH) {
        // The date does not matter then.
        let own = stored.get(ETAG).and_then(|tag| tag.to_str().ok());
        let own = own.and_then(|tag| tags(tag).next());
        let mut fields = request.get_all(IF_NONE_MATCH).iter();
        return fields.any(|field| {
            let field = field.to_str().unwrap_or("").trim();
            field == "*" || tags(field).any(|tag| own == Some(tag))
        });
    }
    let changed = date(stored, LAST_MODIFIED).or_else(|| date(stored, DATE));
    let since = date(request, IF_MODIFIED_SINCE);
    since.is_some_and(|since| changed.is_some_and(|changed| changed <= since))
}

/// Returns the fields of a 304 response.
pub fn fields_of_304(stored: &HeaderMap) -> HeaderMap {
    let mut fields = HeaderMap::new();
    for name in &KEPT {
        for value in stored.get_all(name) {
            fields.append(name, value.clone());
        }
    }
    fields
}

/// Returns the opaque tags of a list, without the mark of weak ones, because the comparison is the
/// weak one. A tag may contain commas.
fn tags(field: &str) -> impl Iterator<Item = &str> {
    let mut rest = field;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let tag = rest.strip_prefix("W/").unwrap_or(rest).strip_prefix('"')?;
        let (tag, after) = tag.split_once('"')?;
        rest = after;
        Some(tag)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let fields = fields.iter();
        fields
            .map(|(name, value)| {
                let name = HeaderName::from_static(name);
                (name, HeaderValue::from_static(value))
            })
            .collect()
    }

    #[test]
    fn a_client_that_has_the_response_gets_no_body() {
        const NEW: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
        const OLD: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
        let tagged = headers(&[("etag", "W/\"a,b\""), ("last-modified", NEW)]);
        let dated = headers(&[("date", NEW)]);
        for (stored, fields, expected) in [
            (&tagged, &[("if-none-match", "\"x\", \"a,b\"")][..], true),
            (&tagged, &[("if-none-match", "W/\"a,b\"")], true),
            (&tagged, &[("if-none-match", "\"a\"")], false),
            (&tagged, &[("if-none-match", "\"a,b")], false),
            (&tagged, &[("if-none-match", "*")], true),
            (&dated, &[("if-none-match", "\"a,b\"")], false),
            (
                &tagged,
                &[("if-none-match", "\"x\""), ("if-modified-since", NEW)],
                false,
            ),
            (&tagged, &[("if-modified-since", NEW)], true),
            (&tagged, &[("if-modified-since", OLD)], false),
            (&dated, &[("if-modified-since", NEW)], true),
            (&dated, &[("if-modified-since", "yesterday")], false),
            (&dated, &[], false),
        ] {
            let request = headers(fields);
            assert_eq!(
                is_not_modified(&request, StatusCode::OK, stored),
                expected,
                "{fields:?}"
            );
            assert!(!is_not_modified(&request, StatusCode::NOT_FOUND, stored));
        }
        assert!(needs_origin(&headers(&[("if-match", "\"a\"")])));
        assert!(!needs_origin(&headers(&[("if-none-match", "\"a\"")])));
        assert_eq!(fields_of_304(&tagged), tagged);
        assert!(fields_of_304(&headers(&[("content-type", "text/plain")])).is_empty());
    }
}
