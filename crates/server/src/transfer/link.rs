//! The replication link to a primary of the source: its snapshot, and then its commands.

use super::{Failure, Side};
use crate::replica::stream::{Stream, line, refusal};
use membership::records::join;
use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use wire::{Args, Limits, Parsed, Parser, Span, encode_command};

/// Time without a byte after which the source counts as gone.
const SILENCE: Duration = Duration::from_secs(60);
/// Time for which a read waits for a byte.
const READ_TIME: Duration = Duration::from_millis(5);
/// Time between two messages to the source, which closes the link otherwise.
const PAUSE: Duration = Duration::from_secs(1);
/// Number of bytes per read.
const READ_BYTES: usize = 256 << 10;
/// Length of the mark at the end of a snapshot whose length is not known.
const MARK_BYTES: usize = 40;

/// A stream whose reads wait until there are bytes, and which keeps the link open meanwhile.
#[derive(Debug)]
pub(super) struct Patient<'a> {
    stream: Stream,
    stops: &'a AtomicBool,
    sent_at: Instant,
}

impl Read for Patient<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let begun = Instant::now();
        loop {
            if self.sent_at.elapsed() >= PAUSE {
                self.sent_at = Instant::now();
                // A line without a command. A broken link is found by the read.
                let _ = self.stream.write_all(b"\n");
            }
            match self.stream.read(bytes) {
                Err(error) if is_pause(&error) => {}
                result => return result,
            }
            if self.stops.load(Relaxed) {
                return Err(io::Error::other("stopped"));
            }
            if begun.elapsed() > SILENCE {
                return Err(io::Error::other("it has sent nothing for 60 s"));
            }
        }
    }
}

fn is_pause(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}

/// A link before its snapshot.
pub(super) struct Opening<'a> {
    /// The stream, from the first byte of the snapshot on.
    pub snapshot: BufReader<Patient<'a>>,
    /// Length of the snapshot in bytes, if it is known.
    pub length: Option<u64>,
    mark: Vec<u8>,
    position: u64,
    address: String,
}

impl<'a> Opening<'a> {
    /// Connects as a replica that has nothing.
    pub fn new(
        side: &Side,
        host: &str,
        port: u16,
        stops: &'a AtomicBool,
    ) -> Result<Opening<'a>, Failure> {
        let address = join(host, port);
        let failed = |error: io::Error| format!("{address}: {error}");
        let is_wanted = || !stops.load(Relaxed);
        let stream =
            Stream::open(&side.config, (host, port), READ_TIME, is_wanted).map_err(failed)?;
        let sent_at = Instant::now();
        let mut link = BufReader::new(Patient {
            stream,
            stops,
            sent_at,
        });
        if let Some(words) = Stream::login(&side.config) {
            ask(&mut link, &words).map_err(failed)?;
        }
        ask(&mut link, &["REPLCONF", "capa", "eof", "capa", "psync2"]).map_err(failed)?;
        let reply = ask(&mut link, &["PSYNC", "?", "-1"]).map_err(failed)?;
        let words: Vec<&str> = reply.split_ascii_whitespace().collect();
        let position = match words[..] {
            ["+FULLRESYNC", _, position] => position.parse().ok(),
            _ => None,
        };
        let position = position
            .ok_or_else(|| format!("{address}: PSYNC: expected +FULLRESYNC, found '{reply}'"))?;
        let head = loop {
            let head = line(&mut link).map_err(failed)?;
            // Empty lines keep the connection alive.
            if !head.is_empty() {
                break head;
            }
        };
        let form = head
            .strip_prefix('$')
            .and_then(|form| match form.strip_prefix("EOF:") {
                Some(mark) if mark.len() == MARK_BYTES => Some((None, mark.as_bytes().to_vec())),
                Some(_) => None,
                None => Some((Some(form.parse().ok()?), Vec::new())),
            });
        let (length, mark) =
            form.ok_or_else(|| format!("{address}: expected a snapshot, found '{head}'"))?;
        Ok(Opening {
            snapshot: link,
            length,
            mark,
            position,
            address,
        })
    }
}

/// What is left of an opening after its snapshot was taken out.
pub(super) struct Rest {
    length: Option<u64>,
    mark: Vec<u8>,
    position: u64,
    address: String,
}

impl<'a> Opening<'a> {
    /// Takes the stream out, so that a reader of snapshots can own it.
    pub fn split(self) -> (BufReader<Patient<'a>>, Rest) {
        let rest = Rest {
            length: self.length,
            mark: self.mark,
            position: self.position,
            address: self.address,
        };
        (self.snapshot, rest)
    }
}

