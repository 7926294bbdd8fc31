//! The parser: finds requests, which are one line and for storage commands a data block.

use super::line::{
    BAD_FORMAT, NO_SUCH_COMMAND, Words, find, is_key, meta_line, signed, simple, unsigned,
};
use super::request::{KEY_BYTES_MAX, Mode, Request, Verb};
use crate::args::Span;

/// Maximum length in bytes of the line of a command that does not list keys.
pub const LINE_BYTES_MAX: usize = 2048;
/// Maximum length in bytes of the line of a command that lists keys.
const KEYS_LINE_BYTES_MAX: usize = 64 * 1024;
/// Maximum length of a value that a line can state: lengths are signed 32-bit numbers and include
/// the two bytes that end a block.
const ANNOUNCED_BYTES_MAX: u64 = i32::MAX as u64 - 2;

/// Limits of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum bytes of a value; a longer one is refused and skipped.
    pub value_bytes_max: usize,
}

/// Reply to a request that is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Line of the reply, without its end.
    pub line: &'static str,
    /// Whether the client requested no reply, not even an error.
    pub is_noreply: bool,
    /// Whether the connection must be closed, because the start of the next request is unknown.
    pub is_fatal: bool,
    /// Key of a `set` that was refused for its size. Its old value must be deleted, because it is
    /// out of date.
    pub stale: Option<Span>,
}

/// Result of parsing the start of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// The request is incomplete; more bytes are needed.
    Incomplete,
    /// Bytes of a refused value, to be skipped without a reply.
    Skipped {
        /// Number of bytes.
        consumed: usize,
    },
    /// A request.
    Request {
        /// Number of its bytes.
        consumed: usize,
        /// The parsed request.
        request: Request,
    },
    /// A request that is refused.
    Refused {
        /// Number of its bytes.
        consumed: usize,
        /// Reply to the client.
        refusal: Refusal,
    },
}

/// Parser of requests. It stores how far a partial request was parsed and how much must be skipped.
/// It does not own the input: the session passes its buffer from the first byte that is not yet
/// consumed.
#[derive(Clone, Copy, Debug)]
pub struct Parser {
    limits: Limits,
    /// Number of bytes known to contain no line feed.
    searched: usize,
    /// Number of bytes that must be available before the next attempt.
    needed: usize,
    /// Number of bytes of a refused value that are still to come.
    skip: u64,
}

impl Parser {
    /// Creates a parser at the start of a stream.
    pub fn new(limits: Limits) -> Self {
        Parser {
            limits,
            searched: 0,
            needed: 0,
            skip: 0,
        }
    }

