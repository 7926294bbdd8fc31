//! Leases of one shard: the right of one client to compute the value of a key, until an instant.
//!
//! A lease ends when its key is written or removed by a command, because a value that was computed
//! before that may be out of date. It does not end when the key expires or is evicted. Keys are
//! stored as their keyed hashes. Two keys have the same one with a probability of 2^-64; clients of
//! one key would then wait for the other's lease, and no value would become wrong.
//!
//! A computed value may have tags that were invalidated while it was computed, even if the key did
//! not exist then. So invalidated tags are remembered while there are leases, up to a maximum
//! number. When it is reached, all are forgotten, and leases from before permit no value with tags.

use policy::Tick;
use siphasher::sip::SipHasher13;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of leases of a shard. A lease takes about 100 bytes.
pub const LEASES_MAX: usize = 8192;
/// Maximum number of ended leases that a request for one removes.
const REMOVED_MAX: u32 = 16;
/// Maximum number of invalidated tags that a shard remembers.
const INVALIDATED_MAX: usize = 4096;

/// A database and the hash of a key or a tag.
type Name = (u8, u64);

#[derive(Debug)]
struct Lease {
    token: u64,
    /// Last instant of the lease.
    until: Tick,
    /// Number of invalidations before it.
    begun: u64,
}

/// Result of the request for a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leased {
    /// The client has the lease, with this token.
    Yes(u64),
    /// Another client has it, until this instant.
    Another(Tick),
}

#[derive(Debug)]
pub(crate) struct Leases {
    by_key: BTreeMap<Name, Lease>,
    by_end: BTreeSet<(Tick, Name)>,
    /// Number of the last invalidation of each tag.
    invalidated: BTreeMap<Name, u64>,
    /// Number of invalidations.
    invalidations: u64,
    /// Number of the last invalidation that was forgotten.
    forgotten: u64,
    hasher: SipHasher13,
}

impl Leases {
    pub fn new(hasher: SipHasher13) -> Leases {
        Leases {
            by_key: BTreeMap::new(),
            by_end: BTreeSet::new(),
            invalidated: BTreeMap::new(),
            invalidations: 0,
            forgotten: 0,
            hasher,
        }
    }

    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// Returns the last instant of a lease that holds.
    pub fn held_until(&self, name: Name, now: Tick) -> Option<Tick> {
        let lease = self.by_key.get(&name)?;
        (now <= lease.until).then_some(lease.until)
    }

    /// Gives a client a lease until an instant, unless another one holds. `number` must differ
    /// between calls. Returns the lease, and whether an older one ended because there are too many.
    pub fn take(&mut self, name: Name, now: Tick, until: Tick, number: u64) -> (Leased, bool) {
        if let Some(until) = self.held_until(name, now) {
            return (Leased::Another(until), false);
        }
        self.revoke(name);
        self.remove_ended(now, REMOVED_MAX);
        let is_full = self.by_key.len() >= LEASES_MAX;
        if is_full && let Some((_, name)) = self.by_end.pop_first() {
            self.by_key.remove(&name);
        }
        let seed = [
            number.to_le_bytes(),
            now.0.to_le_bytes(),
            name.1.to_le_bytes(),
        ];
        let token = self.hasher.hash(seed.as_flattened());
        let begun = self.invalidations;
        let lease = Lease {
            token,
            until,
            begun,
        };
        self.by_key.insert(name, lease);
        self.by_end.insert((until, name));
        (Leased::Yes(token), is_full)
    }

    /// Removes leases that have ended, one in each step. Returns whether there are more.
    pub fn remove_ended(&mut self, now: Tick, steps: u32) -> bool {
        for _ in 0..steps {
            match self.by_end.first().copied() {
                Some((until, name)) if now > until => {
                    self.by_end.pop_first();
                    self.by_key.remove(&name);
                }
                _ => return false,
            }
        }
        self.by_end.first().is_some_and(|(until, _)| now > *until)
    }

    /// Ends the lease of a key. Returns whether there was one.
    pub fn revoke(&mut self, name: Name) -> bool {
        let lease = self.by_key.remove(&name);
        lease.is_some_and(|lease| self.by_end.remove(&(lease.until, name)))
    }

    /// Ends the leases of a database.
    pub fn revoke_all(&mut self, db: u8) {
        self.by_key.retain(|name, _| name.0 != db);
        self.by_end.retain(|(_, name)| name.0 != db);
    }

    /// Whether a client with this token may store a value with these tags.
    pub fn permits<'t>(
        &self,
        name: Name,
        token: u64,
        now: Tick,
        mut tags: impl Iterator<Item = &'t [u8]>,
    ) -> bool {
        let Some(lease) = self.by_key.get(&name) else {
            return false;
        };
        let is_old = |tag: &[u8]| {
            let at = self.invalidated.get(&(name.0, self.hasher.hash(tag)));
            *at.unwrap_or(&self.forgotten) > lease.begun
        };
        lease.token == token && now <= lease.until && !tags.any(is_old)
    }

    /// Remembers the invalidation of a tag.
    pub fn invalidated(&mut self, db: u8, tag: &[u8]) {
        if self.invalidated.len() >= INVALIDATED_MAX {
            self.invalidated.clear();
            self.forgotten = self.invalidations;
        }
        self.invalidations += 1;
        let name = (db, self.hasher.hash(tag));
        self.invalidated.insert(name, self.invalidations);
    }

    /// Panics if both orders differ.
    pub fn check(&self) {
        let by_key = self.by_key.iter().map(|(name, lease)| (lease.until, *name));
        assert_eq!(by_key.collect::<BTreeSet<_>>(), self.by_end);
        assert!(self.by_key.len() <= LEASES_MAX);
        assert!(self.invalidated.len() <= INVALIDATED_MAX);
    }
}
