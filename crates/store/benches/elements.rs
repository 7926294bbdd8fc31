//! Nanoseconds of processor time per field of one large hash: setting it, giving it a deadline,
//! reading the deadline, changing it, and removing the field after all but a few have expired at
//! one instant. `cargo bench -p mayfly-store --bench elements [-- FIELDS [INDEX]]`; as a test it
//! runs with few fields.

#![expect(
    clippy::disallowed_methods,
    reason = "a bench reads its arguments and the processor time"
)]

use std::hint::black_box;
use store::{Hash, Key, Keyspace, Options, Scene, Tick};

const NOW: Tick = Tick(1_700_000_000_000);
const DEADLINE: Tick = Tick(NOW.0 + 1_000);
/// One field in this number has no deadline.
const SURVIVOR: u64 = 1_000;
/// Steps per slice of the expiry cycle.
const SLICE: u32 = 1_000;

fn mix(x: u64) -> u64 {
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// Returns the processor time of this process in nanoseconds.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    text.split(' ')
        .next()
        .and_then(|t| t.parse().ok())
        .unwrap_or(0)
}

struct Bench {
    space: Keyspace,
    fields: u64,
}

impl Bench {
    fn key(&self) -> Key<'static> {
        self.space.key(0, b"hash")
    }

    /// Runs `work` on every field in random order.
    fn each(&self, what: &str, work: impl Fn(&mut Hash, &[u8], u64, &Scene<'_>)) {
        let key = self.key();
        let mut view = self.space.lock_all(NOW);
        let start = cpu_ns();
        for turn in 0..self.fields {
            let number = mix(turn) % self.fields;
            let edited = view.edit_hash(&key, true, |hash, scene| {
                work(hash, format!("field:{number:08}").as_bytes(), number, scene);
                Some(())
            });
            black_box(edited.expect("it is a hash"));
        }
        self.report(what, start);
    }

    fn report(&self, what: &str, start: u64) {
        let each = (cpu_ns() - start) as f64 / self.fields as f64;
        println!("{what:<22} {each:>7.0} ns a field");
    }

    /// Removes all expired fields, slice by slice. Returns the number of fields left.
    fn drain(&self) -> usize {
        let (now, key) = (Tick(DEADLINE.0 + 1), self.key());
        let (shard, mut events, start) = (self.space.shard_of(&key), Vec::new(), cpu_ns());
        while self
            .space
            .expire(shard, now, SLICE, &mut events, &mut |_, _| ())
            .more
        {}
        self.report("drain", start);
        let mut view = self.space.lock_all(now);
        let len = view.read_hash(&key, |hash, scene| hash.len(scene));
        len.expect("it is a hash").unwrap_or(0)
    }
}

fn main() {
    let is_test =
        std::env::args().any(|a| a == "--test") || !std::env::args().any(|a| a == "--bench");
    let mut args = std::env::args().skip(1).filter(|arg| !arg.starts_with('-'));
    let fields = args.next().and_then(|arg| arg.parse().ok());
    let fields: u64 = fields.unwrap_or(if is_test { 10_000 } else { 1_000_000 });
    let options = Options {
        shards: 1,
        policy: "noeviction".into(),
        expiry: "wheel".into(),
        maxmemory: 0,
        hash_key: [1, 2],
        seed: 3,
    };
    let space = Keyspace::new(&options, NOW).expect("valid options");
    let index = args.next().unwrap_or_else(|| "ranked".into());
    let space = space.with_element_expiry(&index).expect("an index");
    let bench = Bench { space, fields };
    bench.each("set", |hash, field, _, scene| {
        hash.set(field, b"abc", scene);
    });
    bench.each("a deadline of its own", |hash, field, number, scene| {
        hash.set_deadline(field, Some(Tick(NOW.0 + 60_000 + number)), scene);
    });
    bench.each("deadline read", |hash, field, _, scene| {
        black_box(hash.deadline(field, scene));
    });
    bench.each("the same deadline", |hash, field, number, scene| {
        let deadline = (number % SURVIVOR > 0).then_some(DEADLINE);
        hash.set_deadline(field, deadline, scene);
    });
    let left = bench.drain();
    println!("{left} fields are left");
    bench.space.check();
    assert!(left > 0 && left as u64 <= fields.div_ceil(SURVIVOR));
}
