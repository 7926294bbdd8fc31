//! The slab engine: the locked shards of the keyspace.

mod items;

use super::condition::Condition;
use super::{Facts, Strings};
use crate::lifetime::{Conditions, DeadlineChange, When, deadline, is_past};
use crate::refusal::{OUT_OF_MEMORY, Refusal, check_memory};
use session::locks::{Locks, Room, make_room};
use session::stats::Stats;
use settings::{Config, Id};
use std::ops::{Deref, DerefMut};
use store::{
    Class, Counters, DbFacts, Full, Instants, Key, Keyspace, Kind, MemoryFacts, NewDeadline, Soft,
    Tick, View,
};
use wire::Reply;
use wire::number::{Text, parse_i64};
use wire::request::BULK_BYTES_MAX;

/// Event for a stored value.
const SET: (Class, &str) = (Class::String, "set");
/// Event for a value stored with a new deadline.
const EXPIRE: (Class, &str) = (Class::Generic, "expire");

/// The locked shards of a command. Commands on types other than strings use the [`View`] directly.
pub struct Slab<'a, 'v> {
    /// The locked shards.
    pub view: &'a mut View<'v>,
    /// The keyspace that the shards belong to.
    pub space: &'v Keyspace,
    /// Shards that `view` has locked.
    pub locks: &'a Locks,
    /// Whether the command comes from an append-only file or a primary. It was executed before, so
    /// that no value counts as too large.
    pub is_of_feed: bool,
}

impl<'v> Deref for Slab<'_, 'v> {
    type Target = View<'v>;

    #[inline]
    fn deref(&self) -> &View<'v> {
        self.view
    }
}

impl<'v> DerefMut for Slab<'_, 'v> {
    #[inline]
    fn deref_mut(&mut self) -> &mut View<'v> {
        self.view
    }
}

impl<'a, 'v> Slab<'a, 'v> {
    /// Creates a client's access to locked shards.
    pub fn new(view: &'a mut View<'v>, space: &'v Keyspace, locks: &'a Locks) -> Self {
        let is_of_feed = false;
        Slab {
            view,
            space,
            locks,
            is_of_feed,
        }
    }
}

impl Slab<'_, '_> {
    /// Makes room for a command's writes to a database.
    #[inline]
    pub fn make_room(&mut self, db: u8) -> Room {
        make_room(self.space, self.view, self.locks, db)
    }

    /// Whether a database or all memory is full and nothing can be evicted. The caller must have
    /// locked all shards if its own have no room.
    #[inline]
    pub fn is_full(&mut self, db: u8) -> bool {
        let room = self.make_room(db);
        if room == Room::None(Full::Database) {
            self.space.refuse_full(db);
        }
        matches!(room, Room::None(_))
    }

    /// Whether a value of this many bytes must be refused because it would not fit into `maxmemory`
    /// even if all keys were evicted. The request contains `given_len` bytes of it.
    pub fn is_too_large(&self, db: u8, len: usize, given_len: usize) -> bool {
        !self.is_of_feed && !self.space.can_hold(db, len, given_len)
    }

    /// Returns an error unless a value may grow to this length. The request contains `given_len`
    /// bytes of it.
    ///
    /// # Errors
    /// The value does not fit into `maxmemory`, or its memory cannot be allocated.
    pub fn check_growth(&self, db: u8, len: usize, given_len: usize) -> Result<(), Refusal> {
        if self.is_too_large(db, len, given_len) {
            return Err(Refusal::Message(OUT_OF_MEMORY));
        }
        check_memory(len)
    }

    /// Stores a value and publishes the event. A value with a deadline in the past is stored and
    /// expired at once, so that both events are published.
    #[inline]
    fn store(&mut self, key: &Key<'_>, value: &[u8], expiration: DeadlineChange) {
        self.store_as(key, value, expiration, [SET, EXPIRE]);
    }

    /// Like `store`, but for MSETEX, whose events have the opposite order in Redis.
    pub fn store_of_msetex(&mut self, key: &Key<'_>, value: &[u8], expiration: DeadlineChange) {
        self.store_as(key, value, expiration, [EXPIRE, SET]);
    }

