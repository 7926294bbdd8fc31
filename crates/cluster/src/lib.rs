//! Rules of a cluster: which server may serve a shard, which replica may be promoted, which
//! replicas must have a write before it is acknowledged, and when slots change their owner.
//!
//! The rules are state machines without I/O, clock, threads and randomness. The host passes what it
//! has read, received and measured, with the instant on its own clock, and carries out the actions
//! that it gets back. So the same code runs in a server and in a search of all schedules.
//!
//! # What the store has
//! One store is the source of truth: etcd, or any other with guarded writes through one log. Each
//! write to a key gives it a new [`Revision`]. A shard has two keys:
//! - its **record** ([`Record`]): epoch, primary, in-sync replicas;
//! - its **beat**, which the primary writes every third of the lease. The content does not matter;
//!   its revision does.
//!
//! All writes are [`Transaction`]s that apply only if the keys that they name still have the
//! revisions that they name. A transaction may be delayed without a bound and its reply may be
//! lost. So a transaction without a reply is **in doubt**: it may apply at any later time, unless a
//! revision that guards it has changed.
//!
//! # The rules
//! - A primary serves until its **fence**, an instant on its own clock (`member/primary.rs`).
//!   A beat that the store has applied moves the fence. So do promises of all in-sync replicas not
//!   to campaign, when the store cannot be reached. A primary that nobody can replace needs
//!   neither.
//! - A replica campaigns (`member/replica.rs`) when it has received no beat for longer than any
//!   fence can last ([`Timing`]). Its transaction is guarded by the record and the beat that it has
//!   seen.
//! - A write is acknowledged in a synchronous cluster when all **members** have it: the in-sync
//!   replicas, and those whose entry is in doubt.
//! - Slots change their owner (`handover.rs`) in one transaction that is guarded by the map, by the
//!   records of both shards and by the move itself, while the source holds commands on them.
//!
//! # Transactions in doubt
//! They are the reason of these rules:
//! - A replica whose campaign is in doubt promises nothing. It makes the campaign void by writing
//!   the beat that guards it.
//! - A replica whose entry is in doubt counts as a member: it must have all acknowledged writes,
//!   and the fence needs its promise.
//! - A primary that starts again writes its record before it serves, so that no transaction of its
//!   earlier life applies.
//! - A primary that hands its shard over stops serving before it writes the record, and serves
//!   again only when that write is void.
//! - The source of a move releases its hold only when it has read the outcome, or has made it void.
//!
//! `search.rs` tries schedules: all of a bounded length for few servers, and random ones with
//! clocks that drift. It also removes each rule in turn, and must find the failure that the rule
//! prevents.
#![forbid(unsafe_code)]

mod handover;
mod member;
mod record;
mod rule;
#[cfg(test)]
mod search;
mod timing;

pub use handover::{End, Mark, ShardId, Slots, View};
pub use member::{Action, Ask, Member, Promise, Start};
pub use record::{NodeId, Purpose, Record, Revision, Transaction, Versioned};
pub use timing::{Instant, Timing, TimingError};
