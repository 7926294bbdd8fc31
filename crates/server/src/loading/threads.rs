//! Storing by several threads. The thread that reads the file adds batches, each of one shard, and
//! the others store them. A shard's batches are stored in order and by one thread at a time,
//! because a file may contain a key twice.
//!
//! At most [`QUEUED_BYTES_MAX`] bytes and one batch are queued. Beyond them, the reading thread
//! stores batches, too, so that all threads are busy regardless of which part of the work is
//! larger.

use crate::loading::storing::{Failure, Storer};
use crate::state::Server;
use durability::loading::batch::Batch;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard};

/// Number of queued bytes at which the reading thread stops reading.
pub const QUEUED_BYTES_MAX: usize = 1 << 20;
/// Number of batches, or of their bytes, for which a sleeping thread is woken. Waking it takes as
/// long as storing a batch of short strings.
const WAKE_BATCHES: usize = 16;
const WAKE_BYTES: usize = QUEUED_BYTES_MAX / 4;
/// Maximum number of empty batches that are kept for their memory.
const SPARE_MAX: usize = 64;

/// Batches of one shard that are not stored.
#[derive(Default)]
struct Lane {
    queue: VecDeque<Batch>,
    /// Whether a thread stores a batch of the shard.
    is_busy: bool,
}

#[derive(Default)]
struct State {
    /// The lanes by the number of the shard.
    lanes: Vec<Lane>,
    /// Lanes with batches that no thread stores.
    ready: VecDeque<usize>,
    /// Number of queued batches, of their bytes, and of lanes that are being stored.
    queued: usize,
    queued_bytes: usize,
    busy: usize,
    /// Number of threads that wait for batches, and whether the reading thread waits.
    idle: usize,
    reader_waits: bool,
    spare: Vec<Batch>,
    /// Failure with the lowest offset.
    failure: Option<Failure>,
    /// Whether the threads end.
    is_over: bool,
    /// Whether a thread has panicked.
    is_broken: bool,
}

/// Batches waiting to be stored.
pub struct Queue<'s> {
    server: &'s Server,
    state: Mutex<State>,
    has_batches: Condvar,
    has_progress: Condvar,
}

/// A batch that a thread stores. It returns the lane when it is dropped, also by a panic.
struct Taken<'q, 's> {
    queue: &'q Queue<'s>,
    lane: usize,
    batch: Batch,
}

impl Drop for Taken<'_, '_> {
    fn drop(&mut self) {
        let mut batch = std::mem::take(&mut self.batch);
        let mut state = self.queue.state();
        state.busy -= 1;
        state.lanes[self.lane].is_busy = false;
        if !state.lanes[self.lane].queue.is_empty() {
            state.ready.push_back(self.lane);
        }
        if std::thread::panicking() {
            state.is_broken = true;
        }
        batch.clear();
        if state.spare.len() < SPARE_MAX {
            state.spare.push(batch);
        }
        if std::mem::take(&mut state.reader_waits) {
            self.queue.has_progress.notify_one();
        }
    }
}

impl<'s> Queue<'s> {
    /// Creates an empty queue.
    pub fn new(server: &'s Server) -> Self {
        let mut state = State::default();
        let shards = server.data.keyspace.shard_count();
        state.lanes.resize_with(shards, Lane::default);
        Queue {
            server,
            state: Mutex::new(state),
            has_batches: Condvar::new(),
            has_progress: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("the lock is not poisoned")
    }

    /// Stores batches until [`Queue::end`].
    pub fn work(&self) {
        let mut storer = Storer::new(self.server, self.server.clock.now());
        let mut state = self.state();
        loop {
            if let Some(taken) = self.take(&mut state) {
                drop(state);
                self.store(taken, &mut storer);
                state = self.state();
            } else if state.is_over {
                return;
            } else {
                state.idle += 1;
                let waited = self.has_batches.wait(state);
                state = waited.expect("the lock is not poisoned");
                state.idle -= 1;
            }
        }
    }

    /// Removes the first batch of a lane that no other thread stores.
    fn take<'q>(&'q self, state: &mut State) -> Option<Taken<'q, 's>> {
        let lane = state.ready.pop_front()?;
        let batch = state.lanes[lane].queue.pop_front();
        let batch = batch.expect("a ready lane has a batch");
        state.lanes[lane].is_busy = true;
        state.busy += 1;
        state.queued -= 1;
        state.queued_bytes -= batch.heap_bytes();
        Some(Taken {
            queue: self,
            lane,
            batch,
        })
    }

