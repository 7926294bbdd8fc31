//! Tables of a study's findings, which text and page are made of.

use super::findings::{Failure, Findings, RunRow};
use super::found::{RunResult, ratio};
use report::{Cell, Column, Table};

/// Messages of coordination per counted request.
pub(super) fn messages(found: &RunResult) -> f64 {
    ratio(found.messages, found.total.requests)
}

fn of_requests(row: &RunRow, part: u64) -> f64 {
    ratio(part, row.found.total.requests)
}

impl Findings {
    /// Claims of the thesis with their verdicts.
    pub(super) fn claims_table(&self) -> Table {
        Table::of(&self.claims)
            .column(Column::text("holds"), |claim| {
                if claim.holds { "yes" } else { "no" }
            })
            .column(Column::number("found"), |claim| {
                Cell::Shown(claim.found, claim.shown.clone())
            })
            .column(Column::text("claim"), |claim| &claim.claim)
            .finish()
            .with_caption(&format!("At {}", self.base))
    }

    /// All runs of the sweep.
    pub(super) fn sweep_table(&self) -> Table {
        Table::of(&self.sweep)
            .column(Column::text("scheme"), |row| row.found.scheme.to_string())
            .column(Column::count("servers"), |row| row.servers)
            .column(Column::text("size"), |row| &row.size)
            .column(Column::percent("miss ratio"), |row| row.found.miss_ratio())
            .column(
                Column::percent("byte miss ratio").labelled("byte miss ratio (midgress)"),
                |row| row.found.byte_miss_ratio(),
            )
            .column(Column::percent("byte miss ratio, whole").detail(), |row| {
                row.found.byte_miss_ratio_whole()
            })
            .column(Column::percent("partial hits").detail(), |row| {
                of_requests(row, row.found.total.partial_hits)
            })
            .column(Column::percent("data missing").detail(), |row| {
                of_requests(row, row.found.decoded_hits)
            })
            .column(Column::percent("repaired").detail(), |row| {
                row.found.repaired()
            })
            .column(Column::percent("from memory").detail(), |row| {
                of_requests(row, row.found.memory_hits)
            })
            .column(Column::percent("between servers"), |row| {
                row.found.between()
            })
            .column(Column::percent("hedged"), |row| row.found.hedged())
            .column(Column::percent("reads hedged"), |row| {
                row.found.hedged_reads()
            })
            .column(Column::percent("reads decoded"), |row| {
                row.found.decoded_reads()
            })
            .column(Column::percent("write imbalance"), |row| {
                row.found.write_imbalance()
            })
            .column(Column::percent("read imbalance"), |row| {
                row.found.read_imbalance()
            })
            .column(Column::percent("unprotected"), |row| row.found.unprotected)
            .column(Column::count("refused").detail(), |row| row.found.refused)
            .finish()
    }

    /// Increase of misses after failures.
    pub(super) fn failure_table(&self) -> Table {
        let first = |failure: &Failure| failure.rises.first().copied().flatten();
        Table::of(&self.failures)
            .column(Column::text("scheme"), |failure| &failure.scheme)
            .column(Column::count("failed servers"), |failure| failure.down)
            .column(Column::count("runs"), |failure| failure.runs)
            .column(Column::count("misses without failure"), |failure| {
                failure.first_missed * failure.runs as u64
            })
            .column(Column::change("increase"), first)
            .column(Column::change("min"), |failure| {
                failure.first_range.map(|range| range.0)
            })
            .column(Column::change("max"), |failure| {
                failure.first_range.map(|range| range.1)
            })
            .column(
                Column::count("misses of affected objects without failure"),
                |failure| failure.affected_misses,
            )
            .column(Column::change("increase of affected objects"), |failure| {
                failure.first_affected_rise
            })
            .finish()
    }

    /// Runs under the given outages.
    pub(super) fn outage_table(&self) -> Table {
        Table::of(&self.outages)
            .column(Column::text("scheme"), |row| row.found.scheme.to_string())
            .column(Column::percent("miss ratio"), |row| row.found.miss_ratio())
            .column(Column::percent("byte miss ratio"), |row| {
                row.found.byte_miss_ratio()
            })
            .column(Column::percent("partial hits"), |row| {
                row.found.total.partial_hit_ratio()
            })
            .column(Column::percent("unprotected"), |row| row.found.unprotected)
            .column(Column::count("unserved"), |row| row.found.unserved)
            .column(Column::count("maps"), |row| row.found.maps)
            .column(Column::count("parity buckets moved"), |row| row.found.moved)
            .finish()
    }

    /// Probability that a chunk is held if another of its object is, by size.
    pub(super) fn co_residency_table(&self) -> Table {
        Table::of(&self.co_residency)
            .column(Column::text("policy"), |row| &row.policy)
            .column(Column::text("parity"), |row| {
                match row.found.scheme.is_balanced() {
                    true => "by load",
                    false => "on the ring",
                }
            })
            .column(Column::text("size"), |row| &row.size)
            .column(Column::percent("co-residency"), |row| {
                row.found.co_residency
            })
            .finish()
            .pivot(&["policy", "parity"], "size", "co-residency")
    }

    /// Runs by policy and coordination.
    pub(super) fn coordination_table(&self) -> Table {
        Table::of(&self.coordination)
            .column(Column::text("policy"), |row| &row.policy)
            .column(Column::text("notifications"), |row| row.coordination)
            .column(Column::percent("miss ratio"), |row| row.found.miss_ratio())
            .column(Column::percent("byte miss ratio"), |row| {
                row.found.byte_miss_ratio()
            })
            .column(Column::percent("partial hits"), |row| {
                row.found.total.partial_hit_ratio()
            })
            .column(Column::percent("co-residency"), |row| {
                row.found.co_residency
            })
            .column(Column::percent("unprotected"), |row| row.found.unprotected)
            .column(Column::decimals("messages per request", 3), |row| {
                messages(&row.found)
            })
            .column(Column::percent("disks filled"), |row| row.found.filled)
            .finish()
            .with_caption(&format!("At {}", self.base))
    }
}
