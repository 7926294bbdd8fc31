//! Random commands while memory is short and keys die: every policy, every index, no Redis beside us.
//! Each command has one reply, nothing panics, and what is stored stays consistent.

use crate::random::Chance;
use crate::script::{START, render};
use server::clock::Clock;
use server::config::{self, Config};
use server::{Server, Session};
use store::Keyspace;
use wire::Protocol;

const STEPS: usize = 4_000;

/// A command on a collection, with elements that have deadlines, of any size.
fn elements(chance: &mut Chance) -> Vec<String> {
    let count = match chance.below(12) {
        0 => 120,
        1..=3 => 40,
        _ => 1 + chance.below(4),
    };
    // Most are found again.
    let bound = if count > 4 { 200 } else { 12 };
    let numbers: Vec<String> = (0..count)
        .map(|_| chance.below(bound).to_string())
        .collect();
    let ttl = (1 + chance.below(600)).to_string();
    let kind = chance.of(&["set", "hash", "zset", "list"]);
    let key = format!("{kind}:{}", chance.below(2));
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
    match (kind, chance.below(10)) {
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

/// How many elements expire: where all memory is full of what may not be evicted, perhaps none.
fn crowd(policy: &str, expiry: &str, seed: u64) -> u64 {
    let options = store::Options {
        shards: 4,
        policy: policy.into(),
        expiry: expiry.into(),
        maxmemory: 200_000,
        hash_key: [seed, 2],
        seed,
    };
    let (clock, config) = (Clock::manual(START.0), Config::default());
    let of_elements = config::find("element-expiry").expect("a setting of this name");
    config.set(of_elements, expiry).expect("an index");
    let server = Server::with_store(config, &options, 1, clock).expect("valid options");
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
                &(1 + chance.below(8_000)).to_string(),
            ]
            .map(str::to_string)
            .to_vec();
        } else if step % 4 == 1 {
            command = elements(&mut chance);
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
                space.background_step(shard, now, 200, &mut events);
            }
            events.clear();
        }
    }
    server.keyspace.check();
    let counters = server.keyspace.counters();
    assert!(counters.expired_keys > 0, "{policy}: none expires");
    assert!(
        (counters.evicted_keys > 0) == (policy != "noeviction"),
        "{policy} evicts"
    );
    counters.expired_elements
}

#[test]
fn commands_survive_full_memory_under_every_policy() {
    let runs = Keyspace::policy_names().into_iter().zip(1..);
    let expired: Vec<u64> = runs
        .map(|(policy, seed)| crowd(&policy, "wheel", seed))
        .collect();
    let some = expired.iter().filter(|&&count| count > 0).count();
    assert!(some * 2 > expired.len(), "{expired:?}");
}

#[test]
fn commands_survive_full_memory_under_every_index() {
    for (expiry, seed) in Keyspace::expiry_names().iter().zip(100..) {
        let expired = crowd("allkeys-s3fifo", expiry, seed);
        assert!(
            expired + crowd("volatile-s3fifo", expiry, seed + 50) > 0,
            "{expiry}"
        );
    }
}
