//! Fuzz target of the parser of memcached's protocol. The sizes of reads make no difference, and
//! every span is within its request.

use wire::Span;
use wire::memcached::{Limits, Parsed, Parser, Refusal, Request};

const LIMITS: Limits = Limits {
    value_bytes_max: 1000,
};

/// Request or refusal at a position of the stream. A fatal refusal takes the rest.
#[derive(Debug, PartialEq)]
enum Outcome {
    Request(usize, Request, Vec<Span>),
    Refused(usize, Refusal),
}

/// Runs the target. The first byte selects the size of the pieces, the rest is the stream.
pub fn run(data: &[u8]) {
    let Some((&piece, stream)) = data.split_first() else {
        return;
    };
    let whole = parse_all(stream, stream.len().max(1));
    let pieces = parse_all(stream, usize::from(piece) + 1);
    assert_eq!(whole, pieces);
}

fn parse_all(stream: &[u8], piece: usize) -> Vec<Outcome> {
    let (mut outcomes, mut spans) = (Vec::new(), Vec::new());
    let mut parser = Parser::new(LIMITS);
    let (mut at, mut end) = (0, 0);
    while end < stream.len() {
        end = stream.len().min(end + piece);
        loop {
            spans.clear();
            match parser.parse(&stream[at..end], &mut spans) {
                Parsed::Incomplete => break,
                Parsed::Skipped { consumed } => {
                    assert!(consumed > 0);
                    at += consumed;
                }
                Parsed::Request { consumed, request } => {
                    assert!(consumed > 0 && consumed <= end - at);
                    let all = spans.iter().chain([&request.value]);
                    let words = request.meta.words;
                    assert!(all.chain([&words]).all(|span| span.range().end <= consumed));
                    assert_eq!(request.keys(&spans).len(), spans.len());
                    outcomes.push(Outcome::Request(at, request, spans.clone()));
                    at += consumed;
                }
                Parsed::Refused { consumed, refusal } => {
                    assert!(consumed > 0 && consumed <= end - at);
                    outcomes.push(Outcome::Refused(at, refusal));
                    at += consumed;
                    if refusal.is_fatal {
                        return outcomes;
                    }
                }
            }
        }
    }
    outcomes
}
