//! Measurements of one run of a cluster.

use super::scheme::Scheme;
use serde::Serialize;
use std::time::Duration;

/// Shares of the requests for which [`Latencies`] has a time.
pub const LATENCY_SHARES: [f64; 12] = [
    0.01, 0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0,
];

/// Milliseconds within which each of [`LATENCY_SHARES`] of the requests is answered; empty without
/// requests of the kind. Objects below the coding size are small.
#[derive(Clone, Debug, Serialize)]
pub struct Latencies {
    /// First byte of a small object.
    pub small_first_ms: Vec<f64>,
    /// Last byte of a small object.
    pub small_full_ms: Vec<f64>,
    /// First byte of a large object.
    pub large_first_ms: Vec<f64>,
    /// Last byte of a large object.
    pub large_full_ms: Vec<f64>,
    /// Bytes of parity requested because of late chunks, relative to the bytes requested by
    /// clients. Each stripe of an object is assumed to request as much as the first. Bytes between
    /// servers and bytes read do not include them.
    pub hedged: f64,
    /// Share of chunk reads that requested parity in place of late chunks.
    pub hedged_reads: f64,
    /// Share of the reads of chunks that were decoded, because data was missing or late.
    pub decoded_reads: f64,
}

/// Counters of one window of time.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Window {
    /// Number of requests.
    pub requests: u64,
    /// Requests that needed the origin.
    pub misses: u64,
    /// Misses that found some chunks, but too few.
    pub partial_hits: u64,
    /// Bytes requested.
    pub bytes: u64,
    /// Bytes sent by the origin.
    pub origin_bytes: u64,
    /// Number of objects of which a part was held at the end of the window.
    pub held: u64,
    /// Held objects that would not survive the loss of a server.
    pub unprotected: u64,
    /// Servers that were down at the end of the window.
    pub down: u32,
}

impl Window {
    /// Sums consecutive windows. The number of servers that are down is taken from the last window.
    pub(super) fn sum(windows: &[Window]) -> Window {
        windows.iter().fold(Window::default(), |sum, one| Window {
            requests: sum.requests + one.requests,
            misses: sum.misses + one.misses,
            partial_hits: sum.partial_hits + one.partial_hits,
            bytes: sum.bytes + one.bytes,
            origin_bytes: sum.origin_bytes + one.origin_bytes,
            held: sum.held + one.held,
            unprotected: sum.unprotected + one.unprotected,
            down: one.down,
        })
    }

    /// Share of the requests that needed the origin.
    pub fn miss_ratio(&self) -> f64 {
        ratio(self.misses, self.requests)
    }

    /// Share of the bytes that the origin sent.
    pub fn byte_miss_ratio(&self) -> f64 {
        ratio(self.origin_bytes, self.bytes)
    }

    /// Share of the requests that found some chunks, but too few.
    pub fn partial_hit_ratio(&self) -> f64 {
        ratio(self.partial_hits, self.requests)
    }
}

/// Quotient, 0 if the divisor is 0.
pub(super) fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// Result of a run, counted after the warm-up.
#[derive(Clone, Debug, Serialize)]
pub struct RunResult {
    /// Redundancy scheme.
    #[serde(serialize_with = "shown")]
    pub scheme: Scheme,
    /// Relative disk sizes of the servers.
    pub weights: Vec<u32>,
    /// Sum of all windows; counts of held objects and servers as at the end.
    pub total: Window,
    /// Requests answered from memory.
    pub memory_hits: u64,
    /// Requests answered from another server's disk.
    pub peer_hits: u64,
    /// Requests answered from chunks with some data chunks missing. Decoding because of late chunks
    /// is counted in [`Latencies`].
    pub decoded_hits: u64,
    /// Requests that came while every server was down.
    pub unserved: u64,
    /// Objects that a disk did not take, because they were larger than the disk or refused by its
    /// policy.
    pub refused: u64,
    /// Bytes sent between servers.
    pub between_bytes: u64,
    /// Bytes written to disks to repair missing parts of objects that were hits.
    pub repaired_bytes: u64,
    /// Bytes of partial hits that were found in the cluster.
    pub partial_hit_bytes: u64,
    /// Misses in the watched interval, by the list of servers that kept a part of the object at the
    /// start of the interval.
    #[serde(skip)]
    pub missed_by_row: Vec<(Vec<u16>, u64)>,
    /// Messages sent for coordination.
    pub messages: u64,
    /// Bytes read from each server's disk.
    pub read_bytes: Vec<u64>,
    /// Bytes written to each server's disk.
    pub written_bytes: Vec<u64>,
    /// Windows in the order of time, each [`RunResult::window_ms`] long.
    pub windows: Vec<Window>,
    /// Length of a window in milliseconds.
    pub window_ms: u64,
    /// Mean over the windows of the share of held objects that would not survive the loss of a
    /// server.
    pub unprotected: f64,
    /// Mean over the windows of the share of disk space in use.
    pub filled: f64,
    /// Probability that a chunk is held if another chunk of its object is, over all windows; `None`
    /// without a code.
    pub co_residency: Option<f64>,
    /// Latencies, if they were drawn.
    pub latencies: Option<Latencies>,
    /// Number of changes of the map.
    pub maps: u64,
    /// Number of parity buckets that a change of the map moved.
    pub moved: u64,
    /// Requests replayed, the warm-up included.
    pub replayed: u64,
    /// CPU time of the run.
    #[serde(skip)]
    pub cpu_time: Duration,
}

