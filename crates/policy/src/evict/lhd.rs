//! LHD: least hit density.
//!
//! # Idea
//! An entry is worth the hits that it is likely to get, divided by the room and time that it will
//! take until its next hit or its eviction. Entries are classed by the ages at which they were last
//! hit. For each class the hits and evictions are counted by age, and the worth of every age
//! follows from the counts. An eviction samples entries and evicts the least worthy.
//!
//! # Source
//! N. Beckmann, H. Chen, A. Cidon, *LHD: improving cache hit rate by maximizing hit density*, NSDI
//! 2018, <https://www.usenix.org/conference/nsdi18/presentation/beckmann>, and the authors'
//! code (CMU-CORGI/LHD). Compared with libCacheSim 0.3.5, which runs that code.
//!
//! # State
//! Per entry: 8 bytes (the request of the last hit in 32 bits, the ages of the last two hits in 15
//! each, explorer). Besides: up to 16 classes × 20,000 ages × 12 bytes, for the ages that occur.
//!
//! # Cost
//! hit: one write of the entry's word, one counter · insert O(1) · remove, relocate: a search
//! through 8 slots · evict: one step per sample, and for 8 suspects. Once per period each class is
//! modelled again, in one request each: at most 20,000 additions.
//!
//! # Knobs
//! `samples` (64; 1 to 1024): entries sampled for one eviction. `period` (1048576; 256 to
//! 1073741824): requests from one model to the next.
//!
//! # Departures
//! As in the authors' code, ages are counted in units of 1,024 requests at first (adapted to the
//! number of entries in the 5th and the 25th period), the first model is a guess, and only 8
//! entries are sampled in the first 50 periods. A run shorter than a period therefore shows the
//! guess, not what LHD learns; give it a shorter `period`. There is one application class. Size
//! does not class entries, it divides. The tables are as long as the ages met so far.
//!
//! # Avoid when
//! Evictions must be cheap, or the workload changes faster than it learns.

use crate::knobs::Knobs;
use crate::parts::chance::Chance;
use crate::{Budget, Cells, Eviction, Meta, OnHit, Policy, Slot};
use alloc::vec;
use alloc::vec::Vec;

/// Maximum age that is distinguished, in units of age.
const AGE_LIMIT: u32 = 20_000;
/// Number of classes by the sum of the last two hits' ages.
const CLASSES: usize = 16;
/// Initial density of class 0 at age 0, from which the densities of other classes and ages follow.
/// (In the authors' code, classes are numbered over all applications, and the first application's
/// begin at 16.)
const GUESS_BASE: usize = 17;
/// New entries that are examined in addition to the samples, because they had a low density at
/// insertion.
const SUSPECTS: usize = 8;
/// Number of entries sampled for one eviction while the model is young.
const SAMPLES_YOUNG: u32 = 8;
/// Number of periods during which the model is young.
const PERIODS_YOUNG: u32 = 50;
/// One request in this number makes its entry an explorer, which is not evicted while the model is
/// young.
const EXPLORERS_INVERSE: u64 = 32;
/// Weight of all explorers, as a share of the capacity.
const EXPLORERS_SHARE: f64 = 0.01;
/// Factor applied to counts after a period, and to a mean after a victim.
const DECAY: f32 = 0.9;
/// Wanted age of the oldest entries in units of age, as a share of the limit.
const AGE_TOLERANCE: f64 = 0.01;
/// Initial unit of age in requests, as a power of two.
const AGE_SHIFT: u32 = 10;
/// Periods after which the unit of age is adapted.
const FITTINGS: [u32; 2] = [5, 25];

const _: () = assert!(AGE_LIMIT < 1 << 15);

crate::knobs! {
    /// Knobs of [`Lhd`].
    pub struct LhdConfig {
        /// Number of entries sampled for one eviction.
        samples: u32 = 64, 1 => 1024;
        /// Number of requests between two models.
        period: u32 = 1048576, 256 => 1073741824;
    }
}

