//! Access to memcached items by key: reading, storing and marking.

use super::{NewDeadline, View};
use crate::item::{ItemHead, WrongType, item_of, string_of, value_of};
use crate::keyspace::Keyspace;
use crate::object::Object;
use crate::shared::{Db, Key};
use crate::tags::TAG_ITEM;
use cache::{NewValue, Value};

/// Returns a value in the form that memcached clients receive.
#[inline]
fn read<'v>(
    space: &Keyspace,
    db: u8,
    value: Value<'v, Object>,
) -> Result<(ItemHead, &'v [u8]), WrongType> {
    if let Some(item) = item_of(&value) {
        return Ok((ItemHead::read(item), value_of(item)));
    }
    let bytes = string_of(value)?;
    let head = ItemHead {
        cas: space.key(db, bytes).hash.max(1),
        is_fetched: true,
        ..ItemHead::default()
    };
    Ok((head, bytes))
}

impl View<'_> {
    /// Returns an item or a string. Counts a hit or a miss and notifies the policy.
    ///
    /// # Errors
    ///
    /// The key holds another type.
    #[inline]
    pub fn item(&mut self, key: &Key<'_>) -> Result<Option<(ItemHead, &[u8])>, WrongType> {
        let space = self.space;
        let value = self.get_value(key);
        value.map(|value| read(space, key.db, value)).transpose()
    }

    /// Returns an item or a string without counting the access or notifying the policy.
    ///
    /// # Errors
    ///
    /// The key holds another type.
    pub fn peek_item(&mut self, key: &Key<'_>) -> Result<Option<(ItemHead, &[u8])>, WrongType> {
        let space = self.space;
        let value = self.peek_value(key);
        value.map(|value| read(space, key.db, value)).transpose()
    }

    /// Returns the head of an item; `None` for another value. Does not count the access.
    pub fn item_head(&mut self, key: &Key<'_>) -> Option<ItemHead> {
        let value = self.peek_value(key)?;
        item_of(&value).map(ItemHead::read)
    }

    /// Stores an item under a key and replaces a value of any type. Evicts entries if memory is
    /// needed.
    pub fn put_item(
        &mut self,
        key: &Key<'_>,
        head: &ItemHead,
        value: &[u8],
        deadline: NewDeadline,
    ) {
        let (bytes, len) = head.encode();
        let head = &bytes[..len];
        if Db::must_be_outside(key.bytes, len + value.len()) {
            let item = Object::Item([head, value].concat());
            return self.put(key, NewValue::Outside(item), deadline);
        }
        let mut item = self.take_scratch(key);
        item.extend_from_slice(head);
        item.extend_from_slice(value);
        self.put(key, NewValue::Inline(TAG_ITEM, &item), deadline);
        self.parts(key).2.scratch = item;
    }

    /// Changes the marks of an item. Its value and the client flags stay, and watchers are not
    /// notified. A plain string has no room for marks and is not changed.
    pub fn mark_item(&mut self, key: &Key<'_>, head: &ItemHead) {
        let Some(slot) = self.live(key) else { return };
        let (bytes, len) = head.encode();
        let head = &bytes[..len];
        let (now, mut marked) = (self.now, self.take_scratch(key));
        let overwrite = |item: &mut [u8]| {
            assert_eq!(value_of(item).len() + head.len(), item.len());
            item[..head.len()].copy_from_slice(head);
        };
        let (space, _, locked) = self.parts(key);
        locked.preserve(key.db, slot, space.shared());
        let db = self.db(key);
        cache::Entries::begin(&mut db.entries, now);
        if let Value::Inline(TAG_ITEM, item) = db.value(slot) {
            marked.extend_from_slice(item);
            overwrite(&mut marked);
            let deadline = db.entries.shape(slot).deadline;
            db.change(slot, NewValue::Inline(TAG_ITEM, &marked), deadline);
        } else {
            db.edit_outside(slot, |object| {
                if let Object::Item(item) = object {
                    overwrite(item);
                }
            });
        }
        let locked = self.parts(key).2;
        locked.note_change(key, false);
        locked.scratch = marked;
    }

    /// Makes later CAS numbers of a key greater than this one, which an item in a file has, so that
    /// a client that still knows the number changes no later item. Numbers from 2^63 on, which only
    /// clients choose, have no effect.
    pub fn pass_cas(&mut self, key: &Key<'_>, cas: u64) {
        let last_cas = &mut self.parts(key).2.last_cas;
        if cas < 1 << 63 {
            *last_cas = (*last_cas).max(cas);
        }
    }

    /// Returns the CAS number for the next write of a key.
    pub fn next_cas(&mut self, key: &Key<'_>) -> u64 {
        let locked = self.parts(key).2;
        locked.last_cas += 1;
        locked.last_cas
    }
}
