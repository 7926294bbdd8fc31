//! The nodes of a cluster that `cluster-enabled emulated` describes to clients: one primary, which
//! has all slots, and its replicas. A primary knows its replicas, and a replica its primary,
//! itself and the replicas that follow it.
//!
//! There is no bus between nodes, no election and no move of slots.

pub mod install;

use crate::state::Server;
use durability::replication::{ID_DIGITS, Phase};
use session::acl::sha256::{hex, sha256};
use session::session::Session;
use settings::Id;
use settings::words::{ENDPOINT_HOSTNAME, ENDPOINT_UNKNOWN};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::Ordering::Relaxed;
use std::{fmt, fs};
use wire::slot::slot;

/// What a client connects to, as `cluster-preferred-endpoint-type` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// The address.
    Ip,
    /// The host name.
    Hostname,
    /// The host to which the client is connected.
    Unknown,
}

/// State of a node in CLUSTER SHARDS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It serves commands.
    Online,
    /// It receives or loads a snapshot.
    Loading,
    /// There is no connection to it.
    Fail,
}

/// A node of the cluster, as a client sees it.
#[derive(Clone, Debug)]
pub struct Node {
    /// Identifier, 40 hexadecimal digits.
    pub id: String,
    /// Address without the port, or the host that a setting or a replica names; empty if there is
    /// none.
    pub ip: String,
    /// Port without TLS; 0 if there is none.
    pub port: u16,
    /// Port with TLS; 0 if there is none.
    pub tls_port: u16,
    /// Port of the cluster bus; 0 if there is none.
    pub bus_port: u16,
    /// Host name; empty if there is none.
    pub hostname: String,
    /// Whether it is this server.
    pub is_myself: bool,
    /// Position in the feed.
    pub offset: u64,
    /// State.
    pub health: Health,
}

/// The cluster as one client sees it.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// The primary, which has all slots.
    pub primary: Node,
    /// Its replicas.
    pub replicas: Vec<Node>,
    /// Whether the client uses TLS.
    pub has_tls: bool,
}

impl Cluster {
    /// Returns the cluster for a client.
    pub fn of(server: &Server, session: &Session) -> Cluster {
        let address = address_of(server, session);
        let tls_port = server.config.number(Id::TlsPort) as u16;
        let has_tls = tls_port != 0 && address.is_some_and(|address| address.port() == tls_port);
        let myself = myself(server, address, has_tls);
        let replicas = replicas(server, has_tls);
        match primary(server, has_tls) {
            Some(primary) => Cluster {
                primary,
                replicas: std::iter::once(myself).chain(replicas).collect(),
                has_tls,
            },
            None => Cluster {
                primary: myself,
                replicas: replicas.collect(),
                has_tls,
            },
        }
    }

    /// Returns all nodes, the primary first.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        std::iter::once(&self.primary).chain(&self.replicas)
    }

    /// Returns the node with this identifier.
    pub fn find(&self, id: &[u8]) -> Option<&Node> {
        self.nodes().find(|node| node.id.as_bytes() == id)
    }

    /// Returns the identifier of the shard, which is that of no node.
    pub fn shard_id(&self) -> String {
        identifier(format_args!("shard {}", self.primary.id))
    }

    /// Returns the port of a node to which the client can connect.
    pub fn port(&self, node: &Node) -> u16 {
        match (self.has_tls, node.port, node.tls_port) {
            (true, port, 0) | (false, port @ 1.., _) => port,
            (_, _, tls_port) => tls_port,
        }
    }

    /// Returns the line of CLUSTER NODES for a node.
    pub fn line(&self, node: &Node) -> String {
        let is_primary = node.id == self.primary.id;
        let hostname = match &node.hostname[..] {
            "" => String::new(),
            name => format!(",{name}"),
        };
        format!(
            "{} {}:{}@{}{hostname} {}{} {} 0 0 1 {}{}",
            node.id,
            node.ip,
            self.port(node),
            node.bus_port,
            if node.is_myself { "myself," } else { "" },
            if is_primary { "master" } else { "slave" },
            if is_primary { "-" } else { &self.primary.id },
            match node.health {
                Health::Fail => "disconnected",
                _ => "connected",
            },
            if is_primary { " 0-16383" } else { "" },
        )
    }
}

