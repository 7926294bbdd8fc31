//! Clients that receive a line for each executed command (MONITOR).

use crate::inbox::Inbox;
use crate::message::{Message, Subscriber};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{PoisonError, RwLock};
use wire::Args;

/// Maximum number of bytes shown of one argument. A longer one ends with the number of omitted
/// bytes.
const ARGUMENT_BYTES_MAX: usize = 4096;
/// Maximum number of arguments shown.
const ARGUMENTS_MAX: usize = 1024;
/// Digits of escaped bytes.
const HEX_DIGITS: &[u8; 16] = b"0123456789abcdef";

/// All clients that sent MONITOR.
#[derive(Debug, Default)]
pub struct Monitors {
    all: RwLock<Vec<Subscriber>>,
    count: AtomicUsize,
}

impl Monitors {
    /// Whether a client monitors.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.count.load(Relaxed) > 0
    }

    /// Adds a client that is not in the list yet.
    pub fn add(&self, client: Subscriber) {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        all.push(client);
        self.count.store(all.len(), Relaxed);
    }

    /// Removes a client.
    pub fn remove(&self, client: Subscriber) {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        all.retain(|other| *other != client);
        self.count.store(all.len(), Relaxed);
    }

    /// Sends the line of one command to all monitoring clients. A client whose message does not fit
    /// into its worker's inbox is disconnected.
    pub fn send(&self, inboxes: &[Inbox], line: Vec<u8>) {
        let line = std::sync::Arc::<[u8]>::from(line);
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        for &to in all.iter() {
            if let Some(inbox) = inboxes.get(to.worker)
                && !inbox.push(to.worker, Message::Monitor(to, line.clone()))
            {
                inbox.push(to.worker, Message::Kill(to.slot, to.client));
            }
        }
    }
}

/// Formats a command as Redis does: time, database, source, which is the client's address or `lua`,
/// and quoted arguments.
pub fn line(now_us: u64, db: usize, source: &str, args: Args<'_>) -> Vec<u8> {
    let mut line = format!(
        "+{}.{:06} [{db} {source}]",
        now_us / 1_000_000,
        now_us % 1_000_000
    )
    .into_bytes();
    for arg in args.from(0).iter().take(ARGUMENTS_MAX) {
        line.push(b' ');
        quote(arg, &mut line);
    }
    if args.len() > ARGUMENTS_MAX {
        let omitted = args.len() - ARGUMENTS_MAX;
        line.extend_from_slice(format!(" ... ({omitted} more arguments)").as_bytes());
    }
    line.extend_from_slice(b"\r\n");
    line
}

/// Appends an argument in quotes, with the escapes of redis-cli.
fn quote(arg: &[u8], line: &mut Vec<u8>) {
    line.push(b'"');
    for &byte in &arg[..arg.len().min(ARGUMENT_BYTES_MAX)] {
        match byte {
            b'"' | b'\\' => line.extend_from_slice(&[b'\\', byte]),
            b'\n' => line.extend_from_slice(b"\\n"),
            b'\r' => line.extend_from_slice(b"\\r"),
            b'\t' => line.extend_from_slice(b"\\t"),
            7 => line.extend_from_slice(b"\\a"),
            8 => line.extend_from_slice(b"\\b"),
            b' '..=b'~' => line.push(byte),
            _ => {
                let digit = |nibble: u8| HEX_DIGITS[nibble as usize];
                line.extend_from_slice(&[b'\\', b'x', digit(byte >> 4), digit(byte & 15)]);
            }
        }
    }
    line.push(b'"');
    if arg.len() > ARGUMENT_BYTES_MAX {
        let omitted = arg.len() - ARGUMENT_BYTES_MAX;
        line.extend_from_slice(format!("... ({omitted} more bytes)").as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Span;

    #[test]
    fn a_line_quotes_arguments_and_omits_the_end_of_long_ones() {
        let long = vec![b'x'; ARGUMENT_BYTES_MAX + 5];
        let mut input = b"sETa\"\\\r\n\t\x07\x08\xff".to_vec();
        input.extend_from_slice(&long);
        let span = |start, len| Span { start, len };
        let spans = [span(0, 3), span(3, 9), span(12, long.len() as u32)];
        let shown = line(
            1_339_518_083_107_412,
            3,
            "127.0.0.1:5",
            Args::new(&input, &spans),
        );
        let shown = String::from_utf8(shown).expect("it is ASCII");
        let start = r#"+1339518083.107412 [3 127.0.0.1:5] "sET" "a\"\\\r\n\t\a\b\xff" "xxx"#;
        assert!(shown.starts_with(start), "{shown}");
        assert!(shown.ends_with("xxx\"... (5 more bytes)\r\n"), "{shown}");
    }
}
