//! Comparison of a model's predictions with observed values, for rows on which it was not trained.

/// Number of equal parts into which the rows are divided, in the order of their predictions.
pub const PARTS: usize = 5;

/// Predictions of a model for held-out rows, compared with the observed values.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldOut {
    /// Number of rows.
    pub rows: usize,
    /// Spearman's rank correlation: 1 if predictions and observed values have the same order, −1 if
    /// they have opposite orders. `None` if all predictions or all observed values are equal.
    pub correlation: Option<f64>,
    /// Mean prediction of each fifth of the rows, lowest predictions first.
    pub predicted: [f64; PARTS],
    /// Mean observed value of the same fifths.
    pub realised: [f64; PARTS],
}

impl HeldOut {
    /// Compares predictions with observed values, row by row. Returns `None` if there are fewer
    /// than [`PARTS`] rows.
    ///
    /// ```
    /// use learn::HeldOut;
    /// let held_out = HeldOut::compare(&[1.0, 2.0, 3.0, 4.0, 5.0], &[2.0, 3.0, 5.0, 7.0, 11.0]);
    /// assert_eq!(held_out.and_then(|held_out| held_out.correlation), Some(1.0));
    /// ```
    pub fn compare(predicted: &[f32], realised: &[f32]) -> Option<HeldOut> {
        assert_eq!(predicted.len(), realised.len(), "one of each for a row");
        let rows = predicted.len();
        if rows < PARTS {
            return None;
        }
        let order = order(predicted);
        // Part k has the rows from k/5 to (k + 1)/5 of the total, and at least one row.
        let part = |k: usize| &order[k * rows / PARTS..(k + 1) * rows / PARTS];
        let means = |values: &[f32]| {
            std::array::from_fn(|k| {
                let own = part(k);
                own.iter().map(|&row| f64::from(values[row])).sum::<f64>() / own.len() as f64
            })
        };
        Some(HeldOut {
            rows,
            correlation: correlation(&ranks(predicted), &ranks(realised)),
            predicted: means(predicted),
            realised: means(realised),
        })
    }
}

/// Returns the indexes of the rows by ascending value. Rows with equal values keep their order.
fn order(values: &[f32]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    order
}

/// Returns the rank of each row. Rows with equal values share their mean rank.
fn ranks(values: &[f32]) -> Vec<f64> {
    let mut ranks = vec![0.0; values.len()];
    let mut before = 0;
    for alike in order(values).chunk_by(|&a, &b| values[a] == values[b]) {
        let mean = before as f64 + (alike.len() - 1) as f64 / 2.0;
        alike.iter().for_each(|&row| ranks[row] = mean);
        before += alike.len();
    }
    ranks
}

/// Returns Pearson's correlation; `None` if `a` or `b` does not vary.
fn correlation(a: &[f64], b: &[f64]) -> Option<f64> {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (mean_a, mean_b) = (mean(a), mean(b));
    let (mut both, mut of_a, mut of_b) = (0.0, 0.0, 0.0);
    for (a, b) in a.iter().zip(b) {
        let (a, b) = (a - mean_a, b - mean_b);
        both += a * b;
        of_a += a * a;
        of_b += b * b;
    }
    let scale = (of_a * of_b).sqrt();
    (scale > 0.0).then(|| (both / scale).clamp(-1.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(predicted: &[f32], realised: &[f32]) -> HeldOut {
        HeldOut::compare(predicted, realised).expect("there are rows enough")
    }

    #[test]
    fn a_reversed_order_correlates_negatively_and_equal_values_do_not_correlate() {
        let up = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let down = up.map(|value| -value * value);
        assert_eq!(of(&up, &down).correlation, Some(-1.0));
        assert_eq!(of(&up, &[7.0; 6]).correlation, None);
        assert_eq!(of(&[0.0; 6], &up).correlation, None);
        // The expected value was calculated by hand: ranks 0 1 2 3 4 against 0.5 0.5 2 3 4.
        let tied = of(&[1.0, 2.0, 3.0, 4.0, 5.0], &[0.0, 0.0, 1.0, 2.0, 3.0]);
        let wanted = 9.5 / (10.0f64 * 9.5).sqrt();
        assert!((tied.correlation.unwrap_or(0.0) - wanted).abs() < 1e-12);
    }

    #[test]
    fn fifths_are_by_prediction_and_contain_all_rows() {
        let predicted: Vec<f32> = (0..23).map(|n| ((n * 7) % 23) as f32).collect();
        let realised: Vec<f32> = predicted.iter().map(|value| value * 10.0).collect();
        let compared = of(&predicted, &realised);
        assert!(compared.predicted.is_sorted());
        for (predicted, realised) in compared.predicted.iter().zip(compared.realised) {
            assert!((predicted * 10.0 - realised).abs() < 1e-9);
        }
        assert_eq!(compared.predicted[0], 1.5, "the lowest four: 0, 1, 2, 3");
        assert_eq!(compared.predicted[4], 20.0, "the highest five: 18 to 22");
        assert_eq!(HeldOut::compare(&[1.0; 4], &[1.0; 4]), None);
        assert_eq!(HeldOut::compare(&[], &[]), None);
    }
}
