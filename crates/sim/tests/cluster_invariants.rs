//! Invariants of a cluster that hold for any of its rules. These tests do not depend on how chunks
//! are looked up.

use edge::OLDER_MAPS_MAX;
use policy::any::PolicySpec;
use sim::cluster::{
    ClusterRules, Coordination, EvictionOrder, Notifications, RunResult, Setup, check, run,
};
use sim::{Columns, Interner, Interning};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use trace::{Outage, Random, Request};

const SERVERS: usize = 8;

/// Redundant schemes, and the number of servers that may be down at the same time.
const SCHEMES: [(&str, u64); 7] = [
    ("replicas:2", 1),
    ("replicas:3", 2),
    ("norebal:3:1", 1),
    ("norebal:2:2", 2),
    ("c2dn:3:1", 1),
    ("c2dn:3:2", 2),
    ("c2dn:1:1", 1),
];

/// One request per second.
fn of_sizes(requests: &[(u64, u32)]) -> Columns {
    let requests = requests.iter().enumerate();
    let requests =
        requests.map(|(at, (key, size))| Ok(Request::new(at as u64 * 1000, *key, *size)));
    Interner::all("sizes", Interning::default(), requests).expect("it is well-formed")
}

/// Small and large objects.
fn size_of(key: u64) -> u32 {
    match key % 3 {
        0 => 10_000 + key as u32,
        _ => 200_000 + (key * 7_919 % 1_800_000) as u32,
    }
}

/// All objects in turn, this many times.
fn rounds(objects: u64, rounds: usize) -> Vec<(u64, u32)> {
    let round = (0..objects).map(|key| (key, size_of(key)));
    std::iter::repeat_n(round, rounds).flatten().collect()
}

fn setup(scheme: &str, servers: usize, capacity: u64, outages: &[Outage]) -> Setup {
    Setup {
        scheme: scheme.parse().expect("it is a scheme"),
        policy: PolicySpec::Fifo(()),
        weights: vec![1; servers],
        capacity,
        memory_share: 0.0,
        coordination: Coordination::default(),
        watched: 0..0,
        outages: Arc::from(outages),
        until: usize::MAX,
        is_timed: false,
    }
}

fn go(columns: &Columns, rules: &ClusterRules, setup: &Setup) -> RunResult {
    run(columns, rules, setup, &AtomicU64::new(0)).expect("it can be run")
}

fn rules(warm_up: usize, seed: u64) -> ClusterRules {
    ClusterRules {
        buckets: 40,
        warm_up,
        seed,
        window_ms: 60_000,
        ..ClusterRules::default()
    }
}

/// Groups of servers that fail and recover together, one group after the other.
fn in_turn(groups: u64, down: u64, from_ms: u64, to_ms: u64, seed: u64) -> Vec<Outage> {
    let mut chance = Random::new(seed);
    let each = (to_ms - from_ms) / groups;
    let mut outages = Vec::new();
    for group in 0..groups {
        let first = chance.below(SERVERS as u64);
        for server in first..first + down {
            outages.push(Outage {
                from_ms: from_ms + group * each + 500,
                until_ms: from_ms + group * each + 500 + each / 2,
                server: (server % SERVERS as u64) as u32,
            });
        }
    }
    outages
}

#[test]
fn tolerated_failures_cause_no_misses_if_everything_is_kept() {
    let objects = 120;
    let columns = of_sizes(&rounds(objects, 5));
    let (warm_up, span_ms) = (objects as usize, objects * 5_000);
    for (scheme, down) in SCHEMES {
        for seed in 1..=4 {
            // The end of the warm-up makes one map, and each group two.
            let groups = (OLDER_MAPS_MAX as u64 - 1) / 2;
            let outages = in_turn(groups, down, objects * 1_000, span_ms, seed);
            let own = setup(scheme, SERVERS, 1 << 40, &outages);
            let found = go(&columns, &rules(warm_up, seed), &own);
            assert!(found.maps >= groups * 2);
            assert_eq!(found.total.misses, 0, "{scheme}, seed {seed}");
        }
    }
}

#[test]
fn objects_that_fit_all_disks_are_found_under_every_coordination() {
    let objects = 120;
    let columns = of_sizes(&rounds(objects, 5));
    let (warm_up, span_ms) = (objects as usize, objects * 5_000);
    let outages = in_turn(3, 1, objects * 1_000, span_ms, 1);
    for order in [
        EvictionOrder::Policy,
        EvictionOrder::Hash,
        EvictionOrder::SharedHash,
    ] {
        for (notifications, rotates_reads) in
            [(Notifications::Both, false), (Notifications::None, true)]
        {
            let own = Setup {
                coordination: Coordination {
                    notifications,
                    rotates_reads,
                    order,
                    no_peer_probe: false,
                },
                ..setup("c2dn:3:1", SERVERS, 1 << 40, &outages)
            };
            let found = go(&columns, &rules(warm_up, 1), &own);
            assert_eq!(found.total.misses, 0, "{:?}", own.coordination);
            assert!(found.decoded_hits > 0 && found.repaired_bytes > 0);
            // With rotated reads every chunk is read, and every fourth read leaves out one of the
            // data chunks.
            let decoded = found.decoded_hits as f64 / found.total.requests as f64;
            assert_eq!(rotates_reads, decoded > 0.25, "{decoded}");
        }
    }
}

