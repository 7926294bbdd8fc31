//! Generator of requests to the servers of a content delivery network.
//!
//! The trace is generated as a whole: first the number of requests for each object, then their
//! times. The shares below therefore hold exactly, not just on average.
//!
//! Source: J. Yang, *Designing efficient and scalable key-value cache management systems*, Carnegie
//! Mellon University 2024, section 5.2, on a week of web traffic and eighteen days of video
//! traffic.
//! - Sizes range from bytes to gigabytes. Objects below 1 MB have 15 % (web) and 12 % (video) of
//!   the bytes, and 95 % of the web's requests.
//! - There are 22 (web) and 4.6 (video) requests for each object, and about half of all objects are
//!   requested once.
//!
//! What the source does not specify is chosen here:
//! - Numbers of requests above one follow a bounded power law.
//! - Small sizes follow a lognormal distribution. Large ones are 1 MB and a lognormal; a million
//!   video requests reach some hundred megabytes, and only longer traces reach gigabytes.
//! - Half of the objects are requested evenly over time, the others mostly soon after they appear.
//! - The more popular a video is, the more likely it is large.

use crate::random::Random;
use crate::request::Request;
use crate::sizes::normal;
use std::fmt;
use std::str::FromStr;

/// Objects of at least this many bytes are called large.
pub const LARGE_BYTES: u32 = 1_000_000;
/// Maximum size of an object in bytes, unless a smaller one is given.
pub const CDN_LARGEST_BYTES: u32 = 4_000_000_000;
/// Minimum number of requests; fewer would not show the published shares.
pub const CDN_REQUESTS_MIN: u64 = 1_000;
/// Maximum number of requests. They are held in memory at 8 bytes each, and numbered in 32 bits.
pub const CDN_REQUESTS_MAX: u64 = 1 << 31;

const DAY_MS: u64 = 86_400_000;
/// Share of objects that are requested once.
const ONE_HIT: f64 = 0.5;
/// Share of the requests that are for the most popular object.
const POPULAR_MAX: f64 = 0.01;
/// Share of objects that are popular while they are young, and the mean age of such requests as a
/// part of the trace's span.
const YOUNG: f64 = 0.5;
const YOUNG_AGE: f64 = 1.0 / 12.0;
/// Constants that separate the random streams of one object.
const TIMES: u64 = 0x7133;
const SIZES: u64 = 0x512E5;
/// Number of bisection steps that find the shape of the power law; half as many find the scale of
/// large sizes.
const HALVINGS: u32 = 60;

/// Kind of content that a cluster serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Pages and downloads, over a week.
    Web,
    /// Films, over eighteen days.
    Video,
}

impl FromStr for Content {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "web" => Ok(Content::Web),
            "video" => Ok(Content::Video),
            _ => Err(format!("content {text:?}: expected web or video")),
        }
    }
}

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Content::Web => "web",
            Content::Video => "video",
        })
    }
}

/// Published figures of one kind of content, and parameters chosen so that the generator reproduces
/// them.
struct Profile {
    requests_per_object: f64,
    days: u64,
    /// Share of small objects in all bytes, and share of large objects in all objects.
    small_bytes: f64,
    large_objects: f64,
    /// Exponent of the request count in the probability that an object is large.
    tilt: f64,
    /// Median of small sizes, standard deviation of their logarithm, and the same deviation of
    /// large sizes.
    small: (f64, f64),
    large_sigma: f64,
}

impl Content {
    fn profile(self) -> Profile {
        match self {
            Content::Web => Profile {
                requests_per_object: 22.0,
                days: 7,
                small_bytes: 0.15,
                large_objects: 0.045,
                tilt: 0.0,
                small: (10_000.0, 1.7),
                large_sigma: 2.0,
            },
            Content::Video => Profile {
                requests_per_object: 4.6,
                days: 18,
                small_bytes: 0.12,
                large_objects: 0.2,
                tilt: 0.25,
                small: (60_000.0, 1.6),
                large_sigma: 1.6,
            },
        }
    }

    /// Returns the number of days that the published trace of this content spans.
    pub fn days(self) -> u64 {
        self.profile().days
    }
}

