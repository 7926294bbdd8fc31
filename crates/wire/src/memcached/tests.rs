use super::*;
use crate::args::Span;
use crate::output::Output;

const LIMITS: Limits = Limits {
    value_bytes_max: 100,
};

/// Results of parsing an input, independent of the sizes of the reads.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Request(Verb, Vec<Vec<u8>>, Vec<u8>, u32, i64, u64, bool),
    Refused(Complaint, bool, Option<Vec<u8>>),
}

/// Parses all of `input` in pieces of `piece` bytes.
fn parse_all(input: &[u8], piece: usize) -> Vec<Outcome> {
    let mut parser = Parser::new(LIMITS);
    let (mut outcomes, mut spans) = (Vec::new(), Vec::new());
    let (mut at, mut end) = (0, 0);
    while end < input.len() {
        end = input.len().min(end + piece);
        loop {
            spans.clear();
            let seen = &input[at..end];
            match parser.parse(seen, &mut spans) {
                Parsed::Incomplete => {
                    assert!(spans.is_empty());
                    break;
                }
                Parsed::Skipped { consumed } => at += consumed,
                Parsed::Request { consumed, request } => {
                    let text = |span: &Span| seen[span.range()].to_vec();
                    outcomes.push(Outcome::Request(
                        request.verb,
                        request.keys(&spans).iter().map(text).collect(),
                        text(&request.value),
                        request.client_flags,
                        request.exptime,
                        request.number,
                        request.is_noreply,
                    ));
                    at += consumed;
                }
                Parsed::Refused { consumed, refusal } => {
                    let stale = refusal.stale.map(|span| seen[span.range()].to_vec());
                    outcomes.push(Outcome::Refused(
                        refusal.complaint,
                        refusal.is_noreply,
                        stale,
                    ));
                    if refusal.is_fatal {
                        return outcomes;
                    }
                    at += consumed;
                }
            }
        }
    }
    outcomes
}

fn request(verb: Verb, keys: &[&str], value: &str, numbers: (u32, i64, u64)) -> Outcome {
    let keys = keys.iter().map(|key| key.as_bytes().to_vec()).collect();
    let (flags, exptime, number) = numbers;
    Outcome::Request(verb, keys, value.into(), flags, exptime, number, false)
}

fn refused(line: &'static str, is_noreply: bool, stale: Option<Vec<u8>>) -> Outcome {
    Outcome::Refused(Complaint::Line(line), is_noreply, stale)
}

#[test]
fn each_command_is_parsed_for_all_sizes_of_reads() {
    let input = b"get a\r\ngets a  bb\nset k 7 -1 3\r\na\r\n\r\ncas k 0 60 0 9\r\n\r\nincr n 5\r\n\
        touch k 2000000000\r\ngat 10 x y\r\nflush_all\r\nflush_all 30\r\nverbosity 1\r\nstats items\r\nquit\r\n";
    let wanted = vec![
        request(Verb::Get, &["a"], "", (0, 0, 0)),
        request(Verb::Gets, &["a", "bb"], "", (0, 0, 0)),
        request(Verb::Set, &["k"], "a\r\n", (7, -1, 0)),
        request(Verb::Cas, &["k"], "", (0, 60, 9)),
        request(Verb::Incr, &["n"], "", (0, 0, 5)),
        request(Verb::Touch, &["k"], "", (0, 2_000_000_000, 0)),
        request(Verb::Gat, &["x", "y"], "", (0, 10, 0)),
        request(Verb::FlushAll, &[], "", (0, 0, 0)),
        request(Verb::FlushAll, &[], "", (0, 30, 0)),
        request(Verb::Verbosity, &[], "", (0, 0, 1)),
        request(Verb::Stats, &["items"], "", (0, 0, 0)),
        request(Verb::Quit, &[], "", (0, 0, 0)),
    ];
    for piece in [1, 2, 3, 7, input.len()] {
        assert_eq!(parse_all(input, piece), wanted, "in pieces of {piece}");
    }
}

