//! PUBLISH on a node of a cluster, and what the links of other nodes send.

use super::*;
use crate::cluster::install::install;
use crate::cluster::sample::{THIRDS, name, routed, three};

/// Creates node 1 of three, with a link to node 2.
fn linked() -> Bench {
    let server = routed(&[], NOW);
    let set = server.cluster.node_id.set(name("1"));
    set.expect("nothing has requested the name");
    install(&server, three(1, &THIRDS), name("1")).expect("the first topology");
    server.cluster.outbox.join(name("2"), NOW);
    Bench {
        server,
        session: Session::new(),
    }
}

/// Returns what the link to node 2 sends.
fn sent(bench: &Bench) -> String {
    let mut out = Vec::new();
    bench.server.cluster.outbox.take(name("2"), &mut out);
    String::from_utf8(out).expect("ASCII").replace("\r\n", " ")
}

#[test]
fn published_messages_are_sent_to_other_nodes() {
    const START: &str = "*4 $8 REPLCONF $15 CLUSTER-MESSAGE $4 news ";
    let mut bench = linked();
    bench.table(&[("publish news 1", ":0"), ("spublish b 2", ":0")]);
    assert_eq!(sent(&bench), format!("{START}$1 1 "));
    bench.table(&[
        ("multi", "+OK"),
        ("publish news 3", "+QUEUED"),
        ("exec", "*1 :0"),
        ("eval return(redis.call('publish','news','4')) 0", ":0"),
    ]);
    assert_eq!(sent(&bench), format!("{START}$1 3 {START}$1 4 "));
    let links = bench.say("cluster links").replace("\r\n", " ");
    let node = name("2");
    let expected = format!("*1 *12 $9 direction $2 to $4 node $40 {node} $11 create-time :{NOW} ");
    assert!(links.starts_with(&expected), "{links}");
    let info = bench.say("cluster info");
    assert!(
        info.contains("cluster_stats_messages_publish_sent:3\r\n"),
        "{info}"
    );
    bench.server.cluster.outbox.leave(name("2"));
    bench.table(&[("publish news 5", ":0"), ("cluster links", "*0")]);
}

#[test]
fn messages_are_taken_from_nodes_that_have_introduced_themselves() {
    let peer = |from: &str, to: &str| format!("replconf cluster-peer {} {}", name(from), name(to));
    let say = |bench: &mut Bench, line: &str, expected: &str| {
        bench.table(&[(line, expected)]);
        std::mem::take(&mut bench.session.is_closing)
    };
    let mut bench = linked();
    let message = "replconf cluster-message news text";
    let expected = "-ERR a message without REPLCONF CLUSTER-PEER before";
    assert!(say(&mut bench, message, expected));
    let expected = format!("-ERR this is node {}, not {}", name("1"), name("3"));
    assert!(say(&mut bench, &peer("2", "3"), &expected));
    for stranger in ["9", "1"] {
        let text = "is not another node of this cluster";
        let expected = format!("-ERR node {} {text}", name(stranger));
        assert!(say(&mut bench, &peer(stranger, "1"), &expected));
    }
    let expected = "-ERR expected the names of two nodes";
    assert!(say(&mut bench, "replconf cluster-peer x y", expected));
    assert!(!say(&mut bench, &peer("2", "1"), "+OK"));
    assert!(!say(&mut bench, message, ""));
    let expected = "-ERR a message of 5 arguments: expected a channel and a text";
    assert!(say(
        &mut bench,
        "replconf cluster-message news text more",
        expected
    ));
    let outbox = &bench.server.cluster.outbox;
    assert_eq!(outbox.received.load(Relaxed), 1);
    assert_eq!(sent(&bench), "", "it is not sent further");
}

#[test]
fn a_server_without_a_cluster_takes_no_messages_of_nodes() {
    let mut bench = Bench::new();
    let line = format!("replconf cluster-peer {} {}", name("2"), name("1"));
    bench.table(&[(&line, "-ERR this server is no node of a cluster")]);
}
