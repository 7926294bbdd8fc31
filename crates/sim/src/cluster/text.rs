//! A study's findings as text for a terminal.

use super::claims::percent;
use super::findings::{Failure, Findings, RunRow};
use super::found::RunResult;
use std::fmt::Write;

impl Findings {
    /// The sweep as a table, and below it what holds of the thesis's claims.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let _ = writeln!(
            out,
            "{}: {} requests, {} objects, {} MiB, the largest object {} MiB\n",
            self.trace,
            self.requests,
            self.objects,
            self.footprint_bytes >> 20,
            self.largest_bytes >> 20
        );
        table(
            &mut out,
            &HEADER,
            &self.sweep.iter().map(cells).collect::<Vec<_>>(),
        );
        if self.failures.iter().any(|one| one.first_range.is_some()) {
            let _ = writeln!(
                out,
                "\nMore misses in the first window after servers went, at {}, of all requests, and of those for \
                 objects of which they kept a part; beside them, how many are missed otherwise, in all runs:",
                self.base
            );
            let rows: Vec<_> = self.failures.iter().map(failure).collect();
            table(&mut out, &FAILURES, &rows);
        }
        if !self.outages.is_empty() {
            let _ = writeln!(out, "\nUnder the outages given, at {}:", self.base);
            let rows: Vec<_> = self.outages.iter().map(outage).collect();
            table(&mut out, &OUTAGES, &rows);
        }
        if !self.co_residency.is_empty() {
            let _ = writeln!(
                out,
                "\nThe chance in % that a chunk is held if another of its object is, by size:"
            );
            self.together_table(&mut out);
        }
        if !self.coordination.is_empty() {
            let _ = writeln!(out, "\nWhat servers tell each other, at {}:", self.base);
            let rows: Vec<_> = self.coordination.iter().map(coordination).collect();
            table(&mut out, &COORDINATION, &rows);
        }
        if !self.claims.is_empty() {
            let _ = writeln!(out, "\nAt {}:", self.base);
            for claim in &self.claims {
                let verdict = if claim.holds {
                    "holds"
                } else {
                    "does not hold"
                };
                let _ = writeln!(
                    out,
                    "  {}. RunResult: {}; {verdict}.",
                    claim.claim, claim.shown
                );
            }
        }
        if let Some(reason) = self.failures_note() {
            let _ = writeln!(out, "\n{reason}");
        }
        let speed = self.requests_per_second / 1e6;
        let _ = writeln!(
            out,
            "\n{speed:.2} million requests a second of a core, over all runs"
        );
        out
    }

    /// A row by policy and by who keeps parity, a column by size.
    fn together_table(&self, out: &mut String) {
        let mut header = vec!["policy", "parity"];
        let mut rows: Vec<Vec<String>> = Vec::new();
        for row in &self.co_residency {
            let parity = match row.found.scheme.is_balanced() {
                true => "by load",
                false => "on the ring",
            };
            let own = rows
                .iter()
                .position(|own| own[0] == row.policy && own[1] == parity);
            let own = own.unwrap_or_else(|| {
                rows.push(vec![row.policy.clone(), parity.into()]);
                rows.len() - 1
            });
            rows[own].push(row.found.co_residency.map_or("-".into(), percent));
            if !header.contains(&row.size.as_str()) {
                header.push(&row.size);
            }
        }
        table(out, &header, &rows);
    }

    /// Why nothing is told of failures that were asked for.
    pub(super) fn failures_note(&self) -> Option<String> {
        let shares_hand = self.failures.iter().any(|one| one.first_range.is_some());
        if self.failures.is_empty() || shares_hand {
            return None;
        }
        let is_beyond = self.failures.iter().all(|one| one.rises.is_empty());
        Some(match is_beyond {
            true => {
                "Nothing is told of failures: servers go two windows after the warm-up, and the \
                     trace ends before. Give a shorter --report-window or --warmup-share"
                    .into()
            }
            false => "Nothing is told of failures: no scheme misses anything in the first window \
                      after servers go"
                .into(),
        })
    }
}

