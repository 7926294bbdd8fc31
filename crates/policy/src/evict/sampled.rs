//! LRU by sampling that keeps its best candidates from one eviction to the next.
//!
//! # Idea
//! An eviction draws a few entries, evicts the least useful of them, and keeps the next least
//! useful: they compete again with the next eviction's draw, so that a good candidate is not lost.
//!
//! # Source
//! K. Psounis, B. Prabhakar, *Efficient randomized Web-cache replacement schemes using samples from
//! past eviction times*, IEEE/ACM Transactions on Networking 10(4), 2002,
//! <https://doi.org/10.1109/TNET.2002.801414>; first in *A randomized Web-cache replacement
//! scheme*, INFOCOM 2001.
//!
//! # State
//! Per entry: 4 bytes (the number of the last request for it, modulo 2^32). Besides: `samples`
//! candidates of 8 bytes.
//!
//! # Cost
//! hit: one write of 4 bytes · insert O(1) · remove, relocate: a search through the candidates ·
//! evict: one step per entry drawn or kept, `samples` in all, and one or two more.
//!
//! # Knobs
//! `samples` (8; 1 to 64): entries that compete in an eviction. `keep` (2; 0 to 63): number of them
//! kept for the next eviction; at most `samples` − 1.
//!
//! # Departures
//! The least useful entry is the least recently requested, counted in requests; the source leaves
//! the measure open. A candidate that is removed is not replaced before the next draw, one that is
//! hit competes with its new rank, and one drawn twice counts once. Without candidates kept,
//! `sampled:2:0` is the better of two random entries (`randomTwo` in the reference, whose draws are
//! not even: see [`random`](super::random)).
//!
//! # Avoid when
//! A true order costs less: `lru` needs 4 bytes more, `clock` and `sieve` need fewer than this.

use super::sampled_lru::Candidate;
use crate::knobs::Knobs;
use crate::marker::stamp_of;
use crate::parts::chance::Chance;
use crate::{Budget, Cells, Eviction, Marker, OnHit, Policy, Slot};
use alloc::vec::Vec;

crate::knobs! {
    /// Knobs of [`Sampled`].
    pub struct SampledConfig {
        /// Number of entries that are compared in an eviction.
        samples: u8 = 8, 1 => 64;
        /// Number of these entries that are kept as candidates for the next eviction.
        keep: u8 = 2, 0 => 63;
    }
}

/// LRU by sampling, with candidates kept.
#[derive(Clone, Debug)]
pub struct Sampled {
    chance: Chance,
    /// Kept candidates that must be read again, in their order, followed by newly drawn ones.
    candidates: Vec<Candidate>,
    /// Number of candidates that the current eviction has read.
    seen: usize,
    /// Number of entries that the current eviction has still to draw.
    undrawn: usize,
    samples: usize,
    keep: usize,
}

impl Sampled {
    /// Returns the index of the least recently requested candidate.
    fn stalest(&self, now: u32) -> Option<usize> {
        let idle = |&index: &usize| now.wrapping_sub(self.candidates[index].stamp);
        (0..self.candidates.len()).max_by_key(idle)
    }

    /// Keeps the best candidates for the next eviction, after the victim was removed.
    fn keep_best(&mut self, now: u32) {
        let idle = |one: &Candidate| core::cmp::Reverse(now.wrapping_sub(one.stamp));
        self.candidates.sort_by_key(idle);
        self.candidates.truncate(self.keep);
        self.begin();
    }

    fn begin(&mut self) {
        self.seen = 0;
        self.undrawn = self.samples - self.candidates.len();
    }

    fn forget(&mut self, slot: Slot) {
        if let Some(index) = self.candidates.iter().position(|one| one.slot == slot) {
            self.candidates.remove(index);
            self.seen -= usize::from(index < self.seen);
        }
    }
}

impl Policy for Sampled {
    type Meta = u32;
    type Config = SampledConfig;
    const NAME: &'static str = "sampled";
    const ON_HIT: OnHit = OnHit::Mark;

    fn new(_capacity: u64, config: &SampledConfig, seed: u64) -> Self {
        assert!(config.is_valid(), "knobs are checked where they are read");
        let samples = usize::from(config.samples);
        Sampled {
            chance: Chance::new(seed),
            candidates: Vec::with_capacity(samples),
            seen: 0,
            undrawn: samples,
            samples,
            keep: usize::from(config.keep).min(samples - 1),
        }
    }

    #[inline]
    fn insert(&mut self, cells: &mut impl Cells<u32>, slot: Slot) {
        cells.set(slot, stamp_of(cells.requests()));
    }

    #[inline]
    fn marker(&self) -> Marker {
        Marker::Stamp
    }
    mark_by_marker!(u32);

    fn moved(&mut self, _cells: &mut impl Cells<u32>, old: Slot, new: Slot) {
        Candidate::relocate(&mut self.candidates, old, new);
    }

