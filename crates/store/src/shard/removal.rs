//! Reasons for which an entry is removed, and the room that eviction makes for a write.

/// Number of bytes for which a write evicts.
#[derive(Clone, Copy, Default)]
pub(crate) struct Room {
    /// Number of bytes that the write has added or will add. Many of them allow more steps.
    pub written_bytes: usize,
    /// Number of bytes that the write will still add.
    pub needed_bytes: usize,
}

impl Room {
    /// Returns the room for bytes that were added already.
    pub fn written(bytes: usize) -> Room {
        Room {
            written_bytes: bytes,
            needed_bytes: 0,
        }
    }
}

/// Reason why an entry is removed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Removal {
    /// A command deleted the entry. The command notifies the event.
    Deleted,
    /// A command accessed the entry after its deadline.
    ExpiredOnAccess,
    /// The expiry index returned the entry as expired.
    ExpiredByIndex,
    /// A tag of the entry was invalidated.
    Invalidated,
    /// The eviction policy returned the entry as a victim.
    Evicted,
    /// The last element of the entry's collection has expired.
    Emptied(IndexState),
}

/// Position of an entry relative to the expiry index when its value is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexState {
    /// The entry is in the index.
    Indexed,
    /// The index has just returned the entry and removed it.
    Removed,
}
