use super::*;
use crate::output::Output;
use crate::reply::{Protocol, Reply};

fn decode(text: &str) -> Value {
    let (value, len) = Value::decode(text.as_bytes())
        .unwrap_or_else(|error| panic!("{text:?}: {error}"))
        .unwrap_or_else(|| panic!("{text:?} is complete"));
    assert_eq!(len, text.len());
    value
}

fn bulk(text: &str) -> Value {
    Value::Bulk(text.as_bytes().to_vec())
}

#[test]
fn every_type_is_decoded_and_encoded_again() {
    let table = [
        ("_\r\n", Value::Null),
        ("$-1\r\n", Value::NullBulk),
        ("*-1\r\n", Value::NullArray),
        ("#t\r\n", Value::Boolean(true)),
        ("#f\r\n", Value::Boolean(false)),
        (":-42\r\n", Value::Integer(-42)),
        (",10.6\r\n", Value::Double(10.6)),
        (",-inf\r\n", Value::Double(f64::NEG_INFINITY)),
        (
            "(-123456789012345678901\r\n",
            Value::BigNumber("-123456789012345678901".into()),
        ),
        ("+OK\r\n", Value::Simple(b"OK".to_vec())),
        ("+\r\n", Value::Simple(Vec::new())),
        ("-ERR no\r\n", Value::Error(b"ERR no".to_vec())),
        ("!6\r\nERR no\r\n", Value::BulkError(b"ERR no".to_vec())),
        ("$0\r\n\r\n", bulk("")),
        ("$6\r\n\r\n\r\n\r\n\r\n", bulk("\r\n\r\n\r\n")),
        ("=6\r\ntxt:hi\r\n", Value::Verbatim(*b"txt", b"hi".to_vec())),
        ("*0\r\n", Value::Array(vec![])),
        ("*2\r\n:1\r\n*1\r\n$-1\r\n", {
            let inner = Value::Array(vec![Value::NullBulk]);
            Value::Array(vec![Value::Integer(1), inner])
        }),
        ("%1\r\n+a\r\n~1\r\n:1\r\n", {
            let set = Value::Set(vec![Value::Integer(1)]);
            Value::Map(vec![(Value::Simple(b"a".to_vec()), set)])
        }),
        (
            ">2\r\n$7\r\nmessage\r\n$1\r\nx\r\n",
            Value::Push(vec![bulk("message"), bulk("x")]),
        ),
        ("|1\r\n+ttl\r\n:9\r\n*1\r\n|0\r\n:5\r\n", {
            let inner = Value::Attributed(vec![], Box::new(Value::Integer(5)));
            let pairs = vec![(Value::Simple(b"ttl".to_vec()), Value::Integer(9))];
            Value::Attributed(pairs, Box::new(Value::Array(vec![inner])))
        }),
    ];
    for (text, value) in table {
        assert_eq!(decode(text), value, "text {text:?}");
        let mut out = Vec::new();
        value.encode(&mut out);
        assert_eq!(out, text.as_bytes(), "text {text:?}");
        for cut in 0..text.len() {
            assert_eq!(
                Value::decode(&text.as_bytes()[..cut]),
                Ok(None),
                "{text:?} cut at {cut}"
            );
        }
    }
    assert_eq!(decode(":+7\r\n"), Value::Integer(7));
    assert!(matches!(decode(",nan\r\n"), Value::Double(number) if number.is_nan()));
}

