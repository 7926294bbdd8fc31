//! Moves of slots in the simulation, with chosen faults.

use super::{LEASE_MS, Layout, Random, Without, World};
use membership::records::Strength;

/// Number of schedules.
const SEEDS: u64 = 6;
/// Maximum time in milliseconds until a move has ended.
const LIMIT_MS: u64 = 10_000;

fn layout(random: &mut Random) -> Layout {
    Layout {
        strength: Strength::Sync,
        is_calm: false,
        ..Layout::two_shards(random)
    }
}

/// Runs a schedule in which a source writes its record while it has not read the outcome of a mark.
async fn run(seed: u64) -> Result<(), String> {
    let mut world = World::new(seed, layout, Without::Nothing);
    while !world.is_whole() {
        world.step().await?;
    }
    while world.now < LIMIT_MS {
        if world.random.is_one_in(20) && !world.has_moves() {
            let directory = world.directory();
            world.create_move(&directory);
        }
        if let Some(source) = world.committing()
            && world.paths[source].lags_until < world.now
        {
            let until = world.now + LEASE_MS;
            world.paths[source].lags_until = until;
            world.isolate(source, until);
        }
        world.step().await?;
    }
    match world.outcomes[1] {
        0 => Err("no move is done".to_owned()),
        _ => Ok(()),
    }
}

#[test]
fn a_source_that_writes_its_record_before_it_reads_a_commit_does_not_serve_the_slots() {
    for seed in 0..SEEDS {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime = runtime.expect("a runtime without timers");
        if let Err(failure) = runtime.block_on(run(seed)) {
            panic!("seed {seed}: {failure}");
        }
    }
}
