//! The analysis of traces whose properties are known.

use sim::analyze::{Analysis, Analyzer};
use trace::{Op, Random, Request, Zipf};

fn analyze(objects: usize, requests: impl Iterator<Item = Request>) -> Option<Analysis> {
    let mut analyzer = Analyzer::new(objects);
    requests.for_each(|request| analyzer.push(&request));
    analyzer.finish()
}

/// A key-value workload with all fields; sizes and TTLs follow from the key.
fn full(count: usize, keys: u64) -> impl Iterator<Item = Request> {
    let mut random = Random::new(5);
    Zipf::new(keys, 1.0, 11)
        .take(count)
        .enumerate()
        .map(move |(n, key)| {
            let value_size = 10 + (Random::of_key(1, key).below(1000) as u32);
            Request {
                time_ms: 1_000_000 + n as u64 * 10,
                key,
                ttl_ms: if key % 2 == 0 { 60_000 } else { 600_000 },
                size: value_size + 20,
                key_size: 20,
                value_size,
                op: if random.below(4) == 0 {
                    Op::Set
                } else {
                    Op::Get
                },
                ..Request::default()
            }
        })
}

#[test]
fn a_trace_without_requests_has_no_analysis() {
    assert!(analyze(10, std::iter::empty()).is_none());
}

#[test]
fn data_missing_from_a_trace_is_listed_and_left_out() {
    let keys = (0..5000u64).map(|n| Request {
        key: n % 100,
        ..Request::default()
    });
    let analysis = analyze(1000, keys).expect("it has requests");
    assert_eq!(
        (analysis.requests, analysis.objects, analysis.span_ms),
        (5000, 100.0, None)
    );
    assert!(analysis.operations.is_none() && analysis.ttls.is_none() && analysis.sizes.is_none());
    assert!(analysis.reuse.age_ms.is_none() && analysis.over_time.unit == "requests");
    assert_eq!(analysis.missing.len(), 4);
    let gaps = analysis.reuse.gap_requests.expect("objects come again");
    assert_eq!((gaps.min, gaps.max, gaps.count), (100, 100, 4900));
    // The same hundred keys in the same order, repeated.
    assert!(analysis.patterns.successor_share > 0.999);
    assert!(
        analysis.patterns.verdict.contains("loops"),
        "{}",
        analysis.patterns.verdict
    );
    assert_eq!(analysis.one_hit_wonders.whole, 0.0);
}

#[test]
fn every_field_of_a_full_trace_is_used() {
    let analysis = analyze(100_000, full(200_000, 20_000)).expect("it has requests");
    assert!(analysis.missing.is_empty(), "{:?}", analysis.missing);
    assert_eq!(analysis.span_ms, Some(199_999 * 10));
    let operations = analysis.operations.expect("there are writes");
    assert!((operations.write_ratio - 0.25).abs() < 0.01 && !operations.is_write_heavy);
    let sizes = analysis.sizes.expect("there are sizes");
    assert_eq!(sizes.keys.expect("the trace has it").mean, 20.0);
    assert!((sizes.value_to_key.expect("the trace has it") - 510.0 / 20.0).abs() < 5.0);
    assert_eq!(sizes.changing_share, 0.0);
    let ttls = analysis.ttls.expect("there are TTLs");
    assert_eq!((ttls.distinct, ttls.range, ttls.with_ttl), (2, 10.0, 1.0));
    let last = analysis
        .over_time
        .windows
        .last()
        .expect("there are windows")
        .state;
    assert!(last.live_objects < last.total_objects * 0.9);
    let fit = analysis.popularity.fit.expect("many ranks");
    assert!((fit.alpha - 1.0).abs() < 0.1, "{}", fit.alpha);
    assert!(
        analysis
            .relations
            .size_popularity
            .expect("the trace has it")
            .pearson
            .abs()
            < 0.05
    );
}

#[test]
fn the_working_set_matches_a_direct_count() {
    let requests: Vec<Request> = full(100_000, 20_000).collect();
    let mut deadlines = std::collections::HashMap::new();
    let mut seen = std::collections::HashMap::new();
    for request in &requests {
        let deadline = deadlines.entry(request.key).or_insert(0);
        if !request.op.is_read() || request.time_ms > *deadline {
            *deadline = request.time_ms + request.ttl_ms;
        }
        seen.insert(request.key, u64::from(request.size));
    }
    let end = requests[requests.len() - 1].time_ms;
    let is_live = |key: &&u64| deadlines[*key] >= end;
    let live = seen.keys().filter(is_live).count() as f64;
    let live_bytes: u64 = seen
        .iter()
        .filter(|(k, _)| is_live(k))
        .map(|(_, b)| b)
        .sum();
    let analysis = analyze(100_000, requests.into_iter()).expect("it has requests");
    let state = analysis
        .over_time
        .windows
        .last()
        .expect("there are windows")
        .state;
    assert_eq!(state.total_objects, seen.len() as f64);
    assert_eq!(state.total_bytes, seen.values().sum::<u64>() as f64);
    assert!(
        (state.live_objects / live - 1.0).abs() < 0.01,
        "{} {live}",
        state.live_objects
    );
    assert!((state.live_bytes / live_bytes as f64 - 1.0).abs() < 0.01);
}

