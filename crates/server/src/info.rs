//! INFO: the server's report about itself, in sections.

pub mod report;
mod sections;
pub mod segment;

use crate::context::Table;
use crate::state::Server;
use report::Report;
use std::fmt::Write as _;
use store::Census;

/// One section of INFO: title, whether INFO without arguments includes it, and the function that
/// writes it.
struct Section {
    title: &'static str,
    is_default: bool,
    write: fn(&mut Report<'_>),
}

const SECTIONS: &[Section] = &[
    section("Server", true, sections::server),
    section("Clients", true, sections::clients),
    section("Memory", true, sections::memory),
    section("Persistence", true, sections::persistence),
    section("Stats", true, sections::stats),
    section("Replication", true, sections::replication),
    section("CPU", true, sections::cpu),
    section("Hotkeys", true, sections::hotkeys),
    section("Threads", true, sections::threads),
    section("Modules", true, |_| {}),
    section("Commandstats", false, sections::command_stats),
    section("Errorstats", true, sections::error_stats),
    section("Latencystats", false, sections::latency_stats),
    section("Cluster", true, sections::cluster),
    section("Keyspace", true, sections::keyspace),
    section("Keysizes", false, sections::key_sizes),
    section("Expiry", true, sections::expiry),
    section("Engine", true, segment::section),
    section("Learning", true, segment::learning),
];

const fn section(title: &'static str, is_default: bool, write: fn(&mut Report<'_>)) -> Section {
    Section {
        title,
        is_default,
        write,
    }
}

/// Returns the requested sections in a fixed order, or the default ones if none is requested. Takes
/// the keyspace's locks; the caller must not hold any.
pub fn report(server: &Server, table: &'static Table, wanted: &[&[u8]]) -> String {
    let mut report = Report::new(server, table, None);
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
        if !report.text.is_empty() {
            report.text.push_str("\r\n");
        }
        let _ = write!(report.text, "# {}\r\n", section.title);
        (section.write)(&mut report);
    }
    report.text
}

/// Returns the sections whose fields are exported as metrics, with the facts of a census. Waits for
/// no lock of a shard.
pub fn report_census(server: &Server, table: &'static Table, census: &Census) -> String {
    let mut report = Report::new(server, table, Some(census));
    // The other sections have a line for each command, error, database or size; metrics have labels
    // for them.
    let is_exported = |title: &str| {
        ![
            "Commandstats",
            "Errorstats",
            "Latencystats",
            "Keyspace",
            "Keysizes",
            "Threads",
        ]
        .contains(&title)
    };
    for section in SECTIONS.iter().filter(|section| is_exported(section.title)) {
        (section.write)(&mut report);
    }
    report.text
}
