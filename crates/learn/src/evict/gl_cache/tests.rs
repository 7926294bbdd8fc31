//! Compares the policy with a simple model of itself, and runs it on traces from which a model can
//! or cannot learn.

use super::*;
use crate::schedule::DAY_MS;
use crate::{Interval, Maker, TrainError};
use policy::Tick;
use policy::suite::policy::{NaivePolicy, Trial, agrees_with_model};

/// Model that predicts a known utility from the start: the number of requests and, with a small
/// weight, the size.
struct KnownUtility;

fn known_utility(mean_size: f32, requests: f32, requested: f32) -> f32 {
    requests + requested * 0.5 + mean_size * 0.25
}

impl Regressor for KnownUtility {
    fn train(&mut self, _rows: &Rows, _targets: &[f32]) -> Result<(), TrainError> {
        Ok(())
    }
    fn is_trained(&self) -> bool {
        true
    }
    fn predict(&self, rows: &Rows, predictions: &mut Vec<f32>) {
        predictions.extend(rows.iter().map(|row| known_utility(row[3], row[5], row[6])));
    }
    fn importances(&self) -> Vec<f32> {
        vec![0.0; WIDTH]
    }
    fn heap_bytes(&self) -> usize {
        0
    }
}

/// Model whose training never succeeds.
struct NeverTrained;

impl Regressor for NeverTrained {
    fn train(&mut self, _rows: &Rows, _targets: &[f32]) -> Result<(), TrainError> {
        Err(TrainError::AllAlike)
    }
    fn is_trained(&self) -> bool {
        false
    }
    fn predict(&self, _rows: &Rows, _predictions: &mut Vec<f32>) {}
    fn importances(&self) -> Vec<f32> {
        Vec::new()
    }
    fn heap_bytes(&self) -> usize {
        0
    }
}

fn config(group: u16, merged: u16, maker: Maker) -> GlConfig {
    GlConfig {
        group: Some(group),
        merged: Some(merged),
        fraction: Some(0.3),
        interval: Interval::Requests(1),
        samples: 512,
        trees: 2,
        maker,
        ..GlConfig::default()
    }
}

fn going(way: Strategy, config: GlConfig) -> GlConfig {
    GlConfig {
        way: Some(way),
        ..config
    }
}

fn compared() -> Maker {
    Maker(|_| Box::new(KnownUtility))
}

fn dull() -> Maker {
    Maker(|_| Box::new(NeverTrained))
}

policy::policy_suite!(by_default, GlCache);
policy::policy_suite!(that_trains_often, GlCache, config(3, 2, Maker::default()));
policy::policy_suite!(
    that_knows,
    GlCache,
    going(Strategy::Model, config(4, 5, compared()))
);
policy::policy_suite!(that_never_learns, GlCache, config(2, 3, dull()));
policy::policy_suite!(
    that_keeps_what_was_asked_for,
    GlCache,
    going(Strategy::Requested, config(5, 2, dull()))
);
policy::policy_suite!(by_oracle, GlCache<true>, config(5, 2, compared()));

#[derive(Clone, Default)]
struct Member {
    key: u64,
    weight: u32,
    last: u64,
    hits: u32,
    was_requested: bool,
}

#[derive(Clone, Default)]
struct NaiveGroup {
    members: Vec<Member>,
    serial: u64,
    requests: f32,
    requested: f32,
}

/// Simple implementation of the policy with every strategy, and a model that computes the utility.
struct Naive {
    way: Strategy,
    size: usize,
    merged: usize,
    fraction: f32,
    groups: Vec<NaiveGroup>,
    /// Whether the last group is still being written.
    is_open: bool,
    hand: u64,
    leaving: Vec<Member>,
    ranked: Vec<u64>,
    quota: usize,
    requests: u64,
    serial: u64,
}

impl Naive {
    fn new(config: &GlConfig, way: Strategy) -> Naive {
        Naive {
            way,
            size: config.group(),
            merged: config.merged(),
            fraction: config.fraction(),
            groups: Vec::new(),
            is_open: false,
            hand: 0,
            leaving: Vec::new(),
            ranked: Vec::new(),
            quota: 0,
            requests: 0,
            serial: 0,
        }
    }

    fn held(&self) -> usize {
        let members: usize = self.groups.iter().map(|group| group.members.len()).sum();
        members + self.leaving.len()
    }

    fn group_size(&self) -> usize {
        self.size.min(self.held() / GROUPS_MIN).max(1)
    }

    fn closed(&self) -> usize {
        self.groups.len() - usize::from(self.is_open)
    }

    fn place(&self, serial: u64) -> Option<usize> {
        self.groups.iter().position(|group| group.serial == serial)
    }

