//! The topology that `cluster-enabled emulated` describes to clients: one shard with all slots,
//! made from the state of replication. A primary knows its replicas, and a replica its primary,
//! itself and the replicas that follow it.

use super::{id, identifier};
use crate::state::Server;
use ::cluster::{Health, Name, Node, Replica, SLOTS, Shard, Topology};
use durability::replication::Phase;
use settings::Id;
use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;

/// Number of the only term.
const EPOCH: u64 = 1;

/// Returns the topology for a client that has connected to this address.
pub fn topology(server: &Server, address: Option<SocketAddr>, has_tls: bool) -> Topology {
    let own = myself(server, address, has_tls);
    let primary = primary(server, has_tls).filter(|primary| primary.id != own.id);
    let (primary, first) = match primary {
        Some(primary) => (primary, Some(own)),
        None => (own, None),
    };
    let mut replicas: Vec<Node> = Vec::new();
    for node in first.into_iter().chain(replicas_of(server, has_tls)) {
        // A replica that connects again is listed twice for a moment.
        let is_known = |other: &Node| other.id == node.id;
        if !is_known(&primary) && !replicas.iter().any(is_known) {
            replicas.push(node);
        }
    }
    let shard = Shard {
        id: identifier(format_args!("shard {}", primary.id)),
        epoch: EPOCH,
        primary: primary.id,
        replicas: replicas.iter().map(|node| replica(node.id)).collect(),
    };
    let nodes = std::iter::once(primary).chain(replicas).collect();
    Topology::new(0, vec![shard], nodes, &[(0..=SLOTS - 1, 0)])
        .expect("one shard of different nodes has all slots")
}

fn replica(id: Name) -> Replica {
    Replica {
        id,
        is_in_sync: false,
    }
}

/// Returns this server as a node, for a client that has connected to this address.
pub(super) fn myself(server: &Server, address: Option<SocketAddr>, has_tls: bool) -> Node {
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
        offset: server.feed.end(),
        health: match server.persistence.loading.is_on() {
            true => Health::Loading,
            false => Health::Online,
        },
        ..Node::unknown(id(server))
    }
}

/// Returns the identifier that a node has reported, or one that follows from its address.
fn id_of(reported: Option<&str>, host: &str, port: u16) -> Name {
    let reported = reported.and_then(|id| Name::parse(id.as_bytes()));
    reported.unwrap_or_else(|| identifier(format_args!("node {host} {port}")))
}

/// Returns a node of which one port is known: that of replication, with TLS for clients with TLS.
fn other(
    id: Option<&str>,
    (host, port): (String, u16),
    has_tls: bool,
    offset: u64,
    health: Health,
) -> Node {
    let id = id_of(id, &host, port);
    Node {
        ip: host,
        port: if has_tls { 0 } else { port },
        tls_port: if has_tls { port } else { 0 },
        offset,
        health,
        ..Node::unknown(id)
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
    let id = primary.node_id.as_deref();
    Some(other(id, address, has_tls, offset, health))
}

/// Returns the replicas that follow this server and can be connected to.
fn replicas_of(server: &Server, has_tls: bool) -> impl Iterator<Item = Node> {
    let all = server.replication.replicas().into_iter();
    let all = all.filter(|replica| replica.port != 0 && !replica.is_snapshot_only);
    all.map(move |replica| {
        let health = match replica.phase {
            Phase::Follows => Health::Online,
            _ => Health::Loading,
        };
        let (address, offset) = ((replica.address, replica.port), replica.acked);
        let id = replica.node_id.as_deref();
        other(id, address, has_tls, offset, health)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_is_the_reported_one_or_follows_from_the_address() {
        let own = id_of(None, "10.0.0.1", 6379);
        assert_ne!(own, id_of(None, "10.0.0.1", 6380));
        assert_eq!(own, id_of(Some("not an identifier"), "10.0.0.1", 6379));
        assert_eq!(own, id_of(Some(own.as_str()), "10.0.0.2", 1));
    }
}
