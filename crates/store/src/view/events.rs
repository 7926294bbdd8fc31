//! Events of commands.

use super::View;
use crate::event::{Class, Event, EventQueue};
use crate::facts::Kind;
use crate::shared::Key;

impl View<'_> {
    /// Returns whether events are collected, so that a caller can skip look-ups for them.
    #[inline]
    pub fn notifies(&self) -> bool {
        self.space.shared().is_notifying()
    }

    /// Queues an event if events are collected.
    #[inline]
    pub fn notify(&mut self, class: Class, name: &'static str, key: &Key<'_>) {
        if self.space.shared().is_notifying() {
            let event = Event {
                db: key.db,
                class,
                name,
                key: key.bytes.to_vec(),
                elements: self.changed_elements(class, key),
            };
            let number = self.space.shared().next_event();
            self.parts(key).2.events.push((number, event));
        }
    }

    /// Returns the names of the elements that the last edit of a key has changed, for an event of
    /// its class.
    fn changed_elements(&mut self, class: Class, key: &Key<'_>) -> Vec<Vec<u8>> {
        let has_elements = matches!(class, Class::Hash | Class::Set | Class::SortedSet);
        if !has_elements || !self.space.shared().names_elements() {
            return Vec::new();
        }
        match &self.parts(key).2.changed {
            Some((db, hash, names)) if (*db, *hash) == (key.db, key.hash) => names.clone(),
            _ => Vec::new(),
        }
    }

    /// Queues the events of a value that has been stored as a whole: `new` without a value before,
    /// else `overwritten`, and `type_changed` if the types differ.
    pub fn notify_stored(&mut self, key: &Key<'_>, old: Option<Kind>) {
        let Some(old) = old else {
            return self.notify(Class::New, "new", key);
        };
        self.notify_overwritten(key, Some(old));
    }

    /// Queues `overwritten` if there was a value of the kind `old`, and `type_changed` if its type
    /// differs from the current value's.
    pub fn notify_overwritten(&mut self, key: &Key<'_>, old: Option<Kind>) {
        let Some(old) = old.filter(|_| self.notifies()) else {
            return;
        };
        self.notify(Class::Overwritten, "overwritten", key);
        if self.kind(key) != Some(old) {
            self.notify(Class::TypeChanged, "type_changed", key);
        }
    }

    /// Removes and returns the withheld events of these shards whose database and key fulfil a
    /// condition.
    pub fn take_withheld(&mut self, is_meant: impl Fn(u8, &[u8]) -> bool) -> Vec<Event> {
        let mut taken = Vec::new();
        self.each_locked(|locked| {
            let is_taken = |event: &mut Event| is_meant(event.db, &event.key);
            taken.extend(locked.withheld.extract_if(.., is_taken));
        });
        taken
    }

    /// Moves the queued events of these shards into `into`, oldest first.
    pub fn take_events(&mut self, into: &mut Vec<Event>) {
        let mut queue = EventQueue::new();
        self.each_locked(|locked| {
            queue.append(&mut locked.events);
            locked.changed = None;
        });
        queue.sort_unstable_by_key(|(number, _)| *number);
        into.extend(queue.into_iter().map(|(_, event)| event));
    }
}
