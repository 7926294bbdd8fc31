//! Objects live as long as requested, within the documented rounding, regardless of what else is
//! stored.
// One thread and many thousands of objects would take Miri hours; of this it runs
// `engine_against_model`.
#![cfg(not(miri))]

use policy::{Budget, Tick};
use segment::{Condition, Config, Payload, Segcache, Value, Writer};

const NOW: u64 = 1_700_000_000_000;

fn engine(memory_bytes: u64, segment_bytes: usize, writers: u16) -> (Segcache, Vec<Writer>) {
    let config = Config {
        memory_bytes,
        segment_bytes,
        writers,
        ..Config::default()
    };
    let cache: Segcache = Segcache::new(&config).expect("valid");
    let writers = (0..writers).map(|_| cache.writer().expect("one of those configured"));
    let writers = writers.collect();
    (cache, writers)
}

fn set(cache: &Segcache, writer: &mut Writer, name: &[u8], ttl_ms: u64, now: u64) -> u64 {
    let (key, value) = (cache.key(name), Value::plain(&[7; 58]));
    let ttl = Some(ttl_ms);
    let stored = cache.set(writer, &key, value, ttl, Condition::Always, Tick(now));
    stored.expect("there is room").deadline.expect("it ends").0
}

/// Rewrites a key with its existing deadline. Returns the deadline after that, or `None` if the key
/// has expired.
fn rewrite(cache: &Segcache, writer: &mut Writer, name: &[u8], now: u64) -> Option<u64> {
    let key = cache.key(name);
    let mut value = vec![];
    let item = cache.peek(&key, Tick(now), &mut value)?;
    value[0] ^= 1;
    let payload = Payload::Bytes(Value::plain(&value));
    let same = Condition::Unchanged(item.cas);
    let stored = cache.store_until(writer, &key, payload, item.deadline, same, Tick(now));
    stored.expect("there is room").deadline.map(|tick| tick.0)
}

fn random(number: u64) -> u64 {
    let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 20
}

#[test]
fn three_thousand_rewrites_shorten_a_ttl_by_less_than_a_width() {
    let (cache, mut writers) = engine(8 << 20, 4 << 10, 1);
    let writer = &mut writers[0];
    // Segments of many TTLs and ages are open.
    for second in 0..200 {
        let ttl_ms = 10_000 + random(second) % 4_000_000;
        set(
            &cache,
            writer,
            &second.to_le_bytes(),
            ttl_ms,
            NOW - 200_000 + second * 1_000,
        );
    }
    let first = set(&cache, writer, b"log", 3_600_000, NOW);
    assert!(NOW + 3_600_000 - first < 2 * 128_000);
    let mut kept = first;
    for number in 0..3_000 {
        kept = rewrite(&cache, writer, b"log", NOW + number / 3).expect("it has not expired");
    }
    assert!(first - kept < 128_000, "{} ms lost", first - kept);
    cache.check();
}

#[test]
fn a_key_rewritten_until_its_deadline_keeps_the_deadline() {
    let (cache, mut writers) = engine(8 << 20, 4 << 10, 1);
    let writer = &mut writers[0];
    let first = set(&cache, writer, b"log", 3_600_000, NOW);
    let mut second = None;
    let mut now = NOW;
    loop {
        now += 700;
        while cache.maintain(writer, Tick(now), &mut Budget(50)) {}
        for other in 0..3 {
            let number = random(now + other);
            let name = (number % 5_000).to_le_bytes();
            match number % 2 {
                0 => drop(rewrite(&cache, writer, &name, now)),
                _ => drop(set(&cache, writer, &name, 1_000 + number % 600_000, now)),
            }
        }
        let Some(kept) = rewrite(&cache, writer, b"log", now) else {
            break;
        };
        // Rounded once, by less than a width.
        assert_eq!(
            *second.get_or_insert(kept),
            kept,
            "{} s on",
            (now - NOW) / 1_000
        );
    }
    let kept = second.expect("it was rewritten");
    assert!(first - kept < 128_000, "{} ms lost", first - kept);
    assert!(
        now > kept && now - kept <= 700,
        "it was over before its time"
    );
    assert_eq!(cache.stats().evicted, 0);
    cache.check();
}

