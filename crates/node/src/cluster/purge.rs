//! Purges on the other nodes.
//!
//! A purge is sent to all nodes that are up, and its reply waits for their answers. It does not
//! wait for a node that is down or that goes down meanwhile: the purge is kept for that node, here
//! and on all nodes that have received the purge. Each of them sends it when the node answers
//! again, before any other request. A node that starts requests what it has missed from all others
//! before it accepts clients. So a purge is not lost if the node that a client has sent it to
//! stops. A node may receive the same purge several times, which changes nothing but what it has
//! fetched since.
//!
//! # Bounds
//! At most [`MISSED_MAX`] purges are kept for a node. If there are more, everything is purged
//! there.

use super::message::{self, MISSED, NODE};
use super::peer::Call;
use super::{Cluster, ServerId};
use crate::purge::{Purge, Target};
use hyper::header::{HeaderMap, HeaderValue};
use hyper::{Method, StatusCode};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Timeout of a purge for which a client waits. A longer one counts as missed.
const PURGE_TIME: Duration = Duration::from_secs(5);
/// Timeout of a missed purge, which may read the descriptions of millions of URLs on disk. A
/// connection that is dead ends before, by its pings.
const MISSED_TIME: Duration = Duration::from_secs(30 * 60);
/// Timeout of a request for missed purges. A node that starts accepts no clients meanwhile.
const START_TIME: Duration = Duration::from_secs(2);
/// Maximum size in bytes of a list of missed purges. Instead of a longer one, everything is purged.
const LIST_BYTES_MAX: usize = 1 << 20;
/// Maximum number of purges kept for a node that does not answer.
const MISSED_MAX: usize = 1_024;
/// Maximum number of missed purges by prefix or tag that a start carries out one by one, because
/// each may read all descriptions on disk. Instead of more, everything is purged.
const START_SCANS_MAX: usize = 32;
/// Purge that concerns all URLs.
const PURGE_ALL: &str = "hard prefix http";

/// Purges that nodes have missed.
#[derive(Debug, Default)]
pub(super) struct Missed {
    queues: BTreeMap<ServerId, Queue>,
    /// Number of the next purge.
    next: u64,
}

/// Purges for one node with their numbers, in the order in which they were received.
#[derive(Debug, Default)]
struct Queue {
    purges: VecDeque<(u64, HeaderValue)>,
    /// Number of the purge that was sent last. What the node fetches while it carries out that one
    /// may be what a later purge concerns.
    sent: Option<u64>,
}

impl Missed {
    fn push(&mut self, server: ServerId, purge: HeaderValue) {
        let queue = self.queues.entry(server).or_default();
        self.next += 1;
        if queue.purges.len() == MISSED_MAX {
            queue.purges.clear();
            let all = HeaderValue::from_static(PURGE_ALL);
            queue.purges.push_back((self.next, all));
            return;
        }
        let is_included = |(number, last): &(u64, HeaderValue)| {
            queue.sent != Some(*number) && (last == PURGE_ALL || *last == purge)
        };
        if !queue.purges.back().is_some_and(is_included) {
            queue.purges.push_back((self.next, purge));
        }
    }

    /// Returns the first purge for a node, which is sent now, and its number.
    fn first(&mut self, server: ServerId) -> Option<(u64, HeaderValue)> {
        let queue = self.queues.get_mut(&server)?;
        let first = queue.purges.front().cloned();
        queue.sent = first.as_ref().map(|(number, _)| *number);
        first
    }

    /// Whether a node has missed purges.
    pub fn has(&self, server: ServerId) -> bool {
        let queue = self.queues.get(&server);
        queue.is_some_and(|queue| !queue.purges.is_empty())
    }

    /// Returns all purges for a node, one a line.
    fn list(&self, server: ServerId) -> Vec<u8> {
        let purges = self.queues.get(&server).map(|queue| &queue.purges);
        let purges = purges.into_iter().flatten();
        let lines: Vec<&[u8]> = purges.map(|(_, purge)| purge.as_bytes()).collect();
        let list = lines.join(&b'\n');
        match list.len() {
            0..=LIST_BYTES_MAX => list,
            _ => PURGE_ALL.into(),
        }
    }

