//! Sources of requests: files, and columns in memory. A trace interned from one is kept for any
//! number of replays.

use crate::arrow_in;
use crate::failure::Failure;
use crate::fields::{Batch, Field, FieldColumn, Values};
use crate::keys;
use crate::long_call::{self, Control};
use crate::numbers;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use sim::{Columns, Interner, Interning};
use std::fs::File;
use std::panic::resume_unwind;
use std::sync::Arc;
use trace::{Request, Sample, TtlMix};

/// Number of requests between two checks for an interrupt while a trace is read.
const STRIDE: u64 = 1 << 16;

/// Source of requests. It can be read any number of times.
#[pyclass(frozen, module = "mayfly._native")]
pub struct Source {
    pub inner: Arc<From>,
}

/// Kinds of sources.
pub enum From {
    File {
        name: String,
        path: String,
        options: trace::Options,
    },
    Batches {
        name: String,
        batches: Vec<Batch>,
    },
}

#[pymethods]
impl Source {
    /// Creates a source from a file. The extensions of `name` select format and compression.
    #[staticmethod]
    #[pyo3(signature = (name, path, format=None, columns=None, skip_bad=false))]
    fn file(
        name: String,
        path: String,
        format: Option<&str>,
        columns: Option<String>,
        skip_bad: bool,
    ) -> PyResult<Source> {
        let format = format.map(str::parse).transpose();
        let format = format.map_err(Failure::Value)?;
        let options = trace::Options {
            format,
            columns,
            skip_bad,
            ..trace::Options::default()
        };
        Ok(Source {
            inner: Arc::new(From::File {
                name,
                path,
                options,
            }),
        })
    }

    /// Creates a source from columns by name. Each is an array, or an iterable of keys or names of
    /// operations, with the factor that converts its values to the field's unit.
    #[staticmethod]
    fn columns(name: String, columns: &Bound<'_, PyDict>) -> PyResult<Source> {
        let mut all = Vec::new();
        for (column, described) in columns {
            let column: String = column.extract()?;
            let Some(field) = Field::of(&column) else {
                continue;
            };
            let (values, unit): (Bound<'_, PyAny>, f64) = described.extract()?;
            let values = match values.hasattr("__array_interface__")? {
                true => Values::Numbers(numbers::of_array(&column, &values)?),
                false if field == Field::Key => Values::Keys(keys::of_iterable(&column, &values)?),
                false => of_texts(&column, field, &values)?,
            };
            all.push(FieldColumn {
                name: column,
                field,
                values,
                unit,
            });
        }
        let batches = vec![Batch::new(all, 0)?];
        Ok(Source {
            inner: Arc::new(From::Batches { name, batches }),
        })
    }

    /// Creates a source from a table that exports itself by `__arrow_c_stream__`.
    #[staticmethod]
    fn arrow(name: String, table: &Bound<'_, PyAny>) -> PyResult<Source> {
        let batches = arrow_in::batches(table)?;
        Ok(Source {
            inner: Arc::new(From::Batches { name, batches }),
        })
    }
}

fn of_texts(name: &str, field: Field, values: &Bound<'_, PyAny>) -> Result<Values, Failure> {
    let texts: Result<Vec<String>, PyErr> = values
        .try_iter()?
        .map(|value| value.and_then(|value| value.extract()))
        .collect();
    let texts = texts?;
    Values::of_texts(name, field, 0, texts.iter().map(String::as_bytes))
}

impl From {
    /// Returns the name of the trace in reports.
    pub fn name(&self) -> &str {
        match self {
            From::File { name, .. } | From::Batches { name, .. } => name,
        }
    }

    /// Interns the whole source. A prepared file has its columns already.
    ///
    /// # Errors
    /// Returns the errors of [`From::each`] and of the interner.
    pub fn columns(&self, control: &Control, how: Interning) -> Result<Columns, Failure> {
        let From::File {
            name,
            path,
            options,
        } = self
        else {
            let mut interner = Interner::new(self.name(), how);
            self.each(control, |request| Ok(interner.push(request)?))?;
            return Ok(interner.finish()?);
        };
        control.begin(0);
        let options = trace::Options {
            memory_limit: Some(how.memory_limit),
            ..options.clone()
        };
        let cannot = |error| Failure::File(path.clone(), error);
        let file = File::open(path).map_err(cannot)?;
        let mut reader = trace::open_file(path, file, &options)?;
        let mut seen = 0;
        let columns = sim::read(name, how, &mut reader, |count| {
            if control.check(count - seen).is_err() {
                // Nobody waits for this thread any more.
                resume_unwind(Box::new(()));
            }
            seen = count;
        });
        Ok(columns?)
    }

