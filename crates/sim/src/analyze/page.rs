//! An analysis as a page.

use super::findings::Findings;
use super::{Analysis, OverTime, Quantiles};
use report::{Axis, Cell, Heat, Line, Page, Plot, Table};
use units::show::bytes;

/// Maximum number of rows of the table of popular objects.
const ROWS_SHOWN: usize = 20;
/// Maximum number of columns of a heat map; more would only make the page larger.
const HEAT_COLUMNS: usize = 96;

impl Analysis {
    /// Page of the analysis of the trace called `name`.
    pub fn to_page(&self, name: &str) -> Page {
        let mut page = Page::new(&format!("Workload: {name}"));
        for part in self.findings() {
            self.section(&mut page, &part);
        }
        page
    }

    fn section(&self, page: &mut Page, part: &Findings) {
        let section = page.section(part.heading);
        let mut table = Table::new(&["measure", "value"]);
        for finding in &part.list {
            table.row(vec![
                finding.name.as_str().into(),
                finding.value.as_str().into(),
            ]);
        }
        section.table(table);
        for plot in self.plots(part.heading) {
            section.plot(plot);
        }
        if part.heading == "Popularity" {
            section.table(self.top_objects());
        }
    }

    fn plots(&self, heading: &str) -> Vec<Plot> {
        match heading {
            "Over time" => self.rates(),
            "TTLs" => self.ttl_plots(),
            "Popularity" => vec![self.ranks()],
            "Sizes" => self.size_plots(),
            "Reuse" => self.reuse_plots(),
            "One-hit wonders" => vec![self.one_hit_plot()],
            _ => Vec::new(),
        }
    }

    fn rates(&self) -> Vec<Plot> {
        let over_time = &self.over_time;
        let line = |name: &str, value: &dyn Fn(&super::WindowRow) -> f64| {
            let points = over_time.windows.iter();
            Line::new(
                name,
                points
                    .map(|w| (x_of(over_time, w.start), value(w)))
                    .collect(),
            )
        };
        let lines = vec![
            line("requests", &|w| w.requests as f64),
            line("distinct objects", &|w| w.objects),
            line("writes", &|w| w.writes as f64),
        ];
        let per = Axis::linear("per window").from_zero();
        let mut plots = vec![Plot::lines(
            "Requests and objects",
            time_axis(over_time),
            per,
            lines,
        )];
        let sets = vec![
            line("all requested so far", &|w| w.state.total_objects),
            line("not expired", &|w| w.state.live_objects),
        ];
        let objects = Axis::linear("objects").from_zero();
        plots.push(Plot::lines(
            "Working set",
            time_axis(over_time),
            objects,
            sets,
        ));
        plots
    }

    fn ttl_plots(&self) -> Vec<Plot> {
        let Some(ttls) = &self.ttls else {
            return Vec::new();
        };
        let last_reads = ttls.last_read_curve.iter().enumerate();
        let parts = ttls.last_read_curve.len() as f64;
        let points = last_reads.map(|(at, share)| ((at + 1) as f64 / parts, *share));
        vec![
            cumulative("TTLs given", "TTL, s", &[("writes", &ttls.ttl_ms)], 1000.0),
            Plot::lines(
                "Time of the last read of expired objects",
                Axis::linear("part of the TTL"),
                Axis::linear("share of lifetimes").from_zero(),
                vec![Line::new("lifetimes with reads", points.collect())],
            ),
        ]
    }

    fn ranks(&self) -> Plot {
        let mut lines = vec![Line::new("objects", self.popularity.curve.clone())];
        if let Some(fit) = self.popularity.fit {
            let law = |(rank, _): &(f64, f64)| (*rank, fit.first_count * rank.powf(-fit.alpha));
            let points = self.popularity.curve.iter().map(law).collect();
            lines.push(Line::new(&format!("Zipf, α = {:.2}", fit.alpha), points));
        }
        Plot::lines(
            "Popularity",
            Axis::log("rank"),
            Axis::log("requests"),
            lines,
        )
    }

    fn top_objects(&self) -> Table {
        let mut table = Table::new(&["object", "requests, min", "requests, max"])
            .with_caption("Most popular objects.");
        for top in self.popularity.top.iter().take(ROWS_SHOWN) {
            table.row(vec![
                top.key.to_string().as_str().into(),
                Cell::Number(top.requests_min as f64),
                Cell::Number(top.requests_max as f64),
            ]);
        }
        table
    }

