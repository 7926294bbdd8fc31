//! Advice on one generated trace, judged on another of the same workload that it has not seen.
//!
//! `tests/measure/advise_halves.py` does the same with the halves of real traces.

use sim::Spec;
use sim::advise::{Advice, Collector, Constraints, advise, candidates};
use sim::curve::Sampling;
use sim::{Configuration, Interner, Interning, Rules, sweep};
use std::sync::atomic::AtomicU64;
use trace::{Random, Request, Zipf};

/// Candidates of each kind, few enough for a debug build.
const POLICIES: [&str; 9] = [
    "fifo",
    "lru",
    "sieve",
    "s3fifo",
    "s3fifo-w",
    "arc",
    "lirs",
    "w-tinylfu",
    "cart",
];
const REQUESTS: usize = 40_000;
const MEMORY: u64 = 800;
/// Maximum share by which a recommendation may miss more than the best policy on the unseen trace.
const REGRET_MAX: f64 = 0.06;

/// Requests by a Zipf law, with a share of other requests between them.
fn workload(seed: u64, mut other: impl FnMut(u64) -> Option<u64>) -> Vec<Request> {
    let zipf = Zipf::new(8_000, 0.9, seed).take(REQUESTS);
    let keys = zipf.enumerate().map(|(n, key)| {
        let n = n as u64;
        (n, other(n).map_or(key, |key| 1 << 40 | key))
    });
    keys.map(|(n, key)| Request::new(n * 10, key, 1)).collect()
}

/// Popular keys alone; with scans; with loops longer than the cache; with keys that return soon and
/// then never.
fn workloads(seed: u64) -> Vec<(&'static str, Vec<Request>)> {
    let draw = |n: u64| Random::of_key(seed, n).below(10);
    vec![
        ("popularity", workload(seed, |_| None)),
        ("scans", workload(seed, |n| (n % 4 == 0).then_some(n))),
        (
            "loops",
            workload(seed, |n| (draw(n) < 5).then_some(n % 1_500)),
        ),
        (
            "bursts",
            workload(seed, |n| (draw(n) < 6).then_some(n / 12)),
        ),
    ]
}

fn advised(requests: &[Request], rules: &Rules) -> Advice {
    let sampling = Sampling {
        objects: 4096,
        ..Sampling::default()
    };
    let mut collector = Collector::new("seen", Interning::default(), sampling, true, None);
    for request in requests {
        collector.push(request).expect("it fits");
    }
    let inputs = collector.finish().expect("it fits");
    let policies = POLICIES.map(|name| (name.to_owned(), name.parse::<Spec>().expect("a name")));
    let question = Constraints {
        memory: Some(MEMORY),
        target: None,
    };
    advise(&inputs, rules, &policies, question, 1, &AtomicU64::new(0)).expect("it runs")
}

/// Miss ratios of all candidates on a trace.
fn simulated(requests: &[Request], rules: &Rules) -> Vec<f64> {
    let all = requests.iter().copied().map(Ok::<_, trace::Error>);
    let columns = Interner::all("unseen", Interning::default(), all).expect("it fits");
    let configurations = POLICIES.map(|name| Configuration {
        policy: name.parse::<Spec>().expect("a name"),
        capacity: MEMORY,
    });
    let found = sweep(&columns, rules, &configurations, 1, &AtomicU64::new(0)).expect("it runs");
    let ratio = |counts: sim::Counts| counts.misses as f64 / counts.requests as f64;
    found.iter().map(|result| ratio(result.counts)).collect()
}

#[test]
fn a_recommendation_is_near_the_best_policy_of_a_trace_that_was_not_seen() {
    let rules = Rules::default();
    let place = |name: &str| {
        POLICIES
            .iter()
            .position(|other| *other == name)
            .expect("listed")
    };
    for ((workload, seen), (_, unseen)) in workloads(1).into_iter().zip(workloads(2)) {
        let advice = advised(&seen, &rules);
        let found = &advice.recommendation;
        let ratios = simulated(&unseen, &rules);
        let best = ratios.iter().copied().fold(1.0, f64::min);
        let own = ratios[place(&found.policy)];
        let regret = own / best - 1.0;
        println!(
            "{workload}: {} instead of {:?}, regret {regret:.4}",
            found.policy, found.fewest_misses
        );
        assert!(
            regret <= REGRET_MAX,
            "{workload}: {} misses {own}, the best {best}",
            found.policy
        );
        if let Some(fewest) = &found.fewest_misses {
            let on_seen = simulated(&seen, &rules);
            let (own, best) = (on_seen[place(&found.policy)], on_seen[place(fewest)]);
            assert!(
                best <= own && own <= 1.03 * best,
                "{workload}: {own} {best}"
            );
            let has_reason = advice.statements.iter().any(|one| one.topic == "robust");
            assert!(has_reason, "{workload}");
        }
    }
}

#[test]
fn every_default_candidate_can_be_served() {
    let names: Vec<&str> = candidates().collect();
    assert!(names.len() > 30, "{names:?}");
    for name in ["lru", "s3fifo-w", "cart", "w-tinylfu-adaptive"] {
        assert!(names.contains(&name), "{name}");
    }
    for name in ["belady", "lrm", "random", "slab-lru"] {
        assert!(!names.contains(&name), "{name}");
    }
}