#[test]
fn invalid_requests_get_the_error_texts_of_memcached() {
    let long_key = "k".repeat(251);
    for (input, line, is_noreply) in [
        ("\r\n", "ERROR", false),
        ("get\r\n", "ERROR", false),
        ("GET a\r\n", "ERROR", false),
        (
            "set k 0 0\r\n",
            "CLIENT_ERROR bad command line format",
            false,
        ),
        (
            "set k 0 0 -1\r\n",
            "CLIENT_ERROR bad command line format",
            false,
        ),
        (
            "set k 0 0 x noreply\r\n",
            "CLIENT_ERROR bad command line format",
            true,
        ),
        (
            "set k -1 0 1\r\n",
            "CLIENT_ERROR bad command line format",
            false,
        ),
        (
            "set k 4294967296 0 1\r\n",
            "CLIENT_ERROR bad command line format",
            false,
        ),
        (
            "set k 0 0 2147483647\r\n",
            "CLIENT_ERROR bad command line format",
            false,
        ),
        (
            "cas k 0 0 1 x\r\n",
            "CLIENT_ERROR bad command line format",
            false,
        ),
        (
            "incr k x\r\n",
            "CLIENT_ERROR invalid numeric delta argument",
            false,
        ),
        (
            "incr k -1\r\n",
            "CLIENT_ERROR invalid numeric delta argument",
            false,
        ),
        (
            "touch k x\r\n",
            "CLIENT_ERROR invalid exptime argument",
            false,
        ),
        (
            "gat x k\r\n",
            "CLIENT_ERROR invalid exptime argument",
            false,
        ),
        (
            "delete k 5\r\n",
            "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]",
            false,
        ),
        ("set k 0 0 1\r\nabc", "CLIENT_ERROR bad data chunk", false),
        ("mg\r\n", "ERROR", false),
        ("mg k vv\r\n", "", false),
        ("mg k v v\r\n", "CLIENT_ERROR duplicate flag", false),
        ("mg k !\r\n", "CLIENT_ERROR invalid flag", false),
        (
            "mg k Tx\r\n",
            "CLIENT_ERROR bad token in command line format",
            false,
        ),
        ("mg a b\r\n", "CLIENT_ERROR error decoding key", false),
        ("ms k\r\n", "CLIENT_ERROR bad command line format", false),
        ("ms k x\r\n", "CLIENT_ERROR bad command line format", false),
        (
            "ms k 1 MQ\r\n",
            "CLIENT_ERROR invalid mode for ms M token",
            false,
        ),
    ] {
        let outcomes = parse_all(input.as_bytes(), input.len());
        match &outcomes[..] {
            [Outcome::Request(..)] if line.is_empty() => {}
            outcomes => assert_eq!(outcomes, [refused(line, is_noreply, None)], "{input:?}"),
        }
    }
    for input in [
        format!("get a {long_key}\r\n"),
        format!("set {long_key} 0 0 1\r\n"),
        format!("mg {long_key}\r\n"),
    ] {
        let wanted = refused("CLIENT_ERROR bad command line format", false, None);
        assert_eq!(parse_all(input.as_bytes(), 64), [wanted]);
    }
}

#[test]
fn a_value_that_is_too_large_is_skipped_and_makes_the_old_one_stale() {
    let block = "x".repeat(101);
    let input = format!("set k 0 0 101\r\n{block}\r\nadd k 0 0 101 noreply\r\n{block}\r\nmn\r\n");
    let line = "SERVER_ERROR object too large for cache";
    for piece in [1, 10, input.len()] {
        let outcomes = parse_all(input.as_bytes(), piece);
        let wanted = [
            refused(line, false, Some(b"k".to_vec())),
            refused(line, true, None),
            request(Verb::MetaNoop, &[], "", (0, 0, 0)),
        ];
        assert_eq!(outcomes, wanted);
    }
}

#[test]
fn a_request_that_was_refused_for_its_length_can_be_parsed_again() {
    let input = format!("set k 0 0 101\r\n{}\r\nmn\r\n", "x".repeat(101));
    let mut parser = Parser::new(Limits {
        value_bytes_max: 100,
    });
    let mut spans = Vec::new();
    for _ in 0..2 {
        let Parsed::Refused { refusal, .. } = parser.parse(input.as_bytes(), &mut spans) else {
            panic!("the value is too large");
        };
        assert_eq!(refusal.stale.map(|key| key.range()), Some(4..5));
        parser.rewind_refused();
    }
}

