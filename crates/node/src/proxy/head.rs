//! Head of a reply from the store in HTTP/1.1, written as bytes.
//!
//! `proxy/reply.rs` and [`Signature::add`] create a map of fields, which hyper writes;
//! [`write_head`] writes the same bytes from the stored fields, without the map. A test compares
//! the two.

use super::reply::age_seconds;
use crate::object::Object;
use crate::rules::dates;
use crate::rules::status::{self, CacheStatus};
use hyper::StatusCode;
use hyper::header::{
    AGE, CONNECTION, CONTENT_LENGTH, DATE, HeaderMap, HeaderName, HeaderValue, TRAILER,
    TRANSFER_ENCODING, VIA,
};
use std::fmt::{self, Write};

/// Fields with which a cache signs a reply.
pub(super) struct Signature<'a> {
    /// Value of Via.
    pub via: &'a HeaderValue,
    /// Content of Cache-Status.
    pub cache: &'a CacheStatus,
    /// Name of the cache.
    pub name: &'a str,
}

impl Signature<'_> {
    /// Adds the fields after those of other caches, and returns the value of Cache-Status.
    pub fn add(&self, headers: &mut HeaderMap, has_via: bool) -> HeaderValue {
        if has_via {
            headers.append(VIA, self.via.clone());
        }
        let cache = self.cache.value(self.name);
        headers.append(status::NAME, cache.clone());
        cache
    }
}

/// Appends the head of a reply with all of an object's content. Returns false if the object has a
/// field that concerns a single connection; the appended bytes are then useless.
pub(super) fn write_head(
    out: &mut Vec<u8>,
    object: &Object,
    now_ms: u64,
    signature: &Signature<'_>,
) -> bool {
    let head = &object.head;
    let mut writer = Writer {
        out,
        age_seconds: age_seconds(&head.terms, now_ms),
        length: object.length,
        signature,
        has_age: false,
        has_length: false,
        has_via: false,
        has_cache: false,
    };
    writer.status(head.status);
    let (mut has_date, mut last) = (false, None);
    for (name, value) in &head.headers {
        if last != Some(name) {
            // All lines of one field are adjacent.
            writer.end(last);
            last = Some(name);
        }
        match *name {
            AGE => writer.age(),
            CONTENT_LENGTH => writer.length(),
            CONNECTION | TRANSFER_ENCODING | TRAILER => return false,
            _ => {
                has_date |= *name == DATE;
                writer.line(name.as_str(), value.as_bytes());
            }
        }
    }
    writer.end(last);
    writer.age();
    writer.length();
    writer.end(Some(&VIA));
    writer.end(Some(&status::NAME));
    if !has_date {
        writer.line("date", dates::format(now_ms).as_bytes());
    }
    writer.out.extend_from_slice(b"\r\n");
    true
}

struct Writer<'a> {
    out: &'a mut Vec<u8>,
    age_seconds: u64,
    length: u64,
    signature: &'a Signature<'a>,
    has_age: bool,
    has_length: bool,
    has_via: bool,
    has_cache: bool,
}

impl Writer<'_> {
    fn status(&mut self, status: StatusCode) {
        if status == StatusCode::OK {
            self.out.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
            return;
        }
        let reason = status.canonical_reason().unwrap_or("<none>");
        for part in ["HTTP/1.1 ", status.as_str(), " ", reason, "\r\n"] {
            self.out.extend_from_slice(part.as_bytes());
        }
    }

    fn line(&mut self, name: &str, value: &[u8]) {
        self.out.reserve(name.len() + value.len() + 4);
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b": ");
        self.out.extend_from_slice(value);
        self.out.extend_from_slice(b"\r\n");
    }

    /// Writes Age in place of all stored lines of that field.
    fn age(&mut self) {
        if !std::mem::replace(&mut self.has_age, true) {
            self.number("age", self.age_seconds);
        }
    }

    /// Writes Content-Length in place of all stored lines of that field.
    fn length(&mut self) {
        if !std::mem::replace(&mut self.has_length, true) {
            self.number("content-length", self.length);
        }
    }

    fn number(&mut self, name: &str, number: u64) {
        // No 64-bit number has more than 20 digits.
        let mut digits = [0; 20];
        let (mut start, mut rest) = (digits.len(), number);
        loop {
            start -= 1;
            digits[start] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        self.line(name, &digits[start..]);
    }

    /// Writes this node's own line of Via or Cache-Status after the stored lines of that field.
    fn end(&mut self, name: Option<&HeaderName>) {
        if name == Some(&VIA) && !std::mem::replace(&mut self.has_via, true) {
            let signature = self.signature;
            self.line("via", signature.via.as_bytes());
        }
        if name == Some(&status::NAME) && !std::mem::replace(&mut self.has_cache, true) {
            self.out.extend_from_slice(status::FIELD.as_bytes());
            self.out.extend_from_slice(b": ");
            // Writing to a vector cannot fail.
            let _ = self
                .signature
                .cache
                .write(self.signature.name, &mut Text(self.out));
            self.out.extend_from_slice(b"\r\n");
        }
    }
}

