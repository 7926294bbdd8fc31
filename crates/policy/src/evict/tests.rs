//! Every policy of the list through the suite, and the variants that its knobs make.

use crate::any::{AnyPolicy, PolicySpec, eviction_policies};
use crate::{evict, policy_suite};

macro_rules! suites {
    (served { $($name:ident = $policy:ty,)+ } simulated { $($wide_name:ident = $wide:ty,)* }) => {
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
policy_suite!(any_s3fifo, AnyPolicy, PolicySpec::default());
policy_suite!(any_lru, AnyPolicy, PolicySpec::Lru(()));
policy_suite!(any_random, AnyPolicy, PolicySpec::Random(()));
