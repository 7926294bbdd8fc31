//! Events of keys, which the server turns into keyspace notifications.

/// Classes of `notify-keyspace-events`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// `g`: del, expire, rename …
    Generic,
    /// `$`
    String,
    /// `l`
    List,
    /// `s`
    Set,
    /// `h`
    Hash,
    /// `z`
    SortedSet,
    /// `x`
    Expired,
    /// `e`
    Evicted,
    /// `t`
    Stream,
    /// `d`
    Module,
    /// `m`
    KeyMiss,
    /// `n`
    New,
}

/// Events of one shard. Each has a number that is unique among all shards, so that the events of a
/// command on several shards can be sorted by their time.
pub(crate) type EventQueue = Vec<(u64, Event)>;

/// Event of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Number of the database.
    pub db: u8,
    /// Class that decides whether the event is notified.
    pub class: Class,
    /// Name of the event in Redis.
    pub name: &'static str,
    /// Bytes of the key.
    pub key: Vec<u8>,
}
