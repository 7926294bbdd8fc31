//! The replica: when it promises and when it campaigns.

use super::{Action, Ask, Member, Promise, Role};
use crate::record::{Purpose, Revision, Transaction};
use crate::rule::Rule;
use crate::timing::Instant;

/// State of a server that the record does not name as primary.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Replica {
    /// Whether this replica has all writes that it acknowledged to a primary.
    pub(super) is_complete: bool,
    /// Instant at which a promise not to campaign ends.
    pub(super) promised_until: Option<Instant>,
    /// Beat that guards a campaign in doubt, which may still apply.
    pub(super) doubt: Option<Revision>,
    /// Transaction that awaits its outcome.
    pub(super) awaited: Option<Transaction>,
}

impl Replica {
    pub(super) fn new(is_complete: bool) -> Replica {
        Replica {
            is_complete,
            promised_until: None,
            doubt: None,
            awaited: None,
        }
    }

    /// Creates the state for a starting process. A campaign by an earlier process may still apply
    /// if the beat is the one that guards it.
    pub(super) fn after_start(is_complete: bool, beat: Revision) -> Replica {
        Replica {
            doubt: Some(beat),
            ..Replica::new(is_complete)
        }
    }
}

impl Member {
    fn replica_mut(&mut self) -> Option<&mut Replica> {
        match &mut self.role {
            Role::Replica(replica) => Some(replica),
            Role::Primary(_) => None,
        }
    }

    /// Handles a primary's request. Returns the promise, or `None` if this replica must not
    /// promise.
    pub fn asked(&mut self, ask: Ask, now: Instant) -> Option<Promise> {
        let record = &self.record.value;
        if (record.primary, record.epoch) != (ask.from, ask.epoch) {
            return None;
        }
        let until = now.after(self.timing.silence_ms());
        let minds_doubt = self.has(Rule::NoPromiseInDoubt);
        let replica = self.replica_mut()?;
        if replica.doubt.is_some() && minds_doubt {
            return None;
        }
        replica.promised_until = replica.promised_until.max(Some(until));
        Some(Promise {
            from: ask.to,
            to: ask.from,
            epoch: ask.epoch,
            asked: ask.sent,
        })
    }

    /// Registers that the primary of a term reported that this replica has all acknowledged writes.
    pub fn caught_up(&mut self, epoch: u64) {
        if epoch == self.record.value.epoch
            && let Some(replica) = self.replica_mut()
        {
            replica.is_complete = true;
        }
    }

    /// Registers that this replica discards its keys, for example because it receives a new
    /// snapshot. It does not campaign until it has caught up again. Returns false if it must keep
    /// them: it is the primary now, or will be if a campaign in doubt applies.
    #[must_use]
    pub fn discard(&mut self) -> bool {
        let Some(replica) = self.replica_mut() else {
            return false;
        };
        let may_win = replica.is_complete && replica.doubt.is_some();
        replica.is_complete &= may_win;
        !may_win
    }

    /// Whether the primary has been silent for longer than its fence can last.
    fn is_overdue(&self, now: Instant) -> bool {
        let silence = match self.has(Rule::Silence) {
            true => self.timing.silence_ms(),
            false => self.timing.beat_ms(),
        };
        now >= self.beat_received.after(silence)
    }

    /// Returns the campaign that is due, or the transaction that voids the last one.
    ///
    /// The host should delay the call by more, the further this replica lags behind the best
    /// in-sync replica.
    pub(super) fn tick_as_replica(&mut self, now: Instant) -> Vec<Action> {
        let (minds_promise, minds_writes) = (self.has(Rule::KeepPromise), self.has(Rule::Complete));
        let (is_overdue, record) = (self.is_overdue(now), self.record.value.promoted(self.id));
        let Role::Replica(replica) = &self.role else {
            return Vec::new();
        };
        if replica.awaited.is_some() {
            return Vec::new();
        }
        if replica.doubt.is_some() {
            let beat_is = replica.doubt;
            let withdrawal = self.transaction(Purpose::Withdraw, None, now);
            return self.send(Transaction {
                beat_is,
                ..withdrawal
            });
        }
        let in_sync = &self.record.value.in_sync;
        if !replica.is_complete && is_overdue && minds_writes && in_sync.contains(&self.id) {
            // A restarted primary waits for its in-sync replicas, and begins a term if it is alone.
            let record = self.record.value.without(self.id);
            let leave = self.transaction(Purpose::Leave(self.id), Some(record), now);
            return self.send(leave);
        }
        let has_promised = replica.promised_until.is_some_and(|until| now < until);
        let may_not = has_promised && minds_promise || !replica.is_complete && minds_writes;
        let Some(record) = record.filter(|_| is_overdue && !may_not) else {
            return Vec::new();
        };
        let mut campaign = self.transaction(Purpose::Campaign, Some(record), now);
        let beat = self.beat;
        campaign.beat_is = self.has(Rule::BeatGuard).then_some(beat);
        if let Some(replica) = self.replica_mut() {
            replica.doubt = Some(beat);
        }
        self.send(campaign)
    }

    fn send(&mut self, transaction: Transaction) -> Vec<Action> {
        if let Some(replica) = self.replica_mut() {
            replica.awaited = Some(transaction.clone());
        }
        vec![Action::Send(transaction)]
    }
}
