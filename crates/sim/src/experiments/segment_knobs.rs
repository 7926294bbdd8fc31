//! Comparison of the segment engine's parts and parameters, simulated in the trace's own time.
//!
//! Each [`Study`] compares caches with its first one, at several sizes and with several mixes of
//! lifetimes. A policy's entries include the metadata that they have in the server it represents,
//! so that its sizes are comparable with those of the engine, which count all memory.

use crate::{Columns, Configuration, Contestant, Error, Rules, Unit, segments, sweep};
use report::{Column, Page, Table};
use serde::Serialize;
use std::sync::atomic::AtomicU64;

/// Bytes in memcached in addition to key and value: 48 for the header, 8 for the CAS number.
const MEMCACHED_BYTES: u32 = 56;
/// Bytes in our slab engine in addition to key and value: 4 for the header, 9 for the table, and
/// rounding.
const SLAB_BYTES: u32 = 17;
/// Further bytes of an entry with a deadline in our slab engine.
const SLAB_DEADLINE_BYTES: u32 = 13;

/// Subject of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Study {
    /// Engines compared.
    Engines,
    /// The engine with single parts switched off.
    Ablation,
    /// Number of segments that are merged into one.
    Merged,
    /// Size of a segment.
    Segment,
}

impl Study {
    /// All studies with their titles.
    const ALL: [(Study, &str); 4] = [
        (Study::Engines, "Engines"),
        (Study::Ablation, "The segment engine without single parts"),
        (Study::Merged, "Segments merged into one"),
        (Study::Segment, "Size of a segment"),
    ];
}

/// Choice of the replays.
#[derive(Clone, Debug)]
pub struct Options {
    /// Cache sizes in bytes, in rising order.
    pub sizes: Vec<u64>,
    /// Numbers of merged segments.
    pub merged: Vec<u32>,
    /// Sizes of segments in bytes.
    pub segment_sizes: Vec<u64>,
    /// Milliseconds between requests, for a trace without times.
    pub gap_ms: Option<f64>,
    /// Seed of all random decisions.
    pub seed: u64,
}

/// One simulated cache.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Subject of the comparison.
    pub study: Study,
    /// Name of the mix of lifetimes.
    pub lifetimes: String,
    /// Name of the cache in the study.
    pub name: String,
    /// Name of the policy or engine, with its knobs.
    pub cache: String,
    /// Size in bytes.
    pub memory_bytes: u64,
    /// `None` if the cache is too small for the engine.
    pub miss_ratio: Option<f64>,
    /// Miss ratio ÷ miss ratio of the study's first cache at this size.
    pub over_first: Option<f64>,
}

/// A cache of a study. The next field is the number of bytes that each entry has in addition to key
/// and value.
struct Contender {
    name: String,
    spec: String,
    overhead: u32,
}

impl Options {
    /// Requests of all replays of a trace together.
    pub fn requests(&self, columns: &Columns) -> u64 {
        let studies = Study::ALL.map(|(study, _)| {
            self.contenders(study, columns.has_ttls()).len() * self.sizes_of(study).len()
        });
        (studies.iter().sum::<usize>() * columns.len()) as u64
    }

    /// Runs all studies on a trace with this mix of lifetimes. `done` counts requests.
    ///
    /// # Errors
    /// A parameter that the engine does not have, and a trace that cannot be replayed.
    pub fn run(
        &self,
        columns: &Columns,
        lifetimes: &str,
        jobs: usize,
        done: &AtomicU64,
    ) -> Result<Vec<Row>, Error> {
        let mut rows: Vec<Row> = Vec::new();
        for (study, _) in Study::ALL {
            let sizes = self.sizes_of(study);
            let first_row = rows.len();
            for contender in self.contenders(study, columns.has_ttls()) {
                let ratios = self.miss_ratios(columns, &contender, sizes, jobs, done)?;
                for (at, (&memory_bytes, miss_ratio)) in sizes.iter().zip(ratios).enumerate() {
                    let first = match rows.get(first_row + at) {
                        Some(first) => first.miss_ratio,
                        None => miss_ratio,
                    };
                    let over_first = miss_ratio.zip(first).map(|(own, first)| own / first);
                    rows.push(Row {
                        study,
                        lifetimes: lifetimes.into(),
                        name: contender.name.clone(),
                        cache: contender.spec.clone(),
                        memory_bytes,
                        miss_ratio,
                        over_first: over_first.filter(|ratio| ratio.is_finite()),
                    });
                }
            }
        }
        Ok(rows)
    }

    /// Returns the sizes at which a study is made. Engines and parts are compared at all sizes,
    /// parameters at the middle one.
    fn sizes_of(&self, study: Study) -> &[u64] {
        match study {
            Study::Engines | Study::Ablation => &self.sizes,
            Study::Merged | Study::Segment => &self.sizes[self.sizes.len() / 2..][..1],
        }
    }