impl Rest {
    /// Goes on after the snapshot. `ahead` was read beyond its end, `length` is that of the
    /// snapshot.
    pub fn follow(
        self,
        snapshot: BufReader<Patient<'_>>,
        mut ahead: Vec<u8>,
        length: u64,
    ) -> Result<Link, Failure> {
        let failed = |why: &str| format!("{}: {why}", self.address);
        if self.length.is_some_and(|announced| announced != length) {
            return Err(failed("the snapshot is shorter than announced"));
        }
        ahead.extend_from_slice(snapshot.buffer());
        let mut patient = snapshot.into_inner();
        while ahead.len() < self.mark.len() {
            let mut bytes = vec![0; self.mark.len() - ahead.len()];
            match patient.read(&mut bytes) {
                Ok(0) => return Err(failed("it closed the connection after the snapshot")),
                Ok(len) => ahead.extend_from_slice(&bytes[..len]),
                Err(error) => return Err(failed(&error.to_string())),
            }
        }
        if !ahead.starts_with(&self.mark) {
            return Err(failed("expected the mark at the end of the snapshot"));
        }
        ahead.drain(..self.mark.len());
        Ok(Link {
            stream: patient.stream,
            address: self.address,
            position: self.position,
            input: ahead,
            parser: Parser::new(Limits::of_feed()),
            spans: Vec::new(),
            received_at: Instant::now(),
            acked_at: Instant::now(),
            is_asked: true,
        })
    }
}

/// Sends a command and returns the line of its reply, which must not be an error.
fn ask<A: AsRef<[u8]>>(link: &mut BufReader<Patient<'_>>, words: &[A]) -> io::Result<String> {
    let mut bytes = Vec::new();
    encode_command(&mut bytes, words);
    link.get_mut().stream.write_all(&bytes)?;
    loop {
        match line(link) {
            Ok(reply) if reply.is_empty() => {}
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                let name = String::from_utf8_lossy(words[0].as_ref()).into_owned();
                return Err(io::Error::other(refusal(&name, &error.to_string())));
            }
            result => return result,
        }
    }
}

/// A link after its snapshot.
pub(super) struct Link {
    stream: Stream,
    address: String,
    /// Position of the source in its history after the last command.
    pub position: u64,
    /// Bytes that were received and not examined.
    input: Vec<u8>,
    parser: Parser,
    spans: Vec<Span>,
    received_at: Instant,
    acked_at: Instant,
    /// Whether the source has requested the position.
    is_asked: bool,
}

impl Link {
    /// Passes the commands of one read to `each`, and waits a few milliseconds for them. Returns
    /// whether there are probably more.
    pub fn read(
        &mut self,
        mut each: impl FnMut(Args<'_>) -> Result<(), Failure>,
    ) -> Result<bool, Failure> {
        let is_full = self.receive()?;
        let mut input = std::mem::take(&mut self.input);
        let mut at = 0;
        while at < input.len() {
            self.spans.clear();
            match self.parser.parse(&mut input[at..], &mut self.spans) {
                Ok(Parsed::Command { consumed }) => {
                    let args = Args::new(&input[at..at + consumed], &self.spans);
                    self.is_asked |= args.is(0, "replconf") && args.is(1, "getack");
                    each(args).map_err(|why| format!("{}: {why}", self.address))?;
                    at += consumed;
                    self.position += consumed as u64;
                }
                Ok(Parsed::Blank { consumed }) => {
                    at += consumed;
                    self.position += consumed as u64;
                }
                Ok(Parsed::Incomplete { .. }) => break,
                Err(error) => return Err(format!("{}: its feed: {error}", self.address)),
            }
        }
        input.drain(..at);
        self.input = input;
        Ok(is_full)
    }

    fn receive(&mut self) -> Result<bool, Failure> {
        let failed = |why: &str| {
            format!(
                "{}: {why}: the import cannot go on, begin it again with --replace",
                self.address
            )
        };
        let before = self.input.len();
        self.input.resize(before + READ_BYTES, 0);
        let result = self.stream.read(&mut self.input[before..]);
        self.input.truncate(before + *result.as_ref().unwrap_or(&0));
        match result {
            Ok(0) => Err(failed("it closed the replication link")),
            Ok(len) => {
                self.received_at = Instant::now();
                Ok(len == READ_BYTES)
            }
            Err(error) if is_pause(&error) => match self.received_at.elapsed() > SILENCE {
                true => Err(failed("it has sent nothing for 60 s")),
                false => Ok(false),
            },
            Err(error) => Err(failed(&error.to_string())),
        }
    }

    /// Reports position 0 once a second, and when the source requests that, so that the link counts
    /// as used. Nothing here keeps what was read, and WAIT must not count it.
    pub fn acknowledge(&mut self) -> Result<(), Failure> {
        if self.acked_at.elapsed() < PAUSE && !self.is_asked {
            return Ok(());
        }
        self.is_asked = false;
        self.acked_at = Instant::now();
        let mut bytes = Vec::new();
        encode_command(&mut bytes, &["REPLCONF", "ACK", "0"]);
        self.stream
            .write_all(&bytes)
            .map_err(|error| format!("{}: {error}", self.address))
    }
}
