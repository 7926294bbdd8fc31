//! State that all workers share.

use crate::routing::Routing;
use crate::scrape::Scrape;
use crate::tls::Tls;
use durability::aof::AppendOnly;
use durability::loading::Loading;
use durability::replication::Replication;
use durability::restart::Restart;
use durability::saving::{HoldsWrites, Saving};
use engine::Facts;
use engine::segment::Segments;
use session::acl::Acl;
use session::clients::{ClientInfo, Clients};
use session::clock::{Clock, Moment};
use session::feed::Feed;
use session::hotkeys::HotKeys;
use session::inbox::Inbox;
use session::latency::LatencyMonitor;
use session::logins::Logins;
use session::long::Long;
use session::message::Message;
use session::monitor::Monitors;
use session::notices::Notices;
use session::pubsub::PubSub;
use session::scripting::Scripting;
use session::slowlog::Slowlog;
use session::stats::Stats;
use session::tracking::TrackingClients;
use session::waiting::Blocking;
use session::watches::Watches;
use settings::random::chance;
use settings::words::SEGMENT_ENGINE;
use settings::{Config, Effect, Id, TABLE, events};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};
use std::time::Instant;
use store::{Keyspace, Options, SHARDS_MAX, Tick};

/// Number of shards with one data thread, which locks all of them together.
const SHARDS_ALONE: usize = 8;
/// Number of shards per data thread, so that two threads seldom need the same one.
const SHARDS_PER_THREAD: usize = 32;

/// Least limit of the memory of all clients. With less, no client could connect to raise it.
const CLIENT_BYTES_MIN: u64 = 128 << 10;

/// State that holds commands back: CLIENT PAUSE, and a stop of the server that awaits its snapshot.
/// One does not end the other.
#[derive(Default)]
pub struct Pause {
    /// Lock for changes.
    change: Mutex<()>,
    /// Whether commands are or may be held. It is set while there is a stop, and from the beginning
    /// of a CLIENT PAUSE until a worker has found that it has ended.
    is_set: AtomicBool,
    /// End of CLIENT PAUSE; 0 if there is none.
    until_ms: AtomicU64,
    /// Whether CLIENT PAUSE holds all commands, and not only those that may write.
    holds_all: AtomicBool,
    /// Whether a stop holds commands that may write.
    holds_for_stop: AtomicBool,
    /// Whether FAILOVER holds commands that may write.
    holds_for_failover: AtomicBool,
}

impl Pause {
    /// Holds commands until the given time: all, or only those that may write. As in Redis, a pause
    /// that is in force neither ends earlier nor becomes weaker.
    fn begin(&self, now: Moment, until: Moment, holds_all: bool) {
        let is_stronger = self.client_until(now).is_some() && self.holds_all.load(Relaxed);
        self.holds_all.store(holds_all || is_stronger, Relaxed);
        self.until_ms.fetch_max(until.0, Relaxed);
    }

    /// Returns the end of CLIENT PAUSE if it has not passed.
    fn client_until(&self, now: Moment) -> Option<Moment> {
        let until = Moment(self.until_ms.load(Relaxed));
        (until > now).then_some(until)
    }

    /// Whether commands that may write are held without a known end.
    fn holds_writes(&self) -> bool {
        self.holds_for_stop.load(Relaxed) || self.holds_for_failover.load(Relaxed)
    }

    /// Returns the time until which commands are held, if any are. Its end is not known during a
    /// stop or FAILOVER.
    pub fn until(&self, now: Moment) -> Option<Moment> {
        match self.holds_writes() {
            true => Some(Moment(u64::MAX)),
            false => self.client_until(now),
        }
    }

    /// Whether commands are held, or were held by a pause whose end no worker has noticed yet.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.is_set.load(Relaxed)
    }

    /// Whether writes are held because the server stops after a snapshot.
    pub fn is_for_stop(&self) -> bool {
        self.holds_for_stop.load(Relaxed)
    }

    /// Whether commands of one kind are held now: those that may write, or those that only read.
    pub fn holds(&self, may_write: bool, now: Moment) -> bool {
        if !self.is_set() {
            return false;
        }
        may_write && self.holds_writes()
            || self.client_until(now).is_some() && (may_write || self.holds_all.load(Relaxed))
    }
}

