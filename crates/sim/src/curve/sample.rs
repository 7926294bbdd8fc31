//! A spatial sample of a trace, taken in one pass, with the counts of the whole trace that
//! estimates need.
//!
//! Departure from SHARDS, which samples by a hash of the key: objects are sampled in the order of
//! their first requests, by their [`place`] in a shuffled order that takes an equal share of every
//! stretch. Objects that are requested together mostly have their first requests together, above
//! all in a loop or a scan. The sample thus has the same share of each loop, where a hash could
//! take a tenth more by chance, and the curve drops at the same size as the whole trace's. Objects
//! after the first million are sampled by hash, because recognizing new ones would need memory for
//! all.

use super::estimate::{Ratios, Replayed, Strata};
use super::{Curve, Point, configurations_that_fit};
use crate::contestant::{apart, joined};
use crate::segments::{self, SegmentsSpec};
use crate::sweep::sweep_objects;
use crate::{Columns, Configuration, Contestant, Error, Interner, Interning, Rules, Unit};
use learn::any::Spec;
use std::collections::HashSet;
use std::sync::atomic::AtomicU64;
use trace::{Random, Request, SampledMap};

/// Maximum number of objects whose requests are counted one by one; above it a sample of the keys
/// is counted.
const COUNTED: usize = 1 << 21;
/// Number of objects that are sampled in the order of their first requests.
const ORDERED: usize = 1 << 20;
/// Number of bits in a place, which are shuffled in groups of [`DIGIT_BITS`].
const PLACE_BITS: u32 = 32;
/// Number of bits in a digit of a place.
const DIGIT_BITS: u32 = 4;
/// Minimum number of objects in the scaled cache for trusted results: with fewer, misses and bounds
/// mean little.
const TRUSTED_OBJECTS: f64 = 32.0;
/// Minimum size of the scaled cache as a multiple of the largest object.
const TRUSTED_LARGEST: u64 = 4;
/// Minimum size of a scaled engine. Below it, there are too few segments to behave like a large
/// engine.
const ENGINE_TRUSTED: u64 = 64 * segment::SEGMENT_BYTES_MIN as u64;

/// Parameters of a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Minimum share of the objects.
    pub rate: f64,
    /// Minimum number of objects, or all if there are fewer.
    pub objects: usize,
    /// Random seed.
    pub seed: u64,
}

impl Default for Sampling {
    fn default() -> Self {
        Sampling {
            rate: 0.01,
            objects: 8192,
            seed: 1,
        }
    }
}

/// Requests and size of a counted object.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    requests: u32,
    size: u32,
    place: u32,
}

/// Position of an object in a shuffled order of all objects, as a fraction of 2^32, given the
/// number of objects with earlier first requests. Any 2^n consecutive objects from a multiple of
/// 2^n on are spread evenly, one in each 2^−n of the whole. A share of the order therefore takes
/// that share of every stretch, and each object is equally likely, even in periodic traces.
///
/// The number's bits are reversed (van der Corput's sequence), and every digit is shuffled randomly
/// depending on the digits above it (Owen, "Randomly permuted (t,m,s)-nets and (t,s)-sequences",
/// MCQMC 1994).
fn place(number: u32, seed: u64) -> u32 {
    let mask = (1u32 << DIGIT_BITS) - 1;
    let mut place = 0;
    let mut above = number;
    for level in 0..PLACE_BITS / DIGIT_BITS {
        let digit = (above & mask).reverse_bits() >> (u32::BITS - DIGIT_BITS);
        above >>= DIGIT_BITS;
        let node = u64::from(level) << u32::BITS | u64::from(above);
        let shuffle = Random::of_key(seed, node).bits() as u32 & mask;
        place = place << DIGIT_BITS | (digit ^ shuffle);
    }
    place
}

/// Position of an object that is sampled by hash.
#[inline]
fn place_of_key(key: u64, seed: u64) -> u32 {
    // Uses another seed than the counted sample of objects, so that the two are independent.
    (Random::of_key(!seed, key).bits() >> u32::BITS) as u32
}

/// Whether a position is within a share of all.
#[inline]
fn is_below(place: u32, share: f64) -> bool {
    f64::from(place) < share * 2f64.powi(PLACE_BITS as i32)
}

/// Takes a sample of requests.
pub struct Sampler {
    sampling: Sampling,
    share: f64,
    keys: HashSet<u64>,
    requests: Vec<Request>,
    counts: SampledMap<Count>,
    /// Positions of the objects sampled in order; set once further objects are sampled by hash.
    ordered: Option<SampledMap<u32>>,
    total: u64,
    options: Interning,
    name: String,
}

