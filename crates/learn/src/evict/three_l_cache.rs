//! 3L-Cache: ranks entries by their predicted next request, a batch at a time.
//!
//! # Idea
//! LRB draws entries and evaluates its model at every eviction, and labels every request. Both cost
//! more than they yield. Here a ranking collects a hundredth of the cache as candidates, evicts the
//! half with the furthest predicted requests one by one, and keeps the other predictions until the
//! collection has passed all entries. Candidates come from both ends: entries that have just left a
//! small reserve of new ones, and entries from the least recently used on. Of the labels one in
//! four is used, and a model is trained once per batch.
//!
//! # Source
//! W. Zhou, Z. Niu, Y. Xiong, J. Fang, Q. Wang, *3L-Cache: Low Overhead and Precise Learning-based
//! Eviction Policy for Caches*, FAST 2025,
//! <https://www.usenix.org/conference/fast25/presentation/zhou-wenbin>; with the parameters of the
//! authors' code (repository optiq-lab/3L-Cache).
//!
//! # State
//! Per object, cached or remembered: 80 bytes, and 8 in indexes; as many objects are remembered as
//! are cached, up to `history` − 1 times as many on traces of millions of requests. Per candidate 8
//! bytes, per new entry 24, and 28 a row of the batch, 2 MB in all. In the simulator only.
//!
//! # Cost
//! hit O(1) and a sample · insert O(1) · evict: one step per candidate collected, passed or taken;
//! a candidate's row goes through 16 trees. Some evictions train, which no budget cuts.
//!
//! # Knobs
//! `batch` (65536; 64 to 16777216): labels that train a model. `size` (1; 0 to 1): whether the
//! distance is multiplied by the weight, which saves object misses, or counts alone, which saves
//! byte misses. `history` (6; 2 to 64): objects known for each entry, at most.
//!
//! # Departures
//! As in the code, the adaptation of the collection (which requests exclude an entry, the share at
//! the old end that is always collected, the reserve) is for `size=0` only. An absent gap counts as
//! infinitely long; in the code it is 0. Trees are grown by level, up to 32 leaves in a depth of 6,
//! from all rows and all features. Labels beyond a batch are dropped. A new round drops all
//! predictions. Until the first model is trained the victim is the least
//! recently used entry. An entry that is removed is forgotten.
//!
//! # Avoid when
//! The trace is short: below some hundred thousand labels nothing is learned. Memory per entry
//! matters.

mod object;
mod ranking;
mod round;
#[cfg(test)]
mod tests;

use crate::Boosting;
use crate::distances::{Distances, DistancesConfig};
use crate::stats::{LearningStats, Learns};
use object::{GAPS, Object, WIDTH};
use policy::knobs::Knobs;
use policy::parts::chance::Chance;
use policy::parts::lookup::Lookup;
use policy::parts::pool::{Chain, NONE, Pool};
use policy::{Budget, Cells, Eviction, OnHit, Policy, Slot};
use ranking::{CHUNK, Fresh, Prediction, Ranking};
use round::Round;
use std::collections::{BinaryHeap, VecDeque};

policy::knobs! {
    /// Numeric knobs of [`ThreeLCache`].
    pub struct ThreeLCacheKnobs {
        /// Number of labelled samples per training.
        batch: u32 = 65_536, 64 => 16_777_216;
        /// Whether the predicted distance is multiplied by the entry's weight.
        size: u8 = 1, 0 => 1;
        /// Maximum number of objects remembered per cached entry, including the entry itself.
        history: u8 = 6, 2 => 64;
    }
}

/// Reciprocal of the share of labels used once a model is trained.
const LABELS_PER_ROW: u64 = 4;
/// Maximum number of remembered objects that one request drops.
const FORGOTTEN_MAX: usize = 4;
/// Number of requests before the policy decides whether to remember more objects.
const REQUESTS_PER_HISTORY: u64 = 1_000_000;
/// LightGBM parameters from the source, where this crate's regression has them.
const BOOSTING: Boosting = Boosting {
    trees: 16,
    depth: 6,
    leaves: 32,
    learning_rate: 0.1,
    leaf_rows: 20,
};

/// Names of the features, in order. All gaps share one name.
const FEATURES: [&str; 4] = ["age", "gaps", "size", "requests"];

/// Knobs of [`ThreeLCache`], and the function that creates its model.
pub type ThreeLCacheConfig = DistancesConfig<ThreeLCacheKnobs>;

/// Request counts since the history was last full, which decide whether the history becomes longer.
#[derive(Clone, Copy, Debug, Default)]
struct Use {
    requests: u64,
    hits: u64,
    /// Number of requests for remembered objects that are not cached.
    returns: u64,
}

