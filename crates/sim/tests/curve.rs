//! Exact curves compared with simulation, and estimates with exact curves.

use sim::Spec;
use sim::curve::{Curve, Sampler, Sampling, exact, spread};
use sim::{
    Columns, Configuration, Contestant, Error, Interner, Interning, Rules, Unit, segments, sweep,
};
use std::sync::atomic::AtomicU64;
use trace::{Random, Request, Zipf};

fn policies(names: &[&str]) -> Vec<Spec> {
    let read = |name: &&str| name.parse().expect("a policy's name");
    names.iter().map(read).collect()
}

fn rules(unit: Unit) -> Rules {
    Rules {
        unit,
        ..Rules::default()
    }
}

/// Zipf-distributed requests with occasional loops over other objects; sizes follow from the key.
fn requests(count: usize, keys: u64) -> Vec<Request> {
    let mut looped = 0;
    let zipf = Zipf::new(keys, 0.9, 3).take(count).enumerate();
    let request = |(n, key): (usize, u64)| {
        let key = match n % 5 {
            0 => {
                looped = (looped + 1) % (keys / 8);
                keys + looped
            }
            _ => key,
        };
        let size = 10 + Random::of_key(9, key).below(500) as u32;
        Request::new(n as u64, key, size)
    };
    zipf.map(request).collect()
}

fn columns(requests: &[Request]) -> Columns {
    let all = requests.iter().copied().map(Ok);
    Interner::all("made", Interning::default(), all).expect("it fits")
}

fn replayed(columns: &Columns, unit: Unit, policy: &str, capacities: &[u64]) -> Vec<(f64, f64)> {
    let policy = &policies(&[policy])[0];
    let configurations: Vec<Configuration> = capacities
        .iter()
        .map(|&capacity| Configuration {
            policy: policy.clone(),
            capacity,
        })
        .collect();
    let done = AtomicU64::new(0);
    let found = sweep(columns, &rules(unit), &configurations, 1, &done).expect("it runs");
    let ratio = |part: u64, whole: u64| part as f64 / whole as f64;
    let ratios = found.iter().map(|f| {
        let c = f.counts;
        (
            ratio(c.misses, c.requests),
            ratio(c.missed_weight, c.requested_weight),
        )
    });
    ratios.collect()
}

#[test]
fn stack_distances_match_simulation() {
    let trace = columns(&requests(60_000, 4000));
    for unit in [Unit::Objects, Unit::Bytes] {
        let footprint = match unit {
            Unit::Objects => trace.objects() as u64,
            Unit::Bytes => trace.footprint_bytes(),
        };
        // The sizes include some below the largest object, which are simulated.
        let capacities = spread(footprint, 0.0002, 30);
        let want = replayed(&trace, unit, "lru", &capacities);
        let done = AtomicU64::new(0);
        let curves = exact(
            &trace,
            &rules(unit),
            &policies(&["lru"]),
            &capacities,
            1,
            &done,
        );
        let curve = &curves.expect("it runs")[0];
        for (point, (misses, bytes)) in curve.points.iter().zip(want) {
            assert_eq!(point.miss_ratio, misses, "{unit:?} {}", point.capacity);
            assert_eq!((point.low, point.high), (misses, misses));
            match unit {
                Unit::Objects => assert_eq!(point.byte_miss_ratio, None),
                Unit::Bytes => assert_eq!(point.byte_miss_ratio, Some(bytes)),
            }
        }
    }
}

#[test]
fn the_warm_up_is_not_counted_by_either_method() {
    let trace = columns(&requests(30_000, 2000));
    let with_warm_up = Rules {
        warm_up: 10_000,
        ..rules(Unit::Objects)
    };
    let capacities = [10, 100, 1000];
    let configuration = |capacity| Configuration {
        policy: policies(&["lru"])[0].clone(),
        capacity,
    };
    let done = AtomicU64::new(0);
    let all = capacities.map(configuration);
    let found = sweep(&trace, &with_warm_up, &all, 1, &done).expect("it runs");
    let curves = exact(
        &trace,
        &with_warm_up,
        &policies(&["lru"]),
        &capacities,
        1,
        &done,
    );
    for (point, found) in curves.expect("it runs")[0].points.iter().zip(found) {
        let want = found.counts.misses as f64 / found.counts.requests as f64;
        assert_eq!(point.miss_ratio, want);
    }
}