    fn rank(&mut self) {
        let mut by_utility: Vec<(f32, u64)> = self.groups[..self.closed()]
            .iter()
            .map(|group| {
                let weight: u64 = group.members.iter().map(|one| u64::from(one.weight)).sum();
                let mean_size = weight as f32 / group.members.len() as f32;
                let utility = known_utility(mean_size, group.requests, group.requested);
                (utility, group.serial)
            })
            .collect();
        by_utility.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        self.quota = ((by_utility.len() as f32 * self.fraction) as usize).max(1);
        self.ranked = by_utility.into_iter().map(|(_, serial)| serial).collect();
    }

    /// Returns the index of the group to be merged next.
    fn choose(&mut self) -> usize {
        if self.way != Strategy::Model {
            return match self.place(self.hand) {
                Some(place) if place < self.closed() => place,
                _ => 0,
            };
        }
        loop {
            while self.quota > 0 && !self.ranked.is_empty() {
                let serial = self.ranked.remove(0);
                if let Some(place) = self.place(serial) {
                    return place;
                }
            }
            self.rank();
        }
    }

    /// Returns the indexes of the first and last of the groups to merge with the one at `place`.
    fn neighbours(&self, place: usize) -> (usize, usize) {
        let (mut from, mut to) = (place, place + 1);
        let is_enough = |from: usize, to: usize| match self.way {
            Strategy::Merge => {
                self.groups[from..to]
                    .iter()
                    .map(|group| group.members.len())
                    .sum::<usize>()
                    >= 100
            }
            _ => to - from >= self.merged,
        };
        while !is_enough(from, to) && to < self.closed() {
            to += 1;
        }
        while !is_enough(from, to) && from > 0 {
            from -= 1;
        }
        (from, to)
    }

    fn merge(&mut self) {
        if self.closed() == 0 {
            self.is_open = false;
        }
        let place = self.choose();
        let (from, to) = self.neighbours(place);
        let count = to - from;
        self.quota = self.quota.saturating_sub(count);
        let size = self.group_size();
        let groups: Vec<NaiveGroup> = self.groups.drain(from..to).collect();
        let (requests, held) = (self.requests, groups.iter());
        let mut members: Vec<Member> = held.flat_map(|group| group.members.clone()).collect();
        let age = |one: &Member| requests - one.last + 1;
        let worth = |one: &Member| match self.way {
            Strategy::Merge => one.hits as f32 / one.weight as f32,
            _ => 1.0 / age(one) as f32 / one.weight as f32,
        };
        members.sort_by(|a, b| worth(b).total_cmp(&worth(a)).then(age(a).cmp(&age(b))));
        let asked = members.iter().filter(|one| one.was_requested).count();
        let kept = match (self.way, count) {
            (Strategy::Merge, _) => members.len() / 2,
            (Strategy::Requested, 1) => asked.min(members.len() / self.merged),
            (Strategy::Requested, _) => asked.min(size),
            (Strategy::Model, 1) => members.len() / self.merged,
            (Strategy::Model, _) => members.len().min(size),
        };
        self.leaving = members.split_off(kept);
        let after = self.groups[..self.closed()].get(from);
        self.hand = after.map_or(0, |group| group.serial);
        if kept > 0 {
            self.serial += 1;
            for one in &mut members {
                (one.was_requested, one.hits) = (false, one.hits.div_ceil(2));
            }
            let sum = |of: fn(&NaiveGroup) -> f32| groups.iter().map(of).sum::<f32>();
            let merged_group = NaiveGroup {
                members,
                serial: self.serial,
                requests: sum(|group| group.requests) / count as f32,
                requested: sum(|group| group.requested) / count as f32,
            };
            self.groups.insert(from, merged_group);
        }
    }
}

impl NaivePolicy for Naive {
    fn hit(&mut self, key: u64) {
        self.requests += 1;
        let last = self.requests;
        let mut leaving = self.leaving.iter_mut();
        if let Some(one) = leaving.find(|one| one.key == key) {
            (one.last, one.hits) = (last, 31.min(one.hits + 1));
            return;
        }
        for group in &mut self.groups {
            let Some(one) = group.members.iter_mut().find(|one| one.key == key) else {
                continue;
            };
            group.requests += 1.0;
            group.requested += f32::from(u8::from(!one.was_requested));
            (one.last, one.hits) = (last, 31.min(one.hits + 1));
            one.was_requested = true;
        }
    }

    fn miss(&mut self, _key: u64) {
        self.requests += 1;
    }

    fn insert(&mut self, key: u64, weight: u32) {
        if !self.is_open {
            self.serial += 1;
            self.groups.push(NaiveGroup {
                serial: self.serial,
                ..NaiveGroup::default()
            });
            self.is_open = true;
        }
        let last = self.requests;
        let group = self.groups.last_mut().expect("it was just made");
        group.members.push(Member {
            key,
            weight,
            last,
            hits: 0,
            was_requested: false,
        });
        let len = group.members.len();
        if len >= self.group_size() {
            self.is_open = false;
        }
    }

