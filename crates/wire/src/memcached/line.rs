//! Parses a line: words, keys, numbers, flags.

use super::request::{KEY_BYTES_MAX, Mode, Request, Verb, bit_of};
use crate::args::Span;

/// Maximum length of an opaque token in bytes.
const OPAQUE_BYTES_MAX: usize = 32;

pub(super) const BAD_FORMAT: &str = "CLIENT_ERROR bad command line format";
const BAD_TOKEN: &str = "CLIENT_ERROR bad token in command line format";
const BAD_COUNT_MODE: &str = "CLIENT_ERROR invalid mode for ma M token";
const BAD_EXPTIME: &str = "CLIENT_ERROR invalid exptime argument";
pub(super) const NO_SUCH_COMMAND: &str = "ERROR";

/// The first words of a line. Further words are searched one by one.
pub(super) struct Words {
    pub spans: [Span; Words::KEPT],
    /// Number of all words.
    pub count: usize,
    /// Whether the last word is `noreply`.
    pub is_noreply: bool,
}

impl Words {
    const KEPT: usize = 8;

    pub fn of(line: &[u8]) -> Words {
        let mut words = Words {
            spans: [Span::new(0, 0); Words::KEPT],
            count: 0,
            is_noreply: false,
        };
        let mut last = Span::new(0, 0);
        for span in spans_of(line, 0) {
            if let Some(kept) = words.spans.get_mut(words.count) {
                *kept = span;
            }
            words.count += 1;
            last = span;
        }
        words.is_noreply = words.count > 1 && &line[last.range()] == b"noreply";
        words
    }

    /// Returns a word by its index; empty if there is no such word, or if it comes after the stored
    /// ones.
    pub fn get<'l>(&self, line: &'l [u8], index: usize) -> &'l [u8] {
        self.spans
            .get(index)
            .map_or(&[], |span| &line[span.range()])
    }
}

/// Returns the spans of a line's words, beginning at a position.
fn spans_of(line: &[u8], from: usize) -> impl Iterator<Item = Span> + '_ {
    let mut at = from;
    std::iter::from_fn(move || {
        while line.get(at) == Some(&b' ') {
            at += 1;
        }
        let start = at;
        at = find(line, start, b' ').unwrap_or(line.len());
        (at > start).then(|| Span::new(start, at - start))
    })
}

/// Returns the position of the next occurrence of a byte at or after a position; the end if there
/// is none.
#[inline(always)]
pub(super) fn find(bytes: &[u8], from: usize, wanted: u8) -> Option<usize> {
    const ONES: u64 = u64::MAX / 0xff;
    let rest = bytes.get(from..)?;
    // Eight bytes at a time. The subtraction borrows from the lowest zero byte first: marks above
    // it may be wrong, the lowest mark never is.
    let (chunks, tail) = rest.as_chunks::<8>();
    for (index, chunk) in chunks.iter().enumerate() {
        let differs = u64::from_le_bytes(*chunk) ^ (ONES * u64::from(wanted));
        let equal = differs.wrapping_sub(ONES) & !differs & (ONES << 7);
        if equal != 0 {
            return Some(from + index * 8 + equal.trailing_zeros() as usize / 8);
        }
    }
    let found = tail.iter().position(|&byte| byte == wanted)?;
    Some(bytes.len() - tail.len() + found)
}

/// Whether a word may be a key. As in memcached, it may contain control characters, but no blanks,
/// because it is a word.
pub(super) fn is_key(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.len() <= KEY_BYTES_MAX
}

pub(super) fn unsigned(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        let shifted = number.checked_mul(10)?;
        (digit <= 9).then(|| shifted.checked_add(u64::from(digit)))?
    })
}

/// Parses a time: a signed 64-bit number, of which only the lower 32 bits count, as in memcached.
/// So 4294967295, which some clients send for -1, is -1.
pub(super) fn exptime(text: &[u8]) -> Option<i64> {
    let number = match text {
        [b'-', digits @ ..] => 0i64.checked_sub_unsigned(unsigned(digits)?)?,
        [b'+', digits @ ..] | digits => i64::try_from(unsigned(digits)?).ok()?,
    };
    Some(i64::from(number as i32))
}

