//! Replies made from stored or arriving responses: 200, 206, 304 and 416.

use super::Lookup;
use crate::body::Content;
use crate::fill::{Fill, Reader};
use crate::metrics::{Failure, Reply};
use crate::object::{Head, Object};
use crate::rules::conditional;
use crate::rules::freshness::Terms;
use crate::rules::ranges::{Answer as Ranges, Range};
use crate::rules::status::CacheStatus;
use bytes::Bytes;
use hyper::header::{AGE, CONTENT_LENGTH, HeaderMap, HeaderValue};
use hyper::{Response, StatusCode};
use std::sync::Arc;
use std::time::Instant;

/// Reply, and the way in which it was produced.
pub(super) struct Answer {
    /// The reply, without Cache-Status.
    pub response: Response<Content>,
    /// Source of the reply, for metrics.
    pub reply: Reply,
    /// Value of Cache-Status.
    pub cache: CacheStatus,
}

impl Answer {
    /// Adds fields for the client of this request, except fields that the reply already has and
    /// fields that describe its content.
    pub fn with(mut self, fields: HeaderMap) -> Self {
        let headers = self.response.headers_mut();
        for name in fields.keys() {
            if headers.contains_key(name) || CONTENT_FIELDS.contains(&name.as_str()) {
                continue;
            }
            for value in fields.get_all(name) {
                headers.append(name.clone(), value.clone());
            }
        }
        self
    }
}

impl Answer {
    /// Notes that the origin has answered a request that was sent at an instant.
    pub fn after_origin(mut self, sent: Instant) -> Self {
        self.cache.origin_time = Some(sent.elapsed());
        self
    }
}

/// Fields that describe content, which a 304 must not have.
const CONTENT_FIELDS: [&str; 4] = [
    "content-encoding",
    "content-length",
    "content-range",
    "content-type",
];

/// Answers from the store without the origin.
pub(super) fn hit(lookup: &Lookup, object: &Object, now_ms: u64, reply: Reply) -> Answer {
    stored(lookup, object, now_ms, reply, CacheStatus::default())
}

/// Answers with a stored response.
pub(super) fn stored(
    lookup: &Lookup,
    object: &Object,
    now_ms: u64,
    reply: Reply,
    mut cache: CacheStatus,
) -> Answer {
    let head = &object.head;
    cache.set_ttl(&head.terms, now_ms);
    let mut headers = fields(head, now_ms);
    let (status, body) = match shape(lookup, head, object.length) {
        Shape::Unmodified => {
            remove_content_fields(&mut headers);
            (StatusCode::NOT_MODIFIED, Content::empty())
        }
        Shape::Whole => {
            set_length(&mut headers, head.status, object.length);
            let all = Range {
                start: 0,
                end: object.length,
            };
            (head.status, content(object, all))
        }
        Shape::Part(range, offset, whole) => {
            set_length(&mut headers, StatusCode::PARTIAL_CONTENT, range.len());
            headers.insert("content-range", range.content_range(whole));
            let inside = Range {
                start: range.start - offset,
                end: range.end - offset,
            };
            (StatusCode::PARTIAL_CONTENT, content(object, inside))
        }
        Shape::Parts(ranges) => {
            let chunks = multipart(&mut headers, object, &ranges);
            (StatusCode::PARTIAL_CONTENT, Content::chunks(chunks))
        }
        Shape::Unsatisfiable(whole) => unsatisfiable(&mut headers, whole),
    };
    let body = if lookup.is_head {
        Content::empty()
    } else {
        body
    };
    finish(status, headers, body, reply, cache)
}

/// Returns a range of stored content.
fn content(object: &Object, range: Range) -> Content {
    match &object.extent {
        Some(extent) => Content::pieces(extent.read(range), range.len()),
        None if range.len() == object.length => match &object.chunks[..] {
            [chunk] => Content::single(chunk.clone()),
            chunks => Content::chunks(chunks.to_vec()),
        },
        None => Content::chunks(object.slice(range)),
    }
}

/// Answers the request that fetches, with content as it arrives.
pub(super) fn leading(
    lookup: &Lookup,
    head: &Arc<Head>,
    fill: &Arc<Fill>,
    first: Option<Reader>,
    length: Option<u64>,
    now_ms: u64,
    cache: CacheStatus,
) -> Answer {
    let reader = first.or_else(|| fill.reader());
    match reader {
        Some(reader) => arriving(lookup, head, reader, length, now_ms, cache),
        None => refused(StatusCode::BAD_GATEWAY, "the content was dropped", cache),
    }
}

