//! Saving all keys to a snapshot file while the server runs, without a fork.
//!
//! ```text
//! command, save point, signal ─request─▶ first worker: begins the snapshot under all locks
//! worker of each shard: walks it in slices ─batches─▶ queue ─▶ thread: encodes, writes, renames
//! any write: first passes what it changes  ─batches─▶ queue      │
//! first worker: replies or stops the server         ◀────────────┘
//! ```
//!
//! The snapshot's instant is set while all shards are locked and no long command runs, because
//! values in use by such a command are not in the keyspace. `store/src/snapshot.rs` describes how
//! the keys of that instant are passed on while they change. Shards are walked one at a time, each
//! by the worker that expires its keys, in slices as long as expiry's. Workers only copy bytes; the
//! thread does the encoding, the checksum, the writing and the waiting for the disk.
//!
//! A large value is borrowed, encoded by the thread and returned. Until then, commands that name
//! its key wait as for a long command ([`session::long`]). The same happens before a command
//! changes a large value that has not been saved yet.
//!
//! Only the slab engine has snapshots.
//!
//! `phase.rs` is the state machine, which lists the states of a snapshot and the transitions
//! between them. This module wraps it in a lock. In the server, `work.rs` is the part that workers
//! do, and `writer.rs` is the thread.

pub mod encode;
pub mod phase;
pub mod queue;

use phase::{Ended, Machine, Passed, Phase, Request};
use queue::{Queue, Task};
use session::message::Subscriber;
use session::slice::Steps;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use wire::Protocol;

/// Pause before retrying to walk a shard that another worker has locked, or whose next value is in
/// use by a long command.
pub const RETRY_PAUSE: Duration = Duration::from_millis(1);
/// Pause after a failed snapshot before a save point begins another one.
pub const FAILED_PAUSE: Duration = Duration::from_secs(5);

/// Error for a save while another one is in progress.
pub const IN_PROGRESS: &str = "ERR Background save already in progress";
/// Error for write commands while snapshots fail.
pub const WRITES_REFUSED: &str = "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands that may modify the data set are disabled, because this instance is configured to report errors during writes if RDB snapshotting fails (stop-writes-on-bgsave-error option). Please check the Redis logs for details about the RDB error.";

/// Holder of writes while a stop awaits its snapshot; the server implements it.
pub trait HoldsWrites {
    /// Starts or stops holding commands that may write.
    fn hold_for_stop(&self, on: bool);
}

/// A client waiting for a snapshot to end.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// Address of the client.
    pub client: Subscriber,
    /// Protocol version of the client.
    pub protocol: Protocol,
}

/// Action when a snapshot has ended.
#[derive(Clone, Copy, Debug)]
pub enum Then {
    /// Nothing.
    Nothing,
    /// The client receives a reply.
    Reply(Waiting),
    /// The file is loaded. It replaces the current keys, or is added to them if this is false. The
    /// client receives a reply.
    Reload(Waiting, bool),
    /// The snapshot is sent to replicas.
    Replicas,
    /// The snapshot becomes the base of the append-only file.
    Rewritten,
    /// The server stops; if `is_forced`, even if the snapshot failed. Otherwise the client, if any,
    /// receives an error.
    Stop {
        /// Client that sent SHUTDOWN.
        client: Option<Waiting>,
        /// Whether the server stops even without a snapshot.
        is_forced: bool,
        /// Action of the process after the stop.
        goal: Goal,
    },
}

/// Action of the process after a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// The process ends.
    End,
    /// The process executes its program again.
    Restart {
        /// Number of the restart.
        number: u64,
        /// Whether the snapshot is a temporary file for the new process only, instead of the
        /// snapshot file.
        is_temporary: bool,
    },
}

/// Next part of the walk: a shard of the snapshot with this epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Number of the snapshot.
    pub epoch: u32,
    /// Shard being walked.
    pub shard: u32,
}