    /// Stores a value and publishes these events; [`EXPIRE`] only if there is a new deadline.
    #[inline]
    fn store_as(
        &mut self,
        key: &Key<'_>,
        value: &[u8],
        expiration: DeadlineChange,
        events: [(Class, &'static str); 2],
    ) {
        // The key is looked up only if events are published.
        let notifies = self.view.notifies();
        let old = notifies.then(|| self.view.kind(key)).flatten();
        let deadline = match expiration {
            DeadlineChange::To(deadline) => deadline,
            DeadlineChange::Past => NewDeadline::Clear,
        };
        self.view.set(key, value, deadline);
        if notifies {
            self.view.notify_stored(key, old);
            let events = events.into_iter();
            let published = events.filter(|event| *event == SET || sets_deadline(expiration));
            published.for_each(|(class, name)| self.view.notify(class, name, key));
        }
        if expiration == DeadlineChange::Past {
            self.view.expire_now(key);
        }
    }

    fn holds(&mut self, condition: &Condition<'_>, key: &Key<'_>) -> Result<bool, Refusal> {
        Ok(match condition {
            Condition::Always => true,
            Condition::Absent => self.view.kind(key).is_none(),
            Condition::Present => self.view.kind(key).is_some(),
            Condition::Compares(comparison) => comparison.holds(self.view.peek(key)?)?,
        })
    }
}

/// Whether a value gets a new deadline, which may be in the past.
#[inline]
fn sets_deadline(expiration: DeadlineChange) -> bool {
    !matches!(
        expiration,
        DeadlineChange::To(NewDeadline::Clear | NewDeadline::Keep)
    )
}

impl Strings for Slab<'_, '_> {
    #[inline]
    fn now(&self) -> Tick {
        self.view.now()
    }

    #[inline]
    fn instants(&self) -> Instants {
        self.view.instants()
    }

    #[inline]
    fn key<'k>(&self, db: u8, bytes: &'k [u8]) -> Key<'k> {
        self.space.key(db, bytes)
    }

    fn prefetch(&self, key: &Key<'_>) {
        self.view.prefetch_bucket(key);
    }

    fn prefetch_value(&self, key: &Key<'_>) {
        self.view.prefetch_entry(key);
    }

    #[inline]
    fn missed(&mut self, key: &Key<'_>) {
        self.view.notify(Class::KeyMiss, "keymiss", key);
    }

    #[inline]
    fn reply_value(&mut self, key: &Key<'_>, reply: &mut Reply<'_>) -> Result<bool, Refusal> {
        match self.view.get(key)? {
            Some(value) => {
                reply.bulk(value);
                Ok(true)
            }
            None => {
                reply.null();
                self.missed(key);
                Ok(false)
            }
        }
    }

    fn value_len(&mut self, key: &Key<'_>) -> Result<Option<usize>, Refusal> {
        Ok(self.view.get(key)?.map(<[u8]>::len))
    }

    #[inline]
    fn put(
        &mut self,
        key: &Key<'_>,
        value: &[u8],
        expiration: DeadlineChange,
        condition: &Condition<'_>,
        old: Option<&mut Reply<'_>>,
    ) -> Result<bool, Refusal> {
        if let Some(reply) = old {
            self.reply_value(key, reply)?;
        }
        let is_stored = self.holds(condition, key)?;
        if is_stored {
            self.store(key, value, expiration);
        }
        Ok(is_stored)
    }

    fn check_tags(&self) -> Result<(), Refusal> {
        Ok(())
    }

    fn set_tags(&mut self, key: &Key<'_>, tags: &[&[u8]]) {
        self.view.set_tags(key, tags);
    }

    fn check_soft(&self) -> Result<(), Refusal> {
        Ok(())
    }

    fn is_stale(&mut self, key: &Key<'_>) -> bool {
        self.view.is_stale(key)
    }

    fn set_soft(&mut self, key: &Key<'_>, soft: Soft) {
        self.view.set_soft(key, soft);
    }

    fn permits(&mut self, key: &Key<'_>, token: u64, tags: Option<&[&[u8]]>) -> bool {
        self.view.permits(key, token, tags)
    }

    fn append(&mut self, key: &Key<'_>, value: &[u8]) -> Result<usize, Refusal> {
        let len = match self.view.peek(key)?.map(<[u8]>::len) {
            None => {
                // SET creates the key even for an empty value, which `edit` would not do.
                self.view.set(key, value, NewDeadline::Clear);
                self.view.notify(Class::New, "new", key);
                value.len()
            }
            Some(old_len) => {
                let len = old_len.saturating_add(value.len());
                if len > BULK_BYTES_MAX {
                    return Err(Refusal::TooLong);
                }
                self.check_growth(key.db, len, value.len())?;
                self.view
                    .edit(key, |bytes| bytes.extend_from_slice(value))?;
                len
            }
        };
        self.view.notify(Class::String, "append", key);
        Ok(len)
    }

    fn take(&mut self, key: &Key<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
        self.reply_value(key, reply)?;
        // A lease ends even if there is no value.
        self.remove(key);
        Ok(())
    }

