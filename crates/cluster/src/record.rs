//! A shard's record and the transactions that change it.

use crate::timing::Instant;
use std::collections::BTreeSet;

/// Number of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// Number of a write in the store's log; later writes have higher numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

/// A value and the revision of its last write.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Versioned<T> {
    /// The value.
    pub value: T,
    /// Revision of the write that stored it.
    pub revision: Revision,
}

/// A shard's record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// Number of the primary's term. Each new primary has a higher one.
    pub epoch: u64,
    /// Server that may serve the shard while its fence lasts.
    pub primary: NodeId,
    /// Replicas that may be promoted, without the primary. In a synchronous cluster, each has all
    /// acknowledged writes.
    pub in_sync: BTreeSet<NodeId>,
}

impl Record {
    /// Returns the record in which an in-sync replica replaces the primary, or `None` if the server
    /// is not in sync. The former primary leaves the in-sync set, because it may have writes that
    /// no other server has.
    pub fn promoted(&self, replica: NodeId) -> Option<Record> {
        let mut in_sync = self.in_sync.clone();
        in_sync.remove(&replica).then_some(Record {
            epoch: self.epoch + 1,
            primary: replica,
            in_sync,
        })
    }

    /// Returns the record after the primary has handed the shard over to an in-sync replica with
    /// the same history and stays in sync itself. Returns `None` if the server is not in sync.
    pub fn handed_over(&self, replica: NodeId) -> Option<Record> {
        let mut record = self.promoted(replica)?;
        record.in_sync.insert(self.primary);
        Some(record)
    }

    /// Returns the record with one more in-sync replica.
    #[must_use]
    pub fn with(&self, replica: NodeId) -> Record {
        let mut record = self.clone();
        record.in_sync.insert(replica);
        record
    }

    /// Returns the record without one of the in-sync replicas.
    #[must_use]
    pub fn without(&self, replica: NodeId) -> Record {
        let mut record = self.clone();
        record.in_sync.remove(&replica);
        record
    }

    /// Returns the record in which the primary begins a new term.
    #[must_use]
    pub fn resumed(&self) -> Record {
        Record {
            epoch: self.epoch + 1,
            ..self.clone()
        }
    }
}

/// Purpose of a shard transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// The primary extends its fence.
    Beat,
    /// The primary adds an in-sync replica.
    Enter(NodeId),
    /// The primary removes an in-sync replica.
    Leave(NodeId),
    /// The primary makes an in-sync replica the primary.
    HandOver(NodeId),
    /// The primary begins a new term after a start.
    Resume,
    /// An in-sync replica makes itself the primary.
    Campaign,
    /// A replica voids its campaign.
    Withdraw,
}

/// A guarded write to the keys of one shard. It writes the beat and, if present, the record.
///
/// A replica that enters measures the primary's silence from this beat. The previous beat may be
/// old, because a primary without members needs none.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Transaction {
    /// Sender.
    pub from: NodeId,
    /// Send time, on the sender's clock.
    pub sent: Instant,
    /// Purpose, so that the sender can handle the reply.
    pub purpose: Purpose,
    /// Revision that the record must have.
    pub record_is: Revision,
    /// Revision that the beat must have, if the transaction depends on it.
    pub beat_is: Option<Revision>,
    /// New record, if it changes.
    pub record: Option<Record>,
}

impl Transaction {
    /// Whether the transaction applies while the keys have these revisions.
    pub fn applies(&self, record: Revision, beat: Revision) -> bool {
        self.record_is == record && self.beat_is.is_none_or(|is| is == beat)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record {
            epoch: 4,
            primary: NodeId(1),
            in_sync: [NodeId(2), NodeId(3)].into(),
        }
    }

    #[test]
    fn only_an_in_sync_replica_is_promoted() {
        assert_eq!(record().promoted(NodeId(9)), None);
        assert_eq!(record().promoted(NodeId(1)), None);
        let next = record().promoted(NodeId(2)).expect("in sync");
        assert_eq!((next.epoch, next.primary), (5, NodeId(2)));
        assert_eq!(next.in_sync, [NodeId(3)].into());
        let next = record().handed_over(NodeId(2)).expect("in sync");
        assert_eq!(next.in_sync, [NodeId(1), NodeId(3)].into());
    }

    #[test]
    fn replicas_enter_and_leave_within_one_term() {
        assert_eq!(record().with(NodeId(5)).without(NodeId(5)), record());
        assert_eq!(record().resumed().epoch, 5);
    }
}
