//! Specification of a command: its row in the table without the code. The table finds a command by
//! its name.
//!
//! The type of a command's code is a type parameter, so that modules below the commands can use
//! this module.

mod access;
mod form;
mod keys;
mod table;

pub use access::{Access, Channels, Use, usage};
pub use form::Form;
pub use keys::Keys;
pub use table::Table;

/// Maximum number of commands and subcommands: the size of the statistics by command.
pub const COMMANDS_MAX: usize = 512;

/// Index of a command in the table.
pub type SpecIndex = u16;

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
