//! Groups of entries that a learner outside the cache ranks for eviction: the interface between an
//! engine and the learner.
//!
//! Control is the reverse of a [`Policy`](crate::Policy)'s: the engine evicts on its own threads at
//! any time. The learner calls the engine when it has time, and its ranking holds until the next
//! one. An engine without a ranking evicts by its default rule.

use crate::Tick;

/// Number of features of a group.
pub const FEATURES: usize = 7;

/// Features of a group: requests and writes per second and misses per request when it was written;
/// the mean size of an entry in bytes; its age in seconds, the requests for it, and the number of
/// entries requested.
pub type Features = [f32; FEATURES];

/// Rates of a cache at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Requests per second.
    pub requests: f32,
    /// Writes per second.
    pub writes: f32,
    /// Misses per request.
    pub misses: f32,
}

/// Size of the cache and number of writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Approximate number of groups held.
    pub groups: u64,
    /// Number of entries held.
    pub entries: u64,
    /// Number of groups begun so far, including evicted ones.
    pub begun: u64,
    /// Number of entries written so far.
    pub writes: u64,
}

/// An engine that evicts by groups. Any thread may call it; only one learns.
pub trait Groups {
    /// Name of a group, valid until its entries have left.
    type Name: Copy;

    /// Whether the engine evicts by the ranking.
    fn is_learning(&self) -> bool;
    /// Returns the size of the cache and the number of writes.
    fn extent(&self) -> Extent;
    /// Sets the rates that groups store when they are begun from now on.
    fn set_rates(&self, rates: Rates);

    /// Samples a group chosen by `random`: from now on, the next request for each of its entries
    /// adds 1 / (time × size) to the group's utility, even if the entry was moved or evicted
    /// meanwhile. Returns false if no group could be sampled.
    fn sample(&self, random: u64, now: Tick) -> bool;
    /// Maximum number of samples at a time.
    fn samples_max(&self) -> usize;
    /// Number of samples taken before this instant.
    fn sampled_before(&self, before: Tick) -> usize;
    /// Removes the samples taken before this instant, and calls `each` with the features at the
    /// time of the sample and the utility of each.
    fn take_samples(&self, before: Tick, each: &mut dyn FnMut(&Features, f64));

    /// Whether the number of groups covered by the last ranking has been evicted, or there was no
    /// ranking.
    fn wants_ranking(&self) -> bool;
    /// Calls `each` with the name and the features of every group that could be evicted.
    fn each_group(&self, now: Tick, each: &mut dyn FnMut(Self::Name, &Features));
    /// Sets the order of eviction, the first group first. After `quota` evictions another ranking
    /// is wanted.
    fn rank(&self, least_first: &[Self::Name], quota: usize);
}
