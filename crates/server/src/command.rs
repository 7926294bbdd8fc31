//! The one table of commands: name, arity, flags, keys, summary, code. Dispatch, COMMAND, the docs
//! and the tests all read it. Each family of commands is a file below, with its own slice of it.

pub mod bitmap;
pub mod client;
pub mod config;
pub mod connection;
pub mod element_ttl;
pub mod hash;
pub mod hyperloglog;
pub mod introspection;
pub mod key;
pub mod latency;
pub mod lifetime;
pub mod list;
pub mod pubsub;
pub mod refusal;
pub mod scanning;
pub mod server;
pub mod set;
pub mod sort;
pub mod sorted_set;
pub mod string;
pub mod transaction;

use crate::session::Session;
use crate::state::Server;
use std::sync::LazyLock;
use store::{Key, View};
use wire::{Args, Reply};

/// What a command gets to work with.
pub struct Ctx<'a, 'v> {
    /// The shards that the command's keys need, locked; `now` is in it.
    pub view: &'a mut View<'v>,
    /// The client.
    pub session: &'a mut Session,
    /// Everything shared.
    pub server: &'v Server,
    /// Where the reply goes: exactly one per command.
    pub reply: Reply<'a>,
    /// Which shards `view` holds.
    pub locks: &'a Locks,
    /// The first key's hash, when the batch has computed it already.
    pub memo: Option<KeyMemo>,
}

/// Which shards a view holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Locks {
    /// All of them.
    All,
    /// These, ascending.
    Some(Vec<usize>),
}

/// A key that has been hashed before its command runs: where its bytes stand, and the hash.
#[derive(Clone, Copy, Debug)]
pub struct KeyMemo {
    /// Where its bytes begin: compared, never followed.
    pub address: usize,
    /// How many bytes.
    pub len: usize,
    /// Of which database.
    pub db: u8,
    /// `Key::hash`.
    pub hash: u64,
}

impl KeyMemo {
    /// Remembers where a key's bytes stand.
    pub fn of(key: &Key<'_>) -> KeyMemo {
        KeyMemo {
            address: key.bytes.as_ptr() as usize,
            len: key.bytes.len(),
            db: key.db,
            hash: key.hash,
        }
    }

    /// Whether these are the bytes that were hashed.
    #[inline]
    pub fn names(&self, db: u8, bytes: &[u8]) -> bool {
        self.address == bytes.as_ptr() as usize && self.len == bytes.len() && self.db == db
    }

    /// The key; `bytes` are those that were hashed.
    #[inline]
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        Key {
            bytes,
            hash: self.hash,
            db: self.db,
        }
    }
}

impl<'v> Ctx<'_, 'v> {
    /// The key that these bytes name in the session's database.
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        self.key_in(self.session.db, bytes)
    }

    /// The key that these bytes name in any database.
    pub fn key_in<'k>(&self, db: u8, bytes: &'k [u8]) -> Key<'k> {
        match self.memo {
            Some(memo) if memo.names(db, bytes) => memo.key(bytes),
            _ => self.server.keyspace.key(db, bytes),
        }
    }

    /// Runs `work` with no shard locked, for what takes the keyspace's locks itself (INFO, CONFIG
    /// SET maxmemory); afterwards the same shards are locked again. In between another worker may
    /// have changed them.
    pub fn unlocked<R>(&mut self, work: impl FnOnce(&'v Server) -> R) -> R {
        let now = self.view.now();
        let space = &self.server.keyspace;
        self.view.exchange(space.lock_many(&[], now));
        let result = work(self.server);
        let again = match self.locks {
            Locks::All => space.lock_all(now),
            Locks::Some(shards) => space.lock_many(shards, now),
        };
        self.view.exchange(again);
        result
    }
}

/// Answers a container's HELP: what its subcommands are, in the form that clients know.
fn help(ctx: &mut Ctx<'_, '_>, name: &str, lines: &[&str]) {
    ctx.reply.array(lines.len() + 3);
    ctx.reply.simple(&format!(
        "{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"
    ));
    for line in lines.iter().chain(&["HELP", "    Print this help."]) {
        ctx.reply.simple(line);
    }
}

/// Refuses a subcommand: one that exists has the wrong number of arguments.
fn refuse_subcommand(ctx: &mut Ctx<'_, '_>, args: Args<'_>, lines: &[&str]) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(128)]).into_owned();
    let (name, word) = (text(args.name()), text(&args[1]));
    let is_known = |line: &&str| {
        let first = line.split(' ').next().unwrap_or_default();
        !first.is_empty() && first.eq_ignore_ascii_case(&word)
    };
    if lines.iter().any(is_known) || word.eq_ignore_ascii_case("help") {
        let full = format!("{name}|{word}").to_ascii_lowercase();
        ctx.reply.error(&format!(
            "ERR wrong number of arguments for '{full}' command"
        ));
    } else {
        let name = name.to_ascii_uppercase();
        ctx.reply.error(&format!(
            "ERR unknown subcommand '{word}'. Try {name} HELP."
        ));
    }
}