/// Parses commands of one line without flags.
pub(super) fn simple(
    line: &[u8],
    words: &Words,
    spans: &mut Vec<Span>,
) -> Result<Request, &'static str> {
    let request = |verb| Request::of(verb, spans);
    let count = words.count;
    match words.get(line, 0) {
        b"get" if count >= 2 => listed(request(Verb::Get), line, words, 1, spans),
        b"gets" if count >= 2 => listed(request(Verb::Gets), line, words, 1, spans),
        b"gat" if count >= 3 => touching(request(Verb::Gat), line, words, spans),
        b"gats" if count >= 3 => touching(request(Verb::Gats), line, words, spans),
        b"delete" if (2..=4).contains(&count) => delete(line, words, spans),
        b"incr" if count == 3 || count == 4 => counting(Verb::Incr, line, words, spans),
        b"decr" if count == 3 || count == 4 => counting(Verb::Decr, line, words, spans),
        b"touch" if count == 3 || count == 4 => {
            let mut request = one_key(Verb::Touch, line, words, spans)?;
            request.exptime = exptime(words.get(line, 2)).ok_or(BAD_EXPTIME)?;
            Ok(request)
        }
        b"flush_all" if count <= 3 => {
            let mut request = request(Verb::FlushAll);
            request.is_noreply = words.is_noreply;
            if count > 1 + usize::from(words.is_noreply) {
                request.exptime = exptime(words.get(line, 1)).ok_or(BAD_EXPTIME)?;
            }
            Ok(request)
        }
        b"version" => Ok(request(Verb::Version)),
        b"verbosity" if (2..=3).contains(&count) => {
            let mut request = request(Verb::Verbosity);
            request.is_noreply = words.is_noreply;
            if count > 1 + usize::from(words.is_noreply) {
                request.number = unsigned(words.get(line, 1)).ok_or(BAD_FORMAT)?;
            }
            Ok(request)
        }
        b"stats" => {
            let mut request = request(Verb::Stats);
            spans.extend(spans_of(line, 0).skip(1));
            request.key_count = spans.len() as u32 - request.first_key;
            Ok(request)
        }
        b"cache_memlimit" | b"lru" | b"lru_crawler" | b"shutdown" | b"slabs" | b"watch" => {
            let mut request = request(Verb::Admin);
            request.is_noreply = words.is_noreply;
            spans.extend(spans_of(line, 0));
            request.key_count = spans.len() as u32 - request.first_key;
            Ok(request)
        }
        b"quit" => Ok(request(Verb::Quit)),
        _ => Err(NO_SUCH_COMMAND),
    }
}

/// Whether a line belongs to an HTTP request. Its last word is a version, as memcached checks, or
/// it begins like a request with a body, or like the header that every request has.
pub(super) fn is_http(line: &[u8]) -> bool {
    let mut words = spans_of(line, 0).map(|span| &line[span.range()]);
    let first = words.next().unwrap_or_default();
    let is_first = |word: &[u8]| first.eq_ignore_ascii_case(word);
    is_first(b"post")
        || is_first(b"host:")
        || words.last().is_some_and(|word| word.starts_with(b"HTTP/"))
}

/// Parses a command that lists keys from the word at `first` on.
pub(super) fn listed(
    mut request: Request,
    line: &[u8],
    words: &Words,
    first: usize,
    spans: &mut Vec<Span>,
) -> Result<Request, &'static str> {
    let kept = &words.spans[first..words.count.min(Words::KEPT)];
    let behind = match words.count > Words::KEPT {
        true => words.spans[Words::KEPT - 1].range().end,
        false => line.len(),
    };
    for span in kept.iter().copied().chain(spans_of(line, behind)) {
        if !is_key(&line[span.range()]) {
            return Err(BAD_FORMAT);
        }
        spans.push(span);
    }
    request.key_count = spans.len() as u32 - request.first_key;
    Ok(request)
}

fn touching(
    mut request: Request,
    line: &[u8],
    words: &Words,
    spans: &mut Vec<Span>,
) -> Result<Request, &'static str> {
    request.exptime = exptime(words.get(line, 1)).ok_or(BAD_EXPTIME)?;
    listed(request, line, words, 2, spans)
}

