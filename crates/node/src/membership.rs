//! Membership of a cluster in etcd: registration of this node, changes by other nodes, and new
//! versions of the map.
//!
//! ```text
//! nodes/ID   registration of a node under its lease       (every node)
//! map        current version, see `record.rs`             (coordinator)
//! leave/ID   request of an operator to remove a node
//! ```
//!
//! A *session* registers the node, reads all values, and then follows changes from the next
//! revision. Any failure ends the session, and the next session reads everything again. Lost
//! connections, compactions and lost leases are therefore all handled in the same way. Between
//! sessions, the node serves with the last map, which is also stored in a file, so that a node can
//! start without etcd.
//!
//! Leases are renewed based on durations, and only etcd decides when one has ended. An instant of
//! one machine's clock is never compared with an instant of another's.
//!
//! The crate `membership` has the interface to the store of values and the client of etcd.
//! `record.rs` is the encoding of the values, `state.rs` the rules, and `balance.rs` the rules for
//! writes that have drifted from the weights. [`crate::cluster`] uses the maps.

pub mod balance;
pub mod record;
pub mod state;
#[cfg(test)]
mod tests;

use crate::config::Server;
use ::membership::kv::{Changes, Event, Failure, Guard, Kv, Write};
use balance::Balance;
use edge::{BucketWrites, ServerId};
use record::{Record, registration};
use state::{Due, State, node_key};
use std::collections::BTreeSet;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, interval_at, sleep, sleep_until};

/// Time between a change of the registered nodes and the next map, so that changes in quick
/// succession result in one version.
const SETTLE_TIME: Duration = Duration::from_secs(1);
/// Time before a map that could not be made is tried again.
const PROBLEM_TIME: Duration = Duration::from_secs(10);
/// Shortest and longest pause between two sessions. After a session that was established, the pause
/// starts at the shortest again.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(2)];
/// Time within which a map that another node has must arrive by the watch. After that the session
/// starts again, because the endpoint may have stopped receiving changes.
const WAKE_TIME: Duration = Duration::from_secs(10);

/// User of the maps.
pub trait Host: Send + Sync + 'static {
    /// Installs a map, which is newer than all previous ones.
    fn install(&self, record: &Arc<Record>);

    /// Returns the bytes that the nodes have counted for each bucket; may be empty.
    fn loads(&self) -> impl Future<Output = Counted> + Send;
}

/// Bytes that nodes have counted for each bucket.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// Bytes by bucket.
    pub writes: Vec<BucketWrites>,
    /// Whether all nodes have answered.
    pub is_complete: bool,
}

/// State of the membership for operators.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Status {
    /// Endpoint that was used most recently.
    pub endpoint: String,
    /// Whether the node is registered and follows changes.
    pub is_connected: bool,
    /// Instant of the last answer from etcd.
    pub contact: Option<Instant>,
    /// Reason why there is no session.
    pub failure: Option<String>,
    /// Node that makes the next version of the map.
    pub coordinator: Option<ServerId>,
    /// Nodes that are registered.
    pub registered: BTreeSet<ServerId>,
    /// Number of sessions that have failed.
    pub failures: u64,
    /// Number of values that were refused.
    pub refused: u64,
    /// Number of maps stored by this node.
    pub stored: u64,
    /// Number of stored maps that only place parity again, because the writes have drifted.
    pub rebalanced: u64,
}

/// State that a node's membership shares with its cluster.
#[derive(Debug, Default)]
pub struct Shared {
    status: Mutex<Status>,
    /// Greatest map version known to exist at another node.
    newest: AtomicU64,
    wake: Notify,
}

impl Shared {
    /// Returns the state for operators.
    pub fn status(&self) -> Status {
        self.lock().clone()
    }

