//! What the host of a cluster's rules does to a node: it installs a topology, holds slots for a
//! move, and ends the fence.

use crate::state::Server;
use ::cluster::{Instant, Name, Topology};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Installs a topology in which this node has the name `me`. When this returns, no command runs
/// that the topology before would have allowed and this one does not. The caller holds no shard.
///
/// # Errors
/// The topology is older than the installed one, or this node is not in it. The installed one
/// remains.
pub fn install(server: &Server, topology: Topology, me: Name) -> Result<(), String> {
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
        routes.role = topology.role(me);
        routes.installed = Some((Arc::new(topology), me));
        Ok(())
    })?;
    await_commands(server);
    Ok(())
}

/// Holds commands on slots, including reads. When this returns, no command on them runs. The caller
/// holds no shard.
pub fn hold(server: &Server, slots: &[RangeInclusive<u16>]) {
    set_held(server, slots, true);
    await_commands(server);
}

/// Releases slots that were held. Their commands are routed again.
pub fn release(server: &Server, slots: &[RangeInclusive<u16>]) {
    set_held(server, slots, false);
    server.workers.wake_all();
}

/// Ends the fence at once, so that this node serves nothing more as a primary. When this returns,
/// no command runs. The caller holds no shard.
pub fn end_fence(server: &Server) {
    server.cluster.set_fence(Instant::default());
    let changed = server.cluster.change(|_| Ok(()));
    changed.expect("nothing is checked");
    await_commands(server);
}

fn set_held(server: &Server, slots: &[RangeInclusive<u16>], is_held: bool) {
    let changed = server.cluster.change(|routes| {
        for range in slots {
            routes.held.set(range, is_held);
        }
        Ok(())
    });
    changed.expect("nothing is checked");
}

/// Waits for the commands that were routed before the last change: each of them has compared the
/// number of the routes after it had locked its shards.
fn await_commands(server: &Server) {
    drop(server.data.keyspace.lock_all(server.clock.now()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::now;
    use ::cluster::{Health, Node, Role, Shard};
    use session::clock::Clock;
    use settings::Config;
    use std::sync::mpsc::channel;
    use std::thread;

    fn server() -> Server {
        Server::new(Config::default(), Clock::manual(1)).expect("valid settings")
    }

    fn name(digit: &str) -> Name {
        Name::parse(digit.repeat(40).as_bytes()).expect("40 digits")
    }

    fn node(id: Name) -> Node {
        Node {
            id,
            ip: "10.0.0.1".to_owned(),
            port: 6379,
            tls_port: 0,
            bus_port: 0,
            hostname: String::new(),
            inside: String::new(),
            zone: String::new(),
            version: String::new(),
            offset: 0,
            health: Health::Online,
        }
    }

    fn topology(version: u64, primary: Name) -> Topology {
        let shard = Shard {
            id: name("f"),
            epoch: 1,
            primary,
            replicas: Vec::new(),
        };
        let nodes = vec![node(name("a")), node(name("b"))];
        Topology::new(version, vec![shard], nodes, &[(0..=99, 0)]).expect("valid")
    }

    #[test]
    fn a_topology_is_replaced_by_a_newer_one_only() {
        let server = server();
        let (a, b) = (name("a"), name("b"));
        assert_eq!(server.cluster.current(), None);
        install(&server, topology(5, a), a).expect("the first one");
        assert_eq!(server.cluster.routes().role, Role::Primary(0));
        let serial = server.cluster.serial();
        let error = install(&server, topology(4, b), a).expect_err("an older one");
        assert_eq!(error, "topology of version 4: version 5 is installed");
        let error = install(&server, topology(6, b), name("c")).expect_err("of other nodes");
        assert!(
            error.ends_with("this node is not in the topology"),
            "{error}"
        );
        assert_eq!(server.cluster.serial(), serial);
        assert_eq!(server.cluster.current(), Some(Arc::new(topology(5, a))));
        install(&server, topology(6, b), a).expect("a newer one");
        assert_eq!(server.cluster.routes().role, Role::Spare);
        assert!(server.cluster.serial() > serial);
    }

    #[test]
    fn slots_are_held_until_they_are_released() {
        let server = server();
        let held = |slot| server.cluster.routes().held.has(slot);
        hold(&server, &[5..=70, 16_383..=16_383]);
        assert_eq!(
            [4, 5, 63, 64, 70, 71].map(held),
            [false, true, true, true, true, false]
        );
        assert!(held(16_383));
        release(&server, &[5..=69]);
        assert_eq!([5, 69, 70].map(held), [false, false, true]);
        release(&server, &[0..=16_383]);
        assert!(server.cluster.routes().held.is_empty());
    }

    #[test]
    fn a_hold_waits_for_commands_that_run() {
        let server = Arc::new(server());
        let running = server.data.keyspace.lock_one(3, server.clock.now());
        let (sender, receiver) = channel();
        let thread = thread::spawn({
            let server = Arc::clone(&server);
            move || {
                hold(&server, &[0..=1]);
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
    fn a_fence_ends_when_it_is_set_or_ended() {
        let server = server();
        assert_eq!(server.cluster.fence(), Instant(0));
        server.clock.pass_ms(10);
        assert_eq!(now(&server.clock), Instant(10));
        server.cluster.set_fence(Instant(30));
        assert_eq!(server.cluster.fence(), Instant(30));
        end_fence(&server);
        assert_eq!(server.cluster.fence(), Instant(0));
        assert!(now(&Clock::System) > Instant(0));
    }
}
