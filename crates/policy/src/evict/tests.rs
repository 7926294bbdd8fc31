//! Tests of every policy of the list, and of variants with other knobs, in the conformance suite.

use crate::any::{AnyPolicy, PolicySpec};
use crate::{evict, policy_suite};

macro_rules! suites {
    (served { $($([mod $module:ident])? $name:ident = $policy:ty,)+ }
     simulated { $($([mod $wide_module:ident])? $wide_name:ident = $wide:ty,)* }) => {
        #[expect(non_snake_case, reason = "the modules are named after the types")]
        mod listed {
            use super::*;
            $(policy_suite!($name, $policy);)+
            $(policy_suite!($wide_name, $wide);)*
        }
    };
}
eviction_policies!(suites);

policy_suite!(
    clock_2,
    evict::clock::Clock,
    evict::clock::ClockConfig { bits: 2 }
);
policy_suite!(
    fifo_merge_4_of_9,
    evict::fifo_merge::FifoMerge,
    evict::fifo_merge::FifoMergeConfig {
        examine: 9,
        keep: 4
    }
);
policy_suite!(
    slab_lru_of_4,
    evict::slab::Slabs<evict::slab::Used>,
    slabs_of_4()
);
policy_suite!(
    slab_random_of_4,
    evict::slab::Slabs<evict::slab::Drawn>,
    slabs_of_4()
);
policy_suite!(
    memcached_lru_of_4,
    evict::memcached_lru::MemcachedLru,
    evict::memcached_lru::MemcachedLruConfig {
        fewest: 4,
        ..Default::default()
    }
);
policy_suite!(any_s3fifo, AnyPolicy, PolicySpec::default());
policy_suite!(any_lru, AnyPolicy, PolicySpec::Lru(()));
policy_suite!(any_random, AnyPolicy, PolicySpec::Random(()));

/// Returns a config in which four slabs fill the cache, so that each holds many entries.
fn slabs_of_4() -> evict::slab::SlabConfig {
    evict::slab::SlabConfig {
        fewest: 4,
        ..Default::default()
    }
}
