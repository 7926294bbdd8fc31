//! State of a node for operators: an HTML page, and the same rows as text.

use crate::metrics::table::{CLUSTER_COUNTS, Value};
use crate::metrics::{ClusterFacts, EtcdFacts, Facts, Failure, Metrics, OriginFacts, Reply, Tier};
use crate::rules::status::Forward;
use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;

/// Interval in seconds at which a browser reloads the page.
const REFRESH_SECONDS: u32 = 5;

/// Rows under a common title.
struct Section {
    title: &'static str,
    rows: Vec<Row>,
}

struct Row {
    name: String,
    value: String,
    /// Fraction from 0 to 1, which the page draws as a bar.
    share: Option<f64>,
}

impl Section {
    fn new(title: &'static str) -> Self {
        Section {
            title,
            rows: vec![],
        }
    }

    fn row(&mut self, name: &str, value: impl ToString) -> &mut Self {
        self.rows.push(Row {
            name: name.into(),
            value: value.to_string(),
            share: None,
        });
        self
    }

    /// Adds a row with a count and its share of a sum.
    fn share(&mut self, name: &str, count: u64, sum: u64) -> &mut Self {
        let share = if sum == 0 {
            0.0
        } else {
            count as f64 / sum as f64
        };
        self.rows.push(Row {
            name: name.into(),
            value: format!("{count} ({:.1} %)", share * 100.0),
            share: Some(share),
        });
        self
    }

    /// Adds a row with the bytes used and the capacity.
    fn filled(&mut self, name: &str, bytes_used: u64, capacity: u64) -> &mut Self {
        self.rows.push(Row {
            name: name.into(),
            value: format!("{} of {}", bytes(bytes_used), bytes(capacity)),
            share: Some((bytes_used as f64 / capacity.max(1) as f64).min(1.0)),
        });
        self
    }
}

/// Returns the state as text.
pub fn text(facts: &Facts<'_>) -> String {
    let mut text = String::new();
    for section in sections(facts) {
        let _ = writeln!(text, "{}", section.title);
        let width = section
            .rows
            .iter()
            .map(|row| row.name.chars().count())
            .max();
        let width = width.unwrap_or(0);
        for row in &section.rows {
            let _ = writeln!(text, "  {:width$}  {}", row.name, row.value);
        }
    }
    text
}

/// Returns the state as a page.
pub fn html(facts: &Facts<'_>) -> String {
    let name = escaped(&facts.config.name);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"refresh\" content=\"{REFRESH_SECONDS}\">\n\
         <title>{name}: HTTP cache</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <h1>HTTP cache <span>{name}</span></h1>\n<main>\n"
    );
    for section in sections(facts) {
        let _ = writeln!(page, "<section>\n<h2>{}</h2>\n<table>", section.title);
        for row in &section.rows {
            let (name, value) = (escaped(&row.name), escaped(&row.value));
            // A number stays on one line, above its bar if it has one. Addresses have colons.
            let is_number = row
                .value
                .starts_with(|letter: char| letter.is_ascii_digit());
            let is_number = is_number && !row.value.contains(':');
            let class = if is_number { " class=\"n\"" } else { "" };
            let bar = row.share.map_or(String::new(), |share| {
                let percent = (share * 100.0).clamp(0.0, 100.0);
                format!("<meter min=\"0\" max=\"100\" value=\"{percent:.1}\"></meter>")
            });
            let _ = writeln!(
                page,
                "<tr><th scope=\"row\">{name}</th><td{class}>{value}{bar}</td></tr>"
            );
        }
        page.push_str("</table>\n</section>\n");
    }
    page.push_str(
        "</main>\n<p><a href=\"/metrics\">Metrics</a> <a href=\"/status\">Text</a> \
         <a href=\"/health\">Health</a></p>\n</body>\n</html>\n",
    );
    page
}

