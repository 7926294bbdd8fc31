//! The feed: every change of a key as a command, in one order, for the append-only file and for
//! replicas.
//!
//! A command adds its effect while it holds the locks of its shards, so that the order of the feed
//! is an order in which the commands could have run one after the other. `effects.rs` decides
//! what is added; this module stores the bytes until all readers have taken them.
//!
//! ```text
//! commands, expiry, eviction ─append─▶ blocks of 64 KiB ─read─▶ thread of the append-only file
//!                                              │        ─read─▶ thread of each replica
//!                                              └ kept for replicas that connect again: the backlog
//! ```
//!
//! An append copies its bytes once, into the last block, under one mutex. There is one queue
//! instead of one per worker because the order matters, and copying a few hundred bytes takes less
//! time than any scheme that restores an order later.
//!
//! A position is the number of bytes since the history began; replication calls it the offset. What
//! all readers have taken is freed, except for the backlog. If the file is slower than the writes,
//! an append waits for it at [`FILE_LAG_MAX`]. A replica that is slower loses its connection.

mod blocks;
mod encode;

pub use encode::{Batch, named, put_command, put_select};

use blocks::Blocks;
use encode::put_received;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;
use store::Tick;
use wire::Args;

/// Maximum number of bytes that the append-only file has not taken. Beyond it, writes wait.
pub const FILE_LAG_MAX: u64 = 64 << 20;

/// Identifier of a reader.
pub type ReaderId = u64;

/// The reader for the append-only file.
pub const FILE: ReaderId = 0;

#[derive(Default)]
struct State {
    blocks: Blocks,
    /// Database selected by the last command of the feed.
    db: Option<u8>,
    readers: BTreeMap<ReaderId, u64>,
    next_reader: ReaderId,
    /// Number of bytes that are kept after all readers have taken them.
    backlog_bytes: u64,
    /// Whether a reader sleeps until bytes are added.
    has_sleeper: bool,
    /// Whether appends do not wait for the file, because it cannot be written.
    is_file_failing: bool,
    /// Whether bytes were dropped, because the file could not be written for too long.
    has_gap: bool,
    /// For the file: positions from which commands were executed at a different instant than those
    /// before. There is at most one per command that the file has not taken yet.
    instants: VecDeque<(u64, Tick)>,
    /// Instant of the last commands; `None` if the instant of the next ones must be recorded.
    executed_at: Option<Tick>,
    stops: bool,
}

impl State {
    fn free(&mut self) {
        let slowest = self.readers.values().min().copied().unwrap_or(u64::MAX);
        let kept = self.blocks.end().saturating_sub(self.backlog_bytes);
        self.blocks.free_before(slowest.min(kept));
    }

    fn forget_instants(&mut self) {
        self.instants.clear();
        self.executed_at = None;
    }

    fn file_lag(&self) -> u64 {
        let at = self.readers.get(&FILE);
        at.map_or(0, |at| self.blocks.end() - at)
    }
}

/// Result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Bytes were copied, from this position on.
    Bytes(u64),
    /// There are none.
    Nothing,
    /// The reader was removed, or the server stops.
    Ended,
}

/// The changes of keys as commands.
#[derive(Default)]
pub struct Feed {
    is_on: AtomicBool,
    state: Mutex<State>,
    has_bytes: Condvar,
    has_room: Condvar,
    end: AtomicU64,
    parts: AtomicU64,
}

