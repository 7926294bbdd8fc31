//! Regression of the time until an object's next request, with the batch of labels for its next
//! training. LRB and 3L-Cache learn it.
//!
//! Distances are counted in requests, and their logarithms are learned.

use crate::stats::LearningStats;
use crate::{Boosting, Maker, Regressor, Rows};
use policy::knobs::{Knob, Knobs};

/// Knobs of a policy that learns distances, and the function that creates its model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DistancesConfig<K> {
    /// The numeric knobs.
    pub knobs: K,
    /// Function that creates the regressor.
    pub maker: Maker,
}

impl<K: Knobs> Knobs for DistancesConfig<K> {
    const KNOBS: &'static [Knob] = K::KNOBS;
    fn set(&mut self, name: &str, value: &str) -> bool {
        self.knobs.set(name, value)
    }
    fn show(&self, name: &str) -> String {
        self.knobs.show(name)
    }
    fn is_valid(&self) -> bool {
        self.knobs.is_valid()
    }
}

/// The regression and its batch.
pub(crate) struct Distances {
    model: Box<dyn Regressor>,
    /// Maximum number of labels.
    batch: usize,
    rows: Rows,
    labels: Vec<f32>,
    /// Rows of the entries being compared, and their predictions.
    compared_rows: Rows,
    compared: Vec<f32>,
    pub stats: LearningStats,
}

impl Distances {
    pub fn new(maker: &Maker, boosting: &Boosting, width: usize, batch: u32) -> Distances {
        Distances {
            model: (maker.0)(boosting),
            batch: batch as usize,
            rows: Rows::new(width),
            labels: Vec::new(),
            compared_rows: Rows::new(width),
            compared: Vec::new(),
            stats: LearningStats::default(),
        }
    }

    pub fn is_trained(&self) -> bool {
        self.model.is_trained()
    }

    /// Whether the batch is full, so that a training is due.
    pub fn is_full(&self) -> bool {
        self.labels.len() >= self.batch
    }

    /// Adds a label to the batch. Labels that exceed the batch are dropped, so that all labels of a
    /// batch come from one period.
    pub fn add<const WIDTH: usize>(&mut self, row: impl FnOnce() -> [f32; WIDTH], distance: u64) {
        if !self.is_full() {
            self.rows.push(&row());
            self.labels.push(logarithm(distance));
        }
    }

    /// Trains on the batch at the request numbered `now`. After an error, the previous model is
    /// kept and the batch is dropped.
    pub fn train(&mut self, now: u64) {
        match self.model.train(&self.rows, &self.labels) {
            Ok(()) => {
                self.stats.trainings += 1;
                self.stats.trained_at = Some(now);
            }
            Err(_) => self.stats.failures += 1,
        }
        self.stats.training_rows += self.labels.len() as u64;
        self.rows.clear();
        self.labels.clear();
    }

    /// Predicts the logarithms of the distances of these rows.
    pub fn predict<const WIDTH: usize>(
        &mut self,
        rows: impl Iterator<Item = [f32; WIDTH]>,
    ) -> &[f32] {
        self.compared_rows.clear();
        self.compared.clear();
        rows.for_each(|row| self.compared_rows.push(&row));
        self.model.predict(&self.compared_rows, &mut self.compared);
        self.stats.inferences += 1;
        self.stats.inference_rows += self.compared_rows.len() as u64;
        &self.compared
    }

