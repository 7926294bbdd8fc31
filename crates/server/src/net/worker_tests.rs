//! One worker, led by hand turn by turn: its clock stands still, its clients come over loopback.

use super::*;
use crate::clock::Clock;
use crate::config::{Config, find};
use std::io::{Read, Write};
use std::net::TcpStream as Socket;

const NOW: u64 = 1_700_000_000_000;
/// Turns after which what has not come never will: each waits for the next chores at most.
const TURNS_MAX: usize = 200;

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
        let address = listeners.addresses()[0];
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
        let has_slept_on_it =
            inbox.is_filled() && !self.worker.timeout(&mut self.executor).is_zero();
        assert!(
            !has_slept_on_it,
            "messages would lie until something else wakes the worker"
        );
    }

    /// Sends commands and takes turns until so many bytes of replies have come.
    fn say(&mut self, socket: &mut Socket, commands: &str, reply: &str) {
        socket
            .write_all(commands.as_bytes())
            .expect("there is room");
        self.hear(socket, reply);
    }

    fn hear(&mut self, socket: &mut Socket, expected: &str) {
        let mut got = Vec::new();
        let mut chunk = [0; 4096];
        for _ in 0..TURNS_MAX {
            match socket.read(&mut chunk) {
                Ok(0) => break,
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
    // With one worker, what expired went into the worker's own inbox after it had been emptied, and nothing
    // said so: the event lay there until chores or a client woke the worker, up to 100 ms.
    let (server, listeners) = server(&[("notify-keyspace-events", "Ex")]);
    let mut bench = Bench::new(&server, listeners);
    let (mut listener, mut client) = (bench.client(), bench.client());
    bench.say(
        &mut listener,
        "SUBSCRIBE __keyevent@0__:expired\r\n",
        "*3\r\n$9\r\nsubscribe\r\n$22\r\n__keyevent@0__:expired\r\n:1\r\n",
    );
    bench.say(&mut client, "SET a 1 PX 50\r\n", "+OK\r\n");
    server.clock.set_ms(NOW + 51);
    let message = "*3\r\n$7\r\nmessage\r\n$22\r\n__keyevent@0__:expired\r\n$1\r\na\r\n";
    bench.hear(&mut listener, message);
}

#[test]
fn events_of_a_batch_under_one_lock_are_sent_before_the_worker_sleeps() {
    let (server, listeners) = server(&[("notify-keyspace-events", "E$")]);
    let mut bench = Bench::new(&server, listeners);
    let (mut listener, mut client) = (bench.client(), bench.client());
    bench.say(
        &mut listener,
        "SUBSCRIBE __keyevent@0__:set\r\n",
        "*3\r\n$9\r\nsubscribe\r\n$18\r\n__keyevent@0__:set\r\n:1\r\n",
    );
    bench.say(
        &mut client,
        &"SET a 1\r\n".repeat(20),
        &"+OK\r\n".repeat(20),
    );
    let message = "*3\r\n$7\r\nmessage\r\n$18\r\n__keyevent@0__:set\r\n$1\r\na\r\n";
    bench.hear(&mut listener, &message.repeat(20));
}
