//! The memory that a keyspace uses after it was full, after a mass expiry, and when eviction is
//! turned on.

use policy::Tick;
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
