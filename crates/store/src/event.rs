//! Events of keys, which the server turns into keyspace notifications.

/// Class of an event. Its letter in `notify-keyspace-events` selects it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Letter `g`: commands on keys of any type, such as DEL, EXPIRE and RENAME.
    Generic,
    /// Letter `$`: commands on strings.
    String,
    /// Letter `l`: commands on lists.
    List,
    /// Letter `s`: commands on sets.
    Set,
    /// Letter `h`: commands on hashes.
    Hash,
    /// Letter `z`: commands on sorted sets.
    SortedSet,
    /// Letter `x`: a key or element has expired.
    Expired,
    /// Letter `e`: a key was evicted.
    Evicted,
    /// Letter `i`: a key was removed because one of its tags was invalidated.
    Invalidated,
    /// Letter `t`: commands on streams.
    Stream,
    /// Letter `d`: commands of modules. No such event is published, because there are no modules.
    Module,
    /// Letter `m`: a read found no key.
    KeyMiss,
    /// Letter `n`: a key was created.
    New,
    /// Letter `o`: the whole value of a key was replaced.
    Overwritten,
    /// Letter `c`: a value was replaced by one of another type.
    TypeChanged,
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
    /// Fields or members that have changed or expired, if `Keyspace::set_names_elements` is on.
    /// They are at most 4,096.
    pub elements: Vec<Vec<u8>>,
}
