//! Runs each table of commands and replies without sockets under a manual clock, in both protocol
//! versions, with one data thread and with several, and with commands that run as long ones.

use crate::script::{Bench, START, Step, parse, sorted};
use ::cluster::Name;
use wire::Protocol;

/// Runs a table on servers with these settings.
fn run(name: &str, text: &str, settings: &[(&str, &str)]) -> usize {
    let rows = parse(text, START);
    let mut failures = Vec::new();
    for (protocol, threads, is_long) in [
        (Protocol::Resp2, 1, false),
        (Protocol::Resp3, 1, false),
        (Protocol::Resp2, 3, false),
        (Protocol::Resp2, 1, true),
        (Protocol::Resp3, 3, true),
    ] {
        let column = usize::from(protocol == Protocol::Resp3);
        let mut bench = Bench::new(protocol, START, threads);
        for (setting, value) in settings {
            let param = settings::find(setting).expect("a setting");
            bench
                .server
                .config
                .set(param, value)
                .expect("a valid value");
        }
        let id = Name::parse("a".repeat(40).as_bytes()).expect("40 digits");
        let _ = bench.server.cluster.node_id.set(id);
        if is_long {
            bench = bench.with_long_commands();
        }
        for row in &rows {
            let (got, wanted) = match &row.step {
                Step::Advance(ms) => {
                    bench.now.0 += ms;
                    continue;
                }
                Step::Events(wanted) => {
                    let events = bench.events(wanted[column].contains("o.overwritten"));
                    if wanted[column] == "*" {
                        continue;
                    }
                    (events, wanted[column].clone())
                }
                Step::Command {
                    args,
                    replies,
                    is_unordered,
                } => {
                    let got = bench.run(args);
                    let wanted = replies[column].clone();
                    if *is_unordered {
                        (sorted(&got), sorted(&wanted))
                    } else {
                        (got, wanted)
                    }
                }
            };
            let text = match &row.step {
                Step::Command { args, .. } => String::from_utf8_lossy(&args.join(&b' ')).into(),
                _ => String::new(),
            };
            if got != wanted && crate::renamed::is_compared(name, &text, &wanted) {
                failures.push(format!(
                    "{name}:{} ({protocol:?}, {threads} threads, long: {is_long})\n  wanted {wanted}\n  got    {got}",
                    row.line
                ));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    rows.iter()
        .filter(|row| !matches!(row.step, Step::Advance(_)))
        .count()
}

macro_rules! scripts {
    ($settings:expr; $($test:ident: $file:literal),* $(,)?) => {
        $(
            #[test]
            fn $test() {
                run($file, include_str!(concat!("tables/", $file)), $settings);
            }
        )*
    };
}

scripts! {
    &[("cluster-enabled", "emulated")];
    a_cluster_of_one_node_answers: "cluster.txt",
}

scripts! {
    &[];
    users_have_rights: "acl.txt",
    strings_are_set: "set.txt",
    strings_are_read: "get.txt",
    conditions_are_compared: "condition.txt",
    several_strings_at_once: "multi.txt",
    numbers_are_counted: "number.txt",
    strings_are_edited: "edit.txt",
    subsequences_are_found: "lcs.txt",
    keys_are_handled: "generic.txt",
    keys_are_protected_from_eviction: "bless.txt",
    keys_have_tags: "tags.txt",
    values_become_stale: "fetch.txt",
    deadlines_are_kept: "expire.txt",
    keys_are_listed: "scan.txt",
    databases_as_a_whole: "whole.txt",
    scripts_are_run: "scripting.txt",
    values_are_looked_into: "object.txt",
    values_are_dumped: "dump.txt",
    counters_have_bounds: "increx.txt",
    bits_are_counted_and_combined: "bitmap.txt",
    distinct_elements_are_counted: "hyperloglog.txt",
    sorted_sets_are_ordered: "sorted_set.txt",
    members_of_sorted_sets_expire: "sorted_set_deadlines.txt",
    geographic_indexes_hold_positions: "geo.txt",
    hashes_hold_fields: "hash.txt",
    fields_are_counted_and_listed: "hash_more.txt",
    fields_have_deadlines: "hash_deadlines.txt",
    sets_hold_members: "set_members.txt",
    members_have_deadlines: "set_deadlines.txt",
    elements_are_sorted: "sort.txt",
    lists_hold_elements: "list.txt",
    streams_hold_entries: "stream.txt",
    full_memory_refuses_writes: "memory_full.txt",
    test_suites_look_inside: "debug.txt",
    hashes_are_imported: "import.txt",
    expensive_keys_are_found: "hotkeys.txt",
    keys_belong_to_classes: "classes.txt",
}
