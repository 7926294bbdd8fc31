//! Replays of a trace for policies and sizes, and curves over sizes.

use crate::cells;
use crate::failure::Failure;
use crate::long_call;
use crate::source::{Source, Trace, required};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use report::{Column, Table};
use sim::curve::{Named, Sampler, Sampling, exact, spread};
use sim::report::Row;
use sim::segments::{self, SegmentsSpec};
use sim::{Columns, Configuration, Contestant, Counts, ReplayResult, Rules, Size, Unit, scaled};
use std::time::Duration;

/// Request rate per second of a trace without timestamps.
const RATE_DEFAULT: f64 = 1_000.0;
/// Longest duration of a trace under a given rate, in milliseconds: deadlines still fit a tick.
const SPAN_MS_MAX: f64 = (1u64 << 47) as f64;
/// Smallest size of a curve, as a share of the footprint.
const SMALLEST_SHARE: f64 = 0.001;

/// Returns the names of all policies, and of the segment engine.
pub fn policy_names() -> Vec<&'static str> {
    learn::any::names().chain([SegmentsSpec::NAME]).collect()
}

/// Options of replays as the Python modules give them, before the trace is known.
#[derive(Clone)]
pub struct Replaying {
    rules: Rules,
    ignores_sizes: bool,
    rate: Option<f64>,
    warmup_share: f64,
    pub jobs: usize,
}

impl Replaying {
    pub fn of(options: &Bound<'_, PyDict>) -> PyResult<Replaying> {
        let admission: Option<String> = required(options, "admission")?;
        let admission = admission.map(|text| text.parse()).transpose();
        let expiry: String = required(options, "expiry")?;
        let bad = |name: &str, error: &dyn std::fmt::Display| {
            PyErr::from(Failure::Value(format!("{name}: {error}")))
        };
        let limit: Option<u64> = required(options, "memory_limit")?;
        let rate: Option<f64> = required(options, "request_rate")?;
        if let Some(rate) = rate
            && !(rate > 0.0 && rate.is_finite())
        {
            let error = format!("{rate}: expected more than 0 requests a second");
            return Err(bad("request_rate", &error));
        }
        Ok(Replaying {
            rules: Rules {
                admission: admission.map_err(|error| bad("admission", &error))?,
                expiry: expiry.parse().map_err(|error| bad("expiry", &error))?,
                counts_writes: !required::<bool>(options, "reads_only")?,
                follows_sizes: required(options, "follow_sizes")?,
                largest_share: required(options, "max_object_share")?,
                overhead: required(options, "entry_overhead")?,
                explains: required(options, "explain")?,
                seed: required(options, "seed")?,
                memory_limit: limit.unwrap_or(u64::MAX),
                ..Rules::default()
            },
            ignores_sizes: required(options, "ignore_size")?,
            rate,
            warmup_share: required(options, "warmup_share")?,
            jobs: required(options, "jobs")?,
        })
    }

    /// Returns the rules for a trace.
    pub fn rules(&self, columns: &Columns) -> Result<Rules, Failure> {
        let rate = match self.rate {
            None if !columns.has_time() => Some(RATE_DEFAULT),
            rate => rate,
        };
        if let Some(rate) = rate
            && columns.len() as f64 * 1_000.0 / rate > SPAN_MS_MAX
        {
            return Err(Failure::Value(format!(
                "request_rate {rate}: {} requests would take more than 4,400 years",
                columns.len()
            )));
        }
        let unit = match self.ignores_sizes || !columns.has_sizes() {
            true => Unit::Objects,
            false => Unit::Bytes,
        };
        Ok(Rules {
            unit,
            warm_up: (columns.len() as f64 * self.warmup_share) as usize,
            gap_ms: rate.map(|rate| 1_000.0 / rate),
            ..self.rules.clone()
        })
    }

    /// Returns the milliseconds between two requests, if a rate was given.
    pub fn gap_ms(&self) -> Option<f64> {
        self.rate.map(|rate| 1_000.0 / rate)
    }
}

/// Parses policies, each with its name as given.
pub fn contestants(names: &[String]) -> Result<Vec<(String, Contestant)>, Failure> {
    let one = |name: &String| {
        let parsed = name.parse::<Contestant>();
        let parsed = parsed.map_err(|error| Failure::Value(format!("policy {name}: {error}")));
        Ok((name.clone(), parsed?))
    };
    names.iter().map(one).collect()
}

pub fn sizes(texts: &[String]) -> Result<Vec<Size>, Failure> {
    let one = |text: &String| {
        text.parse()
            .map_err(|error: sim::BadSize| error.to_string())
    };
    let all: Result<_, String> = texts.iter().map(one).collect();
    all.map_err(Failure::Value)
}

