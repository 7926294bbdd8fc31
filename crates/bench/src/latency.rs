//! Open-loop latencies as percentiles.

use ::report::{Column, TableOf};
use hdrhistogram::Histogram;
use serde::Serialize;
use std::time::Duration;

/// Histogram of latencies in nanoseconds, with three significant digits, up to a minute.
pub(crate) struct Latencies(Histogram<u64>);

const LONGEST_NS: u64 = 60_000_000_000;

impl Latencies {
    pub(crate) fn new() -> Latencies {
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, 3);
        Latencies(histogram.expect("the bounds are in order and three digits are allowed"))
    }

    #[inline]
    pub(crate) fn record(&mut self, latency: Duration) {
        self.0
            .saturating_record(latency.as_nanos().min(u128::from(LONGEST_NS)) as u64);
    }

    /// Adds the latencies of another histogram.
    pub(crate) fn add(&mut self, other: &Latencies) {
        let added = self.0.add(&other.0);
        added.expect("both have the same bounds");
    }

    pub(crate) fn percentiles(&self) -> Percentiles {
        let at = |share| self.0.value_at_quantile(share) as f64 / 1e6;
        Percentiles {
            count: self.0.len(),
            mean_ms: self.0.mean() / 1e6,
            p50_ms: at(0.5),
            p90_ms: at(0.9),
            p99_ms: at(0.99),
            p999_ms: at(0.999),
            max_ms: self.0.max() as f64 / 1e6,
        }
    }
}

/// Percentiles of latencies in milliseconds.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Percentiles {
    pub count: u64,
    pub mean_ms: f64,
    pub p50_ms: f64,
    pub p90_ms: f64,
    pub p99_ms: f64,
    pub p999_ms: f64,
    pub max_ms: f64,
}

/// Adds columns for the count, p50, p99, p99.9 and maximum of each record's percentiles.
pub(crate) fn columns<'a, R: Copy>(
    table: TableOf<R>,
    of: impl Fn(R) -> &'a Percentiles,
) -> TableOf<R> {
    table
        .column(Column::count("count"), |record| of(record).count)
        .column(Column::span("p50"), |record| of(record).p50_ms)
        .column(Column::span("p99"), |record| of(record).p99_ms)
        .column(Column::span("p99.9"), |record| of(record).p999_ms)
        .column(Column::span("max"), |record| of(record).max_ms)
}
