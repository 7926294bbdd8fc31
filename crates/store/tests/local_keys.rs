//! On a replica, keys last written by its own clients expire by its own clock, and the primary's
//! keys expire when the primary says so.

use store::{Key, Keyspace, NewDeadline, Options, Tick};

const NOW: Tick = Tick(1_700_000_000_000);
const DUE: Tick = Tick(NOW.0 + 50);
const LATER: Tick = Tick(NOW.0 + 100);
/// Horizon of the primary's commands, and limit of removal.
const EARLIEST: Tick = Tick(1);

fn replica() -> Keyspace {
    let options = Options {
        shards: 1,
        policy: "noeviction".into(),
        expiry: "wheel".into(),
        maxmemory: 0,
        hash_key: [7, 8],
        seed: 9,
    };
    let space = Keyspace::new(&options, NOW).expect("valid options");
    space.set_removal_limit(Some(EARLIEST));
    space
}

fn set(space: &Keyspace, key: &Key<'_>, deadline: Option<Tick>, is_primary: bool) {
    let mut view = space.lock_all(NOW);
    if is_primary {
        view.set_horizon(EARLIEST);
    }
    let deadline = deadline.map_or(NewDeadline::Clear, NewDeadline::At);
    view.set(key, b"value", deadline);
}

/// Runs expiry until nothing is due. Returns the number of keys and elements that it has removed.
fn expire(space: &Keyspace, now: Tick) -> u32 {
    let mut count = 0;
    for _ in 0..1000 {
        if space.due(0, now).is_none() {
            space.check();
            return count;
        }
        let expired = space.expire(0, now, 100, &mut Vec::new(), &mut |_, _| {});
        count += expired.count;
    }
    panic!("something stays due");
}

#[test]
fn a_key_that_a_client_has_written_expires() {
    // Regression: it stayed until the server became a primary.
    let space = replica();
    let (own, primarys) = (space.key(0, b"client"), space.key(0, b"primary"));
    set(&space, &own, Some(DUE), false);
    set(&space, &primarys, Some(DUE), true);
    assert_eq!(expire(&space, DUE), 0);
    assert_eq!(expire(&space, LATER), 1);
    assert_eq!(space.lock_all(LATER).len(0), 1);
    space.set_removal_limit(None);
    assert_eq!(
        expire(&space, LATER),
        1,
        "the primary's key expires after a promotion"
    );
}

#[test]
fn elements_that_a_client_has_given_deadlines_expire() {
    let space = replica();
    let key = space.key(0, b"hash");
    for count in [3u32, 2000] {
        let edited = space.lock_all(NOW).edit_hash(&key, true, |hash, scene| {
            for field in 0..count {
                hash.set(&field.to_le_bytes(), b"value", scene);
                let deadline = Tick(DUE.0 + u64::from(field % 2) * 1000);
                hash.set_deadline(&field.to_le_bytes(), Some(deadline), scene);
            }
            Some(())
        });
        edited.expect("it is a hash").expect("it is stored");
        let first = count.div_ceil(2);
        assert_eq!(expire(&space, LATER), first);
        assert_eq!(expire(&space, Tick(LATER.0 + 1000)), count - first);
        assert_eq!(space.lock_all(LATER).len(0), 0);
    }
}

#[test]
fn a_key_belongs_to_the_side_that_has_written_it_last() {
    let space = replica();
    let key = space.key(0, b"key");
    set(&space, &key, Some(DUE), false);
    set(&space, &key, Some(DUE), true);
    assert_eq!(expire(&space, LATER), 0, "the primary has written it");
    set(&space, &key, Some(DUE), false);
    set(&space, &key, None, false);
    assert_eq!(expire(&space, LATER), 0, "it has no deadline");
    set(&space, &key, Some(DUE), false);
    space.lock_all(NOW).delete(&key);
    set(&space, &key, Some(DUE), true);
    assert_eq!(expire(&space, LATER), 0, "it was deleted meanwhile");
    set(&space, &key, Some(DUE), false);
    space.lock_all(NOW).rename(&key, &space.key(0, b"other"));
    assert_eq!(expire(&space, LATER), 1, "it has another name");
}

#[test]
fn local_keys_follow_their_database() {
    let space = replica();
    let key = space.key(0, b"key");
    set(&space, &key, Some(DUE), false);
    space.lock_all(NOW).swap(0, 3);
    set(&space, &key, Some(DUE), true);
    assert_eq!(expire(&space, LATER), 1);
    assert_eq!(space.lock_all(LATER).len(0), 1, "the primary's key is left");
    set(&space, &key, Some(DUE), false);
    space.lock_all(NOW).flush(0);
    set(&space, &key, Some(DUE), true);
    assert_eq!(expire(&space, LATER), 0, "the key was flushed");
}

#[test]
fn local_keys_count_as_used_memory() {
    // Regression: the names and deadlines of local keys counted nowhere, so that clients could
    // exceed the memory limit with them.
    const COUNT: u64 = 1000;
    const NAME_BYTES: usize = 100;
    let (local, other) = (replica(), replica());
    for (space, is_primary) in [(&local, false), (&other, true)] {
        for number in 0..COUNT {
            let name = format!("{number:NAME_BYTES$}");
            set(space, &space.key(0, name.as_bytes()), Some(DUE), is_primary);
        }
    }
    let growth = local.published_bytes() - other.published_bytes();
    let least = COUNT * (NAME_BYTES as u64 + 64);
    assert!((least..least * 2).contains(&growth), "{growth} bytes");
    let used = |space: &Keyspace| space.memory_facts().used_bytes;
    assert!(used(&local).abs_diff(used(&other) + growth) < 4096);
    assert_eq!(expire(&local, LATER), COUNT as u32);
    other.lock_all(NOW).flush(0);
    local.lock_all(NOW).flush(0);
    assert_eq!((local.published_bytes(), used(&local)), (0, 0));
}