/// An entry's word.
///
/// ```text
/// bit 63         62         61  47         46  32        31  0
/// [inserted][explorer][ age before ][ age at last hit ][ touched ]
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tag(u64);

impl Tag {
    fn new(touched: u32, last_age: u32, age_before: u32, is_explorer: bool) -> Self {
        let ages = u64::from(age_before) << 47 | u64::from(last_age) << 32;
        Tag(1 << 63 | u64::from(is_explorer) << 62 | ages | u64::from(touched))
    }
    fn touched(self) -> u32 {
        self.0 as u32
    }
    fn last_age(self) -> u32 {
        (self.0 >> 32) as u32 & 0x7FFF
    }
    fn age_before(self) -> u32 {
        (self.0 >> 47) as u32 & 0x7FFF
    }
    fn is_explorer(self) -> bool {
        self.0 >> 62 & 1 == 1
    }
    /// Returns the class: 15 for the shortest ages.
    fn class(self) -> usize {
        let age = self.last_age() + self.age_before();
        if age == 0 {
            return CLASSES - 1;
        }
        let doublings = (AGE_LIMIT.div_ceil(age))
            .next_power_of_two()
            .trailing_zeros();
        (doublings as usize).min(CLASSES - 1)
    }
}

impl Meta for Tag {
    const BITS: u32 = 64;
    fn pack(self) -> u64 {
        self.0
    }
    fn unpack(bits: u64) -> Self {
        Tag(bits)
    }
}

/// Counts of hits and evictions of one class, by age.
#[derive(Clone, Debug, Default)]
struct Class {
    hits: Vec<f32>,
    evictions: Vec<f32>,
    /// Hit densities of the current model; estimated in advance until there is one.
    densities: Vec<f32>,
    is_modelled: bool,
}

impl Class {
    fn count(counts: &mut Vec<f32>, age: u32) {
        let age = age as usize;
        if counts.len() <= age {
            counts.resize(age + 1, 0.0);
        }
        counts[age] += 1.0;
    }

    fn density(&self, number: usize, age: u32) -> f32 {
        if self.is_modelled {
            return self.densities.get(age as usize).copied().unwrap_or(0.0);
        }
        (GUESS_BASE + number) as f32 / (age + 1) as f32
    }

    /// Computes densities from the highest age down: expected hits over expected time.
    fn model(&mut self) {
        let ages = self.hits.len().max(self.evictions.len());
        for counts in [&mut self.hits, &mut self.evictions] {
            counts.resize(ages, 0.0);
            counts.iter_mut().for_each(|count| *count *= DECAY);
        }
        self.densities.clear();
        self.densities.resize(ages, 0.0);
        let (mut events, mut hits, mut time) = (0f32, 0f32, 0f32);
        for age in (0..ages).rev() {
            hits += self.hits[age];
            events += self.hits[age] + self.evictions[age];
            time += events;
            self.densities[age] = if events > 1e-5 { hits / time } else { 0.0 };
        }
        self.is_modelled = true;
    }

    /// Converts counts by age to a unit of age that is 2^`shift` times as long.
    fn refit(counts: &mut Vec<f32>, shift: i32) {
        let old = core::mem::take(counts);
        if shift >= 0 {
            let sum = |part: &[f32]| part.iter().sum();
            *counts = old.chunks(1 << shift).map(sum).collect();
            return;
        }
        let parts = 1usize << -shift;
        let ages = (old.len() * parts).min(AGE_LIMIT as usize);
        *counts = (0..ages)
            .map(|age| old[age / parts] / parts as f32)
            .collect();
        let cut_off = old.iter().sum::<f32>() - counts.iter().sum::<f32>();
        if let Some(last) = counts.last_mut() {
            *last += cut_off.max(0.0);
        }
    }

    fn heap_bytes(&self) -> usize {
        let counts = [&self.hits, &self.evictions, &self.densities];
        counts
            .map(|counts| counts.capacity() * size_of::<f32>())
            .iter()
            .sum()
    }
}

