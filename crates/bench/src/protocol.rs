//! The RESP and memcached requests and replies that a look-aside cache needs.

use serde::Serialize;
use std::io::Write;

/// Maximum TTL that memcached accepts as a number of seconds. It interprets larger numbers as Unix
/// times.
const TTL_SECONDS_MAX: u64 = wire::memcached::RELATIVE_SECONDS_MAX as u64;

/// Protocol of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Protocol {
    Resp,
    Memcached,
}

/// Meaning of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The reply has a value.
    Found,
    /// The key does not exist.
    Nothing,
    /// The request succeeded.
    Done,
    /// The server refused the request.
    Refused,
}

impl Protocol {
    /// Returns the length of the first reply in `input`; `None` if it is incomplete.
    #[inline]
    pub(crate) fn skip(self, input: &[u8]) -> Result<Option<usize>, &'static str> {
        match self {
            Protocol::Resp => wire::skip_reply(input).map_err(|_| "its reply is not RESP"),
            Protocol::Memcached => wire::memcached::skip_reply(input)
                .map_err(|_| "its reply is none of memcached's protocol"),
        }
    }

    /// Returns the meaning of a complete reply to `get`, `set` or `delete`.
    #[inline]
    pub(crate) fn answer(self, reply: &[u8]) -> Answer {
        match self {
            Protocol::Resp => match reply {
                [b'-', ..] => Answer::Refused,
                [b'$', b'-', ..] | [b'_', ..] => Answer::Nothing,
                [b'$', ..] => Answer::Found,
                _ => Answer::Done,
            },
            Protocol::Memcached => match reply {
                [b'V', ..] => Answer::Found,
                b"END\r\n" => Answer::Nothing,
                b"STORED\r\n" | b"DELETED\r\n" | b"NOT_FOUND\r\n" => Answer::Done,
                _ => Answer::Refused,
            },
        }
    }

    /// Appends a request for a key's value.
    pub(crate) fn get(self, out: &mut Vec<u8>, key: &[u8]) {
        match self {
            Protocol::Resp => wire::encode_command(out, &[b"GET", key]),
            Protocol::Memcached => out.extend([b"get ", key, b"\r\n"].into_iter().flatten()),
        }
    }

    /// Appends a request that stores a value, with a TTL in seconds or without one.
    pub(crate) fn set(self, out: &mut Vec<u8>, key: &[u8], value: &[u8], ttl: Option<u64>) {
        let ttl = ttl.map(|seconds| seconds.clamp(1, TTL_SECONDS_MAX));
        match self {
            Protocol::Resp => {
                let seconds = ttl.map(|seconds| seconds.to_string());
                let mut words: Vec<&[u8]> = vec![b"SET", key, value];
                if let Some(seconds) = &seconds {
                    words.extend([b"EX", seconds.as_bytes()]);
                }
                wire::encode_command(out, &words);
            }
            Protocol::Memcached => {
                out.extend_from_slice(b"set ");
                out.extend_from_slice(key);
                // Writing to a vector cannot fail.
                let _ = write!(out, " 0 {} {}\r\n", ttl.unwrap_or(0), value.len());
                out.extend_from_slice(value);
                out.extend_from_slice(b"\r\n");
            }
        }
    }

    /// Appends a request that removes a key.
    pub(crate) fn delete(self, out: &mut Vec<u8>, key: &[u8]) {
        match self {
            Protocol::Resp => wire::encode_command(out, &[b"DEL", key]),
            Protocol::Memcached => out.extend([b"delete ", key, b"\r\n"].into_iter().flatten()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::memcached::{Limits, Parsed, Parser, Verb};

    #[test]
    fn memcached_reads_what_is_sent_whatever_bytes_a_value_has() {
        let mut out = Vec::new();
        Protocol::Memcached.get(&mut out, b"k");
        Protocol::Memcached.set(&mut out, b"k", b"\r\nEND\r\n\0", Some(9));
        Protocol::Memcached.set(&mut out, b"k", b"", None);
        Protocol::Memcached.set(&mut out, b"k", b"v", Some(u64::MAX));
        Protocol::Memcached.delete(&mut out, b"k");
        let mut parser = Parser::new(Limits {
            value_bytes_max: 100,
        });
        let mut reported = Vec::new();
        let mut at = 0;
        while at < out.len() {
            let mut spans = Vec::new();
            match parser.parse(&out[at..], &mut spans) {
                Parsed::Request { consumed, request } => {
                    let value = out[at..][request.value.range()].to_vec();
                    reported.push((request.verb, request.exptime, value));
                    at += consumed;
                }
                other => panic!("{other:?}"),
            }
        }
        let wanted = [
            (Verb::Get, 0, &b""[..]),
            (Verb::Set, 9, b"\r\nEND\r\n\0"),
            (Verb::Set, 0, b""),
            (Verb::Set, TTL_SECONDS_MAX as i64, b"v"),
            (Verb::Delete, 0, b""),
        ];
        let wanted: Vec<_> = wanted
            .into_iter()
            .map(|(verb, ttl, value)| (verb, ttl, value.to_vec()))
            .collect();
        assert_eq!(reported, wanted);
    }

    #[test]
    fn both_protocols_say_the_same_in_their_own_words() {
        use Answer::{Done, Found, Nothing, Refused};
        let cases: [(&[u8], &[u8], Answer); 5] = [
            (b"$1\r\nv\r\n", b"VALUE k 0 1\r\nv\r\nEND\r\n", Found),
            (b"$-1\r\n", b"END\r\n", Nothing),
            (b"+OK\r\n", b"STORED\r\n", Done),
            (b":0\r\n", b"NOT_FOUND\r\n", Done),
            (
                b"-OOM no room\r\n",
                b"SERVER_ERROR out of memory\r\n",
                Refused,
            ),
        ];
        for (resp, memcached, wanted) in cases {
            assert_eq!(Protocol::Resp.answer(resp), wanted);
            assert_eq!(Protocol::Resp.skip(resp), Ok(Some(resp.len())));
            assert_eq!(Protocol::Memcached.answer(memcached), wanted);
            assert_eq!(
                Protocol::Memcached.skip(memcached),
                Ok(Some(memcached.len()))
            );
        }
        assert!(Protocol::Resp.skip(b"END\r\n").is_err());
        assert!(Protocol::Memcached.skip(b"VALUE k 0 x\r\n").is_err());
    }
}
