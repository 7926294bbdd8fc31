//! Specification of a command: its row in the table without the code. The table finds a command by
//! its name.
//!
//! The type of a command's code is a type parameter, so that modules below the commands can use
//! this module.

mod access;
mod form;

pub use access::{Access, Channels, Use, usage};
pub use form::Form;

use std::collections::HashMap;
use std::ops::Deref;
use wire::Args;

/// Maximum number of commands and subcommands: the size of the statistics by command.
pub const COMMANDS_MAX: usize = 512;

/// Index of a command in the table.
pub type SpecIndex = u16;

/// Positions of a command's keys among its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// No keys. The command concerns the server or the session.
    None,
    /// No named keys, but the command reads or changes the whole keyspace and therefore locks all
    /// shards.
    Whole,
    /// As `Whole` if the first argument is one of these words, and otherwise as `None` (CLUSTER).
    WholeIf(&'static [&'static str]),
    /// The argument after the first one, if the first is one of these words (DEBUG).
    After(&'static [&'static str]),
    /// Every `step`-th argument from index `first` to index `last`, in the order `first`, `last`,
    /// `step` of the COMMAND reply. A negative `last` counts from the end.
    Range(i16, i16, i16),
    /// The argument at this index is the number of keys that follow it.
    Counted(i16),
    /// Like `Counted`, but for a script, which may access further keys.
    Script(i16),
    /// The first argument and further keys, whose number is the argument at this index
    /// (ZUNIONSTORE).
    FirstAndCounted(i16),
    /// Like `Counted`, but the keys are every n-th argument after the number. The second value is n
    /// (MSETEX).
    CountedStep(i16, i16),
    /// The first half of the arguments after STREAMS, which is searched from this index on (XREAD).
    Streams(i16),
    /// The first argument and the one after STORE. A pattern among the options may refer to any
    /// key, so that all shards are locked (SORT).
    Sort,
    /// The first argument and those after STORE and STOREDIST, which may follow from this index on
    /// (GEORADIUS).
    FirstAndStored(i16),
    /// The keys of the queued commands and the watched keys, none of which are arguments (EXEC).
    Queued,
    /// No keys among the arguments, but the watched keys (UNWATCH, DISCARD, RESET).
    Watched,
}

impl Keys {
    /// The first argument.
    pub const ONE: Keys = Keys::Range(1, 1, 1);

    /// Whether some of the arguments may be keys.
    pub const fn are_named(&self) -> bool {
        !matches!(
            self,
            Keys::None | Keys::Whole | Keys::WholeIf(_) | Keys::Queued | Keys::Watched
        )
    }

    /// Returns the number of keys in `args`.
    pub fn count(&self, args: Args<'_>) -> usize {
        let mut count = 0;
        self.each(args, |_| count += 1);
        count
    }

