//! GL-Cache: evicts whole groups of entries, chosen by a model of their utility that is trained on
//! the way.
//!
//! # Idea
//! Learning about each entry is expensive, and most entries are requested too rarely to learn from.
//! Entries written one after the other behave alike: they form a group, and features and utility
//! are kept by group. The group with the least predicted utility is merged with its neighbours in
//! age: their best entries stay as a new group, and all others are evicted. Whether this misses
//! less than merging by age is tried on miniature caches.
//!
//! # Source
//! J. Yang, Z. Mao, Y. Yue, K. V. Rashmi, *GL-Cache: Group-level learning for efficient and
//! high-performance caching*, FAST 2023,
//! <https://www.usenix.org/conference/fast23/presentation/yang-juncheng>; chapter 6 of J. Yang,
//! *Designing efficient and scalable key-value cache management systems*, Carnegie Mellon
//! University 2024, which this follows. With the oracle of its figure 6.6 in place of the model it
//! is `gl-oracle`.
//!
//! # State
//! Per entry: 64 bits (last request, group, hits, flags) and a 4-byte reference in its group. A
//! group of 60 takes about 110 bytes, 45 of them for learning, less than a byte an entry. In
//! addition: up to `samples` samples of 56 bytes; ghosts of 17 bytes for entries of sampled groups,
//! at most as many as entries are held; and the model. Three miniatures of 2,048 to 4,095 entries
//! take as much again as caches of that size, and 50 bytes an entry.
//!
//! # Cost
//! hit: one write of the entry's 64 bits and of its group's counters · miss: one lookup of a ghost
//! · insert O(1) · remove, relocate: a scan of the group · evict: a step for each entry of the
//! merged groups, for each that stays and for each that is evicted; each time that `fraction` of
//! the groups were evicted, a step for each group and a prediction of all; once an interval a
//! training. Prediction and training are bounded by the number of groups and of samples, and are
//! not cut by the budget. One request in (entries / 4,095) also goes through three miniatures, each
//! of which trains on its own.
//!
//! # Knobs
//! `mode` (`e`; `t` for throughput): sets the defaults of the next three. `group` (60; `t` 200):
//! entries in a group. `merged` (2; `t` 5): groups merged at an eviction. `fraction` (0.02; `t`
//! 0.1): share of the groups evicted before all are ranked again. `interval` (`auto`, `daily`, or a
//! number): when it trains: each day, or after this number of requests for each entry held; `auto`
//! is 8, and daily once the clock has run for three days. `way` (`auto`, `merge`, `asked` or
//! `model`): the strategy by which groups are merged; `auto` is the one that misses least in
//! miniature. `samples` (8192): maximum number of sampled groups. `trees` (16) and `depth` (6): of
//! the model.
//!
//! # Departures
//! Groups are merged by one of three strategies (`trials.rs`): as in FIFO-Merge; by age, keeping
//! only requested entries; or as the model predicts. Each is tried in miniature. The first is used
//! until another has missed clearly less. The source's own strategy is `way=model`, which is the
//! first until the model is trained.
//!
//! A group's utility is that of the entries that a merge would evict, all but the most recent,
//! because what stays is no loss. The sum is of 1 / (T + entries held) instead of 1 / T, of which
//! one entry requested at once would outweigh a thousand. Two features are added: the time since
//! the group was written or merged, and the members requested since then. docs/lab/learned.md shows
//! what each gained.
//!
//! The time until the next request is counted in requests, because clocks of traces have whole
//! seconds. Rates and ages are by the clock; ages are in requests where it stands still. Rates and
//! the miss ratio at creation are means over the last groups written, each with half the weight of
//! the group eight later. A sample is used once it has collected for a quarter of an interval, if
//! there are 128 such samples. Entries that a merge keeps go on collecting for their sampled group.
//! Small caches have smaller groups, two hundred of them. A hit does not rescue an entry chosen for
//! eviction; the entry worth least is evicted first. Not adopted from the reference code: an
//! untrained phase that may never end, three more features, and an abort at removals.
//!
//! # Avoid when
//! The cache holds fewer than some thousand entries, because small groups predict little. A call
//! must be short: training takes tens of milliseconds.

mod entry;
mod examine;
mod features;
mod groups;
mod knobs;
mod miniature;
mod samples;
#[cfg(test)]
mod tests;
mod trials;

pub use features::names as feature_names;
pub use knobs::{GlConfig, Mode, Strategy};

