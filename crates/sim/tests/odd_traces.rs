//! Traces that lack data or are irregular: missing results are left out and listed, and the others
//! remain.

use serde_json::Value;
use sim::Spec;
use sim::analyze::{Analysis, Analyzer};
use sim::curve::{Curve, Sampler, Sampling, spread};
use sim::{Columns, Configuration, Interner, Interning, Rules, Unit, sweep};
use std::sync::atomic::AtomicU64;
use trace::prepared::Preparer;
use trace::{Op, Random, Request, TtlMix, Zipf};

const YEAR_MS: u64 = 365 * 86_400_000;

fn analyze(requests: &[Request]) -> Analysis {
    let mut analyzer = Analyzer::new(1000);
    requests.iter().for_each(|request| analyzer.push(request));
    analyzer.finish().expect("it has requests")
}

/// Curves of a few policies by objects and by bytes, from a sample of at most 300 objects.
fn curves(requests: &[Request]) -> Vec<Curve> {
    let sampling = Sampling {
        objects: 300,
        ..Sampling::default()
    };
    let mut sampler = Sampler::new("odd", Interning::default(), sampling);
    for request in requests {
        sampler.push(request).expect("there is memory");
    }
    let sample = sampler.finish().expect("it has requests");
    let policies = ["lru", "sieve", "s3fifo"].map(|name| name.parse::<Spec>());
    let policies = policies.map(|spec| spec.expect("a policy's name"));
    let mut curves = Vec::new();
    for unit in [Unit::Objects, Unit::Bytes] {
        let rules = Rules {
            unit,
            ..Rules::default()
        };
        let sizes = spread(sample.footprint(unit), 0.01, 5);
        let done = AtomicU64::new(0);
        curves.extend(
            sample
                .curves(&rules, &policies, &sizes, 1, &done)
                .expect("it runs"),
        );
    }
    curves
}

/// Checks that all values are numbers and ratios are from 0 to 1.
fn check(requests: &[Request]) -> (Analysis, Vec<Curve>) {
    let result = analyze(requests);
    assert_eq!(result.requests, requests.len() as u64);
    let text = result.to_text();
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    let page = result.to_page("odd").to_html();
    assert!(page.ends_with("</html>\n") && !page.contains("NaN"));
    for window in &result.over_time.windows {
        let state = window.state;
        let all = [state.total_objects, state.live_objects, state.live_bytes];
        assert!(all.iter().all(|v| v.is_finite() && *v >= 0.0), "{state:?}");
    }
    let curves = curves(requests);
    for point in curves.iter().flat_map(|curve| &curve.points) {
        assert!(point.capacity > 0);
        for ratio in [point.low, point.miss_ratio, point.high] {
            assert!((0.0..=1.0).contains(&ratio), "{point:?}");
        }
        assert!(point.low <= point.miss_ratio && point.miss_ratio <= point.high);
    }
    (result, curves)
}

/// A workload with all fields that a trace can have.
fn full() -> Vec<Request> {
    let zipf = Zipf::new(3000, 0.9, 2).take(20_000).enumerate();
    let request = |(n, key): (usize, u64)| {
        let value_size = 50 + Random::of_key(1, key).below(400) as u32;
        Request {
            time_ms: 5_000 + n as u64 * 50,
            key,
            ttl_ms: 30_000 * (1 + key % 2),
            size: value_size + 16,
            key_size: 16,
            value_size,
            op: if n % 5 == 0 { Op::Set } else { Op::Get },
            ..Request::default()
        }
    };
    zipf.map(request).collect()
}

fn without(change: impl Fn(&mut Request)) -> Vec<Request> {
    let mut requests = full();
    requests.iter_mut().for_each(change);
    requests
}

#[test]
fn missing_data_is_listed_and_other_results_remain() {
    let whole = serde_json::to_value(check(&full()).0).expect("numbers and texts");
    assert_eq!(whole["missing"], Value::Array(Vec::new()));
    type Change = fn(&mut Request);
    let cases: [(&str, Change, &[&str]); 4] = [
        ("time", |r| r.time_ms = 0, &["/span_ms", "/reuse/age_ms"]),
        (
            "sizes",
            |r| (r.size, r.key_size, r.value_size) = (1, 0, 0),
            &["/sizes", "/relations/size_popularity"],
        ),
        ("TTLs", |r| r.ttl_ms = 0, &["/ttls", "/relations/size_ttl"]),
        ("operations", |r| r.op = Op::Get, &["/operations"]),
    ];
    for (name, change, left_out) in cases {
        let (result, _) = check(&without(change));
        let [missing] = &result.missing[..] else {
            panic!("{name}: {:?}", result.missing);
        };
        assert!(missing.starts_with(name), "{missing}");
        assert!(result.to_text().contains(missing));
        let result = serde_json::to_value(result).expect("numbers and texts");
        for pointer in left_out {
            assert_eq!(
                result.pointer(pointer),
                Some(&Value::Null),
                "{name}: {pointer}"
            );
            assert_ne!(whole.pointer(pointer), Some(&Value::Null), "{pointer}");
        }
        for kept in ["/requests", "/objects", "/popularity", "/one_hit_wonders"] {
            assert_eq!(result.pointer(kept), whole.pointer(kept), "{name}: {kept}");
        }
    }
    let bare = without(|r| {
        *r = Request {
            key: r.key,
            ..Request::default()
        }
    });
    assert_eq!(check(&bare).0.missing.len(), 4);
}

