//! Statistics of a trace, collected in one pass with bounded memory.

use crate::request::{Op, Request};
use crate::sampled_map::SampledMap;

/// Maximum number of objects that are counted exactly; more are estimated. 2^25 objects take about
/// 2 GiB.
const OBJECTS_COUNTED: usize = 1 << 25;
const SEED: u64 = 0;

/// Collector of statistics.
pub struct Summary {
    statistics: Statistics,
    last_time_ms: u64,
    objects: SampledMap<Object>,
}

struct Object {
    first_size: u32,
    changes_size: bool,
}

/// Statistics of a trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Statistics {
    /// Number of requests.
    pub requests: u64,
    /// Sum of the sizes of all requests, in bytes.
    pub request_bytes: u64,
    /// Number of objects: exact up to 33 million, estimated beyond.
    pub objects: u64,
    /// Sum of the sizes of all objects in bytes, each at its first request; estimated like the
    /// number of objects.
    pub object_bytes: u64,
    /// Number of objects with requests of more than one size; estimated like the number of objects.
    pub resized_objects: u64,
    /// Whether the numbers of objects are estimates.
    pub is_estimate: bool,
    /// Smallest time in milliseconds.
    pub first_ms: u64,
    /// Largest time in milliseconds.
    pub last_ms: u64,
    /// Number of requests with a time earlier than the preceding request's.
    pub backward_requests: u64,
    /// Smallest size of a request in bytes.
    pub size_min: u32,
    /// Largest size of a request in bytes.
    pub size_max: u32,
    /// Number of requests of size 0.
    pub empty_requests: u64,
    /// Number of requests with a TTL.
    pub ttl_requests: u64,
    /// Number of requests of each operation, in the order of [`Op::ALL`].
    pub ops: [u64; Op::ALL.len()],
}

impl Default for Summary {
    fn default() -> Self {
        Summary::new(OBJECTS_COUNTED)
    }
}

impl Summary {
    /// Creates a collector that counts up to `objects_counted` ≥ 1 objects exactly.
    pub fn new(objects_counted: usize) -> Self {
        Summary {
            statistics: Statistics {
                first_ms: u64::MAX,
                size_min: u32::MAX,
                ..Statistics::default()
            },
            last_time_ms: 0,
            objects: SampledMap::new(objects_counted, 0, SEED),
        }
    }

    /// Counts a request.
    #[inline]
    pub fn add(&mut self, request: &Request) {
        let statistics = &mut self.statistics;
        statistics.requests += 1;
        statistics.request_bytes += u64::from(request.size);
        statistics.first_ms = statistics.first_ms.min(request.time_ms);
        statistics.last_ms = statistics.last_ms.max(request.time_ms);
        statistics.backward_requests += u64::from(request.time_ms < self.last_time_ms);
        self.last_time_ms = request.time_ms;
        statistics.size_min = statistics.size_min.min(request.size);
        statistics.size_max = statistics.size_max.max(request.size);
        statistics.empty_requests += u64::from(request.size == 0);
        statistics.ttl_requests += u64::from(request.ttl_ms > 0);
        statistics.ops[request.op as usize] += 1;
        let new = || Object {
            first_size: request.size,
            changes_size: false,
        };
        if let Some(object) = self.objects.entry(request.key, new) {
            object.changes_size |= object.first_size != request.size;
        }
    }

    /// Returns the statistics; zeros for a trace without requests.
    pub fn statistics(mut self) -> Statistics {
        self.objects.shrink();
        let share = self.objects.share();
        let whole = |count: u64| (count as f64 / share).round() as u64;
        let objects = self.objects.values();
        let bytes = objects.map(|object| u64::from(object.first_size)).sum();
        let resized = self.objects.values().filter(|object| object.changes_size);
        self.statistics.objects = whole(self.objects.len() as u64);
        self.statistics.object_bytes = whole(bytes);
        self.statistics.resized_objects = whole(resized.count() as u64);
        self.statistics.is_estimate = share < 1.0;
        if self.statistics.requests == 0 {
            self.statistics.first_ms = 0;
            self.statistics.size_min = 0;
        }
        self.statistics
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_counted() {
        let mut summary = Summary::default();
        let delete = Request {
            op: Op::Delete,
            ttl_ms: 5,
            ..Request::new(1_000, 2, 0)
        };
        for request in [
            Request::new(2_000, 1, 10),
            delete,
            Request::new(3_000, 1, 20),
        ] {
            summary.add(&request);
        }
        let statistics = summary.statistics();
        assert_eq!((statistics.requests, statistics.request_bytes), (3, 30));
        assert_eq!(
            (
                statistics.objects,
                statistics.object_bytes,
                statistics.resized_objects
            ),
            (2, 10, 1)
        );
        assert_eq!(
            (
                statistics.first_ms,
                statistics.last_ms,
                statistics.backward_requests
            ),
            (1_000, 3_000, 1)
        );
        assert_eq!(
            (
                statistics.size_min,
                statistics.size_max,
                statistics.empty_requests
            ),
            (0, 20, 1)
        );
        assert_eq!(
            (
                statistics.ttl_requests,
                statistics.ops[0],
                statistics.ops[8]
            ),
            (1, 2, 1)
        );
        assert!(!statistics.is_estimate);
        assert_eq!(Summary::default().statistics(), Statistics::default());
    }

    #[test]
    fn many_objects_are_estimated() {
        let mut summary = Summary::new(1_000);
        for key in 0..100_000 {
            summary.add(&Request::new(0, key, 3));
        }
        let statistics = summary.statistics();
        assert!(statistics.is_estimate);
        // Four standard deviations of an estimate from 1,000 objects are 13 %.
        assert!(
            statistics.objects.abs_diff(100_000) < 13_000,
            "{}",
            statistics.objects
        );
        assert_eq!(
            statistics.object_bytes.abs_diff(3 * statistics.objects) / 10,
            0
        );
    }
}