fn estimated(
    requests: &[Request],
    unit: Unit,
    sampling: Sampling,
    names: &[&str],
    capacities: &[u64],
) -> Vec<Curve> {
    let mut sampler = Sampler::new("made", Interning::default(), sampling);
    for request in requests {
        sampler.push(request).expect("there is memory");
    }
    let sample = sampler.finish().expect("it has requests");
    let done = AtomicU64::new(0);
    let curves = sample.curves(&rules(unit), &policies(names), capacities, 1, &done);
    curves.expect("it runs")
}

#[test]
fn estimates_are_near_and_their_bounds_hold() {
    let requests = requests(600_000, 60_000);
    let whole = columns(&requests);
    let names = ["lru", "sieve", "s3fifo"];
    let (mut outside, mut trusted) = (0, 0);
    for (unit, footprint) in [
        (Unit::Objects, whole.objects() as u64),
        (Unit::Bytes, whole.footprint_bytes()),
    ] {
        let capacities = spread(footprint, 0.003, 8);
        for seed in 1..=3 {
            let sampling = Sampling {
                rate: 0.01,
                objects: 6000,
                seed,
            };
            let curves = estimated(&requests, unit, sampling, &names, &capacities);
            for (name, curve) in names.iter().zip(&curves) {
                assert!(!curve.is_exact);
                let want = replayed(&whole, unit, name, &capacities);
                for (point, (misses, bytes)) in curve.points.iter().zip(want) {
                    if !point.is_trusted {
                        continue;
                    }
                    trusted += 1;
                    outside += u32::from(!(point.low..=point.high).contains(&misses));
                    let far = (point.miss_ratio - misses).abs();
                    assert!(far < 0.03, "{name} {unit:?} {}: {far}", point.capacity);
                    if let Some(estimate) = point.byte_miss_ratio {
                        assert!((estimate - bytes).abs() < 0.04);
                    }
                }
            }
        }
    }
    assert!(trusted > 100);
    assert!(
        outside * 20 <= trusted,
        "{outside} of {trusted} points lie outside"
    );
}

#[test]
fn a_sample_of_all_is_exact() {
    let requests = requests(20_000, 1000);
    let trace = columns(&requests);
    let capacities = spread(trace.objects() as u64, 0.01, 6);
    let curves = estimated(
        &requests,
        Unit::Objects,
        Sampling::default(),
        &["lru", "belady"],
        &capacities,
    );
    for (name, curve) in ["lru", "belady"].iter().zip(&curves) {
        assert!(curve.is_exact);
        let want = replayed(&trace, Unit::Objects, name, &capacities);
        for (point, (misses, _)) in curve.points.iter().zip(want) {
            assert_eq!(point.miss_ratio, misses);
        }
    }
}

#[test]
fn a_sample_has_no_future() {
    let mut sampler = Sampler::new("made", Interning::default(), Sampling::default());
    for request in requests(100_000, 40_000) {
        sampler.push(&request).expect("there is memory");
    }
    let sample = sampler.finish().expect("it has requests");
    let done = AtomicU64::new(0);
    let result = sample.curves(
        &rules(Unit::Objects),
        &policies(&["belady"]),
        &[10],
        1,
        &done,
    );
    assert!(result.is_err());
}

#[test]
fn a_small_scaled_cache_is_not_trusted() {
    let requests = requests(400_000, 50_000);
    let sampling = Sampling {
        rate: 0.01,
        objects: 2000,
        seed: 1,
    };
    let curves = estimated(&requests, Unit::Objects, sampling, &["lru"], &[20, 20_000]);
    let trusted: Vec<bool> = curves[0].points.iter().map(|p| p.is_trusted).collect();
    assert_eq!(trusted, [false, true]);
}

#[test]
fn memory_for_the_sample_is_bounded() {
    let how = Interning {
        memory_limit: 1 << 20,
        ..Interning::default()
    };
    let mut sampler = Sampler::new("made", how, Sampling::default());
    let all = requests(100_000, 5000);
    let refused = all.iter().find_map(|request| sampler.push(request).err());
    assert!(
        refused
            .expect("it is too much")
            .to_string()
            .contains("memory")
    );
}

#[test]
fn sizes_spread_evenly() {
    assert_eq!(spread(100_000, 0.001, 4), [100, 1000, 10_000, 100_000]);
    assert_eq!(spread(1, 0.001, 20), [1]);
    assert_eq!(spread(0, 0.5, 2), [1]);
}

fn contestants(names: &[&str]) -> Vec<Contestant> {
    let named = names.iter().map(|name| name.parse());
    named
        .collect::<Result<_, _>>()
        .expect("names of contestants")
}

