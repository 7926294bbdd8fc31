//! The memory that a keyspace uses after it was full, after a mass expiry, and when eviction is
//! turned on.

use policy::Tick;
use policy::any::{AnyPolicy, PolicySpec};
use policy::parts::chance::{Chance, scramble};
use policy::suite::policy::Trial;
use store::{Keyspace, NewDeadline, Options};

const NOW: Tick = Tick(1_700_000_000_000);
const LIMIT: u64 = 2_000_000;

fn space(policy: &str, maxmemory: u64) -> Keyspace {
    let options = Options {
        shards: 8,
        policy: policy.into(),
        expiry: "wheel".into(),
        maxmemory,
        hash_key: [1, 2],
        seed: 3,
    };
    Keyspace::new(&options, NOW).expect("valid options")
}

/// Writes a key with a command's check for memory. Returns whether it was refused.
fn is_refused(space: &Keyspace, number: u32, value: &[u8], deadline: NewDeadline) -> bool {
    let mut view = space.lock_all(NOW);
    if view.is_out_of_memory() {
        return true;
    }
    let name = format!("key:{number}");
    view.set(&space.key(0, name.as_bytes()), value, deadline);
    false
}

fn work_in_background(space: &Keyspace, now: Tick) {
    for shard in 0..space.shard_count() {
        let mut calls = 0;
        while space
            .expire(shard, now, 256, &mut vec![], &mut |_, _| {})
            .more
            || space.background_step(shard, now, 256, &mut vec![])
        {
            calls += 1;
            assert!(calls < 100_000, "the work ends");
        }
    }
}

#[test]
fn a_keyspace_that_is_full_when_eviction_is_turned_on_refuses_no_write() {
    // Regression: 400 to 600 writes were refused until the background had moved the entries to the
    // new policy.
    for policy in Keyspace::policy_names() {
        if !policy.starts_with("allkeys-") {
            continue;
        }
        let space = space("noeviction", LIMIT);
        let mut number = 0;
        while !is_refused(&space, number, &[0; 50], NewDeadline::Clear) {
            number += 1;
        }
        assert!(number > 10_000);
        space.set_policy(&policy).expect("a listed policy");
        for more in 1..=2_000 {
            let is_refused = is_refused(&space, number + more, &[0; 50], NewDeadline::Clear);
            assert!(!is_refused, "{policy} refuses write {more}");
        }
        // Entries grow when they get bits of the policy, so that the second round evicts again.
        work_in_background(&space, NOW);
        work_in_background(&space, NOW);
        let used = space.memory_facts().used_bytes;
        assert!(used <= LIMIT, "{policy} rests at {used} bytes");
        space.check();
    }
}

#[test]
fn the_memory_rests_below_its_limit_after_a_fill() {
    for policy in Keyspace::policy_names() {
        if policy == "noeviction" {
            continue;
        }
        let space = space(&policy, LIMIT);
        for number in 0..6_000u32 {
            let size = [10, 300, 1_000, 10_000, 100_000]
                [(number.wrapping_mul(0x9e37_79b9) >> 29) as usize % 5];
            let deadline = NewDeadline::At(Tick(NOW.0 + 60_000 + u64::from(number)));
            let _ = is_refused(&space, number, &vec![0; size], deadline);
        }
        work_in_background(&space, NOW);
        // A write evicts from its own shard only. If the last ones were to shards without entries,
        // the memory is over its limit until others are written.
        for number in 0..100 {
            if space.memory_facts().used_bytes > LIMIT {
                let _ = is_refused(&space, number, &[0; 10], NewDeadline::Clear);
            }
        }
        let used = space.memory_facts().used_bytes;
        assert!(used <= LIMIT, "{policy} rests at {used} bytes");
    }
}

#[test]
fn a_mass_expiry_gives_the_memory_back() {
    // Regression: a fifth of the dead keys' part of the table remained.
    for policy in [
        "noeviction",
        "allkeys-lru",
        "allkeys-s3fifo",
        "allkeys-sieve",
    ] {
        for kept in [0u32, 5_000] {
            let space = space(policy, 0);
            for number in 0..kept {
                assert!(!is_refused(&space, number, b"v", NewDeadline::Clear));
            }
            work_in_background(&space, NOW);
            let before = space.memory_facts();
            for number in 0..60_000 {
                let deadline = NewDeadline::At(Tick(NOW.0 + 1_000));
                assert!(!is_refused(&space, 1_000_000 + number, b"v", deadline));
            }
            work_in_background(&space, Tick(NOW.0 + 2_000));
            // The index reorganizes itself later.
            work_in_background(&space, Tick(NOW.0 + 1_000_000));
            let after = space.memory_facts();
            assert_eq!(after.pending_objects, 0);
            // Eight empty tables, and for queues of a policy up to twice the references in use.
            let slack = 64_000 + before.policy_bytes * 2;
            let limit = before.used_bytes + before.used_bytes / 10 + slack;
            let text = format!("{policy}, {kept} keys kept: {before:?} and {after:?}");
            assert!(after.used_bytes <= limit, "{text}");
            assert!(
                after.table_bytes <= before.table_bytes * 6 / 5 + 64_000,
                "{text}"
            );
            space.check();
        }
    }
}

