//! The change between primary and replica.

use super::{PrimaryState, primary};
use crate::command::effects;
use crate::state::Server;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// Makes the server follow a primary. Its keys stay until the primary's snapshot has arrived. The
/// caller holds no shard.
pub fn follow(server: &Server, host: &str, port: u16) {
    let replication = &server.replication;
    let applying = replication
        .applying
        .lock()
        .expect("the lock is not poisoned");
    {
        let mut view = server.keyspace.lock_all(server.clock.now());
        if server.feed.is_on() {
            effects::set_feed(server, &mut view, false);
        }
        let mut state = replication.state();
        state.primary_number += 1;
        let now = Instant::now();
        state.primary = Some(PrimaryState {
            host: host.to_owned(),
            port,
            is_connected: false,
            is_syncing: false,
            has_synced: false,
            last_byte: now,
            down_since: now,
            number: state.primary_number,
        });
        replication.is_replica.store(true, Relaxed);
    }
    server.keyspace.set_frozen(true);
    server.keyspace.set_maxmemory(0);
    drop(applying);
    log::info!("following {host}:{port}");
    replication.bell.notify_all();
}

/// Makes the server a primary with its present keys, as the continuation of the history that it
/// followed. The caller holds no shard.
pub fn promote(server: &Server) {
    let replication = &server.replication;
    let applying = replication
        .applying
        .lock()
        .expect("the lock is not poisoned");
    if !replication.is_replica() {
        return;
    }
    let mut view = server.keyspace.lock_all(server.clock.now());
    let mut state = replication.state();
    state.primary_number += 1;
    state.primary = None;
    replication.bell.notify_all();
    let new = primary::new_id();
    let old = std::mem::replace(&mut state.id, new);
    state.earlier = Some((old, server.feed.end()));
    state.no_replicas_since = Some(Instant::now());
    replication.is_replica.store(false, Relaxed);
    server.feed.cut();
    effects::set_feed(server, &mut view, true);
    drop(state);
    drop(view);
    server.keyspace.set_frozen(false);
    server
        .keyspace
        .set_maxmemory(server.config.maxmemory_bytes());
    drop(applying);
    log::info!("this server is a primary now");
    server.wake_all();
}
