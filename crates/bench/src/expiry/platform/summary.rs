//! Summaries of runs, and comparisons with their group's reference.

use super::monitor::Look;
use serde::Serialize;

/// Figures of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Summary {
    pub seconds: f64,
    pub operations_per_second: f64,
    pub cpu_us_per_operation: f64,
    /// CPU time in user mode only, if the process is known. The remaining time is spent in the
    /// kernel, mostly for sockets.
    pub user_us_per_operation: Option<f64>,
    /// CPU time of the server in seconds, from the start until one TTL after the last operation.
    pub cpu_seconds: f64,
    pub hit_ratio: f64,
    pub peak_bytes: f64,
    pub mean_bytes: f64,
    pub peak_resident_bytes: f64,
    /// Maximum memory minus the memory of the empty server and of the unexpired keys and values, in
    /// bytes.
    pub peak_above_floor_bytes: f64,
    pub mean_above_floor_bytes: f64,
    pub peak_floor_bytes: f64,
    pub peak_dead_share: f64,
    pub mean_dead_share: f64,
    pub expired_keys: f64,
    /// Mean lag by Little's law: the mean number of dead keys divided by the keys expired per
    /// second. It is `None` if more keys are dead at the end than were reclaimed, because the law
    /// applies to a steady state.
    pub mean_lag_ms: Option<f64>,
    /// Lag reported by the server itself; `None` if it reports none.
    pub lag_p99_us: Option<f64>,
    pub lag_max_us: Option<f64>,
}

/// Returns the mean of a value over time. Each poll holds until the next one.
fn mean_over_time(looks: &[Look], value: impl Fn(&Look) -> f64) -> f64 {
    let mut sum = 0.0;
    for pair in looks.windows(2) {
        sum += (pair[1].seconds - pair[0].seconds) * (value(&pair[0]) + value(&pair[1])) / 2.0;
    }
    match looks {
        [] => 0.0,
        [only] => value(only),
        [first, .., last] => sum / (last.seconds - first.seconds).max(f64::MIN_POSITIVE),
    }
}

fn peak(looks: &[Look], value: impl Fn(&Look) -> f64) -> f64 {
    looks.iter().map(value).fold(0.0, f64::max)
}

impl Summary {
    /// Computes the figures that follow from the polls alone. `empty_bytes` is the memory of the
    /// server without keys.
    pub(super) fn of(
        looks: &[Look],
        empty_bytes: f64,
        entry_bytes: f64,
        expired_keys: f64,
    ) -> Summary {
        let floor = |look: &Look| look.living as f64 * entry_bytes;
        let above = |look: &Look| (look.used_bytes - empty_bytes - floor(look)).max(0.0);
        let dead_share = |look: &Look| look.dead() as f64 / look.keys.max(1) as f64;
        let span = looks.last().map_or(0.0, |last| last.seconds)
            - looks.first().map_or(0.0, |first| first.seconds);
        let mean_dead = mean_over_time(looks, |look| look.dead() as f64);
        let left_dead = looks.last().map_or(0, |last| last.dead()) as f64;
        let has_law = expired_keys > left_dead;
        Summary {
            peak_bytes: peak(looks, |look| look.used_bytes),
            mean_bytes: mean_over_time(looks, |look| look.used_bytes),
            peak_resident_bytes: peak(looks, |look| look.resident_bytes),
            peak_above_floor_bytes: peak(looks, above),
            mean_above_floor_bytes: mean_over_time(looks, above),
            peak_floor_bytes: peak(looks, floor),
            peak_dead_share: peak(looks, dead_share),
            mean_dead_share: mean_over_time(looks, dead_share),
            expired_keys,
            mean_lag_ms: has_law.then(|| mean_dead * span * 1000.0 / expired_keys),
            ..Summary::default()
        }
    }
}

