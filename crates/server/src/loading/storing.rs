//! Stores data read from a file.

use crate::state::Server;
use durability::dump::Restored;
use durability::loading::batch::{Batch, COUNT_MAX, Content, Entry};
use std::sync::atomic::Ordering::Relaxed;
use store::{Key, Keyspace, NewDeadline, Tick, View};

/// A value that cannot be loaded.
#[derive(Debug)]
pub struct Failure {
    /// Offset of the value in the file.
    pub offset: u64,
    /// The reason, with an offset.
    pub why: String,
}

/// Properties of a key other than its value and its deadline.
#[derive(Default, PartialEq, Eq)]
pub struct Marks {
    /// Tags and freshness, as [`store::decode_labels`] reads them.
    pub labels: Vec<u8>,
    /// Whether the key is protected from eviction.
    pub is_protected: bool,
}

/// Builds and stores values. Each thread that loads a file has one.
pub struct Storer<'s> {
    server: &'s Server,
    /// The value that was built last.
    pub restored: Restored<'s>,
}

impl<'s> Storer<'s> {
    /// Creates a storer that has built nothing.
    pub fn new(server: &'s Server, now: Tick) -> Self {
        let scene = server.data.keyspace.lock_many(&[], now).scene();
        let restored = Restored::new(scene);
        Storer { server, restored }
    }

    /// Stores the keys of a batch. The caller holds no shard.
    ///
    /// # Errors
    /// A value cannot be loaded. The keys before it are stored.
    pub fn store(&mut self, batch: &Batch) -> Result<(), Failure> {
        let space = &self.server.data.keyspace;
        self.restored.set_now(batch.now);
        let mut strings: Vec<Entry<'_>> = Vec::with_capacity(COUNT_MAX);
        for entry in batch.iter() {
            let Content::Raw(head) = entry.content else {
                strings.push(entry);
                continue;
            };
            // A file may contain a key twice.
            self.store_strings(&mut strings, batch.now);
            let read = head.read(entry.key.bytes, entry.value, &mut self.restored);
            read.map_err(|error| Failure {
                offset: head.offset,
                why: error.to_string(),
            })?;
            if !self.has_content(&entry.key, head.offset)? {
                continue;
            }
            let mut view = view(space, &entry.key, batch.now);
            self.restored.store(&mut view, &entry.key, entry.deadline);
        }
        self.store_strings(&mut strings, batch.now);
        Ok(())
    }

    /// Whether the value built last, which begins at `offset`, should be stored. One that is empty
    /// or has expired is counted.
    ///
    /// # Errors
    /// The value contradicts itself: an element occurs twice.
    pub fn has_content(&self, key: &Key<'_>, offset: u64) -> Result<bool, Failure> {
        if self.restored.is_empty() {
            self.server.persistence.loading.skip_empty(key);
            return Ok(false);
        }
        if self.restored.is_sound() {
            let has_expired = self.restored.has_expired();
            let expired = &self.server.persistence.loading.expired;
            expired.fetch_add(has_expired.into(), Relaxed);
            return Ok(!has_expired);
        }
        let why = format!(
            "offset {offset}: expected distinct elements, found two of one name, in the value of \
             key '{}' in database {}",
            key.bytes.escape_ascii(),
            key.db
        );
        Err(Failure { offset, why })
    }

    /// Stores strings of one shard, and empties the list.
    fn store_strings(&self, strings: &mut Vec<Entry<'_>>, now: Tick) {
        let Some(first) = strings.first() else {
            return;
        };
        let space = &self.server.data.keyspace;
        let mut view = view(space, &first.key, now);
        for entry in &*strings {
            view.prefetch_bucket(&entry.key);
        }
        // Items are rare.
        if strings
            .iter()
            .any(|entry| matches!(entry.content, Content::Item(_)))
        {
            strings.iter().for_each(|entry| put(&mut view, entry));
        } else {
            view.set_all(
                strings
                    .iter()
                    .map(|entry| (entry.key, entry.value, entry.deadline)),
            );
        }
        strings.clear();
    }

    /// Stores the value built last: a string (the memcached item `item`, if given) or a collection.
    /// The caller must not hold a shard.
    pub fn store_built(
        &mut self,
        key: &Key<'_>,
        deadline: Option<Tick>,
        content: Content,
        now: Tick,
    ) {
        let space = &self.server.data.keyspace;
        let mut view = view(space, key, now);
        match self.restored.string() {
            Some(value) => put(
                &mut view,
                &Entry {
                    key: *key,
                    value,
                    deadline,
                    content,
                },
            ),
            None => self.restored.store(&mut view, key, deadline),
        }
    }
}

impl Storer<'_> {
    /// Gives a key that was stored its marks. The caller must not hold a shard.
    pub fn mark(&self, key: &Key<'_>, marks: &Marks, now: Tick) {
        let mut view = view(&self.server.data.keyspace, key, now);
        if let Some(labels) = store::decode_labels(&marks.labels).filter(|of| !of.is_empty()) {
            view.set_labels(key, &labels);
        }
        if marks.is_protected {
            view.protect(key, true);
        }
    }
}

/// Locks the shard of a key. On a replica, the data comes from the primary, so nothing has expired
/// for it.
fn view<'s>(space: &'s Keyspace, key: &Key<'_>, now: Tick) -> View<'s> {
    let mut view = space.lock_one(space.shard_of(key), now);
    view.set_horizon(Tick(0));
    view
}

/// Stores a string.
#[inline]
fn put(view: &mut View<'_>, entry: &Entry<'_>) {
    let deadline = entry.deadline.map_or(NewDeadline::Clear, NewDeadline::At);
    match &entry.content {
        Content::Item(head) => {
            view.put_item(&entry.key, head, entry.value, deadline);
            view.pass_cas(&entry.key, head.cas);
        }
        _ => view.set(&entry.key, entry.value, deadline),
    }
}
