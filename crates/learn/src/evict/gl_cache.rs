//! GL-Cache: whole groups of entries are ranked by what a model, trained on the way, predicts of them.
//!
//! # Idea
//! To learn about each entry is dear, and most entries are asked for too seldom to learn from. Entries
//! written one after the other behave alike: they form a group, features are kept and utility is learned
//! by group. The group that is worth least is merged with its neighbours in age: their best entries
//! stay as a new group, all others go. Whether that is better than to merge by age is seen in miniature.
//!
//! # Source
//! J. Yang, Z. Mao, Y. Yue, K. V. Rashmi, *GL-Cache: Group-level learning for efficient and
//! high-performance caching*, FAST 2023, <https://www.usenix.org/conference/fast23/presentation/yang-juncheng>;
//! chapter 6 of J. Yang, *Designing efficient and scalable key-value cache management systems*, Carnegie
//! Mellon University 2024, which this follows. With the oracle of its figure 6.6 in the model's place it is
//! `gl-oracle`.
//!
//! # State
//! Per entry: 64 bits (last request, group, hits, marks) and a 4-byte reference in its group. A group of 60:
//! some 110 bytes, 45 of them for learning, less than a byte an entry. Besides: up to `samples` samples of 56
//! bytes, ghosts of 17 bytes of sampled groups' entries, at most as many as entries are held, and the model.
//! Three miniatures of 2,048 to 4,095 entries each take as much again as caches of that size, and 50 bytes an entry.
//!
//! # Cost
//! hit: one write of the entry's 64 bits and of its group's counters · miss: a look at the ghosts · insert
//! O(1) · remove, relocate: a look through the group · evict: a step for each entry of the merged groups,
//! for each that stays and for each that goes; before every `fraction` of the groups have gone, a step for
//! each group and a prediction of all; once an interval a training. Prediction and training are
//! bounded by the number of groups and of samples, and not cut by the budget. One request in
//! (entries / 4,095) also goes through three miniatures, each of which trains by itself.
//!
//! # Knobs
//! `mode` (`e`; `t` for throughput): the defaults of the next three. `group` (60; `t` 200): entries in a
//! group. `merged` (2; `t` 5): groups merged at an eviction. `fraction` (0.02; `t` 0.1): of the groups that
//! go before they are ranked anew. `interval` (`auto`, `daily`, or a number): when it trains: each day, or
//! when there were so many requests for each entry held; `auto` is 8, and daily once the clock has run for
//! three days. `way` (`auto`, `merge`, `asked` or `model`): how groups go, or the way that misses least in
//! miniature. `samples` (8192): groups to learn from. `trees` (16) and `depth` (6): of the model.
//!
//! # Departures
//! Groups go one of three ways, see `ways.rs`: as in FIFO-Merge; by age, and nothing stays that was not asked for;
//! or as the model says. Each is tried in miniature, the first goes until another has missed clearly less, and the
//! source's alone is `way=model`, which is the first until it has trained.
//!
//! A group's utility is that of what would go if it were merged, its members but for the youngest: what stays
//! is no loss. One over (T + entries held) is summed, not one over T, of which an entry asked for at once
//! would outweigh a thousand. Two features are added: how long ago the group was written or merged, and members asked
//! for since then. docs/learned.md tells what each came to.
//!
//! The time until the next request is counted in requests, because clocks of traces tell whole
//! seconds; rates and ages are by the clock, ages in requests where it stands still. Rates and the miss
//! ratio at creation are means over the last groups written, each half as heavy as that eight before. A
//! sample is learned from once it has collected for a quarter of an interval, and there are 128 such. Entries
//! that stay in a merge collect on for the group that was sampled. Small caches have smaller groups, two hundred of
//! them. What is planned to go is not rescued by a hit; the least goes first.
//! The reference code's untrained phase that may never end, its three more features, and its abort at
//! removals are not followed.
//!
//! # Avoid when
//! The cache holds fewer than some thousand entries: groups of a handful tell little. A call must be short: training takes tens of milliseconds.