#[test]
fn broken_replies_are_refused() {
    use ResponseError::*;
    let table = [
        ("x\r\n", UnknownType(b'x')),
        ("\r\n", UnknownType(b'\r')),
        ("$?\r\n", Streamed),
        ("*?\r\n", Streamed),
        ("%?\r\n", Streamed),
        (";4\r\n", Streamed),
        (".\r\n", Streamed),
        ("$-2\r\n", InvalidLength),
        ("*-2\r\n", InvalidLength),
        ("%-1\r\n", InvalidLength),
        ("$x\r\n", InvalidLength),
        ("$\r\n", InvalidLength),
        ("$1073741825\r\n", InvalidLength),
        ("*1073741825\r\n", InvalidLength),
        ("*99999999999999999999\r\n", InvalidLength),
        (":\r\n", InvalidNumber),
        (":1.5\r\n", InvalidNumber),
        (":+-1\r\n", InvalidNumber),
        (",\r\n", InvalidNumber),
        (",x\r\n", InvalidNumber),
        ("(\r\n", InvalidNumber),
        ("(-\r\n", InvalidNumber),
        ("(1x\r\n", InvalidNumber),
        ("#x\r\n", InvalidNumber),
        ("_x\r\n", InvalidNumber),
        ("=2\r\nhi\r\n", InvalidFormat),
        ("+OK\rx", MissingLineEnd),
        ("$1\r\nabc", MissingLineEnd),
        ("*2\r\n:1\r\n$1\r\nabc", MissingLineEnd),
    ];
    for (text, error) in table {
        assert_eq!(Value::decode(text.as_bytes()), Err(error), "text {text:?}");
        assert!(!error.to_string().is_empty());
    }
    let endless = format!("+{}", "a".repeat(LINE_BYTES_MAX + 1));
    assert_eq!(skip_reply(endless.as_bytes()), Err(TooLong));
}

#[test]
fn deep_nesting_is_skipped_but_not_built() {
    let nested = |depth: usize| format!("{}:1\r\n", "*1\r\n".repeat(depth)).into_bytes();
    assert!(Value::decode(&nested(DEPTH_MAX)).is_ok());
    assert_eq!(
        Value::decode(&nested(DEPTH_MAX + 1)),
        Err(ResponseError::TooDeep)
    );
    let abyss = nested(100_000);
    assert_eq!(skip_reply(&abyss), Ok(Some(abyss.len())));
    assert_eq!(Value::decode(&abyss), Err(ResponseError::TooDeep));
}

#[test]
fn a_large_count_allocates_nothing_before_its_elements() {
    assert_eq!(Value::decode(b"*1073741824\r\n:1\r\n"), Ok(None));
    assert_eq!(Value::decode(b"%1073741824\r\n:1\r\n"), Ok(None));
    assert_eq!(Value::decode(b"$1073741824\r\nabc"), Ok(None));
}

#[test]
fn a_long_array_in_small_reads_is_read_once() {
    let mut reply = Output::from(b"*100000\r\n".to_vec());
    for number in 0..100_000 {
        Reply::new(&mut reply, Protocol::Resp2).bulk_integer(number);
    }
    let mut scanner = ReplyScanner::default();
    for end in (0..reply.len()).step_by(100) {
        assert_eq!(scanner.scan(&reply[..end]), Ok(None));
        assert!(scanner.next + 16 > end);
    }
    assert_eq!(scanner.scan(&reply), Ok(Some(reply.len())));
    assert_eq!(scanner.scan(b":1\r\n"), Ok(Some(4)));
}

#[test]
fn accessors_return_values_of_their_type() {
    assert!(Value::NullArray.is_null());
    assert!(!bulk("").is_null());
    assert_eq!(decode("-ERR x\r\n").as_error(), Some(&b"ERR x"[..]));
    assert_eq!(decode("=5\r\ntxt:x\r\n").as_bytes(), Some(&b"x"[..]));
    assert_eq!(decode(":5\r\n").as_integer(), Some(5));
    assert_eq!(
        decode("~1\r\n:5\r\n").as_list(),
        Some(&[Value::Integer(5)][..])
    );
    assert_eq!(decode("+OK\r\n").as_integer(), None);
}

