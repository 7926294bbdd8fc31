//! Distribution of requests over objects: ranks, the Zipf exponent, and deviations from Zipf's law.

use super::objects::Objects;
use datasketches::frequencies::{ErrorType, FrequentItemsSketch};
use serde::Serialize;

/// Points per decade of the curve of ranks.
const PER_DECADE: f64 = 12.0;
/// Counters of the sketch for the most popular keys of a sampled trace: each count is within
/// 1/3,000 of all requests.
const COUNTERS: usize = 4096;
/// Number of most popular objects that are listed.
const LISTED: usize = 20;
/// Minimum factor between a count and Zipf's law that is reported as a deviation.
const DEVIATES: f64 = 2.0;

/// Straight line through the logarithms of rank and count.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ZipfFit {
    /// Exponent α: the count is proportional to rank^−α.
    pub alpha: f64,
    /// Coefficient of determination of the line.
    pub r_squared: f64,
    /// Count of rank 1 according to the line.
    pub first_count: f64,
}

/// One of the most popular objects.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct TopObject {
    /// Key, or hash of its text.
    pub key: u64,
    /// Lower bound on the number of requests; exact unless objects are sampled.
    pub requests_min: u64,
    /// Upper bound on the number of requests.
    pub requests_max: u64,
}

/// Results about popularity.
#[derive(Clone, Debug, Serialize)]
pub struct Popularity {
    /// Mean number of requests of an object.
    pub mean_requests: f64,
    /// Fitted line; `None` for fewer than three distinct ranks.
    pub fit: Option<ZipfFit>,
    /// Description of the deviations from the line.
    pub deviation: String,
    /// Ranks and counts, the most popular first.
    pub curve: Vec<(f64, f64)>,
    /// Share of the requests for the most popular 0.1, 1, 10 and 20 % of the objects.
    pub top_shares: [f64; 4],
    /// Most popular objects.
    pub top: Vec<TopObject>,
}

/// Counts the most popular keys approximately, once objects are sampled.
#[derive(Default)]
pub(crate) struct HeavyHitters {
    sketch: Option<FrequentItemsSketch<u64>>,
}

impl HeavyHitters {
    /// Starts the sketch when sampling of objects begins. Counts until then are exact.
    pub fn begin(&mut self, objects: &Objects) {
        if self.sketch.is_some() {
            return;
        }
        let mut sketch = FrequentItemsSketch::new(COUNTERS).expect("a power of two");
        for object in &objects.list {
            sketch.update_with_count(object.key, u64::from(object.requests));
        }
        self.sketch = Some(sketch);
    }

    /// Adds a request.
    #[inline]
    pub fn push(&mut self, key: u64) {
        if let Some(sketch) = &mut self.sketch {
            sketch.update(key);
        }
    }

    /// Returns the keys that are certainly among the most popular.
    fn rows(&self) -> Vec<TopObject> {
        let Some(sketch) = &self.sketch else {
            return Vec::new();
        };
        let rows = sketch.frequent_items(ErrorType::NoFalsePositives);
        let mut top: Vec<TopObject> = rows
            .iter()
            .map(|row| TopObject {
                key: *row.item(),
                requests_min: row.lower_bound(),
                requests_max: row.upper_bound(),
            })
            .collect();
        top.sort_unstable_by_key(|row| std::cmp::Reverse((row.requests_min, row.key)));
        top
    }
}

/// Computes the results from the sampled objects and the most popular keys.
pub(crate) fn popularity(objects: &Objects, hot: &HeavyHitters, requests: u64) -> Popularity {
    let mut ranked: Vec<(u32, u64)> = objects.list.iter().map(|o| (o.requests, o.key)).collect();
    ranked.sort_unstable_by(|a, b| b.cmp(a));
    let weight = objects.weight() as f64;
    let (top, head) = match objects.is_exact() {
        true => {
            let exact = |(requests, key): &(u32, u64)| TopObject {
                key: *key,
                requests_min: u64::from(*requests),
                requests_max: u64::from(*requests),
            };
            (ranked.iter().take(LISTED).map(exact).collect(), Vec::new())
        }
        false => {
            let rows = hot.rows();
            let listed = rows.iter().take(LISTED).copied().collect();
            (listed, rows)
        }
    };
    let counts: Vec<u32> = ranked.iter().map(|(count, _)| *count).collect();
    let curve = curve(&counts, &head, weight);
    let fit = fit(&curve);
    Popularity {
        mean_requests: requests as f64 / (counts.len() as f64 * weight).max(1.0),
        deviation: fit.map_or_else(String::new, |fit| deviation(&curve, fit)),
        fit,
        top_shares: [0.001, 0.01, 0.1, 0.2].map(|share| top_share(&counts, share)),
        curve,
        top,
    }
}

/// Ranks and counts, evenly spaced in the logarithm of the rank.
fn curve(counts: &[u32], head: &[TopObject], weight: f64) -> Vec<(f64, f64)> {
    let ranks = counts.len() as f64 * weight;
    let mut points: Vec<(f64, f64)> = Vec::new();
    let mut step = 0;
    loop {
        let rank = 10f64.powf(f64::from(step) / PER_DECADE).round();
        if rank > ranks {
            break;
        }
        step += 1;
        if points.last().is_some_and(|(last, _)| *last >= rank) {
            continue;
        }
        let in_head = head.get(rank as usize - 1);
        // The n-th sampled object represents `weight` ranks; its own rank is in the middle of them.
        let in_sample = ((rank - 0.5) / weight) as usize;
        let count = match in_head {
            Some(row) => (row.requests_min + row.requests_max) as f64 / 2.0,
            None => f64::from(counts[in_sample.min(counts.len() - 1)]),
        };
        points.push((rank, count));
    }
    points
}

