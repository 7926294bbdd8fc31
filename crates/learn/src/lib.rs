//! Eviction policies that learn, and what they learn with.
//!
//! Each stands behind the contract of `policy`, so that the host which runs all others runs it, too. They
//! live in a room of their own because regression comes from a library, and `policy` takes nothing from
//! outside.
//!
//! Deliberately absent, as there: a clock, chance, threads and files. A policy that learns trains in
//! [`policy::Policy::evict`], in the thread of its host, and counts what it did; whoever has a clock tells
//! what that took.
//!
//! Start reading with `regressor.rs`, the seam between policies and what they learn with; `any.rs` is the list
//! of the policies' names. `tutor.rs` learns about the groups of an engine that evicts by itself; `features.rs` and
//! `schedule.rs` are for whoever learns about groups, whatever these are.
#![forbid(unsafe_code)]

pub mod any;
mod boosted;
pub mod evict;
mod features;
mod held_out;
mod regressor;
mod schedule;
mod stats;
mod tutor;

pub use boosted::{Boosted, Boosting};
pub use features::{FEATURES, Totals, Window};
pub use held_out::{HeldOut, PARTS};
pub use regressor::{Maker, Regressor, Rows, Untrained};
pub use schedule::{Interval, Schedule};
pub use stats::{LearningStats, Learns};
pub use tutor::{Heard, Tutor, Tutoring};
