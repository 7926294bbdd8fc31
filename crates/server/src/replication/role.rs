//! The change between primary and replica.

use super::primary;
use crate::state::Server;
use crate::{blocking, effects};
use durability::replication::{EARLIEST, PrimaryState, Replication, State};
use settings::{Config, Id, Value};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// Makes the server follow a primary. Its keys stay until the primary's snapshot has arrived. The
/// caller must not hold a shard.
pub fn follow(server: &Server, host: &str, port: u16) {
    follow_when(server, host, port, |_| true);
}

/// Like [`follow`], if `may` returns true when all shards are locked and the feed is complete.
pub(super) fn follow_when(
    server: &Server,
    host: &str,
    port: u16,
    may: impl FnOnce(&mut State) -> bool,
) {
    let replication = &server.replication;
    let applying = replication.lock_role();
    {
        let mut view = server.data.keyspace.lock_all(server.clock.now());
        let is_on = server.feed.is_on();
        if is_on {
            effects::add_all_removals(&server.data.keyspace, &server.feed, &mut view);
        }
        let mut state = replication.state();
        if !may(&mut state) {
            return;
        }
        state.primary_number += 1;
        let now = Instant::now();
        state.primary = Some(PrimaryState {
            host: host.to_owned(),
            port,
            node_id: None,
            is_connected: false,
            is_syncing: false,
            has_synced: false,
            last_byte: now,
            down_since: now,
            refusal: None,
            number: state.primary_number,
        });
        let was_replica = replication.is_replica.swap(true, Relaxed);
        drop(state);
        if is_on {
            effects::set_feed(server, &mut view, false);
        }
        if !was_replica {
            blocking::unblock_all(server, &mut view);
        }
    }
    record(&server.config, format!("{host} {port}"));
    replication.is_connected.store(false, Relaxed);
    replication.count_good(&server.config);
    server.data.keyspace.set_removal_limit(Some(EARLIEST));
    server.apply_maxmemory();
    drop(applying);
    log::info!("following {host}:{port}");
    replication.bell.notify_all();
}

/// Sets `replicaof`, so that CONFIG REWRITE and a restart keep the role. That of a node of a
/// cluster follows from the cluster's records.
fn record(config: &Config, primary: String) {
    if config.is_routed() {
        return;
    }
    config.put(Id::ReplicaOf, &Value::Text(primary));
}

/// Makes the server a primary with its current keys, as the continuation of the history that it
/// followed. The caller must not hold a shard.
pub fn promote(server: &Server) {
    let promoted = promote_if(server, || Ok::<(), ()>(()));
    promoted.expect("nothing is checked");
}

/// Like [`promote`], if `check` succeeds. No command of the primary is executed meanwhile.
///
/// # Errors
/// The result of `check`.
pub fn promote_if<E>(server: &Server, check: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
    let replication = &server.replication;
    let applying = replication.lock_role();
    check()?;
    if !replication.is_replica() {
        return Ok(());
    }
    let mut view = server.data.keyspace.lock_all(server.clock.now());
    let mut state = replication.state();
    state.primary_number += 1;
    state.primary = None;
    replication.bell.notify_all();
    let new = primary::new_id();
    let old = std::mem::replace(&mut state.id, new);
    let has_removed = std::mem::take(&mut state.has_removed);
    state.earlier = (!has_removed).then(|| (old, server.feed.end()));
    state.no_replicas_since = Some(Instant::now());
    replication.is_replica.store(false, Relaxed);
    if has_removed {
        // What this server removed is still in its file and in its replicas, and no deletion will
        // come: they need a snapshot.
        server.feed.restart_at(server.feed.end());
    }
    server.feed.cut();
    effects::set_feed(server, &mut view, true);
    drop(state);
    if has_removed {
        server.persistence.aof.distrust();
    }
    replication.count_good(&server.config);
    drop(view);
    record(&server.config, String::new());
    server.data.keyspace.set_removal_limit(None);
    server.apply_maxmemory();
    drop(applying);
    log::info!("this server is a primary now");
    server.workers.wake_all();
    Ok(())
}

/// Gives up a replica's position in the history of its current primary, because its keys may
/// differ: it requests a snapshot at the next synchronization.
pub fn give_up_position(replication: &Replication, number: u64) {
    let mut state = replication.state();
    if state.primary_number == number {
        (state.id, state.earlier) = (primary::new_id(), None);
    }
}

/// Closes the connection to the primary, which is reopened and continues where it was. Returns
/// false if there is none.
pub fn reconnect(replication: &Replication) -> bool {
    let primary = replication.primary();
    let is_connected = primary.is_some_and(|primary| primary.is_connected);
    if is_connected {
        replication.must_reconnect.store(true, Relaxed);
    }
    is_connected
}

/// Makes a replica request a snapshot, because its keys differ from those of its primary.
pub fn resynchronize(replication: &Replication) {
    let mut state = replication.state();
    state.primary_number += 1;
    let number = state.primary_number;
    let Some(primary) = &mut state.primary else {
        return;
    };
    primary.number = number;
    (state.id, state.earlier) = (primary::new_id(), None);
    drop(state);
    log::warn!(
        "a long command has ended after the change to a replica: a snapshot replaces its keys"
    );
    replication.bell.notify_all();
}
