//! State that all shards of a keyspace share, and the type of one database's part in one shard.

use crate::collection::Scene;
use crate::eviction::PolicyChoice;
use crate::limits::Limits;
use crate::memory::Memory;
use crate::object::Object;
use crate::quotas::Quotas;
use cache::{PackedEntries, Shard};
use policy::any::AnyPolicy;
use policy::expire::any::{AnyExpiry, ExpirySpec};
use policy::{ExpiryIndex, Policy, Tick};
use siphasher::sip::SipHasher13;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// Length of a string, in bytes, beyond which reading it may take long.
pub(crate) const HUGE_BYTES: usize = 1 << 20;

/// Maximum number of databases. Their numbers are bytes.
pub const DATABASES_MAX: usize = 256;
/// Number of databases unless [`crate::Keyspace::with_databases`] changes it.
const DATABASES_DEFAULT: usize = 16;

/// The part of one database that belongs to one shard.
pub(crate) type Db = Shard<
    PackedEntries<Object, <AnyPolicy as Policy>::Meta, <AnyExpiry as ExpiryIndex>::Link>,
    AnyPolicy,
    AnyExpiry,
>;

/// A key in a command. [`crate::Keyspace::key`] creates it.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// Bytes of the key.
    pub bytes: &'a [u8],
    /// Keyed hash of the bytes.
    pub hash: u64,
    /// Number of the database.
    pub db: u8,
}

/// Condition on the name of a key.
pub type Condition = Arc<dyn Fn(&[u8]) -> bool + Send + Sync>;

/// Numbers of policies in one change: one for all databases, and one for each of them, so that
/// databases that are swapped have policies with different numbers.
const NUMBERS_PER_CHANGE: u64 = 1 + DATABASES_MAX as u64;

/// Policies of the databases, each with a number of its own.
#[derive(Debug)]
pub(crate) struct Policies {
    /// Policy of the databases without one of their own.
    all: (u64, PolicyChoice),
    own: BTreeMap<u8, (u64, PolicyChoice)>,
}

impl Policies {
    fn new(policy: PolicyChoice) -> Policies {
        Policies {
            all: (0, policy),
            own: BTreeMap::new(),
        }
    }

    /// Returns the policy of the databases without one of their own.
    pub fn all(&self) -> &PolicyChoice {
        &self.all.1
    }

    /// Returns the policy of a database with its number.
    pub fn of(&self, db: u8) -> &(u64, PolicyChoice) {
        self.own.get(&db).unwrap_or(&self.all)
    }

    pub fn set_all(&mut self, number: u64, policy: PolicyChoice) {
        self.all = (number * NUMBERS_PER_CHANGE, policy);
    }

    /// Sets the databases' own policies. One that stays keeps its number. Returns whether there is
    /// a change.
    pub fn set_own(&mut self, number: u64, own: BTreeMap<u8, PolicyChoice>) -> bool {
        let before = std::mem::take(&mut self.own);
        for (db, policy) in own {
            let effective = before.get(&db).unwrap_or(&self.all);
            let is_kept = effective.1.name == policy.name;
            let number = match is_kept {
                true => effective.0,
                false => number * NUMBERS_PER_CHANGE + 1 + u64::from(db),
            };
            self.own.insert(db, (number, policy));
        }
        let names = |own: &BTreeMap<u8, (u64, PolicyChoice)>| -> Vec<(u8, u64)> {
            own.iter().map(|(db, (number, _))| (*db, *number)).collect()
        };
        names(&before) != names(&self.own)
    }

    fn evict(&self) -> bool {
        let mut own = self.own.values().map(|(_, policy)| policy);
        self.all().spec.is_some() || own.any(|policy| policy.spec.is_some())
    }
}

/// State of the keyspace that all shards share.
pub(crate) struct Shared {
    pub memory: Memory,
    pub quotas: Quotas,
    pub shard_count: usize,
    pub databases: usize,
    pub notify: AtomicBool,
    /// Whether events name the elements that have changed.
    pub names_elements: AtomicBool,
    /// Whether expired entries are hidden but not removed, and nothing is evicted.
    pub frozen: AtomicBool,
    /// Instant up to which deadlines must lie for expiry to remove an entry. The maximum if this
    /// keyspace decides by its own clock.
    pub removes_until: AtomicU64,
    /// Whether expired entries are removed without being accessed.
    pub expires_actively: AtomicBool,
    /// Keys whose events are withheld when they expire or are evicted.
    pub withholding: RwLock<Option<Condition>>,
    pub event_count: AtomicU64,
    pub turn: AtomicUsize,
    /// Whether a string longer than [`HUGE_BYTES`] was ever stored.
    pub has_huge_strings: AtomicBool,
    /// Whether a large collection with deadlines of elements was ever stored.
    pub has_timed_collections: AtomicBool,
    /// Large byte arrays that no entry holds any longer.
    pub large_blocks: Mutex<Vec<Vec<u8>>>,
    pub limits: Limits,
    pub policies: Mutex<Policies>,
    /// Number of the last change of a policy.
    pub settings_number: AtomicU64,
    pub expiry: ExpirySpec,
    /// Index that large collections use for the deadlines of their elements.
    pub element_expiry: ExpirySpec,
    pub hash_key: [u64; 2],
    pub hasher: SipHasher13,
    pub seed: u64,
}

