//! Cluster rules: which server may serve a shard, which replica may be promoted, which replicas
//! must have a write before it is acknowledged, and when slots change owner.
//!
//! The rules are state machines without I/O, clock, threads or randomness. The host passes in what
//! it has read, received and measured, together with the instant on its own clock, and carries out
//! the actions that are returned. The same code therefore runs in a server and in a search over all
//! schedules.
//!
//! # What the store has
//! One store is the source of truth: etcd, or any other store that applies guarded writes through
//! one log. Each write to a key gives it a new [`Revision`]. A shard has two keys:
//! - its **record** ([`Record`]): epoch, primary, in-sync replicas;
//! - its **beat**, which the primary writes every third of the lease. Its content does not matter,
//!   only its revision.
//!
//! All writes are [`Transaction`]s. A transaction applies only if the keys it names still have the
//! revisions it names. It may be delayed indefinitely, and its reply may be lost. A transaction
//! without a reply is therefore **in doubt**: it may apply at any later time, unless a revision
//! that guards it has changed.
//!
//! # The rules
//! - A primary serves until its **fence**, an instant on its own clock (`member/primary.rs`). The
//!   fence advances when the store applies a beat. If the store cannot be reached, it also advances
//!   when every in-sync replica promises not to campaign. A primary that nobody can replace needs
//!   neither.
//! - A replica campaigns (`member/replica.rs`) when it has received no beat for longer than any
//!   fence can last ([`Timing`]). Its transaction is guarded by the record and the beat that it
//!   last saw.
//! - In a synchronous cluster, a write is acknowledged when all **members** have it: the in-sync
//!   replicas, and replicas whose entry into the in-sync set is in doubt.
//! - Slots change owner (`handover.rs`) in one transaction, guarded by the map, the records of both
//!   shards and the move itself, while the source holds commands on them.
//!
//! # Transactions in doubt
//! Transactions in doubt are the reason for these rules:
//! - A replica whose campaign is in doubt promises nothing. It voids the campaign by writing the
//!   beat that guards it.
//! - A replica whose entry is in doubt counts as a member: it must have all acknowledged writes,
//!   and extending the fence requires its promise.
//! - A primary that restarts writes its record before it serves, so that no transaction from before
//!   the restart can apply.
//! - A primary that hands over its shard stops serving before it writes the record, and serves
//!   again only if that write is void.
//! - The source of a move releases its hold only when it has read the outcome or has voided the
//!   commit.
//!
//! `search.rs` tests this against schedules: all schedules of a bounded length for a few servers,
//! and random ones with drifting clocks. It also removes each rule in turn, and must then find the
//! failure that the rule prevents.
#![forbid(unsafe_code)]

mod handover;
mod member;
mod record;
mod rule;
#[cfg(test)]
mod search;
mod timing;
mod topology;

pub use handover::{End, Mark, ShardId, Slots, View};
pub use member::{Action, Ask, Member, Promise, Start};
pub use record::{NodeId, Purpose, Record, Revision, Transaction, Versioned};
pub use timing::{Instant, Timing, TimingError};
pub use topology::{
    Health, Name, Node, Owned, Replica, Role, SLOTS, Shard, Topology, TopologyError,
};