/// Where a command's keys stand among its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// None; the command works on the server or the session.
    None,
    /// None by name, but it reads or changes the whole keyspace: all shards are locked.
    Whole,
    /// From `first` to `last` (negative: from the end) in steps, as COMMAND reports it.
    Range(i16, i16, i16),
    /// The argument at this index counts the keys that follow it.
    Counted(i16),
    /// The first argument, and those that the argument at this index counts (ZUNIONSTORE).
    FirstAndCounted(i16),
    /// As `Counted`, and the keys stand so many arguments apart (MSETEX).
    CountedStep(i16, i16),
    /// The first argument, and the one behind STORE; with a pattern among the others, any key: all
    /// shards are locked (SORT).
    Sort,
    /// None by name: those of the session's queued commands and its watched keys (EXEC).
    Queued,
    /// None by name: the session's watched keys (UNWATCH, DISCARD, RESET).
    Watched,
}

impl Keys {
    /// Calls `each` with the index of every key among `args`; a count that lies is cut short.
    pub fn each(&self, args: Args<'_>, mut each: impl FnMut(usize)) {
        let len = args.len() as i64;
        let (first, last, step) = match *self {
            Keys::None | Keys::Whole | Keys::Queued | Keys::Watched => return,
            Keys::Range(first, last, step) => {
                let last = i64::from(last);
                let last = if last < 0 { len + last } else { last };
                (i64::from(first), last, i64::from(step))
            }
            Keys::Counted(at) => counted(args, at, 1),
            Keys::FirstAndCounted(at) => {
                each(1);
                counted(args, at, 1)
            }
            Keys::CountedStep(at, step) => counted(args, at, step),
            Keys::Sort => {
                let is_store = |index: &usize| args.is(index - 1, "store");
                (3..args.len()).filter(is_store).for_each(&mut each);
                (1, 1, 1)
            }
        };
        let mut index = first;
        while index <= last && index < len {
            each(index as usize);
            index += step.max(1);
        }
    }

    /// Whether the arguments may name keys that are not among them.
    pub fn reach_beyond(&self, args: Args<'_>) -> bool {
        let has_star = |arg: &[u8]| arg.contains(&b'*');
        *self == Keys::Whole || *self == Keys::Sort && args.from(2).iter().any(has_star)
    }
}

/// The range of the keys that the argument at `at` counts.
fn counted(args: Args<'_>, at: i16, step: i16) -> (i64, i64, i64) {
    let count = args
        .get(at as usize)
        .and_then(|text| std::str::from_utf8(text).ok())
        .and_then(|text| text.parse::<i64>().ok())
        .unwrap_or(0)
        .clamp(0, args.len() as i64);
    let (at, step) = (i64::from(at), i64::from(step));
    (at + 1, at + count * step, step)
}

/// Bits of `Spec::flags`: what dispatch checks and COMMAND reports.
pub mod flag {
    /// May change keys.
    pub const WRITE: u32 = 1;
    /// Only reads keys.
    pub const READONLY: u32 = 1 << 1;
    /// Refused when memory is full and nothing may be evicted.
    pub const DENYOOM: u32 = 1 << 2;
    /// For administrators.
    pub const ADMIN: u32 = 1 << 3;
    /// About channels.
    pub const PUBSUB: u32 = 1 << 4;
    /// Not from scripts.
    pub const NOSCRIPT: u32 = 1 << 5;
    /// Allowed while loading.
    pub const LOADING: u32 = 1 << 6;
    /// Allowed on a stale replica.
    pub const STALE: u32 = 1 << 7;
    /// Constant or logarithmic time.
    pub const FAST: u32 = 1 << 8;
    /// Allowed before AUTH.
    pub const NO_AUTH: u32 = 1 << 9;
    /// Not within MULTI.
    pub const NO_MULTI: u32 = 1 << 10;
    /// May wait.
    pub const BLOCKING: u32 = 1 << 11;
    /// Runs at once even within MULTI (EXEC, DISCARD, MULTI, WATCH, QUIT, RESET).
    pub const NO_QUEUE: u32 = 1 << 12;
    /// Allowed while a RESP2 client is subscribed.
    pub const SUBSCRIBER: u32 = 1 << 13;
    /// Never in SLOWLOG.
    pub const SKIP_SLOWLOG: u32 = 1 << 14;
    /// The keys' places depend on the arguments.
    pub const MOVABLE_KEYS: u32 = 1 << 15;
    /// May write through other commands (EXEC, PUBLISH): held by CLIENT PAUSE WRITE.
    pub const MAY_WRITE: u32 = 1 << 17;
    /// Runs while CLIENT PAUSE holds others.
    pub const NO_PAUSE: u32 = 1 << 16;

