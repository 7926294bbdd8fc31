//! AdaptSize: admission by chance and size, with the size limit chosen by a model of the cache.
//!
//! # Idea
//! An object of weight `w` is admitted with probability `exp(-w / c)`. At intervals a Markov model
//! predicts from recent rates and weights which hit ratio each `c` would give, and the best becomes
//! the new `c`. In the model an entry leaves after `T` without a request, the same `T` for all, so
//! one of rate `r` is held with odds `(exp(r T) - 1) exp(-w / c)`. `T` is the value for which the
//! held weights sum up to the capacity.
//!
//! # Source
//! D. S. Berger, R. K. Sitaraman, M. Harchol-Balter, *AdaptSize: orchestrating the hot object
//! memory cache in a content delivery network*, NSDI 2017,
//! <https://www.usenix.org/conference/nsdi17/technical-sessions/presentation/berger>.
//!
//! # State
//! At most 8192 objects followed, of 24 bytes each in a tree: 420 KiB.
//!
//! # Cost
//! request: a hash; for a followed object, a look-up in the tree · miss: also one random number and
//! one exponential · once per `interval`: at most some three million exponentials, in one call.
//!
//! # Knobs
//! `interval` (100000; 1000 to 1e8): minimum number of requests from one choice of `c` to the next.
//!
//! # Departures
//! The model reads a sample of the objects, chosen by their hashes (C. A. Waldspurger et al.,
//! *Efficient MRC construction with SHARDS*, FAST 2015), and a capacity scaled in proportion, so
//! that memory and time are bounded. `T` is found by bisection, because a plain iteration need not
//! converge: where few objects are admitted, the held weight grows with a high power of `T`. An
//! object that would hardly be admitted before the next choice counts for less, because the model
//! describes the steady state, in which a `c` near 0 looks best but which it never reaches. A
//! choice waits, for 16 intervals at most, until the objects requested since the last one weigh
//! twice the capacity; with fewer the model would conclude that all fit. Until the first choice
//! everything is admitted. Among equally good `c` the largest is taken. At each choice earlier
//! requests are scaled by 0.8.
//!
//! # Avoid when
//! Objects are counted, not bytes: there is nothing to choose by. The byte hit ratio matters more
//! than the object hit ratio. The policy is far from LRU, which the model describes.

use super::{Admission, MissedKey, yes_if};
use crate::knobs::Knobs;
use crate::parts::chance::{Chance, scramble};
#[cfg(not(any(test, feature = "std")))]
use crate::parts::float::Float as _;
use crate::{Admit, Facts, Slot};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Maximum number of objects in the sample.
const FOLLOWED_MAX: usize = 8192;
/// Factor by which the weight of earlier requests is multiplied at each choice of `c`.
const HISTORY: f64 = 0.8;
/// An object whose requests weigh less than this is dropped from the sample.
const FORGOTTEN: f64 = 0.05;
/// Minimum weight of the objects requested between two choices of `c`, as a multiple of the
/// capacity. [`INTERVALS_MAX`] limits the time until the next choice.
const FILLS: f64 = 2.0;
/// Maximum number of intervals between two choices of `c`.
const INTERVALS_MAX: u32 = 16;
/// Number of times that the search interval around the best `c` is halved, in powers of two.
const REFINEMENTS: usize = 3;
/// Lower bound of the search for `T`, in intervals. The next constant is the upper bound.
const SHORTEST: f64 = 1e-9;
const LONGEST: f64 = 1e9;

crate::knobs! {
    /// Knobs of [`AdaptSize`].
    pub struct AdaptSizeConfig {
        /// Minimum number of requests from one choice of `c` to the next.
        interval: u32 = 100000, 1000 => 100000000;
    }
}

#[derive(Clone, Copy, Debug)]
struct Followed {
    /// Decayed number of requests before the last choice.
    history: f64,
    /// Number of requests since the last choice.
    count: u32,
    weight: u32,
}

/// AdaptSize.
#[derive(Clone, Debug)]
pub struct AdaptSize {
    c: f64,
    /// Sampled objects by scrambled hash, which decides whether an object is in the sample.
    followed: BTreeMap<u64, Followed>,
    /// Maximum scrambled hash of an object in the sample.
    limit: u64,
    /// Number of requests since the last choice.
    requests: u32,
    /// Weight of the sampled objects that were requested since the last choice.
    fresh_weight: u64,
    interval: u32,
    capacity: u64,
    chance: Chance,
}

impl AdaptSize {
    /// Returns the weight that is admitted with probability 1/e; infinite before the first choice.
    pub fn c(&self) -> f64 {
        self.c
    }

