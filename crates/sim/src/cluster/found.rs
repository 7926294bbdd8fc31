//! What a run of a cluster found.

use super::scheme::Scheme;
use serde::Serialize;
use std::time::Duration;

/// The shares of requests for which [`Latencies`] tell a time.
pub const LATENCY_SHARES: [f64; 12] = [
    0.01, 0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0,
];

/// Milliseconds that each of [`LATENCY_SHARES`] of the requests stay within; empty where there are no
/// requests of the kind. Small is what is below the size from which objects are coded.
#[derive(Clone, Debug, Serialize)]
pub struct Latencies {
    /// Until the first byte of a small object.
    pub small_first_ms: Vec<f64>,
    /// Until the last byte of a small object.
    pub small_full_ms: Vec<f64>,
    /// Until the first byte of a large object.
    pub large_first_ms: Vec<f64>,
    /// Until the last byte of a large object.
    pub large_full_ms: Vec<f64>,
    /// Bytes of parity asked for in the place of late chunks, per byte that clients asked for: as many of each stripe as of
    /// the first. Figures of bytes between servers and of bytes read do not count them.
    pub hedged: f64,
    /// Of the requests answered by chunks, the share that asked for parity in the place of late ones.
    pub hedged_reads: f64,
    /// Of the same, the share that was decoded, since data was gone or late.
    pub decoded_reads: f64,
}

/// What happened in one stretch of time.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Window {
    /// Requests.
    pub requests: u64,
    /// Requests that needed the origin.
    pub misses: u64,
    /// Of these, those that found some chunks, but too few.
    pub partial_hits: u64,
    /// Bytes asked for.
    pub bytes: u64,
    /// Bytes that came from the origin.
    pub origin_bytes: u64,
    /// Objects of which a part was held at the end.
    pub held: u64,
    /// Of these, those that could not lose a server.
    pub unprotected: u64,
    /// Servers down at the end.
    pub down: u32,
}

impl Window {
    /// Several that follow each other, as one: servers that are down are those at the end.
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

    /// The share of requests that needed the origin.
    pub fn miss_ratio(&self) -> f64 {
        ratio(self.misses, self.requests)
    }

    /// The share of bytes that came from the origin.
    pub fn byte_miss_ratio(&self) -> f64 {
        ratio(self.origin_bytes, self.bytes)
    }

    /// The share of requests that found some chunks, but too few.
    pub fn partial_hit_ratio(&self) -> f64 {
        ratio(self.partial_hits, self.requests)
    }
}

/// A quotient, 0 where there is nothing to divide by.
pub(super) fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// After the warm-up.
#[derive(Clone, Debug, Serialize)]
pub struct Found {
    /// How objects were kept.
    #[serde(serialize_with = "shown")]
    pub scheme: Scheme,
    /// How large servers are, in proportion to each other.
    pub weights: Vec<u32>,
    /// All windows together; the last two fields as at the end.
    pub total: Window,
    /// Requests answered from memory, by another server's disk, and by chunks of which some were gone, whatever late ones
    /// had to be decoded besides: of these tell [`Latencies`].
    pub memory_hits: u64,
    /// See above.
    pub peer_hits: u64,
    /// See above.
    pub decoded_hits: u64,
    /// Requests that came when every server was down.
    pub unserved: u64,
    /// Objects that the disks did not take: larger than one of them, or refused by its policy.
    pub refused: u64,
    /// Bytes between servers.
    pub between_bytes: u64,
    /// Of the bytes written to disks, those of parts that were missing from what was a hit all the same.
    pub mended_bytes: u64,
    /// Bytes of objects that needed the origin, which partial hits found in the cluster.
    pub salvaged_bytes: u64,
    /// Misses in the time watched: servers, and the misses of objects of which just these kept a part when it
    /// began.
    #[serde(skip)]
    pub missed_by_row: Vec<(Vec<u16>, u64)>,
    /// Messages that coordination took.
    pub messages: u64,
    /// Bytes read from each server's disk.
    pub read_bytes: Vec<u64>,
    /// Bytes written to each server's disk.
    pub written_bytes: Vec<u64>,
    /// In the order of time, each [`Found::window_ms`] long.
    pub windows: Vec<Window>,
    /// How long a window is.
    pub window_ms: u64,
    /// The mean over the windows of the share of held objects that could not lose a server.
    pub unprotected: f64,
    /// The mean over the windows of the share of all disks together that is taken.
    pub filled: f64,
    /// The chance that a chunk is held if another of its object is, over all windows; where objects
    /// are coded.
    pub together: Option<f64>,
    /// Times, where they were asked for.
    pub latencies: Option<Latencies>,
    /// Changes of the map, and parity buckets that moved with them.
    pub maps: u64,
    /// See above.
    pub moved: u64,
    /// Requests of the run, the warm-up too.
    pub replayed: u64,
    /// What they took.
    #[serde(skip)]
    pub cpu_time: Duration,
}

