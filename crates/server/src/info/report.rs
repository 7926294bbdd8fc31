//! The source of facts for the rows of INFO. Facts that several rows need are read once per report.

use crate::context::Table;
use crate::state::Server;
use durability::aof::AofFacts;
use durability::replication::{PrimaryState, ReplicaState};
use durability::saving::SavingFacts;
use engine::segment::{Segments, learning};
use session::clients::{ClientInfo, flag};
use session::histogram::Summary;
use session::hotkeys::Results;
use session::stats::{RatesNow, WorkerStats};
use settings::process;
use std::cell::OnceCell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use store::{
    Census, ClassSums, Counters, DbFacts, ExpiryFacts, MemoryFacts, TTL_BINS, TagFacts, Tick,
};

pub(super) use learning::Report as Learner;

/// Facts for the rows of one report.
///
/// Facts about the keyspace come from a census if there is one. Otherwise they are read when a row
/// needs them, which waits for the locks of all shards.
pub struct Report<'a> {
    pub(super) server: &'a Server,
    pub(super) table: &'static Table,
    pub(super) now_us: u64,
    census: Option<&'a Census>,
    cells: Cells,
}

/// Facts that were read already.
#[derive(Default)]
struct Cells {
    clients: OnceCell<Clients>,
    memory: OnceCell<Memory>,
    counters: OnceCell<Counters>,
    saving: OnceCell<SavingFacts>,
    aof: OnceCell<AofFacts>,
    load: OnceCell<Option<Load>>,
    rates: OnceCell<RatesNow>,
    primary: OnceCell<Option<PrimaryState>>,
    replicas: OnceCell<Vec<ReplicaState>>,
    ids: OnceCell<Ids>,
    hotkeys: OnceCell<Option<Results>>,
    expiry: OnceCell<ExpiryFacts>,
    tags: OnceCell<TagFacts>,
    classes: OnceCell<ClassSums>,
    expiry_lag: OnceCell<Summary>,
    segment_stats: OnceCell<::segment::Stats>,
    learner: OnceCell<Learner>,
}

/// Identity of the current history, and of the previous one with its end.
type Ids = (String, Option<(String, u64)>);

/// Sums and maxima over the connected clients.
pub(super) struct Clients {
    pub(super) subscribers: usize,
    pub(super) watching: usize,
    pub(super) watched_keys: u32,
    pub(super) protected: usize,
    pub(super) input_bytes_max: u64,
    pub(super) output_bytes_max: u64,
}

impl Clients {
    fn of(all: &[std::sync::Arc<ClientInfo>]) -> Clients {
        let count = |is_so: fn(&ClientInfo) -> bool| all.iter().filter(|one| is_so(one)).count();
        let largest = |bytes: fn(&ClientInfo) -> u64| {
            let all = all.iter().map(|one| bytes(one));
            all.max().unwrap_or(0)
        };
        Clients {
            subscribers: count(ClientInfo::is_subscriber),
            watching: count(|one| one.watched.load(Relaxed) > 0),
            watched_keys: all.iter().map(|one| one.watched.load(Relaxed)).sum(),
            protected: count(|one| one.flags.load(Relaxed) & flag::NO_EVICT != 0),
            input_bytes_max: largest(|one| one.input_bytes.load(Relaxed)),
            output_bytes_max: largest(|one| one.output_bytes.load(Relaxed)),
        }
    }
}

/// Memory in use.
pub(super) struct Memory {
    pub(super) facts: MemoryFacts,
    pub(super) used_bytes: u64,
    /// Highest `used_bytes` that was observed.
    pub(super) peak_bytes: u64,
    pub(super) client_bytes: u64,
    pub(super) resident_bytes: u64,
}

/// A load in progress.
pub(super) struct Load {
    /// Seconds since 1970.
    pub(super) started: u64,
    pub(super) total_bytes: u64,
    pub(super) loaded_bytes: u64,
}

impl Load {
    pub(super) fn percent(&self) -> f64 {
        self.loaded_bytes as f64 / self.total_bytes.max(1) as f64 * 100.0
    }

    /// Estimates the time until the load ends.
    pub(super) fn seconds_left(&self, now_us: u64) -> u64 {
        let elapsed = (now_us / 1_000_000).saturating_sub(self.started);
        let left_bytes = self.total_bytes.saturating_sub(self.loaded_bytes);
        (elapsed * left_bytes)
            .checked_div(self.loaded_bytes)
            .unwrap_or(1)
    }
}

