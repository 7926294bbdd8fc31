//! Replays compared with a simple model: an LRU list of entries with weights and deadlines.

use policy::any::POLICIES;
use policy::evict::sieve::Sieve;
use proptest::prelude::*;
use sim::Spec;
use sim::{
    Columns, Configuration, Foresight, Interner, Interning, ReplayResult, Rules, Unit, sweep,
};
use std::sync::atomic::AtomicU64;
use trace::{Op, Request};

fn intern(requests: &[Request]) -> Columns {
    let requests = requests.iter().map(|&request| Ok(request));
    Interner::all("generated", Interning::default(), requests).expect("a trace in memory")
}

fn replay(columns: &Columns, rules: &Rules, policy: &str, capacity: u64) -> ReplayResult {
    let policy: Spec = policy.parse().expect("a policy of the list");
    let configuration = Configuration { policy, capacity };
    let found = sweep(columns, rules, &[configuration], 1, &AtomicU64::new(0));
    found.expect("the future is known").remove(0)
}

struct Entry {
    key: u64,
    weight: u64,
    deadline: u64,
}

const NEVER: u64 = u64::MAX;

#[derive(Debug, Default, PartialEq)]
struct ModelCounts {
    requests: u64,
    misses: u64,
    missed_weight: u64,
    evictions: u64,
    expirations: u64,
    refusals: u64,
}

impl ModelCounts {
    fn of(found: &ReplayResult) -> ModelCounts {
        let counts = &found.counts;
        ModelCounts {
            requests: counts.requests,
            misses: counts.misses,
            missed_weight: counts.missed_weight,
            evictions: counts.evictions,
            expirations: counts.expirations,
            refusals: counts.refusals,
        }
    }
}

/// Whether the oracle of the rules removes an entry with this deadline after request `index`.
fn is_useless(requests: &[Request], rules: &Rules, index: usize, deadline: u64) -> bool {
    let Some(foresight) = rules.foresight else {
        return false;
    };
    let is_next = |&other: &usize| requests[other].key == requests[index].key;
    let Some(next) = (index + 1..requests.len()).find(is_next) else {
        return true;
    };
    let until_next = requests[..=next].iter().map(|request| request.time_ms);
    let latest = until_next.max().expect("it includes the next request");
    let time = latest - requests[0].time_ms;
    foresight == Foresight::Expiring && deadline < time
}

/// LRU by bytes with an exact expiry index.
fn model(requests: &[Request], rules: &Rules, capacity: u64) -> ModelCounts {
    let mut counts = ModelCounts::default();
    let mut entries: Vec<Entry> = Vec::new();
    let mut ttls = std::collections::HashMap::new();
    let first_ms = requests[0].time_ms;
    let mut now = 0;
    for (index, request) in requests.iter().enumerate() {
        if index == rules.warm_up {
            counts = ModelCounts::default();
        }
        now = now.max(request.time_ms.saturating_sub(first_ms));
        let before = entries.len();
        entries.retain(|entry| entry.deadline >= now);
        counts.expirations += (before - entries.len()) as u64;
        let is_write = !request.op.is_read() && request.op != Op::Delete;
        if is_write || request.ttl_ms > 0 {
            ttls.insert(request.key, request.ttl_ms);
        }
        let position = entries.iter().position(|entry| entry.key == request.key);
        if request.op == Op::Delete {
            position.map(|at| entries.remove(at));
            continue;
        }
        let counted = u64::from(request.op.is_read() || rules.counts_writes);
        let size = u64::from(request.size.max(1));
        counts.requests += counted;
        let deadline = match ttls.get(&request.key) {
            Some(&ttl) if ttl > 0 => now + ttl,
            _ => NEVER,
        };
        if let Some(at) = position {
            let mut entry = entries.remove(at);
            if is_write {
                entry.deadline = deadline;
            }
            if rules.follows_sizes {
                entry.weight = size;
            }
            if entry.weight <= capacity {
                entries.push(entry);
            }
        } else {
            counts.misses += counted;
            counts.missed_weight += counted * size;
            if size > capacity || is_useless(requests, rules, index, deadline) {
                counts.refusals += 1;
                continue;
            }
            entries.push(Entry {
                key: request.key,
                weight: size,
                deadline,
            });
        }
        while entries.iter().map(|entry| entry.weight).sum::<u64>() > capacity {
            entries.remove(0);
            counts.evictions += 1;
        }
        entries.retain(|entry| {
            let is_requested = entry.key == request.key;
            !is_requested || !is_useless(requests, rules, index, entry.deadline)
        });
    }
    counts
}