#[test]
fn a_sample_gives_nearly_the_results_of_the_whole_trace() {
    let whole = analyze(100_000, full(300_000, 60_000)).expect("it has requests");
    let part = analyze(4000, full(300_000, 60_000)).expect("it has requests");
    assert_eq!(whole.sampling.one_in, 1);
    assert!(part.sampling.one_in >= 8 && part.sampling.followed <= 4000);
    let error = 5.0 * part.sampling.error;
    assert!((part.objects / whole.objects - 1.0).abs() < error);
    assert!((part.footprint_bytes / whole.footprint_bytes - 1.0).abs() < 2.0 * error);
    assert!((part.one_hit_wonders.whole - whole.one_hit_wonders.whole).abs() < 0.05);
    let alpha = |analysis: &Analysis| analysis.popularity.fit.expect("many ranks").alpha;
    assert!(
        (alpha(&part) - alpha(&whole)).abs() < 0.15,
        "{} {}",
        alpha(&part),
        alpha(&whole)
    );
    // The most popular objects are counted whether or not they are in the sample.
    assert_eq!(part.popularity.top[0].key, whole.popularity.top[0].key);
    let exact = whole.popularity.top[0].requests_min;
    let row = part.popularity.top[0];
    assert!((row.requests_min..=row.requests_max).contains(&exact));
    let unread = |analysis: &Analysis| analysis.ttls.as_ref().expect("there are TTLs").unread_share;
    assert!((unread(&part) - unread(&whole)).abs() < 0.05);
}

#[test]
fn odd_traces_have_results() {
    let one = std::iter::once(Request::new(7, 1, 0));
    let analysis = analyze(10, one).expect("it has a request");
    assert_eq!(
        (analysis.objects, analysis.popularity.mean_requests),
        (1.0, 1.0)
    );
    assert_eq!(analysis.one_hit_wonders.whole, 1.0);

    let years = 50 * 365 * 86_400_000u64;
    let jumps =
        (0..1000u64).map(|n| Request::new(if n == 500 { years } else { n }, n % 7, u32::MAX));
    let analysis = analyze(10, jumps).expect("it has requests");
    assert_eq!(
        (analysis.time_faults.jumps, analysis.time_faults.backwards),
        (1, 499)
    );
    assert_eq!(analysis.footprint_bytes, 7.0 * f64::from(u32::MAX));

    let far = [0, u64::MAX, 5].map(|t| Request {
        ttl_ms: u64::MAX,
        ..Request::new(t, 1, 1)
    });
    let analysis = analyze(10, far.into_iter()).expect("it has requests");
    assert_eq!(analysis.requests, 3);

    let distinct = (0..50_000u64).map(|n| Request::new(n, n * 3, 5));
    let analysis = analyze(1000, distinct).expect("it has requests");
    assert_eq!(analysis.one_hit_wonders.whole, 1.0);
    assert!(analysis.reuse.gap_requests.is_none());

    let deleted = (0..100u64).map(|n| Request {
        op: Op::Delete,
        ..Request::new(n, n, 0)
    });
    let analysis = analyze(10, deleted).expect("it has requests");
    assert_eq!(analysis.operations.expect("deletes").write_ratio, 0.0);
}

#[test]
fn ten_million_distinct_ttls_take_bounded_memory() {
    let requests = (0..300_000u64).map(|n| Request {
        op: Op::Set,
        ttl_ms: 1 + n * 977,
        ..Request::new(n, n % 5000, 5)
    });
    let analysis = analyze(10_000, requests).expect("it has requests");
    let ttls = analysis.ttls.expect("there are TTLs");
    assert_eq!(ttls.distinct, 1 << 16);
    assert_eq!(ttls.common.len(), 20);
}

#[test]
fn the_result_is_json() {
    let analysis = analyze(100_000, full(20_000, 2000)).expect("it has requests");
    let json = serde_json::to_value(&analysis).expect("plain numbers and texts");
    assert_eq!(json["requests"], 20_000);
    assert!(json["popularity"]["fit"]["alpha"].is_f64());
}
