//! The state of a key, as a source sends it.

use durability::dump::payload_of;
use durability::replication::EARLIEST;
use store::{Key, View};

/// State of a key.
pub struct KeyState {
    /// Deadline in milliseconds since 1970; 0 means none.
    pub deadline: u64,
    /// Serialized value.
    pub payload: Vec<u8>,
    /// Encoded head of a memcached item; empty for other values.
    pub head: Vec<u8>,
    /// Whether it is protected from eviction.
    pub is_protected: bool,
    /// Encoded tags and freshness.
    pub labels: Vec<u8>,
}

/// Returns the state of a key, which may have expired: its removal is a change of its own.
pub fn state_of(view: &mut View<'_>, key: &Key<'_>) -> Option<KeyState> {
    view.set_horizon(EARLIEST);
    let deadline = view.deadline(key)?.map_or(0, |deadline| deadline.0);
    let payload = payload_of(view, key, false).ok()??;
    let head = view.item_head(key).map_or_else(Vec::new, |head| {
        let (bytes, len) = head.encode();
        bytes[..len].to_vec()
    });
    Some(KeyState {
        deadline,
        payload,
        head,
        is_protected: view.is_protected(key) == Some(true),
        labels: view.encoded_labels(key),
    })
}
