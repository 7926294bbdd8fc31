//! Search for the best policy and size: on the sample first, then by full simulation.

use super::Inputs;
use super::robust::{self, LARGER_MAX, PREFERRED};
use crate::curve::{Curve, Named, Point, exact, spread};
use crate::{Contestant, Error, Rules, Unit};
use policy::any::PolicySpec;
use std::sync::atomic::AtomicU64;

/// Number of sizes of the survey. The next constant is the smallest of them as a share of the
/// footprint; the largest is the footprint.
const POINTS: usize = 24;
const SMALLEST_SHARE: f64 = 0.001;
/// Number of policies whose smallest size is searched: those with the best results on the sample.
const CANDIDATES: usize = 3;
/// Number of policies that are evaluated at a size that is given: those with the best results on
/// the sample, and the preferred one.
const CANDIDATES_AT_SIZE: usize = 12;
/// Number of sizes of one step of the search for the smallest size. Each step narrows the range to
/// a fifth.
const STEP: usize = 6;
/// Maximum number of steps of the search. It is bounded because the sample may have started the
/// search at a wrong size.
const STEPS_MAX: usize = 16;
/// The search ends when the next smaller tried size is smaller by at most this factor.
const NEAR: f64 = 1.02;
/// Overhead of the segment engine per object: 5 bytes of metadata, 12 of table, and rounding.
const ENGINE_BYTES: u32 = 22;
/// Divisor that gives the engine's other overhead as a share of all bytes: unused tails of
/// segments, and one free segment.
const ENGINE_RESERVE: u64 = 16;

/// Factor by which the bounds of a recommendation are wider than those of a point on a curve: three
/// standard errors instead of two. The reason is that the best of many policies and sizes is
/// chosen, and random errors favour that one.
const CHOSEN_WIDER: f64 = 1.5;

/// Evaluates policies and sizes.
pub(super) struct Evaluator<'a> {
    pub inputs: &'a Inputs,
    pub rules: &'a Rules,
    pub policies: &'a [(String, Contestant)],
    pub jobs: usize,
    pub done: &'a AtomicU64,
}

/// Miss ratios of every policy over many sizes, on the sample.
pub(super) struct Survey {
    sizes: Vec<u64>,
    curves: Vec<Curve>,
}

/// A policy, by its index, at a size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    pub policy: usize,
    pub point: Point,
    pub is_exact: bool,
    /// Best policy on this trace and its point, if a more robust one is chosen that misses hardly
    /// more.
    pub instead_of: Option<(usize, Point)>,
}

impl Survey {
    /// Returns the miss ratio of a cache that has `share` of the hits of an unlimited cache with
    /// the best policy.
    pub fn enough(&self, share: f64) -> f64 {
        1.0 - share * (1.0 - self.lowest())
    }

    /// Lowest miss ratio of all points.
    fn lowest(&self) -> f64 {
        let points = self.curves.iter().flat_map(|curve| &curve.points);
        points.map(|point| point.miss_ratio).fold(1.0, f64::min)
    }

    /// Index of the first size at which a policy misses no more than `target`.
    fn first(&self, policy: usize, target: f64) -> Option<usize> {
        let points = &self.curves[policy].points;
        points.iter().position(|point| point.miss_ratio <= target)
    }

    /// Point of a policy at a size of the survey.
    pub fn at(&self, policy: usize, size: u64) -> Option<&Point> {
        let place = self.sizes.iter().position(|other| *other == size)?;
        self.curves[policy].points.get(place)
    }

    /// Returns the largest excess of a policy's misses over those of the best policy at the same
    /// size, as a share, over the sizes at which a sample is meaningful.
    fn worst_excess(&self, policy: usize) -> f64 {
        let own = self.curves[policy].points.iter().enumerate();
        let excess = own.filter(|(_, own)| own.is_trusted).map(|(at, own)| {
            let all = self.curves.iter().filter_map(|curve| curve.points.get(at));
            let best = all.map(|point| point.miss_ratio).fold(1.0, f64::min);
            own.miss_ratio / best.max(f64::MIN_POSITIVE) - 1.0
        });
        excess.fold(0.0, f64::max)
    }

