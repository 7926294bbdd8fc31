//! Published messages waiting to be sent to a subscriber.
//!
//! They are kept in pieces, because a doubling buffer copies everything now and then: for twenty
//! slow subscribers at the same time, that took 100 ms. Large pieces are shared with the other
//! subscribers.

use super::{Connection, SENT_PER_TURN, Scratch};
use session::message::Publication;
use std::collections::VecDeque;
use std::io::{ErrorKind, IoSlice, Write};
use std::sync::Arc;
use wire::Protocol;

/// Maximum number of bytes in a piece of the connection's own.
const PIECE_BYTES: usize = 16 << 10;
/// Minimum number of bytes of a publication that is shared. The bytes of smaller ones are copied,
/// because a piece costs about 200 bytes.
const SHARED_MIN: usize = 4 << 10;
/// Maximum number of pieces per write.
const SLICES_MAX: usize = 16;

/// Result of sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// Everything was sent.
    All,
    /// The socket accepts no more.
    Blocked,
    /// There is more, and the socket may accept it.
    Some,
    /// The connection is broken.
    Failed,
}

#[derive(Debug)]
enum Piece {
    /// Messages in the encoding of a protocol.
    Shared(Arc<Publication>, Protocol),
    /// Copied messages.
    Own(Vec<u8>),
}

impl Piece {
    fn bytes(&self) -> &[u8] {
        match self {
            Piece::Shared(publication, protocol) => publication.encoded(*protocol),
            Piece::Own(bytes) => bytes,
        }
    }

    fn held_bytes(&self) -> usize {
        match self {
            Piece::Shared(..) => self.bytes().len(),
            Piece::Own(bytes) => bytes.capacity(),
        }
    }
}

/// Messages in order.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    pieces: VecDeque<Piece>,
    /// Number of bytes of the first piece that were sent.
    sent: usize,
    /// Number of unsent bytes.
    bytes: usize,
    /// Number of bytes of all pieces.
    held_bytes: usize,
}

impl Backlog {
    /// Returns the number of unsent bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number of bytes of the messages in memory.
    pub(super) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Whether everything was sent.
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Adds messages in the encoding of a protocol.
    pub(super) fn push(&mut self, publication: &Arc<Publication>, protocol: Protocol) {
        let bytes = publication.encoded(protocol);
        self.bytes += bytes.len();
        if bytes.len() < SHARED_MIN {
            if let Some(Piece::Own(last)) = self.pieces.back_mut()
                && last.len() + bytes.len() <= PIECE_BYTES
            {
                return last.extend_from_slice(bytes);
            }
            let mut own = Vec::with_capacity(PIECE_BYTES);
            own.extend_from_slice(bytes);
            self.pieces.push_back(Piece::Own(own));
        } else {
            let piece = Piece::Shared(Arc::clone(publication), protocol);
            self.pieces.push_back(piece);
        }
        self.held_bytes += self.pieces.back().map_or(0, Piece::held_bytes);
    }

    /// Removes all messages. Passes the unsent bytes to `each`.
    pub(super) fn drain(&mut self, mut each: impl FnMut(&[u8])) {
        let backlog = std::mem::take(self);
        let mut sent = backlog.sent;
        for piece in backlog.pieces {
            each(&piece.bytes()[sent..]);
            sent = 0;
        }
    }

    /// Removes bytes that were sent.
    fn advance(&mut self, mut len: usize) {
        assert!(len <= self.bytes);
        self.bytes -= len;
        while let Some(first) = self.pieces.front() {
            let left = first.bytes().len() - self.sent;
            if len < left {
                self.sent += len;
                return;
            }
            len -= left;
            self.sent = 0;
            self.held_bytes -= first.held_bytes();
            self.pieces.pop_front();
        }
        // An idle connection holds no buffer.
        self.pieces = VecDeque::new();
    }
}

impl Connection {
    /// Sends messages of the backlog. The output must already have been sent.
    pub(super) fn send_backlog(&mut self, scratch: &mut Scratch) -> Sent {
        let mut left = SENT_PER_TURN;
        while !self.replies.backlog.is_empty() {
            if left == 0 {
                return Sent::Some;
            }
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let mut skipped = self.replies.backlog.sent;
            for (slice, piece) in slices.iter_mut().zip(&self.replies.backlog.pieces) {
                *slice = IoSlice::new(&piece.bytes()[skipped..]);
                skipped = 0;
            }
            scratch.traffic.writes += 1;
            let sent = match &mut self.tls {
                None => self.stream.write_vectored(&slices),
                Some(tls) => tls.write(&mut self.stream, &slices[0], &mut scratch.records),
            };
            match sent {
                Ok(len) => {
                    self.account.sent_bytes += len as u64;
                    scratch.traffic.output_bytes += len as u64;
                    self.replies.backlog.advance(len);
                    left = left.saturating_sub(len);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Sent::Blocked,
                Err(_) => {
                    self.replies.backlog = Backlog::default();
                    return Sent::Failed;
                }
            }
        }
        Sent::All
    }

    /// Moves the backlog to the end of the output, so that a reply can follow it.
    pub(super) fn absorb_backlog(&mut self) {
        let output = &mut self.replies.output;
        self.replies
            .backlog
            .drain(|bytes| output.extend_from_slice(bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use session::message::Source;

    #[test]
    fn any_sequence_of_writes_sends_every_byte_once() {
        let mut expected = Vec::new();
        let mut backlog = Backlog::default();
        for number in 0..90usize {
            let mut publication = Publication::default();
            for _ in 0..=number % 3 {
                publication.push(
                    Source::Channel,
                    b"news",
                    &vec![b'a' + number as u8 % 26; 100 * number],
                );
            }
            let protocol = [Protocol::Resp2, Protocol::Resp3][number % 2];
            expected.extend_from_slice(publication.encoded(protocol));
            backlog.push(&Arc::new(publication), protocol);
        }
        assert_eq!(backlog.bytes(), expected.len());
        for len in [0, 1, 7, 40, 300, 0, 1_000, 30_000, 99_999] {
            backlog.advance(len);
            expected.drain(..len);
            assert_eq!(backlog.bytes(), expected.len());
            assert!((expected.len()..expected.len() * 2).contains(&backlog.held_bytes()));
        }
        let mut rest = Vec::new();
        backlog.drain(|bytes| rest.extend_from_slice(bytes));
        assert!(rest == expected);
        assert!(backlog.is_empty());
    }
}