/// Returns each size as given and in units.
pub fn resolved(
    columns: &Columns,
    unit: Unit,
    sizes: &[Size],
) -> Result<Vec<(String, u64)>, Failure> {
    let footprint = columns.footprint(unit);
    let one = |size: &Size| {
        let units = size.resolve(footprint, columns.name(), unit)?;
        Ok((size.to_string(), units))
    };
    sizes.iter().map(one).collect()
}

/// Replays a trace for every policy at every size. Returns columns, with a row for each policy and
/// size in the order given.
#[pyfunction]
pub fn replay<'py>(
    py: Python<'py>,
    trace: &Trace,
    policies: Vec<String>,
    sizes: Vec<String>,
    options: &Bound<'py, PyDict>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let columns = trace.columns.clone();
    let contestants = contestants(&policies)?;
    let sizes = self::sizes(&sizes)?;
    let replaying = Replaying::of(options)?;
    let rows = long_call::run(py, progress, move |control| {
        let rules = replaying.rules(&columns)?;
        let sizes = resolved(&columns, rules.unit, &sizes)?;
        control.begin((columns.len() * sizes.len() * contestants.len()) as u64);
        let (mut plain, mut engines) = (Vec::new(), Vec::new());
        for (_, contestant) in &contestants {
            for (_, size) in &sizes {
                let capacity = scaled(*size, &columns);
                match contestant {
                    Contestant::Policy(policy) => plain.push(Configuration {
                        policy: policy.clone(),
                        capacity,
                    }),
                    Contestant::Segments(spec) => engines.push((*spec, capacity)),
                }
            }
        }
        let jobs = replaying.jobs;
        let plain = match plain.is_empty() {
            true => Vec::new(),
            false => sim::sweep(&columns, &rules, &plain, jobs, &control.done)?,
        };
        let engines = match engines.is_empty() {
            true => Vec::new(),
            false => segments::sweep(&columns, &rules, &engines, jobs, &control.done)?,
        };
        let (mut plain, mut engines) = (plain.into_iter(), engines.into_iter());
        let mut rows = Vec::new();
        for (name, contestant) in &contestants {
            let found: &mut dyn Iterator<Item = ReplayResult> = match contestant {
                Contestant::Policy(_) => &mut plain,
                Contestant::Segments(_) => &mut engines,
            };
            for size in &sizes {
                let found = found
                    .next()
                    .expect("there is a result for each configuration");
                rows.push(row(&columns, name, rules.unit, size, found));
            }
        }
        Ok(rows)
    })?;
    cells::columns(py, &table(&rows))
}

/// Creates a row of results.
pub fn row(
    columns: &Columns,
    policy: &str,
    unit: Unit,
    (size, cache_size): &(String, u64),
    found: ReplayResult,
) -> Row {
    Row {
        trace: columns.name().into(),
        policy: policy.into(),
        unit,
        cache_size: *cache_size,
        size: size.clone(),
        found,
    }
}

/// Returns the table of results, with the counters from which [`page_of_replays`] restores them.
pub fn table(rows: &[Row]) -> Table {
    let results = sim::report::table(rows);
    let counters = Table::of(rows)
        .column(Column::count("requested_weight"), |row| {
            row.found.counts.requested_weight
        })
        .column(Column::count("missed_weight"), |row| {
            row.found.counts.missed_weight
        })
        .column(Column::count("held"), |row| row.found.held)
        .column(Column::count("replayed"), |row| row.found.replayed)
        .finish();
    let all = results.columns().iter().chain(counters.columns());
    let mut joined = Table::with_columns(all.cloned().collect());
    for (left, right) in results.rows().iter().zip(counters.rows()) {
        joined.row(left.iter().chain(right).cloned().collect());
    }
    joined
}

