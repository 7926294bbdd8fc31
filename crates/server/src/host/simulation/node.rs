//! A node of the simulated cluster: a server with real keys and a real host, whose file, network
//! and clients are simulated.

use super::store::{Access, Store};
use super::{KEYS, TURNS, Without, name};
use crate::host::{Host, MESSAGES_MAX, Message, follow};
use crate::net::connection::sync::Awaited;
use crate::routing::{self, How, Standing, WorkerRoutes};
use crate::state::Server;
use crate::{effects, importing};
use ::cluster::Name;
use durability::replication::ReplicaState;
use membership::copy::Copy;
use session::clock::Clock;
use settings::find;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use store::NewDeadline;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, yield_now};
use wire::slot::slot;

/// Time between two looks of a transaction at the routes.
const LOOK: Duration = Duration::from_micros(20);

/// Values of [`KEYS`], which grow; 0 for a key that does not exist.
pub type Values = [u64; KEYS.len()];

/// A reply that waits.
pub struct Waiting {
    /// Values that the reply reports or shows, or 0.
    pub shown: Values,
    pub awaited: Awaited,
}

/// A transaction of a client, which has been routed and has released its shards. It writes when it
/// has locked them again: at its end, or as soon as something waits for what was routed before.
pub struct Transaction {
    thread: JoinHandle<()>,
    end: Sender<()>,
}

pub struct Node {
    pub server: Arc<Server>,
    pub host: Host<Access>,
    pub inbox: mpsc::Receiver<Message>,
    pub follower: AbortHandle,
    /// Number of the process among all.
    pub process: u64,
    /// Percentage of real time that the node's clock advances, and its remainder.
    pub rate: u64,
    remainder: u64,
    pub paused_until: u64,
    pub waiting: Vec<Waiting>,
    /// The local copy in the node's file.
    pub saved: Option<Copy>,
    /// A local copy that is being written, and the instant at which it is in the file; `None` if
    /// the file system fails then.
    pub saving: Option<(u64, Option<Copy>)>,
    /// Instant at which the keys of other shards are removed.
    pub sweeps_at: Option<u64>,
    /// The keys since the beginning of a hold of writes, and the numbers of those that moves have
    /// stored and removed.
    held: Option<(Values, u64, u64)>,
}

/// Writes a key as a client does.
fn write(server: &Server, key: &str, value: u64) {
    let (space, text) = (&server.data.keyspace, value.to_string());
    let named = space.key(0, key.as_bytes());
    let mut view = space.lock_one(space.shard_of(&named), server.clock.now());
    view.set(&named, text.as_bytes(), NewDeadline::Clear);
    let words = [&b"SET"[..], key.as_bytes(), text.as_bytes()];
    server.feed.append(0, words.into_iter());
}

impl Node {
    /// Starts a process with what the former one has left in its file.
    pub fn start(
        (number, process): (usize, u64),
        store: &Store,
        rate: u64,
        saved: Option<Copy>,
    ) -> Node {
        let settings = settings::Config::default();
        for (name, value) in [
            ("cluster-enabled", "yes"),
            ("threads", "1"),
            ("databases", "1"),
        ] {
            let param = find(name).expect("a setting of this name");
            settings.set(param, value).expect("a value that fits");
        }
        let server = Server::new(settings, Clock::manual(1_700_000_000_000));
        let server = server.expect("valid settings");
        server.network.port.store(7_000 + number as u16, Relaxed);
        server.cluster.node_id.set(name(number)).expect("it is new");
        server.feed.set_backlog(1 << 20);
        {
            let mut view = server.data.keyspace.lock_all(server.clock.now());
            effects::set_feed(&server, &mut view, true);
        }
        let server = Arc::new(server);
        let (sender, inbox) = mpsc::channel(MESSAGES_MAX);
        let access = Arc::new(store.access(number));
        let host = Host::new(&server, access, sender.clone(), saved.clone());
        let (again, kv) = (Arc::clone(&host.again), Arc::clone(&host.kv));
        // Each turn of the tasks is a step of the world, so that a pause is a few of them.
        let pause = |_| async {
            for _ in 0..TURNS * 5 {
                yield_now().await;
            }
        };
        let latest = host.directory.revision();
        let follower = tokio::spawn(follow::follow(kv, sender, again, latest, pause));
        Node {
            server,
            host,
            inbox,
            follower: follower.abort_handle(),
            process,
            rate,
            remainder: 0,
            paused_until: 0,
            waiting: Vec::new(),
            saved,
            saving: None,
            sweeps_at: None,
            held: None,
        }
    }

    pub fn number(&self) -> usize {
        usize::from(self.server.network.port.load(Relaxed)) - 7_000
    }

    /// The state on which the node's part in its shard depends.
    pub fn describe(&self) -> String {
        let replication = &self.server.replication;
        let follows = |replica: &ReplicaState| {
            format!("{} to {} by {}", replica.port, replica.acked, replica.link)
        };
        let replicas: Vec<String> = replication.replicas().iter().map(follows).collect();
        let primary = replication.primary().map(|primary| primary.port);
        let moves = &self.server.cluster.moves;
        let place = self.server.cluster.seat.place();
        format!(
            "node {} follows {primary:?}, followed by {replicas:?}, feed to {}, keys {:?}, \
             term {} ({:?} in the file), {:?}\n  leaving {:?}\n  arriving {:?}",
            self.number(),
            self.server.feed.end(),
            self.values(),
            self.host.roles.term,
            self.saved.as_ref().map(|copy| copy.term),
            place.as_ref().map(|place| &place.member),
            moves.leaving().values(),
            moves.arriving(),
        )
    }

