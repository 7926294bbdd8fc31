//! The (K, P) code: computes parity from data, and any chunk from any K others.
//!
//! # Idea
//! Each byte of a parity chunk is a sum of products, in the field of 256 elements, of the data
//! chunks' bytes at the same position and a row of factors. Any K of the K + P chunks are K such
//! sums, which determine the rest: a [`Reconstruction`] has the factors for the missing chunks. The
//! factors of the first parity are all 1, so that it is a plain XOR. A chunk computed from the K
//! others of the first K + 1 is a plain XOR, too.
//!
//! # Source
//! I. Reed, G. Solomon, *Polynomial codes over certain finite fields*, 1960; with Cauchy's matrix:
//! J. Blömer and others, *An XOR-based erasure-resilient coding scheme*, ICSI 1995.
//!
//! # Cost
//! (3, 1): a load for each source's bytes and an XOR. Otherwise two look-ups for each product of 32
//! bytes with AVX2; the portable code doubles for each of eight bits.
//!
//! # Departures
//! No library is used. The usual one is Intel's ISA-L, whose bindings need nasm and autotools to
//! build. The SIMD code of the Rust libraries is C, needs a newer compiler than ours, or is an FFT,
//! which decodes slowly at small K.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod field;
mod matrix;
mod portable;
mod xor;

use crate::chunks::{CHUNKS_MAX, ChunkSet};
use crate::scheme::{Scheme, SchemeError};
use field::Factor;
use matrix::Matrix;
use std::fmt;

/// A (K, P) code.
#[derive(Clone, Debug)]
pub struct Code {
    k: usize,
    p: usize,
    parity: Matrix,
    encoder: Reconstruction,
}

/// Factors that compute some chunks from K others, for any number of stripes.
#[derive(Clone, Debug)]
pub struct Reconstruction {
    from: ChunkSet,
    makes: ChunkSet,
    factors: Vec<Factor>,
}

/// Reason why chunks cannot be computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CodeError {
    /// Fewer than K chunks are present.
    TooFew {
        /// Number of chunks needed.
        k: usize,
        /// Number of chunks present.
        present: usize,
    },
    /// The code has no chunk with this number.
    NoSuchChunk(usize),
    /// The number of sources or results does not match the reconstruction.
    Count {
        /// Number of sources or results that the reconstruction needs.
        wanted: usize,
        /// Number of slices that the caller passed.
        given: usize,
    },
    /// The byte slices differ in length.
    Lengths,
}

impl fmt::Display for CodeError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CodeError::TooFew { k, present } => {
                write!(out, "{present} chunks are present: {k} are needed")
            }
            CodeError::NoSuchChunk(chunk) => write!(out, "the code has no chunk {chunk}"),
            CodeError::Count { wanted, given } => {
                write!(out, "{given} byte slices were given: expected {wanted}")
            }
            CodeError::Lengths => write!(out, "the sub-chunks of a stripe differ in length"),
        }
    }
}

impl std::error::Error for CodeError {}

impl Code {
    /// Creates a code of `k` data and `p` parity chunks.
    pub fn new(k: u8, p: u8) -> Result<Code, SchemeError> {
        Scheme::coded(k, p).check()?;
        let (k, p) = (usize::from(k), usize::from(p));
        let parity = Matrix::parity(k, p);
        let encoder = Reconstruction {
            from: ChunkSet::between(0, k),
            makes: ChunkSet::between(k, k + p),
            factors: parity.cells.iter().map(|&cell| Factor::new(cell)).collect(),
        };
        Ok(Code {
            k,
            p,
            parity,
            encoder,
        })
    }

    /// Returns the number of data chunks.
    pub fn k(&self) -> usize {
        self.k
    }

    /// Returns the number of parity chunks.
    pub fn p(&self) -> usize {
        self.p
    }

    /// Returns the factors that compute all parity from all data.
    pub fn encoder(&self) -> &Reconstruction {
        &self.encoder
    }

