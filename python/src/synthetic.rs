//! Generated traces, as columns or as a file.

use crate::failure::Failure;
use crate::long_call;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::fs::File;
use std::io::BufWriter;
use trace::{
    Generator, GeneratorOptions, PatternMix, Request, Sizes, TtlMix, WriteOptions, Writer,
};

/// Requests between two looks at an interrupt.
const STRIDE: u64 = 1 << 16;

fn recipe(
    pattern: &str,
    objects: u64,
    size: &str,
    ttl_mix: Option<&str>,
    rates: (f64, f64, u64),
) -> Result<GeneratorOptions, Failure> {
    let (rate, writes, seed) = rates;
    let ttl_mix: Option<TtlMix> = ttl_mix.map(crate::source::ttl_mix).transpose()?;
    Ok(GeneratorOptions {
        mix: PatternMix::parse(pattern, objects).map_err(Failure::Value)?,
        sizes: Sizes::parse(size).map_err(Failure::Value)?,
        ttl_mix,
        rate,
        writes,
        seed,
    })
}

/// Bytes of the columns of a generated trace.
#[derive(Default)]
struct Made {
    key: Vec<u8>,
    time_ms: Vec<u8>,
    size: Vec<u8>,
    ttl_ms: Vec<u8>,
    op: Vec<u8>,
}

impl Made {
    fn push(&mut self, request: &Request) {
        self.key.extend_from_slice(&request.key.to_ne_bytes());
        self.time_ms
            .extend_from_slice(&request.time_ms.to_ne_bytes());
        self.size.extend_from_slice(&request.size.to_ne_bytes());
        self.ttl_ms.extend_from_slice(&request.ttl_ms.to_ne_bytes());
        self.op.push(request.op as u8);
    }
}

/// Generates requests. Returns the bytes of each column in the machine's order of bytes.
#[pyfunction]
#[expect(
    clippy::too_many_arguments,
    reason = "each is an argument of the Python function"
)]
pub fn generate<'py>(
    py: Python<'py>,
    requests: u64,
    pattern: &str,
    objects: u64,
    size: &str,
    ttl_mix: Option<&str>,
    rates: (f64, f64, u64),
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let recipe = recipe(pattern, objects, size, ttl_mix, rates)?;
    let made = long_call::run(py, progress, move |control| {
        control.begin(requests);
        let mut made = Made::default();
        for (number, request) in (0..requests).zip(Generator::new(recipe)) {
            made.push(&request);
            if number % STRIDE == 0 {
                control.check(STRIDE)?;
            }
        }
        Ok(made)
    })?;
    let columns = PyDict::new(py);
    let all = [
        ("key", "u8", &made.key),
        ("time_ms", "u8", &made.time_ms),
        ("size", "u4", &made.size),
        ("ttl_ms", "u8", &made.ttl_ms),
        ("op", "u1", &made.op),
    ];
    for (name, kind, bytes) in all {
        columns.set_item(name, (kind, PyBytes::new(py, bytes)))?;
    }
    Ok(columns)
}

/// Generates requests and writes them to a file, whose name selects format and compression.
#[pyfunction]
#[expect(
    clippy::too_many_arguments,
    reason = "each is an argument of the Python function"
)]
pub fn generate_file(
    py: Python<'_>,
    path: String,
    requests: u64,
    pattern: &str,
    objects: u64,
    size: &str,
    ttl_mix: Option<&str>,
    rates: (f64, f64, u64),
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    let recipe = recipe(pattern, objects, size, ttl_mix, rates)?;
    long_call::run(py, progress, move |control| {
        control.begin(requests);
        let cannot = |error| Failure::File(path.clone(), error);
        let file = BufWriter::new(File::create(&path).map_err(cannot)?);
        let mut writer = Writer::new(&path, file, &WriteOptions::default())?;
        for (number, request) in (0..requests).zip(Generator::new(recipe)) {
            writer.write(&request)?;
            if number % STRIDE == 0 {
                control.check(STRIDE)?;
            }
        }
        let file = writer.finish()?;
        file.into_inner()
            .map_err(|error| Failure::File(path.clone(), error.into_error()))?;
        Ok(())
    })
}
