//! Claims of papers about policies, checked against a sweep.
//!
//! A [`Measured`] is one result of the sweep. The tables made from all of them show each policy's
//! reduction of FIFO's miss ratio by trace, with the spread over traces; the best policies of each
//! trace; and a verdict for each claim and cache size.
//!
//! A reduction is `(from - to) / from`, or `-(to - from) / to` if `to` is worse. It stays between
//! -1 and 1, so that no single trace dominates the mean (J. Yang, *Designing efficient and scalable
//! key-value cache management systems*, Carnegie Mellon University 2024, section 8.4.1). The
//! reasons why a claim holds or not are not analyzed.
//!
//! Start with [`Headlines::of`].

mod claims;

pub use claims::{Claim, policies};

use crate::Unit;
use crate::report::Row;
use claims::{CLAIMS, FIELD};
use learn::any::Spec;
use report::{Axis, Boxed, Cell, Cloud, Column, Page, Plot, Table};
use serde::Serialize;
use std::cmp::Ordering;

/// Minimum number of objects of a cache. A smaller cache measures only the first requests of the
/// trace and is left out. (The papers use 1,000, with traces a hundred times as long.)
pub const OBJECTS_MIN: u64 = 100;
/// Relative difference below which ratios count as equal.
const TIE: f64 = 0.0005;
/// Maximum probability of a split by chance at which a claim counts as reproduced or refuted.
const CHANCE_MAX: f64 = 0.05;
/// Number of the best policies that are named for each trace.
const BEST: usize = 3;

/// Source of a trace. Some claims are about one kind only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceKind {
    /// Blocks of a disk, or pages of a file or database.
    Block,
    /// Objects of a key-value cache, web cache or CDN.
    Web,
}

impl TraceKind {
    /// Name in tables.
    pub fn name(self) -> &'static str {
        match self {
            TraceKind::Block => "block",
            TraceKind::Web => "web",
        }
    }
}

/// One result of the sweep.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The replay and its result. Results of different traces are compared at the same size as
    /// given.
    pub row: Row,
    /// Source of the trace.
    pub kind: TraceKind,
}

/// Ratio that is compared between policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Measure {
    /// Missed requests of all requests, with sizes in this unit.
    Requests(Unit),
    /// Missed bytes of all requested bytes, with sizes in bytes.
    Bytes,
}

const MEASURES: [(Measure, &str); 3] = [
    (Measure::Requests(Unit::Objects), "by objects"),
    (Measure::Requests(Unit::Bytes), "by bytes"),
    (Measure::Bytes, "by bytes, byte miss ratio"),
];

impl Measure {
    fn of(self, row: &Row) -> Option<f64> {
        let counts = &row.found.counts;
        let (part, whole) = match self {
            Measure::Requests(unit) if unit == row.unit => (counts.misses, counts.requests),
            Measure::Bytes if row.unit == Unit::Bytes => {
                (counts.missed_weight, counts.requested_weight)
            }
            _ => return None,
        };
        (whole > 0).then(|| part as f64 / whole as f64)
    }
}

/// Results of all traces at one size, by one measure.
struct Group<'a> {
    name: String,
    measure: Measure,
    traces: Vec<(&'a str, TraceKind)>,
    policies: Vec<&'a str>,
    /// Miss ratios by policy and trace.
    ratios: Vec<Vec<Option<f64>>>,
}

