//! Windows of equal length over a trace. Their number is bounded: above the bound, neighbours are
//! merged and the length doubles.

use datasketches::hll::{HllSketch, HllType, HllUnion};
use serde::Serialize;

/// Maximum number of windows.
const WINDOWS_MAX: usize = 512;
/// Initial length in milliseconds for a trace with timestamps.
const FIRST_MS: u64 = 1000;
/// Initial length in requests for a trace without timestamps.
const FIRST_REQUESTS: u64 = 256;
/// Logarithm of the registers: with 2^11, the number of distinct keys has a standard error of 2.3
/// %.
const LG_REGISTERS: u8 = 11;
/// Number of size bins; bin n starts at 2^(n/2).
pub(crate) const SIZE_BINS: usize = 65;
/// Number of neighbours on each side of a window that determine its usual rate.
const NEIGHBOURS: usize = 10;
/// Minimum ratio of a window's requests to the usual number for a spike.
const SPIKE: f64 = 1.5;
/// Maximum ratio of a spike's objects to the usual number for a spike of hot keys.
const SPREAD: f64 = 1.2;

struct Window {
    requests: u64,
    writes: u64,
    bytes: u64,
    keys: HllSketch,
    sizes: Box<[u32; SIZE_BINS]>,
    /// Working set at the end of the window.
    state: WorkingSet,
}

/// Working set at a point in time, estimated over all objects.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct WorkingSet {
    /// Distinct objects requested so far.
    pub total_objects: f64,
    /// Bytes of these objects.
    pub total_bytes: f64,
    /// Objects that are not expired.
    pub live_objects: f64,
    /// Bytes of the objects that are not expired.
    pub live_bytes: f64,
}

/// Result of one window.
#[derive(Clone, Debug, Serialize)]
pub struct WindowRow {
    /// Start of the window: milliseconds or a request number.
    pub start: u64,
    /// Number of requests.
    pub requests: u64,
    /// Number of writes.
    pub writes: u64,
    /// Bytes of the requested objects.
    pub bytes: u64,
    /// Distinct objects requested, within 2.3 %.
    pub objects: f64,
    /// Working set at the end of the window.
    pub state: WorkingSet,
}

/// A window with far more requests than its neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spike {
    /// Start of the window: milliseconds or a request number.
    pub start: u64,
    /// The window's requests divided by the median of its neighbours.
    pub requests_ratio: f64,
    /// The window's distinct objects divided by the median of its neighbours.
    pub objects_ratio: f64,
    /// Whether few objects received the additional requests. Otherwise the requests spread over
    /// more objects.
    pub is_of_hot_keys: bool,
}

/// Results over time.
#[derive(Clone, Debug, Serialize)]
pub struct OverTime {
    /// `ms` or `requests`: unit of `width` and of each window's `start`.
    pub unit: &'static str,
    /// Length of a window.
    pub width: u64,
    /// Windows; the last one may be incomplete.
    pub windows: Vec<WindowRow>,
    /// Windows with far more requests than their neighbours.
    pub spikes: Vec<Spike>,
    /// Lower bound of each size bin in bytes.
    pub size_bins: Vec<u64>,
    /// Per window, the share of its requests in each size bin; empty if sizes are unknown.
    pub size_shares: Vec<Vec<f32>>,
}

/// Collects the windows.
pub(crate) struct Windows {
    list: Vec<Window>,
    width: u64,
    is_of_time: bool,
}

/// Bin of a size.
#[inline]
fn bin_of(size: u32) -> usize {
    if size == 0 {
        return 0;
    }
    let log = size.ilog2();
    // Whether the size is at least √2 times the power of two.
    let is_upper = u64::from(size) * u64::from(size) >= 1u64 << (2 * log + 1);
    (2 * log) as usize + usize::from(is_upper) + 1
}

/// Lower bound of a bin.
fn start_of_bin(bin: usize) -> u64 {
    match bin {
        0 => 0,
        _ => 2f64.powf((bin - 1) as f64 / 2.0).ceil() as u64,
    }
}

