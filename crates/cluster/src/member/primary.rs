//! The primary: its fence, its members, and the writes that it may acknowledge.

use super::{Action, Ask, Member, Promise, Role, Start};
use crate::record::{NodeId, Purpose, Record, Revision, Transaction};
use crate::rule::Rule;
use crate::timing::{Instant, Timing};
use std::collections::{BTreeMap, BTreeSet};

/// State of a server that the record names as primary.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Primary {
    /// First instant at which this server may not serve.
    fence: Option<Instant>,
    /// Revision of the record that began this term. Beats from earlier terms are older.
    since: Revision,
    /// State at the process's start, until it begins a new term; `None` afterwards.
    pub(super) started: Option<Start>,
    /// Whether this server is handing over the shard.
    pub(super) yields: bool,
    /// Replicas whose entry into the in-sync set is in doubt.
    pub(super) doubtful: BTreeSet<NodeId>,
    /// Replicas that are about to enter, for which the acknowledged position waits as well.
    joining: BTreeSet<NodeId>,
    /// Record transaction that awaits its outcome.
    pub(super) awaited: Option<Transaction>,
    /// Instant of the last beat and of the last promise requests.
    last_beat: Option<Instant>,
    /// For each replica, the newest request that it answered with a promise.
    promises: BTreeMap<NodeId, Instant>,
    /// For each replica, the position up to which it has the writes of this term.
    received: BTreeMap<NodeId, u64>,
    /// Position of the last write.
    offset: u64,
    /// Position of the last write before this term. All writes up to it may have been acknowledged
    /// already.
    inherited: u64,
    /// Position up to which writes may be acknowledged.
    acknowledged: u64,
}

impl Primary {
    /// Creates the state for a term that begins after the write at `offset`.
    pub(super) fn new(offset: u64, since: Revision, started: Option<Start>) -> Primary {
        Primary {
            fence: None,
            since,
            started,
            yields: false,
            doubtful: BTreeSet::new(),
            joining: BTreeSet::new(),
            awaited: None,
            last_beat: None,
            promises: BTreeMap::new(),
            received: BTreeMap::new(),
            offset,
            inherited: offset,
            acknowledged: 0,
        }
    }

    /// Creates the state for a process that starts while the record names its server as primary.
    pub(super) fn after_start(start: Start, since: Revision) -> Primary {
        Primary::new(start.offset, since, Some(start))
    }

    /// Whether this server may serve at an instant.
    pub(super) fn serves(&self, now: Instant) -> bool {
        self.serves_until().is_some_and(|fence| now < fence)
    }

    /// Returns the fence, unless the shard is being handed over.
    pub(super) fn serves_until(&self) -> Option<Instant> {
        self.fence.filter(|_| !self.yields)
    }

    /// Forgets transactions in doubt: the record has a new revision, so that transactions guarded
    /// by the old one are void.
    pub(super) fn forget_doubts(&mut self) {
        self.doubtful.clear();
        self.yields = false;
    }

    /// Extends the fence, which never moves back.
    fn extend(&mut self, sent: Instant, timing: Timing) {
        self.fence = self.fence.max(Some(sent.after(timing.fence_ms())));
    }
}

impl Member {
    pub(super) fn primary(&self) -> Option<&Primary> {
        match &self.role {
            Role::Primary(primary) => Some(primary),
            Role::Replica(_) => None,
        }
    }

    fn primary_mut(&mut self) -> Option<&mut Primary> {
        match &mut self.role {
            Role::Primary(primary) => Some(primary),
            Role::Replica(_) => None,
        }
    }

    /// Returns the revision of the record that began this primary's term. Other records that were
    /// read before it do not count: the former primary may have changed them.
    pub fn since(&self) -> Option<Revision> {
        self.primary().map(|primary| primary.since)
    }

    /// Returns the replicas that may be promoted, to this primary's knowledge.
    fn members(&self) -> BTreeSet<NodeId> {
        self.each_member().collect()
    }

