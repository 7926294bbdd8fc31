//! Bytes per field as the docs state them: fields of 14 bytes with values of 3 bytes in one large
//! hash, at counts between powers of two, and in hashes of one field each. The bytes are those that
//! the keyspace counts.

use store::{Keyspace, Options, Tick};

const NOW: Tick = Tick(1_700_000_000_000);
/// A quarter of 0.75, 1, 1.25 and 1.5 million.
const FIELDS: [u32; 4] = [187_500, 250_000, 312_500, 375_000];

fn space() -> Keyspace {
    let options = Options {
        shards: 16,
        policy: "noeviction".into(),
        expiry: "wheel".into(),
        maxmemory: 0,
        hash_key: [21, 22],
        seed: 23,
    };
    Keyspace::new(&options, NOW).expect("valid options")
}

/// Returns deadlines spread over ten hours.
fn deadline(number: u32) -> Tick {
    Tick(NOW.0 + 1000 + u64::from(number.wrapping_mul(2_654_435_761)) % 36_000_000)
}

/// Sets a field with a value of three bytes, with or without a deadline.
fn put(space: &Keyspace, key: &str, number: u32, deadline: Option<Tick>) {
    let key = space.key(0, key.as_bytes());
    let field = format!("field:{number:08}");
    let mut view = space.lock_one(space.shard_of(&key), NOW);
    let edited = view.edit_hash(&key, true, |hash, scene| {
        hash.set(field.as_bytes(), b"abc", scene);
        hash.set_deadline(field.as_bytes(), deadline, scene);
        Some(())
    });
    assert!(edited.is_ok_and(|edited| edited.is_some()));
}

fn bytes(space: &Keyspace) -> f64 {
    // Background work removes what an index has left.
    let mut events = vec![];
    for shard in 0..space.shard_count() {
        while space
            .expire(shard, NOW, 10_000, &mut events, &mut |_, _| ())
            .more
        {}
        while space.background_step(shard, NOW, 10_000, &mut events) {}
    }
    let facts = space.memory_facts();
    (facts.used_bytes + facts.arena_free_bytes) as f64
}

fn worst_of_one_hash(deadline_of: impl Fn(u32) -> Option<Tick>) -> f64 {
    let space = space();
    let (mut next, mut worst) = (0, 0f64);
    for fields in FIELDS {
        while next < fields {
            put(&space, "hash", next, deadline_of(next));
            next += 1;
        }
        worst = worst.max(bytes(&space) / f64::from(fields));
    }
    worst
}

fn of_small_hashes(deadline_of: impl Fn(u32) -> Option<Tick>) -> f64 {
    let space = space();
    for number in 0..250_000 {
        put(
            &space,
            &format!("h:{number:06}"),
            number,
            deadline_of(number),
        );
    }
    bytes(&space) / 250_000.0
}

#[test]
fn a_field_of_a_large_hash_costs_few_bytes() {
    let worst = worst_of_one_hash(|_| None);
    println!("{worst} bytes a field");
    assert!(worst < 27.0, "{worst} bytes a field");
}

#[test]
fn a_field_with_a_deadline_costs_few_bytes() {
    let worst = worst_of_one_hash(|number| Some(deadline(number)));
    println!("{worst} bytes a field with a deadline");
    assert!(worst < 42.0, "{worst} bytes a field");
}

#[test]
fn a_hash_of_one_field_costs_few_bytes() {
    let bytes = of_small_hashes(|_| None);
    println!("{bytes} bytes a hash");
    assert!(bytes < 42.0, "{bytes} bytes a hash");
}

#[test]
fn a_hash_of_one_field_with_a_deadline_costs_few_bytes() {
    let bytes = of_small_hashes(|number| Some(deadline(number)));
    println!("{bytes} bytes a hash with a deadline");
    assert!(bytes < 69.0, "{bytes} bytes a hash");
}
