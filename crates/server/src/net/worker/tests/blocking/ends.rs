//! Tests of the ends of waits: clients that are killed or disconnect are not served, and no element
//! is lost.

use super::*;
use policy::parts::chance::Chance;
use std::collections::BTreeMap;

/// Each command that can block, the command that serves it, and the command that counts the
/// elements which it would remove, with its reply after the first one.
const CALLS: &[(&str, &str, &str)] = &[
    ("BLPOP k 0", "RPUSH k a", "LLEN k"),
    ("BRPOP other k 0", "RPUSH k a", "LLEN k"),
    ("BLMOVE k to LEFT LEFT 0", "RPUSH k a", "LLEN k"),
    ("BRPOPLPUSH k to 0", "RPUSH k a", "LLEN k"),
    ("BLMPOP 0 2 k other LEFT COUNT 3", "RPUSH k a", "LLEN k"),
    ("BZPOPMIN k 0", "ZADD k 1 a", "ZCARD k"),
    ("BZPOPMAX other k 0", "ZADD k 1 a", "ZCARD k"),
    ("BZMPOP 0 1 k MIN", "ZADD k 1 a", "ZCARD k"),
    (
        "XREADGROUP GROUP g c BLOCK 0 NOACK STREAMS s >",
        "XADD s 1-1 f v",
        "XREADGROUP GROUP g d STREAMS s >",
    ),
];

const READ: &str = "*1\r\n*2\r\n$1\r\ns\r\n*1\r\n*2\r\n$3\r\n1-1\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n";

/// Returns the replies to a serving command and to the command that counts the elements.
fn replies(push: &str) -> (&'static str, &'static str) {
    match push.starts_with("XADD") {
        true => ("$3\r\n1-1\r\n", READ),
        false => (":1\r\n", ":1\r\n"),
    }
}

/// Logs a client in as the user `u` and blocks it with a command. Returns its id.
fn block(bench: &mut Bench<'_>, client: &mut Socket, call: &str) -> u64 {
    bench.send(client, "AUTH u x\r\n", "+OK\r\n");
    bench.send(client, &format!("{call}\r\n"), "");
    let server = &bench.worker.server;
    let blocked = server.clients.blocking.list();
    assert_eq!(blocked.len(), 1, "{call}");
    blocked[0].info.id
}

const USER: &str = "ACL SETUSER u on nopass ~* +@all\r\n";

/// A killed client waited in the queues of its keys until its worker had handled the message, and a
/// push in between gave it the element.
#[test]
fn a_killed_client_is_not_served_by_the_next_command() {
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let mut admin = bench.client();
    bench.send(&mut admin, USER, "+OK\r\n");
    for (call, push, count) in CALLS {
        let (pushed, left) = replies(push);
        for way in ["ID", "ADDR", "USER", "TYPE", "MAXAGE", "OLD", "DELUSER"] {
            bench.send(&mut admin, "FLUSHALL\r\n", "+OK\r\n");
            bench.send(&mut admin, "XGROUP CREATE s g $ MKSTREAM\r\n", "+OK\r\n");
            let mut client = bench.client();
            let id = block(&mut bench, &mut client, call);
            bench.pass(2_000);
            let address = client.local_addr().expect("it is connected");
            let (kill, killed) = match way {
                "ID" => (format!("CLIENT KILL ID {id}"), ":1\r\n"),
                "ADDR" => (format!("CLIENT KILL ADDR {address}"), ":1\r\n"),
                "USER" => ("CLIENT KILL USER u".to_owned(), ":1\r\n"),
                "TYPE" => ("CLIENT KILL TYPE normal SKIPME yes".to_owned(), ":1\r\n"),
                "MAXAGE" => ("CLIENT KILL MAXAGE 1".to_owned(), ":1\r\n"),
                "OLD" => (format!("CLIENT KILL {address}"), "+OK\r\n"),
                _ => ("ACL DELUSER u".to_owned(), ":1\r\n"),
            };
            let commands = format!("{kill}\r\n{push}\r\n{count}\r\n");
            bench.send(&mut admin, &commands, &format!("{killed}{pushed}{left}"));
            bench.expect_output(&mut client, CLOSED);
            assert!(server.clients.blocking.is_empty(), "{call} {way}");
            bench.send(&mut admin, USER, "+OK\r\n");
        }
    }
    assert_eq!(server.data.keyspace.waited_keys(), 0);
}

