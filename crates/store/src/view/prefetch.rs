//! Entries and elements brought near before commands ask for them: most of what a command costs in a deep
//! pipeline is waiting for memory.

use super::{Guards, View};
use crate::elements::Elements;
use crate::shared::{Db, Key};
use cache::Value;

/// The pages of a collection with many elements, to bring some of them near.
#[derive(Clone, Copy, Debug)]
pub struct Pages<'a>(&'a Elements);

impl Pages<'_> {
    /// Asks for the handle of the page in which an element would be; its hash for the next steps.
    #[inline]
    pub fn prefetch_handle(&self, element: &[u8]) -> u64 {
        self.0.prefetch_handle(element)
    }

    /// Asks for the page, once its handle has arrived.
    #[inline]
    pub fn prefetch_page(&self, hash: u64) {
        self.0.prefetch_page(hash);
    }

    /// Asks for the element, once its page has arrived.
    #[inline]
    pub fn prefetch_element(&self, hash: u64) {
        self.0.prefetch_element(hash);
    }
}

impl View<'_> {
    /// Starts to bring a key's bucket into the processor's caches.
    #[inline]
    pub fn prefetch_bucket(&self, key: &Key<'_>) {
        if let Some(db) = self.peek_db(key) {
            db.entries.prefetch_bucket(key.hash);
        }
    }

    /// The second step: the entry itself, once its bucket has arrived.
    #[inline]
    pub fn prefetch_entry(&self, key: &Key<'_>) {
        if let Some(db) = self.peek_db(key) {
            db.entries.prefetch_entry(key.hash);
        }
    }

    /// The further steps, of commands on single elements of a collection: where its elements lie, if not
    /// in the entry.
    #[inline]
    pub fn pages(&self, key: &Key<'_>) -> Option<Pages<'_>> {
        let db = self.peek_db(key)?;
        match db.value(db.find(key.hash, key.bytes)?) {
            Value::Outside(object) => object.pages().map(Pages),
            Value::Inline(..) => None,
        }
    }

    #[inline]
    pub(super) fn peek_db(&self, key: &Key<'_>) -> Option<&Db> {
        let shard = self.space.shard_of(key);
        let locked = match &self.guards {
            Guards::One(of, guard) if *of == shard => guard,
            Guards::One(..) => return None,
            Guards::Some(guards) => &guards[guards.binary_search_by_key(&shard, |g| g.0).ok()?].1,
            Guards::All(guards) => &guards[shard],
        };
        locked.db(key.db)
    }
}
