//! Best indexes by memory, lag and CPU time, among those that reclaim entries without an access.
//!
//! An index that reclaims late uses less CPU time because it does less. CPU time is therefore also
//! compared among the *prompt* indexes alone, which are never more than a second late.

use super::trial::Figures;
use serde::Serialize;

/// Index that the others are compared with.
const OURS: &str = "wheel";
/// Index that never reclaims. It shows the lowest possible cost and is not ranked.
const FLOOR: &str = "lazy";
/// Maximum lag of a prompt index in milliseconds.
const PROMPT_MS: f64 = 1_000.0;
/// Maximum amount by which our index may exceed the best in one of the three measures, relative to
/// the best.
const EXCESS_MAX: f64 = 0.25;
/// Maximum ratio of two values that count as equal.
const TIE: f64 = 1.001;

/// Best value of one measure.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Win {
    pub of: &'static str,
    /// Indexes that share the best value.
    pub by: Vec<String>,
    /// Best value; infinite if no index was ranked.
    pub best: f64,
    /// Value of the index that the others are compared with.
    pub ours: Option<f64>,
}

impl Win {
    /// Returns true if our index is among the best.
    pub fn is_ours(&self) -> bool {
        self.by.iter().any(|name| name == OURS)
    }

    /// Returns by how much our index exceeds the best, relative to the best: 0.25 is a quarter.
    pub fn excess(&self) -> Option<f64> {
        if self.is_ours() {
            return Some(0.0);
        }
        self.ours.map(|ours| ours / self.best - 1.0)
    }

    /// Returns the result as a sentence.
    pub fn line(&self, unit: &str) -> String {
        if self.by.is_empty() {
            return format!("{}: nobody", self.of);
        }
        let best = units::show::short(self.best);
        let mut line = format!("{}: {} {best} {unit}", self.of, self.by.join(", "));
        if let (false, Some(ours)) = (self.is_ours(), self.ours) {
            let more = (ours / self.best - 1.0) * 100.0;
            line += &format!(
                " ({OURS} {} {unit}, +{more:.0} %)",
                units::show::short(ours)
            );
        }
        line
    }
}

/// Returns true if our index is the best in two of memory, lag and CPU time, and within a quarter
/// of the best in the third; `None` if it did not run.
pub(super) fn is_aim_met(memory: &Win, lag: &Win, cpu: &Win) -> Option<bool> {
    let excesses = [memory, lag, cpu].map(Win::excess);
    let far = excesses.iter().copied().collect::<Option<Vec<f64>>>()?;
    let behind: Vec<f64> = far.into_iter().filter(|excess| *excess > 0.0).collect();
    Some(behind.len() <= 1 && behind.iter().all(|excess| *excess <= EXCESS_MAX))
}

/// Ranks the rows of one shape and size by memory, lag, CPU time, and CPU time among prompt
/// indexes. Returns an empty list if no index is ranked.
pub(super) fn wins<'a>(rows: impl Iterator<Item = (&'a str, &'a Figures)> + Clone) -> Vec<Win> {
    let contestants = rows.filter(|(name, _)| *name != FLOOR);
    if contestants.clone().next().is_none() {
        return Vec::new();
    }
    let win = |of: &'static str, lag_ms_max: f64, value: fn(&Figures) -> f64| {
        let values = contestants
            .clone()
            .filter(move |(_, figures)| figures.lag_ms_max <= lag_ms_max)
            .map(|(name, figures)| (name, value(figures)));
        let best = values
            .clone()
            .map(|(_, value)| value)
            .fold(f64::INFINITY, f64::min);
        Win {
            of,
            by: values
                .clone()
                .filter(|(_, value)| *value <= best * TIE)
                .map(|(name, _)| name.to_owned())
                .collect(),
            best,
            ours: values
                .clone()
                .find(|(name, _)| *name == OURS)
                .map(|(_, value)| value),
        }
    };
    vec![
        win("memory", f64::INFINITY, |figures| figures.memory_per_item),
        win("lag", f64::INFINITY, |figures| figures.lag_ms_mean),
        win("CPU", f64::INFINITY, |figures| figures.cpu_ns),
        win("CPU of the prompt", PROMPT_MS, |figures| figures.cpu_ns),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_does_not_compete_and_ties_are_shared() {
        let figures = |memory: f64, lag: f64, cpu: f64| Figures {
            memory_per_item: memory,
            lag_ms_mean: lag,
            lag_ms_max: 100.0 * lag,
            cpu_ns: cpu,
            ..Figures::default()
        };
        let rows = [
            ("wheel", figures(4.0, 0.0, 12.0)),
            ("radix", figures(12.0, 0.0, 90.0)),
            ("crawler", figures(8.0, 30.0, 10.0)),
            ("lazy", figures(0.0, 900.0, 1.0)),
        ];
        let of = |rows: &[(&str, Figures)]| {
            let names = rows.iter().map(|(name, figures)| (*name, figures));
            wins(names)
        };
        assert!(of(&rows[3..]).is_empty(), "nobody wins against nobody");
        let [memory, lag, cpu, prompt] = &of(&rows)[..] else {
            panic!("there are four");
        };
        assert_eq!(prompt.by, ["wheel"], "a crawl of seconds is not prompt");
        assert_eq!(is_aim_met(memory, lag, cpu), Some(true), "a fifth more");
        assert_eq!(
            is_aim_met(memory, cpu, cpu),
            Some(false),
            "best in one alone"
        );
        assert_eq!(is_aim_met(memory, lag, prompt), Some(true));
        let far = Win {
            best: 9.0,
            ..cpu.clone()
        };
        assert_eq!(is_aim_met(memory, lag, &far), Some(false), "a third more");
        assert_eq!(memory.by, ["wheel"]);
        assert_eq!(lag.by, ["wheel", "radix"]);
        assert_eq!(cpu.by, ["crawler"]);
        assert!(!cpu.is_ours());
        assert_eq!(
            cpu.line("ns"),
            "CPU: crawler 10.0 ns (wheel 12.0 ns, +20 %)"
        );
    }
}