#[test]
fn the_block_of_a_refused_line_is_not_a_command() {
    // Regression: the value of a set with a wrong word, or of a cas without its number, was
    // executed, so that a pipeline got one reply too many.
    let long_key = "k".repeat(251);
    for (line, is_noreply) in [
        ("set k 4294967296 0 4", false),
        ("add k 99999999999 0 4 noreply", true),
        ("replace k -1 0 4", false),
        ("append k x 0 4", false),
        ("prepend k 0 x 4", false),
        ("set k 0 9223372036854775808 4", false),
        ("cas k 0 0 4", false),
        ("cas k 0 0 4 noreply", true),
        ("cas k 0 0 4 x", false),
        ("cas k 0 0 4 -1 noreply", true),
        (&format!("set {long_key} 0 0 4"), false),
    ] {
        let input = format!("{line}\r\nquit\r\nmn\r\n");
        let error = "CLIENT_ERROR bad command line format";
        for piece in [1, 5, input.len()] {
            let wanted = [
                refused(error, is_noreply, None),
                request(Verb::MetaNoop, &[], "", (0, 0, 0)),
            ];
            assert_eq!(parse_all(input.as_bytes(), piece), wanted, "{line}");
        }
    }
}

#[test]
fn further_words_of_a_storage_command_are_ignored() {
    // Regression: such a line was refused, and its block was executed.
    let input = b"set k 1 2 4 5 6 7 8 9\r\nquit\r\ncas k 1 2 4 5 6 7 8 9\r\nquit\r\n";
    let wanted = [
        request(Verb::Set, &["k"], "quit", (1, 2, 0)),
        request(Verb::Cas, &["k"], "quit", (1, 2, 5)),
    ];
    assert_eq!(parse_all(input, input.len()), wanted);
}

#[test]
fn the_block_of_a_refused_meta_set_is_not_a_command() {
    let outcomes = parse_all(b"ms k 4 T\r\nquit\r\nmn\r\n", 5);
    let wanted = [
        refused("CLIENT_ERROR bad token in command line format", false, None),
        request(Verb::MetaNoop, &[], "", (0, 0, 0)),
    ];
    assert_eq!(outcomes, wanted);
}

#[test]
fn a_line_without_end_closes_the_connection_and_a_long_list_of_keys_does_not() {
    let line = "x".repeat(LINE_BYTES_MAX + 1);
    let wanted = [Outcome::Refused(Complaint::Endless, false, None)];
    assert_eq!(parse_all(line.as_bytes(), 100), wanted);
    let keys = "get ".to_owned() + &"key ".repeat(4000) + "\r\n";
    match &parse_all(keys.as_bytes(), 1000)[..] {
        [Outcome::Request(Verb::Get, keys, ..)] => assert_eq!(keys.len(), 4000),
        outcomes => panic!("{outcomes:?}"),
    }
    assert_eq!(parse_all((line + "\r\n").as_bytes(), 4096), wanted);
    let one_word = "get ".to_owned() + &"k".repeat(40_000);
    assert_eq!(parse_all(one_word.as_bytes(), 1000), wanted);
}

