//! The commands as access rules name them: their names, containers and categories.

use crate::spec::{COMMANDS_MAX, Keys, SpecIndex, Table, flag};
use std::collections::BTreeMap;

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

/// Returns the bit of a category in lower case.
///
/// # Panics
/// There is no such category. Command tables evaluate the function at compile time.
pub const fn bit(name: &str) -> u32 {
    let mut place = 0;
    while place < CATEGORIES.len() {
        if is_same(CATEGORIES[place].as_bytes(), name.as_bytes()) {
            return 1 << place;
        }
        place += 1;
    }
    panic!("no ACL category has this name")
}

const fn is_same(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

/// Categories that follow from the flags.
const BY_FLAGS: &[(u32, u32)] = &[
    (flag::WRITE, bit("write")),
    (flag::ADMIN, bit("admin") | bit("dangerous")),
    (flag::PUBSUB, bit("pubsub")),
    (flag::FAST, bit("fast")),
    (flag::BLOCKING, bit("blocking")),
];

/// Returns the categories of a command or a subcommand. `own` are those that its row states.
pub fn categories_of(flags: u32, own: u32) -> u32 {
    let by_flags = BY_FLAGS.iter().filter(|(bits, _)| flags & bits != 0);
    let mut set = by_flags.fold(own, |set, (_, categories)| set | categories);
    if flags & flag::FAST == 0 {
        set |= const { bit("slow") };
    }
    // A script that does not write may read by other commands only.
    if flags & flag::READONLY != 0 && own & const { bit("scripting") } == 0 {
        set |= const { bit("read") };
    }
    set
}

/// One command or subcommand.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Name; for a subcommand, it includes the container.
    pub name: &'static str,
    /// Indexes of the subcommands.
    pub subcommands: std::ops::Range<SpecIndex>,
    /// Whether this is a subcommand.
    pub is_subcommand: bool,
    /// Set of the command's categories.
    pub categories: u32,
}

/// A set of commands and subcommands: the bit of each one's index.
pub type CommandSet = [u64; COMMANDS_MAX / 64];

/// Whether an index is in a set.
#[inline]
pub fn contains(set: &CommandSet, index: SpecIndex) -> bool {
    set[index as usize / 64] & (1 << (index % 64)) != 0
}

/// Returns the set of the entries in a category, with their subcommands.
fn members(entries: &[Entry], place: usize) -> CommandSet {
    let mut set = CommandSet::default();
    for (index, entry) in entries.iter().enumerate() {
        if entry.categories & 1 << place != 0 {
            let own = index as SpecIndex..index as SpecIndex + 1;
            for index in own.chain(entry.subcommands.clone()) {
                set[index as usize / 64] |= 1 << (index % 64);
            }
        }
    }
    set
}

/// Commands without subcommands, grouped by the arguments whose use depends on rights.
#[derive(Clone, Debug, Default)]
pub struct Shapes {
    /// Commands that name no key.
    pub keyless: CommandSet,
    /// Commands whose only key is their first argument.
    pub one_key: CommandSet,
    /// Commands that may name a channel.
    pub on_channels: CommandSet,
}

/// All commands and subcommands, in the order of their indexes.
#[derive(Clone, Debug)]
pub struct Catalog {
    entries: Vec<Entry>,
    /// Index of each entry by its name, which is in lower case.
    by_name: BTreeMap<&'static str, SpecIndex>,
    /// Commands and subcommands of each category, with the subcommands of its commands.
    members: Vec<CommandSet>,
    /// Sets of commands by their arguments.
    pub shapes: Shapes,
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
        let mut shapes = Shapes::default();
        for (index, spec) in table.iter().enumerate() {
            let (word, bit) = (index / 64, 1 << (index % 64));
            match spec.keys {
                Keys::None | Keys::Whole | Keys::WholeIf(_) | Keys::Queued | Keys::Watched => {
                    shapes.keyless[word] |= bit;
                }
                Keys::Range(1, 1, 1) => shapes.one_key[word] |= bit,
                _ => {}
            }
            if spec.has(flag::PUBSUB) {
                shapes.on_channels[word] |= bit;
            }
        }
        let commands = table.iter().map(|spec| {
            let subcommands = range_of(spec.name);
            // A container does nothing by itself.
            let categories = match !subcommands.is_empty() && spec.arity < -1 {
                true => categories_of(0, 0),
                false => categories_of(spec.flags, spec.categories),
            };
            Entry {
                name: spec.name,
                is_subcommand: false,
                categories,
                subcommands,
            }
        });
        let subcommands = subcommands.iter().map(|subcommand| {
            let container = table.iter().find(|spec| spec.name == subcommand.parts().0);
            let own = container.map_or(0, |spec| spec.categories);
            Entry {
                name: subcommand.name,
                is_subcommand: true,
                categories: categories_of(subcommand.flags, own),
                subcommands: 0..0,
            }
        });
        let entries: Vec<Entry> = commands.chain(subcommands).collect();
        let names = entries.iter().enumerate();
        Catalog {
            members: (0..CATEGORIES.len())
                .map(|place| members(&entries, place))
                .collect(),
            by_name: names
                .map(|(index, entry)| (entry.name, index as SpecIndex))
                .collect(),
            entries,
            shapes,
        }
    }

    /// Returns the index of the command or subcommand with this name, in lower case.
    pub fn find(&self, name: &str) -> Option<SpecIndex> {
        self.by_name.get(name).copied()
    }

    /// Returns the commands and subcommands of the category with this bit, and the subcommands of
    /// its commands.
    pub fn members(&self, category: u32) -> &CommandSet {
        &self.members[category.trailing_zeros() as usize]
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
