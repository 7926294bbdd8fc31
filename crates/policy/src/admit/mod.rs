//! Admission filters, one file each: who is kept at all. Every file opens with its card.
//!
//! A filter stands before any policy and knows nothing of it. The host asks it on a miss, before
//! [`Policy::miss`](crate::Policy::miss); what it turns away is served and forgotten, and the policy
//! never hears of it. [`always`] is the plainest; the list of names is in `any.rs`.

use crate::{Admit, Facts, Slot};

pub mod any;

/// Passes the list to another macro.
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

/// A key that was asked for, is absent, and fits the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Newcomer {
    /// The hash of its key, the same as [`Facts::key_hash`] would tell.
    pub key_hash: u64,
    /// What it would weigh.
    pub weight: u32,
    /// Whether it fits beside all that is held: nobody has to leave for it.
    pub has_room: bool,
}

/// An admission filter.
///
/// The host's order of calls. Hit: `hit`. Miss of a key that fits the cache: `admit` → if it says yes,
/// the policy's `miss`, its `evict`, each victim to `evicted` before it is freed, and so on. `hit` and
/// `evicted` may be left out where `LISTENS` is false. The facts are those of the policy behind it:
/// `len` and `sample` speak of the entries that it holds.
pub trait Admission: Sized + Send {
    /// The filter's knobs.
    type Config: Clone + Default + core::fmt::Debug + Send;
    /// The canonical name in `--admission` and in `admit/any.rs`.
    const NAME: &'static str;
    /// Other names that people use for it. Case, `-` and `_` are ignored anyway.
    const ALIASES: &'static [&'static str] = &[];
    /// Whether [`Admission::hit`] and [`Admission::evicted`] do anything.
    const LISTENS: bool;

    /// A filter for a cache of `capacity` units of weight. Equal seeds give equal decisions.
    fn new(capacity: u64, config: &Self::Config, seed: u64) -> Self;
    /// The capacity changed.
    fn resize(&mut self, _capacity: u64) {}
    /// The live entry at `slot` was asked for.
    #[inline]
    fn hit(&mut self, _facts: &impl Facts, _slot: Slot) {}
    /// The policy gave up the entry at `slot`, which still lives.
    #[inline]
    fn evicted(&mut self, _facts: &impl Facts, _slot: Slot) {}
    /// Whether the key is kept. It was asked for once; the question is put once a miss.
    fn admit(&mut self, facts: &impl Facts, newcomer: Newcomer) -> Admit;
    /// Bytes on the heap: filters, sketches, statistics.
    fn heap_bytes(&self) -> usize;
    /// Panics when the structure contradicts itself. For tests and fuzzers; may be slow.
    fn check(&self);
}

/// The answer as a statement about the key.
#[inline]
fn yes_if(is_wanted: bool) -> Admit {
    if is_wanted { Admit::Yes } else { Admit::No }
}