/// Change of a run relative to its reference, as shares: 0.3 is 30 % less memory, or 30 % more
/// operations.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Change {
    pub peak_reduction: f64,
    pub mean_reduction: f64,
    pub throughput_improvement: f64,
    /// Reduction of the CPU time per operation.
    pub cpu_reduction: f64,
}

impl Change {
    /// Computes the changes as the paper does: (reference − this) / reference for memory, and the
    /// reverse sign for throughput.
    pub(super) fn between(this: &Summary, reference: &Summary) -> Change {
        let less =
            |this: f64, reference: f64| (reference - this) / reference.max(f64::MIN_POSITIVE);
        Change {
            peak_reduction: less(this.peak_bytes, reference.peak_bytes),
            mean_reduction: less(this.mean_bytes, reference.mean_bytes),
            throughput_improvement: -less(
                this.operations_per_second,
                reference.operations_per_second,
            ),
            cpu_reduction: less(this.cpu_us_per_operation, reference.cpu_us_per_operation),
        }
    }
}

/// Smallest, mean and largest of several values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Spread {
    pub min: f64,
    pub mean: f64,
    pub max: f64,
}

impl Spread {
    pub(super) fn of(values: &[f64]) -> Option<Spread> {
        let sum: f64 = values.iter().sum();
        Some(Spread {
            min: values.iter().copied().reduce(f64::min)?,
            mean: sum / values.len() as f64,
            max: values.iter().copied().reduce(f64::max)?,
        })
    }
}

/// Changes of one server over all groups in which both it and the reference ran.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Overall {
    pub contestant: String,
    pub groups: usize,
    pub peak_reduction: Spread,
    pub mean_reduction: Spread,
    pub throughput_improvement: Spread,
}

impl Overall {
    /// Summarises the changes of a server; `None` if it was never compared.
    pub(super) fn of(contestant: &str, changes: &[Change]) -> Option<Overall> {
        let spread = |value: fn(&Change) -> f64| {
            let values: Vec<f64> = changes.iter().map(value).collect();
            Spread::of(&values)
        };
        Some(Overall {
            contestant: contestant.into(),
            groups: changes.len(),
            peak_reduction: spread(|change| change.peak_reduction)?,
            mean_reduction: spread(|change| change.mean_reduction)?,
            throughput_improvement: spread(|change| change.throughput_improvement)?,
        })
    }
}

/// Figures of one of our indexes divided by a peer's figures in the same group.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct BesidePeer {
    pub group: String,
    pub contestant: String,
    pub peer: String,
    pub peak_above_floor: f64,
    pub cpu_per_operation: f64,
    pub user_per_operation: Option<f64>,
    pub mean_lag: Option<f64>,
}

impl BesidePeer {
    pub(super) fn between(this: &Summary, peer: &Summary) -> BesidePeer {
        let ratio = |this: f64, peer: f64| this / peer.max(f64::MIN_POSITIVE);
        let both = |one: Option<f64>, other: Option<f64>| {
            let pair = one.zip(other);
            pair.map(|(this, peer)| ratio(this, peer))
        };
        BesidePeer {
            group: String::new(),
            contestant: String::new(),
            peer: String::new(),
            peak_above_floor: ratio(this.peak_above_floor_bytes, peer.peak_above_floor_bytes),
            cpu_per_operation: ratio(this.cpu_us_per_operation, peer.cpu_us_per_operation),
            user_per_operation: both(this.user_us_per_operation, peer.user_us_per_operation),
            mean_lag: both(this.mean_lag_ms, peer.mean_lag_ms),
        }
    }
}

