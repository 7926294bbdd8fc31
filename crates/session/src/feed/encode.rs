//! Commands as encoded in the feed: arrays of bulk strings.

use wire::Args;
use wire::number::Text;

/// Maximum length of the encoding around an argument: its length of up to 20 digits, and line ends.
const ARGUMENT_BYTES_MAX: usize = 1 + 20 + 2 + 2;

/// Encodes one command.
#[inline]
pub fn put_command<'a>(out: &mut Vec<u8>, args: impl ExactSizeIterator<Item = &'a [u8]> + Clone) {
    // Without this, each part of a long command would check the capacity and perhaps grow it.
    let texts: usize = args.clone().map(<[u8]>::len).sum();
    out.reserve(texts + ARGUMENT_BYTES_MAX * (args.len() + 1));
    put_head(out, b'*', args.len());
    for arg in args {
        put_head(out, b'$', arg.len());
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
}

#[inline]
fn put_head(out: &mut Vec<u8>, mark: u8, number: usize) {
    let digit = |number: usize| b'0' + (number % 10) as u8;
    match number {
        0..10 => out.extend_from_slice(&[mark, digit(number), b'\r', b'\n']),
        10..100 => {
            out.extend_from_slice(&[mark, digit(number / 10), digit(number), b'\r', b'\n']);
        }
        _ => {
            out.push(mark);
            out.extend_from_slice(Text::unsigned(number as u64).as_bytes());
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// Returns the arguments with the command replaced by its own name, which `rename-command` does not
/// change.
pub fn named<'a>(
    name: &'static str,
    args: Args<'a>,
) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone {
    args.iter()
        .enumerate()
        .map(move |(index, arg)| match index {
            0 => name.as_bytes(),
            _ => arg,
        })
}

/// Encodes a received command under this name. If the input after the name is encoded as an encoder
/// would write it, it is copied unchanged.
#[inline]
pub fn put_received(out: &mut Vec<u8>, name: &'static str, args: Args<'_>) {
    let Some(rest) = args.encoded_behind_name() else {
        return put_command(out, named(name, args));
    };
    out.reserve(name.len() + rest.len() + 2 * ARGUMENT_BYTES_MAX);
    put_head(out, b'*', args.len());
    put_head(out, b'$', name.len());
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(rest);
}

/// Encodes the selection of a database.
pub fn put_select(out: &mut Vec<u8>, db: u8) {
    let number = db.to_string();
    put_command(out, [b"SELECT", number.as_bytes()].into_iter());
}

/// Commands that are added to the feed as one step: those of a transaction or a script, or several
/// commands that together express one.
#[derive(Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    count: usize,
    /// Whether the commands are separate steps instead of a transaction.
    is_separate: bool,
    first_db: Option<u8>,
    last_db: Option<u8>,
}

impl Batch {
    /// Adds a command that changes a database.
    pub fn add(&mut self, db: u8, args: &[&[u8]]) {
        self.add_iter(db, args.iter().copied());
    }

    /// Adds a command that changes a database.
    pub fn add_iter<'a>(&mut self, db: u8, args: impl ExactSizeIterator<Item = &'a [u8]> + Clone) {
        if self.first_db.is_none() {
            self.first_db = Some(db);
        } else if self.last_db != Some(db) {
            put_select(&mut self.bytes, db);
        }
        self.last_db = Some(db);
        self.count += 1;
        put_command(&mut self.bytes, args);
    }

    /// Whether there are no commands.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the database of the first command.
    pub fn first_db(&self) -> Option<u8> {
        self.first_db
    }

    /// Returns the database of the last command.
    pub fn last_db(&self) -> Option<u8> {
        self.last_db
    }

    /// Declares that the commands need not be one step.
    pub(super) fn separate(&mut self) {
        self.is_separate = true;
    }

    /// Returns the bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Moves the commands to `out`, several ones as a transaction.
    pub(super) fn write(&mut self, out: &mut Vec<u8>, has_selected: bool) {
        let is_transaction = self.count > 1 && !self.is_separate;
        if !has_selected && let Some(db) = self.first_db {
            put_select(out, db);
        }
        if is_transaction {
            put_command(out, [&b"MULTI"[..]].into_iter());
        }
        out.extend_from_slice(&self.bytes);
        if is_transaction {
            put_command(out, [&b"EXEC"[..]].into_iter());
        }
        self.bytes.clear();
        *self = Batch {
            bytes: std::mem::take(&mut self.bytes),
            ..Batch::default()
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{Parsed, Parser};

    fn received(input: &str, name: &'static str) -> String {
        let (mut input, mut spans) = (input.as_bytes().to_vec(), Vec::new());
        let parsed = Parser::default().parse(&mut input, &mut spans);
        assert!(matches!(parsed, Ok(Parsed::Command { .. })));
        let mut out = Vec::new();
        put_received(&mut out, name, Args::new(&input, &spans));
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn a_received_command_is_encoded_alike_from_each_form() {
        for len in [0, 9, 10, 300] {
            let value = "v".repeat(len);
            let expected = format!("*3\r\n$3\r\nset\r\n$2\r\nk1\r\n${len}\r\n{value}\r\n");
            let bulk = format!("*3\r\n$7\r\nrenamed\r\n$2\r\nk1\r\n${len}\r\n{value}\r\n");
            assert_eq!(received(&bulk, "set"), expected);
            let line = format!("SET k1 \"{value}\"\r\n");
            assert_eq!(received(&line, "set"), expected);
        }
        let many = ["$1\r\nk\r\n"; 99].concat();
        let expected = format!("*100\r\n$3\r\ndel\r\n{many}");
        let request = format!("*100\r\n$3\r\nDEL\r\n{many}*1\r\n");
        assert_eq!(received(&request, "del"), expected);
    }
}
