//! Links to the other nodes of a cluster, over which messages of PUBLISH reach their subscribers.
//!
//! One thread keeps a connection to each node of the topology, authenticated and encrypted as that
//! of a replica to its primary. A link sends
//!
//! ```text
//! REPLCONF CLUSTER-PEER from to           at the beginning and each second; the reply is +OK
//! REPLCONF CLUSTER-MESSAGE channel text   for each message; there is no reply
//! ```
//!
//! The other node refuses the first one unless it has the name `to` and knows `from`, so that an
//! address that leads elsewhere is noticed. It delivers messages to its own clients only. Keyspace
//! notifications are not sent, as in Redis: the clients of a node subscribe to events of its keys.

mod link;

use crate::cluster;
use crate::state::Server;
use ::cluster::{Name, Topology};
use link::Peer;
use membership::records::address;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

/// Time between two checks whether the topology has changed.
const STEP: Duration = Duration::from_millis(100);
/// Time between two lines in the log about messages that a link drops.
const LOG_PERIOD: Duration = Duration::from_secs(10);

/// A task that keeps a link.
struct Kept {
    peer: Peer,
    wake: Arc<Notify>,
    task: JoinHandle<()>,
}

/// Keeps the links until the server stops.
///
/// # Errors
/// The runtime cannot be created.
pub fn run(server: &Arc<Server>) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| format!("the links' runtime: {error}"))?;
    runtime.block_on(keep_all(server));
    Ok(())
}

async fn keep_all(server: &Arc<Server>) {
    let outbox = &server.cluster.outbox;
    let (mut kept, mut serial) = (BTreeMap::new(), None);
    let (mut reported, mut reports_at) = (0, Instant::now());
    while !server.lifecycle.stops() {
        let current = server.cluster.serial();
        if serial != Some(current) {
            serial = Some(current);
            if let Some(topology) = server.cluster.current() {
                adapt(server, &mut kept, &topology);
            }
        }
        let dropped = outbox.dropped.load(Relaxed);
        if dropped != reported && Instant::now() >= reports_at {
            (reported, reports_at) = (dropped, Instant::now() + LOG_PERIOD);
            for (id, count) in outbox.take_dropped() {
                link::log_dropped(id, count);
            }
        }
        tokio::select! {
            () = outbox.has_news() => kept.values().for_each(|one: &Kept| one.wake.notify_one()),
            () = sleep(STEP) => {}
        }
    }
}

/// Begins links to the nodes of a topology, and ends those to others or to former addresses.
fn adapt(server: &Arc<Server>, kept: &mut BTreeMap<Name, Kept>, topology: &Topology) {
    let wanted = peers(topology, cluster::id(server));
    kept.retain(|id, one| {
        let stays = wanted.get(id) == Some(&one.peer);
        if !stays {
            one.task.abort();
        }
        stays
    });
    server
        .cluster
        .outbox
        .wanted
        .store(wanted.len() as u64, Relaxed);
    for (id, peer) in wanted {
        kept.entry(id).or_insert_with(|| {
            let wake = Arc::new(Notify::new());
            let task = link::keep(Arc::clone(server), peer.clone(), Arc::clone(&wake));
            let task = tokio::spawn(task);
            Kept { peer, wake, task }
        });
    }
}

/// Returns the nodes to which this one is linked: the others whose addresses are known.
fn peers(topology: &Topology, me: Name) -> BTreeMap<Name, Peer> {
    let others = topology.nodes().iter().filter(|node| node.id != me);
    let peers = others.filter_map(|node| {
        let (host, port) = address(&node.inside)?;
        let id = node.id;
        Some((id, Peer { id, host, port }))
    });
    peers.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::sample::{name, node, shard};

    #[test]
    fn nodes_with_an_address_are_linked() {
        let with = |digit, inside: &str| ::cluster::Node {
            inside: inside.to_owned(),
            ..node(digit, 7000, 0)
        };
        let nodes = vec![
            with("1", "h:1"),
            with("2", "h:2"),
            with("3", ""),
            with("4", "[::1]:4"),
        ];
        let topology = Topology::new(1, vec![shard("d", &["1", "2"])], nodes, &[]).expect("valid");
        let found = peers(&topology, name("1"));
        let found: Vec<_> = found
            .values()
            .map(|peer| (&*peer.host, peer.port))
            .collect();
        assert_eq!(found, [("h", 2), ("::1", 4)]);
    }
}
