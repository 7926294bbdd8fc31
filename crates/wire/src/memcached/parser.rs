//! The parser: finds requests, which are one line and for storage commands a data block, or in the
//! binary protocol a header and a body.

use super::binary::{self, Found, Status};
use super::line::{
    BAD_FORMAT, NO_SUCH_COMMAND, Words, find, is_http, is_key, listed, meta_line, simple, storage,
    unsigned,
};
use super::request::{Header, KEY_BYTES_MAX, Mode, Request, Verb};
use crate::args::Span;

/// Maximum length in bytes of the line of a command that does not list keys.
pub const LINE_BYTES_MAX: usize = 2048;
/// Length in bytes at which the line of a command that lists keys is split into several requests.
/// The line may therefore have any length, and the memory for it is bounded.
const KEYS_PIECE_BYTES: usize = 16 * 1024;
/// Maximum length of a value that a line can state: lengths are signed 32-bit numbers and include
/// the two bytes that end a block.
const ANNOUNCED_BYTES_MAX: u64 = i32::MAX as u64 - 2;

/// Limits of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum bytes of a value; a longer one is refused and skipped.
    pub value_bytes_max: usize,
}

/// Reason why a request is refused, and the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Complaint {
    /// The reply is this line, without its end.
    Line(&'static str),
    /// The reply is binary and has this status.
    Binary(Header, Status),
    /// The line is part of an HTTP request. The connection must be closed without a reply, because
    /// a web page can make a browser send a request whose body is commands.
    Http,
    /// A stream in the binary protocol contains something else. There is no reply.
    Magic,
    /// A line does not end within its maximum length. As in memcached, there is no reply.
    Endless,
}

/// Reply to a request that is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Reason and reply.
    pub complaint: Complaint,
    /// Whether the client requested no reply, not even an error.
    pub is_noreply: bool,
    /// Whether the connection must be closed, because the start of the next request is unknown.
    pub is_fatal: bool,
    /// Key of a `set` that was refused for its size. Its old value must be deleted, because it is
    /// out of date.
    pub stale: Option<Span>,
}

impl Refusal {
    fn line(line: &'static str) -> Refusal {
        Refusal {
            complaint: Complaint::Line(line),
            is_noreply: false,
            is_fatal: false,
            stale: None,
        }
    }

    fn fatal(complaint: Complaint) -> Refusal {
        Refusal {
            complaint,
            is_noreply: false,
            is_fatal: true,
            stale: None,
        }
    }
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
        /// Number of bytes consumed.
        consumed: usize,
        /// The parsed request.
        request: Request,
    },
    /// A request that is refused.
    Refused {
        /// Number of bytes consumed.
        consumed: usize,
        /// Reply to the client.
        refusal: Refusal,
    },
}

/// Form of the input from the next byte on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stream {
    /// No byte has arrived.
    Unknown,
    /// A line.
    Text,
    /// The rest of a line that lists keys for this verb and exptime.
    Keys(Verb, i64),
    /// A binary request.
    Binary,
}

/// Request parser. It stores how far a partial request was parsed and how many bytes to skip. It
/// does not own the input: the session passes its buffer, beginning at the first byte that is not
/// yet consumed.
#[derive(Clone, Copy, Debug)]
pub struct Parser {
    limits: Limits,
    stream: Stream,
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
            stream: Stream::Unknown,
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

    /// Returns to the start of a parsed request, so that it is parsed again.
    pub fn rewind(&mut self, request: &Request) {
        (self.searched, self.needed, self.skip) = (0, 0, 0);
        self.stream = match self.stream {
            Stream::Binary => Stream::Binary,
            _ if request.is_continued => Stream::Keys(request.verb, request.exptime),
            _ => Stream::Text,
        };
    }

    /// Returns to the start of a request that was refused because its value is too large, so that
    /// it is parsed again.
    pub fn rewind_refused(&mut self) {
        (self.searched, self.needed, self.skip) = (0, 0, 0);
        if self.stream != Stream::Binary {
            self.stream = Stream::Text;
        }
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
        if self.stream != Stream::Text {
            return self.other_stream(input, spans);
        }
        if self.searched == 0
            && let Some(parsed) = self.lone_get(input, spans)
        {
            return parsed;
        }
        self.text(input, spans)
    }

    /// Parses the start of a stream, the rest of a list of keys, or a binary request.
    #[inline(never)]
    fn other_stream(&mut self, input: &[u8], spans: &mut Vec<Span>) -> Parsed {
        if self.stream == Stream::Unknown {
            self.stream = match input[0] {
                binary::MAGIC => Stream::Binary,
                _ => Stream::Text,
            };
        }
        match self.stream {
            Stream::Binary => self.binary(input, spans),
            _ => self.text(input, spans),
        }
    }

    /// Parses a line and its data block.
    #[inline]
    fn text(&mut self, input: &[u8], spans: &mut Vec<Span>) -> Parsed {
        let lists_keys = self.stream != Stream::Text || begins_with_list(input);
        let line_bytes_max = match lists_keys {
            true => KEYS_PIECE_BYTES,
            false => LINE_BYTES_MAX,
        };
        let near = &input[..input.len().min(line_bytes_max + 1)];
        let found = find(near, self.searched, b'\n');
        let known = spans.len();
        let parsed = if found.is_none() && near.len() > line_bytes_max {
            match lists_keys {
                true => self.piece(&input[..line_bytes_max], spans),
                false => too_long(input),
            }
        } else if let Some(end) = found {
            let line = &input[..end];
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            match self.stream {
                Stream::Keys(..) => self.keys(line, end + 1, spans),
                _ => self.parse_line(line, end + 1, input, spans),
            }
        } else {
            Parsed::Incomplete
        };
        if !matches!(parsed, Parsed::Request { .. }) {
            spans.truncate(known);
        }
        match parsed {
            Parsed::Incomplete => self.searched = found.unwrap_or(input.len()),
            _ => (self.searched, self.needed) = (0, 0),
        }
        parsed
    }

