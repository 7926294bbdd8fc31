//! What a cluster is made with, in all versions of its map.

use crate::map::{Load, Map, MapError};
use crate::placement::{Placement, Share};
use crate::ring::ServerId;
use crate::scheme::Scheme;

/// The most buckets of a cluster. In use are some hundred; max-flow's network has an arc for each of them and each server.
pub const BUCKETS_MAX: u32 = 1 << 14;
/// Points of a server for each unit of its weight, unless another number is given.
pub const VIRTUAL_NODES: u32 = 100;

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

    /// The same with the seed, of this one and those behind it, whose ring leaves the least to the server that gets the most data: what
    /// parity cannot make up for if it is more than the server's part of all writes. `loads` may be empty.
    pub fn with_best_seed(
        self,
        servers: &[(ServerId, u32)],
        loads: &[Load],
        tries: u64,
    ) -> Result<Config, MapError> {
        self.check_loads(loads)?;
        let mut best: Option<(f64, Config)> = None;
        for seed in 0..tries.max(1) {
            let config = Config {
                seed: self.seed.wrapping_add(seed),
                ..self
            };
            let problem = Map::new(
                Config {
                    placement: Placement::Ring,
                    ..config
                },
                servers,
            )?
            .problem(loads);
            let share = |share: &Share| share.data_bytes as f64 / f64::from(share.weight);
            let most = problem.servers.iter().map(share).fold(0.0, f64::max);
            if best.is_none_or(|(least, _)| most < least) {
                best = Some((most, config));
            }
        }
        Ok(best.map_or(self, |(_, config)| config))
    }

    pub(crate) fn check_loads(&self, loads: &[Load]) -> Result<(), MapError> {
        let (buckets, given) = (self.buckets, loads.len());
        if given == 0 || given == buckets as usize {
            Ok(())
        } else {
            Err(MapError::Loads { buckets, given })
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
