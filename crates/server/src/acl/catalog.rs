//! The commands as access rules name them: their names, containers and categories.

use crate::spec::{SpecIndex, Table, flag};

/// Names of the categories, in the order of ACL CAT. A set of categories has the bit of each one's
/// position.
pub const CATEGORIES: &[&str] = &[
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

/// Commands in categories that neither their flags nor their group determines.
const FURTHER: &[(&str, &[&str])] = &[
    ("read", &["lolwut"]),
    ("admin", &["lastsave", "role"]),
    ("blocking", &["wait", "waitaof"]),
    (
        "dangerous",
        &[
            "flushall", "flushdb", "info", "keys", "lastsave", "restore", "role", "sort",
            "sort_ro", "swapdb",
        ],
    ),
    ("keyspace", &["flushall", "flushdb", "dbsize", "swapdb"]),
    ("list", &["sort", "sort_ro"]),
    ("set", &["sort", "sort_ro"]),
    ("sortedset", &["sort", "sort_ro"]),
    (
        "connection",
        &["command", "readonly", "readwrite", "wait", "waitaof"],
    ),
];

/// Returns the bit of a category. Case is ignored.
pub fn category(name: &[u8]) -> Option<u32> {
    let is_same = |category: &&str| category.as_bytes().eq_ignore_ascii_case(name);
    CATEGORIES.iter().position(is_same).map(|place| 1 << place)
}

/// Returns the names of the categories in a set.
pub fn names_of(set: u32) -> impl Iterator<Item = &'static str> {
    let all = CATEGORIES.iter().enumerate();
    all.filter(move |(place, _)| set & 1 << place != 0)
        .map(|(_, name)| *name)
}

/// Returns the categories of a command or a subcommand with these properties.
pub fn categories_of(name: &str, flags: u32, group: &str) -> u32 {
    let bit = |name: &str| category(name.as_bytes()).unwrap_or(0);
    let container = name.split('|').next().unwrap_or(name);
    let mut set = 0;
    for (bits, category) in [
        (flag::WRITE, "write"),
        (flag::ADMIN, "admin"),
        (flag::ADMIN, "dangerous"),
        (flag::PUBSUB, "pubsub"),
        (flag::FAST, "fast"),
        (flag::BLOCKING, "blocking"),
    ] {
        if flags & bits != 0 {
            set |= bit(category);
        }
    }
    if flags & flag::FAST == 0 {
        set |= bit("slow");
    }
    // A script that does not write may read by other commands only.
    if flags & flag::READONLY != 0 && group != "scripting" {
        set |= bit("read");
    }
    for (category, commands) in FURTHER {
        if commands.contains(&container) {
            set |= bit(category);
        }
    }
    set | match group {
        "generic" if matches!(container, "sort" | "sort_ro" | "wait" | "waitaof") => 0,
        "generic" => bit("keyspace"),
        "sorted-set" => bit("sortedset"),
        "transactions" => bit("transaction"),
        // The flag says which commands of the group use channels.
        "pubsub" => 0,
        // Other groups are categories of the same name, or none.
        group => bit(group),
    }
}

/// One command or subcommand.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Name; that of a subcommand includes its container.
    pub name: &'static str,
    /// Indexes of the subcommands.
    pub subcommands: std::ops::Range<SpecIndex>,
    /// Whether it is a subcommand.
    pub is_subcommand: bool,
    /// Set of its categories.
    pub categories: u32,
}

/// All commands and subcommands, in the order of their indexes.
#[derive(Clone, Debug)]
pub struct Catalog {
    entries: Vec<Entry>,
}

impl Catalog {
    /// Creates the catalog of a table.
    pub fn of<R>(table: &Table<R>) -> Catalog {
        let subcommands = table.subcommands();
        let first = table.len();
        let range_of = |name: &str| {
            let is_own = |at: &usize| subcommands[*at].parts().0 == name;
            let start = (0..subcommands.len()).find(is_own).unwrap_or(0);
            let count = (start..subcommands.len()).take_while(is_own).count();
            (first + start) as SpecIndex..(first + start + count) as SpecIndex
        };
        let commands = table.iter().map(|spec| {
            let subcommands = range_of(spec.name);
            // A container does nothing by itself.
            let is_container = !subcommands.is_empty() && spec.arity < -1;
            let (flags, group) = match is_container {
                true => (0, ""),
                false => (spec.flags, spec.group),
            };
            Entry {
                name: spec.name,
                is_subcommand: false,
                categories: categories_of(if is_container { "" } else { spec.name }, flags, group),
                subcommands,
            }
        });
        let subcommands = subcommands.iter().map(|subcommand| {
            let container = table.iter().find(|spec| spec.name == subcommand.parts().0);
            let group = container.map_or("", |spec| spec.group);
            Entry {
                name: subcommand.name,
                is_subcommand: true,
                categories: categories_of(subcommand.name, subcommand.flags, group),
                subcommands: 0..0,
            }
        });
        Catalog {
            entries: commands.chain(subcommands).collect(),
        }
    }

    /// Returns the index of the command or subcommand with this name. Case is ignored.
    pub fn find(&self, name: &[u8]) -> Option<SpecIndex> {
        let is_named = |entry: &Entry| entry.name.as_bytes().eq_ignore_ascii_case(name);
        let found = self.entries.iter().position(is_named);
        found.map(|index| index as SpecIndex)
    }

    /// Returns the command or subcommand with this index.
    pub fn get(&self, index: SpecIndex) -> &Entry {
        &self.entries[index as usize]
    }

    /// Returns all commands and subcommands with their indexes.
    pub fn iter(&self) -> impl Iterator<Item = (SpecIndex, &Entry)> {
        let all = self.entries.iter().enumerate();
        all.map(|(index, entry)| (index as SpecIndex, entry))
    }
}
