//! One-hit wonders in pieces of a trace: the share of a piece's objects that it requests only once.
//! During a piece, a cache should not keep these objects.
//!
//! The length of a piece is its number of distinct objects (Yang, "Designing Efficient and Scalable
//! Key-value Cache Management Systems", CMU 2024, section 8.2). The number of objects in the whole
//! trace is known only at its end. Pieces of every power of two are therefore measured during the
//! pass, one after the other, and the requested shares are interpolated on that curve. Long pieces
//! are measured on a sample of the keys, with about [`SAMPLE`] objects per piece.

use super::objects::HashMapOf;
use serde::Serialize;

/// Sampled objects of a piece.
const SAMPLE: u64 = 1024;
/// Shortest piece, in objects.
const SHORTEST: u64 = 64;
/// Number of piece lengths, each twice the previous one: the longest has 2^37 objects.
const LEVELS: usize = 32;
/// Maximum number of piece lengths skipped between two pieces. Each measured length costs a look-up
/// per request, so one more length is skipped for each [`DENSE`] pieces measured.
const REST_MAX: u64 = 15;
/// Number of measured pieces after which one more piece length is skipped.
const DENSE: u64 = 4;

struct Level {
    objects: u64,
    /// Keys whose rotated hash is at most this are sampled.
    threshold: u64,
    counts: HashMapOf<u32>,
    once: u64,
    /// Requests since the piece began.
    requests: u64,
    to_skip: u64,
    pieces: u64,
    /// Sum of the ratios, each weighted by the length that the piece represents: itself and the
    /// skipped requests after it. The next field is the sum of the weights.
    ratio_sum: f64,
    weight_sum: f64,
}

/// Measures all piece lengths at the same time.
pub(crate) struct OneHit {
    levels: Vec<Level>,
}

/// Point of the curve over piece lengths.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct OneHitPoint {
    /// Distinct objects of a piece.
    pub objects: f64,
    /// Mean share of a piece's objects that the piece requests only once.
    pub ratio: f64,
    /// Number of pieces measured.
    pub pieces: u64,
}

/// One-hit wonders of the whole trace and of pieces.
#[derive(Clone, Debug, Serialize)]
pub struct OneHitWonders {
    /// Share of one-hit wonders of the whole trace.
    pub whole: f64,
    /// Share in pieces with 50 % of the objects; `None` if these are too few to measure.
    pub half: Option<f64>,
    /// Share in pieces with 10 % of the objects.
    pub tenth: Option<f64>,
    /// Share in pieces with 1 % of the objects.
    pub hundredth: Option<f64>,
    /// Curve over piece lengths, short pieces first; the last point is the whole trace.
    pub curve: Vec<OneHitPoint>,
}

impl Level {
    fn new(objects: u64) -> Self {
        let threshold = match objects <= SAMPLE {
            true => u64::MAX,
            false => u64::MAX / (objects / SAMPLE),
        };
        Level {
            objects,
            threshold,
            counts: HashMapOf::default(),
            once: 0,
            requests: 0,
            to_skip: 0,
            pieces: 0,
            ratio_sum: 0.0,
            weight_sum: 0.0,
        }
    }

    #[inline]
    fn push(&mut self, hash: u64) {
        if self.to_skip > 0 {
            self.to_skip -= 1;
            return;
        }
        self.requests += 1;
        let count = self.counts.entry(hash).or_insert(0);
        *count += 1;
        match *count {
            1 => self.once += 1,
            2 => self.once -= 1,
            _ => {}
        }
        if self.counts.len() as u64 >= self.objects.min(SAMPLE) {
            self.pieces += 1;
            let rest = (self.pieces / DENSE).min(REST_MAX);
            let weight = (1 + rest) as f64;
            self.ratio_sum += weight * self.once as f64 / self.counts.len() as f64;
            self.weight_sum += weight;
            self.to_skip = self.requests * rest;
            self.counts.clear();
            self.once = 0;
            self.requests = 0;
        }
    }
}

impl Default for OneHit {
    fn default() -> Self {
        let levels = (0..LEVELS).map(|n| Level::new(SHORTEST << n)).collect();
        OneHit { levels }
    }
}

