//! Prefetching of entries and elements before commands access them. Most of a command's time in a
//! deep pipeline is spent waiting for memory.

use super::{Guards, View};
use crate::elements::Elements;
use crate::shared::{Db, Key};
use cache::Value;

/// Pages of a large collection, for prefetching their memory in three steps.
#[derive(Clone, Copy, Debug)]
pub struct Pages<'a>(&'a Elements);

impl Pages<'_> {
    /// Prefetches the handle of an element's page. Returns the element's hash for the next steps.
    #[inline]
    pub fn prefetch_handle(&self, element: &[u8]) -> u64 {
        self.0.prefetch_handle(element)
    }

    /// Prefetches the page of an element. It should be called when the handle is in the processor's
    /// cache.
    #[inline]
    pub fn prefetch_page(&self, hash: u64) {
        self.0.prefetch_page(hash);
    }

    /// Prefetches an element. It should be called when its page is in the processor's cache.
    #[inline]
    pub fn prefetch_element(&self, hash: u64) {
        self.0.prefetch_element(hash);
    }
}

impl View<'_> {
    /// Prefetches a key's bucket.
    #[inline]
    pub fn prefetch_bucket(&self, key: &Key<'_>) {
        if let Some(db) = self.peek_db(key) {
            db.entries.prefetch_bucket(key.hash);
        }
    }

    /// Prefetches a key's entry. It should be called when the bucket of the key is in the
    /// processor's cache.
    #[inline]
    pub fn prefetch_entry(&self, key: &Key<'_>) {
        if let Some(db) = self.peek_db(key) {
            db.entries.prefetch_entry(key.hash);
        }
    }

    /// Returns the pages of a large collection, for prefetching the elements that a command
    /// accesses.
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
