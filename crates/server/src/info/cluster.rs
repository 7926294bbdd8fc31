//! Rows of INFO's section about the cluster.

use super::report::Report;
use super::row::Export::No;
use super::row::Exporter::{Lacks, Same};
use super::row::Reason::{Repeats, Text};
use super::row::Value::{self, State};
use super::row::{Row, counter, gauge, row};
use crate::cluster::is_ok;
use crate::routing::{self, Routing};
use ::cluster::{Name, Role, Topology};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

#[rustfmt::skip]
pub(super) const CLUSTER: &[Row] = &[
    row("cluster_enabled", |info| info.server.config.is_cluster().into(), No(Repeats)),
    // The next rows are those of a node of a cluster of several.
    row("cluster_state", state, gauge("cluster_state", "Whether all slots have an owner and the node serves those of its own.", Same)),
    row("cluster_slots_assigned", |info| of_topology(info, |topology, _| topology.assigned()), gauge("cluster_slots_assigned", "Number of slots that have an owner.", Same)),
    row("cluster_slots_owned", |info| of_topology(info, owned), gauge("cluster_slots_owned", "Number of slots of the node's shard.", Lacks)),
    row("cluster_slots_served", served, gauge("cluster_slots_served", "Number of slots that the node serves as their primary.", Lacks)),
    row("cluster_known_nodes", |info| of_topology(info, |topology, _| topology.nodes().len()), gauge("cluster_known_nodes", "Number of nodes of the cluster.", Same)),
    row("cluster_size", |info| of_topology(info, |topology, _| topology.size()), gauge("cluster_size", "Number of shards with slots.", Same)),
    row("cluster_my_epoch", |info| of_topology(info, epoch), gauge("cluster_my_epoch", "Number of the term of the node's shard.", Same)),
    row("etcd_connected", |info| of_node(info, |cluster| cluster.seat.is_connected.load(Relaxed)), gauge("cluster_etcd_connected", "Whether the node follows the cluster's records in etcd.", Lacks)),
    row("etcd_age_ms", etcd_age, gauge("cluster_etcd_age_seconds", "Time since etcd has sent anything; the beats of all primaries are among what it sends.", Lacks).times(1e-3)),
    row("etcd_errors", |info| of_node(info, |cluster| cluster.seat.etcd_errors.load(Relaxed)), counter("cluster_etcd_errors", "Number of requests to etcd that have failed.", Lacks)),
    row("refused_records", |info| of_node(info, |cluster| cluster.seat.refused_records.load(Relaxed)), counter("cluster_refused_records", "Number of records in etcd that could not be used.", Lacks)),
    row("lost_writes", |info| of_node(info, |cluster| cluster.seat.lost_writes.load(Relaxed)), counter("cluster_lost_writes", "Number of commands of this node, when it was primary, that its successor does not have.", Lacks)),
    row("fence_left_ms", fence_left, gauge("cluster_fence_left_seconds", "Time for which the node may serve as primary if nothing extends it; 0 on replicas.", Lacks).times(1e-3)),
    row("strength", |info| of_node(info, |cluster| cluster.seat.strength().word()), No(Text)),
    row("failover_loss_bytes", |info| loss(info).map(|loss| loss.0).into(), gauge("cluster_failover_loss_bytes", "Bytes of the feed that a failover would lose now at most, because an in-sync replica has not acknowledged them; absent if no replica may be promoted.", Lacks)),
    row("failover_loss_ms", |info| loss(info).map(|loss| loss.1).into(), gauge("cluster_failover_loss_seconds", "Time of the writes that a failover would lose now at most; absent if no replica may be promoted.", Lacks).times(1e-3)),
    row("unconfirmed_replies", |info| of_node(info, |cluster| cluster.seat.unconfirmed.load(Relaxed)), counter("cluster_unconfirmed_replies", "Number of connections that got an error in place of replies, because not all replicas that may be promoted have confirmed their writes.", Lacks)),
    row("slots_leaving", |info| of_node(info, |cluster| cluster.moves.leaving().len()), gauge("cluster_moves_leaving", "Number of moves of slots from this node that are under way.", Lacks)),
    row("slots_arriving", |info| of_node(info, |cluster| cluster.moves.arriving_count.load(Relaxed)), gauge("cluster_moves_arriving", "Number of moves of slots to this node that are under way.", Lacks)),
    row("slots_left_keys", |info| of_node(info, |cluster| cluster.moves.left_keys()), gauge("cluster_move_left_keys", "Number of keys of leaving slots that are known to have changed since they were sent.", Lacks)),
    row("slots_rate_bytes", |info| of_node(info, |cluster| cluster.moves.rate_bytes()), gauge("cluster_move_rate_bytes", "Number of bytes that moves of slots from this node send per second, on average since they began.", Lacks)),
    row("slots_sent_bytes", |info| of_node(info, |cluster| cluster.moves.sent_bytes.load(Relaxed)), counter("cluster_move_sent_bytes", "Number of bytes that moves of slots from this node have sent.", Lacks)),
    row("slots_received_keys", |info| of_node(info, |cluster| cluster.moves.received_keys.load(Relaxed)), counter("cluster_move_received_keys", "Number of keys that moves of slots to this node have sent, repeated ones included.", Lacks)),
    row("slots_swept_keys", |info| of_node(info, |cluster| cluster.moves.swept_keys.load(Relaxed)), counter("cluster_swept_keys", "Number of keys that were removed because another shard owns their slots.", Lacks)),
    row("slots_moves_committed", |info| of_node(info, |cluster| cluster.moves.committed.load(Relaxed)), counter("cluster_moves_committed", "Number of moves of slots from this node that gave the slots to their target.", Lacks)),
    row("slots_moves_voided", |info| of_node(info, |cluster| cluster.moves.voided.load(Relaxed)), counter("cluster_moves_voided", "Number of times that the slots of a move were held and not given to their target.", Lacks)),
    row("slots_hold_max_us", |info| of_node(info, |cluster| cluster.moves.hold_us_max.load(Relaxed)), gauge("cluster_move_hold_max_seconds", "Longest time for which commands waited because their slots were handed over.", Lacks).times(1e-6)),
    row("cluster_moved_replies", |info| of_node(info, |cluster| cluster.counts.moved.load(Relaxed)), counter("cluster_moved_replies", "Number of commands answered with MOVED, in a cluster of several servers.", Lacks)),
    row("cluster_crossslot_replies", |info| of_node(info, |cluster| cluster.counts.cross_slot.load(Relaxed)), counter("cluster_crossslot_replies", "Number of commands answered with CROSSSLOT, in a cluster of several servers.", Lacks)),
    row("cluster_tryagain_replies", |info| of_node(info, |cluster| cluster.counts.try_again.load(Relaxed)), counter("cluster_tryagain_replies", "Number of commands answered with TRYAGAIN, in a cluster of several servers.", Lacks)),
    row("cluster_down_replies", |info| of_node(info, |cluster| cluster.counts.down.load(Relaxed)), counter("cluster_down_replies", "Number of commands answered with CLUSTERDOWN, in a cluster of several servers.", Lacks)),
    row("cluster_withheld_replies", |info| of_node(info, |cluster| cluster.counts.late.load(Relaxed)), counter("cluster_withheld_replies", "Number of connections that were closed in place of a reply, because this primary may have been replaced before it executed the command.", Lacks)),
    row("cluster_links", |info| of_node(info, |cluster| cluster.outbox.link_count()), gauge("cluster_links", "Number of other nodes to which messages of PUBLISH are sent.", Lacks)),
    row("cluster_links_wanted", |info| of_node(info, |cluster| cluster.outbox.wanted.load(Relaxed)), gauge("cluster_links_wanted", "Number of other nodes whose addresses are known.", Lacks)),
    row("cluster_link_queue_bytes", |info| of_node(info, |cluster| cluster.outbox.waiting_bytes()), gauge("cluster_link_queue_bytes", "Bytes of the messages that wait for a link.", Lacks)),
    row("cluster_link_sent_messages", |info| of_node(info, |cluster| cluster.outbox.sent.load(Relaxed)), counter("cluster_link_sent_messages", "Number of messages sent to other nodes, once for each node.", Lacks)),
    row("cluster_link_received_messages", |info| of_node(info, |cluster| cluster.outbox.received.load(Relaxed)), counter("cluster_link_received_messages", "Number of messages received from other nodes.", Lacks)),
    row("cluster_link_dropped_messages", |info| of_node(info, |cluster| cluster.outbox.dropped.load(Relaxed)), counter("cluster_link_dropped_messages", "Number of messages that were not sent to a node, because its link was too slow or failed.", Lacks)),
];