/// A generated trace in chronological order. The number of requests differs from the requested one
/// only by rounding.
#[derive(Debug)]
pub struct Cdn {
    /// Time and object of each request.
    requests: std::vec::IntoIter<(u32, u32)>,
    /// Size of each object.
    sizes: Vec<u32>,
}

impl Cdn {
    /// Generates about `requests` requests for objects of up to `largest` bytes. A trace with fewer
    /// requests than the published one has a smaller footprint, so that its largest objects are a
    /// larger share of it. A smaller `largest` corrects that and leaves the share of large objects
    /// in all bytes unchanged.
    ///
    /// # Errors
    /// `requests` is below [`CDN_REQUESTS_MIN`] or above [`CDN_REQUESTS_MAX`], or `largest` is
    /// below twice
    /// [`LARGE_BYTES`] or above [`CDN_LARGEST_BYTES`].
    ///
    /// ```
    /// use trace::{CDN_LARGEST_BYTES, Cdn, Content};
    /// let trace = Cdn::new(Content::Web, 100_000, CDN_LARGEST_BYTES, 1).unwrap();
    /// assert!(trace.count().abs_diff(100_000) < 20_000);
    /// ```
    pub fn new(content: Content, requests: u64, largest: u32, seed: u64) -> Result<Cdn, String> {
        if !(2 * LARGE_BYTES..=CDN_LARGEST_BYTES).contains(&largest) {
            return Err(format!(
                "largest object of {largest} bytes: expected from {} to {CDN_LARGEST_BYTES}",
                2 * LARGE_BYTES
            ));
        }
        if !(CDN_REQUESTS_MIN..=CDN_REQUESTS_MAX).contains(&requests) {
            return Err(format!(
                "{requests} requests: expected from {CDN_REQUESTS_MIN} to {CDN_REQUESTS_MAX}"
            ));
        }
        let profile = content.profile();
        let counts = counts(&profile, requests, seed);
        let sizes = sizes(&profile, &counts, largest, seed);
        let span_ms = profile.days * DAY_MS;
        let mut all = Vec::with_capacity(requests as usize + requests as usize / 16);
        for (object, &count) in counts.iter().enumerate() {
            let mut random = Random::of_key(seed ^ TIMES, object as u64);
            let is_young = count > 1 && random.fraction() < YOUNG;
            let birth = random.fraction();
            for _ in 0..count {
                let at = match is_young {
                    // Times after the end of the trace wrap to its beginning, as if they came from
                    // objects born before it. So the trace has the same mix of ages throughout.
                    true => (birth - (1.0 - random.fraction()).ln() * YOUNG_AGE).fract(),
                    false => random.fraction(),
                };
                all.push(((at * span_ms as f64) as u32, object as u32));
            }
        }
        all.sort_unstable();
        Ok(Cdn {
            requests: all.into_iter(),
            sizes,
        })
    }

    /// Returns the number of objects.
    pub fn objects(&self) -> usize {
        self.sizes.len()
    }
}

impl Iterator for Cdn {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        let (time_ms, object) = self.requests.next()?;
        let size = self.sizes[object as usize];
        Some(Request::new(u64::from(time_ms), u64::from(object), size))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.requests.size_hint()
    }
}

/// Returns the number of requests for each object: 1 for a share of [`ONE_HIT`], and a power law
/// with the required mean for the others. Its quantiles are taken evenly, so that a short trace has
/// the mean, too.
fn counts(profile: &Profile, requests: u64, seed: u64) -> Vec<u32> {
    let mean = profile.requests_per_object;
    let objects = (requests as f64 / mean) as usize;
    let once = (objects as f64 * ONE_HIT) as usize;
    let wanted = (mean - ONE_HIT) / (1.0 - ONE_HIT);
    // Rounded, a draw of 1.5 or more is at least 2.
    let (low, high) = (1.5, (requests as f64 * POPULAR_MAX).max(3.0 * wanted));
    let shape = shape_of_mean(wanted, low, high);
    let law = BoundedPareto { low, high, shape };
    let mut random = Random::new(seed);
    let several = objects - once;
    let mut counts = vec![1; objects];
    for (index, count) in counts[once..].iter_mut().enumerate() {
        let share = (index as f64 + random.fraction()) / several as f64;
        *count = law.quantile(share).round().max(2.0) as u32;
    }
    counts
}

