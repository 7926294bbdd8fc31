//! For how long a response is fresh in a cache that several clients share, by RFC 9111.
//!
//! What the RFC permits and this adapter leaves out: validation (a stale response is requested
//! again), heuristic freshness (only responses that state theirs are stored), responses that vary
//! by request headers, ranges, and requests with credentials.

use http::header::{AGE, CACHE_CONTROL, DATE, EXPIRES, SET_COOKIE, VARY};
use http::{HeaderMap, StatusCode};
use std::time::{Duration, SystemTime};

/// Directives of `Cache-Control` that matter here.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Directives {
    /// `no-store`.
    pub no_store: bool,
    /// `no-cache`.
    pub no_cache: bool,
    /// `private`.
    pub private: bool,
    /// `only-if-cached`.
    pub only_if_cached: bool,
    /// `max-age` in seconds.
    pub max_age: Option<u64>,
    /// `s-maxage` in seconds.
    pub s_maxage: Option<u64>,
    /// `min-fresh` in seconds.
    pub min_fresh: Option<u64>,
}

impl Directives {
    /// Reads all `Cache-Control` fields. An age that is no number counts as 0, so that the response
    /// is stale, as the RFC recommends (4.2.1). One that is too large counts as [`SECONDS_MAX`].
    pub fn read(headers: &HeaderMap) -> Self {
        let mut found = Directives::default();
        for field in headers.get_all(CACHE_CONTROL) {
            let Ok(field) = field.to_str() else {
                // A field that cannot be read may forbid anything.
                found.no_store = true;
                continue;
            };
            for directive in field.split(',') {
                let (name, value) = directive.split_once('=').unwrap_or((directive, ""));
                let value = value.trim().trim_matches('"');
                let seconds = || Some(seconds_in(value));
                match name.trim().to_ascii_lowercase().as_str() {
                    "no-store" => found.no_store = true,
                    // With field names only those need validation; all of it is treated so.
                    "no-cache" => found.no_cache = true,
                    "private" => found.private = true,
                    "only-if-cached" => found.only_if_cached = true,
                    "max-age" => found.max_age = least(found.max_age, seconds()),
                    "min-fresh" => found.min_fresh = Some(seconds_in(value)),
                    "s-maxage" => found.s_maxage = least(found.s_maxage, seconds()),
                    _ => {}
                }
            }
        }
        found
    }
}

/// Number of seconds for larger ones (RFC 9111, 1.2.2).
pub const SECONDS_MAX: u64 = 1 << 31;

fn seconds_in(value: &str) -> u64 {
    let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    match value.parse::<u64>() {
        Ok(seconds) if is_number => seconds.min(SECONDS_MAX),
        _ if is_number => SECONDS_MAX,
        _ => 0,
    }
}

/// Of two different ages the smaller one counts.
fn least(present: Option<u64>, new: Option<u64>) -> Option<u64> {
    present.into_iter().chain(new).min()
}

/// Statuses whose meaning does not depend on more than the response (RFC 9110, 15.1).
fn is_understood(status: StatusCode) -> bool {
    matches!(
        status.as_u16(),
        200 | 203 | 204 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501
    )
}

pub(crate) fn date(headers: &HeaderMap, name: http::HeaderName) -> Option<SystemTime> {
    let text = headers.get(name)?.to_str().ok()?;
    httpdate::parse_http_date(text).ok()
}

/// Returns for how long from now on a response to a GET request without credentials is fresh;
/// `None` if it must not be stored (3) or is not fresh at all (4.2).
pub fn lifetime(status: StatusCode, headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let directives = Directives::read(headers);
    let is_forbidden = directives.no_store || directives.no_cache || directives.private;
    if is_forbidden || !is_understood(status) {
        return None;
    }
    // A cookie is for one client. A response that varies would need the request's fields in its
    // key.
    if headers.contains_key(SET_COOKIE) || headers.contains_key(VARY) {
        return None;
    }
    // 4.2.1: for a shared cache s-maxage before max-age before Expires.
    let explicit = directives.s_maxage.or(directives.max_age);
    let whole = match explicit {
        Some(seconds) => Duration::from_secs(seconds),
        None => {
            let expires = date(headers, EXPIRES)?;
            let from = date(headers, DATE).unwrap_or(now);
            expires.duration_since(from).ok()?
        }
    };
    let rest = whole.checked_sub(age(headers, now));
    rest.filter(|rest| !rest.is_zero())
}

/// Returns how old a response is when it is received (4.2.3).
pub fn age(headers: &HeaderMap, now: SystemTime) -> Duration {
    let apparent = date(headers, DATE).and_then(|date| now.duration_since(date).ok());
    let stated = headers.get(AGE).and_then(|age| age.to_str().ok());
    let stated = stated.map_or(0, |age| seconds_in(age.trim()));
    let age = apparent.unwrap_or_default();
    age.max(Duration::from_secs(stated))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    fn seconds(fields: &[(&'static str, &'static str)]) -> Option<u64> {
        // Sun, 06 Nov 1994 08:49:47 GMT, ten seconds after the date in the fields below.
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_787);
        lifetime(StatusCode::OK, &headers(fields), now).map(|rest| rest.as_secs())
    }

    const DATED: (&str, &str) = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");

    #[test]
    fn lifetimes_follow_the_rfc() {
        for (fields, expected) in [
            (&[][..], None),
            (&[("cache-control", "max-age=60")], Some(60)),
            (
                &[("cache-control", "max-age=60, s-maxage=\"30\"")],
                Some(30),
            ),
            (&[("cache-control", "MAX-AGE=60"), ("age", "20")], Some(40)),
            (&[("cache-control", "max-age=60"), DATED], Some(50)),
            (&[("cache-control", "max-age=60"), ("age", "70")], None),
            (&[("cache-control", "max-age=60, max-age=5")], Some(5)),
            (&[("cache-control", "max-age=soon")], None),
            (&[("cache-control", "max-age=-1")], None),
            (&[("cache-control", "max-age=+60")], None),
            (
                &[("cache-control", "max-age=99999999999999999999999")],
                Some(SECONDS_MAX),
            ),
            (
                &[
                    ("cache-control", "max-age=60"),
                    ("age", "99999999999999999999999"),
                ],
                None,
            ),
            (&[("cache-control", "max-age=60, no-store")], None),
            (&[("cache-control", "private, max-age=60")], None),
            (&[("cache-control", "no-cache, max-age=60")], None),
            (
                &[
                    ("cache-control", "max-age=60"),
                    ("cache-control", "no-store"),
                ],
                None,
            ),
            (&[("cache-control", "max-age=60"), ("vary", "accept")], None),
            (
                &[("cache-control", "max-age=60"), ("set-cookie", "a=b")],
                None,
            ),
            (
                &[("expires", "Sun, 06 Nov 1994 08:50:37 GMT"), DATED],
                Some(50),
            ),
            (&[("expires", "Sun, 06 Nov 1994 08:50:37 GMT")], Some(50)),
            (&[("expires", "0"), DATED], None),
            (
                &[
                    ("expires", "Sun, 06 Nov 1994 08:50:37 GMT"),
                    ("cache-control", "max-age=7"),
                ],
                Some(7),
            ),
        ] {
            assert_eq!(seconds(fields), expected, "{fields:?}");
        }
        let fresh = headers(&[("cache-control", "max-age=60")]);
        let now = SystemTime::UNIX_EPOCH;
        assert_eq!(lifetime(StatusCode::PARTIAL_CONTENT, &fresh, now), None);
        assert_eq!(
            lifetime(StatusCode::INTERNAL_SERVER_ERROR, &fresh, now),
            None
        );
    }
}
