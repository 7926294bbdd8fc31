//! A version of the cluster's map: the members, and the servers of every bucket.
//!
//! # Idea
//! A map is a value. It contains the members, which of them are up, and for each bucket the servers
//! of its K + P chunks and of its replicas. A change makes a new version and leaves the old one
//! unchanged, so that requests made under an old version can still be answered
//! ([`crate::MapHistory`]).
//! - **Data**: the first K available servers on the bucket's walk of the ring. A server that has a
//!   chunk of the bucket keeps that chunk; new servers take the places of those that left. A
//!   failure thus moves only the chunks of the failed server, and a recovery moves them back.
//! - **Replicas**: the first available servers on the walk. The very first is the *lead*. It
//!   receives the requests, and stores a chunk of every coded object of the bucket, or the whole
//!   object.
//! - **Parity**: placed according to the bytes written since the last change; see
//!   [`crate::placement`].
//!
//! # Source
//! Sections 5.2.3 and 5.3 of J. Yang, *Designing Efficient and Scalable Key-value Cache Management
//! Systems*, CMU 2024.
//!
//! # Departures
//! - In the source, chunk `j` is on the `j`-th server of the walk, so that one failure renumbers
//!   the chunks of all servers after it. Here only the failed server's chunks move.
//! - In the source, servers record what they wrote. Here, the bytes are recorded by bucket
//!   ([`BucketWrites`]), and each server's data is summed over the buckets that it stores after the
//!   change, not before.
//!
//! # With few servers
//! With fewer than K + P servers up, some parity has no place. With fewer than K, nothing is coded.
//! With none, there is no lead.

use crate::chunks::CHUNKS_MAX;
use crate::config::{Config, MapError, POINTS_MAX};
use crate::placement::{self, BucketParity, Placed, Placement, Problem, ServerShare};
use crate::ring::{BucketId, Ring, ServerId, mix};
use crate::scheme::Redundancy;

/// Divisor of the mean number of bytes per bucket. The quotient is the minimum number of bytes
/// assumed for a bucket, so that buckets without writes do not all go to one server and overload it
/// as soon as they are requested.
const LEAST_PART: u128 = 100;

/// A server of the cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member {
    /// Number of the server.
    pub id: ServerId,
    /// Weight: the server's share of the cluster, relative to the other weights. A server of weight
    /// 0 stores nothing.
    pub weight: u32,
    /// Whether the server is available.
    pub is_up: bool,
}

/// A change of the members.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// A server becomes a member with this weight, and is up.
    Join(ServerId, u32),
    /// A member leaves for good.
    Leave(ServerId),
    /// A member becomes unavailable. It may already be unavailable.
    Down(ServerId),
    /// A member becomes available. It may already be available.
    Up(ServerId),
    /// The weight of a member changes.
    Reweigh(ServerId, u32),
}

/// Bytes written to a bucket since the last change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BucketWrites {
    /// Number of bytes written to each of the bucket's chunks.
    pub chunk_bytes: u64,
    /// Number of bytes of the bucket's replicated objects, each counted once.
    pub whole_bytes: u64,
}

/// Identity of a map. The map with the greatest identity is current. That is the latest version or,
/// among maps of the same version made independently, the one with the greater fingerprint.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MapId {
    /// Number of changes so far.
    pub version: u64,
    /// Hash of the whole map.
    pub fingerprint: u64,
}

/// A version of the cluster's map.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Map {
    config: Config,
    id: MapId,
    /// Members in ascending order of numbers.
    members: Vec<Member>,
    ring: Ring,
    /// Servers of the replicas of all buckets.
    replicas: Vec<Option<ServerId>>,
    /// Servers of the chunks of all buckets.
    chunks: Vec<Option<ServerId>>,
}

impl Map {
    /// Creates the first version. All servers are up, and all buckets are assumed to have the same
    /// writes.
    ///
    /// # Errors
    /// Returns an error if the configuration or the servers are invalid.
    pub fn new(config: Config, servers: &[(ServerId, u32)]) -> Result<Map, MapError> {
        config.check()?;
        let mut members = vec![];
        for &(server, weight) in servers {
            change(&mut members, Change::Join(server, weight))?;
        }
        Map::of(config, 1, members, None, &[])
    }