/// A sample and counts of the whole trace.
#[derive(Debug)]
pub struct Sample {
    /// Requests of the sample.
    columns: Columns,
    strata: Strata,
    /// Number of requests of the whole trace.
    requests: u64,
    /// Number of distinct objects of the whole trace, estimated above two million.
    objects: f64,
    footprint_bytes: f64,
    /// Share of the objects in the sample.
    share: f64,
    seed: u64,
}

impl Sampler {
    /// Creates an empty sample of the trace called `name`.
    pub fn new(name: &str, options: Interning, sampling: Sampling) -> Self {
        assert!(sampling.rate > 0.0 && sampling.rate <= 1.0);
        assert!(sampling.objects > 0);
        Sampler {
            sampling,
            share: 1.0,
            keys: HashSet::new(),
            requests: Vec::new(),
            counts: SampledMap::new(COUNTED, 0, sampling.seed),
            ordered: None,
            total: 0,
            options,
            name: name.into(),
        }
    }

    /// Adds the next request.
    ///
    /// # Errors
    /// The sample would need more memory than allowed.
    pub fn push(&mut self, request: &Request) -> Result<(), Error> {
        self.total += 1;
        let place = self.count(request);
        if is_below(place, self.share) {
            if self.requests.len() == self.requests.capacity() {
                self.check_memory()?;
            }
            self.requests.push(*request);
            // A known key is usually in the set of sampled keys, which is small.
            self.keys.insert(request.key);
            if self.keys.len() > 2 * self.sampling.objects && self.share > self.sampling.rate {
                self.keep((self.share / 2.0).max(self.sampling.rate));
            }
        }
        Ok(())
    }

    /// Counts a request and returns the position of its object.
    fn count(&mut self, request: &Request) -> u32 {
        let (number, seed) = (self.counts.len(), self.sampling.seed);
        let count = self.counts.entry(request.key, || Count {
            place: match number < ORDERED {
                true => place(number as u32, seed),
                false => place_of_key(request.key, seed),
            },
            ..Count::default()
        });
        let mut counted = None;
        if let Some(count) = count {
            count.requests = count.requests.saturating_add(1);
            count.size = request.size.max(1);
            counted = Some(count.place);
        }
        // This happens long before objects are no longer counted one by one.
        if self.ordered.is_none() && self.counts.len() > ORDERED {
            let ordered = self.counts.map(|count| count.place);
            self.ordered = Some(ordered);
        }
        counted.unwrap_or_else(|| self.place_of(request.key))
    }

    /// Position of a counted object.
    fn place_of(&self, key: u64) -> u32 {
        let ordered = match &self.ordered {
            Some(ordered) => ordered.get(key).copied(),
            None => self.counts.get(key).map(|count| count.place),
        };
        ordered.unwrap_or_else(|| place_of_key(key, self.sampling.seed))
    }

    /// Checks that the sample may take twice its current memory.
    fn check_memory(&self) -> Result<(), Error> {
        let needed = (2 * self.requests.len() * size_of::<Request>()) as u64;
        if needed <= self.options.memory_limit {
            return Ok(());
        }
        Err(Error::TooLarge {
            trace: self.name.clone(),
            requests: self.total,
            objects: (self.keys.len() as f64 / self.share) as u64,
            needed,
            limit: self.options.memory_limit,
        })
    }

    fn keep(&mut self, share: f64) {
        self.share = share;
        let mut keys = std::mem::take(&mut self.keys);
        keys.retain(|key| is_below(self.place_of(*key), share));
        self.requests.retain(|request| keys.contains(&request.key));
        self.keys = keys;
    }

    /// Returns the sample.
    ///
    /// # Errors
    /// Returns the errors of [`Interner`], and an error for a trace without requests.
    pub fn finish(mut self) -> Result<Sample, Error> {
        let wanted = self.sampling.objects as f64 / self.keys.len().max(1) as f64;
        if wanted < 1.0 && self.share > self.sampling.rate {
            self.keep((self.share * wanted).max(self.sampling.rate));
        }
        let seed = self.sampling.seed;
        self.counts.shrink();
        let objects = self.counts.len() as f64 / self.counts.share();
        let sizes: f64 = self.counts.values().map(|c| f64::from(c.size)).sum();
        let strata = Strata::new(
            self.counts.values().map(|c| (c.requests, c.size)),
            self.counts.share(),
        );
        let mut interner = Interner::new(&self.name, self.options);
        for request in &self.requests {
            interner.push(request)?;
        }
        let columns = interner.finish()?;
        Ok(Sample {
            // The actual share is used, not the requested rate, because it decides whether a loop
            // fits the scaled cache.
            share: (columns.objects() as f64 / objects).min(1.0),
            columns,
            strata,
            requests: self.total,
            objects,
            footprint_bytes: sizes / self.counts.share(),
            seed,
        })
    }
}

