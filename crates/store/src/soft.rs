//! Freshness of a key: the time before its deadline in which its value is stale, or whether the
//! key stands for a value that is known not to exist. It is the note of the key's entry
//! (`cache/src/groups.rs`), so that a key without either takes no byte.
//!
//! ```text
//! note   is negative 1 │ unit is a second 1 │ window 29
//! ```

use crate::shared::Db;
use policy::{Slot, Tick};

/// Returns the instant at which an entry is removed: its deadline, or an earlier one until which it
/// is stale because a tag was invalidated.
#[inline]
pub(crate) fn deadline_of(db: &Db, slot: Slot) -> Option<Tick> {
    let own = db.entries.own_deadline(slot);
    own.into_iter().chain(db.soft_until(slot)).min()
}

/// Returns the freshness of an entry. One with an invalidated tag is stale until its deadline.
#[inline]
pub(crate) fn soft_of(db: &Db, slot: Slot) -> Soft {
    match db.soft_until(slot) {
        Some(_) => softened(db, slot),
        None => Soft::of(db.note(slot)),
    }
}

/// Returns the freshness of an entry with an invalidated tag.
pub(crate) fn softened(db: &Db, slot: Slot) -> Soft {
    Soft {
        window_ms: WINDOW_MS_MAX,
        ..Soft::of(db.note(slot))
    }
}

/// Freshness of a key. The deadline of a key is the instant at which it is removed, whatever this
/// is; a key without a deadline is never stale.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Soft {
    /// Time in milliseconds before the deadline in which the value is stale.
    pub window_ms: u64,
    /// Whether the key stands for a value that does not exist. If the window is not 0, a tag of the
    /// key was invalidated since, so that the value may exist now.
    pub is_negative: bool,
}

const IS_NEGATIVE: u32 = 1 << 30;
const IN_SECONDS: u32 = 1 << 29;
/// Maximum amount of either unit.
const AMOUNT_MAX: u64 = IN_SECONDS as u64 - 1;

/// Maximum time in milliseconds in which a value is stale, 17 years.
pub const WINDOW_MS_MAX: u64 = AMOUNT_MAX * 1000;

impl Soft {
    /// Returns the freshness of a key that is stale in the given time before its deadline. A time
    /// over 6 days is rounded up to seconds; the maximum is [`WINDOW_MS_MAX`].
    pub fn window(ms: u64) -> Soft {
        Soft {
            window_ms: ms,
            is_negative: false,
        }
    }

    /// Returns the freshness of a key that stands for a value that does not exist.
    pub fn negative() -> Soft {
        Soft {
            window_ms: 0,
            is_negative: true,
        }
    }

    pub(crate) fn note(self) -> u32 {
        let ms = self.window_ms.min(WINDOW_MS_MAX);
        let window = match ms <= AMOUNT_MAX {
            true => ms as u32,
            false => ms.div_ceil(1000) as u32 | IN_SECONDS,
        };
        window | if self.is_negative { IS_NEGATIVE } else { 0 }
    }

    /// Decodes a note. Every number is one.
    pub(crate) fn of(note: u32) -> Soft {
        let amount = u64::from(note) & AMOUNT_MAX;
        Soft {
            window_ms: if note & IN_SECONDS == 0 {
                amount
            } else {
                amount * 1000
            },
            is_negative: note & IS_NEGATIVE != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_holds_milliseconds_up_to_six_days_and_seconds_beyond() {
        assert_eq!(Soft::default().note(), 0);
        assert_eq!(Soft::of(Soft::negative().note()), Soft::negative());
        for ms in [1, 999, AMOUNT_MAX, WINDOW_MS_MAX] {
            assert_eq!(Soft::of(Soft::window(ms).note()), Soft::window(ms));
        }
        let kept = |ms| Soft::of(Soft::window(ms).note()).window_ms;
        assert_eq!(kept(AMOUNT_MAX + 1), (AMOUNT_MAX + 1).div_ceil(1000) * 1000);
        assert_eq!(kept(u64::MAX), WINDOW_MS_MAX);
    }
}
