//! Counters, logs and recordings by which operators observe the server.

use crate::scrape::Scrape;
use session::hotkeys::HotKeys;
use session::latency::LatencyMonitor;
use session::notices::Notices;
use session::slowlog::Slowlog;
use session::stats::Stats;

/// Counters, logs and recordings by which operators observe the server.
pub struct Observability {
    /// Counters.
    pub stats: Stats,
    /// Slow commands.
    pub slowlog: Slowlog,
    /// Slow events.
    pub latency: LatencyMonitor,
    /// Recording of the keys that cost the most.
    pub hotkeys: HotKeys,
    /// Warnings about clients.
    pub notices: Notices,
    /// Census of the keyspace for metrics.
    pub scrape: Scrape,
}
