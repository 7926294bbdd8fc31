//! FAILOVER: this server and one of its replicas exchange their roles, without losing a write.
//!
//! ```text
//! waits      writes are held until a replica has acknowledged the whole feed
//! proceeds   this server follows the replica: PSYNC … FAILOVER, which promotes it
//! ```
//!
//! Once the replica has taken over, writes are released, and refused like those on any replica. It
//! has taken over if it continues the history, or if it replies with a snapshot, as with FORCE when
//! it lacks writes. If it refuses, or cannot be reached, this server becomes a primary again.
//!
//! The time of FAILOVER bounds both, up to the request to take over: a replica that accepts the
//! connection and does not answer, because its process is stopped, is not waited for.
//!
//! If the connection fails after the request was sent, it is unknown whether the replica has taken
//! over. This server then stays a replica and asks again, so that there are never two primaries.

use super::role;
use crate::effects;
use crate::state::{Data, Server};
use durability::replication::{Failover, Phase, ReplicaState, Replication};
use std::time::{Duration, Instant};

/// Reply of a primary to the request to take over, the same as in Redis.
pub const IS_PRIMARY: &str = "ERR PSYNC FAILOVER can't be sent to a master.";

/// Begins a change of roles. The caller holds no shard.
///
/// # Errors
/// A failover is currently not possible. The message is a reply.
pub fn begin(
    server: &Server,
    target: Option<(String, u16)>,
    timeout: Option<Duration>,
    is_forced: bool,
) -> Result<(), &'static str> {
    let number = {
        let mut state = server.replication.state();
        if state.primary.is_some() {
            return Err("ERR FAILOVER is not valid when server is a replica.");
        }
        if state.failover.is_some() {
            return Err("ERR FAILOVER already in progress.");
        }
        if state.replicas.is_empty() {
            return Err("ERR FAILOVER requires connected replicas.");
        }
        if let Some(target) = &target
            && !state
                .replicas
                .values()
                .any(|replica| is_at(replica, target))
        {
            return Err("ERR FAILOVER target HOST and PORT is not a replica.");
        }
        state.failover_number += 1;
        let number = state.failover_number;
        state.failover = Some(Failover {
            target,
            deadline: timeout.map(|timeout| Instant::now() + timeout),
            is_forced,
            number,
            is_held: false,
            is_proceeding: false,
            is_requested: false,
        });
        server.data.hold_for_failover(true);
        number
    };
    {
        // A write that was checked before the hold has added its effect when its shards are
        // released.
        let mut view = server.data.keyspace.lock_all(server.clock.now());
        if server.feed.is_on() {
            effects::add_all_removals(&server.data.keyspace, &server.feed, &mut view);
        }
        let mut state = server.replication.state();
        if let Some(failover) = state.failover.as_mut().filter(|f| f.number == number) {
            failover.is_held = true;
        }
    }
    log::info!("failover: writes are held until a replica is up to date");
    super::primary::request_acknowledgements(server);
    Ok(())
}

fn is_at(replica: &ReplicaState, (host, port): &(String, u16)) -> bool {
    replica.address == *host && replica.port == *port
}

/// Ends a change of roles on request. The caller holds no shard.
///
/// # Errors
/// There is none. The message is a reply.
pub fn abort(server: &Server) -> Result<(), &'static str> {
    end(server, "it was aborted").ok_or("ERR No failover in progress.")
}

/// Ends a change of roles without success. Returns `None` if there is none.
fn end(server: &Server, why: &str) -> Option<()> {
    end_if(server, why, |_| true)
}

/// Like [`end`], if `may` returns true. The state does not change in between.
fn end_if(server: &Server, why: &str, may: impl Fn(&Failover) -> bool) -> Option<()> {
    let failover = server
        .replication
        .state()
        .failover
        .take_if(|failover| may(failover))?;
    if failover.is_proceeding {
        role::promote(server);
    }
    release(&server.data, &server.replication);
    log::warn!("failover: {why}; this server stays the primary");
    server.workers.wake_all();
    Some(())
}

/// Releases the writes, unless another change of roles has begun meanwhile.
fn release(data: &Data, replication: &Replication) {
    let state = replication.state();
    if state.failover.is_none() {
        data.hold_for_failover(false);
    }
}