mod examine;
mod features;
mod groups;
mod knobs;
mod miniature;
mod note;
mod samples;
#[cfg(test)]
mod tests;
mod ways;

pub use features::names as feature_names;
pub use knobs::{GlConfig, Mode};
pub use ways::Way;

use crate::schedule::Schedule;
use crate::stats::{LearningStats, Learns};
use crate::{Regressor, Rows};
use examine::{Examined, Ranked, Stage};
use features::{WIDTH, Window};
use groups::{Groups, NONE};
use note::{GHOSTED, LEAVING, Note};
use policy::knobs::Knobs;
use policy::parts::chance::Chance;
use policy::{Admit, Budget, Cells, Eviction, Facts, OnHit, Policy, Slot};
use samples::Samples;
use ways::Trials;

/// Fewer samples teach noise: with forty of them lirs_sprite misses a third more than without a model.
const SAMPLES_MIN: usize = 128;
/// Groups drawn as samples whenever one has been written full.
const DRAWS: usize = 2;
/// There are so many groups, if need be by making them small: among twenty there is nothing to choose.
const GROUPS_MIN: usize = 200;

/// GL-Cache; with `ORACLE`, utility is not predicted but known.
pub struct GlCache<const ORACLE: bool = false> {
    groups: Groups,
    /// The group being written, or [`NONE`].
    open: u32,
    /// Where the next round by age goes on.
    hand: u32,
    held: usize,
    stage: Stage,
    /// Neighbours that are being merged, the oldest first.
    merging: Vec<u32>,
    /// Entries taken out of them; once examined, the worth most last, and then the victims, the next one last.
    examined: Vec<Examined>,
    /// Groups by utility, the least useful last.
    ranked: Vec<Ranked>,
    rows: Rows,
    predictions: Vec<f32>,
    /// Groups that may go before they are ranked anew.
    quota: usize,
    window: Window,
    samples: Samples,
    regressor: Box<dyn Regressor>,
    schedule: Schedule,
    /// Groups written since the last training, and after how many of them samples are drawn.
    closed: usize,
    stride: usize,
    lessons: LearningStats,
    chance: Chance,
    /// The way that the groups go which are being merged.
    merging_way: Way,
    trials: Option<Box<Trials>>,
    capacity: u64,
    seed: u64,
    group_size: usize,
    merged: usize,
    fraction: f32,
    config: GlConfig,
}

impl<const ORACLE: bool> GlCache<ORACLE> {
    /// Entries in a group: fewer in a cache that would not have groups enough.
    fn group_size(&self) -> usize {
        self.group_size.min(self.held / GROUPS_MIN).max(1)
    }

    fn has_closed_group(&self) -> bool {
        self.groups.len() > usize::from(self.open != NONE)
    }

    /// The group that is written, opened where there is none.
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

    /// The group that was written is full.
    fn close(&mut self, cells: &mut impl Cells<Note>) {
        self.window.turn(cells);
        self.open = NONE;
        self.closed += 1;
        if self.learns() && self.closed.is_multiple_of(self.stride) {
            (0..DRAWS).for_each(|_| self.draw(cells));
        }
    }