    /// Calls `push` with each request.
    ///
    /// # Errors
    /// Returns an error if the source cannot be read, `push` fails, or the call is interrupted.
    pub fn each(
        &self,
        control: &Control,
        mut push: impl FnMut(&Request) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        match self {
            From::File { path, options, .. } => {
                control.begin(0);
                let cannot = |error| Failure::File(path.clone(), error);
                let file = File::open(path).map_err(cannot)?;
                // The endings of the path select format and compression.
                let mut count = 0u64;
                for request in trace::open_file(path, file, options)? {
                    push(&request?)?;
                    count += 1;
                    if count.is_multiple_of(STRIDE) {
                        control.check(STRIDE)?;
                    }
                }
                Ok(())
            }
            From::Batches { batches, .. } => {
                let all: usize = batches.iter().map(Batch::len).sum();
                control.begin(all as u64);
                for batch in batches {
                    let mut from = 0;
                    while from < batch.len() {
                        let to = batch.len().min(from + STRIDE as usize);
                        for row in from..to {
                            push(&batch.request(row)?)?;
                        }
                        control.check((to - from) as u64)?;
                        from = to;
                    }
                }
                Ok(())
            }
        }
    }
}

/// Reads the options of interning from a dictionary that the Python modules make.
pub fn interning(options: &Bound<'_, PyDict>) -> PyResult<Interning> {
    let seed: u64 = required(options, "seed")?;
    let mix: Option<String> = required(options, "ttl_mix")?;
    let mix = mix.map(|text| ttl_mix(&text)).transpose()?;
    let share: Option<f64> = required(options, "sample")?;
    let limit: Option<u64> = required(options, "memory_limit")?;
    let rate: Option<f64> = required(options, "request_rate")?;
    Ok(Interning {
        ttl_mix: mix.map(|mix| (mix, seed)),
        ignores_ttls: required(options, "ignore_ttl")?,
        ignores_time: rate.is_some(),
        sample: share.map(|share| Sample::of_share(share, seed)),
        memory_limit: limit.unwrap_or(u64::MAX),
    })
}

/// Parses a TTL mix: a published one, or a list such as `60s:0.4 1h:0.6`.
pub fn ttl_mix(text: &str) -> Result<TtlMix, Failure> {
    let published = TtlMix::published(text);
    let mix = match text.contains(':') {
        true => TtlMix::parse(text),
        false => published,
    };
    mix.map_err(|error| Failure::Value(format!("ttl_mix: {error}")))
}

/// Reads an entry of the dictionary of options.
pub fn required<'py, T>(options: &Bound<'py, PyDict>, name: &str) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py>,
    for<'a> <T as FromPyObject<'a, 'py>>::Error: Into<PyErr>,
{
    let value = options.as_any().get_item(name)?;
    value.extract().map_err(Into::into)
}

/// A trace in memory with keys interned to dense ids, for any number of replays.
#[pyclass(frozen, module = "mayfly._native")]
pub struct Trace {
    pub columns: Arc<Columns>,
}

#[pymethods]
impl Trace {
    /// Reads a source.
    #[new]
    fn new(
        py: Python<'_>,
        source: &Source,
        options: &Bound<'_, PyDict>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Trace> {
        let (source, how) = (source.inner.clone(), interning(options)?);
        let read = move |control: &Control| source.columns(control, how);
        let columns = long_call::run(py, progress, read)?;
        Ok(Trace {
            columns: Arc::new(columns),
        })
    }

    #[getter]
    fn name(&self) -> &str {
        self.columns.name()
    }

    fn __len__(&self) -> usize {
        self.columns.len()
    }

    #[getter]
    fn objects(&self) -> usize {
        self.columns.objects()
    }

    #[getter]
    fn footprint_bytes(&self) -> u64 {
        self.columns.footprint_bytes()
    }

    #[getter]
    fn has_sizes(&self) -> bool {
        self.columns.has_sizes()
    }

    #[getter]
    fn has_ttls(&self) -> bool {
        self.columns.has_ttls()
    }

    #[getter]
    fn has_time(&self) -> bool {
        self.columns.has_time()
    }

    #[getter]
    fn memory_bytes(&self) -> u64 {
        self.columns.heap_bytes()
    }
}
