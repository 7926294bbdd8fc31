//! The sum on paper, held: bytes by object of 16-byte keys and 3-byte values, all in, at numbers of keys
//! between the powers of two.

use policy::Tick;
use segment::{Condition, Config, Segcache, Value};

const KEYS: u64 = 2_000_000;
const STEP: u64 = 125_000;
const FIRST: u64 = 1_000_000;
/// 24 in the segment, 64 / 7 is what the table takes at least, and this is what we promise.
const BYTES_MAX: f64 = 37.0;

#[test]
fn sixteen_and_three_bytes_take_37() {
    let config = Config {
        memory_bytes: 128 << 20,
        // A thousandth of what the test fills, as a megabyte is of a gigabyte: what is begun counts whole.
        segment_bytes: 64 << 10,
        ..Config::default()
    };
    let cache: Segcache = Segcache::new(&config).expect("valid");
    let mut writer = cache.writer().expect("the first");
    for number in 1..=KEYS {
        let mut name = *b"key:000000000000";
        name[8..].copy_from_slice(&number.to_be_bytes());
        let value = Value::plain(b"abc");
        let key = cache.key(&name);
        let stored = cache.set(&mut writer, &key, value, None, Condition::Always, Tick(1));
        assert!(stored.is_ok());
        if number >= FIRST && number % STEP == 0 {
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
