//! Records of a cluster of servers, as JSON.
//!
//! ```text
//! config    settings that are equal everywhere               (operator)
//! map       ranges of slots, each with the shard that owns it
//! shards/S  primary, term, in-sync replicas, position         (primary or campaigning replica)
//! beat/S    the write to it counts, the content does not      (the same)
//! nodes/N   addresses of a node, and its shard                (the node, under its lease)
//! place     the write to it counts: it orders the placement of nodes
//! failover/S  request that a replica becomes the primary      (operator, or the replica)
//! moves/M   slots that move to another shard (`moves.rs`)     (operator; then both primaries)
//! ```
//!
//! S and N are names of 40 hexadecimal digits. Each record except the beat has the number of its
//! format and the identifier of its cluster, so that a record of a later release or of another
//! cluster is recognized. Members that a reader does not know are ignored, so that a later release
//! can add some.

use cluster::{Health, Name, Node, SLOTS, Timing};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Number of the format that this release reads and writes.
pub(crate) const FORMAT: u32 = 1;
/// Maximum size of a record in bytes. etcd refuses larger values at its default settings.
const RECORD_BYTES_MAX: usize = 1 << 20;
/// Maximum number of shards.
pub const SHARDS_MAX: u32 = 1024;
/// Maximum number of replicas wanted for each shard.
pub const REPLICAS_MAX: u32 = 16;
/// Permitted lease times of primaries in milliseconds.
pub const LEASE_MS: std::ops::RangeInclusive<u64> = 500..=60_000;
/// Default lease time in milliseconds: a failover takes about 2.5 s at most.
pub const LEASE_MS_DEFAULT: u64 = 2_000;
/// Permitted times in milliseconds after which an in-sync replica that does not answer leaves.
pub const SYNC_TIMEOUT_MS: std::ops::RangeInclusive<u64> = 10..=60_000;
/// Default of that time.
pub const SYNC_TIMEOUT_MS_DEFAULT: u64 = 1_000;
/// Part of the lease time that is the margin, see [`Timing`].
const MARGIN_PART: u64 = 20;

/// Name of the record with the settings.
pub const CONFIG: &str = "config";
/// Name of the record with the slots.
pub const MAP: &str = "map";
/// Prefix of the names of shards' records.
pub const SHARDS: &str = "shards/";
/// Prefix of the names of beats.
pub const BEATS: &str = "beat/";
/// Prefix of the names of nodes' records.
pub const NODES: &str = "nodes/";

/// Name of the record that each placement of a node writes.
pub const PLACE: &str = "place";
/// Prefix of the names of requests for a failover.
pub const FAILOVERS: &str = "failover/";

/// Reason why a record is not used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The value is not a record, for example because it was truncated or edited by hand.
    Damaged(String),
    /// The record has the format of another release.
    Format(u32),
    /// It belongs to the cluster with this identifier.
    Foreign(String),
    /// A value in it is not permitted.
    Value(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Damaged(text) => write!(out, "damaged: {text}"),
            Refusal::Format(found) => write!(
                out,
                "format {found}: expected {FORMAT}; another release has written it"
            ),
            Refusal::Foreign(id) => write!(out, "it belongs to another cluster, {id}"),
            Refusal::Value(text) => out.write_str(text),
        }
    }
}

/// When a primary sends the reply to a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Strength {
    /// At once. A failover loses the writes that the promoted replica has not received.
    #[default]
    Async,
    /// When all replicas that may be promoted have received the write.
    Sync,
}

impl Strength {
    /// Returns the word for it.
    pub fn word(self) -> &'static str {
        match self {
            Strength::Async => "async",
            Strength::Sync => "sync",
        }
    }
}

/// Settings that are equal on all nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// Identifier of the cluster.
    pub cluster: Name,
    /// Number of shards wanted.
    pub shards: u32,
    /// Number of replicas wanted for each shard.
    pub replicas: u32,
    /// Lease time of primaries in milliseconds.
    pub lease_ms: u64,
    /// When a primary sends the reply to a write.
    pub strength: Strength,
    /// With [`Strength::Sync`], time in milliseconds after which an in-sync replica that has not
    /// confirmed a write leaves the in-sync set.
    pub sync_timeout_ms: u64,
}

impl Config {
    /// Returns the times that follow from the lease.
    pub fn timing(&self) -> Timing {
        let timing = Timing::new(self.lease_ms, self.lease_ms / MARGIN_PART);
        timing.expect("a twentieth is more than a hundredth and less than a half")
    }

