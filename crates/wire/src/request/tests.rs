use super::*;
use crate::args::Args;

type Command = Vec<Vec<u8>>;

/// Result of parsing a whole stream: its commands, and the error that ended it.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    commands: Vec<Command>,
    error: Option<ProtocolError>,
    /// Number of bytes after the last frame.
    rest: usize,
}

/// Parses `stream` in pieces that end at `cuts`, in a buffer that is compacted like a session's
/// buffer.
fn parse_cut(limits: Limits, stream: &[u8], cuts: &[usize]) -> Outcome {
    let mut parser = Parser::new(limits);
    let (mut commands, mut error) = (Vec::new(), None);
    let (mut buffer, mut spans) = (Vec::new(), Vec::new());
    let mut from = 0;
    'stream: for &to in cuts.iter().chain([&stream.len()]) {
        let to = to.clamp(from, stream.len());
        buffer.extend_from_slice(&stream[from..to]);
        from = to;
        loop {
            let base = spans.len();
            let consumed = match parser.parse(&mut buffer, &mut spans) {
                Ok(Parsed::Command { consumed }) => {
                    let args = Args::new(&buffer, &spans[base..]);
                    assert!(!args.is_empty());
                    commands.push(args.iter().map(<[u8]>::to_vec).collect());
                    consumed
                }
                Ok(Parsed::Blank { consumed }) => consumed,
                Ok(Parsed::Incomplete { need }) => {
                    assert!(need > 0);
                    assert_eq!(spans.len(), base);
                    break;
                }
                Err(found) => {
                    error = Some(found);
                    assert_eq!(spans.len(), base);
                    break 'stream;
                }
            };
            assert!(consumed > 0);
            assert!(consumed <= buffer.len());
            assert!(!parser.is_partial());
            buffer.drain(..consumed);
        }
    }
    let rest = if error.is_some() { 0 } else { buffer.len() };
    Outcome {
        commands,
        error,
        rest,
    }
}

fn parse_whole(stream: &[u8]) -> Outcome {
    parse_cut(Limits::default(), stream, &[])
}

