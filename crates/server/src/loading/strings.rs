//! Strings that were read from a file and are stored together: most of the time of storing one is
//! waiting for the bucket of its key, so that the buckets of a batch are fetched at once.

use store::{ItemHead, Key, Keyspace, NewDeadline, Tick};

/// Maximum number of strings in a batch.
const COUNT_MAX: usize = 64;
/// Number of bytes from which on a batch is stored. A longer string is stored without one, because
/// the batch copies its strings.
pub const BATCH_BYTES_MAX: usize = 64 << 10;

/// One string.
#[derive(Debug)]
struct Entry {
    db: u8,
    /// End of the key in the bytes of the batch; it begins where the previous value ends.
    key_end: usize,
    value_end: usize,
    deadline: Option<Tick>,
    item: Option<ItemHead>,
}

/// A batch of strings.
#[derive(Debug, Default)]
pub struct Strings {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

impl Strings {
    /// Adds a string, with the head of a memcached item if it is one. Returns whether the batch
    /// should be stored.
    pub fn add(
        &mut self,
        db: u8,
        key: &[u8],
        value: &[u8],
        deadline: Option<Tick>,
        item: Option<ItemHead>,
    ) -> bool {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.entries.push(Entry {
            db,
            key_end,
            value_end: self.bytes.len(),
            deadline,
            item,
        });
        self.entries.len() >= COUNT_MAX || self.bytes.len() >= BATCH_BYTES_MAX
    }

    /// Stores the batch and empties it. The caller holds no shard.
    pub fn store(&mut self, space: &Keyspace, now: Tick) {
        if self.entries.is_empty() {
            return;
        }
        let mut start = 0;
        let mut keys: Vec<(Key<'_>, &[u8])> = Vec::with_capacity(COUNT_MAX);
        for entry in &self.entries {
            let key = space.key(entry.db, &self.bytes[start..entry.key_end]);
            keys.push((key, &self.bytes[entry.key_end..entry.value_end]));
            start = entry.value_end;
        }
        let mut view = space.lock_all(now);
        keys.iter().for_each(|(key, _)| view.prefetch_bucket(key));
        for ((key, value), entry) in keys.iter().zip(&self.entries) {
            let deadline = entry.deadline.map_or(NewDeadline::Clear, NewDeadline::At);
            match &entry.item {
                Some(head) => {
                    view.put_item(key, head, value, deadline);
                    view.pass_cas(key, head.cas);
                }
                None => view.set(key, value, deadline),
            }
        }
        drop(view);
        self.entries.clear();
        self.bytes.clear();
        self.bytes.shrink_to(BATCH_BYTES_MAX);
    }
}
