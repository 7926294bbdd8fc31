//! The append-only file: every change as a command in a file, in Redis 7's layout.
//!
//! A folder holds a *base* (all keys at one instant, a snapshot), *increments* (the commands since)
//! and a *manifest*, which names them. A rewrite writes a new base while the server runs:
//!
//! ```text
//! commands ─▶ feed ─▶ thread ─▶ increment N ┃ increment N + 1
//!                                           ┃ instant of the snapshot: the thread changes files
//!                     thread for snapshots ─┸▶ new base ─▶ new manifest ─▶ old parts are deleted
//! ```
//!
//! With `appendfsync always`, the replies of a connection that has written are held until the file
//! is on disk; one fsync serves all waiting connections. With `everysec`, the thread writes every
//! 20 ms and another thread calls fsync every second, so that a slow fsync does not delay the
//! writes.
//!
//! A failed write is retried every second, and write commands are refused meanwhile. After a failed
//! fsync the kernel may have dropped the written data. In that case, or if more than
//! [`session::feed::FILE_LAG_MAX`] bytes could not be written, write commands are refused until a
//! rewrite succeeds.
//!
//! This module holds the state. The rest is in the server: `aof/writer.rs` is the thread,
//! `aof/work.rs` the part that workers do, and `replay.rs` reads the files at startup.

pub mod annotation;
pub mod manifest;
pub mod reader;

use manifest::Manifest;
use std::collections::VecDeque;
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Time after a failed rewrite before the next attempt.
pub const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// Error for write commands while the file cannot be written.
pub const WRITES_REFUSED: &str = "MISCONF Errors writing to the AOF file. Commands that may modify the data set are disabled until the file can be written again. Please check the logs for details about the error.";

/// A task that the thread performs when it reaches a position of the feed.
#[derive(Debug)]
pub enum Order {
    /// Continue in this file, which is the increment with this name and number.
    Switch(File, manifest::Part),
    /// The base of a rewrite is complete and has this number of bytes.
    Based(Rewriting, u64),
    /// Close the file and end.
    Close,
}

/// A rewrite.
#[derive(Debug)]
pub struct Rewriting {
    /// The base being written.
    pub base: manifest::Part,
    /// Number of the first increment after the base.
    pub first: u64,
    /// Time at which the rewrite began.
    pub since: Instant,
    /// Value of [`State::breaks`] when the rewrite began.
    pub breaks: u64,
}

/// Stage of the file's use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// There is no file.
    #[default]
    Off,
    /// The first base is being written.
    Base,
    /// The file is complete.
    On,
}

/// State protected by one lock.
#[derive(Default)]
pub struct State {
    /// Stage that the file has reached.
    pub phase: Phase,
    /// Folder of the files.
    pub folder: PathBuf,
    /// Name of the manifest in the folder.
    pub manifest_name: String,
    /// The parts that the manifest names.
    pub manifest: Manifest,
    /// Changes of files, with the position of the feed at which each takes effect.
    pub orders: VecDeque<(u64, Order)>,
    /// Whether the thread is performing an order.
    pub is_performing: bool,
    /// The rewrite whose base is being written.
    pub rewriting: Option<Rewriting>,
    /// Whether a rewrite is requested but has not begun.
    pub is_scheduled: bool,
    /// Whether the file cannot be trusted, so that a rewrite is needed.
    pub is_broken: bool,
    /// Number of times the file has lost trust. A rewrite restores trust only if this number has
    /// not changed since the rewrite began.
    pub breaks: u64,
    /// Time of the last failed rewrite.
    pub failed_at: Option<Instant>,
    /// Duration of the last rewrite.
    pub last_took: Option<Duration>,
    /// Whether the last rewrite failed.
    pub has_rewrite_failed: bool,
    /// Number of complete rewrites.
    pub rewrites: u64,
    /// Size of the base in bytes.
    pub base_bytes: u64,
    /// Total size of the base and all increments in bytes.
    pub current_bytes: u64,
    /// Value of `current_bytes` after the last rewrite or after loading.
    pub bytes_after_rewrite: u64,
}

impl State {
    /// Marks the file as no longer matching the keys, so that it must be rewritten.
    pub fn distrust(&mut self) {
        self.is_broken = true;
        self.breaks += 1;
    }
}

