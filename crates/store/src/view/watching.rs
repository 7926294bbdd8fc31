//! Watched keys (WATCH).

use super::{Purpose, View};
use crate::shared::Key;
use policy::Tick;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

impl View<'_> {
    /// Registers `flag` to be set at the next change of the key, for WATCH. Returns the earliest
    /// deadline of the key and its elements.
    pub fn watch(&mut self, key: &Key<'_>, flag: &Arc<AtomicBool>) -> Option<Tick> {
        let found = self.live_or_dead(key, Purpose::Read).ok();
        let due = found.and_then(|slot| self.db(key).entries.shape(slot).deadline);
        let flags = self
            .parts(key)
            .2
            .watched
            .entry((key.db, key.bytes.into()))
            .or_default();
        flags.push(flag.clone());
        due
    }

    /// Removes the registration of `flag` for a key.
    pub fn unwatch(&mut self, key: &Key<'_>, flag: &Arc<AtomicBool>) {
        let watched = &mut self.parts(key).2.watched;
        let name = (key.db, Box::from(key.bytes));
        if let Some(flags) = watched.get_mut(&name) {
            flags.retain(|f| !Arc::ptr_eq(f, flag));
            if flags.is_empty() {
                watched.remove(&name);
            }
        }
    }
}