/// In a debug build, each run asserts at its end that the counted parts are those that would be
/// found.
#[test]
fn counted_parts_match_the_disks_under_every_coordination() {
    let mut chance = Random::new(5);
    let mut key = || {
        let most = 1 + chance.below(300);
        chance.below(most)
    };
    let requests: Vec<(u64, u32)> = (0..4_000)
        .map(|_| key())
        .map(|key| (key, size_of(key)))
        .collect();
    let columns = of_sizes(&requests);
    let outages = in_turn(6, 2, 500_000, 4_000_000, 1);
    for scheme in ["c2dn:3:1", "norebal:2:2", "replicas:2"] {
        let mut misses = [0; 2];
        for order in [
            EvictionOrder::Policy,
            EvictionOrder::Hash,
            EvictionOrder::SharedHash,
        ] {
            for (notifications, rotates_reads) in [
                (Notifications::None, false),
                (Notifications::None, true),
                (Notifications::Hits, false),
                (Notifications::Both, false),
            ] {
                let [alone, together] = [true, false].map(|no_peer_probe| {
                    let own = Setup {
                        coordination: Coordination {
                            notifications,
                            rotates_reads,
                            order,
                            no_peer_probe,
                        },
                        ..setup(
                            scheme,
                            SERVERS,
                            columns.footprint_bytes() * 15 / 100,
                            &outages,
                        )
                    };
                    go(&columns, &rules(500, 1), &own)
                });
                let about =
                    format!("{scheme}, {order:?}, {notifications:?}, in turn: {rotates_reads}");
                for found in [&alone, &together] {
                    assert!(found.filled > 0.3 && found.filled <= 1.0, "{about}");
                    assert!(found.total.misses < found.total.requests, "{about}");
                }
                assert!(together.total.misses > 300, "{about}: nobody is given up");
                assert_eq!(alone.peer_hits, 0, "{about}");
                misses[0] += alone.total.misses;
                misses[1] += together.total.misses;
            }
        }
        // Not in every run: with notifications of evictions, a lead without its part has no server
        // to probe.
        assert!(misses[0] > misses[1], "{scheme}: {misses:?}");
    }
}

#[test]
fn a_lead_without_peer_probes_does_not_probe_other_servers() {
    let columns = of_sizes(&[
        (1, 1_000),
        (2, 200_000),
        (1, 1_000),
        (2, 200_000),
        (1, 1_000),
        (2, 200_000),
    ]);
    let (mut alone, mut together) = (0, 0);
    for server in 0..SERVERS as u32 {
        // It recovers when the others have both objects and may be the leads of one of them.
        let down = Outage {
            from_ms: 0,
            until_ms: 2_000,
            server,
        };
        for (no_peer_probe, misses) in [(true, &mut alone), (false, &mut together)] {
            let own = Setup {
                coordination: Coordination {
                    no_peer_probe,
                    ..Coordination::default()
                },
                ..setup("norebal:3:1", SERVERS, 1 << 30, &[down])
            };
            let found = go(&columns, &rules(0, 1), &own);
            *misses += found.total.misses;
            let watched = Setup {
                watched: 0..2_000,
                ..own
            };
            let by_row = go(&columns, &rules(0, 1), &watched).missed_by_row;
            let missed = by_row.iter().map(|(_, missed)| missed);
            assert_eq!(missed.sum::<u64>(), 2, "the first two requests");
        }
    }
    let servers = SERVERS as u64;
    assert_eq!(together, 2 * servers);
    // Each object has one server, which misses it once more.
    assert_eq!(alone, 2 * servers + 2);
}

#[test]
fn misses_after_a_failure_are_of_objects_of_which_the_failed_server_kept_a_part() {
    let objects = 120;
    let columns = of_sizes(&rounds(objects, 3));
    let from_ms = objects * 2_000;
    for scheme in ["none", "replicas:2", "norebal:3:1", "c2dn:3:1"] {
        let (mut misses, mut led) = (0, 0);
        for first in 0..SERVERS as u16 {
            let gone = [first, (first + 1) % SERVERS as u16];
            let outage = |server: u16| Outage {
                from_ms,
                until_ms: u64::MAX,
                server: server.into(),
            };
            let own = Setup {
                watched: from_ms..u64::MAX,
                ..setup(scheme, SERVERS, 1 << 40, &gone.map(outage))
            };
            let found = go(&columns, &rules(objects as usize, 1), &own);
            // Everything is kept, and nothing else is missed.
            assert_eq!(found.missed_of(&gone), found.total.misses, "{scheme}");
            misses += found.total.misses;
            let rows = found.missed_by_row.iter();
            led += rows
                .filter(|(row, _)| gone.contains(&row[0]))
                .map(|(_, missed)| missed)
                .sum::<u64>();
        }
        assert!(misses > 0, "{scheme}");
        // Not all lost requests were for objects whose two chunks of four were on the two first
        // servers.
        assert_eq!(led < misses, scheme.ends_with(":1"), "{scheme}");
    }
}

