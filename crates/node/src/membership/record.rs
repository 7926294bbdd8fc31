//! Values of a cluster in etcd: registrations of nodes, and versions of the map.
//!
//! ```text
//! nodes/7   {"address":"10.0.0.7:7400","weight":1,"name":null}
//! map       mayfly-edge-map 1 4c5cf6b2a1e08d17
//!           {"version":12,"fingerprint":"…","data":3,…,"servers":[…],"chunks":[…],"loads":[…]}
//! ```
//!
//! The first line of a map has the number of its format and the XXH3 hash of the second line. A
//! value changed by anything but a node is therefore refused, and a value from a later release is
//! recognized.

use crate::config::{SERVERS_MAX, Server};
use edge::{BucketId, BucketWrites, Config as MapConfig, Map, Member, ServerId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio_rustls::rustls::pki_types::ServerName;
use twox_hash::XxHash3_64;

/// Number of the format that this release reads and writes.
const FORMAT: u32 = 1;
const TITLE: &str = "mayfly-edge-map";

/// Version of the map, with the addresses of its servers.
#[derive(Clone, PartialEq, Debug)]
pub struct Record {
    /// The map.
    pub map: Arc<Map>,
    /// All members, in ascending order of numbers.
    pub servers: Vec<Server>,
    /// Bytes written to each bucket for which the parity was placed; empty if none were recorded.
    /// Nodes need them to place parity in the same way while a node does not answer.
    pub loads: Vec<BucketWrites>,
}

/// Reason why a value is not used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The value was not written by a node.
    Damaged(String),
    /// The value has another format, or belongs to a cluster with other settings.
    Foreign(String),
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refusal::Damaged(text) => write!(f, "damaged: {text}"),
            Refusal::Foreign(text) => write!(f, "of another cluster or release: {text}"),
        }
    }
}

#[derive(Serialize, Deserialize)]
struct NodeText {
    address: SocketAddr,
    weight: u32,
    name: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct ServerText {
    id: u32,
    address: SocketAddr,
    weight: u32,
    name: Option<String>,
    is_up: bool,
}

#[derive(Serialize, Deserialize)]
struct MapText {
    version: u64,
    fingerprint: String,
    data: u8,
    parity: u8,
    coded_min_bytes: Option<u64>,
    buckets: u32,
    servers: Vec<ServerText>,
    /// Servers of the chunks, for each bucket.
    chunks: Vec<Vec<Option<u32>>>,
    /// Bytes of each chunk and of whole responses, for each bucket.
    loads: Vec<(u64, u64)>,
}

/// Encodes the registration of a node.
pub fn registration(server: &Server) -> String {
    let text = NodeText {
        address: server.address,
        weight: server.weight,
        name: server.name.clone(),
    };
    serde_json::to_string(&text).unwrap_or_default()
}

/// Decodes the registration of a node.
///
/// # Errors
/// Returns a description of what was expected.
pub fn read_registration(id: ServerId, value: &[u8], is_plain: bool) -> Result<Server, String> {
    let text: NodeText = serde_json::from_slice(value).map_err(|error| error.to_string())?;
    let server = Server {
        id,
        address: text.address,
        weight: text.weight,
        name: text.name,
    };
    check(&server, is_plain)?;
    Ok(server)
}

/// Checks the settings for creating a peer.
fn check(server: &Server, is_plain: bool) -> Result<(), String> {
    if is_plain && !server.address.ip().is_loopback() {
        return Err(format!("{}: expected a loopback address", server.address));
    }
    match &server.name {
        Some(name) if ServerName::try_from(name.as_str()).is_err() => {
            Err(format!("name '{name}': expected a DNS name"))
        }
        _ => Ok(()),
    }
}

impl Record {
    /// Encodes the record as a value for etcd.
    pub fn encode(&self) -> String {
        let map = &self.map;
        let scheme = map.config().scheme;
        let row = |bucket| {
            let row = map.chunks(bucket).iter();
            row.map(|server| server.map(|id| id.0)).collect()
        };
        let server = |server: &Server| ServerText {
            id: server.id.0,
            address: server.address,
            weight: server.weight,
            name: server.name.clone(),
            is_up: map.is_up(server.id),
        };
        let text = MapText {
            version: map.id().version,
            fingerprint: format!("{:016x}", map.id().fingerprint),
            data: scheme.k,
            parity: scheme.p,
            coded_min_bytes: scheme.coded_from_bytes,
            buckets: map.config().buckets,
            servers: self.servers.iter().map(server).collect(),
            chunks: (0..map.config().buckets).map(BucketId).map(row).collect(),
            loads: self
                .loads
                .iter()
                .map(|load| (load.chunk_bytes, load.whole_bytes))
                .collect(),
        };
        let text = serde_json::to_string(&text).unwrap_or_default();
        let sum = XxHash3_64::oneshot(text.as_bytes());
        format!("{TITLE} {FORMAT} {sum:016x}\n{text}")
    }