    /// Returns the limits.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Changes the limits, from the next request on.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Parses the start of `input`. It appends the spans of a request's keys to `spans`, and
    /// nothing else.
    pub fn parse(&mut self, input: &[u8], spans: &mut Vec<Span>) -> Parsed {
        if self.skip > 0 && !input.is_empty() {
            let consumed = self.skip.min(input.len() as u64) as usize;
            self.skip -= consumed as u64;
            return Parsed::Skipped { consumed };
        }
        if input.len() < self.needed.max(1) {
            return Parsed::Incomplete;
        }
        if self.searched == 0
            && let Some(parsed) = self.lone_get(input, spans)
        {
            return parsed;
        }
        let found = find(input, self.searched, b'\n');
        if found.unwrap_or(input.len()) > line_bytes_max(input) {
            return Parsed::Refused {
                consumed: input.len(),
                refusal: Refusal {
                    line: "CLIENT_ERROR line too long",
                    is_noreply: false,
                    is_fatal: true,
                    stale: None,
                },
            };
        }
        let Some(end) = found else {
            self.searched = input.len();
            return Parsed::Incomplete;
        };
        let known = spans.len();
        let line = &input[..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let parsed = self.parse_line(line, end + 1, input, spans);
        if !matches!(parsed, Parsed::Request { .. }) {
            spans.truncate(known);
        }
        match parsed {
            Parsed::Incomplete => self.searched = end,
            _ => (self.searched, self.needed) = (0, 0),
        }
        parsed
    }

    /// Parses `get key`, by far the most frequent line, in a fifth of the general time; `None` if
    /// it is another line, or the key is invalid.
    #[inline]
    fn lone_get(&mut self, input: &[u8], spans: &mut Vec<Span>) -> Option<Parsed> {
        const BEGIN: &[u8] = b"get ";
        let rest = input.strip_prefix(BEGIN)?;
        let near = rest.get(..KEY_BYTES_MAX + 2).unwrap_or(rest);
        let end = find(near, 0, b'\n')?;
        let key = near[..end].strip_suffix(b"\r").unwrap_or(&near[..end]);
        if !is_key(key) || find(key, 0, b' ').is_some() {
            return None;
        }
        let mut request = Request::of(Verb::Get, spans);
        request.key_count = 1;
        spans.push(Span::new(BEGIN.len(), key.len()));
        self.needed = 0;
        let consumed = BEGIN.len() + end + 1;
        Some(Parsed::Request { consumed, request })
    }

    fn parse_line(
        &mut self,
        line: &[u8],
        consumed: usize,
        input: &[u8],
        spans: &mut Vec<Span>,
    ) -> Parsed {
        let words = Words::of(line);
        let result = match words.get(line, 0) {
            b"mg" => meta_line(Verb::MetaGet, line, &words, 2, spans),
            b"ms" => return self.meta_set(line, &words, consumed, input, spans),
            b"md" => meta_line(Verb::MetaDelete, line, &words, 2, spans),
            b"ma" => meta_line(Verb::MetaArithmetic, line, &words, 2, spans),
            b"me" => meta_line(Verb::MetaDebug, line, &words, 2, spans),
            b"mn" => Ok(Request::of(Verb::MetaNoop, spans)),
            b"set" => return self.store(Verb::Set, line, &words, consumed, input, spans),
            b"add" => return self.store(Verb::Add, line, &words, consumed, input, spans),
            b"replace" => return self.store(Verb::Replace, line, &words, consumed, input, spans),
            b"append" => return self.store(Verb::Append, line, &words, consumed, input, spans),
            b"prepend" => return self.store(Verb::Prepend, line, &words, consumed, input, spans),
            b"cas" => return self.store(Verb::Cas, line, &words, consumed, input, spans),
            _ => simple(line, &words, spans),
        };
        match result {
            Ok(request) => Parsed::Request { consumed, request },
            Err(line) => Parsed::Refused {
                consumed,
                refusal: Refusal {
                    line,
                    is_noreply: words.is_noreply && line != NO_SUCH_COMMAND,
                    is_fatal: false,
                    stale: None,
                },
            },
        }
    }

    /// Parses `set` and similar commands: a line with the length of a data block.
    fn store(
        &mut self,
        verb: Verb,
        line: &[u8],
        words: &Words,
        consumed: usize,
        input: &[u8],
        spans: &mut Vec<Span>,
    ) -> Parsed {
        let refused = |line| Parsed::Refused {
            consumed,
            refusal: Refusal {
                line,
                is_noreply: words.is_noreply && line != NO_SUCH_COMMAND,
                is_fatal: false,
                stale: None,
            },
        };
        let count = if verb == Verb::Cas { 6 } else { 5 };
        if words.count != count && words.count != count + 1 {
            return refused(NO_SUCH_COMMAND);
        }
        let mut request = Request::of(verb, spans);
        request.is_noreply = words.is_noreply;
        let number = |index: usize| words.get(line, index);
        let (Some(flags), Some(exptime), Some(len)) =
            (unsigned(number(2)), signed(number(3)), unsigned(number(4)))
        else {
            return refused(BAD_FORMAT);
        };
        let flags = u32::try_from(flags);
        let cas = if verb == Verb::Cas {
            unsigned(number(5))
        } else {
            Some(0)
        };
        let (Ok(flags), Some(cas), true) = (flags, cas, is_key(number(1))) else {
            return refused(BAD_FORMAT);
        };
        if len > ANNOUNCED_BYTES_MAX {
            return refused(BAD_FORMAT);
        }
        spans.push(words.spans[1]);
        request.key_count = 1;
        (request.client_flags, request.exptime, request.number) = (flags, exptime, cas);
        let stale = (verb == Verb::Set).then_some(words.spans[1]);
        self.block(request, consumed, len as usize, stale, input)
    }

    /// Parses the data block after a line of `at` bytes.
    fn block(
        &mut self,
        mut request: Request,
        at: usize,
        len: usize,
        stale: Option<Span>,
        input: &[u8],
    ) -> Parsed {
        let refused = |consumed, line, stale| Parsed::Refused {
            consumed,
            refusal: Refusal {
                line,
                is_noreply: request.is_noreply,
                is_fatal: false,
                stale,
            },
        };
        if len > self.limits.value_bytes_max {
            self.skip = len as u64 + 2;
            return refused(at, "SERVER_ERROR object too large for cache", stale);
        }
        let consumed = at + len + 2;
        if input.len() < consumed {
            self.needed = consumed;
            return Parsed::Incomplete;
        }
        if &input[at + len..consumed] != b"\r\n" {
            return refused(consumed, "CLIENT_ERROR bad data chunk", None);
        }
        request.value = Span::new(at, len);
        Parsed::Request { consumed, request }
    }

    /// Parses `ms key bytes flag…`. An invalid flag does not turn the data block into a command.
    fn meta_set(
        &mut self,
        line: &[u8],
        words: &Words,
        consumed: usize,
        input: &[u8],
        spans: &mut Vec<Span>,
    ) -> Parsed {
        let len = match words.count {
            0..=2 => None,
            _ => unsigned(words.get(line, 2)).filter(|&len| len <= ANNOUNCED_BYTES_MAX),
        };
        let request = match len {
            Some(_) => meta_line(Verb::MetaSet, line, words, 3, spans),
            None => Err(BAD_FORMAT),
        };
        match request {
            Ok(request) => {
                let stale = (request.meta.mode == Mode::Plain && !request.meta.has(b'b'))
                    .then_some(words.spans[1]);
                self.block(request, consumed, len.unwrap_or(0) as usize, stale, input)
            }
            Err(line) => {
                self.skip = len.map_or(0, |len| len + 2);
                Parsed::Refused {
                    consumed,
                    refusal: Refusal {
                        line,
                        is_noreply: false,
                        is_fatal: false,
                        stale: None,
                    },
                }
            }
        }
    }
}

/// Returns the maximum length of the line at the start of `input`: some commands list keys.
fn line_bytes_max(input: &[u8]) -> usize {
    let lists_keys = [b"get ".as_slice(), b"gets ", b"gat ", b"gats "];
    if lists_keys.iter().any(|start| input.starts_with(start)) {
        KEYS_LINE_BYTES_MAX
    } else {
        LINE_BYTES_MAX
    }
}