impl Sample {
    /// Requests of the sample.
    pub fn columns(&self) -> &Columns {
        &self.columns
    }

    /// Number of requests of the whole trace.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Whether the sample is the whole trace.
    pub fn is_whole(&self) -> bool {
        self.columns.len() as u64 == self.requests
    }

    /// Share of the objects in the sample.
    pub fn share(&self) -> f64 {
        self.share
    }

    /// Total weight of all objects of the whole trace, estimated above two million objects.
    pub fn footprint(&self, unit: Unit) -> u64 {
        match unit {
            Unit::Objects => self.objects.round() as u64,
            Unit::Bytes => self.footprint_bytes.round() as u64,
        }
    }

    /// Computes curves at ascending sizes of the whole trace. `done` counts requests of the sample.
    ///
    /// # Errors
    /// A policy that needs future requests; too little memory; an engine where objects are counted.
    pub fn curves(
        &self,
        rules: &Rules,
        contestants: &[impl Into<Contestant> + Clone],
        capacities: &[u64],
        jobs: usize,
        done: &AtomicU64,
    ) -> Result<Vec<Curve>, Error> {
        assert!(capacities.is_sorted());
        if self.is_whole() {
            return super::exact(&self.columns, rules, contestants, capacities, jobs, done);
        }
        let contestants: Vec<Contestant> = contestants.iter().cloned().map(Into::into).collect();
        let (policies, engines) = apart(&contestants);
        let replayed = Replayed::new(&self.columns, &self.strata, self.seed);
        let of_policies = self.of_policies(rules, &policies, capacities, jobs, done)?;
        let of_policies = of_policies.chunks(capacities.len()).map(|found| {
            let ratios = found.iter().map(|misses| Some(replayed.ratios(misses)));
            self.curve(rules, None, capacities, &ratios.collect::<Vec<_>>())
        });
        let of_policies = of_policies.collect();
        let of_engines = self.of_engines(rules, &engines, capacities, jobs, done)?;
        let of_engines = of_engines.iter().zip(&engines).map(|(found, spec)| {
            let ratios = found.iter();
            let ratios = ratios.map(|misses| misses.as_ref().map(|misses| replayed.ratios(misses)));
            self.curve(rules, Some(spec), capacities, &ratios.collect::<Vec<_>>())
        });
        Ok(joined(&contestants, of_policies, of_engines.collect()))
    }

    /// Returns the misses of each object, by policy and then by size.
    fn of_policies(
        &self,
        rules: &Rules,
        policies: &[Spec],
        capacities: &[u64],
        jobs: usize,
        done: &AtomicU64,
    ) -> Result<Vec<Vec<u32>>, Error> {
        if policies.iter().any(Spec::needs_future) {
            return Err(Error::NoFuture {
                trace: self.columns.name().into(),
            });
        }
        let mut configurations = Vec::new();
        for policy in policies {
            configurations.extend(capacities.iter().map(|&capacity| Configuration {
                policy: policy.clone(),
                capacity: self.scaled(capacity),
            }));
        }
        let found = sweep_objects(&self.columns, rules, &configurations, jobs, done)?;
        Ok(found.into_iter().map(|(_, misses)| misses).collect())
    }

    /// Returns the misses of each object, by engine and then by size; `None` at sizes too small for
    /// the engine.
    fn of_engines(
        &self,
        rules: &Rules,
        engines: &[SegmentsSpec],
        capacities: &[u64],
        jobs: usize,
        done: &AtomicU64,
    ) -> Result<Vec<Vec<Option<Vec<u32>>>>, Error> {
        if engines.is_empty() {
            return Ok(Vec::new());
        }
        let fitting = configurations_that_fit(engines, capacities, |size| self.scaled(size));
        let found = segments::sweep_objects(&self.columns, rules, &fitting, jobs, done)?;
        let mut found = found.into_iter();
        let mut of_spec = |spec: &SegmentsSpec| {
            let of_size = |&capacity: &u64| match spec.fits(self.scaled(capacity)) {
                true => found.next().map(|(_, misses)| misses),
                false => None,
            };
            capacities.iter().map(of_size).collect()
        };
        Ok(engines.iter().map(&mut of_spec).collect())
    }

