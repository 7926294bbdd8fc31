//! Advice on the open traces: predictions for its recommendation, compared with full simulation.
//! Parts of names in `MAYFLY_TRACES`, separated by commas, choose traces (`./test --full` runs all,
//! in release mode).

use sim::Spec;
use sim::advise::{Advice, BOUND_MAX, Collector, Constraints, Inputs, advise, refine};
use sim::curve::Sampling;
use sim::{Columns, Configuration, Error, Interner, Interning, Rules, Unit, sweep};
use std::fs::File;
use std::path::Path;
use std::sync::atomic::AtomicU64;

/// File name, and whether the trace is small.
const TRACES: &[(&str, bool)] = &[
    ("lirs_sprite.trc.zst", true),
    ("lirs_multi3.trc.zst", true),
    ("lirs_2pools.trc.zst", true),
    ("web07.txt.zst", true),
    ("web_adaptsize.csv.zst", true),
    ("cloudphysics.vscsi.zst", false),
    ("cloudphysics.oracleGeneral.bin.zst", true),
    ("arc_oltp.lis.zst", false),
    ("arc_p3.lis.zst", false),
    ("arc_p6.lis.zst", false),
    ("ecommerce_recs.txt.zst", false),
    ("orm_busy.txt.zst", false),
    ("twitter_cluster52.csv.zst", false),
];
/// Policies that `mayfly sim advise` compares by default.
const POLICIES: [&str; 8] = [
    "lru",
    "clock",
    "sieve",
    "s3fifo",
    "arc",
    "twoq",
    "lirs",
    "w-tinylfu",
];
/// Initial number of sampled objects, small enough for samples of a part. `mayfly sim advise`
/// starts with twice as many.
const OBJECTS: usize = 8192;

fn is_chosen(name: &str, is_small: bool) -> bool {
    match std::env::var("MAYFLY_TRACES") {
        Err(_) => is_small,
        Ok(chosen) => chosen == "all" || chosen.split(',').any(|word| name.contains(word)),
    }
}

fn requests(path: &Path) -> impl Iterator<Item = Result<trace::Request, trace::Error>> {
    let name = path.to_str().expect("the path is text");
    let file = File::open(path).expect("the trace was just seen");
    trace::read(name, file).expect("the format is known")
}

fn gathered(path: &Path, keeps_whole: bool, objects: usize) -> Result<Inputs, Error> {
    let sampling = Sampling {
        objects,
        ..Sampling::default()
    };
    let mut gatherer = Collector::new("trace", Interning::default(), sampling, keeps_whole, None);
    for request in requests(path) {
        gatherer.push(&request?)?;
    }
    gatherer.finish()
}

fn asked(inputs: &Inputs, rules: &Rules, question: Constraints) -> Result<Advice, Error> {
    let policy = |name: &str| name.parse::<Spec>().expect("it is one");
    let policies = POLICIES.map(|name| (name.to_owned(), policy(name)));
    advise(inputs, rules, &policies, question, 2, &AtomicU64::new(0))
}

fn simulated(whole: &Columns, rules: &Rules, advice: &Advice) -> f64 {
    let configuration = Configuration {
        policy: advice
            .recommendation
            .policy
            .parse::<Spec>()
            .expect("it is one"),
        capacity: advice.recommendation.cache_size,
    };
    let found = sweep(whole, rules, &[configuration], 1, &AtomicU64::new(0));
    let counts = found.expect("there is memory")[0].counts;
    counts.misses as f64 / counts.requests as f64
}

pub fn predictions_hold_in_full_simulation(shared: &Path) {
    let mut far = Vec::new();
    let mut count = 0;
    let chosen = TRACES
        .iter()
        .filter(|(name, is_small)| is_chosen(name, *is_small));
    for (name, _) in chosen {
        let path = shared.join("traces").join(name);
        let whole = Interner::all(name, Interning::default(), requests(&path));
        let whole = whole.expect("the trace is whole");
        let mut units = vec![Unit::Objects];
        units.extend(whole.has_sizes().then_some(Unit::Bytes));
        for unit in units {
            let rules = Rules {
                unit,
                ..Rules::default()
            };
            let memory = Constraints {
                memory: Some(whole.footprint(unit) / 10),
                target: None,
            };
            for question in [memory, Constraints::default()] {
                let sampled = refine(OBJECTS, |objects| {
                    asked(&gathered(&path, false, objects)?, &rules, question)
                });
                let replayed = asked(
                    &gathered(&path, true, OBJECTS).expect("there is memory"),
                    &rules,
                    question,
                );
                for advice in [sampled.expect("it runs"), replayed.expect("it runs")] {
                    let found = &advice.recommendation;
                    let ratio = found.ratio;
                    let truth = simulated(&whole, &rules, &advice);
                    let error = ratio.miss_ratio - truth;
                    let text = format!(
                        "{name} {} {} {}: {:.4} ({:.4} to {:.4}), simulated {truth:.4}, estimate {:?}",
                        unit.name(),
                        found.policy,
                        found.cache_size,
                        ratio.miss_ratio,
                        ratio.low,
                        ratio.high,
                        found.estimate.map(|e| (e.low, e.miss_ratio, e.high)),
                    );
                    println!("{text}");
                    count += 1;
                    // Quotients of sums of whole numbers.
                    let is_inside = (ratio.low - 1e-9..=ratio.high + 1e-9).contains(&truth);
                    if !is_inside || error.abs() > BOUND_MAX || !advice.is_precise() {
                        far.push(text);
                    }
                }
            }
        }
    }
    assert!(
        far.is_empty(),
        "{} of {count} are far:\n{}",
        far.len(),
        far.join("\n")
    );
    assert!(count >= 4, "only {count} recommendations were simulated");
}