    /// Creates the next version, after all changes. Parity is placed again for `loads`, the writes
    /// of each bucket; if `loads` is empty, all buckets are assumed to have the same writes. Parity
    /// is also placed again if there are no changes.
    ///
    /// # Errors
    /// Returns an error if a change is invalid, in which case no change is made.
    pub fn next(&self, changes: &[Change], loads: &[BucketWrites]) -> Result<Map, MapError> {
        let mut members = self.members.clone();
        for &one in changes {
            change(&mut members, one)?;
        }
        Map::of(self.config, self.id.version + 1, members, Some(self), loads)
    }

    fn of(
        config: Config,
        version: u64,
        members: Vec<Member>,
        before: Option<&Map>,
        loads: &[BucketWrites],
    ) -> Result<Map, MapError> {
        config.check_loads(loads)?;
        let mut map = Map::without_places(config, version, members)?;
        map.place(before, loads);
        map.id.fingerprint = map.fingerprint();
        Ok(map)
    }

    /// Restores a recorded version from its members and the servers of all buckets' chunks, row by
    /// row. The rest is computed. An altered record is refused or has another [`Map::id`].
    pub fn restore(
        config: Config,
        version: u64,
        recorded: &[Member],
        chunks: Vec<Option<ServerId>>,
    ) -> Result<Map, MapError> {
        config.check()?;
        let mut members = vec![];
        for member in recorded {
            change(&mut members, Change::Join(member.id, member.weight))?;
            if !member.is_up {
                change(&mut members, Change::Down(member.id))?;
            }
        }
        let mut map = Map::without_places(config, version, members)?;
        let row_length = config.scheme.chunks();
        if chunks.len() != config.buckets as usize * row_length {
            return Err(MapError::BucketCount {
                buckets: config.buckets,
                given: chunks.len() / row_length.max(1),
            });
        }
        for bucket in (0..config.buckets).map(BucketId) {
            let row = &chunks[bucket.0 as usize * row_length..][..row_length];
            map.check_row(bucket, row)?;
            let met = map.first_up(bucket, usize::from(config.scheme.replicas));
            map.push_replicas(&met);
        }
        map.chunks = chunks;
        map.id.fingerprint = map.fingerprint();
        Ok(map)
    }

    /// Checks that the chunks of a bucket are on distinct servers that can store them.
    fn check_row(&self, bucket: BucketId, row: &[Option<ServerId>]) -> Result<(), MapError> {
        for (at, server) in row.iter().enumerate() {
            let Some(server) = server else { continue };
            let member = self.members.iter().find(|member| member.id == *server);
            let is_able = self.is_coding() && member.is_some_and(Member::can_take);
            if !is_able || row[..at].contains(&Some(*server)) {
                return Err(MapError::Misplaced {
                    bucket,
                    server: *server,
                });
            }
        }
        Ok(())
    }

    fn without_places(config: Config, version: u64, members: Vec<Member>) -> Result<Map, MapError> {
        let weights = members.iter().map(|member| u64::from(member.weight));
        let points = weights
            .sum::<u64>()
            .saturating_mul(u64::from(config.virtual_nodes));
        if points > POINTS_MAX {
            return Err(MapError::TooManyPoints(points));
        }
        let with_weight = members.iter().filter(|member| member.weight > 0).count();
        let needed = config.scheme.servers_min();
        if with_weight < needed {
            return Err(MapError::TooFewServers {
                needed,
                members: with_weight,
            });
        }
        let weights = members.iter().map(|member| (member.id, member.weight));
        Ok(Map {
            ring: Ring::new(weights, config.virtual_nodes, config.seed),
            id: MapId {
                version,
                fingerprint: 0,
            },
            config,
            members,
            replicas: vec![],
            chunks: vec![],
        })
    }