#[test]
fn widely_spread_ttls_have_room_in_few_segments() {
    for (writers, per_second) in [
        (1, 10_000),
        (2, 10_000),
        (4, 10_000),
        (1, 50),
        (2, 50),
        (4, 50),
    ] {
        let (cache, mut writers) = engine(64 << 20, 1 << 20, writers);
        let count = writers.len();
        let (mut asked_ms, mut lost_ms, mut worst) = (0, 0, 0.0f64);
        for number in 0..60_000u64 {
            let ttl_ms = (60 + random(number) % 1_941) * 1_000;
            let now = NOW + number * 1_000 / per_second;
            let name = format!("key{number}");
            let writer = &mut writers[number as usize % count];
            while cache.maintain(writer, Tick(now), &mut Budget(50)) {}
            let deadline = set(&cache, writer, name.as_bytes(), ttl_ms, now);
            let lost = now + ttl_ms - deadline;
            asked_ms += ttl_ms;
            lost_ms += lost;
            worst = worst.max(lost as f64 / ttl_ms as f64);
        }
        let stats = cache.stats();
        let share = lost_ms as f64 / asked_ms as f64;
        println!(
            "{count} writers, {per_second}/s: {share:.3} of the objects lost, {worst:.3} at most, {stats:?}"
        );
        assert_eq!(
            stats.items + stats.expired,
            60_000,
            "{count} writers: {stats:?}"
        );
        assert_eq!((stats.evicted, stats.crowded_out), (0, 0));
        assert!(share < 0.25, "{share} of the objects");
        assert!(worst < 0.76, "{worst} of a life");
        cache.check();
    }
}

/// The table of the docs: minimum TTL, and the percentage of a TTL that may be lost.
const LOST_PERCENT: [(u64, u64); 4] = [(25, 57), (200, 23), (2_048_000, 12), (8_388_608_000, 100)];

#[test]
fn no_ttl_is_shortened_by_more_than_documented() {
    let mut ttl_ms = 25;
    while ttl_ms < 8_000_000_000 {
        let (cache, mut writers) = engine(2 << 20, 4 << 10, 1);
        let row = LOST_PERCENT.iter().rev().find(|(from, _)| ttl_ms >= *from);
        let (_, percent) = row.expect("the first begins below");
        for step in 0..200 {
            // While a segment of the same TTL gets as old as it can, and older.
            let now = NOW + ttl_ms * step / 600;
            let deadline = set(&cache, &mut writers[0], &step.to_le_bytes(), ttl_ms, now);
            let requested = now + ttl_ms;
            assert!(deadline <= requested);
            let lost = requested - deadline;
            assert!(lost * 100 <= ttl_ms * percent, "{ttl_ms} loses {lost}");
        }
        ttl_ms += 1 + ttl_ms / 37;
    }
}

#[test]
fn flushed_objects_do_not_count_as_expired() {
    let (cache, mut writers) = engine(2 << 20, 4 << 10, 1);
    for number in 0..1_000u64 {
        set(&cache, &mut writers[0], &number.to_le_bytes(), 100_000, NOW);
    }
    cache.clear();
    // Due at once, and late after no deadline.
    assert_eq!(cache.next_due(), Some(Tick(0)));
    set(&cache, &mut writers[0], b"after", 100_000, NOW);
    while cache.maintain(&mut writers[0], Tick(NOW), &mut Budget(50)) {}
    let stats = cache.stats();
    assert_eq!(
        (stats.items, stats.expired, stats.segments_expired),
        (1, 0, 0)
    );
    assert_eq!(stats.flushed, 1_000);
    assert!(cache.next_due() > Some(Tick(NOW)));
    cache.check();
}
