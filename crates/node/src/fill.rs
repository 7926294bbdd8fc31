//! Content that is being fetched, read by any number of clients while it arrives.
//!
//! Up to a maximum of bytes all of it is kept, so that a client can begin to read at any time and
//! the whole can be stored at the end. Content that turns out to be longer is streamed: only a
//! window is kept, the fetch waits for the slowest reader, and a reader that makes no progress is
//! cut off.

use bytes::Bytes;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

/// Bytes that are kept of content that is streamed.
const WINDOW_BYTES: usize = 256 << 10;

/// How the content ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// It is complete.
    Complete,
    /// It is not complete: the origin failed, or the reader was cut off.
    Failed,
}

/// Content that is being fetched.
pub struct Fill {
    state: Mutex<State>,
    /// Number of changes, which readers wait for.
    changes: watch::Sender<u64>,
    /// Notified when a reader has made room.
    room: Notify,
    kept_bytes_max: usize,
    stall: Duration,
}

struct State {
    /// Number of chunks that were dropped.
    dropped: u64,
    chunks: VecDeque<Bytes>,
    /// Bytes of `chunks`.
    kept_bytes: usize,
    is_streamed: bool,
    end: Option<End>,
    /// Number of the next chunk of each reader.
    readers: HashMap<u64, u64>,
    reader_next: u64,
}

/// All readers have left, or none has made progress for too long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Abandoned;

impl Fill {
    /// Makes an empty fill that keeps a maximum of bytes, and cuts off readers that make no
    /// progress for a time.
    pub fn new(kept_bytes_max: usize, stall: Duration) -> Arc<Self> {
        Arc::new(Fill {
            state: Mutex::new(State {
                dropped: 0,
                chunks: VecDeque::new(),
                kept_bytes: 0,
                is_streamed: false,
                end: None,
                readers: HashMap::new(),
                reader_next: 0,
            }),
            changes: watch::Sender::new(0),
            room: Notify::new(),
            kept_bytes_max,
            stall,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }

    /// Adds a chunk. Waits for readers if the content is streamed.
    ///
    /// # Errors
    /// The content is streamed and nobody reads it.
    pub async fn push(&self, chunk: Bytes) -> Result<(), Abandoned> {
        if chunk.is_empty() {
            return Ok(());
        }
        loop {
            let room = self.room.notified();
            {
                let mut state = self.state();
                if state.kept_bytes + chunk.len() > self.kept_bytes_max {
                    state.is_streamed = true;
                }
                if state.is_streamed && state.readers.is_empty() {
                    return Err(Abandoned);
                }
                state.drop_read();
                if !state.is_streamed || state.kept_bytes < WINDOW_BYTES {
                    state.kept_bytes += chunk.len();
                    state.chunks.push_back(chunk);
                    break;
                }
            }
            if timeout(self.stall, room).await.is_err() {
                self.state().cut_slowest();
                self.wake();
            }
        }
        self.wake();
        Ok(())
    }

    /// Returns all of the content so far, if it was kept.
    pub fn whole(&self) -> Option<Vec<Bytes>> {
        let state = self.state();
        (!state.is_streamed).then(|| state.chunks.iter().cloned().collect())
    }

    /// Ends the content. `last` are bytes that were kept back until the end. They are added without
    /// a wait for readers, so that they must fit into the bytes that are kept.
    pub fn end(&self, last: Option<Bytes>, end: End) {
        let mut state = self.state();
        if let Some(chunk) = last.filter(|chunk| !chunk.is_empty()) {
            state.kept_bytes += chunk.len();
            state.chunks.push_back(chunk);
        }
        state.end = Some(end);
        drop(state);
        self.wake();
    }

    /// Whether the content has become too long to be kept.
    pub fn is_streamed(&self) -> bool {
        self.state().is_streamed
    }

    fn wake(&self) {
        self.changes
            .send_modify(|changes| *changes = changes.wrapping_add(1));
    }

    /// Returns a reader at the beginning; `None` if the beginning is no longer kept.
    pub fn reader(self: &Arc<Self>) -> Option<Reader> {
        let mut state = self.state();
        if state.dropped > 0 {
            return None;
        }
        let number = state.reader_next;
        state.reader_next += 1;
        state.readers.insert(number, 0);
        drop(state);
        Some(Reader {
            fill: self.clone(),
            changes: self.changes.subscribe(),
            number,
        })
    }
}

impl State {
    /// Drops what all readers have read, if the content is streamed.
    fn drop_read(&mut self) {
        if !self.is_streamed {
            return;
        }
        let end = self.dropped + self.chunks.len() as u64;
        let slowest = self.readers.values().copied().min().unwrap_or(end);
        while self.dropped < slowest {
            let Some(chunk) = self.chunks.pop_front() else {
                break;
            };
            self.kept_bytes -= chunk.len();
            self.dropped += 1;
        }
    }

    fn cut_slowest(&mut self) {
        let slowest = self.readers.iter().min_by_key(|(_, next)| **next);
        if let Some(number) = slowest.map(|(number, _)| *number) {
            self.readers.remove(&number);
        }
    }
}

/// A reader of a [`Fill`].
pub struct Reader {
    fill: Arc<Fill>,
    changes: watch::Receiver<u64>,
    number: u64,
}

impl Reader {
    /// Returns the next chunk if it has arrived, `Err` with the end if there is none, and `None`
    /// if the reader has to wait.
    pub fn try_next(&mut self) -> Option<Result<Bytes, End>> {
        // Before the look at the state, so that no change is missed.
        self.changes.borrow_and_update();
        let mut state = self.fill.state();
        let Some(&next) = state.readers.get(&self.number) else {
            return Some(Err(End::Failed));
        };
        let place = usize::try_from(next - state.dropped).unwrap_or(usize::MAX);
        if let Some(chunk) = state.chunks.get(place).cloned() {
            state.readers.insert(self.number, next + 1);
            let is_streamed = state.is_streamed;
            drop(state);
            if is_streamed {
                self.fill.room.notify_one();
            }
            return Some(Ok(chunk));
        }
        state.end.map(Err)
    }

    /// Waits until something has changed since [`Reader::try_next`].
    pub async fn wait(mut self) -> Self {
        // The sender is in the fill, which the reader holds.
        let _ = self.changes.changed().await;
        self
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.fill.state().readers.remove(&self.number);
        self.fill.room.notify_one();
    }
}