#[test]
fn a_transaction_that_kills_a_client_does_not_serve_it() {
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let mut admin = bench.client();
    bench.send(&mut admin, USER, "+OK\r\n");
    for (call, push, count) in CALLS {
        let (pushed, left) = replies(push);
        for kills_first in [true, false] {
            bench.send(&mut admin, "FLUSHALL\r\n", "+OK\r\n");
            bench.send(&mut admin, "XGROUP CREATE s g $ MKSTREAM\r\n", "+OK\r\n");
            let mut client = bench.client();
            block(&mut bench, &mut client, call);
            let kill = "CLIENT KILL TYPE normal";
            let (first, second, replies) = match kills_first {
                true => (kill, *push, format!(":1\r\n{pushed}")),
                false => (*push, kill, format!("{pushed}:1\r\n")),
            };
            let commands = format!("MULTI\r\n{first}\r\n{second}\r\nEXEC\r\n{count}\r\n");
            let replies = format!("+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n{replies}{left}");
            bench.send(&mut admin, &commands, &replies);
            bench.expect_output(&mut client, CLOSED);
        }
    }
}

#[test]
fn a_client_that_is_killed_after_it_was_served_receives_the_element() {
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let (mut admin, mut client) = (bench.client(), bench.client());
    bench.send(&mut client, "BLPOP k 0\r\nINCR n\r\n", "");
    let commands = "RPUSH k a\r\nCLIENT KILL TYPE normal\r\nEXISTS k n\r\n";
    bench.send(&mut admin, commands, ":1\r\n:1\r\n:0\r\n");
    bench.expect_output(&mut client, &(popped("k", "a") + CLOSED));
    bench.send(&mut admin, "EXISTS n\r\n", ":0\r\n");
}

#[test]
fn a_killed_client_is_neither_listed_nor_unblocked() {
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let (mut admin, mut client) = (bench.client(), bench.client());
    bench.send(&mut client, "BLPOP k 0\r\n", "");
    let id = server.clients.blocking.list()[0].info.id;
    let commands = format!(
        "CLIENT KILL ID {id}\r\nCLIENT LIST ID {id}\r\nCLIENT UNBLOCK {id}\r\nCLIENT KILL ID {id}\r\n"
    );
    bench.send(&mut admin, &commands, ":1\r\n$0\r\n\r\n:0\r\n:0\r\n");
    bench.expect_output(&mut client, CLOSED);
    assert!(server.clients.blocking.is_empty());
}

#[test]
fn commands_of_a_killed_client_are_not_executed() {
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let (mut admin, mut client) = (bench.client(), bench.client());
    bench.send(&mut admin, "PING\r\n", "+PONG\r\n");
    bench.send(&mut client, "PING\r\n", "+PONG\r\n");
    // Both commands arrive in one iteration, that of the administrator first.
    let commands = b"CLIENT KILL TYPE normal\r\nRPUSH k a\r\n";
    admin.write_all(commands).expect("there is room");
    client.write_all(b"LPOP k\r\n").expect("there is room");
    bench.expect_output(&mut admin, ":1\r\n:1\r\n");
    while server.clients.registry.len() > 1 {
        bench.turn();
    }
    bench.send(&mut admin, "LLEN k\r\n", ":1\r\n");
}

/// Runs iterations of only the second worker, until one of its clients has received the expected
/// reply.
fn expect_from_second(pair: &mut Pair<'_>, socket: &mut Socket, expected: &str) {
    let (mut got, mut chunk) = (Vec::new(), [0; 4096]);
    for _ in 0..TURNS_MAX {
        pair.step(1);
        if let Ok(len) = socket.read(&mut chunk) {
            got.extend_from_slice(&chunk[..len]);
        }
        if got.len() >= expected.len() {
            break;
        }
    }
    assert_eq!(String::from_utf8_lossy(&got), expected);
}