#[test]
fn protected_objects_survive_the_loss_of_any_server() {
    let objects = 90;
    let before = rounds(objects, 5);
    let all = rounds(objects, 6);
    let (columns, span_ms) = (of_sizes(&all), before.len() as u64 * 1_000);
    let (mut unprotected, mut lost) = (0, 0);
    for (scheme, down) in SCHEMES {
        // Few maps, and more maps than are kept.
        for (groups, seed) in [(2, 1), (8, 2), (12, 3)] {
            let outages = in_turn(groups, down, objects * 1_000, span_ms - 2_000, seed);
            let rules = rules(objects as usize, seed);
            let until = Setup {
                until: before.len(),
                ..setup(scheme, SERVERS, 1 << 40, &outages)
            };
            let then = go(&columns, &rules, &until).total;
            assert_eq!((then.held, then.down), (objects, 0));
            unprotected += then.unprotected;
            for server in 0..SERVERS as u32 {
                let mut outages = outages.clone();
                outages.push(Outage {
                    from_ms: span_ms,
                    until_ms: u64::MAX,
                    server,
                });
                let own = setup(scheme, SERVERS, 1 << 40, &outages);
                let after = go(&columns, &rules, &own).total;
                let misses = after.misses - then.misses;
                assert!(
                    misses <= then.unprotected,
                    "{scheme}, {groups} outages, without {server}: {misses} misses, {} unprotected",
                    then.unprotected
                );
                lost += misses;
            }
        }
    }
    assert!(unprotected > 0 && lost > 0, "nothing was at stake");
}

#[test]
fn servers_write_equally_under_a_uniform_load() {
    let objects = 1_500;
    let plain = rounds(objects, 6);
    // An object that no disk takes comes every twenty requests.
    let with_huge: Vec<(u64, u32)> = plain
        .chunks(20)
        .flat_map(|some| some.iter().copied().chain([(objects, 3_000_000_000)]))
        .collect();
    for requests in [plain, with_huge] {
        let columns = of_sizes(&requests);
        let warm_up = requests.len() / 3;
        let rules = ClusterRules {
            warm_up,
            window_ms: 600_000,
            ..ClusterRules::default()
        };
        let own = setup("c2dn:3:1", 10, 600_000_000, &[]);
        let found = go(&columns, &rules, &own);
        let imbalance = found.write_imbalance().expect("all are written to");
        assert!(imbalance <= 0.005, "{imbalance}");
    }
}

#[test]
fn hits_in_memory_count_as_popularity_and_a_failed_server_loses_its_memory() {
    let columns = of_sizes(&[(1, 1_000); 10]);
    for server in 0..3 {
        let down = Outage {
            from_ms: 6_000,
            until_ms: 8_000,
            server,
        };
        let popular = Setup {
            memory_share: 0.5,
            ..setup("popular", 3, 1 << 20, &[down])
        };
        let found = go(&columns, &ClusterRules::default(), &popular);
        assert_eq!(found.total.misses, 1, "server {server} goes");
        let alone = Setup {
            scheme: "none".parse().expect("it is a scheme"),
            ..popular
        };
        let found = go(&columns, &ClusterRules::default(), &alone);
        // The server of the object fails, another takes over, and after recovery the object is
        // found on the first server's disk.
        let went = u64::from(found.total.misses == 2);
        assert_eq!(found.memory_hits, 9 - 2 * went, "server {server} goes");
    }
}

#[test]
fn a_failure_between_two_requests_counts_in_the_window_of_its_time() {
    let times = [0, 1_000, 100_000];
    let requests = times.map(|at| Ok(Request::new(at, 1, 1_000)));
    let columns = Interner::all("gap", Interning::default(), requests);
    let columns = columns.expect("it is well-formed");
    let down = Outage {
        from_ms: 25_000,
        until_ms: 45_000,
        server: 1,
    };
    let rules = ClusterRules {
        window_ms: 10_000,
        ..ClusterRules::default()
    };
    let found = go(&columns, &rules, &setup("none", 3, 1 << 20, &[down]));
    let down: Vec<u32> = found.windows.iter().map(|window| window.down).collect();
    assert_eq!(down, [0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn impossible_times_are_refused() {
    let requests = [0, u64::MAX].map(|at| Ok(Request::new(at, 1, 1_000)));
    let columns = Interner::all("far", Interning::default(), requests);
    let columns = columns.expect("it is well-formed");
    let own = setup("none", 3, 1 << 20, &[]);
    let refusal = |rules: &ClusterRules| match check(&columns, rules, &own) {
        Err(error) => error.to_string(),
        Ok(()) => String::new(),
    };
    assert!(refusal(&ClusterRules::default()).contains("expected at most 100"));
    let slow = ClusterRules {
        gap_ms: Some(1e303),
        ..ClusterRules::default()
    };
    assert!(refusal(&slow).contains("expected at most 100"));
}
