//! Tests of one worker that is stepped by hand, with a manual clock and clients over loopback.

use super::*;
use crate::clock::Clock;
use crate::config::{Config, find};
use std::io::{Read, Write};
use std::net::TcpStream as Socket;

const NOW: u64 = 1_700_000_000_000;
/// Number of iterations after which expected output counts as missing. Each waits at most for the
/// next periodic tasks.
const TURNS_MAX: usize = 200;

/// Marker for a closed connection in expected output.
const CLOSED: &str = "(closed)";
const HOUR_MS: u64 = 3_600_000;

fn server(settings: &[(&str, &str)]) -> (Arc<Server>, Listeners) {
    let config = Config::default();
    let own = [("port", "0"), ("bind", "127.0.0.1"), ("threads", "1")];
    for (name, value) in own.iter().chain(settings) {
        let param = find(name).expect("a setting of this name");
        config.set(param, value).expect("a value that fits");
    }
    let listeners = Listeners::bind(&config).expect("a free port");
    let server = Server::new(config, Clock::manual(NOW)).expect("valid settings");
    (Arc::new(server), listeners)
}

struct Bench<'s> {
    worker: Worker,
    executor: Executor<'s>,
    events: Events,
    address: SocketAddr,
}

impl<'s> Bench<'s> {
    fn new(server: &'s Arc<Server>, listeners: Listeners) -> Bench<'s> {
        let address = listeners.addresses(PortProtocol::Resp)[0];
        inbox::enter(0);
        Bench {
            worker: Worker::new(Arc::clone(server), 0, listeners).expect("a poll"),
            executor: Executor::new(server, 0, server.clock.now()),
            events: Events::with_capacity(EVENTS_MAX),
            address,
        }
    }

    fn client(&self) -> Socket {
        let socket = Socket::connect(self.address).expect("it listens");
        socket.set_nonblocking(true).expect("a socket");
        socket
    }

    fn turn(&mut self) {
        let stepped = self.worker.step(&mut self.events, &mut self.executor);
        stepped.expect("a poll that works");
        let inbox = &self.worker.server.inboxes[0];
        let sleeps_with_messages =
            inbox.is_filled() && !self.worker.timeout(&mut self.executor).is_zero();
        assert!(
            !sleeps_with_messages,
            "the worker sleeps although its inbox has messages"
        );
    }

    /// Sends commands and runs iterations until the expected number of reply bytes has arrived.
    fn send(&mut self, socket: &mut Socket, commands: &str, reply: &str) {
        socket
            .write_all(commands.as_bytes())
            .expect("there is room");
        self.expect_output(socket, reply);
    }

    fn expect_output(&mut self, socket: &mut Socket, expected: &str) {
        let mut got = Vec::new();
        let mut chunk = [0; 4096];
        for _ in 0..TURNS_MAX {
            match socket.read(&mut chunk) {
                Ok(0) => {
                    got.extend_from_slice(CLOSED.as_bytes());
                    break;
                }
                Ok(len) => got.extend_from_slice(&chunk[..len]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.turn(),
                Err(error) => panic!("{error}"),
            }
            if got.len() >= expected.len() {
                break;
            }
        }
        assert_eq!(String::from_utf8_lossy(&got), expected);
    }
}

#[test]
fn an_event_is_sent_before_the_worker_sleeps() {
    // Regression: with one worker, expiration events were added to the worker's own inbox after it
    // was emptied, and stayed there for up to 100 ms until the worker woke for another reason.
    let (server, listeners) = server(&[("notify-keyspace-events", "Ex")]);
    let mut bench = Bench::new(&server, listeners);
    let (mut listener, mut client) = (bench.client(), bench.client());
    bench.send(
        &mut listener,
        "SUBSCRIBE __keyevent@0__:expired\r\n",
        "*3\r\n$9\r\nsubscribe\r\n$22\r\n__keyevent@0__:expired\r\n:1\r\n",
    );
    bench.send(&mut client, "SET a 1 PX 50\r\n", "+OK\r\n");
    server.clock.set_ms(NOW + 51);
    let message = "*3\r\n$7\r\nmessage\r\n$22\r\n__keyevent@0__:expired\r\n$1\r\na\r\n";
    bench.expect_output(&mut listener, message);
}

#[test]
fn events_of_a_batch_under_one_lock_are_sent_before_the_worker_sleeps() {
    let (server, listeners) = server(&[("notify-keyspace-events", "E$")]);
    let mut bench = Bench::new(&server, listeners);
    let (mut listener, mut client) = (bench.client(), bench.client());
    bench.send(
        &mut listener,
        "SUBSCRIBE __keyevent@0__:set\r\n",
        "*3\r\n$9\r\nsubscribe\r\n$18\r\n__keyevent@0__:set\r\n:1\r\n",
    );
    bench.send(
        &mut client,
        &"SET a 1\r\n".repeat(20),
        &"+OK\r\n".repeat(20),
    );
    let message = "*3\r\n$7\r\nmessage\r\n$18\r\n__keyevent@0__:set\r\n$1\r\na\r\n";
    bench.expect_output(&mut listener, &message.repeat(20));
}

impl Bench<'_> {
    /// Sets the wall clock and runs the checks of clients.
    fn jump(&mut self, to_ms: u64) {
        self.worker.server.clock.set_ms(to_ms);
        self.check_clients();
    }

    /// Advances both clocks and runs the checks of clients.
    fn pass(&mut self, span_ms: u64) {
        self.worker.server.clock.pass_ms(span_ms);
        self.check_clients();
    }

    fn check_clients(&mut self) {
        self.executor.set_now(self.worker.server.clock.now());
        self.worker.check_clients(&mut self.executor);
        self.worker.release_held(&mut self.executor);
    }
}

#[test]
fn a_clock_jump_does_not_close_idle_clients() {
    let (server, listeners) = server(&[("timeout", "60")]);
    let mut bench = Bench::new(&server, listeners);
    let mut client = bench.client();
    bench.send(&mut client, "PING\r\n", "+PONG\r\n");
    bench.jump(NOW + HOUR_MS);
    bench.send(&mut client, "PING\r\n", "+PONG\r\n");
    // An idle client is not kept longer either.
    bench.jump(NOW - HOUR_MS);
    bench.pass(60_001);
    bench.expect_output(&mut client, CLOSED);
}

#[test]
fn a_clock_jump_does_not_change_a_pause() {
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let (mut client, mut other) = (bench.client(), bench.client());
    bench.send(&mut client, "CLIENT PAUSE 60000 WRITE\r\n", "+OK\r\n");
    bench.send(&mut other, "GET a\r\nSET a 1\r\n", "$-1\r\n");
    assert_eq!(bench.worker.held.len(), 1);
    bench.jump(NOW + HOUR_MS);
    assert_eq!(bench.worker.held.len(), 1, "the pause continues");
    bench.jump(NOW - HOUR_MS);
    bench.pass(60_000);
    bench.expect_output(&mut other, "+OK\r\n");
}

#[test]
fn a_clock_jump_does_not_count_towards_the_soft_limit() {
    let limit = "normal 0 1 60";
    let (server, listeners) = server(&[("client-output-buffer-limit", limit)]);
    let mut bench = Bench::new(&server, listeners);
    let mut client = bench.client();
    bench.send(&mut client, "PING\r\n", "+PONG\r\n");
    let mut message = crate::message::Publication::default();
    message.push(crate::message::Source::Channel, b"", b"");
    let connection = bench.worker.connection(0).expect("it is the first");
    connection.deliver(&message);
    for jumps in [NOW, NOW + HOUR_MS, NOW - HOUR_MS] {
        bench.jump(jumps);
        assert!(bench.worker.connection(0).is_some());
    }
    bench.pass(60_001);
    assert!(bench.worker.connection(0).is_none());
}

#[test]
fn many_held_clients_are_served_over_several_iterations() {
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let mut clients: Vec<Socket> = (0..100).map(|_| bench.client()).collect();
    bench.send(&mut clients[0], "CLIENT PAUSE 60000\r\n", "+OK\r\n");
    for client in &mut clients[1..] {
        client.write_all(b"INCR a\r\n").expect("there is room");
    }
    while bench.worker.held.len() < 99 {
        bench.turn();
    }
    server.clock.pass_ms(60_000);
    let timeout = bench.worker.timeout(&mut bench.executor);
    assert!(timeout.is_zero(), "the pause has ended");
    bench.turn();
    assert!(!bench.worker.held.is_empty());
    bench.turn();
    assert!(bench.worker.held.len() < 98);
    while !bench.worker.held.is_empty() {
        bench.turn();
    }
    bench.send(&mut clients[0], "GET a\r\n", "$2\r\n99\r\n");
}

#[test]
fn clients_that_leave_together_are_closed_over_several_iterations() {
    // Regression: 9,000 connections that closed at once delayed other clients by 85 ms.
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let mut other = bench.client();
    bench.send(&mut other, "PING\r\n", "+PONG\r\n");
    let mut clients: Vec<Socket> = (0..200).map(|_| bench.client()).collect();
    let connected = |bench: &Bench<'_>| bench.worker.connections.iter().flatten().count();
    while connected(&bench) < 201 {
        bench.turn();
    }
    for client in &mut clients {
        // Commands before the end are executed.
        client.write_all(b"INCR a\r\n").expect("there is room");
    }
    drop(clients);
    let mut last = connected(&bench);
    let mut turns = 0;
    while last > 1 {
        bench.turn();
        let left = connected(&bench);
        assert!(last - left <= 32, "{last} to {left} in one iteration");
        last = left;
        turns += 1;
        assert!(turns < 10_000);
    }
    bench.send(&mut other, "GET a\r\n", "$3\r\n200\r\n");
    assert_eq!(server.clients.len(), 1);
}

#[test]
fn clients_that_are_killed_together_are_closed_over_several_iterations() {
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let mut killer = bench.client();
    bench.send(&mut killer, "PING\r\n", "+PONG\r\n");
    let mut clients: Vec<Socket> = (0..100).map(|_| bench.client()).collect();
    for client in &mut clients {
        bench.send(client, "PING\r\n", "+PONG\r\n");
    }
    bench.send(&mut killer, "CLIENT KILL TYPE normal\r\n", ":100\r\n");
    assert!(!bench.worker.leaving.is_empty());
    for client in &mut clients {
        bench.expect_output(client, CLOSED);
    }
    assert_eq!(server.clients.len(), 1);
}

mod blocking;
mod replies;
mod tracking;