struct BoundedPareto {
    low: f64,
    high: f64,
    shape: f64,
}

impl BoundedPareto {
    fn quantile(&self, share: f64) -> f64 {
        let cut = 1.0 - (self.low / self.high).powf(self.shape);
        self.low * (1.0 - share * cut).powf(-1.0 / self.shape)
    }

    fn mean(&self) -> f64 {
        let BoundedPareto { low, high, shape } = *self;
        let ratio = low / high;
        let over = 1.0 - shape;
        // Integral of x^−shape, which is a logarithm at shape 1.
        let integral = match over.abs() < 1e-9 {
            true => (high / low).ln(),
            false => (ratio.powf(-over) - 1.0) / over,
        };
        low * shape * integral / (1.0 - ratio.powf(shape))
    }
}

/// Returns the shape at which the power law has this mean, by bisection: the mean decreases with
/// the shape.
fn shape_of_mean(mean: f64, low: f64, high: f64) -> f64 {
    let (mut least, mut most) = (0.01, 20.0);
    for _ in 0..HALVINGS {
        let shape = (least + most) / 2.0;
        match (BoundedPareto { low, high, shape }).mean() > mean {
            true => least = shape,
            false => most = shape,
        }
    }
    (least + most) / 2.0
}

/// Returns the size of each object. The parts of large sizes above [`LARGE_BYTES`] are scaled so
/// that large objects have their share of all bytes.
fn sizes(profile: &Profile, counts: &[u32], largest: u32, seed: u64) -> Vec<u32> {
    let tilted = |count: u32| f64::from(count).powf(profile.tilt);
    let tilts: f64 = counts.iter().map(|&count| tilted(count)).sum();
    let base = profile.large_objects * counts.len() as f64 / tilts;
    let (median, sigma) = profile.small;
    let limit = f64::from(LARGE_BYTES);
    let mut small_sum = 0.0;
    // Returns the size of a small object; of a large one the part above the limit, before scaling
    // and negated.
    let draw = |(object, &count): (usize, &u32)| {
        let mut random = Random::of_key(seed ^ SIZES, object as u64);
        if random.fraction() < base * tilted(count) {
            let excess = (profile.large_sigma * normal(&mut random)).exp();
            return -excess;
        }
        loop {
            let size = (median * (sigma * normal(&mut random)).exp()).max(1.0);
            if size < limit {
                small_sum += size.floor();
                return size;
            }
        }
    };
    let drawn: Vec<f64> = counts.iter().enumerate().map(draw).collect();
    let large_sum = small_sum * (1.0 - profile.small_bytes) / profile.small_bytes;
    let scaled = |drawn: f64, factor: f64| (limit - drawn * factor).min(f64::from(largest));
    let excesses: Vec<f64> = drawn.iter().copied().filter(|drawn| *drawn < 0.0).collect();
    let sum = |factor: f64| {
        excesses
            .iter()
            .map(|excess| scaled(*excess, factor))
            .sum::<f64>()
    };
    // Bisection of the exponent of 10: from a millionth of a byte to more than any object has.
    let (mut least, mut most) = (-6.0, 12.0);
    for _ in 0..HALVINGS / 2 {
        let middle = (least + most) / 2.0;
        match sum(10f64.powf(middle)) < large_sum {
            true => least = middle,
            false => most = middle,
        }
    }
    let factor = 10f64.powf(least);
    let size = |drawn: &f64| match *drawn < 0.0 {
        true => scaled(*drawn, factor) as u32,
        false => *drawn as u32,
    };
    drawn.iter().map(size).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The figures of section 5.2, measured in a trace.
    struct Measured {
        requests_per_object: f64,
        one_hit: f64,
        small_bytes: f64,
        small_requests: f64,
        sizes: (u32, u32),
    }

    fn measure(content: Content, largest: u32, seed: u64) -> Measured {
        let trace = Cdn::new(content, 300_000, largest, seed).expect("it is large enough");
        let mut counts = vec![0u32; trace.objects()];
        let mut sizes = vec![0u32; trace.objects()];
        let mut last_ms = 0;
        for request in trace {
            assert!(request.time_ms >= last_ms);
            assert!(request.time_ms < content.days() * DAY_MS);
            last_ms = request.time_ms;
            counts[request.key as usize] += 1;
            sizes[request.key as usize] = request.size;
        }
        assert!(counts.iter().all(|count| *count > 0));
        let requests: u32 = counts.iter().sum();
        let pairs = || counts.iter().zip(&sizes);
        let bytes = |is_counted: fn(u32) -> bool| -> f64 {
            let counted = sizes.iter().filter(|size| is_counted(**size));
            counted.map(|size| f64::from(*size)).sum()
        };
        let small = pairs().filter(|(_, size)| **size < LARGE_BYTES);
        let small_requests: u32 = small.map(|(count, _)| count).sum();
        Measured {
            requests_per_object: f64::from(requests) / counts.len() as f64,
            one_hit: pairs().filter(|(count, _)| **count == 1).count() as f64 / counts.len() as f64,
            small_bytes: bytes(|size| size < LARGE_BYTES) / bytes(|_| true),
            small_requests: f64::from(small_requests) / f64::from(requests),
            sizes: (
                sizes.iter().copied().min().unwrap_or(0),
                sizes.iter().copied().max().unwrap_or(0),
            ),
        }
    }

    #[test]
    fn a_generated_trace_has_the_published_shares() {
        for (content, requests_per_object, small_bytes) in
            [(Content::Web, 22.0, 0.15), (Content::Video, 4.6, 0.12)]
        {
            for (seed, largest) in [
                (1, CDN_LARGEST_BYTES),
                (2, CDN_LARGEST_BYTES),
                (1, 50_000_000),
            ] {
                let found = measure(content, largest, seed);
                let ratio = found.requests_per_object / requests_per_object;
                assert!((ratio - 1.0).abs() < 0.05, "{content}: {ratio}");
                assert!((0.4..=0.6).contains(&found.one_hit), "{}", found.one_hit);
                let share = found.small_bytes;
                assert!((share - small_bytes).abs() < 0.01, "{content}: {share}");
                let share = found.small_requests;
                match content {
                    Content::Web => assert!((share - 0.95).abs() < 0.03, "{share}"),
                    Content::Video => assert!((0.5..0.75).contains(&share), "{share}"),
                }
                assert!(found.sizes.0 < 2_000, "{:?}", found.sizes);
                // At this length the tail of sizes ends below a gigabyte by itself. A lower limit
                // is reached and not exceeded.
                let met = match largest {
                    CDN_LARGEST_BYTES => 80_000_000..1_000_000_000,
                    _ => largest..largest + 1,
                };
                assert!(met.contains(&found.sizes.1), "{:?}", found.sizes);
            }
        }
    }

    #[test]
    fn equal_seeds_give_equal_traces_and_others_differ() {
        let trace = |seed| -> Vec<Request> {
            let trace = Cdn::new(Content::Video, 2_000, CDN_LARGEST_BYTES, seed);
            trace.expect("it is large enough").collect()
        };
        assert_eq!(trace(1), trace(1));
        assert_ne!(trace(1), trace(2));
    }

    #[test]
    fn parameters_out_of_range_are_refused() {
        let (least, most, largest) = (CDN_REQUESTS_MIN, CDN_REQUESTS_MAX, CDN_LARGEST_BYTES);
        for (requests, largest) in [
            (least - 1, largest),
            (most + 1, largest),
            (least, largest + 1),
            (least, 1),
        ] {
            assert!(Cdn::new(Content::Web, requests, largest, 1).is_err());
        }
        for content in [Content::Web, Content::Video] {
            let trace = Cdn::new(content, least, largest, 1).expect("just enough");
            assert!(trace.count() > 500);
        }
    }
}
