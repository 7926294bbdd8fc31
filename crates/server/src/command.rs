//! The tables of commands. Dispatch, COMMAND, the docs and the tests read them. Each family of
//! commands is a module with a table of its own.

mod access;
pub mod acl;
pub mod bitmap;
pub mod client;
pub mod config;
pub mod connection;
mod containers;
pub mod debug;
pub mod element_ttl;
pub mod geo;
pub mod hash;
pub mod hotkeys;
pub mod hyperloglog;
mod inner;
pub mod introspection;
pub mod key;
pub mod latency;
pub mod lifetime;
pub mod list;
pub mod permission;
pub mod pubsub;
pub mod refusal;
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
pub mod tracking;
pub mod transaction;
pub mod work;

use crate::context::{Spec, Table};
use std::sync::LazyLock;

/// Tables of all families.
const FAMILIES: &[&[Spec]] = &[
    string::TABLE,
    bitmap::TABLE,
    hyperloglog::TABLE,
    set::TABLE,
    sort::TABLE,
    list::TABLE,
    key::TABLE,
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
    pubsub::TABLE,
    introspection::TABLE,
    acl::TABLE,
    latency::TABLE,
    server::TABLE,
    debug::TABLE,
    hotkeys::TABLE,
];

static TABLE: LazyLock<Table> = LazyLock::new(|| Table::new(FAMILIES, containers::SUBCOMMANDS));

/// Returns the table of all commands, in the order of their families.
pub fn table() -> &'static Table {
    &TABLE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::SpecIndex;

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
    fn every_subcommand_is_found_in_any_case_in_its_container_only() {
        let all = table().subcommands();
        assert!(all.is_sorted_by(|a, b| a.name < b.name));
        for (at, subcommand) in all.iter().enumerate() {
            let (container, word) = subcommand.parts();
            let index = table().lookup(container.as_bytes()).expect("a container");
            let spec = table()[index as usize];
            assert!(spec.has(crate::spec::flag::CONTAINER), "{container}");
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
            .filter(|spec| spec.has(crate::spec::flag::CONTAINER))
        {
            assert!(table().subcommand(spec, b"help").is_some(), "{}", spec.name);
            assert!(table().subcommand(spec, b"nonsense").is_none());
        }
    }
}