impl<'a> Report<'a> {
    pub(super) fn new(
        server: &'a Server,
        table: &'static Table,
        census: Option<&'a Census>,
    ) -> Report<'a> {
        Report {
            server,
            table,
            now_us: server.clock.now_us(),
            census,
            cells: Cells::default(),
        }
    }

    fn now(&self) -> Tick {
        Tick(self.now_us / 1000)
    }

    /// The census, unless the keys are in the segment engine.
    fn census(&self) -> Option<&Census> {
        self.census.filter(|_| self.server.data.segments.is_none())
    }

    pub(super) fn clients(&self) -> &Clients {
        let cell = &self.cells.clients;
        cell.get_or_init(|| Clients::of(&self.server.clients.registry.list()))
    }

    pub(super) fn memory(&self) -> &Memory {
        self.cells.memory.get_or_init(|| {
            let engine = || self.server.data.engine().memory_facts();
            let facts = self.census().map_or_else(engine, |census| census.memory);
            let client_bytes = self.server.data.client_bytes();
            let used_bytes = match self.census() {
                Some(census) => census.memory.used_bytes + client_bytes,
                // This updates the peak.
                None => self.server.used_bytes(),
            };
            Memory {
                facts,
                used_bytes,
                peak_bytes: self.server.observability.stats.peak_bytes.load(Relaxed),
                client_bytes,
                resident_bytes: process::resident_bytes(),
            }
        })
    }

    pub(super) fn counters(&self) -> &Counters {
        let server = self.server;
        let engine = || server.data.engine().counters(&server.observability.stats);
        let census = || self.census().map(|census| census.counters);
        let cell = &self.cells.counters;
        cell.get_or_init(|| census().unwrap_or_else(engine))
    }

    pub(super) fn saving(&self) -> &SavingFacts {
        let server = self.server;
        let facts = || {
            server
                .persistence
                .saving
                .facts(server.data.keyspace.changes())
        };
        self.cells.saving.get_or_init(facts)
    }

    pub(super) fn aof(&self) -> &AofFacts {
        self.cells
            .aof
            .get_or_init(|| self.server.persistence.aof.facts())
    }

    /// Returns the load in progress, if any.
    pub(super) fn load(&self) -> Option<&Load> {
        let loading = &self.server.persistence.loading;
        let load = || Load {
            started: loading.started.load(Relaxed),
            total_bytes: loading.total_bytes.load(Relaxed),
            loaded_bytes: loading.loaded_bytes.load(Relaxed),
        };
        let cell = &self.cells.load;
        cell.get_or_init(|| loading.is_on().then(load)).as_ref()
    }

    /// Returns the sum of a counter over the data threads.
    pub(super) fn sum(&self, counter: impl Fn(&WorkerStats) -> &AtomicU64) -> u64 {
        self.server.observability.stats.sum(counter)
    }

    pub(super) fn rates(&self) -> &RatesNow {
        self.cells
            .rates
            .get_or_init(|| self.server.observability.stats.rates())
    }

    pub(super) fn primary(&self) -> Option<&PrimaryState> {
        let primary = || self.server.replication.primary();
        self.cells.primary.get_or_init(primary).as_ref()
    }

    pub(super) fn replicas(&self) -> &[ReplicaState] {
        let replicas = || self.server.replication.replicas();
        self.cells.replicas.get_or_init(replicas)
    }

    pub(super) fn ids(&self) -> &Ids {
        let ids = || self.server.replication.ids();
        self.cells.ids.get_or_init(ids)
    }

    pub(super) fn hotkeys(&self) -> Option<&Results> {
        let results = || {
            self.server
                .observability
                .hotkeys
                .results(self.server.clock.now())
        };
        self.cells.hotkeys.get_or_init(results).as_ref()
    }

    pub(super) fn db_facts(&self, db: u8) -> DbFacts {
        match self.census() {
            Some(census) => census.db_facts(db),
            None => self.server.data.engine().db_facts(db, self.now()),
        }
    }

    /// Facts about expiry. With the segment engine, there is no index.
    pub(super) fn expiry_facts(&self) -> &ExpiryFacts {
        self.cells.expiry.get_or_init(|| {
            if let Some(segments) = self.segments() {
                let census = segments.cache.census(self.now());
                return ExpiryFacts {
                    keys_with_ttl: census.with_deadline_count,
                    backlog_keys: census.dead,
                    backlog_bytes: census.dead_bytes,
                    ..ExpiryFacts::default()
                };
            }
            let keyspace = || self.server.data.keyspace.expiry_facts(self.now());
            self.census.map_or_else(keyspace, |census| census.expiry)
        })
    }

    /// Facts about tags, of which the segment engine has none.
    pub(super) fn tags(&self) -> &TagFacts {
        self.cells.tags.get_or_init(|| match self.census() {
            Some(census) => census.tags,
            None => self.server.data.keyspace.tag_facts(),
        })
    }

    /// Classes of keys with their statistics.
    pub(super) fn classes(&self) -> &ClassSums {
        let sums = || self.server.data.keyspace.class_sums();
        let cell = &self.cells.classes;
        cell.get_or_init(|| {
            self.census()
                .map_or_else(sums, |census| census.classes.clone())
        })
    }

    pub(super) fn expiry_lag(&self) -> &Summary {
        let lag = || self.server.observability.stats.expiry_lag();
        self.cells.expiry_lag.get_or_init(lag)
    }

    pub(super) fn ttl_histogram(&self) -> [u64; TTL_BINS] {
        let keyspace = || self.server.data.keyspace.ttl_histogram(self.now());
        self.census().map_or_else(keyspace, Census::ttl_histogram)
    }

    pub(super) fn waited_keys(&self) -> usize {
        let keyspace = || self.server.data.keyspace.waited_keys();
        self.census
            .map_or_else(keyspace, |census| census.waited_keys)
    }

    pub(super) fn tracked_counts(&self) -> (usize, usize) {
        let keyspace = || self.server.data.keyspace.tracked_counts();
        self.census.map_or_else(keyspace, |census| census.tracked)
    }

    /// The segment engine, if the server uses it.
    pub(super) fn segments(&self) -> Option<&Segments> {
        self.server.data.segments.as_ref()
    }

    pub(super) fn segment_stats(&self) -> Option<&::segment::Stats> {
        let segments = self.segments()?;
        let stats = || segments.cache.stats();
        Some(self.cells.segment_stats.get_or_init(stats))
    }

    pub(super) fn learner(&self) -> Option<&Learner> {
        let segments = self.segments()?;
        let report = || segments.learning.report().clone();
        Some(self.cells.learner.get_or_init(report))
    }
}
