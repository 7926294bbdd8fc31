//! Replies that are held until the append-only file is on the disk.

use super::{Connection, Next, Scratch};
use durability::aof::AppendOnly;
use session::feed::Feed;
use std::time::{Duration, Instant};

/// State of held replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SyncWait {
    /// Replies are not held.
    None,
    /// Replies are held until the append-only file is on the disk up to this position of the feed.
    Held(u64),
    /// The same, and the connection is in the worker's list of those whose replies are held.
    Listed(u64),
}

/// Maximum time that a connection that is about to be closed waits for the append-only file.
const SYNC_WAIT_MAX: Duration = Duration::from_secs(1);

/// Time between two looks at the append-only file in that wait.
const SYNC_POLL: Duration = Duration::from_micros(200);

impl Connection {
    /// Holds the replies until the append-only file is on the disk, if `appendfsync` says so and a
    /// change was added to the feed since `position`.
    pub(super) fn hold_replies(
        &mut self,
        aof: &AppendOnly,
        feed: &Feed,
        position: u64,
        next: Next,
    ) {
        let end = feed.end();
        if !aof.holds_replies() || end == position || end <= aof.synced() {
            return;
        }
        self.sync = SyncWait::Held(end);
        if next == Next::Close {
            // The connection cannot outlast this call.
            let start = Instant::now();
            while !self.is_synced(aof) && start.elapsed() < SYNC_WAIT_MAX {
                std::thread::sleep(SYNC_POLL);
            }
            if self.is_synced(aof) {
                self.sync = SyncWait::None;
            }
        }
    }

    /// Whether the replies are held for the append-only file.
    pub fn awaits_sync(&self) -> bool {
        self.sync != SyncWait::None
    }

    /// Records that the worker has listed the connection, if its replies are held and it has not
    /// been listed for this before. Returns whether that is so.
    pub fn begin_sync(&mut self) -> bool {
        match self.sync {
            SyncWait::Held(at) => self.sync = SyncWait::Listed(at),
            SyncWait::None | SyncWait::Listed(_) => return false,
        }
        true
    }

    /// Whether replies need not be held any longer.
    pub fn is_synced(&self, aof: &AppendOnly) -> bool {
        match self.sync {
            SyncWait::None => true,
            SyncWait::Held(at) | SyncWait::Listed(at) => aof.synced() >= at || !aof.holds_replies(),
        }
    }

    /// Sends the replies that were held.
    pub fn release_replies(&mut self, scratch: &mut Scratch) -> Next {
        self.sync = SyncWait::None;
        self.flush(scratch)
    }
}