/// Relative reduction from `from` to `to`; negative if `to` is larger.
fn reduction(from: f64, to: f64) -> f64 {
    match from.partial_cmp(&to) {
        Some(Ordering::Greater) => (from - to) / from,
        Some(Ordering::Less) => -(to - from) / to,
        _ => 0.0,
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Minimum, quartiles (interpolated) and maximum.
fn five_numbers(values: &[f64]) -> Option<[f64; 5]> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    Some([0, 1, 2, 3, 4].map(|quarter| {
        let place = last * quarter;
        let (below, share) = (place / 4, (place % 4) as f64 / 4.0);
        let above = (below + 1).min(last);
        sorted[below] + (sorted[above] - sorted[below]) * share
    }))
}

impl<'a> Group<'a> {
    fn new(measured: &'a [Measured], measure: Measure, name: &str, size: &str) -> Option<Self> {
        let results = measured
            .iter()
            .filter(|m| m.row.size == size)
            .filter_map(|m| Some((m, measure.of(&m.row)?)));
        let mut group = Group {
            name: format!("{size}, {name}"),
            measure,
            traces: Vec::new(),
            policies: Vec::new(),
            ratios: Vec::new(),
        };
        for (m, ratio) in results {
            let trace = (m.row.trace.as_str(), m.kind);
            let at_trace = position(&mut group.traces, trace);
            let at_policy = position(&mut group.policies, m.row.policy.as_str());
            group.ratios.resize(group.policies.len(), Vec::new());
            let ratios = &mut group.ratios[at_policy];
            ratios.resize(ratios.len().max(at_trace + 1), None);
            ratios[at_trace] = Some(ratio);
        }
        let traces = group.traces.len();
        let ratios = group.ratios.iter_mut();
        ratios.for_each(|ratios| ratios.resize(traces, None));
        (traces > 0).then_some(group)
    }

    fn ratios_of(&self, policy: &str) -> Option<&[Option<f64>]> {
        let at = self.policies.iter().position(|&name| name == policy)?;
        Some(&self.ratios[at])
    }

    /// Reduction of the misses of `over` by `policy`, by trace.
    fn reductions(&self, policy: &str, over: &str) -> Vec<Option<f64>> {
        let (Some(to), Some(from)) = (self.ratios_of(policy), self.ratios_of(over)) else {
            return vec![None; self.traces.len()];
        };
        let pairs = from.iter().zip(to);
        pairs
            .map(|(from, to)| Some(reduction((*from)?, (*to)?)))
            .collect()
    }

    /// Policies other than FIFO with their reductions of FIFO's misses, the largest mean first.
    fn ranked(&self) -> Vec<(&'a str, Vec<Option<f64>>)> {
        let others = self.policies.iter().filter(|&&name| name != "fifo");
        let mut ranked: Vec<_> = others
            .map(|&name| (name, self.reductions(name, "fifo")))
            .collect();
        let mean_of = |values: &[Option<f64>]| mean(&known(values));
        ranked.sort_by(|a, b| mean_of(&b.1).total_cmp(&mean_of(&a.1)));
        ranked
    }

    /// Reductions by trace, with their spread.
    fn grid(&self) -> Table {
        let name = |&(trace, kind): &(&str, TraceKind)| format!("{trace} ({})", kind.name());
        let traces = self.traces.iter().map(name);
        let spread = [
            "mean",
            "min",
            "lower quartile",
            "median",
            "upper quartile",
            "max",
        ];
        let names = traces.chain(spread.map(str::to_owned));
        let mut columns = vec![Column::text("policy")];
        columns.extend(names.map(|name| Column::percent(&name)));
        let caption = format!("Fewer misses than FIFO: {}", self.name);
        let mut table = Table::with_columns(columns).with_caption(&caption);
        if let Some(ratios) = self.ratios_of("fifo") {
            let mut row = vec!["fifo's miss ratio".into()];
            row.extend(ratios.iter().map(|ratio| Cell::from(*ratio)));
            row.resize(row.len() + spread.len(), Cell::Empty);
            table.row(row);
        }
        for (policy, reductions) in self.ranked() {
            let mut row = vec![policy.into()];
            row.extend(reductions.iter().map(|value| Cell::from(*value)));
            let values = known(&reductions);
            let five = five_numbers(&values);
            row.push(five.map(|_| mean(&values)).into());
            row.extend([0, 1, 2, 3, 4].map(|at| Cell::from(five.map(|five| five[at]))));
            table.row(row);
        }
        table
    }

    /// Policies with a result for the trace, the fewest misses first.
    fn order(&self, at_trace: usize) -> Vec<(&'a str, f64)> {
        let possible = self.policies.iter().zip(&self.ratios);
        let possible = possible.filter(|(policy, _)| !knows_the_future(policy));
        let mut order: Vec<(&str, f64)> = possible
            .filter_map(|(policy, ratios)| Some((*policy, ratios[at_trace]?)))
            .collect();
        order.sort_by(|a, b| a.1.total_cmp(&b.1));
        order
    }

    /// Best policies of each trace.
    fn best(&self) -> Table {
        let show = |place: Option<&(&str, f64)>| {
            place.map(|(policy, ratio)| format!("{policy} {:.2} %", ratio * 100.0))
        };
        let traces: Vec<_> = (0..self.traces.len())
            .map(|at| (at, self.order(at)))
            .collect();
        let mut table = Table::of(&traces).column(Column::text("trace"), |(at, _)| {
            let (trace, kind) = self.traces[*at];
            format!("{trace} ({})", kind.name())
        });
        for (place, name) in ["best", "second", "third"].into_iter().enumerate() {
            table = table.column(Column::text(name), |(_, order)| show(order.get(place)));
        }
        let table = table
            .column(Column::text("best of figure 8.6"), |(_, order)| {
                show(order.iter().find(|(policy, _)| FIELD.contains(policy)))
            })
            .column(Column::percent("belady"), |(at, _)| {
                self.ratios_of("belady").and_then(|ratios| ratios[*at])
            });
        let caption = format!("Miss ratios of the best policies: {}", self.name);
        table.finish().with_caption(&caption)
    }

    /// Returns the table of how often each policy of figure 8.6 is among the best of them, and how
    /// often it is worse than FIFO.
    fn standing(&self) -> Table {
        let mut rows: Vec<(&str, [usize; 4])> = Vec::new();
        for &policy in self.policies.iter().filter(|name| FIELD.contains(name)) {
            let mut counts = [0; 4];
            for at in 0..self.traces.len() {
                let order = self.order(at).into_iter();
                let order: Vec<_> = order.filter(|(name, _)| FIELD.contains(name)).collect();
                let Some(&(_, own)) = order.iter().find(|(name, _)| *name == policy) else {
                    continue;
                };
                let better = order.iter().filter(|(_, ratio)| *ratio < own).count();
                counts[0] += usize::from(better == 0);
                counts[1] += usize::from(better < BEST);
                counts[3] += 1;
            }
            let reductions = known(&self.reductions(policy, "fifo"));
            counts[2] = reductions.iter().filter(|&&value| value < -TIE).count();
            rows.push((policy, counts));
        }
        rows.sort_by_key(|(_, counts)| std::cmp::Reverse((counts[0], counts[1])));
        let caption = format!("Ranks among the policies of figure 8.6: {}", self.name);
        Table::of(&rows)
            .column(Column::text("policy"), |row| row.0)
            .column(Column::count("best"), |row| row.1[0])
            .column(Column::count("among the best three"), |row| row.1[1])
            .column(Column::count("worse than fifo"), |row| row.1[2])
            .column(Column::count("traces"), |row| row.1[3])
            .finish()
            .with_caption(&caption)
    }

    fn tables(&self) -> Vec<Table> {
        let mut tables = vec![self.grid(), self.best()];
        if self.measure == Measure::Requests(Unit::Objects) {
            tables.push(self.standing());
        }
        tables
    }

    /// Row of the table of verdicts for a claim; `None` if a policy or a trace is missing.
    fn verdict(&self, claim: &Claim) -> Option<Vec<Cell>> {
        let reductions = self.reductions(claim.subject, claim.over);
        let traces = self.traces.iter().zip(reductions);
        let of_kind = traces.filter(|((_, kind), _)| claim.kind.is_none_or(|own| own == *kind));
        let found: Vec<(&str, f64)> = of_kind
            .filter_map(|((trace, _), value)| Some((*trace, value?)))
            .collect();
        let values: Vec<f64> = found.iter().map(|(_, value)| *value).collect();
        let most = found.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        let least = found.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
        let better = values.iter().filter(|&&value| value > TIE).count();
        let worse = values.iter().filter(|&&value| value < -TIE).count();
        let mean = mean(&values);
        let verdict = verdict_of(better, worse, mean);
        let end =
            |(trace, value): &(&str, f64)| Cell::Text(format!("{:+.1} % {trace}", value * 1e2));
        Some(vec![
            Cell::Text(format!("{} over {}", claim.subject, claim.over)),
            claim.source.into(),
            claim.says.into(),
            (&self.name).into(),
            claim.kind.map_or("all", TraceKind::name).into(),
            Cell::Text(format!("{better} : {worse} of {}", values.len())),
            mean.into(),
            end(least),
            end(most),
            verdict.into(),
        ])
    }
}

/// Returns the verdict on a claim that holds on some traces and not on others: *reproduced* or
/// *refuted* if so uneven a split of the traces that differ would come by chance in fewer than
/// [`CHANCE_MAX`] of all cases (a paired sign test) and the mean agrees; *in direction* or
/// *against* if the majority and the mean agree and the traces are too few or too divided for that.
fn verdict_of(better: usize, worse: usize, mean: f64) -> &'static str {
    let is_clear = by_chance(better.max(worse), better + worse) < CHANCE_MAX;
    match (mean > 0.0, better.cmp(&worse)) {
        (true, Ordering::Greater) if mean < TIE => "undecided",
        (true, Ordering::Greater) if is_clear => "reproduced",
        (true, Ordering::Greater) => "in direction",
        (false, Ordering::Less) if is_clear => "refuted",
        (false, Ordering::Less) => "against",
        _ => "undecided",
    }
}