    pub fn pass_ms(&mut self, span_ms: u64) {
        self.remainder += span_ms * self.rate;
        self.server.clock.pass_ms(self.remainder / 100);
        self.remainder %= 100;
    }

    pub fn shard(&self) -> Option<Name> {
        self.host.roles.shard
    }

    /// Whether the node knows that it has all acknowledged writes.
    pub fn is_complete(&self) -> bool {
        let place = self.server.cluster.seat.place();
        place
            .as_ref()
            .is_some_and(|place| place.member.is_complete())
    }

    /// Whether the node may execute commands as the primary.
    pub fn is_fenced_in(&self) -> bool {
        let (cluster, is_replica) = (&self.server.cluster, self.server.replication.is_replica());
        !is_replica && routing::now(&self.server.clock) < cluster.fence()
    }

    /// Whether writes are held, for a failover for example.
    pub fn holds_writes(&self) -> bool {
        importing::holds_writes(&self.server)
    }

    /// Whether a worker executes a write of a key.
    pub fn executes(&self, key: &str, without: Without) -> bool {
        let is_primary = !self.server.replication.is_replica();
        let is_fenced_in = self.is_fenced_in() || without == Without::Fence && is_primary;
        let standing = Standing {
            is_fenced_in,
            is_fresh: false,
        };
        let routes = self.server.cluster.routes();
        let check = routes.check(slot(key.as_bytes()), How::Write, standing);
        check.is_ok() && !self.holds_writes()
    }

    /// Returns the value of a key; 0 if it does not exist.
    pub fn value(&self, key: &str) -> u64 {
        let space = &self.server.data.keyspace;
        let key = space.key(0, key.as_bytes());
        let mut view = space.lock_one(space.shard_of(&key), self.server.clock.now());
        let value = view.peek(&key).expect("a string");
        let text = value.map(|value| std::str::from_utf8(value).expect("a number"));
        text.map_or(0, |text| text.parse().expect("a number"))
    }

    pub fn values(&self) -> Values {
        KEYS.map(|key| self.value(key))
    }

    /// Replaces all keys, as a snapshot does.
    pub fn load(&self, values: Values) {
        let space = &self.server.data.keyspace;
        for (key, value) in KEYS.into_iter().zip(values) {
            let key = space.key(0, key.as_bytes());
            let mut view = space.lock_one(space.shard_of(&key), self.server.clock.now());
            match value {
                0 => _ = view.delete(&key),
                _ => view.set(&key, value.to_string().as_bytes(), NewDeadline::Clear),
            }
        }
    }

    pub fn write(&self, key: &str, value: u64) {
        write(&self.server, key, value);
    }

    /// Begins a transaction, whose end must be awaited in this step of the world.
    pub fn begin_transaction(&self, key: &'static str, value: u64) -> Transaction {
        let server = Arc::clone(&self.server);
        let (begun, has_begun) = channel();
        let (end, has_ended) = channel();
        let thread = std::thread::spawn(move || {
            let worker = WorkerRoutes::new(&server.cluster, 0);
            worker.begin();
            let serial = server.cluster.serial();
            begun.send(()).expect("it is awaited");
            while server.cluster.serial() == serial
                && has_ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout)
            {}
            write(&server, key, value);
        });
        has_begun.recv().expect("the thread has begun");
        Transaction { thread, end }
    }

    /// Whatever holds writes must keep the keys as they are.
    pub fn check_hold(&mut self) -> Result<(), String> {
        if !self.holds_writes() {
            self.held = None;
            return Ok(());
        }
        let moves = &self.server.cluster.moves;
        let (received, swept) = (&moves.received_keys, &moves.swept_keys);
        let keys = (self.values(), received.load(Relaxed), swept.load(Relaxed));
        let held = *self.held.get_or_insert(keys);
        match held == keys {
            true => Ok(()),
            false => Err(format!(
                "node {}: keys change from {held:?} to {keys:?} while writes are held",
                self.number()
            )),
        }
    }

    /// Writes the local copy that is due, with delays and failures.
    pub fn save(&mut self, now: u64, delay_ms: u64, fails: bool) {
        if let Some((_, copy)) = self.saving.take_if(|(at, _)| *at <= now) {
            let term = copy.as_ref().map(|copy| copy.term);
            self.saved = copy.or(self.saved.take());
            self.host.saved(term.ok_or_else(|| "no space".to_owned()));
        }
        if let Some(copy) = self.host.copy_to_save() {
            self.saving = Some((now + delay_ms, (!fails).then_some(copy)));
        }
    }
}

impl Transaction {
    /// Waits until the transaction has written.
    pub fn end(self) {
        // It may have ended already.
        let _ = self.end.send(());
        self.thread.join().expect("the transaction does not panic");
    }
}
