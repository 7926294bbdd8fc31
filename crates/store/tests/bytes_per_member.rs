//! Bytes per member of a large set of members of 14 bytes as the keyspace counts them: without
//! deadlines, and with distinct ones.

use store::{Keyspace, Options, Tick};

const NOW: Tick = Tick(1_700_000_000_000);
/// A count that is not a power of two.
const MEMBERS: u32 = 300_000;

fn space() -> Keyspace {
    let options = Options {
        shards: 4,
        policy: "noeviction".into(),
        expiry: "wheel".into(),
        maxmemory: 0,
        hash_key: [31, 32],
        seed: 33,
    };
    Keyspace::new(&options, NOW).expect("valid options")
}

/// Returns the bytes per member of one set whose members have the given deadlines.
fn bytes_per_member(deadline: impl Fn(u32) -> Option<Tick>) -> f64 {
    let space = space();
    let empty = space.memory_facts().used_bytes;
    let key = space.key(0, b"set");
    for number in 0..MEMBERS {
        let member = format!("member{number:08}");
        let mut view = space.lock_one(space.shard_of(&key), NOW);
        let edited = view.edit_set(&key, true, |set, scene| {
            set.add(member.as_bytes(), scene);
            set.set_deadline(member.as_bytes(), deadline(number), scene);
            Some(())
        });
        assert!(edited.is_ok_and(|edited| edited.is_some()));
    }
    space.check();
    (space.memory_facts().used_bytes - empty) as f64 / f64::from(MEMBERS)
}

#[test]
fn a_member_of_a_large_set_costs_few_bytes() {
    let plain = bytes_per_member(|_| None);
    // Deadlines spread over ten hours.
    let spread = |number: u32| u64::from(number.wrapping_mul(2_654_435_761)) % 36_000_000;
    let timed = bytes_per_member(|number| Some(Tick(NOW.0 + 1000 + spread(number))));
    println!("{plain:.1} bytes a member, {timed:.1} with a deadline");
    assert!(plain <= 24.0, "{plain}");
    assert!(timed - plain <= 16.0, "{timed}");
}
