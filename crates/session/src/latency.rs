//! The latency monitor: records events that took longer than `latency-monitor-threshold`.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;

/// Number of samples kept per event.
const SAMPLES_MAX: usize = 160;

/// Longest occurrence of an event within one second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Unix time in seconds.
    pub seconds: u64,
    /// Duration in milliseconds.
    pub ms: u64,
}

/// Recorded occurrences of one event.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Recent samples, the oldest first.
    pub samples: VecDeque<Sample>,
    /// Longest duration since the last reset.
    pub max_ms: u64,
    /// Number of occurrences.
    pub count: u64,
    /// Total duration of all occurrences.
    pub sum_ms: u64,
}

/// Histories of all events.
#[derive(Default)]
pub struct LatencyMonitor {
    events: Mutex<BTreeMap<&'static str, History>>,
}

impl LatencyMonitor {
    /// Records that an event took `ms`. The caller has already compared it with the threshold.
    pub fn add(&self, event: &'static str, ms: u64, now_ms: u64) {
        let seconds = now_ms / 1000;
        let mut events = self.events.lock().expect("the lock is not poisoned");
        let history = events.entry(event).or_default();
        history.max_ms = history.max_ms.max(ms);
        history.count += 1;
        history.sum_ms += ms;
        match history.samples.back_mut() {
            Some(last) if last.seconds == seconds => last.ms = last.ms.max(ms),
            _ => {
                history.samples.push_back(Sample { seconds, ms });
                if history.samples.len() > SAMPLES_MAX {
                    history.samples.pop_front();
                }
            }
        }
    }

    /// Returns the histories of all events, ordered by name.
    pub fn events(&self) -> Vec<(&'static str, History)> {
        let events = self.events.lock().expect("the lock is not poisoned");
        events
            .iter()
            .map(|(name, history)| (*name, history.clone()))
            .collect()
    }

    /// Deletes the histories of the named events, or of all if none is named. Returns how many it
    /// deleted.
    pub fn reset(&self, names: &[&[u8]]) -> usize {
        let mut events = self.events.lock().expect("the lock is not poisoned");
        let before = events.len();
        events.retain(|name, _| {
            !names.is_empty()
                && !names
                    .iter()
                    .any(|wanted| wanted.eq_ignore_ascii_case(name.as_bytes()))
        });
        before - events.len()
    }

    /// Draws a bar for each sample of one event. Returns `None` if the event has no history.
    pub fn graph(&self, name: &[u8]) -> Option<String> {
        let events = self.events();
        let (name, history) = events
            .iter()
            .find(|(event, _)| event.as_bytes().eq_ignore_ascii_case(name))?;
        let mut text = format!("{name} - longest {} ms\n", history.max_ms);
        for sample in &history.samples {
            let width = (sample.ms * 60 / history.max_ms.max(1)).max(1) as usize;
            text.push_str(&format!(
                "{} {} {} ms\n",
                sample.seconds,
                "#".repeat(width),
                sample.ms
            ));
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_within_a_second_are_merged_and_their_number_is_bounded() {
        let monitor = LatencyMonitor::default();
        monitor.add("command", 5, 1_000);
        monitor.add("command", 9, 1_999);
        monitor.add("command", 7, 2_000);
        let (_, history) = &monitor.events()[0];
        assert_eq!(history.samples.len(), 2);
        assert_eq!(history.samples[0].ms, 9);
        for second in 3..1_000 {
            monitor.add("command", 1, second * 1_000);
        }
        assert_eq!(monitor.events()[0].1.samples.len(), SAMPLES_MAX);
        assert_eq!(monitor.events()[0].1.max_ms, 9);
        assert_eq!(monitor.reset(&[b"other"]), 0);
        assert_eq!(monitor.reset(&[]), 1);
    }
}