#[test]
fn a_trace_of_one_object_has_results() {
    for count in [1, 2, 1000] {
        let (result, curves) = check(&vec![Request::new(7, 1, 100); count]);
        assert_eq!((result.objects, result.footprint_bytes), (1.0, 100.0));
        for curve in &curves {
            let last = curve.points[curve.points.len() - 1];
            assert_eq!(last.miss_ratio, 1.0 / count as f64);
        }
    }
}

#[test]
fn a_trace_of_distinct_objects_has_results() {
    let requests: Vec<Request> = (0..20_000).map(|n| Request::new(n, n, 10)).collect();
    let (result, curves) = check(&requests);
    assert_eq!(result.one_hit_wonders.whole, 1.0);
    assert!(result.reuse.gap_requests.is_none());
    assert!((result.objects / 20_000.0 - 1.0).abs() < 0.2);
    for point in curves.iter().flat_map(|curve| &curve.points) {
        assert_eq!((point.miss_ratio, point.low), (1.0, 1.0));
    }
}

#[test]
fn jumps_of_years_in_both_directions_are_handled() {
    let mut requests = full();
    for (n, request) in requests.iter_mut().enumerate() {
        // Eighty years ahead, back again, and on to the largest timestamp.
        match n {
            8_000..9_000 => request.time_ms += 80 * YEAR_MS,
            19_999 => request.time_ms = u64::MAX,
            _ => {}
        }
    }
    let (result, _) = check(&requests);
    assert_eq!(
        (result.time_faults.jumps, result.time_faults.backwards),
        (2, 10_999)
    );
    assert!(result.over_time.windows.len() <= 512);
    assert!(result.time_faults.skipped_ms > 80 * YEAR_MS);
}

#[test]
fn sizes_of_zero_and_four_gigabytes_are_handled() {
    let mut requests = full();
    for request in &mut requests {
        request.size = match request.key % 3 {
            0 => 0,
            1 => u32::MAX,
            _ => request.size,
        };
    }
    let (result, curves) = check(&requests);
    let sizes = result
        .sizes
        .expect("it has sizes")
        .by_object
        .expect("it has objects");
    assert_eq!((sizes.min, sizes.max), (0, u64::from(u32::MAX)));
    assert!(result.footprint_bytes > 1e12);
    let by_bytes = &curves[curves.len() - 1];
    let whole = by_bytes.points[by_bytes.points.len() - 1];
    assert!(whole.capacity > 1 << 40 && whole.byte_miss_ratio.is_some_and(|r| r < 0.5));
    let nothing = without(|r| r.size = 0);
    assert_eq!(check(&nothing).0.footprint_bytes, 0.0);
}

#[test]
fn trace_names_are_shown_as_text() {
    let result = analyze(&full());
    let name = "\"'><script>alert(1)</script>\n&amp;\u{0}\u{FFFD}.csv";
    let page = result.to_page(name).to_html();
    assert_eq!(page.matches("<script").count(), 1);
    assert!(page.contains(
        "&quot;&#39;&gt;&lt;script&gt;alert(1)&lt;/script&gt;\n&amp;amp;\u{FFFD}\u{FFFD}.csv"
    ));
    assert!(!page.contains('\0'));
}

/// A prepared trace replays like the trace it was made from, regardless of what is ignored, drawn
/// or sampled.
#[test]
fn a_prepared_trace_replays_as_its_trace() {
    let configuration = Configuration {
        policy: "lru".parse::<Spec>().expect("a policy's name"),
        capacity: 20_000,
    };
    let mix = TtlMix::parse("20s:0.5 1h:0.5").expect("a mix");
    let hows = [
        Interning::default(),
        Interning {
            ignores_ttls: true,
            ..Interning::default()
        },
        Interning {
            ttl_mix: Some((mix, 3)),
            ..Interning::default()
        },
        Interning {
            sample: Some(trace::Sample::of_share(0.5, 7)),
            ..Interning::default()
        },
    ];
    let mut preparer = Preparer::new(true);
    for request in full() {
        preparer.push(&request).expect("it fits");
    }
    let prepared = preparer.finish();
    for how in hows {
        let from_trace = Interner::all("made", how.clone(), full().into_iter().map(Ok));
        let from_prepared = Columns::of_prepared("made", how, prepared.clone());
        let results = [from_trace, from_prepared].map(|columns| {
            let columns = columns.expect("it fits");
            let rules = Rules {
                unit: Unit::Bytes,
                follows_sizes: true,
                ..Rules::default()
            };
            let configurations = std::slice::from_ref(&configuration);
            let found = sweep(&columns, &rules, configurations, 1, &AtomicU64::new(0));
            (columns.share(), found.expect("it fits")[0].counts)
        });
        assert_eq!(results[0], results[1]);
        assert!(results[0].1.misses > 1000);
    }
}

