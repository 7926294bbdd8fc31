//! Fuzz target of the reply decoder. The scanner finds the same end for all sizes of reads, the
//! builder agrees with it, and a value that is encoded and decoded again is the same.

use wire::{ReplyScanner, Value, skip_reply};

/// Runs the target on a stream.
pub fn run(data: &[u8]) {
    let whole = skip_reply(data);
    let mut scanner = ReplyScanner::default();
    let mut pieces = Ok(None);
    // The first bytes one by one, then growing pieces, so that long inputs stay fast.
    let mut end = 0;
    while pieces == Ok(None) && end < data.len() {
        end = (end + 1 + end / 64).min(data.len());
        pieces = scanner.scan(&data[..end]);
    }
    assert_eq!(pieces, whole);

    let Ok(Some((value, len))) = Value::decode(data) else {
        assert!(!matches!(Value::decode(data), Ok(None)) || whole == Ok(None));
        return;
    };
    assert_eq!(whole, Ok(Some(len)));
    let mut once = Vec::new();
    value.encode(&mut once);
    let decoded = Value::decode(&once);
    let Ok(Some((again, again_len))) = decoded else {
        panic!("{:?} does not decode", once.escape_ascii());
    };
    assert_eq!(again_len, once.len());
    // Compared by their bytes, because a NaN differs from itself.
    let mut twice = Vec::new();
    again.encode(&mut twice);
    assert_eq!(once, twice);
}