#[test]
fn the_engine_has_a_curve_among_policies() {
    let trace = columns(&requests(60_000, 4000));
    let names = ["lru", "segcache:segment=4kb", "fifo", "segcache"];
    let sizes = [1000, 200_000, 400_000, 2_000_000];
    let done = AtomicU64::new(0);
    let curves = exact(
        &trace,
        &rules(Unit::Bytes),
        &contestants(&names),
        &sizes,
        2,
        &done,
    );
    let curves = curves.expect("it runs");
    assert_eq!(curves.len(), 4);
    for (name, curve) in names.iter().zip(&curves) {
        let ratios: Vec<f64> = curve.points.iter().map(|point| point.miss_ratio).collect();
        assert!(ratios.is_sorted_by(|a, b| a >= b), "{name}: {ratios:?}");
        match name.parse().expect("a name") {
            Contestant::Policy(_) => {
                assert_eq!(
                    ratios,
                    replayed(&trace, Unit::Bytes, name, &sizes)
                        .iter()
                        .map(|r| r.0)
                        .collect::<Vec<_>>()
                );
            }
            // A thousand bytes are too small for the engine, so nothing is held.
            Contestant::Segments(spec) => {
                assert_eq!(ratios[0], 1.0);
                let found =
                    segments::sweep(&trace, &rules(Unit::Bytes), &[(spec, sizes[1])], 1, &done);
                let counts = found.expect("it fits")[0].counts;
                assert_eq!(ratios[1], counts.misses as f64 / counts.requests as f64);
            }
        }
    }
    let objects = exact(
        &trace,
        &rules(Unit::Objects),
        &contestants(&names),
        &sizes,
        1,
        &done,
    );
    assert!(matches!(objects, Err(Error::Segments { .. })));
}

#[test]
fn a_sample_estimates_the_curve_of_the_engine() {
    let requests = requests(600_000, 60_000);
    let whole = columns(&requests);
    let footprint = whole.footprint_bytes();
    let sizes = [footprint / 2000, footprint / 4, footprint / 2, footprint];
    let names = contestants(&["segcache"]);
    let done = AtomicU64::new(0);
    let result = exact(&whole, &rules(Unit::Bytes), &names, &sizes, 2, &done).expect("it runs");
    let sampling = Sampling {
        rate: 0.1,
        ..Sampling::default()
    };
    let mut sampler = Sampler::new("made", Interning::default(), sampling);
    for request in &requests {
        sampler.push(request).expect("there is memory");
    }
    let sample = sampler.finish().expect("it has requests");
    let curves = sample.curves(&rules(Unit::Bytes), &names, &sizes, 2, &done);
    let curve = &curves.expect("it runs")[0];
    // The sample is too small for the smallest size, which is marked as not trusted.
    assert!(!curve.points[0].is_trusted);
    assert_eq!(
        (curve.points[0].miss_ratio, curve.points[0].high),
        (1.0, 1.0)
    );
    for (point, result) in curve.points.iter().zip(&result[0].points).skip(1) {
        assert!(point.is_trusted, "{point:?}");
        let off = (point.miss_ratio - result.miss_ratio).abs();
        // Segments of the sample hold fifteen objects where those of the whole trace hold sixty.
        // With fewer objects eviction chooses less precisely, and the sample overestimates a
        // little.
        assert!(off < 0.04, "{point:?} of {result:?}");
    }
}

#[test]
fn the_overhead_of_entries_counts_against_the_size() {
    let trace = columns(&requests(60_000, 4000));
    let footprint = trace.footprint_bytes();
    let objects = trace.objects() as u64;
    let charged = Rules {
        overhead: 56,
        ..rules(Unit::Bytes)
    };
    let done = AtomicU64::new(0);
    let curve = |rules: &Rules, sizes: &[u64]| {
        let curves = exact(&trace, rules, &policies(&["lru"]), sizes, 1, &done);
        curves.expect("it runs")[0].points.clone()
    };
    let free = curve(&rules(Unit::Bytes), &[footprint / 4, footprint]);
    let held = curve(
        &charged,
        &[footprint / 4, footprint, footprint + 56 * objects],
    );
    assert!(held[0].miss_ratio > free[0].miss_ratio);
    assert!(held[1].miss_ratio > free[1].miss_ratio);
    // With enough space for the overhead, only first requests miss, and the bytes missed are those
    // of the objects.
    assert_eq!(held[2].miss_ratio, free[1].miss_ratio);
    assert_eq!(held[2].byte_miss_ratio, free[1].byte_miss_ratio);
}