/// Fits a line by least squares through the logarithms, as the Twitter study does (Yang 2024,
/// section 3.3.5). This is not the statistically best estimate of the exponent, but it is
/// comparable with the study.
fn fit(curve: &[(f64, f64)]) -> Option<ZipfFit> {
    if curve.len() < 3 {
        return None;
    }
    let n = curve.len() as f64;
    let logs = || curve.iter().map(|(rank, count)| (rank.ln(), count.ln()));
    let mean_x = logs().map(|(x, _)| x).sum::<f64>() / n;
    let mean_y = logs().map(|(_, y)| y).sum::<f64>() / n;
    let xx: f64 = logs().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let yy: f64 = logs().map(|(_, y)| (y - mean_y).powi(2)).sum();
    let xy: f64 = logs().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let slope = xy / xx;
    let r_squared = if yy > 0.0 { xy * xy / (xx * yy) } else { 1.0 };
    Some(ZipfFit {
        alpha: -slope,
        r_squared,
        first_count: (mean_y - slope * mean_x).exp(),
    })
}

/// Describes where the counts deviate from the line.
fn deviation(curve: &[(f64, f64)], fit: ZipfFit) -> String {
    let ratio = |(rank, count): &(f64, f64)| count / (fit.first_count * rank.powf(-fit.alpha));
    let mean = |points: &[(f64, f64)]| {
        let logs: f64 = points.iter().map(|p| ratio(p).ln()).sum();
        (logs / points.len().max(1) as f64).exp()
    };
    // First and last decade of ranks.
    let last = curve.last().map_or(1.0, |p| p.0);
    let head_end = curve.partition_point(|p| p.0 <= 10.0);
    let tail_start = curve.partition_point(|p| p.0 < last / 10.0);
    let describe = |name: &str, ratio: f64| {
        if ratio > DEVIATES {
            Some(format!(
                "the {name} popular objects have {ratio:.1} times the requests that the law predicts"
            ))
        } else if ratio < 1.0 / DEVIATES {
            let times = 1.0 / ratio;
            Some(format!(
                "the {name} popular objects have {times:.1} times fewer requests than the law predicts"
            ))
        } else {
            None
        }
    };
    let parts: Vec<String> = [
        describe("ten most", mean(&curve[..head_end])),
        describe("least", mean(&curve[tail_start..])),
    ]
    .into_iter()
    .flatten()
    .collect();
    match parts.is_empty() {
        true => "follows the line at both ends".into(),
        false => parts.join("; "),
    }
}

/// Share of requests for the most popular `share` of the objects, sampled or not.
fn top_share(counts: &[u32], share: f64) -> f64 {
    let total: u64 = counts.iter().map(|c| u64::from(*c)).sum();
    let top = (counts.len() as f64 * share).ceil() as usize;
    let sum: u64 = counts.iter().take(top).map(|c| u64::from(*c)).sum();
    sum as f64 / total.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::objects::hash_of;

    fn filled(count_of: impl Fn(u64) -> u32, keys: u64) -> Popularity {
        let mut objects = Objects::new(keys as usize + 1);
        let mut requests = 0;
        for key in 0..keys {
            let (at, _) = objects.visit(key, hash_of(key)).expect("all are followed");
            objects.list[at].requests = count_of(key);
            requests += u64::from(count_of(key));
        }
        popularity(&objects, &HeavyHitters::default(), requests)
    }

    #[test]
    fn the_exponent_of_a_zipf_trace_is_found() {
        for alpha in [0.7, 1.0, 1.4] {
            let count = |key: u64| (1e7 * ((key + 1) as f64).powf(-alpha)).ceil() as u32;
            let result = filled(count, 20_000);
            let fit = result.fit.expect("many ranks");
            assert!((fit.alpha - alpha).abs() < 0.02, "{alpha}: {}", fit.alpha);
            assert!(fit.r_squared > 0.99);
            assert_eq!(result.deviation, "follows the line at both ends");
        }
    }

    #[test]
    fn a_flat_head_is_described() {
        let count = |key: u64| (1e7 * ((key + 1).max(200) as f64).powf(-1.2)).ceil() as u32;
        let result = filled(count, 20_000);
        assert!(
            result.deviation.contains("ten most popular objects have"),
            "{}",
            result.deviation
        );
        assert!(result.deviation.contains("fewer"), "{}", result.deviation);
    }

    #[test]
    fn top_shares_are_of_all_requests() {
        let result = filled(|key| if key < 10 { 991 } else { 1 }, 1000);
        assert!((result.top_shares[1] - 9910.0 / 10_900.0).abs() < 1e-9);
        assert_eq!(result.top.len(), LISTED);
        assert_eq!((result.top[0].key, result.top[0].requests_min), (9, 991));
        assert_eq!(result.mean_requests, 10.9);
    }

    #[test]
    fn a_single_object_has_no_exponent() {
        let result = filled(|_| 5, 1);
        assert!(result.fit.is_none());
        assert_eq!(result.top_shares, [1.0; 4]);
    }
}