fn shown<S: serde::Serializer>(scheme: &Scheme, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(scheme)
}

impl RunResult {
    /// Share of the requests that needed the origin.
    pub fn miss_ratio(&self) -> f64 {
        self.total.miss_ratio()
    }

    /// Share of the bytes that the origin sent. CDNs call this traffic between cluster and origin
    /// midgress.
    pub fn byte_miss_ratio(&self) -> f64 {
        self.total.byte_miss_ratio()
    }

    /// Byte miss ratio if partial hits fetched the whole object.
    pub fn byte_miss_ratio_whole(&self) -> f64 {
        ratio(
            self.total.origin_bytes + self.partial_hit_bytes,
            self.total.bytes,
        )
    }

    /// Share of the bytes written to disks that were repairs.
    pub fn repaired(&self) -> f64 {
        ratio(self.repaired_bytes, self.written_bytes.iter().sum())
    }

    /// Bytes between servers relative to the bytes requested.
    pub fn between(&self) -> f64 {
        ratio(self.between_bytes, self.total.bytes)
    }

    /// Bytes of parity requested in place of late chunks, relative to the bytes requested, which
    /// [`RunResult::between`] does not include; `None` without latencies.
    pub fn hedged(&self) -> Option<f64> {
        self.latencies.as_ref().map(|latencies| latencies.hedged)
    }

    /// Misses in the watched interval for objects of which one of these servers kept a part when it
    /// began.
    pub fn missed_of(&self, servers: &[u16]) -> u64 {
        let own = self.missed_by_row.iter();
        let own = own.filter(|(row, _)| row.iter().any(|server| servers.contains(server)));
        own.map(|(_, missed)| missed).sum()
    }

    /// [`Latencies::hedged_reads`]; `None` without a code or latencies.
    pub fn hedged_reads(&self) -> Option<f64> {
        let latencies = self.scheme.code().and(self.latencies.as_ref());
        latencies.map(|latencies| latencies.hedged_reads)
    }

    /// [`Latencies::decoded_reads`]; `None` without a code or latencies.
    pub fn decoded_reads(&self) -> Option<f64> {
        let latencies = self.scheme.code().and(self.latencies.as_ref());
        latencies.map(|latencies| latencies.decoded_reads)
    }

    /// Whether anything was requested and held. Ratios of a run without requests or objects mean
    /// nothing.
    pub(super) fn has_requests_and_objects(&self) -> bool {
        self.total.requests > 0 && self.windows.iter().any(|window| window.held > 0)
    }

    /// Write imbalance of the servers: see [`imbalance`].
    pub fn write_imbalance(&self) -> Option<f64> {
        imbalance(&self.written_bytes, &self.weights)
    }

    /// Read imbalance of the servers.
    pub fn read_imbalance(&self) -> Option<f64> {
        imbalance(&self.read_bytes, &self.weights)
    }
}

/// Difference between the largest and the smallest load relative to the smallest, with loads
/// divided by the servers' weights: a server of twice the size should have twice the load. `None`
/// if the smallest load is 0.
pub fn imbalance(loads: &[u64], weights: &[u32]) -> Option<f64> {
    let by_weight = loads.iter().zip(weights);
    let by_weight = by_weight.map(|(load, weight)| *load as f64 / f64::from(*weight));
    let (least, most) = by_weight.fold((f64::INFINITY, 0.0f64), |(least, most), load| {
        (least.min(load), most.max(load))
    });
    (least > 0.0 && least.is_finite()).then(|| (most - least) / least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imbalance_is_relative_to_the_least_loaded_server() {
        assert_eq!(imbalance(&[20, 10, 15], &[1; 3]), Some(1.0));
        assert_eq!(imbalance(&[5, 5], &[1; 2]), Some(0.0));
        assert_eq!(imbalance(&[0, 5], &[1; 2]), None);
        assert_eq!(imbalance(&[], &[]), None);
    }

    #[test]
    fn a_sum_of_windows_ends_as_the_last_window() {
        let one = Window {
            requests: 10,
            misses: 4,
            held: 8,
            unprotected: 2,
            down: 3,
            ..Window::default()
        };
        let sum = Window::sum(&[one, one, Window { down: 1, ..one }]);
        assert_eq!((sum.requests, sum.down), (30, 1));
        assert_eq!(
            (sum.miss_ratio(), ratio(sum.unprotected, sum.held)),
            (0.4, 0.25)
        );
    }

    #[test]
    fn a_server_of_twice_the_size_may_have_twice_the_load() {
        assert_eq!(imbalance(&[20, 10], &[2, 1]), Some(0.0));
        assert_eq!(imbalance(&[10, 10], &[2, 1]), Some(1.0));
    }
}