/// State of the server that commands work on.
pub struct Server {
    /// All keys; empty with the segment engine.
    pub keyspace: Keyspace,
    /// The segment engine, if it is configured.
    pub segments: Option<Segments>,
    /// Source of time.
    pub clock: Clock,
    /// Number of workers. If there is only one, it may keep all shards locked while it serves.
    pub threads: usize,
    /// Settings.
    pub config: Config,
    /// Lock for the update of several settings together.
    pub config_change: Mutex<()>,
    /// Users and their rights.
    pub acl: Acl,
    /// Connected clients.
    pub clients: Clients,
    /// Append-only file.
    pub aof: AppendOnly,
    /// Changes of keys as commands, for the append-only file and for replicas.
    pub feed: Feed,
    /// Replication.
    pub replication: Replication,
    /// Blocked clients.
    pub blocking: Blocking,
    /// Loading of a snapshot file.
    pub loading: Loading,
    /// Long commands and the clients that wait for them.
    pub long: Long,
    /// Snapshots.
    pub saving: Saving,
    /// Watched keys waiting to be removed.
    pub watches: Watches,
    /// Subscriptions.
    pub pubsub: PubSub,
    /// Scripts.
    pub scripting: Scripting,
    /// Clients that cache keys.
    pub tracking: TrackingClients,
    /// Clients that sent MONITOR.
    pub monitors: Monitors,
    /// Recording of the keys that cost the most.
    pub hotkeys: HotKeys,
    /// Census of the keyspace for metrics.
    pub scrape: Scrape,
    /// Restarts for upgrades.
    pub restart: Restart,
    /// Number of workers that no longer execute commands, because the server is stopping.
    pub draining: AtomicUsize,
    /// Whether a stop does not wait for replicas that lag (`SHUTDOWN NOW`).
    pub skips_replicas: AtomicBool,
    /// Counters.
    pub stats: Stats,
    /// Slow commands.
    pub slowlog: Slowlog,
    /// Slow events.
    pub latency: LatencyMonitor,
    /// Inbox of each worker.
    pub inboxes: Vec<Inbox>,
    /// State that holds commands back.
    pub pause: Pause,
    /// Number of clients whose commands CLIENT PAUSE holds.
    pub held_clients: AtomicU64,
    /// Failed authentications by address.
    pub logins: Logins,
    /// Warnings about clients.
    pub notices: Notices,
    /// Time at which a delayed `flush_all` empties memcached's database, in ms since 1970; 0 if
    /// there is none.
    pub flush_at_ms: AtomicU64,
    /// TLS settings in force.
    pub tls: Tls,
    /// Random identifier of this run, 40 hexadecimal digits.
    pub run_id: String,
    /// Start time in microseconds since 1970.
    pub started_us: u64,
    /// Start time on the monotonic clock.
    pub started: Instant,
    /// TCP port of Redis's protocol.
    pub port: AtomicU16,
    /// First TCP address of Redis's protocol, one without TLS if there is any.
    pub first_address: OnceLock<SocketAddr>,
    /// State as a node of a cluster.
    pub cluster: Routing,
    /// Addresses and paths that the server listens on, as shown by INFO.
    pub listening: OnceLock<Vec<String>>,
    stops: AtomicBool,
    notifies: AtomicBool,
}

impl Server {
    /// Creates a server without connections.
    ///
    /// # Errors
    /// The keyspace or the segment engine refuses the settings.
    pub fn new(config: Config, clock: Clock) -> Result<Server, String> {
        let threads = thread_count(&config);
        let options = Options {
            shards: if threads == 1 {
                SHARDS_ALONE
            } else {
                let wanted = threads * SHARDS_PER_THREAD;
                wanted.next_power_of_two().min(SHARDS_MAX)
            },
            policy: config.text(Id::MaxMemoryPolicy),
            expiry: config.text(Id::Expiry),
            maxmemory: config.maxmemory_bytes(),
            hash_key: [chance(1), chance(2)],
            seed: chance(3),
        };
        Server::with_store(config, &options, threads, clock)
    }

