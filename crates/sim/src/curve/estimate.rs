//! Estimates the miss ratio of a whole trace from the misses of a sample.
//!
//! By chance, a uniform sample of the objects has too many or too few of the popular ones, which
//! receive most of the requests. Its own miss ratio is therefore far off. SHARDS corrects the total
//! number of requests. Here, each class of popularity is corrected separately (post-stratification:
//! Holt, Smith, "Post stratification", J. R. Stat. Soc. A 142(1), 1979): the sample gives the miss
//! ratio of objects with n requests, and a count over all objects gives the number of such
//! requests. On the open traces, this divides the error by two to four, and by up to ten where few
//! objects receive most of the requests.

use crate::Columns;
use trace::Random;

/// Number of popularity classes, two for each power of two of requests.
const CLASSES: usize = 64;
/// Number of resamples for computing a standard error.
const RESAMPLES: usize = 64;

/// Requests and bytes of the whole trace by popularity class.
#[derive(Clone, Debug)]
pub(crate) struct Strata {
    requests: [f64; CLASSES],
    bytes: [f64; CLASSES],
}

/// Class of an object with this many requests.
#[inline]
fn class_of(requests: u32) -> usize {
    if requests < 2 {
        return 0;
    }
    let log = requests.ilog2() as usize;
    let is_upper = requests >= 3 << (log - 1);
    2 * log + usize::from(is_upper)
}

impl Strata {
    /// Computes the classes from requests and sizes of objects, which are this `share` of all
    /// objects.
    pub fn new(objects: impl Iterator<Item = (u32, u32)>, share: f64) -> Self {
        let mut strata = Strata {
            requests: [0.0; CLASSES],
            bytes: [0.0; CLASSES],
        };
        for (requests, size) in objects {
            let class = class_of(requests);
            strata.requests[class] += f64::from(requests) / share;
            strata.bytes[class] += f64::from(requests) * f64::from(size) / share;
        }
        strata
    }
}

/// Estimate for the whole trace from one replay of the sample.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ratios {
    pub miss_ratio: f64,
    pub byte_miss_ratio: f64,
    /// Standard error of the miss ratio, from resampling the objects.
    pub error: f64,
}

/// A sample and its resamples.
pub(crate) struct Replayed<'a> {
    columns: &'a Columns,
    strata: &'a Strata,
    /// Number of requests by object.
    requests: Vec<u32>,
    classes: Vec<u8>,
    /// For each object, how often each resample draws it.
    draws: Vec<[u8; RESAMPLES]>,
}

/// Requests and misses of the sampled objects of one class.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    requests: f64,
    misses: f64,
}

impl<'a> Replayed<'a> {
    /// Prepares the sample of these columns; `seed` determines the resamples.
    pub fn new(columns: &'a Columns, strata: &'a Strata, seed: u64) -> Self {
        let mut requests = vec![0u32; columns.objects()];
        for id in &columns.ids {
            requests[*id as usize] += 1;
        }
        let mut random = Random::new(seed);
        let draws = requests
            .iter()
            .map(|_| [(); RESAMPLES].map(|()| poisson(&mut random)));
        Replayed {
            columns,
            strata,
            classes: requests.iter().map(|n| class_of(*n) as u8).collect(),
            draws: draws.collect(),
            requests,
        }
    }

    /// Estimates the miss ratio of the whole trace from each sampled object's misses.
    pub fn ratios(&self, misses: &[u32]) -> Ratios {
        let mut sums = [Sums::default(); CLASSES];
        let mut byte_sums = [Sums::default(); CLASSES];
        let mut drawn = vec![[Sums::default(); RESAMPLES]; CLASSES];
        for (object, &missed) in misses.iter().enumerate() {
            let class = usize::from(self.classes[object]);
            let (requests, missed) = (f64::from(self.requests[object]), f64::from(missed));
            let size = f64::from(self.columns.sizes[object]);
            sums[class].requests += requests;
            sums[class].misses += missed;
            byte_sums[class].requests += requests * size;
            byte_sums[class].misses += missed * size;
            for (sums, draws) in drawn[class].iter_mut().zip(self.draws[object]) {
                sums.requests += requests * f64::from(draws);
                sums.misses += missed * f64::from(draws);
            }
        }
        let estimates: Vec<f64> = (0..RESAMPLES)
            .map(|resample| {
                let sums = std::array::from_fn(|class| drawn[class][resample]);
                ratio(&self.strata.requests, &sums)
            })
            .collect();
        let mean = estimates.iter().sum::<f64>() / RESAMPLES as f64;
        let squares: f64 = estimates.iter().map(|e| (e - mean).powi(2)).sum();
        Ratios {
            miss_ratio: ratio(&self.strata.requests, &sums),
            byte_miss_ratio: ratio(&self.strata.bytes, &byte_sums),
            error: (squares / (RESAMPLES - 1) as f64).sqrt(),
        }
    }
}

/// Miss ratio of the whole trace if each class misses like its sampled objects. A class without
/// sampled objects is counted with the next less popular one.
fn ratio(whole: &[f64; CLASSES], sums: &[Sums; CLASSES]) -> f64 {
    let total: f64 = whole.iter().sum();
    let mut missed = 0.0;
    let mut waiting = 0.0;
    let mut last = 0.0;
    for class in (0..CLASSES).rev() {
        waiting += whole[class];
        if sums[class].requests > 0.0 {
            last = sums[class].misses / sums[class].requests;
            missed += waiting * last;
            waiting = 0.0;
        }
    }
    ((missed + waiting * last) / total.max(1.0)).clamp(0.0, 1.0)
}

/// Draws from the Poisson distribution with mean 1: how often an object is drawn when n objects are
/// drawn with replacement from n.
fn poisson(random: &mut Random) -> u8 {
    let mut rest = random.fraction();
    let mut chance = (-1f64).exp();
    let mut count = 0u8;
    while rest >= chance && count < 12 {
        rest -= chance;
        count += 1;
        chance /= f64::from(count);
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_half_powers_of_two() {
        let classes: Vec<usize> = [1, 2, 3, 4, 5, 6, 7, 8, 11, 12, u32::MAX]
            .map(class_of)
            .into();
        assert_eq!(classes, [0, 2, 3, 4, 4, 5, 5, 6, 6, 7, 63]);
    }

    #[test]
    fn a_class_without_objects_counts_with_the_next_less_popular() {
        let mut whole = [0.0; CLASSES];
        (whole[0], whole[4], whole[9]) = (100.0, 200.0, 700.0);
        let mut sums = [Sums::default(); CLASSES];
        sums[0] = Sums {
            requests: 10.0,
            misses: 10.0,
        };
        sums[4] = Sums {
            requests: 20.0,
            misses: 5.0,
        };
        let got = ratio(&whole, &sums);
        assert!((got - (100.0 + 900.0 * 0.25) / 1000.0).abs() < 1e-12);
        assert_eq!(ratio(&whole, &[Sums::default(); CLASSES]), 0.0);
    }

    #[test]
    fn resamples_draw_each_object_once_on_average() {
        let mut random = Random::new(3);
        let draws: Vec<u32> = (0..100_000).map(|_| poisson(&mut random).into()).collect();
        let mean = draws.iter().sum::<u32>() as f64 / 1e5;
        let none = draws.iter().filter(|d| **d == 0).count() as f64 / 1e5;
        assert!((mean - 1.0).abs() < 0.02 && (none - 0.3679).abs() < 0.01);
    }
}
