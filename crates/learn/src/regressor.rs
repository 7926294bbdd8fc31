//! The interface between policies and models: rows of features as input, one number for each row as
//! output.
//!
//! It is deliberately narrow: no classes, weights, missing values or validation. So any regression
//! can be used without a change of policies, and a test can use a model of its own.

use std::fmt;

/// A table of features, row after row. Every number in it is finite.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    width: usize,
    values: Vec<f32>,
}

impl Rows {
    /// Creates an empty table whose rows have `width` features.
    pub fn new(width: usize) -> Rows {
        assert!(width > 0, "a row has features");
        Rows {
            width,
            values: Vec::new(),
        }
    }

    /// Appends a row. NaN becomes 0 and infinity the largest number, so that a rate over no time or
    /// a mean of nothing does no harm.
    ///
    /// ```
    /// let mut rows = learn::Rows::new(2);
    /// rows.push(&[0.0 / 0.0, 1.0 / 0.0]);
    /// assert_eq!(rows.row(0), [0.0, f32::MAX]);
    /// ```
    pub fn push(&mut self, row: &[f32]) {
        assert_eq!(row.len(), self.width);
        self.values.extend(row.iter().map(|&value| finite(value)));
    }

    /// Removes all rows, and keeps the memory for later rows.
    pub fn clear(&mut self) {
        self.values.clear();
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.values.len() / self.width
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Number of features in a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Returns the row at an index.
    pub fn row(&self, index: usize) -> &[f32] {
        &self.values[index * self.width..][..self.width]
    }

    /// All rows in order.
    pub fn iter(&self) -> impl Iterator<Item = &[f32]> {
        self.values.chunks_exact(self.width)
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.values.capacity() * size_of::<f32>()
    }
}

fn finite(value: f32) -> f32 {
    if value.is_nan() {
        0.0
    } else {
        value.clamp(f32::MIN, f32::MAX)
    }
}

/// Reason for which a training failed. The previous model stays in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TrainError {
    /// Fewer than two rows.
    TooFew,
    /// A target is not a finite number.
    NotANumber,
    /// All targets are the same, or no feature separates them.
    AllAlike,
    /// The library failed for a reason that its documentation does not mention for such rows.
    Refused,
}

impl fmt::Display for TrainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TrainError::TooFew => "fewer than two rows to train on",
            TrainError::NotANumber => "a target is not a finite number",
            TrainError::AllAlike => "no feature separates the targets",
            TrainError::Refused => "the regression library failed on these rows",
        })
    }
}

impl std::error::Error for TrainError {}

/// A model that predicts a number from a row of features. Each training begins from scratch.
///
/// Equal rows and targets give an equal model, and an equal model gives equal predictions, on every
/// machine and with any number of threads.
pub trait Regressor: Send {
    /// Trains on rows, each with the number to predict for it. On an error the previous model is
    /// kept.
    fn train(&mut self, rows: &Rows, targets: &[f32]) -> Result<(), TrainError>;
    /// Whether a training has succeeded.
    fn is_trained(&self) -> bool;
    /// Appends a prediction for each row; zeros before the first training.
    fn predict(&self, rows: &Rows, predictions: &mut Vec<f32>);
    /// Importance of each feature, as shares of 1; empty before the first training.
    fn importances(&self) -> Vec<f32>;
    /// Bytes on the heap.
    fn heap_bytes(&self) -> usize;
}
