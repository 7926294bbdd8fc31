//! The core of a coded edge cluster, after C2DN: large objects are cut into chunks by an erasure code and spread over servers
//! whose writes are kept equal, so that chunks of an object leave all caches together.
//!
//! Source: J. Yang, *Designing Efficient and Scalable Key-value Cache Management Systems*, CMU 2024, chapter 5;
//! J. Yang and others, *C2DN: how to harness erasure codes at the edge for efficient content delivery*, NSDI 2022.
//!
//! # The parts
//! ```text
//! scheme.rs      K, P, who is coded              ring.rs        consistent hashing of buckets to servers
//! chunks.rs      a set of chunks                 placement/     which server keeps which bucket's parity
//! layout.rs      where an object's bytes lie     map.rs         who keeps what: one version, and the next
//! code/          parity, and chunks from others  history.rs     the maps that a node knows
//! checksum.rs    whether bytes are right         read/          the plan of a read, driven by events
//! stripe.rs      bytes to sub-chunks and back    config.rs      what a cluster is made with
//! ```
//! Start reading with `layout.rs` for what is kept, `map.rs` for where, `read/mod.rs` for how it is found again.
//!
//! Deliberately absent: sockets, files, a clock, chance of its own, objects and caches. Times and seeds are arguments.
//!
//! ```
//! use edge::{Change, Config, Map, Scheme, ServerId};
//!
//! let servers: Vec<_> = (0..10).map(|id| (ServerId(id), 1)).collect();
//! let map = Map::new(Config::new(Scheme::coded(3, 1)), &servers)?;
//! let bucket = map.bucket_of(0x9e37_79b9_7f4a_7c15);
//! let lead = map.lead(bucket).expect("all are up");
//! let next = map.next(&[Change::Down(lead)], &[])?;
//! // The data chunks that others keep lie where they were.
//! let (before, after) = (&map.chunks(bucket)[..3], &next.chunks(bucket)[..3]);
//! assert_eq!(before.iter().zip(after).filter(|(a, b)| a == b).count(), 2);
//! assert!(!next.chunks(bucket).contains(&Some(lead)));
//! # Ok::<(), edge::MapError>(())
//! ```
#![deny(unsafe_code)]

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
pub use ring::{BucketId, Ring, ServerId, Walk};
pub use scheme::{
    CODED_FROM_BYTES, Redundancy, SUB_CHUNK_BYTES, SUB_CHUNK_BYTES_MAX, Scheme, SchemeError,
};
pub use stripe::{StripeDecoder, encode_stripe};
