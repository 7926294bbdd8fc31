//! Tests of every policy of the list, and of variants with other knobs, in the conformance suite.

use crate::any::{AnyPolicy, POLICIES, PolicySpec};
use crate::parts::chance::scramble;
use crate::suite::host::Host;
use crate::{Marker, OnHit, Policy, Slot, Tick, evict, policy_suite};

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
policy_suite!(any_default, AnyPolicy, PolicySpec::default());
policy_suite!(any_lru, AnyPolicy, PolicySpec::Lru(()));
policy_suite!(any_random, AnyPolicy, PolicySpec::Random(()));

/// Returns a config in which four slabs fill the cache, so that each holds many entries.
fn slabs_of_4() -> evict::slab::SlabConfig {
    evict::slab::SlabConfig {
        fewest: 4,
        ..Default::default()
    }
}

#[test]
fn a_marker_marks_as_its_policy_does() {
    let mut host = Host::<u64>::new(Tick(1));
    let slot: Slot = host.add(7, 1, None);
    for about in POLICIES {
        let spec: PolicySpec = about.name.parse().expect("a name is a specification");
        let Some(policy) = AnyPolicy::build(&spec, 1_000, 1) else {
            continue;
        };
        let marker = policy.marker();
        if about.on_hit != OnHit::Mark {
            assert_eq!(marker, Marker::Nothing, "{}", about.name);
            continue;
        }
        let mask = !0 >> (64 - policy.meta_bits());
        let mut marked = 0;
        for number in 0..10_000 {
            host.count_request();
            let bits = scramble(number) & mask;
            let expected = policy.mark(&host, slot, bits);
            assert_eq!(
                marker.mark(bits, crate::Facts::requests(&host)),
                expected,
                "{} marks {bits:#x} differently",
                about.name
            );
            marked += u32::from(expected.is_some());
        }
        assert!(marked > 0, "{} never marks", about.name);
    }
}
