//! Messages between nodes: heads of responses, and header fields of requests.
//!
//! ```text
//! message:  version (1 byte), time of the sender (8), time since its fetch began (8), head
//! messages: length (4 bytes), message, length, message, …
//! ```
//!
//! Times are in milliseconds, numbers are little-endian. When a head is read, its instants are
//! moved by the difference of the two clocks, so that a response expires on all nodes at the same
//! time even if their clocks differ.

use crate::disk::{HeadReader, put_head};
use crate::object::{Head, VARIANTS_MAX};
use crate::rules::ranges::Range;
use hyper::header::HeaderValue;
use std::time::Duration;

/// Field with the key of the response that a request concerns.
pub const KEY: &str = "mayfly-key";
/// Field with a [`Part`].
pub const PART: &str = "mayfly-part";
/// Field with the client's address of a forwarded request.
pub const CLIENT: &str = "mayfly-client";
/// Field of a request whose sender can read chunks itself. In a reply, it means that the body is a
/// head.
pub const STUB: &str = "mayfly-stub";
/// Field of a request whose sender stores copies of small responses. In a reply, it means that the
/// body is a head with its content.
pub const COPY: &str = "mayfly-copy";
/// Field of a purge, with its kind and its target.
pub const PURGE: &str = "mayfly-purge";
/// Field of a purge with the numbers of the nodes that have missed it, separated by spaces. The
/// receiver sends the purge to them when they answer again.
pub const MISSED: &str = "mayfly-missed";

/// Field with the identity of the sender's map.
pub const MAP: &str = "mayfly-map";

/// Field with the number of the sender.
pub const NODE: &str = "mayfly-node";
/// Maximum size in bytes of all messages about one URL.
pub const MESSAGES_BYTES_MAX: usize = 1 << 20;

const VERSION: u8 = 1;

/// A head that another node has sent.
#[derive(Clone, Debug)]
pub struct Message {
    /// Head of the response, with instants of this node's clock.
    pub head: Head,
    /// Time since the sender began to fetch the response.
    pub age: Duration,
}

