//! The queue between the workers, which pass on a snapshot's entries, and the thread that writes
//! them.
//!
//! The walk pauses while the queue holds `PAUSE_BYTES`. An entry that a write passes on before
//! changing it cannot wait for the walk: beyond [`BYTES_MAX`], the writing worker waits until the
//! thread has taken entries. Memory is therefore bounded, and no burst of writes makes a snapshot
//! fail. In exchange, a disk slower than the changes delays them. Each entry waits at most once per
//! snapshot, and the page cache usually absorbs the thread's writes at once. A wait of
//! `STALL_PAUSE` is logged, because the shard stays locked meanwhile and a disk that hangs blocks
//! it.
//!
//! Entries and tasks carry the number of their snapshot. The queue accepts entries of one snapshot
//! only, until that snapshot fails or is cancelled; all others are dropped.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;
use store::{Batch, Loan, SnapshotSink, Tick};

/// Number of queued bytes at which the walk pauses.
const PAUSE_BYTES: usize = 4 << 20;
/// Maximum number of empty batches kept, with about as much memory as `PAUSE_BYTES`.
const SPARE_MAX: usize = 64;
/// Maximum number of queued bytes, not counting one batch per waiting worker.
pub const BYTES_MAX: usize = 16 << 20;

/// Interval at which a worker that waits for the thread logs the wait.
const STALL_PAUSE: Duration = Duration::from_secs(5);

/// Location of a snapshot file, and its contents other than the keys.
#[derive(Debug)]
pub struct Plan {
    /// Number of the snapshot.
    pub epoch: u32,
    /// Folder of the file.
    pub folder: PathBuf,
    /// Name of the file.
    pub name: String,
    /// Whether only the next process reads the file. Such a file is not renamed or synced to disk.
    pub is_temporary: bool,
    /// Whether to remove the snapshot of the restart that started this process when the file is
    /// complete, because the next start loads this one.
    pub ends_restart: bool,
    /// Instant of the snapshot.
    pub now: Tick,
    /// Whether the file has a checksum.
    pub is_checked: bool,
    /// Whether hashes with field deadlines are written in Valkey's format.
    pub is_valkey: bool,
    /// Whether the file contains the keys.
    pub has_keys: bool,
    /// Names and values of additional fields.
    pub fields: Vec<(&'static str, String)>,
    /// Code of the function libraries.
    pub libraries: Vec<Vec<u8>>,
}

/// Work for the thread that writes snapshots.
pub enum Task {
    /// Begin a file.
    Begin(Box<Plan>),
    /// Write entries of the snapshot with this number.
    Write(u32, Batch),
    /// Write an entry with a borrowed value, which the worker with this index takes back.
    WriteLoan(u32, Box<Loan>, usize),
    /// Complete the file.
    End(u32),
    /// Remove the file, because the snapshot was cancelled.
    Abort(u32),
}

#[derive(Default)]
struct State {
    tasks: VecDeque<Task>,
    bytes: usize,
    /// Empty batches for reuse by the workers while a snapshot is in progress.
    spare: Vec<Batch>,
    /// Peak number of queued bytes since the snapshot began.
    peak_bytes: usize,
    /// Snapshot whose entries are being accepted.
    open: Option<u32>,
    stops: bool,
}

/// Bounded queue of tasks for the thread.
#[derive(Default)]
pub struct Queue {
    state: Mutex<State>,
    has_task: Condvar,
    has_room: Condvar,
}

/// The queue as the destination of one snapshot's entries.
pub struct Sink {
    /// The queue.
    pub queue: Arc<Queue>,
    /// Number of the snapshot.
    pub epoch: u32,
}

impl SnapshotSink for Sink {
    fn put(&self, batch: Batch) -> Batch {
        self.queue.put(self.epoch, batch)
    }
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("the lock is not poisoned")
    }