    fn store(&self, taken: Taken<'_, '_>, storer: &mut Storer<'_>) {
        if let Err(failure) = storer.store(&taken.batch) {
            let mut state = self.state();
            let first = state
                .failure
                .as_ref()
                .map_or(u64::MAX, |first| first.offset);
            if failure.offset < first {
                state.failure = Some(failure);
            }
        }
    }

    /// Adds a batch of a shard and returns an empty one. Stores others with `storer` while too many
    /// bytes are queued.
    pub fn add(&self, shard: usize, batch: Batch, storer: &mut Storer<'_>) -> Batch {
        let mut state = self.state();
        state.queued += 1;
        state.queued_bytes += batch.heap_bytes();
        let lane = &mut state.lanes[shard];
        lane.queue.push_back(batch);
        if !lane.is_busy && lane.queue.len() == 1 {
            state.ready.push_back(shard);
        }
        let is_much = state.queued >= WAKE_BATCHES || state.queued_bytes >= WAKE_BYTES;
        if state.idle > 0 && is_much {
            self.has_batches.notify_one();
        }
        let spare = state.spare.pop().unwrap_or_default();
        self.store_while(state, storer, |state| state.queued_bytes > QUEUED_BYTES_MAX);
        spare
    }

    /// Stores batches until none of a shard is left.
    pub fn finish_shard(&self, shard: usize, storer: &mut Storer<'_>) {
        self.store_while(self.state(), storer, |state| {
            state.lanes[shard].is_busy || !state.lanes[shard].queue.is_empty()
        });
    }

    /// Stores batches until none is left.
    pub fn finish(&self, storer: &mut Storer<'_>) {
        self.has_batches.notify_all();
        self.store_while(self.state(), storer, |state| {
            state.queued > 0 || state.busy > 0
        });
    }

    /// Stores batches with `storer`, or waits for those that other threads store, while a condition
    /// holds and no thread has panicked.
    fn store_while<'q>(
        &'q self,
        mut state: MutexGuard<'q, State>,
        storer: &mut Storer<'_>,
        condition: impl Fn(&State) -> bool,
    ) {
        while condition(&state) && !state.is_broken {
            if let Some(taken) = self.take(&mut state) {
                drop(state);
                self.store(taken, storer);
                state = self.state();
            } else {
                state.reader_waits = true;
                let waited = self.has_progress.wait(state);
                state = waited.expect("the lock is not poisoned");
            }
        }
    }

    /// Whether a value could not be loaded or a thread has panicked, so that no more is read.
    pub fn has_failed(&self) -> bool {
        let state = self.state();
        state.failure.is_some() || state.is_broken
    }

    /// Returns the first failure in the file.
    pub fn take_failure(&self) -> Option<Failure> {
        self.state().failure.take()
    }

    /// Ends the threads when nothing is queued.
    pub fn end(&self) {
        self.state().is_over = true;
        self.has_batches.notify_all();
    }
}

/// Ends the threads of a queue when it is dropped, so that a panic of the reading thread does not
/// leave them waiting.
pub struct EndOnDrop<'q, 's>(pub &'q Queue<'s>);

impl Drop for EndOnDrop<'_, '_> {
    fn drop(&mut self) {
        self.0.end();
    }
}
