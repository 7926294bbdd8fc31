//! Findings of a study as a page: the tables and figures of chapter 5, and more.

use super::claims::saved;
use super::findings::{Findings, RunRow};
use super::found::{LATENCY_SHARES, RunResult, Window, ratio};
use super::scheme::Scheme;
use crate::Unit;
use crate::report::size_axis;
use report::{Axis, Bars, Column, Line, Page, Plot, Section, Table};
use units::show::{bytes, count};

/// Maximum number of points of a line over time; with more, noise hides the trend.
const POINTS_MAX: usize = 80;

impl Findings {
    /// Page with the findings.
    pub fn page(&self) -> Page {
        let mut page = Page::new(&format!("A coded edge cluster: {}", self.trace));
        let of = format!(
            "{} requests for {} objects of {}",
            count(self.requests as f64),
            count(self.objects as f64),
            bytes(self.footprint_bytes as f64)
        );
        page.fact("trace", &of);
        page.fact("largest object", &bytes(self.largest_bytes as f64));
        page.fact("servers", &self.servers().to_string());
        page.fact("base size", &self.base);
        if !self.claims.is_empty() {
            page.section("Claims of the thesis")
                .table(self.claims_table());
        }
        self.miss_ratios(page.section("Miss ratios"));
        if !self.failures.is_empty() {
            self.failure_section(page.section("Failures of servers"));
        }
        self.protection(page.section("Unprotected objects"));
        self.load(page.section("Load of servers"));
        self.latency(page.section("Latency"));
        if !self.outages.is_empty() {
            self.outage_section(page.section("Under the given outages"));
        }
        if !self.co_residency.is_empty() {
            self.co_residency_section(page.section("Are chunks evicted together?"));
            self.coordination_section(page.section("Effect of coordination"));
        }
        page.section("All runs of the sweep")
            .table(self.sweep_table());
        page
    }

    /// First number of servers.
    fn servers(&self) -> usize {
        self.sweep.first().map_or(0, |row| row.servers)
    }

    /// Rows of the sweep with the first number of servers.
    fn rows(&self) -> impl Iterator<Item = &RunRow> {
        self.sweep
            .iter()
            .filter(|row| row.servers == self.servers())
    }

    fn base_rows(&self) -> impl Iterator<Item = &RunRow> {
        self.rows().filter(|row| row.size == self.base)
    }

    fn schemes(&self) -> Vec<Scheme> {
        self.base_rows().map(|row| row.found.scheme).collect()
    }

    /// Plot over sizes with a line for each scheme.
    fn over_sizes(&self, title: &str, y: Axis, value: impl Fn(&RunResult) -> Option<f64>) -> Plot {
        let (label, scale) = size_axis(Unit::Bytes);
        let line = |scheme: Scheme| {
            let own = self.rows().filter(|row| row.found.scheme == scheme);
            let points =
                own.filter_map(|row| Some((row.capacity as f64 / scale, value(&row.found)?)));
            let points = in_order(points.collect());
            (!points.is_empty()).then(|| Line::new(&scheme.to_string(), points))
        };
        let lines = self.schemes().into_iter().filter_map(line).collect();
        Plot::lines(title, Axis::log(label), y, lines)
    }

    fn miss_ratios(&self, section: &mut Section) {
        let copies = self
            .base_rows()
            .find(|row| row.found.scheme == Scheme::Replicas(2))
            .map(|row| &row.found);
        let saved_of = |row: &RunRow| {
            let of = copies?.byte_miss_ratio();
            saved(row.found.byte_miss_ratio(), of)
        };
        let table = Table::of(self.base_rows())
            .column(Column::text("scheme"), |row| row.found.scheme.to_string())
            .column(Column::decimals("miss ratio", 4), |row| {
                row.found.miss_ratio()
            })
            .column(
                Column::decimals("byte miss ratio", 4).labelled("byte miss ratio (midgress)"),
                |row| row.found.byte_miss_ratio(),
            )
            .column(Column::change("bytes saved against replicas:2"), saved_of)
            .column(Column::percent("between servers"), |row| {
                row.found.between()
            })
            .column(Column::percent("hedged"), |row| row.found.hedged())
            .finish();
        section.text(
            "A miss is a request that needed the origin. If some chunks were held, only the missing ones \
             were fetched, and the byte miss ratio counts the fetched bytes. They are the traffic between \
             cluster and origin, called midgress, as a share of the requested bytes. Traffic between \
             servers stays within the cluster. Hedged is parity requested in place of late chunks, which \
             reads of disks do not include.",
        );
        section.table(table.with_caption(&format!("Table 5.2, at {}", self.base)));
        let over_sizes = |title: &str, value: fn(&RunResult) -> f64| {
            self.over_sizes(title, Axis::linear("ratio"), |found| Some(value(found)))
        };
        section.plot(over_sizes(
            "Byte miss ratio (figure 5.8)",
            RunResult::byte_miss_ratio,
        ));
        section.plot(over_sizes("Object miss ratio", RunResult::miss_ratio));
        section.plot(
            self.over_sizes("Between servers", Axis::linear("% of bytes"), |found| {
                Some(found.between() * 100.0)
            }),
        );
        if self.sweep.iter().any(|row| row.servers != self.servers()) {
            section.plot(self.over_servers());
        }
    }

