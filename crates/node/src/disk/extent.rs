//! Content on disk that is read in pieces and verified piece by piece.

use super::Shared;
use super::buffers::{BUFFER_BYTES, Buffer};
use super::record::{self, BLOCK_BYTES};
use super::segment::Segment;
use crate::object::{Extent, Pieces, Place};
use crate::rules::ranges::Range;
use bytes::Bytes;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::task::JoinHandle;

/// Maximum number of bytes that are read at a time.
const READ_BYTES: u64 = BUFFER_BYTES as u64;

const _: () = assert!(BUFFER_BYTES.is_multiple_of(BLOCK_BYTES));

/// Content of one response on disk.
#[derive(Clone)]
pub(super) struct DiskExtent {
    pub(super) shared: Arc<Shared>,
    pub(super) segment: Arc<Segment>,
    pub(super) hash: u64,
    pub(super) place: Place,
    pub(super) blocks: Arc<[u32]>,
    /// Offset in the segment at which the record's content begins.
    pub(super) content_at: u64,
    /// Size of the record's content in bytes.
    pub(super) content_bytes: u64,
    /// Offset of this response in the record's content.
    pub(super) start: u64,
}

impl std::fmt::Debug for DiskExtent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DiskExtent({:?})", self.place)
    }
}

/// Piece of a read: an aligned range, and the part of it that is wanted.
#[derive(Clone, Copy)]
struct Piece {
    start: u64,
    length: usize,
    skip: usize,
    end: usize,
}

impl Extent for DiskExtent {
    fn read(&self, range: Range) -> Box<dyn Pieces> {
        Box::new(Reading {
            at: self.start + range.start,
            end: self.start + range.end,
            extent: self.clone(),
            waiting: None,
        })
    }
}

impl DiskExtent {
    fn piece(&self, at: u64, end: u64, bytes: u64) -> Piece {
        let block = BLOCK_BYTES as u64;
        let start = at / block * block;
        let stop = (start + bytes).min(end.div_ceil(block) * block);
        let stop = stop.min(self.content_bytes);
        Piece {
            start,
            length: (stop - start) as usize,
            skip: (at - start) as usize,
            end: (stop.min(end) - start) as usize,
        }
    }

    /// Verifies a piece, and returns the wanted part.
    fn verified(&self, piece: Piece, buffer: Buffer) -> io::Result<Bytes> {
        if record::is_intact(&self.blocks, piece.start, buffer.first(piece.length)) {
            return Ok(buffer.into_bytes(piece.skip..piece.end));
        }
        self.shared.corrupt(self.hash, self.place);
        Err(io::Error::other("the stored content is damaged"))
    }
}

/// State of reading a range.
struct Reading {
    extent: DiskExtent,
    at: u64,
    end: u64,
    waiting: Option<JoinHandle<io::Result<Bytes>>>,
}

impl Pieces for Reading {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if self.waiting.is_none() {
            if self.at >= self.end {
                return Poll::Ready(None);
            }
            let shared = &self.extent.shared;
            let bytes = match shared.budget.is_full() {
                true => BLOCK_BYTES as u64,
                false => READ_BYTES,
            };
            let piece = self.extent.piece(self.at, self.end, bytes);
            let offset = self.extent.content_at + piece.start;
            self.at = piece.start + piece.end as u64;
            let mut buffer = shared.buffers.take(piece.length);
            // A piece in the page cache is copied here, which is cheaper than a change of threads.
            let bytes = buffer.first_mut(piece.length);
            if self.extent.segment.read_cached(offset, bytes) {
                return Poll::Ready(Some(self.extent.verified(piece, buffer)));
            }
            let extent = self.extent.clone();
            self.waiting = Some(tokio::task::spawn_blocking(move || {
                let read = extent
                    .segment
                    .read_into(offset, buffer.first_mut(piece.length));
                read.inspect_err(|error| extent.shared.fail(error))?;
                extent.verified(piece, buffer)
            }));
        }
        let Some(waiting) = &mut self.waiting else {
            return Poll::Ready(None);
        };
        let result = ready!(Pin::new(waiting).poll(context));
        self.waiting = None;
        Poll::Ready(Some(result.unwrap_or_else(|error| Err(error.into()))))
    }
}