/// 3L-Cache. The module text is its card.
pub struct ThreeLCache {
    distances: Distances,
    objects: Pool<Object>,
    lookup: Lookup,
    /// Cached objects, least recently used first.
    queue: Chain,
    /// Cached objects in no order, for random draws.
    cached: Vec<u32>,
    /// Evicted objects, oldest first, with [`NONE`] in place of objects that have returned.
    gone: VecDeque<u32>,
    /// Number of places removed from the front of `gone` so far.
    gone_before: u64,
    /// Current maximum number of objects remembered per cached entry.
    history: u8,
    /// Whether `gone` has been full since `history` changed.
    has_full_history: bool,
    use_of_history: Use,
    held_weight: u64,
    fresh: VecDeque<Fresh>,
    fresh_weight: u64,
    /// Entry at which the collection continues; `None` for the least recently used entry.
    hand: Option<u32>,
    round: Round,
    ranking: Option<Ranking>,
    /// Candidates whose predictions have not been computed yet.
    drawn: Vec<u32>,
    predictions: BinaryHeap<Prediction>,
    /// Number of victims left until the next ranking.
    victims_left: u32,
    /// Number of requests so far.
    now: u64,
    /// Number of requests at the last training.
    trained_at: u64,
    /// Longest times without a request after which an object was forgotten, in the last batch and
    /// in the current one.
    forgotten_ages: [u64; 2],
    has_evicted: bool,
    chance: Chance,
    config: ThreeLCacheKnobs,
}

impl ThreeLCache {
    fn number_of(cells: &impl Cells<u32>, slot: Slot) -> u32 {
        let meta = cells.get(slot);
        assert!(meta > 0, "the policy was notified of the entry");
        meta - 1
    }

    /// Adds a label for a sampled object, unless this label is skipped.
    fn label(&mut self, number: u32, distance: u64) {
        let object = self.objects.at_mut(number);
        let sampled_at = std::mem::take(&mut object.sampled_at);
        let is_used = !self.distances.is_trained() || self.chance.below(LABELS_PER_ROW) == 0;
        if is_used {
            let row = || self.objects.at(number).features(sampled_at);
            self.distances.add(row, distance + 1);
        }
    }

    /// Counts a request for an object that is now known and cached, and samples a random object.
    fn request(&mut self, number: u32) {
        self.now += 1;
        let now = self.now;
        let object = self.objects.at(number);
        if object.sampled_at > 0 {
            self.label(number, now - object.sampled_at);
        }
        self.objects.at_mut(number).request(now);
        if self.has_evicted {
            self.sample();
            self.forget_oldest();
        }
    }

    fn sample(&mut self) {
        let place = self
            .chance
            .below((self.cached.len() + self.gone.len()) as u64) as usize;
        let number = match self.cached.get(place) {
            Some(&number) => number,
            None => self.gone[place - self.cached.len()],
        };
        if number != NONE {
            let object = self.objects.at_mut(number);
            if object.sampled_at == 0 {
                object.sampled_at = self.now;
            }
        }
    }

    /// Drops the oldest objects of a history that is too long, a bounded number per call.
    fn forget_oldest(&mut self) {
        let len_max = self.cached.len() * (usize::from(self.history) - 1) + 2;
        for _ in 0..FORGOTTEN_MAX {
            if self.gone.len() < len_max {
                return;
            }
            self.has_full_history = true;
            let oldest = self.gone.pop_front();
            self.gone_before += 1;
            let number = oldest.expect("two or more are remembered");
            if number == NONE {
                continue;
            }
            let object = self.objects.at(number);
            if object.sampled_at > 0 {
                let age = self.now - object.last;
                self.label(number, self.forgotten_ages[0] + age);
                self.forgotten_ages[1] = self.forgotten_ages[1].max(age);
            }
            self.drop_object(number);
        }
    }

    /// Drops an object that is not cached.
    fn drop_object(&mut self, number: u32) {
        if self.objects.at(number).is_indexed {
            self.lookup.remove(&mut self.objects, number);
        }
        self.objects.remove(number);
        // The pool has freed its memory, so that links of removed nodes can no longer be read.
        if self.objects.is_empty() {
            self.fresh.clear();
            self.fresh_weight = 0;
            self.predictions.clear();
        }
    }

    /// Removes an object from the set of cached ones.
    fn leave_cache(&mut self, number: u32) {
        if self.hand == Some(number) {
            self.hand = self.queue.newer(&self.objects, number);
        }
        self.queue.unlink(&mut self.objects, number);
        let object = self.objects.at_mut(number);
        object.prediction = f32::NAN;
        object.is_cached = false;
        let place = object.place as usize;
        self.held_weight -= u64::from(object.weight);
        self.cached.swap_remove(place);
        if let Some(&moved) = self.cached.get(place) {
            self.objects.at_mut(moved).place = place as u64;
        }
    }

