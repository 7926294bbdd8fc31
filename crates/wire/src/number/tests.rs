use super::*;

#[test]
fn integers_are_read_strictly() {
    let valid = [
        ("0", 0),
        ("7", 7),
        ("-1", -1),
        ("10", 10),
        ("1234567890123456789", 1_234_567_890_123_456_789),
        ("9223372036854775807", i64::MAX),
        ("-9223372036854775808", i64::MIN),
    ];
    for (text, number) in valid {
        assert_eq!(parse_i64(text.as_bytes()), Some(number), "text {text}");
    }
    let invalid: &[&[u8]] = &[
        b"",
        b"-",
        b"+",
        b"+1",
        b" 1",
        b"1 ",
        b"01",
        b"00",
        b"-0",
        b"-01",
        b"--1",
        b"1-",
        b"1.0",
        b"1e3",
        b"0x1",
        b"abc",
        b"1\0",
        b"\xff",
        b"9223372036854775808",
        b"-9223372036854775809",
        b"18446744073709551616",
        b"99999999999999999999",
        b"100000000000000000000000000",
    ];
    for text in invalid {
        assert_eq!(parse_i64(text), None, "text {:?}", text.escape_ascii());
    }
}

#[test]
fn unsigned_integers_reach_their_maximum() {
    assert_eq!(parse_u64(b"0"), Some(0));
    assert_eq!(parse_u64(b"18446744073709551615"), Some(u64::MAX));
    for bad in ["", "-1", "+1", "01", "18446744073709551616", "1 ", "x"] {
        assert_eq!(parse_u64(bad.as_bytes()), None, "text {bad}");
    }
}

#[test]
fn unsigned_integers_are_written_with_all_their_digits() {
    for number in [0, 9, 10, 11, 99, 100, 101, 12_345, u64::MAX] {
        let mut out = b":".to_vec();
        push_u64(&mut out, number);
        assert_eq!(out, format!(":{number}").into_bytes());
    }
}

#[test]
fn doubles_are_read_as_redis_reads_them() {
    let valid = [
        ("0", 0.0),
        ("-0", 0.0),
        ("0.0e5", 0.0),
        ("1", 1.0),
        ("+1.5", 1.5),
        (".5", 0.5),
        ("5.", 5.0),
        ("-2.5E-3", -0.0025),
        ("1e308", 1e308),
        ("5e-324", 5e-324),
        ("inf", f64::INFINITY),
        ("+Inf", f64::INFINITY),
        ("-INFINITY", f64::NEG_INFINITY),
    ];
    for (text, number) in valid {
        assert_eq!(parse_f64(text.as_bytes()), Some(number), "text {text}");
    }
    let invalid: &[&[u8]] = &[
        b"", b".", b"e5", b"-", b"nan", b"-NaN", b" 1", b"1 ", b"1e", b"1e400", b"-1e400",
        b"1e-400", b"1,5", b"0x10", b"1_0", b"1\0", b"\xff",
    ];
    for text in invalid {
        assert_eq!(parse_f64(text), None, "text {:?}", text.escape_ascii());
    }
}

#[test]
fn integers_are_written_as_the_standard_library_writes_them() {
    let mut numbers = vec![
        0,
        9,
        10,
        99,
        100,
        101,
        999,
        1000,
        i64::MAX,
        i64::MIN,
        -1,
        -10,
        -100,
    ];
    for shift in 0..63 {
        let power = 1i64 << shift;
        numbers.extend([power, -power, power - 1, power + 1]);
    }
    for number in numbers {
        assert_eq!(
            Text::integer(number).as_bytes(),
            number.to_string().as_bytes()
        );
        assert_eq!(
            Text::unsigned(number as u64).as_bytes(),
            (number as u64).to_string().as_bytes()
        );
        assert_eq!(parse_i64(Text::integer(number).as_bytes()), Some(number));
        let mut out = b"x".to_vec();
        push_i64(&mut out, number);
        assert_eq!(out, format!("x{number}").into_bytes());
    }
}

#[test]
fn doubles_are_written_as_redis_writes_them() {
    let table = [
        (0.0, "0"),
        (-0.0, "-0"),
        (1.0, "1"),
        (-1.5, "-1.5"),
        (10.6, "10.6"),
        (0.1, "0.1"),
        (0.001, "0.001"),
        (0.000001, "0.000001"),
        (0.0000001, "1e-7"),
        (3.0e-10, "3e-10"),
        (100.0, "100"),
        (10_000_000.0, "10000000"),
        (100_000_000.0, "100000000"),
        (1_700_000_000.0, "1700000000"),
        (-1_700_000_000_000.0, "-1700000000000"),
        (123_456_789.0, "123456789"),
        (1.0e17, "100000000000000000"),
        (1_234_567_890_123_456_789.0, "1234567890123456768"),
        (4_611_686_018_427_387_904.0, "4611686018427387904"),
        (4_611_686_018_427_388_928.0, "4611686018427389000"),
        (-1.0e19, "-1e+19"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (2.2250738585072014e-308, "2.2250738585072014e-308"),
        (3.25159265358979, "3.25159265358979"),
        (12345.678912345, "1.2345678912345e+4"),
        (f64::INFINITY, "inf"),
        (f64::NEG_INFINITY, "-inf"),
        (f64::NAN, "nan"),
        (-f64::NAN, "nan"),
    ];
    for (number, text) in table {
        let written = Text::double(number);
        assert_eq!(String::from_utf8_lossy(written.as_bytes()), text);
    }
}

mod random {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_integer_reads_back(number: i64) {
            let text = Text::integer(number);
            let expected = number.to_string();
            prop_assert_eq!(text.as_bytes(), expected.as_bytes());
            prop_assert_eq!(parse_i64(text.as_bytes()), Some(number));
        }

        #[test]
        fn any_double_reads_back(bits: u64) {
            let number = f64::from_bits(bits);
            let text = Text::double(number);
            if number.is_nan() {
                prop_assert_eq!(text.as_bytes(), b"nan");
            } else {
                prop_assert_eq!(parse_f64(text.as_bytes()), Some(number));
            }
        }

        #[test]
        fn only_the_canonical_text_is_an_integer(text in "[-+ 0-9]{0,21}") {
            let canonical = text.parse::<i64>().ok().filter(|number| number.to_string() == text);
            prop_assert_eq!(parse_i64(text.as_bytes()), canonical);
            let canonical = text.parse::<u64>().ok().filter(|number| number.to_string() == text);
            prop_assert_eq!(parse_u64(text.as_bytes()), canonical);
        }
    }
}