impl Window {
    fn new() -> Self {
        Window {
            requests: 0,
            writes: 0,
            bytes: 0,
            keys: HllSketch::new(LG_REGISTERS, HllType::Hll8).expect("11 is within its range"),
            sizes: Box::new([0; SIZE_BINS]),
            state: WorkingSet::default(),
        }
    }

    fn absorb(&mut self, later: Window) {
        self.requests += later.requests;
        self.writes += later.writes;
        self.bytes = self.bytes.saturating_add(later.bytes);
        let mut union = HllUnion::new(LG_REGISTERS).expect("11 is within its range");
        union.update(&self.keys);
        union.update(&later.keys);
        self.keys = union.to_sketch(HllType::Hll8);
        for (mine, other) in self.sizes.iter_mut().zip(*later.sizes) {
            *mine = mine.saturating_add(other);
        }
        self.state = later.state;
    }
}

impl Windows {
    /// Creates windows of time, or of requests for a trace without timestamps.
    pub fn new(is_of_time: bool) -> Self {
        Windows {
            list: vec![Window::new()],
            width: if is_of_time { FIRST_MS } else { FIRST_REQUESTS },
            is_of_time,
        }
    }

    /// Whether windows are of time.
    pub fn is_of_time(&self) -> bool {
        self.is_of_time
    }

    /// Position of a request in the unit of the windows.
    #[inline]
    pub fn position(&self, ms: u64, number: u64) -> u64 {
        if self.is_of_time { ms } else { number }
    }

    /// Whether a request at `position` starts a new window; the caller then calls [`Windows::open`]
    /// first.
    #[inline]
    pub fn is_beyond(&self, position: u64) -> bool {
        position / self.width >= self.list.len() as u64
    }

    /// Ends windows until `position` is in the last one. `state` is the working set at that time.
    pub fn open(&mut self, position: u64, state: WorkingSet) {
        while position / self.width >= WINDOWS_MAX as u64 {
            self.halve();
        }
        while self.is_beyond(position) {
            self.list.last_mut().expect("there is always one").state = state;
            self.list.push(Window::new());
        }
    }

    fn halve(&mut self) {
        self.width = self.width.saturating_mul(2);
        let mut pairs = Vec::with_capacity(WINDOWS_MAX);
        let mut list = std::mem::take(&mut self.list).into_iter();
        while let Some(mut first) = list.next() {
            if let Some(second) = list.next() {
                first.absorb(second);
            }
            pairs.push(first);
        }
        self.list = pairs;
    }

    /// Counts a request in the last window.
    #[inline]
    pub fn record(&mut self, hash: u64, size: u32, is_write: bool) {
        let window = self.list.last_mut().expect("there is always one");
        window.requests += 1;
        window.writes += u64::from(is_write);
        window.bytes = window.bytes.saturating_add(u64::from(size));
        window.keys.update(hash);
        let bin = &mut window.sizes[bin_of(size).min(SIZE_BINS - 1)];
        *bin = bin.saturating_add(1);
    }

    /// Returns the result; `state` is the working set at the end.
    pub fn finish(mut self, state: WorkingSet, has_sizes: bool) -> OverTime {
        self.list.last_mut().expect("there is always one").state = state;
        let rows: Vec<WindowRow> = self
            .list
            .iter()
            .enumerate()
            .map(|(index, window)| WindowRow {
                start: index as u64 * self.width,
                requests: window.requests,
                writes: window.writes,
                bytes: window.bytes,
                objects: window.keys.estimate(),
                state: window.state,
            })
            .collect();
        let used = match has_sizes {
            true => (0..SIZE_BINS)
                .rev()
                .find(|bin| self.list.iter().any(|w| w.sizes[*bin] > 0))
                .map_or(0, |last| last + 1),
            false => 0,
        };
        let shares = |w: &Window| -> Vec<f32> {
            let share = |count: &u32| *count as f32 / (w.requests.max(1)) as f32;
            w.sizes[..used].iter().map(share).collect()
        };
        OverTime {
            unit: if self.is_of_time { "ms" } else { "requests" },
            width: self.width,
            spikes: spikes(&rows),
            size_bins: (0..used).map(start_of_bin).collect(),
            size_shares: match used {
                0 => Vec::new(),
                _ => self.list.iter().map(shares).collect(),
            },
            windows: rows,
        }
    }
}

