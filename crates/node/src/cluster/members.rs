//! Nodes of a cluster, listed in its file or in the last map from etcd.

use super::message::MAP;
use super::peer::{Call, Peer};
use super::tls::Credentials;
use super::{Cluster, loads};
use crate::config::{ClusterConfig, Invalid, Server};
use crate::membership::record::Record;
use crate::membership::{Counted, Host, Shared};
use crate::metrics::{EtcdFacts, MembershipFacts};
use edge::{BucketWrites, MapId, ServerId};
use hyper::Method;
use hyper::header::{HeaderMap, HeaderValue};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, RwLock};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Timeout for requesting the counts of other nodes, which are a few bytes. Later answers are not
/// used.
const LOADS_TIME: Duration = Duration::from_secs(1);
/// Maximum size of a node's counts in bytes.
const LOADS_BYTES_MAX: usize = 1 << 20;

type Peers = BTreeMap<ServerId, Arc<Peer>>;

/// The other nodes, and the source that lists them.
pub struct Members {
    own: ServerId,
    credentials: Arc<Credentials>,
    peers: RwLock<Arc<Peers>>,
    servers: RwLock<Arc<Vec<Server>>>,
    changes: watch::Sender<()>,
    /// State shared with the task that follows etcd.
    shared: Option<Arc<Shared>>,
}

impl Members {
    /// Prepares connections to the nodes of a configuration.
    ///
    /// # Errors
    /// Returns an error if a certificate cannot be read or a name is malformed.
    pub fn new(config: &ClusterConfig) -> Result<Self, Invalid> {
        let members = Members {
            own: config.own,
            credentials: Arc::new(Credentials::new(&config.security)?),
            peers: RwLock::default(),
            servers: RwLock::default(),
            changes: watch::channel(()).0,
            shared: config.etcd.is_some().then(Arc::default),
        };
        members.set(&config.servers)?;
        Ok(members)
    }

    /// Returns the other nodes.
    pub fn peers(&self) -> Arc<Peers> {
        let peers = self.peers.read();
        peers.unwrap_or_else(|poison| poison.into_inner()).clone()
    }

    /// Returns another node by its number.
    pub fn peer(&self, server: ServerId) -> Option<Arc<Peer>> {
        self.peers().get(&server).cloned()
    }

    /// Returns a receiver that is notified of changes of the nodes.
    pub fn subscribe(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    fn servers(&self) -> Arc<Vec<Server>> {
        let servers = self.servers.read();
        servers.unwrap_or_else(|poison| poison.into_inner()).clone()
    }

    /// Replaces the list of nodes. Connections to nodes that stay are kept.
    fn set(&self, servers: &[Server]) -> Result<(), Invalid> {
        let (before, known) = (self.peers(), self.servers());
        let mut peers = Peers::new();
        for server in servers.iter().filter(|server| server.id != self.own) {
            let place = |one: &Server| (one.id, one.address, one.name.clone());
            let is_known = known.iter().any(|one| place(one) == place(server));
            let peer = match before.get(&server.id).filter(|_| is_known) {
                Some(peer) => peer.clone(),
                None => Arc::new(Peer::new(server, self.credentials.clone())?),
            };
            peers.insert(server.id, peer);
        }
        *self
            .servers
            .write()
            .unwrap_or_else(|poison| poison.into_inner()) = Arc::new(servers.to_vec());
        *self
            .peers
            .write()
            .unwrap_or_else(|poison| poison.into_inner()) = Arc::new(peers);
        self.changes.send_replace(());
        Ok(())
    }
}

impl Cluster {
    /// Returns the certificates for connections with other nodes.
    pub fn credentials(&self) -> &Credentials {
        &self.members.credentials
    }

    /// Returns the state shared with the task that follows etcd, if etcd lists the nodes.
    pub fn membership(&self) -> Option<&Arc<Shared>> {
        self.members.shared.as_ref()
    }

    /// Adds the identity of this node's map to a request for another node.
    pub(super) fn mark(&self, headers: &mut HeaderMap) {
        let id = self.view().id();
        let text = id.map(|id| format!("{} {:x}", id.version, id.fingerprint));
        match text.and_then(|text| HeaderValue::from_str(&text).ok()) {
            Some(value) => drop(headers.insert(MAP, value)),
            None => drop(headers.remove(MAP)),
        }
    }

