//! Percentiles of lateness, some of which are unknown because the event never arrived.

use ::report::Cell;
use serde::Serialize;
use std::time::Duration;
use units::show::span;

/// Percentiles of lateness in microseconds. A percentile is `None` if its event did not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Lateness {
    pub expected: usize,
    pub arrived: usize,
    pub p50_us: Option<u64>,
    pub p99_us: Option<u64>,
    pub p999_us: Option<u64>,
    pub max_us: Option<u64>,
}

impl Lateness {
    /// Computes the percentiles over `expected` events from the lateness of the events that
    /// arrived.
    pub(crate) fn new(mut late_us: Vec<u64>, expected: usize) -> Lateness {
        assert!(late_us.len() <= expected);
        late_us.sort_unstable();
        // The smallest value that at least this share of all expected events does not exceed.
        let percentile = |share: f64| {
            let rank = (share * expected as f64).ceil() as usize;
            late_us.get(rank.saturating_sub(1)).copied()
        };
        Lateness {
            expected,
            arrived: late_us.len(),
            p50_us: percentile(0.5),
            p99_us: percentile(0.99),
            p999_us: percentile(0.999),
            max_us: percentile(1.0),
        }
    }

    /// Computes the lateness of reclaiming. The k-th of `deadlines_ms` is compared with the first
    /// poll that counts at least k reclaimed keys. Each poll consists of its time in µs and the
    /// number of keys reclaimed so far.
    pub(crate) fn of_memory(mut deadlines_ms: Vec<u64>, polls: &[(u64, u64)]) -> Lateness {
        deadlines_ms.sort_unstable();
        let mut late_us = Vec::new();
        let mut polls = polls.iter().peekable();
        for (index, deadline_ms) in deadlines_ms.iter().enumerate() {
            let rank = index as u64 + 1;
            while polls.next_if(|(_, gone)| *gone < rank).is_some() {}
            let Some((instant_us, _)) = polls.peek() else {
                break;
            };
            late_us.push(instant_us.saturating_sub(deadline_ms * 1000));
        }
        Lateness::new(late_us, deadlines_ms.len())
    }
}

/// Formats a lateness in milliseconds as a cell. An event that did not arrive is shown as later
/// than the time limit.
pub(crate) fn cell(late_us: Option<u64>, patience: Duration) -> Cell {
    match late_us {
        Some(us) => Cell::Number(us as f64 / 1000.0),
        None => format!("> {}", span(patience.as_secs_f64() * 1000.0)).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_came_is_later_than_all_that_did() {
        let lateness = Lateness::new(vec![30, 10, 20], 4);
        assert_eq!(lateness.p50_us, Some(20));
        assert_eq!(lateness.max_us, None);
        assert_eq!(lateness.arrived, 3);
        assert_eq!(Lateness::new(vec![7], 1).max_us, Some(7));
        assert_eq!(Lateness::new(vec![], 10).p50_us, None);
        assert_eq!(cell(None, Duration::from_secs(60)), "> 1.00 min".into());
    }

    #[test]
    fn the_kth_reclaiming_is_compared_with_the_kth_deadline() {
        let polls = [(10_500, 0), (11_200, 1), (15_000, 3)];
        let lateness = Lateness::of_memory(vec![12, 10, 11, 13], &polls);
        // Late by 1,200, 4,000 and 3,000 µs; the fourth was never reclaimed.
        assert_eq!((lateness.expected, lateness.arrived), (4, 3));
        assert_eq!(lateness.p50_us, Some(3_000));
        assert_eq!(lateness.max_us, None);
    }
}
