//! Saving all keys to a snapshot file while the server runs, without a fork.
//!
//! ```text
//! command, save point, signal ─request─▶ first worker: begins the snapshot under all locks
//! worker of each shard: walks it in slices ─batches─▶ queue ─▶ thread: encodes, writes, renames
//! any write: first passes what it changes  ─batches─▶ queue      │
//! first worker: replies or stops the server         ◀────────────┘
//! ```
//!
//! The instant of the snapshot is set under the locks of all shards, while no long command runs,
//! because the values of such a command are not in the keyspace. `store/src/snapshot.rs` describes
//! how the keys of that instant are passed while they change. Shards are walked one after the
//! other, each by the worker that expires it, in slices as long as those of expiry. Workers only
//! copy bytes; encoding, checksum, writing and waiting for the disk are the thread's work.
//!
//! A large value is borrowed, encoded by the thread and put back. Meanwhile commands that name its
//! key wait as for a long command ([`crate::long`]). The same happens before a command changes a
//! large value that is not saved yet.
//!
//! Only the slab engine has snapshots.
//!
//! This module is the state; `work.rs` is what workers do, `writer.rs` the thread.

mod encode;
pub mod points;
pub mod queue;
pub mod work;
pub mod writer;

use crate::message::Subscriber;
use crate::slice::Steps;
use queue::{Queue, Task};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use wire::Protocol;

/// Shard of a walk that is not in progress.
const NO_SHARD: usize = usize::MAX;
/// Pause before the next attempt to walk a shard that another worker holds, or whose next value a
/// long command uses.
const RETRY_PAUSE: Duration = Duration::from_millis(1);
/// Time after a failed snapshot before a save point begins another one.
const FAILED_PAUSE: Duration = Duration::from_secs(5);

/// Error for a save while another one is in progress.
pub const IN_PROGRESS: &str = "ERR Background save already in progress";
/// Error for writes while snapshots fail.
pub const WRITES_REFUSED: &str = "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands that may modify the data set are disabled, because this instance is configured to report errors during writes if RDB snapshotting fails (stop-writes-on-bgsave-error option). Please check the Redis logs for details about the RDB error.";

/// A client that waits for the end of a snapshot.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// Address of the client.
    pub client: Subscriber,
    /// Protocol version of the client.
    pub protocol: Protocol,
}

/// What follows when a snapshot has ended.
#[derive(Clone, Copy, Debug)]
pub enum Then {
    /// Nothing.
    Nothing,
    /// The client receives a reply.
    Reply(Waiting),
    /// The snapshot is sent to replicas.
    Replicas,
    /// The snapshot becomes the base of the append-only file.
    Rewritten,
    /// The server stops, if `is_forced` also when the snapshot has failed. Otherwise the client, if
    /// there is one, receives an error.
    Stop {
        /// Client that sent SHUTDOWN.
        client: Option<Waiting>,
        /// Whether the server stops without a snapshot.
        is_forced: bool,
    },
}

/// A snapshot that begins as soon as possible.
#[derive(Debug)]
struct Request {
    /// Reason for the log.
    cause: String,
    then: Then,
}

/// A snapshot in progress.
struct Progress {
    request: Request,
    started: Instant,
    /// Number of changes when it began.
    changes: u64,
    is_cancelled: bool,
}

#[derive(Default)]
struct State {
    request: Option<Request>,
    progress: Option<Progress>,
    /// Number of changes that the last complete snapshot includes.
    saved_changes: u64,
    /// Time of the last complete snapshot in seconds since 1970, at first of the start.
    last_save: u64,
    /// End of the last failed snapshot.
    failed_at: Option<Instant>,
    /// Duration of the last snapshot.
    last_took: Option<Duration>,
    last_peak_bytes: usize,
    /// Number of complete snapshots.
    saves: u64,
}

impl State {
    /// Whether a snapshot is in progress or requested.
    fn is_busy(&self) -> bool {
        self.progress.is_some() || self.request.is_some()
    }

    /// Whether the server stops after the snapshot that is in progress or requested.
    fn stops(&self) -> bool {
        let progress = self.progress.as_ref().map(|progress| &progress.request);
        let mut requests = self.request.iter().chain(progress);
        requests.any(|request| matches!(request.then, Then::Stop { .. }))
    }
}

/// State of snapshots.
pub struct Saving {
    /// Entries and files for the thread.
    pub queue: Arc<Queue>,
    state: Mutex<State>,
    has_request: AtomicBool,
    /// Whether the last snapshot failed.
    has_failed: AtomicBool,
    /// Whether a snapshot's entries have not all been passed.
    is_walking: AtomicBool,
    /// Shard that is walked.
    shard: AtomicUsize,
    /// Milliseconds on the monotonic clock until which the walk pauses.
    paused_until_ms: AtomicU64,
    steps: Mutex<Steps>,
}

