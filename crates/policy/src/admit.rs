//! Admission filters, one file each: which missed keys are inserted at all. Every file opens with
//! its card.
//!
//! A filter stands before any policy and does not depend on it. The host calls it on a miss, before
//! [`Policy::miss`](crate::Policy::miss). A key that the filter rejects is served but not cached,
//! and the policy is not called. [`always`] is the plainest. `any.rs` chooses a filter by name.

use crate::{Admit, Facts, Slot};

pub mod any;

/// Passes the list of all admission filters to another macro.
macro_rules! admission_filters {
    ($use:ident) => {
        $use! {
            [mod always] Always = admit::always::Always,
            [mod size] Size = admit::size::Size,
            [mod probability] Probability = admit::probability::Probability,
            [mod exp_size] ExpSize = admit::exp_size::ExpSize,
            [mod bloom] Bloom = admit::bloom::SecondRequest,
            [mod tinylfu] TinyLfu = admit::tinylfu::TinyLfu,
            [mod adaptsize] AdaptSize = admit::adaptsize::AdaptSize,
        }
    };
}
pub(crate) use admission_filters;

macro_rules! declare_modules {
    ($([mod $module:ident] $name:ident = $filter:ty,)+) => { $(pub mod $module;)+ };
}
admission_filters!(declare_modules);

#[cfg(test)]
mod tests;

/// A key that was missed and fits in the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MissedKey {
    /// Hash of the key, the same that [`Facts::key_hash`] would return.
    pub key_hash: u64,
    /// Weight that the entry would have.
    pub weight: u32,
    /// Whether the entry fits next to all existing entries, so that none has to be evicted for it.
    pub has_room: bool,
}

/// An admission filter.
///
/// The host calls the methods in this order. On a hit: `hit`. On a miss of a key that fits in the
/// cache: `admit`; if it is admitted, the policy's `miss` and `evict`, and `evicted` for each
/// victim before it is freed. `hit` and `evicted` may be left out where `LISTENS` is false. The
/// facts are those of the policy behind the filter: `len` and `sample` refer to the entries that
/// the policy holds.
pub trait Admission: Sized + Send {
    /// Knobs of the filter.
    type Config: Clone + Default + core::fmt::Debug + Send;
    /// Canonical name in `--admission` and in error texts.
    const NAME: &'static str;
    /// Other accepted names. Case, `-` and `_` are ignored in all names.
    const ALIASES: &'static [&'static str] = &[];
    /// Whether [`Admission::hit`] and [`Admission::evicted`] do anything. If not, hosts need not
    /// call them.
    const LISTENS: bool;

    /// Creates a filter for a cache of `capacity` units of weight. Equal seeds give equal
    /// decisions.
    fn new(capacity: u64, config: &Self::Config, seed: u64) -> Self;
    /// Sets the capacity in units of weight. A filter that does not depend on the capacity ignores
    /// it.
    fn resize(&mut self, _capacity: u64) {}
    /// Records a hit on the live entry at `slot`.
    #[inline]
    fn hit(&mut self, _facts: &impl Facts, _slot: Slot) {}
    /// Records that the policy chose the entry at `slot` as a victim; it is still live.
    #[inline]
    fn evicted(&mut self, _facts: &impl Facts, _slot: Slot) {}
    /// Decides whether a missed key is inserted. Called once per miss.
    fn admit(&mut self, facts: &impl Facts, missed: MissedKey) -> Admit;
    /// Bytes on the heap: filters, sketches, statistics.
    fn heap_bytes(&self) -> usize;
    /// Panics if the structure is inconsistent. For tests and fuzzers; may be slow.
    fn check(&self);
}

/// Converts a boolean into the decision.
#[inline]
fn yes_if(is_wanted: bool) -> Admit {
    if is_wanted { Admit::Yes } else { Admit::No }
}