    /// Returns the members in no order, and some of them twice.
    fn each_member(&self) -> impl Iterator<Item = NodeId> + '_ {
        let primary = self.primary().filter(|_| self.has(Rule::DoubtfulEntry));
        let doubtful = primary.into_iter().flat_map(|primary| &primary.doubtful);
        self.record.value.in_sync.iter().chain(doubtful).copied()
    }

    /// Returns the beats, requests and transactions that are due.
    pub(super) fn tick_as_primary(&mut self, now: Instant) -> Vec<Action> {
        let (timing, members) = (self.timing, self.members());
        let resumes = self.has(Rule::ResumeFirst);
        let minds_term = self.has(Rule::OnlyCopy);
        let epoch = self.record.value.epoch;
        let (id, is_alone) = (self.id, members.is_empty());
        let record = &self.record;
        let Role::Primary(primary) = &mut self.role else {
            return Vec::new();
        };
        if let Some(start) = primary.started
            && resumes
        {
            // An in-sync replica has writes that this server may lack, and will campaign. So may
            // have the former primary, if this server has never written in its term.
            let has_only_copy = is_alone && (start.epoch >= epoch || !minds_term);
            let may_resume = has_only_copy || start.is_complete;
            return match may_resume && primary.awaited.is_none() {
                true => self.begin(Purpose::Resume, record.value.resumed(), now),
                false => Vec::new(),
            };
        }
        if primary.yields && primary.awaited.is_none() {
            return self.begin(Purpose::Resume, record.value.resumed(), now);
        }
        if is_alone && !primary.yields {
            primary.extend(now, timing);
        }
        let due = primary.last_beat.map(|last| last.after(timing.beat_ms()));
        if due.is_some_and(|due| now < due) {
            return Vec::new();
        }
        primary.last_beat = Some(now);
        let ask = |to| {
            Action::Ask(Ask {
                from: id,
                to,
                epoch,
                sent: now,
            })
        };
        let beat = self.transaction(Purpose::Beat, None, now);
        let asks = members.into_iter().map(ask);
        asks.chain([Action::Send(beat)]).collect()
    }

    /// Begins a new term after a start even if this server has lost writes. For use when all copies
    /// have restarted, or when the cluster is not synchronous. Does nothing unless a restarted
    /// primary is waiting.
    pub fn accept_loss(&mut self, now: Instant) -> Vec<Action> {
        let waits = |primary: &Primary| primary.started.is_some() && primary.awaited.is_none();
        match self.primary().is_some_and(waits) {
            true => self.begin(Purpose::Resume, self.record.value.resumed(), now),
            false => Vec::new(),
        }
    }

    /// Registers that the connection to a replica has ended. The replica's position is unknown
    /// until it reports again.
    pub fn disconnected(&mut self, replica: NodeId) {
        if let Some(primary) = self.primary_mut() {
            primary.received.remove(&replica);
            primary.joining.remove(&replica);
        }
    }

    /// Extends the fence after a transaction that wrote the beat in this term at a revision.
    pub(super) fn move_fence(
        &mut self,
        sent: &Transaction,
        revision: Revision,
        counted_from: Instant,
    ) {
        let (timing, is_newest) = (self.timing, self.record.revision == revision);
        let Some(primary) = self.primary_mut() else {
            return;
        };
        if sent.purpose == Purpose::Resume && is_newest {
            primary.started = None;
        }
        let is_own_term = sent.record_is >= primary.since || is_newest;
        if is_own_term && primary.started.is_none() {
            primary.extend(counted_from, timing);
        }
    }

    /// Takes a promise from a replica.
    pub fn promised(&mut self, promise: Promise) {
        let (members, timing) = (self.members(), self.timing);
        if promise.epoch != self.record.value.epoch {
            return;
        }
        let Some(primary) = self.primary_mut() else {
            return;
        };
        let asked = primary.promises.entry(promise.from).or_default();
        *asked = promise.asked.max(*asked);
        let oldest = members.iter().map(|member| primary.promises.get(member));
        if let Some(Some(oldest)) = oldest.min()
            && !primary.yields
            && primary.started.is_none()
        {
            primary.extend(*oldest, timing);
        }
    }

    /// Records the position of this server's last write.
    pub fn wrote(&mut self, offset: u64) {
        if let Some(primary) = self.primary_mut() {
            primary.offset = offset.max(primary.offset);
        }
        self.acknowledge();
    }

    /// Records the position up to which a replica has the writes of a term.
    pub fn received(&mut self, replica: NodeId, epoch: u64, offset: u64) {
        if epoch != self.record.value.epoch {
            return;
        }
        if let Some(primary) = self.primary_mut() {
            primary.received.insert(replica, offset);
        }
        self.acknowledge();
    }

    /// Advances the position up to which writes may be acknowledged. With `sync` it is called for
    /// each batch of commands, so that it allocates nothing.
    fn acknowledge(&mut self) {
        let has_members = self.has(Rule::AllMembers);
        let Some(primary) = self.primary() else {
            return;
        };
        let members = self.each_member().filter(|_| has_members);
        let members = members.chain(primary.joining.iter().copied());
        let received = members.map(|member| primary.received.get(&member).copied());
        let least = received.fold(primary.offset, |least, position| {
            least.min(position.unwrap_or(0))
        });
        if let Some(primary) = self.primary_mut() {
            primary.acknowledged = least.max(primary.acknowledged);
        }
    }

    /// Returns the position up to which all members have all writes. In a synchronous cluster, a
    /// reply may be sent only while [`Member::serves`] is true and every write that the reply
    /// includes or depends on is at or before this position. A reply that reveals a write that may
    /// still be lost is not linearizable.
    pub fn acknowledged(&self) -> u64 {
        self.primary().map_or(0, |primary| primary.acknowledged)
    }

    /// Whether a replica has all acknowledged writes. The primary reports this to the replica,
    /// which then calls [`Member::caught_up`].
    pub fn has_caught_up(&self, replica: NodeId) -> bool {
        self.primary().is_some_and(|primary| {
            let position = primary.received.get(&replica);
            let needed = primary.acknowledged.max(primary.inherited);
            position.is_some_and(|position| *position >= needed)
        })
    }

    /// Makes the acknowledged position wait for a replica that follows, or no longer. Otherwise a
    /// replica of a primary that writes without pause never has all acknowledged writes, which it
    /// needs to enter the in-sync set.
    pub fn join(&mut self, replica: NodeId, joins: bool) {
        if let Some(primary) = self.primary_mut() {
            match joins && primary.received.contains_key(&replica) {
                true => primary.joining.insert(replica),
                false => primary.joining.remove(&replica),
            };
        }
        self.acknowledge();
    }

    /// Adds a replica that has caught up to the in-sync set. It counts as a member from now on.
    pub fn enter(&mut self, replica: NodeId, now: Instant) -> Vec<Action> {
        let is_new = replica != self.id && !self.record.value.in_sync.contains(&replica);
        let is_ready = self.has_caught_up(replica) || !self.has(Rule::EnterCaughtUp);
        if !is_new || !is_ready || !self.may_write(now) {
            return Vec::new();
        }
        if let Some(primary) = self.primary_mut() {
            primary.doubtful.insert(replica);
            primary.joining.remove(&replica);
        }
        let record = self.record.value.with(replica);
        self.begin(Purpose::Enter(replica), record, now)
    }

    /// Whether the entry of a replica is in doubt.
    #[cfg(test)]
    pub(crate) fn is_in_doubt(&self, replica: NodeId) -> bool {
        self.primary()
            .is_some_and(|primary| primary.doubtful.contains(&replica))
    }

    /// Returns the members that do not have all writes up to a position.
    pub fn behind(&self, position: u64) -> Vec<NodeId> {
        let Some(primary) = self.primary() else {
            return Vec::new();
        };
        let mut members: Vec<NodeId> = self.members().into_iter().collect();
        let received = |member: &NodeId| primary.received.get(member).copied();
        members.retain(|member| received(member).is_none_or(|received| received < position));
        members
    }

    /// Removes a replica from the in-sync set, or voids its entry if that is in doubt. It remains a
    /// member until the store has applied the change.
    pub fn leave(&mut self, replica: NodeId, now: Instant) -> Vec<Action> {
        if !self.members().contains(&replica) || !self.may_write(now) {
            return Vec::new();
        }
        let record = self.record.value.without(replica);
        self.begin(Purpose::Leave(replica), record, now)
    }

    /// Hands the shard over to an in-sync replica that has all writes. This server stops serving,
    /// and serves again only if the store refuses the transaction or it can be voided.
    pub fn hand_over(&mut self, replica: NodeId, now: Instant) -> Vec<Action> {
        let Some(record) = self.record.value.handed_over(replica) else {
            return Vec::new();
        };
        let has_all = self.primary().is_some_and(|primary| {
            primary.doubtful.is_empty()
                && primary.received.get(&replica).copied() == Some(primary.offset)
        });
        if !has_all || !self.may_write(now) {
            return Vec::new();
        }
        let yields = self.has(Rule::YieldFirst);
        if let Some(primary) = self.primary_mut() {
            primary.yields = yields;
        }
        self.begin(Purpose::HandOver(replica), record, now)
    }

    /// Whether this primary may send a record transaction.
    fn may_write(&self, now: Instant) -> bool {
        self.serves(now) && self.primary().is_some_and(|p| p.awaited.is_none())
    }

    /// Sends a transaction that changes the record.
    fn begin(&mut self, purpose: Purpose, record: Record, now: Instant) -> Vec<Action> {
        let transaction = self.transaction(purpose, Some(record), now);
        if let Some(primary) = self.primary_mut() {
            primary.awaited = Some(transaction.clone());
        }
        vec![Action::Send(transaction)]
    }

    /// Returns a transaction guarded by the current record.
    pub(super) fn transaction(
        &self,
        purpose: Purpose,
        record: Option<Record>,
        now: Instant,
    ) -> Transaction {
        Transaction {
            from: self.id,
            sent: now,
            purpose,
            record_is: self.record.revision,
            beat_is: None,
            record,
        }
    }
}
