//! The conformance suite of admission filters: random requests before a plain LRU, checked after
//! each.

use super::policy::{Step, Trial};
use crate::admit::Admission;
use crate::evict::lru::Lru;
use crate::parts::chance::scramble;

/// Number of keys that steps choose from. Other keys are requested once.
const KEYS: u64 = 200;
/// Initial capacity in units of weight; the average entry weighs 5.
const CAPACITY: u64 = 200;

/// Generates the tests of one filter: `admission_suite!(bloom, SecondRequest);`, with a config as
/// third argument if it is not the default. Needs `proptest` among the caller's development
/// dependencies.
#[macro_export]
macro_rules! admission_suite {
    ($module:ident, $filter:ty) => {
        $crate::admission_suite!($module, $filter, Default::default());
    };
    ($module:ident, $filter:ty, $config:expr) => {
        mod $module {
            use super::*;

            proptest::proptest! {
                #![proptest_config(proptest::prelude::ProptestConfig::with_cases(48))]

                #[test]
                fn keeps_the_contract_under_random_steps(
                    steps in proptest::collection::vec(proptest::prelude::any::<(u8, u16, u16)>(), 0..400),
                    seed in proptest::prelude::any::<u64>(),
                ) {
                    $crate::suite::admission::keeps_contract::<$filter>(&$config, seed, &steps);
                }
            }

            #[test]
            fn memory_stays_bounded_under_keys_that_come_once() {
                $crate::suite::admission::bounds_memory_under_new_keys::<$filter>(&$config);
            }
        }
    };
}

/// A filter, and whether each request was a hit.
struct Run<F> {
    trial: Trial<Lru>,
    filter: F,
    hits: Vec<bool>,
}

impl<F: Admission> Run<F> {
    fn new(capacity: u64, config: &F::Config, seed: u64) -> Self {
        Run {
            trial: Trial::new(capacity, &(), 1),
            filter: F::new(capacity, config, seed),
            hits: Vec::new(),
        }
    }

    fn request(&mut self, key: u64) {
        let weight = 1 + (scramble(key) % 9) as u32;
        let filter = &mut self.filter;
        let is_hit = self.trial.request_through(filter, key, weight, 8);
        self.hits.push(is_hit);
    }

    fn resize(&mut self, capacity: u64) {
        self.filter.resize(capacity);
        self.trial.resize(capacity, 8);
    }

    fn step(&mut self, (kind, key, amount): Step) {
        let key = u64::from(key) % KEYS;
        match kind % 16 {
            0..=9 => self.request(key),
            10 => (0..30).for_each(|more| self.request((key + more) % KEYS)),
            11 => self.request(KEYS + u64::from(amount)),
            12 => (0..5).for_each(|_| self.request(key)),
            13 => self.trial.remove(key),
            14 => self.trial.relocate(key),
            _ => self.resize([0, 1, 30, CAPACITY, 5 * CAPACITY][amount as usize % 5]),
        }
    }
}

/// Runs random steps with `check` after each, and checks that the same steps and seed give the same
/// decisions.
pub fn keeps_contract<F: Admission>(config: &F::Config, seed: u64, steps: &[Step]) {
    let run = || {
        let mut run = Run::<F>::new(CAPACITY, config, seed);
        for &step in steps {
            run.step(step);
            run.filter.check();
        }
        run.hits
    };
    assert_eq!(run(), run(), "equal seeds give equal decisions");
}

/// Sends hundreds of thousands of keys that are requested once to a small cache, and checks that
/// the memory of the filter is bounded by the cache, or by a constant below half a mebibyte.
pub fn bounds_memory_under_new_keys<F: Admission>(config: &F::Config) {
    let mut run = Run::<F>::new(1000, config, 1);
    for key in 0..300_000 {
        run.request(if key % 3 == 0 { key % KEYS } else { KEYS + key });
    }
    run.filter.check();
    let bytes = run.filter.heap_bytes();
    assert!(bytes < 1 << 19, "{bytes} bytes");
}
