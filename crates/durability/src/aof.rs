//! The append-only file: every change as a command in a file, in the layout of Redis 7.
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
//! With `appendfsync always` the replies of a connection that has written are held until the file
//! is on the disk; one synchronization serves all connections that wait. With `everysec` the thread
//! writes every 20 ms, and another thread synchronizes every second, so that a slow synchronization
//! does not delay the writes.
//!
//! If a write fails, it is repeated every second, and commands that write are refused meanwhile. If
//! a synchronization fails, the kernel may have dropped what was written; then, and if more than
//! [`session::feed::FILE_LAG_MAX`] could not be written, commands that write are refused until a
//! rewrite has succeeded.
//!
//! This module is the state; `writer.rs` is the thread, `work.rs` what workers do, `load.rs` reads
//! the files at the start.

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

/// Error for writes while the file cannot be written.
pub const WRITES_REFUSED: &str = "MISCONF Errors writing to the AOF file. Commands that may modify the data set are disabled until the file can be written again. Please check the logs for details about the error.";

/// Work for the thread that is done when it reaches a position of the feed.
#[derive(Debug)]
pub enum Order {
    /// Continue in this file, the increment with this name and number.
    Switch(File, manifest::Part),
    /// The base of a rewrite is complete and has this number of bytes.
    Based(Rewriting, u64),
    /// End the file.
    Close,
}

/// A rewrite.
#[derive(Debug)]
pub struct Rewriting {
    /// The base that is written.
    pub base: manifest::Part,
    /// Number of the first increment after the base.
    pub first: u64,
    /// Time at which the rewrite began.
    pub since: Instant,
    /// The value of [`State::breaks`] at its beginning.
    pub breaks: u64,
}

/// How far the file is in use.
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

/// What one lock protects.
#[derive(Default)]
pub struct State {
    /// How far the file is.
    pub phase: Phase,
    /// Folder of the files.
    pub folder: PathBuf,
    /// Name of the manifest in the folder.
    pub manifest_name: String,
    /// The parts that the manifest names.
    pub manifest: Manifest,
    /// Changes of files, with the position of the feed at which each takes effect.
    pub orders: VecDeque<(u64, Order)>,
    /// Whether the thread performs an order.
    pub is_performing: bool,
    /// The rewrite whose base is being written.
    pub rewriting: Option<Rewriting>,
    /// Whether a rewrite was requested that has not begun.
    pub is_scheduled: bool,
    /// Whether the file is not trusted, so that a rewrite is needed.
    pub is_broken: bool,
    /// How many times the file has lost trust. A rewrite restores it if nothing was lost since its
    /// beginning.
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
    /// Size of the base and of all increments in bytes.
    pub current_bytes: u64,
    /// The value of `current_bytes` after the last rewrite, or after the load.
    pub bytes_after_rewrite: u64,
}

impl State {
    /// Declares that the file no longer contains the present keys, so that it must be rewritten.
    pub fn distrust(&mut self) {
        self.is_broken = true;
        self.breaks += 1;
    }
}

/// State of the append-only file.
#[derive(Default)]
pub struct AppendOnly {
    /// What the lock protects.
    state: Mutex<State>,
    /// Wakes the thread.
    pub bell: Condvar,
    /// Position of the feed up to which the file is on the disk.
    pub synced: AtomicU64,
    /// Whether replies wait until the file is on the disk.
    pub holds_replies: AtomicBool,
    /// Whether the last write or synchronization failed.
    pub has_failed: AtomicBool,
    /// Whether a worker has connections whose replies are held.
    pub has_waiting: AtomicBool,
    /// Number of connections whose replies began to be held since the last synchronization began.
    pub held: AtomicUsize,
    /// Number of held connections that the thread waits for before it synchronizes; 0 if it does
    /// not wait.
    pub awaited: AtomicUsize,
    /// Number of workers that have ended.
    pub ended_workers: AtomicUsize,
    /// Number of synchronizations that took a second or longer.
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

    /// Declares that the file no longer contains the present keys, so that it must be rewritten.
    pub fn distrust(&self) {
        let mut state = self.state();
        state.distrust();
        self.synced.store(0, Relaxed);
    }

    /// Whether the thread has yet to put a base in force or to end the file. No rewrite begins
    /// meanwhile: it would take names that are in use, and readers that are about to be removed.
    pub fn is_settling(&self) -> bool {
        let state = self.state();
        let mut orders = state.orders.iter();
        state.is_performing || orders.any(|(_, order)| !matches!(order, Order::Switch(..)))
    }

    /// Whether the file is written, or its first base is.
    pub fn is_on(&self) -> bool {
        self.state().phase != Phase::Off
    }

    /// Whether replies wait until the file is on the disk.
    #[inline]
    pub fn holds_replies(&self) -> bool {
        self.holds_replies.load(Relaxed)
    }

    /// Returns the position of the feed up to which the file is on the disk.
    #[inline]
    pub fn synced(&self) -> u64 {
        self.synced.load(Relaxed)
    }

    /// Requests that all workers are woken after the next synchronization.
    pub fn wait(&self) {
        self.has_waiting.store(true, Relaxed);
    }

    /// Counts a connection whose replies are held, for which the thread may wait.
    pub fn count_held(&self) {
        let held = self.held.fetch_add(1, Relaxed) + 1;
        if held == self.awaited.load(Relaxed) {
            // The lock orders this call behind the test that precedes the thread's wait.
            drop(self.state());
            self.bell.notify_all();
        }
    }

    /// Whether commands that write are refused.
    #[inline]
    pub fn refuses_writes(&self) -> bool {
        self.has_failed.load(Relaxed)
    }

    /// Records that a worker has ended. The file ends after all of them.
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
    /// Whether a rewrite was requested that has not begun.
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
    /// Number of times that a synchronization took more than a second.
    pub delayed_syncs: u64,
}
