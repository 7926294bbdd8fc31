//! Findings of a study as text for a terminal.

use super::findings::Findings;
use std::fmt::Write;

impl Findings {
    /// The tables of all runs, and the claims of the thesis with their verdicts.
    pub fn text(&self) -> String {
        let mut out = format!(
            "{}: {} requests, {} objects, {} MiB, the largest object {} MiB\n\n{}",
            self.trace,
            self.requests,
            self.objects,
            self.footprint_bytes >> 20,
            self.largest_bytes >> 20,
            self.sweep_table().to_text()
        );
        let base = &self.base;
        let mut add = |heading: String, table: report::Table| {
            if !table.is_empty() {
                // Writing to a string cannot fail.
                let _ = write!(out, "\n{heading}\n{}", table.to_text());
            }
        };
        if self.failures.iter().any(|one| one.first_range.is_some()) {
            let heading = "Increase of misses in the first window after servers failed, of all \
                           requests and of requests for objects of which they kept a part";
            add(format!("{heading}, at {base}:"), self.failure_table());
        }
        add(
            format!("Under the given outages, at {base}:"),
            self.outage_table(),
        );
        add(
            "Probability that a chunk is held if another of its object is, by size:".into(),
            self.co_residency_table(),
        );
        add(
            format!("Coordination of servers, at {base}:"),
            self.coordination_table(),
        );
        if !self.claims.is_empty() {
            let _ = writeln!(out, "\nAt {base}:");
        }
        for claim in &self.claims {
            let verdict = if claim.holds {
                "holds"
            } else {
                "does not hold"
            };
            let _ = writeln!(out, "  {}. Found: {}; {verdict}.", claim.claim, claim.shown);
        }
        if let Some(reason) = self.failures_note() {
            let _ = writeln!(out, "\n{reason}");
        }
        let speed = self.requests_per_second / 1e6;
        let _ = writeln!(
            out,
            "\n{speed:.2} million requests per second and core, over all runs"
        );
        out
    }

    /// The reason why no results of the simulated failures are available.
    pub(super) fn failures_note(&self) -> Option<String> {
        let has_results = self.failures.iter().any(|one| one.first_range.is_some());
        if self.failures.is_empty() || has_results {
            return None;
        }
        let is_beyond = self.failures.iter().all(|one| one.rises.is_empty());
        let reason = match is_beyond {
            true => {
                "servers fail two windows after the warm-up, and the trace ends before. Give a \
                 shorter --report-window or --warmup-share"
            }
            false => "no scheme misses a request in the first window after the failure",
        };
        Some(format!("No results of failures: {reason}"))
    }
}
