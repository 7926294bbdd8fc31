//! A study's findings as a page: the tables and figures of chapter 5, and what lies beyond it.

use super::claims::{percent, saved};
use super::findings::{Findings, RunRow};
use super::found::{LATENCY_SHARES, RunResult, Window, ratio};
use super::scheme::Scheme;
use super::text::messages;
use crate::Unit;
use crate::analyze::findings::{bytes, count};
use crate::report::size_axis;
use report::{Axis, Bars, Cell, Line, Page, Plot, Section, Table};

/// Points of a line over time, at most: what is told by the hour hides itself in its noise.
const POINTS_MAX: usize = 80;

impl Findings {
    /// The page.
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
            self.claims_section(page.section("What is claimed, and what was found"));
        }
        self.miss_ratios(page.section("Miss ratios"));
        if !self.failures.is_empty() {
            self.failure_section(page.section("When servers fail"));
        }
        self.protection(page.section("Unprotected objects"));
        self.load(page.section("Load of servers"));
        self.latency(page.section("Latency"));
        if !self.outages.is_empty() {
            self.outage_section(page.section("Under the outages given"));
        }
        if !self.co_residency.is_empty() {
            self.together_section(page.section("Do chunks leave together?"));
            self.coordination_section(page.section("What telling each other gains"));
        }
        self.everything(page.section("All runs of the sweep"));
        page
    }

    /// The first number of servers.
    fn servers(&self) -> usize {
        self.sweep.first().map_or(0, |row| row.servers)
    }

    /// The sweep's rows of the first number of servers.
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

    /// A line by scheme over sizes.
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

    fn claims_section(&self, section: &mut Section) {
        let mut table = Table::new(&["holds", "found", "claim"]);
        for claim in &self.claims {
            table.row(vec![
                if claim.holds { "yes" } else { "no" }.into(),
                Cell::Shown(claim.found, claim.shown.clone()),
                claim.claim.as_str().into(),
            ]);
        }
        section.table(table.with_caption(&format!("At {}", self.base)));
    }

    fn miss_ratios(&self, section: &mut Section) {
        let copies = self
            .base_rows()
            .find(|row| row.found.scheme == Scheme::Replicas(2))
            .map(|row| &row.found);
        let header = [
            "scheme",
            "object miss ratio",
            "byte miss ratio, midgress",
            "bytes saved against replicas:2, %",
            "between servers, % of bytes",
            "and hedged, % of bytes",
        ];
        let mut table = Table::new(&header);
        for row in self.base_rows() {
            let found = &row.found;
            let saved = copies.and_then(|of| saved(found.byte_miss_ratio(), of.byte_miss_ratio()));
            table.row(vec![
                found.scheme.to_string().as_str().into(),
                share(found.miss_ratio()),
                share(found.byte_miss_ratio()),
                saved.map_or(Cell::Empty, in_percent),
                in_percent(found.between()),
                found.hedged().map_or(Cell::Empty, in_percent),
            ]);
        }
        section.text(
            "A miss is a request that needed the origin. Where some chunks were left, only those \
             missing were fetched, and the byte miss ratio counts what was fetched: of what clients ask for, \
             the part that crosses the wide area between cluster and origin, which is called midgress. What \
             servers send each other stays within the cluster. Hedged: parity that was asked for besides, in the \
             place of late chunks, as of the first stripe, so of each; reads of disks do not count it.",
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

    /// A line by scheme over numbers of servers, at the base size.
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
            "Servers go {} after the warm-up and stay away. How much more is missed than in the same \
             run without a failure, by the window of {} that follows; the mean of runs in which different \
             servers go.",
            in_hours(2.0 * hours),
            in_hours(hours)
        ));
        if let Some(reason) = self.failures_note() {
            section.text(&reason);
        }
        let first = |rise: Option<f64>| rise.map_or(Cell::Empty, in_percent);
        let mut table = Table::new(&[
            "scheme",
            "servers that go",
            "runs",
            "missed without, all runs",
            "first window, %",
            "least, %",
            "most, %",
            "of these for objects of who went",
            "more of these, %",
        ]);
        for (down, title) in [
            (1, "One server goes (figure 5.9a)"),
            (2, "Two servers go at once (figure 5.11)"),
        ] {
            let mut lines = Vec::new();
            for failure in self.failures.iter().filter(|failure| failure.down == down) {
                let points = failure.rises.iter().enumerate();
                let points =
                    points.filter_map(|(at, rise)| Some((at as f64 * hours, (*rise)? * 100.0)));
                lines.push(Line::new(&failure.scheme, points.collect()));
                table.row(vec![
                    failure.scheme.as_str().into(),
                    (down as f64).into(),
                    (failure.runs as f64).into(),
                    ((failure.first_missed * failure.runs as u64) as f64).into(),
                    first(failure.rises.first().copied().flatten()),
                    first(failure.first_range.map(|(least, _)| least)),
                    first(failure.first_range.map(|(_, most)| most)),
                    (failure.affected_misses as f64).into(),
                    first(failure.first_affected_rise),
                ]);
            }
            let (x, y) = (Axis::linear("hours since"), Axis::linear("more misses, %"));
            section.plot(Plot::lines(title, x, y, lines));
        }
        section.table(table);
    }

    fn protection(&self, section: &mut Section) {
        section.text(
            "Of the objects of which anything is held, the share that one more failure would take: \
             one copy is left, or no more than K chunks. The mean over time.",
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
        let header = [
            "scheme",
            "most, GiB",
            "least, GiB",
            "mean, GiB",
            "most / least",
            "read: most / least",
        ];
        let mut table = Table::new(&header);
        for row in self.base_rows() {
            let gib = |bytes: u64| bytes as f64 / (1u64 << 30) as f64;
            let written = &row.found.written_bytes;
            let quotient = |imbalance: Option<f64>| match imbalance {
                Some(more) => Cell::Shown(more, format!("{:.4}", more + 1.0)),
                None => Cell::Empty,
            };
            let mean = written.iter().sum::<u64>() / written.len().max(1) as u64;
            let ends = [written.iter().max(), written.iter().min()];
            let mut cells = vec![row.found.scheme.to_string().as_str().into()];
            for bytes in ends.into_iter().flatten().chain([&mean]) {
                cells.push(Cell::Shown(gib(*bytes), format!("{:.2}", gib(*bytes))));
            }
            cells.extend([
                quotient(row.found.write_imbalance()),
                quotient(row.found.read_imbalance()),
            ]);
            table.row(cells);
        }
        section.table(table.with_caption(&format!(
            "Table 5.3: bytes written by server, at {}; most / least by weight",
            self.base
        )));
        for (title, value) in [
            (
                "Write imbalance (figure 5.10b)",
                RunResult::write_imbalance as fn(&RunResult) -> Option<f64>,
            ),
            ("Read imbalance", RunResult::read_imbalance),
        ] {
            let axis = Axis::log("(most − least) / least, %");
            section.plot(self.over_sizes(title, axis, |found| Some(value(found)? * 100.0)));
        }
    }

    fn latency(&self, section: &mut Section) {
        section.text(
            "From a model of few constants without queues: what schemes differ by, not what a \
             cluster would measure. Shares of requests answered within a time; disks pause now and \
             then, and parity is asked for when 1.2 times the first chunk's time has passed, and that in which 95 \
             of 100 peers answer. The table tells of reads of chunks, by their first stripe: the share that asked for \
             parity, and the share that was decoded, since a data chunk was evicted or late.",
        );
        let mut table = Table::new(&["scheme", "asked for parity, %", "decoded, %"]);
        for row in self.base_rows() {
            if let (Some(hedged), Some(decoded)) =
                (row.found.hedged_reads(), row.found.decoded_reads())
            {
                let scheme = row.found.scheme.to_string();
                table.row(vec![
                    scheme.as_str().into(),
                    in_percent(hedged),
                    in_percent(decoded),
                ]);
            }
        }
        section.table(table);
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
            "Outages begin with the end of the warm-up, at hour 0; when the last of those given is \
             over, all servers are up. A point tells of {}.",
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
        let mut table = Table::new(&[
            "scheme",
            "object miss ratio",
            "byte miss ratio",
            "partial hits, %",
            "unserved",
            "maps",
            "parity buckets moved",
        ]);
        for row in &self.outages {
            let found = &row.found;
            table.row(vec![
                found.scheme.to_string().as_str().into(),
                share(found.miss_ratio()),
                share(found.byte_miss_ratio()),
                in_percent(ratio(found.total.partial_hits, found.total.requests)),
                (found.unserved as f64).into(),
                (found.maps as f64).into(),
                (found.moved as f64).into(),
            ]);
        }
        section.table(table);
    }

    fn together_section(&self, section: &mut Section) {
        section.text(
            "The chance that a chunk is held if another of its object is, against the size: theorem 1 \
             says that it goes to 1 where servers are written to evenly. Hits are told to all chunks, as \
             the theorem's requests are for all chunks at once; no memory before the disks.",
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
            "Hits: servers that were not read, which keep parity, are told of a hit that changed what a \
             policy keeps. Evictions: who gives up a chunk tells the others, and they do, too. Reads in turn: any K \
             chunks are read, not the data alone. By hash: whatever the policy, a hand goes round the objects in the order \
             of a hash, which chunks share, and spares those asked for since; with one hand, servers know how \
             far the others' are.",
        );
        let header = [
            "policy",
            "told",
            "object miss ratio",
            "byte miss ratio",
            "partial hits, %",
            "together",
            "unprotected, %",
            "messages a request",
        ];
        let mut table = Table::new(&header);
        for row in &self.coordination {
            let found = &row.found;
            table.row(vec![
                row.policy.as_str().into(),
                row.coordination.into(),
                share(found.miss_ratio()),
                share(found.byte_miss_ratio()),
                in_percent(ratio(found.total.partial_hits, found.total.requests)),
                found.co_residency.map_or(Cell::Empty, share),
                in_percent(found.unprotected),
                Cell::Shown(messages(found), format!("{:.3}", messages(found))),
            ]);
        }
        section.table(table.with_caption(&format!("At {}", self.base)));
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
            "Unprotected objects by what is told",
            axis,
            policies,
            series,
        ));
    }

    fn everything(&self, section: &mut Section) {
        let header = [
            "scheme",
            "servers",
            "size",
            "object miss ratio",
            "byte miss ratio",
            "partial hits, %",
            "byte miss ratio, whole",
            "data evicted, %",
            "mended, %",
            "from memory, %",
            "unprotected, %",
            "write imbalance, %",
            "read imbalance, %",
            "refused",
        ];
        let mut table = Table::new(&header);
        for row in &self.sweep {
            let found = &row.found;
            let of_requests = |part: u64| in_percent(ratio(part, found.total.requests));
            let uneven = |share: Option<f64>| share.map_or(Cell::Empty, in_percent);
            table.row(vec![
                found.scheme.to_string().as_str().into(),
                (row.servers as f64).into(),
                Cell::Shown(row.capacity as f64, row.size.clone()),
                share(found.miss_ratio()),
                share(found.byte_miss_ratio()),
                of_requests(found.total.partial_hits),
                share(found.byte_miss_ratio_whole()),
                of_requests(found.decoded_hits),
                in_percent(found.repaired()),
                of_requests(found.memory_hits),
                in_percent(found.unprotected),
                uneven(found.write_imbalance()),
                uneven(found.read_imbalance()),
                (found.refused as f64).into(),
            ]);
        }
        section.table(table);
    }
}

/// Some hours, in words.
fn in_hours(hours: f64) -> String {
    let hours_shown = format!("{hours:.1}");
    match hours_shown.trim_end_matches(".0") {
        "1" => "an hour".into(),
        shown => format!("{shown} hours"),
    }
}

/// Sizes may be given in any order; lines go from left to right.
fn in_order(mut points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

fn share(share: f64) -> Cell {
    Cell::Shown(share, format!("{share:.4}"))
}

fn in_percent(share: f64) -> Cell {
    Cell::Shown(share * 100.0, percent(share))
}
