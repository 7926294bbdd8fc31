//! The tables of commands, which dispatch, COMMAND, the docs and the tests read. Each family of
//! commands is a module with its own table.

mod access;
pub mod acl;
pub mod bitmap;
mod class;
pub mod client;
pub mod cluster;
pub mod config;
pub mod connection;
pub mod debug;
pub mod element_ttl;
pub mod fetching;
pub mod geo;
pub mod hash;
pub mod hotkeys;
pub mod hyperloglog;
mod inner;
pub mod introspection;
pub mod key;
pub mod latency;
pub mod list;
pub mod persistence;
pub mod pubsub;
pub mod replication;
pub mod scanning;
pub mod scripting;
pub mod server;
pub mod set;
pub mod sort;
pub mod sorted_set;
pub mod stream;
pub mod string;
mod subcommand;
mod syntax;
mod table;
pub mod tagging;
pub mod tracking;
pub mod transaction;
pub mod work;

use crate::context::{Spec, Table};
use std::sync::OnceLock;
use wire::Args;

/// Tables of all families.
const FAMILIES: &[&[Spec]] = &[
    string::TABLE,
    bitmap::TABLE,
    hyperloglog::TABLE,
    set::TABLE,
    sort::TABLE,
    list::TABLE,
    key::TABLE,
    class::TABLE,
    tagging::TABLE,
    fetching::TABLE,
    hash::TABLE,
    sorted_set::TABLE,
    geo::TABLE,
    stream::TABLE,
    connection::TABLE,
    transaction::TABLE,
    scripting::TABLE,
    client::TABLE,
    tracking::TABLE,
    config::TABLE,
    persistence::TABLE,
    pubsub::TABLE,
    introspection::TABLE,
    acl::TABLE,
    latency::TABLE,
    server::TABLE,
    cluster::TABLE,
    replication::TABLE,
    debug::TABLE,
    hotkeys::TABLE,
];

static TABLE: OnceLock<Table> = OnceLock::new();

/// Returns the table of all commands, in the order of their families.
#[inline]
pub fn table() -> &'static Table {
    TABLE.get_or_init(new_table)
}

/// Returns the database to which a command writes. COPY may name another one than the selected.
#[inline]
pub fn written_db(spec: &Spec, args: Args<'_>, selected: u8) -> u8 {
    match spec.name {
        "copy" => key::copied_to(args).unwrap_or(selected),
        _ => selected,
    }
}

/// Creates the table in which all commands have their own names.
pub fn new_table() -> Table {
    Table::new(FAMILIES)
}

/// Renames commands for the whole process. An empty new name removes the command.
///
/// # Errors
/// A command does not exist, a new name is taken, or the table is already in use.
pub fn rename(renames: &[(String, String)]) -> Result<(), String> {
    if renames.is_empty() {
        return Ok(());
    }
    let mut table = new_table();
    for (name, new) in renames {
        let renamed = table.rename(name, new);
        renamed.map_err(|error| format!("rename-command {name}: {error}"))?;
    }
    let set = TABLE.set(table);
    set.map_err(|_| "rename-command: another server of this process runs".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use session::spec::SpecIndex;

    #[test]
    fn every_command_is_found_in_any_case_and_occurs_once() {
        for (index, spec) in table().iter().enumerate() {
            assert_eq!(
                table().lookup(spec.name.as_bytes()),
                Some(index as SpecIndex)
            );
            let upper = spec.name.to_ascii_uppercase();
            assert_eq!(table().lookup(upper.as_bytes()), Some(index as SpecIndex));
            assert_eq!(spec.name, spec.name.to_ascii_lowercase());
            assert!(spec.arity != 0);
        }
        assert_eq!(table().lookup(b"nonsense"), None);
        assert_eq!(table().lookup(b""), None);
    }

    #[test]
    fn a_renamed_command_is_found_by_its_new_name_only() {
        let mut table = Table::new(FAMILIES);
        let config = table.lookup(b"config").expect("a command");
        table
            .rename("CONFIG", "Secret-Config")
            .expect("a free name");
        table.rename("flushall", "").expect("a command");
        assert_eq!(table.lookup(b"SECRET-config"), Some(config));
        assert_eq!(table.name(config), "config");
        assert!(table.subcommand(table[config as usize], b"get").is_some());
        for gone in [&b"config"[..], b"flushall", b""] {
            assert_eq!(table.lookup(gone), None);
        }
        assert!(table.rename("flushall", "other").is_err());
        assert!(table.rename("get", "set").is_err());
        assert!(table.lookup(b"get").is_some());
    }

    #[test]
    fn every_subcommand_is_found_in_any_case_in_its_container_only() {
        let all = table().subcommands();
        assert!(all.is_sorted_by(|a, b| a.name < b.name));
        for (at, subcommand) in all.iter().enumerate() {
            let (container, word) = subcommand.parts();
            let index = table().lookup(container.as_bytes()).expect("a container");
            let spec = table()[index as usize];
            assert!(spec.has(session::spec::flag::CONTAINER), "{container}");
            let upper = word.to_ascii_uppercase();
            let (index, found) = table()
                .subcommand(spec, upper.as_bytes())
                .expect("it is in the table");
            assert_eq!(
                (index as usize, found.name),
                (table().len() + at, subcommand.name)
            );
            assert_eq!(table().name(index), subcommand.name);
            assert_eq!(table().lookup(subcommand.name.as_bytes()), None);
        }
        for spec in table()
            .iter()
            .filter(|spec| spec.has(session::spec::flag::CONTAINER))
        {
            assert!(table().subcommand(spec, b"help").is_some(), "{}", spec.name);
            assert!(table().subcommand(spec, b"nonsense").is_none());
        }
    }
}
