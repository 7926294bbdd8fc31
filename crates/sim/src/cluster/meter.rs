//! Counters of a run by windows of time.

use super::found::{Window, ratio};
use super::latency::{LatencyRecorder, Source, TimedRequest};
use super::scheme::Scheme;
use super::servers::{Answer, Counters};
use crate::Error;
use trace::Outage;

/// Maximum number of windows of a run.
const WINDOWS_MAX: u64 = 20_000;

/// Checks that a trace of this duration has few enough windows.
///
/// # Errors
/// There are more than [`WINDOWS_MAX`].
pub(super) fn check_windows(span_ms: u64, window_ms: u64) -> Result<(), Error> {
    let windows = span_ms / window_ms.max(1);
    match windows <= WINDOWS_MAX {
        true => Ok(()),
        false => Err(Error::Cluster {
            problem: format!(
                "{windows} windows of {window_ms} ms: expected at most {WINDOWS_MAX}; give a longer --report-window"
            ),
        }),
    }
}

/// Counts the requests after the warm-up.
pub(super) struct Meter {
    pub(super) window: Window,
    /// End of the current window; `None` if it has no end.
    pub(super) window_ends_ms: Option<u64>,
    pub(super) windows: Vec<Window>,
    pub(super) total: Window,
    pub(super) memory_hits: u64,
    pub(super) peer_hits: u64,
    pub(super) decoded_hits: u64,
    pub(super) unserved: u64,
    pub(super) partial_hit_bytes: u64,
    /// Number of windows in which objects were held, and the sum of their unprotected shares.
    pub(super) shares: (u64, f64),
    pub(super) pairs: (f64, f64),
    /// Sum over all windows of the share of disk space in use.
    pub(super) filled: f64,
    /// Counters of the servers at the end of the warm-up.
    pub(super) start: Option<Counters>,
    pub(super) recorder: Option<LatencyRecorder>,
}

impl Meter {
    pub(super) fn new(recorder: Option<LatencyRecorder>) -> Meter {
        Meter {
            window: Window::default(),
            window_ends_ms: None,
            windows: Vec::new(),
            total: Window::default(),
            memory_hits: 0,
            peer_hits: 0,
            decoded_hits: 0,
            unserved: 0,
            partial_hit_bytes: 0,
            shares: (0, 0.0),
            pairs: (0.0, 0.0),
            filled: 0.0,
            start: None,
            recorder,
        }
    }

    pub(super) fn count(
        &mut self,
        number: u64,
        answer: Answer,
        size: u32,
        large_from: u32,
        scheme: Scheme,
    ) {
        for window in [&mut self.window, &mut self.total] {
            window.requests += 1;
            window.bytes += u64::from(size);
            window.origin_bytes += answer.origin_bytes;
            window.misses += u64::from(answer.is_miss());
            window.partial_hits += u64::from(answer.is_partial);
        }
        self.unserved += u64::from(answer.is_unserved);
        if answer.is_partial {
            self.partial_hit_bytes += u64::from(size).saturating_sub(answer.origin_bytes);
        }
        match answer.source {
            Source::Memory => self.memory_hits += 1,
            Source::Peer => self.peer_hits += 1,
            Source::Chunks {
                is_decoded: true, ..
            } => self.decoded_hits += 1,
            Source::Chunks { .. } | Source::Local | Source::Origin => {}
        }
        if let Some(recorder) = &mut self.recorder
            && recorder.is_timed(number)
        {
            let data = scheme.code().map_or(1, |(data, _)| data);
            let of = TimedRequest {
                source: answer.source,
                size,
                origin_bytes: answer.origin_bytes,
                is_large: size >= large_from,
                data,
            };
            recorder.time(number, of);
        }
    }

    /// Whether the request of this number is timed.
    pub(super) fn is_timed(&self, number: u64) -> bool {
        let recorder = self.recorder.as_ref();
        recorder.is_some_and(|recorder| recorder.is_timed(number))
    }

    /// Sets the end of the next window.
    pub(super) fn open_window(&mut self, window_ms: u64) {
        let end = self.window_ends_ms;
        self.window_ends_ms = end.and_then(|end| end.checked_add(window_ms));
    }

    pub(super) fn close_window(&mut self, filled: f64) {
        self.filled += filled;
        let window = std::mem::take(&mut self.window);
        if window.held > 0 {
            self.shares.0 += 1;
            self.shares.1 += ratio(window.unprotected, window.held);
        }
        (self.total.held, self.total.unprotected) = (window.held, window.unprotected);
        self.total.down = window.down;
        self.windows.push(window);
    }
}

/// Converts outages to events in the order of time: when a server fails and when it recovers.
/// Outages of servers from `servers` on are ignored. Overlapping outages of a server are merged.
pub(super) fn events(outages: &[Outage], servers: usize) -> Vec<(u64, u32, bool)> {
    let mut events = Vec::new();
    for server in 0..servers as u32 {
        let mut own: Vec<&Outage> = outages
            .iter()
            .filter(|outage| outage.server == server)
            .collect();
        own.sort_unstable();
        let mut until_ms = None;
        for outage in own {
            match until_ms {
                Some(end) if outage.from_ms <= end => until_ms = Some(outage.until_ms.max(end)),
                _ => {
                    events.extend(until_ms.map(|end| (end, server, true)));
                    events.push((outage.from_ms, server, false));
                    until_ms = Some(outage.until_ms);
                }
            }
        }
        events.extend(until_ms.map(|end| (end, server, true)));
    }
    events.sort_unstable();
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outages_that_overlap_are_one() {
        let outage = |server, from_ms, until_ms| Outage {
            from_ms,
            until_ms,
            server,
        };
        let outages = [
            outage(1, 5, 20),
            outage(1, 10, 30),
            outage(0, 7, 9),
            outage(7, 1, 2),
        ];
        let wanted = vec![(5, 1, false), (7, 0, false), (9, 0, true), (30, 1, true)];
        assert_eq!(events(&outages, 2), wanted);
    }
}