    /// Size of the survey that is nearest to this one.
    pub fn nearest(&self, size: u64) -> u64 {
        let distance = |other: u64| (other.max(1) as f64 / size.max(1) as f64).ln().abs();
        let by_distance = |a: &u64, b: &u64| distance(*a).total_cmp(&distance(*b));
        let nearest = self.sizes.iter().copied().min_by(by_distance);
        nearest.expect("a survey has sizes")
    }

    /// Returns the curves by name: the chosen policy first, then LRU, then the others, with the
    /// fewest misses near the chosen size first.
    pub fn named(&self, evaluator: &Evaluator<'_>, chosen: &Choice) -> Vec<Named> {
        let size = self.nearest(chosen.point.capacity);
        let ratio = |policy: usize| self.at(policy, size).map_or(1.0, |point| point.miss_ratio);
        let rank = |policy: usize| match policy {
            policy if policy == chosen.policy => 0,
            policy if policy == evaluator.lru() => 1,
            _ => 2,
        };
        let mut order: Vec<usize> = (0..self.curves.len()).collect();
        order.sort_by(|&a, &b| rank(a).cmp(&rank(b)).then(ratio(a).total_cmp(&ratio(b))));
        let named = |policy: usize| Named {
            policy: evaluator.policies[policy].0.clone(),
            has_ttls: evaluator.has_ttls(),
            curve: self.curves[policy].clone(),
        };
        order.into_iter().map(named).collect()
    }
}

