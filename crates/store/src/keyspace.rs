//! The keyspace: its shards, and its settings and statistics.

use crate::eviction::PolicyChoice;
use crate::limits::Limits;
use crate::memory::Memory;
use crate::shard::Locked;
use crate::shared::{Condition, Key, Shared};
use policy::expire::any::{ExpirySpec, INDEXES, PRESETS};
use policy::knobs::SpecError;
use policy::{ExpiryIndex, Tick};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

mod background;
mod yielding;

/// Maximum number of shards of a keyspace.
pub const SHARDS_MAX: usize = 256;

/// Options of a keyspace.
#[derive(Clone, Debug)]
pub struct Options {
    /// Number of shards: a power of two, at most [`SHARDS_MAX`].
    pub shards: usize,
    /// Eviction policy as named by `maxmemory-policy`: one of [`Keyspace::policy_names`], with
    /// parameters after a colon.
    pub policy: String,
    /// Expiry index of the keys: one of [`Keyspace::expiry_names`], with parameters after a colon.
    pub expiry: String,
    /// Maximum memory in bytes; 0 means no limit.
    pub maxmemory: u64,
    /// Secret key of the hash function. The caller takes it from the random numbers of the
    /// operating system.
    pub hash_key: [u64; 2],
    /// Seed of all other random choices.
    pub seed: u64,
}

/// One shard, aligned to its own cache lines, so that workers on neighbouring shards do not slow
/// each other down.
#[repr(align(128))]
struct Cell {
    locked: Mutex<Locked>,
    /// Earliest deadline of the shard's indexes in milliseconds, readable without the lock;
    /// `u64::MAX` means none.
    next_due: AtomicU64,
    /// Earliest deadline of the keys that clients of a replica have written.
    next_local: AtomicU64,
    /// Instant since which keys with invalidated tags wait to be removed.
    stale_since: AtomicU64,
    /// Number of changes when this was last read.
    changes: AtomicU64,
    /// Number of consecutive calls of background work that found the shard locked.
    missed: AtomicU32,
    /// Bytes of the shard at the end of the last background work on it, or when a setting was last
    /// changed, readable without the lock; 0 if nothing in it can be evicted.
    evictable_bytes: AtomicU64,
}

impl Cell {
    fn new() -> Cell {
        Cell {
            locked: Mutex::default(),
            next_due: AtomicU64::new(u64::MAX),
            next_local: AtomicU64::new(u64::MAX),
            stale_since: AtomicU64::new(u64::MAX),
            changes: AtomicU64::new(0),
            missed: AtomicU32::new(0),
            evictable_bytes: AtomicU64::new(0),
        }
    }
}

/// Databases of keys, divided into shards that are locked one by one.
pub struct Keyspace {
    cells: Box<[Cell]>,
    shared: Shared,
}

fn parse_expiry(name: &str) -> Result<ExpirySpec, String> {
    name.parse().map_err(|error: SpecError| error.to_string())
}

impl Keyspace {
    /// Creates an empty keyspace.
    ///
    /// # Errors
    ///
    /// The policy or the index does not exist. The message is meant for users.
    pub fn new(options: &Options, _now: Tick) -> Result<Keyspace, String> {
        assert!(options.shards.is_power_of_two());
        assert!(options.shards <= SHARDS_MAX);
        let policy = PolicyChoice::parse(&options.policy)?;
        let expiry = parse_expiry(&options.expiry)?;
        let memory = Memory::default();
        memory.set_max_bytes(options.maxmemory);
        memory.set_evicts(policy.spec.is_some());
        Ok(Keyspace {
            cells: (0..options.shards).map(|_| Cell::new()).collect(),
            shared: Shared {
                memory,
                ..Shared::new(
                    options.shards,
                    policy,
                    expiry,
                    options.hash_key,
                    options.seed,
                )
            },
        })
    }

