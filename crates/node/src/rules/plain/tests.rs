use super::*;
use crate::rules::key::Key;
use hyper::header::{HeaderMap, HeaderValue};
use hyper::{Method, Request, Uri, Version};
use proptest::prelude::*;

/// Expected classification of some bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Partial,
    Plain,
    Single,
    Other,
}

fn kind(bytes: &[u8]) -> Kind {
    let mut room = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    match begin(bytes, &mut room) {
        Begin::Partial => Kind::Partial,
        Begin::Plain(_, length) => {
            assert!(length <= bytes.len());
            Kind::Plain
        }
        Begin::Single(length) => {
            assert!(length <= bytes.len());
            Kind::Single
        }
        Begin::Other => Kind::Other,
    }
}

/// Returns the kind of a request with some fields in addition to Host.
fn with(fields: &str) -> Kind {
    kind(format!("GET /x HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_bytes())
}

#[test]
fn usual_requests_are_plain() {
    let browser = "User-Agent: x\r\nAccept: */*\r\nAccept-Encoding: gzip\r\nCookie: a=b\r\n\
        Connection: Keep-Alive\r\nSec-Fetch-Mode: navigate\r\nPriority: u=0\r\n";
    for fields in ["", "Accept: */*\r\n", "X: \r\n", browser] {
        assert_eq!(with(fields), Kind::Plain, "{fields}");
    }
    assert_eq!(kind(b"HEAD /?q=%20&a=b HTTP/1.1\r\n\r\nnext"), Kind::Plain);
}

#[test]
fn fields_with_a_meaning_are_for_hyper() {
    for field in [
        "Range: bytes=0-1",
        "If-None-Match: \"v\"",
        "if-match: *",
        "CACHE-CONTROL: no-cache",
        "Pragma: no-cache",
        "Connection: close",
        "Connection: keep-alive, x",
        "Keep-Alive: 5",
        "TE: trailers",
        "Via: 1.1 x",
        "Authorization: Basic x",
        "X-Forwarded-For: x",
        "Proxy-Authorization: x",
        "X-HTTP-Method-Override: x",
    ] {
        assert_eq!(with(&format!("{field}\r\n")), Kind::Single, "{field}");
    }
    for line in [
        "POST /x HTTP/1.1",
        "GET /x HTTP/1.0",
        "OPTIONS * HTTP/1.1",
        "GET /x{ HTTP/1.1",
    ] {
        let text = format!("{line}\r\nHost: a\r\n\r\n");
        assert_eq!(kind(text.as_bytes()), Kind::Single, "{line}");
    }
    let absolute = b"GET http://a/x HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_eq!(kind(absolute), Kind::Single);
    assert_eq!(kind(b"GET /x#y HTTP/1.1\r\nHost: a\r\n\r\n"), Kind::Single);
}

#[test]
fn what_may_not_end_with_the_head_is_for_hyper_for_good() {
    for field in [
        "Content-Length: 0",
        "content-length: 5",
        "Transfer-Encoding: chunked",
        "Transfer-Encoding : chunked",
        "Expect: 100-continue",
        "Upgrade: h2c",
        "Connection: Upgrade\r\nupgrade: websocket",
        " folded",
        "X: y\n",
        "X: a\0b",
        "X: a\rb",
        "no colon",
    ] {
        assert_eq!(with(&format!("{field}\r\n")), Kind::Other, "{field:?}");
    }
    for text in [
        "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\n",
        "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.2\r\nHost: a\r\n\r\n",
        "CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "\u{16}\u{3}\u{1}",
    ] {
        assert_eq!(kind(text.as_bytes()), Kind::Other, "{text:?}");
    }
    let many = "X: y\r\n".repeat(FIELDS_MAX);
    assert_eq!(with(&many), Kind::Other);
    assert_eq!(with(&"X: y\r\n".repeat(FIELDS_MAX - 1)), Kind::Plain);
}

#[test]
fn every_beginning_of_a_head_is_partial() {
    let text = b"GET /x HTTP/1.1\r\nHost: a\r\nAccept: b\r\n\r\n";
    for end in 0..text.len() {
        assert_eq!(kind(&text[..end]), Kind::Partial, "{end}");
    }
}

/// Returns hyper's result for a head: the same parser, then the types of the crate `http`.
fn parsed(bytes: &[u8]) -> Option<(Request<()>, usize)> {
    let mut fields = [httparse::EMPTY_HEADER; 100];
    let mut head = httparse::Request::new(&mut fields);
    let Ok(httparse::Status::Complete(length)) = head.parse(bytes) else {
        return None;
    };
    let mut request = Request::new(());
    *request.method_mut() = Method::from_bytes(head.method?.as_bytes()).ok()?;
    let target = bytes::Bytes::copy_from_slice(head.path?.as_bytes());
    *request.uri_mut() = Uri::from_maybe_shared(target).ok()?;
    *request.version_mut() = match head.version? {
        1 => Version::HTTP_11,
        _ => Version::HTTP_10,
    };
    for field in head.headers.iter() {
        let name = HeaderName::from_bytes(field.name.as_bytes()).ok()?;
        let value = HeaderValue::from_bytes(field.value).ok()?;
        request.headers_mut().append(name, value);
    }
    Some((request, length))
}

/// Checks that a request that is accepted here means the same to hyper.
fn check(bytes: &[u8]) -> Result<bool, TestCaseError> {
    let mut room = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    let (plain, length) = match begin(bytes, &mut room) {
        Begin::Plain(plain, length) => (Some(plain), length),
        Begin::Single(length) => (None, length),
        _ => return Ok(false),
    };
    let read = parsed(bytes);
    let Some(plain) = plain else {
        // hyper may refuse it, and otherwise finds the same end and no content.
        if let Some((request, read)) = read {
            prop_assert_eq!(read, length);
            for name in ["content-length", "transfer-encoding", "expect", "upgrade"] {
                prop_assert!(!request.headers().contains_key(name));
            }
        }
        return Ok(false);
    };
    let Some((request, read)) = read else {
        return Err(TestCaseError::fail("hyper refuses a plain request"));
    };
    prop_assert_eq!(read, length);
    let method = if plain.is_head {
        Method::HEAD
    } else {
        Method::GET
    };
    prop_assert_eq!(request.method(), method);
    prop_assert_eq!(request.version(), Version::HTTP_11);
    prop_assert_eq!(
        request.uri().path_and_query().map(|path| path.as_str()),
        Some(plain.path)
    );
    let key = Key::of_path(false, plain.path, &plain);
    prop_assert_eq!(Key::of(&request, false), key);
    prop_assert_eq!(request.headers().len(), plain.field_count());
    let mut headers: HeaderMap = request.headers().clone();
    headers.remove(CONNECTION);
    prop_assert_eq!(Present::of(&headers), Present::default());
    for name in request.headers().keys() {
        let expected: Vec<_> = headers.lines(name).collect();
        prop_assert_eq!(plain.lines(name).collect::<Vec<_>>(), expected);
    }
    Ok(true)
}

const LINES: [&str; 24] = [
    "Host: a",
    "host: A:80",
    "Accept: */*",
    "Accept-Encoding: gzip, br",
    "Cookie: x=y",
    "X: \u{e9}",
    "X:\t y \t",
    "Connection: keep-alive",
    "Connection: close",
    "Keep-Alive: 1",
    "Range: bytes=0-0",
    "If-None-Match: *",
    "Cache-Control: max-age=0",
    "Via: 1.0 x",
    "Content-Length: 0",
    "Transfer-Encoding: chunked",
    "Transfer_Encoding: chunked",
    "Upgrade: h2c",
    "Expect: 100-continue",
    "Authorization: x",
    "X-Forwarded-Host: b",
    "Host: b/c",
    " folded",
    "X: y\nZ: 1",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn requests_that_are_accepted_mean_the_same_to_hyper(
        method in prop_oneof![8 => Just("GET"), 2 => Just("HEAD"), 1 => Just("POST"), 1 => Just("get")],
        target in prop_oneof![
            6 => "/[a-z0-9%?&=./-]{0,12}",
            2 => "/[ -~]{0,6}",
            1 => Just("*".to_owned()),
            1 => "http://a/[a-z#]{0,3}",
        ],
        version in prop_oneof![9 => Just("HTTP/1.1"), 1 => Just("HTTP/1.0"), 1 => Just("HTTP/2.0")],
        lines in prop::collection::vec(prop::sample::select(&LINES[..]), 0..6),
        ends in prop_oneof![8 => Just("\r\n"), 1 => Just("\n"), 1 => Just("\r\r\n")],
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        is_changed in prop::bool::weighted(0.4),
    ) {
        let mut text = format!("{method} {target} {version}{ends}");
        for line in lines {
            text.push_str(line);
            text.push_str(ends);
        }
        text.push_str(ends);
        text.push_str("GET /next HTTP/1.1\r\n\r\n");
        let mut bytes = text.into_bytes();
        for (at, byte) in changes.into_iter().filter(|_| is_changed) {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        check(&bytes)?;
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        check(&bytes)?;
    }
}
