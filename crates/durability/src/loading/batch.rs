//! Batches of keys that were read from a file and are stored together. All keys of a batch belong
//! to one shard. Storing a string mostly waits for the memory of its key's bucket, so the buckets
//! of a batch are prefetched together and the shard is locked only once.

use store::{ItemHead, Key, Tick};
use wire::rdb::RawHead;

/// Maximum number of keys in a batch.
pub const COUNT_MAX: usize = 64;
/// Size at which a batch is stored. A longer string is stored directly, because a batch copies its
/// keys and values.
pub const BYTES_MAX: usize = 32 << 10;
/// Maximum length in bytes of a collection that is copied to a batch. The thread that reads the
/// file builds longer collections while reading.
pub const RAW_BYTES_MAX: usize = 256 << 10;

/// Kind of a key's value.
#[derive(Clone, Copy, Debug)]
pub enum Content {
    /// A string.
    String,
    /// A memcached item.
    Item(ItemHead),
    /// A value to be built from bytes of the file.
    Raw(RawHead),
}

/// One key with its value.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'b> {
    /// Key.
    pub key: Key<'b>,
    /// Bytes of the value.
    pub value: &'b [u8],
    /// Deadline of the key.
    pub deadline: Option<Tick>,
    /// Meaning of the value's bytes.
    pub content: Content,
}

/// Position of an entry in the batch's bytes. The key begins where the previous value ends.
#[derive(Debug)]
struct Position {
    hash: u64,
    key_end: usize,
    value_end: usize,
    deadline: Option<Tick>,
    content: Content,
    db: u8,
}

/// Keys of one shard, in the order of the file.
#[derive(Debug)]
pub struct Batch {
    /// Instant at which the keys were read, which decides which have expired.
    pub now: Tick,
    bytes: Vec<u8>,
    positions: Vec<Position>,
}

impl Default for Batch {
    fn default() -> Self {
        Batch {
            now: Tick(0),
            bytes: Vec::new(),
            positions: Vec::new(),
        }
    }
}

impl Batch {
    /// Adds a key. Returns whether the batch should be stored.
    pub fn add(&mut self, entry: &Entry<'_>) -> bool {
        self.bytes.extend_from_slice(entry.key.bytes);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(entry.value);
        self.positions.push(Position {
            hash: entry.key.hash,
            key_end,
            value_end: self.bytes.len(),
            deadline: entry.deadline,
            content: entry.content,
            db: entry.key.db,
        });
        self.positions.len() >= COUNT_MAX || self.bytes.len() >= BYTES_MAX
    }

    /// Returns the keys in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        let mut start = 0;
        self.positions.iter().map(move |position| {
            let key = Key {
                bytes: &self.bytes[start..position.key_end],
                hash: position.hash,
                db: position.db,
            };
            let value = &self.bytes[position.key_end..position.value_end];
            start = position.value_end;
            Entry {
                key,
                value,
                deadline: position.deadline,
                content: position.content,
            }
        })
    }

    /// Whether the batch has no keys.
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// Removes all keys. The memory is kept, unless a long value has enlarged it.
    pub fn clear(&mut self) {
        self.positions.clear();
        self.bytes.clear();
        self.bytes.shrink_to(BYTES_MAX);
    }

    /// Returns the heap memory in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.bytes.capacity() + self.positions.capacity() * size_of::<Position>()
    }
}
