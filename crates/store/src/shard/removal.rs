//! Reasons for which an entry is removed, and the room that eviction makes for a write.

use super::Locked;
use crate::classes::Gone;
use crate::event::Class;

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

impl Removal {
    /// Returns the reason for the statistics of classes. `is_stale` means that a tag of the entry
    /// was invalidated.
    pub fn gone(self, is_stale: bool) -> Gone {
        match self {
            _ if is_stale => Gone::Invalidated,
            Removal::Deleted => Gone::Deleted,
            Removal::Evicted => Gone::Evicted,
            _ => Gone::Expired,
        }
    }
}

/// Position of an entry relative to the expiry index when its value is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexState {
    /// The entry is in the index.
    Indexed,
    /// The index has just returned the entry and removed it.
    Removed,
}

impl Locked {
    /// Counts a removal. Returns the class and the name of its event.
    pub fn count_removal(
        &mut self,
        removal: Removal,
        is_stale: bool,
        age: Option<u64>,
    ) -> (Class, &'static str) {
        match removal {
            // It may have expired or been evicted since its tag was invalidated.
            _ if is_stale => {
                self.counters.invalidated_keys += 1;
                (Class::Invalidated, "invalidated")
            }
            Removal::Invalidated => unreachable!("the caller has found the entry to be stale"),
            Removal::Deleted | Removal::Emptied(_) => (Class::Generic, "del"),
            Removal::ExpiredOnAccess | Removal::ExpiredByIndex => {
                self.counters.expired_keys += 1;
                if let Some(age) = age {
                    self.lifetimes.expired_ages.count(age);
                }
                (Class::Expired, "expired")
            }
            Removal::Evicted => {
                self.counters.evicted_keys += 1;
                if let Some(age) = age {
                    self.lifetimes.evicted_ages.count(age);
                }
                (Class::Evicted, "evicted")
            }
        }
    }
}