impl Saving {
    /// Creates the state at a time in seconds since 1970.
    pub fn new(now_seconds: u64) -> Saving {
        Saving {
            queue: Arc::default(),
            state: Mutex::new(State {
                last_save: now_seconds,
                ..State::default()
            }),
            has_request: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
            is_walking: AtomicBool::new(false),
            shard: AtomicUsize::new(NO_SHARD),
            paused_until_ms: AtomicU64::new(0),
            steps: Mutex::default(),
        }
    }

    /// Whether the server stops after a snapshot that is in progress or requested.
    pub fn awaits_stop(&self) -> bool {
        self.state().stops()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("the lock is not poisoned")
    }

    /// Stores the request for a snapshot.
    ///
    /// # Errors
    /// Another snapshot is in progress. The message is a reply.
    pub fn request(&self, cause: String, then: Then) -> Result<(), &'static str> {
        let mut state = self.state();
        let stops = matches!(then, Then::Stop { .. });
        if stops && state.stops() || !stops && state.is_busy() {
            return Err(IN_PROGRESS);
        }
        // The instant of the present snapshot may precede acknowledged writes.
        self.cancel_progress(&mut state);
        state.request = Some(Request { cause, then });
        self.has_request.store(true, Relaxed);
        Ok(())
    }

    fn cancel_progress(&self, state: &mut State) {
        if let Some(progress) = &mut state.progress {
            progress.is_cancelled = true;
            self.shard.store(NO_SHARD, Relaxed);
            self.queue.discard();
            self.queue.push(Task::End);
        }
    }

    /// Cancels the snapshot in progress. Returns whether there was one, and whether it had begun.
    pub fn cancel(&self) -> Option<bool> {
        let mut state = self.state();
        if state.request.take().is_some() {
            self.has_request.store(false, Relaxed);
            return Some(false);
        }
        let is_running = state.progress.is_some();
        self.cancel_progress(&mut state);
        is_running.then_some(true)
    }

    /// Cancels the snapshot of a stop. Returns `None` if there is none, and what follows its end if
    /// it had not begun.
    fn abort_stop(&self) -> Option<Option<Then>> {
        let mut state = self.state();
        if !state.stops() {
            return None;
        }
        match state.request.take() {
            Some(request) => {
                self.has_request.store(false, Relaxed);
                Some(Some(request.then))
            }
            None => {
                self.cancel_progress(&mut state);
                Some(None)
            }
        }
    }

    /// Whether a snapshot waits to begin.
    #[inline]
    pub fn has_request(&self) -> bool {
        self.has_request.load(Relaxed)
    }

    /// Whether a snapshot is in progress whose entries were not all passed to the thread.
    #[inline]
    pub fn is_walking(&self) -> bool {
        self.is_walking.load(Relaxed)
    }

    /// Returns the time of the last complete snapshot in seconds since 1970, at first of the start.
    pub fn last_save(&self) -> u64 {
        self.state().last_save
    }

    /// Returns the state for INFO, given the number of changes since the start.
    pub fn facts(&self, changes: u64) -> SavingFacts {
        let state = self.state();
        let current = state.progress.as_ref().map(|p| p.started.elapsed());
        SavingFacts {
            changes: changes.wrapping_sub(state.saved_changes),
            is_in_progress: state.is_busy(),
            last_save: state.last_save,
            has_failed: self.has_failed.load(Relaxed),
            last_took: state.last_took,
            current,
            saves: state.saves,
            last_peak_bytes: state.last_peak_bytes,
            queued_bytes: self.queue.bytes(),
            queued_peak_bytes: match current {
                Some(_) => self.queue.peak_bytes(),
                None => 0,
            },
        }
    }
}

/// State of snapshots for INFO.
#[derive(Clone, Copy, Debug)]
pub struct SavingFacts {
    /// Number of changes since the last complete snapshot began.
    pub changes: u64,
    /// Whether a snapshot is in progress.
    pub is_in_progress: bool,
    /// Time of the last complete snapshot in seconds since 1970, at first of the start.
    pub last_save: u64,
    /// Whether the last snapshot failed.
    pub has_failed: bool,
    /// Duration of the last snapshot.
    pub last_took: Option<Duration>,
    /// Time since the snapshot in progress began.
    pub current: Option<Duration>,
    /// Number of complete snapshots.
    pub saves: u64,
    /// Highest number of bytes of entries that were queued in the last snapshot.
    pub last_peak_bytes: usize,
    /// Number of bytes of entries that are queued.
    pub queued_bytes: usize,
    /// Highest number of bytes of entries that were queued in the snapshot in progress.
    pub queued_peak_bytes: usize,
}

#[cfg(test)]
mod tests;
