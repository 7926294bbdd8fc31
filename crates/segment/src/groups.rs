//! Experimental: interface between the engine and a learner, for the eviction `gl-cache`.

use crate::engine::Segcache;
use crate::eviction::SegmentName;
use crate::storage::Objects;
use policy::Tick;
use policy::groups::{Extent, Features, Groups, Rates};

impl<C: Objects> Groups for Segcache<C> {
    type Name = SegmentName;

    fn is_learning(&self) -> bool {
        self.eviction().learns()
    }

    fn extent(&self) -> Extent {
        self.evictor().extent()
    }

    fn set_rates(&self, rates: Rates) {
        self.eviction.learning.rates.set(rates);
    }

    fn sample(&self, random: u64, now: Tick) -> bool {
        self.evictor().sample(random, now)
    }

    fn samples_max(&self) -> usize {
        self.eviction.learning.watch.samples_max()
    }

    fn sampled_before(&self, before: Tick) -> usize {
        self.eviction.learning.watch.sampled_before(before)
    }

    fn take_samples(&self, before: Tick, each: &mut dyn FnMut(&Features, f64)) {
        self.eviction.learning.watch.take(before, each);
    }

    fn wants_ranking(&self) -> bool {
        self.evictor().wants_ranking()
    }

    fn each_group(&self, now: Tick, each: &mut dyn FnMut(SegmentName, &Features)) {
        self.evictor().each_segment(now, each);
    }

    fn rank(&self, least_first: &[SegmentName], quota: usize) {
        self.evictor().rank(least_first, quota);
    }
}
