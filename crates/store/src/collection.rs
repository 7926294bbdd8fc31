//! The interface of all collections: how they are stored, how their expired elements are removed,
//! and how they are freed.

use crate::event::Class;
use crate::facts::Kind;
use crate::limits::Limits;
use policy::expire::any::ExpirySpec;
use policy::{Budget, Tick};
use siphasher::sip128::{Hasher128, SipHasher13};
use std::cell::RefCell;
use std::hash::Hasher;

/// The conditions under which a command operates on a collection: the instant, the limits of the
/// packed forms, and the parameters of the large forms.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// Time of the command, from which TTLs, ages and idle times count.
    pub now: Tick,
    /// Elements whose deadline is earlier have expired, see [`crate::View::horizon`].
    pub horizon: Tick,
    /// Limits below which collections are packed.
    pub limits: &'a Limits,
    /// Secret key of the hash function of large collections.
    pub(crate) hash_key: [u64; 2],
    /// Index that a large collection uses for the deadlines of its elements.
    pub(crate) expiry: &'a ExpirySpec,
    /// Seed of that index's random choices.
    pub(crate) seed: u64,
    /// Names of changed elements, if events name them.
    pub(crate) changed: Option<&'a ChangedElements>,
}

/// Maximum number of elements that an event names.
pub(crate) const NAMED_MAX: usize = 4096;

/// Names of the elements that a command has changed or that have expired, for an event and for the
/// journal, which needs all of them.
#[derive(Debug, Default)]
pub(crate) struct ChangedElements {
    names: RefCell<Vec<Vec<u8>>>,
    is_complete: bool,
}

impl ChangedElements {
    /// Creates an empty list for elements that expire: for the journal, which needs all names, or
    /// for an event. Returns `None` if neither needs them.
    pub fn of_expired(is_recorded: bool, is_named: bool) -> Option<ChangedElements> {
        (is_recorded || is_named).then(|| ChangedElements {
            is_complete: is_recorded,
            ..ChangedElements::default()
        })
    }

    /// Adds a name, unless it was the last one or there are too many.
    pub fn add(&self, name: &[u8]) {
        let mut names = self.names.borrow_mut();
        let has_room = self.is_complete || names.len() < NAMED_MAX;
        if has_room && names.last().is_none_or(|last| last != name) {
            names.push(name.to_vec());
        }
    }

    /// Returns the names.
    pub fn into_names(self) -> Vec<Vec<u8>> {
        self.names.into_inner()
    }
}

impl Scene<'_> {
    /// Records that an element has changed, if events name elements.
    #[inline]
    pub(crate) fn note_change(&self, name: &[u8]) {
        if let Some(changed) = self.changed {
            changed.add(name);
        }
    }

    /// Returns 16 bytes that identify a set of fields with their values, regardless of order.
    /// Without the keyspace's secret key, no other set with the same fingerprint can be
    /// constructed.
    pub fn fingerprint<'f>(&self, fields: impl Iterator<Item = (&'f [u8], &'f [u8])>) -> [u8; 16] {
        let sum = fields.fold(0u128, |sum, (name, value)| {
            let mut hasher = SipHasher13::new_with_keys(self.hash_key[0], self.hash_key[1]);
            hasher.write(&(name.len() as u64).to_le_bytes());
            hasher.write(name);
            hasher.write(value);
            sum.wrapping_add(hasher.finish128().as_u128())
        });
        sum.to_le_bytes()
    }
}

#[cfg(test)]
impl<'a> Scene<'a> {
    /// Creates a scene with the default index, for tests.
    pub(crate) fn of(now: Tick, limits: &'a Limits) -> Scene<'a> {
        Scene {
            now,
            horizon: now,
            limits,
            hash_key: [1, 2],
            expiry: &ExpirySpec::Ranked(()),
            seed: 3,
            changed: None,
        }
    }
}

/// Deadlines of a collection that has elements with deadlines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deadlines {
    /// The key's own deadline. The collection stores it because its entry is in the expiry index
    /// under the earliest deadline of all.
    pub own: Option<Tick>,
    /// Lower bound of the elements' deadlines: no element expires before it.
    pub nearest: Option<Tick>,
}

impl Deadlines {
    /// Returns the deadline under which the expiry index should hold the entry.
    pub fn filed(&self) -> Option<Tick> {
        match (self.own, self.nearest) {
            (Some(own), Some(nearest)) => Some(own.min(nearest)),
            (own, nearest) => own.or(nearest),
        }
    }
}

/// Callback for expired elements. It receives a deadline and the number of elements that had it.
pub(crate) type ReportExpired<'a> = &'a mut dyn FnMut(Tick, u32);