fn foresight() -> impl Strategy<Value = Option<Foresight>> {
    prop_oneof![
        Just(None),
        Just(Some(Foresight::Unrequested)),
        Just(Some(Foresight::Expiring)),
    ]
}

fn requests() -> impl Strategy<Value = Vec<Request>> {
    let op = prop_oneof![
        8 => Just(Op::Get),
        3 => Just(Op::Set),
        1 => Just(Op::Delete),
    ];
    let ttl = prop_oneof![Just(0u64), 1u64..40, Just(5_000_000_000)];
    let request = (0u64..40, op, 0u32..12, ttl, 0u64..9);
    proptest::collection::vec(request, 1..300).prop_map(|rows| {
        let mut time_ms = 1_000_000u64;
        let of_row = |(key, op, size, ttl_ms, step): (u64, Op, u32, u64, u64)| {
            // Sometimes time goes back.
            time_ms = (time_ms + step).saturating_sub(if step == 8 { 15 } else { 0 });
            Request {
                op,
                ttl_ms,
                ..Request::new(time_ms, key, size)
            }
        };
        rows.into_iter().map(of_row).collect()
    })
}

proptest! {
    #[test]
    fn a_replay_is_what_the_model_does(
        requests in requests(),
        capacity in 1u64..80,
        warm_up in 0usize..50,
        counts_writes in any::<bool>(),
        follows_sizes in any::<bool>(),
        foresight in foresight(),
    ) {
        let rules = Rules {
            unit: Unit::Bytes,
            warm_up: warm_up.min(requests.len() - 1),
            expiry: "ordered".parse().expect("an index of the list"),
            counts_writes,
            follows_sizes,
            foresight,
            ..Rules::default()
        };
        let found = replay(&intern(&requests), &rules, "lru", capacity);
        prop_assert_eq!(ModelCounts::of(&found), model(&requests, &rules, capacity));
    }
}

proptest! {
    #[test]
    fn without_evictions_every_index_leads_to_the_same_misses(requests in requests()) {
        for about in policy::expire::any::INDEXES {
            let rules = Rules {
                expiry: about.name.parse().expect("an index of the list"),
                ..Rules::default()
            };
            let found = replay(&intern(&requests), &rules, "lru", 1000);
            let counts = model(&requests, &Rules { unit: Unit::Bytes, ..rules }, 1_000_000);
            prop_assert_eq!(found.counts.misses, counts.misses, "{}", about.name);
        }
    }

    #[test]
    fn algorithms_agree_with_the_entries_whatever_leaves_and_comes_back(
        requests in requests(),
        capacity in 1u64..40,
    ) {
        // Each replay checks policy and index at its end.
        for about in policy::expire::any::INDEXES {
            let rules = Rules {
                unit: Unit::Bytes,
                expiry: about.name.parse().expect("an index of the list"),
                ..Rules::default()
            };
            let columns = intern(&requests);
            for policy in ["fifo", "lru", "sieve", "s3fifo", "arc", "sampled-ttl"] {
                replay(&columns, &rules, policy, capacity);
            }
        }
    }
}

/// A stream with some frequently requested keys and various sizes.
fn stream(seed: u64, len: usize) -> Vec<Request> {
    let keys = trace::Zipf::new(2000, 0.9, seed);
    let rows = (0..len as u64).zip(keys);
    rows.map(|(time, key)| Request::new(time, key, 1 + (key % 7) as u32))
        .collect()
}

#[test]
fn both_loops_give_the_same_result_with_every_policy() {
    let plain = stream(3, 20_000);
    let mut full = plain.clone();
    // Deletes an absent object: this changes nothing, but selects the full loop.
    full.push(Request {
        op: Op::Delete,
        ..Request::new(20_000, u64::MAX, 1)
    });
    let (plain, full) = (intern(&plain), intern(&full));
    for about in POLICIES {
        for unit in [Unit::Objects, Unit::Bytes] {
            let rules = Rules {
                unit,
                ..Rules::default()
            };
            let a = replay(&plain, &rules, about.name, 300);
            let b = replay(&full, &rules, about.name, 300);
            assert_eq!(a.counts, b.counts, "{} by {}", about.name, unit.name());
            assert_eq!(a.promotions, b.promotions, "{}", about.name);
            assert_eq!(b.expired_held, 0.0);
            assert!(a.counts.misses > 0);
        }
    }
}

