//! Content that is being fetched and that any number of clients read while it arrives.
//!
//! Up to a maximum size, all of it is kept, so that a client can start reading at any time and the
//! whole can be stored at the end. Content that turns out to be longer is streamed: only a window
//! is kept, the fetch waits for the slowest reader, and a reader that makes no progress is cut off.

use bytes::Bytes;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

/// Number of bytes of streamed content that are kept.
const WINDOW_BYTES: usize = 256 << 10;

/// Outcome of the content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// All content has arrived.
    Complete,
    /// The content is incomplete: the origin failed, or the reader was cut off.
    Failed,
}

/// Content that is being fetched.
pub struct Fill {
    state: Mutex<State>,
    /// Number of changes so far, which readers wait on.
    changes: watch::Sender<u64>,
    /// Notified when a reader has made room.
    room: Notify,
    kept_bytes_max: usize,
    stall: Duration,
}

struct State {
    /// Number of chunks dropped from the front.
    dropped: u64,
    chunks: VecDeque<Bytes>,
    /// Size of `chunks` in bytes.
    kept_bytes: usize,
    is_streamed: bool,
    end: Option<End>,
    /// Number of the next chunk for each reader.
    readers: HashMap<u64, u64>,
    reader_next: u64,
}

/// Error: all readers have left, or none has made progress for too long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Abandoned;

impl Fill {
    /// Creates an empty fill that keeps at most `kept_bytes_max` bytes, and cuts off readers that
    /// make no progress for `stall`.
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

    /// Adds a chunk. If the content is streamed, waits for the readers.
    ///
    /// # Errors
    /// Returns an error if the content is streamed and has no reader.
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

    /// Returns all content that has arrived, if it was kept.
    pub fn whole(&self) -> Option<Vec<Bytes>> {
        let state = self.state();
        (!state.is_streamed).then(|| state.chunks.iter().cloned().collect())
    }

    /// Ends the content. `last` contains bytes that were withheld until the end. They are added
    /// without waiting for readers, and must fit into the bytes that are kept.
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

    /// Returns true if the content has become too long to be kept.
    pub fn is_streamed(&self) -> bool {
        self.state().is_streamed
    }

    fn wake(&self) {
        self.changes
            .send_modify(|changes| *changes = changes.wrapping_add(1));
    }

    /// Returns a reader that starts at the beginning; `None` if the beginning is no longer kept.
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
    /// Drops all chunks that every reader has read, if the content is streamed.
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
    /// Returns the next chunk if it has arrived, `Err` with the outcome at the end, and `None` if
    /// the reader must wait.
    pub fn try_next(&mut self) -> Option<Result<Bytes, End>> {
        // The change is marked as seen before the state is read, so that no change is missed.
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

    /// Waits until the state has changed since [`Reader::try_next`].
    pub async fn wait(mut self) -> Self {
        // This cannot fail, because the fill has the sender and the reader holds the fill.
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
