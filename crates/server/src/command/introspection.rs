//! COMMAND: information about the commands for clients.

use super::subcommand::{help, refuse_subcommand};
use super::table::commands;
use super::{access, syntax};
use crate::context::{Ctx, Run, Spec};
use crate::state::Data;
use session::acl::catalog::{categories_of, names_of};
use session::spec::flag::{self, CONTAINER, LOADING, STALE};
use session::spec::{Access, Keys, Subcommand, Use, usage};
use wire::{Args, Reply, glob};

/// Table of this family's commands.
pub const TABLE: &[Spec] = commands! {
    in "server" []:
    "command" -1 [connection], LOADING | STALE | CONTAINER, Keys::None, "2.8.13", Run::any(command),
        "[subcommand [argument]...]", "Returns detailed information about all commands."
    {
        "count" 2, LOADING | STALE, Keys::None, "2.8.13",
            "", "Returns the number of commands.";
        "docs" -2, LOADING | STALE, Keys::None, "7.0.0",
            "[command-name]...", "Returns documentation of commands.";
        "getkeys" -3, LOADING | STALE, Keys::None, "2.8.13",
            "command [arg]...", "Returns the keys of a command with its arguments.";
        "getkeysandflags" -3, LOADING | STALE, Keys::None, "7.0.0",
            "command [arg]...", "Returns the keys of a command with its arguments, and how it accesses them.";
        "help" 2, LOADING | STALE, Keys::None, "5.0.0",
            "", "Returns help about the subcommands.";
        "info" -2, LOADING | STALE, Keys::None, "2.8.13",
            "[command-name]...", "Returns the specifications of commands.";
        "list" -2, LOADING | STALE, Keys::None, "7.0.0",
            "[FILTERBY ((MODULE module-name) | (ACLCAT category) | (PATTERN pattern))]",
            "Lists the names of commands and subcommands.";
    };
};

/// Text of COMMAND HELP.
const HELP: &[&str] = &[
    "(no subcommand)",
    "    Return details about all commands.",
    "COUNT",
    "    Return the total number of commands in this server.",
    "LIST [FILTERBY (MODULE <module-name>|ACLCAT <cat>|PATTERN <pattern>)]",
    "    Return a list of all commands in this server.",
    "INFO [<command-name> ...]",
    "    Return details about multiple commands. If no command names are given,",
    "    documentation details for all commands are returned.",
    "DOCS [<command-name> ...]",
    "    Return documentation details about multiple commands.",
    "GETKEYS <full-command>",
    "    Return the keys from a full command.",
    "GETKEYSANDFLAGS <full-command>",
    "    Return the keys and the access flags from a full command.",
];

fn command(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    let Some(word) = args.get(1).map(<[u8]>::to_ascii_lowercase) else {
        let all = all(ctx).into_iter().map(Some).collect();
        return infos(ctx, all);
    };
    match (&word[..], args.len()) {
        (b"count", 2) => ctx.reply.integer(served(ctx).len() as i64),
        (b"list", 2) => names(ctx, |_| true),
        (b"list", 5) if args.is(2, "filterby") => filtered(ctx, args),
        (b"list", _) => ctx.reply.error("ERR syntax error"),
        (b"info", 2) => {
            let all = all(ctx).into_iter().map(Some).collect();
            infos(ctx, all);
        }
        (b"info", _) => {
            let names = args.from(2).iter();
            let found = names.map(|name| find(ctx, name)).collect();
            infos(ctx, found);
        }
        (b"docs", 2) => {
            let all = all(ctx);
            docs(ctx, all);
        }
        (b"docs", _) => {
            let names = args.from(2).iter();
            let found = names.filter_map(|name| find(ctx, name)).collect();
            docs(ctx, found);
        }
        (b"getkeys", 3..) => keys(ctx, args.from(2), false),
        (b"getkeysandflags", 3..) => keys(ctx, args.from(2), true),
        (b"help", 2) => help(ctx, "COMMAND", HELP),
        _ => refuse_subcommand(ctx, args, HELP),
    }
}

/// Returns the commands that the storage engine serves and that `rename-command` has not removed.
fn served(ctx: &Ctx<'_, '_>) -> Vec<&'static Spec> {
    let all = ctx.table.iter().enumerate();
    let served =
        all.filter(|(at, spec)| ctx.table.is_callable(*at) && serves(&ctx.server.data, spec));
    served.map(|(_, spec)| *spec).collect()
}

/// Returns the commands that the storage engine serves, without their subcommands.
fn all(ctx: &Ctx<'_, '_>) -> Vec<Entry> {
    let entry = |spec| Entry {
        spec,
        subcommand: None,
    };
    served(ctx).into_iter().map(entry).collect()
}

