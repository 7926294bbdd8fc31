//! Results of replays as one table, for people, CSV, JSON and Parquet, and as a page with plots.

mod learned;
mod page;
#[cfg(feature = "parquet")]
mod parquet_file;

use crate::{Explained, Learned, ReplayResult, Unit};
use ::report::{Column, Table};
pub use page::page;
pub(crate) use page::size_axis;
#[cfg(feature = "parquet")]
pub use parquet_file::parquet;

/// Maximum number of lines in one plot, so that they stay distinguishable.
const LINES_MAX: usize = 8;

/// Result of one replay, with the trace, policy and size that it is of.
#[derive(Clone, Debug)]
pub struct Row {
    /// Name of the trace.
    pub trace: String,
    /// Name of the policy as given.
    pub policy: String,
    /// Unit of the cache size.
    pub unit: Unit,
    /// Size of the cache in its unit.
    pub cache_size: u64,
    /// Size as given, such as 10%, which is a different number for each trace.
    pub size: String,
    /// Result of the replay.
    pub found: ReplayResult,
}

impl Row {
    fn miss_ratio(&self) -> Option<f64> {
        ratio(self.found.counts.misses, self.found.counts.requests)
    }

    fn byte_miss_ratio(&self) -> Option<f64> {
        let counts = &self.found.counts;
        let ratio = ratio(counts.missed_weight, counts.requested_weight);
        ratio.filter(|_| self.unit == Unit::Bytes)
    }

    fn explained<T>(&self, value: impl Fn(&Explained) -> T) -> Option<T> {
        self.found.explained.as_deref().map(value)
    }

    fn learned<T>(&self, value: impl Fn(&Learned) -> T) -> Option<T> {
        self.found.learned.as_deref().map(value)
    }
}

/// Table with a row for each result. Columns about explanations and learning are left out if no row
/// has them.
pub fn table<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Table {
    let rows: Vec<&Row> = rows.into_iter().collect();
    let has_learning = rows.iter().any(|row| row.found.learned.is_some());
    let has_explanations = rows.iter().any(|row| row.found.explained.is_some());
    let mut table = Table::of(rows)
        .column(Column::text("trace"), |row| &row.trace)
        .column(Column::text("policy"), |row| &row.policy)
        .column(Column::text("unit"), |row| row.unit.name())
        .column(Column::count("cache_size"), |row| row.cache_size)
        .column(Column::count("requests"), |row| row.found.counts.requests)
        .column(Column::count("misses"), |row| row.found.counts.misses)
        .column(Column::decimals("miss_ratio", 4), Row::miss_ratio)
        .column(Column::decimals("byte_miss_ratio", 4), Row::byte_miss_ratio)
        .column(
            Column::decimals("throughput", 0).labelled("requests/s"),
            |row| {
                let seconds = row.found.cpu_time.as_secs_f64();
                (seconds > 0.0).then(|| row.found.replayed as f64 / seconds)
            },
        )
        .column(Column::count("evictions"), |row| row.found.counts.evictions)
        .column(Column::count("promotions"), |row| row.found.promotions)
        .column(Column::count("metadata_bytes"), |row| {
            row.found.metadata_bytes
        })
        .column(
            Column::decimals("expired_bytes", 1).labelled("expired held"),
            |row| row.found.expired_held,
        )
        .column(
            Column::count("flash_write_bytes").labelled("flash writes"),
            |row| row.found.flash_written,
        )
        .column(Column::count("expirations").detail(), |row| {
            row.found.counts.expirations
        })
        .column(Column::count("refusals").detail(), |row| {
            row.found.counts.refusals
        })
        .column(Column::count("replay_bytes").detail(), |row| {
            row.found.replay_bytes
        })
        .column(Column::decimals("cpu_seconds", 4).detail(), |row| {
            row.found.cpu_time.as_secs_f64()
        })
        .column(Column::text("size").detail(), |row| &row.size);
    if has_learning {
        table = with_learning(table);
    }
    if has_explanations {
        table = with_explanations(table);
    }
    table.finish()
}

/// Adds the columns that explain a miss ratio.
fn with_explanations(table: TableOfRows<'_>) -> TableOfRows<'_> {
    table
        .column(Column::decimals("demotion_speed", 3), |row| {
            row.explained(|explained| explained.demotion_speed)
        })
        .column(
            Column::decimals("demotion_precision", 4).labelled("precision"),
            |row| row.explained(|explained| explained.demotion_precision),
        )
        .column(Column::decimals("demotion_age", 1).detail(), |row| {
            row.explained(|explained| explained.demotion_age)
        })
        .column(
            Column::decimals("unpopular_resources", 4).labelled("on unpopular"),
            |row| row.explained(|explained| explained.unpopular_resources),
        )
        .column(Column::list("evictions_by_hits"), |row| {
            row.explained(|explained| {
                let counts = explained.evictions_by_hits.map(|count| count as f64);
                counts.to_vec()
            })
        })
        .column(
            Column::decimals("evicted_without_hit", 4).labelled("evicted unused"),
            |row| {
                row.explained(|explained| {
                    let evictions = explained.evictions_by_hits.iter().sum();
                    ratio(explained.evictions_by_hits[0], evictions)
                })
            },
        )
        .column(Column::list("miss_ratio_over_time"), |row| {
            row.explained(|explained| explained.over_time.clone())
        })
}

/// Adds the columns about what a policy learned.
fn with_learning(table: TableOfRows<'_>) -> TableOfRows<'_> {
    table
        .column(Column::count("trainings"), |row| {
            row.learned(|learned| learned.learning_stats.trainings)
        })
        .column(Column::text("is_trained").labelled("trained"), |row| {
            row.learned(|learned| ["no", "yes"][usize::from(learned.is_trained())])
        })
        .column(Column::count("training_rows").detail(), |row| {
            row.learned(|learned| learned.learning_stats.training_rows)
        })
        .column(
            Column::decimals("training_seconds", 4).labelled("training s"),
            |row| row.learned(|learned| learned.training_time.as_secs_f64()),
        )
        .column(Column::count("inferences").detail(), |row| {
            row.learned(|learned| learned.learning_stats.inferences)
        })
        .column(Column::count("inference_rows").detail(), |row| {
            row.learned(|learned| learned.learning_stats.inference_rows)
        })
        .column(
            Column::decimals("inference_seconds", 4).labelled("inference s"),
            |row| row.learned(|learned| learned.inference_time.as_secs_f64()),
        )
        .column(Column::count("model_age").detail(), |row| {
            row.learned(|learned| learned.model_age)
        })
        .column(Column::count("groups_evicted").detail(), |row| {
            row.learned(|learned| learned.learning_stats.groups_evicted)
        })
        .column(
            Column::decimals("learning_bytes_per_entry", 2).detail(),
            |row| row.learned(|learned| learned.bytes_per_entry),
        )
        .column(
            Column::decimals("held_out_correlation", 4).detail(),
            |row| row.learned(Learned::correlation),
        )
        .column(Column::text("feature_importances").detail(), |row| {
            row.learned(|learned| {
                let shares = learned.learning_stats.importances.iter();
                let shares = shares.map(|(name, share)| format!("{name} {share:.3}"));
                shares.collect::<Vec<_>>().join("; ")
            })
        })
}

type TableOfRows<'a> = ::report::TableOf<&'a Row>;

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
