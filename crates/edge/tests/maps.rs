//! Versions of a map under random events, compared with a simple model, and maps offered in any
//! order.

use edge::placement::Placement;
use edge::{
    BucketId, BucketWrites, Change, Config, Map, MapAge, MapError, MapHistory, OfferOutcome,
    Redundancy, Scheme, ServerId, mix,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const BUCKETS: u32 = 12;

fn config(k: u8, p: u8, placement: Placement) -> Config {
    Config {
        buckets: BUCKETS,
        virtual_nodes: 10,
        placement,
        ..Config::new(Scheme::coded(k, p))
    }
}

fn servers(count: u32) -> Vec<(ServerId, u32)> {
    (0..count).map(|id| (ServerId(id), 1)).collect()
}

fn cluster(k: u8, p: u8, count: u32) -> Map {
    Map::new(config(k, p, Placement::Greedy), &servers(count)).expect("enough servers")
}

fn buckets() -> impl Iterator<Item = BucketId> {
    (0..BUCKETS).map(BucketId)
}

/// Model of a map without rings: weight and availability of each server.
type Members = BTreeMap<u32, (u32, bool)>;

/// Returns the members after an event, or the error.
fn expected(members: &Members, change: Change, needed: usize) -> Result<Members, MapError> {
    let mut members = members.clone();
    let missing = |id: ServerId| MapError::Unknown(id);
    match change {
        Change::Join(id, weight) => {
            if members.insert(id.0, (weight, true)).is_some() {
                return Err(MapError::Twice(id));
            }
        }
        Change::Leave(id) => drop(members.remove(&id.0).ok_or(missing(id))?),
        Change::Down(id) => members.get_mut(&id.0).ok_or(missing(id))?.1 = false,
        Change::Up(id) => members.get_mut(&id.0).ok_or(missing(id))?.1 = true,
        Change::Reweigh(id, to) => members.get_mut(&id.0).ok_or(missing(id))?.0 = to,
    }
    let with_weight = members.values().filter(|(weight, _)| *weight > 0).count();
    if with_weight < needed {
        return Err(MapError::TooFewServers {
            needed,
            members: with_weight,
        });
    }
    Ok(members)
}

fn check(map: &Map, before: &Map, members: &Members) {
    let scheme = map.config().scheme;
    let (k, p) = (usize::from(scheme.k), usize::from(scheme.p));
    let found: Members = map
        .members()
        .iter()
        .map(|member| (member.id.0, (member.weight, member.is_up)))
        .collect();
    assert_eq!(found, *members);
    let can_take: BTreeSet<u32> = members
        .iter()
        .filter(|(_, (weight, up))| *weight > 0 && *up)
        .map(|(&id, _)| id)
        .collect();
    let is_coding = can_take.len() >= k;
    assert_eq!(map.is_coding(), is_coding);
    assert_eq!(map.redundancy(1 << 30) == Redundancy::Coded, is_coding);
    for bucket in buckets() {
        let row = map.chunks(bucket);
        let placed: Vec<u32> = row.iter().flatten().map(|server| server.0).collect();
        let distinct: BTreeSet<u32> = placed.iter().copied().collect();
        assert_eq!(distinct.len(), placed.len(), "{row:?}");
        assert!(distinct.is_subset(&can_take), "{row:?}");
        let data = row[..k].iter().flatten().count();
        let parity = row[k..].iter().flatten().count();
        let wanted = if is_coding {
            (k, p.min(can_take.len() - k))
        } else {
            (0, 0)
        };
        assert_eq!((data, parity), wanted);

        let replicas: Vec<ServerId> = map.replicas(bucket).collect();
        assert_eq!(
            replicas.len(),
            usize::from(scheme.replicas).min(can_take.len())
        );
        assert_eq!(map.lead(bucket), replicas.first().copied());
        assert_eq!(map.lead(bucket).is_none(), can_take.is_empty());
        if let (true, Some(lead)) = (is_coding, map.lead(bucket)) {
            assert!(row[..k].contains(&Some(lead)), "the lead keeps data");
        }
        // A server with data of the bucket in both maps keeps the same chunk.
        let old = &before.chunks(bucket)[..k];
        for (at, server) in old.iter().enumerate() {
            if server.is_some() && row[..k].contains(server) {
                assert_eq!(row[at], *server);
            }
        }
    }
}

fn change() -> impl Strategy<Value = Change> {
    (0u8..8, 0u32..9, 0u32..3).prop_map(|(kind, id, weight)| match kind {
        0 => Change::Join(ServerId(id), weight),
        1 => Change::Leave(ServerId(id)),
        2..=4 => Change::Down(ServerId(id)),
        5 | 6 => Change::Up(ServerId(id)),
        _ => Change::Reweigh(ServerId(id), weight),
    })
}

fn placement() -> impl Strategy<Value = Placement> {
    prop_oneof![
        Just(Placement::Greedy),
        Just(Placement::MaxFlow),
        Just(Placement::Ring)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn random_events_change_a_map_as_the_model(
        k in 1u8..4, p in 1u8..4, placement in placement(), changes in prop::collection::vec(change(), 1..25),
    ) {
        let mut map = Map::new(config(k, p, placement), &servers(7)).expect("enough servers");
        let mut members: Members = (0..7).map(|id| (id, (1, true))).collect();
        let mut maps = MapHistory::new(map.clone(), 3);
        let mut all = vec![map.clone()];
        check(&map, &map, &members);
        for change in changes {
            let needed = usize::from(k + p);
            match expected(&members, change, needed) {
                Err(error) => prop_assert_eq!(map.next(&[change], &[]), Err(error)),
                Ok(after) => {
                    let next = map.next(&[change], &[]).expect("the model takes it");
                    prop_assert!(next.id() > map.id());
                    check(&next, &map, &after);
                    prop_assert_eq!(maps.age_of(next.id()), MapAge::Newer);
                    prop_assert_eq!(maps.offer(next.clone()), OfferOutcome::Current);
                    prop_assert_eq!(maps.age_of(map.id()), MapAge::Older);
                    all.push(next.clone());
                    (map, members) = (next, after);
                }
            }
            // Sources of a chunk: from the last four maps, newest first, each server that is up
            // once.
            for bucket in buckets() {
                for chunk in 0..usize::from(k + p) {
                    let mut wanted = vec![];
                    for map in all.iter().rev().take(4) {
                        wanted.extend(map.chunks(bucket)[chunk]);
                    }
                    let mut seen = BTreeSet::new();
                    wanted.retain(|server: &ServerId| {
                        members.get(&server.0).is_some_and(|member| member.1) && seen.insert(*server)
                    });
                    prop_assert_eq!(maps.chunk(bucket, chunk), wanted);
                }
            }
        }
    }

    #[test]
    fn nodes_agree_whatever_the_order_of_the_maps(
        order in prop::collection::vec(0usize..8, 0..30), others in prop::collection::vec(0usize..8, 0..30),
    ) {
        // Two halves of a cluster that do not communicate continue from one map.
        let first = cluster(3, 1, 8);
        let mut known = vec![first.clone()];
        for server in [1, 2, 3] {
            let last = known[known.len() - 1].clone();
            known.push(last.next(&[Change::Down(ServerId(server))], &[]).expect("a member"));
        }
        let mut other = first.clone();
        for server in [5, 6, 7] {
            other = other.next(&[Change::Down(ServerId(server))], &[]).expect("a member");
            known.push(other.clone());
        }
        known.push(other.next(&[Change::Join(ServerId(20), 1)], &[]).expect("no member"));

        let node = |order: &[usize]| {
            let mut maps = MapHistory::new(first.clone(), 3);
            for &at in order {
                maps.offer(known[at].clone());
                assert!(maps.all().len() <= 4);
                assert!(maps.all().is_sorted_by(|a, b| a.id() > b.id()));
            }
            maps
        };
        let both: Vec<usize> = order.iter().chain(&others).copied().collect();
        let turned: Vec<usize> = both.iter().rev().copied().collect();
        let (a, b) = (node(&both), node(&turned));
        prop_assert_eq!(a.all(), b.all());
        for bucket in buckets() {
            prop_assert_eq!(a.whole(bucket), b.whole(bucket));
        }
    }
}

#[test]
fn a_failure_moves_the_chunks_of_one_server_and_a_recovery_moves_them_back() {
    let before = cluster(3, 1, 10);
    let failed = ServerId(4);
    let during = before.next(&[Change::Down(failed)], &[]).expect("a member");
    let after = during.next(&[Change::Up(failed)], &[]).expect("a member");
    for bucket in buckets() {
        let (old, new) = (&before.chunks(bucket)[..3], &during.chunks(bucket)[..3]);
        let moved = old.iter().zip(new).filter(|(a, b)| a != b);
        assert!(moved.into_iter().all(|(a, _)| *a == Some(failed)));
        assert_eq!(&after.chunks(bucket)[..3], old);
        assert_eq!(after.lead(bucket), before.lead(bucket));
    }
}

#[test]
fn a_joining_server_takes_chunks_and_moves_none_between_others() {
    let before = cluster(3, 1, 10);
    let joined = ServerId(10);
    let after = before
        .next(&[Change::Join(joined, 1)], &[])
        .expect("no member");
    for bucket in buckets() {
        let (old, new) = (&before.chunks(bucket)[..3], &after.chunks(bucket)[..3]);
        let moved = old.iter().zip(new).filter(|(a, b)| a != b);
        assert!(moved.into_iter().all(|(_, b)| *b == Some(joined)));
    }
}

#[test]
fn without_servers_there_is_no_lead_and_their_return_restores_the_map() {
    let before = cluster(3, 2, 6);
    let down: Vec<Change> = (0..6).map(|id| Change::Down(ServerId(id))).collect();
    let up: Vec<Change> = (0..6).map(|id| Change::Up(ServerId(id))).collect();
    let none = before.next(&down, &[]).expect("members");
    for bucket in buckets() {
        assert_eq!(none.lead(bucket), None);
        assert_eq!(none.chunks(bucket), [None; 5]);
    }
    assert_eq!(none.redundancy(u64::MAX), Redundancy::Replicated);
    let mut maps = MapHistory::new(before.clone(), 2);
    assert_eq!(maps.offer(none.clone()), OfferOutcome::Current);
    assert!(maps.whole(BucketId(0)).is_empty());
    assert!(maps.chunk(BucketId(0), 0).is_empty());
    let after = none.next(&up, &[]).expect("members");
    for bucket in buckets() {
        assert_eq!(after.lead(bucket), before.lead(bucket));
        assert_eq!(after.chunks(bucket).iter().flatten().count(), 5);
    }
}

#[test]
fn an_impossible_change_is_refused_and_leaves_the_map_unchanged() {
    let map = cluster(3, 1, 4);
    let twice = map.next(&[Change::Join(ServerId(2), 1)], &[]);
    assert_eq!(twice, Err(MapError::Twice(ServerId(2))));
    let few = MapError::TooFewServers {
        needed: 4,
        members: 3,
    };
    assert_eq!(map.next(&[Change::Leave(ServerId(2))], &[]), Err(few));
    assert_eq!(map.next(&[Change::Reweigh(ServerId(2), 0)], &[]), Err(few));
    assert_eq!(
        few.to_string(),
        "3 servers have a weight, but a bucket needs 4"
    );
    let twice = Map::new(*map.config(), &[(ServerId(1), 1), (ServerId(1), 1)]);
    assert_eq!(twice, Err(MapError::Twice(ServerId(1))));
    let heavy = MapError::TooManyPoints(10 * (u64::from(u32::MAX) + 3));
    assert_eq!(
        map.next(&[Change::Reweigh(ServerId(2), u32::MAX)], &[]),
        Err(heavy)
    );
    let loads = MapError::BucketCount {
        buckets: 12,
        given: 1,
    };
    assert_eq!(map.next(&[], &[BucketWrites::default()]), Err(loads));
    for (buckets, virtual_nodes, error) in [
        (0, 1, MapError::Buckets(0)),
        (u32::MAX, 1, MapError::Buckets(u32::MAX)),
        (1, 0, MapError::NoVirtualNodes),
    ] {
        let config = Config {
            buckets,
            virtual_nodes,
            ..*map.config()
        };
        assert_eq!(Map::new(config, &servers(10)), Err(error));
    }
}

#[test]
fn the_map_of_another_cluster_and_one_too_old_are_refused() {
    let first = cluster(3, 1, 10);
    let mut maps = MapHistory::new(first.clone(), 1);
    assert_eq!(maps.offer(cluster(3, 2, 10)), OfferOutcome::Foreign);
    assert_eq!(maps.offer(first.clone()), OfferOutcome::Known);
    let second = first.next(&[], &[]).expect("nothing changes");
    let third = second.next(&[], &[]).expect("nothing changes");
    assert_eq!(maps.offer(third), OfferOutcome::Current);
    assert_eq!(maps.offer(second), OfferOutcome::Older);
    assert_eq!(maps.offer(first), OfferOutcome::TooOld);
    assert_eq!(maps.all().len(), 2);
}

/// Returns between half and one and a half gigabytes of writes for each bucket.
fn loads(count: u32, seed: u64) -> Vec<BucketWrites> {
    let part = |bucket: u32| mix(mix(seed) ^ u64::from(bucket)) >> 54;
    let load = |bucket| BucketWrites {
        chunk_bytes: (512 + part(bucket)) << 20,
        whole_bytes: part(bucket) << 16,
    };
    (0..count).map(load).collect()
}

#[test]
fn servers_write_equally_through_failures_and_recoveries() {
    for seed in 0..10 {
        let config = Config {
            seed,
            ..Config::new(Scheme::coded(3, 1))
        };
        let servers: Vec<_> = (0..10)
            .map(|id| (ServerId(id), 1 + u32::from(id == 3)))
            .collect();
        let mut map = Map::new(config, &servers).expect("enough servers");
        for step in 0..20u64 {
            let server = ServerId((seed * 7 + step / 2 * 3) as u32 % 10);
            let change = if step % 2 == 0 {
                Change::Down(server)
            } else {
                Change::Up(server)
            };
            let loads = loads(200, seed * 100 + step);
            let next = map.next(&[change], &loads).expect("a member");
            let problem = next.problem(&loads);
            problem.check(&next.placed());
            let (imbalance, least) = (problem.imbalance(&next.placed()), problem.imbalance_min());
            assert!(
                imbalance <= least + 0.005,
                "{seed}, {step}: {imbalance}, {least}"
            );
            map = next;
        }
    }
}

#[test]
fn the_best_of_several_rings_lowers_the_largest_load() {
    let most = |config: Config, loads: &[BucketWrites]| {
        let map = Map::new(config, &servers(10)).expect("enough servers");
        map.problem(loads)
            .servers
            .iter()
            .map(|share| share.data_bytes)
            .max()
    };
    let (mut better, loads) = (0, loads(200, 4));
    for seed in 0..10 {
        let config = Config {
            seed: seed * 100,
            ..Config::new(Scheme::coded(3, 1))
        };
        let best = config
            .with_best_seed(&servers(10), &loads, 8)
            .expect("enough servers");
        assert!((config.seed..config.seed + 8).contains(&best.seed));
        assert_eq!(
            Config {
                seed: config.seed,
                ..best
            },
            config
        );
        let rings =
            (config.seed..config.seed + 8).map(|seed| most(Config { seed, ..config }, &loads));
        assert_eq!(rings.min(), Some(most(best, &loads)));
        better += u32::from(most(best, &loads) < most(config, &loads));
    }
    assert!(better >= 5, "{better} of 10");
    let config = Config::new(Scheme::coded(3, 1));
    let few = MapError::TooFewServers {
        needed: 4,
        members: 3,
    };
    assert_eq!(config.with_best_seed(&servers(3), &[], 8), Err(few));
    let wrong = MapError::BucketCount {
        buckets: 200,
        given: 1,
    };
    assert_eq!(
        config.with_best_seed(&servers(5), &[BucketWrites::default()], 0),
        Err(wrong)
    );
}

#[test]
fn any_reported_writes_make_a_map() {
    let map = cluster(3, 2, 8);
    for (chunk_bytes, whole_bytes) in [(u64::MAX, u64::MAX), (0, u64::MAX), (u64::MAX, 0), (0, 0)] {
        let mut loads = vec![BucketWrites::default(); BUCKETS as usize];
        loads[3] = BucketWrites {
            chunk_bytes,
            whole_bytes,
        };
        for loads in [
            loads,
            vec![
                BucketWrites {
                    chunk_bytes,
                    whole_bytes
                };
                BUCKETS as usize
            ],
        ] {
            let next = map
                .next(&[Change::Down(ServerId(1))], &loads)
                .expect("a member");
            next.problem(&loads).check(&next.placed());
        }
    }
}

/// Returns the servers of all buckets' chunks, as recorded for a map.
fn rows(map: &Map) -> Vec<Option<ServerId>> {
    buckets()
        .flat_map(|bucket| map.chunks(bucket).to_vec())
        .collect()
}

#[test]
fn a_recorded_map_is_restored() {
    let first = cluster(3, 1, 6);
    let loads: Vec<BucketWrites> = (0..u64::from(BUCKETS))
        .map(|bucket| BucketWrites {
            chunk_bytes: 1_000 * bucket,
            whole_bytes: 10 * bucket,
        })
        .collect();
    let changes = [Change::Down(ServerId(2)), Change::Join(ServerId(9), 3)];
    let map = first.next(&changes, &loads).expect("the input is valid");
    for map in [first, map] {
        let version = map.id().version;
        let restored = Map::restore(*map.config(), version, map.members(), rows(&map));
        assert_eq!(restored, Ok(map));
    }
}

#[test]
fn a_changed_record_of_a_map_is_refused_or_has_another_identity() {
    let map = cluster(3, 1, 6)
        .next(&[Change::Down(ServerId(2))], &[])
        .expect("the input is valid");
    let restore = |members: &[_], chunks| Map::restore(*map.config(), 2, members, chunks);
    for at in 0..rows(&map).len() {
        for server in [
            None,
            Some(ServerId(2)),
            Some(ServerId(7)),
            Some(ServerId(0)),
        ] {
            let mut chunks = rows(&map);
            if chunks[at] == server {
                continue;
            }
            chunks[at] = server;
            let restored = restore(map.members(), chunks);
            assert!(restored.is_err() || restored.is_ok_and(|found| found.id() != map.id()));
        }
    }
    let misplaced = restore(map.members(), vec![Some(ServerId(2)); rows(&map).len()]);
    assert!(
        matches!(misplaced, Err(MapError::Misplaced { .. })),
        "{misplaced:?}"
    );
    let short = restore(map.members(), vec![]);
    assert!(
        matches!(short, Err(MapError::BucketCount { .. })),
        "{short:?}"
    );
    let few = restore(&map.members()[..3], rows(&map));
    assert!(
        matches!(few, Err(MapError::TooFewServers { .. })),
        "{few:?}"
    );
    let mut twice = map.members().to_vec();
    twice[1] = twice[0];
    assert!(matches!(
        restore(&twice, rows(&map)),
        Err(MapError::Twice(_))
    ));
}