fn one_key(
    verb: Verb,
    line: &[u8],
    words: &Words,
    spans: &mut Vec<Span>,
) -> Result<Request, &'static str> {
    let mut request = Request::of(verb, spans);
    request.is_noreply = words.is_noreply;
    if !is_key(words.get(line, 1)) {
        return Err(BAD_FORMAT);
    }
    spans.push(words.spans[1]);
    request.key_count = 1;
    Ok(request)
}

/// Parses the line of a storage command except for the length of its data block. As in memcached
/// 1.6.45, further words are ignored.
pub(super) fn storage(
    verb: Verb,
    line: &[u8],
    words: &Words,
    spans: &mut Vec<Span>,
) -> Result<Request, &'static str> {
    let mut request = one_key(verb, line, words, spans)?;
    let flags = unsigned(words.get(line, 2)).and_then(|flags| u32::try_from(flags).ok());
    request.client_flags = flags.ok_or(BAD_FORMAT)?;
    request.exptime = exptime(words.get(line, 3)).ok_or(BAD_FORMAT)?;
    if verb == Verb::Cas {
        request.number = unsigned(words.get(line, 5)).ok_or(BAD_FORMAT)?;
    }
    Ok(request)
}

fn delete(line: &[u8], words: &Words, spans: &mut Vec<Span>) -> Result<Request, &'static str> {
    // An old version of the protocol has a time of 0 there.
    let is_old = words.get(line, 2) == b"0";
    let is_fine = match words.count {
        2 => true,
        3 => is_old || words.is_noreply,
        _ => is_old && words.is_noreply,
    };
    if !is_fine {
        return Err("CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]");
    }
    one_key(Verb::Delete, line, words, spans)
}

fn counting(
    verb: Verb,
    line: &[u8],
    words: &Words,
    spans: &mut Vec<Span>,
) -> Result<Request, &'static str> {
    let mut request = one_key(verb, line, words, spans)?;
    let delta = unsigned(words.get(line, 2));
    request.number = delta.ok_or("CLIENT_ERROR invalid numeric delta argument")?;
    Ok(request)
}

/// Parses a meta request: its key, and its flags from the word at `first` on.
pub(super) fn meta_line(
    verb: Verb,
    line: &[u8],
    words: &Words,
    first: usize,
    spans: &mut Vec<Span>,
) -> Result<Request, &'static str> {
    let key = words.get(line, 1);
    if words.count < first {
        return Err(NO_SUCH_COMMAND);
    }
    let mut request = Request::of(verb, spans);
    let from = words.spans[first - 1].range().end;
    for span in spans_of(line, from) {
        flag(&mut request, &line[span.range()])?;
    }
    request.meta.words = Span::new(from, line.len() - from);
    if request.meta.has(b'b') {
        if decode_key(key, &mut [0; KEY_BYTES_MAX]).is_none() {
            return Err("CLIENT_ERROR error decoding key");
        }
    } else if !is_key(key) {
        return Err(BAD_FORMAT);
    }
    request.is_noreply = request.meta.has(b'q');
    spans.push(words.spans[1]);
    request.key_count = 1;
    Ok(request)
}

/// Flags of all meta commands. As in memcached, each command accepts all of them and ignores those
/// that mean nothing to it.
const FLAGS: u64 = bits_of(b"bcfhklqstuvxCDEFIJLMNOPRT");

/// Returns the set of these flags, as in [`Meta`].
const fn bits_of(letters: &[u8]) -> u64 {
    let (mut bits, mut at) = (0, 0);
    while at < letters.len() {
        bits |= 1 << bit_of(letters[at]);
        at += 1;
    }
    bits
}

/// Parses one flag with its token.
fn flag(request: &mut Request, word: &[u8]) -> Result<(), &'static str> {
    if request.verb == Verb::MetaDebug {
        // The command ignores its flags, except that the key may be encoded.
        request.meta.present |= u64::from(word[0] == b'b') << bit_of(b'b');
        return Ok(());
    }
    checked_flag(request, word).map_err(|error| match request.verb {
        Verb::MetaDelete | Verb::MetaArithmetic if error != BAD_COUNT_MODE => {
            "CLIENT_ERROR invalid or duplicate flag"
        }
        _ => error,
    })
}

