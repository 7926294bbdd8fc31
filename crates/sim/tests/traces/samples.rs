//! Curves of samples compared with the exact ones on the open traces: a table in Markdown, and a
//! bound. `MAYFLY_TRACES=all cargo test --release -p mayfly-sim --test traces samples` prints all.

use sim::Spec;
use sim::curve::{Curve, Sampler, Sampling, exact};
use sim::{Columns, Interner, Interning, Rules, Unit};
use std::fs::File;
use std::path::Path;
use std::sync::atomic::AtomicU64;

const SMALL: [&str; 7] = [
    "web07.txt.zst",
    "web_adaptsize.csv.zst",
    "cloudphysics.oracleGeneral.bin.zst",
    "lirs_2pools.trc.zst",
    "lirs_sprite.trc.zst",
    "lirs_multi3.trc.zst",
    "ecommerce_recs.txt.zst",
];
const LARGE: [&str; 5] = [
    "arc_oltp.lis.zst",
    "orm_busy.txt.zst",
    "arc_p3.lis.zst",
    "arc_p6.lis.zst",
    "twitter_cluster52.csv.zst",
];
/// Traces with sizes.
const SIZED: [&str; 3] = ["twitter_cluster52", "cloudphysics", "web_adaptsize"];
const SHARES: [f64; 6] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.4];
const SEEDS: u64 = 8;
/// Largest mean error of the samples of a trace.
const ERROR_MAX: f64 = 0.01;
/// A size at which the curve is steep, and its larger bound on the error.
const STEEP: (&str, f64, f64) = ("cloudphysics", 0.2, 0.015);

/// Reads a trace, whole and as samples of the default rate.
fn read(path: &Path) -> (Columns, Vec<sim::curve::Sample>) {
    let name = path.to_str().expect("the path is text");
    let file = File::open(path).expect("the trace can be opened");
    let mut interner = Interner::new(name, Interning::default());
    let sampler = |seed| {
        let sampling = Sampling {
            seed,
            ..Sampling::default()
        };
        Sampler::new(name, Interning::default(), sampling)
    };
    let mut samplers: Vec<Sampler> = (1..=SEEDS).map(sampler).collect();
    for request in trace::read(name, file).expect("the format is known") {
        let request = request.expect("the trace is whole");
        interner.push(&request).expect("it fits");
        for sampler in &mut samplers {
            sampler.push(&request).expect("it fits");
        }
    }
    let samples = samplers.into_iter().map(|s| s.finish().expect("it fits"));
    (interner.finish().expect("it fits"), samples.collect())
}

/// Root mean square error at each size, and the number of exact ratios within the bounds.
fn errors(exact: &Curve, estimates: &[Curve]) -> (Vec<f64>, usize) {
    let mut inside = 0;
    let mut means = Vec::new();
    for (at, point) in exact.points.iter().enumerate() {
        let mut squares = 0.0;
        for estimate in estimates {
            let found = estimate.points[at];
            squares += (found.miss_ratio - point.miss_ratio).powi(2);
            // Bounds of width zero hold except for rounding.
            let bounds = found.low - 1e-9..=found.high + 1e-9;
            inside += usize::from(bounds.contains(&point.miss_ratio));
        }
        means.push((squares / estimates.len() as f64).sqrt());
    }
    (means, inside)
}

pub fn samples_of_the_default_rate_are_within_one_percent(shared: &Path) {
    let mut files = SMALL.to_vec();
    if std::env::var("MAYFLY_TRACES").is_ok_and(|which| which == "all") {
        files.extend(LARGE);
    }
    let lru: Spec = "lru".parse().expect("a policy's name");
    let (mut far, mut inside, mut compared) = (Vec::new(), 0, 0);
    println!("| trace | unit | 1 % | 2 % | 5 % | 10 % | 20 % | 40 % |");
    println!("|---|---|---:|---:|---:|---:|---:|---:|");
    for file in files {
        let name = file.split('.').next().expect("there is a first part");
        let (whole, samples) = read(&shared.join("traces").join(file));
        for unit in [Unit::Objects, Unit::Bytes] {
            if unit == Unit::Bytes && !SIZED.contains(&name) {
                continue;
            }
            let rules = Rules {
                unit,
                ..Rules::default()
            };
            let footprint = whole.footprint(unit) as f64;
            let sizes = SHARES.map(|share| ((footprint * share) as u64).max(1));
            let policies = std::slice::from_ref(&lru);
            let done = AtomicU64::new(0);
            let exact_ratios = exact(&whole, &rules, policies, &sizes, 1, &done).expect("it runs");
            let estimates: Vec<Curve> = samples
                .iter()
                .map(|sample| {
                    let curves = sample.curves(&rules, policies, &sizes, 1, &done);
                    curves.expect("it runs").remove(0)
                })
                .collect();
            let (means, within) = errors(&exact_ratios[0], &estimates);
            inside += within;
            compared += means.len() * estimates.len();
            let cells: Vec<String> = means.iter().map(|e| format!("{e:.3}")).collect();
            println!("| {name} | {} | {} |", unit.name(), cells.join(" | "));
            for (share, mean) in SHARES.iter().zip(means) {
                let is_steep = (name, *share) == (STEEP.0, STEEP.1);
                let allowed = if is_steep { STEEP.2 } else { ERROR_MAX };
                if mean > allowed {
                    far.push(format!("{name} at {share}: {mean:.4}"));
                }
            }
        }
    }
    println!("{inside} of {compared} exact ratios lie within the bounds");
    assert!(far.is_empty(), "{}", far.join("\n"));
    assert!(inside * 100 >= compared * 93, "{inside} of {compared}");
}