    fn remove(&mut self, cells: &mut impl Cells<u32>, slot: Slot) {
        cells.set(slot, 0);
        self.forget(slot);
    }

    fn evict(&mut self, cells: &mut impl Cells<u32>, budget: &mut Budget) -> Eviction {
        let now = stamp_of(cells.requests());
        while budget.spend() {
            if let Some(candidate) = self.candidates.get_mut(self.seen) {
                candidate.stamp = cells.get(candidate.slot);
                self.seen += 1;
            } else if self.undrawn > 0 {
                let Some(slot) = cells.sample(self.chance.bits()) else {
                    if cells.is_empty() {
                        return Eviction::Empty;
                    }
                    continue;
                };
                self.undrawn -= 1;
                if self.candidates.iter().all(|other| other.slot != slot) {
                    let stamp = cells.get(slot);
                    self.candidates.push(Candidate { slot, stamp });
                    self.seen += 1;
                }
            } else if let Some(index) = self.stalest(now) {
                // The entry may have been hit between two calls.
                let Candidate { slot, stamp } = self.candidates[index];
                let stamp_now = cells.get(slot);
                if stamp_now == stamp {
                    self.candidates.swap_remove(index);
                    self.keep_best(now);
                    cells.set(slot, 0);
                    return Eviction::Victim(slot);
                }
                self.candidates[index].stamp = stamp_now;
            } else {
                // All candidates were removed.
                self.begin();
            }
        }
        if cells.is_empty() {
            return Eviction::Empty;
        }
        Eviction::Again
    }

    fn heap_bytes(&self) -> usize {
        self.candidates.capacity() * size_of::<Candidate>()
    }

    fn check(&self, cells: &impl Cells<u32>) {
        assert!(self.candidates.len() <= self.samples);
        assert!(self.seen <= self.candidates.len());
        Candidate::check(&self.candidates, cells);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::policy::Trial;

    /// Returns the mean age of victims: 0 for the newest entry, 1 for the oldest.
    fn mean_age(samples: u8, keep: u8) -> f64 {
        let config = SampledConfig { samples, keep };
        let capacity = 1000;
        let mut trial = Trial::<Sampled>::new(capacity, &config, 3);
        let (mut sum, mut count) = (0.0, 0);
        for key in 0..21_000 {
            trial.request(key, 1, 100);
            if let Some(victim) = trial.victims.pop()
                && key >= capacity
            {
                let older = trial.table.range(..victim).count();
                sum += 1.0 - older as f64 / (capacity - 1) as f64;
                count += 1;
            }
        }
        assert_eq!(count, 20_000);
        sum / f64::from(count)
    }

    #[test]
    fn victims_are_as_old_as_the_oldest_of_the_draw() {
        // The expected age of the oldest of N uniformly drawn entries is N / (N + 1).
        assert!((mean_age(1, 0) - 0.5).abs() < 0.01);
        assert!((mean_age(8, 0) - 8.0 / 9.0).abs() < 0.01);
    }

    /// Computes the mean age for the source's scheme, with random ages instead of entries.
    fn mean_age_on_paper(samples: usize, keep: usize) -> f64 {
        let mut chance = Chance::new(9);
        let (mut kept, mut sum) = (Vec::new(), 0.0);
        for _ in 0..20_000 {
            let mut ages: Vec<f64> = kept;
            ages.resize_with(samples, || chance.unit());
            ages.sort_by(f64::total_cmp);
            sum += ages.pop().expect("there are samples");
            kept = ages.split_off(ages.len() - keep);
        }
        sum / 20_000.0
    }

    #[test]
    fn keeping_candidates_helps_as_much_as_predicted() {
        for (samples, keep) in [(8, 0), (8, 1), (8, 2), (30, 6), (2, 1)] {
            let (ours, paper) = (
                mean_age(samples, keep),
                mean_age_on_paper(samples.into(), keep.into()),
            );
            assert!(
                (ours - paper).abs() < 0.01,
                "{samples}:{keep}: {ours}, {paper}"
            );
        }
        let nine_drawn = 9.0 / 10.0;
        assert!(
            mean_age(8, 2) > nine_drawn + 0.005,
            "two kept save two draws"
        );
    }

    #[test]
    fn a_kept_candidate_that_is_hit_is_not_evicted() {
        let config = SampledConfig {
            samples: 4,
            keep: 3,
        };
        let mut trial = Trial::<Sampled>::new(1000, &config, 5);
        (0..1000).for_each(|key| trial.request(key, 1, 10));
        assert!(trial.evict_one(10));
        let kept: Vec<Slot> = trial.policy.candidates.iter().map(|one| one.slot).collect();
        assert_eq!(kept.len(), 3);
        for &slot in &kept {
            trial.host.count_request();
            trial.hit(slot);
        }
        // One of a thousand entries is drawn. It is nearly certainly older than those just hit.
        assert!(trial.evict_one(10));
        assert!(kept.iter().all(|&slot| trial.host.is_held(slot)));
    }
}
