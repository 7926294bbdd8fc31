use super::sample::{name, node, shard};
use super::*;
use session::clock::Clock;
use settings::Config;

fn view(has_tls: bool, health: Health) -> View {
    let primary = Node {
        health,
        hostname: "one.example".to_owned(),
        ..node("a", 1, 2)
    };
    let nodes = vec![primary, node("b", 3, 0), node("c", 4, 0)];
    let ranges = [(0..=9, 0), (11..=11, 0), (13..=16_383, 0)];
    let topology = Topology::new(1, vec![shard("f", &["a", "b"])], nodes, &ranges).expect("valid");
    View {
        topology: Arc::new(topology),
        me: name("b"),
        has_tls,
        own: (5, Health::Online),
    }
}

#[test]
fn a_client_gets_the_port_of_its_kind_if_the_node_has_it() {
    for (has_tls, ports, expected) in [
        (false, (1, 2), 1),
        (true, (1, 2), 2),
        (true, (1, 0), 1),
        (false, (0, 2), 2),
        (false, (0, 0), 0),
    ] {
        let port = port_of(&node("a", ports.0, ports.1), has_tls);
        assert_eq!(port, expected, "TLS: {has_tls}, ports: {ports:?}");
    }
}

#[test]
fn each_node_is_a_line() {
    let line = |view: &View, digit: &str| view.line(view.topology.node(name(digit)).expect("it"));
    let (a, b, c) = (name("a"), name("b"), name("c"));
    let up = view(false, Health::Online);
    assert_eq!(
        line(&up, "a"),
        format!("{a} 10.0.0.1:1@0,one.example master - 0 0 7 connected 0-9 11 13-16383")
    );
    assert_eq!(
        line(&up, "b"),
        format!("{b} 10.0.0.1:3@0 myself,slave {a} 0 0 7 connected")
    );
    assert_eq!(
        line(&up, "c"),
        format!("{c} 10.0.0.1:4@0 master - 0 0 0 connected")
    );
    assert!(line(&view(true, Health::Online), "a").contains(":2@0"));
    let failed = line(&view(false, Health::Fail), "a");
    assert!(
        failed.contains(" master,fail - 0 0 7 disconnected 0-9"),
        "{failed}"
    );
}

#[test]
fn the_state_of_this_server_is_the_present_one() {
    let view = view(false, Health::Online);
    let node = |digit: &str| view.topology.node(name(digit)).expect("it is there");
    assert_eq!(view.offset(node("b")), 5);
    assert_eq!(view.offset(node("a")), 0);
    assert_eq!(view.shard_id(), name("f"));
    assert_eq!(view.find(b"abc"), None);
    assert_eq!(view.find(name("c").as_bytes()), Some(node("c")));
}

#[test]
fn a_client_without_a_tcp_address_gets_the_first_one() {
    for (first, expected) in [
        ("0.0.0.0:7", "127.0.0.1:7"),
        ("[::]:7", "[::1]:7"),
        ("10.0.0.1:7", "10.0.0.1:7"),
    ] {
        let server = Server::new(Config::default(), Clock::manual(1)).expect("valid settings");
        let session = Session::new();
        assert_eq!(address_of(&server, &session.info), None);
        let first = first.parse().expect("an address");
        server
            .network
            .first_address
            .set(first)
            .expect("it is not set");
        let address = address_of(&server, &session.info).expect("there is one");
        assert_eq!(address.to_string(), expected);
    }
}
