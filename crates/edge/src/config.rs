//! Parameters of a cluster, shared by all versions of its map.

use crate::placement::Placement;
use crate::ring::{BucketId, ServerId};
use crate::scheme::{Scheme, SchemeError};
use std::fmt;

/// Maximum number of buckets. A few hundred are usual; the max-flow network has an arc for each
/// pair of bucket and server.
pub const BUCKETS_MAX: u32 = 1 << 14;
/// Default number of points on the ring per unit of a server's weight.
pub const VIRTUAL_NODES: u32 = 100;

/// Maximum number of points on a ring.
pub const POINTS_MAX: u64 = 1 << 22;

/// Parameters of a cluster. They are the same in all versions of its map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Code, minimum size of coded objects, and number of replicas of smaller objects.
    pub scheme: Scheme,
    /// Number of buckets.
    pub buckets: u32,
    /// Number of points on the ring per unit of a server's weight.
    pub virtual_nodes: u32,
    /// Algorithm that places parity.
    pub placement: Placement,
    /// Seed of the points on the ring.
    pub seed: u64,
}

impl Config {
    /// Returns the parameters of a cluster of 200 buckets with the given scheme.
    pub fn new(scheme: Scheme) -> Config {
        Config {
            scheme,
            buckets: 200,
            virtual_nodes: VIRTUAL_NODES,
            placement: Placement::default(),
            seed: 0,
        }
    }

    pub(crate) fn check(&self) -> Result<(), MapError> {
        self.scheme.check().map_err(MapError::Scheme)?;
        if self.buckets == 0 || self.buckets > BUCKETS_MAX {
            return Err(MapError::Buckets(self.buckets));
        }
        if self.virtual_nodes == 0 {
            return Err(MapError::NoVirtualNodes);
        }
        Ok(())
    }
}

/// Reason why a map cannot be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapError {
    /// The scheme is invalid.
    Scheme(SchemeError),
    /// The number of buckets is 0 or above [`BUCKETS_MAX`].
    Buckets(u32),
    /// Servers would have no points on the ring.
    NoVirtualNodes,
    /// The ring would have more than [`POINTS_MAX`] points.
    TooManyPoints(u64),
    /// The server that joins is already a member.
    Twice(ServerId),
    /// The server is not a member.
    Unknown(ServerId),
    /// Too few members have a weight to store the chunks or replicas of a bucket on distinct
    /// servers.
    TooFewServers {
        /// Number of servers that a bucket needs.
        needed: usize,
        /// Number of members with a weight.
        members: usize,
    },
    /// The written bytes are given for a number of buckets that differs from the cluster's.
    BucketCount {
        /// Number of buckets of the cluster.
        buckets: u32,
        /// Number of buckets given.
        given: usize,
    },
    /// A recorded chunk is on a server that cannot store it: the server is not a member, is down,
    /// has no weight, or has another chunk of the bucket.
    Misplaced {
        /// Bucket of the chunk.
        bucket: BucketId,
        /// Server of the chunk.
        server: ServerId,
    },
}

impl fmt::Display for MapError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MapError::Scheme(error) => write!(out, "{error}"),
            MapError::Buckets(count) => {
                write!(out, "{count} buckets: expected 1 to {BUCKETS_MAX}")
            }
            MapError::NoVirtualNodes => write!(out, "0 virtual nodes: expected at least 1"),
            MapError::TooManyPoints(points) => {
                write!(
                    out,
                    "virtual nodes times weights are {points}: expected at most {POINTS_MAX}"
                )
            }
            MapError::Twice(server) => write!(out, "{server} is already a member"),
            MapError::Unknown(server) => write!(out, "{server} is not a member"),
            MapError::TooFewServers { needed, members } => {
                write!(
                    out,
                    "{members} servers have a weight, but a bucket needs {needed}"
                )
            }
            MapError::BucketCount { buckets, given } => {
                write!(
                    out,
                    "values are given for {given} buckets: expected {buckets}"
                )
            }
            MapError::Misplaced { bucket, server } => {
                write!(out, "bucket {}: {server} cannot store this chunk", bucket.0)
            }
        }
    }
}

impl std::error::Error for MapError {}