    fn scaled(&self, capacity: u64) -> u64 {
        ((capacity as f64 * self.share).round() as u64).max(1)
    }

    /// Adds bounds to estimates, from two independent errors. The first is due to the choice of the
    /// sampled objects, and is measured by resampling. The second is due to the effective size of
    /// the scaled cache. If the cache holds c objects, the number of distinct sampled objects
    /// between two accesses has a standard deviation of √c. This shifts the ratio by the slope of
    /// the curve times 1/√c of the size.
    ///
    /// If the sample is too small for an engine (`None`), everything misses and the point is not
    /// trusted.
    fn curve(
        &self,
        rules: &Rules,
        engine: Option<&SegmentsSpec>,
        capacities: &[u64],
        estimates: &[Option<Ratios>],
    ) -> Curve {
        let unit = rules.unit;
        let overhead = match engine {
            Some(_) => 0.0,
            None => f64::from(rules.overhead),
        };
        let mean_weight = match unit {
            Unit::Objects => 1.0,
            Unit::Bytes => self.footprint_bytes / self.objects + overhead,
        };
        let largest = match (unit, engine) {
            (Unit::Objects, _) => 1,
            (Unit::Bytes, Some(_)) => ENGINE_TRUSTED / TRUSTED_LARGEST,
            (Unit::Bytes, None) => {
                let largest = self.columns.sizes.iter().copied().max();
                u64::from(largest.unwrap_or(1)) + u64::from(rules.overhead)
            }
        };
        let is_estimate: Vec<bool> = estimates.iter().map(Option::is_some).collect();
        let unknown = Ratios {
            miss_ratio: 1.0,
            byte_miss_ratio: 1.0,
            error: 0.5,
        };
        let estimates = estimates.iter().map(|estimate| estimate.unwrap_or(unknown));
        let estimates: Vec<Ratios> = estimates.collect();
        let slope = |from: usize, to: usize| {
            let sizes = capacities[to] as f64 / capacities[from] as f64;
            (estimates[from].miss_ratio - estimates[to].miss_ratio).abs() / sizes.ln()
        };
        let mut points = Vec::new();
        for (at, (&capacity, estimate)) in capacities.iter().zip(&estimates).enumerate() {
            let objects = capacity as f64 * self.share / mean_weight;
            let is_first = at == 0 || !is_estimate[at - 1];
            let before = if is_first { 0.0 } else { slope(at - 1, at) };
            let is_last = at + 1 == capacities.len();
            let after = if is_last { 0.0 } else { slope(at, at + 1) };
            let moved = before.max(after) * ((1.0 - self.share) / objects).sqrt();
            let error = 2.0 * (estimate.error.powi(2) + moved.powi(2)).sqrt();
            let is_large = self.scaled(capacity) >= TRUSTED_LARGEST * largest;
            points.push(Point {
                capacity,
                miss_ratio: estimate.miss_ratio,
                low: (estimate.miss_ratio - error).max(0.0),
                high: (estimate.miss_ratio + error).min(1.0),
                byte_miss_ratio: (unit == Unit::Bytes).then_some(estimate.byte_miss_ratio),
                is_trusted: is_estimate[at]
                    && objects >= TRUSTED_OBJECTS
                    && (unit == Unit::Objects || is_large),
            });
        }
        Curve {
            points,
            is_exact: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stretch_of_objects_has_its_share_of_the_sample() {
        for seed in 1..=3 {
            let places: Vec<u32> = (0..1 << 16).map(|number| place(number, seed)).collect();
            for length in [64, 1024, 5000] {
                for stretch in places.chunks_exact(length) {
                    let kept = stretch.iter().filter(|p| is_below(**p, 0.05)).count() as f64;
                    let wanted = length as f64 * 0.05;
                    // The count is off by at most one for each power of two in the length. A random
                    // sample would be off by 15 in 5,000 in one of three cases.
                    assert!((kept - wanted).abs() < 8.0, "{kept} of {length}");
                }
            }
        }
    }

    #[test]
    fn no_object_is_likelier_than_another() {
        for number in [0, 1, 2, 63, 64, 4096, u32::MAX] {
            let chosen = (0..4000).filter(|seed| is_below(place(number, *seed), 0.25));
            let chosen = chosen.count() as f64;
            // Five standard deviations of a binomial distribution.
            assert!((chosen - 1000.0).abs() < 137.0, "{number}: {chosen}");
        }
    }
}