    fn count(&mut self, key_hash: u64, weight: u32) {
        let place = scramble(key_hash);
        if place <= self.limit {
            let one = self.followed.entry(place).or_insert(Followed {
                history: 0.0,
                count: 0,
                weight,
            });
            if one.count == 0 {
                self.fresh_weight += u64::from(weight);
            } else {
                self.fresh_weight -= u64::from(one.weight);
                self.fresh_weight += u64::from(weight);
            }
            one.count += 1;
            one.weight = weight;
            if self.followed.len() > FOLLOWED_MAX
                && let Some((largest, one)) = self.followed.pop_last()
            {
                self.limit = largest - 1;
                self.fresh_weight -= u64::from(one.weight) * u64::from(one.count.min(1));
            }
        }
        self.requests += 1;
        if self.requests.is_multiple_of(self.interval) && self.has_seen_enough() {
            self.choose();
        }
    }

    /// Returns the share of all objects that is sampled.
    fn share(&self) -> f64 {
        (self.limit as f64 + 1.0) / (u64::MAX as f64 + 1.0)
    }

    /// Whether the sampled objects represent more weight than the cache can hold.
    fn has_seen_enough(&self) -> bool {
        let enough = FILLS * self.capacity as f64 * self.share();
        self.fresh_weight as f64 >= enough || self.requests / self.interval >= INTERVALS_MAX
    }

    /// Ends an interval: drops objects with few recent requests, and chooses a new `c`.
    #[cold]
    fn choose(&mut self) {
        self.requests = 0;
        self.fresh_weight = 0;
        self.followed.retain(|_, one| {
            one.history = one.history * HISTORY + f64::from(one.count);
            one.count = 0;
            one.history >= FORGOTTEN
        });
        let objects = self.followed.values();
        let model = Model {
            objects: objects
                .map(|one| (one.history, f64::from(one.weight.max(1))))
                .collect(),
            capacity: self.capacity as f64 * self.share(),
        };
        if let Some(c) = model.best_c() {
            self.c = c;
        }

        if self.followed.len() < FOLLOWED_MAX / 2 {
            self.limit = self.limit.saturating_mul(2);
        }
    }
}

/// Input of the model: rate (requests per interval) and weight of each object, and the capacity.
#[derive(Clone, Debug)]
struct Model {
    objects: Vec<(f64, f64)>,
    capacity: f64,
}

/// Properties of an object in the model for one value of `c`.
#[derive(Clone, Copy, Debug)]
struct Modelled {
    rate: f64,
    weight: f64,
    /// Probability of admission at a miss.
    admitted: f64,
    /// Fraction of an interval that remains after the first admission.
    reached: f64,
}

impl Modelled {
    fn new((rate, weight): (f64, f64), c: f64) -> Self {
        let admitted = (-weight / c).exp();
        // The wait for the first admission is exponential.
        let rate_in = rate * admitted;
        let reached = if rate_in < 1e-6 {
            0.0
        } else {
            1.0 + (-rate_in).exp_m1() / rate_in
        };
        Modelled {
            rate,
            weight,
            admitted,
            reached,
        }
    }

    /// Fraction of an interval during which the object is in the cache.
    #[inline]
    fn held(self, time: f64) -> f64 {
        if self.reached == 0.0 {
            return 0.0;
        }
        let odds = (self.rate * time).exp_m1() * self.admitted;
        self.reached / (1.0 + 1.0 / odds)
    }
}

impl Model {
    /// Returns the `c` with the highest hit ratio: each power of two is tried, then values around
    /// the best.
    fn best_c(&self) -> Option<f64> {
        let weights = || self.objects.iter().map(|&(_, weight)| weight);
        let lightest = weights().reduce(f64::min)?;
        let heaviest = weights().reduce(f64::max)?;
        // At the lower end nearly nothing is admitted, and at the upper end 99 % of all objects.
        let (low, high) = (lightest.log2().floor() - 1.0, heaviest.log2().ceil() + 7.0);
        let mut time = 1.0;
        let mut best = (high, self.hit_ratio(high.exp2(), &mut time));
        let mut consider = |log2_c: f64, best: &mut (f64, f64)| {
            let hit_ratio = self.hit_ratio(log2_c.exp2(), &mut time);
            if hit_ratio > best.1 * (1.0 + 1e-6) {
                *best = (log2_c, hit_ratio);
            }
        };
        let mut log2_c = high - 1.0;
        while log2_c >= low {
            consider(log2_c, &mut best);
            log2_c -= 1.0;
        }
        let mut step = 0.5;
        for _ in 0..REFINEMENTS {
            let middle = best.0;
            consider(middle + step, &mut best);
            consider(middle - step, &mut best);
            step /= 2.0;
        }
        Some(best.0.exp2())
    }

