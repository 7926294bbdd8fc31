//! Policies that learn, in the simulator: their results, which are deterministic except for times.

use policy::parts::chance::scramble;
use sim::report::{self, Row};
use sim::{Columns, Configuration, Interner, Interning, ReplayResult, Rules, Unit, sweep};
use std::sync::atomic::AtomicU64;
use trace::Request;

/// Keys that are requested repeatedly, some more often than others, between bursts of keys
/// requested once.
fn columns(requests: u64, time_ms: impl Fn(u64) -> u64) -> Columns {
    let request = |n: u64| {
        let random = scramble(n);
        let key = match n / 700 % 3 {
            0 => 1_000_000 + n,
            _ => (random % 4_000).min(random / 4_000 % 4_000),
        };
        let size = 1 + (scramble(key) % 100) as u32;
        Ok(Request::new(time_ms(n), key, size))
    };
    let requests = (0..requests).map(request);
    Interner::all("made up", Interning::default(), requests).expect("a trace in memory")
}

fn run(
    columns: &Columns,
    unit: Unit,
    capacity: u64,
    names: &[&str],
    jobs: usize,
) -> Vec<ReplayResult> {
    let of_name = |name: &&str| Configuration {
        policy: name.parse().expect("a policy of the list"),
        capacity,
    };
    let configurations: Vec<Configuration> = names.iter().map(of_name).collect();
    let rules = Rules {
        unit,
        ..Rules::default()
    };
    let found = sweep(columns, &rules, &configurations, jobs, &AtomicU64::new(0));
    found.expect("the future is known")
}

const NAMES: [&str; 5] = [
    "gl-cache:group=10",
    "gl-cache:t:group=10",
    "gl-cache:e:interval=daily",
    "gl-oracle",
    "fifo-merge",
];

#[test]
fn learning_does_not_depend_on_parallel_replays() {
    let columns = columns(60_000, |n| n * 10);
    let all = |jobs| {
        let found = run(&columns, Unit::Bytes, 60_000, &NAMES, jobs);
        let result = found.into_iter().map(|found| {
            let learning_stats = found.learned.map(|learned| learned.learning_stats);
            (found.counts, learning_stats)
        });
        result.collect::<Vec<_>>()
    };
    let alone = all(1);
    assert_eq!(alone, all(3));
    let trainings = alone.iter().map(|(_, learning_stats)| {
        let learning_stats = learning_stats.as_ref();
        learning_stats.map(|learning_stats| learning_stats.trainings)
    });
    let trainings: Vec<Option<u64>> = trainings.collect();
    assert!(trainings[0] > Some(2), "{trainings:?}");
    assert!(trainings[1] > Some(2), "{trainings:?}");
    // The trace takes ten minutes of its clock.
    assert_eq!(trainings[2..], [Some(0), None, None]);
    let misses: Vec<u64> = alone.iter().map(|(counts, _)| counts.misses).collect();
    assert!(
        misses[3] < misses[0],
        "the oracle is the ceiling: {misses:?}"
    );
}

#[test]
fn days_of_a_clock_train_by_day() {
    let day_ms = 24 * 60 * 60 * 1000;
    let columns = columns(40_000, |n| n * day_ms / 4_000);
    let found = run(
        &columns,
        Unit::Objects,
        800,
        &["gl-cache:interval=daily:group=5"],
        1,
    );
    let learned = found[0].learned.as_ref().expect("it learns");
    assert!(
        (8..10).contains(&learned.learning_stats.trainings),
        "{learned:?}"
    );
    assert!(learned.is_trained());
}

#[test]
fn rows_report_trainings_and_whether_they_suffice() {
    let row = |columns: &Columns, name: &str, capacity: u64| {
        let mut found = run(columns, Unit::Objects, capacity, &[name], 1);
        Row {
            trace: columns.name().into(),
            policy: name.into(),
            unit: Unit::Objects,
            cache_size: capacity,
            size: capacity.to_string(),
            found: found.remove(0),
        }
    };
    let long = columns(40_000, |_| 0);
    let short = columns(3_000, |_| 0);
    let rows = [
        row(&long, "gl-cache:group=5", 500),
        row(&short, "gl-cache", 500),
        row(&short, "lru", 500),
    ];
    let json = serde_json::to_string(&report::table(&rows)).expect("a table is data");
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json[0]["is_trained"], "yes");
    assert!(json[0]["trainings"].as_u64() > Some(2));
    assert!(json[0]["training_seconds"].as_f64() > Some(0.0));
    assert!(json[0]["model_age"].as_u64() < Some(40_000));
    assert!(json[0]["groups_evicted"].as_u64() > Some(100));
    assert!(json[0]["learning_bytes_per_entry"].as_f64() > Some(0.1));
    let correlation = json[0]["held_out_correlation"].as_f64();
    assert!(
        correlation > Some(0.05),
        "what never comes back is result from the rest: {correlation:?}"
    );
    let importances = json[0]["feature_importances"].as_str();
    assert!(importances.is_some_and(|result| result.starts_with("request rate 0.000; ")));
    assert_eq!(json[1]["is_trained"], "no");
    assert!(json[1]["held_out_correlation"].is_null());
    assert!(json[1]["trainings"].as_u64() < Some(3));
    assert!(json[2]["trainings"].is_null());
    assert!(report::table(&rows).to_text().contains("trained"));
    assert!(!report::table(&rows[2..]).to_text().contains("trained"));
    let page = report::page(&rows).to_html();
    for title in [
        "Importance of each feature",
        "Targets by fifths",
        "Rank correlation",
    ] {
        assert!(page.contains(title), "{title}");
    }
    assert!(!report::page(&rows[2..]).to_html().contains("feature"));
}

#[test]
fn hidden_features_do_not_reach_the_model() {
    let columns = columns(30_000, |n| n * 10);
    let with = |hidden: &[usize]| {
        let rules = Rules {
            hidden_features: hidden.to_vec(),
            ..Rules::default()
        };
        let configuration = Configuration {
            policy: "gl-cache:group=5".parse().expect("it is on the list"),
            capacity: 500,
        };
        let found = sweep(&columns, &rules, &[configuration], 1, &AtomicU64::new(0));
        let found = found.expect("no policy needs future requests").remove(0);
        found.learned.expect("it learns")
    };
    let (all, some) = (with(&[]), with(&[0, 1, 2, 3, 4]));
    let shares = |learned: &sim::Learned| learned.learning_stats.importances.clone();
    assert!(shares(&all)[..5].iter().any(|(_, share)| *share > 0.0));
    assert!(shares(&some)[..5].iter().all(|(_, share)| *share == 0.0));
    assert!(shares(&some)[5..].iter().any(|(_, share)| *share > 0.0));
    assert_ne!(all.held_out, some.held_out);
    // A position beyond the row hides nothing.
    assert_eq!(with(&[99]).held_out, all.held_out);
}
