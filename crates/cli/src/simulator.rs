//! The simulator that `bench segment` and `bench learned` ask: `sim`, which they may not import themselves.

use crate::sim::replaying::{RATE_DEFAULT, memory_share};
use ::sim::advise::server_overhead;
use ::sim::segments::{self, SegmentsSpec};
use ::sim::{
    Columns, Configuration, Contestant, Found, Interner, Interning, Rules, Spec, Unit, sweep,
};
use bench::{Extent, Learning, Order, Outcome};
use std::sync::atomic::AtomicU64;
use std::thread;
use trace::Request;

/// Policies in the shard that serves, and the segment engine.
pub struct Simulator;

/// The trace of `bench segment`, which it does not name.
const NAMELESS: &str = "the trace";

impl bench::Simulator for Simulator {
    fn miss_ratios(
        &self,
        requests: &mut dyn Iterator<Item = Request>,
        caches: &[String],
        sizes: &[u64],
    ) -> Result<Vec<Vec<Option<f64>>>, String> {
        let columns = interned(NAMELESS, Interning::default(), &mut requests.map(Ok))?;
        let rules = Rules {
            unit: Unit::Bytes,
            counts_writes: false,
            ..Rules::default()
        };
        let of_cache = |cache: &String| of_cache(&columns, &rules, cache, sizes);
        caches.iter().map(of_cache).collect()
    }

    fn check(&self, cache: &str) -> Result<(), String> {
        let contestant = cache.parse::<Contestant>();
        contestant.map(drop).map_err(|error| error.to_string())
    }

    fn features(&self) -> Vec<&'static str> {
        ::sim::feature_names().collect()
    }

    fn take_in(
        &self,
        name: &str,
        requests: &mut dyn Iterator<Item = Result<Request, ::trace::Error>>,
        seed: u64,
    ) -> Result<Box<dyn bench::TakenIn>, String> {
        let how = Interning {
            ignores_ttls: true,
            memory_limit: memory_share(),
            ..Interning::default()
        };
        let columns = interned(name, how, requests)?;
        Ok(Box::new(TakenIn { columns, seed }))
    }
}

fn interned(
    name: &str,
    how: Interning,
    requests: &mut dyn Iterator<Item = Result<Request, ::trace::Error>>,
) -> Result<Columns, String> {
    Interner::all(name, how, requests).map_err(|error| error.to_string())
}

/// A trace, and what its replays draw from.
struct TakenIn {
    columns: Columns,
    seed: u64,
}

impl TakenIn {
    /// Milliseconds between requests, where the trace does not tell.
    fn gap_ms(&self) -> Option<f64> {
        (!self.columns.has_time()).then_some(1000.0 / RATE_DEFAULT)
    }

    fn rules(&self, order: &Order) -> Rules {
        Rules {
            unit: match order.unit {
                bench::Unit::Objects => Unit::Objects,
                bench::Unit::Bytes => Unit::Bytes,
            },
            warm_up: usize::try_from(order.warm_up).unwrap_or(usize::MAX),
            overhead: match order.has_overhead {
                true => server_overhead(false),
                false => 0,
            },
            ignores_ttls: true,
            gap_ms: self.gap_ms(),
            hidden_features: order.hidden.clone(),
            seed: self.seed,
            ..Rules::default()
        }
    }
}

impl bench::TakenIn for TakenIn {
    fn extent(&self) -> Extent {
        let columns = &self.columns;
        Extent {
            requests: columns.len() as u64,
            objects: columns.objects() as u64,
            bytes: columns.has_sizes().then(|| columns.footprint_bytes()),
            span_ms: columns.span_ms(self.gap_ms()),
        }
    }

    fn replay(&self, order: &Order) -> Result<Option<Outcome>, String> {
        let told = |error: &dyn std::fmt::Display| format!("{}: {error}", order.cache);
        let (columns, rules) = (&self.columns, self.rules(order));
        let (done, capacity) = (AtomicU64::new(0), order.capacity);
        let found = match order.cache.parse().map_err(|error| told(&error))? {
            Contestant::Policy(policy) => {
                let configuration = Configuration { policy, capacity };
                sweep(columns, &rules, &[configuration], 1, &done)
            }
            // It counts bytes, whatever is asked.
            Contestant::Segments(spec) if rules.unit == Unit::Objects || !spec.fits(capacity) => {
                return Ok(None);
            }
            Contestant::Segments(spec) => {
                segments::sweep(columns, &rules, &[(spec, capacity)], 1, &done)
            }
        };
        let found = found.map_err(|error| told(&error))?.pop();
        Ok(found.map(outcome))
    }
}

fn outcome(found: Found) -> Outcome {
    let learned = found.learned.map(|learned| Learning {
        is_trained: learned.is_trained(),
        training_time: learned.training_time,
        inference_time: learned.inference_time,
        model_age: learned.model_age,
        bytes_per_entry: learned.bytes_per_entry,
        correlation: learned.correlation(),
        fifths: learned
            .fifths()
            .map_or(Vec::new(), |fifths| fifths.to_vec()),
        lessons: learned.lessons,
    });
    Outcome {
        requests: found.counts.requests,
        misses: found.counts.misses,
        requested_weight: found.counts.requested_weight,
        missed_weight: found.counts.missed_weight,
        replayed: found.replayed,
        cpu_time: found.cpu_time,
        held: found.held,
        metadata_bytes: found.metadata_bytes,
        learned,
    }
}

fn of_cache(
    columns: &Columns,
    rules: &Rules,
    cache: &str,
    sizes: &[u64],
) -> Result<Vec<Option<f64>>, String> {
    let told = |error: &dyn std::fmt::Display| format!("{cache}: {error}");
    let jobs = thread::available_parallelism().map_or(1, usize::from);
    let done = AtomicU64::new(0);
    if !SegmentsSpec::is_named_by(cache) {
        let policy: Spec = cache.parse().map_err(|error| told(&error))?;
        let configuration = |&capacity: &u64| Configuration {
            policy: policy.clone(),
            capacity,
        };
        let configurations: Vec<_> = sizes.iter().map(configuration).collect();
        let found = sweep(columns, rules, &configurations, jobs, &done);
        let found = found.map_err(|error| told(&error))?;
        return Ok(found.iter().map(|found| Some(miss_ratio(found))).collect());
    }
    let spec: SegmentsSpec = cache.parse().map_err(|error| told(&error))?;
    let fitting = sizes.iter().filter(|size| spec.fits(**size));
    let configurations: Vec<_> = fitting.map(|size| (spec, *size)).collect();
    let found = segments::sweep(columns, rules, &configurations, jobs, &done);
    let mut found = found.map_err(|error| told(&error))?.into_iter();
    let of_size = |size: &u64| match spec.fits(*size) {
        true => found.next().map(|found| miss_ratio(&found)),
        false => None,
    };
    Ok(sizes.iter().map(of_size).collect())
}

fn miss_ratio(found: &Found) -> f64 {
    found.counts.misses as f64 / found.counts.requests.max(1) as f64
}