    /// Creates an empty keyspace of one shard that can temporarily hold values of this one. It has
    /// the same hash function, the same limits of packed collections and the same indexes, but no
    /// memory limit other than that of a single value. It collects events if this one does.
    pub fn annex(&self) -> Keyspace {
        let own = &self.shared;
        let (policy, expiry) = (PolicyChoice::none(), own.expiry.clone());
        Keyspace {
            cells: Box::new([Cell::new()]),
            shared: Shared {
                memory: own.memory.annex(),
                quotas: own.quotas.annex(),
                databases: own.databases,
                notify: AtomicBool::new(own.is_notifying()),
                frozen: AtomicBool::new(own.is_frozen()),
                names_elements: AtomicBool::new(own.names_elements()),
                removes_until: AtomicU64::new(own.removes_until.load(Ordering::Relaxed)),
                expires_actively: AtomicBool::new(own.expires_actively.load(Ordering::Relaxed)),
                limits: own.limits.clone(),
                element_expiry: own.element_expiry.clone(),
                ..Shared::new(1, policy, expiry, own.hash_key, own.seed)
            },
        }
    }

    /// Selects the index for the deadlines of collection elements; without this call it is
    /// `ranked`. It must be called before any element is stored.
    ///
    /// # Errors
    ///
    /// The index does not exist. The message is meant for users.
    pub fn with_element_expiry(mut self, name: &str) -> Result<Keyspace, String> {
        self.shared.element_expiry = parse_expiry(name)?;
        Ok(self)
    }

    /// Sets the number of databases; the default is 16. A database takes no memory until a key is
    /// stored in it; then each shard keeps 20 bytes for every lower number.
    ///
    /// # Panics
    ///
    /// The number is 0 or greater than [`DATABASES_MAX`](crate::DATABASES_MAX).
    pub fn with_databases(mut self, databases: usize) -> Self {
        assert!((1..=crate::DATABASES_MAX).contains(&databases));
        self.shared.databases = databases;
        self
    }

    /// Returns the number of databases.
    pub fn databases(&self) -> usize {
        self.shared.databases
    }

    /// Returns the number of shards.
    pub fn shard_count(&self) -> usize {
        self.cells.len()
    }