fn shown<S: serde::Serializer>(scheme: &Scheme, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(scheme)
}

impl Found {
    /// The share of requests that needed the origin.
    pub fn miss_ratio(&self) -> f64 {
        self.total.miss_ratio()
    }

    /// The share of bytes that came from the origin. Under the name that it is paid by, midgress: bytes between the
    /// cluster and the origin, by byte asked for.
    pub fn byte_miss_ratio(&self) -> f64 {
        self.total.byte_miss_ratio()
    }

    /// The byte miss ratio if a partial hit fetched all of its object.
    pub fn byte_miss_ratio_whole(&self) -> f64 {
        ratio(
            self.total.origin_bytes + self.salvaged_bytes,
            self.total.bytes,
        )
    }

    /// The share of the bytes written to disks that the origin did not have to send.
    pub fn mended(&self) -> f64 {
        ratio(self.mended_bytes, self.written_bytes.iter().sum())
    }

    /// Bytes between servers of the cluster, by byte asked for.
    pub fn between(&self) -> f64 {
        ratio(self.between_bytes, self.total.bytes)
    }

    /// Bytes of parity between servers in the place of late chunks, which [`Found::between`] does not count, by
    /// byte asked for; where requests were timed.
    pub fn hedged(&self) -> Option<f64> {
        self.latencies.as_ref().map(|latencies| latencies.hedged)
    }

    /// Misses in the time watched of objects of which one of these servers kept a part when it began.
    pub fn missed_of(&self, servers: &[u16]) -> u64 {
        let own = self.missed_by_row.iter();
        let own = own.filter(|(row, _)| row.iter().any(|server| servers.contains(server)));
        own.map(|(_, missed)| missed).sum()
    }

    /// See [`Latencies::hedged_reads`]; where objects are coded and requests timed.
    pub fn hedged_reads(&self) -> Option<f64> {
        let latencies = self.scheme.code().and(self.latencies.as_ref());
        latencies.map(|latencies| latencies.hedged_reads)
    }

    /// See [`Latencies::decoded_reads`]; where objects are coded and requests timed.
    pub fn decoded_reads(&self) -> Option<f64> {
        let latencies = self.scheme.code().and(self.latencies.as_ref());
        latencies.map(|latencies| latencies.decoded_reads)
    }

    /// Whether anything was asked for and kept: what ratios tell of a run in which nothing was, is no
    /// finding.
    pub(super) fn is_telling(&self) -> bool {
        self.total.requests > 0 && self.windows.iter().any(|window| window.held > 0)
    }

    /// How unevenly servers are written to: see [`imbalance`].
    pub fn write_imbalance(&self) -> Option<f64> {
        imbalance(&self.written_bytes, &self.weights)
    }

    /// How unevenly servers are read from.
    pub fn read_imbalance(&self) -> Option<f64> {
        imbalance(&self.read_bytes, &self.weights)
    }
}

/// What the most loaded server has more than the least loaded, of the latter's load, each by its weight:
/// a server of twice the size shall have twice the load. None where the least is nothing.
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
    fn imbalance_is_told_of_the_least_loaded() {
        assert_eq!(imbalance(&[20, 10, 15], &[1; 3]), Some(1.0));
        assert_eq!(imbalance(&[5, 5], &[1; 2]), Some(0.0));
        assert_eq!(imbalance(&[0, 5], &[1; 2]), None);
        assert_eq!(imbalance(&[], &[]), None);
    }

    #[test]
    fn windows_add_up_and_end_as_the_last_does() {
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