/// The LHD policy.
#[derive(Clone, Debug)]
pub struct Lhd {
    classes: Vec<Class>,
    /// Number of hits and insertions so far.
    time: u64,
    age_shift: u32,
    periods: u32,
    /// Next class whose densities are recomputed; `CLASSES` if none.
    modelling: usize,
    entries_sum: f64,
    entries_mass: f64,
    suspects: [Option<Slot>; SUSPECTS],
    next_suspect: usize,
    /// Mean density of victims.
    victim_density: f32,
    /// Weight of the explorers that can still be added.
    explorers_left: i64,
    chance: Chance,
    /// Number of samples taken so far by the current eviction.
    taken: u32,
    /// Sample with the lowest density so far.
    least: Option<(f32, Slot)>,
    capacity: u64,
    config: LhdConfig,
}

impl Lhd {
    fn age(&self, tag: Tag) -> u32 {
        let age = (self.time as u32).wrapping_sub(tag.touched()) >> self.age_shift;
        age.min(AGE_LIMIT - 1)
    }

    fn density(&self, tag: Tag, weight: u32) -> f32 {
        let (age, class) = (self.age(tag), tag.class());
        if age == AGE_LIMIT - 1 {
            return f32::MIN;
        }
        let density = self.classes[class].density(class, age) / weight.max(1) as f32;
        density + f32::from(u8::from(tag.is_explorer()))
    }

    fn is_young(&self) -> bool {
        self.periods < PERIODS_YOUNG
    }

    /// Draws whether this request should make its entry an explorer. Returns whether it was drawn,
    /// and whether the entry becomes an explorer, which requires remaining weight and a young
    /// model.
    fn draw_explorer(&mut self, weight: u32) -> (bool, bool) {
        let is_drawn = self.chance.below(EXPLORERS_INVERSE) == 0;
        let is_explorer = is_drawn && self.explorers_left > 0 && self.is_young();
        if is_explorer {
            self.explorers_left -= i64::from(weight);
        }
        (is_drawn, is_explorer)
    }

    fn release(&mut self, tag: Tag, weight: u32) {
        if tag.is_explorer() {
            self.explorers_left += i64::from(weight);
        }
    }

    /// Counts a request, and at the end of a period computes new densities.
    fn tick(&mut self, entries: usize) {
        self.time += 1;
        if self.modelling < CLASSES {
            self.classes[self.modelling].model();
            self.modelling += 1;
        }
        if self.time.is_multiple_of(u64::from(self.config.period)) {
            self.fit_ages(entries);
            self.modelling = 0;
            self.periods = self.periods.saturating_add(1);
        }
    }

    /// Adapts the unit of age to the number of entries, twice in a run.
    fn fit_ages(&mut self, entries: usize) {
        self.entries_sum = self.entries_sum * f64::from(DECAY) + entries as f64;
        self.entries_mass = self.entries_mass * f64::from(DECAY) + 1.0;
        if !FITTINGS.contains(&self.periods) {
            return;
        }
        let mean = self.entries_sum / self.entries_mass;
        let unit = mean / (AGE_TOLERANCE * f64::from(AGE_LIMIT));
        let age_shift = (1..31)
            .find(|&shift| f64::from(1u32 << shift) >= unit)
            .unwrap_or(31);
        let delta = age_shift as i32 - self.age_shift as i32;
        self.age_shift = age_shift;
        for class in &mut self.classes {
            Class::refit(&mut class.hits, delta);
            Class::refit(&mut class.evictions, delta);
        }
    }

    fn offer(&mut self, cells: &impl Cells<Tag>, slot: Slot) {
        let density = self.density(cells.get(slot), cells.weight(slot));
        if self.least.is_none_or(|(least, _)| density < least) {
            self.least = Some((density, slot));
        }
    }