/// Returns the server that saves the most mean memory among those that lose at most a tenth of the
/// throughput on average.
pub(super) fn best(all: &[Overall]) -> Option<&Overall> {
    const LOSS_MAX: f64 = 0.1;
    let fit = all
        .iter()
        .filter(|overall| overall.throughput_improvement.mean >= -LOSS_MAX);
    fit.max_by(|a, b| a.mean_reduction.mean.total_cmp(&b.mean_reduction.mean))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(seconds: f64, used: f64, keys: u64, living: u64) -> Look {
        Look {
            seconds,
            used_bytes: used,
            keys,
            living,
            ..Look::default()
        }
    }

    #[test]
    fn peaks_means_and_floors_are_computed_from_samples() {
        // Ten bytes per entry and 100 for the empty server, polled at uneven intervals.
        let looks = [
            look(0.0, 100.0, 0, 0),
            look(1.0, 300.0, 10, 8),
            look(3.0, 200.0, 10, 10),
        ];
        let summary = Summary::of(&looks, 100.0, 10.0, 4.0);
        assert_eq!(summary.peak_bytes, 300.0);
        assert_eq!(summary.mean_bytes, (200.0 + 2.0 * 250.0) / 3.0);
        assert_eq!(summary.peak_floor_bytes, 100.0);
        // 300 − 100 − 80 at the second poll; 0 at the others.
        assert_eq!(summary.peak_above_floor_bytes, 120.0);
        assert_eq!(summary.peak_dead_share, 0.2);
        // On average 1 dead key during 3 s, in which 4 expired: each was dead for 0.75 s.
        let lag = summary.mean_lag_ms;
        assert!(lag.is_some_and(|lag| (lag - 750.0).abs() < 1e-6), "{lag:?}");
        let left = [looks[0], look(2.0, 100.0, 9, 1)];
        assert_eq!(Summary::of(&left, 100.0, 10.0, 8.0).mean_lag_ms, None);
        assert_eq!(Summary::of(&[], 0.0, 1.0, 0.0).peak_bytes, 0.0);
    }

    #[test]
    fn changes_are_those_of_the_paper() {
        let of = |peak, rate| Summary {
            peak_bytes: peak,
            mean_bytes: peak / 2.0,
            operations_per_second: rate,
            cpu_us_per_operation: 2.0,
            ..Summary::default()
        };
        let change = Change::between(&of(60.0, 90.0), &of(100.0, 100.0));
        assert_eq!(change.peak_reduction, 0.4);
        assert_eq!(change.mean_reduction, 0.4);
        assert!((change.throughput_improvement + 0.1).abs() < 1e-12);
        assert_eq!(change.cpu_reduction, 0.0);
    }

    #[test]
    fn ratios_to_a_peer_are_ours_over_its() {
        let of = |above, cpu, user| Summary {
            peak_above_floor_bytes: above,
            cpu_us_per_operation: cpu,
            user_us_per_operation: user,
            mean_lag_ms: Some(above),
            ..Summary::default()
        };
        let beside = BesidePeer::between(&of(10.0, 3.0, Some(1.0)), &of(100.0, 6.0, Some(4.0)));
        assert_eq!((beside.peak_above_floor, beside.mean_lag), (0.1, Some(0.1)));
        assert_eq!(beside.cpu_per_operation, 0.5);
        assert_eq!(beside.user_per_operation, Some(0.25));
        let beside = BesidePeer::between(&of(10.0, 3.0, Some(1.0)), &of(100.0, 6.0, None));
        assert_eq!(beside.user_per_operation, None);
    }

    #[test]
    fn the_best_saves_most_among_those_that_stay_fast() {
        let overall = |name: &str, reduction, throughput| {
            let change = Change {
                peak_reduction: reduction,
                mean_reduction: reduction,
                throughput_improvement: throughput,
                cpu_reduction: 0.0,
            };
            Overall::of(name, &[change]).expect("it has a change")
        };
        let all = [
            overall("slow", 0.9, -0.2),
            overall("good", 0.4, -0.05),
            overall("fast", 0.1, 0.2),
        ];
        assert_eq!(
            best(&all).map(|overall| overall.contestant.as_str()),
            Some("good")
        );
        assert!(Overall::of("none", &[]).is_none());
    }
}
