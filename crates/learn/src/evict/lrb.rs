//! LRB: learning relaxed Belady.
//!
//! # Idea
//! Belady evicts the object whose next request is furthest in the future. An object that comes back
//! later than a *Belady boundary* is as good a victim, so it is enough to separate near from far.
//! Objects requested within a *memory window* are remembered, cached or not. Some are sampled all
//! the time, and labelled with the time until their next request, or with twice the window if it
//! passes without one. Regression learns the distance to the next request from a batch of labels.
//! An eviction draws a few entries, and evicts the one with the furthest predicted request.
//!
//! # Source
//! Z. Song, D. S. Berger, K. Li, W. Lloyd, *Learning Relaxed Belady for Content Distribution
//! Network Caching*, NSDI 2020, <https://www.usenix.org/conference/nsdi20/presentation/song>; with
//! the parameters of the authors' code in their fork of webcachesim.
//!
//! # State
//! Per object of the memory window, cached or not: about 190 bytes, 4 more for each gap between its
//! requests (31 at most), 8 for each pending sample. In addition 176 bytes a row of the batch, 23
//! MB in all, and the trees. In the simulator only.
//!
//! # Cost
//! hit, insert O(log n) and a sample · evict: one step per entry drawn, and their rows through 32
//! trees; some evictions find the batch full and train, which no budget cuts.
//!
//! # Knobs
//! `window` (0; 0 to 1,000,000,000,000): the memory window in requests; 0 chooses `turns` times the
//! requests that it took to fill the cache. `turns` (4; 0.1 to 1000): the factor of a chosen
//! window. `batch` (131072; 64 to 16777216): labels that train a model. `candidates` (64; 1 to
//! 256): entries drawn for an eviction. `size` (1; 0 to 1): whether the distance is multiplied by
//! the weight, which saves object misses, or counts alone, which saves byte misses.
//!
//! # Departures
//! The source finds the memory window by simulating the first part of a trace with several; here it
//! is given, or derived from the time that the cache takes to fill. The source's content type is no
//! feature, because traces lack it. An absent gap counts as infinitely long, as in the paper; the
//! code leaves it out of a sparse row. Trees are grown by level, up to 32 leaves in a depth of 6,
//! from all rows and all features; LightGBM grows them by leaf, and draws four fifths of the rows
//! and of the features for each. Counters decay in whole halvings, as in the code, which keeps
//! results the same on every machine. Until the first model is trained the victim is the least
//! recently used entry. As in the code, that is also the victim when it was not requested for a
//! whole memory window.
//!
//! # Avoid when
//! Speed matters: an eviction costs a thousand times as much as under S3-FIFO. The trace is short:
//! below some hundred thousand labels nothing is learned.

use crate::Boosting;
use crate::distances::{Distances, DistancesConfig, logarithm};
use crate::stats::{LearningStats, Learns};
use policy::knobs::Knobs;
use policy::parts::chance::Chance;
use policy::{Budget, Cells, Eviction, OnHit, Policy, Slot};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

policy::knobs! {
    /// Numeric knobs of [`Lrb`].
    pub struct LrbKnobs {
        /// Memory window in requests; 0 derives it from `turns`.
        window: u64 = 0, 0 => 1_000_000_000_000;
        /// Factor for a derived memory window: multiplies the number of requests that filled the
        /// cache.
        turns: f64 = 4.0, 0.1 => 1000.0;
        /// Number of labelled samples per training.
        batch: u32 = 131_072, 64 => 16_777_216;
        /// Number of entries drawn per eviction.
        candidates: u16 = 64, 1 => 256;
        /// Whether the predicted distance is multiplied by the entry's weight.
        size: u8 = 1, 0 => 1;
    }
}

/// Number of requests remembered per object: the time of the last one, and the gaps between them.
const PAST: usize = 32;
/// Number of request counters that decay with distance. The first has a half-life of 2^10 requests,
/// and each other one has twice the half-life of the previous one.
const COUNTERS: usize = 10;
const FIRST_HALVING_LOG: u32 = 10;
/// Number of features per row: age, gaps, weight, requests within the window, and counters.
const WIDTH: usize = PAST + 2 + COUNTERS;
/// Minimum of a derived memory window, in requests.
const WINDOW_MIN: u64 = 64;
/// Maximum number of objects beyond the window that one request drops.
const FORGOTTEN_MAX: usize = 4;

const _: () = assert!(WIDTH == 44, "as many features as the source has");

/// LightGBM parameters from the source, where this crate's regression has them.
const BOOSTING: Boosting = Boosting {
    trees: 32,
    depth: 6,
    leaves: 32,
    learning_rate: 0.1,
    leaf_rows: 20,
};

