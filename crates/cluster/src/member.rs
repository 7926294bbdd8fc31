//! One server of a shard: its last view of the record and the beat, and its role.

mod primary;
mod replica;

use crate::record::{NodeId, Purpose, Record, Revision, Transaction, Versioned};
use crate::rule::Rule;
use crate::timing::{Instant, Timing};
use primary::Primary;
use replica::Replica;

/// State of a server when its process starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Start {
    /// Whether the server's keys include every write that it received, as after an orderly stop.
    pub is_complete: bool,
    /// Newest term in which the server wrote or received a write, or which it was about to begin
    /// after a start with the keys of the term before; 0 if there is none.
    pub epoch: u64,
    /// Position of the server's last write.
    pub offset: u64,
}

/// A primary's request to a replica not to campaign for some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ask {
    /// The primary.
    pub from: NodeId,
    /// The replica.
    pub to: NodeId,
    /// Term of the primary.
    pub epoch: u64,
    /// Send time, on the primary's clock.
    pub sent: Instant,
}

/// A replica's promise not to campaign for [`Timing::silence_ms`] after it received the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Promise {
    /// The replica.
    pub from: NodeId,
    /// The primary.
    pub to: NodeId,
    /// Term of the primary.
    pub epoch: u64,
    /// Send time of the request, on the primary's clock.
    pub asked: Instant,
}

/// Work for the host.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Send a transaction to the store, and pass its outcome to [`Member::applied`],
    /// [`Member::refused`] or [`Member::unanswered`].
    Send(Transaction),
    /// Send a request to a replica.
    Ask(Ask),
}

/// Role of a server in its shard, according to the newest record that it has read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Role {
    /// The record names this server as primary.
    Primary(Primary),
    /// The record names another server.
    Replica(Replica),
}

/// State machine of one server of a shard.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    pub(crate) id: NodeId,
    pub(crate) timing: Timing,
    /// Newest record that was read.
    pub(crate) record: Versioned<Record>,
    /// Newest beat that was read, and the instant of its arrival.
    pub(crate) beat: Revision,
    pub(crate) beat_received: Instant,
    pub(crate) role: Role,
    #[cfg(test)]
    without: Option<Rule>,
}

impl Member {
    /// Creates the state at the start of a process. The record and the beat must be read through
    /// the store's log (a linearizable read), because an old record could name this server.
    pub fn new(
        id: NodeId,
        timing: Timing,
        start: Start,
        record: Versioned<Record>,
        beat: Revision,
        now: Instant,
    ) -> Member {
        let role = match record.value.primary == id {
            true => Role::Primary(Primary::after_start(start, record.revision)),
            false => Role::Replica(Replica::after_start(start.is_complete, beat)),
        };
        Member {
            id,
            timing,
            record,
            beat,
            beat_received: now,
            role,
            #[cfg(test)]
            without: None,
        }
    }

    /// Whether a rule is in force; always true outside of tests.
    #[cfg(not(test))]
    pub(crate) fn has(&self, _rule: Rule) -> bool {
        true
    }

    /// Removes a rule.
    #[cfg(test)]
    pub(crate) fn set_without(&mut self, rule: Option<Rule>) {
        self.without = rule;
        let has_doubt = self.has(Rule::DoubtAfterStart);
        if let (Role::Replica(replica), false) = (&mut self.role, has_doubt) {
            replica.doubt = None;
        }
    }

    #[cfg(test)]
    pub(crate) fn has(&self, rule: Rule) -> bool {
        self.without != Some(rule)
    }

    /// Returns the number of this server.
    pub fn id(&self) -> NodeId {
        self.id
    }

    /// Newest record that was read.
    pub fn record(&self) -> &Versioned<Record> {
        &self.record
    }

    /// Whether the newest record names this server as primary.
    pub fn is_primary(&self) -> bool {
        matches!(self.role, Role::Primary(_))
    }

    /// Whether this server knows that it has all acknowledged writes. After a start it does not,
    /// until it has caught up with a primary or has begun a term.
    pub fn is_complete(&self) -> bool {
        match &self.role {
            Role::Primary(primary) => primary.started.is_none(),
            Role::Replica(replica) => replica.is_complete,
        }
    }

