//! Statistics of a learning policy, which hosts report.

use policy::Policy;

/// Statistics of a learning policy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LearningStats {
    /// Number of trained models. Each replaced the previous one.
    pub trainings: u64,
    /// Number of trainings that produced no model.
    pub failures: u64,
    /// Total number of feature rows in all trainings.
    pub training_rows: u64,
    /// Number of batches for which the model was evaluated.
    pub inferences: u64,
    /// Total number of feature rows in these batches.
    pub inference_rows: u64,
    /// Number of the request at which the current model was trained; `None` before the first
    /// training.
    pub trained_at: Option<u64>,
    /// Number of evicted groups, including groups merged into others; 0 for a policy that does not
    /// evict whole groups.
    pub groups_evicted: u64,
    /// Heap memory that serves only training and prediction, in bytes.
    pub learning_bytes: u64,
    /// Importance of each feature in the current model, as a share of 1; empty before the first
    /// training.
    pub importances: Vec<(&'static str, f32)>,
}

/// Policy that learns and reports its statistics.
pub trait Learns: Policy {
    /// Returns the statistics so far; `None` for a policy that knows the future.
    fn learning_stats(&self) -> Option<LearningStats>;
}