/// The socket of a client belongs to one worker. Others served the client until that worker had
/// read the end of the input, and the element was lost.
#[test]
fn a_client_whose_disconnection_has_arrived_is_not_served_by_another_worker() {
    let (server, listeners) = server(&[("threads", "2")]);
    let mut pair = Pair::new(&server, listeners);
    for (call, push, count) in CALLS {
        let (pushed, left) = replies(push);
        let (mut client, mut pusher) = (pair.client(), pair.client());
        let workers: Vec<usize> = server
            .clients
            .registry
            .list()
            .iter()
            .map(|info| info.worker)
            .collect();
        assert_eq!(workers, [0, 1]);
        pair.send(&mut pusher, "XGROUP CREATE s g $ MKSTREAM\r\n", "+OK\r\n");
        // Input before the end is not read.
        pair.send(&mut client, &format!("{call}\r\n"), "");
        assert_eq!(server.clients.blocking.len(), 1);
        client.write_all(b"PING\r\n").expect("there is room");
        drop(client);
        let commands = format!("{push}\r\n{count}\r\n");
        pusher
            .write_all(commands.as_bytes())
            .expect("there is room");
        expect_from_second(&mut pair, &mut pusher, &format!("{pushed}{left}"));
        while !server.clients.blocking.is_empty() {
            pair.turn();
        }
        pair.send(&mut pusher, "FLUSHALL\r\n", "+OK\r\n");
        drop(pusher);
        while !server.clients.registry.is_empty() {
            pair.turn();
        }
    }
}

#[test]
fn a_reply_that_another_worker_has_sent_arrives_before_the_connection_is_closed() {
    let (server, listeners) = server(&[("threads", "2")]);
    let mut pair = Pair::new(&server, listeners);
    let (mut client, mut pusher) = (pair.client(), pair.client());
    let mut seen = Vec::new();
    for number in 0..2 {
        pair.send(&mut client, "BLPOP k 0\r\nINCR n\r\n", "");
        let info = Arc::clone(&server.clients.blocking.list()[0].info);
        seen.push(info.id);
        // The message to disconnect the client comes before the reply, although the client was
        // served before it was killed: another thread has sent the message meanwhile.
        server.workers.inboxes[0].push(1, Message::Kill(info.slot, info.id));
        let element = number.to_string();
        let push = format!("RPUSH k {element}\r\n");
        pusher.write_all(push.as_bytes()).expect("there is room");
        expect_from_second(&mut pair, &mut pusher, ":1\r\n");
        pair.expect_output(&mut client, &(popped("k", &element) + CLOSED));
        assert_eq!(server.clients.registry.len(), 1);
        client = pair.client();
    }
    pair.send(&mut pusher, "EXISTS k n\r\n", ":0\r\n");
    assert_ne!(seen[0], seen[1]);
}

/// Clients that block on two keys, and the fate of the elements pushed to these.
struct Model<'s> {
    pair: Pair<'s>,
    /// Clients that may receive elements, with their ids.
    clients: Vec<(u64, Socket)>,
    admins: [Socket; 2],
    /// Number of deliveries by element.
    delivered: BTreeMap<String, u32>,
    pushed: u32,
}