/// Other servers accept such a line of a megabyte. Here it is split, so that it needs little
/// memory.
#[test]
fn a_long_list_of_keys_is_split_into_requests() {
    let keys: Vec<String> = (0..60_000).map(|number| format!("key{number}")).collect();
    for command in ["get", "gats 60"] {
        let input = format!("{command} {}\r\nversion\r\n", keys.join(" "));
        let mut parser = Parser::new(LIMITS);
        let (mut spans, mut at, mut seen, mut count) = (Vec::new(), 0, Vec::new(), 0);
        loop {
            spans.clear();
            let rest = &input.as_bytes()[at..];
            let Parsed::Request { consumed, request } = parser.parse(rest, &mut spans) else {
                panic!("each piece is a request");
            };
            assert!(consumed <= 17 << 10, "{consumed}");
            at += consumed;
            if request.verb == Verb::Version {
                break;
            }
            assert_eq!(request.is_continued, count > 0);
            assert_eq!(request.has_more, at + "version\r\n".len() < input.len());
            assert_eq!(request.exptime, if command == "get" { 0 } else { 60 });
            let text = |span: &Span| String::from_utf8_lossy(&rest[span.range()]).into_owned();
            seen.extend(request.keys(&spans).iter().map(text));
            count += 1;
            // A request that was parsed and not executed is parsed again.
            if count % 5 == 0 {
                let mut again = Vec::new();
                parser.rewind(&request);
                let parsed = parser.parse(rest, &mut again);
                assert_eq!(parsed, Parsed::Request { consumed, request });
            }
        }
        assert_eq!(seen, keys);
        assert!(at == input.len() && count > 20);
    }
    let bad = format!("get {}{}\r\n", "key ".repeat(9000), "k".repeat(251));
    for piece in [999, bad.len()] {
        let outcomes = parse_all(bad.as_bytes(), piece);
        let error = refused("CLIENT_ERROR bad command line format", false, None);
        assert_eq!(outcomes.last(), Some(&error));
    }
}

/// Clients send -1 as 4294967295.
#[test]
fn times_have_32_bits() {
    for (text, wanted) in [
        ("4294967295", -1),
        ("2147483648", i64::from(i32::MIN)),
        ("4294967306", 10),
        ("-4294967295", 1),
        ("-9223372036854775808", 0),
        ("+10", 10),
    ] {
        let input =
            format!("set k 0 {text} 0\r\n\r\ntouch k {text}\r\ngat {text} k\r\nmg k T{text}\r\n");
        let exptime = |outcome: &Outcome| match outcome {
            Outcome::Request(_, _, _, _, exptime, ..) => *exptime,
            other => panic!("{other:?}"),
        };
        let times: Vec<i64> = parse_all(input.as_bytes(), 7).iter().map(exptime).collect();
        assert_eq!(times, [wanted; 4], "{text}");
    }
}

#[test]
fn a_line_of_an_http_request_closes_the_connection() {
    for line in [
        "GET / HTTP/1.1",
        "POST /x HTTP/1.0",
        "post /",
        "Host: a:80",
        "PUT x HTTP/2",
    ] {
        let input = format!("{line}\r\nset k 0 0 1\r\nx\r\n");
        let wanted = [Outcome::Refused(Complaint::Http, false, None)];
        assert_eq!(parse_all(input.as_bytes(), 5), wanted, "{line}");
    }
}

#[test]
fn any_number_of_keys_is_parsed() {
    for count in 1..30 {
        let keys: Vec<String> = (0..count).map(|key| "k".repeat(key % 20 + 1)).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let input = format!("gets  {} \r\n", keys.join(" "));
        let wanted = vec![request(Verb::Gets, &keys, "", (0, 0, 0))];
        for piece in [1, 8, input.len()] {
            assert_eq!(
                parse_all(input.as_bytes(), piece),
                wanted,
                "{count} in pieces of {piece}"
            );
        }
    }
    let long = format!("get {} {}\r\n", "k ".repeat(9), "k".repeat(251));
    assert!(matches!(
        parse_all(long.as_bytes(), 99)[..],
        [Outcome::Refused(..)]
    ));
}

/// A complete line is parsed by the fast path, a partial one is not.
#[test]
fn the_fast_path_of_get_parses_as_the_general_one() {
    let keys = [
        "k", "noreply", "get", "\r", "a\rb", "\x01", "k ", " k", "a b", "", " ",
    ];
    let long = [
        "k".repeat(249),
        "k".repeat(250),
        "k".repeat(251),
        "k".repeat(260),
    ];
    for key in keys.into_iter().chain(long.iter().map(String::as_str)) {
        for end in ["\n", "\r\n", "\r\r\n"] {
            let input = format!("get {key}{end}get next\r\n");
            let whole = parse_all(input.as_bytes(), input.len());
            assert_eq!(whole, parse_all(input.as_bytes(), 3), "{input:?}");
            assert_eq!(whole.len(), 2, "{input:?}");
        }
    }
}

