//! Deadlines of entries that are stored, read or changed.

use super::Inner;
use crate::clock::{after, ms_of, until};
use crate::core::{deadline_in, word_of};
use crate::epoch::pin;
use crate::map::Found;
use crate::shard::{Shard, Terms};
use policy::Tick;
use std::hash::{BuildHasher, Hash};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::time::Duration;

/// Divisor of the idle time: a stored idle deadline is this share later, so that few reads must
/// store a new one.
pub(crate) const IDLE_SLACK: u64 = 64;

impl<K, V, S> Inner<K, V, S>
where
    K: Hash + Eq,
    S: BuildHasher,
{
    /// Extends the deadline of an entry that was read, according to the idle time and the hook.
    pub(super) fn extend(&self, shard: &Shard<K, V>, found: &Found<'_, K, V>) {
        let now = self.now();
        let present = shard.deadline(found.slot);
        let mut limit = shard.limit(found.slot);
        let mut wanted = present;
        let mut is_decided = false;
        if let (true, Some(hook)) = (self.has_read_hook, &self.expiry) {
            let remaining = limit.map(|deadline| until(now, deadline));
            let answer = hook.after_read(found.key, found.value, remaining);
            if answer != remaining {
                let deadline = answer.map(|ttl| after(now, ms_of(ttl)));
                (wanted, limit) = (deadline, deadline);
                is_decided = true;
            }
        }
        if let Some(tti) = self.tti {
            // The deadline stays if it is not before the end of the idle time.
            let idle = after(now, tti);
            let is_soon = wanted.is_none_or(|deadline| deadline < idle);
            if is_soon && limit.is_none_or(|limit| wanted.is_none_or(|wanted| wanted < limit)) {
                let idle = Tick((idle.0 + tti / IDLE_SLACK).min(Tick::MAX.0));
                wanted = Some(limit.map_or(idle, |limit| limit.min(idle)));
            }
        }
        if is_decided {
            self.set_deadline(shard, found, present, wanted, limit, now);
        } else if let Some(wanted) = wanted
            && present.is_some_and(|present| present < wanted)
        {
            Self::postpone(shard, found, wanted);
        }
    }

    /// Stores a later deadline. The index reads it when it reaches the entry. The deadline does not
    /// exceed the limit, which another thread may change meanwhile.
    fn postpone(shard: &Shard<K, V>, found: &Found<'_, K, V>, wanted: Tick) {
        const { assert!(<policy::expire::wheel::Wheel as policy::ExpiryIndex>::LATER_IS_FREE) };
        let word = found.lane.deadline();
        let later = |word: u64| {
            let deadline = deadline_in(word)?;
            (deadline < wanted).then(|| word_of(Some(wanted)) | word & 0xffff)
        };
        if word.fetch_update(AcqRel, Acquire, later).is_err() || found.lane.limit().is_none() {
            return;
        }
        // `Shard::set_deadline` stores the limit and then the deadline. If its deadline comes later
        // in the modification order of this word, it stays. If the postponed one comes later, its
        // limit is seen here. The index has filed the entry at that deadline, which is not after
        // the limit.
        let Some(limit) = shard.limit(found.slot) else {
            return;
        };
        let earlier = |word: u64| {
            let deadline = deadline_in(word)?;
            (deadline > limit).then(|| word_of(Some(limit)) | word & 0xffff)
        };
        let _ = word.fetch_update(AcqRel, Acquire, earlier);
    }

    pub(crate) fn set_deadline(
        &self,
        shard: &Shard<K, V>,
        found: &Found<'_, K, V>,
        present: Option<Tick>,
        wanted: Option<Tick>,
        limit: Option<Tick>,
        now: Tick,
    ) -> bool {
        let rows = shard.map.rows();
        let keeps_limit = rows
            .limit(found.slot)
            .is_none_or(|word| word.load(Relaxed) == word_of(limit));
        if wanted == present && keeps_limit {
            return true;
        }
        let is_later = matches!((present, wanted), (Some(old), Some(new)) if new > old);
        if is_later && keeps_limit {
            if let Some(wanted) = wanted {
                Self::postpone(shard, found, wanted);
            }
            return true;
        }
        let hash_of = self.hash_of();
        shard.set_deadline(found.position, found.slot, wanted, limit, &hash_of, now)
    }

    /// Returns the weight and the deadlines with which an entry is stored.
    pub(super) fn terms(
        &self,
        hash: u64,
        key: &K,
        value: &V,
        ttl: Option<Duration>,
        now: Tick,
    ) -> Terms {
        let weight = self
            .weigher
            .as_ref()
            .map_or(1, |weigher| weigher(key, value));
        let mut terms = Terms {
            deadline: None,
            limit: None,
            weight: weight.max(1),
        };
        if !self.has_deadlines {
            return terms;
        }
        let mut ttl = ttl;
        if let Some(hook) = &self.expiry {
            let pinned = pin();
            let shard = self.shard(hash);
            let found = shard.map.find(&pinned, hash, |other| other == key);
            let live = found.filter(|found| {
                let deadline = shard.deadline(found.slot);
                deadline.is_none_or(|deadline| deadline >= now)
            });
            ttl = match live {
                Some(found) => {
                    let remaining = shard.limit(found.slot).map(|limit| until(now, limit));
                    hook.after_update(key, value, ttl, remaining)
                }
                None => hook.after_insert(key, value, ttl),
            };
        }
        if let Some(ttl) = ttl {
            let mut ms = ms_of(ttl);
            if self.jitter > 0.0 && ms > 1 {
                // The random bits differ between keys and between instants.
                let random = policy::parts::chance::scramble(hash ^ now.0.rotate_left(32));
                let share = random as f64 / u64::MAX as f64 * self.jitter;
                ms = (ms - (ms as f64 * share) as u64).max(1);
            }
            terms.limit = Some(after(now, ms));
            terms.deadline = terms.limit;
        }
        if let Some(tti) = self.tti {
            let idle = after(
                now,
                tti.saturating_add(if tti > 0 { tti / IDLE_SLACK } else { 0 }),
            );
            terms.deadline = Some(terms.limit.map_or(idle, |limit| limit.min(idle)));
        }
        terms
    }
}
