//! Memory of expired objects is freed in time, and finding it reads one segment of each list.
// One thread and many thousands of objects would take Miri hours; of this it runs
// `engine_against_model`.
#![cfg(not(miri))]

use policy::{Budget, Tick};
use segment::{Condition, Config, Segcache, Value, Writer};

const NOW: u64 = 1_700_000_000_000;

fn engine() -> (Segcache, Writer) {
    let config = Config {
        memory_bytes: 8 << 20,
        segment_bytes: 4 << 10,
        ..Config::default()
    };
    let cache: Segcache = Segcache::new(&config).expect("valid");
    let writer = cache.writer().expect("the first");
    (cache, writer)
}

fn set(cache: &Segcache, writer: &mut Writer, number: u64, ttl_ms: u64, now: u64) {
    let name = number.to_le_bytes();
    let value = Value::plain(&[7; 100]);
    let ttl = Some(ttl_ms);
    let stored = cache.set(
        writer,
        &cache.key(&name),
        value,
        ttl,
        Condition::Always,
        Tick(now),
    );
    assert!(stored.is_ok());
}

/// Calls `maintain` whenever `next_due` is reached, like a worker.
fn drive(cache: &Segcache, writer: &mut Writer, until: u64) {
    while let Some(due) = cache.next_due()
        && due.0 <= until
    {
        while cache.maintain(writer, due, &mut Budget(50)) {}
    }
}

#[test]
fn memory_is_freed_when_the_deadline_has_passed() {
    for ttl_ms in [
        40,
        400,
        700,
        7_000,
        9_000,
        100_000,
        3_000_000,
        40_000_000,
        600_000_000,
    ] {
        let (cache, mut writer) = engine();
        let before = cache.stats();
        // Long enough for several segments.
        let step = (ttl_ms / 100).max(1);
        for number in 0..300 {
            let now = NOW + number * step;
            drive(&cache, &mut writer, now);
            set(&cache, &mut writer, number, ttl_ms, now);
        }
        let last = NOW + 299 * step;
        // Of the objects written last, only those in the first object's segment were removed with
        // it; that segment's deadlines differ by less than the bucket's width.
        drive(&cache, &mut writer, last + ttl_ms);
        assert!(
            cache.stats().items <= 1,
            "{} of {ttl_ms} ms",
            cache.stats().items
        );
        drive(&cache, &mut writer, last + ttl_ms + 1);
        let after = cache.stats();
        assert_eq!((after.items, after.segments_held), (0, 0), "{ttl_ms} ms");
        assert_eq!(after.expired, 300);
        assert_eq!(before.segments_free, after.segments_free);
        cache.check();
    }
}

#[test]
fn a_scan_reads_only_the_heads_of_lists() {
    let (cache, mut writer) = engine();
    // 50 lists of many segments each.
    for number in 0..20_000 {
        set(
            &cache,
            &mut writer,
            number,
            66_000 + number % 50 * 8_000,
            NOW,
        );
    }
    let held = cache.stats().segments_held;
    assert!(held > 500, "{held} segments");
    // Before the first deadline nothing is read.
    while cache.maintain(&mut writer, Tick(NOW + 64_000), &mut Budget(1_000)) {}
    assert_eq!(cache.stats().heads_read, 0);
    // One millisecond later the first list has expired: one scan for each of its segments, and one
    // that finds nothing. None reads more than one segment of each list.
    while cache.maintain(&mut writer, Tick(NOW + 64_001), &mut Budget(1_000)) {}
    let stats = cache.stats();
    assert_eq!(stats.expired, 400);
    assert_eq!(stats.expiry_scans, stats.segments_expired + 1);
    assert!(stats.heads_read <= stats.expiry_scans * 50);
    // The last scan, which found nothing, read 49 heads of more than 500 segments.
    let first = stats.heads_read;
    while cache.maintain(&mut writer, Tick(NOW + 64_001), &mut Budget(1_000)) {}
    assert_eq!(
        cache.stats().heads_read,
        first,
        "nothing is due, nothing is read"
    );
    println!(
        "{} heads in {} scans over {held} segments",
        stats.heads_read, stats.expiry_scans
    );
}

/// Returns the width of a TTL's bucket in milliseconds.
fn width_ms(ttl_ms: u64) -> u64 {
    match ttl_ms {
        0..4_000 => 25,
        4_000..64_000 => 500,
        64_000..2_048_000 => 8_000,
        2_048_000..32_768_000 => 128_000,
        _ => 2_048_000,
    }
}

#[test]
fn no_object_is_in_memory_a_width_and_a_second_after_its_deadline() {
    let (cache, mut writer) = engine();
    let mut now = NOW;
    let mut latest = vec![];
    for number in 0..6_000u64 {
        now += number * 7_919 % 40_000;
        drive(&cache, &mut writer, now);
        let random = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let ttl_ms = (random >> 32) % [400, 8_000, 2_000_000, 30_000_000][(random >> 62) as usize];
        set(&cache, &mut writer, number, ttl_ms, now);
        latest.push(now + ttl_ms + width_ms(ttl_ms) + 1_000);
        let held = cache.len();
        let may_be = latest.iter().filter(|&&latest| now <= latest).count() as u64;
        assert!(held <= may_be, "{held} are held, {may_be} may be");
    }
    assert!(cache.len() > 100, "{} at the end", cache.len());
    let end = latest.iter().max().expect("there are some");
    drive(&cache, &mut writer, *end);
    let stats = cache.stats();
    assert_eq!((stats.items, stats.segments_held), (0, 0));
    assert_eq!(stats.evicted + stats.crowded_out, 0);
    cache.check();
}