/// Names of the features, in order. All gaps share one name.
const FEATURES: [&str; 1 + 1 + 2 + COUNTERS] = [
    "age",
    "gaps",
    "size",
    "requests within the window",
    "counter 2^10",
    "counter 2^11",
    "counter 2^12",
    "counter 2^13",
    "counter 2^14",
    "counter 2^15",
    "counter 2^16",
    "counter 2^17",
    "counter 2^18",
    "counter 2^19",
];

/// Knobs of [`Lrb`], and the function that creates its model.
pub type LrbConfig = DistancesConfig<LrbKnobs>;

/// Hasher that returns key hashes unchanged, because they are evenly distributed.
#[derive(Clone, Copy, Default)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("keys are u64");
    }
    fn write_u64(&mut self, key_hash: u64) {
        self.0 = key_hash;
    }
}

/// Remembered object, cached or not.
#[derive(Clone, Debug)]
struct Object {
    key_hash: u64,
    /// Number of the object's last request.
    last: u64,
    weight: u32,
    /// Slot of the object's entry, if it is cached.
    slot: Option<Slot>,
    /// Index of the object in `known`.
    place: u32,
    /// Distances between consecutive requests of the object, most recent first.
    gaps: VecDeque<u32>,
    counters: [f32; COUNTERS],
    /// Numbers of the requests at which the object was sampled since its last request.
    samples: Vec<u64>,
}

impl Object {
    fn new(key_hash: u64) -> Self {
        Object {
            key_hash,
            last: 0,
            weight: 0,
            slot: None,
            place: 0,
            gaps: VecDeque::new(),
            counters: [0.0; COUNTERS],
            samples: Vec::new(),
        }
    }

    /// Counts a request with number `now`.
    fn request(&mut self, now: u64) {
        let gap = now - self.last;
        for (log, counter) in (FIRST_HALVING_LOG..).zip(&mut self.counters) {
            *counter = 1.0 + *counter * halved(gap >> log);
        }
        if self.last > 0 {
            self.gaps.truncate(PAST - 2);
            self.gaps.push_front(gap.min(u64::from(u32::MAX)) as u32);
        }
        self.last = now;
    }

    /// Returns the features at the request with number `at`, which must not be before the last one.
    fn features(&self, at: u64, window: u64) -> [f32; WIDTH] {
        let mut row = [f32::INFINITY; WIDTH];
        let age = at - self.last;
        row[0] = age as f32;
        let (mut distance, mut within) = (0, 0u8);
        for (feature, &gap) in row[1..PAST].iter_mut().zip(&self.gaps) {
            *feature = gap as f32;
            distance += u64::from(gap);
            within += u8::from(distance < window);
        }
        row[PAST] = self.weight as f32;
        row[PAST + 1] = f32::from(within);
        for (log, (feature, counter)) in
            (FIRST_HALVING_LOG..).zip(row[PAST + 2..].iter_mut().zip(self.counters))
        {
            *feature = counter * halved(age >> log);
        }
        row
    }
}

/// Returns 1 halved `times` times.
fn halved(times: u64) -> f32 {
    match times {
        0..=126 => f32::from_bits((127 - times as u32) << 23),
        _ => 0.0,
    }
}

/// Learning relaxed Belady. The module text is its card.
pub struct Lrb {
    distances: Distances,
    /// Remembered objects at stable indexes. `vacant` lists the unused indexes.
    objects: Vec<Object>,
    vacant: Vec<u32>,
    numbers: HashMap<u64, u32, BuildHasherDefault<IdentityHasher>>,
    /// Indexes of the objects from which samples are drawn.
    known: Vec<u32>,
    /// Cached objects by the number of their last request. `gone` contains the objects that are
    /// only remembered.
    cached: BTreeMap<u64, u32>,
    gone: BTreeMap<u64, u32>,
    /// Number of requests so far.
    now: u64,
    /// Memory window in requests; `None` until the first eviction.
    window: Option<u64>,
    /// Entries drawn for the current eviction.
    drawn: Vec<u32>,
    /// Number of entries left to draw for the current eviction.
    undrawn: u16,
    chance: Chance,
    config: LrbKnobs,
}

impl Lrb {
    fn is_past(&self, last: u64) -> bool {
        self.window.is_some_and(|window| self.now - last >= window)
    }

    fn number_of(cells: &impl Cells<u32>, slot: Slot) -> u32 {
        let meta = cells.get(slot);
        assert!(meta > 0, "the policy was compared of the entry");
        meta - 1
    }

    /// Adds an object that is not remembered, and returns its index.
    fn add(&mut self, key_hash: u64) -> u32 {
        let mut object = Object::new(key_hash);
        object.place = self.known.len() as u32;
        let number = match self.vacant.pop() {
            Some(number) => {
                self.objects[number as usize] = object;
                number
            }
            None => {
                self.objects.push(object);
                self.objects.len() as u32 - 1
            }
        };
        self.known.push(number);
        self.numbers.insert(key_hash, number);
        number
    }

