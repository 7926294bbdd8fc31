//! SLOWLOG: the most recent slow commands, with shortened arguments.

use crate::clients::ClientInfo;
use settings::{Kind, find};
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use wire::Args;

/// Maximum number of arguments kept per command. If there are more, the last one says how many were
/// dropped.
const ARGS_MAX: usize = 32;
/// Maximum number of bytes kept of one argument.
const ARG_BYTES_MAX: usize = 128;

/// One slow command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Number of the entry, counted since the server's start.
    pub id: u64,
    /// Unix time of the command in seconds.
    pub seconds: u64,
    /// Duration in microseconds.
    pub micros: u64,
    /// Shortened arguments.
    pub args: Vec<Vec<u8>>,
    /// Address of the client.
    pub address: String,
    /// Name of the client.
    pub name: String,
}

/// The most recent slow commands, the newest first.
#[derive(Default)]
pub struct Slowlog {
    entries: Mutex<VecDeque<Entry>>,
    next_id: AtomicU64,
}

impl Slowlog {
    /// Adds a command and keeps at most `len_max` entries. `command` is its name in the table of
    /// commands, from which the name that the client sent may differ.
    pub fn add(
        &self,
        client: &ClientInfo,
        (command, args): (&str, Args<'_>),
        micros: u64,
        now_ms: u64,
        len_max: usize,
    ) {
        self.add_words(client, cut(command, args), micros, now_ms, len_max);
    }

    /// Adds an entry with these words instead of a command's arguments.
    pub fn add_words(
        &self,
        client: &ClientInfo,
        words: Vec<Vec<u8>>,
        micros: u64,
        now_ms: u64,
        len_max: usize,
    ) {
        let entry = Entry {
            id: self.next_id.fetch_add(1, Relaxed),
            seconds: now_ms / 1000,
            micros,
            args: words,
            address: client.address.clone(),
            name: client.name(),
        };
        let mut entries = self.entries.lock().expect("the lock is not poisoned");
        entries.push_front(entry);
        entries.truncate(len_max);
    }

    /// Returns the newest `count` entries.
    pub fn newest(&self, count: usize) -> Vec<Entry> {
        let entries = self.entries.lock().expect("the lock is not poisoned");
        entries.iter().take(count).cloned().collect()
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.entries.lock().expect("the lock is not poisoned").len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keeps at most `len_max` entries, the newest.
    pub fn shrink(&self, len_max: usize) {
        let mut entries = self.entries.lock().expect("the lock is not poisoned");
        entries.truncate(len_max);
    }

    /// Deletes all entries.
    pub fn reset(&self) {
        self.entries
            .lock()
            .expect("the lock is not poisoned")
            .clear();
    }
}

/// Whether an argument of a command may be a password, or belong to a user.
fn is_secret(command: &str, args: Args<'_>, at: usize) -> bool {
    match command {
        "auth" => at >= 1,
        "acl" | "hello" => at >= 2,
        "config" => at >= 3 && at % 2 == 1 && args.is(1, "set") && names_secret(&args[at - 1]),
        _ => false,
    }
}

/// Whether a setting's value is a secret. Redis settings that are refused may be secrets, too
/// (`tls-key-file-pass`).
fn names_secret(name: &[u8]) -> bool {
    let name = String::from_utf8_lossy(name);
    match find(&name) {
        Some(param) => param.kind == Kind::Secret,
        None => ["pass", "auth", "secret", "user"]
            .iter()
            .any(|word| name.to_ascii_lowercase().contains(word)),
    }
}

fn cut(command: &str, args: Args<'_>) -> Vec<Vec<u8>> {
    let kept = if args.len() > ARGS_MAX {
        ARGS_MAX - 1
    } else {
        args.len()
    };
    let mut all: Vec<Vec<u8>> = args
        .iter()
        .take(kept)
        .enumerate()
        .map(|(at, arg)| {
            if is_secret(command, args, at) {
                return b"(redacted)".to_vec();
            }
            if arg.len() <= ARG_BYTES_MAX {
                return arg.to_vec();
            }
            let rest = arg.len() - ARG_BYTES_MAX;
            let mut short = arg[..ARG_BYTES_MAX].to_vec();
            short.extend_from_slice(format!("... ({rest} more bytes)").as_bytes());
            short
        })
        .collect();
    if kept < args.len() {
        all.push(format!("... ({} more arguments)", args.len() - kept).into_bytes());
    }
    all
}
