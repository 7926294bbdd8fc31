//! Bytes per object, with 16-byte keys and 3-byte values, for numbers of keys between the powers of
//! two.
// One thread and many thousands of objects would take Miri hours; of this it runs
// `engine_against_model`.
#![cfg(not(miri))]

use policy::Tick;
use segment::{Condition, Config, Segcache, Value};

/// The promised maximum: 24 bytes in the segment, and at least 64 / 7 in the table.
const BYTES_MAX: f64 = 37.0;

/// Stores objects up to a number in memory that they nearly fill, and checks the bytes at several
/// numbers.
fn fill(first: u64, last: u64, ttls: &[Option<u64>]) {
    let step = (last - first) / 8;
    let config = Config {
        memory_bytes: last * 40,
        // A thousandth of the test's data, as a megabyte is of a gigabyte, because segments in use
        // count whole.
        segment_bytes: 64 << 10,
        ..Config::default()
    };
    let cache: Segcache = Segcache::new(&config).expect("valid");
    let mut writer = cache.writer().expect("the first");
    for number in 1..=last {
        let mut name = *b"key:000000000000";
        name[8..].copy_from_slice(&number.to_be_bytes());
        let value = Value::plain(b"abc");
        let key = cache.key(&name);
        let ttl = ttls[number as usize % ttls.len()];
        let stored = cache.set(&mut writer, &key, value, ttl, Condition::Always, Tick(1));
        assert!(stored.is_ok());
        if number >= first && (number - first).is_multiple_of(step) {
            let stats = cache.stats();
            assert_eq!((stats.items, stats.live_bytes), (number, number * 24));
            let bytes = stats.memory_bytes as f64 / number as f64;
            let lines = stats.table_lines as f64 * 64.0 / number as f64;
            println!("{number} objects: {bytes:.2} bytes each, the table's lines {lines:.2}");
            assert!(bytes <= BYTES_MAX, "{bytes} bytes at {number}");
        }
    }
    assert_eq!(cache.stats().crowded_out, 0);
}

#[test]
fn sixteen_and_three_bytes_take_37() {
    fill(1_000_000, 1_700_000, &[None]);
}

/// One segment of each TTL is partly filled.
#[test]
fn objects_with_deadlines_take_no_more() {
    let seconds = [10, 60, 300, 3_600, 7_200, 86_400, 604_800];
    let ttls = seconds.map(|seconds| Some(seconds * 1_000));
    fill(1_100_000, 1_350_000, &ttls);
}
