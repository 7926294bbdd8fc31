//! The keys, and what holds commands back from them.

use durability::saving::HoldsWrites;
use engine::Facts;
use engine::segment::Segments;
use session::clock::Moment;
use settings::{Config, Effect, Id, TABLE, classes, events};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use store::{Keyspace, Tick};

/// State that holds commands back: CLIENT PAUSE, and a stop of the server that awaits its snapshot.
/// One does not end the other.
#[derive(Default)]
pub struct Pause {
    /// Lock for changes.
    change: Mutex<()>,
    /// Whether commands are or may be held. It is set while there is a stop, and from the beginning
    /// of a CLIENT PAUSE until a worker has found that it has ended.
    is_set: AtomicBool,
    /// End of CLIENT PAUSE; 0 if there is none.
    until_ms: AtomicU64,
    /// Whether CLIENT PAUSE holds all commands, and not only those that may write.
    holds_all: AtomicBool,
    /// Whether a stop holds commands that may write.
    holds_for_stop: AtomicBool,
    /// Whether FAILOVER holds commands that may write.
    holds_for_failover: AtomicBool,
}

impl Pause {
    /// Holds commands until the given time: all, or only those that may write. As in Redis, a pause
    /// that is in force neither ends earlier nor becomes weaker.
    fn begin(&self, now: Moment, until: Moment, holds_all: bool) {
        let is_stronger = self.client_until(now).is_some() && self.holds_all.load(Relaxed);
        self.holds_all.store(holds_all || is_stronger, Relaxed);
        self.until_ms.fetch_max(until.0, Relaxed);
    }

    /// Returns the end of CLIENT PAUSE if it has not passed.
    fn client_until(&self, now: Moment) -> Option<Moment> {
        let until = Moment(self.until_ms.load(Relaxed));
        (until > now).then_some(until)
    }

    /// Whether commands that may write are held without a known end.
    fn holds_writes(&self) -> bool {
        self.holds_for_stop.load(Relaxed) || self.holds_for_failover.load(Relaxed)
    }

    /// Returns the time until which commands are held, if any are. Its end is not known during a
    /// stop or FAILOVER.
    pub fn until(&self, now: Moment) -> Option<Moment> {
        match self.holds_writes() {
            true => Some(Moment(u64::MAX)),
            false => self.client_until(now),
        }
    }

    /// Whether commands are held, or were held by a pause whose end no worker has noticed yet.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.is_set.load(Relaxed)
    }

    /// Whether writes are held because the server stops after a snapshot.
    pub fn is_for_stop(&self) -> bool {
        self.holds_for_stop.load(Relaxed)
    }

    /// Whether commands of one kind are held now: those that may write, or those that only read.
    pub fn holds(&self, may_write: bool, now: Moment) -> bool {
        if !self.is_set() {
            return false;
        }
        may_write && self.holds_writes()
            || self.client_until(now).is_some() && (may_write || self.holds_all.load(Relaxed))
    }
}

/// The keys of the server, in one of the two engines.
pub struct Data {
    /// All keys; empty with the segment engine.
    pub keyspace: Keyspace,
    /// The segment engine, if it is configured.
    pub segments: Option<Segments>,
    /// State that holds commands back.
    pub pause: Pause,
    /// Time at which a delayed `flush_all` empties memcached's database, in ms since 1970; 0 if
    /// there is none.
    pub flush_at_ms: AtomicU64,
    notifies: AtomicBool,
}

impl Data {
    /// Creates the group from the engines.
    pub(super) fn new(keyspace: Keyspace, segments: Option<Segments>) -> Data {
        Data {
            keyspace,
            segments,
            pause: Pause::default(),
            flush_at_ms: AtomicU64::new(0),
            notifies: AtomicBool::new(false),
        }
    }

    /// The engine that holds the keys.
    pub fn engine(&self) -> &dyn Facts {
        match &self.segments {
            Some(segments) => segments,
            None => &self.keyspace,
        }
    }