/// [`Position`] as one number, for event loops. The upper half is the epoch. The lower half is the
/// shard plus 1, [`POSITION_ENDING`], or 0 once all entries have been passed on.
fn position_bits(machine: &Machine) -> u64 {
    let low = match machine.phase() {
        Phase::Walking { shard } => shard + 1,
        _ if machine.has_unsaved() => POSITION_ENDING,
        _ => 0,
    };
    u64::from(machine.epoch()) << 32 | u64::from(low)
}

/// Lower half of a position while no shard is being walked although some entries have not been
/// passed on.
const POSITION_ENDING: u32 = u32::MAX;

/// State protected by one lock.
#[derive(Default)]
pub struct State {
    /// The state machine.
    pub machine: Machine,
    /// Start of the snapshot in progress.
    pub started: Option<Instant>,
    /// Number of changes when the snapshot in progress began.
    pub started_changes: u64,
    /// Whether the snapshot in progress was cancelled.
    pub is_cancelled: bool,
    /// Reason why the next snapshot should begin as soon as possible: after a crash before the next
    /// save point, old keys would return or all keys would be lost.
    pub due: Option<&'static str>,
    /// Former value of `due`, if the snapshot in progress began because of it.
    pub begun_due: Option<&'static str>,
    /// Number of changes included in the last complete snapshot.
    pub saved_changes: u64,
    /// Time of the last complete snapshot in seconds since 1970; initially the start time.
    pub last_save: u64,
    /// Time at which the last failed snapshot ended.
    pub failed_at: Option<Instant>,
    /// Duration of the last snapshot.
    pub last_took: Option<Duration>,
    /// Peak number of queued bytes during the last snapshot.
    pub last_peak_bytes: usize,
    /// Number of complete snapshots.
    pub saves: u64,
    /// Whether the log has named the servers that can load the file, which not all can.
    pub has_named_readers: bool,
}