impl Model<'_> {
    fn add_client(&mut self) {
        let mut socket = self.pair.client();
        let server = Arc::clone(&self.pair.benches[0].worker.server);
        let id = server.clients.registry.list().last().expect("a client").id;
        let call = [
            "BLPOP k j 0\r\n",
            "BLMPOP 0 2 j k RIGHT\r\n",
            "BRPOP j 0\r\n",
        ][id as usize % 3];
        // The next commands run once the first one was served.
        let commands = call.repeat(3);
        socket
            .write_all(commands.as_bytes())
            .expect("there is room");
        self.clients.push((id, socket));
    }

    /// Adds what a client has received to the deliveries. Returns whether it is disconnected.
    fn receive(&mut self, at: usize) -> bool {
        let mut chunk = [0; 4096];
        loop {
            match self.clients[at].1.read(&mut chunk) {
                Ok(0) => return true,
                Ok(len) => {
                    let text = String::from_utf8_lossy(&chunk[..len]).into_owned();
                    for word in text.split("\r\n").filter(|word| word.starts_with('e')) {
                        *self.delivered.entry(word.to_owned()).or_default() += 1;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                Err(_) => return true,
            }
        }
    }

    fn push(&mut self, key: &str) -> String {
        self.pushed += 1;
        format!("RPUSH {key} e{}\r\n", self.pushed)
    }

    fn act(&mut self, chance: &mut Chance) {
        let admin = chance.below(2) as usize;
        let at = chance.below(self.clients.len() as u64) as usize;
        let id = self.clients[at].0;
        let key = ["k", "j"][chance.below(2) as usize];
        let kill = format!("CLIENT KILL ID {id}\r\n");
        let commands = match chance.below(8) {
            0 => kill,
            1 => kill + &self.push(key),
            2 => self.push(key) + &kill,
            3 => {
                let (first, second) = (self.push(key), self.push(key));
                format!("MULTI\r\n{first}{kill}{second}EXEC\r\n")
            }
            4 => format!("CLIENT UNBLOCK {id}\r\n{}", self.push(key)),
            5 => {
                // Only a client that was not served loses nothing by its disconnection.
                let server = &self.pair.benches[0].worker.server;
                if server.clients.blocking.get(id).is_none() {
                    return;
                }
                self.receive(at);
                self.clients.swap_remove(at);
                self.add_client();
                self.push(key)
            }
            _ => self.push(key),
        };
        let written = self.admins[admin].write_all(commands.as_bytes());
        written.expect("there is room");
    }
}

/// Regression: elements were popped for clients that were killed or had disconnected. The workers
/// are stepped in a random order, so that messages meet in every order.
#[test]
fn each_element_is_in_its_list_or_with_one_client_whichever_clients_are_killed() {
    for seed in 0..8 {
        let (server, listeners) = server(&[("threads", "2")]);
        let mut pair = Pair::new(&server, listeners);
        let admins = [pair.client(), pair.client()];
        let mut model = Model {
            pair,
            clients: Vec::new(),
            admins,
            delivered: BTreeMap::new(),
            pushed: 0,
        };
        let mut chance = Chance::new(seed);
        (0..4).for_each(|_| model.add_client());
        for _ in 0..150 {
            match chance.below(3) {
                0 => model.act(&mut chance),
                worker => {
                    // It does not wait for events.
                    server.workers.wake_all();
                    model.pair.step(worker as usize - 1);
                }
            }
            for at in (0..model.clients.len()).rev() {
                if model.receive(at) {
                    model.clients.swap_remove(at);
                    model.add_client();
                }
            }
            // Replies of the administrators are not needed.
            let mut chunk = [0; 4096];
            model
                .admins
                .iter_mut()
                .for_each(|admin| drop(admin.read(&mut chunk)));
        }
        for _ in 0..20 {
            server.workers.wake_all();
            model.pair.turn();
        }
        for at in 0..model.clients.len() {
            model.receive(at);
        }
        let mut session = Session::new();
        for key in ["k", "j"] {
            let mut out = Vec::new();
            let args = [&b"LRANGE"[..], key.as_bytes(), b"0", b"-1"];
            crate::dispatch::exec(&server, &mut session, &args, server.clock.now(), &mut out);
            let text = String::from_utf8_lossy(&out).into_owned();
            for word in text.split("\r\n").filter(|word| word.starts_with('e')) {
                *model.delivered.entry(word.to_owned()).or_default() += 1;
            }
        }
        for number in 1..=model.pushed {
            let count = model.delivered.get(&format!("e{number}")).copied();
            assert_eq!(count, Some(1), "seed {seed}: element {number}");
        }
    }
}