impl Shared {
    /// Creates the state of an empty keyspace with default settings.
    pub fn new(
        shard_count: usize,
        policy: PolicyChoice,
        expiry: ExpirySpec,
        hash_key: [u64; 2],
        seed: u64,
    ) -> Shared {
        Shared {
            memory: Memory::default(),
            quotas: Quotas::default(),
            shard_count,
            databases: DATABASES_DEFAULT,
            notify: AtomicBool::new(false),
            names_elements: AtomicBool::new(false),
            frozen: AtomicBool::new(false),
            removes_until: AtomicU64::new(u64::MAX),
            expires_actively: AtomicBool::new(true),
            withholding: RwLock::default(),
            event_count: AtomicU64::new(0),
            turn: AtomicUsize::new(0),
            has_huge_strings: AtomicBool::new(false),
            has_timed_collections: AtomicBool::new(false),
            large_blocks: Mutex::default(),
            limits: Limits::default(),
            policies: Mutex::new(Policies::new(policy)),
            settings_number: AtomicU64::new(0),
            expiry,
            element_expiry: ExpirySpec::Ranked(()),
            hash_key,
            hasher: SipHasher13::new_with_keys(hash_key[0], hash_key[1]),
            seed,
        }
    }

    #[inline]
    pub fn is_notifying(&self) -> bool {
        self.notify.load(Ordering::Relaxed)
    }

    #[inline]
    pub fn names_elements(&self) -> bool {
        self.names_elements.load(Ordering::Relaxed)
    }

    #[inline]
    pub fn is_frozen(&self) -> bool {
        self.frozen.load(Ordering::Relaxed)
    }

    /// Returns the instant by which entries are removed at `now`; 0 if none are.
    #[inline]
    pub fn removal_instant(&self, now: Tick) -> Tick {
        match self.is_frozen() {
            true => Tick(0),
            false => now.min(Tick(self.removes_until.load(Ordering::Relaxed))),
        }
    }

    /// Whether the events of a key that expires or is evicted are withheld.
    pub fn withholds(&self, key: &[u8]) -> bool {
        let condition = self.withholding.read();
        let condition = condition.unwrap_or_else(PoisonError::into_inner);
        condition.as_ref().is_some_and(|holds| holds(key))
    }

    /// Whether entries that expire at an instant are not removed because of a removal limit.
    #[inline]
    pub fn is_beyond_limit(&self, at: Tick) -> bool {
        at.0 > self.removes_until.load(Ordering::Relaxed)
    }

    /// Records that a large collection with deadlines of elements was stored.
    #[inline]
    pub fn note_timed_collection(&self) {
        if !self.has_timed_collections.load(Ordering::Relaxed) {
            self.has_timed_collections.store(true, Ordering::Relaxed);
        }
    }

    /// Returns the next value of a counter. Callers use it to begin at another shard each time.
    pub fn next_turn(&self) -> usize {
        self.turn.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the conditions for operations on collections at an instant.
    #[inline]
    pub fn scene(&self, now: Tick) -> Scene<'_> {
        Scene {
            now,
            horizon: now,
            limits: &self.limits,
            hash_key: self.hash_key,
            expiry: &self.element_expiry,
            seed: self.seed,
            changed: None,
        }
    }

    /// Returns the number of the next event.
    pub fn next_event(&self) -> u64 {
        self.event_count.fetch_add(1, Ordering::Relaxed)
    }

    #[inline]
    pub fn key<'k>(&self, db: u8, bytes: &'k [u8]) -> Key<'k> {
        Key {
            bytes,
            hash: self.hasher.hash(bytes),
            db,
        }
    }

    /// Returns the number of the last change of the settings.
    pub fn settings_number(&self) -> u64 {
        self.settings_number.load(Ordering::Acquire)
    }

    pub fn policies(&self) -> MutexGuard<'_, Policies> {
        self.policies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the policies of databases. `change` returns whether there is a change.
    pub fn change_policies(&self, change: impl FnOnce(&mut Policies, u64) -> bool) -> bool {
        let mut policies = self.policies();
        let number = self.settings_number() + 1;
        let is_changed = change(&mut policies, number);
        if is_changed {
            self.memory.set_evicts(policies.evict());
            self.settings_number.store(number, Ordering::Release);
        }
        is_changed
    }

    /// Creates an empty database in one shard, with its current policy. Also returns the number of
    /// the policy.
    pub fn new_db(&self, shard: usize, number: u8, now: Tick) -> (Box<Db>, u64) {
        assert!(shard < self.shard_count);
        let stagger = shard as f64 / self.shard_count as f64;
        // The number of the shard is in the low bits of the seed. These bits determine the offset
        // at which an index with a periodic cycle begins, so that the cycles of the shards do not
        // coincide.
        let seed = self.seed_of(shard, number);
        let expiry = AnyExpiry::new(now, &self.expiry, seed);
        let entries = PackedEntries::new(stagger, self.hash_key, self.expiry.link_bits());
        let mut db = Box::new(Shard::new(entries, expiry));
        let policy = self.apply_policy(shard, number, &mut db);
        (db, policy)
    }

    fn seed_of(&self, shard: usize, number: u8) -> u64 {
        self.seed ^ shard as u64 ^ u64::from(number) << 32
    }

    /// Gives a database of a shard its current policy, and returns the policy's number.
    pub fn apply_policy(&self, shard: usize, number: u8, db: &mut Db) -> u64 {
        let seed = self.seed_of(shard, number);
        let policies = self.policies();
        let (policy_number, choice) = policies.of(number);
        // Without a limit until the first `resize_policies`, which notifies the policy of its
        // capacity.
        let capacity = match self.memory.max_bytes() {
            0 => u64::MAX >> 8,
            max => (max / self.shard_count as u64).max(1),
        };
        let policy = choice.spec.as_ref().map(|spec| {
            let policy =
                AnyPolicy::build(spec, capacity, seed).expect("the name was checked to be served");
            let bits = policy.meta_bits();
            (policy, bits)
        });
        db.set_ignores_reads(choice.ignores_reads);
        db.set_policy(policy, choice.scope);
        *policy_number
    }
}