    /// Evicts an object. It is remembered until the history is too long.
    fn evict_object(&mut self, cells: &mut impl Cells<u32>, number: u32) -> Eviction {
        self.has_evicted = true;
        self.victims_left = self.victims_left.saturating_sub(1);
        self.leave_cache(number);
        let object = self.objects.at_mut(number);
        cells.set(object.slot, 0);
        let slot = object.slot;
        match object.is_indexed {
            true => {
                object.place = self.gone_before + self.gone.len() as u64;
                self.gone.push_back(number);
            }
            // Another entry has the same hash.
            false => self.drop_object(number),
        }
        Eviction::Victim(slot)
    }

    /// Trains the model on a full batch and drops the batch. After an error, the previous model is
    /// kept.
    fn train(&mut self) {
        self.distances.train(self.now);
        self.predictions.clear();
        self.forgotten_ages[0] = self.forgotten_ages[1];
        self.trained_at = self.now;
        self.lengthen_history();
    }

    /// Remembers more objects if a longer history would have contained enough of the missed ones.
    fn lengthen_history(&mut self) {
        let used = self.use_of_history;
        if used.requests <= REQUESTS_PER_HISTORY || !self.has_full_history {
            return;
        }
        let multiple = u64::from(self.history) - 1;
        let is_useful = used.returns as f64 > 0.01 * (used.hits * multiple) as f64;
        let misses = used.requests - used.hits;
        if is_useful && self.history < self.config.history && multiple < misses / used.returns {
            self.history += 1;
            self.has_full_history = false;
        }
        self.use_of_history = Use::default();
    }

    /// Counts a request for the decision about the length of the history.
    fn count_use(&mut self, is_hit: bool, is_known: bool) {
        if self.has_full_history {
            self.use_of_history.requests += 1;
            self.use_of_history.hits += u64::from(is_hit);
            self.use_of_history.returns += u64::from(is_known && !is_hit);
        }
    }
}

impl Learns for ThreeLCache {
    fn learning_stats(&self) -> Option<LearningStats> {
        Some(self.distances.stats(&FEATURES, GAPS, self.heap_bytes()))
    }
}

impl Policy for ThreeLCache {
    type Meta = u32;
    type Config = ThreeLCacheConfig;
    const NAME: &'static str = "3l-cache";
    const ON_HIT: OnHit = OnHit::Reorder;

    fn new(_capacity: u64, config: &ThreeLCacheConfig, seed: u64) -> Self {
        assert!(config.is_valid(), "knobs are checked where they are read");
        ThreeLCache {
            distances: Distances::new(&config.maker, &BOOSTING, WIDTH, config.knobs.batch),
            objects: Pool::new(),
            lookup: Lookup::new(),
            queue: Chain::new(),
            cached: Vec::new(),
            gone: VecDeque::new(),
            gone_before: 0,
            history: 2,
            has_full_history: false,
            use_of_history: Use::default(),
            held_weight: 0,
            fresh: VecDeque::new(),
            fresh_weight: 0,
            hand: None,
            round: Round::new(config.knobs.size == 0),
            ranking: None,
            drawn: Vec::new(),
            predictions: BinaryHeap::new(),
            victims_left: 0,
            now: 0,
            trained_at: 0,
            forgotten_ages: [0; 2],
            has_evicted: false,
            chance: Chance::new(seed),
            config: config.knobs.clone(),
        }
    }

    fn insert(&mut self, cells: &mut impl Cells<u32>, slot: Slot) {
        let key_hash = cells.key_hash(slot);
        let mut known = self.lookup.find(&self.objects, key_hash);
        // If two entries have the same hash, the later one is found again.
        if let Some(number) = known
            && self.objects.at(number).is_cached
        {
            self.lookup.remove(&mut self.objects, number);
            self.objects.at_mut(number).is_indexed = false;
            known = None;
        }
        self.count_use(false, known.is_some());
        let number = match known {
            Some(number) => {
                let place = self.objects.at(number).place - self.gone_before;
                self.gone[place as usize] = NONE;
                number
            }
            None => {
                let number = self.objects.add(Object::new(key_hash));
                self.lookup.add(&mut self.objects, number);
                number
            }
        };
        let weight = cells.weight(slot);
        let object = self.objects.at_mut(number);
        (object.slot, object.weight, object.is_cached) = (slot, weight, true);
        object.place = self.cached.len() as u64;
        object.inserted = self.now + 1;
        cells.set(slot, number + 1);
        self.held_weight += u64::from(weight);
        self.cached.push(number);
        self.queue.push(&mut self.objects, number);
        self.request(number);
        if self.distances.is_trained() {
            self.add_fresh(number, weight);
        }
    }

