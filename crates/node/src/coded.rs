//! Cutting of objects into chunks, and layout of a chunk.
//!
//! ```text
//! chunk:  sub-chunk of stripe 0, checksum, sub-chunk of stripe 1, checksum, …
//! ```
//!
//! The node that cuts an object computes the checksums (8 bytes, little-endian), and the node that
//! reads it verifies them. Nothing in between needs to be trusted: disks, memory or other nodes. A
//! checksum covers the position, the version of the object and the parameters of the code.

use bytes::Bytes;
use edge::{Code, Layout, Scheme, SchemeError, SubChunkId, checksum, encode_stripe, mix};
use std::hash::Hasher;
use std::ops::Range;
use twox_hash::XxHash3_64;

/// Size of a checksum in bytes.
const SUM_BYTES: u64 = 8;

/// Identity of an object that was cut into chunks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Coded {
    /// Hash of the content and of the code. Chunks with equal versions belong together, regardless
    /// of which node cut them.
    pub version: u64,
    /// Length of the object in bytes.
    pub length: u64,
}

/// Position of a sub-chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Position {
    /// Hash of the object's URL.
    pub name_hash: u64,
    /// Number of the chunk.
    pub chunk: usize,
    /// Number of the stripe.
    pub stripe: u64,
}

/// Erasure code with its parameters.
#[derive(Clone, Debug)]
pub struct Coding {
    scheme: Scheme,
    code: Code,
}

impl Coding {
    /// Prepares a code.
    ///
    /// # Errors
    /// Returns an error if the scheme is invalid.
    pub fn new(scheme: Scheme) -> Result<Self, SchemeError> {
        let code = Code::new(scheme.k, scheme.p)?;
        scheme.check()?;
        Ok(Coding { scheme, code })
    }

    /// Returns the erasure code.
    pub fn code(&self) -> &Code {
        &self.code
    }

    /// Returns the number of data chunks.
    pub fn k(&self) -> usize {
        usize::from(self.scheme.k)
    }

    /// Returns the number of chunks per object, including parity.
    pub fn chunks(&self) -> usize {
        self.scheme.chunks()
    }

    /// Returns the layout of an object of this length.
    pub fn layout(&self, length: u64) -> Layout {
        Layout::new(&self.scheme, length)
    }

    /// Returns the size in bytes of each chunk of an object of this length.
    pub fn chunk_bytes(&self, length: u64) -> u64 {
        let layout = self.layout(length);
        layout.chunk_bytes() + layout.stripes() * SUM_BYTES
    }

    /// Returns the range in a chunk that holds the sub-chunk of a stripe and its checksum.
    pub fn span(&self, layout: &Layout, stripe: u64) -> Range<u64> {
        let start = layout.offset_in_chunk(stripe) + stripe * SUM_BYTES;
        start..start + u64::from(layout.sub_chunk_bytes(stripe)) + SUM_BYTES
    }

    /// Cuts an object, and returns its identity and the contents of its chunks.
    pub fn cut(&self, name_hash: u64, content: &[Bytes]) -> (Coded, Vec<Bytes>) {
        let coded = self.identify(content);
        let mut cutter = self.cutter(name_hash, coded, (0..self.chunks()).collect());
        // The identity was computed from these same bytes.
        cutter.hasher = None;
        content.iter().for_each(|piece| cutter.push(piece));
        let made = cutter.finish().expect("the length is that of the content");
        (coded, made)
    }

