//! An analysis as headings with names and values, for the terminal and the page.

use super::{Analysis, Operations, OverTime, Popularity, Quantiles, Sizes, Ttls};
use std::fmt::Write;
use units::show::{bytes, count, percent, span};

/// Maximum number of spikes that are listed.
const SPIKES_LISTED: usize = 5;
/// Maximum number of TTLs that are listed.
const TTLS_LISTED: usize = 5;

/// A result with its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Name of the result.
    pub name: String,
    /// Value with its unit.
    pub value: String,
}

/// Results under one heading.
#[derive(Clone, Debug, PartialEq)]
pub struct Findings {
    /// Heading under which the results are shown.
    pub heading: &'static str,
    /// Results in reading order.
    pub list: Vec<Finding>,
}

impl Findings {
    fn new(heading: &'static str) -> Self {
        Findings {
            heading,
            list: Vec::new(),
        }
    }

    fn add(&mut self, name: &str, value: impl Into<String>) -> &mut Self {
        self.list.push(Finding {
            name: name.into(),
            value: value.into(),
        });
        self
    }
}

/// Formats a rate, with decimals if it is small.
fn rate(number: f64) -> String {
    match number {
        n if n < 10.0 => format!("{n:.2}"),
        n => count(n),
    }
}

fn quantiles(q: &Quantiles, show: fn(f64) -> String) -> String {
    let [p10, p50, p90, p99, max] = [q.p10, q.p50, q.p90, q.p99, q.max].map(|v| show(v as f64));
    format!(
        "mean {}, median {p50}, p10 {p10}, p90 {p90}, p99 {p99}, max {max}",
        show(q.mean)
    )
}

impl Analysis {
    /// All results with their names.
    pub fn findings(&self) -> Vec<Findings> {
        let mut all = vec![self.whole()];
        all.extend(self.operations.as_ref().map(operations));
        all.push(over_time(&self.over_time, self.span_ms.is_some()));
        all.extend(self.ttls.as_ref().map(|ttls| self.ttl_findings(ttls)));
        all.push(popularity(&self.popularity));
        all.extend(self.sizes.as_ref().map(sizes));
        all.extend(self.relation_findings());
        all.push(self.reuse_findings());
        all.push(self.one_hit_findings());
        all
    }

    /// Results as lines for a terminal.
    pub fn to_text(&self) -> String {
        let findings = self.findings();
        let names = findings
            .iter()
            .flat_map(|f| &f.list)
            .map(|f| f.name.chars().count());
        let width = names.max().unwrap_or(0);
        let mut text = String::new();
        for part in &findings {
            let _ = writeln!(text, "{}", part.heading);
            for finding in &part.list {
                let _ = writeln!(text, "  {:width$}  {}", finding.name, finding.value);
            }
        }
        text
    }

    fn whole(&self) -> Findings {
        let mut part = Findings::new("The trace");
        part.add("requests", count(self.requests as f64));
        let about = match self.sampling.one_in {
            1 => String::new(),
            _ => format!(" ± {}", percent(2.0 * self.sampling.error)),
        };
        part.add("objects", format!("{}{about}", count(self.objects)));
        if self.sizes.is_some() {
            part.add(
                "bytes of all objects",
                format!("{}{about}", bytes(self.footprint_bytes)),
            );
        }
        if let Some(ms) = self.span_ms {
            part.add("duration", span(ms as f64));
        }
        if self.sampling.one_in > 1 {
            let (one_in, followed) = (self.sampling.one_in, count(self.sampling.followed as f64));
            part.add(
                "sampled",
                format!("results per object are of one key in {one_in} ({followed} keys)"),
            );
        }
        let faults = self.time_faults;
        if faults.backwards > 0 {
            let backwards = count(faults.backwards as f64);
            part.add(
                "timestamps going back",
                format!("{backwards} requests; counted as simultaneous with the one before"),
            );
        }
        if faults.jumps > 0 {
            let skipped = span(faults.skipped_ms as f64);
            part.add(
                "jumps in time",
                format!("{}, with {skipped} left out of the windows", faults.jumps),
            );
        }
        for missing in &self.missing {
            part.add("not in the trace", missing.as_str());
        }
        part
    }

