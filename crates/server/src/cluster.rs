//! The cluster as its clients see it: a topology, and this server as one of its nodes.
//!
//! With `cluster-enabled yes` a host installs the topology (`cluster/install.rs`), which decides
//! which commands this server executes (`cluster/route.rs`). With `cluster-enabled emulated` the
//! topology is made from the state of replication (`cluster/emulated.rs`): one shard has all
//! slots, and every command is executed.

mod emulated;
pub mod install;
pub mod route;
#[cfg(test)]
pub mod sample;

use crate::routing;
use crate::state::Server;
use ::cluster::{Health, Name, Node, Role, Shard, Topology};
use session::acl::sha256::{hex, sha256};
use session::clients::ClientInfo;
use session::session::Session;
use settings::Id;
use settings::words::{ENDPOINT_HOSTNAME, ENDPOINT_UNKNOWN};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::{fmt, fs};
use wire::slot::slot;

const _: () = assert!(::cluster::SLOTS == wire::slot::SLOTS);

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

impl Endpoint {
    /// Returns what clients connect to.
    pub fn of(server: &Server) -> Endpoint {
        match server.config.number(Id::ClusterEndpoint) {
            ENDPOINT_HOSTNAME => Endpoint::Hostname,
            ENDPOINT_UNKNOWN => Endpoint::Unknown,
            _ => Endpoint::Ip,
        }
    }

    /// Returns the host for a client; `None` means the one that it is connected to.
    pub fn host(self, node: &Node) -> Option<&str> {
        match self {
            Endpoint::Ip => Some(&node.ip),
            Endpoint::Hostname if node.hostname.is_empty() => Some("?"),
            Endpoint::Hostname => Some(&node.hostname),
            Endpoint::Unknown => None,
        }
    }
}

/// The cluster as one client sees it.
#[derive(Clone, Debug)]
pub struct View {
    /// The topology.
    pub topology: Arc<Topology>,
    /// Name of this server.
    pub me: Name,
    /// Whether the client uses TLS.
    pub has_tls: bool,
    /// Position in the feed and state of this server, which a topology has from the past.
    own: (u64, Health),
}

impl View {
    /// Returns the cluster for a client.
    pub fn of(server: &Server, session: &Session) -> View {
        let address = address_of(server, &session.info);
        let has_tls = has_tls(server, address);
        let own = emulated::myself(server, address, has_tls);
        let (state, id) = ((own.offset, own.health), own.id);
        let (topology, me) = match server.cluster.routes().installed.clone() {
            _ if !server.cluster.is_routed() => {
                let topology = emulated::topology(server, address, has_tls);
                (Arc::new(topology), id)
            }
            Some(installed) => installed,
            None => {
                let alone = Topology::new(0, Vec::new(), vec![own], &[]);
                (Arc::new(alone.expect("one node without shards")), id)
            }
        };
        View {
            topology,
            me,
            has_tls,
            own: state,
        }
    }

    /// Returns the node with this identifier.
    pub fn find(&self, id: &[u8]) -> Option<&Node> {
        self.topology.node(Name::parse(id)?)
    }

    /// Returns the shard of a node.
    pub fn shard_of(&self, node: Name) -> Option<&Shard> {
        let shard = self.topology.role(node).shard()?;
        self.topology.shards().get(shard)
    }

    /// Returns the identifier of this server's shard. A server without a shard has one of its own,
    /// as in Redis.
    pub fn shard_id(&self) -> Name {
        match self.shard_of(self.me) {
            Some(shard) => shard.id,
            None => identifier(format_args!("shard {}", self.me)),
        }
    }

    /// Returns the port of a node to which the client can connect.
    pub fn port(&self, node: &Node) -> u16 {
        port_of(node, self.has_tls)
    }

    /// Returns the position of a node in its shard's feed.
    pub fn offset(&self, node: &Node) -> u64 {
        match node.id == self.me {
            true => self.own.0,
            false => node.offset,
        }
    }