#[test]
fn the_next_position_of_a_byte_is_found() {
    // Bytes that differ by one, or only in the highest bit, do not match.
    let others = [0, b' ' - 1, b' ' + 1, b' ' | 0x80, 0xff];
    for len in 0..30 {
        for (first, from) in (0..=len).flat_map(|first| (0..=len).map(move |from| (first, from))) {
            for other in others {
                let mut bytes = vec![other; len];
                bytes[first..]
                    .iter_mut()
                    .step_by(3)
                    .for_each(|byte| *byte = b' ');
                let found = (from..len).find(|&at| bytes[at] == b' ');
                assert_eq!(
                    line::find(&bytes, from, b' '),
                    found,
                    "{bytes:?} from {from}"
                );
            }
        }
    }
    assert_eq!(line::find(b" ", 2, b' '), None);
}

#[test]
fn meta_flags_are_read_and_repeated_in_their_order() {
    let input = b"ms k 2 T60 F9 C3 E4 I ME q Oabc\r\nhi\r\n";
    let mut spans = Vec::new();
    let parsed = Parser::new(LIMITS).parse(input, &mut spans);
    let Parsed::Request { request, .. } = parsed else {
        panic!("{parsed:?}");
    };
    let meta = &request.meta;
    assert_eq!((request.exptime, request.client_flags), (60, 9));
    assert_eq!((meta.cas, meta.new_cas, meta.mode), (3, 4, Mode::Add));
    assert!(meta.has(b'I') && meta.has(b'O') && !meta.has(b'k'));
    assert!(request.is_noreply);
    let mut out = Output::default();
    meta::status(&mut out, "NS", meta, input, b"k", Some((0, 2)));
    assert_eq!(out[..], *b"NS Oabc\r\n");

    let input = b"mg a2V5 t v k f b c h l s O1\r\n";
    let mut spans = Vec::new();
    let parsed = Parser::new(LIMITS).parse(input, &mut spans);
    let Parsed::Request { request, .. } = parsed else {
        panic!("{parsed:?}");
    };
    let item = meta::Item {
        key: b"a2V5",
        len: 2,
        has_value: true,
        client_flags: 5,
        cas: 12,
        ttl_seconds: None,
        idle_seconds: 3,
        was_hit: true,
        has_won: true,
        is_stale: true,
        is_taken: false,
    };
    out.clear();
    meta::item(&mut out, &request.meta, input, meta::OF_GET, &item);
    let wanted = "VA 2 t-1 ka2V5 b f5 c12 h1 l3 s2 O1 X W\r\n";
    assert_eq!(String::from_utf8_lossy(&out), wanted);
}

#[test]
fn keys_in_base64_have_one_encoding() {
    let mut room = [0; KEY_BYTES_MAX];
    for (encoded, key) in [
        ("a2V5", Some("key")),
        ("a2U=", Some("ke")),
        ("aw==", Some("k")),
        ("ax==", None),
        ("aw=", None),
        ("a2V", None),
        ("====", None),
        ("a!V5", None),
        ("", None),
    ] {
        let decoded = decode_key(encoded.as_bytes(), &mut room);
        assert_eq!(decoded, key.map(str::as_bytes), "{encoded}");
    }
    assert!(decode_key("aaaa".repeat(83).as_bytes(), &mut room).is_some());
    assert!(decode_key("aaaa".repeat(84).as_bytes(), &mut room).is_none());
}

#[test]
fn times_up_to_thirty_days_count_from_now() {
    let now = 1_700_000_000_123;
    let month = RELATIVE_SECONDS_MAX;
    assert_eq!(Expiration::of(0, now), Expiration::Never);
    assert_eq!(Expiration::of(-1, now), Expiration::Past);
    assert_eq!(Expiration::of(1, now), Expiration::At(now + 1000));
    assert_eq!(
        Expiration::of(month, now),
        Expiration::At(now + month.unsigned_abs() * 1000)
    );
    assert_eq!(Expiration::of(month + 1, now), Expiration::Past);
    assert_eq!(
        Expiration::of(1_700_000_001, now),
        Expiration::At(1_700_000_001_000)
    );
}