    /// Checks the values.
    ///
    /// # Errors
    /// A value is not permitted.
    pub fn check(&self) -> Result<(), Refusal> {
        let wrong = |text| Err(Refusal::Value(text));
        if !(1..=SHARDS_MAX).contains(&self.shards) {
            return wrong(format!(
                "{} shards: expected 1 to {SHARDS_MAX}",
                self.shards
            ));
        }
        if self.replicas > REPLICAS_MAX {
            let found = self.replicas;
            return wrong(format!("{found} replicas: expected at most {REPLICAS_MAX}"));
        }
        if !LEASE_MS.contains(&self.lease_ms) {
            let (least, most) = (LEASE_MS.start(), LEASE_MS.end());
            let found = self.lease_ms;
            return wrong(format!("lease of {found} ms: expected {least} to {most}"));
        }
        if !SYNC_TIMEOUT_MS.contains(&self.sync_timeout_ms) {
            let (least, most) = (SYNC_TIMEOUT_MS.start(), SYNC_TIMEOUT_MS.end());
            let found = self.sync_timeout_ms;
            return wrong(format!(
                "sync timeout of {found} ms: expected {least} to {most}"
            ));
        }
        Ok(())
    }
}

/// Ranges of slots, first and last, each with the shard that owns it.
pub type Map = Vec<(u16, u16, Name)>;

/// Record of a shard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shard {
    /// Number of the primary's term.
    pub epoch: u64,
    /// Primary; `None` before the first one.
    pub primary: Option<Name>,
    /// Replicas that may be promoted.
    pub in_sync: Vec<Name>,
    /// Position in the feed at which the term began, as its primary knew it. A former primary
    /// compares it with its own position to report what it has lost.
    pub position: u64,
}

/// Record of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Registration {
    /// The node, for clients and other servers.
    pub node: Node,
    /// Shard that it belongs to.
    pub shard: Option<Name>,
    /// Random identifier of the process.
    pub run: String,
}

#[derive(Serialize, Deserialize)]
struct Head {
    format: u32,
    cluster: String,
}

#[derive(Serialize, Deserialize)]
struct ConfigText {
    format: u32,
    cluster: String,
    shards: u32,
    replicas: u32,
    lease_ms: u64,
    #[serde(default)]
    strength: Strength,
    #[serde(default = "sync_timeout_ms")]
    sync_timeout_ms: u64,
}

fn sync_timeout_ms() -> u64 {
    SYNC_TIMEOUT_MS_DEFAULT
}

#[derive(Serialize, Deserialize)]
struct MapText {
    format: u32,
    cluster: String,
    slots: Vec<(u16, u16, String)>,
}

#[derive(Serialize, Deserialize)]
struct ShardText {
    format: u32,
    cluster: String,
    epoch: u64,
    primary: Option<String>,
    in_sync: Vec<String>,
    position: u64,
}

#[derive(Serialize, Deserialize)]
struct FailoverText {
    format: u32,
    cluster: String,
    to: String,
}

#[derive(Serialize, Deserialize)]
struct NodeText {
    format: u32,
    cluster: String,
    ip: String,
    port: u16,
    tls_port: u16,
    #[serde(default)]
    bus_port: u16,
    #[serde(default)]
    hostname: String,
    inside: String,
    #[serde(default)]
    zone: String,
    #[serde(default)]
    version: String,
    #[serde(default)]
    offset: u64,
    #[serde(default)]
    is_loading: bool,
    shard: Option<String>,
    run: String,
}

pub(crate) fn text(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("names of members are texts")
}

/// Parses a record after its format and its cluster were checked.
pub(crate) fn parse<T: DeserializeOwned>(
    value: &[u8],
    cluster: Option<Name>,
) -> Result<T, Refusal> {
    if value.len() > RECORD_BYTES_MAX {
        let found = value.len();
        let text = format!("{found} bytes: expected at most {RECORD_BYTES_MAX}");
        return Err(Refusal::Damaged(text));
    }
    let damaged = |error: serde_json::Error| Refusal::Damaged(error.to_string());
    let head: Head = serde_json::from_slice(value).map_err(damaged)?;
    if head.format != FORMAT {
        return Err(Refusal::Format(head.format));
    }
    if cluster.is_some_and(|cluster| cluster.as_str() != head.cluster) {
        return Err(Refusal::Foreign(head.cluster));
    }
    serde_json::from_slice(value).map_err(damaged)
}

pub(crate) fn name(what: &str, text: &str) -> Result<Name, Refusal> {
    let expected = || format!("{what} '{text}': expected 40 hexadecimal digits");
    Name::parse(text.as_bytes()).ok_or_else(|| Refusal::Value(expected()))
}

