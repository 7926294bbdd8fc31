//! Fuzz target of the request parser. The sizes of reads make no difference, and a command that is
//! parsed, encoded and parsed again is the same.

use wire::{Args, Limits, Parsed, Parser, ProtocolError, encode_command};

type Command = Vec<Vec<u8>>;

/// Result of parsing a stream.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    commands: Vec<Command>,
    error: Option<ProtocolError>,
    rest: usize,
}

/// Runs the target. The first byte selects the limits and the sizes of the pieces.
pub fn run(data: &[u8]) {
    let Some((&choice, stream)) = data.split_first() else {
        return;
    };
    let limits = Limits {
        bulk_bytes_max: if choice & 1 == 0 { 64 } else { 512 << 20 },
        args_count_max: if choice & 2 == 0 { 12 } else { 1 << 20 },
        inline_bytes_max: if choice & 4 == 0 { 40 } else { 64 << 10 },
        is_authenticated: choice & 8 == 0,
    };
    let whole = parse(limits, stream, stream.len().max(1));
    let piece = usize::from(choice >> 4) + 1;
    assert_eq!(
        parse(limits, stream, piece),
        whole,
        "pieces of {piece} bytes"
    );

    let mut again = Vec::new();
    for command in &whole.commands {
        encode_command(&mut again, command);
    }
    let reread = parse(Limits::default(), &again, piece);
    assert_eq!(reread.commands, whole.commands);
    assert_eq!((reread.error, reread.rest), (None, 0));
}

/// Parses `stream` in pieces of `piece` bytes, in a buffer that is compacted as a session's is.
fn parse(limits: Limits, stream: &[u8], piece: usize) -> Outcome {
    let mut parser = Parser::new(limits);
    let mut outcome = Outcome {
        commands: Vec::new(),
        error: None,
        rest: 0,
    };
    let (mut buffer, mut spans) = (Vec::new(), Vec::new());
    for bytes in stream.chunks(piece) {
        buffer.extend_from_slice(bytes);
        loop {
            let base = spans.len();
            let consumed = match parser.parse(&mut buffer, &mut spans) {
                Ok(Parsed::Command { consumed }) => {
                    let args = Args::new(&buffer[..consumed], &spans[base..]);
                    assert!(!args.is_empty());
                    outcome
                        .commands
                        .push(args.iter().map(<[u8]>::to_vec).collect());
                    consumed
                }
                Ok(Parsed::Blank { consumed }) => consumed,
                Ok(Parsed::Incomplete { need }) => {
                    assert!(need > 0);
                    break;
                }
                Err(error) => {
                    outcome.error = Some(error);
                    return outcome;
                }
            };
            assert!(consumed > 0);
            assert!(!parser.is_partial());
            buffer.drain(..consumed);
        }
        assert_eq!(
            spans.len(),
            outcome.commands.iter().map(Vec::len).sum::<usize>()
        );
        // A span takes 8 bytes and an argument 6 or more; memory for 1,024 spans may be kept.
        assert!(parser.heap_bytes() <= 8 * 1024 + 4 * buffer.len());
    }
    outcome.rest = buffer.len();
    outcome
}