    /// Returns the hit ratio for one `c`. `time` is the start of the search for `T`, and is set to
    /// its result.
    fn hit_ratio(&self, c: f64, time: &mut f64) -> f64 {
        let objects = self.objects.iter();
        let objects: Vec<Modelled> = objects.map(|&one| Modelled::new(one, c)).collect();
        *time = self.time(&objects, *time);
        let requests: f64 = objects.iter().map(|one| one.rate).sum();
        let hits = objects.iter().map(|one| one.rate * one.held(*time));
        hits.sum::<f64>() / requests
    }

    /// Returns the time that an entry stays without a request: the value at which the cache is
    /// full, within 1 %. If everything fits, it is above the upper bound of the search.
    fn time(&self, objects: &[Modelled], start: f64) -> f64 {
        let is_over = |time: f64| {
            let held = objects.iter().map(|one| one.weight * one.held(time));
            held.sum::<f64>() > self.capacity
        };
        let start = start.clamp(SHORTEST, LONGEST);
        let (mut low, mut high) = (start, start);
        if is_over(low) {
            while low > SHORTEST && is_over(low) {
                (low, high) = (low / 4.0, low);
            }
        } else {
            while high < LONGEST && !is_over(high) {
                (low, high) = (high, high * 4.0);
            }
        }
        while high / low > 1.01 {
            let middle = (low * high).sqrt();
            if is_over(middle) {
                high = middle;
            } else {
                low = middle;
            }
        }
        low
    }
}

impl Admission for AdaptSize {
    type Config = AdaptSizeConfig;
    const NAME: &'static str = "adaptsize";
    const LISTENS: bool = true;

    fn new(capacity: u64, config: &AdaptSizeConfig, seed: u64) -> Self {
        assert!(config.is_valid(), "knobs are checked where they are read");
        AdaptSize {
            c: f64::INFINITY,
            followed: BTreeMap::new(),
            limit: u64::MAX,
            requests: 0,
            fresh_weight: 0,
            interval: config.interval,
            capacity,
            chance: Chance::new(seed),
        }
    }

    fn resize(&mut self, capacity: u64) {
        self.capacity = capacity;
    }

    #[inline]
    fn hit(&mut self, facts: &impl Facts, slot: Slot) {
        self.count(facts.key_hash(slot), facts.weight(slot));
    }

    #[inline]
    fn admit(&mut self, _facts: &impl Facts, missed: MissedKey) -> Admit {
        self.count(missed.key_hash, missed.weight);
        let admitted = (-f64::from(missed.weight) / self.c).exp();
        yes_if(self.chance.unit() < admitted)
    }

    fn heap_bytes(&self) -> usize {
        // A node of the tree is at least 5/11 full.
        self.followed.len() * size_of::<(u64, Followed)>() * 11 / 5
    }

