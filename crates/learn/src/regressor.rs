//! The seam between a policy that learns and what it learns with: rows of features in, a number a row out.
//!
//! Deliberately narrow: no classes, weights, missing values or validation. What does the regression can be
//! exchanged without a policy noticing, and a test can put a model of its own in.

use crate::{Boosted, Boosting};
use std::fmt;

/// A table of features, row after row. Every number in it is finite.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    width: usize,
    values: Vec<f32>,
}

impl Rows {
    /// An empty table of rows of `width` features.
    pub fn new(width: usize) -> Rows {
        assert!(width > 0, "a row has features");
        Rows {
            width,
            values: Vec::new(),
        }
    }

    /// Appends a row. What a rate over no time or a mean of nothing may come to does no harm: what is not a
    /// number counts as zero, and what is beyond all numbers as the largest.
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

    /// Forgets all rows and keeps their room.
    pub fn clear(&mut self) {
        self.values.clear();
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.values.len() / self.width
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// How many features a row has.
    pub fn width(&self) -> usize {
        self.width
    }

    /// One row.
    pub fn row(&self, index: usize) -> &[f32] {
        &self.values[index * self.width..][..self.width]
    }

    /// All rows, in their order.
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

/// Why nothing was learned. The model before, if there was one, goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Untrained {
    /// Fewer than two rows.
    TooFew,
    /// A target is not a finite number.
    NotANumber,
    /// All targets are the same, or no feature tells them apart.
    AllAlike,
    /// The library refused, for a reason that its documentation does not give for such rows.
    Refused,
}

impl fmt::Display for Untrained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Untrained::TooFew => "fewer than two rows to learn from",
            Untrained::NotANumber => "a target is not a finite number",
            Untrained::AllAlike => "no feature tells the targets apart",
            Untrained::Refused => "the library for regression refused the rows",
        })
    }
}

impl std::error::Error for Untrained {}

/// Learns a number from a row of features, from scratch each time.
///
/// Equal rows and targets give an equal model, and an equal model equal predictions, on every machine and
/// with any number of threads.
pub trait Regressor: Send {
    /// Learns from rows and what should be predicted for each. On an error the model stays as it was.
    fn train(&mut self, rows: &Rows, targets: &[f32]) -> Result<(), Untrained>;
    /// Whether it has learned anything yet.
    fn is_trained(&self) -> bool;
    /// Appends a prediction for each row. Before it has learned anything: zeros.
    fn predict(&self, rows: &Rows, predictions: &mut Vec<f32>);
    /// How much each feature counts: shares of one, or nothing before it has learned anything.
    fn importances(&self) -> Vec<f32>;
    /// Bytes on the heap.
    fn heap_bytes(&self) -> usize;
}

/// How a policy comes by its regressor. A host that has a clock puts one in that measures.
#[derive(Clone, Copy)]
pub struct Maker(pub fn(&Boosting) -> Box<dyn Regressor>);

impl Default for Maker {
    fn default() -> Self {
        Maker(|boosting| Box::new(Boosted::new(*boosting)))
    }
}

/// Who makes it is not told by a policy's name: all makers are equal.
impl PartialEq for Maker {
    fn eq(&self, _other: &Maker) -> bool {
        true
    }
}

impl fmt::Debug for Maker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Maker")
    }
}