    /// Begins to compute some of the chunks of an object whose content arrives in pieces.
    pub fn cutter(&self, name_hash: u64, coded: Coded, wanted: Vec<usize>) -> Cutter<'_> {
        assert!(wanted.iter().all(|&chunk| chunk < self.chunks()));
        let capacity = usize::try_from(self.chunk_bytes(coded.length)).unwrap_or(0);
        Cutter {
            coding: self,
            coded,
            name_hash,
            layout: self.layout(coded.length),
            made: vec![Vec::with_capacity(capacity); wanted.len()],
            wanted,
            stripe: 0,
            bytes: vec![],
            out: vec![],
            hasher: Some(XxHash3_64::with_seed(self.seed())),
        }
    }

    /// Returns a sub-chunk without its checksum; `None` if its length or its checksum is wrong.
    pub fn verified(&self, coded: &Coded, position: Position, bytes: &Bytes) -> Option<Bytes> {
        let layout = self.layout(coded.length);
        let span = self.span(&layout, position.stripe);
        if bytes.len() as u64 != span.end - span.start {
            return None;
        }
        let part = bytes.slice(..bytes.len() - SUM_BYTES as usize);
        let sum = self.sum(coded.version, position, &part).to_le_bytes();
        bytes.ends_with(&sum).then_some(part)
    }

    fn identify(&self, content: &[Bytes]) -> Coded {
        let mut hasher = XxHash3_64::with_seed(self.seed());
        for piece in content {
            hasher.write(piece);
        }
        Coded {
            version: hasher.finish(),
            length: content.iter().map(|piece| piece.len() as u64).sum(),
        }
    }

    fn sum(&self, version: u64, position: Position, part: &[u8]) -> u64 {
        let id = SubChunkId {
            object: mix(position.name_hash ^ self.seed()) ^ version,
            chunk: position.chunk as u32,
            stripe: position.stripe,
        };
        checksum(id, part)
    }

    /// Returns a seed that depends on the parameters, so that chunks of one code are never mistaken
    /// for chunks of another.
    fn seed(&self) -> u64 {
        let Scheme {
            k,
            p,
            sub_chunk_bytes,
            ..
        } = self.scheme;
        mix(u64::from(k) << 48 | u64::from(p) << 40 | u64::from(sub_chunk_bytes))
    }
}

/// Computation of an object's chunks from content that arrives in pieces.
pub struct Cutter<'a> {
    coding: &'a Coding,
    coded: Coded,
    name_hash: u64,
    layout: Layout,
    /// Numbers of the chunks to compute.
    wanted: Vec<usize>,
    made: Vec<Vec<u8>>,
    /// Number of the stripe that is arriving.
    stripe: u64,
    /// Bytes of the stripe that is arriving.
    bytes: Vec<u8>,
    out: Vec<u8>,
    /// Hash of the content so far, if it must be compared with the object's version.
    hasher: Option<XxHash3_64>,
}