use crate::schedule::Schedule;
use crate::stats::{LearningStats, Learns};
use crate::{Regressor, Rows};
use entry::{EntryState, GHOSTED, LEAVING};
use examine::{Examined, Ranked, Stage};
use features::{WIDTH, Window};
use groups::{Groups, NONE};
use policy::knobs::Knobs;
use policy::parts::chance::Chance;
use policy::{Admit, Budget, Cells, Eviction, Facts, OnHit, Policy, Slot};
use samples::Samples;
use trials::Trials;

/// Minimum number of samples for a training. With fewer, the model predicts badly: with forty
/// samples, it misses a third more on lirs_sprite than without a model.
const SAMPLES_MIN: usize = 128;
/// Number of groups sampled each time a group is full.
const DRAWS: usize = 2;
/// Minimum number of groups. Small caches have smaller groups, because a ranking needs more than
/// twenty to choose from.
const GROUPS_MIN: usize = 200;

/// GL-Cache. With `ORACLE`, the utility of groups is known from the future instead of predicted.
pub struct GlCache<const ORACLE: bool = false> {
    groups: Groups,
    /// Group being written, or [`NONE`].
    open: u32,
    /// Group from which the next search by age continues.
    hand: u32,
    held: usize,
    stage: Stage,
    /// Groups being merged, oldest first.
    merging: Vec<u32>,
    /// Entries of the groups being merged. They are first sorted by value, highest last; then only
    /// the victims remain, with the next one last.
    examined: Vec<Examined>,
    /// Groups sorted by utility, least useful last.
    ranked: Vec<Ranked>,
    rows: Rows,
    predictions: Vec<f32>,
    /// Number of groups to evict before all groups are ranked again.
    quota: usize,
    window: Window,
    samples: Samples,
    regressor: Box<dyn Regressor>,
    schedule: Schedule,
    /// Number of groups filled since the last training. Samples are drawn each time `stride` groups
    /// have been filled.
    closed: usize,
    stride: usize,
    learning_stats: LearningStats,
    chance: Chance,
    /// Strategy of the current merge.
    merging_strategy: Strategy,
    trials: Option<Box<Trials>>,
    capacity: u64,
    seed: u64,
    group_size: usize,
    merged: usize,
    fraction: f32,
    config: GlConfig,
}

impl<const ORACLE: bool> GlCache<ORACLE> {
    /// Returns the number of entries per group, which is lower in small caches.
    fn group_size(&self) -> usize {
        self.group_size.min(self.held / GROUPS_MIN).max(1)
    }

    fn has_closed_group(&self) -> bool {
        self.groups.len() > usize::from(self.open != NONE)
    }

    /// Returns the group being written, or begins one.
    fn open(&mut self, facts: &impl Facts) -> u32 {
        if self.open == NONE {
            self.open = self.groups.add(NONE, self.group_size);
        }
        let group = self.groups.at_mut(self.open);
        if group.members.is_empty() {
            group.birth = self.window.birth(facts);
            group.made_at = facts.requests();
        }
        self.open
    }

    /// Closes the group being written, because it is full.
    fn close(&mut self, cells: &mut impl Cells<EntryState>) {
        self.window.group_filled(cells);
        self.open = NONE;
        self.closed += 1;
        if self.learns() && self.closed.is_multiple_of(self.stride) {
            (0..DRAWS).for_each(|_| self.draw(cells));
        }
    }

    /// Samples a random group, unless it is already sampled or cannot be. Members that a merge
    /// would keep count as requested.
    fn draw(&mut self, cells: &mut impl Cells<EntryState>) {
        let id = self.chance.below(self.groups.ids() as u64) as u32;
        let Some(group) = self.groups.get_mut(id) else {
            return;
        };
        let is_taken = self.samples.is_collecting(group.sample) || group.is_merging;
        if is_taken || group.members.is_empty() || self.samples.is_full(self.held) {
            return;
        }
        let requests = cells.requests();
        let features = self.window.features(group, cells);
        group.sample = self.samples.add(features, requests, self.held as u32);
        group.tag = entry::tag_after(group.tag);
        let mut youngest = group.members.clone();
        let staying = youngest.len() / self.merged;
        if staying > 0 {
            youngest.select_nth_unstable_by_key(staying - 1, |slot| {
                (cells.get(*slot).age(requests), *slot)
            });
        }
        for slot in &youngest[..staying] {
            let note = cells.get(*slot);
            if note.tag() != GHOSTED {
                cells.set(*slot, note.with_tag(group.tag));
            }
        }
    }

