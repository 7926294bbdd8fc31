//! Snapshots: a copy of all keys as they were at one instant, made in steps while they change.
//!
//! [`View::begin_snapshot`] sets the instant under the locks of all shards, in constant time per
//! database and shard. From then on each entry is passed to the [`SnapshotSink`] once:
//!
//! - [`Keyspace::snapshot_step`] walks the entries of one shard, some at a time.
//! - An entry that has not been passed yet is passed before a command, expiry or eviction changes
//!   or removes it. Without a snapshot this check is one branch per write.
//!
//! `cache/src/packed/unsaved.rs` records which entries are left. An entry is copied as the bytes of
//! its block, which costs tens of nanoseconds; the caller encodes them on a thread of its own.
//!
//! A large value is not copied, because that takes long. If it is removed or replaced, it moves to
//! the sink as it is. Otherwise the caller borrows it ([`View::lend_unsaved`]), encodes it on its
//! thread and returns it, while commands on its key wait, as for a long command. Where a command
//! changes such a value without waiting, because it could not name the key before it ran (a script,
//! or a client that was blocked), the value is copied after all. Expired elements of such a value
//! are hidden, and removed when it was passed.
//!
//! A flushed database is kept until the walk has passed it.

use crate::collection::Scene;
use crate::item::{ItemHead, value_of};
use crate::keyspace::Keyspace;
use crate::lent::Lent;
use crate::object::{Object, kind_of};
use crate::shard::Locked;
use crate::shared::{Db, Key, Shared};
use crate::tags::{TAG_ITEM, TAG_STRING};
use crate::types::{Hash, List, Set, SortedSet, Stream};
use crate::view::View;
use cache::{Outside, Value};
use policy::{Slot, Tick};
use std::sync::Arc;

/// Size of a value in bytes from which on it is not copied.
const LARGE_BYTES: usize = 64 << 10;
/// Size of a batch in bytes. A shard collects at most this much, and one entry.
const BATCH_BYTES: usize = 64 << 10;
/// Number of bytes that are copied in one step of the walk.
const BYTES_PER_STEP: usize = 512;
/// Tag of an entry whose value is an object of the batch.
const TAG_OBJECT: u8 = 0;
/// Length of what precedes an entry's key in a batch.
const HEAD_BYTES: usize = 18;

/// Receiver of the entries of a snapshot.
pub trait SnapshotSink: Send + Sync {
    /// Receives entries. The shard that they come from is locked, so that an implementation that
    /// waits here delays commands.
    fn put(&self, batch: Batch);
}

/// Entries of a snapshot, in no particular order.
///
/// ```text
/// entry   database 1 │ tag 1 │ deadline 8 │ key length 4 │ value length 4 │ key │ value
/// ```
#[derive(Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    /// Values of entries with the tag 0, in their order.
    objects: Vec<Object>,
    object_bytes: usize,
}

/// An entry of a snapshot.
#[derive(Debug)]
pub struct Record<'a> {
    /// Number of the database.
    pub db: u8,
    /// Bytes of the key.
    pub key: &'a [u8],
    /// The key's own deadline.
    pub deadline: Option<Tick>,
    /// The value.
    pub value: RecordValue<'a>,
}

