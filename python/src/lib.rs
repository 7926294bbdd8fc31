//! The native part of the Python package `mayfly`: adapts the simulator (`sim`), the readers of
//! traces (`trace`) and the cache (`library`) to Python objects.
//!
//! Deliberately absent: policies, replays, formats and caches of its own; defaults and user-visible
//! names, which the Python modules next to this crate define. Start reading with `replays.rs`.
//!
//! Memory of other libraries is read without a copy (`numbers.rs`, `arrow_in.rs`), and long calls
//! run on a thread without the interpreter's lock (`long_call.rs`). The cache never runs Python
//! code under one of its own locks (`cache.rs`), its reads are C functions (`reads.rs`), and cached
//! functions are called from `direct.rs`.

mod arrow_in;
mod arrow_out;
mod arrow_types;
mod cache;
mod call;
mod cells;
mod direct;
mod failure;
mod fields;
mod interpreter;
mod keys;
mod long_call;
mod numbers;
mod python_policy;
mod reads;
mod replays;
mod search;
mod source;
mod synthetic;
mod workload;

use pyo3::prelude::*;

/// The native module, which the Python modules of the package import.
#[pymodule]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::arrow_out::arrow_stream;
    #[pymodule_export]
    use super::cache::{Loading, ManualClock, end_expiry};
    #[pymodule_export]
    use super::failure::TraceError;
    #[pymodule_export]
    use super::python_policy::replay_class;
    #[pymodule_export]
    use super::replays::{curve, page_of_replays, replay};
    #[pymodule_export]
    use super::source::{Source, Trace};
    #[pymodule_export]
    use super::synthetic::{generate, generate_file};
    #[pymodule_export]
    use super::workload::{advise, analyze};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        super::interpreter::refuse_others()?;
        module.add("version", env!("CARGO_PKG_VERSION"))?;
        let calls = module.py().get_type::<super::call::Call>();
        module.add("Call", super::direct::class(&calls, super::call::look_up)?)?;
        let caches = module.py().get_type::<super::cache::Cache>();
        module.add("Cache", super::reads::class(&caches)?)?;
        module.add("field_names", super::fields::names())?;
        module.add("policies", super::replays::policy_names())
    }
}