const HEADER: [&str; 12] = [
    "scheme",
    "servers",
    "size",
    "miss %",
    "byte miss, midgress %",
    "between servers %",
    "and hedged %",
    "reads hedged %",
    "decoded %",
    "write imbalance %",
    "read imbalance %",
    "unprotected %",
];

fn cells(row: &RunRow) -> Vec<String> {
    let found = &row.found;
    let uneven = |share: Option<f64>| share.map_or("-".into(), percent);
    vec![
        found.scheme.to_string(),
        row.servers.to_string(),
        row.size.clone(),
        percent(found.miss_ratio()),
        percent(found.byte_miss_ratio()),
        percent(found.between()),
        uneven(found.hedged()),
        uneven(found.hedged_reads()),
        uneven(found.decoded_reads()),
        uneven(found.write_imbalance()),
        uneven(found.read_imbalance()),
        percent(found.unprotected),
    ]
}

const FAILURES: [&str; 9] = [
    "scheme",
    "went",
    "runs",
    "missed",
    "more %",
    "least %",
    "most %",
    "missed of theirs",
    "more of theirs %",
];

fn failure(one: &Failure) -> Vec<String> {
    let told = |rise: Option<f64>| rise.map_or("-".into(), percent);
    vec![
        one.scheme.clone(),
        one.down.to_string(),
        one.runs.to_string(),
        (one.first_missed * one.runs as u64).to_string(),
        told(one.rises.first().copied().flatten()),
        told(one.first_range.map(|range| range.0)),
        told(one.first_range.map(|range| range.1)),
        one.affected_misses.to_string(),
        told(one.first_affected_rise),
    ]
}

const OUTAGES: [&str; 8] = [
    "scheme",
    "miss %",
    "byte miss %",
    "partial hits %",
    "unprotected %",
    "unserved",
    "maps",
    "parity moved",
];

fn outage(row: &RunRow) -> Vec<String> {
    let found = &row.found;
    vec![
        found.scheme.to_string(),
        percent(found.miss_ratio()),
        percent(found.byte_miss_ratio()),
        percent(found.total.partial_hit_ratio()),
        percent(found.unprotected),
        found.unserved.to_string(),
        found.maps.to_string(),
        found.moved.to_string(),
    ]
}

const COORDINATION: [&str; 9] = [
    "policy",
    "tells",
    "miss %",
    "byte miss %",
    "partial hits %",
    "together %",
    "unprotected %",
    "messages a request",
    "disks filled %",
];

/// Messages of coordination for each request that counts.
pub(super) fn messages(found: &RunResult) -> f64 {
    super::found::ratio(found.messages, found.total.requests)
}

fn coordination(row: &RunRow) -> Vec<String> {
    vec![
        row.policy.clone(),
        row.coordination.into(),
        percent(row.found.miss_ratio()),
        percent(row.found.byte_miss_ratio()),
        percent(row.found.total.partial_hit_ratio()),
        row.found.co_residency.map_or("-".into(), percent),
        percent(row.found.unprotected),
        format!("{:.3}", messages(&row.found)),
        percent(row.found.filled),
    ]
}

/// Aligned columns; all but the first stand right.
fn table(out: &mut String, header: &[&str], rows: &[Vec<String>]) {
    let header: Vec<String> = header.iter().map(|name| (*name).to_owned()).collect();
    let all = || std::iter::once(&header).chain(rows);
    let width = |column: usize| {
        all()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    for row in all() {
        let cells =
            row.iter()
                .zip(&widths)
                .enumerate()
                .map(|(column, (cell, width))| match column {
                    0 => format!("{cell:<width$}"),
                    _ => format!("{cell:>width$}"),
                });
        let line = cells.collect::<Vec<_>>().join("  ");
        let _ = writeln!(out, "{}", line.trim_end());
    }
}
