//! A web service with a cache: a handler that loads once per key at a time, responses that are
//! cached by their own headers ([`freshness`], [`conditions`]), and metrics.

pub mod conditions;
pub mod freshness;
pub mod layer;

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::get;
use layer::HttpCache;
use mayfly::{Cache, Cause, Clock};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// State of the service.
#[derive(Clone)]
pub struct Service {
    reports: Cache<u32, Arc<str>>,
    /// Number of reports that were computed.
    pub computed: Arc<AtomicU64>,
    /// Number of reports that have left the cache because they had expired.
    pub expired: Arc<AtomicU64>,
    pages: HttpCache,
}

impl Service {
    /// Creates a service whose caches use a clock.
    pub fn new(clock: Clock) -> Result<Self, mayfly::BuildError> {
        let expired = Arc::new(AtomicU64::new(0));
        let count = expired.clone();
        let reports = Cache::builder(10_000)
            .ttl(Duration::from_secs(60))
            // During its last ten seconds a report is computed again while others get the old one.
            .refresh_ahead(Duration::from_secs(10))
            .clock(clock.clone())
            .listener(move |_: &u32, _: &Arc<str>, cause| {
                if cause == Cause::Expired {
                    count.fetch_add(1, Relaxed);
                }
            })
            .build()?;
        Ok(Service {
            reports,
            computed: Arc::default(),
            expired,
            pages: HttpCache::new(64 << 20, clock)?,
        })
    }

    /// Returns the routes.
    pub fn router(self) -> Router {
        let cached = Router::new()
            .route("/page", get(page))
            .layer(self.pages.clone());
        Router::new()
            .route("/report/{number}", get(report))
            .route("/metrics", get(metrics))
            .merge(cached)
            .with_state(self)
    }

    /// Removes what has expired, for a clock that a test moves.
    pub fn expire(&self) {
        self.reports.expire();
    }
}

/// A handler whose result is cached. Of several requests at the same time one computes.
async fn report(State(service): State<Service>, Path(number): Path<u32>) -> String {
    let computed = service.computed.clone();
    let load = async move {
        computed.fetch_add(1, Relaxed);
        // Stands for a query that takes long.
        tokio::task::yield_now().await;
        let square = u64::from(number) * u64::from(number);
        Arc::from(format!("the square of {number} is {square}\n"))
    };
    let report: Arc<str> = service.reports.get_with_async(number, load).await;
    report.to_string()
}

/// A handler that states for how long its response is fresh; the layer caches it.
async fn page(State(service): State<Service>) -> ([(&'static str, &'static str); 1], String) {
    let number = service.computed.fetch_add(1, Relaxed);
    (
        [("cache-control", "max-age=30")],
        format!("page {number}\n"),
    )
}

/// Counts of both caches in Prometheus's text format.
async fn metrics(State(service): State<Service>) -> ([(&'static str, &'static str); 1], String) {
    let mut text = String::new();
    let all = [
        ("reports", service.reports.stats()),
        ("pages", service.pages.stats()),
    ];
    let mut counter = |name: &str, help: &str, kind: &str, of: &dyn Fn(&mayfly::Stats) -> f64| {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (cache, stats) in &all {
            let _ = writeln!(text, "{name}{{cache=\"{cache}\"}} {}", of(stats));
        }
    };
    counter(
        "cache_hits_total",
        "Look-ups with a value.",
        "counter",
        &|s| s.hits as f64,
    );
    counter(
        "cache_misses_total",
        "Look-ups without a value.",
        "counter",
        &|s| s.misses() as f64,
    );
    counter("cache_loads_total", "Values loaded.", "counter", &|s| {
        s.loads as f64
    });
    counter("cache_evicted_total", "Entries evicted.", "counter", &|s| {
        s.evicted as f64
    });
    counter("cache_expired_total", "Entries expired.", "counter", &|s| {
        s.expired as f64
    });
    counter("cache_entries", "Entries.", "gauge", &|s| s.len as f64);
    counter(
        "cache_bytes",
        "Bytes of the cache's own memory.",
        "gauge",
        &|s| s.bytes as f64,
    );
    counter(
        "cache_expiry_lag_p99_seconds",
        "Time that 99 % of the removals of expired entries were not later than.",
        "gauge",
        &|s| s.lag_quantile(0.99).as_secs_f64(),
    );
    ([("content-type", "text/plain; version=0.0.4")], text)
}