    /// Samples a group, unless chance hits one that cannot be or already is. Members that would stay if it were
    /// merged count as asked for already.
    fn draw(&mut self, cells: &mut impl Cells<Note>) {
        let id = self.chance.below(self.groups.ids() as u64) as u32;
        let Some(group) = self.groups.get_mut(id) else {
            return;
        };
        let is_taken = self.samples.is_collecting(group.sample) || group.is_merging;
        if is_taken || group.members.is_empty() || self.samples.are_enough(self.held) {
            return;
        }
        let requests = cells.requests();
        let features = self.window.features(group, cells);
        group.sample = self.samples.add(features, requests, self.held as u32);
        group.tag = note::tag_after(group.tag);
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

    /// The next younger group. A round ends before the one that is being written: it would never leave the
    /// young end again, and evict what is new and nothing else.
    fn closed_after(&self, id: u32) -> u32 {
        match self.groups.at(id).next {
            next if next == self.open => NONE,
            next => next,
        }
    }

    /// Whether it is time to train.
    fn is_due(&mut self, facts: &impl Facts) -> bool {
        if self.samples.len() < SAMPLES_MIN {
            return false;
        }
        let (now, requests) = (facts.now(), facts.requests());
        let mature = self.schedule.mature_request(requests);
        self.schedule.is_due(now, requests, self.held as u64)
            && self.samples.older_than(mature) >= SAMPLES_MIN
    }

    /// What a cache that merges groups in the order of their age could do without.
    fn learning_bytes(&self) -> usize {
        self.groups.feature_bytes()
            + self.ranked.capacity() * size_of::<Ranked>()
            + self.rows.heap_bytes()
            + self.predictions.capacity() * size_of::<f32>()
            + self.samples.heap_bytes()
            + self.regressor.heap_bytes()
            + self.trials.as_ref().map_or(0, |trials| trials.heap_bytes())
    }

    /// Learns from the samples that have collected for long enough, and forgets them.
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
                self.lessons.trainings += 1;
                self.lessons.trained_at = Some(facts.requests());
            }
            Err(_) => self.lessons.failures += 1,
        }
        self.lessons.training_rows += targets.len() as u64;
        self.schedule.trained(facts.now(), facts.requests());
        let wanted = self.samples.limit().max(1);
        self.stride = (self.closed * DRAWS).div_ceil(wanted).max(1);
        self.closed = 0;
        self.quota = 0;
    }
}

impl<const ORACLE: bool> Learns for GlCache<ORACLE> {
    fn lessons(&self) -> Option<LearningStats> {
        let shares = self.regressor.importances();
        let mut lessons = self.lessons.clone();
        lessons.importances = features::names().zip(shares).collect();
        lessons.learning_bytes = self.learning_bytes() as u64;
        (!ORACLE).then_some(lessons)
    }
}

impl<const ORACLE: bool> Policy for GlCache<ORACLE> {
    type Meta = Note;
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
            lessons: LearningStats::default(),
            chance: Chance::new(seed),
            merging_way: Way::default(),
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
        self.samples.settle(key_hash, facts.requests());
        Admit::Yes
    }

    fn insert(&mut self, cells: &mut impl Cells<Note>, slot: Slot) {
        if self.window.begin(cells) {
            self.schedule.begin(cells.now(), cells.requests());
        }
        let id = self.open(cells);
        self.groups.push(id, slot, cells.weight(slot));
        cells.set(slot, Note::new(cells.requests(), id));
        self.held += 1;
        self.window.wrote();
        if self.groups.at(id).members.len() >= self.group_size() && self.groups.has_room() {
            self.close(cells);
        }
    }

    #[inline]
    fn reorder(&mut self, cells: &mut impl Cells<Note>, slot: Slot) {
        let now = cells.requests();
        if let Some(trials) = &mut self.trials {
            trials.request(cells.key_hash(slot), cells.weight(slot), cells.now());
        }
        let mut note = cells.get(slot).requested_at(now);
        if note.tag() == GHOSTED {
            self.samples.settle(cells.key_hash(slot), now);
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

    fn reweigh(&mut self, cells: &mut impl Cells<Note>, slot: Slot, old_weight: u32) {
        let id = cells.get(slot).group();
        if id != LEAVING {
            let group = self.groups.at_mut(id);
            group.weight = group.weight - u64::from(old_weight) + u64::from(cells.weight(slot));
        }
    }

    fn moved(&mut self, cells: &mut impl Cells<Note>, old: Slot, new: Slot) {
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

    fn remove(&mut self, cells: &mut impl Cells<Note>, slot: Slot) {
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

    fn evict(&mut self, cells: &mut impl Cells<Note>, budget: &mut Budget) -> Eviction {
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

    fn check(&self, cells: &impl Cells<Note>) {
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
