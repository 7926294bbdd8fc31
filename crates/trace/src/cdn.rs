//! A made-up trace of what the servers of a content delivery network are asked for.
//!
//! Whole, not request by request: how often each object is asked for is drawn first, then when. So the
//! shares that make such a trace what it is are met by construction and not on average.
//!
//! Source: what J. Yang, *Designing efficient and scalable key-value cache management systems*, Carnegie
//! Mellon University 2024, section 5.2, tells of a week of web and of eighteen days of video traffic:
//! sizes from bytes to gigabytes, of which objects below 1 MB make 15 % (web) and 12 % (video) of the
//! bytes, and of the web's requests 95 %; 22 and 4.6 requests an object, about half of all objects
//! asked for once. What it does not tell is chosen here: counts above one follow a bounded power law,
//! small sizes a lognormal, large ones 1 MB and a lognormal, of which a million requests for video reach
//! some hundred megabytes, and only longer traces gigabytes; half of the objects are asked for evenly,
//! the others mostly when they are young; the more popular a video, the likelier it is large.

use crate::random::Random;
use crate::request::Request;
use crate::sizes::normal;
use std::fmt;
use std::str::FromStr;

/// From here on an object is called large.
pub const LARGE_BYTES: u32 = 1_000_000;
/// The largest object, unless a smaller one is asked for.
pub const CDN_LARGEST_BYTES: u32 = 4_000_000_000;
/// Fewer would not show the shares.
pub const CDN_REQUESTS_MIN: u64 = 1_000;
/// Requests are kept in memory, 8 bytes each, and so are numbered in 32 bits.
pub const CDN_REQUESTS_MAX: u64 = 1 << 31;

const DAY_MS: u64 = 86_400_000;
/// The share of objects that are asked for once.
const ONE_HIT: f64 = 0.5;
/// The most popular object's share of all requests.
const POPULAR_MAX: f64 = 0.01;
/// The share of objects that are popular when young, and the mean age of such requests, of the span.
const YOUNG: f64 = 0.5;
const YOUNG_AGE: f64 = 1.0 / 12.0;
/// Streams of chance of the same object that shall not follow each other.
const TIMES: u64 = 0x7133;
const SIZES: u64 = 0x512E5;
/// Halvings that find the shape of the counts, and half as many for the scale of large sizes.
const HALVINGS: u32 = 60;

/// What a cluster serves.
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
            _ => Err(format!("{text:?} is neither web nor video")),
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

/// The published figures of one kind of content, and what was chosen to go with them.
struct Profile {
    requests_per_object: f64,
    days: u64,
    /// The share of all bytes that small objects have, and the share of objects that are large.
    small_bytes: f64,
    large_objects: f64,
    /// How much likelier a popular object is large: with the count to the power of this.
    tilt: f64,
    /// Small sizes: median, and standard deviation of the logarithm; of large ones the latter.
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

    /// The days that the published trace of this content spans.
    pub fn days(self) -> u64 {
        self.profile().days
    }
}

/// A trace of this kind, in the order of time. The number of requests is met but for rounding.
#[derive(Debug)]
pub struct Cdn {
    /// Time and object.
    requests: std::vec::IntoIter<(u32, u32)>,
    /// By object.
    sizes: Vec<u32>,
}

impl Cdn {
    /// Makes about so many requests, for objects of up to `largest` bytes. A trace of fewer requests than
    /// the published one has a smaller footprint, of which its largest objects are a larger share; a
    /// smaller `largest` mends that, and large objects have the same share of the bytes.
    ///
    /// # Errors
    /// Fewer than [`CDN_REQUESTS_MIN`] or more than [`CDN_REQUESTS_MAX`], or a `largest` that is below twice
    /// [`LARGE_BYTES`] or above [`CDN_LARGEST_BYTES`], in words.
    ///
    /// ```
    /// use trace::{CDN_LARGEST_BYTES, Cdn, Content};
    /// let trace = Cdn::new(Content::Web, 100_000, CDN_LARGEST_BYTES, 1).unwrap();
    /// assert!(trace.count().abs_diff(100_000) < 20_000);
    /// ```
    pub fn new(content: Content, requests: u64, largest: u32, seed: u64) -> Result<Cdn, String> {
        if !(2 * LARGE_BYTES..=CDN_LARGEST_BYTES).contains(&largest) {
            return Err(format!(
                "{largest} bytes: the largest object has from {} to {CDN_LARGEST_BYTES}",
                2 * LARGE_BYTES
            ));
        }
        if !(CDN_REQUESTS_MIN..=CDN_REQUESTS_MAX).contains(&requests) {
            return Err(format!(
                "{requests} requests: a made-up trace has from {CDN_REQUESTS_MIN} to \
                 {CDN_REQUESTS_MAX}"
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
                    // Who is born late has his later requests at the beginning, as if from the
                    // time before: the trace is alike throughout.
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

    /// How many objects there are.
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

/// How often each object is asked for: [`ONE_HIT`] of them once, the others by a power law that has
/// the wanted mean. The law's quantiles are taken evenly, so a small trace has the mean, too.
fn counts(profile: &Profile, requests: u64, seed: u64) -> Vec<u32> {
    let mean = profile.requests_per_object;
    let objects = (requests as f64 / mean) as usize;
    let once = (objects as f64 * ONE_HIT) as usize;
    let wanted = (mean - ONE_HIT) / (1.0 - ONE_HIT);
    // Rounded, a draw from 1.5 on is at least 2.
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
        // The integral of x^−shape, which is a logarithm at 1.
        let integral = match over.abs() < 1e-9 {
            true => (high / low).ln(),
            false => (ratio.powf(-over) - 1.0) / over,
        };
        low * shape * integral / (1.0 - ratio.powf(shape))
    }
}

/// The shape at which the law has this mean: the larger the shape, the smaller the mean.
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

/// A size for each object. What large ones have above [`LARGE_BYTES`] is scaled to their share.
fn sizes(profile: &Profile, counts: &[u32], largest: u32, seed: u64) -> Vec<u32> {
    let tilted = |count: u32| f64::from(count).powf(profile.tilt);
    let tilts: f64 = counts.iter().map(|&count| tilted(count)).sum();
    let base = profile.large_objects * counts.len() as f64 / tilts;
    let (median, sigma) = profile.small;
    let limit = f64::from(LARGE_BYTES);
    let mut small_sum = 0.0;
    // Bytes of a small object; of a large one what it has above the limit, before scaling, negative.
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
    // Halved in logarithms: from a millionth of a byte to more than any object has.
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

    /// What section 5.2 tells of a trace, measured.
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
    fn a_made_up_trace_has_the_published_shares() {
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
                // At this length the tail of sizes ends by itself below a gigabyte; a lower limit
                // is met and not passed.
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
    fn what_cannot_be_made_is_refused() {
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
