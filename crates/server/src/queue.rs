//! Commands queued by MULTI or kept for a blocked client.

use crate::spec::SpecIndex;
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

    /// Returns the size on the heap in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.bytes.capacity() + self.spans.capacity() * size_of::<Span>()
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

impl Transaction {
    /// Queues a command and copies its arguments.
    pub fn push(&mut self, index: SpecIndex, args: Args<'_>) {
        let first = self.spans.len();
        for arg in args.iter() {
            self.spans.push(Span {
                start: self.bytes.len() as u32,
                len: arg.len() as u32,
            });
            self.bytes.extend_from_slice(arg);
        }
        self.commands.push((index, first, args.len()));
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
