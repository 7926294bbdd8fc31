//! Output to a replica: its snapshot, then the feed.

use super::{Connection, Next, Scratch};
use crate::replication::primary;
use durability::replication::{Phase, Replication};
use session::feed::{Feed, Taken};
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Number of bytes of a snapshot read at a time.
const PIECE_BYTES: usize = 64 << 10;
/// Maximum number of pieces that are sent before other connections are served.
const PIECES_PER_TURN: usize = 16;

/// What a replica receives.
#[derive(Clone, Copy, Debug)]
pub(super) enum Feeding {
    /// The feed, or nothing until its snapshot is complete.
    Changes,
    /// A snapshot, of which this number of bytes was sent.
    Snapshot(u64),
}

impl Connection {
    /// Records that the worker has listed the connection among those of replicas, if it is one and
    /// was not listed before. Returns whether that is so.
    pub fn begin_feeding(&mut self) -> bool {
        let begins = self.session.is_replica && self.feeding.is_none();
        if begins {
            self.feeding = Some(Feeding::Changes);
        }
        begins
    }

    /// Sends what a replica has not received, as much as the socket accepts. Also returns whether
    /// there is more to send immediately.
    pub fn feed_replica(
        &mut self,
        feed: &Feed,
        replication: &Replication,
        scratch: &mut Scratch,
    ) -> (Next, bool) {
        let id = self.session.info.id;
        for _ in 0..PIECES_PER_TURN {
            if self.pending_bytes() > 0 || self.awaits_sync() {
                return (Next::Wait, false);
            }
            let Some(replica) = replication.replica(id) else {
                return (Next::Close, false);
            };
            let mut bytes = Vec::new();
            match &replica.phase {
                Phase::Waits | Phase::Writes(_) => return (Next::Wait, false),
                Phase::Receives(_, file, len) => match self.feeding {
                    None | Some(Feeding::Changes) => {
                        bytes = format!("${len}\r\n").into_bytes();
                        self.feeding = Some(Feeding::Snapshot(0));
                    }
                    Some(Feeding::Snapshot(sent)) if sent == *len && replica.is_snapshot_only => {
                        return (Next::Close, false);
                    }
                    Some(Feeding::Snapshot(sent)) if sent == *len => {
                        self.feeding = Some(Feeding::Changes);
                        primary::follow(replication, id);
                        continue;
                    }
                    Some(Feeding::Snapshot(sent)) => {
                        bytes = vec![0; PIECE_BYTES.min((len - sent) as usize)];
                        match file.read_at(&mut bytes, sent) {
                            Ok(read) if read > 0 => {
                                bytes.truncate(read);
                                self.feeding = Some(Feeding::Snapshot(sent + read as u64));
                            }
                            _ => return (Next::Close, false),
                        }
                    }
                },
                Phase::Follows => match feed.read(replica.reader, &mut bytes, Duration::ZERO) {
                    Taken::Bytes(_) => {}
                    Taken::Nothing => return (Next::Wait, false),
                    Taken::Ended => return (Next::Close, false),
                },
            }
            let sent = &replication.output_bytes;
            sent.fetch_add(bytes.len() as u64, Relaxed);
            self.append(&bytes);
            let next = self.flush(scratch);
            if next == Next::Close {
                return (next, false);
            }
        }
        (Next::Wait, self.pending_bytes() == 0)
    }
}
