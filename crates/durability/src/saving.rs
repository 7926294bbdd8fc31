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
//! key wait as for a long command ([`session::long`]). The same happens before a command changes a
//! large value that is not saved yet.
//!
//! Only the slab engine has snapshots.
//!
//! `phase.rs` is the state machine: it lists the states of a snapshot and what changes them. This
//! module holds it with its lock, `work.rs` is what workers do, `writer.rs` the thread.

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

/// Pause before the next attempt to walk a shard that another worker holds, or whose next value a
/// long command uses.
pub const RETRY_PAUSE: Duration = Duration::from_millis(1);
/// Time after a failed snapshot before a save point begins another one.
pub const FAILED_PAUSE: Duration = Duration::from_secs(5);

/// Error for a save while another one is in progress.
pub const IN_PROGRESS: &str = "ERR Background save already in progress";
/// Error for writes while snapshots fail.
pub const WRITES_REFUSED: &str = "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands that may modify the data set are disabled, because this instance is configured to report errors during writes if RDB snapshotting fails (stop-writes-on-bgsave-error option). Please check the Redis logs for details about the RDB error.";

/// What holds writes while a stop awaits its snapshot: the server.
pub trait HoldsWrites {
    /// Begins or ends holding commands that may write.
    fn hold_for_stop(&self, on: bool);
}

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
    /// The file is loaded in place of the present keys, or in addition to them if this is false.
    /// The client receives a reply.
    Reload(Waiting, bool),
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
        /// What the process does then.
        goal: Goal,
    },
}

/// What the process does after a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// It ends.
    End,
    /// It executes its program again.
    Restart {
        /// Number of the restart.
        number: u64,
        /// Whether the snapshot is a file that only the new process reads, not the snapshot file.
        is_temporary: bool,
    },
}

/// The part of the walk that is next: a shard of the snapshot with this epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Number of the snapshot.
    pub epoch: u32,
    /// Shard that is walked.
    pub shard: u32,
}

/// [`Position`] in one number, for event loops: the epoch in the upper half, in the lower half the
/// shard plus 1, [`POSITION_ENDING`], or 0 if all entries were passed.
fn position_bits(machine: &Machine) -> u64 {
    let low = match machine.phase() {
        Phase::Walking { shard } => shard + 1,
        _ if machine.has_unsaved() => POSITION_ENDING,
        _ => 0,
    };
    u64::from(machine.epoch()) << 32 | u64::from(low)
}

/// Lower half of a position while no shard is walked, although entries were not passed.
const POSITION_ENDING: u32 = u32::MAX;

/// What one lock protects.
#[derive(Default)]
pub struct State {
    /// The state machine.
    pub machine: Machine,
    /// Begin of the snapshot in progress.
    pub started: Option<Instant>,
    /// Number of changes when the snapshot in progress began.
    pub started_changes: u64,
    /// Whether the snapshot in progress was cancelled.
    pub is_cancelled: bool,
    /// Reason for which the next snapshot should begin as soon as possible, because a crash before
    /// the next save point would bring back old keys or lose all.
    pub due: Option<&'static str>,
    /// This reason of the snapshot in progress, which has begun since then.
    pub begun_due: Option<&'static str>,
    /// Number of changes that the last complete snapshot includes.
    pub saved_changes: u64,
    /// Time of the last complete snapshot in seconds since 1970, at first of the start.
    pub last_save: u64,
    /// End of the last failed snapshot.
    pub failed_at: Option<Instant>,
    /// Duration of the last snapshot.
    pub last_took: Option<Duration>,
    /// Highest number of queued bytes of the last snapshot.
    pub last_peak_bytes: usize,
    /// Number of complete snapshots.
    pub saves: u64,
    /// Whether the log has named the servers that load a file, because not all do.
    pub has_named_readers: bool,
}

/// State of snapshots.
pub struct Saving {
    /// Entries and files for the thread.
    pub queue: Arc<Queue>,
    /// What the lock protects.
    state: Mutex<State>,
    /// Copy of [`Machine::has_request`].
    has_request: AtomicBool,
    /// Copy of the position, see `position_bits`.
    position: AtomicU64,
    /// Copy of [`Machine::stop_in_progress`]; 0 if there is none.
    stop_number: AtomicU64,
    /// Whether the last snapshot failed.
    pub has_failed: AtomicBool,
    /// Milliseconds on the monotonic clock until which the walk pauses.
    pub paused_until_ms: AtomicU64,
    /// Entries per slice of a walk.
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

    /// Copies the state of the machine after a change, under its lock. Writes are held from the
    /// request of a stop on, before its snapshot can begin.
    pub fn publish(&self, holds: &impl HoldsWrites, state: &State) {
        let machine = &state.machine;
        self.has_request.store(machine.has_request(), Relaxed);
        self.position.store(position_bits(machine), Relaxed);
        let stop = machine.stop_in_progress().unwrap_or(0);
        if self.stop_number.swap(stop, Relaxed) != stop {
            holds.hold_for_stop(stop != 0);
        }
    }

    /// Stores the request for a snapshot. Returns what follows the request that it replaces.
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

    /// Declares that changes were made by loading a file: they need not be saved.
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

    /// Passes on to the shard that follows a position. Returns false if the walk has ended.
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

    /// Whether the file of a snapshot may be renamed. If so, the snapshot is no longer cancelled.
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

    /// Returns the number of the last snapshot that was begun. The caller has locked a shard that
    /// has unsaved entries, so that it is the snapshot of these entries.
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

    /// Whether a snapshot is in progress whose entries were not all passed to the thread.
    #[inline]
    pub fn is_walking(&self) -> bool {
        self.position.load(Relaxed) as u32 != 0
    }

    /// Returns the number of the stop that awaits its snapshot, counted from 1.
    pub fn stop_in_progress(&self) -> Option<u64> {
        let number = self.stop_number.load(Relaxed);
        (number != 0).then_some(number)
    }

    /// Returns the time of the last complete snapshot in seconds since 1970, at first of the start.
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
