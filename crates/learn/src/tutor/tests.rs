//! With an engine that is a list of groups, whose utilities are known.

use super::*;
use policy::groups::{Extent, Features, Rates};
use std::cell::{Cell, RefCell};

/// What groups are worth by their features.
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
    /// Whether it has been told a ranking that is not used up; and how often it was told one, and looked through.
    is_content: bool,
    rankings: Cell<u64>,
    looks: Cell<u64>,
    now: Tick,
    requests: u64,
}

impl Toy {
    /// So many groups that differ in their age and requests.
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

    fn heard(&self) -> Heard {
        Heard {
            now: self.now,
            requests: self.requests,
            misses: self.requests / 4,
        }
    }

    /// A second passes, in which a group is begun.
    fn pass(&mut self, tutor: &mut Tutor) {
        self.now.0 += 1000;
        self.requests += 40;
        self.begun += 1;
        tutor.turn(self, &self.heard());
    }
}

impl Groups for Toy {
    type Name = usize;

    fn wants_lessons(&self) -> bool {
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

fn tutor() -> Tutor {
    Tutor::new(&Tutoring {
        interval: Interval::Requests(40),
        ..Tutoring::default()
    })
}

fn pass(toy: &mut Toy, tutor: &mut Tutor, turns: usize) {
    (0..turns).for_each(|_| toy.pass(tutor));
}

#[test]
fn the_least_useful_come_first_once_something_was_learned() {
    let mut toy = Toy::new(100, |features, _| f64::from(features[5]) * 1e-6);
    let mut tutor = tutor();
    pass(&mut toy, &mut tutor, 90);
    assert!(!tutor.is_trained(), "too early");
    assert!(toy.ranking.borrow().0.is_empty());
    pass(&mut toy, &mut tutor, 300);
    assert!(tutor.is_trained());
    let (names, quota) = toy.ranking.borrow().clone();
    assert_eq!((names.len(), quota), (10, 5));
    let requests = names.iter().map(|&name| toy.groups[name][5]);
    assert!(requests.clone().all(|requests| requests < 6.0), "{names:?}");
    let lessons = tutor.lessons();
    assert!(
        lessons.trainings >= 2 && lessons.failures == 0,
        "{lessons:?}"
    );
    assert!(lessons.importances[5].1 > 0.5, "{lessons:?}");
    assert!(tutor.held_out().and_then(|told| told.correlation) > Some(0.9));
    assert!(tutor.learned_at() > Some(Tick(100_000)));
    let rates = *toy.rates.borrow();
    assert_eq!(
        (rates.requests, rates.writes, rates.misses),
        (40.0, 10.0, 0.25)
    );
}

#[test]
fn what_a_model_said_that_is_no_longer_believed_is_taken_back() {
    let mut toy = Toy::new(100, |features, _| f64::from(features[4]));
    let mut tutor = tutor();
    pass(&mut toy, &mut tutor, 600);
    assert!(tutor.is_trained());
    assert!(!toy.ranking.borrow().0.is_empty());
    // What is no number teaches nothing, and the model before goes on.
    toy.worth = Some(|_, _| f64::NAN);
    let failures = tutor.lessons().failures;
    pass(&mut toy, &mut tutor, 300);
    assert!(tutor.lessons().failures > failures);
    assert!(tutor.is_trained());
    assert!(!toy.ranking.borrow().0.is_empty());
    // Noise is ordered by chance now and then, and more often not.
    toy.worth = Some(|_, random| (random >> 40) as f64);
    let mut believed = [0, 0];
    for _ in 0..1200 {
        toy.pass(&mut tutor);
        let is_obeyed = !toy.ranking.borrow().0.is_empty();
        assert_eq!(is_obeyed, tutor.is_trained());
        believed[usize::from(is_obeyed)] += 1;
    }
    assert!(believed.iter().all(|&turns| turns > 0), "{believed:?}");
    toy.worth = Some(|features, _| f64::from(features[4]));
    pass(&mut toy, &mut tutor, 300);
    assert!(tutor.is_trained());
}

#[test]
fn a_new_model_ranks_at_once_though_the_ranking_before_is_not_used_up() {
    let mut toy = Toy::new(100, |features, _| f64::from(features[5]));
    let mut tutor = tutor();
    pass(&mut toy, &mut tutor, 390);
    toy.is_content = true;
    let (trainings, rankings) = (tutor.lessons().trainings, toy.rankings.get());
    pass(&mut toy, &mut tutor, 300);
    let trained = tutor.lessons().trainings - trainings;
    assert!(trained >= 2);
    assert_eq!(toy.rankings.get() - rankings, trained);
}

#[test]
fn a_ranking_that_names_nothing_is_not_repeated_before_there_is_something_new() {
    let mut toy = Toy::new(100, |features, _| f64::from(features[5]));
    let mut tutor = tutor();
    pass(&mut toy, &mut tutor, 390);
    let groups = std::mem::take(&mut toy.groups);
    let looks = toy.looks.get();
    for _ in 0..50 {
        tutor.turn(&toy, &toy.heard());
    }
    assert_eq!(toy.looks.get(), looks + 1);
    toy.groups = groups;
    toy.pass(&mut tutor);
    assert_eq!(toy.ranking.borrow().0.len(), 10);
}

#[test]
fn what_was_left_undone_is_sampled_little_by_little_and_not_all_of_it() {
    let mut toy = Toy::new(32, |_, _| 1.0);
    let mut tutor = tutor();
    tutor.hear(&toy, &toy.heard());
    toy.begun += 1000;
    tutor.hear(&toy, &toy.heard());
    let mut calls = 0;
    while tutor.wants_samples() {
        tutor.sample(&toy, toy.now);
        calls += 1;
        assert_eq!(toy.sampled.get(), calls * DRAWS_MAX as usize);
    }
    assert!((2..20).contains(&calls), "{calls}");
}

#[test]
fn samples_are_spread_over_the_time_between_trainings() {
    let mut toy = Toy::new(64, |features, _| f64::from(features[5]));
    toy.samples_max = 200;
    let mut tutor = tutor();
    pass(&mut toy, &mut tutor, 390);
    let (failures, trainings) = (tutor.lessons().failures, tutor.lessons().trainings);
    let sampled = toy.sampled.get();
    while tutor.lessons().trainings == trainings {
        toy.pass(&mut tutor);
    }
    let start = toy.sampled.get();
    assert!(start > sampled);
    while tutor.lessons().trainings == trainings + 1 {
        toy.pass(&mut tutor);
    }
    assert!((100..=200).contains(&(toy.sampled.get() - start)));
    assert_eq!(tutor.lessons().failures, failures);
}

#[test]
fn one_group_constant_features_and_nothing_at_all_teach_nothing() {
    for groups in [0, 1] {
        let mut toy = Toy::new(groups, |_, random| (random >> 40) as f64);
        let mut tutor = tutor();
        pass(&mut toy, &mut tutor, 400);
        assert!(!tutor.is_trained());
        assert_eq!(tutor.lessons().trainings, 0);
        assert!(toy.ranking.borrow().0.is_empty());
    }
    let mut alike = Toy::new(64, |_, random| (random >> 40) as f64);
    alike
        .groups
        .iter_mut()
        .for_each(|features| *features = [f32::NAN; 7]);
    let mut tutor = tutor();
    pass(&mut alike, &mut tutor, 400);
    assert!(tutor.lessons().failures > 0);
    assert!(!tutor.is_trained());
}

#[test]
fn a_clock_that_jumps_and_counts_that_begin_again_do_no_harm() {
    let mut toy = Toy::new(100, |features, _| f64::from(features[5]));
    let mut tutor = tutor();
    for at in [5_000_000, 0, u64::MAX / 2, 7, 1 << 40] {
        toy.now = Tick(at);
        toy.requests = at % 100;
        pass(&mut toy, &mut tutor, 120);
    }
    let rates = *toy.rates.borrow();
    let all = [rates.requests, rates.writes, rates.misses];
    assert!(all.iter().all(|rate| rate.is_finite() && *rate >= 0.0));
}

#[test]
fn equal_seeds_learn_alike() {
    let run = || {
        let mut toy = Toy::new(100, |features, random| {
            f64::from(features[5]) + (random % 7) as f64
        });
        let mut tutor = tutor();
        pass(&mut toy, &mut tutor, 400);
        let ranking = toy.ranking.borrow().clone();
        (ranking, tutor.lessons())
    };
    assert_eq!(run(), run());
}
