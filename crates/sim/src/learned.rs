//! What a policy learned in a replay, and what that took.

use crate::cpu::thread_cpu_time;
use learn::{Boosted, Boosting, Maker, Regressor, Rows, Untrained};
use policy::Lessons;
use std::cell::Cell;
use std::time::Duration;

/// Trainings below which a result does not tell of what was learned.
const TRAININGS_MIN: u64 = 3;

/// What a policy learned, the warm-up included.
#[derive(Clone, Debug, PartialEq)]
pub struct Learned {
    /// Counts, which are the same for each replay.
    pub lessons: Lessons,
    /// CPU time that training took, a part of the replay's.
    pub training_time: Duration,
    /// CPU time that predictions took, a part of the replay's.
    pub inference_time: Duration,
}

impl Learned {
    /// Whether it trained often enough that its result is one of learning.
    pub fn is_trained(&self) -> bool {
        self.lessons.trainings >= TRAININGS_MIN
    }

    /// What was learned by a replay that this thread has just made, and began with [`begin`].
    pub(crate) fn of(lessons: Lessons) -> Learned {
        Learned {
            lessons,
            training_time: TRAINING.get(),
            inference_time: INFERENCE.get(),
        }
    }
}

thread_local! {
    /// What the replay under way in this thread has taken. A replay never changes its thread.
    static TRAINING: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    static INFERENCE: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// A replay begins in this thread.
pub(crate) fn begin() {
    TRAINING.set(Duration::ZERO);
    INFERENCE.set(Duration::ZERO);
}

/// Makes regressors that tell this module what they took.
pub(crate) fn maker() -> Maker {
    Maker(|boosting: &Boosting| Box::new(Timed(Boosted::new(*boosting))))
}

/// The policies have no clock: this stands where they ask for one's regressor.
struct Timed(Boosted);

impl Regressor for Timed {
    fn train(&mut self, rows: &Rows, targets: &[f32]) -> Result<(), Untrained> {
        let before = thread_cpu_time();
        let result = self.0.train(rows, targets);
        TRAINING.set(TRAINING.get() + thread_cpu_time().saturating_sub(before));
        result
    }

    fn is_trained(&self) -> bool {
        self.0.is_trained()
    }

    fn predict(&self, rows: &Rows, predictions: &mut Vec<f32>) {
        let before = thread_cpu_time();
        self.0.predict(rows, predictions);
        INFERENCE.set(INFERENCE.get() + thread_cpu_time().saturating_sub(before));
    }

    fn importances(&self) -> Vec<f32> {
        self.0.importances()
    }

    fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }
}