#[test]
fn large_strings_are_passed_to_the_caller_to_be_freed() {
    // Regression: freeing a string of 256 MB held a worker for tens of milliseconds.
    let space = space("noeviction", 0);
    let (large, later) = (vec![b'v'; 5 << 20], Tick(NOW.0 + 1_000));
    for (number, deadline) in [(0, NewDeadline::Clear), (1, NewDeadline::At(later))] {
        assert!(!is_refused(&space, number, &large, deadline));
    }
    assert!(!is_refused(&space, 0, b"small", NewDeadline::Clear));
    work_in_background(&space, later);
    assert_eq!(space.take_large_blocks().len(), 1);
    work_in_background(&space, Tick(later.0 + 1));
    assert_eq!(space.take_large_blocks().len(), 1);
    for number in 0..3 {
        assert!(!is_refused(&space, number, &large, NewDeadline::Clear));
    }
    space.lock_all(NOW).flush(0);
    work_in_background(&space, Tick(later.0 + 2));
    let blocks = space.take_large_blocks();
    assert_eq!(blocks.len(), 3);
    assert!(blocks.iter().all(|block| *block == large));
    assert!(space.take_large_blocks().is_empty());
}

/// Requests whose popularity falls as a power and drifts, and scans of keys that come once.
fn drifting(requests: u64) -> Vec<u64> {
    let mut chance = Chance::new(7);
    let request = |number: u64| match number % 1_000 {
        0..150 => 1 << 32 | number,
        _ => scramble((20_000_f64).powf(chance.unit()) as u64 + number / 10_000 * 50) >> 1,
    };
    (0..requests).map(request).collect()
}

/// Returns the miss ratio of a keyspace of one shard, and the mean number of its entries while it
/// is full.
fn in_keyspace(policy: &str, outside: i64, room: u64, keys: &[u64]) -> (f64, f64) {
    let options = Options {
        shards: 1,
        policy: format!("allkeys-{policy}"),
        expiry: "wheel".into(),
        maxmemory: outside as u64 + room,
        hash_key: [1, 2],
        seed: 3,
    };
    let space = Keyspace::new(&options, NOW).expect("valid options");
    space.add_outside_bytes(outside);
    let (mut misses, mut held) = (0, Vec::new());
    // All entries are of one size.
    let mut size = 0;
    for (number, key) in keys.iter().enumerate() {
        let mut view = space.lock_all(Tick(NOW.0 + number as u64));
        let name = format!("{key:020}");
        let key = space.key(0, name.as_bytes());
        if view.get(&key).expect("a string").is_none() {
            misses += 1;
            assert!(!view.is_out_of_memory());
            view.set(&key, &[0; 400], NewDeadline::Clear);
        }
        drop(view);
        let bytes = space.memory_facts().entry_bytes;
        size = if number == 0 { bytes } else { size };
        held.push((bytes / size) as f64);
    }
    let most = held.iter().fold(0.0_f64, |most, &count| most.max(count));
    let is_full = |&count: &f64| count > 0.9 * most;
    let full: Vec<f64> = held.into_iter().filter(is_full).collect();
    let mean = full.iter().sum::<f64>() / full.len() as f64;
    (f64::from(misses) / keys.len() as f64, mean)
}

#[test]
fn a_keyspace_misses_as_its_policy_does_alone() {
    // Regression: bytes outside the shards, which count against the limit, were part of the
    // capacity of the policies, so that the small queue of S3-FIFO was larger than its share.
    let keys = drifting(150_000);
    for (policy, spec) in [
        ("fifo", "fifo"),
        ("exact-lru", "lru"),
        ("s3fifo", "s3fifo"),
        ("s3fifo-w", "s3fifo-w"),
        ("sieve", "sieve"),
    ] {
        for outside in [0, 4_000_000] {
            let (ratio, entries) = in_keyspace(policy, outside, 1_000_000, &keys);
            let spec: PolicySpec = spec.parse().expect("a name");
            let mut alone = Trial::<AnyPolicy>::new(entries.round() as u64, &spec, 3);
            let mut misses = 0;
            for &key in &keys {
                misses += u32::from(!alone.table.contains_key(&key));
                alone.request(key, 1, 1_000);
            }
            let expected = f64::from(misses) / keys.len() as f64;
            println!("{policy} {outside} {entries:.0}: {ratio:.4}, alone {expected:.4}");
            assert!(
                (ratio - expected).abs() < 0.001,
                "{policy} with {outside} bytes outside: {ratio:.4}, alone {expected:.4}"
            );
        }
    }
}