impl Evaluator<'_> {
    /// Returns the size that holds all objects, including the overheads that are counted against
    /// sizes.
    pub fn footprint(&self) -> u64 {
        let sample = &self.inputs.sample;
        let alone = sample.footprint(self.rules.unit);
        if self.rules.unit == Unit::Objects {
            return alone;
        }
        let (beside, reserve) = match self.has_engine() {
            true => (
                self.rules.overhead.max(ENGINE_BYTES),
                alone / ENGINE_RESERVE,
            ),
            false => (self.rules.overhead, 0),
        };
        alone + sample.footprint(Unit::Objects) * u64::from(beside) + reserve
    }

    /// Whether the segment engine is among the policies.
    pub fn has_engine(&self) -> bool {
        self.policies.iter().any(|(_, one)| one.is_engine())
    }

    pub fn has_ttls(&self) -> bool {
        self.inputs.sample.columns().has_ttls() && !self.rules.ignores_ttls
    }

    pub fn lru(&self) -> usize {
        let mut specs = self.policies.iter();
        let lru = specs.position(|(_, one)| *one == Contestant::from(PolicySpec::Lru(())));
        lru.expect("LRU joined the policies if it was missing")
    }

    /// Whether miss ratios come from full simulations.
    pub fn is_exact(&self) -> bool {
        self.inputs.whole.is_some() || self.inputs.sample.is_whole()
    }

    pub fn survey(&self, memory: Option<u64>) -> Result<Survey, Error> {
        let mut sizes = spread(self.footprint(), SMALLEST_SHARE, POINTS);
        sizes.extend(memory);
        sizes.sort_unstable();
        sizes.dedup();
        let all: Vec<usize> = (0..self.policies.len()).collect();
        let curves = self.sampled(self.rules, &all, &sizes)?;
        Ok(Survey { sizes, curves })
    }

    /// Computes curves from the sample.
    pub fn sampled(
        &self,
        rules: &Rules,
        policies: &[usize],
        sizes: &[u64],
    ) -> Result<Vec<Curve>, Error> {
        let specs = self.specs(policies);
        let sample = &self.inputs.sample;
        sample.curves(rules, &specs, sizes, self.jobs, self.done)
    }

    fn specs(&self, policies: &[usize]) -> Vec<Contestant> {
        policies
            .iter()
            .map(|&at| self.policies[at].1.clone())
            .collect()
    }

    /// Computes curves from the whole trace if it is available, otherwise from the sample.
    pub fn curves(
        &self,
        rules: &Rules,
        policies: &[usize],
        sizes: &[u64],
    ) -> Result<Vec<Curve>, Error> {
        match &self.inputs.whole {
            Some(whole) => {
                let specs = self.specs(policies);
                exact(whole, rules, &specs, sizes, self.jobs, self.done)
            }
            None => self.sampled(rules, policies, sizes),
        }
    }

    /// Evaluates one policy at one size. With a sample, the bounds are computed from the curve
    /// around the size.
    pub fn at(&self, policy: usize, size: u64) -> Result<Point, Error> {
        match self.is_exact() {
            true => Ok(self.curves(self.rules, &[policy], &[size])?[0].points[0]),
            false => self.estimated(policy, size),
        }
    }

    /// Evaluates one policy at one size on the sample.
    pub fn estimated(&self, policy: usize, size: u64) -> Result<Point, Error> {
        let around = around(size);
        let curves = self.sampled(self.rules, &[policy], &around)?;
        let points = &curves[0].points;
        let at = around.partition_point(|other| *other < size);
        let point = points[at];
        let wider = |bound: f64| point.miss_ratio + CHOSEN_WIDER * (bound - point.miss_ratio);
        Ok(Point {
            low: wider(point.low).max(0.0),
            high: wider(point.high).min(1.0),
            ..point
        })
    }

    /// Returns the best policy in a cache of this size. If that reaches the target, the smallest
    /// size that reaches it is chosen.
    pub fn within(
        &self,
        survey: &Survey,
        memory: u64,
        target: Option<f64>,
    ) -> Result<Choice, Error> {
        let all = 0..self.policies.len();
        let mut ranked: Vec<(usize, f64)> = all
            .filter_map(|policy| Some((policy, survey.at(policy, memory)?.miss_ratio)))
            .collect();
        ranked.sort_by(|a, b| a.1.total_cmp(&b.1));
        let is_preferred = |policy: usize| self.policies[policy].0 == PREFERRED;
        let left = ranked.split_off(ranked.len().min(CANDIDATES_AT_SIZE));
        ranked.extend(left.into_iter().filter(|(policy, _)| is_preferred(*policy)));
        let points: Vec<(usize, Point)> = ranked
            .into_iter()
            .map(|(policy, _)| Ok((policy, self.at(policy, memory)?)))
            .collect::<Result<_, Error>>()?;
        let by_ratio =
            |a: &&(usize, Point), b: &&(usize, Point)| a.1.miss_ratio.total_cmp(&b.1.miss_ratio);
        let first = points.iter().min_by(by_ratio).copied();
        let first = first.expect("LRU is among the policies");
        let worst_excess = |policy: usize| survey.worst_excess(policy);
        let found = robust::recommended(&points, is_preferred, worst_excess);
        let (policy, point) = found.unwrap_or(first);
        let best = Choice {
            instead_of: (policy != first.0).then_some(first),
            ..self.chosen(policy, point)
        };
        match target {
            Some(target) if best.point.miss_ratio <= target => {
                let reaching = self.reaching(survey, target)?;
                let is_within = reaching.point.capacity <= memory;
                Ok(if is_within { reaching } else { best })
            }
            _ => Ok(best),
        }
    }

    fn chosen(&self, policy: usize, point: Point) -> Choice {
        Choice {
            policy,
            point,
            is_exact: self.is_exact(),
            instead_of: None,
        }
    }

    /// Returns the policy that reaches the target in the smallest cache. If none does, returns the
    /// policy with the fewest misses, in the smallest cache that has as few.
    pub fn reaching(&self, survey: &Survey, target: f64) -> Result<Choice, Error> {
        let mut ranked: Vec<(usize, f64)> = (0..self.policies.len())
            .filter_map(|policy| Some((policy, self.crossing(survey, policy, target)?)))
            .collect();
        ranked.sort_by(|a, b| a.1.total_cmp(&b.1));
        let left = ranked.split_off(ranked.len().min(CANDIDATES));
        let mut best: Option<Choice> = None;
        for (policy, _) in ranked {
            best = self.better(survey, policy, target, best)?;
        }
        if self.is_exact() {
            // The sample may have underestimated the other policies: those that reach the target at
            // the size found may need less.
            for (policy, _) in left {
                let here = best.map(|best| self.at(policy, best.point.capacity));
                if here
                    .transpose()?
                    .is_some_and(|here| here.miss_ratio <= target)
                {
                    best = self.better(survey, policy, target, best)?;
                }
            }
        }
        match best {
            Some(best) => self.robust(survey, best, target),
            None => self.unlimited(survey),
        }
    }

    /// Returns the choice of the preferred policy instead of `best`, the smallest cache that
    /// reaches the target, if the preferred policy reaches it with hardly more memory.
    fn robust(&self, survey: &Survey, best: Choice, target: f64) -> Result<Choice, Error> {
        let preferred = self.policies.iter().position(|(name, _)| name == PREFERRED);
        let other = preferred.filter(|policy| *policy != best.policy);
        let Some(policy) = other.filter(|_| best.point.miss_ratio <= target) else {
            return Ok(best);
        };
        let here = self.at(policy, best.point.capacity)?;
        if here.miss_ratio > robust::equal_up_to(&best.point) {
            return Ok(best);
        }
        let most = best.point.capacity as f64 * LARGER_MAX;
        let point = self.least(survey, policy, target)?;
        let point = point.filter(|point| point.capacity as f64 <= most);
        Ok(point.map_or(best, |point| Choice {
            policy,
            point,
            instead_of: Some((best.policy, best.point)),
            ..best
        }))
    }

    /// Returns the size at which a policy's curve on the sample crosses the target, interpolated
    /// between two sizes of the survey. If the curve does not cross it, the result is infinity if
    /// the whole trace is available, so that the policy is tried last, because the whole trace may
    /// differ; otherwise `None`.
    fn crossing(&self, survey: &Survey, policy: usize, target: f64) -> Option<f64> {
        let Some(at) = survey.first(policy, target) else {
            return self.is_exact().then_some(f64::INFINITY);
        };
        let points = &survey.curves[policy].points;
        let (below, above) = (&points[at], &points[at.saturating_sub(1)]);
        let fall = above.miss_ratio - below.miss_ratio;
        let share = if fall > 0.0 {
            (target - below.miss_ratio) / fall
        } else {
            0.0
        };
        let (from, to) = (below.capacity.max(1) as f64, above.capacity.max(1) as f64);
        Some(from * (to / from).powf(share))
    }

    /// Returns the better of two choices: the best so far, and the smallest cache in which this
    /// policy reaches the target.
    fn better(
        &self,
        survey: &Survey,
        policy: usize,
        target: f64,
        best: Option<Choice>,
    ) -> Result<Option<Choice>, Error> {
        let Some(point) = self.least(survey, policy, target)? else {
            return Ok(best);
        };
        let is_better = |best: Choice| {
            let sizes = (point.capacity, best.point.capacity);
            sizes.0 < sizes.1 || sizes.0 == sizes.1 && point.miss_ratio < best.point.miss_ratio
        };
        match best {
            Some(best) if !is_better(best) => Ok(Some(best)),
            _ => Ok(Some(self.chosen(policy, point))),
        }
    }

    /// Returns the choice with the fewest misses, in the smallest cache that achieves them.
    fn unlimited(&self, survey: &Survey) -> Result<Choice, Error> {
        let lowest = survey.lowest();
        let all = 0..self.policies.len();
        let firsts = all.filter_map(|policy| Some((survey.first(policy, lowest)?, policy)));
        let (at, policy) = firsts
            .min()
            .expect("some policy has the least ratio of all");
        let point = self.at(policy, survey.sizes[at])?;
        Ok(self.chosen(policy, point))
    }

    /// Returns the smallest size at which a policy misses no more than `target`; `None` if even a
    /// cache for all objects misses more.
    pub fn least(
        &self,
        survey: &Survey,
        policy: usize,
        target: f64,
    ) -> Result<Option<Point>, Error> {
        let footprint = self.footprint().max(1);
        let place = survey.first(policy, target);
        if !self.is_exact() {
            return match place {
                Some(place) => self
                    .least_on_sample(survey, policy, target, place)
                    .map(Some),
                None => Ok(None),
            };
        }
        let place = place.unwrap_or(survey.sizes.len() - 1);
        let mut high = survey.sizes[place].min(footprint);
        let mut low = survey.sizes[place.saturating_sub(1)].min(high);
        let mut best = None;
        for _ in 0..STEPS_MAX {
            let sizes = between(low, high);
            let curves = self.curves(self.rules, &[policy], &sizes)?;
            let points = &curves[0].points;
            match points.iter().position(|point| point.miss_ratio <= target) {
                // The size found in the step before is the next larger one.
                None if best.is_some() => break,
                None if high >= footprint => break,
                None => (low, high) = (high, high.saturating_mul(2).min(footprint)),
                Some(0) => {
                    best = Some(points[0]);
                    if low <= 1 {
                        break;
                    }
                    (low, high) = ((low / 2).max(1), low);
                }
                Some(at) => {
                    best = Some(points[at]);
                    (low, high) = (sizes[at - 1], sizes[at]);
                    if high as f64 <= low as f64 * NEAR || high - low <= 1 {
                        break;
                    }
                }
            }
        }
        Ok(best)
    }

    /// Returns the smallest size at which the policy reaches the target on the sample. The steps
    /// are only one level finer than those of the survey, because a sample is not more precise.
    fn least_on_sample(
        &self,
        survey: &Survey,
        policy: usize,
        target: f64,
        place: usize,
    ) -> Result<Point, Error> {
        let (low, high) = (survey.sizes[place.saturating_sub(1)], survey.sizes[place]);
        let sizes = between(low, high);
        let curves = self.sampled(self.rules, &[policy], &sizes)?;
        let points = &curves[0].points;
        let at = points.iter().position(|point| point.miss_ratio <= target);
        let size = at.map_or(high, |at| sizes[at]);
        self.estimated(policy, size)
    }
}

/// Returns sizes around `size` for computing the slope of the curve. They are as far apart as those
/// of the survey.
fn around(size: u64) -> Vec<u64> {
    let near = |factor: f64| ((size as f64 * factor).round() as u64).max(1);
    let mut sizes = vec![near(0.75), size, near(1.33)];
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// Returns sizes between two, evenly spaced in the logarithm.
fn between(low: u64, high: u64) -> Vec<u64> {
    let (from, to) = (low.max(1) as f64, high.max(1) as f64);
    let size = |n: usize| match n {
        0 => low.max(1),
        n if n + 1 == STEP => high.max(1),
        n => (from * (to / from).powf(n as f64 / (STEP - 1) as f64)).round() as u64,
    };
    let mut sizes: Vec<u64> = (0..STEP).map(size).collect();
    sizes.dedup();
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_lie_between_their_ends() {
        assert_eq!(between(10, 1_000), [10, 25, 63, 158, 398, 1000]);
        assert_eq!(between(3, 5), [3, 4, 5]);
        assert_eq!(between(0, 0), [1]);
        assert_eq!(around(1), [1]);
        assert_eq!(around(100), [75, 100, 133]);
    }
}
