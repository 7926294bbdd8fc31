//! Fuzz target of numbers. What is read, written and read again is the same. The three readers
//! agree with each other and with the standard library where their ranges overlap.

use wire::LongDouble;
use wire::number::{Text, parse_f64, parse_i64, parse_u64};

/// Runs the target on two texts, separated by the first blank.
pub fn run(data: &[u8]) {
    let at = data
        .iter()
        .position(|&byte| byte == b' ')
        .unwrap_or(data.len());
    let (left, right) = (&data[..at], data.get(at + 1..).unwrap_or(b"1"));
    let std_text = std::str::from_utf8(left).unwrap_or("");

    if let Some(number) = parse_i64(left) {
        assert_eq!(Text::integer(number).as_bytes(), left);
        assert_eq!(std_text.parse(), Ok(number));
        assert!(parse_f64(left).is_some());
        assert_eq!(written(LongDouble::parse(left)), Some(left.to_vec()));
    } else if let Ok(number) = std_text.parse::<i64>() {
        assert_ne!(number.to_string(), std_text);
    }
    if let Some(number) = parse_u64(left) {
        assert_eq!(Text::unsigned(number).as_bytes(), left);
    }
    if let Some(number) = parse_f64(left) {
        let text = Text::double(number);
        let again = parse_f64(text.as_bytes()).expect("what was written can be read");
        assert_eq!(again.to_bits(), number.to_bits());
        if left.len() < 5000 {
            assert!(LongDouble::parse(left).is_some());
        }
    }
    let (a, b) = (LongDouble::parse(left), LongDouble::parse(right));
    if let (Some(a), Some(b)) = (a, b) {
        assert_eq!(written(a.plus(b)), written(b.plus(a)));
        // Rounded to 17 decimals it may become zero, but it can always be read.
        let text = written(a.plus(b)).unwrap_or(b"0".to_vec());
        assert!(LongDouble::parse(&text).is_some());
    }
}

fn written(number: Option<LongDouble>) -> Option<Vec<u8>> {
    number.map(|number| {
        let mut text = Vec::new();
        number.push_decimal(&mut text);
        text
    })
}