/// Probability that at least `most` of `all` fair coins fall alike on a given side.
fn by_chance(most: usize, all: usize) -> f64 {
    let mut ways = 1.0;
    let mut sum = 0.0;
    for heads in (0..=all).rev() {
        if heads >= most {
            sum += ways;
        }
        // The number of choices of one coin fewer.
        ways = ways * heads as f64 / (all - heads + 1) as f64;
    }
    sum / 2f64.powi(all as i32)
}

/// Returns the values that are not missing.
fn known(values: &[Option<f64>]) -> Vec<f64> {
    values.iter().flatten().copied().collect()
}

fn knows_the_future(policy: &str) -> bool {
    policy.parse().is_ok_and(|spec: Spec| spec.needs_future())
}

/// Returns the position of `wanted` in the list, adding it if it is missing.
fn position<T: PartialEq>(list: &mut Vec<T>, wanted: T) -> usize {
    let found = list.iter().position(|item| *item == wanted);
    found.unwrap_or_else(|| {
        list.push(wanted);
        list.len() - 1
    })
}

/// A table with its title, for JSON.
#[derive(Debug, Serialize)]
pub struct TitledTable {
    /// Title of the table.
    pub title: String,
    /// The table as an array of its rows.
    pub rows: Table,
}

/// The results of a sweep, grouped for the tables and plots about the claims.
pub struct Headlines<'a> {
    groups: Vec<Group<'a>>,
}