    /// Removes the first purge for a node, which it has carried out.
    fn remove(&mut self, server: ServerId, number: u64) {
        if let Some(Queue { purges, .. }) = self.queues.get_mut(&server) {
            // Meanwhile, all purges may have been replaced by one for everything.
            if purges.front().is_some_and(|(first, _)| *first == number) {
                purges.pop_front();
            }
        }
    }

    /// Drops the purges for nodes that no longer exist.
    pub fn retain(&mut self, is_there: impl Fn(ServerId) -> bool) {
        self.queues.retain(|server, _| is_there(*server));
    }

    /// Returns the number of purges.
    pub fn len(&self) -> usize {
        self.queues.values().map(|queue| queue.purges.len()).sum()
    }
}

impl Cluster {
    pub(super) fn missed(&self) -> MutexGuard<'_, Missed> {
        self.missed
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }

    /// Purges on all other nodes. Nodes that are down receive the purge when they answer again.
    pub async fn purge_others(self: &Arc<Self>, target: &Target, is_soft: bool) {
        let purge = Purge {
            target: target.clone(),
            is_soft,
        };
        let Ok(purge) = HeaderValue::from_bytes(purge.to_string().as_bytes()) else {
            return;
        };
        let view = self.view();
        let all: BTreeSet<ServerId> = self.members.peers().keys().copied().collect();
        let (down, up) = all.into_iter().partition(|id| view.down().contains(id));
        self.keep_purge(&purge, &down);
        let reached = self.send_to_all(&purge, &up, &down).await;
        let failed: BTreeSet<ServerId> = up.difference(&reached).copied().collect();
        if !failed.is_empty() {
            self.send_to_all(&purge, &reached, &failed).await;
        }
    }

    /// Keeps a purge for nodes that have missed it.
    fn keep_purge(&self, purge: &HeaderValue, servers: &BTreeSet<ServerId>) {
        let mut missed = self.missed();
        for server in servers {
            missed.push(*server, purge.clone());
        }
    }

    /// Keeps another node's purge for the nodes that have missed it, according to its fields.
    pub fn keep_missed(&self, headers: &HeaderMap) {
        let (Some(purge), Some(servers)) = (headers.get(message::PURGE), headers.get(MISSED))
        else {
            return;
        };
        let peers = self.members.peers();
        let servers = servers.to_str().unwrap_or_default().split(' ');
        let servers = servers.filter_map(|text| text.parse().ok().map(ServerId));
        let servers = servers.filter(|id| peers.contains_key(id)).collect();
        self.keep_purge(purge, &servers);
    }

    /// Sends a purge to nodes, and returns those that have carried it out. Nodes that go down are
    /// not awaited, and the purge is kept for those that have not carried it out. The nodes in
    /// `missed` are those for which the receivers keep the purge.
    async fn send_to_all(
        self: &Arc<Self>,
        purge: &HeaderValue,
        servers: &BTreeSet<ServerId>,
        missed: &BTreeSet<ServerId>,
    ) -> BTreeSet<ServerId> {
        let mut calls = JoinSet::new();
        for &server in servers {
            let (cluster, purge, missed) = (self.clone(), purge.clone(), missed.clone());
            calls.spawn(async move {
                let mut changes = cluster.view.subscribe();
                let is_down = changes.wait_for(|view| view.down().contains(&server));
                let sending = cluster.send_purge(server, purge.clone(), &missed, PURGE_TIME);
                let status = tokio::select! {
                    status = sending => status,
                    _ = is_down => None,
                };
                if status == Some(StatusCode::OK) {
                    return Some(server);
                }
                cluster.keep_purge(&purge, &[server].into());
                None
            });
        }
        let mut reached = BTreeSet::new();
        while let Some(server) = calls.join_next().await {
            reached.extend(server.ok().flatten());
        }
        reached
    }

    /// Sends a purge to a node. Returns the status of its reply.
    async fn send_purge(
        &self,
        server: ServerId,
        purge: HeaderValue,
        missed: &BTreeSet<ServerId>,
        time: Duration,
    ) -> Option<StatusCode> {
        let mut headers = HeaderMap::new();
        headers.insert(message::PURGE, purge);
        if !missed.is_empty() {
            let ids: Vec<String> = missed.iter().map(|id| id.0.to_string()).collect();
            if let Ok(ids) = HeaderValue::from_str(&ids.join(" ")) {
                headers.insert(MISSED, ids);
            }
        }
        let call = Call {
            method: Method::POST,
            path: "/v1/purge",
            headers,
            body: vec![],
        };
        let reply = self.call(server, call, 1 << 10, time).await;
        reply.ok().map(|reply| reply.status)
    }

    /// Returns the purges that a node has missed, which its request names. They stay here until a
    /// probe of the node has sent them.
    pub fn missed_by(&self, headers: &HeaderMap) -> Vec<u8> {
        let server = headers.get(NODE).and_then(|value| value.to_str().ok());
        let server = server.and_then(|text| text.parse().ok());
        server.map_or(vec![], |id| self.missed().list(ServerId(id)))
    }

    /// Carries out the purges that this node has missed before it started, and then sends true.
    pub async fn catch_up(self: Arc<Self>, caught_up: watch::Sender<bool>) {
        self.purge_missed().await;
        caught_up.send_replace(true);
    }

    /// Carries out the purges that this node has missed. Returns when all nodes have answered,
    /// failed, or taken too long.
    async fn purge_missed(self: &Arc<Self>) {
        let mut headers = HeaderMap::new();
        headers.insert(NODE, self.config.own.0.into());
        let mut calls = JoinSet::new();
        for &server in self.members.peers().keys() {
            let (cluster, headers) = (self.clone(), headers.clone());
            calls.spawn(async move {
                let call = Call {
                    method: Method::GET,
                    path: "/v1/missed",
                    headers,
                    body: vec![],
                };
                cluster.call(server, call, LIST_BYTES_MAX, START_TIME).await
            });
        }
        let mut purges: BTreeSet<String> = BTreeSet::new();
        while let Some(reply) = calls.join_next().await {
            let Ok(Ok(reply)) = reply else { continue };
            if reply.status == StatusCode::OK {
                let list = String::from_utf8_lossy(&reply.body).into_owned();
                purges.extend(list.lines().map(str::to_owned));
            }
        }
        if purges.is_empty() {
            return;
        }
        log::info!("{} purges were missed before the start", purges.len());
        let is_scan = |text: &&String| !text.contains(" url ");
        if purges.iter().filter(is_scan).count() > START_SCANS_MAX {
            purges = [PURGE_ALL.to_owned()].into();
        }
        let store = self.store.clone();
        let purged = tokio::task::spawn_blocking(move || {
            for purge in purges.iter().filter_map(|text| Purge::parse(text)) {
                store.purge(&purge.target, purge.is_soft);
            }
            store.sync_removals();
        });
        if purged.await.is_err() {
            log::error!("the purges that were missed before the start have failed");
        }
    }

    /// Sends the next purge that a node has missed. Returns false if there is none or the node has
    /// not carried it out.
    pub(super) async fn send_missed(&self, server: ServerId) -> bool {
        let Some((number, purge)) = ({ self.missed().first(server) }) else {
            return false;
        };
        let is_all = purge == PURGE_ALL;
        let missed = BTreeSet::new();
        let status = self.send_purge(server, purge, &missed, MISSED_TIME).await;
        match status {
            Some(StatusCode::OK) => self.missed().remove(server, number),
            Some(StatusCode::BAD_REQUEST) if !is_all => {
                // It is of another version.
                log::error!("{server} cannot read a purge: everything is purged there");
                let mut missed = self.missed();
                missed.remove(server, number);
                missed.push(server, HeaderValue::from_static(PURGE_ALL));
            }
            _ => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::peer::PeerFailure;
    use crate::config::{ClusterConfig, Config, Security, Server};
    use crate::proxy::Node;
    use std::net::TcpListener;
    use tokio::time::{Instant, sleep};

    fn purge(number: usize) -> HeaderValue {
        let text = format!("hard tag {number:x}");
        HeaderValue::from_str(&text).expect("the input is valid")
    }

    #[test]
    fn a_node_that_has_missed_too_many_purges_loses_everything() {
        let mut missed = Missed::default();
        let (one, other) = (ServerId(1), ServerId(2));
        (0..MISSED_MAX).for_each(|number| missed.push(one, purge(number)));
        missed.push(other, purge(7));
        assert_eq!(missed.len(), MISSED_MAX + 1);
        let (number, first) = missed.first(one).expect("there are some");
        assert_eq!(first, purge(0));
        (0..3).for_each(|number| missed.push(one, purge(number)));
        // The first one was being sent, and everything has replaced it meanwhile.
        missed.remove(one, number);
        let all = HeaderValue::from_static(PURGE_ALL);
        let (number, first) = missed.first(one).expect("it was not sent");
        assert_eq!(first, all);
        missed.remove(one, number);
        assert_eq!(missed.first(one), None);
        assert_eq!(missed.first(other).map(|(_, first)| first), Some(purge(7)));
    }

    /// Regression: a purge that arrived while the same one, or one of everything, was being sent
    /// was dropped, although the node may have fetched the old content again meanwhile.
    #[test]
    fn a_purge_is_not_included_in_one_that_is_being_sent() {
        let all = HeaderValue::from_static(PURGE_ALL);
        let one = ServerId(1);
        for first in [all, purge(0)] {
            let mut missed = Missed::default();
            missed.push(one, first.clone());
            missed.push(one, first.clone());
            assert_eq!(missed.len(), 1);
            let (number, _) = missed.first(one).expect("it was pushed");
            missed.push(one, purge(0));
            missed.push(one, purge(0));
            missed.remove(one, number);
            assert_eq!(missed.first(one).map(|(_, next)| next), Some(purge(0)));
            assert_eq!(missed.len(), 1);
        }
    }

    /// Returns the first of two nodes. The second one accepts connections and does not answer.
    fn cluster(silent: &TcpListener) -> Arc<Cluster> {
        let own = "127.0.0.1:1".parse().expect("the text is valid");
        let other = silent.local_addr().expect("loopback works");
        let server = |id, address| Server {
            id: ServerId(id),
            address,
            weight: 1,
            name: None,
        };
        let cluster = ClusterConfig {
            own: ServerId(0),
            servers: vec![server(0, own), server(1, other)],
            etcd: None,
            data: 1,
            parity: 1,
            buckets: 8,
            coded_bytes_min: 128 << 10,
            repair_bytes_per_second: 0,
            listen: None,
            security: Security::Plain,
        };
        let config = Config {
            listen: vec!["127.0.0.1:0".parse().expect("the text is valid")],
            origins: vec!["http://127.0.0.1:1".parse().expect("the text is valid")],
            cluster: Some(cluster),
            ..Config::default()
        };
        let node = Node::new(config).expect("the settings are valid");
        node.cluster().expect("there is a cluster").clone()
    }

    fn silent() -> TcpListener {
        TcpListener::bind("127.0.0.1:0").expect("loopback works")
    }

    fn fail(cluster: &Cluster) {
        for _ in 0..3 {
            cluster.note(ServerId(1), Some(PeerFailure::Timeout));
        }
    }

    /// Regression: each purge waited 4 seconds for a node that had stopped.
    #[tokio::test(start_paused = true)]
    async fn purges_do_not_wait_for_a_node_that_is_down() {
        let silent = silent();
        let cluster = cluster(&silent);
        fail(&cluster);
        let began = Instant::now();
        for number in 0..20 {
            cluster.purge_others(&Target::Tag(number), false).await;
        }
        assert_eq!(began.elapsed(), Duration::ZERO);
        assert_eq!(cluster.missed().len(), 20);
        let first = cluster.missed().first(ServerId(1));
        assert_eq!(first.map(|(_, first)| first), Some(purge(0)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_purge_ends_when_the_last_node_that_it_waits_for_goes_down() {
        let silent = silent();
        let cluster = cluster(&silent);
        let began = Instant::now();
        let purging = tokio::spawn({
            let cluster = cluster.clone();
            async move { cluster.purge_others(&Target::Tag(7), false).await }
        });
        let wait = Duration::from_millis(10);
        sleep(wait).await;
        assert!(!purging.is_finished());
        fail(&cluster);
        purging.await.expect("the task does not panic");
        assert_eq!(began.elapsed(), wait);
        let first = cluster.missed().first(ServerId(1));
        assert_eq!(first.map(|(_, first)| first), Some(purge(7)));
    }
}
