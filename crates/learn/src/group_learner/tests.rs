//! Tests with an engine that is a list of groups with known utilities.

use super::*;
use policy::groups::{Extent, Features, Rates};
use std::cell::{Cell, RefCell};

/// Function that computes the utility of a group from its features and a random number.
type Worth = fn(&Features, u64) -> f64;

#[derive(Default)]
struct Toy {
    groups: Vec<Features>,
    worth: Option<Worth>,
    begun: u64,
    samples: RefCell<Vec<(Tick, Features, u64)>>,
    rates: RefCell<Rates>,
    samples_max: usize,
    sampled: Cell<usize>,
    ranking: RefCell<(Vec<usize>, usize)>,
    /// Whether the current ranking is not used up yet.
    is_content: bool,
    /// Number of rankings received.
    rankings: Cell<u64>,
    /// Number of passes over all groups.
    looks: Cell<u64>,
    now: Tick,
    requests: u64,
}

impl Toy {
    /// Creates an engine with groups that differ in age and requests.
    fn new(groups: usize, worth: Worth) -> Toy {
        let features = |n: usize| {
            [
                1.0,
                2.0,
                0.5,
                100.0,
                (n * 7 % 50) as f32,
                (n * 3 % 40) as f32,
                5.0,
            ]
        };
        Toy {
            groups: (0..groups).map(features).collect(),
            worth: Some(worth),
            samples_max: 1000,
            ..Toy::default()
        }
    }

    fn totals_now(&self) -> CacheTotals {
        CacheTotals {
            now: self.now,
            requests: self.requests,
            misses: self.requests / 4,
        }
    }

    /// Advances the time by one second, counts 40 requests and a new group, and lets the learner do
    /// all work that is due.
    fn pass(&mut self, learner: &mut GroupLearner) {
        self.now.0 += 1000;
        self.requests += 40;
        self.begun += 1;
        learner.do_due_work(self, &self.totals_now());
    }
}

impl Groups for Toy {
    type Name = usize;

    fn is_learning(&self) -> bool {
        true
    }
    fn extent(&self) -> Extent {
        Extent {
            groups: self.groups.len() as u64,
            entries: 100,
            begun: self.begun,
            writes: 10 * self.begun,
        }
    }
    fn set_rates(&self, rates: Rates) {
        *self.rates.borrow_mut() = rates;
    }
    fn sample(&self, random: u64, now: Tick) -> bool {
        let mut samples = self.samples.borrow_mut();
        let number = random as usize % self.groups.len().max(1);
        let Some(features) = self.groups.get(number) else {
            return false;
        };
        samples.push((now, *features, random));
        self.sampled.set(self.sampled.get() + 1);
        true
    }
    fn samples_max(&self) -> usize {
        self.samples_max
    }
    fn sampled_before(&self, before: Tick) -> usize {
        let samples = self.samples.borrow();
        samples.iter().filter(|(at, ..)| *at < before).count()
    }
    fn take_samples(&self, before: Tick, each: &mut dyn FnMut(&Features, f64)) {
        let worth = self.worth.expect("it was given");
        self.samples.borrow_mut().retain(|(at, features, random)| {
            let stays = *at >= before;
            if !stays {
                each(features, worth(features, *random));
            }
            stays
        });
    }
    fn wants_ranking(&self) -> bool {
        !self.is_content
    }
    fn each_group(&self, _now: Tick, each: &mut dyn FnMut(usize, &Features)) {
        self.looks.set(self.looks.get() + 1);
        self.groups
            .iter()
            .enumerate()
            .for_each(|(name, features)| each(name, features));
    }
    fn rank(&self, least_first: &[usize], quota: usize) {
        self.rankings.set(self.rankings.get() + 1);
        *self.ranking.borrow_mut() = (least_first.to_vec(), quota);
    }
}

fn learner() -> GroupLearner {
    GroupLearner::new(&GroupLearnerConfig {
        interval: Interval::Requests(40),
        ..GroupLearnerConfig::default()
    })
}

fn pass(toy: &mut Toy, learner: &mut GroupLearner, turns: usize) {
    (0..turns).for_each(|_| toy.pass(learner));
}

#[test]
fn the_least_useful_groups_are_ranked_first_after_training() {
    let mut toy = Toy::new(100, |features, _| f64::from(features[5]) * 1e-6);
    let mut learner = learner();
    pass(&mut toy, &mut learner, 90);
    assert!(!learner.is_trained(), "too early");
    assert!(toy.ranking.borrow().0.is_empty());
    pass(&mut toy, &mut learner, 300);
    assert!(learner.is_trained());
    let (names, quota) = toy.ranking.borrow().clone();
    assert_eq!((names.len(), quota), (10, 5));
    let requests = names.iter().map(|&name| toy.groups[name][5]);
    assert!(requests.clone().all(|requests| requests < 6.0), "{names:?}");
    let learning_stats = learner.learning_stats();
    assert!(
        learning_stats.trainings >= 2 && learning_stats.failures == 0,
        "{learning_stats:?}"
    );
    assert!(learning_stats.importances[5].1 > 0.5, "{learning_stats:?}");
    assert!(learner.held_out().and_then(|compared| compared.correlation) > Some(0.9));
    assert!(learner.learned_at() > Some(Tick(100_000)));
    let rates = *toy.rates.borrow();
    assert_eq!(
        (rates.requests, rates.writes, rates.misses),
        (40.0, 10.0, 0.25)
    );
}