    /// Creates a server with the given options for its keyspace. With a fixed seed and a manual
    /// clock, a test run can be repeated.
    ///
    /// # Errors
    ///
    /// The keyspace or the segment engine refuses the settings.
    pub fn with_store(
        config: Config,
        options: &Options,
        threads: usize,
        clock: Clock,
    ) -> Result<Server, String> {
        let now_us = clock.now_us();
        let keyspace = Keyspace::new(options, clock.now())?;
        let segments = match config.number(Id::Engine) {
            SEGMENT_ENGINE => {
                let made = Segments::new(&config, threads, options.hash_key, options.seed)?;
                Some(made)
            }
            _ => None,
        };
        let server = Server {
            segments,
            keyspace: keyspace
                .with_element_expiry(&config.text(Id::ElementExpiry))?
                .with_databases(config.number(Id::Databases) as usize),
            threads,
            cluster: Routing::new(&config),
            config,
            config_change: Mutex::new(()),
            acl: Acl::default(),
            clients: Clients::default(),
            aof: AppendOnly::default(),
            feed: Feed::default(),
            replication: Replication::new(run_id()),
            blocking: Blocking::default(),
            loading: Loading::default(),
            long: Long::new(threads),
            saving: Saving::new(now_us / 1_000_000),
            watches: Watches::default(),
            pubsub: PubSub::default(),
            scripting: Scripting::default(),
            tracking: TrackingClients::default(),
            monitors: Monitors::default(),
            hotkeys: HotKeys::default(),
            scrape: Scrape::default(),
            restart: Restart::default(),
            stats: Stats::new(threads),
            slowlog: Slowlog::default(),
            latency: LatencyMonitor::default(),
            inboxes: (0..threads).map(|_| Inbox::default()).collect(),
            pause: Pause::default(),
            held_clients: AtomicU64::new(0),
            logins: Logins::default(),
            notices: Notices::default(),
            flush_at_ms: AtomicU64::new(0),
            draining: AtomicUsize::new(0),
            skips_replicas: AtomicBool::new(false),
            tls: Tls::default(),
            run_id: run_id(),
            started_us: now_us,
            started: Instant::now(),
            port: AtomicU16::new(0),
            first_address: OnceLock::new(),
            listening: OnceLock::new(),
            stops: AtomicBool::new(false),
            notifies: AtomicBool::new(false),
            clock,
        };
        server.apply_password();
        server.apply_notifications();
        server.apply_limits();
        server.replication.count_good(&server.config);
        Ok(server)
    }

    /// Makes `requirepass` the password of the default user.
    pub fn apply_password(&self) {
        self.acl
            .set_default_password(&self.config.text(Id::RequirePass));
    }

    /// Copies the notification settings to the components that cache them.
    pub fn apply_notifications(&self) {
        let events = self.config.number(Id::NotifyKeyspaceEvents) as u32;
        self.notifies.store(events::is_on(events), Relaxed);
        self.keyspace.set_notify(events::is_on(events));
        let names_elements = events::names_elements(events);
        self.keyspace.set_names_elements(names_elements);
    }

    /// Copies the limits of packed collections to the keyspace.
    pub fn apply_limits(&self) {
        let limits = self.keyspace.limits();
        for param in TABLE {
            if let Effect::Limit(name) = param.effect {
                let is_known = limits.set(name, self.config.number(param.id));
                debug_assert!(is_known, "{name}");
            }
        }
    }

    /// Sets the memory limit of the keyspace: `maxmemory`, or none on a replica that leaves
    /// eviction to its primary. The segment engine keeps the limit with which it was created.
    pub fn apply_maxmemory(&self) {
        if self.segments.is_some() {
            return;
        }
        let is_ignored = self.is_replica() && self.config.is_on(Id::ReplicaIgnoreMaxMemory);
        self.keyspace.set_maxmemory(match is_ignored {
            true => 0,
            false => self.config.maxmemory_bytes(),
        });
    }

    /// Begins or ends holding commands that may write for FAILOVER.
    pub fn hold_for_failover(&self, on: bool) {
        self.change_pause(|pause| pause.holds_for_failover.store(on, Relaxed));
    }

    /// Begins CLIENT PAUSE: holds commands until the given time, and stops expiry and eviction, so
    /// that the keys do not change.
    pub fn begin_pause(&self, until: Moment, holds_all: bool) {
        let now = self.clock.moment();
        self.change_pause(|pause| pause.begin(now, until, holds_all));
    }

    /// Ends CLIENT PAUSE.
    pub fn end_pause(&self) {
        self.change_pause(|pause| pause.until_ms.store(0, Relaxed));
    }

    /// Ends CLIENT PAUSE if its time has passed.
    #[inline]
    pub fn end_pause_in_time(&self, now: Moment) {
        if self.pause.is_set() && self.pause.until(now).is_none() {
            self.change_pause(|pause| {
                // Another worker may have begun a pause in between.
                if pause.client_until(now).is_none() {
                    pause.until_ms.store(0, Relaxed);
                }
            });
        }
    }

    fn change_pause(&self, change: impl FnOnce(&Pause)) {
        let pause = &self.pause;
        let _changing = pause.change.lock().expect("the lock is not poisoned");
        change(pause);
        let is_set = pause.holds_writes() || pause.until_ms.load(Relaxed) != 0;
        pause.is_set.store(is_set, Relaxed);
        self.keyspace.set_frozen(is_set);
    }

    /// Whether any keyspace event is enabled.
    #[inline]
    pub fn notifies(&self) -> bool {
        self.notifies.load(Relaxed)
    }

    /// Whether clients must authenticate before they may act as the default user.
    pub fn needs_password(&self) -> bool {
        self.acl.needs_password()
    }

