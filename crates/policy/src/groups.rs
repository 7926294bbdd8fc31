//! Groups of entries that something beside the cache learns about: what an engine tells it, and is told.
//!
//! The other way round than a [`Policy`](crate::Policy): here the engine evicts, on its own threads and in its own
//! time. Who learns asks it when there is time for that, and what he says holds until he says something else. An engine
//! that is told nothing goes on without.

use crate::Tick;

/// How many features a group has.
pub const FEATURES: usize = 7;

/// A group's features: requests and writes a second and misses a request when it was written; the mean size of an entry
/// in bytes; its age in seconds, requests for it, and entries that were asked for.
pub type Features = [f32; FEATURES];

/// How a cache works at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Requests a second.
    pub requests: f32,
    /// Writes a second.
    pub writes: f32,
    /// Misses a request.
    pub misses: f32,
}

/// How much there is to learn about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Groups held, about.
    pub groups: u64,
    /// Entries held.
    pub entries: u64,
    /// Groups begun so far, those that are gone included.
    pub begun: u64,
    /// Entries written so far.
    pub writes: u64,
}

/// An engine that evicts by groups. Any thread may ask; one alone learns.
pub trait Groups {
    /// Names a group until its entries have gone.
    type Name: Copy;

    /// Whether what is learned would be heeded.
    fn wants_lessons(&self) -> bool;
    /// How much there is.
    fn extent(&self) -> Extent;
    /// Groups that are begun from now on remember these.
    fn set_rates(&self, rates: Rates);

    /// Begins to add up the utility of a group that `random` chooses: one over time and size, for the first request of
    /// each entry from now on, wherever that is by then. False where none could be sampled.
    fn sample(&self, random: u64, now: Tick) -> bool;
    /// How many samples there can be at once.
    fn samples_max(&self) -> usize;
    /// Samples taken before this.
    fn sampled_before(&self, before: Tick) -> usize;
    /// Hands over these, with their features when they were taken, and forgets them.
    fn take_samples(&self, before: Tick, each: &mut dyn FnMut(&Features, f64));

    /// Whether as many groups have gone as the last ranking was meant for, or there was none.
    fn wants_ranking(&self) -> bool;
    /// All groups that could go.
    fn each_group(&self, now: Tick, each: &mut dyn FnMut(Self::Name, &Features));
    /// These go next, the first before the others; after `quota` of them another ranking is wanted.
    fn rank(&self, least_first: &[Self::Name], quota: usize);
}