    /// Drops an object that is neither in `cached` nor in `gone`.
    fn drop_object(&mut self, number: u32) {
        let object = &mut self.objects[number as usize];
        let (key_hash, place) = (object.key_hash, object.place);
        *object = Object::new(key_hash);
        if self.numbers.get(&key_hash) == Some(&number) {
            self.numbers.remove(&key_hash);
        }
        self.known.swap_remove(place as usize);
        if let Some(&moved) = self.known.get(place as usize) {
            self.objects[moved as usize].place = place;
        }
        self.vacant.push(number);
    }

    /// Counts a request for an object: labels the object's samples and samples a random object.
    fn request(&mut self, number: u32) {
        self.now += 1;
        let now = self.now;
        if self.objects[number as usize].last > 0 {
            self.label(number, |sampled_at| now - sampled_at);
        }
        self.objects[number as usize].request(now);
        self.cached.insert(now, number);
        if self.window.is_some() {
            let place = self.chance.below(self.known.len() as u64);
            let sampled = self.known[place as usize];
            self.objects[sampled as usize].samples.push(now);
            self.forget_past();
        }
    }

    /// Labels the samples of an object. `distance` returns the label of each.
    fn label(&mut self, number: u32, distance: impl Fn(u64) -> u64) {
        let Some(window) = self.window else {
            return;
        };
        let object = &mut self.objects[number as usize];
        for at in std::mem::take(&mut object.samples) {
            let row = || object.features(at, window);
            self.distances.add(row, distance(at));
        }
    }

    /// Drops remembered objects that are beyond the window, oldest first.
    fn forget_past(&mut self) {
        for _ in 0..FORGOTTEN_MAX {
            match self.gone.first_key_value() {
                Some((&last, &number)) if self.is_past(last) => {
                    self.gone.pop_first();
                    self.give_up(number);
                }
                _ => return,
            }
        }
    }

    /// Labels the samples of an object that was not requested for a whole window, and drops the
    /// object.
    fn give_up(&mut self, number: u32) {
        let window = self.window.expect("something was evicted");
        self.label(number, |_| 2 * window);
        self.drop_object(number);
    }

    /// Evicts the entry of an object, which is remembered until the window has passed.
    fn evict_object(&mut self, cells: &mut impl Cells<u32>, number: u32) -> Eviction {
        self.drawn.clear();
        self.undrawn = self.config.candidates;
        let object = &mut self.objects[number as usize];
        let slot = object.slot.take().expect("it is cached");
        let last = object.last;
        self.cached.remove(&last);
        cells.set(slot, 0);
        match self.is_past(last) {
            true => self.give_up(number),
            false => {
                self.gone.insert(last, number);
            }
        }
        Eviction::Victim(slot)
    }

    /// Returns the drawn entry with the furthest predicted request.
    fn furthest(&mut self) -> Option<u32> {
        let window = self.window.expect("settled when the eviction began");
        let (now, objects) = (self.now, &self.objects);
        let row = |&number: &u32| objects[number as usize].features(now, window);
        let compared = self.distances.predict(self.drawn.iter().map(row));
        let mut furthest: Option<(f32, u32)> = None;
        for (&number, &distance) in self.drawn.iter().zip(compared) {
            let weight = self.objects[number as usize].weight;
            let score = match self.config.size {
                0 => distance,
                _ => distance + logarithm(u64::from(weight.max(1))),
            };
            if furthest.is_none_or(|(most, _)| score > most) {
                furthest = Some((score, number));
            }
        }
        furthest.map(|(_, number)| number)
    }
}

impl Learns for Lrb {
    fn learning_stats(&self) -> Option<LearningStats> {
        let bytes = self.heap_bytes();
        Some(self.distances.stats(&FEATURES, PAST - 1, bytes))
    }
}

impl Policy for Lrb {
    type Meta = u32;
    type Config = LrbConfig;
    const NAME: &'static str = "lrb";
    const ON_HIT: OnHit = OnHit::Reorder;

    fn new(_capacity: u64, config: &LrbConfig, seed: u64) -> Self {
        assert!(config.is_valid(), "knobs are checked where they are read");
        Lrb {
            distances: Distances::new(&config.maker, &BOOSTING, WIDTH, config.knobs.batch),
            objects: Vec::new(),
            vacant: Vec::new(),
            numbers: HashMap::default(),
            known: Vec::new(),
            cached: BTreeMap::new(),
            gone: BTreeMap::new(),
            now: 0,
            window: None,
            drawn: Vec::new(),
            undrawn: config.knobs.candidates,
            chance: Chance::new(seed),
            config: config.knobs.clone(),
        }
    }

