//! SLOWLOG: the most recent slow commands, with shortened arguments.

use crate::clients::ClientInfo;
use crate::config::{Kind, find};
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use wire::Args;

/// Maximum number of arguments kept of one command. If there are more, the last one says how many
/// were dropped.
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
    /// Adds a command and keeps at most `len_max` entries.
    pub fn add(
        &self,
        client: &ClientInfo,
        args: Args<'_>,
        micros: u64,
        now_ms: u64,
        len_max: usize,
    ) {
        self.add_words(client, cut(args), micros, now_ms, len_max);
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

/// Whether an argument may be a password, or belong to a user.
fn is_secret(args: Args<'_>, at: usize) -> bool {
    let names_secret = |name: &[u8]| {
        let name = std::str::from_utf8(name).ok();
        name.and_then(find)
            .is_some_and(|param| param.kind == Kind::Secret)
    };
    let is_setting = args.is(0, "config") && args.is(1, "set");
    args.is(0, "acl") && at >= 2
        || is_setting && at >= 3 && at % 2 == 1 && names_secret(&args[at - 1])
}

fn cut(args: Args<'_>) -> Vec<Vec<u8>> {
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
            if is_secret(args, at) {
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
