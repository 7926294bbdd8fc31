//! Snapshots: a copy of all keys as they were at one instant, made in steps while they change.
//!
//! [`View::begin_snapshot`] sets the instant under the locks of all shards, in constant time per
//! database and shard. From then on each entry is passed to the [`SnapshotSink`] once:
//!
//! - [`Keyspace::snapshot_step`] walks the entries of one shard, some at a time.
//! - An entry that has not been passed yet is passed before a command, expiry or eviction changes
//!   or removes it. Without a snapshot, this check is one branch per write.
//!
//! `cache/src/packed/unsaved.rs` records which entries are left. An entry is copied as the bytes of
//! its block, which takes tens of nanoseconds; the caller encodes them on its own thread.
//!
//! A large value is not copied, because that takes long. If it is removed or replaced, it is moved
//! to the sink. Otherwise the caller borrows it ([`View::lend_unsaved`]), encodes it on its thread
//! and returns it, while commands on its key wait, as for a long command. Where a command changes
//! such a value without waiting, because it could not name the key before it ran (a script, or a
//! client that was blocked), the value is copied after all. Expired elements of such a value are
//! hidden, and removed after it was passed.
//!
//! A flushed database is kept until the walk has passed it.

use crate::collection::Scene;
use crate::keyspace::Keyspace;
use crate::object::Object;
use crate::saving::{Batch, Record, RecordValue, Saving, SnapshotSink, Stop, is_large};
use crate::shard::Locked;
use crate::shared::{Db, Key, Shared};
use crate::tagging::encode_labels;
use crate::view::View;
use policy::{Slot, Tick};
use std::sync::Arc;

/// A large value that was borrowed from its entry for encoding.
#[derive(Debug)]
pub struct Loan {
    key: Box<[u8]>,
    /// Present number of the database, and the one at the instant of the snapshot.
    db: u8,
    label: u8,
    deadline: Option<Tick>,
    labels: Vec<u8>,
    is_protected: bool,
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
            labels: &self.labels,
            is_protected: self.is_protected,
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
        let flushed = self.flushed.iter_mut();
        let flushed = flushed.map(|waste| (0, &mut waste.data, true));
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
    /// shard is locked, or if there is no shard of this number.
    pub fn snapshot_step(&self, shard: usize, steps: u32) -> SnapshotStep {
        if shard >= self.shard_count() {
            return SnapshotStep::Done;
        }
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
            let flushed = locked.flushed.iter_mut().map(|waste| &mut waste.data);
            for data in dbs.chain(flushed) {
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
    /// Begins a snapshot of the keys as they are now. Needs all shards. No other snapshot may be in
    /// progress, and no value may be lent to another keyspace.
    pub fn begin_snapshot(&mut self, sink: &Arc<dyn SnapshotSink>) {
        let now = self.now();
        for locked in self.all() {
            assert!(locked.saving.is_none());
            for (db, data) in locked.dbs.iter_mut().enumerate() {
                if let Some(data) = data {
                    data.begin_saving(db as u8);
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
        let (soft_until, is_protected) = (data.was_soft_until(slot), data.is_protected(slot));
        let labels = encode_labels(data, slot, soft_until.is_some());
        let (object, deadline) = self.lend_slot(key, slot)?;
        let deadline = deadline.into_iter().chain(soft_until).min();
        Some(Loan {
            key: key.bytes.into(),
            db: key.db,
            label,
            deadline,
            labels,
            is_protected,
            object,
        })
    }

    /// Moves a borrowed value back to its entry. Frees it in the background if the entry has
    /// expired, was evicted or was flushed meanwhile.
    pub fn take_loan_back(&mut self, loan: Loan) {
        let key = self.space.key(loan.db, &loan.key);
        if let Some(object) = self.put_lent_back(&key, loan.object) {
            let (space, _, locked) = self.parts(&key);
            locked.defer_drop(Some(object), space.shared());
        }
    }
}