impl OneHit {
    /// Adds a request by [`super::objects::hash_of`] its key.
    #[inline]
    pub fn push(&mut self, hash: u64) {
        // Uses other bits than the sample of objects and the map of counts.
        let rank = hash.rotate_left(29).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for level in &mut self.levels {
            if rank > level.threshold {
                return;
            }
            level.push(hash);
        }
    }

    /// Returns the result, given the number of objects and the share of the whole trace.
    pub fn finish(&self, objects: f64, whole: f64) -> OneHitWonders {
        let complete = |l: &&Level| l.pieces > 0 && (l.objects as f64) < objects;
        let mut curve: Vec<OneHitPoint> = self
            .levels
            .iter()
            .filter(complete)
            .map(|l| OneHitPoint {
                objects: l.objects as f64,
                ratio: l.ratio_sum / l.weight_sum,
                pieces: l.pieces,
            })
            .collect();
        curve.push(OneHitPoint {
            objects,
            ratio: whole,
            pieces: 1,
        });
        OneHitWonders {
            whole,
            half: read_off(&curve, objects * 0.5),
            tenth: read_off(&curve, objects * 0.1),
            hundredth: read_off(&curve, objects * 0.01),
            curve,
        }
    }
}

/// Interpolates the share at a number of objects, linearly in the logarithm.
fn read_off(curve: &[OneHitPoint], objects: f64) -> Option<f64> {
    let after = curve.iter().position(|p| p.objects >= objects)?;
    let high = curve[after];
    if after == 0 {
        return (high.objects == objects).then_some(high.ratio);
    }
    let low = curve[after - 1];
    let share = (objects / low.objects).ln() / (high.objects / low.objects).ln();
    Some(low.ratio + share * (high.ratio - low.ratio))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::objects::hash_of;
    use std::collections::HashMap;
    use trace::{Random, Zipf};

    /// Computes the share by its definition: pieces from random starts, with every key counted.
    fn naive(keys: &[u64], objects: usize, seed: u64) -> f64 {
        let mut random = Random::new(seed);
        let (mut sum, mut pieces) = (0.0, 0);
        while pieces < 40 {
            let start = random.below(keys.len() as u64) as usize;
            let mut counts: HashMap<u64, u32> = HashMap::new();
            for key in &keys[start..] {
                *counts.entry(*key).or_insert(0) += 1;
                if counts.len() == objects {
                    sum += counts.values().filter(|c| **c == 1).count() as f64 / objects as f64;
                    pieces += 1;
                    break;
                }
            }
        }
        sum / f64::from(pieces)
    }

    #[test]
    fn pieces_are_measured_as_the_definition_says() {
        let keys: Vec<u64> = Zipf::new(40_000, 0.9, 7).take(600_000).collect();
        let mut one_hit = OneHit::default();
        keys.iter().for_each(|key| one_hit.push(hash_of(*key)));
        let mut counts: HashMap<u64, u32> = HashMap::new();
        keys.iter()
            .for_each(|k| *counts.entry(*k).or_insert(0) += 1);
        let whole = counts.values().filter(|c| **c == 1).count() as f64 / counts.len() as f64;
        let result = one_hit.finish(counts.len() as f64, whole);
        assert_eq!(result.whole, whole);
        for (got, share) in [
            (result.half, 0.5),
            (result.tenth, 0.1),
            (result.hundredth, 0.01),
        ] {
            let want = naive(&keys, (counts.len() as f64 * share) as usize, 3);
            let got = got.expect("the trace is long enough");
            assert!(
                (got - want).abs() < 0.03,
                "{share}: {got} instead of {want}"
            );
        }
        assert!(result.curve.is_sorted_by(|a, b| a.ratio >= b.ratio - 0.02));
    }

    #[test]
    fn a_single_object_is_not_a_one_hit_wonder() {
        let mut one_hit = OneHit::default();
        (0..100).for_each(|_| one_hit.push(hash_of(1)));
        let result = one_hit.finish(1.0, 0.0);
        assert_eq!((result.whole, result.half), (0.0, None));
    }

    #[test]
    fn a_trace_of_distinct_objects_has_one_hit_wonders_only() {
        let mut one_hit = OneHit::default();
        (0..200_000).for_each(|key| one_hit.push(hash_of(key)));
        let result = one_hit.finish(200_000.0, 1.0);
        for ratio in [result.half, result.tenth, result.hundredth] {
            assert_eq!(ratio, Some(1.0));
        }
    }
}
