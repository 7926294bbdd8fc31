//! Every filter of the list in the conformance suite, and each filter against the claims of its
//! card.

use super::any::{AdmitSpec, AnyAdmission};
use super::{Admission, MissedKey};
use crate::admission_suite;
use crate::evict::lru::Lru;
use crate::parts::chance::{Chance, scramble};
use crate::suite::host::Host;
use crate::suite::policy::Trial;
use crate::{Admit, Tick};
use proptest::prelude::*;
use std::collections::BTreeMap;

macro_rules! suites {
    ($([mod $module:ident] $name:ident = $filter:ty,)+) => {
        #[expect(non_snake_case, reason = "the modules are named after the types")]
        mod listed {
            use super::*;
            $(admission_suite!($name, $filter);)+
        }
    };
}
use crate::admit;
admission_filters!(suites);
admission_suite!(any_tinylfu, AnyAdmission, spec("tinylfu"));
admission_suite!(
    adaptsize_often,
    AnyAdmission,
    spec("adaptsize:interval=1000")
);

fn spec(text: &str) -> AdmitSpec {
    text.parse().expect("it is well formed")
}

fn filter(text: &str, capacity: u64) -> AnyAdmission {
    AnyAdmission::new(capacity, &spec(text), 42)
}

/// Returns the decision about a key in an empty host, whose cache counts as full.
fn admits(filter: &mut impl Admission, key: u64, weight: u32) -> bool {
    let host: Host<()> = Host::new(Tick(0));
    let missed = MissedKey {
        key_hash: scramble(key),
        weight,
        has_room: false,
    };
    filter.admit(&host, missed) == Admit::Yes
}

fn share_admitted(text: &str, weight: u32) -> f64 {
    let mut filter = filter(text, 1000);
    let admitted = (0..100_000).filter(|&key| admits(&mut filter, key, weight));
    admitted.count() as f64 / 100_000.0
}

#[test]
fn the_size_limit_is_exact_to_the_byte() {
    let mut filter = filter("size:4096", 1 << 20);
    for (weight, is_admitted) in [(1, true), (4096, true), (4097, false), (u32::MAX, false)] {
        assert_eq!(admits(&mut filter, 1, weight), is_admitted, "{weight}");
    }
}

#[test]
fn keys_are_admitted_with_the_given_probability() {
    for (text, weight, share) in [
        ("always", 1, 1.0),
        ("probability:0", 1, 0.0),
        ("probability", 1, 0.2),
        ("probability:0.75", 9, 0.75),
        ("probability:1", 1, 1.0),
        ("exp-size:c=100", 100, (-1.0f64).exp()),
        ("exp-size:c=100", 10, (-0.1f64).exp()),
        ("exp-size:c=100", 1_000_000, 0.0),
    ] {
        let measured = share_admitted(text, weight);
        // Four standard deviations of 100,000 draws.
        let error = (measured - share).abs();
        assert!(
            error <= 4.0 * (share * (1.0 - share) / 1e5).sqrt(),
            "{text} {weight}: {measured}"
        );
    }
}

proptest! {
    /// Model: for each key, the turn at which it was last missed, counted in new keys. A key missed
    /// within as many turns as the cache holds entries must be admitted; a key never missed is
    /// rarely mistaken for another.
    #[test]
    fn the_second_request_is_admitted(
        keys in proptest::collection::vec(0u64..400, 0..2000),
    ) {
        let entries = 64;
        let mut host: Host<()> = Host::new(Tick(0));
        for key in 0..entries {
            let slot = host.add(scramble(1 << 40 | key), 1, None);
            host.hold(slot);
        }
        let mut filter = filter("bloom", entries);
        let mut seen = BTreeMap::new();
        let (mut fresh, mut mistaken) = (0, 0);
        for key in keys {
            let missed = MissedKey { key_hash: scramble(key), weight: 1, has_room: true };
            let is_admitted = filter.admit(&host, missed) == Admit::Yes;
            match seen.insert(key, fresh) {
                Some(last) if fresh - last < entries => prop_assert!(is_admitted),
                Some(_) => {}
                None => mistaken += usize::from(is_admitted),
            }
            fresh += u64::from(!is_admitted);
        }
        prop_assert!(mistaken <= 2 + seen.len() / 20, "{} of {}", mistaken, seen.len());
    }
}

#[test]
fn the_second_request_is_forgotten_in_time() {
    let mut trial = Trial::<Lru>::new(1000, &(), 1);
    let mut filter = filter("bloom", 1000);
    let mut twice = |key| {
        trial.request_through(&mut filter, key, 1, 8);
        trial.request_through(&mut filter, key, 1, 8);
        trial.request_through(&mut filter, key, 1, 8)
    };
    // Each key is missed twice and hit then, and the cache is full.
    let hits = (0..2000).filter(|&key| twice(key)).count();
    assert_eq!(hits, 2000);
    // A key that was evicted long ago counts as new.
    (10_000..20_000).for_each(|key| {
        trial.request_through(&mut filter, key, 1, 8);
    });
    let remembered = (0..1000).filter(|&key| {
        trial.request_through(&mut filter, key, 1, 8);
        trial.table.contains_key(&key)
    });
    let remembered = remembered.count();
    assert!(remembered < 30, "{remembered} of 1000");
}