fn serves(data: &Data, spec: &Spec) -> bool {
    data.segments.is_none() || spec.run.is_on_segment()
}

/// A command or one of its subcommands.
#[derive(Clone, Copy)]
struct Entry {
    spec: &'static Spec,
    subcommand: Option<&'static Subcommand>,
}

impl Entry {
    fn name(&self) -> &'static str {
        self.subcommand
            .map_or(self.spec.name, |subcommand| subcommand.name)
    }

    /// Whether the command is only a container for its subcommands.
    fn is_container(&self) -> bool {
        self.subcommand.is_none() && self.spec.has(CONTAINER)
    }

    /// Returns the flags. A container that does nothing on its own has none, as in Redis.
    fn flags(&self) -> u32 {
        match self.subcommand {
            Some(subcommand) => subcommand.flags,
            None if self.is_container() && self.spec.arity < -1 => 0,
            None => self.spec.flags,
        }
    }

    fn keys(&self) -> Keys {
        match self.subcommand {
            Some(subcommand) => subcommand.keys,
            None if self.is_container() => Keys::None,
            None => self.spec.keys,
        }
    }

    /// Returns the use of the keys, if there are any.
    fn access(&self) -> Option<Access> {
        match self.subcommand {
            Some(subcommand) => subcommand.access,
            None => self.spec.access,
        }
    }

    /// Returns the ACL categories.
    fn categories(&self) -> Vec<&'static str> {
        let set = match self.is_container() && self.flags() == 0 {
            true => categories_of(0, 0),
            false => categories_of(self.flags(), self.spec.categories),
        };
        names_of(set).collect()
    }
}

/// Finds a command by its name, or a subcommand by its name and its container's name.
fn find(ctx: &Ctx<'_, '_>, name: &[u8]) -> Option<Entry> {
    let end = name.iter().position(|byte| *byte == b'|');
    let (name, word) = match end {
        Some(end) => (&name[..end], Some(&name[end + 1..])),
        None => (name, None),
    };
    let spec = ctx.table[ctx.table.lookup(name)? as usize];
    if !serves(&ctx.server.data, spec) {
        return None;
    }
    let subcommand = match word {
        Some(word) => Some(ctx.table.subcommand(spec, word)?.1),
        None => None,
    };
    Some(Entry { spec, subcommand })
}

/// Returns the subcommands of a command.
fn subcommands(spec: &'static Spec) -> Vec<Entry> {
    let entry = |subcommand| Entry {
        spec,
        subcommand: Some(subcommand),
    };
    spec.subcommands.iter().map(entry).collect()
}

fn names(ctx: &mut Ctx<'_, '_>, is_wanted: impl Fn(&Entry) -> bool) {
    let mut found = Vec::new();
    for spec in served(ctx) {
        let entry = Entry {
            spec,
            subcommand: None,
        };
        found.extend(is_wanted(&entry).then(|| entry.name()));
        let subcommands = subcommands(spec).into_iter();
        found.extend(subcommands.filter(&is_wanted).map(|entry| entry.name()));
    }
    ctx.reply.array(found.len());
    for name in found {
        ctx.reply.bulk(name.as_bytes());
    }
}

fn filtered(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    let wanted = &args[4];
    match &args[3].to_ascii_lowercase()[..] {
        b"module" => names(ctx, |_| false),
        b"pattern" => names(ctx, |entry| {
            glob::matches(wanted, entry.name().as_bytes(), true)
        }),
        b"aclcat" => {
            let wanted = String::from_utf8_lossy(wanted).to_ascii_lowercase();
            names(ctx, |entry| entry.categories().contains(&wanted.as_str()));
        }
        _ => ctx.reply.error("ERR syntax error"),
    }
}

fn infos(ctx: &mut Ctx<'_, '_>, entries: Vec<Option<Entry>>) {
    ctx.reply.array(entries.len());
    for entry in entries {
        match entry {
            Some(entry) => info(ctx, entry),
            None => ctx.reply.null_array(),
        }
    }
}

/// Returns first key, last key and step as COMMAND reports them.
fn key_range(keys: Keys) -> (i64, i64, i64) {
    match keys {
        Keys::Range(first, last, step) => (i64::from(first), i64::from(last), i64::from(step)),
        Keys::FirstAndCounted(_) | Keys::FirstAndStored(_) | Keys::Sort => (1, 1, 1),
        _ => (0, 0, 0),
    }
}

