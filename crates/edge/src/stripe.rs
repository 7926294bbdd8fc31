//! Conversion of an object's bytes to the sub-chunks of a stripe, and back.

use crate::chunks::{CHUNKS_MAX, ChunkSet};
use crate::code::{Code, CodeError, Reconstruction};
use crate::layout::Layout;
use std::ops::Range;

/// Encodes a stripe. `bytes` are the object's bytes in it, and `out` receives its K + P sub-chunks,
/// one after the other, each [`Layout::sub_chunk_bytes`] long.
pub fn encode_stripe(code: &Code, layout: &Layout, stripe: u64, bytes: &[u8], out: &mut Vec<u8>) {
    let span = layout.stripe(stripe);
    assert_eq!(
        bytes.len() as u64,
        span.end - span.start,
        "all bytes of the stripe"
    );
    assert_eq!(code.k(), layout.k(), "the code of the layout");
    let len = layout.sub_chunk_bytes(stripe) as usize;
    out.clear();
    out.extend_from_slice(bytes);
    out.resize((code.k() + code.p()) * len, 0);
    let (data, parity) = out.split_at_mut(code.k() * len);
    let data: Vec<&[u8]> = data.chunks_exact(len).collect();
    let mut parity: Vec<&mut [u8]> = parity.chunks_exact_mut(len).collect();
    let coded = code.encoder().run(&data, &mut parity);
    coded.expect("all are equally long, and as many as the code has");
}

/// Decoder for the stripes of one object. It reuses the decoding matrix while the same chunks are
/// missing.
#[derive(Clone, Debug)]
pub struct StripeDecoder<'a> {
    code: &'a Code,
    layout: Layout,
    reconstruction: Option<Reconstruction>,
    made: Vec<u8>,
}

impl<'a> StripeDecoder<'a> {
    /// Creates a decoder for an object.
    pub fn new(code: &'a Code, layout: Layout) -> StripeDecoder<'a> {
        assert_eq!(code.k(), layout.k(), "the code of the layout");
        StripeDecoder {
            code,
            layout,
            reconstruction: None,
            made: vec![],
        }
    }

    /// Appends the bytes of `range` that are in a stripe to `out`. `chunks` contains the stripe's
    /// sub-chunks by number, with `None` for a missing one. Wanted sub-chunks that are missing are
    /// decoded from the others. If too few are given, nothing is appended.
    pub fn join(
        &mut self,
        stripe: u64,
        chunks: &[Option<&[u8]>],
        range: &Range<u64>,
        out: &mut Vec<u8>,
    ) -> Result<(), CodeError> {
        let len = self.layout.sub_chunk_bytes(stripe) as usize;
        if chunks.iter().flatten().any(|bytes| bytes.len() != len) {
            return Err(CodeError::Lengths);
        }
        let wanted = self.layout.chunks_of(range, stripe);
        self.make(chunks, wanted, len)?;
        let range = self.layout.clip(range);
        let mut made = self.made.chunks_exact(len);
        for chunk in wanted.iter() {
            let given = chunks.get(chunk).copied().flatten();
            let bytes = given
                .or_else(|| made.next())
                .expect("what was lost was made");
            let span = self.layout.sub_chunk(stripe, chunk);
            let (begin, end) = (range.start.max(span.start), range.end.min(span.end));
            out.extend_from_slice(
                &bytes[(begin - span.start) as usize..(end - span.start) as usize],
            );
        }
        Ok(())
    }

    /// Decodes the wanted sub-chunks that are missing.
    fn make(
        &mut self,
        chunks: &[Option<&[u8]>],
        wanted: ChunkSet,
        len: usize,
    ) -> Result<(), CodeError> {
        let there = chunks
            .iter()
            .enumerate()
            .filter(|(_, bytes)| bytes.is_some());
        let present: ChunkSet = there.map(|(chunk, _)| chunk).collect();
        let lost = wanted.without(present);
        self.made.resize(lost.count() * len, 0);
        if lost.is_empty() {
            return Ok(());
        }
        let fits = |reconstruction: &&Reconstruction| {
            reconstruction.makes() == lost && present.has_all(reconstruction.from())
        };
        if self.reconstruction.as_ref().filter(fits).is_none() {
            self.reconstruction = Some(self.code.reconstruction(present, lost)?);
        }
        let reconstruction = self
            .reconstruction
            .as_ref()
            .expect("it was just made, or it fits");
        let mut sources: [&[u8]; CHUNKS_MAX] = [&[]; CHUNKS_MAX];
        let taken = reconstruction
            .from()
            .iter()
            .filter_map(|chunk| chunks[chunk]);
        sources
            .iter_mut()
            .zip(taken)
            .for_each(|(source, bytes)| *source = bytes);
        let mut made: Vec<&mut [u8]> = self.made.chunks_exact_mut(len).collect();
        reconstruction.run(&sources[..self.code.k()], &mut made)
    }
}