    /// Whether replicas may follow this server. After a restart, a primary's log may be shorter
    /// than it was earlier in the term, and replicas that followed it would drop acknowledged
    /// writes.
    pub fn leads(&self) -> bool {
        match &self.role {
            Role::Primary(primary) => primary.started.is_none() || !self.has(Rule::FollowBegun),
            Role::Replica(_) => false,
        }
    }

    /// Whether this server may execute commands and send replies at an instant. The host checks
    /// this before each batch, and again before it sends the replies to the batch.
    pub fn serves(&self, now: Instant) -> bool {
        match &self.role {
            Role::Primary(primary) => primary.serves(now),
            Role::Replica(_) => false,
        }
    }

    /// Returns the first instant at which this server may not serve, if nothing extends the fence
    /// until then; `None` if it may not serve now.
    pub fn serves_until(&self) -> Option<Instant> {
        match &self.role {
            Role::Primary(primary) => primary.serves_until(),
            Role::Replica(_) => None,
        }
    }

    /// Takes a record and a beat revision that were read from the store at one revision, and
    /// ignores each unless it is newer than the known one. `offset` is the position of this
    /// server's last write.
    pub fn read(&mut self, record: Versioned<Record>, beat: Revision, offset: u64, now: Instant) {
        self.take_record(record, offset);
        // A newer beat alone makes a campaign void only if the record is still the one before it.
        if let Role::Replica(replica) = &mut self.role {
            replica.doubt = replica.doubt.filter(|doubt| *doubt >= beat);
        }
        self.take_beat(beat, now);
    }

    fn take_record(&mut self, record: Versioned<Record>, offset: u64) {
        if record.revision <= self.record.revision {
            return;
        }
        let known_term = self.record.value.epoch;
        let is_same_term = record.value.epoch == known_term;
        let is_next_term = record.value.epoch == known_term + 1;
        let is_primary = record.value.primary == self.id;
        let minds_writes = self.has(Rule::Complete);
        match &mut self.role {
            // Other transactions on the former record are void.
            Role::Primary(primary) if is_primary => match is_same_term {
                true => primary.forget_doubts(),
                false => {
                    let mut started = primary.started;
                    // Only this server can have begun the next term, by a transaction in doubt. No
                    // other one wrote in it, and this process has not served in it.
                    if let Some(start) = &mut started
                        && is_next_term
                        && start.epoch >= known_term
                    {
                        start.epoch = record.value.epoch;
                    }
                    *primary = Primary::new(offset, record.revision, started);
                }
            },
            Role::Replica(replica) if !is_primary => {
                replica.doubt = None;
                if !is_same_term {
                    replica.promised_until = None;
                }
            }
            // It was handed the shard, or its campaign has applied, perhaps before it started.
            Role::Replica(replica) => {
                let is_complete = replica.is_complete;
                let start = Start {
                    is_complete,
                    epoch: self.record.value.epoch,
                    offset,
                };
                let started = (!is_complete && minds_writes).then_some(start);
                self.role = Role::Primary(Primary::new(offset, record.revision, started));
            }
            // A former primary has all writes that it acknowledged, unless it has started since.
            Role::Primary(primary) => {
                let is_complete = primary.started.is_none_or(|start| start.is_complete);
                self.role = Role::Replica(Replica::new(is_complete || !minds_writes));
            }
        }
        self.record = record;
    }

    fn take_beat(&mut self, beat: Revision, now: Instant) {
        if beat > self.beat {
            (self.beat, self.beat_received) = (beat, now);
        }
    }

    /// Returns the actions that are due.
    pub fn tick(&mut self, now: Instant) -> Vec<Action> {
        match self.role {
            Role::Primary(_) => self.tick_as_primary(now),
            Role::Replica(_) => self.tick_as_replica(now),
        }
    }

