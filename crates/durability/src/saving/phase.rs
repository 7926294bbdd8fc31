//! The state machine of snapshots: which one is requested, and the progress of the current one.
//!
//! One lock protects it; see [`super::Saving`]. Everything else is derived from it. The numbers
//! that event loops read without the lock are copies written under it, and messages between threads
//! carry the number of the snapshot (its *epoch*), so that late ones are recognized.
//!
//! ```text
//! phase       meaning                                              unsaved entries  file
//! Idle        no snapshot                                          none             none
//! Walking     shards 0 to n-1 were passed, shard n is being passed some             is written
//! Writing     all shards were passed                               none             is written
//! Completing  the file is being renamed                            none             is renamed
//! Ending      failed or cancelled, until the first worker has      perhaps          is removed
//!             received the thread's report
//! Stopped     the server stops; writes are held for good           –                –
//!
//! event     by                 from                        to
//! request   command, signal    no request; Idle unless it  a request; a stop replaces the request
//!                              is a stop                   of a snapshot, and Walking or Writing
//!                                                          become Ending
//! begin     first worker       Idle with a request         Walking, shard 0, the next epoch
//! pass      worker of a shard  Walking, same epoch, shard  Walking, next shard; after the last
//!                                                          one Writing
//! complete  thread             Writing, same epoch         Completing
//! cancel    BGSAVE CANCEL      a request; Walking or       no request; Ending
//!                              Writing; but no stop, base
//!                              or snapshot for replicas
//! abort     SHUTDOWN ABORT     the same of a stop          no request; Ending
//! fail      first worker       any but Idle, same epoch    Ending
//! finish    first worker       Completing (saved), Ending  Idle; Stopped after the snapshot of a
//!                                                          stop, or if the stop is forced
//! ```
//!
//! Each accepted request is returned exactly once, by the event that ends it, so that the caller
//! can take the action that follows. Only its own end or `abort` ends a stop.

use super::{IN_PROGRESS, Then};

/// A snapshot that is in progress or begins as soon as possible.
#[derive(Debug)]
pub struct Request {
    /// Reason, for the log.
    pub cause: String,
    /// Action when the snapshot ends.
    pub then: Then,
}

impl Request {
    fn is_stop(&self) -> bool {
        matches!(self.then, Then::Stop { .. })
    }

    /// Whether the snapshot replaces the snapshot file. A base of the append-only file and a
    /// snapshot for replicas do not.
    pub fn is_of_file(&self) -> bool {
        !matches!(self.then, Then::Rewritten | Then::Replicas)
    }
}

/// Progress of the snapshot; see the module text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// No snapshot is in progress.
    #[default]
    Idle,
    /// The entries of this shard are being passed to the thread.
    Walking {
        /// Number of the shard.
        shard: u32,
    },
    /// The thread is writing the last entries.
    Writing,
    /// The thread is renaming the file.
    Completing,
    /// The snapshot has failed or was cancelled.
    Ending {
        /// Whether the shards may still have entries that were not passed on.
        has_unsaved: bool,
    },
    /// The server stops.
    Stopped,
}

/// Result of moving on from a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    /// Another shard follows.
    Next,
    /// All shards are done, so the file can be completed.
    All,
    /// The position is not the current one. Nothing was changed.
    Stale,
}

/// Result of cancelling or aborting a snapshot.
#[derive(Debug)]
pub enum Ended {
    /// There was nothing to end.
    Nothing,
    /// The request was removed. The caller takes the action that follows it.
    Requested(Request),
    /// The snapshot in progress, which has this epoch, is ending.
    Running(u32),
    /// The snapshot belongs to a stop and cannot be cancelled.
    IsStop,
}

/// The state machine.
#[derive(Debug, Default)]
pub struct Machine {
    phase: Phase,
    /// Number of the last snapshot begun.
    epoch: u32,
    /// Number of shards.
    shards: u32,
    /// Snapshot waiting to begin.
    requested: Option<Request>,
    /// Snapshot in progress.
    running: Option<Request>,
    /// Number of stops requested so far.
    stops: u64,
}

impl Machine {
    /// Returns the phase.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Returns the number of the last snapshot begun.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Whether a snapshot waits to begin.
    pub fn has_request(&self) -> bool {
        self.requested.is_some()
    }

    /// Whether the requested snapshot is the base of an append-only file.
    pub fn has_requested_base(&self) -> bool {
        let request = self.requested.as_ref();
        request.is_some_and(|request| matches!(request.then, Then::Rewritten))
    }

    /// Whether a snapshot is in progress or requested.
    pub fn is_busy(&self) -> bool {
        self.phase != Phase::Idle || self.requested.is_some()
    }

    /// Whether the shards may still have entries that were not passed on.
    pub fn has_unsaved(&self) -> bool {
        matches!(
            self.phase,
            Phase::Walking { .. } | Phase::Ending { has_unsaved: true }
        )
    }

    /// Returns the number, counted from 1, of the stop that is requested or in progress. An aborted
    /// stop does not count.
    pub fn stop_in_progress(&self) -> Option<u64> {
        let is_ending = matches!(self.phase, Phase::Ending { .. });
        let running = self.running.as_ref().filter(|_| !is_ending);
        let mut requests = self.requested.iter().chain(running);
        let stops = self.phase == Phase::Stopped || requests.any(Request::is_stop);
        stops.then_some(self.stops)
    }