    /// Returns the first available servers on a bucket's walk.
    fn first_up(&self, bucket: BucketId, count: usize) -> Vec<ServerId> {
        let walk = self.ring.walk(bucket);
        walk.filter(|&server| self.is_up(server))
            .take(count)
            .collect()
    }

    fn push_replicas(&mut self, met: &[ServerId]) {
        let count = usize::from(self.config.scheme.replicas);
        self.replicas
            .extend((0..count).map(|at| met.get(at).copied()));
    }

    fn place(&mut self, before: Option<&Map>, loads: &[BucketWrites]) {
        let scheme = self.config.scheme;
        let (k, chunks) = (usize::from(scheme.k), scheme.chunks());
        let is_coding = self.is_coding();
        for bucket in 0..self.config.buckets {
            let bucket = BucketId(bucket);
            let met = self.first_up(bucket, scheme.servers_min());
            self.push_replicas(&met);
            if chunks == 0 {
                continue;
            }
            let mut row = vec![None; chunks];
            if is_coding {
                let old = before.map(|map| map.chunks(bucket));
                slot(&mut row[..k], &met[..k], old.map(|old| &old[..k]));
                if self.config.placement == Placement::Ring {
                    slot(
                        &mut row[k..],
                        &met[k..met.len().min(chunks)],
                        old.map(|old| &old[k..]),
                    );
                }
            }
            self.chunks.extend(row);
        }
        if is_coding && self.config.placement != Placement::Ring {
            self.place_parity(before, loads);
        }
    }

    fn place_parity(&mut self, before: Option<&Map>, loads: &[BucketWrites]) {
        let scheme = self.config.scheme;
        let (k, p) = (usize::from(scheme.k), usize::from(scheme.p));
        let up: Vec<Member> = self
            .members
            .iter()
            .copied()
            .filter(Member::can_take)
            .collect();
        let index = |server: ServerId| up.binary_search_by_key(&server, |member| member.id).ok();
        let problem = self.problem(loads);
        let old: Option<Placed> = before.map(|map| {
            let parity = map.chunks.chunks_exact(k + p).flat_map(|row| &row[k..]);
            let place = |server: &Option<ServerId>| server.and_then(index).map(|at| at as u32);
            parity.map(place).collect()
        });
        let placed = match self.config.placement {
            Placement::MaxFlow => placement::max_flow(&problem),
            Placement::Greedy | Placement::Ring => placement::greedy(&problem, old.as_deref()),
        };
        let rows = self
            .chunks
            .chunks_exact_mut(k + p)
            .zip(placed.chunks_exact(p));
        for (bucket, (row, placed)) in rows.enumerate() {
            let servers: Vec<ServerId> = placed
                .iter()
                .flatten()
                .map(|&at| up[at as usize].id)
                .collect();
            let old = before.map(|map| &map.chunks(BucketId(bucket as u32))[k..]);
            slot(&mut row[k..], &servers, old);
        }
    }

