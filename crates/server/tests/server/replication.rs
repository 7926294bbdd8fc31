//! FAILOVER with a replica that the test plays, so that it can answer, refuse and disconnect at any
//! moment.

use crate::client::{Bench, Client};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// Timeout of each step, for machines under load.
const WITHIN: Duration = Duration::from_secs(20);
/// Identifier of the history that the replica begins.
const NEW_ID: &str = "0123456789012345678901234567890123456789";
const IS_PRIMARY: &str = "-ERR PSYNC FAILOVER can't be sent to a master.\r\n";

/// A replica.
struct Replica {
    listener: TcpListener,
    port: u16,
    _feed: Client,
}

impl Replica {
    /// Connects to a primary. It never reads the snapshot, so that it lacks every write.
    fn of(bench: &Bench) -> Replica {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.set_nonblocking(true).expect("a socket");
        let port = listener.local_addr().expect("a port").port();
        let mut feed = bench.client();
        feed.check(&format!("replconf listening-port {port}"), "+OK");
        feed.send(b"PSYNC ? -1\r\n");
        until(&mut bench.client(), &format!("port={port}"));
        Replica {
            listener,
            port,
            _feed: feed,
        }
    }

    /// Begins FAILOVER with FORCE.
    fn force(&self, client: &mut Client) {
        let line = format!("failover to 127.0.0.1 {} force timeout 1", self.port);
        client.check(&line, "+OK");
    }

    /// Accepts the server that follows this one. Returns its request for synchronization.
    fn accept(&self) -> (BufReader<TcpStream>, Vec<String>) {
        let start = Instant::now();
        let stream = loop {
            match self.listener.accept() {
                Ok((stream, _)) => break stream,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
            assert!(start.elapsed() < WITHIN, "the server does not connect");
            std::thread::yield_now();
        };
        stream.set_nonblocking(false).expect("a socket");
        stream.set_read_timeout(Some(WITHIN)).expect("a socket");
        let mut stream = BufReader::new(stream);
        loop {
            let words = command(&mut stream);
            if words[0] == "PSYNC" {
                return (stream, words);
            }
            send(&mut stream, "+OK\r\n");
        }
    }
}

fn send(stream: &mut BufReader<TcpStream>, text: &str) {
    let socket = stream.get_mut();
    socket.write_all(text.as_bytes()).expect("there is room");
}

/// Reads a line that is a sigil and a number.
fn number(stream: &mut BufReader<TcpStream>, sigil: char) -> usize {
    let mut line = String::new();
    stream.read_line(&mut line).expect("a line in time");
    let number = line.trim_end().strip_prefix(sigil).map(str::parse);
    number.expect("a length").expect("a number")
}

/// Reads one command.
fn command(stream: &mut BufReader<TcpStream>) -> Vec<String> {
    let count = number(stream, '*');
    let word = |_| {
        let len = number(stream, '$');
        let mut bytes = vec![0; len + 2];
        stream.read_exact(&mut bytes).expect("bytes in time");
        bytes.truncate(len);
        String::from_utf8(bytes).expect("text")
    };
    (0..count).map(word).collect()
}

/// Waits until INFO contains a text, and returns it.
fn until(client: &mut Client, text: &str) -> String {
    let start = Instant::now();
    loop {
        let info = client.request("info replication");
        if info.contains(text) {
            return info;
        }
        assert!(start.elapsed() < WITHIN, "{text} is not in {info}");
        std::thread::yield_now();
    }
}

/// Starts a primary with a key.
fn primary() -> (Bench, Client) {
    let dir = std::env::temp_dir();
    let bench = Bench::start(&[("dir", &dir.to_string_lossy())]);
    let mut client = bench.client();
    client.check("set a 1", "+OK");
    (bench, client)
}

#[test]
fn a_replica_that_takes_over_with_a_snapshot_is_the_only_primary() {
    // Regression: only +CONTINUE counted as a success. A replica that lacked writes and was forced
    // to take over replied +FULLRESYNC, and both servers were primaries.
    let (bench, mut client) = primary();
    let replica = Replica::of(&bench);
    client.check("set a 2", "+OK");
    replica.force(&mut client);
    let (mut stream, words) = replica.accept();
    assert_eq!(words[3..], ["FAILOVER", "FORCE"]);
    send(&mut stream, &format!("+FULLRESYNC {NEW_ID} 0\r\n"));
    let info = until(&mut client, "master_failover_state:no-failover");
    assert!(info.contains("role:slave"), "{info}");
    let refused = client.request("set a 3");
    assert!(refused.starts_with("-READONLY"), "{refused}");
}

#[test]
fn a_replica_that_refuses_to_take_over_leaves_the_primary() {
    let (bench, mut client) = primary();
    let replica = Replica::of(&bench);
    replica.force(&mut client);
    let (mut stream, _) = replica.accept();
    send(&mut stream, IS_PRIMARY);
    // The state of the failover ends before the role changes.
    let info = until(&mut client, "role:master");
    assert!(info.contains("master_failover_state:no-failover"), "{info}");
    client.check("set a 3", "+OK");
}

#[test]
fn a_lost_reply_to_the_request_to_take_over_makes_no_second_primary() {
    // Regression: after an error of the connection the server became a primary again, although the
    // replica might have taken over.
    let (bench, mut client) = primary();
    let replica = Replica::of(&bench);
    replica.force(&mut client);
    drop(replica.accept());
    let (mut stream, words) = replica.accept();
    assert_eq!(words[3], "FAILOVER");
    let info = client.request("info replication");
    assert!(info.contains("role:slave"), "{info}");
    // The first request has promoted it.
    send(&mut stream, IS_PRIMARY);
    let words = command(&mut stream);
    assert_eq!(words.len(), 3, "{words:?}");
    send(&mut stream, &format!("+CONTINUE {NEW_ID}\r\n"));
    let info = until(&mut client, "master_failover_state:no-failover");
    assert!(info.contains("role:slave"), "{info}");
    until(&mut client, &format!("master_replid:{NEW_ID}"));
}