/// Appends a message with a head.
pub fn put(bytes: &mut Vec<u8>, head: &Head, now_ms: u64, age: Duration) {
    let start = bytes.len();
    bytes.extend_from_slice(&[0; 4]);
    bytes.push(VERSION);
    bytes.extend_from_slice(&now_ms.to_le_bytes());
    let age_ms = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
    bytes.extend_from_slice(&age_ms.to_le_bytes());
    put_head(bytes, head);
    let length = u32::try_from(bytes.len() - start - 4).unwrap_or(u32::MAX);
    bytes[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

/// Reads the first message, and returns it with its length in bytes. Returns `None` if the bytes do
/// not begin with a message.
pub fn read(bytes: &[u8], now_ms: u64) -> Option<(Message, usize)> {
    let mut reader = HeadReader(bytes);
    let length = reader.u32()? as usize;
    let mut reader = HeadReader(reader.take(length)?);
    if reader.u8()? != VERSION {
        return None;
    }
    let sent_ms = reader.u64()?;
    let age = Duration::from_millis(reader.u64()?);
    let mut head = reader.head()?;
    if !reader.0.is_empty() {
        return None;
    }
    // The time since the arrival is the same on all clocks.
    let since_ms = sent_ms.saturating_sub(head.terms.received_ms);
    head.terms.received_ms = now_ms.saturating_sub(since_ms);
    Some((Message { head, age }, 4 + length))
}

/// Reads all messages. Returns `None` if the bytes are not messages, or if there are too many.
pub fn read_all(mut bytes: &[u8], now_ms: u64) -> Option<Vec<Message>> {
    let mut messages = vec![];
    while !bytes.is_empty() {
        let (message, length) = read(bytes, now_ms)?;
        if messages.len() == VARIANTS_MAX {
            return None;
        }
        messages.push(message);
        bytes = &bytes[length..];
    }
    Some(messages)
}

/// Range of a chunk that a request concerns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// Version of the object.
    pub version: u64,
    /// Number of the chunk.
    pub chunk: usize,
    /// Range of the chunk's content.
    pub range: Range,
}

impl Part {
    /// Returns the value of the [`PART`] field.
    pub fn value(&self) -> HeaderValue {
        let Part {
            version,
            chunk,
            range,
        } = self;
        let text = format!("{version:x} {chunk} {} {}", range.start, range.end);
        HeaderValue::from_str(&text).expect("digits are plain ASCII")
    }

    /// Parses the value of the [`PART`] field; `None` if it is malformed.
    pub fn parse(value: &HeaderValue) -> Option<Self> {
        let mut words = value.to_str().ok()?.split(' ');
        let version = u64::from_str_radix(words.next()?, 16).ok()?;
        let chunk = words.next()?.parse().ok()?;
        let range = Range {
            start: words.next()?.parse().ok()?,
            end: words.next()?.parse().ok()?,
        };
        let is_valid = range.start <= range.end && words.next().is_none();
        is_valid.then_some(Part {
            version,
            chunk,
            range,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coded::Coded;
    use crate::rules::freshness::Terms;
    use crate::rules::vary::Selection;
    use hyper::StatusCode;
    use hyper::header::HeaderMap;
    use proptest::prelude::*;

    fn head() -> Head {
        let mut headers = HeaderMap::new();
        headers.insert("etag", HeaderValue::from_static("\"v\""));
        Head {
            status: StatusCode::OK,
            headers,
            terms: Terms {
                received_ms: 1_000_000,
                initial_age_ms: 5,
                fresh_ms: 60_000,
                revalidate_ms: 0,
                error_ms: 0,
                keep_ms: 0,
                is_always_validated: false,
                must_revalidate: true,
            },
            selection: Selection::default(),
            part: None,
            tags: [3].into(),
            coded: Some(Coded {
                version: 7,
                length: 8,
            }),
        }
    }

    #[test]
    fn a_head_leaves_at_the_same_time_although_clocks_differ() {
        let mut bytes = vec![];
        put(&mut bytes, &head(), 1_020_000, Duration::from_secs(21));
        let minutes_apart = 1_020_000 + 300_000;
        let (message, length) = read(&bytes, minutes_apart).expect("it was encoded");
        assert_eq!(length, bytes.len());
        assert_eq!(message.age, Duration::from_secs(21));
        assert_eq!(message.head.coded, head().coded);
        assert_eq!(message.head.headers, head().headers);
        let left = |head: &Head, now_ms| head.terms.remaining_ms(now_ms);
        assert_eq!(left(&message.head, minutes_apart), left(&head(), 1_020_000));
        // The clock of this node is far behind.
        let (message, _) = read(&bytes, 7).expect("it was encoded");
        assert_eq!(message.head.terms.received_ms, 0);
    }

    #[test]
    fn messages_are_read_one_after_the_other() {
        let mut bytes = vec![];
        for _ in 0..VARIANTS_MAX {
            put(&mut bytes, &head(), 1, Duration::ZERO);
        }
        assert_eq!(read_all(&bytes, 1).map(|all| all.len()), Some(VARIANTS_MAX));
        put(&mut bytes, &head(), 1, Duration::ZERO);
        assert!(read_all(&bytes, 1).is_none());
        assert!(read_all(&bytes[..9], 1).is_none());
        assert_eq!(read_all(&[], 1).map(|all| all.len()), Some(0));
    }

    #[test]
    fn a_part_is_read() {
        let part = Part {
            version: u64::MAX,
            chunk: 3,
            range: Range { start: 4, end: 9 },
        };
        assert_eq!(Part::parse(&part.value()), Some(part));
        for text in ["", "1 2 3", "1 2 4 3", "x 2 3 4", "1 2 3 4 5", "1 -2 3 4"] {
            let value = HeaderValue::from_str(text).expect("the input is valid");
            assert_eq!(Part::parse(&value), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn damaged_messages_are_read_or_refused(
            at in 0usize..200, byte in any::<u8>(), cut in 0usize..200,
        ) {
            let mut bytes = vec![];
            put(&mut bytes, &head(), 1, Duration::ZERO);
            let at = at % bytes.len();
            bytes[at] = byte;
            bytes.truncate(cut);
            let _ = read_all(&bytes, 1);
        }
    }
}