#[test]
fn the_number_of_jobs_changes_only_the_time() {
    let columns = intern(&stream(5, 5_000));
    let configurations: Vec<Configuration> = ["random", "s3fifo", "lru", "belady"]
        .iter()
        .flat_map(|name| {
            [10, 100].map(|capacity| Configuration {
                policy: name.parse().expect("a policy of the list"),
                capacity,
            })
        })
        .collect();
    let run = |jobs| {
        let done = AtomicU64::new(0);
        let found = sweep(&columns, &Rules::default(), &configurations, jobs, &done);
        assert_eq!(done.into_inner(), 8 * 5_000);
        let found = found.expect("the future is known");
        found.iter().map(|found| found.counts).collect::<Vec<_>>()
    };
    let alone = run(1);
    assert_eq!(alone, run(3));
    assert_eq!(alone, run(100));
}

#[test]
fn the_weight_of_expired_entries_is_a_mean_over_time() {
    // One object of 10 bytes has a TTL of 100 ms; nothing else happens until 1,000 ms.
    let at = |time_ms, key| Request {
        ttl_ms: 100,
        ..Request::new(time_ms, key, 10)
    };
    let columns = intern(&[at(0, 1), at(1_000, 2)]);
    let rules = |expiry: &str| Rules {
        unit: Unit::Bytes,
        expiry: expiry.parse().expect("an index of the list"),
        ..Rules::default()
    };
    let exact = replay(&columns, &rules("ordered"), "lru", 100);
    assert_eq!(exact.expired_held, 10.0 * 1.0 / 1_000.0);
    assert_eq!(exact.counts.expirations, 1);
    let sampled = replay(&columns, &rules("sampled"), "lru", 100);
    // Its cycles run every 100 ms.
    assert!(sampled.expired_held > 0.0);
    assert!(
        sampled.expired_held <= 10.0 * 200.0 / 1_000.0,
        "{sampled:?}"
    );
}

#[test]
fn an_oracle_keeps_the_entries_that_will_be_hit() {
    // LRU of two objects, one request in 10 ms: a b c a b b b. a and b are evicted before they are
    // requested again. c, which is not requested again, takes the place of a.
    let requests = [1, 2, 3, 1, 2, 2, 2].iter().zip(0u64..);
    let request = |(&key, index)| Request {
        ttl_ms: if key == 2 { 35 } else { 0 },
        ..Request::new(index * 10, key, 1)
    };
    let columns = intern(&requests.map(request).collect::<Vec<_>>());
    let misses = |foresight, ignores_ttls| {
        let rules = Rules {
            foresight,
            ignores_ttls,
            ..Rules::default()
        };
        replay(&columns, &rules, "lru", 2).counts.misses
    };
    assert_eq!(misses(None, true), 5);
    assert_eq!(misses(Some(Foresight::Unrequested), true), 3);
    assert_eq!(misses(Some(Foresight::Expiring), true), 3);
    // b is inserted after 10 ms, hit after 40 ms and expired after 50 ms.
    assert_eq!(misses(Some(Foresight::Unrequested), false), 4);
    assert_eq!(misses(Some(Foresight::Expiring), false), 4);
}

#[test]
fn the_oracle_of_deadlines_removes_what_expires_before_its_next_request() {
    // LRU of two objects, one request in 10 ms: b a c a b c. c evicts b, unless a is not inserted,
    // because it expires after 15 ms and is requested again after 20 ms.
    let requests = [2, 1, 3, 1, 2, 3].iter().zip(0u64..);
    let request = |(&key, index)| Request {
        ttl_ms: if key == 1 { 15 } else { 0 },
        ..Request::new(index * 10, key, 1)
    };
    let columns = intern(&requests.map(request).collect::<Vec<_>>());
    let misses = |foresight| {
        let rules = Rules {
            foresight,
            ..Rules::default()
        };
        replay(&columns, &rules, "lru", 2).counts.misses
    };
    assert_eq!(misses(Some(Foresight::Unrequested)), 5);
    assert_eq!(misses(Some(Foresight::Expiring)), 4);
}