/// Returns the HTML page of rows that [`replay`] returned, possibly merged from several calls.
#[pyfunction]
pub fn page_of_replays(columns: &Bound<'_, PyDict>) -> PyResult<String> {
    let list = |name: &str| -> PyResult<Bound<'_, PyList>> {
        let values = columns.as_any().get_item(name)?;
        Ok(values.cast_into::<PyList>()?)
    };
    let texts = |name: &str| list(name)?.extract::<Vec<String>>();
    let counts = |name: &str| list(name)?.extract::<Vec<u64>>();
    let (traces, policies, units) = (texts("trace")?, texts("policy")?, texts("unit")?);
    let (sizes, cache_sizes) = (texts("size")?, counts("cache_size")?);
    let seconds: Vec<f64> = list("cpu_seconds")?.extract()?;
    let expired: Vec<f64> = list("expired_bytes")?.extract()?;
    let [requests, misses, evictions] = ["requests", "misses", "evictions"].map(counts);
    let [requested, missed] = ["requested_weight", "missed_weight"].map(counts);
    let [expirations, refusals] = ["expirations", "refusals"].map(counts);
    let [promotions, metadata, bytes] =
        ["promotions", "metadata_bytes", "replay_bytes"].map(counts);
    let [held, replayed] = ["held", "replayed"].map(counts);
    let (requests, misses, evictions) = (requests?, misses?, evictions?);
    let (requested, missed) = (requested?, missed?);
    let (expirations, refusals) = (expirations?, refusals?);
    let (promotions, metadata, bytes) = (promotions?, metadata?, bytes?);
    let (held, replayed) = (held?, replayed?);
    let row = |at: usize| Row {
        trace: traces[at].clone(),
        policy: policies[at].clone(),
        unit: match units[at].as_str() {
            "bytes" => Unit::Bytes,
            _ => Unit::Objects,
        },
        cache_size: cache_sizes[at],
        size: sizes[at].clone(),
        found: ReplayResult {
            counts: Counts {
                requests: requests[at],
                requested_weight: requested[at],
                misses: misses[at],
                missed_weight: missed[at],
                evictions: evictions[at],
                kept: 0,
                expirations: expirations[at],
                refusals: refusals[at],
            },
            promotions: promotions[at],
            metadata_bytes: metadata[at],
            held: held[at],
            replay_bytes: bytes[at],
            expired_held: expired[at],
            replayed: replayed[at],
            cpu_time: Duration::from_secs_f64(seconds[at].max(0.0)),
            flash_written: None,
            explained: None,
            learned: None,
        },
    };
    let rows: Vec<Row> = (0..traces.len()).map(row).collect();
    Ok(sim::report::page(&rows).to_html())
}

/// Computes miss ratio curves. Returns columns and the HTML page.
#[pyfunction]
#[expect(
    clippy::too_many_arguments,
    reason = "each is an argument of the Python function"
)]
pub fn curve<'py>(
    py: Python<'py>,
    source: &Source,
    policies: Vec<String>,
    sizes: Vec<String>,
    points: usize,
    sample: (f64, usize),
    is_exact: bool,
    options: &Bound<'py, PyDict>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<(Bound<'py, PyDict>, String)> {
    let source = source.inner.clone();
    let contestants = contestants(&policies)?;
    let given = self::sizes(&sizes)?;
    let replaying = Replaying::of(options)?;
    let how = crate::source::interning(options)?;
    let seed: u64 = required(options, "seed")?;
    let (table, page) = long_call::run(py, progress, move |control| {
        let mut specs = contestants.iter().map(|(_, one)| one.clone());
        let specs: Vec<Contestant> = specs.by_ref().collect();
        let sizes_for = |unit: Unit, footprint: u64, name: &str| -> Result<Vec<u64>, Failure> {
            if given.is_empty() {
                return Ok(spread(footprint, SMALLEST_SHARE, points));
            }
            let one = |size: &Size| size.resolve(footprint, name, unit);
            let all: Result<Vec<u64>, sim::Error> = given.iter().map(one).collect();
            let mut all = all?;
            all.sort_unstable();
            all.dedup();
            Ok(all)
        };
        let (curves, name, unit, has_ttls) = if is_exact {
            let columns = source.columns(control, how)?;
            let rules = replaying.rules(&columns)?;
            let sizes = sizes_for(rules.unit, columns.footprint(rules.unit), columns.name())?;
            control.begin((columns.len() * sizes.len() * specs.len()) as u64);
            let jobs = replaying.jobs;
            let curves = exact(&columns, &rules, &specs, &sizes, jobs, &control.done)?;
            let name = columns.name().to_owned();
            (curves, name, rules.unit, columns.has_ttls())
        } else {
            let sampling = Sampling {
                rate: sample.0,
                objects: sample.1,
                seed,
            };
            let mut sampler = Sampler::new(source.name(), how, sampling);
            source.each(control, |request| Ok(sampler.push(request)?))?;
            let sample = sampler.finish()?;
            let columns = sample.columns();
            let rules = replaying.rules(columns)?;
            let sizes = sizes_for(rules.unit, sample.footprint(rules.unit), columns.name())?;
            control.begin((columns.len() * sizes.len() * specs.len()) as u64);
            let curves = sample.curves(&rules, &specs, &sizes, replaying.jobs, &control.done)?;
            let name = columns.name().to_owned();
            (curves, name, rules.unit, columns.has_ttls())
        };
        let named = contestants.into_iter().zip(curves);
        let named = named.map(|((policy, _), curve)| Named {
            policy,
            has_ttls,
            curve,
        });
        let named: Vec<Named> = named.collect();
        let page = sim::curve::page(&name, unit, &named).to_html();
        Ok((sim::curve::table(&name, unit, &named), page))
    })?;
    Ok((cells::columns(py, &table)?, page))
}