    /// Returns the state of a node.
    pub fn health(&self, node: &Node) -> Health {
        match node.id == self.me {
            true => self.own.1,
            false => node.health,
        }
    }

    /// Returns the line of CLUSTER NODES for a node.
    pub fn line(&self, node: &Node) -> String {
        let role = self.topology.role(node.id);
        let shard = role.shard().and_then(|at| self.topology.shards().get(at));
        let (is_replica, is_failed) = (
            matches!(role, Role::Replica(_)),
            self.health(node) == Health::Fail,
        );
        let mut line = format!(
            "{} {}:{}@{}",
            node.id,
            node.ip,
            self.port(node),
            node.bus_port
        );
        if !node.hostname.is_empty() {
            line += &format!(",{}", node.hostname);
        }
        line += if node.id == self.me { " myself," } else { " " };
        line += if is_replica { "slave" } else { "master" };
        line += if is_failed { ",fail " } else { " " };
        line += match shard {
            Some(shard) if is_replica => shard.primary.as_str(),
            _ => "-",
        };
        let epoch = shard.map_or(0, |shard| shard.epoch);
        let link = if is_failed {
            "disconnected"
        } else {
            "connected"
        };
        line += &format!(" 0 0 {epoch} {link}");
        if let Role::Primary(shard) = role {
            for range in self.topology.ranges(shard) {
                line += &match (range.start(), range.end()) {
                    (first, last) if first == last => format!(" {first}"),
                    (first, last) => format!(" {first}-{last}"),
                };
            }
        }
        line
    }
}

/// Returns whether all slots have an owner and this node serves its own.
pub fn is_ok(server: &Server, topology: &Topology, me: Name) -> bool {
    let cluster = &server.cluster;
    let is_primary = matches!(topology.role(me), Role::Primary(_));
    let is_down =
        cluster.is_routed() && is_primary && routing::now(&server.clock) >= cluster.fence();
    !is_down && topology.assigned() == usize::from(::cluster::SLOTS)
}

/// Returns the port of a node for a client with or without TLS. It is the other one if the node
/// has only that.
fn port_of(node: &Node, has_tls: bool) -> u16 {
    match (has_tls, node.port, node.tls_port) {
        (true, port, 0) | (false, port @ 1.., _) => port,
        (_, _, tls_port) => tls_port,
    }
}

/// Returns the identifier of this server. It depends on the host, the data directory and the ports,
/// so that it is the same after a restart.
pub fn id(server: &Server) -> Name {
    *server.cluster.node_id.get_or_init(|| {
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

/// Returns the redirection of a write on this key, if this server is a replica of an emulated
/// cluster.
pub fn redirection(server: &Server, key: &[u8]) -> Option<String> {
    if !server.config.is_cluster() {
        return None;
    }
    let primary = server.replication.primary()?;
    let (host, port) = (primary.host, primary.port);
    Some(format!("MOVED {} {host}:{port}", slot(key)))
}

/// Returns 40 hexadecimal digits that follow from a text.
fn identifier(text: fmt::Arguments<'_>) -> Name {
    let digits = hex(&sha256(text.to_string().as_bytes()));
    let name = Name::parse(&digits.as_bytes()[..40]);
    name.expect("a digest has 64 hexadecimal digits")
}

/// Whether a client that has connected to this address uses TLS.
fn has_tls(server: &Server, address: Option<SocketAddr>) -> bool {
    let tls_port = server.config.number(Id::TlsPort) as u16;
    tls_port != 0 && address.is_some_and(|address| address.port() == tls_port)
}

/// Returns the address of this server to which a client has connected. That of a client of a local
/// socket is the first one on which the server listens, with the loopback address instead of all
/// addresses.
fn address_of(server: &Server, client: &ClientInfo) -> Option<SocketAddr> {
    if let Ok(address) = client.local_address.parse::<SocketAddr>() {
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

#[cfg(test)]
mod tests;
