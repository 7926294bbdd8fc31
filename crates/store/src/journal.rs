//! Removals that no command has requested, of expired keys and elements and of evicted keys, and
//! deadlines that no command has named. While recording is on, each shard collects them, so that
//! they can be passed to readers without a clock or policy of their own (`View::set_recording`).

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
    /// Nothing was lost: the rules of the key's class, or a read in a class that slides, have set
    /// this deadline.
    NewDeadline(Tick),
    /// These elements of a collection have expired. For a stream, only entries with their own
    /// deadlines are named; entries that are too old are not.
    Elements(Class, Vec<Vec<u8>>),
}

/// One removal or new deadline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    /// Number of the database.
    pub db: u8,
    /// Bytes of the key.
    pub key: Vec<u8>,
    /// What has happened to it.
    pub lost: Lost,
}

/// Removals and new deadlines in one shard, oldest first.
pub(crate) type Journal = Vec<Removed>;
