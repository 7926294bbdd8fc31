use super::*;

/// Two addends and their sum as a C program on x86-64 prints it: `strtold`, `+`, `%.17Lf`, without
/// trailing zeros.
const SUMS: &[(&str, &str, &str)] = &[
    ("10.5", "0.1", "10.6"),
    ("5.0e3", "2.0e2", "5200"),
    ("3.0", "1.1", "4.1"),
    ("1", "-1", "0"),
    ("0", "0", "0"),
    ("-0", "-0", "0"),
    ("0.1", "0.2", "0.3"),
    ("1e18", "0.1", "1000000000000000000.125"),
    ("1e19", "0.5", "10000000000000000000"),
    ("1e20", "1", "100000000000000000000"),
    ("1e21", "-1", "1000000000000000000000"),
    ("9223372036854775807", "1", "9223372036854775808"),
    ("18446744073709551615", "1", "18446744073709551616"),
    ("18446744073709551615", "0.5", "18446744073709551616"),
    ("18446744073709551614", "0.5", "18446744073709551614"),
    ("18446744073709551616", "1", "18446744073709551616"),
    (
        "123456789012345678901234567890",
        "1",
        "123456789012345678899921813504",
    ),
    (
        "1e100",
        "1e84",
        "10000000000000000999460863496034706266526457707323089634494442499249604313725945039655851183031975936",
    ),
    ("1e-17", "0", "0.00000000000000001"),
    ("1e-18", "0", "0"),
    ("5e-18", "0", "0"),
    ("4.9e-18", "0", "0"),
    ("1.5e-17", "0", "0.00000000000000002"),
    ("2.5e-17", "0", "0.00000000000000002"),
    ("-1e-20", "0", "0"),
    ("1e-4940", "1", "1"),
    ("1e-4950", "1e-4950", "0"),
    (
        "1.7976931348623157e308",
        "1",
        "179769313486231569995921046774104434048386446944329178485314420765176628523124396354701868608387085564428793419425520689308708363451136055357897278026477617073498977686288394835618163294045594434929537447290627480669417384648879122776218333598953852832103282504751611691208117720159985926376802466863339536384",
    ),
    ("0.000000000000000001", "3", "3"),
    (
        "3.14159265358979323846264338327950288",
        "2.71828182845904523536028747135266249",
        "5.85987448204883847",
    ),
    (
        "-3.14159265358979323846264338327950288",
        "3.14159265358979323846264338327950287",
        "0",
    ),
    ("1", "-0.99999999999999999999", "0"),
    ("1", "-0.0000000000000000001", "1"),
    ("1", "-0.00000000000000000001", "1"),
    ("1", "0.00000000000000000005", "1"),
    ("1", "5.421010862427522e-20", "1"),
    ("1", "5.421010862427523e-20", "1"),
    ("1", "1.6263032587282567e-19", "1"),
    ("1", "-5.421010862427522e-20", "1"),
    ("1", "-2.710505431213761e-20", "1"),
    ("2", "-5.421010862427522e-20", "2"),
    ("4611686018427387904", "-0.125", "4611686018427387904"),
    ("4611686018427387904", "-0.1249", "4611686018427387904"),
    ("4611686018427387904", "0.25", "4611686018427387904"),
    ("9223372036854775808", "0.5", "9223372036854775808"),
    ("9223372036854775809", "0.5", "9223372036854775810"),
    ("9223372036854775808", "-0.25", "9223372036854775808"),
    ("9223372036854775808", "-0.24", "9223372036854775808"),
    ("9223372036854775808", "-0.26", "9223372036854775807.5"),
    ("-9223372036854775808", "0.25", "-9223372036854775808"),
    (
        "1.00000000000000000005421010862427522170037264004349708557128906250",
        "0",
        "1",
    ),
    (
        "1.00000000000000000005421010862427522170037264004349708557128906251",
        "0",
        "1",
    ),
    (".5", "5.", "5.5"),
    ("+1.5", "+1", "2.5"),
    ("1E+2", "1e-2", "100.01"),
    ("00012.500", "000.5", "13"),
    (
        "99999999999999999",
        "0.99999999999999999",
        "100000000000000000",
    ),
];

fn number(text: &str) -> LongDouble {
    LongDouble::parse(text.as_bytes()).unwrap_or_else(|| panic!("{text} is a number"))
}

fn text(number: LongDouble) -> String {
    let mut out = Vec::new();
    number.push_decimal(&mut out);
    String::from_utf8(out).expect("digits are text")
}

#[test]
fn sums_are_those_of_the_c_library() {
    for (a, b, sum) in SUMS {
        let sum_text = number(a).plus(number(b)).map(text);
        assert_eq!(sum_text.as_deref(), Some(*sum), "{a} + {b}");
        let sum_text = number(b).plus(number(a)).map(text);
        assert_eq!(sum_text.as_deref(), Some(*sum), "{b} + {a}");
    }
}

#[test]
fn sums_out_of_range_are_refused() {
    let table = [
        ("1.18e4932", "1e4931"),
        ("-1.18e4932", "-1.18e4932"),
        ("inf", "1"),
        ("1", "-inf"),
        ("inf", "-inf"),
        ("+INFINITY", "inf"),
    ];
    for (a, b) in table {
        assert_eq!(number(a).plus(number(b)), None, "{a} + {b}");
    }
    let huge = text(
        number("1.1e4932")
            .plus(number("-1e4932"))
            .expect("in range"),
    );
    assert_eq!(huge.len(), 4931);
    assert!(
        huge.starts_with("99999999999999999968354158140277926335193095024510292961202960464491")
    );
    assert!(huge.ends_with("2354083366816180640104209450201513984"));
    assert_eq!(text(number("-inf")), "-inf");
}