    fn remove(&mut self, key: u64) {
        self.leaving.retain(|one| one.key != key);
        for group in &mut self.groups {
            group.members.retain(|one| one.key != key);
        }
        let open = self.is_open.then_some(self.serial_of_open());
        let hand = self.place(self.hand);
        let next = hand.and_then(|place| {
            let mut after = self.groups[place..self.closed()].iter();
            after.find(|group| !group.members.is_empty())
        });
        self.hand = next.map_or(0, |group| group.serial);
        self.groups
            .retain(|group| !group.members.is_empty() || Some(group.serial) == open);
    }

    fn evict(&mut self) -> Option<u64> {
        while self.leaving.is_empty() {
            if self.held() == 0 {
                return None;
            }
            self.merge();
        }
        self.leaving.pop().map(|one| one.key)
    }
}

impl Naive {
    fn serial_of_open(&self) -> u64 {
        self.groups.last().map_or(0, |group| group.serial)
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

    #[test]
    fn it_evicts_what_the_plain_model_evicts(
        steps in proptest::collection::vec(proptest::prelude::any::<(u8, u16, u16)>(), 0..600),
        group in 1u16..6,
        merged in 2u16..5,
        leave in proptest::prelude::any::<bool>(),
    ) {
        let untrained = (Strategy::Model, dull(), Strategy::Merge);
        for (way, maker, goes) in Strategy::ALL.map(|way| (way, compared(), way)).into_iter().chain([untrained]) {
            let config = GlConfig {
                interval: Interval::Requests(1_000_000), // A training would rank again.
                ..going(way, config(group, merged, maker))
            };
            let model = Naive::new(&config, goes);
            agrees_with_model::<GlCache>(&config, model, 120, &steps, leave);
        }
    }
}

/// Requests a few keys repeatedly, among bursts of new keys that are never requested again. The two
/// kinds differ in the miss ratio at their group's creation and in its requests.
fn with_scans(trial: &mut Trial<GlCache>, requests: u64) -> u64 {
    let mut hits = 0;
    for n in 0..requests {
        let key = match n / 500 % 2 {
            0 => policy::parts::chance::scramble(n) % 600,
            _ => 1_000_000 + n,
        };
        hits += u64::from(trial.table.contains_key(&key));
        trial.request(key, 1, 1000);
    }
    hits
}

#[test]
fn learning_about_scans_saves_misses() {
    let run = |maker: Maker| {
        let config = GlConfig {
            group: Some(20),
            trees: 8,
            way: Some(Strategy::Model),
            maker,
            ..GlConfig::default()
        };
        let mut trial = Trial::<GlCache>::new(800, &config, 1);
        let hits = with_scans(&mut trial, 80_000);
        trial.policy.check(&trial.host);
        (hits, trial.policy.learning_stats().expect("it learns"))
    };
    let (untrained_hits, untrained) = run(dull());
    let (hits, learning_stats) = run(Maker::default());
    assert_eq!(untrained.trainings, 0);
    assert!(untrained.failures > 2, "it was tried: {untrained:?}");
    assert!(learning_stats.trainings > 2, "{learning_stats:?}");
    assert!(learning_stats.inference_rows > learning_stats.inferences);
    assert!(hits > untrained_hits, "{hits} over {untrained_hits}");
    let shares: f32 = learning_stats
        .importances
        .iter()
        .map(|(_, share)| share)
        .sum();
    assert!((shares - 1.0).abs() < 1e-4);
}

#[test]
fn it_stays_untrained_on_a_short_trace_and_with_one_group() {
    let mut trial = Trial::<GlCache>::new(30, &GlConfig::default(), 1);
    (0..40).for_each(|key| trial.request(key, 1, 5));
    assert_eq!(
        trial
            .policy
            .learning_stats()
            .map(|compared| compared.trainings),
        Some(0)
    );
    for key in 0..40 {
        trial.remove(key); // All have expired, say.
    }
    trial.policy.check(&trial.host);
    assert!(!trial.evict_one(3));

    let one_group = config(10_000, 2, Maker::default());
    let mut trial = Trial::<GlCache>::new(3, &one_group, 1);
    (0..400).for_each(|key| trial.request(key % 7, 1, 5));
    trial.policy.check(&trial.host);
    assert_eq!(trial.host.len(), 3);
}

#[test]
fn it_trains_daily_by_a_clock_that_jumps() {
    let daily = GlConfig {
        interval: Interval::Daily,
        ..config(4, 2, Maker::default())
    };
    let mut trial = Trial::<GlCache>::new(100, &daily, 1);
    let trainings = |trial: &Trial<GlCache>| {
        let learning_stats = trial.policy.learning_stats().expect("it learns");
        learning_stats.trainings + learning_stats.failures
    };
    with_scans(&mut trial, 6000);
    assert_eq!(trainings(&trial), 0, "the day is long");
    trial.host.set_now(Tick(trial.host.now().0 + 400 * DAY_MS));
    with_scans(&mut trial, 6000);
    assert_eq!(trainings(&trial), 1, "however many days have passed");
    trial.host.set_now(Tick(5));
    with_scans(&mut trial, 6000);
    assert_eq!(trainings(&trial), 1, "a day begins again");
    trial.host.set_now(Tick(trial.host.now().0 + DAY_MS));
    with_scans(&mut trial, 6000);
    assert_eq!(trainings(&trial), 2);
    trial.policy.check(&trial.host);
}

/// Returns the number of hits among 60,000 requests in a cache of 1,000 entries without a model.
fn hits_of(way: Option<Strategy>, key: impl Fn(u64) -> u64) -> u64 {
    let config = GlConfig {
        way,
        maker: dull(),
        ..GlConfig::default()
    };
    let mut trial = Trial::<GlCache>::new(1000, &config, 1);
    let mut hits = 0;
    for n in 0..60_000 {
        let key = key(n);
        hits += u64::from(trial.table.contains_key(&key));
        trial.request(key, 1, 1000);
    }
    trial.policy.check(&trial.host);
    hits
}

#[test]
fn it_uses_the_strategy_that_misses_least_in_miniature() {
    let scramble = policy::parts::chance::scramble;
    // Every second request is for a key that is never requested again.
    let scanned = |n: u64| match n % 2 {
        0 => scramble(n) % 1000,
        _ => 1_000_000 + n,
    };
    // A loop that is a little larger than the cache.
    let looped = |n: u64| n % 1300;
    let asked = Some(Strategy::Requested);
    let merge = Some(Strategy::Merge);
    let (by_asked, by_merge) = (hits_of(asked, scanned), hits_of(merge, scanned));
    assert!(by_asked > by_merge * 11 / 10, "{by_asked}, {by_merge}");
    let by_trial = hits_of(None, scanned);
    // The miniatures need some requests until they show the difference.
    assert!(by_trial > by_merge * 12 / 10, "{by_trial}, {by_merge}");
    let (by_asked, by_merge) = (hits_of(asked, looped), hits_of(merge, looped));
    assert!(by_merge > by_asked * 11 / 10, "{by_merge}, {by_asked}");
    let by_trial = hits_of(None, looped);
    assert!(by_trial > by_merge * 95 / 100, "{by_trial} of {by_merge}");
}

#[test]
fn samples_count_each_entry_once_and_ghosts_count_evicted_ones() {
    let mut samples = Samples::new(64);
    let sample = samples.add([0.0; WIDTH], 100, 0);
    samples.add_utility(sample, 110, 5);
    assert!(samples.add_ghost(sample, 77, 2, 10));
    samples.resolve_ghost(77, 150);
    samples.resolve_ghost(77, 151);
    samples.resolve_ghost(78, 151);
    let later = samples.add([1.0; WIDTH], 160, 0);
    assert!(samples.add_ghost(later, 79, 0, 10));
    assert!(
        !samples.add_ghost(later, 80, 1, 1),
        "there are enough of them"
    );
    let mut compared = Vec::new();
    samples.take_older_than(160, |features, utility| {
        compared.push((features[0], utility))
    });
    assert_eq!(compared, [(0.0, 1.0 / 50.0 + 1.0 / 100.0)]);
    samples.add_utility(sample, 170, 1); // It was learned from already.
    // The utility is finite, although the distance is 0 and so is the weight.
    samples.resolve_ghost(79, 160);
    samples.check();
    samples.take_older_than(161, |features, utility| {
        compared.push((features[0], utility))
    });
    assert_eq!(compared[1], (1.0, 1.0));
}

#[test]
fn the_parts_of_an_entrys_state_are_independent() {
    let note = EntryState::new(u64::MAX, LEAVING - 1).with_tag(GHOSTED);
    assert_eq!((note.group(), note.tag()), (LEAVING - 1, GHOSTED));
    assert!(!note.was_requested());
    let note = note.marked_requested().requested_at(7);
    assert!(note.was_requested());
    assert_eq!((note.age(7), note.age(10)), (1, 4));
    assert_eq!(note.hits(), 1);
    let hit = (0..40).fold(note, |note, n| note.requested_at(n));
    assert_eq!((hit.hits(), hit.with_half_the_hits().hits()), (31, 16));
    assert_eq!(note.with_half_the_hits(), note);
    let note = note.in_group(0);
    assert_eq!((note.group(), note.tag()), (0, GHOSTED));
    assert!(!note.was_requested());
    let mut tag = 0;
    for _ in 0..300 {
        tag = entry::tag_after(tag);
        assert!((1..GHOSTED).contains(&tag));
    }
}
