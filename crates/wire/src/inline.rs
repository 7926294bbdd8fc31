//! Inline commands: a line of words as a person types it, with quotes and escapes.
//!
//! A word is never longer than its quoted form, so words are unescaped in place: spans point into
//! the input buffer, as they do for arrays.

use crate::args::Span;

/// Error: a quote is not closed, or a closing quote is not followed by a blank.
#[derive(Debug, PartialEq, Eq)]
pub struct UnbalancedQuotes;

/// Splits `line` into words, unescapes them in place, and appends their positions to `spans`.
///
/// The rules are Redis's. Words are separated by blanks. `"…"` supports `\xHH \n \r \t \b \a`, and
/// any other escaped byte stands for itself; `'…'` supports `\'` only. A closing quote must end its
/// word. A NUL ends the line.
///
/// # Errors
/// A quote is not closed, or a closing quote is not followed by a blank.
pub fn split_words(line: &mut [u8], spans: &mut Vec<Span>) -> Result<(), UnbalancedQuotes> {
    let mut read = 0;
    loop {
        while line.get(read).is_some_and(|&byte| is_blank(byte)) {
            read += 1;
        }
        if is_end(line.get(read)) {
            return Ok(());
        }
        let start = read;
        let (next, len) = read_word(line, start)?;
        spans.push(Span::new(start, len));
        read = next;
    }
}

/// Unescapes the word that starts at `start` in place. Returns the position after the word and the
/// length of the result.
fn read_word(line: &mut [u8], start: usize) -> Result<(usize, usize), UnbalancedQuotes> {
    let mut read = start;
    let mut write = start;
    loop {
        match line.get(read) {
            None | Some(0 | b' ' | b'\n' | b'\r' | b'\t') => return Ok((read, write - start)),
            Some(b'"') => {
                (read, write) = read_double_quoted(line, read + 1, write)?;
                return Ok((closed(line, read)?, write - start));
            }
            Some(b'\'') => {
                (read, write) = read_single_quoted(line, read + 1, write)?;
                return Ok((closed(line, read)?, write - start));
            }
            Some(&byte) => {
                line[write] = byte;
                read += 1;
                write += 1;
            }
        }
    }
}

/// Unescapes up to the closing `"`. Returns the position after it, and the end of the result.
fn read_double_quoted(
    line: &mut [u8],
    mut read: usize,
    mut write: usize,
) -> Result<(usize, usize), UnbalancedQuotes> {
    loop {
        let (byte, taken) = match line.get(read..).unwrap_or(&[]) {
            [] | [0, ..] => return Err(UnbalancedQuotes),
            [b'"', ..] => return Ok((read + 1, write)),
            [b'\\', b'x', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                (hex_value(*high) << 4 | hex_value(*low), 4)
            }
            [b'\\', escaped, ..] if *escaped != 0 => (unescape(*escaped), 2),
            [byte, ..] => (*byte, 1),
        };
        line[write] = byte;
        write += 1;
        read += taken;
    }
}

/// Unescapes up to the closing `'`. Returns the position after it, and the end of the result.
fn read_single_quoted(
    line: &mut [u8],
    mut read: usize,
    mut write: usize,
) -> Result<(usize, usize), UnbalancedQuotes> {
    loop {
        let (byte, taken) = match line.get(read..).unwrap_or(&[]) {
            [] | [0, ..] => return Err(UnbalancedQuotes),
            [b'\'', ..] => return Ok((read + 1, write)),
            [b'\\', b'\'', ..] => (b'\'', 2),
            [byte, ..] => (*byte, 1),
        };
        line[write] = byte;
        write += 1;
        read += taken;
    }
}

/// Checks that a quoted word ends after its closing quote.
fn closed(line: &[u8], read: usize) -> Result<usize, UnbalancedQuotes> {
    let next = line.get(read);
    if is_end(next) || next.is_some_and(|&byte| is_blank(byte)) {
        Ok(read)
    } else {
        Err(UnbalancedQuotes)
    }
}

fn is_end(byte: Option<&u8>) -> bool {
    matches!(byte, None | Some(0))
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

fn unescape(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
    }
}

fn hex_value(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit - b'A' + 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &[u8]) -> Result<Vec<Vec<u8>>, UnbalancedQuotes> {
        let mut line = line.to_vec();
        let mut spans = Vec::new();
        split_words(&mut line, &mut spans)?;
        let words = spans.iter().map(|span| line[span.range()].to_vec());
        Ok(words.collect())
    }

    #[test]
    fn words_are_split_and_unescaped() {
        let table: &[(&[u8], &[&[u8]])] = &[
            (b"", &[]),
            (b" \t \x0b\x0c ", &[]),
            (b"PING", &[b"PING"]),
            (b"  set  a\tb  ", &[b"set", b"a", b"b"]),
            (b"a\\nb", &[b"a\\nb"]),
            (b"\"\"", &[b""]),
            (b"''", &[b""]),
            (b"foo\"bar\"", &[b"foobar"]),
            (b"'it\\'s' \"\\\"x\\\"\"", &[b"it's", b"\"x\""]),
            (b"\"\\x41\\xfF\\x0\\q\"", &[b"A\xffx0q"]),
            (b"\"\\n\\r\\t\\b\\a\\\\\"", &[b"\n\r\t\x08\x07\\"]),
            (b"'\\n'", &[b"\\n"]),
            (b"\"a b\" 'c d' e", &[b"a b", b"c d", b"e"]),
            (b"a b\0c d", &[b"a", b"b"]),
            (b"\xff\xfe \x80", &[b"\xff\xfe", b"\x80"]),
        ];
        for (line, expected) in table {
            let expected: Vec<Vec<u8>> = expected.iter().map(|word| word.to_vec()).collect();
            assert_eq!(words(line), Ok(expected), "line {:?}", line.escape_ascii());
        }
    }

    #[test]
    fn quotes_must_be_balanced_and_end_their_word() {
        let table: &[&[u8]] = &[
            b"\"",
            b"'",
            b"\"abc",
            b"'abc",
            b"\"abc\"d",
            b"'abc'd",
            b"set \"\"\"key\"\"\" value",
            b"\"a\\",
            b"\"a\\\"",
            b"'a\\'",
            b"\"a\0\"",
            b"'a\0'",
        ];
        for line in table {
            assert_eq!(
                words(line),
                Err(UnbalancedQuotes),
                "line {:?}",
                line.escape_ascii()
            );
        }
    }
}