fn loss(info: &Report<'_>) -> Option<(u64, u64)> {
    let server = info.server;
    let now = routing::now(&server.clock);
    server.cluster.seat.loss(server.feed.end(), now)
}

/// Returns a value of a node of a cluster of several, and none for other servers.
fn of_node<T: Into<Value>>(info: &Report<'_>, value: impl Fn(&Routing) -> T) -> Value {
    let cluster = &info.server.cluster;
    match cluster.is_routed() {
        true => value(cluster).into(),
        false => Value::Absent,
    }
}

/// Returns a number of the topology; 0 without one.
fn of_topology(info: &Report<'_>, value: impl Fn(&Topology, Name) -> usize) -> Value {
    of_node(info, |cluster| {
        let installed = cluster.routes().installed.clone();
        installed.map_or(0, |(topology, me)| value(&topology, me))
    })
}

fn state(info: &Report<'_>) -> Value {
    of_node(info, |cluster| {
        let installed = cluster.routes().installed.clone();
        let is_ok = |(topology, me): (Arc<Topology>, Name)| is_ok(info.server, &topology, me);
        match installed.is_some_and(is_ok) {
            true => State("ok", true),
            false => State("fail", false),
        }
    })
}

/// Returns the number of slots of a node's shard.
fn owned(topology: &Topology, me: Name) -> usize {
    let shard = topology.role(me).shard();
    shard.map_or(0, |shard| {
        topology.ranges(shard).map(|range| range.len()).sum()
    })
}

/// Returns the number of slots that this node serves as their primary.
fn served(info: &Report<'_>) -> Value {
    let is_fenced_in = routing::now(&info.server.clock) < info.server.cluster.fence();
    of_topology(info, |topology, me| match topology.role(me) {
        Role::Primary(_) if is_fenced_in => owned(topology, me),
        _ => 0,
    })
}

fn epoch(topology: &Topology, me: Name) -> usize {
    let shard = topology.role(me).shard();
    shard.map_or(0, |shard| topology.shards()[shard].epoch as usize)
}

/// Returns the time in milliseconds since etcd has sent anything; absent before the first time.
fn etcd_age(info: &Report<'_>) -> Value {
    let now = routing::now(&info.server.clock).0;
    of_node(info, |cluster| {
        match cluster.seat.read_at_ms.load(Relaxed) {
            0 => None,
            at => Some(now.saturating_sub(at)),
        }
    })
}

fn fence_left(info: &Report<'_>) -> Value {
    let now = routing::now(&info.server.clock).0;
    of_node(info, |cluster| cluster.fence().0.saturating_sub(now))
}