    /// Number of keys in all databases.
    pub fn key_count(&self, now: Tick) -> u64 {
        let engine = self.engine();
        let keys = |db| engine.db_facts(db, now).keys;
        (0..engine.databases()).map(|db| keys(db as u8)).sum()
    }

    /// Returns the bytes that all clients hold: their buffers, queued commands, subscriptions,
    /// watched keys and records.
    pub fn client_bytes(&self) -> u64 {
        self.keyspace.outside_bytes()
    }

    /// Copies the notification settings to the components that cache them.
    pub fn apply_notifications(&self, config: &Config) {
        let events = config.number(Id::NotifyKeyspaceEvents) as u32;
        self.notifies.store(events::is_on(events), Relaxed);
        self.keyspace.set_notify(events::is_on(events));
        let names_elements = events::names_elements(events);
        self.keyspace.set_names_elements(names_elements);
    }

    /// Copies the classes of keys to the keyspace.
    ///
    /// # Errors
    /// The segment engine has no classes, or a class names a database that does not exist.
    pub fn apply_classes(&self, config: &Config) -> Result<(), String> {
        let classes = classes::parse(&config.text(Id::Classes))?;
        if self.segments.is_some() && !classes.rules().is_empty() {
            let error = "classes of keys need the slab engine: the segment engine removes keys by segments, without a look at each key";
            return Err(error.to_owned());
        }
        let databases = self.keyspace.databases();
        let is_beyond = |db: u8| usize::from(db) >= databases;
        if let Some(rule) = classes
            .rules()
            .iter()
            .find(|rule| rule.db.is_some_and(is_beyond))
        {
            return Err(format!(
                "class {}: there are {databases} databases, from 0 on",
                rule.name
            ));
        }
        self.keyspace.set_classes(&Arc::new(classes));
        Ok(())
    }

    /// Copies the limits of packed collections to the keyspace.
    pub fn apply_limits(&self, config: &Config) {
        let limits = self.keyspace.limits();
        for param in TABLE {
            if let Effect::Limit(name) = param.effect {
                let is_known = limits.set(name, config.number(param.id));
                debug_assert!(is_known, "{name}");
            }
        }
    }

    /// Begins or ends holding commands that may write for FAILOVER.
    pub fn hold_for_failover(&self, on: bool) {
        self.change_pause(|pause| pause.holds_for_failover.store(on, Relaxed));
    }

    /// Begins CLIENT PAUSE: holds commands until the given time, and stops expiry and eviction, so
    /// that the keys do not change.
    pub fn begin_pause(&self, now: Moment, until: Moment, holds_all: bool) {
        self.change_pause(|pause| pause.begin(now, until, holds_all));
    }

    /// Ends CLIENT PAUSE.
    pub fn end_pause(&self) {
        self.change_pause(|pause| pause.until_ms.store(0, Relaxed));
    }

    /// Ends CLIENT PAUSE if its time has passed.
    #[inline]
    pub fn end_pause_in_time(&self, now: Moment) {
        if self.pause.is_set() && self.pause.until(now).is_none() {
            self.change_pause(|pause| {
                // Another worker may have begun a pause in between.
                if pause.client_until(now).is_none() {
                    pause.until_ms.store(0, Relaxed);
                }
            });
        }
    }

    fn change_pause(&self, change: impl FnOnce(&Pause)) {
        let pause = &self.pause;
        let _changing = pause.change.lock().expect("the lock is not poisoned");
        change(pause);
        let is_set = pause.holds_writes() || pause.until_ms.load(Relaxed) != 0;
        pause.is_set.store(is_set, Relaxed);
        self.keyspace.set_frozen(is_set);
    }

    /// Whether any keyspace event is enabled.
    #[inline]
    pub fn notifies(&self) -> bool {
        self.notifies.load(Relaxed)
    }
}

impl HoldsWrites for Data {
    fn hold_for_stop(&self, on: bool) {
        self.change_pause(|pause| pause.holds_for_stop.store(on, Relaxed));
    }
}