/// Returns what clients connect to.
pub fn endpoint(server: &Server) -> Endpoint {
    match server.config.number(Id::ClusterEndpoint) {
        ENDPOINT_HOSTNAME => Endpoint::Hostname,
        ENDPOINT_UNKNOWN => Endpoint::Unknown,
        _ => Endpoint::Ip,
    }
}

/// Returns the identifier of this server. It depends on the host, the data directory and the ports,
/// so that it is the same after a restart.
pub fn id(server: &Server) -> &str {
    server.cluster.node_id.get_or_init(|| {
        let config = &server.config;
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let folder = config.text(Id::Dir);
        let folder = fs::canonicalize(&folder).unwrap_or_else(|_| folder.into());
        identifier(format_args!(
            "node {} {} {} {} {}",
            host.trim(),
            folder.display(),
            server.network.port.load(Relaxed),
            config.number(Id::TlsPort),
            config.text(Id::UnixSocket),
        ))
    })
}

/// Whether a text is an identifier of a node.
pub fn is_id(text: &[u8]) -> bool {
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    text.len() == ID_DIGITS && text.iter().all(is_digit)
}

/// Returns the redirection of a write on this key, if this server is a replica of a cluster.
pub fn redirection(server: &Server, key: &[u8]) -> Option<String> {
    if !server.config.is_cluster() {
        return None;
    }
    let primary = server.replication.primary()?;
    let (host, port) = (primary.host, primary.port);
    Some(format!("MOVED {} {host}:{port}", slot(key)))
}

/// Returns 40 hexadecimal digits that follow from a text.
fn identifier(text: fmt::Arguments<'_>) -> String {
    let mut digits = hex(&sha256(text.to_string().as_bytes()));
    digits.truncate(ID_DIGITS);
    digits
}

/// Returns the identifier of a node that has not reported its own.
fn identifier_at(host: &str, port: u16) -> String {
    identifier(format_args!("node {host} {port}"))
}

/// Returns the address of this server to which a client has connected. That of a client of a local
/// socket is the first one on which the server listens, with the loopback address instead of all
/// addresses.
fn address_of(server: &Server, session: &Session) -> Option<SocketAddr> {
    if let Ok(address) = session.info.local_address.parse::<SocketAddr>() {
        return Some(address);
    }
    let mut first = *server.network.first_address.get()?;
    match first.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => first.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => first.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    Some(first)
}

fn myself(server: &Server, address: Option<SocketAddr>, has_tls: bool) -> Node {
    let config = &server.config;
    let port = match address {
        Some(address) if !has_tls => address.port(),
        _ => server.network.port.load(Relaxed),
    };
    let announced = |id: Id, otherwise: u16| match config.number(id) {
        0 => otherwise,
        port => port as u16,
    };
    let ip = config.text(Id::ClusterAnnounceIp);
    Node {
        id: id(server).to_owned(),
        ip: match (ip.is_empty(), address) {
            (true, Some(address)) => address.ip().to_canonical().to_string(),
            _ => ip,
        },
        port: announced(Id::ClusterAnnouncePort, port),
        tls_port: announced(
            Id::ClusterAnnounceTlsPort,
            config.number(Id::TlsPort) as u16,
        ),
        bus_port: announced(Id::ClusterAnnounceBusPort, 0),
        hostname: config.text(Id::ClusterAnnounceHostname),
        is_myself: true,
        offset: server.feed.end(),
        health: match server.persistence.loading.is_on() {
            true => Health::Loading,
            false => Health::Online,
        },
    }
}

