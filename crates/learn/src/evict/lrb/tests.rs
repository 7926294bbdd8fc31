use super::*;
use crate::distances::tests::{boosted, half_useful, hits, is_lru, key_of, recorded, taught};
use policy::evict::lru::Lru;
use policy::suite::policy::Trial;
use std::collections::{BTreeSet, HashSet};

fn small() -> LrbKnobs {
    LrbKnobs {
        window: 200,
        batch: 64,
        candidates: 5,
        ..LrbKnobs::default()
    }
}

policy::policy_suite!(suite_of_lrb, Lrb, boosted(small()));
policy::policy_suite!(
    suite_of_lrb_that_chooses_its_window,
    Lrb,
    boosted(LrbKnobs {
        window: 0,
        turns: 2.0,
        size: 0,
        ..small()
    })
);
policy::policy_suite!(suite_of_lrb_that_always_knows, Lrb, recorded(small()));

/// Returns the features that the source defines, computed from all requests of the object up to
/// `at`.
fn naive_features(times: &[u64], weight: u32, at: u64, window: u64) -> Vec<f32> {
    let last = times.len() - 1;
    let gap = |back: usize| times[last - back + 1] - times[last - back];
    let mut row = vec![(at - times[last]) as f32];
    for back in 1..32 {
        row.push(if back <= last {
            gap(back) as f32
        } else {
            f32::MAX
        });
    }
    row.push(weight as f32);
    let is_within = |back: &usize| times[last] - times[last - back] < window;
    row.push((1..=last.min(31)).filter(is_within).count() as f32);
    for log in 10..20 {
        let decayed = |counter: f32, gap: u64| counter * 0.5f32.powi((gap >> log) as i32);
        let mut counter = 1.0;
        for pair in times.windows(2) {
            counter = 1.0 + decayed(counter, pair[1] - pair[0]);
        }
        row.push(decayed(counter, at - times[last]));
    }
    row
}

#[test]
fn labels_are_the_distances_in_the_trace() {
    let (window, weight) = (200, 1);
    let mut trial = Trial::<Lrb>::new(20, &recorded(small()), 1);
    let mut chance = Chance::new(7);
    let requested: Vec<u64> = (0..2_500).map(|_| key_of(&mut chance)).collect();
    for &key in &requested {
        trial.request(key, weight, 3);
    }
    // The set has the label of each object in each state that it may have at a moment of the trace.
    // An object is dropped when the window has passed, and then begins again. When that happens
    // depends on evictions, so that both states are allowed.
    let mut possible = HashSet::new();
    let mut past_labels = 0;
    let label_past = logarithm(2 * window).to_bits();
    for key in 0..60 {
        let times: Vec<u64> = (1..)
            .zip(&requested)
            .filter(|(_, other)| **other == key)
            .map(|(at, _)| at)
            .collect();
        for (index, &time) in times.iter().enumerate() {
            let next = times.get(index + 1).copied().unwrap_or(u64::MAX);
            let starts: Vec<usize> = (0..=index)
                .filter(|&start| start == 0 || times[start] - times[start - 1] >= window)
                .collect();
            for at in time..next.min(time + window + 20) {
                for &start in &starts {
                    let row = naive_features(&times[start..=index], weight, at, window);
                    let row: Vec<u32> = row.iter().map(|value| value.to_bits()).collect();
                    if next < u64::MAX {
                        possible.insert((row.clone(), logarithm(next - at).to_bits()));
                    }
                    if next - time >= window {
                        possible.insert((row, label_past));
                    }
                }
            }
        }
    }
    let taught = taught();
    assert!(taught.len() > 500, "{}", taught.len());
    for (row, label) in &taught {
        assert!(possible.contains(&(row.clone(), *label)), "{row:?} {label}");
        past_labels += usize::from(*label == label_past);
    }
    assert!(past_labels > 10, "{past_labels}");
}

#[test]
fn it_is_lru_until_it_is_trained() {
    let knobs = LrbKnobs {
        batch: 100_000,
        ..small()
    };
    let lrb = is_lru::<Lrb>(&boosted(knobs));
    assert_eq!(lrb.distances.stats.trainings, 0);
}

#[test]
fn the_victim_is_the_furthest_of_the_drawn_entries() {
    let knobs = LrbKnobs {
        window: 1_000_000,
        candidates: 9,
        ..small()
    };
    let capacity = 500;
    let mut trial = Trial::<Lrb>::new(capacity, &recorded(knobs), 2);
    let (mut sum, mut count) = (0.0, 0);
    for key in 0..12_000u64 {
        // Some keys are requested twice, which produces labels.
        trial.request(if key % 8 == 0 { key / 16 } else { key }, 1, 100);
        if let Some(victim) = trial.victims.pop()
            && trial.policy.distances.stats.trainings > 0
        {
            let older = trial.policy.cached.values();
            let older = older.map(|&number| trial.policy.objects[number as usize].last);
            let number = trial.policy.numbers[&policy::parts::chance::scramble(victim)];
            let last = trial.policy.objects[number as usize].last;
            sum += 1.0 - older.filter(|other| *other < last).count() as f64 / capacity as f64;
            count += 1;
        }
    }
    assert!(count > 5_000);
    // The expected age of the oldest of nine uniformly drawn entries is nine tenths.
    let mean = sum / f64::from(count);
    assert!((mean - 0.9).abs() < 0.01, "{mean}");
}

#[test]
fn a_trained_model_keeps_objects_that_are_requested_again() {
    let keys = half_useful(20_000);
    let knobs = LrbKnobs {
        window: 1_000,
        batch: 2_000,
        candidates: 32,
        ..LrbKnobs::default()
    };
    let (lru, _) = hits::<Lru>(&(), &keys, 90);
    let (lrb, trial) = hits::<Lrb>(&boosted(knobs), &keys, 90);
    assert!(trial.policy.distances.stats.trainings >= 3);
    let importances = trial
        .policy
        .learning_stats()
        .expect("it learns")
        .importances;
    assert_eq!(importances.len(), FEATURES.len());
    let sum: f32 = importances.iter().map(|(_, share)| share).sum();
    assert!((sum - 1.0).abs() < 1e-4, "{sum}");
    assert!(lrb > lru + 400, "{lrb} {lru}");
    assert!(lrb > 1_800, "{lrb} of some 2,000");
}

#[test]
fn labels_that_teach_nothing_do_no_harm() {
    // No object is requested again: every label is the same.
    let keys: Vec<u64> = (0..5_000).collect();
    let (_, trial) = hits::<Lrb>(&boosted(small()), &keys, 20);
    assert_eq!(trial.policy.distances.stats.trainings, 0);
    assert!(trial.victims.is_sorted(), "first in, first out");
}

#[test]
fn memory_is_bounded_by_the_window() {
    let mut trial = Trial::<Lrb>::new(20, &boosted(small()), 1);
    for key in 0..5_000 {
        trial.request(key, 1, 10);
        assert!(trial.policy.known.len() <= 200 + FORGOTTEN_MAX);
    }
    let numbers: BTreeSet<u32> = trial.policy.known.iter().copied().collect();
    assert_eq!(numbers.len(), trial.policy.known.len());
}
