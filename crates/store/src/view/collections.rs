//! Access to collections by key, and copies and moves of entries of any type.
//!
//! A collection is passed to a closure. Its form afterwards decides how it is stored: in the key's
//! block, as one allocation, or in a separate structure. An empty collection deletes the key.

use super::{NewDeadline, Purpose, View};
use crate::classes::Gone;
use crate::collection::{ChangedElements, Collection, Representation, Scene};
use crate::item::WrongType;
use crate::object::{InObject, Object, is_lent, kind_of};
use crate::shard::{EditedValue, IndexState, Removal, Room, file, is_dead};
use crate::shared::{Db, Key};
use crate::soft::deadline_of;
use crate::tracking::InvalidationCause;
use crate::types::{Hash, List, Set, SortedSet, Stream};
use cache::{NewValue, Outside, Value};
use policy::{Slot, Tick};

/// Result of a closure that edits a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edited<R> {
    /// Value that the closure returned.
    pub result: R,
    /// Whether the key was created.
    pub is_new: bool,
    /// Whether the closure removed the last element, so that the key was deleted. The caller
    /// notifies the event.
    pub is_deleted: bool,
}

/// A collection of any type, for [`View::store`] and [`View::defer_drop`].
#[derive(Debug)]
pub enum AnyCollection {
    /// Fields with values.
    Hash(Hash),
    /// Distinct members.
    Set(Set),
    /// Distinct members with scores.
    SortedSet(SortedSet),
    /// Sequence of elements.
    List(List),
    /// Entries in the order of their IDs.
    Stream(Stream),
}

impl AnyCollection {
    fn into_object(self) -> Object {
        match self {
            AnyCollection::Hash(hash) => Object::Hash(hash),
            AnyCollection::Set(set) => Object::Set(set),
            AnyCollection::SortedSet(sorted_set) => Object::SortedSet(sorted_set),
            AnyCollection::List(list) => Object::List(list),
            AnyCollection::Stream(stream) => Object::Stream(stream),
        }
    }
}