    /// Returns the placement problem of this map for the given writes, which [`crate::placement`]
    /// solves. [`Map::placed`] returns the map's own solution, so that it can be evaluated.
    pub fn problem(&self, loads: &[BucketWrites]) -> Problem {
        let scheme = self.config.scheme;
        let (k, p, replicas) = (
            usize::from(scheme.k),
            usize::from(scheme.p),
            usize::from(scheme.replicas),
        );
        let up: Vec<Member> = self
            .members
            .iter()
            .copied()
            .filter(Member::can_take)
            .collect();
        let index = |server: &ServerId| {
            let at = up.binary_search_by_key(server, |member| member.id);
            at.expect("a server that stores chunks is up") as u32
        };
        let share = |member: &Member| ServerShare {
            weight: member.weight,
            data_bytes: 0,
        };
        let mut problem = Problem {
            servers: up.iter().map(share).collect(),
            buckets: vec![],
            p: if scheme.chunks() == 0 { 0 } else { p },
        };
        let all: u128 = loads.iter().map(|load| u128::from(load.chunk_bytes)).sum();
        // The limits keep all sums within 64 bits, whatever the servers report.
        let terms = u64::from(self.config.buckets) * (k + p + replicas) as u64;
        let most = u64::MAX / terms;
        let least = 1 + all / (u128::from(self.config.buckets) * LEAST_PART);
        let least = u64::try_from(least).map_or(most, |least| least.min(most));
        for bucket in 0..self.config.buckets as usize {
            let load = loads.get(bucket).copied().unwrap_or_default();
            let load = BucketWrites {
                chunk_bytes: load.chunk_bytes.clamp(least, most),
                whole_bytes: load.whole_bytes.min(most),
            };
            let whole = self.replicas[bucket * replicas..][..replicas]
                .iter()
                .flatten();
            for server in whole.map(index) {
                problem.servers[server as usize].data_bytes += load.whole_bytes;
            }
            let row = self.chunks(BucketId(bucket as u32));
            let holders: Vec<u32> = row.iter().take(k).flatten().map(index).collect();
            for &server in &holders {
                problem.servers[server as usize].data_bytes += load.chunk_bytes;
            }
            problem.buckets.push(BucketParity {
                parity_bytes: load.chunk_bytes,
                holders,
            });
        }
        problem
    }

    /// Returns the placement of parity in this map, as a solution of [`Map::problem`].
    pub fn placed(&self) -> Placed {
        let up: Vec<Member> = self
            .members
            .iter()
            .copied()
            .filter(Member::can_take)
            .collect();
        let index = |server: ServerId| up.binary_search_by_key(&server, |member| member.id).ok();
        let (k, chunks) = (
            usize::from(self.config.scheme.k),
            self.config.scheme.chunks(),
        );
        let parity = self
            .chunks
            .chunks_exact(chunks.max(1))
            .flat_map(|row| &row[k..]);
        parity
            .map(|server| server.and_then(index).map(|at| at as u32))
            .collect()
    }

    /// Returns the identity of the map.
    pub fn id(&self) -> MapId {
        self.id
    }

    /// Returns the parameters of the cluster.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns all members in ascending order of numbers.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Returns true if a server is a member and available.
    pub fn is_up(&self, server: ServerId) -> bool {
        let at = self
            .members
            .binary_search_by_key(&server, |member| member.id);
        at.is_ok_and(|at| self.members[at].is_up)
    }

    /// Returns true if enough servers are up to code objects.
    pub fn is_coding(&self) -> bool {
        let up = self
            .members
            .iter()
            .filter(|member| member.can_take())
            .count();
        self.config.scheme.chunks() > 0 && up >= usize::from(self.config.scheme.k)
    }

    /// Returns whether an object of this size is coded or replicated when it is written under this
    /// map.
    pub fn redundancy(&self, object_bytes: u64) -> Redundancy {
        if self.is_coding() {
            self.config.scheme.redundancy(object_bytes)
        } else {
            Redundancy::Replicated
        }
    }

    /// Returns the bucket of an object, by a hash of its name.
    pub fn bucket_of(&self, name_hash: u64) -> BucketId {
        BucketId::of(name_hash, self.config.buckets)
    }

    /// Returns the server that receives requests for a bucket's objects; `None` if all are down.
    pub fn lead(&self, bucket: BucketId) -> Option<ServerId> {
        self.replicas(bucket).next()
    }