/// Value of an entry of a snapshot.
#[derive(Debug)]
pub enum RecordValue<'a> {
    /// A string.
    String(&'a [u8]),
    /// A memcached item: its attributes and its value.
    Item(ItemHead, &'a [u8]),
    /// A list.
    List(&'a List),
    /// A set.
    Set(&'a Set),
    /// A sorted set.
    SortedSet(&'a SortedSet),
    /// A hash.
    Hash(&'a Hash),
    /// A stream.
    Stream(&'a Stream),
}

impl<'a> RecordValue<'a> {
    fn item(item: &'a [u8]) -> RecordValue<'a> {
        RecordValue::Item(ItemHead::read(item), value_of(item))
    }

    fn of(object: &'a Object) -> Option<RecordValue<'a>> {
        Some(match object {
            Object::String(bytes) => RecordValue::String(bytes),
            Object::Item(item) => RecordValue::item(item),
            Object::List(list) => RecordValue::List(list),
            Object::Set(set) => RecordValue::Set(set),
            Object::SortedSet(set) => RecordValue::SortedSet(set),
            Object::Hash(hash) => RecordValue::Hash(hash),
            Object::Stream(stream) => RecordValue::Stream(stream),
            Object::Lent(_) => return None,
        })
    }
}

impl Batch {
    /// Returns the number of bytes that the entries occupy.
    pub fn bytes(&self) -> usize {
        self.bytes.len() + self.object_bytes
    }

    fn push(&mut self, db: u8, tag: u8, key: &[u8], deadline: Option<Tick>, value: &[u8]) {
        let length = |bytes: &[u8]| (bytes.len() as u32).to_le_bytes();
        debug_assert!(key.len().max(value.len()) <= u32::MAX as usize);
        self.bytes.extend_from_slice(&[db, tag]);
        let deadline = deadline.map_or(u64::MAX, |deadline| deadline.0);
        self.bytes.extend_from_slice(&deadline.to_le_bytes());
        self.bytes.extend_from_slice(&length(key));
        self.bytes.extend_from_slice(&length(value));
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
    }

    fn push_object(&mut self, db: u8, key: &[u8], deadline: Option<Tick>, object: Object) {
        self.push(db, TAG_OBJECT, key, deadline, &[]);
        self.object_bytes += object.heap_bytes();
        self.objects.push(object);
    }

    /// Passes each entry to `each`.
    pub fn each(&self, each: &mut dyn FnMut(&Record<'_>)) {
        let (mut rest, mut objects) = (&self.bytes[..], self.objects.iter());
        let mut unpacked;
        while let Some((head, tail)) = rest.split_at_checked(HEAD_BYTES) {
            let word = |at: usize| {
                let bytes = head[at..at + 4].try_into().expect("four bytes");
                u32::from_le_bytes(bytes) as usize
            };
            let deadline = u64::from_le_bytes(head[2..10].try_into().expect("eight bytes"));
            let (key, tail) = tail.split_at(word(10));
            let (bytes, tail) = tail.split_at(word(14));
            rest = tail;
            let value = match head[1] {
                TAG_STRING => Some(RecordValue::String(bytes)),
                TAG_ITEM => Some(RecordValue::item(bytes)),
                TAG_OBJECT => objects.next().and_then(RecordValue::of),
                tag => {
                    unpacked = Object::unpack(tag, bytes.to_vec());
                    RecordValue::of(&unpacked)
                }
            };
            if let Some(value) = value {
                each(&Record {
                    db: head[0],
                    key,
                    deadline: (deadline != u64::MAX).then_some(Tick(deadline)),
                    value,
                });
            }
        }
    }
}

/// A large value that was borrowed from its entry to be encoded.
#[derive(Debug)]
pub struct Loan {
    key: Box<[u8]>,
    /// Present number of the database, and the one at the instant of the snapshot.
    db: u8,
    label: u8,
    deadline: Option<Tick>,
    object: Object,
}

impl Loan {
    /// Returns the key.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Returns the entry.
    pub fn record(&self) -> Record<'_> {
        Record {
            db: self.label,
            key: &self.key,
            deadline: self.deadline,
            value: RecordValue::of(&self.object).expect("the value was in its entry"),
        }
    }
}

/// Result of a step of the walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotStep {
    /// The shard has more entries.
    More,
    /// All entries of the shard were passed to the sink.
    Done,
    /// The shard is locked, so that nothing was done.
    Locked,
    /// The next entry has a large value. The caller borrows it, see [`View::lend_unsaved`].
    Large(u8, Box<[u8]>),
}

/// State of a snapshot in a shard whose entries were not all passed yet.
pub(crate) struct Saving {
    sink: Arc<dyn SnapshotSink>,
    /// Instant of the snapshot.
    now: Tick,
    out: Batch,
}

fn is_large(value: &Value<'_, Object>) -> bool {
    matches!(value, Value::Outside(object) if object.heap_bytes() >= LARGE_BYTES)
}

impl Saving {
    /// Passes an unsaved entry to the sink by copying it. Returns the number of bytes copied.
    fn copy(&mut self, data: &mut Db, slot: Slot, shared: &Shared) -> usize {
        let before = self.out.bytes();
        if let Some((label, own)) = self.begin(data, slot) {
            let key = data.entries.key(slot);
            let inline = match data.value(slot) {
                Value::Inline(tag, bytes) => Some((tag, bytes)),
                Value::Outside(object) => object.inline(),
            };
            match (inline, data.value(slot)) {
                (None, Value::Outside(object)) => {
                    let copy = object.duplicate(&shared.scene(self.now));
                    self.out.push_object(label, key, own, copy);
                }
                (inline, _) => {
                    let (tag, bytes) = inline.expect("a value is inline or outside");
                    self.out.push(label, tag, key, own, bytes);
                }
            }
        }
        let copied = self.out.bytes() - before;
        self.end(data, slot);
        copied
    }

    /// Passes an unsaved entry that will be removed or replaced to the sink. A value outside its
    /// block is moved; a [`Lent`] one of equal weight takes its place.
    fn take(&mut self, data: &mut Db, slot: Slot, shared: &Shared) {
        let Value::Outside(object) = data.value(slot) else {
            self.copy(data, slot, shared);
            return;
        };
        let lent = Lent {
            kind: kind_of(&Value::Outside(object)),
            bytes: object.heap_bytes(),
        };
        let begun = self.begin(data, slot);
        data.entries.mark_saved(slot);
        let taken = data
            .entries
            .edit_outside(slot, |object| std::mem::replace(object, Object::Lent(lent)));
        if let Some((label, own)) = begun {
            let object = taken.expect("the value is outside");
            self.out
                .push_object(label, data.entries.key(slot), own, object);
        }
        self.end(data, slot);
    }

    /// Returns the database and the deadline of an entry; `None` if the entry had expired at the
    /// instant of the snapshot.
    fn begin(&self, data: &Db, slot: Slot) -> Option<(u8, Option<Tick>)> {
        let label = data.entries.saving_label().expect("the entry is unsaved");
        let own = data.entries.own_deadline(slot);
        let has_expired = own.is_some_and(|own| self.now > own);
        (!has_expired).then_some((label, own))
    }

    fn end(&mut self, data: &mut Db, slot: Slot) {
        data.entries.mark_saved(slot);
        if self.out.bytes() >= BATCH_BYTES {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if self.out.bytes() > 0 {
            self.sink.put(std::mem::take(&mut self.out));
        }
    }

    /// Passes entries of a database until the steps are used up. Returns the result of the step if
    /// it ends here. `takes` means that the database was flushed, so that values may be moved.
    fn walk(
        &mut self,
        data: &mut Db,
        takes: bool,
        steps: &mut usize,
        shared: &Shared,
    ) -> Option<Stop> {
        while let Some(slot) = data.entries.next_unsaved() {
            if *steps == 0 {
                return Some(Stop::Budget);
            }
            *steps -= 1;
            if takes {
                self.take(data, slot, shared);
            } else if is_large(&data.value(slot)) {
                return Some(Stop::Large(slot));
            } else {
                let bytes = self.copy(data, slot, shared);
                *steps = steps.saturating_sub(bytes / BYTES_PER_STEP);
            }
        }
        None
    }
}

/// Reason for which the walk stops.
enum Stop {
    Budget,
    Large(Slot),
}

impl Locked {
    /// Passes an entry to the sink of a snapshot before it changes.
    #[inline(always)]
    pub fn preserve(&mut self, db: u8, slot: Slot, shared: &Shared) {
        if self.saving.is_some() {
            self.preserve_if_unsaved(db, slot, false, shared);
        }
    }

    /// Passes an entry to the sink of a snapshot before it is removed or its value is replaced.
    #[inline(always)]
    pub fn preserve_whole(&mut self, db: u8, slot: Slot, shared: &Shared) {
        if self.saving.is_some() {
            self.preserve_if_unsaved(db, slot, true, shared);
        }
    }

    #[cold]
    fn preserve_if_unsaved(&mut self, db: u8, slot: Slot, takes: bool, shared: &Shared) {
        let (Some(saving), Some(Some(data))) = (&mut self.saving, self.dbs.get_mut(db as usize))
        else {
            return;
        };
        if !data.entries.is_unsaved(slot) {
            return;
        }
        if takes {
            saving.take(data, slot, shared);
        } else {
            saving.copy(data, slot, shared);
        }
    }

    /// Returns whether an entry is unsaved and has a large value, so that it should not change yet.
    #[inline]
    pub fn is_unsaved_large(&self, db: u8, slot: Slot) -> bool {
        let is_unsaved = |data: &Db| data.entries.is_unsaved(slot) && is_large(&data.value(slot));
        self.saving.is_some() && self.db(db).is_some_and(is_unsaved)
    }

    fn snapshot_step(&mut self, steps: u32, shared: &Shared) -> SnapshotStep {
        let Some(saving) = &mut self.saving else {
            return SnapshotStep::Done;
        };
        let mut steps = steps as usize;
        let dbs = self.dbs.iter_mut().enumerate();
        let live = dbs.filter_map(|(db, data)| Some((db, data.as_mut()?, false)));
        let flushed = self.flushed.iter_mut().map(|data| (0, data, true));
        for (db, data, is_flushed) in live.chain(flushed) {
            match saving.walk(data, is_flushed, &mut steps, shared) {
                None => {}
                Some(Stop::Budget) => return SnapshotStep::More,
                Some(Stop::Large(slot)) => {
                    return SnapshotStep::Large(db as u8, data.entries.key(slot).into());
                }
            }
        }
        saving.flush();
        self.saving = None;
        SnapshotStep::Done
    }
}

impl Keyspace {
    /// Passes about `steps` entries of a shard to the sink of the snapshot. Does nothing if the
    /// shard is locked.
    pub fn snapshot_step(&self, shard: usize, steps: u32) -> SnapshotStep {
        match self.background_guard(shard) {
            Some(mut locked) => locked.snapshot_step(steps, self.shared()),
            None => SnapshotStep::Locked,
        }
    }

    /// Ends a snapshot before all entries were passed.
    pub fn cancel_snapshot(&self) {
        for shard in 0..self.shard_count() {
            let mut locked = self.guard(shard);
            let locked = &mut *locked;
            locked.saving = None;
            let dbs = locked.dbs.iter_mut().flatten();
            for data in dbs.chain(&mut locked.flushed) {
                data.entries.end_saving();
            }
        }
    }

    /// Returns the conditions under which collections are read at an instant.
    pub fn scene(&self, now: Tick) -> Scene<'_> {
        self.shared().scene(now)
    }
}

impl View<'_> {
    /// Begins a snapshot of the keys as they are now. Needs all shards; no other snapshot may be in
    /// progress, and no value lent to another keyspace.
    pub fn begin_snapshot(&mut self, sink: &Arc<dyn SnapshotSink>) {
        let now = self.now();
        for locked in self.all() {
            assert!(locked.saving.is_none());
            for (db, data) in locked.dbs.iter_mut().enumerate() {
                if let Some(data) = data {
                    data.entries.begin_saving(db as u8);
                }
            }
            locked.saving = Some(Box::new(Saving {
                sink: Arc::clone(sink),
                now,
                out: Batch::default(),
            }));
        }
    }

    /// Returns whether a key has a large value that the snapshot in progress has not saved, so that
    /// a command that writes the key should wait. Does not count the access.
    #[inline]
    pub fn is_unsaved_large(&mut self, key: &Key<'_>) -> bool {
        let locked = self.parts(key).2;
        let find = |data: &Db| data.find(key.hash, key.bytes);
        locked.saving.is_some()
            && locked
                .db(key.db)
                .and_then(find)
                .is_some_and(|slot| locked.is_unsaved_large(key.db, slot))
    }

    /// Borrows the large value of a key that the snapshot in progress has not saved. Returns `None`
    /// if there is no such value. Until [`View::take_loan_back`], commands that name the key must
    /// wait.
    pub fn lend_unsaved(&mut self, key: &Key<'_>) -> Option<Loan> {
        let locked = self.parts(key).2;
        let data = locked.dbs.get_mut(key.db as usize)?.as_mut()?;
        let slot = data.find(key.hash, key.bytes)?;
        let label = data.entries.saving_label()?;
        if !data.entries.is_unsaved(slot) || !is_large(&data.value(slot)) {
            return None;
        }
        data.entries.mark_saved(slot);
        let (object, deadline) = self.lend_slot(key, slot)?;
        Some(Loan {
            key: key.bytes.into(),
            db: key.db,
            label,
            deadline,
            object,
        })
    }

    /// Moves a borrowed value back to its entry. Frees it in the background if the entry has
    /// expired, was evicted or was flushed meanwhile.
    pub fn take_loan_back(&mut self, loan: Loan) {
        let key = self.space.key(loan.db, &loan.key);
        if let Some(object) = self.put_lent_back(&key, loan.object) {
            self.parts(&key).2.defer_drop(Some(object));
        }
    }
}