    /// Registers that another node has a newer version of the map.
    pub fn note_newer(&self, version: u64) {
        if self.newest.fetch_max(version, Relaxed) < version {
            self.wake.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Status> {
        self.status
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }
}

/// Settings of [`run`].
#[derive(Clone, Debug)]
pub struct Settings {
    /// Server entry of this node.
    pub own: Server,
    /// Duration of the node's lease.
    pub lease: Duration,
    /// Period at whose end the nodes' writes are compared with their weights; zero for never.
    pub rebalance: Duration,
    /// File with a copy of the last map.
    pub copy: Option<PathBuf>,
}

/// Reads the copy of the last map. If the file cannot be read, that is logged and `None` is
/// returned.
pub fn read_copy(path: &Path, config: &edge::Config, is_plain: bool) -> Option<Arc<Record>> {
    let value = match std::fs::read(path) {
        Ok(value) => value,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(error) => {
            log::warn!("{}: {error}", path.display());
            return None;
        }
    };
    match Record::decode(&value, config, is_plain) {
        Ok(record) => Some(Arc::new(record)),
        Err(refusal) => {
            log::warn!("{}: the map is not used: {refusal}", path.display());
            None
        }
    }
}

/// Keeps this node registered and its map current until `stop` changes. The lease is not revoked at
/// the end, so that a restart within its duration changes no map.
pub async fn run<K: Kv, H: Host>(
    kv: K,
    host: Arc<H>,
    state: State,
    settings: Settings,
    shared: Arc<Shared>,
    mut stop: watch::Receiver<bool>,
) {
    let mut member = Member {
        kv,
        host,
        state,
        settings,
        shared,
        lease: None,
        balance: Balance::default(),
        problem: String::new(),
        pause: PAUSES[0],
    };
    tokio::select! {
        () = member.sessions() => {}
        _ = stop.changed() => {}
    }
}

struct Member<K, H> {
    kv: K,
    host: Arc<H>,
    state: State,
    settings: Settings,
    shared: Arc<Shared>,
    lease: Option<i64>,
    balance: Balance,
    /// Last reason why no map could be made. Each reason is logged once.
    problem: String,
    pause: Duration,
}

impl<K: Kv, H: Host> Member<K, H> {
    async fn sessions(&mut self) {
        loop {
            let Err(failure) = self.session().await;
            let is_new = {
                let mut status = self.shared.lock();
                let before = status.failure.replace(failure.0.clone());
                let is_new = status.is_connected || before.is_none();
                status.is_connected = false;
                status.failures += 1;
                is_new
            };
            if is_new {
                log::warn!("etcd: {failure}; the node serves with {}", self.version());
            }
            sleep(self.pause).await;
            self.pause = (self.pause * 2).min(PAUSES[1]);
        }
    }

    fn version(&self) -> String {
        match self.state.record() {
            None => "no map".into(),
            Some(record) => format!("map {}", record.map.id().version),
        }
    }

    /// Registers the node, reads all values and follows changes until an operation fails.
    async fn session(&mut self) -> Result<std::convert::Infallible, Failure> {
        let lease = self.lease().await?;
        let snapshot = self.kv.read().await?;
        let has_changed = self.state.load(snapshot.entries);
        self.publish(has_changed).await;
        self.register(lease).await?;
        let mut changes = self.kv.watch(snapshot.revision + 1).await?;
        let mut renewals = interval(self.settings.lease / 3);
        renewals.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let began = Instant::now();
        // An interval must be positive.
        let period = self.settings.rebalance.max(Duration::from_millis(1));
        let mut periods = interval_at(began + period, period);
        periods.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut due = self.when_due(began);
        let mut check = None;
        loop {
            tokio::select! {
                events = changes.next() => {
                    self.follow(events?).await?;
                    due = self.when_due(began);
                }
                _ = renewals.tick() => {
                    if !self.kv.keep_alive(lease).await? {
                        self.lease = None;
                        return Err(Failure("the lease of this node has ended".into()));
                    }
                    self.connected();
                }
                () = sleep_until(due.unwrap_or(began)), if due.is_some() => {
                    self.make_map(lease).await?;
                    due = self.when_due(began);
                }
                _ = periods.tick(), if !self.settings.rebalance.is_zero() => {
                    self.rebalance(lease).await?;
                }
                () = self.shared.wake.notified() => check = Some(Instant::now() + WAKE_TIME),
                () = sleep_until(check.unwrap_or(began)), if check.is_some() => {
                    check = None;
                    let own = self.state.record().map_or(0, |record| record.map.id().version);
                    if self.shared.newest.load(Relaxed) > own {
                        return Err(Failure("another node has a newer map".into()));
                    }
                }
            }
        }
    }

    /// Returns a valid lease: the previous session's, or a new one.
    async fn lease(&mut self) -> Result<i64, Failure> {
        if let Some(lease) = self.lease
            && self.kv.keep_alive(lease).await?
        {
            return Ok(lease);
        }
        let lease = self.kv.grant(self.settings.lease).await?;
        self.lease = Some(lease);
        Ok(lease)
    }

    /// Registers this node under its lease. A registration with the same address comes from an
    /// earlier run and is replaced.
    async fn register(&mut self, lease: i64) -> Result<(), Failure> {
        let own = &self.settings.own;
        let revision = match self.state.own() {
            None => 0,
            Some((server, revision)) if server.address == own.address => revision,
            Some((server, _)) => {
                return Err(Failure(format!(
                    "{} is registered by the node at {}: expected another number",
                    own.id, server.address
                )));
            }
        };
        let key = node_key(own.id);
        let guards = vec![Guard::Revision(key.clone(), revision)];
        let writes = vec![Write::Put(key, registration(own), Some(lease))];
        match self.kv.commit(guards, writes).await? {
            Some(_) => Ok(()),
            None => Err(Failure("the registration has changed meanwhile".into())),
        }
    }

    async fn follow(&mut self, events: Vec<Event>) -> Result<(), Failure> {
        let own = node_key(self.settings.own.id);
        let mut has_changed = false;
        let mut is_registered = true;
        for event in events {
            match &event {
                Event::Delete(key) if *key == own => is_registered = false,
                Event::Put(entry) if entry.key == own => is_registered = true,
                _ => {}
            }
            has_changed |= self.state.apply(event);
        }
        self.publish(has_changed).await;
        match is_registered {
            true => Ok(()),
            false => Err(Failure("this node is no longer registered".into())),
        }
    }

    /// Publishes the current state to the host and to operators.
    async fn publish(&mut self, has_changed: bool) {
        {
            let mut status = self.shared.lock();
            status.endpoint = self.kv.endpoint();
            status.contact = Some(Instant::now());
            status.coordinator = self.state.coordinator();
            status.registered = self.state.registered();
            status.refused = self.state.refused();
        }
        let Some(record) = self.state.record().filter(|_| has_changed).cloned() else {
            return;
        };
        let (id, servers) = (record.map.id(), record.map.members());
        let up = servers.iter().filter(|member| member.is_up).count();
        log::info!("etcd: map {}: {up} of {} nodes", id.version, servers.len());
        self.host.install(&record);
        if let Some(path) = self.settings.copy.clone() {
            let text = record.encode();
            let written = tokio::task::spawn_blocking(move || write_copy(&path, &text)).await;
            if let Ok(Err(error)) = written {
                log::warn!("the copy of the map cannot be written: {error}");
            }
        }
    }

    /// Registers that etcd has answered and that the session works.
    fn connected(&mut self) {
        self.pause = PAUSES[0];
        let mut status = self.shared.lock();
        status.contact = Some(Instant::now());
        if !status.is_connected {
            status.is_connected = true;
            status.failure = None;
            log::info!("etcd: registered at {}", status.endpoint);
        }
    }

    /// Returns the instant at which the next map must be made. At the beginning of a session,
    /// missing nodes are given the duration of a lease, because they may be about to register
    /// again, like this one.
    fn when_due(&self, began: Instant) -> Option<Instant> {
        let due = self.state.due()?;
        let time = match self.problem.is_empty() {
            true => SETTLE_TIME,
            false => PROBLEM_TIME,
        };
        let at = Instant::now() + time;
        match due == Due::Next && self.state.is_any_missing() {
            true => Some(at.max(began + self.settings.lease)),
            false => Some(at),
        }
    }

    /// Makes and stores the map that is due. The watch then reports it, which installs it.
    async fn make_map(&mut self, lease: i64) -> Result<(), Failure> {
        let Some(due) = self.state.due() else {
            return Ok(());
        };
        let loads = match due {
            Due::Restore => vec![],
            Due::Next => self.host.loads().await.writes,
        };
        let record = match self.state.next(due, loads) {
            Ok(record) => record,
            Err(problem) => {
                if self.problem != problem {
                    log::warn!("etcd: no map for the registered nodes: {problem}");
                    self.problem = problem;
                }
                return Ok(());
            }
        };
        self.problem.clear();
        self.store(&record, lease).await.map(|_| ())
    }

    /// Stores a map unless another node has stored one. Returns true if it was stored.
    async fn store(&mut self, record: &Record, lease: i64) -> Result<bool, Failure> {
        let (guards, writes) = self.state.install(record, lease);
        let is_stored = self.kv.commit(guards, writes).await?.is_some();
        if is_stored {
            self.shared.lock().stored += 1;
            let version = record.map.id().version;
            log::info!("etcd: this node has stored map {version}");
        }
        Ok(is_stored)
    }

    /// Makes and stores a map if the writes have drifted by the end of a period.
    async fn rebalance(&mut self, lease: i64) -> Result<(), Failure> {
        let Some(record) = self.state.settled().cloned() else {
            return Ok(());
        };
        let counted = self.host.loads().await;
        let counts = counted.is_complete.then_some(counted.writes);
        let Some(loads) = self.balance.judge(&record.map, counts) else {
            return Ok(());
        };
        // The members stay the same, so that this cannot fail.
        if let Ok(next) = self.state.next(Due::Next, loads)
            && self.store(&next, lease).await?
        {
            self.shared.lock().rebalanced += 1;
            log::info!("etcd: it places parity again, because the writes have drifted");
        }
        Ok(())
    }
}

/// Replaces the copy atomically: a reader finds the old one or the new one.
fn write_copy(path: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write;
    let new = path.with_extension("new");
    let mut file = std::fs::File::create(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&new, path)
}
