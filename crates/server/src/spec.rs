//! What the server states about each command: name, arity, flags, keys, summary. The table finds a
//! command by its name.
//!
//! The code of a command is of a type parameter, so that modules below the commands can use this one.

use std::ops::Deref;
use wire::Args;

/// Maximum number of commands: the size of the statistics by command.
pub const COMMANDS_MAX: usize = 256;

/// Index of a command in the table.
pub type SpecIndex = u16;

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
pub struct Spec<R> {
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
    /// The code, of a type that this module does not depend on.
    pub run: R,
}

impl<R> Spec<R> {
    /// Whether so many arguments, the name included, can be right.
    pub fn accepts(&self, count: usize) -> bool {
        let arity = self.arity as isize;
        if arity >= 0 {
            count as isize == arity
        } else {
            count as isize >= -arity
        }
    }

    /// Index of the first key among the arguments, if it does not depend on them.
    pub fn first_key(&self) -> Option<usize> {
        match self.keys {
            Keys::Range(first, _, _) => Some(first as usize),
            _ => None,
        }
    }

    /// Whether all of these bits are set.
    pub fn has(&self, flags: u32) -> bool {
        self.flags & flags == flags
    }
}

/// All commands, found by name.
pub struct Table<R: 'static> {
    specs: Vec<&'static Spec<R>>,
    slots: Vec<SpecIndex>,
}

/// Slots of the lookup table: a power of two, several times the number of commands.
const SLOTS: usize = 2048;

impl<R> Table<R> {
    /// The table of these families, in their order.
    ///
    /// # Panics
    /// More than [`COMMANDS_MAX`] commands.
    pub fn new(families: &[&'static [Spec<R>]]) -> Table<R> {
        let specs: Vec<&'static Spec<R>> =
            families.iter().flat_map(|family| family.iter()).collect();
        assert!(specs.len() <= COMMANDS_MAX && specs.len() * 2 < SLOTS);
        let mut slots = vec![SpecIndex::MAX; SLOTS];
        for (index, spec) in specs.iter().enumerate() {
            let mut slot = slot_of(spec.name.as_bytes());
            while slots[slot] != SpecIndex::MAX {
                slot = (slot + 1) % SLOTS;
            }
            slots[slot] = index as SpecIndex;
        }
        Table { specs, slots }
    }

    /// The command of this name, in any case.
    pub fn lookup(&self, name: &[u8]) -> Option<SpecIndex> {
        let mut slot = slot_of(name);
        loop {
            let index = self.slots[slot];
            if index == SpecIndex::MAX {
                return None;
            }
            let found = self.specs[index as usize].name.as_bytes();
            if found.eq_ignore_ascii_case(name) {
                return Some(index);
            }
            slot = (slot + 1) % SLOTS;
        }
    }

    /// Name of the command with this index; `NULL` if there is none, as CLIENT LIST shows it.
    pub fn name(&self, index: SpecIndex) -> &'static str {
        self.specs
            .get(index as usize)
            .map_or("NULL", |spec| spec.name)
    }
}

impl<R> Deref for Table<R> {
    type Target = [&'static Spec<R>];

    fn deref(&self) -> &Self::Target {
        &self.specs
    }
}

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
