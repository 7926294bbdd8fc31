//! What a cluster is made with, in all versions of its map.

use crate::placement::Placement;
use crate::ring::ServerId;
use crate::scheme::{Scheme, SchemeError};
use std::fmt;

/// The most buckets of a cluster. In use are some hundred; max-flow's network has an arc for each of them and each server.
pub const BUCKETS_MAX: u32 = 1 << 14;
/// Points of a server for each unit of its weight, unless another number is given.
pub const VIRTUAL_NODES: u32 = 100;

/// The most points on a ring.
pub const POINTS_MAX: u64 = 1 << 22;

/// What a cluster is made with. It is the same in all versions of its map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// The code, the objects that are coded, and the replicas of the others.
    pub scheme: Scheme,
    /// How many buckets there are.
    pub buckets: u32,
    /// Points on the ring for each unit of a server's weight.
    pub virtual_nodes: u32,
    /// How parity is placed.
    pub placement: Placement,
    /// What the places on the ring are drawn with.
    pub seed: u64,
}

impl Config {
    /// A cluster of 200 buckets with a scheme.
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

/// What cannot be done to a cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapError {
    /// The scheme cannot be used.
    Scheme(SchemeError),
    /// No buckets, or more than [`BUCKETS_MAX`].
    Buckets(u32),
    /// Servers would have no points.
    NoVirtualNodes,
    /// The ring would have more than [`POINTS_MAX`] points.
    TooManyPoints(u64),
    /// A server joins that is a member.
    Twice(ServerId),
    /// The server is no member.
    Unknown(ServerId),
    /// Too few members with a weight to keep a bucket's chunks, or replicas, on servers of their own.
    TooFewServers {
        /// Members that a bucket needs.
        needed: usize,
        /// Members with a weight.
        members: usize,
    },
    /// ServerLoads of another number of buckets than there are.
    BucketCount {
        /// Buckets of the cluster.
        buckets: u32,
        /// ServerLoads given.
        given: usize,
    },
}

impl fmt::Display for MapError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MapError::Scheme(error) => write!(out, "{error}"),
            MapError::Buckets(count) => {
                write!(out, "{count} buckets are not between 1 and {BUCKETS_MAX}")
            }
            MapError::NoVirtualNodes => write!(out, "a server needs a virtual node at least"),
            MapError::TooManyPoints(points) => {
                write!(
                    out,
                    "virtual nodes times weights are {points}, above {POINTS_MAX}"
                )
            }
            MapError::Twice(server) => write!(out, "{server} is a member already"),
            MapError::Unknown(server) => write!(out, "{server} is no member"),
            MapError::TooFewServers { needed, members } => {
                write!(
                    out,
                    "a bucket needs {needed} servers, and {members} have a weight"
                )
            }
            MapError::BucketCount { buckets, given } => {
                write!(out, "loads of {given} buckets where there are {buckets}")
            }
        }
    }
}

impl std::error::Error for MapError {}
