//! Bytes per entry of a stream as the docs state them: entries of one field with a name of 14 bytes
//! and a value of 3 bytes, without and with deadlines, and pending ones. The bytes are those that
//! the keyspace counts.

use store::stream::{Delivery, StreamId};
use store::{Keyspace, Options, Tick};

const NOW: Tick = Tick(1_700_000_000_000);
const ENTRIES: u32 = 250_000;

fn space() -> Keyspace {
    let options = Options {
        shards: 1,
        policy: "noeviction".into(),
        expiry: "wheel".into(),
        maxmemory: 0,
        hash_key: [21, 22],
        seed: 23,
    };
    Keyspace::new(&options, NOW).expect("valid options")
}

/// Adds the entries, three in each millisecond, and returns the bytes per entry.
fn fill(space: &Keyspace, ttl: impl Fn(u32) -> Option<u64>) -> f64 {
    let key = space.key(0, b"stream");
    for number in 0..ENTRIES {
        let mut view = space.lock_one(0, Tick(NOW.0 + u64::from(number / 3)));
        let edited = view.edit_stream(&key, true, |stream, scene| {
            let deadline = ttl(number).map(|ttl| Tick(scene.now.0 + ttl));
            let id = stream.next_id(scene)?;
            let fields = [(&b"field:00000000"[..], &b"abc"[..])];
            stream.add(id, deadline, fields.into_iter(), scene);
            Some(())
        });
        assert!(edited.is_ok_and(|edited| edited.is_some()));
    }
    bytes(space)
}

fn bytes(space: &Keyspace) -> f64 {
    space.memory_facts().used_bytes as f64 / f64::from(ENTRIES)
}

#[test]
fn an_entry_costs_few_bytes() {
    let bytes = fill(&space(), |_| None);
    println!("{bytes} bytes an entry");
    assert!(bytes < 7.0, "{bytes} bytes an entry");
}

#[test]
fn an_entry_with_a_deadline_costs_few_bytes() {
    let bytes = fill(&space(), |number| {
        Some(1_000_000 + u64::from(number % 1000))
    });
    println!("{bytes} bytes an entry with a deadline");
    assert!(bytes < 14.0, "{bytes} bytes an entry");
}

#[test]
fn a_pending_entry_costs_few_bytes() {
    let space = space();
    let before = fill(&space, |_| None);
    let key = space.key(0, b"stream");
    let mut view = space.lock_one(0, NOW);
    let edited = view.edit_stream(&key, false, |stream, scene| {
        assert!(stream.create_group(b"group", StreamId::MIN, None));
        let consumer = stream.add_consumer(b"group", b"consumer", scene)??;
        let delivery = Delivery {
            consumer,
            count: ENTRIES as usize,
            becomes_pending: true,
        };
        let mut count = 0;
        stream.deliver(b"group", &delivery, scene, &mut |_| count += 1);
        Some(count)
    });
    let count = edited.ok().flatten().map(|edited| edited.result);
    assert_eq!(count, Some(ENTRIES));
    drop(view);
    let bytes = bytes(&space) - before;
    println!("{bytes} bytes a pending entry");
    assert!(bytes < 120.0, "{bytes} bytes a pending entry");
}