fn info(ctx: &mut Ctx<'_, '_>, entry: Entry) {
    let (first, last, step) = key_range(entry.keys());
    let is_movable = matches!(
        entry.keys(),
        Keys::Counted(_) | Keys::Script(_) | Keys::FirstAndCounted(_) | Keys::CountedStep(..)
    );
    let mut flags: Vec<&str> = Vec::new();
    for (bit, name) in flag::NAMES {
        if entry.flags() & bit != 0 || (*bit == flag::MOVABLE_KEYS && is_movable) {
            flags.push(name);
        }
    }
    let arity = entry.subcommand.map_or(entry.spec.arity, |own| own.arity);
    let reply = &mut ctx.reply;
    reply.array(10);
    reply.bulk(entry.name().as_bytes());
    reply.integer(i64::from(arity));
    reply.set(flags.len());
    for name in flags {
        reply.simple(name);
    }
    for number in [first, last, step] {
        reply.integer(number);
    }
    let categories = entry.categories();
    reply.set(categories.len());
    for name in categories {
        reply.simple(&format!("@{name}"));
    }
    // There are no tips.
    reply.array(0);
    key_specs(ctx, entry);
    let subcommands = match entry.is_container() {
        true => subcommands(entry.spec),
        false => Vec::new(),
    };
    ctx.reply.array(subcommands.len());
    for subcommand in subcommands {
        info(ctx, subcommand);
    }
}

/// Position at which a group of keys begins, and the way to find its keys.
enum Group {
    /// The argument at this index, then as many as `last` says: the distance of the last one, or
    /// its position from the end if negative; every `step`-th.
    Range { at: i64, last: i64, step: i64 },
    /// The argument at this index is the number of the keys after it, which are this distance
    /// apart.
    Counted { at: i64, step: i64 },
    /// The arguments after this word, which is searched from this index on: up to the distance
    /// `last`, or to the position from the end if negative. If `limit` is 2, their first half.
    Keyword {
        word: &'static str,
        from: i64,
        last: i64,
        limit: i64,
    },
    /// The arguments do not determine the keys by their positions.
    Unknown,
}

impl Group {
    /// The first argument.
    const FIRST: Group = Group::Range {
        at: 1,
        last: 0,
        step: 1,
    };
}

/// Returns the groups of a command's keys with their flags: `first` for its first key and `further`
/// for its further keys.
fn groups(keys: Keys, first: Use, further: Option<Use>) -> Vec<(Group, Use)> {
    let after = |word, from: i16, last, limit| Group::Keyword {
        word,
        from: i64::from(from),
        last,
        limit,
    };
    let groups = match keys {
        Keys::Streams(at) => vec![after("STREAMS", at, -1, 2)],
        Keys::FirstAndStored(at) => vec![
            Group::FIRST,
            after("STORE", at + 1, 0, 0),
            after("STOREDIST", at + 1, 0, 0),
        ],
        Keys::Sort => {
            // Patterns lead to keys that are read, and STORE may stand anywhere.
            let mut groups = vec![(Group::FIRST, first), (Group::Unknown, first)];
            groups.extend(further.map(|flags| (Group::Unknown, flags)));
            return groups;
        }
        _ => by_position(keys, further.is_some()),
    };
    let rest = std::iter::repeat(further.unwrap_or(first));
    let flags = std::iter::once(first).chain(rest);
    groups.into_iter().zip(flags).collect()
}

/// Returns the groups of keys at fixed positions, or after their number.
fn by_position(keys: Keys, has_two: bool) -> Vec<Group> {
    let one = |at: i64| Group::Range {
        at,
        last: 0,
        step: 1,
    };
    match keys {
        Keys::Range(first, last, step) => {
            let [first, last, step] = [first, last, step].map(i64::from);
            let from = |at: i64| Group::Range {
                at,
                // Relative to the first key of the group, or counted from the end.
                last: if last < 0 { last } else { last - at },
                step,
            };
            match has_two {
                true => vec![one(first), from(first + step)],
                false => vec![from(first)],
            }
        }
        Keys::Counted(at) | Keys::Script(at) => vec![Group::Counted {
            at: i64::from(at),
            step: 1,
        }],
        Keys::CountedStep(at, step) => vec![Group::Counted {
            at: i64::from(at),
            step: i64::from(step),
        }],
        Keys::FirstAndCounted(at) => vec![
            Group::FIRST,
            Group::Counted {
                at: i64::from(at),
                step: 1,
            },
        ],
        _ => Vec::new(),
    }
}

