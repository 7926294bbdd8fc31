//! Replies that are held: until the append-only file is on the disk (`appendfsync always`), and, in
//! a cluster with strength `sync`, until all members of the shard have the writes that the replies
//! report or depend on.

use super::dialect::Dialect;
use super::{Connection, Next, Scratch};
use crate::dispatch::Executor;
use crate::seat::Confirmed;
use crate::state::Server;
use durability::aof::AppendOnly;
use session::clients::flag as client_flag;
use session::clock::Moment;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use wire::{Output, Reply};

/// State of held replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SyncWait {
    /// Replies are not held.
    None,
    /// Replies are held.
    Held(Awaited),
    /// The same, and the connection is in the worker's list of those whose replies are held.
    Listed(Awaited),
}

/// What held replies wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Awaited {
    /// Position of the feed up to which writes must be safe.
    position: u64,
    /// Whether the append-only file must be on the disk up to it.
    needs_file: bool,
    /// Set if all members of the shard must have everything up to it.
    needs_members: Option<Members>,
}

/// A wait for the members of the shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Members {
    /// Time as primary to which the position belongs, see [`Confirmed`].
    tenure: u64,
    /// Moment at which the replies are given up.
    until: Moment,
    /// Whether the held output begins with a reply, so that an error can replace it.
    is_whole: bool,
}

/// What held replies are compared with.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Position up to which the append-only file is on the disk.
    synced: u64,
    /// What the members have; `None` if replies do not wait for them.
    confirmed: Option<Confirmed>,
    now: Moment,
}

/// What happens to held replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// They wait.
    Waits,
    /// They can be sent.
    Over,
    /// They can never be sent, because a failover may lose what they report.
    GivenUp,
}

/// Error in place of replies that are given up.
const UNCONFIRMED: &str = "UNCONFIRMED not every replica that may become the primary has confirmed the commands: they have been executed here, and a failover may undo them; read the keys before you repeat a command";

impl Progress {
    /// Returns the current progress.
    pub fn of(server: &Server) -> Progress {
        let (aof, seat) = (&server.persistence.aof, &server.cluster.seat);
        Progress {
            synced: if aof.holds_replies() {
                aof.synced()
            } else {
                u64::MAX
            },
            confirmed: seat.is_sync().then(|| seat.confirmed(server.feed.end())),
            now: server.clock.moment(),
        }
    }

    /// Whether replies wait for members.
    #[cfg(test)]
    pub(crate) fn is_sync(&self) -> bool {
        self.confirmed.is_some()
    }
}

impl Awaited {
    /// Returns what happens to the replies.
    pub(crate) fn verdict(&self, progress: &Progress) -> Verdict {
        if self.needs_file && progress.synced < self.position {
            return Verdict::Waits;
        }
        let (Some(members), Some(confirmed)) = (self.needs_members, progress.confirmed) else {
            return Verdict::Over;
        };
        if members.tenure != confirmed.tenure {
            return Verdict::GivenUp;
        }
        match confirmed.position >= self.position {
            true => Verdict::Over,
            false if !confirmed.is_primary || progress.now >= members.until => Verdict::GivenUp,
            false => Verdict::Waits,
        }
    }
}

/// Maximum time that a connection that is about to be closed waits for the append-only file.
const SYNC_WAIT_MAX: Duration = Duration::from_secs(1);

/// Time between two looks at the append-only file in that wait.
const SYNC_POLL: Duration = Duration::from_micros(200);

impl Connection {
    /// Holds the replies until the append-only file is on the disk, if `appendfsync` says so and a
    /// change was added to the feed since `position`, and until the members have what the replies
    /// depend on. `is_whole` says that the output began with a reply of this batch. Returns the
    /// event that the connection waits for.
    pub(super) fn hold_replies(
        &mut self,
        executor: &Executor<'_>,
        position: u64,
        (output, is_whole): (&Output, bool),
        next: Next,
    ) -> Next {
        let server = executor.server();
        let aof = &server.persistence.aof;
        let next = match server.cluster.seat.is_sync() && !output.is_empty() {
            true => self.hold_for_members(executor, is_whole, next),
            false => next,
        };
        let end = server.feed.end();
        if end != position && self.hold_for_file(aof, end) && next == Next::Close {
            self.wait_for_file(aof, end);
        }
        next
    }

    /// Holds the replies until the append-only file is on the disk up to `end`. Returns whether
    /// they must wait.
    fn hold_for_file(&mut self, aof: &AppendOnly, end: u64) -> bool {
        let must_wait = aof.holds_replies() && end > aof.synced();
        if must_wait {
            self.hold(Awaited {
                position: end,
                needs_file: true,
                needs_members: None,
            });
        }
        must_wait
    }

    /// Waits for the append-only file, at most [`SYNC_WAIT_MAX`], because the connection is closed
    /// after this call.
    fn wait_for_file(&mut self, aof: &AppendOnly, end: u64) {
        let start = Instant::now();
        let is_synced = || aof.synced() >= end || !aof.holds_replies();
        while !is_synced() && start.elapsed() < SYNC_WAIT_MAX {
            std::thread::sleep(SYNC_POLL);
        }
        if is_synced() {
            self.sync = SyncWait::None;
        }
    }

