//! Redundancy of a cluster: its code, which objects are coded, and the number of replicas of all
//! other objects.

use crate::chunks::CHUNKS_MAX;
use std::fmt;

/// Default minimum size in bytes of coded objects (section 5.4).
pub const CODED_FROM_BYTES: u64 = 128 << 10;
/// Default length of a sub-chunk in bytes, at which disks and the code reach their full speed
/// (section 5.4).
pub const SUB_CHUNK_BYTES: u32 = 64 << 10;
/// Maximum length of a sub-chunk in bytes.
pub const SUB_CHUNK_BYTES_MAX: u32 = 1 << 30;

/// A (K, P) code and its parameters. K and P are the source's letters: an object is cut into K data
/// chunks, and P parity chunks are computed from them. Any K of the K + P reproduce the object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scheme {
    /// Number of data chunks of an object (K).
    pub k: u8,
    /// Number of parity chunks of an object (P).
    pub p: u8,
    /// Minimum size in bytes of coded objects; smaller ones are replicated. `None` means that
    /// nothing is coded.
    pub coded_from_bytes: Option<u64>,
    /// Number of servers that store a replicated object.
    pub replicas: u8,
    /// Length of a sub-chunk in bytes; only those in an object's last stripe are shorter.
    pub sub_chunk_bytes: u32,
}

/// Kind of redundancy of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Redundancy {
    /// Several servers store the whole object.
    Replicated,
    /// The object is cut into chunks, each stored by one server.
    Coded,
}

/// Reason why a scheme is invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SchemeError {
    /// K is 0.
    NoData,
    /// P is 0.
    NoParity,
    /// K + P is above [`CHUNKS_MAX`].
    TooManyChunks {
        /// Number of chunks of the scheme, K + P.
        chunks: u16,
    },
    /// The number of replicas is 0.
    NoReplica,
    /// The length of a sub-chunk is 0 or above [`SUB_CHUNK_BYTES_MAX`].
    SubChunkBytes(u32),
}

impl fmt::Display for SchemeError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SchemeError::NoData => write!(out, "K is 0: an object needs at least one data chunk"),
            SchemeError::NoParity => {
                let why = "without parity, a lost chunk would be a lost object";
                write!(out, "P is 0: {why}")
            }
            SchemeError::TooManyChunks { chunks } => {
                write!(out, "K + P is {chunks}: expected at most {CHUNKS_MAX}")
            }
            SchemeError::NoReplica => {
                write!(
                    out,
                    "0 replicas: an object that is not coded needs at least one"
                )
            }
            SchemeError::SubChunkBytes(bytes) => {
                write!(
                    out,
                    "sub-chunks of {bytes} bytes: expected 1 to {SUB_CHUNK_BYTES_MAX}"
                )
            }
        }
    }
}

impl std::error::Error for SchemeError {}

impl Scheme {
    /// Returns a (K, P) scheme with sub-chunks of 64 KiB for objects of 128 KiB and more. Smaller
    /// objects have P + 1 replicas, so that they survive the same number of failures.
    pub fn coded(k: u8, p: u8) -> Scheme {
        Scheme {
            k,
            p,
            coded_from_bytes: Some(CODED_FROM_BYTES),
            replicas: p.saturating_add(1),
            sub_chunk_bytes: SUB_CHUNK_BYTES,
        }
    }

    /// Returns a scheme without coding, in which every object has this number of replicas.
    pub fn replicated(replicas: u8) -> Scheme {
        Scheme {
            coded_from_bytes: None,
            replicas,
            ..Scheme::coded(1, 1)
        }
    }

    /// Checks that the scheme is valid.
    pub fn check(&self) -> Result<(), SchemeError> {
        if self.replicas == 0 {
            return Err(SchemeError::NoReplica);
        }
        if self.coded_from_bytes.is_none() {
            return Ok(());
        }
        if self.k == 0 {
            return Err(SchemeError::NoData);
        }
        if self.p == 0 {
            return Err(SchemeError::NoParity);
        }
        let chunks = u16::from(self.k) + u16::from(self.p);
        if usize::from(chunks) > CHUNKS_MAX {
            return Err(SchemeError::TooManyChunks { chunks });
        }
        if self.sub_chunk_bytes == 0 || self.sub_chunk_bytes > SUB_CHUNK_BYTES_MAX {
            return Err(SchemeError::SubChunkBytes(self.sub_chunk_bytes));
        }
        Ok(())
    }

    /// Returns the number of chunks of a coded object, K + P; 0 if nothing is coded.
    pub fn chunks(&self) -> usize {
        match self.coded_from_bytes {
            Some(_) => usize::from(self.k) + usize::from(self.p),
            None => 0,
        }
    }

    /// Returns the number of distinct servers that a bucket needs.
    pub fn servers_min(&self) -> usize {
        self.chunks().max(usize::from(self.replicas))
    }

    /// Returns the kind of redundancy of an object of this size.
    pub fn redundancy(&self, object_bytes: u64) -> Redundancy {
        match self.coded_from_bytes {
            Some(from) if object_bytes >= from => Redundancy::Coded,
            _ => Redundancy::Replicated,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_of_128_kib_are_coded_and_smaller_ones_replicated() {
        let scheme = Scheme::coded(3, 1);
        assert_eq!(scheme.redundancy(0), Redundancy::Replicated);
        assert_eq!(scheme.redundancy((128 << 10) - 1), Redundancy::Replicated);
        assert_eq!(scheme.redundancy(128 << 10), Redundancy::Coded);
        assert_eq!(scheme.redundancy(u64::MAX), Redundancy::Coded);
        assert_eq!(scheme.replicas, 2);
        assert_eq!(
            Scheme::replicated(3).redundancy(u64::MAX),
            Redundancy::Replicated
        );
        assert_eq!(Scheme::replicated(3).chunks(), 0);
    }

    #[test]
    fn invalid_schemes_are_refused_with_the_reason() {
        let of = |k, p| Scheme::coded(k, p).check();
        assert_eq!(of(3, 1), Ok(()));
        assert_eq!(of(0, 1), Err(SchemeError::NoData));
        assert_eq!(of(3, 0), Err(SchemeError::NoParity));
        assert_eq!(of(60, 4), Ok(()));
        assert_eq!(of(60, 5), Err(SchemeError::TooManyChunks { chunks: 65 }));
        assert_eq!(
            of(255, 255),
            Err(SchemeError::TooManyChunks { chunks: 510 })
        );
        assert_eq!(Scheme::replicated(0).check(), Err(SchemeError::NoReplica));
        assert_eq!(Scheme::replicated(1).check(), Ok(()));
        for bytes in [0, SUB_CHUNK_BYTES_MAX + 1] {
            let mut scheme = Scheme::coded(3, 1);
            scheme.sub_chunk_bytes = bytes;
            assert_eq!(scheme.check(), Err(SchemeError::SubChunkBytes(bytes)));
        }
        let text = SchemeError::NoParity.to_string();
        assert!(text.starts_with("P is 0"), "{text}");
    }
}