/// Continues a change of roles: called every 100 ms. The caller holds no shard.
pub fn check(server: &Server) {
    let Some(failover) = server.replication.failover() else {
        return;
    };
    if failover.is_proceeding {
        // Once it was requested, it may have taken over.
        let now = Instant::now();
        let is_late = |failover: &Failover| {
            let is_over = failover.deadline.is_some_and(|deadline| deadline <= now);
            failover.is_proceeding && !failover.is_requested && !failover.is_forced && is_over
        };
        if is_late(&failover) {
            end_if(server, "the replica did not answer in time", is_late);
        }
        return;
    }
    if !failover.is_held {
        return;
    }
    // This comes first: the effect of a long command that ends now is before the position.
    let is_running = server.workers.long.is_running();
    let position = server.feed.end();
    let is_ready = |replica: &ReplicaState| {
        matches!(replica.phase, Phase::Follows)
            && replica.acked >= position
            && failover
                .target
                .as_ref()
                .is_none_or(|target| is_at(replica, target))
    };
    let replicas = server.replication.replicas();
    let ready = replicas
        .iter()
        .find(|replica| !is_running && is_ready(replica));
    let found = ready.map(|replica| (replica.address.clone(), replica.port));
    let is_over = failover
        .deadline
        .is_some_and(|deadline| deadline <= Instant::now());
    let is_forced = found.is_none();
    let (host, port) = match (found, failover.target) {
        (Some(found), _) => found,
        // No long command begins while writes are held.
        (None, Some(_)) if is_over && failover.is_forced && is_running => return,
        (None, Some(target)) if is_over && failover.is_forced => target,
        (None, _) if is_over => {
            end(server, "no replica was up to date in time");
            return;
        }
        (None, _) => return,
    };
    role::follow_when(server, &host, port, |state| {
        // Removals and clients that were served meanwhile may have added bytes.
        let is_complete = is_forced || server.feed.end() == position;
        let number = failover.number;
        let found = state
            .failover
            .as_mut()
            .filter(|f| f.number == number && is_complete);
        let Some(failover) = found else {
            return false;
        };
        log::info!("failover: {host}:{port} becomes the primary");
        (failover.is_proceeding, failover.is_forced) = (true, is_forced);
        true
    });
}

/// Request to a replica to take over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Whether no earlier one was sent to it.
    pub is_first: bool,
    /// Whether the replica must take over even if it lacks writes.
    pub is_forced: bool,
}

/// Begins a request to the new primary. Returns `None` if there is no change of roles in which this
/// server follows it.
pub fn request(replication: &Replication) -> Option<Request> {
    let mut state = replication.state();
    let failover = state.failover.as_mut().filter(|f| f.is_proceeding)?;
    Some(Request {
        is_first: !std::mem::replace(&mut failover.is_requested, true),
        is_forced: failover.is_forced,
    })
}

/// Ends a change of roles whose connection to the new primary has failed before it was requested to
/// take over.
pub fn disconnected(server: &Server) {
    let is_open = |failover: &Failover| failover.is_proceeding && !failover.is_requested;
    end_if(server, "the replica cannot be reached", is_open);
}

/// Ends a change of roles with the answer of the new primary.
pub fn finish(server: &Server, has_taken_over: bool) {
    let is_proceeding = |failover: Failover| failover.is_proceeding;
    if !server.replication.failover().is_some_and(is_proceeding) {
        return;
    }
    if !has_taken_over {
        end(server, "the replica did not take over");
        return;
    }
    server.replication.state().failover = None;
    release(&server.data, &server.replication);
    log::info!("failover: complete");
    server.workers.wake_all();
}

