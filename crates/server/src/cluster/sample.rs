//! Topologies for tests.

use crate::state::Server;
use ::cluster::{Health, Instant, Name, Node, Owned, Replica, Shard, Topology};
use session::clock::Clock;
use settings::{Config, find};
use std::sync::atomic::Ordering::Relaxed;

/// Slots of the shards of [`three`]: `b`, `f`, `w`, `bar` and `hello` are in the first one, `c`,
/// `g`, `k` and `z` in the second, `a`, `e`, `x`, `y` and `foo` in the third.
pub const THIRDS: [Owned; 3] = [(0..=5460, 0), (5461..=10_922, 1), (10_923..=16_383, 2)];

/// Returns a name of one repeated digit.
pub fn name(digit: &str) -> Name {
    Name::parse(digit.repeat(40).as_bytes()).expect("40 digits")
}

/// Returns a node whose name is one repeated digit.
pub fn node(digit: &str, port: u16, tls_port: u16) -> Node {
    Node {
        ip: "10.0.0.1".to_owned(),
        port,
        tls_port,
        health: Health::Online,
        ..Node::unknown(name(digit))
    }
}

/// Returns a shard whose members' names are digits, the primary first.
pub fn shard(digit: &str, members: &[&str]) -> Shard {
    let replica = |digit: &&str| Replica {
        id: name(digit),
        is_in_sync: true,
    };
    Shard {
        id: name(digit),
        epoch: 7,
        primary: name(members[0]),
        replicas: members[1..].iter().map(replica).collect(),
    }
}

/// Returns three shards `d`, `e` and `f`: the primaries `1`, `2` and `3` on ports 7001 to 7003, and
/// the first one's replica `4` on port 7004.
pub fn three(version: u64, ranges: &[Owned]) -> Topology {
    let shards = vec![
        shard("d", &["1", "4"]),
        shard("e", &["2"]),
        shard("f", &["3"]),
    ];
    let nodes = ["1", "2", "3", "4"].map(|digit| {
        let port = 7000 + digit.parse::<u16>().expect("a digit");
        Node {
            hostname: format!("n{digit}.example"),
            ..node(digit, port, port + 1000)
        }
    });
    Topology::new(version, shards, nodes.into(), ranges).expect("valid")
}

/// Creates a node of a cluster without a topology, whose fence does not end.
pub fn routed(settings: &[(&str, &str)], now_ms: u64) -> Server {
    let config = Config::default();
    for (setting, value) in settings.iter().chain(&[("cluster-enabled", "yes")]) {
        let param = find(setting).expect("a setting of this name");
        config.set(param, value).expect("a value that fits");
    }
    let server = Server::new(config, Clock::manual(now_ms)).expect("valid settings");
    server.cluster.set_fence(Instant(u64::MAX));
    server.cluster.seat.is_connected.store(true, Relaxed);
    server
}