    fn free(&mut self, id: u32) {
        if self.hand == id {
            self.hand = self.closed_after(id);
        }
        self.groups.remove(id);
    }

    /// Returns the next younger group. The search ends before the group being written; otherwise it
    /// would stay at the young end and evict only new entries.
    fn closed_after(&self, id: u32) -> u32 {
        match self.groups.at(id).next {
            next if next == self.open => NONE,
            next => next,
        }
    }

    /// Returns true if a training is due.
    fn is_due(&mut self, facts: &impl Facts) -> bool {
        if self.samples.len() < SAMPLES_MIN {
            return false;
        }
        let (now, requests) = (facts.now(), facts.requests());
        let mature = self.schedule.mature_request(requests);
        self.schedule.is_due(now, requests, self.held as u64)
            && self.samples.older_than(mature) >= SAMPLES_MIN
    }

    /// Returns the memory for learning in bytes, which a cache that merges groups by age would not
    /// need.
    fn learning_bytes(&self) -> usize {
        self.groups.feature_bytes()
            + self.ranked.capacity() * size_of::<Ranked>()
            + self.rows.heap_bytes()
            + self.predictions.capacity() * size_of::<f32>()
            + self.samples.heap_bytes()
            + self.regressor.heap_bytes()
            + self.trials.as_ref().map_or(0, |trials| trials.heap_bytes())
    }

    /// Trains the model on the samples that have collected for long enough, and removes them.
    fn train(&mut self, facts: &impl Facts) {
        let mature = self.schedule.mature_request(facts.requests());
        let mut targets = Vec::new();
        self.rows.clear();
        self.samples.take_older_than(mature, |features, utility| {
            self.rows.push(features);
            targets.push(utility as f32);
        });
        match self.regressor.train(&self.rows, &targets) {
            Ok(()) => {
                self.learning_stats.trainings += 1;
                self.learning_stats.trained_at = Some(facts.requests());
            }
            Err(_) => self.learning_stats.failures += 1,
        }
        self.learning_stats.training_rows += targets.len() as u64;
        self.schedule.trained(facts.now(), facts.requests());
        let wanted = self.samples.limit().max(1);
        self.stride = (self.closed * DRAWS).div_ceil(wanted).max(1);
        self.closed = 0;
        self.quota = 0;
    }
}

impl<const ORACLE: bool> Learns for GlCache<ORACLE> {
    fn learning_stats(&self) -> Option<LearningStats> {
        let shares = self.regressor.importances();
        let mut learning_stats = self.learning_stats.clone();
        learning_stats.importances = features::names().zip(shares).collect();
        learning_stats.learning_bytes = self.learning_bytes() as u64;
        (!ORACLE).then_some(learning_stats)
    }
}

impl<const ORACLE: bool> Policy for GlCache<ORACLE> {
    type Meta = EntryState;
    type Config = GlConfig;
    const NAME: &'static str = if ORACLE { "gl-oracle" } else { "gl-cache" };
    const ON_HIT: OnHit = OnHit::Reorder;
    const NEEDS_FUTURE: bool = ORACLE;

    fn new(capacity: u64, config: &GlConfig, seed: u64) -> Self {
        assert!(config.is_valid(), "knobs are checked where they are read");
        GlCache {
            groups: Groups::new(),
            open: NONE,
            hand: NONE,
            held: 0,
            stage: Stage::Idle,
            merging: Vec::new(),
            examined: Vec::new(),
            ranked: Vec::new(),
            rows: Rows::new(WIDTH),
            predictions: Vec::new(),
            quota: 0,
            window: Window::default(),
            samples: Samples::new(config.samples.into()),
            regressor: config.regressor(),
            schedule: Schedule::new(config.interval),
            closed: 0,
            stride: 1,
            learning_stats: LearningStats::default(),
            chance: Chance::new(seed),
            merging_strategy: Strategy::default(),
            trials: None,
            capacity,
            seed,
            group_size: config.group(),
            merged: config.merged(),
            fraction: config.fraction(),
            config: config.clone(),
        }
    }

    fn resize(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.trials = None;
    }

    fn miss(&mut self, facts: &impl Facts, key_hash: u64, weight: u32) -> Admit {
        self.window.missed();
        if let Some(trials) = &mut self.trials {
            trials.request(key_hash, weight, facts.now());
        }
        self.samples.resolve_ghost(key_hash, facts.requests());
        Admit::Yes
    }