    /// Registers that the store applied a transaction of this process at a revision. `offset` is
    /// the position of this server's last write.
    pub fn applied(&mut self, sent: &Transaction, revision: Revision, offset: u64, now: Instant) {
        let is_new = revision > self.record.revision;
        if let (Some(record), true) = (&sent.record, is_new) {
            let value = record.clone();
            self.take_record(Versioned { value, revision }, offset);
        }
        let counted_from = match self.has(Rule::FenceFromSending) {
            true => sent.sent,
            false => now,
        };
        self.take_beat(revision, now);
        if let (Role::Replica(replica), Purpose::Withdraw) = (&mut self.role, sent.purpose) {
            replica.doubt = None;
        }
        self.move_fence(sent, revision, counted_from);
        self.settle(sent);
    }

    /// Registers that the store refused a transaction, because a key that guards it has another
    /// revision. The host should then read the record and the beat, which settles doubts about
    /// other transactions.
    pub fn refused(&mut self, sent: &Transaction) {
        // A withdrawal may be refused because the campaign has applied.
        if let (Role::Replica(replica), Purpose::Campaign) = (&mut self.role, sent.purpose) {
            replica.doubt = None;
        }
        self.settle(sent);
    }

    /// Registers that a transaction got no reply and will get none. It remains in doubt.
    pub fn unanswered(&mut self, sent: &Transaction) {
        self.settle(sent);
    }

    /// Clears the awaited transaction, so that another one may be sent.
    fn settle(&mut self, sent: &Transaction) {
        match &mut self.role {
            Role::Primary(primary) => {
                if primary.awaited.as_ref() == Some(sent) {
                    primary.awaited = None;
                }
            }
            Role::Replica(replica) => {
                if replica.awaited.as_ref() == Some(sent) {
                    replica.awaited = None;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_restarted_primary_serves_although_the_reply_to_its_new_term_is_lost() {
        // Regression: the term that it had begun without a reply was like one of another server,
        // so that it waited for a replica with more writes for ever.
        let timing = Timing::new(1_000, 50).expect("it covers the drift");
        let (id, epoch) = (NodeId(1), 4);
        let start = Start {
            is_complete: false,
            epoch,
            offset: 7,
        };
        let value = Record {
            epoch,
            primary: id,
            in_sync: BTreeSet::new(),
        };
        let record = |value: &Record, revision| Versioned {
            value: value.clone(),
            revision: Revision(revision),
        };
        let known = record(&value, 10);
        let mut member = Member::new(id, timing, start, known, Revision(9), Instant(0));
        let resume = |actions: Vec<Action>| match &actions[..] {
            [Action::Send(sent)] if sent.purpose == Purpose::Resume => sent.clone(),
            _ => panic!("expected the transaction that begins a term, found {actions:?}"),
        };
        let sent = resume(member.tick(Instant(1)));
        member.unanswered(&sent);
        member.read(
            record(&value.resumed(), 11),
            Revision(11),
            7,
            Instant(1_001),
        );
        assert!(!member.leads(), "the reply may be of an earlier process");
        let sent = resume(member.tick(Instant(1_002)));
        member.applied(&sent, Revision(12), 7, Instant(1_003));
        assert!(member.leads() && member.serves(Instant(1_003)));
        assert_eq!(member.record().value.epoch, epoch + 2);
    }

    #[test]
    fn a_restarted_primary_waits_if_another_server_may_have_written() {
        let timing = Timing::new(1_000, 50).expect("it covers the drift");
        let id = NodeId(1);
        for (term_of_keys, terms_later) in [(3, 1), (4, 2)] {
            let start = Start {
                is_complete: false,
                epoch: term_of_keys,
                offset: 7,
            };
            let record = |epoch, revision| Versioned {
                value: Record {
                    epoch,
                    primary: id,
                    in_sync: BTreeSet::new(),
                },
                revision: Revision(revision),
            };
            let mut member = Member::new(id, timing, start, record(4, 10), Revision(9), Instant(0));
            member.read(record(4 + terms_later, 11), Revision(11), 7, Instant(1));
            assert_eq!(member.tick(Instant(2)), Vec::new());
        }
    }
}
