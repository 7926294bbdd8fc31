//! Commands queued by MULTI.

use crate::spec::SpecIndex;
use wire::{Args, Span};

/// Commands queued by MULTI.
#[derive(Debug, Default)]
pub struct Transaction {
    bytes: Vec<u8>,
    spans: Vec<Span>,
    /// For each command its code, its first span, how many it has, where its bytes begin.
    commands: Vec<(SpecIndex, usize, usize)>,
    /// One was refused: EXEC will refuse all.
    pub is_broken: bool,
}

impl Transaction {
    /// Queues a command; its arguments are copied.
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

    /// How many commands are queued.
    pub fn len(&self) -> usize {
        self.commands.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.bytes.capacity()
            + self.spans.capacity() * size_of::<Span>()
            + self.commands.capacity() * size_of::<(SpecIndex, usize, usize)>()
    }

    /// The queued commands, in order.
    pub fn iter(&self) -> impl Iterator<Item = (SpecIndex, Args<'_>)> {
        self.commands.iter().map(|&(index, first, count)| {
            let spans = &self.spans[first..first + count];
            (index, Args::new(&self.bytes, spans))
        })
    }
}