    /// Drops a slot from the suspects and the sample.
    fn forget(&mut self, slot: Slot) {
        self.least.take_if(|(_, least)| *least == slot);
        for suspect in &mut self.suspects {
            suspect.take_if(|suspect| *suspect == slot);
        }
    }
}

impl Policy for Lhd {
    type Meta = Tag;
    type Config = LhdConfig;
    const NAME: &'static str = "lhd";
    const ON_HIT: OnHit = OnHit::Reorder;

    fn new(capacity: u64, config: &LhdConfig, seed: u64) -> Self {
        assert!(config.is_valid(), "knobs are checked where they are read");
        Lhd {
            classes: vec![Class::default(); CLASSES],
            time: 0,
            age_shift: AGE_SHIFT,
            periods: 0,
            modelling: CLASSES,
            entries_sum: 0.0,
            entries_mass: 0.0,
            suspects: [None; SUSPECTS],
            next_suspect: 0,
            victim_density: 0.0,
            explorers_left: (capacity as f64 * EXPLORERS_SHARE) as i64,
            chance: Chance::new(seed),
            taken: 0,
            least: None,
            capacity,
            config: config.clone(),
        }
    }

    fn resize(&mut self, capacity: u64) {
        let share = |capacity: u64| (capacity as f64 * EXPLORERS_SHARE) as i64;
        self.explorers_left += share(capacity) - share(self.capacity);
        self.capacity = capacity;
    }

    fn insert(&mut self, cells: &mut impl Cells<Tag>, slot: Slot) {
        let weight = cells.weight(slot);
        let (is_drawn, is_explorer) = self.draw_explorer(weight);
        let tag = Tag::new(self.time as u32, 0, AGE_LIMIT, is_explorer);
        cells.set(slot, tag);
        if !is_drawn && self.density(tag, weight) < self.victim_density {
            self.suspects[self.next_suspect] = Some(slot);
            self.next_suspect = (self.next_suspect + 1) % SUSPECTS;
        }
        self.tick(cells.len());
    }

    fn reorder(&mut self, cells: &mut impl Cells<Tag>, slot: Slot) {
        let (tag, weight) = (cells.get(slot), cells.weight(slot));
        let age = self.age(tag);
        Class::count(&mut self.classes[tag.class()].hits, age);
        self.release(tag, weight);
        let (_, is_explorer) = self.draw_explorer(weight);
        let tag = Tag::new(self.time as u32, age, tag.last_age(), is_explorer);
        cells.set(slot, tag);
        self.least.take_if(|(_, least)| *least == slot);
        self.tick(cells.len());
    }

    fn reweigh(&mut self, cells: &mut impl Cells<Tag>, slot: Slot, old_weight: u32) {
        if cells.get(slot).is_explorer() {
            self.explorers_left += i64::from(old_weight) - i64::from(cells.weight(slot));
        }
    }

    fn moved(&mut self, _cells: &mut impl Cells<Tag>, old: Slot, new: Slot) {
        let least = self.least.iter_mut().map(|(_, least)| least);
        for slot in self.suspects.iter_mut().flatten().chain(least) {
            if *slot == old {
                *slot = new;
            }
        }
    }

    fn remove(&mut self, cells: &mut impl Cells<Tag>, slot: Slot) {
        self.release(cells.get(slot), cells.weight(slot));
        cells.set(slot, Tag::default());
        self.forget(slot);
    }

