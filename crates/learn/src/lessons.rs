//! What a policy that learns returns about its learning.

use policy::{Lessons, Policy};

/// A policy that learns.
pub trait Learns: Policy {
    /// Counts of trainings and predictions so far; `None` for a policy that is given the answers.
    fn lessons(&self) -> Option<Lessons>;
}
