//! Commands queued by MULTI or kept for a blocked client.

use crate::freeing;
use crate::spec::SpecIndex;
use std::ops::Range;
use wire::output::can_allocate;
use wire::{Args, Span};

/// One command that owns its arguments.
#[derive(Debug)]
pub struct OwnedCall {
    bytes: Vec<u8>,
    spans: Vec<Span>,
    /// Offset in `bytes` that the spans are relative to.
    start: usize,
    /// Index of the command in the command table.
    pub index: SpecIndex,
}

impl OwnedCall {
    /// Creates a call from its arguments' bytes and positions. The positions are relative to
    /// `start`.
    pub fn new(index: SpecIndex, bytes: Vec<u8>, start: usize, spans: Vec<Span>) -> OwnedCall {
        assert!(start <= bytes.len());
        OwnedCall {
            bytes,
            spans,
            start,
            index,
        }
    }

    /// Returns the arguments.
    pub fn args(&self) -> Args<'_> {
        Args::new(&self.bytes[self.start..], &self.spans)
    }

    /// Returns the bytes and the positions of a command with the same name and some of the
    /// arguments.
    pub fn part(&self, arguments: Range<usize>) -> (&[u8], Vec<Span>) {
        let name = self.spans.iter().take(1);
        let spans = name.chain(&self.spans[arguments]).copied().collect();
        (&self.bytes[self.start..], spans)
    }

    /// Returns the size on the heap in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.bytes.capacity() + self.spans.capacity() * size_of::<Span>()
    }
}

impl Drop for OwnedCall {
    fn drop(&mut self) {
        freeing::free(std::mem::take(&mut self.bytes));
        freeing::free(std::mem::take(&mut self.spans));
    }
}

/// A queue of commands with their arguments.
#[derive(Debug, Default)]
pub struct Transaction {
    bytes: Vec<u8>,
    spans: Vec<Span>,
    /// For each command its index in the command table, the index of its first span, and its number
    /// of spans.
    commands: Vec<(SpecIndex, usize, usize)>,
    /// Whether a command was refused, so that EXEC must refuse the transaction.
    pub is_broken: bool,
}

impl Drop for Transaction {
    fn drop(&mut self) {
        freeing::free(std::mem::take(&mut self.bytes));
        freeing::free(std::mem::take(&mut self.spans));
        freeing::free(std::mem::take(&mut self.commands));
    }
}

impl Transaction {
    /// Queues a command and copies its arguments. Returns false if they do not fit, because offsets
    /// have 32 bits or because memory is short.
    #[must_use = "a command that does not fit is not queued"]
    pub fn push(&mut self, index: SpecIndex, args: Args<'_>) -> bool {
        let first = self.spans.len();
        let len: usize = args.iter().map(<[u8]>::len).sum();
        let doubled = 2 * self.bytes.len().max(len);
        let fits = has_offsets(self.bytes.len(), len)
            && (self.bytes.capacity() - self.bytes.len() >= len || can_allocate(doubled))
            && self.bytes.try_reserve(len).is_ok()
            && self.spans.try_reserve(args.len()).is_ok()
            && self.commands.try_reserve(1).is_ok();
        if !fits {
            return false;
        }
        for arg in args.iter() {
            self.spans.push(Span {
                start: self.bytes.len() as u32,
                len: arg.len() as u32,
            });
            self.bytes.extend_from_slice(arg);
        }
        self.commands.push((index, first, args.len()));
        true
    }

    /// Returns the number of queued commands.
    pub fn len(&self) -> usize {
        self.commands.len()
    }

    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// Returns the size on the heap in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.bytes.capacity()
            + self.spans.capacity() * size_of::<Span>()
            + self.commands.capacity() * size_of::<(SpecIndex, usize, usize)>()
    }

    /// Returns the queued commands in order.
    pub fn iter(&self) -> impl Iterator<Item = (SpecIndex, Args<'_>)> {
        self.commands.iter().map(|&(index, first, count)| {
            let spans = &self.spans[first..first + count];
            (index, Args::new(&self.bytes, spans))
        })
    }
}

/// Whether 32-bit offsets can address `more` bytes after `len` others.
fn has_offsets(len: usize, more: usize) -> bool {
    len.checked_add(more)
        .is_some_and(|end| end <= u32::MAX as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_ends_where_its_offsets_end() {
        let last = u32::MAX as usize;
        assert!(has_offsets(0, last) && has_offsets(last, 0) && has_offsets(last - 5, 5));
        assert!(!has_offsets(last, 1) && !has_offsets(last - 5, 6) && !has_offsets(1, usize::MAX));
    }

    #[test]
    fn queued_commands_are_returned_in_order() {
        let mut queue = Transaction::default();
        let spans = [Span { start: 0, len: 3 }, Span { start: 3, len: 1 }];
        assert!(queue.push(7, Args::new(b"GETk", &spans)));
        assert!(queue.push(9, Args::new(b"PINGx", &spans[..1])));
        let commands: Vec<_> = queue
            .iter()
            .map(|(index, args)| (index, args.len()))
            .collect();
        assert_eq!(commands, [(7, 2), (9, 1)]);
        assert!(queue.heap_bytes() >= 7);
    }
}
