//! Nanoseconds of processor time for a get and a set in the keyspace alone, as done by a worker
//! with one data thread: all shards locked once for a batch of 32 keys, with and without
//! prefetching. `cargo bench -p mayfly-store [-- KEYS]`; run as a test, it uses few keys.

#![expect(
    clippy::disallowed_methods,
    reason = "a bench reads its arguments and the processor time"
)]

use std::hint::black_box;
use store::{Keyspace, NewDeadline, Options, Tick};

const BATCH: usize = 32;

fn mix(x: u64) -> u64 {
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// Returns sixteen bytes, made without touching memory that a server would not touch.
fn name_of(number: u64) -> [u8; 16] {
    let mut name = *b"key:000000000000";
    name[8..].copy_from_slice(&number.to_be_bytes());
    name
}

/// Returns the processor time of this process in nanoseconds.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    text.split(' ')
        .next()
        .and_then(|t| t.parse().ok())
        .unwrap_or(0)
}

fn main() {
    let is_test =
        std::env::args().any(|a| a == "--test") || !std::env::args().any(|a| a == "--bench");
    let keys = std::env::args().skip(1).find_map(|a| a.parse().ok());
    let keys: u64 = keys.unwrap_or(if is_test { 10_000 } else { 1_000_000 });
    let options = Options {
        shards: 16,
        policy: "noeviction".into(),
        expiry: "wheel".into(),
        maxmemory: 0,
        hash_key: [1, 2],
        seed: 3,
    };
    let now = Tick(1_700_000_000_000);
    let space = Keyspace::new(&options, now).expect("valid options");
    let mut next = 0u64;
    let mut run = |what: &str,
                   prefetch: bool,
                   work: &mut dyn FnMut(&mut store::View<'_>, &store::Key<'_>)| {
        let batches = keys as usize / BATCH;
        let start = cpu_ns();
        for _ in 0..batches {
            let mut view = space.lock_all(now);
            let mut names = [[0; 16]; BATCH];
            for name in &mut names {
                next += 1;
                *name = name_of(mix(next) % keys);
            }
            let batch = names.each_ref().map(|name| space.key(0, name));
            if prefetch {
                batch.iter().for_each(|key| view.prefetch_bucket(key));
                batch.iter().for_each(|key| view.prefetch_entry(key));
            }
            batch.iter().for_each(|key| work(&mut view, key));
        }
        let ns = (cpu_ns() - start) as f64 / (batches * BATCH) as f64;
        println!("{what:<28}{ns:>8.1} ns");
    };
    let at = NewDeadline::At(Tick(now.0 + 3_600_000));
    run("set, new", true, &mut |view, key| {
        view.set(key, b"abc", NewDeadline::Clear)
    });
    run("set, mostly over", true, &mut |view, key| {
        view.set(key, b"abc", NewDeadline::Clear)
    });
    for (how, prefetch) in [
        ("", false),
        (", prefetched", true),
        ("", false),
        (", prefetched", true),
    ] {
        let get = format!("get{how}");
        run(&get, prefetch, &mut |view, key| {
            black_box(view.get(key).is_ok());
        });
    }
    run("set over", false, &mut |view, key| {
        view.set(key, b"abc", NewDeadline::Clear)
    });
    run("set over, prefetched", true, &mut |view, key| {
        view.set(key, b"abc", NewDeadline::Clear)
    });
    run("set EX, first", true, &mut |view, key| {
        view.set(key, b"abc", at)
    });
    run("set EX over", true, &mut |view, key| {
        view.set(key, b"abc", at)
    });
    run("expire later", true, &mut |view, key| {
        view.set_deadline(key, Some(Tick(now.0 + 7_200_000)));
    });
    run("delete", true, &mut |view, key| {
        view.delete(key);
    });
}
