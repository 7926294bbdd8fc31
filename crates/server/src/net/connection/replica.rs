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

impl Connection {
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
            if self.pending_bytes() > 0 || self.sync_at.is_some() {
                return (Next::Wait, false);
            }
            let Some(replica) = replication.replica(id) else {
                return (Next::Close, false);
            };
            let mut bytes = Vec::new();
            match &replica.phase {
                Phase::Waits | Phase::Writes(_) => return (Next::Wait, false),
                Phase::Receives(_, file, len) => match self.snapshot_sent {
                    None => {
                        bytes = format!("${len}\r\n").into_bytes();
                        self.snapshot_sent = Some(0);
                    }
                    Some(sent) if sent == *len && replica.is_snapshot_only => {
                        return (Next::Close, false);
                    }
                    Some(sent) if sent == *len => {
                        self.snapshot_sent = None;
                        primary::follow(replication, id);
                        continue;
                    }
                    Some(sent) => {
                        bytes = vec![0; PIECE_BYTES.min((len - sent) as usize)];
                        match file.read_at(&mut bytes, sent) {
                            Ok(read) if read > 0 => {
                                bytes.truncate(read);
                                self.snapshot_sent = Some(sent + read as u64);
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