    /// Returns a key with its hash.
    #[inline]
    pub fn key<'k>(&self, db: u8, bytes: &'k [u8]) -> Key<'k> {
        self.shared.key(db, bytes)
    }

    /// Returns the number of the shard that holds a key.
    #[inline]
    pub fn shard_of(&self, key: &Key<'_>) -> usize {
        key.hash as usize & (self.cells.len() - 1)
    }

    /// Returns the limits below which collections are stored in packed form.
    pub fn limits(&self) -> &Limits {
        &self.shared.limits
    }

    /// Sets whether the keyspace collects events: its own (`expired` and `evicted`) and those that
    /// commands pass to [`crate::View::notify`].
    pub fn set_notify(&self, on: bool) {
        self.shared.notify.store(on, Ordering::Relaxed);
    }

    /// Sets whether the keys are frozen: expired ones are hidden but not removed, and nothing is
    /// evicted. Writes are up to the caller.
    pub fn set_frozen(&self, on: bool) {
        self.shared.frozen.store(on, Ordering::Relaxed);
    }

    /// Makes expiry remove only entries that have expired at an instant, which the caller advances:
    /// the keys are a copy whose changes arrive late, and a change may need an entry that has
    /// already expired by the current clock. Entries that have expired since then are hidden.
    /// `None` ends this.
    pub fn set_removal_limit(&self, until: Option<Tick>) {
        let until = until.map_or(u64::MAX, |until| until.0);
        self.shared.removes_until.store(until, Ordering::Relaxed);
    }

    /// Withholds the events of keys for which a condition holds when they expire or are evicted,
    /// because another server publishes them or may do so; [`crate::View::take_withheld`] returns
    /// them. A thread that locks a shard later uses the condition.
    pub fn set_withholding(&self, condition: Option<Condition>) {
        let current = self.shared.withholding.write();
        *current.unwrap_or_else(PoisonError::into_inner) = condition;
    }

    /// Whether removing expired entries waits for [`Keyspace::set_removal_limit`].
    pub fn has_removal_limit(&self) -> bool {
        self.shared.removes_until.load(Ordering::Relaxed) != u64::MAX
    }

    /// Returns the instant by which [`Keyspace::expire`] removes entries at `now`.
    pub fn removal_instant(&self, now: Tick) -> Tick {
        self.shared.removal_instant(now)
    }

    /// Sets whether events name the fields and members that have changed or expired.
    pub fn set_names_elements(&self, on: bool) {
        self.shared.names_elements.store(on, Ordering::Relaxed);
    }

    /// Sets whether [`Keyspace::expire`] removes anything. Expired keys and elements are hidden in
    /// any case, and removed when they are accessed.
    pub fn set_active_expiry(&self, on: bool) {
        self.shared.expires_actively.store(on, Ordering::Relaxed);
    }

    /// Whether [`Keyspace::expire`] removes anything.
    pub fn expires_actively(&self) -> bool {
        self.shared.expires_actively.load(Ordering::Relaxed) && !self.is_frozen()
    }

    /// Whether [`Keyspace::expire`] removes what expires as time passes.
    pub fn expires_by_clock(&self) -> bool {
        self.expires_actively() && !self.has_removal_limit()
    }

    /// Whether [`Keyspace::set_frozen`] is in force.
    pub fn is_frozen(&self) -> bool {
        self.shared.is_frozen()
    }

    /// Prefetches a key's bucket, for a worker that does not hold all shards. Does nothing if the
    /// shard is locked.
    #[inline]
    pub fn prefetch_bucket(&self, key: &Key<'_>) {
        if let Ok(locked) = self.cells[self.shard_of(key)].locked.try_lock()
            && let Some(db) = locked.db(key.db)
        {
            db.entries.prefetch_bucket(key.hash);
        }
    }

    /// Prefetches a key's entry. It should be called when the bucket of the key is in the
    /// processor's cache.
    #[inline]
    pub fn prefetch_entry(&self, key: &Key<'_>) {
        if let Ok(locked) = self.cells[self.shard_of(key)].locked.try_lock()
            && let Some(db) = locked.db(key.db)
        {
            db.entries.prefetch_entry(key.hash);
        }
    }

    /// Locks a shard. Sets `has_waited` if another thread held it.
    pub(crate) fn guard_noting(
        &self,
        shard: usize,
        has_waited: &mut bool,
    ) -> MutexGuard<'_, Locked> {
        self.try_guard(shard).unwrap_or_else(|| {
            *has_waited = true;
            self.guard(shard)
        })
    }

    pub(crate) fn guard(&self, shard: usize) -> MutexGuard<'_, Locked> {
        // A worker that panicked under the lock may have left the shard inconsistent. Serving what
        // is there is better than stopping every other worker.
        self.cells[shard]
            .locked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn try_guard(&self, shard: usize) -> Option<MutexGuard<'_, Locked>> {
        self.cells[shard].locked.try_lock().ok()
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Publishes the instant at which a shard's indexes must run next, so that workers can read it
    /// without the lock.
    #[inline]
    pub(crate) fn publish_due(&self, shard: usize, locked: &Locked) {
        let due = locked.next_due().map_or(u64::MAX, |t| t.0);
        self.cells[shard].next_due.store(due, Ordering::Release);
        let stale = locked.stale_since.map_or(u64::MAX, |since| since.0);
        self.cells[shard]
            .stale_since
            .store(stale, Ordering::Release);
    }

    /// Publishes the earliest deadline of the keys that clients of a replica have written.
    pub(crate) fn publish_local(&self, shard: usize, locked: &Locked) {
        let due = locked.next_local().map_or(u64::MAX, |t| t.0);
        self.cells[shard].next_local.store(due, Ordering::Release);
    }

    /// Publishes an earlier next run of a shard's indexes if a deadline that was set in a database
    /// requires one.
    #[inline]
    pub(crate) fn publish_deadline(&self, shard: usize, db: u8, locked: &Locked) {
        let due = locked.db(db).and_then(|db| db.expiry().next_due());
        if due.is_some_and(|due| due.0 < self.cells[shard].next_due.load(Ordering::Relaxed)) {
            self.publish_due(shard, locked);
        }
    }

    /// Returns the earliest instant at which [`Keyspace::expire`] has work in a shard. Takes no
    /// lock.
    pub fn next_due(&self, shard: usize) -> Option<Tick> {
        let cell = &self.cells[shard];
        let due = cell.next_due.load(Ordering::Acquire);
        match due.min(cell.stale_since.load(Ordering::Acquire)) {
            u64::MAX => None,
            due => Some(Tick(due)),
        }
    }

    /// Returns the earliest deadline of a shard if [`Keyspace::expire`] has something to remove at
    /// `now`. Takes no lock.
    pub fn due(&self, shard: usize, now: Tick) -> Option<Tick> {
        let until = self.removal_instant(now);
        let cell = &self.cells[shard];
        let due = Tick(cell.next_due.load(Ordering::Acquire));
        let local = || Tick(cell.next_local.load(Ordering::Acquire));
        let stale = || Tick(cell.stale_since.load(Ordering::Acquire));
        let due = Some(due).filter(|due| *due <= until);
        let due = due.or_else(|| Some(local()).filter(|local| *local < now && !self.is_frozen()));
        due.or_else(|| Some(stale()).filter(|since| *since <= now && !self.is_frozen()))
    }

    /// Applies changed policies to a shard's databases. A database keeps its policy until the drain
    /// after its previous change is complete.
    pub(crate) fn apply_new_settings(&self, shard: usize, locked: &mut Locked) {
        let number = self.shared.settings_number.load(Ordering::Acquire);
        if locked.settings == number {
            return;
        }
        let mut is_complete = true;
        for (i, db) in locked.dbs.iter_mut().enumerate() {
            let number = self.shared.policies().of(i as u8).0;
            let Some(db) = db.as_mut().filter(|_| locked.applied[i] != number) else {
                continue;
            };
            match db.is_draining() {
                true => is_complete = false,
                false => locked.applied[i] = self.shared.apply_policy(shard, i as u8, db),
            }
        }
        if is_complete {
            locked.settings = number;
        }
    }

    /// Returns the bytes of values and flushed databases waiting to be freed. They are not included
    /// in [`Keyspace::published_bytes`].
    pub fn pending_bytes(&self) -> u64 {
        self.shared.memory.pending_bytes()
    }

    /// Sets the maximum memory in bytes; 0 means no limit. Background work evicts until the memory
    /// is below it.
    pub fn set_maxmemory(&self, bytes: u64) {
        self.shared.memory.set_max_bytes(bytes);
        for shard in 0..self.cells.len() {
            let mut locked = self.guard(shard);
            locked.resize_policies(&self.shared);
            self.publish_evictable(shard, &locked);
        }
    }

    /// Sets the eviction policy. Background work moves the entries from the old policy to the new
    /// one.
    ///
    /// # Errors
    ///
    /// The policy does not exist. The message is meant for users.
    pub fn set_policy(&self, name: &str) -> Result<(), String> {
        let policy = PolicyChoice::parse(name)?;
        self.shared.change_policies(|policies, number| {
            policies.set_all(number, policy);
            true
        });
        // Shards without a drain in progress are changed at once, so that the old policy does not
        // choose victims that the new one would keep.
        for shard in 0..self.cells.len() {
            let mut locked = self.guard(shard);
            self.apply_new_settings(shard, &mut locked);
            self.publish_evictable(shard, &locked);
        }
        Ok(())
    }

    /// Returns the eviction policy that was set last.
    pub fn policy(&self) -> PolicyChoice {
        self.shared.policies().all().clone()
    }

    /// Returns the maximum memory in bytes; 0 means no limit.
    pub fn maxmemory(&self) -> u64 {
        self.shared.memory.max_bytes()
    }

    /// Checks the name and the parameters of an expiry index.
    ///
    /// # Errors
    ///
    /// The index does not exist. The message is meant for users.
    pub fn check_expiry(name: &str) -> Result<(), String> {
        parse_expiry(name).map(|_| ())
    }

    /// Adds a change to the bytes that the host uses outside of the keyspace, such as client
    /// buffers. They count towards `maxmemory`: entries are evicted, or writes refused, based on
    /// the sum. Entries are evicted only for bytes that the host may keep: the number set by
    /// [`Keyspace::set_outside_bytes_max`], or a quarter of `maxmemory`.
    pub fn add_outside_bytes(&self, change: i64) {
        self.shared.memory.add_outside_bytes(change);
    }

    /// Sets the number of bytes outside of the keyspace to which the host returns without help,
    /// such as a limit on client buffers. Bytes above it evict no entry and refuse no write. 0
    /// means that there is no such limit.
    pub fn set_outside_bytes_max(&self, bytes: u64) {
        self.shared.memory.set_outside_bytes_max(bytes);
    }

    /// Returns whether the host must not use more bytes outside the keyspace: all bytes together
    /// are over `maxmemory`, and the host uses more than it may keep.
    pub fn is_outside_full(&self) -> bool {
        self.shared.memory.is_outside_full()
    }

    /// Returns whether a value of this many bytes can be stored if all entries are evicted. A
    /// larger one must be refused before it evicts them. A keyspace that does not evict on its own,
    /// such as a replica's, can hold any value.
    ///
    /// `given_bytes` of the value are in a request that is counted by
    /// [`Keyspace::add_outside_bytes`]. They are not counted twice.
    pub fn can_hold(&self, db: u8, bytes: usize, given_bytes: usize) -> bool {
        let max = self.shared.memory.value_bytes_max(given_bytes as u64);
        let fits = max.is_none_or(|max| bytes as u64 <= max);
        self.is_frozen() || fits && self.shared.quotas.can_hold(db, bytes as u64)
    }

    /// Sets whether the memory limits of single databases hold.
    pub fn set_quotas_ignored(&self, is_ignored: bool) {
        self.shared.quotas.set_ignored(is_ignored);
    }

    /// Whether a database is over its own limit and its policy evicts nothing.
    pub fn is_full_for_good(&self, db: u8) -> bool {
        self.shared.quotas.lacks(db, 0) && self.shared.policies().of(db).1.spec.is_none()
    }

    /// Counts a write that was refused because a database has reached its own limit. Returns the
    /// name of the class that has set it.
    pub fn refuse_full(&self, db: u8) -> Option<String> {
        self.shared.quotas.refuse(db)
    }

    /// Returns the bytes that the host uses outside the keyspace.
    pub fn outside_bytes(&self) -> u64 {
        self.shared.memory.outside_bytes()
    }

    /// Returns the canonical names that `maxmemory-policy` accepts.
    pub fn policy_names() -> Vec<String> {
        crate::eviction::names()
    }

    /// Returns the names that the setting `expiry` accepts.
    pub fn expiry_names() -> Vec<String> {
        let indexes = INDEXES.iter().map(|about| about.name);
        let presets = PRESETS.iter().map(|(name, _)| *name);
        indexes.chain(presets).map(str::to_owned).collect()
    }

    /// Returns the number of keys on which clients are blocked.
    pub fn waited_keys(&self) -> usize {
        let waited = |shard| self.guard(shard).waiting.len();
        (0..self.cells.len()).map(waited).sum()
    }

    /// Returns the number of changes by commands. Does not wait for locks: changes of a shard that
    /// is locked are counted by a later call.
    pub fn changes(&self) -> u64 {
        let changes = |(shard, cell): (usize, &Cell)| {
            if let Some(locked) = self.try_guard(shard) {
                cell.changes.store(locked.changes, Ordering::Relaxed);
            }
            cell.changes.load(Ordering::Relaxed)
        };
        self.cells.iter().enumerate().map(changes).sum()
    }

    /// Returns the memory used as the shards have last published it, without locking any of them.
    /// It is off by at most 2 KiB per shard.
    pub fn published_bytes(&self) -> u64 {
        self.shared.memory.used_bytes()
    }

    /// Panics if a structure is inconsistent. Takes time proportional to the size of the keyspace;
    /// meant for tests and fuzzers.
    pub fn check(&self) {
        for shard in 0..self.cells.len() {
            self.guard(shard).check();
        }
    }
}