fn optional(what: &str, text: Option<String>) -> Result<Option<Name>, Refusal> {
    text.map(|text| name(what, &text)).transpose()
}

impl Config {
    /// Encodes the settings.
    pub fn encode(&self) -> String {
        text(&ConfigText {
            format: FORMAT,
            cluster: self.cluster.to_string(),
            shards: self.shards,
            replicas: self.replicas,
            lease_ms: self.lease_ms,
            strength: self.strength,
            sync_timeout_ms: self.sync_timeout_ms,
        })
    }

    /// Decodes the settings.
    ///
    /// # Errors
    /// Returns an error if the value is damaged or has the format of another release.
    pub fn decode(value: &[u8]) -> Result<Config, Refusal> {
        let text: ConfigText = parse(value, None)?;
        let config = Config {
            cluster: name("cluster", &text.cluster)?,
            shards: text.shards,
            replicas: text.replicas,
            lease_ms: text.lease_ms,
            strength: text.strength,
            sync_timeout_ms: text.sync_timeout_ms,
        };
        config.check().map(|()| config)
    }
}

/// Encodes a map.
pub fn encode_map(map: &Map, cluster: Name) -> String {
    let range = |(first, last, shard): &(u16, u16, Name)| (*first, *last, shard.to_string());
    text(&MapText {
        format: FORMAT,
        cluster: cluster.to_string(),
        slots: map.iter().map(range).collect(),
    })
}

/// Decodes a map. Its ranges are in ascending order and do not overlap.
///
/// # Errors
/// Returns an error if the value is damaged or has the format of another release.
pub fn decode_map(value: &[u8], cluster: Name) -> Result<Map, Refusal> {
    let text: MapText = parse(value, Some(cluster))?;
    let mut next = 0;
    let mut map = Map::with_capacity(text.slots.len());
    for (first, last, shard) in text.slots {
        if first < next || first > last || last >= SLOTS {
            return Err(Refusal::Value(format!(
                "slots {first}-{last}: expected {next} <= first <= last < {SLOTS}"
            )));
        }
        next = last + 1;
        map.push((first, last, name("shard", &shard)?));
    }
    Ok(map)
}

/// Encodes a request to promote a replica.
pub fn encode_failover(to: Name, cluster: Name) -> String {
    text(&FailoverText {
        format: FORMAT,
        cluster: cluster.to_string(),
        to: to.to_string(),
    })
}

/// Decodes a request to promote a replica.
///
/// # Errors
/// Returns an error if the value is damaged or has the format of another release.
pub fn decode_failover(value: &[u8], cluster: Name) -> Result<Name, Refusal> {
    let text: FailoverText = parse(value, Some(cluster))?;
    name("to", &text.to)
}

impl Shard {
    /// Returns a shard that has had no primary yet.
    pub fn vacant() -> Shard {
        Shard {
            epoch: 0,
            primary: None,
            in_sync: Vec::new(),
            position: 0,
        }
    }

    /// Encodes the record.
    pub fn encode(&self, cluster: Name) -> String {
        text(&ShardText {
            format: FORMAT,
            cluster: cluster.to_string(),
            epoch: self.epoch,
            primary: self.primary.map(|primary| primary.to_string()),
            in_sync: self.in_sync.iter().map(Name::to_string).collect(),
            position: self.position,
        })
    }

    /// Decodes a record.
    ///
    /// # Errors
    /// Returns an error if the value is damaged or has the format of another release.
    pub fn decode(value: &[u8], cluster: Name) -> Result<Shard, Refusal> {
        let text: ShardText = parse(value, Some(cluster))?;
        let in_sync = text.in_sync.iter().map(|id| name("in_sync", id));
        let shard = Shard {
            epoch: text.epoch,
            primary: optional("primary", text.primary)?,
            in_sync: in_sync.collect::<Result<_, _>>()?,
            position: text.position,
        };
        let mut all: Vec<Name> = shard.in_sync.iter().copied().chain(shard.primary).collect();
        all.sort_unstable();
        if let Some(pair) = all.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Refusal::Value(format!(
                "node {}: expected it once",
                pair[0]
            )));
        }
        if shard.primary.is_none() && !shard.in_sync.is_empty() {
            return Err(Refusal::Value("in-sync replicas without a primary".into()));
        }
        Ok(shard)
    }
}