fn misses_of(policy: &str, requests: &[Request]) -> u64 {
    let all = requests.iter().copied().map(Ok::<_, trace::Error>);
    let columns = Interner::all("made", Interning::default(), all).expect("it fits");
    let configuration = Configuration {
        policy: policy.parse::<Spec>().expect("a name"),
        capacity: 20,
    };
    let rules = Rules::default();
    let found = sweep(&columns, &rules, &[configuration], 1, &AtomicU64::new(0));
    found.expect("it runs")[0].counts.misses
}

#[test]
fn only_writes_renew_an_entry_under_lrm() {
    // Key 0 is requested every other time, and new keys come between.
    let polled = |op: Op| -> Vec<Request> {
        let request = |n: u64| match n % 2 {
            0 => Request {
                op,
                ..Request::new(n, 0, 1)
            },
            _ => Request::new(n, n, 1),
        };
        (0..400).map(request).collect()
    };
    let (read, written) = (polled(Op::Get), polled(Op::Set));
    assert_eq!(misses_of("lru", &read), 201);
    // Without writes it is FIFO: key 0 leaves each time that 20 keys have come after it.
    assert_eq!(misses_of("lrm", &read), misses_of("fifo", &read));
    assert!(misses_of("lrm", &read) > 205);
    assert_eq!(misses_of("lrm", &written), 201);
    assert!(misses_of("fifo", &written) > 205);
}

/// Misses of LRU in a cache of this size, in the trace's own unit, with sizes that follow the
/// trace.
fn misses_following_sizes(requests: &[Request], capacity: u64, largest_share: f64) -> (u64, u64) {
    let all = requests.iter().copied().map(Ok::<_, trace::Error>);
    let columns = Interner::all("made", Interning::default(), all).expect("it fits");
    let configuration = Configuration {
        policy: "lru".parse::<Spec>().expect("a name"),
        capacity,
    };
    let rules = Rules {
        unit: match columns.has_sizes() {
            true => Unit::Bytes,
            false => Unit::Objects,
        },
        follows_sizes: true,
        largest_share,
        ..Rules::default()
    };
    let found = sweep(&columns, &rules, &[configuration], 1, &AtomicU64::new(0));
    let misses = found.expect("it runs")[0].counts.misses;
    (misses, columns.footprint(rules.unit))
}

/// Regression: the trace counted as one without sizes, so that objects were counted.
#[test]
fn sizes_may_be_stated_first_by_the_writes_after_misses() {
    let size_of = |key: u64| 100 + (key % 100) as u32;
    let of = |miss_size: u32| {
        let mut known = std::collections::HashSet::new();
        let mut requests = Vec::new();
        for key in Zipf::new(300, 0.8, 1).take(10_000) {
            let is_first = known.insert(key);
            let size = if is_first { miss_size } else { size_of(key) };
            requests.push(Request::new(0, key, size));
            if is_first {
                requests.push(Request {
                    op: Op::Set,
                    ..Request::new(0, key, size_of(key))
                });
            }
        }
        let bytes: u64 = known.iter().map(|&key| u64::from(size_of(key))).sum();
        (requests, bytes)
    };
    let (with_size_0, bytes) = of(0);
    let (misses, footprint) = misses_following_sizes(&with_size_0, 20_000, 1.0);
    assert_eq!(footprint, bytes);
    // A size of 2 was always a size.
    let (others, _) = misses_following_sizes(&of(2).0, 20_000, 1.0);
    assert!(
        misses.abs_diff(others) <= others / 100,
        "{misses} and {others}"
    );
    assert!(misses > 1000);
}

/// Regression: only a new entry was compared with the maximum.
#[test]
fn an_entry_that_grows_beyond_the_largest_object_leaves() {
    let requests: Vec<Request> = [10, 60, 60, 10, 50, 50]
        .map(|size| Request::new(0, 1, size))
        .into();
    // At 60 it leaves, and is then refused.
    assert_eq!(misses_following_sizes(&requests, 100, 0.5).0, 3);
    assert_eq!(misses_following_sizes(&requests, 100, 1.0).0, 1);
}