#[test]
fn text_that_is_not_a_number_is_refused() {
    let long = "1".repeat(TEXT_BYTES_MAX);
    let many_zeros = "0".repeat(TEXT_BYTES_MAX);
    let table = [
        "",
        "-",
        "+",
        ".",
        "-.",
        "e",
        "e5",
        ".e5",
        "1e",
        "1e+",
        "1e5.0",
        "1.2.3",
        "1 ",
        " 1",
        "--1",
        "+-1",
        "nan",
        "NaN",
        "-nan",
        "in",
        "infin",
        "infinit",
        "0x10",
        "1_0",
        "1,5",
        "1\0",
        "abc",
        "1e4933",
        "-1e4933",
        "1.19e4932",
        "1e-4952",
        "1e999999999999999999999",
        "1e-99999999999999",
        &long,
        &many_zeros,
    ];
    for text in table {
        assert_eq!(LongDouble::parse(text.as_bytes()), None, "text {text:?}");
    }
    assert_eq!(LongDouble::parse(b"\xff1"), None);
    let zeros = [
        "0",
        "-0",
        "0.000",
        "0e999999",
        "-0.0e-999999",
        &many_zeros[1..],
    ];
    for text in zeros {
        assert_eq!(number(text).mantissa, 0, "text {text:?}");
    }
}

#[test]
fn the_longest_texts_are_read() {
    let digits = TEXT_BYTES_MAX - 1;
    let tiny = format!("0.{}1", "0".repeat(digits - 3));
    assert_eq!(LongDouble::parse(tiny.as_bytes()), None);
    let one = format!("1.{}1", "0".repeat(digits - 3));
    assert_eq!(number(&one), number("1"));
    let above_tie = format!(
        "1.00000000000000000005421010862427522170037264004349708557128906250{}1e0",
        "0".repeat(4900)
    );
    let above = number("1.000000000000000000108420217248550443");
    assert_eq!(number(&above_tie), above);
    assert!(above != number("1"));
    let scaled = format!("{}e-{}", "9".repeat(4933), 4930);
    assert_eq!(text(number(&scaled)), "1000");
}

mod random {
    use super::*;
    use proptest::prelude::*;

    /// Returns a number of units of 10^-decimals as text.
    fn decimal(count: i64, decimals: usize) -> String {
        let digits = format!("{:0width$}", count.unsigned_abs(), width = decimals + 1);
        let (whole, fraction) = digits.split_at(digits.len() - decimals);
        let sign = if count < 0 { "-" } else { "" };
        let text = format!("{sign}{whole}.{fraction}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }

    proptest! {
        /// Below 32 the rounding errors stay below the last decimal.
        #[test]
        fn sums_of_short_decimals_are_exact(
            a in -1_500_000_000i64..1_500_000_000,
            b in -1_500_000_000i64..1_500_000_000,
            decimals in 8usize..18,
        ) {
            let sum = number(&decimal(a, decimals)).plus(number(&decimal(b, decimals)));
            prop_assert_eq!(sum.map(text), Some(decimal(a + b, decimals)));
        }

        #[test]
        fn a_written_integer_reads_back(whole: u64, is_negative: bool) {
            let text_in = format!("{}{whole}", if is_negative && whole > 0 { "-" } else { "" });
            prop_assert_eq!(text(number(&text_in)), text_in);
        }

        /// Every double is a long double, and the standard library prints doubles exactly.
        #[test]
        fn doubles_are_written_to_the_last_decimal(bits: u64) {
            let double = f64::from_bits(bits);
            prop_assume!(double.is_finite());
            let expected = format!("{double:.17}");
            let expected = expected.trim_end_matches('0').trim_end_matches('.');
            let expected = if expected == "-0" { "0" } else { expected };
            // Thirty digits can decide between neighbours at 64 bits, so the number is parsed
            // exactly only if all digits are given.
            prop_assert_eq!(text(number(&format!("{double:.1100}"))), expected);
        }

        #[test]
        fn numbers_compare_as_doubles_do(bits: u64, other_bits: u64, is_near: bool) {
            let other_bits = if is_near { bits ^ (other_bits & 1 | other_bits & 1 << 63) } else { other_bits };
            let (double, other) = (f64::from_bits(bits), f64::from_bits(other_bits));
            prop_assume!(double.is_finite());
            prop_assume!(other.is_finite());
            let (mine, others) = (format!("{double:.1100}"), format!("{other:.1100}"));
            let compared = number(&mine).compare(number(&others));
            prop_assert_eq!(Some(compared), double.partial_cmp(&other));
            let negated = number(&mine).negated().compare(number(&others).negated());
            prop_assert_eq!(negated, compared.reverse());
        }

        #[test]
        fn any_text_is_parsed_or_refused(text_in in "[-+.eE0-9inf ]{0,30}") {
            if let Some(read) = LongDouble::parse(text_in.as_bytes()) {
                let written = text(read);
                prop_assert!(LongDouble::parse(written.as_bytes()).is_some());
                let _ = read.plus(read).map(text);
            }
        }
    }
}

#[test]
fn no_finite_number_is_larger_than_the_maximum() {
    let infinite = LongDouble::parse(b"inf").expect("a number");
    assert!(infinite.is_infinite());
    assert!(!LongDouble::MAX.is_infinite());
    assert_eq!(LongDouble::MAX.compare(infinite), Ordering::Less);
    assert_eq!(
        LongDouble::MAX.compare(number("1.18973149535723176502e4932")),
        Ordering::Equal
    );
    assert_eq!(LongDouble::MAX.plus(LongDouble::MAX), None);
    assert_eq!(number("0").negated().compare(number("0")), Ordering::Equal);
}
