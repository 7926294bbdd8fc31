//! A long reply in pieces. A single buffer would be copied each time that it grows, which takes
//! several milliseconds for a reply of 16 MB. The pieces are sent one by one.

use std::collections::VecDeque;
use wire::{CutOff, Output};

/// Length in bytes at which a piece is closed.
const PIECE_BYTES: usize = 64 << 10;

/// Reply in pieces. Their total length is limited like that of one output.
#[derive(Debug)]
pub(super) struct Pieces {
    closed: VecDeque<Output>,
    open: Output,
    /// Bytes of the closed pieces, and their capacities.
    bytes: usize,
    capacity: usize,
    bytes_max: usize,
}

impl Pieces {
    pub fn new(bytes_max: usize) -> Pieces {
        Pieces {
            closed: VecDeque::new(),
            open: Output::new(bytes_max),
            bytes: 0,
            capacity: 0,
            bytes_max,
        }
    }

    /// Returns the piece that is written to. The caller calls [`Pieces::close_full`] from time to
    /// time.
    pub fn open(&mut self) -> &mut Output {
        &mut self.open
    }

    /// Begins a new piece if the current one is long enough.
    pub fn close_full(&mut self) {
        if self.open.len() >= PIECE_BYTES {
            self.bytes += self.open.len();
            let next = Output::new(self.bytes_max.saturating_sub(self.bytes));
            self.push(next);
        }
    }

    fn push(&mut self, next: Output) {
        let piece = std::mem::replace(&mut self.open, next);
        self.capacity += piece.capacity();
        self.closed.push_back(piece);
    }

    /// Returns why the reply was cut off, because it is longer than allowed.
    pub fn cut_off(&self) -> Option<CutOff> {
        self.open.cut_off()
    }

    /// Adds a piece before the others.
    pub fn push_front(&mut self, piece: Output) {
        self.capacity += piece.capacity();
        self.closed.push_front(piece);
    }

    /// Removes and returns the next piece, and whether it is the last one.
    pub fn pop(&mut self) -> (Output, bool) {
        let Some(piece) = self.closed.pop_front() else {
            return (std::mem::take(&mut self.open), true);
        };
        self.capacity -= piece.capacity();
        (piece, false)
    }

    /// Returns the size on the heap in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.capacity + self.open.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_the_whole_in_their_order() {
        let mut pieces = Pieces::new(1 << 20);
        let mut whole = b"head".to_vec();
        for number in 0..40_000u32 {
            let name = format!("{number} ");
            pieces.open().extend_from_slice(name.as_bytes());
            pieces.close_full();
            whole.extend_from_slice(name.as_bytes());
        }
        let mut head = Output::default();
        head.extend_from_slice(b"head");
        pieces.push_front(head);
        let (mut all, mut count) = (Vec::new(), 0);
        loop {
            let held = pieces.heap_bytes();
            let (piece, is_last) = pieces.pop();
            assert_eq!(pieces.heap_bytes(), held - piece.capacity());
            assert!(piece.len() < 2 * PIECE_BYTES);
            all.extend_from_slice(&piece);
            count += 1;
            if is_last {
                break;
            }
        }
        assert!(all == whole && count > 3, "{count} pieces");
    }

    #[test]
    fn all_pieces_together_are_bounded() {
        let mut pieces = Pieces::new(3 * PIECE_BYTES);
        for _ in 0..3 {
            pieces.open().extend_from_slice(&[0; PIECE_BYTES]);
            pieces.close_full();
            assert_eq!(pieces.cut_off(), None);
        }
        pieces.open().push(0);
        pieces.close_full();
        assert_eq!(pieces.cut_off(), Some(CutOff::Limit));
    }
}
