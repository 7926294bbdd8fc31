//! Removals that no command has requested: expired keys and elements, and evicted keys; and
//! deadlines that a command has not named. While
//! recording is on, each shard collects them, so that they can be passed to readers without a clock
//! or policy of their own (`View::set_recording`).

use crate::event::Class;
use policy::Tick;

/// Loss of a key or of parts of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The key has expired, or all its elements have.
    Expired,
    /// The key was evicted.
    Evicted,
    /// The key has expired or was evicted while its value was lent ([`crate::View::lend`]). This is
    /// recorded when the value comes back.
    WhileLent,
    /// The key was not lost, but got this deadline by the rules of its class, or because it was
    /// read.
    TimeAfter(Tick),
    /// These elements of a collection have expired. For a stream, only entries with their own
    /// deadlines are named; entries that are too old are not.
    Elements(Class, Vec<Vec<u8>>),
}

/// One removal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    /// Number of the database.
    pub db: u8,
    /// Bytes of the key.
    pub key: Vec<u8>,
    /// What was removed.
    pub lost: Lost,
}

/// Removals in one shard, oldest first.
pub(crate) type Journal = Vec<Removed>;