    fn reorder(&mut self, cells: &mut impl Cells<u32>, slot: Slot) {
        let number = Self::number_of(cells, slot);
        self.count_use(true, true);
        if self.hand == Some(number) {
            self.hand = self.queue.newer(&self.objects, number);
        }
        self.objects.at_mut(number).prediction = f32::NAN;
        self.queue.promote(&mut self.objects, number);
        self.request(number);
    }

    fn reweigh(&mut self, cells: &mut impl Cells<u32>, slot: Slot, _old_weight: u32) {
        let object = self.objects.at_mut(Self::number_of(cells, slot));
        let weight = cells.weight(slot);
        let before = std::mem::replace(&mut object.weight, weight);
        self.held_weight = self.held_weight - u64::from(before) + u64::from(weight);
    }

    fn moved(&mut self, cells: &mut impl Cells<u32>, _old: Slot, new: Slot) {
        self.objects.at_mut(Self::number_of(cells, new)).slot = new;
    }

    fn remove(&mut self, cells: &mut impl Cells<u32>, slot: Slot) {
        let number = Self::number_of(cells, slot);
        cells.set(slot, 0);
        self.drawn.retain(|&drawn| drawn != number);
        self.leave_cache(number);
        self.drop_object(number);
    }

    fn evict(&mut self, cells: &mut impl Cells<u32>, budget: &mut Budget) -> Eviction {
        if self.distances.is_full() && self.victims_left == 0 && self.ranking.is_none() {
            self.train();
        }
        while let Some(oldest) = self.queue.oldest() {
            if !budget.spend() {
                return Eviction::Again;
            }
            if !self.distances.is_trained() {
                return self.evict_object(cells, oldest);
            }
            if let Some(ranking) = self.ranking {
                self.ranking = self.rank(ranking);
            } else if self.victims_left == 0 || self.predictions.is_empty() {
                if self.round.len == 0 {
                    self.round.renew(self.cached.len(), self.fresh.len());
                }
                self.ranking = Some(Ranking {
                    fresh_left: self.collected() * 3 / 2,
                    ..Ranking::default()
                });
            } else if let Some(number) = self.take_furthest() {
                return self.evict_object(cells, number);
            }
        }
        Eviction::Empty
    }

    fn heap_bytes(&self) -> usize {
        self.objects.heap_bytes()
            + self.lookup.heap_bytes()
            + (self.cached.capacity() + self.gone.capacity() + self.drawn.capacity()) * 4
            + self.fresh.capacity() * size_of::<Fresh>()
            + self.predictions.capacity() * size_of::<Prediction>()
            + self.distances.heap_bytes()
    }

    fn check(&self, cells: &impl Cells<u32>) {
        let members = self.queue.members(&self.objects);
        assert_eq!(members.len(), cells.len());
        assert_eq!(members.len(), self.cached.len());
        let (mut last, mut weight) = (0, 0);
        for &number in &members {
            let object = self.objects.at(number);
            assert!(object.is_cached);
            assert!(object.last > last, "the queue is in the order of requests");
            assert_eq!(self.cached[object.place as usize], number);
            assert_eq!(cells.get(object.slot), number + 1);
            assert_eq!(cells.key_hash(object.slot), object.key_hash);
            assert_eq!(cells.weight(object.slot), object.weight);
            (last, weight) = (object.last, weight + u64::from(object.weight));
        }
        assert_eq!(weight, self.held_weight);
        let gone = self.gone.iter().enumerate().filter(|at| *at.1 != NONE);
        for (place, &number) in gone.clone() {
            let object = self.objects.at(number);
            assert!(!object.is_cached && object.is_indexed);
            assert_eq!(object.place, self.gone_before + place as u64);
            let found = self.lookup.find(&self.objects, object.key_hash);
            assert_eq!(found, Some(number));
        }
        assert_eq!(members.len() + gone.count(), self.objects.len());
        assert!(self.hand.is_none_or(|hand| members.contains(&hand)));
        let is_cached = |number: &u32| self.objects.at(*number).is_cached;
        assert!(self.drawn.iter().all(is_cached) && self.drawn.len() <= CHUNK);
        let fresh = self.fresh.iter().map(|fresh| u64::from(fresh.weight));
        assert_eq!(fresh.sum::<u64>(), self.fresh_weight);
        self.distances.check();
        self.round.check();
    }
}
