//! SLOWLOG: the last commands that took long, with their arguments cut short.

use crate::session::Session;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use wire::Args;

/// Arguments kept of one command, the last of which then counts the others.
const ARGS_MAX: usize = 32;
/// Bytes kept of one argument.
const ARG_BYTES_MAX: usize = 128;

/// One slow command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Counts up for as long as the server runs.
    pub id: u64,
    /// When it ran, in seconds since 1970.
    pub seconds: u64,
    /// How long, in microseconds.
    pub micros: u64,
    /// Its arguments, cut short.
    pub args: Vec<Vec<u8>>,
    /// The client's address.
    pub address: String,
    /// The client's name.
    pub name: String,
}

/// The last slow commands, newest first.
#[derive(Default)]
pub struct Slowlog {
    entries: Mutex<VecDeque<Entry>>,
    next_id: AtomicU64,
}

impl Slowlog {
    /// Keeps a command, and no more than `len_max` in all.
    pub fn add(&self, session: &Session, args: Args<'_>, micros: u64, now_ms: u64, len_max: usize) {
        let entry = Entry {
            id: self.next_id.fetch_add(1, Relaxed),
            seconds: now_ms / 1000,
            micros,
            args: cut(args),
            address: session.info.address.clone(),
            name: session.info.name(),
        };
        let mut entries = self.entries.lock().expect("no holder panics");
        entries.push_front(entry);
        entries.truncate(len_max);
    }

    /// The newest `count`.
    pub fn newest(&self, count: usize) -> Vec<Entry> {
        let entries = self.entries.lock().expect("no holder panics");
        entries.iter().take(count).cloned().collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.lock().expect("no holder panics").len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keeps no more than this.
    pub fn shrink(&self, len_max: usize) {
        let mut entries = self.entries.lock().expect("no holder panics");
        entries.truncate(len_max);
    }

    /// Forgets all.
    pub fn reset(&self) {
        self.entries.lock().expect("no holder panics").clear();
    }
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
        .map(|arg| {
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
