//! What happened to a key: the server turns it into keyspace notifications.

/// The classes of `notify-keyspace-events`.
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

/// Events of one shard, each with its number among those of all shards, so that what one command did to
/// keys of several shards can be told in its order.
pub(crate) type EventQueue = Vec<(u64, Event)>;

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The database.
    pub db: u8,
    /// Its class.
    pub class: Class,
    /// Redis's name for it.
    pub name: &'static str,
    /// The key.
    pub key: Vec<u8>,
}
