//! Fuzz target of the erasure code. An object is encoded, some of its chunks are removed and others
//! damaged. Any range of it is then reproduced, or reported as lost; the checksum detects the
//! damage.

use edge::{Code, CodeError, Layout, Scheme, StripeDecoder, SubChunkId, checksum, encode_stripe};

/// Runs the target. The first twelve bytes select the code, the length of sub-chunks, the range,
/// and the removed and damaged chunks; the rest is the object.
pub fn run(data: &[u8]) {
    let Some((head, object)) = data.split_first_chunk::<12>() else {
        return;
    };
    let (k, p) = (head[0] % 9, head[1] % 6);
    let mut scheme = Scheme::coded(k, p);
    scheme.sub_chunk_bytes = u32::from(u16::from_le_bytes([head[2], head[3] & 3]));
    let code = match (scheme.check(), Code::new(k, p)) {
        (Ok(()), Ok(code)) => code,
        (Err(_), _) => return,
        (Ok(()), Err(error)) => panic!("{error}"),
    };
    let layout = Layout::new(&scheme, object.len() as u64);
    let mut decoder = StripeDecoder::new(&code, layout);
    let begin = u64::from(u16::from_le_bytes([head[4], head[5]]));
    let range = begin..begin + u64::from(u16::from_le_bytes([head[6], head[7]]));
    let robbed = u16::from_le_bytes([head[8], head[9]]);
    let damaged = u16::from_le_bytes([head[10], head[11]]);

    let (mut stored, mut served, mut chunk_bytes) = (vec![], vec![], 0);
    for stripe in 0..layout.stripes() {
        let span = layout.stripe(stripe);
        let bytes = &object[span.start as usize..span.end as usize];
        encode_stripe(&code, &layout, stripe, bytes, &mut stored);
        let len = layout.sub_chunk_bytes(stripe) as usize;
        chunk_bytes += len as u64;
        assert_eq!(stored.len(), len * usize::from(k + p));
        let place = |chunk: usize| SubChunkId {
            object: 1,
            chunk: chunk as u32,
            stripe,
        };
        let sums: Vec<u64> = stored
            .chunks(len)
            .enumerate()
            .map(|(chunk, bytes)| checksum(place(chunk), bytes))
            .collect();
        for chunk in (0..usize::from(k + p)).filter(|chunk| damaged >> chunk & 1 == 1) {
            let at = chunk * len + stripe as usize % len;
            stored[at] = stored[at].wrapping_add(1 + (damaged >> 12) as u8);
        }
        let mut left = 0;
        let mut chunks = vec![];
        for (chunk, bytes) in stored.chunks(len).enumerate() {
            let is_right = checksum(place(chunk), bytes) == sums[chunk];
            assert_eq!(is_right, damaged >> chunk & 1 == 0);
            let is_there = is_right && robbed >> chunk & 1 == 0;
            left += usize::from(is_there);
            chunks.push(is_there.then_some(bytes));
        }
        let wanted = layout.chunks_of(&range, stripe);
        let has_wanted = wanted.iter().all(|chunk| chunks[chunk].is_some());
        let joined = decoder.join(stripe, &chunks, &range, &mut served);
        match joined {
            Ok(()) => assert!(has_wanted || left >= usize::from(k)),
            Err(error) => {
                assert!(!has_wanted);
                assert_eq!(
                    error,
                    CodeError::TooFew {
                        k: usize::from(k),
                        present: left
                    }
                );
                return;
            }
        }
    }
    assert_eq!(chunk_bytes, layout.chunk_bytes());
    let range = layout.clip(&range);
    assert_eq!(served, object[range.start as usize..range.end as usize]);
}