/// Answers with content that arrives for another request. Returns `None` if its beginning is no
/// longer kept, or if a part is requested while its length is unknown.
pub(super) fn following(
    lookup: &Lookup,
    head: &Arc<Head>,
    fill: &Arc<Fill>,
    length: Option<u64>,
    now_ms: u64,
    cache: CacheStatus,
) -> Option<Answer> {
    if head.part.is_some() || (lookup.wanted.is_some() && length.is_none()) {
        return None;
    }
    let reader = fill.reader()?;
    Some(arriving(lookup, head, reader, length, now_ms, cache))
}

fn arriving(
    lookup: &Lookup,
    head: &Head,
    reader: Reader,
    length: Option<u64>,
    now_ms: u64,
    mut cache: CacheStatus,
) -> Answer {
    if head.terms.usable_ms(now_ms) > 0 {
        cache.set_ttl(&head.terms, now_ms);
    }
    let mut headers = fields(head, now_ms);
    if head.terms.age_ms(now_ms) < 1_000 {
        // Age would mean that the response comes from a cache.
        headers.remove("age");
    }
    let shape = match length {
        Some(length) if head.part.is_none() => shape(lookup, head, length),
        // A part that was requested as such is sent as it arrives.
        _ if is_unmodified(lookup, head) => Shape::Unmodified,
        _ => Shape::Whole,
    };
    let (status, content) = match shape {
        Shape::Unmodified => {
            remove_content_fields(&mut headers);
            (StatusCode::NOT_MODIFIED, Content::empty())
        }
        Shape::Part(range, _, whole) => {
            set_length(&mut headers, StatusCode::PARTIAL_CONTENT, range.len());
            headers.insert("content-range", range.content_range(whole));
            let content = Content::following(reader, Some(range), length);
            (StatusCode::PARTIAL_CONTENT, content)
        }
        Shape::Unsatisfiable(whole) => unsatisfiable(&mut headers, whole),
        // Several ranges of content that is still arriving are answered with all of it, which RFC
        // 9110 permits.
        Shape::Whole | Shape::Parts(_) => {
            if let Some(length) = length {
                set_length(&mut headers, head.status, length);
            }
            (head.status, Content::following(reader, None, length))
        }
    };
    let content = if lookup.is_head {
        Content::empty()
    } else {
        content
    };
    finish(status, headers, content, Reply::Miss, cache)
}

/// Returns a refusal by the node itself.
pub(super) fn refused(status: StatusCode, text: &'static str, cache: CacheStatus) -> Answer {
    self::text(status, format!("{text}\n"), Reply::Refused, cache)
}