    fn insert(&mut self, cells: &mut impl Cells<EntryState>, slot: Slot) {
        if self.window.begin(cells) {
            self.schedule.begin(cells.now(), cells.requests());
        }
        let id = self.open(cells);
        self.groups.push(id, slot, cells.weight(slot));
        cells.set(slot, EntryState::new(cells.requests(), id));
        self.held += 1;
        self.window.wrote();
        if self.groups.at(id).members.len() >= self.group_size() && self.groups.has_room() {
            self.close(cells);
        }
    }

    #[inline]
    fn reorder(&mut self, cells: &mut impl Cells<EntryState>, slot: Slot) {
        let now = cells.requests();
        if let Some(trials) = &mut self.trials {
            trials.request(cells.key_hash(slot), cells.weight(slot), cells.now());
        }
        let mut note = cells.get(slot).requested_at(now);
        if note.tag() == GHOSTED {
            self.samples.resolve_ghost(cells.key_hash(slot), now);
            note = note.with_tag(0);
        }
        if note.group() != LEAVING {
            let group = self.groups.at_mut(note.group());
            group.requests += 1.0;
            if !note.was_requested() {
                group.requested += 1.0;
                group.requested_here += 1.0;
            }
            if note.tag() != group.tag {
                self.samples
                    .add_utility(group.sample, now, cells.weight(slot));
                note = note.with_tag(group.tag);
            }
            note = note.marked_requested();
        }
        cells.set(slot, note);
    }

    fn reweigh(&mut self, cells: &mut impl Cells<EntryState>, slot: Slot, old_weight: u32) {
        let id = cells.get(slot).group();
        if id != LEAVING {
            let group = self.groups.at_mut(id);
            group.weight = group.weight - u64::from(old_weight) + u64::from(cells.weight(slot));
        }
    }

    fn moved(&mut self, cells: &mut impl Cells<EntryState>, old: Slot, new: Slot) {
        match cells.get(new).group() {
            LEAVING => {
                let examined = self.examined.iter_mut().find(|one| one.slot == old);
                examined.expect("what leaves was examined").slot = new;
            }
            id => {
                let members = &mut self.groups.at_mut(id).members;
                let member = members.iter_mut().find(|member| **member == old);
                *member.expect("an entry is a member of its group") = new;
            }
        }
    }

    fn remove(&mut self, cells: &mut impl Cells<EntryState>, slot: Slot) {
        match cells.get(slot).group() {
            LEAVING => self.forget_examined(slot),
            id => {
                self.groups.take(id, slot, cells.weight(slot));
                let group = self.groups.at(id);
                if group.members.is_empty() && id != self.open && !group.is_merging {
                    self.free(id);
                }
            }
        }
        self.held -= 1;
    }

    fn evict(&mut self, cells: &mut impl Cells<EntryState>, budget: &mut Budget) -> Eviction {
        self.keep_trials();
        while self.held > 0 {
            if !budget.spend() {
                return Eviction::Again;
            }
            if let Some(victim) = self.step(cells) {
                self.held -= 1;
                return Eviction::Victim(victim);
            }
        }
        Eviction::Empty
    }

    fn heap_bytes(&self) -> usize {
        self.groups.heap_bytes()
            + self.merging.capacity() * size_of::<u32>()
            + self.examined.capacity() * size_of::<Examined>()
            + self.ranked.capacity() * size_of::<Ranked>()
            + self.rows.heap_bytes()
            + self.predictions.capacity() * size_of::<f32>()
            + self.samples.heap_bytes()
            + self.regressor.heap_bytes()
            + self.trials.as_ref().map_or(0, |trials| trials.heap_bytes())
    }

    fn check(&self, cells: &impl Cells<EntryState>) {
        self.groups.check(cells);
        self.samples.check();
        if let Some(trials) = &self.trials {
            trials.check();
        }
        let members: usize = self.groups.lens().sum();
        assert_eq!(members + self.examined.len(), self.held);
        for one in &self.examined {
            assert!(cells.is_live(one.slot));
            assert_eq!(cells.get(one.slot).group(), LEAVING);
        }
        let is_open = self.open == NONE || self.groups.at(self.open).next == NONE;
        assert!(is_open, "the group that is written is the youngest");
        assert!(self.hand == NONE || self.groups.get(self.hand).is_some());
        for &id in &self.merging {
            assert!(self.groups.at(id).is_merging);
            assert_ne!(id, self.open);
        }
    }
}