    /// Plot over numbers of servers with a line for each scheme, at the base size.
    fn over_servers(&self) -> Plot {
        let line = |scheme: Scheme| {
            let rows = self.sweep.iter().filter(|row| row.size == self.base);
            let own = rows.filter(|row| row.found.scheme == scheme);
            let points = own.map(|row| (row.servers as f64, row.found.byte_miss_ratio()));
            Line::new(&scheme.to_string(), in_order(points.collect()))
        };
        let lines = self.schemes().into_iter().map(line).collect();
        let title = "Byte miss ratio by the number of servers";
        Plot::lines(title, Axis::linear("servers"), Axis::linear("ratio"), lines)
    }

    fn failure_section(&self, section: &mut Section) {
        let hours = self.window_ms as f64 / 3_600_000.0;
        section.text(&format!(
            "Servers fail {} after the warm-up and stay down. The plots show the increase of misses over \
             the same run without a failure, in windows of {} after the failure, as a mean of runs in which \
             different servers fail.",
            in_hours(2.0 * hours),
            in_hours(hours)
        ));
        if let Some(reason) = self.failures_note() {
            section.text(&reason);
        }
        for (down, title) in [
            (1, "One failed server (figure 5.9a)"),
            (2, "Two servers failed at once (figure 5.11)"),
        ] {
            let mut lines = Vec::new();
            for failure in self.failures.iter().filter(|failure| failure.down == down) {
                let points = failure.rises.iter().enumerate();
                let points =
                    points.filter_map(|(at, rise)| Some((at as f64 * hours, (*rise)? * 100.0)));
                lines.push(Line::new(&failure.scheme, points.collect()));
            }
            let (x, y) = (
                Axis::linear("hours since the failure"),
                Axis::linear("increase of misses, %"),
            );
            section.plot(Plot::lines(title, x, y, lines));
        }
        section.table(self.failure_table());
    }

    fn protection(&self, section: &mut Section) {
        section.text(
            "Share of the held objects that would not survive another failure, because one copy or at most K \
             chunks are left. Mean over time.",
        );
        let plot = |title: &str, is_coded: bool| {
            let value = |found: &RunResult| {
                (found.scheme.code().is_some() == is_coded).then_some(found.unprotected * 100.0)
            };
            self.over_sizes(title, Axis::linear("% of objects").from_zero(), value)
        };
        section.plot(plot("Whole copies (figure 5.9b)", false));
        section.plot(plot("Chunks (figure 5.10a)", true));
    }

    fn load(&self, section: &mut Section) {
        let gib = |bytes: Option<u64>| bytes.map(|bytes| bytes as f64 / (1u64 << 30) as f64);
        let quotient = |imbalance: Option<f64>| imbalance.map(|more| more + 1.0);
        let table = Table::of(self.base_rows())
            .column(Column::text("scheme"), |row| row.found.scheme.to_string())
            .column(Column::decimals("max", 2).unit("GiB"), |row| {
                gib(row.found.written_bytes.iter().max().copied())
            })
            .column(Column::decimals("min", 2).unit("GiB"), |row| {
                gib(row.found.written_bytes.iter().min().copied())
            })
            .column(Column::decimals("mean", 2).unit("GiB"), |row| {
                let written = &row.found.written_bytes;
                gib(Some(
                    written.iter().sum::<u64>() / written.len().max(1) as u64,
                ))
            })
            .column(Column::decimals("max / min", 4), |row| {
                quotient(row.found.write_imbalance())
            })
            .column(Column::decimals("read: max / min", 4), |row| {
                quotient(row.found.read_imbalance())
            })
            .finish();
        section.table(table.with_caption(&format!(
            "Table 5.3: bytes written by server, at {}; max / min by weight",
            self.base
        )));
        for (title, value) in [
            (
                "Write imbalance (figure 5.10b)",
                RunResult::write_imbalance as fn(&RunResult) -> Option<f64>,
            ),
            ("Read imbalance", RunResult::read_imbalance),
        ] {
            let axis = Axis::log("(max − min) / min, %");
            section.plot(self.over_sizes(title, axis, |found| Some(value(found)? * 100.0)));
        }
    }

    fn latency(&self, section: &mut Section) {
        section.text(
            "From a model with few constants and no queues, which compares schemes and does not \
             predict a cluster. The plots show the share of requests answered within a time. Disks \
             sometimes pause. Parity is requested when 1.2 times the time to the first chunk and the \
             p95 latency of peers have passed. The table of all runs has the share of the reads of \
             chunks that requested parity, and the share that was decoded because data chunks were \
             missing or late.",
        );
        type Curve = fn(&super::found::Latencies) -> &Vec<f64>;
        let curves: [(&str, Curve); 4] = [
            ("First byte, small objects (figure 5.12a)", |all| {
                &all.small_first_ms
            }),
            ("First byte, large objects (figure 5.12b)", |all| {
                &all.large_first_ms
            }),
            ("Last byte, small objects (figure 5.12c)", |all| {
                &all.small_full_ms
            }),
            ("Last byte, large objects (figure 5.12d)", |all| {
                &all.large_full_ms
            }),
        ];
        for (title, curve) in curves {
            let line = |row: &RunRow| {
                let latencies = row.found.latencies.as_ref()?;
                let points = curve(latencies).iter().copied().zip(LATENCY_SHARES);
                Some(Line::new(&row.found.scheme.to_string(), points.collect()))
            };
            let lines = self.base_rows().filter_map(line).collect();
            let (x, y) = (Axis::log("ms"), Axis::linear("share of requests"));
            section.plot(Plot::lines(title, x, y, lines));
        }
    }