/// Promotes this server at its primary's request, in the history that both share and of which the
/// primary has everything before `position`.
///
/// # Errors
/// This server is not a replica, has another history, or lacks part of it without being forced. The
/// message is a reply.
pub fn take_over(
    server: &Server,
    id: &str,
    position: Option<u64>,
    is_forced: bool,
) -> Result<(), &'static str> {
    role::promote_if(server, || {
        if !server.replication.is_replica() {
            return Err(IS_PRIMARY);
        }
        if id != server.replication.ids().0 {
            return Err("ERR PSYNC FAILOVER replid must match my replid.");
        }
        if !is_forced && position.is_some_and(|position| position > server.feed.end()) {
            return Err("ERR PSYNC FAILOVER offset is beyond what this replica has received.");
        }
        log::info!("the primary has requested that this server takes over");
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use session::clock::Clock;
    use session::message::Subscriber;
    use session::session::SnapshotForm;
    use settings::Config;
    use store::{NewDeadline, Tick};

    const NOW: u64 = 1_700_000_000_000;

    /// Sets the only replica and its acknowledged position.
    fn set_replica(server: &Server, acked: u64) {
        let replica = ReplicaState {
            client: Subscriber {
                worker: 0,
                slot: 0,
                client: 1,
            },
            address: "127.0.0.1".to_owned(),
            port: 1,
            node_id: None,
            link: 0,
            is_old: false,
            form: SnapshotForm::default(),
            is_snapshot_only: false,
            unread: None,
            phase: Phase::Follows,
            reader: 0,
            acked,
            acked_file: 0,
            acked_at: Instant::now(),
        };
        server.replication.state().replicas.insert(1, replica);
    }

    #[test]
    fn a_replica_takes_over_only_with_the_whole_feed() {
        // Regression: the change to a replica added recorded removals to the feed after its
        // position had been compared.
        let server = Server::new(Config::default(), Clock::manual(NOW)).expect("valid settings");
        let key = server.data.keyspace.key(0, b"a");
        {
            let mut view = server.data.keyspace.lock_all(Tick(NOW));
            effects::set_feed(&server, &mut view, true);
            view.set(&key, b"1", NewDeadline::At(Tick(NOW + 10)));
        }
        server.feed.append_raw(b"PING\r\n");
        set_replica(&server, server.feed.end());
        begin(&server, None, None, false).expect("there is a replica");
        // A command that had begun before finds an expired key, and another worker runs this one
        // before it adds the removal.
        server.data.keyspace.set_frozen(false);
        let mut view = server.data.keyspace.lock_all(Tick(NOW + 20));
        assert!(view.kind(&key).is_none());
        drop(view);
        set_replica(&server, server.feed.end());
        check(&server);
        assert!(
            !server.replication.is_replica(),
            "the replica lacks the removal"
        );
        set_replica(&server, server.feed.end());
        check(&server);
        assert!(server.replication.is_replica());
        assert!(
            server
                .replication
                .failover()
                .is_some_and(|f| f.is_proceeding)
        );
        abort(&server).expect("it is in progress");
        assert!(!server.replication.is_replica() && !server.data.pause.is_set());
    }

    #[test]
    fn a_replica_that_does_not_answer_in_time_does_not_take_over() {
        // Regression: a replica that was stopped after its acknowledgement was waited for until
        // repl-timeout, and writes were held meanwhile.
        for is_requested in [false, true] {
            let clock = Clock::manual(NOW);
            let server = Server::new(Config::default(), clock).expect("valid settings");
            set_replica(&server, server.feed.end());
            let timeout = Some(Duration::ZERO);
            begin(&server, None, timeout, false).expect("there is a replica");
            set_replica(&server, server.feed.end());
            check(&server);
            assert!(server.replication.is_replica());
            if is_requested {
                assert!(request(&server.replication).is_some());
            }
            check(&server);
            assert_eq!(server.replication.is_replica(), is_requested);
            assert_eq!(server.replication.failover().is_some(), is_requested);
            assert_eq!(server.data.pause.is_set(), is_requested);
        }
    }

    #[test]
    fn a_write_in_progress_delays_the_change() {
        // Regression: the change went on while a worker had not yet added the effect of a write.
        let server = Server::new(Config::default(), Clock::manual(NOW)).expect("valid settings");
        let mut view = server.data.keyspace.lock_one(0, Tick(NOW));
        set_replica(&server, server.feed.end());
        std::thread::scope(|scope| {
            let begun = scope.spawn(|| begin(&server, None, None, false));
            while server.replication.failover().is_none() {
                std::thread::yield_now();
            }
            assert!(!server.replication.failover().is_some_and(|f| f.is_held));
            check(&server);
            assert!(!server.replication.is_replica());
            view.set_now(Tick(NOW + 1));
            drop(view);
            begun.join().expect("no panic").expect("there is a replica");
        });
        assert!(server.replication.failover().is_some_and(|f| f.is_held));
    }
}
