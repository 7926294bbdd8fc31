//! What the host of a cluster's rules does to a node: it installs a topology, holds slots for a
//! move, and ends the fence.

use super::route;
use crate::blocking;
use crate::routing::{Refusal, Routes};
use crate::state::Server;
use ::cluster::{Instant, Name, Role, Topology};
use session::message::Message;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use store::{Condition, View};
use wire::slot::slot;

/// Time between two looks at a long command that works on held slots.
const LONG_POLL: Duration = Duration::from_millis(1);

/// Installs a topology in which this node has the name `me`. When this returns, no command runs
/// that the topology before would have allowed and this one does not. The caller holds no shard.
///
/// # Errors
/// The topology is older than the installed one, or this node is not in it. The installed one
/// remains.
pub fn install(server: &Server, topology: Topology, me: Name) -> Result<(), String> {
    let losses = server.cluster.routes().losses;
    server.cluster.change(|routes| {
        if topology.node(me).is_none() {
            return Err(format!("node {me}: this node is not in the topology"));
        }
        if let Some((installed, _)) = &routes.installed
            && topology.version() < installed.version()
        {
            return Err(format!(
                "topology of version {}: version {} is installed",
                topology.version(),
                installed.version()
            ));
        }
        routes.install(topology, me);
        Ok(())
    })?;
    await_commands(server);
    withhold_events(server);
    let routes = server.cluster.routes();
    {
        let mut view = server.data.keyspace.lock_all(server.clock.now());
        redirect_blocked(server, &routes, &mut view);
        if routes.losses != losses {
            view.forget_tracked();
            let mut invalidations = Vec::new();
            view.take_invalidations(&mut invalidations);
            let (inboxes, clients) = (&server.workers.inboxes, &server.clients.registry);
            server
                .clients
                .tracking
                .send(inboxes, clients, &invalidations, 0);
        }
    }
    if routes.losses != losses {
        for (worker, inbox) in server.workers.inboxes.iter().enumerate() {
            inbox.push(worker, Message::LostSlots);
        }
    }
    retry(server);
    Ok(())
}

/// Ends the waits of blocked commands that another node executes from now on. All shards are
/// locked.
fn redirect_blocked(server: &Server, routes: &Routes, view: &mut View<'_>) {
    for waiter in server.clients.blocking.list() {
        if let Err(refusal) = route::check_waiter(server, routes, &waiter)
            // A new primary serves a moment after its topology is installed.
            && !matches!(refusal, Refusal::Held(..) | Refusal::Down)
        {
            server
                .clients
                .blocking
                .withdraw(&server.data.keyspace, view, &waiter);
            let text = route::text(server, routes, &waiter.info, refusal);
            blocking::refuse(server, &waiter, &text);
        }
    }
}

/// Holds commands on slots, including reads, until the holder with this number releases them. When
/// this returns, no command on them runs. The caller holds no shard.
pub fn hold(server: &Server, by: u64, slots: &[RangeInclusive<u16>]) {
    let since = server.clock.moment();
    change(server, |routes| routes.hold(by, slots, since));
    let routes = server.cluster.routes();
    // A long command works on its keys without locks.
    let uses = |key: &[u8]| routes.held_since(slot(key)).is_some();
    while server.workers.long.uses(uses) && !server.lifecycle.stops() {
        thread::sleep(LONG_POLL);
    }
}

/// Releases slots that were held. Their commands are routed again.
pub fn release(server: &Server, by: u64, slots: &[RangeInclusive<u16>]) {
    replace(server, |routes| routes.release(by, slots));
    retry(server);
    withhold_events(server);
    drop(server.data.keyspace.lock_all(server.clock.now()));
}

/// Ends the fence at once, so that this node serves nothing more as a primary. When this returns,
/// no command runs. The caller holds no shard.
pub fn end_fence(server: &Server) {
    server.cluster.set_fence(Instant::default());
    change(server, |_| {});
}

/// Changes the routes, and waits for the commands that were routed before.
pub fn change(server: &Server, change: impl FnOnce(&mut Routes)) {
    replace(server, change);
    await_commands(server);
    withhold_events(server);
    drop(server.data.keyspace.lock_all(server.clock.now()));
}

fn replace(server: &Server, change: impl FnOnce(&mut Routes)) {
    let changed = server.cluster.change(|routes| {
        change(routes);
        Ok(())
    });
    changed.expect("nothing is checked");
}

/// Waits for the commands that were routed before the last change. From now on, a command is routed
/// by the current routes, and ends before the next change comes into force.
fn await_commands(server: &Server) {
    let cluster = &server.cluster;
    cluster.await_workers(|| server.lifecycle.stops());
}

/// Withholds the events of keys that expire although they are not this node's alone: another node
/// owns their slots, or may soon.
fn withhold_events(server: &Server) {
    // The last one uses the newest routes.
    let lock = server.cluster.moves.withholding.lock();
    let _changing = lock.expect("the lock is not poisoned");
    let routes = server.cluster.routes();
    let is_primary = matches!(routes.role, Role::Primary(_));
    let condition = is_primary.then(|| {
        let holds = move |name: &[u8]| !routes.has_alone(slot(name));
        Arc::new(holds) as Condition
    });
    server.data.keyspace.set_withholding(condition);
}