    fn outage_section(&self, section: &mut Section) {
        let windows = self.outages.iter().map(|row| row.found.windows.len());
        let each = windows.max().unwrap_or(0).div_ceil(POINTS_MAX).max(1);
        let hours = self.window_ms as f64 * each as f64 / 3_600_000.0;
        section.text(&format!(
            "Outages start at the end of the warm-up, at hour 0. After the last of them all servers are up. \
             Each point is a mean over {}.",
            in_hours(hours)
        ));
        let plot = |title: &str, label: &str, value: fn(&Window) -> f64| {
            let line = |row: &RunRow| {
                let stretches = row.found.windows.chunks(each).map(Window::sum).enumerate();
                let points = stretches.map(|(at, sum)| (at as f64 * hours, value(&sum)));
                Line::new(&row.found.scheme.to_string(), points.collect())
            };
            let lines = self.outages.iter().map(line).collect();
            Plot::lines(title, Axis::linear("hours"), Axis::linear(label), lines)
        };
        section.plot(plot(
            "Object miss ratio over time",
            "ratio",
            Window::miss_ratio,
        ));
        section.plot(plot(
            "Byte miss ratio over time",
            "ratio",
            Window::byte_miss_ratio,
        ));
        section.plot(plot(
            "Partial hits over time",
            "share of requests",
            Window::partial_hit_ratio,
        ));
        section.plot(plot("Unprotected objects over time", "share", |window| {
            ratio(window.unprotected, window.held)
        }));
        section.table(self.outage_table());
    }

    fn co_residency_section(&self, section: &mut Section) {
        section.text(
            "Probability that a chunk is held if another chunk of its object is, over the size. Theorem 1 \
             states that it approaches 1 if servers are written to evenly. Hits are sent to all chunks, \
             because the theorem's requests are for all chunks at once. There is no memory in front of the \
             disks.",
        );
        for (title, is_balanced) in [
            ("Parity placed by load", true),
            ("Parity next on the ring", false),
        ] {
            let own = || {
                let rows = self.co_residency.iter();
                rows.filter(|row| row.found.scheme.is_balanced() == is_balanced)
            };
            let mut policies: Vec<&str> = own().map(|row| row.policy.as_str()).collect();
            policies.dedup();
            let (label, scale) = size_axis(Unit::Bytes);
            let line = |policy: &&str| {
                let points = own().filter(|row| row.policy == *policy);
                let points = points
                    .filter_map(|row| Some((row.capacity as f64 / scale, row.found.co_residency?)));
                Line::new(policy, in_order(points.collect()))
            };
            let lines = policies.iter().map(line).collect();
            let y = Axis::linear("P[chunk held | other held]");
            section.plot(Plot::lines(title, Axis::log(label), y, lines));
        }
    }

    fn coordination_section(&self, section: &mut Section) {
        section.text(
            "Hits: the servers of unread parts, which keep parity, are notified of hits that changed the state \
             of a policy. Evictions: a server that evicts a chunk notifies the others, which evict theirs. \
             Rotated reads: any K chunks are read instead of the data chunks. Hash order: a CLOCK hand \
             moves through the objects in the order of a hash that chunks share, whatever the policy. \
             Shared hand: servers exchange the positions of their hands.",
        );
        section.table(self.coordination_table());
        let mut policies: Vec<String> = self
            .coordination
            .iter()
            .map(|row| row.policy.clone())
            .collect();
        policies.dedup();
        let mut names: Vec<&str> = Vec::new();
        for row in &self.coordination {
            if !names.contains(&row.coordination) {
                names.push(row.coordination);
            }
        }
        let bars = |name: &&str| {
            let value = |policy: &String| {
                let mut rows = self.coordination.iter();
                let row = rows.find(|row| row.policy == *policy && row.coordination == *name)?;
                Some(row.found.unprotected * 100.0)
            };
            Bars::new(name, policies.iter().map(value).collect())
        };
        let series = names.iter().map(bars).collect();
        let axis = Axis::linear("unprotected objects, %");
        section.plot(Plot::bars(
            "Unprotected objects by notifications",
            axis,
            policies,
            series,
        ));
    }
}

/// Formats a number of hours.
fn in_hours(hours: f64) -> String {
    let hours_shown = format!("{hours:.1}");
    match hours_shown.trim_end_matches(".0") {
        "1" => "an hour".into(),
        shown => format!("{shown} hours"),
    }
}

/// Sorts points by size, because sizes may be given in any order.
fn in_order(mut points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}