impl<'a> Headlines<'a> {
    /// Groups the results.
    pub fn of(measured: &'a [Measured]) -> Self {
        let mut sizes: Vec<&str> = Vec::new();
        for m in measured {
            position(&mut sizes, &m.row.size);
        }
        // Sorted, because a small trace may lack the smallest size.
        let share = |size: &&str| size.trim_end_matches('%').parse().unwrap_or(f64::MAX);
        sizes.sort_by(|a, b| share(a).total_cmp(&share(b)));
        let mut groups = Vec::new();
        for (measure, name) in MEASURES {
            let of_size = |size: &&str| Group::new(measured, measure, name, size);
            groups.extend(sizes.iter().rev().filter_map(of_size));
        }
        Headlines { groups }
    }

    /// The tables: verdicts first, then the tables that they are computed from.
    pub fn tables(&self) -> Vec<Table> {
        let mut tables = vec![self.verdicts()];
        tables.extend(self.groups.iter().flat_map(Group::tables));
        tables
    }

    fn verdicts(&self) -> Table {
        let mut columns: Vec<Column> = ["fewer misses", "source", "claim", "at", "traces"]
            .map(Column::text)
            .into();
        columns.push(Column::text("better : worse"));
        columns.push(Column::percent("mean"));
        columns.extend(["min", "max", "verdict"].map(Column::text));
        let mut table = Table::with_columns(columns).with_caption("Claims and verdicts");
        for claim in CLAIMS {
            let about = self.groups.iter().filter(|group| match claim.is_of_bytes {
                true => group.measure == Measure::Bytes,
                false => group.measure == Measure::Requests(Unit::Objects),
            });
            about
                .filter_map(|group| group.verdict(claim))
                .for_each(|row| table.row(row));
        }
        table
    }

