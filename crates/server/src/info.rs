//! INFO: the server's report about itself, in sections. A field is one row, which also says how the
//! page of metrics exports it.

pub mod classes;
mod cluster;
mod keys;
mod report;
pub mod row;
mod sections;
mod segment;

use crate::context::Table;
use crate::state::Server;
use report::Report;
use row::{Export, Row, Value};
use std::fmt::Write as _;
use store::Census;

/// One section of INFO.
struct Section {
    title: &'static str,
    /// Whether INFO without arguments includes the section.
    is_default: bool,
    rows: &'static [Row],
}

const SECTIONS: &[Section] = &[
    section("Server", true, sections::SERVER),
    section("Clients", true, sections::CLIENTS),
    section("Memory", true, sections::MEMORY),
    section("Persistence", true, sections::PERSISTENCE),
    section("Stats", true, sections::STATS),
    section("Replication", true, sections::REPLICATION),
    section("CPU", true, sections::CPU),
    section("Hotkeys", true, sections::HOTKEYS),
    section("Threads", true, sections::THREADS),
    section("Modules", true, &[]),
    section("Commandstats", false, sections::COMMAND_STATS),
    section("Errorstats", true, sections::ERROR_STATS),
    section("Latencystats", false, sections::LATENCY_STATS),
    section("Cluster", true, cluster::CLUSTER),
    section("Keyspace", true, keys::KEYSPACE),
    section("Keysizes", false, keys::KEY_SIZES),
    section("Classes", true, classes::CLASSES),
    section("Expiry", true, keys::EXPIRY),
    section("Engine", true, segment::ENGINE),
    section("Learning", true, segment::LEARNING),
];

const fn section(title: &'static str, is_default: bool, rows: &'static [Row]) -> Section {
    Section {
        title,
        is_default,
        rows,
    }
}

/// Returns the requested sections in a fixed order, or the default ones if none is requested. Takes
/// the keyspace's locks; the caller must not hold any.
pub fn report(server: &Server, table: &'static Table, wanted: &[&[u8]]) -> String {
    let report = Report::new(server, table, None);
    let mut text = String::new();
    let names = |name: &str| {
        wanted
            .iter()
            .any(|word| word.eq_ignore_ascii_case(name.as_bytes()))
    };
    let has_all = names("all") || names("everything");
    let has_default = wanted.is_empty() || names("default");
    for section in SECTIONS {
        let is_wanted = has_all || (has_default && section.is_default) || names(section.title);
        if !is_wanted {
            continue;
        }
        if !text.is_empty() {
            text.push_str("\r\n");
        }
        let _ = write!(text, "# {}\r\n", section.title);
        for row in section.rows {
            for (suffix, value) in (row.value)(&report).lines() {
                line(&mut text, row.name, &suffix, &value);
            }
        }
    }
    text
}

/// Writes a line. Line breaks in the value, such as in a primary's name, become blanks, so that
/// they do not begin another field.
fn line(text: &mut String, name: &str, suffix: &str, value: &str) {
    let value = value.replace(['\r', '\n'], " ");
    let _ = write!(text, "{name}{suffix}:{value}\r\n");
}

/// Returns all rows in INFO's order.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    SECTIONS.iter().flat_map(|section| section.rows)
}

/// Returns the values of the fields that the page of metrics has, with the facts of a census. Waits
/// for no lock of a shard.
pub fn exported(
    server: &Server,
    table: &'static Table,
    census: &Census,
) -> Vec<(&'static Export, Value)> {
    let report = Report::new(server, table, Some(census));
    rows()
        .filter(|row| !matches!(row.export, Export::No(_)))
        .map(|row| (&row.export, (row.value)(&report)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command;
    use row::Reason;
    use session::clock::Clock;
    use settings::{Config, find};

    #[test]
    fn a_field_that_is_left_out_of_the_metrics_as_a_text_has_no_number() {
        for engine in ["slab", "segment"] {
            let config = Config::default();
            for (name, value) in [("engine", engine), ("maxmemory", "64mb")] {
                let param = find(name).expect("a setting");
                config.set(param, value).expect("a value");
            }
            let server = Server::new(config, Clock::manual(1)).expect("valid settings");
            let report = Report::new(&server, command::table(), None);
            for row in rows() {
                if matches!(row.export, Export::No(Reason::Text)) {
                    let number = (row.value)(&report).number(1.0);
                    assert_eq!(number, None, "{} on {engine}", row.name);
                }
            }
        }
    }

    #[test]
    fn a_value_with_line_breaks_is_one_field() {
        // Regression: REPLICAOF and REPLCONF could add fields to INFO by line breaks in a host.
        let mut text = String::new();
        line(&mut text, "master_host", "", "a\r\nrole:master\nb");
        line(&mut text, "slave", "0", "1");
        assert_eq!(text, "master_host:a  role:master b\r\nslave0:1\r\n");
    }
}