impl Feed {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("the lock is not poisoned")
    }

    /// Whether changes are added.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Relaxed)
    }

    /// Begins or ends the feed. All shards are locked by the caller.
    pub fn set_on(&self, on: bool) {
        self.is_on.store(on, Relaxed);
    }

    /// Returns the position after the last byte.
    #[inline]
    pub fn end(&self) -> u64 {
        self.end.load(Relaxed)
    }

    /// Sets the position of the next byte. The bytes before it are dropped.
    pub fn restart_at(&self, position: u64) {
        let mut state = self.state();
        state.blocks = Blocks::at(position);
        state.readers.clear();
        state.forget_instants();
        state.db = None;
        self.end.store(position, Relaxed);
        self.has_bytes.notify_all();
    }

    /// Adds one command that changes a database. The shards of its keys are locked by the caller.
    pub fn append<'a>(&self, db: u8, args: impl ExactSizeIterator<Item = &'a [u8]> + Clone) {
        let mut state = self.room();
        put_command(selected(&mut state, db), args);
        self.added(&mut state);
    }

    /// Adds a received command that changes a database, under this name. The shards of its keys are
    /// locked by the caller.
    pub fn append_received(&self, db: u8, name: &'static str, args: Args<'_>) {
        let mut state = self.room();
        put_received(selected(&mut state, db), name, args);
        self.added(&mut state);
    }

    /// Adds the commands of a batch as one step for readers, and empties the batch.
    pub fn append_batch(&self, batch: &mut Batch) {
        if batch.is_empty() {
            return;
        }
        let mut state = self.room();
        let has_selected = state.db == batch.first_db();
        state.db = batch.last_db();
        batch.write(state.blocks.last(), has_selected);
        self.added(&mut state);
    }

    /// Adds a batch's commands, which are part of a single step for clients. Readers execute each
    /// part as a step.
    pub fn append_part(&self, batch: &mut Batch) {
        self.parts.fetch_add(1, Relaxed);
        self.append_batch(batch);
    }

    /// Returns the number of parts of steps that were added.
    pub fn parts(&self) -> u64 {
        self.parts.load(Relaxed)
    }

    /// Adds a batch's commands, each as its own step, and empties the batch.
    pub fn append_separately(&self, batch: &mut Batch) {
        batch.separate();
        self.append_batch(batch);
    }

    /// Adds bytes that are commands already. The next command selects its database again.
    pub fn append_raw(&self, bytes: &[u8]) {
        self.add_raw(self.room(), bytes);
    }

    /// Adds bytes of commands of a primary, which were executed at an instant. The file records it,
    /// because TTLs and automatic IDs may count from it.
    pub fn append_executed(&self, bytes: &[u8], executed_at: Tick) {
        let mut state = self.room();
        if state.readers.contains_key(&FILE) && state.executed_at != Some(executed_at) {
            let position = state.blocks.end();
            state.instants.push_back((position, executed_at));
            state.executed_at = Some(executed_at);
        }
        self.add_raw(state, bytes);
    }

    fn add_raw(&self, mut state: MutexGuard<'_, State>, bytes: &[u8]) {
        state.db = None;
        state.blocks.last().extend_from_slice(bytes);
        self.added(&mut state);
    }

    /// Waits until the file has taken enough.
    fn room(&self) -> MutexGuard<'_, State> {
        let mut state = self.state();
        while state.file_lag() >= FILE_LAG_MAX && !state.is_file_failing && !state.stops {
            state = self.has_room.wait(state).expect("the lock is not poisoned");
        }
        state
    }

    fn added(&self, state: &mut State) {
        if state.is_file_failing && state.file_lag() >= FILE_LAG_MAX {
            state.has_gap = true;
            let end = state.blocks.end();
            state.readers.insert(FILE, end);
            state.forget_instants();
        }
        self.end.store(state.blocks.end(), Relaxed);
        if state.blocks.has_new_block() {
            state.free();
        }
        if std::mem::take(&mut state.has_sleeper) {
            self.has_bytes.notify_all();
        }
    }

    /// Makes the next command select its database and record its instant, and returns the position
    /// that it will have, at which a reader may begin. The caller has locked all shards.
    pub fn cut(&self) -> u64 {
        let mut state = self.state();
        (state.db, state.executed_at) = (None, None);
        state.blocks.end()
    }

    /// Adds the reader of the file at the end.
    pub fn add_file(&self) {
        let mut state = self.state();
        let end = state.blocks.end();
        (state.has_gap, state.is_file_failing) = (false, false);
        state.forget_instants();
        state.readers.insert(FILE, end);
    }

    /// Adds a reader at a position. Returns `None` if the bytes there are no longer stored.
    pub fn add_reader(&self, position: u64) -> Option<ReaderId> {
        let mut state = self.state();
        let is_kept = (state.blocks.start()..=state.blocks.end()).contains(&position);
        if !is_kept {
            return None;
        }
        state.next_reader += 1;
        let id = state.next_reader;
        state.readers.insert(id, position);
        Some(id)
    }

    /// Removes a reader.
    pub fn remove_reader(&self, id: ReaderId) {
        let mut state = self.state();
        state.readers.remove(&id);
        state.free();
        if state.readers.is_empty() {
            state.blocks.take_spare();
        }
        self.has_bytes.notify_all();
        self.has_room.notify_all();
    }

    /// Appends some of the bytes that a reader has not taken, at most a block, to `into`. Waits up
    /// to `patience` for the first one.
    pub fn read(&self, id: ReaderId, into: &mut Vec<u8>, patience: Duration) -> Taken {
        let mut state = self.state();
        let at = match state.readers.get(&id) {
            Some(at) => *at,
            None => return Taken::Ended,
        };
        if at == state.blocks.end() && !patience.is_zero() && !state.stops {
            state.has_sleeper = true;
            let waited = self.has_bytes.wait_timeout(state, patience);
            state = waited.expect("the lock is not poisoned").0;
        }
        let Some(at) = state.readers.get(&id).copied() else {
            return Taken::Ended;
        };
        let bytes = state.blocks.from(at);
        if bytes.is_empty() {
            if state.stops {
                return Taken::Ended;
            }
            if !patience.is_zero() {
                // Nothing came for a while, so that blocks for reuse are not needed.
                let spare = state.blocks.take_spare();
                drop(state);
                drop(spare);
            }
            return Taken::Nothing;
        }
        into.extend_from_slice(bytes);
        let next = at + bytes.len() as u64;
        state.readers.insert(id, next);
        state.free();
        if id == FILE {
            self.has_room.notify_all();
        }
        Taken::Bytes(at)
    }

    /// Wakes the readers that wait for bytes.
    pub fn wake(&self) {
        self.has_bytes.notify_all();
    }

    /// Returns the number of bytes that a reader has not taken.
    pub fn lag(&self, id: ReaderId) -> u64 {
        let state = self.state();
        let at = state.readers.get(&id);
        at.map_or(0, |at| state.blocks.end() - at)
    }

    /// Returns the instant recorded for a position that the file has reached, and the next position
    /// with an instant. Removes the instants up to this position.
    pub fn take_instant(&self, position: u64) -> (Option<Tick>, Option<u64>) {
        let mut state = self.state();
        let mut here = None;
        while let Some((at, instant)) = state.instants.front().copied() {
            if at > position {
                return (here, Some(at));
            }
            here = (at == position).then_some(instant);
            state.instants.pop_front();
        }
        (here, None)
    }

    /// Records whether writing the file fails. Returns whether bytes were dropped meanwhile.
    pub fn set_file_failing(&self, is_failing: bool) -> bool {
        let mut state = self.state();
        state.is_file_failing = is_failing;
        self.has_room.notify_all();
        state.has_gap
    }

    /// Sets the number of bytes that are kept for replicas that connect again.
    pub fn set_backlog(&self, bytes: u64) {
        let mut state = self.state();
        state.backlog_bytes = bytes;
        state.free();
    }

    /// Returns the position of the first kept byte and the number of bytes in memory.
    pub fn kept(&self) -> (u64, u64) {
        let state = self.state();
        (state.blocks.start(), state.blocks.heap_bytes())
    }

    /// Ends all waits.
    pub fn stop(&self) {
        self.state().stops = true;
        self.has_bytes.notify_all();
        self.has_room.notify_all();
    }
}

/// Returns the block for a command that changes a database, which is selected.
#[inline]
fn selected(state: &mut State, db: u8) -> &mut Vec<u8> {
    let has_selected = state.db == Some(db);
    state.db = Some(db);
    let block = state.blocks.last();
    if !has_selected {
        put_select(block, db);
    }
    block
}

#[cfg(test)]
mod tests;