    /// The tables in Markdown, each below its title.
    pub fn markdown(&self) -> String {
        let tables = self.tables();
        let texts = tables
            .iter()
            .map(|table| format!("## {}\n\n{}", table.caption(), table.to_markdown()));
        texts.collect::<Vec<_>>().join("\n")
    }

    /// The tables with their titles, for JSON.
    pub fn titled(&self) -> Vec<TitledTable> {
        let tables = self.tables().into_iter();
        tables
            .map(|rows| TitledTable {
                title: rows.caption().into(),
                rows,
            })
            .collect()
    }

    /// Tables and plots as a page.
    pub fn page(&self) -> Page {
        let mut page = Page::new("Claims of papers on these traces");
        page.section("Claims and verdicts").table(self.verdicts());
        for group in &self.groups {
            let section = page.section(&group.name);
            section.plot(boxes(group)).plot(points(group));
            for table in group.tables() {
                section.table(table);
            }
        }
        page
    }
}

fn boxes(group: &Group<'_>) -> Plot {
    let ranked = group.ranked();
    let boxes = ranked.iter().filter_map(|(policy, values)| {
        let values: Vec<f64> = known(values).iter().map(|value| value * 100.0).collect();
        Some(Boxed::of_five(policy, five_numbers(&values)?))
    });
    let title = format!("Reduction of FIFO's misses over the traces, {}", group.name);
    Plot::boxes(&title, Axis::linear("%"), boxes.collect())
}

/// Plot with a point for each trace: the policy's reduction over FIFO's miss ratio.
fn points(group: &Group<'_>) -> Plot {
    let shown = ["lru", "clock", "arc", "sieve", "s3fifo", "w-tinylfu"];
    let fifo = group.ratios_of("fifo").unwrap_or_default();
    let clouds = shown.iter().map(|policy| {
        let reductions = group.reductions(policy, "fifo");
        let rows = fifo.iter().zip(&reductions).zip(&group.traces);
        let rows = rows.filter_map(|((from, value), (trace, _))| {
            Some(((100.0 * (*from)?, 100.0 * (*value)?), (*trace).to_owned()))
        });
        let (points, labels): (Vec<_>, Vec<_>) = rows.unzip();
        Cloud::new(policy, points).with_labels(labels)
    });
    let title = format!("Each trace as a point, {}", group.name);
    let (x, y) = (
        Axis::linear("FIFO's miss ratio, %"),
        Axis::linear("reduction, %"),
    );
    Plot::scatter(&title, x, y, clouds.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_needs_a_split_that_chance_hardly_gives() {
        assert!((by_chance(5, 5) - 1.0 / 32.0).abs() < 1e-12);
        assert!((by_chance(3, 5) - 0.5).abs() < 1e-12);
        assert!((by_chance(0, 0) - 1.0).abs() < 1e-12);
        assert_eq!(verdict_of(5, 0, 0.1), "reproduced");
        assert_eq!(verdict_of(3, 2, 0.1), "in direction");
        assert_eq!(verdict_of(3, 2, 0.0), "undecided");
        assert_eq!(verdict_of(3, 2, 0.0004), "undecided");
        assert_eq!(verdict_of(0, 5, -0.1), "refuted");
        assert_eq!(verdict_of(2, 3, -0.1), "against");
        assert_eq!(verdict_of(2, 3, 0.1), "undecided");
    }
}
