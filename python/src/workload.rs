//! Analysis of a workload, and advice on policy and memory.

use crate::failure::Failure;
use crate::long_call;
use crate::replays::{Replaying, contestants};
use crate::source::{Source, interning, required, ttl_mix};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use sim::advise::{Collector, Constraints, advise as advice_on, refine};
use sim::analyze::Analyzer;
use sim::curve::Sampling;
use sim::{Rules, Size};

/// Analyzes a source. Returns the analysis as JSON, as text and as an HTML page.
#[pyfunction]
pub fn analyze(
    py: Python<'_>,
    source: &Source,
    objects: usize,
    options: &Bound<'_, PyDict>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<(String, String, String)> {
    let source = source.inner.clone();
    let mix: Option<String> = required(options, "ttl_mix")?;
    let mix = mix.map(|text| ttl_mix(&text)).transpose()?;
    let seed: u64 = required(options, "seed")?;
    long_call::run(py, progress, move |control| {
        let mut analyzer = Analyzer::new(objects);
        source.each(control, |request| {
            let mut request = *request;
            if let Some(mix) = &mix {
                request.ttl_ms = mix.ttl_ms(request.key, seed);
            }
            analyzer.push(&request);
            Ok(())
        })?;
        let name = source.name();
        let Some(analysis) = analyzer.finish() else {
            return Err(sim::Error::Empty { trace: name.into() }.into());
        };
        let page = analysis.to_page(name).to_html();
        Ok((json(&analysis)?, analysis.to_text(), page))
    })
}

fn json(value: &impl serde::Serialize) -> Result<String, Failure> {
    serde_json::to_string(value).map_err(|error| Failure::Value(error.to_string()))
}

/// Gives advice on a source. Returns it as JSON, as text and as an HTML page.
#[pyfunction]
#[expect(
    clippy::too_many_arguments,
    reason = "each is an argument of the Python function"
)]
pub fn advise(
    py: Python<'_>,
    source: &Source,
    policies: Vec<String>,
    memory: Option<&str>,
    target: Option<f64>,
    sample: (f64, usize),
    is_sample_only: bool,
    options: &Bound<'_, PyDict>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<(String, String, String)> {
    let source = source.inner.clone();
    let policies = contestants(&policies)?;
    let wrong = |error: sim::BadSize| Failure::Value(format!("memory: {error}"));
    let memory: Option<Size> = memory.map(|text| text.parse().map_err(wrong)).transpose()?;
    let replaying = Replaying::of(options)?;
    let how = interning(options)?;
    let seed: u64 = required(options, "seed")?;
    long_call::run(py, progress, move |control| {
        let from = |objects: usize| -> Result<_, Failure> {
            let sampling = Sampling {
                rate: sample.0,
                objects,
                seed,
            };
            let (name, gap_ms) = (source.name(), replaying.gap_ms());
            let mut collector =
                Collector::new(name, how.clone(), sampling, !is_sample_only, gap_ms);
            source.each(control, |request| Ok(collector.push(request)?))?;
            let inputs = collector.finish()?;
            let columns = inputs.sample.columns();
            let mut rules = replaying.rules(inputs.whole.as_ref().unwrap_or(columns))?;
            if policies.iter().any(|(_, one)| one.is_engine()) {
                let overhead = sim::advise::server_overhead(columns.has_ttls());
                rules = Rules { overhead, ..rules };
            }
            let footprint = inputs.sample.footprint(rules.unit);
            let resolve = |size: &Size| size.resolve(footprint, columns.name(), rules.unit);
            let constraints = Constraints {
                memory: memory.as_ref().map(resolve).transpose()?,
                target,
            };
            control.begin(0);
            let jobs = replaying.jobs;
            let done = &control.done;
            Ok(advice_on(
                &inputs,
                &rules,
                &policies,
                constraints,
                jobs,
                done,
            )?)
        };
        let advice = refine(sample.1, from)?;
        Ok((json(&advice)?, advice.to_text(), advice.to_page().to_html()))
    })
}
