//! The host of the cluster's rules: one thread that follows the records in etcd, registers this
//! node, drives its state machine (`cluster::Member`), and carries out what follows: it beats,
//! campaigns, changes the role of the server, moves the fence, and installs topologies.
//!
//! ```text
//! follow.rs    reads all records, then follows changes; anything unexpected begins again
//! register.rs  the lease of this node, its registration, its shard
//! terms.rs     records and transactions, as the rules and as etcd have them
//! lead.rs      what a primary does for its replicas
//! confirm.rs   replies that wait for replicas
//! change.rs    failovers that are requested
//! moves.rs     moves of slots between shards
//! roles.rs     the role of the server, the fence, the topology, the local copy
//! access.rs    settings
//! ```
//!
//! All state is on one thread. Requests to etcd are tasks of its runtime that report their results
//! as messages, so that a slow etcd delays nothing else: promises of replicas extend the fence
//! meanwhile ([`crate::seat`]).

mod access;
mod change;
mod confirm;
mod follow;
mod lead;
mod moves;
mod register;
mod roles;
#[cfg(test)]
mod simulation;
mod terms;

pub use access::{access, check};

use crate::cluster;
use crate::movement::Request;
use crate::routing;
use crate::state::Server;
use ::cluster::{Instant, Name, Revision, Transaction};
use change::Change;
use confirm::Silent;
use lead::Lead;
use membership::copy::Copy;
use membership::directory::Directory;
use membership::etcd::Etcd;
use membership::kv::{Event, Failure, Kv, Snapshot};
use moves::Moving;
use register::Registering;
use roles::Roles;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::time::sleep;

/// Maximum number of messages that wait. Tasks with more wait themselves.
const MESSAGES_MAX: usize = 256;
/// Maximum number of different failures of etcd that are logged until it answers again.
const FAILURES_MAX: usize = 16;
/// Bounds of the time between two steps without a message, in milliseconds.
const STEP_MS: std::ops::RangeInclusive<u64> = 10..=100;
/// Number of steps in a lease.
const STEPS: u64 = 50;
/// Time between two steps while a shard is handed over or slots move.
const HURRIED_STEP: Duration = Duration::from_millis(2);

/// What a task reports.
enum Message {
    /// All records.
    Snapshot(Snapshot),
    /// Changes of records.
    Events(Vec<Event>),
    /// The records are not followed for now.
    Lost(Failure),
    /// Outcome of a transaction, with the record that it writes: its revision, if it applied.
    Outcome(Transaction, Option<Record>, Result<Option<i64>, Failure>),
    /// Outcome of a registration: the lease, and whether the registration applied.
    Registered(Result<(i64, bool), Failure>),
    /// Whether this node became the first primary of its shard.
    Claimed(Result<Option<i64>, Failure>),
    /// A request for a failover was written or removed.
    Requested(Result<Option<i64>, Failure>),
    /// Outcome of a transaction about a move.
    Moved(Name, Result<Option<i64>, Failure>),
    /// Outcome of a transaction about moves that a client has requested.
    Wished(Request, Result<Option<i64>, Failure>),
    /// The keys of other shards were removed.
    Swept,
    /// The local copy was written, with a term.
    Saved(Result<u64, String>),
}

/// Name and value of a record.
type Record = (String, String);

/// State of the thread.
struct Host<K> {
    server: Arc<Server>,
    kv: Arc<K>,
    me: Name,
    sender: mpsc::Sender<Message>,
    /// Requests that all records are read again.
    again: Arc<Notify>,
    directory: Directory,
    /// Whether the records are followed.
    is_connected: bool,
    /// Whether records have changed that the rules have not read.
    has_news: bool,
    /// Whether a claim of a shard without a primary is under way.
    is_claiming: bool,
    /// Number of beats that this process has sent.
    beats: u64,
    /// Failures of etcd since the records were last followed, each of which is logged once.
    failures: BTreeSet<String>,
    registering: Registering,
    lead: Lead,
    silent: Silent,
    change: Option<Change>,
    moving: Moving,
    /// Revision up to which all changes of records were read.
    followed: Revision,
    /// Revision of the last record that this node has written and noted before its change arrived.
    noted: Revision,
    /// Revision of the last request for a failover whose removal was sent.
    removed_request: i64,
    roles: Roles,
}

/// Reads the local copy before clients are served: the node keeps its name, and installs the last
/// topology.
///
/// # Errors
/// The file exists and cannot be read.
pub fn prepare(server: &Server) -> Result<(), String> {
    if !server.cluster.is_routed() {
        return Ok(());
    }
    roles::prepare(server)
}

/// Runs the host until the server stops.
///
/// # Errors
/// The settings cannot be used, or the runtime cannot be created.
pub fn run(server: &Arc<Server>) -> Result<(), String> {
    let access = access(&server.config)?;
    let etcd = Etcd::new(&access).map_err(|invalid| invalid.0)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| format!("the cluster's runtime: {error}"))?;
    runtime.block_on(async {
        let (sender, inbox) = mpsc::channel(MESSAGES_MAX);
        // A file that cannot be read has prevented the start.
        let copy = roles::stored(server).ok().flatten();
        let host = Host::new(server, Arc::new(etcd), sender, copy);
        host.run(inbox).await;
        Ok(())
    })
}

