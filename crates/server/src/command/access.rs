//! How commands access their keys, in the words of COMMAND INFO and COMMAND GETKEYSANDFLAGS.
//!
//! `RO`, `RW`, `OW` and `RM` mean that a command reads, changes, overwrites or removes a key
//! without regard to its value. `access`, `update`, `insert` and `delete` say what it does with the
//! value.

use crate::context::Spec;
use session::spec::{Keys, Subcommand, flag};
use wire::Args;

/// Flags of one key, separated by blanks.
pub(super) type Access = &'static str;

const READ: Access = "RO access";
const UPDATE: Access = "RW access update";
const OVERWRITE: Access = "OW update";

/// Flags of the first key and of the further keys, and the commands with these flags. The further
/// keys have the flags of the first one if none are given for them.
const ACCESSES: &[(Access, Option<Access>, &[&str])] = &[
    ("OW insert", None, &["msetnx", "setnx"]),
    (
        OVERWRITE,
        None,
        &["mset", "msetex", "psetex", "restore", "setex"],
    ),
    (
        OVERWRITE,
        Some(READ),
        &[
            "bitop",
            "geosearchstore",
            "sdiffstore",
            "sinterstore",
            "sunionstore",
            "zdiffstore",
            "zinterstore",
            "zrangestore",
            "zunionstore",
        ],
    ),
    ("RM delete", None, &["del", "unlink"]),
    (
        "RO",
        None,
        &[
            "exists",
            "hexists",
            "hlen",
            "hstrlen",
            "llen",
            "object",
            "memory",
            "scard",
            "sismember",
            "strlen",
            "touch",
            "type",
            "watch",
            "xlen",
            "zcard",
        ],
    ),
    (
        READ,
        Some(OVERWRITE),
        &["copy", "georadius", "georadiusbymember", "sort"],
    ),
    ("RW access", None, &["pfcount", "pfdebug"]),
    // It changes the group, not the entries, so that it needs the right to read only, as in Redis.
    (READ, None, &["xreadgroup"]),
    (
        "RW access delete",
        None,
        &[
            "blmpop", "blpop", "brpop", "bzmpop", "bzpopmax", "bzpopmin", "getdel", "hgetdel",
            "lmpop", "lpop", "rpop", "spop", "zmpop", "zpopmax", "zpopmin",
        ],
    ),
    ("RW access delete", Some("OW insert"), &["renamenx"]),
    ("RW access delete", Some(OVERWRITE), &["rename"]),
    (
        "RW access delete",
        Some("RW insert"),
        &[
            "blmove",
            "blmovem",
            "brpoplpush",
            "lmove",
            "lmovem",
            "rpoplpush",
            "smove",
        ],
    ),
    ("RW access insert", Some(READ), &["pfmerge"]),
    (
        UPDATE,
        None,
        &[
            "bitfield",
            "decr",
            "decrby",
            "eval",
            "evalsha",
            "fcall",
            "getex",
            "getset",
            "hgetex",
            "hincrby",
            "hincrbyfloat",
            "incr",
            "incrby",
            "incrbyfloat",
            "increx",
            "move",
            "set",
            "setbit",
            "zincrby",
        ],
    ),
    (
        "RW delete",
        None,
        &[
            "delex",
            "hdel",
            "lrem",
            "ltrim",
            "srem",
            "xautoclaim",
            "xdel",
            "xdelex",
            "xgroup|delconsumer",
            "xgroup|destroy",
            "xtrim",
            "zrem",
            "zremrangebylex",
            "zremrangebyrank",
            "zremrangebyscore",
        ],
    ),
    (
        "RW insert",
        None,
        &[
            "append",
            "hsetnx",
            "linsert",
            "lpush",
            "lpushx",
            "pfadd",
            "rpush",
            "rpushx",
            "sadd",
            "saddex",
            "xgroup|create",
            "xgroup|createconsumer",
        ],
    ),
    ("RW update delete", None, &["xackdel"]),
];

/// Returns the flags of the first and further keys of a command or subcommand. Commands that are
/// not in the table update their keys or read them. A container's row is that of its subcommands.
pub(super) fn of(name: &str, flags: u32) -> (Access, Option<Access>) {
    let container = name.split('|').next().unwrap_or(name);
    let row_of = |name: &str| ACCESSES.iter().find(|row| row.2.contains(&name));
    match row_of(name).or_else(|| row_of(container)) {
        Some((first, further, _)) => (first, *further),
        None if flags & flag::WRITE != 0 => ("RW update", None),
        None => (READ, None),
    }
}

/// One key of a call: its index among the arguments, and how the command accesses it.
pub(super) type Used = (usize, Access);

/// Returns the keys of a call, in the order of COMMAND GETKEYS. `None` if a number of keys among
/// the arguments is not valid.
pub(super) fn of_call(
    spec: &Spec,
    subcommand: Option<&Subcommand>,
    args: Args<'_>,
) -> Option<Vec<Used>> {
    let keys = subcommand.map_or(spec.keys, |subcommand| subcommand.keys);
    let name = subcommand.map_or(spec.name, |subcommand| subcommand.name);
    let (first, further) = of(name, spec.flags);
    let first = of_arguments(spec.name, args).unwrap_or(first);
    if !has_valid_count(keys, args) {
        return None;
    }
    let mut indexes = Vec::new();
    keys.each(args, |index| indexes.push(index));
    match keys {
        Keys::Sort => {
            // The key comes first. Only the last STORE takes effect.
            let store = indexes.iter().copied().filter(|index| *index > 1).max();
            indexes = std::iter::once(1).chain(store).collect();
        }
        // The key comes first here, too.
        Keys::FirstAndStored(_) => indexes.sort_unstable(),
        _ => {}
    }
    let flags = |place: usize| {
        if place == 0 {
            first
        } else {
            further.unwrap_or(first)
        }
    };
    let used = indexes.into_iter().enumerate();
    Some(used.map(|(place, index)| (index, flags(place))).collect())
}

/// Returns the flags of a command whose access depends on its arguments.
pub(super) fn of_arguments(name: &str, args: Args<'_>) -> Option<Access> {
    let has = |from: usize, word: &str| (from..args.len()).any(|at| args.is(at, word));
    match name {
        "set" => {
            let reads = ["get", "ifeq", "ifne", "ifdeq", "ifdne"];
            let reads = reads.iter().any(|word| has(3, word));
            Some(if reads { UPDATE } else { OVERWRITE })
        }
        "bitfield" => {
            let writes = has(2, "set") || has(2, "incrby");
            Some(if writes { UPDATE } else { READ })
        }
        "delex" if args.len() == 2 => Some("RM delete"),
        _ => None,
    }
}

/// Whether the arguments contain as many keys as they announce. EVAL may announce more, as in
/// Redis.
fn has_valid_count(keys: Keys, args: Args<'_>) -> bool {
    let (at, step) = match keys {
        Keys::Counted(at) | Keys::FirstAndCounted(at) => (at as usize, 1),
        Keys::CountedStep(at, step) => (at as usize, step as usize),
        _ => return true,
    };
    let count = args.get(at).and_then(wire::number::parse_i64);
    let room = args.len().saturating_sub(at + 1);
    count.is_some_and(|count| {
        usize::try_from(count).is_ok_and(|count| count >= 1 && count <= room.div_ceil(step))
    })
}