fn checked_flag(request: &mut Request, word: &[u8]) -> Result<(), &'static str> {
    let (&letter, token) = word.split_first().ok_or(BAD_FORMAT)?;
    if !letter.is_ascii_alphabetic() || FLAGS >> bit_of(letter) & 1 == 0 {
        return Err("CLIENT_ERROR invalid flag");
    }
    let meta = &mut request.meta;
    if meta.has(letter) {
        return Err("CLIENT_ERROR duplicate flag");
    }
    meta.present |= 1 << bit_of(letter);
    let number = |error| unsigned(token).ok_or(error);
    let time = || exptime(token).ok_or(BAD_TOKEN);
    match letter {
        b'C' => meta.cas = number(BAD_TOKEN)?,
        b'E' => meta.new_cas = number(BAD_TOKEN)?,
        b'D' => meta.delta = number("CLIENT_ERROR invalid numeric delta value")?,
        b'J' => meta.initial = number("CLIENT_ERROR invalid numeric initial value")?,
        b'N' => meta.vivify = time()?,
        b'R' => meta.recache = time()?,
        b'T' => request.exptime = time()?,
        b'F' => {
            let flags = u32::try_from(number(BAD_FORMAT)?);
            request.client_flags = flags.map_err(|_| BAD_FORMAT)?;
        }
        b'O' if token.len() > OPAQUE_BYTES_MAX => {
            return Err("CLIENT_ERROR opaque token too long");
        }
        b'M' => meta.mode = mode(request.verb, token)?,
        _ => {}
    }
    Ok(())
}

fn mode(verb: Verb, token: &[u8]) -> Result<Mode, &'static str> {
    let &[letter] = token else {
        return Err("CLIENT_ERROR incorrect length for M token");
    };
    match (verb, letter.to_ascii_uppercase()) {
        (Verb::MetaSet, b'S') => Ok(Mode::Plain),
        (Verb::MetaSet, b'E') => Ok(Mode::Add),
        (Verb::MetaSet, b'R') => Ok(Mode::Replace),
        (Verb::MetaSet, b'A') => Ok(Mode::Append),
        (Verb::MetaSet, b'P') => Ok(Mode::Prepend),
        (Verb::MetaSet, _) => Err("CLIENT_ERROR invalid mode for ms M token"),
        (Verb::MetaArithmetic, b'I' | b'+') => Ok(Mode::Plain),
        (Verb::MetaArithmetic, b'D' | b'-') => Ok(Mode::Decrement),
        (Verb::MetaArithmetic, _) => Err(BAD_COUNT_MODE),
        _ => Ok(Mode::Plain),
    }
}

/// Decodes a key that was sent in base64 (flag `b`). Returns `None` if it is not base64, or not a
/// key after decoding.
pub fn decode_key<'k>(encoded: &[u8], key: &'k mut [u8; KEY_BYTES_MAX]) -> Option<&'k [u8]> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => Some(u32::from(byte - b'A')),
        b'a'..=b'z' => Some(u32::from(byte - b'a') + 26),
        b'0'..=b'9' => Some(u32::from(byte - b'0') + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    if encoded.is_empty() || !encoded.len().is_multiple_of(4) {
        return None;
    }
    let padding = encoded.iter().rev().take_while(|&&b| b == b'=').count();
    let digits = encoded
        .len()
        .checked_sub(padding)
        .filter(|_| padding <= 2)?;
    let len = encoded.len() / 4 * 3 - padding;
    let key = key.get_mut(..len)?;
    let (mut bits, mut held, mut at) = (0u32, 0, 0);
    for &byte in &encoded[..digits] {
        bits = bits << 6 | digit(byte)?;
        held += 6;
        if held >= 8 {
            held -= 8;
            *key.get_mut(at)? = (bits >> held) as u8;
            at += 1;
        }
    }
    debug_assert_eq!(at, len);
    // The unused bits of the last digit must be zero, so that each key has one encoding.
    (bits & ((1 << held) - 1) == 0).then_some(key)
}