    /// The bits' names in COMMAND's words; those that it does not report are absent.
    pub const NAMES: &[(u32, &str)] = &[
        (WRITE, "write"),
        (READONLY, "readonly"),
        (DENYOOM, "denyoom"),
        (ADMIN, "admin"),
        (PUBSUB, "pubsub"),
        (NOSCRIPT, "noscript"),
        (BLOCKING, "blocking"),
        (LOADING, "loading"),
        (STALE, "stale"),
        (SKIP_SLOWLOG, "skip_slowlog"),
        (FAST, "fast"),
        (NO_AUTH, "no_auth"),
        (NO_MULTI, "no_multi"),
        (MOVABLE_KEYS, "movablekeys"),
    ];
}

/// One command.
pub struct Spec {
    /// In lower case.
    pub name: &'static str,
    /// Redis's arity: with the name; negative: at least.
    pub arity: i16,
    /// Bits of `flag`.
    pub flags: u32,
    /// Where its keys stand.
    pub keys: Keys,
    /// The group in COMMAND DOCS.
    pub group: &'static str,
    /// The Redis version that brought it.
    pub since: &'static str,
    /// One line for COMMAND DOCS.
    pub summary: &'static str,
    /// The code.
    pub run: fn(&mut Ctx<'_, '_>, Args<'_>),
}

impl Spec {
    /// Whether so many arguments, the name included, can be right.
    pub fn accepts(&self, count: usize) -> bool {
        let arity = self.arity as isize;
        if arity >= 0 {
            count as isize == arity
        } else {
            count as isize >= -arity
        }
    }

    /// Whether all of these bits are set.
    pub fn has(&self, flags: u32) -> bool {
        self.flags & flags == flags
    }
}

/// A command's place in `table()`.
pub type SpecIndex = u16;

/// All families, each in its own file.
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
    connection::TABLE,
    transaction::TABLE,
    client::TABLE,
    config::TABLE,
    pubsub::TABLE,
    introspection::TABLE,
    latency::TABLE,
    server::TABLE,
];

/// Slots of the lookup table: a power of two, several times the number of commands.
const SLOTS: usize = 2048;

struct Lookup {
    specs: Vec<&'static Spec>,
    slots: Vec<SpecIndex>,
}

static LOOKUP: LazyLock<Lookup> = LazyLock::new(|| {
    let specs: Vec<&'static Spec> = FAMILIES.iter().flat_map(|family| family.iter()).collect();
    assert!(specs.len() * 2 < SLOTS);
    let mut slots = vec![SpecIndex::MAX; SLOTS];
    for (index, spec) in specs.iter().enumerate() {
        let mut slot = slot_of(spec.name.as_bytes());
        while slots[slot] != SpecIndex::MAX {
            slot = (slot + 1) % SLOTS;
        }
        slots[slot] = index as SpecIndex;
    }
    Lookup { specs, slots }
});

/// Mixes the first eight bytes and the length; the fold by 0x20 makes letters lower-case and only
/// spreads others, since the candidate is compared in full afterwards.
fn slot_of(name: &[u8]) -> usize {
    let mut word = [0u8; 8];
    let len = name.len().min(8);
    word[..len].copy_from_slice(&name[..len]);
    let tail = name.last().map_or(0, |byte| u64::from(byte | 0x20));
    let folded =
        (u64::from_le_bytes(word) | 0x2020_2020_2020_2020) ^ (name.len() as u64) << 57 ^ tail << 48;
    (folded.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 53) as usize % SLOTS
}

/// All commands, in the order of their families.
pub fn table() -> &'static [&'static Spec] {
    &LOOKUP.specs
}

/// The command of this name, in any case.
pub fn lookup(name: &[u8]) -> Option<SpecIndex> {
    let lookup = &*LOOKUP;
    let mut slot = slot_of(name);
    loop {
        let index = lookup.slots[slot];
        if index == SpecIndex::MAX {
            return None;
        }
        if lookup.specs[index as usize]
            .name
            .as_bytes()
            .eq_ignore_ascii_case(name)
        {
            return Some(index);
        }
        slot = (slot + 1) % SLOTS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_found_in_any_case_and_stands_once() {
        for (index, spec) in table().iter().enumerate() {
            assert_eq!(lookup(spec.name.as_bytes()), Some(index as SpecIndex));
            let upper = spec.name.to_ascii_uppercase();
            assert_eq!(lookup(upper.as_bytes()), Some(index as SpecIndex));
            assert_eq!(spec.name, spec.name.to_ascii_lowercase());
            assert!(spec.arity != 0);
        }
        assert_eq!(lookup(b"nonsense"), None);
        assert_eq!(lookup(b""), None);
    }
}
