//! Round 3: what the engine's parts and knobs are worth, in a simulator and so in the trace's own time.

use super::Segment;
use super::workload::{Lives, Workload};
use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::simulator::Simulator;
use serde::Serialize;

/// What memcached takes beside key and value: 48 bytes of header, 8 of cas.
const MEMCACHED_BYTES: u32 = 56;
/// What our slab engine takes beside them: 4 of header, 9 of table, rounding; and for a deadline.
const SLAB_BYTES: u32 = 17;
const SLAB_DEADLINE_BYTES: u32 = 13;

/// Which question a row answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Study {
    /// Engines, in the trace's own time.
    Engines,
    /// Parts taken away one by one.
    Ablation,
    /// How many segments become one.
    Merged,
    /// How large a segment is.
    Segment,
}

impl Study {
    pub(super) const ALL: [Study; 4] = [
        Study::Engines,
        Study::Ablation,
        Study::Merged,
        Study::Segment,
    ];
}

/// One simulated cache.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub study: Study,
    pub lives: String,
    pub name: String,
    /// As the simulator was told.
    pub cache: String,
    pub memory_bytes: u64,
    pub miss_ratio: Option<f64>,
    /// Over that of the study's first cache at this size.
    pub over_first: Option<f64>,
}

/// A cache, what it is called, and the bytes that each object has beside key and value for it.
struct Cache {
    name: String,
    spec: String,
    overhead: u32,
}

impl Cache {
    fn new(name: &str, spec: &str, overhead: u32) -> Cache {
        Cache {
            name: name.into(),
            spec: spec.into(),
            overhead,
        }
    }
}

/// All studies of one set of lives.
pub(super) fn measure(
    options: &Segment,
    simulator: &dyn Simulator,
    workload: &Workload,
    lives: &Lives,
    sizes: &[u64],
    progress: &Progress,
) -> Result<Vec<Row>> {
    let expires = workload.shortest_ttl_ms(lives, options.seed).is_some();
    let mut rows = Vec::new();
    for study in Study::ALL {
        progress.set_message(format!("{study:?}: {lives}"));
        let caches = caches(options, study, expires);
        // Knobs are looked at in the middle, parts and engines everywhere.
        let sizes = match study {
            Study::Engines | Study::Ablation => sizes,
            Study::Merged | Study::Segment => &sizes[sizes.len() / 2..][..1],
        };
        let mut first: Option<Vec<Option<f64>>> = None;
        for alike in caches.chunk_by(|a, b| a.overhead == b.overhead) {
            let mut requests = workload.told(lives, options.seed, alike[0].overhead);
            let specs: Vec<String> = alike.iter().map(|cache| cache.spec.clone()).collect();
            let found = simulator.miss_ratios(&mut requests, &specs, sizes);
            for (cache, found) in alike.iter().zip(found.map_err(Error::Simulation)?) {
                let first = first.get_or_insert_with(|| found.clone());
                for ((&memory_bytes, &miss_ratio), first) in sizes.iter().zip(&found).zip(first) {
                    let over_first = miss_ratio.zip(*first).map(|(own, first)| own / first);
                    rows.push(Row {
                        study,
                        lives: lives.to_string(),
                        name: cache.name.clone(),
                        cache: cache.spec.clone(),
                        memory_bytes,
                        miss_ratio,
                        over_first: over_first.filter(|ratio| ratio.is_finite()),
                    });
                }
            }
        }
        progress.inc(1);
    }
    Ok(rows)
}

fn caches(options: &Segment, study: Study, expires: bool) -> Vec<Cache> {
    let knob = |name: &str, spec: &str| Cache::new(name, &format!("segcache{spec}"), 0);
    match study {
        Study::Engines => {
            let slab_bytes = SLAB_BYTES + if expires { SLAB_DEADLINE_BYTES } else { 0 };
            vec![
                knob("segment engine", ""),
                Cache::new("slab engine, s3fifo", "s3fifo", slab_bytes),
                Cache::new(
                    "memcached's LRU, 56 bytes an object",
                    "memcached-lru",
                    MEMCACHED_BYTES,
                ),
                Cache::new("LRU without metadata", "lru", 0),
            ]
        }
        Study::Ablation => {
            let mut all = vec![
                knob("as it is", ""),
                knob("the source's merges in turn", ":eviction=merge"),
                knob("nothing kept at eviction (fifo)", ":eviction=fifo"),
                knob("56 bytes of metadata", ":metadata=56"),
            ];
            if expires {
                all.extend([
                    knob("no proactive expiry", ":expiry=lazy"),
                    knob(
                        "neither expiry nor small metadata",
                        ":expiry=lazy:metadata=56",
                    ),
                ]);
            }
            all
        }
        Study::Merged => {
            let counts = options.merged.iter();
            counts
                .map(|count| knob(&count.to_string(), &format!(":merged={count}")))
                .collect()
        }
        Study::Segment => {
            let sizes = options.segment_size.iter();
            sizes
                .map(|bytes| {
                    knob(
                        &format!("{} KiB", bytes >> 10),
                        &format!(":segment={bytes}"),
                    )
                })
                .collect()
        }
    }
}