    fn insert(&mut self, cells: &mut impl Cells<u32>, slot: Slot) {
        let key_hash = cells.key_hash(slot);
        let remembered = self.numbers.get(&key_hash).copied();
        // If two keys have the same hash, the later one is found again.
        let is_removed = |&number: &u32| self.objects[number as usize].slot.is_none();
        let number = match remembered.filter(is_removed) {
            Some(number) => {
                self.gone.remove(&self.objects[number as usize].last);
                number
            }
            None => self.add(key_hash),
        };
        let object = &mut self.objects[number as usize];
        object.slot = Some(slot);
        object.weight = cells.weight(slot);
        cells.set(slot, number + 1);
        self.request(number);
    }

    fn reorder(&mut self, cells: &mut impl Cells<u32>, slot: Slot) {
        let number = Self::number_of(cells, slot);
        self.cached.remove(&self.objects[number as usize].last);
        self.request(number);
    }

    fn reweigh(&mut self, cells: &mut impl Cells<u32>, slot: Slot, _old_weight: u32) {
        let number = Self::number_of(cells, slot);
        self.objects[number as usize].weight = cells.weight(slot);
    }

    fn moved(&mut self, cells: &mut impl Cells<u32>, _old: Slot, new: Slot) {
        let number = Self::number_of(cells, new);
        self.objects[number as usize].slot = Some(new);
    }

    fn remove(&mut self, cells: &mut impl Cells<u32>, slot: Slot) {
        let number = Self::number_of(cells, slot);
        cells.set(slot, 0);
        self.drawn.retain(|&drawn| drawn != number);
        self.cached.remove(&self.objects[number as usize].last);
        self.drop_object(number);
    }

    fn evict(&mut self, cells: &mut impl Cells<u32>, budget: &mut Budget) -> Eviction {
        let chosen = ((self.now as f64 * self.config.turns) as u64).max(WINDOW_MIN);
        let given = Some(self.config.window).filter(|&window| window > 0);
        self.window.get_or_insert(given.unwrap_or(chosen));
        if self.distances.is_full() {
            self.distances.train(self.now);
        }
        while let Some((&last, &oldest)) = self.cached.first_key_value() {
            if !budget.spend() {
                return Eviction::Again;
            }
            if !self.distances.is_trained() || self.is_past(last) {
                return self.evict_object(cells, oldest);
            }
            if self.undrawn > 0 {
                if let Some(slot) = cells.sample(self.chance.bits()) {
                    self.undrawn -= 1;
                    self.drawn.push(Self::number_of(cells, slot));
                }
                continue;
            }
            match self.furthest() {
                Some(number) => return self.evict_object(cells, number),
                // All drawn entries have been removed meanwhile.
                None => self.undrawn = self.config.candidates,
            }
        }
        Eviction::Empty
    }

    fn heap_bytes(&self) -> usize {
        let own = |object: &Object| object.gaps.capacity() * 4 + object.samples.capacity() * 8;
        let objects: usize = self.objects.iter().map(own).sum();
        // A table has one byte per slot beside the entry, and seven in eight slots are used; a
        // tree's nodes are two thirds full.
        let tables =
            self.numbers.capacity() * 8 / 7 * 17 + (self.cached.len() + self.gone.len()) * 18;
        objects
            + tables
            + self.objects.capacity() * size_of::<Object>()
            + (self.vacant.capacity() + self.known.capacity() + self.drawn.capacity()) * 4
            + self.distances.heap_bytes()
    }

    fn check(&self, cells: &impl Cells<u32>) {
        assert_eq!(self.cached.len(), cells.len());
        assert_eq!(self.known.len(), self.cached.len() + self.gone.len());
        assert_eq!(self.known.len() + self.vacant.len(), self.objects.len());
        assert!(self.numbers.len() <= self.known.len());
        self.distances.check();
        for (place, &number) in self.known.iter().enumerate() {
            assert_eq!(self.objects[number as usize].place as usize, place);
        }
        for (&last, &number) in &self.cached {
            let object = &self.objects[number as usize];
            let slot = object.slot.expect("it is cached");
            assert_eq!(object.last, last);
            assert_eq!(cells.get(slot), number + 1);
            assert_eq!(cells.key_hash(slot), object.key_hash);
            assert_eq!(cells.weight(slot), object.weight);
        }
        for (&last, &number) in &self.gone {
            let object = &self.objects[number as usize];
            assert_eq!(object.last, last);
            assert_eq!(object.slot, None);
            assert_eq!(self.numbers.get(&object.key_hash), Some(&number));
        }
        for &number in &self.drawn {
            assert!(
                self.objects[number as usize].slot.is_some(),
                "a removed entry is not drawn"
            );
        }
    }
}

#[cfg(test)]
mod tests;