#[test]
fn the_ranking_of_a_model_that_failed_validation_is_withdrawn() {
    let mut toy = Toy::new(100, |features, _| f64::from(features[4]));
    let mut learner = learner();
    pass(&mut toy, &mut learner, 600);
    assert!(learner.is_trained());
    assert!(!toy.ranking.borrow().0.is_empty());
    // A model cannot be trained on NaN, so that the previous one stays.
    toy.worth = Some(|_, _| f64::NAN);
    let failures = learner.learning_stats().failures;
    pass(&mut toy, &mut learner, 300);
    assert!(learner.learning_stats().failures > failures);
    assert!(learner.is_trained());
    assert!(!toy.ranking.borrow().0.is_empty());
    // A model of noise sometimes passes the validation by chance, but fails more often.
    toy.worth = Some(|_, random| (random >> 40) as f64);
    let mut believed = [0, 0];
    for _ in 0..1200 {
        toy.pass(&mut learner);
        let is_obeyed = !toy.ranking.borrow().0.is_empty();
        assert_eq!(is_obeyed, learner.is_trained());
        believed[usize::from(is_obeyed)] += 1;
    }
    assert!(believed.iter().all(|&turns| turns > 0), "{believed:?}");
    toy.worth = Some(|features, _| f64::from(features[4]));
    pass(&mut toy, &mut learner, 300);
    assert!(learner.is_trained());
}

#[test]
fn a_new_model_ranks_at_once() {
    let mut toy = Toy::new(100, |features, _| f64::from(features[5]));
    let mut learner = learner();
    pass(&mut toy, &mut learner, 390);
    toy.is_content = true;
    let (trainings, rankings) = (learner.learning_stats().trainings, toy.rankings.get());
    pass(&mut toy, &mut learner, 300);
    let trained = learner.learning_stats().trainings - trainings;
    assert!(trained >= 2);
    assert_eq!(toy.rankings.get() - rankings, trained);
}

#[test]
fn an_empty_ranking_is_not_repeated_before_new_groups_are_begun() {
    let mut toy = Toy::new(100, |features, _| f64::from(features[5]));
    let mut learner = learner();
    pass(&mut toy, &mut learner, 390);
    let groups = std::mem::take(&mut toy.groups);
    let looks = toy.looks.get();
    for _ in 0..50 {
        learner.do_due_work(&toy, &toy.totals_now());
    }
    assert_eq!(toy.looks.get(), looks + 1);
    toy.groups = groups;
    toy.pass(&mut learner);
    assert_eq!(toy.ranking.borrow().0.len(), 10);
}

#[test]
fn missed_samples_are_made_up_for_within_bounds() {
    let mut toy = Toy::new(32, |_, _| 1.0);
    let mut learner = learner();
    learner.observe(&toy, &toy.totals_now());
    toy.begun += 1000;
    learner.observe(&toy, &toy.totals_now());
    let mut calls = 0;
    while learner.wants_samples() {
        learner.sample(&toy, toy.now);
        calls += 1;
        assert_eq!(toy.sampled.get(), calls * DRAWS_MAX as usize);
    }
    assert!((2..20).contains(&calls), "{calls}");
}

#[test]
fn samples_are_spread_over_the_time_between_trainings() {
    let mut toy = Toy::new(64, |features, _| f64::from(features[5]));
    toy.samples_max = 200;
    let mut learner = learner();
    pass(&mut toy, &mut learner, 390);
    let (failures, trainings) = (
        learner.learning_stats().failures,
        learner.learning_stats().trainings,
    );
    let sampled = toy.sampled.get();
    while learner.learning_stats().trainings == trainings {
        toy.pass(&mut learner);
    }
    let start = toy.sampled.get();
    assert!(start > sampled);
    while learner.learning_stats().trainings == trainings + 1 {
        toy.pass(&mut learner);
    }
    assert!((100..=200).contains(&(toy.sampled.get() - start)));
    assert_eq!(learner.learning_stats().failures, failures);
}

#[test]
fn nothing_is_learned_from_one_group_constant_features_or_no_groups() {
    for groups in [0, 1] {
        let mut toy = Toy::new(groups, |_, random| (random >> 40) as f64);
        let mut learner = learner();
        pass(&mut toy, &mut learner, 400);
        assert!(!learner.is_trained());
        assert_eq!(learner.learning_stats().trainings, 0);
        assert!(toy.ranking.borrow().0.is_empty());
    }
    let mut alike = Toy::new(64, |_, random| (random >> 40) as f64);
    alike
        .groups
        .iter_mut()
        .for_each(|features| *features = [f32::NAN; 7]);
    let mut learner = learner();
    pass(&mut alike, &mut learner, 400);
    assert!(learner.learning_stats().failures > 0);
    assert!(!learner.is_trained());
}

#[test]
fn jumps_of_the_clock_and_reset_counts_do_no_harm() {
    let mut toy = Toy::new(100, |features, _| f64::from(features[5]));
    let mut learner = learner();
    for at in [5_000_000, 0, u64::MAX / 2, 7, 1 << 40] {
        toy.now = Tick(at);
        toy.requests = at % 100;
        pass(&mut toy, &mut learner, 120);
    }
    let rates = *toy.rates.borrow();
    let all = [rates.requests, rates.writes, rates.misses];
    assert!(all.iter().all(|rate| rate.is_finite() && *rate >= 0.0));
}

#[test]
fn equal_seeds_give_equal_rankings() {
    let run = || {
        let mut toy = Toy::new(100, |features, random| {
            f64::from(features[5]) + (random % 7) as f64
        });
        let mut learner = learner();
        pass(&mut toy, &mut learner, 400);
        let ranking = toy.ranking.borrow().clone();
        (ranking, learner.learning_stats())
    };
    assert_eq!(run(), run());
}