    fn ttl_findings(&self, ttls: &Ttls) -> Findings {
        let mut part = Findings::new("TTLs");
        let q = &ttls.ttl_ms;
        part.add("writes with a TTL", percent(ttls.with_ttl))
            .add("TTL", quantiles(q, span))
            .add("smallest", span(q.min as f64))
            .add("distinct TTLs", count(ttls.distinct as f64))
            .add("largest over smallest", format!("{:.1}", ttls.range));
        let common = ttls.common.iter().take(TTLS_LISTED);
        let common: Vec<String> = common
            .map(|t| format!("{} ({})", span(t.ttl_ms as f64), percent(t.share)))
            .collect();
        part.add("most frequent", common.join(", "));
        if let Some(last) = self.over_time.windows.last() {
            let state = last.state;
            part.add(
                "working set at the end",
                format!(
                    "{} unexpired objects of {} requested so far ({})",
                    count(state.live_objects),
                    count(state.total_objects),
                    percent(state.live_objects / state.total_objects.max(1.0)),
                ),
            );
        }
        part.add("lifetimes ended by expiry", percent(ttls.expired_share))
            .add("of these, without a read", percent(ttls.unread_share))
            .add(
                "lifetimes overwritten without a read",
                percent(ttls.overwritten_unread_share),
            )
            .add(
                "memory × time after the last read",
                percent(ttls.idle_share),
            );
        let jitter = match ttls.jitter_would_help {
            true => "a burst; jitter would help",
            false => "no burst",
        };
        part.add(
            "deadlines in one second",
            format!(
                "at most {}, {:.1} on average: {jitter}",
                count(ttls.herd_peak as f64),
                ttls.herd_mean
            ),
        );
        part
    }

    fn relation_findings(&self) -> Option<Findings> {
        let mut part = Findings::new("Relations (Pearson of logarithms, Spearman)");
        let relations = [
            ("size and popularity", self.relations.size_popularity),
            ("size and TTL", self.relations.size_ttl),
            ("popularity and TTL", self.relations.popularity_ttl),
        ];
        for (name, correlation) in relations {
            if let Some(c) = correlation {
                part.add(name, format!("{:+.2}, {:+.2}", c.pearson, c.spearman));
            }
        }
        (!part.list.is_empty()).then_some(part)
    }

    fn reuse_findings(&self) -> Findings {
        let mut part = Findings::new("Reuse");
        match &self.reuse.gap_requests {
            Some(gaps) => part.add("requests between reuses", quantiles(gaps, count)),
            None => part.add("requests between reuses", "no object is requested twice"),
        };
        if let Some(ages) = &self.reuse.age_ms {
            part.add("time since the last request", quantiles(ages, span));
        }
        if let Some(ages) = &self.reuse.access_age_ms {
            part.add("time since the first request", quantiles(ages, span));
        }
        let patterns = &self.patterns;
        part.add("consecutive keys", percent(patterns.sequential_share));
        if let Some(share) = patterns.first_run_share {
            part.add("requests in runs of new objects", percent(share));
        }
        part.add(
            "same successor as last time",
            percent(patterns.successor_share),
        );
        part.add("patterns", patterns.verdict.as_str());
        part
    }

    fn one_hit_findings(&self) -> Findings {
        let mut part = Findings::new("One-hit wonders");
        let one_hit = &self.one_hit_wonders;
        part.add("of the whole trace", percent(one_hit.whole));
        let pieces = [
            ("of parts with 50 % of the objects", one_hit.half),
            ("of parts with 10 %", one_hit.tenth),
            ("of parts with 1 %", one_hit.hundredth),
        ];
        for (name, ratio) in pieces {
            part.add(
                name,
                ratio.map_or_else(|| "too few objects".into(), percent),
            );
        }
        part
    }
}

