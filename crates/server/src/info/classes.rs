//! Rows of INFO about classes of keys.

use super::report::Report;
use super::row::Export::No;
use super::row::Reason::Distribution;
use super::row::Value::{self, Lines};
use super::row::{Row, row};
use store::{ClassFacts, MISS_CAUSES};

#[rustfmt::skip]
pub(super) const CLASSES: &[Row] = &[
    row("class_", classes, No(Distribution)),
];

fn classes(info: &Report<'_>) -> Value {
    let line = |facts: &ClassFacts| {
        let numbers = numbers(facts).into_iter();
        let numbers = numbers.map(|(name, number)| format!("{name}={number}"));
        (facts.name.clone(), numbers.collect::<Vec<_>>().join(","))
    };
    Lines(info.classes().facts().iter().map(line).collect())
}

/// Returns the numbers of a class with their names, as INFO and CLASS INFO report them.
pub fn numbers(facts: &ClassFacts) -> Vec<(String, u64)> {
    let counts = &facts.counts;
    let named = |name: &str, number: u64| (name.to_owned(), number);
    let mut numbers = vec![
        named("keys", facts.keys),
        named("bytes", facts.bytes),
        named("hits", counts.hits),
        named("misses", counts.misses.iter().sum()),
    ];
    let causes = MISS_CAUSES.iter().zip(counts.misses);
    numbers.extend(causes.map(|(cause, misses)| (format!("misses_{cause}"), misses)));
    let mean = counts.late_ms_sum.checked_div(counts.expired);
    numbers.extend([
        named("expired", counts.expired),
        named("evicted", counts.evicted),
        named("deleted", counts.deleted),
        named("invalidated", counts.invalidated),
        named("late_ms_mean", mean.unwrap_or(0)),
        named("late_ms_max", counts.late_ms_max),
    ]);
    if let Some(quota) = &facts.quota {
        numbers.extend([
            named("memory", quota.used_bytes),
            named("maxmemory", quota.limits.max_bytes),
            named("minmemory", quota.limits.min_bytes),
            named("refused", quota.refused),
        ]);
    }
    numbers
}