    /// Removes the map's identity from another node's request, and compares it with this node's
    /// map. If it is newer, the map is read from etcd.
    pub fn note_map(&self, headers: &mut HeaderMap) {
        let value = headers.remove(MAP);
        let Some(theirs) = value.as_ref().and_then(map_id) else {
            return;
        };
        let own = self.view().id();
        if own.is_none_or(|own| theirs > own) {
            self.counts.newer_maps.fetch_add(1, Relaxed);
            if let Some(shared) = self.membership() {
                shared.note_newer(theirs.version);
            }
        } else if own != Some(theirs) {
            self.counts.older_maps.fetch_add(1, Relaxed);
        }
    }

    /// Returns this node's counts for each bucket, encoded for another node.
    pub fn own_loads(&self) -> String {
        loads::encode(&self.loads.counts())
    }

    /// Returns the members and the map for operators.
    pub(super) fn membership_facts(&self) -> MembershipFacts {
        let view = self.view();
        let status = self.membership().map(|shared| shared.status());
        let state = |server: &Server| {
            let is_up = view.base().is_some_and(|base| base.is_up(server.id));
            let is_registered = status
                .as_ref()
                .is_none_or(|status| status.registered.contains(&server.id));
            let mut text = format!("{}, weight {}", server.address, server.weight);
            let parts = [
                (server.id == self.config.own, ", this node"),
                (!is_up, ", down in the map"),
                (!is_registered, ", not registered"),
                (view.down().contains(&server.id), ", does not answer"),
            ];
            for (_, part) in parts.iter().filter(|(is_so, _)| *is_so) {
                text.push_str(part);
            }
            if let Some(peer) = self.members.peer(server.id) {
                text.push_str(&format!(", {} requests to it", peer.sent()));
            }
            (server.id, text)
        };
        MembershipFacts {
            source: match &status {
                None => "the cluster file".into(),
                Some(status) => format!("etcd at {}", status.endpoint),
            },
            map_version: view.id().map_or(0, |id| id.version),
            nodes: self.members.servers().iter().map(state).collect(),
            etcd: status.map(|status| EtcdFacts {
                is_connected: status.is_connected,
                contact: status.contact.map(|contact| contact.elapsed()),
                failure: status.failure,
                coordinator: status.coordinator,
                registered: status.registered.len(),
                failures: status.failures,
                refused: status.refused,
                stored: status.stored,
                rebalanced: status.rebalanced,
            }),
        }
    }
}

fn map_id(value: &HeaderValue) -> Option<MapId> {
    let (version, fingerprint) = value.to_str().ok()?.split_once(' ')?;
    Some(MapId {
        version: version.parse().ok()?,
        fingerprint: u64::from_str_radix(fingerprint, 16).ok()?,
    })
}

impl Host for Cluster {
    fn install(&self, record: &Arc<Record>) {
        if let Err(error) = self.members.set(&record.servers) {
            // This does not happen, because the names were checked when the map was read.
            log::warn!("the nodes of the map are not used: {error}");
            return;
        }
        let own = self.config.own;
        let mut liveness = self.liveness();
        let others = record.map.members().iter().filter(|one| one.id != own);
        liveness.set_nodes(others.map(|one| (one.id, one.is_up)));
        // The lock of the liveness is held, as for every change of the view.
        let loads: Arc<[BucketWrites]> = Arc::from(record.loads.as_slice());
        let view = self.view().with_map(record.map.clone(), loads);
        self.set_view(view.with_down(&liveness.down()));
        drop(liveness);
        self.loads.halve();
        let peers = self.members.peers();
        self.missed().retain(|server| peers.contains_key(&server));
    }

    async fn loads(&self) -> Counted {
        let mut writes = self.loads.counts();
        let mut is_complete = true;
        let mut calls = JoinSet::new();
        for (_, peer) in self.members.peers().iter() {
            let call = Call {
                method: Method::GET,
                path: "/v1/loads",
                headers: HeaderMap::new(),
                body: vec![],
            };
            let peer = peer.clone();
            calls.spawn(async move { peer.call(call, LOADS_BYTES_MAX, LOADS_TIME).await });
        }
        while let Some(reply) = calls.join_next().await {
            let is_added = matches!(reply, Ok(Ok(reply)) if loads::add(&mut writes, &reply.body));
            is_complete &= is_added;
        }
        Counted {
            writes,
            is_complete,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identity_of_a_map_is_read() {
        let read = |text| map_id(&HeaderValue::from_static(text));
        let id = MapId {
            version: 12,
            fingerprint: 255,
        };
        assert_eq!(read("12 ff"), Some(id));
        for text in ["", "12", "12 ", "x ff", "12 fg", "12 ff 1", "-1 ff"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
