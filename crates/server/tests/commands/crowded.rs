//! Random commands while memory is short and keys die: every policy, every index, no Redis beside us.
//! Each command has one reply, nothing panics, and what is stored stays consistent.

use crate::random::Chance;
use crate::script::{START, render};
use server::clock::Clock;
use server::config::Config;
use server::{Server, Session};
use store::Keyspace;
use wire::Protocol;

const STEPS: usize = 4_000;

fn crowd(policy: &str, expiry: &str, seed: u64) {
    let options = store::Options {
        shards: 4,
        policy: policy.into(),
        expiry: expiry.into(),
        maxmemory: 200_000,
        hash_key: [seed, 2],
        seed,
    };
    let clock = Clock::manual(START.0);
    let server = Server::with_store(Config::default(), &options, 1, clock).expect("valid options");
    server.keyspace.set_notify(true);
    let mut session = Session::new();
    let mut chance = Chance::new(seed);
    let (mut now, mut out, mut events) = (START, Vec::new(), Vec::new());
    for step in 0..STEPS {
        let mut command = chance.command(now.0);
        // Many keys and large values beside the few that the commands name.
        if step % 2 == 0 || command[0] == "FLUSHDB" {
            let key = format!("crowd:{}", chance.below(2_000));
            let value = "x".repeat(chance.below(3_000));
            command = [
                "SET",
                &key,
                &value,
                "PX",
                &(1 + chance.below(50_000)).to_string(),
            ]
            .map(str::to_string)
            .to_vec();
        }
        let args: Vec<&[u8]> = command.iter().map(|word| word.as_bytes()).collect();
        out.clear();
        server::exec(&server, &mut session, &args, now, &mut out);
        let (_, rest) = render(&out, Protocol::Resp2).expect("a whole reply");
        assert!(
            rest.is_empty(),
            "{policy} {expiry}, step {step}: {command:?}"
        );
        now.0 += chance.below(4) as u64;
        if chance.below(20) == 0 {
            for shard in 0..options.shards {
                let space = &server.keyspace;
                space.expire(shard, now, 200, &mut events, &mut |deadline, _| {
                    assert!(deadline < now);
                });
                space.tend(shard, now, 200, &mut events);
            }
            events.clear();
        }
    }
    let counters = server.keyspace.counters();
    assert!(counters.expired_keys > 0, "{policy}: none expires");
    assert!(
        (counters.evicted_keys > 0) == (policy != "noeviction"),
        "{policy} evicts"
    );
}

#[test]
fn commands_survive_full_memory_under_every_policy() {
    for (policy, seed) in Keyspace::policy_names().iter().zip(1..) {
        crowd(policy, "wheel", seed);
    }
}

#[test]
fn commands_survive_full_memory_under_every_index() {
    for (expiry, seed) in Keyspace::expiry_names().iter().zip(100..) {
        crowd("allkeys-s3fifo", expiry, seed);
        crowd("volatile-s3fifo", expiry, seed + 50);
    }
}