/// State of the append-only file.
#[derive(Default)]
pub struct AppendOnly {
    /// State protected by the lock.
    state: Mutex<State>,
    /// Wakes the thread.
    pub bell: Condvar,
    /// Feed position up to which the file is on disk.
    pub synced: AtomicU64,
    /// Whether replies are held until the file is on disk.
    pub holds_replies: AtomicBool,
    /// Whether the last write or fsync failed.
    pub has_failed: AtomicBool,
    /// Whether any worker has connections with held replies.
    pub has_waiting: AtomicBool,
    /// Number of connections whose replies have been held since the last fsync began.
    pub held: AtomicUsize,
    /// Number of held connections that the thread waits for before it calls fsync; 0 if it does not
    /// wait.
    pub awaited: AtomicUsize,
    /// Number of workers that have ended.
    pub ended_workers: AtomicUsize,
    /// Number of fsync calls that took a second or longer.
    pub delayed_syncs: AtomicU64,
}

impl AppendOnly {
    /// Locks the state.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("the lock is not poisoned")
    }

    /// Whether the file and its manifest are complete.
    pub fn is_complete(&self) -> bool {
        let state = self.state();
        state.phase == Phase::On && !state.is_broken
    }

    /// Marks the file as no longer matching the keys, so that it must be rewritten.
    pub fn distrust(&self) {
        let mut state = self.state();
        state.distrust();
        self.synced.store(0, Relaxed);
    }

    /// Whether the thread still has to activate a base or to end the file. No rewrite may begin
    /// meanwhile: it would use names that are taken and readers that are about to be removed.
    pub fn is_settling(&self) -> bool {
        let state = self.state();
        let mut orders = state.orders.iter();
        state.is_performing || orders.any(|(_, order)| !matches!(order, Order::Switch(..)))
    }

    /// Whether the file, or its first base, is being written.
    pub fn is_on(&self) -> bool {
        self.state().phase != Phase::Off
    }

    /// Whether replies are held until the file is on disk.
    #[inline]
    pub fn holds_replies(&self) -> bool {
        self.holds_replies.load(Relaxed)
    }

    /// Returns the feed position up to which the file is on disk.
    #[inline]
    pub fn synced(&self) -> u64 {
        self.synced.load(Relaxed)
    }

    /// Requests that all workers be woken after the next fsync.
    pub fn wait(&self) {
        self.has_waiting.store(true, Relaxed);
    }

    /// Counts a connection with held replies, for which the thread may wait.
    pub fn count_held(&self) {
        let held = self.held.fetch_add(1, Relaxed) + 1;
        if held == self.awaited.load(Relaxed) {
            // The lock orders this call behind the test that precedes the thread's wait.
            drop(self.state());
            self.bell.notify_all();
        }
    }

    /// Whether write commands are refused.
    #[inline]
    pub fn refuses_writes(&self) -> bool {
        self.has_failed.load(Relaxed)
    }

    /// Records that a worker has ended. The file is closed after the last one.
    pub fn end_worker(&self) {
        self.ended_workers.fetch_add(1, Relaxed);
        self.bell.notify_all();
    }

    /// Returns the state for INFO.
    pub fn facts(&self) -> AofFacts {
        let state = self.state();
        AofFacts {
            is_on: state.phase != Phase::Off,
            is_rewriting: state.rewriting.is_some(),
            is_scheduled: state.is_scheduled,
            last_took: state.last_took,
            current: state
                .rewriting
                .as_ref()
                .map(|rewriting| rewriting.since.elapsed()),
            has_rewrite_failed: state.has_rewrite_failed,
            has_write_failed: self.refuses_writes(),
            rewrites: state.rewrites,
            base_bytes: state.base_bytes,
            current_bytes: state.current_bytes,
            delayed_syncs: self.delayed_syncs.load(Relaxed),
        }
    }
}

/// State of the append-only file for INFO.
#[derive(Clone, Copy, Debug)]
pub struct AofFacts {
    /// Whether there is a file.
    pub is_on: bool,
    /// Whether a rewrite is in progress.
    pub is_rewriting: bool,
    /// Whether a rewrite is requested but has not begun.
    pub is_scheduled: bool,
    /// Duration of the last rewrite.
    pub last_took: Option<Duration>,
    /// Time since the rewrite in progress began.
    pub current: Option<Duration>,
    /// Whether the last rewrite failed.
    pub has_rewrite_failed: bool,
    /// Whether the last write failed.
    pub has_write_failed: bool,
    /// Number of complete rewrites.
    pub rewrites: u64,
    /// Size of the base after the last rewrite in bytes.
    pub base_bytes: u64,
    /// Size of all parts in bytes.
    pub current_bytes: u64,
    /// Number of fsync calls that took more than a second.
    pub delayed_syncs: u64,
}