/// Returns a reply of the node itself.
pub(super) fn text(status: StatusCode, text: String, reply: Reply, cache: CacheStatus) -> Answer {
    let mut headers = HeaderMap::new();
    headers.insert(
        "content-type",
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    headers.insert("cache-control", HeaderValue::from_static("no-store"));
    finish(status, headers, Content::text(text), reply, cache)
}

/// Returns the reply to a request that the origin did not answer.
pub(super) fn failed(failure: Failure, cache: CacheStatus) -> Answer {
    match failure {
        Failure::Timeout => {
            let text = "the origin does not answer in time";
            refused(StatusCode::GATEWAY_TIMEOUT, text, cache)
        }
        Failure::Down => {
            let text = "the origin has not answered other requests and is tried again soon";
            let mut answer = refused(StatusCode::SERVICE_UNAVAILABLE, text, cache);
            let headers = answer.response.headers_mut();
            headers.insert("retry-after", HeaderValue::from_static("1"));
            answer
        }
        Failure::Status => {
            let text = "the origin answers with an error";
            refused(StatusCode::BAD_GATEWAY, text, cache)
        }
        Failure::Connection | Failure::Truncated => {
            let text = "the origin cannot be reached";
            refused(StatusCode::BAD_GATEWAY, text, cache)
        }
    }
}

/// Form in which a response is sent.
enum Shape {
    Unmodified,
    Whole,
    /// A range, the offset at which the stored content begins, and the length of the whole.
    Part(Range, u64, u64),
    Parts(Vec<Range>),
    Unsatisfiable(u64),
}

fn is_unmodified(lookup: &Lookup, head: &Head) -> bool {
    let is_success = head.status.is_success();
    lookup.has_condition
        && is_success
        && conditional::is_unmodified(&lookup.headers, &head.headers, head.terms.received_ms)
}

fn shape(lookup: &Lookup, head: &Head, length: u64) -> Shape {
    if is_unmodified(lookup, head) {
        return Shape::Unmodified;
    }
    if lookup.wanted.is_none() {
        return Shape::Whole;
    }
    let (offset, whole) = head
        .part
        .map_or((0, length), |(part, whole)| (part.start, whole));
    let is_divisible = matches!(head.status.as_u16(), 200 | 206);
    let permits = conditional::permits_range(&lookup.headers, &head.headers);
    let wanted = lookup.wanted.as_ref().filter(|_| is_divisible && permits);
    let Some(wanted) = wanted else {
        return Shape::Whole;
    };
    match wanted.answer(whole) {
        Ranges::Unsatisfiable => Shape::Unsatisfiable(whole),
        Ranges::Parts(parts) => match parts[..] {
            [part] => Shape::Part(part, offset, whole),
            _ => Shape::Parts(parts),
        },
    }
}

/// Returns the stored fields with the current age.
fn fields(head: &Head, now_ms: u64) -> HeaderMap {
    let mut headers = head.headers.clone();
    headers.insert(AGE, HeaderValue::from(age_seconds(&head.terms, now_ms)));
    headers
}

/// Returns the value of Age in seconds.
pub(super) fn age_seconds(terms: &Terms, now_ms: u64) -> u64 {
    terms.age_ms(now_ms) / 1_000
}

fn set_length(headers: &mut HeaderMap, status: StatusCode, length: u64) {
    if status == StatusCode::NO_CONTENT {
        return;
    }
    let mut lines = headers.get_all(CONTENT_LENGTH).iter();
    let is_right = |value: &HeaderValue| is_decimal(value.as_bytes(), length);
    // A response of the origin usually already has the right field.
    if lines.next().is_some_and(is_right) && lines.next().is_none() {
        return;
    }
    headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
}

/// Returns true if a text is the usual decimal form of a number.
fn is_decimal(text: &[u8], mut number: u64) -> bool {
    for (index, byte) in text.iter().enumerate().rev() {
        if *byte != b'0' + (number % 10) as u8 {
            return false;
        }
        number /= 10;
        if number == 0 {
            return index == 0;
        }
    }
    false
}

fn remove_content_fields(headers: &mut HeaderMap) {
    for name in CONTENT_FIELDS {
        headers.remove(name);
    }
}

fn unsatisfiable(headers: &mut HeaderMap, whole: u64) -> (StatusCode, Content) {
    remove_content_fields(headers);
    let text = format!("bytes */{whole}");
    let value = HeaderValue::from_str(&text).expect("digits are plain ASCII");
    headers.insert("content-range", value);
    headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    (StatusCode::RANGE_NOT_SATISFIABLE, Content::empty())
}

/// Returns the content of several ranges (RFC 9110, section 14.6). The boundary is fixed: parts
/// have a length, so that clients that use it cannot misread content that contains the boundary.
fn multipart(headers: &mut HeaderMap, object: &Object, ranges: &[Range]) -> Vec<Bytes> {
    const BOUNDARY: &str = "mayfly-edge-5f1c2a9e77d04b36";
    let kind = headers.get("content-type").cloned();
    let mut chunks = vec![];
    for range in ranges {
        let mut text = format!("\r\n--{BOUNDARY}\r\n").into_bytes();
        if let Some(kind) = &kind {
            text.extend_from_slice(b"Content-Type: ");
            text.extend_from_slice(kind.as_bytes());
            text.extend_from_slice(b"\r\n");
        }
        text.extend_from_slice(b"Content-Range: ");
        text.extend_from_slice(range.content_range(object.length).as_bytes());
        text.extend_from_slice(b"\r\n\r\n");
        chunks.push(text.into());
        chunks.extend(object.slice(*range));
    }
    chunks.push(format!("\r\n--{BOUNDARY}--\r\n").into());
    let length: u64 = chunks.iter().map(|chunk: &Bytes| chunk.len() as u64).sum();
    let text = format!("multipart/byteranges; boundary={BOUNDARY}");
    let kind = HeaderValue::from_str(&text).expect("the boundary is plain ASCII");
    headers.insert("content-type", kind);
    headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    chunks
}

fn finish(
    status: StatusCode,
    headers: HeaderMap,
    content: Content,
    reply: Reply,
    cache: CacheStatus,
) -> Answer {
    let mut response = Response::new(content);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    Answer {
        response,
        reply,
        cache,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_is_replaced_unless_it_is_the_only_and_the_right_one() {
        for number in [0, 7, 10, 1_024, 1 << 31, u64::MAX] {
            assert!(is_decimal(number.to_string().as_bytes(), number));
            for text in ["", "01", "+7", "1024 ", "1025", "2147483649"] {
                assert!(!is_decimal(text.as_bytes(), number), "{text} {number}");
            }
            assert!(!is_decimal(format!("0{number}").as_bytes(), number));
        }
        for lines in [&[][..], &["5"], &["6"], &["5", "5"], &["5", "6"]] {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(CONTENT_LENGTH, HeaderValue::from_static(line));
            }
            set_length(&mut headers, StatusCode::OK, 5);
            let left: Vec<_> = headers.get_all(CONTENT_LENGTH).iter().collect();
            assert_eq!(left, ["5"]);
        }
    }
}
