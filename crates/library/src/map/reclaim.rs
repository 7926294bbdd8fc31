//! Reuse of slots and freeing of tables that no entry uses any more, after a grace period.

use super::{Loose, Map, WriterState};
use crate::epoch::{READERS, may_hurry};
use std::mem::{needs_drop, take};

impl<K, V> Map<K, V> {
    /// Retires a loose slot, which is reused after a grace period.
    pub(crate) fn retire(&self, state: &mut WriterState, loose: Loose) {
        self.check(state);
        assert_eq!(self.id, loose.id, "the slot is one of this map");
        state.young.push(loose.slot);
    }

    /// Frees retired slots whose grace period has ended. Begins another grace period if a batch is
    /// full, if `is_urgent`, or for a single pair that owns memory unless one began very recently.
    /// Pairs that own memory are appended to `garbage`, so that the caller can drop them without
    /// the lock.
    pub(crate) fn reclaim(
        &self,
        state: &mut WriterState,
        is_urgent: bool,
        garbage: &mut Vec<(K, V)>,
    ) {
        self.check(state);
        let has_batch = match state.young.len() {
            1 if needs_drop::<(K, V)>() => may_hurry(),
            len => len >= state.batch,
        };
        if !(has_batch || is_urgent && state.has_retired()) {
            return;
        }
        if !state.old.is_empty() && READERS.oldest() >= state.old_epoch {
            self.free_old(state, garbage);
        }
        if state.old.is_empty() {
            state.old = take(&mut state.young);
            state.old_epoch = READERS.advance();
            let oldest = READERS.oldest();
            if oldest >= state.old_epoch {
                self.free_old(state, garbage);
            }
            state.drop_tables(oldest);
        }
    }

    /// Returns true if retired pairs own memory.
    pub(crate) fn has_garbage(&self, state: &WriterState) -> bool {
        needs_drop::<(K, V)>() && !(state.young.is_empty() && state.old.is_empty())
    }

    /// Frees replaced tables that no reader uses.
    pub(crate) fn reclaim_tables(&self, state: &mut WriterState) {
        self.check(state);
        if !state.tables.is_empty() {
            state.drop_tables(READERS.oldest());
        }
    }
}

impl WriterState {
    /// Returns true if slots or tables are retired and not freed yet.
    pub(crate) fn has_retired(&self) -> bool {
        !(self.young.is_empty() && self.old.is_empty() && self.tables.is_empty())
    }
}
