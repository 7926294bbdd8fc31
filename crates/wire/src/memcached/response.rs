//! The client's side: finds the end of a reply, for load generators and tests.

use super::line::unsigned;
use super::parser::LINE_BYTES_MAX;
use std::fmt;

/// Maximum length in bytes of a block in a reply.
const BLOCK_BYTES_MAX: u64 = 1 << 30;

/// Error: the bytes are not a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadReply;

impl fmt::Display for BadReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no reply of memcached's protocol")
    }
}

impl std::error::Error for BadReply {}

/// Returns the length of the reply at the start of `input`; `None` if it is incomplete. A reply is
/// one line, one line with a block, or `VALUE` blocks or `STAT` lines up to `END`.
///
/// # Errors
/// A line or a block is longer than a server sends, or a block does not end at its length.
///
/// ```
/// use wire::memcached::skip_reply;
/// assert_eq!(skip_reply(b"STORED\r\nEND\r\n"), Ok(Some(8)));
/// assert_eq!(skip_reply(b"VALUE k 0 3\r\nabc\r\nEND\r\n"), Ok(Some(23)));
/// assert_eq!(skip_reply(b"VALUE k 0 3\r\nabc\r\n"), Ok(None));
/// ```
pub fn skip_reply(input: &[u8]) -> Result<Option<usize>, BadReply> {
    let mut at = 0;
    loop {
        let Some(line) = line_at(&input[at..])? else {
            return Ok(None);
        };
        at += line.len() + 2;
        let mut words = line.split(|&byte| byte == b' ');
        let (len, is_last) = match words.next() {
            Some(b"STAT") => continue,
            Some(b"VALUE") => (words.nth(2), false),
            Some(b"VA") => (words.next(), true),
            _ => return Ok(Some(at)),
        };
        let len = len.and_then(unsigned).filter(|&len| len <= BLOCK_BYTES_MAX);
        let end = at + len.ok_or(BadReply)? as usize;
        match input.get(end..end + 2) {
            None => return Ok(None),
            Some(b"\r\n") => at = end + 2,
            Some(_) => return Err(BadReply),
        }
        if is_last {
            return Ok(Some(at));
        }
    }
}

/// Returns the line at the start, without its end.
fn line_at(input: &[u8]) -> Result<Option<&[u8]>, BadReply> {
    let looked_at = &input[..input.len().min(LINE_BYTES_MAX + 2)];
    match looked_at.iter().position(|&byte| byte == b'\n') {
        Some(end) => match looked_at[..end].strip_suffix(b"\r") {
            Some(line) => Ok(Some(line)),
            None => Err(BadReply),
        },
        None if looked_at.len() < LINE_BYTES_MAX + 2 => Ok(None),
        None => Err(BadReply),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memcached::text;
    use crate::output::Output;

    fn value(out: &mut Output, key: &[u8], flags: u32, value: &[u8], cas: Option<u64>) {
        text::value_head(out, key, flags, value.len(), cas);
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    }

    fn written(write: impl FnOnce(&mut Output)) -> Vec<u8> {
        let mut out = Output::default();
        write(&mut out);
        out.to_vec()
    }

    #[test]
    fn a_reply_is_complete_at_its_last_byte() {
        let replies = [
            written(|out| text::line(out, "STORED")),
            written(|out| text::line(out, "END")),
            written(|out| text::number(out, 18)),
            written(|out| {
                // A block may contain any bytes, also those of an end line.
                value(out, b"key", 7, b"\r\nEND\r\n\0\xff", Some(3));
                value(out, b"other", 0, b"", None);
                text::line(out, "END");
            }),
            written(|out| {
                text::stat(out, "pid", "1");
                text::line(out, "END");
            }),
            b"VA 2 t-1\r\nhi\r\n".to_vec(),
            b"HD\r\n".to_vec(),
        ];
        for reply in replies {
            for len in 0..reply.len() {
                assert_eq!(skip_reply(&reply[..len]), Ok(None), "{len} of {reply:?}");
            }
            let more = [&reply[..], b"END\r\nnonsense"].concat();
            assert_eq!(skip_reply(&more), Ok(Some(reply.len())), "{reply:?}");
        }
    }

    #[test]
    fn bytes_that_are_not_a_reply_are_an_error() {
        let long = vec![b'a'; LINE_BYTES_MAX + 2];
        let broken: [&[u8]; 8] = [
            b"END\n",
            b"VALUE k 0\r\n",
            b"VALUE k 0 x\r\n",
            b"VALUE k 0 -1\r\n",
            b"VALUE k 0 99999999999999999999\r\n",
            b"VALUE k 0 2000000000\r\n",
            b"VALUE k 0 3\r\nabcd\r\n",
            &long,
        ];
        for input in broken {
            assert_eq!(skip_reply(input), Err(BadReply), "{input:?}");
        }
    }

    #[test]
    fn a_length_never_exceeds_the_input() {
        let reply = written(|out| {
            value(out, b"key", 7, b"value", None);
            text::line(out, "END");
        });
        for at in 0..reply.len() {
            for byte in [0, b' ', b'9', b'\n', b'\r', 0xff] {
                let mut broken = reply.clone();
                broken[at] = byte;
                if let Ok(Some(len)) = skip_reply(&broken) {
                    assert!(len <= broken.len());
                }
            }
        }
    }
}
