//! Advice on generated traces, compared with full simulation, and on irregular traces.

use sim::Spec;
use sim::advise::{Advice, Collector, Constraints, Inputs, Statement, advise, refine};
use sim::curve::Sampling;
use sim::{Columns, Configuration, Contestant, Error, Interner, Interning, Rules, Unit, sweep};
use std::sync::atomic::AtomicU64;
use trace::{Op, Random, Request, Zipf};

fn policies() -> Vec<(String, Spec)> {
    let names = ["lru", "clock", "sieve", "s3fifo"];
    let named = names.map(|name| (name.to_owned(), name.parse().expect("a policy's name")));
    named.into()
}

fn gathered(requests: &[Request], keeps_whole: bool, objects: usize) -> Result<Inputs, Error> {
    let sampling = Sampling {
        objects,
        ..Sampling::default()
    };
    let mut gatherer = Collector::new("made", Interning::default(), sampling, keeps_whole, None);
    for request in requests {
        gatherer.push(request)?;
    }
    gatherer.finish()
}

fn asked(inputs: &Inputs, unit: Unit, question: Constraints) -> Result<Advice, Error> {
    let rules = Rules {
        unit,
        ..Rules::default()
    };
    let done = AtomicU64::new(0);
    advise(inputs, &rules, &policies(), question, 1, &done)
}

fn advised(requests: &[Request], unit: Unit, question: Constraints) -> Advice {
    let inputs = gathered(requests, true, 8192).expect("there is memory");
    asked(&inputs, unit, question).expect("it runs")
}

/// Zipf-distributed reads with scans of new keys between them; sizes follow from the key.
fn workload(count: usize, keys: u64) -> Vec<Request> {
    let request = |(n, key): (usize, u64)| {
        let key = if n % 7 == 0 { keys + n as u64 } else { key };
        let size = 10 + Random::of_key(9, key).below(500) as u32;
        Request::new(n as u64 * 10, key, size)
    };
    let zipf = Zipf::new(keys, 0.9, 3).take(count);
    zipf.enumerate().map(request).collect()
}

fn simulated(requests: &[Request], unit: Unit, advice: &Advice) -> f64 {
    let all = requests.iter().copied().map(Ok);
    let columns: Columns = Interner::all("made", Interning::default(), all).expect("it fits");
    let found = &advice.recommendation;
    let configuration = Configuration {
        policy: found.policy.parse().expect("a policy of the list"),
        capacity: found.cache_size,
    };
    let rules = Rules {
        unit,
        ..Rules::default()
    };
    let counts = sweep(&columns, &rules, &[configuration], 1, &AtomicU64::new(0));
    let counts = counts.expect("it runs")[0].counts;
    counts.misses as f64 / counts.requests as f64
}

fn statement<'a>(advice: &'a Advice, topic: &str) -> Option<&'a Statement> {
    advice.statements.iter().find(|s| s.topic == topic)
}

fn value(advice: &Advice, topic: &str, name: &str) -> f64 {
    let statement = statement(advice, topic).unwrap_or_else(|| panic!("nothing about {topic}"));
    let figure = statement.figures.iter().find(|figure| figure.name == name);
    figure
        .unwrap_or_else(|| panic!("{topic} has no {name}"))
        .value
}

const QUESTIONS: [Constraints; 3] = [
    Constraints {
        memory: Some(3000),
        target: None,
    },
    Constraints {
        memory: None,
        target: Some(0.5),
    },
    Constraints {
        memory: None,
        target: None,
    },
];

#[test]
fn the_recommended_miss_ratio_is_that_of_a_full_simulation() {
    let requests = workload(120_000, 20_000);
    for unit in [Unit::Objects, Unit::Bytes] {
        for question in QUESTIONS {
            let question = Constraints {
                memory: question.memory.map(|size| match unit {
                    Unit::Objects => size,
                    Unit::Bytes => size * 250,
                }),
                ..question
            };
            let advice = advised(&requests, unit, question);
            let found = &advice.recommendation;
            assert!(found.is_exact && found.estimate.is_some());
            let truth = simulated(&requests, unit, &advice);
            assert_eq!(found.ratio.miss_ratio, truth, "{unit:?} {question:?}");
            assert!(
                found.ratio.miss_ratio <= found.lru.miss_ratio,
                "{question:?}"
            );
            if let Some(target) = question.target {
                assert!(truth <= target);
                assert_eq!(found.reaches_target, Some(true));
            }
            if let Some(size) = question.memory {
                assert_eq!(found.cache_size, size);
            }
            let lru = found
                .lru_cache_size
                .expect("LRU gets there with everything");
            assert!(lru >= found.cache_size, "{question:?}: {lru}");
        }
    }
}

