//! An object's bytes to the sub-chunks of a stripe, and back.

use crate::chunks::Chunks;
use crate::code::{Code, CodeError};
use crate::layout::Layout;
use std::ops::Range;

/// Cuts a stripe and codes it: `bytes` are the object's bytes of it, and `out` becomes its K + P sub-chunks, one behind the
/// other, each [`Layout::sub_chunk_bytes`] long.
pub fn cut(code: &Code, layout: &Layout, stripe: u64, bytes: &[u8], out: &mut Vec<u8>) {
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

/// Puts together the bytes of `range` that lie in a stripe, and adds them to `out`. `chunks` are its sub-chunks by number,
/// as many as there are; those that are needed and missing are made of others.
pub fn join(
    code: &Code,
    layout: &Layout,
    stripe: u64,
    chunks: &[Option<&[u8]>],
    range: &Range<u64>,
    out: &mut Vec<u8>,
) -> Result<(), CodeError> {
    assert_eq!(code.k(), layout.k(), "the code of the layout");
    let len = layout.sub_chunk_bytes(stripe) as usize;
    if chunks.iter().flatten().any(|bytes| bytes.len() != len) {
        return Err(CodeError::Lengths);
    }
    let there = chunks
        .iter()
        .enumerate()
        .filter(|(_, bytes)| bytes.is_some());
    let present: Chunks = there.map(|(chunk, _)| chunk).collect();
    let wanted = layout.chunks_of(range, stripe);
    let lost = wanted.without(present);
    let mut made = vec![0; lost.count() * len];
    if !lost.is_empty() {
        let recipe = code.recipe(present, lost)?;
        let sources: Vec<&[u8]> = recipe
            .from()
            .iter()
            .filter_map(|chunk| chunks[chunk])
            .collect();
        let mut made: Vec<&mut [u8]> = made.chunks_exact_mut(len).collect();
        recipe.run(&sources, &mut made)?;
    }
    let range = layout.clip(range);
    let mut made = made.chunks_exact(len);
    for chunk in wanted.iter() {
        let given = chunks.get(chunk).copied().flatten();
        let bytes = given
            .or_else(|| made.next())
            .expect("what was lost was made");
        let span = layout.sub_chunk(stripe, chunk);
        let (begin, end) = (range.start.max(span.start), range.end.min(span.end));
        out.extend_from_slice(&bytes[(begin - span.start) as usize..(end - span.start) as usize]);
    }
    Ok(())
}
