//! Advice as a page.

use super::{Advice, Recommendation, statements};
use crate::curve;
use ::report::{Axis, Bars, Cell, Page, Plot, Table};
use units::show::{count, percent};

impl Advice {
    /// Page with the statements, the numbers behind them, the policies side by side and the curves.
    pub fn to_page(&self) -> Page {
        let mut page = Page::new(&format!("Advice: {}", self.trace));
        let unit = self.unit();
        page.fact("requests", &count(self.requests as f64));
        page.fact("footprint", &statements::size(unit, self.footprint));
        if let Some(memory) = self.memory {
            page.fact("available memory", &statements::size(unit, memory));
        }
        if let Some(target) = self.target_miss {
            page.fact("target miss ratio", &percent(target));
        }
        let section = page.section("Advice");
        let sentences = self.statements.iter().map(|s| s.text.clone());
        section.list(sentences.collect());
        section.plot(self.policies_at_size());
        section.plot(comparison(&self.recommendation));
        if !self.left_out.is_empty() {
            page.section("Not available").list(self.left_out.clone());
        }
        page.section("Numbers and their certainty")
            .table(self.figures());
        curve::add_sections(&mut page, (&self.trace, unit), &self.curves);
        page
    }

    /// Miss ratios of all policies at the surveyed size that is nearest to the recommended one.
    fn policies_at_size(&self) -> Plot {
        let wanted = self.recommendation.cache_size as f64;
        let own = self
            .curves
            .iter()
            .filter(|named| named.has_ttls == self.curves[0].has_ttls);
        let distance = |size: u64| (size.max(1) as f64 / wanted.max(1.0)).ln().abs();
        let nearest = |points: &[curve::Point]| {
            let by_distance = |a: &&curve::Point, b: &&curve::Point| {
                distance(a.capacity).total_cmp(&distance(b.capacity))
            };
            points.iter().min_by(by_distance).copied()
        };
        let mut found: Vec<(String, curve::Point)> = own
            .filter_map(|named| Some((named.policy.clone(), nearest(&named.curve.points)?)))
            .collect();
        found.sort_by(|a, b| a.1.miss_ratio.total_cmp(&b.1.miss_ratio));
        let size = found.first().map_or(0, |(_, point)| point.capacity);
        let values = found
            .iter()
            .map(|(_, point)| Some(point.miss_ratio))
            .collect();
        let ranges = found
            .iter()
            .map(|(_, point)| (point.low < point.high).then_some((point.low, point.high)));
        let bars = Bars::new("", values).with_ranges(ranges.collect());
        let names = found.iter().map(|(name, _)| name.clone()).collect();
        let is_exact = self.curves.iter().all(|named| named.curve.is_exact);
        let by = if is_exact { "" } else { ", from the sample" };
        let title = format!("Policies with {}{by}", statements::size(self.unit(), size));
        Plot::bars(&title, Axis::linear("miss ratio"), names, vec![bars])
    }

    fn figures(&self) -> Table {
        let mut table = Table::new(&["topic", "number", "value", "certainty"]);
        for statement in &self.statements {
            for figure in &statement.figures {
                table.row(vec![
                    statement.topic.into(),
                    figure.name.into(),
                    Cell::Number(figure.value),
                    statement.certainty.as_str().into(),
                ]);
            }
        }
        table
    }
}

/// Miss ratios of the recommended policy and of LRU.
fn comparison(found: &Recommendation) -> Plot {
    let mut rows = vec![(found.policy.clone(), found.ratio)];
    if found.policy != "lru" {
        rows.push(("lru".into(), found.lru));
    }
    let values = rows
        .iter()
        .map(|(_, ratio)| Some(ratio.miss_ratio))
        .collect();
    let ranges = rows
        .iter()
        .map(|(_, ratio)| (ratio.low < ratio.high).then_some((ratio.low, ratio.high)));
    let bars = Bars::new("", values).with_ranges(ranges.collect());
    let names = rows.iter().map(|(name, _)| name.clone()).collect();
    let title = "The recommended policy and LRU at the same size";
    Plot::bars(title, Axis::linear("miss ratio"), names, vec![bars])
}