/// Finds complete windows with far more requests than their neighbours.
fn spikes(rows: &[WindowRow]) -> Vec<Spike> {
    let complete = rows.len().saturating_sub(1);
    let median = |index: usize, value: &dyn Fn(&WindowRow) -> f64| -> f64 {
        let from = index.saturating_sub(NEIGHBOURS);
        let to = (index + NEIGHBOURS + 1).min(complete);
        let mut values: Vec<f64> = (from..to)
            .filter(|other| *other != index)
            .map(|other| value(&rows[other]))
            .collect();
        values.sort_unstable_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(0.0)
    };
    let mut spikes = Vec::new();
    for (index, row) in rows[..complete].iter().enumerate() {
        let usual = median(index, &|r| r.requests as f64);
        // Random variation alone exceeds this bound in less than one of a million windows.
        let noise = 5.0 * usual.sqrt();
        if usual == 0.0 || (row.requests as f64) < (usual * SPIKE).max(usual + noise) {
            continue;
        }
        let objects_ratio = row.objects / median(index, &|r| r.objects).max(1.0);
        spikes.push(Spike {
            start: row.start,
            requests_ratio: row.requests as f64 / usual,
            objects_ratio,
            is_of_hot_keys: objects_ratio < SPREAD,
        });
    }
    spikes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::objects::hash_of;

    #[test]
    fn bins_are_half_powers_of_two() {
        assert_eq!(bin_of(0), 0);
        assert_eq!(bin_of(u32::MAX), SIZE_BINS - 1);
        for bin in 1..SIZE_BINS - 1 {
            let start = start_of_bin(bin);
            if start < start_of_bin(bin + 1) {
                assert_eq!(bin_of(start as u32), bin, "{start}");
            }
        }
        assert_eq!(bin_of(1023), bin_of(1000));
        assert_eq!(bin_of(1024), bin_of(1023) + 1);
    }

    #[test]
    fn windows_merge_without_losing_anything() {
        let mut windows = Windows::new(true);
        let requests = 200_000u64;
        for n in 0..requests {
            let at = n * 40;
            if windows.is_beyond(at) {
                windows.open(at, WorkingSet::default());
            }
            windows.record(hash_of(n % 5000), 100, n % 4 == 0);
        }
        let result = windows.finish(WorkingSet::default(), true);
        assert!(result.windows.len() <= WINDOWS_MAX);
        assert_eq!(result.width % FIRST_MS, 0);
        assert_eq!(
            result.windows.iter().map(|w| w.requests).sum::<u64>(),
            requests
        );
        assert_eq!(
            result.windows.iter().map(|w| w.writes).sum::<u64>(),
            requests / 4
        );
        let expected = (result.width / 40).min(5000) as f64;
        for window in &result.windows[..result.windows.len() - 1] {
            assert!(
                (window.objects / expected - 1.0).abs() < 0.12,
                "{}",
                window.objects
            );
        }
        assert_eq!(result.size_shares[3].iter().sum::<f32>(), 1.0);
    }

    #[test]
    fn a_spike_is_classified_by_its_cause() {
        let mut windows = Windows::new(true);
        let mut fill = |second: u64, requests: u64, keys: u64| {
            let at = second * 1000;
            windows.open(at, WorkingSet::default());
            for n in 0..requests {
                windows.record(hash_of(second * 7 + n % keys), 1, false);
            }
        };
        for second in 0..60 {
            match second {
                20 => fill(second, 5000, 500),
                40 => fill(second, 5000, 2500),
                _ => fill(second, 1000, 500),
            }
        }
        let spikes = windows.finish(WorkingSet::default(), false).spikes;
        let known: Vec<_> = spikes.iter().map(|s| (s.start, s.is_of_hot_keys)).collect();
        assert_eq!(known, [(20_000, true), (40_000, false)]);
    }
}