/// State of snapshots.
pub struct Saving {
    /// Entries and files passed to the thread.
    pub queue: Arc<Queue>,
    /// State protected by the lock.
    state: Mutex<State>,
    /// Copy of [`Machine::has_request`].
    has_request: AtomicBool,
    /// Copy of the position; see `position_bits`.
    position: AtomicU64,
    /// Copy of [`Machine::stop_in_progress`]; 0 if there is none.
    stop_number: AtomicU64,
    /// Whether the last snapshot failed.
    pub has_failed: AtomicBool,
    /// Milliseconds on the monotonic clock until which the walk pauses.
    pub paused_until_ms: AtomicU64,
    /// Number of entries per slice of a walk.
    pub steps: Mutex<Steps>,
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
            position: AtomicU64::new(0),
            stop_number: AtomicU64::new(0),
            has_failed: AtomicBool::new(false),
            paused_until_ms: AtomicU64::new(0),
            steps: Mutex::default(),
        }
    }

    /// Locks the state.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("the lock is not poisoned")
    }

    /// Updates the copies of the machine's state after a change, under its lock. Writes are held
    /// from the moment a stop is requested, before its snapshot can begin.
    pub fn publish(&self, holds: &impl HoldsWrites, state: &State) {
        let machine = &state.machine;
        self.has_request.store(machine.has_request(), Relaxed);
        self.position.store(position_bits(machine), Relaxed);
        let stop = machine.stop_in_progress().unwrap_or(0);
        if self.stop_number.swap(stop, Relaxed) != stop {
            holds.hold_for_stop(stop != 0);
        }
    }

    /// Stores a snapshot request. Returns the action that follows the request it replaces.
    ///
    /// # Errors
    /// Another snapshot is in progress. The message is a reply.
    pub fn request(
        &self,
        holds: &impl HoldsWrites,
        cause: String,
        then: Then,
    ) -> Result<Option<Then>, &'static str> {
        let mut state = self.state();
        let (replaced, ended) = state.machine.request(Request { cause, then })?;
        self.publish(holds, &state);
        if let Some(epoch) = ended {
            state.is_cancelled = true;
            self.queue.abort(epoch);
        }
        Ok(replaced.map(|request| request.then))
    }

    /// Subtracts changes made by loading a file, which need not be saved.
    pub fn ignore_changes(&self, count: u64) {
        let mut state = self.state();
        state.saved_changes = state.saved_changes.wrapping_add(count);
        state.started_changes = state.started_changes.wrapping_add(count);
    }

    /// Cancels or aborts a snapshot.
    pub fn end_early(
        &self,
        holds: &impl HoldsWrites,
        event: impl FnOnce(&mut Machine) -> Ended,
    ) -> Ended {
        let mut state = self.state();
        let ended = event(&mut state.machine);
        self.publish(holds, &state);
        if let Ended::Running(epoch) = ended {
            state.is_cancelled = true;
            self.queue.abort(epoch);
        }
        ended
    }

    /// Moves on to the shard after a position. Returns false if the walk has ended.
    pub fn pass(&self, holds: &impl HoldsWrites, at: Position) -> bool {
        let mut state = self.state();
        let passed = state.machine.pass(at.epoch, at.shard);
        if passed == Passed::Stale {
            return false;
        }
        self.publish(holds, &state);
        if passed == Passed::All {
            self.queue.push(Task::End(at.epoch));
        }
        passed == Passed::Next
    }

    /// Whether a snapshot's file may be renamed. If true, the snapshot can no longer be cancelled.
    pub fn complete(&self, holds: &impl HoldsWrites, epoch: u32) -> bool {
        let mut state = self.state();
        let may = state.machine.complete(epoch);
        self.publish(holds, &state);
        may
    }

    /// Returns the position of the walk.
    #[inline]
    pub fn position(&self) -> Option<Position> {
        let bits = self.position.load(Relaxed);
        match bits as u32 {
            0 | POSITION_ENDING => None,
            next => Some(Position {
                epoch: (bits >> 32) as u32,
                shard: next - 1,
            }),
        }
    }

    /// Returns the number of the last snapshot begun. The caller has locked a shard with unsaved
    /// entries, which belong to that snapshot.
    pub fn epoch(&self) -> u32 {
        (self.position.load(Relaxed) >> 32) as u32
    }

    /// Whether a snapshot waits to begin.
    #[inline]
    pub fn has_request(&self) -> bool {
        self.has_request.load(Relaxed)
    }

    /// Whether a snapshot is in progress or requested.
    pub fn is_busy(&self) -> bool {
        self.state().machine.is_busy()
    }

    /// Whether a snapshot is in progress with entries not yet passed to the thread.
    #[inline]
    pub fn is_walking(&self) -> bool {
        self.position.load(Relaxed) as u32 != 0
    }

    /// Returns the number, counted from 1, of the stop that awaits its snapshot.
    pub fn stop_in_progress(&self) -> Option<u64> {
        let number = self.stop_number.load(Relaxed);
        (number != 0).then_some(number)
    }

    /// Returns the time of the last complete snapshot in seconds since 1970; initially the start
    /// time.
    pub fn last_save(&self) -> u64 {
        self.state().last_save
    }

    /// Returns the state for INFO, given the number of changes since the start.
    pub fn facts(&self, changes: u64) -> SavingFacts {
        let state = self.state();
        let current = state.started.map(|started| started.elapsed());
        SavingFacts {
            changes: changes.wrapping_sub(state.saved_changes),
            is_in_progress: state.machine.is_busy(),
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
    /// Number of changes not included in the last complete snapshot.
    pub changes: u64,
    /// Whether a snapshot is in progress.
    pub is_in_progress: bool,
    /// Time of the last complete snapshot in seconds since 1970; initially the start time.
    pub last_save: u64,
    /// Whether the last snapshot failed.
    pub has_failed: bool,
    /// Duration of the last snapshot.
    pub last_took: Option<Duration>,
    /// Time since the snapshot in progress began.
    pub current: Option<Duration>,
    /// Number of complete snapshots.
    pub saves: u64,
    /// Peak number of queued bytes of entries during the last snapshot.
    pub last_peak_bytes: usize,
    /// Number of queued bytes of entries.
    pub queued_bytes: usize,
    /// Peak number of queued bytes of entries during the snapshot in progress.
    pub queued_peak_bytes: usize,
}
