//! Random commands while memory is full and keys expire, with every policy and every index, without
//! Redis. Each command must have one reply, nothing may panic, and the stored data must stay
//! consistent.

use crate::random::Random;
use crate::script::{START, render};
use server::Server;
use session::Session;
use session::clock::Clock;
use settings::Config;
use store::Keyspace;
use wire::Protocol;

const STEPS: usize = 4_000;

/// A command on a collection of any size whose elements have deadlines.
fn elements(rng: &mut Random) -> Vec<String> {
    let count = match rng.below(12) {
        0 => 120,
        1..=3 => 40,
        _ => 1 + rng.below(4),
    };
    // Large collections draw from more names, so that most names occur again.
    let bound = if count > 4 { 200 } else { 12 };
    let numbers: Vec<String> = (0..count).map(|_| rng.below(bound).to_string()).collect();
    let ttl = (1 + rng.below(600)).to_string();
    let kind = rng.of(&["set", "hash", "zset", "list"]);
    let key = format!("{kind}:{}", rng.below(2));
    let expire = |name: &str, word: &str, numbers: Vec<String>| {
        let head = [name, &key, &ttl, word, &count.to_string()].map(str::to_string);
        [head.to_vec(), numbers].concat()
    };
    let pairs = |name: &str| {
        let pairs = numbers
            .iter()
            .flat_map(|number| [number.clone(), number.clone()]);
        [name, &key]
            .map(str::to_string)
            .into_iter()
            .chain(pairs)
            .collect()
    };
    let all = |name: &str, numbers: Vec<String>| {
        [[name, &key].map(str::to_string).to_vec(), numbers].concat()
    };
    match (kind, rng.below(10)) {
        (_, 0) => all("DEL", Vec::new()),
        (_, 1) => all("COPY", vec![format!("{kind}:9"), "REPLACE".to_string()]),
        ("set", 2..=4) => all("SADD", numbers),
        ("set", 5..=7) => expire("SPEXPIRE", "MEMBERS", numbers),
        ("set", 8) => all("SREM", numbers),
        ("set", _) => all("SPOP", vec![count.to_string()]),
        ("hash", 2..=4) => pairs("HSET"),
        ("hash", 5..=7) => expire("HPEXPIRE", "FIELDS", numbers),
        ("hash", _) => all("HDEL", numbers),
        ("zset", 2..=4) => pairs("ZADD"),
        ("zset", 5..=7) => expire("ZPEXPIRE", "MEMBERS", numbers),
        ("zset", 8) => all("ZREM", numbers),
        ("zset", _) => all("ZPOPMIN", vec![count.to_string()]),
        (_, 2..=7) => all("RPUSH", numbers),
        _ => all("LPOP", vec![count.to_string()]),
    }
}

/// Runs random commands and returns the number of expired elements. It may be 0 if the memory is
/// full of entries that cannot be evicted.
fn run_with_full_memory(policy: &str, expiry: &str, seed: u64) -> u64 {
    let options = store::Options {
        shards: 4,
        policy: policy.into(),
        expiry: expiry.into(),
        maxmemory: 200_000,
        hash_key: [seed, 2],
        seed,
    };
    let (clock, config) = (Clock::manual(START.0), Config::default());
    let of_elements = settings::find("element-expiry").expect("a setting of this name");
    config.set(of_elements, expiry).expect("an index");
    let server = Server::with_store(config, &options, 1, clock).expect("valid options");
    server.data.keyspace.set_notify(true);
    let mut session = Session::new();
    let mut rng = Random::new(seed);
    let (mut now, mut out, mut events) = (START, Vec::new(), Vec::new());
    for step in 0..STEPS {
        let mut command = rng.command(now.0);
        // Writes many other keys and large values besides those that the random commands use.
        if step % 2 == 0 || command[0] == "FLUSHDB" {
            let key = format!("crowd:{}", rng.below(2_000));
            let value = "x".repeat(rng.below(3_000));
            command = ["SET", &key, &value, "PX", &(1 + rng.below(400)).to_string()]
                .map(str::to_string)
                .to_vec();
        } else if step % 4 == 1 {
            command = elements(&mut rng);
        }
        let args: Vec<&[u8]> = command.iter().map(|word| word.as_bytes()).collect();
        out.clear();
        server::exec(&server, &mut session, &args, now, &mut out);
        let (_, rest) = render(&out, Protocol::Resp2).expect("a whole reply");
        assert!(
            rest.is_empty(),
            "{policy} {expiry}, step {step}: {command:?}"
        );
        now.0 += rng.below(4) as u64;
        if rng.below(20) == 0 {
            for shard in 0..options.shards {
                let space = &server.data.keyspace;
                space.expire(shard, now, 200, &mut events, &mut |deadline, _| {
                    assert!(deadline < now);
                });
                space.background_step(shard, now, 200, &mut events);
            }
            events.clear();
        }
    }
    server.data.keyspace.check();
    let counters = server.data.keyspace.counters();
    assert!(counters.expired_keys > 0, "{policy}: none expires");
    assert!(
        (counters.evicted_keys > 0) == (policy != "noeviction"),
        "{policy} evicts"
    );
    counters.expired_elements
}

#[test]
fn commands_work_with_full_memory_under_every_policy() {
    let runs = Keyspace::policy_names().into_iter().zip(1..);
    let expired: Vec<u64> = runs
        .map(|(policy, seed)| run_with_full_memory(&policy, "wheel", seed))
        .collect();
    let some = expired.iter().filter(|&&count| count > 0).count();
    assert!(some * 2 > expired.len(), "{expired:?}");
}

#[test]
fn commands_work_with_full_memory_under_every_index() {
    for (expiry, seed) in Keyspace::expiry_names().iter().zip(100..) {
        let expired = run_with_full_memory("allkeys-s3fifo", expiry, seed);
        assert!(
            expired + run_with_full_memory("volatile-s3fifo", expiry, seed + 50) > 0,
            "{expiry}"
        );
    }
}
