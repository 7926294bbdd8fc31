//! Interface between policies and models: rows of features as input, and one number per row as
//! output.
//!
//! It is deliberately narrow: no classes, weights, missing values or validation. Any regression can
//! therefore be used without changing the policies, and a test can use its own model.

use std::fmt;

/// Table of features, row by row. Every number in it is finite.
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

    /// Appends a row. NaN becomes 0 and infinity becomes the largest number, so that a rate over no
    /// time or a mean of no values does no harm.
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

    /// Removes all rows, but keeps their memory for later rows.
    pub fn clear(&mut self) {
        self.values.clear();
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.values.len() / self.width
    }

    /// Returns true if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns the number of features per row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Returns the row at an index.
    pub fn row(&self, index: usize) -> &[f32] {
        &self.values[index * self.width..][..self.width]
    }

    /// Returns an iterator over all rows, in order.
    pub fn iter(&self) -> impl Iterator<Item = &[f32]> {
        self.values.chunks_exact(self.width)
    }

    /// Returns the heap memory in bytes.
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

/// Reason why training failed. The previous model stays in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TrainError {
    /// There are fewer than two rows.
    TooFew,
    /// A target is not a finite number.
    NotANumber,
    /// All targets are equal, or no feature separates them.
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

/// Model that predicts a number from a row of features. Each training starts from scratch.
///
/// Equal rows and targets give equal models, and equal models give equal predictions, on every
/// machine and with any number of threads.
pub trait Regressor: Send {
    /// Trains the model on rows and their target values.
    ///
    /// # Errors
    /// The rows are too few or cannot be learned from. The previous model is kept.
    fn train(&mut self, rows: &Rows, targets: &[f32]) -> Result<(), TrainError>;
    /// Returns true if a training has succeeded.
    fn is_trained(&self) -> bool;
    /// Appends a prediction for each row; zeros before the first training.
    fn predict(&self, rows: &Rows, predictions: &mut Vec<f32>);
    /// Returns the importance of each feature as a share of 1; empty before the first training.
    fn importances(&self) -> Vec<f32>;
    /// Returns the heap memory in bytes.
    fn heap_bytes(&self) -> usize;
}