proptest! {
    /// Model: exact counts. Before anything ages, an estimate is never below them, up to the
    /// counters' maximum.
    #[test]
    fn tinylfu_never_underestimates(
        keys in proptest::collection::vec(0u64..100, 0..500),
    ) {
        let mut host: Host<()> = Host::new(Tick(0));
        let mut filter = admit::tinylfu::TinyLfu::new(1000, &(), 1);
        for key in 0..1000 {
            let slot = host.add(scramble(1 << 40 | key), 1, None);
            host.hold(slot);
        }
        // The tables double once per request.
        (0..12).for_each(|_| {
            let missed = MissedKey { key_hash: 0, weight: 1, has_room: true };
            filter.admit(&host, missed);
        });
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        for &key in &keys {
            let missed = MissedKey { key_hash: scramble(key), weight: 1, has_room: true };
            prop_assert_eq!(filter.admit(&host, missed), Admit::Yes, "there is room");
            *counts.entry(key).or_default() += 1;
        }
        // A round of the hand takes 10,000 requests: at most one counter in twenty was halved.
        let low = counts.iter().filter(|&(&key, &count)| {
            filter.frequency(scramble(key)) < count.min(16)
        });
        let low = low.count();
        prop_assert!(low <= 2 + counts.len() / 4, "{} of {} are low", low, counts.len());
        let high = counts.iter().filter(|&(&key, &count)| {
            filter.frequency(scramble(key)) > count
        });
        let high = high.count();
        prop_assert!(high <= 2 + counts.len() / 20, "{} of {} are high", high, counts.len());
    }
}

/// Returns the hit ratio where a fifth of the requests are for keys that fit in the cache, and the
/// others for keys that are requested once.
fn hit_ratio_beside_a_scan(text: &str) -> f64 {
    let mut trial = Trial::<Lru>::new(500, &(), 1);
    let mut filter = filter(text, 500);
    let mut chance = Chance::new(5);
    let mut hits = 0;
    for request in 0..100_000u64 {
        let key = if chance.below(5) == 0 {
            chance.below(400)
        } else {
            1 << 32 | request
        };
        let is_hit = trial.request_through(&mut filter, key, 1, 8);
        hits += u64::from(is_hit && request >= 50_000);
    }
    hits as f64 / 50_000.0
}

#[test]
fn filters_reject_a_scan() {
    let [always, bloom, tinylfu] = ["always", "bloom", "tinylfu"].map(hit_ratio_beside_a_scan);
    assert!(bloom > always + 0.03, "{bloom}, {always}");
    assert!(tinylfu > always + 0.03, "{tinylfu}, {always}");
}

#[test]
fn tinylfu_rejects_keys_that_are_not_more_frequent_than_a_victim() {
    let mut host: Host<()> = Host::new(Tick(0));
    let mut filter = filter("tinylfu", 100);
    let mut slots = Vec::new();
    for key in 0..100 {
        let missed = MissedKey {
            key_hash: scramble(key),
            weight: 1,
            has_room: true,
        };
        assert_eq!(filter.admit(&host, missed), Admit::Yes);
        slots.push(host.add(scramble(key), 1, None));
        host.hold(slots[slots.len() - 1]);
    }
    for _ in 0..3 {
        slots.iter().for_each(|&slot| filter.hit(&host, slot));
    }
    for &slot in &slots[..8] {
        filter.evicted(&host, slot);
    }
    let missed = MissedKey {
        key_hash: scramble(1 << 32),
        weight: 1,
        has_room: false,
    };
    let answers: Vec<Admit> = (0..8).map(|_| filter.admit(&host, missed)).collect();
    let refused = answers.iter().filter(|&&answer| answer == Admit::No);
    let refused = refused.count();
    assert!((3..=5).contains(&refused), "{answers:?}");
    assert_eq!(answers[7], Admit::Yes);
}

#[test]
fn tinylfu_admits_one_rejected_key_of_many_so_that_victims_change() {
    let mut filter = filter("tinylfu", 100);
    let mut host: Host<()> = Host::new(Tick(0));
    let popular = host.add(scramble(1), 1, None);
    host.hold(popular);
    filter.evicted(&host, popular);
    let mut admitted = 0;
    for key in 0..20_000 {
        filter.hit(&host, popular);
        admitted += u32::from(admits(&mut filter, 1 << 32 | key, 1));
    }
    assert!((110..220).contains(&admitted), "{admitted}");
}
