//! Statistics of a policy's learning in a replay: counts, CPU time, and the quality of its
//! predictions.

use crate::cpu::thread_cpu_time;
use learn::{Boosted, Boosting, HeldOut, LearningStats, Maker, PARTS, Regressor, Rows, TrainError};
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::thread::LocalKey;
use std::time::Duration;

/// Minimum number of trainings for a result to count as a result of learning.
const TRAININGS_MIN: u64 = 3;

/// Statistics of learning, the warm-up included.
#[derive(Clone, Debug, PartialEq)]
pub struct Learned {
    /// Counters, which are deterministic.
    pub learning_stats: LearningStats,
    /// CPU time of training, part of the replay's.
    pub training_time: Duration,
    /// CPU time of predictions, part of the replay's.
    pub inference_time: Duration,
    /// Before each training but the first: predictions of the current model for the new rows, which
    /// it has not been trained on, compared with their targets.
    pub held_out: Vec<HeldOut>,
    /// Requests between the last training and the end.
    pub model_age: Option<u64>,
    /// Bytes of the model and its training data per entry held at the end.
    pub bytes_per_entry: f64,
}

impl Learned {
    /// Whether the policy trained often enough for the result to depend on learning.
    pub fn is_trained(&self) -> bool {
        self.learning_stats.trainings >= TRAININGS_MIN
    }

    /// Mean rank correlation of predictions and targets, weighted by the rows of each training.
    pub fn correlation(&self) -> Option<f64> {
        let known = self
            .held_out
            .iter()
            .filter_map(|held_out| Some((held_out.correlation?, held_out.rows as f64)));
        let (sum, rows) = known.fold((0.0, 0.0), |(sum, all), (correlation, rows)| {
            (sum + correlation * rows, all + rows)
        });
        (rows > 0.0).then(|| sum / rows)
    }

    /// Mean prediction and mean target of each fifth of the rows, ordered by prediction, over all
    /// trainings, as multiples of the mean target.
    pub fn fifths(&self) -> Option<[(f64, f64); PARTS]> {
        let rows: f64 = self
            .held_out
            .iter()
            .map(|held_out| held_out.rows as f64)
            .sum();
        let mean = |of: &dyn Fn(&HeldOut) -> f64| {
            let sum: f64 = self
                .held_out
                .iter()
                .map(|held_out| of(held_out) * held_out.rows as f64)
                .sum();
            sum / rows
        };
        let all = mean(&|held_out| held_out.realised.iter().sum::<f64>() / PARTS as f64);
        let of = |part: usize| {
            (
                mean(&|held_out| held_out.predicted[part]) / all,
                mean(&|held_out| held_out.realised[part]) / all,
            )
        };
        (all.is_normal()).then(|| std::array::from_fn(of))
    }

    /// Collects the statistics of the replay that this thread has just finished and that started
    /// with [`begin`].
    pub(crate) fn of(learning_stats: LearningStats, requests: u64, held: u64) -> Learned {
        let age = |trained_at: u64| requests.saturating_sub(trained_at);
        Learned {
            model_age: learning_stats.trained_at.map(age),
            bytes_per_entry: learning_stats.learning_bytes as f64 / held.max(1) as f64,
            learning_stats,
            training_time: TRAINING.get(),
            inference_time: INFERENCE.get(),
            held_out: HELD_OUT.take(),
        }
    }
}

thread_local! {
    /// CPU times of the replay that runs in this thread. A replay never changes threads.
    static TRAINING: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    static INFERENCE: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    /// CPU time of comparing predictions with targets, which a cache would not need.
    static COMPARING: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    /// Whether the model of the simulated cache was created. Models created later belong to its
    /// miniature caches.
    static IS_MADE: Cell<bool> = const { Cell::new(false) };
    static HELD_OUT: RefCell<Vec<HeldOut>> = const { RefCell::new(Vec::new()) };
    /// Positions of the features hidden from the models.
    static HIDDEN: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Starts the statistics of a replay in this thread, with these features hidden.
pub(crate) fn begin(hidden: &[usize]) {
    TRAINING.set(Duration::ZERO);
    INFERENCE.set(Duration::ZERO);
    COMPARING.set(Duration::ZERO);
    IS_MADE.set(false);
    HELD_OUT.take();
    HIDDEN.set(hidden.to_vec());
}

/// CPU time of the current replay that is not the cache's own.
pub(crate) fn comparing_time() -> Duration {
    COMPARING.get()
}

/// Creates regressors that record their CPU times in this module.
pub(crate) fn maker() -> Maker {
    Maker(|boosting: &Boosting| {
        Box::new(Timed {
            model: Boosted::new(*boosting),
            hidden: HIDDEN.with_borrow(Clone::clone),
            is_own: !IS_MADE.replace(true),
        })
    })
}

/// Regressor that records CPU times, because policies have no clock.
struct Timed {
    model: Boosted,
    hidden: Vec<usize>,
    /// Whether the regressor is the cache's own model. Only its predictions are compared with
    /// targets.
    is_own: bool,
}

impl Timed {
    /// Returns the rows that the model sees: hidden features are zero in all rows and so carry no
    /// information.
    fn seen<'a>(&self, rows: &'a Rows) -> Cow<'a, Rows> {
        if self.hidden.is_empty() {
            return Cow::Borrowed(rows);
        }
        let mut seen = Rows::new(rows.width());
        for row in rows.iter() {
            let mut row = row.to_vec();
            for place in self.hidden.iter().filter(|place| **place < rows.width()) {
                row[*place] = 0.0;
            }
            seen.push(&row);
        }
        Cow::Owned(seen)
    }

    /// Compares predictions for rows that the model was not trained on with their targets.
    fn compare(&self, rows: &Rows, targets: &[f32]) {
        if !self.is_own || !self.model.is_trained() {
            return;
        }
        let mut predictions = Vec::new();
        self.model.predict(rows, &mut predictions);
        let held_out = HeldOut::compare(&predictions, targets);
        HELD_OUT.with_borrow_mut(|all| all.extend(held_out));
    }
}

/// Runs `work`, and adds its CPU time to one of this thread's times.
fn timed<R>(time: &'static LocalKey<Cell<Duration>>, work: impl FnOnce() -> R) -> R {
    let before = thread_cpu_time();
    let result = work();
    time.set(time.get() + thread_cpu_time().saturating_sub(before));
    result
}

impl Regressor for Timed {
    fn train(&mut self, rows: &Rows, targets: &[f32]) -> Result<(), TrainError> {
        let rows = timed(&COMPARING, || {
            let rows = self.seen(rows);
            self.compare(&rows, targets);
            rows
        });
        timed(&TRAINING, || self.model.train(&rows, targets))
    }

    fn is_trained(&self) -> bool {
        self.model.is_trained()
    }

    fn predict(&self, rows: &Rows, predictions: &mut Vec<f32>) {
        let rows = timed(&COMPARING, || self.seen(rows));
        timed(&INFERENCE, || self.model.predict(&rows, predictions));
    }

    fn importances(&self) -> Vec<f32> {
        self.model.importances()
    }

    fn heap_bytes(&self) -> usize {
        self.model.heap_bytes()
    }
}