const STYLE: &str = "
:root{--ground:#f6f6f4;--card:#fff;--ink:#1b1c1e;--soft:#5d6166;--line:#dddfe1;--mark:#1f6f8b}
@media(prefers-color-scheme:dark){:root{--ground:#15171a;--card:#1e2125;--ink:#e8e9ea;--soft:#a3a8ad;--line:#33383d;--mark:#63b7d3}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1.2rem;max-width:76rem;background:var(--ground);color:var(--ink);font:15px/1.45 system-ui,sans-serif}
h1{font-size:1.3rem;margin:0 0 1rem}h1 span{color:var(--soft);font-weight:400;overflow-wrap:anywhere}
h2{font-size:.95rem;margin:0 0 .5rem}
main{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(22rem,100%),1fr));gap:1rem}
section{background:var(--card);border:1px solid var(--line);border-radius:6px;padding:.9rem 1rem;min-width:0;overflow-x:auto}
table{border-collapse:collapse;width:100%}
th{font-weight:400;text-align:left;color:var(--soft);padding:.2rem .8rem .2rem 0;vertical-align:top;overflow-wrap:anywhere}
td{text-align:right;font-variant-numeric:tabular-nums;padding:.2rem 0;overflow-wrap:break-word}
td.n{white-space:nowrap}
meter{display:block;width:100%;height:.5rem;margin-top:.15rem;background:var(--line);border:0;border-radius:3px}
meter::-webkit-meter-bar{background:var(--line);border:0;border-radius:3px;height:.35rem}
meter::-webkit-meter-optimum-value{background:var(--mark);border-radius:3px}
meter::-moz-meter-bar{background:var(--mark)}
a{color:var(--mark);margin-right:1rem}
";

fn sections(facts: &Facts<'_>) -> Vec<Section> {
    let mut sections = vec![replies(facts.metrics), misses(facts.metrics), memory(facts)];
    sections.push(disk(facts));
    if let Some(cluster_facts) = &facts.cluster {
        let mut section = cluster(cluster_facts);
        for metric in CLUSTER_COUNTS {
            if let Value::Number(count) = (metric.value)(facts) {
                section.row(metric.help, count);
            }
        }
        sections.push(section);
    }
    sections.push(origins(facts));
    sections.push(traffic(facts.metrics));
    sections
}

fn replies(metrics: &Metrics) -> Section {
    let sum: u64 = Reply::ALL.iter().map(|&reply| metrics.replies(reply)).sum();
    let mut section = Section::new("Replies");
    section.row("all", sum);
    let hits = [Reply::Hit, Reply::Stale, Reply::StaleOnError].map(|reply| metrics.replies(reply));
    section.share("hit ratio", hits.iter().sum(), sum);
    for tier in Tier::ALL {
        let name = format!("without the origin, from {}", tier.name());
        section.share(&name, metrics.hits(tier), sum);
    }
    for reply in Reply::ALL {
        section.share(reply.name(), metrics.replies(reply), sum);
    }
    section
}

fn misses(metrics: &Metrics) -> Section {
    let counts = Forward::ALL.map(|forward| metrics.forwards(forward));
    let sum = counts.iter().sum();
    let mut section = Section::new("Forwarded requests by cause");
    section.row("all", sum);
    for (forward, count) in Forward::ALL.iter().zip(counts) {
        section.share(forward.name(), count, sum);
    }
    let collapsed = metrics.collapsed.load(Relaxed);
    section.row("shared another one's fetch", collapsed);
    section
}

fn memory(facts: &Facts<'_>) -> Section {
    let store = &facts.memory;
    let mut section = Section::new("Memory");
    section
        .filled("responses", store.weight, facts.config.memory_bytes)
        .row("fetches and replies", bytes(facts.outside_bytes))
        .row("URLs", store.len)
        .row("index", bytes(store.bytes))
        .row("expired URLs", store.expired)
        .row("evicted URLs", store.evicted);
    section
}

fn disk(facts: &Facts<'_>) -> Section {
    let mut section = Section::new("Disk");
    let (Some(disk), Some(settings)) = (&facts.disk, &facts.config.disk) else {
        section.row("state", "not configured");
        return section;
    };
    let state = if disk.is_off {
        "off after a failure"
    } else {
        "serves"
    };
    section
        .row("state", state)
        .filled("files", disk.bytes, settings.bytes)
        .row("that can be read", bytes(disk.live_bytes))
        .row("URLs", disk.urls)
        .row("index in memory", bytes(disk.index_bytes))
        .row("written", bytes(disk.written_bytes))
        .row("moved from deleted segments", bytes(disk.reinserted_bytes))
        .row(
            "URLs not written, too many waiting or files open",
            disk.dropped,
        )
        .row("damaged records", disk.corrupt)
        .row("found by verification", disk.scrub_corrupt)
        .row("verified in the background", bytes(disk.scrubbed_bytes))
        .row("verifications of the whole disk", disk.scrub_passes)
        .row("failures", disk.errors);
    section
}

fn cluster(facts: &ClusterFacts<'_>) -> Section {
    let mut section = Section::new("Cluster");
    let (data, parity) = facts.code;
    section
        .row("nodes", facts.nodes)
        .row("nodes that do not answer", facts.nodes_down)
        .row("purges kept for them", facts.purges_missed)
        .row("members from", &facts.membership.source)
        .row(
            "version of the map",
            match facts.membership.map_version {
                0 => "no map".into(),
                version => version.to_string(),
            },
        )
        .row(
            "chunks of an object",
            format!("{data} data, {parity} parity"),
        )
        .row("copies of small responses", bytes(facts.copy_bytes));
    if let Some(etcd) = &facts.membership.etcd {
        etcd_rows(&mut section, etcd);
    }
    for (id, state) in &facts.membership.nodes {
        section.row(&id.to_string(), state);
    }
    section
}

fn etcd_rows(section: &mut Section, etcd: &EtcdFacts) {
    let state = match (&etcd.failure, etcd.is_connected) {
        (_, true) => "connected".into(),
        (None, false) => "not connected yet".into(),
        (Some(failure), false) => format!("not connected: {failure}"),
    };
    let contact = match etcd.contact {
        None => "none".into(),
        Some(time) => format!("{} s ago", time.as_secs()),
    };
    let coordinator = etcd.coordinator.map_or("none".into(), |id| id.to_string());
    section
        .row("etcd", state)
        .row("last answer of etcd", contact)
        .row("nodes registered in etcd", etcd.registered)
        .row("node that makes the next map", coordinator)
        .row("maps that this node has stored", etcd.stored)
        .row("because writes had drifted", etcd.rebalanced)
        .row("values of etcd that were refused", etcd.refused);
}

fn origins(facts: &Facts<'_>) -> Section {
    let metrics = facts.metrics;
    let mut section = Section::new("Origins");
    for origin in &facts.origins {
        let OriginFacts { hosts, url, .. } = origin;
        let unhealthy = if origin.is_unhealthy {
            ", unhealthy"
        } else {
            ""
        };
        let down = origin
            .down
            .map(|down| format!(", down for {} s", down.as_secs()));
        let down = down.unwrap_or_default();
        let (sent, open) = origin.load;
        let load = format!("{sent} requests, {open} open");
        section.row(hosts, format!("{url}{unhealthy}{down}, {load}"));
    }
    section
        .row("requests", metrics.origin_requests.load(Relaxed))
        .row("stored content", bytes(metrics.origin_bytes.load(Relaxed)));
    for failure in Failure::ALL {
        let name = format!("failures: {}", failure.name());
        section.row(&name, metrics.failures(failure));
    }
    section
}

fn traffic(metrics: &Metrics) -> Section {
    let mut section = Section::new("Clients and purges");
    section
        .row("open connections", metrics.connections_open.load(Relaxed))
        .row(
            "accepted connections",
            metrics.connections_accepted.load(Relaxed),
        )
        .row("content sent", bytes(metrics.client_bytes.load(Relaxed)))
        .row(
            "replies that ended early",
            metrics.replies_cut.load(Relaxed),
        )
        .row("purged URLs", metrics.purged.load(Relaxed));
    section
}

/// Formats a number of bytes with at least three digits.
fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1_024.0 && unit + 1 < UNITS.len() {
        value /= 1_024.0;
        unit += 1;
    }
    if unit == 0 || value >= 100.0 {
        format!("{value:.0} {}", UNITS[unit])
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use library::Stats;
    use std::time::Duration;

    #[test]
    fn page_and_text_have_the_same_rows() {
        let config = Config {
            origins: vec!["a&b=http://origin".parse().expect("the input is valid")],
            ..Config::default()
        };
        let metrics = Metrics::default();
        metrics.hit(Tier::Disk);
        metrics.reply(Reply::Hit, Duration::ZERO);
        metrics.reply(Reply::Miss, Duration::ZERO);
        metrics.forward(Forward::Stale);
        let facts = Facts {
            config: &config,
            metrics: &metrics,
            memory: Stats::default(),
            tagged: 0,
            outside_bytes: 0,
            disk: None,
            cluster: None,
            origins: [None, Some(Duration::from_secs(7))]
                .map(|down| OriginFacts {
                    hosts: "a&b".into(),
                    url: config.origins[0].servers[0].clone(),
                    load: (12, 3),
                    is_unhealthy: false,
                    down,
                })
                .into(),
        };
        let (text, page) = (text(&facts), html(&facts));
        for row in [
            "from disk    1 (50.0 %)",
            "hit ratio                        1 (50.0 %)",
            "a&b ",
            "http://origin/",
            "http://origin/, down for 7 s, 12 requests, 3 open",
            "not configured",
        ] {
            assert!(text.contains(row), "{row}: {text}");
        }
        let rows = [
            "a&amp;b",
            "http://origin/",
            // Regression: numbers were broken across lines.
            "<td class=\"n\">1 (50.0 %)<meter",
            "<td class=\"n\">0 B of",
        ];
        for row in rows {
            assert!(page.contains(row), "{row}: {page}");
        }
        assert!(!page.contains("a&b"));
    }

    #[test]
    fn bytes_have_units() {
        let cases = [
            (0, "0 B"),
            (1_023, "1023 B"),
            (1_536, "1.5 KiB"),
            (300 << 20, "300 MiB"),
        ];
        for (count, expected) in cases {
            assert_eq!(bytes(count), expected);
        }
        assert_eq!(bytes(u64::MAX), "16777216 TiB");
    }
}