/// Defines the methods for reading and editing a collection of one type.
macro_rules! verbs {
    ($($read:ident, $edit:ident, $type:ident;)*) => {$(
        #[doc = concat!("Passes a live key's [`", stringify!($type), "`](struct@crate::", stringify!($type), ") to `read`. Counts a hit or a miss and notifies the policy. Returns `None` without such a key.

# Errors
The key holds another type.")]
        pub fn $read<R>(
            &mut self,
            key: &Key<'_>,
            read: impl FnOnce(&$type, &Scene<'_>) -> R,
        ) -> Result<Option<R>, WrongType> {
            self.read_collection(key, read)
        }

        #[doc = concat!("Passes a live key's [`", stringify!($type), "`](struct@crate::", stringify!($type), ") to `edit`, or an empty one if the key is absent and `may_create` is true. `edit` returns `None` if it changed nothing. Otherwise the key is stored, evicting as needed, or deleted if no element is left. Returns `None` if nothing changed.

# Errors
The key holds another type.")]
        pub fn $edit<R>(
            &mut self,
            key: &Key<'_>,
            may_create: bool,
            edit: impl FnOnce(&mut $type, &Scene<'_>) -> Option<R>,
        ) -> Result<Option<Edited<R>>, WrongType> {
            self.edit_collection(key, may_create, edit)
        }
    )*};
}

impl<'a> View<'a> {
    verbs! {
        read_hash, edit_hash, Hash;
        read_set, edit_set, Set;
        read_sorted_set, edit_sorted_set, SortedSet;
        read_list, edit_list, List;
        read_stream, edit_stream, Stream;
    }

    /// Returns the conditions under which commands operate on collections in this view.
    pub fn scene(&self) -> Scene<'a> {
        Scene {
            horizon: self.horizon,
            ..self.space.shared().scene(self.now)
        }
    }

    fn read_collection<C: InObject, R>(
        &mut self,
        key: &Key<'_>,
        read: impl FnOnce(&C, &Scene<'_>) -> R,
    ) -> Result<Option<R>, WrongType> {
        let (scene, mut buffer) = (self.scene(), self.take_scratch(key));
        let result = match self.get_value(key) {
            None => Ok(None),
            Some(value) if kind_of(&value) != C::KIND => Err(WrongType),
            Some(Value::Outside(object)) => match C::of(object) {
                Some(collection) => Ok(Some(read(collection, &scene))),
                None => Err(WrongType),
            },
            Some(Value::Inline(tag, bytes)) => {
                buffer.extend_from_slice(bytes);
                let collection = C::unpack(tag, buffer);
                let result = read(&collection, &scene);
                buffer = collection.into_bytes();
                Ok(Some(result))
            }
        };
        self.parts(key).2.scratch = buffer;
        result
    }

    fn edit_collection<C: InObject, R>(
        &mut self,
        key: &Key<'_>,
        may_create: bool,
        edit: impl FnOnce(&mut C, &Scene<'_>) -> Option<R>,
    ) -> Result<Option<Edited<R>>, WrongType> {
        let names = self.space.shared().names_elements();
        let names = names.then(ChangedElements::default);
        let now = self.now;
        let scene = Scene {
            changed: names.as_ref(),
            ..self.scene()
        };
        let Some(slot) = self.live(key) else {
            if !may_create {
                return Ok(None);
            }
            let mut collection = C::new();
            let Some(result) = edit(&mut collection, &scene) else {
                return Ok(None);
            };
            self.keep_names(key, names);
            let is_new = !collection.is_void();
            if is_new {
                let own = self.ruled_new(key);
                self.put_object(key, None, collection.into_object(), own);
            }
            return Ok(Some(Edited {
                result,
                is_new,
                is_deleted: false,
            }));
        };
        let value = self.db(key).value(slot);
        if kind_of(&value) != C::KIND || is_lent(&value) {
            return Err(WrongType);
        }
        self.hit(key, slot);
        let own = self.db(key).entries.own_deadline(slot);
        let before = self.outside_bytes(key, slot);
        let (space, _, locked) = self.parts(key);
        let (at, indexed) = ((key.db, slot), IndexState::Indexed);
        let worked = locked.edit_value(at, indexed, own, now, space.shared(), |object| {
            edit(C::of_mut(object).expect("the types are equal"), &scene)
        });
        let Some((result, edited)) = worked else {
            return Ok(None);
        };
        self.keep_names(key, names);
        let is_deleted = match edited {
            EditedValue::Empty => {
                self.remove_slot(key, slot, Removal::Deleted);
                true
            }
            EditedValue::Stored(slot, filed) => {
                let added = self.outside_bytes(key, slot).saturating_sub(before);
                let (space, _, locked) = self.parts(key);
                locked.note_change(key, false);
                locked.make_room(key.db, Room::written(added), space.shared());
                self.written(key, filed);
                false
            }
        };
        Ok(Some(Edited {
            result,
            is_new: false,
            is_deleted,
        }))
    }

    /// Keeps the names of changed elements for the events of the edit.
    fn keep_names(&mut self, key: &Key<'_>, names: Option<ChangedElements>) {
        if let Some(names) = names {
            self.parts(key).2.changed = Some((key.db, key.hash, names.into_names()));
        }
    }

    /// Passes the sets of several keys to `read`, `None` for an absent key. Does not count the
    /// access or notify the policies.
    ///
    /// # Errors
    ///
    /// A key holds another type.
    pub fn peek_sets<R>(
        &mut self,
        keys: &[Key<'_>],
        read: impl FnOnce(&[Option<&Set>], &Scene<'_>) -> R,
    ) -> Result<R, WrongType> {
        // Expired elements are removed first, because that may move entries.
        for key in keys {
            let _ = self.live_or_dead(key, Purpose::Read);
        }
        let now = self.horizon;
        let value_of = |key: &Key<'_>| {
            let db = self.peek_db(key)?;
            let slot = db.find(key.hash, key.bytes)?;
            (!is_dead(db, slot, now)).then(|| db.value(slot))
        };
        let mut unpacked = Vec::with_capacity(keys.len());
        for key in keys {
            unpacked.push(match value_of(key) {
                Some(value) if kind_of(&value) != Set::KIND => return Err(WrongType),
                Some(Value::Inline(tag, bytes)) => Some(Set::unpack(tag, bytes.to_vec())),
                _ => None,
            });
        }
        let mut sets = Vec::with_capacity(keys.len());
        for (key, own) in keys.iter().zip(&unpacked) {
            sets.push(match value_of(key) {
                Some(Value::Outside(object)) => Set::of(object),
                _ => own.as_ref(),
            });
        }
        Ok(read(&sets, &self.scene()))
    }

    /// Returns the heap bytes of a live entry's outside object.
    fn outside_bytes(&mut self, key: &Key<'_>, slot: Slot) -> usize {
        match self.db(key).value(slot) {
            Value::Outside(object) => object.heap_bytes(),
            Value::Inline(..) => 0,
        }
    }

    pub(super) fn remove_slot(&mut self, key: &Key<'_>, slot: Slot, removal: Removal) {
        let (space, _, locked) = self.parts(key);
        locked.remove_entry(key.db, slot, removal, space.shared());
        locked.account(key.db, space.shared());
        self.mark_ready(key);
    }

    /// Stores an object in the entry `found` or in a new one.
    fn put_object(
        &mut self,
        key: &Key<'_>,
        found: Option<Slot>,
        mut object: Object,
        own: Option<Tick>,
    ) {
        let filed = file(&mut object, own, self.now);
        match object.inline() {
            Some((tag, bytes)) if !Db::must_be_outside(key.bytes, bytes.len()) => {
                self.put_at(key, found, NewValue::Inline(tag, bytes), filed);
            }
            _ => {
                if filed != own {
                    self.space.shared().note_timed_collection();
                }
                object.trim();
                self.put_at(key, found, NewValue::Outside(object), filed);
            }
        }
    }

    /// Stores a collection under a key, with the key's own deadline, and replaces a value of any
    /// type. An empty collection other than a stream deletes the key. Returns whether the key is
    /// present afterwards.
    pub fn store(
        &mut self,
        key: &Key<'_>,
        collection: AnyCollection,
        deadline: Option<Tick>,
    ) -> bool {
        let (found, deadline) = (self.live(key), deadline.map(|at| at.min(Tick::MAX)));
        let object = collection.into_object();
        self.parts(key).2.changed = None;
        if !object.is_empty_collection() {
            let written = deadline.map_or(NewDeadline::Clear, NewDeadline::At);
            let written = self.ruled(key, None, written);
            let deadline = match written {
                NewDeadline::At(deadline) => Some(deadline),
                NewDeadline::Clear | NewDeadline::Keep => None,
            };
            let found = self.without_tags(key, found);
            self.note_write(key, found, written);
            self.put_object(key, found, object, deadline);
            return true;
        }
        if let Some(slot) = found {
            self.remove_slot(key, slot, Removal::Deleted);
        }
        false
    }

    /// Leaves a part that was removed from a collection to be freed by background work. `key`
    /// selects the shard that does it.
    pub fn defer_drop(&mut self, key: &Key<'_>, waste: AnyCollection) {
        let waste = waste.into_object();
        if !waste.is_empty_collection() {
            let (space, _, locked) = self.parts(key);
            locked.defer_drop(Some(waste), space.shared());
        }
    }

    /// Copies an entry of any type to the key `to`, with its deadlines and tags. `to` may be in
    /// another shard or database. Returns false if `from` does not exist.
    pub fn copy(&mut self, from: &Key<'_>, to: &Key<'_>) -> bool {
        let Ok(slot) = self.live_or_dead(from, Purpose::Read) else {
            return false;
        };
        let (scene, labels) = (self.scene(), self.labels_at(from, slot));
        let db = self.db(from);
        let own = deadline_of(db, slot);
        let object = match db.value(slot) {
            Value::Inline(tag, bytes) => Object::unpack(tag, bytes.to_vec()),
            Value::Outside(Object::Lent(_)) => return false,
            Value::Outside(object) => object.duplicate(&scene),
        };
        let found = self.live(to);
        let own = self.ruled_move(to, own);
        self.put_object(to, found, object, own);
        self.pass_labels(to, &labels);
        true
    }

    /// Moves an entry of any type to the key `to`, with its deadlines and tags. Returns false if
    /// `from` does not exist.
    pub fn rename(&mut self, from: &Key<'_>, to: &Key<'_>) -> bool {
        let Some(slot) = self.live(from) else {
            return false;
        };
        let labels = self.labels_at(from, slot);
        let is_protected = self.db(from).is_protected(slot);
        let (space, _, locked) = self.parts(from);
        locked.preserve(from.db, slot, space.shared());
        let db = locked.dbs[from.db as usize]
            .as_mut()
            .expect("the database holds the slot");
        let own = deadline_of(db, slot);
        let inline = match db.value(slot) {
            Value::Inline(tag, bytes) => Some(Object::unpack(tag, bytes.to_vec())),
            Value::Outside(Object::Lent(_)) => return false,
            Value::Outside(_) => None,
        };
        locked.note_removal(from.db, slot, Gone::Deleted);
        let db = self.db(from);
        let object = db.delete(slot).or(inline);
        let locked = self.parts(from).2;
        locked.revoke_lease(from.db, from.hash);
        locked.mark_changed(from.db, from.bytes, InvalidationCause::Command);
        locked.account(from.db, space.shared());
        let found = self.live(to);
        self.mark_ready(from);
        let object = object.expect("a value is inline or outside");
        let own = self.ruled_move(to, own);
        self.put_object(to, found, object, own);
        self.pass_labels(to, &labels);
        self.pass_protection(to, is_protected);
        true
    }
}
