//! Bytes per key as stated in the docs, at key counts between powers of two, where doubling tables
//! would show. The counts are an eighth of those for which `mayfly bench memory` measures resident
//! memory. The bytes are as counted by the keyspace.

use store::{Keyspace, NewDeadline, Options, Tick};

const NOW: Tick = Tick(1_700_000_000_000);
/// An eighth of 3, 4, 5, 6 and 8 million.
const KEYS: [u32; 5] = [375_000, 500_000, 625_000, 750_000, 1_000_000];

fn space(policy: &str, maxmemory: u64) -> Keyspace {
    let options = Options {
        shards: 16,
        policy: policy.into(),
        expiry: "wheel".into(),
        maxmemory,
        hash_key: [21, 22],
        seed: 23,
    };
    Keyspace::new(&options, NOW).expect("valid options")
}

/// Stores a 16-byte key with a 3-byte value.
fn put(space: &Keyspace, number: u32, deadline: NewDeadline) {
    let bytes = format!("{number:016}");
    let key = space.key(0, bytes.as_bytes());
    space
        .lock_one(space.shard_of(&key), NOW)
        .set(&key, b"abc", deadline);
}

/// Returns the maximum bytes per key over all key counts.
fn worst(deadline_of: impl Fn(u32) -> NewDeadline) -> f64 {
    let space = space("noeviction", 0);
    let (mut next, mut worst) = (0, 0f64);
    for keys in KEYS {
        while next < keys {
            put(&space, next, deadline_of(next));
            next += 1;
        }
        let facts = space.memory_facts();
        let bytes = facts.used_bytes + facts.arena_free_bytes;
        worst = worst.max(bytes as f64 / f64::from(keys));
    }
    worst
}

#[test]
fn a_key_without_a_deadline_costs_few_bytes() {
    let worst = worst(|_| NewDeadline::Clear);
    assert!(worst < 34.5, "{worst} bytes a key");
}

#[test]
fn a_key_with_a_deadline_costs_few_bytes() {
    // Deadlines spread over ten hours.
    let deadline = |n: u32| {
        NewDeadline::At(Tick(
            NOW.0 + 1000 + u64::from(n.wrapping_mul(2_654_435_761)) % 36_000_000,
        ))
    };
    let worst = worst(deadline);
    assert!(worst < 47.5, "{worst} bytes a key");
}

#[test]
fn a_key_costs_few_bytes_under_s3_fifo_with_a_full_ghost_queue() {
    let space = space("allkeys-s3fifo", 32 << 20);
    for number in 0..2_200_000 {
        put(&space, number, NewDeadline::Clear);
    }
    while (0..16).any(|shard| space.background_step(shard, NOW, 1000, &mut vec![])) {}
    let facts = space.memory_facts();
    let keys = space.lock_all(NOW).len(0) as f64;
    let policy = facts.policy_bytes as f64 / keys;
    let all = (facts.used_bytes + facts.arena_free_bytes) as f64 / keys;
    assert!(policy < 9.7, "{policy} bytes a key of queues and ghost");
    assert!(all < 44.5, "{all} bytes a key");
}
