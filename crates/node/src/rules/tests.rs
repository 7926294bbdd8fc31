//! The rules on random messages, made of words of the specifications and of random bytes.

use super::conditional;
use super::directives::{Directives, age};
use super::fields;
use super::freshness::{Asked, Grace, judge};
use super::ranges::{Requested, content_range};
use super::vary::Selection;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};
use proptest::prelude::*;

const NAMES: [&str; 18] = [
    "age",
    "authorization",
    "cache-control",
    "cdn-cache-control",
    "connection",
    "content-range",
    "date",
    "etag",
    "expires",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "last-modified",
    "pragma",
    "range",
    "vary",
    "accept-encoding",
];

const WORDS: [&str; 44] = [
    "max-age",
    "s-maxage",
    "no-store",
    "no-cache",
    "private",
    "public",
    "must-revalidate",
    "proxy-revalidate",
    "must-understand",
    "immutable",
    "stale-while-revalidate",
    "stale-if-error",
    "min-fresh",
    "max-stale",
    "only-if-cached",
    "=",
    ",",
    ";",
    "\"",
    "\\",
    " ",
    "\t",
    "0",
    "1",
    "60",
    "2147483648",
    "18446744073709551616",
    "99999999999999999999999999",
    "-1",
    "1.5",
    "?1",
    ":YQ==:",
    "(",
    ")",
    "*",
    "W/",
    "bytes",
    "bytes=",
    "-",
    "/",
    "gzip;q=0.5",
    "Sun, 06 Nov 1994 08:49:37 GMT",
    "Fri, 31 Dec 9999 23:59:59 GMT",
    "identity",
];

fn value() -> impl Strategy<Value = HeaderValue> {
    let piece = prop_oneof![
        6 => proptest::sample::select(&WORDS[..]).prop_map(|word| word.as_bytes().to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 0..6),
    ];
    let bytes = proptest::collection::vec(piece, 0..10).prop_map(|pieces| pieces.concat());
    bytes.prop_map(|mut bytes| {
        // What the parser of HTTP lets through.
        bytes.retain(|&byte| byte == b'\t' || (byte >= 32 && byte != 127));
        HeaderValue::from_bytes(&bytes).expect("no control characters are left")
    })
}

fn headers() -> impl Strategy<Value = HeaderMap> {
    let field = (proptest::sample::select(&NAMES[..]), value());
    proptest::collection::vec(field, 0..8).prop_map(|lines| {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(HeaderName::from_static(name), value);
        }
        headers
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn random_messages_are_judged_without_contradictions(
        request in headers(),
        response in headers(),
        status in 100_u16..600,
        now_ms in prop_oneof![0_u64..10_000, 1_700_000_000_000_u64..1_700_000_100_000],
        later_ms in 0_u64..u64::MAX,
    ) {
        let asked = Asked {
            method: &Method::GET,
            has_authorization: request.contains_key("authorization"),
            sent_ms: now_ms,
        };
        let status = StatusCode::from_u16(status).expect("the number has three digits");
        let Ok((terms, rules)) = judge(asked, status, &response, now_ms, Grace::default()) else {
            return Ok(());
        };
        prop_assert!(!rules.is_private);
        prop_assert!(!rules.has_no_store || rules.has_must_understand);
        prop_assert!(terms.usable_ms(now_ms) > 0);
        let mut last_ms = u64::MAX;
        for at_ms in [now_ms, now_ms + 1, now_ms.saturating_add(later_ms), u64::MAX] {
            let usable_ms = terms.usable_ms(at_ms);
            prop_assert!(usable_ms <= last_ms, "the usable time grows");
            last_ms = usable_ms;
            prop_assert!(!terms.is_fresh(at_ms) || usable_ms > 0);
            prop_assert!(!terms.is_usable_meanwhile(at_ms) || usable_ms > 0);
            prop_assert!(!terms.is_usable_on_error(at_ms) || usable_ms > 0);
            prop_assert!(!terms.is_fresh(at_ms) || terms.remaining_ms(at_ms) > 0);
        }
        let mut softened = terms;
        softened.end_freshness(now_ms);
        prop_assert!(!softened.is_fresh(now_ms));
    }

    #[test]
    fn random_fields_are_read_without_a_panic(
        request in headers(),
        response in headers(),
        received_ms in any::<u64>(),
        whole in prop_oneof![0_u64..20, any::<u64>()],
    ) {
        let _ = Directives::of(&request);
        let _ = age(&response);
        if let Some((part, whole)) = content_range(&response) {
            prop_assert!(part.start < part.end && part.end <= whole);
        }
        if let Some(wanted) = Requested::of(&request)
            && let super::ranges::Answer::Parts(parts) = wanted.answer(whole)
        {
            prop_assert!(!parts.is_empty());
            let sum: u64 = parts.iter().map(|part| part.len()).sum();
            prop_assert!(sum <= whole, "{sum} bytes of {whole}");
        }
        if let Some(selection) = Selection::of(&request, &response) {
            prop_assert!(selection.matches(&request), "a request does not match itself");
        }
        let _ = conditional::is_for_origin(&request);
        let _ = conditional::is_unmodified(&request, &response, received_ms);
        let _ = conditional::permits_range(&request, &response);
        let _ = conditional::confirms(&response, &request);
        let mut validating = request.clone();
        conditional::remove(&mut validating);
        conditional::validate(&mut validating, &response);
        let mut stored = response.clone();
        fields::update(&mut stored, &request);
        if fields::remove_hop_by_hop(&mut stored) {
            prop_assert!(!stored.contains_key("connection"));
        }
    }
}