    /// Returns the factors that compute `lost` chunks from `present` ones. It uses the present
    /// chunks with the lowest numbers, and so prefers data to parity, and the parity that is a
    /// plain XOR to the others.
    pub fn reconstruction(
        &self,
        present: ChunkSet,
        lost: ChunkSet,
    ) -> Result<Reconstruction, CodeError> {
        let all = ChunkSet::between(0, self.k + self.p);
        if let Some(chunk) = present.or(lost).without(all).iter().next() {
            return Err(CodeError::NoSuchChunk(chunk));
        }
        if present.count() < self.k {
            let present = present.count();
            return Err(CodeError::TooFew { k: self.k, present });
        }
        let from: ChunkSet = present.iter().take(self.k).collect();
        let rows = from.iter().flat_map(|chunk| self.row(chunk));
        let taken = Matrix {
            width: self.k,
            cells: rows.collect(),
        };
        let back = taken
            .inverted()
            .expect("any K rows of the code can be inverted");
        let factors = lost
            .iter()
            .flat_map(|chunk| back.factors_of(&self.row(chunk)));
        Ok(Reconstruction {
            from,
            makes: lost,
            factors: factors.map(Factor::new).collect(),
        })
    }

    /// Returns the factors of the data chunks whose sum of products is the given chunk.
    fn row(&self, chunk: usize) -> Vec<u8> {
        match chunk.checked_sub(self.k) {
            Some(parity) => self.parity.row(parity).to_vec(),
            None => (0..self.k).map(|data| u8::from(data == chunk)).collect(),
        }
    }
}

impl Reconstruction {
    /// Returns the chunks that are the sources of the reconstruction.
    pub fn from(&self) -> ChunkSet {
        self.from
    }

    /// Returns the chunks that the reconstruction computes.
    pub fn makes(&self) -> ChunkSet {
        self.makes
    }

    /// Computes chunks, or parts of them with the same length. `sources` are the chunks of
    /// [`Reconstruction::from`] in ascending order, and `made` receives those of
    /// [`Reconstruction::makes`].
    pub fn run(&self, sources: &[&[u8]], made: &mut [&mut [u8]]) -> Result<(), CodeError> {
        self.check(sources, made)?;
        let (factors, made) = self.run_first(sources, made);
        #[cfg(target_arch = "x86_64")]
        let done = avx2::combine(factors, sources, made);
        #[cfg(not(target_arch = "x86_64"))]
        let done = 0;
        run_portable(factors, sources, made, done);
        Ok(())
    }

    /// Like [`Reconstruction::run`], but without machine-specific instructions. For tests and
    /// benchmarks.
    #[doc(hidden)]
    pub fn run_portable(&self, sources: &[&[u8]], made: &mut [&mut [u8]]) -> Result<(), CodeError> {
        self.check(sources, made)?;
        let (factors, made) = self.run_first(sources, made);
        run_portable(factors, sources, made, 0);
        Ok(())
    }

    /// Computes the first chunk if it is a plain XOR, and returns the rest of the work.
    fn run_first<'a, 'b, 'c>(
        &'a self,
        sources: &[&[u8]],
        made: &'b mut [&'c mut [u8]],
    ) -> (&'a [Factor], &'b mut [&'c mut [u8]]) {
        let (first, rest) = self.factors.split_at(sources.len().min(self.factors.len()));
        if made.is_empty() || first.iter().any(|factor| factor.number != 1) {
            return (&self.factors, made);
        }
        let (sum, others) = made.split_at_mut(1);
        xor::xor(sources, sum[0]);
        (rest, others)
    }

    fn check(&self, sources: &[&[u8]], made: &[&mut [u8]]) -> Result<(), CodeError> {
        for (wanted, given) in [(self.from, sources.len()), (self.makes, made.len())] {
            let wanted = wanted.count();
            if wanted != given {
                return Err(CodeError::Count { wanted, given });
            }
        }
        let len = sources.first().map_or(0, |source| source.len());
        let is_equal = sources.iter().all(|source| source.len() == len);
        if is_equal && made.iter().all(|made| made.len() == len) {
            Ok(())
        } else {
            Err(CodeError::Lengths)
        }
    }
}

fn run_portable(factors: &[Factor], sources: &[&[u8]], made: &mut [&mut [u8]], begin: usize) {
    let mut rest: [&[u8]; CHUNKS_MAX] = [&[]; CHUNKS_MAX];
    for (rest, source) in rest.iter_mut().zip(sources) {
        *rest = &source[begin..];
    }
    let rows = factors.chunks_exact(sources.len());
    for (factors, made) in rows.zip(made) {
        portable::combine(factors, &rest[..sources.len()], &mut made[begin..]);
    }
}