    fn reply_and_expire(
        &mut self,
        key: &Key<'_>,
        reply: &mut Reply<'_>,
        expiration: impl Fn() -> Result<DeadlineChange, Refusal>,
    ) -> Result<(), Refusal> {
        if !self.reply_value(key, reply)? {
            return Ok(());
        }
        match expiration()? {
            DeadlineChange::Past => {
                self.view.expire_now(key);
            }
            DeadlineChange::To(NewDeadline::Keep) => {}
            DeadlineChange::To(NewDeadline::Clear) => {
                self.persist(key)?;
            }
            DeadlineChange::To(NewDeadline::At(deadline)) => {
                self.view.set_deadline(key, Some(deadline));
                self.view.notify(Class::Generic, "expire", key);
            }
        }
        Ok(())
    }

    fn add(&mut self, key: &Key<'_>, increment: i64) -> Result<i64, Refusal> {
        let old = match self.view.peek(key)? {
            Some(value) => Some(parse_i64(value).ok_or(Refusal::NotInteger)?),
            None => None,
        };
        let sum = old.unwrap_or(0).checked_add(increment);
        let sum = sum.ok_or(Refusal::Overflow)?;
        let text = Text::integer(sum);
        self.view.set(key, text.as_bytes(), NewDeadline::Keep);
        if old.is_none() {
            self.view.notify(Class::New, "new", key);
        }
        self.view.notify(Class::String, "incrby", key);
        Ok(sum)
    }

    fn remove(&mut self, key: &Key<'_>) -> bool {
        let existed = self.view.delete(key);
        if existed {
            self.view.notify(Class::Generic, "del", key);
        }
        existed
    }

    fn contains(&mut self, key: &Key<'_>) -> bool {
        self.view.touch(key)
    }

    fn kind(&mut self, key: &Key<'_>) -> Option<Kind> {
        self.view.kind(key)
    }

    fn deadline(&mut self, key: &Key<'_>) -> Option<Option<Tick>> {
        self.view.deadline(key)
    }

    fn expire(
        &mut self,
        key: &Key<'_>,
        when: When,
        conditions: &Conditions,
    ) -> Result<bool, Refusal> {
        // The conditions are compared with the deadline as it is stored, which is limited to the
        // maximum.
        let when = when.min(Tick::MAX.0 as i64);
        let old = self.view.deadline(key);
        if !old.is_some_and(|old| conditions.hold(old, when)) {
            return Ok(false);
        }
        if is_past(when, self.view.horizon()) {
            self.view.expire_now(key);
        } else {
            self.view.set_deadline(key, Some(deadline(when)));
            self.view.notify(Class::Generic, "expire", key);
        }
        Ok(true)
    }

    fn persist(&mut self, key: &Key<'_>) -> Result<bool, Refusal> {
        let had_deadline = self.view.deadline(key).flatten().is_some();
        if had_deadline {
            self.view.set_deadline(key, None);
            self.view.notify(Class::Generic, "persist", key);
        }
        Ok(had_deadline)
    }

    fn len(&mut self, db: u8) -> usize {
        self.view.len(db)
    }

    fn flush(&mut self, db: u8) {
        self.view.flush(db);
    }
}

impl Facts for Keyspace {
    fn databases(&self) -> usize {
        Keyspace::databases(self)
    }

    fn memory_facts(&self) -> MemoryFacts {
        Keyspace::memory_facts(self)
    }

    fn used_bytes(&self) -> u64 {
        Keyspace::memory_facts(self).used_bytes
    }

    fn published_bytes(&self) -> u64 {
        Keyspace::published_bytes(self)
    }

    fn db_facts(&self, db: u8, now: Tick) -> DbFacts {
        Keyspace::db_facts(self, db, now)
    }

    fn counters(&self, _stats: &Stats) -> Counters {
        Keyspace::counters(self)
    }

    fn reset_counters(&self) {
        Keyspace::reset_counters(self);
    }

    fn eviction_name(&self, _config: &Config) -> String {
        self.policy().name
    }

    fn describe(&self, config: &Config) -> String {
        format!(
            "policy {}, expiry index {}",
            self.policy().line(),
            config.text(Id::Expiry)
        )
    }

    fn warning(&self, _threads: usize) -> Option<String> {
        None
    }

    fn clear(&self, db: u8, now: Tick) {
        self.lock_all(now).flush(db);
    }

    fn allow_change(&self) -> Result<(), String> {
        Ok(())
    }

    fn change_policy(&self, config: &Config) -> Result<(), String> {
        self.set_policy(&config.text(Id::MaxMemoryPolicy))?;
        log::info!("maxmemory-policy is {}", self.policy().line());
        Ok(())
    }

    fn change_eviction(&self, _config: &Config) -> Result<(), String> {
        Ok(())
    }
}
