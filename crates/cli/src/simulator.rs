//! The simulator that `bench segment` asks: `sim`, which it may not import itself.

use ::sim::segments::{self, SegmentsSpec};
use ::sim::{Columns, Configuration, Found, Interner, Interning, Rules, Unit, sweep};
use sim::Spec;
use std::sync::atomic::AtomicU64;
use std::thread;
use trace::Request;

/// Policies in the shard that serves, and the segment engine.
pub struct Simulator;

impl bench::Simulator for Simulator {
    fn miss_ratios(
        &self,
        requests: &mut dyn Iterator<Item = Request>,
        caches: &[String],
        sizes: &[u64],
    ) -> Result<Vec<Vec<Option<f64>>>, String> {
        let mut interner = Interner::new("the trace", Interning::default());
        for request in requests {
            interner.push(&request).map_err(|error| error.to_string())?;
        }
        let columns = interner.finish().map_err(|error| error.to_string())?;
        let rules = Rules {
            unit: Unit::Bytes,
            counts_writes: false,
            ..Rules::default()
        };
        let of_cache = |cache: &String| of_cache(&columns, &rules, cache, sizes);
        caches.iter().map(of_cache).collect()
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