    /// Calls `each` with the index of every key in `args`. A count that is too large is reduced to
    /// the number of arguments.
    pub fn each(&self, args: Args<'_>, mut each: impl FnMut(usize)) {
        let len = args.len() as i64;
        let (first, last, step) = match *self {
            Keys::None | Keys::Whole | Keys::WholeIf(_) | Keys::Queued | Keys::Watched => return,
            Keys::Range(first, last, step) => {
                let last = i64::from(last);
                let last = if last < 0 { len + last } else { last };
                (i64::from(first), last, i64::from(step))
            }
            Keys::After(words) => {
                if args.len() > 2 && words.iter().any(|word| args.is(1, word)) {
                    each(2);
                }
                return;
            }
            Keys::Counted(at) | Keys::Script(at) => counted(args, at, 1),
            Keys::FirstAndCounted(at) => {
                each(1);
                counted(args, at, 1)
            }
            Keys::CountedStep(at, step) => counted(args, at, step),
            Keys::FirstAndStored(from) => {
                let is_store = |at: &usize| {
                    ["store", "storedist"]
                        .iter()
                        .any(|word| args.is(at - 1, word))
                };
                let from = from as usize + 1;
                (from..args.len()).filter(is_store).for_each(&mut each);
                (1, 1, 1)
            }
            Keys::Streams(at) => {
                let mut words = at as usize..args.len();
                let Some(first) = words.find(|&index| args.is(index, "streams")) else {
                    return;
                };
                let count = (len - first as i64 - 1) / 2;
                (first as i64 + 1, first as i64 + count, 1)
            }
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

    /// Whether the command may access keys that are not among its arguments, so that it must lock
    /// all shards.
    pub fn reach_beyond(&self, args: Args<'_>) -> bool {
        let has_star = |arg: &[u8]| arg.contains(&b'*');
        match *self {
            Keys::Whole | Keys::Script(_) => true,
            Keys::WholeIf(words) => words.iter().any(|word| args.is(1, word)),
            Keys::Sort => args.from(2).iter().any(has_star),
            _ => false,
        }
    }
}

/// Returns the first index, last index and step of keys whose number is the argument at `at`.
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

/// Bits of `Spec::flags`, which dispatch checks and COMMAND reports.
pub mod flag {
    /// May change keys.
    pub const WRITE: u32 = 1;
    /// Only reads keys.
    pub const READONLY: u32 = 1 << 1;
    /// Refused when memory is full and nothing can be evicted.
    pub const DENYOOM: u32 = 1 << 2;
    /// For administrators only.
    pub const ADMIN: u32 = 1 << 3;
    /// Concerns channels.
    pub const PUBSUB: u32 = 1 << 4;
    /// Not allowed in scripts.
    pub const NOSCRIPT: u32 = 1 << 5;
    /// Allowed while loading.
    pub const LOADING: u32 = 1 << 6;
    /// Allowed on a stale replica.
    pub const STALE: u32 = 1 << 7;
    /// Constant or logarithmic time.
    pub const FAST: u32 = 1 << 8;
    /// Allowed before AUTH.
    pub const NO_AUTH: u32 = 1 << 9;
    /// Not allowed within MULTI.
    pub const NO_MULTI: u32 = 1 << 10;
    /// May block.
    pub const BLOCKING: u32 = 1 << 11;
    /// Runs immediately even within MULTI (EXEC, DISCARD, MULTI, WATCH, QUIT, RESET).
    pub const NO_QUEUE: u32 = 1 << 12;
    /// Allowed for a subscribed RESP2 client.
    pub const SUBSCRIBER: u32 = 1 << 13;
    /// Never recorded in SLOWLOG.
    pub const SKIP_SLOWLOG: u32 = 1 << 14;
    /// The positions of the keys depend on the arguments.
    pub const MOVABLE_KEYS: u32 = 1 << 15;
    /// May write through other commands (EXEC, PUBLISH) or a result that it stores (PFCOUNT): held
    /// by CLIENT PAUSE WRITE, and refused in scripts that only read.
    pub const MAY_WRITE: u32 = 1 << 17;
    /// Runs while CLIENT PAUSE holds others.
    pub const NO_PAUSE: u32 = 1 << 16;

    /// Has subcommands, which are in the table of subcommands.
    pub const CONTAINER: u32 = 1 << 24;
    /// May authenticate the client: delayed after failed authentications from its address.
    pub const LOGIN: u32 = 1 << 25;
    /// Allowed only to the clients that `enable-debug-command` names.
    pub const PROTECTED: u32 = 1 << 27;
    /// Sends its reply even if CLIENT REPLY has disabled replies, because it is a message to a
    /// subscriber.
    pub const PUSHES: u32 = 1 << 26;
    /// Makes the server keep memory for the client for as long as it is connected. Refused when
    /// memory is full and the clients together hold more than their share of it.
    pub const KEEPS: u32 = 1 << 28;

    /// Takes an amount of time that is bounded neither by its arguments nor by its reply: it copies
    /// or hashes a stored value, or concerns all subscribers, watched keys or subscriptions.
    pub const UNBOUNDED: u32 = 1 << 29;
    /// Not shown by MONITOR before the command runs, because it has passwords or shows itself later
    /// (EXEC).
    pub const SKIP_MONITOR: u32 = 1 << 30;

    /// Names of the flags in COMMAND's replies. Flags without a name are internal and not reported.
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

/// Whether a row with these flags states the form of its effect: the command may write. A container
/// leaves that to its subcommands.
pub const fn needs_form(flags: u32) -> bool {
    flags & (flag::WRITE | flag::MAY_WRITE) != 0 && flags & flag::CONTAINER == 0
}

/// Whether a row with these flags and keys states its access: the command uses keys or channels. A
/// container leaves that to its subcommands.
pub const fn needs_access(flags: u32, keys: Keys) -> bool {
    let uses_some = keys.are_named() || flags & flag::PUBSUB != 0;
    uses_some && flags & flag::CONTAINER == 0
}

/// One command.
pub struct Spec<R> {
    /// Name in lower case.
    pub name: &'static str,
    /// Number of arguments including the name, as in Redis; a negative number is a minimum.
    pub arity: i16,
    /// Bits of `flag`.
    pub flags: u32,
    /// Positions of the keys.
    pub keys: Keys,
    /// Use of the keys or channels. `None` if there are none, or for a container.
    pub access: Option<Access>,
    /// Form of the effect. `None` if the command only reads, or for a container.
    pub form: Option<Form>,
    /// Group in COMMAND DOCS.
    pub group: &'static str,
    /// Set of the ACL categories that do not follow from the flags. Its subcommands have them too.
    pub categories: u32,
    /// Version of Redis that introduced the command, or the name of another server that has it.
    pub since: &'static str,
    /// Arguments for COMMAND DOCS.
    pub syntax: &'static str,
    /// Description for COMMAND DOCS, one line.
    pub summary: &'static str,
    /// Subcommands, sorted by name.
    pub subcommands: &'static [Subcommand],
    /// Function that executes the command. Its type is defined in a module above this one.
    pub run: R,
}

impl<R> Spec<R> {
    /// Whether a command may have `count` arguments, including the name.
    pub fn accepts(&self, count: usize) -> bool {
        is_accepted(self.arity, count)
    }

    /// Index of the first key, if it does not depend on the arguments.
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

/// Whether a command of this arity may have `count` arguments, including its name.
fn is_accepted(arity: i16, count: usize) -> bool {
    let arity = arity as isize;
    if arity >= 0 {
        count as isize == arity
    } else {
        count as isize >= -arity
    }
}

/// One subcommand of a container command.
#[derive(Debug)]
pub struct Subcommand {
    /// Name of the command and of the subcommand in lower case, such as `client|list`.
    pub name: &'static str,
    /// Number of arguments including both names; a negative number is a minimum.
    pub arity: i16,
    /// Bits of `flag`.
    pub flags: u32,
    /// Positions of the keys.
    pub keys: Keys,
    /// Use of the keys; `None` if there are none.
    pub access: Option<Access>,
    /// Form of the effect; `None` if the subcommand only reads.
    pub form: Option<Form>,
    /// Version of Redis that introduced the subcommand.
    pub since: &'static str,
    /// Arguments for COMMAND DOCS.
    pub syntax: &'static str,
    /// Description for COMMAND DOCS, one line.
    pub summary: &'static str,
}

impl Subcommand {
    /// Whether the subcommand may have `count` arguments, including both names.
    pub fn accepts(&self, count: usize) -> bool {
        is_accepted(self.arity, count)
    }

    /// Returns the names of the container and of the subcommand.
    pub fn parts(&self) -> (&'static str, &'static str) {
        self.name.split_once('|').unwrap_or((self.name, ""))
    }
}

/// A command of the table with the subcommand that its arguments select.
pub struct Chosen<R: 'static> {
    /// The command.
    pub spec: &'static Spec<R>,
    /// Index of the command in the table.
    pub index: SpecIndex,
    /// The subcommand and its index, if the command is a container and has it.
    pub subcommand: Option<(SpecIndex, &'static Subcommand)>,
    /// Whether the command is a container without such a subcommand.
    pub is_unknown: bool,
}

impl<R> Clone for Chosen<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Chosen<R> {}

impl<R> Chosen<R> {
    /// Returns the index in the statistics. A command with an unknown subcommand is not counted.
    pub fn counted(&self) -> Option<SpecIndex> {
        let index = self.subcommand.map_or(self.index, |(index, _)| index);
        (!self.is_unknown).then_some(index)
    }

    /// Returns the flags of the subcommand or, without one, of the command.
    pub fn flags(&self) -> u32 {
        self.subcommand
            .map_or(self.spec.flags, |(_, subcommand)| subcommand.flags)
    }

    /// Returns the use of the keys or channels.
    pub fn access(&self) -> Option<Access> {
        self.subcommand
            .map_or(self.spec.access, |(_, subcommand)| subcommand.access)
    }

    /// Returns the form of the effect; `None` if the call only reads.
    pub fn form(&self) -> Option<Form> {
        self.subcommand
            .map_or(self.spec.form, |(_, subcommand)| subcommand.form)
    }

    /// Whether the command and its subcommand may have `count` arguments, including the names.
    pub fn accepts(&self, count: usize) -> bool {
        self.spec.accepts(count)
            && self
                .subcommand
                .is_none_or(|(_, subcommand)| subcommand.accepts(count))
    }
}

/// All commands, found by name, and their subcommands. The index of a subcommand is its position
/// after all commands.
pub struct Table<R: 'static> {
    specs: Vec<&'static Spec<R>>,
    /// Name by which clients call each command; empty if they cannot call it.
    names: Vec<String>,
    slots: Vec<NameSlot>,
    /// Commands by the names of their specifications.
    own_names: HashMap<&'static str, SpecIndex>,
    /// Subcommands of all containers, sorted by name.
    subcommands: Vec<&'static Subcommand>,
}

/// Slots of the lookup table: a power of two, several times the number of commands.
const SLOTS: usize = 2048;

/// Number of bytes of a name that are compared as one number.
const WORD_BYTES: usize = 8;

/// Slot of the lookup table. A name of up to [`WORD_BYTES`] bytes, which most names are, is
/// compared with one instruction.
#[derive(Clone, Copy)]
struct NameSlot {
    /// First bytes of the name in lower case, the first one in the lowest bits.
    word: u64,
    /// Bit 0x20 of each of these bytes that is a letter. Setting these bits in another word makes
    /// its letters lower-case and leaves the other bytes unchanged.
    letters: u64,
    len: u32,
    /// Index of the command; [`SpecIndex::MAX`] if the slot is empty.
    index: SpecIndex,
}

const EMPTY_SLOT: NameSlot = NameSlot {
    word: 0,
    letters: 0,
    len: 0,
    index: SpecIndex::MAX,
};

impl<R> Table<R> {
    /// Creates the table of these families, in their order, and of their subcommands.
    ///
    /// # Panics
    /// There are more than [`COMMANDS_MAX`] commands and subcommands.
    pub fn new(families: &[&'static [Spec<R>]]) -> Table<R> {
        let specs: Vec<&'static Spec<R>> =
            families.iter().flat_map(|family| family.iter()).collect();
        let subcommands = specs.iter().flat_map(|spec| spec.subcommands);
        let mut subcommands: Vec<&'static Subcommand> = subcommands.collect();
        subcommands.sort_unstable_by_key(|subcommand| subcommand.name);
        assert!(specs.len() + subcommands.len() <= COMMANDS_MAX && specs.len() * 2 < SLOTS);
        let own_names = specs.iter().zip(0..);
        let mut table = Table {
            own_names: own_names.map(|(spec, index)| (spec.name, index)).collect(),
            names: specs.iter().map(|spec| spec.name.to_owned()).collect(),
            specs,
            slots: Vec::new(),
            subcommands,
        };
        table.fill_slots();
        table
    }

    fn fill_slots(&mut self) {
        self.slots = vec![EMPTY_SLOT; SLOTS];
        for (index, name) in self.names.iter().enumerate() {
            if name.is_empty() {
                continue;
            }
            let word = word_of(name.as_bytes());
            let mut slot = slot_of(word, name.as_bytes());
            while self.slots[slot].index != SpecIndex::MAX {
                slot = (slot + 1) % SLOTS;
            }
            let letter = |byte: u8| if byte.is_ascii_lowercase() { 0x20 } else { 0 };
            self.slots[slot] = NameSlot {
                word,
                letters: u64::from_le_bytes(word.to_le_bytes().map(letter)),
                len: name.len() as u32,
                index: index as SpecIndex,
            };
        }
    }

    /// Gives a command another name for its callers; an empty one removes it. Reports and
    /// statistics keep the name of the specification.
    ///
    /// # Errors
    /// No command has the name, or another command already has the new name.
    pub fn rename(&mut self, name: &str, new: &str) -> Result<(), String> {
        let found = self.lookup(name.as_bytes());
        let index = found.ok_or_else(|| "no command has this name".to_owned())?;
        if !new.is_empty() && self.lookup(new.as_bytes()).is_some() {
            return Err(format!("another command has the name '{new}'"));
        }
        self.names[index as usize] = new.to_ascii_lowercase();
        self.fill_slots();
        Ok(())
    }

    /// Whether clients can call the command with this index, so that it was not removed.
    pub fn is_callable(&self, index: usize) -> bool {
        self.names.get(index).is_some_and(|name| !name.is_empty())
    }

    /// Returns the index of the command with this name. Case is ignored.
    #[inline]
    pub fn lookup(&self, name: &[u8]) -> Option<SpecIndex> {
        let word = word_of(name);
        let mut slot = slot_of(word, name);
        loop {
            let found = &self.slots[slot];
            if found.index == SpecIndex::MAX {
                return None;
            }
            if word | found.letters == found.word
                && name.len() == found.len as usize
                && (name.len() <= WORD_BYTES || self.has_tail(found.index, name))
            {
                return Some(found.index);
            }
            slot = (slot + 1) % SLOTS;
        }
    }

    /// Returns the index of the command whose specification has this name, regardless of
    /// `rename-command`. Case is ignored.
    pub fn lookup_own(&self, name: &[u8]) -> Option<SpecIndex> {
        let name = name.to_ascii_lowercase();
        let name = std::str::from_utf8(&name).ok()?;
        self.own_names.get(name).copied()
    }

    /// Whether a long name ends like a command's name. Case is ignored.
    #[inline(never)]
    fn has_tail(&self, index: SpecIndex, name: &[u8]) -> bool {
        let own = &self.names[index as usize].as_bytes()[WORD_BYTES..];
        own.eq_ignore_ascii_case(&name[WORD_BYTES..])
    }

    /// Returns the command with this index and the subcommand that the arguments select.
    #[inline]
    pub fn choose(&self, index: SpecIndex, args: Args<'_>) -> Chosen<R> {
        let mut chosen = self.plain(index);
        if chosen.spec.has(flag::CONTAINER) {
            self.choose_subcommand(&mut chosen, args);
        }
        chosen
    }

    /// Returns the command with this index without a subcommand.
    #[inline]
    pub fn plain(&self, index: SpecIndex) -> Chosen<R> {
        Chosen {
            spec: self.specs[index as usize],
            index,
            subcommand: None,
            is_unknown: false,
        }
    }

    /// Adds the subcommand that the arguments select to a container command.
    #[inline(never)]
    pub fn choose_subcommand(&self, chosen: &mut Chosen<R>, args: Args<'_>) {
        if let Some(word) = args.get(1) {
            chosen.subcommand = self.subcommand(chosen.spec, word);
            chosen.is_unknown = chosen.subcommand.is_none();
        }
    }

    /// Returns the flags for a call of this command: its subcommand's flags, if it has one.
    #[inline]
    pub fn flags_of(&self, spec: &Spec<R>, args: Args<'_>) -> u32 {
        if !spec.has(flag::CONTAINER) {
            return spec.flags;
        }
        let word = args.get(1).unwrap_or_default();
        self.subcommand(spec, word)
            .map_or(spec.flags, |(_, subcommand)| subcommand.flags)
    }

    /// Returns the subcommands of all containers, sorted by name.
    pub fn subcommands(&self) -> &[&'static Subcommand] {
        &self.subcommands
    }

    /// Returns the subcommand of this command with the name `word`, and its index. Case is ignored.
    pub fn subcommand(
        &self,
        command: &Spec<R>,
        word: &[u8],
    ) -> Option<(SpecIndex, &'static Subcommand)> {
        let all = &self.subcommands;
        let first = all.partition_point(|other| other.parts().0 < command.name);
        for (at, subcommand) in all.iter().enumerate().skip(first) {
            let (container, name) = subcommand.parts();
            if container != command.name {
                break;
            }
            if name.as_bytes().eq_ignore_ascii_case(word) {
                return Some(((self.specs.len() + at) as SpecIndex, subcommand));
            }
        }
        None
    }

    /// Returns the name of the command or subcommand with this index; `NULL` if there is none, as
    /// in CLIENT LIST.
    pub fn name(&self, index: SpecIndex) -> &'static str {
        let index = index as usize;
        match self.specs.get(index) {
            Some(spec) => spec.name,
            None => {
                let subcommand = self.subcommands.get(index.wrapping_sub(self.specs.len()));
                subcommand.map_or("NULL", |subcommand| subcommand.name)
            }
        }
    }

    /// Returns the family of the command or subcommand with this index; empty if there is none.
    pub fn group(&self, index: usize) -> &'static str {
        let spec = self.specs.get(index).copied().or_else(|| {
            let subcommand = self.subcommands.get(index.checked_sub(self.specs.len())?)?;
            let container = subcommand.parts().0;
            self.specs
                .iter()
                .copied()
                .find(|spec| spec.name == container)
        });
        spec.map_or("", |spec| spec.group)
    }

    /// Returns the index and the name of every command and subcommand.
    pub fn names(&self) -> impl Iterator<Item = (usize, &'static str)> {
        let commands = self.specs.iter().map(|spec| spec.name);
        let subcommands = self.subcommands.iter().map(|subcommand| subcommand.name);
        commands.chain(subcommands).enumerate()
    }
}

impl<R> Deref for Table<R> {
    type Target = [&'static Spec<R>];

    fn deref(&self) -> &Self::Target {
        &self.specs
    }
}

/// Returns the first bytes of a name as a number.
#[inline]
fn word_of(name: &[u8]) -> u64 {
    let half = |at: usize| {
        name[at..]
            .first_chunk()
            .map_or(0, |four| u32::from_le_bytes(*four))
    };
    match *name {
        [] => 0,
        [a] => u64::from_le_bytes([a, 0, 0, 0, 0, 0, 0, 0]),
        [a, b] => u64::from_le_bytes([a, b, 0, 0, 0, 0, 0, 0]),
        [a, b, c] => u64::from_le_bytes([a, b, c, 0, 0, 0, 0, 0]),
        _ => {
            // The two halves overlap if there are fewer than eight bytes.
            let end = name.len().min(WORD_BYTES) - 4;
            u64::from(half(0)) | u64::from(half(end)) << (8 * end)
        }
    }
}

/// Hashes the first bytes of a name, its last byte and its length. Setting bit 0x20 makes letters
/// lower-case. It also changes other bytes, which is harmless because the names are compared.
#[inline]
fn slot_of(word: u64, name: &[u8]) -> usize {
    let tail = name.last().map_or(0, |byte| u64::from(byte | 0x20));
    let folded = (word | 0x2020_2020_2020_2020) ^ (name.len() as u64) << 57 ^ tail << 48;
    (folded.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 52) as usize % SLOTS
}