    /// Decodes a value. The map must have the parameters of this cluster.
    ///
    /// # Errors
    /// Returns the reason why the value is not used.
    pub fn decode(value: &[u8], config: &MapConfig, is_plain: bool) -> Result<Record, Refusal> {
        let damaged = |text: &str| Refusal::Damaged(text.to_owned());
        let value = std::str::from_utf8(value).map_err(|_| damaged("no text"))?;
        let (title, text) = value.split_once('\n').ok_or(damaged("no first line"))?;
        let words: Vec<&str> = title.split(' ').collect();
        let [TITLE, format, sum] = words[..] else {
            return Err(damaged("the first line is not that of a map"));
        };
        let format: u32 = format.parse().map_err(|_| damaged("no format"))?;
        if format != FORMAT {
            return Err(Refusal::Foreign(format!(
                "format {format}: expected {FORMAT}"
            )));
        }
        if sum != format!("{:016x}", XxHash3_64::oneshot(text.as_bytes())) {
            return Err(damaged("the checksum is another one"));
        }
        let text: MapText =
            serde_json::from_str(text).map_err(|error| damaged(&error.to_string()))?;
        text.record(config, is_plain)
    }
}

impl MapText {
    fn record(self, config: &MapConfig, is_plain: bool) -> Result<Record, Refusal> {
        let damaged = |text: &dyn std::fmt::Display| Refusal::Damaged(text.to_string());
        let scheme = config.scheme;
        let found = (self.data, self.parity, self.buckets, self.coded_min_bytes);
        let expected = (scheme.k, scheme.p, config.buckets, scheme.coded_from_bytes);
        if found != expected {
            let text = |(data, parity, buckets, least): (u8, u8, u32, Option<u64>)| {
                let least = least.unwrap_or(u64::MAX);
                format!("data {data}, parity {parity}, buckets {buckets}, coded from {least} bytes")
            };
            let (found, expected) = (text(found), text(expected));
            return Err(Refusal::Foreign(format!("{found}: expected {expected}")));
        }
        if self.servers.len() > SERVERS_MAX {
            return Err(damaged(&"too many servers"));
        }
        let mut addresses = BTreeSet::new();
        let (mut servers, mut members) = (vec![], vec![]);
        for server in self.servers {
            members.push(Member {
                id: ServerId(server.id),
                weight: server.weight,
                is_up: server.is_up,
            });
            let server = Server {
                id: ServerId(server.id),
                address: server.address,
                weight: server.weight,
                name: server.name,
            };
            check(&server, is_plain).map_err(|error| damaged(&error))?;
            if !addresses.insert(server.address) {
                return Err(damaged(&"two servers have one address"));
            }
            servers.push(server);
        }
        servers.sort_unstable_by_key(|server| server.id);
        let length = scheme.chunks();
        if self.chunks.iter().any(|row| row.len() != length) {
            return Err(damaged(&"a bucket has another number of chunks"));
        }
        let chunks = self.chunks.into_iter().flatten();
        let chunks = chunks.map(|server| server.map(ServerId)).collect();
        let map = Map::restore(*config, self.version, &members, chunks);
        let map = map.map_err(|error| damaged(&error))?;
        if self.fingerprint != format!("{:016x}", map.id().fingerprint) {
            return Err(damaged(&"the fingerprint is another one"));
        }
        let loads: Vec<BucketWrites> = self
            .loads
            .into_iter()
            .map(|(chunk_bytes, whole_bytes)| BucketWrites {
                chunk_bytes,
                whole_bytes,
            })
            .collect();
        if !loads.is_empty() && loads.len() != config.buckets as usize {
            return Err(damaged(&"loads of another number of buckets"));
        }
        Ok(Record {
            map: Arc::new(map),
            servers,
            loads,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edge::{Change, Scheme};

    fn config() -> MapConfig {
        let mut config = MapConfig::new(Scheme::coded(3, 1));
        config.buckets = 20;
        config
    }

    fn server(id: u32) -> Server {
        Server {
            id: ServerId(id),
            address: SocketAddr::from(([127, 0, 0, 1], 7_400 + id as u16)),
            weight: id,
            name: (id == 2).then(|| "cache-2.example.org".into()),
        }
    }

    fn record() -> Record {
        let servers: Vec<Server> = (1..6).map(server).collect();
        let weights: Vec<_> = servers.iter().map(|one| (one.id, one.weight)).collect();
        let first = Map::new(config(), &weights).expect("the input is valid");
        let loads: Vec<BucketWrites> = (0..20)
            .map(|bucket| BucketWrites {
                chunk_bytes: bucket * 1_000,
                whole_bytes: u64::MAX,
            })
            .collect();
        let next = first.next(&[Change::Down(ServerId(3))], &loads);
        Record {
            map: Arc::new(next.expect("the input is valid")),
            servers,
            loads,
        }
    }

    #[test]
    fn what_was_written_is_read() {
        let record = record();
        let read = Record::decode(record.encode().as_bytes(), &config(), true);
        assert_eq!(read, Ok(record));
        let node = registration(&server(2));
        let read = read_registration(ServerId(2), node.as_bytes(), true);
        assert_eq!(read, Ok(server(2)));
    }

    #[test]
    fn a_damaged_value_is_refused() {
        let value = record().encode().into_bytes();
        for at in (0..value.len()).step_by(3) {
            for bit in [0, 6] {
                let mut changed = value.clone();
                changed[at] ^= 1 << bit;
                let read = Record::decode(&changed, &config(), true);
                assert!(read.is_err(), "byte {at}, bit {bit}");
            }
            assert!(Record::decode(&value[..at], &config(), true).is_err());
        }
        for value in ["", "x", "mayfly-edge-map 1 0\n{}", "\n\n"] {
            let read = Record::decode(value.as_bytes(), &config(), true);
            assert!(matches!(read, Err(Refusal::Damaged(_))), "{value}");
        }
    }

    #[test]
    fn a_value_of_another_cluster_is_recognized() {
        let value = record().encode();
        let mut other = config();
        other.buckets = 21;
        let read = Record::decode(value.as_bytes(), &other, true);
        assert!(matches!(read, Err(Refusal::Foreign(_))), "{read:?}");
        let later = value.replacen("map 1", "map 2", 1);
        let read = Record::decode(later.as_bytes(), &config(), true);
        assert!(matches!(read, Err(Refusal::Foreign(_))), "{read:?}");
    }

    #[test]
    fn a_contradiction_under_a_right_checksum_is_refused() {
        let value = record().encode();
        let (_, text) = value.split_once('\n').expect("there are two lines");
        for (from, to) in [
            ("\"version\":2", "\"version\":3"),
            ("127.0.0.1:7402", "127.0.0.1:7401"),
            ("127.0.0.1:7402", "10.0.0.1:7402"),
            ("cache-2.example.org", "cache 2"),
            ("\"is_up\":false", "\"is_up\":true"),
            ("\"chunks\":[[", "\"chunks\":[[],["),
            ("\"loads\":[[0,", "\"loads\":[[1,1],[0,"),
            ("\"weight\":5", "\"weight\":4294967295"),
        ] {
            let text = text.replacen(from, to, 1);
            let sum = XxHash3_64::oneshot(text.as_bytes());
            let value = format!("{TITLE} {FORMAT} {sum:016x}\n{text}");
            let read = Record::decode(value.as_bytes(), &config(), true);
            assert!(matches!(read, Err(Refusal::Damaged(_))), "{to}: {read:?}");
        }
        for text in [
            "",
            "{}",
            "{\"address\":\"10.0.0.1:1\",\"weight\":1,\"name\":null}",
        ] {
            let read = read_registration(ServerId(1), text.as_bytes(), true);
            assert!(read.is_err(), "{text}");
        }
    }
}