    /// Returns the statistics of a policy that occupies `bytes`. Its rows begin with the age and
    /// `gaps` gaps, which share one name.
    pub fn stats(&self, names: &[&'static str], gaps: usize, bytes: usize) -> LearningStats {
        let mut stats = self.stats.clone();
        stats.learning_bytes = bytes as u64;
        if let [age, rest @ ..] = &self.model.importances()[..] {
            let (gaps, others) = rest.split_at(gaps);
            let shares = [*age, gaps.iter().sum()].into_iter();
            let shares = shares.chain(others.iter().copied());
            stats.importances = names.iter().copied().zip(shares).collect();
        }
        stats
    }

    pub fn heap_bytes(&self) -> usize {
        self.rows.heap_bytes()
            + self.compared_rows.heap_bytes()
            + (self.labels.capacity() + self.compared.capacity()) * 4
            + self.model.heap_bytes()
    }

    /// Panics if the batch is inconsistent.
    pub fn check(&self) {
        assert!(self.labels.len() <= self.batch);
        assert_eq!(self.labels.len(), self.rows.len());
    }
}

/// Returns the natural logarithm of a number of at least 1. It uses only sums and products, because
/// standard libraries may differ in the last bit between machines.
pub(crate) fn logarithm(number: u64) -> f32 {
    debug_assert!(number > 0);
    let exponent = number.ilog2();
    let mantissa = number as f64 / (1u64 << exponent) as f64;
    // ln m = 2 artanh((m − 1) / (m + 1)), and the quotient is at most a third.
    let quotient = (mantissa - 1.0) / (mantissa + 1.0);
    let square = quotient * quotient;
    let series = (0..12)
        .rev()
        .fold(0.0, |sum, n| sum * square + 1.0 / f64::from(2 * n + 1));
    (f64::from(exponent) * std::f64::consts::LN_2 + 2.0 * quotient * series) as f32
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::TrainError;
    use policy::Policy;
    use policy::evict::lru::Lru;
    use policy::parts::chance::Chance;
    use policy::suite::policy::Trial;
    use std::cell::RefCell;

    thread_local! {
        /// Rows and targets, as bits, on which this test's recorders were trained.
        static RECORDED: RefCell<Vec<(Vec<u32>, u32)>> = const { RefCell::new(Vec::new()) };
    }

    /// Regressor that records its trainings and predicts each row's age as its distance.
    struct Recorder {
        is_trained: bool,
    }

    impl Regressor for Recorder {
        fn train(&mut self, rows: &Rows, targets: &[f32]) -> Result<(), TrainError> {
            let bits = |row: &[f32]| row.iter().map(|value| value.to_bits()).collect();
            let pairs = rows.iter().zip(targets);
            let pairs = pairs.map(|(row, target)| (bits(row), target.to_bits()));
            RECORDED.with_borrow_mut(|recorded| recorded.extend(pairs));
            self.is_trained = true;
            Ok(())
        }
        fn is_trained(&self) -> bool {
            self.is_trained
        }
        fn predict(&self, rows: &Rows, predictions: &mut Vec<f32>) {
            predictions.extend(rows.iter().map(|row| row[0]));
        }
        fn importances(&self) -> Vec<f32> {
            Vec::new()
        }
        fn heap_bytes(&self) -> usize {
            0
        }
    }

    pub(crate) fn boosted<K>(knobs: K) -> DistancesConfig<K> {
        let maker = Maker::default();
        DistancesConfig { knobs, maker }
    }

    pub(crate) fn recorded<K>(knobs: K) -> DistancesConfig<K> {
        let maker = Maker(|_| Box::new(Recorder { is_trained: false }));
        DistancesConfig { knobs, maker }
    }

    /// Returns the rows and targets of all trainings of [`recorded`] policies in this test.
    pub(crate) fn taught() -> Vec<(Vec<u32>, u32)> {
        RECORDED.take()
    }

    /// Returns a random key below 60. Smaller keys are more frequent.
    pub(crate) fn key_of(chance: &mut Chance) -> u64 {
        (chance.unit() * chance.unit() * 60.0) as u64
    }

    /// Returns keys, half of which belong to 80 objects and half to objects requested only once.
    pub(crate) fn half_useful(count: u64) -> Vec<u64> {
        let mut chance = Chance::new(5);
        let mut draw = |index| match chance.below(2) {
            0 => chance.below(80),
            _ => 1_000 + index,
        };
        (0..count).map(&mut draw).collect()
    }

    /// Returns the number of hits among the last fifth of the keys, and the state at the end.
    pub(crate) fn hits<P: Policy>(
        config: &P::Config,
        keys: &[u64],
        capacity: u64,
    ) -> (usize, Trial<P>) {
        let mut trial = Trial::<P>::new(capacity, config, 1);
        let mut hits = 0;
        for (index, &key) in keys.iter().enumerate() {
            let is_hit = trial.table.contains_key(&key);
            hits += usize::from(is_hit && index >= keys.len() / 5 * 4);
            trial.request(key, 1, 100);
        }
        (hits, trial)
    }

    /// Checks that an untrained policy evicts in the same order as LRU, and returns the policy.
    pub(crate) fn is_lru<P: Policy>(config: &P::Config) -> P {
        let mut learner = Trial::<P>::new(20, config, 1);
        let mut lru = Trial::<Lru>::new(20, &(), 1);
        let mut chance = Chance::new(3);
        for _ in 0..5_000 {
            let key = key_of(&mut chance);
            learner.request(key, 1, 2);
            lru.request(key, 1, 2);
        }
        assert_eq!(learner.victims, lru.victims);
        learner.policy
    }

    #[test]
    fn logarithms_are_right() {
        let large = [
            1 << 20,
            (1 << 33) - 1,
            1 << 33,
            u64::from(u32::MAX),
            1 << 52,
        ];
        for number in (1..1_000).chain(large) {
            let wanted = (number as f64).ln();
            let error = (f64::from(logarithm(number)) - wanted).abs();
            assert!(error <= wanted * 1e-6 + 1e-9, "{number}");
        }
    }
}