/// Lets the commands that wait for the end of a hold try again.
fn retry(server: &Server) {
    server.workers.long.request_retries();
    server.workers.wake_all();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::sample::{THIRDS, name, routed, three};
    use crate::routing::{WorkerRoutes, now};
    use session::clock::Clock;
    use std::sync::mpsc::channel;

    #[test]
    fn a_topology_is_replaced_by_a_newer_one_only() {
        let server = routed(&[], 1);
        let me = name("1");
        assert_eq!(server.cluster.current(), None);
        install(&server, three(5, &THIRDS), me).expect("the first one");
        assert_eq!(server.cluster.routes().role, Role::Primary(0));
        let serial = server.cluster.serial();
        let error = install(&server, three(4, &THIRDS), me).expect_err("an older one");
        assert_eq!(error, "topology of version 4: version 5 is installed");
        let error = install(&server, three(6, &THIRDS), name("9")).expect_err("of other nodes");
        assert!(
            error.ends_with("this node is not in the topology"),
            "{error}"
        );
        assert_eq!(server.cluster.serial(), serial);
        assert_eq!(server.cluster.current(), Some(Arc::new(three(5, &THIRDS))));
        install(&server, three(6, &[]), me).expect("a newer one");
        assert!(server.cluster.serial() > serial);
    }

    #[test]
    fn losses_of_slots_are_counted() {
        let server = routed(&[], 1);
        let installed = |version, ranges: &[::cluster::Owned]| {
            install(&server, three(version, ranges), name("1")).expect("a newer one");
            let routes = server.cluster.routes();
            (routes.losses, routes.is_own(100), routes.is_own(9000))
        };
        assert_eq!(installed(1, &THIRDS), (0, true, false));
        assert_eq!(installed(2, &THIRDS), (0, true, false));
        assert_eq!(installed(3, &[(0..=16_383, 0)]), (0, true, true));
        assert_eq!(installed(4, &THIRDS), (1, true, false));
        assert_eq!(installed(5, &[(0..=16_383, 1)]), (2, false, false));
    }

    #[test]
    fn slots_are_held_until_they_are_released() {
        let server = routed(&[], 1);
        let held = |slot| {
            server
                .cluster
                .routes()
                .held_since(slot)
                .map(|since| since.0)
        };
        server.clock.pass_ms(3);
        hold(&server, 0, &[5..=70, 16_383..=16_383]);
        server.clock.pass_ms(3);
        hold(&server, 0, &[100..=100]);
        assert_eq!([4, 5, 63, 64].map(held), [None, Some(3), Some(3), Some(3)]);
        assert_eq!([71, 100, 16_383].map(held), [None, Some(6), Some(3)]);
        release(&server, 0, &[5..=69]);
        assert_eq!([5, 69, 70].map(held), [None, None, Some(3)]);
        release(&server, 0, &[0..=16_383]);
        assert!(server.cluster.routes().holds.is_empty());
    }

    #[test]
    fn a_hold_waits_for_commands_that_run() {
        let server = Arc::new(routed(&[], 1));
        let running = server.data.keyspace.lock_one(3, server.clock.now());
        let (sender, receiver) = channel();
        let thread = thread::spawn({
            let server = Arc::clone(&server);
            move || {
                hold(&server, 0, &[0..=1]);
                sender.send(()).expect("it is received");
            }
        });
        while server.cluster.serial() == 0 {
            thread::yield_now();
        }
        assert!(receiver.try_recv().is_err());
        drop(running);
        receiver.recv().expect("the hold has begun");
        thread.join().expect("no panic");
    }

    #[test]
    fn a_hold_waits_for_the_work_of_a_worker() {
        let server = Arc::new(routed(&[], 1));
        let worker = WorkerRoutes::new(&server.cluster, 0);
        worker.begin();
        let (sender, receiver) = channel();
        let thread = thread::spawn({
            let server = Arc::clone(&server);
            move || {
                for by in 0..3 {
                    hold(&server, by, &[0..=1]);
                    sender.send(()).expect("it is received");
                }
            }
        });
        let wait_for_holds = |count| {
            while server.cluster.routes().holds.len() < count {
                thread::yield_now();
            }
        };
        for count in 1..=2 {
            wait_for_holds(count);
            assert!(receiver.try_recv().is_err());
            let used = server.cluster.routes_of(0);
            assert_eq!(used.holds.len(), count - 1, "a script goes on as before");
            worker.begin();
            assert_eq!(server.cluster.routes_of(0).holds.len(), count);
            receiver.recv().expect("the hold has begun");
        }
        wait_for_holds(3);
        worker.rest();
        receiver.recv().expect("the hold has begun");
        thread.join().expect("no panic");
        drop(worker);
        assert_eq!(server.cluster.routes_of(0).holds.len(), 3);
    }

    #[test]
    fn a_hold_waits_for_a_long_command_on_its_slots() {
        let server = Arc::new(routed(&[], 1));
        let leased = |key: &[u8]| server.workers.long.lease([Box::from(key)].into());
        assert!(leased(b"a"), "nothing is leased");
        hold(&server, 0, &[slot(b"b")..=slot(b"b")]);
        let (sender, receiver) = channel();
        let thread = thread::spawn({
            let server = Arc::clone(&server);
            move || {
                hold(&server, 0, &[slot(b"a")..=slot(b"a")]);
                sender.send(()).expect("it is received");
            }
        });
        while server.cluster.routes().held_since(slot(b"a")).is_none() {
            thread::yield_now();
        }
        assert!(receiver.try_recv().is_err());
        server.workers.long.end();
        receiver.recv().expect("the hold has begun");
        thread.join().expect("no panic");
    }

    #[test]
    fn a_fence_ends_when_it_is_set_or_ended() {
        let server = routed(&[], 1);
        server.clock.pass_ms(10);
        assert_eq!(now(&server.clock), Instant(10));
        server.cluster.set_fence(Instant(30));
        assert_eq!(server.cluster.fence(), Instant(30));
        let serial = server.cluster.serial();
        end_fence(&server);
        assert_eq!(server.cluster.fence(), Instant(0));
        assert!(server.cluster.serial() > serial, "workers check again");
        assert!(now(&Clock::System) > Instant(0));
    }
}
