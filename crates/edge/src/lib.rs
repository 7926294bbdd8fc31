//! The core of a coded edge cluster, after C2DN: a group of cache servers in a content delivery
//! network that stores large objects with an erasure code instead of as full copies.
//!
//! # Terms
//! - An **object** belongs to one of some hundred **buckets**, by the hash of its name. Consistent
//!   hashing maps buckets, not single objects, to servers. A bucket's first server is its **lead**:
//!   it receives client requests for the bucket's objects.
//! - A large object is cut into **stripes**, and a stripe into K **data sub-chunks** of equal
//!   length. A (K, P) code computes P **parity sub-chunks** from them. Any K of the K + P reproduce
//!   the stripe.
//! - The sub-chunks with the same position in all stripes are a **chunk**. The K + P chunks of an
//!   object are on different servers, so that the object survives P failed servers.
//! - Small objects are not coded but **replicated**: P + 1 servers store a copy.
//! - The **origin** is the content owner's server. A request that reaches it is a miss.
//!
//! # Idea
//! An object is available only if K of its chunks are. If some servers write more than others, they
//! evict earlier, and objects lose chunks at different times. C2DN therefore solves a **max-flow**
//! problem to place each bucket's parity so that all servers write the same number of bytes. The
//! chunks of an object are then evicted at about the same time.
//!
//! A **read plan** requests the data sub-chunks of a range, at most K per stripe. It **hedges**:
//! when one of them takes longer than the others, it requests a parity sub-chunk and decodes
//! without waiting.
//!
//! Source: J. Yang, *Designing Efficient and Scalable Key-value Cache Management Systems*, CMU
//! 2024, chapter 5; J. Yang and others, *C2DN: how to harness erasure codes at the edge for
//! efficient content delivery*, NSDI 2022.
//!
//! # Modules
//! ```text
//! scheme.rs    K, P, and which objects are coded    ring.rs      consistent hashing of buckets
//! chunks.rs    sets of chunks                       placement/   servers of the parity chunks
//! layout.rs    byte ranges of stripes and chunks    map.rs      servers of every bucket
//! code/        encoding and decoding                history.rs   the latest maps, for requests
//! checksum.rs  checksums of sub-chunks              read/        read plans, driven by events
//! stripe.rs    bytes to sub-chunks and back         config.rs    parameters of a cluster
//! ```
//! Start with `layout.rs` for what is stored, `map.rs` for where, and `read.rs` for how it is read.
//!
//! Deliberately absent: sockets, files, a clock, unseeded random numbers, objects and caches. Times
//! and seeds are arguments.
//!
//! ```
//! use edge::{Change, Config, Map, Scheme, ServerId};
//!
//! let servers: Vec<_> = (0..10).map(|id| (ServerId(id), 1)).collect();
//! let map = Map::new(Config::new(Scheme::coded(3, 1)), &servers)?;
//! let bucket = map.bucket_of(0x9e37_79b9_7f4a_7c15);
//! let lead = map.lead(bucket).expect("all are up");
//! let next = map.next(&[Change::Down(lead)], &[])?;
//! // The data chunks of the other servers stay where they are.
//! let (before, after) = (&map.chunks(bucket)[..3], &next.chunks(bucket)[..3]);
//! assert_eq!(before.iter().zip(after).filter(|(a, b)| a == b).count(), 2);
//! assert!(!next.chunks(bucket).contains(&Some(lead)));
//! # Ok::<(), edge::MapError>(())
//! ```
#![deny(unsafe_code)]

/// The example of the README, compiled and run as a test of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod checksum;
mod chunks;
mod code;
mod config;
mod history;
mod layout;
mod map;
pub mod placement;
mod read;
mod ring;
mod scheme;
mod stripe;

pub use checksum::{SubChunkId, checksum};
pub use chunks::{CHUNKS_MAX, ChunkSet};
pub use code::{Code, CodeError, Reconstruction};
pub use config::{BUCKETS_MAX, Config, MapError, POINTS_MAX, VIRTUAL_NODES};
pub use history::{MapAge, MapHistory, OLDER_MAPS_MAX, OfferOutcome};
pub use layout::Layout;
pub use map::{BucketWrites, Change, Map, MapId, Member};
pub use read::{ChunkRequest, Event, Moment, Part, Read, ReadTimeouts, Step};
pub use ring::{BucketId, Ring, ServerId, Walk, mix};
pub use scheme::{
    CODED_FROM_BYTES, Redundancy, SUB_CHUNK_BYTES, SUB_CHUNK_BYTES_MAX, Scheme, SchemeError,
};
pub use stripe::{StripeDecoder, encode_stripe};