fn key_specs(ctx: &mut Ctx<'_, '_>, entry: Entry) {
    let access = entry.access();
    let groups = access.map_or_else(Vec::new, |access| {
        groups(entry.keys(), access.first, access.further)
    });
    let reply = &mut ctx.reply;
    reply.array(groups.len());
    for (group, flags) in groups {
        reply.map(3);
        reply.bulk(b"flags");
        write_flags(reply, flags);
        let (begin, find): (Search<'_>, Search<'_>) = match &group {
            Group::Keyword {
                word,
                from,
                last,
                limit,
            } => (
                (
                    "keyword",
                    vec![
                        ("keyword", Value::Word(word)),
                        ("startfrom", (*from).into()),
                    ],
                ),
                range(*last, 1, *limit),
            ),
            Group::Range { at, last, step } => (
                ("index", vec![("index", (*at).into())]),
                range(*last, *step, 0),
            ),
            Group::Counted { at, step } => (
                ("index", vec![("index", (*at).into())]),
                (
                    "keynum",
                    vec![
                        ("keynumidx", 0.into()),
                        ("firstkey", 1.into()),
                        ("keystep", (*step).into()),
                    ],
                ),
            ),
            Group::Unknown => (("unknown", Vec::new()), ("unknown", Vec::new())),
        };
        write_search(reply, "begin_search", &begin);
        write_search(reply, "find_keys", &find);
    }
}

/// Value of a step of the search for keys.
enum Value {
    Number(i64),
    Word(&'static str),
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Value::Number(number)
    }
}

/// Type of a step of the search for keys, and its values by name.
type Search<'a> = (&'a str, Vec<(&'a str, Value)>);

/// Returns the step that finds the keys of a range.
fn range(last: i64, step: i64, limit: i64) -> Search<'static> {
    let values = [("lastkey", last), ("keystep", step), ("limit", limit)];
    let values = values.map(|(name, number)| (name, number.into()));
    ("range", values.into())
}

fn write_search(reply: &mut Reply<'_>, name: &str, (kind, values): &Search<'_>) {
    reply.bulk(name.as_bytes());
    reply.map(2);
    reply.bulk(b"type");
    reply.bulk(kind.as_bytes());
    reply.bulk(b"spec");
    reply.map(values.len());
    for (name, value) in values {
        reply.bulk(name.as_bytes());
        match value {
            Value::Number(number) => reply.integer(*number),
            Value::Word(word) => reply.bulk(word.as_bytes()),
        }
    }
}

fn write_flags(reply: &mut Reply<'_>, flags: Use) {
    let names = usage::NAMES.iter().filter(|(bit, _)| flags & bit != 0);
    let names: Vec<&str> = names.map(|(_, name)| *name).collect();
    reply.set(names.len());
    for name in names {
        reply.simple(name);
    }
}

fn docs(ctx: &mut Ctx<'_, '_>, entries: Vec<Entry>) {
    ctx.reply.map(entries.len());
    for entry in entries {
        let spec = entry.spec;
        let (since, syntax, summary) = match entry.subcommand {
            Some(own) => (own.since, own.syntax, own.summary),
            None => (spec.since, spec.syntax, spec.summary),
        };
        let subcommands = match entry.is_container() {
            true => subcommands(spec),
            false => Vec::new(),
        };
        let fields = [
            ("summary", summary),
            ("since", since),
            ("group", spec.group),
        ];
        ctx.reply.bulk(entry.name().as_bytes());
        let has_arguments = !syntax.is_empty();
        let extra = usize::from(has_arguments) + usize::from(!subcommands.is_empty());
        ctx.reply.map(fields.len() + extra);
        for (name, text) in fields {
            ctx.reply.bulk(name.as_bytes());
            ctx.reply.bulk(text.as_bytes());
        }
        if has_arguments {
            ctx.reply.bulk(b"arguments");
            syntax::write(&mut ctx.reply, syntax);
        }
        if !subcommands.is_empty() {
            ctx.reply.bulk(b"subcommands");
            docs(ctx, subcommands);
        }
    }
}

fn keys(ctx: &mut Ctx<'_, '_>, args: Args<'_>, with_flags: bool) {
    let found = match args.get(1) {
        Some(word) => {
            let name = [args.name(), word].join(&b'|');
            find(ctx, &name)
                .or_else(|| find(ctx, args.name()).filter(|entry| !entry.is_container()))
        }
        None => find(ctx, args.name()),
    };
    let Some(entry) = found else {
        return ctx.reply.error("ERR Invalid command specified");
    };
    let accepts = match entry.subcommand {
        Some(subcommand) => subcommand.accepts(args.len()),
        None => entry.spec.accepts(args.len()),
    };
    if !entry.keys().are_named() {
        return ctx.reply.error("ERR The command has no key arguments");
    }
    if !accepts {
        return ctx
            .reply
            .error("ERR Invalid number of arguments specified for command");
    }
    let Some(used) = access::of_call(entry.spec, entry.subcommand, args) else {
        return ctx
            .reply
            .error("ERR Invalid arguments specified for command");
    };
    ctx.reply.array(used.len());
    for (index, flags) in used {
        if with_flags {
            ctx.reply.array(2);
        }
        ctx.reply.bulk(&args[index]);
        if with_flags {
            write_flags(&mut ctx.reply, flags);
        }
    }
}