mod random {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn any_line() -> impl Strategy<Value = Vec<u8>> {
        vec(any::<u8>(), 0..20).prop_map(|mut line| {
            line.retain(|byte| !matches!(byte, b'\r' | b'\n'));
            line
        })
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            Just(Value::NullBulk),
            Just(Value::NullArray),
            any::<bool>().prop_map(Value::Boolean),
            any::<i64>().prop_map(Value::Integer),
            any::<f64>()
                .prop_filter("nan differs from itself", |n| !n.is_nan())
                .prop_map(Value::Double),
            "-?[1-9][0-9]{18,30}".prop_map(Value::BigNumber),
            any_line().prop_map(Value::Simple),
            any_line().prop_map(Value::Error),
            vec(any::<u8>(), 0..20).prop_map(Value::BulkError),
            vec(any::<u8>(), 0..120).prop_map(Value::Bulk),
            (any::<[u8; 3]>(), vec(any::<u8>(), 0..20)).prop_map(|(f, t)| Value::Verbatim(f, t)),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            let pairs = vec((inner.clone(), inner.clone()), 0..3);
            prop_oneof![
                vec(inner.clone(), 0..6).prop_map(Value::Array),
                vec(inner.clone(), 0..6).prop_map(Value::Set),
                vec(inner.clone(), 0..6).prop_map(Value::Push),
                pairs.clone().prop_map(Value::Map),
                (pairs, inner)
                    .prop_map(|(pairs, value)| { Value::Attributed(pairs, Box::new(value)) }),
            ]
        })
    }

    fn any_stream() -> impl Strategy<Value = Vec<u8>> {
        let words: &[&[u8]] = &[
            b"+",
            b"-",
            b":",
            b"$",
            b"*",
            b"%",
            b"|",
            b"~",
            b">",
            b"_\r\n",
            b"#t\r\n",
            b",1.5\r\n",
            b"=5\r\ntxt:x\r\n",
            b"!1\r\nx\r\n",
            b"(12\r\n",
            b"\r\n",
            b"1",
            b"2",
            b"-1",
            b"?",
            b"*2\r\n",
            b"%1\r\n",
            b"|1\r\n",
            b":1\r\n",
            b"+OK\r\n",
            b"$3\r\nabc\r\n",
        ];
        let word = proptest::sample::select(words.to_vec()).prop_map(<[u8]>::to_vec);
        vec(prop_oneof![9 => word, 1 => vec(any::<u8>(), 0..4)], 0..30).prop_map(|v| v.concat())
    }

    proptest! {
        #[test]
        fn decoding_undoes_encoding_for_all_sizes_of_reads(values in vec(any_value(), 1..4)) {
            let mut stream = Vec::new();
            let mut ends = Vec::new();
            for value in &values {
                value.encode(&mut stream);
                ends.push(stream.len());
            }
            let mut start = 0;
            for (value, &end) in values.iter().zip(&ends) {
                let mut scanner = ReplyScanner::default();
                for cut in start..end {
                    prop_assert_eq!(scanner.scan(&stream[start..cut]), Ok(None));
                }
                prop_assert_eq!(scanner.scan(&stream[start..]), Ok(Some(end - start)));
                let decoded = Value::decode(&stream[start..]);
                prop_assert_eq!(decoded, Ok(Some((value.clone(), end - start))));
                start = end;
            }
        }

        #[test]
        fn random_bytes_do_not_break_the_decoder_and_sizes_of_reads_make_no_difference(stream in any_stream()) {
            let whole = skip_reply(&stream);
            let mut scanner = ReplyScanner::default();
            let mut pieces = Ok(None);
            for cut in 0..=stream.len() {
                pieces = scanner.scan(&stream[..cut]);
                if pieces != Ok(None) {
                    break;
                }
            }
            prop_assert_eq!(pieces, whole);
            if let Ok(Some((value, len))) = Value::decode(&stream) {
                let mut again = Vec::new();
                value.encode(&mut again);
                prop_assert_eq!(Ok(Some(len)), whole);
                let (reread, _) = Value::decode(&again).expect("encoded").expect("complete");
                prop_assert_eq!(reread, value);
            }
        }
    }
}