/// Vector of bytes that text can be written to.
struct Text<'a>(&'a mut Vec<u8>);

impl Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Reply;
    use crate::object::Head;
    use crate::proxy::{Lookup, reply};
    use crate::rules::freshness::Terms;
    use crate::rules::vary::Selection;
    use bytes::Bytes;
    use hyper::Version;
    use proptest::prelude::*;
    use std::sync::Arc;

    const FIELDS: [(&str, &str); 16] = [
        ("age", "7"),
        ("age", "9"),
        ("content-length", "5"),
        ("content-length", "6"),
        ("content-length", "005"),
        ("via", "1.0 other"),
        ("via", "1.1 another"),
        ("cache-status", "other; hit"),
        ("cache-status", "another; fwd=miss"),
        ("date", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ("content-type", "text/plain"),
        ("set-cookie", "a=b"),
        ("set-cookie", "c=d"),
        ("x-empty", ""),
        ("etag", "\"v\""),
        ("x-text", "\u{e9}"),
    ];

    fn object(fields: &[usize], status: u16, age_ms: u64) -> Object {
        let mut headers = HeaderMap::new();
        for (name, value) in fields.iter().map(|index| FIELDS[*index]) {
            let name = HeaderName::from_static(name);
            let value = HeaderValue::from_bytes(value.as_bytes()).expect("the text is valid");
            headers.append(name, value);
        }
        let head = Head {
            status: StatusCode::from_u16(status).expect("it has three digits"),
            headers,
            terms: Terms {
                received_ms: 0,
                initial_age_ms: age_ms,
                fresh_ms: 1 << 40,
                revalidate_ms: 0,
                error_ms: 0,
                keep_ms: 0,
                is_always_validated: false,
                must_revalidate: false,
            },
            selection: Selection::default(),
            part: None,
            tags: [].into(),
            coded: None,
        };
        Object::new(Arc::new(head), vec![Bytes::from_static(b"12345")])
    }

    /// Writes the same head from a map of fields, as hyper does.
    fn by_map(object: &Object, now_ms: u64, signature: &Signature<'_>) -> Vec<u8> {
        let lookup = Lookup::plain();
        let mut response = reply::hit(&lookup, object, now_ms, Reply::Hit).response;
        signature.add(response.headers_mut(), true);
        let mut out = format!("{:?} {}\r\n", Version::HTTP_11, response.status()).into_bytes();
        for (name, value) in response.headers() {
            for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
                out.extend_from_slice(part);
            }
        }
        if !response.headers().contains_key(DATE) {
            let date = dates::format(now_ms);
            for part in [b"date: ", date.as_bytes(), b"\r\n"] {
                out.extend_from_slice(part);
            }
        }
        out.extend_from_slice(b"\r\n");
        out
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn heads_are_those_of_the_map_of_fields(
            fields in prop::collection::vec(0..FIELDS.len(), 0..12),
            status in prop::sample::select(&[200_u16, 203, 301, 404, 410, 500][..]),
            age_ms in 0_u64..1 << 40,
            now_ms in 0_u64..1 << 41,
        ) {
            let object = object(&fields, status, age_ms);
            let via = HeaderValue::from_static("1.1 cache");
            let mut cache = CacheStatus::default();
            cache.set_ttl(&object.head.terms, now_ms);
            let signature = Signature { via: &via, cache: &cache, name: "cache" };
            let mut out = vec![];
            prop_assert!(write_head(&mut out, &object, now_ms, &signature));
            let expected = by_map(&object, now_ms, &signature);
            prop_assert_eq!(String::from_utf8_lossy(&out), String::from_utf8_lossy(&expected));
        }
    }

    #[test]
    fn fields_of_one_connection_are_not_written() {
        for name in ["connection", "transfer-encoding", "trailer"] {
            let mut object = object(&[], 200, 0);
            let head = Arc::make_mut(&mut object.head);
            let name = HeaderName::from_static(name);
            head.headers.insert(name, HeaderValue::from_static("x"));
            let via = HeaderValue::from_static("1.1 cache");
            let signature = Signature {
                via: &via,
                cache: &CacheStatus::default(),
                name: "cache",
            };
            assert!(!write_head(&mut vec![], &object, 0, &signature));
        }
    }
}
