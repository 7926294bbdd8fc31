//! What all collections have in common: how one is held, emptied of its dead, and taken apart.

use crate::event::Class;
use crate::facts::Kind;
use crate::limits::Limits;
use policy::expire::any::ExpirySpec;
use policy::{Budget, Tick};

/// The instant at which a command works on a collection, and the rules in force.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// The instant.
    pub now: Tick,
    /// Up to where it stays packed.
    pub limits: &'a Limits,
    /// The secret key of the hash.
    pub(crate) hash_key: [u64; 2],
    /// The index of the deadlines of many elements.
    pub(crate) expiry: &'a ExpirySpec,
    /// For the index's choices by chance.
    pub(crate) seed: u64,
}

#[cfg(test)]
impl<'a> Scene<'a> {
    /// One for tests, under the default index.
    pub(crate) fn of(now: Tick, limits: &'a Limits) -> Scene<'a> {
        Scene {
            now,
            limits,
            hash_key: [1, 2],
            expiry: &ExpirySpec::Ranked(()),
            seed: 3,
        }
    }
}

/// The deadlines of a collection whose elements have some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deadlines {
    /// The key's own deadline, which the collection keeps while its entry is filed under the
    /// earliest of all.
    pub own: Option<Tick>,
    /// No element is dead before this has passed, and nothing is to be done.
    pub nearest: Option<Tick>,
}

impl Deadlines {
    /// Under which deadline the entry is filed.
    pub fn filed(&self) -> Option<Tick> {
        match (self.own, self.nearest) {
            (Some(own), Some(nearest)) => Some(own.min(nearest)),
            (own, nearest) => own.or(nearest),
        }
    }
}

/// Is told of elements that died at an instant: the instant, and how many.
pub(crate) type ReportExpired<'a> = &'a mut dyn FnMut(Tick, u32);

/// Is told an element's deadline, and may choose another one or none.
pub(crate) type ChooseDeadline<'a> = &'a mut dyn FnMut(Option<Tick>) -> Option<Option<Tick>>;

/// Gives back room for growth that is more than an eighth.
pub(crate) fn trim_bytes(bytes: &mut Vec<u8>) {
    if bytes.capacity() - bytes.len() > bytes.len() / 8 {
        bytes.shrink_to_fit();
    }
}

/// What the forms of collections have in common, whatever they hold: runs of bytes, pages, pages with an
/// order, chunks.
pub(crate) trait Representation {
    /// Gives back what it has to spare.
    fn trim(&mut self) {}
    /// Whether no element is left, dead or alive.
    fn is_void(&self) -> bool;
    /// Whether no element is alive, as far as a bounded look tells.
    fn is_dead(&self, _now: Tick) -> bool {
        self.is_void()
    }
    /// Bytes on the heap; does not count anew.
    fn heap_bytes(&self) -> usize;
    /// Its deadlines, when elements have some.
    fn deadlines(&self) -> Option<Deadlines> {
        None
    }
    /// The key's own deadline, which it keeps while elements have deadlines; `None`: none has.
    fn embedded_deadline(&self) -> Option<Option<Tick>> {
        None
    }
    /// Keeps the key's own deadline; called only while elements have some.
    fn set_own(&mut self, _own: Option<Tick>) {}
    /// Removes dead elements, a step of the budget each.
    fn purge(&mut self, _now: Tick, _budget: &mut Budget, _expired: ReportExpired<'_>) {}
    /// Drops about so many of its parts; true while there are more.
    fn dismantle(&mut self, _steps: u32) -> bool {
        false
    }
    /// Panics when it contradicts itself.
    fn check(&self) {}
}

/// A collection of any kind as the keyspace holds it.
pub(crate) trait Collection: Sized {
    /// Its type.
    const KIND: Kind;
    /// Its class of events, and what is said when elements expired.
    const EXPIRED: (Class, &'static str);

    /// One without elements.
    fn new() -> Self;
    /// What [`Collection::inline`] told.
    fn unpack(tag: u8, bytes: Vec<u8>) -> Self;
    /// Its bytes and their tag, when it is one run of bytes.
    fn inline(&self) -> Option<(u8, &[u8])>;
    /// The buffer of its bytes, to be used again; empty when it is not one run of bytes.
    fn into_bytes(self) -> Vec<u8>;
    /// Another one with the same elements. The key's own deadline stays behind.
    fn duplicate(&self, scene: &Scene<'_>) -> Self;
    /// The form that it has now.
    fn body(&self) -> &dyn Representation;
    /// The same, to be changed.
    fn body_mut(&mut self) -> &mut dyn Representation;
}

/// A collection is asked what its form is asked.
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
    fn purge(&mut self, now: Tick, budget: &mut Budget, expired: ReportExpired<'_>) {
        self.body_mut().purge(now, budget, expired);
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