impl<K: Kv> Host<K> {
    fn new(
        server: &Arc<Server>,
        kv: Arc<K>,
        sender: mpsc::Sender<Message>,
        copy: Option<Copy>,
    ) -> Host<K> {
        let me = cluster::id(server);
        let (directory, roles) = roles::restored(server, me, copy);
        Host {
            server: Arc::clone(server),
            kv,
            me,
            sender,
            again: Arc::new(Notify::new()),
            directory,
            is_connected: false,
            has_news: false,
            is_claiming: false,
            beats: 0,
            failures: BTreeSet::new(),
            registering: Registering::default(),
            lead: Lead::default(),
            silent: Silent::default(),
            change: None,
            moving: Moving::default(),
            followed: Revision(0),
            noted: Revision(0),
            removed_request: 0,
            roles,
        }
    }

    async fn run(mut self, mut inbox: mpsc::Receiver<Message>) {
        let (kv, sender) = (Arc::clone(&self.kv), self.sender.clone());
        let again = Arc::clone(&self.again);
        let latest = self.directory.revision();
        tokio::spawn(follow::follow(kv, sender, again, latest, sleep));
        while !self.server.lifecycle.stops() {
            tokio::select! {
                message = inbox.recv() => {
                    let Some(message) = message else { return };
                    self.take(message);
                    while let Ok(message) = inbox.try_recv() {
                        self.take(message);
                    }
                }
                () = sleep(self.pause()) => {}
            }
            self.step();
            self.save();
            self.start_threads();
        }
    }

    /// Time until the next step if there is no message.
    fn pause(&self) -> Duration {
        if self.change.is_some() || self.server.cluster.moves.is_active() {
            return HURRIED_STEP;
        }
        let lease_ms = self
            .directory
            .config()
            .map_or(u64::MAX, |config| config.lease_ms);
        let step_ms = (lease_ms / STEPS).clamp(*STEP_MS.start(), *STEP_MS.end());
        Duration::from_millis(step_ms)
    }

    fn now(&self) -> Instant {
        routing::now(&self.server.clock)
    }

    fn take(&mut self, message: Message) {
        let read_at = &self.server.cluster.seat.read_at_ms;
        match message {
            Message::Snapshot(snapshot) => {
                read_at.store(self.now().0, Relaxed);
                self.directory.load(snapshot.revision, snapshot.entries);
                self.follow_to(snapshot.revision);
                self.is_claiming = false;
                self.connected();
                self.noted(true);
            }
            Message::Events(events) => {
                read_at.store(self.now().0, Relaxed);
                let is_beat = |event: &Event| match event {
                    Event::Put(entry) => entry.key.starts_with(membership::records::BEATS),
                    Event::Delete(_) => false,
                };
                let changes_topology = !events.iter().all(is_beat);
                let puts = events.iter().filter_map(|event| match event {
                    Event::Put(entry) => Some(entry.revision),
                    Event::Delete(_) => None,
                });
                if let Some(revision) = puts.max() {
                    self.follow_to(revision);
                }
                self.directory.apply_all(events);
                self.noted(changes_topology);
            }
            Message::Lost(failure) => self.lost(failure),
            Message::Outcome(transaction, record, result) => {
                self.settle(&transaction, record, result);
            }
            Message::Registered(result) => self.registered(result),
            Message::Claimed(result) => self.claimed(result),
            Message::Requested(result) => self.requested(result),
            Message::Moved(id, result) => self.moved(id, result),
            Message::Wished(request, result) => self.wished(&request, result),
            Message::Swept => self.swept(),
            Message::Saved(result) => self.saved(result),
        }
    }

    fn follow_to(&mut self, revision: i64) {
        self.followed = self.followed.max(Revision(revision as u64));
    }

    fn noted(&mut self, changes_topology: bool) {
        self.has_news = true;
        self.roles.is_stale |= changes_topology;
        self.moving.is_stale |= changes_topology;
        let refused = &self.server.cluster.seat.refused_records;
        if refused.swap(self.directory.refused(), Relaxed) != self.directory.refused() {
            for (key, problem) in self.directory.problems() {
                log::warn!("cluster: record {key} is not used: {problem}");
            }
        }
    }

    fn connected(&mut self) {
        if !std::mem::replace(&mut self.is_connected, true) {
            log::info!("cluster: following the records at {}", self.kv.endpoint());
        }
        self.failures.clear();
        self.server.cluster.seat.is_connected.store(true, Relaxed);
        if self.directory.config().is_none() {
            log::warn!("cluster: there is no cluster yet: expected 'mayfly cluster init'");
        }
    }

    fn lost(&mut self, failure: Failure) {
        let seat = &self.server.cluster.seat;
        seat.etcd_errors.fetch_add(1, Relaxed);
        self.is_connected = false;
        seat.is_connected.store(false, Relaxed);
        let is_new = !self.failures.contains(&failure.0);
        if is_new && self.failures.len() < FAILURES_MAX {
            log::warn!("cluster: etcd: {failure}; the node goes on with the records that it has");
            self.failures.insert(failure.0);
        }
    }

    /// Does everything that is due, except for what files and threads do.
    fn step(&mut self) {
        let now = self.now();
        self.register(now);
        self.sit(now);
        if std::mem::take(&mut self.has_news) {
            self.read(now);
        }
        self.lead(now);
        self.confirm(now);
        self.pursue_change(now);
        self.tick(now);
        self.reconcile(now);
        self.pursue_moves(now);
    }

    /// Begins a task that reports its result.
    fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
        message: impl FnOnce(T) -> Message + Send + 'static,
    ) {
        let sender = self.sender.clone();
        tokio::spawn(async move {
            let result = task.await;
            // The receiver ends with the server.
            let _ = sender.send(message(result)).await;
        });
    }
}
