//! Replays through the segment engine: its counts, and their repeatability.

use sim::segments::{SegmentsSpec, sweep};
use sim::{Columns, Error, Interner, Interning, ReplayResult, Rules, Unit};
use std::sync::atomic::AtomicU64;
use trace::Request;

fn requests(count: u64, objects: u64, ttl_ms: u64) -> Vec<Request> {
    (0..count)
        .map(|number| {
            let draw = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
            let key = (draw % objects) * (draw % 7) % objects;
            Request {
                time_ms: number * 10,
                key,
                size: 20 + (key % 90) as u32,
                ttl_ms,
                ..Request::default()
            }
        })
        .collect()
}

fn columns(requests: &[Request]) -> Columns {
    let mut interner = Interner::new("made", Interning::default());
    for request in requests {
        interner.push(request).expect("it fits");
    }
    interner.finish().expect("it is not empty")
}

fn replay(columns: &Columns, text: &str, capacity: u64) -> ReplayResult {
    let rules = Rules {
        unit: Unit::Bytes,
        ..Rules::default()
    };
    let spec: SegmentsSpec = text.parse().expect("well formed");
    let found = sweep(columns, &rules, &[(spec, capacity)], 1, &AtomicU64::new(0));
    found.expect("large enough").remove(0)
}

#[test]
fn only_first_requests_miss_if_everything_fits() {
    let columns = columns(&requests(60_000, 5_000, 0));
    let found = replay(&columns, "segcache", 4 << 20);
    assert_eq!(found.counts.misses, columns.objects() as u64);
    assert_eq!(found.counts.requests, 60_000);
    assert_eq!(found.counts.evictions, 0);
    // Overhead: the engine's table, and unused parts of segments and lines.
    assert!(found.metadata_bytes > 5 * columns.objects() as u64);
    assert!(found.metadata_bytes < 4 << 20);
}

#[test]
fn each_expiration_causes_a_miss() {
    let columns = columns(&requests(60_000, 300, 20_000));
    let found = replay(&columns, "segcache", 4 << 20);
    assert!(found.counts.expirations > 5_000, "{:?}", found.counts);
    // 600 s with TTLs of at most 16 s; all 300 objects are requested again soon.
    assert!(found.counts.misses >= 30 * 200, "{:?}", found.counts);
    assert_eq!(found.counts.evictions, 0);
}

#[test]
fn replays_with_every_eviction_are_repeatable() {
    let columns = columns(&requests(80_000, 20_000, 0));
    for eviction in [
        "rent", "merge", "fifo", "random", "cte", "util", "s3fifo", "sieve", "gl-cache", "none",
    ] {
        let text = format!("segcache:eviction={eviction}:segment=8kb");
        let one = replay(&columns, &text, 600_000);
        let two = replay(&columns, &text, 600_000);
        assert_eq!(one.counts, two.counts, "{eviction}");
        let is_none = eviction == "none";
        assert_eq!(one.counts.evictions == 0, is_none, "{eviction}");
        assert_eq!(one.counts.refusals > 0, is_none, "{eviction}");
        assert_eq!(
            one.counts.kept > 0,
            ["rent", "merge", "gl-cache"].contains(&eviction)
        );
    }
}

#[test]
fn learning_is_reported_and_repeatable() {
    // Some objects are requested repeatedly, others once, in alternating runs.
    let mut requests = requests(300_000, 8_000, 0);
    for (number, request) in requests.iter_mut().enumerate() {
        if number / 500 % 2 == 0 {
            request.key = 1_000_000 + number as u64;
        }
    }
    let columns = columns(&requests);
    let text = "segcache:eviction=gl-cache:segment=4kb";
    let one = replay(&columns, text, 600_000);
    let learned = one.learned.as_ref().expect("it learns");
    assert!(learned.is_trained(), "{learned:?}");
    assert!(learned.learning_stats.groups_evicted > 100, "{learned:?}");
    assert!(learned.correlation() > Some(0.2), "{learned:?}");
    let two = replay(&columns, text, 600_000);
    assert_eq!(one.counts, two.counts);
    let again = two.learned.expect("it learns");
    assert_eq!(learned.learning_stats, again.learning_stats);
    assert_eq!(learned.held_out, again.held_out);
    assert!(replay(&columns, "segcache", 600_000).learned.is_none());
}

/// As in the paper's ablation study: 56 bytes of metadata instead of 5 cost misses.
#[test]
fn metadata_costs_misses() {
    let columns = columns(&requests(80_000, 20_000, 0));
    let five = replay(&columns, "segcache:segment=8kb", 600_000);
    let more = replay(&columns, "segcache:segment=8kb:metadata=56", 600_000);
    assert!(five.counts.misses < more.counts.misses);
}

#[test]
fn unsupported_configurations_are_refused() {
    let columns = columns(&requests(100, 10, 0));
    let spec: SegmentsSpec = "segcache".parse().expect("well formed");
    let done = AtomicU64::new(0);
    let objects = sweep(&columns, &Rules::default(), &[(spec, 1 << 20)], 1, &done);
    assert!(matches!(objects, Err(Error::Segments { .. })));
    let rules = Rules {
        unit: Unit::Bytes,
        ..Rules::default()
    };
    let small = sweep(&columns, &rules, &[(spec, 1_000)], 1, &done);
    assert!(matches!(small, Err(Error::Segments { .. })));
    for text in [
        "segcache:x=1",
        "segcache:merged",
        "segcache:segment=10%",
        "segcache:merged=a",
    ] {
        assert!(text.parse::<SegmentsSpec>().is_err(), "{text}");
    }
}

#[test]
fn without_proactive_expiry_expired_objects_miss_and_take_space() {
    // One of every two objects has a short TTL.
    let mut requests = requests(120_000, 20_000, 0);
    for request in &mut requests {
        request.ttl_ms = if request.key.is_multiple_of(2) {
            10_000
        } else {
            0
        };
    }
    let columns = columns(&requests);
    let misses = |text: &str, capacity| replay(&columns, text, capacity).counts.misses;
    let (roomy, tight) = (8 << 20, 600_000);
    // With enough space only TTLs decide; they are rounded down, so that objects expire a little
    // earlier.
    let proactive = misses("segcache:segment=8kb", roomy);
    let lazy = misses("segcache:segment=8kb:expiry=lazy", roomy);
    assert!(
        lazy <= proactive && lazy * 10 > proactive * 9,
        "{lazy} of {proactive}"
    );
    assert!(lazy > columns.objects() as u64);
    // Without enough space expired objects displace unexpired ones.
    let proactive = misses("segcache:segment=8kb", tight);
    let lazy = misses("segcache:segment=8kb:expiry=lazy", tight);
    assert!(lazy > proactive, "{lazy} of {proactive}");
    assert!("segcache:expiry=never".parse::<SegmentsSpec>().is_err());
}

#[test]
fn the_engine_also_ignores_ttls_if_the_rules_do() {
    let columns = columns(&requests(30_000, 300, 2_000));
    let rules = Rules {
        unit: Unit::Bytes,
        ignores_ttls: true,
        ..Rules::default()
    };
    let engine = ("segcache".parse().expect("its name"), 4 << 20);
    let found = sweep(&columns, &rules, &[engine], 1, &AtomicU64::new(0)).expect("it fits");
    assert_eq!(found[0].counts.misses, columns.objects() as u64);
    assert_eq!(found[0].counts.expirations, 0);
}
