//! What a policy learned in a replay, what that took, and how well it predicted.

use crate::cpu::thread_cpu_time;
use learn::{Boosted, Boosting, HeldOut, Maker, PARTS, Regressor, Rows, Untrained};
use policy::Lessons;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::thread::LocalKey;
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
    /// Before each training but the first: what the model had to say about the rows to come, which it had not
    /// seen, beside what is learned of them now.
    pub held_out: Vec<HeldOut>,
    /// Requests since the last model was learned, at the end.
    pub model_age: Option<u64>,
    /// Bytes for each entry held at the end that are there to learn and to predict.
    pub bytes_per_entry: f64,
}

impl Learned {
    /// Whether it trained often enough that its result is one of learning.
    pub fn is_trained(&self) -> bool {
        self.lessons.trainings >= TRAININGS_MIN
    }

    /// The mean rank correlation of what was predicted and what came, each training's as heavy as its rows.
    pub fn correlation(&self) -> Option<f64> {
        let told = self
            .held_out
            .iter()
            .filter_map(|held_out| Some((held_out.correlation?, held_out.rows as f64)));
        let (sum, rows) = told.fold((0.0, 0.0), |(sum, all), (correlation, rows)| {
            (sum + correlation * rows, all + rows)
        });
        (rows > 0.0).then(|| sum / rows)
    }

    /// What was predicted and what came of it in each fifth of the rows, the one with the lowest predictions
    /// first, over all trainings and as multiples of the mean of what came.
    pub fn fifths(&self) -> Option<[(f64, f64); PARTS]> {
        let rows: f64 = self.held_out.iter().map(|told| told.rows as f64).sum();
        let mean = |of: &dyn Fn(&HeldOut) -> f64| {
            let sum: f64 = self
                .held_out
                .iter()
                .map(|told| of(told) * told.rows as f64)
                .sum();
            sum / rows
        };
        let all = mean(&|told| told.realised.iter().sum::<f64>() / PARTS as f64);
        let of = |part: usize| {
            (
                mean(&|told| told.predicted[part]) / all,
                mean(&|told| told.realised[part]) / all,
            )
        };
        (all.is_normal()).then(|| std::array::from_fn(of))
    }

    /// What was learned by a replay of so many requests that this thread has just made, and began with [`begin`].
    pub(crate) fn of(lessons: Lessons, requests: u64, held: u64) -> Learned {
        let age = |trained_at: u64| requests.saturating_sub(trained_at);
        Learned {
            model_age: lessons.trained_at.map(age),
            bytes_per_entry: lessons.learning_bytes as f64 / held.max(1) as f64,
            lessons,
            training_time: TRAINING.get(),
            inference_time: INFERENCE.get(),
            held_out: HELD_OUT.take(),
        }
    }
}

thread_local! {
    /// What the replay under way in this thread has taken. A replay never changes its thread.
    static TRAINING: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    static INFERENCE: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    /// What it took to compare predictions with what came, which no cache needs.
    static COMPARING: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    /// Whether the cache has its model: models made later are of its miniatures.
    static IS_MADE: Cell<bool> = const { Cell::new(false) };
    static HELD_OUT: RefCell<Vec<HeldOut>> = const { RefCell::new(Vec::new()) };
    /// The features that its models do not see, by their places in a row.
    static HIDDEN: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// A replay begins in this thread, whose models do not see the features at these places.
pub(crate) fn begin(hidden: &[usize]) {
    TRAINING.set(Duration::ZERO);
    INFERENCE.set(Duration::ZERO);
    COMPARING.set(Duration::ZERO);
    IS_MADE.set(false);
    HELD_OUT.take();
    HIDDEN.set(hidden.to_vec());
}

/// What the replay under way has taken in this thread that is not the cache's own.
pub(crate) fn comparing_time() -> Duration {
    COMPARING.get()
}

/// Makes regressors that tell this module what they took.
pub(crate) fn maker() -> Maker {
    Maker(|boosting: &Boosting| {
        Box::new(Timed {
            model: Boosted::new(*boosting),
            hidden: HIDDEN.with_borrow(Clone::clone),
            is_own: !IS_MADE.replace(true),
        })
    })
}

/// The policies have no clock: this stands where they ask for one's regressor.
struct Timed {
    model: Boosted,
    hidden: Vec<usize>,
    /// Whether what it predicts is told: it is the cache's own model.
    is_own: bool,
}

impl Timed {
    /// The rows as the model sees them: what is hidden is zero in all of them, and so tells nothing.
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

    /// Holds what the model says about rows that it has not seen against what came.
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

/// Adds what the work took to one of this thread's times.
fn timed<R>(time: &'static LocalKey<Cell<Duration>>, work: impl FnOnce() -> R) -> R {
    let before = thread_cpu_time();
    let result = work();
    time.set(time.get() + thread_cpu_time().saturating_sub(before));
    result
}

impl Regressor for Timed {
    fn train(&mut self, rows: &Rows, targets: &[f32]) -> Result<(), Untrained> {
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