/// Callback that receives an element's current deadline. It returns the new deadline, `Some(None)`
/// to remove the deadline, or `None` to change nothing.
pub(crate) type ChooseDeadline<'a> = &'a mut dyn FnMut(Option<Tick>) -> Option<Option<Tick>>;

/// Shrinks the buffer if more than an eighth of it is unused.
pub(crate) fn trim_bytes(bytes: &mut Vec<u8>) {
    if bytes.capacity() - bytes.len() > bytes.len() / 8 {
        bytes.shrink_to_fit();
    }
}

/// A form in which a collection is stored: a byte array, pages, pages with an order, or chunks.
pub(crate) trait Representation {
    /// Frees spare capacity.
    fn trim(&mut self) {}
    /// Returns whether no element is stored, expired or not.
    fn is_void(&self) -> bool;
    /// Returns whether no element is live. A bounded search may miss that and return false.
    fn is_dead(&self, _now: Tick) -> bool {
        self.is_void()
    }
    /// Returns the number of bytes on the heap, in constant time.
    fn heap_bytes(&self) -> usize;
    /// Returns the deadlines of the key and the elements; `None` if no element has one.
    fn deadlines(&self) -> Option<Deadlines> {
        None
    }
    /// Returns the key's own deadline if the collection stores it, which it does only while
    /// elements have deadlines.
    fn embedded_deadline(&self) -> Option<Option<Tick>> {
        None
    }
    /// Stores the key's own deadline. Must be called only while elements have deadlines.
    fn set_own(&mut self, _own: Option<Tick>) {}
    /// Removes expired elements, one step of the budget each. Adds their names to `names`.
    fn purge(
        &mut self,
        _now: Tick,
        _budget: &mut Budget,
        _expired: ReportExpired<'_>,
        _names: Option<&ChangedElements>,
    ) {
    }
    /// Frees about `steps` parts and returns whether any parts are left.
    fn dismantle(&mut self, _steps: u32) -> bool {
        false
    }
    /// Panics if the structure is inconsistent.
    fn check(&self) {}
}

/// A collection type as the keyspace stores it.
pub(crate) trait Collection: Sized {
    /// Type of the values as commands distinguish it.
    const KIND: Kind;
    /// Class and name of the event that is notified when elements expire.
    const EXPIRED: (Class, &'static str);

    /// Creates an empty collection.
    fn new() -> Self;
    /// Restores a collection from the tag and the bytes that [`Collection::inline`] returned.
    fn unpack(tag: u8, bytes: Vec<u8>) -> Self;
    /// Returns the tag and the bytes if the collection is one byte array; `None` for a large form.
    fn inline(&self) -> Option<(u8, &[u8])>;
    /// Returns the buffer that held the bytes, for reuse. Returns an empty buffer if the form is
    /// not one byte array.
    fn into_bytes(self) -> Vec<u8>;
    /// Returns a copy with the same elements and deadlines. The copy of a large form lacks the
    /// key's own deadline.
    fn duplicate(&self, scene: &Scene<'_>) -> Self;
    /// Returns the form in which the collection is currently stored.
    fn body(&self) -> &dyn Representation;
    /// Returns the form in which the collection is currently stored, for changes.
    fn body_mut(&mut self) -> &mut dyn Representation;
}

/// Every method delegates to the collection's current form.
impl<C: Collection> Representation for C {
    fn trim(&mut self) {
        self.body_mut().trim();
    }
    fn is_void(&self) -> bool {
        self.body().is_void()
    }
    fn is_dead(&self, now: Tick) -> bool {
        self.body().is_dead(now)
    }
    fn heap_bytes(&self) -> usize {
        self.body().heap_bytes()
    }
    fn deadlines(&self) -> Option<Deadlines> {
        self.body().deadlines()
    }
    fn embedded_deadline(&self) -> Option<Option<Tick>> {
        self.body().embedded_deadline()
    }
    fn set_own(&mut self, own: Option<Tick>) {
        self.body_mut().set_own(own);
    }
    fn purge(
        &mut self,
        now: Tick,
        budget: &mut Budget,
        expired: ReportExpired<'_>,
        names: Option<&ChangedElements>,
    ) {
        self.body_mut().purge(now, budget, expired, names);
    }
    fn dismantle(&mut self, steps: u32) -> bool {
        self.body_mut().dismantle(steps)
    }
    fn check(&self) {
        self.body().check();
    }
}

/// Returns a number below `end` from 64 random bits.
pub(crate) fn below(random: u64, end: usize) -> usize {
    ((u128::from(random) * end as u128) >> 64) as usize
}