    /// Returns the servers of a bucket's replicated objects, the lead first.
    pub fn replicas(&self, bucket: BucketId) -> impl Iterator<Item = ServerId> + '_ {
        let replicas = usize::from(self.config.scheme.replicas);
        self.replicas[bucket.0 as usize * replicas..][..replicas]
            .iter()
            .flatten()
            .copied()
    }

    /// Returns the servers of a bucket's K + P chunks; `None` for a chunk without an available
    /// server.
    pub fn chunks(&self, bucket: BucketId) -> &[Option<ServerId>] {
        let chunks = self.config.scheme.chunks();
        &self.chunks[bucket.0 as usize * chunks..][..chunks]
    }

    fn fingerprint(&self) -> u64 {
        let config = &self.config;
        let scheme = &config.scheme;
        let head = [
            self.id.version,
            u64::from(config.buckets),
            u64::from(config.virtual_nodes),
            config.placement as u64,
            config.seed,
            u64::from(scheme.k) << 16 | u64::from(scheme.p) << 8 | u64::from(scheme.replicas),
            scheme
                .coded_from_bytes
                .map_or(u64::MAX, |from| from.min(u64::MAX - 1)),
            u64::from(scheme.sub_chunk_bytes),
            self.members.len() as u64,
        ];
        let member = |member: &Member| {
            u64::from(member.id.0) << 33 | u64::from(member.weight) << 1 | u64::from(member.is_up)
        };
        let places = self.replicas.iter().chain(&self.chunks);
        let place =
            |server: &Option<ServerId>| server.map_or(u64::MAX, |server| u64::from(server.0));
        let words = head
            .into_iter()
            .chain(self.members.iter().map(member))
            .chain(places.map(place));
        words.fold(0, |fingerprint, word| {
            mix(fingerprint.rotate_left(5) ^ mix(word))
        })
    }
}

impl Config {
    /// Returns the parameters with the best of `tries` consecutive seeds: the one for which the
    /// server with the most data has the least. Parity cannot compensate for a server whose data
    /// exceeds its share of all writes. `loads` may be empty.
    pub fn with_best_seed(
        self,
        servers: &[(ServerId, u32)],
        loads: &[BucketWrites],
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
            let share = |share: &ServerShare| share.data_bytes as f64 / f64::from(share.weight);
            let most = problem.servers.iter().map(share).fold(0.0, f64::max);
            if best.is_none_or(|(least, _)| most < least) {
                best = Some((most, config));
            }
        }
        Ok(best.map_or(self, |(_, config)| config))
    }

    fn check_loads(&self, loads: &[BucketWrites]) -> Result<(), MapError> {
        let (buckets, given) = (self.buckets, loads.len());
        if given == 0 || given == buckets as usize {
            Ok(())
        } else {
            Err(MapError::BucketCount { buckets, given })
        }
    }
}

impl Member {
    fn can_take(&self) -> bool {
        self.is_up && self.weight > 0
    }
}

fn change(members: &mut Vec<Member>, change: Change) -> Result<(), MapError> {
    let (Change::Join(server, _)
    | Change::Leave(server)
    | Change::Down(server)
    | Change::Up(server)
    | Change::Reweigh(server, _)) = change;
    let at = members.binary_search_by_key(&server, |member| member.id);
    match (change, at) {
        (Change::Join(id, weight), Err(at)) => {
            members.insert(
                at,
                Member {
                    id,
                    weight,
                    is_up: true,
                },
            );
        }
        (Change::Join(..), Ok(_)) => return Err(MapError::Twice(server)),
        (_, Err(_)) => return Err(MapError::Unknown(server)),
        (Change::Leave(_), Ok(at)) => {
            members.remove(at);
        }
        (Change::Down(_), Ok(at)) => members[at].is_up = false,
        (Change::Up(_), Ok(at)) => members[at].is_up = true,
        (Change::Reweigh(_, weight), Ok(at)) => members[at].weight = weight,
    }
    Ok(())
}

/// Assigns `servers` to slots. A server keeps the slot it had; the others fill the free slots in
/// order.
fn slot(slots: &mut [Option<ServerId>], servers: &[ServerId], old: Option<&[Option<ServerId>]>) {
    assert!(servers.len() <= slots.len());
    assert!(slots.len() <= CHUNKS_MAX);
    let mut rest = servers.to_vec();
    if let Some(old) = old {
        for (slot, old) in slots.iter_mut().zip(old) {
            if let Some(at) = rest.iter().position(|&server| Some(server) == *old) {
                *slot = *old;
                rest.remove(at);
            }
        }
    }
    let free = slots.iter_mut().filter(|slot| slot.is_none());
    free.zip(rest)
        .for_each(|(slot, server)| *slot = Some(server));
}
