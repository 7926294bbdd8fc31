//! Nodes with maps of different versions, as while etcd does not answer some of them.

use crate::cluster::{Sites, check, free, origin};
use crate::support::Origin;
use edge::{Change, Map, ServerId};
use node::membership::Host;
use node::membership::record::Record;
use node::{EtcdConfig, Server};
use std::net::SocketAddr;
use std::sync::Arc;

/// Returns nodes that look for etcd where nothing listens. They are unknown to each other until
/// they get a map.
fn sites(origin: &Origin, addresses: &[SocketAddr]) -> Sites {
    let nothing = free(1)[0];
    Sites::with(origin, addresses, addresses.len(), |settings| {
        let cluster = settings.cluster.as_mut().expect("there is a cluster");
        cluster.servers.retain(|server| server.id == cluster.own);
        let endpoint = format!("http://{nothing}");
        let mut etcd = EtcdConfig::default();
        etcd.access
            .add_endpoint(&endpoint)
            .expect("the input is valid");
        cluster.etcd = Some(etcd);
    })
}

fn first(sites: &Sites, addresses: &[SocketAddr]) -> Record {
    let server = |(index, &address): (usize, &SocketAddr)| Server {
        id: ServerId(index as u32),
        address,
        weight: 1,
        name: None,
    };
    let servers: Vec<Server> = addresses.iter().enumerate().map(server).collect();
    let weights: Vec<_> = servers.iter().map(|one| (one.id, one.weight)).collect();
    let cluster = sites.node(0).running.node.cluster();
    let config = cluster.expect("there is a cluster").config().map_config();
    Record {
        map: Arc::new(Map::new(config, &weights).expect("the input is valid")),
        servers,
        loads: vec![],
    }
}

fn after(record: &Record, change: Change) -> Record {
    let map = record.map.next(&[change], &[]);
    Record {
        map: Arc::new(map.expect("the input is valid")),
        ..record.clone()
    }
}

fn install(sites: &Sites, numbers: impl IntoIterator<Item = usize>, record: &Record) {
    for number in numbers {
        let cluster = sites.node(number).running.node.cluster();
        Host::install(
            &**cluster.expect("there is a cluster"),
            &Arc::new(record.clone()),
        );
    }
}

#[test]
fn nodes_at_different_versions_of_the_map_reply_correctly() {
    let origin = origin();
    let addresses = free(5);
    let sites = sites(&origin, &addresses);
    let record = first(&sites, &addresses);
    // Without a map each node answers by itself.
    for site in sites.up() {
        check(&site.get("/alone/200000"), "/alone/200000");
    }
    assert_eq!(origin.heads().len(), 5);
    install(&sites, 0..5, &record);
    let old: Vec<String> = (0..6)
        .map(|one| format!("/old{one}/{}", 200_000 + one))
        .collect();
    for path in &old {
        check(&sites.node(0).get(path), path);
    }
    sites.wait_coded(6);
    let fetched = origin.heads().len();
    // Two nodes have versions that the others do not have.
    let second = after(&record, Change::Down(ServerId(4)));
    let third = after(&second, Change::Reweigh(ServerId(2), 3));
    install(&sites, [1], &second);
    install(&sites, [3], &third);
    for path in &old {
        for site in sites.up() {
            check(&site.get(path), path);
        }
    }
    assert_eq!(origin.heads().len(), fetched, "nothing was fetched again");
    for number in 0..10 {
        for path in [
            format!("/new{number}/{}", 140_000 + number),
            format!("/small{number}/9"),
        ] {
            for site in sites.up() {
                check(&site.get(&path), &path);
            }
        }
    }
    assert!(sites.sum(|counts| &counts.older_maps) > 0);
    assert!(sites.sum(|counts| &counts.newer_maps) > 0);
    assert_eq!(sites.sum(|counts| &counts.sub_chunks_corrupt), 0);
    // All nodes get the last one, and the node that was down in it has what it had.
    let last = after(&third, Change::Up(ServerId(4)));
    install(&sites, 0..5, &last);
    let fetched = origin.heads().len();
    for path in &old {
        for site in sites.up() {
            check(&site.get(path), path);
        }
    }
    assert_eq!(origin.heads().len(), fetched, "nothing was fetched again");
}

#[test]
fn status_and_metrics_show_members_map_and_etcd() {
    let origin = origin();
    let addresses = free(4);
    let sites = sites(&origin, &addresses);
    let record = first(&sites, &addresses);
    install(&sites, 0..4, &after(&record, Change::Down(ServerId(3))));
    let facts = || {
        sites
            .node(0)
            .running
            .node
            .cluster()
            .expect("there is one")
            .facts()
    };
    let found = facts().membership;
    assert_eq!(found.map_version, 2);
    let texts: Vec<&str> = found.nodes.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(texts.len(), 4);
    assert!(texts[0].contains("weight 1, this node"), "{texts:?}");
    assert!(
        texts[3].contains("down in the map, not registered"),
        "{texts:?}"
    );
    crate::cluster::wait(|| {
        let etcd = facts().membership.etcd.expect("etcd is the source");
        etcd.failure
            .is_some_and(|failure| failure.contains("/v3/lease/grant"))
    });
    let etcd = facts().membership.etcd.expect("etcd is the source");
    assert!(!etcd.is_connected);
    assert_eq!((etcd.contact, etcd.registered), (None, 0));
}
