//! Requested failovers in the simulation, without other faults.

use super::{Layout, Without, World, name};
use crate::replication::role;
use std::sync::atomic::Ordering::Relaxed;

/// Number of schedules of each test.
const SEEDS: u64 = 10;
/// Maximum time in milliseconds until a failover has ended.
const LIMIT_MS: u64 = 5_000;

/// Runs a test in a world whose replicas are all in sync, with the number of one of them.
fn with_replica(test: impl AsyncFn(&mut World, usize)) {
    for seed in 0..SEEDS {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime = runtime.expect("a runtime without timers");
        runtime.block_on(async {
            let mut world = World::new(seed, Layout::one_shard, Without::Nothing);
            let whole = async |world: &mut World| {
                while !world.is_whole() {
                    world.step().await.expect("no failure");
                }
            };
            whole(&mut world).await;
            // Its primary has requested acknowledgements and promises meanwhile.
            let until = world.now + LIMIT_MS;
            while world.now < until {
                world.step().await.expect("no failure");
            }
            let replica = (world.primary() + 1) % world.nodes.len();
            test(&mut world, replica).await;
        });
    }
}

impl World {
    /// Number of the primary in the record.
    fn primary(&self) -> usize {
        let primary = self.record(0).and_then(|record| record.primary);
        let is_primary = |number: &usize| Some(name(*number)) == primary;
        (0..self.nodes.len())
            .find(is_primary)
            .expect("there is a primary")
    }

    fn request_failover(&mut self, replica: usize) {
        let seat = &self.nodes[replica].server.cluster.seat;
        seat.wants_failover.store(true, Relaxed);
    }

    /// Ends the link of a replica, as both its ends notice.
    fn disconnect(&mut self, replica: usize) {
        let links = std::mem::take(&mut self.links);
        for link in links {
            match link.replica == replica {
                true => self.end(&link),
                false => self.links.push(link),
            }
        }
    }
}

#[test]
fn a_failover_to_a_replica_that_does_not_follow_holds_no_write() {
    with_replica(async |world, replica| {
        let primary = world.primary();
        world.links_cut_until[replica][primary] = u64::MAX;
        world.links_cut_until[primary][replica] = u64::MAX;
        world.disconnect(replica);
        world.request_failover(replica);
        for _ in 0..LIMIT_MS / super::TICK_MS {
            world.step().await.expect("no failure");
            assert!(!world.nodes[primary].holds_writes(), "at {} ms", world.now);
        }
        assert_eq!(world.primary(), primary);
    });
}

#[test]
fn a_replica_that_has_received_a_snapshot_takes_over_at_once() {
    with_replica(async |world, replica| {
        let replication = &world.nodes[replica].server.replication;
        role::give_up_position(replication, replication.number());
        world.disconnect(replica);
        world.request_failover(replica);
        let limit = world.now + LIMIT_MS;
        while world.primary() != replica {
            assert!(world.now < limit, "the replica does not become the primary");
            world.step().await.expect("no failure");
        }
        // It would wait for a primary if it did not know that it has all writes.
        let begun = world.now;
        while !world.nodes[replica].is_fenced_in() {
            world.step().await.expect("no failure");
            assert!(world.now < begun + 500, "the replica does not serve");
        }
    });
}

#[test]
fn the_former_primary_continues_without_a_snapshot() {
    with_replica(async |world, replica| {
        let primary = world.primary();
        let snapshots = world.snapshot_count;
        for (to, from) in [(replica, primary), (primary, replica), (replica, primary)] {
            world.request_failover(to);
            let limit = world.now + LIMIT_MS;
            let has_moved = |world: &World| {
                let is_linked = |link: &super::Link| (link.replica, link.primary) == (from, to);
                world.primary() == to && world.is_whole() && world.links.iter().any(is_linked)
            };
            while !has_moved(world) {
                assert!(world.now < limit, "node {from} does not follow {to}");
                world.step().await.expect("no failure");
            }
        }
        assert_eq!(world.snapshot_count, snapshots);
    });
}

#[test]
fn a_transaction_that_has_begun_ends_before_writes_are_held() {
    with_replica(async |world, replica| {
        world.transaction_rarity = 1;
        world.request_failover(replica);
        let limit = world.now + LIMIT_MS;
        while world.primary() != replica {
            assert!(world.now < limit, "the replica does not become the primary");
            world.step().await.expect("keys do not change after that");
        }
    });
}