#[test]
fn a_small_replay_is_explained() {
    // FIFO of two objects: a b a c b d; a is hit once, b never; c's insertion evicts a, d's b.
    let requests: Vec<Request> = [1, 2, 1, 3, 2, 4]
        .iter()
        .zip(0..)
        .map(|(&key, time)| Request::new(time, key, 1))
        .collect();
    let rules = Rules {
        explains: true,
        ..Rules::default()
    };
    let columns = intern(&requests);
    let explained = replay(&columns, &rules, "fifo", 2)
        .explained
        .expect("the rules request it");
    assert_eq!(explained.evictions_by_hits[..3], [0, 2, 0]);
    assert_eq!(explained.demotion_age, None);
    assert_eq!(
        explained
            .over_time
            .iter()
            .filter(|&&ratio| ratio == 1.0)
            .count(),
        4
    );
    // a and b are popular: c's two steps and d's one are spent on others, of 3 + 4 + 3 + 1.
    assert_eq!(explained.unpopular_resources, Some(4.0 / 11.0));
    // LRU: c evicts b, which comes back at the next request; b evicts a, d evicts c, both for good.
    let explained = replay(&columns, &rules, "lru", 2)
        .explained
        .expect("the rules request it");
    assert_eq!(explained.evictions_by_hits[..3], [2, 1, 0]);
    assert_eq!(explained.demotion_age, Some(2.0));
    assert_eq!(explained.demotion_precision, Some(0.5));
    assert_eq!(explained.idle_age, Some(2.0));
    assert_eq!(explained.demotion_speed, Some(1.0));
}

#[test]
fn explaining_changes_nothing() {
    let columns = intern(&stream(9, 20_000));
    for about in POLICIES {
        let rules = Rules {
            explains: true,
            warm_up: 1_000,
            ..Rules::default()
        };
        let explained = replay(&columns, &rules, about.name, 200);
        let counts = explained.explained.expect("the rules request it");
        let bare = Rules {
            explains: false,
            ..rules
        };
        assert_eq!(
            explained.counts,
            replay(&columns, &bare, about.name, 200).counts
        );
        assert_eq!(
            counts.evictions_by_hits.iter().sum::<u64>(),
            explained.counts.evictions
        );
        assert!(
            counts.demotion_speed.is_some_and(|speed| speed > 0.0),
            "{}",
            about.name
        );
        assert!(
            counts
                .unpopular_resources
                .is_some_and(|share| (0.0..=1.0).contains(&share))
        );
    }
}

#[test]
fn twenty_four_bytes_per_object_suffice() {
    let columns = intern(&stream(1, 200_000));
    for name in ["fifo", "lru", "clock", "sieve", "s3fifo", "twoq", "slru"] {
        let found = replay(
            &columns,
            &Rules::default(),
            name,
            columns.objects() as u64 / 10,
        );
        let per_object = found.replay_bytes as f64 / columns.objects() as f64;
        assert!(per_object <= 24.0, "{name}: {per_object} bytes");
    }
    let per_request = columns.heap_bytes() as f64 / columns.len() as f64;
    assert!(per_request <= 16.0, "{per_request} bytes");
}

#[test]
fn a_stopped_sweep_returns_an_error_and_no_result() {
    let columns = intern(&stream(5, 5_000));
    let configuration = Configuration {
        policy: "lru".parse().expect("a policy of the list"),
        capacity: 10,
    };
    let done = AtomicU64::new(sim::STOPPED);
    let found = sweep(&columns, &Rules::default(), &[configuration], 1, &done);
    assert!(matches!(found, Err(sim::Error::Stopped)), "{found:?}");
}

#[test]
fn a_policy_given_by_its_type_has_the_counts_of_its_name() {
    let columns = intern(&stream(6, 5_000));
    let rules = Rules::default();
    let done = AtomicU64::new(0);
    let found = sim::replay_policy::<Sieve>(&columns, &rules, &(), &[10, 100], &done);
    let found = found.expect("memory is not limited");
    assert_eq!(done.into_inner(), 2 * 5_000);
    for (found, capacity) in found.iter().zip([10, 100]) {
        let by_name = replay(&columns, &rules, "sieve", capacity);
        assert_eq!(found.counts, by_name.counts);
    }
}
