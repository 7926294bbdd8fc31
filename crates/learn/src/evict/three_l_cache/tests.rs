use super::ranking::exponential;
use super::*;
use crate::distances::logarithm;
use crate::distances::tests::{boosted, half_useful, hits, is_lru, key_of, recorded, taught};
use policy::evict::lru::Lru;
use policy::suite::policy::Trial;
use std::collections::HashSet;

fn small() -> ThreeLCacheKnobs {
    ThreeLCacheKnobs {
        batch: 64,
        ..ThreeLCacheKnobs::default()
    }
}

policy::policy_suite!(suite_of_three_l_cache, ThreeLCache, boosted(small()));
policy::policy_suite!(
    suite_of_three_l_cache_by_bytes,
    ThreeLCache,
    boosted(ThreeLCacheKnobs { size: 0, ..small() })
);
policy::policy_suite!(
    suite_of_three_l_cache_that_always_knows,
    ThreeLCache,
    recorded(ThreeLCacheKnobs { size: 0, ..small() })
);

#[test]
fn it_is_lru_until_it_is_trained() {
    let knobs = ThreeLCacheKnobs {
        batch: 100_000,
        ..small()
    };
    let learner = is_lru::<ThreeLCache>(&boosted(knobs));
    assert_eq!(learner.distances.stats.trainings, 0);
}

/// Returns the features that the source defines, computed from all requests of the object up to
/// `at`.
fn naive_features(times: &[u64], weight: u32, at: u64) -> Vec<u32> {
    let last = times.len() - 1;
    let mut row = vec![(at - times[last]) as f32];
    for back in 1..=3 {
        row.push(match back <= last {
            true => (times[last - back + 1] - times[last - back]) as f32,
            false => f32::MAX,
        });
    }
    row.extend([weight as f32, times.len() as f32]);
    row.into_iter().map(f32::to_bits).collect()
}

#[test]
fn labels_are_the_distances_in_the_trace() {
    let mut trial = Trial::<ThreeLCache>::new(30, &recorded(small()), 1);
    let mut chance = Chance::new(7);
    let requested: Vec<u64> = (0..1_500).map(|_| key_of(&mut chance)).collect();
    for &key in &requested {
        trial.request(key, 1, 3);
    }
    // The sets have the row and the label of each object in each state that it may have at a moment
    // of the trace. An object that was forgotten begins again, at any of its requests.
    let (mut possible, mut rows) = (HashSet::new(), HashSet::new());
    for key in 0..60 {
        let numbered = (1..).zip(&requested);
        let times = numbered.filter(|at| *at.1 == key).map(|at| at.0);
        let times: Vec<u64> = times.chain([1_501]).collect();
        for index in 1..times.len() {
            let (last, next) = (times[index - 1], times[index]);
            for at in last..next {
                for start in 0..index {
                    let row = naive_features(&times[start..index], 1, at);
                    rows.insert(row.clone());
                    possible.insert((row, logarithm(next - at + 1).to_bits()));
                }
            }
        }
    }
    let labels = taught();
    assert!(labels.len() >= 128, "{}", labels.len());
    assert!(labels.iter().all(|(row, _)| rows.contains(row)));
    // The remaining labels are from objects that were forgotten. Their distance is a lower bound.
    let exact = labels.iter().filter(|label| possible.contains(*label));
    let exact = exact.count();
    assert!(exact * 10 > labels.len() * 7, "{exact} of {}", labels.len());
}

#[test]
fn victims_are_the_furthest_of_a_ranking() {
    // The recorder predicts ages, so that victims are among the oldest entries.
    let capacity = 1_000;
    let mut trial = Trial::<ThreeLCache>::new(capacity, &recorded(small()), 2);
    let mut count = 0;
    for key in 0..20_000u64 {
        // Some keys are requested twice, which produces labels.
        trial.request(if key % 8 == 0 { key / 16 } else { key }, 1, 100);
        let Some(victim) = trial.victims.pop() else {
            continue;
        };
        if trial.policy.distances.stats.trainings == 0 {
            continue;
        }
        let hash = policy::parts::chance::scramble(victim);
        let objects = &trial.policy.objects;
        let number = trial.policy.lookup.find(objects, hash);
        let last = objects.at(number.expect("it is remembered")).last;
        let cached = trial.policy.cached.iter();
        let older = cached.filter(|number| objects.at(**number).last < last);
        // A ranking collects a hundredth of the entries at the old end, and entries that were new.
        count += u32::from(older.count() as u64 <= capacity / 10);
    }
    assert!(count > 5_000, "{count}");
}

#[test]
fn a_trained_model_keeps_objects_that_are_requested_again() {
    let keys = half_useful(20_000);
    let (lru, _) = hits::<Lru>(&(), &keys, 90);
    for size in [0, 1] {
        let knobs = ThreeLCacheKnobs {
            batch: 1_000,
            size,
            ..ThreeLCacheKnobs::default()
        };
        let (learner, trial) = hits::<ThreeLCache>(&boosted(knobs), &keys, 90);
        assert!(trial.policy.distances.stats.trainings >= 3);
        let stats = trial.policy.learning_stats().expect("it learns");
        let names = stats.importances.iter().map(|(name, _)| *name);
        assert!(names.eq(FEATURES));
        let sum: f32 = stats.importances.iter().map(|(_, share)| share).sum();
        assert!((sum - 1.0).abs() < 1e-4, "{sum}");
        assert!(learner > lru + 200, "{learner} hits, {lru} of LRU");
    }
}

#[test]
fn the_history_is_bounded_and_becomes_longer_when_it_is_useful() {
    // The loop has three times as many keys as the cache, so that an evicted key returns after a
    // history of two.
    let knobs = ThreeLCacheKnobs {
        history: 3,
        batch: 10_000,
        ..small()
    };
    let mut trial = Trial::<ThreeLCache>::new(40, &recorded(knobs), 1);
    let mut longest = 0;
    for number in 0..1_300_000u64 {
        let key = if number % 3 == 0 {
            number % 30
        } else {
            number % 121
        };
        trial.request(key, 1, 10);
        longest = longest.max(trial.policy.gone.len());
    }
    assert_eq!(trial.policy.history, 3);
    assert!(longest <= 40 * 2 + 3, "{longest}");
}

#[test]
fn equal_runs_have_equal_results_on_every_machine() {
    // The expected numbers change with any decision of the policy.
    let keys = half_useful(12_000);
    let misses = [0, 1].map(|size| {
        let knobs = ThreeLCacheKnobs {
            batch: 500,
            size,
            ..ThreeLCacheKnobs::default()
        };
        let mut trial = Trial::<ThreeLCache>::new(60, &boosted(knobs), 1);
        let is_miss = |&&key: &&u64| {
            let is_miss = !trial.table.contains_key(&key);
            trial.request(key, 1 + key as u32 % 3, 100);
            is_miss
        };
        keys.iter().filter(is_miss).count()
    });
    assert_eq!(misses, [10_391, 9_807]);
}

#[test]
fn exponentials_are_right() {
    for step in 0..4_000u16 {
        let exponent = f32::from(step) / 100.0;
        let wanted = f64::from(exponent).exp();
        let got = f64::from(exponential(exponent));
        assert!((got - wanted).abs() <= wanted * 1e-6, "{exponent}: {got}");
    }
    assert_eq!(exponential(-1.0), 1.0);
    assert!(exponential(f32::MAX).is_finite());
}