    /// Holds the replies until all members have what they report or show, unless the connection is
    /// a replica's.
    #[cold]
    fn hold_for_members(&mut self, executor: &Executor<'_>, is_whole: bool, next: Next) -> Next {
        // The bytes for a replica must not wait for its own acknowledgement.
        let is_of_replica = self.session.is_replica || self.feeding.is_some();
        if is_of_replica || !executor.has_used_keys() {
            return next;
        }
        let Some(awaited) = awaited(executor.server(), is_whole, executor.has_served()) else {
            return next;
        };
        self.hold(awaited);
        if next == Next::Close && !self.is_cut_off {
            // The connection is closed once the replies were sent.
            self.session.is_closing = true;
            return Next::Wait;
        }
        next
    }

    /// Holds the reply of a blocked or long command, which is about to be added to the output.
    pub(super) fn hold_answer(&mut self, server: &Server, reply: &[u8]) {
        let is_whole = self.pending_bytes() == 0;
        let is_error = reply.first() == Some(&b'-');
        // Reads from replicas do not wait.
        let flags = self.session.info.flags.load(Relaxed);
        let is_of_replica = server.replication.is_replica() && flags & client_flag::READONLY != 0;
        if server.cluster.seat.is_sync()
            && !is_error
            && let Some(awaited) = awaited(server, is_whole, !is_of_replica)
        {
            self.hold(awaited);
        }
        self.hold_for_file(&server.persistence.aof, server.feed.end());
    }

    /// Adds what the output waits for.
    fn hold(&mut self, more: Awaited) {
        let join = |held: Awaited| Awaited {
            position: held.position.max(more.position),
            needs_file: held.needs_file || more.needs_file,
            needs_members: held.needs_members.or(more.needs_members),
        };
        self.sync = match self.sync {
            SyncWait::None => SyncWait::Held(more),
            SyncWait::Held(held) => SyncWait::Held(join(held)),
            SyncWait::Listed(held) => SyncWait::Listed(join(held)),
        };
    }

    /// Whether the replies are held.
    pub fn awaits_sync(&self) -> bool {
        self.sync != SyncWait::None
    }

    /// Records that the worker has listed the connection, if its replies are held and it has not
    /// been listed for this before. Returns whether that is so.
    pub fn begin_sync(&mut self) -> bool {
        match self.sync {
            SyncWait::Held(held) => self.sync = SyncWait::Listed(held),
            SyncWait::None | SyncWait::Listed(_) => return false,
        }
        true
    }

    /// Returns what happens to the held replies.
    pub fn verdict(&self, progress: &Progress) -> Verdict {
        match self.sync {
            SyncWait::None => Verdict::Over,
            SyncWait::Held(held) | SyncWait::Listed(held) => held.verdict(progress),
        }
    }

    /// Sends the replies that were held.
    pub fn release_replies(&mut self, scratch: &mut Scratch) -> Next {
        self.sync = SyncWait::None;
        self.flush(scratch)
    }

    /// Sends an error in place of the replies that were held, and then closes the connection. If
    /// the client has received a part of an earlier reply, there is no place for an error.
    pub fn give_up_replies(&mut self, server: &Server, scratch: &mut Scratch) -> Next {
        let held = std::mem::replace(&mut self.sync, SyncWait::None);
        let is_whole = match held {
            SyncWait::Held(held) | SyncWait::Listed(held) => {
                held.needs_members.is_some_and(|members| members.is_whole)
            }
            SyncWait::None => false,
        };
        server.cluster.seat.unconfirmed.fetch_add(1, Relaxed);
        self.replies.output.clear();
        self.replies.sent = 0;
        if is_whole {
            match self.dialect {
                Dialect::Memcached { .. } => {
                    let line = format!("SERVER_ERROR {UNCONFIRMED}\r\n");
                    self.replies.output.extend_from_slice(line.as_bytes());
                }
                Dialect::Resp(_) => {
                    let protocol = self.session.protocol;
                    Reply::new(&mut self.replies.output, protocol).error(UNCONFIRMED);
                }
            }
        }
        self.session.is_closing = true;
        match self.flush(scratch) {
            Next::Again => Next::Again,
            _ => Next::Close,
        }
    }
}

/// Returns what replies wait for that report or depend on keys as they are now; `None` if all
/// members have these, or if the keys are those of a replica. `has_served` says that this node
/// executed a command as the primary, which it may no longer be.
pub(crate) fn awaited(server: &Server, is_whole: bool, has_served: bool) -> Option<Awaited> {
    let (seat, position) = (&server.cluster.seat, server.feed.end());
    let confirmed = seat.confirmed(position);
    if confirmed.position >= position || !confirmed.is_primary && !has_served {
        return None;
    }
    let patience_ms = seat.patience_ms.load(Relaxed);
    let until = Moment(server.clock.moment().0.saturating_add(patience_ms));
    Some(Awaited {
        position,
        needs_file: false,
        needs_members: Some(Members {
            tenure: confirmed.tenure,
            until,
            is_whole,
        }),
    })
}
