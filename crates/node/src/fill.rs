//! Content that is being fetched and that any number of clients read while it arrives.
//!
//! Up to a maximum size, and as long as the account of memory permits, all of it is kept, so that a
//! client can start reading at any time and the whole can be stored at the end. Other content is
//! streamed: only a window is kept, the fetch waits for the slowest reader, and a reader that makes
//! no progress is cut off. If the account is full, the window is a single chunk.

use crate::budget::{Budget, Charge};
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
    charge: Arc<Charge>,
}

struct State {
    /// Number of chunks dropped from the front.
    dropped: u64,
    chunks: VecDeque<Bytes>,
    /// Size of `chunks` in bytes.
    kept_bytes: usize,
    is_streamed: bool,
    /// Whether the content is streamed because the account of memory is full.
    is_refused: bool,
    end: Option<End>,
    /// Number of the next chunk for each reader.
    readers: HashMap<u64, u64>,
    reader_next: u64,
}

/// Error: all readers have left, or none has made progress for too long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Abandoned;

impl Fill {
    /// Creates an empty fill that keeps at most `kept_bytes_max` bytes within an account of memory,
    /// and cuts off readers that make no progress for `stall`.
    pub fn new(kept_bytes_max: usize, stall: Duration, budget: &Arc<Budget>) -> Arc<Self> {
        Arc::new(Fill {
            state: Mutex::new(State {
                dropped: 0,
                chunks: VecDeque::new(),
                kept_bytes: 0,
                is_streamed: false,
                is_refused: false,
                end: None,
                readers: HashMap::new(),
                reader_next: 0,
            }),
            changes: watch::Sender::new(0),
            room: Notify::new(),
            kept_bytes_max,
            stall,
            charge: Charge::new(budget),
        })
    }

    /// Returns the entry of the content in the account of memory.
    pub fn charge(&self) -> &Arc<Charge> {
        &self.charge
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }

    /// Waits until there is room for a chunk. If the content is streamed, that depends on its
    /// readers.
    ///
    /// # Errors
    /// Returns an error if the content is streamed and has no reader.
    pub async fn wait_for_room(&self) -> Result<(), Abandoned> {
        loop {
            let room = self.room.notified();
            {
                let mut state = self.state();
                if !state.is_streamed {
                    return Ok(());
                }
                if state.readers.is_empty() {
                    return Err(Abandoned);
                }
                state.drop_read();
                // Without a chunk, its readers would wait forever.
                let has_memory = state.kept_bytes == 0 || !self.charge.is_full();
                if has_memory && state.kept_bytes < WINDOW_BYTES {
                    return Ok(());
                }
            }
            if timeout(self.stall, room).await.is_err() {
                self.state().cut_slowest();
                self.wake();
            }
        }
    }

    /// Adds a chunk. From the first one on that is too much, the content is streamed.
    pub fn push(&self, chunk: Bytes) {
        if chunk.is_empty() {
            return;
        }
        let mut state = self.state();
        let is_kept = !state.is_streamed && state.kept_bytes + chunk.len() <= self.kept_bytes_max;
        let chunk = match is_kept {
            true => self.charge.admit(chunk),
            false => Err(chunk),
        };
        let chunk = chunk.unwrap_or_else(|chunk| {
            state.is_streamed = true;
            state.is_refused |= is_kept;
            self.charge.count(chunk)
        });
        state.append(chunk);
        drop(state);
        self.wake();
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
            state.append(chunk);
        }
        state.end = Some(end);
        drop(state);
        self.wake();
    }

    /// Returns true if not all content is kept.
    pub fn is_streamed(&self) -> bool {
        self.state().is_streamed
    }

    /// Returns true if not all content is kept because the account of memory was full.
    pub fn is_refused(&self) -> bool {
        self.state().is_refused
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
    fn append(&mut self, chunk: Bytes) {
        self.kept_bytes += chunk.len();
        self.chunks.push_back(chunk);
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};
    use tokio::time::Instant;

    const STALL: Duration = Duration::from_secs(60);
    /// Length of a chunk that is not copied.
    const CHUNK: usize = 32 << 10;

    fn chunk() -> Bytes {
        vec![7; CHUNK].into()
    }

    /// Adds a chunk if there is room for it at once.
    fn is_taken(fill: &Fill) -> bool {
        let room = pin!(fill.wait_for_room());
        let mut context = Context::from_waker(Waker::noop());
        let has_room = room.poll(&mut context) == Poll::Ready(Ok(()));
        if has_room {
            fill.push(chunk());
        }
        has_room
    }

    /// Regression: content was kept up to the largest object for each fetch, whatever the memory.
    #[tokio::test(start_paused = true)]
    async fn fetches_keep_no_more_than_the_account_and_a_chunk_each() {
        let budget = Budget::new(8 * CHUNK as u64);
        let fills: Vec<_> = (0..10)
            .map(|_| Fill::new(1 << 30, STALL, &budget))
            .collect();
        let mut readers: Vec<_> = fills.iter().filter_map(|fill| fill.reader()).collect();
        for _ in 0..6 {
            fills.iter().for_each(|fill| _ = is_taken(fill));
            let most = (4 + fills.len()) * CHUNK;
            assert!(budget.bytes() <= most as u64, "{}", budget.bytes());
        }
        let refused = fills.iter().filter(|fill| fill.is_refused()).count();
        assert_eq!(refused, fills.len());
        // A fetch whose reader reads continues; the others wait.
        for _ in 0..3 {
            assert_eq!(readers[9].try_next(), Some(Ok(chunk())));
            assert_eq!(readers[9].try_next(), None);
            assert!(is_taken(&fills[9]) && !is_taken(&fills[9]) && !is_taken(&fills[0]));
        }
        readers.clear();
        for fill in &fills {
            assert_eq!(fill.wait_for_room().await, Err(Abandoned));
        }
        drop(fills);
        assert_eq!(budget.bytes(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_takes_nothing_is_cut_off_when_memory_is_short() {
        let budget = Budget::new(2);
        let fill = Fill::new(1 << 30, STALL, &budget);
        let mut reader = fill.reader().expect("nothing was dropped");
        let start = Instant::now();
        assert!(is_taken(&fill));
        assert_eq!(fill.wait_for_room().await, Err(Abandoned));
        assert!(start.elapsed() >= STALL);
        assert_eq!(reader.try_next(), Some(Err(End::Failed)));
    }

    #[test]
    fn content_that_fits_is_kept_whole() {
        let budget = Budget::new(1 << 20);
        let fill = Fill::new(1 << 20, STALL, &budget);
        for _ in 0..3 {
            assert!(is_taken(&fill));
        }
        assert_eq!(fill.whole().map(|chunks| chunks.len()), Some(3));
        assert_eq!(budget.bytes(), 3 * CHUNK as u64);
    }
}
