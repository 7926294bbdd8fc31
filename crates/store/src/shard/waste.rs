//! Values and flushed databases that wait to be freed.

use super::{Locked, db_bytes};
use crate::object::Object;
use crate::shared::{Db, Shared};
use cache::Outside;
use policy::Facts;

/// Maximum number of deferred values that one call drops.
const DROPS_PER_CALL: usize = 64;
/// Number of bytes after which one call drops no further deferred value.
const DROPPED_BYTES_MAX: usize = 8 << 20;
/// Minimum size in bytes of a byte array that the caller frees, because freeing it takes a
/// millisecond or more.
const LARGE_BLOCK_MIN: usize = 4 << 20;

/// A value or a database that is freed in steps.
pub struct Waste<T> {
    pub data: T,
    /// Number of bytes that count as used until the value is freed.
    pub bytes: u64,
}

impl Locked {
    /// Keeps a value that an entry no longer holds, so that it is dropped later outside the lock.
    #[inline]
    pub fn defer_drop(&mut self, object: Option<Object>, shared: &Shared) {
        if let Some(object) = object {
            self.defer(object, shared);
        }
    }

    fn defer(&mut self, object: Object, shared: &Shared) {
        let bytes = object.heap_bytes() as u64;
        match object {
            Object::String(bytes) | Object::Item(bytes) if bytes.capacity() >= LARGE_BLOCK_MIN => {
                self.large_blocks.push(bytes);
            }
            object if object.inline().is_none() => {
                self.add_pending(bytes, shared);
                let data = object;
                self.deferred_large.push(Waste { data, bytes });
            }
            object => {
                self.add_pending(bytes, shared);
                self.deferred.push(object);
            }
        }
    }

    /// Queues a database to be freed in steps.
    pub fn defer_database(&mut self, data: Box<Db>, shared: &Shared) {
        let bytes = db_bytes(&data);
        self.add_pending(bytes, shared);
        self.flushed.push(Waste { data, bytes });
    }

    /// Removes some of the deferred values from the queue and returns them. The caller drops them
    /// after it has released the lock.
    pub fn take_deferred(&mut self, shared: &Shared) -> Vec<Object> {
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while taken.len() < DROPS_PER_CALL
            && bytes < DROPPED_BYTES_MAX
            && let Some(object) = self.deferred.pop()
        {
            bytes += object.heap_bytes();
            taken.push(object);
        }
        self.subtract_pending(bytes as u64, shared);
        self.counters.dropped_objects += taken.len() as u64;
        taken
    }

    /// Frees up to `steps` parts of waiting values and flushed databases. Returns whether there are
    /// more.
    pub fn free_waste(&mut self, steps: u32, shared: &Shared) -> bool {
        let mut more = false;
        if let Some(waste) = self.deferred_large.last_mut() {
            let has_more = waste.data.dismantle(steps);
            let left = match has_more {
                true => waste.bytes.min(waste.data.heap_bytes() as u64),
                false => 0,
            };
            let freed = waste.bytes - left;
            waste.bytes = left;
            self.subtract_pending(freed, shared);
            if !has_more {
                self.deferred_large.pop();
                self.counters.dropped_objects += 1;
            }
            more |= !self.deferred_large.is_empty();
        }
        let is_saved = |waste: &Waste<Box<Db>>| waste.data.entries.saving_label().is_none();
        if let Some(at) = self.flushed.iter().rposition(is_saved) {
            let db = &mut self.flushed[at].data;
            let blocks = &mut self.large_blocks;
            let each = |object: Object| match object {
                Object::String(bytes) | Object::Item(bytes)
                    if bytes.capacity() >= LARGE_BLOCK_MIN =>
                {
                    blocks.push(bytes);
                }
                object => drop(object),
            };
            if !db.dismantle(steps, each) {
                self.counters.dropped_objects += db.entries.len() as u64;
                let waste = self.flushed.remove(at);
                self.subtract_pending(waste.bytes, shared);
            }
            more |= self.flushed.iter().any(is_saved);
        }
        more
    }

    /// Returns the number of deferred values and of keys of flushed databases.
    pub fn pending_objects(&self) -> u64 {
        let keys = self.flushed.iter().map(|waste| waste.data.entries.len());
        let keys: usize = keys.sum();
        (self.deferred.len() + self.deferred_large.len() + keys) as u64
    }

    /// Returns the number of bytes of deferred values and of flushed databases.
    pub fn pending_bytes(&self) -> u64 {
        self.pending_bytes
    }

    fn add_pending(&mut self, bytes: u64, shared: &Shared) {
        self.pending_bytes += bytes;
        shared.memory.add_pending(bytes);
    }

    fn subtract_pending(&mut self, bytes: u64, shared: &Shared) {
        self.pending_bytes -= bytes;
        shared.memory.subtract_pending(bytes);
    }
}
