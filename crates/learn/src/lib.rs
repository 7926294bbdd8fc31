//! Eviction policies that learn, and the regression they use.
//!
//! Each policy implements the `Policy` trait of the crate `policy` and runs in the same hosts. The
//! policies are in a separate crate because the regression is an external library, while `policy`
//! has no dependencies.
//!
//! This crate has no clock, random source, threads or files. A policy trains in
//! [`policy::Policy::evict`], on its host's thread, and counts trainings and predictions. A host
//! with a clock measures how long they take.
//!
//! Start with `regressor.rs`, the interface between policies and models. `any.rs` lists the
//! policies. `group_learner.rs` learns the utility of groups for an engine that evicts on its own
//! (experimental). `distances.rs` is shared by the policies that learn when an object is requested
//! next; `features.rs` and `schedule.rs` are shared by all policies that learn about groups.
#![forbid(unsafe_code)]

pub mod any;
mod boosted;
mod distances;
pub mod evict;
mod features;
mod group_learner;
mod held_out;
mod regressor;
mod schedule;
mod stats;

pub use boosted::{Boosted, Boosting, Maker};
pub use distances::DistancesConfig;
pub use features::{FEATURES, Totals, Window};
pub use group_learner::{CacheTotals, GroupLearner, GroupLearnerConfig};
pub use held_out::{HeldOut, PARTS};
pub use regressor::{Regressor, Rows, TrainError};
pub use schedule::{Interval, Schedule};
pub use stats::{LearningStats, Learns};