impl Cutter<'_> {
    /// Adds the next bytes of the content.
    pub fn push(&mut self, mut piece: &[u8]) {
        if let Some(hasher) = &mut self.hasher {
            hasher.write(piece);
        }
        while !piece.is_empty() && self.stripe < self.layout.stripes() {
            let span = self.layout.stripe(self.stripe);
            let length = (span.end - span.start) as usize;
            let (taken, after) = piece.split_at(piece.len().min(length - self.bytes.len()));
            self.bytes.extend_from_slice(taken);
            piece = after;
            if self.bytes.len() == length {
                self.encode();
            }
        }
        // The bytes are beyond the last stripe, so that the content is too long.
        self.bytes.extend_from_slice(piece);
    }

    fn encode(&mut self) {
        let Cutter { coding, layout, .. } = *self;
        let stripe = self.stripe;
        encode_stripe(&coding.code, &layout, stripe, &self.bytes, &mut self.out);
        let length = layout.sub_chunk_bytes(stripe) as usize;
        for (&chunk, made) in self.wanted.iter().zip(&mut self.made) {
            let part = &self.out[chunk * length..][..length];
            let position = Position {
                name_hash: self.name_hash,
                chunk,
                stripe,
            };
            made.extend_from_slice(part);
            let sum = coding.sum(self.coded.version, position, part);
            made.extend_from_slice(&sum.to_le_bytes());
        }
        self.bytes.clear();
        self.stripe += 1;
    }

    /// Returns the contents of the chunks, or `None` if the content differs from the object's.
    pub fn finish(self) -> Option<Vec<Bytes>> {
        let is_whole = self.stripe == self.layout.stripes() && self.bytes.is_empty();
        let version = self.hasher.map(|hasher| hasher.finish());
        let is_same = version.is_none_or(|version| version == self.coded.version);
        (is_whole && is_same).then(|| self.made.into_iter().map(Bytes::from).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edge::StripeDecoder;

    fn coding(k: u8, p: u8) -> Coding {
        let mut scheme = Scheme::coded(k, p);
        scheme.sub_chunk_bytes = 1_000;
        Coding::new(scheme).expect("the input is valid")
    }

    fn content(length: usize, piece: usize) -> Vec<Bytes> {
        let bytes: Vec<u8> = (0..length).map(|at| ((at * 31) >> 3) as u8).collect();
        bytes.chunks(piece).map(Bytes::copy_from_slice).collect()
    }

    #[test]
    fn an_object_is_reproduced_from_any_k_chunks() {
        let coding = coding(3, 2);
        for length in [1, 2, 2_999, 3_000, 3_001, 10_000] {
            let content = content(length, 777);
            let (coded, chunks) = coding.cut(7, &content);
            assert_eq!(coded.length, length as u64);
            let layout = coding.layout(coded.length);
            for (lost, other) in [(0, 1), (2, 4), (3, 4)] {
                let mut decoder = StripeDecoder::new(coding.code(), layout);
                let mut out = vec![];
                for stripe in 0..layout.stripes() {
                    let span = coding.span(&layout, stripe);
                    let span = span.start as usize..span.end as usize;
                    let part = |chunk: usize| {
                        let position = Position {
                            name_hash: 7,
                            chunk,
                            stripe,
                        };
                        let bytes = chunks[chunk].slice(span.clone());
                        coding.verified(&coded, position, &bytes)
                    };
                    let parts: Vec<Option<Bytes>> = (0..5)
                        .map(|chunk| part(chunk).filter(|_| chunk != lost && chunk != other))
                        .collect();
                    let parts: Vec<Option<&[u8]>> =
                        parts.iter().map(|part| part.as_deref()).collect();
                    let all = 0..coded.length;
                    decoder
                        .join(stripe, &parts, &all, &mut out)
                        .expect("three chunks are enough");
                }
                assert_eq!(out, content.concat(), "{length} bytes");
            }
            let bytes = coding.chunk_bytes(coded.length);
            assert!(chunks.iter().all(|chunk| chunk.len() as u64 == bytes));
        }
    }

    #[test]
    fn the_version_depends_on_content_and_code_and_not_on_pieces() {
        let of = |coding: &Coding, length, piece| coding.cut(7, &content(length, piece)).0;
        let first = of(&coding(3, 1), 5_000, 10);
        assert_eq!(first, of(&coding(3, 1), 5_000, 4_000));
        assert_ne!(first.version, of(&coding(3, 1), 5_001, 10).version);
        assert_ne!(first.version, of(&coding(2, 1), 5_000, 10).version);
    }

    #[test]
    fn single_chunks_are_made_again_of_the_content_alone() {
        let coding = coding(3, 2);
        for length in [1, 2_999, 3_000, 3_001, 10_000] {
            let (coded, chunks) = coding.cut(7, &content(length, 777));
            let mut cutter = coding.cutter(7, coded, vec![1, 4]);
            content(length, 501)
                .iter()
                .for_each(|piece| cutter.push(piece));
            let made = cutter.finish().expect("the content is that of the object");
            assert_eq!(made, [chunks[1].clone(), chunks[4].clone()]);
            // The content has other bytes, too few, or too many.
            let mut other = content(length, length).concat();
            other[length / 2] ^= 1;
            let longer = [&content(length, length).concat()[..], b"x"].concat();
            for wrong in [&other[..], &other[1..], &longer[..]] {
                let mut cutter = coding.cutter(7, coded, vec![0]);
                cutter.push(wrong);
                assert!(cutter.finish().is_none());
            }
        }
    }

    #[test]
    fn changed_bytes_and_other_positions_are_refused() {
        let coding = coding(2, 1);
        let (coded, chunks) = coding.cut(7, &content(5_000, 5_000));
        let layout = coding.layout(coded.length);
        let span = coding.span(&layout, 1);
        let bytes = chunks[1].slice(span.start as usize..span.end as usize);
        let position = Position {
            name_hash: 7,
            chunk: 1,
            stripe: 1,
        };
        assert!(coding.verified(&coded, position, &bytes).is_some());
        for bit in (0..bytes.len() * 8).step_by(401) {
            let mut changed = bytes.to_vec();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(coding.verified(&coded, position, &changed.into()), None);
        }
        let shorter = bytes.slice(1..);
        assert_eq!(coding.verified(&coded, position, &shorter), None);
        let other = Position {
            name_hash: 8,
            ..position
        };
        assert_eq!(coding.verified(&coded, other, &bytes), None);
        let newer = Coded {
            version: coded.version ^ 1,
            ..coded
        };
        assert_eq!(coding.verified(&newer, position, &bytes), None);
    }
}
