//! Use of keys and channels by a command, as its row in the table declares it.

use usage::{ACCESS, DELETE, INSERT, OW, RM, RO, RW, UPDATE};
use wire::Args;

/// Use of a key by a command: bits of [`usage`].
pub type Use = u8;

/// Bits of a [`Use`]. The first four describe the effect on the key regardless of its value, and
/// the others the effect on the value.
pub mod usage {
    use super::Use;

    /// Reads the key.
    pub const RO: Use = 1;
    /// Changes the key.
    pub const RW: Use = 1 << 1;
    /// Overwrites the key.
    pub const OW: Use = 1 << 2;
    /// Removes the key.
    pub const RM: Use = 1 << 3;
    /// Returns the value or data derived from it.
    pub const ACCESS: Use = 1 << 4;
    /// Replaces the value or a part of it.
    pub const UPDATE: Use = 1 << 5;
    /// Adds to the value.
    pub const INSERT: Use = 1 << 6;
    /// Removes from the value.
    pub const DELETE: Use = 1 << 7;

    /// Names of the bits in the replies of COMMAND INFO and COMMAND GETKEYSANDFLAGS.
    pub const NAMES: &[(Use, &str)] = &[
        (RO, "RO"),
        (RW, "RW"),
        (OW, "OW"),
        (RM, "RM"),
        (ACCESS, "access"),
        (UPDATE, "update"),
        (INSERT, "insert"),
        (DELETE, "delete"),
    ];
}

/// Use of keys and channels by a command. The constants are the uses that occur; [`Access::then`]
/// and [`Access::by`] combine them.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// Use of the first key.
    pub first: Use,
    /// Use of the further keys, if it differs from that of the first one.
    pub further: Option<Use>,
    /// Channels among the arguments.
    pub channels: Channels,
    /// Function that returns the use of a call's keys, if it depends on the arguments.
    by_arguments: Option<fn(Args<'_>) -> Access>,
}

/// Channels among the arguments of a command, on which the user needs rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channels {
    /// No keys, or none that need rights.
    None,
    /// The first argument.
    First,
    /// All arguments.
    Each,
    /// All arguments, which are patterns of channels.
    EachPattern,
}

impl Access {
    /// Returns whether the key exists, or its type or length.
    pub const INSPECT: Access = Access::of_keys(RO);
    /// Returns the value or data derived from it.
    pub const READ: Access = Access::of_keys(RO | ACCESS);
    /// Changes the representation of the value but not the value itself, and returns data derived
    /// from it.
    pub const ENCODE: Access = Access::of_keys(RW | ACCESS);
    /// Changes the value without returning data derived from it.
    pub const CHANGE: Access = Access::of_keys(RW | UPDATE);
    /// Changes the value and returns data derived from it.
    pub const UPDATE: Access = Access::of_keys(RW | ACCESS | UPDATE);
    /// Adds elements, or creates the value if it is missing.
    pub const INSERT: Access = Access::of_keys(RW | INSERT);
    /// Adds elements that depend on the existing ones.
    pub const MERGE: Access = Access::of_keys(RW | ACCESS | INSERT);
    /// Removes elements, or the key if its value meets a condition.
    pub const DELETE: Access = Access::of_keys(RW | DELETE);
    /// Removes elements or the key, and returns data derived from the value.
    pub const TAKE: Access = Access::of_keys(RW | ACCESS | DELETE);
    /// Changes some elements and removes others.
    pub const UPDATE_OR_DELETE: Access = Access::of_keys(RW | UPDATE | DELETE);
    /// Replaces the value, regardless of its previous contents.
    pub const OVERWRITE: Access = Access::of_keys(OW | UPDATE);
    /// Creates a key that was missing.
    pub const CREATE: Access = Access::of_keys(OW | INSERT);
    /// Removes the key, regardless of its value.
    pub const REMOVE: Access = Access::of_keys(RM | DELETE);

    /// Uses the channel that is the first argument.
    pub const CHANNEL: Access = Access::of_channels(Channels::First);
    /// Uses the channels that are the arguments.
    pub const CHANNELS: Access = Access::of_channels(Channels::Each);
    /// Uses the channels that match the patterns that are the arguments.
    pub const PATTERNS: Access = Access::of_channels(Channels::EachPattern);
    /// Uses channels without needing a right to them: ends the client's own subscriptions, or
    /// counts subscribers.
    pub const UNCHECKED_CHANNELS: Access = Access::of_channels(Channels::None);

    const fn of_keys(first: Use) -> Access {
        Access {
            first,
            further: None,
            channels: Channels::None,
            by_arguments: None,
        }
    }

    const fn of_channels(channels: Channels) -> Access {
        Access {
            channels,
            ..Access::of_keys(0)
        }
    }

    /// Adds the use of the further keys.
    pub const fn then(self, further: Access) -> Access {
        Access {
            further: Some(further.first),
            ..self
        }
    }

    /// Adds the function that returns the use of a call's keys. COMMAND INFO reports `self`.
    pub const fn by(self, by_arguments: fn(Args<'_>) -> Access) -> Access {
        Access {
            by_arguments: Some(by_arguments),
            ..self
        }
    }

    /// Returns the use of a call's keys.
    pub fn of_call(self, args: Args<'_>) -> Access {
        self.by_arguments.map_or(self, |of_call| of_call(args))
    }
}