    /// Adds a request. Returns the request it replaces, which has failed, and the epoch of the
    /// snapshot that it ends.
    ///
    /// # Errors
    /// Another snapshot is in progress. The message is a reply.
    pub fn request(
        &mut self,
        request: Request,
    ) -> Result<(Option<Request>, Option<u32>), &'static str> {
        let is_stop = request.is_stop();
        if self.stop_in_progress().is_some() || !is_stop && self.is_busy() {
            return Err(IN_PROGRESS);
        }
        let replaced = self.requested.replace(request);
        if !is_stop {
            return Ok((replaced, None));
        }
        self.stops += 1;
        // The instant of the snapshot in progress may precede acknowledged writes.
        Ok((replaced, self.end_running()))
    }

    /// Begins the requested snapshot over this number of shards. Returns its epoch and its request.
    pub fn begin(&mut self, shards: usize) -> Option<(u32, &Request)> {
        if self.phase != Phase::Idle {
            return None;
        }
        self.running = Some(self.requested.take()?);
        self.shards = u32::try_from(shards).expect("there are fewer shards");
        assert!(shards > 0, "there is a shard");
        self.epoch = self.epoch.wrapping_add(1);
        self.phase = Phase::Walking { shard: 0 };
        Some((self.epoch, self.running.as_ref()?))
    }

    /// Moves on to the next shard if the given one is current.
    pub fn pass(&mut self, epoch: u32, shard: u32) -> Passed {
        if epoch != self.epoch || self.phase != (Phase::Walking { shard }) {
            return Passed::Stale;
        }
        if shard + 1 == self.shards {
            self.phase = Phase::Writing;
            return Passed::All;
        }
        self.phase = Phase::Walking { shard: shard + 1 };
        Passed::Next
    }

    /// Begins to rename the file. Returns false if some shards remain or the snapshot was
    /// cancelled.
    pub fn complete(&mut self, epoch: u32) -> bool {
        let may = epoch == self.epoch && self.phase == Phase::Writing;
        if may {
            self.phase = Phase::Completing;
        }
        may
    }

    /// Cancels a snapshot of the snapshot file, unless it belongs to a stop.
    pub fn cancel(&mut self) -> Ended {
        if self.stop_in_progress().is_some() {
            return Ended::IsStop;
        }
        let request = self.requested.as_ref().or(self.running.as_ref());
        if !request.is_some_and(Request::is_of_file) {
            return Ended::Nothing;
        }
        match self.requested.take() {
            Some(request) => Ended::Requested(request),
            None => self.end_running().map_or(Ended::Nothing, Ended::Running),
        }
    }

    /// Cancels a stop, whether it is forced or not.
    pub fn abort(&mut self) -> Ended {
        if self.stop_in_progress().is_none() {
            return Ended::Nothing;
        }
        let unforce = |request: &mut Request| {
            if let Then::Stop { is_forced, .. } = &mut request.then {
                *is_forced = false;
            }
        };
        if let Some(mut request) = self.requested.take() {
            unforce(&mut request);
            return Ended::Requested(request);
        }
        let Some(epoch) = self.end_running() else {
            return Ended::Nothing;
        };
        if let Some(request) = &mut self.running {
            unforce(request);
        }
        Ended::Running(epoch)
    }

    /// Ends the snapshot in progress because of an error. Returns false if it has already ended.
    pub fn fail(&mut self, epoch: u32) -> bool {
        if epoch != self.epoch || matches!(self.phase, Phase::Idle | Phase::Stopped) {
            return false;
        }
        self.phase = Phase::Ending {
            has_unsaved: self.has_unsaved(),
        };
        true
    }

    /// Ends the snapshot in progress. Returns its request and whether its file is complete, or
    /// `None` if it has already ended.
    pub fn finish(&mut self, epoch: u32) -> Option<(Request, bool)> {
        let is_saved = match self.phase {
            _ if epoch != self.epoch => return None,
            Phase::Completing => true,
            Phase::Ending { .. } => false,
            _ => return None,
        };
        let request = self.running.take()?;
        self.phase = match request.then {
            Then::Stop { is_forced, .. } if is_saved || is_forced => Phase::Stopped,
            _ => Phase::Idle,
        };
        Some((request, is_saved))
    }

    /// Ends the snapshot in progress, unless its file is being renamed. Returns its epoch.
    fn end_running(&mut self) -> Option<u32> {
        match self.phase {
            Phase::Walking { .. } | Phase::Writing => {
                self.fail(self.epoch);
                Some(self.epoch)
            }
            Phase::Ending { .. } => Some(self.epoch),
            Phase::Idle | Phase::Completing | Phase::Stopped => None,
        }
    }

    /// Asserts the invariants of all states.
    pub fn check(&self) {
        let has_none = matches!(self.phase, Phase::Idle | Phase::Stopped);
        assert_eq!(self.running.is_none(), has_none, "{self:?}");
        if let Phase::Walking { shard } = self.phase {
            assert!(shard < self.shards, "{self:?}");
        }
        let is_stop = |request: &Option<Request>| request.as_ref().is_some_and(Request::is_stop);
        if self.running.is_some() && self.requested.is_some() {
            assert!(is_stop(&self.requested), "only a stop waits: {self:?}");
        }
    }
}