    /// Requests all workers to stop.
    pub fn stop(&self) {
        self.stops.store(true, Relaxed);
        self.long.stop();
        self.saving.queue.stop();
        self.feed.stop();
        self.wake_all();
        self.scrape.wake();
        if let Some(segments) = &self.segments {
            segments.learning.ring();
        }
    }

    /// Whether the workers were requested to stop.
    pub fn stops(&self) -> bool {
        self.stops.load(Relaxed)
    }

    /// Whether the server follows a primary, so that its own commands are not added to the feed.
    pub fn is_replica(&self) -> bool {
        self.replication.is_replica()
    }

    /// Whether replicas follow this server.
    pub fn has_replicas(&self) -> bool {
        self.replication.has_replicas()
    }

    /// Returns why the server is not ready for clients; `None` if it is.
    pub fn why_not_ready(&self) -> Option<&'static str> {
        if self.stops() || self.saving.stop_in_progress().is_some() {
            return Some("the server is stopping");
        }
        if self.loading.is_on() {
            return Some("the server is loading the snapshot file");
        }
        let primary = self.replication.primary();
        let waits = primary.is_some_and(|primary| primary.is_syncing || !primary.has_synced);
        waits.then_some("the replica has not received the data of its primary yet")
    }

    /// Requests the worker of a client to disconnect it. From now on the client is not served.
    /// Returns false if that was already requested.
    pub fn disconnect(&self, info: &ClientInfo) -> bool {
        let is_first = info.kill();
        if is_first && let Some(inbox) = self.inboxes.get(info.worker) {
            inbox.push(info.worker, Message::Kill(info.slot, info.id));
        }
        is_first
    }

    /// Wakes all workers.
    pub fn wake_all(&self) {
        for inbox in &self.inboxes {
            inbox.wake();
        }
    }

    /// The engine that holds the keys.
    pub fn engine(&self) -> &dyn Facts {
        match &self.segments {
            Some(segments) => segments,
            None => &self.keyspace,
        }
    }

    /// Updates the peak of the memory in use. Waits for no other worker.
    pub fn sample_peak(&self) {
        let used = self.engine().published_bytes() + self.client_bytes();
        self.stats.note_peak(used, self.clock.now_us() / 1_000_000);
    }

    /// Number of keys in all databases.
    pub fn key_count(&self, now: Tick) -> u64 {
        let engine = self.engine();
        let keys = |db| engine.db_facts(db, now).keys;
        (0..engine.databases()).map(|db| keys(db as u8)).sum()
    }

    /// Returns the bytes that all clients hold: their buffers, queued commands, subscriptions,
    /// watched keys and records.
    pub fn client_bytes(&self) -> u64 {
        self.keyspace.outside_bytes()
    }

    /// Returns the maximum number of bytes that all clients may hold together.
    pub fn client_bytes_max(&self) -> Option<u64> {
        let limit = match self.config.number(Id::MaxMemoryClients) {
            percent @ ..0 => {
                let max = self.config.maxmemory_bytes() as f64;
                (max * percent.unsigned_abs() as f64 / 100.0) as u64
            }
            bytes => bytes as u64,
        };
        (limit > 0).then_some(limit.max(CLIENT_BYTES_MIN))
    }

    /// Returns the memory in use in bytes: keys, their indexes, values waiting to be freed, and
    /// client buffers. Updates the peak.
    pub fn used_bytes(&self) -> u64 {
        let keys = self.engine().used_bytes() + self.keyspace.pending_bytes();
        let used = keys + self.client_bytes();
        self.stats.note_peak(used, self.clock.now_us() / 1_000_000);
        used
    }
}

/// Returns the number of data threads that the settings request.
/// Returns the number of data threads that the settings mean on this machine.
pub fn thread_count(config: &Config) -> usize {
    match config.number(Id::Threads) {
        0 => match std::thread::available_parallelism().map_or(1, usize::from) {
            0..=2 => 1,
            cores => cores.min(16),
        },
        threads => threads as usize,
    }
}

fn run_id() -> String {
    let words: String = (0..3)
        .map(|salt| format!("{:016x}", chance(salt)))
        .collect();
    words[..40].to_owned()
}

impl HoldsWrites for Server {
    fn hold_for_stop(&self, on: bool) {
        self.change_pause(|pause| pause.holds_for_stop.store(on, Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_created_for_each_number_of_data_threads() {
        // Regression: with more than 8 threads there were more shards than a keyspace may have.
        let threads = settings::find("threads").expect("the setting exists");
        for (count, shards) in [("1", 8), ("2", 64), ("8", 256), ("9", 256), ("128", 256)] {
            let config = Config::default();
            config.set(threads, count).expect("a valid value");
            let server = Server::new(config, Clock::manual(1)).expect("valid settings");
            assert_eq!(server.keyspace.shard_count(), shards, "{count} threads");
        }
    }
}