fn command(words: &[&str]) -> Command {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

#[test]
fn commands_are_found_in_both_forms() {
    let table: &[(&str, &[&[&str]])] = &[
        ("", &[]),
        ("\r\n", &[]),
        ("\n", &[]),
        ("   \t\r\n", &[]),
        ("*0\r\n", &[]),
        ("*-1\r\n", &[]),
        ("*-100\r\n", &[]),
        ("PING\r\n", &[&["PING"]]),
        ("PING\n", &[&["PING"]]),
        (
            "set a \"b c\"\r\nget 'a'\r\n",
            &[&["set", "a", "b c"], &["get", "a"]],
        ),
        ("*1\r\n$4\r\nPING\r\n", &[&["PING"]]),
        ("*1\r\n$0\r\n\r\n", &[&[""]]),
        (
            "*2\r\n$3\r\nGET\r\n$16\r\n0123456789abcdef\r\n",
            &[&["GET", "0123456789abcdef"]],
        ),
        ("*2\r\n$4\r\n\r\n\r\n\r\n$1\r\n$\r\n", &[&["\r\n\r\n", "$"]]),
        (
            "*0\r\n*1\r\n$1\r\na\r\n\r\nb\r\n*-1\r\n*1\r\n$1\r\nc\r\n",
            &[&["a"], &["b"], &["c"]],
        ),
    ];
    for (stream, expected) in table {
        let outcome = parse_whole(stream.as_bytes());
        assert_eq!(outcome.error, None, "stream {stream:?}");
        assert_eq!(outcome.rest, 0, "stream {stream:?}");
        let expected: Vec<Command> = expected.iter().map(|words| command(words)).collect();
        assert_eq!(outcome.commands, expected, "stream {stream:?}");
    }
}

#[test]
fn malformed_frames_get_the_error_texts_of_redis() {
    let long_line = "a".repeat(INLINE_BYTES_MAX + 1);
    let long_count = format!("*{}", "1".repeat(33));
    let long_bulk = format!("*1\r\n${}", "1".repeat(33));
    let table: &[(&str, &str)] = &[
        ("*\r\n", "invalid multibulk length"),
        ("*x\r\n", "invalid multibulk length"),
        ("*+1\r\n", "invalid multibulk length"),
        ("*01\r\n", "invalid multibulk length"),
        ("*-0\r\n", "invalid multibulk length"),
        ("* 1\r\n", "invalid multibulk length"),
        ("*1\n", "invalid multibulk length"),
        ("*1\rx", "invalid multibulk length"),
        ("*1048577\r\n", "invalid multibulk length"),
        ("*3000000000\r\n", "invalid multibulk length"),
        ("*9223372036854775808\r\n", "invalid multibulk length"),
        ("*1\r\n$\r\n", "invalid bulk length"),
        ("*1\r\n$-1\r\n", "invalid bulk length"),
        ("*1\r\n$-10\r\n", "invalid bulk length"),
        ("*1\r\n$blabla\r\n", "invalid bulk length"),
        ("*1\r\n$01\r\na\r\n", "invalid bulk length"),
        ("*1\r\n$2000000000\r\n", "invalid bulk length"),
        ("*1\r\n$536870913\r\n", "invalid bulk length"),
        ("*1\r\n$9223372036854775807\r\n", "invalid bulk length"),
        ("*1\r\nfoo\r\n", "expected '$', got 'f'"),
        (
            "*3\r\n$3\r\nSET\r\n$1\r\nx\r\nfooz\r\n",
            "expected '$', got 'f'",
        ),
        ("*1\r\n\r\n", "expected '$', got '\\r'"),
        ("*1\r\n$1\r\nab\r\n", "expected a line end after a bulk"),
        ("*1\r\n$1\r\na\n\n", "expected a line end after a bulk"),
        ("set \"a\"b c\r\n", "unbalanced quotes in request"),
        (&long_count, "too big mbulk count string"),
        (&long_bulk, "too big bulk count string"),
        (&long_line, "too big inline request"),
    ];
    for (stream, expected) in table {
        let outcome = parse_whole(stream.as_bytes());
        let error = outcome.error.map(|error| error.to_string());
        assert_eq!(
            error,
            Some(format!("Protocol error: {expected}")),
            "stream {stream:?}"
        );
        assert_eq!(outcome.commands, Vec::<Command>::new());
    }
}

#[test]
fn an_error_does_not_affect_the_commands_before_it() {
    let outcome = parse_whole(b"*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPING\r\n*1\r\n:1\r\n");
    assert_eq!(
        outcome.commands,
        vec![command(&["PING"]), command(&["PING"])]
    );
    assert_eq!(outcome.error, Some(ProtocolError::ExpectedDollar(b':')));
}

#[test]
fn an_unauthenticated_client_has_stricter_limits() {
    let limits = Limits {
        is_authenticated: false,
        ..Limits::default()
    };
    let error = |stream: &str| {
        let outcome = parse_cut(limits, stream.as_bytes(), &[]);
        outcome.error.map(|error| error.to_string())
    };
    assert_eq!(error("*10\r\n"), None);
    assert_eq!(
        error("*11\r\n").as_deref(),
        Some("Protocol error: unauthenticated multibulk length")
    );
    assert_eq!(
        error("*1048577\r\n").as_deref(),
        Some("Protocol error: invalid multibulk length")
    );
    assert_eq!(error("*1\r\n$16384\r\n"), None);
    assert_eq!(
        error("*1\r\n$16385\r\n").as_deref(),
        Some("Protocol error: unauthenticated bulk length")
    );
    assert_eq!(
        error("*1\r\n$536870913\r\n").as_deref(),
        Some("Protocol error: invalid bulk length")
    );
}

#[test]
fn limits_below_the_defaults_are_applied() {
    let limits = Limits {
        bulk_bytes_max: 3,
        args_count_max: 2,
        inline_bytes_max: 4,
        is_authenticated: true,
    };
    let outcome = |stream: &str| parse_cut(limits, stream.as_bytes(), &[]);
    assert_eq!(outcome("*2\r\n$3\r\nabc\r\n$0\r\n\r\n").error, None);
    assert_eq!(
        outcome("*1\r\n$4\r\n").error,
        Some(ProtocolError::InvalidBulkLength)
    );
    assert_eq!(
        outcome("*3\r\n").error,
        Some(ProtocolError::InvalidMultibulkLength)
    );
    assert_eq!(outcome("PING\nPING\n").commands.len(), 2);
    assert_eq!(outcome("PIN\r\n").commands.len(), 1);
    assert_eq!(outcome("PING\r\n").error, Some(ProtocolError::TooBigInline));
}

#[test]
fn a_raised_bulk_limit_does_not_raise_the_frame_limit() {
    let limits = Limits {
        bulk_bytes_max: usize::MAX,
        ..Limits::default()
    };
    let outcome = |len: usize| parse_cut(limits, format!("*1\r\n${len}\r\n").as_bytes(), &[]).error;
    assert_eq!(outcome(FRAME_BYTES_MAX / 2), None);
    assert_eq!(outcome(FRAME_BYTES_MAX), Some(ProtocolError::TooBigRequest));
    assert_eq!(
        outcome(FRAME_BYTES_MAX + 1),
        Some(ProtocolError::InvalidBulkLength)
    );
}

#[test]
fn a_large_length_reserves_no_memory() {
    let mut parser = Parser::default();
    let mut spans = Vec::new();
    let mut input = b"*1048576\r\n$536870912\r\nabc".to_vec();
    let parsed = parser.parse(&mut input, &mut spans);
    assert_eq!(
        parsed,
        Ok(Parsed::Incomplete {
            need: 536_870_912 + 2 - 3
        })
    );
    assert_eq!(parser.heap_bytes(), 0);
    assert_eq!(spans.capacity(), 0);
    assert!(parser.is_partial());
}

#[test]
fn a_batch_shares_one_list_of_spans() {
    let mut input = b"*2\r\n$3\r\nGET\r\n$1\r\na\r\nDEL b c\r\n".to_vec();
    let (mut parser, mut spans) = (Parser::default(), Vec::new());
    assert_eq!(
        parser.parse(&mut input, &mut spans),
        Ok(Parsed::Command { consumed: 20 })
    );
    let tail = &mut input[20..];
    assert_eq!(
        parser.parse(tail, &mut spans),
        Ok(Parsed::Command { consumed: 9 })
    );
    assert_eq!(spans.len(), 5);
    let args = Args::new(&input[20..], &spans[2..]);
    assert_eq!(args.len(), 3);
    assert_eq!(args.name(), b"DEL");
    assert!(args.is(0, "del"));
    assert!(!args.is(3, "c"));
    assert_eq!(&args[2], b"c");
    assert_eq!(args.get(3), None);
    assert_eq!(args.from(1).iter().collect::<Vec<_>>(), [b"b", b"c"]);
    assert!(args.from(4).is_empty());
}

#[test]
fn lines_of_http_are_recognised() {
    for line in [
        "POST / HTTP/1.1\r\n",
        "host: localhost\r\n",
        "*1\r\n$5\r\nHost:\r\n",
    ] {
        let (mut input, mut spans) = (line.as_bytes().to_vec(), Vec::new());
        let parsed = Parser::default().parse(&mut input, &mut spans);
        assert!(matches!(parsed, Ok(Parsed::Command { .. })));
        assert!(Args::new(&input, &spans).is_http());
    }
    assert!(!Args::new(b"", &[]).is_http());
}

/// A value that arrives in small reads can make a parser quadratic. Here each call may scan a
/// bounded number of bytes only, which its position shows.
#[test]
fn a_large_frame_in_small_reads_is_read_once() {
    let (count, piece) = (200_000, 64);
    let mut stream = format!("*{count}\r\n").into_bytes();
    for _ in 0..count {
        stream.extend_from_slice(b"$1\r\nx\r\n");
    }
    let (mut parser, mut spans) = (Parser::default(), Vec::new());
    let mut end = 0;
    while end + piece < stream.len() {
        end += piece;
        let parsed = parser.parse(&mut stream[..end], &mut spans);
        assert!(matches!(parsed, Ok(Parsed::Incomplete { need: 1..=8 })));
        assert!(matches!(parser.progress, Progress::Array { next, .. } if next + 8 > end));
        assert!(spans.is_empty());
    }
    let consumed = stream.len();
    assert_eq!(
        parser.parse(&mut stream, &mut spans),
        Ok(Parsed::Command { consumed })
    );
    assert_eq!(spans.len(), count);
    assert!(parser.heap_bytes() <= PENDING_KEPT_MAX * size_of::<Span>());
}

mod random {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn encode_array(words: &Command) -> Vec<u8> {
        let mut out = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            out.extend_from_slice(word);
            out.extend_from_slice(b"\r\n");
        }
        out
    }

    /// Quotes every word, and escapes each byte.
    fn encode_inline(words: &Command) -> Vec<u8> {
        let mut out = Vec::new();
        for word in words {
            out.push(b'"');
            for byte in word {
                out.extend_from_slice(format!("\\x{byte:02x}").as_bytes());
            }
            out.extend_from_slice(b"\" ");
        }
        out.extend_from_slice(b"\r\n");
        out
    }

    fn any_command() -> impl Strategy<Value = Command> {
        vec(vec(any::<u8>(), 0..40), 1..6)
    }

    fn any_cuts() -> impl Strategy<Value = Vec<usize>> {
        vec(0usize..400, 0..12).prop_map(|mut cuts| {
            cuts.sort_unstable();
            cuts
        })
    }

    /// Fragments of the protocol whose combinations reach most states.
    fn any_stream() -> impl Strategy<Value = Vec<u8>> {
        let words: &[&[u8]] = &[
            b"*",
            b"$",
            b"\r\n",
            b"\r",
            b"\n",
            b"1",
            b"2",
            b"-1",
            b"0",
            b"10",
            b"*1\r\n",
            b"*2\r\n",
            b"$1\r\n",
            b"$3\r\nabc\r\n",
            b"\"",
            b"'",
            b"\\x4",
            b"PING",
            b" ",
            b"\0",
            b"*1048576\r\n",
        ];
        let word = proptest::sample::select(words.to_vec()).prop_map(<[u8]>::to_vec);
        vec(prop_oneof![8 => word, 1 => vec(any::<u8>(), 0..4)], 0..40).prop_map(|v| v.concat())
    }

    proptest! {
        #[test]
        fn parsing_undoes_encoding_for_all_sizes_of_reads(
            commands in vec((any_command(), any::<bool>()), 0..6),
            cuts in any_cuts(),
        ) {
            let stream: Vec<u8> = commands
                .iter()
                .flat_map(|(words, is_inline)| {
                    if *is_inline { encode_inline(words) } else { encode_array(words) }
                })
                .collect();
            let outcome = parse_cut(Limits::default(), &stream, &cuts);
            let expected: Vec<Command> = commands.into_iter().map(|(words, _)| words).collect();
            prop_assert_eq!(outcome, Outcome { commands: expected, error: None, rest: 0 });
        }

        #[test]
        fn sizes_of_reads_make_no_difference(stream in any_stream(), cuts in any_cuts()) {
            let limits = Limits { inline_bytes_max: 20, ..Limits::default() };
            let whole = parse_cut(limits, &stream, &[]);
            prop_assert_eq!(&parse_cut(limits, &stream, &cuts), &whole);
            let every_byte: Vec<usize> = (0..stream.len()).collect();
            prop_assert_eq!(&parse_cut(limits, &stream, &every_byte), &whole);
        }

        #[test]
        fn random_bytes_do_not_break_the_parser(stream in vec(any::<u8>(), 0..300), cuts in any_cuts()) {
            let whole = parse_whole(&stream);
            prop_assert_eq!(parse_cut(Limits::default(), &stream, &cuts), whole);
        }
    }
}

#[test]
fn the_positions_of_many_arguments_are_moved() {
    let count = 3 * PENDING_KEPT_MAX;
    let mut input = format!("*{count}\r\n").into_bytes();
    input.extend_from_slice("$1\r\na\r\n".repeat(count).as_bytes());
    let (mut parser, mut spans) = (Parser::default(), Vec::new());
    let len = input.len();
    let parsed = parser.parse(&mut input[..len - 2], &mut spans);
    assert_eq!(parsed, Ok(Parsed::Incomplete { need: 2 }));
    let (at, held) = (parser.pending.as_ptr(), parser.heap_bytes());
    let parsed = parser.parse(&mut input, &mut spans);
    assert_eq!(parsed, Ok(Parsed::Command { consumed: len }));
    assert!(held >= (count - 1) * size_of::<Span>() && parser.heap_bytes() == 0);
    assert_eq!((spans.as_ptr(), spans.len()), (at, count));
    // Behind other positions they are copied.
    let mut second = vec![Span::default()];
    let _ = parser.parse(&mut input[..len - 2], &mut second);
    let _ = parser.parse(&mut input, &mut second);
    assert_eq!(second[1..], spans[..]);
}
