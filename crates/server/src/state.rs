//! State that all workers share.
//!
//! The fields of [`Server`] are groups with a purpose each, so that a function can take the groups
//! that it needs.

mod auth;
mod clients;
mod data;
mod network;
mod observability;
mod persistence;
mod workers;

pub use self::auth::Auth;
pub use self::clients::Clients;
pub use self::data::{Data, Pause};
pub use self::network::Network;
pub use self::observability::Observability;
pub use self::persistence::Persistence;
pub use self::workers::Workers;
use crate::routing::Routing;
use crate::scrape::Scrape;
use durability::aof::AppendOnly;
use durability::loading::Loading;
use durability::replication::Replication;
use durability::restart::Restart;
use durability::saving::Saving;
use engine::segment::Segments;
use session::clock::Clock;
use session::feed::Feed;
use session::hotkeys::HotKeys;
use session::inbox::Inbox;
use session::latency::LatencyMonitor;
use session::long::Long;
use session::notices::Notices;
use session::scripting::Scripting;
use session::slowlog::Slowlog;
use session::stats::Stats;
use settings::random::chance;
use settings::words::SEGMENT_ENGINE;
use settings::{Config, Id};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};
use std::time::Instant;
use store::{Keyspace, Options, SHARDS_MAX};

/// Number of shards with one data thread, which locks all of them together.
const SHARDS_ALONE: usize = 8;
/// Number of shards per data thread, so that two threads seldom need the same one.
const SHARDS_PER_THREAD: usize = 32;

/// Least limit of the memory of all clients. With less, no client could connect to raise it.
const CLIENT_BYTES_MIN: u64 = 128 << 10;

/// State of the server that commands work on.
pub struct Server {
    /// The keys.
    pub data: Data,
    /// Source of time.
    pub clock: Clock,
    /// Files that keep the keys across runs.
    pub persistence: Persistence,
    /// Worker threads, and long commands beside them.
    pub workers: Workers,
    /// Connected clients and what they wait for.
    pub clients: Clients,
    /// Users, and failed attempts to authenticate.
    pub auth: Auth,
    /// Counters, logs and recordings by which operators observe the server.
    pub observability: Observability,
    /// How clients and other servers reach this one.
    pub network: Network,
    /// Settings.
    pub config: Config,
    /// Lock for the update of several settings together.
    pub config_change: Mutex<()>,
    /// Changes of keys as commands, for the append-only file and for replicas.
    pub feed: Feed,
    /// Replication.
    pub replication: Replication,
    /// Scripts.
    pub scripting: Scripting,
    /// Restarts for upgrades.
    pub restart: Restart,
    /// Whether a stop does not wait for replicas that lag (`SHUTDOWN NOW`).
    pub skips_replicas: AtomicBool,
    /// Random identifier of this run, 40 hexadecimal digits.
    pub run_id: String,
    /// Start time in microseconds since 1970.
    pub started_us: u64,
    /// Start time on the monotonic clock.
    pub started: Instant,
    /// State as a node of a cluster.
    pub cluster: Routing,
    stops: AtomicBool,
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
        let keyspace = keyspace
            .with_element_expiry(&config.text(Id::ElementExpiry))?
            .with_databases(config.number(Id::Databases) as usize);
        let server = Server {
            data: Data::new(keyspace, segments),
            persistence: Persistence {
                aof: AppendOnly::default(),
                saving: Saving::new(now_us / 1_000_000),
                loading: Loading::default(),
            },
            workers: Workers {
                count: threads,
                inboxes: (0..threads).map(|_| Inbox::default()).collect(),
                long: Long::new(threads),
                draining: AtomicUsize::new(0),
            },
            clients: Clients::default(),
            cluster: Routing::new(&config),
            auth: Auth::default(),
            observability: Observability {
                stats: Stats::new(threads),
                slowlog: Slowlog::default(),
                latency: LatencyMonitor::default(),
                hotkeys: HotKeys::default(),
                notices: Notices::default(),
                scrape: Scrape::default(),
            },
            network: Network::default(),
            config,
            config_change: Mutex::new(()),
            feed: Feed::default(),
            replication: Replication::new(run_id()),
            scripting: Scripting::default(),
            restart: Restart::default(),
            skips_replicas: AtomicBool::new(false),
            run_id: run_id(),
            started_us: now_us,
            started: Instant::now(),
            stops: AtomicBool::new(false),
            clock,
        };
        server.auth.apply_password(&server.config);
        server.data.apply_notifications(&server.config);
        server.data.apply_limits(&server.config);
        server.replication.count_good(&server.config);
        Ok(server)
    }

    /// Sets the memory limit of the keyspace: `maxmemory`, or none on a replica that leaves
    /// eviction to its primary. The segment engine keeps the limit with which it was created.
    pub fn apply_maxmemory(&self) {
        if self.data.segments.is_some() {
            return;
        }
        let is_ignored = self.is_replica() && self.config.is_on(Id::ReplicaIgnoreMaxMemory);
        self.data.keyspace.set_maxmemory(match is_ignored {
            true => 0,
            false => self.config.maxmemory_bytes(),
        });
    }

    /// Requests all workers to stop.
    pub fn stop(&self) {
        self.stops.store(true, Relaxed);
        self.workers.long.stop();
        self.persistence.saving.queue.stop();
        self.feed.stop();
        self.workers.wake_all();
        self.observability.scrape.wake();
        if let Some(segments) = &self.data.segments {
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
        if self.stops() || self.persistence.saving.stop_in_progress().is_some() {
            return Some("the server is stopping");
        }
        if self.persistence.loading.is_on() {
            return Some("the server is loading the snapshot file");
        }
        let primary = self.replication.primary();
        let waits = primary.is_some_and(|primary| primary.is_syncing || !primary.has_synced);
        waits.then_some("the replica has not received the data of its primary yet")
    }

    /// Updates the peak of the memory in use. Waits for no other worker.
    pub fn sample_peak(&self) {
        let used = self.data.engine().published_bytes() + self.data.client_bytes();
        self.observability
            .stats
            .note_peak(used, self.clock.now_us() / 1_000_000);
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
        let keys = self.data.engine().used_bytes() + self.data.keyspace.pending_bytes();
        let used = keys + self.data.client_bytes();
        self.observability
            .stats
            .note_peak(used, self.clock.now_us() / 1_000_000);
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
            assert_eq!(
                server.data.keyspace.shard_count(),
                shards,
                "{count} threads"
            );
        }
    }
}
