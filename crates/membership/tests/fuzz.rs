//! Runs the fuzz target on seeded mutations. `cargo fuzz` runs the same code guided by coverage;
//! this takes a second and is repeatable.

#[path = "../../../fuzz/bodies/directory.rs"]
mod directory;
#[path = "../../../fuzz/bodies/mutate.rs"]
mod mutate;

use cluster::{Health, Name, Node};
use membership::directory::initial;
use membership::records::{Config, NODES, Registration, SHARDS, Shard, Strength};

fn id(number: u8) -> Name {
    Name::parse(format!("{number:040x}").as_bytes()).expect("40 digits")
}

#[test]
fn records_of_any_kind_are_used_or_refused_with_a_reason() {
    let config = Config {
        cluster: id(9),
        shards: 2,
        replicas: 1,
        lease_ms: 2_000,
        strength: Strength::Sync,
        sync_timeout_ms: 300,
    };
    let shard = Shard {
        epoch: 3,
        primary: Some(id(5)),
        in_sync: vec![id(6)],
        position: 77,
    };
    let node = Node {
        id: id(5),
        ip: "10.0.0.5".into(),
        port: 7000,
        tls_port: 7001,
        bus_port: 0,
        hostname: "five.example".into(),
        inside: "10.0.0.5:7000".into(),
        zone: "a".into(),
        version: "1.0".into(),
        offset: 88,
        health: Health::Loading,
    };
    let registration = Registration {
        node,
        shard: Some(id(1)),
        run: "run".into(),
    };
    let mut records = initial(&config, &[id(1), id(2)]);
    records.push((format!("{SHARDS}{}", id(1)), shard.encode(id(9))));
    records.push((format!("{NODES}{}", id(5)), registration.encode(id(9))));
    let mut lines: Vec<String> = records
        .iter()
        .map(|(key, value)| format!("{key} {value}"))
        .collect();
    let first = lines.join("\n");
    lines.push(format!("{NODES}{}", id(5)));
    let second = lines.join("\n");
    mutate::run(
        0x5EED_0034,
        3_000,
        &[first.as_bytes(), second.as_bytes()],
        &[b"\n", b"null", b"\"format\":2", b"16383", b"[]", b"{}"],
        directory::run,
    );
}