    fn size_plots(&self) -> Vec<Plot> {
        let Some(sizes) = &self.sizes else {
            return Vec::new();
        };
        let all = [
            ("by request", &sizes.by_request),
            ("by object", &sizes.by_object),
            ("keys", &sizes.keys),
            ("values", &sizes.values),
        ];
        let known: Vec<(&str, &Quantiles)> = all
            .iter()
            .filter_map(|(name, q)| q.as_ref().map(|q| (*name, q)))
            .collect();
        let mut plots = vec![cumulative("Sizes", "bytes", &known, 1.0)];
        plots.extend(size_heat(&self.over_time));
        plots
    }

    fn reuse_plots(&self) -> Vec<Plot> {
        let mut plots = Vec::new();
        if let Some(gaps) = &self.reuse.gap_requests {
            let gaps = [("gaps", gaps)];
            plots.push(cumulative(
                "Requests between reuses of an object",
                "requests",
                &gaps,
                1.0,
            ));
        }
        let ages = [
            ("since the last request", &self.reuse.age_ms),
            ("since the first request", &self.reuse.access_age_ms),
        ];
        let known: Vec<(&str, &Quantiles)> = ages
            .iter()
            .filter_map(|(name, q)| q.as_ref().map(|q| (*name, q)))
            .collect();
        if !known.is_empty() {
            plots.push(cumulative("Age at a request", "seconds", &known, 1000.0));
        }
        plots
    }

    fn one_hit_plot(&self) -> Plot {
        let curve = self.one_hit_wonders.curve.iter();
        let share = |objects: f64| objects / self.objects.max(1.0);
        let points = curve.map(|p| (share(p.objects), p.ratio)).collect();
        Plot::lines(
            "One-hit wonders of parts of the trace",
            Axis::log("objects of a part, as a share of all"),
            Axis::linear("share requested once").from_zero(),
            vec![Line::new("mean of the parts", points)],
        )
    }
}

/// Start of a window in the unit of the axis.
fn x_of(over_time: &OverTime, start: u64) -> f64 {
    match over_time.unit {
        "ms" => start as f64 / 1000.0,
        _ => start as f64,
    }
}

fn time_axis(over_time: &OverTime) -> Axis {
    Axis::linear(match over_time.unit {
        "ms" => "seconds",
        _ => "requests",
    })
}

/// Plot of cumulative distributions, with values divided by `unit`.
fn cumulative(title: &str, label: &str, all: &[(&str, &Quantiles)], unit: f64) -> Plot {
    let line = |(name, q): &(&str, &Quantiles)| {
        let points = q.curve.iter();
        Line::new(
            name,
            points
                .map(|(value, share)| (*value as f64 / unit, *share))
                .collect(),
        )
    };
    let lines = all.iter().map(line).collect();
    let share = Axis::linear("cumulative share").from_zero();
    Plot::lines(title, Axis::log(label), share, lines)
}

/// Heat map of sizes over time, as in figure 3.11 of the study.
fn size_heat(over_time: &OverTime) -> Option<Plot> {
    let shares = &over_time.size_shares;
    let used = |bin: &usize| shares.iter().any(|window| window[*bin] > 0.0);
    let bins: Vec<usize> = (0..over_time.size_bins.len()).filter(used).collect();
    let (first, last) = (*bins.first()?, *bins.last()?);
    // Windows per column. Windows have equal length, so the share of a column is their mean.
    let merged = shares.len().div_ceil(HEAT_COLUMNS).max(1);
    let starts = over_time.windows.iter().step_by(merged);
    let columns = starts.map(|w| format!("{:.0}", x_of(over_time, w.start)));
    let rows = (first..=last).rev();
    let names = rows
        .clone()
        .map(|bin| bytes(over_time.size_bins[bin] as f64));
    let value = |bin: usize| {
        shares.chunks(merged).map(move |windows| {
            let sum: f64 = windows.iter().map(|w| f64::from(w[bin])).sum();
            (sum > 0.0).then_some(sum / windows.len() as f64)
        })
    };
    let values = rows.clone().flat_map(value).collect();
    let heat = Heat::new(
        columns.collect(),
        names.collect(),
        values,
        "share of requests",
    )
    .log();
    let unit = if over_time.unit == "ms" {
        "seconds"
    } else {
        "requests"
    };
    Some(Plot::heat("Sizes over time", unit, "size", heat))
}