    fn check(&self) {
        assert!(self.c > 0.0);
        assert!(self.requests / self.interval < INTERVALS_MAX);
        let fresh = self.followed.values().filter(|one| one.count > 0);
        let fresh_weight: u64 = fresh.map(|one| u64::from(one.weight)).sum();
        assert_eq!(self.fresh_weight, fresh_weight);
        assert!(self.followed.len() <= FOLLOWED_MAX);
        assert!(
            self.followed
                .last_key_value()
                .is_none_or(|(&place, _)| place <= self.limit)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evict::lru::Lru;
    use crate::suite::policy::Trial;

    /// Independent requests: `count` small keys of weight 1 to 4 by Zipf's law, and in every third
    /// request one of twice as many keys of weight 60, all equally popular.
    struct Mix {
        chance: Chance,
        sums: Vec<f64>,
    }

    impl Mix {
        fn new(count: usize, seed: u64) -> Self {
            let mut sum = 0.0;
            let sums = (1..=count)
                .map(|rank| {
                    sum += 1.0 / rank as f64;
                    sum
                })
                .collect();
            Mix {
                chance: Chance::new(seed),
                sums,
            }
        }

        /// Returns the expected number of requests for each key among `requests` requests, and its
        /// weight.
        fn rates(&self, requests: f64) -> Vec<(f64, f64)> {
            let total = self.sums[self.sums.len() - 1];
            let count = self.sums.len();
            let small = (0..count).map(|key| {
                let rate = requests / (key + 1) as f64 / total * 2.0 / 3.0;
                (rate, f64::from(Self::weight(key as u64)))
            });
            let large = (0..2 * count).map(|_| (requests / 3.0 / (2 * count) as f64, 60.0));
            small.chain(large).collect()
        }

        fn weight(key: u64) -> u32 {
            if key >> 32 == 0 {
                1 + (key % 4) as u32
            } else {
                60
            }
        }

        fn draw(&mut self) -> (u64, u32) {
            let count = self.sums.len() as u64;
            let key = if self.chance.below(3) == 0 {
                1 << 32 | self.chance.below(2 * count)
            } else {
                let at = self.chance.unit() * self.sums[self.sums.len() - 1];
                self.sums.partition_point(|&sum| sum <= at) as u64
            };
            (key, Self::weight(key))
        }
    }

    /// Hit ratio of LRU behind a filter, on the second half of the requests.
    fn hit_ratio(filter: &mut impl Admission, mix: &mut Mix, capacity: u64, requests: u64) -> f64 {
        let mut trial = Trial::<Lru>::new(capacity, &(), 1);
        let mut hits = 0;
        for request in 0..requests {
            let (key, weight) = mix.draw();
            let is_hit = trial.request_through(filter, key, weight, 1000);
            hits += u64::from(is_hit && request >= requests / 2);
        }
        filter.check();
        hits as f64 / (requests - requests / 2) as f64
    }

    fn fixed(c: f64) -> crate::admit::exp_size::ExpSize {
        Admission::new(0, &crate::admit::exp_size::ExpSizeConfig { c }, 7)
    }

    #[test]
    fn the_model_predicts_the_hit_ratio_of_lru_with_a_fixed_c() {
        let capacity = 3000;
        let model = Model {
            objects: Mix::new(2000, 1).rates(1e6),
            capacity: capacity as f64,
        };
        for c in [2.0, 20.0, 60.0, 200.0, 1e6] {
            let predicted = model.hit_ratio(c, &mut 1.0);
            let measured = hit_ratio(&mut fixed(c), &mut Mix::new(2000, 2), capacity, 200_000);
            let difference = (predicted - measured).abs();
            assert!(
                difference < 0.015,
                "c {c}: predicted {predicted}, measured {measured}"
            );
        }
    }

    #[test]
    fn the_hit_ratio_is_near_that_of_the_best_fixed_c() {
        let (capacity, requests) = (1500, 120_000);
        let best = (0..14).map(|log2_c| {
            let mut filter = fixed(f64::from(1u32 << log2_c));
            hit_ratio(&mut filter, &mut Mix::new(2000, 3), capacity, requests)
        });
        let best = best.fold(0.0, f64::max);
        let config = AdaptSizeConfig { interval: 10_000 };
        let mut filter = AdaptSize::new(capacity, &config, 1);
        let adapted = hit_ratio(&mut filter, &mut Mix::new(2000, 3), capacity, requests);
        let all = hit_ratio(&mut fixed(1e15), &mut Mix::new(2000, 3), capacity, requests);
        let share = (adapted - all) / (best - all);
        assert!(share > 0.85, "{adapted}, fixed {best}, unfiltered {all}");
        assert!((1.0..80.0).contains(&filter.c()), "{}", filter.c());
    }

    #[test]
    fn c_grows_again_when_all_objects_fit() {
        let config = AdaptSizeConfig { interval: 2000 };
        let mut filter = AdaptSize::new(1500, &config, 1);
        let mut mix = Mix::new(2000, 4);
        hit_ratio(&mut filter, &mut mix, 1500, 40_000);
        let narrow = filter.c();
        filter.resize(4_000_000);
        hit_ratio(&mut filter, &mut mix, 4_000_000, 40_000);
        assert!(filter.c() > 64.0 * narrow, "{narrow}, then {}", filter.c());
    }

    #[test]
    fn a_sample_of_the_objects_leads_to_the_same_c() {
        let capacity = 60_000;
        let config = AdaptSizeConfig { interval: 200_000 };
        let mut filter = AdaptSize::new(capacity, &config, 1);
        let mut mix = Mix::new(50_000, 5);
        hit_ratio(&mut filter, &mut mix, capacity, 600_000);
        assert!(
            filter.limit < u64::MAX / 4,
            "far more objects than it follows"
        );
        let whole = Model {
            objects: mix.rates(200_000.0),
            capacity: capacity as f64,
        };
        let (c, best) = (filter.c(), whole.best_c().expect("there are objects"));
        let (with_c, with_best) = (
            whole.hit_ratio(c, &mut 1.0),
            whole.hit_ratio(best, &mut 1.0),
        );
        assert!(with_c > with_best - 0.01, "c {c}, of all objects {best}");
    }

    #[test]
    fn the_search_for_t_fills_the_cache_when_few_objects_are_admitted() {
        // Nearly nothing is admitted, and admitted objects stay long, so that the held weight grows
        // with a high power of T.
        let model = Model {
            objects: vec![(1000.0, 1000.0); 100],
            capacity: 50_000.0,
        };
        let mut time = 1.0;
        let c = 200.0;
        model.hit_ratio(c, &mut time);
        let one = Modelled::new((1000.0, 1000.0), c);
        let filled = 100.0 * one.weight * one.held(time);
        assert!((filled / 50_000.0 - 1.0).abs() < 0.1, "{filled}");
    }
}