fn operations(operations: &Operations) -> Findings {
    let mut part = Findings::new("Operations");
    for share in &operations.shares {
        part.add(
            share.op,
            format!(
                "{} ({})",
                count(share.requests as f64),
                percent(share.share)
            ),
        );
    }
    let heavy = match operations.is_write_heavy {
        true => "write-heavy: above 30 %",
        false => "not write-heavy",
    };
    part.add(
        "writes",
        format!("{} ({heavy})", percent(operations.write_ratio)),
    );
    part
}

fn over_time(over_time: &OverTime, has_time: bool) -> Findings {
    let mut part = Findings::new("Over time");
    let windows = &over_time.windows;
    // The last window is incomplete.
    let complete = match windows.as_slice() {
        [all @ .., _] if !all.is_empty() => all,
        all => all,
    };
    let length = match has_time {
        true => span(over_time.width as f64),
        false => format!("{} requests", count(over_time.width as f64)),
    };
    part.add("windows", format!("{} of {length}", windows.len()));
    let range = |value: fn(&super::WindowRow) -> f64| {
        let values = complete.iter().map(value);
        let (low, high) = values.fold((f64::MAX, 0f64), |(l, h), v| (l.min(v), h.max(v)));
        (low, high)
    };
    if has_time {
        let seconds = over_time.width as f64 / 1000.0;
        let (low, high) = range(|w| w.requests as f64);
        let (low, high) = (rate(low / seconds), rate(high / seconds));
        part.add("requests a second", format!("{low} to {high}"));
    }
    let (low, high) = range(|w| w.objects);
    part.add(
        "objects in a window",
        format!("{} to {}", count(low), count(high)),
    );
    let hot = over_time.spikes.iter().filter(|s| s.is_of_hot_keys).count();
    let spread = over_time.spikes.len() - hot;
    part.add(
        "spikes",
        format!("{hot} due to hot keys, {spread} due to more objects"),
    );
    for spike in over_time.spikes.iter().take(SPIKES_LISTED) {
        let at = match has_time {
            true => span(spike.start as f64),
            false => count(spike.start as f64),
        };
        part.add(
            "spike",
            format!(
                "at {at}: {:.1} times the requests, {:.1} times the objects",
                spike.requests_ratio, spike.objects_ratio
            ),
        );
    }
    part
}

fn popularity(popularity: &Popularity) -> Findings {
    let mut part = Findings::new("Popularity");
    part.add(
        "requests an object",
        format!("{:.2}", popularity.mean_requests),
    );
    match popularity.fit {
        Some(fit) => {
            part.add(
                "Zipf α",
                format!("{:.2} (R² {:.3})", fit.alpha, fit.r_squared),
            );
            part.add("deviation", popularity.deviation.as_str());
        }
        None => {
            part.add("Zipf α", "too few objects");
        }
    }
    let names = ["top 0.1 % of objects", "top 1 %", "top 10 %", "top 20 %"];
    for (name, share) in names.iter().zip(popularity.top_shares) {
        part.add(name, format!("{} of the requests", percent(share)));
    }
    part
}

fn sizes(sizes: &Sizes) -> Findings {
    let mut part = Findings::new("Sizes");
    let all = [
        ("by request", &sizes.by_request),
        ("by object", &sizes.by_object),
        ("keys", &sizes.keys),
        ("values", &sizes.values),
    ];
    for (name, quantiles_of) in all {
        if let Some(q) = quantiles_of {
            part.add(name, quantiles(q, bytes));
        }
    }
    if let Some(ratio) = sizes.value_to_key {
        part.add("value over key", format!("{ratio:.2}"));
    }
    part.add("objects that change size", percent(sizes.changing_share));
    part
}