    fn put(&self, epoch: u32, batch: Batch) -> Batch {
        let mut state = self.state();
        while state.bytes >= BYTES_MAX && state.open == Some(epoch) {
            let waited = self.has_room.wait_timeout(state, STALL_PAUSE);
            let (locked, timeout) = waited.expect("the lock is not poisoned");
            state = locked;
            if timeout.timed_out() {
                log::warn!(
                    "a write waits for the snapshot: its disk has taken nothing for {} s",
                    STALL_PAUSE.as_secs()
                );
            }
        }
        if state.open != Some(epoch) {
            return Batch::default();
        }
        state.bytes += batch.bytes();
        state.peak_bytes = state.peak_bytes.max(state.bytes);
        state.tasks.push_back(Task::Write(epoch, batch));
        let spare = state.spare.pop();
        drop(state);
        self.has_task.notify_one();
        spare.unwrap_or_else(Batch::with_memory)
    }

    /// Takes back a batch whose entries were written, so that a worker can reuse its memory.
    pub fn reuse(&self, batch: Batch) {
        let mut state = self.state();
        if state.open.is_some()
            && state.spare.len() < SPARE_MAX
            && let Some(batch) = batch.reused()
        {
            state.spare.push(batch);
        }
    }

    /// Adds the first task of a snapshot, and accepts its entries from now on.
    pub fn begin(&self, plan: Plan) {
        let mut state = self.state();
        state.open = Some(plan.epoch).filter(|_| !state.stops);
        state.peak_bytes = 0;
        state.tasks.push_back(Task::Begin(Box::new(plan)));
        self.has_task.notify_one();
    }

    /// Adds a task that has no entries from workers.
    pub fn push(&self, task: Task) {
        self.state().tasks.push_back(task);
        self.has_task.notify_one();
    }

    /// Drops a snapshot's queued and future entries.
    pub fn close(&self, epoch: u32) {
        self.state().close(Some(epoch));
        self.has_room.notify_all();
    }

    /// Ends a cancelled snapshot.
    pub fn abort(&self, epoch: u32) {
        self.close(epoch);
        self.push(Task::Abort(epoch));
    }

    /// Whether a snapshot's entries are accepted.
    pub fn accepts(&self, epoch: u32) -> bool {
        self.state().open == Some(epoch)
    }

    /// Whether the walk should pause.
    pub fn is_filled(&self) -> bool {
        self.bytes() >= PAUSE_BYTES
    }

    /// Returns the number of queued bytes.
    pub fn bytes(&self) -> usize {
        self.state().bytes
    }

    /// Returns the peak number of queued bytes during the snapshot.
    pub fn peak_bytes(&self) -> usize {
        self.state().peak_bytes
    }

    /// Returns the next task, if any, and whether the walk may continue after a pause.
    pub fn try_next(&self) -> Option<(Task, bool)> {
        let mut state = self.state();
        let task = state.tasks.pop_front()?;
        let was_filled = state.bytes >= PAUSE_BYTES;
        if let Task::Write(_, batch) = &task {
            state.bytes -= batch.bytes();
            self.has_room.notify_all();
        }
        Some((task, was_filled && state.bytes < PAUSE_BYTES))
    }

    /// Waits for the next task. Returns `None` when the server stops.
    pub fn next(&self) -> Option<(Task, bool)> {
        loop {
            if let Some(next) = self.try_next() {
                return Some(next);
            }
            let state = self.state();
            if state.stops {
                return None;
            }
            if state.tasks.is_empty() {
                drop(self.has_task.wait(state).expect("the lock is not poisoned"));
            }
        }
    }

    /// Ends the thread and all waits.
    pub fn stop(&self) {
        let mut state = self.state();
        let open = state.open;
        state.close(open);
        state.stops = true;
        drop(state);
        self.has_task.notify_all();
        self.has_room.notify_all();
    }
}

impl State {
    fn close(&mut self, epoch: Option<u32>) {
        if self.open == epoch {
            self.open = None;
            self.spare = Vec::new();
            self.tasks.retain(|task| !matches!(task, Task::Write(..)));
            self.bytes = 0;
        }
    }
}