#[test]
fn a_sample_grows_until_its_bounds_are_narrow_and_they_hold() {
    let requests = workload(200_000, 30_000);
    for question in QUESTIONS {
        let mut sizes = Vec::new();
        let advice = refine(500, |objects| {
            sizes.push(objects);
            let inputs = gathered(&requests, false, objects)?;
            let mut advice = asked(&inputs, Unit::Objects, question)?;
            if sizes.len() == 1 {
                advice.recommendation.ratio.high += 0.05;
            }
            Ok::<_, Error>(advice)
        });
        let advice = advice.expect("it runs");
        let found = &advice.recommendation;
        assert!(advice.is_precise());
        assert!(
            sizes.starts_with(&[500, 2000]),
            "the first was too coarse: {sizes:?}"
        );
        let truth = simulated(&requests, Unit::Objects, &advice);
        let ratio = found.ratio;
        assert!(
            (ratio.low..=ratio.high).contains(&truth),
            "{question:?} {truth} {ratio:?}"
        );
        assert!((ratio.miss_ratio - truth).abs() <= 0.02);
    }
}

#[test]
fn no_more_memory_is_recommended_than_the_target_needs() {
    let requests = workload(60_000, 10_000);
    let question = Constraints {
        memory: Some(9000),
        target: Some(0.6),
    };
    let found = advised(&requests, Unit::Objects, question).recommendation;
    assert!(found.cache_size < 9000);
    assert_eq!(found.reaches_target, Some(true));
}

#[test]
fn an_unreachable_target_is_reported() {
    let requests = workload(60_000, 10_000);
    let question = Constraints {
        memory: None,
        target: Some(0.01),
    };
    let advice = advised(&requests, Unit::Objects, question);
    assert_eq!(advice.recommendation.reaches_target, Some(false));
    let least = value(&advice, "shortfall", "least miss ratio");
    let first = value(&advice, "first-requests", "first requests");
    assert!((least - first).abs() < 1e-9, "{least} {first}");
    let text = &statement(&advice, "shortfall")
        .expect("the statement exists")
        .text;
    assert!(text.starts_with("No cache size reaches"), "{text}");
    // With too little memory, the memory that the target needs is reported.
    let question = Constraints {
        memory: Some(50),
        target: Some(0.6),
    };
    let advice = advised(&requests, Unit::Objects, question);
    assert!(value(&advice, "shortfall", "cache size needed") > 50.0);
}

#[test]
fn a_target_is_not_unreachable_because_of_rounding() {
    // Some of these lowest ratios change by rounding when they are subtracted from one twice.
    for keys in 500..520 {
        let requests: Vec<Request> = (0..1777).map(|n| Request::new(0, n % keys, 1)).collect();
        let question = Constraints {
            memory: None,
            target: Some(0.05),
        };
        let found = advised(&requests, Unit::Objects, question).recommendation;
        assert_eq!(found.reaches_target, Some(false));
        assert_eq!(found.ratio.miss_ratio, keys as f64 / 1777.0);
    }
}

#[test]
fn a_target_that_only_the_sample_does_not_reach_is_reached() {
    let requests = workload(60_000, 10_000);
    let everything = Constraints {
        memory: Some(20_000),
        target: None,
    };
    for objects in (500..1500).step_by(100) {
        let inputs = gathered(&requests, true, objects).expect("there is memory");
        let advised = |question| asked(&inputs, Unit::Objects, question).expect("it runs");
        let least = advised(everything).recommendation.ratio.miss_ratio;
        let question = Constraints {
            memory: None,
            target: Some(least),
        };
        let found = advised(question).recommendation;
        assert_eq!(found.reaches_target, Some(true), "{objects}: {found:?}");
    }
}