impl Registration {
    /// Encodes the record.
    pub fn encode(&self, cluster: Name) -> String {
        let node = self.node.clone();
        text(&NodeText {
            format: FORMAT,
            cluster: cluster.to_string(),
            ip: node.ip,
            port: node.port,
            tls_port: node.tls_port,
            bus_port: node.bus_port,
            hostname: node.hostname,
            inside: node.inside,
            zone: node.zone,
            version: node.version,
            offset: node.offset,
            is_loading: node.health == Health::Loading,
            shard: self.shard.map(|shard| shard.to_string()),
            run: self.run.clone(),
        })
    }

    /// Decodes the record of the node with a name.
    ///
    /// # Errors
    /// Returns an error if the value is damaged or has the format of another release.
    pub fn decode(id: Name, value: &[u8], cluster: Name) -> Result<Registration, Refusal> {
        let text: NodeText = parse(value, Some(cluster))?;
        if address(&text.inside).is_none() {
            let found = text.inside;
            return Err(Refusal::Value(format!(
                "inside '{found}': expected HOST:PORT"
            )));
        }
        let is_plain =
            |text: &str| text.len() <= 255 && !text.bytes().any(|b| b <= b' ' || b == b',');
        for found in [&text.ip, &text.hostname, &text.zone, &text.version] {
            if !is_plain(found) {
                return Err(Refusal::Value(format!("{found:?}: expected one word")));
            }
        }
        let node = Node {
            id,
            ip: text.ip,
            port: text.port,
            tls_port: text.tls_port,
            bus_port: text.bus_port,
            hostname: text.hostname,
            inside: text.inside,
            zone: text.zone,
            version: text.version,
            offset: text.offset,
            health: match text.is_loading {
                true => Health::Loading,
                false => Health::Online,
            },
        };
        let (shard, run) = (optional("shard", text.shard)?, text.run);
        Ok(Registration { node, shard, run })
    }
}

/// Splits an address such as `10.0.0.1:6379` or `[::1]:6379` into host and port.
pub fn address(text: &str) -> Option<(String, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let port = port.parse().ok().filter(|port| *port != 0)?;
    let host = host
        .strip_prefix('[')
        .map_or(host, |host| host.trim_end_matches(']'));
    let is_host = !host.is_empty() && !host.bytes().any(|byte| byte <= b' ');
    is_host.then(|| (host.to_owned(), port))
}

