//! Correlations between size, popularity and TTL of objects.

use super::objects::Object;
use serde::Serialize;

/// Maximum number of objects compared; more would change the third digit only.
const COMPARED: usize = 200_000;

/// Two correlation coefficients of a pair, from −1 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Correlation {
    /// Pearson's coefficient of the logarithms. The Twitter study uses logarithms because sizes,
    /// counts and TTLs have wide ranges.
    pub pearson: f64,
    /// Spearman's coefficient of the ranks, which is 1 for any increasing relation.
    pub spearman: f64,
}

/// Correlations over objects; `None` if one side is unknown or constant.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Relations {
    /// Size and number of requests.
    pub size_popularity: Option<Correlation>,
    /// Size and TTL.
    pub size_ttl: Option<Correlation>,
    /// Number of requests and TTL.
    pub popularity_ttl: Option<Correlation>,
}

/// Computes the correlations over the sampled objects.
pub(crate) fn relations(objects: &[Object], has_sizes: bool) -> Relations {
    // The list is in the order of first requests, so that a stride is a fair sample.
    let stride = objects.len().div_ceil(COMPARED).max(1);
    let sample = || objects.iter().step_by(stride);
    let size = |o: &Object| f64::from(o.size);
    let requests = |o: &Object| f64::from(o.requests);
    let ttl = |o: &Object| o.ttl_ms as f64;
    let pair = |a: &dyn Fn(&Object) -> f64, b: &dyn Fn(&Object) -> f64, needs_ttl: bool| {
        let kept = sample().filter(|o| !needs_ttl || o.ttl_ms > 0);
        let (a, b): (Vec<f64>, Vec<f64>) = kept.map(|o| (a(o), b(o))).unzip();
        correlate(&a, &b)
    };
    let sized = |correlation: Option<Correlation>| correlation.filter(|_| has_sizes);
    Relations {
        size_popularity: sized(pair(&size, &requests, false)),
        size_ttl: sized(pair(&size, &ttl, true)),
        popularity_ttl: pair(&requests, &ttl, true),
    }
}

fn correlate(a: &[f64], b: &[f64]) -> Option<Correlation> {
    let logs = |values: &[f64]| -> Vec<f64> { values.iter().map(|v| v.ln_1p()).collect() };
    Some(Correlation {
        pearson: pearson(&logs(a), &logs(b))?,
        spearman: pearson(&ranks(a), &ranks(b))?,
    })
}

/// Pearson's coefficient; `None` if one side is constant.
fn pearson(a: &[f64], b: &[f64]) -> Option<f64> {
    let n = a.len() as f64;
    let (mean_a, mean_b) = (a.iter().sum::<f64>() / n, b.iter().sum::<f64>() / n);
    let (mut aa, mut bb, mut ab) = (0.0, 0.0, 0.0);
    for (x, y) in a.iter().zip(b) {
        aa += (x - mean_a).powi(2);
        bb += (y - mean_b).powi(2);
        ab += (x - mean_a) * (y - mean_b);
    }
    (aa > 0.0 && bb > 0.0).then(|| (ab / (aa * bb).sqrt()).clamp(-1.0, 1.0))
}

/// Rank of each value; equal values share the mean of their ranks.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_unstable_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; values.len()];
    let mut from = 0;
    while from < order.len() {
        let same = order[from..]
            .iter()
            .take_while(|at| values[**at] == values[order[from]])
            .count();
        let rank = from as f64 + (same as f64 - 1.0) / 2.0;
        order[from..from + same]
            .iter()
            .for_each(|at| ranks[*at] = rank);
        from += same;
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_equals_are_shared() {
        assert_eq!(ranks(&[3.0, 1.0, 3.0, 2.0]), [2.5, 0.0, 2.5, 1.0]);
        assert!(ranks(&[]).is_empty());
    }

    #[test]
    fn an_increasing_relation_is_perfect_by_rank_only() {
        let a: Vec<f64> = (1..100).map(f64::from).collect();
        let bent: Vec<f64> = a.iter().map(|v| (v / 10.0).exp()).collect();
        let known = correlate(&a, &bent).expect("both vary");
        assert!((known.spearman - 1.0).abs() < 1e-12);
        assert!(known.pearson > 0.8 && known.pearson < 0.999);
        let down: Vec<f64> = a.iter().map(|v| 1.0 / v).collect();
        assert!((correlate(&a, &down).expect("both vary").spearman + 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_constant_side_has_no_correlation() {
        assert_eq!(correlate(&[1.0, 2.0], &[5.0, 5.0]), None);
        assert_eq!(correlate(&[], &[]), None);
        assert_eq!(correlate(&[1.0], &[1.0]), None);
    }
}