    fn evict(&mut self, cells: &mut impl Cells<Tag>, budget: &mut Budget) -> Eviction {
        let young = self.is_young().then_some(SAMPLES_YOUNG);
        let samples = young.map_or(self.config.samples, |young| young.min(self.config.samples));
        loop {
            while self.taken < samples + SUSPECTS as u32 {
                if !budget.spend() {
                    return Eviction::Again;
                }
                let candidate = match self.taken.checked_sub(samples) {
                    Some(index) => self.suspects[index as usize],
                    None => match cells.sample(self.chance.bits()) {
                        None if cells.is_empty() => return Eviction::Empty,
                        None => continue,
                        sample => sample,
                    },
                };
                self.taken += 1;
                if let Some(slot) = candidate {
                    self.offer(cells, slot);
                }
            }
            self.taken = 0;
            let Some((density, slot)) = self.least.take() else {
                continue;
            };
            let tag = cells.get(slot);
            self.victim_density = DECAY * self.victim_density + (1.0 - DECAY) * density;
            let age = self.age(tag);
            Class::count(&mut self.classes[tag.class()].evictions, age);
            self.release(tag, cells.weight(slot));
            cells.set(slot, Tag::default());
            self.forget(slot);
            return Eviction::Victim(slot);
        }
    }

    fn heap_bytes(&self) -> usize {
        let tables: usize = self.classes.iter().map(Class::heap_bytes).sum();
        tables + self.classes.capacity() * size_of::<Class>()
    }

    fn check(&self, cells: &impl Cells<Tag>) {
        let least = self.least.iter().map(|(_, slot)| slot);
        for &slot in self.suspects.iter().flatten().chain(least) {
            assert!(cells.is_live(slot));
            assert_eq!(
                cells.get(slot).0 >> 63,
                1,
                "an entry that left is no suspect"
            );
        }
        assert!(self.taken < self.config.samples + SUSPECTS as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::policy::Trial;

    #[test]
    fn classes_follow_the_logarithm_of_the_last_two_ages() {
        let class = |last, before| Tag::new(0, last, before, false).class();
        assert_eq!([class(0, 0), class(0, AGE_LIMIT)], [15, 0]);
        assert_eq!([class(0, 1), class(2, 3), class(9_999, 1)], [15, 12, 1]);
    }

    #[test]
    fn density_is_expected_hits_over_expected_time() {
        let mut class = Class::default();
        (0..3).for_each(|_| Class::count(&mut class.hits, 1));
        Class::count(&mut class.evictions, 3);
        class.model();
        // At age 0: 3 hits of 4 events, after 3 × 2 + 1 × 4 units, including the current one.
        let densities: Vec<f32> = (0..5).map(|age| class.density(0, age)).collect();
        let close = |density: f32, expected: f32| (density - expected).abs() < 1e-6;
        assert!(close(densities[0], 3.0 / 10.0));
        assert!(close(densities[1], 3.0 / 6.0));
        assert_eq!(densities[2..], [0.0, 0.0, 0.0]);
    }

    #[test]
    fn changing_the_unit_of_age_keeps_all_counts() {
        let counts: Vec<f32> = (1..=9).map(|count| count as f32).collect();
        let refit = |shift| {
            let mut counts = counts.clone();
            Class::refit(&mut counts, shift);
            counts
        };
        assert_eq!(refit(1), [3.0, 7.0, 11.0, 15.0, 9.0]);
        assert_eq!(refit(-1)[..4], [0.5, 0.5, 1.0, 1.0]);
        for shift in [-1, -12, 1, 3] {
            assert!((refit(shift).iter().sum::<f32>() - 45.0).abs() < 1e-3);
        }
        assert_eq!(refit(-12).len(), AGE_LIMIT as usize);
    }

    #[test]
    fn it_learns_that_keys_that_came_once_do_not_return() {
        let config = LhdConfig {
            period: 2_000,
            ..LhdConfig::default()
        };
        let mut trial = Trial::<Lhd>::new(100, &config, 1);
        let mut misses = [0, 0];
        for request in 0..60_000u64 {
            // A loop of 80 keys, mixed with keys that are requested once. LRU gets no hits from it.
            let key = if request % 2 == 0 {
                request / 2 % 80
            } else {
                1_000 + request
            };
            let half = usize::from(request >= 30_000);
            misses[half] += u64::from(key < 80 && !trial.table.contains_key(&key));
            trial.request(key, 1, 100);
        }
        trial.policy.check(&trial.host);
        assert!(misses[1] < 5_000, "{misses:?} of 15,000 each");
    }
}