#[test]
fn all_policies_with_equal_results_in_the_survey_are_evaluated() {
    // At the size of all objects, the first of the survey that reaches the target, these policies
    // miss equally.
    let requests: Vec<Request> = (0..40_000).map(|n| Request::new(n, n % 1000, 1)).collect();
    let inputs = gathered(&requests, true, 8192).expect("there is memory");
    let names = ["lru", "fifo", "clock", "lirs"];
    let policies = names.map(|name| {
        (
            name.to_owned(),
            name.parse::<Spec>().expect("a policy's name"),
        )
    });
    let question = Constraints {
        memory: None,
        target: Some(0.2),
    };
    let rules = Rules::default();
    let done = AtomicU64::new(0);
    let advice = advise(&inputs, &rules, &policies, question, 1, &done).expect("it runs");
    let found = &advice.recommendation;
    assert_eq!(found.policy, "lirs");
    assert!(found.cache_size < 900, "{found:?}");
    assert_eq!(found.lru_cache_size, Some(1000));
}

#[test]
fn advice_for_a_cache_with_few_sampled_objects_is_not_reliable() {
    let inputs = gathered(&workload(60_000, 10_000), false, 500).expect("there is memory");
    let is_unreliable = |memory| {
        let question = Constraints {
            memory: Some(memory),
            target: None,
        };
        let advice = asked(&inputs, Unit::Objects, question).expect("it runs");
        let choice = statement(&advice, "choice").expect("the statement exists");
        choice.certainty.starts_with("not reliable")
    };
    assert!(is_unreliable(50));
    assert!(!is_unreliable(5000));
}

#[test]
fn advice_without_hits_and_with_more_memory_than_objects_is_sound() {
    let distinct: Vec<Request> = (0..3000).map(|n| Request::new(n, n, 10)).collect();
    let advice = advised(&distinct, Unit::Bytes, Constraints::default());
    let text = &statement(&advice, "choice")
        .expect("the statement exists")
        .text;
    assert!(
        text.starts_with("A cache of any size misses every request"),
        "{text}"
    );
    let question = Constraints {
        memory: Some(1 << 40),
        target: None,
    };
    let advice = advised(&distinct, Unit::Bytes, question);
    let text = &statement(&advice, "choice")
        .expect("the statement exists")
        .text;
    assert!(text.contains("at most 29.3 KiB"), "{text}");
    assert_eq!(value(&advice, "server", "entries"), 3000.0);
    let looped: Vec<Request> = (0..3000).map(|n| Request::new(n, n % 40, 10)).collect();
    let advice = advised(&looped, Unit::Objects, Constraints::default());
    let text = &statement(&advice, "choice")
        .expect("the statement exists")
        .text;
    assert!(text.contains("it has "), "{text}");
}

/// Writes with TTLs of ten minutes; every second object is read once, a second after its write.
fn written(herd: bool) -> Vec<Request> {
    let mut requests = Vec::new();
    for n in 0..40_000u64 {
        let ttl_ms = match herd && n % 4 == 0 {
            // All of these expire at the same time, an hour later.
            true => 4_000_000 - n * 100,
            false => 600_000,
        };
        let write = Request {
            op: Op::Set,
            ttl_ms,
            ..Request::new(1 + n * 100, n % 30_000, 100)
        };
        requests.push(write);
        if n % 2 == 0 && n >= 10 {
            let read = Request::new(1 + n * 100, (n - 10) % 30_000, 100);
            requests.push(read);
        }
    }
    requests
}

#[test]
fn the_effects_of_ttls_are_reported() {
    let advice = advised(&written(false), Unit::Objects, Constraints::default());
    let unread = value(&advice, "ttl-unread", "expired without a read");
    assert!((unread - 0.5).abs() < 0.01, "{unread}");
    assert!(value(&advice, "ttl-idle", "memory × time after the last read") > 0.99);
    // Objects are read after a second and written again after 50 minutes, the longest time between
    // requests.
    assert_eq!(
        value(&advice, "ttl-long", "TTLs longer than the longest reuse"),
        0.0
    );
    assert!(value(&advice, "ttl-cost", "miss ratio with TTLs") > 0.0);
    assert!(
        !statement(&advice, "jitter")
            .expect("the statement exists")
            .text
            .contains("would help")
    );
    let herd = advised(&written(true), Unit::Objects, Constraints::default());
    let jitter = statement(&herd, "jitter").expect("the statement exists");
    assert!(
        jitter.text.starts_with("Jitter would help: 10,0"),
        "{}",
        jitter.text
    );
    // The advice has curves with and without TTLs.
    assert!(advice.curves.iter().any(|named| named.has_ttls));
    assert!(advice.curves.iter().any(|named| !named.has_ttls));
}