/// Joins a host and a port, so that [`address`] splits them.
pub fn join(host: &str, port: u16) -> String {
    match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u8) -> Name {
        Name::parse(format!("{number:040x}").as_bytes()).expect("40 digits")
    }

    fn config() -> Config {
        Config {
            cluster: id(9),
            shards: 3,
            replicas: 1,
            lease_ms: LEASE_MS_DEFAULT,
            strength: Strength::Sync,
            sync_timeout_ms: 300,
        }
    }

    fn shard() -> Shard {
        Shard {
            epoch: 7,
            primary: Some(id(1)),
            in_sync: vec![id(2)],
            position: 99,
        }
    }

    fn registration() -> Registration {
        let node = Node {
            id: id(1),
            ip: "10.0.0.1".into(),
            port: 7000,
            tls_port: 0,
            bus_port: 0,
            hostname: "a.example".into(),
            inside: "[::1]:7000".into(),
            zone: "a".into(),
            version: "1.0".into(),
            offset: 5,
            health: Health::Loading,
        };
        let run = "run".into();
        Registration {
            node,
            shard: Some(id(4)),
            run,
        }
    }

    #[test]
    fn what_was_encoded_is_decoded() {
        let map = vec![(0, 99, id(4)), (100, SLOTS - 1, id(5))];
        assert_eq!(Config::decode(config().encode().as_bytes()), Ok(config()));
        assert_eq!(
            decode_map(encode_map(&map, id(9)).as_bytes(), id(9)),
            Ok(map)
        );
        for shard in [shard(), Shard::vacant()] {
            let text = shard.encode(id(9));
            assert_eq!(Shard::decode(text.as_bytes(), id(9)), Ok(shard));
        }
        let text = registration().encode(id(9));
        let found = Registration::decode(id(1), text.as_bytes(), id(9));
        assert_eq!(found, Ok(registration()));
        let text = encode_failover(id(2), id(9));
        assert_eq!(decode_failover(text.as_bytes(), id(9)), Ok(id(2)));
        assert!(decode_failover(text.as_bytes(), id(8)).is_err());
    }

    #[test]
    fn every_cut_of_a_record_is_refused() {
        let (config, shard, node) = (
            config().encode(),
            shard().encode(id(9)),
            registration().encode(id(9)),
        );
        for (text, kind) in [(config, 0), (shard, 1), (node, 2)] {
            for end in 0..text.len() {
                let cut = &text.as_bytes()[..end];
                let refusal = match kind {
                    0 => Config::decode(cut).expect_err("it is cut"),
                    1 => Shard::decode(cut, id(9)).expect_err("it is cut"),
                    _ => Registration::decode(id(1), cut, id(9)).expect_err("it is cut"),
                };
                assert!(matches!(refusal, Refusal::Damaged(_)), "{refusal}");
            }
        }
    }

    #[test]
    fn a_refusal_says_what_was_expected() {
        let good = shard().encode(id(9));
        for (from, to, expected) in [
            ("\"format\":1", "\"format\":2", "format 2: expected 1"),
            (
                &id(9).to_string(),
                &id(8).to_string(),
                "another cluster, 00",
            ),
            (
                &id(1).to_string(),
                "x",
                "primary 'x': expected 40 hexadecimal digits",
            ),
            (&id(2).to_string(), &id(1).to_string(), "expected it once"),
            ("\"epoch\":7", "\"epoch\":-7", "damaged: invalid value"),
            ("\"epoch\":7,", "", "damaged: missing field `epoch`"),
        ] {
            let refusal = Shard::decode(good.replace(from, to).as_bytes(), id(9));
            let text = refusal.expect_err(expected).to_string();
            assert!(text.contains(expected), "{text}");
        }
        for (range, expected) in [
            ("[5,4,\"x\"]", "slots 5-4: expected 0 <= first"),
            ("[0,16384,\"x\"]", "slots 0-16384: expected"),
            ("[0,1,\"x\"]", "shard 'x': expected 40"),
        ] {
            let text = format!(
                "{{\"format\":1,\"cluster\":\"{}\",\"slots\":[{range}]}}",
                id(9)
            );
            let refusal = decode_map(text.as_bytes(), id(9)).expect_err(expected);
            assert!(refusal.to_string().contains(expected), "{refusal}");
        }
        let good = registration().encode(id(9));
        for (from, to, expected) in [
            (
                "[::1]:7000",
                "[::1]:0",
                "inside '[::1]:0': expected HOST:PORT",
            ),
            ("a.example", "a b", "\"a b\": expected one word"),
        ] {
            let refusal = Registration::decode(id(1), good.replace(from, to).as_bytes(), id(9));
            let text = refusal.expect_err(expected).to_string();
            assert!(text.contains(expected), "{text}");
        }
        let wrong = [
            (0, 0, 2_000, 9),
            (SHARDS_MAX + 1, 0, 2_000, 1_000),
            (1, 17, 2_000, 1_000),
            (1, 0, 499, 1_000),
            (1, 0, 2_000, 9),
        ];
        for (shards, replicas, lease_ms, sync_timeout_ms) in wrong {
            let config = Config {
                shards,
                replicas,
                lease_ms,
                sync_timeout_ms,
                ..config()
            };
            assert!(
                Config::decode(config.encode().as_bytes()).is_err(),
                "{config:?}"
            );
        }
    }

    #[test]
    fn settings_of_an_earlier_release_mean_async() {
        let text = config().encode();
        let before = text.replace(",\"strength\":\"sync\",\"sync_timeout_ms\":300", "");
        assert_ne!(text, before);
        let config = Config::decode(before.as_bytes()).expect("valid");
        let found = (config.strength, config.sync_timeout_ms);
        assert_eq!(found, (Strength::Async, SYNC_TIMEOUT_MS_DEFAULT));
        let wrong = text.replace("\"sync\"", "\"quorum\"");
        let refusal = Config::decode(wrong.as_bytes()).expect_err("there are two strengths");
        assert!(refusal.to_string().contains("quorum"), "{refusal}");
    }

    #[test]
    fn ranges_that_overlap_or_go_back_are_refused() {
        for map in [
            vec![(0, 9, id(4)), (9, 10, id(5))],
            vec![(5, 9, id(4)), (0, 1, id(5))],
        ] {
            let text = encode_map(&map, id(9));
            assert!(decode_map(text.as_bytes(), id(9)).is_err());
        }
    }

    #[test]
    fn addresses_are_split_and_joined() {
        for (host, port, text) in [
            ("10.0.0.1", 1, "10.0.0.1:1"),
            ("::1", 65_535, "[::1]:65535"),
        ] {
            assert_eq!(join(host, port), text);
            assert_eq!(address(text), Some((host.to_owned(), port)));
        }
        for text in ["", ":1", "a", "a:", "a:0", "a:65536", "a b:1"] {
            assert_eq!(address(text), None, "{text}");
        }
    }
}
