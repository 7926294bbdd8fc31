//! Fresh and stale values, and leases, by which one client computes a value (FETCH, SET … TOKEN).

use super::{Purpose, View};
use crate::item::{WrongType, string_of};
use crate::leases::{Leased, Leases};
use crate::shared::{Db, Key};
use crate::soft::{Soft, deadline_of, soft_of};
use policy::{Slot, Tick};

/// State of a key for a client that wants its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// The value is up to date until this instant, if there is one.
    Fresh(Option<Tick>),
    /// The value is out of date, and is removed after this instant.
    Stale(Tick),
    /// The key says that there is no value, until this instant, if there is one.
    Negative(Option<Tick>),
}

/// Returns the state of an entry.
#[inline]
fn freshness(db: &Db, slot: Slot, now: Tick) -> Freshness {
    let deadline = deadline_of(db, slot);
    let soft = soft_of(db, slot);
    if soft == Soft::default() {
        return Freshness::Fresh(deadline);
    }
    match deadline {
        _ if soft.is_negative => Freshness::Negative(deadline),
        None => Freshness::Fresh(None),
        Some(deadline) => {
            let fresh_until = Tick(deadline.0.saturating_sub(soft.window_ms));
            match now > fresh_until {
                true => Freshness::Stale(deadline),
                false => Freshness::Fresh(Some(fresh_until)),
            }
        }
    }
}

impl View<'_> {
    /// Returns the bytes of a string and its state. Counts a hit or a miss and notifies the policy.
    ///
    /// # Errors
    ///
    /// The key holds another type.
    #[inline]
    pub fn fetch(&mut self, key: &Key<'_>) -> Result<Option<(&[u8], Freshness)>, WrongType> {
        let now = self.now;
        let Some((db, slot)) = self.look_up(key) else {
            return Ok(None);
        };
        let soft = soft_of(db, slot);
        if soft.is_negative && soft.window_ms > 0 {
            return Ok(None);
        }
        let freshness = freshness(db, slot, now);
        Ok(Some((string_of(db.value(slot))?, freshness)))
    }

    /// Whether the value of a live key is stale, so that a setting may hide it. Does not count the
    /// access.
    pub fn is_stale(&mut self, key: &Key<'_>) -> bool {
        let now = self.now;
        let slot = self.live_or_dead(key, Purpose::Read);
        slot.is_ok_and(|slot| {
            let freshness = freshness(self.db(key), slot, now);
            matches!(freshness, Freshness::Stale(_))
        })
    }

    /// Returns the freshness of a live key; `None` if there is no such key.
    pub fn soft(&mut self, key: &Key<'_>) -> Option<Soft> {
        let slot = self.live_or_dead(key, Purpose::Read).ok()?;
        Some(soft_of(self.db(key), slot))
    }

    /// Sets the freshness of a live key. It counts as a change, but not as one of the value.
    /// Returns whether there is such a key.
    pub fn set_soft(&mut self, key: &Key<'_>, soft: Soft) -> bool {
        let Some(mut labels) = self.labels(key) else {
            return false;
        };
        labels.soft = soft;
        self.set_labels(key, &labels)
    }

    /// Gives the client a lease of a key for a time, unless another client has one.
    pub fn lease(&mut self, key: &Key<'_>, lease_ms: u64) -> Leased {
        let (now, until) = (self.now, Tick(self.now.0.saturating_add(lease_ms)));
        let (space, _, locked) = self.parts(key);
        let shared = space.shared();
        let new = || Box::new(Leases::new(shared.hasher));
        let leases = locked.leases.get_or_insert_with(new);
        let (leased, has_ended) = leases.take((key.db, key.hash), now, until, shared.next_event());
        locked.counters.leases += u64::from(matches!(leased, Leased::Yes(_)));
        locked.counters.displaced_leases += u64::from(has_ended);
        leased
    }

    /// Returns the last instant of the lease that a client has of a key.
    pub fn leased_until(&mut self, key: &Key<'_>) -> Option<Tick> {
        let now = self.now;
        let leases = self.parts(key).2.leases.as_ref()?;
        leases.held_until((key.db, key.hash), now)
    }

    /// Whether a client with this token may store a value with these tags, or with those that the
    /// key has. Counts a refusal, which ends the lease of the token.
    pub fn permits(&mut self, key: &Key<'_>, token: u64, tags: Option<&[&[u8]]>) -> bool {
        // A key whose tag was invalidated is removed here, with its lease.
        let old = self.tags(key).unwrap_or_default();
        let now = self.now;
        let locked = self.parts(key).2;
        let tags = tags.unwrap_or_default().iter().copied();
        let tags = tags.chain(old.iter().map(Vec::as_slice));
        let is_permitted = locked
            .leases
            .as_ref()
            .is_some_and(|leases| leases.permits((key.db, key.hash), token, now, tags));
        if !is_permitted {
            locked.counters.refused_tokens += 1;
            // Another client can compute the value at once.
            self.end_lease(key, token);
        }
        is_permitted
    }

    /// Ends a lease with this token. Returns whether it held.
    pub fn end_lease(&mut self, key: &Key<'_>, token: u64) -> bool {
        let now = self.now;
        let leases = self.parts(key).2.leases.as_ref();
        let none = std::iter::empty();
        let holds =
            leases.is_some_and(|leases| leases.permits((key.db, key.hash), token, now, none));
        if holds {
            self.revoke_lease(key);
        }
        holds
    }

    /// Ends the lease of a key that a command wanted to delete, whether the key exists or not. The
    /// clients that wait for its value are served.
    #[inline]
    pub(super) fn revoke_lease(&mut self, key: &Key<'_>) {
        let (space, _, locked) = self.parts(key);
        if locked.revoke_lease(key.db, key.hash) {
            let number = || space.shared().next_event();
            locked.waiting.mark_ready(key.db, key.bytes, number);
            self.has_ready |= locked.waiting.has_ready();
        }
    }
}