/// Returns a node of which one port is known: that of replication, with TLS for clients with TLS.
fn other(
    id: Option<String>,
    (host, port): (String, u16),
    has_tls: bool,
    offset: u64,
    health: Health,
) -> Node {
    Node {
        id: id.unwrap_or_else(|| identifier_at(&host, port)),
        ip: host,
        port: if has_tls { 0 } else { port },
        tls_port: if has_tls { port } else { 0 },
        bus_port: 0,
        hostname: String::new(),
        is_myself: false,
        offset,
        health,
    }
}

/// Returns the primary of this server, if it is a replica.
fn primary(server: &Server, has_tls: bool) -> Option<Node> {
    let primary = server.replication.primary()?;
    let health = match primary.is_connected {
        true => Health::Online,
        false => Health::Fail,
    };
    let (address, offset) = ((primary.host, primary.port), server.feed.end());
    Some(other(primary.node_id, address, has_tls, offset, health))
}

/// Returns the replicas that follow this server and can be connected to.
fn replicas(server: &Server, has_tls: bool) -> impl Iterator<Item = Node> {
    let all = server.replication.replicas().into_iter();
    let all = all.filter(|replica| replica.port != 0 && !replica.is_snapshot_only);
    all.map(move |replica| {
        let health = match replica.phase {
            Phase::Follows => Health::Online,
            _ => Health::Loading,
        };
        let (address, offset) = ((replica.address, replica.port), replica.acked);
        other(replica.node_id, address, has_tls, offset, health)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use session::clock::Clock;
    use settings::Config;

    fn node(id: &str, port: u16, tls_port: u16) -> Node {
        Node {
            id: id.to_owned(),
            ip: "10.0.0.1".to_owned(),
            port,
            tls_port,
            bus_port: 0,
            hostname: String::new(),
            is_myself: false,
            offset: 0,
            health: Health::Online,
        }
    }

    fn cluster(has_tls: bool) -> Cluster {
        Cluster {
            primary: node("p", 1, 2),
            replicas: vec![node("r", 3, 0)],
            has_tls,
        }
    }

    #[test]
    fn a_client_gets_the_port_of_its_kind_if_the_node_has_it() {
        for (has_tls, ports, expected) in [
            (false, (1, 2), 1),
            (true, (1, 2), 2),
            (true, (1, 0), 1),
            (false, (0, 2), 2),
            (false, (0, 0), 0),
        ] {
            let node = node("n", ports.0, ports.1);
            let port = cluster(has_tls).port(&node);
            assert_eq!(port, expected, "TLS: {has_tls}, ports: {ports:?}");
        }
    }

    #[test]
    fn a_replica_is_a_line_without_slots() {
        let mut cluster = cluster(false);
        assert_eq!(
            cluster.line(&cluster.replicas[0]),
            "r 10.0.0.1:3@0 slave p 0 0 1 connected"
        );
        cluster.primary.health = Health::Fail;
        assert_eq!(
            cluster.line(&cluster.primary),
            "p 10.0.0.1:1@0 master - 0 0 1 disconnected 0-16383"
        );
    }

    #[test]
    fn a_client_without_a_tcp_address_gets_the_first_one() {
        for (first, expected) in [
            ("0.0.0.0:7", "127.0.0.1:7"),
            ("[::]:7", "[::1]:7"),
            ("10.0.0.1:7", "10.0.0.1:7"),
        ] {
            let server = Server::new(Config::default(), Clock::manual(1)).expect("valid settings");
            let session = Session::new();
            assert_eq!(address_of(&server, &session), None);
            let first = first.parse().expect("an address");
            server
                .network
                .first_address
                .set(first)
                .expect("it is not set");
            let address = address_of(&server, &session).expect("there is one");
            assert_eq!(address.to_string(), expected);
        }
    }

    #[test]
    fn an_identifier_has_forty_hexadecimal_digits() {
        let id = identifier_at("10.0.0.1", 6379);
        assert!(is_id(id.as_bytes()) && id != identifier_at("10.0.0.1", 6380));
        for wrong in [
            "",
            &id[1..],
            &format!("{id}0"),
            &"G".repeat(40),
            &"A".repeat(40),
        ] {
            assert!(!is_id(wrong.as_bytes()), "{wrong}");
        }
    }
}