    /// Parses the start of a line that is too long for one request: the keys up to the last blank.
    #[inline(never)]
    fn piece(&mut self, start: &[u8], spans: &mut Vec<Span>) -> Parsed {
        let Some(end) = start.iter().rposition(|&byte| byte == b' ') else {
            return too_long(start);
        };
        let line = &start[..end];
        let result = match self.stream {
            Stream::Keys(verb, exptime) => more_keys(verb, exptime, line, spans),
            _ => simple(line, &Words::of(line), spans),
        };
        match result {
            Ok(mut request) => {
                request.has_more = true;
                self.stream = Stream::Keys(request.verb, request.exptime);
                Parsed::Request {
                    consumed: end + 1,
                    request,
                }
            }
            // The first key is too long.
            Err(NO_SUCH_COMMAND) => too_long(start),
            // The start of the next line is unknown.
            Err(line) => Parsed::Refused {
                consumed: start.len(),
                refusal: Refusal::fatal(Complaint::Line(line)),
            },
        }
    }

    /// Parses the last keys of a line that was split. The stream returns to text after them.
    #[inline(never)]
    fn keys(&mut self, line: &[u8], consumed: usize, spans: &mut Vec<Span>) -> Parsed {
        let Stream::Keys(verb, exptime) = std::mem::replace(&mut self.stream, Stream::Text) else {
            unreachable!("the caller has compared the stream");
        };
        match more_keys(verb, exptime, line, spans) {
            Ok(request) => Parsed::Request { consumed, request },
            Err(line) => Parsed::Refused {
                consumed,
                refusal: Refusal::line(line),
            },
        }
    }

    #[inline(never)]
    fn binary(&mut self, input: &[u8], spans: &mut Vec<Span>) -> Parsed {
        if input[0] != binary::MAGIC {
            return Parsed::Refused {
                consumed: input.len(),
                refusal: Refusal::fatal(Complaint::Magic),
            };
        }
        match binary::parse(input, self.limits.value_bytes_max, spans) {
            Found::Needs(bytes) => {
                self.needed = bytes;
                Parsed::Incomplete
            }
            Found::Request(consumed, request) => {
                self.needed = 0;
                Parsed::Request { consumed, request }
            }
            Found::Refused(refused) => {
                (self.needed, self.skip) = (0, refused.skip);
                Parsed::Refused {
                    consumed: refused.consumed,
                    refusal: Refusal {
                        complaint: Complaint::Binary(refused.header, refused.status),
                        is_noreply: false,
                        is_fatal: refused.is_fatal,
                        stale: refused.stale,
                    },
                }
            }
        }
    }

    /// Parses `get key`, by far the most frequent line, in a fifth of the usual time. Returns
    /// `None` for any other line, or if the key is invalid.
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
            Err(NO_SUCH_COMMAND) if is_http(line) => Parsed::Refused {
                consumed,
                refusal: Refusal::fatal(Complaint::Http),
            },
            Err(line) => Parsed::Refused {
                consumed,
                refusal: Refusal {
                    is_noreply: words.is_noreply && line != NO_SUCH_COMMAND,
                    ..Refusal::line(line)
                },
            },
        }
    }

    /// Parses `set` and similar commands: a line with the length of a data block. If the line is
    /// refused and states a length, the block is skipped, so that it is not taken for commands.
    fn store(
        &mut self,
        verb: Verb,
        line: &[u8],
        words: &Words,
        consumed: usize,
        input: &[u8],
        spans: &mut Vec<Span>,
    ) -> Parsed {
        let len = announced(line, words, 4);
        let request = match len {
            Some(_) => storage(verb, line, words, spans),
            None => Err(BAD_FORMAT),
        };
        match request {
            Ok(request) => {
                let stale = (verb == Verb::Set).then_some(words.spans[1]);
                self.block(request, consumed, len.unwrap_or(0) as usize, stale, input)
            }
            Err(line) => {
                self.skip = len.map_or(0, |len| len + 2);
                Parsed::Refused {
                    consumed,
                    refusal: Refusal {
                        is_noreply: words.is_noreply,
                        ..Refusal::line(line)
                    },
                }
            }
        }
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
                is_noreply: request.is_noreply,
                stale,
                ..Refusal::line(line)
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
        let len = announced(line, words, 2);
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
                    refusal: Refusal::line(line),
                }
            }
        }
    }
}

/// Returns the length of a data block, which is the line's word at this index; `None` if it is
/// missing or not a length.
fn announced(line: &[u8], words: &Words, index: usize) -> Option<u64> {
    unsigned(words.get(line, index)).filter(|&len| len <= ANNOUNCED_BYTES_MAX)
}

/// Parses keys of a line that was split.
fn more_keys(
    verb: Verb,
    exptime: i64,
    line: &[u8],
    spans: &mut Vec<Span>,
) -> Result<Request, &'static str> {
    let mut request = Request::of(verb, spans);
    request.exptime = exptime;
    request.is_continued = true;
    listed(request, line, &Words::of(line), 0, spans)
}

/// Whether a line begins with a command that lists keys.
fn begins_with_list(input: &[u8]) -> bool {
    let starts = [b"get ".as_slice(), b"gets ", b"gat ", b"gats "];
    starts.iter().any(|start| input.starts_with(start))
}

/// Refuses a line without an end within its maximum length. The rest of the input belongs to it.
#[cold]
fn too_long(input: &[u8]) -> Parsed {
    Parsed::Refused {
        consumed: input.len(),
        refusal: Refusal::fatal(Complaint::Endless),
    }
}