#[test]
fn statements_that_the_trace_does_not_allow_are_listed() {
    let bare: Vec<Request> = (0..5000).map(|n| Request::new(0, n % 700, 1)).collect();
    let advice = advised(&bare, Unit::Objects, Constraints::default());
    for word in ["Bytes:", "Writes:", "TTLs:"] {
        let is_named = advice
            .left_out
            .iter()
            .any(|reason| reason.starts_with(word));
        assert!(is_named, "{word} {:?}", advice.left_out);
    }
    assert!(statement(&advice, "server").is_none());
    assert!(
        advice
            .statements
            .iter()
            .all(|s| !s.topic.starts_with("ttl") && s.topic != "jitter")
    );
    let is_unreliable = advised(&written(false), Unit::Bytes, Constraints::default());
    assert!(
        is_unreliable.left_out.is_empty(),
        "{:?}",
        is_unreliable.left_out
    );
    // TTLs without timestamps.
    let timeless: Vec<Request> = written(false)
        .into_iter()
        .map(|request| Request {
            time_ms: 0,
            ..request
        })
        .collect();
    let advice = advised(&timeless, Unit::Bytes, Constraints::default());
    let is_named = advice
        .left_out
        .iter()
        .any(|reason| reason.starts_with("Expiration times"));
    assert!(is_named, "{:?}", advice.left_out);
}

#[test]
fn odd_traces_get_advice() {
    let one: Vec<Request> = (0..100).map(|n| Request::new(n, 7, 1)).collect();
    let distinct: Vec<Request> = (0..3000).map(|n| Request::new(n, n, 1)).collect();
    let sizes: Vec<Request> = (0..3000u64)
        .map(|n| Request::new(n, n % 50, if n % 50 == 0 { u32::MAX } else { 0 }))
        .collect();
    let years: Vec<Request> = (0..3000u64)
        .map(|n| Request {
            ttl_ms: 1000,
            op: if n % 3 == 0 { Op::Set } else { Op::Get },
            ..Request::new(1 + (n / 1000) * 200_000_000_000 + n, n % 40, 5)
        })
        .collect();
    for requests in [one, distinct, sizes, years] {
        for unit in [Unit::Objects, Unit::Bytes] {
            for question in [
                Constraints::default(),
                Constraints {
                    memory: Some(3),
                    target: Some(0.05),
                },
                Constraints {
                    memory: None,
                    target: Some(0.999),
                },
            ] {
                let advice = advised(&requests, unit, question);
                let text = advice.to_text();
                assert!(!text.contains("NaN") && !text.contains("inf "), "{text}");
                assert_eq!(
                    advice.recommendation.ratio.miss_ratio,
                    simulated(&requests, unit, &advice)
                );
                let html = advice.to_page().to_html();
                assert!(html.len() < 1_500_000);
            }
        }
    }
}

#[test]
fn an_empty_trace_is_refused() {
    assert!(gathered(&[], true, 10).is_err());
}

/// If the engine is compared, sizes include overheads, also those of policies.
#[test]
fn the_engine_is_recommended_if_it_needs_the_least_memory() {
    let mut requests = workload(60_000, 6_000);
    // With small objects the overhead decides.
    for request in &mut requests {
        request.size = 10 + request.size % 20;
    }
    let inputs = gathered(&requests, true, 8192).expect("there is memory");
    let names = ["lru", "segcache"];
    let contestant = |name: &str| name.parse::<Contestant>().expect("a name");
    let policies = names.map(|name| (name.to_owned(), contestant(name)));
    let rules = Rules {
        unit: Unit::Bytes,
        overhead: 56,
        ..Rules::default()
    };
    let done = AtomicU64::new(0);
    let question = Constraints {
        memory: Some(400_000),
        target: None,
    };
    let advice = advise(&inputs, &rules, &policies, question, 1, &done).expect("it runs");
    assert_eq!(advice.recommendation.policy, "segcache");
    assert!(advice.recommendation.ratio.miss_ratio < advice.recommendation.lru.miss_ratio);
    let server = advice.statements.iter().find(|s| s.topic == "server");
    let text = &server.expect("it is said what to give a server").text;
    assert!(text.contains("--engine segment"), "{text}");
    let target = Constraints {
        memory: None,
        target: Some(0.4),
    };
    let advice = advise(&inputs, &rules, &policies, target, 1, &done).expect("it runs");
    assert_eq!(advice.recommendation.reaches_target, Some(true));
}
