//! Statistics of a policy's learning, which hosts report.

use policy::Policy;

/// Statistics of a policy that learns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LearningStats {
    /// Number of models trained; each replaced the one before.
    pub trainings: u64,
    /// Number of trainings that yielded no model.
    pub failures: u64,
    /// Number of rows of features in all trainings.
    pub training_rows: u64,
    /// Number of batches that the model was evaluated on.
    pub inferences: u64,
    /// Number of rows of features in these batches.
    pub inference_rows: u64,
    /// Number of the request at which the current model was trained; `None` before the first.
    pub trained_at: Option<u64>,
    /// Number of groups evicted, those merged into others included; 0 for a policy that does not
    /// evict whole groups.
    pub groups_evicted: u64,
    /// Bytes on the heap that serve only training and prediction.
    pub learning_bytes: u64,
    /// Weight of each feature in the current model, as shares of one; empty before the first model.
    pub importances: Vec<(&'static str, f32)>,
}

/// A policy that learns, with its statistics.
pub trait Learns: Policy {
    /// Returns the statistics so far; `None` for a policy that knows the future.
    fn learning_stats(&self) -> Option<LearningStats>;
}