    fn miss_ratios(
        &self,
        columns: &Columns,
        contender: &Contender,
        sizes: &[u64],
        jobs: usize,
        done: &AtomicU64,
    ) -> Result<Vec<Option<f64>>, Error> {
        let rules = Rules {
            unit: Unit::Bytes,
            counts_writes: false,
            overhead: contender.overhead,
            gap_ms: self.gap_ms,
            seed: self.seed,
            ..Rules::default()
        };
        let contestant: Result<Contestant, _> = contender.spec.parse();
        let contestant = contestant.map_err(|error| Error::Segments {
            problem: error.to_string(),
        })?;
        let found = match &contestant {
            Contestant::Policy(policy) => {
                let configuration = |&capacity: &u64| Configuration {
                    policy: policy.clone(),
                    capacity,
                };
                let all: Vec<_> = sizes.iter().map(configuration).collect();
                sweep(columns, &rules, &all, jobs, done)?
            }
            Contestant::Segments(spec) => {
                let fitting = sizes.iter().filter(|size| spec.fits(**size));
                let all: Vec<_> = fitting.map(|size| (*spec, *size)).collect();
                segments::sweep(columns, &rules, &all, jobs, done)?
            }
        };
        let mut found = found.into_iter();
        let ratio = |size: &u64| {
            let fits = match &contestant {
                Contestant::Policy(_) => true,
                Contestant::Segments(spec) => spec.fits(*size),
            };
            let counts = fits.then(|| found.next()).flatten()?.counts;
            Some(counts.misses as f64 / counts.requests.max(1) as f64)
        };
        Ok(sizes.iter().map(ratio).collect())
    }

    fn contenders(&self, study: Study, has_ttls: bool) -> Vec<Contender> {
        let policy = |name: &str, spec: &str, overhead: u32| Contender {
            name: name.into(),
            spec: spec.into(),
            overhead,
        };
        let engine = |name: &str, knobs: &str| policy(name, &format!("segcache{knobs}"), 0);
        match study {
            Study::Engines => {
                let slab_bytes = SLAB_BYTES + if has_ttls { SLAB_DEADLINE_BYTES } else { 0 };
                vec![
                    engine("segment engine", ""),
                    policy("slab engine, s3fifo", "s3fifo", slab_bytes),
                    policy(
                        "memcached's LRU, 56 bytes an object",
                        "memcached-lru",
                        MEMCACHED_BYTES,
                    ),
                    policy("LRU without metadata", "lru", 0),
                ]
            }
            Study::Ablation => {
                let mut all = vec![
                    engine("complete", ""),
                    engine("the source's merges in turn", ":eviction=merge"),
                    engine("nothing kept at eviction (fifo)", ":eviction=fifo"),
                    engine("56 bytes of metadata", ":metadata=56"),
                ];
                if has_ttls {
                    let both = ":expiry=lazy:metadata=56";
                    all.push(engine("no proactive expiry", ":expiry=lazy"));
                    all.push(engine("neither expiry nor small metadata", both));
                }
                all
            }
            Study::Merged => {
                let counts = self.merged.iter();
                let one = |count: &u32| engine(&count.to_string(), &format!(":merged={count}"));
                counts.map(one).collect()
            }
            Study::Segment => {
                let sizes = self.segment_sizes.iter();
                let one = |bytes: &u64| {
                    engine(
                        &format!("{} KiB", bytes >> 10),
                        &format!(":segment={bytes}"),
                    )
                };
                sizes.map(one).collect()
            }
        }
    }
}

/// Returns the page of all rows. Its section can be inserted in documents at the mark `segment
/// knobs`.
pub fn page(rows: &[Row]) -> Page {
    let mut page = Page::new("Parts and parameters of the segment engine");
    let section = page.section("Miss ratios").place("segment knobs");
    section.text(
        "Simulated in the trace’s own time. Without proactive expiry, an expired object takes room until it is evicted, and is \
         a miss all the same.",
    );
    for (study, title) in Study::ALL {
        let own = rows.iter().filter(|row| row.study == study);
        let table = Table::of(own)
            .column(Column::text("lifetimes"), |row| &row.lifetimes)
            .column(Column::text("cache"), |row| &row.name)
            .column(Column::text("policy").detail(), |row| &row.cache)
            .column(Column::mebibytes("memory"), |row| row.memory_bytes)
            .column(
                Column::decimals("miss ratio", 4).absent("too little memory"),
                |row| row.miss_ratio,
            )
            .column(Column::number("÷ first"), |row| row.over_first)
            .finish()
            .with_caption(title);
        for (lifetimes, part) in table.split(&["lifetimes"]) {
            let title = format!("{title}, {lifetimes}");
            section.plot(part.bars(&title, &["cache"], &["memory"], "miss ratio"));
        }
        section.table(table);
    }
    page
}
