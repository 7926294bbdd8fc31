//! State that all workers share.
//!
//! The fields of [`Server`] are groups with a purpose each, so that a function can take the groups
//! that it needs.

mod auth;
mod clients;
mod data;
mod lifecycle;
mod network;
mod observability;
mod persistence;
mod workers;

pub use self::auth::Auth;
pub use self::clients::Clients;
pub use self::data::{Data, Pause};
pub use self::lifecycle::Lifecycle;
pub use self::network::Network;
pub use self::observability::Observability;
pub use self::persistence::Persistence;
pub use self::workers::Workers;
use crate::routing::Routing;
use crate::scrape::Scrape;
use durability::aof::AppendOnly;
use durability::loading::Loading;
use durability::replication::Replication;
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
use std::sync::atomic::AtomicUsize;
use store::{Keyspace, Options, SHARDS_MAX};

/// Number of shards with one data thread, which locks all of them together.
const SHARDS_ALONE: usize = 8;
/// Number of shards per data thread, so that two threads seldom need the same one.
const SHARDS_PER_THREAD: usize = 32;

/// State of the server that commands work on.
pub struct Server {
    /// Source of time.
    pub clock: Clock,
    /// Settings.
    pub config: Config,
    /// The keys.
    pub data: Data,
    /// Changes of keys as commands, for the append-only file and for replicas.
    pub feed: Feed,
    /// Replication.
    pub replication: Replication,
    /// Files that keep the keys across runs.
    pub persistence: Persistence,
    /// Worker threads, and long commands beside them.
    pub workers: Workers,
    /// Connected clients and what they wait for.
    pub clients: Clients,
    /// Users, and failed attempts to authenticate.
    pub auth: Auth,
    /// Scripts.
    pub scripting: Scripting,
    /// Counters, logs and recordings by which operators observe the server.
    pub observability: Observability,
    /// How clients and other servers reach this one.
    pub network: Network,
    /// State as a node of a cluster.
    pub cluster: Routing,
    /// The run of the process: its identity, its start, restarts and its end.
    pub lifecycle: Lifecycle,
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
            cluster: Routing::new(&config, threads),
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
            lifecycle: Lifecycle::new(run_id(), now_us),
            config,
            feed: Feed::default(),
            replication: Replication::new(run_id()),
            scripting: Scripting::default(),
            clock,
        };
        server.auth.apply_password(&server.config);
        server.data.apply_notifications(&server.config);
        server.data.apply_limits(&server.config);
        server.data.apply_classes(&server.config)?;
        server.replication.count_good(&server.config);
        Ok(server)
    }

    /// Sets the memory limit of the keyspace: `maxmemory`, or none on a replica that leaves
    /// eviction to its primary. The segment engine keeps the limit with which it was created.
    pub fn apply_maxmemory(&self) {
        if self.data.segments.is_some() {
            return;
        }
        let is_ignored =
            self.replication.is_replica() && self.config.is_on(Id::ReplicaIgnoreMaxMemory);
        self.data.keyspace.set_quotas_ignored(is_ignored);
        self.data.keyspace.set_maxmemory(match is_ignored {
            true => 0,
            false => self.config.maxmemory_bytes(),
        });
    }

    /// Requests all workers to stop.
    pub fn stop(&self) {
        self.lifecycle.stop();
        self.workers.long.stop();
        self.persistence.saving.queue.stop();
        self.feed.stop();
        self.workers.wake_all();
        self.observability.scrape.wake();
        if let Some(segments) = &self.data.segments {
            segments.learning.ring();
        }
    }

    /// Returns why the server is not ready for clients; `None` if it is.
    pub fn why_not_ready(&self) -> Option<&'static str> {
        if self.lifecycle.stops() || self.persistence.saving.stop_in_progress().is_some() {
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
